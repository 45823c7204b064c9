//! The finalized graph: what later stages see.

use std::collections::{BTreeMap, BTreeSet};

use super::draft::DefaultTypes;
use super::{
    AllGather, Attributes, Convolution, DEFAULT_ALIGNMENT, DataType, Expectation, Graph, GraphKey, Operation,
    OperationId, Pointwise, PointwiseMode, Port, Reordering, Scalar, Tensor, TensorHandle, TensorId,
};

/// A tensor of a finalized graph: everything is known.
#[derive(Clone, Debug, PartialEq)]
pub struct FinalTensor {
    /// The author's name; may be empty or not unique.
    pub name: String,
    /// Key in the variant pack; unique in the graph, assigned where the author gave none.
    pub uid: i64,
    /// Storage type.
    pub data_type: DataType,
    /// Extents, all positive.
    pub dim: Vec<i64>,
    /// Strides in elements, all positive.
    pub stride: Vec<i64>,
    /// Never in device memory.
    pub is_virtual: bool,
    /// Host scalar.
    pub is_pass_by_value: bool,
    /// Value of a host scalar known at build time.
    pub value: Option<Scalar>,
    /// Guaranteed pointer alignment, in bytes.
    pub alignment: i64,
    /// Element reordering.
    pub reordering: Reordering,
    /// Offsets of a ragged tensor, a tensor of the same graph.
    pub ragged_offset: Option<TensorId>,
    /// What the ragged offsets are multiplied with.
    pub ragged_offset_multiplier: i64,
}

impl FinalTensor {
    /// The description an author would give of this tensor, with nothing left to infer.
    pub(crate) fn to_tensor(&self) -> Tensor {
        Tensor {
            name: self.name.clone(),
            uid: Some(self.uid),
            data_type: Some(self.data_type),
            dim: self.dim.clone(),
            stride: self.stride.clone(),
            // A number of a definition is a host scalar of a graph.
            is_virtual: self.is_virtual && self.value.is_none(),
            is_pass_by_value: self.is_pass_by_value,
            value: self.value,
            reordering: self.reordering,
            alignment: self.alignment,
            ragged_offset: self.ragged_offset.map(TensorId::handle),
            ragged_offset_multiplier: self.ragged_offset_multiplier,
        }
    }
}

/// An immutable, complete, well-formed operation graph.
///
/// Operations are in a topological order, and tensors in the order of first use by it; both depend only on the
/// graph's structure, never on insertion order, names or uids. Operations that lead to no output are gone (A-61).
#[derive(Clone, Debug)]
pub struct FinalizedGraph {
    pub(super) name: String,
    pub(super) default_types: DefaultTypes,
    pub(super) tensors: Vec<FinalTensor>,
    pub(super) operations: Vec<Operation>,
    pub(super) producer: Vec<Option<OperationId>>,
    pub(super) consumers: Vec<Vec<OperationId>>,
    pub(super) by_uid: BTreeMap<i64, TensorId>,
    pub(super) notes: Vec<String>,
    /// For each tensor of the graph that was finalized, by its handle.
    pub(super) became: Vec<Option<TensorId>>,
    /// What host scalars have to be that the graph no longer has.
    pub(super) expectations: Vec<Expectation>,
    pub(super) key: GraphKey,
    /// Identity of all but extents and strides, where these are told to kernels when they are launched.
    pub(super) class: Option<GraphKey>,
}

impl FinalizedGraph {
    /// The graph's name, for messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Identity of everything that affects generated code.
    pub fn key(&self) -> GraphKey {
        self.key
    }

    /// Whether extents and strides are told to kernels when they are launched.
    pub fn is_dynamic(&self) -> bool {
        self.class.is_some()
    }

    /// Identity of the code that kernels share: of a dynamic graph without its extents and strides, which a kernel's text shows as far as they
    /// matter.
    pub fn class(&self) -> GraphKey {
        self.class.unwrap_or(self.key)
    }

    /// What was completed, removed or assumed; sentences for people.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// What host scalars have to be that are no tensors of the graph, as it was taken for what it is without their values.
    pub(crate) fn expectations(&self) -> &[Expectation] {
        &self.expectations
    }

    /// Tensors in canonical order.
    pub fn tensors(&self) -> impl DoubleEndedIterator<Item = &FinalTensor> + ExactSizeIterator {
        self.tensors.iter()
    }

    /// Ids of all tensors in canonical order.
    pub fn tensor_ids(&self) -> impl DoubleEndedIterator<Item = TensorId> + ExactSizeIterator + use<> {
        (0..self.tensors.len() as u32).map(TensorId)
    }

    /// One tensor.
    pub fn tensor(&self, id: TensorId) -> &FinalTensor {
        &self.tensors[id.index()]
    }

    /// What a tensor of the [`Graph`] that was finalized became; `None` where no operation that leads to an output uses it.
    /// Handles of another graph give `None` or some other tensor.
    ///
    /// ```
    /// use fusewright::graph::{DataType, Graph, PointwiseMode, Tensor};
    ///
    /// let mut graph = Graph::new().io_data_type(DataType::Float).compute_data_type(DataType::Float);
    /// let x = graph.tensor(Tensor::new("x").row_major([4, 4]));
    /// let y = graph.pointwise("abs", PointwiseMode::Abs, &[x]);
    /// graph.set_output(y);
    /// let finalized = graph.finalize()?;
    /// let id = finalized.id_of(y).expect("y is an output");
    /// assert_eq!(finalized.outputs().collect::<Vec<_>>(), [id]);
    /// assert_eq!(finalized.uid_of(y), Some(finalized.tensor(id).uid));
    /// # Ok::<(), fusewright::error::Malformed>(())
    /// ```
    pub fn id_of(&self, tensor: TensorHandle) -> Option<TensorId> {
        self.became.get(tensor.index()).copied().flatten()
    }

    /// The key in the variant pack of a tensor of the [`Graph`] that was finalized, given by its author or assigned; `None`
    /// as [`Self::id_of`].
    pub fn uid_of(&self, tensor: TensorHandle) -> Option<i64> {
        self.id_of(tensor).map(|id| self.tensor(id).uid)
    }

    /// The tensor with this uid.
    pub fn tensor_by_uid(&self, uid: i64) -> Option<TensorId> {
        self.by_uid.get(&uid).copied()
    }

    /// Operations in topological order.
    pub fn operations(&self) -> impl DoubleEndedIterator<Item = &Operation> + ExactSizeIterator {
        self.operations.iter()
    }

    /// Ids of all operations in topological order.
    pub fn operation_ids(&self) -> impl DoubleEndedIterator<Item = OperationId> + ExactSizeIterator + use<> {
        (0..self.operations.len() as u32).map(OperationId)
    }

    /// One operation.
    pub fn operation(&self, id: OperationId) -> &Operation {
        &self.operations[id.index()]
    }

    /// Compute type of an operation; complete after finalize for every operation that has one.
    pub fn compute_type(&self, id: OperationId) -> DataType {
        self.operation(id).compute_data_type.unwrap_or(DataType::Float)
    }

    /// The operation that writes a tensor; `None` for graph inputs.
    pub fn producer(&self, id: TensorId) -> Option<OperationId> {
        self.producer[id.index()]
    }

    /// The operations that read a tensor, each once, in topological order.
    pub fn consumers(&self, id: TensorId) -> &[OperationId] {
        &self.consumers[id.index()]
    }

    /// Tensors read but not written by the graph (device tensors, offsets of ragged ones among them, and host scalars), in canonical order.
    pub fn inputs(&self) -> impl Iterator<Item = TensorId> + '_ {
        let is_read = |id: TensorId| !self.consumers(id).is_empty() || self.are_offsets(id);
        self.tensor_ids().filter(move |&id| self.producer(id).is_none() && is_read(id))
    }

    /// Whether a tensor tells where the sequences of a ragged one begin.
    pub(crate) fn are_offsets(&self, id: TensorId) -> bool {
        self.tensors().any(|tensor| tensor.ragged_offset == Some(id))
    }

    /// Non-virtual tensors written by the graph, in canonical order.
    pub fn outputs(&self) -> impl Iterator<Item = TensorId> + '_ {
        self.tensor_ids().filter(|&id| self.producer(id).is_some() && !self.tensor(id).is_virtual)
    }

    /// Tensors that an execution writes to memory: the outputs, and the flags that signals set (operations.md section 8), which
    /// are inputs of the graph too.
    pub fn results(&self) -> Vec<TensorId> {
        let mut results: Vec<TensorId> =
            self.outputs().chain(self.operations().filter_map(Operation::set_flag)).collect();
        results.sort();
        results.dedup();
        results
    }

    /// Whether the GPUs of a node send each other statistics by a tensor (N-10g): it is read and written.
    pub(crate) fn is_of_peers(&self, id: TensorId) -> bool {
        self.consumers(id).iter().any(|&reader| self.operation(reader).peers().any(|peer| peer == id))
    }

    /// Bytes of the messages in a tensor of peers, which may be more than its extents say (N-10g); 0 for other tensors.
    pub(crate) fn message_bytes(&self, id: TensorId) -> usize {
        let bytes = |operation: &Operation| {
            let channels = self.tensor(operation.input(Port::X)?).dim.get(1).copied()?;
            let words = operation.peers().count() as i64 * AllGather::message_words(channels);
            operation.peers().any(|peer| peer == id).then_some(words as usize * size_of::<f32>())
        };
        self.consumers(id).iter().filter_map(|&reader| bytes(self.operation(reader))).max().unwrap_or(0)
    }

    /// How messages name a tensor: `'bias' (uid 4)`.
    pub fn describe_tensor(&self, id: TensorId) -> String {
        let tensor = self.tensor(id);
        format!("'{}' (uid {})", tensor.name.escape_debug(), tensor.uid)
    }

    /// How messages name an operation: `'mm' (MATMUL)`.
    pub fn describe_operation(&self, id: OperationId) -> String {
        let operation = self.operation(id);
        let mode = match &operation.attributes {
            Attributes::Pointwise(pointwise) => format!(" {}", pointwise.mode),
            Attributes::Reduction(reduction) => format!(" {}", reduction.mode),
            _ => String::new(),
        };
        format!("'{}' ({}{mode})", operation.name.escape_debug(), operation.tag())
    }

    /// The graph with both operands of a matmul or convolution converted to a type by an IDENTITY each, which stand behind the
    /// graph's own tensors. The key stays the graph's: where the operation computes in that type, this is another way to say
    /// the same.
    pub(crate) fn with_operands_in(&self, core: OperationId, data_type: DataType) -> Self {
        const OPERANDS: usize = 2;
        let (mut tensors, mut operations) = (self.tensors.clone(), self.operations.clone());
        let mut conversions = Vec::new();
        for slot in operations[core.index()].inputs.iter_mut().take(OPERANDS) {
            let operand = self.tensor(slot.1);
            let name = format!("{} in {data_type}", operand.name);
            let result = TensorId(tensors.len() as u32);
            tensors.push(FinalTensor {
                name: name.clone(),
                data_type,
                is_virtual: true,
                is_pass_by_value: false,
                value: None,
                alignment: DEFAULT_ALIGNMENT,
                ..operand.clone()
            });
            conversions.push(Operation {
                name,
                attributes: Attributes::Pointwise(Pointwise::new(PointwiseMode::Identity)),
                compute_data_type: Some(DataType::Float),
                inputs: vec![(Port::IN_0, slot.1)],
                outputs: vec![(Port::OUT_0, result)],
            });
            slot.1 = result;
        }
        operations.splice(core.index()..core.index(), conversions);
        self.with(tensors, operations)
    }

    /// The graph with an operand of a matmul or convolution read from a copy with these dims and strides, a virtual tensor behind the
    /// graph's own that no operation writes: whoever lowers the graph does. The key stays the graph's, which it says in another way.
    pub(crate) fn with_operand_copied(
        &self,
        core: OperationId,
        operand: TensorId,
        [dim, stride]: [Vec<i64>; 2],
    ) -> (Self, TensorId) {
        let (mut tensors, mut operations) = (self.tensors.clone(), self.operations.clone());
        let copy = TensorId(tensors.len() as u32);
        let tensor = self.tensor(operand);
        let name = format!("{}, copied", tensor.name);
        let alignment = DEFAULT_ALIGNMENT;
        tensors.push(FinalTensor { name, dim, stride, is_virtual: true, alignment, ..tensor.clone() });
        let inputs = &mut operations[core.index()].inputs;
        inputs.iter_mut().filter(|slot| slot.1 == operand).for_each(|slot| slot.1 = copy);
        (self.with(tensors, operations), copy)
    }

    /// The graph with other parameters of a convolution, whose operands are to be read from copies that these fit. The key stays the graph's.
    pub(crate) fn with_convolution(&self, core: OperationId, convolution: Convolution) -> Self {
        let mut operations = self.operations.clone();
        operations[core.index()].attributes = Attributes::Convolution(convolution);
        self.with(self.tensors.clone(), operations)
    }

    /// The graph with an operand of a matmul or convolution, which the operations of a stage compute, read from a tensor of its dims with this
    /// type and these strides: virtual, and written by no operation; those of the stage are left out. The key stays the graph's.
    pub(crate) fn with_operand_evaluated(
        &self,
        core: OperationId,
        operand: TensorId,
        stage: &BTreeSet<OperationId>,
        (data_type, stride): (DataType, Vec<i64>),
    ) -> (Self, TensorId) {
        let mut tensors = self.tensors.clone();
        let evaluated = TensorId(tensors.len() as u32);
        let tensor = self.tensor(operand);
        let name = format!("{}, evaluated", tensor.name);
        let alignment = DEFAULT_ALIGNMENT;
        tensors.push(FinalTensor { name, data_type, stride, is_virtual: true, alignment, ..tensor.clone() });
        let left = self.operation_ids().filter(|id| !stage.contains(id)).map(|id| {
            let mut operation = self.operation(id).clone();
            let slots = operation.inputs.iter_mut().filter(|slot| id == core && slot.1 == operand);
            slots.for_each(|slot| slot.1 = evaluated);
            operation
        });
        (self.with(tensors, left.collect()), evaluated)
    }

    /// Some of the graph's operations, with all its tensors in their places. The key stays the graph's, of which this is a part.
    pub(crate) fn of_operations(&self, kept: &BTreeSet<OperationId>) -> Self {
        let operations = self.operation_ids().filter(|id| kept.contains(id)).map(|id| self.operation(id).clone());
        self.with(self.tensors.clone(), operations.collect())
    }

    /// Other operations on the graph's tensors, which may lie elsewhere, and on further ones behind them. The key stays the graph's, of which this is
    /// another way to say it, or a part.
    pub(crate) fn in_parts(&self, tensors: Vec<FinalTensor>, operations: Vec<Operation>) -> Self {
        self.with(tensors, operations)
    }

    /// The same graph with dynamic shapes ([`Graph::with_dynamic_shapes`]).
    ///
    /// # Errors
    /// Those of [`Graph::finalize`]; a graph that was finalized has none.
    pub fn with_dynamic_shapes(&self) -> Result<Self, crate::graph::Malformed> {
        if self.is_dynamic() { Ok(self.clone()) } else { self.to_graph().with_dynamic_shapes().finalize() }
    }

    /// The same graph as an author would describe it, with every value filled in and every uid kept; finalizing it
    /// again gives the same key. Tensors are in the same order: [`TensorId::handle`]. Writers of graph files start from this.
    pub fn to_graph(&self) -> Graph {
        Graph {
            name: self.name.clone(),
            io_data_type: self.default_types.io,
            intermediate_data_type: self.default_types.intermediate,
            compute_data_type: self.default_types.compute,
            is_dynamic: self.is_dynamic(),
            tensors: self.tensors.iter().map(FinalTensor::to_tensor).collect(),
            operations: self.operations.iter().map(|operation| operation.of_tensors(TensorId::handle)).collect(),
        }
    }
}
