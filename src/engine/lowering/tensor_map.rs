//! Tensor maps of a product's operands: boxes of a tile's rows by 128 bytes.

use super::boxed_operand::{BoxedOperand, TapBoxes, UNIT, byte_stride};
use super::im2col;
use super::problem::{ChannelSteps, Problem};
use crate::graph::{DataType, FinalTensor, FinalizedGraph, TensorId};
use crate::kernel::{BoxStart, Coordinate, MapElement, MmaType, Quantity, Role, Swizzle, TensorMap};

/// Bytes of k of a step of the mainloop: a swizzled row.
const STEP_BYTES: u32 = 128;

/// Elements of a line along m or n at least and at most.
const SHORTEST_LINE: u32 = 16;
const LONGEST_LINE: u32 = 64;

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
    let mut why = format!("no axis of strides {:?} is contiguous", tensor.stride);
    for along_k in directions(problem, slot, tensor) {
        match boxes(graph, problem, slot, id, element, along_k, block_k(problem, operand)) {
            Ok(boxes) if along_k => return Ok((boxes, Arrival::Tma)),
            Ok(boxes) if boxes.is_whole_in(line_along_outer(operand)) => {
                return Ok((boxes, if operand.bytes() == 2 { Arrival::Tma } else { Arrival::Turned }));
            }
            Ok(_) => why = "lines of channels reach from one tap to the next".to_owned(),
            Err(reason) => why = reason,
        }
    }
    Err(why)
}

/// Elements of a line along m or n that must lie under one tap: what is turned comes in whole ones.
pub(super) fn line_along_outer(operand: MmaType) -> u32 {
    if operand.bytes() == 2 { SHORTEST_LINE } else { LONGEST_LINE }
}

/// Elements of k of a step of the mainloop.
pub(super) fn step_k(operand: MmaType) -> i64 {
    i64::from(STEP_BYTES / operand.bytes())
}

/// Elements of k that a box brings.
fn block_k(problem: &Problem, operand: MmaType) -> i64 {
    match problem.channels {
        ChannelSteps::Blocks(block) | ChannelSteps::Short(block) => block,
        ChannelSteps::Padded | ChannelSteps::Narrow(_) => step_k(operand),
    }
}

/// Whether lines of an operand may run along k, and along m or n.
fn directions(problem: &Problem, slot: usize, tensor: &FinalTensor) -> Vec<bool> {
    match matmul_axes(problem, slot) {
        Some([_, outer, k]) => {
            let ways = [(k, true), (outer, false)];
            ways.into_iter().filter(|&(axis, _)| is_contiguous(tensor, axis)).map(|(_, along_k)| along_k).collect()
        }
        None => im2col::runs_along_k(problem, slot, tensor).into_iter().collect(),
    }
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
    let boxes = boxes(graph, problem, slot, id, element, along_k, block_k(problem, operand)).ok()?;
    (element.bytes() <= operand.bytes() && (along_k || boxes.is_whole_in(LONGEST_LINE))).then_some(boxes)
}

/// Boxes along an axis that is contiguous; a box has `block_k` elements of k.
fn boxes(
    graph: &FinalizedGraph,
    problem: &Problem,
    slot: usize,
    id: TensorId,
    element: MapElement,
    along_k: bool,
    block_k: i64,
) -> Result<BoxedOperand, String> {
    let tensor = graph.tensor(id);
    if tensor.alignment % UNIT != 0 {
        return Err(format!("pointers are multiples of {} bytes; required: {UNIT}", tensor.alignment));
    }
    match matmul_axes(problem, slot) {
        Some(axes) => matrix_boxes(tensor, axes, slot, id, element, along_k, block_k),
        None => im2col::boxes(problem, slot, tensor, id, element, along_k, block_k),
    }
}

/// Boxes of a matrix, or of a batch of them.
fn matrix_boxes(
    tensor: &FinalTensor,
    [batch, outer, k]: [usize; 3],
    slot: usize,
    id: TensorId,
    element: MapElement,
    along_k: bool,
    block_k: i64,
) -> Result<BoxedOperand, String> {
    let index = |role| Coordinate::digit(Quantity::Index(role));
    let [of_k, of_outer] = [(k, index(Role::Sum)), (outer, index(Role::outer(slot)))];
    let [inner, lines] = if along_k { [of_k, of_outer] } else { [of_outer, of_k] };
    let rank = if tensor.dim[batch] > 1 { 3 } else { 2 };
    let mut map = TensorMap {
        tensor: id,
        element,
        rank,
        dims: [0; 5],
        strides: [0; 4],
        box_dims: [0; 5],
        swizzle: Swizzle::None,
        pixels: None,
        lead: 0,
        next_line_later: true,
    };
    let mut coordinates = Vec::new();
    for (at, (axis, start)) in [inner, lines, (batch, index(Role::Batch))].into_iter().enumerate().take(rank) {
        map.dims[at] = tensor.dim[axis] as u64;
        if at > 0 {
            let stride = byte_stride(tensor.dim[axis], tensor.stride[axis], element.bytes().into());
            map.strides[at - 1] = stride.map_err(|why| format!("axis {axis} {why}"))?;
        }
        coordinates.push(start);
    }
    let start = BoxStart { coordinates, taps: Vec::new() };
    Ok(BoxedOperand {
        map,
        start,
        is_a: slot == 0,
        along_k,
        block_k: block_k as u32,
        whole: None,
        taps: TapBoxes::default(),
    })
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

/// The batch, m or n, and k axes of an operand of a matmul; `None` for a convolution's.
pub(super) fn matmul_axes(problem: &Problem, slot: usize) -> Option<[usize; 3]> {
    let coordinates = &problem.operands[slot];
    let axis = |role| coordinates.iter().position(|coordinate| coordinate.quantity == Quantity::Index(role));
    match [Role::Batch, Role::outer(slot), Role::Sum].map(axis) {
        [Some(batch), Some(outer), Some(k)] if coordinates.len() == 3 => Some([batch, outer, k]),
        _ => None,
    }
}

fn is_contiguous(tensor: &FinalTensor, axis: usize) -> bool {
    tensor.stride[axis] == 1 || tensor.dim[axis] == 1
}
