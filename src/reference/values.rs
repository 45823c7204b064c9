//! Tensors an execution reads and writes.

use std::collections::BTreeMap;

use super::ragged;
use crate::error::{Error, Result};
use crate::graph::{Attributes, FinalizedGraph, Operation, TensorId, packed_strides, row_major_order};
use crate::host_tensor::{HostTensor, HostTensors};

/// Tensors that must be given to execute a graph: its inputs, save host scalars whose value the graph holds; what an
/// operation working in place reads, or the operations that define it; and the prior result of a convolution or
/// resampling with β ≠ 0.
pub fn required_inputs(graph: &FinalizedGraph) -> Vec<TensorId> {
    let unknown = |id: &TensorId| graph.tensor(*id).value.is_none();
    let mut required: Vec<TensorId> = graph.inputs().filter(unknown).collect();
    let in_place = |id: &TensorId| {
        let first = graph.consumers(*id).first();
        graph.producer(*id).is_some_and(|producer| first.is_some_and(|&first| first <= producer))
    };
    required.extend(graph.outputs().filter(in_place));
    required.extend(graph.operations().filter_map(blended));
    required.sort();
    required.dedup();
    required
}

/// What an operation writes: its outputs, then the flag it sets.
pub(super) fn written(operation: &Operation) -> impl Iterator<Item = TensorId> + '_ {
    operation.output_tensors().chain(operation.set_flag())
}

/// α and β of an operation's first result; 1 and 0 where it has none.
pub(super) fn scales(operation: &Operation) -> (f64, f64) {
    match &operation.attributes {
        Attributes::Convolution(convolution) => (convolution.alpha, convolution.beta),
        Attributes::ResampleForward(resample) | Attributes::ResampleBackward(resample) => {
            (resample.alpha, resample.beta)
        }
        Attributes::Matmul(_) | Attributes::Pointwise(_) | Attributes::Reduction(_) | Attributes::GenStats => {
            (1.0, 0.0)
        }
        Attributes::Concat(_)
        | Attributes::Signal(_)
        | Attributes::View
        | Attributes::Transpose
        | Attributes::AllGather(_)
        | Attributes::Bernoulli(_)
        | Attributes::PageGather
        | Attributes::BlockBits => (1.0, 0.0),
        Attributes::Composite(_) | Attributes::Other(_) => (1.0, 0.0),
    }
}

/// The result whose content before the execution an operation adds to.
fn blended(operation: &Operation) -> Option<TensorId> {
    operation.result().filter(|_| scales(operation).1 != 0.0)
}

/// The given tensors, and those computed so far and still needed.
pub(super) struct Values<'a> {
    graph: &'a FinalizedGraph,
    inputs: &'a HostTensors,
    owned: BTreeMap<TensorId, HostTensor>,
}

impl<'a> Values<'a> {
    /// Checks the given tensors against the graph.
    ///
    /// # Errors
    /// [`Error::Input`] names the tensor that is missing, or has other extents, strides, type or size than the graph
    /// says.
    pub(super) fn new(graph: &'a FinalizedGraph, inputs: &'a HostTensors) -> Result<Self> {
        for id in required_inputs(graph) {
            let given = inputs.get(&id).ok_or_else(|| "is not among the given tensors".to_owned());
            given
                .and_then(|given| check(graph, id, given))
                .map_err(|message| Error::input(format!("tensor {}", graph.describe_tensor(id)), message))?;
        }
        let mut owned = ragged::gathered(graph, inputs)?;
        for id in graph.inputs() {
            let tensor = graph.tensor(id);
            if let Some(value) = tensor.value {
                owned.insert(id, HostTensor::scalar(tensor.data_type, tensor.dim.len(), value)?);
            }
        }
        Ok(Self { graph, inputs, owned })
    }

    /// A tensor that was given or computed.
    pub(super) fn get(&self, id: TensorId) -> Result<&HostTensor> {
        self.owned.get(&id).or_else(|| self.inputs.get(&id)).ok_or_else(|| {
            Error::input(format!("tensor {}", self.graph.describe_tensor(id)), "is not among the given tensors")
        })
    }

    /// Poisoned storage for a result. A virtual tensor's strides are only a wish, so it is packed in the order of its
    /// axes' strides.
    pub(super) fn poisoned(&self, id: TensorId) -> Result<HostTensor> {
        let tensor = self.graph.tensor(id);
        HostTensor::poisoned(tensor.data_type, &tensor.dim, &storage_strides(self.graph, id))
    }

    pub(super) fn insert(&mut self, id: TensorId, tensor: HostTensor) {
        self.owned.insert(id, tensor);
    }

    /// Frees a computed tensor.
    pub(super) fn remove(&mut self, id: TensorId) {
        self.owned.remove(&id);
    }

    /// The results of the graph, all computed.
    pub(super) fn into_results(mut self) -> HostTensors {
        self.graph.results().into_iter().filter_map(|id| Some((id, self.owned.remove(&id)?))).collect()
    }
}

/// Strides a result is stored with; see [`Values::poisoned`]. Ragged ones are dense while they are computed.
pub(super) fn storage_strides(graph: &FinalizedGraph, id: TensorId) -> Vec<i64> {
    let tensor = graph.tensor(id);
    if tensor.ragged_offset.is_some() {
        return row_major(&tensor.dim);
    }
    if !tensor.is_virtual {
        return tensor.stride.clone();
    }
    let mut order: Vec<usize> = (0..tensor.dim.len()).rev().collect();
    order.sort_by_key(|&axis| tensor.stride[axis]);
    packed_strides(&tensor.dim, &order)
}

/// Strides of a packed tensor whose last axis is the fastest.
pub(super) fn row_major(dim: &[i64]) -> Vec<i64> {
    packed_strides(dim, &row_major_order(dim.len()))
}

fn check(graph: &FinalizedGraph, id: TensorId, given: &HostTensor) -> std::result::Result<(), String> {
    let tensor = graph.tensor(id);
    if given.data_type != tensor.data_type {
        return Err(format!("has type {}, required {}", given.data_type, tensor.data_type));
    }
    if given.dim != tensor.dim {
        return Err(format!("has dims {:?}, required {:?}", given.dim, tensor.dim));
    }
    // Strides of axes of extent 1 address nothing.
    let differs = |axis: usize| tensor.dim[axis] != 1 && given.stride.get(axis) != Some(&tensor.stride[axis]);
    if given.stride.len() != tensor.stride.len() || (0..tensor.dim.len()).any(differs) {
        return Err(format!("has strides {:?}, required {:?}", given.stride, tensor.stride));
    }
    given.validate().map_err(|error| error.to_string())
}
