//! What the backward pass of an attention reads for its scores: a bias, a mask of dropout, and slopes of heads.

use crate::graph::TensorId;

/// A tensor that is added to scores (`docs/spec/attention.md` AT-O8), or that probabilities are multiplied by (AT-O14), of their extents or 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScoreTensor {
    /// The tensor.
    pub tensor: TensorId,
    /// Bits of an element.
    pub bits: u32,
    /// Whether two keys side by side are read at once, where a lane has such.
    pub is_paired: bool,
}

impl ScoreTensor {
    /// Registers of a thread for what it reads of a step's so many scores, whose columns are keys or queries, and for where that lies.
    pub fn registers(&self, scores: u32, has_columns_of_keys: bool) -> u32 {
        const PLACES: u32 = 8;
        PLACES + if self.is_paired && has_columns_of_keys { scores * self.bits / 32 } else { scores }
    }
}

/// By what scores lean: slopes times the distance of key and query (`docs/spec/attention.md` AT-O7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadSlopes {
    /// The slopes that the frontend gives heads.
    OfFrontend,
    /// A tensor with one of each head.
    Given(TensorId),
}

impl HeadSlopes {
    /// The tensor of slopes, if there is one.
    pub fn given(self) -> Option<TensorId> {
        match self {
            Self::OfFrontend => None,
            Self::Given(id) => Some(id),
        }
    }
}
