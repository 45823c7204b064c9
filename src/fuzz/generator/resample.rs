//! Resamplings of images in memory, forward and backward.

use super::super::choices::Choices;
use super::layout::{Order, tensor};
use crate::graph::{
    Attributes, DataType, Fraction, Graph, Operation, PaddingMode, Port, Resample, ResampleMode, Tensor, TensorHandle,
};

/// Part of the resamplings that are bilinear, of the poolings that go backward, of those of maxima that write their
/// index, in percent.
const BILINEAR: usize = 15;
const BACKWARD: usize = 35;
const INDEXED: usize = 40;

const TYPES: &[DataType] = &[DataType::Half, DataType::Float, DataType::BFloat16];

/// A resampling of an image of its own, whose extents are those given; they become those of the result, which is given.
/// Only channels last is legal where another operation follows, and the index of maxima is an output.
pub(super) fn resampled(graph: &mut Graph, choices: &mut Choices<'_>, full: &mut [i64], order: Order) -> TensorHandle {
    if choices.chance(BILINEAR) {
        return bilinear(graph, choices, full, order);
    }
    let data_type = choices.of(TYPES);
    let (attributes, pooled) = pooling(choices, full);
    if choices.chance(BACKWARD) {
        return backward(graph, choices, data_type, (attributes, pooled), full, order);
    }
    let is_indexed = attributes.mode == ResampleMode::Maxpool && choices.chance(INDEXED);
    let image = graph.tensor(tensor(choices, "image", data_type, full, order));
    let result = graph.resample("pool", attributes, image);
    full.copy_from_slice(&pooled);
    typed(graph, result, data_type, full);
    if is_indexed {
        let index_type = choices.of(&[DataType::Int8, DataType::Int32]);
        let index = graph.tensor(tensor(choices, "index", index_type, full, order));
        graph.last_operation().outputs.push((Port::INDEX, index));
    }
    result
}

fn typed(graph: &mut Graph, id: TensorHandle, data_type: DataType, dim: &[i64]) {
    let tensor = graph.tensor_mut(id);
    (tensor.data_type, tensor.dim) = (Some(data_type), dim.to_vec());
}

/// Attributes of a pooling, and the extents of its result: (x + 2·padding − window) / stride + 1.
fn pooling(choices: &mut Choices<'_>, dim: &[i64]) -> (Resample, Vec<i64>) {
    let (mode, padding_mode) = choices.of(&[
        (ResampleMode::Maxpool, PaddingMode::NegInfPad),
        (ResampleMode::AvgpoolIncludePadding, PaddingMode::ZeroPad),
        (ResampleMode::AvgpoolExcludePadding, PaddingMode::ZeroPad),
    ]);
    let mut attributes = resample(mode, padding_mode);
    let mut pooled = dim.to_vec();
    for extent in &mut pooled[2..] {
        let (window, stride) = (choices.of(&[2, 3]), choices.of(&[2, 1]));
        let padding = choices.of(&[0, 1]).max((window - *extent + 1) / 2).min(window - 1);
        attributes.window.push(Fraction::whole(window));
        attributes.stride.push(Fraction::whole(stride));
        attributes.pre_padding.push(Fraction::whole(padding));
        attributes.post_padding.push(Fraction::whole(padding));
        *extent = (*extent + 2 * padding - window) / stride + 1;
    }
    (attributes, pooled)
}

fn resample(mode: ResampleMode, padding_mode: PaddingMode) -> Resample {
    Resample {
        mode,
        padding_mode,
        window: Vec::new(),
        stride: Vec::new(),
        pre_padding: Vec::new(),
        post_padding: Vec::new(),
        generate_index: None,
        alpha: 1.0,
        beta: 0.0,
    }
}

/// Maxima of two samples on each axis.
pub(super) fn halving(axes: usize) -> Resample {
    let (twos, zeros) = (vec![Fraction::whole(2); axes], vec![Fraction::whole(0); axes]);
    Resample {
        window: twos.clone(),
        stride: twos,
        pre_padding: zeros.clone(),
        post_padding: zeros,
        ..resample(ResampleMode::Maxpool, PaddingMode::NegInfPad)
    }
}

/// The image's gradient: from DY and the index of the maxima, or from X, Y and DY where channels are not last.
fn backward(
    graph: &mut Graph,
    choices: &mut Choices<'_>,
    data_type: DataType,
    (attributes, pooled): (Resample, Vec<i64>),
    full: &[i64],
    order: Order,
) -> TensorHandle {
    let dy = graph.tensor(tensor(choices, "DY", data_type, &pooled, order));
    let mut inputs = vec![(Port::DY, dy)];
    if attributes.mode == ResampleMode::Maxpool && order == Order::ChannelsLast {
        let index = tensor(choices, "index", DataType::Int8, &pooled, order);
        inputs.push((Port::INDEX, graph.tensor(index)));
    } else if attributes.mode == ResampleMode::Maxpool {
        inputs.push((Port::X, graph.tensor(tensor(choices, "X", data_type, full, order))));
        inputs.push((Port::Y, graph.tensor(tensor(choices, "Y", data_type, &pooled, order))));
    }
    let dx = Tensor::new("DX").dim(full).data_type(data_type);
    let dx = graph.tensor(Tensor { is_virtual: true, ..dx });
    graph.operation(Operation {
        name: "unpool".to_owned(),
        attributes: Attributes::ResampleBackward(attributes),
        compute_data_type: None,
        inputs,
        outputs: vec![(Port::DX, dx)],
    });
    dx
}

/// Twice as many samples on each axis, in FLOAT.
fn bilinear(graph: &mut Graph, choices: &mut Choices<'_>, full: &mut [i64], order: Order) -> TensorHandle {
    const HALF: Fraction = Fraction { numerator: 1, denominator: 2 };
    let axes = full.len() - 2;
    let image = graph.tensor(tensor(choices, "image", DataType::Float, full, order));
    let attributes = Resample {
        window: vec![Fraction::whole(2); axes],
        stride: vec![HALF; axes],
        pre_padding: vec![HALF; axes],
        post_padding: vec![Fraction::whole(1); axes],
        ..resample(ResampleMode::Bilinear, PaddingMode::EdgeValPad)
    };
    let result = graph.resample("up", attributes, image);
    full[2..].iter_mut().for_each(|extent| *extent *= 2);
    typed(graph, result, DataType::Float, full);
    result
}
