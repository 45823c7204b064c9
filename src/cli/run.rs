//! `fusewright run`: a graph's outputs, and whether two computations agree on them.

use std::sync::Arc;

use fusewright::engine;
use fusewright::error::Error;
use fusewright::graph::{FinalizedGraph, TensorId};
use fusewright::host_tensor::{HostTensor, HostTensors};
use fusewright::reference::{Distribution, random_inputs, shrink};

use super::arguments::{DeviceChoice, RunOptions};
use super::console::Console;
use super::cost;
use super::executor::{Execution, Executor, Task};
use super::files;
use super::outcome::Result;
use super::tensor_file::{ResultFile, read_inputs, serialize_outputs};
use super::{plain, units, verify};

/// Elements shown of each output.
const SHOWN: usize = 6;

pub(super) fn run(options: &RunOptions, console: &mut Console) -> Result<()> {
    let loaded = files::load_one(&options.file, options.graph.as_ref(), console)?;
    let place = loaded.place;
    let result_file = options.outputs.as_deref().map(ResultFile::create).transpose()?;
    let executor = Executor::open(options.device)?;
    let full = executor.take(&Arc::new(loaded.graph)).map_err(|error| files::locate(&place, error))?;
    console.line(format_args!("graph    {place}"))?;
    warn_of_refusal(&executor, &full, console);
    let task = bounded(full, options, console)?;
    let inputs = inputs(&task.graph, options, console)?;
    let execution = task.execute(&inputs, console).map_err(|error| files::locate(&place, error))?;
    report(&executor, &execution, options, console)?;
    for (&id, output) in &execution.outputs {
        console.line(summary(&task.graph, id, output)?)?;
    }
    if let Some(file) = result_file {
        file.write(&serialize_outputs(&task.graph, &execution.outputs)?)?;
    }
    if options.verify {
        console.flush()?;
        let subject = verify::Subject { task: &task, inputs: &inputs, execution: &execution };
        verify::verify(&subject, options, console)?;
    }
    Ok(())
}

/// The CPU engine computes what no kernel does; whoever asks for the result may believe that one exists.
fn warn_of_refusal(executor: &Executor, task: &Task<'_>, console: &Console) {
    if executor.runs_kernels() {
        return;
    }
    let capability = executor.device().capability;
    if engine::select(&task.graph, capability).is_err() {
        console.warn(format_args!(
            "no kernel exists for this graph on {capability}: the CPU engine alone computes it (fusewright check tells why)"
        ));
    }
}

/// The task, or that of a smaller twin where the full graph would take minutes and its values are random anyway.
fn bounded<'a>(task: Task<'a>, options: &RunOptions, console: &mut Console) -> Result<Task<'a>> {
    let Task { graph, executor, .. } = &task;
    let is_quick = |graph: &FinalizedGraph| executor.rate().seconds(graph) <= cost::RUN_SECONDS;
    if is_quick(graph) || options.full {
        return Ok(task);
    }
    let wait = format!("about {} on {}", units::seconds(executor.rate().seconds(graph)), executor.name());
    if options.inputs.is_some() || options.outputs.is_some() {
        console.warn(format_args!("the graph takes {wait}"));
        return Ok(task);
    }
    let accepts = |smaller: &FinalizedGraph| executor.take(&Arc::new(smaller.clone())).is_ok();
    let Some(shrunk) = shrink(graph, is_quick, accepts) else {
        console.warn(format_args!("the graph takes {wait}, and cannot be shrunk"));
        return Ok(task);
    };
    console.line(format_args!("shrunk   since the full graph takes {wait} (--full computes it all the same):"))?;
    shrunk.changes.iter().try_for_each(|change| console.line(format_args!("         {change}")))?;
    Ok(executor.take(&Arc::new(shrunk.graph))?)
}

fn inputs(graph: &FinalizedGraph, options: &RunOptions, console: &mut Console) -> Result<HostTensors> {
    if let Some(path) = &options.inputs {
        console.line(format_args!("inputs   {}", plain::path(path)))?;
        return Ok(read_inputs(path, graph)?);
    }
    console.line(format_args!("inputs   random, seed {}", options.seed))?;
    console.flush()?;
    let spinner = console.spinner("random inputs");
    let inputs = random_inputs(graph, options.seed, Distribution::Normal);
    spinner.finish_and_clear();
    Ok(inputs?)
}

fn report(executor: &Executor, execution: &Execution, options: &RunOptions, console: &mut Console) -> Result<()> {
    let why = match (options.device, executor.runs_kernels()) {
        (DeviceChoice::Auto, false) => ", since no GPU can be used (fusewright doctor tells why)",
        _ => "",
    };
    console.line(format_args!("device   {}{why}", executor.name()))?;
    let seconds = units::seconds(execution.seconds);
    let built = match execution.build_seconds {
        0.0 => String::new(),
        built => format!(", after {} for the kernel", units::seconds(built)),
    };
    Ok(console.line(format_args!("time     {seconds}{built}"))?)
}

/// One line about an output: what it is, its range, its first elements.
fn summary(graph: &FinalizedGraph, id: TensorId, output: &HostTensor) -> std::result::Result<String, Error> {
    let values: Vec<f64> = output.to_dense()?;
    let finite = || values.iter().copied().filter(|value| value.is_finite());
    let (least, greatest) =
        finite().fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), x| (low.min(x), high.max(x)));
    let range = match finite().count() {
        0 => "no finite value".to_owned(),
        count => format!("min {least:.6}, max {greatest:.6}, mean {:.6}", finite().sum::<f64>() / count as f64),
    };
    let other = match values.len() - finite().count() {
        0 => String::new(),
        count => format!(", {count} not finite"),
    };
    let first: Vec<String> = values.iter().take(SHOWN).map(f64::to_string).collect();
    let more = if values.len() > SHOWN { ", …" } else { "" };
    let (label, data_type) = (graph.describe_tensor(id), output.data_type);
    Ok(format!("output   {label} {data_type} {:?}: {range}{other}; {}{more}", output.dim, first.join(", ")))
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;
    use fusewright::graph::{DataType, Graph, PointwiseMode, Tensor};

    use super::super::arguments::{Arguments, Command};
    use super::super::console::Verbosity;
    use super::*;

    fn options(extra: &[&str]) -> RunOptions {
        match Arguments::parse_from(["fusewright", "run", "x.json"].iter().chain(extra)).command {
            Command::Run(options) => options,
            other => panic!("{other:?} is not run"),
        }
    }

    /// `y = relu(x)` of 2^`power` elements.
    fn relu(power: u32) -> Arc<FinalizedGraph> {
        let mut graph = Graph::new().io_data_type(DataType::Half).compute_data_type(DataType::Float);
        let x = graph.tensor(Tensor::new("x").row_major([1, 1 << (power - 6), 64]));
        let y = graph.pointwise("relu", PointwiseMode::ReluFwd, &[x]);
        graph.set_output(y);
        Arc::new(graph.finalize().unwrap())
    }

    fn elements_computed(power: u32, extra: &[&str]) -> i64 {
        let mut console = Console::new(Verbosity::Quiet);
        let task = Executor::CpuEngine.take(&relu(power)).unwrap();
        bounded(task, &options(extra), &mut console).unwrap().graph.tensors().next().unwrap().dim.iter().product()
    }

    #[test]
    fn only_what_takes_too_long_is_shrunk_and_only_random_inputs_are() {
        assert_eq!(elements_computed(20, &[]), 1 << 20);
        let shrunk = elements_computed(40, &[]);
        assert!((1 << 30..1 << 33).contains(&shrunk), "{shrunk}");
        for extra in [["--full"].as_slice(), &["--inputs", "x"], &["--outputs", "y"]] {
            assert_eq!(elements_computed(40, extra), 1 << 40, "{extra:?}");
        }
    }

    #[test]
    fn a_summary_shows_range_and_first_elements() {
        let graph = relu(6);
        let id = graph.outputs().next().unwrap();
        let values: Vec<f32> = (0..64).map(|i| if i == 63 { f32::INFINITY } else { i as f32 }).collect();
        let tensor = graph.tensor(id);
        let output = HostTensor::from_dense(tensor.data_type, &tensor.dim, &tensor.stride, &values).unwrap();
        let text = summary(&graph, id, &output).unwrap();
        let range = "HALF [1, 1, 64]: min 0.000000, max 62.000000, mean 31.000000, 1 not finite; 0, 1, 2, 3, 4, 5, …";
        assert!(text.contains(range), "{text}");
    }
}
