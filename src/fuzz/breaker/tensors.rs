//! Edits of a tensor: its type, extents, strides, alignment.

use super::{Row, Subject, is_resample, pick};
use crate::fuzz::choices::Choices;
use crate::graph::{Attributes, DataType, Graph, Operation, PointwiseMode, TensorId, packed_strides};

pub(super) const ROWS: &[Row] = &[
    ("S*-DTYPE-OUTPUT", |s, g, c| retype(pick(c, s.graph().outputs()), g, DataType::Double)),
    ("S*-NO-BOOLEAN", |s, g, c| retype(pick(c, s.graph().outputs()), g, DataType::Boolean)),
    ("S*-NO-BOOLEAN", |s, g, c| retype(pick(c, virtuals(s)), g, DataType::Boolean)),
    ("S*-DTYPE-INPUT", |s, g, c| retype(pick(c, inputs(s)), g, DataType::Int64)),
    ("S*-DTYPE-VIRTUAL", |s, g, c| retype(pick(c, virtuals(s)), g, DataType::Double)),
    ("S*-DTYPE-CORE-IN", |s, g, c| retype(pick(c, core_inputs(s)), g, DataType::Int32)),
    ("S70-DTYPE-BOOL-NOT-INPUT", |s, g, c| retype(pick(c, inputs(s)), g, DataType::Boolean)),
    ("S70-DTYPE-FP8-PW-ONLY", |s, g, c| has_core(s) && retype(pick(c, behind_core(s)), g, DataType::Fp8E4M3)),
    ("S*-DTYPE-RED-OUT", |s, g, _| retype(result_of(s, is_reduction), g, DataType::Half)),
    ("OP-GS-OUTTYPE", |s, g, _| retype(result_of(s, is_statistics), g, DataType::Half)),
    ("OP-GS-XTYPE", |s, g, _| retype(input_of(s, is_statistics), g, DataType::BFloat16)),
    ("OP-PW7-DTYPE-LOGIC", |s, g, _| retype(input_of(s, is_logical), g, DataType::Float)),
    ("OP-RF-BIL-DTYPE", |s, g, _| retype(input_of(s, is_bilinear), g, DataType::Half)),
    ("OP-RF-NO-BOOL", |s, g, _| retype(result_of(s, is_forward_resample), g, DataType::Boolean)),
    ("S*-G1-ALIGN-128", |s, g, c| align(pick(c, s.mainloop_inputs()), s, g, 16)),
    ("S*-G1-ALIGN-32", |s, g, c| fuses_or_packs(s) && align(pick(c, s.mainloop_inputs()), s, g, 4)),
    ("S70-G2-ALIGN-32", |s, g, c| align(pick(c, s.side_inputs()), s, g, 4)),
    ("S*-@-G1-LAYOUT", |s, g, c| !is_matmul(s) && first_axis_inside(pick(c, s.mainloop_inputs()), s, g)),
    ("S*-@-G1-LAYOUT", |s, g, c| is_matmul(s) && spread(pick(c, s.mainloop_inputs()), s, g)),
    ("S*-@-G2-LAYOUT", |s, g, c| !is_matmul(s) && has_core(s) && first_axis_inside(pick(c, s.graph().outputs()), s, g)),
    ("S*-@-G2-LAYOUT", |s, g, c| is_matmul(s) && spread(pick(c, s.graph().outputs()), s, g)),
    ("S70-PW-45D-LAYOUT", |s, g, c| is_image(s) && !has_resample(s) && first_axis_inside(pick(c, inputs(s)), s, g)),
    ("S70-PW-3D-LAYOUT", |s, g, c| s.full().len() == 3 && spread(pick(c, inputs(s)), s, g)),
    ("S*-@-G2-PACK", |s, g, c| s.reduction().is_none() && overlap(pick(c, s.graph().outputs()), s, g)),
    ("OP-RED-LAYOUT", |s, g, _| overlap(result_of(s, is_reduction), s, g)),
    ("S*-MM-G2-RED-ROW", |s, g, c| s.reduction().is_some() && columns(pick(c, s.side_inputs()), s, g)),
    ("S*-@-G2-RED", |s, g, _| has_core(s) && is_image(s) && keep(result_of(s, is_reduction), s, g, |axis| axis > 1)),
    ("S70-PW-45D-DIMS", |s, g, _| is_image(s) && keep(result_of(s, is_reduction), s, g, |axis| axis == 2)),
    ("S70-PW-45D-DIMS", |s, g, c| is_image(s) && !has_resample(s) && keep(side_of(s, c), s, g, |axis| axis == 2)),
    ("S70-PW-3D-DIMS", |s, g, c| s.full().len() == 3 && keep(side_of(s, c), s, g, |axis| axis == 2)),
    ("S*-@-G2-DIMS", |s, g, c| has_core(s) && is_image(s) && keep(side_of(s, c), s, g, |axis| axis == 2)),
    ("S70-MM-G2-DIMS", |s, g, c| is_matmul(s) && keep(side_of(s, c), s, g, |axis| axis == 0)),
    ("OP-GS-LAYOUT", |s, g, _| first_axis_inside(input_of(s, is_statistics), s, g)),
];

pub(super) fn has_core(s: &Subject) -> bool {
    s.core().is_some()
}

pub(super) fn is_matmul(s: &Subject) -> bool {
    s.core().is_some_and(|core| matches!(core.attributes, Attributes::Matmul(_)))
}

fn is_image(s: &Subject) -> bool {
    s.full().len() > 3
}

fn has_resample(s: &Subject) -> bool {
    s.has(is_resample)
}

fn is_reduction(operation: &Operation) -> bool {
    matches!(operation.attributes, Attributes::Reduction(_))
}

fn is_statistics(operation: &Operation) -> bool {
    matches!(operation.attributes, Attributes::GenStats)
}

fn is_forward_resample(operation: &Operation) -> bool {
    matches!(operation.attributes, Attributes::ResampleForward(_))
}

fn is_bilinear(operation: &Operation) -> bool {
    use crate::graph::ResampleMode;
    matches!(&operation.attributes, Attributes::ResampleForward(resample) if resample.mode == ResampleMode::Bilinear)
}

fn is_logical(operation: &Operation) -> bool {
    matches!(&operation.attributes, Attributes::Pointwise(pointwise)
        if pointwise.mode.is_logical() && pointwise.mode != PointwiseMode::Identity)
}

/// Whether the mainloop's inputs answer to the alignment of surface 80 and 70: of convolutions without a stage, surface
/// 80 asks for bytes only (`S80-CF-ALIGN-8`).
pub(super) fn fuses_or_packs(s: &Subject) -> bool {
    use crate::support::SurfaceId;
    let is_bare = s.core().is_some_and(|core| core.input_tensors().all(|id| s.is_input(id)));
    s.surface == SurfaceId::S70 || is_matmul(s) || !is_bare
}

fn inputs(s: &Subject) -> Vec<TensorId> {
    s.graph().inputs().filter(|&id| !s.tensor(id).is_pass_by_value && !is_flag(s, id)).collect()
}

/// Flags are not data: no rule of layouts or types speaks of them.
fn is_flag(s: &Subject, id: TensorId) -> bool {
    use crate::graph::Port;
    s.has(|operation| operation.input(Port::FLAG) == Some(id))
}

fn virtuals(s: &Subject) -> Vec<TensorId> {
    s.graph().tensor_ids().filter(|&id| s.tensor(id).is_virtual).collect()
}

fn core_inputs(s: &Subject) -> Vec<TensorId> {
    let operands = s.core().into_iter().flat_map(|core| core.input_tensors());
    operands.filter(|&id| s.is_input(id)).collect()
}

/// Side inputs that nothing before the core reads.
pub(super) fn behind_core(s: &Subject) -> Vec<TensorId> {
    let before = [s.mainloop_inputs(), core_inputs(s)].concat();
    s.side_inputs().into_iter().filter(|id| !before.contains(id)).collect()
}

fn result_of(s: &Subject, is_kind: fn(&Operation) -> bool) -> Option<TensorId> {
    s.graph().operations().find(|operation| is_kind(operation))?.output_tensors().next()
}

fn input_of(s: &Subject, is_kind: fn(&Operation) -> bool) -> Option<TensorId> {
    s.graph().operations().find(|operation| is_kind(operation))?.input_tensors().next()
}

/// A side input that only pointwise operations read beside another operand, so that it may broadcast.
fn side_of(s: &Subject, choices: &mut Choices<'_>) -> Option<TensorId> {
    let full = s.full();
    let is_second = |id: &TensorId| {
        let mut consumers = s.graph().consumers(*id).iter().map(|&consumer| s.operation(consumer));
        consumers.all(|consumer| {
            super::is_pointwise(consumer)
                && consumer.input_tensors().next() != Some(*id)
                && consumer.input_tensors().next().is_some_and(|first| s.tensor(first).dim == full)
        })
    };
    pick(choices, s.side_inputs().into_iter().filter(is_second))
}

/// Gives a tensor another type.
fn retype(id: Option<TensorId>, edited: &mut Graph, data_type: DataType) -> bool {
    let Some(tensor) = id.map(|id| edited.tensor_mut(id.handle())) else { return false };
    tensor.data_type.replace(data_type) != Some(data_type)
}

/// Aligns a tensor to its elements only, where those are smaller than so many bytes.
fn align(id: Option<TensorId>, s: &Subject, edited: &mut Graph, bytes: i64) -> bool {
    let Some(id) = id else { return false };
    let element = s.tensor(id).data_type.bytes() as i64;
    edited.tensor_mut(id.handle()).alignment = element;
    element < bytes
}

fn is_spread(dim: &[i64], axis: usize) -> bool {
    dim.get(axis).is_some_and(|&extent| extent > 1)
}

/// An image whose channels are not innermost.
fn first_axis_inside(id: Option<TensorId>, s: &Subject, edited: &mut Graph) -> bool {
    let Some(id) = id else { return false };
    let dim = &s.tensor(id).dim;
    let is_spread = (0..dim.len()).all(|axis| is_spread(dim, axis));
    if dim.len() < 4 || !is_spread || s.tensor(id).is_virtual || is_scalar_like(s, id) {
        return false;
    }
    let mut order: Vec<usize> = (0..dim.len()).rev().collect();
    order.swap(0, 1);
    edited.tensor_mut(id.handle()).stride = packed_strides(dim, &order);
    true
}

fn is_scalar_like(s: &Subject, id: TensorId) -> bool {
    s.tensor(id).is_pass_by_value || s.tensor(id).data_type == DataType::Boolean || is_flag(s, id)
}

/// A matrix without a contiguous axis.
fn spread(id: Option<TensorId>, s: &Subject, edited: &mut Graph) -> bool {
    let Some(id) = id else { return false };
    let dim = &s.tensor(id).dim;
    if dim.len() != 3 || !is_spread(dim, 1) || !is_spread(dim, 2) || is_scalar_like(s, id) {
        return false;
    }
    let rows = packed_strides(dim, &[2, 1, 0]);
    edited.tensor_mut(id.handle()).stride = rows.into_iter().map(|stride| 16 * stride).collect();
    true
}

/// A column-major matrix.
fn columns(id: Option<TensorId>, s: &Subject, edited: &mut Graph) -> bool {
    let Some(id) = id else { return false };
    let dim = &s.tensor(id).dim;
    if dim.len() != 3 || !is_spread(dim, 1) || !is_spread(dim, 2) || is_scalar_like(s, id) {
        return false;
    }
    edited.tensor_mut(id.handle()).stride = packed_strides(dim, &[1, 2, 0]);
    true
}

/// Two elements at one address, by the stride of the slowest axis.
fn overlap(id: Option<TensorId>, s: &Subject, edited: &mut Graph) -> bool {
    let Some(id) = id else { return false };
    let tensor = s.tensor(id);
    let slowest = (0..tensor.dim.len()).filter(|&axis| tensor.dim[axis] > 1).max_by_key(|&axis| tensor.stride[axis]);
    let others = (0..tensor.dim.len()).filter(|&axis| tensor.dim[axis] > 1 && Some(axis) != slowest);
    let next = others.max_by_key(|&axis| tensor.stride[axis]);
    let (Some(slowest), Some(next)) = (slowest, next) else { return false };
    edited.tensor_mut(id.handle()).stride[slowest] = tensor.stride[next];
    tensor.data_type != DataType::Boolean
}

/// Leaves a tensor the extents of some axes, where that makes it another one in its dims and on the others.
fn keep(id: Option<TensorId>, s: &Subject, edited: &mut Graph, kept: fn(usize) -> bool) -> bool {
    let (Some(id), full) = (id, s.full()) else { return false };
    if s.tensor(id).dim.len() != full.len() || full.contains(&1) {
        return false;
    }
    let dim: Vec<i64> = full.iter().enumerate().map(|(axis, &extent)| if kept(axis) { extent } else { 1 }).collect();
    let mut order: Vec<usize> = (0..dim.len()).rev().collect();
    if dim.len() > 3 {
        order.retain(|&axis| axis != 1);
        order.insert(0, 1);
    }
    let tensor = edited.tensor_mut(id.handle());
    tensor.stride = packed_strides(&dim, &order);
    tensor.dim = dim;
    true
}
