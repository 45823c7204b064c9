//! On a GPU: executions of one plan beside one another, as CUDA graphs, and after every other config of the engine.

use std::sync::Arc;

use fusewright::compile::Cache;
use fusewright::engine;
use fusewright::graph::FinalizedGraph;
use fusewright::host_tensor::HostTensors;
use fusewright::plan::{DeviceTensors, ExecutionPlan, run_on_device};
use fusewright::reference::{Distribution, random_inputs};
use fusewright::tuning::{TuningStore, autotune};
use libtest_mimic::{Failed, Trial};

use crate::{cases, device, pipeline};

/// A pass, a reduction and two products: of one launch, and of two that share a workspace.
const CASES: [&str; 4] =
    ["pw_padded_strides_two_outputs", "red_split_channel", "mm_both_mainloops_two_outputs", "mm_reduce_amax_all"];

/// Rounds in which executions may overlap.
const ROUNDS: usize = 50;

type Check = fn(&Subject) -> Result<(), Failed>;

const CHECKS: [(&str, Check); 3] = [
    ("as_cuda_graph", cuda_graphs_compute_the_same),
    ("on_two_streams", two_streams_do_not_disturb_each_other),
    ("tuned", every_config_is_timed_and_the_fastest_kept),
];

pub(crate) fn trials() -> Vec<Trial> {
    let trial = |name: &'static str, (label, check): (&str, Check)| {
        Trial::test(format!("device::executions::{label}::{name}"), move || check(&Subject::of(name)?))
    };
    CASES.iter().flat_map(|name| CHECKS.map(|check| trial(name, check))).collect()
}

/// A plan under test.
struct Subject {
    graph: Arc<FinalizedGraph>,
    plan: ExecutionPlan,
}

impl Subject {
    fn of(name: &str) -> Result<Self, Failed> {
        let case = cases::all().into_iter().find(|case| case.name == name).ok_or("no such case")?;
        let context = device::context()?;
        let lowered = pipeline::lower(&case.graph, context.device())?;
        Ok(Self { plan: device::build(context, &lowered)?, graph: lowered.graph })
    }

    fn inputs(&self, seed: u64) -> Result<HostTensors, Failed> {
        Ok(random_inputs(&self.graph, seed, Distribution::Normal)?)
    }

    fn upload(&self, seed: u64) -> Result<DeviceTensors, Failed> {
        Ok(DeviceTensors::upload(&self.plan, &self.graph, &self.inputs(seed)?)?)
    }

    /// Whether the tensors hold what one execution alone makes of the inputs of this seed.
    fn check(&self, tensors: &DeviceTensors, seed: u64, what: &str) -> Result<(), Failed> {
        let alone = run_on_device(&self.plan, &self.graph, &self.inputs(seed)?)?;
        if tensors.download(&self.graph)? != alone {
            return Err(format!("{what} differs from an execution alone").into());
        }
        Ok(())
    }
}

/// Also after it was bound to other tensors.
fn cuda_graphs_compute_the_same(subject: &Subject) -> Result<(), Failed> {
    let (first, second) = (subject.upload(1)?, subject.upload(2)?);
    let mut cuda_graph = first.instantiate(&subject.plan)?;
    cuda_graph.launch(first.stream())?;
    subject.check(&first, 1, "the CUDA graph")?;
    second.bind(&mut cuda_graph)?;
    cuda_graph.launch(second.stream())?;
    subject.check(&second, 2, "the CUDA graph bound to other tensors")
}

fn two_streams_do_not_disturb_each_other(subject: &Subject) -> Result<(), Failed> {
    let (first, second) = (subject.upload(1)?, subject.upload(2)?);
    let (mut first_graph, mut second_graph) = (first.instantiate(&subject.plan)?, second.instantiate(&subject.plan)?);
    for _ in 0..ROUNDS {
        first.execute(&subject.plan)?;
        second.execute(&subject.plan)?;
        first_graph.launch(first.stream())?;
        second_graph.launch(second.stream())?;
    }
    subject.check(&first, 1, "the first stream")?;
    subject.check(&second, 2, "the second stream")
}

/// On tensors and a workspace that all configs share, and which are whole afterwards.
fn every_config_is_timed_and_the_fastest_kept(subject: &Subject) -> Result<(), Failed> {
    let context = device::context()?;
    let selection = engine::select(&subject.graph, context.device().capability)?;
    let candidates = selection.candidates(context.device());
    let mut tensors = DeviceTensors::allocate(context, &subject.graph, &subject.inputs(1)?)?;
    let ranking = autotune(context, &device::COMPILER, &selection, &candidates, &mut tensors)?;
    let medians: Vec<f64> = ranking.iter().map(|tuned| tuned.sampled.median_ms).collect();
    if medians.len() != candidates.len() || !medians.is_sorted() || medians[0] <= 0.0 {
        return Err(format!("{} configs took {medians:?} ms", candidates.len()).into());
    }
    let folder = tempfile::tempdir()?;
    let store = TuningStore::beside(&Cache::at(folder.path()));
    store.put(&selection, context.device(), &ranking[0])?;
    if store.config(&selection, context.device()) != ranking[0].ranked.config {
        return Err("the fastest config is not found again".into());
    }
    tensors.execute(&subject.plan)?;
    subject.check(&tensors, 1, "an execution after those of every config")
}
