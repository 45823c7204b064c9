//! Operation graphs.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::c_void;
use std::sync::Arc;

use cudarc::cudnn::sys::cudnnBackendAttributeName_t as Name;
use cudarc::cudnn::sys::cudnnStatus_t as Status;

use super::descriptor::{self, Given, Object, Referred, Values};
use super::failure::{Failure, Result};
use super::handle::Handle;
use super::operation::Node;
use super::tensor::DescribedTensor;
use crate::engine::ENGINES;
use crate::error::Error;
use crate::graph::{
    Attributes, Composite, FinalizedGraph, Graph, MAX_OPERATIONS, Operation, PointwiseMode, Port, ReductionMode,
    Tensor, TensorHandle, is_sum_of_attention,
};

/// A well-formed graph, and the handle it was given, which names the device.
pub(super) struct OperationGraph {
    /// Or why it is none by itself: a graph without a handle may be a part of an operation (AT-O12), and begin and end with values that
    /// are virtual.
    graph: std::result::Result<Arc<FinalizedGraph>, (Status, String)>,
    pub(super) handle: Option<Arc<Handle>>,
    nodes: Vec<Arc<Node>>,
}

impl OperationGraph {
    /// A graph that no descriptors were given for.
    pub(super) fn of(graph: Arc<FinalizedGraph>, handle: Option<Arc<Handle>>) -> Self {
        Self { graph: Ok(graph), handle, nodes: Vec::new() }
    }

    /// The graph, where it is one by itself.
    pub(super) fn graph(&self) -> Result<&Arc<FinalizedGraph>> {
        self.graph.as_ref().map_err(|(status, message)| Failure::new(*status, message))
    }

    /// The operations that it was given.
    pub(super) fn nodes(&self) -> &[Arc<Node>] {
        &self.nodes
    }
}

/// The graph of a finalized operation graph descriptor; `None` of other descriptors, and of a graph that is none by itself.
///
/// For who has the C functions and stays in Rust, to write a graph down or to ask for its verdict.
pub fn finalized_graph(descriptor: *mut c_void) -> Option<Arc<FinalizedGraph>> {
    let graph = descriptor::find(descriptor).ok()?.object::<OperationGraph>().ok()?;
    graph.graph().ok().cloned()
}

/// The graph of the operations of a descriptor: tensors of one uid are one tensor.
pub(super) fn build(given: &Given<'_>) -> Result<OperationGraph> {
    let operations = given.descriptors(Name::CUDNN_ATTR_OPERATIONGRAPH_OPS);
    if operations.len() > MAX_OPERATIONS {
        // before they are made anew: one descriptor may be there millions of times
        let message = format!("a graph has at most {MAX_OPERATIONS} operations; found: {}", operations.len());
        return Err(Failure::bad(message));
    }
    let nodes = operations.iter().map(|descriptor| descriptor.object::<Node>()).collect::<Result<Vec<_>>>()?;
    let count: usize = nodes.iter().map(|node| node.parts.len().max(1)).sum();
    if count > MAX_OPERATIONS {
        return Err(Failure::bad(format!("a graph has at most {MAX_OPERATIONS} operations; found: {count}")));
    }
    let mut made = Made::default();
    // whose executions may have other shapes has a kernel for these
    made.graph.is_dynamic = given.is_set(Name::CUDNN_ATTR_OPERATIONGRAPH_IS_DYNAMIC_SHAPE_ENABLED)
        || given.is_set(Name::CUDNN_ATTR_OPERATIONGRAPH_IS_OVERRIDE_SHAPE_ENABLED);
    for (number, node) in nodes.iter().enumerate() {
        made.push_parts(node, &format!("node {number}"))?;
    }
    let handle = given.handle(Name::CUDNN_ATTR_OPERATIONGRAPH_HANDLE).cloned();
    let graph = match made.clone().finalize() {
        Ok(graph) => Ok(Arc::new(graph)),
        Err(failure) if handle.is_none() && made.is_part() => Err((failure.status, failure.message)),
        Err(failure) => return Err(failure),
    };
    Ok(OperationGraph { graph, handle, nodes })
}

/// Whether an operation could be in a graph: its tensors fit each other (CV-R3, [002 9.2.10–9.2.14]).
pub(super) fn require_well_formed(node: &Node) -> Result<()> {
    if is_of_attention(node) {
        return Ok(());
    }
    let mut alone = Made::default();
    alone.push(node, "the operation".to_owned())?;
    // none of them has another end here
    for &id in alone.ids.values() {
        alone.graph.tensor_mut(id).is_virtual = false;
    }
    alone.finalize().map(drop)
}

/// Whether an operation is one that means something in an attention alone, by which its graph is judged: a row's maximum that is declared
/// as wide as the row (AT-P34), a sum over groups of heads or over nothing (2.4), and a softmax between places of an attention that others
/// fill (2814).
fn is_of_attention(node: &Node) -> bool {
    let dim = |slots: &[(Port, Arc<DescribedTensor>)], port: Port| {
        slots.iter().find(|slot| slot.0 == port && slot.1.is_virtual).map(|slot| slot.1.dim.clone())
    };
    match &node.attributes {
        Attributes::Reduction(reduction) if reduction.mode == ReductionMode::Add => {
            let dims = |slots: &[(Port, Arc<DescribedTensor>)]| slots.first().map(|slot| slot.1.dim.clone());
            let is_sum = |(x, y): (Vec<i64>, Vec<i64>)| is_sum_of_attention(&x, &y);
            dims(&node.inputs).zip(dims(&node.outputs)).is_some_and(is_sum)
        }
        Attributes::Reduction(reduction) if reduction.mode == ReductionMode::Max => {
            let x = dim(&node.inputs, Port::X);
            x.as_ref().is_some_and(|x| x.len() == 4) && x == dim(&node.outputs, Port::Y)
        }
        Attributes::Pointwise(pointwise) if pointwise.mode == PointwiseMode::Max => {
            let wide = [Port::IN_0, Port::IN_1].into_iter().filter_map(|port| dim(&node.inputs, port)).next();
            let row = node.outputs.first().map(|slot| &slot.1.dim);
            wide.zip(row).is_some_and(|(wide, row)| wide.len() == 4 && row.len() == 4 && row[3] == 1 && wide[3] != 1)
        }
        Attributes::Composite(Composite::Softmax(_)) => {
            dim(&node.inputs, Port::X).is_some() && dim(&node.outputs, Port::Y).is_some()
        }
        _ => false,
    }
}

/// A graph in the making, by uids.
#[derive(Clone, Default)]
struct Made {
    graph: Graph,
    ids: BTreeMap<i64, TensorHandle>,
    /// Of tensors that no caller knows, by where they are.
    inner: BTreeMap<usize, TensorHandle>,
}

impl Made {
    /// Adds an operation, or those in its place.
    fn push_parts(&mut self, node: &Node, name: &str) -> Result<()> {
        if node.parts.is_empty() {
            return self.push(node, name.to_owned());
        }
        let mut parts = node.parts.iter().enumerate();
        parts.try_for_each(|(number, part)| self.push(part, format!("{name}.{number}")))
    }

    /// Whether it would be well formed, if its ends were in memory.
    fn is_part(&self) -> bool {
        let operations = self.graph.operations();
        let read: BTreeSet<_> = operations.iter().flat_map(Operation::input_tensors).collect();
        let written: BTreeSet<_> = operations.iter().flat_map(Operation::output_tensors).collect();
        let mut stored = self.clone();
        for &id in read.symmetric_difference(&written) {
            stored.graph.tensor_mut(id).is_virtual = false;
        }
        stored.finalize().is_ok()
    }

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

    fn slots(&mut self, tensors: &[(Port, Arc<DescribedTensor>)]) -> Result<Vec<(Port, TensorHandle)>> {
        tensors.iter().map(|(port, tensor)| Ok((*port, self.tensor(tensor)?))).collect()
    }

    fn tensor(&mut self, described: &Arc<DescribedTensor>) -> Result<TensorHandle> {
        let offsets = described.offsets.as_ref().map(|offsets| self.tensor(offsets)).transpose()?;
        let tensor = Tensor { ragged_offset: offsets, ..described.tensor.clone() };
        let Some(uid) = tensor.uid else {
            let graph = &mut self.graph;
            return Ok(*self.inner.entry(Arc::as_ptr(described).addr()).or_insert_with(|| graph.tensor(tensor)));
        };
        let Some(&id) = self.ids.get(&uid) else {
            let id = self.graph.tensor(tensor);
            self.ids.insert(uid, id);
            return Ok(id);
        };
        if self.graph.tensors()[id.index()] == tensor {
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
