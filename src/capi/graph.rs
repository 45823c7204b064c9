//! Operation graphs.

use std::collections::BTreeMap;
use std::sync::Arc;

use cudarc::cudnn::sys::cudnnBackendAttributeName_t as Name;
use cudarc::cudnn::sys::cudnnStatus_t as Status;

use super::descriptor::{Given, Object, Referred, Values};
use super::failure::{Failure, Result};
use super::handle::Handle;
use super::operation::Node;
use crate::engine::ENGINES;
use crate::error::Error;
use crate::graph::{FinalizedGraph, Graph, MAX_OPERATIONS, Operation, Port, Tensor, TensorHandle};

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
    let operations = given.descriptors(Name::CUDNN_ATTR_OPERATIONGRAPH_OPS);
    if operations.len() > MAX_OPERATIONS {
        // before they are made anew: one descriptor may be there millions of times
        let message = format!("a graph has at most {MAX_OPERATIONS} operations; found: {}", operations.len());
        return Err(Failure::bad(message));
    }
    let mut made = Made::default();
    for (number, descriptor) in operations.iter().enumerate() {
        let node = descriptor.object::<Node>()?;
        made.push(&node, format!("node {number}"))?;
    }
    let graph = made.finalize()?;
    let handle = given.handle(Name::CUDNN_ATTR_OPERATIONGRAPH_HANDLE).cloned();
    Ok(OperationGraph { graph: Arc::new(graph), handle })
}

/// Whether an operation could be in a graph: its tensors fit each other (CV-R3, [002 9.2.10–9.2.14]).
pub(super) fn require_well_formed(node: &Node) -> Result<()> {
    let mut alone = Made::default();
    alone.push(node, "the operation".to_owned())?;
    // none of them has another end here
    for &id in alone.ids.values() {
        alone.graph.tensor_mut(id).is_virtual = false;
    }
    alone.finalize().map(drop)
}

/// A graph in the making, by uids.
#[derive(Default)]
struct Made {
    graph: Graph,
    ids: BTreeMap<i64, TensorHandle>,
}

impl Made {
    fn push(&mut self, node: &Node, name: String) -> Result<()> {
        let inputs = self.slots(&node.inputs)?;
        let outputs = self.slots(&node.outputs)?;
        self.graph.operation(Operation {
            name,
            attributes: node.attributes.clone(),
            compute_data_type: node.compute,
            inputs,
            outputs,
        });
        Ok(())
    }

    fn finalize(self) -> Result<FinalizedGraph> {
        self.graph.finalize().map_err(|malformed| Failure::of_build(&Error::from(malformed)))
    }

    fn slots(&mut self, tensors: &[(Port, Arc<Tensor>)]) -> Result<Vec<(Port, TensorHandle)>> {
        tensors.iter().map(|(port, tensor)| Ok((*port, self.tensor(tensor)?))).collect()
    }

    fn tensor(&mut self, tensor: &Tensor) -> Result<TensorHandle> {
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

impl Object for OperationGraph {
    fn attribute(&self, name: Name) -> Result<Option<Values>> {
        let is_count = name == Name::CUDNN_ATTR_OPERATIONGRAPH_ENGINE_GLOBAL_COUNT;
        Ok(is_count.then(|| Values::Int64(vec![engine_count()])))
    }
}

impl Referred for OperationGraph {
    const WANTED: &'static str = "an operation graph descriptor";
}

/// One more than the largest number of an engine.
fn engine_count() -> i64 {
    ENGINES.iter().map(|engine| engine.id() + 1).max().unwrap_or(0)
}
