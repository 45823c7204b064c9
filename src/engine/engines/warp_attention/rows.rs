//! How rows of heads come to shared memory, of tensors of any layout.

use super::super::attention::boxes::addressing;
use crate::device::Device;
use crate::graph::{FinalTensor, FinalizedGraph, TensorId};
use crate::kernel::{HeadRows, MmaType};

/// Bytes of a copy, the most first.
const PIECES: [u32; 3] = [16, 8, 4];

/// Rows of a tensor along these axes, of elements and of rows.
pub(in crate::engine::engines) fn of(graph: &FinalizedGraph, id: TensorId, axes: [usize; 2]) -> HeadRows {
    let tensor = graph.tensor(id);
    let piece = PIECES.into_iter().find(|&bytes| lies_in_pieces(tensor, axes[0], i64::from(bytes)));
    HeadRows { tensor: id, axes, piece }
}

/// Whether rows begin and end at multiples of so many bytes.
fn lies_in_pieces(tensor: &FinalTensor, size: usize, bytes: i64) -> bool {
    let element = tensor.data_type.bits() as i64 / 8;
    let is_whole = |elements: i64| elements.saturating_mul(element) % bytes == 0;
    (tensor.stride[size] == 1 || tensor.dim[size] == 1)
        && tensor.alignment % bytes == 0
        && is_whole(tensor.dim[size])
        && addressing(tensor, size).all(|axis| is_whole(tensor.stride[axis]))
}

/// Whether operands lie in memory.
///
/// # Errors
/// Which does not.
pub(in crate::engine::engines) fn are_in_memory<const N: usize>(
    graph: &FinalizedGraph,
    operands: [TensorId; N],
) -> Result<(), String> {
    match operands.into_iter().find(|&id| graph.tensor(id).is_virtual || graph.tensor(id).is_pass_by_value) {
        Some(id) => Err(format!("tensor {}: it is not in device memory", graph.describe_tensor(id))),
        None => Ok(()),
    }
}

/// What whoever expects FLOAT should know.
pub(in crate::engine::engines) fn remarks(operand: MmaType) -> Vec<String> {
    match operand {
        MmaType::Tf32 => vec!["heads of FLOAT are multiplied as TF32, at its rate".to_owned()],
        _ => Vec::new(),
    }
}

/// Bytes of rows that L2 holds beside what else goes through it.
pub(in crate::engine::engines) fn held_by_l2(device: &Device) -> i64 {
    i64::try_from(device.l2_bytes / 2).unwrap_or(i64::MAX)
}
