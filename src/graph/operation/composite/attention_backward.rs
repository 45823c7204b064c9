//! The gradients of an attention (`docs/spec/attention.md` sections 2.4 and 4).
//!
//! With `P = exp(scores − STATS)` where a score is kept and 0 elsewhere, `Δ = Σ dO ∘ O` of each row and `dP = dO · Vᵀ`:
//!
//! ```text
//! dV = Pᵀ · dO        dS = P ∘ (dP − Δ)        dBias = Σ dS        dQ = scale · dS · K        dK = scale · dSᵀ · Q
//! dSINK = −Σ exp(SINK − STATS) · Δ
//! ```
//!
//! Where probabilities are dropped, `dV` and `dP` are of what is left of them: `P` and `dP` times the mask and the factor, as [`Dropout`] says.
//! `Δ` is that of the O that is left.
//!
//! In FP8, what is multiplied is scaled, and largest magnitudes are kept ([`scaling`]).
//!
//! Scores are those of the forward pass: scaled, biased, masked as [`ScoreMask`] says. `P` is rounded to the type of Q, and
//! `dS` to that of dO, before they are multiplied (AT-N1). Heads of Q that share one of K, or of V, add up (AT-O2). Rows that are masked, or beyond their sequence, have
//! gradients of 0 and no share in others (AT-O30 … O33); what lies in them may be NaN (AT-O36). Where a bias makes all scores of a row −∞, so is
//! its statistic, and it has no probabilities (AT-U7).

pub(crate) mod scaling;

use super::{Definition, Dropout, Expansion, KeptAttributes, Port, ScoreMask};
use crate::graph::infer::{Node, Ports, attention};
use crate::graph::key::Bytes;
use crate::graph::{DataType, Malformed, PointwiseMode, ReductionMode, TensorId};

/// Attributes of the gradients of an attention.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct AttentionBackward {
    /// Which scores were kept.
    pub mask: ScoreMask,
    /// Which probabilities were dropped, if any.
    pub dropout: Option<Dropout>,
}

impl AttentionBackward {
    /// Tag in graph files: ours, of what `SDPA_BWD` stands for.
    const TAG: &str = "ATTENTION_BACKWARD";

    const OPTIONAL: &[Port] = &[
        Port::ATTN_SCALE,
        Port::ATTENTION_BIAS,
        Port::SEQ_LEN_Q,
        Port::SEQ_LEN_KV,
        Port::LEFT_BOUND,
        Port::RIGHT_BOUND,
        Port::SINK_TOKEN,
        Port::SEED,
        Port::OFFSET,
        Port::DROPOUT_SCALE,
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
        (tag == Self::TAG).then(|| Self { mask: ScoreMask::of(attributes), dropout: Dropout::of(attributes) })
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
        self.mask.attributes().into_iter().chain(of_dropout).collect()
    }

    fn key_bytes(&self, bytes: &mut Bytes) {
        self.mask.key_bytes(bytes);
        // nothing where nothing is dropped
        self.dropout.iter().for_each(|dropout| dropout.key_bytes(bytes));
    }

    fn texts(&self) -> Vec<String> {
        let of_dropout = self.dropout.iter().flat_map(Definition::texts);
        self.mask.texts().into_iter().chain(of_dropout).collect()
    }

    fn default_type(&self, port: Port) -> Option<DataType> {
        match port {
            Port::STATS => Some(DataType::Float),
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
        if let Some(bias) = bias {
            scores = expansion.pointwise(M::Add, &[scores, bias]);
        }
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
        let drawn = self.dropout.and_then(|dropout| Some((dropout, dropout.mask(expansion, of_scores)?)));
        let left = |expansion: &mut Expansion, x| match drawn {
            Some((dropout, mask)) => dropout.applied(expansion, x, mask),
            None => x,
        };
        if let Some((_, mask)) = drawn {
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
        let difference = expansion.pointwise(M::Sub, &[dp, delta]);
        let ds = expansion.pointwise(M::Mul, &[p, difference]);
        let ds = expansion.where_kept(ds, kept);
        if let Some(dim) = expansion.dim_of_result(Port::ATTENTION_DBIAS) {
            let total = expansion.reduction(ReductionMode::Add, ds, dim);
            expansion.result(Port::ATTENTION_DBIAS, M::Identity, &[total]);
        }
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
    /// What says which probabilities were dropped is there where some were, and nowhere else.
    fn check_dropout(&self, node: &Node) -> Result<(), Malformed> {
        const DROPPED: [Port; 4] = [Port::SEED, Port::OFFSET, Port::DROPOUT_SCALE, Port::RNG_DUMP];
        match (self.dropout, DROPPED.into_iter().find(|&port| node.tensor(port).is_some())) {
            (Some(dropout), _) => dropout.check_state(node),
            (None, Some(port)) => Err(node.fault_at("AT-O13", port, "no probability is dropped")),
            (None, None) => Ok(()),
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

/// Extents of one value a row.
fn row_dim(x: &[i64]) -> Vec<i64> {
    let mut dim = x.to_vec();
    dim.iter_mut().rev().take(1).for_each(|extent| *extent = 1);
    dim
}
