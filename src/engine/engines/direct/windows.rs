//! Windows of depthwise convolutions: which there are, who computes them.

use std::collections::BTreeSet;

use crate::engine::lowering::span;
use crate::fusion::{Product, ProductKind};
use crate::graph::{
    Attributes, Convolution, ConvolutionDirection, ConvolutionMode, DataType, FinalTensor, FinalizedGraph, TensorId,
};
use crate::kernel::{ChannelWindows, Strip, TapAxis};

/// Vectors, in elements, and the largest in bytes.
const CHANNELS: [i64; 3] = [8, 4, 2];
const ACCESS_BYTES: i64 = 16;

/// Strips along the last axis, as outputs, and parts of the axis that is walked.
const OUTPUTS: [i64; 4] = [4, 2, 8, 1];
const PARTS: [i64; 12] = [1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 24, 32];

/// Pixels along a row that a thread holds, and outputs, at most. Not tuned.
const MOST_REACH: i64 = 24;
const MOST_OUTPUTS: i64 = 12;

/// Multiply-adds of one turn of the loop at most: 64 KiB of code, half of what a multiprocessor's second cache of instructions holds
/// (Jia et al., "Dissecting the NVIDIA Volta GPU architecture", 2018: 128 KiB).
const MOST_MULTIPLY_ADDS: i64 = 4096;

/// Registers of a thread at most: what is left of 255 is for what nobody counted.
pub(super) const MOST_REGISTERS: i64 = 224;

/// How a block's threads lie: so many at most, and along channels.
#[derive(Clone, Copy, Debug)]
pub(super) struct Block {
    pub(super) threads: u32,
    pub(super) columns: u32,
}

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

/// Threads for strips of windows over an image; blocks along channels have as many each as there can be.
pub(super) fn channel_windows(
    graph: &FinalizedGraph,
    image: TensorId,
    axes: &[TapAxis],
    strip: Strip,
    block: Block,
) -> ChannelWindows {
    let &[images, channels, ..] = &graph.tensor(image).dim[..] else { unreachable!("an image has channels") };
    let vectors = (channels / strip.channels) as u32;
    let columns = vectors.div_ceil(vectors.div_ceil(block.columns));
    ChannelWindows {
        image,
        images,
        axes: axes.to_vec(),
        channels,
        strip,
        columns,
        strips_of_a_block: block.threads / columns,
        wide_index: is_wide(graph),
    }
}

/// Strips that one may offer of channels in such vectors, in order: what a row of one reads fits into registers, and all strips see pixels
/// at the same points.
pub(super) fn strips(axes: &[TapAxis], widest: i64) -> Vec<Strip> {
    let last = axes[axes.len() - 1];
    let walked = axes.len().checked_sub(2).map(|axis| axes[axis]);
    let outputs = OUTPUTS.map(|outputs| outputs * last.gap).into_iter().filter(|&outputs| suits(last, outputs));
    let mut strips = Vec::new();
    for outputs in outputs {
        for channels in CHANNELS.into_iter().filter(|&channels| channels <= widest) {
            strips.extend(rows(walked).into_iter().map(|rows| Strip { channels, outputs, rows }));
        }
    }
    strips
}

fn suits(last: TapAxis, outputs: i64) -> bool {
    let is_held = last.reach(outputs) <= MOST_REACH && outputs <= MOST_OUTPUTS;
    is_held && (outputs == last.gap || last.outputs >= outputs)
}

/// Rows of a strip: parts of the axis, all about as long; as many more as make whole turns of the loop; and the least.
fn rows(walked: Option<TapAxis>) -> Vec<i64> {
    let Some(axis) = walked else { return vec![1] };
    let part = |parts: i64| ((axis.outputs + parts - 1) / parts + axis.gap - 1) / axis.gap * axis.gap;
    let whole = |&rows: &i64| axis.reach(rows) % axis.period() == 0;
    let turns = |rows: i64| (0..axis.period()).map(move |more| rows + more * axis.gap).find(whole);
    let parts = PARTS.map(part).into_iter().flat_map(|rows| [Some(rows), turns(rows)]).flatten();
    parts.chain([axis.gap]).collect::<BTreeSet<i64>>().into_iter().collect()
}

/// The strips whose kernels, of such windows and so many registers, suit: those of so few registers, if there are any, else all that a thread
/// can have.
pub(super) fn suiting(
    strips: &[Strip],
    few: i64,
    mut kernel: impl FnMut(Strip) -> (ChannelWindows, i64),
) -> Vec<Strip> {
    let mut within = |most: i64| -> Vec<Strip> {
        let suits = |&strip: &Strip| {
            let (windows, registers) = kernel(strip);
            registers <= most && windows.multiply_adds_of_a_turn() <= MOST_MULTIPLY_ADDS
        };
        strips.iter().copied().filter(suits).collect()
    };
    let of_few = within(few);
    if of_few.is_empty() { within(MOST_REGISTERS) } else { of_few }
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
    CHANNELS.into_iter().find(|&vector| is_apart(vector)).ok_or_else(|| "channels cannot be read in vectors".to_owned())
}
