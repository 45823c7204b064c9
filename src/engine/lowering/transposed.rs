//! Pointwise passes with operands in another layout: tiles of these go through shared memory.

use super::combination::power_of_two_within;
use super::sweep::{ACCESS_BYTES, elements, is_vectorizable_along, to_u32};
use crate::engine::builder::Shape;
use crate::graph::{DataType, FinalizedGraph, TensorId};
use crate::kernel::{Access, Axis, Sweep, Tile, TileOperand, TransposedKernel};

/// Threads of a block.
const THREADS: u32 = 256;

/// Points of a tile along either axis, where extents let it, and where elements have a byte: rows of 128 bytes.
const SIDE: i64 = 64;
const SIDE_OF_BYTES: i64 = 128;

/// Points along either axis at least. Of 16 channels tiles took as long as reads of single elements on an H200 (2026-11-30), of 24 0.93 of the time; of fewer
/// a line of L2 that a warp reads holds more of what its neighbours read.
pub(super) const FEWEST: i64 = 16;

/// Bytes of shared memory that tiles have at most: what a block has on every chip without asking for more (CUDA C++ programming guide, compute
/// capabilities).
const SHARED_BYTES: i64 = 48 << 10;

/// The kernel of a sweep, where some of its operands are contiguous along another axis than what it stores.
pub(super) fn kernel(graph: &FinalizedGraph, sweep: &Sweep) -> Option<TransposedKernel> {
    let across = other_axis(graph, sweep)?;
    let mut kernel = TransposedKernel { sweep: sweep.clone(), tile: tile(graph, sweep, across), operands: Vec::new() };
    for tensor in sweep.program.loads().filter(|&id| is_contiguous_along(graph, sweep, id, across)) {
        let bytes = graph.tensor(tensor).data_type.bytes() as i64;
        let fits = |&width: &i64| {
            sweep.space.axes[across].extent % width == 0
                && is_vectorizable_along(graph, &sweep.space, (tensor, across), width)
        };
        let vector = widths(bytes).find(fits).unwrap_or(1);
        let operand = TileOperand { tensor, bytes, vector, first_byte: kernel.shared_bytes() };
        if kernel.shared_bytes() + kernel.tile.bytes(bytes) <= SHARED_BYTES {
            kernel.operands.push(operand);
        }
    }
    let widest = kernel.operands.iter().map(|operand| operand.vector).max()?.max(sweep.vector);
    kernel.tile = with_threads(kernel.tile, widest);
    Some(kernel)
}

/// Elements of so many bytes that are read at once, the most first.
pub(super) fn widths(bytes: i64) -> impl Iterator<Item = i64> {
    std::iter::successors(Some(ACCESS_BYTES / bytes), |width| (*width > 1).then_some(width / 2))
}

/// A tile with threads for each of its vectors of so many points.
pub(super) fn with_threads(tile: Tile, vector: i64) -> Tile {
    Tile { threads: power_of_two_within(tile.points[0] * tile.points[1] / vector, THREADS), ..tile }
}

/// Threads and blocks.
pub(super) fn shape(tile: &Tile, blocks: i64, shared_bytes: i64) -> Shape {
    Shape { grid: [to_u32(blocks), 1], block: [tile.threads, 1, 1], shared_bytes: to_u32(shared_bytes) }
}

/// The axis along which the largest operand is contiguous that is not so along the innermost axis, if there is one.
fn other_axis(graph: &FinalizedGraph, sweep: &Sweep) -> Option<usize> {
    if !stores_vectors_of_points(sweep) {
        return None;
    }
    let axes = &sweep.space.axes;
    let is_long = |axis: &usize| axes[*axis].extent >= FEWEST;
    let with_axis = |id: TensorId| {
        let mut outer = (0..axes.len() - 1).filter(is_long);
        outer.find(|&axis| is_contiguous_along(graph, sweep, id, axis)).map(|axis| (id, axis))
    };
    let found = sweep.program.loads().filter_map(with_axis);
    found.max_by_key(|(id, _)| elements(graph.tensor(*id))).map(|(_, axis)| axis)
}

/// Whether a sweep stores whole vectors along a long innermost axis, and reads nothing but elements of its points.
fn stores_vectors_of_points(sweep: &Sweep) -> bool {
    let is_along = |inner: &Axis| inner.extent >= FEWEST && sweep.stores.iter().all(|id| inner.strides[id] == 1);
    sweep.space.axes.last().is_some_and(is_along)
        && sweep.program.reads_points_alone()
        && !sweep.access.values().any(|access| *access == Access::Bit)
        && !sweep.ragged
        && sweep.accumulators.is_none()
}

/// Whether an operand is contiguous along an outer axis, and has elements along the innermost.
fn is_contiguous_along(graph: &FinalizedGraph, sweep: &Sweep, id: TensorId, axis: usize) -> bool {
    // numbers that the host passes have no strides
    if sweep.access[&id] != Access::Strided || graph.tensor(id).data_type == DataType::Boolean {
        return false;
    }
    let axes = &sweep.space.axes;
    let is_apart = axes.last().is_some_and(|inner| inner.strides[&id] != 0 && inner.strides[&id] != 1);
    is_apart && axes[axis].strides[&id] == 1
}

/// The tile of a sweep.
fn tile(graph: &FinalizedGraph, sweep: &Sweep, across: usize) -> Tile {
    let moved = sweep.access.iter().filter(|(_, access)| **access != Access::Parameter);
    let smallest = moved.map(|(&id, _)| graph.tensor(id).data_type).filter(|kind| *kind != DataType::Boolean);
    let is_of_bytes = smallest.into_iter().any(|kind| kind.bytes() == 1);
    let axes = [sweep.space.axes.len() - 1, across];
    tile_of(axes, axes.map(|axis| sweep.space.axes[axis].extent.value()), is_of_bytes)
}

/// A tile of axes of these extents: as many points along one as along the other, unless one ends before.
pub(super) fn tile_of(axes: [usize; 2], [along, across]: [i64; 2], is_of_bytes: bool) -> Tile {
    let side = if is_of_bytes { SIDE_OF_BYTES } else { SIDE };
    let within = |extent: i64, most: i64| i64::from(power_of_two_within(extent, to_u32(most)));
    let across = within(across, side * side / within(along, side));
    Tile { axes, points: [within(along, side * side / across), across], threads: THREADS }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::engine::lowering::sweep::{SweepRequest, plan};
    use crate::graph::{Graph, PointwiseMode, Tensor};
    use crate::kernel::StageProgram;

    /// The kernel of `y = x + r` of images, with channels innermost but in x, and x's operand.
    fn kernel_of(dim: [i64; 4], data_type: DataType) -> Option<TransposedKernel> {
        kernel_with(Tensor::new("x").row_major(dim), data_type)
    }

    fn kernel_with(x: Tensor, data_type: DataType) -> Option<TransposedKernel> {
        let mut graph = Graph::new().io_data_type(data_type).compute_data_type(DataType::Float);
        let dim = [x.dim[0], x.dim[1], x.dim[2], x.dim[3]];
        let x = graph.tensor(x);
        let r = graph.tensor(Tensor::new("r").channels_last(dim));
        let y = graph.pointwise("y", PointwiseMode::Add, &[x, r]);
        *graph.set_output(y) = Tensor::new("y").channels_last(dim);
        let graph = graph.finalize().expect("well formed");
        let sweep = plan(SweepRequest {
            graph: &graph,
            extents: &dim,
            program: StageProgram::of(&graph, graph.operation_ids(), None),
            stores: graph.outputs().collect(),
            targets: Vec::new(),
            reduced: BTreeSet::new(),
            core: None,
        });
        kernel(&graph, &sweep)
    }

    /// The tile, vectors of the operand and of points, threads and blocks.
    fn shape_of(dim: [i64; 4], data_type: DataType) -> ([i64; 2], i64, i64, u32, i64) {
        let kernel = kernel_of(dim, data_type).expect("a kernel");
        let [operand] = kernel.operands[..] else { panic!("{:?}", kernel.operands) };
        (kernel.tile.points, operand.vector, kernel.sweep.vector, kernel.tile.threads, kernel.blocks())
    }

    #[test]
    fn tiles_have_rows_of_whole_lines_both_ways() {
        assert_eq!(shape_of([2, 128, 32, 32], DataType::Half), ([64, 64], 8, 8, 256, 2 * 2 * 16));
        assert_eq!(shape_of([2, 128, 32, 32], DataType::Float), ([64, 64], 4, 4, 256, 2 * 2 * 16));
        assert_eq!(shape_of([2, 128, 32, 32], DataType::Int8), ([128, 128], 16, 16, 256, 2 * 8));
    }

    #[test]
    fn tiles_end_with_short_axes_and_are_longer_along_the_other() {
        assert_eq!(shape_of([2, 16, 32, 32], DataType::Half), ([16, 256], 8, 8, 256, 2 * 4));
        assert_eq!(shape_of([2, 256, 4, 4], DataType::Half), ([256, 16], 8, 8, 256, 2));
        assert_eq!(shape_of([1, 16, 4, 4], DataType::Half), ([16, 16], 8, 8, 32, 1));
    }

    #[test]
    fn vectors_are_as_wide_as_each_layout_lets_them() {
        assert_eq!(shape_of([2, 64, 7, 7], DataType::Half), ([64, 64], 1, 8, 256, 2));
        assert_eq!(shape_of([2, 65, 8, 8], DataType::Half), ([64, 64], 8, 1, 256, 4));
    }

    #[test]
    fn few_channels_or_pixels_and_one_layout_are_left_to_other_passes() {
        assert!(kernel_of([2, 15, 32, 32], DataType::Half).is_none());
        assert!(kernel_of([2, 64, 3, 5], DataType::Half).is_none());
        assert!(kernel_with(Tensor::new("x").channels_last([2, 64, 32, 32]), DataType::Half).is_none());
        let bits = Tensor::new("x").row_major([2, 64, 32, 32]).data_type(DataType::Boolean);
        assert!(kernel_with(bits, DataType::Half).is_none());
    }
}
