//! Edits of ranks: extents of 1 that a surface asks for, and batches in one axis.

use crate::graph::{Attributes, Composite, FinalizedGraph, Fraction, Graph, NormMode, Port, Tensor, packed_strides};

/// Axes of a tensor that every surface takes at least.
const LEAST_RANK: usize = 3;

/// Channels of which every type has whole vectors, and a mask whole bytes.
const CHANNELS: i64 = 8;

/// Gives every tensor that has the channels of a norm more of them, up to whole vectors. `None` where channels depend on each other, or
/// on operations that are not known here.
pub(super) fn add_channels(graph: &mut Graph) -> Option<()> {
    let x = graph.operations.iter().find(|operation| is_of_channels(&operation.attributes))?.input(Port::X)?;
    let is_separate =
        |operation: &Attributes| is_of_channels(operation) || matches!(operation, Attributes::Pointwise(_));
    if !graph.operations.iter().all(|operation| is_separate(&operation.attributes)) {
        return None;
    }
    let channels = *graph.tensors[x.index()].dim.get(1)?;
    let more = whole_vectors(channels).filter(|&more| more != channels)?;
    for tensor in graph.tensors.iter_mut().filter(|tensor| tensor.dim.get(1) == Some(&channels)) {
        let mut order: Vec<usize> = (0..tensor.dim.len()).collect();
        order.sort_by_key(|&axis| (tensor.dim[axis] == 1, tensor.stride.get(axis).copied()));
        tensor.dim[1] = more;
        tensor.stride = packed_strides(&tensor.dim, &order);
    }
    Some(())
}

/// The least number of channels from this one on that fills vectors.
fn whole_vectors(channels: i64) -> Option<i64> {
    Some((channels.checked_add(CHANNELS - 1)?).div_euclid(CHANNELS) * CHANNELS)
}

/// Norms whose statistics are those of a channel.
pub(super) fn is_of_channels(attributes: &Attributes) -> bool {
    let is_channels = |mode: NormMode| matches!(mode, NormMode::Instance | NormMode::Batch);
    match attributes {
        Attributes::Composite(Composite::NormForward(norm)) => is_channels(norm.mode),
        Attributes::Composite(Composite::NormBackward(norm)) => is_channels(norm.mode),
        _ => false,
    }
}

/// [`add_channels`] as an instruction.
pub(super) fn added_channels_text(graph: &FinalizedGraph) -> String {
    let norm = graph.operations().find(|operation| is_of_channels(&operation.attributes));
    let x = norm.and_then(|norm| norm.input(Port::X)).map(|x| &graph.tensor(x).dim);
    let channels = x.and_then(|dim| dim.get(1)).copied().unwrap_or_default();
    let more = whole_vectors(channels).unwrap_or(channels);
    format!("give every tensor of {channels} channels {more}, packed, and leave those at the end out of the results")
}

/// Gives every tensor axes of 1 until it has three, in front; where there is a convolution or a resampling one before the spatial axes, and
/// the operation's parameters one more with it. `None` where an operation's parameters name axes in a way that is not known here.
pub(super) fn add_axes(graph: &mut Graph) -> Option<()> {
    add_axis(graph)?;
    while graph.tensors.iter().map(|tensor| tensor.dim.len()).max().is_some_and(|rank| rank < LEAST_RANK) {
        add_axis(graph)?;
    }
    Some(())
}

fn add_axis(graph: &mut Graph) -> Option<()> {
    let place = if is_spatial(graph.operations.iter().map(|operation| &operation.attributes)) { 2 } else { 0 };
    for operation in &mut graph.operations {
        match &mut operation.attributes {
            Attributes::Convolution(convolution) => {
                convolution.pre_padding.insert(0, 0);
                convolution.post_padding.insert(0, 0);
                convolution.stride.insert(0, 1);
                convolution.dilation.insert(0, 1);
            }
            Attributes::ResampleForward(resample) | Attributes::ResampleBackward(resample) => {
                resample.window.insert(0, Fraction::whole(1));
                resample.stride.insert(0, Fraction::whole(1));
                resample.pre_padding.insert(0, Fraction::whole(0));
                resample.post_padding.insert(0, Fraction::whole(0));
            }
            Attributes::Pointwise(pointwise) => {
                pointwise.axis = pointwise.axis.map(|axis| if axis >= place as i64 { axis + 1 } else { axis });
            }
            Attributes::Concat(concat) if concat.axis >= place as i64 => concat.axis += 1,
            Attributes::Concat(_) | Attributes::Matmul(_) | Attributes::Reduction(_) | Attributes::GenStats => {}
            Attributes::Signal(_) | Attributes::Composite(_) => {}
            Attributes::View | Attributes::Transpose | Attributes::AllGather(_) => return None,
            Attributes::Bernoulli(_) | Attributes::Other(_) => return None,
            Attributes::PageGather | Attributes::BlockBits => return None,
        }
    }
    graph.tensors.iter_mut().try_for_each(|tensor| insert_axis(tensor, place))
}

/// Inserts an axis of 1 whose stride steps over the axes behind it, as a packed tensor's would.
fn insert_axis(tensor: &mut Tensor, place: usize) -> Option<()> {
    if place > tensor.dim.len() || tensor.stride.len() != tensor.dim.len() {
        return None;
    }
    let inner = tensor.dim[place..].iter().zip(&tensor.stride[place..]);
    let stride =
        inner.map(|(&extent, &stride)| extent.checked_mul(stride)).try_fold(1, |most, step| Some(step?.max(most)))?;
    tensor.dim.insert(place, 1);
    tensor.stride.insert(place, stride);
    Some(())
}

fn is_spatial<'a>(mut attributes: impl Iterator<Item = &'a Attributes>) -> bool {
    attributes.any(|attributes| {
        matches!(
            attributes,
            Attributes::Convolution(_) | Attributes::ResampleForward(_) | Attributes::ResampleBackward(_)
        )
    })
}

/// [`add_axes`] as an instruction.
pub(super) fn added_axes_text(graph: &FinalizedGraph) -> String {
    if is_spatial(graph.operations().map(|operation| &operation.attributes)) {
        return "give every tensor an axis of 1 before the spatial axes".to_owned();
    }
    match graph.tensors().map(|tensor| tensor.dim.len()).max() {
        Some(rank) if rank + 1 < LEAST_RANK => format!("give every tensor {} axes of 1 in front", LEAST_RANK - rank),
        _ => "give every tensor an axis of 1 in front".to_owned(),
    }
}

/// Folds all axes of every tensor but the last two into one. `None` where a tensor has none to fold, where they are not one behind the
/// other in memory, or where an operation's parameters name axes.
pub(super) fn fold_batch(graph: &mut Graph) -> Option<()> {
    let names_axes = |attributes: &Attributes| match attributes {
        Attributes::Pointwise(pointwise) => pointwise.axis.is_some(),
        Attributes::Matmul(_) | Attributes::Reduction(_) => false,
        _ => true,
    };
    if graph.operations.iter().any(|operation| names_axes(&operation.attributes)) {
        return None;
    }
    graph.tensors.iter_mut().try_for_each(fold)
}

/// Axes before the last two that have more than one element, with their strides; `None` where there are not two axes to fold.
fn batch_axes(dim: &[i64], stride: &[i64]) -> Option<Vec<(i64, i64)>> {
    let batches = dim.len().checked_sub(2).filter(|&batches| batches >= 2 && stride.len() == dim.len())?;
    let axes = dim.iter().copied().zip(stride.iter().copied()).take(batches);
    Some(axes.filter(|axis| axis.0 != 1).collect())
}

/// Whether the axes before the last two lie one behind the other in memory.
pub(super) fn folds(dim: &[i64], stride: &[i64]) -> bool {
    let follow = |pair: &[(i64, i64)]| pair[1].0.checked_mul(pair[1].1) == Some(pair[0].1);
    batch_axes(dim, stride).is_some_and(|axes| axes.windows(2).all(follow))
}

fn fold(tensor: &mut Tensor) -> Option<()> {
    let axes = batch_axes(&tensor.dim, &tensor.stride).filter(|_| folds(&tensor.dim, &tensor.stride))?;
    let batches = tensor.dim.len() - 2;
    let extent = axes.iter().try_fold(1i64, |product, axis| product.checked_mul(axis.0))?;
    let stride = axes.last().map_or(tensor.stride[batches - 1], |axis| axis.1);
    tensor.dim.splice(..batches, [extent]);
    tensor.stride.splice(..batches, [stride]);
    Some(())
}
