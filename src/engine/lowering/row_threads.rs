//! How many threads a row of [`RowsKernel`](crate::kernel::RowsKernel) has, and a block rows.

use crate::device::{ComputeCapability, Device};
use crate::kernel::{ColumnTotals, MOST_BLOCKS_OF_A_CLUSTER};

/// Threads of a warp, among whom totals go by shuffles.
const WARP: u32 = 32;

/// Most threads that share a row.
const MOST_COLUMNS: u32 = 1024;

/// Least vectors of a row that a thread has, where a row has many: it keeps them in registers from phase to phase. Six
/// were faster than three (`docs/performance-notes.md`, "Norms of rows").
const VECTORS_OF_A_THREAD: i64 = 4;

/// Vectors of a row from which several blocks share it, those that each has at least, and its threads at most: 16 rows of 32,768 took 6.3 µs by
/// 4 × 512 threads on an H200 (2026-11-26), 6.8 by 4 × 1,024, 6.7 by 8 × 512; 64 rows of 16,384 the same by one block and by two, 8 of 8,192 4.8 by
/// one and 5.1 by two.
const VECTORS_OF_A_LONG_ROW: i64 = 4096;
const VECTORS_OF_A_BLOCK: i64 = 1024;
const COLUMNS_OF_A_CLUSTER: u32 = 512;

/// Vectors that a thread keeps at most, of all tensors, where several blocks share a row: with eight of two tensors a gradient spilled.
const MOST_VECTORS_KEPT: i64 = 8;

/// Rows of which several blocks add up what each has, at most: each row has partial results of all columns. A gradient of 64 rows of 16,384 took 16.3 µs
/// so, 13.2 in launches of their own, of 16 rows of 32,768 13.2 and 16.4.
const SHARED_ROWS_WITH_SUMS: i64 = 16;

/// Threads of a multiprocessor below which rows are few: more threads share a row then, down to a vector each. Of 8 rows of 8,192 a gradient took
/// 10.5 µs so, and 18.3 before (with stores in vectors as well); other numbers of threads were not tried.
const FEW_THREADS: i64 = 512;

/// Sums of columns that a thread has in registers at most, and elements of a row that it has them of: `ln_bwd_bf16_16384x4096` took 130 µs on
/// an H200 (2026-11-26) in blocks of 256 threads with 16 elements each, 133 of 512 with 8, 162 of 128 with 32.
const MOST_SUMS: i64 = 32;
const ELEMENTS_WITH_SUMS: i64 = 16;

/// Threads along a row of which a multiprocessor has room for no more than one block, and rows of a multiprocessor from which they are worth that:
/// 64 rows of 16,384 took 19 µs so on an H200 (2026-11-26), and 16 in launches of their own; 4,096 rows 177 and 184.
const COLUMNS_OF_TWO_BLOCKS: u32 = 512;
const MANY_ROWS: i64 = 8;

/// Threads of a block that adds up over rows, at least.
const THREADS_WITH_SUMS: u32 = 256;

/// Rows of these extents, on a chip of so many multiprocessors.
#[derive(Clone, Copy)]
pub(super) struct RowExtents {
    pub(super) rows: i64,
    /// Vectors of a row, and elements of a vector.
    pub(super) vectors: i64,
    pub(super) vector: i64,
    /// Tensors that each row has vectors of.
    pub(super) tensors: i64,
    pub(super) multiprocessors: u32,
    /// Blocks that may share a row.
    pub(super) most_blocks: u32,
}

/// Blocks that share a row, threads along a row in each, and rows of a block; all threads are of whole warps, those along a row powers of two within one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RowThreads {
    pub(super) blocks: u32,
    pub(super) columns: u32,
    pub(super) rows: u32,
}

/// Blocks that may be a cluster on a chip.
pub(super) fn most_blocks_of_a_cluster(device: &Device) -> u32 {
    if device.capability >= ComputeCapability::SM_90 { MOST_BLOCKS_OF_A_CLUSTER } else { 1 }
}

impl RowExtents {
    /// Threads that have rows for a while, in blocks of so many.
    pub(super) fn passing(self, threads: u32) -> RowThreads {
        let blocks = self.blocks();
        let (part, most) = (self.part(blocks), most_columns(blocks));
        let columns = part.shared_further(power_of_two_up_to(part.vectors / VECTORS_OF_A_THREAD), most);
        let rows = if blocks > 1 { 1 } else { (threads / columns).min(power_of_two_up_to(self.rows)) };
        RowThreads::of_warps(blocks, columns, rows)
    }

    /// Threads that stay, each with `sums` sums for each of its elements; a block has as many rows as divide all of them, and at least so many blocks
    /// share one, if rows are many. `None` where registers do not hold the sums.
    pub(super) fn staying(self, sums: i64, least_blocks: u32) -> Option<RowThreads> {
        let each = (ELEMENTS_WITH_SUMS / self.vector).min(MOST_SUMS / (sums * self.vector));
        if each == 0 {
            return None;
        }
        let blocks = if self.rows <= SHARED_ROWS_WITH_SUMS { self.blocks() } else { 1 };
        let blocks = blocks.max(least_blocks);
        let are_many = self.rows >= i64::from(self.multiprocessors) * MANY_ROWS;
        if blocks > self.most_blocks || least_blocks > 1 && !are_many {
            return None;
        }
        let part = self.part(blocks);
        let columns = whole_warps(u32::try_from((part.vectors + each - 1) / each).ok()?);
        let most = if are_many { most_columns(blocks) } else { COLUMNS_OF_TWO_BLOCKS };
        if columns > most {
            return None;
        }
        let columns = part.shared_further(columns, most_columns(blocks));
        let dividing = u32::try_from(self.rows & self.rows.wrapping_neg()).unwrap_or(MOST_COLUMNS);
        let rows = if blocks > 1 { 1 } else { rows_that_stay(columns, dividing) };
        Some(RowThreads::of_warps(blocks, columns, rows))
    }

    /// Blocks that share a row: as many as there are multiprocessors for, each with enough of it; one where it is short, or threads could not keep it.
    fn blocks(self) -> u32 {
        let (of_chip, of_row) = (i64::from(self.multiprocessors) / self.rows, self.vectors / VECTORS_OF_A_BLOCK);
        let blocks = power_of_two_up_to(of_chip.min(of_row)).min(self.most_blocks);
        let most = i64::from(COLUMNS_OF_A_CLUSTER * blocks) * (MOST_VECTORS_KEPT / self.tensors.max(1));
        if (VECTORS_OF_A_LONG_ROW..=most).contains(&self.vectors) { blocks } else { 1 }
    }

    /// What a block has where so many share a row.
    fn part(self, blocks: u32) -> Self {
        let blocks = i64::from(blocks);
        Self { rows: self.rows * blocks, vectors: (self.vectors + blocks - 1) / blocks, ..self }
    }

    /// Twice the threads along a row, again and again, as long as they all are few and have more than one vector.
    fn shared_further(self, columns: u32, most: u32) -> u32 {
        let is_few = |columns: u32| self.rows * i64::from(columns) < i64::from(self.multiprocessors) * FEW_THREADS;
        let mut columns = columns.min(most);
        while 2 * columns <= most && i64::from(columns) < self.vectors && is_few(columns) {
            columns *= 2;
        }
        columns
    }
}

impl RowThreads {
    /// Where that is less than a warp, some threads along a row have nothing.
    fn of_warps(blocks: u32, columns: u32, rows: u32) -> Self {
        let rows = rows.max(1);
        Self { blocks, columns: columns.max(WARP / rows), rows }
    }
}

/// Most threads along a row in each of so many blocks.
fn most_columns(blocks: u32) -> u32 {
    if blocks > 1 { COLUMNS_OF_A_CLUSTER } else { MOST_COLUMNS }
}

/// Rows of a block whose threads stay, a power of two: so many that its blocks fill a multiprocessor best, of which the most.
fn rows_that_stay(columns: u32, dividing: u32) -> u32 {
    let most = power_of_two_up_to((THREADS_WITH_SUMS / columns).into()).min(dividing);
    let resident = |rows: u32| ColumnTotals::RESIDENT_THREADS / (columns * rows) * (columns * rows);
    let powers = std::iter::successors(Some(1), |rows| (2 * rows <= most).then_some(2 * rows));
    powers.max_by_key(|rows| resident(*rows)).unwrap_or(1)
}

/// The least number of threads that is no smaller, and a power of two within a warp or whole warps.
fn whole_warps(threads: u32) -> u32 {
    if threads <= WARP { threads.next_power_of_two() } else { threads.next_multiple_of(WARP) }
}

/// The largest power of two that is no larger, of numbers from 1 on, up to [`MOST_COLUMNS`].
pub(super) fn power_of_two_up_to(number: i64) -> u32 {
    1 << number.clamp(1, i64::from(MOST_COLUMNS)).ilog2()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extents(rows: i64, vectors: i64) -> RowExtents {
        RowExtents { rows, vectors, vector: 8, tensors: 1, multiprocessors: 132, most_blocks: 1 }
    }

    fn threads(columns: u32, rows: u32) -> RowThreads {
        RowThreads { blocks: 1, columns, rows }
    }

    #[test]
    fn parts_of_warps_have_short_rows() {
        assert_eq!(extents(131_072, 16).passing(256), threads(4, 64));
        assert_eq!(extents(131_072, 1).passing(256), threads(1, 256));
        assert_eq!(extents(65_536, 128).passing(256), threads(32, 8));
        assert_eq!(extents(131_072, 16).staying(2, 1), Some(threads(8, 32)));
    }

    #[test]
    fn blocks_have_one_long_row() {
        assert_eq!(extents(16_384, 512).passing(256), threads(128, 2));
        assert_eq!(extents(8_192, 8_192).passing(256), threads(1024, 1));
        assert_eq!(extents(16_384, 512).staying(2, 1), Some(threads(256, 1)));
        assert_eq!(extents(16_384, 2_048).staying(2, 1), Some(threads(1024, 1)));
        assert_eq!(extents(64, 2_048).staying(2, 1), None, "few rows");
        assert_eq!(extents(16_384, 2_049).staying(1, 1), None, "more sums than registers");
        assert_eq!(extents(16_384, 64).staying(5, 1), None, "more sums than registers");
    }

    #[test]
    fn several_blocks_share_few_long_rows() {
        let extents = |rows, vectors| RowExtents { most_blocks: 8, ..extents(rows, vectors) };
        let shared = |blocks, columns| RowThreads { blocks, columns, rows: 1 };
        assert_eq!(extents(4, 8_192).passing(256), shared(8, 512));
        assert_eq!(extents(16, 4_096).passing(256), shared(4, 512));
        assert_eq!(extents(64, 4_096).passing(256), shared(2, 512), "rows leave multiprocessors for two");
        assert_eq!(extents(67, 4_096).passing(256).blocks, 1, "rows leave multiprocessors for one");
        assert_eq!(extents(4, 4_095).passing(256).blocks, 1, "short");
        assert_eq!(extents(2, 32_768).passing(256).blocks, 8);
        let of_two = |vectors| RowExtents { tensors: 2, ..extents(2, vectors) };
        assert_eq!([16_384, 16_385].map(|vectors| of_two(vectors).passing(256).blocks), [8, 1]);
        assert_eq!(extents(4, 8_192).staying(2, 1), Some(shared(8, 512)), "registers of eight blocks hold the sums");
        assert_eq!(extents(4, 8_193).staying(2, 1), None, "more sums than registers");
        assert_eq!(extents(17, 4_096).staying(2, 1), None, "many partial results");
    }

    #[test]
    fn threads_that_stay_are_whole_warps() {
        assert_eq!(extents(16_384, 320).staying(1, 1), Some(threads(160, 1)));
        assert_eq!(
            extents(16_384, 192).staying(2, 1),
            Some(threads(96, 1)),
            "five blocks of 96 threads, not two of 192"
        );
        assert_eq!(extents(16_384, 40).staying(2, 1), Some(threads(32, 8)), "a power of two within a warp");
        assert_eq!(extents(100, 640).staying(1, 1), Some(threads(640, 1)), "few rows");
    }

    #[test]
    fn two_blocks_share_many_rows_that_one_has_no_room_for() {
        let of_floats = |rows, vectors| RowExtents { vector: 4, most_blocks: 8, ..extents(rows, vectors) };
        let shared = RowThreads { blocks: 2, columns: 512, rows: 1 };
        assert_eq!(of_floats(4_096, 4_096).staying(2, 2), Some(shared));
        assert_eq!(of_floats(4_096, 4_097).staying(2, 2), None, "more sums than registers");
        assert_eq!(of_floats(64, 4_096).staying(2, 2), None, "few rows");
        assert_eq!(RowExtents { most_blocks: 1, ..of_floats(4_096, 4_096) }.staying(2, 2), None, "no clusters");
    }

    #[test]
    fn few_rows_have_more_threads() {
        assert_eq!(extents(64, 512).passing(256), threads(512, 1));
        assert_eq!(extents(8_192, 16).passing(256), threads(16, 16));
        assert_eq!(extents(8, 1_024).staying(2, 1), Some(threads(1024, 1)));
        assert_eq!(extents(3, 2).passing(256), threads(16, 2), "a warp of them, though most have nothing");
        assert_eq!(extents(5, 16).staying(2, 1), Some(threads(32, 1)), "rows divide the five");
    }
}
