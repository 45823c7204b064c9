use super::*;
use crate::graph::PointwiseMode as M;

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
