//! Real functions of the CPU engine that the standard library lacks, and the trait its formulas are written in.

use std::ops::{Add, Div, Mul, Neg, Rem, Sub};
use std::sync::LazyLock;

/// Distance of the points at which the error function is tabulated.
const STEP: f64 = 1.0 / 16.0;

/// Beyond this the error function is ±1 in double precision.
const SATURATION: f64 = 6.0;

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

/// The error function, to a few units in the last place of double precision times the larger of |erf x| and 2^-4.
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

/// What the formulas of the pointwise modes need of a floating type.
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
    fn of(value: f64) -> Self;
    fn is_nan(self) -> bool;
    fn abs(self) -> Self;
    fn floor(self) -> Self;
    fn ceil(self) -> Self;
    fn sqrt(self) -> Self;
    fn exp(self) -> Self;
    fn exp_m1(self) -> Self;
    fn ln(self) -> Self;
    fn ln_1p(self) -> Self;
    fn sin(self) -> Self;
    fn cos(self) -> Self;
    fn tan(self) -> Self;
    fn tanh(self) -> Self;
    fn erf(self) -> Self;
    fn powf(self, exponent: Self) -> Self;
    fn atan2(self, other: Self) -> Self;
}

macro_rules! real {
    ($type:ty, [$($unary:ident),*], [$($binary:ident),*]) => {
        impl Real for $type {
            #[inline(always)]
            fn of(value: f64) -> Self {
                value as Self
            }
            #[inline(always)]
            fn is_nan(self) -> bool {
                self.is_nan()
            }
            fn erf(self) -> Self {
                erf(f64::from(self)) as Self
            }
            $(#[inline(always)]
            fn $unary(self) -> Self {
                self.$unary()
            })*
            $(#[inline(always)]
            fn $binary(self, other: Self) -> Self {
                self.$binary(other)
            })*
        }
    };
}

real!(f32, [abs, floor, ceil, sqrt, exp, exp_m1, ln, ln_1p, sin, cos, tan, tanh], [powf, atan2]);
real!(f64, [abs, floor, ceil, sqrt, exp, exp_m1, ln, ln_1p, sin, cos, tan, tanh], [powf, atan2]);

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
    fn erf_at_the_edges() {
        assert_eq!(erf(f64::INFINITY), 1.0);
        assert_eq!(erf(-6.0), -1.0);
        assert!(erf(f64::NAN).is_nan());
        assert_eq!(erf(-0.0).to_bits(), (-0.0f64).to_bits());
        let tiny = 1e-30;
        assert!((erf(tiny) / tiny - std::f64::consts::FRAC_2_SQRT_PI).abs() < 1e-15);
    }
}
