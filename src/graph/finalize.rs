//! Well-formedness, completion, canonical order. petgraph is not visible past this file.

use super::{Attributes, DataType, Graph, GraphKey, Operation, OperationId, Scalar, TensorId};
use crate::error::Malformed;

/// Largest rank of a tensor (`CUDNN_DIM_MAX`, D-R6).
pub const MAX_RANK: usize = 8;

/// Largest number of operations in one graph; larger ones are refused at once.
pub const MAX_OPERATIONS: usize = 1 << 16;

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
}

/// An immutable, complete, well-formed operation graph.
///
/// Operations are in a topological order, and tensors in the order of first use by it; both depend only on the
/// graph's structure, never on insertion order, names or uids. Operations that lead to no output are gone.
#[derive(Clone, Debug)]
pub struct FinalizedGraph {
    name: String,
    tensors: Vec<FinalTensor>,
    operations: Vec<Operation>,
    producer: Vec<Option<OperationId>>,
    consumers: Vec<Vec<OperationId>>,
    notes: Vec<String>,
    key: GraphKey,
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

    /// What was completed, removed or assumed; sentences for people.
    pub fn notes(&self) -> &[String] {
        &self.notes
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

    /// The tensor with this uid.
    pub fn tensor_by_uid(&self, uid: i64) -> Option<TensorId> {
        self.tensor_ids().find(|&id| self.tensor(id).uid == uid)
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

    /// Tensors read but not written by the graph (device tensors and host scalars), in canonical order.
    pub fn inputs(&self) -> impl Iterator<Item = TensorId> + '_ {
        self.tensor_ids().filter(|&id| self.producer(id).is_none() && !self.consumers(id).is_empty())
    }

    /// Non-virtual tensors written by the graph, in canonical order.
    pub fn outputs(&self) -> impl Iterator<Item = TensorId> + '_ {
        self.tensor_ids().filter(|&id| self.producer(id).is_some() && !self.tensor(id).is_virtual)
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
}

/// See [`Graph::finalize`].
pub(super) fn finalize(_graph: &Graph) -> Result<FinalizedGraph, Malformed> {
    Err(Malformed::graph("STUB", "finalize is being written"))
}
