//! Records of the pointwise, reduction and combine skeletons.

use std::collections::BTreeSet;

use serde::Serialize;

use super::index::{as_index, definition_lines, index_type, spell, within};
use super::names;
use super::sections::Used;
use super::sweep::{SweepSpeller, address, coordinates, cut};
use super::template::{self, template};
use crate::error::Error;
use crate::graph::{FinalizedGraph, TensorId};
use crate::kernel::{
    Access, Accumulation, Axis, CombineKernel, Finish, Index, IterationSpace, Number, PointwiseKernel, ReductionKernel,
    Sweep, Variable, needed,
};

/// Threads of a multiprocessor that reduce: half of what it holds, so that each has registers for four loads under way.
const RESIDENT_THREADS: u32 = 1024;

/// Values that a thread reads for a vector of points, up to which the registers of so many threads hold them: NVRTC 13.0 spilled
/// 48 in a reduction for sm_90, and 56 in a pass for sm_75.
const HELD_VALUES: i64 = 40;

/// The same with the sums that a thread has of them: NVRTC 13.0 spilled 40 values and 16 sums for sm_86, sm_89 and sm_90.
const HELD_VALUES_AND_SUMS: i64 = 48;

/// Whether vectors of many tensors meet: they spill where many threads share the registers.
pub(super) fn is_crowded(sweep: &Sweep) -> bool {
    sweep.access.values().filter(|access| is_whole(access)).count() as i64 * sweep.vector > HELD_VALUES
}

fn is_whole(access: &Access) -> bool {
    matches!(access, Access::Vector | Access::Strided)
}

/// Values that a thread reads for a vector of points, and its sums of them.
fn values_and_sums(kernel: &ReductionKernel) -> i64 {
    let sweep = &kernel.sweep;
    let read: BTreeSet<TensorId> = sweep.program.reads().collect();
    let vectors = read.iter().filter(|id| sweep.access.get(id).is_some_and(is_whole)).count() as i64;
    vectors * sweep.vector + kernel.accumulators() * kernel.accumulations.len() as i64
}

/// What `sweep/pointwise.cu` reads beside the function's name and parameters.
#[derive(Serialize)]
pub(super) struct PointwiseText {
    threads: u32,
    /// Blocks of a multiprocessor, where the compiler's own guess would spill registers.
    blocks: Option<u32>,
    index: &'static str,
    /// The block's number.
    block: String,
    vectors: String,
    coordinates: Vec<String>,
    evaluate: String,
}

/// What `sweep/reduction.cu` reads beside the function's name and parameters.
#[derive(Serialize)]
pub(super) struct ReductionText {
    threads: u32,
    /// Blocks of a multiprocessor that the registers shall leave room for.
    resident: u32,
    /// Whether a combination follows, which may be put on the chip meanwhile.
    signals: bool,
    index: &'static str,
    kept: KeptText,
    /// Reduced points, and a thread's steps over them.
    reduced_count: String,
    steps: String,
    /// Accumulators, each of its identity.
    declarations: Vec<String>,
    trees: Vec<String>,
}

/// The kept points: which thread has which.
#[derive(Serialize)]
pub(super) struct KeptText {
    /// The thread's.
    first: String,
    count: String,
    coordinates: Vec<String>,
}

/// The reduced points: where a thread starts, how far it steps; what `sweep/steps.cuh` reads beside what is evaluated.
#[derive(Serialize)]
pub(super) struct ReducedText {
    index: &'static str,
    /// The thread's first, and that of number `g` of a group.
    first: String,
    of_group: String,
    threads: u32,
    #[serde(skip)]
    pub(super) count: Number,
    /// Points a thread loads before it uses the first.
    group: u32,
    step: i64,
    pub(super) coordinates: Vec<String>,
}

#[derive(Serialize)]
struct StepsText {
    #[serde(flatten)]
    reduced: ReducedText,
    evaluate: String,
}

impl ReducedText {
    /// A thread's steps, each of which is evaluated so.
    ///
    /// # Errors
    /// [`Error::Generated`] if the template fails: a defect of ours.
    pub(super) fn steps(self, evaluate: String) -> Result<String, Error> {
        template::render(template!("sweep/steps.cuh"), &StepsText { reduced: self, evaluate })
    }
}

/// One accumulator of a combination.
#[derive(Serialize)]
struct AccumulationText {
    name: String,
    identity: String,
    combine: &'static str,
    partial: String,
    /// The variable of its result, where something follows.
    result: Option<String>,
    tree: String,
}

/// The tree over a block's threads, whatever is combined.
pub(super) struct Tree {
    /// For messages to readers: what has a result each.
    along: &'static str,
    width: i64,
    /// Threads that a total is of, and which of them a thread is.
    leaves: u32,
    thread: &'static str,
    /// Threads from one of these to the next, and threads of the block.
    stride: u32,
    threads: u32,
    writes: String,
    guard: Option<String>,
}

/// What `sweep/tree.cuh` reads.
#[derive(Serialize)]
struct TreeText<'a> {
    name: String,
    along: &'static str,
    width: i64,
    leaves: u32,
    thread: &'static str,
    stride: u32,
    threads: u32,
    combine: &'static str,
    writes: &'a str,
    guard: Option<&'a str>,
    /// Statement that writes `total`.
    write: String,
}

impl Tree {
    /// The condition of threads that write totals.
    pub(super) fn writes(&self) -> &str {
        &self.writes
    }

    /// The condition under which kept point `e` of a thread has totals, where some have none.
    pub(super) fn guard(&self) -> Option<&str> {
        self.guard.as_deref()
    }

    /// Which of the threads that a total is of a thread is, how many these are, from one to the next, and threads of the block: arguments of `fw_tree`.
    pub(super) fn arguments(&self) -> String {
        format!("{}, {}, {}, {}", self.thread, self.leaves, self.stride, self.threads)
    }

    pub(super) fn spell(
        &self,
        used: &mut Used,
        number: usize,
        accumulation: &Accumulation,
        write: String,
    ) -> Result<String, Error> {
        let combine = names::combine_function(accumulation.combine);
        used.add(combine);
        used.add("fw_tree");
        let Self { along, width, leaves, thread, stride, threads, .. } = *self;
        let (name, writes, guard) = (accumulator(number), &*self.writes, self.guard.as_deref());
        let record = TreeText { name, along, width, leaves, thread, stride, threads, combine, writes, guard, write };
        template::render(template!("sweep/tree.cuh"), &record)
    }
}

/// Variable that holds a thread's part of a reduction.
pub(super) fn accumulator(number: usize) -> String {
    format!("acc{number}")
}

/// Splits that a thread of a combination reads at once: as many as its loop was unrolled for (an estimate, as of parts of moments).
const SPLITS_AT_ONCE: u32 = 8;

/// What `sweep/combine.cu` reads beside the function's name and parameters.
#[derive(Serialize)]
pub(super) struct CombineText {
    threads: u32,
    index: &'static str,
    /// The kept element of a column of threads; rows of threads.
    k: String,
    rows: u32,
    /// Splits that a thread reads at once.
    group: u32,
    /// The part of the splits that a row of blocks combines, where there are several.
    part: Option<PartText>,
    splits: Number,
    kept: i64,
    /// Place of a split's partial result.
    partial: String,
    coordinates: Vec<String>,
    accumulations: Vec<AccumulationText>,
    following: Option<Following>,
}

#[derive(Serialize)]
struct PartText {
    each: i64,
    all: i64,
}

pub(super) fn pointwise(
    graph: &FinalizedGraph,
    used: &mut Used,
    kernel: &PointwiseKernel,
) -> Result<PointwiseText, Error> {
    let sweep = SweepSpeller::new(graph, used, &kernel.sweep, &[]).text(&[], "");
    let index = index_type(kernel.sweep.wide_index);
    let coordinates = coordinates(&kernel.sweep, &Index::local("vector"), |_| true);
    Ok(PointwiseText {
        threads: kernel.threads,
        blocks: (kernel.sweep.program.windows().next().is_some() || is_crowded(&kernel.sweep)).then_some(1),
        index,
        block: as_index(kernel.sweep.wide_index, "blockIdx.x"),
        vectors: vectors(&kernel.sweep, |_| true).to_string(),
        coordinates: definition_lines(index, &needed(coordinates, &mut sweep.uses.clone())),
        evaluate: sweep.evaluate()?,
    })
}

pub(super) fn reduction(
    graph: &FinalizedGraph,
    used: &mut Used,
    kernel: &ReductionKernel,
) -> Result<ReductionText, Error> {
    used.add("FW_SHARED");
    if kernel.splits > 1 {
        used.add("fw_let_next_launch_start");
    }
    let sweep = &kernel.sweep;
    let point = if kernel.accumulators() == 1 { "0" } else { "e" };
    let index = index_type(sweep.wide_index);
    let results = results(kernel);
    let text = SweepSpeller::new(graph, used, sweep, &kernel.accumulations).text(&kernel.accumulations, point);
    let mut uses = text.uses.clone();
    uses.extend(results.iter().flat_map(Index::variables));
    uses.extend((!kernel.reduce_vector && sweep.ragged).then(|| Variable::Axis(sweep.space.axes.len() - 1)));
    let (kept, reduced) = points(kernel, &mut uses);
    let tree = reduction_tree(kernel);
    let mut trees = Vec::new();
    for (number, (accumulation, result)) in kernel.accumulations.iter().zip(&results).enumerate() {
        let write = reduction_write(graph, used, kernel, number, result);
        trees.push(tree.spell(used, number, accumulation, write)?);
    }
    Ok(ReductionText {
        threads: kernel.columns * kernel.rows,
        resident: resident(kernel),
        signals: kernel.splits > 1,
        index,
        kept,
        reduced_count: reduced.count.to_string(),
        steps: reduced.steps(text.evaluate()?)?,
        declarations: declarations(kernel),
        trees,
    })
}

/// Blocks of a multiprocessor that reduce.
pub(super) fn resident(kernel: &ReductionKernel) -> u32 {
    let spills = is_crowded(&kernel.sweep) || values_and_sums(kernel) > HELD_VALUES_AND_SUMS;
    let threads = if spills { RESIDENT_THREADS / 2 } else { RESIDENT_THREADS };
    (threads / (kernel.columns * kernel.rows)).max(1)
}

/// Which thread has which kept point, and which reduced ones, with the coordinates that are read.
pub(super) fn points(kernel: &ReductionKernel, uses: &mut BTreeSet<Variable>) -> (KeptText, ReducedText) {
    let sweep = &kernel.sweep;
    let (along, across) = (("threadIdx.x", kernel.columns), ("threadIdx.y", kernel.rows));
    let (kept, reduced) = if kernel.reduce_vector { (across, along) } else { (along, across) };
    let mut cut = |linear, reduced| {
        let definitions = coordinates(sweep, &Index::local(linear), |axis| axis.reduced == reduced);
        definition_lines(index_type(sweep.wide_index), &needed(definitions, uses))
    };
    let (kept_coordinates, reduced_coordinates) = (cut("kept", false), cut("r", true));
    // where an axis has one thread, its number is the block's
    let first = |block: &str, threads: u32, thread: &str| match threads {
        1 => as_index(sweep.wide_index, block),
        _ => format!("{} * {threads} + {thread}", as_index(sweep.wide_index, block)),
    };
    let group = ReductionKernel::GROUP;
    let kept = KeptText {
        first: first("blockIdx.x", kept.1, kept.0),
        count: vectors(sweep, |axis| !axis.reduced).to_string(),
        coordinates: kept_coordinates,
    };
    let reduced = ReducedText {
        index: index_type(sweep.wide_index),
        first: first("blockIdx.y", group * reduced.1, reduced.0),
        of_group: spell(&(Index::local("next") + Index::local("g") * i64::from(reduced.1))),
        threads: reduced.1,
        count: vectors(sweep, |axis| axis.reduced),
        group,
        step: i64::from(group) * i64::from(reduced.1) * i64::from(kernel.splits),
        coordinates: reduced_coordinates,
    };
    (kept, reduced)
}

/// What a thread evaluates of the totals of its kept point.
#[derive(Serialize)]
pub(super) struct Following {
    totals: Vec<TotalText>,
    evaluate: String,
    /// Where operands in memory lie.
    operands: Vec<String>,
}

/// A total as what follows it reads it: an element of memory of the thread's own.
#[derive(Serialize)]
struct TotalText {
    variable: String,
    value: String,
}

impl Following {
    /// The coordinates that it reads join `uses`.
    ///
    /// # Errors
    /// [`Error::Generated`] if a template fails: a defect of ours.
    pub(super) fn new(
        graph: &FinalizedGraph,
        used: &mut Used,
        sweep: &Sweep,
        totals: impl Iterator<Item = (TensorId, String)>,
        uses: &mut BTreeSet<Variable>,
    ) -> Result<Self, Error> {
        let text = SweepSpeller::new(graph, used, sweep, &[]).text(&[], "");
        uses.extend(text.uses.iter().copied());
        let read: BTreeSet<TensorId> = sweep.program.loads().collect();
        let totals: Vec<(TensorId, String)> = totals.filter(|(id, _)| read.contains(id)).collect();
        let is_in_memory =
            |id: &&TensorId| sweep.access[*id] != Access::Parameter && totals.iter().all(|(total, _)| total != *id);
        let operands: Vec<String> =
            read.iter().filter(is_in_memory).map(|&id| address(graph, sweep, id, uses)).collect();
        if !operands.is_empty() {
            used.add("fw_prefetch");
        }
        let totals =
            totals.into_iter().map(|(id, value)| TotalText { variable: names::pointer(graph, id), value }).collect();
        Ok(Self { totals, evaluate: text.evaluate()?, operands })
    }
}

pub(super) fn combine(graph: &FinalizedGraph, used: &mut Used, kernel: &CombineKernel) -> Result<CombineText, Error> {
    used.add("FW_SHARED");
    used.add("fw_let_next_launch_start");
    let axes = &kernel.space.axes;
    let index = index_type(is_wide(kernel));
    let counts: Vec<_> = axes.iter().enumerate().map(|(number, axis)| (number, axis.extent, 1)).collect();
    let offsets: Vec<Index> =
        kernel.accumulations.iter().map(|accumulation| offset(axes, accumulation.target)).collect();
    let mut uses = offsets.iter().flat_map(Index::variables).collect();
    let result = |number: usize| format!("result{number}");
    let totals =
        kernel.accumulations.iter().enumerate().map(|(number, accumulation)| (accumulation.target, result(number)));
    let following = kernel.following.as_ref();
    let following = following.map(|sweep| Following::new(graph, used, sweep, totals, &mut uses)).transpose()?;
    let coordinates = needed(cut(&Index::local("k"), &counts), &mut uses);
    let kept = kernel.space.points();
    let tree = Tree {
        along: "kept element",
        width: 1,
        leaves: kernel.rows,
        thread: "threadIdx.y",
        stride: kernel.columns,
        threads: kernel.columns * kernel.rows,
        writes: format!("threadIdx.y == 0 && k < {kept}"),
        guard: None,
    };
    let left = spell(&(Index::local("blockIdx.y") * kept + Index::local("k")));
    let mut accumulations = Vec::new();
    for (number, (accumulation, offset)) in kernel.accumulations.iter().zip(offsets).enumerate() {
        let write = match kernel.parts {
            1 if following.is_some() => {
                let kept = format!("{} = {};", result(number), finished(accumulation, kernel.count));
                format!("{} {kept}", write_result(graph, used, accumulation, &offset, kernel.count))
            }
            1 => write_result(graph, used, accumulation, &offset, kernel.count),
            _ => format!("partial{}[{left}] = total;", kernel.accumulations.len() + number),
        };
        accumulations.push(AccumulationText {
            name: accumulator(number),
            identity: names::combine_identity(accumulation.combine),
            combine: names::combine_function(accumulation.combine),
            partial: format!("partial{number}"),
            result: following.is_some().then(|| result(number)),
            tree: tree.spell(used, number, accumulation, write)?,
        });
    }
    Ok(CombineText {
        threads: kernel.columns * kernel.rows,
        index,
        k: match kernel.columns {
            1 => as_index(is_wide(kernel), "blockIdx.x"),
            columns => format!("{} * {columns} + threadIdx.x", as_index(is_wide(kernel), "blockIdx.x")),
        },
        rows: kernel.rows,
        group: SPLITS_AT_ONCE,
        part: (kernel.parts > 1)
            .then(|| PartText { each: (kernel.splits + kernel.parts - 1) / kernel.parts, all: kernel.splits }),
        splits: Number::count(graph.is_dynamic(), "splits", kernel.splits),
        kept,
        partial: spell(&(Index::local("split") * kept + Index::local("k"))),
        coordinates: definition_lines(index, &coordinates),
        accumulations,
        following,
    })
}

/// Whether offsets into the partials or into a result need 64 bits.
fn is_wide(kernel: &CombineKernel) -> bool {
    let targets: Vec<TensorId> = kernel.accumulations.iter().map(|accumulation| accumulation.target).collect();
    !fits(&kernel.space, &targets, kernel.space.points() * kernel.splits)
        || kernel.following.as_ref().is_some_and(|sweep| sweep.wide_index)
}

/// Whether offsets into so many partials and into tensors are of 32 bits.
pub(super) fn fits(space: &IterationSpace, tensors: &[TensorId], partials: i64) -> bool {
    let last = |&id: &TensorId| -> i64 {
        space.axes.iter().map(|axis| (axis.extent.value() - 1) * axis.strides[&id].value()).sum()
    };
    tensors.iter().map(last).chain([partials]).all(|offset| offset <= i64::from(i32::MAX))
}

pub(super) fn reduction_tree(kernel: &ReductionKernel) -> Tree {
    let (width, threads) = (kernel.accumulators(), kernel.columns * kernel.rows);
    let kept = vectors(&kernel.sweep, |axis| !axis.reduced);
    let last = kernel.sweep.space.axes.len() - 1;
    let extent = kernel.sweep.space.axes[last].extent;
    if kernel.reduce_vector {
        Tree {
            along: "kept element",
            width,
            leaves: kernel.columns,
            thread: "threadIdx.x",
            stride: 1,
            threads,
            writes: format!("threadIdx.x == 0 && kept < {kept}"),
            guard: None,
        }
    } else {
        Tree {
            along: "kept vector",
            width,
            leaves: kernel.rows,
            thread: "threadIdx.y",
            stride: kernel.columns,
            threads,
            writes: format!("threadIdx.y == 0 && kept < {kept}"),
            guard: kernel.sweep.ragged.then(|| format!("i{last} + e < {extent}")),
        }
    }
}

/// Where each accumulation's results lie, of the tensor or of the partial results: at a thread's accumulator `e`.
fn results(kernel: &ReductionKernel) -> Vec<Index> {
    let axes = &kernel.sweep.space.axes;
    let result = |accumulation: &Accumulation| {
        let (first, step) = match kernel.splits {
            1 => {
                let step = axes.last().map_or(0.into(), |axis| axis.strides[&accumulation.target]);
                (offset(axes, accumulation.target), step)
            }
            _ => (dense_offset(axes), Number::ONE),
        };
        let step = if kernel.accumulators() == 1 { 0.into() } else { step };
        first + Index::local("e") * step
    };
    kernel.accumulations.iter().map(result).collect()
}

/// `float acc0[2] = {0.0f, 0.0f};`
pub(super) fn declarations(kernel: &ReductionKernel) -> Vec<String> {
    let count = kernel.accumulators() as usize;
    let declaration = |(number, accumulation): (usize, &Accumulation)| {
        let identities = vec![names::combine_identity(accumulation.combine); count].join(", ");
        format!("float {}[{count}] = {{{identities}}};", accumulator(number))
    };
    kernel.accumulations.iter().enumerate().map(declaration).collect()
}

/// The statement that writes `total` as a result or, where the reduced points are cut into splits, as a partial result.
fn reduction_write(
    graph: &FinalizedGraph,
    used: &mut Used,
    kernel: &ReductionKernel,
    number: usize,
    result: &Index,
) -> String {
    if kernel.splits > 1 {
        let kept = kernel.sweep.space.points_where(false);
        return format!("partial{number}[(unsigned long long)(blockIdx.y) * {kept} + {}] = total;", within(result));
    }
    write_result(graph, used, &kernel.accumulations[number], result, kernel.count)
}

/// Elements of a tensor before a point.
pub(super) fn offset(axes: &[Axis], tensor: TensorId) -> Index {
    let terms =
        axes.iter().enumerate().map(|(number, axis)| Index::variable(Variable::Axis(number)) * axis.strides[&tensor]);
    Index::sum(terms)
}

/// Position of a kept point among all kept points, innermost axis fastest.
pub(super) fn dense_offset(axes: &[Axis]) -> Index {
    let mut step = Number::ONE;
    let mut terms = Vec::new();
    for (number, axis) in axes.iter().enumerate().rev().filter(|(_, axis)| !axis.reduced) {
        terms.push(Index::variable(Variable::Axis(number)) * step);
        step = step * axis.extent;
    }
    Index::sum(terms.into_iter().rev())
}

/// `p_t5[offset] = …total…;`
fn write_result(
    graph: &FinalizedGraph,
    used: &mut Used,
    accumulation: &Accumulation,
    offset: &Index,
    count: i64,
) -> String {
    let data_type = graph.tensor(accumulation.target).data_type;
    used.add(names::storage_section(data_type));
    let finished = finished(accumulation, count);
    let pointer = names::pointer(graph, accumulation.target);
    format!("{pointer}[{}] = {};", spell(offset), names::to_storage(data_type, &finished))
}

/// What becomes of `total`, of so many elements.
pub(super) fn finished(accumulation: &Accumulation, count: i64) -> String {
    match accumulation.finish {
        Finish::Identity => "total".to_owned(),
        Finish::Mean => format!("total / {}", names::float_literal(count as f32)),
        Finish::Root => "sqrtf(total)".to_owned(),
    }
}

/// Vectors over the chosen axes; the innermost axis of the space counts in vectors, rows padded to whole ones.
fn vectors(sweep: &Sweep, chosen: impl Fn(&Axis) -> bool) -> Number {
    let last = sweep.space.axes.len() - 1;
    let counts = sweep
        .space
        .axes
        .iter()
        .enumerate()
        .filter(|(_, axis)| chosen(axis))
        .map(|(number, axis)| if number == last { axis.extent.parts(sweep.vector) } else { axis.extent });
    counts.product()
}
