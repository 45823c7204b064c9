//! Gradients of an attention's queries from gradients of its scores.

use super::attention::{columns as value_columns, lines as head_lines};
use super::attention_backward::BackwardProblem;
use super::score_gradients::ScoreGradients;
use crate::kernel::{TensorMap, WARPGROUP, WGMMA_ROWS};

/// Gradients of queries by `wgmma`, from gradients of scores in the workspace: products with the keys, added up by the block whose queries they are.
#[derive(Clone, Debug)]
pub struct AttentionQueriesKernel {
    /// Chunks of gradients, then keys, in boxes.
    pub maps: [TensorMap; 2],
    /// What is computed.
    pub problem: BackwardProblem,
    /// Where gradients of scores lie.
    pub gradients: ScoreGradients,
    /// Tile of a block.
    pub tile: QueriesTile,
    /// Registers of a thread that brings tiles, and of one that multiplies.
    pub registers: [u32; 2],
}

/// Tile of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueriesTile {
    /// Multiplying warpgroups.
    pub consumers: u32,
    /// Parts of 64 queries of each.
    pub parts: u32,
    /// Steps of 64 keys in shared memory.
    pub stages: u32,
}

/// Where a block's shared memory holds what, in bytes; stages at 0, each with gradients, then with keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueriesLayout {
    /// Keys of a stage.
    pub keys: u32,
    /// Bytes of a stage.
    pub stage_bytes: u32,
    /// Barriers.
    pub barriers: u32,
    /// All.
    pub bytes: u32,
}

impl QueriesTile {
    /// Keys of a step.
    pub const STEP: u32 = ScoreGradients::CHUNK[0];

    /// Queries of a warpgroup.
    pub fn consumer_rows(&self) -> u32 {
        self.parts * WGMMA_ROWS
    }

    /// Queries of a block.
    pub fn rows(&self) -> u32 {
        self.consumers * self.consumer_rows()
    }

    /// Threads of a block.
    pub fn threads(&self) -> u32 {
        (self.consumers + 1) * WARPGROUP
    }

    /// Accumulators of a thread.
    pub fn accumulators(&self, head: i64) -> u32 {
        self.parts * value_columns(head) / 2
    }

    /// Where everything lies, of heads of so many elements.
    pub fn layout(&self, head: i64) -> QueriesLayout {
        let keys = self.rows() * Self::STEP * 2;
        let stage_bytes = keys + head_lines(head) * Self::STEP * ScoreGradients::ROW_BYTES;
        let barriers = self.stages * stage_bytes;
        QueriesLayout { keys, stage_bytes, barriers, bytes: barriers + 16 * self.stages }
    }
}

impl AttentionQueriesKernel {
    /// Where everything lies.
    pub fn layout(&self) -> QueriesLayout {
        self.tile.layout(self.problem.extents.head[0])
    }
}
