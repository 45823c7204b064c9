//! Plans: graphs that are ready to be executed.

use std::collections::BTreeSet;
use std::ffi::c_void;
use std::sync::Arc;

use fusewright::emulator::EmulatedKernel;
use fusewright::error::Error;
use fusewright::graph::{FinalizedGraph, Scalar, TensorId};
use fusewright::host_tensor::{HostTensor, HostTensors};
use fusewright::plan::{DeviceBuffer, DevicePointer, Stream, VariantPack, Workspace};
use fusewright::{reference, session};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::array::{Array, LIMIT, Memory};
use crate::errors::{detached, execution_error};
use crate::graph::{Graph, TensorInfo, infos, outer_tensors};
use crate::tensor::Tensor;

/// Bytes that outputs and workspaces begin at multiples of.
const ALIGNMENT: u64 = 256;

/// What computes a graph.
pub(crate) enum Executable {
    Cpu,
    Emulator { kernel: EmulatedKernel, engine: String, config: String },
    Gpu(Arc<session::Plan>),
}

impl Executable {
    /// Computes the outputs in host memory, where it is not of a GPU.
    pub(crate) fn run_on_host(&self, graph: &FinalizedGraph, inputs: &HostTensors) -> Result<HostTensors, Error> {
        match self {
            Self::Emulator { kernel, .. } => kernel.run(graph, inputs),
            _ => reference::execute(graph, inputs),
        }
    }
}

/// A graph that is ready to be executed, from any thread.
#[pyclass(frozen, module = "fusewright")]
pub(crate) struct Plan {
    described: Graph,
    executable: Arc<Executable>,
    graph: Arc<FinalizedGraph>,
    inputs: Vec<TensorId>,
    outputs: Vec<TensorId>,
}

impl Plan {
    pub(crate) fn new(graph: Arc<FinalizedGraph>, described: Graph, executable: Arc<Executable>) -> Self {
        let [inputs, outputs] = [false, true].map(|is_output| outer_tensors(&graph, is_output));
        Self { described, executable, graph, inputs, outputs }
    }

    fn gpu(&self, py: Python<'_>) -> PyResult<&Arc<session::Plan>> {
        match &*self.executable {
            Executable::Gpu(plan) => Ok(plan),
            _ => Err(execution_error(py, "the plan is not one of a GPU: use run")),
        }
    }

    fn label(&self, id: TensorId) -> String {
        self.graph.describe_tensor(id).to_string()
    }

    fn require_count(&self, py: Python<'_>, found: usize) -> PyResult<()> {
        if found == self.inputs.len() {
            return Ok(());
        }
        let names: Vec<String> = self.inputs.iter().map(|&id| self.label(id)).collect();
        Err(execution_error(py, format!("found {found} tensors; required: {}: {}", names.len(), names.join(", "))))
    }
}

#[pymethods]
impl Plan {
    #[getter]
    fn graph(&self) -> Graph {
        self.described.clone()
    }

    #[getter]
    fn engine(&self) -> String {
        match &*self.executable {
            Executable::Cpu => "cpu".to_owned(),
            Executable::Emulator { engine, .. } => engine.clone(),
            Executable::Gpu(plan) => plan.binary().config().engine.to_owned(),
        }
    }

    #[getter]
    fn config(&self) -> String {
        match &*self.executable {
            Executable::Cpu => String::new(),
            Executable::Emulator { config, .. } => config.clone(),
            Executable::Gpu(plan) => plan.binary().config().to_string(),
        }
    }

    #[getter]
    fn workspace_bytes(&self) -> u64 {
        match &*self.executable {
            Executable::Gpu(plan) => plan.workspace_bytes(),
            _ => 0,
        }
    }

    #[getter]
    fn inputs(&self) -> Vec<TensorInfo> {
        infos(&self.graph, &self.inputs)
    }

    #[getter]
    fn outputs(&self) -> Vec<TensorInfo> {
        infos(&self.graph, &self.outputs)
    }

    /// Executes with these inputs, and gives the outputs.
    #[pyo3(signature = (*tensors, stream = None))]
    fn run(&self, py: Python<'_>, tensors: &Bound<'_, PyTuple>, stream: Option<u64>) -> PyResult<Vec<Array>> {
        self.require_count(py, tensors.len())?;
        let given: Vec<(TensorId, Bound<'_, PyAny>)> = self.inputs.iter().copied().zip(tensors.iter()).collect();
        match &*self.executable {
            Executable::Gpu(plan) => self.run_on_gpu(py, plan, &given, stream.unwrap_or(0)),
            _ => self.run_on_host(py, &given),
        }
    }

    /// Puts one execution on a stream of the GPU and returns.
    #[pyo3(signature = (pointers, workspace, stream, scalars = Vec::new()))]
    fn launch(
        &self,
        py: Python<'_>,
        pointers: Vec<u64>,
        workspace: u64,
        stream: u64,
        scalars: Vec<f64>,
    ) -> PyResult<()> {
        let plan = self.gpu(py)?;
        let is_scalar = |&id: &TensorId| self.graph.tensor(id).is_pass_by_value;
        let (of_values, of_pointers): (Vec<TensorId>, Vec<TensorId>) = self.inputs.iter().copied().partition(is_scalar);
        let places: Vec<TensorId> = of_pointers.into_iter().chain(self.outputs.iter().copied()).collect();
        if (places.len(), of_values.len()) != (pointers.len(), scalars.len()) {
            let found = format!("found {} pointers and {} scalars", pointers.len(), scalars.len());
            return Err(execution_error(py, format!("{found}; required: {} and {}", places.len(), of_values.len())));
        }
        let mut pack = VariantPack::new();
        for (id, pointer) in places.into_iter().zip(pointers) {
            pack.set_pointer(self.graph.tensor(id).uid, DevicePointer::from_raw(pointer));
        }
        for (id, value) in of_values.into_iter().zip(scalars) {
            pack.set_scalar(self.graph.tensor(id).uid, Scalar::Float(value));
        }
        let workspace = Workspace { pointer: DevicePointer::from_raw(workspace), bytes: plan.workspace_bytes() };
        let stream = raw_stream(plan, stream);
        // SAFETY: the caller says where tensors and workspace are, and keeps them.
        detached(py, || unsafe { plan.execute(&pack, workspace, &stream) })
    }

    fn __repr__(&self) -> String {
        format!("<Plan of {:?} by {}>", self.graph.key().to_string(), self.engine())
    }
}

/// A stream of another library.
pub(crate) fn raw_stream(plan: &session::Plan, stream: u64) -> Stream {
    let handle: *mut c_void = std::ptr::with_exposed_provenance_mut(stream as usize);
    // SAFETY: the caller gives a stream of the device, which lives until the call is over; outputs keep none but the default one.
    unsafe { Stream::from_raw(plan.execution().context(), handle) }
}

impl Plan {
    fn run_on_host(&self, py: Python<'_>, given: &[(TensorId, Bound<'_, PyAny>)]) -> PyResult<Vec<Array>> {
        let mut inputs = HostTensors::new();
        for (id, object) in given {
            let tensor = self.graph.tensor(*id);
            let host = match tensor.is_pass_by_value {
                true => {
                    let value = Scalar::Float(object.extract::<f64>()?);
                    let rank = tensor.dim.len();
                    HostTensor::scalar(tensor.data_type, rank, value)
                        .map_err(|error| crate::errors::exception(py, &error))?
                }
                false => Tensor::of(object, None)?.to_host(py, &self.label(*id), tensor)?,
            };
            inputs.insert(*id, host);
        }
        detached(py, || {
            let mut outputs = self.executable.run_on_host(&self.graph, &inputs)?;
            let missing = || Error::Wrong("an execution gave no value of an output".to_owned());
            let array = |id: &TensorId| Array::of_host(outputs.remove(id).ok_or_else(missing)?);
            self.outputs.iter().map(array).collect()
        })
    }

    fn run_on_gpu(
        &self,
        py: Python<'_>,
        plan: &Arc<session::Plan>,
        given: &[(TensorId, Bound<'_, PyAny>)],
        stream: u64,
    ) -> PyResult<Vec<Array>> {
        let context = plan.execution().context();
        let ordinal = context.ordinal() as i32;
        let mut pack = VariantPack::new();
        let mut held = Vec::with_capacity(given.len());
        for (id, object) in given {
            let tensor = self.graph.tensor(*id);
            if tensor.is_pass_by_value {
                pack.set_scalar(tensor.uid, Scalar::Float(object.extract::<f64>()?));
                continue;
            }
            let memory = Tensor::of(object, Some(stream))?;
            let address = memory.address_on(py, &self.label(*id), tensor, ordinal)?;
            pack.set_pointer(tensor.uid, DevicePointer::from_raw(address));
            held.push(memory);
        }
        let written_on: BTreeSet<u64> = held.iter().filter_map(Tensor::written_on).collect();
        detached(py, || written_on.into_iter().try_for_each(|other| raw_stream(plan, other).wait(LIMIT)))?;
        let stream = raw_stream(plan, stream);
        let executed = || {
            let buffer = |bytes: usize| DeviceBuffer::new(context, bytes.max(1), ALIGNMENT);
            let workspace = match usize::try_from(plan.workspace_bytes()).unwrap_or(usize::MAX) {
                0 => None,
                bytes => Some(Arc::new(buffer(bytes)?)),
            };
            let mut outputs = Vec::with_capacity(self.outputs.len());
            for &id in &self.outputs {
                let tensor = self.graph.tensor(id);
                let memory = buffer(HostTensor::storage_bytes(tensor.data_type, &tensor.dim, &tensor.stride)?)?;
                pack.set_pointer(tensor.uid, memory.pointer());
                outputs.push((id, memory));
            }
            let pointer = workspace.as_ref().map_or(DevicePointer::NULL, |buffer| buffer.pointer());
            let room = Workspace { pointer, bytes: plan.workspace_bytes() };
            // SAFETY: inputs are held by their capsules until the launch, and by their owners behind it; outputs and workspace by
            // what is returned.
            unsafe { plan.execute(&pack, room, &stream) }?;
            Ok((workspace, outputs))
        };
        let (workspace, outputs) = detached(py, executed)?;
        drop(held);
        let array = |(id, buffer)| {
            let memory = Memory::Gpu { buffer, ordinal, stream: stream.clone(), _workspace: workspace.clone() };
            Array::of_gpu(memory, self.graph.tensor(id))
        };
        Ok(outputs.into_iter().map(array).collect())
    }
}
