//! Attention as the operations that it stands for (`docs/spec/attention.md` AT-P50): one configuration is one graph, and has one key,
//! whether a program sends a node or its operations.
//!
//! ```text
//! scores = Q · Kᵀ [· scale] [+ bias] [+ ALiBi] ──mask──▶ softmax (STATS, MAX, SUM_EXP, sink) [──▶ dropout] ──▶ P, of Q's type ──▶ O = P · V
//! ```
//!
//! In FP8, scores, probabilities and O are scaled, and the largest magnitudes of these kept ([`fp8`]). Whatever else stands between the scores and the softmax is the caller's: any pointwise operations. K stands in the graph as
//! `[b, h, d, s_kv]`, as it is multiplied. Keys beyond a batch's length are masked, and its values left out of the second product by an
//! override extent: what lies there may be NaN (AT-O36). So are those of blocks of scores that are not kept, by the mask of blocks.

mod alibi;
mod backward;
mod dropout;
mod fp8;
mod pages;
mod soft_cap;

use super::draft::Draft;
use super::infer::check_replacement;
use super::{
    Attributes, Composite, DataType, Malformed, Matmul, Operation, OperationId, Other, Pointwise, PointwiseMode, Port,
    Scalar, ScoreMask, Softmax, Tensor, TensorId, packed_strides, row_major_order,
};
pub(super) use pages::{key_rows, table};

const Q: Port = Port::Q;
const K: Port = Port::K;
const V: Port = Port::V;
const O: Port = Port::O;
const SCALE: Port = Port::ATTN_SCALE;
const BIAS: Port = Port::ATTENTION_BIAS;
const SINK: Port = Port::SINK_TOKEN;

/// Ports of a node that its operations have, too.
const INPUTS: [Port; 13] = [
    Q,
    K,
    V,
    SCALE,
    Port::SOFT_CAP,
    BIAS,
    Port::ALIBI_SLOPES,
    Port::SEQ_LEN_Q,
    Port::SEQ_LEN_KV,
    SINK,
    Port::PAGE_TABLE_K,
    Port::PAGE_TABLE_V,
    Port::BLOCK_MASK,
];
const OUTPUTS: [Port; 4] = [O, Port::STATS, Port::MAX, Port::SUM_EXP];

/// Ports of tensors that may be ragged: all that have rows of queries, or of keys (AT-O6), or entries for them.
const RAGGED: [Port; 13] = [
    Q,
    K,
    V,
    O,
    Port::STATS,
    Port::MAX,
    Port::SUM_EXP,
    Port::DO,
    Port::DQ,
    Port::DK,
    Port::DV,
    Port::PAGE_TABLE_K,
    Port::PAGE_TABLE_V,
];

/// The nodes of both passes, by tag.
const FORWARD: &str = "SDPA";
const FP8_FORWARD: &str = "SDPA_FP8_FWD";
const BACKWARD: &str = "SDPA_BWD";
const FP8_BACKWARD: &str = "SDPA_FP8_BWD";

/// Attributes that say how a node came about, or repeat what its ports say.
const SAID_BY_PORTS: [&str; 7] = [
    "padding_mask",
    "generate_stats",
    "mma_core_mode",
    "implementation",
    "unfuse_fma",
    "max_total_seq_len_q",
    "max_total_seq_len_kv",
];

/// Puts the operations of each attention node in its place, but for nodes with options that no operations stand for yet, which stay, and say why in
/// the notes. Tensors are complete.
pub(super) fn lower(draft: &mut Draft) -> Result<bool, Malformed> {
    let nodes: Vec<OperationId> = draft.operation_ids().filter(|&id| node(draft, id).is_some()).collect();
    let mut replaced = Vec::new();
    for id in nodes {
        let operation = draft.operations[id.index()].clone();
        let is_backward = [BACKWARD, FP8_BACKWARD].contains(&operation.tag());
        let obstacle = if is_backward { backward::obstacle } else { obstacle };
        match obstacle(draft, id, &operation) {
            Some(obstacle) => {
                let name = operation.name.escape_debug();
                draft.notes.push(format!("attention '{name}' is kept as it is: {obstacle}"));
            }
            None => {
                let operations = match is_backward {
                    true => vec![backward::operation(draft, id, &operation)?],
                    false => Lowering::new(draft, id, &operation)?.operations(),
                };
                operations.iter().try_for_each(|operation| check_replacement(draft, id, operation))?;
                replaced.push((id, operations));
            }
        }
    }
    let is_changed = !replaced.is_empty();
    for (id, operations) in replaced.into_iter().rev() {
        draft.operations.splice(id.index()..=id.index(), operations);
    }
    Ok(is_changed)
}

/// The attributes of a node of either pass that computes in floats.
fn node(draft: &Draft, id: OperationId) -> Option<&Other> {
    match &draft.operations[id.index()].attributes {
        Attributes::Other(other) if [FORWARD, FP8_FORWARD, BACKWARD, FP8_BACKWARD].contains(&other.tag) => Some(other),
        _ => None,
    }
}

/// What keeps a forward node from being taken apart.
fn obstacle(draft: &Draft, id: OperationId, operation: &Operation) -> Option<String> {
    let known = [SCALE_VALUE, LEFT, RIGHT, ALIGNMENT, pages::MOST_ROWS, alibi::FLAG];
    let mut keys: Vec<&str> = known.into_iter().chain(SAID_BY_PORTS).collect();
    let (mut inputs, mut outputs) = (INPUTS.to_vec(), OUTPUTS.to_vec());
    if let Some(dropped) = dropout::dropped(operation) {
        keys.push(dropout::PROBABILITY);
        inputs.extend(dropout::INPUTS);
        outputs.extend((dropped != 0.0).then_some(Port::RNG_DUMP));
    } else {
        inputs.extend(dropout::MASK);
    }
    if operation.tag() == FP8_FORWARD {
        inputs.extend(fp8::FACTORS);
        outputs.extend(fp8::LARGEST);
    }
    obstacle_of(draft, id, operation, [&inputs, &outputs], &keys)
}

/// What of a node is in use beside these ports and attributes.
fn obstacle_of(
    draft: &Draft,
    id: OperationId,
    operation: &Operation,
    [inputs, outputs]: [&[Port]; 2],
    keys: &[&str],
) -> Option<String> {
    let strange = |slots: &[(Port, TensorId)], known: &[Port]| {
        slots.iter().map(|slot| slot.0).find(|port| !known.contains(port)).map(|port| format!("port {port} is in use"))
    };
    let ragged =
        || operation.inputs.iter().chain(&operation.outputs).filter(|slot| draft.ragged_offset(slot.1).is_some());
    let strange_ragged = ragged().find(|slot| !RAGGED.contains(&slot.0));
    let endless = ragged().next().filter(|_| operation.input(Port::SEQ_LEN_Q).is_none());
    let is_paged = [K, V].into_iter().any(|port| table(operation, port).is_some());
    let is_unmasked = is_paged && operation.input(Port::SEQ_LEN_KV).is_none();
    let others = node(draft, id).into_iter().flat_map(Other::set_attributes).map(|row| row.0);
    let attribute = others.into_iter().find(|key| !keys.contains(key));
    let [q, k] = [Q, K].map(|port| operation.input(port));
    // a container is not turned
    let k = k.filter(|_| operation.input(Port::PAGE_TABLE_K).is_none());
    let is_k = |slot: &&(Port, TensorId)| Some(slot.1) == k;
    let uses = draft.operations.iter().flat_map(|operation| operation.inputs.iter().chain(&operation.outputs));
    strange(&operation.inputs, inputs)
        .or_else(|| strange(&operation.outputs, outputs))
        .or_else(|| {
            strange_ragged.map(|slot| format!("the tensor at port {} is ragged, and has no rows of a sequence", slot.0))
        })
        .or_else(|| endless.map(|slot| format!("the tensor at port {} is ragged, without lengths [AT-E10]", slot.0)))
        .or_else(|| {
            is_unmasked.then(|| "keys or values are in pages, without lengths of sequences [AT-E11]".to_owned())
        })
        .or_else(|| attribute.map(|key| format!("attribute {key} is set")))
        .or_else(|| {
            (uses.filter(is_k).count() > 1 || (q == k && k.is_some()))
                .then(|| "K is used at another port, too".to_owned())
        })
}

const SCALE_VALUE: &str = "attn_scale_value";
const LEFT: &str = "left_bound";
const RIGHT: &str = "right_bound";
const ALIGNMENT: &str = "diagonal_alignment";

/// One node on its way to operations.
struct Lowering<'a> {
    draft: &'a mut Draft,
    node: &'a Operation,
    /// Extents of the scores.
    scores: Vec<i64>,
    mask: ScoreMask,
    scale: Option<TensorId>,
    dropout: Option<dropout::Step>,
    /// K and V as they are multiplied, where they come out of pages.
    loaded: [Option<TensorId>; 2],
    operations: Vec<Operation>,
}

impl<'a> Lowering<'a> {
    fn new(draft: &'a mut Draft, id: OperationId, node: &'a Operation) -> Result<Self, Malformed> {
        let scale = scale(draft, id, node)?;
        let keys = pages::rows_of(draft, node);
        for (port, is_turned) in [(K, true), (V, false)] {
            if table(node, port).is_none() {
                turn(draft, node, port, is_turned);
            }
        }
        let q = node.input(Q).map_or(&[][..], |id| &draft.tensor(id).dim);
        let scores = vec![q[0], q[1], q[2], keys];
        let mask = mask(node, &scores);
        let dropout = dropout::of(draft, id, node)?;
        let mut lowering =
            Self { draft, node, scores, mask, scale, dropout, loaded: [None; 2], operations: Vec::new() };
        lowering.loaded = [K, V].map(|port| pages::loaded(&mut lowering, port));
        Ok(lowering)
    }

    fn operations(mut self) -> Vec<Operation> {
        let [q, k, v] = [Q, K, V].map(|port| self.input(port).expect("a complete node"));
        let [k, v] = [self.loaded[0].unwrap_or(k), self.loaded[1].unwrap_or(v)];
        let of_scores = self.scores.clone();
        let mut x = self.value("bmm1", &of_scores, DataType::Float);
        let matmul = || Attributes::Matmul(Matmul::default());
        self.push("bmm1", matmul(), vec![(Port::A, q), (Port::B, k)], vec![(Port::C, x)]);
        x = self.with_side(("attn_scale", PointwiseMode::Mul), x, self.scale);
        x = fp8::multiplied(&mut self, x, &[Port::DESCALE_Q, Port::DESCALE_K]);
        x = soft_cap::added(&mut self, x);
        x = self.with_side(("bias", PointwiseMode::Add), x, self.input(BIAS));
        x = alibi::added(&mut self, x);
        let lengths = ScoreMask::LENGTHS.iter().filter_map(|&port| Some((port, self.input(port)?)));
        let lengths: Vec<(Port, TensorId)> = lengths.collect();
        let blocks = self.input(Port::BLOCK_MASK).map(|blocks| (Port::BLOCK_MASK, blocks));
        if !lengths.is_empty() || self.mask != ScoreMask::default() || blocks.is_some() {
            let y = self.value("mask", &of_scores, DataType::Float);
            let inputs = [(Port::X, x)].into_iter().chain(lengths.iter().copied()).chain(blocks).collect();
            self.push("mask", Attributes::Composite(self.mask.into()), inputs, vec![(Port::Y, y)]);
            x = y;
        }
        let rounded = self.draft.tensor(q).data_type.unwrap_or(DataType::Float);
        // what is multiplied is rounded, and nothing before
        let scales = fp8::scales(self.node, &[Port::SCALE_S], Port::AMAX_S);
        let of_softmax = if self.dropout.is_some() || scales { DataType::Float } else { rounded };
        let mut p = self.value("softmax", &of_scores, of_softmax);
        let inside = lengths.iter().copied().filter(|slot| slot.0 == Port::SEQ_LEN_Q);
        let sink = self.input(SINK).map(|sink| [(Port::SINK, sink)].into_iter().chain(inside));
        let statistics = Softmax::STATISTICS.iter().filter_map(|&port| Some((port, self.node.output(port)?)));
        let outputs = [(Port::Y, p)].into_iter().chain(statistics).collect();
        let softmax = Attributes::Composite(Composite::Softmax(Softmax));
        self.push("softmax", softmax, [(Port::X, x)].into_iter().chain(sink.into_iter().flatten()).collect(), outputs);
        if let Some(dropout) = self.dropout.take() {
            let y = self.value("dropout", &of_scores, if scales { DataType::Float } else { rounded });
            let dump = self.node.output(Port::RNG_DUMP).map(|dump| (Port::RNG_DUMP, dump));
            let (attributes, inputs) = dropout.of_value(p);
            self.push("dropout", attributes, inputs, [(Port::Y, y)].into_iter().chain(dump).collect());
            p = y;
        }
        if scales {
            fp8::keep_largest(&mut self, p, Port::AMAX_S);
            let y = self.value("scaled", &of_scores, rounded);
            fp8::result(&mut self, p, Port::SCALE_S, y);
            p = y;
        }
        let length = lengths.iter().find(|slot| slot.0 == Port::SEQ_LEN_KV).map(|slot| (Port::K_OVERRIDE, slot.1));
        let inputs = [(Port::A, p), (Port::B, v)].into_iter().chain(length).chain(blocks).collect();
        let o = self.node.output(O).expect("a complete node");
        if !fp8::scales(self.node, &[Port::DESCALE_S, Port::DESCALE_V, Port::SCALE_O], Port::AMAX_O) {
            self.push("bmm2", matmul(), inputs, vec![(Port::C, o)]);
            return self.operations;
        }
        let dim = self.draft.tensor(o).dim.clone();
        let product = self.value("bmm2", &dim, DataType::Float);
        self.push("bmm2", matmul(), inputs, vec![(Port::C, product)]);
        let product = fp8::multiplied(&mut self, product, &[Port::DESCALE_S, Port::DESCALE_V]);
        fp8::keep_largest(&mut self, product, Port::AMAX_O);
        fp8::result(&mut self, product, Port::SCALE_O, o);
        self.operations
    }

    fn input(&self, port: Port) -> Option<TensorId> {
        self.node.input(port)
    }

    /// Scores, or what an operation makes of them and of a side input, where there is one.
    fn with_side(&mut self, (name, mode): (&str, PointwiseMode), x: TensorId, side: Option<TensorId>) -> TensorId {
        let Some(side) = side else { return x };
        let dim = self.scores.clone();
        let y = self.value(name, &dim, DataType::Float);
        let inputs = vec![(Port::IN_0, x), (Port::IN_1, side)];
        self.push(name, Attributes::Pointwise(Pointwise::new(mode)), inputs, vec![(Port::OUT_0, y)]);
        y
    }

    /// A virtual tensor between two operations.
    fn value(&mut self, name: &str, dim: &[i64], data_type: DataType) -> TensorId {
        let stride = packed_strides(dim, &row_major_order(dim.len()));
        let tensor = Tensor::new(format!("{}::{name}", self.node.name)).dim(dim).stride(stride).data_type(data_type);
        add(self.draft, Tensor { is_virtual: true, ..tensor })
    }

    fn push(
        &mut self,
        name: &str,
        attributes: Attributes,
        inputs: Vec<(Port, TensorId)>,
        outputs: Vec<(Port, TensorId)>,
    ) {
        let name = format!("{}::{name}", self.node.name);
        let compute_data_type = self.node.compute_data_type.or(Some(DataType::Float));
        self.operations.push(Operation { name, attributes, compute_data_type, inputs, outputs });
    }
}

fn add(draft: &mut Draft, tensor: Tensor) -> TensorId {
    let id = TensorId(draft.tensors.len() as u32);
    draft.tensors.push(tensor);
    id
}

/// Puts the last two axes of K, or of V, in the order in which they are multiplied. In files that were written after the frontend
/// took a node apart they are swapped: the last one has not stride 1, and the one before it has (AT-J2).
fn turn(draft: &mut Draft, node: &Operation, port: Port, is_wanted: bool) {
    let Some(id) = node.input(port) else { return };
    let tensor = &mut draft.tensors[id.index()];
    if is_turned(&tensor.stride) != is_wanted {
        tensor.dim.swap(2, 3);
        tensor.stride.swap(2, 3);
    }
}

/// Whether the last two axes of a K or V are swapped.
pub(crate) fn is_turned(stride: &[i64]) -> bool {
    matches!(stride, [_, _, 1, last] if *last != 1)
}

/// The factor of the scores: a tensor, or a number, which becomes one (AT-J3).
fn scale(draft: &mut Draft, id: OperationId, node: &Operation) -> Result<Option<TensorId>, Malformed> {
    let Attributes::Other(other) = &node.attributes else { return Ok(None) };
    let number = other.attributes.get(SCALE_VALUE).and_then(serde_json::Value::as_f64);
    match (node.input(SCALE), number) {
        (Some(tensor), Some(number)) => {
            let value = draft.tensor(tensor).value.map(Scalar::as_f64);
            if value.is_some_and(|value| value as f32 != number as f32) {
                let message = format!("port {SCALE} is {}, but {SCALE_VALUE} is {number}", value.unwrap_or(f64::NAN));
                return Err(draft.fault("AT-E18", id, Some(tensor), message));
            }
            Ok(Some(tensor))
        }
        (Some(tensor), None) => Ok(Some(tensor)),
        (None, Some(number)) => {
            let value = Scalar::Float(f64::from(number as f32));
            let scalar = Tensor::scalar(format!("{}::{SCALE}", node.name), DataType::Float, value);
            Ok(Some(add(draft, Tensor { dim: vec![1; 4], stride: vec![1; 4], ..scalar })))
        }
        (None, None) => Ok(None),
    }
}

/// The band of a node. Where the lengths are the extents, the diagonal's place is part of the bounds (AT-O3).
fn mask(node: &Operation, scores: &[i64]) -> ScoreMask {
    let Attributes::Other(other) = &node.attributes else { return ScoreMask::default() };
    let bound = |key: &str| other.attributes.get(key).and_then(serde_json::Value::as_i64);
    let (left, right) = (bound(LEFT), bound(RIGHT));
    let is_bottom_right = other.attributes.get(ALIGNMENT).and_then(|value| value.as_str()) == Some("BOTTOM_RIGHT");
    let follows = is_bottom_right && node.input(Port::SEQ_LEN_KV).is_some() && (left.is_some() || right.is_some());
    let shift = if is_bottom_right && !follows { scores[3] - scores[2] } else { 0 };
    ScoreMask {
        left_bound: left.map(|left| left - shift),
        right_bound: right.map(|right| right + shift),
        is_bottom_right: follows,
    }
}
