//! On a GPU: every case, the suite's graphs that an engine takes, and verdict graphs, against the CPU engine.

use std::sync::{Arc, LazyLock};

use fusewright::build::Build;
use fusewright::compile::{Cache, Compiler, Options};
use fusewright::device::ComputeCapability;
use fusewright::engine::Floor;
use fusewright::graph::{DataType, FinalizedGraph, Graph, PointwiseMode, Tensor, TensorId};
use fusewright::harness::run_on_device;
use fusewright::host_tensor::{HostTensor, HostTensors};
use fusewright::plan::{DeviceContext, Driver, ExecutionPlan};
use fusewright::reference::{BoundOptions, Distribution, bounds_with, compare, execute, random_inputs};
use libtest_mimic::{Failed, Trial};

use crate::hopper::{self, KernelTest};
use crate::modes::{self, ModeCase};
use crate::pipeline;
use crate::tap_rows::{self, Configs};
use crate::{
    attention_claims, attention_parts, cases, clusters, data, device_chains, device_executions, device_huge,
    device_peers, dynamic, evaluated, infinities, rings, shape_sweep, stationary, stored_gradients, tier, walks,
};

/// Verdict graphs run in this tier, unless `FUSEWRIGHT_VERDICT_GRAPHS` asks for another number.
pub(crate) const VERDICT_GRAPHS: usize = 200;

/// Tiles of a block, at most, in walks.
const TILES: [i64; 10] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10];

/// Multiply-adds that the CPU engine and the oracle compute in a few seconds; no graph of the verdict file has more.
const WORK: u64 = 1 << 32;

pub(crate) static COMPILER: LazyLock<Compiler> =
    LazyLock::new(|| Compiler::new(Cache::memory_only(), Options::default()));

static CONTEXT: LazyLock<Result<Arc<DeviceContext>, String>> = LazyLock::new(|| {
    let driver = Driver::load().map_err(|error| error.to_string())?;
    driver.open(0).map(Arc::new).map_err(|error| error.to_string())
});

pub(crate) fn trials() -> Vec<Trial> {
    let requirement = CONTEXT.as_ref().map(drop).map_err(Clone::clone);
    tier("device", requirement, "FUSEWRIGHT_REQUIRE_DEVICE", || {
        let suite = cases::all().into_iter().map(|case| (case.name, case.graph));
        let count = std::env::var("FUSEWRIGHT_VERDICT_GRAPHS").ok().and_then(|count| count.parse().ok());
        let graphs = suite.chain(verdicts(count.unwrap_or(VERDICT_GRAPHS))).map(|(name, graph)| trial(name, graph));
        let large = [
            Trial::test("device::large::negates_five_gib", negates_five_gib),
            Trial::test("device::large::multiplies_five_gib", multiplies_five_gib),
        ];
        let graphs = graphs.chain(modes::trials("device", run_mode)).chain(large);
        let sweep = shape_sweep::trials(|| Ok(context()?.device().clone()), run_lowered);
        graphs
            .chain(device_executions::trials())
            .chain(device_chains::trials())
            .chain(device_huge::trials())
            .chain(device_peers::trials())
            .chain(attention_parts::trials("device", || Ok(context()?.device().clone()), run_lowered))
            .chain(attention_claims::trials("device", || Ok(context()?.device().clone()), run_lowered))
            .chain(dynamic::trials("device", || Ok(context()?.device().clone()), run_lowered))
            .chain(stored_gradients::trials("device", || Ok(context()?.device().clone()), run_lowered))
            .chain(sweep)
            .chain(infinities::trials("device", || Ok(context()?.device().clone()), run_inputs))
            .chain(hopper_trials())
            .collect()
    })
}

/// `count` verdict graphs that a GPU and the CPU engine run in a few seconds each.
pub(crate) fn verdicts(count: usize) -> Vec<(String, Graph)> {
    let small = |graph: &Graph| graph.finalize().is_ok_and(|graph| Floor::of(&graph).flops / 2 <= WORK);
    data::accepted_verdicts(count, small)
}

/// Rows and columns of a matrix of more than 2^31 elements, 5 GiB in HALF.
const ROWS: i64 = 327_680;
const COLUMNS: i64 = 8192;

/// Offsets beyond 32 bits in a pass: every element of 5 GiB negated.
fn negates_five_gib() -> Result<(), Failed> {
    let mut graph = Graph::new().io_data_type(DataType::Half).compute_data_type(DataType::Float);
    let x = graph.tensor(Tensor::new("x").row_major([1, ROWS, COLUMNS]));
    let y = graph.pointwise("neg", PointwiseMode::Neg, &[x]);
    graph.set_output(y);
    let value = |position: usize| (position % 2039) as f64 - 1000.0;
    computes(&graph, &[&value], &|position| -value(position))
}

/// Offsets beyond 32 bits in a product: a row of A picks a row of B.
fn multiplies_five_gib() -> Result<(), Failed> {
    let mut graph = Graph::new().io_data_type(DataType::Half).compute_data_type(DataType::Float);
    let a = graph.tensor(Tensor::new("A").row_major([1, ROWS, COLUMNS]));
    let b = graph.tensor(Tensor::new("B").row_major([1, COLUMNS, 8]));
    let c = graph.matmul("mm", a, b);
    graph.set_output(c);
    let (columns, picked) = (COLUMNS as usize, |row: usize| row * 31 % COLUMNS as usize);
    let pick = |position: usize| f64::from(u8::from(position % columns == picked(position / columns)));
    let value = |position: usize| (position % 2039) as f64 - 1000.0;
    computes(&graph, &[&pick, &value], &|position| value(picked(position / 8) * 8 + position % 8))
}

/// Runs a graph on inputs given by row-major position, and compares its only output in the same way.
fn computes(
    graph: &Graph,
    inputs: &[&(dyn Fn(usize) -> f64 + Sync)],
    expected: &(dyn Fn(usize) -> f64 + Sync),
) -> Result<(), Failed> {
    let context = context()?;
    let lowered = pipeline::lower(graph, context.device())?;
    let plan = build(context, &lowered)?;
    let graph = &lowered.graph;
    let made = |id: TensorId, value: &(dyn Fn(usize) -> f64 + Sync)| {
        let tensor = graph.tensor(id);
        HostTensor::from_fn(tensor.data_type, &tensor.dim, &tensor.stride, value)
    };
    let mut named: Vec<TensorId> = graph.inputs().collect();
    named.sort_by_key(|&id| graph.tensor(id).name.clone());
    let mut tensors = HostTensors::new();
    for (id, value) in named.into_iter().zip(inputs) {
        tensors.insert(id, made(id, value)?);
    }
    let output = graph.outputs().next().ok_or("no output")?;
    let actual = run_on_device(&plan, graph, &tensors)?;
    drop(tensors);
    if actual.get(&output) != Some(&made(output, expected)?) {
        return Err(format!("{}: some element differs", lowered.config).into());
    }
    Ok(())
}

fn trial(name: String, graph: Graph) -> Trial {
    Trial::test(format!("device::{name}"), move || agrees(&graph))
}

fn agrees(graph: &Graph) -> Result<(), Failed> {
    run_lowered(&pipeline::lower(graph, context()?.device())?)
}

fn run_lowered(lowered: &Build) -> Result<(), Failed> {
    let plan = build(context()?, lowered)?;
    for distribution in [Distribution::Normal, Distribution::SmallIntegers] {
        let inputs = random_inputs(&lowered.graph, 11, distribution)?;
        let actual = run_on_device(&plan, &lowered.graph, &inputs)?;
        let again = run_on_device(&plan, &lowered.graph, &inputs)?;
        if actual != again {
            return Err("two runs differ".into());
        }
        agrees_with_cpu(lowered, distribution, &inputs, &actual)?;
    }
    Ok(())
}

fn run_inputs(lowered: &Build, inputs: &HostTensors) -> Result<HostTensors, Failed> {
    Ok(run_on_device(&build(context()?, lowered)?, &lowered.graph, inputs)?)
}

fn run_mode(case: &ModeCase, graph: &FinalizedGraph, inputs: &HostTensors) -> Result<HostTensors, Failed> {
    let context = context()?;
    let plan = build(context, &pipeline::lower(&case.graph, context.device())?)?;
    Ok(run_on_device(&plan, graph, inputs)?)
}

/// Kernels over the primitives of sm_90a and walks of generated ones, where the GPU is of that architecture.
fn hopper_trials() -> Vec<Trial> {
    let is_hopper = CONTEXT.as_ref().is_ok_and(|context| context.device().capability == ComputeCapability::SM_90);
    if !is_hopper {
        return Vec::new();
    }
    let device = || Ok(context()?.device().clone());
    let walks = walks::trials("device", &TILES, device, run_lowered);
    let tap_rows = tap_rows::trials("device", Configs::OneOfEach, device, run_lowered);
    let stationary = stationary::trials("device", usize::MAX, device, run_lowered);
    let clusters = clusters::trials("device", usize::MAX, device, run_lowered);
    let rings = rings::trials("device", device, run_lowered);
    let evaluated = evaluated::trials("device", device, run_lowered);
    let infinities = tap_rows::infinities("device", Configs::OneOfEach, device, run_inputs);
    hopper::trials("device", run_kernel)
        .into_iter()
        .chain(walks)
        .chain(rings)
        .chain(tap_rows)
        .chain(stationary)
        .chain(clusters)
        .chain(evaluated)
        .chain(infinities)
        .collect()
}

fn run_kernel(test: &KernelTest) -> Result<Option<HostTensors>, Failed> {
    let context = CONTEXT.as_ref().map_err(Clone::clone)?;
    let compiled = COMPILER.compile(&test.request(context.device().capability))?;
    // SAFETY: the source was written for the graph, and the cubin compiled from it.
    let plan = unsafe { ExecutionPlan::build(context, &test.graph, &test.source, &compiled.cubin) }?;
    Ok(Some(run_on_device(&plan, &test.graph, &test.inputs)?))
}

pub(crate) fn context() -> Result<&'static DeviceContext, Failed> {
    Ok(CONTEXT.as_ref().map_err(Clone::clone)?)
}

pub(crate) fn build(context: &DeviceContext, lowered: &Build) -> Result<ExecutionPlan, Failed> {
    let compiled = lowered.compile(&COMPILER)?;
    // SAFETY: the source was rendered from a config of the graph, and the cubin compiled from it.
    Ok(unsafe { ExecutionPlan::build(context, &lowered.graph, &lowered.source, &compiled.cubin) }?)
}

fn agrees_with_cpu(
    lowered: &Build,
    distribution: Distribution,
    inputs: &HostTensors,
    actual: &HostTensors,
) -> Result<(), Failed> {
    let options = BoundOptions { tf32: lowered.source.uses_tf32, fp8: lowered.source.uses_fp8 };
    let bounds = bounds_with(&lowered.graph, inputs, options)?;
    let comparison = compare(&lowered.graph, &execute(&lowered.graph, inputs)?, actual, Some(&bounds))?;
    if comparison.is_match() {
        return Ok(());
    }
    Err(format!("{distribution:?} inputs, {}\n{comparison}", lowered.config).into())
}
