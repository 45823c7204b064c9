//! Errors of pointwise operations: operands' errors carried through the function, and the function's own.

use std::f64::consts::SQRT_2;

use super::interval::deviation;
use super::modes::{Accuracy, accuracy, allowed_error};
use crate::graph::{DataType, Pointwise, PointwiseMode as M};
use crate::host_tensor::round_f64;
use crate::reference::landmarks::jumps;
use crate::reference::oracle::{pointwise_scaled, pointwise_value};

/// The exact value for operands `x`, and how far an honest result may lie from it if each operand may be off by its
/// part of `error`. Where the sign of an operand that is zero `is_open`, either counts.
pub(super) fn value_and_error(
    p: &Pointwise,
    compute: DataType,
    (x, error): ([f64; 3], [f64; 3]),
    is_open: [bool; 3],
) -> (f64, f64) {
    let value = pointwise_value(p, compute, x);
    let is_exact_input = error == [0.0; 3];
    let carried = if is_exact_input { 0.0 } else { carried_by_scaled(p, compute, (x, error), value) };
    let sign = sign_error(p, compute, x, is_open, value);
    (value, carried + own(p, compute, x, value, is_exact_input) + sign)
}

/// The mode's own error (`ModeAccuracy`).
fn own(p: &Pointwise, compute: DataType, x: [f64; 3], value: f64, is_exact_input: bool) -> f64 {
    if !compute.is_floating() {
        return 0.0;
    }
    if p.mode == M::AddSquare && x[0] < 0.0 && round_f64(compute, x[1] * x[1]).is_infinite() {
        // A fused operation gives a finite sum or −∞ where the square alone overflows.
        return f64::INFINITY;
    }
    if p.mode.is_backward() && x[0].is_infinite() {
        // ∞ times a slope that may come out as 0 is ∞ or NaN.
        let unit_gradient = [1.0, x[1], x[2]];
        let slope = pointwise_value(p, compute, unit_gradient);
        let may_vanish = slope.abs() <= own(p, compute, unit_gradient, slope, is_exact_input);
        return if may_vanish { f64::INFINITY } else { 0.0 };
    }
    if !value.is_finite() {
        return 0.0;
    }
    let is_representable = || is_exact_input && round_f64(compute, value) == value;
    match accuracy(p) {
        Accuracy::Rounded if is_representable() => 0.0,
        _ => allowed_error(p, compute, x, value),
    }
}

/// As [`carried`], for the operands as the function sees them: times α, as turns and poles are places of those.
fn carried_by_scaled(p: &Pointwise, compute: DataType, (x, error): ([f64; 3], [f64; 3]), value: f64) -> f64 {
    let unscaled = Pointwise { alpha1: 1.0, alpha2: 1.0, ..p.clone() };
    carried(&unscaled, compute, pointwise_scaled(p, x), pointwise_scaled(p, error).map(f64::abs), value)
}

/// Largest change of the value while the operands move by their errors. Whatever is not said here
/// rises or falls between its [`turns`] and jumps.
fn carried(p: &Pointwise, compute: DataType, x: [f64; 3], mut error: [f64; 3], value: f64) -> f64 {
    if p.mode == M::BinarySelect && error[2] == 0.0 {
        // what is not selected does not count, whatever it is
        let unselected = usize::from(x[2] != 0.0);
        error[unselected] = 0.0;
    }
    let [ex, eb, _] = error;
    let may_vanish = |i: usize| error[i] > 0.0 && x[i].abs() <= error[i];
    if error.iter().any(|error| error.is_infinite()) {
        // Nothing is known of an operand; a truth value is at least one of two.
        return if p.mode.is_comparison() || p.mode.is_logical() { 1.0 } else { f64::INFINITY };
    }
    let is_smooth = compute.is_floating() && value.is_finite();
    let between = || corners(p, compute, x, error, value);
    #[warn(clippy::wildcard_enum_match_arm)]
    match p.mode {
        // Ends of intervals show no equality in between.
        M::CmpEq | M::CmpNeq if (x[0] - x[1]).abs() <= ex + eb => 1.0,
        M::LogicalAnd | M::LogicalOr | M::LogicalNot => f64::from(u8::from(may_vanish(0) || may_vanish(1))),
        M::BinarySelect if may_vanish(2) => deviation(x[0], x[1]) + ex.max(eb),
        M::BinarySelect => corners(p, compute, x, [ex, eb, 0.0], value),
        // Poles inside the interval.
        M::Div if may_vanish(1) => f64::INFINITY,
        M::Reciprocal if may_vanish(0) => f64::INFINITY,
        M::Tan if period(x[0] - ex) != period(x[0] + ex) => f64::INFINITY,
        M::Pow if may_vanish(0) && x[1] - eb < 0.0 => f64::INFINITY,
        M::Pow if may_have_a_root(x, error) => f64::INFINITY,
        // The remainder of a division by 0 is NaN.
        M::Mod if eb > 0.0 && eb >= x[1].abs() => f64::INFINITY,
        M::Mod if wraps(x, error) => x[1].abs() + eb,
        // Both have slopes of at most 1, and extremes inside the interval.
        M::Sin | M::Cos => ex.min(2.0),
        // What `corners` would give, for the modes that most epilogues consist of.
        M::Add | M::Sub if is_smooth => ex + eb,
        M::Mul if is_smooth => x[0].abs() * eb + x[1].abs() * ex + ex * eb,
        M::Neg if is_smooth => ex,
        M::Add
        | M::AddSquare
        | M::Sub
        | M::Mul
        | M::Div
        | M::Mod
        | M::Pow
        | M::Max
        | M::Min
        | M::Atan2
        | M::Abs
        | M::Neg => between(),
        M::Sqrt | M::Rsqrt | M::Reciprocal | M::Exp | M::Log | M::Erf | M::Ceil | M::Floor | M::Tan => between(),
        M::Identity | M::GenIndex => between(),
        M::ReluFwd | M::TanhFwd | M::SigmoidFwd | M::EluFwd | M::GeluFwd | M::GeluApproxTanhFwd => between(),
        M::SoftplusFwd | M::SwishFwd => between(),
        M::ReluBwd | M::TanhBwd | M::SigmoidBwd | M::EluBwd | M::GeluBwd | M::GeluApproxTanhBwd => between(),
        M::SoftplusBwd | M::SwishBwd => between(),
        M::CmpEq | M::CmpNeq | M::CmpGt | M::CmpGe | M::CmpLt | M::CmpLe => between(),
    }
}

/// Largest deviation from `value` with every operand at either end of its interval, or where the function turns inside it.
fn corners(p: &Pointwise, compute: DataType, x: [f64; 3], error: [f64; 3], value: f64) -> f64 {
    farthest(p, compute, std::array::from_fn(|i| places(p, i, x[i], error[i])), value)
}

/// Largest deviation from `value` with every operand at any of its places.
fn farthest(p: &Pointwise, compute: DataType, places: [Vec<f64>; 3], value: f64) -> f64 {
    let mut largest = 0.0;
    for &first in &places[0] {
        for &second in &places[1] {
            for &third in &places[2] {
                let moved = pointwise_value(p, compute, [first, second, third]);
                largest = f64::max(largest, deviation(value, moved));
            }
        }
    }
    largest
}

/// What the other sign of operands that are zero would change, of those whose sign is open.
fn sign_error(p: &Pointwise, compute: DataType, x: [f64; 3], is_open: [bool; 3], value: f64) -> f64 {
    let is_told = |i| tells_signs_of_zero(p.mode)[i];
    let may_flip: [bool; 3] = std::array::from_fn(|i| is_open[i] && x[i] == 0.0 && is_told(i));
    if may_flip == [false; 3] || !compute.is_floating() {
        return 0.0;
    }
    let places = std::array::from_fn(|i| if may_flip[i] { vec![0.0, -0.0] } else { vec![x[i]] });
    farthest(p, compute, places, value)
}

/// Whether −0 and +0 of each operand give results that are not the same number.
#[warn(clippy::wildcard_enum_match_arm)]
fn tells_signs_of_zero(mode: M) -> [bool; 3] {
    match mode {
        M::Reciprocal | M::Rsqrt | M::Pow => [true, false, false],
        M::Div => [false, true, false],
        M::Atan2 => [true, true, false],
        M::Add | M::AddSquare | M::Sub | M::Mul | M::Mod | M::Max | M::Min | M::Abs | M::Neg | M::Sqrt => [false; 3],
        M::Exp | M::Log | M::Erf | M::Ceil | M::Floor | M::Sin | M::Cos | M::Tan | M::Identity => [false; 3],
        M::ReluFwd | M::TanhFwd | M::SigmoidFwd | M::EluFwd | M::GeluFwd | M::GeluApproxTanhFwd => [false; 3],
        M::SoftplusFwd | M::SwishFwd => [false; 3],
        M::ReluBwd | M::TanhBwd | M::SigmoidBwd | M::EluBwd | M::GeluBwd | M::GeluApproxTanhBwd => [false; 3],
        M::SoftplusBwd | M::SwishBwd => [false; 3],
        M::CmpEq | M::CmpNeq | M::CmpGt | M::CmpGe | M::CmpLt | M::CmpLe => [false; 3],
        M::LogicalAnd | M::LogicalOr | M::LogicalNot | M::GenIndex | M::BinarySelect => [false; 3],
    }
}

/// Where an operand is tried: at the ends of its interval, and inside at extremes of the function and on either side of
/// its jumps. Between two of these places it only rises or only falls.
fn places(p: &Pointwise, operand: usize, x: f64, error: f64) -> Vec<f64> {
    if error == 0.0 {
        return vec![x];
    }
    let (least, most) = (x - error, x + error);
    let beside = |jump: f64| [jump.next_down(), jump, jump.next_up()];
    let inside = turns(p, operand).into_iter().chain(jumps(p, operand).into_iter().flat_map(beside));
    [least, most].into_iter().chain(inside.filter(|place| (least..=most).contains(place))).collect()
}

/// Where functions of one operand have an extreme, to four digits: near it they hardly change.
#[warn(clippy::wildcard_enum_match_arm)]
fn turns(p: &Pointwise, operand: usize) -> Vec<f64> {
    let beta = f64::from(p.beta());
    let (turning, places) = match p.mode {
        M::GeluFwd | M::GeluApproxTanhFwd => (0, vec![-0.7518]),
        M::SwishFwd => (0, vec![-1.2785 / beta]),
        M::TanhBwd | M::SigmoidBwd => (1, vec![0.0]),
        M::GeluBwd | M::GeluApproxTanhBwd => (1, vec![-SQRT_2, SQRT_2]),
        M::SwishBwd => (1, vec![-2.3994 / beta, 2.3994 / beta]),
        // Sines have a bound of their own; the others rise or fall throughout, or turn at a corner.
        M::Add | M::AddSquare | M::Sub | M::Mul | M::Div | M::Mod | M::Pow | M::Max | M::Min | M::Atan2 => {
            return vec![];
        }
        M::Abs | M::Neg | M::Sqrt | M::Rsqrt | M::Reciprocal | M::Exp | M::Log | M::Erf | M::Ceil => return vec![],
        M::Floor | M::Sin | M::Cos | M::Tan | M::Identity | M::GenIndex | M::BinarySelect => return vec![],
        M::ReluFwd | M::TanhFwd | M::SigmoidFwd | M::EluFwd | M::SoftplusFwd => return vec![],
        M::ReluBwd | M::EluBwd | M::SoftplusBwd => return vec![],
        M::CmpEq | M::CmpNeq | M::CmpGt | M::CmpGe | M::CmpLt | M::CmpLe => return vec![],
        M::LogicalAnd | M::LogicalOr | M::LogicalNot => return vec![],
    };
    if operand == turning { places } else { Vec::new() }
}

/// Which branch of the tangent x lies on.
fn period(x: f64) -> f64 {
    (x / std::f64::consts::PI + 0.5).floor()
}

/// Whether POW may take a root of a negative number, which is NaN, and may not.
fn may_have_a_root(x: [f64; 3], error: [f64; 3]) -> bool {
    let [base, exponent] = [0, 1].map(|i| (x[i] - error[i], x[i] + error[i]));
    let reaches_integer = exponent.0.ceil() <= exponent.1;
    let is_integer = error[1] == 0.0 && reaches_integer;
    base.0 < 0.0 && !is_integer && (base.1 >= 0.0 || reaches_integer)
}

/// Whether the quotient of MOD may have another integer part.
fn wraps(x: [f64; 3], error: [f64; 3]) -> bool {
    let quotient = |a: f64, b: f64| ((x[0] + a * error[0]) / (x[1] + b * error[1])).trunc();
    let signs = [(-1.0, -1.0), (-1.0, 1.0), (1.0, -1.0), (1.0, 1.0)];
    signs.iter().any(|&(a, b)| quotient(a, b) != quotient(0.0, 0.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bound(p: &Pointwise, x: [f64; 3], error: [f64; 3]) -> f64 {
        value_and_error(p, DataType::Float, (x, error), [false; 3]).1
    }

    fn error(mode: M, x: [f64; 3], error: [f64; 3]) -> f64 {
        bound(&Pointwise::new(mode), x, error)
    }

    #[test]
    fn extremes_inside_an_interval_count() {
        for (mode, at, wide) in [(M::GeluFwd, -3.0, 0.16), (M::GeluApproxTanhFwd, -3.0, 0.16), (M::SwishFwd, -4.0, 0.2)]
        {
            assert!(error(mode, [at, 0.0, 0.0], [-at, 0.0, 0.0]) > wide, "{mode:?}");
        }
        assert!(error(M::TanhBwd, [1.0, 3.0, 0.0], [0.0, 6.0, 0.0]) > 0.98);
        assert!(error(M::GeluBwd, [1.0, 0.0, 0.0], [0.0, 9.0, 0.0]) > 0.62);
    }

    #[test]
    fn a_slope_between_two_clips_counts_where_both_are_within_reach() {
        let clipped = Pointwise { relu_upper_clip: Some(6.0), ..Pointwise::new(M::ReluBwd) };
        let reach_of = |x: f64, error| bound(&clipped, [2.0, x, 0.0], [0.0, error, 0.0]);
        for (x, reach, wide) in [(-1.0, 9.0, 2.0), (-1.0, 0.5, 0.0), (5.0, 1.0, 2.0), (5.0, 0.5, 0.0)] {
            assert!((reach_of(x, reach) - wide).abs() < 1e-6, "{x} ± {reach}");
        }
    }

    #[test]
    fn corners_and_jumps_inside_an_interval_count() {
        let falls = Pointwise { relu_lower_clip_slope: Some(-1.0), ..Pointwise::new(M::ReluFwd) };
        assert!(bound(&falls, [3.0, 0.0, 0.0], [4.0, 0.0, 0.0]) >= 3.0);
        let steep = Pointwise { elu_alpha: Some(3.0), ..Pointwise::new(M::EluBwd) };
        assert!(bound(&steep, [1.0, 0.5, 0.0], [0.0, 1.0, 0.0]) >= 2.0);
        assert!(error(M::Atan2, [0.0, -1.0, 0.0], [0.1, 2.0, 0.0]) >= 2.0 * std::f64::consts::PI - 1e-9);
    }

    #[test]
    fn either_sign_of_a_computed_zero_counts() {
        let of =
            |mode, x, is_open| value_and_error(&Pointwise::new(mode), DataType::Float, (x, [0.0; 3]), [is_open; 3]).1;
        let half_turn = std::f64::consts::PI;
        for (mode, x, wide) in [
            (M::Reciprocal, [0.0; 3], f64::INFINITY),
            (M::Div, [1.0, -0.0, 0.0], f64::INFINITY),
            (M::Pow, [0.0, -1.0, 0.0], f64::INFINITY),
            (M::Rsqrt, [-0.0, 0.0, 0.0], f64::INFINITY),
            (M::Atan2, [0.0, -1.0, 0.0], 2.0 * half_turn),
            (M::Pow, [0.0, 2.0, 0.0], 0.0),
            (M::Div, [0.0, 1.0, 0.0], 0.0),
        ] {
            assert!(of(mode, x, true) - of(mode, x, false) >= wide * (1.0 - 1e-9), "{mode:?}");
            assert!(of(mode, x, false) < 1e-6, "{mode:?}");
        }
    }

    #[test]
    fn operands_are_scaled_before_a_function_turns() {
        let scaled = Pointwise { alpha1: 2.0, relu_upper_clip: Some(6.0), ..Pointwise::new(M::ReluBwd) };
        assert!(bound(&scaled, [1.0, -0.5, 0.0], [0.0, 4.0, 0.0]) >= 1.0);
        let equal = Pointwise { alpha2: 2.0, ..Pointwise::new(M::CmpEq) };
        assert_eq!(bound(&equal, [4.0, 2.1, 0.0], [0.0, 0.2, 0.0]), 1.0);
    }

    #[test]
    fn exact_operands_and_representable_results_have_no_error() {
        assert_eq!(error(M::Add, [1.0, 2.0, 0.0], [0.0; 3]), 0.0);
        assert_eq!(error(M::ReluFwd, [-1.5, 0.0, 0.0], [0.0; 3]), 0.0);
        assert!(error(M::Add, [1.0, 2f64.powi(-30), 0.0], [0.0; 3]) > 0.0);
    }

    #[test]
    fn errors_are_multiplied_by_the_slope() {
        let squared = error(M::Mul, [3.0, 3.0, 0.0], [0.1, 0.0, 0.0]);
        assert!((squared - 0.3).abs() < 1e-6);
    }

    #[test]
    fn jumps_within_reach_are_covered() {
        let reach = [1e-3, 0.0, 0.0];
        assert_eq!(error(M::Floor, [2.9999, 0.0, 0.0], reach), 1.0);
        assert_eq!(error(M::Floor, [2.9, 0.0, 0.0], reach), 0.0);
        assert_eq!(error(M::CmpEq, [2.0005, 2.0, 0.0], reach), 1.0);
        assert_eq!(error(M::CmpGt, [2.0005, 2.0, 0.0], reach), 1.0);
        assert_eq!(error(M::CmpGt, [2.1, 2.0, 0.0], reach), 0.0);
        assert_eq!(error(M::BinarySelect, [5.0, -5.0, 1e-4], [0.0, 0.0, 1e-3]), 10.0);
        let nothing = f64::INFINITY;
        assert_eq!(error(M::BinarySelect, [f64::NAN, -5.0, 0.0], [nothing, 0.125, 0.0]), 0.125);
        assert_eq!(error(M::BinarySelect, [4.0, f64::NAN, 1.0], [0.25, nothing, 0.0]), 0.25);
        assert_eq!(error(M::BinarySelect, [4.0, 3.0, 1.0], [nothing, 0.0, 0.0]), nothing);
        assert!(error(M::Mod, [5.9999, 2.0, 0.0], reach) >= 2.0);
        assert_eq!(error(M::Pow, [-2.0, 3.001, 0.0], [0.0, 1e-2, 0.0]), f64::INFINITY);
        assert!(error(M::Pow, [-2.0, 3.0, 0.0], [1e-2, 0.0, 0.0]) < 0.2);
        assert_eq!(error(M::Pow, [-2.0, 3.5, 0.0], [1e-2, 1e-2, 0.0]), 0.0);
        assert_eq!(error(M::Mod, [1.0, 1e-4, 0.0], [0.0, 1e-3, 0.0]), f64::INFINITY);
        assert_eq!(error(M::Reciprocal, [1e-4, 0.0, 0.0], reach), f64::INFINITY);
        assert_eq!(error(M::Pow, [1e-4, -2.0, 0.0], reach), f64::INFINITY);
        assert!(error(M::Pow, [1e-4, 2.0, 0.0], reach) < 1e-5);
        assert_eq!(error(M::Log, [1e-4, 0.0, 0.0], reach), f64::INFINITY);
        let unknown = [f64::INFINITY, 0.0, 0.0];
        assert_eq!(error(M::EluFwd, [f64::NAN, 0.0, 0.0], unknown), f64::INFINITY);
        assert_eq!(error(M::CmpGt, [f64::NAN, 0.0, 0.0], unknown), 1.0);
    }
}
