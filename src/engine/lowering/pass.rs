//! Pointwise operations and reductions as passes over iteration spaces: graphs without a core, and epilogues that start
//! from accumulators in the workspace.
//!
//! Usually there is exactly one. What a reduction gives and other operations read lies in the workspace, and those operations come
//! in later passes, which evaluate anew what they need of the earlier ones; passes over the same points share a launch (`together`).

use std::collections::BTreeSet;

use super::all_gather;
use super::columns;
use super::combination::{
    Combination, combining_block, following_parameters, following_sweep, power_of_two_within, sweep_parameters,
};
use super::packed::BITS;
use super::passes::{Moments, Pass, accumulations, passes};
use super::signal::around_signals;
use super::sweep::{CoreAccumulators, SweepRequest, Width, elements, over, plan, span, to_u32, with_bytes_of_booleans};
use super::together::Together;
use super::totals::{with_following, with_moments};
use super::transposed;
use crate::device::Device;
use crate::engine::builder::{KernelBuilder, Shape};
use crate::fusion::{Fusion, Stage};
use crate::graph::{DataType, FinalizedGraph, OperationId, ReductionMode, TensorId};
use crate::kernel::{
    Access, Accumulation, Axis, Body, ColumnsKernel, CombineMomentsKernel, IterationSpace, MomentsKernel, Number,
    PackedKernel, Parameter, PointwiseKernel, ReductionKernel, Register, StageProgram, Sweep,
};

/// Threads of a multiprocessor that keep enough loads under way, each four.
const THREADS_PER_SM: i64 = 1024;

/// Seconds of a launch beside its work, of all but the first: about 3 µs on an H200, an orientation for rankings.
pub(in crate::engine) const LAUNCH_SECONDS: f64 = 3e-6;

/// Threads along kept vectors at most: the others of a block share these, so that it leaves fewer partial results.
const KEPT_COLUMNS: u32 = 64;

/// Threads of a block of points at least.
const FEWEST_THREADS: u32 = 32;

/// Threads of a block that reduces without being split, and of one that reduces long rows.
const THREADS: u32 = 256;
const THREADS_OF_LONG_ROWS: u32 = 128;

/// Points a thread reduces at least before the reduced axes are split further.
const POINTS_PER_THREAD: i64 = 4;

/// Threads of a block that shares its kept points with others.
pub(super) const SPLIT_THREADS: u32 = 512;

/// Partials of a kept point, of which the combination sums the splits of one in few steps.
const MOST_SPLITS: i64 = 1024;

/// Threads of a block, the best first. Reductions that are split run all at once, so fewer and larger blocks leave
/// fewer partials; pointwise passes run at the bandwidth of a copy with any of these.
pub(in crate::engine) fn candidates(fusion: &Fusion) -> &'static [u32] {
    let graph = fusion.graph();
    let reduces = graph.operation_ids().any(|id| !accumulations(graph, id).is_empty());
    if reduces { &[SPLIT_THREADS, 1024, 256] } else { &[256, 512, 128] }
}

/// Lowers every operation of the graph.
pub(in crate::engine) fn lower(fusion: &Fusion, threads: u32, device: &Device, builder: &mut KernelBuilder) {
    let operations: Vec<OperationId> = fusion.operations(Stage::After).collect();
    let plan = PassPlan { graph: fusion.graph(), core: None, threads: Some(threads), device };
    around_signals(fusion, builder, |builder| plan.lower(&operations, builder));
}

/// Partial sums of a core in the workspace, one array after the other.
pub(in crate::engine) struct CoreSums {
    /// The core's result.
    pub(in crate::engine) tensor: TensorId,
    /// Elements to the next coordinate of each graph axis.
    pub(in crate::engine) strides: Vec<i64>,
    /// Number of arrays, and elements of one.
    pub(in crate::engine) splits: u32,
    pub(in crate::engine) elements: i64,
}

/// Lowers a core that leaves sums in FP32 in the workspace, then every operation after it.
pub(in crate::engine) fn lower_after_sums(
    fusion: &Fusion,
    sums: CoreSums,
    device: &Device,
    builder: &mut KernelBuilder,
    push_core: impl FnOnce(Parameter, &mut KernelBuilder),
) {
    let CoreSums { tensor, strides, splits, elements } = sums;
    let operations: Vec<OperationId> = fusion.operations(Stage::After).collect();
    around_signals(fusion, builder, |builder| {
        let offset = builder.region(elements * i64::from(splits));
        let parameter = Parameter::Accumulators { offset, is_integer: false };
        push_core(parameter, builder);
        let strides = strides.into_iter().map(Number::known).collect();
        let elements = elements.into();
        let core = CoreAccumulators { tensor, strides, register: Register::Float, splits, elements, parameter };
        let plan = PassPlan { graph: fusion.graph(), core: Some(&core), threads: None, device };
        plan.lower(&operations, builder);
    });
}

/// What passes have in common.
pub(super) struct PassPlan<'a> {
    pub(super) graph: &'a FinalizedGraph,
    /// A core's accumulators that the operations may start from; the core's own result is stored with theirs.
    pub(super) core: Option<&'a CoreAccumulators>,
    /// Threads of a block, where they are chosen.
    pub(super) threads: Option<u32>,
    pub(super) device: &'a Device,
}

impl PassPlan<'_> {
    /// Lowers operations.
    pub(super) fn lower(&self, operations: &[OperationId], builder: &mut KernelBuilder) {
        let (program, passes) = self.cut(operations);
        self.lower_passes(&program, passes, builder);
    }

    /// Operations in passes, and what these compute.
    pub(super) fn cut(&self, operations: &[OperationId]) -> (StageProgram, Vec<Pass>) {
        let result = self.core.map(|core| core.tensor);
        let stored = result.filter(|&tensor| !self.graph.tensor(tensor).is_virtual);
        let program = StageProgram::of(self.graph, operations.iter().copied(), result);
        (program, passes(self.graph, operations, stored))
    }

    /// Lowers passes.
    pub(super) fn lower_passes(&self, program: &StageProgram, mut passes: Vec<Pass>, builder: &mut KernelBuilder) {
        let launched = (self.threads.unwrap_or(SPLIT_THREADS), self.device);
        let together = match self.core {
            Some(_) => None,
            None => Together::new(self.graph, program, &passes, launched),
        };
        let is_kept = |id: &TensorId| together.as_ref().is_some_and(|together| together.totals.contains(id));
        let gathered = passes.iter().flat_map(|pass| &pass.gathered);
        gathered.for_each(|gathered| builder.place(gathered.target, elements(self.graph.tensor(gathered.target))));
        let targets = passes.iter().flat_map(Pass::totals);
        place_totals(self.graph, targets.filter(|id| !is_kept(id)), builder);
        if let Some(together) = together {
            passes.clone_from(&together.rest);
            together.push(builder);
        }
        if self.core.is_none() {
            with_moments(self.graph, &mut passes);
        }
        for pass in with_following(self.graph, program, passes) {
            self.lower_pass(program, pass, builder);
        }
    }

    /// Lowers one pass, to one function or, where the reduced axes are split, to two.
    fn lower_pass(&self, program: &StageProgram, pass: Pass, builder: &mut KernelBuilder) {
        if !pass.gathered.is_empty() {
            return all_gather::push(self.graph, program, pass.gathered, builder);
        }
        if pass.totals().next().is_none() {
            return self.lower_points(program, &pass, builder);
        }
        let following = program.needed_for(pass.following.iter().copied());
        let beside = following.moved().chain(pass.following.iter().copied());
        let beside = beside.filter(|&id| !self.graph.tensor(id).is_pass_by_value);
        let targets: BTreeSet<TensorId> = pass.totals().chain(beside).collect();
        let sweep = plan(SweepRequest {
            graph: self.graph,
            extents: &pass.extents,
            program: program.needed_for(pass.stores.iter().copied().chain(pass.sources())),
            stores: pass.stores.clone(),
            targets: targets.into_iter().collect(),
            reduced: pass.reduced.clone(),
            core: self.core,
        });
        let totals: BTreeSet<TensorId> = pass.totals().collect();
        let following = (!pass.following.is_empty())
            .then(|| {
                following_sweep(self.graph, kept_space(&sweep.space), (following, pass.following.clone()), &totals)
            })
            .map(|following| Sweep { wide_index: sweep.wide_index, ..following });
        let core = self.core.filter(|_| sweep.accumulators.is_some()).map(|core| core.parameter);
        let shape = ReductionShape::choose(&sweep, self.threads.unwrap_or(SPLIT_THREADS), self.device);
        if let Some(moments) = pass.moments {
            return push_moments(self.graph, sweep, moments, (shape, following), builder);
        }
        let is_combined = shape.splits > 1;
        let following = following.filter(|_| is_combined);
        push_reduction(sweep, core, pass.accumulations.clone(), (shape, following), builder);
        if !is_combined && !pass.following.is_empty() {
            self.lower_pass(program, pass.into_following(), builder);
        }
    }

    /// Lowers a pass without reductions.
    fn lower_points(&self, program: &StageProgram, pass: &Pass, builder: &mut KernelBuilder) {
        if let Some(kernel) = self.columns(program, pass) {
            let parameters = sweep_parameters(&kernel.sweep, None);
            return builder.push("columns", columns::shape(&kernel), parameters, Body::Columns(kernel));
        }
        let sweep = plan(SweepRequest {
            graph: self.graph,
            extents: &pass.extents,
            program: program.needed_for(pass.stores.iter().copied()),
            stores: pass.stores.clone(),
            targets: Vec::new(),
            reduced: BTreeSet::new(),
            core: self.core,
        });
        let sweep = self.in_short_vectors(sweep);
        if let Some(kernel) = transposed::kernel(self.graph, &sweep) {
            let parameters = sweep_parameters(&kernel.sweep, None);
            let shape = transposed::shape(&kernel.tile, kernel.blocks(), kernel.shared_bytes());
            return builder.push("transposed", shape, parameters, Body::Transposed(kernel));
        }
        let core = self.core.filter(|_| sweep.accumulators.is_some()).map(|core| core.parameter);
        let threads = self.threads_of(&sweep);
        match sweep.access.values().any(|access| *access == Access::Bit) {
            true => push_packed(self.graph, sweep, core, threads, builder),
            false => push_pointwise(sweep, core, threads, builder),
        }
    }

    /// Threads of a block of points: fewer where there are so few vectors that each multiprocessor has a block of these.
    fn threads_of(&self, sweep: &Sweep) -> u32 {
        let most = self.threads.unwrap_or(THREADS);
        let each = vectors_where(sweep, |_| true) / i64::from(self.device.sm_count) + 1;
        power_of_two_within(each, most).max(FEWEST_THREADS.min(most))
    }

    /// A point a thread where values in double precision, which take long, are made of few points.
    fn in_short_vectors(&self, sweep: Sweep) -> Sweep {
        let is_double = |id: TensorId| Register::of(self.graph.tensor(id).data_type) == Register::Double;
        let makes_double = sweep.program.steps.iter().any(|step| is_double(step.tensor));
        let is_packed = sweep.stores.iter().any(|&id| self.graph.tensor(id).data_type == DataType::Boolean);
        let points = sweep.space.points();
        let each_has_a_block = points <= i64::from(self.device.sm_count) * i64::from(THREADS);
        if !makes_double || is_packed || !each_has_a_block || sweep.accumulators.is_some() {
            return sweep;
        }
        let width = Width { vector: 1, ragged: false };
        Sweep { wide_index: sweep.wide_index, ..over(self.graph, sweep.space, sweep.program, sweep.stores, width) }
    }

    /// The kernel of a pass whose threads keep what is the same for many points.
    fn columns(&self, program: &StageProgram, pass: &Pass) -> Option<ColumnsKernel> {
        if pass.packed.is_some() || self.core.is_some() {
            return None;
        }
        let program = program.needed_for(pass.stores.iter().copied());
        let stepped = columns::stepped_axes(self.graph, &pass.extents, &program);
        if stepped.is_empty() {
            return None;
        }
        let sweep = plan(SweepRequest {
            graph: self.graph,
            extents: &pass.extents,
            program,
            stores: pass.stores.clone(),
            targets: Vec::new(),
            reduced: stepped,
            core: None,
        });
        let vector = columns::width(self.graph, sweep.vector, &sweep.stores);
        let width = Width { vector, ragged: sweep.ragged };
        let narrow = over(self.graph, sweep.space, sweep.program, sweep.stores, width);
        let narrow = Sweep { wide_index: sweep.wide_index, ..with_bytes_of_booleans(self.graph, narrow) };
        columns::kernel(narrow, pass.level > 0, self.device)
    }
}

/// Gives those of the totals that are not in memory a place in the workspace, where what follows reads them.
pub(super) fn place_totals(
    graph: &FinalizedGraph,
    totals: impl Iterator<Item = TensorId>,
    builder: &mut KernelBuilder,
) {
    let placed = totals.filter(|&id| graph.tensor(id).is_virtual);
    placed.for_each(|id| builder.place(id, elements(graph.tensor(id))));
}

/// Adds a pass that stores the value of a program, the last of its steps, at each point of a tensor that a product reads next.
pub(super) fn push_evaluation(
    graph: &FinalizedGraph,
    program: StageProgram,
    result: TensorId,
    builder: &mut KernelBuilder,
) {
    let sweep = plan(SweepRequest {
        graph,
        extents: &graph.tensor(result).dim,
        program,
        stores: vec![result],
        targets: Vec::new(),
        reduced: BTreeSet::new(),
        core: None,
    });
    push_pointwise(sweep, None, THREADS, builder);
}

fn push_pointwise(sweep: Sweep, core: Option<Parameter>, threads: u32, builder: &mut KernelBuilder) {
    let vectors = vectors_where(&sweep, |_| true);
    let parameters = sweep_parameters(&sweep, core);
    builder.push(
        "pointwise",
        Shape::line_of_blocks(vectors, threads),
        parameters,
        Body::Pointwise(PointwiseKernel { sweep, threads }),
    );
}

/// A thread for each byte.
fn push_packed(
    graph: &FinalizedGraph,
    sweep: Sweep,
    core: Option<Parameter>,
    threads: u32,
    builder: &mut KernelBuilder,
) {
    let bytes = (span(graph.tensor(sweep.stores[0])) + BITS - 1) / BITS;
    let parameters = sweep_parameters(&sweep, core);
    builder.push(
        "packed",
        Shape::line_of_blocks(bytes, threads),
        parameters,
        Body::Packed(PackedKernel { sweep, threads }),
    );
}

fn push_reduction(
    sweep: Sweep,
    core: Option<Parameter>,
    accumulations: Vec<Accumulation>,
    (shape, following): (ReductionShape, Option<Sweep>),
    builder: &mut KernelBuilder,
) {
    let kept = sweep.space.points_where(false);
    let count = sweep.space.points_where(true);
    let kept_axes = kept_space(&sweep.space);
    let partials = match shape.splits {
        1 => Vec::new(),
        splits => builder.regions(accumulations.len(), i64::from(splits) * kept),
    };
    let mut parameters = sweep_parameters(&sweep, core);
    let targets = accumulations.iter().map(|accumulation| Parameter::Tensor(accumulation.target));
    parameters.extend(if partials.is_empty() { targets.collect() } else { partials.clone() });
    let launched = shape.launched(&sweep);
    let body = Body::Reduction(ReductionKernel {
        sweep,
        accumulations: accumulations.clone(),
        reduce_vector: shape.reduce_vector,
        columns: shape.columns,
        rows: shape.rows,
        splits: shape.splits,
        count,
    });
    builder.push("reduction", launched, parameters, body);
    if !partials.is_empty() {
        let splits = shape.splits.into();
        Combination { space: kept_axes, accumulations, partials, splits, count, following }.push(builder);
    }
}

/// Partial moments that a thread combines, four values each: with 4 and operands asked for early, a batch norm of 64 channels took 99.9 µs on an H200
/// (2026-11-26), with 8 101.2.
const PARTS_OF_A_THREAD: i64 = 4;

/// Partial moments, and mean and variance of them.
fn push_moments(
    graph: &FinalizedGraph,
    sweep: Sweep,
    moments: Moments,
    (shape, following): (ReductionShape, Option<Sweep>),
    builder: &mut KernelBuilder,
) {
    let Moments { source, mean, variance } = moments;
    let accumulations = vec![
        Accumulation::reduction(ReductionMode::Add, source, mean),
        Accumulation::sum_of_squares(source, variance),
        Accumulation::reduction(ReductionMode::Add, source, mean),
    ];
    let space = kept_space(&sweep.space);
    let partials = builder.regions(4, i64::from(shape.splits) * space.points());
    let mut parameters = sweep_parameters(&sweep, None);
    parameters.extend(partials.iter().copied());
    let width = Width { vector: sweep.vector, ragged: sweep.ragged };
    let value = over(graph, sweep.space.clone(), sweep.program.needed_for([source].into_iter()), Vec::new(), width);
    let value = with_bytes_of_booleans(graph, value);
    let kernel = MomentsKernel {
        shift: Sweep { wide_index: sweep.wide_index, ..value },
        reduction: ReductionKernel {
            count: sweep.space.points_where(true),
            sweep,
            accumulations,
            reduce_vector: shape.reduce_vector,
            columns: shape.columns,
            rows: shape.rows,
            splits: shape.splits,
        },
    };
    let parts = kernel.parts();
    let launched = Shape { shared_bytes: kernel.shared_bytes(), ..shape.launched(&kernel.reduction.sweep) };
    builder.push("moments", launched, parameters, Body::Moments(Box::new(kernel)));
    let [columns, rows] = combining_block(space.points(), parts.count, PARTS_OF_A_THREAD);
    let targets = [mean, variance];
    let mut parameters: Vec<Parameter> = partials.into_iter().chain(targets.map(Parameter::Tensor)).collect();
    parameters.extend(following_parameters(following.as_ref(), &targets));
    let launched = Shape {
        grid: [to_u32((space.points() + i64::from(columns) - 1) / i64::from(columns)), 1],
        block: [columns, rows, 1],
        shared_bytes: columns * rows * 3 * 8,
    };
    let body = Body::CombineMoments(CombineMomentsKernel { space, targets, parts, columns, rows, following });
    builder.push("combine_moments", launched, parameters, body);
}

/// Vectors of a row that a thread reduces, where rows are many: with one, 22 reductions of rows of 8 to 100,000 elements took 0.99 to 1.68 times as long
/// on an H200 (2026-11-30), with two 0.98 to 1.22, with eight 0.88 to 1.16.
const VECTORS_OF_A_THREAD: i64 = 4;

/// The same of long rows, in smaller blocks: rows of 768 to 8,192 elements took 0.85 to 1.00 times as long as with four in blocks of 256 (the same chip).
const VECTORS_OF_A_LONG_ROW: i64 = 8;

/// Vectors from which a row is long, so that the threads of one read a line of L2 at once: with eight, rows of 8 and 16 vectors took 1.07 and 1.17 times as
/// long.
const LONG_ROW: i64 = 64;

/// Threads and blocks of a reduction.
struct ReductionShape {
    reduce_vector: bool,
    columns: u32,
    rows: u32,
    blocks: u32,
    splits: u32,
}

impl ReductionShape {
    /// Blocks, and shared memory for a float an accumulator of each thread.
    fn launched(&self, sweep: &Sweep) -> Shape {
        let accumulators = if self.reduce_vector { 1 } else { sweep.vector as u32 };
        Shape {
            grid: [self.blocks, self.splits],
            block: [self.columns, self.rows, 1],
            shared_bytes: self.columns * self.rows * accumulators * 4,
        }
    }

    /// As many threads along the vector axis as it has vectors, so that a warp reads whole lines, or where it is reduced, fewer; where the kept points
    /// do not fill the device the reduced ones are split, among blocks of `threads` that all run at once: large ones,
    /// so that few partials are left to combine.
    fn choose(sweep: &Sweep, threads: u32, device: &Device) -> Self {
        let has_long_rows = sweep.space.axes.last().is_some_and(|axis| axis.reduced)
            && vectors_where(sweep, |axis| axis.reduced) >= LONG_ROW;
        let alone = if has_long_rows { THREADS_OF_LONG_ROWS } else { THREADS };
        let whole = Self::of_blocks(sweep, (alone, alone), device);
        if whole.splits == 1 { whole } else { Self::of_blocks(sweep, (threads, threads.min(KEPT_COLUMNS)), device) }
    }

    /// Threads along so many reduced vectors of each of so many kept points: so few that each has some vectors, whose reads are under way at once, and
    /// fewer threads have to be combined; but enough blocks for the device.
    fn columns_of_rows(along: i64, kept: i64, threads: u32, device: &Device) -> u32 {
        let each = if along >= LONG_ROW { VECTORS_OF_A_LONG_ROW } else { VECTORS_OF_A_THREAD };
        let fewest = power_of_two_within((along + each - 1) / each, threads);
        let threads_of = |columns: u32| kept / i64::from(threads / columns) * i64::from(threads);
        let fills = |columns: &u32| threads_of(*columns) >= i64::from(device.sm_count) * i64::from(THREADS);
        let most = power_of_two_within(along, threads);
        std::iter::successors(Some(fewest), |columns| (*columns < most).then_some(columns * 2))
            .find(fills)
            .unwrap_or(most)
    }

    /// Blocks of `threads`, so many of them along kept vectors at most, split until they fill the device.
    fn of_blocks(sweep: &Sweep, (threads, most_columns): (u32, u32), device: &Device) -> Self {
        let reduce_vector = sweep.space.axes.last().is_some_and(|axis| axis.reduced);
        let along = vectors_where(sweep, |axis| axis.reduced == reduce_vector);
        let across = sweep.space.points_where(!reduce_vector);
        let columns = match reduce_vector {
            true => Self::columns_of_rows(along, across, threads, device),
            false => power_of_two_within(along, most_columns),
        };
        let rows = threads / columns;
        let (kept, kept_threads) = if reduce_vector { (across, rows) } else { (along, columns) };
        let (reduced, reduced_threads) = if reduce_vector { (along, columns) } else { (across, rows) };
        let blocks = (kept + i64::from(kept_threads) - 1) / i64::from(kept_threads);
        // small blocks count as one of `THREADS`
        let resident = (THREADS_PER_SM / i64::from(threads.max(THREADS))).max(1);
        let wanted = i64::from(device.sm_count) * resident / blocks;
        let useful = reduced / (i64::from(reduced_threads * (THREADS / threads).max(1)) * POINTS_PER_THREAD);
        let splits = wanted.min(useful).clamp(1, MOST_SPLITS);
        Self { reduce_vector, columns, rows, blocks: to_u32(blocks), splits: to_u32(splits) }
    }
}

/// The kept axes alone; point `k` of it is element `k` of the partials.
fn kept_space(space: &IterationSpace) -> IterationSpace {
    let kept: Vec<Axis> = space.axes.iter().filter(|axis| !axis.reduced).cloned().collect();
    IterationSpace { axes: kept }
}

/// Number of vectors over the innermost axis and those outer axes that `counts`; rows are padded to whole vectors.
fn vectors_where(sweep: &Sweep, counts: impl Fn(&Axis) -> bool) -> i64 {
    let (inner, outer) = sweep.space.axes.split_last().expect("a sweep has at least one axis");
    let per_row = inner.extent.parts(sweep.vector).value();
    outer.iter().filter(|axis| counts(axis)).map(|axis| axis.extent.value()).product::<i64>() * per_row
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::ComputeCapability;
    use crate::graph::{DataType, Graph, PointwiseMode, Port, ReductionMode, Tensor};

    /// `y = relu(x)` stored, x and y reduced to the given dims.
    fn graph(x: [i64; 4], targets: &[[i64; 4]]) -> FinalizedGraph {
        let mut graph = Graph::new().io_data_type(DataType::Float).compute_data_type(DataType::Float);
        let x = graph.tensor(Tensor::new("x").channels_last(x));
        let y = graph.pointwise("y", PointwiseMode::ReluFwd, &[x]);
        graph.set_output(y);
        for (number, &dim) in targets.iter().enumerate() {
            let target = graph.reduction(&format!("r{number}"), ReductionMode::Add, y, dim);
            graph.set_output(target);
        }
        graph.finalize().expect("well formed")
    }

    fn passes_of(graph: &FinalizedGraph) -> Vec<Pass> {
        passes(graph, &graph.operation_ids().collect::<Vec<_>>(), None)
    }

    #[test]
    fn reductions_of_the_same_axes_share_a_pass_that_also_stores() {
        let graph = graph([2, 8, 3, 5], &[[1, 8, 1, 1], [1, 8, 1, 1], [2, 1, 3, 5]]);
        let passes = passes_of(&graph);
        let shape = |pass: &Pass| (pass.stores.len(), pass.accumulations.len(), pass.reduced.len());
        let mut shapes: Vec<_> = passes.iter().map(shape).collect();
        assert_eq!(shapes.iter().map(|shape| shape.0).sum::<usize>(), 1, "stored once");
        shapes.sort_by_key(|shape| shape.1);
        assert_eq!(shapes.iter().map(|shape| (shape.1, shape.2)).collect::<Vec<_>>(), [(1, 1), (2, 3)]);
    }

    #[test]
    fn what_reductions_give_is_read_by_later_passes() {
        let mut graph = Graph::new().io_data_type(DataType::Half).compute_data_type(DataType::Float);
        let x = graph.tensor(Tensor::new("x").row_major([2, 8, 16]));
        let (y, statistics) = graph.softmax_with("softmax", x, None, &[Port::MAX]);
        for id in [y, statistics[0]] {
            graph.set_output(id);
        }
        let graph = graph.finalize().expect("well formed");
        let graph = graph.expand_in(DataType::Float);
        let shape = |pass: &Pass| (pass.level, pass.stores.len(), pass.accumulations.len());
        let passes: Vec<_> = passes_of(&graph).iter().map(shape).collect();
        assert_eq!(passes, [(0, 0, 1), (1, 0, 1), (1, 1, 0), (2, 1, 0)]);
    }

    #[test]
    fn a_graph_without_reductions_is_one_pass() {
        let passes = passes_of(&graph([2, 8, 3, 5], &[]));
        assert_eq!((passes.len(), passes[0].extents.as_slice()), (1, &[2, 8, 3, 5][..]));
    }

    fn shape(x: [i64; 4], target: [i64; 4]) -> ReductionShape {
        let graph = graph(x, &[target]);
        let pass = passes_of(&graph).remove(0);
        let sweep = plan(SweepRequest {
            graph: &graph,
            extents: &pass.extents,
            program: StageProgram::of(&graph, graph.operation_ids(), None),
            stores: pass.stores,
            targets: pass.accumulations.iter().map(|accumulation| accumulation.target).collect(),
            reduced: pass.reduced,
            core: None,
        });
        ReductionShape::choose(&sweep, 512, &Device::typical(ComputeCapability::SM_90))
    }

    #[test]
    fn few_kept_elements_split_the_reduced_ones() {
        let channels = shape([64, 64, 56, 56], [1, 64, 1, 1]);
        assert!(!channels.reduce_vector && channels.splits > 1);
        assert_eq!((channels.columns, channels.rows, channels.blocks), (16, 32, 1));
        let pixels = shape([64, 1024, 56, 56], [64, 1, 56, 56]);
        assert_eq!((pixels.reduce_vector, pixels.columns, pixels.rows, pixels.splits), (true, 32, 4, 1));
    }

    #[test]
    fn rows_are_shared_by_as_few_threads_as_have_some_vectors_each() {
        let rows = |dim: [i64; 4]| {
            let shape = shape(dim, [dim[0], 1, 1, 1]);
            assert!(shape.reduce_vector && shape.splits == 1);
            (shape.columns, shape.rows, shape.blocks)
        };
        assert_eq!(rows([100_000, 16, 1, 1]), (1, 256, 391), "a thread has all of a row");
        assert_eq!(rows([100_000, 40, 1, 1]), (4, 64, 1563));
        assert_eq!(rows([16384, 512, 1, 1]), (16, 8, 2048));
        assert_eq!(rows([512, 2048, 1, 1]), (128, 1, 512), "threads for all multiprocessors");
        assert_eq!(rows([512, 1 << 16, 1, 1]), (128, 1, 512));
    }
}
