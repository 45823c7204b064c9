//! How copies lie: which axis is contiguous, and where rows begin.

use super::super::boxed_operand::UNIT;
use super::super::problem::Problem;
use super::super::tensor_map::matmul_axes;
use crate::graph::FinalTensor;
use crate::kernel::{MmaType, Quantity};

/// Bytes of a sector of L2, to a multiple of which rows of a copy are padded where they are longer than what strides of a tensor map are
/// multiples of.
const SECTOR: i64 = 32;

/// Bytes of a line of L2, likewise.
const LINE: i64 = 128;

/// How many times as long rows may become for whole lines: rows that straddle them are read twice from L2
/// (`warpgroup_mma/model.rs`), so a quarter more of the copy is cheap.
const LINES_UP_TO: f64 = 1.25;

/// The tensor of a copy: dims, strides, and the axis that is contiguous.
pub(super) struct Layout {
    pub(super) dim: Vec<i64>,
    pub(super) stride: Vec<i64>,
    pub(super) inner: usize,
}

impl Layout {
    /// Axes in their order, rows of elements of so many bytes padded.
    pub(super) fn of_rows(dim: Vec<i64>, bytes: i64, inner: usize) -> Self {
        let stride = padded_strides(&dim, bytes, inner);
        Self { dim, stride, inner }
    }
}

/// The axis along which a copy is contiguous: where 16-bit operands are along k, m or n, that one, as both are taken; else k's. Of an
/// image its channels. `None` where groups have an axis of their own.
pub(super) fn inner_axis(problem: &Problem, slot: usize, tensor: &FinalTensor, operand: MmaType) -> Option<usize> {
    let coordinates = &problem.operands[slot];
    if let Some([_, outer, k]) = matmul_axes(problem, slot) {
        let keeps = operand.bytes() == 2 && tensor.stride[outer] == 1;
        return Some(if keeps { outer } else { k });
    }
    if coordinates.get(1)?.quantity == Quantity::Group || coordinates[0].quantity == Quantity::Group {
        return None;
    }
    let is_image = coordinates[0].quantity == Quantity::Image;
    let is_of_k = |axis: &usize| {
        let last = coordinates[*axis].terms.last();
        last.is_some_and(|term| problem.space.k.iter().any(|digit| digit.quantity == term.0))
    };
    match is_image {
        true => Some(1),
        false => [0, 1].into_iter().find(is_of_k),
    }
}

/// Strides of a tensor of elements of so many bytes that is contiguous along one axis, its rows padded, the other axes in their order.
pub(super) fn padded_strides(dim: &[i64], bytes: i64, inner: usize) -> Vec<i64> {
    let mut strides = vec![1; dim.len()];
    let mut step = padded(dim[inner] * bytes) / bytes;
    for axis in (0..dim.len()).rev().filter(|axis| *axis != inner) {
        strides[axis] = step;
        step *= dim[axis];
    }
    strides
}

/// Bytes of a row of so many: whole lines of L2 where that is little more, else whole sectors, or 16 bytes where it has no more.
pub(super) fn padded(bytes: i64) -> i64 {
    let multiple = |of: i64| (bytes + of - 1) / of * of;
    match multiple(LINE) {
        lines if lines as f64 <= LINES_UP_TO * bytes as f64 => lines,
        _ if bytes <= UNIT => UNIT,
        _ => multiple(SECTOR),
    }
}
