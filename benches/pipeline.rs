//! Times of the pipeline's stages: medians over repeated runs, in one table.
//!
//! ```sh
//! cargo bench --bench pipeline
//! ```
//!
//! Without NVRTC the compile rows are left out, without a GPU those of loaded plans. `FUSEWRIGHT_DATA` names the folder
//! with the graph files where the binary runs away from its sources.
#![allow(clippy::print_stdout, reason = "a benchmark prints its table")]

use std::io::Read;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fusewright::build::Build;
use fusewright::compile::{Cache, Compiler, Options, Request};
use fusewright::device::{ComputeCapability, Device};
use fusewright::engine;
use fusewright::frontend::{self, DocumentReader};
use fusewright::fuzz::{Campaign, Examination, Family};
use fusewright::graph::{DataType, FinalizedGraph, Graph, PointwiseMode, ReductionMode, Tensor};
use fusewright::plan::{Driver, ExecutionPlan};
use fusewright::session::{TensorShape, with_shapes};
use fusewright::support::{SurfaceId, check};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Suite graphs whose kernels are rendered, compiled and loaded.
const KERNELS: [&str; 3] = ["pw_nhwc_bn_apply_f16", "red_nhwc_channel_sum_f16", "mm_bias_relu_f16_4096"];

/// Generated graphs that are checked, lowered and rendered: some seconds' worth.
const GENERATED: u64 = 10_000;

fn main() -> Result<()> {
    check_all()?;
    new_shapes()?;
    generated();
    for name in KERNELS {
        if let Err(error) = kernel(name) {
            println!("{name}: {error}");
        }
    }
    Ok(())
}

fn data() -> PathBuf {
    std::env::var_os("FUSEWRIGHT_DATA")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data"), PathBuf::from)
}

/// Median of some runs.
fn median(runs: usize, mut run: impl FnMut() -> Result<()>) -> Result<Duration> {
    let mut times = Vec::with_capacity(runs);
    for _ in 0..runs {
        let start = Instant::now();
        run()?;
        times.push(start.elapsed());
    }
    times.sort_unstable();
    Ok(times[runs / 2])
}

fn row(what: &str, time: Duration) {
    println!("{what:<64} {:>12.3} ms", time.as_secs_f64() * 1e3);
}

/// What `fusewright fuzz` does with each graph: generate, read back, check, lower, render, twice; all cores.
fn generated() {
    let examination = Examination { computes: false, runner: None };
    let families = Family::ALL.to_vec();
    let campaign = Campaign { families, seed: 0, first: 0, count: GENERATED, limit: None, examination };
    let start = Instant::now();
    campaign.run(|_| (), |failure| println!("{}: {}", failure.number, failure.finding));
    let time = start.elapsed();
    let a_minute = 60.0 * GENERATED as f64 / time.as_secs_f64();
    row(&format!("generate and examine {GENERATED} graphs, {a_minute:.0} a minute"), time);
}

/// Read, finalize and check every verdict graph of one JSONL.
fn check_all() -> Result<()> {
    let mut text = String::new();
    let file = std::fs::File::open(data().join("verdicts.jsonl.gz"))?;
    flate2::read::GzDecoder::new(file).read_to_string(&mut text)?;
    let mut count = 0;
    let time = median(5, || {
        let graphs = DocumentReader::new("verdicts", text.as_bytes()).filter_map(|document| document.result.ok());
        let reports = graphs.filter_map(|graph| graph.finalize().ok()).map(|graph| verdict(&Arc::new(graph)));
        count = reports.count();
        Ok(())
    })?;
    row(&format!("read, finalize and check {count} graphs, one thread"), time);
    for (what, is_legal) in [("legal", true), ("refused by every surface", false)] {
        let graph = Arc::new(ten_operations(is_legal).finalize()?);
        assert_eq!((graph.operations().len(), verdict(&graph)), (10, is_legal));
        let time = median(10_001, || {
            std::hint::black_box(verdict(&graph));
            Ok(())
        })?;
        row(&format!("check one graph of 10 operations, {what}"), time);
    }
    Ok(())
}

/// A matmul with two operations before it and seven after; refused where a bias comes first.
fn ten_operations(is_legal: bool) -> Graph {
    let mut graph = Graph::new()
        .io_data_type(DataType::Half)
        .intermediate_data_type(DataType::Float)
        .compute_data_type(DataType::Float);
    let matrix = |graph: &mut Graph, name: &str, dim: [i64; 3]| graph.tensor(Tensor::new(name).row_major(dim));
    let [a, scale] = [("A", [4, 256, 64]), ("scale", [4, 256, 1])].map(|(name, dim)| matrix(&mut graph, name, dim));
    let [b, bias] = [("B", [4, 64, 128]), ("bias", [4, 1, 128])].map(|(name, dim)| matrix(&mut graph, name, dim));
    let residual = matrix(&mut graph, "residual", [4, 256, 128]);
    let scaled = graph.pointwise("scaled", PointwiseMode::Mul, &[a, scale]);
    let positive = graph.pointwise("positive", PointwiseMode::ReluFwd, &[scaled]);
    graph.tensor_mut(positive).data_type = Some(DataType::Half);
    let c = graph.matmul("mm", positive, b);
    let biased = graph.pointwise("biased", PointwiseMode::Add, &if is_legal { [c, bias] } else { [bias, c] });
    let gelu = graph.pointwise("gelu", PointwiseMode::GeluFwd, &[biased]);
    let gated = graph.pointwise("gated", PointwiseMode::Mul, &[gelu, c]);
    let summed = graph.pointwise("summed", PointwiseMode::Add, &[gated, residual]);
    let squashed = graph.pointwise("squashed", PointwiseMode::TanhFwd, &[summed]);
    let y = graph.pointwise("y", PointwiseMode::Sub, &[squashed, bias]);
    graph.set_output(y).data_type = Some(DataType::Half);
    let r = graph.reduction("sum", ReductionMode::Add, y, [4, 256, 1]);
    graph.set_output(r).data_type = Some(DataType::Float);
    graph
}

/// Rows of the first of the shapes that are planned.
const ROWS: i64 = 1024;

/// What a shape costs that was not planned before, of a layer whose class has a binary in memory: from shapes to what would be loaded.
fn new_shapes() -> Result<()> {
    let layer = Arc::new(layer().finalize()?.with_dynamic_shapes()?);
    let device = Device::typical(ComputeCapability::SM_90);
    let rows = |rows: i64| {
        let of = |uid, width: i64| TensorShape { uid, dim: vec![1, rows, width], stride: vec![rows * width, width, 1] };
        [of(1, 4096), of(4, 14336)]
    };
    let mut times: [Vec<Duration>; 4] = Default::default();
    for number in (ROWS + 1..).step_by(8).take(201) {
        let start = Instant::now();
        let graph = Arc::new(with_shapes(&layer, &rows(number))?);
        let shaped = start.elapsed();
        let selection = engine::select(&graph, device.capability)?;
        let checked = start.elapsed();
        let config = selection.config(&device)?;
        let ranked = start.elapsed();
        Build::new(&selection, config, &device)?;
        let stages = [shaped, checked - shaped, ranked - checked, start.elapsed() - ranked];
        times.iter_mut().zip(stages).for_each(|(times, time)| times.push(time));
    }
    for (stage, mut times) in ["the graph", "check", "rank", "lower and render"].into_iter().zip(times) {
        times.sort_unstable();
        row(&format!("a matmul layer in another shape: {stage}"), times[times.len() / 2]);
    }
    Ok(())
}

/// A matmul of BF16 with a bias and GELU.
fn layer() -> Graph {
    let mut graph = Graph::new()
        .io_data_type(DataType::BFloat16)
        .intermediate_data_type(DataType::Float)
        .compute_data_type(DataType::Float);
    let a = graph.tensor(Tensor::new("A").row_major([1, ROWS, 4096]).uid(1));
    let b = graph.tensor(Tensor::new("B").row_major([1, 4096, 14336]).uid(2));
    let bias = graph.tensor(Tensor::new("bias").row_major([1, 1, 14336]).uid(3));
    let c = graph.matmul("mm", a, b);
    let biased = graph.pointwise("biased", PointwiseMode::Add, &[c, bias]);
    let y = graph.pointwise("gelu", PointwiseMode::GeluApproxTanhFwd, &[biased]);
    graph.set_output(y);
    graph.tensor_mut(y).uid = Some(4);
    graph
}

fn verdict(graph: &Arc<FinalizedGraph>) -> bool {
    check(graph, ComputeCapability::SM_90, &SurfaceId::ALL).supported.is_some()
}

fn suite_graph(name: &str) -> Result<Graph> {
    let bytes = std::fs::read(data().join(format!("suite/{name}.json")))?;
    let document = frontend::read_documents(name, &bytes).documents.remove(0);
    Ok(document.result?)
}

fn build(graph: &Arc<FinalizedGraph>, device: &Device) -> Result<Build> {
    let selection = engine::select(graph, device.capability)?;
    Ok(Build::first(&selection, device)?)
}

/// Render, compile, and take from either cache; with a GPU, load as well.
fn kernel(name: &str) -> Result<()> {
    let graph = Arc::new(suite_graph(name)?.finalize()?);
    let context = Driver::load().ok().and_then(|driver| driver.open(0).ok());
    let device =
        context.as_ref().map_or_else(|| Device::typical(ComputeCapability::SM_90), |context| context.device().clone());
    let built = build(&graph, &device)?;
    row(&format!("{name}: decide, lower, render"), median(101, || build(&graph, &device).map(drop))?);

    let (request, source) = (built.request(), &built.source);
    let cold = Compiler::new(Cache::memory_only(), Options { no_cache: true, ..Options::default() });
    let nvrtc = cold.nvrtc(device.capability)?;
    let options = Options { no_cache: true, ..Options::default() };
    nvrtc.compile(&source.text, device.capability, "warm-up.cu", &options)?;
    let time = median(9, || {
        nvrtc.compile(&source.text, device.capability, "bench.cu", &options)?;
        Ok(())
    })?;
    row(&format!("{name}: NVRTC, cold"), time);

    let folder = tempfile::tempdir()?;
    let filled = Compiler::new(Cache::at(folder.path()), Options::default());
    let compiled = filled.compile(&request)?;
    let time = median(101, || {
        let fresh = Compiler::new(Cache::at(folder.path()), Options::default());
        let cubin = fresh.cache().get_or_compile(&key(&request, &nvrtc), || Err(missing()))?.0;
        if let Some(context) = &context {
            // SAFETY: the source was rendered from a config of the graph, and the cubin compiled from it.
            drop(unsafe { ExecutionPlan::build(context, &graph, source, &cubin) }?);
        }
        Ok(())
    })?;
    let loaded = if context.is_some() { "disk hit to loaded plan" } else { "disk hit (no GPU: not loaded)" };
    row(&format!("{name}: {loaded}"), time);
    let time = median(101, || {
        filled.compile(&request)?;
        Ok(())
    })?;
    row(&format!("{name}: memory hit"), time);
    drop(compiled);
    Ok(())
}

fn key(request: &Request<'_>, nvrtc: &fusewright::compile::Nvrtc) -> fusewright::compile::CacheKey {
    let Request { graph, engine, config, source, capability } = *request;
    fusewright::compile::CacheKey::new(graph, engine, config, source, nvrtc, capability)
}

fn missing() -> fusewright::error::Error {
    fusewright::error::Error::environment("the entry is not on disk")
}
