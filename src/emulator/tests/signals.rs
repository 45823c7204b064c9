//! Signals of generated kernels: flags come back, and a flag that nobody sets ends the run.

use std::sync::Arc;

use super::{EmulatedKernel, cache_dir, compiler};
use crate::build::Build;
use crate::device::{ComputeCapability, Device};
use crate::engine;
use crate::graph::{
    Attributes, DataType, FinalizedGraph, Graph, Operation, PointwiseMode, Port, Scalar, Signal, SignalMode, Tensor,
    TensorId,
};
use crate::reference::{Distribution, execute, random_inputs};

/// `y = -x` behind a wait for 4 or before a set to 4.
fn signalled(mode: SignalMode) -> Arc<FinalizedGraph> {
    let mut graph = Graph::new()
        .io_data_type(DataType::Float)
        .intermediate_data_type(DataType::Float)
        .compute_data_type(DataType::Float);
    let x = graph.tensor(Tensor::new("x").row_major([1, 3, 40]));
    let flag = graph.tensor(Tensor::new("flag").row_major([1, 1, 1]).data_type(DataType::Int32));
    let negated = graph.pointwise("neg", PointwiseMode::Neg, &[x]);
    let y = graph.tensor(Tensor { is_virtual: false, ..Tensor::new("y") });
    graph.operation(Operation {
        name: "signal".to_owned(),
        attributes: Attributes::Signal(Signal { mode, value: 4 }),
        compute_data_type: None,
        inputs: vec![(Port::X, negated), (Port::FLAG, flag)],
        outputs: vec![(Port::Y, y)],
    });
    Arc::new(graph.finalize().expect("well formed"))
}

/// The graph's kernel; nothing without a compiler.
fn kernel(graph: &Arc<FinalizedGraph>) -> Option<EmulatedKernel> {
    compiler()?;
    let device = Device::typical(ComputeCapability::SM_90);
    let selection = engine::select(graph, device.capability).expect("surface 70 takes it");
    let source = Build::first(&selection, &device).expect("it renders").source;
    // SAFETY: the kernel was written for the graph that it is run for.
    Some(unsafe { EmulatedKernel::compile(&source, &cache_dir()) }.expect("it compiles"))
}

fn flag(graph: &FinalizedGraph) -> TensorId {
    graph.tensor_ids().find(|&id| graph.tensor(id).name == "flag").expect("a flag")
}

#[test]
fn a_flag_that_is_set_is_a_result() {
    let graph = signalled(SignalMode::Set);
    let Some(kernel) = kernel(&graph) else { return };
    let inputs = random_inputs(&graph, 3, Distribution::Normal).unwrap();
    let outputs = kernel.run(&graph, &inputs).unwrap();
    assert_eq!(outputs.keys().copied().collect::<Vec<_>>(), graph.results());
    assert_eq!(outputs, execute(&graph, &inputs).unwrap());
    assert_eq!(outputs[&flag(&graph)].get(0), Some(Scalar::Integer(4)));
}

#[test]
fn a_flag_that_nobody_sets_ends_the_run() {
    let graph = signalled(SignalMode::Wait);
    let Some(kernel) = kernel(&graph) else { return };
    let mut inputs = random_inputs(&graph, 3, Distribution::Normal).unwrap();
    assert_eq!(kernel.run(&graph, &inputs).unwrap(), execute(&graph, &inputs).unwrap());
    inputs.get_mut(&flag(&graph)).unwrap().set(0, Scalar::Integer(3));
    let error = kernel.run(&graph, &inputs).unwrap_err().to_string();
    assert!(error.contains("fw_wait_flag: the flag is 3, waited for is 4; nobody sets it"), "{error}");
}
