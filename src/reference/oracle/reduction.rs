//! Reductions by their definition (operations.md sections 5 and 6).

use std::num::Wrapping;

use super::DenseF64;
use super::number::Number;
use crate::graph::ReductionMode;

/// The operator over the axes on which `dim` is 1 and X is not.
pub(super) fn reduce(mode: ReductionMode, operands: &[&DenseF64], dim: &[i64], is_integer: bool) -> Vec<f64> {
    let &[x] = operands else { return Vec::new() };
    let count = (x.values.len() as i64 / dim.iter().product::<i64>()) as f64;
    let sum = |term: fn(f64) -> f64| sums(x, dim, is_integer, term);
    let finish = |values: Vec<f64>, f: &dyn Fn(f64) -> f64| values.into_iter().map(f).collect();
    match mode {
        ReductionMode::Add => sum(|x| x),
        ReductionMode::Norm1 => sum(f64::abs),
        ReductionMode::Avg if is_integer => finish(sum(|x| x), &|sum| (sum / count).trunc()),
        ReductionMode::Avg => finish(sum(|x| x), &|sum| sum / count),
        ReductionMode::Norm2 => finish(sum_of_squares(operands, dim, is_integer), &f64::sqrt),
        ReductionMode::Mul => products(x, dim, is_integer, |x| x),
        ReductionMode::MulNoZeros => products(x, dim, is_integer, |x| if x == 0.0 { 1.0 } else { x }),
        ReductionMode::Min => fold(x, dim, f64::INFINITY, |least, x| if x < least || x.is_nan() { x } else { least }),
        ReductionMode::Max => fold(x, dim, f64::NEG_INFINITY, |most, x| if x > most || x.is_nan() { x } else { most }),
        ReductionMode::Amax => fold(x, dim, 0.0, |most, x| if x.abs() > most || x.is_nan() { x.abs() } else { most }),
    }
}

/// Σ x².
pub(super) fn sum_of_squares(operands: &[&DenseF64], dim: &[i64], is_integer: bool) -> Vec<f64> {
    let &[x] = operands else { return Vec::new() };
    if is_integer {
        // The square of a large integer is no double.
        wrapped(fold(x, dim, Wrapping(0i64), |sum, x| sum + Wrapping::from_f64(x) * Wrapping::from_f64(x)))
    } else {
        sums(x, dim, is_integer, |x| x * x)
    }
}

fn sums(x: &DenseF64, dim: &[i64], is_integer: bool, term: fn(f64) -> f64) -> Vec<f64> {
    if is_integer {
        wrapped(fold(x, dim, Wrapping(0i64), |sum, x| sum + Wrapping::from_f64(term(x))))
    } else {
        fold(x, dim, 0.0, |sum, x| sum + term(x))
    }
}

fn products(x: &DenseF64, dim: &[i64], is_integer: bool, term: fn(f64) -> f64) -> Vec<f64> {
    if is_integer {
        wrapped(fold(x, dim, Wrapping(1i64), |product, x| product * Wrapping::from_f64(term(x))))
    } else {
        fold(x, dim, 1.0, |product, x| product * term(x))
    }
}

fn wrapped(values: Vec<Wrapping<i64>>) -> Vec<f64> {
    values.into_iter().map(Number::to_f64).collect()
}

/// Folds every element into the result it belongs to, in row-major order. A NaN found by a comparison stays.
pub(in crate::reference) fn fold<T: Copy>(x: &DenseF64, dim: &[i64], start: T, f: impl Fn(T, f64) -> T) -> Vec<T> {
    let mut results = vec![start; dim.iter().product::<i64>() as usize];
    let strides: Vec<usize> = kept_strides(&x.dim, dim);
    let mut index = vec![0; x.dim.len()];
    let mut place = 0;
    for &value in &x.values {
        results[place] = f(results[place], value);
        for axis in (0..index.len()).rev() {
            index[axis] += 1;
            place += strides[axis];
            if index[axis] < x.dim[axis] {
                break;
            }
            place -= strides[axis] * x.dim[axis] as usize;
            index[axis] = 0;
        }
    }
    results
}

/// Row-major strides of the result, 0 on reduced axes.
fn kept_strides(x: &[i64], dim: &[i64]) -> Vec<usize> {
    let mut strides = vec![0; x.len()];
    let mut step = 1;
    for axis in (0..x.len()).rev() {
        if dim[axis] == x[axis] {
            strides[axis] = step;
        }
        step *= dim[axis] as usize;
    }
    strides
}
