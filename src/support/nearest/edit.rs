//! Edits that keep the mathematics of a graph, and what each broken rule suggests.

use crate::graph::{
    Attributes, DEFAULT_ALIGNMENT, DataType, FinalTensor, FinalizedGraph, Graph, Operation, OperationId, Pointwise,
    PointwiseMode, Port, Tensor, TensorId,
};
use crate::support::findings::Violation;
use crate::support::forms::dims_text;
use crate::support::rule::DetailedStatus;

/// One edit; ids are those of the finalized graph.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Edit {
    /// Swaps the first two inputs of a commutative operation.
    Swap(OperationId),
    /// Raises the alignment of a pointer to [`DEFAULT_ALIGNMENT`].
    Align(TensorId),
    /// Pads strides to multiples of [`DEFAULT_ALIGNMENT`] bytes.
    Pad(TensorId),
    /// Gives a virtual tensor another type.
    Retype(TensorId, DataType),
    /// Converts a core operand.
    Convert { core: OperationId, operand: TensorId, to: DataType },
    /// Computes an operation in another type.
    Compute(OperationId, DataType),
    /// Leaves a trailing Reduction to a second graph.
    Split(OperationId),
}

impl Edit {
    /// Place in the order of tries, and in which several edits are made: a split comes last, as it moves operations.
    pub(super) fn rank(&self) -> u8 {
        match self {
            Self::Swap(_) => 0,
            Self::Align(_) => 1,
            Self::Pad(_) => 2,
            Self::Retype(..) => 3,
            Self::Convert { .. } => 4,
            Self::Compute(..) => 5,
            Self::Split(_) => 6,
        }
    }

    /// Whether both edits set the same thing.
    pub(super) fn collides_with(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Retype(tensor, _), Self::Retype(same, _)) => tensor == same,
            (Self::Convert { operand, .. }, Self::Convert { operand: same, .. }) => operand == same,
            (Self::Compute(operation, _), Self::Compute(same, _)) => operation == same,
            _ => self == other,
        }
    }

    /// Makes the edit on a copy of the graph; `None` where it cannot be made.
    pub(super) fn apply(self, graph: &FinalizedGraph, edited: &mut Graph) -> Option<()> {
        match self {
            Self::Swap(id) => swap_inputs(edited.operation_mut(id))?,
            Self::Align(id) => edited.tensor_mut(id.handle()).alignment = DEFAULT_ALIGNMENT,
            Self::Pad(id) => edited.tensor_mut(id.handle()).stride = padded(graph.tensor(id))?,
            Self::Retype(id, data_type) => edited.tensor_mut(id.handle()).data_type = Some(data_type),
            Self::Convert { core, operand, to } => convert(edited, core, operand, to),
            Self::Compute(id, data_type) => edited.operation_mut(id).compute_data_type = Some(data_type),
            Self::Split(id) => {
                let reduction = edited.operations.remove(id.index());
                reduction.input_tensors().for_each(|input| edited.tensor_mut(input).is_virtual = false);
            }
        }
        Some(())
    }

    /// The edit as an instruction.
    pub(super) fn describe(self, graph: &FinalizedGraph) -> String {
        let tensor = |id| format!("tensor {}", graph.describe_tensor(id));
        let operation = |id| format!("operation {}", graph.describe_operation(id));
        match self {
            Self::Swap(id) => format!("swap the first two inputs of {}", operation(id)),
            Self::Align(id) => format!("align the pointer of {} to {DEFAULT_ALIGNMENT} bytes", tensor(id)),
            Self::Pad(id) => {
                let strides = padded(graph.tensor(id)).unwrap_or_default();
                format!("pad the strides of {} to {}", tensor(id), dims_text(&strides))
            }
            Self::Retype(id, to) => {
                format!("make virtual {} {to} instead of {}", tensor(id), graph.tensor(id).data_type)
            }
            Self::Convert { core, operand, to } => {
                format!("convert {} to {to} with a Pointwise IDENTITY before {}", tensor(operand), operation(core))
            }
            Self::Compute(id, to) => format!("compute {} in {to} instead of {}", operation(id), graph.compute_type(id)),
            Self::Split(id) => {
                let inputs: Vec<String> = graph.operation(id).input_tensors().map(tensor).collect();
                format!("store {} and leave {} to a second graph", inputs.join(", "), operation(id))
            }
        }
    }
}

/// Edits that may cure one broken rule.
pub(super) fn suggestions(graph: &FinalizedGraph, violation: &Violation) -> Vec<Edit> {
    let mut edits = Vec::new();
    match violation.status() {
        DetailedStatus::Shape => edits.extend(swap(graph, violation)),
        DetailedStatus::DataType => types(graph, violation, &mut edits),
        DetailedStatus::Layout => alignment(graph, violation, &mut edits),
        _ => {}
    }
    if violation.rule.id.contains("RED") {
        edits.extend(trailing_reduction(graph).map(Edit::Split));
    }
    edits
}

fn swap(graph: &FinalizedGraph, violation: &Violation) -> Option<Edit> {
    let id = violation.at.operation?;
    match &graph.operation(id).attributes {
        Attributes::Pointwise(pointwise) => {
            let is_symmetric = pointwise.mode.is_commutative() && pointwise.alpha1 == pointwise.alpha2;
            is_symmetric.then_some(Edit::Swap(id))
        }
        _ => None,
    }
}

fn alignment(graph: &FinalizedGraph, violation: &Violation, edits: &mut Vec<Edit>) {
    let Some(id) = violation.at.tensor else { return };
    let is_about_strides = ["-ALIGN", "-PACK"].iter().any(|part| violation.rule.id.contains(part));
    if is_about_strides && graph.tensor(id).alignment < DEFAULT_ALIGNMENT {
        edits.push(Edit::Align(id));
    }
    if is_about_strides {
        edits.push(Edit::Pad(id));
    }
}

fn types(graph: &FinalizedGraph, violation: &Violation, edits: &mut Vec<Edit>) {
    match (violation.at.operation, violation.at.tensor) {
        (Some(core), Some(_)) if graph.operation(core).is_core() => core_types(graph, core, edits),
        (_, Some(tensor)) => retypes(graph, tensor, edits),
        (Some(operation), None) => compute_types(graph, operation, edits),
        (None, None) => {}
    }
}

/// FLOAT, which the surfaces recommend; for whole numbers and truth values INT32 and BOOLEAN as well.
fn retypes(graph: &FinalizedGraph, id: TensorId, edits: &mut Vec<Edit>) {
    let tensor = graph.tensor(id);
    if !tensor.is_virtual {
        return;
    }
    let is_truth = graph.producer(id).is_some_and(|producer| gives_truth(graph.operation(producer)));
    let whole: &[DataType] = match tensor.data_type {
        _ if is_truth => &[DataType::Int32, DataType::Boolean],
        data_type if data_type.is_integer() => &[DataType::Int32],
        _ => &[],
    };
    let others = [DataType::Float].iter().chain(whole).filter(|&&data_type| data_type != tensor.data_type);
    edits.extend(others.map(|&data_type| Edit::Retype(id, data_type)));
}

fn gives_truth(operation: &Operation) -> bool {
    matches!(&operation.attributes, Attributes::Pointwise(pointwise)
        if pointwise.mode.is_comparison() || pointwise.mode.is_logical())
}

/// FLOAT; for whole numbers INT32; for logical operations INT32 and BOOLEAN.
fn compute_types(graph: &FinalizedGraph, id: OperationId, edits: &mut Vec<Edit>) {
    let operation = graph.operation(id);
    let is_logical = matches!(&operation.attributes, Attributes::Pointwise(pointwise) if pointwise.mode.is_logical());
    let is_whole = operation.input_tensors().all(|input| graph.tensor(input).data_type.is_integer());
    let whole: &[DataType] = match (is_logical, is_whole) {
        (true, _) => &[DataType::Int32, DataType::Boolean],
        (false, true) => &[DataType::Int32],
        (false, false) => &[],
    };
    let current = graph.compute_type(id);
    let others = [DataType::Float].iter().chain(whole).filter(|&&data_type| data_type != current);
    edits.extend(others.map(|&data_type| Edit::Compute(id, data_type)));
}

/// Operands of two types: each may take the other's, the narrower first, which loses nothing.
fn core_types(graph: &FinalizedGraph, core: OperationId, edits: &mut Vec<Edit>) {
    let operands: Vec<TensorId> = graph.operation(core).input_tensors().take(2).collect();
    let &[first, second] = operands.as_slice() else { return };
    let mut pairs = [(first, second), (second, first)];
    pairs.sort_by_key(|&(operand, _)| graph.tensor(operand).data_type.bits());
    for (operand, other) in pairs {
        let to = graph.tensor(other).data_type;
        if to == graph.tensor(operand).data_type {
            continue;
        }
        let is_virtual = graph.tensor(operand).is_virtual;
        edits.push(if is_virtual { Edit::Retype(operand, to) } else { Edit::Convert { core, operand, to } });
    }
}

/// A Reduction whose result nothing reads, of a value that the graph computes.
fn trailing_reduction(graph: &FinalizedGraph) -> Option<OperationId> {
    let is_trailing = |id: &OperationId| {
        let operation = graph.operation(*id);
        let is_read = operation.result().is_some_and(|result| !graph.consumers(result).is_empty());
        let is_computed = operation.input_tensors().all(|input| graph.producer(input).is_some());
        matches!(operation.attributes, Attributes::Reduction(_)) && !is_read && is_computed
    };
    graph.operation_ids().rev().find(is_trailing)
}

/// Swaps tensors, not ports.
fn swap_inputs<T>(operation: &mut Operation<T>) -> Option<()> {
    let [(_, first), (_, second), ..] = operation.inputs.as_mut_slice() else { return None };
    std::mem::swap(first, second);
    Some(())
}

/// Strides in the same order, each stepping over all inner elements and, save the contiguous one, a multiple of
/// [`DEFAULT_ALIGNMENT`] bytes. `None` where no axis is contiguous, and on overflow.
fn padded(tensor: &FinalTensor) -> Option<Vec<i64>> {
    let unit = (8 * DEFAULT_ALIGNMENT).div_euclid(tensor.data_type.bits() as i64).max(1);
    let mut axes: Vec<usize> = (0..tensor.dim.len()).filter(|&axis| tensor.dim[axis] > 1).collect();
    axes.sort_by_key(|&axis| tensor.stride[axis]);
    let mut stride = tensor.stride.clone();
    let (&contiguous, outer) = axes.split_first()?;
    let mut span = Some(tensor.dim[contiguous]).filter(|_| stride[contiguous] == 1)?;
    for &axis in outer {
        stride[axis] = round_up(span.max(stride[axis]), unit)?;
        span = stride[axis].checked_mul(tensor.dim[axis])?;
    }
    Some(stride)
}

fn round_up(value: i64, unit: i64) -> Option<i64> {
    let beyond = value.rem_euclid(unit);
    if beyond == 0 { Some(value) } else { value.checked_add(unit - beyond) }
}

/// Puts an IDENTITY before an operand of the core, at every port that reads it.
fn convert(graph: &mut Graph, core: OperationId, operand: TensorId, to: DataType) {
    let source = &graph.tensors()[operand.index()];
    let name = format!("{}::converted", source.name);
    let result = Tensor { data_type: Some(to), dim: source.dim.clone(), is_virtual: true, ..Tensor::new(&name) };
    let result = graph.tensor(result);
    let slots = graph.operation_mut(core).inputs.iter_mut().filter(|slot| slot.1 == operand.handle());
    slots.for_each(|slot| slot.1 = result);
    graph.operation(Operation {
        name,
        attributes: Attributes::Pointwise(Pointwise::new(PointwiseMode::Identity)),
        compute_data_type: Some(DataType::Float),
        inputs: vec![(Port::IN_0, operand.handle())],
        outputs: vec![(Port::OUT_0, result)],
    });
}
