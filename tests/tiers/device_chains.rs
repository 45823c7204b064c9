//! On a GPU: launches in a row, each of which reads what the one before it wrote and writes what that one read. On sm_90
//! they start early, so a load or store above their wait, or a stale line of a cache, would show here.

use std::time::Duration;

use fusewright::build::Build;
use fusewright::graph::{DataType, Graph, PointwiseMode, ReductionMode, Tensor};
use fusewright::host_tensor::HostTensor;
use fusewright::plan::{
    DeviceBuffer, DeviceContext, DevicePointer, ExecutionPlan, Stream, VariantPack, WORKSPACE_ALIGNMENT, Workspace,
};
use libtest_mimic::{Failed, Trial};

use crate::device;
use crate::pipeline;

/// Launches of a chain; even, so that they end where they begin. Small integers in HALF count as far without rounding.
const STEPS: usize = 600;

/// uids of what a step reads and writes, and of what does not change.
const FROM: i64 = 1;
const TO: i64 = 2;
const FIXED: i64 = 3;

type Chain = fn() -> Result<(), Failed>;

pub(crate) fn trials() -> Vec<Trial> {
    let chains: [(&str, Chain); 5] = [
        ("counts_and_transposes", counts_and_transposes),
        ("shifts_columns", || shifts_columns([256, 256], false)),
        ("shifts_columns_behind_a_stage", || shifts_columns([256, 256], true)),
        ("shifts_columns_of_odd_rows", || shifts_columns([200, 251], false)),
        ("counts_by_the_largest", counts_by_the_largest),
    ];
    chains.map(|(name, chain)| Trial::test(format!("device::chains::{name}"), chain)).into()
}

/// Y = (X + 1)ᵀ, so that other multiprocessors read an element than wrote it.
fn counts_and_transposes() -> Result<(), Failed> {
    const SIDE: i64 = 192;
    let mut graph = Graph::new().io_data_type(DataType::Float).compute_data_type(DataType::Float);
    let x = graph.tensor(Tensor::new("X").uid(FROM).row_major([1, SIDE, SIDE]));
    let one = graph.tensor(Tensor::new("one").uid(FIXED).row_major([1, 1, 1]));
    let y = graph.pointwise("add", PointwiseMode::Add, &[x, one]);
    let y = graph.set_output(y);
    (y.uid, y.dim, y.stride) = (Some(TO), vec![1, SIDE, SIDE], vec![SIDE * SIDE, 1, SIDE]);
    let first = matrix(DataType::Float, [SIDE, SIDE], &|position| (position % 997) as f64)?;
    let last = matrix(DataType::Float, [SIDE, SIDE], &|position| (position % 997 + STEPS) as f64)?;
    let fixed = matrix(DataType::Float, [1, 1], &|_| 1.0)?;
    for config in every_config(&graph)? {
        turns(&config, &first, &fixed, &last)?;
    }
    Ok(())
}

/// C = A·P, or max(A, 0)·P, where P moves every column to the next.
fn shifts_columns([rows, columns]: [i64; 2], has_stage: bool) -> Result<(), Failed> {
    let mut graph = Graph::new().io_data_type(DataType::Half).intermediate_data_type(DataType::Half);
    graph = graph.compute_data_type(DataType::Float);
    let a = graph.tensor(Tensor::new("A").uid(FROM).row_major([1, rows, columns]));
    let p = graph.tensor(Tensor::new("P").uid(FIXED).row_major([1, columns, columns]));
    let left = if has_stage { graph.pointwise("relu", PointwiseMode::ReluFwd, &[a]) } else { a };
    let c = graph.matmul("mm", left, p);
    graph.set_output(c).uid = Some(TO);
    let width = columns as usize;
    let value = |position: usize| (position % 1009) as f64;
    let shifted = |position: usize| {
        let (row, column) = (position / width, position % width);
        value(row * width + (column + width - STEPS % width) % width)
    };
    let next = |position: usize| f64::from(u8::from((position / width + 1) % width == position % width));
    let first = matrix(DataType::Half, [rows, columns], &value)?;
    let last = matrix(DataType::Half, [rows, columns], &shifted)?;
    let fixed = matrix(DataType::Half, [columns, columns], &next)?;
    for config in every_config(&graph)? {
        turns(&config, &first, &fixed, &last)?;
    }
    Ok(())
}

/// X = max(X) + 1 everywhere, by two plans in turn: all blocks read one element that changes from step to step.
fn counts_by_the_largest() -> Result<(), Failed> {
    const SIDES: [i64; 2] = [1024, 512];
    let dim = [1, SIDES[0], SIDES[1]];
    let new_graph = || Graph::new().io_data_type(DataType::Float).compute_data_type(DataType::Float);
    let mut graph = new_graph();
    let x = graph.tensor(Tensor::new("X").uid(FROM).row_major(dim));
    let most = graph.reduction("max", ReductionMode::Max, x, [1, 1, 1]);
    graph.set_output(most).uid = Some(TO);
    let largest = every_config(&graph)?;
    let mut graph = new_graph();
    let most = graph.tensor(Tensor::new("most").uid(FROM).row_major([1, 1, 1]));
    let ones = graph.tensor(Tensor::new("ones").uid(FIXED).row_major(dim));
    let x = graph.pointwise("add", PointwiseMode::Add, &[ones, most]);
    graph.set_output(x).uid = Some(TO);
    let spread = every_config(&graph)?.into_iter().next().ok_or("no config")?;
    let first = matrix(DataType::Float, SIDES, &|position| (position % 13) as f64)?;
    let last = matrix(DataType::Float, SIDES, &|_| (12 + STEPS / 2) as f64)?;
    let ones = matrix(DataType::Float, SIDES, &|_| 1.0)?;
    for config in largest {
        let (largest, spread) = (Step::of(&config, None)?, Step::of(&spread, Some(&ones))?);
        chain(&config, [&largest, &spread], &first, &last)?;
    }
    Ok(())
}

fn matrix(data_type: DataType, [rows, columns]: [i64; 2], value: &(dyn Fn(usize) -> f64 + Sync)) -> Made {
    Ok(HostTensor::from_fn(data_type, &[1, rows, columns], &[rows * columns, columns, 1], value)?)
}

type Made = Result<HostTensor, Failed>;

fn every_config(graph: &Graph) -> Result<Vec<Build>, Failed> {
    Ok(pipeline::lower_every_config(graph, device::context()?.device())?)
}

/// One plan that reads and writes two buffers in turn.
fn turns(config: &Build, first: &HostTensor, fixed: &HostTensor, last: &HostTensor) -> Result<(), Failed> {
    let step = Step::of(config, Some(fixed))?;
    chain(config, [&step, &step], first, last)
}

/// A plan with what does not change from step to step.
struct Step {
    plan: ExecutionPlan,
    fixed: Option<DeviceBuffer>,
    workspace: DeviceBuffer,
}

impl Step {
    fn of(config: &Build, fixed: Option<&HostTensor>) -> Result<Self, Failed> {
        let context = device::context()?;
        let stream = Stream::new(context)?;
        let plan = device::build(context, config)?;
        let fixed = fixed.map(|tensor| uploaded(context, tensor, &stream)).transpose()?;
        let bytes = usize::try_from(plan.workspace_bytes())?.max(1);
        let workspace = DeviceBuffer::new(context, bytes, WORKSPACE_ALIGNMENT)?;
        stream.wait(Duration::from_secs(10))?;
        Ok(Self { plan, fixed, workspace })
    }

    fn execute(&self, from: DevicePointer, to: DevicePointer, stream: &Stream) -> Result<(), Failed> {
        let mut pack = VariantPack::new();
        pack.set_pointer(FROM, from).set_pointer(TO, to);
        if let Some(fixed) = &self.fixed {
            pack.set_pointer(FIXED, fixed.pointer());
        }
        let workspace = Workspace { pointer: self.workspace.pointer(), bytes: self.plan.workspace_bytes() };
        // SAFETY: each buffer is as long as its tensor, and lives until the chain was waited for.
        Ok(unsafe { self.plan.execute(&pack, workspace, stream) }?)
    }
}

/// Two steps in turn, there and back, and what they must leave.
fn chain(config: &Build, steps: [&Step; 2], first: &HostTensor, last: &HostTensor) -> Result<(), Failed> {
    let context = device::context()?;
    let stream = Stream::new(context)?;
    let buffers = [uploaded(context, first, &stream)?, uploaded(context, first, &stream)?];
    for number in 0..STEPS {
        let [from, to] = [number % 2, (number + 1) % 2].map(|buffer| buffers[buffer].pointer());
        steps[number % 2].execute(from, to, &stream)?;
    }
    stream.wait(Duration::from_secs(10))?;
    if buffers[0].download(&stream)? != last.to_row_major_bytes()? {
        return Err(format!("{}: something else is left after {STEPS} launches", config.config).into());
    }
    Ok(())
}

fn uploaded(context: &DeviceContext, tensor: &HostTensor, stream: &Stream) -> Result<DeviceBuffer, Failed> {
    let bytes = tensor.to_row_major_bytes()?;
    let mut buffer = DeviceBuffer::new(context, bytes.len(), WORKSPACE_ALIGNMENT)?;
    buffer.upload(&bytes, stream)?;
    Ok(buffer)
}
