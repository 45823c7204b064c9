//! The gradients of an attention (`docs/spec/attention.md` sections 2.4 and 4).
//!
//! With `P = exp(scores − STATS)` where a score is kept and 0 elsewhere, `Δ = Σ dO ∘ O` of each row and `dP = dO · Vᵀ`:
//!
//! ```text
//! dV = Pᵀ · dO        dS = P ∘ (dP − Δ)        dBias = Σ dS        dQ = scale · dS · K        dK = scale · dSᵀ · Q
//! dSINK = −Σ exp(SINK − STATS) · Δ
//! ```
//!
//! Scores are those of the forward pass: scaled, biased, masked as [`ScoreMask`] says. `P` and `dS` are rounded to the type of Q before they
//! are multiplied (AT-N1). Heads of Q that share one of K, or of V, add up (AT-O2). Rows that are masked, or beyond their sequence, have
//! gradients of 0 and no share in others (AT-O30 … O33); what lies in them may be NaN (AT-O36).

use super::{Definition, Expansion, KeptAttributes, Port, ScoreMask};
use crate::graph::infer::{Node, Ports, attention};
use crate::graph::key::Bytes;
use crate::graph::{DataType, Malformed, PointwiseMode, ReductionMode, TensorId};

/// Attributes of the gradients of an attention.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AttentionBackward {
    /// Which scores were kept.
    pub mask: ScoreMask,
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
    ];

    pub(super) fn read(tag: &str, attributes: &KeptAttributes) -> Option<Self> {
        (tag == Self::TAG).then(|| Self { mask: ScoreMask::of(attributes) })
    }
}

impl Definition for AttentionBackward {
    fn tag(&self) -> &'static str {
        Self::TAG
    }

    fn ports(&self) -> Ports {
        (
            [&[Port::Q, Port::K, Port::V, Port::O, Port::DO, Port::STATS], Self::OPTIONAL],
            [&[Port::DQ, Port::DK, Port::DV], &[Port::ATTENTION_DBIAS, Port::DSINK_TOKEN]],
        )
    }

    fn attributes(&self) -> KeptAttributes {
        self.mask.attributes()
    }

    fn key_bytes(&self, bytes: &mut Bytes) {
        self.mask.key_bytes(bytes);
    }

    fn texts(&self) -> Vec<String> {
        self.mask.texts()
    }

    fn default_type(&self, port: Port) -> Option<DataType> {
        match port {
            Port::STATS => Some(DataType::Float),
            port => self.mask.default_type(port),
        }
    }

    /// Gradients have to be given.
    fn infer(&self, node: &mut Node) -> Result<(), Malformed> {
        attention::infer(node)
    }

    fn check(&self, node: &Node) -> Result<(), Malformed> {
        attention::check_backward(node)?;
        self.mask.check_bounds(node)
    }

    fn define(&self, expansion: &mut Expansion) {
        use PointwiseMode as M;
        let [q, k, v, o, d_o, stats] = expansion.required();
        let lengths = [Port::SEQ_LEN_Q, Port::SEQ_LEN_KV].map(|port| expansion.input(port));
        let scale = expansion.input(Port::ATTN_SCALE);
        let keys = expansion.transpose(k);
        let mut scores = expansion.matmul(q, keys, None);
        for (mode, side) in [(M::Mul, scale), (M::Add, expansion.input(Port::ATTENTION_BIAS))] {
            if let Some(side) = side {
                scores = expansion.pointwise(mode, &[scores, side]);
            }
        }
        let kept = self.mask.kept(expansion, scores);
        let below = expansion.pointwise(M::Sub, &[scores, stats]);
        let p = expansion.pointwise(M::Exp, &[below]);
        let p = expansion.where_kept(p, kept);

        let rounded = expansion.rounded(p, q);
        let of_keys = expansion.transpose(rounded);
        let of_heads = expansion.matmul(of_keys, d_o, lengths[0]);
        expansion.result_of_heads(Port::DV, of_heads);

        let product = expansion.pointwise(M::Mul, &[d_o, o]);
        let rows = row_dim(expansion.dim(product));
        let delta = expansion.reduction(ReductionMode::Add, product, rows);
        let values = expansion.transpose(v);
        let dp = expansion.matmul(d_o, values, None);
        let difference = expansion.pointwise(M::Sub, &[dp, delta]);
        let ds = expansion.pointwise(M::Mul, &[p, difference]);
        let ds = expansion.where_kept(ds, kept);
        if let Some(dim) = expansion.dim_of_result(Port::ATTENTION_DBIAS) {
            let total = expansion.reduction(ReductionMode::Add, ds, dim);
            expansion.result(Port::ATTENTION_DBIAS, M::Identity, &[total]);
        }
        let ds = scale.map_or(ds, |scale| expansion.pointwise(M::Mul, &[ds, scale]));
        let rounded = expansion.rounded(ds, q);
        let dq = expansion.matmul(rounded, k, lengths[1]);
        expansion.result(Port::DQ, M::Identity, &[dq]);
        let of_keys = expansion.transpose(rounded);
        let of_heads = expansion.matmul(of_keys, q, lengths[0]);
        expansion.result_of_heads(Port::DK, of_heads);
        if let (Some(dim), Some(sink)) = (expansion.dim_of_result(Port::DSINK_TOKEN), expansion.input(Port::SINK_TOKEN))
        {
            self.define_sink(expansion, [sink, stats, delta], dim);
        }
    }
}

impl AttentionBackward {
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
