//! The pointwise modes in double precision, by formulas that no other part of the repository uses.
//!
//! Held against values of a multiple-precision library by `host::modes::known_values`.

use std::f64::consts::{LN_2, PI};

use fusewright::graph::{Pointwise, PointwiseMode as M};

/// The value of a mode for operands in port order, to 13 digits of the result.
pub(crate) fn exact(p: &Pointwise, [x, b, t]: [f64; 3]) -> f64 {
    let flag = |condition: bool| f64::from(u8::from(condition));
    let is_true = |x: f64| x.is_nan() || x.abs() > 0.0;
    match p.mode {
        M::Add => x + b,
        M::AddSquare => b.mul_add(b, x),
        M::Sub => x + -b,
        M::Mul => x * b,
        M::Div => x / b,
        M::Mod => remainder(x, b),
        M::Pow => x.powf(b),
        M::Max => -smallest(p, -x, -b),
        M::Min => smallest(p, x, b),
        M::Atan2 => x.atan2(b),
        M::CmpEq => flag(x == b),
        M::CmpNeq => flag(x.partial_cmp(&b) != Some(std::cmp::Ordering::Equal)),
        M::CmpGt => flag(b < x),
        M::CmpGe => flag(b <= x),
        M::CmpLt => flag(b > x),
        M::CmpLe => flag(b >= x),
        M::LogicalAnd => flag(is_true(x) & is_true(b)),
        M::LogicalOr => flag(is_true(x) | is_true(b)),
        M::BinarySelect => [b, x][usize::from(is_true(t))],
        mode if mode.is_backward() => x * slope(p, b),
        _ => unary(p, x),
    }
}

fn unary(p: &Pointwise, x: f64) -> f64 {
    match p.mode {
        M::Abs => x.copysign(1.0),
        M::Neg => -x,
        M::Sqrt => x.sqrt(),
        M::Rsqrt => 1.0 / x.sqrt(),
        M::Reciprocal => 1.0 / x,
        M::Exp => x.exp(),
        M::Log => x.log2() * LN_2,
        M::Erf => erf(x),
        M::Ceil => -(-x).floor(),
        M::Floor => x.floor(),
        M::Sin => x.sin(),
        M::Cos => x.cos(),
        M::Tan => x.sin() / x.cos(),
        M::LogicalNot => f64::from(u8::from(x == 0.0)),
        M::Identity | M::GenIndex => x,
        _ => activation(p, x),
    }
}

/// C's `fmod`, by subtraction of shifted divisors.
fn remainder(x: f64, b: f64) -> f64 {
    if x.is_nan() || b.is_nan() || x.is_infinite() || b == 0.0 {
        return f64::NAN;
    }
    let (mut rest, divisor) = (x.abs(), b.abs());
    while rest >= divisor {
        let mut shifted = divisor * 2f64.powi((rest / divisor).log2() as i32);
        while shifted > rest {
            shifted /= 2.0;
        }
        rest -= shifted;
    }
    rest.copysign(x)
}

/// MIN (O-15).
fn smallest(p: &Pointwise, x: f64, b: f64) -> f64 {
    if p.propagates_nan() && (x.is_nan() || b.is_nan()) { f64::NAN } else { x.min(b) }
}

fn activation(p: &Pointwise, x: f64) -> f64 {
    let beta = f64::from(p.beta());
    match p.mode {
        M::ReluFwd => relu(p, x),
        M::TanhFwd => x.tanh(),
        M::SigmoidFwd => logistic(x),
        M::EluFwd if x > 0.0 => x,
        M::EluFwd if x < -40.0 => -f64::from(p.alpha()),
        M::EluFwd => f64::from(p.alpha()) * 2.0 * (x / 2.0).sinh() * (x / 2.0).exp(),
        M::GeluFwd => gated(x, 0.5 * erfc(-x * 0.5f64.sqrt())),
        M::GeluApproxTanhFwd => gated(x, logistic(tanh_exponent(x))),
        M::SoftplusFwd => softplus(beta, x),
        M::SwishFwd => gated(x, logistic(beta * x)),
        mode => unreachable!("{mode} is no activation"),
    }
}

/// O-13, O-15.
fn relu(p: &Pointwise, x: f64) -> f64 {
    let [low, high, slope] = [p.lower_clip(), p.upper_clip(), p.lower_slope()].map(f64::from);
    match x {
        _ if x.is_nan() && !p.propagates_nan() => low,
        _ if x.is_nan() => x,
        _ if x >= low => x.min(high),
        _ if slope == 0.0 => low,
        _ => slope * x + low * (1.0 - slope),
    }
}

/// Derivatives (O-05, O-06).
fn slope(p: &Pointwise, x: f64) -> f64 {
    let beta = f64::from(p.beta());
    match p.mode {
        M::ReluBwd => {
            let [low, high, slope] = [p.lower_clip(), p.upper_clip(), p.lower_slope()].map(f64::from);
            match x {
                _ if x.is_nan() => [slope, x][usize::from(p.propagates_nan())],
                _ if x > low && x < high => 1.0,
                _ if x <= low => slope,
                _ => 0.0,
            }
        }
        M::TanhBwd => bell(2.0 * x) * 4.0,
        M::SigmoidBwd => bell(x),
        M::EluBwd if x >= 0.0 => 1.0,
        M::EluBwd => f64::from(p.alpha()) * x.exp(),
        M::GeluBwd => 0.5 * erfc(-x * 0.5f64.sqrt()) + gated(x, (-0.5 * x * x).exp() * (0.5 / PI).sqrt()),
        M::GeluApproxTanhBwd => {
            let z = tanh_exponent(x);
            let growth = (8.0 / PI).sqrt() * (x + 0.134_145 * x * x * x);
            logistic(z) + gated(growth, bell(z))
        }
        M::SoftplusBwd => logistic(beta * x),
        M::SwishBwd => logistic(beta * x) + gated(beta * x, bell(beta * x)),
        mode => unreachable!("{mode} is no derivative"),
    }
}

/// x·factor with its limit where the factor has vanished (PW-R8).
fn gated(x: f64, factor: f64) -> f64 {
    if factor == 0.0 { 0f64.copysign(x) } else { x * factor }
}

/// 1 / (1 + e^−x) = ½·(1 + tanh(x/2)), on the left by its value on the right.
fn logistic(x: f64) -> f64 {
    let right = 0.5 + 0.5 * (x.abs() / 2.0).tanh();
    if x < 0.0 { x.exp() * right } else { right }
}

/// The product of the logistic function of x and of −x: 1 / (4·cosh²(x/2)).
fn bell(x: f64) -> f64 {
    0.25 / (x / 2.0).cosh().powi(2)
}

/// 2·√(2/π)·(x + 0.044715x³).
fn tanh_exponent(x: f64) -> f64 {
    (8.0 / PI).sqrt() * x * (1.0 + 0.044_715 * x * x)
}

/// ln(1 + e^z) / β for z = βx, through ln(1 + w) = 2·artanh(w / (2 + w)); on the right by its value on the left.
fn softplus(beta: f64, x: f64) -> f64 {
    let z = beta * x;
    let w = (-z.abs()).exp();
    let left = 2.0 * (w / (2.0 + w)).atanh() / beta;
    if z > 0.0 { x + left } else { left }
}

/// The error function by its alternating series where that is short, else by the complement.
fn erf(x: f64) -> f64 {
    if x.abs() > 1.0 {
        return (1.0 - erfc(x.abs())).copysign(x);
    }
    let term = |n: i32| (-x * x).powi(n) * x / (factorial(n) * f64::from(2 * n + 1));
    (0..24).rev().map(term).sum::<f64>() * (4.0 / PI).sqrt()
}

fn factorial(n: i32) -> f64 {
    (1..=n).map(f64::from).product()
}

/// The complement by the trapezoidal rule on `2/π·∫₀^{π/2} e^(−x²/sin²θ) dθ` (Craig's formula), which converges
/// fast: the integrand is periodic.
fn erfc(x: f64) -> f64 {
    if x < 0.0 {
        return 2.0 - erfc(-x);
    }
    if x < 0.5 {
        return 1.0 - erf(x);
    }
    let points = 96;
    let value = |i: i32| (-(x / (PI * f64::from(i) / f64::from(2 * points)).sin()).powi(2)).exp();
    let inner: f64 = (1..points).map(value).sum();
    let total = (inner + 0.5 * value(points)) / f64::from(points);
    if x.is_nan() { x } else { total }
}
