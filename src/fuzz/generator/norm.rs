//! Norms of every mode, forward and backward, with pointwise operations before and behind; batch norm's parts alone.

use super::super::choices::Choices;
use super::layout::{Order, extent, tensor};
use super::matmul::finish;
use super::stage::{Frame, Stage};
use super::{SIDE_TYPES, VIRTUAL_TYPES, epilogue_types};
use crate::graph::{
    BnBackwardWeights, BnFinalize, BnFinalizeMode, Composite, DEFAULT_ALIGNMENT, DataType, Graph, NormBackward,
    NormForward, NormMode, NormPhase, Operation, PointwiseMode, Port, Scalar, Tensor, TensorHandle,
    channels_last_order, packed_strides,
};
use crate::support::SurfaceId;

/// Parts of the graphs that are batch norm's parts, that run backward, that lack what is optional, and whose statistics are
/// stored; percent.
const PARTS: usize = 15;
const BACKWARD: usize = 40;
const LACKING: usize = 20;
const STORED: usize = 60;

/// Part of the batch norms that run on several GPUs; percent.
const SEVERAL: usize = 25;

/// Part of the graphs that are as the surfaces of norms document them; percent.
const DOCUMENTED: usize = 25;

/// Types of parameters and statistics.
const VECTOR_TYPES: &[DataType] = &[DataType::Float, DataType::Float, DataType::Half, DataType::BFloat16];

/// Types of a gradient that is stored and added up.
const IMAGE_TYPES: &[DataType] = &[DataType::Half, DataType::Half, DataType::BFloat16, DataType::Float];

/// What DBN_WEIGHT gives.
const WEIGHTS: &[Port] = &[Port::DSCALE, Port::DBIAS, Port::EQ_BIAS, Port::EQ_SCALE_DY, Port::EQ_SCALE_X];

pub(super) fn graph(choices: &mut Choices<'_>) -> Graph {
    let mut graph = Graph::new()
        .io_data_type(DataType::Half)
        .compute_data_type(DataType::Float)
        .intermediate_data_type(DataType::Float);
    let is_documented = choices.chance(DOCUMENTED);
    let mode = choices.of(&NormMode::ALL);
    let full = extents(choices, mode, is_documented);
    let rank = full.len();
    let kept = kept_by_statistics(choices, mode, rank);
    let all = vec![true; rank];
    let of_parameter = of_parameter(choices, mode, &kept);
    let sides: [&[bool]; 3] = [&all, &of_parameter, &vec![false; rank]];
    let (mut statistics, parameter) = (dim_of(&full, &kept), dim_of(&full, &of_parameter));
    if let NormMode::Group { .. } = mode {
        let divisors: Vec<i64> = (1..=full[1]).filter(|groups| full[1] % groups == 0).collect();
        statistics[1] = choices.of(&divisors);
    }
    let [.., compute_types, output_types] = epilogue_types(SurfaceId::S90);
    let frame = Frame {
        name: "pw",
        full,
        sides: &sides,
        order: choices.of(&[Order::RowMajor, Order::ChannelsLast, Order::ChannelsLast]),
        side_types: SIDE_TYPES,
        virtual_types: VIRTUAL_TYPES,
        compute_types,
    };
    let mut stage = Stage::new(&mut graph, choices, frame, None);
    if stage.choices.chance(PARTS) {
        parts(&mut stage);
        if is_documented {
            document(&mut graph);
        }
        return graph;
    }
    let most = if is_documented { 1 } else { 3 };
    let before = stage.choices.below(most);
    stage.grow(before);
    match stage.choices.chance(BACKWARD) {
        true => backward(&mut stage, mode, &statistics, &parameter),
        false => forward(&mut stage, mode, &statistics, &parameter),
    }
    let behind = stage.choices.below(most);
    stage.grow(behind);
    finish(&mut stage, false, output_types);
    if is_documented {
        document(&mut graph);
    }
    graph
}

/// Extents of X: few but for those of channels, or of rows, which a documented graph has in whole vectors.
fn extents(choices: &mut Choices<'_>, mode: NormMode, is_documented: bool) -> Vec<i64> {
    let is_of_channels = matches!(mode, NormMode::Instance | NormMode::Batch | NormMode::Group { .. });
    let rank = match mode {
        NormMode::AdaLayer => 3,
        NormMode::Layer | NormMode::Rms => choices.of(&[4, 3, 2, 5]),
        _ if is_documented => choices.of(&[4, 5]),
        NormMode::Instance | NormMode::Batch | NormMode::Group { .. } => choices.of(&[4, 4, 5, 3]),
    };
    let mut full: Vec<i64> = (0..rank).map(|_| choices.of(&[2, 1, 3, 4, 7, 16])).collect();
    let wide = if is_of_channels { 1 } else { rank - 1 };
    full[wide] = if choices.chance(10) { choices.of(&[300, 1025]) } else { extent(choices) };
    if is_documented {
        full[wide] = choices.of(&[8, 16, 24]);
    }
    full
}

/// Lays tensors out channels last, without padding; what is no image is FLOAT, images are of one type.
fn document(graph: &mut Graph) {
    let rank = graph.tensors.iter().map(|tensor| tensor.dim.len()).max().unwrap_or(0);
    let elements = |tensor: &Tensor| tensor.dim.iter().product::<i64>();
    let most = graph.tensors.iter().map(elements).max().unwrap_or(0);
    let peers: Vec<TensorHandle> = graph.operations.iter().flat_map(Operation::peers).collect();
    let tensors =
        graph.tensors.iter_mut().enumerate().filter(|(index, _)| !peers.iter().any(|peer| peer.index() == *index));
    for (_, tensor) in tensors.filter(|(_, tensor)| !tensor.is_pass_by_value) {
        let is_image = elements(tensor) == most || tensor.dim.is_empty();
        tensor.data_type = Some(if is_image { DataType::Half } else { DataType::Float });
        tensor.alignment = DEFAULT_ALIGNMENT;
        if !tensor.dim.is_empty() && rank > 3 {
            tensor.stride = packed_strides(&tensor.dim, &channels_last_order(tensor.dim.len()));
        }
    }
}

/// Axes that the statistics keep.
fn kept_by_statistics(choices: &mut Choices<'_>, mode: NormMode, rank: usize) -> Vec<bool> {
    let first = match mode {
        NormMode::Layer | NormMode::Rms if rank > 2 => choices.of(&[1, 1, rank - 1]),
        NormMode::Layer | NormMode::Rms => 1,
        NormMode::AdaLayer | NormMode::Instance | NormMode::Group { .. } => 2,
        NormMode::Batch => return (0..rank).map(|axis| axis == 1).collect(),
    };
    (0..rank).map(|axis| axis < first).collect()
}

/// Axes that the scale has.
fn of_parameter(choices: &mut Choices<'_>, mode: NormMode, kept: &[bool]) -> Vec<bool> {
    match mode {
        NormMode::Layer | NormMode::Rms => kept.iter().map(|kept| !kept).collect(),
        NormMode::AdaLayer => vec![choices.chance(70), false, true],
        NormMode::Instance | NormMode::Batch | NormMode::Group { .. } => {
            (0..kept.len()).map(|axis| axis == 1).collect()
        }
    }
}

/// A tensor of a type of parameters.
fn vector(stage: &mut Stage<'_, '_>, name: Port, dim: &[i64]) -> TensorHandle {
    let data_type = stage.choices.of(VECTOR_TYPES);
    let laid = tensor(stage.choices, name.0, data_type, dim, stage.frame.order);
    stage.graph.tensor(laid)
}

/// Extents of some of the axes.
fn dim_of(full: &[i64], kept: &[bool]) -> Vec<i64> {
    full.iter().zip(kept).map(|(&extent, &kept)| if kept { extent } else { 1 }).collect()
}

fn scalar(stage: &mut Stage<'_, '_>, port: Port, value: f64) -> (Port, TensorHandle) {
    (port, stage.graph.tensor(Tensor::scalar(port.0, DataType::Float, Scalar::Float(value))))
}

fn epsilon(stage: &mut Stage<'_, '_>) -> (Port, TensorHandle) {
    let value = stage.choices.of(&[1e-3, 1e-5, 1.0]);
    scalar(stage, Port::EPSILON, value)
}

/// Stores a result of these extents.
fn store(stage: &mut Stage<'_, '_>, id: TensorHandle, dim: &[i64]) {
    let data_type = stage.choices.of(VECTOR_TYPES);
    let laid = tensor(stage.choices, "", data_type, dim, stage.frame.order);
    let output = stage.graph.set_output(id);
    (output.data_type, output.dim, output.stride) = (Some(data_type), laid.dim, laid.stride);
}

/// Adds an operation whose first result has all axes and becomes the latest value; the others are stored.
fn push(
    stage: &mut Stage<'_, '_>,
    composite: impl Into<Composite>,
    inputs: &[(Port, TensorHandle)],
    results: &[(Port, &[i64])],
) {
    let ports: Vec<Port> = results.iter().map(|result| result.0).collect();
    let ids = stage.graph.composite("norm", composite, inputs, &ports);
    let data_type = stage.choices.of(VIRTUAL_TYPES);
    stage.graph.tensor_mut(ids[0]).data_type = Some(data_type);
    stage.values.push(ids[0]);
    for (&id, result) in ids.iter().zip(results).skip(1) {
        store(stage, id, result.1);
    }
}

/// The mode with its number of groups where nothing else tells it, and else at times.
fn with_groups(stage: &mut Stage<'_, '_>, mode: NormMode, statistics: &[i64], is_told: bool) -> NormMode {
    match mode {
        NormMode::Group { .. } if !is_told || stage.choices.chance(50) => NormMode::groups(statistics[1]),
        _ => mode,
    }
}

fn forward(stage: &mut Stage<'_, '_>, mode: NormMode, statistics: &[i64], parameter: &[i64]) {
    let mut inputs = vec![(Port::X, stage.last())];
    let has_scale = mode.requires_scale() || !stage.choices.chance(LACKING);
    let has_bias = has_scale && (mode.requires_bias() || !stage.choices.chance(LACKING));
    for port in [has_scale.then_some(Port::SCALE), has_bias.then_some(Port::BIAS)].into_iter().flatten() {
        inputs.push((port, vector(stage, port, parameter)));
    }
    if mode == NormMode::Batch && stage.choices.chance(30) {
        for port in [Port::MEAN, Port::INV_VARIANCE] {
            inputs.push((port, vector(stage, port, statistics)));
        }
        let norm = NormForward::new(mode, NormPhase::Inference);
        return push(stage, norm, &inputs, &[(Port::Y, &[])]);
    }
    inputs.push(epsilon(stage));
    let mut results = vec![(Port::Y, statistics)];
    // Without a scale what is normalised is known by the statistics.
    let lacks_scale = !has_scale && matches!(mode, NormMode::Layer | NormMode::Rms);
    for port in [Port::MEAN, Port::INV_VARIANCE] {
        if (mode.has_mean() || port != Port::MEAN) && (lacks_scale || stage.choices.chance(STORED)) {
            results.push((port, statistics));
        }
    }
    if mode == NormMode::Batch && stage.choices.chance(50) {
        for port in [Port::PREV_RUNNING_MEAN, Port::PREV_RUNNING_VAR] {
            inputs.push((port, vector(stage, port, statistics)));
        }
        inputs.push(scalar(stage, Port::MOMENTUM, 0.25));
        results.extend([(Port::NEXT_RUNNING_MEAN, statistics), (Port::NEXT_RUNNING_VAR, statistics)]);
    }
    inputs.extend(peers(stage, mode, statistics));
    let mode = with_groups(stage, mode, statistics, results.len() > 1);
    push(stage, NormForward::new(mode, NormPhase::Training), &inputs, &results);
}

fn backward(stage: &mut Stage<'_, '_>, mode: NormMode, statistics: &[i64], parameter: &[i64]) {
    let all = vec![true; statistics.len()];
    let mut inputs = vec![(Port::DY, stage.last()), (Port::X, stage.side(&all))];
    let has_scale = mode.requires_scale() || !stage.choices.chance(LACKING);
    if has_scale {
        inputs.push((Port::SCALE, vector(stage, Port::SCALE, parameter)));
    }
    if mode.has_mean() {
        inputs.push((Port::MEAN, vector(stage, Port::MEAN, statistics)));
    }
    inputs.push((Port::INV_VARIANCE, vector(stage, Port::INV_VARIANCE, statistics)));
    let mut results = vec![(Port::DX, statistics)];
    for port in [Port::DSCALE, Port::DBIAS] {
        if has_scale && !stage.choices.chance(LACKING) {
            results.push((port, parameter));
        }
    }
    inputs.extend(peers(stage, mode, statistics));
    let mode = with_groups(stage, mode, statistics, true);
    push(stage, NormBackward { mode }, &inputs, &results);
}

/// Tensors of the GPUs that a batch norm runs on, where it runs on several, or on one that is told so.
fn peers(stage: &mut Stage<'_, '_>, mode: NormMode, statistics: &[i64]) -> Vec<(Port, TensorHandle)> {
    if mode != NormMode::Batch || !stage.choices.chance(SEVERAL) {
        return Vec::new();
    }
    let gpus = stage.choices.of(&[2, 1, 3, 4, 32]);
    let peer = |port: Port| Tensor::new(port.0).data_type(DataType::Float).row_major([gpus, 4 * statistics[1], 1, 1]);
    let ports = Port::PEER_STATS.into_iter().take(gpus as usize);
    ports.map(|port| (port, stage.graph.tensor(peer(port)))).collect()
}

/// One element a channel.
fn channel(stage: &Stage<'_, '_>) -> Vec<i64> {
    let full = &stage.frame.full;
    dim_of(full, &(0..full.len()).map(|axis| axis == 1).collect::<Vec<_>>())
}

fn vectors(stage: &mut Stage<'_, '_>, ports: &[Port]) -> Vec<(Port, TensorHandle)> {
    let channel = channel(stage);
    ports.iter().map(|&port| (port, vector(stage, port, &channel))).collect()
}

/// The latest value, a gradient, behind the ReLU of a batch norm whose result is computed again, and what is left of that norm's gradient.
pub(super) fn weights_behind_relu(stage: &mut Stage<'_, '_>) {
    let gradient = stage.last();
    let x = stage.side(&vec![true; stage.frame.full.len()]);
    let parameters = vectors(stage, &[Port::MEAN, Port::INV_VARIANCE, Port::SCALE]);
    let bias = vectors(stage, &[Port::BIAS]);
    let modes = [PointwiseMode::Sub, PointwiseMode::Mul, PointwiseMode::Mul, PointwiseMode::Add];
    let steps = modes.into_iter().zip(parameters.iter().chain(&bias));
    let y = steps.fold(x, |value, (mode, &(port, side))| stage.graph.pointwise(port.0, mode, &[value, side]));
    let dy_bn = stage.graph.pointwise("drelu", PointwiseMode::ReluBwd, &[gradient, y]);
    stage.output(dy_bn, IMAGE_TYPES);
    let inputs = [vec![(Port::DY, dy_bn), (Port::X, x)], parameters].concat();
    push_part(stage, BnBackwardWeights, &inputs, WEIGHTS);
}

/// What stands between convolutions and their batch norms.
fn parts(stage: &mut Stage<'_, '_>) {
    let rank = stage.frame.full.len();
    let (composite, inputs, results): (Composite, _, &[Port]) = match stage.choices.below(3) {
        0 if rank > 2 => {
            let dy = (Port::DY, stage.last());
            let mut inputs = vec![dy, (Port::X, stage.side(&vec![true; rank]))];
            inputs.extend(vectors(stage, &[Port::SCALE, Port::MEAN, Port::INV_VARIANCE]));
            (BnBackwardWeights.into(), inputs, WEIGHTS)
        }
        1 => {
            let mode = BnFinalizeMode::Inference;
            let ports = [Port::PREV_RUNNING_MEAN, Port::PREV_RUNNING_VAR, Port::SCALE, Port::BIAS];
            let mut inputs = vectors(stage, &ports);
            inputs.push(epsilon(stage));
            (BnFinalize { mode }.into(), inputs, &[Port::EQ_SCALE, Port::EQ_BIAS])
        }
        _ => {
            let mut inputs = vectors(stage, &[Port::SUM, Port::SQ_SUM, Port::SCALE, Port::BIAS]);
            inputs.push(epsilon(stage));
            let count = Scalar::Integer(stage.choices.of(&[64, 1, 2, 100_352]));
            let count = stage.graph.tensor(Tensor::scalar(Port::ACCUM_COUNT.0, DataType::Int64, count));
            inputs.push((Port::ACCUM_COUNT, count));
            let results = &[Port::EQ_SCALE, Port::EQ_BIAS, Port::MEAN, Port::INV_VARIANCE];
            (BnFinalize::default().into(), inputs, results)
        }
    };
    push_part(stage, composite, &inputs, results);
}

/// Adds an operation all of whose results have an element a channel.
fn push_part(
    stage: &mut Stage<'_, '_>,
    composite: impl Into<Composite>,
    inputs: &[(Port, TensorHandle)],
    results: &[Port],
) {
    let channel = channel(stage);
    for id in stage.graph.composite("part", composite, inputs, results) {
        store(stage, id, &channel);
    }
}
