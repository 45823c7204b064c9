//! Attention by `mma.sync`: a block of warps, each of 16 queries, walks tiles of keys that lie in shared memory.

use super::attention::{AttentionProblem, columns as value_columns};
use super::attention_backward::{BackwardOutput, BackwardProblem};
use crate::graph::TensorId;
use crate::kernel::MmaType;

/// Forward attention by `mma.sync` (`docs/spec/attention.md` AT-K40).
#[derive(Clone, Debug)]
pub struct WarpAttentionKernel {
    /// Q, K, V.
    pub operands: [HeadRows; 3],
    /// What is computed.
    pub problem: AttentionProblem,
    /// Tile of a block.
    pub tile: WarpAttentionTile,
    /// Blocks of a multiprocessor, as a bound on registers.
    pub blocks: u32,
}

/// How rows of heads come from a tensor to shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeadRows {
    /// The tensor.
    pub tensor: TensorId,
    /// Its axes of a row's elements, and of rows.
    pub axes: [usize; 2],
    /// Bytes that are copied at a time by `cp.async`: 16, 8 or 4; `None` where elements are moved one by one.
    pub piece: Option<u32>,
}

/// Tile of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WarpAttentionTile {
    /// Warps, each of 16 queries.
    pub warps: u32,
    /// Keys of a step, a multiple of 16.
    pub keys: u32,
}

/// Where a block's shared memory holds what, in bytes; queries at 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WarpAttentionLayout {
    /// Bytes from row to row of Q and K, and of V.
    pub pitches: [u32; 2],
    /// The tile of K.
    pub keys: u32,
    /// The tile of V.
    pub values: u32,
    /// All.
    pub bytes: u32,
}

/// Rows of a warp's fragments.
pub const WARP_ROWS: u32 = 16;

/// Bytes of k of an instruction, of which rows are multiples.
const STEP_BYTES: u32 = 32;

/// Bytes of a matrix's row, by an odd number of which rows lie apart: eight of them are in different banks.
const BANKS: u32 = 16;

/// Bytes of a row of so many elements, padded to whole steps of k.
pub fn row_bytes(head: i64, operand: MmaType) -> u32 {
    (u32::try_from(head).unwrap_or(0) * operand.bytes()).next_multiple_of(STEP_BYTES)
}

/// Bytes from row to row of a tile of heads of so many elements.
pub fn row_pitch(head: i64, operand: MmaType) -> u32 {
    row_bytes(head, operand) + BANKS
}

impl WarpAttentionTile {
    /// Queries of a block.
    pub fn queries(&self) -> u32 {
        self.warps * WARP_ROWS
    }

    /// Threads of a block.
    pub fn threads(&self) -> u32 {
        self.warps * 32
    }

    /// Registers of a thread for scores, their probabilities as they are multiplied, and a row's part of O.
    pub fn held_registers(&self, head: [i64; 2], operand: MmaType) -> u32 {
        self.keys / 2 + self.keys * operand.bytes() / 8 + value_columns(head[1]) / 2
    }

    /// Where everything lies.
    pub fn layout(&self, head: [i64; 2], operand: MmaType) -> WarpAttentionLayout {
        let pitches = head.map(|head| row_pitch(head, operand));
        let keys = self.queries() * pitches[0];
        let values = keys + self.keys * pitches[0];
        WarpAttentionLayout { pitches, keys, values, bytes: values + self.keys * pitches[1] }
    }
}

impl WarpAttentionKernel {
    /// Tiles of rows of a head.
    pub fn row_tiles(&self) -> i64 {
        self.problem.row_tiles(self.tile.queries())
    }

    /// Where everything lies.
    pub fn layout(&self) -> WarpAttentionLayout {
        self.tile.layout(self.problem.extents.head, self.problem.operand)
    }

    /// Tensors that are read and written.
    pub fn touched(&self) -> (Vec<TensorId>, Vec<TensorId>) {
        let (reads, stores) = self.problem.touched();
        (self.operands.iter().map(|rows| rows.tensor).chain(reads).collect(), stores)
    }
}

/// Gradients of own rows by `mma.sync` (AT-K40): own rows stay in shared memory, others come step by step.
#[derive(Clone, Debug)]
pub struct WarpBackwardKernel {
    /// Own rows, K and V or Q and dO.
    pub own: [HeadRows; 2],
    /// The others.
    pub others: [HeadRows; 2],
    /// What is computed.
    pub problem: BackwardProblem,
    /// Tile of a block.
    pub tile: WarpBackwardTile,
    /// Blocks of a multiprocessor, as a bound on registers.
    pub blocks: u32,
}

/// Tile of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WarpBackwardTile {
    /// Warps, each of 16 own rows.
    pub warps: u32,
    /// Other rows of a step, a multiple of 16.
    pub others: u32,
    /// Steps whose other rows lie in shared memory: 1 or 2.
    pub stages: u32,
}

/// Where a block's shared memory holds what, in bytes; own rows at 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WarpBackwardLayout {
    /// Bytes from row to row of Q and K, and of V and dO.
    pub pitches: [u32; 2],
    /// The second of the own rows' tiles.
    pub own_1: u32,
    /// The first stage of others, and in it the second of their tiles and what is known of queries.
    pub others: u32,
    /// The second of the others' tiles of a stage.
    pub other_1: u32,
    /// What is known of the queries of a stage.
    pub rows: u32,
    /// Bytes of a stage.
    pub stage_bytes: u32,
    /// All.
    pub bytes: u32,
}

impl WarpBackwardTile {
    /// Own rows of a block.
    pub fn rows(&self) -> u32 {
        self.warps * WARP_ROWS
    }

    /// Threads of a block.
    pub fn threads(&self) -> u32 {
        self.warps * 32
    }

    /// Registers of a thread for scores, gradients of probabilities, what is multiplied of them, and sums.
    pub fn held_registers(&self, outputs: &[BackwardOutput], operand: MmaType) -> u32 {
        let sums: u32 = outputs.iter().map(BackwardOutput::registers).sum();
        let has = |is_of_values: bool| u32::from(outputs.iter().any(|output| output.is_of_values == is_of_values));
        let words = self.others * operand.bytes() / 8;
        self.others / 2 * (1 + has(false)) + words * (has(false) + has(true)) + sums
    }

    /// Where everything lies, of heads of so many elements.
    pub fn layout(&self, head: [i64; 2], operand: MmaType) -> WarpBackwardLayout {
        let pitches = head.map(|head| row_pitch(head, operand));
        let own_1 = self.rows() * pitches[0];
        let others = own_1 + self.rows() * pitches[1];
        let other_1 = self.others * pitches[0];
        let rows = other_1 + self.others * pitches[1];
        let stage_bytes = rows + self.others * 8;
        WarpBackwardLayout {
            pitches,
            own_1,
            others,
            other_1,
            rows,
            stage_bytes,
            bytes: others + self.stages * stage_bytes,
        }
    }
}

impl WarpBackwardKernel {
    /// Tiles of own rows of a head.
    pub fn row_tiles(&self) -> i64 {
        self.problem.row_tiles(self.tile.rows())
    }

    /// Where everything lies.
    pub fn layout(&self) -> WarpBackwardLayout {
        self.tile.layout(self.problem.extents.head, self.problem.operand)
    }

    /// Tensors that are read and written.
    pub fn touched(&self) -> (Vec<TensorId>, Vec<TensorId>) {
        let (reads, stores) = self.problem.touched();
        (self.own.iter().chain(&self.others).map(|rows| rows.tensor).chain(reads).collect(), stores)
    }
}
