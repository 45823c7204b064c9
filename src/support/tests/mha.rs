//! The surfaces of attention whose probabilities lie in memory.

use super::graphs::named;
use super::*;
use crate::graph::{
    Bernoulli, Composite, DataType as T, Dropout, MaskedDropout, PointwiseMode as M, Port, ReductionMode, Reordering,
    Scalar, ScoreMask, ScoreTranspose,
};
use crate::support::family::attention::{MHA_BPROP, MHA_FPROP};

const F: &[At] = &[(MHA_FPROP, 9, 0)];
const B: &[At] = &[(MHA_BPROP, 9, 0)];

pub(super) static SUITES: &[Suite] = &[
    Suite {
        name: "short attention",
        base: forward,
        legal: &[(MHA_FPROP, 9, 0), (MHA_FPROP, 8, 0)],
        pairs: PAIRS,
        rows: &[],
    },
    Suite {
        name: "short attention for inference",
        base: || forward_of([65, 33], 64, false),
        legal: F,
        pairs: INFERENCE_PAIRS,
        rows: &[],
    },
    Suite {
        name: "short attention, backward",
        base: backward,
        legal: &[(MHA_BPROP, 9, 0), (MHA_BPROP, 8, 0)],
        pairs: BACKWARD_PAIRS,
        rows: &[],
    },
];

/// Causal attention of two heads, scaled, whose probabilities are stored: 64 queries, 128 keys.
fn forward() -> Graph {
    forward_of([64, 128], 64, true)
}

fn half() -> Graph {
    Graph::new().io_data_type(T::Half).intermediate_data_type(T::Float).compute_data_type(T::Float)
}

fn turned(name: &str, [rows, columns]: [i64; 2]) -> Tensor {
    named(name, Tensor::new("").dim([2, 2, columns, rows]).stride([2 * rows * columns, rows * columns, 1, columns]))
}

fn forward_of([queries, keys]: [i64; 2], head: i64, is_stored: bool) -> Graph {
    let mut graph = half();
    let q = graph.tensor(named("Q", rows([2, 2, queries, head])));
    let k = graph.tensor(turned("K", [keys, head]));
    let v = graph.tensor(named("V", rows([2, 2, keys, head])));
    let scale = graph.tensor(Tensor::scalar("scale", T::Float, Scalar::Float(0.125)));
    let scores = graph.matmul("scores", q, k);
    let scaled = graph.pointwise("scaled", M::Mul, &[scores, scale]);
    if !is_stored {
        // with a softmax it is flash attention
        graph.tensor_mut(scaled).data_type = Some(T::Half);
        let o = graph.matmul("values", scaled, v);
        *graph.set_output(o) = named("O", rows([2, 2, queries, head]));
        return graph;
    }
    let causal = ScoreMask { right_bound: Some(0), ..ScoreMask::default() };
    let masked = graph.composite("mask", causal, &[(Port::X, scaled)], &[Port::Y])[0];
    let (p, _) = graph.softmax_with("softmax", masked, None, &[]);
    graph.tensor_mut(p).data_type = Some(T::Half);
    store(&mut graph, "S", p, [2, 2, queries, keys]);
    let o = graph.matmul("values", p, v);
    *graph.set_output(o) = named("O", rows([2, 2, queries, head]));
    graph
}

fn store(graph: &mut Graph, name: &str, id: TensorHandle, dim: [i64; 4]) {
    let stored = named(name, rows(dim)).data_type(T::Half);
    *graph.tensor_mut(id) = Tensor { reordering: Reordering::F16x16, ..stored };
}

fn number(graph: &mut Graph, name: &str, data_type: T) -> TensorHandle {
    graph.tensor(named(name, rows([1; 4])).data_type(data_type))
}

/// Puts a dropout between what is stored and what is multiplied.
fn drop(graph: &mut Graph, composite: impl Into<Composite>, slots: &[(Port, TensorHandle)]) {
    let p = graph.op("softmax").outputs[0].1;
    *graph.tensor_mut(p) = Tensor { is_virtual: true, data_type: Some(T::Float), ..Tensor::new("P") };
    let inputs: Vec<_> = [(Port::X, p)].into_iter().chain(slots.iter().copied()).collect();
    let results = graph.composite("dropout", composite, &inputs, &[Port::Y, Port::S]);
    graph.tensor_mut(results[0]).data_type = Some(T::Half);
    store(graph, "dropped S", results[1], [2, 2, 64, 128]);
    graph.op("values").inputs[0].1 = results[0];
}

fn dropped(graph: &mut Graph) {
    let [seed, offset] = ["seed", "offset"].map(|name| number(graph, name, T::Int32));
    let factor = number(graph, "factor", T::Float);
    let slots = [(Port::SEED, seed), (Port::OFFSET, offset), (Port::DROPOUT_SCALE, factor)];
    drop(graph, Dropout { kept: Bernoulli { keep: 0.5 } }, &slots);
}

/// The same with the random numbers stored in a type.
fn dumped(graph: &mut Graph, data_type: T) {
    dropped(graph);
    let dump = graph.tensor(named("dump", rows([2, 2, 64, 128])).data_type(data_type));
    graph.op("dropout").outputs.push((Port::RNG_DUMP, dump));
}

fn masked_by(graph: &mut Graph, data_type: T) {
    let mask = graph.tensor(named("user mask", rows([2, 2, 64, 128])).data_type(data_type));
    let factor = number(graph, "factor", T::Float);
    drop(graph, MaskedDropout, &[(Port::DROPOUT_MASK, mask), (Port::DROPOUT_SCALE, factor)]);
}

/// An operation on scores before they are scaled.
fn with_scores(graph: &mut Graph, mode: M, sides: &[TensorHandle]) {
    let scores = graph.op("scores").outputs[0].1;
    let value = graph.pointwise("value", mode, &[&[scores], sides].concat());
    graph.op("scaled").inputs[0].1 = value;
}

fn with_bias(graph: &mut Graph) {
    let bias = graph.tensor(named("bias", rows([1, 2, 64, 128])));
    with_scores(graph, M::Add, &[bias]);
}

fn with_window(graph: &mut Graph) {
    let mask = ScoreMask { right_bound: Some(0), left_bound: Some(8), is_bottom_right: false };
    graph.op("mask").attributes = Attributes::Composite(mask.into());
}

/// O goes through another operation.
fn with_relu(graph: &mut Graph) {
    let (o, stored) = (graph.id("O"), graph.t("O").clone());
    *graph.tensor_mut(o) = Tensor { is_virtual: true, data_type: Some(T::Half), ..stored.clone() };
    let relu = graph.pointwise("relu", M::ReluFwd, &[o]);
    *graph.set_output(relu) = named("R", stored);
}

/// Queries, or keys, at other strides.
fn spread(graph: &mut Graph, name: &str) {
    let tensor = graph.t(name);
    tensor.stride.iter_mut().for_each(|stride| *stride *= 2);
}

fn computed_in(graph: &mut Graph, name: &str, data_type: T) {
    graph.op(name).compute_data_type = Some(data_type);
}

const PAIRS: &[Pair] = &[
    pair("MHAF-G4", F, |g| with_scores(g, M::TanhFwd, &[]), with_bias),
    pair("MHAF-G4", F, with_window, AS_IS),
    pair("MHAF-G4", F, with_relu, AS_IS),
    pair("MHAF-S-REORDER", F, |g| g.t("S").reordering = Reordering::None, AS_IS),
    pair("MHAF-USERMASK", F, |g| masked_by(g, T::Float), |g| masked_by(g, T::BFloat16)),
    pair("MHAF-MM-COMP", F, |g| computed_in(g, "values", T::Half), AS_IS),
    pair("MHAF-MM-IN", F, |g| g.types(&["V"], T::Float), |g| g.types(&["V"], T::BFloat16)),
    pair("MHAF-MM-OUT", F, |g| g.types(&["O"], T::Int32), |g| g.types(&["O"], T::Float)),
    pair("MHAF-PW-COMP", F, |g| computed_in(g, "scaled", T::Half), AS_IS),
    pair("MHAF-RED", F, |g| g.types(&["mask::Y"], T::Half), AS_IS),
    pair("MHAF-RNG-Y", F, |g| dumped(g, T::Half), |g| dumped(g, T::Float)),
    pair("MHAF-K64", F, |g| *g = forward_of([64, 128], 128, true), AS_IS),
    pair("MHAF-MN512", F, |g| *g = forward_of([64, 576], 64, true), |g| *g = forward_of([512, 512], 64, true)),
    pair("MHAF-SEQ-TRAIN", F, |g| *g = forward_of([64, 96], 64, true), |g| *g = forward_of([64, 192], 64, true)),
    pair("MHAF-STRIDE-QVO", F, |g| spread(g, "V"), AS_IS),
    pair("MHAF-STRIDE-K", F, |g| spread(g, "K"), AS_IS),
    chips("MHAF-CC", &[(MHA_FPROP, 7, 5)], &[(MHA_FPROP, 8, 6), (MHA_FPROP, 8, 9)], AS_IS),
    chips("MHAF-CC", &[(MHA_FPROP, 7, 5)], &[(MHA_FPROP, 8, 6)], dropped),
];

const INFERENCE_PAIRS: &[Pair] = &[pair("MHAF-MN512", F, |g| *g = forward_of([513, 65], 64, false), AS_IS)];

/// The backward pass of the same, with dropout: 64 queries, 128 keys.
fn backward() -> Graph {
    backward_of([64, 128], 64)
}

fn backward_of([queries, keys]: [i64; 2], head: i64) -> Graph {
    let mut g = half();
    let [q, d_o] = ["Q", "dO"].map(|name| g.tensor(named(name, rows([2, 2, queries, head]))));
    let k = g.tensor(named("K", rows([2, 2, keys, head])));
    let v = g.tensor(turned("V", [keys, head]));
    let scores = [2, 2, queries, keys];
    let s = g.tensor(Tensor { reordering: Reordering::F16x16, ..named("S", rows(scores)) });
    let factor = g.tensor(Tensor::scalar("factor", T::Float, Scalar::Float(2.0)));
    let zero = g.tensor(Tensor::scalar("zero", T::Float, Scalar::Float(0.0)));
    let scaled = g.pointwise("S scaled", M::Mul, &[s, factor]);
    let stripped = g.pointwise("S stripped", M::Abs, &[scaled]);
    g.tensor_mut(stripped).data_type = Some(T::Half);
    let first = g.composite("transposed S", ScoreTranspose, &[(Port::X, stripped)], &[Port::Y])[0];
    g.tensor_mut(first).data_type = Some(T::Half);
    let d_v = g.matmul("dV", first, d_o);
    let d_s = g.matmul("dS", d_o, v);
    let p = g.pointwise("P", M::Abs, &[s]);
    let is_kept = g.pointwise("is kept", M::CmpGt, &[s, zero]);
    g.tensor_mut(is_kept).data_type = Some(T::Boolean);
    let x = g.pointwise("dS scaled", M::Mul, &[d_s, factor]);
    let x = g.pointwise("dS kept", M::BinarySelect, &[x, zero, is_kept]);
    let product = g.pointwise("t", M::Mul, &[p, x]);
    let sum = g.reduction("r", ReductionMode::Add, product, [2, 2, queries, 1]);
    let difference = g.pointwise("u", M::Sub, &[x, sum]);
    let d_p = g.pointwise("v", M::Mul, &[p, difference]);
    store(&mut g, "dP", d_p, scores);
    let second = g.composite("transposed dP", ScoreTranspose, &[(Port::X, d_p)], &[Port::Y])[0];
    g.tensor_mut(second).data_type = Some(T::Half);
    let d_q = g.matmul("dQ", d_p, k);
    let d_k = g.matmul("dK", second, q);
    for (name, id, length) in [("dQ", d_q, queries), ("dK", d_k, keys), ("dV", d_v, keys)] {
        *g.set_output(id) = named(name, rows([2, 2, length, head]));
    }
    g
}

/// What the softmax's gradient is made of goes through another operation.
fn with_gradients(graph: &mut Graph, mode: M) {
    let d_s = graph.op("dS").outputs[0].1;
    let value = graph.pointwise("value", mode, &[d_s]);
    graph.op("dS scaled").inputs[0].1 = value;
}

/// Gradients of scores added up to other extents.
fn with_bias_gradient(graph: &mut Graph, dim: [i64; 4]) {
    let d_p = graph.id("dP");
    let sum = graph.reduction("dBias", ReductionMode::Add, d_p, dim);
    *graph.set_output(sum) = named("dBias", rows(dim)).data_type(T::Float);
}

const BACKWARD_PAIRS: &[Pair] = &[
    pair("MHAB-FIXED", B, |g| with_gradients(g, M::TanhFwd), |g| with_gradients(g, M::Abs)),
    pair("MHAB-FIXED", B, |g| with_bias_gradient(g, [2, 1, 64, 128]), |g| with_bias_gradient(g, [1, 2, 64, 128])),
    pair("MHAB-MM-COMP", B, |g| computed_in(g, "dQ", T::Half), AS_IS),
    pair("MHAB-MM-IN", B, |g| g.types(&["K"], T::Float), |g| g.types(&["K"], T::BFloat16)),
    pair("MHAB-MM-OUT", B, |g| g.types(&["dQ"], T::Int32), |g| g.types(&["dQ"], T::Float)),
    pair("MHAB-PW", B, |g| computed_in(g, "u", T::Half), AS_IS),
    pair("MHAB-RED", B, |g| computed_in(g, "r", T::Half), AS_IS),
    pair("MHAB-K2", B, |g| *g = backward_of([64, 128], 128), AS_IS),
    pair("MHAB-K512", B, |g| *g = backward_of([64, 96], 64), |g| *g = backward_of([64, 192], 64)),
    pair("MHAB-K512", B, |g| *g = backward_of([576, 64], 64), |g| *g = backward_of([512, 512], 64)),
    pair("MHAB-STRIDE", B, |g| spread(g, "dO"), AS_IS),
    pair("MHAB-REORDER", B, |g| g.t("dP").reordering = Reordering::None, AS_IS),
    chips("MHAF-CC", &[(MHA_BPROP, 7, 5)], &[(MHA_BPROP, 8, 6), (MHA_BPROP, 8, 9)], AS_IS),
];
