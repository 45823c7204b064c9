//! `fusewright explain`: how a graph is cut, which engine takes it and why, how its configs rank, what is launched, what it
//! costs at least. As text, as a page, or the CUDA source alone.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use fusewright::build::Build;
use fusewright::codegen::Source;
use fusewright::device::Device;
use fusewright::engine::{EngineConfig, HeuristicMode, Knob, RankedConfig};
use fusewright::graph::FinalizedGraph;
use fusewright::kernel::{Launch, Parameter};
use fusewright::tuning::TuningEntry;

use super::arguments::ExplainOptions;
use super::console::{Console, Style, Verbosity};
use super::explanation::{Explanation, KernelExplanation};
use super::files::{self, Documents, LoadedGraph};
use super::outcome::{Outcome, Result};
use super::page::{Entry, explanation_page};
use super::tensor_file::ResultFile;
use super::{plain, units};

/// Configs that are listed unless more is asked for.
const FEW: usize = 5;

pub(super) fn run(options: &ExplainOptions, console: &mut Console) -> Result<()> {
    let device = Device::typical(options.capability);
    if let Some(path) = &options.html {
        return write_page(options, path, &device, console);
    }
    let paths = std::slice::from_ref(&options.file);
    files::for_each(paths, options.graph.as_ref(), console, |loaded, console| match options.source {
        true => print_source(loaded, &device, options.mode, console),
        false => print(&loaded.place, Arc::new(loaded.graph), &device, options.mode, console),
    })
}

fn print_source(loaded: LoadedGraph, device: &Device, mode: HeuristicMode, console: &mut Console) -> Result<()> {
    let build = Build::in_mode(&Arc::new(loaded.graph), device, mode);
    let build = build.map_err(|error| files::locate(&loaded.place, error))?;
    Ok(console.text(&build.source.text)?)
}

/// The page of all graphs that are meant, those that are malformed or refused included.
fn write_page(options: &ExplainOptions, path: &Path, device: &Device, console: &mut Console) -> Result<()> {
    let page_file = ResultFile::create(path)?;
    let mut documents = Documents::open(&options.file, options.graph.as_ref())?;
    let mut entries = Vec::new();
    for document in documents.by_ref() {
        let (number, name) = (document.number, document.name.clone());
        let content = match files::load(&options.file, document, console) {
            Ok(LoadedGraph { place, graph, .. }) => {
                let explained = Explanation::of(Arc::new(graph), device, options.mode);
                let explanation = explained.map_err(|error| files::locate(&place, error))?;
                console.note_outcome(if explanation.kernel.is_some() { Outcome::Done } else { Outcome::Refused });
                Ok(explanation)
            }
            Err(error) => {
                console.fail(&error);
                Err(error.to_string())
            }
        };
        entries.push(Entry { number, name, content });
    }
    files::remark(&options.file, &documents, console);
    let title = options.file.file_name().unwrap_or(options.file.as_os_str()).to_string_lossy();
    let on = format!("{} ({})", device.name, device.capability);
    page_file.write(explanation_page(&plain::part(&title), &on, &entries)?.as_bytes())?;
    Ok(console.line(format_args!("{}: {}", plain::path(path), units::plural(entries.len(), "graph")))?)
}

/// The explanation of a graph that was found at a place.
pub(super) fn print(
    place: &str,
    graph: Arc<FinalizedGraph>,
    device: &Device,
    mode: HeuristicMode,
    console: &mut Console,
) -> Result<()> {
    console.line(console.paint(Style::Heading, place))?;
    let explanation = Explanation::of(graph, device, mode).map_err(|error| files::locate(place, error))?;
    stages(&explanation, console)?;
    heading(console, "verdict")?;
    let (verdict, nearest) = (&explanation.verdict, &explanation.nearest);
    verdict.iter().chain(nearest).try_for_each(|line| console.line(format_args!("  {line}")))?;
    engines(&explanation, console)?;
    match &explanation.kernel {
        Some(kernel) => self::kernel(&explanation, kernel, console)?,
        None => console.note_outcome(Outcome::Refused),
    }
    floor(&explanation, console)
}

fn heading(console: &mut Console, text: &str) -> Result<()> {
    Ok(console.line(console.paint(Style::Heading, text))?)
}

/// The graph's tensors and operations in the author's names, each operation with its stage.
fn stages(explanation: &Explanation, console: &mut Console) -> Result<()> {
    let Explanation { graph, names, .. } = explanation;
    heading(console, "stages")?;
    match &explanation.fusion {
        Ok(fusion) if explanation.core_type.is_some() => {
            console.line(format_args!("  pattern {:?}: {}", fusion.pattern(), fusion.pattern().form()))?;
        }
        Ok(_) => console.line("  no matmul or convolution: every operation is in the epilogue, g2")?,
        Err(misfit) => console.line(format_args!("  no pattern: {misfit}"))?,
    }
    for id in graph.tensor_ids().filter(|&id| graph.producer(id).is_none()) {
        console.line(format_args!("        {} = {}", names[id.index()], graph.named_tensor(id, names)))?;
    }
    for id in graph.operation_ids() {
        console.line(format_args!("  {:<5} {}", explanation.stage(id), graph.named_operation(id, names)))?;
    }
    Ok(())
}

/// The engines asked with their answers, and those that were not asked.
fn engines(explanation: &Explanation, console: &mut Console) -> Result<()> {
    heading(console, "engines")?;
    let passed_over = &explanation.passed_over;
    passed_over.iter().try_for_each(|reason| console.line(format_args!("  passed over {reason}")))?;
    let Some(kernel) = &explanation.kernel else { return Ok(console.line("  none takes the graph")?) };
    console.line(format_args!("  chosen {}: {}", kernel.chosen.name(), kernel.chosen.summary()))?;
    if !kernel.not_asked.is_empty() {
        let names = kernel.not_asked.join(", ");
        console.line(format_args!("  not asked, because the first engine that takes a graph runs it: {names}"))?;
    }
    if let Some(fallback) = kernel.fallback {
        console.line(format_args!("  fallback {}: {}", fallback.name(), fallback.summary()))?;
    }
    Ok(())
}

/// The mode's configs, why the first is first, those found by tuning, and what the first launches.
fn kernel(explanation: &Explanation, kernel: &KernelExplanation, console: &mut Console) -> Result<()> {
    configs(kernel, console)?;
    heading(console, "why the first config")?;
    for sentence in kernel.why(explanation.distance(kernel.first())) {
        console.line(format_args!("  {sentence}"))?;
    }
    knobs(kernel, console)?;
    for TuningEntry { key, config, median_ms } in &kernel.tuned {
        let (device, config) = (key.device().escape_debug(), config.escape_debug());
        console.line(format_args!("tuned on {device}: {config}, {}", units::seconds(median_ms * 1e-3)))?;
    }
    launches(&kernel.build.source, &kernel.build.config, console)
}

fn configs(kernel: &KernelExplanation, console: &mut Console) -> Result<()> {
    let text = format!("configs of mode {}, best first, with the time that the engine's model expects", kernel.mode);
    heading(console, &text)?;
    let shown = if console.verbosity() >= Verbosity::Verbose { kernel.ranking.len() } else { FEW };
    for RankedConfig { config, through_workspace, estimated_us, .. } in kernel.ranking.iter().take(shown) {
        console.line(format_args!("  {:>7}  {config}", units::seconds(estimated_us * 1e-6)))?;
        if let Some(why) = through_workspace {
            console.line(format_args!("           epilogue in launches of its own, through the workspace: {why}"))?;
        }
    }
    if let Some(more) = kernel.ranking.len().checked_sub(shown).filter(|more| *more > 0) {
        console.line(format_args!("  and {more} more, listed with --verbose"))?;
    }
    Ok(())
}

/// Each knob with the values that it takes, and what it is.
fn knobs(kernel: &KernelExplanation, console: &mut Console) -> Result<()> {
    heading(console, "knobs")?;
    let values = |(knob, values): (Knob, BTreeSet<u32>)| {
        let values: Vec<String> = values.into_iter().map(|value| knob.value_text(value)).collect();
        (knob, values.join(", "))
    };
    let rows: Vec<_> = kernel.knobs().into_iter().map(values).collect();
    let name_width = rows.iter().map(|(knob, _)| knob.name().len()).max().unwrap_or(0);
    let width = rows.iter().map(|(_, values)| values.len()).max().unwrap_or(0);
    for (knob, values) in rows {
        let (name, summary) = (knob.name(), knob.summary());
        console.line(format_args!("  {name:<name_width$}  {values:<width$}  {summary}"))?;
    }
    Ok(())
}

fn launches(source: &Source, config: &EngineConfig, console: &mut Console) -> Result<()> {
    heading(console, &format!("launches with {config}"))?;
    let mut seen: Vec<&str> = Vec::new();
    let (once, again): (Vec<&Launch>, Vec<&Launch>) = source.launches.iter().partition(|launch| {
        let is_new = !seen.contains(&&*launch.function);
        seen.push(&launch.function);
        is_new
    });
    for launch in once {
        let (function, shared) = (&launch.function, units::bytes(launch.shared_bytes.into()));
        let (grid, block) = (units::by(&launch.grid), units::by(&launch.block));
        let clusters = if launch.cluster > 1 { format!(" in clusters of {}", launch.cluster) } else { String::new() };
        console.line(format_args!("  {function}  grid {grid}{clusters}, block {block}, {shared} of shared memory"))?;
        let is_told = |parameter: &&Parameter| matches!(parameter, Parameter::Int(_) | Parameter::Long(_));
        let told = launch.parameters.iter().filter(is_told).count();
        if told > 0 {
            let numbers = units::plural(told, "number");
            console.line(format_args!(
                "    {numbers} of the shape as parameters: others share the binary where the text is equal"
            ))?;
        }
    }
    let repeated: BTreeSet<&str> = again.iter().map(|launch| &*launch.function).collect();
    if !again.is_empty() {
        let (names, times) = (repeated.iter().copied().collect::<Vec<_>>().join(" and "), again.len() / repeated.len());
        console.line(format_args!("  {names} again, {times} times, in turn, each from another head on"))?;
    }
    console.line(format_args!("  workspace {}", units::bytes(source.workspace_bytes)))?;
    Ok(())
}

/// The least any implementation moves and computes, and the time a typical chip needs for it.
fn floor(explanation: &Explanation, console: &mut Console) -> Result<()> {
    let Explanation { floor, device, core_type, .. } = explanation;
    heading(console, "floor")?;
    console.line(format_args!("  {} bytes ({}) moved", floor.bytes, units::bytes(floor.bytes)))?;
    if core_type.is_some() {
        console.line(format_args!("  {} FLOP ({})", floor.flops, units::count(floor.flops as f64, "FLOP")))?;
    }
    let seconds = units::seconds(explanation.floor_seconds());
    let bandwidth = units::count(device.bytes_per_second, "B/s");
    console.line(format_args!("  {seconds} on {} ({}, {bandwidth})", device.name, device.capability))?;
    Ok(())
}
