//! Dropout of an attention: what its kernels are told of it, and the mask as a tensor.

use super::attention_bias::ScoreTensor;
use crate::graph::TensorId;

/// Which probabilities are dropped, and what makes up for it (`docs/spec/attention.md` AT-O13).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dropping {
    /// Of the 2¹⁶ numbers that are drawn for a probability, those below this one keep it.
    pub threshold: u32,
    /// Seed and offset.
    pub state: [TensorId; 2],
    /// The factor of what is kept.
    pub scale: TensorId,
}

impl Dropping {
    /// Tensors that it reads.
    pub fn reads(&self) -> impl Iterator<Item = TensorId> + use<> {
        self.state.into_iter().chain([self.scale])
    }
}

/// What becomes of the probabilities of a forward pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForwardDropout {
    /// Those that a generator says are dropped.
    Drawn(Dropping),
    /// They are multiplied by a mask, and O by a factor (AT-O14).
    Masked {
        /// The mask, of the extents of scores or 1.
        mask: TensorId,
        /// The factor.
        scale: TensorId,
    },
}

impl ForwardDropout {
    /// Tensors that it reads.
    pub fn reads(&self) -> Vec<TensorId> {
        match self {
            Self::Drawn(dropping) => dropping.reads().collect(),
            Self::Masked { mask, scale } => vec![*mask, *scale],
        }
    }

    /// What is drawn.
    pub fn drawn(&self) -> Option<Dropping> {
        match self {
            Self::Drawn(dropping) => Some(*dropping),
            Self::Masked { .. } => None,
        }
    }
}

/// A mask that probabilities of a backward pass are multiplied by, and its factor (AT-O14).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MaskedDropping {
    /// The mask.
    pub mask: ScoreTensor,
    /// The factor of what is kept, if there is one.
    pub scale: Option<TensorId>,
    /// What Δ is multiplied by beside the factor, if it is.
    pub inverse: Option<TensorId>,
}

/// What becomes of the probabilities of a backward pass, and of their gradients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BackwardDropout {
    /// Those that a generator says are dropped.
    Drawn(Dropping),
    /// They are multiplied by a mask.
    Masked(MaskedDropping),
}

impl BackwardDropout {
    /// Tensors that are read for each score, or for all.
    pub fn reads(&self) -> Vec<TensorId> {
        match self {
            Self::Drawn(dropping) => dropping.reads().collect(),
            Self::Masked(masked) => [masked.mask.tensor].into_iter().chain(masked.scale).collect(),
        }
    }

    /// What is drawn.
    pub fn drawn(&self) -> Option<Dropping> {
        match self {
            Self::Drawn(dropping) => Some(*dropping),
            Self::Masked(_) => None,
        }
    }

    /// What Δ is multiplied by for gradients of probabilities that a mask leaves.
    pub fn factors_of_delta(&self) -> Vec<TensorId> {
        let divided = self.masked().and_then(|masked| Some((masked.inverse?, masked.scale)));
        divided.into_iter().flat_map(|(inverse, scale)| [inverse].into_iter().chain(scale)).collect()
    }

    /// The mask that is given.
    pub fn masked(&self) -> Option<MaskedDropping> {
        match self {
            Self::Drawn(_) => None,
            Self::Masked(masked) => Some(*masked),
        }
    }
}

/// 1 where a probability is kept and 0 elsewhere, of all scores, masked ones included.
#[derive(Clone, Debug)]
pub struct DropoutMaskKernel {
    /// The mask.
    pub output: TensorId,
    /// What is drawn.
    pub dropout: Dropping,
    /// Of the scores: batches, heads, queries, keys.
    pub extents: [i64; 4],
}

impl DropoutMaskKernel {
    /// Threads of a block.
    pub const THREADS: u32 = 256;

    /// Columns of a row that a thread has.
    pub const COLUMNS: i64 = 8;

    /// Groups of columns of a row.
    pub fn groups(&self) -> i64 {
        (self.extents[3] + Self::COLUMNS - 1) / Self::COLUMNS
    }

    /// Groups of columns of all rows.
    pub fn items(&self) -> i64 {
        self.extents[..3].iter().product::<i64>() * self.groups()
    }
}
