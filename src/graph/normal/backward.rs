//! The backward pass of an attention, which programs send as five products and what is between them (AT-P41 … AT-P48), as one
//! [`AttentionBackward`].
//!
//! ```text
//! Δ = Σ dO ∘ O, times 1      scores = Q · Kᵀ [· scale] [capped] [+ bias] [+ ALiBi]      P = exp of scores − STATS, masked
//! dV = Pᵀ · dO               dS = P ∘ (dO · Vᵀ − Δ) [times the slope of the cap] [· scale]        dK = dSᵀ · Q        dQ = dS · K
//! dBIAS = Σ dS before that   dSINK = Σ exp(SINK − STATS) ∘ Δ, whose sign is the operation's (AT-U1)
//! ```
//!
//! K and V are stored as they lie, and multiplied transposed. Heads of Q that share one of K, or of V, are added up behind the product.
//! Sums of rows and FLOAT gradients of Q that frontends have in their own workspace are written by nobody (AT-P43).

mod fp8;
mod walk;

use std::collections::BTreeSet;

use super::super::Other;
use super::super::draft::Draft;
use super::super::infer::Node;
use super::dropout::Drawn;
use super::flow::Flow;
use super::{
    AttentionBackward, Attributes, Dropout, Expectation, Operation, OperationId, Pointwise, PointwiseMode, Port,
    ReductionMode, TensorId,
};
use walk::{Dropping, OVER_KEYS, Rows, Scores, Walk};

/// How many products a backward pass has.
pub(super) const PRODUCTS: usize = 5;

/// Tag of a sum over heads that share one, which is a reduction to more than 1 along an axis: what does not become part of an attention
/// keeps it.
const HEAD_SUM: &str = "HEAD_SUM";

/// Sums over heads are no reductions of other graphs, and neither is a gradient of a bias that is as large as the scores.
pub(super) fn repair(draft: &mut Draft) {
    let is_product = |operation: &&Operation| matches!(operation.attributes, Attributes::Matmul(_));
    if draft.operations.iter().filter(is_product).count() != PRODUCTS {
        return;
    }
    // gradients of heads that are summed may lie in memory (AT-P43)
    let products: BTreeSet<TensorId> =
        draft.operations.iter().filter(is_product).flat_map(Operation::output_tensors).collect();
    for id in draft.operation_ids() {
        let operation = &draft.operations[id.index()];
        let sum = operation.input(Port::X).zip(operation.output(Port::Y)).filter(|_| is_sum(operation));
        let is_within = |x| draft.tensor(x).is_virtual || products.contains(&x);
        let Some((x, y)) = sum.filter(|sum| is_within(sum.0)) else { continue };
        let [of_x, of_y] = [x, y].map(|id| &draft.tensor(id).dim[..]);
        let (is_of_heads, is_whole) = (are_heads_of(of_x, of_y), of_x.len() == 4 && of_x == of_y);
        let operation = &mut draft.operations[id.index()];
        if is_of_heads {
            operation.attributes = Attributes::Other(Other { tag: HEAD_SUM, attributes: [].into() });
        } else if is_whole {
            operation.attributes = Attributes::Pointwise(Pointwise::new(PointwiseMode::Identity));
            (operation.inputs, operation.outputs) = (vec![(Port::IN_0, x)], vec![(Port::OUT_0, y)]);
        }
    }
}

/// Whether a sum is one that [`repair`] takes for something else: of groups of heads, or of nothing.
pub(crate) fn is_of_attention(x: &[i64], y: &[i64]) -> bool {
    are_heads_of(x, y) || x.len() == 4 && x == y
}

/// Whether heads of the first extents are as many as so many groups, of more than one, of heads of the second ones.
fn are_heads_of(all: &[i64], groups: &[i64]) -> bool {
    match (all, groups) {
        (&[a, heads, b, c], &[x, of_groups, y, z]) => {
            [a, b, c] == [x, y, z] && of_groups > 1 && of_groups < heads && heads % of_groups == 0
        }
        _ => false,
    }
}

fn is_sum(operation: &Operation) -> bool {
    matches!(&operation.attributes, Attributes::Reduction(reduction) if reduction.mode == ReductionMode::Add)
}

/// A backward pass in the operations of a graph.
pub(super) struct Backward {
    operation: Operation,
    expectations: Vec<Expectation>,
    /// What the operation takes the place of.
    operations: BTreeSet<OperationId>,
}

impl Backward {
    /// The backward pass whose gradient of Q a product is.
    pub(super) fn of(draft: &Draft, flow: &Flow, product: OperationId) -> Option<Self> {
        let mut walk = Walk::new(draft, flow);
        let name = &draft.operations[product.index()].name;
        let pass = Pass::of(&mut walk, draft.operations[product.index()].result()?)?;
        let masks = &pass.scores.masks;
        walk.expectations.extend(masks.expectations.iter().copied());
        let (inputs, outputs) = (pass.inputs(), pass.outputs());
        let scratch = [pass.product, pass.rows.sum];
        let fits = walk.are_given(&inputs)
            && walk.is_whole(&inputs, &outputs, scratch)
            && walk.overrides_are(masks.lengths)
            && masks.blocks.is_none()
            && walk.lie_transposed(&inputs);
        let dropout = pass.drawn().map(|drawn| Dropout { kept: drawn.kept });
        // slopes are given: those of heads by their number are nodes' alone
        let backward = AttentionBackward { mask: masks.mask, dropout, alibi: false };
        let operation = super::operation(name, backward, inputs, outputs);
        fits.then_some(Self { operation, expectations: walk.expectations, operations: walk.operations })
    }

    /// Puts the operation in the place of what it stands for, where its tensors fit it; gives whether they do.
    pub(super) fn put(self, draft: &mut Draft) -> bool {
        let Attributes::Composite(composite) = &self.operation.attributes else { return false };
        let Some(&first) = self.operations.first() else { return false };
        if composite.definition().check(&Node::new(draft, &self.operation, first)).is_err() {
            return false;
        }
        for id in [Port::K, Port::V].into_iter().filter_map(|port| self.operation.input(port)) {
            let tensor = &mut draft.tensors[id.index()];
            tensor.dim.swap(2, 3);
            tensor.stride.swap(2, 3);
        }
        draft.expectations.extend(self.expectations);
        let mut ids = draft.operation_ids();
        draft.operations.retain(|_| ids.next().is_some_and(|id| !self.operations.contains(&id)));
        draft.operations.push(self.operation);
        true
    }
}

/// The tensors of a backward pass.
struct Pass {
    k: TensorId,
    scores: Scores,
    rows: Rows,
    dropout: Option<Dropping>,
    /// The mask of what is dropped, where it is drawn and stored.
    dump: Option<TensorId>,
    /// The product that the gradient of Q is, or is made of.
    product: TensorId,
    /// Of Q, K and V.
    gradients: [TensorId; 3],
    bias_gradient: Option<TensorId>,
    /// A sink and its gradient.
    sink: Option<(TensorId, TensorId)>,
    /// What scales it, in FP8.
    scaling: Option<fp8::Scaling>,
}

impl Pass {
    fn of(walk: &mut Walk, product: TensorId) -> Option<Self> {
        let [ds, of_keys] = walk.product(product, OVER_KEYS)?;
        let k = walk.keys(of_keys)?;
        if walk.is_fp8(ds) {
            return fp8::pass(walk, product, [ds, k]);
        }
        let gradient = walk.score_gradient(ds)?;
        let scores = walk.scores(gradient.p)?;
        gradient.choices.iter().try_for_each(|choice| walk.is_of_masked(choice, &scores.masks))?;
        let (p, dropout) = walk.kept(gradient.p)?;
        let rows = walk.rows(gradient.difference, dropout)?;
        let of_left = dropout.and_then(|dropout| dropout.factor);
        if scores.k != k || scores.factors.len() > 1 || !walk.is_of_scores(&gradient, &scores, of_left) {
            return None;
        }
        let of_q = walk.tensor(scores.q).data_type;
        let dk = walk.gradient_of_keys(ds, scores.q, of_q)?;
        let dv = walk.gradient_of_keys(p, rows.d_o, of_q)?;
        let gradients = [walk.converted(product)?, dk, dv];
        let bias_gradient = walk.bias_gradient(gradient.of_biased(ds, &scores));
        let sink = walk.sink(rows.delta, scores.stats);
        let dump = dropout.and_then(|dropout| walk.dump(dropout));
        Some(Self { k, scores, rows, dropout, dump, product, gradients, bias_gradient, sink, scaling: None })
    }

    /// What is drawn, where something is dropped.
    fn drawn(&self) -> Option<Drawn> {
        self.dropout?.drawn()
    }

    fn inputs(&self) -> Vec<(Port, TensorId)> {
        let state = self.drawn().map(|drawn| drawn.state);
        let masked = self.dropout.filter(|dropout| dropout.is_given());
        // nothing is dropped by ones
        let factor = self.dropout.filter(|_| state.is_some() || masked.is_some()).and_then(|dropout| dropout.factor);
        let Self { scores, rows, .. } = self;
        let bound = |port: Port| scores.masks.bounds.iter().find(|bound| bound.0 == port).map(|bound| bound.1);
        let mut inputs = given(&[
            (Port::Q, Some(scores.q)),
            (Port::K, Some(self.k)),
            (Port::V, Some(rows.v)),
            (Port::O, Some(rows.o)),
            (Port::DO, Some(rows.d_o)),
            (Port::STATS, Some(scores.stats)),
            (Port::ATTN_SCALE, scores.factors.first().copied()),
            (Port::SOFT_CAP, scores.cap.map(|cap| cap.cap)),
            (Port::ATTENTION_BIAS, scores.bias),
            (Port::ALIBI_SLOPES, scores.slopes),
            (Port::SEQ_LEN_Q, scores.masks.lengths[0]),
            (Port::SEQ_LEN_KV, scores.masks.lengths[1]),
            (Port::LEFT_BOUND, bound(Port::LEFT_BOUND)),
            (Port::RIGHT_BOUND, bound(Port::RIGHT_BOUND)),
            (Port::SINK_TOKEN, self.sink.map(|sink| sink.0)),
            (Port::SEED, state.map(|state| state[0])),
            (Port::OFFSET, state.map(|state| state[1])),
            (Port::DROPOUT_MASK, masked.map(|dropout| dropout.mask)),
            (Port::DROPOUT_SCALE, factor),
            (Port::DROPOUT_SCALE_INV, rows.inverse),
        ]);
        inputs.extend(self.scaling.iter().flat_map(fp8::Scaling::inputs));
        inputs
    }

    fn outputs(&self) -> Vec<(Port, TensorId)> {
        let [dq, dk, dv] = self.gradients;
        let mut outputs = given(&[
            (Port::DQ, Some(dq)),
            (Port::DK, Some(dk)),
            (Port::DV, Some(dv)),
            (Port::ATTENTION_DBIAS, self.bias_gradient),
            (Port::DSINK_TOKEN, self.sink.map(|sink| sink.1)),
            (Port::RNG_DUMP, self.dump),
        ]);
        outputs.extend(self.scaling.iter().flat_map(fp8::Scaling::outputs));
        outputs
    }
}

/// The slots that have a tensor.
fn given(slots: &[(Port, Option<TensorId>)]) -> Vec<(Port, TensorId)> {
    slots.iter().filter_map(|&(port, id)| Some((port, id?))).collect()
}
