use super::*;
use crate::graph::{Pointwise, PointwiseMode as M, Scalar};

fn inputs_of(data_type: DataType, distribution: Distribution) -> Vec<f64> {
    let mut graph = float_graph();
    let x = input(&mut graph, "x", &[100, 100], data_type);
    let y = graph.pointwise("copy", M::Identity, &[x]);
    graph.set_output(y);
    let graph = graph.finalize().unwrap();
    random_inputs(&graph, 42, distribution).unwrap()[&by_name(&graph, "x")].to_dense().unwrap()
}

#[test]
fn normal_values_are_normal() {
    for data_type in [DataType::Float, DataType::BFloat16, DataType::Fp8E4M3] {
        let values = inputs_of(data_type, Distribution::Normal);
        let mean = values.iter().sum::<f64>() / 1e4;
        let variance = values.iter().map(|x| x * x).sum::<f64>() / 1e4;
        let beyond_two = values.iter().filter(|x| x.abs() > 2.0).count();
        assert!(mean.abs() < 0.05 && (variance - 1.0).abs() < 0.06, "{data_type} {mean} {variance}");
        assert!((300..600).contains(&beyond_two), "{data_type} {beyond_two}");
    }
}

#[test]
fn integers_fill_their_ranges() {
    let cases = [
        (DataType::Int8, Distribution::Normal, -8.0, 7.0),
        (DataType::UInt8, Distribution::Normal, 0.0, 15.0),
        (DataType::Int32, Distribution::Normal, -100.0, 100.0),
        (DataType::Boolean, Distribution::Normal, 0.0, 1.0),
        (DataType::Float, Distribution::SmallIntegers, -2.0, 2.0),
        (DataType::UInt8, Distribution::SmallIntegers, 0.0, 2.0),
    ];
    for (data_type, distribution, low, high) in cases {
        let values = inputs_of(data_type, distribution);
        assert!(values.iter().all(|x| x.fract() == 0.0 && (low..=high).contains(x)), "{data_type}");
        assert!(values.contains(&low) && values.contains(&high), "{data_type}");
    }
}

#[test]
fn values_do_not_depend_on_the_layout() {
    let values = [[1, 7], [9, 1]].map(|stride| {
        let mut graph = float_graph();
        let x = graph.tensor(Tensor::new("x").dim([7, 8]).stride(stride));
        let y = graph.pointwise("copy", M::Identity, &[x]);
        graph.set_output(y);
        let graph = graph.finalize().unwrap();
        let inputs = random_inputs(&graph, 1, Distribution::Normal).unwrap();
        let x = &inputs[&by_name(&graph, "x")];
        assert!(x.gap_bytes_equal(&HostTensor::poisoned(x.data_type, &x.dim, &x.stride).unwrap()));
        x.to_dense::<f64>().unwrap()
    });
    assert_eq!(values[0], values[1]);
}

#[test]
fn seeds_and_tensors_differ() {
    let mut graph = float_graph();
    let x = input(&mut graph, "x", &[1, 8], DataType::Float);
    let z = input(&mut graph, "z", &[1, 8], DataType::Float);
    let y = graph.pointwise("add", M::Add, &[x, z]);
    graph.set_output(y);
    let graph = graph.finalize().unwrap();
    let inputs = [0, 1].map(|seed| random_inputs(&graph, seed, Distribution::Normal).unwrap());
    assert_ne!(inputs[0], inputs[1]);
    assert_ne!(inputs[0][&by_name(&graph, "x")].bytes, inputs[0][&by_name(&graph, "z")].bytes);
}

/// A matmul whose result a clipped RELU_BWD reads, and of which both are outputs.
fn clipped_products() -> FinalizedGraph {
    let mut graph = float_graph();
    let a = input(&mut graph, "a", &[1, 24, 40], DataType::Half);
    let b = input(&mut graph, "b", &[1, 40, 32], DataType::Half);
    let dy = input(&mut graph, "dy", &[1, 24, 32], DataType::Float);
    let c = graph.matmul("mm", a, b);
    graph.set_output(c).name = "c".to_owned();
    let clipped = Pointwise { relu_upper_clip: Some(6.5), ..Pointwise::new(M::ReluBwd) };
    let y = graph.pointwise_with("clipped", clipped, &[dy, c]);
    graph.set_output(y).name = "y".to_owned();
    graph.finalize().unwrap()
}

#[test]
fn products_meet_the_clip_behind_them_and_are_exact_there() {
    let graph = clipped_products();
    let mut met = 0;
    for seed in 0..8 {
        let inputs = random_inputs(&graph, seed, Distribution::Landmarks).unwrap();
        let c: Vec<f64> = execute(&graph, &inputs).unwrap()[&by_name(&graph, "c")].to_dense().unwrap();
        let bounds = bounds(&graph, &inputs).unwrap();
        let bound = |name, position| bounds.at(by_name(&graph, name), position);
        for at_clip in (0..c.len()).filter(|&position| c[position] == 6.5) {
            assert!(bound("c", at_clip) == 0.0 && bound("y", at_clip) < 1e-5, "seed {seed}");
            met += 1;
        }
        assert!((0..c.len()).any(|position| bound("c", position) > 0.0), "sums of many terms round");
    }
    assert!(met > 20, "{met} elements are at the clip");
}

#[test]
fn landmarks_go_back_through_neutral_operands_and_scalars() {
    let mut graph = float_graph();
    let x = input(&mut graph, "x", &[1, 64, 64], DataType::Float);
    let bias = input(&mut graph, "bias", &[1, 1, 64], DataType::Float);
    let half = graph.tensor(Tensor::scalar("half", DataType::Float, Scalar::Float(0.5)));
    let sum = graph.pointwise("sum", M::Add, &[x, bias]);
    let scaled = graph.pointwise("scaled", M::Mul, &[sum, half]);
    let y = graph.pointwise("is", M::CmpEq, &[scaled, bias]);
    graph.set_output(y);
    let stored = graph.pointwise("stored", M::Identity, &[scaled]);
    graph.set_output(stored).data_type = Some(DataType::Int8);
    let graph = graph.finalize().unwrap();
    let x = random_inputs(&graph, 5, Distribution::Landmarks).unwrap();
    let x: Vec<f64> = x[&by_name(&graph, "x")].to_dense().unwrap();
    for place in [0.0, 255.0, 3.0] {
        let count = x.iter().filter(|&&value| value == place).count();
        assert!(count > 20, "{count} times {place}: half of it is a zero, beyond INT8, a tie");
    }
}

#[test]
fn some_tensors_have_one_sign() {
    let mut signs = [0; 2];
    for seed in 0..32 {
        let values = random_inputs(&clipped_products(), seed, Distribution::Landmarks).unwrap();
        let b: Vec<f64> = values.values().nth(1).unwrap().to_dense().unwrap();
        signs[0] += usize::from(b.iter().all(|&x| x >= 0.0));
        signs[1] += usize::from(b.iter().all(|&x| x <= 0.0));
    }
    assert!(signs.iter().all(|&count| (2..16).contains(&count)), "{signs:?} of 32");
}
