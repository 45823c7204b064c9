//! Values with bounds on their errors, and rounding of both.

use std::borrow::Cow;
use std::ops::Range;

use rayon::prelude::*;

use crate::graph::DataType;
use crate::host_tensor::round_f64;
use crate::reference::oracle::{DenseF64, holds_all};
use crate::reference::overrides::Overrides;

/// A tensor's values and, element by element, how far an honest computation's value may lie from them; no bounds where
/// all are 0.
#[derive(Clone, Debug)]
pub(super) struct Bounded {
    pub(super) dense: DenseF64,
    pub(super) error: Option<Vec<f32>>,
}

impl Bounded {
    /// Values without errors.
    pub(super) fn exact(dense: DenseF64) -> Self {
        Self { dense, error: None }
    }

    /// The bound of one element.
    pub(super) fn error_at(&self, position: usize) -> f64 {
        self.error.as_ref().map_or(0.0, |error| f64::from(error[position]))
    }

    /// Values with the padding value beyond the override extents of a matmul, which is exact.
    pub(super) fn padded(&self, overrides: &Overrides, side: [usize; 2]) -> Self {
        let dim: Vec<usize> = self.dense.dim.iter().map(|&extent| extent as usize).collect();
        let mut error = self.error.clone();
        if let Some(error) = &mut error {
            overrides.pad(error, &dim, side, 0.0);
        }
        Self { dense: overrides.padded(&self.dense, side), error }
    }

    /// Makes some elements 0, which is exact.
    pub(super) fn clear(&mut self, elements: Range<usize>) {
        self.dense.values[elements.clone()].fill(0.0);
        self.error.iter_mut().for_each(|error| error[elements.clone()].fill(0.0));
    }

    /// All bounds as values of a tensor.
    pub(super) fn errors(&self) -> DenseF64 {
        let values = (0..self.dense.values.len()).map(|position| self.error_at(position)).collect();
        DenseF64 { dim: self.dense.dim.clone(), values }
    }

    /// Values and bounds rounded to one type after the other.
    pub(super) fn rounded(dim: &[i64], pairs: Vec<(f64, f64)>, types: &[DataType]) -> Self {
        let (values, errors): (Vec<f64>, Vec<f32>) = pairs
            .into_par_iter()
            .map(|pair| {
                let (value, error) = types.iter().fold(pair, |pair, &data_type| round(data_type, pair));
                (value, upward(error))
            })
            .unzip();
        let error = errors.par_iter().any(|&error| error != 0.0).then_some(errors);
        Self { dense: DenseF64 { dim: dim.to_vec(), values }, error }
    }

    /// Values of this storage type converted to a compute type.
    pub(super) fn converted(&self, storage: DataType, compute: DataType) -> Cow<'_, Self> {
        if holds_all(compute, storage) {
            return Cow::Borrowed(self);
        }
        let pairs = (0..self.dense.values.len()).map(|i| (self.dense.values[i], self.error_at(i))).collect();
        Cow::Owned(Self::rounded(&self.dense.dim, pairs, &[compute]))
    }
}

/// Distance of two results: 0 if equal or both NaN, infinite if only one is finite.
pub(super) fn deviation(a: f64, b: f64) -> f64 {
    if a == b || (a.is_nan() && b.is_nan()) {
        return 0.0;
    }
    let distance = (a - b).abs();
    if distance.is_nan() { f64::INFINITY } else { distance }
}

/// The least bound as a float that is not below it.
pub(super) fn upward(error: f64) -> f32 {
    let nearest = error as f32;
    if error.is_nan() {
        f32::INFINITY
    } else if f64::from(nearest) < error {
        nearest.next_up()
    } else {
        nearest
    }
}

/// A value rounded to a type, and the largest change of the rounded value while the value moves by its error.
fn round(data_type: DataType, (value, error): (f64, f64)) -> (f64, f64) {
    let rounded = round_f64(data_type, value);
    if error == 0.0 {
        return (rounded, 0.0);
    }
    // a bound that is NaN is one of an operation on infinite ones
    if !error.is_finite() {
        return (rounded, f64::INFINITY);
    }
    if data_type == DataType::Boolean {
        // Only zero itself is false, and it may lie anywhere in the interval.
        return (rounded, f64::from(u8::from(value.is_nan() || value.abs() <= error)));
    }
    let reach = |end: f64| deviation(rounded, round_f64(data_type, end));
    (rounded, reach(value - error).max(reach(value + error)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounding_swallows_small_errors_and_shows_jumps() {
        assert_eq!(round(DataType::BFloat16, (1.001, 1e-4)), (1.0, 0.0));
        let step = 2f64.powi(-7);
        assert_eq!(round(DataType::BFloat16, (1.0 + step / 2.0 - 1e-6, 1e-5)), (1.0, step));
        assert_eq!(round(DataType::Int8, (2.5, 1e-9)), (2.0, 1.0));
        assert_eq!(round(DataType::Int8, (1e6, 1e3)), (127.0, 0.0));
        assert_eq!(round(DataType::Boolean, (1e-9, 1e-8)), (1.0, 1.0));
        assert_eq!(round(DataType::Boolean, (1.0, 1e-8)), (1.0, 0.0));
    }

    #[test]
    fn overflow_within_reach_is_incomparable() {
        assert_eq!(round(DataType::Half, (65519.0, 2.0)), (65504.0, f64::INFINITY));
        assert_eq!(round(DataType::Float, (f64::NAN, 1.0)).1, 0.0);
        assert_eq!(round(DataType::Int8, (f64::NAN, f64::INFINITY)).1, f64::INFINITY);
        assert_eq!(round(DataType::Float, (f64::NAN, f64::NAN)).1, f64::INFINITY);
    }

    #[test]
    fn bounds_are_never_rounded_down() {
        assert!(f64::from(upward(0.1)) >= 0.1);
        assert!(upward(1e-60) > 0.0);
        assert_eq!(upward(f64::NAN), f32::INFINITY);
    }
}
