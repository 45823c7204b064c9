//! `fusewright explain`: how a graph is cut, which engine takes it and why, how its configs rank, what is launched, what it
//! costs at least.

use std::sync::Arc;

use fusewright::build::Build;
use fusewright::codegen::Source;
use fusewright::device::Device;
use fusewright::engine::{
    self, ENGINES, EngineConfig, Floor, HeuristicMode, Heuristics, RankedConfig, Selection, core_type, knob_values,
};
use fusewright::fusion::fuse;
use fusewright::graph::FinalizedGraph;
use fusewright::support::SurfaceId;
use fusewright::tuning::{TuningEntry, TuningStore};

use super::arguments::ExplainOptions;
use super::console::{Console, Style};
use super::files::{self, LoadedGraph};
use super::outcome::{Outcome, Result};
use super::units;

pub(super) fn run(options: &ExplainOptions, console: &mut Console) -> Result<()> {
    let device = Device::typical(options.capability);
    let paths = std::slice::from_ref(&options.file);
    files::for_each(paths, options.graph.as_ref(), console, |loaded, console| match options.source {
        true => print_source(loaded, &device, options.mode, console),
        false => explain(loaded, &device, options.mode, console),
    })
}

fn print_source(loaded: LoadedGraph, device: &Device, mode: HeuristicMode, console: &mut Console) -> Result<()> {
    let build = Build::in_mode(&Arc::new(loaded.graph), device, mode);
    let build = build.map_err(|error| files::locate(&loaded.place, error))?;
    Ok(console.text(&build.source.text)?)
}

fn explain(loaded: LoadedGraph, device: &Device, mode: HeuristicMode, console: &mut Console) -> Result<()> {
    let graph = Arc::new(loaded.graph);
    let decision = engine::decide(&graph, device.capability, &SurfaceId::ALL);
    console.line(console.paint(Style::Heading, &loaded.place))?;
    stages(&graph, console)?;
    heading(console, "verdict")?;
    indented(&decision.report.to_string(), console)?;
    heading(console, "engines")?;
    decision.passed_over.iter().try_for_each(|reason| console.line(format_args!("  passed over {reason}")))?;
    match decision.into_selection() {
        Ok(selection) => kernel(selection, device, mode, console)?,
        Err(_) => {
            console.line("  none")?;
            console.note_outcome(Outcome::Refused);
        }
    }
    floor(&graph, device, console)
}

fn heading(console: &mut Console, text: &str) -> Result<()> {
    Ok(console.line(console.paint(Style::Heading, text))?)
}

fn indented(text: &str, console: &mut Console) -> Result<()> {
    text.lines().try_for_each(|line| console.line(format_args!("  {line}")))?;
    Ok(())
}

/// The graph's text with the stage before each operation, then what the names stand for.
fn stages(graph: &Arc<FinalizedGraph>, console: &mut Console) -> Result<()> {
    let fusion = fuse(Arc::clone(graph));
    heading(console, "stages")?;
    match &fusion {
        Ok(fusion) => console.line(format_args!("  pattern {:?}: {}", fusion.pattern(), fusion.pattern().form()))?,
        Err(misfit) => console.line(format_args!("  no pattern: {misfit}"))?,
    }
    let text = graph.text();
    let inputs = text.lines().count() - graph.operations().len();
    for (number, line) in text.lines().enumerate() {
        let id = number.checked_sub(inputs).and_then(|operation| graph.operation_ids().nth(operation));
        let stage = match (&fusion, id) {
            (Ok(fusion), Some(id)) => fusion.stage(id).name(),
            (Err(_), Some(_)) => "?",
            (_, None) => "",
        };
        console.line(format_args!("  {stage:<5} {line}"))?;
    }
    heading(console, "names")?;
    indented(&graph.legend(), console)
}

/// The engine chosen with those after it, the mode's configs, those found by tuning, and what the first one launches.
fn kernel(selection: Selection, device: &Device, mode: HeuristicMode, console: &mut Console) -> Result<()> {
    let chosen = selection.engine();
    console.line(format_args!("  chosen {}: {}", chosen.name(), chosen.summary()))?;
    for later in ENGINES.iter().skip_while(|engine| engine.name() != chosen.name()).skip(1) {
        console.line(format_args!("  not asked {}: it comes later", later.name()))?;
    }
    let Heuristics { selection, configs: mut ranking } = Heuristics::of(selection, device, mode);
    if selection.engine().name() != chosen.name() {
        console.line(format_args!("  fallback {}: {}", selection.engine().name(), selection.engine().summary()))?;
    }
    configs(&ranking, mode, console)?;
    knobs(&ranking, console)?;
    for TuningEntry { key, config, median_ms } in stored(&selection) {
        let (device, config) = (key.device().escape_debug(), config.escape_debug());
        console.line(format_args!("tuned on {device}: {config}, {}", units::seconds(median_ms * 1e-3)))?;
    }
    let build = Build::new(&selection, ranking.swap_remove(0).config, device)?;
    launches(&build.source, &build.config, console)
}

fn configs(ranking: &[RankedConfig], mode: HeuristicMode, console: &mut Console) -> Result<()> {
    let text = format!("configs of mode {mode}, best first, with the time that the engine's model expects");
    heading(console, &text)?;
    for RankedConfig { config, through_workspace, estimated_us, .. } in ranking {
        console.line(format_args!("  {:>7}  {config}", units::seconds(estimated_us * 1e-6)))?;
        if let Some(why) = through_workspace {
            console.line(format_args!("           epilogue in launches of its own, through the workspace: {why}"))?;
        }
    }
    Ok(())
}

/// Each knob with its type and the values that it takes.
fn knobs(ranking: &[RankedConfig], console: &mut Console) -> Result<()> {
    heading(console, "knobs")?;
    for (knob, values) in knob_values(ranking) {
        let values: Vec<String> = values.into_iter().map(|value| knob.value_text(value)).collect();
        let (name, knob_type) = (knob.name(), knob.knob_type().name());
        console.line(format_args!("  {name:<9}  {knob_type:<6}  {}", values.join(", ")))?;
    }
    Ok(())
}

/// What was found by tuning the graph on devices of the chip asked about; nothing where the cache cannot be read.
fn stored(selection: &Selection) -> Vec<TuningEntry> {
    let (supported, engine) = (selection.supported(), selection.engine().name());
    let stored = TuningStore::from_environment().entries().unwrap_or_default();
    let entries = stored.into_iter().filter_map(|stored| stored.content.ok());
    let is_asked = |entry: &TuningEntry| entry.key.is_of(supported.graph().key(), engine, supported.capability());
    entries.filter(is_asked).collect()
}

fn launches(source: &Source, config: &EngineConfig, console: &mut Console) -> Result<()> {
    heading(console, &format!("launches with {config}"))?;
    for launch in &source.launches {
        let by = |extents: &[u32]| extents.iter().map(u32::to_string).collect::<Vec<_>>().join("×");
        let (function, shared) = (&launch.function, units::bytes(launch.shared_bytes.into()));
        let (grid, block) = (by(&launch.grid), by(&launch.block));
        console.line(format_args!("  {function}  grid {grid}, block {block}, {shared} of shared memory"))?;
    }
    console.line(format_args!("  workspace {}", units::bytes(source.workspace_bytes)))?;
    Ok(())
}

/// The least any implementation moves and computes, and the time a typical chip needs for it.
fn floor(graph: &FinalizedGraph, device: &Device, console: &mut Console) -> Result<()> {
    let floor = Floor::of(graph);
    heading(console, "floor")?;
    console.line(format_args!("  {} bytes ({}) moved", floor.bytes, units::bytes(floor.bytes)))?;
    console.line(format_args!("  {} FLOP ({})", floor.flops, units::count(floor.flops as f64, "FLOP")))?;
    let seconds = units::seconds(floor.seconds(device, core_type(graph)));
    let bandwidth = units::count(device.bytes_per_second, "B/s");
    console.line(format_args!("  {seconds} on {} ({}, {bandwidth})", device.name, device.capability))?;
    Ok(())
}
