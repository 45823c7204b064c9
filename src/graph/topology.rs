//! Who writes and who reads what: one writer, no in-place chains, no cycles, no dead ends. Built on petgraph.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use petgraph::Direction;
use petgraph::graph::{DiGraph, NodeIndex};
use petgraph::visit::EdgeRef;

use super::draft::Draft;
use super::{Attributes, OperationId, TensorId};
use crate::error::Malformed;

/// The operations of a graph as nodes, and an edge wherever one reads what another writes (GR-EDGE-UID).
#[derive(Debug)]
pub(super) struct Topology {
    graph: DiGraph<OperationId, TensorId>,
    producer: Vec<Option<OperationId>>,
}

impl Topology {
    /// Ties operations to each other.
    ///
    /// # Errors
    /// GR-ONE-WRITER, GR-INPLACE-MULTI, GR-VIRTUAL-PRODUCER, and writing to a host scalar.
    pub(super) fn of(draft: &Draft) -> Result<Self, Malformed> {
        let producer = find_producers(draft)?;
        check_in_place(draft)?;
        let mut graph = DiGraph::with_capacity(draft.operations.len(), draft.operations.len());
        let nodes: Vec<NodeIndex> = draft.operation_ids().map(|id| graph.add_node(id)).collect();
        for id in draft.operation_ids() {
            for tensor in draft.operations[id.index()].input_tensors() {
                match producer[tensor.index()] {
                    Some(writer) if writer != id => {
                        graph.add_edge(nodes[writer.index()], nodes[id.index()], tensor);
                    }
                    Some(_) => {}
                    None if draft.tensor(tensor).is_virtual => return Err(no_producer(draft, id, tensor)),
                    None => {}
                }
            }
        }
        Ok(Self { graph, producer })
    }

    /// The operation that writes a tensor.
    pub(super) fn producer(&self, id: TensorId) -> Option<OperationId> {
        self.producer[id.index()]
    }

    /// A topological order that, among the operations that are ready, always takes the one of least rank
    /// (Kahn's algorithm). With positions as ranks, an order that is already topological is kept.
    ///
    /// # Errors
    /// GR-ACYCLIC, with the operations of one cycle.
    pub(super) fn order(&self, draft: &Draft, rank: &[u32]) -> Result<Vec<OperationId>, Malformed> {
        let mut waiting: Vec<usize> = self
            .graph
            .node_indices()
            .map(|node| self.graph.edges_directed(node, Direction::Incoming).count())
            .collect();
        let entry = |id: OperationId| Reverse((rank[id.index()], id));
        let sources = self.graph.node_weights().copied().filter(|id| waiting[id.index()] == 0);
        let mut ready: BinaryHeap<_> = sources.map(entry).collect();
        let mut order = Vec::with_capacity(waiting.len());
        while let Some(Reverse((_, id))) = ready.pop() {
            order.push(id);
            for edge in self.graph.edges(node(id)) {
                let next = self.graph[edge.target()];
                waiting[next.index()] -= 1;
                if waiting[next.index()] == 0 {
                    ready.push(entry(next));
                }
            }
        }
        if order.len() < waiting.len() { Err(self.cycle(draft, &waiting)) } else { Ok(order) }
    }

    /// Which operations lead to a non-virtual result. A signal always does: its flag is in memory.
    pub(super) fn live(&self, draft: &Draft) -> Vec<bool> {
        let stores = |id: OperationId| {
            let operation = &draft.operations[id.index()];
            matches!(operation.attributes, Attributes::Signal(_))
                || operation.output_tensors().any(|tensor| !draft.tensor(tensor).is_virtual)
        };
        let mut live = vec![false; draft.operations.len()];
        let mut stack: Vec<OperationId> = draft.operation_ids().filter(|&id| stores(id)).collect();
        stack.iter().for_each(|id| live[id.index()] = true);
        while let Some(id) = stack.pop() {
            for before in self.graph.neighbors_directed(node(id), Direction::Incoming) {
                let before = self.graph[before];
                if !std::mem::replace(&mut live[before.index()], true) {
                    stack.push(before);
                }
            }
        }
        live
    }

    /// Describes one cycle among the operations that never became ready. Each of them has a predecessor of the same
    /// kind, so walking backwards must meet itself.
    fn cycle(&self, draft: &Draft, waiting: &[usize]) -> Malformed {
        let stuck = |node: &NodeIndex| waiting[self.graph[*node].index()] > 0;
        let mut at = self.graph.node_indices().find(stuck).expect("an operation is left over");
        let mut step_of = vec![None; waiting.len()];
        let mut walk = Vec::new();
        while step_of[at.index()].is_none() {
            step_of[at.index()] = Some(walk.len());
            walk.push(self.graph[at]);
            at = self
                .graph
                .neighbors_directed(at, Direction::Incoming)
                .find(stuck)
                .expect("it waits for one that waits");
        }
        let cycle = &walk[step_of[at.index()].unwrap_or(0)..];
        let first = *cycle.last().expect("a cycle has a member");
        draft.fault("GR-ACYCLIC", first, None, describe_cycle(draft, cycle))
    }
}

/// Operations are added in order, so that node and operation numbers agree.
fn node(id: OperationId) -> NodeIndex {
    NodeIndex::new(id.index())
}

/// `cycle` runs against the dataflow; long ones are cut.
fn describe_cycle(draft: &Draft, cycle: &[OperationId]) -> String {
    const SHOWN: usize = 8;
    let name = |id: &OperationId| format!("'{}'", draft.operations[id.index()].name.escape_debug());
    let mut names: Vec<String> = cycle.iter().rev().take(SHOWN).map(name).collect();
    if cycle.len() > SHOWN {
        names.push(format!("… {} more", cycle.len() - SHOWN));
    }
    names.extend(cycle.last().map(name));
    format!("the dataflow runs in a circle: {}; a graph must be acyclic", names.join(" → "))
}

fn find_producers(draft: &Draft) -> Result<Vec<Option<OperationId>>, Malformed> {
    let mut producer: Vec<Option<OperationId>> = vec![None; draft.tensors.len()];
    for id in draft.operation_ids() {
        for tensor in draft.operations[id.index()].output_tensors() {
            if draft.tensor(tensor).is_pass_by_value {
                return Err(draft.fault("A-59", id, Some(tensor), "is a host scalar, which no operation can write"));
            }
            if let Some(other) = producer[tensor.index()].replace(id) {
                let other = super::draft::describe_operation(&draft.operations[other.index()], other);
                let message = format!("is also written by {other}; a tensor has at most one writer");
                return Err(draft.fault("GR-ONE-WRITER", id, Some(tensor), message));
            }
        }
    }
    Ok(producer)
}

/// GR-INPLACE-MULTI, GR-INPLACE-SINGLE, A-50: only a graph of one operation may read what it writes.
fn check_in_place(draft: &Draft) -> Result<(), Malformed> {
    if draft.operations.len() == 1 {
        return Ok(());
    }
    for id in draft.operation_ids() {
        let operation = &draft.operations[id.index()];
        for written in operation.output_tensors() {
            if operation.input_tensors().any(|read| read == written) {
                let message =
                    "is read and written by the same operation; only a graph of one operation may work in place";
                return Err(draft.fault("GR-INPLACE-MULTI", id, Some(written), message));
            }
        }
        if let Attributes::Convolution(convolution) = &operation.attributes
            && convolution.beta != 0.0
        {
            let message = format!(
                "beta is {}, which reads the prior result (an in-place read, A-50); in a graph of {} operations it must be 0",
                convolution.beta,
                draft.operations.len()
            );
            return Err(draft.fault("GR-INPLACE-MULTI", id, operation.result(), message));
        }
    }
    Ok(())
}

fn no_producer(draft: &Draft, reader: OperationId, tensor: TensorId) -> Malformed {
    let message = "is virtual, but no operation writes it; only results can be virtual";
    draft.fault("GR-VIRTUAL-PRODUCER", reader, Some(tensor), message)
}
