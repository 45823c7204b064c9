//! Convolutions by their definition (operations.md 3.4): one sum a result, over the contacts of window and image.

use std::num::Wrapping;

use rayon::prelude::*;

use super::DenseF64;
use super::number::{Number, numbers};
use crate::graph::{Convolution, ConvolutionDirection, ConvolutionMode};

/// Output position, pixel of the image, tap of the window that meet: all row-major over the spatial axes.
type Contact = [u32; 3];

const POSITION: usize = 0;
const PIXEL: usize = 1;
const TAP: usize = 2;

/// Sizes that follow from the extents of X, W and Y; those of both group forms lie in the same order (3.3).
struct Sizes {
    batch: usize,
    groups: usize,
    channels: usize,
    filters: usize,
    positions: usize,
    pixels: usize,
    taps: usize,
}

/// Every element of the result, of extents `dim`, without α and β.
pub(in crate::reference) fn convolve(
    convolution: &Convolution,
    operands: &[&DenseF64],
    dim: &[i64],
    is_integer: bool,
) -> Vec<f64> {
    if is_integer {
        evaluate::<Wrapping<i64>>(convolution, operands, dim)
    } else {
        evaluate::<f64>(convolution, operands, dim)
    }
}

fn evaluate<T: Number>(convolution: &Convolution, operands: &[&DenseF64], dim: &[i64]) -> Vec<f64> {
    let &[first, second] = operands else { return Vec::new() };
    let (x, w, y) = match convolution.direction {
        ConvolutionDirection::Forward => (&first.dim[..], &second.dim[..], dim),
        ConvolutionDirection::BackwardData => (dim, &second.dim[..], &first.dim[..]),
        ConvolutionDirection::BackwardFilter => (&second.dim[..], dim, &first.dim[..]),
    };
    let sizes = sizes(convolution, x, w, y);
    let contacts = contacts(convolution, x, w, y);
    let (first, second) = (numbers::<T>(&first.values), numbers::<T>(&second.values));
    match convolution.direction {
        ConvolutionDirection::Forward => {
            forward(&sizes, &grouped(&contacts, POSITION, sizes.positions), &first, &second)
        }
        ConvolutionDirection::BackwardData => {
            backward_data(&sizes, &grouped(&contacts, PIXEL, sizes.pixels), &first, &second)
        }
        ConvolutionDirection::BackwardFilter => {
            backward_filter(&sizes, &grouped(&contacts, TAP, sizes.taps), &first, &second)
        }
    }
}

fn sizes(convolution: &Convolution, x: &[i64], w: &[i64], y: &[i64]) -> Sizes {
    let spatial = convolution.stride.len();
    let volume = |dim: &[i64]| dim.iter().product::<i64>() as usize;
    let lead = |dim: &[i64]| dim.len() - spatial;
    let channels = w[lead(w) - 1] as usize;
    let groups = volume(&x[1..lead(x)]) / channels;
    Sizes {
        batch: x[0] as usize,
        groups,
        channels,
        filters: volume(&w[..lead(w) - 1]) / groups,
        positions: volume(&y[lead(y)..]),
        pixels: volume(&x[lead(x)..]),
        taps: volume(&w[lead(w)..]),
    }
}

/// All contacts: output p and tap r meet pixel `p·s + r·d − pre`, if the image has it; axis by axis.
fn contacts(convolution: &Convolution, x: &[i64], w: &[i64], y: &[i64]) -> Vec<Contact> {
    let spatial = convolution.stride.len();
    let mut contacts = vec![[0, 0, 0]];
    for axis in 0..spatial {
        let [x, w, y] = [x, w, y].map(|dim| dim[dim.len() - spatial + axis]);
        let met = |p: i64, r: i64| {
            let tap = if convolution.mode == ConvolutionMode::Convolution { w - 1 - r } else { r };
            let pixel = p * convolution.stride[axis] + tap * convolution.dilation[axis] - convolution.pre_padding[axis];
            (0..x).contains(&pixel).then_some([p as u32, pixel as u32, r as u32])
        };
        let here: Vec<Contact> = (0..y).flat_map(|p| (0..w).filter_map(move |r| met(p, r))).collect();
        let extents = [y as u32, x as u32, w as u32];
        let joined = |outer: &Contact, inner: &Contact| std::array::from_fn(|i| outer[i] * extents[i] + inner[i]);
        contacts = contacts.iter().flat_map(|outer| here.iter().map(move |inner| joined(outer, inner))).collect();
    }
    contacts
}

/// Contacts by one of their three coordinates, which takes values below `count`.
fn grouped(contacts: &[Contact], coordinate: usize, count: usize) -> Vec<Vec<Contact>> {
    let mut groups = vec![Vec::new(); count];
    contacts.iter().for_each(|contact| groups[contact[coordinate] as usize].push(*contact));
    groups
}

/// `Y[n,k,p] = Σ_c Σ_r X[n,c,·]·W[k,c,r]`.
fn forward<T: Number>(s: &Sizes, contacts: &[Vec<Contact>], x: &[T], w: &[T]) -> Vec<f64> {
    let all_filters = s.groups * s.filters;
    results(s.batch * all_filters, contacts, |plane, contacts| {
        let (n, k) = (plane / all_filters, plane % all_filters);
        let first_channel = (n * s.groups + k / s.filters) * s.channels;
        let terms = |c: usize| (&x[(first_channel + c) * s.pixels..], &w[(k * s.channels + c) * s.taps..]);
        (0..s.channels).fold(T::default(), |sum, c| dot(sum, contacts, terms(c), [PIXEL, TAP]))
    })
}

/// `DX[n,c,x] = Σ_k Σ_{p,r} DY[n,k,p]·W[k,c,r]` over the contacts of x.
fn backward_data<T: Number>(s: &Sizes, contacts: &[Vec<Contact>], dy: &[T], w: &[T]) -> Vec<f64> {
    let all_channels = s.groups * s.channels;
    results(s.batch * all_channels, contacts, |plane, contacts| {
        let (n, c) = (plane / all_channels, plane % all_channels);
        let (group, channel) = (c / s.channels, c % s.channels);
        let terms = |k: usize| {
            let filter = group * s.filters + k;
            let gradient = n * s.groups * s.filters + filter;
            (&dy[gradient * s.positions..], &w[(filter * s.channels + channel) * s.taps..])
        };
        (0..s.filters).fold(T::default(), |sum, k| dot(sum, contacts, terms(k), [POSITION, TAP]))
    })
}

/// `DW[k,c,r] = Σ_n Σ_p DY[n,k,p]·X[n,c,·]`.
fn backward_filter<T: Number>(s: &Sizes, contacts: &[Vec<Contact>], dy: &[T], x: &[T]) -> Vec<f64> {
    results(s.groups * s.filters * s.channels, contacts, |plane, contacts| {
        let (k, channel) = (plane / s.channels, plane % s.channels);
        let terms = |n: usize| {
            let gradient = n * s.groups * s.filters + k;
            let image = (n * s.groups + k / s.filters) * s.channels + channel;
            (&dy[gradient * s.positions..], &x[image * s.pixels..])
        };
        (0..s.batch).fold(T::default(), |sum, n| dot(sum, contacts, terms(n), [POSITION, PIXEL]))
    })
}

/// One result a plane and group of contacts.
fn results<T: Number>(
    planes: usize,
    contacts: &[Vec<Contact>],
    value: impl Fn(usize, &[Contact]) -> T + Sync,
) -> Vec<f64> {
    let value = &value;
    (0..planes)
        .into_par_iter()
        .flat_map_iter(|plane| contacts.iter().map(move |contacts| value(plane, contacts).to_f64()))
        .collect()
}

/// `sum + Σ a·b` over contacts, of which two coordinates index the factors.
fn dot<T: Number>(sum: T, contacts: &[Contact], (a, b): (&[T], &[T]), [i, j]: [usize; 2]) -> T {
    contacts.iter().fold(sum, |sum, contact| sum + a[contact[i] as usize] * b[contact[j] as usize])
}
