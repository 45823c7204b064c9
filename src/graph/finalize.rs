//! Well-formedness, completion, canonical order: from a [`Graph`] to a [`FinalizedGraph`].

use std::collections::HashSet;

use super::defects::Defects;
use super::draft::Draft;
use super::topology::Topology;
use super::{
    FinalTensor, FinalizedGraph, Graph, GraphKey, Operation, OperationId, Tensor, TensorHandle, TensorId, attention,
    canonical, infer, normal,
};
use crate::graph::Malformed;

/// Largest rank of a tensor (`CUDNN_DIM_MAX`, D-R6).
pub const MAX_RANK: usize = 8;

/// Largest number of operations in one graph; larger ones are refused at once.
pub const MAX_OPERATIONS: usize = 1 << 16;

/// See [`Graph::finalize`].
pub(super) fn finalize(graph: &Graph) -> Result<FinalizedGraph, Malformed> {
    let _span = tracing::debug_span!("finalize", graph = %graph.name.escape_debug()).entered();
    let mut defects = Defects::default();
    let mut draft = Draft::link(graph, &mut defects)?;
    normal::repair(&mut draft);
    let mut topology = Topology::of(&draft, &mut defects);
    let positions: Vec<u32> = (0..draft.operations.len() as u32).collect();
    let order = topology.order(&draft, &positions, &mut defects);
    infer::complete(&mut draft, &order, &mut defects);
    check_outputs(&draft, &mut defects);
    defects.into_result()?;
    // A part of a well-formed graph is well formed.
    let mut defects = Defects::default();
    if remove_dead_ends(&mut draft, &topology) | attention::lower(&mut draft)? | normal::normalise(&mut draft) {
        topology = Topology::of(&draft, &mut defects);
    }
    let order = topology.order(&draft, &canonical::ranks(&draft), &mut defects);
    defects.into_result()?;
    let finalized = assemble(draft, &order);
    tracing::debug!(graph_key = %finalized.key(), operations = order.len(), "finalized");
    Ok(finalized)
}

/// something must be stored.
fn check_outputs(draft: &Draft, defects: &mut Defects) {
    let mut results = draft.operations.iter().flat_map(Operation::output_tensors);
    if results.all(|id| draft.tensor(id).is_virtual) {
        let message = "every result is virtual; at least one must be an output of the graph";
        defects.add(Malformed::graph("A-61", message));
    }
}

/// takes out operations from which no stored tensor can be reached, and says so.
fn remove_dead_ends(draft: &mut Draft, topology: &Topology) -> bool {
    let live = topology.live(draft);
    let before = std::mem::take(&mut draft.operations);
    let count = before.len();
    for (operation, live) in before.into_iter().zip(live) {
        if live {
            draft.operations.push(operation);
        } else {
            let (name, tag) = (operation.name.escape_debug(), operation.tag());
            draft.notes.push(format!("operation '{name}' ({tag}) leads to no output; it was taken out (A-61)"));
        }
    }
    draft.operations.len() < count
}

/// Numbers operations and tensors canonically and fills in what follows from the numbering.
fn assemble(mut draft: Draft, order: &[OperationId]) -> FinalizedGraph {
    let tensor_order = draft.used_tensors(order.iter().copied());
    let number = inverse(tensor_order.iter().map(|id| id.index()), draft.tensors.len());
    let became = became(&draft.same_as, &tensor_order, &number);
    let operations = renumber_operations(&mut draft, order, &number);
    let mut tensors = renumber_tensors(&mut draft, &tensor_order, &number);
    assign_uids(&mut tensors);
    let class = draft.is_dynamic.then(|| GraphKey::of_class(&tensors, &operations));
    let key = GraphKey::of(&tensors, &operations, class);
    let tensors: Vec<FinalTensor> = tensors.into_iter().map(complete_tensor).collect();
    FinalizedGraph {
        name: draft.name,
        default_types: draft.default_types,
        consumers: find_consumers(tensors.len(), &operations),
        producer: find_producers(tensors.len(), &operations),
        by_uid: tensors.iter().zip(0..).map(|(tensor, number)| (tensor.uid, TensorId(number))).collect(),
        tensors,
        operations,
        notes: draft.notes,
        became,
        expectations: draft.expectations,
        key,
        class,
    }
}

/// For each old position, its place in `order`; 0 for those that are not in it.
fn inverse(order: impl Iterator<Item = usize>, count: usize) -> Vec<u32> {
    let mut places = vec![0; count];
    order.zip(0..).for_each(|(old, new)| places[old] = new);
    places
}

/// For each tensor of the author, its place in `order`.
fn became(same_as: &[TensorId], order: &[TensorId], number: &[u32]) -> Vec<Option<TensorId>> {
    let place = |kept: &TensorId| {
        let place = number[kept.index()];
        (order.get(place as usize) == Some(kept)).then_some(TensorId(place))
    };
    same_as.iter().map(place).collect()
}

fn renumber_operations(draft: &mut Draft, order: &[OperationId], number: &[u32]) -> Vec<Operation> {
    let mut taken: Vec<Option<Operation>> = std::mem::take(&mut draft.operations).into_iter().map(Some).collect();
    let mut operations: Vec<Operation> = order.iter().filter_map(|id| taken[id.index()].take()).collect();
    let slots = operations.iter_mut().flat_map(|op| op.inputs.iter_mut().chain(&mut op.outputs));
    slots.for_each(|slot| slot.1 = TensorId(number[slot.1.index()]));
    operations
}

fn renumber_tensors(draft: &mut Draft, order: &[TensorId], number: &[u32]) -> Vec<Tensor> {
    let mut tensors: Vec<Tensor> = order.iter().map(|id| std::mem::take(&mut draft.tensors[id.index()])).collect();
    let offsets = tensors.iter_mut().filter_map(|tensor| tensor.ragged_offset.as_mut());
    offsets.for_each(|offset| *offset = TensorHandle(number[offset.index()]));
    tensors
}

/// Gives every tensor without a uid the smallest positive one that is free.
fn assign_uids(tensors: &mut [Tensor]) {
    let taken: HashSet<i64> = tensors.iter().filter_map(|tensor| tensor.uid).collect();
    let mut free = (1..).filter(|uid| !taken.contains(uid));
    for tensor in tensors.iter_mut().filter(|tensor| tensor.uid.is_none()) {
        tensor.uid = free.next();
    }
}

/// The operation that writes each tensor.
pub(super) fn find_producers(tensors: usize, operations: &[Operation]) -> Vec<Option<OperationId>> {
    let mut producer = vec![None; tensors];
    for (operation, number) in operations.iter().zip(0..) {
        operation.output_tensors().for_each(|id| producer[id.index()] = Some(OperationId(number)));
    }
    producer
}

/// The operations that read each tensor, each once, in order.
pub(super) fn find_consumers(tensors: usize, operations: &[Operation]) -> Vec<Vec<OperationId>> {
    let mut consumers: Vec<Vec<OperationId>> = vec![Vec::new(); tensors];
    for (operation, number) in operations.iter().zip(0..) {
        for id in operation.input_tensors() {
            let readers = &mut consumers[id.index()];
            if readers.last() != Some(&OperationId(number)) {
                readers.push(OperationId(number));
            }
        }
    }
    consumers
}

/// Every field is known: [`infer::complete`] and [`assign_uids`] saw to it.
fn complete_tensor(tensor: Tensor) -> FinalTensor {
    FinalTensor {
        name: tensor.name,
        uid: tensor.uid.expect("uids were assigned"),
        data_type: tensor.data_type.expect("types were completed"),
        dim: tensor.dim,
        stride: tensor.stride,
        is_virtual: tensor.is_virtual,
        is_pass_by_value: tensor.is_pass_by_value,
        value: tensor.value,
        alignment: tensor.alignment,
        reordering: tensor.reordering,
        ragged_offset: tensor.ragged_offset.map(|offset| TensorId(offset.0)),
        ragged_offset_multiplier: tensor.ragged_offset_multiplier,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::random::random_graph;
    use super::super::samples::{convolution, half_graph, input, matmul_bias_relu, shuffled};
    use super::super::{ConvolutionDirection, DataType, PointwiseMode};
    use super::*;

    #[test]
    fn what_was_finalized_can_be_written_and_finalized_again() {
        for graph in [matmul_bias_relu(), convolution(ConvolutionDirection::BackwardFilter)] {
            let once = graph.name("g").finalize().unwrap();
            let written = once.to_graph();
            assert_eq!((written.name.as_str(), written.io_data_type), ("g", Some(DataType::Half)));
            let twice = written.finalize().unwrap();
            assert_eq!(twice.text(), once.text());
            assert_eq!(twice.key(), once.key());
            assert_eq!(twice.legend(), once.legend());
            assert!(twice.notes().is_empty(), "{:?}", twice.notes());
        }
    }

    #[test]
    fn missing_uids_become_the_smallest_free_ones() {
        let mut graph = matmul_bias_relu();
        graph.tensor_mut(TensorHandle(0)).uid = Some(2);
        graph.tensor_mut(TensorHandle(2)).uid = Some(-4);
        let finalized = graph.finalize().unwrap();
        let uids: Vec<i64> = finalized.tensors().map(|tensor| tensor.uid).collect();
        assert_eq!(uids, [2, 1, 3, -4, 4, 5]);
        assert_eq!(finalized.tensor_by_uid(-4).map(|id| finalized.tensor(id).name.as_str()), Some("bias"));
        assert_eq!(finalized.tensor_by_uid(6), None);
    }

    /// Whatever the order in which a graph is written down, a handle leads to the tensor that it was given for.
    #[test]
    fn handles_lead_to_what_they_were_given_for() {
        for seed in 0..16 {
            let graph = shuffled(&matmul_bias_relu(), seed);
            let finalized = graph.finalize().unwrap();
            for handle in graph.tensor_ids() {
                let id = finalized.id_of(handle).expect("every tensor is used");
                assert_eq!(finalized.tensor(id).name, graph.tensors()[handle.index()].name);
                assert_eq!(finalized.uid_of(handle), Some(finalized.tensor(id).uid));
                assert_eq!(finalized.to_graph().tensors()[id.handle().index()].name, finalized.tensor(id).name);
            }
        }
    }

    #[test]
    fn handles_of_what_is_not_in_the_graph_lead_nowhere() {
        let mut graph = matmul_bias_relu();
        let unused = graph.tensor(Tensor::new("unused"));
        let c = graph.operations()[0].result().expect("C");
        let dead = graph.pointwise("dead", PointwiseMode::Exp, &[c]);
        let mut larger = graph.clone();
        let finalized = graph.finalize().unwrap();
        assert_eq!([unused, dead].map(|handle| finalized.id_of(handle)), [None; 2]);
        assert_eq!([unused, dead].map(|handle| finalized.uid_of(handle)), [None; 2]);
        assert_eq!(finalized.id_of(larger.tensor(Tensor::new("beyond"))), None);
        let id = finalized.id_of(c).expect("C is used");
        assert_eq!(finalized.tensor(id).name, graph.tensors()[c.index()].name);
    }

    #[test]
    fn descriptors_with_one_uid_lead_to_one_tensor() {
        let mut graph = half_graph();
        let [x, again] = ["x", "again"].map(|name| graph.tensor(Tensor::new(name).uid(7).row_major([2, 3])));
        let y = graph.pointwise("double", PointwiseMode::Add, &[x, again]);
        graph.set_output(y);
        let finalized = graph.finalize().unwrap();
        assert_eq!(finalized.id_of(again), finalized.id_of(x));
        assert_eq!([x, again].map(|handle| finalized.uid_of(handle)), [Some(7); 2]);
    }

    /// What is made from a finalized graph keeps its tensors.
    #[test]
    fn handles_lead_into_expansions_too() {
        let mut graph = half_graph();
        let x = input(&mut graph, "x", &[2, 3]);
        let y = graph.softmax("softmax", x);
        graph.set_output(y);
        let finalized = graph.finalize().unwrap();
        let expanded = finalized.expand();
        assert!(expanded.operations().len() > 1);
        assert_eq!([x, y].map(|handle| expanded.id_of(handle)), [x, y].map(|handle| finalized.id_of(handle)));
    }

    #[test]
    fn readers_and_writers_are_known() {
        let mut graph = half_graph();
        let x = input(&mut graph, "x", &[4]);
        let square = graph.pointwise("square", PointwiseMode::Mul, &[x, x]);
        let sum = graph.pointwise("sum", PointwiseMode::Add, &[square, x]);
        graph.set_output(sum);
        let finalized = shuffled(&graph, 2).finalize().unwrap();
        let [x, square, sum] = [0, 1, 2].map(TensorId);
        let [first, second] = [0, 1].map(OperationId);
        assert_eq!(finalized.consumers(x), [first, second]);
        assert_eq!(finalized.consumers(square), [second]);
        assert_eq!((finalized.producer(x), finalized.producer(sum)), (None, Some(second)));
        assert_eq!(finalized.inputs().collect::<Vec<_>>(), [x]);
        assert_eq!(finalized.outputs().collect::<Vec<_>>(), [sum]);
        assert_eq!(finalized.describe_operation(first), "'square' (POINTWISE MUL)");
    }

    proptest! {
        /// Whatever the graph, there is a result or an error, and finalizing a result again changes nothing.
        #[test]
        fn no_graph_makes_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            if let Ok(finalized) = random_graph(bytes).finalize() {
                prop_assert_eq!(finalized.to_graph().finalize().unwrap().text(), finalized.text());
            }
        }
    }
}
