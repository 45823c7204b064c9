//! Integers of generated code as values: what they count, how they are computed, spelled last.
//!
//! An [`Index`] is folded as it is built (`x · 1`, `x / 1`, `x % 1`, `x + 0`, quotients of multiples), and knows the variables it
//! depends on. So code generation decides what to declare before anything is text.

use std::collections::BTreeSet;
use std::ops::{Add, Div, Mul, Rem};

use super::Number;

/// One of the four indices of a matrix product.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// Which matrix: b.
    Batch,
    /// Row of C: m.
    Row,
    /// Column of C: n.
    Column,
    /// Summed over: k.
    Sum,
}

impl Role {
    /// The indices in the order b, m, n, k.
    pub const ALL: [Self; 4] = [Self::Batch, Self::Row, Self::Column, Self::Sum];

    /// The index of operand A (slot 0) or B (slot 1) that is neither the batch nor summed over.
    pub fn outer(slot: usize) -> Self {
        if slot == 0 { Self::Row } else { Self::Column }
    }
}

/// What a digit of an index, or a coordinate of an operand, counts. Spatial axes are numbered from 0 to 2, outermost first, so
/// that the last is 2 whatever their number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Quantity {
    /// A whole index: the digit of a matmul.
    Index(Role),
    /// Images of a batch.
    Image,
    /// Groups of a convolution.
    Group,
    /// Channels of all groups.
    Channel,
    /// Input channels of one group.
    InputChannel,
    /// Output channels of one group.
    OutputChannel,
    /// Blocks of the channels that k counts, each under all taps of the filter.
    ChannelBlock,
    /// Pixels of X along an axis.
    InputPixel(u8),
    /// Pixels of Y along an axis.
    OutputPixel(u8),
    /// Taps of the filter along an axis.
    Tap(u8),
    /// Taps of the filter along an axis, from its other end.
    RotatedTap(u8),
    /// Where a pixel of X along an axis lies in its block, of a data gradient that is cut into as many products as the stride.
    Phase(u8),
    /// Blocks of pixels of X along an axis, of as many as the stride.
    PixelBlock(u8),
    /// The first tap that reaches the pixels of a phase along an axis; the others follow a stride apart.
    FirstTap(u8),
    /// How many pixels of Y later than the first phase's these are.
    PhaseShift(u8),
    /// Taps along an axis that reach the pixels of a phase.
    TapCount(u8),
}

/// An integer variable of generated code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Variable {
    /// A digit or a coordinate of a matrix product.
    Of(Quantity),
    /// The coordinate of an axis of an iteration space.
    Axis(usize),
    /// A variable that a skeleton declares.
    Local(&'static str),
}

impl From<Quantity> for Variable {
    fn from(quantity: Quantity) -> Self {
        Self::Of(quantity)
    }
}

/// An integer computed from variables that are not negative, without overflow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Index {
    /// A number.
    Constant(Number),
    /// A variable.
    Variable(Variable),
    /// Terms added up: at least two, none of them a sum or zero.
    Sum(Vec<Index>),
    /// Times a number other than 0 and 1.
    Product(Box<Index>, Number),
    /// Divided by a number above 1, rounded down.
    Quotient(Box<Index>, Number),
    /// What a division by a number above 1 leaves.
    Remainder(Box<Index>, Number),
}

impl Index {
    /// Zero.
    pub const ZERO: Self = Self::Constant(Number::known(0));

    /// A variable.
    pub fn variable(variable: impl Into<Variable>) -> Self {
        Self::Variable(variable.into())
    }

    /// A variable that a skeleton declares.
    pub fn local(name: &'static str) -> Self {
        Self::Variable(Variable::Local(name))
    }

    /// The sum of some terms.
    pub fn sum(terms: impl IntoIterator<Item = Self>) -> Self {
        terms.into_iter().fold(Self::ZERO, Self::add)
    }

    /// Its number, if it is one that the text knows.
    pub fn constant(&self) -> Option<i64> {
        match self {
            Self::Constant(value) => value.as_known(),
            _ => None,
        }
    }

    /// The variables it depends on.
    pub fn variables(&self) -> BTreeSet<Variable> {
        let mut found = BTreeSet::new();
        self.collect(&mut found);
        found
    }

    fn collect(&self, found: &mut BTreeSet<Variable>) {
        match self {
            Self::Constant(_) => {}
            Self::Variable(variable) => {
                found.insert(*variable);
            }
            Self::Sum(terms) => terms.iter().for_each(|term| term.collect(found)),
            Self::Product(inner, _) | Self::Quotient(inner, _) | Self::Remainder(inner, _) => inner.collect(found),
        }
    }

    fn terms(self) -> Vec<Self> {
        match self {
            Self::Constant(value) if value == 0 => Vec::new(),
            Self::Sum(terms) => terms,
            other => vec![other],
        }
    }

    /// Whether a number divides it whatever its variables are, and whatever launches tell.
    fn is_multiple_of(&self, divisor: Number) -> bool {
        match self {
            Self::Constant(value) => is_multiple(*value, divisor),
            Self::Product(inner, factor) => is_multiple(*factor, divisor) || inner.is_multiple_of(divisor),
            Self::Sum(terms) => terms.iter().all(|term| term.is_multiple_of(divisor)),
            Self::Variable(_) | Self::Quotient(..) | Self::Remainder(..) => divisor == Number::ONE,
        }
    }
}

/// Whether a number is a multiple of another in all texts.
fn is_multiple(number: Number, divisor: Number) -> bool {
    let known = number.as_known().zip(divisor.as_known());
    number == divisor || divisor == Number::ONE || known.is_some_and(|(number, divisor)| number % divisor == 0)
}

impl<N: Into<Number>> From<N> for Index {
    fn from(value: N) -> Self {
        Self::Constant(value.into())
    }
}

impl Add for Index {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        if let (Self::Constant(a), Self::Constant(b)) = (&self, &other) {
            return Self::Constant(*a + *b);
        }
        let mut terms = self.terms();
        terms.extend(other.terms());
        match terms.len() {
            0 => Self::ZERO,
            1 => terms.swap_remove(0),
            _ => Self::Sum(terms),
        }
    }
}

impl<N: Into<Number>> Mul<N> for Index {
    type Output = Self;

    fn mul(self, factor: N) -> Self {
        let factor = factor.into();
        match self {
            _ if factor == Number::known(0) => Self::ZERO,
            index if factor == Number::ONE => index,
            Self::Constant(value) => Self::Constant(value * factor),
            Self::Product(inner, other) => *inner * (other * factor),
            index => Self::Product(Box::new(index), factor),
        }
    }
}

impl<N: Into<Number>> Div<N> for Index {
    type Output = Self;

    /// # Panics
    /// If the divisor is zero or negative: a defect of ours.
    fn div(self, divisor: N) -> Self {
        let divisor = divisor.into();
        assert!(divisor.value() > 0, "divisors are positive");
        match self {
            index if divisor == Number::ONE => index,
            Self::Constant(value) => Self::Constant(value.quotient(divisor)),
            Self::Quotient(inner, other) => *inner / (other * divisor),
            Self::Product(inner, factor) if is_multiple(factor, divisor) => *inner * factor.quotient(divisor),
            Self::Product(inner, factor) if factor.value() > 0 && is_multiple(divisor, factor) => {
                *inner / divisor.quotient(factor)
            }
            Self::Sum(terms) if terms.iter().all(|term| term.is_multiple_of(divisor)) => {
                Self::sum(terms.into_iter().map(|term| term / divisor))
            }
            index => Self::Quotient(Box::new(index), divisor),
        }
    }
}

impl<N: Into<Number>> Rem<N> for Index {
    type Output = Self;

    /// # Panics
    /// If the divisor is zero or negative: a defect of ours.
    fn rem(self, divisor: N) -> Self {
        let divisor = divisor.into();
        assert!(divisor.value() > 0, "divisors are positive");
        match self {
            Self::Constant(value) if !value.is_told() && !divisor.is_told() => {
                Self::from(value.value().rem_euclid(divisor.value()))
            }
            index if index.is_multiple_of(divisor) => Self::ZERO,
            index => Self::Remainder(Box::new(index), divisor),
        }
    }
}

/// A variable and its value, of which a skeleton makes a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Definition {
    /// The variable.
    pub variable: Variable,
    /// Its value.
    pub value: Index,
}

impl Definition {
    /// A variable with its value.
    pub fn new(variable: impl Into<Variable>, value: Index) -> Self {
        Self { variable: variable.into(), value }
    }

    /// Whether it says nothing: a variable's value is itself.
    fn is_trivial(&self) -> bool {
        self.value == Index::Variable(self.variable)
    }
}

/// Definitions, in order, that some variables need, themselves or through others; the variables needed of before the first are
/// added to `needed`.
pub fn needed(definitions: Vec<Definition>, needed: &mut BTreeSet<Variable>) -> Vec<Definition> {
    let mut kept = Vec::new();
    for definition in definitions.into_iter().rev() {
        if !definition.is_trivial() && needed.contains(&definition.variable) {
            needed.extend(definition.value.variables());
            kept.push(definition);
        }
    }
    kept.reverse();
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    const X: Variable = Variable::Local("x");

    fn x() -> Index {
        Index::Variable(X)
    }

    #[test]
    fn what_changes_nothing_is_left_out() {
        assert_eq!(x() * 1, x());
        assert_eq!(x() / 1, x());
        let [zero, one] = [0, 1];
        assert_eq!(x() % one, Index::ZERO);
        assert_eq!(x() + Index::ZERO, x());
        assert_eq!(x() * zero, Index::ZERO);
        assert_eq!(Index::sum([]), Index::ZERO);
        assert_eq!(Index::sum([x(), Index::ZERO, x() * 2]), Index::Sum(vec![x(), x() * 2]));
    }

    #[test]
    fn multiples_are_divided_without_a_division() {
        assert_eq!(x() * 64 / 16, x() * 4);
        assert_eq!(x() * 16 / 64, x() / 4);
        assert_eq!(x() * 64 % 16, Index::ZERO);
        assert_eq!((x() * 64 + Index::from(32)) / 16, Index::Sum(vec![x() * 4, Index::from(2)]));
        assert_eq!(x() / 3 / 5, x() / 15);
        assert_eq!(x() * 3 * 5, x() * 15);
        assert_ne!(x() * 3 / 2, x());
    }

    /// Every expression up to a size has the value of the arithmetic that it was built by.
    #[test]
    fn folding_keeps_values() {
        fn value(index: &Index, x: i64) -> i64 {
            match index {
                Index::Constant(value) => value.value(),
                Index::Variable(_) => x,
                Index::Sum(terms) => terms.iter().map(|term| value(term, x)).sum(),
                Index::Product(inner, factor) => value(inner, x) * factor.value(),
                Index::Quotient(inner, divisor) => value(inner, x) / divisor.value(),
                Index::Remainder(inner, divisor) => value(inner, x) % divisor.value(),
            }
        }
        const NUMBERS: [i64; 5] = [1, 2, 3, 4, 12];
        for at in [0, 1, 5, 24, 35] {
            let mut known = vec![(x(), at), (Index::from(6), 6)];
            for _ in 0..3 {
                let all = known.clone();
                for (index, expected) in all.iter().take(40) {
                    for number in NUMBERS {
                        known.push((index.clone() * number, expected * number));
                        known.push((index.clone() / number, expected / number));
                        known.push((index.clone() % number, expected % number));
                        known.push((index.clone() + all[0].0.clone() * number, expected + at * number));
                    }
                }
            }
            for (index, expected) in known {
                assert_eq!(value(&index, at), expected, "{index:?} at {at}");
            }
        }
    }

    #[test]
    fn definitions_are_kept_if_something_needs_them() {
        let [a, b, c] = ["a", "b", "c"].map(Variable::Local);
        let all = vec![
            Definition::new(a, x() / 4),
            Definition::new(b, Index::Variable(a) % 2),
            Definition::new(c, x()),
            Definition::new(X, x()),
        ];
        let mut uses = BTreeSet::from([b, X]);
        assert_eq!(needed(all.clone(), &mut uses), all[..2]);
        assert_eq!(uses, BTreeSet::from([a, b, X]));
    }
}
