//! Passes over the same rows in one launch: norms of rows, softmax, and whatever else reads what its own rows were reduced to.

use std::collections::BTreeSet;

use super::combination::{Combination, following_sweep};
use super::passes::Pass;
use super::phases::{Gathered, Planned, phase_parameters};
use super::row_threads::{RowExtents, RowThreads, most_blocks_of_a_cluster};
use super::sweep::to_u32;
use super::totals::with_following_of;
use crate::device::Device;
use crate::engine::builder::{KernelBuilder, Shape};
use crate::graph::{DataType, FinalizedGraph, TensorId};
use crate::kernel::{Access, Body, ColumnTotals, IterationSpace, Phase, RowsKernel, Sweep};

/// Most vectors of a thread: what is read again after these is not in registers any more.
const MOST_VECTORS: i64 = 16;

/// Threads of a warp.
const WARP: u32 = 32;

/// Rounds of two rows a thread, from which on blocks that stay have two at once: half the waits for totals, and six shuffles for four of them,
/// not ten for two. With fewer rounds it was not measured.
const ROUNDS_OF_TWO_ROWS: i64 = 4;

/// Blocks that share a row where they add up over rows: two where one has no room for it.
const BLOCKS_OF_A_STAYING_ROW: [u32; 2] = [1, 2];

/// The launch of passes over rows.
pub(super) struct Rows {
    kernel: RowsKernel,
    /// The combination of what is added up over rows.
    columns: Option<(IterationSpace, Option<Sweep>)>,
}

impl Rows {
    /// The launch, in blocks of half as many threads as passes have, since they keep their rows in registers, and the passes that it does not take;
    /// `None` where points of a row do not lie side by side, or a launch a pass is faster.
    pub(super) fn new(gathered: &Gathered<'_>, launched: (u32, &Device)) -> Option<(Self, Vec<Pass>)> {
        let &Gathered { graph, program, ref rest, .. } = gathered;
        let first = rest.iter().position(|pass| adds_up_rows(graph, pass, (gathered.full, gathered.reduced)));
        let with_columns = first.and_then(|first| {
            let all: BTreeSet<TensorId> = rest.iter().flat_map(Pass::totals).collect();
            let (pass, rest) = with_following_of(graph, program, (rest.clone(), &all), first);
            let rows = PlannedRows::new(gathered, Some(&pass))?;
            let columns = Some((rows.column_space(), rows.following(&pass)));
            Some((Self { kernel: rows.kernel(launched)?, columns }, rest))
        });
        with_columns.or_else(|| {
            let kernel = PlannedRows::new(gathered, None)?.kernel(launched)?;
            Some((Self { kernel, columns: None }, rest.clone()))
        })
    }

    /// Adds the launch.
    pub(super) fn push(self, builder: &mut KernelBuilder) {
        let kernel = self.kernel;
        let parameters = phase_parameters(&kernel.phases);
        let shape = Shape {
            grid: [to_u32(kernel.blocks()), 1],
            block: [kernel.columns, kernel.rows, 1],
            shared_bytes: kernel.shared_bytes(),
        };
        let (Some(totals), Some((space, following))) = (kernel.column_totals.clone(), self.columns) else {
            return builder.push("rows", shape, parameters, Body::Rows(kernel));
        };
        let partials = builder.regions(totals.accumulations.len(), i64::from(totals.blocks) * kernel.elements);
        let with_partials = parameters.into_iter().chain(partials.iter().copied()).collect();
        let count = kernel.count;
        builder.push("rows", shape, with_partials, Body::Rows(kernel));
        let ColumnTotals { accumulations, blocks, .. } = totals;
        Combination { space, accumulations, partials, splits: blocks.into(), count, following }.push(builder);
    }
}

/// Whether a pass reduces all points along the axes that rows do not have, and does nothing else.
fn adds_up_rows(graph: &FinalizedGraph, pass: &Pass, (full, of_rows): (&[i64], &BTreeSet<usize>)) -> bool {
    let across: BTreeSet<usize> = (0..full.len()).filter(|axis| full[*axis] > 1 && !of_rows.contains(axis)).collect();
    let is_float = |id: TensorId| graph.tensor(id).data_type == DataType::Float;
    let is_of_all = pass.extents == full && pass.reduced == across && pass.stores.is_empty();
    is_of_all && !pass.accumulations.is_empty() && pass.totals().all(is_float)
}

/// Passes over points of which those of a row lie side by side.
struct PlannedRows<'a>(Planned<'a>);

impl<'a> PlannedRows<'a> {
    fn new(gathered: &'a Gathered<'a>, columns: Option<&'a Pass>) -> Option<Self> {
        let planned = Planned::new(gathered, columns)?;
        let first = planned.space.axes.iter().position(|axis| axis.reduced)?;
        let are_rows = planned.space.axes[first..].iter().all(|axis| axis.reduced);
        let is_in_vectors = columns.is_none() || !planned.width.ragged;
        (are_rows && is_in_vectors).then_some(Self(planned))
    }

    /// The kernel; `None` where rows are so long, or so few, that a launch a pass is faster.
    fn kernel(&self, (threads, device): (u32, &Device)) -> Option<RowsKernel> {
        let inner = self.0.space.axes.last()?.extent.value();
        let phases = self.0.phases();
        let (count, elements) = (self.0.space.points_where(false), self.0.space.points_where(true));
        let vector = self.0.width.vector;
        let vectors = elements / inner * ((inner + vector - 1) / vector);
        let starts_with_totals = phases.first().is_some_and(|phase| !phase.accumulations.is_empty());
        let extents = RowExtents {
            rows: count,
            vectors,
            vector,
            tensors: self.tensors_of_rows(&phases),
            multiprocessors: device.sm_count,
            most_blocks: if starts_with_totals { most_blocks_of_a_cluster(device) } else { 1 },
        };
        let kernel = |threads: RowThreads| {
            let RowThreads { columns, rows, blocks: cluster } = threads;
            let is_long = vectors > i64::from(columns * cluster) * MOST_VECTORS;
            let is_whole = !is_long || count >= i64::from(device.sm_count);
            let phases = phases.clone();
            is_whole.then_some(RowsKernel {
                phases,
                columns,
                cluster,
                rows,
                count,
                vectors,
                elements,
                column_totals: None,
            })
        };
        let Some(pass) = self.0.columns else {
            return kernel(extents.passing(threads / 2));
        };
        let sums = pass.accumulations.len() as i64;
        BLOCKS_OF_A_STAYING_ROW
            .into_iter()
            .find_map(|blocks| self.with_column_totals(kernel(extents.staying(sums, blocks)?)?, pass, device))
    }

    /// Adds what blocks that stay add up over rows, so that a thread has its columns' sums in registers.
    fn with_column_totals(&self, kernel: RowsKernel, pass: &Pass, device: &Device) -> Option<RowsKernel> {
        let phase = self.0.levels().into_iter().position(|level| level == pass.level)?;
        let RowsKernel { columns, cluster, rows, count, .. } = kernel;
        let resident = (ColumnTotals::RESIDENT_THREADS / (columns * rows)).max(1);
        let (ahead, vector_bytes) = self.0.read_ahead(&kernel.phases, false);
        let of_rows = |at_once: u32| {
            let blocks = device.sm_count * resident / cluster;
            let column_totals = ColumnTotals {
                accumulations: pass.accumulations.clone(),
                phase,
                blocks: blocks.min(to_u32(count / i64::from(rows * at_once))),
                at_once,
                ahead: ahead.clone(),
                vector_bytes,
            };
            RowsKernel { column_totals: Some(column_totals), ..kernel.clone() }
        };
        let fits = |kernel: &RowsKernel| kernel.shared_bytes() <= device.shared_bytes_per_block / resident;
        let are_many = count >= i64::from(device.sm_count * resident * rows) * ROUNDS_OF_TWO_ROWS;
        let are_even = count % i64::from(2 * rows) == 0;
        let of_two = (columns > WARP && are_many && are_even).then(|| of_rows(2)).filter(fits);
        of_two.or_else(|| Some(of_rows(1)).filter(fits))
    }

    /// Tensors that points read and that differ from row to row.
    fn tensors_of_rows(&self, phases: &[Phase]) -> i64 {
        let loads = phases
            .iter()
            .filter_map(|phase| phase.points.as_ref())
            .flat_map(|sweep| sweep.program.loads().filter(|id| sweep.access.get(id) != Some(&Access::Parameter)));
        let axes = &self.0.space.axes;
        let is_of_points = |id: &TensorId| axes.iter().any(|axis| axis.reduced && axis.strides[id] != 0);
        loads.filter(is_of_points).filter(|id| self.0.changes(*id, false)).collect::<BTreeSet<_>>().len() as i64
    }

    /// The columns: the axes along rows, whose totals have places in memory.
    fn column_space(&self) -> IterationSpace {
        let mut space = self.0.space.clone();
        space.axes.retain(|axis| axis.reduced);
        space.axes.iter_mut().for_each(|axis| axis.reduced = false);
        space
    }

    /// What is evaluated of the totals of a column.
    fn following(&self, pass: &Pass) -> Option<Sweep> {
        let program = self.0.program.needed_for(pass.following.iter().copied());
        let totals: BTreeSet<TensorId> = pass.totals().collect();
        let following =
            || following_sweep(self.0.graph, self.column_space(), (program, pass.following.clone()), &totals);
        (!pass.following.is_empty()).then(|| Sweep { wide_index: self.0.wide_index, ..following() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::ComputeCapability;
    use crate::engine::lowering::passes::passes;
    use crate::graph::{Graph, NormBackward, NormForward, NormMode, NormPhase, Port, Scalar, Tensor};
    use crate::kernel::StageProgram;

    fn rows_of(graph: &Graph) -> Option<(Rows, Vec<Pass>)> {
        let graph = graph.finalize().expect("well formed");
        let graph = graph.expand_in(DataType::Float);
        let operations: Vec<_> = graph.operation_ids().collect();
        let program = StageProgram::of(&graph, operations.iter().copied(), None);
        let passes = passes(&graph, &operations, None);
        Rows::new(&Gathered::new(&graph, &program, &passes)?, (512, &Device::typical(ComputeCapability::SM_90)))
    }

    fn half() -> Graph {
        Graph::new().io_data_type(DataType::Half).compute_data_type(DataType::Float)
    }

    /// A layer norm over all axes but the first, with its mean.
    fn layer(x: Tensor) -> Graph {
        let mut graph = half();
        let rank = x.dim.len();
        let x = graph.tensor(x);
        let epsilon = Tensor::scalar("epsilon", DataType::Float, Scalar::Float(1e-5));
        let epsilon = graph.tensor(Tensor { dim: vec![1; rank], stride: vec![1; rank], ..epsilon });
        let norm = NormForward::new(NormMode::Layer, NormPhase::Training);
        let results = graph.composite("norm", norm, &[(Port::X, x), (Port::EPSILON, epsilon)], &[Port::Y, Port::MEAN]);
        for id in results {
            graph.set_output(id);
        }
        graph
    }

    #[test]
    fn a_norm_is_one_launch_of_three_phases_whose_mean_a_thread_stores() {
        let (rows, rest) = rows_of(&layer(Tensor::new("x").row_major([64, 4096]))).expect("rows");
        assert!(rest.is_empty());
        let shape = |phase: &Phase| (phase.accumulations.len(), phase.once.is_some(), phase.points.is_some());
        let phases: Vec<_> = rows.kernel.phases.iter().map(shape).collect();
        assert_eq!(phases, [(1, false, true), (1, true, true), (0, false, true)]);
        let RowsKernel { columns, rows, count, vectors, elements, .. } = rows.kernel;
        assert_eq!((columns, rows, count, vectors, elements), (512, 1, 64, 512, 4096));
    }

    #[test]
    fn rows_that_do_not_lie_side_by_side_or_are_few_and_long_have_a_launch_a_pass() {
        let per_pixel = Tensor::new("x").row_major([64, 24, 5, 7]);
        assert!(rows_of(&layer(per_pixel)).is_some());
        let mut strided = Tensor::new("x").dim([64, 4096]).stride([1, 64]);
        strided.alignment = 16;
        assert!(rows_of(&layer(strided)).is_none(), "rows step by 64 elements");
        assert!(rows_of(&layer(Tensor::new("x").row_major([2, 1 << 20]))).is_none());
        assert!(rows_of(&layer(Tensor::new("x").row_major([512, 1 << 20]))).is_some());
    }

    #[test]
    fn sums_over_rows_go_with_a_gradient() {
        let mut graph = half();
        let [dy, x] = ["dy", "x"].map(|name| graph.tensor(Tensor::new(name).row_major([64, 512])));
        let scale = graph.tensor(Tensor::new("scale").row_major([1, 512]));
        let inverse = graph.tensor(Tensor::new("inverse").row_major([64, 1]).data_type(DataType::Float));
        let inputs = [(Port::DY, dy), (Port::X, x), (Port::SCALE, scale), (Port::INV_VARIANCE, inverse)];
        for id in graph.composite("norm", NormBackward { mode: NormMode::Rms }, &inputs, &[Port::DX, Port::DSCALE]) {
            graph.set_output(id);
        }
        let (rows, rest) = rows_of(&graph).expect("rows");
        assert!(rest.is_empty());
        assert_eq!(rows.kernel.phases.len(), 2);
        let totals = rows.kernel.column_totals.as_ref().expect("sums over rows");
        assert_eq!((totals.accumulations.len(), totals.phase, totals.blocks), (1, 0, 16));
        let (space, following) = rows.columns.as_ref().expect("a combination");
        assert_eq!((space.points(), following.as_ref().map(|sweep| sweep.stores.len())), (512, Some(1)));
    }
}
