//! Edits of norms: types, layouts and pointers of their tensors, what they are computed in, how many channels there are.

use super::{Row, Subject, pick};
use crate::graph::{
    Attributes, Composite, DataType, Graph, Operation, OperationId, Port, TensorId, channels_last_order,
    packed_strides, row_major_order,
};

const STATISTICS: &[Port] = &[Port::MEAN, Port::INV_VARIANCE];
const IMAGES: &[Port] = &[Port::X, Port::Y, Port::DY, Port::DX];

pub(super) const ROWS: &[Row] = &[
    ("NF-MEAN", |s, g, _| retype(s, g, &[Port::MEAN], DataType::Half)),
    ("NF-INV", |s, g, _| retype(s, g, &[Port::INV_VARIANCE], DataType::BFloat16)),
    ("NF-W", |s, g, _| retype(s, g, &[Port::SCALE, Port::BIAS], DataType::Int32)),
    ("NF-IO", |s, g, _| retype(s, g, &[Port::X], DataType::Int8)),
    ("NF-COMP", |s, g, _| compute(s, g)),
    ("NF-EPS", |s, g, _| in_memory(s, g, Port::EPSILON)),
    ("NF-ALIGN", |s, g, _| misalign(s, g)),
    ("NB-MEAN", |s, g, _| retype(s, g, &[Port::MEAN], DataType::Half)),
    ("NB-INV", |s, g, _| retype(s, g, &[Port::INV_VARIANCE], DataType::BFloat16)),
    ("NB-W", |s, g, _| retype(s, g, &[Port::SCALE, Port::DSCALE, Port::DBIAS], DataType::Int32)),
    ("NB-IO", |s, g, _| retype(s, g, &[Port::X], DataType::Int8)),
    ("NB-COMP", |s, g, _| compute(s, g)),
    ("NB-ALIGN", |s, g, _| misalign(s, g)),
    ("BAR-OUTTYPE", |s, g, _| retype(s, g, STATISTICS, DataType::Half)),
    ("BAR-INTYPE", |s, g, _| retype(s, g, &[Port::SCALE, Port::PREV_RUNNING_VAR], DataType::BFloat16)),
    ("BAR-XTYPE", |s, g, _| retype(s, g, &[Port::X], DataType::Int8)),
    ("BAR-LAYOUT", |s, g, _| in_rows(s, g)),
    ("DRF-FLOAT", |s, g, _| retype(s, g, &[Port::SCALE, Port::MEAN, Port::DSCALE], DataType::Half)),
    ("DRF-XTYPE", |s, g, _| retype(s, g, &[Port::X], DataType::Int8)),
    ("DRF-LAYOUT", |s, g, _| in_rows(s, g)),
    ("N-159", |s, g, _| compute(s, g)),
    ("N-63", |s, g, _| retype(s, g, &[Port::SUM, Port::EQ_SCALE, Port::PREV_RUNNING_MEAN], DataType::Half)),
    ("LF-COUNT", |s, g, _| retype(s, g, &[Port::ACCUM_COUNT], DataType::Int32)),
    ("N-17", |s, g, c| {
        let port = pick(c, [Port::EPSILON, Port::MOMENTUM, Port::ACCUM_COUNT]);
        port.is_some_and(|port| in_memory(s, g, port))
    }),
];

/// The last norm, which is that of a surface where another is computed again for it.
fn norm(s: &Subject) -> Option<(OperationId, &Operation)> {
    let is_norm = |id: &OperationId| match &s.operation(*id).attributes {
        Attributes::Composite(composite) => !matches!(composite, Composite::Softmax(_)),
        _ => false,
    };
    s.graph().operation_ids().rev().find(is_norm).map(|id| (id, s.operation(id)))
}

/// The norm's tensors at these ports.
fn at(s: &Subject, ports: &[Port]) -> Vec<TensorId> {
    let norm = norm(s).map(|slot| slot.1);
    let tensor = |port: Port| norm.and_then(|norm| norm.input(port).or_else(|| norm.output(port)));
    ports.iter().filter_map(|&port| tensor(port)).collect()
}

fn retype(s: &Subject, edited: &mut Graph, ports: &[Port], to: DataType) -> bool {
    let Some(&id) = at(s, ports).first() else { return false };
    edited.tensors[id.index()].data_type = Some(to);
    true
}

fn compute(s: &Subject, edited: &mut Graph) -> bool {
    let Some((id, _)) = norm(s) else { return false };
    edited.operations[id.index()].compute_data_type = Some(DataType::Half);
    true
}

/// A scalar that is not given by value.
fn in_memory(s: &Subject, edited: &mut Graph, port: Port) -> bool {
    let Some(&id) = at(s, &[port]).first() else { return false };
    let scalar = &mut edited.tensors[id.index()];
    (scalar.is_pass_by_value, scalar.value) = (false, None);
    true
}

/// A pointer that is a multiple of its element alone.
fn misalign(s: &Subject, edited: &mut Graph) -> bool {
    let stored = at(s, IMAGES).into_iter().find(|&id| !s.tensor(id).is_virtual);
    let Some(id) = stored else { return false };
    edited.tensors[id.index()].alignment = 4;
    true
}

/// A tensor with pixels and channels, row by row.
fn in_rows(s: &Subject, edited: &mut Graph) -> bool {
    let strides = |id: TensorId, order: fn(usize) -> Vec<usize>| {
        let dim = &s.tensor(id).dim;
        packed_strides(dim, &order(dim.len()))
    };
    let differs = |id: &TensorId| {
        let counted = s.tensor(*id).dim.iter().skip(1).filter(|&&extent| extent > 1).count();
        counted > 1 && s.tensor(*id).dim[1] > 1 && strides(*id, row_major_order) != strides(*id, channels_last_order)
    };
    let stored = at(s, IMAGES).into_iter().find(|id| !s.tensor(*id).is_virtual && differs(id));
    let Some(id) = stored else { return false };
    edited.tensors[id.index()].stride = strides(id, row_major_order);
    true
}
