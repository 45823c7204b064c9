//! Patterns of graphs.

use std::fmt;
use std::str::FromStr;

/// The patterns of graphs that are generated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Family {
    /// Matmuls with stages before and behind.
    Matmul,
    /// Forward convolutions.
    Forward,
    /// Convolutions that compute the image's gradient.
    BackwardData,
    /// Convolutions that compute the filter's gradient.
    BackwardFilter,
    /// Graphs without a core: pointwise operations, reductions, statistics, resamplings.
    Pointwise,
    /// Softmax between pointwise operations.
    Softmax,
    /// Norms, forward and backward, between pointwise operations.
    Norm,
    /// Attention, forward.
    Attention,
    /// Attention, backward.
    AttentionBackward,
    /// Attention whose probabilities lie in memory, forward.
    Mha,
    /// The same, backward.
    MhaBackward,
}

impl Family {
    /// Every family.
    pub const ALL: [Self; 11] = [
        Self::Matmul,
        Self::Forward,
        Self::BackwardData,
        Self::BackwardFilter,
        Self::Pointwise,
        Self::Softmax,
        Self::Norm,
        Self::Attention,
        Self::AttentionBackward,
        Self::Mha,
        Self::MhaBackward,
    ];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Matmul => "matmul",
            Self::Forward => "fprop",
            Self::BackwardData => "dgrad",
            Self::BackwardFilter => "wgrad",
            Self::Pointwise => "pointwise",
            Self::Softmax => "softmax",
            Self::Norm => "norm",
            Self::Attention => "attention",
            Self::AttentionBackward => "attention_bwd",
            Self::Mha => "mha",
            Self::MhaBackward => "mha_bwd",
        }
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Family {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let names = || Self::ALL.map(Self::name).join(", ");
        let family = Self::ALL.into_iter().find(|family| family.name() == text);
        family.ok_or_else(|| format!("'{text}' is no family; there are {}", names()))
    }
}
