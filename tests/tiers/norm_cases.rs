//! Norms in passes: every mode forward and backward, with and without what is optional, in layouts and types that meet in models,
//! between other operations.

use fusewright::graph::DataType::{BFloat16, Float, Half, Int64};
use fusewright::graph::{
    BnBackwardWeights, BnFinalize, BnFinalizeMode, Composite, DataType, Graph, NormBackward, NormForward, NormMode,
    NormPhase, PointwiseMode, Port, ReductionMode, Scalar, Tensor, TensorHandle,
};

use crate::cases::{self, Case, output, push};

const GRADIENTS: &[Port] = &[Port::DX, Port::DSCALE, Port::DBIAS];
const RUNNING: &[Port] = &[Port::NEXT_RUNNING_MEAN, Port::NEXT_RUNNING_VAR];

/// Adds the cases of this file.
pub(crate) fn norms(cases: &mut Vec<Case>) {
    for (name, data_type) in [("float", Float), ("half", Half), ("bf16", BFloat16)] {
        push(
            cases,
            format!("norm_layer_{name}"),
            rows(NormMode::Layer, Tensor::new("x").channels_last([37, 96, 1, 1]), data_type),
        );
        push(
            cases,
            format!("norm_rms_{name}"),
            rows(NormMode::Rms, Tensor::new("x").row_major([37, 96, 1, 1]), data_type),
        );
        push(cases, format!("norm_layer_backward_{name}"), rows_backward(NormMode::Layer, data_type, [37, 96]));
        push(cases, format!("norm_rms_backward_{name}"), rows_backward(NormMode::Rms, data_type, [37, 96]));
        push(cases, format!("norm_batch_{name}"), channels(NormMode::Batch, data_type, IMAGE));
        push(cases, format!("norm_batch_backward_{name}"), channels_backward(NormMode::Batch, data_type, IMAGE));
        push(cases, format!("norm_instance_{name}"), channels(NormMode::Instance, data_type, IMAGE));
        push(cases, format!("norm_instance_backward_{name}"), channels_backward(NormMode::Instance, data_type, IMAGE));
        for layout in [Order::ChannelsLast, Order::RowMajor] {
            let name = format!("{}_{name}", layout.name());
            push(cases, format!("norm_group_{name}"), groups(layout, data_type));
            push(cases, format!("norm_group_backward_{name}"), groups_backward(layout, data_type, GROUPS));
        }
    }
    for (name, dim) in
        [("one_column", vec![5, 1]), ("one_row", vec![1, 300]), ("odd", vec![3, 5, 7]), ("long", vec![2, 9001])]
    {
        push(cases, format!("norm_layer_{name}"), rows(NormMode::Layer, Tensor::new("x").row_major(dim.clone()), Half));
        push(cases, format!("norm_rms_{name}"), rows(NormMode::Rms, Tensor::new("x").row_major(dim), BFloat16));
    }
    // blocks that stay have several rounds of rows; threads step over many points
    push(cases, "norm_layer_backward_many_rows", rows_backward(NormMode::Layer, BFloat16, [5000, 96]));
    push(cases, "norm_layer_backward_two_rows_at_once", rows_backward(NormMode::Layer, BFloat16, [1056, 2056]));
    push(cases, "norm_rms_backward_many_long_rows", rows_backward(NormMode::Rms, Half, [600, 1032]));
    // the blocks of a cluster share a row, of which the last threads have nothing, or less than the others
    for (name, data_type, dim) in [
        ("float", Float, [2, 16_404]),
        ("half", Half, [3, 32_840]),
        ("bf16", BFloat16, [5, 65_528]),
        ("odd", Half, [2, 4099]),
    ] {
        let x = || Tensor::new("x").channels_last([dim[0], dim[1], 1, 1]);
        push(cases, format!("norm_layer_few_long_rows_{name}"), rows(NormMode::Layer, x(), data_type));
        push(cases, format!("norm_rms_few_long_rows_{name}"), rows(NormMode::Rms, x(), data_type));
        push(
            cases,
            format!("norm_layer_backward_few_long_rows_{name}"),
            rows_backward(NormMode::Layer, data_type, dim),
        );
    }
    push(cases, "norm_instance_few_large_images", large_images());
    push(cases, "norm_layer_with_bits_of_rows", with_bits_of_rows());
    push(cases, "norm_rms_with_its_gradient", with_its_gradient());
    push(cases, "norm_rms_backward_beside_averages", beside_averages());
    push(cases, "norm_batch_many_pixels", channels(NormMode::Batch, Half, MANY_PIXELS));
    push(cases, "norm_instance_backward_many_pixels", channels_backward(NormMode::Instance, Half, MANY_PIXELS));
    // the blocks of clusters share the points of channels, of which the last threads have nothing
    for (name, data_type, image) in
        [("float", Float, [2, 32, 19, 23]), ("half", Half, [3, 64, 13, 11]), ("bf16", BFloat16, [2, 16, 40, 41])]
    {
        push(cases, format!("norm_batch_channels_{name}"), channels(NormMode::Batch, data_type, image));
        push(
            cases,
            format!("norm_batch_backward_channels_{name}"),
            channels_backward(NormMode::Batch, data_type, image),
        );
        push(cases, format!("norm_instance_channels_{name}"), channels(NormMode::Instance, data_type, image));
        let backward = channels_backward(NormMode::Instance, data_type, image);
        push(cases, format!("norm_instance_backward_channels_{name}"), backward);
    }
    // so many sets that every multiprocessor has a block of whole groups; channels outermost, a group is a plane
    for (name, image, groups) in [
        ("of_forties_in_clusters", [2, 1280, 8, 8], 32),
        ("of_tens", [16, 320, 8, 8], 32),
        ("of_sixteens", [128, 128, 3, 3], 8),
        ("of_eighties", [128, 160, 2, 3], 2),
    ] {
        let x = Tensor::new("x").channels_last(image);
        push(cases, format!("norm_group_channels_{name}"), groups_of(x, groups));
    }
    for (name, image) in [("few_pixels", [64, 256, 4, 4]), ("many_pixels", [16, 256, 16, 16])] {
        let mut g = channels(NormMode::Batch, Half, image);
        let x = g.operations()[0].input(Port::X).expect("X");
        let y = g.operations()[0].output(Port::Y).expect("Y");
        let planes = Tensor::new("planes").row_major(image).stride;
        [x, y].into_iter().for_each(|id| g.tensor_mut(id).stride.clone_from(&planes));
        push(cases, format!("norm_batch_planes_of_{name}"), g);
    }
    push(cases, "norm_group_of_volumes", groups_of(Tensor::new("x").channels_last([2, 16, 3, 5, 6]), 2));
    push(cases, "norm_group_of_lines", groups_of(Tensor::new("x").row_major([3, 15, 11]), 5));
    push(cases, "norm_group_of_all_channels", groups_of(Tensor::new("x").row_major([2, 8, 9]), 1));
    push(cases, "norm_group_of_one_channel", groups_of(Tensor::new("x").channels_last([2, 8, 3, 3]), 8));
    push(cases, "norm_group_backward_of_one_channel", groups_backward(Order::ChannelsLast, Half, IMAGE[1]));
    push(cases, "norm_group_backward_of_all_channels", groups_backward(Order::ChannelsLast, Half, 1));
    push(cases, "norm_group_of_a_group_norm", groups_twice());
    push(cases, "norm_ada", ada());
    push(cases, "norm_ada_backward", ada_backward());
    push(cases, "norm_layer_per_pixel", per_pixel());
    push(cases, "norm_batch_inference", batch_inference());
    for (name, image) in [("", IMAGE), ("_channels", [2, 32, 12, 13])] {
        push(cases, format!("norm_batch_add_relu_mask{name}"), batch_add_relu_mask(image));
        push(cases, format!("norm_batch_masked_backward{name}"), masked_backward(image));
        push(cases, format!("norm_batch_recomputed_relu_backward{name}"), recomputed_relu(image));
    }
    push(cases, "norm_added_before_scaled_after", between());
    push(cases, "norm_zero_centred", zero_centred());
    for (name, gpus) in [("one_gpu", 1), ("three_gpus", 3), ("most_gpus", 32)] {
        push(cases, format!("norm_batch_of_{name}"), batch(Half, IMAGE, gpus));
        push(cases, format!("norm_batch_backward_of_{name}"), batch_backward(Half, IMAGE, gpus));
    }
    push(cases, "norm_batch_of_two_gpus_of_many_channels", batch(Half, [2, 32, 12, 13], 2));
    push(cases, "norm_batch_backward_of_two_gpus_of_many_channels", batch_backward(Half, [2, 32, 12, 13], 2));
    push(cases, "norm_batch_of_gpus_whose_messages_have_other_strides", with_messages_of_other_strides());
    push(cases, "norm_batch_of_a_gpu_whose_channels_are_rows", with_channels_that_are_rows());
    push(cases, "norm_batch_of_two_gpus_with_an_element_a_set", batch(Float, [1, 5, 1, 1], 2));
    push(cases, "norm_batch_backward_of_two_gpus_row_by_row", batch_backward(BFloat16, [1, 1, 1, 40], 2));
    push(cases, "norm_finalize", finalize());
    push(cases, "norm_finalize_inference", finalize_inference());
    push(cases, "norm_weights", weights());
}

fn scalar(g: &mut Graph, port: Port, data_type: DataType, value: Scalar) -> TensorHandle {
    g.tensor(Tensor::scalar(port.0, data_type, value))
}

fn epsilon(g: &mut Graph) -> (Port, TensorHandle) {
    (Port::EPSILON, scalar(g, Port::EPSILON, Float, Scalar::Float(1e-3)))
}

/// FLOAT vectors named by their ports.
fn vectors(g: &mut Graph, ports: &[Port], dim: &[i64]) -> Vec<(Port, TensorHandle)> {
    ports
        .iter()
        .map(|&port| (port, g.tensor(Tensor::new(port.0).channels_last(dim.to_vec()).data_type(Float))))
        .collect()
}

/// Stores the results of an operation, the first in one type and the others in another.
fn stored(
    g: &mut Graph,
    composite: impl Into<Composite>,
    inputs: &[(Port, TensorHandle)],
    outputs: &[Port],
    types: [DataType; 2],
) {
    for (place, id) in g.composite("norm", composite, inputs, outputs).into_iter().enumerate() {
        output(g, id, types[usize::from(place > 0)]);
    }
}

/// A norm of rows that keeps of each row's mean whether it is not zero.
fn with_bits_of_rows() -> Graph {
    let mut g = cases::graph(Half);
    let x = g.tensor(Tensor::new("x").row_major([24, 40]));
    let inputs = [(Port::X, x), epsilon(&mut g)];
    let norm = NormForward::new(NormMode::Layer, NormPhase::Training);
    let results = g.composite("norm", norm, &inputs, &[Port::Y, Port::MEAN, Port::INV_VARIANCE]);
    for (&id, data_type) in results.iter().zip([Half, DataType::Boolean, Float]) {
        output(&mut g, id, data_type);
    }
    g
}

/// A norm of rows for training, and its gradient, which reads the statistic that the norm stores.
fn with_its_gradient() -> Graph {
    let mut g = cases::graph(BFloat16);
    let [x, dy] = [Port::X, Port::DY].map(|port| (port, g.tensor(Tensor::new(port.0).row_major([300, 96]))));
    let mut inputs = vec![x, epsilon(&mut g)];
    let scale = vectors(&mut g, &[Port::SCALE], &[1, 96]);
    inputs.extend(scale.clone());
    let norm = NormForward::new(NormMode::Rms, NormPhase::Training);
    let results = g.composite("norm", norm, &inputs, &[Port::Y, Port::INV_VARIANCE]);
    for &id in &results {
        output(&mut g, id, Float);
    }
    let inputs: Vec<_> = [dy, x, (Port::INV_VARIANCE, results[1])].into_iter().chain(scale).collect();
    stored(&mut g, NormBackward { mode: NormMode::Rms }, &inputs, &GRADIENTS[..2], [BFloat16, Float]);
    g
}

/// The gradient of a norm of rows, and what follows an average of its own rows.
fn beside_averages() -> Graph {
    let mut g = cases::graph(Half);
    let dim = [300, 520, 1, 1];
    let [x, dy] = [Port::X, Port::DY].map(|port| (port, g.tensor(Tensor::new(port.0).channels_last(dim))));
    let inverse = vectors(&mut g, &[Port::INV_VARIANCE], &[300, 1, 1, 1]);
    let mut inputs = vec![dy, x];
    inputs.extend(inverse.clone());
    inputs.extend(vectors(&mut g, &[Port::SCALE], &[1, 520, 1, 1]));
    let gradients = g.composite("norm", NormBackward { mode: NormMode::Rms }, &inputs, &GRADIENTS[..2]);
    output(&mut g, gradients[0], Half);
    output(&mut g, gradients[1], Float);
    let average = g.reduction("average", ReductionMode::Avg, gradients[0], [300, 1, 1, 1]);
    let scaled = g.pointwise("scaled", PointwiseMode::Mul, &[average, inverse[0].1]);
    output(&mut g, scaled, Float);
    g
}

/// A training norm over all axes but the first, with all its parameters.
fn rows(mode: NormMode, x: Tensor, data_type: DataType) -> Graph {
    let mut g = cases::graph(data_type);
    let dim: Vec<i64> = x.dim.iter().enumerate().map(|(axis, &extent)| if axis == 0 { 1 } else { extent }).collect();
    let x = g.tensor(x);
    let mut inputs = vec![(Port::X, x), epsilon(&mut g)];
    for port in [Port::SCALE, Port::BIAS] {
        inputs.push((port, g.tensor(Tensor::new(port.0).row_major(dim.clone()))));
    }
    let statistics: &[Port] =
        if mode == NormMode::Rms { &[Port::Y, Port::INV_VARIANCE] } else { &[Port::Y, Port::MEAN, Port::INV_VARIANCE] };
    stored(&mut g, NormForward::new(mode, NormPhase::Training), &inputs, statistics, [data_type, Float]);
    g
}

/// Channels whose points are rows.
fn large_images() -> Graph {
    let mut g = cases::graph(Half);
    let x = g.tensor(Tensor::new("x").row_major([1, 2, 182, 184]));
    let mut inputs = vec![(Port::X, x), epsilon(&mut g)];
    inputs.extend(vectors(&mut g, &[Port::SCALE, Port::BIAS], &[1, 2, 1, 1]));
    let norm = NormForward::new(NormMode::Instance, NormPhase::Training);
    stored(&mut g, norm, &inputs, &[Port::Y, Port::MEAN, Port::INV_VARIANCE], [Half, Float]);
    g
}

fn rows_backward(mode: NormMode, data_type: DataType, [rows, columns]: [i64; 2]) -> Graph {
    let mut g = cases::graph(data_type);
    let mut inputs: Vec<(Port, TensorHandle)> = [Port::DY, Port::X]
        .map(|port| (port, g.tensor(Tensor::new(port.0).channels_last([rows, columns, 1, 1]))))
        .into();
    inputs.push((Port::SCALE, g.tensor(Tensor::new("scale").channels_last([1, columns, 1, 1]))));
    let statistics: &[Port] =
        if mode == NormMode::Rms { &[Port::INV_VARIANCE] } else { &[Port::MEAN, Port::INV_VARIANCE] };
    inputs.extend(vectors(&mut g, statistics, &[rows, 1, 1, 1]));
    stored(&mut g, NormBackward { mode }, &inputs, GRADIENTS, [data_type; 2]);
    g
}

const IMAGE: [i64; 4] = [3, 24, 5, 7];

/// So many that a thread steps over several beside the statistics of its channels.
const MANY_PIXELS: [i64; 4] = [2, 16, 230, 230];

const CHANNEL: &[i64] = &[1, 24, 1, 1];

/// A training norm of channels; batch norm with running statistics.
fn channels(mode: NormMode, data_type: DataType, image: [i64; 4]) -> Graph {
    channels_of(mode, data_type, image, 0)
}

/// A batch norm of training over the images of so many GPUs; of this one alone where there are none.
pub(crate) fn batch(data_type: DataType, image: [i64; 4], gpus: usize) -> Graph {
    channels_of(NormMode::Batch, data_type, image, gpus)
}

/// Its gradients.
pub(crate) fn batch_backward(data_type: DataType, image: [i64; 4], gpus: usize) -> Graph {
    channels_backward_of(NormMode::Batch, data_type, image, gpus)
}

/// Tensors by which so many GPUs send each other statistics of channels.
fn peers(g: &mut Graph, gpus: usize, channels: i64) -> Vec<(Port, TensorHandle)> {
    let tensor = |port: Port| Tensor::new(port.0).row_major([gpus as i64, 4 * channels, 1, 1]).data_type(Float);
    Port::PEER_STATS.into_iter().take(gpus).map(|port| (port, g.tensor(tensor(port)))).collect()
}

/// Messages are words as they lie in memory: strides of tensors of peers mean nothing.
fn with_messages_of_other_strides() -> Graph {
    let mut g = batch(Half, IMAGE, 3);
    let peers: Vec<TensorHandle> = Port::PEER_STATS.iter().map_while(|&port| g.operations()[0].input(port)).collect();
    for peer in peers {
        g.tensor_mut(peer).stride = vec![1, 3, 3, 3];
    }
    g
}

/// Channels that are rows: what a GPU finds of its own, and sends to itself, is in memory.
fn with_channels_that_are_rows() -> Graph {
    let mut g = batch(Half, [1, 129, 4, 2], 1);
    let x = g.operations()[0].input(Port::X).expect("X");
    g.tensor_mut(x).stride = vec![1032, 8, 2, 1];
    g
}

fn channels_of(mode: NormMode, data_type: DataType, image: [i64; 4], gpus: usize) -> Graph {
    let mut g = cases::graph(data_type);
    let channel = [1, image[1], 1, 1];
    let x = g.tensor(Tensor::new("x").channels_last(image));
    let mut inputs = vec![(Port::X, x), epsilon(&mut g)];
    inputs.extend(vectors(&mut g, &[Port::SCALE, Port::BIAS], &channel));
    let mut outputs = vec![Port::Y, Port::MEAN, Port::INV_VARIANCE];
    if mode == NormMode::Batch {
        inputs.extend(vectors(&mut g, &[Port::PREV_RUNNING_MEAN, Port::PREV_RUNNING_VAR], &channel));
        inputs.push((Port::MOMENTUM, scalar(&mut g, Port::MOMENTUM, Float, Scalar::Float(0.1))));
        outputs.extend(RUNNING);
    }
    inputs.extend(peers(&mut g, gpus, image[1]));
    stored(&mut g, NormForward::new(mode, NormPhase::Training), &inputs, &outputs, [data_type, Float]);
    g
}

fn channels_backward(mode: NormMode, data_type: DataType, image: [i64; 4]) -> Graph {
    channels_backward_of(mode, data_type, image, 0)
}

fn channels_backward_of(mode: NormMode, data_type: DataType, image: [i64; 4], gpus: usize) -> Graph {
    let mut g = cases::graph(data_type);
    let channel = [1, image[1], 1, 1];
    let mut inputs: Vec<(Port, TensorHandle)> =
        [Port::DY, Port::X].map(|port| (port, g.tensor(Tensor::new(port.0).channels_last(image)))).into();
    inputs.extend(vectors(&mut g, &[Port::SCALE], &channel));
    let of_sets = if mode == NormMode::Batch { channel } else { [image[0], image[1], 1, 1] };
    inputs.extend(vectors(&mut g, &[Port::MEAN, Port::INV_VARIANCE], &of_sets));
    inputs.extend(peers(&mut g, gpus, image[1]));
    stored(&mut g, NormBackward { mode }, &inputs, GRADIENTS, [data_type, Float]);
    g
}

/// How the images of a group norm lie.
#[derive(Clone, Copy)]
enum Order {
    ChannelsLast,
    RowMajor,
}

impl Order {
    fn name(self) -> &'static str {
        match self {
            Self::ChannelsLast => "channels_last",
            Self::RowMajor => "row_major",
        }
    }

    fn tensor(self, name: &str, dim: impl Into<Vec<i64>>) -> Tensor {
        match self {
            Self::ChannelsLast => Tensor::new(name).channels_last(dim),
            Self::RowMajor => Tensor::new(name).row_major(dim),
        }
    }
}

const GROUPS: i64 = 6;

/// A training norm of groups of four channels, with a pointwise operation before it and behind.
fn groups(order: Order, data_type: DataType) -> Graph {
    let mut g = cases::graph(data_type);
    let [x, z] = ["x", "z"].map(|name| g.tensor(order.tensor(name, IMAGE)));
    let sum = g.pointwise("sum", PointwiseMode::Add, &[x, z]);
    let mut inputs = vec![(Port::X, sum), epsilon(&mut g)];
    inputs.extend(vectors(&mut g, &[Port::SCALE, Port::BIAS], CHANNEL));
    let norm = NormForward::new(NormMode::groups(GROUPS), NormPhase::Training);
    let results = g.composite("norm", norm, &inputs, &[Port::Y, Port::MEAN, Port::INV_VARIANCE]);
    for &id in &results[1..] {
        output(&mut g, id, Float);
    }
    let y = g.pointwise("swish", PointwiseMode::SwishFwd, &[results[0]]);
    output(&mut g, y, data_type);
    g
}

fn groups_backward(order: Order, data_type: DataType, groups: i64) -> Graph {
    let mut g = cases::graph(data_type);
    let mut inputs: Vec<(Port, TensorHandle)> =
        [Port::DY, Port::X].map(|port| (port, g.tensor(order.tensor(port.0, IMAGE)))).into();
    inputs.extend(vectors(&mut g, &[Port::SCALE], CHANNEL));
    inputs.extend(vectors(&mut g, &[Port::MEAN, Port::INV_VARIANCE], &[IMAGE[0], groups, 1, 1]));
    stored(&mut g, NormBackward { mode: NormMode::groups(groups) }, &inputs, GRADIENTS, [data_type, Float]);
    g
}

/// A norm for inference of groups of an image with three spatial axes, or with one, without parameters.
fn groups_of(x: Tensor, groups: i64) -> Graph {
    let mut g = cases::graph(Half);
    let x = g.tensor(x);
    let inputs = [(Port::X, x), epsilon(&mut g)];
    stored(&mut g, NormForward::new(NormMode::groups(groups), NormPhase::Inference), &inputs, &[Port::Y], [Half; 2]);
    g
}

/// Group norms one behind the other, of as many groups, with what is added to a mean.
fn groups_twice() -> Graph {
    let mut g = cases::graph(Half);
    let x = g.tensor(Tensor::new("x").channels_last(IMAGE));
    let shift = g.tensor(Tensor::new("shift").channels_last([IMAGE[0], GROUPS, 1, 1]).data_type(Float));
    let epsilon = epsilon(&mut g);
    let norm = NormForward::new(NormMode::groups(GROUPS), NormPhase::Training);
    let first = g.composite("first", norm, &[(Port::X, x), epsilon], &[Port::Y, Port::MEAN]);
    let shifted = g.pointwise("shifted", PointwiseMode::Add, &[first[1], shift]);
    output(&mut g, shifted, Float);
    let activated = g.pointwise("relu", PointwiseMode::ReluFwd, &[first[0]]);
    stored(&mut g, norm, &[(Port::X, activated), epsilon], &[Port::Y], [Half; 2]);
    g
}

fn ada() -> Graph {
    let mut g = cases::graph(Half);
    let x = g.tensor(Tensor::new("x").row_major([4, 9, 40]));
    let mut inputs = vec![(Port::X, x), epsilon(&mut g)];
    for port in [Port::SCALE, Port::BIAS] {
        inputs.push((port, g.tensor(Tensor::new(port.0).row_major([4, 1, 40]))));
    }
    let outputs = [Port::Y, Port::MEAN, Port::INV_VARIANCE];
    stored(&mut g, NormForward::new(NormMode::AdaLayer, NormPhase::Training), &inputs, &outputs, [Half, Float]);
    g
}

fn ada_backward() -> Graph {
    let mut g = cases::graph(BFloat16);
    let mut inputs: Vec<(Port, TensorHandle)> =
        [Port::DY, Port::X].map(|port| (port, g.tensor(Tensor::new(port.0).row_major([4, 9, 40])))).into();
    inputs.push((Port::SCALE, g.tensor(Tensor::new("scale").row_major([4, 1, 40]))));
    for port in [Port::MEAN, Port::INV_VARIANCE] {
        inputs.push((port, g.tensor(Tensor::new(port.0).row_major([4, 9, 1]).data_type(Float))));
    }
    stored(&mut g, NormBackward { mode: NormMode::AdaLayer }, &inputs, GRADIENTS, [BFloat16; 2]);
    g
}

/// A layer norm over the channels of each pixel.
fn per_pixel() -> Graph {
    let mut g = cases::graph(Half);
    let x = g.tensor(Tensor::new("x").row_major([2, 24, 3, 5]));
    let scale = g.tensor(Tensor::new("scale").row_major([1, 24, 1, 1]).data_type(Float));
    let inputs = [(Port::X, x), (Port::SCALE, scale), epsilon(&mut g)];
    let outputs = [Port::Y, Port::INV_VARIANCE];
    stored(&mut g, NormForward::new(NormMode::Layer, NormPhase::Training), &inputs, &outputs, [Half, Float]);
    g
}

fn batch_inference() -> Graph {
    let mut g = cases::graph(Half);
    let x = g.tensor(Tensor::new("x").channels_last(IMAGE));
    let mut inputs = vec![(Port::X, x)];
    inputs.extend(vectors(&mut g, &[Port::MEAN, Port::INV_VARIANCE, Port::SCALE, Port::BIAS], CHANNEL));
    stored(&mut g, NormForward::new(NormMode::Batch, NormPhase::Inference), &inputs, &[Port::Y], [Half; 2]);
    g
}

/// `relu(norm(x) + z)` and the bits of where it is above zeros in memory (N-65).
fn batch_add_relu_mask(image: [i64; 4]) -> Graph {
    let mut g = cases::graph(Half);
    let [x, z, zeros] = ["x", "z", "zeros"].map(|name| g.tensor(Tensor::new(name).channels_last(image)));
    let mut inputs = vec![(Port::X, x), epsilon(&mut g)];
    inputs.extend(vectors(&mut g, &[Port::SCALE, Port::BIAS], &[1, image[1], 1, 1]));
    let norm = NormForward::new(NormMode::Batch, NormPhase::Training);
    let results = g.composite("norm", norm, &inputs, &[Port::Y, Port::MEAN, Port::INV_VARIANCE]);
    for &id in &results[1..] {
        output(&mut g, id, Float);
    }
    let sum = g.pointwise("add", PointwiseMode::Add, &[results[0], z]);
    let y = g.pointwise("relu", PointwiseMode::ReluFwd, &[sum]);
    output(&mut g, y, Half);
    let mask = g.pointwise("mask", PointwiseMode::CmpGt, &[y, zeros]);
    output(&mut g, mask, DataType::Boolean);
    g
}

/// `dz = dy·mask`, stored, into a batch norm backward (N-67).
fn masked_backward(image: [i64; 4]) -> Graph {
    let mut g = cases::graph(Half);
    let [dy, x] = ["dy", "x"].map(|name| g.tensor(Tensor::new(name).channels_last(image)));
    let mask = g.tensor(Tensor::new("mask").channels_last(image).data_type(DataType::Boolean));
    let dz = g.pointwise("dz", PointwiseMode::Mul, &[dy, mask]);
    output(&mut g, dz, Half);
    let mut inputs = vec![(Port::DY, dz), (Port::X, x)];
    inputs.extend(vectors(&mut g, &[Port::SCALE, Port::MEAN, Port::INV_VARIANCE], &[1, image[1], 1, 1]));
    stored(&mut g, NormBackward { mode: NormMode::Batch }, &inputs, GRADIENTS, [Half, Float]);
    g
}

/// The forward norm again, for its ReLU's gradient, which goes on into the norm's (N-66).
fn recomputed_relu(image: [i64; 4]) -> Graph {
    let mut g = cases::graph(Half);
    let [dy, x] = ["dy", "x"].map(|name| g.tensor(Tensor::new(name).channels_last(image)));
    let parameters = vectors(&mut g, &[Port::MEAN, Port::INV_VARIANCE, Port::SCALE, Port::BIAS], &[1, image[1], 1, 1]);
    let forward = [&[(Port::X, x)], &parameters[..]].concat();
    let y = g.composite("again", NormForward::new(NormMode::Batch, NormPhase::Inference), &forward, &[Port::Y])[0];
    let dz = g.pointwise("dz", PointwiseMode::ReluBwd, &[dy, y]);
    g.tensor_mut(dz).data_type = Some(Half);
    let backward = [&[(Port::DY, dz), (Port::X, x)], &parameters[..3]].concat();
    stored(&mut g, NormBackward { mode: NormMode::Batch }, &backward, GRADIENTS, [Half, Float]);
    g
}

/// `x + residual`, stored in BFLOAT16 and read so, through an RMS norm, an activation and a quantisation.
fn between() -> Graph {
    let mut g = cases::graph(BFloat16);
    let [x, residual] = ["x", "residual"].map(|name| g.tensor(Tensor::new(name).row_major([6, 5, 64])));
    let sum = g.pointwise("sum", PointwiseMode::Add, &[x, residual]);
    output(&mut g, sum, BFloat16);
    let scale = g.tensor(Tensor::new("scale").row_major([1, 1, 64]));
    let inputs = [(Port::X, sum), (Port::SCALE, scale), epsilon(&mut g)];
    let y = g.composite("norm", NormForward::new(NormMode::Rms, NormPhase::Inference), &inputs, &[Port::Y])[0];
    let activated = g.pointwise("swish", PointwiseMode::SwishFwd, &[y]);
    let quantum = g.tensor(Tensor::scalar("quantum", Float, Scalar::Float(16.0)));
    let quantised = g.pointwise("quantised", PointwiseMode::Mul, &[activated, quantum]);
    output(&mut g, quantised, DataType::Fp8E4M3);
    g
}

/// A scale that is stored less one (N-71).
fn zero_centred() -> Graph {
    let mut g = cases::graph(Half);
    let x = g.tensor(Tensor::new("x").channels_last([17, 48, 1, 1]));
    let stored_scale = g.tensor(Tensor::new("scale").channels_last([1, 48, 1, 1]));
    let one = g.tensor(Tensor::scalar("one", Float, Scalar::Float(1.0)));
    let scale = g.pointwise("centred", PointwiseMode::Add, &[stored_scale, one]);
    let inputs = [(Port::X, x), (Port::SCALE, scale), epsilon(&mut g)];
    stored(
        &mut g,
        NormForward::new(NormMode::Layer, NormPhase::Training),
        &inputs,
        &[Port::Y, Port::MEAN],
        [Half, Float],
    );
    g
}

fn finalize() -> Graph {
    let mut g = cases::graph(Float);
    let mut inputs = vec![epsilon(&mut g)];
    // What is squared and summed is the sum of squares, not below the square of the sum over the count.
    let sum = g.tensor(Tensor::new("sum").row_major([1, 40, 1, 1]));
    let square = g.pointwise("square", PointwiseMode::Mul, &[sum, sum]);
    inputs.extend([(Port::SUM, sum), (Port::SQ_SUM, square)]);
    inputs.push((Port::ACCUM_COUNT, scalar(&mut g, Port::ACCUM_COUNT, Int64, Scalar::Integer(64))));
    inputs.push((Port::MOMENTUM, scalar(&mut g, Port::MOMENTUM, Float, Scalar::Float(0.1))));
    let ports = [Port::SCALE, Port::BIAS, Port::PREV_RUNNING_MEAN, Port::PREV_RUNNING_VAR];
    inputs.extend(vectors(&mut g, &ports, &[1, 40, 1, 1]));
    let outputs = [&[Port::EQ_SCALE, Port::EQ_BIAS, Port::MEAN, Port::INV_VARIANCE], RUNNING].concat();
    stored(&mut g, BnFinalize::default(), &inputs, &outputs, [Float; 2]);
    g
}

fn finalize_inference() -> Graph {
    let mut g = cases::graph(Float);
    let variance = g.tensor(Tensor::new("deviation").row_major([1, 40, 1, 1]));
    let variance = g.pointwise("variance", PointwiseMode::Mul, &[variance, variance]);
    let mut inputs = vec![(Port::PREV_RUNNING_VAR, variance), epsilon(&mut g)];
    inputs.extend(vectors(&mut g, &[Port::SCALE, Port::BIAS, Port::PREV_RUNNING_MEAN], &[1, 40, 1, 1]));
    let composite = BnFinalize { mode: BnFinalizeMode::Inference };
    stored(&mut g, composite, &inputs, &[Port::EQ_SCALE, Port::EQ_BIAS], [Float; 2]);
    g
}

fn weights() -> Graph {
    let mut g = cases::graph(Half);
    let mut inputs: Vec<(Port, TensorHandle)> =
        [Port::DY, Port::X].map(|port| (port, g.tensor(Tensor::new(port.0).channels_last(IMAGE)))).into();
    inputs.extend(vectors(&mut g, &[Port::SCALE, Port::MEAN, Port::INV_VARIANCE], CHANNEL));
    let outputs = [Port::DSCALE, Port::DBIAS, Port::EQ_BIAS, Port::EQ_SCALE_DY, Port::EQ_SCALE_X];
    stored(&mut g, BnBackwardWeights, &inputs, &outputs, [Float; 2]);
    g
}
