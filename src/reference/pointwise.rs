//! The pointwise modes of the CPU engine (operations.md 4.2), on rows of values.

use std::borrow::Cow;

use super::math::{Real, erf, erfc};
use crate::graph::{DataType, Pointwise, PointwiseMode as M};
use crate::host_tensor::{Lane, Lanes};

/// Applies a mode to rows of equal length, all converted to `compute`; the result is of type `compute` too.
///
/// Rows are in port order: backward modes take DY first (PW-R9); `GEN_INDEX` takes the index, not its input.
pub(super) fn apply(pointwise: &Pointwise, compute: DataType, rows: &[Cow<Lanes>]) -> Lanes {
    match rows.first().map(Cow::as_ref) {
        Some(Lanes::F32(_)) => finish(floats::<f32>(pointwise, rows), compute),
        Some(Lanes::F64(_)) => finish(floats::<f64>(pointwise, rows), compute),
        Some(Lanes::I32(_)) => integers::<i32>(pointwise, rows)
            .map_or_else(|| through_f64(pointwise, compute, rows), |values| finish(values, compute)),
        Some(Lanes::I64(_)) => integers::<i64>(pointwise, rows)
            .map_or_else(|| through_f64(pointwise, compute, rows), |values| finish(values, compute)),
        None => Lanes::empty(compute, 0),
    }
}

fn finish<T: Lane>(values: Vec<T>, compute: DataType) -> Lanes {
    T::into_lanes(values).into_converted(T::DATA_TYPE, compute)
}

fn row<'a, T: Lane>(rows: &'a [Cow<Lanes>], port: usize) -> &'a [T] {
    rows.get(port).map_or(&[], |lanes| T::slice(lanes))
}

fn map<T: Copy>(x: &[T], f: impl Fn(T) -> T) -> Vec<T> {
    x.iter().map(|&x| f(x)).collect()
}

fn zip<T: Copy>(x: &[T], b: &[T], f: impl Fn(T, T) -> T) -> Vec<T> {
    x.iter().zip(b).map(|(&x, &b)| f(x, b)).collect()
}

/// `t ≠ 0 ? x : b`.
fn select<T: Copy + Default + PartialEq>(x: &[T], b: &[T], t: &[T]) -> Vec<T> {
    x.iter().zip(b).zip(t).map(|((&x, &b), &t)| if t != T::default() { x } else { b }).collect()
}

/// α1·X and α2·B, where they are not 1; by 0 all is 0.
fn scaled<'a, T: Copy + Default>(x: &'a [T], factor: f32, scale: impl Fn(T, f32) -> T) -> Cow<'a, [T]> {
    match factor {
        1.0 => Cow::Borrowed(x),
        0.0 => Cow::Owned(vec![T::default(); x.len()]),
        _ => Cow::Owned(map(x, |x| scale(x, factor))),
    }
}

/// One arm a mode, so that a new one does not compile before it is defined here.
#[warn(clippy::wildcard_enum_match_arm)]
fn floats<T: Real + Lane>(p: &Pointwise, rows: &[Cow<Lanes>]) -> Vec<T> {
    let scale = |x: T, factor: f32| x * T::of(f64::from(factor));
    // Gradients read DY first, which is not scaled (PW-R9).
    let (dy, x_port) = if p.mode.is_backward() { (row(rows, 0), 1) } else { (&[][..], 0) };
    let x = &*scaled(row(rows, x_port), p.alpha1, scale);
    let b = &*scaled(if p.mode.is_backward() { &[] } else { row(rows, 1) }, p.alpha2, scale);
    let (alpha, beta, nan) = (f64::from(p.alpha()), f64::from(p.beta()), p.propagates_nan());
    let is_true = |x: T| x != T::default();
    match p.mode {
        M::Add => zip(x, b, |x, b| x + b),
        M::AddSquare => zip(x, b, wide(|x, b| x + b * b)),
        M::Sub => zip(x, b, |x, b| x - b),
        M::Mul => zip(x, b, |x, b| x * b),
        M::Div => zip(x, b, |x, b| x / b),
        M::Mod => zip(x, b, |x, b| x % b),
        M::Pow => zip(x, b, wide(f64::powf)),
        M::Atan2 => zip(x, b, wide(f64::atan2)),
        M::Max => zip(x, b, |x, b| if b > x || if nan { b.is_nan() } else { x.is_nan() } { b } else { x }),
        M::Min => zip(x, b, |x, b| if b < x || if nan { b.is_nan() } else { x.is_nan() } { b } else { x }),
        M::Abs => map(x, T::abs),
        M::Neg => map(x, |x| -x),
        M::Sqrt => map(x, once(f64::sqrt)),
        M::Rsqrt => map(x, once(|x| x.sqrt().recip())),
        M::Reciprocal => map(x, once(f64::recip)),
        M::Exp => map(x, once(f64::exp)),
        M::Log => map(x, once(f64::ln)),
        M::Erf => map(x, once(erf)),
        M::Ceil => map(x, T::ceil),
        M::Floor => map(x, T::floor),
        M::Sin => map(x, once(f64::sin)),
        M::Cos => map(x, once(f64::cos)),
        M::Tan => map(x, once(f64::tan)),
        // The row of GEN_INDEX is the index.
        M::Identity | M::GenIndex => x.to_vec(),
        M::ReluFwd => map(x, relu(p)),
        M::TanhFwd => map(x, once(f64::tanh)),
        M::SigmoidFwd => map(x, once(sigmoid)),
        M::EluFwd => map(x, once(|x| if x < 0.0 { alpha * x.exp_m1() } else { x })),
        M::GeluFwd => map(x, once(|x| product_with_limit(x, normal_cdf(x)))),
        M::GeluApproxTanhFwd => map(x, once(|x| product_with_limit(x, sigmoid(2.0 * gelu_argument(x))))),
        M::SoftplusFwd => map(x, once(|x| softplus(x * beta) / beta)),
        M::SwishFwd => map(x, once(|x| product_with_limit(x, sigmoid(x * beta)))),
        M::ReluBwd => zip(dy, x, relu_backward(p)),
        M::TanhBwd => gradient(dy, x, |x| 4.0 * sigmoid(2.0 * x) * sigmoid(-2.0 * x)),
        M::SigmoidBwd => gradient(dy, x, |x| sigmoid(x) * sigmoid(-x)),
        M::EluBwd => gradient(dy, x, |x| elu_slope(x, alpha)),
        M::GeluBwd => gradient(dy, x, |x| normal_cdf(x) + product_with_limit(x, normal_density(x))),
        M::GeluApproxTanhBwd => gradient(dy, x, gelu_tanh_slope),
        M::SoftplusBwd => gradient(dy, x, |x| sigmoid(x * beta)),
        M::SwishBwd => gradient(dy, x, |x| swish_slope(x * beta)),
        M::CmpEq => zip(x, b, |x, b| truth(x == b)),
        M::CmpNeq => zip(x, b, |x, b| truth(x != b)),
        M::CmpGt => zip(x, b, |x, b| truth(x > b)),
        M::CmpGe => zip(x, b, |x, b| truth(x >= b)),
        M::CmpLt => zip(x, b, |x, b| truth(x < b)),
        M::CmpLe => zip(x, b, |x, b| truth(x <= b)),
        M::LogicalAnd => zip(x, b, |x, b| truth(is_true(x) && is_true(b))),
        M::LogicalOr => zip(x, b, |x, b| truth(is_true(x) || is_true(b))),
        M::LogicalNot => map(x, |x| truth(!is_true(x))),
        M::BinarySelect => select(x, b, row(rows, 2)),
    }
}

/// A function of one operand in double precision, rounded once.
fn once<T: Real>(f: impl Fn(f64) -> f64) -> impl Fn(T) -> T {
    move |x| T::of(f(x.widened()))
}

/// DX from DY and the forward input, by the derivative of the forward mode there (O-05).
fn gradient<T: Real>(dy: &[T], x: &[T], derivative: impl Fn(f64) -> f64) -> Vec<T> {
    zip(dy, x, wide(|dy, x| dy * derivative(x)))
}

/// A function of two operands in double precision, rounded once.
fn wide<T: Real>(f: impl Fn(f64, f64) -> f64) -> impl Fn(T, T) -> T {
    move |x, b| T::of(f(x.widened(), b.widened()))
}

fn elu_slope(x: f64, alpha: f64) -> f64 {
    if x < 0.0 {
        alpha * x.exp()
    } else if x.is_nan() {
        x
    } else {
        1.0
    }
}

/// The derivative of SWISH at x = z / β.
fn swish_slope(z: f64) -> f64 {
    sigmoid(z) + product_with_limit(z, sigmoid(z) * sigmoid(-z))
}

fn truth<T: Real>(condition: bool) -> T {
    T::of(f64::from(u8::from(condition)))
}

/// O-13, O-15.
fn relu<T: Real>(p: &Pointwise) -> impl Fn(T) -> T {
    let (low, high, slope) = clips(p);
    let nan = p.propagates_nan();
    move |x| {
        if x < low {
            // A slope of 0 is the clip itself, at −∞ too.
            if slope == T::default() { low } else { low + slope * (x - low) }
        } else if x > high {
            high
        } else if x.is_nan() && !nan {
            low
        } else {
            x
        }
    }
}

/// O-06: the derivative at the clips is that outside of them. NaN as in the forward mode: it stays NaN, or counts as
/// the lower clip.
fn relu_backward<T: Real>(p: &Pointwise) -> impl Fn(T, T) -> T {
    let (low, high, slope) = clips(p);
    let nan = p.propagates_nan();
    move |dy, x| {
        let derivative = if x.is_nan() && nan {
            x
        } else if x.is_nan() || x <= low {
            slope
        } else if x >= high {
            T::default()
        } else {
            T::of(1.0)
        };
        dy * derivative
    }
}

fn clips<T: Real>(p: &Pointwise) -> (T, T, T) {
    (T::of(p.lower_clip().into()), T::of(p.upper_clip().into()), T::of(p.lower_slope().into()))
}

/// PW-R8: no overflow on either side.
fn sigmoid(x: f64) -> f64 {
    if x >= 0.0 {
        1.0 / (1.0 + (-x).exp())
    } else {
        let e = x.exp();
        e / (1.0 + e)
    }
}

/// PW-R8: `max(x, 0) + ln1p(e^−|x|)`.
fn softplus(x: f64) -> f64 {
    let positive = if x < 0.0 { 0.0 } else { x };
    positive + (-x.abs()).exp().ln_1p()
}

/// `x·factor`, where a factor that vanishes faster than x grows gives the limit, a zero with the sign of x (PW-R8).
fn product_with_limit(x: f64, factor: f64) -> f64 {
    if factor == 0.0 { 0f64.copysign(x) } else { x * factor }
}

/// Φ, relatively accurate in both tails.
fn normal_cdf(x: f64) -> f64 {
    0.5 * erfc(-x * std::f64::consts::FRAC_1_SQRT_2)
}

/// φ.
fn normal_density(x: f64) -> f64 {
    std::f64::consts::FRAC_2_SQRT_PI * std::f64::consts::FRAC_1_SQRT_2 / 2.0 * (-0.5 * x * x).exp()
}

/// √(2/π)·(x + 0.044715x³).
fn gelu_argument(x: f64) -> f64 {
    (2.0 * std::f64::consts::FRAC_1_PI).sqrt() * (x + 0.044715 * x * x * x)
}

/// With u the argument: ½(1 + tanh u) = sigmoid(2u), ½(1 − tanh²u) = 2·sigmoid(2u)·sigmoid(−2u); the latter is
/// multiplied in first, so that no power of a large x overflows before it vanishes.
fn gelu_tanh_slope(x: f64) -> f64 {
    let u = 2.0 * gelu_argument(x);
    let (up, down) = (sigmoid(u), sigmoid(-u));
    let tail = product_with_limit(x, (8.0 * std::f64::consts::FRAC_1_PI).sqrt() * up * down);
    up + (tail + 0.134145 * product_with_limit(x, product_with_limit(x, tail)))
}

/// Two's complement arithmetic (PW-R7).
trait Integer: Lane + Ord {
    const ZERO: Self;
    fn from_bool(condition: bool) -> Self;
    fn scale(self, factor: f32) -> Self;
    fn wrapping_add(self, other: Self) -> Self;
    fn wrapping_sub(self, other: Self) -> Self;
    fn wrapping_mul(self, other: Self) -> Self;
    fn wrapping_abs(self) -> Self;
    fn wrapping_neg(self) -> Self;
    /// Truncates toward zero; 0 for a zero divisor, whose value is unspecified.
    fn quotient(self, other: Self) -> Self;
    /// Sign of the dividend (O-04); 0 for a zero divisor.
    fn remainder(self, other: Self) -> Self;
}

macro_rules! integer {
    ($type:ty) => {
        impl Integer for $type {
            const ZERO: Self = 0;
            fn from_bool(condition: bool) -> Self {
                Self::from(condition)
            }
            fn scale(self, factor: f32) -> Self {
                (self as f64 * f64::from(factor)).round_ties_even() as Self
            }
            fn wrapping_add(self, other: Self) -> Self {
                self.wrapping_add(other)
            }
            fn wrapping_sub(self, other: Self) -> Self {
                self.wrapping_sub(other)
            }
            fn wrapping_mul(self, other: Self) -> Self {
                self.wrapping_mul(other)
            }
            fn wrapping_abs(self) -> Self {
                self.wrapping_abs()
            }
            fn wrapping_neg(self) -> Self {
                self.wrapping_neg()
            }
            fn quotient(self, other: Self) -> Self {
                if other == 0 { 0 } else { self.wrapping_div(other) }
            }
            fn remainder(self, other: Self) -> Self {
                if other == 0 { 0 } else { self.wrapping_rem(other) }
            }
        }
    };
}

integer!(i32);
integer!(i64);

/// `None` for modes without an integer form.
#[warn(clippy::wildcard_enum_match_arm)]
fn integers<T: Integer>(p: &Pointwise, rows: &[Cow<Lanes>]) -> Option<Vec<T>> {
    let x = scaled(row::<T>(rows, 0), p.alpha1, T::scale);
    let b = scaled(row::<T>(rows, 1), p.alpha2, T::scale);
    let is = T::from_bool;
    Some(match p.mode {
        M::Add => zip(&x, &b, T::wrapping_add),
        M::AddSquare => zip(&x, &b, |x, b| x.wrapping_add(b.wrapping_mul(b))),
        M::Sub => zip(&x, &b, T::wrapping_sub),
        M::Mul => zip(&x, &b, T::wrapping_mul),
        M::Div => zip(&x, &b, T::quotient),
        M::Mod => zip(&x, &b, T::remainder),
        M::Max => zip(&x, &b, T::max),
        M::Min => zip(&x, &b, T::min),
        M::Abs => map(&x, T::wrapping_abs),
        M::Neg => map(&x, T::wrapping_neg),
        M::Ceil | M::Floor | M::Identity | M::GenIndex => x.into_owned(),
        M::CmpEq => zip(&x, &b, |x, b| is(x == b)),
        M::CmpNeq => zip(&x, &b, |x, b| is(x != b)),
        M::CmpGt => zip(&x, &b, |x, b| is(x > b)),
        M::CmpGe => zip(&x, &b, |x, b| is(x >= b)),
        M::CmpLt => zip(&x, &b, |x, b| is(x < b)),
        M::CmpLe => zip(&x, &b, |x, b| is(x <= b)),
        M::LogicalAnd => zip(&x, &b, |x, b| is(x != T::ZERO && b != T::ZERO)),
        M::LogicalOr => zip(&x, &b, |x, b| is(x != T::ZERO || b != T::ZERO)),
        M::LogicalNot => map(&x, |x| is(x == T::ZERO)),
        M::BinarySelect => select(&x, &b, row(rows, 2)),
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

/// Modes without an integer form, which no surface offers in integer precision: computed in double precision and
/// rounded to the compute type.
fn through_f64(p: &Pointwise, compute: DataType, rows: &[Cow<Lanes>]) -> Lanes {
    let wide: Vec<Cow<Lanes>> = rows.iter().map(|lanes| Cow::Owned(Lanes::F64(lanes.to_f64()))).collect();
    finish(floats::<f64>(p, &wide), compute)
}
