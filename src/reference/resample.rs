//! Resampling of the CPU engine (operations.md section 7): one plane after the other, one window after the other.

use std::ops::Range;

use rayon::prelude::*;

use super::element::Element;
use super::matmul::load;
use crate::error::{NotSupported, Result};
use crate::graph::{Fraction, Resample, ResampleMode};
use crate::host_tensor::{HostTensor, reserve};

/// Pooling windows over the pixels of a plane, with one to three spatial axes padded to three.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pooling {
    input: [i64; 3],
    output: [i64; 3],
    window: [i64; 3],
    stride: [i64; 3],
    padding: [i64; 3],
    counts_padding: bool,
}

/// A fraction that is a whole number.
pub(super) fn whole(fraction: Fraction) -> Option<i64> {
    (fraction.numerator % fraction.denominator == 0).then(|| fraction.numerator / fraction.denominator)
}

/// The spatial extents of `[N, C, spatial…]`, padded to three; `None` for more.
fn spatial(dim: &[i64]) -> Option<[i64; 3]> {
    padded(dim.get(2..)?, 1)
}

fn padded(values: &[i64], fill: i64) -> Option<[i64; 3]> {
    let mut all = [fill; 3];
    all.get_mut(3usize.checked_sub(values.len())?..)?.copy_from_slice(values);
    Some(all)
}

/// Row-major position of an index.
fn flat(extents: [i64; 3], index: [i64; 3]) -> i64 {
    (index[0] * extents[1] + index[1]) * extents[2] + index[2]
}

/// Index of a row-major position.
fn index_of(extents: [i64; 3], position: i64) -> [i64; 3] {
    let rows = position / extents[2];
    [rows / extents[1], rows % extents[1], position % extents[2]]
}

fn volume(extents: [i64; 3]) -> usize {
    extents.iter().product::<i64>() as usize
}

impl Pooling {
    /// Of an image and its pooled tensor, both `[N, C, spatial…]`; `None` where a parameter is no whole number.
    pub(super) fn new(resample: &Resample, image: &[i64], pooled: &[i64]) -> Option<Self> {
        let parameter = |values: &[Fraction], fill: i64| {
            padded(&values.iter().map(|&value| whole(value)).collect::<Option<Vec<i64>>>()?, fill)
        };
        Some(Self {
            input: spatial(image)?,
            output: spatial(pooled)?,
            window: parameter(&resample.window, 1)?,
            stride: parameter(&resample.stride, 1)?,
            padding: parameter(&resample.pre_padding, 0)?,
            counts_padding: resample.mode == ResampleMode::AvgpoolIncludePadding,
        })
    }

    /// Positions in a window; `None` where a parameter is no whole number.
    pub(super) fn volume_of(resample: &Resample) -> Option<i128> {
        let parameters = [&resample.window, &resample.stride, &resample.pre_padding].into_iter().flatten();
        let all_whole = parameters.clone().all(|&value| whole(value).is_some());
        all_whole.then(|| resample.window.iter().map(|&window| i128::from(whole(window).unwrap_or(1))).product())
    }

    /// The pixel at which the window of an output starts, which may lie outside.
    fn start(&self, position: usize) -> [i64; 3] {
        let output = index_of(self.output, position as i64);
        std::array::from_fn(|axis| output[axis] * self.stride[axis] - self.padding[axis])
    }

    /// The offsets into the window of an output that meet a pixel, along every axis.
    pub(super) fn inside(&self, position: usize) -> [Range<i64>; 3] {
        let start = self.start(position);
        std::array::from_fn(|axis| (-start[axis]).max(0)..(self.input[axis] - start[axis]).clamp(0, self.window[axis]))
    }

    /// Row-major position in the window (OP-IDX-VALUE).
    pub(super) fn place(&self, offset: [i64; 3]) -> i64 {
        flat(self.window, offset)
    }

    /// Calls `visit(pixel, place)` for the positions of a window that are pixels, in scan order (OP-IDX-TIE).
    fn for_each_pixel(&self, position: usize, mut visit: impl FnMut(usize, i64)) {
        let start = self.start(position);
        let [depth, rows, columns] = self.inside(position);
        for z in depth {
            for y in rows.clone() {
                for x in columns.clone() {
                    let pixel = flat(self.input, [start[0] + z, start[1] + y, start[2] + x]);
                    visit(pixel as usize, self.place([z, y, x]));
                }
            }
        }
    }

    /// The pixel at a place of a window; `None` in the padding.
    fn pixel(&self, position: usize, place: i64) -> Option<usize> {
        let (offset, inside) = (index_of(self.window, place), self.inside(position));
        let start = self.start(position);
        let is_pixel = (0..3).all(|axis| inside[axis].contains(&offset[axis]));
        is_pixel.then(|| flat(self.input, std::array::from_fn(|axis| start[axis] + offset[axis])) as usize)
    }

    /// What the sum over a window is divided by; 0 where no element counts.
    fn divisor(&self, position: usize) -> usize {
        if self.counts_padding {
            return volume(self.window);
        }
        self.inside(position).iter().map(|range| (range.end - range.start).max(0) as usize).product()
    }

    /// Mean over a window, 0 where nothing counts (O-09).
    fn mean<T: Element>(&self, plane: &[T], position: usize) -> T {
        let mut sum = T::default();
        self.for_each_pixel(position, |pixel, _| sum = sum.add(plane[pixel]));
        match self.divisor(position) {
            0 => T::default(),
            divisor => sum.divide(divisor),
        }
    }

    /// Maximum of a window and its place; padding takes part with −∞.
    fn maximum<T: Element>(&self, plane: &[T], position: usize) -> (T, i64) {
        let mut best = (T::LOWEST, 0);
        self.for_each_pixel(position, |pixel, place| {
            if plane[pixel].exceeds(best.0) {
                best = (plane[pixel], place);
            }
        });
        best
    }
}

/// The windows of a pooling that `check_supported` let through.
fn pooling(resample: &Resample, image: &[i64], pooled: &[i64]) -> Result<Pooling> {
    let why = || NotSupported::CpuEngine(format!("resampling {image:?} to {pooled:?}: windows are no whole numbers"));
    Ok(Pooling::new(resample, image, pooled).ok_or_else(why)?)
}

/// Every index must be a place of the window.
pub(super) fn check_indices(resample: &Resample, indices: &[i64]) -> std::result::Result<(), String> {
    let volume = Pooling::volume_of(resample).unwrap_or(0);
    match indices.iter().position(|&index| !(0..volume).contains(&i128::from(index))) {
        None => Ok(()),
        Some(at) => {
            let index = indices[at];
            Err(format!("index {index} at row-major position {at} is not in a window of {volume} positions"))
        }
    }
}

/// Y of extents `dim`, row-major, before α and β.
pub(super) fn forward<T: Element>(resample: &Resample, x: &HostTensor, dim: &[i64]) -> Result<Vec<T>> {
    let value: fn(&Pooling, &[T], usize) -> T = match resample.mode {
        ResampleMode::Bilinear => return bilinear(resample, x, dim),
        ResampleMode::Nearest => return Err(NotSupported::CpuEngine("a resampling in mode NEAREST".to_owned()).into()),
        ResampleMode::Maxpool => |windows, plane, position| windows.maximum(plane, position).0,
        ResampleMode::AvgpoolExcludePadding | ResampleMode::AvgpoolIncludePadding => Pooling::mean,
    };
    let windows = pooling(resample, &x.dim, dim)?;
    each(x, dim, |plane, position| value(&windows, plane, position))
}

/// Places of the maxima of all windows of an output of extents `dim`, row-major.
pub(super) fn indices<T: Element>(resample: &Resample, x: &HostTensor, dim: &[i64]) -> Result<Vec<i64>> {
    let windows = pooling(resample, &x.dim, dim)?;
    each(x, dim, |plane: &[T], position| windows.maximum(plane, position).1)
}

/// One value an output, from its plane of X and its position in the plane.
fn each<T: Element, V: Copy + Default + Send>(
    x: &HostTensor,
    dim: &[i64],
    value: impl Fn(&[T], usize) -> V + Sync,
) -> Result<Vec<V>> {
    let x_planes = load::<T>(x)?;
    let planes = (dim[0] * dim[1]) as usize;
    let (pixels, positions) = (x_planes.len() / planes, dim[2..].iter().product::<i64>() as usize);
    let mut y = reserve(planes * positions)?;
    y.resize(planes * positions, V::default());
    y.par_chunks_mut(positions).zip(x_planes.par_chunks(pixels)).for_each(|(y, plane)| {
        y.iter_mut().enumerate().for_each(|(position, y)| *y = value(plane, position));
    });
    Ok(y)
}

/// DX, of extents `dim`, of an average: every window's gradient divided among its pixels.
pub(super) fn spread<T: Element>(resample: &Resample, dy: &HostTensor, dim: &[i64]) -> Result<Vec<T>> {
    let windows = pooling(resample, dim, &dy.dim)?;
    scatter(dy, dim, |dx: &mut [T], _, position, gradient: T| {
        let divisor = windows.divisor(position);
        windows.for_each_pixel(position, |pixel, _| dx[pixel] = dx[pixel].add(gradient.divide(divisor)));
    })
}

/// DX, of extents `dim`, of a maximum: every window's gradient to the pixel at its index.
pub(super) fn route<T: Element>(resample: &Resample, dy: &HostTensor, indices: &[i64], dim: &[i64]) -> Result<Vec<T>> {
    let windows = pooling(resample, dim, &dy.dim)?;
    scatter(dy, dim, |dx: &mut [T], element, position, gradient: T| {
        if let Some(pixel) = windows.pixel(position, indices[element]) {
            dx[pixel] = dx[pixel].add(gradient);
        }
    })
}

/// Calls `add(plane of DX, element of DY, its position in the plane, its value)` for every element, planes in parallel.
fn scatter<T: Element>(dy: &HostTensor, dim: &[i64], add: impl Fn(&mut [T], usize, usize, T) + Sync) -> Result<Vec<T>> {
    let gradients = load::<T>(dy)?;
    let planes = (dim[0] * dim[1]) as usize;
    let (pixels, positions) = (dim[2..].iter().product::<i64>() as usize, gradients.len() / planes);
    let mut dx = reserve(planes * pixels)?;
    dx.resize(planes * pixels, T::default());
    dx.par_chunks_mut(pixels).zip(gradients.par_chunks(positions)).enumerate().for_each(|(plane, (dx, gradients))| {
        for (position, &gradient) in gradients.iter().enumerate() {
            add(dx, plane * positions + position, position, gradient);
        }
    });
    Ok(dx)
}

/// Where an output of `BILINEAR` looks along an axis: pixel ⌊p⌋ and the fraction of p, for the window's start
/// p = output·stride − pre-padding. The reading of A-39, and the only place that knows it.
pub(super) fn source(resample: &Resample, axis: usize, output: i64) -> (i64, f64) {
    let (stride, padding) = (resample.stride[axis], resample.pre_padding[axis]);
    let wide = |value: i64| i128::from(value);
    let below = wide(stride.denominator) * wide(padding.denominator);
    let above = wide(output) * wide(stride.numerator) * wide(padding.denominator)
        - wide(padding.numerator) * wide(stride.denominator);
    (above.div_euclid(below) as i64, above.rem_euclid(below) as f64 / below as f64)
}

/// Two pixels along an axis, clamped to the edges, and the weight of the second.
#[derive(Clone, Copy)]
struct Neighbours {
    low: i64,
    high: i64,
    fraction: f64,
}

/// Separable linear interpolation, innermost axis first.
fn bilinear<T: Element>(resample: &Resample, x: &HostTensor, dim: &[i64]) -> Result<Vec<T>> {
    let (Some(input), Some(output)) = (spatial(&x.dim), spatial(dim)) else {
        return Err(NotSupported::CpuEngine(format!("resampling {:?} to {dim:?}", x.dim)).into());
    };
    let absent = 3 - resample.window.len();
    let neighbours = |axis: usize, at: i64| {
        let (low, fraction) = if axis < absent { (0, 0.0) } else { source(resample, axis - absent, at) };
        let edge = input[axis] - 1;
        Neighbours { low: low.clamp(0, edge), high: low.saturating_add(1).clamp(0, edge), fraction }
    };
    let tables: [Vec<Neighbours>; 3] =
        std::array::from_fn(|axis| (0..output[axis]).map(|at| neighbours(axis, at)).collect());
    each(x, dim, |plane: &[T], position| {
        let at = index_of(output, position as i64);
        let [depth, row, column] = std::array::from_fn(|axis| tables[axis][at[axis] as usize]);
        let mix = |n: Neighbours, value: &dyn Fn(i64) -> T| {
            let low = value(n.low);
            // A neighbour of weight 0 is not read.
            if n.fraction == 0.0 { low } else { low.blend(1.0 - n.fraction, value(n.high), n.fraction) }
        };
        mix(depth, &|z| mix(row, &|y| mix(column, &|x| plane[flat(input, [z, y, x]) as usize])))
    })
}
