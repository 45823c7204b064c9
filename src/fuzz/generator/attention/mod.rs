//! Attention, forward: groups of heads, operations on scores, masks and lengths, ragged tensors, sinks and statistics, dropout; backward in a
//! module of its own.

pub(super) mod backward;
mod dropout;
mod fp8;
mod fp8_backward;
pub(super) mod mha;
mod pages;
mod ragged;

use super::super::choices::Choices;
use super::layout::Order;
use super::stage::{Frame, Stage};
use super::{SIDE_TYPES, VIRTUAL_TYPES};
use crate::graph::{DataType, Graph, PointwiseMode, Port, Scalar, ScoreMask, Softmax, Tensor, TensorHandle};

/// Parts of the graphs that have a scale, operations on scores, a mask, lengths, sinks, each of the statistics; percent.
const SCALE: usize = 80;
const MODIFIED: usize = 30;
const MASKED: usize = 55;
const LENGTHS: usize = 30;
const SINKS: usize = 20;
const STATISTIC: usize = 40;

/// Part of the graphs that leave out blocks of scores, in percent.
const BLOCKED: usize = 12;

/// Part of the graphs with lengths whose keys or values are in pages, in percent.
const PAGED: usize = 50;

/// Part of the graphs whose heads of a position lie side by side, in percent.
const INTERLEAVED: usize = 40;

/// Types of heads.
const TYPES: &[DataType] =
    &[DataType::Half, DataType::BFloat16, DataType::Half, DataType::BFloat16, DataType::Half, DataType::Float];
const FP8_TYPES: &[DataType] = &[DataType::Fp8E4M3, DataType::Fp8E5M2];

/// An attention forward, of 16 or 32 bits or in FP8.
pub(super) fn graph(choices: &mut Choices<'_>, is_wide: bool) -> Graph {
    let io = choices.of(if is_wide { TYPES } else { FP8_TYPES });
    let mut graph =
        Graph::new().io_data_type(io).compute_data_type(DataType::Float).intermediate_data_type(DataType::Float);
    let is_blocked = choices.chance(BLOCKED);
    let shape = if is_blocked { Shape::of(choices).of_blocks() } else { Shape::of(choices) };
    let scaling = fp8::Scaling::of(choices, io);
    let shape = if scaling.is_some() { shape.in_fp8() } else { shape };
    let is_interleaved = choices.chance(INTERLEAVED);
    let [q, k, v] = shape.operands(&mut graph, choices, is_interleaved);
    let mut x = graph.matmul("scores", q, k);
    if choices.chance(SCALE) {
        let scale = choices.of(&[0.125, 1.0, 0.3, -0.25, 0.0]);
        let scale = graph.tensor(Tensor::scalar("scale", DataType::Float, Scalar::Float(scale)));
        x = graph.pointwise("scaled", PointwiseMode::Mul, &[x, scale]);
    }
    if let Some(scaling) = scaling {
        x = scaling.scores(&mut graph, choices, x);
    }
    if choices.chance(MODIFIED) {
        x = modified(&mut graph, choices, x, shape);
    }
    let lengths = if choices.chance(LENGTHS) { shape.lengths(&mut graph) } else { Vec::new() };
    let of_keys = [k, v];
    let v = match lengths.get(1).filter(|_| choices.chance(PAGED)) {
        Some(length) => pages::load(&mut graph, choices, of_keys, length.1),
        None => v,
    };
    let mask = mask(choices, !lengths.is_empty());
    let blocks = is_blocked.then(|| (Port::BLOCK_MASK, shape.block_mask(&mut graph)));
    if mask != ScoreMask::default() || !lengths.is_empty() || is_blocked {
        let inputs = [(Port::X, x)].into_iter().chain(lengths.iter().copied()).chain(blocks);
        let inputs: Vec<(Port, TensorHandle)> = inputs.collect();
        x = graph.composite("mask", mask, &inputs, &[Port::Y])[0];
    }
    let sink = Tensor::new("sink").row_major([1, shape.heads, 1, 1]).data_type(DataType::Float);
    let sink = choices.chance(SINKS).then(|| graph.tensor(sink));
    let asked: Vec<Port> = Softmax::STATISTICS.iter().copied().filter(|_| choices.chance(STATISTIC)).collect();
    let (p, statistics) = graph.softmax_with("softmax", x, sink, &asked);
    let inside = lengths.first().copied().filter(|_| sink.is_some());
    graph.last_operation().inputs.extend(inside);
    graph.tensor_mut(p).data_type = Some(io);
    for &id in &statistics {
        graph.set_output(id);
    }
    let p = match scaling {
        Some(scaling) => scaling.probabilities(&mut graph, choices, p),
        None => dropout::dropped(&mut graph, choices, p, (io, shape)),
    };
    let mut o = graph.matmul("values", p, v);
    graph.last_operation().inputs.extend(lengths.get(1).map(|length| (Port::K_OVERRIDE, length.1)));
    if let Some(scaling) = scaling {
        o = scaling.output(&mut graph, choices, o);
    }
    let laid = shape.matrices("O", [shape.heads, shape.queries, shape.head[1]], is_interleaved);
    let output = graph.set_output(o);
    (output.dim, output.stride) = (laid.dim, laid.stride);
    if !lengths.is_empty() {
        let dim = [shape.batches, shape.heads, shape.queries, 1];
        statistics.iter().for_each(|&id| graph.tensor_mut(id).dim = dim.to_vec());
        let in_pages =
            |id: &TensorHandle| graph.operations.iter().any(|it| it.inputs.contains(&(Port::CONTAINER, *id)));
        let of_keys: Vec<_> = of_keys.into_iter().filter(|id| !in_pages(id)).collect();
        ragged::lay(&mut graph, choices, [&[&[q, o], &statistics[..]].concat(), &of_keys]);
    }
    graph
}

/// Extents of an attention.
#[derive(Clone, Copy)]
struct Shape {
    batches: i64,
    heads: i64,
    key_heads: [i64; 2],
    queries: i64,
    keys: i64,
    head: [i64; 2],
    /// Elements beyond a row.
    pitch: i64,
}

impl Shape {
    fn of(choices: &mut Choices<'_>) -> Self {
        let length = |choices: &mut Choices<'_>| choices.of(&[33, 1, 70, 17, 3, 129, 5, 64, 40]);
        let size = |choices: &mut Choices<'_>| choices.of(&[64, 8, 32, 72, 16, 128, 64, 96, 256, 20]);
        let group = choices.of(&[1, 2, 1, 4, 1, 3]);
        let of_values = if choices.chance(85) { group } else { 1 };
        let heads = group * choices.of(&[1, 2]);
        let head = size(choices);
        Self {
            batches: choices.of(&[1, 1, 2]),
            heads,
            key_heads: [heads / group, heads / of_values],
            queries: length(choices),
            keys: length(choices),
            head: [head, if choices.chance(70) { head } else { size(choices) }],
            pitch: choices.of(&[0, 0, 0, 0, 8, 2, 0, 3]),
        }
    }

    /// With more of the tiles that blocks are.
    fn of_blocks(self) -> Self {
        Self { queries: 2 * self.queries, keys: 5 * self.keys, ..self }
    }

    /// A mask of blocks of the scores.
    fn block_mask(self, graph: &mut Graph) -> TensorHandle {
        let dim = ScoreMask::block_mask_dim(&[self.batches, self.heads, self.queries, self.keys]);
        graph.tensor(Tensor::new("blocks").row_major(dim).data_type(DataType::UInt8))
    }

    fn operands(self, graph: &mut Graph, choices: &mut Choices<'_>, is_interleaved: bool) -> [TensorHandle; 3] {
        let q = self.matrices("Q", [self.heads, self.queries, self.head[0]], is_interleaved);
        let mut k = self.matrices("K", [self.key_heads[0], self.keys, self.head[0]], choices.chance(INTERLEAVED));
        k.dim.swap(2, 3);
        k.stride.swap(2, 3);
        let v = self.matrices("V", [self.key_heads[1], self.keys, self.head[1]], is_interleaved);
        [q, k, v].map(|tensor| graph.tensor(tensor))
    }

    fn matrices(self, name: &str, [heads, rows, size]: [i64; 3], is_interleaved: bool) -> Tensor {
        let line = size + self.pitch;
        let stride = match is_interleaved {
            true => [heads * rows * line, line, heads * line, 1],
            false => [heads * rows * line, rows * line, line, 1],
        };
        Tensor::new(name).dim([self.batches, heads, rows, size]).stride(stride)
    }

    /// Extents of what is read for scores: theirs, or 1.
    fn shared_scores(self, choices: &mut Choices<'_>) -> [i64; 4] {
        let shared = choices.of(&[[false; 4], [true, false, false, false], [true, true, false, false]]);
        let shared = if choices.chance(75) { shared } else { shared.map(|_| choices.chance(50)) };
        let scores = [self.batches, self.heads, self.queries, self.keys];
        std::array::from_fn(|axis| if shared[axis] { 1 } else { scores[axis] })
    }

    fn lengths(self, graph: &mut Graph) -> Vec<(Port, TensorHandle)> {
        let length = |port: Port| Tensor::new(port.0).row_major([self.batches, 1, 1, 1]).data_type(DataType::Int32);
        ScoreMask::LENGTHS.iter().map(|&port| (port, graph.tensor(length(port)))).collect()
    }
}

/// A few pointwise operations on scores, of which the last is masked.
fn modified(graph: &mut Graph, choices: &mut Choices<'_>, x: TensorHandle, shape: Shape) -> TensorHandle {
    let sides: [&[bool]; 5] = [
        &[false, true, true, true],
        &[true, true, true, true],
        &[false, true, false, false],
        &[false; 4],
        &[true, false, false, true],
    ];
    let frame = Frame {
        name: "modifier",
        full: vec![shape.batches, shape.heads, shape.queries, shape.keys],
        sides: &sides,
        order: Order::RowMajor,
        side_types: SIDE_TYPES,
        virtual_types: VIRTUAL_TYPES,
        compute_types: &[DataType::Float],
    };
    let mut stage = Stage::new(graph, choices, frame, Some(x));
    let operations = 1 + stage.choices.below(3);
    stage.grow(operations);
    let last = stage.last();
    let side = stage.side(&[false, true, false, true]);
    let x = stage.graph.pointwise("modified", PointwiseMode::Add, &[last, side]);
    stage.graph.tensor_mut(x).data_type = Some(DataType::Float);
    x
}

fn mask(choices: &mut Choices<'_>, has_lengths: bool) -> ScoreMask {
    if !choices.chance(MASKED) {
        return ScoreMask::default();
    }
    ScoreMask {
        left_bound: choices.of(&[None, None, Some(40), Some(1), Some(0), Some(-7)]),
        right_bound: choices.of(&[Some(0), Some(0), None, Some(30), Some(-5)]),
        is_bottom_right: has_lengths && choices.chance(50),
    }
}
