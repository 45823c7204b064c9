//! Pointwise passes that read what is the same for many points, as statistics of channels: a thread keeps it, and steps over the points.

use std::collections::BTreeSet;

use super::sweep::{elements, to_u32};
use crate::device::Device;
use crate::engine::builder::Shape;
use crate::graph::{DataType, FinalizedGraph, TensorId};
use crate::kernel::{ColumnsKernel, StageProgram, Sweep};

/// Threads of a block.
const THREADS: u32 = 256;

/// Steps of a thread at most, and points of its vector: with these, and room for three blocks of a multiprocessor, two gradients of batch norms took
/// 147 and 148 µs on an H200 (2026-11-26), in vectors of 8 points and 8 steps 153 and 166, with 4 steps 175 and 189.
const MOST_STEPS: u32 = 16;
const MOST_POINTS: i64 = 4;

/// Blocks of a multiprocessor at least, before threads step over more.
const BLOCKS: i64 = 6;

/// How many times more points than elements of an operand there are that threads keep.
const POINTS_OF_AN_ELEMENT: i64 = 16;

/// Graph axes along which threads of a pass over `extents` step: those that none of the operands has which it keeps. Empty where nothing is computed of
/// these alone: then a thread a vector is as fast.
pub(super) fn stepped_axes(graph: &FinalizedGraph, extents: &[i64], program: &StageProgram) -> BTreeSet<usize> {
    let points: i64 = extents.iter().product();
    let is_kept = |&id: &TensorId| {
        let tensor = graph.tensor(id);
        let elements = elements(tensor);
        !tensor.is_pass_by_value && elements > 1 && elements * POINTS_OF_AN_ELEMENT <= points
    };
    let kept: Vec<TensorId> = program.loads().filter(is_kept).collect();
    if !program.results().any(|id| is_kept(&id)) || !program.reads_points_alone() {
        return BTreeSet::new();
    }
    let is_stepped = |&axis: &usize| {
        extents[axis] > 1 && kept.iter().all(|&id| graph.tensor(id).dim.get(axis).is_none_or(|&extent| extent == 1))
    };
    (0..extents.len()).filter(is_stepped).collect()
}

/// The width of vectors in which a sweep goes that would go in these: whole bytes of packed booleans are stored.
pub(super) fn width(graph: &FinalizedGraph, vector: i64, stores: &[TensorId]) -> i64 {
    let is_packed = stores.iter().any(|&id| graph.tensor(id).data_type == DataType::Boolean);
    if is_packed { vector } else { vector.min(MOST_POINTS) }
}

/// The kernel of a sweep whose stepped axes are marked as reduced; `None` where vectors lie along one of these, or there are too few points.
pub(super) fn kernel(sweep: Sweep, is_reversed: bool, device: &Device) -> Option<ColumnsKernel> {
    let runs_along_kept = sweep.space.axes.last().is_some_and(|axis| !axis.reduced);
    if !runs_along_kept || sweep.vector == 1 || sweep.ragged || sweep.accumulators.is_some() {
        return None;
    }
    let of_steps = |each| ColumnsKernel { sweep: sweep.clone(), columns: 1, rows: 1, each, is_reversed };
    let vectors = of_steps(1).inner_vectors();
    let blocks = (vectors + i64::from(THREADS) - 1) / i64::from(THREADS);
    let columns = to_u32((vectors + blocks - 1) / blocks);
    let shaped = |each| ColumnsKernel { columns, rows: THREADS / columns, ..of_steps(each) };
    let fills = |kernel: &ColumnsKernel| kernel.blocks() >= i64::from(device.sm_count) * BLOCKS;
    let steps = std::iter::successors(Some(MOST_STEPS), |steps| (*steps > 2).then_some(steps / 2));
    steps.map(shaped).find(fills)
}

/// Threads and blocks.
pub(super) fn shape(kernel: &ColumnsKernel) -> Shape {
    Shape { grid: [to_u32(kernel.blocks()), 1], block: [kernel.columns, kernel.rows, 1], shared_bytes: 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::ComputeCapability;
    use crate::engine::lowering::sweep::{SweepRequest, plan};
    use crate::graph::{Graph, PointwiseMode, Tensor};

    /// The kernel of `y = x · (a / b)` with a and b of channels, or of `y = x · a` where nothing is computed of them.
    fn kernel_of(dim: [i64; 4], divides: bool) -> Option<ColumnsKernel> {
        let mut graph = Graph::new()
            .io_data_type(DataType::Half)
            .intermediate_data_type(DataType::Float)
            .compute_data_type(DataType::Float);
        let x = graph.tensor(Tensor::new("x").channels_last(dim));
        let [a, b] = ["a", "b"].map(|name| graph.tensor(Tensor::new(name).channels_last([1, dim[1], 1, 1])));
        let factor = if divides { graph.pointwise("factor", PointwiseMode::Div, &[a, b]) } else { a };
        let y = graph.pointwise("y", PointwiseMode::Mul, &[x, factor]);
        graph.set_output(y);
        let graph = graph.finalize().expect("well formed");
        let program = StageProgram::of(&graph, graph.operation_ids(), None);
        let reduced = stepped_axes(&graph, &dim, &program);
        if reduced.is_empty() {
            return None;
        }
        let stores = graph.outputs().collect();
        let request =
            SweepRequest { graph: &graph, extents: &dim, program, stores, targets: Vec::new(), reduced, core: None };
        kernel(plan(request), true, &Device::typical(ComputeCapability::SM_90))
    }

    #[test]
    fn threads_step_over_pixels_where_something_is_computed_of_channels() {
        let kernel = kernel_of([128, 256, 56, 56], true).expect("columns");
        assert_eq!((kernel.columns, kernel.rows, kernel.each), (32, 8, MOST_STEPS));
        assert_eq!((kernel.inner_vectors(), kernel.outer_points(), kernel.steps()), (32, 1, 128 * 56 * 56));
        assert_eq!(kernel.blocks(), 128 * 56 * 56 / (8 * 16));
        assert!(kernel_of([128, 256, 56, 56], false).is_none(), "nothing is computed of channels alone");
        assert!(kernel_of([2, 16, 30, 30], true).is_none(), "too few points");
    }
}
