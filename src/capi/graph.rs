//! Operation graphs.

use std::collections::BTreeMap;
use std::sync::Arc;

use cudarc::cudnn::sys::cudnnBackendAttributeName_t as Name;
use cudarc::cudnn::sys::cudnnStatus_t as Status;

use super::descriptor::Given;
use super::engine;
use super::failure::{Failure, Result};
use super::handle::Handle;
use super::values::Values;
use crate::error::Error;
use crate::graph::{FinalizedGraph, Graph, Operation, Port, Tensor, TensorId};

/// A well-formed graph, and the handle it was given, which names the device.
pub(super) struct OperationGraph {
    pub(super) graph: Arc<FinalizedGraph>,
    pub(super) handle: Option<Arc<Handle>>,
}

/// The graph of the operations of a descriptor: tensors of one uid are one tensor.
pub(super) fn build(given: &Given<'_>) -> Result<OperationGraph> {
    // that shapes may change from graph to graph asks nothing of one graph: its kernel is made for its shapes
    let flag = Name::CUDNN_ATTR_OPERATIONGRAPH_IS_OVERRIDE_SHAPE_ENABLED;
    if given.is_set(flag) {
        let message = format!("{flag:?}: kernels are made for the shapes of their graph");
        return Err(Failure::new(Status::CUDNN_STATUS_NOT_SUPPORTED_INVALID_DYNAMIC_SHAPE, message));
    }
    let mut made = Made { graph: Graph::new(), ids: BTreeMap::new() };
    for (number, descriptor) in given.descriptors(Name::CUDNN_ATTR_OPERATIONGRAPH_OPS).iter().enumerate() {
        let node = descriptor.node()?;
        let inputs = made.slots(&node.inputs)?;
        let outputs = made.slots(&node.outputs)?;
        made.graph.operation(Operation {
            name: format!("node {number}"),
            attributes: node.attributes.clone(),
            compute_data_type: node.compute,
            inputs,
            outputs,
        });
    }
    let graph = made.graph.finalize().map_err(|malformed| Failure::of_build(&Error::from(malformed)))?;
    let handle = match given.of(Name::CUDNN_ATTR_OPERATIONGRAPH_HANDLE) {
        Some(Values::Handle(handle)) => Some(Arc::clone(handle)),
        _ => None,
    };
    Ok(OperationGraph { graph: Arc::new(graph), handle })
}

struct Made {
    graph: Graph,
    ids: BTreeMap<i64, TensorId>,
}

impl Made {
    fn slots(&mut self, tensors: &[(Port, Arc<Tensor>)]) -> Result<Vec<(Port, TensorId)>> {
        tensors.iter().map(|(port, tensor)| Ok((*port, self.tensor(tensor)?))).collect()
    }

    fn tensor(&mut self, tensor: &Tensor) -> Result<TensorId> {
        let uid = tensor.uid.unwrap_or_default();
        let Some(&id) = self.ids.get(&uid) else {
            let id = self.graph.tensor(tensor.clone());
            self.ids.insert(uid, id);
            return Ok(id);
        };
        if self.graph.tensors()[id.index()] == *tensor {
            return Ok(id);
        }
        let message = format!("two different tensor descriptors have the uid {uid} [GR-UID-UNIQUE]");
        Err(Failure::new(Status::CUDNN_STATUS_BAD_PARAM_DUPLICATED_ENTRIES, message))
    }
}

impl OperationGraph {
    pub(super) fn attribute(&self, name: Name) -> Option<Values> {
        (name == Name::CUDNN_ATTR_OPERATIONGRAPH_ENGINE_GLOBAL_COUNT).then(|| Values::Int64(vec![engine::COUNT]))
    }
}
