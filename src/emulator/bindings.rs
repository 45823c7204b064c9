//! The memory of one run: a buffer for each tensor and for the workspace.

use std::collections::BTreeMap;

use super::guarded::GuardedBuffer;
use super::library::Argument;
use super::scalar;
use super::tensor_map::EncodedMap;
use crate::error::{Error, Result};
use crate::graph::{FinalTensor, FinalizedGraph, TensorId};
use crate::host_tensor::{HostTensor, HostTensors};
use crate::kernel::{Launch, Parameter, TensorMap, WORKSPACE_ALIGNMENT};

/// A tensor's buffer.
#[derive(Debug)]
struct Binding<'a> {
    /// How messages name the tensor.
    name: String,
    buffer: GuardedBuffer,
    /// What an input must hold after each launch.
    original: Option<&'a [u8]>,
}

/// What the parameters of all launches stand for in one run.
#[derive(Debug)]
pub(super) struct Bindings<'a> {
    tensors: BTreeMap<TensorId, Binding<'a>>,
    scalars: BTreeMap<TensorId, Argument>,
    workspace: GuardedBuffer,
}

impl<'a> Bindings<'a> {
    /// No tensors, and a workspace that nobody has written.
    pub(super) fn new(workspace_bytes: usize) -> Self {
        let workspace = GuardedBuffer::poisoned(workspace_bytes, WORKSPACE_ALIGNMENT as usize);
        Self { tensors: BTreeMap::new(), scalars: BTreeMap::new(), workspace }
    }

    /// Buffers for the graph's results and for the inputs that the launches take.
    ///
    /// # Errors
    /// [`Error::Input`] if such an input is absent or does not have the graph's layout.
    pub(super) fn of_graph(
        graph: &FinalizedGraph,
        inputs: &'a HostTensors,
        launches: &[Launch],
        workspace_bytes: u64,
    ) -> Result<Self> {
        let mut bindings = Self::new(usize::try_from(workspace_bytes).map_err(|_| too_large("the workspace"))?);
        for id in graph.results() {
            let tensor = graph.tensor(id);
            let bytes = HostTensor::storage_bytes(tensor.data_type, &tensor.dim, &tensor.stride)?;
            bindings.output(id, graph.describe_tensor(id), bytes, tensor.alignment as usize);
            if has_prior_content(graph, id) {
                let host = checked_input(graph, inputs, id)?;
                bindings.changed(id, graph.describe_tensor(id), &host.bytes, tensor.alignment as usize);
            }
        }
        for &parameter in launches.iter().flat_map(|launch| &launch.parameters) {
            match parameter {
                Parameter::Tensor(id) | Parameter::TensorMap(TensorMap { tensor: id, .. }) => {
                    bindings.bind_input(graph, inputs, id)?;
                }
                Parameter::Scalar(id) => bindings.bind_scalar(graph, inputs, id)?,
                Parameter::Constant { .. } | Parameter::Workspace { .. } | Parameter::Accumulators { .. } => {}
                Parameter::Intermediate { .. } | Parameter::IntermediateMap { .. } | Parameter::TileCounter { .. } => {}
                Parameter::OwnRank { .. } | Parameter::AbsentRank | Parameter::FirstHead(_) => {}
                Parameter::Int(_) | Parameter::Long(_) => {}
            }
        }
        Ok(bindings)
    }

    fn bind_input(&mut self, graph: &FinalizedGraph, inputs: &'a HostTensors, id: TensorId) -> Result<()> {
        if !self.tensors.contains_key(&id) && graph.producer(id).is_none() {
            let host = checked_input(graph, inputs, id)?;
            let (name, alignment) = (graph.describe_tensor(id), graph.tensor(id).alignment as usize);
            match graph.is_of_peers(id) {
                true => self.changed(id, name, &host.bytes, alignment),
                false => self.input(id, name, &host.bytes, alignment),
            }
        }
        Ok(())
    }

    fn bind_scalar(&mut self, graph: &FinalizedGraph, inputs: &HostTensors, id: TensorId) -> Result<()> {
        let tensor = graph.tensor(id);
        let value = match tensor.value {
            Some(value) => Some(value),
            None => checked_input(graph, inputs, id)?.get(0),
        };
        let missing = || Error::input(graph.describe_tensor(id), "the host scalar has no value");
        self.scalar(id, scalar::argument(tensor.data_type, value.ok_or_else(missing)?)?);
        Ok(())
    }

    /// Binds a tensor that kernels read.
    pub(super) fn input(&mut self, id: TensorId, name: String, bytes: &'a [u8], alignment: usize) {
        let buffer = GuardedBuffer::holding(bytes, alignment);
        self.tensors.insert(id, Binding { name, buffer, original: Some(bytes) });
    }

    /// Binds a tensor that kernels read and write.
    fn changed(&mut self, id: TensorId, name: String, bytes: &[u8], alignment: usize) {
        let buffer = GuardedBuffer::holding(bytes, alignment);
        self.tensors.insert(id, Binding { name, buffer, original: None });
    }

    /// Binds a tensor that kernels write.
    pub(super) fn output(&mut self, id: TensorId, name: String, bytes: usize, alignment: usize) {
        let buffer = GuardedBuffer::poisoned(bytes, alignment);
        self.tensors.insert(id, Binding { name, buffer, original: None });
    }

    /// Binds a host scalar.
    pub(super) fn scalar(&mut self, id: TensorId, value: Argument) {
        self.scalars.insert(id, value);
    }

    /// A launch's arguments; valid while `self` is neither moved from nor dropped.
    pub(super) fn arguments(&mut self, launch: &Launch) -> Result<Vec<Argument>> {
        launch.parameters.iter().map(|&parameter| self.argument(launch, parameter)).collect()
    }

    fn argument(&mut self, launch: &Launch, parameter: Parameter) -> Result<Argument> {
        let found = match parameter {
            Parameter::TensorMap(map) => match self.tensors.get_mut(&map.tensor) {
                Some(Binding { name, buffer, .. }) => Some(Argument::TensorMap(EncodedMap::of(&map, name, buffer, 0)?)),
                None => None,
            },
            Parameter::IntermediateMap { map, offset } => {
                let offset = usize::try_from(offset).map_err(|_| too_large("the workspace"))?;
                let map = EncodedMap::of(&map, "a tensor in the workspace", &mut self.workspace, offset)?;
                Some(Argument::TensorMap(map))
            }
            Parameter::Tensor(id) => self.tensors.get_mut(&id).map(|b| Argument::Pointer(b.buffer.pointer())),
            Parameter::Scalar(id) => self.scalars.get(&id).copied(),
            // the CPU is the only GPU: the first of its node
            Parameter::OwnRank { .. } => Some(Argument::Int(0)),
            Parameter::AbsentRank => Some(Argument::Pointer(std::ptr::null_mut())),
            Parameter::FirstHead(number) | Parameter::Int(number) => Some(Argument::Int(number)),
            Parameter::Long(number) => Some(Argument::LongLong(number)),
            Parameter::Constant { bits, .. } => Some(Argument::Float(f32::from_bits(bits))),
            Parameter::Workspace { offset }
            | Parameter::TileCounter { offset }
            | Parameter::Accumulators { offset, .. }
            | Parameter::Intermediate { offset, .. } => self.workspace_at(offset).map(Argument::Pointer),
        };
        let function = &launch.function;
        found.ok_or_else(|| {
            Error::Wrong(format!("kernel '{function}' takes {parameter:?}, which the run does not have"))
        })
    }

    fn workspace_at(&mut self, offset: u64) -> Option<*mut u8> {
        let offset = usize::try_from(offset).ok().filter(|&offset| offset <= self.workspace.bytes().len())?;
        Some(self.workspace.pointer().wrapping_add(offset))
    }

    /// Checks that a launch wrote nothing but outputs and workspace.
    pub(super) fn check_after(&self, launch: &Launch) -> Result<()> {
        let wrong =
            |what: String| Err(Error::Wrong(format!("kernel '{}' on the emulator wrote {what}", launch.function)));
        if let Some(damage) = self.workspace.damage() {
            return wrong(format!("outside the workspace: {damage}"));
        }
        for Binding { name, buffer, original } in self.tensors.values() {
            if let Some(damage) = buffer.damage() {
                return wrong(format!("outside tensor {name}: {damage}"));
            }
            if original.is_some_and(|original| original != buffer.bytes()) {
                return wrong(format!("to its input {name}"));
            }
        }
        Ok(())
    }

    /// What a tensor's buffer holds.
    #[cfg(test)]
    pub(super) fn bytes(&self, id: TensorId) -> &[u8] {
        self.tensors[&id].buffer.bytes()
    }

    /// The graph's results.
    pub(super) fn into_outputs(self, graph: &FinalizedGraph) -> HostTensors {
        let results = graph.results();
        let outputs = self.tensors.into_iter().filter(|(id, _)| results.contains(id));
        outputs.map(|(id, binding)| (id, host_tensor(graph.tensor(id), binding.buffer.bytes().to_vec()))).collect()
    }
}

fn host_tensor(tensor: &FinalTensor, bytes: Vec<u8>) -> HostTensor {
    HostTensor { data_type: tensor.data_type, dim: tensor.dim.clone(), stride: tensor.stride.clone(), bytes }
}

/// Whether a result is an input as well: of the operation that writes it, or as a flag that is set.
fn has_prior_content(graph: &FinalizedGraph, id: TensorId) -> bool {
    graph.producer(id).is_none_or(|writer| graph.operation(writer).input_tensors().any(|input| input == id))
}

/// The caller's tensor for an input, which must have the graph's type, extents, strides and size.
fn checked_input<'a>(graph: &FinalizedGraph, inputs: &'a HostTensors, id: TensorId) -> Result<&'a HostTensor> {
    let tensor = graph.tensor(id);
    let refuse = |message: String| Error::input(graph.describe_tensor(id), message);
    let host = inputs.get(&id).ok_or_else(|| refuse("the run needs this input, and it was not given".to_owned()))?;
    if (host.data_type, &host.dim, &host.stride) != (tensor.data_type, &tensor.dim, &tensor.stride) {
        return Err(refuse(format!(
            "the graph has {} {:?} with strides {:?}, the given tensor is {} {:?} with strides {:?}",
            tensor.data_type, tensor.dim, tensor.stride, host.data_type, host.dim, host.stride
        )));
    }
    host.validate()?;
    Ok(host)
}

fn too_large(what: &str) -> Error {
    Error::environment(format!("{what} is larger than this machine's memory"))
}
