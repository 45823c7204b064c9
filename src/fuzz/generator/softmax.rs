//! Softmax with pointwise operations before and behind, masks that leave rows empty, a sink and statistics.

use super::super::choices::Choices;
use super::layout::{Order, extent, tensor};
use super::matmul::finish;
use super::stage::{Frame, Stage};
use super::{SIDE_TYPES, VIRTUAL_TYPES, epilogue_types};
use crate::graph::{DataType, Graph, PointwiseMode, Scalar, Softmax, Tensor, TensorHandle};
use crate::support::SurfaceId;

/// Parts of the graphs that mask scores, have a sink, and ask for each of the statistics; percent.
const MASKED: usize = 30;
const SINK: usize = 25;
const STATISTIC: usize = 30;

pub(super) fn graph(choices: &mut Choices<'_>) -> Graph {
    let mut graph = Graph::new()
        .io_data_type(DataType::Half)
        .compute_data_type(DataType::Float)
        .intermediate_data_type(DataType::Float);
    let rank = choices.of(&[3, 4, 4, 2, 1, 5]);
    let mut full: Vec<i64> = (1..rank).map(|_| choices.of(&[2, 1, 3, 4, 7, 16])).collect();
    full.push(if choices.chance(10) { choices.of(&[300, 1025]) } else { extent(choices) });
    let order = choices.of(&[Order::RowMajor, Order::RowMajor, Order::RowMajor, Order::ChannelsLast]);
    let (all, row) = (vec![true; rank], kept_but_last(rank));
    let last: Vec<bool> = row.iter().map(|kept| !kept).collect();
    let sides: [&[bool]; 4] = [&all, &row, &last, &vec![false; rank]];
    let [.., compute_types, output_types] = epilogue_types(SurfaceId::S90);
    let frame = Frame {
        name: "pw",
        full,
        sides: &sides,
        order,
        side_types: SIDE_TYPES,
        virtual_types: VIRTUAL_TYPES,
        compute_types,
    };
    let mut stage = Stage::new(&mut graph, choices, frame, None);
    let before = stage.choices.below(3);
    stage.grow(before);
    if stage.choices.chance(MASKED) {
        mask(&mut stage, &row);
    }
    softmax(&mut stage);
    let behind = stage.choices.below(3);
    stage.grow(behind);
    finish(&mut stage, false, output_types);
    graph
}

fn kept_but_last(rank: usize) -> Vec<bool> {
    (1..=rank).map(|axis| axis < rank).collect()
}

/// Scores that are not above a limit of their row become −∞.
fn mask(stage: &mut Stage<'_, '_>, row: &[bool]) {
    let (x, limit) = (stage.last(), stage.side(row));
    let kept = stage.graph.pointwise("kept", PointwiseMode::CmpGt, &[x, limit]);
    stage.graph.tensor_mut(kept).data_type = Some(DataType::Float);
    let infinity = stage.graph.tensor(Tensor::scalar("infinity", DataType::Float, Scalar::Float(f64::NEG_INFINITY)));
    let masked = stage.graph.pointwise("masked", PointwiseMode::BinarySelect, &[x, infinity, kept]);
    stage.graph.tensor_mut(masked).data_type = Some(DataType::Float);
    stage.values.push(masked);
}

/// The softmax of the latest value, which it becomes; statistics are stored.
fn softmax(stage: &mut Stage<'_, '_>) {
    let rank = stage.frame.full.len();
    let sink = stage.choices.chance(SINK).then(|| {
        let shape = if stage.choices.chance(50) { kept_but_last(rank) } else { vec![false; rank] };
        stage.side(&shape)
    });
    let asked = Softmax::STATISTICS.iter().copied().filter(|_| stage.choices.chance(STATISTIC));
    let asked: Vec<_> = asked.collect();
    let x = stage.last();
    let (y, statistics) = stage.graph.softmax_with("softmax", x, sink, &asked);
    stage.graph.tensor_mut(y).data_type = Some(stage.choices.of(VIRTUAL_TYPES));
    statistics.into_iter().for_each(|id| store(stage, id));
    stage.values.push(y);
}

fn store(stage: &mut Stage<'_, '_>, id: TensorHandle) {
    let mut dim = stage.frame.full.clone();
    dim.iter_mut().rev().take(1).for_each(|extent| *extent = 1);
    let laid = tensor(stage.choices, "", DataType::Float, &dim, Order::RowMajor);
    let output = stage.graph.set_output(id);
    (output.dim, output.stride) = (laid.dim, laid.stride);
}
