//! Tensors of heads in boxes, of sequences that are padded to one length, or ragged: one behind the other, without gaps.

use crate::graph::{DataType, FinalTensor, FinalizedGraph, TensorId};
use crate::kernel::{MapElement, Swizzle, TensorMap};

/// What boxes and stores of 16 bytes need of strides and pointers, in bytes.
const UNIT: i64 = 16;

/// What a stride of a tensor map is below, in bytes.
const LARGEST_STRIDE: i64 = 1 << 40;

/// Bytes of a box's line.
const LINE_BYTES: u32 = 128;

/// Elements of a box's line, of a type.
pub(super) fn line(data_type: DataType) -> u32 {
    LINE_BYTES / bytes_of(data_type) as u32
}

/// Bytes of an element.
fn bytes_of(data_type: DataType) -> i64 {
    data_type.bits() as i64 / 8
}

/// Units of 16 bytes within which sequences of a ragged tensor end: what a coordinate holds.
const REACH: u64 = 1 << 31;

/// Boxes of so many rows of a tensor of heads, whose elements and rows are along these axes.
///
/// A ragged tensor has no axis of batches. Its map begins before it, by as many rows as a sequence has at most. A row is counted as the rows
/// before the end of that many of which a sequence has the last, and the last axis is the place of the sequence's end, in units of 16 bytes:
/// rows beyond the sequence are outside of the map, read zeros, and belong to no other sequence (`docs/spec/attention.md` AT-K21).
pub(in crate::engine::engines) fn boxes(
    graph: &FinalizedGraph,
    id: TensorId,
    [size, sequence]: [usize; 2],
    rows: u32,
) -> TensorMap {
    let tensor = graph.tensor(id);
    let extent = |axis: usize| tensor.dim[axis] as u64;
    let bytes = bytes_of(tensor.data_type) as u64;
    let stride = |axis: usize| if tensor.dim[axis] == 1 { UNIT as u64 } else { tensor.stride[axis] as u64 * bytes };
    let map = TensorMap {
        tensor: id,
        element: match tensor.data_type {
            DataType::Half => MapElement::Half,
            data_type if data_type.is_fp8() => MapElement::Byte,
            _ => MapElement::BFloat16,
        },
        rank: 4,
        dims: [extent(size), extent(sequence), extent(1), extent(0), 0],
        strides: [stride(sequence), stride(1), stride(0), 0],
        box_dims: [line(tensor.data_type), rows, 1, 1, 0],
        swizzle: Swizzle::Bytes128,
        pixels: None,
        lead: 0,
        next_line_later: false,
    };
    if tensor.ragged_offset.is_none() {
        return map;
    }
    TensorMap {
        dims: [extent(size), extent(sequence), extent(1), REACH, 0],
        strides: [stride(sequence), stride(1), UNIT as u64, 0],
        lead: extent(sequence) * stride(sequence),
        ..map
    }
}

/// Whether a tensor of heads, whose elements are along an axis, comes in boxes.
pub(in crate::engine::engines) fn is_boxed(graph: &FinalizedGraph, id: TensorId, size: usize) -> Result<(), String> {
    let tensor = graph.tensor(id);
    let refuse = |why: String| Err(format!("tensor {}: {why}", graph.describe_tensor(id)));
    if tensor.is_virtual {
        return refuse("it is not in memory".to_owned());
    }
    if tensor.stride[size] != 1 {
        return refuse(format!("heads of stride {}; required 1", tensor.stride[size]));
    }
    if tensor.alignment % UNIT != 0 {
        return refuse(format!("pointers are multiples of {} bytes; required {UNIT}", tensor.alignment));
    }
    let is_taken = |axis: usize| {
        let bytes = tensor.stride[axis].saturating_mul(bytes_of(tensor.data_type));
        bytes > 0 && bytes % UNIT == 0 && bytes < LARGEST_STRIDE
    };
    if let Some(axis) = addressing(tensor, size).find(|&axis| !is_taken(axis)) {
        return refuse(format!(
            "stride {} on axis {axis}; boxes take multiples of {UNIT} bytes below 2^40",
            tensor.stride[axis]
        ));
    }
    // elements and rows are the last two axes, in either order
    let rows = 5 - size;
    if tensor.ragged_offset.is_some() && tensor.dim[rows].saturating_mul(tensor.stride[rows]) >= LARGEST_STRIDE / 2 {
        return refuse(format!(
            "a sequence of {} rows of stride {}; boxes of ragged tensors take less than 2^40 bytes",
            tensor.dim[rows], tensor.stride[rows]
        ));
    }
    are_offsets(graph, id)
}

/// Whether rows of a tensor of heads are moved 16 bytes at a time, and nothing behind them. Sequences of a ragged tensor begin at multiples of
/// so many.
pub(in crate::engine::engines) fn has_vectors(tensor: &FinalTensor) -> bool {
    let is_whole = |elements: i64| elements.saturating_mul(bytes_of(tensor.data_type)) % UNIT == 0;
    let are_whole = is_whole(tensor.dim[3]) && addressing(tensor, 3).all(|axis| is_whole(tensor.stride[axis]));
    tensor.alignment % UNIT == 0 && tensor.stride[3] == 1 && are_whole
}

/// Axes whose strides say where rows of a tensor of heads begin, whose elements are along an axis: of a ragged tensor not that of the batches, and
/// that of a sequence's rows even where there is one, as sequences begin at multiples of it.
pub(in crate::engine::engines) fn addressing(tensor: &FinalTensor, size: usize) -> impl Iterator<Item = usize> {
    let (is_ragged, rows) = (tensor.ragged_offset.is_some(), 5 - size);
    let matters = move |axis: usize| tensor.dim[axis] != 1 || is_ragged && axis == rows;
    (usize::from(is_ragged)..4).filter(move |&axis| axis != size && matters(axis))
}

/// Whether kernels read the offsets of a tensor's sequences, where it is ragged.
pub(in crate::engine::engines) fn are_offsets(graph: &FinalizedGraph, id: TensorId) -> Result<(), String> {
    let tensor = graph.tensor(id);
    let Some(offsets) = tensor.ragged_offset.map(|id| graph.tensor(id)) else { return Ok(()) };
    let is_integer = matches!(offsets.data_type, DataType::Int32 | DataType::Int64);
    let are_in_memory = !offsets.is_virtual && !offsets.is_pass_by_value;
    let count: i64 = offsets.dim.iter().product();
    if is_integer && are_in_memory && count == tensor.dim[0] + 1 && offsets.dim.first() == Some(&count) {
        return Ok(());
    }
    let required = tensor.dim[0] + 1;
    Err(format!(
        "tensor {}: offsets of its sequences are INT32 or INT64 in device memory, along their first axis {required}; found {} {:?}",
        graph.describe_tensor(id),
        offsets.data_type,
        offsets.dim
    ))
}

/// Tensors with the offsets of the ragged ones among these, each once.
///
/// # Errors
/// Ragged tensors without lengths of their sequences (AT-E10).
pub(in crate::engine::engines) fn offsets(
    graph: &FinalizedGraph,
    ids: impl Iterator<Item = TensorId>,
    has_lengths: bool,
) -> Result<Vec<TensorId>, String> {
    let mut found = Vec::new();
    for id in ids {
        let Some(offsets) = graph.tensor(id).ragged_offset else { continue };
        if !has_lengths {
            let tensor = graph.describe_tensor(id);
            return Err(format!("tensor {tensor}: it is ragged, and there are no lengths of its sequences [AT-E10]"));
        }
        if !found.contains(&offsets) {
            found.push(offsets);
        }
    }
    Ok(found)
}
