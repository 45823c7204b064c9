//! `fusewright explain`: how a graph is cut, which engine takes it and why, what is launched, what it costs at least.

use std::sync::Arc;

use fusewright::codegen::Source;
use fusewright::device::Device;
use fusewright::engine::{ENGINES, Engine, EngineConfig, Floor, core_type};
use fusewright::fusion::{Fusion, fuse};
use fusewright::graph::FinalizedGraph;
use fusewright::support::SurfaceId;

use super::arguments::ExplainOptions;
use super::build::{self, Decision};
use super::console::{Console, Style};
use super::files::{self, LoadedGraph};
use super::outcome::{Outcome, Result};
use super::units;

pub(super) fn run(options: &ExplainOptions, console: &mut Console) -> Result<()> {
    let device = Device::typical(options.capability);
    let paths = std::slice::from_ref(&options.file);
    files::for_each(paths, options.graph.as_ref(), console, |loaded, console| match options.source {
        true => print_source(loaded, &device, console),
        false => explain(loaded, &device, console),
    })
}

fn print_source(loaded: LoadedGraph, device: &Device, console: &mut Console) -> Result<()> {
    let build = build::generate(&Arc::new(loaded.graph), device).map_err(|error| files::locate(&loaded.place, error))?;
    Ok(console.text(&build.source.text)?)
}

fn explain(loaded: LoadedGraph, device: &Device, console: &mut Console) -> Result<()> {
    let graph = Arc::new(loaded.graph);
    let decision = build::decide(&graph, device.capability, &SurfaceId::ALL);
    console.line(console.paint(Style::Heading, &loaded.place))?;
    stages(&graph, console)?;
    heading(console, "verdict")?;
    indented(&decision.report.to_string(), console)?;
    if decision.report.supported.is_some() {
        engines(&decision, device, console)?;
    }
    floor(&graph, device, console)?;
    if decision.engine().is_none() {
        console.note_outcome(Outcome::Refused);
    }
    Ok(())
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

/// Which engine takes the graph, why the others do not, its configs, and what the first one launches.
fn engines(decision: &Decision, device: &Device, console: &mut Console) -> Result<()> {
    heading(console, "engines")?;
    let Some(supported) = &decision.report.supported else { return Ok(()) };
    let fusion = supported.fusion();
    let chosen = decision.engine();
    for engine in ENGINES {
        let why = match engine.accepts(fusion, device.capability) {
            Ok(()) if chosen.is_some_and(|chosen| chosen.name() == engine.name()) => "chosen".to_owned(),
            Ok(()) => "takes it, too, but comes later".to_owned(),
            Err(reason) => format!("does not take it: {reason}"),
        };
        console.line(format_args!("  {} ({}): {why}", engine.name(), engine.summary()))?;
    }
    match chosen {
        Some(engine) => kernel(engine, fusion, device, console),
        None => Ok(()),
    }
}

fn kernel(engine: &dyn Engine, fusion: &Fusion, device: &Device, console: &mut Console) -> Result<()> {
    let candidates = engine.candidates(fusion, device);
    heading(console, "configs, best first")?;
    candidates.iter().try_for_each(|config| console.line(format_args!("  {config}")))?;
    let Some(config) = candidates.into_iter().next() else { return Ok(()) };
    launches(&build::render(engine, fusion, EngineConfig::clone(&config), device)?.source, &config, console)
}

fn launches(source: &Source, config: &EngineConfig, console: &mut Console) -> Result<()> {
    heading(console, &format!("launches with {config}"))?;
    console.text(&build::launch_lines(source))?;
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
