//! Records of the pointwise, reduction and combine skeletons.

use serde::Serialize;

use super::names;
use super::sections::Used;
use super::sweep::{SweepSpeller, SweepText, coordinates, cut, dot, index_type};
use crate::graph::FinalizedGraph;
use crate::kernel::{Accumulation, Axis, CombineKernel, Finish, PointwiseKernel, ReductionKernel, Sweep};

/// Threads of a multiprocessor that reduce: half of what it holds, so that each has registers for four loads under way.
const RESIDENT_THREADS: u32 = 1024;

/// Points a thread has under way at once.
const GROUP: u32 = 4;

/// What `kernel/pointwise.cu` reads beside the function's name and parameters.
#[derive(Serialize)]
pub(super) struct PointwiseText {
    threads: u32,
    /// Blocks of a multiprocessor, where the compiler's own guess would spill registers.
    blocks: Option<u32>,
    index: &'static str,
    vectors: i64,
    coordinates: Vec<String>,
    sweep: SweepText,
}

/// What `kernel/reduction.cu` reads beside the function's name and parameters.
#[derive(Serialize)]
pub(super) struct ReductionText {
    threads: u32,
    /// Blocks of a multiprocessor that the registers shall leave room for.
    resident: u32,
    /// Whether a combination follows, which may be put on the chip meanwhile.
    signals: bool,
    index: &'static str,
    kept: KeptText,
    reduced: ReducedText,
    accumulations: Vec<AccumulationText>,
    accumulators: i64,
    sweep: SweepText,
    tree: TreeText,
}

/// The kept points: which thread has which.
#[derive(Serialize)]
struct KeptText {
    thread: &'static str,
    threads: u32,
    count: i64,
    coordinates: Vec<String>,
}

/// The reduced points: where a thread starts, how far it steps.
#[derive(Serialize)]
struct ReducedText {
    thread: &'static str,
    threads: u32,
    count: i64,
    /// Points a thread loads before it uses the first.
    group: u32,
    step: i64,
    coordinates: Vec<String>,
}

/// One accumulator.
#[derive(Serialize)]
struct AccumulationText {
    name: String,
    identity: String,
    combine: &'static str,
    partial: String,
    /// Statement that writes `total`.
    write: String,
}

/// What `epilogue/tree.cuh` reads.
#[derive(Serialize)]
struct TreeText {
    /// For messages to readers: what has a result each.
    along: &'static str,
    width: i64,
    half: u32,
    thread: &'static str,
    /// Distance in shared memory between neighbours in the tree.
    stride: i64,
    writes: String,
    guard: Option<String>,
}

/// What `kernel/combine.cu` reads beside the function's name and parameters.
#[derive(Serialize)]
pub(super) struct CombineText {
    threads: u32,
    index: &'static str,
    columns: u32,
    rows: u32,
    splits: i64,
    kept: i64,
    coordinates: Vec<String>,
    accumulations: Vec<AccumulationText>,
    tree: TreeText,
}

pub(super) fn pointwise(graph: &FinalizedGraph, used: &mut Used, kernel: &PointwiseKernel) -> PointwiseText {
    PointwiseText {
        threads: kernel.threads,
        blocks: kernel.sweep.program.windows().next().map(|_| 1),
        index: index_type(kernel.sweep.wide_index),
        vectors: vectors(&kernel.sweep, |_| true),
        coordinates: coordinates(&kernel.sweep, "vector", |_| true),
        sweep: SweepSpeller::new(graph, used, &kernel.sweep, &[]).text(&[], ""),
    }
}

pub(super) fn reduction(graph: &FinalizedGraph, used: &mut Used, kernel: &ReductionKernel) -> ReductionText {
    used.add("FW_SHARED");
    if kernel.splits > 1 {
        used.add("fw_let_next_launch_start");
    }
    let sweep = &kernel.sweep;
    let (along, across) = (("threadIdx.x", kernel.columns), ("threadIdx.y", kernel.rows));
    let (kept, reduced) = if kernel.reduce_vector { (across, along) } else { (along, across) };
    let index = if kernel.reduce_vector { "0" } else { "e" };
    ReductionText {
        threads: kernel.columns * kernel.rows,
        resident: (RESIDENT_THREADS / (kernel.columns * kernel.rows)).max(1),
        signals: kernel.splits > 1,
        index: index_type(sweep.wide_index),
        kept: KeptText {
            thread: kept.0,
            threads: kept.1,
            count: vectors(sweep, |axis| !axis.reduced),
            coordinates: coordinates(sweep, "kept", |axis| !axis.reduced),
        },
        reduced: ReducedText {
            thread: reduced.0,
            threads: reduced.1,
            count: vectors(sweep, |axis| axis.reduced),
            group: GROUP,
            step: i64::from(GROUP) * i64::from(reduced.1) * i64::from(kernel.splits),
            coordinates: coordinates(sweep, "r", |axis| axis.reduced),
        },
        accumulators: accumulators(kernel),
        accumulations: reduction_accumulations(graph, used, kernel),
        tree: reduction_tree(kernel),
        sweep: SweepSpeller::new(graph, used, sweep, &kernel.accumulations).text(&kernel.accumulations, index),
    }
}

pub(super) fn combine(graph: &FinalizedGraph, used: &mut Used, kernel: &CombineKernel) -> CombineText {
    used.add("FW_SHARED");
    let axes = &kernel.space.axes;
    let index = index_type(is_wide(kernel));
    let counts = axes.iter().enumerate().map(|(number, axis)| (number, axis.extent, 1)).collect();
    let accumulations = kernel.accumulations.iter().enumerate().map(|(number, accumulation)| {
        let offset = dot(axes, |axis| axis.strides[&accumulation.target]);
        let write = write_result(graph, used, accumulation, &offset, kernel.count);
        spell_accumulation(used, number, accumulation, write)
    });
    CombineText {
        threads: kernel.columns * kernel.rows,
        index,
        columns: kernel.columns,
        rows: kernel.rows,
        splits: kernel.splits,
        kept: kernel.space.points(),
        coordinates: cut(index, "k", counts),
        accumulations: accumulations.collect(),
        tree: TreeText {
            along: "kept element",
            width: 1,
            half: kernel.rows / 2,
            thread: "threadIdx.y",
            stride: i64::from(kernel.columns),
            writes: format!("threadIdx.y == 0 && k < {}", kernel.space.points()),
            guard: None,
        },
    }
}

/// Whether offsets into the partials or into a result need 64 bits.
fn is_wide(kernel: &CombineKernel) -> bool {
    let last = |accumulation: &Accumulation| -> i64 {
        kernel.space.axes.iter().map(|axis| (axis.extent - 1) * axis.strides[&accumulation.target]).sum()
    };
    let partials = kernel.space.points() * kernel.splits;
    kernel.accumulations.iter().map(last).chain([partials]).any(|offset| offset > i64::from(i32::MAX))
}

/// Accumulators of a thread: one, or one for each point of a vector of kept points.
fn accumulators(kernel: &ReductionKernel) -> i64 {
    if kernel.reduce_vector { 1 } else { kernel.sweep.vector }
}

fn reduction_tree(kernel: &ReductionKernel) -> TreeText {
    let width = accumulators(kernel);
    let kept = vectors(&kernel.sweep, |axis| !axis.reduced);
    let last = kernel.sweep.space.axes.len() - 1;
    let extent = kernel.sweep.space.axes[last].extent;
    if kernel.reduce_vector {
        TreeText {
            along: "kept element",
            width,
            half: kernel.columns / 2,
            thread: "threadIdx.x",
            stride: width,
            writes: format!("threadIdx.x == 0 && kept < {kept}"),
            guard: None,
        }
    } else {
        TreeText {
            along: "kept vector",
            width,
            half: kernel.rows / 2,
            thread: "threadIdx.y",
            stride: i64::from(kernel.columns) * width,
            writes: format!("threadIdx.y == 0 && kept < {kept}"),
            guard: kernel.sweep.ragged.then(|| format!("i{last} + e < {extent}")),
        }
    }
}

fn reduction_accumulations(graph: &FinalizedGraph, used: &mut Used, kernel: &ReductionKernel) -> Vec<AccumulationText> {
    let point = if kernel.reduce_vector { "" } else { " + e" };
    let mut spelled = Vec::new();
    for (number, accumulation) in kernel.accumulations.iter().enumerate() {
        let write = if kernel.splits > 1 {
            let kept = kernel.sweep.space.points_where(false);
            let k = dense_offset(&kernel.sweep.space.axes);
            format!("partial{number}[(unsigned long long)(blockIdx.y) * {kept} + ({k}{point})] = total;")
        } else {
            let stride = kernel.sweep.space.axes.last().map_or(0, |axis| axis.strides[&accumulation.target]);
            let offset = dot(&kernel.sweep.space.axes, |axis| axis.strides[&accumulation.target]);
            let point = if kernel.reduce_vector { String::new() } else { format!(" + e * {stride}") };
            write_result(graph, used, accumulation, &format!("{offset}{point}"), kernel.count)
        };
        spelled.push(spell_accumulation(used, number, accumulation, write));
    }
    spelled
}

/// Position of a kept point among all kept points, innermost axis fastest.
fn dense_offset(axes: &[Axis]) -> String {
    let mut step = 1;
    let mut strides = vec![0; axes.len()];
    for (axis, stride) in axes.iter().zip(&mut strides).rev().filter(|(axis, _)| !axis.reduced) {
        *stride = step;
        step *= axis.extent;
    }
    let terms = (0..axes.len()).filter_map(|axis| super::sweep::term(&format!("i{axis}"), strides[axis]));
    super::sweep::sum(terms)
}

fn spell_accumulation(used: &mut Used, number: usize, accumulation: &Accumulation, write: String) -> AccumulationText {
    let combine = names::combine_function(accumulation.combine);
    used.add(combine);
    AccumulationText {
        name: format!("acc{number}"),
        identity: names::combine_identity(accumulation.combine),
        combine,
        partial: format!("partial{number}"),
        write,
    }
}

/// `p_t5[offset] = …total…;`
fn write_result(
    graph: &FinalizedGraph,
    used: &mut Used,
    accumulation: &Accumulation,
    offset: &str,
    count: i64,
) -> String {
    let data_type = graph.tensor(accumulation.target).data_type;
    used.add(names::storage_section(data_type));
    let finished = match accumulation.finish {
        Finish::Identity => "total".to_owned(),
        Finish::Mean => format!("total / {}", names::float_literal(count as f32)),
        Finish::Root => "sqrtf(total)".to_owned(),
    };
    let pointer = names::pointer(graph, accumulation.target);
    format!("{pointer}[{offset}] = {};", names::to_storage(data_type, &finished))
}

/// Vectors over the chosen axes; the innermost axis of the space counts in vectors, rows padded to whole ones.
fn vectors(sweep: &Sweep, chosen: impl Fn(&Axis) -> bool) -> i64 {
    let last = sweep.space.axes.len() - 1;
    let counts = sweep.space.axes.iter().enumerate().filter(|(_, axis)| chosen(axis)).map(|(number, axis)| {
        if number == last { (axis.extent + sweep.vector - 1) / sweep.vector } else { axis.extent }
    });
    counts.product()
}
