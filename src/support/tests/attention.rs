//! The surfaces of flash attention.

use super::graphs::named;
use super::*;
use crate::graph::backward_scaling::{FACTORS, LARGEST};
use crate::graph::{
    AttentionBackward, Attributes, Bernoulli, Composite, DataType as T, Dropout, PagedCacheLoad, PointwiseMode as M,
    Port, ReductionMode, Scalar, ScoreMask,
};
use crate::support::family::attention::{FLASH_BPROP, FLASH_FPROP, FP8_FLASH_BPROP, FP8_FLASH_FPROP};

const F: &[At] = &[(FLASH_FPROP, 9, 0)];
const P: &[At] = &[(FP8_FLASH_FPROP, 9, 0)];
const B: &[At] = &[(FLASH_BPROP, 9, 0)];
const PB: &[At] = &[(FP8_FLASH_BPROP, 9, 0)];

pub(super) static SUITES: &[Suite] = &[
    Suite {
        name: "flash attention",
        base: flash,
        legal: &[(FLASH_FPROP, 9, 0), (FLASH_FPROP, 8, 0)],
        pairs: PAIRS,
        rows: &[],
    },
    Suite {
        name: "flash attention of large heads",
        base: || flash_of(256, 256),
        legal: F,
        pairs: LARGE_PAIRS,
        rows: &[],
    },
    Suite {
        name: "flash attention of pages",
        base: paged,
        legal: &[(FLASH_FPROP, 9, 0), (FLASH_FPROP, 8, 0)],
        pairs: PAGED_PAIRS,
        rows: &[],
    },
    Suite { name: "flash attention in FP8", base: || fp8_of(64, 64), legal: P, pairs: FP8_PAIRS, rows: &[] },
    Suite {
        name: "flash attention, backward",
        base: || backward_of(64, 64),
        legal: &[(FLASH_BPROP, 9, 0), (FLASH_BPROP, 8, 0)],
        pairs: BACKWARD_PAIRS,
        rows: BACKWARD_ROWS,
    },
    Suite {
        name: "flash attention in FP8, backward",
        base: || fp8_backward_of(128, 128),
        legal: PB,
        pairs: FP8_BACKWARD_PAIRS,
        rows: FP8_BACKWARD_ROWS,
    },
    Suite {
        name: "flash attention of large heads, backward",
        base: || backward_of(256, 256),
        legal: B,
        pairs: LARGE_BACKWARD_PAIRS,
        rows: &[],
    },
];

/// Causal attention of two heads for each of K and V, scaled, with statistics: 16 queries, 24 keys.
fn flash() -> Graph {
    flash_of(64, 64)
}

fn flash_of(head: i64, value_head: i64) -> Graph {
    let mut graph = Graph::new().io_data_type(T::Half).intermediate_data_type(T::Float).compute_data_type(T::Float);
    let q = graph.tensor(named("Q", rows([2, 4, 16, head])));
    let k = graph.tensor(named("K", Tensor::new("").dim([2, 2, head, 24]).stride([48 * head, 24 * head, 1, head])));
    let v = graph.tensor(named("V", rows([2, 2, 24, value_head])));
    let scale = graph.tensor(Tensor::scalar("scale", T::Float, Scalar::Float(0.125)));
    let scores = graph.matmul("scores", q, k);
    let scaled = graph.pointwise("scaled", M::Mul, &[scores, scale]);
    let causal = ScoreMask { right_bound: Some(0), ..ScoreMask::default() };
    let masked = graph.composite("mask", causal, &[(Port::X, scaled)], &[Port::Y])[0];
    let (p, statistics) = graph.softmax_with("softmax", masked, None, &[Port::STATS]);
    graph.tensor_mut(p).data_type = Some(T::Half);
    *graph.set_output(statistics[0]) = named("Stats", rows([2, 4, 16, 1])).data_type(T::Float);
    let o = graph.matmul("values", p, v);
    *graph.set_output(o) = named("O", rows([2, 4, 16, value_head]));
    graph
}

/// The same in FP8, with what scales it.
fn fp8_of(head: i64, value_head: i64) -> Graph {
    let mut g = flash_of(head, value_head);
    g.types(&["Q", "K", "V", "O"], T::Fp8E4M3);
    let numbers = ["descale_q", "descale_k", "scale_s", "descale_s", "descale_v", "scale_o"]
        .map(|name| g.tensor(named(name, rows([1; 4])).data_type(T::Float)));
    let [descale_q, descale_k, scale_s, descale_s, descale_v, scale_o] = numbers;
    let times = |g: &mut Graph, x, factor| g.pointwise("times", M::Mul, &[x, factor]);
    let scaled = g.op("scaled").outputs[0].1;
    let scores = times(&mut g, scaled, descale_q);
    let scores = times(&mut g, scores, descale_k);
    g.op("mask").inputs[0].1 = scores;
    let p = g.op("softmax").outputs[0].1;
    g.tensor_mut(p).data_type = Some(T::Float);
    let multiplied = times(&mut g, p, scale_s);
    g.tensor_mut(multiplied).data_type = Some(T::Fp8E4M3);
    let largest = |g: &mut Graph, name: &str, x| {
        let y = g.reduction(name, ReductionMode::Amax, x, [1; 4]);
        *g.set_output(y) = named(name, rows([1; 4])).data_type(T::Float);
    };
    largest(&mut g, "amax_s", p);
    g.op("values").inputs[0].1 = multiplied;
    let (product, stored) = (g.id("O"), g.t("O").clone());
    let unscaled = named("product", rows([2, 4, 16, value_head])).data_type(T::Float);
    *g.tensor_mut(product) = Tensor { is_virtual: true, ..unscaled };
    let o = times(&mut g, product, descale_s);
    let o = times(&mut g, o, descale_v);
    largest(&mut g, "amax_o", o);
    let o = times(&mut g, o, scale_o);
    *g.set_output(o) = stored;
    g
}

/// Scores are masked by a window.
fn windowed(g: &mut Graph) {
    let mask = ScoreMask { right_bound: Some(0), left_bound: Some(8), is_bottom_right: false };
    g.op("mask").attributes = Attributes::Composite(Composite::ScoreMask(mask));
}

/// Probabilities are dropped before they are scaled.
fn dropped(g: &mut Graph) {
    let p = g.op("softmax").outputs[0].1;
    let number = |g: &mut Graph, name: &str, data_type| g.tensor(named(name, rows([1; 4])).data_type(data_type));
    let slots = [(Port::SEED, T::Int32), (Port::OFFSET, T::Int32), (Port::DROPOUT_SCALE, T::Float)];
    let slots = slots.map(|(port, data_type)| (port, number(g, port.0, data_type)));
    let inputs: Vec<_> = [(Port::X, p)].into_iter().chain(slots).collect();
    let left = g.composite("dropout", Dropout { kept: Bernoulli { keep: 0.5 } }, &inputs, &[Port::Y])[0];
    let readers = g.operations.iter_mut().filter(|operation| operation.name != "dropout");
    readers.flat_map(|operation| &mut operation.inputs).filter(|slot| slot.1 == p).for_each(|slot| slot.1 = left);
}

/// O is not multiplied by what V was divided by.
fn without_descale(g: &mut Graph) {
    let factor = g.id("descale_v");
    let step = g.operations.iter().position(|operation| operation.inputs.iter().any(|slot| slot.1 == factor));
    let Some(step) = step else { return };
    let [x, y] = [g.operations[step].inputs[0].1, g.operations[step].outputs[0].1];
    g.operations.remove(step);
    g.operations.iter_mut().flat_map(|it| &mut it.inputs).filter(|slot| slot.1 == y).for_each(|slot| slot.1 = x);
}

/// Q comes from an operation of the graph.
fn with_computed_queries(g: &mut Graph) {
    let q = g.id("Q");
    let computed = g.pointwise("computed", M::Identity, &[q]);
    g.tensor_mut(computed).data_type = Some(T::Fp8E4M3);
    g.op("scores").inputs[0].1 = computed;
}

/// The backward pass of causal attention of two heads for each of K and V, scaled: 16 queries, 24 keys.
fn backward_of(head: i64, value_head: i64) -> Graph {
    let mut graph = Graph::new().io_data_type(T::Half).intermediate_data_type(T::Float).compute_data_type(T::Float);
    let statistics = graph.tensor(named("Stats", rows([2, 4, 16, 1])).data_type(T::Float));
    let scale = graph.tensor(Tensor::scalar("scale", T::Float, Scalar::Float(0.125)));
    let mut inputs = vec![(Port::STATS, statistics), (Port::ATTN_SCALE, scale)];
    let (queries, keys, values) = ([2, 4, 16, head], [2, 2, 24, head], [2, 2, 24, value_head]);
    let result = [2, 4, 16, value_head];
    for (port, dim) in [(Port::Q, queries), (Port::K, keys), (Port::V, values), (Port::O, result), (Port::DO, result)] {
        inputs.push((port, graph.tensor(named(port.0, rows(dim)))));
    }
    let mask = ScoreMask { right_bound: Some(0), ..ScoreMask::default() };
    let outputs = [(Port::DQ, queries), (Port::DK, keys), (Port::DV, values)];
    let backward = AttentionBackward { mask, dropout: None, alibi: false };
    let gradients = graph.composite("backward", backward, &inputs, &outputs.map(|output| output.0));
    for (id, (port, dim)) in gradients.into_iter().zip(outputs) {
        *graph.set_output(id) = named(port.0, rows(dim));
    }
    graph
}

/// The same in FP8, with all that scales it.
fn fp8_backward_of(head: i64, value_head: i64) -> Graph {
    let mut g = backward_of(head, value_head);
    g.types(&["Q", "K", "V", "O", "dO", "dQ", "dK", "dV"], T::Fp8E4M3);
    for port in FACTORS {
        let factor = g.tensor(named(port.0, rows([1; 4])).data_type(T::Float));
        g.op("backward").inputs.push((port, factor));
    }
    for port in LARGEST {
        let largest = g.tensor(named(port.0, rows([1; 4])).data_type(T::Float));
        g.op("backward").outputs.push((port, largest));
    }
    g
}

/// The tensor at a port of the backward pass is not there.
fn without(g: &mut Graph, port: Port) {
    g.op("backward").inputs.retain(|slot| slot.0 != port);
    g.op("backward").outputs.retain(|slot| slot.0 != port);
}

/// Other scores than those before the diagonal are masked.
fn with_mask(g: &mut Graph, mask: ScoreMask) {
    let backward = AttentionBackward { mask, dropout: None, alibi: false };
    g.op("backward").attributes = Attributes::Composite(backward.into());
}

/// dQ goes on into a ReLU.
fn with_gradient_relu(g: &mut Graph) {
    let gradient = g.id("dQ");
    g.t("dQ").is_virtual = true;
    let dim = g.t("dQ").dim.clone();
    let y = g.pointwise("relu", M::ReluFwd, &[gradient]);
    *g.set_output(y) = named("Y", rows(dim));
}

/// K comes from an operation of the graph.
fn with_computed_keys_backward(g: &mut Graph) {
    let k = g.id("K");
    let computed = g.pointwise("computed", M::Identity, &[k]);
    g.tensor_mut(computed).data_type = Some(T::Half);
    let slots = &mut g.op("backward").inputs;
    slots.iter_mut().filter(|slot| slot.0 == Port::K).for_each(|slot| slot.1 = computed);
}

/// The same with K and V in pages of 8 rows, of 3 a sequence.
fn paged() -> Graph {
    paged_of(8, 3, T::Int32)
}

/// K and V in pages of so many rows, by tables of so many entries a sequence.
fn paged_of(page: i64, entries: i64, data_type: T) -> Graph {
    let mut g = flash();
    let [queries, keys] =
        [Port::SEQ_LEN_Q, Port::SEQ_LEN_KV].map(|port| g.tensor(named(port.0, rows([2, 1, 1, 1])).data_type(T::Int32)));
    g.op("mask").inputs.extend([(Port::SEQ_LEN_Q, queries), (Port::SEQ_LEN_KV, keys)]);
    g.op("values").inputs.push((Port::K_OVERRIDE, keys));
    for (name, product) in [("K", "scores"), ("V", "values")] {
        let whole = g.t(name).clone();
        let container = g.id(name);
        (g.t(name).dim, g.t(name).stride) = (vec![7, 2, page, 64], vec![128 * page, 64 * page, 64, 1]);
        let table = g.tensor(named(&format!("table {name}"), rows([2, 1, entries, 1])).data_type(data_type));
        let inputs = [(Port::CONTAINER, container), (Port::SEQ_LEN, keys), (Port::PAGE_TABLE, table)];
        let loaded = g.composite(&format!("load {name}"), PagedCacheLoad, &inputs, &[Port::Y_OUT])[0];
        let tensor = g.tensor_mut(loaded);
        (tensor.dim, tensor.stride, tensor.data_type) = (whole.dim, whole.stride, Some(T::Half));
        g.op(product).inputs[1].1 = loaded;
    }
    g
}

/// O goes on into a ReLU.
fn with_relu(g: &mut Graph) {
    let o = g.id("O");
    g.t("O").is_virtual = true;
    let y = g.pointwise("relu", M::ReluFwd, &[o]);
    *g.set_output(y) = named("Y", rows([2, 4, 16, 64]));
}

/// K is computed by the graph.
fn with_computed_keys(g: &mut Graph) {
    let k = g.id("K");
    let computed = g.pointwise("computed", M::Identity, &[k]);
    g.tensor_mut(computed).data_type = Some(T::Half);
    g.op("scores").inputs[1].1 = computed;
}

/// The first of two axes of a tensor is the fastest.
fn turned(g: &mut Graph, name: &str) {
    let tensor = g.t(name);
    let [rows, columns] = [tensor.dim[2], tensor.dim[3]];
    (tensor.stride[2], tensor.stride[3]) = match tensor.stride[3] {
        1 => (1, rows),
        _ => (columns, 1),
    };
}

/// Between elements of these tensors lies another.
fn spread(g: &mut Graph, names: &[&str]) {
    for name in names {
        g.t(name).stride.iter_mut().for_each(|stride| *stride *= 2);
    }
}

const PAIRS: &[Pair] = &[
    pair("FAF-FORM", F, with_relu, AS_IS),
    pair("FAF-KV-SOURCE", F, with_computed_keys, AS_IS),
    chips("FAF-CC", &[(FLASH_FPROP, 7, 5)], &[(FLASH_FPROP, 8, 6), (FLASH_FPROP, 8, 9)], AS_IS),
    pair("FAF-QKV-TYPE", F, |g| g.types(&["V"], T::BFloat16), |g| g.types(&["Q", "K", "V"], T::BFloat16)),
    pair("FAF-Q-D", F, |g| *g = flash_of(68, 64), |g| *g = flash_of(72, 64)),
    pair("FAF-V-D", F, |g| *g = flash_of(64, 68), |g| *g = flash_of(64, 72)),
    pair("FAF-QK-STRIDE", F, |g| turned(g, "K"), AS_IS),
    pair("FAF-V-STRIDE", F, |g| turned(g, "V"), AS_IS),
    pair("FAF-STATS-TYPE", F, |g| g.types(&["Stats"], T::Half), AS_IS),
    pair("FAF-STATS-LAYOUT", F, |g| g.t("Stats").stride = vec![64, 1, 4, 1], AS_IS),
    pair("FAF-O-TYPE", F, |g| g.types(&["O"], T::Float), |g| g.types(&["O"], T::BFloat16)),
    pair("FAF-O-STRIDE", F, |g| turned(g, "O"), AS_IS),
    pair("FAF-SCALE-TYPE", F, |g| g.types(&["scale"], T::Int32), |g| g.types(&["scale"], T::BFloat16)),
];

const LARGE_PAIRS: &[Pair] =
    &[chips("FAF-Q-D", &[], &[(FLASH_FPROP, 9, 0)], AS_IS), pair("FAF-V-D", F, |g| *g = flash_of(256, 264), AS_IS)];

const FP8_PAIRS: &[Pair] = &[
    pair("F8F-SUBSET", P, with_computed_queries, AS_IS),
    pair("F8F-PRE", P, windowed, AS_IS),
    pair("F8F-NODROP", P, dropped, AS_IS),
    chips("F8F-CC", &[(FP8_FLASH_FPROP, 8, 9)], P, AS_IS),
    pair("F8-MANDATORY", P, without_descale, AS_IS),
    pair("F8F-TYPE", P, |g| g.types(&["V"], T::Fp8E5M2), |g| g.types(&["Q", "K", "V"], T::Fp8E5M2)),
    pair("F8F-Q-D", P, |g| *g = fp8_of(72, 64), |g| *g = fp8_of(80, 64)),
    pair("F8F-V-D", P, |g| *g = fp8_of(64, 72), |g| *g = fp8_of(64, 80)),
    pair("F8F-STRIDES", P, |g| turned(g, "K"), AS_IS),
    pair("F8F-STATS", P, |g| g.types(&["Stats"], T::Half), AS_IS),
    pair("F8F-O", P, |g| g.types(&["O"], T::Half), |g| g.types(&["O"], T::Fp8E5M2)),
    pair("F8F-FACTORS", P, |g| g.types(&["descale_q"], T::Half), AS_IS),
    pair("F8F-AMAX", P, |g| g.types(&["amax_o"], T::Half), AS_IS),
];

const PAGED_PAIRS: &[Pair] = &[
    pair("FAF-PAGE-POW2", F, |g| *g = paged_of(12, 2, T::Int32), |g| *g = paged_of(4, 6, T::Int32)),
    pair("FAF-PAGE-TABLE", F, |g| *g = paged_of(8, 4, T::Int32), AS_IS),
    pair("FAF-PAGE-TYPE", F, |g| *g = paged_of(8, 3, T::Int64), AS_IS),
    pair("FAF-QK-STRIDE", F, |g| spread(g, &["K"]), AS_IS),
    pair("FAF-V-STRIDE", F, |g| spread(g, &["V"]), AS_IS),
];

const BACKWARD_PAIRS: &[Pair] = &[
    pair("FAB-FORM", B, with_gradient_relu, AS_IS),
    chips("FAB-CC", &[(FLASH_BPROP, 7, 5)], &[(FLASH_BPROP, 8, 6), (FLASH_BPROP, 8, 9)], AS_IS),
    pair("FAF-QKV-TYPE", B, |g| g.types(&["V"], T::BFloat16), |g| g.types(&["Q", "K", "V"], T::BFloat16)),
    pair("FAF-Q-D", B, |g| *g = backward_of(68, 64), |g| *g = backward_of(72, 64)),
    pair("FAF-V-D", B, |g| *g = backward_of(64, 68), |g| *g = backward_of(64, 72)),
    pair("FAF-QK-STRIDE", B, |g| spread(g, &["K"]), AS_IS),
    pair("FAF-V-STRIDE", B, |g| spread(g, &["V"]), AS_IS),
    pair("FAF-STATS-TYPE", B, |g| g.types(&["Stats"], T::Half), AS_IS),
    pair("FAF-STATS-LAYOUT", B, |g| g.t("Stats").stride = vec![64, 1, 4, 1], AS_IS),
    pair("FAF-O-TYPE", B, |g| g.types(&["O"], T::Float), |g| g.types(&["O"], T::BFloat16)),
    pair("FAF-SCALE-TYPE", B, |g| g.types(&["scale"], T::Int32), |g| g.types(&["scale"], T::BFloat16)),
    pair("FAB-DQKV-TYPE", B, |g| g.types(&["dV"], T::Float), |g| g.types(&["dV"], T::BFloat16)),
    pair("FAB-DQKV-STRIDE", B, |g| spread(g, &["dK"]), AS_IS),
    pair("FAB-DO-TYPE", B, |g| g.types(&["dO"], T::Float), |g| g.types(&["dO"], T::BFloat16)),
    pair("FAB-DO-LAYOUT", B, |g| g.t("dO").stride = vec![4096, 64, 256, 1], AS_IS),
];

const BACKWARD_ROWS: &[Row] = &[
    row(B, with_computed_keys_backward, &["FAB-FORM", "FAF-KV-SOURCE"]),
    row(B, |g| spread(g, &["O", "dO"]), &["FAF-O-STRIDE", "FAB-DO-STRIDE"]),
];

const FP8_BACKWARD_PAIRS: &[Pair] = &[
    pair("F8B-FORM", PB, with_gradient_relu, AS_IS),
    pair(
        "F8B-PRE",
        PB,
        |g| with_mask(g, ScoreMask { left_bound: Some(4), ..CAUSAL }),
        |g| with_mask(g, ScoreMask::default()),
    ),
    chips("F8B-CC", &[(FP8_FLASH_BPROP, 8, 9)], PB, AS_IS),
    pair("F8B-SCALES", PB, |g| without(g, Port::SCALE_DP), AS_IS),
    pair("F8B-SCALES", PB, |g| without(g, Port::AMAX_DP), AS_IS),
    pair("F8F-TYPE", PB, |g| g.types(&["V"], T::Fp8E5M2), |g| g.types(&["Q", "K", "V"], T::Fp8E5M2)),
    pair("F8F-STRIDES", PB, |g| spread(g, &["K"]), AS_IS),
    pair("F8F-STATS", PB, |g| g.types(&["Stats"], T::Half), AS_IS),
    pair("F8F-STATS", PB, |g| g.t("Stats").stride = vec![64, 1, 4, 1], AS_IS),
    pair("F8F-O", PB, |g| g.types(&["O"], T::Half), |g| g.types(&["O"], T::Fp8E5M2)),
    pair("F8F-FACTORS", PB, |g| g.types(&["Scale_S"], T::Half), AS_IS),
    pair("F8F-AMAX", PB, |g| g.types(&["Amax_dQ"], T::Half), AS_IS),
    pair("F8B-DQKV-TYPE", PB, |g| g.types(&["dV"], T::Half), |g| g.types(&["dV"], T::Fp8E5M2)),
    pair("F8B-DQKV-D", PB, |g| *g = fp8_backward_of(64, 128), AS_IS),
    pair("F8B-DQKV-STRIDE", PB, |g| spread(g, &["dK"]), AS_IS),
    pair("F8B-DO-TYPE", PB, |g| g.types(&["dO"], T::Half), |g| g.types(&["dO"], T::Fp8E5M2)),
    pair("F8B-DO-LAYOUT", PB, |g| g.t("dO").stride = vec![8192, 128, 512, 1], AS_IS),
];

const FP8_BACKWARD_ROWS: &[Row] = &[
    row(PB, |g| spread(g, &["O", "dO"]), &["F8F-O", "F8B-DO-STRIDE"]),
    row(PB, |g| *g = fp8_backward_of(128, 64), &["F8B-DO-D", "F8B-DQKV-D"]),
    row(PB, |g| *g = fp8_backward_of(136, 128), &["F8F-Q-D", "F8B-DQKV-D"]),
    row(PB, |g| *g = fp8_backward_of(128, 264), &["F8F-V-D", "F8B-DO-D", "F8B-DQKV-D"]),
];

const CAUSAL: ScoreMask = ScoreMask { right_bound: Some(0), left_bound: None, is_bottom_right: false };

const LARGE_BACKWARD_PAIRS: &[Pair] =
    &[chips("FAF-Q-D", &[], &[(FLASH_BPROP, 9, 0)], AS_IS), pair("FAF-V-D", B, |g| *g = backward_of(256, 264), AS_IS)];
