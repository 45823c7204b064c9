//! `run --verify`: two independent computations of a graph, held against each other.
//!
//! The generated kernel (on the GPU, else in the emulator) against the CPU engine; where no kernel can run, the CPU
//! engine against the op-by-op evaluation in double precision. The tolerance of every element is the error bound that
//! follows from the operations' arithmetic ([`reference::bounds`]); it costs as much as the evaluation, so a large graph
//! is verified on a smaller twin ([`shrink`]).

use std::sync::Arc;
use std::time::Instant;

use fusewright::error::{Error, NotSupported};
use fusewright::graph::FinalizedGraph;
use fusewright::host_tensor::HostTensors;
use fusewright::reference::{self, BoundOptions, Comparison, Distribution, Shrunk, random_inputs, shrink};

use super::arguments::RunOptions;
use super::console::Console;
use super::executor::{Execution, Executor, Task};
use super::outcome::{Outcome, Result};
use super::{cost, units};

/// What was computed, and by what.
pub(super) struct Subject<'a> {
    /// The graph computed, and what computed it.
    pub(super) task: &'a Task<'a>,
    /// Its inputs.
    pub(super) inputs: &'a HostTensors,
    /// Its outputs.
    pub(super) execution: &'a Execution,
}

/// A computation, to be compared with another.
enum Computation<'a> {
    /// On an executor.
    By(&'a Task<'a>),
    /// The op-by-op evaluation in double precision.
    Evaluation,
}

impl Computation<'_> {
    fn name(&self) -> String {
        match self {
            Self::By(task) => task.executor.name(),
            Self::Evaluation => "the op-by-op f64 evaluation".to_owned(),
        }
    }

    fn execute(
        &self,
        graph: &Arc<FinalizedGraph>,
        inputs: &HostTensors,
        console: &Console,
    ) -> std::result::Result<Execution, Error> {
        match self {
            Self::By(task) if Arc::ptr_eq(&task.graph, graph) => task.execute(inputs, console),
            Self::By(task) => task.executor.take(graph)?.execute(inputs, console),
            Self::Evaluation => {
                let start = Instant::now();
                let spinner = console.spinner(self.name());
                let values = reference::evaluate_f64(graph, inputs);
                spinner.finish_and_clear();
                let seconds = start.elapsed().as_secs_f64();
                console.note(format_args!("{}: {}", self.name(), units::seconds(seconds)));
                let outputs = values?.into_iter().map(|(id, dense)| Ok((id, dense.to_host(graph.tensor(id))?)));
                let outputs = outputs.collect::<std::result::Result<_, Error>>()?;
                Ok(Execution { outputs, build_seconds: 0.0, seconds, liberties: BoundOptions::default() })
            }
        }
    }
}

/// Verifies what was computed, and prints which computations were compared, how, and the largest difference. A
/// disagreement is an outcome, no error.
pub(super) fn verify(subject: &Subject<'_>, options: &RunOptions, console: &mut Console) -> Result<()> {
    let Subject { task, .. } = subject;
    let on_cpu = Executor::CpuEngine.take(&task.graph)?;
    let opened = if task.executor.runs_kernels() { None } else { Executor::open_for_kernels() };
    let taken = opened.as_ref().map(|executor| executor.take(&task.graph));
    let kernel = kernel_of(task, taken.as_ref());
    let [expected, actual] = match kernel {
        Ok(kernel) => [Computation::By(&on_cpu), Computation::By(kernel)],
        Err(_) => [Computation::Evaluation, Computation::By(&on_cpu)],
    };
    console.line(format_args!("verify   {} against {}", actual.name(), expected.name()))?;
    if let Err(reason) = &kernel {
        console.line(format_args!("         since no generated kernel can run: {reason}"))?;
    }
    console.flush()?;
    let slowest = kernel.as_ref().map_or(cost::GPU, |kernel| kernel.executor.rate());
    let computations = [cost::EVALUATION, slowest];
    let is_quick = |graph: &FinalizedGraph| computations.iter().all(|rate| rate.seconds(graph) <= cost::VERIFY_SECONDS);
    let comparison = if is_quick(&task.graph) || options.full {
        compare(subject, [&expected, &actual], console)?
    } else {
        let accepts = |smaller: &FinalizedGraph| {
            kernel.as_ref().map_or(true, |kernel| kernel.executor.take(&Arc::new(smaller.clone())).is_ok())
        };
        let Some(shrunk) = shrink(&task.graph, is_quick, accepts) else {
            let message = "the graph takes minutes to verify, and cannot be shrunk; --full verifies it all the same";
            return Err(Error::from(NotSupported::Work(message.to_owned())).into());
        };
        compare_shrunk(shrunk, [&expected, &actual], options.seed, console)?
    };
    comparison.to_string().lines().try_for_each(|line| console.line(format_args!("         {line}")))?;
    if !comparison.is_match() {
        console.note_outcome(Outcome::Refused);
    }
    Ok(console.line(format_args!("verify   {}", console.verdict(comparison.is_match())))?)
}

/// The task of a generated kernel: that of the run, or else what was opened for kernels says; or why there is none.
fn kernel_of<'a>(
    run: &'a Task<'a>,
    taken: Option<&'a std::result::Result<Task<'a>, Error>>,
) -> std::result::Result<&'a Task<'a>, String> {
    match taken {
        _ if run.executor.runs_kernels() => Ok(run),
        Some(Ok(task)) => Ok(task),
        Some(Err(refusal)) => Err(refusal.to_string().lines().next().unwrap_or_default().to_owned()),
        None => Err("there is neither a GPU with NVRTC nor a C++ compiler (fusewright doctor tells more)".to_owned()),
    }
}

/// Compares on the graph and inputs of the run; what the run computed is not computed again.
fn compare(
    subject: &Subject<'_>,
    [expected, actual]: [&Computation<'_>; 2],
    console: &Console,
) -> std::result::Result<Comparison, Error> {
    let Subject { task, inputs, execution } = subject;
    let executed = |computation: &Computation<'_>| match computation {
        Computation::By(by) if by.executor.runs_kernels() == task.executor.runs_kernels() => Ok((*execution).clone()),
        _ => computation.execute(&task.graph, inputs, console),
    };
    let (expected, actual) = (executed(expected)?, executed(actual)?);
    judge(&task.graph, inputs, [&expected, &actual], console)
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
    console.flush()?;
    let graph = Arc::new(shrunk.graph);
    let inputs = random_inputs(&graph, seed, Distribution::Normal)?;
    let (expected, actual) = (expected.execute(&graph, &inputs, console)?, actual.execute(&graph, &inputs, console)?);
    Ok(judge(&graph, &inputs, [&expected, &actual], console)?)
}

/// Holds two results against the error bounds of the second.
fn judge(
    graph: &FinalizedGraph,
    inputs: &HostTensors,
    [expected, actual]: [&Execution; 2],
    console: &Console,
) -> std::result::Result<Comparison, Error> {
    let start = Instant::now();
    let spinner = console.spinner("error bounds");
    let bounds = reference::bounds_with(graph, inputs, actual.liberties);
    spinner.finish_and_clear();
    console.note(format_args!("error bounds: {}", units::seconds(start.elapsed().as_secs_f64())));
    reference::compare(graph, &expected.outputs, &actual.outputs, Some(&bounds?))
}
