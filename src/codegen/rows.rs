//! Record of the skeleton for rows.

use std::collections::BTreeSet;

use serde::Serialize;

use super::index::{as_index, definition_lines, index_type};
use super::names;
use super::reduction::{accumulator, finished};
use super::sections::Used;
use super::sweep::{SweepSpeller, address, coordinates, enters};
use crate::error::Error;
use crate::graph::{FinalizedGraph, TensorId};
use crate::kernel::{Access, Accumulation, ColumnTotals, Index, RowPhase, RowsKernel, Sweep, needed};

/// Threads of a multiprocessor that evaluate rows: so few have registers for the vectors of theirs (measured beside 512 and 1,024:
/// `docs/performance-notes.md`, "Norms of rows").
const RESIDENT_THREADS: u32 = 768;

/// Vectors of a thread up to which loops over them are unrolled.
const UNROLLED: i64 = 16;

/// What `sweep/rows.cu` reads beside the function's name and parameters.
#[derive(Serialize)]
pub(super) struct RowsText {
    threads: u32,
    /// Blocks of a multiprocessor that the registers shall leave room for.
    resident: u32,
    index: &'static str,
    columns: u32,
    /// The distance at which lanes that share a row are combined first.
    half: u32,
    warps: u32,
    /// The row of a row of threads.
    row: String,
    vectors: i64,
    /// Vectors of a thread.
    each: i64,
    /// Whether the last of them may be none.
    is_short: bool,
    is_unrolled: bool,
    /// Whether warps meet in shared memory, and whether anything does.
    shares: bool,
    uses_shared: bool,
    phases: Vec<PhaseText>,
    staying: Option<StayingText>,
}

/// Blocks that stay, and add up over rows.
#[derive(Serialize)]
struct StayingText {
    /// Rows in all, rows of a block, and of all blocks at a time.
    count: i64,
    rows: u32,
    stride: i64,
    /// Floats of shared memory for one round's totals.
    round: i64,
    vector: i64,
    /// Elements of a row.
    elements: i64,
    sums: Vec<SumText>,
    /// What the next round reads.
    ahead: AheadText,
}

/// Coordinates of a row and of a vector, and where their elements lie that are read of each row anew.
#[derive(Serialize)]
struct AheadText {
    of_row: Vec<String>,
    of_vector: Vec<String>,
    addresses: Vec<String>,
}

/// What is added up: a thread's sums, and where a block's go.
#[derive(Serialize)]
struct SumText {
    name: String,
    identity: String,
    combine: &'static str,
    partial: String,
}

#[derive(Serialize)]
struct PhaseText {
    /// Done by the first thread of a row.
    row: Option<RowText>,
    points: Option<PointText>,
    totals: Vec<TotalText>,
}

/// A sweep over rows alone.
#[derive(Serialize)]
struct RowText {
    coordinates: Vec<String>,
    evaluate: String,
}

/// One sweep: coordinates of the row, of the point, and what is evaluated there.
#[derive(Serialize)]
struct PointText {
    of_row: Vec<String>,
    of_vector: Vec<String>,
    evaluate: String,
}

/// One reduction of a phase.
#[derive(Serialize)]
struct TotalText {
    /// A thread's part.
    name: String,
    identity: String,
    combine: &'static str,
    /// Floats before its own in shared memory.
    place: i64,
    /// The variable that later phases read, and what it is given.
    variable: String,
    finished: String,
}

pub(super) fn rows(graph: &FinalizedGraph, used: &mut Used, kernel: &RowsKernel) -> Result<RowsText, Error> {
    used.add("fw_lanes_total");
    if kernel.columns > 32 {
        used.add("fw_warps_total");
    }
    let shares = kernel.columns > 32;
    let staying = kernel.column_totals.as_ref().map(|totals| StayingText::new(graph, used, kernel, totals));
    if staying.is_some() {
        used.add("fw_let_next_launch_start");
    }
    let uses_shared = shares || staying.as_ref().is_some_and(|staying| staying.rows > 1);
    if uses_shared {
        used.add("FW_SHARED");
    }
    let is_wide = kernel.sweeps().any(|sweep| sweep.wide_index);
    let index = index_type(is_wide);
    let warps = kernel.warps_of_a_row();
    let each = kernel.vectors_of_a_thread();
    let mut phases = Vec::new();
    let mut before = 0;
    for (number, phase) in kernel.phases.iter().enumerate() {
        let sums = kernel.column_totals.as_ref().filter(|totals| totals.phase == number);
        let sums = sums.map_or(&[][..], |totals| &totals.accumulations);
        phases.push(PhaseText::new(graph, used, kernel, (phase, sums), before)?);
        before += phase.accumulations.len() as i64 * i64::from(warps * kernel.rows);
    }
    Ok(RowsText {
        threads: kernel.columns * kernel.rows,
        resident: (if staying.is_some() { ColumnTotals::RESIDENT_THREADS } else { RESIDENT_THREADS }
            / (kernel.columns * kernel.rows))
            .max(1),
        index,
        columns: kernel.columns,
        half: kernel.columns.min(32) / 2,
        warps,
        row: row(kernel, is_wide),
        vectors: kernel.vectors,
        each,
        is_short: each * i64::from(kernel.columns) != kernel.vectors,
        is_unrolled: each <= UNROLLED,
        shares,
        uses_shared,
        phases,
        staying,
    })
}

/// The row of a row of threads.
fn row(kernel: &RowsKernel, is_wide: bool) -> String {
    let RowsKernel { rows, count, .. } = *kernel;
    let (block, whole) = (as_index(is_wide, "blockIdx.x"), count / i64::from(rows));
    let first = match kernel.column_totals {
        Some(_) => "round".to_owned(),
        None if rows == 1 => block,
        None if whole == kernel.blocks() => format!("{block} * {rows}"),
        None => format!("({block} < {whole} ? {block} * {rows} : {})", count - i64::from(rows)),
    };
    if rows == 1 { first } else { format!("{first} + threadIdx.y") }
}

impl PhaseText {
    fn new(
        graph: &FinalizedGraph,
        used: &mut Used,
        kernel: &RowsKernel,
        (phase, sums): (&RowPhase, &[Accumulation]),
        before: i64,
    ) -> Result<Self, Error> {
        let row = phase.row.as_ref().map(|sweep| PointText::new(graph, used, sweep, (&[], &[]))).transpose()?;
        let row = row.map(|text| RowText { coordinates: text.of_row, evaluate: text.evaluate });
        let points = phase.points.as_ref();
        let points =
            points.map(|sweep| PointText::new(graph, used, sweep, (&phase.accumulations, sums))).transpose()?;
        let warps = i64::from(kernel.warps_of_a_row() * kernel.rows);
        let mut totals = Vec::new();
        for (number, accumulation) in phase.accumulations.iter().enumerate() {
            let combine = names::combine_function(accumulation.combine);
            used.add(combine);
            totals.push(TotalText {
                name: accumulator(number),
                identity: names::combine_identity(accumulation.combine),
                combine,
                place: before + number as i64 * warps,
                variable: names::pointer(graph, accumulation.target),
                finished: finished(accumulation, kernel.elements),
            });
        }
        Ok(Self { row, points, totals })
    }
}

impl PointText {
    fn new(
        graph: &FinalizedGraph,
        used: &mut Used,
        sweep: &Sweep,
        (accumulations, sums): (&[Accumulation], &[Accumulation]),
    ) -> Result<Self, Error> {
        let all: Vec<Accumulation> = accumulations.iter().chain(sums).copied().collect();
        let point = if sweep.vector > 1 { "e" } else { "0" };
        let text = SweepSpeller::new(graph, used, sweep, &all).text_with(|speller| {
            let entered = accumulations.iter().enumerate();
            let mut lines: Vec<String> = entered
                .map(|(number, of_row)| enters(speller, &format!("{}[0]", accumulator(number)), of_row))
                .collect();
            let summed = sums.iter().enumerate();
            lines.extend(
                summed.map(|(number, of_column)| enters(speller, &format!("sum{number}[g][{point}]"), of_column)),
            );
            lines
        });
        let index = index_type(sweep.wide_index);
        let mut uses = text.uses.clone();
        let mut lines = |linear, reduced| {
            let definitions = coordinates(sweep, &Index::local(linear), |axis| axis.reduced == reduced);
            definition_lines(index, &needed(definitions, &mut uses))
        };
        let (of_row, of_vector) = (lines("row", false), lines("r", true));
        Ok(Self { of_row, of_vector, evaluate: text.evaluate()? })
    }
}

impl StayingText {
    fn new(graph: &FinalizedGraph, used: &mut Used, kernel: &RowsKernel, totals: &ColumnTotals) -> Self {
        let sum = |(number, accumulation): (usize, &Accumulation)| {
            let combine = names::combine_function(accumulation.combine);
            used.add(combine);
            used.add("fw_vector");
            let identity = names::combine_identity(accumulation.combine);
            SumText { name: format!("sum{number}"), identity, combine, partial: format!("partial{number}") }
        };
        Self {
            count: kernel.count,
            rows: kernel.rows,
            stride: i64::from(kernel.rows * totals.blocks),
            round: kernel.total_floats(),
            vector: kernel.elements / kernel.vectors,
            elements: kernel.elements,
            sums: totals.accumulations.iter().enumerate().map(sum).collect(),
            ahead: AheadText::new(graph, used, kernel),
        }
    }
}

impl AheadText {
    fn new(graph: &FinalizedGraph, used: &mut Used, kernel: &RowsKernel) -> Self {
        let Some(sweep) = kernel.phases.iter().find_map(|phase| phase.points.as_ref()) else {
            return Self { of_row: Vec::new(), of_vector: Vec::new(), addresses: Vec::new() };
        };
        used.add("fw_prefetch");
        let axes = &sweep.space.axes;
        let changes = |id: &TensorId| axes.iter().any(|axis| !axis.reduced && axis.strides[id] != 0);
        let vectors = sweep.program.loads().filter(|id| sweep.access[id] == Access::Vector && changes(id));
        let mut uses = BTreeSet::new();
        let addresses = vectors.map(|id| address(graph, sweep, id, &mut uses)).collect();
        let index = index_type(sweep.wide_index);
        let mut lines = |linear, reduced| {
            let definitions = coordinates(sweep, &Index::local(linear), |axis| axis.reduced == reduced);
            definition_lines(index, &needed(definitions, &mut uses))
        };
        Self { of_row: lines("row", false), of_vector: lines("r", true), addresses }
    }
}
