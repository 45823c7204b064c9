//! The gradients of an attention (`docs/spec/attention.md` sections 2.4 and 4).
//!
//! With `P = exp(scores − STATS)` where a score is kept and 0 elsewhere, `Δ = Σ dO ∘ O` of each row and `dP = dO · Vᵀ`:
//!
//! ```text
//! dV = Pᵀ · dO        dS = P ∘ (dP − Δ)        dBias = Σ dS        dQ = scale · dS · K        dK = scale · dSᵀ · Q
//! dSINK = −Σ exp(SINK − STATS) · Δ
//! ```
//!
//! Where probabilities are dropped, `dV` and `dP` are of what is left of them: `P` and `dP` times the mask and the factor, as [`Dropout`] says,
//! or a mask that is given (AT-O14). `Δ` is that of the O that is left; where `DROPOUT_SCALE_INV` is given, Δ is multiplied by it and by the
//! factor, whose product is 1.
//!
//! Where scores are capped, they are `SOFT_CAP · tanh(S / SOFT_CAP)` of the scaled product S before anything is added to them (AT-O12), and gradients
//! behind dBias are multiplied by `1 − tanh²(S / SOFT_CAP)` before they are scaled.
//!
//! In FP8, what is multiplied is scaled, and largest magnitudes are kept ([`scaling`]).
//!
//! Scores are those of the forward pass: scaled, capped, biased, leaning by the slope of their head (AT-O7), masked as [`ScoreMask`] says. `P` is rounded to
//! the type of Q, and `dS` to that of dO, before they are multiplied (AT-N1). Heads of Q that share one of K, or of V, add up (AT-O2). Rows that are masked, or beyond their sequence, have
//! gradients of 0 and no share in others (AT-O30 … O33); what lies in them may be NaN (AT-O36). Where a bias makes all scores of a row −∞, so is
//! its statistic, and it has no probabilities (AT-U7).

pub(crate) mod scaling;

use serde_json::Value;

use super::{Definition, Dropout, Expansion, KeptAttributes, MaskedDropout, Port, ScoreMask, SoftCap, alibi};
use crate::graph::infer::{Node, Ports, attention};
use crate::graph::key::Bytes;
use crate::graph::{DataType, Malformed, PointwiseMode, ReductionMode, TensorId};

/// Attributes of the gradients of an attention.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct AttentionBackward {
    /// Which scores were kept.
    pub mask: ScoreMask,
    /// Which probabilities were dropped, if any were by numbers that are drawn.
    pub dropout: Option<Dropout>,
    /// Whether scores lean by the slopes that the frontend gives heads (AT-O7); slopes that are given are a tensor.
    pub alibi: bool,
}

/// Key of [`AttentionBackward::alibi`].
const ALIBI: &str = "alibi_mask";

impl AttentionBackward {
    /// Tag in graph files: ours, of what `SDPA_BWD` stands for.
    const TAG: &str = "ATTENTION_BACKWARD";

    const OPTIONAL: &[Port] = &[
        Port::ATTN_SCALE,
        Port::SOFT_CAP,
        Port::ATTENTION_BIAS,
        Port::ALIBI_SLOPES,
        Port::SEQ_LEN_Q,
        Port::SEQ_LEN_KV,
        Port::LEFT_BOUND,
        Port::RIGHT_BOUND,
        Port::SINK_TOKEN,
        Port::SEED,
        Port::OFFSET,
        Port::DROPOUT_MASK,
        Port::DROPOUT_SCALE,
        Port::DROPOUT_SCALE_INV,
        Port::DESCALE_Q,
        Port::DESCALE_K,
        Port::DESCALE_V,
        Port::DESCALE_O,
        Port::DESCALE_DO,
        Port::DESCALE_S,
        Port::DESCALE_DP,
        Port::SCALE_S,
        Port::SCALE_DP,
        Port::SCALE_DQ,
        Port::SCALE_DK,
        Port::SCALE_DV,
    ];

    const RESULTS: &[Port] = &[
        Port::ATTENTION_DBIAS,
        Port::DSINK_TOKEN,
        Port::RNG_DUMP,
        Port::AMAX_DQ,
        Port::AMAX_DK,
        Port::AMAX_DV,
        Port::AMAX_DP,
    ];

    pub(super) fn read(tag: &str, attributes: &KeptAttributes) -> Option<Self> {
        (tag == Self::TAG).then(|| Self {
            mask: ScoreMask::of(attributes),
            dropout: Dropout::of(attributes),
            alibi: attributes.get(ALIBI).and_then(Value::as_bool) == Some(true),
        })
    }
}

impl Definition for AttentionBackward {
    fn tag(&self) -> &'static str {
        Self::TAG
    }

    fn ports(&self) -> Ports {
        (
            [&[Port::Q, Port::K, Port::V, Port::O, Port::DO, Port::STATS], Self::OPTIONAL],
            [&[Port::DQ, Port::DK, Port::DV], Self::RESULTS],
        )
    }

    fn attributes(&self) -> KeptAttributes {
        let of_dropout = self.dropout.iter().flat_map(Definition::attributes);
        let alibi = self.alibi.then(|| (ALIBI.to_owned(), true.into()));
        self.mask.attributes().into_iter().chain(of_dropout).chain(alibi).collect()
    }

    fn key_bytes(&self, bytes: &mut Bytes) {
        self.mask.key_bytes(bytes);
        // nothing where nothing is dropped
        self.dropout.iter().for_each(|dropout| dropout.key_bytes(bytes));
        if self.alibi {
            bytes.text(ALIBI);
        }
    }

    fn texts(&self) -> Vec<String> {
        let of_dropout = self.dropout.iter().flat_map(Definition::texts);
        let alibi = self.alibi.then(|| format!("{ALIBI}=true"));
        self.mask.texts().into_iter().chain(of_dropout).chain(alibi).collect()
    }

    fn default_type(&self, port: Port) -> Option<DataType> {
        match port {
            Port::STATS | Port::SOFT_CAP | Port::ALIBI_SLOPES => Some(DataType::Float),
            Port::DROPOUT_SCALE | Port::DROPOUT_SCALE_INV => Some(DataType::Float),
            port if scaling::is_number(port) => Some(DataType::Float),
            port => self.mask.default_type(port).or_else(|| self.dropout?.default_type(port)),
        }
    }

    /// Gradients have to be given.
    fn infer(&self, node: &mut Node) -> Result<(), Malformed> {
        attention::infer(node)
    }

    fn check(&self, node: &Node) -> Result<(), Malformed> {
        attention::check_backward(node)?;
        SoftCap::check(node)?;
        self.check_slopes(node)?;
        self.check_dropout(node)?;
        scaling::check(node)?;
        self.mask.check_bounds(node)
    }

    fn define(&self, expansion: &mut Expansion) {
        use PointwiseMode as M;
        let [q, k, v, o, d_o, stats] = expansion.required();
        let lengths = [Port::SEQ_LEN_Q, Port::SEQ_LEN_KV].map(|port| expansion.input(port));
        let bias = expansion.input(Port::ATTENTION_BIAS);
        let keys = expansion.transpose(k);
        let mut scores = expansion.matmul(q, keys, None);
        scores = scaling::multiplied(expansion, scores, &[Port::ATTN_SCALE, Port::DESCALE_Q, Port::DESCALE_K]);
        let cap = SoftCap::of(expansion, scores);
        scores = cap.map_or(scores, |cap| cap.capped(expansion));
        if let Some(bias) = bias {
            scores = expansion.pointwise(M::Add, &[scores, bias]);
        }
        scores = alibi::added(expansion, scores, self.alibi);
        let mut kept = self.mask.kept(expansion, scores);
        if bias.is_some() {
            let nothing = expansion.constant(f64::NEG_INFINITY, 4);
            let is_row = expansion.pointwise(M::CmpNeq, &[stats, nothing]);
            kept = Some(kept.map_or(is_row, |kept| expansion.pointwise(M::LogicalAnd, &[kept, is_row])));
        }
        let below = expansion.pointwise(M::Sub, &[scores, stats]);
        let p = expansion.pointwise(M::Exp, &[below]);
        let p = expansion.where_kept(p, kept);

        let of_scores = expansion.dim(p).to_vec();
        let drawn = self.dropout.and_then(|dropout| dropout.mask(expansion, of_scores));
        let mask_of_dropout = drawn.or_else(|| expansion.input(Port::DROPOUT_MASK));
        let left =
            |expansion: &mut Expansion, x| mask_of_dropout.map_or(x, |mask| Dropout::applied(expansion, x, mask));
        if let Some(mask) = drawn {
            expansion.result(Port::RNG_DUMP, M::Identity, &[mask]);
        }
        let kept_p = left(expansion, p);
        let kept_p = scaling::multiplied(expansion, kept_p, &[Port::SCALE_S]);
        let rounded = expansion.rounded(kept_p, q);
        let of_keys = expansion.transpose(rounded);
        let of_heads = expansion.matmul(of_keys, d_o, lengths[0]);
        scaling::DV.result(expansion, of_heads);

        let product = expansion.pointwise(M::Mul, &[d_o, o]);
        let rows = row_dim(expansion.dim(product));
        let delta = expansion.reduction(ReductionMode::Add, product, rows);
        let delta = scaling::multiplied(expansion, delta, &[Port::DESCALE_DO, Port::DESCALE_O]);
        let values = expansion.transpose(v);
        let dp = expansion.matmul(d_o, values, None);
        let dp = scaling::multiplied(expansion, dp, &[Port::DESCALE_DO, Port::DESCALE_V]);
        let dp = left(expansion, dp);
        let of_left = delta_of_left(expansion, delta);
        let difference = expansion.pointwise(M::Sub, &[dp, of_left]);
        let ds = expansion.pointwise(M::Mul, &[p, difference]);
        let ds = expansion.where_kept(ds, kept);
        if let Some(dim) = expansion.dim_of_result(Port::ATTENTION_DBIAS) {
            let total = expansion.reduction(ReductionMode::Add, ds, dim);
            expansion.result(Port::ATTENTION_DBIAS, M::Identity, &[total]);
        }
        let ds = match cap {
            Some(cap) => {
                let of_scaled = cap.gradient(expansion, ds);
                expansion.where_kept(of_scaled, kept)
            }
            None => ds,
        };
        let ds = scaling::multiplied(expansion, ds, &[Port::ATTN_SCALE]);
        scaling::keep_largest(expansion, ds, Port::AMAX_DP);
        let ds = scaling::multiplied(expansion, ds, &[Port::SCALE_DP]);
        let rounded = expansion.rounded(ds, d_o);
        let dq = expansion.matmul(rounded, k, lengths[1]);
        scaling::DQ.result(expansion, dq);
        let of_keys = expansion.transpose(rounded);
        let of_heads = expansion.matmul(of_keys, q, lengths[0]);
        scaling::DK.result(expansion, of_heads);
        if let (Some(dim), Some(sink)) = (expansion.dim_of_result(Port::DSINK_TOKEN), expansion.input(Port::SINK_TOKEN))
        {
            self.define_sink(expansion, [sink, stats, delta], dim);
        }
    }
}

impl AttentionBackward {
    /// Slopes are the frontend's, or given: one of each head.
    fn check_slopes(&self, node: &Node) -> Result<(), Malformed> {
        if node.tensor(Port::ALIBI_SLOPES).is_none() {
            return Ok(());
        }
        if self.alibi {
            return Err(node.fault_at("AT-O7", Port::ALIBI_SLOPES, "heads have the slopes of alibi_mask already"));
        }
        let heads = node.dim(Port::Q)?.get(1).copied().unwrap_or(1);
        node.require_dim("AT-O7", Port::ALIBI_SLOPES, &[1, heads, 1, 1], "a slope of each head of Q")
    }

    /// What says which probabilities were dropped is there where some were, and nowhere else.
    fn check_dropout(&self, node: &Node) -> Result<(), Malformed> {
        const DRAWN: [Port; 3] = [Port::SEED, Port::OFFSET, Port::RNG_DUMP];
        const MASKED: [Port; 2] = [Port::DROPOUT_MASK, Port::DROPOUT_SCALE_INV];
        let first = |ports: &[Port]| ports.iter().copied().find(|&port| node.tensor(port).is_some());
        let is_masked = node.tensor(Port::DROPOUT_MASK).is_some();
        match self.dropout {
            Some(dropout) => match first(&MASKED) {
                Some(port) => Err(node.fault_at("AT-O14", port, "probabilities are dropped by numbers that are drawn")),
                None => dropout.check_state(node),
            },
            None => match first(&DRAWN) {
                Some(port) => Err(node.fault_at("AT-O13", port, "no probability is dropped")),
                None if is_masked => MaskedDropout::check_masked(node, &attention::scores(node).unwrap_or_default()),
                None => match first(&[Port::DROPOUT_SCALE, Port::DROPOUT_SCALE_INV]) {
                    Some(port) => Err(node.fault_at("AT-O13", port, "no probability is dropped")),
                    None => Ok(()),
                },
            },
        }
    }

    /// The sink's share of each row within its sequence, added up (AT-O16, AT-U1).
    fn define_sink(&self, expansion: &mut Expansion, [sink, stats, delta]: [TensorId; 3], dim: Vec<i64>) {
        use PointwiseMode as M;
        let below = expansion.pointwise(M::Sub, &[sink, stats]);
        let p = expansion.pointwise(M::Exp, &[below]);
        let share = expansion.pointwise(M::Mul, &[p, delta]);
        let inside = ScoreMask::rows_inside(expansion, share);
        let share = expansion.where_kept(share, inside);
        let total = expansion.reduction(ReductionMode::Add, share, dim);
        expansion.result(Port::DSINK_TOKEN, M::Neg, &[total]);
    }
}

/// What gradients of probabilities that are left are compared with: Δ, times what a caller divides it by, and the factor.
fn delta_of_left(expansion: &mut Expansion, delta: TensorId) -> TensorId {
    let Some(inverse) = expansion.input(Port::DROPOUT_SCALE_INV) else { return delta };
    let divided = expansion.pointwise(PointwiseMode::Mul, &[delta, inverse]);
    let scale = expansion.input(Port::DROPOUT_SCALE);
    scale.map_or(divided, |scale| expansion.pointwise(PointwiseMode::Mul, &[divided, scale]))
}

/// Extents of one value a row.
fn row_dim(x: &[i64]) -> Vec<i64> {
    let mut dim = x.to_vec();
    dim.iter_mut().rev().take(1).for_each(|extent| *extent = 1);
    dim
}
