//! Values of an attention with keys side by side, as products in FP8 take them (`docs/spec/attention.md` AT-K26).

use super::attention::{AttentionExtents, Pages};
use crate::graph::TensorId;

/// Values with keys side by side, as `wgmma` takes 8-bit operands: `[batch, head, element, key]`, without gaps. The keys of each 16 are in the
/// order of a fragment of probabilities; those beyond a sequence are zeros.
#[derive(Clone, Debug)]
pub struct TurnedValuesKernel {
    /// The values, or the container of their pages.
    pub values: TensorId,
    /// Axes of keys, and of elements.
    pub axes: [usize; 2],
    /// Where they are in pages.
    pub pages: Option<Pages>,
    /// What is computed with them.
    pub extents: AttentionExtents,
    /// Lengths of the sequences of keys, where a tensor tells them.
    pub lengths: Option<TensorId>,
    /// Offsets of ragged values, or of a ragged table.
    pub offsets: Vec<TensorId>,
    /// Whether rows of elements lie in vectors of 16 bytes.
    pub has_vectors: bool,
    /// What becomes 0: where later launches keep largest magnitudes.
    pub cleared: Vec<TensorId>,
}

impl TurnedValuesKernel {
    /// Threads of a block.
    pub const THREADS: u32 = 256;

    /// Keys of a block.
    pub const KEYS: i64 = 128;

    /// Keys of a row, to the end of a block.
    pub fn row(keys: i64) -> i64 {
        (keys + Self::KEYS - 1) / Self::KEYS * Self::KEYS
    }

    /// Blocks: for each head of values those of its keys.
    pub fn blocks(&self) -> i64 {
        self.extents.batches * self.extents.key_heads[1] * Self::row(self.extents.keys) / Self::KEYS
    }

    /// Bytes from key to key in shared memory: lanes that read one element of several keys find them in different banks.
    pub fn pitch(&self) -> i64 {
        self.extents.head[1] + 4
    }

    /// Bytes of shared memory.
    pub fn shared_bytes(&self) -> u32 {
        u32::try_from(Self::KEYS * self.pitch()).unwrap_or(u32::MAX)
    }

    /// Bytes of the result.
    pub fn bytes(&self) -> i64 {
        self.extents.batches * self.extents.key_heads[1] * self.extents.head[1] * Self::row(self.extents.keys)
    }

    /// Tensors that are read and written through pointers, beside the workspace.
    pub fn touched(&self) -> (Vec<TensorId>, Vec<TensorId>) {
        let tables = self.pages.map(|pages| pages.table);
        let told = self.lengths.into_iter().chain(tables).chain(self.offsets.iter().copied());
        ([self.values].into_iter().chain(told).collect(), self.cleared.clone())
    }
}
