//! Attention whose probabilities lie in memory, forward and backward, in operations: masks, dropout and lengths as programs spell them.

use serde_json::json;

use super::super::super::choices::Choices;
use super::{INTERLEAVED, LENGTHS, SCALE};
use crate::graph::{
    Attributes, DataType, Graph, KeptAttributes, Operation, Other, Pointwise, PointwiseMode as M, Port, ReductionMode,
    Reordering, Scalar, Tensor, TensorHandle,
};

/// Parts of the graphs whose factor is one of the keys, that have a bias, a causal mask, no softmax, whose probabilities are dropped, of those by a
/// mask of the caller's, that store what a backward pass reads; percent.
const OF_KEYS: usize = 40;
const BIASED: usize = 25;
const CAUSAL: usize = 40;
const NO_SOFTMAX: usize = 15;
const DROPPED: usize = 40;
const BY_MASK: usize = 30;
const STORED: usize = 75;

/// Part of the graphs that keep to the documented extents, in percent.
const DOCUMENTED: usize = 70;

/// Part of these that have longer sequences, and of those that may have several heads, in percent.
const LONG: usize = 6;

/// Part of the backward passes with the gradient of a bias, in percent.
const BIAS_GRADIENT: usize = 30;

const TYPES: &[DataType] = &[DataType::Half, DataType::BFloat16];

/// Q · Kᵀ, what is done with the scores, and their product with V.
pub(in super::super) fn forward(choices: &mut Choices<'_>) -> Graph {
    let mut author = Author::new(choices);
    let [queries, keys] = author.lengths;
    let q = author.heads("Q", queries, choices, false);
    let mut k = author.heads("K", keys, choices, true);
    let v = author.heads("V", keys, choices, false);
    let factor = choices.chance(SCALE).then(|| author.number("scale", choices.of(&[0.125, 0.3, -0.25, 1.0])));
    let is_of_keys = choices.chance(OF_KEYS);
    if let Some(factor) = factor.filter(|_| is_of_keys) {
        k = author.pointwise(M::Mul, &[k, factor], author.io);
    }
    let mut x = author.graph.matmul("scores", q, k);
    if let Some(factor) = factor.filter(|_| !is_of_keys) {
        x = author.pointwise(M::Mul, &[x, factor], DataType::Float);
    }
    if choices.chance(BIASED) {
        let bias = Tensor::new("bias").row_major([1, author.heads, queries, keys]);
        let bias = author.graph.tensor(bias);
        x = author.pointwise(M::Add, &[x, bias], DataType::Float);
    }
    let (has_lengths, is_causal) = (choices.chance(LENGTHS), choices.chance(CAUSAL));
    let has_softmax = !choices.chance(NO_SOFTMAX) && keys > 1;
    let fill = if has_softmax { f64::NEG_INFINITY } else { -1.0 };
    x = author.masked(x, has_lengths, is_causal, fill);
    if has_softmax {
        x = author.softmax(x);
    }
    let p = author.dropped(choices, x);
    let o = author.graph.matmul("values", p, v);
    author.store_heads("O", o, queries, choices);
    author.graph
}

/// Gradients of the same, of the probabilities that it stored.
pub(in super::super) fn backward(choices: &mut Choices<'_>) -> Graph {
    let mut author = Author::new(choices);
    let [queries, keys] = [author.lengths[0], author.lengths[1].max(2)];
    author.lengths = [queries, keys];
    let [q, d_o] = ["Q", "dO"].map(|name| author.heads(name, queries, choices, false));
    let (k, v) = (author.heads("K", keys, choices, false), author.heads("V", keys, choices, true));
    let s = Tensor { reordering: Reordering::F16x16, ..Tensor::new("S").row_major(author.scores()) };
    let s = author.graph.tensor(s);
    let factor = author.number("factor", choices.of(&[2.0, 1.0, 1.25]));
    let turned = author.transposed(s);
    let x = author.pointwise(M::Mul, &[turned, factor], author.io);
    let x = author.pointwise(M::Abs, &[x], author.io);
    let d_v = author.graph.matmul("dV", x, d_o);
    let d_s = author.graph.matmul("dS", d_o, v);
    let p = author.pointwise(M::Abs, &[s], DataType::Float);
    let mut x = author.pointwise(M::Mul, &[d_s, factor], DataType::Float);
    if choices.chance(DROPPED) {
        let zero = author.number("zero", 0.0);
        let is_kept = author.pointwise(M::CmpGt, &[s, zero], DataType::Boolean);
        x = author.pointwise(M::BinarySelect, &[x, zero, is_kept], DataType::Float);
    }
    let product = author.pointwise(M::Mul, &[p, x], DataType::Float);
    let rows = [author.batches, author.heads, queries, 1];
    let sum = author.graph.reduction("r", ReductionMode::Add, product, rows);
    let difference = author.pointwise(M::Sub, &[x, sum], DataType::Float);
    let mut d_p = author.pointwise(M::Mul, &[p, difference], DataType::Float);
    if choices.chance(SCALE) {
        let scale = author.number("scale", choices.of(&[0.125, 0.3, -0.25]));
        d_p = author.pointwise(M::Mul, &[d_p, scale], DataType::Float);
    }
    let (has_lengths, is_causal) = (choices.chance(LENGTHS), choices.chance(CAUSAL));
    d_p = author.masked(d_p, has_lengths, is_causal, 0.0);
    author.store_scores("dP", d_p);
    if author.batches > 1 && choices.chance(BIAS_GRADIENT) {
        let sum = author.graph.reduction("dBias", ReductionMode::Add, d_p, [1, author.heads, queries, keys]);
        author.graph.set_output(sum).data_type = Some(DataType::Float);
    }
    let turned = author.transposed(d_p);
    let (d_q, d_k) = (author.graph.matmul("dQ", d_p, k), author.graph.matmul("dK", turned, q));
    for (name, id, rows) in [("dQ", d_q, queries), ("dK", d_k, keys), ("dV", d_v, keys)] {
        author.store_heads(name, id, rows, choices);
    }
    author.graph
}

struct Author {
    graph: Graph,
    io: DataType,
    batches: i64,
    heads: i64,
    /// Queries and keys.
    lengths: [i64; 2],
    head: i64,
}

impl Author {
    fn new(choices: &mut Choices<'_>) -> Self {
        let io = choices.of(TYPES);
        // of the documented extents few are computed on a processor
        let (lengths, head, parts): (_, _, &[i64]) = match choices.chance(DOCUMENTED) {
            true => {
                let lengths = [(); 2].map(|()| if choices.chance(LONG) { 128 } else { 64 });
                (lengths, 64, if choices.chance(LONG) { &[1, 2] } else { &[1] })
            }
            false => {
                let lengths = [(); 2].map(|()| choices.of(&[33, 1, 17, 70, 5, 3]));
                (lengths, choices.of(&[64, 8, 40, 20]), &[1, 2, 1, 1, 3, 1])
            }
        };
        let graph =
            Graph::new().io_data_type(io).compute_data_type(DataType::Float).intermediate_data_type(DataType::Float);
        Self { graph, io, batches: choices.of(parts), heads: choices.of(parts), lengths, head }
    }

    fn scores(&self) -> [i64; 4] {
        [self.batches, self.heads, self.lengths[0], self.lengths[1]]
    }

    fn number(&mut self, name: &str, value: f64) -> TensorHandle {
        let scalar = Tensor::scalar(name, DataType::Float, Scalar::Float(value)).dim([1; 4]).stride([1; 4]);
        self.graph.tensor(scalar)
    }

    fn matrices(&self, name: &str, rows: i64, choices: &mut Choices<'_>) -> Tensor {
        let dim = [self.batches, self.heads, rows, self.head];
        match choices.chance(INTERLEAVED) {
            true => {
                Tensor::new(name).dim(dim).stride([self.heads * rows * self.head, self.head, self.heads * self.head, 1])
            }
            false => Tensor::new(name).row_major(dim),
        }
    }

    fn heads(&mut self, name: &str, rows: i64, choices: &mut Choices<'_>, is_turned: bool) -> TensorHandle {
        let mut tensor = self.matrices(name, rows, choices);
        if is_turned {
            tensor.dim.swap(2, 3);
            tensor.stride.swap(2, 3);
        }
        self.graph.tensor(tensor)
    }

    fn store_heads(&mut self, name: &str, id: TensorHandle, rows: i64, choices: &mut Choices<'_>) {
        let Tensor { dim, stride, .. } = self.matrices(name, rows, choices);
        let tensor = self.graph.set_output(id);
        (tensor.name, tensor.dim, tensor.stride) = (name.to_owned(), dim, stride);
    }

    fn store_scores(&mut self, name: &str, id: TensorHandle) {
        let stored = Tensor::new(name).row_major(self.scores()).data_type(self.io);
        *self.graph.tensor_mut(id) = Tensor { reordering: Reordering::F16x16, ..stored };
    }

    fn pointwise(&mut self, mode: M, operands: &[TensorHandle], data_type: DataType) -> TensorHandle {
        let y = self.graph.pointwise(mode.name(), mode, operands);
        self.graph.tensor_mut(y).data_type = Some(data_type);
        y
    }

    fn moved(
        &mut self,
        tag: &'static str,
        attributes: KeptAttributes,
        inputs: &[(Port, TensorHandle)],
        y: Tensor,
    ) -> TensorHandle {
        let y = self.graph.tensor(Tensor { is_virtual: true, ..y });
        self.graph.operation(Operation {
            name: tag.to_owned(),
            attributes: Attributes::Other(Other { tag, attributes }),
            compute_data_type: None,
            inputs: inputs.to_vec(),
            outputs: vec![(Port::Y, y)],
        });
        y
    }

    /// Scores with queries and keys exchanged, by a reshape whose result lies transposed.
    fn transposed(&mut self, x: TensorHandle) -> TensorHandle {
        let [batches, heads, queries, keys] = self.scores();
        let stride = [heads * queries * keys, queries * keys, 1, keys];
        let y = Tensor::new("turned").dim([batches, heads, keys, queries]).stride(stride).data_type(self.io);
        self.moved("RESHAPE", KeptAttributes::new(), &[(Port::X, x)], y)
    }

    fn masked(&mut self, x: TensorHandle, has_lengths: bool, is_causal: bool, fill: f64) -> TensorHandle {
        let mut kept = Vec::new();
        let [row, column] = [2, 3].map(|axis| {
            let index = Pointwise { axis: Some(axis), ..Pointwise::new(M::GenIndex) };
            let index = self.graph.pointwise_with("index", index, &[x]);
            self.graph.tensor_mut(index).data_type = Some(DataType::Int32);
            index
        });
        if has_lengths {
            for (port, index) in [(Port::SEQ_LEN_Q, row), (Port::SEQ_LEN_KV, column)] {
                let length = Tensor::new(port.0).row_major([self.batches, 1, 1, 1]).data_type(DataType::Int32);
                let length = self.graph.tensor(length);
                kept.push(self.pointwise(M::CmpLt, &[index, length], DataType::Boolean));
            }
        }
        if is_causal {
            kept.push(self.pointwise(M::CmpGe, &[row, column], DataType::Boolean));
        }
        let both = |one, other| self.pointwise(M::LogicalAnd, &[one, other], DataType::Boolean);
        let Some(kept) = kept.into_iter().reduce(both) else { return x };
        let fill = self.number("fill", fill);
        self.pointwise(M::BinarySelect, &[x, fill, kept], DataType::Float)
    }

    fn softmax(&mut self, x: TensorHandle) -> TensorHandle {
        let rows = [self.batches, self.heads, self.lengths[0], 1];
        let largest = self.graph.reduction("max", ReductionMode::Max, x, rows);
        let below = self.pointwise(M::Sub, &[x, largest], DataType::Float);
        let exponential = self.pointwise(M::Exp, &[below], DataType::Float);
        let sum = self.graph.reduction("sum", ReductionMode::Add, exponential, rows);
        self.pointwise(M::Div, &[exponential, sum], DataType::Float)
    }

    /// What is multiplied, with S in memory or not.
    fn dropped(&mut self, choices: &mut Choices<'_>, p: TensorHandle) -> TensorHandle {
        let is_dropped = choices.chance(DROPPED);
        let mask = is_dropped.then(|| match choices.chance(BY_MASK) {
            true => self.graph.tensor(Tensor::new("mask").row_major(self.scores())),
            false => self.random(choices.of(&[0.5, 0.9, 1.0])),
        });
        let s = mask.map_or(p, |mask| self.pointwise(M::Mul, &[p, mask], DataType::Float));
        if choices.chance(STORED) {
            self.store_scores("S", s);
        }
        if !is_dropped {
            self.graph.tensor_mut(s).data_type = Some(self.io);
            return s;
        }
        let factor = self.number("factor", 2.0);
        self.pointwise(M::Mul, &[s, factor], self.io)
    }

    fn random(&mut self, keep: f64) -> TensorHandle {
        let state = [Port::SEED, Port::OFFSET].map(|port| {
            let number = Tensor::new(port.0).row_major([1; 4]).data_type(DataType::Int64);
            (port, self.graph.tensor(number))
        });
        let attributes = [("distribution", json!("BERNOULLI")), ("bernoulli_probability", json!(keep))];
        let attributes = attributes.map(|(key, value)| (key.to_owned(), value)).into();
        let y = Tensor::new("random").row_major(self.scores()).data_type(DataType::Float);
        self.moved("RNG", attributes, &state, y)
    }
}
