//! Windows of depthwise convolutions: which there are, who computes them.

use crate::engine::lowering::span;
use crate::fusion::{Product, ProductKind};
use crate::graph::{
    Attributes, Convolution, ConvolutionDirection, ConvolutionMode, DataType, FinalTensor, FinalizedGraph, TensorId,
};
use crate::kernel::{ChannelWindows, TapAxis};

/// Threads of a block.
const THREADS: u32 = 256;

/// Threads along channels at most: with vectors of 16 bytes a row of them reads whole lines.
const MOST_COLUMNS: u32 = 16;

/// Largest vectors, in elements and bytes.
const CHANNELS: i64 = 8;
const ACCESS_BYTES: i64 = 16;

/// The spatial axes of the windows of a depthwise convolution.
///
/// # Errors
/// Why it is none of bare operands that is computed in FLOAT, as a sentence.
pub(super) fn axes(graph: &FinalizedGraph, product: &Product) -> Result<Vec<TapAxis>, String> {
    let (Attributes::Convolution(convolution), ProductKind::Convolution(direction)) =
        (&graph.operation(product.operation).attributes, product.kind)
    else {
        return Err("it is no convolution".to_owned());
    };
    let [first, second] = product.tensors().map(|id| graph.tensor(id));
    let result = graph.tensor(product.result);
    let [image, filter, output] = match direction {
        ConvolutionDirection::Forward | ConvolutionDirection::BackwardData => [first, second, result],
        ConvolutionDirection::BackwardFilter => [second, result, first],
    };
    let spatial = convolution.stride.len();
    let is_depthwise = image.dim.len() == spatial + 2
        && filter.dim[1] == 1
        && product.groups == image.dim[1]
        && output.dim[1] == image.dim[1];
    if !is_depthwise {
        return Err("groups have more than one channel".to_owned());
    }
    if graph.compute_type(product.operation) != DataType::Float {
        return Err(format!("it is computed in {}", graph.compute_type(product.operation)));
    }
    if product.tensors().into_iter().any(|id| graph.producer(id).is_some()) {
        return Err("operands are computed in mainloop stages".to_owned());
    }
    Ok((0..spatial).map(|axis| tap_axis(convolution, [image, filter, output], axis, direction)).collect())
}

/// An axis; the data gradient slides over dy, whose pixels lie a stride apart, with the filter turned.
fn tap_axis(
    convolution: &Convolution,
    tensors: [&FinalTensor; 3],
    axis: usize,
    direction: ConvolutionDirection,
) -> TapAxis {
    let [image, filter, output] = tensors.map(|tensor| tensor.dim[2 + axis]);
    let (stride, dilation) = (convolution.stride[axis], convolution.dilation[axis]);
    let padding = convolution.pre_padding[axis];
    let is_rotated = convolution.mode == ConvolutionMode::Convolution;
    let plain = TapAxis {
        pixels: image,
        outputs: output,
        taps: filter,
        stride,
        gap: 1,
        dilation,
        padding,
        is_turned: is_rotated,
    };
    match direction {
        ConvolutionDirection::BackwardData => TapAxis {
            stride: 1,
            gap: stride,
            padding: (filter - 1) * dilation - padding,
            is_turned: !is_rotated,
            ..plain
        },
        ConvolutionDirection::Forward | ConvolutionDirection::BackwardFilter => plain,
    }
}

/// Threads for windows over an image, so many channels and outputs each.
pub(super) fn channel_windows(
    graph: &FinalizedGraph,
    image: TensorId,
    axes: &[TapAxis],
    vector: i64,
    outputs: i64,
    wide_index: bool,
) -> ChannelWindows {
    let &[images, channels, ..] = &graph.tensor(image).dim[..] else { unreachable!("an image has channels") };
    let vectors = channels / vector;
    let columns =
        (0..=MOST_COLUMNS.ilog2()).rev().map(|bits| 1 << bits).find(|columns| vectors % i64::from(*columns) == 0);
    let columns =
        columns.filter(|&columns| columns > 2).unwrap_or(MOST_COLUMNS.min(vectors.max(1) as u32).next_power_of_two());
    let rows = THREADS / columns;
    ChannelWindows { image, images, axes: axes.to_vec(), channels, vector, outputs, columns, rows, wide_index }
}

/// Whether offsets of some tensor need 64 bits.
pub(super) fn is_wide(graph: &FinalizedGraph) -> bool {
    graph.tensors().any(|tensor| !tensor.is_virtual && span(tensor) > i64::from(i32::MAX))
}

/// Channels that are read at once.
///
/// # Errors
/// That there are none, as a sentence.
pub(super) fn vector(image: &FinalTensor) -> Result<i64, String> {
    let (bytes, channels) = (image.data_type.bytes() as i64, image.dim[1]);
    if image.stride[1] != 1 {
        return Err(format!("channels step by {} elements; required: 1", image.stride[1]));
    }
    let is_apart = |vector: i64| {
        let access = (vector * bytes).min(ACCESS_BYTES);
        let others = (0..image.dim.len()).filter(|&axis| axis != 1 && image.dim[axis] > 1);
        channels % vector == 0
            && image.alignment % access == 0
            && others.into_iter().all(|axis| image.stride[axis] % vector == 0)
    };
    [CHANNELS, 4, 2]
        .into_iter()
        .find(|&vector| is_apart(vector))
        .ok_or_else(|| "channels cannot be read in vectors".to_owned())
}
