//! Resampling by its definition (operations.md section 7), as a relation between outputs and pixels: forward, an output
//! gathers from the pixels it meets; backward, a pixel gathers from the outputs that meet it.

use rayon::prelude::*;

use super::DenseF64;
use crate::graph::{Port, Resample, ResampleMode};
use crate::reference::resample::{source, whole};

/// An output meets a pixel; all row-major, along one axis or over all of them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::reference) struct Contact {
    /// Position of the output in its plane.
    pub(in crate::reference) position: usize,
    /// Position of the pixel in its plane.
    pub(in crate::reference) pixel: usize,
    /// Position in the window (OP-IDX-VALUE).
    pub(in crate::reference) place: usize,
    /// Weight of the pixel (BILINEAR).
    pub(in crate::reference) weight: f64,
}

/// Contacts along one axis, by output and by pixel.
struct Axis {
    window: usize,
    by_output: Vec<Vec<Contact>>,
    by_pixel: Vec<Vec<Contact>>,
}

/// All contacts of a resampling, a product over the axes.
pub(in crate::reference) struct Windows {
    axes: Vec<Axis>,
    counts_padding: bool,
}

impl Windows {
    /// Of an image and the tensor resampled from it, both `[N, C, spatial…]`.
    pub(in crate::reference) fn new(resample: &Resample, image: &[i64], resampled: &[i64]) -> Self {
        let axis = |axis: usize| {
            let (pixels, outputs) = (image[axis + 2], resampled[axis + 2]);
            let by_output: Vec<Vec<Contact>> =
                (0..outputs).map(|output| contacts(resample, axis, pixels, output)).collect();
            let mut by_pixel = vec![Vec::new(); pixels as usize];
            by_output.iter().flatten().for_each(|contact| by_pixel[contact.pixel].push(*contact));
            Axis { window: whole(resample.window[axis]).unwrap_or(1) as usize, by_output, by_pixel }
        };
        Self {
            axes: (0..resample.window.len()).map(axis).collect(),
            counts_padding: resample.mode == ResampleMode::AvgpoolIncludePadding,
        }
    }

    /// Positions of a window.
    pub(in crate::reference) fn volume(&self) -> usize {
        self.axes.iter().map(|axis| axis.window).product()
    }

    fn positions(&self) -> usize {
        self.axes.iter().map(|axis| axis.by_output.len()).product()
    }

    fn pixels(&self) -> usize {
        self.axes.iter().map(|axis| axis.by_pixel.len()).product()
    }

    /// Contacts of the output or pixel at a position, in scan order.
    fn joined<'a>(&'a self, mut at: usize, lists: impl Fn(&'a Axis) -> &'a [Vec<Contact>]) -> Vec<Contact> {
        let mut rows: Vec<&[Contact]> = Vec::with_capacity(self.axes.len());
        for axis in self.axes.iter().rev() {
            let lists = lists(axis);
            rows.push(&lists[at % lists.len()]);
            at /= lists.len();
        }
        let start = Contact { position: 0, pixel: 0, place: 0, weight: 1.0 };
        self.axes.iter().zip(rows.iter().rev()).fold(vec![start], |outer, (axis, inner)| {
            let [positions, pixels] = [axis.by_output.len(), axis.by_pixel.len()];
            let joined = |outer: Contact, inner: &Contact| Contact {
                position: outer.position * positions + inner.position,
                pixel: outer.pixel * pixels + inner.pixel,
                place: outer.place * axis.window + inner.place,
                weight: outer.weight * inner.weight,
            };
            outer.into_iter().flat_map(|outer| inner.iter().map(move |inner| joined(outer, inner))).collect()
        })
    }

    /// What the sum over each window is divided by, in order of positions; 0 where no element counts.
    pub(in crate::reference) fn divisors(&self) -> Vec<f64> {
        let count = |position| self.joined(position, |axis| &axis.by_output).len();
        let divisor = |position| if self.counts_padding { self.volume() } else { count(position) };
        (0..self.positions()).into_par_iter().map(|position| divisor(position) as f64).collect()
    }

    /// One value an output, from its contacts and its plane.
    pub(in crate::reference) fn per_output<V: Copy + Send + Sync>(
        &self,
        planes: usize,
        value: impl Fn(&[Contact], usize) -> V + Sync,
    ) -> Vec<V> {
        by_plane(planes, self.positions(), |at| self.joined(at, |axis| &axis.by_output), value)
    }

    /// One value a pixel, from its contacts and its plane.
    pub(in crate::reference) fn per_pixel<V: Copy + Send + Sync>(
        &self,
        planes: usize,
        value: impl Fn(&[Contact], usize) -> V + Sync,
    ) -> Vec<V> {
        by_plane(planes, self.pixels(), |at| self.joined(at, |axis| &axis.by_pixel), value)
    }
}

/// Values `[planes, positions]`; the contacts of a position are found once for all planes.
fn by_plane<V: Copy + Send + Sync>(
    planes: usize,
    positions: usize,
    contacts: impl Fn(usize) -> Vec<Contact> + Sync,
    value: impl Fn(&[Contact], usize) -> V + Sync,
) -> Vec<V> {
    let column = |at: usize| {
        let contacts = contacts(at);
        (0..planes).map(|plane| value(&contacts, plane)).collect::<Vec<V>>()
    };
    let columns: Vec<Vec<V>> = (0..positions).into_par_iter().map(column).collect();
    (0..planes).flat_map(|plane| columns.iter().map(move |column| column[plane])).collect()
}

/// The pixels that an output meets along an axis.
fn contacts(resample: &Resample, axis: usize, pixels: i64, output: i64) -> Vec<Contact> {
    let position = output as usize;
    if resample.mode == ResampleMode::Bilinear {
        // Tents on the pixels; what lies outside is the edge.
        let (low, fraction) = source(resample, axis, output);
        let taps = [(0, 1.0 - fraction), (1, fraction)].into_iter().filter(|tap| tap.1 > 0.0);
        let pixel = |place: i64| low.saturating_add(place).clamp(0, pixels - 1) as usize;
        return taps.map(|(place, weight)| Contact { position, pixel: pixel(place), place: 0, weight }).collect();
    }
    let parameters = [resample.window[axis], resample.stride[axis], resample.pre_padding[axis]];
    let [window, stride, padding] = parameters.map(|value| whole(value).unwrap_or(1));
    let start = output * stride - padding;
    let contact =
        |pixel: i64| Contact { position, pixel: pixel as usize, place: (pixel - start) as usize, weight: 1.0 };
    (start.max(0)..pixels.min(start + window)).map(contact).collect()
}

/// Y or, at port INDEX, the index, of extents `dim`.
pub(in crate::reference) fn forward(resample: &Resample, operands: &[&DenseF64], dim: &[i64], port: Port) -> Vec<f64> {
    let &[x] = operands else { return Vec::new() };
    let windows = Windows::new(resample, &x.dim, dim);
    let (planes, pixels) = ((dim[0] * dim[1]) as usize, windows.pixels());
    let divisors = windows.divisors();
    windows.per_output(planes, |contacts, plane| {
        let x = &x.values[plane * pixels..][..pixels];
        match resample.mode {
            ResampleMode::Maxpool if port == Port::INDEX => maximum(contacts, x).1 as f64,
            ResampleMode::Maxpool => maximum(contacts, x).0,
            ResampleMode::Bilinear => contacts.iter().map(|contact| contact.weight * x[contact.pixel]).sum(),
            // The CPU engine computes no NEAREST, so none comes here.
            ResampleMode::AvgpoolExcludePadding | ResampleMode::AvgpoolIncludePadding | ResampleMode::Nearest => {
                match contacts.first() {
                    // O-09.
                    None => 0.0,
                    Some(first) => total(contacts.iter().map(|contact| x[contact.pixel])) / divisors[first.position],
                }
            }
        }
    })
}

/// A sum from +0; that of no terms by `Iterator::sum` is −0.
fn total(terms: impl Iterator<Item = f64>) -> f64 {
    terms.fold(0.0, |sum, term| sum + term)
}

/// The maximum of a window and the first place that has it. Padding takes part with −∞, so that no place comes before
/// 0 where nothing is larger.
fn maximum(contacts: &[Contact], plane: &[f64]) -> (f64, usize) {
    let value = |contact: &Contact| plane[contact.pixel];
    if let Some(first) = contacts.iter().find(|contact| value(contact).is_nan()) {
        return (f64::NAN, first.place);
    }
    let most = contacts.iter().map(value).fold(f64::NEG_INFINITY, f64::max);
    let first = contacts.iter().find(|contact| value(contact) == most && most > f64::NEG_INFINITY);
    (most, first.map_or(0, |contact| contact.place))
}

/// DX, of extents `dim`, from DY, the index and X.
pub(super) fn backward(resample: &Resample, [dy, index, x]: [Option<&DenseF64>; 3], dim: &[i64]) -> Vec<f64> {
    let Some(dy) = dy else { return Vec::new() };
    let windows = Windows::new(resample, dim, &dy.dim);
    let (planes, positions) = ((dim[0] * dim[1]) as usize, windows.positions());
    if resample.mode != ResampleMode::Maxpool {
        let divisors = windows.divisors();
        return windows.per_pixel(planes, |contacts, plane| {
            let dy = &dy.values[plane * positions..];
            total(contacts.iter().map(|contact| dy[contact.position] / divisors[contact.position]))
        });
    }
    let recomputed = x.filter(|_| index.is_none()).map(|x| forward(resample, &[x], &dy.dim, Port::INDEX));
    let Some(indices) = index.map(|index| &index.values).or(recomputed.as_ref()) else { return Vec::new() };
    windows.per_pixel(planes, |contacts, plane| {
        let (dy, indices) = (&dy.values[plane * positions..], &indices[plane * positions..]);
        let wins = |contact: &&Contact| indices[contact.position] == contact.place as f64;
        total(contacts.iter().filter(wins).map(|contact| dy[contact.position]))
    })
}
