//! Sums of a product over what lies inside its operands alone.

use crate::kernel::{Derived, Digit, Operand};

/// Where zeros lie outside an operand, as in the padding of a convolution, and the other operand may not be finite: zero times an infinity
/// is NaN, where by definition there is no product. Sums that are NaN are summed up once more, over elements inside.
#[derive(Clone, Debug)]
pub struct Inside {
    /// Which sums are looked at.
    pub telling: Telling,
    /// Where operands are matrices that others were unfolded to, or taken under several taps together: these, which tell what lies inside.
    pub before: Option<Box<OperandsBefore>>,
}

/// Which sums tell whether a zero outside an operand has met what is not finite: an element of A that is not finite makes all sums of its
/// row not finite, one of B those of its column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Telling {
    /// Those of one row: only A has zeros outside.
    Row,
    /// Those of one column: only B has.
    Column,
    /// All: both have.
    All,
}

/// Operands before they were unfolded to matrices, or taken under several taps together, element by element, and the digits of k.
#[derive(Clone, Debug)]
pub struct OperandsBefore {
    /// The left one.
    pub a: Operand,
    /// The right one.
    pub b: Operand,
    /// Digits of k.
    pub k: Vec<Digit>,
    /// What follows from these.
    pub derived: Vec<Derived>,
}
