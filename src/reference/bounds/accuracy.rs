//! How far from the exact value an honest implementation of an operation may land.

use crate::graph::{DataType, Pointwise, PointwiseMode as M};
use crate::host_tensor::power_of_two;

/// Stated accuracy of a pointwise mode in its compute type, operands taken as exact.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Accuracy {
    /// The result is a value of the compute type and has no error.
    Exact,
    /// Rounded to nearest: half a unit in the last place, nothing where the exact value needs no rounding.
    Rounded,
    /// So many units in the last place of the mode's scale: the size of the result, or of the largest intermediate
    /// value of the usual formula where terms cancel.
    Ulps(f64),
}

/// The stated accuracy of each mode in floating compute types. Every figure is met by the CUDA mathematics library
/// (default options: no fast mathematics, IEEE division and roots), by the C library behind the CPU engine, and by
/// formulas built from them; integer compute types are exact. In the order of [`M::ALL`].
///
/// Elementary functions: at most 2 ulp (`exp`, `log`, `sin`, `cos`, `tanh`, `erf`, `rsqrt`, `expm1`, `log1p`), 4 ulp
/// (`tan`, `pow`, `atan2`) there; the activations combine two or three of them.
pub const ACCURACY: [(M, Accuracy); 51] = [
    (M::Add, Accuracy::Rounded),
    (M::AddSquare, Accuracy::Ulps(1.5)),
    (M::Sub, Accuracy::Rounded),
    (M::Mul, Accuracy::Rounded),
    (M::Div, Accuracy::Rounded),
    (M::Mod, Accuracy::Exact),
    (M::Pow, Accuracy::Ulps(8.0)),
    (M::Max, Accuracy::Exact),
    (M::Min, Accuracy::Exact),
    (M::Atan2, Accuracy::Ulps(4.0)),
    (M::Abs, Accuracy::Exact),
    (M::Neg, Accuracy::Exact),
    (M::Sqrt, Accuracy::Rounded),
    (M::Rsqrt, Accuracy::Ulps(2.0)),
    (M::Reciprocal, Accuracy::Rounded),
    (M::Exp, Accuracy::Ulps(2.0)),
    (M::Log, Accuracy::Ulps(2.0)),
    (M::Erf, Accuracy::Ulps(4.0)),
    (M::Ceil, Accuracy::Exact),
    (M::Floor, Accuracy::Exact),
    (M::Sin, Accuracy::Ulps(4.0)),
    (M::Cos, Accuracy::Ulps(4.0)),
    (M::Tan, Accuracy::Ulps(4.0)),
    (M::Identity, Accuracy::Exact),
    (M::ReluFwd, Accuracy::Ulps(1.5)),
    (M::TanhFwd, Accuracy::Ulps(4.0)),
    (M::SigmoidFwd, Accuracy::Ulps(4.0)),
    (M::EluFwd, Accuracy::Ulps(4.0)),
    (M::GeluFwd, Accuracy::Ulps(4.0)),
    (M::GeluApproxTanhFwd, Accuracy::Ulps(6.0)),
    (M::SoftplusFwd, Accuracy::Ulps(6.0)),
    (M::SwishFwd, Accuracy::Ulps(6.0)),
    (M::ReluBwd, Accuracy::Rounded),
    (M::TanhBwd, Accuracy::Ulps(6.0)),
    (M::SigmoidBwd, Accuracy::Ulps(6.0)),
    (M::EluBwd, Accuracy::Ulps(4.0)),
    (M::GeluBwd, Accuracy::Ulps(8.0)),
    (M::GeluApproxTanhBwd, Accuracy::Ulps(12.0)),
    (M::SoftplusBwd, Accuracy::Ulps(6.0)),
    (M::SwishBwd, Accuracy::Ulps(8.0)),
    (M::CmpEq, Accuracy::Exact),
    (M::CmpNeq, Accuracy::Exact),
    (M::CmpGt, Accuracy::Exact),
    (M::CmpGe, Accuracy::Exact),
    (M::CmpLt, Accuracy::Exact),
    (M::CmpLe, Accuracy::Exact),
    (M::LogicalAnd, Accuracy::Exact),
    (M::LogicalOr, Accuracy::Exact),
    (M::LogicalNot, Accuracy::Exact),
    (M::GenIndex, Accuracy::Exact),
    (M::BinarySelect, Accuracy::Exact),
];

/// The row of [`ACCURACY`] for an operation; RELU without slope only selects.
pub(super) fn accuracy(pointwise: &Pointwise) -> Accuracy {
    let scales = pointwise.alpha1 != 1.0 || pointwise.alpha2 != 1.0;
    let row = ACCURACY[pointwise.mode as usize].1;
    match row {
        _ if pointwise.mode == M::ReluFwd && pointwise.lower_slope() == 0.0 && !scales => Accuracy::Exact,
        Accuracy::Ulps(ulps) if scales => Accuracy::Ulps(ulps + 2.0),
        _ if scales => Accuracy::Ulps(2.0),
        row => row,
    }
}

/// Times 2^-23 this is the least normal `FLOAT`: what a formula may lose where an intermediate overflows or vanishes.
const VANISHING: f64 = power_of_two(-103);

/// What the ulps of a mode count in: `result` is its exact value for `operands`, in port order (backward modes: DY,
/// X).
///
/// Beside the result itself: terms that cancel (`x·(1 + erf)`, `1 − tanh²`), and arguments of exponentials, whose
/// rounding error the exponential multiplies by their size.
pub(super) fn scale(p: &Pointwise, [first, second, _]: [f64; 3], result: f64) -> f64 {
    let beta = f64::from(p.beta());
    let (size, dy, x) = (result.abs(), first.abs(), second);
    let logistic = |x: f64| 1.0 / (1.0 + (-x).exp());
    match p.mode {
        M::AddSquare => first.abs() + second * second,
        M::ReluFwd => size + f64::from(p.lower_clip()).abs() + (f64::from(p.lower_slope()) * first).abs(),
        M::SigmoidFwd => size + VANISHING,
        M::GeluFwd | M::GeluApproxTanhFwd => first.abs(),
        M::SoftplusFwd => size * (1.0 + (beta * first).abs()) + VANISHING / beta.abs(),
        M::SwishFwd => size * (1.0 + (beta * first).abs()) + first.abs() * VANISHING,
        M::TanhBwd => dy,
        M::SigmoidBwd => dy * (logistic(x) + VANISHING),
        M::GeluBwd => dy * 2.0,
        // Beyond 8 the hyperbolic tangent is 1 in FLOAT, and nothing is left to be multiplied.
        M::GeluApproxTanhBwd if x.abs() < 8.0 => dy * (1.0 + 0.4 * x.abs() * (1.0 + 0.134_145 * x * x)),
        M::GeluApproxTanhBwd => dy,
        M::SoftplusBwd => size * (1.0 + (beta * x).abs()) + dy * VANISHING,
        M::SwishBwd => {
            let (s, z) = (logistic(beta * x), (beta * x).abs());
            dy * (s * (1.0 + z) * (1.0 + z * logistic(-beta * x)) + VANISHING * (1.0 + z))
        }
        _ => size,
    }
}

/// A unit in the last place over the value, at most, and the distance of subnormal numbers of a compute type.
pub(super) fn unit(compute: DataType) -> (f64, f64) {
    match compute {
        DataType::Double => (power_of_two(-52), f64::from_bits(1)),
        DataType::Half => (power_of_two(-10), power_of_two(-24)),
        DataType::BFloat16 => (power_of_two(-7), power_of_two(-133)),
        DataType::Fp8E4M3 => (power_of_two(-3), power_of_two(-9)),
        DataType::Fp8E5M2 => (power_of_two(-2), power_of_two(-16)),
        _ => (power_of_two(-23), power_of_two(-149)),
    }
}

/// How sums are accumulated.
#[derive(Clone, Copy, Debug)]
pub(super) struct Accumulator {
    /// Largest relative error of one addition.
    roundoff: f64,
    /// Terms added exactly before one rounding.
    group: f64,
    /// Sums of integers up to this are exact in any order.
    exact: f64,
    /// Distance of the smallest numbers: what one product may lose beside its relative error.
    least: f64,
    /// Largest finite number: beyond it a partial sum may overflow, whatever the sum is.
    largest: f64,
}

impl Accumulator {
    /// The accumulator of a compute type; `None` where sums are exact.
    ///
    /// FP8 tensor cores with fast accumulation keep about 14 bits of a sum and add 32 products at a time, as measured
    /// on Hopper and described in the DeepSeek-V3 report (section 3.3.2).
    pub(super) fn of(compute: DataType) -> Option<Self> {
        let (bits, group, largest) = match compute {
            DataType::FastFloatForFp8 => (13, 32.0, f64::from(f32::MAX)),
            DataType::Double => (53, 1.0, f64::MAX),
            DataType::Half => (11, 1.0, 65504.0),
            DataType::Float => (24, 1.0, f64::from(f32::MAX)),
            _ => return None,
        };
        Some(Self { roundoff: power_of_two(-bits), group, exact: power_of_two(bits), least: unit(compute).1, largest })
    }

    /// Error of a sum of `terms` products whose magnitudes add up to `magnitude`.
    pub(super) fn error(self, terms: usize, magnitude: f64) -> f64 {
        if magnitude > self.largest {
            return f64::INFINITY;
        }
        self.relative_error(terms) * magnitude + terms as f64 * self.least
    }

    /// What a product of `terms` factors may lose below the normal numbers, where the largest partial product is
    /// `widest`.
    pub(super) fn underflow(self, terms: usize, widest: f64) -> f64 {
        terms as f64 * self.least * widest
    }

    /// Relative error of a sum of `terms`, over the sum of their magnitudes, in any order: `min(n, 6√n)·u` for n
    /// additions. The first is certain (Higham, *Accuracy and Stability of Numerical Algorithms*, 4.2); the second
    /// holds with overwhelming probability where rounding errors are independent (Higham and Mary, *A new approach to
    /// probabilistic rounding error analysis*, theorem 2.4 with λ = 6).
    pub(super) fn relative_error(self, terms: usize) -> f64 {
        let additions = (terms as f64 / self.group).ceil();
        additions.min(6.0 * additions.sqrt()) * self.roundoff
    }

    /// Whether every partial sum of terms that are multiples of `quantum` and add up to at most `magnitude` is exact.
    pub(super) fn is_exact(self, magnitude: f64, quantum: f64) -> bool {
        magnitude == 0.0 || (magnitude <= self.exact * quantum && quantum >= self.least)
    }
}

/// The largest power of two of which every value is a multiple; 0 if there is none above zero.
pub(super) fn quantum(values: &[f64]) -> f64 {
    values.iter().filter(|&&x| x != 0.0).map(|&x| lowest_bit(x)).fold(f64::INFINITY, f64::min)
}

/// Value of the lowest set bit of the significand; 0 for infinities and NaN.
fn lowest_bit(x: f64) -> f64 {
    if !x.is_finite() {
        return 0.0;
    }
    let bits = x.abs().to_bits();
    let (exponent, fraction) = ((bits >> 52) as i32, bits & ((1 << 52) - 1));
    let significand = if exponent == 0 { fraction } else { fraction | 1 << 52 };
    2f64.powi(exponent.max(1) - 1075 + significand.trailing_zeros() as i32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mode_has_one_row() {
        for (mode, row) in M::ALL.iter().zip(ACCURACY) {
            assert_eq!(*mode, row.0);
        }
    }

    #[test]
    fn quantum_is_the_common_grid() {
        assert_eq!(quantum(&[3.0, -8.0, 0.0]), 1.0);
        assert_eq!(quantum(&[0.75, 2.0]), 0.25);
        assert_eq!(quantum(&[f64::NAN, 1.0]), 0.0);
        assert_eq!(quantum(&[12.0]), 4.0);
    }

    #[test]
    fn small_integer_sums_are_exact_and_large_ones_are_not() {
        let float = Accumulator::of(DataType::Float).unwrap();
        assert!(float.is_exact(2f64.powi(24), 1.0));
        assert!(!float.is_exact(2f64.powi(24) + 1.0, 1.0));
        assert!(Accumulator::of(DataType::Int32).is_none());
    }

    #[test]
    fn sums_that_may_overflow_on_the_way_are_incomparable() {
        let half = Accumulator::of(DataType::Half).unwrap();
        assert!(half.error(8, 65504.0).is_finite());
        assert_eq!(half.error(8, 65505.0), f64::INFINITY);
    }

    #[test]
    fn errors_grow_with_terms_but_never_faster() {
        let float = Accumulator::of(DataType::Float).unwrap();
        assert_eq!(float.relative_error(4), 4.0 * 2f64.powi(-24));
        assert_eq!(float.relative_error(10_000), 600.0 * 2f64.powi(-24));
    }
}
