//! Tests of the engine, the oracle and the bounds against each other and against hand-made results.

mod attention;
mod attention_backward;
mod block_mask;
mod convolution;
mod dropout;
mod engine;
mod fp8_backward;
mod inputs;
mod matmul;
mod mha;
mod movement;
mod norm;
mod pages;
mod pointwise;
mod pooling;
mod ragged;
mod reduction;
mod resample;
mod softmax;
mod tolerance;

use super::{Distribution, bounds, compare, compare_exact, evaluate_f64, execute, random_inputs};
use crate::graph::{
    Attributes, DataType, FinalizedGraph, Fraction, Graph, Operation, PaddingMode, Port, Resample, ResampleMode,
    Tensor, TensorHandle, TensorId,
};
use crate::host_tensor::{HostTensor, HostTensors};

/// A graph whose types are FLOAT where nothing else is said.
fn float_graph() -> Graph {
    Graph::new()
        .io_data_type(DataType::Float)
        .intermediate_data_type(DataType::Float)
        .compute_data_type(DataType::Float)
}

/// A row-major input.
fn input(graph: &mut Graph, name: &str, dim: &[i64], data_type: DataType) -> TensorHandle {
    graph.tensor(Tensor::new(name).row_major(dim).data_type(data_type))
}

/// Adds an operation of any kind.
fn operation(
    graph: &mut Graph,
    attributes: Attributes,
    inputs: &[(Port, TensorHandle)],
    outputs: &[(Port, TensorHandle)],
) {
    let (inputs, outputs) = (inputs.to_vec(), outputs.to_vec());
    graph.operation(Operation { name: "op".to_owned(), attributes, compute_data_type: None, inputs, outputs });
}

/// A pooling with the padding mode of its mode, and the same padding before and after.
fn pooling(mode: ResampleMode, window: &[i64], stride: &[i64], padding: &[i64]) -> Resample {
    let whole = |values: &[i64]| values.iter().map(|&value| Fraction::whole(value)).collect::<Vec<_>>();
    Resample {
        mode,
        padding_mode: if mode == ResampleMode::Maxpool { PaddingMode::NegInfPad } else { PaddingMode::ZeroPad },
        window: whole(window),
        stride: whole(stride),
        pre_padding: whole(padding),
        post_padding: whole(padding),
        generate_index: None,
        alpha: 1.0,
        beta: 0.0,
    }
}

fn by_name(graph: &FinalizedGraph, name: &str) -> TensorId {
    graph.tensor_ids().find(|&id| graph.tensor(id).name == name).expect("a tensor of this name")
}

/// Inputs by name, each with its row-major values.
fn given(graph: &FinalizedGraph, values: &[(&str, &[f64])]) -> HostTensors {
    let tensor = |(name, values): &(&str, &[f64])| {
        let id = by_name(graph, name);
        let tensor = graph.tensor(id);
        let host = HostTensor::from_dense(tensor.data_type, &tensor.dim, &tensor.stride, values);
        (id, host.expect("a valid tensor"))
    };
    values.iter().map(tensor).collect()
}

/// The values of the only output.
fn output(graph: &FinalizedGraph, inputs: &HostTensors) -> Vec<f64> {
    let outputs = execute(graph, inputs).expect("executes");
    assert_eq!(outputs.len(), 1);
    outputs.values().next().expect("one output").to_dense().expect("valid")
}

/// The oracle's outputs in storage form.
fn oracle(graph: &FinalizedGraph, inputs: &HostTensors) -> HostTensors {
    let dense = evaluate_f64(graph, inputs).expect("evaluates");
    dense.into_iter().map(|(id, dense)| (id, dense.to_host(graph.tensor(id)).expect("valid"))).collect()
}

/// The engine agrees with the oracle within bounds, and exactly on small integers where `is_exact`.
fn assert_agreement(graph: &Graph, is_exact: bool) {
    let graph = graph.finalize().unwrap_or_else(|error| panic!("{error}"));
    for distribution in [Distribution::Normal, Distribution::SmallIntegers] {
        let inputs = random_inputs(&graph, 7, distribution).expect("inputs");
        let (expected, actual) = (oracle(&graph, &inputs), execute(&graph, &inputs).expect("executes"));
        let bounds = bounds(&graph, &inputs).expect("bounds");
        let comparison = compare(&graph, &expected, &actual, Some(&bounds)).expect("comparable");
        assert!(comparison.is_match(), "{distribution:?}\n{comparison}");
        let compared: usize = comparison.outputs.iter().map(|output| output.elements - output.incomparable).sum();
        assert!(compared > 0, "{comparison}");
        if is_exact && distribution == Distribution::SmallIntegers {
            let comparison = compare_exact(&graph, &expected, &actual).expect("comparable");
            assert!(comparison.is_match(), "{comparison}");
        }
    }
}

/// Within 2⁻¹⁶ of a sum of magnitudes.
fn assert_near(found: &[f64], expected: &[f64], magnitude: f64) {
    assert_eq!(found.len(), expected.len());
    for (place, (found, expected)) in found.iter().zip(expected).enumerate() {
        assert!((found - expected).abs() <= magnitude * 2f64.powi(-16), "{place}: {found} for {expected}");
    }
}

/// Derivatives of a function along each element of one of its operands, by central differences in double precision.
fn differences(values: [&[f64]; 3], along: usize, function: impl Fn([&[f64]; 3]) -> f64) -> Vec<f64> {
    const STEP: f64 = 1e-5;
    (0..values[along].len())
        .map(|i| {
            let moved = |step: f64| {
                let mut moved = values[along].to_vec();
                moved[i] += step;
                let mut values = values;
                values[along] = &moved;
                function(values)
            };
            (moved(STEP) - moved(-STEP)) / (2.0 * STEP)
        })
        .collect()
}
