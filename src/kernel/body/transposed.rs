//! Pointwise passes some of whose operands are contiguous along another axis than what they store.

use crate::graph::{FinalizedGraph, TensorId};
use crate::kernel::{Access, Axis, Number, Sweep};

/// A block has a tile of two axes of the space: the innermost, along which threads evaluate vectors as in any pass, and the one along which some operands
/// are contiguous. Of these the tile is read in vectors along that axis first, to shared memory, where threads find the elements of their points.
#[derive(Clone, Debug)]
pub struct TransposedKernel {
    /// What is evaluated.
    pub sweep: Sweep,
    /// The axis along which the operands are contiguous.
    pub across: usize,
    /// Points of a tile along the innermost axis, and along the other.
    pub tile: [i64; 2],
    /// What comes through shared memory.
    pub operands: Vec<TileOperand>,
    /// Threads of a block.
    pub threads: u32,
}

/// An operand of which a block reads a tile first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TileOperand {
    /// The operand.
    pub tensor: TensorId,
    /// Bytes of an element.
    pub bytes: i64,
    /// Elements that are read at once.
    pub vector: i64,
    /// Bytes before it in shared memory.
    pub first_byte: i64,
}

/// Bytes of a word of shared memory.
const WORD: i64 = 4;

/// Registers of a thread up to which operands are read ahead.
const REGISTERS_AHEAD: i64 = 16;

impl TileOperand {
    /// Elements from one row of the tile to the next: a word more than it has, so that columns lie in different banks.
    pub fn pitch(&self, tile: [i64; 2]) -> i64 {
        tile[1] + (WORD / self.bytes).max(1)
    }

    /// Bytes of the tile.
    pub fn tile_bytes(&self, tile: [i64; 2]) -> i64 {
        self.pitch(tile) * tile[0] * self.bytes
    }
}

impl TransposedKernel {
    /// The innermost axis.
    pub fn along(&self) -> usize {
        self.sweep.space.axes.len() - 1
    }

    /// The axes of a tile: the innermost, and the other.
    pub fn tile_axes(&self) -> [&Axis; 2] {
        [self.along(), self.across].map(|axis| &self.sweep.space.axes[axis])
    }

    /// Coordinates of blocks along an axis: tiles, or points.
    pub fn count(&self, axis: usize) -> Number {
        let extent = self.sweep.space.axes[axis].extent;
        extent.parts(self.points(axis))
    }

    /// Points of a block along an axis.
    pub fn points(&self, axis: usize) -> i64 {
        let [along, across] = self.tile;
        match axis {
            _ if axis == self.along() => along,
            _ if axis == self.across => across,
            _ => 1,
        }
    }

    /// All blocks.
    pub fn blocks(&self) -> i64 {
        (0..self.sweep.space.axes.len()).map(|axis| self.count(axis).value()).product()
    }

    /// What each vector of points reads as a whole before the block meets: nothing where a thread's registers are full of what it brings, which was
    /// slower (53 µs, not 46, of 32 registers and more on an H200, 2026-11-30).
    pub fn read_ahead(&self, graph: &FinalizedGraph) -> Vec<TensorId> {
        let (sweep, points) = (&self.sweep, self.tile[0] * self.tile[1]);
        let vectors: Vec<TensorId> = sweep.program.loads().filter(|id| sweep.access[id] == Access::Vector).collect();
        let words = |vector: i64, bytes: i64| points / vector * ((vector * bytes + WORD - 1) / WORD);
        let brought = self.operands.iter().map(|operand| words(operand.vector, operand.bytes));
        let ahead = vectors.iter().map(|&id| words(sweep.vector, graph.tensor(id).data_type.bytes() as i64));
        let registers = brought.chain(ahead).sum::<i64>() / i64::from(self.threads);
        if registers <= REGISTERS_AHEAD { vectors } else { Vec::new() }
    }

    /// Bytes of shared memory.
    pub fn shared_bytes(&self) -> i64 {
        self.operands.iter().map(|operand| operand.tile_bytes(self.tile)).sum()
    }
}
