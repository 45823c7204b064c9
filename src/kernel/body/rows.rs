//! Rows whose reductions stand one behind the other.

use super::phase::Phase;
use crate::graph::TensorId;
use crate::kernel::{Accumulation, Sweep};

/// Several passes over the same rows in one launch: `columns` threads evaluate a row phase after phase, and each of them has the
/// totals of a phase when the next begins. A block has `rows` rows, or several blocks have one.
///
/// All sweeps over points of rows have the same axes, in the same vectors; the axes behind the kept ones are reduced. Those over rows
/// alone have the kept axes, and one thread of a row evaluates them.
#[derive(Clone, Debug)]
pub struct RowsKernel {
    /// In the order in which they are done.
    pub phases: Vec<Phase>,
    /// Threads that a row has of a block, a power of two: several rows share a warp, or several warps a row.
    pub columns: u32,
    /// Blocks that share each row, a power of two. Where these are several, they are a cluster: each stores its totals in the shared memory of all,
    /// `columns` are whole warps, `rows` is 1, and the first phase has totals.
    pub cluster: u32,
    /// Rows of a block, at most `count`, in whole warps. Where they do not divide `count`, the last block has rows of the block before, and
    /// evaluates them once more.
    pub rows: u32,
    /// Rows in all.
    pub count: i64,
    /// Vectors of a row.
    pub vectors: i64,
    /// Elements of a row.
    pub elements: i64,
    /// What is added up over rows, if anything.
    pub column_totals: Option<ColumnTotals>,
}

/// Reductions over rows of values of all their points: a thread has the same columns in each row, and adds them up; a block leaves a partial
/// result of each column.
#[derive(Clone, Debug)]
pub struct ColumnTotals {
    /// The reductions.
    pub accumulations: Vec<Accumulation>,
    /// The phase whose points they are of.
    pub phase: usize,
    /// Blocks, or clusters of them: each takes every so many rows of a block, which divide all of them.
    pub blocks: u32,
    /// Rows that a thread has at once: their totals are known together. So many rows of a block divide all of them.
    pub at_once: u32,
    /// What is read of each row anew, in vectors: it comes to shared memory a round before.
    pub ahead: Vec<TensorId>,
    /// Bytes of a vector of these.
    pub vector_bytes: u32,
}

impl ColumnTotals {
    /// Rounds in shared memory: one that is evaluated, one that is on its way.
    const ROUNDS: u32 = 2;

    /// Threads of a multiprocessor, which have registers for their sums.
    pub const RESIDENT_THREADS: u32 = 512;
}

impl RowsKernel {
    /// All sweeps.
    pub fn sweeps(&self) -> impl Iterator<Item = &Sweep> + '_ {
        self.phases.iter().flat_map(Phase::sweeps)
    }

    /// Blocks.
    pub fn blocks(&self) -> i64 {
        self.groups() * i64::from(self.cluster)
    }

    /// Blocks, or clusters of them.
    pub fn groups(&self) -> i64 {
        let all = (self.count + i64::from(self.rows) - 1) / i64::from(self.rows);
        self.column_totals.as_ref().map_or(all, |totals| totals.blocks.into())
    }

    /// Threads of a row, in all its blocks.
    pub fn threads_of_a_row(&self) -> u32 {
        self.columns * self.cluster
    }

    /// Warps of a block that share a row.
    pub fn warps_of_a_row(&self) -> u32 {
        self.columns.div_ceil(32)
    }

    /// Floats of shared memory for a number a warp of a row: they are read in vectors.
    pub fn warp_pitch(&self) -> u32 {
        match self.warps_of_a_row() {
            warps @ (1 | 2) => warps,
            warps => warps.next_multiple_of(4),
        }
    }

    /// Vectors of a row that a thread has.
    pub fn vectors_of_a_thread(&self) -> i64 {
        let threads = i64::from(self.threads_of_a_row());
        (self.vectors + threads - 1) / threads
    }

    /// Rows that a thread has at once.
    pub fn rows_at_once(&self) -> u32 {
        self.column_totals.as_ref().map_or(1, |totals| totals.at_once)
    }

    /// Floats of shared memory for the totals of a block's rows: a number a warp of each, then a number a block of its cluster.
    pub fn total_floats(&self) -> u32 {
        let of_blocks = if self.cluster > 1 { self.cluster } else { 0 };
        let parts = self.rows_at_once() * (self.warp_pitch() * self.rows + of_blocks);
        if self.columns > 32 { parts * self.accumulations().count() as u32 } else { 0 }
    }

    /// Bytes of shared memory in all.
    pub fn shared_bytes(&self) -> u32 {
        self.ahead_at() + self.ahead_bytes()
    }

    /// Bytes of shared memory before what is read ahead: totals of a block's rows, of two rounds of them where blocks stay; at the end sums of all
    /// its columns.
    pub fn ahead_at(&self) -> u32 {
        let floats = match self.column_totals {
            None => self.total_floats(),
            Some(_) if self.rows == 1 => 2 * self.total_floats(),
            Some(_) => (2 * self.total_floats()).max(self.rows * self.elements as u32),
        };
        floats.next_multiple_of(4) * 4
    }

    fn ahead_bytes(&self) -> u32 {
        let Some(ColumnTotals { at_once, ahead, vector_bytes, .. }) = &self.column_totals else { return 0 };
        let vectors = ahead.len() as u32 * self.vectors_of_a_thread() as u32 * self.columns * self.rows;
        ColumnTotals::ROUNDS * at_once * vectors * vector_bytes
    }

    /// What is reduced along rows, phase after phase.
    pub fn accumulations(&self) -> impl Iterator<Item = &Accumulation> + '_ {
        self.phases.iter().flat_map(|phase| &phase.accumulations)
    }
}
