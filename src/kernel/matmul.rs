//! Tiled matmul with mainloop and epilogue fusion.

use super::{Accumulation, Register, StageProgram};
use crate::graph::TensorId;

/// Tile of a block and of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MatmulTile {
    /// Rows of C a block computes.
    pub block_m: u32,
    /// Columns of C a block computes.
    pub block_n: u32,
    /// Depth of one mainloop step.
    pub block_k: u32,
    /// Rows of C a thread computes.
    pub thread_m: u32,
    /// Columns of C a thread computes.
    pub thread_n: u32,
}

impl MatmulTile {
    /// Threads of a block.
    pub fn threads(&self) -> u32 {
        (self.block_m / self.thread_m) * (self.block_n / self.thread_n)
    }
}

/// One operand with its mainloop fusion.
#[derive(Clone, Debug)]
pub struct Operand {
    /// Values at one element; the last one is the operand.
    pub program: StageProgram,
    /// The operand tensor.
    pub tensor: TensorId,
    /// Whether neighbouring threads step along K (K is the contiguous axis) or along M / N.
    pub k_contiguous: bool,
}

/// Where the partial results of an epilogue reduction go: `partial[split][kept]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartialLayout {
    /// Which of the axes B, M, N are reduced.
    pub reduced: [bool; 3],
    /// Number of partial results for each kept element.
    pub splits: i64,
    /// Number of kept elements.
    pub kept: i64,
}

/// `C = g1A(A) · g1B(B)`, then g2, one block a tile.
#[derive(Clone, Debug)]
pub struct MatmulKernel {
    /// Batch count, M, N, K.
    pub extents: [i64; 4],
    /// Tile sizes.
    pub tile: MatmulTile,
    /// Left operand.
    pub a: Operand,
    /// Right operand.
    pub b: Operand,
    /// Type of the accumulators.
    pub accumulator: Register,
    /// The core's result.
    pub c: TensorId,
    /// Epilogue values at one element of C; the first is the accumulator.
    pub epilogue: StageProgram,
    /// Tensors stored at each element.
    pub stores: Vec<TensorId>,
    /// Epilogue reduction, with the place of its partials.
    pub reduction: Option<(Accumulation, PartialLayout)>,
    /// Whether neighbouring threads of the epilogue step along N (row-major outputs) or along M.
    pub n_contiguous: bool,
    /// Whether offsets need 64 bits.
    pub wide_index: bool,
}
