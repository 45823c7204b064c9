//! The same graph, written down in another way.

use super::choices::Choices;
use crate::graph::{Graph, Operation, Tensor, TensorHandle};

/// The graph with its tensors and operations in another order, with other names and uids, all of them unique; what is
/// drawn from the bytes is the order. A verdict, a key and a kernel's source must not change by it.
pub fn rewritten(graph: &Graph, bytes: &[u8]) -> Graph {
    let choices = &mut Choices::new(bytes);
    let ids: Vec<TensorHandle> = graph.tensor_ids().collect();
    let order = permutation(choices, ids.len());
    let mut place = ids.clone();
    order.iter().zip(&ids).for_each(|(&old, &new)| place[old] = new);
    let mut result = Graph { tensors: Vec::new(), operations: Vec::new(), name: "another".to_owned(), ..graph.clone() };
    for (&old, alias) in order.iter().zip(permutation(choices, ids.len())) {
        let tensor = graph.tensors()[old].clone();
        let ragged_offset = tensor.ragged_offset.map(|id| place[id.index()]);
        let (name, uid) = (format!("tensor {alias}"), Some(7919 * alias as i64 - 40));
        result.tensor(Tensor { name, uid, ragged_offset, ..tensor });
    }
    let count = graph.operations().len();
    for (old, alias) in permutation(choices, count).into_iter().zip(permutation(choices, count)) {
        let mut operation = Operation { name: format!("operation {alias}"), ..graph.operations()[old].clone() };
        let slots = operation.inputs.iter_mut().chain(&mut operation.outputs);
        slots.for_each(|slot| slot.1 = place[slot.1.index()]);
        result.operation(operation);
    }
    result
}

/// Fisher and Yates.
fn permutation(choices: &mut Choices<'_>, count: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    for at in (1..count).rev() {
        order.swap(at, choices.below(at + 1));
    }
    order
}
