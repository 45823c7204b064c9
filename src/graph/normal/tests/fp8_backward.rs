//! Backward passes in FP8 as programs send them (attention.md 2.5): a node, or operations; one operation, one key.

use super::{commuted, finalized};
use crate::graph::backward_scaling::{FACTORS, LARGEST};
use crate::graph::samples::shuffled;
use crate::graph::{
    Attributes, Composite, DataType, FinalizedGraph, Graph, Matmul, Operation, Other, PointwiseMode as M, Port,
    ReductionMode, Scalar, ScoreMask, Tensor, TensorHandle,
};

const BATCHES: i64 = 2;
const HEADS: i64 = 4;
const QUERIES: i64 = 32;
const KEYS: i64 = 48;
const HEAD: i64 = 64;
const Q_TYPE: DataType = DataType::Fp8E4M3;
const GRADIENT_TYPE: DataType = DataType::Fp8E5M2;

/// A backward pass in FP8.
#[derive(Clone, Copy)]
struct Pass {
    is_causal: bool,
    key_heads: i64,
    has_lengths: bool,
    has_sink: bool,
    has_scale: bool,
}

const PLAIN: Pass = Pass { is_causal: false, key_heads: HEADS, has_lengths: false, has_sink: false, has_scale: true };

const PASSES: [(&str, Pass); 6] = [
    ("plain", PLAIN),
    ("causal", Pass { is_causal: true, ..PLAIN }),
    ("groups", Pass { key_heads: 2, ..PLAIN }),
    ("lengths", Pass { has_lengths: true, is_causal: true, ..PLAIN }),
    ("sinks", Pass { has_sink: true, key_heads: 1, ..PLAIN }),
    ("without a scale", Pass { has_scale: false, ..PLAIN }),
];

/// What both forms read and store.
struct Tensors {
    inputs: Vec<(Port, TensorHandle)>,
    outputs: Vec<(Port, Tensor)>,
}

impl Tensors {
    fn input(&self, port: Port) -> TensorHandle {
        self.inputs.iter().find(|slot| slot.0 == port).map(|slot| slot.1).expect("a tensor at the port")
    }

    fn output(&self, graph: &mut Graph, port: Port, id: TensorHandle) {
        let tensor = self.outputs.iter().find(|slot| slot.0 == port).map(|slot| slot.1.clone());
        *graph.set_output(id) = tensor.expect("a result at the port");
    }
}

impl Pass {
    fn tensors(self, graph: &mut Graph, turns_keys: bool) -> Tensors {
        let of = |heads, rows| [BATCHES, heads, rows, HEAD];
        let rows = |name: &str| Tensor::new(name).row_major([BATCHES, HEADS, QUERIES, 1]).data_type(DataType::Float);
        let [queries, keys] = [of(HEADS, QUERIES), of(self.key_heads, KEYS)];
        let heads = [(Port::Q, queries), (Port::K, keys), (Port::V, keys), (Port::O, queries), (Port::DO, queries)];
        let mut inputs: Vec<_> =
            heads.map(|(port, dim)| (port, graph.tensor(Tensor::new(port.0).row_major(dim)))).to_vec();
        graph.tensor_mut(inputs[4].1).data_type = Some(GRADIENT_TYPE);
        for &(_, id) in inputs[1..3].iter().filter(|_| turns_keys) {
            let tensor = graph.tensor_mut(id);
            tensor.dim.swap(2, 3);
            tensor.stride.swap(2, 3);
        }
        inputs.push((Port::STATS, graph.tensor(rows("Stats"))));
        let number = |name: &str| Tensor::new(name).row_major([1; 4]).data_type(DataType::Float);
        if self.has_scale {
            let scale = Tensor::scalar("scale", DataType::Float, Scalar::Float(0.125));
            inputs.push((Port::ATTN_SCALE, graph.tensor(Tensor { dim: vec![1; 4], stride: vec![1; 4], ..scale })));
        }
        for &port in ScoreMask::LENGTHS.iter().filter(|_| self.has_lengths) {
            let length = Tensor::new(port.0).row_major([BATCHES, 1, 1, 1]).data_type(DataType::Int32);
            inputs.push((port, graph.tensor(length)));
        }
        let sink = |name: &str| Tensor::new(name).row_major([1, HEADS, 1, 1]).data_type(DataType::Float);
        let mut outputs = vec![
            (Port::DQ, Tensor::new("dQ").row_major(queries)),
            (Port::DK, Tensor::new("dK").row_major(keys)),
            (Port::DV, Tensor::new("dV").row_major(keys)),
        ];
        if self.has_sink {
            inputs.push((Port::SINK_TOKEN, graph.tensor(sink("sink"))));
            outputs.push((Port::DSINK_TOKEN, sink("dSink")));
        }
        inputs.extend(FACTORS.map(|port| (port, graph.tensor(number(port.0)))));
        outputs.extend(LARGEST.map(|port| (port, number(port.0))));
        Tensors { inputs, outputs }
    }

    fn node(self) -> Graph {
        let mut graph = empty();
        let Tensors { inputs, outputs } = self.tensors(&mut graph, false);
        let outputs = outputs.into_iter().map(|(port, tensor)| {
            let id = graph.tensor(Tensor::new(port.0));
            *graph.set_output(id) = tensor;
            (port, id)
        });
        let outputs = outputs.collect();
        let attributes = self.is_causal.then(|| ("right_bound".to_owned(), 0.into()));
        let attributes = Attributes::Other(Other { tag: "SDPA_FP8_BWD", attributes: attributes.into_iter().collect() });
        graph.operation(Operation { name: "node".to_owned(), attributes, compute_data_type: None, inputs, outputs });
        graph
    }

    fn operations(self) -> Graph {
        let mut graph = empty();
        let g = &mut graph;
        let tensors = self.tensors(g, true);
        let at = |port: Port| tensors.input(port);
        let [queries, keys] = [QUERIES, KEYS];
        let times = |g: &mut Graph, x, ports: &[Port]| {
            ports.iter().fold(x, |x, &port| g.pointwise(port.0, M::Mul, &[x, at(port)]))
        };
        let length = |&port: &Port| (port, self.has_lengths.then(|| at(port)));
        let lengths: Vec<(Port, Option<TensorHandle>)> = ScoreMask::LENGTHS.iter().map(length).collect();
        let overrides = |ports: [Port; 2], order: [usize; 2]| -> Vec<_> {
            ports.into_iter().zip(order).filter_map(|(port, which)| Some((port, lengths[which].1?))).collect()
        };
        let product = |g: &mut Graph, name: &str, [a, b]: [TensorHandle; 2], overridden: Vec<(Port, TensorHandle)>| {
            let c = g.matmul(name, a, b);
            g.last_operation().inputs.extend(overridden);
            g.last_operation().attributes = Attributes::Matmul(Matmul::default());
            c
        };
        let of_scores = || overrides([Port::M_OVERRIDE, Port::N_OVERRIDE], [0, 1]);
        let squares = g.pointwise("dO o O", M::Mul, &[at(Port::DO), at(Port::O)]);
        let sum = g.reduction("sum", ReductionMode::Add, squares, [BATCHES, HEADS, queries, 1]);
        let mut delta = times(g, sum, &[Port::DESCALE_DO, Port::DESCALE_O]);
        if self.has_sink {
            let below = g.pointwise("below", M::Sub, &[at(Port::SINK_TOKEN), at(Port::STATS)]);
            let p = g.pointwise("of sink", M::Exp, &[below]);
            let share = g.pointwise("share", M::Mul, &[p, delta]);
            let total = g.reduction("total", ReductionMode::Add, share, [1, HEADS, 1, 1]);
            tensors.output(g, Port::DSINK_TOKEN, total);
            let one = Tensor::scalar("one", DataType::Float, Scalar::Float(1.0));
            let one = g.tensor(Tensor { dim: vec![1; 4], stride: vec![1; 4], ..one });
            delta = g.pointwise("kept", M::Mul, &[delta, one]);
        }
        let mut x = product(g, "scores", [at(Port::Q), at(Port::K)], of_scores());
        let scale: &[Port] = if self.has_scale { &[Port::ATTN_SCALE] } else { &[] };
        x = times(g, x, &[scale, &[Port::DESCALE_Q, Port::DESCALE_K]].concat());
        if self.is_causal || self.has_lengths {
            let mask = ScoreMask { right_bound: self.is_causal.then_some(0), ..ScoreMask::default() };
            let given = lengths.iter().filter_map(|&(port, id)| Some((port, id?)));
            let inputs: Vec<_> = [(Port::X, x)].into_iter().chain(given).collect();
            x = g.composite("mask", Composite::ScoreMask(mask), &inputs, &[Port::Y])[0];
        }
        let below = g.pointwise("less", M::Sub, &[x, at(Port::STATS)]);
        let p = g.pointwise("p", M::Exp, &[below]);
        let s = times(g, p, &[Port::SCALE_S]);
        g.tensor_mut(s).data_type = Some(Q_TYPE);
        let scores = [BATCHES, HEADS, keys, queries];
        let of_queries = || overrides([Port::M_OVERRIDE, Port::K_OVERRIDE], [1, 0]);
        let turned = reshaped(g, "s turned", s, scores, Q_TYPE);
        let dv = product(g, "dV", [turned, at(Port::DO)], of_queries());
        self.gradient(g, &tensors, dv, [Port::DESCALE_S, Port::DESCALE_DO, Port::SCALE_DV, Port::AMAX_DV, Port::DV]);
        let dp = product(g, "dP", [at(Port::DO), at(Port::V)], of_scores());
        let dp = times(g, dp, &[Port::DESCALE_DO, Port::DESCALE_V]);
        let difference = g.pointwise("difference", M::Sub, &[dp, delta]);
        let ds = g.pointwise("dS", M::Mul, &[difference, p]);
        let ds = times(g, ds, scale);
        let largest = g.reduction("largest dS", ReductionMode::Amax, ds, [1; 4]);
        tensors.output(g, Port::AMAX_DP, largest);
        let ds = times(g, ds, &[Port::SCALE_DP]);
        g.tensor_mut(ds).data_type = Some(GRADIENT_TYPE);
        let k = reshaped(g, "k", at(Port::K), [BATCHES, self.key_heads, keys, HEAD], DataType::Float);
        let dq = product(g, "dQ", [ds, k], overrides([Port::M_OVERRIDE, Port::K_OVERRIDE], [0, 1]));
        self.gradient(g, &tensors, dq, [Port::DESCALE_DP, Port::DESCALE_K, Port::SCALE_DQ, Port::AMAX_DQ, Port::DQ]);
        let turned = reshaped(g, "dS turned", ds, scores, GRADIENT_TYPE);
        let dk = product(g, "dK", [turned, at(Port::Q)], of_queries());
        self.gradient(g, &tensors, dk, [Port::DESCALE_DP, Port::DESCALE_Q, Port::SCALE_DK, Port::AMAX_DK, Port::DK]);
        graph
    }

    /// A product of each head on its way to a gradient: of two factors, and of one that it is stored times.
    fn gradient(
        self,
        g: &mut Graph,
        tensors: &Tensors,
        product: TensorHandle,
        [first, second, last, largest, result]: [Port; 5],
    ) {
        let mut x = product;
        if result != Port::DQ && self.key_heads < HEADS {
            let tensor = g.tensor_mut(x);
            (tensor.dim, tensor.stride) =
                (vec![BATCHES, HEADS, KEYS, HEAD], vec![HEADS * KEYS * HEAD, KEYS * HEAD, HEAD, 1]);
            let dim = [BATCHES, self.key_heads, KEYS, HEAD];
            x = g.reduction("heads", ReductionMode::Add, x, dim);
            g.tensor_mut(x).stride = vec![dim[1] * KEYS * HEAD, KEYS * HEAD, HEAD, 1];
        }
        for port in [first, second] {
            x = g.pointwise(port.0, M::Mul, &[x, tensors.input(port)]);
        }
        let kept = g.reduction(largest.0, ReductionMode::Amax, x, [1; 4]);
        tensors.output(g, largest, kept);
        let y = g.pointwise(last.0, M::Mul, &[x, tensors.input(last)]);
        tensors.output(g, result, y);
    }
}

fn empty() -> Graph {
    Graph::new().io_data_type(Q_TYPE).intermediate_data_type(DataType::Float).compute_data_type(DataType::Float)
}

/// A tensor under swapped strides.
fn reshaped(g: &mut Graph, name: &str, x: TensorHandle, dim: [i64; 4], data_type: DataType) -> TensorHandle {
    let [_, heads, rows, columns] = dim;
    let is_virtual = g.tensors[x.index()].is_virtual;
    let stride = match is_virtual {
        true => vec![heads * rows * columns, rows * columns, 1, rows],
        false => vec![heads * rows * columns, rows * columns, columns, 1],
    };
    let y = g.tensor(Tensor { is_virtual: true, ..Tensor::new(name).dim(dim).stride(stride).data_type(data_type) });
    g.operation(Operation {
        name: name.to_owned(),
        attributes: Attributes::Other(Other { tag: "RESHAPE", attributes: [].into() }),
        compute_data_type: None,
        inputs: vec![(Port::X, x)],
        outputs: vec![(Port::Y, y)],
    });
    y
}

fn is_one(graph: &FinalizedGraph) -> bool {
    let mut operations = graph.operations();
    graph.operations().len() == 1
        && operations.all(|it| matches!(it.attributes, Attributes::Composite(Composite::AttentionBackward(_))))
}

#[test]
fn both_forms_have_one_key() {
    for (name, pass) in PASSES {
        let node = finalized(&pass.node(), name);
        assert!(is_one(&node) && node.notes().is_empty(), "{name}: {:?} {}", node.notes(), node.text());
        let graph = pass.operations();
        for found in
            [finalized(&graph, name), finalized(&commuted(&graph), name), finalized(&shuffled(&graph, 3), name)]
        {
            assert_eq!(found.text(), node.text(), "{name}");
            assert_eq!(found.key(), node.key(), "{name}");
        }
    }
}

/// Numbers that are multiplied by elsewhere than where they belong, and roundings to other types, are no backward pass.
#[test]
fn other_scaling_stays_as_it_is() {
    let numbers = [("dP", Port::DESCALE_DO, Port::DESCALE_Q), ("Δ", Port::DESCALE_O, Port::SCALE_S)];
    let reads = |operation: &Operation<TensorHandle>, id| operation.inputs.iter().any(|slot| slot.1 == id);
    for (what, wrong, right) in numbers {
        let mut graph = PLAIN.operations();
        let of = |graph: &Graph, port: Port| {
            let place = graph.tensors.iter().position(|tensor| tensor.name == port.0).expect("a number");
            TensorHandle(place as u32)
        };
        let [wrong, right] = [wrong, right].map(|port| of(&graph, port));
        let first = graph.operations.iter_mut().find(|operation| reads(operation, wrong)).expect("a reader");
        first.inputs.iter_mut().filter(|slot| slot.1 == wrong).for_each(|slot| slot.1 = right);
        // what is multiplied by another number once is another pass, or none
        let found = finalized(&graph, what);
        assert_ne!(found.key(), finalized(&PLAIN.node(), what).key(), "{what}");
    }
    for (what, data_type) in [("p", GRADIENT_TYPE), ("dS", Q_TYPE)] {
        let mut graph = PLAIN.operations();
        let names = if what == "p" { ["s turned"] } else { ["dS turned"] };
        for operation in &graph.operations.clone() {
            if names.contains(&operation.name.as_str()) {
                let ids = [operation.inputs[0].1, operation.outputs[0].1];
                ids.into_iter().for_each(|id| graph.tensor_mut(id).data_type = Some(data_type));
            }
        }
        assert!(!is_one(&finalized(&graph, what)), "{what}");
    }
}
