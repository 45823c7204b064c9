//! A bias of an attention's scores, as its backward pass reads it.

use crate::graph::TensorId;

/// A tensor that is added to scores (`docs/spec/attention.md` AT-O8), of their extents or 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScoreBias {
    /// The tensor.
    pub tensor: TensorId,
    /// Bits of an element.
    pub bits: u32,
    /// Whether two keys side by side are read at once, where a lane has such.
    pub is_paired: bool,
}

impl ScoreBias {
    /// Registers of a thread for what it reads of a step's so many scores, whose columns are keys or queries, and for where that lies.
    pub fn registers(&self, scores: u32, has_columns_of_keys: bool) -> u32 {
        const PLACES: u32 = 8;
        PLACES + if self.is_paired && has_columns_of_keys { scores * self.bits / 32 } else { scores }
    }
}
