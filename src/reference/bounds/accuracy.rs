//! How far from the exact value sums and products of many terms may land.

use crate::graph::DataType;
use crate::host_tensor::power_of_two;

/// Fraction bits and the distance of subnormal numbers of a compute type.
fn precision(compute: DataType) -> (i32, f64) {
    match compute {
        DataType::Double => (52, f64::from_bits(1)),
        DataType::Half => (10, power_of_two(-24)),
        DataType::BFloat16 => (7, power_of_two(-133)),
        DataType::Fp8E4M3 => (3, power_of_two(-9)),
        DataType::Fp8E5M2 => (2, power_of_two(-16)),
        _ => (23, power_of_two(-149)),
    }
}

/// Unit in the last place of a compute type's numbers of this magnitude: the distance of its neighbours within the
/// binade, no less than the distance of subnormal numbers.
pub(super) fn ulp(compute: DataType, magnitude: f64) -> f64 {
    let (fraction, least) = precision(compute);
    let exponent = ((magnitude.abs().to_bits() >> 52) as i32 - 1023).clamp(-1022, 1023);
    if magnitude.is_finite() { f64::max(2f64.powi(exponent - fraction), least) } else { f64::INFINITY }
}

/// Where n numbers are independent, their sum lies with overwhelming probability within this times the root of the sum of
/// their squares (Higham and Mary, theorem 2.4: λ).
pub(super) const INDEPENDENT: f64 = 6.0;

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
        Some(Self {
            roundoff: power_of_two(-bits),
            group,
            exact: power_of_two(bits),
            least: precision(compute).1,
            largest,
        })
    }

    /// Error of a sum of `terms` products whose magnitudes add up to `magnitude`.
    pub(super) fn error(self, terms: usize, magnitude: f64) -> f64 {
        let error = self.relative_error(terms) * magnitude + terms as f64 * self.least;
        if magnitude + error > self.largest { f64::INFINITY } else { error }
    }

    /// What a product of `terms` factors may lose below the normal numbers, where the largest partial product is
    /// `widest`.
    pub(super) fn underflow(self, terms: usize, widest: f64) -> f64 {
        terms as f64 * self.least * widest
    }

    /// Relative error of a sum of `terms`, over the sum of their magnitudes, in any order: `min(n, λ√n)·u` for n
    /// additions. The first is certain (Higham, *Accuracy and Stability of Numerical Algorithms*, 4.2); the second
    /// holds with overwhelming probability where rounding errors are independent (Higham and Mary, *A new approach to
    /// probabilistic rounding error analysis*, theorem 2.4, λ = 6).
    pub(super) fn relative_error(self, terms: usize) -> f64 {
        let additions = (terms as f64 / self.group).ceil();
        additions.min(INDEPENDENT * additions.sqrt()) * self.roundoff
    }

    /// Whether every partial sum of terms that are multiples of `quantum` and add up to at most `magnitude` is exact.
    pub(super) fn is_exact(self, magnitude: f64, quantum: f64) -> bool {
        let represented = quantum >= self.least && magnitude <= self.largest;
        magnitude == 0.0 || (represented && magnitude <= self.exact * quantum)
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
    fn ulps_are_the_distances_of_neighbours() {
        for x in [1.0f32, 1.5, 1.999_999_9, 65504.0, f32::MIN_POSITIVE, 1e-42, 0.0] {
            assert_eq!(ulp(DataType::Float, f64::from(x)), f64::from(x.next_up()) - f64::from(x), "{x}");
        }
        assert_eq!(ulp(DataType::Half, 1.0), 2f64.powi(-10));
        assert_eq!(ulp(DataType::Half, 0.0), 2f64.powi(-24));
        assert_eq!(ulp(DataType::Double, 1.0), f64::EPSILON);
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
        assert!(half.error(8, 65000.0).is_finite());
        assert_eq!(half.error(8, 65505.0), f64::INFINITY);
        assert_eq!(half.error(8, 65400.0), f64::INFINITY, "a rounded sum may be larger");
        assert!(half.is_exact(32768.0, 16384.0) && !half.is_exact(65536.0, 16384.0));
    }

    #[test]
    fn errors_grow_with_terms_but_never_faster() {
        let float = Accumulator::of(DataType::Float).unwrap();
        assert_eq!(float.relative_error(4), 4.0 * 2f64.powi(-24));
        assert_eq!(float.relative_error(10_000), 600.0 * 2f64.powi(-24));
    }
}
