//! Gradients of scores that a pass over keys leaves in the workspace, and the queries' gradients that are multiplied by them.

use super::attention::{columns as value_columns, lines as head_lines};
use super::attention_backward::BackwardProblem;
use crate::kernel::{TensorMap, WARPGROUP, WGMMA_ROWS};

/// Gradients of the scores of some heads of keys at a time, rounded as they are multiplied: chunks of 64 keys and 8 queries, each made of pieces of
/// 8 keys with 8 queries side by side, which is how registers hold them and how `wgmma` takes an operand that is MN-major and not swizzled.
/// Chunks of the same keys lie side by side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScoreGradients {
    /// Heads of keys whose gradients are there at a time.
    pub heads: i64,
    /// Heads of queries of each.
    pub members: i64,
    /// Chunks of a head, along keys and along queries.
    pub chunks: [i64; 2],
    /// Queries of which all or none are computed beside the same 64 keys.
    pub aligned: u32,
}

impl ScoreGradients {
    /// Keys and queries of a chunk.
    pub const CHUNK: [u32; 2] = [WGMMA_ROWS, 8];

    /// Bytes of a chunk.
    pub const CHUNK_BYTES: u32 = 1024;

    /// Bytes of a row of the boxes that bring chunks.
    pub const ROW_BYTES: u32 = 128;

    /// Gradients of some heads of keys: so many keys, by tiles of a pass, and queries, by steps of a pass.
    pub fn of([heads, members]: [i64; 2], [keys, queries]: [i64; 2], [tile, step]: [u32; 2], aligned: u32) -> Self {
        let up = |extent: i64, unit: u32| (extent + i64::from(unit) - 1) / i64::from(unit) * i64::from(unit);
        let queries = up(up(queries, aligned), step);
        let chunks = [up(keys, tile) / i64::from(Self::CHUNK[0]), queries / i64::from(Self::CHUNK[1])];
        Self { heads, members, chunks, aligned }
    }

    /// Bytes of a head of queries.
    pub fn head_bytes(&self) -> i64 {
        self.chunks[0] * self.chunks[1] * i64::from(Self::CHUNK_BYTES)
    }

    /// All bytes.
    pub fn bytes(&self) -> i64 {
        self.heads * self.members * self.head_bytes()
    }
}

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

    /// Tiles of queries of a head.
    pub fn row_tiles(&self) -> i64 {
        self.problem.row_tiles(self.tile.rows())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_hold_whole_tiles_of_keys_and_whole_steps_of_whole_parts_of_queries() {
        let gradients = ScoreGradients::of([3, 2], [300, 130], [128, 48], 128);
        // 300 keys are 384; 130 queries are 256, which are 288 in steps of 48
        assert_eq!(gradients.chunks, [6, 36]);
        assert_eq!(gradients.head_bytes(), 384 * 288 * 2);
        assert_eq!(gradients.bytes(), 6 * 384 * 288 * 2);
    }
}
