//! Exact enough numbers: doubles, and integers modulo 2^64, which are exact modulo 2^32 too.

use std::num::Wrapping;
use std::ops::{Add, Mul};

/// A number the oracle's sums run over.
pub(super) trait Number: Copy + Send + Sync + Default + Add<Output = Self> + Mul<Output = Self> {
    fn from_f64(x: f64) -> Self;
    /// The value as a double; integers wrap to 32 bits (PW-R7).
    fn to_f64(self) -> f64;
}

impl Number for f64 {
    fn from_f64(x: f64) -> Self {
        x
    }
    fn to_f64(self) -> f64 {
        self
    }
}

impl Number for Wrapping<i64> {
    fn from_f64(x: f64) -> Self {
        Self(x as i64)
    }
    fn to_f64(self) -> f64 {
        f64::from(self.0 as i32)
    }
}

/// Values as numbers.
pub(super) fn numbers<T: Number>(values: &[f64]) -> Vec<T> {
    values.iter().map(|&x| T::from_f64(x)).collect()
}
