//! Taps of a filter's row that one step of the mainloop multiplies.

/// Taps of a row of a filter that a step of the mainloop multiplies together. The rows of A are pixels of an image's row that follow
/// each other with the padding between two rows, so that each tap multiplies the same tile of A, from another of its rows on. The tile
/// of B has one after the other what the filter has under each tap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TapRow {
    /// Number of taps.
    pub taps: u32,
    /// Pixels from a tap to the next.
    pub dilation: u32,
    /// Whether the first tap in memory meets the last of the pixels.
    pub is_reversed: bool,
}

impl TapRow {
    /// Rows of a tile of A beyond those of C.
    pub fn rows_beyond(&self) -> u32 {
        (self.taps - 1) * self.dilation
    }

    /// Row of a tile of A from which a tap, by its place in memory, multiplies.
    pub fn first_row(&self, tap: u32) -> u32 {
        let number = if self.is_reversed { self.taps - 1 - tap } else { tap };
        number * self.dilation
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn taps_multiply_from_one_row_after_the_other_on() {
        let row = TapRow { taps: 3, dilation: 2, is_reversed: false };
        let reversed = TapRow { is_reversed: true, ..row };
        let rows = |row: TapRow| (0..3).map(|tap| row.first_row(tap)).collect::<Vec<_>>();
        assert_eq!((row.rows_beyond(), rows(row), rows(reversed)), (4, vec![0, 2, 4], vec![4, 2, 0]));
    }
}
