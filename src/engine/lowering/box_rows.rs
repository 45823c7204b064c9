//! Rows of the boxes that a step asks for, and in how many pieces each arrives.

use super::boxed_operand::UNIT;
use crate::kernel::{StepTail, TensorMap};

/// Bytes of a sector of L2.
const SECTOR: i64 = 32;

/// Rows of an operand's boxes of a step.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(in crate::engine) struct BoxRows {
    pub(in crate::engine) rows: u32,
    /// Bytes of a row in shared memory.
    pub(in crate::engine) bytes: u32,
    /// Pieces in which a row arrives, of the average row.
    pub(in crate::engine) pieces: f64,
}

/// A row of boxes along k: of whole steps, and of the last along k, or under a tap, of which boxes bring so many elements.
pub(super) fn pieces_along_k(map: &TensorMap, tail: Option<(StepTail, u32)>) -> f64 {
    let span = i64::from(map.span());
    let Some((tail, boxed)) = tail else { return 1.0 };
    let whole = tail.steps - 1;
    let last = pieces_of_row(map, i64::from(boxed), map.dims[0] as i64 - whole * span);
    (whole as f64 + last) / tail.steps as f64
}

/// A row of boxes along m or n: of all columns of boxes, of which the last may end outside the tensor.
pub(super) fn pieces_along_outer(map: &TensorMap) -> f64 {
    let (span, all, in_box) = (i64::from(map.span()), map.dims[0] as i64, i64::from(map.box_dims[0]));
    let whole = (all - 1) / span;
    let last = pieces_of_row(map, in_box, all - whole * span);
    (whole as f64 + last) / (whole + 1) as f64
}

/// A row of a box of so many elements, of which the tensor has so many more: what lies inside, then what does not.
fn pieces_of_row(map: &TensorMap, in_box: i64, inside: i64) -> f64 {
    let bytes = i64::from(map.element.bytes());
    let (row, inside) = (in_box * bytes, (inside.min(in_box) * bytes + UNIT - 1) / UNIT * UNIT);
    pieces(inside) + pieces(row - inside)
}

/// Pieces of so many bytes: each is a power of two; a sector behind a larger one takes half as long (measured on an H100, clocks of a row of 16, 32,
/// … 128 bytes: 1.0, 1.0, 2.0, 1.0, 2.25, 1.5, 2.5, 1.2; of 16 … 112 inside a box of 128: 3, 2, 4, 2, 4.2, 2.5, 3.5).
fn pieces(bytes: i64) -> f64 {
    let half = f64::from(u8::from(bytes > 2 * SECTOR && bytes & SECTOR != 0)) / 2.0;
    f64::from(bytes.count_ones()) - half
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_powers_of_two_of_which_small_ones_behind_large_ones_are_cheap() {
        let all = [16, 32, 48, 64, 80, 96, 112, 128].map(pieces);
        assert_eq!(all, [1.0, 1.0, 2.0, 1.0, 2.0, 1.5, 2.5, 1.0]);
        assert_eq!(pieces(0), 0.0);
    }
}
