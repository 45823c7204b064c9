//! Tensor maps of a product's operands: boxes of a tile's rows by 128 bytes.

use super::problem::Problem;
use crate::graph::{DataType, FinalTensor, FinalizedGraph, TensorId};
use crate::kernel::{GemmTile, MapElement, MmaType, Quantity, Role, Swizzle, TensorMap, row_along_outer};

/// Bytes that addresses and strides are multiples of, and that strides are below (`cuTensorMapEncodeTiled`).
pub(super) const UNIT: i64 = 16;
const STRIDES_BELOW: i64 = 1 << 40;

/// Rows of a box at most.
const BOX_ROWS: u32 = 256;

/// An operand's tensor as an array of boxes, of a size that the tile decides.
#[derive(Clone, Copy, Debug)]
pub(super) struct BoxedOperand {
    /// The map without its boxes: `[k, m or n, batch]`, or `[m or n, k, batch]` where lines do not run along k.
    map: TensorMap,
    /// Whether the operand is A.
    is_a: bool,
    /// Whether lines of boxes run along k.
    along_k: bool,
}

impl BoxedOperand {
    /// Whether lines of boxes run along k.
    pub(super) fn runs_along_k(&self) -> bool {
        self.along_k
    }

    /// Whether rows of boxes lie in whole lines of L2.
    pub(super) fn rows_are_lines(&self) -> bool {
        self.map.rows_are_lines()
    }

    /// The map with the boxes of a tile: its rows by its k, or lines of m or n by its k.
    pub(super) fn at(&self, tile: GemmTile) -> TensorMap {
        let rows = if self.is_a { tile.m } else { tile.n };
        let bytes = self.map.element.bytes();
        let (row_elements, lines) =
            if self.along_k { (tile.k, rows.min(BOX_ROWS)) } else { (row_along_outer(rows, bytes), tile.k) };
        TensorMap {
            box_dims: [row_elements, lines, u32::from(self.map.rank == 3), 0, 0],
            swizzle: box_swizzle(row_elements * bytes),
            ..self.map
        }
    }
}

/// How a tensor in boxes becomes a tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arrival {
    /// It is multiplied as it lies.
    Tma,
    /// It is turned, so that lines run along k.
    Turned,
}

/// How operand `slot` comes in boxes as it is stored, by a map whose first dim is the contiguous one. `wgmma` takes 8-bit and TF32
/// operands along k alone: others are turned.
///
/// # Errors
/// What of type or layout the tensor memory accelerator does not take.
pub(super) fn boxed(
    graph: &FinalizedGraph,
    problem: &Problem,
    slot: usize,
    id: TensorId,
    operand: MmaType,
) -> Result<(BoxedOperand, Arrival), String> {
    let tensor = graph.tensor(id);
    let element = element(tensor.data_type, operand)?;
    let [_, outer, k] = axes(problem, slot)?;
    let mut why = format!("no axis of strides {:?} is contiguous", tensor.stride);
    for (axis, along_k) in [(k, true), (outer, false)] {
        if !is_contiguous(tensor, axis) {
            continue;
        }
        match boxes(graph, problem, slot, id, element, along_k) {
            Ok(boxes) if along_k || operand.bytes() == 2 => return Ok((boxes, Arrival::Tma)),
            Ok(boxes) => return Ok((boxes, Arrival::Turned)),
            Err(reason) => why = reason,
        }
    }
    Err(why)
}

/// The tensor that a mainloop stage starts from in boxes, of lines along k or not, if a row of the operand's tile is at most a
/// line of it.
pub(super) fn raw(
    graph: &FinalizedGraph,
    problem: &Problem,
    slot: usize,
    id: TensorId,
    operand: MmaType,
    along_k: bool,
) -> Option<BoxedOperand> {
    let element = match graph.tensor(id).data_type {
        DataType::Int8 | DataType::UInt8 | DataType::Fp8E4M3 | DataType::Fp8E5M2 => MapElement::Byte,
        DataType::Half => MapElement::Half,
        DataType::BFloat16 => MapElement::BFloat16,
        DataType::Float => MapElement::Float,
        _ => return None,
    };
    let fits = element.bytes() <= operand.bytes();
    boxes(graph, problem, slot, id, element, along_k).ok().filter(|_| fits)
}

/// Boxes along an axis that is contiguous.
fn boxes(
    graph: &FinalizedGraph,
    problem: &Problem,
    slot: usize,
    id: TensorId,
    element: MapElement,
    along_k: bool,
) -> Result<BoxedOperand, String> {
    let tensor = graph.tensor(id);
    let bytes = i64::from(element.bytes());
    if tensor.alignment % UNIT != 0 {
        return Err(format!("pointers are multiples of {} bytes; required: {UNIT}", tensor.alignment));
    }
    let [batch, outer, k] = axes(problem, slot)?;
    let order = if along_k { [k, outer, batch] } else { [outer, k, batch] };
    let rank = if tensor.dim[batch] > 1 { 3 } else { 2 };
    let mut map = TensorMap {
        tensor: id,
        element,
        rank,
        dims: [0; 5],
        strides: [0; 4],
        box_dims: [0; 5],
        swizzle: Swizzle::None,
    };
    for (at, &axis) in order.iter().enumerate().take(rank) {
        map.dims[at] = tensor.dim[axis] as u64;
        if at > 0 {
            map.strides[at - 1] = byte_stride(tensor, axis, bytes)?;
        }
    }
    Ok(BoxedOperand { map, is_a: slot == 0, along_k })
}

/// The swizzle of rows of so many bytes.
pub(super) fn box_swizzle(row_bytes: u32) -> Swizzle {
    match row_bytes {
        128 => Swizzle::Bytes128,
        64 => Swizzle::Bytes64,
        32 => Swizzle::Bytes32,
        _ => Swizzle::None,
    }
}

fn element(data_type: DataType, operand: MmaType) -> Result<MapElement, String> {
    match (operand, data_type) {
        (MmaType::F16, DataType::Half) => Ok(MapElement::Half),
        (MmaType::Bf16, DataType::BFloat16) => Ok(MapElement::BFloat16),
        (MmaType::Tf32, DataType::Float) => Ok(MapElement::TFloat32),
        (MmaType::S8, DataType::Int8) | (MmaType::Fp8, DataType::Fp8E4M3 | DataType::Fp8E5M2) => Ok(MapElement::Byte),
        _ => Err(format!("{data_type} is converted on the way")),
    }
}

/// The batch, m or n, and k axes of an operand of a matmul.
fn axes(problem: &Problem, slot: usize) -> Result<[usize; 3], String> {
    let coordinates = &problem.operands[slot];
    let axis = |role| coordinates.iter().position(|coordinate| coordinate.quantity == Quantity::Index(role));
    match [Role::Batch, Role::outer(slot), Role::Sum].map(axis) {
        [Some(batch), Some(outer), Some(k)] if coordinates.len() == 3 => Ok([batch, outer, k]),
        _ => Err("it belongs to a convolution".to_owned()),
    }
}

fn is_contiguous(tensor: &FinalTensor, axis: usize) -> bool {
    tensor.stride[axis] == 1 || tensor.dim[axis] == 1
}

/// Where an axis has one index any stride will do.
pub(super) fn byte_stride(tensor: &FinalTensor, axis: usize, bytes: i64) -> Result<u64, String> {
    if tensor.dim[axis] == 1 {
        return Ok(UNIT as u64);
    }
    match tensor.stride[axis] * bytes {
        stride if stride % UNIT != 0 => {
            Err(format!("axis {axis} steps by {stride} bytes; required: a multiple of {UNIT}"))
        }
        stride if stride >= STRIDES_BELOW => {
            Err(format!("axis {axis} steps by {stride} bytes; required: less than {STRIDES_BELOW}"))
        }
        stride => Ok(stride as u64),
    }
}
