//! Convolutions of the CPU engine: patches of the image as columns of a matrix, then matrix products.

use std::ops::Range;

use rayon::prelude::*;

use super::element::Element;
use super::linear::{Matrix, add_product, transpose};
use super::matmul::load;
use crate::error::Result;
use crate::graph::{Convolution, ConvolutionDirection, ConvolutionMode};
use crate::host_tensor::{HostTensor, reserve, to_usize};

/// Elements of a patch matrix held at a time.
const PANEL: usize = 1 << 20;

/// Sizes of a convolution, with channels counted per group and one to three spatial axes padded to three.
///
/// Row-major, both group forms (operations.md 3.3) have the same elements in the same order, so that X is
/// `[batch, groups, channels, input]`, W `[groups, filters, channels, window]`, Y `[batch, groups, filters, output]`.
#[derive(Clone, Debug)]
pub(super) struct Geometry {
    batch: usize,
    groups: usize,
    channels: usize,
    filters: usize,
    input: [usize; 3],
    window: [usize; 3],
    output: [usize; 3],
    stride: [usize; 3],
    dilation: [usize; 3],
    padding: [usize; 3],
    is_rotated: bool,
}

impl Geometry {
    /// Of extents that fit each other (CV-R2 … CV-R5); `None` for more than three spatial axes.
    pub(super) fn new(convolution: &Convolution, x: &[i64], w: &[i64], y: &[i64]) -> Option<Self> {
        let spatial = convolution.stride.len();
        let pad = |values: &[i64], fill: usize| {
            let mut padded = [fill; 3];
            padded.get_mut(3usize.checked_sub(values.len())?..)?.copy_from_slice(&to_usize(values));
            Some(padded)
        };
        let tail = |dim: &[i64]| pad(dim.get(dim.len().checked_sub(spatial)?..)?, 1);
        let [x_lead, w_lead] = [x, w].map(|dim| to_usize(&dim[..dim.len().saturating_sub(spatial)]));
        let (groups, channels, filters) = match (&x_lead[..], &w_lead[..]) {
            ([_, all], [filters, channels]) => {
                let groups = all.checked_div(*channels)?;
                (groups, *channels, filters.checked_div(groups)?)
            }
            ([_, groups, channels], [_, filters, _]) => (*groups, *channels, *filters),
            _ => return None,
        };
        Some(Self {
            batch: *x_lead.first()?,
            groups,
            channels,
            filters,
            input: tail(x)?,
            window: tail(w)?,
            output: tail(y)?,
            stride: pad(&convolution.stride, 1)?,
            dilation: pad(&convolution.dilation, 1)?,
            padding: pad(&convolution.pre_padding, 0)?,
            is_rotated: convolution.mode == ConvolutionMode::Convolution,
        })
    }

    fn pixels(&self) -> usize {
        self.input.iter().product()
    }

    fn positions(&self) -> usize {
        self.output.iter().product()
    }

    /// Rows of the patch matrix: channels times taps of the window.
    fn patch(&self) -> usize {
        self.channels * self.window.iter().product::<usize>()
    }

    /// Output positions whose patches are held at a time.
    fn panel(&self) -> usize {
        (PANEL / self.patch()).clamp(64, 1 << 14).min(self.positions())
    }

    /// Distance from the start of the window to a tap, in pixels.
    fn reach(&self, axis: usize, r: usize) -> usize {
        self.dilation[axis] * if self.is_rotated { self.window[axis] - 1 - r } else { r }
    }

    /// Outputs on one axis that read a pixel inside the image through tap `r`: those with
    /// `0 ≤ p·stride + reach − padding < input` (3.4).
    fn inside(&self, axis: usize, r: usize) -> Range<usize> {
        let (reach, padding, stride) = (self.reach(axis, r), self.padding[axis], self.stride[axis]);
        let start = padding.saturating_sub(reach).div_ceil(stride);
        let end = (self.input[axis] + padding).saturating_sub(reach).div_ceil(stride);
        start..end.min(self.output[axis])
    }

    /// Pixel coordinate on one axis that output `p` reads through tap `r`.
    fn source(&self, axis: usize, p: usize, r: usize) -> usize {
        p * self.stride[axis] + self.reach(axis, r) - self.padding[axis]
    }

    /// The pixel that an output position reads through a tap, if the image has it.
    fn pixel(&self, position: usize, tap: usize) -> Option<usize> {
        let (p, r) = (split(position, self.output), split(tap, self.window));
        let is_inside = (0..3).all(|axis| self.inside(axis, r[axis]).contains(&p[axis]));
        let [slice, row, column] = std::array::from_fn(|axis| is_inside.then(|| self.source(axis, p[axis], r[axis])));
        Some((slice? * self.input[1] + row?) * self.input[2] + column?)
    }

    /// Visits every stretch of a panel's output positions on one line that read pixels inside the image through a tap.
    fn for_each_line(&self, positions: Range<usize>, mut visit: impl FnMut(Line)) {
        for tap in 0..self.window.iter().product() {
            let r = split(tap, self.window);
            let [slices, rows, columns] = [0, 1, 2].map(|axis| self.inside(axis, r[axis]));
            let mut position = positions.start;
            while position < positions.end {
                let p = split(position, self.output);
                let line_end = positions.end.min(position + self.output[2] - p[2]);
                let start = columns.start.max(p[2]);
                let end = columns.end.min(p[2] + line_end - position);
                if slices.contains(&p[0]) && rows.contains(&p[1]) && start < end {
                    let row = self.source(0, p[0], r[0]) * self.input[1] + self.source(1, p[1], r[1]);
                    let pixel = row * self.input[2] + self.source(2, start, r[2]);
                    let column = position - positions.start + start - p[2];
                    visit(Line { tap, column, pixel, len: end - start });
                }
                position = line_end;
            }
        }
    }

    /// Patches as columns: row `(channel, tap)`, one column a position of the panel. Outside the image lie zeros.
    fn gather<T: Element>(&self, image: &[T], positions: Range<usize>) -> Vec<T> {
        let (pixels, taps, columns) = (self.pixels(), self.patch() / self.channels, positions.len());
        let mut patches = vec![T::default(); self.patch() * columns];
        self.for_each_line(positions, |line| {
            for channel in 0..self.channels {
                let row = &mut patches[(channel * taps + line.tap) * columns + line.column..][..line.len];
                let source = image[channel * pixels + line.pixel..].iter().step_by(self.stride[2]);
                row.iter_mut().zip(source).for_each(|(value, pixel)| *value = *pixel);
            }
        });
        patches
    }

    /// Adds patches, as [`Self::gather`] gives them, onto the pixels they came from.
    fn scatter<T: Element>(&self, patches: &[T], positions: Range<usize>, image: &mut [T]) {
        let (pixels, taps, columns) = (self.pixels(), self.patch() / self.channels, positions.len());
        self.for_each_line(positions, |line| {
            for channel in 0..self.channels {
                let row = &patches[(channel * taps + line.tap) * columns + line.column..][..line.len];
                let target = image[channel * pixels + line.pixel..].iter_mut().step_by(self.stride[2]);
                target.zip(row).for_each(|(pixel, value)| *pixel = pixel.add(*value));
            }
        });
    }

    /// Ranges of output positions, one a panel.
    fn panels(&self) -> impl Iterator<Item = Range<usize>> + use<> {
        let (panel, end) = (self.panel(), self.positions());
        (0..end).step_by(panel).map(move |start| start..end.min(start + panel))
    }
}

/// Output positions, one after the other, that read every `stride`-th pixel through the same tap.
struct Line {
    tap: usize,
    /// First column of the panel.
    column: usize,
    /// First pixel of the image.
    pixel: usize,
    len: usize,
}

/// Index on three axes of a row-major position.
fn split(position: usize, extents: [usize; 3]) -> [usize; 3] {
    let [_, height, width] = extents;
    [position / width / height, position / width % height, position % width]
}

/// The result of a convolution in row-major order (operations.md 3.4), before α and β. `inputs` are X, W; DY, W; or
/// DY, X.
pub(super) fn convolve<T: Element>(
    direction: ConvolutionDirection,
    geometry: &Geometry,
    inputs: [&HostTensor; 2],
) -> Result<Vec<T>> {
    let (first, second) = (load::<T>(inputs[0])?, load::<T>(inputs[1])?);
    match direction {
        ConvolutionDirection::Forward => forward(geometry, &first, &second),
        ConvolutionDirection::BackwardData => backward_data(geometry, &first, &second),
        ConvolutionDirection::BackwardFilter => backward_filter(geometry, &first, &second),
    }
}

fn zeros<T: Element>(len: usize) -> Result<Vec<T>> {
    let mut values = reserve(len)?;
    values.resize(len, T::default());
    Ok(values)
}

/// `Y[n,g] = W[g]·patches(X[n,g])`.
fn forward<T: Element>(g: &Geometry, x: &[T], w: &[T]) -> Result<Vec<T>> {
    let (patch, positions) = (g.patch(), g.positions());
    let mut y = zeros(g.batch * g.groups * g.filters * positions)?;
    let images = x.par_chunks(g.channels * g.pixels());
    y.par_chunks_mut(g.filters * positions).zip(images).enumerate().for_each(|(i, (y, image))| {
        let filters = &w[i % g.groups * g.filters * patch..][..g.filters * patch];
        for panel in g.panels() {
            let patches = g.gather(image, panel.clone());
            let (w, x) = (Matrix { data: filters, stride: patch }, Matrix { data: &patches, stride: panel.len() });
            add_product(&mut y[panel.start..], positions, panel.len(), w, x, patch);
        }
        for (y, filter) in y.chunks_mut(positions).zip(filters.chunks(patch)) {
            let sums = y.iter_mut().enumerate().filter(|(_, sum)| sum.is_nan());
            sums.for_each(|(position, sum)| *sum = inside_sum(g, image, filter, position));
        }
    });
    Ok(y)
}

/// A sum of [`forward`] without the zeros that were gathered outside the image: there is no such term (3.4), and times an infinite
/// weight it would be NaN.
fn inside_sum<T: Element>(g: &Geometry, image: &[T], filter: &[T], position: usize) -> T {
    let taps = g.patch() / g.channels;
    let terms = (0..g.patch()).filter_map(|row| {
        let pixel = g.pixel(position, row % taps)?;
        Some((filter[row], image[row / taps * g.pixels() + pixel]))
    });
    terms.fold(T::default(), |sum, (weight, pixel)| sum.add_product(weight, pixel))
}

/// `patches(DX[n,g]) += W[g]ᵀ·DY[n,g]`.
fn backward_data<T: Element>(g: &Geometry, dy: &[T], w: &[T]) -> Result<Vec<T>> {
    let (patch, positions) = (g.patch(), g.positions());
    let filters: Vec<Vec<T>> = w.chunks(g.filters * patch).map(|w| transpose(w, patch)).collect();
    let mut dx = zeros(g.batch * g.groups * g.channels * g.pixels())?;
    let gradients = dy.par_chunks(g.filters * positions);
    dx.par_chunks_mut(g.channels * g.pixels()).zip(gradients).enumerate().for_each(|(i, (dx, dy))| {
        for panel in g.panels() {
            let mut patches = vec![T::default(); patch * panel.len()];
            let w = Matrix { data: &filters[i % g.groups], stride: g.filters };
            let dy = Matrix { data: &dy[panel.start..], stride: positions };
            add_product(&mut patches, panel.len(), panel.len(), w, dy, g.filters);
            g.scatter(&patches, panel, dx);
        }
    });
    Ok(dx)
}

/// `DW[g] = Σₙ DY[n,g]·patches(X[n,g])ᵀ`.
fn backward_filter<T: Element>(g: &Geometry, dy: &[T], x: &[T]) -> Result<Vec<T>> {
    let (patch, positions) = (g.patch(), g.positions());
    let mut dw = zeros(g.groups * g.filters * patch)?;
    dw.par_chunks_mut(g.filters * patch).enumerate().for_each(|(group, dw)| {
        for image in (0..g.batch).map(|n| n * g.groups + group) {
            let x = &x[image * g.channels * g.pixels()..][..g.channels * g.pixels()];
            let dy = &dy[image * g.filters * positions..][..g.filters * positions];
            for panel in g.panels() {
                let rows = transpose(&g.gather(x, panel.clone()), panel.len());
                let dy = Matrix { data: &dy[panel.start..], stride: positions };
                add_product(dw, patch, patch, dy, Matrix { data: &rows, stride: patch }, panel.len());
            }
        }
        let sums = dw.iter_mut().enumerate().filter(|(_, sum)| sum.is_nan());
        sums.for_each(|(at, sum)| *sum = inside_filter_sum(g, dy, x, [group, at / patch, at % patch]));
    });
    Ok(dw)
}

/// A sum of [`backward_filter`], as [`inside_sum`]: of the group, the filter in it and the row of its patches.
fn inside_filter_sum<T: Element>(g: &Geometry, dy: &[T], x: &[T], [group, filter, row]: [usize; 3]) -> T {
    let (taps, positions) = (g.patch() / g.channels, g.positions());
    let terms = (0..g.batch).flat_map(|n| (0..positions).map(move |position| (n * g.groups + group, position)));
    let terms = terms.filter_map(|(image, position)| {
        let pixel = (image * g.channels + row / taps) * g.pixels() + g.pixel(position, row % taps)?;
        Some((dy[(image * g.filters + filter) * positions + position], x[pixel]))
    });
    terms.fold(T::default(), |sum, (gradient, pixel)| sum.add_product(gradient, pixel))
}
