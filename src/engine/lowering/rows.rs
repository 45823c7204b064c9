//! Passes over the same rows in one launch: norms of rows, softmax, and whatever else reads what its own rows were reduced to.

use std::collections::BTreeSet;

use super::combination::{Combination, following_sweep};
use super::passes::Pass;
use super::row_threads::{RowExtents, RowThreads, most_blocks_of_a_row};
use super::sweep::{
    SweepRequest, Width, needs_wide_index, over, program_parameters, single_point, to_u32, with_bytes_of_booleans,
};
use super::totals::with_following_of;
use crate::device::Device;
use crate::engine::builder::{KernelBuilder, Shape};
use crate::graph::{DataType, FinalizedGraph, TensorId};
use crate::kernel::{
    Access, Body, ColumnTotals, IterationRequest, IterationSpace, RowPhase, RowsKernel, StageProgram, Sweep,
};

/// Most vectors of a thread: what is read again after these is not in registers any more.
const MOST_VECTORS: i64 = 16;

/// Threads of a warp.
const WARP: u32 = 32;

/// Rounds of two rows a thread, from which on blocks that stay have two at once: half the waits for totals, and six shuffles for four of them,
/// not ten for two. With fewer rounds it was not measured.
const ROUNDS_OF_TWO_ROWS: i64 = 4;

/// Blocks that share a row where they add up over rows: two where one has no room for it.
const BLOCKS_OF_A_STAYING_ROW: [u32; 2] = [1, 2];

/// Passes that one launch takes, and the rest.
pub(super) struct Rows {
    kernel: RowsKernel,
    /// The combination of what is added up over rows.
    columns: Option<(IterationSpace, Option<Sweep>)>,
    /// Passes that have nothing to do with these rows.
    pub(super) rest: Vec<Pass>,
    /// Totals that stay with the threads.
    pub(super) totals: BTreeSet<TensorId>,
}

/// The launch of passes over the same rows, where two or more follow each other; in blocks of half as many threads as passes have, since
/// they keep their rows in registers.
pub(super) fn gathered(
    graph: &FinalizedGraph,
    program: &StageProgram,
    passes: &[Pass],
    launched: (u32, &Device),
) -> Option<Rows> {
    let deepest = passes.iter().filter(|pass| !pass.accumulations.is_empty()).max_by_key(|pass| pass.level)?;
    let (full, reduced) = (&deepest.extents, &deepest.reduced);
    let kept: Vec<i64> =
        full.iter().enumerate().map(|(axis, &extent)| if reduced.contains(&axis) { 1 } else { extent }).collect();
    let is_of_rows = |pass: &&Pass| match pass.accumulations.is_empty() {
        false => &pass.extents == full && &pass.reduced == reduced,
        true => pass.gathered.is_empty() && (&pass.extents == full || pass.extents == kept),
    };
    let totals: BTreeSet<TensorId> = passes
        .iter()
        .filter(|pass| !pass.accumulations.is_empty() && is_of_rows(pass))
        .flat_map(|pass| &pass.accumulations)
        .map(|accumulation| accumulation.target)
        .collect();
    let needed = |pass: &Pass| needed_by(program, &[pass]);
    let reads = |pass: &Pass, of: &BTreeSet<TensorId>| needed(pass).loads().any(|id| of.contains(&id));
    let others: BTreeSet<TensorId> = passes
        .iter()
        .filter(|pass| !is_of_rows(pass))
        .flat_map(|pass| &pass.accumulations)
        .map(|accumulation| accumulation.target)
        .chain(passes.iter().flat_map(|pass| &pass.gathered).map(|gathered| gathered.target))
        .collect();
    // what only follows other reductions goes with them
    let (own, rest): (Vec<&Pass>, Vec<&Pass>) =
        passes.iter().partition(|pass| is_of_rows(pass) && !reads(pass, &others));
    // bytes of packed booleans are of several rows
    let stores_bits = |pass: &Pass| {
        pass.extents == kept && pass.stores.iter().any(|&id| graph.tensor(id).data_type == DataType::Boolean)
    };
    let adds_to_totals = |pass: &&Pass| pass.totals().any(|id| totals.contains(&id));
    let is_whole = own.iter().all(|pass| pass.packed.is_none() && !stores_bits(pass))
        && !rest.iter().any(adds_to_totals)
        && rest.iter().all(|pass| !reads(pass, &totals))
        && totals.iter().all(|&id| graph.tensor(id).is_virtual)
        && own.iter().any(|pass| reads(pass, &totals));
    if !is_whole {
        return None;
    }
    let rest: Vec<Pass> = rest.into_iter().cloned().collect();
    let columns = rest.iter().position(|pass| adds_up_rows(graph, pass, (full, reduced)));
    let with_columns = columns.and_then(|first| {
        let all: BTreeSet<TensorId> = rest.iter().flat_map(Pass::totals).collect();
        let (pass, rest) = with_following_of(graph, program, (rest.clone(), &all), first);
        let planned = Planned::new(graph, program, &own, (full, reduced), Some(&pass))?;
        let kernel = planned.kernel(&kept, launched)?;
        let columns = Some((planned.column_space(), planned.following(&pass)));
        Some(Rows { kernel, columns, rest, totals: totals.clone() })
    });
    with_columns.or_else(|| {
        let kernel = Planned::new(graph, program, &own, (full, reduced), None)?.kernel(&kept, launched)?;
        Some(Rows { kernel, columns: None, rest, totals })
    })
}

/// Whether a pass reduces all points along the axes that rows do not have, and does nothing else.
fn adds_up_rows(graph: &FinalizedGraph, pass: &Pass, (full, of_rows): (&[i64], &BTreeSet<usize>)) -> bool {
    let across: BTreeSet<usize> = (0..full.len()).filter(|axis| full[*axis] > 1 && !of_rows.contains(axis)).collect();
    let is_float = |id: TensorId| graph.tensor(id).data_type == DataType::Float;
    let is_of_all = pass.extents == full && pass.reduced == across && pass.stores.is_empty();
    is_of_all && !pass.accumulations.is_empty() && pass.totals().all(is_float)
}

/// What the combination of a pass over rows touches: its totals, and what follows these.
fn of_columns(graph: &FinalizedGraph, program: &StageProgram, pass: &Pass) -> Vec<TensorId> {
    let following = program.needed_for(pass.following.iter().copied());
    let read = following.moved().filter(|&id| !graph.tensor(id).is_pass_by_value);
    read.chain(pass.totals()).chain(pass.following.iter().copied()).collect()
}

/// What passes compute.
fn needed_by(program: &StageProgram, passes: &[&Pass]) -> StageProgram {
    let computed = passes.iter().flat_map(|pass| pass.stores.iter().copied().chain(pass.sources()));
    program.needed_for(computed)
}

/// Passes over rows, and the axes of their points.
struct Planned<'a> {
    graph: &'a FinalizedGraph,
    program: &'a StageProgram,
    passes: &'a [&'a Pass],
    space: IterationSpace,
    width: Width,
    wide_index: bool,
    /// The pass that adds up over rows.
    columns: Option<&'a Pass>,
}

impl<'a> Planned<'a> {
    /// `None` where points of a row do not lie side by side, or are not read point by point.
    fn new(
        graph: &'a FinalizedGraph,
        program: &'a StageProgram,
        passes: &'a [&'a Pass],
        (full, reduced): (&[i64], &BTreeSet<usize>),
        columns: Option<&'a Pass>,
    ) -> Option<Self> {
        let over_points = |pass: &&&Pass| pass.extents == full;
        let of = |passes: &[&Pass]| {
            let stores: Vec<TensorId> = passes.iter().flat_map(|pass| pass.stores.iter().copied()).collect();
            (needed_by(program, passes), stores)
        };
        let (points, stores) = of(&passes.iter().filter(over_points).copied().collect::<Vec<_>>());
        let (all, every_store) = of(passes);
        if !all.reads_points_alone() {
            return None;
        }
        let request = SweepRequest {
            graph,
            extents: full,
            program: all.clone(),
            stores: every_store,
            targets: Vec::new(),
            reduced: reduced.clone(),
            core: None,
        };
        let memory = request.memory_tensors();
        let largest = SweepRequest { program: points.clone(), stores: stores.clone(), ..request };
        let reference = largest.reference(&largest.memory_tensors());
        let totals: BTreeSet<TensorId> =
            passes.iter().flat_map(|pass| &pass.accumulations).map(|accumulation| accumulation.target).collect();
        let beside = columns.iter().flat_map(|pass| of_columns(graph, program, pass));
        let tensors: BTreeSet<TensorId> = memory.iter().copied().chain(totals.iter().copied()).chain(beside).collect();
        let tensors: Vec<TensorId> = tensors.into_iter().collect();
        let mut space = IterationSpace::new(&IterationRequest {
            graph,
            extents: full,
            tensors: &tensors,
            reference,
            reduced,
            pinned: &all.indexed_axes(),
            accumulators: &[],
        });
        let first = space.axes.iter().position(|axis| axis.reduced)?;
        if !space.axes[first..].iter().all(|axis| axis.reduced) {
            return None;
        }
        for axis in &mut space.axes {
            // a total lies in a variable of the thread
            axis.strides.extend(totals.iter().map(|&id| (id, 0.into())));
        }
        let is_moved = |id: &TensorId| !graph.tensor(*id).is_pass_by_value && !totals.contains(id);
        let moved: Vec<TensorId> = points.moved().chain(stores.iter().copied()).filter(is_moved).collect();
        let width = Width::choose(graph, &space, &points, &moved, &stores);
        let wide_index = needs_wide_index(graph, &space, memory.into_iter().filter(is_moved));
        let is_in_vectors = columns.is_none() || !width.ragged;
        is_in_vectors.then_some(Self { graph, program, passes, space, width, wide_index, columns })
    }

    /// The kernel; `None` where rows are so long, or so few, that a launch a pass is faster.
    fn kernel(&self, kept: &[i64], (threads, device): (u32, &Device)) -> Option<RowsKernel> {
        let inner = self.space.axes.last()?.extent.value();
        let phases = self.phases(kept);
        let (count, elements) = (self.space.points_where(false), self.space.points_where(true));
        let vector = self.width.vector;
        let vectors = elements / inner * ((inner + vector - 1) / vector);
        let starts_with_totals = phases.first().is_some_and(|phase| !phase.accumulations.is_empty());
        let extents = RowExtents {
            rows: count,
            vectors,
            vector,
            tensors: self.tensors_of_rows(&phases),
            multiprocessors: device.sm_count,
            most_blocks: if starts_with_totals { most_blocks_of_a_row(device) } else { 1 },
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
        let Some(pass) = self.columns else {
            return kernel(extents.passing(threads / 2));
        };
        let sums = pass.accumulations.len() as i64;
        BLOCKS_OF_A_STAYING_ROW
            .into_iter()
            .find_map(|blocks| self.with_column_totals(kernel(extents.staying(sums, blocks)?)?, pass, device))
    }

    /// Adds what blocks that stay add up over rows, so that a thread has its columns' sums in registers.
    fn with_column_totals(&self, kernel: RowsKernel, pass: &Pass, device: &Device) -> Option<RowsKernel> {
        let phase = self.levels().into_iter().position(|level| level == pass.level)?;
        let RowsKernel { columns, cluster, rows, count, .. } = kernel;
        let resident = (ColumnTotals::RESIDENT_THREADS / (columns * rows)).max(1);
        let (ahead, vector_bytes) = self.read_ahead(&kernel);
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
    fn tensors_of_rows(&self, phases: &[RowPhase]) -> i64 {
        let loads = phases
            .iter()
            .filter_map(|phase| phase.points.as_ref())
            .flat_map(|sweep| sweep.program.loads().filter(|id| sweep.access.get(id) != Some(&Access::Parameter)));
        let axes = &self.space.axes;
        let is_of_points = |id: &TensorId| axes.iter().any(|axis| axis.reduced && axis.strides[id] != 0);
        loads.filter(is_of_points).filter(|id| self.changes(*id)).collect::<BTreeSet<_>>().len() as i64
    }

    /// Whether a tensor differs from row to row.
    fn changes(&self, id: TensorId) -> bool {
        self.space.axes.iter().any(|axis| !axis.reduced && axis.strides[&id] != 0)
    }

    /// What points read in vectors that differ from row to row, and bytes of these; where they are copied to shared memory by themselves.
    fn read_ahead(&self, kernel: &RowsKernel) -> (Vec<TensorId>, u32) {
        let is_of_points = |sweep: &&Sweep| sweep.vector > 1;
        let vectors = |sweep: &Sweep| -> BTreeSet<TensorId> {
            sweep.program.loads().filter(|id| sweep.access[id] == Access::Vector && self.changes(*id)).collect()
        };
        let bytes = |id: TensorId| self.width.vector as u64 * self.graph.tensor(id).data_type.bits() / 8;
        let all: BTreeSet<TensorId> = kernel.sweeps().filter(is_of_points).flat_map(vectors).collect();
        let widths: BTreeSet<u64> = all.iter().map(|&id| bytes(id)).collect();
        match widths.first() {
            Some(&bytes @ (4 | 8 | 16)) if widths.len() == 1 => (all.into_iter().collect(), bytes as u32),
            _ => (Vec::new(), 0),
        }
    }

    /// The columns: the axes along rows, whose totals have places in memory.
    fn column_space(&self) -> IterationSpace {
        let mut space = self.space.clone();
        space.axes.retain(|axis| axis.reduced);
        space.axes.iter_mut().for_each(|axis| axis.reduced = false);
        space
    }

    /// What is evaluated of the totals of a column.
    fn following(&self, pass: &Pass) -> Option<Sweep> {
        let program = self.program.needed_for(pass.following.iter().copied());
        let totals: BTreeSet<TensorId> = pass.totals().collect();
        let following = || following_sweep(self.graph, self.column_space(), (program, pass.following.clone()), &totals);
        (!pass.following.is_empty()).then(|| Sweep { wide_index: self.wide_index, ..following() })
    }

    fn levels(&self) -> BTreeSet<usize> {
        self.passes.iter().map(|pass| pass.level).collect()
    }

    fn phases(&self, kept: &[i64]) -> Vec<RowPhase> {
        self.levels().into_iter().map(|level| self.phase(level, kept)).collect()
    }

    fn phase(&self, level: usize, kept: &[i64]) -> RowPhase {
        let of_level = |pass: &&&&Pass| pass.level == level;
        let (mut accumulations, mut stores, mut of_row) = (Vec::new(), Vec::new(), Vec::new());
        for pass in self.passes.iter().filter(|pass| of_level(&pass)) {
            accumulations.extend(pass.accumulations.iter().cloned());
            let is_of_row = pass.extents == kept && pass.accumulations.is_empty();
            if is_of_row { &mut of_row } else { &mut stores }.extend(pass.stores.iter().copied());
        }
        let of_columns = self.columns.filter(|pass| pass.level == level).into_iter().flat_map(Pass::sources);
        let sources = accumulations.iter().map(|accumulation| accumulation.source).chain(of_columns);
        let program = self.program.needed_for(stores.iter().copied().chain(sources));
        let points = (!program.steps.is_empty()).then(|| self.sweep(self.space.clone(), program, stores, self.width));
        let row = (!of_row.is_empty()).then(|| {
            let mut space = self.space.clone();
            space.axes.retain(|axis| !axis.reduced);
            if space.axes.is_empty() {
                space.axes.push(single_point(&self.space.axes[0].strides.keys().copied().collect::<Vec<_>>()));
            }
            let program = self.program.needed_for(of_row.iter().copied());
            self.sweep(space, program, of_row, Width { vector: 1, ragged: false })
        });
        RowPhase { points, accumulations, row }
    }

    fn sweep(&self, space: IterationSpace, program: StageProgram, stores: Vec<TensorId>, width: Width) -> Sweep {
        let sweep = with_bytes_of_booleans(self.graph, over(self.graph, space, program, stores, width));
        Sweep { wide_index: self.wide_index, ..sweep }
    }
}

impl Rows {
    /// Adds the launch.
    pub(super) fn push(self, builder: &mut KernelBuilder) {
        let kernel = self.kernel;
        let (_, stores) = kernel.touched();
        let reads = kernel.sweeps().flat_map(|sweep| sweep.program.reads()).filter(|id| !self.totals.contains(id));
        let is_scalar = |id: TensorId| kernel.sweeps().any(|sweep| sweep.access.get(&id) == Some(&Access::Parameter));
        let parameters = program_parameters(reads, &stores, is_scalar);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::ComputeCapability;
    use crate::engine::lowering::passes::passes;
    use crate::graph::{DataType, Graph, NormBackward, NormForward, NormMode, NormPhase, Port, Scalar, Tensor};

    fn gathered_of(graph: &Graph) -> Option<Rows> {
        let graph = graph.finalize().expect("well formed");
        let graph = graph.expand_in(DataType::Float);
        let operations: Vec<_> = graph.operation_ids().collect();
        let program = StageProgram::of(&graph, operations.iter().copied(), None);
        let passes = passes(&graph, &operations, None);
        gathered(&graph, &program, &passes, (512, &Device::typical(ComputeCapability::SM_90)))
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
        let rows = gathered_of(&layer(Tensor::new("x").row_major([64, 4096]))).expect("rows");
        assert!(rows.rest.is_empty());
        let shape = |phase: &RowPhase| (phase.accumulations.len(), phase.row.is_some(), phase.points.is_some());
        let phases: Vec<_> = rows.kernel.phases.iter().map(shape).collect();
        assert_eq!(phases, [(1, false, true), (1, true, true), (0, false, true)]);
        let RowsKernel { columns, rows, count, vectors, elements, .. } = rows.kernel;
        assert_eq!((columns, rows, count, vectors, elements), (512, 1, 64, 512, 4096));
    }

    #[test]
    fn rows_that_do_not_lie_side_by_side_or_are_few_and_long_have_a_launch_a_pass() {
        let per_pixel = Tensor::new("x").row_major([64, 24, 5, 7]);
        assert!(gathered_of(&layer(per_pixel)).is_some());
        let mut strided = Tensor::new("x").dim([64, 4096]).stride([1, 64]);
        strided.alignment = 16;
        assert!(gathered_of(&layer(strided)).is_none(), "rows step by 64 elements");
        assert!(gathered_of(&layer(Tensor::new("x").row_major([2, 1 << 20]))).is_none());
        assert!(gathered_of(&layer(Tensor::new("x").row_major([512, 1 << 20]))).is_some());
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
        let rows = gathered_of(&graph).expect("rows");
        assert!(rows.rest.is_empty());
        assert_eq!(rows.kernel.phases.len(), 2);
        let totals = rows.kernel.column_totals.as_ref().expect("sums over rows");
        assert_eq!((totals.accumulations.len(), totals.phase, totals.blocks), (1, 0, 16));
        let (space, following) = rows.columns.as_ref().expect("a combination");
        assert_eq!((space.points(), following.as_ref().map(|sweep| sweep.stores.len())), (512, Some(1)));
    }
}
