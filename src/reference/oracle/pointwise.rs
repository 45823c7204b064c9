//! The pointwise modes by their definition (operations.md 4.2), one element at a time.

use std::f64::consts::{FRAC_1_SQRT_2, PI};

use rayon::prelude::*;

use super::DenseF64;
use super::special::{erf, erfc};
use crate::graph::{DataType, Pointwise, PointwiseMode as M};

/// Applies `value` to the operands of every element of a result of extents `dim`, with broadcasting; an operand that is
/// none counts as 0. `GEN_INDEX` gets the index in place of its first operand.
pub(in crate::reference) fn map<const N: usize, R: Send>(
    pointwise: &Pointwise,
    operands: [Option<&DenseF64>; N],
    dim: &[i64],
    value: impl Fn([f64; N]) -> R + Sync,
) -> Vec<R> {
    let strides = operands.map(|operand| operand.map(|operand| broadcast_strides(&operand.dim, dim)));
    let axis = pointwise.axis.and_then(|axis| usize::try_from(axis).ok()).filter(|_| pointwise.mode == M::GenIndex);
    let element = |position: usize| {
        let index = index(position, dim);
        let mut x = [0.0; N];
        for ((x, operand), strides) in x.iter_mut().zip(&operands).zip(&strides) {
            if let (Some(operand), Some(strides)) = (operand, strides) {
                *x = operand.values[index.iter().zip(strides).map(|(i, s)| i * s).sum::<usize>()];
            }
        }
        if let Some(axis) = axis {
            x[0] = index[axis] as f64;
        }
        value(x)
    };
    (0..dim.iter().product::<i64>() as usize).into_par_iter().map(element).collect()
}

/// Index of a row-major position; at most 8 axes (D-R6).
fn index(mut position: usize, dim: &[i64]) -> [usize; 8] {
    let mut index = [0; 8];
    for axis in (0..dim.len()).rev() {
        index[axis] = position % dim[axis] as usize;
        position /= dim[axis] as usize;
    }
    index
}

/// Row-major strides of an operand, 0 where it has one element; axes are matched from the last one.
fn broadcast_strides(operand: &[i64], dim: &[i64]) -> Vec<usize> {
    let skipped = dim.len() - operand.len();
    let mut strides = vec![0; dim.len()];
    let mut step = 1;
    for axis in (0..operand.len()).rev() {
        if operand[axis] != 1 {
            strides[axis + skipped] = step;
        }
        step *= operand[axis] as usize;
    }
    strides
}

/// Operands in port order, times their factors; by 0 they are 0.
pub(in crate::reference) fn scaled(p: &Pointwise, operands: [f64; 3]) -> [f64; 3] {
    let scales = p.scales().map(f64::from);
    std::array::from_fn(|i| if scales[i] == 0.0 { 0.0 } else { operands[i] * scales[i] })
}

/// The value of a mode in exact arithmetic (to double precision), in integers modulo 2^32 where the compute type is an
/// integer. Operands are in port order: DY first in backward modes (PW-R9).
pub(in crate::reference) fn evaluate(p: &Pointwise, compute: DataType, operands: [f64; 3]) -> f64 {
    let [x, b, t] = scaled(p, operands);
    let is_float = compute.is_floating();
    if is_float {
        return real(p, [x, b, t]);
    }
    match integer(p.mode, [x, b, t].map(|x| x.round_ties_even() as i64)) {
        Some(value) if compute == DataType::Int64 => value as f64,
        Some(value) => f64::from(value as i32),
        None => real(p, [x, b, t]),
    }
}

/// Modes with a definition in integers; `None` for the others. The value of a division by 0 is unspecified; 0 here.
#[warn(clippy::wildcard_enum_match_arm)]
fn integer(mode: M, [x, b, t]: [i64; 3]) -> Option<i64> {
    let divide = |f: fn(i64, i64) -> i64| if b == 0 { 0 } else { f(x, b) };
    Some(match mode {
        M::Add => x.wrapping_add(b),
        M::AddSquare => x.wrapping_add(b.wrapping_mul(b)),
        M::Sub => x.wrapping_sub(b),
        M::Mul => x.wrapping_mul(b),
        M::Div => divide(i64::wrapping_div),
        M::Mod => divide(i64::wrapping_rem),
        M::Max => x.max(b),
        M::Min => x.min(b),
        M::Abs => x.wrapping_abs(),
        M::Neg => x.wrapping_neg(),
        M::Ceil | M::Floor | M::Identity | M::GenIndex => x,
        M::CmpEq => i64::from(x == b),
        M::CmpNeq => i64::from(x != b),
        M::CmpGt => i64::from(x > b),
        M::CmpGe => i64::from(x >= b),
        M::CmpLt => i64::from(x < b),
        M::CmpLe => i64::from(x <= b),
        M::LogicalAnd => i64::from(x != 0 && b != 0),
        M::LogicalOr => i64::from(x != 0 || b != 0),
        M::LogicalNot => i64::from(x == 0),
        M::BinarySelect => {
            if t != 0 {
                x
            } else {
                b
            }
        }
        M::Pow
        | M::Atan2
        | M::Sqrt
        | M::Rsqrt
        | M::Reciprocal
        | M::Exp
        | M::Log
        | M::Erf
        | M::Sin
        | M::Cos
        | M::Tan => {
            return None;
        }
        M::ReluFwd | M::TanhFwd | M::SigmoidFwd | M::EluFwd | M::GeluFwd | M::GeluApproxTanhFwd => return None,
        M::SoftplusFwd | M::SwishFwd => return None,
        M::ReluBwd | M::TanhBwd | M::SigmoidBwd | M::EluBwd | M::GeluBwd | M::GeluApproxTanhBwd => return None,
        M::SoftplusBwd | M::SwishBwd => return None,
    })
}

/// One arm a mode, so that a new one does not compile before it is defined here. Gradients get DY as x, and the forward input
/// as b (O-05, O-06).
#[warn(clippy::wildcard_enum_match_arm)]
fn real(p: &Pointwise, [x, b, t]: [f64; 3]) -> f64 {
    let flag = |condition: bool| if condition { 1.0 } else { 0.0 };
    let (alpha, beta) = (f64::from(p.alpha()), f64::from(p.beta()));
    match p.mode {
        M::Add => x + b,
        M::AddSquare => x + b.powi(2),
        M::Sub => x - b,
        M::Mul => x * b,
        M::Div => x / b,
        M::Mod => x % b,
        M::Pow => x.powf(b),
        M::Max => extreme(p, x, b, x > b),
        M::Min => extreme(p, x, b, x < b),
        M::Atan2 => x.atan2(b),
        M::Abs => x.abs(),
        M::Neg => -x,
        M::Sqrt => x.sqrt(),
        M::Rsqrt => x.sqrt().recip(),
        M::Reciprocal => x.recip(),
        M::Exp => x.exp(),
        M::Log => x.ln(),
        M::Erf => erf(x),
        M::Ceil => x.ceil(),
        M::Floor => x.floor(),
        M::Sin => x.sin(),
        M::Cos => x.cos(),
        M::Tan => x.tan(),
        M::Identity | M::GenIndex => x,
        M::CmpEq => flag(x == b),
        M::CmpNeq => flag(x != b),
        M::CmpGt => flag(x > b),
        M::CmpGe => flag(x >= b),
        M::CmpLt => flag(x < b),
        M::CmpLe => flag(x <= b),
        M::LogicalAnd => flag(x != 0.0 && b != 0.0),
        M::LogicalOr => flag(x != 0.0 || b != 0.0),
        M::LogicalNot => flag(x == 0.0),
        M::BinarySelect => {
            if t != 0.0 {
                x
            } else {
                b
            }
        }
        M::ReluFwd => relu(p, x),
        M::TanhFwd => x.tanh(),
        M::SigmoidFwd => logistic(x),
        M::EluFwd => elu(alpha, x),
        M::GeluFwd => vanishing(x, cumulative(x)),
        M::GeluApproxTanhFwd => vanishing(x, logistic(2.0 * tanh_argument(x))),
        M::SoftplusFwd => log_one_plus_exp(beta * x) / beta,
        M::SwishFwd => swish(beta, x),
        M::ReluBwd => x * relu_slope(p, b),
        M::TanhBwd => x * b.cosh().powi(2).recip(),
        M::SigmoidBwd => x * (logistic(b) * logistic(-b)),
        M::EluBwd => x * elu_slope(alpha, b),
        M::GeluBwd => x * (cumulative(b) + vanishing(b, (-b * b / 2.0).exp() / (2.0 * PI).sqrt())),
        M::GeluApproxTanhBwd => x * tanh_slope(b),
        M::SoftplusBwd => x * logistic(beta * b),
        M::SwishBwd => x * swish_slope(beta * b),
    }
}

/// MIN and MAX (O-15).
fn extreme(p: &Pointwise, x: f64, b: f64, x_wins: bool) -> f64 {
    match (x.is_nan(), b.is_nan(), p.propagates_nan()) {
        (true, _, true) | (_, true, false) => x,
        (_, true, true) | (true, _, false) => b,
        _ => {
            if x_wins {
                x
            } else {
                b
            }
        }
    }
}

fn elu(alpha: f64, x: f64) -> f64 {
    if x >= 0.0 { x } else { alpha * x.exp_m1() }
}

fn elu_slope(alpha: f64, x: f64) -> f64 {
    if x >= 0.0 { 1.0 } else { alpha * x.exp() }
}

/// With its limit where the logistic function vanishes (PW-R8).
fn swish(beta: f64, x: f64) -> f64 {
    let share = logistic(beta * x);
    if share == 0.0 { 0.0 } else { x * share }
}

/// The derivative of [`swish`] at x = z / β.
fn swish_slope(z: f64) -> f64 {
    let s = logistic(z);
    let both = s * logistic(-z);
    if both == 0.0 { s } else { s + z * both }
}

/// O-13, O-15.
fn relu(p: &Pointwise, x: f64) -> f64 {
    let [low, high, slope] = [p.lower_clip(), p.upper_clip(), p.lower_slope()].map(f64::from);
    match x {
        _ if x.is_nan() => {
            if p.propagates_nan() {
                x
            } else {
                low
            }
        }
        _ if x < low && slope == 0.0 => low,
        _ if x < low => low + slope * (x - low),
        _ => {
            if x > high {
                high
            } else {
                x
            }
        }
    }
}

fn relu_slope(p: &Pointwise, x: f64) -> f64 {
    let [low, high, slope] = [p.lower_clip(), p.upper_clip(), p.lower_slope()].map(f64::from);
    match x {
        _ if x.is_nan() => {
            if p.propagates_nan() {
                x
            } else {
                slope
            }
        }
        _ if x <= low => slope,
        _ => {
            if x >= high {
                0.0
            } else {
                1.0
            }
        }
    }
}

fn logistic(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

fn log_one_plus_exp(x: f64) -> f64 {
    if x > 0.0 { x + (-x).exp().ln_1p() } else { x.exp().ln_1p() }
}

/// Φ.
fn cumulative(x: f64) -> f64 {
    0.5 * erfc(-x * FRAC_1_SQRT_2)
}

/// √(2/π)·(x + 0.044715x³).
fn tanh_argument(x: f64) -> f64 {
    (2.0 / PI).sqrt() * (x + 0.044715 * x.powi(3))
}

fn tanh_slope(x: f64) -> f64 {
    let u = tanh_argument(x);
    let flatness = u.cosh().powi(2).recip();
    let growth = (2.0 / PI).sqrt() * (1.0 + 0.134145 * x.powi(2));
    logistic(2.0 * u) + vanishing(0.5 * x * growth, flatness)
}

/// A product whose second factor vanishes faster than the first grows (PW-R8).
fn vanishing(growing: f64, factor: f64) -> f64 {
    if factor == 0.0 { 0f64.copysign(growing) } else { growing * factor }
}
