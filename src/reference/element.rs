//! Arithmetic of accumulating operations, one type per compute type.

use crate::host_tensor::{Lane, round_half};

/// A number in the arithmetic of a compute type.
pub(super) trait Element: Copy + Send + Sync + Default + PartialEq {
    /// What values are read and written as.
    type Lane: Lane;
    const ONE: Self;
    const LOWEST: Self;
    const HIGHEST: Self;
    fn from_lane(value: Self::Lane) -> Self;
    fn to_lane(self) -> Self::Lane;
    fn is_nan(self) -> bool;
    fn add(self, other: Self) -> Self;
    fn mul(self, other: Self) -> Self;
    /// The smaller; NaN if either is (O-15).
    fn least(self, other: Self) -> Self;
    /// The larger; NaN if either is (O-15).
    fn greatest(self, other: Self) -> Self;
    /// Whether it takes the place of a maximum so far: it is larger, or the first NaN (O-15).
    fn exceeds(self, other: Self) -> bool;
    fn magnitude(self) -> Self;
    fn root(self) -> Self;
    fn divide(self, count: usize) -> Self;
    /// `alpha·self + beta·prior`.
    fn blend(self, alpha: f64, prior: Self, beta: f64) -> Self;
    /// `self + a·b`, each operation rounded.
    fn add_product(self, a: Self, b: Self) -> Self {
        self.add(a.mul(b))
    }
}

macro_rules! float_element {
    ($type:ty) => {
        impl Element for $type {
            type Lane = Self;
            const ONE: Self = 1.0;
            const LOWEST: Self = Self::NEG_INFINITY;
            const HIGHEST: Self = Self::INFINITY;
            fn from_lane(value: Self) -> Self {
                value
            }
            fn to_lane(self) -> Self {
                self
            }
            fn is_nan(self) -> bool {
                self.is_nan()
            }
            #[inline(always)]
            fn add(self, other: Self) -> Self {
                self + other
            }
            #[inline(always)]
            fn mul(self, other: Self) -> Self {
                self * other
            }
            fn least(self, other: Self) -> Self {
                if self.is_nan() || self < other { self } else { other }
            }
            fn greatest(self, other: Self) -> Self {
                if self.is_nan() || self > other { self } else { other }
            }
            fn exceeds(self, other: Self) -> bool {
                self > other || (self.is_nan() && !other.is_nan())
            }
            fn magnitude(self) -> Self {
                self.abs()
            }
            fn root(self) -> Self {
                self.sqrt()
            }
            fn divide(self, count: usize) -> Self {
                self / count as Self
            }
            fn blend(self, alpha: f64, prior: Self, beta: f64) -> Self {
                let scaled = alpha as Self * self;
                if beta == 0.0 { scaled } else { scaled + beta as Self * prior }
            }
        }
    };
}

float_element!(f32);
float_element!(f64);

/// Two's complement (PW-R7).
impl Element for i32 {
    type Lane = Self;
    const ONE: Self = 1;
    const LOWEST: Self = Self::MIN;
    const HIGHEST: Self = Self::MAX;
    fn from_lane(value: Self) -> Self {
        value
    }
    fn to_lane(self) -> Self {
        self
    }
    fn is_nan(self) -> bool {
        false
    }
    #[inline(always)]
    fn add(self, other: Self) -> Self {
        self.wrapping_add(other)
    }
    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        self.wrapping_mul(other)
    }
    fn least(self, other: Self) -> Self {
        self.min(other)
    }
    fn greatest(self, other: Self) -> Self {
        self.max(other)
    }
    fn exceeds(self, other: Self) -> bool {
        self > other
    }
    fn magnitude(self) -> Self {
        self.wrapping_abs()
    }
    fn root(self) -> Self {
        f64::from(self).sqrt().round_ties_even() as Self
    }
    fn divide(self, count: usize) -> Self {
        (i64::from(self) / count as i64) as Self
    }
    fn blend(self, alpha: f64, prior: Self, beta: f64) -> Self {
        f64::from(self).blend(alpha, f64::from(prior), beta).round_ties_even() as Self
    }
}

/// Half precision, rounded after every operation: the accumulator is half.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Half(f32);

impl Half {
    #[inline(always)]
    fn new(x: f32) -> Self {
        Self(round_half(x))
    }
}

impl Element for Half {
    type Lane = f32;
    const ONE: Self = Self(1.0);
    const LOWEST: Self = Self(f32::NEG_INFINITY);
    const HIGHEST: Self = Self(f32::INFINITY);
    fn from_lane(value: f32) -> Self {
        Self::new(value)
    }
    fn to_lane(self) -> f32 {
        self.0
    }
    fn is_nan(self) -> bool {
        self.0.is_nan()
    }
    #[inline(always)]
    fn add(self, other: Self) -> Self {
        Self::new(self.0 + other.0)
    }
    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        Self::new(self.0 * other.0)
    }
    fn least(self, other: Self) -> Self {
        Self(self.0.least(other.0))
    }
    fn greatest(self, other: Self) -> Self {
        Self(self.0.greatest(other.0))
    }
    fn exceeds(self, other: Self) -> bool {
        self.0.exceeds(other.0)
    }
    fn magnitude(self) -> Self {
        Self(self.0.abs())
    }
    fn root(self) -> Self {
        Self::new(self.0.sqrt())
    }
    fn divide(self, count: usize) -> Self {
        Self::new(self.0 / count as f32)
    }
    fn blend(self, alpha: f64, prior: Self, beta: f64) -> Self {
        Self::new(self.0.blend(alpha, prior.0, beta))
    }
    /// The product of two halves is exact in single precision: one rounding, as a fused operation has.
    #[inline(always)]
    fn add_product(self, a: Self, b: Self) -> Self {
        Self::new(self.0 + a.0 * b.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nan_wins_from_either_side() {
        assert!(1f32.least(f32::NAN).is_nan() && f32::NAN.least(1.0).is_nan());
        assert!(1f64.greatest(f64::NAN).is_nan() && f64::NAN.greatest(1.0).is_nan());
        assert_eq!((1f32.least(2.0), 1f32.greatest(2.0)), (1.0, 2.0));
    }

    #[test]
    fn half_accumulators_lose_small_terms_and_overflow() {
        let (large, one) = (Half::new(2048.0), Half::ONE);
        assert_eq!(large.add_product(one, one), large);
        assert_eq!(Half::new(60000.0).add(Half::new(60000.0)), Half::HIGHEST);
    }

    #[test]
    fn integers_wrap() {
        assert_eq!(Element::add(i32::MAX, 1), i32::MIN);
        assert_eq!(1.add_product(1 << 20, 1 << 20), 1);
        assert_eq!((-7).divide(2), -3);
    }

    #[test]
    fn blending_with_zero_beta_ignores_the_prior() {
        assert_eq!(2f32.blend(0.5, f32::NAN, 0.0), 1.0);
        assert_eq!(3.blend(0.5, 10, 1.0), 12);
    }
}
