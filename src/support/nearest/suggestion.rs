//! What edits may cure a defect. A suggestion is tried, so one too many costs time and nothing else.

use super::edit::{Edit, Layout, OperationUid, TensorUid};
use super::mirror::mirror;
use super::{number, shape};
use crate::graph::{
    Attributes, DEFAULT_ALIGNMENT, DataType, FinalTensor, FinalizedGraph, Operation, OperationId, TensorId,
};
use crate::support::findings::Violation;
use crate::support::rule::DetailedStatus;

/// What keeps a graph from what is wanted of it, in the graph's own ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Defect {
    pub(super) status: DetailedStatus,
    pub(super) operation: Option<OperationId>,
    pub(super) tensor: Option<TensorId>,
}

impl Defect {
    /// A broken rule.
    pub(crate) fn of(violation: &Violation) -> Self {
        Self { status: violation.status(), operation: violation.at.operation, tensor: violation.at.tensor }
    }

    /// Something that no edit is known for.
    pub(crate) fn unknown() -> Self {
        Self { status: DetailedStatus::Unspecified, operation: None, tensor: None }
    }

    /// What an engine may have against an operation: the type that it is computed in, the type of its result, or how it lies.
    pub(crate) fn of_operation(graph: &FinalizedGraph, id: OperationId) -> Vec<Self> {
        let result = graph.operation(id).result();
        let defect = |status, tensor| Self { status, operation: Some(id), tensor };
        let mut defects = vec![defect(DetailedStatus::DataType, None)];
        if matches!(graph.operation(id).attributes, Attributes::Reduction(_)) {
            defects.push(defect(DetailedStatus::DataType, result));
        }
        let overlaps =
            |id: &TensorId| !graph.tensor(*id).is_virtual && !crate::support::layout::is_disjoint(graph.tensor(*id));
        defects.extend(result.filter(overlaps).map(|tensor| defect(DetailedStatus::Layout, Some(tensor))));
        defects
    }
}

/// Edits that may cure some of these defects: each alone, and the same at every place that needs it.
pub(super) fn suggestions(graph: &FinalizedGraph, defects: &[Defect]) -> Vec<Edit> {
    let mut single: Vec<Edit> = Vec::new();
    for defect in defects {
        for edit in of_defect(graph, defect) {
            if !single.contains(&edit) {
                single.push(edit);
            }
        }
    }
    let mut all = joined(&single);
    all.extend(single);
    all
}

/// Edits of one kind that give the same, as one edit at all their places.
fn joined(single: &[Edit]) -> Vec<Edit> {
    let mut joined: Vec<(Edit, usize)> = Vec::new();
    for edit in single {
        let place = joined.iter_mut().find(|(known, _)| is_joinable(known, edit));
        match place {
            Some((known, count)) => {
                join(known, edit);
                *count += 1;
            }
            None => joined.push((edit.clone(), 1)),
        }
    }
    joined.into_iter().filter(|&(_, count)| count > 1).map(|(edit, _)| edit).collect()
}

fn is_joinable(known: &Edit, other: &Edit) -> bool {
    match (known, other) {
        (Edit::Align(_), Edit::Align(_)) | (Edit::Pad(_), Edit::Pad(_)) => true,
        (Edit::Retype(_, to), Edit::Retype(_, same)) | (Edit::Compute(_, to), Edit::Compute(_, same)) => to == same,
        (Edit::LayOut(_, layout), Edit::LayOut(_, same)) => layout == same,
        _ => false,
    }
}

fn join(known: &mut Edit, other: &Edit) {
    fn add<T: Copy + PartialEq>(places: &mut Vec<T>, others: &[T]) {
        let new: Vec<T> = others.iter().copied().filter(|place| !places.contains(place)).collect();
        places.extend(new);
    }
    match (known, other) {
        (Edit::Align(places), Edit::Align(others))
        | (Edit::Pad(places), Edit::Pad(others))
        | (Edit::Retype(places, _), Edit::Retype(others, _))
        | (Edit::LayOut(places, _), Edit::LayOut(others, _)) => add(places, others),
        (Edit::Compute(places, _), Edit::Compute(others, _)) => add(places, others),
        _ => {}
    }
}

fn of_defect(graph: &FinalizedGraph, defect: &Defect) -> Vec<Edit> {
    let mut edits = Vec::new();
    match defect.status {
        DetailedStatus::DataType => types(graph, defect, &mut edits),
        DetailedStatus::Layout => layouts(graph, defect, &mut edits),
        DetailedStatus::Shape => shapes(graph, defect, &mut edits),
        DetailedStatus::GraphPattern => ranks(graph, &mut edits),
        // a chip, a window and a scale are what the user wants
        DetailedStatus::ArchMismatch | DetailedStatus::Padding | DetailedStatus::Unspecified => {}
    }
    edits
}

fn shapes(graph: &FinalizedGraph, defect: &Defect, edits: &mut Vec<Edit>) {
    let turned = defect.operation.and_then(|id| {
        let operation = graph.operation(id);
        let edit = if is_commutative(operation) { Edit::Swap } else { mirror(operation).map(|_| Edit::Mirror)? };
        OperationUid::of(graph, id).map(edit)
    });
    edits.extend(turned);
    if defect.operation.is_some_and(|id| shape::is_of_channels(&graph.operation(id).attributes)) {
        edits.push(Edit::AddChannels);
    }
    ranks(graph, edits);
}

/// Every surface asks for ranks of 3 to 5, a matmul's for 3.
fn ranks(graph: &FinalizedGraph, edits: &mut Vec<Edit>) {
    let rank = graph.tensors().map(|tensor| tensor.dim.len()).max().unwrap_or(0);
    let is_spatial = graph.operations().any(|operation| matches!(operation.attributes, Attributes::Convolution(_)));
    if rank < 3 || (is_spatial && rank == 3) {
        edits.push(Edit::AddAxis);
    }
    if rank > 3 && graph.operations().any(|operation| matches!(operation.attributes, Attributes::Matmul(_))) {
        // batch axes that are apart in memory are first brought together
        let apart = graph.tensor_ids().filter(|&id| !shape::folds(&graph.tensor(id).dim, &graph.tensor(id).stride));
        let apart: Vec<TensorUid> = apart.map(|id| TensorUid::of(graph, id)).collect();
        edits.push(if apart.is_empty() { Edit::FoldBatch } else { Edit::LayOut(apart, Layout::RowMajor) });
    }
}

fn is_commutative(operation: &Operation) -> bool {
    match &operation.attributes {
        Attributes::Pointwise(pointwise) => pointwise.mode.is_commutative() && pointwise.alpha1 == pointwise.alpha2,
        _ => false,
    }
}

/// Alignment and padding, or the layout of channels last or, in a graph without a convolution, of rows.
fn layouts(graph: &FinalizedGraph, defect: &Defect, edits: &mut Vec<Edit>) {
    let Some(id) = defect.tensor else { return };
    let (tensor, uid) = (graph.tensor(id), vec![TensorUid::of(graph, id)]);
    if tensor.alignment < DEFAULT_ALIGNMENT && !tensor.is_virtual {
        edits.push(Edit::Align(uid.clone()));
    }
    // where two axes step equally, one of them was mistyped, and padding would take it for the other
    if !steps_equally(tensor) {
        edits.push(Edit::Pad(uid.clone()));
    }
    let layout = if tensor.dim.len() > 3 { Layout::ChannelsLast } else { Layout::RowMajor };
    edits.push(Edit::LayOut(uid, layout));
}

/// Whether two axes of more than one element have the same stride.
fn steps_equally(tensor: &FinalTensor) -> bool {
    let mut strides: Vec<i64> =
        tensor.dim.iter().zip(&tensor.stride).filter(|axis| *axis.0 > 1).map(|axis| *axis.1).collect();
    strides.sort_unstable();
    strides.windows(2).any(|pair| pair[0] == pair[1])
}

fn types(graph: &FinalizedGraph, defect: &Defect, edits: &mut Vec<Edit>) {
    match (defect.operation, defect.tensor) {
        (Some(operation), None) => compute_types(graph, operation, edits),
        (operation, Some(tensor)) => {
            if let Some(core) = operation.filter(|&id| graph.operation(id).is_core()) {
                core_types(graph, core, edits);
            }
            retypes(graph, tensor, edits);
        }
        (None, None) => {}
    }
}

fn retypes(graph: &FinalizedGraph, id: TensorId, edits: &mut Vec<Edit>) {
    let mut tried = vec![graph.tensor(id).data_type];
    for to in wanted_types(graph, id) {
        if !tried.contains(&to) {
            tried.push(to);
            edits.push(Edit::Retype(vec![TensorUid::of(graph, id)], to));
        }
    }
}

/// Types that lose nothing. FLOAT, which the surfaces recommend; for whole numbers and truth values INT32 and BOOLEAN as well; for what a
/// core reads or gives, the types of its operands.
fn wanted_types(graph: &FinalizedGraph, id: TensorId) -> Vec<DataType> {
    let tensor = graph.tensor(id);
    let cores = graph.operation_ids().filter(|&core| graph.operation(core).is_core());
    let operands: Vec<TensorId> = cores.flat_map(|core| operands(graph, core)).collect();
    let of_operands = operands.iter().map(|&operand| graph.tensor(operand).data_type);
    let lossless = lossless_types(graph, id, of_operands.clone().filter(|_| operands.contains(&id)));
    let others: &[DataType] = if is_truth(graph, id) {
        &[DataType::Int32, DataType::Boolean]
    } else if tensor.data_type.is_integer() {
        &[DataType::Int32]
    } else {
        &[]
    };
    lossless.into_iter().chain([DataType::Float]).chain(others.iter().copied()).chain(of_operands).collect()
}

/// Types that hold every number of what the caller stores: those of the operands beside it, which no engine has to convert, then the
/// smallest. A virtual tensor costs no memory.
fn lossless_types(graph: &FinalizedGraph, id: TensorId, beside: impl Iterator<Item = DataType>) -> Vec<DataType> {
    let tensor = graph.tensor(id);
    if tensor.is_virtual || is_truth(graph, id) {
        return Vec::new();
    }
    let exact: Vec<DataType> = number::exact(tensor.data_type).collect();
    beside.filter(|to| exact.contains(to)).chain(exact.iter().copied()).collect()
}

fn is_truth(graph: &FinalizedGraph, id: TensorId) -> bool {
    graph.producer(id).is_some_and(|producer| gives_truth(graph.operation(producer)))
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
    let wanted: &[DataType] = match (is_logical, is_whole) {
        (true, _) => &[DataType::Float, DataType::Int32, DataType::Boolean],
        (false, true) => &[DataType::Int32, DataType::Float],
        (false, false) => &[DataType::Float],
    };
    let current = graph.compute_type(id);
    let Some(uid) = OperationUid::of(graph, id) else { return };
    edits.extend(wanted.iter().filter(|&&to| to != current).map(|&to| Edit::Compute(vec![uid], to)));
}

/// Operands of two types: each may take the other's, the narrower first, which loses least.
fn core_types(graph: &FinalizedGraph, core: OperationId, edits: &mut Vec<Edit>) {
    let (Some(operation), operands) = (OperationUid::of(graph, core), operands(graph, core)) else { return };
    let &[first, second] = operands.as_slice() else { return };
    let mut pairs = [(first, second), (second, first)];
    pairs.sort_by_key(|&(operand, _)| graph.tensor(operand).data_type.bits());
    for (operand, other) in pairs {
        let (from, to) = (graph.tensor(operand), graph.tensor(other).data_type);
        if to == from.data_type {
            continue;
        }
        let operand = TensorUid::of(graph, operand);
        edits.push(match from.is_virtual {
            true => Edit::Retype(vec![operand], to),
            false => Edit::Convert { operation, operand, to },
        });
    }
}

/// What a core multiplies.
fn operands(graph: &FinalizedGraph, core: OperationId) -> Vec<TensorId> {
    let operation = graph.operation(core);
    operation.input_tensors().take(2).collect()
}
