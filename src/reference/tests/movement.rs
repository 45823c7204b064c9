//! Concatenations and signals.

use super::*;
use crate::error::Error;
use crate::graph::{Concat, PointwiseMode as M, Scalar, Signal, SignalMode};
use crate::reference::{required_inputs, shrink};

fn joined(axis: i64, dims: [[i64; 4]; 3], data_type: DataType, is_channels_last: bool) -> Graph {
    let mut graph = float_graph().io_data_type(data_type);
    let inputs = dims.map(|dim| {
        let tensor = Tensor::new(format!("x{}", dim[axis as usize]));
        graph.tensor(if is_channels_last { tensor.channels_last(dim) } else { tensor.row_major(dim) })
    });
    let y = graph.concatenate("join", axis, &inputs);
    graph.set_output(y);
    graph
}

#[test]
fn concatenation_by_hand() {
    let mut graph = float_graph();
    let [a, b] = [("a", 1), ("b", 2)].map(|(name, extent)| input(&mut graph, name, &[2, extent, 2], DataType::Float));
    let y = graph.concatenate("join", 1, &[a, b]);
    graph.set_output(y);
    let graph = graph.finalize().unwrap();
    let b: Vec<f64> = (10..18).map(f64::from).collect();
    let inputs = given(&graph, &[("a", &[1.0, 2.0, 3.0, 4.0]), ("b", &b)]);
    let expected = [1.0, 2.0, 10.0, 11.0, 12.0, 13.0, 3.0, 4.0, 14.0, 15.0, 16.0, 17.0];
    assert_eq!(output(&graph, &inputs), expected);
    assert_eq!(oracle(&graph, &inputs), execute(&graph, &inputs).unwrap());
}

#[test]
fn every_axis_type_and_layout() {
    for axis in 0..4 {
        let dims = [3, 1, 5].map(|extent| {
            let mut dim = [2, 8, 3, 4];
            dim[axis as usize] = extent;
            dim
        });
        for data_type in crate::host_tensor::HOST_TYPES {
            for is_channels_last in [true, false] {
                assert_agreement(&joined(axis, dims, data_type, is_channels_last), true);
            }
        }
    }
}

#[test]
fn large_integers_and_odd_bits_are_moved_as_they_are() {
    let graph = joined(0, [[1, 1, 1, 1], [2, 1, 1, 1], [3, 1, 1, 1]], DataType::Int64, true).finalize().unwrap();
    let mut inputs = random_inputs(&graph, 0, Distribution::Normal).unwrap();
    inputs.get_mut(&by_name(&graph, "x1")).unwrap().set(0, Scalar::Integer(i64::MAX - 1)).unwrap();
    let outputs = execute(&graph, &inputs).unwrap();
    assert_eq!(outputs.values().next().unwrap().to_dense::<i64>().unwrap()[0], i64::MAX - 1);
    let graph = joined(3, [[1, 1, 1, 3], [1, 1, 1, 1], [1, 1, 1, 5]], DataType::Boolean, true).finalize().unwrap();
    let bits = given(&graph, &[("x3", &[1.0, 0.0, 1.0]), ("x1", &[1.0]), ("x5", &[0.0, 1.0, 0.0, 0.0, 1.0])]);
    assert_eq!(output(&graph, &bits), [1.0, 0.0, 1.0, 1.0, 0.0, 1.0, 0.0, 0.0, 1.0]);
}

#[test]
fn an_input_that_lies_in_the_output_is_an_input_all_the_same() {
    let mut graph = float_graph();
    let [a, b] = ["a", "b"].map(|name| input(&mut graph, name, &[1, 2], DataType::Float));
    let y = graph.concatenate("join", 0, &[a, b]);
    graph.last_operation().attributes = Attributes::Concat(Concat { axis: 0, in_place_index: Some(1) });
    graph.set_output(y);
    let graph = graph.finalize().unwrap();
    assert_eq!(output(&graph, &given(&graph, &[("a", &[1.0, 2.0]), ("b", &[3.0, 4.0])])), [1.0, 2.0, 3.0, 4.0]);
}

#[test]
fn errors_of_operands_are_joined_as_values_are() {
    let mut graph = float_graph();
    let [a, b] = ["a", "b"].map(|name| input(&mut graph, name, &[1, 2], DataType::Float));
    let exp = graph.pointwise("exp", M::Exp, &[a]);
    let y = graph.concatenate("join", 1, &[b, exp]);
    graph.set_output(y);
    assert_agreement(&graph, false);
    let graph = graph.finalize().unwrap();
    let bounds = bounds(&graph, &random_inputs(&graph, 0, Distribution::Normal).unwrap()).unwrap();
    let id = graph.outputs().next().unwrap();
    assert_eq!([0, 1, 2, 3].map(|i| bounds.at(id, i) > 0.0), [false, false, true, true]);
}

/// `y = -x`, signalled, with a flag of this type.
fn signalled(mode: SignalMode, value: i64, flag: DataType) -> Graph {
    let mut graph = float_graph();
    let x = input(&mut graph, "x", &[2, 3], DataType::Half);
    let flag = graph.tensor(Tensor::new("flag").row_major([1]).data_type(flag));
    let negated = graph.pointwise("neg", M::Neg, &[x]);
    let y = graph.tensor(Tensor::new("y"));
    let attributes = Attributes::Signal(Signal { mode, value });
    operation(&mut graph, attributes, &[(Port::X, negated), (Port::FLAG, flag)], &[(Port::Y, y)]);
    graph
}

#[test]
fn set_passes_x_through_and_raises_the_flag() {
    let graph = signalled(SignalMode::Set, 7, DataType::Int32).finalize().unwrap();
    let flag = by_name(&graph, "flag");
    assert_eq!(graph.results().len(), 2);
    let inputs = random_inputs(&graph, 0, Distribution::Normal).unwrap();
    let outputs = execute(&graph, &inputs).unwrap();
    assert_eq!(outputs[&flag].to_dense::<i64>().unwrap(), [7]);
    assert_ne!(inputs[&flag].to_dense::<i64>().unwrap(), [7], "a flag that is not set is seen");
    assert!(compare_exact(&graph, &oracle(&graph, &inputs), &outputs).unwrap().is_match());
    let mut unset = outputs.clone();
    unset.insert(flag, inputs[&flag].clone());
    assert!(!compare(&graph, &outputs, &unset, Some(&bounds(&graph, &inputs).unwrap())).unwrap().is_match());
    unset.remove(&flag);
    assert!(compare_exact(&graph, &outputs, &unset).is_err());
}

#[test]
fn wait_passes_x_through_once_the_flag_has_the_value() {
    let graph = signalled(SignalMode::Wait, -3, DataType::Int32);
    assert_agreement(&graph, true);
    let graph = graph.finalize().unwrap();
    assert_eq!(graph.results(), graph.outputs().collect::<Vec<_>>());
    let mut inputs = random_inputs(&graph, 0, Distribution::Normal).unwrap();
    inputs.get_mut(&by_name(&graph, "flag")).unwrap().set(0, Scalar::Integer(-2)).unwrap();
    for error in [
        execute(&graph, &inputs).unwrap_err(),
        evaluate_f64(&graph, &inputs).unwrap_err(),
        bounds(&graph, &inputs).unwrap_err(),
    ] {
        assert!(matches!(error, Error::Input { .. }));
        let text = error.to_string();
        assert!(
            text.contains("'flag'") && text.contains("the flag is -2, but operation 'op' (SIGNAL) waits for -3"),
            "{text}"
        );
    }
}

#[test]
fn a_signal_may_have_no_result() {
    let mut graph = float_graph();
    let x = input(&mut graph, "x", &[2, 3], DataType::Float);
    let flag = input(&mut graph, "flag", &[1], DataType::Int64);
    let y = graph.pointwise("neg", M::Neg, &[x]);
    graph.set_output(y);
    operation(
        &mut graph,
        Attributes::Signal(Signal { mode: SignalMode::Set, value: 1 << 40 }),
        &[(Port::X, y), (Port::FLAG, flag)],
        &[],
    );
    assert_agreement(&graph, true);
    let graph = graph.finalize().unwrap();
    let outputs = execute(&graph, &random_inputs(&graph, 0, Distribution::Normal).unwrap()).unwrap();
    assert_eq!(outputs[&by_name(&graph, "flag")].to_dense::<i64>().unwrap(), [1 << 40]);
}

#[test]
fn one_flag_can_be_waited_for_and_then_set() {
    let mut graph = signalled(SignalMode::Wait, 1, DataType::Int32);
    let [flag, y] =
        ["flag", "y"].map(|name| graph.tensor_ids().find(|id| graph.tensors()[id.index()].name == name).unwrap());
    let z = graph.tensor(Tensor::new("z"));
    operation(
        &mut graph,
        Attributes::Signal(Signal { mode: SignalMode::Set, value: 2 }),
        &[(Port::X, y), (Port::FLAG, flag)],
        &[(Port::Y, z)],
    );
    assert_agreement(&graph, true);
    let graph = graph.finalize().unwrap();
    let inputs = random_inputs(&graph, 0, Distribution::Normal).unwrap();
    let flag = by_name(&graph, "flag");
    assert_eq!(inputs[&flag].to_dense::<i64>().unwrap(), [1]);
    assert_eq!(execute(&graph, &inputs).unwrap()[&flag].to_dense::<i64>().unwrap(), [2]);
    assert!(required_inputs(&graph).contains(&flag));
}

#[test]
fn flags_that_cannot_have_the_value_are_refused() {
    for (value, flag, fits) in [
        (127, DataType::Int8, true),
        (128, DataType::Int8, false),
        (255, DataType::UInt8, true),
        (i64::from(i32::MAX), DataType::Int32, true),
        (i64::from(i32::MAX) + 1, DataType::Int32, false),
        (1, DataType::Float, false),
    ] {
        let graph = signalled(SignalMode::Wait, value, flag).finalize().unwrap();
        let result = execute(&graph, &random_inputs(&graph, 0, Distribution::Normal).unwrap());
        assert_eq!(result.is_ok(), fits, "{value} {flag}");
    }
}

#[test]
fn results_of_the_graph_are_no_flags() {
    let mut graph = float_graph();
    let x = input(&mut graph, "x", &[1], DataType::Int32);
    let y = graph.pointwise("copy", M::Identity, &[x]);
    graph.set_output(y).data_type = Some(DataType::Int32);
    let z = graph.tensor(Tensor::new("z").data_type(DataType::Int32));
    let set = Attributes::Signal(Signal { mode: SignalMode::Set, value: 2 });
    operation(&mut graph, set, &[(Port::X, x), (Port::FLAG, y)], &[(Port::Y, z)]);
    let graph = graph.finalize().unwrap();
    let error = execute(&graph, &random_inputs(&graph, 0, Distribution::Normal).unwrap()).unwrap_err();
    assert!(error.to_string().contains("a host scalar or a result"), "{error}");
}

#[test]
fn other_axes_than_the_joined_one_shrink() {
    let large = joined(1, [[64, 48, 256, 32], [64, 64, 256, 32], [64, 16, 256, 32]], DataType::Half, true);
    let large = large.finalize().unwrap();
    let elements =
        |graph: &FinalizedGraph| graph.tensors().map(|tensor| tensor.dim.iter().product::<i64>()).sum::<i64>();
    let small = shrink(&large, |graph| elements(graph) <= 1 << 16, |_| true).unwrap().graph;
    let y = &small.tensor(small.outputs().next().unwrap()).dim;
    assert_eq!(y[1], 128);
    assert!(elements(&small) <= 1 << 16, "{y:?}");
}

#[test]
fn batch_and_channels_of_a_pooling_shrink() {
    let mut graph = float_graph();
    let x = graph.tensor(Tensor::new("x").channels_last([64, 256, 28, 28]));
    let scale = graph.tensor(Tensor::new("scale").channels_last([1, 256, 1, 1]));
    let scaled = graph.pointwise("mul", M::Mul, &[x, scale]);
    let y = graph.resample("pool", pooling(ResampleMode::Maxpool, &[3, 3], &[2, 2], &[1, 1]), scaled);
    graph.set_output(y);
    let large = graph.finalize().unwrap();
    let elements =
        |graph: &FinalizedGraph| graph.tensors().map(|tensor| tensor.dim.iter().product::<i64>()).sum::<i64>();
    let small = shrink(&large, |graph| elements(graph) <= 1 << 16, |_| true).unwrap().graph;
    let [x, scale, y] = [by_name(&small, "x"), by_name(&small, "scale"), small.outputs().next().unwrap()]
        .map(|id| small.tensor(id).dim.clone());
    assert_eq!((&x[2..], &y[2..]), (&[28, 28][..], &[14, 14][..]));
    assert_eq!((&x[..2], scale[1]), (&y[..2], y[1]));
    assert!(elements(&small) <= 1 << 16, "{x:?}");
}
