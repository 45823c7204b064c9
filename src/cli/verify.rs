//! `run --verify`: two independent computations of a graph, held against each other.
//!
//! The generated kernel (on the GPU, else in the emulator) against the CPU engine; where no kernel can run, the CPU
//! engine against the op-by-op evaluation in double precision. The tolerance of every element is the error bound that
//! follows from the operations' arithmetic ([`reference::bounds`]); it costs as much as the evaluation, so a large graph
//! is verified on a smaller twin (see [`super::shrink`]).

use std::sync::Arc;
use std::time::Instant;

use fusewright::error::{Error, NotSupported};
use fusewright::graph::FinalizedGraph;
use fusewright::host_tensor::HostTensors;
use fusewright::reference::{self, BoundOptions, Comparison, Distribution, random_inputs};

use super::arguments::RunOptions;
use super::console::Console;
use super::executor::{Execution, Executor};
use super::outcome::{Outcome, Result};
use super::run::{execute, verdict};
use super::{cost, units};
use fusewright::reference::{Shrunk, shrink};

/// What was computed, and by what.
pub(super) struct Subject<'a> {
    /// The graph computed.
    pub(super) graph: &'a Arc<FinalizedGraph>,
    /// Its inputs.
    pub(super) inputs: &'a HostTensors,
    /// Its outputs.
    pub(super) execution: &'a Execution,
    /// What computed them.
    pub(super) executor: &'a Executor,
}

/// A computation, to be compared with another.
enum Computation<'a> {
    /// On an executor.
    By(&'a Executor),
    /// The op-by-op evaluation in double precision.
    Evaluation,
}

impl Computation<'_> {
    fn name(&self) -> String {
        match self {
            Self::By(executor) => executor.name(),
            Self::Evaluation => "the op-by-op f64 evaluation".to_owned(),
        }
    }

    /// What the computation may do beyond rounding.
    fn bound_options(&self, graph: &Arc<FinalizedGraph>) -> BoundOptions {
        match self {
            Self::By(executor) => executor.liberties(graph),
            Self::Evaluation => BoundOptions::default(),
        }
    }

    fn outputs(
        &self,
        graph: &Arc<FinalizedGraph>,
        inputs: &HostTensors,
        console: &Console,
    ) -> std::result::Result<HostTensors, Error> {
        match self {
            Self::By(executor) => Ok(execute(executor, graph, inputs, console)?.outputs),
            Self::Evaluation => {
                let start = Instant::now();
                let spinner = console.spinner(self.name());
                let values = reference::evaluate_f64(graph, inputs);
                spinner.finish_and_clear();
                console.note(format_args!("{}: {}", self.name(), units::seconds(start.elapsed().as_secs_f64())));
                values?.into_iter().map(|(id, dense)| Ok((id, dense.to_host(graph.tensor(id))?))).collect()
            }
        }
    }
}

/// Verifies what was computed, and prints which computations were compared, how, and the largest difference. A
/// disagreement is an outcome, no error.
pub(super) fn verify(subject: &Subject<'_>, options: &RunOptions, console: &mut Console) -> Result<()> {
    let cpu_engine = Executor::CpuEngine;
    let opened = if subject.executor.runs_kernels() { None } else { Executor::open_for_kernels() };
    let kernels = opened.as_ref().unwrap_or(subject.executor);
    let no_kernel = why_no_kernel(kernels, subject.graph);
    let has_kernel = no_kernel.is_none();
    let [expected, actual] = match has_kernel {
        true => [Computation::By(&cpu_engine), Computation::By(kernels)],
        false => [Computation::Evaluation, Computation::By(&cpu_engine)],
    };
    console.line(format_args!("verify   {} against {}", actual.name(), expected.name()))?;
    if let Some(reason) = no_kernel {
        console.line(format_args!("         since no generated kernel can run: {reason}"))?;
    }
    let slowest = if has_kernel { kernels.rate() } else { cost::GPU };
    let computations = [cost::EVALUATION, slowest];
    let is_quick = |graph: &FinalizedGraph| computations.iter().all(|rate| rate.seconds(graph) <= cost::VERIFY_SECONDS);
    let comparison = if is_quick(subject.graph) || options.full {
        compare(subject, [&expected, &actual], console)?
    } else {
        let accepts = |smaller: &FinalizedGraph| !has_kernel || kernels.check(&Arc::new(smaller.clone())).is_ok();
        let Some(shrunk) = shrink(subject.graph, is_quick, accepts) else {
            let message = "the graph takes minutes to verify, and cannot be shrunk; --full verifies it all the same";
            return Err(Error::from(NotSupported::Work(message.to_owned())).into());
        };
        compare_shrunk(shrunk, [&expected, &actual], options.seed, console)?
    };
    comparison.to_string().lines().try_for_each(|line| console.line(format_args!("         {line}")))?;
    if !comparison.is_match() {
        console.note_outcome(Outcome::Refused);
    }
    Ok(console.line(format_args!("verify   {}", verdict(comparison.is_match(), console)))?)
}

/// Why nothing runs a generated kernel of a graph; `None` where something does.
fn why_no_kernel(kernels: &Executor, graph: &Arc<FinalizedGraph>) -> Option<String> {
    if !kernels.runs_kernels() {
        return Some("there is neither a GPU with NVRTC nor a C++ compiler (fusewright doctor tells more)".to_owned());
    }
    let refusal = kernels.check(graph).err()?.to_string();
    refusal.lines().next().map(str::to_owned)
}

/// Compares on the graph and inputs of the run; what the run computed is not computed again.
fn compare(
    subject: &Subject<'_>,
    [expected, actual]: [&Computation<'_>; 2],
    console: &Console,
) -> std::result::Result<Comparison, Error> {
    let Subject { graph, inputs, execution, executor } = subject;
    let outputs = |computation: &Computation<'_>| match computation {
        Computation::By(by) if by.runs_kernels() == executor.runs_kernels() => Ok(execution.outputs.clone()),
        _ => computation.outputs(graph, inputs, console),
    };
    let options = actual.bound_options(graph);
    let (expected, actual) = (outputs(expected)?, outputs(actual)?);
    judge(graph, inputs, [&expected, &actual], options, console)
}

/// Compares on a smaller twin of the graph, with random inputs.
fn compare_shrunk(
    shrunk: Shrunk,
    [expected, actual]: [&Computation<'_>; 2],
    seed: u64,
    console: &mut Console,
) -> Result<Comparison> {
    console.line("         on a shrunk graph with random inputs, since the full one takes minutes:")?;
    shrunk.changes.iter().try_for_each(|change| console.line(format_args!("         {change}")))?;
    let graph = Arc::new(shrunk.graph);
    let inputs = random_inputs(&graph, seed, Distribution::Normal)?;
    let options = actual.bound_options(&graph);
    let (expected, actual) = (expected.outputs(&graph, &inputs, console)?, actual.outputs(&graph, &inputs, console)?);
    Ok(judge(&graph, &inputs, [&expected, &actual], options, console)?)
}

/// Holds two results against the error bounds.
fn judge(
    graph: &FinalizedGraph,
    inputs: &HostTensors,
    [expected, actual]: [&HostTensors; 2],
    options: BoundOptions,
    console: &Console,
) -> std::result::Result<Comparison, Error> {
    let start = Instant::now();
    let spinner = console.spinner("error bounds");
    let bounds = reference::bounds_with(graph, inputs, options);
    spinner.finish_and_clear();
    console.note(format_args!("error bounds: {}", units::seconds(start.elapsed().as_secs_f64())));
    reference::compare(graph, expected, actual, Some(&bounds?))
}
