//! Who writes and who reads what: one writer, no in-place chains, no cycles, no dead ends. Built on petgraph.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use petgraph::Direction;
use petgraph::graph::{DiGraph, NodeIndex};
use petgraph::visit::EdgeRef;

use super::defects::Defects;
use super::draft::Draft;
use super::{Attributes, OperationId, TensorId};
use crate::graph::Malformed;

/// The operations of a graph as nodes, and an edge wherever one reads what another writes (GR-EDGE-UID).
#[derive(Debug)]
pub(super) struct Topology {
    graph: DiGraph<OperationId, TensorId>,
}

impl Topology {
    /// Ties operations to each other. Defects are GR-ONE-WRITER, GR-INPLACE-MULTI, GR-VIRTUAL-PRODUCER, and writing to a
    /// host scalar; of several writers the first counts.
    pub(super) fn of(draft: &Draft, defects: &mut Defects) -> Self {
        let producer = find_producers(draft, defects);
        check_in_place(draft, defects);
        let mut graph = DiGraph::with_capacity(draft.operations.len(), draft.operations.len());
        let nodes: Vec<NodeIndex> = draft.operation_ids().map(|id| graph.add_node(id)).collect();
        for id in draft.operation_ids() {
            for tensor in draft.operations[id.index()].input_tensors() {
                match producer[tensor.index()] {
                    Some(writer) if writer != id => {
                        graph.add_edge(nodes[writer.index()], nodes[id.index()], tensor);
                    }
                    Some(_) => {}
                    None if draft.tensor(tensor).is_virtual && !defects.is_suspect(tensor) => {
                        defects.add(no_producer(draft, id, tensor));
                        defects.suspect(tensor);
                    }
                    None => {}
                }
            }
        }
        Self { graph }
    }

    /// A topological order that, among the operations that are ready, always takes the one of least rank
    /// (Kahn's algorithm). With positions as ranks, an order that is already topological is kept. Operations on a cycle
    /// (GR-ACYCLIC) and behind it are left out.
    pub(super) fn order(&self, draft: &Draft, rank: &[u32], defects: &mut Defects) -> Vec<OperationId> {
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
        if order.len() < waiting.len() {
            defects.add(self.cycle(draft, &waiting));
        }
        order
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

fn find_producers(draft: &Draft, defects: &mut Defects) -> Vec<Option<OperationId>> {
    let mut producer: Vec<Option<OperationId>> = vec![None; draft.tensors.len()];
    for id in draft.operation_ids() {
        for tensor in draft.operations[id.index()].output_tensors() {
            if draft.tensor(tensor).is_pass_by_value {
                defects.add(draft.fault("A-59", id, Some(tensor), "is a host scalar, which no operation can write"));
                defects.suspect(tensor);
                continue;
            }
            if let Some(other) = producer[tensor.index()] {
                let other = super::draft::describe_operation(&draft.operations[other.index()], other);
                let message = format!("is also written by {other}; a tensor has at most one writer");
                defects.add(draft.fault("GR-ONE-WRITER", id, Some(tensor), message));
                defects.suspect(tensor);
                continue;
            }
            producer[tensor.index()] = Some(id);
        }
    }
    producer
}

/// GR-INPLACE-MULTI, GR-INPLACE-SINGLE, A-50: only a graph of one operation may read what it writes.
fn check_in_place(draft: &Draft, defects: &mut Defects) {
    if draft.operations.len() == 1 {
        return;
    }
    for id in draft.operation_ids() {
        let operation = &draft.operations[id.index()];
        for written in operation.output_tensors() {
            if operation.input_tensors().any(|read| read == written) {
                let message =
                    "is read and written by the same operation; only a graph of one operation may work in place";
                defects.add(draft.fault("GR-INPLACE-MULTI", id, Some(written), message));
                defects.suspect(written);
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
            defects.add(draft.fault("GR-INPLACE-MULTI", id, operation.result(), message));
        }
    }
}

fn no_producer(draft: &Draft, reader: OperationId, tensor: TensorId) -> Malformed {
    let message = "is virtual, but no operation writes it; only results can be virtual";
    draft.fault("GR-VIRTUAL-PRODUCER", reader, Some(tensor), message)
}

#[cfg(test)]
mod tests {
    use super::super::samples::{convolution, half_graph, input, matmul_bias_relu, refusal};
    use crate::graph::{
        Attributes, ConvolutionDirection, DataType, Graph, PointwiseMode, Port, Scalar, Tensor, TensorHandle,
    };

    /// Unary operations in a row; `edges` are (input, output) numbers of tensors t0, t1, …, all stored.
    fn graph_of(edges: &[(u32, u32)]) -> Graph {
        let mut graph = half_graph();
        for (at, &(from, to)) in edges.iter().enumerate() {
            while graph.tensors().len() <= from.max(to) as usize {
                let name = format!("t{}", graph.tensors().len());
                input(&mut graph, &name, &[2, 3]);
            }
            graph.pointwise(&format!("op{at}"), PointwiseMode::Abs, &[TensorHandle(from)]);
            graph.tensors.pop();
            graph.last_operation().outputs = vec![(Port::OUT_0, TensorHandle(to))];
        }
        graph
    }

    #[test]
    fn a_tensor_has_one_writer() {
        let message = refusal(&graph_of(&[(0, 1), (2, 1)]));
        assert!(
            message.contains("operation 'op1' (POINTWISE, node 1): tensor 't1': is also written by 'op0'"),
            "{message}"
        );
        assert!(message.ends_with("[GR-ONE-WRITER]"), "{message}");
    }

    #[test]
    fn a_virtual_tensor_has_a_writer() {
        let mut graph = matmul_bias_relu();
        graph.tensor_mut(TensorHandle(2)).is_virtual = true;
        let message = refusal(&graph);
        assert!(message.contains("'bias': is virtual, but no operation writes it"), "{message}");
        assert!(message.ends_with("[GR-VIRTUAL-PRODUCER]"), "{message}");
    }

    #[test]
    fn a_host_scalar_is_never_written() {
        let mut graph = matmul_bias_relu();
        graph.tensor_mut(TensorHandle(5)).is_pass_by_value = true;
        assert!(refusal(&graph).contains("'relu::OUT_0': is a host scalar, which no operation can write [A-59]"));
        let mut graph = half_graph();
        let x = graph.tensor(Tensor::scalar("x", DataType::Float, Scalar::Float(1.0)));
        let y = graph.pointwise("abs", PointwiseMode::Abs, &[x]);
        graph.set_output(y);
        assert_eq!(graph.finalize().unwrap().inputs().count(), 1);
    }

    #[test]
    fn only_a_graph_of_one_operation_works_in_place() {
        let alone = graph_of(&[(0, 0)]).finalize().unwrap();
        let x = alone.tensor_ids().next().unwrap();
        assert_eq!((alone.producer(x), alone.consumers(x).len()), (alone.operation_ids().next(), 1));
        let message = refusal(&graph_of(&[(0, 0), (0, 1)]));
        assert!(message.contains("'op0' (POINTWISE, node 0): tensor 't0': is read and written"), "{message}");
        assert!(message.ends_with("[GR-INPLACE-MULTI]"), "{message}");
    }

    #[test]
    fn beta_reads_in_place() {
        let mut graph = convolution(ConvolutionDirection::Forward);
        let set_beta = |graph: &mut Graph| match &mut graph.operations[0].attributes {
            Attributes::Convolution(convolution) => convolution.beta = 0.5,
            _ => unreachable!(),
        };
        set_beta(&mut graph);
        graph.finalize().unwrap();
        let y = graph.operations[0].result().unwrap();
        let relu = graph.pointwise("relu", PointwiseMode::ReluFwd, &[y]);
        graph.set_output(relu);
        let message = refusal(&graph);
        assert!(message.contains("beta is 0.5") && message.contains("graph of 2 operations"), "{message}");
        assert!(message.ends_with("[GR-INPLACE-MULTI]"), "{message}");
    }

    #[test]
    fn a_cycle_is_named() {
        let message = refusal(&graph_of(&[(0, 1), (1, 2), (2, 0)]));
        assert!(message.contains("runs in a circle: 'op"), "{message}");
        assert!(
            ["'op0' → 'op1'", "'op1' → 'op2'", "'op2' → 'op0'"].iter().filter(|step| message.contains(*step)).count()
                >= 2
        );
        assert!(message.ends_with("[GR-ACYCLIC]"), "{message}");
        let tail = refusal(&graph_of(&[(0, 1), (1, 0), (1, 2), (2, 3), (3, 4)]));
        assert!(tail.contains("'op0'") && tail.contains("'op1'") && !tail.contains("'op2'"), "{tail}");
    }

    #[test]
    fn a_long_cycle_is_cut() {
        let edges: Vec<(u32, u32)> = (0..20_000).map(|at| (at, (at + 1) % 20_000)).collect();
        let message = refusal(&graph_of(&edges));
        assert!(message.contains("… 19992 more") && message.len() < 400, "{message}");
    }

    #[test]
    fn dead_ends_are_taken_out_and_outputs_required() {
        let mut graph = matmul_bias_relu();
        let dead = graph.pointwise("dead", PointwiseMode::Exp, &[TensorHandle(4)]);
        graph.pointwise("deader", PointwiseMode::Exp, &[dead]);
        let finalized = graph.finalize().unwrap();
        assert_eq!(finalized.key(), matmul_bias_relu().finalize().unwrap().key());
        let notes = finalized.notes().join("\n");
        assert!(notes.contains("'dead' (POINTWISE) leads to no output") && notes.contains("'deader'"), "{notes}");
        let mut graph = matmul_bias_relu();
        graph.tensor_mut(TensorHandle(5)).is_virtual = true;
        assert!(
            refusal(&graph).contains("every result is virtual; at least one must be an output of the graph [A-61]")
        );
    }

    #[test]
    fn dead_ends_must_still_be_well_formed() {
        let mut graph = matmul_bias_relu();
        graph.matmul("dead", TensorHandle(0), TensorHandle(0));
        assert!(refusal(&graph).contains("'dead' (MATMUL, node 3)"));
    }

    #[test]
    fn any_order_of_operations_will_do() {
        let mut graph = matmul_bias_relu();
        graph.operations.reverse();
        assert_eq!(graph.finalize().unwrap().key(), matmul_bias_relu().finalize().unwrap().key());
    }
}
