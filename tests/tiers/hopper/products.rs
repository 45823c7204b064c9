//! One product of a warpgroup, 64 rows by n columns: every operand type and mix, n, swizzle and major.

use fusewright::graph::{DataType, Tensor};
use fusewright::kernel::{Launch, MapElement, Parameter, Swizzle, TensorMap};
use libtest_mimic::Failed;

use super::{Carrier, Case, KernelTest, launch, padded};

/// Columns of the products of a test; their operands lie side by side in B.
const COLUMNS: [usize; 5] = [8, 24, 64, 128, 256];

/// Swizzles with the bytes of a row; each takes 64 rows of A.
const SWIZZLES: [(Swizzle, usize, &str); 4] = [
    (Swizzle::None, 16, "0"),
    (Swizzle::Bytes32, 32, "32"),
    (Swizzle::Bytes64, 64, "64"),
    (Swizzle::Bytes128, 128, "128"),
];

/// Bytes of k, four steps.
const K_BYTES: usize = 128;

/// Rows of A in a product.
const ROWS: usize = 64;

/// Rows of a box before the first that is multiplied: a filter's taps multiply the same rows of pixels, each from another on.
const ROWS_BEFORE: [usize; 5] = [1, 2, 3, 6, 7];

/// Types of a product.
#[derive(Clone, Copy)]
struct Types {
    name: &'static str,
    a: DataType,
    b: DataType,
    element: MapElement,
}

const fn types(name: &'static str, a: DataType, b: DataType, element: MapElement) -> Types {
    Types { name, a, b, element }
}

/// Every pair of operand types, as wgmma spells it.
const TYPES: [Types; 12] = [
    types("f16.f16.f16", DataType::Half, DataType::Half, MapElement::Half),
    types("f32.f16.f16", DataType::Half, DataType::Half, MapElement::Half),
    types("f32.bf16.bf16", DataType::BFloat16, DataType::BFloat16, MapElement::BFloat16),
    types("f32.tf32.tf32", DataType::Float, DataType::Float, MapElement::TFloat32),
    types("f32.e4m3.e4m3", DataType::Fp8E4M3, DataType::Fp8E4M3, MapElement::Byte),
    types("f32.e4m3.e5m2", DataType::Fp8E4M3, DataType::Fp8E5M2, MapElement::Byte),
    types("f32.e5m2.e4m3", DataType::Fp8E5M2, DataType::Fp8E4M3, MapElement::Byte),
    types("f32.e5m2.e5m2", DataType::Fp8E5M2, DataType::Fp8E5M2, MapElement::Byte),
    types("s32.s8.s8", DataType::Int8, DataType::Int8, MapElement::Byte),
    types("s32.s8.u8", DataType::Int8, DataType::UInt8, MapElement::Byte),
    types("s32.u8.s8", DataType::UInt8, DataType::Int8, MapElement::Byte),
    types("s32.u8.u8", DataType::UInt8, DataType::UInt8, MapElement::Byte),
];

/// Where A comes from.
#[derive(Clone, Copy, PartialEq)]
enum Left {
    Registers,
    KMajor,
    MMajor,
}

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for types in TYPES {
        for (left, left_name) in [(Left::Registers, "registers"), (Left::KMajor, "k_major"), (Left::MMajor, "m_major")]
        {
            for (b_is_mn_major, right_name) in [(false, "k_major"), (true, "n_major")] {
                let product = Product { types, left, b_is_mn_major, rows_before: 0 };
                if types.element.bytes() == 2 || !(b_is_mn_major || left == Left::MMajor) {
                    let name = format!("product::{}::{left_name}::{right_name}", types.name);
                    cases.push(Case::new(name, move || product.test()));
                }
            }
        }
        for rows_before in ROWS_BEFORE {
            let product = Product { types, left: Left::KMajor, b_is_mn_major: false, rows_before };
            let name = format!("product::{}::k_major::k_major::from_row_{rows_before}", types.name);
            cases.push(Case::new(name, move || product.test()));
        }
    }
    cases
}

/// An operand of one product in shared memory.
struct Tile {
    rows: usize,
    is_mn_major: bool,
    /// Bytes of a row of a box.
    width: usize,
    swizzle: Swizzle,
    element_bytes: usize,
}

impl Tile {
    fn k(&self) -> usize {
        K_BYTES / self.element_bytes
    }

    /// Elements in a row of a box.
    fn row_elements(&self) -> usize {
        self.width / self.element_bytes
    }

    fn boxes(&self) -> usize {
        if self.is_mn_major { self.rows.div_ceil(self.row_elements()) } else { K_BYTES / self.width }
    }

    /// Rows of a box.
    fn box_rows(&self) -> usize {
        if self.is_mn_major { self.k() } else { self.rows }
    }

    fn box_bytes(&self) -> usize {
        self.width * self.box_rows()
    }

    fn bytes(&self) -> usize {
        self.boxes() * self.box_bytes()
    }

    /// Coordinates of a box of the tile that starts at `row` of the operand.
    fn coordinates(&self, index: usize, row: usize) -> (usize, usize) {
        let along = index * self.row_elements();
        if self.is_mn_major { (row + along, 0) } else { (along, row) }
    }

    /// Leading and stride bytes of the descriptor.
    fn strides(&self) -> (usize, usize) {
        match (self.is_mn_major, self.swizzle) {
            (false, Swizzle::None) => (self.box_bytes(), 128),
            (true, Swizzle::None) => (128, self.box_bytes()),
            (false, _) => (16, 8 * self.width),
            (true, _) => (self.box_bytes(), 8 * self.width),
        }
    }

    /// What a step of k adds to the descriptor, in units of 16 bytes.
    fn plus(&self, step: usize) -> usize {
        let byte = 32 * step;
        let in_tile = if self.is_mn_major {
            16 * step * self.width
        } else {
            byte / self.width * self.box_bytes() + byte % self.width
        };
        in_tile / 16
    }

    /// The loads of its boxes to shared address `at`, from so many rows before `row` on.
    fn loads(&self, at: &str, map: &str, row: usize, rows_before: usize) -> String {
        let load = |index| {
            let (c0, c1) = self.coordinates(index, row);
            let c1 = c1 as i64 - rows_before as i64;
            format!("    fw_tma_load({at} + {}, &{map}, full, {c0}, {c1});\n", index * self.box_bytes())
        };
        (0..self.boxes()).map(load).collect()
    }
}

#[derive(Clone, Copy)]
struct Product {
    types: Types,
    left: Left,
    b_is_mn_major: bool,
    /// Of A, which then lies along k.
    rows_before: usize,
}

/// Sum of [`COLUMNS`].
fn all_columns() -> usize {
    COLUMNS.iter().sum()
}

/// Small values of a type, by position: exact in it, and so are their sums in 32 bits.
fn value(data_type: DataType, position: usize) -> f64 {
    let mixed = position * 37 + position / 11;
    match data_type {
        DataType::Int8 => (mixed % 256) as f64 - 128.0,
        DataType::UInt8 => (mixed % 256) as f64,
        DataType::Half | DataType::BFloat16 | DataType::Float => (mixed % 17) as f64 - 8.0,
        _ => (mixed % 7) as f64 - 3.0,
    }
}

impl Product {
    fn k(&self) -> usize {
        K_BYTES / self.types.element.bytes() as usize
    }

    fn is_integer(&self) -> bool {
        self.types.name.starts_with("s32")
    }

    /// As [`value`]; smaller where sums are FP16: 64 products of up to 9.
    fn value(&self, data_type: DataType, position: usize) -> f64 {
        if self.sums_in_half() { value(data_type, position) % 4.0 } else { value(data_type, position) }
    }

    fn sums_in_half(&self) -> bool {
        self.types.name.starts_with("f16")
    }

    /// Registers of a thread for the accumulators of so many columns.
    fn registers(&self, columns: usize) -> usize {
        if self.sums_in_half() { columns / 4 } else { columns / 2 }
    }

    fn tile(&self, rows: usize, is_mn_major: bool, (swizzle, width, _): (Swizzle, usize, &str)) -> Tile {
        Tile { rows, is_mn_major, width, swizzle, element_bytes: self.types.element.bytes() as usize }
    }

    /// The map of an operand of `rows` rows in boxes of this tile.
    fn map(&self, tensor: fusewright::graph::TensorId, rows: usize, tile: &Tile) -> Parameter {
        let dims = if tile.is_mn_major { [rows, self.k()] } else { [self.k(), rows] }.map(|dim| dim as u64);
        Parameter::TensorMap(TensorMap {
            tensor,
            element: self.types.element,
            rank: 2,
            dims: padded(&dims),
            strides: padded(&[dims[0] * u64::from(self.types.element.bytes())]),
            box_dims: padded(&[tile.row_elements() as u32, tile.box_rows() as u32]),
            swizzle: tile.swizzle,
            pixels: None,
            lead: 0,
            next_line_later: true,
        })
    }

    fn test(&self) -> Result<KernelTest, Failed> {
        let (m, n, k) = (SWIZZLES.len() * ROWS, all_columns(), self.k());
        let (a_type, b_type) = (self.types.a, self.types.b);
        let stride = |is_mn_major, rows: usize| if is_mn_major { [1, rows as i64] } else { [k as i64, 1] };
        let [row, along_k] = stride(self.left == Left::MMajor, m);
        let a = Tensor::new("A").dim([1, m as i64, k as i64]).stride([(m * k) as i64, row, along_k]).data_type(a_type);
        let [column, along_k] = stride(self.b_is_mn_major, n);
        let b =
            Tensor::new("B").dim([1, k as i64, n as i64]).stride([(n * k) as i64, along_k, column]).data_type(b_type);
        let carrier = Carrier::new(a, b, if self.is_integer() { DataType::Int32 } else { DataType::Float })?;

        let mut texts = Vec::new();
        let mut launches = Vec::new();
        for (i, &swizzle) in SWIZZLES.iter().enumerate() {
            for (j, &columns) in COLUMNS.iter().enumerate() {
                let first_column = COLUMNS[..j].iter().sum();
                let (text, launch) = self.function(&carrier, swizzle, i * ROWS, columns, first_column);
                texts.push(text);
                launches.push(launch);
            }
        }
        let inputs = [
            carrier.host(carrier.a, |position| self.value(a_type, position))?,
            carrier.host(carrier.b, |position| self.value(b_type, position))?,
        ];
        let term = |i: usize, kk: usize| self.value(a_type, i / n * k + kk) * self.value(b_type, kk * n + i % n);
        let element = |i: usize| (0..k).map(|kk| term(i, kk)).sum::<f64>();
        let bytes = |sum: f64| if self.is_integer() { (sum as i32).to_le_bytes() } else { (sum as f32).to_le_bytes() };
        let expected = (0..m * n).flat_map(|i| bytes(element(i))).collect();
        let put = self.put();
        let sections =
            ["FW_SHARED", "fw_shared_address", "fw_elect", "fw_tma_load", put, "fw_accumulators", "fw_wgmma"];
        Ok(carrier.test(&sections, &texts.join("\n"), launches, inputs, expected))
    }

    /// A kernel of one block, for one swizzle and one number of columns.
    fn function(
        &self,
        carrier: &Carrier,
        swizzle: (Swizzle, usize, &str),
        row: usize,
        columns: usize,
        first_column: usize,
    ) -> (String, Launch) {
        let a = self.tile(self.rows_of_box(), self.left == Left::MMajor, swizzle);
        let b = self.tile(columns, self.b_is_mn_major, swizzle);
        let from_registers = self.left == Left::Registers;
        let name = format!("product_{}_{columns}", swizzle.2);
        let (b_at, total) = if from_registers { (0, b.bytes()) } else { (a.bytes(), a.bytes() + b.bytes()) };
        let sum = if self.is_integer() { "int" } else { "float" };
        let declared = if self.sums_in_half() { "half" } else { sum };
        let (leading_b, stride_b) = b.strides();
        let (a_parameter, a_loads, products) = if from_registers {
            (
                "const unsigned char* __restrict__ a_global".to_owned(),
                String::new(),
                self.products_from_registers(&b, row, columns),
            )
        } else {
            (
                "const __grid_constant__ fw_tensor_map map_a".to_owned(),
                a.loads("shared", "map_a", row, self.rows_before),
                self.products_from_shared(&a, &b, swizzle.2, columns),
            )
        };
        let puts: String = (0..columns / 8)
            .map(|j| format!("  {}<{}, {}>(at + {});\n", self.put(), self.registers(8 * j), all_columns(), 8 * j))
            .collect();
        let text = format!(
            r#"extern "C" __global__ void __launch_bounds__(128)
{name}({a_parameter}, const __grid_constant__ fw_tensor_map map_b, {sum}* __restrict__ c) {{
  FW_SHARED(shared_bytes);
  FW_ACCUMULATORS_{declared}({accumulators});
  const unsigned shared = fw_shared_address(shared_bytes), shared_b = shared + {b_at}, full = shared + {total};
  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  if (threadIdx.x == 0) {{
    fw_mbarrier_init(full, 1);
    fw_mbarrier_init_fence();
  }}
  __syncthreads();
  if (threadIdx.x < 32 && fw_elect()) {{
    fw_mbarrier_expect(full, {total});
{a_loads}{b_loads}  }}
  fw_mbarrier_wait(full, 0);
  const unsigned long long b = fw_matrix_descriptor<{swizzle}>(shared_b, {leading_b}, {stride_b});
{products}  fw_wgmma_wait<0>();
  {sum}* const at = c + ({row} + warp * 16 + lane / 4) * {pitch} + {first_column} + lane % 4 * 2;
{puts}}}
"#,
            accumulators = self.registers(columns),
            b_loads = b.loads("shared_b", "map_b", first_column, 0),
            swizzle = swizzle.2,
            pitch = all_columns(),
        );
        let a_argument =
            if from_registers { Parameter::Tensor(carrier.a) } else { self.map(carrier.a, SWIZZLES.len() * ROWS, &a) };
        let parameters = vec![a_argument, self.map(carrier.b, all_columns(), &b), Parameter::Tensor(carrier.c)];
        (text, launch(&name, 1, 128, total + 8, parameters))
    }

    /// Rows of a box of A: with those before the first that is multiplied, whole periods of every swizzle.
    fn rows_of_box(&self) -> usize {
        const PERIOD: usize = 8;
        (ROWS + self.rows_before).next_multiple_of(PERIOD)
    }

    /// What puts a fragment of the accumulators into rows of C.
    fn put(&self) -> &'static str {
        if self.sums_in_half() { "fw_put_half_rows" } else { "fw_put_rows" }
    }

    /// What follows the registers of a product.
    fn tail(&self) -> String {
        let flag = |is_major: bool| if is_major { ", 1" } else { ", 0" };
        match self.types.element {
            _ if self.is_integer() => String::new(),
            MapElement::Half | MapElement::BFloat16 => {
                let a = if self.left == Left::Registers { "" } else { flag(self.left == Left::MMajor) };
                format!(", 1, 1{a}{}", flag(self.b_is_mn_major))
            }
            _ => ", 1, 1".to_owned(),
        }
    }

    /// Shape and registers of a product.
    fn shape(&self, columns: usize) -> String {
        let registers: Vec<String> = (0..self.registers(columns)).map(|i| format!("acc{i}")).collect();
        let k = 32 / self.types.element.bytes();
        format!("\"m64n{columns}k{k}.{}\", \"{}\"", self.types.name, registers.join(", "))
    }

    /// All steps in one statement; the first starts from zero.
    fn products_from_shared(&self, a: &Tile, b: &Tile, swizzle: &str, columns: usize) -> String {
        let step = |step: usize| {
            let scale = if step == 0 { "p" } else { "1" };
            let (shape, tail) = (self.shape(columns), self.tail());
            format!("    FW_PRODUCT({shape}, {}, {}, \"{scale}\", \"{tail}\")", a.plus(step), b.plus(step))
        };
        let steps: Vec<String> = (0..4).map(step).collect();
        let (leading, stride) = a.strides();
        let first = match self.rows_before * a.width {
            0 => "shared".to_owned(),
            bytes => format!("shared + {bytes}"),
        };
        format!(
            "  const unsigned long long a = fw_matrix_descriptor<{swizzle}>({first}, {leading}, {stride});\n  \
             FW_PRODUCTS(a, b, 0,\n{});\n",
            steps.join("\n")
        )
    }

    /// A statement a step, with the fragment read from global memory.
    fn products_from_registers(&self, b: &Tile, row: usize, columns: usize) -> String {
        let step = |step: usize| {
            let (shape, tail) = (self.shape(columns), self.tail());
            format!(
                r#"  unsigned fragment_{step}[4];
#pragma unroll
  for (int i = 0; i < 4; ++i)
    fragment_{step}[i] = *reinterpret_cast<const unsigned*>(
        a_global + ({row} + warp * 16 + lane / 4 + i % 2 * 8) * {K_BYTES} + {} + lane % 4 * 4 + i / 2 * 16);
  FW_PRODUCTS_A(fragment_{step}, b, {}, FW_PRODUCT_A({shape}, {}, "p", "{tail}"));
"#,
                32 * step,
                u8::from(step > 0),
                b.plus(step)
            )
        };
        (0..4).map(step).collect()
    }
}
