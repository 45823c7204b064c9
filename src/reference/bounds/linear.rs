//! Errors of matmuls and convolutions: `|Σ a·b| ≤ ‖a‖·‖b‖` (Cauchy and Schwarz) for the accumulation, and the same with
//! operands' errors in place of one factor.

use std::ops::Range;

use super::accuracy::{Accumulator, quantum};
use super::interval::Bounded;
use crate::graph::{Convolution, ConvolutionDirection};
use crate::reference::block_mask::Blocks;
use crate::reference::oracle::{DenseF64, convolve, last_two, matrix_of};

/// Norms of the vectors whose inner products a result consists of.
struct Norms {
    value: Vec<f64>,
    error: Vec<f64>,
    /// Whether a vector is at most one ±1 among zeros, so that a product only selects.
    selects: Vec<bool>,
}

impl Norms {
    /// From sums of squares of an operand's values and errors.
    fn of(operand: &Bounded, sum: impl Fn(&[f64]) -> Vec<f64>) -> Self {
        let root = |sums: Vec<f64>| sums.into_iter().map(f64::sqrt).collect::<Vec<f64>>();
        let squares = |values: &[f64]| values.iter().map(|x| x * x).collect::<Vec<f64>>();
        let value = root(sum(&squares(&operand.dense.values)));
        let error = match &operand.error {
            Some(_) => root(sum(&squares(&operand.errors().values))),
            None => vec![0.0; value.len()],
        };
        let weights = (0..operand.dense.values.len()).map(|position| weight(operand, position)).collect::<Vec<f64>>();
        let selects = sum(&weights).into_iter().map(|weight| weight <= 1.0).collect();
        Self { value, error, selects }
    }
}

/// Of zeros 0, of ±1 1, of all else more.
fn weight(operand: &Bounded, position: usize) -> f64 {
    match operand.dense.values[position].abs() {
        _ if operand.error_at(position) != 0.0 => 2.0,
        0.0 => 0.0,
        1.0 => 1.0,
        _ => 2.0,
    }
}

/// Inner products of `terms` terms each.
pub(super) struct Products {
    left: Norms,
    right: Norms,
    terms: usize,
    /// Every product is a multiple of this.
    quantum: f64,
}

impl Products {
    /// Bound of the inner product of a left and a right vector.
    fn error(&self, accumulator: Option<Accumulator>, left: usize, right: usize) -> f64 {
        let (a, b) = (self.left.value[left], self.right.value[right]);
        let (ea, eb) = (self.left.error[left], self.right.error[right]);
        let (magnitude, carried) = ((a + ea) * (b + eb), a * eb + ea * b + ea * eb);
        let selects = (self.left.selects[left] || self.right.selects[right]) && magnitude.is_finite();
        match accumulator {
            _ if selects && carried == 0.0 => 0.0,
            Some(accumulator) if carried > 0.0 || !accumulator.is_exact(magnitude, self.quantum) => {
                carried + accumulator.error(self.terms, magnitude)
            }
            _ => carried,
        }
    }
}

fn common_quantum(operands: [&Bounded; 2]) -> f64 {
    operands.iter().map(|operand| quantum(&operand.dense.values)).product()
}

/// Bounds of `A·B` for every element of C, of extents `dim`.
pub(super) fn matmul(a: &Bounded, b: &Bounded, dim: &[i64], accumulator: Option<Accumulator>) -> Vec<f64> {
    let rank = dim.len();
    let (m, n) = (dim[rank - 2] as usize, dim[rank - 1] as usize);
    let k = a.dense.dim[a.dense.dim.len() - 1] as usize;
    let column_sums = |squares: &[f64]| squares.chunks(k * n).flat_map(|matrix| sum_columns(matrix, n)).collect();
    let products = Products {
        left: Norms::of(a, |squares| sum_rows(squares, k)),
        right: Norms::of(b, column_sums),
        terms: k,
        quantum: common_quantum([a, b]),
    };
    let rows = dim[..rank - 1].iter().product::<i64>() as usize;
    let row = |row: usize| {
        let left = matrix_of(&a.dense, dim, row / m) * m + row % m;
        let right = matrix_of(&b.dense, dim, row / m) * n;
        (right..right + n).map(|right| products.error(accumulator, left, right)).collect::<Vec<f64>>()
    };
    (0..rows).flat_map(row).collect()
}

/// As [`matmul`], of the terms that a mask of tiles of A keeps: rows with the same tiles are products of their own, with the others' terms 0.
pub(super) fn matmul_of_blocks(
    a: &Bounded,
    b: &Bounded,
    dim: &[i64],
    accumulator: Option<Accumulator>,
    blocks: &Blocks,
) -> Vec<f64> {
    let ([m, n], k) = (last_two(dim), last_two(&a.dense.dim)[1]);
    let batches = dim.iter().product::<i64>() as usize / (m * n);
    let of_batches = |last: [usize; 2]| [&dim[..dim.len() - 2], &last.map(|extent| extent as i64)].concat();
    let mut errors = vec![0.0; batches * m * n];
    for rows in blocks.rows() {
        let own_a = matrices(a, dim, (m * k, rows.start * k..rows.end * k), of_batches([rows.len(), k]));
        let mut own_b = matrices(b, dim, (k * n, 0..k * n), of_batches([k, n]));
        for batch in 0..batches {
            let first = batch * k * n;
            for terms in blocks.left_out(batch, rows.start) {
                own_b.clear(first + terms.start * n..first + terms.end * n);
            }
        }
        let own = matmul(&own_a, &own_b, &of_batches([rows.len(), n]), accumulator);
        for (errors, own) in errors.chunks_mut(m * n).zip(own.chunks(rows.len() * n)) {
            errors[rows.start * n..rows.end * n].copy_from_slice(own);
        }
    }
    errors
}

/// A part of each matrix of an operand, of so many elements, for every batch of a product: a tensor of these extents.
fn matrices(operand: &Bounded, product: &[i64], (size, part): (usize, Range<usize>), dim: Vec<i64>) -> Bounded {
    let batches = product[..product.len() - 2].iter().product::<i64>() as usize;
    let starts = (0..batches).map(|batch| matrix_of(&operand.dense, product, batch) * size);
    let parts: Vec<Range<usize>> = starts.map(|start| start + part.start..start + part.end).collect();
    let values = parts.iter().flat_map(|part| operand.dense.values[part.clone()].iter().copied()).collect();
    let error = |error: &Vec<f32>| parts.iter().flat_map(|part| error[part.clone()].iter().copied()).collect();
    Bounded { dense: DenseF64 { dim, values }, error: operand.error.as_ref().map(error) }
}

fn sum_rows(values: &[f64], row: usize) -> Vec<f64> {
    values.chunks(row).map(|row| row.iter().sum()).collect()
}

/// Sums over images and pixels of `[batch, planes, …]`.
fn sum_planes(values: &[f64], batch: usize, planes: usize) -> Vec<f64> {
    let mut sums = vec![0.0; planes];
    for (plane, values) in values.chunks(values.len() / (batch * planes)).enumerate() {
        sums[plane % planes] += values.iter().sum::<f64>();
    }
    sums
}

fn sum_columns(matrix: &[f64], columns: usize) -> Vec<f64> {
    let mut sums = vec![0.0; columns];
    for row in matrix.chunks(columns) {
        sums.iter_mut().zip(row).for_each(|(sum, x)| *sum += x);
    }
    sums
}

/// Bounds of a convolution for every element of its result, of extents `dim`, before α and β.
///
/// Norms of patches are themselves convolutions, of squares with a window of ones.
pub(super) fn convolution(
    convolution: &Convolution,
    [first, second]: [&Bounded; 2],
    dim: &[i64],
    accumulator: Option<Accumulator>,
) -> Vec<f64> {
    let spatial = convolution.stride.len();
    let plane: usize = dim[dim.len() - spatial..].iter().product::<i64>() as usize;
    let shape = Shape::new(convolution, first, second, dim);
    let (left, right) = match convolution.direction {
        ConvolutionDirection::Forward => {
            let filters = |squares: &[f64]| sum_rows(squares, shape.channels * shape.taps);
            (shape.patches(convolution, [first, second], dim), Norms::of(second, filters))
        }
        ConvolutionDirection::BackwardData => {
            let channels = |squares: &[f64]| shape.per_channel(squares);
            (shape.patches(convolution, [first, second], dim), Norms::of(second, channels))
        }
        ConvolutionDirection::BackwardFilter => {
            let planes = |planes: usize| move |squares: &[f64]| sum_planes(squares, shape.batch, planes);
            let (all_filters, all_channels) = (shape.groups * shape.filters, shape.groups * shape.channels);
            (Norms::of(first, planes(all_filters)), Norms::of(second, planes(all_channels)))
        }
    };
    let terms = shape.terms(convolution.direction);
    let products = Products { left, right, terms, quantum: common_quantum([first, second]) };
    let place = |i: usize| shape.place(convolution.direction, i / plane, i % plane, plane);
    let elements = dim.iter().product::<i64>() as usize;
    (0..elements).map(place).map(|(left, right)| products.error(accumulator, left, right)).collect()
}

/// Products of which an element of a convolution's result consists, those with padding among them.
pub(super) fn terms(convolution: &Convolution, [first, second]: [&Bounded; 2], dim: &[i64]) -> usize {
    Shape::new(convolution, first, second, dim).terms(convolution.direction)
}

/// Sizes of a convolution; channels and filters are counted per group.
#[derive(Clone, Copy)]
struct Shape {
    batch: usize,
    groups: usize,
    channels: usize,
    filters: usize,
    taps: usize,
    positions: usize,
    is_grouped_axis: bool,
}

impl Shape {
    fn new(convolution: &Convolution, first: &Bounded, second: &Bounded, dim: &[i64]) -> Self {
        let (first, second) = (&first.dense.dim[..], &second.dense.dim[..]);
        let (x, w, y) = match convolution.direction {
            ConvolutionDirection::Forward => (first, second, dim),
            ConvolutionDirection::BackwardData => (dim, second, first),
            ConvolutionDirection::BackwardFilter => (second, dim, first),
        };
        let lead = x.len() - convolution.stride.len();
        let volume = |dim: &[i64]| dim.iter().product::<i64>() as usize;
        let channels = w[lead - 1] as usize;
        let groups = volume(&x[1..lead]) / channels;
        Self {
            batch: x[0] as usize,
            groups,
            channels,
            filters: volume(&w[..lead - 1]) / groups,
            taps: volume(&w[lead..]),
            positions: volume(&y[lead..]),
            is_grouped_axis: lead == 3,
        }
    }

    fn terms(&self, direction: ConvolutionDirection) -> usize {
        match direction {
            ConvolutionDirection::Forward => self.channels * self.taps,
            ConvolutionDirection::BackwardData => self.filters * self.taps,
            ConvolutionDirection::BackwardFilter => self.batch * self.positions,
        }
    }

    /// Norms of what each result of a plane touches in the first operand: index `(image·groups + group)·plane + i`.
    fn patches(&self, convolution: &Convolution, [operand, filter]: [&Bounded; 2], dim: &[i64]) -> Norms {
        let spatial = convolution.stride.len();
        let window = self.window(convolution.direction, &filter.dense.dim[filter.dense.dim.len() - spatial..]);
        let groups = self.groups as i64;
        let lead = if self.is_grouped_axis { vec![dim[0], groups, 1] } else { vec![dim[0], groups] };
        let result = [&lead, &dim[dim.len() - spatial..]].concat();
        Norms::of(operand, |squares| {
            let squares = DenseF64 { dim: operand.dense.dim.clone(), values: squares.to_vec() };
            convolve(convolution, &[&squares, &window], &result, false)
        })
    }

    /// A window of ones with one filter (forward) or one channel (backward data) a group.
    fn window(&self, direction: ConvolutionDirection, extents: &[i64]) -> DenseF64 {
        let (filters, channels) = match direction {
            ConvolutionDirection::Forward => (1, self.channels as i64),
            _ => (self.filters as i64, 1),
        };
        let groups = self.groups as i64;
        let lead =
            if self.is_grouped_axis { vec![groups, filters, channels] } else { vec![groups * filters, channels] };
        let dim = [&lead, extents].concat();
        DenseF64 { values: vec![1.0; dim.iter().product::<i64>() as usize], dim }
    }

    /// Sums over filters and taps, per group and channel.
    fn per_channel(&self, squares: &[f64]) -> Vec<f64> {
        let mut sums = vec![0.0; self.groups * self.channels];
        for (row, values) in squares.chunks(self.taps).enumerate() {
            let (filter, channel) = (row / self.channels, row % self.channels);
            sums[filter / self.filters * self.channels + channel] += values.iter().sum::<f64>();
        }
        sums
    }

    /// Left and right vector of element `i` of a plane of the result.
    fn place(&self, direction: ConvolutionDirection, index: usize, i: usize, plane: usize) -> (usize, usize) {
        let of_image = |per_group: usize| {
            let all = self.groups * per_group;
            let (image, row) = (index / all, index % all);
            ((image * self.groups + row / per_group) * plane + i, row)
        };
        match direction {
            ConvolutionDirection::Forward => of_image(self.filters),
            ConvolutionDirection::BackwardData => of_image(self.channels),
            ConvolutionDirection::BackwardFilter => {
                let (filter, channel) = (index / self.channels, index % self.channels);
                (filter, filter / self.filters * self.channels + channel)
            }
        }
    }
}
