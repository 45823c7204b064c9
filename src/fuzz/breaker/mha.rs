//! Edits of attention whose probabilities lie in memory.

use super::{Row, Subject};
use crate::fusion::{Mha, MhaBackward, MhaForward};
use crate::graph::{Attributes, DataType, Graph, OperationId, Pointwise, PointwiseMode, Port, Reordering, TensorId};

pub(super) const ROWS: &[Row] = &[
    ("MHAF-S-REORDER", |s, g, _| forward(s).and_then(|it| it.stored).is_some_and(|id| in_order(g, id))),
    ("MHAF-MM-COMP", |s, g, c| forward(s).is_some_and(|it| in_half(g, [it.scores, it.output][c.below(2)]))),
    ("MHAF-MM-IN", |s, g, _| forward(s).is_some_and(|it| retyped(s, g, (it.output, Port::B), DataType::Float))),
    ("MHAF-MM-OUT", |s, g, _| forward(s).is_some_and(|it| retyped(s, g, (it.output, Port::C), DataType::Int32))),
    ("MHAF-PW-COMP", |s, g, _| pointwise(s, forward(s).map_or(&[], |it| &it.between)).is_some_and(|id| in_half(g, id))),
    ("MHAF-STRIDE-QVO", |s, g, c| {
        let Some(it) = forward(s) else { return false };
        let slots = [(it.scores, Port::A), (it.output, Port::B)];
        spread(s, g, slots[c.below(2)])
    }),
    ("MHAF-STRIDE-K", |s, g, _| forward(s).is_some_and(|it| spread(s, g, (it.scores, Port::B)))),
    ("MHAF-G4", |s, g, _| {
        pointwise(s, forward(s).map_or(&[], |it| &it.between)).is_some_and(|id| becomes(s, g, id, PointwiseMode::Div))
    }),
    ("MHAB-REORDER", |s, g, c| backward(s).is_some_and(|it| in_order(g, [it.s, it.d_p][c.below(2)]))),
    ("MHAB-MM-COMP", |s, g, c| backward(s).is_some_and(|it| in_half(g, it.products()[c.below(4)]))),
    ("MHAB-MM-IN", |s, g, _| backward(s).is_some_and(|it| retyped(s, g, (it.d_q, Port::B), DataType::Float))),
    ("MHAB-MM-OUT", |s, g, c| {
        let Some(it) = backward(s) else { return false };
        let gradients = [it.d_q, it.d_k, it.d_v];
        retyped(s, g, (gradients[c.below(3)], Port::C), DataType::Int32)
    }),
    ("MHAB-PW", |s, g, _| pointwise(s, backward(s).map_or(&[], |it| &it.g6)).is_some_and(|id| in_half(g, id))),
    ("MHAB-RED", |s, g, _| reduction(s).is_some_and(|id| in_half(g, id))),
    ("MHAB-STRIDE", |s, g, c| {
        let Some(it) = backward(s) else { return false };
        let slots = [(it.d_s, Port::A), (it.d_s, Port::B), (it.d_q, Port::B), (it.d_k, Port::B)];
        spread(s, g, slots[c.below(4)])
    }),
    ("MHAB-FIXED", |s, g, _| {
        pointwise(s, backward(s).map_or(&[], |it| &it.g6)).is_some_and(|id| becomes(s, g, id, PointwiseMode::Div))
    }),
];

fn forward(s: &Subject) -> Option<&MhaForward> {
    match s.fusion.mha()? {
        Mha::Forward(forward) => Some(forward),
        Mha::Backward(_) => None,
    }
}

fn backward(s: &Subject) -> Option<&MhaBackward> {
    match s.fusion.mha()? {
        Mha::Backward(backward) => Some(backward),
        Mha::Forward(_) => None,
    }
}

/// A multiplication among operations.
fn pointwise(s: &Subject, operations: &[OperationId]) -> Option<OperationId> {
    operations.iter().copied().find(|&id| s.operation(id).pointwise_mode() == Some(PointwiseMode::Mul))
}

/// The sum of rows of a backward pass.
fn reduction(s: &Subject) -> Option<OperationId> {
    let is_sum = |id: &OperationId| matches!(s.operation(*id).attributes, Attributes::Reduction(_));
    backward(s)?.g6.iter().copied().find(is_sum)
}

/// Elements lie as dims and strides say.
fn in_order(edited: &mut Graph, id: TensorId) -> bool {
    edited.tensors[id.index()].reordering = Reordering::None;
    true
}

fn in_half(edited: &mut Graph, id: OperationId) -> bool {
    edited.operations[id.index()].compute_data_type = Some(DataType::Half);
    true
}

/// A multiplication becomes another operation of two.
fn becomes(s: &Subject, edited: &mut Graph, id: OperationId, mode: PointwiseMode) -> bool {
    edited.operations[id.index()].attributes = Attributes::Pointwise(Pointwise::new(mode));
    s.operation(id).inputs.len() == 2
}

/// What a product reads, or gives, of another type.
fn retyped(s: &Subject, edited: &mut Graph, (id, port): (OperationId, Port), data_type: DataType) -> bool {
    let operation = s.operation(id);
    let Some(id) = operation.input(port).or_else(|| operation.output(port)) else { return false };
    edited.tensors[id.index()].data_type = Some(data_type);
    !s.tensor(id).is_virtual && s.graph().consumers(id).len() < 2
}

/// What a product reads at twice its strides.
fn spread(s: &Subject, edited: &mut Graph, (id, port): (OperationId, Port)) -> bool {
    let Some(id) = s.operation(id).input(port) else { return false };
    edited.tensors[id.index()].stride.iter_mut().for_each(|stride| *stride *= 2);
    !s.tensor(id).is_virtual && s.tensor(id).dim[2..].iter().all(|&extent| extent > 1)
}
