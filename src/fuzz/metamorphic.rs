//! Graphs made from a graph that mean the same.

use std::borrow::Cow;
use std::collections::BTreeSet;

use super::choices::Choices;
use crate::graph::{
    Attributes, DataType, FinalizedGraph, Graph, Operation, Pointwise, PointwiseMode, Port, Scalar, Tensor,
    TensorHandle, TensorId, packed_strides, row_major_order,
};

/// A change after which a graph's results are, bit by bit, what they were.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// Operands of a commutative operation are exchanged.
    Commuted,
    /// A value goes through an IDENTITY.
    ThroughIdentity,
    /// A value is multiplied by 1.
    TimesOne,
    /// −0 is added to a value: x + −0 is x, for −0 too.
    PlusZero,
    /// Composite operations are replaced by what defines them.
    TakenApart,
    /// Operands of a core are converted to the type that it is computed in before it.
    Converted,
}

impl Change {
    pub(super) const ALL: [Self; 6] =
        [Self::Commuted, Self::ThroughIdentity, Self::TimesOne, Self::PlusZero, Self::TakenApart, Self::Converted];

    /// For messages.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Commuted => "operands exchanged",
            Self::ThroughIdentity => "a value through IDENTITY",
            Self::TimesOne => "a value times 1",
            Self::PlusZero => "a value plus -0",
            Self::TakenApart => "composite operations taken apart",
            Self::Converted => "operands in the compute type",
        }
    }

    /// The changed graph; its tensors keep their ids, new ones come behind. `None` where there is nothing to change.
    pub(super) fn apply(self, graph: &FinalizedGraph, choices: &mut Choices<'_>) -> Option<Graph> {
        match self {
            Self::Commuted => commuted(graph, choices),
            Self::ThroughIdentity => through(graph, choices, PointwiseMode::Identity, None),
            Self::TimesOne => through(graph, choices, PointwiseMode::Mul, Some(1.0)),
            Self::PlusZero => through(graph, choices, PointwiseMode::Add, Some(-0.0)),
            Self::TakenApart => taken_apart(graph),
            Self::Converted => converted(graph),
        }
    }
}

/// Minima and maxima are left alone: which of two zeros they give may depend on the order.
fn commuted(graph: &FinalizedGraph, choices: &mut Choices<'_>) -> Option<Graph> {
    let mut changed = graph.to_graph();
    let is_candidate = |operation: &Operation<TensorHandle>| match &operation.attributes {
        Attributes::Pointwise(Pointwise { mode, .. }) => {
            mode.is_commutative() && !matches!(mode, PointwiseMode::Min | PointwiseMode::Max)
        }
        _ => false,
    };
    let places = changed.operations.iter().enumerate().filter(|(_, operation)| is_candidate(operation));
    let places: Vec<usize> = places.map(|(place, _)| place).collect();
    let place = places[choices.index_of(&places)?];
    let inputs = &mut changed.operations[place].inputs;
    let first = inputs.first()?.1;
    inputs[0].1 = inputs.get(1)?.1;
    inputs[1].1 = first;
    Some(changed)
}

/// The primitive operations of a composite one in place are no graph: one of them reads what a later one writes. Nor are those with views,
/// which kernels have in definitions alone.
fn taken_apart(graph: &FinalizedGraph) -> Option<Graph> {
    let in_place = |operation: &Operation| operation.output_tensors().any(|id| operation.input(Port::X) == Some(id));
    let is_view = |operation: &Operation| {
        use Attributes as A;
        matches!(operation.attributes, A::View | A::Transpose | A::PageGather | A::BlockBits)
    };
    match graph.expand() {
        Cow::Owned(expanded)
            if !graph.operations().any(in_place) && !expanded.operations().any(is_view) && !is_ragged(graph) =>
        {
            Some(expanded.to_graph())
        }
        _ => None,
    }
}

/// Whether sequences of tensors are as long as the mask of scores says: without its operation they are another's.
fn is_ragged(graph: &FinalizedGraph) -> bool {
    graph.tensors().any(|tensor| tensor.ragged_offset.is_some())
}

/// Conversions are computed in FLOAT, which has to hold the operands. A core in place is left alone: conversions would read what
/// it writes.
fn converted(graph: &FinalizedGraph) -> Option<Graph> {
    use DataType as T;
    let core = graph.operation_ids().find(|&id| graph.operation(id).is_core())?;
    let compute = match graph.compute_type(core) {
        T::FastFloatForFp8 => T::Float,
        compute @ (T::Float | T::Half | T::Int32) => compute,
        _ => return None,
    };
    let is_held = |id: TensorId| {
        let data_type = graph.tensor(id).data_type;
        data_type == T::Float || data_type.bits() <= 16
    };
    let operation = graph.operation(core);
    let in_place = operation.output_tensors().any(|id| operation.input_tensors().any(|input| input == id));
    let changes = !in_place && operation.input_tensors().all(is_held);
    changes.then(|| graph.with_operands_in(core, compute).to_graph())
}

/// Puts an operation with a host scalar between a value and one of those that read it.
fn through(
    graph: &FinalizedGraph,
    choices: &mut Choices<'_>,
    mode: PointwiseMode,
    scalar: Option<f64>,
) -> Option<Graph> {
    let takes = |id: &TensorId| {
        let tensor = graph.tensor(*id);
        let is_held = matches!(tensor.data_type, DataType::Float | DataType::Half | DataType::BFloat16);
        tensor.is_virtual && is_held && !graph.consumers(*id).is_empty()
    };
    let values: Vec<TensorId> = graph.tensor_ids().filter(takes).collect();
    let value = values[choices.index_of(&values)?];
    let consumer = choices.of(graph.consumers(value));
    let mut changed = graph.to_graph();
    let mut inputs = vec![(Port::IN_0, value.handle())];
    if let Some(scalar) = scalar {
        let rank = graph.tensor(value).dim.len();
        let tensor = Tensor::scalar("neutral", DataType::Float, Scalar::Float(scalar));
        inputs.push((Port::IN_1, changed.tensor(Tensor { dim: vec![1; rank], stride: vec![1; rank], ..tensor })));
    }
    let source = changed.tensors()[value.index()].clone();
    let result = changed.tensor(Tensor { name: "same".to_owned(), uid: None, ..source });
    let slots = changed.operations[consumer.index()].inputs.iter_mut();
    slots.filter(|slot| slot.1 == value.handle()).for_each(|slot| slot.1 = result);
    changed.operation(Operation {
        name: "neutral".to_owned(),
        attributes: Attributes::Pointwise(Pointwise::new(mode)),
        compute_data_type: Some(DataType::Float),
        inputs,
        outputs: vec![(Port::OUT_0, result)],
    });
    Some(changed)
}

/// A graph in two: the first stores a value that stayed inside before, the second reads it.
pub(super) struct Cut {
    pub(super) first: Graph,
    pub(super) second: Graph,
}

/// Cuts at some value; tensors keep their uids. `None` where no value stays inside, and where both parts would have to know how long sequences are.
pub(super) fn cut(graph: &FinalizedGraph, choices: &mut Choices<'_>) -> Option<Cut> {
    if is_ragged(graph) {
        return None;
    }
    // an operation with several results would be in both parts
    let has_one_result = |producer| graph.operation(producer).outputs.len() == 1;
    let is_inside = |id: &TensorId| graph.tensor(*id).is_virtual && graph.producer(*id).is_some_and(has_one_result);
    let values: Vec<TensorId> = graph.tensor_ids().filter(is_inside).collect();
    let value = values[choices.index_of(&values)?];
    let mut whole = graph.to_graph();
    // A value that stays inside may have the strides of an operand that overlaps itself; sums follow the order of axes.
    let tensor = whole.set_output(value.handle());
    let mut order = row_major_order(tensor.dim.len());
    order.sort_by_key(|&axis| tensor.stride[axis]);
    tensor.stride = packed_strides(&tensor.dim, &order);
    let outputs: Vec<TensorId> = graph.outputs().collect();
    let first = part(graph, &whole, &[value], None);
    let second = part(graph, &whole, &outputs, Some(value));
    Some(Cut { first, second })
}

/// The operations that some results need, without those behind a tensor that is given.
fn part(graph: &FinalizedGraph, whole: &Graph, results: &[TensorId], given: Option<TensorId>) -> Graph {
    let mut needed = BTreeSet::new();
    let mut open: Vec<TensorId> = results.to_vec();
    while let Some(id) = open.pop() {
        let producer = graph.producer(id).filter(|_| Some(id) != given);
        if let Some(producer) = producer.filter(|producer| needed.insert(producer.index())) {
            open.extend(graph.operation(producer).input_tensors());
        }
    }
    let mut part = Graph { tensors: Vec::new(), operations: Vec::new(), ..whole.clone() };
    let mut places = vec![None; whole.tensors().len()];
    for &index in &needed {
        let mut operation = whole.operations()[index].clone();
        for slot in operation.inputs.iter_mut().chain(&mut operation.outputs) {
            slot.1 = copied(whole, &mut part, &mut places, slot.1);
        }
        part.operation(operation);
    }
    part
}

/// A tensor of the whole in a part of it, with its offsets where it is ragged; `places` has those that are there.
fn copied(whole: &Graph, part: &mut Graph, places: &mut [Option<TensorHandle>], id: TensorHandle) -> TensorHandle {
    if let Some(place) = places[id.index()] {
        return place;
    }
    let mut tensor = whole.tensors()[id.index()].clone();
    tensor.ragged_offset = tensor.ragged_offset.map(|offsets| copied(whole, part, places, offsets));
    let place = part.tensor(tensor);
    places[id.index()] = Some(place);
    place
}
