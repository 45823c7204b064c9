//! Errors of resampling.

use super::accuracy::{Accumulator, quantum};
use super::interval::Bounded;
use crate::graph::{Port, Resample, ResampleMode};
use crate::reference::oracle::{Contact, DenseF64, Windows, resample_forward};

/// A sum of terms: what its operands' errors add up to, what its terms' magnitudes do, and how many there are.
#[derive(Clone, Copy, Default)]
struct Sum {
    carried: f64,
    magnitude: f64,
    terms: usize,
}

impl Sum {
    fn add(self, value: f64, error: f64) -> Self {
        Self { carried: self.carried + error, magnitude: self.magnitude + value.abs() + error, terms: self.terms + 1 }
    }

    /// Bound of the sum of terms that are multiples of `grid`.
    fn error(self, accumulator: Option<Accumulator>, grid: f64) -> f64 {
        let rounds = |accumulator: &Accumulator| {
            self.terms > 1 && !(self.carried == 0.0 && accumulator.is_exact(self.magnitude, grid))
        };
        let own = |accumulator: Accumulator| accumulator.error(self.terms, self.magnitude);
        self.carried + accumulator.filter(rounds).map_or(0.0, own)
    }

    /// Bound of a sum whose terms are divided by up to `divisor`, before or after they are added, or multiplied by its
    /// reciprocal: two more roundings, none in powers of two.
    fn mean_error(self, accumulator: Option<Accumulator>, grid: f64, divisor: f64, is_dyadic: bool) -> f64 {
        if divisor == 1.0 || self.terms == 0 {
            return self.error(accumulator, grid);
        }
        let magnitude = if self.terms == 1 { 0.0 } else { self.magnitude };
        let is_exact = |accumulator: &Accumulator| {
            is_dyadic && self.carried == 0.0 && accumulator.is_exact(magnitude.max(grid / divisor), grid / divisor)
        };
        let own = |accumulator: Accumulator| {
            accumulator.error(self.terms + 2, self.magnitude) + accumulator.underflow(self.terms + 1, 1.0)
        };
        self.carried + accumulator.filter(|accumulator| !is_exact(accumulator)).map_or(0.0, own)
    }

    /// The sum in units of a divisor.
    fn divided(self, divisor: f64) -> Self {
        Self { carried: self.carried / divisor, magnitude: self.magnitude / divisor, ..self }
    }
}

/// Values and errors of one plane.
#[derive(Clone, Copy)]
struct Plane<'a> {
    operand: &'a Bounded,
    start: usize,
}

impl Plane<'_> {
    fn at(&self, position: usize) -> (f64, f64) {
        (self.operand.dense.values[self.start + position], self.operand.error_at(self.start + position))
    }
}

/// The planes of `[N, C, spatial…]`.
fn planes<'a>(operand: &'a Bounded) -> (usize, impl Fn(usize) -> Plane<'a>) {
    let count = (operand.dense.dim[0] * operand.dense.dim[1]) as usize;
    let len = operand.dense.values.len() / count;
    (count, move |plane| Plane { operand, start: plane * len })
}

/// Bounds of Y or, at port INDEX, of the index, of extents `dim`.
pub(super) fn forward(
    resample: &Resample,
    x: &Bounded,
    dim: &[i64],
    port: Port,
    accumulator: Option<Accumulator>,
) -> Vec<f64> {
    if port == Port::INDEX {
        return radii(resample, x, dim);
    }
    let windows = Windows::new(resample, &x.dense.dim, dim);
    let (count, plane) = planes(x);
    let (grid, divisors) = (quantum(&x.dense.values), windows.divisors());
    windows.per_output(count, |contacts, at| {
        let plane = plane(at);
        match resample.mode {
            ResampleMode::Maxpool => contacts.iter().map(|contact| plane.at(contact.pixel).1).fold(0.0, f64::max),
            ResampleMode::Bilinear => interpolation_error(contacts, plane, resample.window.len(), grid, accumulator),
            ResampleMode::AvgpoolExcludePadding | ResampleMode::AvgpoolIncludePadding | ResampleMode::Nearest => {
                let sum = contacts.iter().fold(Sum::default(), |sum, contact| {
                    let (value, error) = plane.at(contact.pixel);
                    sum.add(value, error)
                });
                mean(contacts, sum, &divisors, grid, accumulator)
            }
        }
    })
}

/// Bound of a sum over a window that is then divided: it may overflow before.
fn mean(contacts: &[Contact], sum: Sum, divisors: &[f64], grid: f64, accumulator: Option<Accumulator>) -> f64 {
    let Some(first) = contacts.first() else { return 0.0 };
    if accumulator.is_some_and(|accumulator| accumulator.error(sum.terms, sum.magnitude).is_infinite()) {
        return f64::INFINITY;
    }
    let divisor = divisors[first.position];
    sum.divided(divisor).mean_error(accumulator, grid, divisor, is_power_of_two(divisor))
}

fn is_power_of_two(divisor: f64) -> bool {
    quantum(&[divisor]) == divisor
}

/// Up to four roundings an axis, of weights that are at most 1; a pixel alone is copied.
fn interpolation_error(
    contacts: &[Contact],
    plane: Plane<'_>,
    axes: usize,
    grid: f64,
    accumulator: Option<Accumulator>,
) -> f64 {
    let terms = contacts.iter().map(|contact| (plane.at(contact.pixel), contact.weight));
    let sum = terms.fold(Sum::default(), |sum, ((value, error), weight)| sum.add(weight * value, weight * error));
    let weights: Vec<f64> = contacts.iter().map(|contact| contact.weight).collect();
    let steps = Sum { terms: if contacts.len() > 1 { 4 * axes } else { 1 }, ..sum };
    steps.error(accumulator, grid * quantum(&weights))
}

/// How far the index of an honest computation may lie from the exact one: to the places that may have the maximum.
fn radii(resample: &Resample, x: &Bounded, dim: &[i64]) -> Vec<f64> {
    let windows = Windows::new(resample, &x.dense.dim, dim);
    let (count, plane) = planes(x);
    let indices = resample_forward(resample, &[&x.dense], dim, Port::INDEX);
    let positions = indices.len() / count;
    let last = windows.volume() as f64 - 1.0;
    windows.per_output(count, |contacts, at| match contacts.first() {
        None => 0.0,
        Some(first) => radius(contacts, plane(at), indices[at * positions + first.position], last),
    })
}

fn radius(contacts: &[Contact], plane: Plane<'_>, index: f64, last: f64) -> f64 {
    let winner = contacts.iter().find(|contact| contact.place as f64 == index);
    let (best, best_error) = winner.map_or((f64::NEG_INFINITY, 0.0), |winner| plane.at(winner.pixel));
    let distance = |contact: &Contact| {
        let (value, error) = plane.at(contact.pixel);
        if error.is_infinite() {
            return last;
        }
        // Of exact values the first one always wins.
        let may_win = error + best_error > 0.0 && value + error >= best - best_error;
        if may_win { (contact.place as f64 - index).abs() } else { 0.0 }
    };
    contacts.iter().map(distance).fold(0.0, f64::max)
}

/// Bounds of DX, of extents `dim`, from DY, the index and X.
pub(super) fn backward(
    resample: &Resample,
    [dy, index, x]: [Option<&Bounded>; 3],
    dim: &[i64],
    accumulator: Option<Accumulator>,
) -> Vec<f64> {
    let Some(dy) = dy else { return Vec::new() };
    let windows = Windows::new(resample, dim, &dy.dense.dim);
    let grid = quantum(&dy.dense.values);
    if resample.mode != ResampleMode::Maxpool {
        return spread(&windows, dy, grid, accumulator);
    }
    let index = match (index, x) {
        (Some(index), _) => index.clone(),
        (None, Some(x)) => located(resample, x, &dy.dense.dim),
        (None, None) => return Vec::new(),
    };
    let (count, plane) = planes(dy);
    let (_, indices) = planes(&index);
    windows.per_pixel(count, |contacts, at| {
        let (plane, indices) = (plane(at), indices(at));
        let sum = contacts.iter().fold(Sum::default(), |sum, contact| {
            let (value, error) = plane.at(contact.position);
            let (index, radius) = indices.at(contact.position);
            let distance = (contact.place as f64 - index).abs();
            match (distance <= radius, radius == 0.0) {
                (false, _) => sum,
                (true, true) => sum.add(value, error),
                // The gradient may go here or elsewhere.
                (true, false) => sum.add(value, value.abs() + error),
            }
        });
        sum.error(accumulator, grid)
    })
}

/// The index of X with its bounds.
fn located(resample: &Resample, x: &Bounded, dim: &[i64]) -> Bounded {
    let values = resample_forward(resample, &[&x.dense], dim, Port::INDEX);
    let error = radii(resample, x, dim).into_iter().map(super::upward).collect();
    Bounded { dense: DenseF64 { dim: dim.to_vec(), values }, error: Some(error) }
}

/// Averages: every window's gradient divided among its pixels.
fn spread(windows: &Windows, dy: &Bounded, grid: f64, accumulator: Option<Accumulator>) -> Vec<f64> {
    let divisors = windows.divisors();
    let (count, plane) = planes(dy);
    windows.per_pixel(count, |contacts, at| {
        let plane = plane(at);
        let (mut sum, mut largest, mut is_dyadic) = (Sum::default(), 1.0, true);
        for contact in contacts {
            let divisor = divisors[contact.position];
            let (value, error) = plane.at(contact.position);
            sum = sum.add(value / divisor, error / divisor);
            largest = f64::max(largest, divisor);
            is_dyadic &= is_power_of_two(divisor);
        }
        sum.mean_error(accumulator, grid, largest, is_dyadic)
    })
}
