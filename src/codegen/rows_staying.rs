//! Record of the skeleton for rows that are also added up, by blocks that stay.

use serde::Serialize;

use super::index::index_type;
use super::names;
use super::phases::PointSpelling;
use super::rows::{PhaseSpelling, PhaseText, group, thread};
use super::sections::Used;
use crate::error::Error;
use crate::graph::{FinalizedGraph, TensorId};
use crate::kernel::{Accumulation, ColumnTotals, Number, RowsKernel};

/// What `sweep/rows_staying.cu` reads beside the function's name and parameters.
#[derive(Serialize)]
pub(super) struct StayingText {
    threads: u32,
    /// Blocks of a multiprocessor that the registers shall leave room for.
    resident: u32,
    index: &'static str,
    /// Blocks that share a row, and which these are.
    cluster: u32,
    group: String,
    columns: u32,
    /// A thread among those of a row, and how many these are.
    thread: &'static str,
    span: u32,
    /// The distance at which lanes that share a row are combined first.
    half: u32,
    warps: u32,
    pitch: u32,
    /// Row `u` of a row of threads in a round.
    row: String,
    vectors: i64,
    /// Vectors of a thread.
    each: i64,
    /// Whether the last of them may be none.
    is_short: bool,
    /// Whether warps meet in shared memory.
    shares: bool,
    /// Rows in all, rows of a block, rows of a thread at once, and rows of all blocks in a round.
    count: Number,
    rows: u32,
    at_once: u32,
    stride: Number,
    /// Floats of shared memory for one round's totals.
    round: u32,
    vector: i64,
    /// Elements of a row.
    elements: i64,
    sums: Vec<SumText>,
    /// Bytes of shared memory before what is read a round before, bytes of a vector of it, its coordinates, and where it lies.
    ring: u32,
    vector_bytes: u32,
    of_row: Vec<String>,
    of_vector: Vec<String>,
    ahead: Vec<String>,
    ahead_count: usize,
    phases: Vec<StayingPhaseText>,
}

/// A phase, and what it knows of those before.
#[derive(Serialize)]
struct StayingPhaseText {
    #[serde(flatten)]
    phase: PhaseText,
    /// Variables of totals.
    known: Vec<String>,
    halved: Option<HalvedText>,
}

/// Several totals of a warp at once: of each of them so many lanes get it.
#[derive(Serialize)]
struct HalvedText {
    values: String,
    count: usize,
    lanes: usize,
    combine: &'static str,
    /// Floats before the first in shared memory.
    place: i64,
}

/// What is added up: a thread's sums, and where a block's go.
#[derive(Serialize)]
struct SumText {
    name: String,
    identity: String,
    combine: &'static str,
    partial: String,
}

pub(super) fn rows_staying(
    graph: &FinalizedGraph,
    used: &mut Used,
    (kernel, totals): (&RowsKernel, &ColumnTotals),
) -> Result<StayingText, Error> {
    let shares = kernel.columns > 32;
    let &ColumnTotals { at_once, blocks, vector_bytes, .. } = totals;
    let told = |name, value| Number::count(graph.is_dynamic(), name, value);
    ["FW_SHARED", "fw_let_next_launch_start", "fw_vector"].into_iter().for_each(|section| used.add(section));
    if shares {
        used.add("fw_warps_total");
    }
    if kernel.cluster > 1 {
        used.add("fw_cluster");
    }
    if !totals.ahead.is_empty() {
        used.add("fw_cp_async");
    }
    let (threads, rows, each) = (kernel.columns * kernel.rows, kernel.rows, kernel.vectors_of_a_thread());
    let index = index_type(kernel.sweeps().any(|sweep| sweep.wide_index));
    let points = PointSpelling { graph, kept: "row", at: "u", reads_from: vectors_from(graph, totals) };
    let sweep = kernel.phases.iter().find_map(|phase| phase.points.as_ref()).filter(|_| !totals.ahead.is_empty());
    let ([of_row, of_vector], ahead) = sweep.map(|sweep| points.addresses(sweep, &totals.ahead)).unwrap_or_default();
    Ok(StayingText {
        threads,
        resident: (ColumnTotals::RESIDENT_THREADS / threads).max(1),
        index,
        cluster: kernel.cluster,
        group: group(kernel.cluster),
        columns: kernel.columns,
        thread: thread(kernel),
        span: kernel.threads_of_a_row(),
        half: kernel.columns.min(32) / 2,
        warps: kernel.warps_of_a_row(),
        pitch: kernel.warp_pitch(),
        row: row(rows, at_once),
        vectors: kernel.vectors,
        each,
        is_short: each * i64::from(kernel.threads_of_a_row()) != kernel.vectors,
        shares,
        count: told("rows", kernel.count),
        rows,
        at_once,
        stride: told("rows of a round", i64::from(rows * at_once * blocks)),
        round: kernel.total_floats(),
        vector: kernel.elements / kernel.vectors,
        elements: kernel.elements,
        sums: totals.accumulations.iter().enumerate().map(|(number, sum)| SumText::new(used, number, sum)).collect(),
        ring: kernel.ahead_at(),
        vector_bytes,
        of_row,
        of_vector,
        ahead_count: ahead.len(),
        ahead,
        phases: phases(used, (kernel, totals), points)?,
    })
}

fn row(rows: u32, at_once: u32) -> String {
    let of_threads = if rows == 1 { "round".to_owned() } else { "round + threadIdx.y".to_owned() };
    match (at_once, rows) {
        (1, _) => of_threads,
        (_, 1) => format!("{of_threads} + u"),
        _ => format!("{of_threads} + u * {rows}"),
    }
}

/// Where vectors that came to shared memory are read.
fn vectors_from(graph: &FinalizedGraph, totals: &ColumnTotals) -> Vec<(TensorId, String)> {
    let from = |(number, &id)| {
        let storage = names::storage_type(graph.tensor(id).data_type);
        (id, format!("reinterpret_cast<const {storage}*>(place(slot, u, {number}, g))"))
    };
    totals.ahead.iter().enumerate().map(from).collect()
}

fn phases(
    used: &mut Used,
    (kernel, totals): (&RowsKernel, &ColumnTotals),
    points: PointSpelling<'_>,
) -> Result<Vec<StayingPhaseText>, Error> {
    let spelling = PhaseSpelling { kernel, points };
    let mut known: Vec<String> = Vec::new();
    let mut texts = Vec::new();
    for phase in spelling.phases(used)? {
        let before = known.clone();
        known.extend(phase.totals().iter().map(|total| total.variable.clone()));
        let halved = HalvedText::new(kernel, totals, &phase);
        used.add(if halved.is_some() { "fw_lanes_totals" } else { "fw_lanes_total" });
        texts.push(StayingPhaseText { phase, known: before, halved });
    }
    Ok(texts)
}

impl HalvedText {
    /// `None` where one is as good, or they are combined in several ways.
    fn new(kernel: &RowsKernel, totals: &ColumnTotals, phase: &PhaseText) -> Option<Self> {
        let first = phase.totals().first()?;
        let is_alike = phase.totals().iter().all(|total| total.combine == first.combine);
        let of_total = |name: &str| (0..totals.at_once).map(|u| format!("{name}[{u}]")).collect::<Vec<_>>();
        let values: Vec<String> = phase.totals().iter().flat_map(|total| of_total(&total.name)).collect();
        let halves = kernel.columns > 32 && is_alike && matches!(values.len(), 2 | 4 | 8);
        let count = values.len();
        halves.then(|| Self {
            values: values.join(", "),
            count,
            lanes: 32 / count,
            combine: first.combine,
            place: first.place,
        })
    }
}

impl SumText {
    fn new(used: &mut Used, number: usize, accumulation: &Accumulation) -> Self {
        let combine = names::combine_function(accumulation.combine);
        used.add(combine);
        let identity = names::combine_identity(accumulation.combine);
        Self { name: format!("sum{number}"), identity, combine, partial: format!("partial{number}") }
    }
}
