//! What scales an attention's values in FP8, and keeps their largest magnitudes (`docs/spec/attention.md` AT-O19).

use crate::graph::TensorId;

/// What O is multiplied by, and what is kept of probabilities and of O.
#[derive(Clone, Debug, Default)]
pub struct ValueScaling {
    /// Numbers that O is multiplied by, those of its probabilities among them.
    pub factors: Vec<TensorId>,
    /// Numbers that it is multiplied by behind the value whose largest magnitude is kept.
    pub last_factors: Vec<TensorId>,
    /// Where the largest magnitudes of probabilities, and of O, are kept.
    pub largest: [Option<TensorId>; 2],
}

impl ValueScaling {
    /// The numbers.
    pub fn reads(&self) -> impl Iterator<Item = TensorId> + '_ {
        self.factors.iter().chain(&self.last_factors).copied()
    }

    /// Where magnitudes are kept.
    pub fn kept(&self) -> impl Iterator<Item = TensorId> + use<> {
        self.largest.into_iter().flatten()
    }
}
