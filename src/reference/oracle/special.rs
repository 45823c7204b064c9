//! The complementary error function, by a series and a continued fraction.

use std::f64::consts::{FRAC_2_SQRT_PI, PI};

/// erf x.
pub(super) fn erf(x: f64) -> f64 {
    if x.abs() < 2.0 { erf_series(x) } else { 1.0 - erfc(x) }
}

/// 1 − erf x, accurate in relation to its size.
pub(super) fn erfc(x: f64) -> f64 {
    if x.is_nan() {
        x
    } else if x < 0.0 {
        2.0 - erfc(-x)
    } else if x < 2.0 {
        1.0 - erf_series(x)
    } else {
        (-x * x).exp() / (PI.sqrt() * continued_fraction(x))
    }
}

/// `2/√π·e^(−x²)·Σ 2ⁿ·x^(2n+1) / (1·3·…·(2n+1))`: all terms of one sign.
fn erf_series(x: f64) -> f64 {
    let mut term = x;
    let mut sum = x;
    for n in 1..60 {
        term *= 2.0 * x * x / f64::from(2 * n + 1);
        sum += term;
    }
    FRAC_2_SQRT_PI * (-x * x).exp() * sum
}

/// `x + (1/2)/(x + (2/2)/(x + (3/2)/(x + …)))`.
fn continued_fraction(x: f64) -> f64 {
    (1..120).rev().fold(x, |tail, n| x + f64::from(n) / 2.0 / tail)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reference::math;

    #[test]
    fn tails_are_relatively_accurate() {
        let known =
            [(2.0, 4.677_734_981_047_266e-3), (5.0, 1.537_459_794_428_035e-12), (10.0, 2.088_487_583_762_545e-45)];
        for (x, expected) in known {
            assert!((erfc(x) / expected - 1.0).abs() < 1e-13, "{x}");
        }
        assert_eq!((erfc(f64::INFINITY), erfc(f64::NEG_INFINITY)), (0.0, 2.0));
    }

    #[test]
    fn two_independent_error_functions_agree() {
        for i in -700..=700 {
            let x = f64::from(i) / 100.0;
            assert!((erf(x) - math::erf(x)).abs() < 3e-15, "{x}");
        }
    }
}
