//! Operations that carry their definition in primitive ones.
//!
//! A composite operation is one file here (attributes, ports, key, text, inference, definition) and a row of
//! [`Composite`]'s. Whatever knows primitive operations knows it through [`FinalizedGraph::expand`]: the CPU engine, the f64
//! oracle, error bounds, twins, operation counts, and kernels that run it unfused.

mod alibi;
mod attention_backward;
mod dropout;
mod groups;
mod masked_dropout;
mod norm;
mod paged_cache_load;
mod score_mask;
mod score_transpose;
mod soft_cap;
mod softmax;

use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};

use serde_json::Value;

pub use alibi::AlibiSlopes;
pub use attention_backward::AttentionBackward;
pub(crate) use attention_backward::scaling as backward_scaling;
pub use dropout::{Bernoulli, Dropout};
pub use masked_dropout::MaskedDropout;
pub use norm::{BnBackwardWeights, BnFinalize, BnFinalizeMode, NormBackward, NormForward, NormMode, NormPhase};
pub use paged_cache_load::PagedCacheLoad;
pub use score_mask::ScoreMask;
pub use score_transpose::ScoreTranspose;
pub use softmax::Softmax;

use groups::ChannelGroups;
use soft_cap::SoftCap;

use super::{AllGather, Attributes, Matmul, Operation, Pointwise, Port, Reduction};
use crate::graph::finalize::{find_consumers, find_producers};
use crate::graph::infer::{Node, Ports};
use crate::graph::key::Bytes;
use crate::graph::{
    DEFAULT_ALIGNMENT, DataType, FinalTensor, FinalizedGraph, Malformed, PointwiseMode, ReductionMode, Reordering,
    Scalar, TensorId, packed_strides, row_major_order,
};

/// One row a composite: its type, which is a [`Definition`] and reads the tags that are its own.
macro_rules! composites {
    ($($(#[$meta:meta])* $name:ident;)*) => {
        /// The composite operations.
        #[derive(Clone, Debug, PartialEq)]
        #[non_exhaustive]
        pub enum Composite { $($(#[$meta])* $name($name)),* }

        impl Composite {
            /// The composite of a tag with the attributes that a graph file or a descriptor gives; `None` where the tag is
            /// not a composite's.
            pub(crate) fn read(tag: &str, attributes: &KeptAttributes) -> Option<Self> {
                None$(.or_else(|| $name::read(tag, attributes).map(Self::$name)))*
            }

            /// What is particular to the operation.
            pub(in crate::graph) fn definition(&self) -> &dyn Definition {
                match self { $(Self::$name(composite) => composite),* }
            }
        }

        $(impl From<$name> for Composite {
            fn from(composite: $name) -> Self {
                Self::$name(composite)
            }
        })*
    };
}

composites! {
    /// `X [, SINK, SEQ_LEN_Q] → Y [, STATS, MAX, SUM_EXP]`.
    Softmax;
    /// `X [, SEQ_LEN_Q, SEQ_LEN_KV] [, LEFT_BOUND] [, RIGHT_BOUND] → Y`.
    ScoreMask;
    /// `X → Y`, queries and keys exchanged.
    ScoreTranspose;
    /// `X, Seed, Offset, Dropout_scale → Y [, RNG_DUMP, S]`.
    Dropout;
    /// `X, Dropout_mask, Dropout_scale → Y [, S]`.
    MaskedDropout;
    /// `container, seqLen, pageTable → yOut`.
    PagedCacheLoad;
    /// `Q, K, V, O, dO, Stats [, Attn_scale, Bias, SEQ_LEN_Q, SEQ_LEN_KV, LEFT_BOUND, RIGHT_BOUND, SINK_TOKEN, Descale_…, Scale_…]
    /// → dQ, dK, dV [, dBias, DSINK_TOKEN, Amax_…]`.
    AttentionBackward;
    /// `X [, SCALE, BIAS], EPSILON → Y [, MEAN, INV_VARIANCE]`.
    NormForward;
    /// `DY, X [, SCALE] [, MEAN], INV_VARIANCE → DX [, DSCALE, DBIAS]`.
    NormBackward;
    /// `SUM, SQ_SUM, EPSILON, ACCUM_COUNT [, …] → [EQ_SCALE, EQ_BIAS, …]`.
    BnFinalize;
    /// `DY, X, SCALE, MEAN, INV_VARIANCE → [DSCALE, DBIAS, EQ_BIAS, EQ_SCALE_DY, EQ_SCALE_X]`.
    BnBackwardWeights;
}

/// Attributes by their keys in graph files; a key that is absent has its default.
pub type KeptAttributes = BTreeMap<String, Value>;

impl Composite {
    /// What [`Self::read`] reads: the attributes that are not the default.
    pub(crate) fn attributes(&self) -> KeptAttributes {
        self.definition().attributes()
    }

    /// Tag in graph files.
    pub fn tag(&self) -> &'static str {
        self.definition().tag()
    }

    /// The ports that always have a tensor.
    pub(crate) fn required_ports(&self) -> Vec<Port> {
        let ([inputs, _], [outputs, _]) = self.definition().ports();
        [inputs, outputs].concat()
    }

    /// Whether the operation may read, or write, a tensor at a port.
    pub(crate) fn has_port(&self, port: Port) -> (bool, bool) {
        let (inputs, outputs) = self.definition().ports();
        let has = |ports: [&[Port]; 2]| ports.concat().contains(&port);
        (has(inputs), has(outputs))
    }
}

/// What a composite operation says of itself.
pub(in crate::graph) trait Definition {
    /// Tag in graph files.
    fn tag(&self) -> &'static str;

    /// Its ports, in the order of the definition.
    fn ports(&self) -> Ports;

    /// Its attributes that are not the default, by their keys in graph files.
    fn attributes(&self) -> KeptAttributes {
        KeptAttributes::new()
    }

    /// The attributes that generated code depends on.
    fn key_bytes(&self, _bytes: &mut Bytes) {}

    /// Attributes that are not the default, as the canonical text shows them.
    fn texts(&self) -> Vec<String> {
        Vec::new()
    }

    /// Type of the tensor at a port where the tensor states none; `None` where the graph's context tells.
    fn default_type(&self, _port: Port) -> Option<DataType> {
        None
    }

    /// Whether the dims of an input follow from the other inputs where it has none.
    fn infers(&self, _port: Port) -> bool {
        false
    }

    /// Fills in the dims and strides that follow from the rest.
    fn infer(&self, node: &mut Node) -> Result<(), Malformed>;

    /// Checks complete tensors against the operation's shape rules.
    fn check(&self, node: &Node) -> Result<(), Malformed>;

    /// Computes every result that is asked for from the inputs.
    fn define(&self, expansion: &mut Expansion);
}

/// The primitive operations of one node, as its definition states them.
///
/// Values between them are virtual `DOUBLE` tensors: the definition rounds nowhere but where a result is stored. Each
/// operation computes in the type of the node; what is lost by that is an implementation's error, not the definition's.
pub(in crate::graph) struct Expansion<'a> {
    graph: &'a FinalizedGraph,
    node: &'a Operation,
    data_type: DataType,
    tensors: &'a mut Vec<FinalTensor>,
    operations: &'a mut Vec<Operation>,
    /// How the tensors of the node are seen, and the views of those that were read.
    groups: Option<ChannelGroups>,
    seen: BTreeMap<TensorId, TensorId>,
    /// Whether pointwise operations are computed in `DOUBLE`, whatever the node says.
    is_double: bool,
}

impl Expansion<'_> {
    /// From here on the channels of all tensors at ports are two axes: their groups, and those of one group.
    fn see_groups(&mut self, groups: ChannelGroups) {
        self.groups = Some(groups);
    }

    /// From here on pointwise operations are computed in `DOUBLE`, and what they give is held so by every implementation.
    fn compute_in_double(&mut self) {
        self.is_double = true;
    }

    /// The tensor at an input port that may be empty.
    pub(in crate::graph) fn input(&mut self, port: Port) -> Option<TensorId> {
        self.node.input(port).map(|id| self.seen(id))
    }

    /// A tensor of the graph as the definition sees it.
    fn seen(&mut self, id: TensorId) -> TensorId {
        let Some(groups) = self.groups else { return id };
        if let Some(&view) = self.seen.get(&id) {
            return view;
        }
        let view = self.view(id, groups.split(self.dim(id)));
        self.seen.insert(id, view);
        view
    }

    /// The elements of a value, under other extents.
    fn view(&mut self, x: TensorId, dim: Vec<i64>) -> TensorId {
        let y = self.value("view", dim);
        self.push(Attributes::View, vec![(Port::X, x)], (Port::Y, y), None);
        y
    }

    /// A value of every GPU, in order of their ranks along axis 0, which they send each other by these tensors.
    fn all_gather(&mut self, place: i64, x: TensorId, peers: &[TensorId]) -> TensorId {
        let mut dim = self.dim(x).to_vec();
        dim[0] = peers.len() as i64;
        let y = self.value("all_gather", dim);
        let inputs = Port::PEER_STATS.into_iter().zip(peers.iter().copied());
        let inputs = [(Port::X, x)].into_iter().chain(inputs).collect();
        self.push(Attributes::AllGather(AllGather { place }), inputs, (Port::Y, y), None);
        y
    }

    /// A variable for each element of these extents, drawn by the numbers that a seed and an offset tell.
    fn bernoulli(&mut self, attributes: Bernoulli, [seed, offset]: [TensorId; 2], dim: Vec<i64>) -> TensorId {
        let y = self.value("bernoulli", dim);
        self.push(
            Attributes::Bernoulli(attributes),
            vec![(Port::SEED, seed), (Port::OFFSET, offset)],
            (Port::Y, y),
            None,
        );
        y
    }

    /// Rows out of the pages of a container, for sequences of these lengths, by a table: a value of these extents, in the container's type.
    fn page_gather(&mut self, [container, lengths, table]: [TensorId; 3], dim: Vec<i64>) -> TensorId {
        let y = self.value("page_gather", dim);
        self.tensors[y.index()].data_type = self.tensors[container.index()].data_type;
        let inputs = vec![(Port::CONTAINER, container), (Port::SEQ_LEN, lengths), (Port::PAGE_TABLE, table)];
        self.push(Attributes::PageGather, inputs, (Port::Y, y), None);
        y
    }

    /// The bit of the tile that each element of these extents lies in.
    fn block_bits(&mut self, mask: TensorId, dim: Vec<i64>) -> TensorId {
        let y = self.value("block_bits", dim);
        self.push(Attributes::BlockBits, vec![(Port::BLOCK_MASK, mask)], (Port::Y, y), None);
        y
    }

    /// The last two axes of a value swapped.
    fn transpose(&mut self, x: TensorId) -> TensorId {
        let mut dim = self.dim(x).to_vec();
        let rank = dim.len();
        dim.swap(rank - 2, rank - 1);
        let y = self.value("transpose", dim);
        // what is moved keeps its type
        self.tensors[y.index()].data_type = self.tensors[x.index()].data_type;
        self.transpose_to(x, y);
        y
    }

    /// A tensor is the last two axes of a value swapped.
    fn transpose_to(&mut self, x: TensorId, y: TensorId) {
        self.push(Attributes::Transpose, vec![(Port::X, x)], (Port::Y, y), None);
    }

    /// A product of matrices, of which `length` terms of each batch count.
    fn matmul(&mut self, a: TensorId, b: TensorId, length: Option<TensorId>) -> TensorId {
        let (of_a, of_b) = (self.dim(a), self.dim(b));
        let rank = of_a.len();
        let batches = (0..rank - 2).map(|axis| of_a[axis].max(of_b[axis]));
        let dim = batches.chain([of_a[rank - 2], of_b[rank - 1]]).collect();
        let c = self.value("matmul", dim);
        let length = length.map(|length| (Port::K_OVERRIDE, length));
        let inputs = [(Port::A, a), (Port::B, b)].into_iter().chain(length).collect();
        self.push(Attributes::Matmul(Matmul::default()), inputs, (Port::C, c), self.node.compute_data_type);
        c
    }

    /// A value where it is kept, and 0 elsewhere.
    fn where_kept(&mut self, x: TensorId, kept: Option<TensorId>) -> TensorId {
        let Some(kept) = kept else { return x };
        let zero = self.constant(0.0, self.dim(x).len());
        self.pointwise(PointwiseMode::BinarySelect, &[x, zero, kept])
    }

    /// A value rounded to the type of another one: the definition rounds, and an implementation may do so elsewhere.
    fn rounded(&mut self, x: TensorId, other: TensorId) -> TensorId {
        let y = self.value("rounded", self.dim(x).to_vec());
        self.tensors[y.index()].data_type = self.tensors[other.index()].data_type;
        self.apply(Pointwise::new(PointwiseMode::Identity), &[x], y, self.node.compute_data_type);
        y
    }

    /// A value of each head, added up over those that share one of so many heads.
    fn sum_of_heads(&mut self, x: TensorId, heads: i64) -> TensorId {
        let dim = self.dim(x).to_vec();
        if heads == dim[1] {
            return x;
        }
        let shared = |group: i64| vec![dim[0], heads, group, dim[2], dim[3]];
        let apart = self.view(x, shared(dim[1] / heads));
        let total = self.reduction(ReductionMode::Add, apart, shared(1));
        self.view(total, vec![dim[0], heads, dim[2], dim[3]])
    }

    /// Extents of the result at a port, if it is asked for.
    fn dim_of_result(&self, port: Port) -> Option<Vec<i64>> {
        let id = self.output(port).filter(|_| self.is_asked_for(port))?;
        Some(self.dim(id).to_vec())
    }

    /// The tensor at an output port that may be empty.
    pub(in crate::graph) fn output(&self, port: Port) -> Option<TensorId> {
        self.node.output(port)
    }

    /// A number of the definition, as a virtual tensor of so many axes whose value is known: no graph has such a one of its own.
    pub(in crate::graph) fn constant(&mut self, value: f64, rank: usize) -> TensorId {
        let id = self.value("constant", vec![1; rank]);
        let tensor = &mut self.tensors[id.index()];
        (tensor.is_pass_by_value, tensor.value) = (true, Some(Scalar::Float(value)));
        id
    }

    /// The inputs that the operation always has, in port order.
    pub(in crate::graph) fn required<const N: usize>(&mut self) -> [TensorId; N] {
        std::array::from_fn(|place| self.seen(self.node.inputs[place].1))
    }

    /// Whether this is for kernels, by which channels of the tensor at a port are read side by side: they may add up in another order than
    /// the definition, which does not depend on strides.
    fn reads_channels_side_by_side(&self, port: Port) -> bool {
        let is_innermost = |id: TensorId| self.tensors[id.index()].stride.get(1) == Some(&1);
        self.data_type != DataType::Double && self.node.input(port).is_some_and(is_innermost)
    }

    /// Extents of the tensor at a port, as the graph has it.
    pub(in crate::graph) fn dim_at(&self, port: Port) -> Option<&[i64]> {
        self.node.input(port).or_else(|| self.node.output(port)).map(|id| self.dim(id))
    }

    /// Extents of a tensor of the graph or of the expansion.
    pub(in crate::graph) fn dim(&self, id: TensorId) -> &[i64] {
        &self.tensors[id.index()].dim
    }

    /// Strides of a tensor of the graph or of the expansion.
    fn stride(&self, id: TensorId) -> &[i64] {
        &self.tensors[id.index()].stride
    }

    /// A pointwise operation without further attributes.
    pub(in crate::graph) fn pointwise(&mut self, mode: PointwiseMode, operands: &[TensorId]) -> TensorId {
        self.pointwise_with(Pointwise::new(mode), operands)
    }

    /// A pointwise operation; along each axis its result has the largest extent of the operands.
    pub(in crate::graph) fn pointwise_with(&mut self, attributes: Pointwise, operands: &[TensorId]) -> TensorId {
        let rank = operands.iter().map(|&id| self.dim(id).len()).max().unwrap_or(0);
        let extent = |axis: usize| operands.iter().filter_map(|&id| self.dim(id).get(axis)).max().copied().unwrap_or(1);
        let dim = (0..rank).map(extent).collect();
        let result = self.value(attributes.mode.name(), dim);
        let compute = if self.is_double {
            self.tensors[result.index()].data_type = DataType::Double;
            Some(DataType::Double)
        } else {
            self.node.compute_data_type
        };
        self.apply(attributes, operands, result, compute);
        result
    }

    /// A reduction to these extents. Where they are those of X every set has one element: what `ADD`, `AVG`, `MIN` and
    /// `MAX`, the operators of definitions, make of one is that element (a `REDUCTION` reduces something, A-26).
    pub(in crate::graph) fn reduction(&mut self, mode: ReductionMode, x: TensorId, dim: Vec<i64>) -> TensorId {
        if self.dim(x) == dim {
            return self.pointwise(PointwiseMode::Identity, &[x]);
        }
        let y = self.value(mode.name(), dim);
        let reduction = Attributes::Reduction(Reduction::new(mode));
        self.push(reduction, vec![(Port::X, x)], (Port::Y, y), self.node.compute_data_type);
        y
    }

    /// Whether the tensor at an output port is in memory or read: only then must it be computed.
    pub(in crate::graph) fn is_asked_for(&self, port: Port) -> bool {
        let is_live = |id: TensorId| !self.tensors[id.index()].is_virtual || !self.graph.consumers(id).is_empty();
        self.node.output(port).is_some_and(is_live)
    }

    /// The node's result at a port is the value of a pointwise operation; nothing happens where it is not asked for.
    pub(in crate::graph) fn result(&mut self, port: Port, mode: PointwiseMode, operands: &[TensorId]) {
        let Some(result) = self.node.output(port).filter(|_| self.is_asked_for(port)) else { return };
        let compute = self.node.compute_data_type;
        if self.groups.is_none() && !self.is_double {
            return self.apply(Pointwise::new(mode), operands, result, compute);
        }
        let value = match (mode, operands) {
            (PointwiseMode::Identity, &[value]) => value,
            _ => self.pointwise(mode, operands),
        };
        let whole = match self.groups {
            Some(_) => self.view(value, self.dim(result).to_vec()),
            None => value,
        };
        let compute = if self.is_double { Some(DataType::Float) } else { compute };
        self.apply(Pointwise::new(PointwiseMode::Identity), &[whole], result, compute);
    }

    fn apply(&mut self, attributes: Pointwise, operands: &[TensorId], result: TensorId, compute: Option<DataType>) {
        let ports = [Port::IN_0, Port::IN_1, Port::IN_2];
        let inputs = ports.into_iter().zip(operands.iter().copied()).collect();
        self.push(Attributes::Pointwise(attributes), inputs, (Port::OUT_0, result), compute);
    }

    fn push(
        &mut self,
        attributes: Attributes,
        inputs: Vec<(Port, TensorId)>,
        output: (Port, TensorId),
        compute_data_type: Option<DataType>,
    ) {
        let result = &self.tensors[output.1.index()].name;
        let operation =
            Operation { name: result.clone(), attributes, compute_data_type, inputs, outputs: vec![output] };
        self.operations.push(operation);
    }

    /// A virtual tensor for a value of the definition; uids are given by [`FinalizedGraph::expand`].
    fn value(&mut self, function: &str, dim: Vec<i64>) -> TensorId {
        let id = TensorId(self.tensors.len() as u32);
        self.tensors.push(FinalTensor {
            name: format!("{}::{}", self.node.name, function.to_lowercase()),
            uid: 0,
            data_type: self.data_type,
            stride: packed_strides(&dim, &row_major_order(dim.len())),
            dim,
            is_virtual: true,
            is_pass_by_value: false,
            value: None,
            alignment: DEFAULT_ALIGNMENT,
            reordering: Reordering::None,
            ragged_offset: None,
            ragged_offset_multiplier: 1,
        });
        id
    }
}

impl FinalizedGraph {
    /// The graph with the primitive operations of its definition in place of every composite operation; the graph itself
    /// where it has none.
    ///
    /// Tensors keep their ids and uids; those of the definitions come behind, are virtual and `DOUBLE`, and have uids
    /// that the graph does not use. The key is the graph's: an expansion is another way to say the same.
    pub fn expand(&self) -> Cow<'_, Self> {
        self.expand_in(DataType::Double)
    }

    /// The expansion for an implementation that holds the values between operations in a type of its own.
    pub(crate) fn expand_in(&self, data_type: DataType) -> Cow<'_, Self> {
        let is_composite = |operation: &Operation| matches!(operation.attributes, Attributes::Composite(_));
        if !self.operations().any(is_composite) {
            return Cow::Borrowed(self);
        }
        let (mut tensors, mut operations) = (self.tensors.clone(), Vec::new());
        for node in &self.operations {
            match &node.attributes {
                Attributes::Composite(composite) => composite.definition().define(&mut Expansion {
                    graph: self,
                    node,
                    data_type,
                    tensors: &mut tensors,
                    operations: &mut operations,
                    groups: None,
                    seen: BTreeMap::new(),
                    is_double: false,
                }),
                _ => operations.push(node.clone()),
            }
        }
        Cow::Owned(self.with(tensors, operations))
    }

    /// This graph with other operations, and further tensors behind its own.
    pub(in crate::graph) fn with(&self, mut tensors: Vec<FinalTensor>, operations: Vec<Operation>) -> Self {
        let known = self.tensors.len();
        let taken: HashSet<i64> = self.by_uid.keys().copied().collect();
        let free = (1..).filter(|uid| !taken.contains(uid));
        tensors.iter_mut().skip(known).zip(free).for_each(|(tensor, uid)| tensor.uid = uid);
        Self {
            producer: find_producers(tensors.len(), &operations),
            consumers: find_consumers(tensors.len(), &operations),
            by_uid: tensors.iter().zip(0..).map(|(tensor, number)| (tensor.uid, TensorId(number))).collect(),
            name: self.name.clone(),
            default_types: self.default_types,
            notes: self.notes.clone(),
            became: self.became.clone(),
            expectations: self.expectations.clone(),
            key: self.key,
            class: self.class,
            tensors,
            operations,
        }
    }
}
