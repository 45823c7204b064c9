//! What scales a backward pass in FP8, and the largest magnitudes that it keeps (`docs/spec/attention.md` section 2.5).
//!
//! ```text
//! scores = Q · Kᵀ · scale · Descale_Q · Descale_K        Δ = Σ dO ∘ O · Descale_dO · Descale_O
//! S8 = P · Scale_S                                       dV = S8ᵀ · dO · Descale_S · Descale_dO,   stored times Scale_dV
//! dS = P ∘ (dO · Vᵀ · Descale_dO · Descale_V − Δ) · scale
//! dS8 = dS · Scale_dP                                    dQ = dS8 · K · Descale_dP · Descale_K,     stored times Scale_dQ
//!                                                        dK = dS8ᵀ · Q · Descale_dP · Descale_Q,    stored times Scale_dK
//! ```
//!
//! `S8` has the type of Q, `dS8` that of dO. `Amax_dP` is the largest magnitude of dS, `Amax_dQ`, `Amax_dK` and `Amax_dV` are those of gradients before
//! they are multiplied by what they are stored with. A number that is not given is 1.

use super::super::Expansion;
use crate::graph::infer::Node;
use crate::graph::{Malformed, PointwiseMode, Port, ReductionMode, TensorId};

/// Numbers that are multiplied by, in the order of their ports.
pub(crate) const FACTORS: [Port; 12] = [
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

/// Largest magnitudes.
pub(crate) const LARGEST: [Port; 4] = [Port::AMAX_DQ, Port::AMAX_DK, Port::AMAX_DV, Port::AMAX_DP];

/// A gradient that is a product: where it is stored, what the product is multiplied by, where its largest magnitude is kept, and what it is
/// multiplied by behind that.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GradientScaling {
    /// The gradient.
    pub(crate) result: Port,
    /// What its product lacks.
    pub(crate) descales: [Port; 2],
    /// Its largest magnitude.
    pub(crate) largest: Port,
    /// What it is stored times.
    pub(crate) scale: Port,
}

pub(crate) const DQ: GradientScaling = GradientScaling {
    result: Port::DQ,
    descales: [Port::DESCALE_DP, Port::DESCALE_K],
    largest: Port::AMAX_DQ,
    scale: Port::SCALE_DQ,
};

pub(crate) const DK: GradientScaling = GradientScaling {
    result: Port::DK,
    descales: [Port::DESCALE_DP, Port::DESCALE_Q],
    largest: Port::AMAX_DK,
    scale: Port::SCALE_DK,
};

pub(crate) const DV: GradientScaling = GradientScaling {
    result: Port::DV,
    descales: [Port::DESCALE_S, Port::DESCALE_DO],
    largest: Port::AMAX_DV,
    scale: Port::SCALE_DV,
};

impl GradientScaling {
    /// The gradient of a product of each head of Q.
    pub(super) fn result(&self, expansion: &mut Expansion, product: TensorId) {
        let Some(dim) = expansion.output(self.result).map(|id| expansion.dim(id).to_vec()) else { return };
        if !expansion.is_asked_for(self.result) && !expansion.is_asked_for(self.largest) {
            return;
        }
        let total = expansion.sum_of_heads(product, dim[1]);
        let total = multiplied(expansion, total, &self.descales);
        keep_largest(expansion, total, self.largest);
        let total = multiplied(expansion, total, &[self.scale]);
        expansion.result(self.result, PointwiseMode::Identity, &[total]);
    }
}

/// Whether a port's tensor is a number of FP8's scaling.
pub(super) fn is_number(port: Port) -> bool {
    FACTORS.contains(&port) || LARGEST.contains(&port)
}

/// A value times the numbers that ports have.
pub(super) fn multiplied(expansion: &mut Expansion, x: TensorId, ports: &[Port]) -> TensorId {
    ports.iter().fold(x, |x, &port| match expansion.input(port) {
        Some(number) => expansion.pointwise(PointwiseMode::Mul, &[x, number]),
        None => x,
    })
}

/// Keeps the largest magnitude of a value, where a port wants it.
pub(super) fn keep_largest(expansion: &mut Expansion, x: TensorId, port: Port) {
    if expansion.is_asked_for(port) {
        let magnitudes = expansion.pointwise(PointwiseMode::Abs, &[x]);
        let largest = expansion.reduction(ReductionMode::Max, magnitudes, vec![1; 4]);
        expansion.result(port, PointwiseMode::Identity, &[largest]);
    }
}

/// Numbers are one element.
pub(super) fn check(node: &Node) -> Result<(), Malformed> {
    let mut numbers = FACTORS.into_iter().chain(LARGEST).filter(|&port| node.tensor(port).is_some());
    numbers.try_for_each(|port| node.require_dim("AT-O19", port, &[1; 4], "one number"))
}
