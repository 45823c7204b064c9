//! A soft cap: scores that stay between −cap and cap (`docs/spec/attention.md` AT-O12).
//!
//! ```text
//! capped = cap · tanh(S / cap)        dS = d capped · (1 − tanh²(S / cap))
//! ```

use super::{Expansion, Port};
use crate::graph::infer::Node;
use crate::graph::{Malformed, PointwiseMode, TensorId};

/// The cap of scores, and these divided by it.
#[derive(Clone, Copy, Debug)]
pub(super) struct SoftCap {
    cap: TensorId,
    divided: TensorId,
}

impl SoftCap {
    /// That of an operation which has one, of scores that are scaled.
    pub(super) fn of(expansion: &mut Expansion, scores: TensorId) -> Option<Self> {
        let cap = expansion.input(Port::SOFT_CAP)?;
        let divided = expansion.pointwise(PointwiseMode::Div, &[scores, cap]);
        Some(Self { cap, divided })
    }

    /// Scores as they are capped.
    pub(super) fn capped(self, expansion: &mut Expansion) -> TensorId {
        let tanh = expansion.pointwise(PointwiseMode::TanhFwd, &[self.divided]);
        expansion.pointwise(PointwiseMode::Mul, &[tanh, self.cap])
    }

    /// The gradient of scores, of that of capped ones.
    pub(super) fn gradient(self, expansion: &mut Expansion, of_capped: TensorId) -> TensorId {
        expansion.pointwise(PointwiseMode::TanhBwd, &[of_capped, self.divided])
    }

    /// A cap is one number.
    pub(super) fn check(node: &Node) -> Result<(), Malformed> {
        match node.tensor(Port::SOFT_CAP) {
            Some(cap) if cap.dim.iter().any(|&extent| extent != 1) => {
                let message = format!("dims {:?}; a soft cap is one number", cap.dim);
                Err(node.fault_at("AT-O12", Port::SOFT_CAP, message))
            }
            _ => Ok(()),
        }
    }
}
