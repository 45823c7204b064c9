//! g2(Convolution(g1(inputs), W), inputs) in the three directions.

use super::super::choices::Choices;
use super::layout::{Order, tensor};
use super::matmul::finish;
use super::movement;
use super::norm::weights_behind_relu;
use super::pointwise::statistics;
use super::stage::{Frame, Stage};
use super::{alignment, core_types, epilogue_types};
use crate::graph::{Convolution, ConvolutionDirection, ConvolutionMode, DataType, Graph, PointwiseMode, TensorHandle};
use crate::support::SurfaceId;

use ConvolutionDirection::{BackwardData, BackwardFilter, Forward};
use PointwiseMode::{Add, Mul, ReluFwd};

/// Parts of the graphs that have a stage before the image, several groups, an epilogue, a reduction; percent.
const MAINLOOP: usize = 25;
const GROUPED: usize = 15;
const EPILOGUE: usize = 80;
const REDUCTION: usize = 20;

/// Parts of the graphs for surface 70 that add a pooled image, end with a signal, or with statistics; percent.
const POOLED: usize = 8;
const SIGNALLED: usize = 5;
const STATISTICS: usize = 8;

/// Part of the data gradients that go on into the norm before the convolution, percent.
const WEIGHED: usize = 8;

/// Parts of the graphs with one channel a group, and of numbers of channels that are large; percent.
const DEPTHWISE: usize = 6;
const MANY_CHANNELS: usize = 20;

/// Parts of the gradients for surface 90 with a whole number of vectors in the batch, and of their operands whose batch
/// is innermost; percent.
const BATCH_INNERMOST: usize = 20;

/// Extents and attributes of a convolution.
struct Problem {
    attributes: Convolution,
    x: Vec<i64>,
    w: Vec<i64>,
    y: Vec<i64>,
    groups: i64,
}

pub(super) fn graph(choices: &mut Choices<'_>, aim: SurfaceId, direction: ConvolutionDirection) -> Graph {
    let (operand, compute, result) = choices.of(core_types(aim));
    let mut graph =
        Graph::new().io_data_type(operand).compute_data_type(DataType::Float).intermediate_data_type(result);
    let unit = (alignment(aim) / operand.bytes() as i64).max(1);
    let Problem { attributes, x, w, y, groups } = problem(choices, aim, direction, unit);
    let may_differ = aim == SurfaceId::S90 && direction != Forward;
    let (first, second, full) = match direction {
        Forward => (("X", x.clone()), ("W", w), y),
        BackwardData => (("DY", y), ("W", w), x),
        BackwardFilter => (("DY", y), ("X", x), w),
    };
    let mut operand_of = |choices: &mut Choices<'_>, (name, dim): (&str, Vec<i64>)| {
        let order = if may_differ && dim[0] % unit == 0 { order(choices) } else { Order::ChannelsLast };
        let moves = aim == SurfaceId::S70 && takes_stage(direction, name) && groups == 1;
        let id = match moves {
            true => movement::operand(&mut graph, choices, name, operand, &dim, order),
            false => graph.tensor(tensor(choices, name, operand, &dim, order)),
        };
        (id, dim)
    };
    let (first, image) = operand_of(choices, first);
    let (second, other) = operand_of(choices, second);
    let has_stage = groups == 1 && choices.chance(MAINLOOP);
    let operands = match (aim, direction) {
        _ if !has_stage => [first, second],
        (SurfaceId::S70, Forward) => [chain(&mut graph, choices, first, &image), second],
        (SurfaceId::S70, BackwardFilter) => [first, chain(&mut graph, choices, second, &other)],
        (_, BackwardFilter) | (SurfaceId::S70, _) => [first, second],
        _ => [mainloop(&mut graph, choices, operand, first, image), second],
    };
    let result_id = graph.convolution("conv", attributes, operands);
    let tensor = graph.tensor_mut(result_id);
    (tensor.data_type, tensor.dim) = (Some(result), full.clone());
    graph.last_operation().compute_data_type = Some(compute);
    let shapes = sides(direction, full.len());
    let shapes: Vec<&[bool]> = shapes.iter().map(Vec::as_slice).collect();
    epilogue(&mut graph, choices, (aim, direction), result_id, full, &shapes, groups == 1);
    graph
}

/// Channels last, or what the mainloop's inputs of gradients may be on surface 90, too (`S90-CB?-G1-LAYOUT`).
fn order(choices: &mut Choices<'_>) -> Order {
    if choices.chance(BATCH_INNERMOST) { Order::BatchInnermost } else { Order::ChannelsLast }
}

/// Whether a stage may stand before an operand on surface 70 (`PAT-C*`, `S70-CBD-G1-NONE`).
fn takes_stage(direction: ConvolutionDirection, name: &str) -> bool {
    name == "X" && direction != BackwardData
}

/// x·scale + shift, then RELU, one scale and shift a channel, all HALF (`S70-CONV-G1-CHAIN`).
fn chain(graph: &mut Graph, choices: &mut Choices<'_>, x: TensorHandle, full: &[i64]) -> TensorHandle {
    let mut channel = vec![1; full.len()];
    channel[1] = full[1];
    let mut value = x;
    for (mode, side) in [(Mul, "scale"), (Add, "shift")] {
        let side = graph.tensor(tensor(choices, side, DataType::Half, &channel, Order::ChannelsLast));
        value = graph.pointwise(&format!("{mode}"), mode, &[value, side]);
        half(graph, value);
    }
    value = graph.pointwise("relu", ReluFwd, &[value]);
    half(graph, value);
    value
}

fn half(graph: &mut Graph, id: TensorHandle) {
    graph.tensor_mut(id).data_type = Some(DataType::Half);
    graph.last_operation().compute_data_type = Some(DataType::Float);
}

/// Extents that fit together: y = (x + padding − ((w − 1)·dilation + 1)) / stride + 1.
fn problem(choices: &mut Choices<'_>, aim: SurfaceId, direction: ConvolutionDirection, unit: i64) -> Problem {
    let axes = choices.of(&[2, 2, 2, 3]);
    let groups = if aim != SurfaceId::S70 && choices.chance(GROUPED) { choices.of(&[2, 4]) } else { 1 };
    let channels = |choices: &mut Choices<'_>| {
        let whole = unit * choices.of(&[1, 2, 3, 4]);
        // as many as fill steps of Hopper's mainloop, one of them in part
        let whole = if choices.chance(MANY_CHANNELS) { unit.max(8) * choices.of(&[5, 8, 9, 16]) } else { whole };
        if choices.chance(8) { choices.of(&[1, 3, 7, 20]) } else { whole }
    };
    let whole_batch = aim == SurfaceId::S90 && direction != Forward && choices.chance(BATCH_INNERMOST);
    let n = if whole_batch { unit } else { choices.of(&[1, 2, 3]) };
    let (mut c, mut k, mut groups) = (channels(choices), channels(choices) * groups, groups);
    if aim != SurfaceId::S70 && choices.chance(DEPTHWISE) {
        (c, groups) = (1, unit * choices.of(&[1, 2, 3]));
        k = groups;
    }
    let strided = direction != BackwardData || aim == SurfaceId::S70;
    let mut attributes = Convolution::new(direction, axes);
    let [mut x, mut w, mut y] = [vec![n, c * groups], vec![k, c], vec![n, k]];
    for axis in 0..axes {
        let filter = choices.of(&[3, 1, 2, 5]);
        attributes.dilation[axis] = if choices.chance(20) { 2 } else { 1 };
        attributes.stride[axis] = if strided && choices.chance(30) { 2 } else { 1 };
        let reach = (filter - 1) * attributes.dilation[axis] + 1;
        attributes.pre_padding[axis] = choices.of(&[0, 1, 1, 2]).min(reach - 1);
        attributes.post_padding[axis] =
            if choices.chance(20) { choices.of(&[0, 1]).min(reach - 1) } else { attributes.pre_padding[axis] };
        let padding = attributes.pre_padding[axis] + attributes.post_padding[axis];
        let image = choices.of(&[6, 4, 7, 8, 5, 1]).max(reach - padding).max(1);
        x.push(image);
        w.push(filter);
        y.push((image + padding - reach) / attributes.stride[axis] + 1);
    }
    if choices.chance(15) {
        attributes.mode = ConvolutionMode::Convolution;
    }
    Problem { attributes, x, w, y, groups }
}

/// Shapes of side inputs: all of the result, one value a channel, a pixel, or one (`S90-CF-G2-DIMS`).
fn sides(direction: ConvolutionDirection, rank: usize) -> Vec<Vec<bool>> {
    let of = |kept: &dyn Fn(usize) -> bool| (0..rank).map(kept).collect::<Vec<bool>>();
    match direction {
        // [K,C,TRS]: all, [1,C,TRS], [K,1,1s], one
        BackwardFilter => vec![of(&|_| true), of(&|axis| axis != 0), of(&|axis| axis == 0), of(&|_| false)],
        _ => vec![of(&|_| true), of(&|axis| axis == 1), of(&|axis| axis != 1), of(&|_| false)],
    }
}

fn mainloop(
    graph: &mut Graph,
    choices: &mut Choices<'_>,
    operand: DataType,
    image: TensorHandle,
    full: Vec<i64>,
) -> TensorHandle {
    let rank = full.len();
    let kept = [vec![true; rank], (0..rank).map(|axis| axis == 1).collect(), vec![false; rank]];
    let kept: Vec<&[bool]> = kept.iter().map(Vec::as_slice).collect();
    let frame = Frame {
        name: "g1",
        full,
        sides: &kept,
        order: Order::ChannelsLast,
        side_types: &[operand],
        virtual_types: &[operand],
        compute_types: &[DataType::Float],
    };
    let operations = 1 + choices.below(3);
    let mut stage = Stage::new(graph, choices, frame, Some(image));
    stage.grow(operations);
    stage.last()
}

fn epilogue(
    graph: &mut Graph,
    choices: &mut Choices<'_>,
    (aim, direction): (SurfaceId, ConvolutionDirection),
    result: TensorHandle,
    full: Vec<i64>,
    sides: &[&[bool]],
    may_fuse: bool,
) {
    let [side_types, virtual_types, compute_types, output_types] = epilogue_types(aim);
    let fuses = may_fuse && choices.chance(EPILOGUE);
    let operations = if fuses { 1 + choices.below(4) } else { 0 };
    let reduces = fuses && choices.chance(REDUCTION);
    let order = Order::ChannelsLast;
    let frame = Frame { name: "g2", full, sides, order, side_types, virtual_types, compute_types };
    let mut stage = Stage::new(graph, choices, frame, Some(result));
    if direction == BackwardData && stage.choices.chance(WEIGHED) {
        return weights_behind_relu(&mut stage);
    }
    stage.grow(operations);
    let takes_more = aim == SurfaceId::S70 && may_fuse;
    if takes_more && direction == Forward && stage.choices.chance(POOLED) {
        stage.add_pooled();
    }
    if reduces {
        stage.reduce(sides);
    }
    finish(&mut stage, reduces, output_types);
    if takes_more && !reduces && stage.choices.chance(SIGNALLED) {
        stage.signal();
    } else if takes_more && !reduces && stage.choices.chance(STATISTICS) {
        let last = stage.last();
        statistics(stage.graph, last);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::generate;
    use crate::device::ComputeCapability;
    use crate::engine::select;
    use crate::fuzz::{Family, graph_bytes};
    use crate::graph::Graph;

    #[test]
    fn engines_take_most_data_gradients_that_go_on_into_their_norm() {
        let graphs = (0..400).map(|number| generate(Family::BackwardData, &graph_bytes(5, number)).graph);
        let is_weighed = |graph: &Graph| graph.operations().iter().any(|operation| operation.tag() == "DBN_WEIGHT");
        let is_taken = |graph: &Graph| {
            let finalized = graph.finalize().map(Arc::new);
            finalized.is_ok_and(|graph| select(&graph, ComputeCapability::SM_90).is_ok())
        };
        let (taken, others): (Vec<Graph>, Vec<Graph>) = graphs.filter(is_weighed).partition(is_taken);
        assert!(taken.len() > 10 && taken.len() > others.len(), "{} taken, {} not", taken.len(), others.len());
    }
}
