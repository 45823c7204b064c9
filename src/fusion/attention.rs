//! Attention as a core: two products with a softmax of the first one's rows between them, and what loads keys and values out of pages.

use std::collections::BTreeSet;

use crate::graph::{Attributes, Composite, FinalizedGraph, Operation, OperationId, Port, TensorId};

mod scaling;

pub use scaling::{Scaled, Scaling};

/// `O = dropout(softmax(mask(g(Q · Kᵀ)))) · V`, either factor of the second product and O scaled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attention {
    /// The product of queries and keys.
    pub scores: OperationId,
    /// What is done with each score before it is masked (g), in topological order: pointwise operations.
    pub modifiers: Vec<OperationId>,
    /// The mask of scores, if there is one.
    pub mask: Option<OperationId>,
    /// The softmax of the rows of scores.
    pub softmax: OperationId,
    /// What drops probabilities, if anything does.
    pub dropout: Option<OperationId>,
    /// The product of probabilities and values.
    pub output: OperationId,
    /// What scales probabilities and O.
    pub scaling: Scaling,
    /// What loads K, and V, out of pages, if they are in some.
    pub loads: [Option<OperationId>; 2],
}

/// Whether a graph is fused around an attention.
pub(crate) fn is_attention(graph: &FinalizedGraph) -> bool {
    Attention::of(graph).is_some()
}

impl Attention {
    /// The attention that a graph with two products is; `None` where it is none.
    pub(super) fn of(graph: &FinalizedGraph) -> Option<Self> {
        let products: Vec<OperationId> = of_kind(graph, |operation| operation.is_core());
        let softmaxes = of_kind(graph, |operation| is_composite(operation, |it| matches!(it, Composite::Softmax(_))));
        let (&[scores, output], &[softmax]) = (&products[..], &softmaxes[..]) else { return None };
        let are_matmuls = products.iter().all(|&id| matches!(graph.operation(id).attributes, Attributes::Matmul(_)));
        let rows = graph.operation(softmax);
        let mut p = rows.output(Port::Y)?;
        let mut scaling = Scaling::behind(graph, graph.operation(output).output(Port::C)?);
        let is_dropout = |it: &Composite| matches!(it, Composite::Dropout(_) | Composite::MaskedDropout(_));
        let is_dropout = |id: &OperationId| is_composite(graph.operation(*id), is_dropout);
        let stores = |id: &OperationId| graph.operation(*id).output(Port::S).is_some();
        let dropout = graph.consumers(p).first().copied().filter(is_dropout).filter(|_| is_private(graph, p));
        let dropout = dropout.filter(|id| !stores(id));
        if let Some(dropout) = dropout {
            p = graph.operation(dropout).output(Port::Y)?;
        }
        if let Some(scaled) = scaling.add_probabilities(graph, p) {
            p = scaled;
        }
        let is_read_once = graph.tensor(p).is_virtual && graph.consumers(p) == [output];
        if !are_matmuls || !is_read_once || graph.operation(output).input(Port::A) != Some(p) {
            return None;
        }
        let mut x = rows.input(Port::X)?;
        let is_mask = |id: &OperationId| {
            is_composite(graph.operation(*id), |it| matches!(it, Composite::ScoreMask(_))) && is_private(graph, x)
        };
        let mask = graph.producer(x).filter(is_mask);
        if let Some(mask) = mask {
            x = graph.operation(mask).input(Port::X)?;
        }
        let modifiers = modifiers(graph, graph.operation(scores).output(Port::C)?, x)?;
        let loads = [scores, output].map(|product| load(graph, graph.operation(product).input(Port::B)?));
        Some(Self { scores, modifiers, mask, softmax, dropout, output, scaling, loads })
    }

    /// The operations, in no order.
    pub fn operations(&self) -> impl Iterator<Item = OperationId> + '_ {
        let single = [Some(self.scores), self.mask, Some(self.softmax), self.dropout, Some(self.output)];
        self.modifiers
            .iter()
            .copied()
            .chain(single.into_iter().chain(self.loads).flatten())
            .chain(self.scaling.operations())
    }

    /// Q and K of the product of scores, V of the other.
    pub fn operands(&self, graph: &FinalizedGraph) -> [TensorId; 3] {
        let input = |id: OperationId, port| graph.operation(id).input(port).expect("a matmul has two operands");
        [input(self.scores, Port::A), input(self.scores, Port::B), input(self.output, Port::B)]
    }

    /// Q, K and V where they are in memory: K and V, or containers of their pages. With each the axis of its elements.
    pub fn sources(&self, graph: &FinalizedGraph) -> [(TensorId, usize); 3] {
        let [q, k, v] = self.operands(graph);
        let source = |load: Option<OperationId>, operand: (TensorId, usize)| {
            let container = load.and_then(|id| graph.operation(id).input(Port::CONTAINER));
            container.map_or(operand, |container| (container, 3))
        };
        [(q, 3), source(self.loads[0], (k, 2)), source(self.loads[1], (v, 3))]
    }

    /// O: the second product's result, scaled.
    pub fn result(&self, graph: &FinalizedGraph) -> TensorId {
        let product = graph.operation(self.output).output(Port::C);
        self.scaling.result().or(product).expect("a matmul has a result")
    }

    /// Probabilities as they are multiplied.
    pub fn probabilities(&self, graph: &FinalizedGraph) -> TensorId {
        graph.operation(self.output).input(Port::A).expect("a matmul has two operands")
    }

    /// The first product's result, and what is masked, or goes into the softmax as it is.
    pub fn modified(&self, graph: &FinalizedGraph) -> [TensorId; 2] {
        let first = graph.operation(self.scores).output(Port::C).expect("a matmul has a result");
        let last = graph.operation(self.mask.unwrap_or(self.softmax)).input(Port::X).expect("X is required");
        [first, last]
    }
}

/// What loads an operand out of pages, where nobody else reads it.
fn load(graph: &FinalizedGraph, operand: TensorId) -> Option<OperationId> {
    let is_load =
        |id: &OperationId| is_composite(graph.operation(*id), |it| matches!(it, Composite::PagedCacheLoad(_)));
    graph.producer(operand).filter(is_load).filter(|_| is_private(graph, operand))
}

fn of_kind(graph: &FinalizedGraph, is_wanted: impl Fn(&Operation) -> bool) -> Vec<OperationId> {
    graph.operation_ids().filter(|&id| is_wanted(graph.operation(id))).collect()
}

pub(super) fn is_composite(operation: &Operation, is_wanted: impl Fn(&Composite) -> bool) -> bool {
    matches!(&operation.attributes, Attributes::Composite(composite) if is_wanted(composite))
}

/// Whether a value is read by one operation and kept nowhere.
fn is_private(graph: &FinalizedGraph, id: TensorId) -> bool {
    graph.tensor(id).is_virtual && graph.consumers(id).len() == 1
}

/// The pointwise operations from the scores to another value, whose values nobody else reads; `None` where others stand between.
fn modifiers(graph: &FinalizedGraph, scores: TensorId, x: TensorId) -> Option<Vec<OperationId>> {
    let (mut open, mut found) = (vec![x], BTreeSet::new());
    let mut is_reached = false;
    while let Some(id) = open.pop() {
        is_reached |= id == scores;
        let Some(producer) = graph.producer(id).filter(|_| id != scores) else { continue };
        if !matches!(graph.operation(producer).attributes, Attributes::Pointwise(_)) {
            return None;
        }
        if found.insert(producer) {
            open.extend(graph.operation(producer).input_tensors());
        }
    }
    let inside = |id: &OperationId| found.contains(id);
    let values = found.iter().flat_map(|&id| graph.operation(id).output_tensors()).chain([scores]);
    let mut values = values.filter(|&id| id != x);
    let are_private = values.all(|id| graph.tensor(id).is_virtual && graph.consumers(id).iter().all(inside));
    let is_last_private = is_private(graph, x);
    (is_reached && are_private && is_last_private).then(|| found.into_iter().collect())
}
