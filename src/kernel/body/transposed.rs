//! Pointwise passes some of whose operands are contiguous along another axis than what they store.

use super::tile::{Tile, WORD};
use crate::graph::{FinalizedGraph, TensorId};
use crate::kernel::{Access, Number, Sweep};

/// A block has a tile of two axes of the space: the innermost, along which threads evaluate vectors as in any pass, and the one along which some operands
/// are contiguous. Of these the tile is read in vectors along that axis first, to shared memory, where threads find the elements of their points.
#[derive(Clone, Debug)]
pub struct TransposedKernel {
    /// What is evaluated.
    pub sweep: Sweep,
    /// The tile of a block.
    pub tile: Tile,
    /// What comes through shared memory.
    pub operands: Vec<TileOperand>,
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

/// Registers of a thread up to which operands are read ahead.
const REGISTERS_AHEAD: i64 = 16;

impl TransposedKernel {
    /// Points along an axis.
    pub fn extent(&self, axis: usize) -> Number {
        self.sweep.space.axes[axis].extent
    }

    /// All blocks.
    pub fn blocks(&self) -> i64 {
        (0..self.sweep.space.axes.len()).map(|axis| self.tile.count(axis, self.extent(axis)).value()).product()
    }

    /// What each vector of points reads as a whole before the block meets: nothing where a thread's registers are full of what it brings, which was
    /// slower (53 µs, not 46, of 24 registers on an H200, 2026-11-30).
    pub fn read_ahead(&self, graph: &FinalizedGraph) -> Vec<TensorId> {
        let sweep = &self.sweep;
        let vectors: Vec<TensorId> = sweep.program.loads().filter(|id| sweep.access[id] == Access::Vector).collect();
        let registers =
            |vector: i64, bytes: i64| self.tile.vectors_of_a_thread(vector) * ((vector * bytes + WORD - 1) / WORD);
        let brought = self.operands.iter().map(|operand| registers(operand.vector, operand.bytes));
        let ahead = vectors.iter().map(|&id| registers(sweep.vector, graph.tensor(id).data_type.bytes() as i64));
        if brought.chain(ahead).sum::<i64>() <= REGISTERS_AHEAD { vectors } else { Vec::new() }
    }

    /// Bytes of shared memory.
    pub fn shared_bytes(&self) -> i64 {
        self.operands.iter().map(|operand| self.tile.bytes(operand.bytes)).sum()
    }
}
