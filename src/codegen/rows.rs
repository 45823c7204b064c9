//! Records of the skeletons for rows.

use std::collections::BTreeSet;

use serde::Serialize;

use super::index::{as_index, index_type};
use super::names;
use super::phases::{KeptText, PointSpelling, PointText};
use super::reduction::{accumulator, finished};
use super::sections::Used;
use crate::error::Error;
use crate::graph::{FinalizedGraph, TensorId};
use crate::kernel::{Access, Accumulation, Number, Phase, RowsKernel};

/// Threads of a multiprocessor that evaluate rows: so few have registers for the vectors of theirs (measured beside 512 and 1,024:
/// `docs/performance-notes.md`, "Norms of rows"); more where these are few, or are read again behind statistics that are stored.
const RESIDENT_THREADS: u32 = 768;
const MOST_RESIDENT_THREADS: u32 = 1024;

/// Elements that a thread keeps from phase to phase, up to which it has enough of 64 registers, and where it reads them again behind what is stored, with
/// and without a question whether they are there: norms of 197 to 16,384 rows took 0.89 to 1.03 times as long so on an H200, and with more elements that
/// were kept up to 1.2 times, as these spilled (`docs/performance-notes.md`, "What memory bounds, drawn").
const FEW_ELEMENTS: i64 = 32;
const FEW_ELEMENTS_BESIDE_STATISTICS: [i64; 2] = [48, 40];

/// Vectors of a thread, and of a row's part in a block, up to which loops over them are unrolled: so many stay in the registers of a multiprocessor.
const UNROLLED: i64 = 16;
const UNROLLED_OF_A_BLOCK: i64 = 4096;

/// What `sweep/rows.cu` reads beside the function's name and parameters.
#[derive(Serialize)]
pub(super) struct RowsText {
    threads: u32,
    /// Blocks of a multiprocessor that the registers shall leave room for.
    resident: u32,
    index: &'static str,
    /// Blocks that share a row.
    cluster: u32,
    columns: u32,
    /// A thread among those of a row, and how many these are.
    thread: &'static str,
    span: u32,
    /// The distance at which lanes that share a row are combined first.
    half: u32,
    /// Warps of a row, and floats of shared memory for these.
    warps: u32,
    pitch: u32,
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

/// What is done before the next totals are known.
#[derive(Serialize)]
pub(super) struct PhaseText {
    /// Done by the first thread of a row.
    row: Option<KeptText>,
    points: Option<PointText>,
    totals: Vec<TotalText>,
}

/// One reduction of a phase.
#[derive(Serialize)]
pub(super) struct TotalText {
    /// A thread's part.
    pub(super) name: String,
    identity: String,
    pub(super) combine: &'static str,
    /// Floats before its own in shared memory.
    pub(super) place: i64,
    /// The same of those of a cluster's blocks.
    met: i64,
    /// The variable that later phases read, and what it is given.
    pub(super) variable: String,
    finished: String,
}

/// How the phases of a kernel are spelled.
pub(super) struct PhaseSpelling<'a> {
    pub(super) kernel: &'a RowsKernel,
    pub(super) points: PointSpelling<'a>,
}

pub(super) fn rows(graph: &FinalizedGraph, used: &mut Used, kernel: &RowsKernel) -> Result<RowsText, Error> {
    let shares = kernel.columns > 32;
    used.add("fw_lanes_total");
    if shares {
        used.add("fw_warps_total");
        used.add("FW_SHARED");
    }
    if kernel.cluster > 1 {
        used.add("fw_cluster");
    }
    let is_wide = kernel.sweeps().any(|sweep| sweep.wide_index);
    let threads = kernel.columns * kernel.rows;
    let each = kernel.vectors_of_a_thread();
    let points = PointSpelling { graph, kept: "row", at: "0", reads_from: Vec::new() };
    let spelling = PhaseSpelling { kernel, points };
    Ok(RowsText {
        threads,
        resident: (resident_threads(kernel) / threads).max(1),
        index: index_type(is_wide),
        cluster: kernel.cluster,
        columns: kernel.columns,
        thread: thread(kernel),
        span: kernel.threads_of_a_row(),
        half: kernel.columns.min(32) / 2,
        warps: kernel.warps_of_a_row(),
        pitch: kernel.warp_pitch(),
        row: row(graph, kernel, is_wide),
        vectors: kernel.vectors,
        each,
        is_short: is_short(kernel),
        is_unrolled: each <= UNROLLED && kernel.vectors <= UNROLLED_OF_A_BLOCK * i64::from(kernel.cluster),
        shares,
        phases: spelling.phases(used)?,
    })
}

/// Whether some threads of a row have fewer vectors than others.
fn is_short(kernel: &RowsKernel) -> bool {
    kernel.vectors_of_a_thread() * i64::from(kernel.threads_of_a_row()) != kernel.vectors
}

/// Threads of a multiprocessor that registers shall leave room for.
fn resident_threads(kernel: &RowsKernel) -> u32 {
    let vectors = |phase: &Phase| -> BTreeSet<TensorId> {
        let points = phase.points.iter();
        points
            .flat_map(|sweep| sweep.program.loads().filter(|id| sweep.access.get(id) == Some(&Access::Vector)))
            .collect()
    };
    let phases: Vec<BTreeSet<TensorId>> = kernel.phases.iter().map(vectors).collect();
    let is_kept = |id: &TensorId| phases.iter().filter(|read| read.contains(id)).count() > 1;
    let all: BTreeSet<TensorId> = phases.iter().flatten().copied().filter(is_kept).collect();
    let vector = kernel.sweeps().map(|sweep| sweep.vector).max().unwrap_or(1);
    let elements = kernel.vectors_of_a_thread() * vector * all.len() as i64;
    let stores_statistics = kernel.phases.iter().any(|phase| phase.once.is_some());
    let few =
        if stores_statistics { FEW_ELEMENTS_BESIDE_STATISTICS[usize::from(!is_short(kernel))] } else { FEW_ELEMENTS };
    if elements <= few { MOST_RESIDENT_THREADS } else { RESIDENT_THREADS }
}

/// A thread among those of a row.
pub(super) fn thread(kernel: &RowsKernel) -> &'static str {
    if kernel.cluster > 1 { "thread" } else { "threadIdx.x" }
}

/// The block, or the cluster of so many.
pub(super) fn group(cluster: u32) -> String {
    if cluster > 1 { format!("blockIdx.x / {cluster}") } else { "blockIdx.x".to_owned() }
}

/// The row of a row of threads.
fn row(graph: &FinalizedGraph, kernel: &RowsKernel, is_wide: bool) -> String {
    let RowsKernel { rows, count, .. } = *kernel;
    let (block, whole) = (as_index(is_wide, &group(kernel.cluster)), count / i64::from(rows));
    if rows == 1 {
        return block;
    }
    // of dynamic shapes one text does for all
    if whole == kernel.groups() && !graph.is_dynamic() {
        return format!("{block} * {rows} + threadIdx.y");
    }
    let [whole, last] = [("whole blocks", whole), ("last block", count - i64::from(rows))]
        .map(|(name, value)| Number::count(graph.is_dynamic(), name, value));
    format!("({block} < {whole} ? {block} * {rows} : {last}) + threadIdx.y")
}

impl PhaseSpelling<'_> {
    /// All phases.
    ///
    /// # Errors
    /// [`Error::Generated`] if a template fails: a defect of ours.
    pub(super) fn phases(&self, used: &mut Used) -> Result<Vec<PhaseText>, Error> {
        let (mut phases, mut before) = (Vec::new(), 0);
        for (number, phase) in self.kernel.phases.iter().enumerate() {
            let sums = self.kernel.column_totals.as_ref().filter(|totals| totals.phase == number);
            let sums = sums.map_or(&[][..], |totals| &totals.accumulations);
            phases.push(self.phase(used, (phase, sums), before)?);
            before += phase.accumulations.len();
        }
        Ok(phases)
    }

    fn phase(
        &self,
        used: &mut Used,
        (phase, sums): (&Phase, &[Accumulation]),
        before: usize,
    ) -> Result<PhaseText, Error> {
        let row = phase.once.as_ref().map(|sweep| self.points.once(used, sweep)).transpose()?;
        let points = phase.points.as_ref();
        let points = points.map(|sweep| self.points.text(used, sweep, (&phase.accumulations, sums))).transpose()?;
        let mut totals = Vec::new();
        let RowsKernel { rows, cluster, elements, .. } = *self.kernel;
        let at_once = self.kernel.rows_at_once();
        let [warps, blocks] = [self.kernel.warp_pitch() * rows * at_once, cluster * at_once].map(i64::from);
        let all_warps = warps * self.kernel.accumulations().count() as i64;
        for (number, accumulation) in phase.accumulations.iter().enumerate() {
            let place = (before + number) as i64;
            let combine = names::combine_function(accumulation.combine);
            used.add(combine);
            totals.push(TotalText {
                name: accumulator(number),
                identity: names::combine_identity(accumulation.combine),
                combine,
                place: place * warps,
                met: all_warps + place * blocks,
                variable: names::pointer(self.points.graph, accumulation.target),
                finished: finished(accumulation, elements),
            });
        }
        Ok(PhaseText { row, points, totals })
    }
}

impl PhaseText {
    /// What the phase adds up.
    pub(super) fn totals(&self) -> &[TotalText] {
        &self.totals
    }
}
