//! Spells the function by which a lane mends its sums: those that are NaN are summed up once more, over elements inside both operands.

use std::collections::BTreeSet;

use serde::Serialize;

use super::{Origin, Outside, PointText, accumulator_at, index};
use crate::codegen::index::{index_type, spell};
use crate::codegen::names;
use crate::codegen::product::operand::Side;
use crate::codegen::product::unit::{Steps, TILE_ORIGIN};
use crate::codegen::sections::Used;
use crate::codegen::sweep::SweepSpeller;
use crate::codegen::template::{self, template};
use crate::codegen::told;
use crate::error::Error;
use crate::graph::{DataType, FinalizedGraph, TensorId};
use crate::kernel::{
    Access, Fetch, Fma, GemmKernel, GemmSpace, GemmTile, Index, Inside, Mma, MmaType, Multiply, Operand,
    OperandsBefore, Register, Role, Telling, WGMMA_ROWS, Wgmma,
};

/// Name of the function.
const FUNCTION: &str = "fw_sum_inside";

/// What `product/epilogue/inside.cuh` reads.
#[derive(Serialize)]
struct InsideText {
    function: &'static str,
    parameters: String,
    index: &'static str,
    /// Sums of a lane; row and column of number `i` from its first one, and its place.
    count: u32,
    row: String,
    column: String,
    at: String,
    /// Which of the two a line is, as the epilogue counts, and which a point of it.
    line: &'static str,
    piece: &'static str,
    point: PointText,
    /// The part of k.
    first: String,
    last: String,
    factors: Vec<FactorText>,
}

/// An operand's element of a product.
#[derive(Serialize)]
struct FactorText {
    /// Definitions of its coordinates, and the condition under which it exists.
    lines: Vec<String>,
    guard: Option<String>,
    values: Vec<String>,
    value: String,
}

/// What `product/epilogue/fragments_inside.cuh` reads.
#[derive(Serialize)]
struct FragmentsText {
    tell: Vec<String>,
    count: u32,
    /// How fragments go to memory and come back.
    keeps: String,
    gives: String,
    call: String,
}

/// Sums that a lane holds: row and column of number `i` from those of its first one, and its place in the array that they are in.
struct Held {
    count: u32,
    row: Index,
    column: Index,
    at: String,
}

impl Held {
    /// Those of fragments of 16 rows by 8 columns, so many along m and n, `step` rows from one to the one below.
    fn fragments([rows, columns]: [u32; 2], step: u32, at: String) -> Self {
        let i = || Index::local("i");
        let below = if rows > 1 { i() / i64::from(4 * columns) * i64::from(step) } else { Index::ZERO };
        let fragment = if columns > 1 { i() / 4 % i64::from(columns) * 8 } else { Index::ZERO };
        Self {
            count: 4 * rows * columns,
            row: Index::sum([below, i() / 2 % 2 * 8]),
            column: Index::sum([fragment, i() % 2]),
            at,
        }
    }

    /// Those of a thread of multiply-adds.
    fn of_thread(fma: &Fma, tile: GemmTile, at: String) -> Self {
        let Fma { thread_m, thread_n, .. } = *fma;
        let i = || Index::local("i");
        Self {
            count: thread_m * thread_n,
            row: i() / i64::from(thread_n) * i64::from(tile.m / thread_m),
            column: i() % i64::from(thread_n) * i64::from(tile.n / thread_n),
            at,
        }
    }
}

/// The mending of sums where zeros outside an operand may have met what is not finite. The function is never inlined, so that the
/// registers of the loops around stay as they are; lanes call it where a sum that tells is not finite.
#[derive(Clone, Copy)]
pub(in crate::codegen::product) struct Mending<'a> {
    graph: &'a FinalizedGraph,
    kernel: &'a GemmKernel,
    inside: &'a Inside,
}

impl<'a> Mending<'a> {
    /// That of a kernel, if zeros lie outside its operands.
    pub(in crate::codegen::product) fn of(graph: &'a FinalizedGraph, kernel: &'a GemmKernel) -> Option<Self> {
        kernel.inside.as_ref().map(|inside| Self { graph, kernel, inside })
    }

    /// The function.
    ///
    /// # Errors
    /// [`Error::Generated`] if the template fails: a defect of ours.
    pub(in crate::codegen::product) fn function(&self, used: &mut Used) -> Result<String, Error> {
        let Held { count, row, column, at } = self.held();
        let [line, piece] = if self.kernel.along_n { ["row", "column"] } else { ["column", "row"] };
        let uses = BTreeSet::from([index(Role::Row), index(Role::Column)]);
        let [first, last] = self.part_of_k();
        let kernel = self.by_elements();
        let factor = |slot| self.factor(used, Side { graph: self.graph, kernel: &kernel, slot });
        let record = InsideText {
            function: FUNCTION,
            factors: [0, 1].map(factor).into(),
            parameters: if self.graph.is_dynamic() {
                told::with_room(&self.parameters(used))
            } else {
                self.parameters(used)
            },
            index: index_type(kernel.wide_index),
            count,
            row: spell(&row),
            column: spell(&column),
            line,
            piece,
            at,
            point: PointText::new(&kernel, &uses, Origin::TILE, 1, Outside::PassedOver),
            first,
            last,
        };
        template::render(template!("product/epilogue/inside.cuh"), &record)
    }

    /// Lines that look at the sums that tell of a lane's fragments, so many along m and n, from a first accumulator on.
    pub(in crate::codegen::product) fn tell(
        &self,
        used: &mut Used,
        first_sum: u32,
        [rows, columns]: [u32; 2],
    ) -> Vec<String> {
        let multiply = &self.kernel.multiply;
        let telling = self.inside.telling;
        let tells = |&(row, column): &(u32, u32)| match telling {
            Telling::Row => row == 0,
            Telling::Column => column == 0,
            Telling::All => true,
        };
        let all = (0..rows).flat_map(|row| (0..columns).map(move |column| (row, column)));
        let accumulator = |(row, column)| first_sum + multiply.fragment_registers() * (row * columns + column);
        let pairs: &[[u32; 2]] = match telling {
            Telling::Row => &[[0, 1]],
            Telling::Column => &[[0, 2]],
            Telling::All => &[[0, 1], [2, 3]],
        };
        let fragments = all.filter(tells).map(accumulator);
        if multiply.sums_in_half() {
            let told =
                pairs.iter().map(|[a, b]| format!(" told = fmaf(take[{a}], take[{b}], told);")).collect::<String>();
            let lines = fragments.map(|first| format!("fw_take_half<{first}>(take);{told}"));
            return ["float take[4];".to_owned()].into_iter().chain(lines).collect();
        }
        used.add("fw_tell");
        let pair = |first: u32| pairs.iter().map(move |[a, b]| format!("FW_PAIR({}, {})", first + a, first + b));
        vec![format!("FW_TELL(told,{});", of_four(fragments.flat_map(pair)))]
    }

    /// What a lane does about its accumulators of `wgmma`, from a first one on, before the epilogue: where those that tell are not finite,
    /// the function mends a copy of all. `first_row` spells the lane's first row in the tile.
    ///
    /// # Errors
    /// [`Error::Generated`] if the template fails: a defect of ours.
    pub(in crate::codegen::product) fn fragments(
        &self,
        used: &mut Used,
        first_sum: u32,
        first_row: &str,
    ) -> Result<String, Error> {
        let multiply = &self.kernel.multiply;
        let in_half = multiply.sums_in_half();
        used.add(if in_half { "fw_keep_half" } else { "fw_keep" });
        let extents = self.fragment_counts();
        let fragments = extents[0] * extents[1];
        let registers = multiply.fragment_registers();
        let all = |name: &str| {
            let suffix = if in_half { "_HALF" } else { "" };
            let fragment = |number: u32| {
                let first = first_sum + registers * number;
                let numbers: Vec<String> = (first..first + registers).map(|number| number.to_string()).collect();
                format!("{name}{suffix}({}, {})", 16 * number, numbers.join(", "))
            };
            of_four((0..fragments).map(fragment))
        };
        let record = FragmentsText {
            tell: self.tell(used, first_sum, extents),
            count: 4 * fragments,
            keeps: all("FW_TO"),
            gives: all("FW_FROM"),
            call: self.call("again", [first_row, "lane % 4 * 2"], TILE_ORIGIN),
        };
        template::render(template!("product/epilogue/fragments_inside.cuh"), &record)
    }

    /// Fragments of a lane along m and n.
    fn fragment_counts(&self) -> [u32; 2] {
        let GemmKernel { multiply, tile, .. } = self.kernel;
        match multiply {
            Multiply::Mma(Mma { warp_m, warp_n, .. }) => [warp_m / 16, warp_n / 8],
            _ => [multiply.consumer_rows(*tile) / WGMMA_ROWS, tile.n / 8],
        }
    }

    /// The call for the sums that a lane has put to `sums`, its first one at a row and a column from those of an origin on.
    pub(in crate::codegen::product) fn call(&self, sums: &str, first: [&str; 2], origin: [&str; 2]) -> String {
        let ([row, column], [m0, n0]) = (first, origin);
        let others = [self.matrix(), self.split()].concat().into_iter().map(|(_, name)| name.to_owned());
        let tensors = self.tensors().into_iter().map(|id| self.argument(id));
        let arguments: Vec<String> = others.chain(tensors).collect();
        let arguments = arguments.join(", ");
        let arguments = if self.graph.is_dynamic() { told::given_room(&arguments) } else { arguments };
        format!("{FUNCTION}({sums}, {row}, {column}, {m0}, {n0}, {arguments});")
    }

    fn held(&self) -> Held {
        let kernel = self.kernel;
        let tile_at = || spell(&accumulator_at(kernel, Index::local("row"), Index::local("column")));
        match &kernel.multiply {
            Multiply::Fma(fma) => Held::of_thread(fma, kernel.tile, tile_at()),
            Multiply::Mma(_) => Held::fragments(self.fragment_counts(), 16, tile_at()),
            Multiply::Wgmma(_) => Held::fragments(self.fragment_counts(), WGMMA_ROWS, "i".to_owned()),
        }
    }

    /// First and last k of the sums.
    fn part_of_k(&self) -> [String; 2] {
        // the taps of a row are beside k
        let taps = self.kernel.taps();
        let (index, tile_k) = (index_type(self.kernel.wide_index), taps * self.kernel.tile.k);
        let [.., k] = self.kernel.space.numbers();
        let k = k * i64::from(taps);
        match self.kernel.multiply {
            Multiply::Fma(_) => ["first", "last"].map(str::to_owned),
            _ if (Steps { kernel: self.kernel }).are_split() => {
                [format!("({index})first * {tile_k}"), format!("({index})(first + steps) * {tile_k}")]
            }
            _ => ["0".to_owned(), k.to_string()],
        }
    }

    /// Type and name of the number of the matrix, where there are several.
    fn matrix(&self) -> Vec<(&'static str, &'static str)> {
        let [batch, ..] = self.kernel.space.numbers();
        let matrix = (index_type(self.kernel.wide_index), names::role_index(Role::Batch));
        if batch > 1 { vec![matrix] } else { Vec::new() }
    }

    /// Types and names of what tells the part of k.
    fn split(&self) -> Vec<(&'static str, &'static str)> {
        match self.kernel.multiply {
            Multiply::Fma(_) => ["first", "last"].map(|name| (index_type(self.kernel.wide_index), name)).into(),
            _ if (Steps { kernel: self.kernel }).are_split() => vec![("int", "first"), ("int", "steps")],
            _ => Vec::new(),
        }
    }

    /// Tensors that operands are computed from, each once.
    fn tensors(&self) -> Vec<TensorId> {
        let operands = self.kernel.operands_inside().into_iter().flatten();
        let mut tensors: Vec<TensorId> = Vec::new();
        for id in operands.flat_map(|operand| operand.sweep.program.reads()) {
            if !tensors.contains(&id) {
                tensors.push(id);
            }
        }
        tensors
    }

    /// The name of a tensor's parameter, in the kernel as in the function.
    fn argument(&self, id: TensorId) -> String {
        match self.graph.tensor(id).is_pass_by_value {
            true => self.graph.canonical_name(id),
            false => names::pointer(self.graph, id),
        }
    }

    fn parameters(&self, used: &mut Used) -> String {
        let index = index_type(self.kernel.wide_index);
        let origin = [Origin::TILE.m, Origin::TILE.n].map(|name| (index, name));
        let numbers = [&origin[..], &self.matrix(), &self.split()].concat();
        let numbers = numbers.into_iter().map(|(kind, name)| format!("{kind} {name}"));
        let tensors: Vec<String> = self.tensors().into_iter().map(|id| self.parameter(used, id)).collect();
        numbers.chain(tensors).collect::<Vec<_>>().join(", ")
    }

    fn parameter(&self, used: &mut Used, id: TensorId) -> String {
        let tensor = self.graph.tensor(id);
        used.add(names::storage_section(tensor.data_type));
        let name = self.argument(id);
        match tensor.is_pass_by_value {
            true => format!("{} {name}", names::register_type(Register::of(tensor.data_type))),
            false => format!("const {}* {name}", names::storage_type(tensor.data_type)),
        }
    }

    /// The same product with operands that are read, and computed, element by element.
    fn by_elements(&self) -> GemmKernel {
        let mut kernel = self.kernel.clone();
        if let Some(before) = self.inside.before.as_deref().cloned() {
            let OperandsBefore { a, b, k, derived } = before;
            (kernel.a, kernel.b) = (a, b);
            kernel.space = GemmSpace { k, derived, ..kernel.space };
        }
        for operand in [&mut kernel.a, &mut kernel.b] {
            operand.fetch = Fetch::Element;
            operand.sweep.vector = 1;
            let vectors = operand.sweep.access.values_mut().filter(|access| **access == Access::Vector);
            vectors.for_each(|access| *access = Access::Strided);
        }
        kernel
    }

    fn factor(&self, used: &mut Used, side: Side<'_>) -> FactorText {
        let Operand { tensor, coordinates, sweep, .. } = side.operand();
        used.add(names::storage_section(DataType::Float));
        let variables = coordinates.iter().map(|coordinate| coordinate.quantity);
        let mut speller = SweepSpeller::new(self.graph, used, sweep, &[]).with_variables(variables);
        speller.speller.consume(*tensor);
        let (before, body) = speller.values_alone();
        let value = self.multiplied(&mut speller, *tensor);
        let placement = side.placement(&speller.uses);
        FactorText { lines: placement.lines, guard: placement.guard, values: [before, body].concat(), value }
    }

    /// A value in float as it is multiplied: rounded, where it is to a type of fewer bits.
    fn multiplied(&self, speller: &mut SweepSpeller<'_>, tensor: TensorId) -> String {
        let value = format!("fw_to_f32({})", speller.speller.value(tensor));
        let element = match self.kernel.multiply {
            Multiply::Mma(Mma { operand, .. }) | Multiply::Wgmma(Wgmma { operand, .. }) => operand,
            Multiply::Fma(_) => return value,
        };
        let rounded = match element {
            MmaType::F16 => DataType::Half,
            MmaType::Bf16 => DataType::BFloat16,
            MmaType::Tf32 | MmaType::S8 | MmaType::Fp8 => return value,
        };
        if self.graph.tensor(tensor).data_type == rounded {
            return value;
        }
        speller.speller.used.add(names::storage_section(rounded));
        format!("fw_value({})", names::to_storage(rounded, &value))
    }
}

/// What a macro is given, four to a line.
fn of_four(all: impl Iterator<Item = String>) -> String {
    let all: Vec<String> = all.collect();
    all.chunks(4).map(|line| format!("\n{}", line.join(" "))).collect()
}
