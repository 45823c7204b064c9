//! Record of the skeleton for columns.

use serde::Serialize;

use super::index::{definition_lines, index_type, spell};
use super::reduction::is_crowded;
use super::sections::Used;
use super::sweep::{SweepSpeller, coordinates};
use crate::error::Error;
use crate::graph::FinalizedGraph;
use crate::kernel::{ColumnsKernel, Index, needed};

/// Threads of a multiprocessor: so few have registers for what they keep and for the loads of several steps; fewer where many vectors meet.
const RESIDENT_THREADS: u32 = 768;
const CROWDED_THREADS: u32 = 512;

/// What `sweep/columns.cu` reads beside the function's name and parameters.
#[derive(Serialize)]
pub(super) struct ColumnsText {
    threads: u32,
    /// Blocks of a multiprocessor that the registers shall leave room for.
    resident: u32,
    index: &'static str,
    is_reversed: bool,
    /// The thread's vector among those side by side; how many there are, and whether blocks have more.
    inner: String,
    inner_vectors: i64,
    is_ragged: bool,
    /// The thread's vector among all kept ones.
    kept: String,
    kept_coordinates: Vec<String>,
    /// The thread's first step, all steps, those of a thread, threads along them, and whether the last block has fewer.
    first: String,
    steps: i64,
    each: u32,
    rows: u32,
    is_short: bool,
    step_coordinates: Vec<String>,
    evaluate: String,
}

pub(super) fn columns(graph: &FinalizedGraph, used: &mut Used, kernel: &ColumnsKernel) -> Result<ColumnsText, Error> {
    let sweep = &kernel.sweep;
    let text = SweepSpeller::new(graph, used, sweep, &[]).text(&[], "");
    let index = index_type(sweep.wide_index);
    let mut uses = text.uses.clone();
    let mut cut = |linear, reduced| {
        let definitions = coordinates(sweep, &Index::local(linear), |axis| axis.reduced == reduced);
        definition_lines(index, &needed(definitions, &mut uses))
    };
    let (kept_coordinates, step_coordinates) = (cut("kept", false), cut("r", true));
    let [columns, rows] = [kernel.columns, kernel.rows].map(i64::from);
    let threads = kernel.columns * kernel.rows;
    let (inner_vectors, steps) = (kernel.inner_vectors(), kernel.steps());
    let (along_columns, along_steps) = (kernel.blocks_along_columns(), kernel.blocks_along_steps());
    let block = || Index::local("block");
    let thread = |name, threads| if threads == 1 { Index::ZERO } else { Index::local(name) };
    let inner = block() % along_columns * columns + thread("threadIdx.x", columns);
    let first = block() / along_columns % along_steps * (rows * i64::from(kernel.each)) + thread("threadIdx.y", rows);
    let outer = block() / (along_columns * along_steps);
    let kept = if kernel.outer_points() == 1 { Index::ZERO } else { outer * inner_vectors } + Index::local("inner");
    let resident = if is_crowded(sweep) { CROWDED_THREADS } else { RESIDENT_THREADS };
    Ok(ColumnsText {
        threads,
        resident: (resident / threads).max(1),
        index,
        is_reversed: kernel.is_reversed,
        inner: spell(&inner),
        inner_vectors,
        is_ragged: inner_vectors % columns != 0,
        kept: spell(&kept),
        kept_coordinates,
        first: spell(&first),
        steps,
        each: kernel.each,
        rows: kernel.rows,
        is_short: steps % (rows * i64::from(kernel.each)) != 0,
        step_coordinates,
        evaluate: text.evaluate()?,
    })
}
