//! What scales a backward pass: the gradients of scaled heads are those of the heads that they stand for, times what they are stored with.

use std::collections::BTreeMap;

use super::*;
use crate::graph::backward_scaling::{FACTORS, LARGEST};
use crate::graph::{AttentionBackward, Scalar, ScoreMask};

const QUERIES: [i64; 4] = [2, 4, 6, 8];
const KEYS: [i64; 4] = [2, 2, 5, 8];
const SCALE: f64 = 0.5;

/// A causal backward pass of FLOAT heads, two of Q for each of K and V.
fn graph(factors: Option<&BTreeMap<&str, f64>>) -> FinalizedGraph {
    let mut graph = float_graph();
    let rows = [QUERIES[0], QUERIES[1], QUERIES[2], 1];
    let heads = [
        (Port::Q, QUERIES),
        (Port::K, KEYS),
        (Port::V, KEYS),
        (Port::O, QUERIES),
        (Port::DO, QUERIES),
        (Port::STATS, rows),
    ];
    let mut inputs: Vec<(Port, TensorHandle)> =
        heads.map(|(port, dim)| (port, input(&mut graph, port.0, &dim, DataType::Float))).to_vec();
    let number = |graph: &mut Graph, port: Port, value: f64| {
        (port, graph.tensor(Tensor::scalar(port.0, DataType::Float, Scalar::Float(value))))
    };
    inputs.push(number(&mut graph, Port::ATTN_SCALE, SCALE));
    let mut outputs = vec![(Port::DQ, QUERIES), (Port::DK, KEYS), (Port::DV, KEYS)];
    if let Some(factors) = factors {
        inputs.extend(FACTORS.map(|port| number(&mut graph, port, factors[port.0])));
        outputs.extend(LARGEST.map(|port| (port, [1; 4])));
    }
    let mask = ScoreMask { right_bound: Some(0), ..ScoreMask::default() };
    let ports: Vec<Port> = outputs.iter().map(|output| output.0).collect();
    let gradients = graph.composite("pass", AttentionBackward { mask, dropout: None, alibi: false }, &inputs, &ports);
    for (id, (_, dim)) in gradients.into_iter().zip(outputs) {
        *graph.set_output(id) = Tensor::new("").row_major(dim).data_type(DataType::Float);
    }
    graph.finalize().expect("well formed")
}

#[test]
fn scaled_heads_have_the_gradients_of_what_they_stand_for() {
    // powers of two, so that nothing is rounded by them
    let factors: BTreeMap<&str, f64> =
        FACTORS.into_iter().enumerate().map(|(place, port)| (port.0, f64::powi(2.0, place as i32 % 5 - 2))).collect();
    let (scaled, plain) = (graph(Some(&factors)), graph(None));
    let at = |graph: &FinalizedGraph, port: Port| {
        let operation = graph.operations().next().expect("one operation");
        operation.input(port).or(operation.output(port)).expect("a tensor at the port")
    };
    let mut inputs = random_inputs(&plain, 3, Distribution::Normal).expect("inputs");
    let heads = [
        (Port::Q, Some(Port::DESCALE_Q)),
        (Port::K, Some(Port::DESCALE_K)),
        (Port::V, Some(Port::DESCALE_V)),
        (Port::O, Some(Port::DESCALE_O)),
        (Port::DO, Some(Port::DESCALE_DO)),
        (Port::STATS, None),
    ];
    let mut stands_for = HostTensors::new();
    for (port, factor) in heads {
        let host = inputs.remove(&at(&plain, port)).expect("an input");
        let factor = factor.map_or(1.0, |factor| factors[factor.0]);
        let values: Vec<f64> = host.to_dense().expect("values").iter().map(|value: &f64| value / factor).collect();
        let divided = HostTensor::from_dense(DataType::Float, &host.dim, &host.stride, &values).expect("a tensor");
        stands_for.insert(at(&scaled, port), divided);
        inputs.insert(at(&plain, port), host);
    }
    let results =
        [(&scaled, &stands_for), (&plain, &inputs)].map(|(graph, inputs)| execute(graph, inputs).expect("results"));
    let values = |which: usize, port: Port| -> Vec<f64> {
        results[which][&at([&scaled, &plain][which], port)].to_dense().expect("values")
    };
    let product = |ports: &[Port]| ports.iter().map(|port| factors[port.0]).product::<f64>();
    for (gradient, kept, largest, stored) in [
        (Port::DQ, product(&[Port::SCALE_DP, Port::DESCALE_DP]), Port::AMAX_DQ, Port::SCALE_DQ),
        (Port::DK, product(&[Port::SCALE_DP, Port::DESCALE_DP]), Port::AMAX_DK, Port::SCALE_DK),
        (Port::DV, product(&[Port::SCALE_S, Port::DESCALE_S]), Port::AMAX_DV, Port::SCALE_DV),
    ] {
        let of_plain: Vec<f64> = values(1, gradient).into_iter().map(|value| value * kept).collect();
        let of_stored: Vec<f64> = of_plain.iter().map(|value| value * factors[stored.0]).collect();
        assert_near(&values(0, gradient), &of_stored, 4.0);
        let magnitude = of_plain.iter().fold(0.0, |largest: f64, value| largest.max(value.abs()));
        assert!(magnitude > 0.0, "{gradient}");
        assert_near(&values(0, largest), &[magnitude], 4.0);
    }
    assert!(values(0, Port::AMAX_DP)[0] > 0.0);
}
