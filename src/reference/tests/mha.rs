//! Attention whose probabilities lie in memory: which entries are dropped their signs tell, forward and backward.

use super::*;
use crate::graph::{Bernoulli, Dropout, MaskedDropout, PointwiseMode as M, ReductionMode, Scalar, ScoreTranspose};

const DIM: [i64; 4] = [1, 2, 3, 8];

fn elements() -> usize {
    DIM.iter().product::<i64>() as usize
}

/// What is dropped of these values, with S, of a composite and its further inputs.
fn dropped(graph: &FinalizedGraph, x: &[f64], others: &[(&str, &[f64])]) -> [Vec<f64>; 2] {
    let inputs = given(graph, &[&[("x", x)], others].concat());
    let results = execute(graph, &inputs).unwrap();
    let bounds = bounds(graph, &inputs).unwrap();
    let comparison = compare(graph, &oracle(graph, &inputs), &results, Some(&bounds)).unwrap();
    assert!(comparison.is_match(), "{comparison}");
    ["d::Y", "d::S"].map(|name| results[&by_name(graph, name)].to_dense::<f64>().unwrap())
}

#[test]
fn dropped_probabilities_are_stored_with_their_sign() {
    let mut graph = float_graph();
    let x = input(&mut graph, "x", &DIM, DataType::Float);
    let [seed, offset] = ["seed", "offset"].map(|name| input(&mut graph, name, &[1; 4], DataType::Int64));
    let scale = graph.tensor(Tensor::scalar("scale", DataType::Float, Scalar::Float(2.0)));
    let slots = [(Port::X, x), (Port::SEED, seed), (Port::OFFSET, offset), (Port::DROPOUT_SCALE, scale)];
    for id in graph.composite("d", Dropout { kept: Bernoulli { keep: 0.5 } }, &slots, &[Port::Y, Port::S]) {
        graph.set_output(id);
    }
    let graph = graph.finalize().unwrap();
    // a zero that is dropped is -0
    let x: Vec<f64> = (0..elements()).map(|at| if at % 5 == 0 { 0.0 } else { at as f64 / 64.0 }).collect();
    let [y, s] = dropped(&graph, &x, &[("seed", &[3.0]), ("offset", &[1.0])]);
    let kept = s.iter().filter(|s| s.is_sign_positive()).count();
    assert!(kept > 0 && kept < elements(), "{kept} are kept");
    for ((x, y), s) in x.into_iter().zip(y).zip(s) {
        assert_eq!((s.abs(), y), (x, if s.is_sign_positive() { 2.0 * x } else { 0.0 }));
    }
}

#[test]
fn a_mask_of_the_callers_is_stored_by_signs() {
    let mut graph = float_graph();
    let x = input(&mut graph, "x", &DIM, DataType::Float);
    let mask = input(&mut graph, "mask", &[1, 1, 3, 8], DataType::Float);
    let scale = graph.tensor(Tensor::scalar("scale", DataType::Float, Scalar::Float(2.0)));
    let slots = [(Port::X, x), (Port::DROPOUT_MASK, mask), (Port::DROPOUT_SCALE, scale)];
    for id in graph.composite("d", MaskedDropout, &slots, &[Port::Y, Port::S]) {
        graph.set_output(id);
    }
    let graph = graph.finalize().unwrap();
    let x: Vec<f64> = (0..elements()).map(|at| at as f64).collect();
    let mask: Vec<f64> = (0..24).map(|at| f64::from(at % 3 != 0)).collect();
    let [y, s] = dropped(&graph, &x, &[("mask", &mask)]);
    for (at, x) in x.into_iter().enumerate() {
        let kept = mask[at % 24];
        assert_eq!((y[at], s[at], s[at].is_sign_negative()), (2.0 * x * kept, x * (2.0 * kept - 1.0), kept == 0.0));
    }
}

/// Gradients of one row: the softmax's, of what its dropout kept.
#[test]
fn gradients_are_those_of_what_was_kept() {
    const KEYS: usize = 4;
    let (scale, factor) = (0.5, 2.0);
    let mut graph = float_graph();
    let row = |graph: &mut Graph, name: &str, columns: i64| input(graph, name, &[1, 1, 1, columns], DataType::Float);
    let [q, d_o] = ["Q", "dO"].map(|name| row(&mut graph, name, 1));
    let k = input(&mut graph, "K", &[1, 1, KEYS as i64, 1], DataType::Float);
    let (v, s) = (row(&mut graph, "V", KEYS as i64), row(&mut graph, "S", KEYS as i64));
    let [scaled, dropped, zero] = [("scale", scale), ("factor", factor), ("zero", 0.0)]
        .map(|(name, value)| graph.tensor(Tensor::scalar(name, DataType::Float, Scalar::Float(value))));
    let x = graph.pointwise("scaled", M::Mul, &[s, dropped]);
    let x = graph.pointwise("stripped", M::Abs, &[x]);
    let x = graph.composite("turned", ScoreTranspose, &[(Port::X, x)], &[Port::Y])[0];
    let d_v = graph.matmul("dV", x, d_o);
    let d_s = graph.matmul("dS", d_o, v);
    let p = graph.pointwise("P", M::Abs, &[s]);
    let kept = graph.pointwise("kept", M::CmpGt, &[s, zero]);
    let x = graph.pointwise("x", M::Mul, &[d_s, dropped]);
    let x = graph.pointwise("kept x", M::BinarySelect, &[x, zero, kept]);
    let t = graph.pointwise("t", M::Mul, &[p, x]);
    let sum = graph.reduction("r", ReductionMode::Add, t, [1, 1, 1, 1]);
    let u = graph.pointwise("u", M::Sub, &[x, sum]);
    let gradient = graph.pointwise("v", M::Mul, &[p, u]);
    let d_p = graph.pointwise("dP", M::Mul, &[gradient, scaled]);
    let turned = graph.composite("turned dP", ScoreTranspose, &[(Port::X, d_p)], &[Port::Y])[0];
    let [d_q, d_k] = [graph.matmul("dQ", d_p, k), graph.matmul("dK", turned, q)];
    for (name, id) in [("dV out", d_v), ("dQ out", d_q), ("dK out", d_k), ("dP out", d_p)] {
        graph.set_output(id).name = name.to_owned();
    }
    let graph = graph.finalize().unwrap();
    let (of_q, of_o) = (3.0, 2.0);
    let (of_k, of_v) = ([1.0, -2.0, 0.5, 4.0], [1.0, 2.0, -1.0, 8.0]);
    // the second and the last entry are dropped; the last is -0
    let of_s = [0.5, -0.25, 0.25, -0.0];
    let inputs = given(&graph, &[("Q", &[of_q]), ("dO", &[of_o]), ("K", &of_k), ("V", &of_v), ("S", &of_s)]);
    let results = execute(&graph, &inputs).unwrap();
    let read = |name: &str| results[&by_name(&graph, name)].to_dense::<f64>().unwrap();
    let kept: [f64; KEYS] = of_s.map(|s: f64| if s > 0.0 { factor } else { 0.0 });
    let x: [f64; KEYS] = std::array::from_fn(|key| kept[key] * of_o * of_v[key]);
    let sum: f64 = (0..KEYS).map(|key| of_s[key].abs() * x[key]).sum();
    let d_p: [f64; KEYS] = std::array::from_fn(|key| of_s[key].abs() * (x[key] - sum) * scale);
    assert_eq!(read("dP out"), d_p);
    assert_eq!(read("dV out"), std::array::from_fn::<f64, KEYS, _>(|key| of_s[key].abs() * kept[key] * of_o));
    assert_eq!(read("dQ out"), [(0..KEYS).map(|key| d_p[key] * of_k[key]).sum::<f64>()]);
    assert_eq!(read("dK out"), d_p.map(|value| value * of_q));
}
