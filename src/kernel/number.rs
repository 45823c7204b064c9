//! Integers of generated code: known to its text, or told by its launch.
//!
//! A graph whose shapes are dynamic has extents and strides that its text does not know: they are parameters of its kernels, and shapes whose texts
//! are equal share a binary. A [`Number`] of this kind has a value, that of the shape at hand, and a *form*: how it follows from extents and strides.
//! Numbers of one form are one parameter, whatever the order in which they were computed. So a form is a polynomial, by its value at a point of the
//! integers modulo 2¹²⁸ that a hash draws: sums and products of forms are sums and products there, and polynomials that differ have the same value
//! with a probability of about 2⁻¹²⁰ (Schwartz, Zippel). Quotients, remainders and the like are hashes of their operands' forms.
//!
//! Whatever lowering decides by the *value* of such a number shows in the text. So nothing states what a class of shapes is: none can share a binary
//! wrongly, and a number that became a literal by oversight costs a compilation, never a result.

use std::cmp::Ordering;
use std::fmt;
use std::iter::Product;
use std::ops::{Add, Mul, Rem, Sub};

use serde::{Serialize, Serializer};

/// An integer of generated code.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Number {
    value: i64,
    /// How it follows from what launches tell; the value itself of a known number.
    form: u128,
}

/// What a launch may tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Told {
    /// The extent of an axis of what a function computes.
    Extent(usize),
    /// The extent of an index of a matrix product, by its place among b, m, n and k.
    Index(usize),
    /// The extent of an axis of what a filter gradient sums over.
    Summed(usize),
    /// The extent of an axis of an operand's pixels, outside of which its elements are zeros.
    Bound(usize),
    /// Elements from one coordinate of an axis of a tensor to the next: the tensor's place in its graph, and the axis.
    Stride(usize, usize),
    /// A count of a kernel, by its name.
    Count(&'static str),
}

impl Number {
    /// What the place of a number begins with that launches tell.
    pub const PLACE: &'static str = "fw_told_";

    /// One.
    pub const ONE: Self = Self { value: 1, form: 1 };

    /// A number that the text knows.
    pub const fn known(value: i64) -> Self {
        Self { value, form: value as i128 as u128 }
    }

    /// A number that launches tell. 0 and 1 are known: they say what there is to compute.
    pub fn told(value: i64, what: Told) -> Self {
        match value {
            0 | 1 => Self::known(value),
            // odd, so that no product of forms vanishes
            _ => Self { value, form: hash(&format!("{what:?}"), &[]) | 1 },
        }
    }

    /// A number that launches tell, 0 and 1 as any other: where it decides nothing.
    pub fn parameter(value: i64, what: Told) -> Self {
        Self { value, form: hash(&format!("{what:?}"), &[]) | 1 }
    }

    /// A count of a kernel, which launches tell where shapes are dynamic.
    pub fn count(is_dynamic: bool, name: &'static str, value: i64) -> Self {
        if is_dynamic { Self::parameter(value, Told::Count(name)) } else { value.into() }
    }

    /// Its value for the shape at hand.
    pub const fn value(self) -> i64 {
        self.value
    }

    /// Its value, where the text knows it.
    pub fn as_known(self) -> Option<i64> {
        (self.form == Self::known(self.value).form).then_some(self.value)
    }

    /// Whether launches tell it.
    pub fn is_told(self) -> bool {
        self.as_known().is_none()
    }

    /// How often a number above 0 goes into it.
    #[must_use]
    pub fn quotient(self, divisor: impl Into<Self>) -> Self {
        let divisor = divisor.into();
        match () {
            () if divisor == Self::ONE => self,
            () if divisor == self => Self::ONE,
            () => self.with("/", divisor, self.value.div_euclid(divisor.value)),
        }
    }

    /// The lesser of two numbers for the shape at hand.
    #[must_use]
    pub fn min(self, other: impl Into<Self>) -> Self {
        let other = other.into();
        if other.value < self.value { other } else { self }
    }

    /// The least number of parts, of so many each, that it has.
    #[must_use]
    pub fn parts(self, each: impl Into<Self>) -> Self {
        let each = each.into();
        match () {
            () if each == Self::ONE => self,
            () if each == self => Self::ONE,
            () => self.with("parts", each, (self.value + each.value - 1) / each.value),
        }
    }

    /// The result of an operation that is no polynomial.
    fn with(self, operation: &str, other: Self, value: i64) -> Self {
        match self.is_told() || other.is_told() {
            // as of what is told: 0 and 1 are known
            true if value > 1 => Self { value, form: hash(operation, &[self.form, other.form]) | 1 },
            _ => Self::known(value),
        }
    }
}

/// 128 bits of a name and numbers.
fn hash(name: &str, forms: &[u128]) -> u128 {
    let mut hasher = blake3::Hasher::new();
    hasher.update(name.as_bytes());
    forms.iter().for_each(|form| {
        hasher.update(&form.to_le_bytes());
    });
    let hash = hasher.finalize();
    u128::from_le_bytes(std::array::from_fn(|place| hash.as_bytes()[place]))
}

impl From<i64> for Number {
    fn from(value: i64) -> Self {
        Self::known(value)
    }
}

impl<N: Into<Self>> Add<N> for Number {
    type Output = Self;

    fn add(self, other: N) -> Self {
        let other = other.into();
        Self { value: self.value + other.value, form: self.form.wrapping_add(other.form) }
    }
}

impl<N: Into<Self>> Sub<N> for Number {
    type Output = Self;

    fn sub(self, other: N) -> Self {
        let other = other.into();
        Self { value: self.value - other.value, form: self.form.wrapping_sub(other.form) }
    }
}

impl<N: Into<Self>> Mul<N> for Number {
    type Output = Self;

    fn mul(self, other: N) -> Self {
        let other = other.into();
        // extents may be such that nothing has so many points: limits refuse the graph then
        let value = self.value.saturating_mul(other.value);
        match self.is_told() || other.is_told() {
            true => Self { value, form: self.form.wrapping_mul(other.form) },
            false => Self::known(value),
        }
    }
}

impl Product for Number {
    fn product<I: Iterator<Item = Self>>(numbers: I) -> Self {
        numbers.fold(Self::ONE, Self::mul)
    }
}

impl PartialEq<i64> for Number {
    fn eq(&self, other: &i64) -> bool {
        self.value == *other
    }
}

impl PartialOrd<i64> for Number {
    fn partial_cmp(&self, other: &i64) -> Option<Ordering> {
        self.value.partial_cmp(other)
    }
}

/// What a division leaves, for what is decided by a number's value.
impl Rem<i64> for Number {
    type Output = i64;

    fn rem(self, divisor: i64) -> i64 {
        self.value % divisor
    }
}

/// A known number, or a place that code generation fills with the name of a parameter: [`Number::PLACE`], form, value.
impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.as_known() {
            Some(value) => write!(f, "{value}"),
            None => write!(f, "{}{:032x}_{}", Self::PLACE, self.form, self.value),
        }
    }
}

/// As templates read it: a number, or its place.
impl Serialize for Number {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.as_known() {
            Some(value) => serializer.serialize_i64(value),
            None => serializer.collect_str(self),
        }
    }
}

impl fmt::Debug for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.as_known() {
            Some(value) => write!(f, "{value}"),
            None => write!(f, "{} ({:x})", self.value, self.form),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extents() -> [Number; 3] {
        [(12, 0), (35, 1), (12, 2)].map(|(value, axis)| Number::told(value, Told::Extent(axis)))
    }

    #[test]
    fn equal_polynomials_are_one_number_and_equal_values_are_not() {
        let [a, b, c] = extents();
        assert_ne!(a, c, "equal values of two axes");
        assert_eq!(a * b, b * a);
        assert_eq!((a + b) * c, a * c + c * b);
        assert_eq!(a * 3 * 5, a * 15);
        assert_ne!(a * b, c * b);
        assert_eq!((a * b + 1).value(), 421);
        let zero = Number::known(0);
        assert_eq!(a * zero, zero);
        assert_eq!((a * b).quotient(8), (b * a).quotient(8));
        assert_ne!((a * b).quotient(8), (a * b).quotient(4));
        assert_ne!((a * b).quotient(8), (a * b).parts(8));
    }

    #[test]
    fn of_known_numbers_everything_is_known() {
        let [a, ..] = extents();
        let six = Number::known(6);
        for (number, value) in [(six + 1, 7), (six * -2, -12), (six.quotient(4), 1), (six.parts(4), 2), (six - 6, 0)] {
            assert_eq!(number.as_known(), Some(value));
        }
        assert_eq!(Number::told(1, Told::Stride(3, 2)), Number::ONE);
        assert_eq!(Number::known(6).parts(a), Number::ONE, "0 and 1 are known");
        assert_eq!((Number::known(i64::MAX) * 2).as_known(), Some(i64::MAX));
        assert_eq!(a * Number::known(0), Number::known(0));
        assert!(a.is_told() && a.quotient(a) == Number::ONE && a.quotient(1) == a && a.parts(1) == a);
        assert!(
            (a + 1).is_told() && (a * 2).is_told() && a.quotient(5).is_told() && Number::known(36).parts(a).is_told()
        );
    }
}
