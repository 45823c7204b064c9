//! The cut of a graph into the fewest graphs of which each is taken.
//!
//! Parts are runs of operations in an order in which each follows what it reads, so no part waits for a later one. Two such orders are
//! tried: the graph's own, and one that stays on a chain as long as it can, which keeps an epilogue with its core.

use std::collections::HashMap;
use std::sync::Arc;

use crate::graph::{FinalizedGraph, Graph, OperationId, Tensor, TensorHandle, TensorId};

/// A graph's operations in parts, in the order in which they are to run.
pub(super) struct Cut {
    pub(super) parts: Vec<Part>,
}

/// One graph of a cut.
pub(super) struct Part {
    pub(super) operations: Vec<OperationId>,
    pub(super) graph: Arc<FinalizedGraph>,
}

/// The fewest parts, two at least and `most` at most, of which each is taken; `None` where there is no such cut.
pub(super) fn fewest(
    graph: &FinalizedGraph,
    most: usize,
    is_taken: &mut dyn FnMut(&Arc<FinalizedGraph>) -> bool,
) -> Option<Cut> {
    if graph.operations().len() < 2 {
        return None;
    }
    let own: Vec<OperationId> = graph.operation_ids().collect();
    let chains = along_chains(graph);
    let first = runs(graph, &own, most, is_taken);
    let limit = first.as_ref().map_or(most, |cut| cut.parts.len() - 1);
    if chains == own || limit < 2 {
        return first;
    }
    runs(graph, &chains, limit, is_taken).or(first)
}

/// The order in which an operation comes right after the last that it reads, where nothing forbids it.
fn along_chains(graph: &FinalizedGraph) -> Vec<OperationId> {
    let mut order = Vec::new();
    let mut is_placed = vec![false; graph.operations().len()];
    let ready = |id: OperationId, is_placed: &[bool]| {
        let mut producers = graph.operation(id).input_tensors().filter_map(|input| graph.producer(input));
        !is_placed[id.index()] && producers.all(|producer| is_placed[producer.index()])
    };
    let mut stack: Vec<OperationId> = graph.operation_ids().rev().collect();
    while let Some(id) = stack.pop() {
        if !ready(id, &is_placed) {
            continue;
        }
        is_placed[id.index()] = true;
        order.push(id);
        let readers = graph.operation(id).output_tensors().flat_map(|output| graph.consumers(output).iter().copied());
        stack.extend(readers);
    }
    order
}

/// The fewest runs of an order. Each step goes from every place reached to every place that one more part reaches.
fn runs(
    graph: &FinalizedGraph,
    order: &[OperationId],
    most: usize,
    is_taken: &mut dyn FnMut(&Arc<FinalizedGraph>) -> bool,
) -> Option<Cut> {
    let end = order.len();
    let mut parts: HashMap<usize, (usize, Part)> = HashMap::new();
    let mut reached = vec![0];
    for _ in 0..most {
        let mut next = Vec::new();
        for &from in &reached {
            for to in (from + 1..=end).rev() {
                let is_whole = from == 0 && to == end;
                if is_whole || parts.contains_key(&to) {
                    continue;
                }
                let Some(part) = part(graph, &order[from..to]).filter(|part| is_taken(&part.graph)) else { continue };
                parts.insert(to, (from, part));
                if to == end {
                    return Some(chained(parts, end));
                }
                next.push(to);
            }
        }
        reached = next;
    }
    None
}

/// The parts that lead to the end.
fn chained(mut parts: HashMap<usize, (usize, Part)>, end: usize) -> Cut {
    let mut chain = Vec::new();
    let mut place = end;
    while let Some((from, part)) = parts.remove(&place) {
        chain.push(part);
        place = from;
    }
    chain.reverse();
    Cut { parts: chain }
}

/// Some operations as a graph of their own: what others read of it is stored, what it reads of others is given.
fn part(graph: &FinalizedGraph, operations: &[OperationId]) -> Option<Part> {
    let whole = graph.to_graph();
    let is_own = |id: Option<OperationId>| id.is_some_and(|id| operations.contains(&id));
    let is_kept =
        |id: TensorId| is_own(graph.producer(id)) && graph.consumers(id).iter().all(|&reader| is_own(Some(reader)));
    let mut own = Graph { tensors: Vec::new(), operations: Vec::new(), ..whole.clone() };
    let mut handles: HashMap<TensorId, TensorHandle> = HashMap::new();
    let mut moved = |id: TensorId, own: &mut Graph| {
        *handles.entry(id).or_insert_with(|| {
            let tensor = &whole.tensors()[id.index()];
            own.tensor(Tensor { is_virtual: tensor.is_virtual && is_kept(id), ..tensor.clone() })
        })
    };
    for &id in operations {
        let operation = graph.operation(id).of_tensors(|tensor| moved(tensor, &mut own));
        own.operation(operation);
    }
    let offsets: Vec<(TensorId, TensorId)> =
        graph.tensor_ids().filter_map(|id| Some((id, graph.tensor(id).ragged_offset?))).collect();
    for (id, offset) in offsets.into_iter().filter(|(id, _)| graph.consumers(*id).iter().any(|&r| is_own(Some(r)))) {
        let (id, offset) = (moved(id, &mut own), moved(offset, &mut own));
        own.tensor_mut(id).ragged_offset = Some(offset);
    }
    Some(Part { operations: operations.to_vec(), graph: Arc::new(own.finalize().ok()?) })
}

impl Cut {
    /// Tensors that go from one part to another, with the bytes that each is written and read again.
    pub(super) fn stored<'a>(&'a self, graph: &'a FinalizedGraph) -> impl Iterator<Item = (TensorId, i64)> + 'a {
        let part_of = |id: OperationId| self.parts.iter().position(|part| part.operations.contains(&id));
        graph.tensor_ids().filter_map(move |id| {
            let made = part_of(graph.producer(id)?);
            let tensor = graph.tensor(id);
            let crosses = graph.consumers(id).iter().any(|&reader| part_of(reader) != made);
            let elements = tensor.dim.iter().fold(1i64, |product, &extent| product.saturating_mul(extent));
            crosses.then_some((id, elements.saturating_mul(tensor.data_type.bits() as i64) / 8))
        })
    }
}
