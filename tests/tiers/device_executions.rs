//! On a GPU: executions of one plan again and again, beside one another, beside those of another plan, as CUDA graphs, and
//! after every other config of the engine.

use std::sync::Arc;

use fusewright::build::Build;
use fusewright::compile::Cache;
use fusewright::engine;
use fusewright::graph::FinalizedGraph;
use fusewright::harness::{DeviceTensors, run_on_device};
use fusewright::host_tensor::HostTensors;
use fusewright::plan::ExecutionPlan;
use fusewright::reference::{Distribution, random_inputs};
use fusewright::tuning::{TuningStore, autotune};
use libtest_mimic::{Failed, Trial};

use crate::pipeline;
use crate::{cases, device};

/// A pass, a reduction and products: of one launch, of two that share a workspace, of a long k.
const CASES: [&str; 6] = [
    "pw_padded_strides_two_outputs",
    "red_split_channel",
    "mm_both_mainloops_two_outputs",
    "mm_reduce_amax_all",
    "mm_reduce_add_all",
    "mm_long_k",
];

/// Rounds in which executions may overlap.
const ROUNDS: usize = 50;

/// Executions that must not differ by a bit.
const REPEATS: usize = 20;

type Check = fn(&Subject) -> Result<(), Failed>;

const CHECKS: [(&str, Check); 5] = [
    ("again_and_again", every_config_repeats_to_the_bit),
    ("as_cuda_graph", cuda_graphs_compute_the_same),
    ("on_two_streams", two_streams_do_not_disturb_each_other),
    ("beside_another_plan", two_plans_do_not_disturb_each_other),
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
        let lowered = pipeline::lower(&case.graph, device::context()?.device())?;
        Self::with_config(lowered)
    }

    fn with_config(lowered: Build) -> Result<Self, Failed> {
        Ok(Self { plan: device::build(device::context()?, &lowered)?, graph: lowered.graph })
    }

    /// The plans of every config, that of the first in front.
    fn every_config(&self) -> Result<Vec<Self>, Failed> {
        let device = device::context()?.device();
        let lowered = pipeline::lower_every_config_finalized(&self.graph, device)?;
        lowered.into_iter().map(Self::with_config).collect()
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

/// Splits of k and partial reductions among them. Memory and workspace start poisoned the first time only: what an
/// execution leaves there must not matter to the next.
fn every_config_repeats_to_the_bit(subject: &Subject) -> Result<(), Failed> {
    for subject in subject.every_config()? {
        let tensors = subject.upload(1)?;
        tensors.execute(&subject.plan)?;
        let first = tensors.download(&subject.graph)?;
        for repeat in 1..REPEATS {
            tensors.execute(&subject.plan)?;
            if tensors.download(&subject.graph)? != first {
                return Err(format!("execution {repeat} differs from the first").into());
            }
        }
    }
    Ok(())
}

/// Also after it was bound to other tensors.
fn cuda_graphs_compute_the_same(subject: &Subject) -> Result<(), Failed> {
    let (first, second) = (subject.upload(1)?, subject.upload(2)?);
    let mut cuda_graph = first.instantiate(&subject.plan)?;
    first.launch(&mut cuda_graph)?;
    subject.check(&first, 1, "the CUDA graph")?;
    second.launch(&mut cuda_graph)?;
    subject.check(&second, 2, "the CUDA graph bound to other tensors")
}

fn two_streams_do_not_disturb_each_other(subject: &Subject) -> Result<(), Failed> {
    let (first, second) = (subject.upload(1)?, subject.upload(2)?);
    let (mut first_graph, mut second_graph) = (first.instantiate(&subject.plan)?, second.instantiate(&subject.plan)?);
    for _ in 0..ROUNDS {
        first.execute(&subject.plan)?;
        second.execute(&subject.plan)?;
        first.launch(&mut first_graph)?;
        second.launch(&mut second_graph)?;
    }
    subject.check(&first, 1, "the first stream")?;
    subject.check(&second, 2, "the second stream")
}

/// Each config's plan on a stream and in a workspace of its own.
fn two_plans_do_not_disturb_each_other(subject: &Subject) -> Result<(), Failed> {
    for other in subject.every_config()? {
        let (first, second) = (subject.upload(1)?, other.upload(2)?);
        for _ in 0..ROUNDS {
            first.execute(&subject.plan)?;
            second.execute(&other.plan)?;
        }
        subject.check(&first, 1, "the first plan")?;
        other.check(&second, 2, "the second plan")?;
    }
    Ok(())
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
    if store.config(&selection, context.device())? != ranking[0].ranked.config {
        return Err("the fastest config is not found again".into());
    }
    tensors.execute(&subject.plan)?;
    subject.check(&tensors, 1, "an execution after those of every config")
}
