//! Real functions of the CPU engine that the standard library lacks, and the trait its formulas are written in.

use std::ops::{Add, Div, Mul, Neg, Rem, Sub};
use std::sync::LazyLock;

/// Distance of the points at which the error functions are tabulated.
const STEP: f64 = 1.0 / 16.0;

/// Beyond this the error function is ±1 in double precision.
const SATURATION: f64 = 6.0;

/// Beyond this the complementary error function is 0 in double precision.
const VANISHED: f64 = 28.0;

/// erf at multiples of [`STEP`], each value from the one before it.
static ERF: LazyLock<Vec<f64>> = LazyLock::new(|| {
    let points = (SATURATION / STEP) as usize + 1;
    let next = |value: &mut f64, point: usize| {
        let here = *value;
        *value += erf_increment(point as f64 * STEP, STEP, 24);
        Some(here)
    };
    (0..points).scan(0.0, next).collect()
});

/// erfc at multiples of [`STEP`], each value from the one after it: sums of positive terms that grow fast, so that
/// every value is relatively accurate.
static ERFC: LazyLock<Vec<f64>> = LazyLock::new(|| {
    let points = (VANISHED / STEP) as usize + 1;
    let mut values = vec![0.0; points + 1];
    for point in (0..points).rev() {
        values[point] = values[point + 1] + erf_increment(point as f64 * STEP, STEP, 40);
    }
    values
});

/// The error function, to a few units in the last place of double precision.
pub(super) fn erf(x: f64) -> f64 {
    let magnitude = x.abs();
    if magnitude.is_nan() {
        return x;
    }
    if magnitude >= SATURATION {
        return 1f64.copysign(x);
    }
    let point = (magnitude / STEP).round();
    let value = ERF[point as usize] + erf_increment(point * STEP, magnitude - point * STEP, 10);
    value.copysign(x)
}

/// The complementary error function, to a dozen units in the last place of double precision.
pub(super) fn erfc(x: f64) -> f64 {
    if x < 0.5 {
        return 1.0 - erf(x);
    }
    if x >= VANISHED || x.is_nan() {
        return if x.is_nan() { x } else { 0.0 };
    }
    let point = (x / STEP).round();
    ERFC[point as usize] - erf_increment(point * STEP, x - point * STEP, 30)
}

/// erf(x + h) − erf(x) by the Taylor series at x: the n-th derivative of e^(−x²) is e^(−x²) times a polynomial with
/// the recurrence dₙ₊₁ = −2x·dₙ − 2n·dₙ₋₁.
fn erf_increment(x: f64, h: f64, terms: u32) -> f64 {
    let (mut previous, mut derivative, mut power, mut sum) = (0.0, 1.0, h, 0.0);
    for n in 0..terms {
        sum += derivative * power;
        let next = -2.0 * x * derivative - 2.0 * f64::from(n) * previous;
        previous = derivative;
        derivative = next;
        power *= h / f64::from(n + 2);
    }
    std::f64::consts::FRAC_2_SQRT_PI * (-x * x).exp() * sum
}

/// What the formulas of the pointwise modes need of a floating type. Whatever takes more than one rounding is computed
/// in double precision and rounded once.
pub(super) trait Real:
    Copy
    + Default
    + PartialOrd
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Rem<Output = Self>
    + Neg<Output = Self>
{
    /// Rounded to nearest.
    fn of(value: f64) -> Self;
    /// Exact.
    fn widened(self) -> f64;
    fn is_nan(self) -> bool;
    fn abs(self) -> Self;
    fn floor(self) -> Self;
    fn ceil(self) -> Self;
}

macro_rules! real {
    ($type:ty) => {
        impl Real for $type {
            #[inline(always)]
            fn of(value: f64) -> Self {
                value as Self
            }
            #[inline(always)]
            fn widened(self) -> f64 {
                f64::from(self)
            }
            #[inline(always)]
            fn is_nan(self) -> bool {
                self.is_nan()
            }
            #[inline(always)]
            fn abs(self) -> Self {
                self.abs()
            }
            #[inline(always)]
            fn floor(self) -> Self {
                self.floor()
            }
            #[inline(always)]
            fn ceil(self) -> Self {
                self.ceil()
            }
        }
    };
}

real!(f32);
real!(f64);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn erf_at_known_points() {
        let known = [(0.5, 0.520_499_877_813_046_5), (1.0, 0.842_700_792_949_714_9), (2.0, 0.995_322_265_018_952_7)];
        for (x, expected) in known {
            assert!((erf(x) - expected).abs() < 4e-16, "{x}");
            assert_eq!(erf(-x), -erf(x));
        }
    }

    #[test]
    fn erfc_at_known_points() {
        let known = [
            (0.25, 0.723_673_609_831_763_1),
            (2.0, 4.677_734_981_047_266e-3),
            (5.0, 1.537_459_794_428_035e-12),
            (10.0, 2.088_487_583_762_545e-45),
            (26.0, 5.663_192_408_856_143e-296),
        ];
        for (x, expected) in known {
            assert!((erfc(x) / expected - 1.0).abs() < 1e-13, "{x}: {}", erfc(x));
        }
        assert_eq!((erfc(f64::INFINITY), erfc(f64::NEG_INFINITY)), (0.0, 2.0));
        assert!(erfc(f64::NAN).is_nan());
    }

    #[test]
    fn erf_at_the_edges() {
        assert_eq!(erf(f64::INFINITY), 1.0);
        assert_eq!(erf(-6.0), -1.0);
        assert!(erf(f64::NAN).is_nan());
        assert_eq!(erf(-0.0).to_bits(), (-0.0f64).to_bits());
        let tiny = 1e-30;
        assert!((erf(tiny) / tiny - std::f64::consts::FRAC_2_SQRT_PI).abs() < 1e-15);
    }
}
