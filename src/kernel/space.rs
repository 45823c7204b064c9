//! The index space of a core as a matrix product: matmuls as they stand, convolutions as implicit products.
//!
//! `C[b, m, n] = Σ_k A[b, m, k] · B[b, k, n]`. Each of the four indices is a number of one or more digits, outermost
//! first; a tensor's coordinates are affine functions of the digits. So a pixel of a forward convolution is
//! `m = (image · P + p) · Q + q`, and the row of X that its filter tap `r` reads is `h = p · stride + r · dilation − pad`.

use super::{Definition, Index, Number, Quantity, Role};

/// One digit of an index in mixed radix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Digit {
    /// What it counts.
    pub quantity: Quantity,
    /// Number of values.
    pub extent: Number,
    /// Number of values that the index gives it: where there are more than `extent`, the others lie outside, and operands are
    /// zero there.
    pub radix: Number,
}

impl Digit {
    /// A digit all of whose values are inside.
    pub fn new(quantity: Quantity, extent: impl Into<Number>) -> Self {
        let extent = extent.into();
        Self { quantity, extent, radix: extent }
    }

    /// The digit in blocks of so many values, the last of which may reach outside. If k ends with it and a step of the mainloop is
    /// one block, all elements of a step share the digits before it: the taps of a convolution's filter.
    pub fn in_blocks_of(self, values: i64) -> Self {
        Self { radix: self.extent.parts(values) * values, ..self }
    }

    /// Whether some values that the index gives it lie outside.
    pub fn is_padded(&self) -> bool {
        self.radix.value() > self.extent.value()
    }
}

/// The digits of an index at a value of it, outermost first.
pub fn digits_at(index: &Index, digits: &[Digit]) -> Vec<Definition> {
    let mut below = Number::ONE;
    let mut definitions = Vec::new();
    for (position, digit) in digits.iter().enumerate().rev() {
        let quotient = index.clone() / below;
        let value = if position == 0 { quotient } else { quotient % digit.radix };
        definitions.push(Definition::new(digit.quantity, value));
        below = below * digit.radix;
    }
    definitions.reverse();
    definitions
}

/// Indices of a matrix product, each as digits, outermost first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GemmSpace {
    /// Matrix: the batch of a matmul, the group of a convolution.
    pub b: Vec<Digit>,
    /// Row of C.
    pub m: Vec<Digit>,
    /// Column of C.
    pub n: Vec<Digit>,
    /// Summation index.
    pub k: Vec<Digit>,
    /// Quantities that follow from the digits of an index.
    pub derived: Vec<Derived>,
    /// Digits of k of which a matrix has only so many values as a derived quantity says, and does no more steps. Operands come in
    /// boxes alone.
    pub counted: Vec<Counted>,
}

/// A digit of k whose number of values depends on the matrix.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Counted {
    /// The digit.
    pub digit: Quantity,
    /// The derived quantity that says how many values it has.
    pub count: Quantity,
    /// Mean of these over all matrices, of the digit's extent.
    pub used: f64,
    /// The least of these.
    pub least: i64,
}

/// A quantity that follows from digits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Derived {
    /// The index whose digits these are.
    pub role: Role,
    /// The quantity.
    pub quantity: Quantity,
    /// Its value.
    pub value: Index,
    /// Number of its values, from 0 on.
    pub extent: i64,
}

impl GemmSpace {
    /// The digits of an index at a value of it, and what follows from them.
    pub fn definitions_at(&self, role: Role, index: &Index) -> Vec<Definition> {
        let mut definitions = digits_at(index, self.digits(role));
        let derived = self.derived.iter().filter(|derived| derived.role == role);
        definitions.extend(derived.map(|derived| Definition::new(derived.quantity, derived.value.clone())));
        definitions
    }

    /// Number of values of a digit, or of what follows from digits, that are inside; 1 for what is neither.
    pub fn extent_of(&self, quantity: Quantity) -> Number {
        let digits = Role::ALL.into_iter().flat_map(|role| self.digits(role));
        let mut extents = digits.map(|digit| (digit.quantity, digit.extent));
        let of_derived = || self.derived.iter().map(|derived| (derived.quantity, Number::known(derived.extent)));
        extents
            .find(|known| known.0 == quantity)
            .or_else(|| of_derived().find(|known| known.0 == quantity))
            .map_or(Number::ONE, |known| known.1)
    }
}

impl GemmSpace {
    /// The digits of an index.
    pub fn digits(&self, role: Role) -> &[Digit] {
        match role {
            Role::Batch => &self.b,
            Role::Row => &self.m,
            Role::Column => &self.n,
            Role::Sum => &self.k,
        }
    }

    /// Number of values of each index b, m, n and k, those outside included.
    pub fn numbers(&self) -> [Number; 4] {
        Role::ALL.map(|role| self.digits(role).iter().map(|digit| digit.radix).product())
    }

    /// The same for the shape at hand.
    pub fn extents(&self) -> [i64; 4] {
        self.numbers().map(Number::value)
    }

    /// Elements of C.
    pub fn elements(&self) -> Number {
        let [b, m, n, _] = self.numbers();
        b * m * n
    }
}

/// A coordinate as a function of digits: `(constant + Σ scale · digit) / divisor`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Coordinate {
    /// What it counts.
    pub quantity: Quantity,
    /// Digits with their scales.
    pub terms: Vec<(Quantity, i64)>,
    /// The constant.
    pub constant: i64,
    /// The divisor; a dividend that it does not divide lies between the elements, where the value is zero.
    pub divisor: i64,
    /// Extent outside of which lies zero padding; `None` where the coordinate is inside by construction.
    pub bound: Option<Number>,
}

impl Coordinate {
    /// A sum of digits with scales.
    pub fn affine(quantity: Quantity, terms: impl Into<Vec<(Quantity, i64)>>) -> Self {
        Self { quantity, terms: terms.into(), constant: 0, divisor: 1, bound: None }
    }

    /// A digit itself.
    pub fn digit(quantity: Quantity) -> Self {
        Self::affine(quantity, [(quantity, 1)])
    }

    /// Whether it is a digit itself.
    pub fn is_digit(&self) -> bool {
        *self == Self::digit(self.quantity)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where k begins in a step of so many elements, as taps and channel.
    fn digits_of_step(channels: Digit, step_k: i64) -> Vec<Index> {
        let taps = [Quantity::Tap(1), Quantity::Tap(2)].map(|tap| Digit::new(tap, 3));
        let k = [&taps[..], &[channels]].concat();
        let first = Index::local("step") * step_k;
        digits_at(&first, &k).into_iter().map(|definition| definition.value).collect()
    }

    #[test]
    fn a_step_of_whole_blocks_of_channels_has_one_tap() {
        let step = || Index::local("step");
        let channels = Digit::new(Quantity::InputChannel, 128);
        assert_eq!(digits_of_step(channels, 64), [step() / 6, step() / 2 % 3, step() * 64 % 128]);
        let one_block = Digit::new(Quantity::InputChannel, 64);
        assert_eq!(digits_of_step(one_block, 64), [step() / 3, step() % 3, Index::ZERO]);
    }

    #[test]
    fn channels_that_are_no_whole_blocks_are_padded_to_them() {
        let channels = Digit::new(Quantity::InputChannel, 40).in_blocks_of(64);
        assert!(channels.is_padded() && !Digit::new(Quantity::InputChannel, 128).in_blocks_of(64).is_padded());
        assert_eq!(digits_of_step(channels, 64), [Index::local("step") / 3, Index::local("step") % 3, Index::ZERO]);
        let space = GemmSpace { k: vec![Digit::new(Quantity::Tap(2), 3), channels], ..GemmSpace::default() };
        assert_eq!(space.extents(), [1, 1, 1, 3 * 64]);
    }
}
