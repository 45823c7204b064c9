//! Matmuls with extents around every tile edge, by operand types and layouts.
//!
//! A GPU runs, of each operand type, 256 graphs in which every pair of values of two extents meets once, and every value of an
//! extent meets every style once; the emulator a few of the small ones. Each graph is computed with the config that the
//! engine's model puts first, and with another.

use fusewright::build::Build;
use fusewright::device::Device;
use fusewright::graph::DataType::{self, BFloat16, Float, Fp8E4M3, Fp8E5M2, Half, Int8, Int32};
use fusewright::graph::{Graph, PointwiseMode, ReductionMode, Tensor, TensorHandle};
use libtest_mimic::{Failed, Trial};

use crate::cases;
use crate::pipeline;

/// Values of m, n and k: one, vectors, rows of instructions and tiles, each with its neighbours, and a ragged large one.
const EXTENTS: [i64; 16] = [1, 7, 8, 15, 16, 17, 63, 64, 65, 127, 128, 129, 255, 256, 257, 1000];

/// Graphs of each operand type in both tiers, where the default is not wanted: up to 4096, every style with every pair of
/// two extents.
const SWITCH: &str = "FUSEWRIGHT_SWEEP";

/// Graphs of an operand type on a GPU: every pair of two extents.
const ON_DEVICE: usize = EXTENTS.len() * EXTENTS.len();

/// Graphs of an operand type in the emulator.
const EMULATED: usize = 16;

/// Multiply-adds of a graph that the emulator computes in about a second.
const EMULATED_WORK: i64 = 1 << 20;

/// Bytes that rows start at a multiple of where they are padded.
const ROW_UNIT: i64 = 16;

/// What is multiplied.
#[derive(Clone, Copy)]
struct Types {
    name: &'static str,
    a: DataType,
    b: DataType,
    compute: DataType,
    c: DataType,
    /// Matrices A and B; where there is one B, all A share it.
    batches: [i64; 2],
    /// Whether A and B go through mainloop stages, to the type of A.
    has_stages: bool,
    /// Whether side inputs of three shapes are added, and columns summed.
    has_epilogue: bool,
}

const fn types(name: &'static str, [a, b, compute, c]: [DataType; 4]) -> Types {
    Types { name, a, b, compute, c, batches: [1, 1], has_stages: false, has_epilogue: false }
}

const TYPES: [Types; 9] = [
    types("bf16", [BFloat16, BFloat16, Float, BFloat16]),
    types("f16", [Half, Half, Float, Half]),
    types("tf32", [Float, Float, Float, Float]),
    types("fp8", [Fp8E4M3, Fp8E5M2, Float, BFloat16]),
    types("int8", [Int8, Int8, Int32, Int32]),
    Types { batches: [3, 3], ..types("batches", [BFloat16, BFloat16, Float, BFloat16]) },
    Types { has_epilogue: true, ..types("epilogue", [Half, Half, Float, Half]) },
    Types { batches: [2, 1], has_stages: true, ..types("stages", [Half, Int8, Float, Half]) },
    types("half_sums", [Half, Half, Half, Half]),
];

/// How A, B and C lie in memory, as four bits.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Style(usize);

impl Style {
    const COUNT: usize = 16;

    /// Whether A (0), B (1) or C (2) is column-major.
    fn is_column_major(self, matrix: usize) -> bool {
        self.0 >> matrix & 1 == 1
    }

    /// Whether rows (of a column-major matrix, columns) are padded to whole multiples of [`ROW_UNIT`].
    fn is_padded(self) -> bool {
        self.0 >> 3 == 1
    }

    fn name(self) -> String {
        let majors: String = (0..3).map(|matrix| if self.is_column_major(matrix) { 'c' } else { 'r' }).collect();
        format!("{majors}_{}", if self.is_padded() { "padded" } else { "packed" })
    }

    /// Matrices of this style.
    fn tensor(self, matrix: usize, [batch, rows, columns]: [i64; 3], data_type: DataType) -> Tensor {
        let unit = if self.is_padded() { ROW_UNIT / data_type.bytes() as i64 } else { 1 };
        let pitch = |extent: i64| (extent + unit - 1) / unit * unit;
        let stride = if self.is_column_major(matrix) {
            [pitch(rows) * columns, 1, pitch(rows)]
        } else {
            [rows * pitch(columns), pitch(columns), 1]
        };
        Tensor::new(["A", "B", "C"][matrix]).dim([batch, rows, columns]).stride(stride).data_type(data_type)
    }
}

/// One matmul of the sweep.
#[derive(Clone, Copy)]
struct Shape {
    types: Types,
    style: Style,
    /// m, n and k.
    extents: [i64; 3],
    /// Picks the config beside the first.
    number: usize,
}

impl Shape {
    /// The shape of a style at two places of [`EXTENTS`]; k is such that every pair of two extents occurs once.
    fn new(types: Types, style: Style, [m, n]: [usize; 2]) -> Self {
        let k = m ^ n;
        let extents = [m, n, k].map(|place| EXTENTS[place]);
        Self { types, style, extents, number: EXTENTS.len() * m + n + style.0 }
    }

    fn work(&self) -> i64 {
        self.types.batches[0] * self.extents.iter().product::<i64>()
    }

    fn graph(&self) -> Graph {
        let Types { a, b, compute, c, batches, has_stages, has_epilogue, .. } = self.types;
        let [m, n, k] = self.extents;
        let mut graph = cases::graph(a).intermediate_data_type(a);
        let mut a = graph.tensor(self.style.tensor(0, [batches[0], m, k], a));
        let mut b = graph.tensor(self.style.tensor(1, [batches[1], k, n], b));
        if has_stages {
            a = graph.pointwise("positive", PointwiseMode::ReluFwd, &[a]);
            b = graph.pointwise("widened", PointwiseMode::Identity, &[b]);
        }
        let product = graph.matmul("mm", a, b);
        graph.last_operation().compute_data_type = Some(compute);
        let result = if has_epilogue { self.epilogue(&mut graph, product) } else { product };
        let stored = self.style.tensor(2, [batches[0], m, n], c);
        let tensor = graph.set_output(result);
        (tensor.data_type, tensor.stride) = (stored.data_type, stored.stride);
        graph
    }

    /// `Y = C + residual + row + column`, with the sum of each column of Y that has several elements.
    fn epilogue(&self, graph: &mut Graph, product: TensorHandle) -> TensorHandle {
        let [m, n, _] = self.extents;
        let residual = Tensor { name: "residual".to_owned(), ..self.style.tensor(2, [1, m, n], self.types.c) };
        let sides = [
            residual,
            Tensor::new("row").row_major([1, m, 1]).data_type(Float),
            Tensor::new("column").row_major([1, 1, n]).data_type(self.types.c),
        ];
        graph.tensor_mut(product).data_type = Some(Float);
        let mut sum = product;
        for side in sides {
            let name = format!("with {}", side.name);
            let side = graph.tensor(side);
            sum = graph.pointwise(&name, PointwiseMode::Add, &[sum, side]);
            graph.tensor_mut(sum).data_type = Some(Float);
        }
        if m > 1 {
            let total = graph.reduction("total", ReductionMode::Add, sum, [1, 1, n]);
            cases::output(graph, total, Float);
        }
        sum
    }

    /// Runs the first config and another.
    fn run(&self, device: &Device, run: impl Fn(&Build) -> Result<(), Failed>) -> Result<(), Failed> {
        let lowered = pipeline::lower_every_config(&self.graph(), device)?;
        let other = self.number % lowered.len();
        for lowered in [&lowered[0]].into_iter().chain(lowered.get(other).filter(|_| other > 0)) {
            run(lowered).map_err(|failed| {
                let [m, n, k] = self.extents;
                format!("{m} x {n} x {k}, {}: {}", lowered.config, failed.message().unwrap_or_default())
            })?;
        }
        Ok(())
    }
}

/// The style that meets two places of [`EXTENTS`]: with `m ^ n` and this, any two of m, n, k and style determine the others
/// (sums in the field of 16 elements, x⁴ = x + 1).
fn style_at([m, n]: [usize; 2]) -> Style {
    let doubled = n << 1 ^ if n & 8 == 0 { 0 } else { 0b1_0011 };
    Style(m ^ doubled)
}

/// All shapes of an operand type. In each 256 every pair of values of m, n, k and style occurs once.
fn shapes(types: Types) -> impl Iterator<Item = Shape> {
    let places = || (0..EXTENTS.len()).flat_map(|m| (0..EXTENTS.len()).map(move |n| [m, n]));
    let shifted = move |shift| places().map(move |at| Shape::new(types, Style(style_at(at).0 ^ shift), at));
    (0..Style::COUNT).flat_map(shifted)
}

fn count(default: usize) -> usize {
    std::env::var(SWITCH).ok().and_then(|count| count.parse().ok()).unwrap_or(default)
}

/// A trial for each operand type and style.
pub(crate) fn trials(
    device: impl Fn() -> Result<Device, Failed> + Copy + Send + 'static,
    run: impl Fn(&Build) -> Result<(), Failed> + Copy + Send + 'static,
) -> Vec<Trial> {
    let count = count(ON_DEVICE);
    let trial = |(types, style): (Types, Style)| {
        Trial::test(format!("device::sweep_{}::{}", types.name, style.name()), move || {
            let device = device()?;
            let mut of_style = shapes(types).take(count).filter(|shape| shape.style == style);
            of_style.try_for_each(|shape| shape.run(&device, run))
        })
    };
    let styles = |types: Types| (0..Style::COUNT).map(move |style| (types, Style(style)));
    TYPES.into_iter().flat_map(styles).map(trial).collect()
}

/// A trial for each of a few small graphs.
pub(crate) fn emulated(run: impl Fn(&Build) -> Result<(), Failed> + Copy + Send + 'static) -> Vec<Trial> {
    let trial = |shape: Shape| {
        let [m, n, k] = shape.extents;
        let name = format!("emulator::sweep_{}::{}::{m}x{n}x{k}", shape.types.name, shape.style.name());
        Trial::test(name, move || shape.run(&pipeline::typical_device(), run))
    };
    TYPES.into_iter().enumerate().flat_map(small).map(trial).collect()
}

/// Some of the small shapes of an operand type, spread over extents and styles; others of the next type.
fn small((position, types): (usize, Types)) -> Vec<Shape> {
    let small: Vec<Shape> = shapes(types).filter(|shape| shape.work() <= EMULATED_WORK).collect();
    let count = count(EMULATED).clamp(1, small.len());
    let shape = |number: usize| small[(number * small.len() + position * small.len() / TYPES.len()) / count];
    (0..count).map(shape).collect()
}
