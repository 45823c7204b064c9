//! Smaller graphs that still show a finding.

use crate::graph::{FinalizedGraph, Graph, TensorHandle};
use crate::reference::shrink;

/// Makes a graph smaller as long as `shows` holds of it: operations go one by one, then extents are halved.
pub fn minimize(graph: &Graph, shows: impl Fn(&Graph) -> bool) -> Graph {
    // with every extent filled in, so that operations may go from the middle
    let complete = graph.finalize().map(|finalized| finalized.to_graph()).ok().filter(&shows);
    let mut smallest = complete.unwrap_or_else(|| graph.clone());
    while let Some(smaller) = without_one(&smallest, &shows) {
        smallest = smaller;
    }
    let still = |smaller: &FinalizedGraph| shows(&smaller.to_graph());
    let shrunk = smallest.finalize().ok().and_then(|finalized| shrink(&finalized, |_| false, still));
    shrunk.map_or(smallest, |shrunk| shrunk.graph.to_graph())
}

/// The graph without some operation.
fn without_one(graph: &Graph, shows: &impl Fn(&Graph) -> bool) -> Option<Graph> {
    (0..graph.operations().len()).rev().filter_map(|place| without(graph, place)).find(shows)
}

/// The graph without an operation: who reads its result reads its first operand of the same extents, or an input of its
/// own in its place.
fn without(graph: &Graph, place: usize) -> Option<Graph> {
    if graph.operations().len() < 2 {
        return None;
    }
    let mut smaller = graph.clone();
    let gone = smaller.operations.remove(place);
    for (_, result) in &gone.outputs {
        let dim = &graph.tensors()[result.index()].dim;
        let mut same =
            gone.input_tensors().filter(|input| !dim.is_empty() && graph.tensors()[input.index()].dim == *dim);
        match same.next() {
            Some(input) => {
                let slots = smaller.operations.iter_mut().flat_map(|operation| &mut operation.inputs);
                slots.filter(|slot| slot.1 == *result).for_each(|slot| slot.1 = input);
            }
            None => smaller.tensor_mut(*result).is_virtual = false,
        }
    }
    Some(packed(&smaller))
}

/// The graph without tensors that nothing touches; values that nothing reads any more become outputs.
fn packed(graph: &Graph) -> Graph {
    let mut result = Graph { tensors: Vec::new(), operations: Vec::new(), ..graph.clone() };
    let mut places = vec![None; graph.tensors().len()];
    for operation in graph.operations() {
        let mut operation = operation.clone();
        for slot in operation.inputs.iter_mut().chain(&mut operation.outputs) {
            let old = slot.1.index();
            slot.1 = *places[old].get_or_insert_with(|| result.tensor(graph.tensors()[old].clone()));
        }
        result.operation(operation);
    }
    let read: Vec<TensorHandle> = result.operations.iter().flat_map(|operation| operation.input_tensors()).collect();
    for id in result.tensor_ids() {
        if !read.contains(&id) {
            result.tensor_mut(id).is_virtual = false;
        }
    }
    result
}
