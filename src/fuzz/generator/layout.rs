//! Extents and strides.

use super::super::choices::Choices;
use crate::graph::{DataType, Tensor};

/// Order of a tensor's axes in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// The last axis is contiguous.
    RowMajor,
    /// The last axis but one is contiguous, then the last.
    ColumnMajor,
    /// Axis 1 is contiguous, then the last one inwards; axis 0 is outermost.
    ChannelsLast,
    /// Axis 0 is contiguous, then the last one inwards; axis 1 is outermost.
    BatchInnermost,
}

impl Order {
    /// Axes from the fastest to the slowest.
    pub(super) fn axes(self, rank: usize) -> Vec<usize> {
        let mut axes: Vec<usize> = (0..rank).rev().collect();
        match self {
            Self::ColumnMajor if rank > 1 => axes.swap(0, 1),
            Self::ChannelsLast if rank > 2 => {
                axes.retain(|&axis| axis != 1);
                axes.insert(0, 1);
            }
            Self::BatchInnermost if rank > 2 => axes.rotate_right(1),
            _ => {}
        }
        axes
    }
}

/// How often a tensor's strides are not those of a packed one, in percent.
const PADDED: usize = 15;
const ODD_STRIDE_OF_ONE: usize = 10;

/// A tensor in memory of these extents, mostly packed; padding keeps rows at multiples of 16 bytes.
pub(super) fn tensor(choices: &mut Choices<'_>, name: &str, data_type: DataType, dim: &[i64], order: Order) -> Tensor {
    let unit = (16 / data_type.bytes().max(1)) as i64;
    let padded = choices.chance(PADDED).then(|| choices.below(dim.len()));
    let mut stride = vec![1; dim.len()];
    let mut reach = 1;
    for (place, axis) in order.axes(dim.len()).into_iter().enumerate() {
        stride[axis] = reach;
        reach *= dim[axis];
        if padded == Some(place) && dim[axis] > 1 {
            reach = (reach + unit) / unit * unit;
        }
    }
    for axis in 0..dim.len() {
        if dim[axis] == 1 && choices.chance(ODD_STRIDE_OF_ONE) {
            stride[axis] = choices.of(&[1, 3, reach, 1 << 20]);
        }
    }
    Tensor::new(name).dim(dim).stride(stride).data_type(data_type)
}

/// The strides of a packed tensor.
pub(super) fn packed(dim: &[i64], order: Order) -> Vec<i64> {
    let mut stride = vec![1; dim.len()];
    let mut reach = 1;
    for axis in order.axes(dim.len()) {
        stride[axis] = reach;
        reach *= dim[axis];
    }
    stride
}

/// A small extent, often at the edge of a tile of the emulator's kernels' vectors.
pub(super) fn extent(choices: &mut Choices<'_>) -> i64 {
    choices.of(&[16, 8, 32, 24, 64, 1, 2, 3, 7, 17, 33, 40, 65, 48, 96, 128, 129])
}

/// An extent, rounded up to a multiple of `unit` in all but a few cases.
pub(super) fn aligned_extent(choices: &mut Choices<'_>, unit: i64) -> i64 {
    let extent = extent(choices);
    if choices.chance(8) { extent } else { (extent + unit - 1) / unit * unit }
}
