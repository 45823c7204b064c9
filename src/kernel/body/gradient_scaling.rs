//! What scales a backward pass in FP8, and keeps its largest magnitudes (`docs/spec/attention.md` section 2.5).

use super::attention::AttentionExtents;
use crate::graph::{DataType, TensorId};

/// What scores, and what becomes of them, are multiplied by. Rows in FP8 are multiplied as FP16, which holds them all.
#[derive(Clone, Debug)]
pub struct BackwardScaling {
    /// Numbers that scores are multiplied by beside their scale.
    pub scores: Vec<TensorId>,
    /// Numbers that products of dO and V are multiplied by.
    pub differences: Vec<TensorId>,
    /// Numbers that probabilities, and gradients of scores, are multiplied by before they are operands.
    pub operands: [Option<TensorId>; 2],
    /// The types of such operands, beyond whose largest numbers none is.
    pub types: [DataType; 2],
    /// Where the largest magnitude of gradients of scores is kept.
    pub largest: Option<TensorId>,
}

impl BackwardScaling {
    /// The numbers.
    pub fn reads(&self) -> impl Iterator<Item = TensorId> + '_ {
        self.scores.iter().chain(&self.differences).copied().chain(self.operands.into_iter().flatten())
    }
}

/// What a gradient's sums are multiplied by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GradientFactors {
    /// Numbers that they lack.
    pub factors: [Option<TensorId>; 2],
    /// Where the largest magnitude of what they make is kept.
    pub largest: Option<TensorId>,
    /// The number that this is multiplied by when it is stored.
    pub last: Option<TensorId>,
}

impl GradientFactors {
    /// The numbers.
    pub fn reads(&self) -> impl Iterator<Item = TensorId> + use<> {
        self.factors.into_iter().chain([self.last]).flatten()
    }
}

/// Rows of heads in FP8 as FP16, in regions of the workspace: `[batch, head, row, element]`, without gaps. Rows beyond a sequence are left as they are.
#[derive(Clone, Debug)]
pub struct HalfRowsKernel {
    /// What is read, each with its region.
    pub heads: Vec<HalfRows>,
    /// Offsets of the ragged ones among them.
    pub offsets: Vec<TensorId>,
    /// What becomes 0: where later launches keep largest magnitudes.
    pub cleared: Vec<TensorId>,
}

/// Heads of Q, K, V or dO.
#[derive(Clone, Copy, Debug)]
pub struct HalfRows {
    /// The tensor.
    pub tensor: TensorId,
    /// Lengths of its sequences.
    pub lengths: Option<TensorId>,
    /// Whether 16 elements are loaded at a time.
    pub has_vectors: bool,
    /// Batches, heads, rows, elements of a row.
    pub dim: [i64; 4],
}

impl HalfRows {
    /// Elements of a thread.
    pub const EACH: i64 = 16;

    /// Threads.
    pub fn items(&self) -> i64 {
        self.elements() / Self::EACH
    }

    /// Elements of the region.
    pub fn elements(&self) -> i64 {
        self.dim.iter().product()
    }

    /// The extents of Q, K, V and dO.
    pub fn dims(extents: AttentionExtents) -> [[i64; 4]; 4] {
        let AttentionExtents { batches, heads, key_heads, queries, keys, head, .. } = extents;
        [
            [batches, heads, queries, head[0]],
            [batches, key_heads[0], keys, head[0]],
            [batches, key_heads[1], keys, head[1]],
            [batches, heads, queries, head[1]],
        ]
    }
}

impl HalfRowsKernel {
    /// Threads of a block.
    pub const THREADS: u32 = 256;

    /// Blocks of each of the heads: none has threads of two.
    pub fn blocks(&self) -> impl Iterator<Item = i64> + '_ {
        let threads = i64::from(Self::THREADS);
        self.heads.iter().map(move |heads| (heads.items() + threads - 1) / threads)
    }

    /// Tensors that are read and written through pointers, beside the workspace.
    pub fn touched(&self) -> (Vec<TensorId>, Vec<TensorId>) {
        let mut lengths: Vec<TensorId> = self.heads.iter().filter_map(|heads| heads.lengths).collect();
        lengths.dedup();
        let rows = self.heads.iter().map(|heads| heads.tensor);
        (rows.chain(lengths).chain(self.offsets.iter().copied()).collect(), self.cleared.clone())
    }
}
