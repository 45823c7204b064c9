//! Edits of a graph's structure: operations that come in where none may be, values stored or read where they may not.

use super::{Row, Subject, pick};
use crate::fusion::{Pattern, Side, Stage};
use crate::fuzz::choices::Choices;
use crate::fuzz::twist::view;
use crate::graph::{
    Attributes, DataType, Graph, Operation, PointwiseMode, Port, ReductionMode, Signal, SignalMode, Tensor,
    TensorHandle, TensorId,
};

pub(super) const ROWS: &[Row] = &[
    ("S*-G1-VIRTUAL", stored_mainloop),
    ("S*-G2-RED-EXIT", read_total),
    ("S*-G2-OPS", second_total),
    ("S*-G2-OPS", |s, g, c| s.core().is_some() && carried(s, g, c)),
    ("PAT-ONE-CORE", second_core),
    ("S*-@-G2-OUT", side_output),
    ("S70-CBD-G1-NONE", |s, g, _| before_core(s, g, 0)),
    ("S90-CBF-G1-NONE", |s, g, _| before_core(s, g, 1)),
    ("S70-MM-G1B-NONE", |s, g, _| before_core(s, g, 1)),
    ("S*-G1-OPS", late_sum),
    ("S90-G1-OPS", joined),
    ("S80-G1-OPS", joined),
    ("S70-G2-SIGNAL-NO-RED", |s, g, c| s.reduction().is_some() && signalled(s, g, c, false)),
    ("S70-G2-SIGNAL-FINAL", |s, g, c| s.reduction().is_none() && signalled(s, g, c, true)),
    ("S90-G2-OPS", |s, g, c| s.reduction().is_none() && signalled(s, g, c, false)),
    ("S80-G2-OPS", |s, g, c| s.reduction().is_none() && signalled(s, g, c, false)),
];

/// A value before the core is stored.
fn stored_mainloop(s: &Subject, edited: &mut Graph, choices: &mut Choices<'_>) -> bool {
    let operands = s.core().into_iter().flat_map(|core| core.input_tensors());
    let Some(id) = pick(choices, operands.filter(|&id| s.tensor(id).is_virtual)) else { return false };
    edited.set_output(id.handle());
    true
}

fn total(s: &Subject) -> Option<TensorId> {
    s.reduction().and_then(|id| s.operation(id).result())
}

/// Someone reads the reduction's result.
fn read_total(s: &Subject, edited: &mut Graph, _: &mut Choices<'_>) -> bool {
    let Some(total) = total(s) else { return false };
    negated(edited, total.handle());
    true
}

/// −x, stored as FLOAT.
fn negated(edited: &mut Graph, x: TensorHandle) {
    let read = edited.pointwise("reader", PointwiseMode::Neg, &[x]);
    edited.last_operation().compute_data_type = Some(DataType::Float);
    edited.set_output(read).data_type = Some(DataType::Float);
}

/// A second reduction like the first.
fn second_total(s: &Subject, edited: &mut Graph, _: &mut Choices<'_>) -> bool {
    let Some((reduction, total)) = s.reduction().zip(total(s)) else { return false };
    let again =
        edited.tensor(Tensor { name: "again".to_owned(), uid: None, ..edited.tensors()[total.index()].clone() });
    let operation = edited.operations[reduction.index()].clone();
    edited.operation(Operation { name: "again".to_owned(), outputs: vec![(Port::Y, again)], ..operation });
    true
}

/// An operation that is read and kept, but that no surface names, behind an output.
fn carried(s: &Subject, edited: &mut Graph, choices: &mut Choices<'_>) -> bool {
    let full = s.full();
    let Some(x) = pick(choices, s.graph().outputs().filter(|&id| s.tensor(id).dim == full)) else { return false };
    view(edited, x.handle());
    true
}

/// A second matmul beside the first.
fn second_core(s: &Subject, edited: &mut Graph, _: &mut Choices<'_>) -> bool {
    let core = s.core().filter(|core| matches!(core.attributes, Attributes::Matmul(_)));
    let Some([a, b]) = core.map(|core| [core.inputs[0].1, core.inputs[1].1].map(TensorId::handle)) else {
        return false;
    };
    let again = edited.matmul("again", a, b);
    edited.last_operation().compute_data_type = Some(DataType::Float);
    edited.set_output(again).data_type = Some(DataType::Float);
    true
}

/// An output that is not of full extents: a side input's negative.
fn side_output(s: &Subject, edited: &mut Graph, choices: &mut Choices<'_>) -> bool {
    let full = s.full();
    let is_partial = |id: &TensorId| s.tensor(*id).dim != full && s.tensor(*id).dim.len() == full.len();
    let Some(side) = pick(choices, s.side_inputs().into_iter().filter(is_partial)) else { return false };
    if s.core().is_none() {
        return false;
    }
    negated(edited, side.handle());
    true
}

/// A RELU on a bare operand of the core.
pub(super) fn before_core(s: &Subject, edited: &mut Graph, slot: usize) -> bool {
    let Some(core) = s.fusion.product().map(|product| product.operation) else { return false };
    let Some(operand) = s.operation(core).inputs.get(slot).map(|slot| slot.1).filter(|&id| s.is_input(id)) else {
        return false;
    };
    let relu = edited.pointwise("before", PointwiseMode::ReluFwd, &[operand.handle()]);
    edited.last_operation().compute_data_type = Some(DataType::Float);
    edited.tensor_mut(relu).data_type = Some(s.tensor(operand).data_type);
    edited.operation_mut(core).inputs[slot].1 = relu;
    true
}

/// A reduction, which no stage before the core may hold, of an operand to extents of 1 that broadcast.
fn late_sum(s: &Subject, edited: &mut Graph, choices: &mut Choices<'_>) -> bool {
    let stages = Side::BOTH.map(Stage::Before);
    let staged = stages.into_iter().flat_map(|stage| s.fusion.operations(stage));
    let binary = staged.filter(|&id| s.operation(id).inputs.len() == 2);
    let Some(id) = pick(choices, binary) else { return false };
    let [x, other] = [0, 1].map(|slot| s.operation(id).inputs[slot].1);
    if !s.is_input(other) || s.tensor(x).dim.len() < 3 {
        return false;
    }
    let sum = edited.reduction("sum", ReductionMode::Add, other.handle(), vec![1; s.tensor(x).dim.len()]);
    edited.last_operation().compute_data_type = Some(DataType::Float);
    edited.tensor_mut(sum).data_type = Some(DataType::Float);
    edited.operation_mut(id).inputs[1].1 = sum;
    true
}

/// An operand joined from two halves, on a surface without concatenation.
fn joined(s: &Subject, edited: &mut Graph, _: &mut Choices<'_>) -> bool {
    let Some(core) = s.fusion.product().map(|product| product.operation) else { return false };
    // DY stays bare (`PAT-CBF`)
    let slot = usize::from(s.fusion.pattern() == Pattern::ConvolutionBackwardFilter);
    let operand = s.operation(core).inputs[slot].1;
    if !s.is_input(operand) {
        return false;
    }
    let whole = s.tensor(operand);
    if whole.dim[0] % 2 != 0 || s.graph().consumers(operand).len() > 1 {
        return false;
    }
    let mut parts = Vec::new();
    for name in ["first half", "second half"] {
        let mut half = Tensor { name: name.to_owned(), uid: None, ..edited.tensors()[operand.index()].clone() };
        half.dim[0] /= 2;
        parts.push(edited.tensor(half));
    }
    let joined = edited.concatenate("join", 0, &parts);
    edited.tensor_mut(joined).data_type = Some(whole.data_type);
    edited.operation_mut(core).inputs[slot].1 = joined;
    true
}

/// A signal behind an output, and perhaps a reader of what passes through it.
fn signalled(s: &Subject, edited: &mut Graph, choices: &mut Choices<'_>, is_read: bool) -> bool {
    let full = s.full();
    let is_value = |id: &TensorId| s.tensor(*id).dim == full && s.graph().producer(*id).is_some();
    let Some(x) = pick(choices, s.graph().outputs().filter(is_value)) else { return false };
    let flag = Tensor::new("flag").row_major(vec![1; full.len()]).data_type(DataType::Int32);
    let flag = edited.tensor(flag);
    let passed = Tensor { name: "passed".to_owned(), uid: None, ..edited.tensors()[x.index()].clone() };
    let passed = edited.tensor(passed);
    edited.operation(Operation {
        name: "signal".to_owned(),
        attributes: Attributes::Signal(Signal { mode: SignalMode::Set, value: 1 }),
        compute_data_type: None,
        inputs: vec![(Port::X, x.handle()), (Port::FLAG, flag)],
        outputs: vec![(Port::Y, passed)],
    });
    if is_read {
        negated(edited, passed);
    }
    true
}
