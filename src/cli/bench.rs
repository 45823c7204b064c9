//! `fusewright bench`: what graphs cost on a GPU.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use fusewright::build::Build;
use fusewright::compile::{Bundle, Cache, Compiler, Options};
use fusewright::device::Device;
use fusewright::engine::{self, EngineConfig, Floor, HeuristicMode, Heuristics, RankedConfig, Selection, core_type};
use fusewright::error::Error;
use fusewright::graph::FinalizedGraph;
use fusewright::harness::DeviceTensors;
use fusewright::plan::{DeviceContext, Driver, ExecutionPlan};
use fusewright::reference::{Distribution, random_inputs};
use fusewright::tuning::{Timing, TuningStore, autotune, copy_bandwidth, time};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::arguments::{BenchOptions, CandidateCount};
use super::console::{Console, Style};
use super::files::{self, LoadedGraph};
use super::outcome::Result;
use super::page::{Case, Peers, bench_page};
use super::tensor_file::ResultFile;
use super::{plain, units};

/// One entry of the list that `--json` writes.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Measurement {
    /// Stem of the file; with the graph's name where the file holds several.
    case: String,
    /// Median time of one execution with a cold L2.
    median_ms: f64,
    /// From the finalized graph to a loaded plan, without any cache.
    build_ms: f64,
    /// Median time that one execution keeps the host.
    host_us_per_execute: f64,
    /// The same of an execution that is launched as a CUDA graph.
    host_us_per_graph_launch: f64,
    engine: String,
    config: String,
    /// Time of the floor at the bandwidth measured in this run, over the median.
    fraction_of_floor: f64,
}

/// A GPU under measurement.
struct Bench {
    context: DeviceContext,
    /// The device, with the bandwidth measured now.
    device: Device,
    compiler: Compiler,
    /// Lists the configs.
    mode: HeuristicMode,
    /// Configs to time against each other, where that is asked for.
    autotune: Option<CandidateCount>,
}

pub(super) fn run(options: &BenchOptions, console: &mut Console) -> Result<()> {
    check_cases(&options.files)?;
    let result_file = options.json.as_deref().map(ResultFile::create).transpose()?;
    let page = options.html.as_deref().map(|path| Page::open(path, options.peers.as_deref())).transpose()?;
    let (title, measurements) = match &options.from {
        Some(path) => (plain::path(path), read_json(path)?),
        None => measure(options, console)?,
    };
    if let Some(file) = result_file {
        file.write(&serde_json::to_vec_pretty(&measurements).map_err(std::io::Error::from)?)?;
    }
    page.map_or(Ok(()), |page| page.write(&title, &measurements, console))
}

/// A page to be written, with what others take for the cases.
struct Page<'a> {
    path: &'a Path,
    file: ResultFile,
    peers: Option<Peers>,
}

impl<'a> Page<'a> {
    fn open(path: &'a Path, peers: Option<&Path>) -> std::result::Result<Self, Error> {
        Ok(Self { path, file: ResultFile::create(path)?, peers: peers.map(read_json).transpose()? })
    }

    fn write(self, title: &str, measurements: &[Measurement], console: &mut Console) -> Result<()> {
        let cases: Vec<Case> = measurements.iter().map(Measurement::case).collect();
        self.file.write(bench_page(title, &cases, self.peers.as_ref())?.as_bytes())?;
        Ok(console.line(format_args!("{}: {}", plain::path(self.path), units::plural(cases.len(), "case")))?)
    }
}

/// A value from a JSON file.
///
/// # Errors
/// [`Error::Input`] naming the file: it cannot be read, or holds something else.
fn read_json<T: DeserializeOwned>(path: &Path) -> std::result::Result<T, Error> {
    let refuse = |why: &dyn std::fmt::Display| Error::input(plain::path(path), format!("cannot be read: {why}"));
    let text = std::fs::read(path).map_err(|error| refuse(&error))?;
    serde_json::from_slice(&text).map_err(|error| refuse(&error))
}

/// Measures all graphs and prints a row for each; gives what was measured on.
fn measure(options: &BenchOptions, console: &mut Console) -> Result<(String, Vec<Measurement>)> {
    let bench = Bench::open(options)?;
    let bandwidth = units::count(bench.device.bytes_per_second, "B/s");
    console.line(format_args!("{} ({}), device copy {bandwidth}", bench.device.name, bench.device.capability))?;
    console.line(format_args!(
        "{:<40} {:>10} {:>9} {:>8} {:>8} {:>7}  engine config",
        "case", "median ms", "build ms", "host µs", "graph µs", "floor"
    ))?;
    let mut measurements: Vec<Measurement> = Vec::new();
    let progress = console.bar(options.files.len());
    for path in &options.files {
        progress.set_message(plain::path(path));
        let mut graphs = Vec::new();
        files::for_each(std::slice::from_ref(path), options.graph.as_ref(), console, |loaded, _| {
            graphs.push(loaded);
            Ok(())
        })?;
        let is_alone = graphs.len() == 1;
        for LoadedGraph { name, place, graph } in graphs {
            let case = if is_alone { stem(path) } else { format!("{}/{name}", stem(path)) };
            let measured = bench.measure(case, &Arc::new(graph)).map_err(|error| files::locate(&place, error));
            let done = progress.suspend(|| print(measured, &mut measurements, console));
            console.survive(done)?;
        }
        progress.inc(1);
    }
    progress.finish_and_clear();
    Ok((format!("{} ({})", bench.device.name, bench.device.capability), measurements))
}

/// Prints a row at once, and keeps it.
fn print(
    measured: std::result::Result<Measurement, Error>,
    measurements: &mut Vec<Measurement>,
    console: &mut Console,
) -> Result<()> {
    let measurement = measured?;
    console.line(measurement.row(console))?;
    console.flush()?;
    measurements.push(measurement);
    Ok(())
}

/// Cases are told apart by the stems of their files.
fn check_cases(paths: &[PathBuf]) -> std::result::Result<(), Error> {
    let mut stems: HashMap<String, &Path> = HashMap::new();
    for path in paths {
        if let Some(other) = stems.insert(stem(path), path) {
            let message = format!("has the stem of {}, by which the results are named", plain::path(other));
            return Err(Error::input(plain::path(path), message));
        }
    }
    Ok(())
}

fn stem(path: &Path) -> String {
    path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

impl Bench {
    fn open(options: &BenchOptions) -> std::result::Result<Self, Error> {
        let context = Driver::load()?.open(options.device)?;
        let device = Device { bytes_per_second: copy_bandwidth(&context)? * 1e9, ..context.device().clone() };
        // No cache but bundles: building is measured, too. The library is loaded before the first measurement.
        let bundles = Bundle::of_environment().to_vec();
        let compiler = Compiler::new(Cache::memory_only().with_bundles(bundles), Options::default());
        compiler.require(device.capability)?;
        Ok(Self { context, device, compiler, mode: options.mode, autotune: options.autotune })
    }

    fn measure(&self, case: String, graph: &Arc<FinalizedGraph>) -> std::result::Result<Measurement, Error> {
        let Heuristics { selection, mut configs } = engine::heuristics(graph, &self.device, self.mode)?;
        let inputs = random_inputs(graph, 0, Distribution::Normal)?;
        let mut tensors = DeviceTensors::allocate(&self.context, graph, &inputs)?;
        let config = match self.autotune {
            Some(CandidateCount(count)) => {
                configs.truncate(count);
                self.fastest(&selection, &configs, &mut tensors)?
            }
            None => configs.swap_remove(0).config,
        };
        self.measure_config(case, &selection, config, &mut tensors)
    }

    /// The fastest of these configs, which is stored for later runs.
    fn fastest(
        &self,
        selection: &Selection,
        candidates: &[RankedConfig],
        tensors: &mut DeviceTensors,
    ) -> std::result::Result<EngineConfig, Error> {
        // Its own, so that building the fastest is measured without any cache.
        let compiler = Compiler::new(Cache::memory_only(), Options::default());
        let winner = autotune(&self.context, &compiler, selection, candidates, tensors)?.swap_remove(0);
        if let Err(error) = TuningStore::from_environment().put(selection, self.context.device(), &winner) {
            tracing::warn!("{error}");
        }
        Ok(winner.ranked.config)
    }

    fn measure_config(
        &self,
        case: String,
        selection: &Selection,
        config: EngineConfig,
        tensors: &mut DeviceTensors,
    ) -> std::result::Result<Measurement, Error> {
        let graph = selection.supported().graph();
        let start = Instant::now();
        let build = Build::new(selection, config, &self.device)?;
        let compiled = build.compile(&self.compiler)?;
        // SAFETY: the source was rendered from a config of the graph, and the cubin compiled from it.
        let plan = unsafe { ExecutionPlan::build(&self.context, graph, &build.source, &compiled.cubin) }?;
        let build_ms = start.elapsed().as_secs_f64() * 1e3;
        tensors.reserve(&plan)?;
        let Timing { median_ms, host_us_per_execute, host_us_per_graph_launch, .. } = time(&plan, tensors)?;
        let floor_ms = Floor::of(graph).seconds(&self.device, core_type(graph)) * 1e3;
        Ok(Measurement {
            case,
            median_ms,
            build_ms,
            host_us_per_execute,
            host_us_per_graph_launch,
            engine: build.config.engine.to_owned(),
            config: build.config.to_string(),
            fraction_of_floor: floor_ms / median_ms,
        })
    }
}

impl Measurement {
    fn case(&self) -> Case {
        Case {
            name: self.case.clone(),
            median_ms: self.median_ms,
            fraction_of_floor: self.fraction_of_floor,
            config: self.config.clone(),
        }
    }

    fn row(&self, console: &Console) -> String {
        let Self { median_ms, build_ms, config, fraction_of_floor, .. } = self;
        let case = plain::part(&self.case);
        let (execute, graph) = (self.host_us_per_execute, self.host_us_per_graph_launch);
        let floor = format!("{:>6.0}%", fraction_of_floor * 100.0);
        let style = if *fraction_of_floor >= 0.85 { Style::Good } else { Style::Refused };
        let floor = console.paint(style, floor);
        format!("{case:<40} {median_ms:>10.4} {build_ms:>9.1} {execute:>8.2} {graph:>8.2} {floor}  {config}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_stems_are_refused() {
        let paths = ["a/x.json", "b/y.json", "b/x.json"].map(PathBuf::from);
        let error = check_cases(&paths).unwrap_err();
        assert!(error.to_string().starts_with("b/x.json: has the stem of a/x.json"), "{error}");
        assert!(check_cases(&paths[..2]).is_ok());
    }
}
