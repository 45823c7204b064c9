//! The gradient of an attention's bias: sums of gradients of scores over whatever shares an element of the bias.

use super::attention::lines as head_lines;
use super::attention_backward::AttentionBackwardKernel;
use crate::graph::TensorId;

/// The gradient of a bias by `wgmma` (`docs/spec/attention.md` AT-O9, AT-K37). A block has a tile of it, and adds up the gradients of all scores
/// that the tile was added to: batch by batch, head by head, and where the bias has one row, or one column, tile by tile. Nothing is added up by
/// several blocks, so that results are the same from run to run.
#[derive(Clone, Debug)]
pub struct AttentionBiasKernel {
    /// The pass over tiles of queries whose scores these are: a tile has its rows, and a step's others as columns. It has no results of its own.
    pub pass: AttentionBackwardKernel,
    /// The gradient.
    pub result: TensorId,
    /// Its extents: those of the scores, or 1.
    pub extents: [i64; 4],
    /// Whether two columns side by side are stored at once.
    pub stores_pairs: bool,
}

/// Where a block's shared memory holds what, in bytes; stages at 0, each with queries and dO, then with keys and values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BiasLayout {
    /// Keys of a stage.
    pub keys: u32,
    /// Bytes of a stage.
    pub stage_bytes: u32,
    /// Totals of each warp's rows, where the gradient has one row.
    pub totals: u32,
    /// Barriers.
    pub barriers: u32,
    /// All.
    pub bytes: u32,
}

/// Bytes of a row of a box: one swizzled line.
const LINE: u32 = 128;

/// Warps of a multiplying warpgroup.
const WARPS: u32 = 4;

impl AttentionBiasKernel {
    /// Whether all queries share a row.
    pub fn sums_queries(&self) -> bool {
        self.extents[2] == 1
    }

    /// Whether all keys share a column.
    pub fn sums_keys(&self) -> bool {
        self.extents[3] == 1
    }

    /// Batches, heads, tiles of rows and tiles of columns of the scores.
    fn tiles(&self) -> [i64; 4] {
        let (extents, columns) = (self.pass.problem.extents, i64::from(self.pass.tile.others));
        [extents.batches, extents.heads, self.pass.row_tiles(), (extents.keys + columns - 1) / columns]
    }

    /// Of each axis of tiles how many the gradient has, and how many of the scores share one of these.
    pub fn axes(&self) -> [[i64; 2]; 4] {
        let tiles = self.tiles();
        std::array::from_fn(|axis| if self.extents[axis] == 1 { [1, tiles[axis]] } else { [tiles[axis], 1] })
    }

    /// Tiles of the gradient, and tiles of scores that are added up for each.
    pub fn counts(&self) -> [i64; 2] {
        [0, 1].map(|of| self.axes().into_iter().map(|axis| axis[of]).product())
    }

    /// Where everything lies.
    pub fn layout(&self) -> BiasLayout {
        let tile = self.pass.tile;
        let lines: u32 = self.pass.problem.extents.head.into_iter().map(head_lines).sum();
        let keys = tile.rows() * lines * LINE;
        let stage_bytes = keys + tile.others * lines * LINE;
        let totals = tile.stages * stage_bytes;
        let floats = if self.sums_queries() { WARPS * tile.consumers * tile.others } else { 0 };
        let barriers = totals + floats * 4;
        BiasLayout { keys, stage_bytes, totals, barriers, bytes: barriers + 16 * tile.stages }
    }

    /// What Δ is multiplied by for gradients of probabilities that a mask leaves.
    pub fn factors_of_delta(&self) -> Vec<TensorId> {
        self.pass.problem.dropout.map_or(Vec::new(), |dropout| dropout.factors_of_delta())
    }

    /// Tensors that are read and written through pointers.
    pub fn touched(&self) -> (Vec<TensorId>, Vec<TensorId>) {
        let reads = self.pass.problem.touched().0.into_iter().chain(self.factors_of_delta());
        (reads.collect(), vec![self.result])
    }
}
