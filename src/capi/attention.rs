//! Attention as one descriptor (`docs/spec/attention.md` 2.2): the operations that it stands for, which finalizing a graph brings to
//! the form that all attentions have; and the operations that stand in attentions alone.

use std::sync::Arc;

use cudarc::cudnn::sys::cudnnBackendAttributeName_t as Name;
use cudarc::cudnn::sys::cudnnRngDistribution_t as RawDistribution;
use cudarc::cudnn::sys::cudnnStatus_t as Status;
use serde_json::json;

use super::descriptor::{Given, Object, Referred};
use super::failure::{Failure, Result};
use super::graph::OperationGraph;
use super::operation::{Node, slots};
use super::tensor::DescribedTensor;
use super::translate;
use crate::graph::{
    Attributes, BAND_MASK, Composite, DataType, FILL, KeptAttributes, Matmul, Other, PagedCacheLoad, Pointwise,
    PointwiseMode, Port, ScoreMask, Softmax, Tensor, packed_strides, row_major_order,
};

const OPERANDS: &[(Port, Name)] = &[
    (Port("Q"), Name::CUDNN_ATTR_OPERATION_SDPA_FWD_QDESC),
    (Port("K"), Name::CUDNN_ATTR_OPERATION_SDPA_FWD_KDESC),
    (Port("V"), Name::CUDNN_ATTR_OPERATION_SDPA_FWD_VDESC),
    (Port("Attn_scale"), Name::CUDNN_ATTR_OPERATION_SDPA_FWD_SCALEDESC),
    (Port::SEQ_LEN_Q, Name::CUDNN_ATTR_OPERATION_SDPA_FWD_SEQ_LEN_QDESC),
    (Port::SEQ_LEN_KV, Name::CUDNN_ATTR_OPERATION_SDPA_FWD_SEQ_LEN_KVDESC),
    (Port::PAGE_TABLE_K, Name::CUDNN_ATTR_OPERATION_SDPA_FWD_PAGE_TABLE_KDESC),
    (Port::PAGE_TABLE_V, Name::CUDNN_ATTR_OPERATION_SDPA_FWD_PAGE_TABLE_VDESC),
    (Port::BLOCK_MASK, Name::CUDNN_ATTR_OPERATION_SDPA_FWD_BLOCK_MASK_DESC),
];

const RESULTS: &[(Port, Name)] = &[
    (Port("O"), Name::CUDNN_ATTR_OPERATION_SDPA_FWD_ODESC),
    (Port::STATS, Name::CUDNN_ATTR_OPERATION_SDPA_FWD_STATSDESC),
];

/// What a descriptor may be given that no engine computes: the attribute, what it is, and its rule.
const REFUSED: &[(Name, &str)] = &[
    (Name::CUDNN_ATTR_OPERATION_SDPA_FWD_DROPOUT_SEED_DESC, "dropout [AT-O13]"),
    (Name::CUDNN_ATTR_OPERATION_SDPA_FWD_DROPOUT_OFFSET_DESC, "dropout [AT-O13]"),
    (Name::CUDNN_ATTR_OPERATION_SDPA_FWD_DROPOUT_RNG_DUMP_DESC, "dropout [AT-O13]"),
    (Name::CUDNN_ATTR_OPERATION_SDPA_FWD_DROPOUT_PROBABILITY, "dropout [AT-O13]"),
];

type Slots = Vec<(Port, Arc<DescribedTensor>)>;

fn at(slots: &Slots, port: Port) -> Option<Arc<DescribedTensor>> {
    slots.iter().find(|slot| slot.0 == port).map(|slot| Arc::clone(&slot.1))
}

/// An attention, forward, and the operations that stand in its place.
pub(super) fn forward(given: &Given<'_>) -> Result<Node> {
    if let Some((name, what)) = REFUSED.iter().find(|row| given.of(row.0).is_some()) {
        return Err(Failure::unsupported(format!("{name:?}: no engine computes attention with {what}")));
    }
    let mut inputs = slots(given, OPERANDS)?;
    let mut outputs = slots(given, RESULTS)?;
    let softmax = given.descriptor(Name::CUDNN_ATTR_OPERATION_SDPA_FWD_SOFTMAX_DESC);
    if let Some(softmax) = softmax.map(|softmax| softmax.object::<Node>()).transpose()? {
        let statistics = softmax.outputs.iter().filter(|slot| Softmax::STATISTICS.contains(&slot.0));
        for (port, tensor) in statistics {
            if at(&outputs, *port).is_some() {
                return Err(Failure::bad(format!("{port} is given by the attention and by its softmax")));
            }
            outputs.push((*port, Arc::clone(tensor)));
        }
        inputs.extend(at(&softmax.inputs, Port::SINK).map(|sink| (Port("SINK_TOKEN"), sink)));
    }
    require_types(&inputs, &outputs)?;
    let rows = key_rows(given, &inputs)?;
    let parts = Parts::of(given, &inputs, &outputs, rows)?;
    // the ports of a graph file's node, by which extents are held to the rules of section 10
    let rows = rows.filter(|_| is_paged(&inputs)).map(|rows| ("max_seq_len_kv".to_owned(), json!(rows)));
    let attributes = Attributes::Other(Other { tag: "SDPA", attributes: rows.into_iter().collect() });
    Ok(Node { attributes, compute: Some(DataType::Float), inputs, outputs, parts })
}

/// Tables of K and of V, with what they are of.
const PAGED: [(Port, Port); 2] = [(Port::K, Port::PAGE_TABLE_K), (Port::V, Port::PAGE_TABLE_V)];

fn is_paged(inputs: &Slots) -> bool {
    PAGED.iter().any(|row| at(inputs, row.1).is_some())
}

/// Rows of keys and values: those of what is in no pages, else the columns of scores that are modified, else what tables have entries for
/// (AT-O18: the node does not say it). `None` where extents are missing.
fn key_rows(given: &Given<'_>, inputs: &Slots) -> Result<Option<i64>> {
    let rows = |(port, table): (Port, Port)| {
        let rows = at(inputs, port)?.dim.get(2).copied()?;
        at(inputs, table).map_or(Some(rows), |table| Some(table.dim.get(2)?.saturating_mul(rows)))
    };
    if let Some(plain) = PAGED.into_iter().find(|row| at(inputs, row.1).is_none()) {
        return Ok(rows(plain));
    }
    let modified = given.descriptor(Name::CUDNN_ATTR_OPERATION_SDPA_FWD_SUBGRAPH);
    let first = given.int64(Name::CUDNN_ATTR_OPERATION_SDPA_FWD_SUBGRAPH_INPUT_UID);
    if let Some(graph) = modified.map(|graph| graph.object::<OperationGraph>()).transpose()? {
        let tensors = graph.nodes().iter().flat_map(|node| &node.inputs);
        let scores = tensors.map(|slot| &slot.1).find(|tensor| tensor.uid == first);
        return Ok(scores.and_then(|scores| scores.dim.get(3).copied()));
    }
    let [of_keys, of_values] = PAGED.map(rows);
    Ok(of_keys.zip(of_values).map(|(keys, values)| keys.min(values)))
}

/// AT-E7 … AT-E9: types of what is beside the operands, one number as a scale.
fn require_types(inputs: &Slots, outputs: &Slots) -> Result<()> {
    let float = Softmax::STATISTICS.iter().map(|&port| (port, at(outputs, port)));
    let float = float.chain([(Port("SINK_TOKEN"), at(inputs, Port("SINK_TOKEN")))]);
    for (port, tensor) in float.filter_map(|(port, tensor)| Some((port, tensor?))) {
        if tensor.data_type != Some(DataType::Float) {
            return Err(Failure::bad(format!("{port} is FLOAT; found: {} [AT-E7]", type_of(&tensor))));
        }
    }
    for &port in ScoreMask::LENGTHS {
        let Some(lengths) = at(inputs, port) else { continue };
        if lengths.data_type != Some(DataType::Int32) {
            return Err(Failure::bad(format!("{port} is INT32; found: {} [AT-E9]", type_of(&lengths))));
        }
    }
    match at(inputs, Port("Attn_scale")) {
        Some(scale) if scale.dim.iter().any(|&extent| extent != 1) => {
            let message = format!("the scale is one number; found dims {:?} [AT-E8]", scale.dim);
            Err(Failure::new(Status::CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH, message))
        }
        _ => Ok(()),
    }
}

fn type_of(tensor: &Tensor) -> String {
    tensor.data_type.map_or_else(String::new, |data_type| data_type.to_string())
}

/// The operations of an attention, in the making.
struct Parts {
    nodes: Vec<Node>,
    /// Extents of the scores.
    dim: [i64; 4],
}

impl Parts {
    fn of(given: &Given<'_>, inputs: &Slots, outputs: &Slots, rows: Option<i64>) -> Result<Vec<Node>> {
        let required = |slots: &Slots, port| at(slots, port).ok_or_else(|| Failure::bad(format!("{port} is not set")));
        let [q, k, v] = [Port("Q"), Port("K"), Port("V")].map(|port| required(inputs, port));
        let (q, k, v, o) = (q?, k?, v?, required(outputs, Port("O"))?);
        for (port, tensor) in [("Q", &q), ("K", &k), ("V", &v), ("O", &o)] {
            if tensor.dim.len() != 4 {
                let message = format!("{port} has rank {}; required 4 [AT-E1]", tensor.dim.len());
                return Err(Failure::new(Status::CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH, message));
            }
        }
        let rows = rows.ok_or_else(|| Failure::bad("how many rows K and V have is said nowhere [AT-O18]"))?;
        let mut parts = Self { nodes: Vec::new(), dim: [q.dim[0], q.dim[1], q.dim[2], rows] };
        let k = match at(inputs, Port::PAGE_TABLE_K) {
            Some(table) => parts.loaded(inputs, &k, table, true)?,
            None => {
                let mut turned = DescribedTensor::clone(&k);
                turned.tensor.dim.swap(2, 3);
                turned.tensor.stride.swap(2, 3);
                Arc::new(turned)
            }
        };
        let v = match at(inputs, Port::PAGE_TABLE_V) {
            Some(table) => parts.loaded(inputs, &v, table, false)?,
            None => v,
        };
        let mut x = parts.value(DataType::Float);
        let product = || Attributes::Matmul(Matmul::default());
        parts.push(product(), vec![(Port::A, Arc::clone(&q)), (Port::B, k)], (Port::C, &x));
        if let Some(scale) = at(inputs, Port("Attn_scale")) {
            let y = parts.value(DataType::Float);
            let multiply = Attributes::Pointwise(Pointwise::new(PointwiseMode::Mul));
            parts.push(multiply, vec![(Port::IN_0, x), (Port::IN_1, scale)], (Port::OUT_0, &y));
            x = y;
        }
        x = parts.modified(given, x)?;
        let lengths: Slots = ScoreMask::LENGTHS.iter().filter_map(|&port| Some((port, at(inputs, port)?))).collect();
        let blocks = at(inputs, Port::BLOCK_MASK).map(|blocks| (Port::BLOCK_MASK, blocks));
        if !lengths.is_empty() || blocks.is_some() {
            let y = parts.value(DataType::Float);
            let masked = [(Port::X, x)].into_iter().chain(lengths.iter().cloned()).chain(blocks).collect();
            parts.push(Attributes::Composite(ScoreMask::default().into()), masked, (Port::Y, &y));
            x = y;
        }
        let p = parts.value(q.data_type.unwrap_or(DataType::Float));
        let sink = at(inputs, Port("SINK_TOKEN")).map(|sink| (Port::SINK, sink));
        let softmax = Attributes::Composite(Composite::Softmax(Softmax));
        parts.push(softmax, [(Port::X, x)].into_iter().chain(sink).collect(), (Port::Y, &p));
        let statistics = Softmax::STATISTICS.iter().filter_map(|&port| Some((port, at(outputs, port)?)));
        parts.nodes.iter_mut().rev().take(1).for_each(|node| node.outputs.extend(statistics.clone()));
        let keys = at(inputs, Port::SEQ_LEN_KV).map(|keys| (Port::K_OVERRIDE, keys));
        let operands = [(Port::A, p), (Port::B, v)].into_iter().chain(keys).collect();
        parts.push(product(), operands, (Port::C, &o));
        Ok(parts.nodes)
    }

    /// K, turned as it is multiplied, or V, out of the pages of a container.
    fn loaded(
        &mut self,
        inputs: &Slots,
        container: &Arc<DescribedTensor>,
        table: Arc<DescribedTensor>,
        is_turned: bool,
    ) -> Result<Arc<DescribedTensor>> {
        let lengths = at(inputs, Port::SEQ_LEN_KV).ok_or_else(|| {
            Failure::unsupported("keys and values in pages need the lengths of both sequences [AT-E11]")
        })?;
        let ([batches, .., rows], heads, size) = (self.dim, container.dim[1], container.dim[3]);
        let dim = if is_turned { [batches, heads, size, rows] } else { [batches, heads, rows, size] };
        let stride = PagedCacheLoad::strides(&dim, is_turned);
        let y = Tensor { data_type: container.data_type, is_virtual: true, ..Tensor::new("").dim(dim).stride(stride) };
        let y = Arc::new(y.into());
        let load = Attributes::Composite(PagedCacheLoad.into());
        let slots = vec![(Port::CONTAINER, Arc::clone(container)), (Port::SEQ_LEN, lengths), (Port::PAGE_TABLE, table)];
        self.push(load, slots, (Port::Y_OUT, &y));
        Ok(y)
    }

    /// A tensor between two operations.
    fn value(&self, data_type: DataType) -> Arc<DescribedTensor> {
        let stride = packed_strides(&self.dim, &row_major_order(4));
        let tensor = Tensor::new("").dim(self.dim).stride(stride).data_type(data_type);
        Arc::new(Tensor { is_virtual: true, ..tensor }.into())
    }

    fn push(&mut self, attributes: Attributes, inputs: Slots, (port, y): (Port, &Arc<DescribedTensor>)) {
        let outputs = vec![(port, Arc::clone(y))];
        self.nodes.push(Node { attributes, compute: Some(DataType::Float), inputs, outputs, parts: Vec::new() });
    }

    /// Adds what a graph of operations on scores makes of them (2811–2813, AT-E20).
    fn modified(&mut self, given: &Given<'_>, x: Arc<DescribedTensor>) -> Result<Arc<DescribedTensor>> {
        const SUBGRAPH: Name = Name::CUDNN_ATTR_OPERATION_SDPA_FWD_SUBGRAPH;
        const ENDS: [Name; 2] = [
            Name::CUDNN_ATTR_OPERATION_SDPA_FWD_SUBGRAPH_INPUT_UID,
            Name::CUDNN_ATTR_OPERATION_SDPA_FWD_SUBGRAPH_OUTPUT_UID,
        ];
        let ends = ENDS.map(|name| given.int64(name));
        let Some(graph) = given.descriptor(SUBGRAPH) else {
            return match ends {
                [None, None] => Ok(x),
                _ => Err(Failure::bad(format!("{SUBGRAPH:?} is not set, but the uids of its ends are [AT-E20]"))),
            };
        };
        let graph = graph.object::<OperationGraph>()?;
        let [Some(first), Some(last)] = ends else {
            return Err(Failure::bad(format!("{ENDS:?} are not both set [AT-E20]")));
        };
        if graph.nodes().iter().any(|node| !node.parts.is_empty()) {
            let message = format!("{SUBGRAPH:?} has an attention of its own [AT-E20]");
            return Err(Failure::new(Status::CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN, message));
        }
        let is_scores = |tensor: &Arc<DescribedTensor>| tensor.uid == Some(first);
        let replaced = |slots: &Slots| -> Slots {
            let other =
                |tensor: &Arc<DescribedTensor>| if is_scores(tensor) { Arc::clone(&x) } else { Arc::clone(tensor) };
            slots.iter().map(|(port, tensor)| (*port, other(tensor))).collect()
        };
        let (mut is_read, mut result) = (false, None);
        for node in graph.nodes() {
            is_read |= node.inputs.iter().any(|slot| is_scores(&slot.1));
            if node.outputs.iter().any(|slot| is_scores(&slot.1)) {
                return Err(Failure::bad(format!("{:?} is a result of the graph [AT-E20]", ENDS[0])));
            }
            let found = node.outputs.iter().find(|slot| slot.1.uid == Some(last));
            result = found.map(|slot| Arc::clone(&slot.1)).or(result);
            let attributes = node.attributes.clone();
            let (inputs, outputs) = (replaced(&node.inputs), node.outputs.clone());
            self.nodes.push(Node { attributes, compute: node.compute, inputs, outputs, parts: Vec::new() });
        }
        let result = result.filter(|_| is_read).ok_or_else(|| {
            Failure::bad(format!("the uids {first} and {last} are no input and result of {SUBGRAPH:?} [AT-E20]"))
        })?;
        if result.dim != self.dim {
            let message =
                format!("the result of {SUBGRAPH:?} has dims {:?}; required {:?} [AT-E20]", result.dim, self.dim);
            return Err(Failure::new(Status::CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH, message));
        }
        Ok(result)
    }
}

/// A mask on one side of a diagonal (AT-P26).
pub(super) fn band(given: &Given<'_>) -> Result<Node> {
    let inputs = slots(
        given,
        &[
            (Port::X, Name::CUDNN_ATTR_OPERATION_DIAGONAL_BAND_MASK_XDESC),
            (Port::SEQ_LEN_KV, Name::CUDNN_ATTR_OPERATION_DIAGONAL_BAND_MASK_SEQ_LEN_KVDESC),
            (Port::SEQ_LEN_Q, Name::CUDNN_ATTR_OPERATION_DIAGONAL_BAND_MASK_SEQ_LEN_QDESC),
            (Port::LEFT_BOUND, Name::CUDNN_ATTR_OPERATION_DIAGONAL_BAND_MASK_LEFT_BOUND_DESC),
            (Port::RIGHT_BOUND, Name::CUDNN_ATTR_OPERATION_DIAGONAL_BAND_MASK_SHIFT_RIGHT_BOUND_DESC),
            (FILL, Name::CUDNN_ATTR_OPERATION_DIAGONAL_BAND_MASK_BDESC),
        ],
    )?;
    let outputs = slots(given, &[(Port::Y, Name::CUDNN_ATTR_OPERATION_DIAGONAL_BAND_MASK_YDESC)])?;
    let bounds = ScoreMask::BOUNDS.iter().filter_map(|&port| Some((port, at(&inputs, port)?)));
    let bounds: Slots = bounds.collect();
    if bounds.len() > 1 {
        return Err(Failure::bad("a mask has a left or a right bound; both are set [AT-E12]"));
    }
    for (port, bound) in &bounds {
        let is_whole = matches!(bound.data_type, Some(DataType::Int32 | DataType::Int64 | DataType::Float));
        if !is_whole || bound.dim.iter().any(|&extent| extent != 1) {
            let found = format!("{} with dims {:?}", type_of(bound), bound.dim);
            return Err(Failure::bad(format!("{port} is one number, INT32 or FLOAT; found: {found} [AT-E12]")));
        }
    }
    let lengths = ScoreMask::LENGTHS.iter().filter_map(|&port| at(&inputs, port));
    let lengths: Vec<Arc<DescribedTensor>> = lengths.collect();
    if lengths.len() == 1 || lengths.iter().any(|tensor| tensor.data_type != Some(DataType::Int32)) {
        return Err(Failure::bad("SEQ_LEN_Q and SEQ_LEN_KV are both set, and INT32, or none of them is [AT-E9]"));
    }
    if let (Some(x), Some(y)) = (at(&inputs, Port::X), at(&outputs, Port::Y))
        && x.dim != y.dim
    {
        let message = format!("Y has dims {:?}; required X's, {:?}", y.dim, x.dim);
        return Err(Failure::new(Status::CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH, message));
    }
    let mode = given.enumerator(Name::CUDNN_ATTR_OPERATION_DIAGONAL_BAND_MASK_COMPARISON_MODE).unwrap_or(u32::MAX);
    let attributes = [("mode".to_owned(), json!(translate::pointwise(mode)?.name()))].into();
    let attributes = Attributes::Other(Other { tag: BAND_MASK, attributes });
    Ok(Node { attributes, compute: Some(DataType::Float), inputs, outputs, parts: Vec::new() })
}

/// A transpose of a backward pass: a reshape to the swapped extents and strides of what it is of (AT-P29).
pub(super) fn transpose(given: &Given<'_>) -> Result<Node> {
    let inputs = slots(given, &[(Port::X, Name::CUDNN_ATTR_OPERATION_RESHAPE_XDESC)])?;
    let outputs = slots(given, &[(Port::Y, Name::CUDNN_ATTR_OPERATION_RESHAPE_YDESC)])?;
    let attributes = Attributes::Other(Other { tag: "RESHAPE", attributes: KeptAttributes::new() });
    Ok(Node { attributes, compute: None, inputs, outputs, parts: Vec::new() })
}

/// Random numbers: a mask of what dropout keeps, which is everything in a backward pass of the probability 0 (AT-P41).
pub(super) fn random(given: &Given<'_>) -> Result<Node> {
    let drawn = given.descriptor(Name::CUDNN_ATTR_OPERATION_RNG_DESC);
    let drawn = drawn.ok_or_else(|| Failure::bad("CUDNN_ATTR_OPERATION_RNG_DESC is not set"))?.object::<Random>()?;
    let inputs = slots(
        given,
        &[
            (Port("Seed"), Name::CUDNN_ATTR_OPERATION_RNG_SEED),
            (Port("Offset"), Name::CUDNN_ATTR_OPERATION_RNG_OFFSET_DESC),
        ],
    )?;
    let outputs = slots(given, &[(Port::Y, Name::CUDNN_ATTR_OPERATION_RNG_YDESC)])?;
    let attributes = [("distribution", json!("BERNOULLI")), ("bernoulli_probability", json!(drawn.keep))];
    let attributes = attributes.map(|(key, value)| (key.to_owned(), value)).into();
    let attributes = Attributes::Other(Other { tag: "RNG", attributes });
    Ok(Node { attributes, compute: None, inputs, outputs, parts: Vec::new() })
}

/// How random numbers are distributed.
pub(super) struct Random {
    /// The probability of 1, of a mask of ones and zeros.
    keep: f64,
}

impl Object for Random {}

impl Referred for Random {
    const WANTED: &'static str = "a descriptor of random numbers";
}

/// The distribution that a descriptor says (AT-E16).
pub(super) fn distribution(given: &Given<'_>) -> Result<Random> {
    const BERNOULLI: u32 = RawDistribution::CUDNN_RNG_DISTRIBUTION_BERNOULLI as u32;
    const KEEP: Name = Name::CUDNN_ATTR_RNG_BERNOULLI_DIST_PROBABILITY;
    if given.enumerator(Name::CUDNN_ATTR_RNG_DISTRIBUTION) != Some(BERNOULLI) {
        let message = "CUDNN_BACKEND_RNG_DESCRIPTOR: no engine draws from other distributions than BERNOULLI [AT-E16]";
        return Err(Failure::unsupported(message));
    }
    match given.number(KEEP) {
        Some(keep) if keep > 0.0 && keep <= 1.0 => Ok(Random { keep }),
        keep => Err(Failure::bad(format!("{KEEP:?} is {keep:?}; required above 0, at most 1 [AT-E16]"))),
    }
}
