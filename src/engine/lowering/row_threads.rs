//! How many threads a row of [`RowsKernel`](crate::kernel::RowsKernel) has, and a block rows.

/// Threads of a warp, among whom totals go by shuffles.
const WARP: u32 = 32;

/// Most threads that share a row.
const MOST_COLUMNS: u32 = 1024;

/// Least vectors of a row that a thread has, where a row has many: it keeps them in registers from phase to phase. Six
/// were faster than three (`docs/performance-notes.md`, "Norms of rows").
const VECTORS_OF_A_THREAD: i64 = 4;

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
    pub(super) multiprocessors: u32,
}

/// Threads along a row, and rows of a block: powers of two, of whole warps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RowThreads {
    pub(super) columns: u32,
    pub(super) rows: u32,
}

impl RowExtents {
    /// Threads that have rows for a while, in blocks of so many.
    pub(super) fn passing(self, threads: u32) -> RowThreads {
        let columns = self.shared_further(power_of_two_up_to(self.vectors / VECTORS_OF_A_THREAD), MOST_COLUMNS);
        RowThreads::of_warps(columns, (threads / columns).min(power_of_two_up_to(self.rows)))
    }

    /// Threads that stay, each with `sums` sums for each of its elements; a block has as many rows as divide all of them. `None` where
    /// registers do not hold the sums.
    pub(super) fn staying(self, sums: i64) -> Option<RowThreads> {
        let each = (ELEMENTS_WITH_SUMS / self.vector).min(MOST_SUMS / (sums * self.vector));
        if each == 0 {
            return None;
        }
        let columns = u32::try_from((self.vectors + each - 1) / each).ok()?.next_power_of_two();
        let are_many = self.rows >= i64::from(self.multiprocessors) * MANY_ROWS;
        if columns > if are_many { MOST_COLUMNS } else { COLUMNS_OF_TWO_BLOCKS } {
            return None;
        }
        let columns = self.shared_further(columns, MOST_COLUMNS);
        let dividing = u32::try_from(self.rows & self.rows.wrapping_neg()).unwrap_or(MOST_COLUMNS);
        Some(RowThreads::of_warps(columns, (THREADS_WITH_SUMS / columns).min(dividing)))
    }

    /// Twice the threads along a row, again and again, as long as they all are few and have more than one vector.
    fn shared_further(self, columns: u32, most: u32) -> u32 {
        let is_few = |columns: u32| self.rows * i64::from(columns) < i64::from(self.multiprocessors) * FEW_THREADS;
        let mut columns = columns.min(most);
        while columns < most && i64::from(columns) < self.vectors && is_few(columns) {
            columns *= 2;
        }
        columns
    }
}

impl RowThreads {
    /// Where that is less than a warp, some threads along a row have nothing.
    fn of_warps(columns: u32, rows: u32) -> Self {
        let rows = rows.max(1);
        Self { columns: columns.max(WARP / rows), rows }
    }
}

/// The largest power of two that is no larger, of numbers from 1 on, up to [`MOST_COLUMNS`].
fn power_of_two_up_to(number: i64) -> u32 {
    1 << number.clamp(1, i64::from(MOST_COLUMNS)).ilog2()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extents(rows: i64, vectors: i64) -> RowExtents {
        RowExtents { rows, vectors, vector: 8, multiprocessors: 132 }
    }

    fn threads(columns: u32, rows: u32) -> RowThreads {
        RowThreads { columns, rows }
    }

    #[test]
    fn parts_of_warps_have_short_rows() {
        assert_eq!(extents(131_072, 16).passing(256), threads(4, 64));
        assert_eq!(extents(131_072, 1).passing(256), threads(1, 256));
        assert_eq!(extents(65_536, 128).passing(256), threads(32, 8));
        assert_eq!(extents(131_072, 16).staying(2), Some(threads(8, 32)));
    }

    #[test]
    fn blocks_have_one_long_row() {
        assert_eq!(extents(16_384, 512).passing(256), threads(128, 2));
        assert_eq!(extents(8_192, 8_192).passing(256), threads(1024, 1));
        assert_eq!(extents(16_384, 512).staying(2), Some(threads(256, 1)));
        assert_eq!(extents(16_384, 2_048).staying(2), Some(threads(1024, 1)));
        assert_eq!(extents(64, 2_048).staying(2), None, "few rows");
        assert_eq!(extents(16_384, 2_049).staying(1), None, "more sums than registers");
        assert_eq!(extents(16_384, 64).staying(5), None, "more sums than registers");
    }

    #[test]
    fn few_rows_have_more_threads() {
        assert_eq!(extents(64, 512).passing(256), threads(512, 1));
        assert_eq!(extents(8_192, 16).passing(256), threads(16, 16));
        assert_eq!(extents(8, 1_024).staying(2), Some(threads(1024, 1)));
        assert_eq!(extents(3, 2).passing(256), threads(16, 2), "a warp of them, though most have nothing");
        assert_eq!(extents(5, 16).staying(2), Some(threads(32, 1)), "rows divide the five");
    }
}
