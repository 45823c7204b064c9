//! Tiles of two axes that blocks bring to shared memory along one of them, to find them there along the other.

use crate::kernel::Number;

/// A tile: the first axis is that of the vectors that are stored, the second that of the vectors that are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tile {
    /// The axes.
    pub axes: [usize; 2],
    /// Points of a tile along each.
    pub points: [i64; 2],
    /// Threads of a block.
    pub threads: u32,
}

/// Bytes of a word of shared memory.
pub(super) const WORD: i64 = 4;

impl Tile {
    /// Elements of so many bytes from one row of a tile to the next in shared memory: a word more than it has, so that columns lie in different banks.
    pub fn pitch(&self, bytes: i64) -> i64 {
        self.points[1] + (WORD / bytes).max(1)
    }

    /// Bytes of a tile of elements of so many bytes.
    pub fn bytes(&self, bytes: i64) -> i64 {
        self.pitch(bytes) * self.points[0] * bytes
    }

    /// Points of a block along an axis.
    pub fn points_along(&self, axis: usize) -> i64 {
        self.axes.iter().position(|own| *own == axis).map_or(1, |place| self.points[place])
    }

    /// Coordinates of blocks along an axis of so many points: tiles, or points.
    pub fn count(&self, axis: usize, extent: Number) -> Number {
        extent.parts(self.points_along(axis))
    }

    /// Vectors of so many points that a thread has.
    pub fn vectors_of_a_thread(&self, vector: i64) -> i64 {
        self.points[0] * self.points[1] / (vector * i64::from(self.threads))
    }
}
