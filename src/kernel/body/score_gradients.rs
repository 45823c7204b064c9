//! Gradients of scores that a pass over keys leaves in the workspace.

use crate::kernel::WGMMA_ROWS;

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
        self.chunks[0].saturating_mul(self.chunks[1]).saturating_mul(i64::from(Self::CHUNK_BYTES))
    }

    /// All bytes.
    pub fn bytes(&self) -> i64 {
        (self.heads * self.members).saturating_mul(self.head_bytes())
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
