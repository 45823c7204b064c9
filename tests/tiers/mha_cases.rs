//! Attention whose probabilities lie in memory, forward and backward, in the operations that programs send.

use fusewright::graph::DataType::{self, BFloat16, Boolean, Float, Half, Int32, Int64};
use fusewright::graph::{
    Attributes, Graph, KeptAttributes, Operation, Other, Pointwise, PointwiseMode, Port, ReductionMode, Reordering,
    Scalar, Tensor, TensorHandle,
};
use serde_json::json;

use crate::cases::{self, Case, push};

/// Adds the cases of this file.
pub(crate) fn attentions(cases: &mut Vec<Case>) {
    let mut add = |name: &str, mha: Mha| push(cases, format!("mha_{name}"), mha.graph());
    forward(&mut add);
    beyond(&mut add);
    let mut add = |name: &str, mha: MhaBackward| push(cases, format!("mha_backward_{name}"), mha.graph());
    backward(&mut add);
    backward_beyond(&mut add);
}

fn forward(add: &mut impl FnMut(&str, Mha)) {
    let of = Mha::new;
    let stored = |shape| Mha { stores: true, ..of(shape) };
    add("stored", stored([2, 2, 64, 128]));
    add("stored_bf16", Mha { io: BFloat16, ..stored([1, 3, 128, 64]) });
    add("stored_causal_padding", Mha { is_causal: true, has_lengths: true, ..stored([5, 2, 64, 64]) });
    add("stored_dropout", Mha { dropped: Some(0.3), ..stored([2, 2, 64, 64]) });
    add("stored_dropout_by_mask", Mha { is_masked: true, ..stored([2, 2, 64, 64]) });
    let all = Mha { scales_keys: true, is_causal: true, has_lengths: true, has_bias: true, ..stored([5, 2, 64, 128]) };
    add("stored_all", Mha { dropped: Some(0.5), ..all });
    add("stored_interleaved", Mha { is_interleaved: true, ..stored([2, 3, 64, 64]) });
    add("stored_odd", Mha { dropped: Some(0.25), head: 40, ..stored([2, 3, 33, 65]) });
    add("stored_one_query", stored([2, 2, 1, 7]));
    add("keys_scaled", Mha { scales_keys: true, ..of([2, 2, 33, 65]) });
    add("no_softmax", Mha { has_softmax: false, ..of([2, 2, 33, 65]) });
    let masked = Mha { has_softmax: false, is_causal: true, fill: -3.0, ..of([2, 2, 64, 70]) };
    add("no_softmax_causal", masked);
    add("no_softmax_dropout", Mha { has_softmax: false, dropped: Some(0.5), ..of([2, 2, 17, 70]) });
    add("no_softmax_stored", Mha { has_softmax: false, stores: true, ..of([2, 2, 64, 64]) });
    add("nothing_between_stored", Mha { has_softmax: false, is_scaled: false, ..stored([2, 2, 64, 64]) });
    add("stored_dropout_by_mask_alone", Mha { is_masked: true, has_factor: false, ..stored([2, 2, 64, 64]) });
    let short = Mha { has_lengths: true, is_causal: true, dropped: Some(0.5), ..of([7, 2, 17, 33]) };
    add("stored_short_sequences", Mha { stores: true, ..short });
    add("stored_by_value_of_16_bits", Mha { head: 128, io: BFloat16, scales_keys: true, ..stored([1, 2, 192, 64]) });
}

/// What rules do not allow.
fn beyond(add: &mut impl FnMut(&str, Mha)) {
    let stored = |shape| Mha { stores: true, ..Mha::new(shape) };
    add("float", Mha { io: Float, ..stored([1, 2, 64, 64]) });
    add("tanh", Mha { has_tanh: true, ..stored([1, 2, 64, 64]) });
    add("many_keys", stored([1, 1, 64, 576]));
    add("in_order", Mha { order: Reordering::None, ..stored([1, 2, 64, 64]) });
    add("spread", Mha { step: 2, ..stored([1, 2, 64, 64]) });
    add("dropout_by_mask_of_float", Mha { is_masked: true, mask_type: Float, ..stored([1, 2, 64, 64]) });
    add("scores_of_half", Mha { scores: Half, ..stored([1, 2, 64, 64]) });
}

/// The same of backward passes.
fn backward_beyond(add: &mut impl FnMut(&str, MhaBackward)) {
    let of = MhaBackward::new;
    add("float", MhaBackward { io: Float, gradients: Float, ..of([1, 2, 64, 64]) });
    add("tanh", MhaBackward { has_tanh: true, ..of([1, 2, 64, 64]) });
    add("in_order", MhaBackward { order: Reordering::None, has_dropout: true, ..of([1, 2, 64, 64]) });
    add("spread", MhaBackward { step: 2, ..of([1, 2, 64, 64]) });
}

fn backward(add: &mut impl FnMut(&str, MhaBackward)) {
    let of = MhaBackward::new;
    add("plain", of([2, 2, 64, 128]));
    add("bf16", MhaBackward { io: BFloat16, ..of([1, 3, 128, 64]) });
    add("dropout", MhaBackward { has_dropout: true, ..of([2, 2, 64, 64]) });
    add("bias", MhaBackward { has_bias: true, ..of([3, 2, 64, 64]) });
    add("causal", MhaBackward { is_causal: true, has_dropout: true, ..of([2, 2, 64, 128]) });
    add("interleaved", MhaBackward { is_interleaved: true, has_dropout: true, ..of([2, 3, 64, 64]) });
    add("odd", MhaBackward { has_dropout: true, has_bias: true, head: 40, ..of([2, 3, 33, 65]) });
    add("one_query", MhaBackward { has_dropout: true, ..of([2, 2, 1, 7]) });
    add("float_gradients", MhaBackward { gradients: Float, ..of([2, 1, 64, 64]) });
}

/// A forward pass.
#[derive(Clone, Copy)]
struct Mha {
    io: DataType,
    /// Batches, heads, queries, keys.
    shape: [i64; 4],
    head: i64,
    /// Whether keys are multiplied by a number before the product, and not the scores behind it.
    scales_keys: bool,
    is_scaled: bool,
    has_bias: bool,
    has_lengths: bool,
    is_causal: bool,
    has_softmax: bool,
    /// What masked scores are set to.
    fill: f64,
    /// The probability to drop.
    dropped: Option<f32>,
    /// Whether probabilities are multiplied by a mask.
    is_masked: bool,
    /// Whether something makes up for what is dropped.
    has_factor: bool,
    /// Whether S lies in memory.
    stores: bool,
    is_interleaved: bool,
    has_tanh: bool,
    order: Reordering,
    /// Elements from one of a row to the next.
    step: i64,
    mask_type: DataType,
    /// Type of what the softmax is of.
    scores: DataType,
}

impl Mha {
    fn new(shape: [i64; 4]) -> Self {
        Self {
            io: Half,
            shape,
            head: 64,
            scales_keys: false,
            is_scaled: true,
            has_bias: false,
            has_lengths: false,
            is_causal: false,
            has_softmax: true,
            fill: f64::NEG_INFINITY,
            dropped: None,
            is_masked: false,
            has_factor: true,
            stores: false,
            is_interleaved: false,
            has_tanh: false,
            order: Reordering::F16x16,
            step: 1,
            mask_type: Half,
            scores: Float,
        }
    }

    fn graph(self) -> Graph {
        let mut author = Author { order: self.order, step: self.step, ..Author::new(self.io, self.shape) };
        let [_, _, queries, keys] = self.shape;
        let q = author.heads("Q", [queries, self.head], self.is_interleaved);
        let mut k = author.heads("K", [keys, self.head], self.is_interleaved);
        author.turn(k);
        let v = author.heads("V", [keys, self.head], self.is_interleaved);
        let scale = author.number("scale", self.io, 0.125);
        if self.scales_keys {
            k = author.graph.pointwise("scaled keys", PointwiseMode::Mul, &[k, scale]);
            author.graph.tensor_mut(k).data_type = Some(self.io);
        }
        let mut x = author.graph.matmul("scores", q, k);
        if self.is_scaled && !self.scales_keys {
            x = author.graph.pointwise("scaled", PointwiseMode::Mul, &[x, scale]);
        }
        if self.has_bias {
            let bias = author.graph.tensor(Tensor::new("bias").row_major([1, self.shape[1], queries, keys]));
            x = author.graph.pointwise("biased", PointwiseMode::Add, &[x, bias]);
        }
        if self.has_tanh {
            x = author.graph.pointwise("tanh", PointwiseMode::TanhFwd, &[x]);
        }
        x = author.masked(x, self.has_lengths, self.is_causal, self.fill);
        if self.scores != Float {
            x = author.softmax_node(x, self.scores);
        } else if self.has_softmax {
            x = author.softmax(x);
        }
        let p = self.dropped(&mut author, x);
        let o = author.graph.matmul("values", p, v);
        author.store_heads("O", o, [queries, self.head], self.is_interleaved);
        author.graph
    }

    /// S, and what is multiplied.
    fn dropped(self, author: &mut Author, x: TensorHandle) -> TensorHandle {
        let is_dropped = self.dropped.is_some() || self.is_masked;
        let mask = match self.dropped {
            Some(dropped) => author.random(1.0 - f64::from(dropped)),
            None if self.is_masked => {
                author.graph.tensor(Tensor::new("mask").row_major(self.shape).data_type(self.mask_type))
            }
            None => x,
        };
        let s = if is_dropped { author.graph.pointwise("dropped", PointwiseMode::Mul, &[x, mask]) } else { x };
        if self.stores {
            author.store_scores("S", s, self.io);
        }
        if !is_dropped || !self.has_factor {
            author.graph.tensor_mut(s).data_type = Some(self.io);
            return s;
        }
        let factor = author.number("factor", Float, 1.0 / (1.0 - f64::from(self.dropped.unwrap_or(0.5))));
        let p = author.graph.pointwise("kept", PointwiseMode::Mul, &[s, factor]);
        author.graph.tensor_mut(p).data_type = Some(self.io);
        p
    }
}

/// A backward pass.
#[derive(Clone, Copy)]
struct MhaBackward {
    io: DataType,
    gradients: DataType,
    shape: [i64; 4],
    head: i64,
    has_dropout: bool,
    has_bias: bool,
    is_causal: bool,
    is_interleaved: bool,
    has_tanh: bool,
    order: Reordering,
    step: i64,
}

impl MhaBackward {
    fn new(shape: [i64; 4]) -> Self {
        Self {
            io: Half,
            gradients: Half,
            shape,
            head: 64,
            has_dropout: false,
            has_bias: false,
            is_causal: false,
            is_interleaved: false,
            has_tanh: false,
            order: Reordering::F16x16,
            step: 1,
        }
    }

    fn graph(self) -> Graph {
        use PointwiseMode as M;
        let gradients = if self.io == BFloat16 { BFloat16 } else { self.gradients };
        let mut author = Author { order: self.order, step: self.step, ..Author::new(self.io, self.shape) };
        let [batches, heads, queries, keys] = self.shape;
        let [q, d_o] = ["Q", "dO"].map(|name| author.heads(name, [queries, self.head], self.is_interleaved));
        let [k, v] = ["K", "V"].map(|name| author.heads(name, [keys, self.head], self.is_interleaved));
        author.turn(v);
        let s = author.graph.tensor(Tensor { reordering: self.order, ..Tensor::new("S").row_major(self.shape) });
        let factor = author.number("factor", Float, if self.has_dropout { 2.0 } else { 1.0 });
        // g5
        let turned = author.transposed(s);
        let scaled = author.graph.pointwise("S scaled", M::Mul, &[turned, factor]);
        let stripped = author.graph.pointwise("S stripped", M::Abs, &[scaled]);
        for id in [scaled, stripped] {
            author.graph.tensor_mut(id).data_type = Some(self.io);
        }
        let d_v = author.graph.matmul("dV", stripped, d_o);
        // g6
        let d_s = author.graph.matmul("dS", d_o, v);
        let p = author.graph.pointwise("P", M::Abs, &[s]);
        let mut x = author.graph.pointwise("dS scaled", M::Mul, &[factor, d_s]);
        if self.has_tanh {
            x = author.graph.pointwise("tanh", M::TanhFwd, &[x]);
        }
        if self.has_dropout {
            let zero = author.number("zero", Float, 0.0);
            let is_kept = author.graph.pointwise("kept", M::CmpGt, &[s, zero]);
            author.graph.tensor_mut(is_kept).data_type = Some(Boolean);
            x = author.graph.pointwise("dS kept", M::BinarySelect, &[x, zero, is_kept]);
        }
        let product = author.graph.pointwise("t", M::Mul, &[p, x]);
        let sum = author.graph.reduction("r", ReductionMode::Add, product, [batches, heads, queries, 1]);
        let difference = author.graph.pointwise("u", M::Sub, &[x, sum]);
        let gradient = author.graph.pointwise("v", M::Mul, &[p, difference]);
        let scale = author.number("scale", Float, 0.125);
        let mut d_p = author.graph.pointwise("dP scaled", M::Mul, &[gradient, scale]);
        d_p = author.masked(d_p, false, self.is_causal, 0.0);
        author.store_scores("dP", d_p, self.io);
        if self.has_bias {
            let bias = author.graph.reduction("dBias", ReductionMode::Add, d_p, [1, heads, queries, keys]);
            let tensor = author.graph.set_output(bias);
            (tensor.name, tensor.data_type) = ("dBias".to_owned(), Some(Float));
        }
        // g7
        let turned = author.transposed(d_p);
        let d_q = author.graph.matmul("dQ", d_p, k);
        let d_k = author.graph.matmul("dK", turned, q);
        for (name, id, rows) in [("dQ", d_q, queries), ("dK", d_k, keys), ("dV", d_v, keys)] {
            author.store_heads(name, id, [rows, self.head], self.is_interleaved);
            author.graph.tensor_mut(id).data_type = Some(gradients);
        }
        author.graph
    }
}

struct Author {
    graph: Graph,
    io: DataType,
    shape: [i64; 4],
    order: Reordering,
    step: i64,
}

impl Author {
    fn new(io: DataType, shape: [i64; 4]) -> Self {
        Self { graph: cases::graph(io), io, shape, order: Reordering::F16x16, step: 1 }
    }

    /// Rows of all heads, one behind the other or side by side.
    fn matrices(&self, name: &str, [rows, columns]: [i64; 2], is_interleaved: bool) -> Tensor {
        let [batches, heads, ..] = self.shape;
        let dim = [batches, heads, rows, columns];
        let stride = match is_interleaved {
            true => [heads * rows * columns, columns, heads * columns, 1],
            false => [heads * rows * columns, rows * columns, columns, 1],
        };
        Tensor::new(name).dim(dim).stride(stride.map(|stride| stride * self.step))
    }

    fn heads(&mut self, name: &str, matrix: [i64; 2], is_interleaved: bool) -> TensorHandle {
        let tensor = self.matrices(name, matrix, is_interleaved);
        self.graph.tensor(tensor)
    }

    fn store_heads(&mut self, name: &str, id: TensorHandle, matrix: [i64; 2], is_interleaved: bool) {
        let Tensor { dim, stride, .. } = self.matrices(name, matrix, is_interleaved);
        let tensor = self.graph.set_output(id);
        (tensor.name, tensor.dim, tensor.stride) = (name.to_owned(), dim, stride);
    }

    fn store_scores(&mut self, name: &str, id: TensorHandle, io: DataType) {
        let stored = Tensor::new(name).row_major(self.shape).data_type(io);
        *self.graph.tensor_mut(id) = Tensor { reordering: self.order, ..stored };
    }

    /// Keys, or values, as they are multiplied.
    fn turn(&mut self, id: TensorHandle) {
        let tensor = self.graph.tensor_mut(id);
        tensor.dim.swap(2, 3);
        tensor.stride.swap(2, 3);
    }

    fn number(&mut self, name: &str, data_type: DataType, value: f64) -> TensorHandle {
        let scalar = Tensor::scalar(name, data_type, Scalar::Float(value)).dim([1; 4]).stride([1; 4]);
        self.graph.tensor(scalar)
    }

    /// Scores with queries and keys exchanged, by a reshape whose result lies transposed.
    fn transposed(&mut self, x: TensorHandle) -> TensorHandle {
        let [batches, heads, queries, keys] = self.shape;
        let y = Tensor::new("turned").dim([batches, heads, keys, queries]).data_type(self.io);
        let y = Tensor { is_virtual: true, ..y.stride([heads * queries * keys, queries * keys, 1, keys]) };
        let y = self.graph.tensor(y);
        self.push(Attributes::Other(Other { tag: "RESHAPE", attributes: KeptAttributes::new() }), &[(Port::X, x)], y);
        y
    }

    /// 1 with a probability, and 0 otherwise, for each score.
    fn random(&mut self, keep: f64) -> TensorHandle {
        let [seed, offset] = ["seed", "offset"].map(|name| {
            let scalar = Tensor::scalar(name, Int64, Scalar::Integer(7)).dim([1; 4]).stride([1; 4]);
            self.graph.tensor(scalar)
        });
        let mask = Tensor::new("random").row_major(self.shape).data_type(Float);
        let mask = self.graph.tensor(Tensor { is_virtual: true, ..mask });
        let attributes = [("distribution", json!("BERNOULLI")), ("bernoulli_probability", json!(keep))];
        let attributes = attributes.map(|(key, value)| (key.to_owned(), value)).into();
        let inputs = [(Port::SEED, seed), (Port::OFFSET, offset)];
        self.push(Attributes::Other(Other { tag: "RNG", attributes }), &inputs, mask);
        mask
    }

    fn push(&mut self, attributes: Attributes, inputs: &[(Port, TensorHandle)], y: TensorHandle) {
        self.graph.operation(Operation {
            name: String::new(),
            attributes,
            compute_data_type: None,
            inputs: inputs.to_vec(),
            outputs: vec![(Port::Y, y)],
        });
    }

    fn index(&mut self, x: TensorHandle, axis: i64) -> TensorHandle {
        let attributes = Pointwise { axis: Some(axis), ..Pointwise::new(PointwiseMode::GenIndex) };
        let index = self.graph.pointwise_with("index", attributes, &[x]);
        self.graph.tensor_mut(index).data_type = Some(Int32);
        index
    }

    fn compared(&mut self, mode: PointwiseMode, sides: [TensorHandle; 2]) -> TensorHandle {
        let y = self.graph.pointwise("kept", mode, &sides);
        self.graph.tensor_mut(y).data_type = Some(Boolean);
        y
    }

    /// Scores within the lengths of their sequences, and up to the diagonal; a number elsewhere.
    fn masked(&mut self, x: TensorHandle, has_lengths: bool, is_causal: bool, fill: f64) -> TensorHandle {
        use PointwiseMode as M;
        if !has_lengths && !is_causal {
            return x;
        }
        let (row, column) = (self.index(x, 2), self.index(x, 3));
        let mut kept = Vec::new();
        if has_lengths {
            for (name, index) in [("SEQ_LEN_Q", row), ("SEQ_LEN_KV", column)] {
                let length = Tensor::new(name).row_major([self.shape[0], 1, 1, 1]).data_type(Int32);
                let length = self.graph.tensor(length);
                kept.push(self.compared(M::CmpLt, [index, length]));
            }
        }
        if is_causal {
            kept.push(self.compared(M::CmpGe, [row, column]));
        }
        let both = |one, other| self.compared(M::LogicalAnd, [one, other]);
        let kept = kept.into_iter().reduce(both).expect("there is a mask");
        let fill = self.number("fill", Float, fill);
        self.graph.pointwise("masked", M::BinarySelect, &[x, fill, kept])
    }

    /// A softmax as a node, of scores of a type.
    fn softmax_node(&mut self, x: TensorHandle, data_type: DataType) -> TensorHandle {
        self.graph.tensor_mut(x).data_type = Some(data_type);
        let (p, _) = self.graph.softmax_with("softmax", x, None, &[]);
        p
    }

    /// A softmax by operations.
    fn softmax(&mut self, x: TensorHandle) -> TensorHandle {
        use PointwiseMode as M;
        let [batches, heads, queries, _] = self.shape;
        let rows = [batches, heads, queries, 1];
        let largest = self.graph.reduction("max", ReductionMode::Max, x, rows);
        let below = self.graph.pointwise("below", M::Sub, &[x, largest]);
        let exponential = self.graph.pointwise("exp", M::Exp, &[below]);
        let sum = self.graph.reduction("sum", ReductionMode::Add, exponential, rows);
        self.graph.pointwise("P", M::Div, &[exponential, sum])
    }
}
