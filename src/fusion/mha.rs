//! Attention whose probabilities lie in memory as a core (`docs/spec/attention.md` AT-G1, AT-G2): its products, and what is between them.
//!
//! ```text
//! forward:   S = g4(Q · g3(Kᵀ))    O = S · V, of which S is stored, or g4 has no softmax: what is neither is an [`Attention`](super::Attention)
//! backward:  dV = g5(S)ᵀ · dO    dS = dO · Vᵀ    dP = g6(dS, S)    dQ = dP · K    dK = g7(dP) · Q
//! ```

use std::collections::BTreeSet;

use super::attention::{is_attention, is_composite};
use crate::graph::{Attributes, Composite, FinalizedGraph, OperationId, Port, TensorId};

/// An attention whose probabilities lie in memory, or one of its passes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mha {
    /// Mha-fprop.
    Forward(MhaForward),
    /// Mha-bprop.
    Backward(MhaBackward),
}

/// `O = g4(Q · Kᵀ) · V`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MhaForward {
    /// The product of queries and keys.
    pub scores: OperationId,
    /// The product of probabilities and values.
    pub output: OperationId,
    /// What is between them, in topological order.
    pub between: Vec<OperationId>,
    /// The softmax of the rows of scores, if there is one.
    pub softmax: Option<OperationId>,
    /// What drops probabilities, if anything does.
    pub dropout: Option<OperationId>,
    /// S, where it is stored: what the backward pass reads.
    pub stored: Option<TensorId>,
}

/// Gradients of Q, K and V, given the probabilities.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MhaBackward {
    /// The product that is dV.
    pub d_v: OperationId,
    /// The product of dO and Vᵀ.
    pub d_s: OperationId,
    /// The product that is dQ.
    pub d_q: OperationId,
    /// The product that is dK.
    pub d_k: OperationId,
    /// The probabilities that the forward pass stored.
    pub s: TensorId,
    /// The gradients of scores.
    pub d_p: TensorId,
    /// What is done with the probabilities before they are multiplied, in topological order.
    pub g5: Vec<OperationId>,
    /// What gradients of scores are made of, in topological order.
    pub g6: Vec<OperationId>,
    /// What transposes the probabilities, and the gradients of scores (g7).
    pub transposes: [OperationId; 2],
}

/// Whether a graph is fused around an attention whose probabilities lie in memory.
pub(crate) fn is_mha(graph: &FinalizedGraph) -> bool {
    Mha::of(graph).is_some()
}

impl Mha {
    /// The attention that a graph of several products is; `None` where it is none.
    pub(super) fn of(graph: &FinalizedGraph) -> Option<Self> {
        let products: Vec<OperationId> = graph.operation_ids().filter(|&id| graph.operation(id).is_core()).collect();
        let is_matmul = |id: &OperationId| {
            let operation = graph.operation(*id);
            let ranks = operation.input_tensors().take(2).chain(operation.result());
            matches!(operation.attributes, Attributes::Matmul(_))
                && ranks.into_iter().all(|id| dim(graph, id).len() == 4)
        };
        match products[..] {
            [scores, output] if products.iter().all(is_matmul) => {
                MhaForward::of(graph, scores, output).map(Self::Forward)
            }
            [_, _, _, _] if products.iter().all(is_matmul) => MhaBackward::of(graph, &products).map(Self::Backward),
            _ => None,
        }
    }

    /// The operations of the pattern, in no order.
    pub fn operations(&self) -> Vec<OperationId> {
        match self {
            Self::Forward(forward) => [&forward.between[..], &[forward.scores, forward.output]].concat(),
            Self::Backward(backward) => {
                [&backward.g5[..], &backward.g6, &backward.products(), &backward.transposes].concat()
            }
        }
    }
}

fn dim(graph: &FinalizedGraph, id: TensorId) -> &[i64] {
    &graph.tensor(id).dim
}

/// The operations that a value is made of, if some tensors are given; `None` where one of them is not of the pattern.
fn leading_to(
    graph: &FinalizedGraph,
    value: TensorId,
    given: &[TensorId],
    is_taken: impl Fn(OperationId) -> bool,
) -> Option<BTreeSet<OperationId>> {
    let (mut open, mut found) = (vec![value], BTreeSet::new());
    while let Some(id) = open.pop() {
        let Some(producer) = graph.producer(id).filter(|_| !given.contains(&id)) else { continue };
        if !is_taken(producer) {
            return None;
        }
        if found.insert(producer) {
            open.extend(graph.operation(producer).input_tensors());
        }
    }
    Some(found)
}

fn input(graph: &FinalizedGraph, id: OperationId, port: Port) -> Option<TensorId> {
    graph.operation(id).input(port)
}

impl MhaForward {
    fn of(graph: &FinalizedGraph, scores: OperationId, output: OperationId) -> Option<Self> {
        if is_attention(graph) {
            return None;
        }
        let product = graph.operation(scores).output(Port::C)?;
        let is_given = |id: TensorId| graph.producer(id).is_none();
        let [q, k] = [input(graph, scores, Port::A)?, input(graph, scores, Port::B)?];
        let [p, v] = [input(graph, output, Port::A)?, input(graph, output, Port::B)?];
        let found = leading_to(graph, p, &[product], |id| is_of_scores(graph, id))?;
        let reads = |&id: &OperationId| graph.operation(id).input_tensors().any(|id| id == product);
        if ![q, k, v].into_iter().all(is_given) || !(p == product || found.iter().any(reads)) {
            return None;
        }
        let of_kind = |is_wanted: fn(&Composite) -> bool| {
            let mut found = found.iter().copied().filter(|&id| is_composite(graph.operation(id), is_wanted));
            found.next().map_or(Some(None), |id| found.next().is_none().then_some(Some(id)))
        };
        let softmax = of_kind(|it| matches!(it, Composite::Softmax(_)))?;
        let dropout = of_kind(|it| matches!(it, Composite::Dropout(_) | Composite::MaskedDropout(_)))?;
        let is_bare = !graph.tensor(product).is_virtual;
        if is_bare && p != product {
            return None;
        }
        let stored = if is_bare { Some(product) } else { stored(graph, &found)? };
        let is_last = |id: TensorId| {
            let producer = graph.producer(id);
            producer == dropout || producer == softmax && softmax.is_some() || softmax.is_none() && id == p
        };
        let fits = match stored {
            Some(stored) => is_last(stored),
            None => softmax.is_none(),
        };
        let between = found.into_iter().collect();
        fits.then_some(Self { scores, output, between, softmax, dropout, stored })
    }
}

/// Whether an operation may stand between scores and the second product.
fn is_of_scores(graph: &FinalizedGraph, id: OperationId) -> bool {
    let operation = graph.operation(id);
    let is_part = |it: &Composite| {
        matches!(
            it,
            Composite::Softmax(_) | Composite::ScoreMask(_) | Composite::Dropout(_) | Composite::MaskedDropout(_)
        )
    };
    matches!(operation.attributes, Attributes::Pointwise(_)) || is_composite(operation, is_part)
}

/// The scores that operations store, if any do; `None` where several are stored.
fn stored(graph: &FinalizedGraph, operations: &BTreeSet<OperationId>) -> Option<Option<TensorId>> {
    const SCORES: [Port; 3] = [Port::Y, Port::S, Port::OUT_0];
    let slots = operations.iter().flat_map(|&id| &graph.operation(id).outputs);
    let mut stored = slots.filter(|slot| SCORES.contains(&slot.0) && !graph.tensor(slot.1).is_virtual);
    let first = stored.next().map(|slot| slot.1);
    stored.next().is_none().then_some(first)
}

/// What transposes the first operand of a product, and what is transposed.
fn transposed(graph: &FinalizedGraph, product: OperationId) -> Option<(OperationId, TensorId)> {
    let operand = input(graph, product, Port::A).filter(|&id| graph.tensor(id).is_virtual)?;
    let id = graph.producer(operand)?;
    let operation = graph.operation(id);
    let x = operation.input(Port::X)?;
    is_composite(operation, |it| matches!(it, Composite::ScoreTranspose(_))).then_some((id, x))
}

/// The tensor in memory that a value is made of, element by element.
fn probabilities(graph: &FinalizedGraph, value: TensorId, operations: &BTreeSet<OperationId>) -> Option<TensorId> {
    let read = operations.iter().flat_map(|&id| graph.operation(id).input_tensors()).chain([value]);
    let is_whole = |&id: &TensorId| graph.producer(id).is_none() && dim(graph, id) == dim(graph, value);
    let found: BTreeSet<TensorId> = read.filter(is_whole).collect();
    let mut found = found.into_iter();
    found.next().filter(|_| found.next().is_none())
}

impl MhaBackward {
    fn of(graph: &FinalizedGraph, products: &[OperationId]) -> Option<Self> {
        let side = |id: OperationId, port| input(graph, id, port);
        let is_given = |id: TensorId| graph.producer(id).is_none();
        let are_given =
            |id: OperationId| [Port::A, Port::B].into_iter().all(|port| side(id, port).is_some_and(is_given));
        let d_s = *products.iter().find(|&&id| are_given(id))?;
        let others: Vec<OperationId> = products.iter().copied().filter(|&id| id != d_s).collect();
        let is_pointwise = |id: OperationId| matches!(graph.operation(id).attributes, Attributes::Pointwise(_));
        let of_values = |&id: &OperationId| {
            let (transpose, x) = transposed(graph, id)?;
            let g5 = leading_to(graph, x, &[], is_pointwise)?;
            let s = probabilities(graph, x, &g5)?;
            (side(id, Port::B) == side(d_s, Port::A)).then_some((id, transpose, s, g5))
        };
        let (d_v, first, s, g5) = others.iter().find_map(of_values)?;
        let of_keys = |&id: &OperationId| Some((id, transposed(graph, id)?)).filter(|_| id != d_v);
        let (d_k, (second, d_p)) = others.iter().find_map(of_keys)?;
        let d_q = *others.iter().find(|&&id| side(id, Port::A) == Some(d_p))?;
        let product = graph.operation(d_s).output(Port::C).filter(|&id| graph.tensor(id).is_virtual)?;
        let is_of_gradient =
            |id: OperationId| is_pointwise(id) || matches!(graph.operation(id).attributes, Attributes::Reduction(_));
        let g6 = leading_to(graph, d_p, &[product], is_of_gradient)?;
        let reads = |wanted: TensorId| g6.iter().any(|&id| graph.operation(id).input_tensors().any(|id| id == wanted));
        let mut values = g5.iter().chain(&g6).flat_map(|&id| graph.operation(id).output_tensors());
        let are_virtual = values.all(|id| id == d_p || graph.tensor(id).is_virtual);
        let of_keys_and_queries = [d_q, d_k].into_iter().all(|id| side(id, Port::B).is_some_and(is_given));
        let is_whole = reads(product) && reads(s) && are_virtual && of_keys_and_queries;
        let [g5, g6] = [g5, g6].map(|operations| operations.into_iter().collect());
        is_whole.then_some(Self { d_v, d_s, d_q, d_k, s, d_p, g5, g6, transposes: [first, second] })
    }

    /// The products, as gradients are documented: dV, dS, dQ, dK.
    pub fn products(&self) -> [OperationId; 4] {
        [self.d_v, self.d_s, self.d_q, self.d_k]
    }
}
