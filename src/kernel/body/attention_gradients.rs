//! The backward pass of attention with five products: tiles of keys walk the queries, dK and dV are sums of a block, and dQ of all of them, in a
//! fixed order.

use super::attention_backward::{AttentionBackwardKernel, BackwardLayout, BackwardOutput, BackwardTile};
use crate::graph::{FinalizedGraph, TensorId};
use crate::kernel::WGMMA_ROWS;

/// Gradients of a tile of keys by `wgmma`, and its part of dQ (`docs/spec/attention.md` AT-K31, AT-K33). Blocks wait for each other, so that
/// parts are added in the same order in every run.
#[derive(Clone, Debug)]
pub struct AttentionGradientsKernel {
    /// The pass over tiles of keys, with what is stored of it: dV and dK. Two warpgroups multiply.
    pub pass: AttentionBackwardKernel,
    /// Where dQ is added up.
    pub sums: QuerySums,
    /// In which order a block walks queries.
    pub walk: Walk,
}

/// The sums of dQ, in FLOAT: for each step of queries of a head two parts of as many columns each, which lie as accumulators do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuerySums {
    /// Steps of a head.
    pub steps: i64,
    /// Columns of a part: 16, 32 or 64.
    pub columns: u32,
}

/// The order of a block's steps, and of the tiles of keys that a block has one after the other. Tiles of a head that are under way at once
/// should be at other queries at any time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Walk {
    /// From a query on that is so many steps further for each tile of keys, and round.
    Rotated(u32),
    /// Upwards, as diagonals begin.
    Ascending,
    /// A long tile upwards, then a short one downwards: together all have as many steps.
    Paired,
}

/// Where shared memory holds what lies behind the stages and rows of a [`BackwardLayout`], in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GradientsLayout {
    /// Stages and what is known of queries.
    pub pass: BackwardLayout,
    /// Gradients of scores of two steps.
    pub scores: u32,
    /// Bytes of them of a step.
    pub scores_bytes: u32,
    /// For each of the two whether its part is its query's first.
    pub firsts: u32,
    /// Barriers.
    pub barriers: u32,
    /// All.
    pub bytes: u32,
}

impl QuerySums {
    /// Queries of a step.
    pub const STEP: u32 = WGMMA_ROWS;

    /// The sums of so many queries, whose rows have so many elements; `None` beyond 128.
    pub fn of(head: i64, queries: i64) -> Option<Self> {
        let columns = [16, 32, 64].into_iter().find(|&columns| head <= 2 * i64::from(columns))?;
        Some(Self { steps: (queries + i64::from(Self::STEP) - 1) / i64::from(Self::STEP), columns })
    }

    /// Accumulators of a thread.
    pub fn registers(&self) -> u32 {
        self.columns / 2
    }

    /// Floats of a part.
    pub fn part(&self) -> u32 {
        WGMMA_ROWS * self.columns
    }

    /// Floats of a step: a part for each warpgroup.
    pub fn floats(&self) -> u32 {
        2 * self.part()
    }
}

impl AttentionGradientsKernel {
    /// Multiplying warpgroups.
    pub const CONSUMERS: u32 = 2;

    /// Where everything lies.
    pub fn layout(&self) -> GradientsLayout {
        Self::layout_of(self.pass.layout(), self.pass.tile)
    }

    /// Where everything lies behind what a pass has.
    pub fn layout_of(pass: BackwardLayout, tile: BackwardTile) -> GradientsLayout {
        // tiles of gradients begin where swizzled lines do
        let scores = pass.barriers.next_multiple_of(1024);
        let scores_bytes = tile.rows() * tile.others * 2;
        let firsts = scores + 2 * scores_bytes;
        let barriers = firsts + 8;
        let bytes = barriers + 16 * tile.stages + 16 + 6 * 8;
        GradientsLayout { pass, scores, scores_bytes, firsts, barriers, bytes }
    }

    /// Tiles of keys of a head.
    pub fn key_tiles(&self) -> i64 {
        self.pass.row_tiles()
    }

    /// Tiles of keys, or pairs of them, that a head's blocks take.
    pub fn turns(&self) -> i64 {
        match self.walk {
            Walk::Paired => (self.key_tiles() + 1) / 2,
            Walk::Rotated(_) | Walk::Ascending => self.key_tiles(),
        }
    }

    /// What blocks take, of all heads.
    pub fn units(&self) -> i64 {
        self.turns() * self.pass.row_heads()
    }
}

/// dQ from its sums.
#[derive(Clone, Debug)]
pub struct AttentionQueriesKernel {
    /// dQ.
    pub output: BackwardOutput,
    /// Its sums.
    pub sums: QuerySums,
    /// Batches, heads, queries.
    pub extents: [i64; 3],
    /// Queries of each sequence, where others are not in memory.
    pub lengths: Option<TensorId>,
    /// The offset of its sequences, where it is ragged.
    pub offset: Option<TensorId>,
}

impl AttentionQueriesKernel {
    /// Threads of a block.
    pub const THREADS: u32 = 256;

    /// Tensors that are read.
    pub fn reads(&self) -> impl Iterator<Item = TensorId> + use<> {
        self.lengths.into_iter().chain(self.offset)
    }

    /// dQ of a graph.
    pub fn of(graph: &FinalizedGraph, output: BackwardOutput, sums: QuerySums, lengths: Option<TensorId>) -> Self {
        let tensor = graph.tensor(output.tensor);
        let [batches, heads, queries] = [0, 1, 2].map(|axis| tensor.dim[axis]);
        let offset = tensor.ragged_offset;
        Self { output, sums, extents: [batches, heads, queries], lengths: lengths.filter(|_| offset.is_some()), offset }
    }

    /// Threads: each has sixteen columns of a query.
    pub fn items(&self) -> i64 {
        let [batches, heads, _] = self.extents;
        batches * heads * self.sums.steps * i64::from(self.sums.floats() / 16)
    }

}
