//! Attention whose probabilities lie in memory: one normal form of each configuration, however it is spelled.

use serde_json::json;

use super::super::super::{
    Attributes, Composite, DataType, FinalizedGraph, Graph, KeptAttributes, Operation, Other, PointwiseMode as M, Port,
    ReductionMode, Reordering, Scalar, Tensor, TensorHandle,
};
use super::{commuted, finalized, shuffled};
use crate::frontend::{read_graph, write_v2};
use crate::fusion::{Mha, fuse, is_attention};

const SCORES: [i64; 4] = [2, 3, 8, 16];

fn half() -> Graph {
    Graph::new().io_data_type(DataType::Half).intermediate_data_type(DataType::Float).compute_data_type(DataType::Float)
}

fn heads(graph: &mut Graph, name: &str, rows: i64, is_turned: bool) -> TensorHandle {
    let tensor = match is_turned {
        true => Tensor::new(name).dim([2, 3, 8, rows]).stride([24 * rows, 8 * rows, 1, 8]),
        false => Tensor::new(name).row_major([2, 3, rows, 8]),
    };
    graph.tensor(tensor)
}

fn number(graph: &mut Graph, name: &str, value: f64) -> TensorHandle {
    let scalar = Tensor::scalar(name, DataType::Float, Scalar::Float(value)).dim([1; 4]).stride([1; 4]);
    graph.tensor(scalar)
}

fn store(graph: &mut Graph, name: &str, id: TensorHandle) {
    let stored = Tensor::new(name).row_major(SCORES).data_type(DataType::Half);
    *graph.tensor_mut(id) = Tensor { reordering: Reordering::F16x16, ..stored };
}

fn push(graph: &mut Graph, other: Other, inputs: &[(Port, TensorHandle)], y: TensorHandle) {
    graph.operation(Operation {
        name: String::new(),
        attributes: Attributes::Other(other),
        compute_data_type: None,
        inputs: inputs.to_vec(),
        outputs: vec![(Port::Y, y)],
    });
}

/// What drops probabilities.
#[derive(Clone, Copy, PartialEq)]
enum Dropped {
    Not,
    AtRandom,
    ByMask,
    /// The same, and nothing makes up for it.
    ByMaskAlone,
}

#[derive(Clone, Copy)]
struct Forward {
    scales_keys: bool,
    is_stored: bool,
    has_softmax: bool,
    dropped: Dropped,
}

const STORED: Forward = Forward { scales_keys: false, is_stored: true, has_softmax: true, dropped: Dropped::Not };

impl Forward {
    fn graph(self) -> Graph {
        let mut graph = half();
        let q = heads(&mut graph, "Q", 8, false);
        let mut k = heads(&mut graph, "K", 16, true);
        let v = heads(&mut graph, "V", 16, false);
        let scale = number(&mut graph, "scale", 0.125);
        if self.scales_keys {
            k = graph.pointwise("scaled keys", M::Mul, &[scale, k]);
            graph.tensor_mut(k).data_type = Some(DataType::Half);
        }
        let mut x = graph.matmul("scores", q, k);
        if !self.scales_keys {
            x = graph.pointwise("scaled", M::Mul, &[x, scale]);
        }
        if self.has_softmax {
            let largest = graph.reduction("max", ReductionMode::Max, x, [2, 3, 8, 1]);
            let below = graph.pointwise("below", M::Sub, &[x, largest]);
            let exponential = graph.pointwise("exp", M::Exp, &[below]);
            let sum = graph.reduction("sum", ReductionMode::Add, exponential, [2, 3, 8, 1]);
            x = graph.pointwise("P", M::Div, &[exponential, sum]);
        }
        let p = self.multiplied(&mut graph, x);
        let o = graph.matmul("values", p, v);
        graph.set_output(o);
        graph
    }

    fn multiplied(self, graph: &mut Graph, p: TensorHandle) -> TensorHandle {
        let mask = match self.dropped {
            Dropped::Not => None,
            Dropped::AtRandom => Some(random(graph)),
            Dropped::ByMask | Dropped::ByMaskAlone => Some(graph.tensor(Tensor::new("mask").row_major(SCORES))),
        };
        let s = mask.map_or(p, |mask| graph.pointwise("dropped", M::Mul, &[p, mask]));
        if self.is_stored {
            store(graph, "S", s);
        }
        if matches!(self.dropped, Dropped::Not | Dropped::ByMaskAlone) {
            graph.tensor_mut(s).data_type = Some(DataType::Half);
            return s;
        }
        let factor = number(graph, "factor", 2.0);
        let kept = graph.pointwise("kept", M::Mul, &[s, factor]);
        graph.tensor_mut(kept).data_type = Some(DataType::Half);
        kept
    }
}

fn random(graph: &mut Graph) -> TensorHandle {
    let state =
        ["seed", "offset"].map(|name| graph.tensor(Tensor::new(name).row_major([1; 4]).data_type(DataType::Int64)));
    let mask = Tensor::new("random").row_major(SCORES).data_type(DataType::Float);
    let mask = graph.tensor(Tensor { is_virtual: true, ..mask });
    let attributes: KeptAttributes = [("distribution", json!("BERNOULLI")), ("bernoulli_probability", json!(0.5))]
        .map(|(key, value)| (key.to_owned(), value))
        .into();
    push(graph, Other { tag: "RNG", attributes }, &[(Port::SEED, state[0]), (Port::OFFSET, state[1])], mask);
    mask
}

fn assert_is_mha(graph: &FinalizedGraph, what: &str) {
    let fusion =
        fuse(std::sync::Arc::new(graph.clone())).unwrap_or_else(|error| panic!("{what}: {error}\n{}", graph.text()));
    assert!(fusion.mha().is_some(), "{what}: {}", graph.text());
}

/// Whatever the order of operations and of commuted operands, there is one key, and what was finalized stays so.
fn assert_one_key(graph: &Graph, what: &str) -> FinalizedGraph {
    let found = finalized(graph, what);
    for seed in 0..4 {
        assert_eq!(finalized(&shuffled(graph, seed), what).key(), found.key(), "{what}, order {seed}");
    }
    let again = finalized(&found.to_graph(), what);
    assert_eq!((again.key(), again.text()), (found.key(), found.text()), "{what}, again");
    let written = write_v2(&found.to_graph()).to_string();
    let read = read_graph("written", written.as_bytes()).unwrap_or_else(|error| panic!("{what}: {error}"));
    assert_eq!(finalized(&read, what).key(), found.key(), "{what}, written");
    found
}

#[test]
fn a_factor_of_the_keys_is_one_of_the_scores() {
    for is_stored in [false, true] {
        for has_softmax in [false, true] {
            let of = |scales_keys| Forward { scales_keys, is_stored, has_softmax, ..STORED }.graph();
            let [keys, scores] = [true, false].map(|scales_keys| finalized(&of(scales_keys), "scaled"));
            assert_eq!(keys.text(), scores.text());
            assert_eq!(keys.key(), scores.key());
            assert_eq!(is_attention(&keys), has_softmax && !is_stored);
        }
    }
}

#[test]
fn a_factor_of_other_keys_stays_where_it_is() {
    let mut graph = Forward { scales_keys: true, ..STORED }.graph();
    let scaled = graph.operations()[0].result().expect("keys");
    graph.set_output(scaled);
    let found = finalized(&graph, "stored keys");
    assert!(found.operations().any(|one| one.name == "scaled keys"), "{}", found.text());
}

#[test]
fn probabilities_in_memory_are_those_of_nodes() {
    for dropped in [Dropped::Not, Dropped::AtRandom, Dropped::ByMask, Dropped::ByMaskAlone] {
        let graph = Forward { dropped, ..STORED }.graph();
        let found = assert_one_key(&graph, "stored");
        assert_eq!(finalized(&commuted(&graph), "commuted").key(), found.key());
        assert_is_mha(&found, "stored");
        let composites = found.operations().filter(|one| matches!(one.attributes, Attributes::Composite(_)));
        assert_eq!(composites.count(), 1 + usize::from(dropped != Dropped::Not), "{}", found.text());
        let stored = found.tensors().position(|tensor| tensor.name == "S").expect("S");
        let port = found.operations().flat_map(|one| &one.outputs).find(|slot| slot.1.index() == stored);
        let expected = if dropped == Dropped::Not { Port::Y } else { Port::S };
        assert_eq!(port.map(|slot| slot.0), Some(expected), "{}", found.text());
    }
}

#[test]
fn no_softmax_is_no_flash_attention() {
    for dropped in [Dropped::Not, Dropped::AtRandom] {
        let graph = Forward { has_softmax: false, is_stored: false, dropped, ..STORED }.graph();
        assert_is_mha(&assert_one_key(&graph, "no softmax"), "no softmax");
    }
}

/// The random numbers of a graph are no dropout where what tells them is no whole number (AT-E16).
#[test]
fn seeds_that_are_no_numbers_draw_no_dropout() {
    let graph = Forward { dropped: Dropped::AtRandom, ..STORED }.graph();
    let is_drawn = |graph: &Graph| {
        let is_dropout = |attributes: &Attributes| matches!(attributes, Attributes::Composite(Composite::Dropout(_)));
        finalized(graph, "drawn").operations().any(|one| is_dropout(&one.attributes))
    };
    assert!(is_drawn(&graph));
    for port in [Port::SEED, Port::OFFSET] {
        let told = graph.operations().iter().find_map(|one| one.input(port)).expect("a state");
        for data_type in [DataType::Int32, DataType::Boolean, DataType::Float] {
            let mut changed = graph.clone();
            changed.tensor_mut(told).data_type = Some(data_type);
            assert_eq!(is_drawn(&changed), data_type == DataType::Int32, "{port} {data_type}");
        }
    }
}

/// How a program transposes.
#[derive(Clone, Copy, PartialEq)]
enum Transpose {
    Reshape,
    Permutation,
}

fn transposed(graph: &mut Graph, x: TensorHandle, how: Transpose) -> TensorHandle {
    let y = Tensor::new("turned").dim([2, 3, 16, 8]).stride([384, 128, 1, 16]).data_type(DataType::Half);
    let y = graph.tensor(Tensor { is_virtual: true, ..y });
    let other = match how {
        Transpose::Reshape => Other { tag: "RESHAPE", attributes: KeptAttributes::new() },
        Transpose::Permutation => {
            Other { tag: "TRANSPOSE", attributes: [("permutation".to_owned(), json!([0, 1, 3, 2]))].into() }
        }
    };
    push(graph, other, &[(Port::X, x)], y);
    y
}

/// A backward pass with dropout, whose probabilities are transposed before, or behind, what g5 does with them.
fn backward(how: Transpose, is_first: bool) -> Graph {
    let mut graph = half();
    let [q, d_o] = ["Q", "dO"].map(|name| heads(&mut graph, name, 8, false));
    let (k, v) = (heads(&mut graph, "K", 16, false), heads(&mut graph, "V", 16, true));
    let s = graph.tensor(Tensor { reordering: Reordering::F16x16, ..Tensor::new("S").row_major(SCORES) });
    let [factor, zero] = [("factor", 2.0), ("zero", 0.0)].map(|(name, value)| number(&mut graph, name, value));
    let mut x = if is_first { transposed(&mut graph, s, how) } else { s };
    for (mode, side) in [(M::Mul, Some(factor)), (M::Abs, None)] {
        x = graph.pointwise("g5", mode, &[x].into_iter().chain(side).collect::<Vec<_>>());
        graph.tensor_mut(x).data_type = Some(DataType::Half);
    }
    let x = if is_first { x } else { transposed(&mut graph, x, how) };
    let d_v = graph.matmul("dV", x, d_o);
    let d_s = graph.matmul("dS", d_o, v);
    let p = graph.pointwise("P", M::Abs, &[s]);
    let is_kept = graph.pointwise("kept", M::CmpGt, &[s, zero]);
    graph.tensor_mut(is_kept).data_type = Some(DataType::Boolean);
    let x = graph.pointwise("dS scaled", M::Mul, &[d_s, factor]);
    let x = graph.pointwise("dS kept", M::BinarySelect, &[x, zero, is_kept]);
    let product = graph.pointwise("t", M::Mul, &[p, x]);
    let sum = graph.reduction("r", ReductionMode::Add, product, [2, 3, 8, 1]);
    let difference = graph.pointwise("u", M::Sub, &[x, sum]);
    let d_p = graph.pointwise("v", M::Mul, &[p, difference]);
    store(&mut graph, "dP", d_p);
    let turned = transposed(&mut graph, d_p, how);
    for id in [d_v, graph.matmul("dQ", d_p, k), graph.matmul("dK", turned, q)] {
        graph.set_output(id);
    }
    graph
}

#[test]
fn a_backward_pass_has_one_key_wherever_and_however_it_is_transposed() {
    let ways = [Transpose::Reshape, Transpose::Permutation].into_iter().flat_map(|how| [(how, true), (how, false)]);
    let found: Vec<FinalizedGraph> =
        ways.map(|(how, is_first)| assert_one_key(&backward(how, is_first), "backward")).collect();
    assert_is_mha(&finalized(&commuted(&backward(Transpose::Reshape, true)), "commuted"), "commuted");
    for graph in &found {
        assert_is_mha(graph, "backward");
        assert_eq!(graph.text(), found[0].text());
        assert_eq!(graph.key(), found[0].key());
    }
    let fusion = fuse(std::sync::Arc::new(found[0].clone())).expect("a backward pass");
    let Some(Mha::Backward(backward)) = fusion.mha() else { panic!("it is a backward pass") };
    let name = |id| found[0].tensor(id).name.as_str();
    assert_eq!([name(backward.s), name(backward.d_p)], ["S", "dP"]);
    assert_eq!((backward.g5.len(), backward.g6.len()), (2, 8));
    let modes: Vec<_> = backward.g5.iter().map(|&id| found[0].operation(id).pointwise_mode()).collect();
    assert_eq!(modes, [Some(M::Mul), Some(M::ReluFwd)], "dropped entries are no part of dV (A-M19)");
}

#[test]
fn what_is_no_such_backward_pass_stays_as_it_is() {
    let is_kept = |edit: fn(&mut Graph)| {
        let mut graph = backward(Transpose::Reshape, true);
        edit(&mut graph);
        let found = finalized(&graph, "edited");
        let is_node = |one: &Operation| matches!(one.attributes, Attributes::Composite(Composite::ScoreTranspose(_)));
        fuse(std::sync::Arc::new(found.clone())).is_err() && !found.operations().any(is_node)
    };
    assert!(!is_kept(|_| {}));
    assert!(is_kept(|graph| {
        // dO of another product
        let other = heads(graph, "other", 8, false);
        let product = graph.operations.iter_mut().find(|one| one.name == "dV").expect("dV");
        product.inputs[1].1 = other;
    }));
    assert!(is_kept(|graph| {
        // rows that follow each other: a reshape that is no transpose
        let turned = graph.tensors.iter_mut().filter(|tensor| tensor.name == "turned");
        turned.for_each(|tensor| tensor.stride = vec![384, 128, 8, 1]);
    }));
}
