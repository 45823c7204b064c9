//! A graph's tensors in device memory of its own: for tests, the command line and measurements. What backends run never comes here.
//!
//! Memory is poisoned before a kernel writes it and guarded behind its end; [`run_on_device`] does everything around one execution
//! with tensors of the host.
//!
//! # When
//!
//! You need this to try a plan on tensors of the host, and to measure; a backend has memory of its own, and needs
//! [`plan`](crate::plan).
//!
//! ```no_run
//! # use std::sync::Arc;
//! # use fusewright::graph::{DataType, Graph, PointwiseMode, Tensor};
//! # let mut graph = Graph::new().io_data_type(DataType::Half).compute_data_type(DataType::Float);
//! # let a = graph.tensor(Tensor::new("a").row_major([1, 64, 128]));
//! # let b = graph.tensor(Tensor::new("b").row_major([1, 128, 32]));
//! # let c = graph.matmul("matmul", a, b);
//! # graph.set_output(c);
//! # let graph = Arc::new(graph.finalize()?);
//! use fusewright::harness::run_on_device;
//! use fusewright::reference::{Distribution, bounds, compare, execute, random_inputs};
//! use fusewright::session::{Session, SessionOptions};
//!
//! let plan = Session::open(0, SessionOptions::default())?.plan(&graph)?;
//! let inputs = random_inputs(&graph, 0, Distribution::Normal)?;
//! let found = run_on_device(plan.execution(), &graph, &inputs)?;
//! let expected = execute(&graph, &inputs)?;
//! assert!(compare(&graph, &expected, &found, Some(&bounds(&graph, &inputs)?))?.is_match());
//! # Ok::<(), fusewright::error::Error>(())
//! ```

use std::time::Duration;

use crate::error::Error;
use crate::graph::{FinalTensor, FinalizedGraph, TensorId};
use crate::host_tensor::{HostTensor, HostTensors};
use crate::plan::{
    CudaGraph, DeviceBuffer, DeviceContext, ExecutionPlan, Stream, TensorsDigest, VariantPack, WORKSPACE_ALIGNMENT,
    Workspace,
};

/// Byte that memory holds before a kernel writes it: NaN in every floating type, so that reading it shows.
const POISON: u8 = 0xff;

/// Bytes behind every tensor and the workspace, which no kernel may change.
const GUARD_BYTES: usize = 256;

/// Byte that guards what a kernel writes. It differs from the poison behind what it only reads, so that a kernel which
/// copies one element too many shows.
const GUARD: u8 = 0xa5;

/// A kernel that takes longer hangs.
const LIMIT: Duration = Duration::from_secs(60);

/// A graph's non-virtual tensors on a device, with a stream, a workspace and the variant pack that binds them: the safe way
/// to execute plans, since it owns the memory, knows its size, and compares the graph with the plan's.
#[derive(Debug)]
pub struct DeviceTensors {
    /// Which plans may work on them.
    digest: TensorsDigest,
    stream: Stream,
    pack: VariantPack,
    tensors: Vec<(TensorId, DeviceBuffer)>,
    workspace: Option<DeviceBuffer>,
    workspace_bytes: u64,
}

impl DeviceTensors {
    /// Allocates every tensor of the plan's graph and its workspace, poisons them with 0xFF, and copies the inputs.
    /// A tensor that the graph writes may be among the inputs, too: that is its prior content.
    ///
    /// # Errors
    /// [`Error::Input`] if an input is missing, or has another type, extents, strides or size than the graph says;
    /// [`Error::Environment`] where memory does not suffice.
    pub fn upload(plan: &ExecutionPlan, graph: &FinalizedGraph, inputs: &HostTensors) -> Result<Self, Error> {
        let mut tensors = Self::allocate(plan.context(), graph, inputs)?;
        tensors.reserve(plan)?;
        Ok(tensors)
    }

    /// As [`Self::upload`], but for any number of plans of the graph: [`Self::reserve`] adds the workspace of each.
    ///
    /// # Errors
    /// As [`Self::upload`].
    pub fn allocate(context: &DeviceContext, graph: &FinalizedGraph, inputs: &HostTensors) -> Result<Self, Error> {
        let stream = Stream::new(context)?;
        let mut pack = VariantPack::new();
        let mut tensors = Vec::new();
        for id in graph.tensor_ids() {
            let tensor = graph.tensor(id);
            let input = inputs.get(&id);
            if let Some(input) = input {
                check_input(graph, id, input)?;
            } else if is_needed(graph, id) {
                return Err(Error::input("inputs", format!("tensor {} is missing", graph.describe_tensor(id))));
            }
            if tensor.is_pass_by_value {
                let value = input.filter(|_| tensor.value.is_none()).and_then(|input| input.get(0));
                value.map(|value| pack.set_scalar(tensor.uid, value));
            } else if !tensor.is_virtual {
                let bytes = HostTensor::storage_bytes(tensor.data_type, &tensor.dim, &tensor.stride)?;
                let bytes = bytes.max(graph.message_bytes(id));
                let alignment = u64::try_from(tensor.alignment).unwrap_or(1);
                let content = input.map(|input| input.bytes.as_slice()).unwrap_or_default();
                let guard = guard_byte(graph, id);
                let buffer = guarded(context, bytes, alignment, guard, content, &stream)?;
                pack.set_pointer(tensor.uid, buffer.pointer());
                tensors.push((id, buffer));
            }
        }
        let digest = TensorsDigest::of(graph);
        Ok(Self { digest, stream, pack, tensors, workspace: None, workspace_bytes: 0 })
    }

    /// Makes the workspace, which the plans share, at least as large as this plan needs. A new one is poisoned with
    /// 0xFF; [`Self::launch`] binds CUDA graphs to it.
    ///
    /// # Errors
    /// [`Error::Environment`] where memory does not suffice.
    pub fn reserve(&mut self, plan: &ExecutionPlan) -> Result<(), Error> {
        let required = plan.workspace_bytes();
        if required > self.workspace_bytes {
            // Released first, so that both need not fit.
            (self.workspace, self.workspace_bytes) = (None, 0);
            self.workspace = Some(workspace(plan, &self.stream)?);
            self.workspace_bytes = required;
        }
        Ok(())
    }

    /// The stream everything here is ordered by.
    pub fn stream(&self) -> &Stream {
        &self.stream
    }

    /// Puts one execution on the stream.
    ///
    /// # Errors
    /// As [`ExecutionPlan::execute`], and [`Error::Execution`] for a plan of another graph.
    pub fn execute(&self, plan: &ExecutionPlan) -> Result<(), Error> {
        plan.check_tensors(&self.digest)?;
        // SAFETY: the pack has a buffer for each tensor of the plan's graph, as long as it needs, and the workspace is as
        // long as it says. They are released by waiting for the device, and nothing but the stream here orders their use.
        unsafe { plan.execute(&self.pack, self.workspace(), &self.stream) }
    }

    /// An execution on these tensors as a CUDA graph, still to be launched ([`Self::launch`]).
    ///
    /// # Errors
    /// As [`ExecutionPlan::instantiate`].
    pub fn instantiate(&self, plan: &ExecutionPlan) -> Result<CudaGraph, Error> {
        plan.check_tensors(&self.digest)?;
        plan.instantiate(&self.pack, self.workspace())
    }

    /// Binds a CUDA graph of a plan of the graph to these tensors and their workspace, and puts an execution on the stream.
    /// What it was bound to before may be gone by now.
    ///
    /// # Errors
    /// As [`CudaGraph::update`] and [`CudaGraph::launch`], and [`Error::Execution`] for a plan of another graph.
    pub fn launch(&self, cuda_graph: &mut CudaGraph) -> Result<(), Error> {
        cuda_graph.check_tensors(&self.digest)?;
        cuda_graph.update(&self.pack, self.workspace())?;
        // SAFETY: as for an execution: it was just bound to memory that is here.
        unsafe { cuda_graph.launch(&self.stream) }
    }

    /// The pointers and values.
    pub fn pack(&self) -> &VariantPack {
        &self.pack
    }

    /// The workspace.
    pub fn workspace(&self) -> Workspace {
        let whole = |buffer: &DeviceBuffer| Workspace { pointer: buffer.pointer(), bytes: self.workspace_bytes };
        self.workspace.as_ref().map_or(Workspace::NONE, whole)
    }

    /// Waits for the stream, and copies the graph's results back ([`FinalizedGraph::results`]: outputs, and flags that it sets).
    ///
    /// # Errors
    /// [`Error::Wrong`] if a kernel failed, hangs, or wrote behind the end of a tensor or of the workspace.
    pub fn download(&self, graph: &FinalizedGraph) -> Result<HostTensors, Error> {
        self.stream.wait(LIMIT)?;
        if let Some(workspace) = &self.workspace {
            unguarded(workspace.download(&self.stream)?, GUARD, "the workspace")?;
        }
        let written = graph.results();
        let mut outputs = HostTensors::new();
        for (id, buffer) in &self.tensors {
            let bytes = unguarded(buffer.download(&self.stream)?, guard_byte(graph, *id), &graph.describe_tensor(*id))?;
            if written.contains(id) {
                let FinalTensor { data_type, dim, stride, .. } = graph.tensor(*id).clone();
                outputs.insert(*id, HostTensor { data_type, dim, stride, bytes });
            }
        }
        Ok(outputs)
    }
}

/// Runs a plan once with inputs of the host: allocates, poisons outputs and workspace with 0xFF, copies, executes,
/// waits, checks that nothing was written behind a tensor's end, and copies the results back.
///
/// `inputs` holds every input of the graph, host scalars without a stated value included.
///
/// # Errors
/// As [`DeviceTensors::upload`], [`ExecutionPlan::execute`] and [`DeviceTensors::download`].
pub fn run_on_device(plan: &ExecutionPlan, graph: &FinalizedGraph, inputs: &HostTensors) -> Result<HostTensors, Error> {
    let tensors = DeviceTensors::upload(plan, graph, inputs)?;
    tensors.execute(plan)?;
    tensors.download(graph)
}

/// Read by the graph, not written by it, and without a stated value.
fn is_needed(graph: &FinalizedGraph, id: TensorId) -> bool {
    let tensor = graph.tensor(id);
    graph.producer(id).is_none() && !tensor.is_virtual && tensor.value.is_none()
}

fn check_input(graph: &FinalizedGraph, id: TensorId, input: &HostTensor) -> Result<(), Error> {
    let tensor = graph.tensor(id);
    let place = || format!("input {}", graph.describe_tensor(id));
    let layout = |data_type, dim, stride| format!("{data_type} {dim:?} with strides {stride:?}");
    let required = layout(tensor.data_type, &tensor.dim, &tensor.stride);
    let found = layout(input.data_type, &input.dim, &input.stride);
    if required != found {
        return Err(Error::input(place(), format!("required: {required}; found: {found}")));
    }
    input.validate().map_err(|error| Error::input(place(), error.to_string()))
}

fn workspace(plan: &ExecutionPlan, stream: &Stream) -> Result<DeviceBuffer, Error> {
    let bytes = usize::try_from(plan.workspace_bytes()).unwrap_or(usize::MAX);
    guarded(plan.context(), bytes, WORKSPACE_ALIGNMENT, GUARD, &[], stream)
}

/// The byte behind a tensor.
fn guard_byte(graph: &FinalizedGraph, id: TensorId) -> u8 {
    if graph.producer(id).is_some() { GUARD } else { POISON }
}

/// Poisoned memory of this size with a guard behind it, and content at its start.
fn guarded(
    context: &DeviceContext,
    bytes: usize,
    alignment: u64,
    guard: u8,
    content: &[u8],
    stream: &Stream,
) -> Result<DeviceBuffer, Error> {
    let mut buffer = DeviceBuffer::new(context, bytes.saturating_add(GUARD_BYTES), alignment)?;
    buffer.fill(guard, stream)?;
    buffer.fill_first(bytes, POISON, stream)?;
    if !content.is_empty() {
        buffer.upload(content, stream)?;
    }
    Ok(buffer)
}

/// The content without the guard, which must be as it was.
fn unguarded(mut bytes: Vec<u8>, guard: u8, label: &str) -> Result<Vec<u8>, Error> {
    let content = bytes.len().saturating_sub(GUARD_BYTES);
    if let Some(offset) = bytes[content..].iter().position(|&byte| byte != guard) {
        return Err(Error::Wrong(format!("a kernel wrote {offset} bytes behind the end of {label}")));
    }
    bytes.truncate(content);
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_into_the_guard_are_noticed() {
        let mut bytes = vec![0; 8];
        bytes.extend([GUARD; GUARD_BYTES]);
        assert_eq!(unguarded(bytes.clone(), GUARD, "y").unwrap(), [0; 8]);
        bytes[8 + 255] = 0;
        let error = unguarded(bytes, GUARD, "'y' (uid 3)").unwrap_err();
        assert_eq!(error.to_string(), "a kernel wrote 255 bytes behind the end of 'y' (uid 3)");
    }
}
