//! Causal attention whose queries share heads of keys and values, and whose scores are capped: `cap · tanh(scores / cap)`.
//!
//! Operations on scores are the graph's own, and become part of the one kernel that there is. It runs on the first GPU, and on the CPU
//! engine where there is none.

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::sync::Arc;

use fusewright::device::ComputeCapability;
use fusewright::engine::select;
use fusewright::error::Error;
use fusewright::graph::{DataType, FinalizedGraph, Graph, PointwiseMode, Port, Scalar, ScoreMask, Tensor};
use fusewright::harness::run_on_device;
use fusewright::host_tensor::HostTensors;
use fusewright::reference::{self, Distribution};
use fusewright::session::{Session, SessionOptions};

const BATCHES: i64 = 2;
/// Heads of queries, and of keys and values.
const HEADS: i64 = 8;
const KEY_HEADS: i64 = 2;
/// Queries and keys, and elements of a head.
const LENGTH: i64 = 96;
const HEAD: i64 = 64;
const CAP: f64 = 20.0;

fn main() -> Result<(), Error> {
    // 1. Describe it: scores, what is done with them, their mask and softmax, and the product with V.
    let mut graph = Graph::new()
        .io_data_type(DataType::Half)
        .intermediate_data_type(DataType::Float)
        .compute_data_type(DataType::Float);
    let q = graph.tensor(Tensor::new("Q").row_major([BATCHES, HEADS, LENGTH, HEAD]));
    let heads_of_keys = [KEY_HEADS * LENGTH * HEAD, LENGTH * HEAD, 1, HEAD];
    let k = graph.tensor(Tensor::new("K").dim([BATCHES, KEY_HEADS, HEAD, LENGTH]).stride(heads_of_keys));
    let v = graph.tensor(Tensor::new("V").row_major([BATCHES, KEY_HEADS, LENGTH, HEAD]));
    let number = |value: f64| Tensor::scalar("", DataType::Float, Scalar::Float(value));
    let [scale, inverse, cap] =
        [(HEAD as f64).sqrt().recip(), CAP.recip(), CAP].map(|value| graph.tensor(number(value)));
    let mut scores = graph.matmul("scores", q, k);
    for (name, factor) in [("scaled", scale), ("in caps", inverse)] {
        scores = graph.pointwise(name, PointwiseMode::Mul, &[scores, factor]);
    }
    let bent = graph.pointwise("bent", PointwiseMode::TanhFwd, &[scores]);
    let capped = graph.pointwise("capped", PointwiseMode::Mul, &[bent, cap]);
    let causal = ScoreMask { right_bound: Some(0), ..ScoreMask::default() };
    let masked = graph.composite("mask", causal, &[(Port::X, capped)], &[Port::Y])[0];
    let (p, statistics) = graph.softmax_with("softmax", masked, None, &[Port::STATS]);
    graph.tensor_mut(p).data_type = Some(DataType::Half);
    graph.set_output(statistics[0]).name = "Stats".to_owned();
    let o = graph.matmul("values", p, v);
    graph.set_output(o).name = "O".to_owned();
    let graph = Arc::new(graph.finalize()?);
    print!("{}", graph.text());

    // 2. Ask who takes it: one kernel for all of it.
    let selection = select(&graph, ComputeCapability::SM_90)?;
    println!("{} takes it on surface {}", selection.engine().name(), selection.supported().surface());

    // 3. Compute, and compare with double precision within the bounds that rounding has.
    let inputs = reference::random_inputs(&graph, 0, Distribution::Normal)?;
    let outputs = match run_on_gpu(&graph, &inputs) {
        Ok(outputs) => outputs,
        Err(error) => {
            println!("on the CPU engine: {}", error.to_string().lines().next().unwrap_or_default());
            reference::execute(&graph, &inputs)?
        }
    };
    let exact = reference::evaluate_f64(&graph, &inputs)?;
    let rounded = exact.into_iter().map(|(id, values)| Ok((id, values.to_host(graph.tensor(id))?)));
    let expected = rounded.collect::<Result<HostTensors, Error>>()?;
    let bounds = reference::bounds(&graph, &inputs)?;
    let comparison = reference::compare(&graph, &expected, &outputs, Some(&bounds))?;
    assert!(comparison.is_match(), "{comparison}");
    println!("O and the statistics of {} queries are right", BATCHES * HEADS * LENGTH);
    Ok(())
}

/// As in the first example: a session chooses, compiles and loads, the plan is executed.
fn run_on_gpu(graph: &Arc<FinalizedGraph>, inputs: &HostTensors) -> Result<HostTensors, Error> {
    let session = Session::open(0, SessionOptions::default())?;
    let plan = session.plan(graph)?;
    println!("on {} with {}", session.device().name, plan.binary().config());
    run_on_device(plan.execution(), graph, inputs)
}
