//! Rules with a number in them, held on both sides of it: at the limit a graph is accepted, one step beyond it is refused by
//! the rule's name.

use super::attention::entries;
use super::structure::before_core;
use super::tensors::{behind_core, fuses_or_packs, has_core, is_matmul};
use super::{Subject, is_resample};
use crate::device::ComputeCapability;
use crate::graph::{
    Attributes, ConvolutionDirection, DEFAULT_ALIGNMENT, DataType, Graph, Operation, Port, Resample, ResampleMode,
    TensorHandle, TensorId,
};
use crate::support::SurfaceId;

/// Where an edit puts a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// Just inside of the limit.
    At,
    /// The smallest step outside.
    Beyond,
}

/// An edit to either side of a rule's limit, of the tensor or axis that a number draws; gives false where the graph has
/// nothing to edit, or the limit has no other side.
pub(super) type Step = fn(&Subject, &mut Graph, usize, Place) -> bool;

/// A rule's id, as in the other rows, and the edit.
pub(super) type Row = (&'static str, Step);

/// Where the graph itself is at the limit, that side edits nothing.
pub(super) const ROWS: &[Row] = &[
    ("S*-G1-ALIGN-128", |s, g, n, side| point(one(s.mainloop_inputs(), n), s, g, (16, side))),
    ("S*-G1-ALIGN-32", |s, g, n, side| fuses_or_packs(s) && point(one(s.mainloop_inputs(), n), s, g, (4, side))),
    ("S70-G2-ALIGN-32", |s, g, n, side| point(one(s.side_inputs(), n), s, g, (4, side))),
    ("S*-G2-ALIGN-8", |s, g, n, side| side == Place::At && point(one(behind_core(s), n), s, g, (1, side))),
    ("S*-G2-ALIGN-8", |s, g, n, side| side == Place::At && point(one(unread_outputs(s), n), s, g, (1, side))),
    ("S70-G2-ALIGN-PWOUT-8", |s, g, n, side| side == Place::At && point(pointwise_output(s, n), s, g, (1, side))),
    ("S80-CF-ALIGN-8", |s, g, n, side| {
        side == Place::At && !fuses_or_packs(s) && point(one(s.mainloop_inputs(), n), s, g, (1, side))
    }),
    ("S90-G1-ALIGN-128", |s, g, n, side| pitch(one(s.mainloop_inputs(), n), s, g, (16, side))),
    ("S80-G1-ALIGN-32", |s, g, n, side| fuses_or_packs(s) && pitch(one(s.mainloop_inputs(), n), s, g, (4, side))),
    ("S90-G1-ALIGN-GROUP", |s, g, _, side| channels(s, g, (16, side))),
    ("S80-G1-ALIGN-GROUP", |s, g, _, side| before_core(s, g, 0) && channels(s, g, (4, side))),
    ("S*-@-G1-PACK", |s, g, n, side| !is_matmul(s) && overlap(one(s.mainloop_inputs(), n), s, g, (16, side))),
    ("S*-@-G2-PACK", |s, g, n, side| s.reduction().is_none() && overlap(one(s.graph().outputs(), n), s, g, (1, side))),
    ("S70-@-G1-LAYOUT", |s, g, n, side| pad(one(s.mainloop_inputs(), n), s, g, side)),
    ("S70-@-G2-LAYOUT", |s, g, n, side| has_core(s) && pad(one(s.graph().outputs(), n), s, g, side)),
    ("S70-PW-3D-LAYOUT", |s, g, n, side| s.full().len() == 3 && pad(one(s.graph().outputs(), n), s, g, side)),
    ("S70-PW-45D-LAYOUT", |s, g, n, side| {
        s.full().len() > 3 && !s.has(is_resample) && pad(one(s.graph().outputs(), n), s, g, side)
    }),
    ("S70-PW-RANK", rank),
    ("S90-LIM-CBD-STRIDE", filter_stride),
    ("OP-IDX-SIZE", index_type),
    ("FAF-PAGE-TABLE", entries),
    ("OP-RF-BIL-PRE", bilinear),
    ("OP-RF-BIL-POST", bilinear),
];

/// A rule that holds from one chip on, or up to one: who is asked, the last that is admitted, the next that is not.
pub(super) type Since = (&'static str, fn(&Subject) -> bool, ComputeCapability, ComputeCapability);

/// The chips at which a rule begins or ceases to refuse.
pub(super) const CHIPS: &[Since] = &[
    ("S90-CC", |_| true, chip(9, 0), chip(8, 9)),
    ("S90-CC", |_| true, chip(9, 0), chip(10, 0)),
    ("S80-CC", |_| true, chip(8, 0), chip(7, 5)),
    ("S80-CC", |_| true, chip(9, 0), chip(10, 0)),
    ("S70-CC", |_| true, chip(7, 0), chip(6, 1)),
    ("S70-CC", |_| true, chip(9, 0), chip(10, 0)),
    ("S70-G1-CC", computes_before, chip(8, 0), chip(7, 5)),
    ("S70-G2-RES-CC", |s| s.has(is_resample), chip(7, 5), chip(7, 2)),
    ("OP-GS-XTYPE-PRE", sums_floats, chip(8, 0), chip(7, 5)),
];

const fn chip(major: u32, minor: u32) -> ComputeCapability {
    ComputeCapability::new(major, minor)
}

fn computes_before(s: &Subject) -> bool {
    use crate::fusion::{Side, Stage};
    Side::BOTH.map(Stage::Before).into_iter().any(|stage| s.fusion.operations(stage).next().is_some())
}

/// Whether statistics are taken of a FLOAT value.
fn sums_floats(s: &Subject) -> bool {
    s.has(|operation| {
        let of_float = |id: TensorId| s.tensor(id).data_type == DataType::Float;
        matches!(operation.attributes, Attributes::GenStats) && operation.input_tensors().any(of_float)
    })
}

fn one<T>(ids: impl IntoIterator<Item = T>, number: usize) -> Option<T> {
    let mut ids: Vec<T> = ids.into_iter().collect();
    let count = ids.len();
    (count > 0).then(|| ids.swap_remove(number % count))
}

fn pointwise_output(s: &Subject, number: usize) -> Option<TensorId> {
    let is_written = |id: &TensorId| s.graph().producer(*id).is_some_and(|id| super::is_pointwise(s.operation(id)));
    one(unread_outputs(s).filter(is_written), number)
}

/// Outputs that are no operands, not of the operation that writes them either.
fn unread_outputs<'a>(s: &'a Subject) -> impl Iterator<Item = TensorId> + use<'a> {
    s.graph().outputs().filter(|&id| s.graph().consumers(id).is_empty())
}

/// A pointer aligned to so many bytes, or to half of them.
fn point(id: Option<TensorId>, s: &Subject, edited: &mut Graph, (bytes, side): (i64, Place)) -> bool {
    let Some(id) = id else { return false };
    let alignment = if side == Place::At { bytes } else { bytes / 2 };
    let element = s.tensor(id).data_type.bytes() as i64;
    edited.tensor_mut(id.handle()).alignment = alignment.max(element);
    element <= alignment || side == Place::At
}

/// Elements in so many bytes.
fn unit(s: &Subject, id: TensorId, bytes: i64) -> i64 {
    (bytes / s.tensor(id).data_type.bytes().max(1) as i64).max(1)
}

/// The slowest axis of extent above 1, and how far the others reach.
fn slowest(s: &Subject, id: TensorId) -> Option<(usize, i64)> {
    let tensor = s.tensor(id);
    let axes: Vec<usize> = (0..tensor.dim.len()).filter(|&axis| tensor.dim[axis] > 1).collect();
    let &slowest = axes.iter().max_by_key(|&&axis| tensor.stride[axis])?;
    let others = axes.iter().filter(|&&axis| axis != slowest);
    let reach: i64 = others.map(|&axis| tensor.stride[axis] * (tensor.dim[axis] - 1)).sum();
    (axes.len() > 1).then_some((slowest, reach))
}

/// The slowest stride is longer by one unit of alignment, or by one element.
fn pitch(id: Option<TensorId>, s: &Subject, edited: &mut Graph, (bytes, side): (i64, Place)) -> bool {
    let Some((id, (axis, _))) = id.and_then(|id| Some((id, slowest(s, id)?))) else { return false };
    let unit = unit(s, id, bytes);
    edited.tensor_mut(id.handle()).stride[axis] += if side == Place::At { unit } else { 1 };
    unit > 1
}

/// The slowest axis begins one unit behind the end of the others, or within their last one.
fn overlap(id: Option<TensorId>, s: &Subject, edited: &mut Graph, (bytes, side): (i64, Place)) -> bool {
    let Some((id, (axis, reach))) = id.and_then(|id| Some((id, slowest(s, id)?))) else { return false };
    let unit = unit(s, id, bytes);
    let within = reach / unit * unit;
    let stride = if side == Place::At { within + unit } else { within };
    edited.tensor_mut(id.handle()).stride[axis] = stride;
    let others =
        s.tensor(id).stride.iter().enumerate().filter(|&(other, _)| other != axis && s.tensor(id).dim[other] > 1);
    // no other layout by it
    others.map(|(_, &other)| other).max().is_some_and(|next| within >= next)
        && s.tensor(id).data_type != DataType::Boolean
}

/// A packed tensor, or one with a gap of an aligned word before its slowest axis.
fn pad(id: Option<TensorId>, s: &Subject, edited: &mut Graph, side: Place) -> bool {
    let Some((id, (axis, _))) = id.and_then(|id| Some((id, slowest(s, id)?))) else { return false };
    if side == Place::Beyond {
        edited.tensor_mut(id.handle()).stride[axis] += unit(s, id, 4);
    }
    true
}

/// Channels of a group: the next multiple of what is aligned, or one more; rows stay aligned. A filter that gets channels last
/// answers to the rule with its own channels, too.
fn channels(s: &Subject, edited: &mut Graph, (bytes, side): (i64, Place)) -> bool {
    let Some(core) = s.core() else { return false };
    let Attributes::Convolution(convolution) = &core.attributes else { return false };
    let [image, filter] = [0, 1].map(|slot| core.inputs[slot].1);
    let is_bare = [image, filter].iter().all(|&id| s.is_input(id) && s.graph().consumers(id).len() == 1);
    let (unit, axis) = match convolution.direction {
        ConvolutionDirection::Forward => (unit(s, image, bytes), 1),
        ConvolutionDirection::BackwardData => (unit(s, image, bytes), 0),
        ConvolutionDirection::BackwardFilter => return false, // its result would change
    };
    let all = s.tensor(image).dim[1];
    let groups = if axis == 1 { all / s.tensor(filter).dim[1] } else { groups_of(s, core) };
    let aligned = (all / groups / unit + 1) * unit;
    let channels = if side == Place::At { aligned } else { aligned + 1 };
    let filters = if axis == 1 { channels } else { groups * channels };
    for (id, axis, extent) in [(image, 1, groups * channels), (filter, axis, filters)] {
        let tensor = edited.tensor_mut(id.handle());
        tensor.dim[axis] = extent;
        tensor.alignment = DEFAULT_ALIGNMENT; // an operation before the core asks for more than bytes
        tensor.stride = rows_of(&tensor.dim, self::unit(s, id, 16));
    }
    let is_filter_aligned = axis == 1 || s.tensor(filter).dim[1] % unit == 0;
    is_bare && groups > 1 && unit > 1 && is_filter_aligned
}

/// Groups of a convolution of the image's gradient, whose result has all channels.
fn groups_of(s: &Subject, core: &Operation) -> i64 {
    let result = core.result().map_or(1, |id| s.tensor(id).dim[1]);
    result / s.tensor(core.inputs[1].1).dim[1]
}

/// Strides of channels last, with every pixel at a multiple of so many elements.
fn rows_of(dim: &[i64], unit: i64) -> Vec<i64> {
    let mut stride = vec![1; dim.len()];
    let mut reach = (dim[1] + unit - 1) / unit * unit;
    for axis in (2..dim.len()).rev().chain([0]) {
        stride[axis] = reach;
        reach *= dim[axis];
    }
    stride
}

/// Images get one more axis of extent 1, and are of rank 5, or two and are of rank 6.
fn rank(s: &Subject, edited: &mut Graph, _: usize, side: Place) -> bool {
    let is_plain =
        |operation: &Operation| matches!(operation.attributes, Attributes::Pointwise(_) | Attributes::Reduction(_));
    if s.core().is_some()
        || !s.graph().operations().all(is_plain)
        || s.graph().tensors().any(|tensor| tensor.dim.len() != 4)
    {
        return false;
    }
    for tensor in &mut edited.tensors {
        let axes = if side == Place::At { 1 } else { 2 };
        tensor.dim.extend(vec![1; axes]);
        tensor.stride.extend(vec![1; axes]);
    }
    true
}

/// A stride of 2 along an axis where the filter has one place only, so that no extent changes.
fn filter_stride(s: &Subject, edited: &mut Graph, _: usize, side: Place) -> bool {
    let Some(id) = s.fusion.product().map(|product| product.operation) else { return false };
    let dy = &s.tensor(s.operation(id).inputs[0].1).dim;
    let Attributes::Convolution(convolution) = &mut edited.operation_mut(id).attributes else { return false };
    let Some(axis) = (2..dy.len()).find(|&axis| dy[axis] == 1) else { return false };
    if side == Place::Beyond {
        convolution.stride[axis - 2] = 2;
    }
    convolution.direction == ConvolutionDirection::BackwardData
}

/// A type that holds every place of a window, or the widest that does not.
fn index_type(s: &Subject, edited: &mut Graph, number: usize, side: Place) -> bool {
    const TYPES: [(DataType, i64); 4] =
        [(DataType::Fp8E5M2, 8), (DataType::Fp8E4M3, 16), (DataType::BFloat16, 256), (DataType::Half, 2048)];
    let pooled = s.graph().operations().find_map(|operation| match &operation.attributes {
        Attributes::ResampleForward(resample) | Attributes::ResampleBackward(resample) => Some((operation, resample)),
        _ => None,
    });
    let Some((operation, resample)) = pooled else { return false };
    let Some(index) = operation.input(Port::INDEX).or(operation.output(Port::INDEX)) else { return false };
    let last = places(resample) - 1;
    let chosen = match side {
        Place::At => one(TYPES.iter().filter(|(_, most)| *most >= last), number),
        Place::Beyond => TYPES.iter().rev().find(|(_, most)| *most < last),
    };
    let Some((data_type, _)) = chosen else { return false };
    edited.tensor_mut(index.handle()).data_type = Some(*data_type);
    let bytes = data_type.bytes() as i64;
    let is_aligned = s.tensor(index).stride.iter().all(|&stride| stride == 1 || stride * bytes % 4 == 0);
    resample.mode == ResampleMode::Maxpool && s.surface == SurfaceId::S70 && is_aligned
}

/// Half a sample of padding before a bilinear resampling's first axis rather than behind it, so that no extent changes.
fn bilinear(_: &Subject, edited: &mut Graph, _: usize, side: Place) -> bool {
    let of = |operation: &mut Operation<TensorHandle>| match &mut operation.attributes {
        Attributes::ResampleForward(resample) if resample.mode == ResampleMode::Bilinear => {
            if side == Place::Beyond {
                std::mem::swap(&mut resample.pre_padding[0], &mut resample.post_padding[0]);
            }
            true
        }
        _ => false,
    };
    edited.operations.iter_mut().any(of)
}

fn places(resample: &Resample) -> i64 {
    resample.window.iter().map(|extent| extent.numerator).product()
}
