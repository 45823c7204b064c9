//! Record of the skeleton for channels.

use std::collections::BTreeMap;

use serde::Serialize;

use super::index::{as_index, index_type};
use super::names;
use super::phases::{KeptText, PointSpelling, PointText};
use super::reduction::{accumulator, finished};
use super::rows::group;
use super::sections::Used;
use crate::error::Error;
use crate::graph::{DataType, FinalizedGraph, TensorId};
use crate::kernel::{Access, Accumulation, ChannelsKernel, Phase, Sweep};

/// Threads of a multiprocessor that registers shall leave room for, and where a phase has several totals: gradients have 72 to 90 registers
/// (`docs/performance-notes.md`, "Channels in one launch").
const RESIDENT_THREADS: u32 = 1024;
const RESIDENT_THREADS_OF_SEVERAL_TOTALS: u32 = 768;

/// What `sweep/channels.cu` reads beside the function's name and parameters.
#[derive(Serialize)]
pub(super) struct ChannelsText {
    threads: u32,
    /// Blocks of a multiprocessor that the registers shall leave room for.
    resident: u32,
    index: &'static str,
    /// Blocks that share reduced points.
    cluster: u32,
    columns: u32,
    rows: u32,
    warps: u32,
    /// The vector of channels of a column of threads, and the channel that a thread evaluates alone.
    kept: String,
    channel: String,
    vector: i64,
    /// Channels of a block, and sets; a thread's totals; channels of a group, and columns of threads.
    channels: u32,
    sets: u32,
    width: i64,
    of_group: i64,
    of_group_columns: i64,
    /// Coordinates of a channel, and where the tensors lie that have an element for each.
    of_channel: Vec<String>,
    operands: Vec<String>,
    /// The set of the channel that a thread evaluates alone, and the condition under which it stores what is of the set.
    set: String,
    writes: Option<String>,
    /// Reduced points, those of a thread, and the distance of these.
    count: i64,
    each: i64,
    span: u32,
    /// Whether the last of them may be none.
    is_short: bool,
    /// Bytes of shared memory before the points, bytes of a vector of these, its coordinates, and where it lies.
    points_at: u32,
    vector_bytes: u32,
    of_kept: Vec<String>,
    of_reduced: Vec<String>,
    ahead: Vec<String>,
    ahead_count: usize,
    /// Variables of all totals of a channel.
    totals: Vec<String>,
    phases: Vec<PhaseText>,
}

/// What is done before the next totals are known.
#[derive(Serialize)]
struct PhaseText {
    /// The totals of the phase before.
    before: Vec<WholeText>,
    /// Done for each channel.
    once: Option<KeptText>,
    /// Values that are the same wherever a thread steps, and how they are evaluated.
    held: Vec<HeldText>,
    hold: Option<KeptText>,
    points: Option<PointText>,
    totals: Vec<TotalText>,
}

/// One value that is the same wherever a thread steps.
#[derive(Serialize)]
struct HeldText {
    /// A thread's vector of it.
    vector: String,
    /// Floats before it in shared memory.
    place: u32,
}

/// One reduction of a phase.
#[derive(Serialize)]
struct TotalText {
    /// A thread's part.
    name: String,
    identity: String,
    combine: &'static str,
    /// Floats of shared memory before those of the warps, and before those of the blocks.
    place: u32,
    met: u32,
}

/// One total, from what the blocks have.
#[derive(Serialize)]
struct WholeText {
    combine: &'static str,
    /// Floats of shared memory before those of the blocks, and before the totals.
    met: u32,
    whole: u32,
    /// The variable of a channel, what it is given, and a thread's vector of it.
    variable: String,
    finished: String,
    vector: String,
}

pub(super) fn channels(
    graph: &FinalizedGraph,
    used: &mut Used,
    kernel: &ChannelsKernel,
) -> Result<ChannelsText, Error> {
    ["FW_SHARED", "fw_vector", "fw_cp_async"].into_iter().for_each(|section| used.add(section));
    if kernel.of_group == 1 {
        used.add("fw_lanes_total");
    }
    if kernel.cluster > 1 {
        used.add("fw_cluster");
    }
    let is_wide = kernel.sweeps().any(|sweep| sweep.wide_index);
    let block = as_index(is_wide, &group(kernel.cluster));
    let spelling = Spelling::new(graph, kernel);
    let sweep = kernel.phases.iter().find_map(|phase| phase.points.as_ref());
    let addresses = sweep.map(|sweep| spelling.points.addresses(sweep, &kernel.ahead));
    let ([of_kept, of_reduced], ahead) = addresses.unwrap_or_default();
    let (of_channel, operands) = spelling.operands(used);
    let threads = kernel.threads();
    Ok(ChannelsText {
        threads,
        resident: (resident_threads(kernel) / threads).max(1),
        index: index_type(is_wide),
        cluster: kernel.cluster,
        columns: kernel.columns,
        rows: kernel.rows,
        warps: threads / 32,
        kept: format!("{block} * {} + threadIdx.x", kernel.columns),
        channel: format!("{block} * {} + thread", kernel.channels()),
        vector: kernel.vector,
        channels: kernel.channels(),
        sets: kernel.sets(),
        width: if kernel.of_group == 1 { kernel.vector } else { 1 },
        of_group: kernel.of_group,
        of_group_columns: kernel.of_group / kernel.vector,
        of_channel,
        operands,
        set: set(kernel),
        writes: writes(kernel),
        count: kernel.count,
        each: kernel.each(),
        span: kernel.span(),
        is_short: kernel.each() * i64::from(kernel.span()) != kernel.count,
        points_at: kernel.points_at(),
        vector_bytes: kernel.vector_bytes,
        of_kept,
        of_reduced,
        ahead_count: ahead.len(),
        ahead,
        totals: kernel.accumulations().map(|total| variable(graph, total.target)).collect(),
        phases: spelling.phases(used)?,
    })
}

/// The set of a block to which its channel `thread` belongs.
fn set(kernel: &ChannelsKernel) -> String {
    if kernel.of_group == 1 { "thread".to_owned() } else { format!("thread / {}", kernel.of_group) }
}

/// One channel of a set, and one block of a cluster, stores what is of the set.
fn writes(kernel: &ChannelsKernel) -> Option<String> {
    let of_blocks = (kernel.cluster > 1).then(|| "rank == 0".to_owned());
    let of_channels = (kernel.of_group > 1).then(|| format!("thread % {} == 0", kernel.of_group));
    let conditions: Vec<String> = of_blocks.into_iter().chain(of_channels).collect();
    (!conditions.is_empty()).then(|| conditions.join(" && "))
}

fn resident_threads(kernel: &ChannelsKernel) -> u32 {
    if Phase::have_several_totals(&kernel.phases) { RESIDENT_THREADS_OF_SEVERAL_TOTALS } else { RESIDENT_THREADS }
}

/// The variable of a total.
fn variable(graph: &FinalizedGraph, id: TensorId) -> String {
    format!("total_{}", graph.canonical_name(id))
}

/// A thread's vector of a total, or of a value that it holds.
fn vector(graph: &FinalizedGraph, id: TensorId) -> String {
    format!("each_{}", graph.canonical_name(id))
}

/// How points and channels are spelled.
struct Spelling<'a> {
    graph: &'a FinalizedGraph,
    kernel: &'a ChannelsKernel,
    points: PointSpelling<'a>,
    channels: PointSpelling<'a>,
}

impl<'a> Spelling<'a> {
    fn new(graph: &'a FinalizedGraph, kernel: &'a ChannelsKernel) -> Self {
        let vectors = kernel.ahead.iter().enumerate().map(|(number, &id)| {
            let storage = names::storage_type(graph.tensor(id).data_type);
            (id, format!("reinterpret_cast<const {storage}*>(place({number}, g))"))
        });
        let totals = Phase::totals(&kernel.phases);
        // a vector is of one group
        let at = if kernel.of_group == 1 { "e" } else { "0" };
        let of_points = totals.iter().map(|&id| (id, format!("{}[{at}]", vector(graph, id))));
        let of_channels = totals.iter().map(|&id| (id, variable(graph, id)));
        let spelling = |kept, at, reads_from| PointSpelling { graph, kept, at, reads_from };
        let points = spelling("kept", at, vectors.chain(of_points).collect());
        let channels = spelling("channel", "0", of_channels.collect());
        Self { graph, kernel, points, channels }
    }

    /// Coordinates of a channel, and where the tensors in memory lie that are read once for each.
    fn operands(&self, used: &mut Used) -> (Vec<String>, Vec<String>) {
        let once = self.kernel.phases.iter().flat_map(Phase::of_kept);
        let totals = Phase::totals(&self.kernel.phases);
        let in_memory = once.flat_map(|sweep| {
            let has_elements = |id: &TensorId| self.graph.tensor(*id).data_type != DataType::Boolean;
            let is_in_memory = |id: &TensorId| sweep.access[id] != Access::Parameter && !totals.contains(id);
            sweep.program.loads().filter(is_in_memory).filter(has_elements).map(move |id| (id, sweep))
        });
        let operands: BTreeMap<TensorId, &Sweep> = in_memory.collect();
        let Some(sweep) = operands.values().next() else { return Default::default() };
        used.add("fw_prefetch");
        let tensors: Vec<TensorId> = operands.keys().copied().collect();
        let ([of_channel, _], addresses) = self.channels.addresses(sweep, &tensors);
        (of_channel, addresses)
    }

    fn phases(&self, used: &mut Used) -> Result<Vec<PhaseText>, Error> {
        let (mut phases, mut number) = (Vec::new(), 0);
        let mut before: &[Accumulation] = &[];
        for phase in &self.kernel.phases {
            let whole = before.iter().enumerate();
            let first = number - before.len();
            let whole = whole.map(|(of_phase, total)| self.whole(first + of_phase, total)).collect();
            phases.push(self.phase(used, phase, (whole, number))?);
            number += phase.accumulations.len();
            before = &phase.accumulations;
        }
        Ok(phases)
    }

    /// A phase behind so many totals, and those of the phase before.
    fn phase(
        &self,
        used: &mut Used,
        phase: &Phase,
        (before, number): (Vec<WholeText>, usize),
    ) -> Result<PhaseText, Error> {
        let place = |number: usize| self.kernel.held_at() + number as u32 * self.kernel.channels();
        let once = phase.once.as_ref().map(|sweep| self.channels.once(used, sweep)).transpose()?;
        let stored = |number| format!("shared[{} + thread]", place(number));
        let hold = phase.held.as_ref().map(|held| self.channels.holding(used, held, stored)).transpose()?;
        let values = phase.held.as_ref().map_or(&[][..], |held| &held.values);
        let reads_held = values.iter().map(|&id| (id, format!("{}[e]", vector(self.graph, id))));
        let reads_from = self.points.reads_from.iter().cloned().chain(reads_held).collect();
        let with_held = PointSpelling { reads_from, ..self.points };
        let points = phase.points.as_ref();
        let points = points.map(|sweep| with_held.text(used, sweep, (&phase.accumulations, &[]))).transpose()?;
        let held = values.iter().enumerate();
        let held = held.map(|(number, &id)| HeldText { vector: vector(self.graph, id), place: place(number) });
        let totals = phase.accumulations.iter().enumerate();
        let totals = totals.map(|(of_phase, total)| self.total(used, (number + of_phase, of_phase), total));
        Ok(PhaseText { before, once, held: held.collect(), hold, points, totals: totals.collect() })
    }

    /// Floats of shared memory before what the warps have of total `number`, what the blocks have, and the total.
    fn places(&self, number: usize) -> [u32; 3] {
        let place = number as u32 * self.kernel.total_floats();
        let met = place + self.kernel.part_floats();
        [place, met, met + self.kernel.sets() * self.kernel.cluster]
    }

    /// Total `number` of all, `of_phase` of its phase.
    fn total(&self, used: &mut Used, (number, of_phase): (usize, usize), accumulation: &Accumulation) -> TotalText {
        let combine = names::combine_function(accumulation.combine);
        used.add(combine);
        let [place, met, _] = self.places(number);
        let identity = names::combine_identity(accumulation.combine);
        TotalText { name: accumulator(of_phase), identity, combine, place, met }
    }

    fn whole(&self, number: usize, accumulation: &Accumulation) -> WholeText {
        let [_, met, whole] = self.places(number);
        WholeText {
            combine: names::combine_function(accumulation.combine),
            met,
            whole,
            variable: variable(self.graph, accumulation.target),
            finished: finished(accumulation, self.kernel.elements()),
            vector: vector(self.graph, accumulation.target),
        }
    }
}
