//! `fusewright fuzz`: random graphs, held against what must be true of every graph.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use fusewright::device::ComputeCapability;
use fusewright::error::Error;
use fusewright::frontend;
use fusewright::fuzz::{
    Campaign, CompiledOnly, Emulated, Examination, Failure, Family, OnGpu, Runner, Totals, drawn_inputs, examine,
    graph_bytes,
};
use fusewright::graph::Graph;
use fusewright::support::SurfaceId;

use super::arguments::{DeviceChoice, FuzzOptions};
use super::console::{Console, Style};
use super::files::Documents;
use super::outcome::{Outcome, Result};
use super::tensor_file;

pub(super) fn run(options: &FuzzOptions, console: &mut Console) -> Result<()> {
    let runner = runner(options)?;
    let examination = Examination { computes: options.device.is_some(), runner: runner.as_deref() };
    match &options.replay {
        Some(path) => replay(path, options, &examination, console),
        None => generated(options, examination, console),
    }
}

/// What takes kernels; `None` where there are none, or only the CPU engine computes.
fn runner(options: &FuzzOptions) -> Result<Option<Box<dyn Runner>>> {
    Ok(match options.device {
        _ if options.nvrtc => Some(Box::new(CompiledOnly::open(ComputeCapability::SM_90)?)),
        None | Some(DeviceChoice::Cpu) => None,
        Some(DeviceChoice::Emulator) => Some(Box::new(Emulated::open()?)),
        Some(DeviceChoice::Cuda(ordinal)) => Some(Box::new(OnGpu::open(ordinal)?)),
        Some(DeviceChoice::Auto) => OnGpu::open(0).ok().map(|gpu| Box::new(gpu) as Box<dyn Runner>),
    })
}

fn generated(options: &FuzzOptions, examination: Examination<'_>, console: &mut Console) -> Result<()> {
    let families = if options.families.is_empty() { Family::ALL.to_vec() } else { options.families.clone() };
    let limit = options.minutes.map(|minutes| Duration::try_from_secs_f64(minutes * 60.0));
    let limit = limit.transpose().map_err(|error| Error::input("--minutes", error.to_string()))?;
    let (seed, first, count) = (options.seed, options.first, options.count);
    let campaign = Campaign { families, seed, first, count, limit, examination };
    let bar = console.bar(usize::try_from(count).unwrap_or(usize::MAX));
    let mut reported = Ok(());
    let totals = campaign.run(
        |done| bar.set_position(done),
        |failure| {
            let told = bar.suspend(|| report(&failure, options, console));
            reported = std::mem::replace(&mut reported, Ok(())).and(told);
        },
    );
    bar.finish_and_clear();
    reported?;
    table(&totals, console)?;
    if totals.values().any(|totals| totals.failed > 0) {
        console.note_outcome(Outcome::Refused);
    }
    Ok(())
}

/// Prints a failure, and writes the graph with inputs.
fn report(failure: &Failure, options: &FuzzOptions, console: &mut Console) -> Result<()> {
    let Failure { family, number, finding, graph } = failure;
    let wrong = console.paint(Style::Bad, "wrong");
    console.line(format_args!("{wrong}  {family} graph {number}: {finding}"))?;
    let stem = format!("{family}-{}-{number}", options.seed);
    let path = options.out.join(format!("{stem}.json"));
    write(&path, frontend::write_v2(graph).as_bytes())?;
    let drawn = format!("--seed {} --first {number}{}", options.seed, device_arguments(options));
    console.line(format_args!("       made smaller: fusewright fuzz --replay {} {drawn}", path.display()))?;
    if let Some(inputs) = inputs(graph, &graph_bytes(options.seed, *number)) {
        let path = options.out.join(format!("{stem}.safetensors"));
        write(&path, &inputs)?;
        console.line(format_args!("       inputs: {}", path.display()))?;
    }
    Ok(console.line(format_args!("       as it was: fusewright fuzz --family {family} --count 1 {drawn}"))?)
}

fn device_arguments(options: &FuzzOptions) -> String {
    match options.device {
        _ if options.nvrtc => " --nvrtc".to_owned(),
        None => String::new(),
        Some(DeviceChoice::Auto) => " --device auto".to_owned(),
        Some(DeviceChoice::Cpu) => " --device cpu".to_owned(),
        Some(DeviceChoice::Emulator) => " --device emulator".to_owned(),
        Some(DeviceChoice::Cuda(ordinal)) => format!(" --device cuda:{ordinal}"),
    }
}

/// The inputs drawn for a graph as a file; `None` where it has none, being malformed.
fn inputs(graph: &Graph, bytes: &[u8]) -> Option<Vec<u8>> {
    let graph = graph.finalize().ok()?;
    let inputs = drawn_inputs(&graph, bytes).ok()?;
    tensor_file::serialize_outputs(&graph, &inputs).ok()
}

fn write(path: &Path, content: &[u8]) -> std::result::Result<(), Error> {
    let cannot = |error: std::io::Error| Error::Environment {
        message: format!("{}: cannot be written", path.display()),
        source: Some(Box::new(error)),
    };
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(cannot)?;
    }
    fs::write(path, content).map_err(cannot)
}

fn table(totals: &BTreeMap<Family, Totals>, console: &mut Console) -> Result<()> {
    const HEADER: [&str; 11] = [
        "family",
        "generated",
        "malformed",
        "refused",
        "accepted",
        "on aim",
        "compiled",
        "run",
        "matched",
        "rule named",
        "wrong",
    ];
    console.line(HEADER.map(|title| format!("{title:>10}")).join(" "))?;
    let mut all = Totals::default();
    for (family, totals) in totals {
        all += *totals;
        console.line(row(family.name(), totals))?;
    }
    Ok(console.line(row("all", &all))?)
}

fn row(name: &str, totals: &Totals) -> String {
    let Totals { generated, malformed, refused, accepted, on_aim, compiled, run, matched, broken, failed } = totals;
    let counts = [generated, malformed, refused, accepted, on_aim, compiled, run, matched, broken, failed];
    let counts = counts.map(|count| format!("{count:>10}"));
    format!("{name:>10} {}", counts.join(" "))
}

/// Examines graphs of a file.
fn replay(path: &Path, options: &FuzzOptions, examination: &Examination<'_>, console: &mut Console) -> Result<()> {
    let bytes = graph_bytes(options.seed, options.first);
    for document in Documents::open(path, None)? {
        let graph = match &document.result {
            Ok(graph) => graph,
            Err(error) => {
                console.complain(format_args!("{error}"));
                console.note_outcome(Outcome::BadInput);
                continue;
            }
        };
        let name = document.name.escape_debug();
        match examine(graph, SurfaceId::S90, &bytes, examination) {
            Ok(standing) => {
                console.line(format_args!("{}  '{name}': {standing:?}", console.paint(Style::Good, "right")))?
            }
            Err(finding) => {
                console.line(format_args!("{}  '{name}': {finding}", console.paint(Style::Bad, "wrong")))?;
                console.note_outcome(Outcome::Refused);
            }
        }
    }
    Ok(())
}
