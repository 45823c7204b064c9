//! Builds a graph with the builder, asks who takes it, computes it, and checks the result by hand.
//!
//! It runs on the first GPU, and on the CPU engine where there is none.

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::sync::Arc;

use fusewright::device::ComputeCapability;
use fusewright::engine::select;
use fusewright::error::Error;
use fusewright::graph::{DataType, FinalizedGraph, Graph, PointwiseMode, Tensor};
use fusewright::harness::run_on_device;
use fusewright::host_tensor::{HostTensor, HostTensors};
use fusewright::reference;
use fusewright::session::{Session, SessionOptions};

/// Rows of A and C, columns of B and C, and what is between them.
const M: usize = 48;
const N: usize = 80;
const K: usize = 64;

fn main() -> Result<(), Error> {
    // 1. Describe y = relu(a·b + bias) in cuDNN's terms; what is not said is inferred.
    let mut graph = Graph::new()
        .io_data_type(DataType::Half)
        .intermediate_data_type(DataType::Float)
        .compute_data_type(DataType::Float);
    let extents = [M, N, K].map(|extent| extent as i64);
    let a = graph.tensor(Tensor::new("a").row_major([1, extents[0], extents[2]]));
    let b = graph.tensor(Tensor::new("b").row_major([1, extents[2], extents[1]]));
    let bias = graph.tensor(Tensor::new("bias").row_major([1, 1, extents[1]]));
    let c = graph.matmul("matmul", a, b);
    let sum = graph.pointwise("add", PointwiseMode::Add, &[c, bias]);
    let y = graph.pointwise("relu", PointwiseMode::ReluFwd, &[sum]);
    graph.set_output(y).name = "y".to_owned();

    // 2. Finalize: checked, completed, in canonical order. The text says what was understood.
    let graph = Arc::new(graph.finalize()?);
    print!("{}", graph.text());

    // 3. Ask. A refusal would list every broken rule of every surface.
    let selection = select(&graph, ComputeCapability::SM_90)?;
    let (engine, surface) = (selection.engine().name(), selection.supported().surface());
    println!("{engine} takes it on surface {surface}");

    // 4. Compute.
    let inputs = inputs(&graph)?;
    let outputs = match run_on_gpu(&graph, &inputs) {
        Ok(outputs) => outputs,
        Err(error) => {
            println!("on the CPU engine: {}", error.to_string().lines().next().unwrap_or_default());
            reference::execute(&graph, &inputs)?
        }
    };

    // 5. Check. The values are small integers, so that every sum is exact in HALF.
    let (id, y) = outputs.first_key_value().expect("the graph has an output");
    let values: Vec<f32> = y.to_dense()?;
    for (position, &found) in values.iter().enumerate() {
        assert_eq!(found, expected(position / N, position % N), "element {position} of {}", graph.describe_tensor(*id));
    }
    println!("{} is right in all {} elements", graph.describe_tensor(*id), values.len());
    Ok(())
}

/// Small integers that depend on the place, for every input, by its name.
fn inputs(graph: &FinalizedGraph) -> Result<HostTensors, Error> {
    let fill = |id| {
        let tensor = graph.tensor(id);
        let value = match tensor.name.as_str() {
            "a" => |position| a(position / K, position % K),
            "b" => |position| b(position / N, position % N),
            _ => bias as fn(usize) -> f32,
        };
        let filled = HostTensor::from_fn(tensor.data_type, &tensor.dim, &tensor.stride, |at| f64::from(value(at)))?;
        Ok((id, filled))
    };
    graph.inputs().map(fill).collect()
}

fn a(row: usize, column: usize) -> f32 {
    ((row + 2 * column) % 5) as f32 - 2.0
}

fn b(row: usize, column: usize) -> f32 {
    ((3 * row + column) % 7) as f32 - 3.0
}

fn bias(column: usize) -> f32 {
    (column % 9) as f32 - 4.0
}

fn expected(row: usize, column: usize) -> f32 {
    let sum: f32 = (0..K).map(|k| a(row, k) * b(k, column)).sum();
    (sum + bias(column)).max(0.0)
}

/// A session chooses, lowers, renders, compiles and loads, or has done so before; the plan is executed on tensors that are
/// made, filled and read back for that.
fn run_on_gpu(graph: &Arc<FinalizedGraph>, inputs: &HostTensors) -> Result<HostTensors, Error> {
    let session = Session::open(0, SessionOptions::default())?;
    let plan = session.plan(graph)?;
    println!("on {} with {}", session.device().name, plan.binary().config());
    run_on_device(plan.execution(), graph, inputs)
}
