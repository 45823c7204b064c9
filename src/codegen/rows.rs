//! Record of the skeleton for rows.

use serde::Serialize;

use super::index::{as_index, definition_lines, index_type};
use super::names;
use super::reduction::{accumulator, finished};
use super::sections::Used;
use super::sweep::{SweepSpeller, coordinates};
use crate::error::Error;
use crate::graph::FinalizedGraph;
use crate::kernel::{Accumulation, Index, RowPhase, RowsKernel, Sweep, needed};

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
    warps: u32,
    /// The row of a row of threads.
    row: String,
    vectors: i64,
    /// Vectors of a thread.
    each: i64,
    /// Whether the last of them may be none.
    is_short: bool,
    is_unrolled: bool,
    /// Whether warps meet in shared memory.
    shares: bool,
    phases: Vec<PhaseText>,
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
    let shares = kernel.columns > 32;
    if shares {
        used.add("FW_SHARED");
    }
    let is_wide = kernel.sweeps().any(|sweep| sweep.wide_index);
    let index = index_type(is_wide);
    let warps = kernel.columns / 32;
    let each = (kernel.vectors + i64::from(kernel.columns) - 1) / i64::from(kernel.columns);
    let mut phases = Vec::new();
    let mut before = 0;
    for phase in &kernel.phases {
        phases.push(PhaseText::new(graph, used, kernel, phase, before)?);
        before += phase.accumulations.len() as i64 * i64::from(warps * kernel.rows);
    }
    let block = as_index(is_wide, "blockIdx.x");
    Ok(RowsText {
        threads: kernel.columns * kernel.rows,
        resident: (RESIDENT_THREADS / (kernel.columns * kernel.rows)).max(1),
        index,
        columns: kernel.columns,
        warps,
        row: if kernel.rows == 1 { block } else { format!("{block} * {} + threadIdx.y", kernel.rows) },
        vectors: kernel.vectors,
        each,
        is_short: each * i64::from(kernel.columns) != kernel.vectors,
        is_unrolled: each <= UNROLLED,
        shares,
        phases,
    })
}

impl PhaseText {
    fn new(
        graph: &FinalizedGraph,
        used: &mut Used,
        kernel: &RowsKernel,
        phase: &RowPhase,
        before: i64,
    ) -> Result<Self, Error> {
        let row = phase.row.as_ref().map(|sweep| PointText::new(graph, used, sweep, &[])).transpose()?;
        let row = row.map(|text| RowText { coordinates: text.of_row, evaluate: text.evaluate });
        let points = phase.points.as_ref();
        let points = points.map(|sweep| PointText::new(graph, used, sweep, &phase.accumulations)).transpose()?;
        let warps = i64::from(kernel.columns / 32 * kernel.rows);
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
        accumulations: &[Accumulation],
    ) -> Result<Self, Error> {
        let text = SweepSpeller::new(graph, used, sweep, accumulations).text(accumulations, "0");
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
