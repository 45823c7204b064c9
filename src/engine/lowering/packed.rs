//! Packed booleans that are stored: whose bytes a vector of eight points fills, and whose not.

use crate::graph::{DataType, FinalTensor, FinalizedGraph, TensorId};
use crate::kernel::IterationSpace;

/// Packed booleans are written a byte at a time.
pub(super) const BITS: i64 = 8;

/// Whether a stored tensor of packed booleans needs a pass of its own, in which each thread finds the points of one byte:
/// some line starts inside a byte, or lines run along another axis than those of the graph's first such output.
pub(super) fn stands_apart(graph: &FinalizedGraph, id: TensorId) -> bool {
    let is_packed = |id: TensorId| graph.tensor(id).data_type == DataType::Boolean;
    let axis = |id: TensorId| bit_axis(graph.tensor(id));
    let first = graph.outputs().filter(|&id| is_packed(id)).find_map(|id| axis(id).flatten());
    is_packed(id) && axis(id).is_none_or(|axis| axis.is_some() && axis != first)
}

/// The axis along which bits lie, `None` for a single element; nothing where a line starts inside a byte.
fn bit_axis(tensor: &FinalTensor) -> Option<Option<usize>> {
    let long = || (0..tensor.dim.len()).filter(|&axis| tensor.dim[axis] > 1);
    let Some(axis) = long().min_by_key(|&axis| tensor.stride[axis]) else { return Some(None) };
    let on_bytes = long().filter(|&other| other != axis).all(|other| tensor.stride[other] % BITS == 0);
    (tensor.stride[axis] == 1 && on_bytes).then_some(Some(axis))
}

/// Whether points of different lines of a space share some byte of a stored tensor.
pub(super) fn shares_bytes(graph: &FinalizedGraph, space: &IterationSpace, stores: &[TensorId]) -> bool {
    let Some((inner, outer)) = space.axes.split_last() else { return false };
    let is_apart = |id: &TensorId| {
        let in_order = inner.extent == 1 || inner.strides[id] == 1;
        in_order && outer.iter().all(|axis| axis.extent == 1 || axis.strides[id] % BITS == 0)
    };
    stores.iter().filter(|&&id| graph.tensor(id).data_type == DataType::Boolean).any(|id| !is_apart(id))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::{Graph, PointwiseMode, Tensor};

    /// Which of two masks of these strides, extents 2, 16 and 24, stand apart.
    fn apart(strides: [[i64; 3]; 2]) -> Vec<bool> {
        let mut graph = Graph::new().io_data_type(DataType::Half).compute_data_type(DataType::Float);
        let x = graph.tensor(Tensor::new("x").row_major([2, 16, 24]));
        for stride in strides {
            let mask = graph.pointwise("mask", PointwiseMode::CmpGt, &[x, x]);
            graph.set_output(mask).data_type = Some(DataType::Boolean);
            graph.tensor_mut(mask).stride = stride.to_vec();
        }
        let graph = graph.finalize().expect("well formed");
        graph.outputs().map(|id| stands_apart(&graph, id)).collect()
    }

    #[test]
    fn lines_of_whole_bytes_along_one_axis_are_stored_together() {
        assert_eq!(apart([[384, 24, 1], [512, 32, 1]]), [false, false]);
        assert_eq!(apart([[384, 24, 1], [384, 1, 16]]), [false, true]);
    }

    #[test]
    fn lines_that_start_inside_a_byte_stand_apart() {
        assert_eq!(apart([[500, 25, 1], [384, 1, 16]]), [true, false]);
        assert_eq!(apart([[1000, 50, 2], [384, 24, 1]]), [true, false]);
    }
}
