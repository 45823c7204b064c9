//! Errors of reductions and statistics.

use super::accuracy::{Accumulator, quantum};
use super::interval::Bounded;
use crate::graph::ReductionMode;
use crate::reference::oracle::{DenseF64, fold};

/// Bounds of a reduction over the axes on which `dim` is 1 and X is not; `values` are its exact results.
pub(super) fn reduce(
    mode: ReductionMode,
    x: &Bounded,
    dim: &[i64],
    values: &[f64],
    accumulator: Option<Accumulator>,
) -> Vec<f64> {
    let sums = Sums { x, dim, accumulator };
    let count = x.dense.values.len() as f64 / values.len() as f64;
    match mode {
        ReductionMode::Add | ReductionMode::Norm1 => sums.of_terms(|x, e| (x.abs(), e)),
        ReductionMode::Avg => {
            let sum = sums.of_terms(|x, e| (x.abs(), e));
            sum.iter().zip(values).map(|(error, value)| error / count + sums.last_rounding(*value)).collect()
        }
        ReductionMode::Norm2 => {
            let squares = squares(x, dim, accumulator);
            let root = |(error, value): (&f64, &f64)| {
                let high = (value * value + error).sqrt() - value;
                let low = value - (value * value - error).max(0.0).sqrt();
                high.max(low) + sums.last_rounding(*value)
            };
            squares.iter().zip(values).map(root).collect()
        }
        ReductionMode::Min | ReductionMode::Max | ReductionMode::Amax => fold(&x.errors(), dim, 0.0, f64::max),
        ReductionMode::Mul | ReductionMode::MulNoZeros => sums.products(mode),
    }
}

/// Bounds of Σ x².
pub(super) fn squares(x: &Bounded, dim: &[i64], accumulator: Option<Accumulator>) -> Vec<f64> {
    Sums { x, dim, accumulator }.of_terms(|x, e| (x * x, (2.0 * x.abs() + e) * e))
}

struct Sums<'a> {
    x: &'a Bounded,
    dim: &'a [i64],
    accumulator: Option<Accumulator>,
}

impl Sums<'_> {
    /// Folds one number per element, made of its value and bound.
    fn fold(&self, start: f64, number: impl Fn(f64, f64) -> f64, f: impl Fn(f64, f64) -> f64) -> Vec<f64> {
        let elements = self.x.dense.values.iter().enumerate();
        let values = elements.map(|(i, &value)| number(value, self.x.error_at(i))).collect();
        fold(&DenseF64 { dim: self.x.dense.dim.clone(), values }, self.dim, start, f)
    }

    /// Bounds of sums of terms, of which `term(x, error)` gives magnitude and bound. A term may take one rounding.
    fn of_terms(&self, term: impl Fn(f64, f64) -> (f64, f64)) -> Vec<f64> {
        let carried = self.fold(0.0, |x, e| term(x, e).1, |sum, x| sum + x);
        let Some(accumulator) = self.accumulator else { return carried };
        let magnitude = self.fold(0.0, |x, e| term(x, e).0 + term(x, e).1, |sum, x| sum + x);
        let terms = self.x.dense.values.len() / carried.len() + 1;
        let grid: Vec<f64> = self.x.dense.values.iter().map(|&x| term(x, 0.0).0).collect();
        let grid = quantum(&grid);
        let bound = |(carried, magnitude): (f64, f64)| {
            let is_exact = carried == 0.0 && accumulator.is_exact(magnitude, grid);
            carried + if is_exact { 0.0 } else { accumulator.error(terms, magnitude) }
        };
        carried.into_iter().zip(magnitude).map(bound).collect()
    }

    /// Bounds of products: `Π(|x| + e) − Π|x|` is carried, and every multiplication rounds.
    fn products(&self, mode: ReductionMode) -> Vec<f64> {
        let skips = |x: f64| mode == ReductionMode::MulNoZeros && x == 0.0;
        let factor = |x: f64| if skips(x) { 1.0 } else { x.abs() };
        let product = |a: f64, b: f64| a * b;
        let exact = self.fold(1.0, |x, _| factor(x), product);
        let widest = self.fold(
            1.0,
            // Whether a factor that may be zero is left out cannot be told.
            |x, e| {
                if mode == ReductionMode::MulNoZeros && e > 0.0 && x.abs() <= e { f64::INFINITY } else { factor(x) + e }
            },
            product,
        );
        let growth = self.fold(1.0, |x, e| (x.abs() + e).max(1.0), product);
        let terms = self.x.dense.values.len() / exact.len();
        let grid = quantum(&self.x.dense.values);
        let bound = |((exact, widest), growth): ((f64, f64), f64)| {
            if self.accumulator.is_some() && growth > f64::from(f32::MAX) {
                // In some order a partial product overflows, and infinity times a zero that follows is NaN.
                return f64::INFINITY;
            }
            let carried = if widest == exact { 0.0 } else { widest - exact };
            let rounds = |accumulator: &Accumulator| !(grid >= 1.0 && accumulator.is_exact(growth, 1.0));
            let own = self.accumulator.filter(rounds).map_or(0.0, |accumulator| {
                accumulator.relative_error(terms) * widest + accumulator.underflow(terms, growth)
            });
            carried + own
        };
        exact.into_iter().zip(widest).zip(growth).map(bound).collect()
    }

    /// One more operation on a sum, rounded to nearest.
    fn last_rounding(&self, value: f64) -> f64 {
        self.accumulator.map_or(0.0, |accumulator| accumulator.relative_error(1) * value.abs())
    }
}
