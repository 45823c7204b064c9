//! Executions: what those of one graph on one device share, prepared at the first and found by the graph's text from then on.

use std::ffi::c_void;
use std::sync::Arc;

use fusewright::graph::{DataType, TensorId};
use fusewright::plan::{DevicePointer, VariantPack, Workspace};
use fusewright::session;

use super::by_text::ByText;
use super::layout;
use super::shim::{self, Shim, checked};
use super::values::{Device, Form, Tensor};
use super::{Outcome, host, told};
use crate::dlpack::{CUDA, View};
use crate::graph::{Graph, outer_tensors};
use crate::plan::{Executable, raw_stream};
use crate::session::Opened;

/// Bytes to which the engines take every operand to be aligned.
const POINTER_ALIGNMENT: usize = 16;

/// A tensor that the operator takes or gives, as the graph describes it.
pub(super) struct Operand {
    pub(super) id: TensorId,
    pub(super) data_type: DataType,
    pub(super) dim: Vec<i64>,
    stride: Vec<i64>,
    uid: i64,
    label: String,
    /// PyTorch's number of its type.
    number: i32,
}

impl Operand {
    fn new(shim: &Shim, graph: &Graph, id: TensorId) -> Outcome<Self> {
        let (tensor, label) = (graph.graph.tensor(id), graph.graph.describe_tensor(id));
        if tensor.is_pass_by_value {
            return Err(format!(
                "{label}: a number whose value the graph does not state; the operator takes tensors alone"
            ));
        }
        let absent = || format!("{label}: {} is no type of PyTorch", tensor.data_type);
        let number = shim.number_of(tensor.data_type).ok_or_else(absent)?;
        let (dim, stride) = (tensor.dim.clone(), tensor.stride.clone());
        Ok(Self { id, data_type: tensor.data_type, dim, stride, uid: tensor.uid, label, number })
    }

    pub(super) fn form(&self) -> Form<'_> {
        Form { dim: &self.dim, stride: &self.stride, data_type: self.number }
    }

    /// That a tensor is on the device and has this type and so many elements.
    fn require(&self, shim: &Shim, tensor: &Tensor, device: Device) -> Outcome<()> {
        let (found, number) = (tensor.device()?, tensor.data_type()?);
        if found != device {
            let [found, required] = [found, device].map(|device| shim.label(device));
            return Err(format!("{}: lies on {found}; required: {required}", self.label));
        }
        if number != self.number {
            return Err(format!("{}: found {}; required: {}", self.label, shim.name_of(number), self.data_type));
        }
        let (shape, _) = tensor.layout()?;
        if shape.iter().product::<i64>() == self.dim.iter().product::<i64>() {
            return Ok(());
        }
        Err(format!("{}: found shape {shape:?}; required: as many elements as {:?}", self.label, self.dim))
    }

    /// The address of a tensor's memory where it is that of the operand with these strides, aligned as engines need it.
    pub(super) fn address(&self, tensor: &Tensor, wanted: &[i64]) -> Outcome<Option<*mut c_void>> {
        let (shape, stride) = tensor.layout()?;
        let address = tensor.address()?;
        let is_aligned = address.addr().is_multiple_of(POINTER_ALIGNMENT);
        Ok((is_aligned && layout::is_in_layout(shape, stride, &self.dim, wanted)).then_some(address))
    }
}

impl Operand {
    /// The address of a tensor's memory where it is that of the operand, on the device and aligned.
    fn viewed(&self, view: &View, device: Device) -> Option<*mut c_void> {
        let (shape, stride) = view.layout()?;
        let address = view.data.wrapping_byte_add(usize::try_from(view.byte_offset).ok()?);
        let is_there = view.device.kind == CUDA && view.device.id == device.index && !view.data.is_null();
        let is_own =
            view.element.data_type() == Some(self.data_type) && address.addr().is_multiple_of(POINTER_ALIGNMENT);
        let lies_so = is_there && is_own && layout::is_in_layout(shape, stride, &self.dim, &self.stride);
        lies_so.then_some(address)
    }
}

/// What every execution of a graph on a device needs.
pub(super) struct Execution {
    text: Box<[u8]>,
    /// What the operator was told of the session.
    session: Box<[u8]>,
    device: Device,
    inputs: Vec<Operand>,
    outputs: Vec<Operand>,
    graph: Graph,
    executable: Arc<Executable>,
    /// Whose plan it is. While it is held, other graphs' executions find it open.
    _opened: Arc<Opened>,
}

static EXECUTIONS: ByText<Execution> = ByText::new();

impl Execution {
    /// The execution of a graph, prepared where this is the first.
    pub(super) fn of(shim: &Shim, text: &[u8], session: &[u8], device: Device) -> Outcome<Arc<Self>> {
        let is_it = |known: &Self| known.device == device && *known.session == *session && *known.text == *text;
        EXECUTIONS.of(text, is_it, || Self::prepare(shim, text, session, device))
    }

    /// The execution of a graph, which nobody else has.
    pub(super) fn prepare(shim: &Shim, text: &[u8], session: &[u8], device: Device) -> Outcome<Self> {
        let opened = opened(shim, session, device)?;
        let text_of = |bytes| std::str::from_utf8(bytes).map_err(|error| format!("graph: {error}"));
        let graph = Graph::read(text_of(text)?, "graph").map_err(told)?;
        let executable = opened.executable(&graph).map_err(told)?;
        let [inputs, outputs] = [false, true].map(|is_output| {
            let ids = outer_tensors(&graph.graph, is_output);
            ids.into_iter().map(|id| Operand::new(shim, &graph, id)).collect::<Outcome<Vec<Operand>>>()
        });
        let (text, session) = (text.into(), session.into());
        let it = Self { text, session, device, inputs: inputs?, outputs: outputs?, graph, executable, _opened: opened };
        it.require_no_bits()?;
        Ok(it)
    }

    /// That results under these extents and strides have the memory, element for element, that the graph describes.
    pub(super) fn require_results(&self, shapes: &[[Vec<i64>; 2]]) -> Outcome<()> {
        let is_in_layout = |(operand, [dim, stride]): (&Operand, &[Vec<i64>; 2])| {
            let has_elements = dim.len() == stride.len() && dim.iter().all(|&extent| extent > 0);
            has_elements && layout::is_in_layout(dim, stride, &operand.dim, &operand.stride)
        };
        if shapes.len() == self.outputs.len() && self.outputs.iter().zip(shapes).all(is_in_layout) {
            return Ok(());
        }
        Err(format!("graph: results of extents and strides {shapes:?} do not lie as its outputs do"))
    }

    fn require_no_bits(&self) -> Outcome<()> {
        let mut operands = self.inputs.iter().chain(&self.outputs);
        let of_bits = operands.find(|operand| operand.data_type == DataType::Boolean);
        match (&*self.executable, of_bits) {
            (Executable::Gpu(_), Some(Operand { label, .. })) => {
                Err(format!("{label}: booleans of graphs are bits on a GPU; PyTorch has bytes"))
            }
            _ => Ok(()),
        }
    }

    /// Executes, and gives the outputs.
    pub(super) fn run(&self, shim: &'static Shim, tensors: &[Tensor]) -> Outcome<Vec<Tensor>> {
        if tensors.len() != self.inputs.len() {
            let names: Vec<&str> = self.inputs.iter().map(|operand| operand.label.as_str()).collect();
            return Err(format!("found {} tensors; required: {}: {}", tensors.len(), names.len(), names.join(", ")));
        }
        let given = || self.inputs.iter().zip(tensors);
        given().try_for_each(|(operand, tensor)| operand.require(shim, tensor, self.device))?;
        match &*self.executable {
            Executable::Gpu(plan) => self.run_on_gpu(shim, plan, tensors),
            executable => host::run(shim, executable, &self.graph, given(), &self.outputs),
        }
    }

    /// What is left of an execution on memory of the device that lies as the graph says; `None` where some does not, or the plan is none of a GPU.
    pub(super) fn launch(&self, inputs: &[View], outputs: &[View]) -> Option<DirectLaunch<'_>> {
        let Executable::Gpu(plan) = &*self.executable else { return None };
        if (inputs.len(), outputs.len()) != (self.inputs.len(), self.outputs.len()) {
            return None;
        }
        let mut pack = VariantPack::new();
        let operands = self.inputs.iter().chain(&self.outputs);
        for (operand, view) in operands.zip(inputs.iter().chain(outputs)) {
            pack.set_pointer(operand.uid, device_pointer(operand.viewed(view, self.device)?));
        }
        Some(DirectLaunch { execution: self, plan, pack })
    }

    /// The device need not be the current one: PyTorch allocates and copies on the device that it is told, and the plan enters its context.
    fn run_on_gpu(&self, shim: &'static Shim, plan: &session::Plan, tensors: &[Tensor]) -> Outcome<Vec<Tensor>> {
        let mut pack = VariantPack::new();
        let mut point = |operand: &Operand, address: *mut c_void| {
            pack.set_pointer(operand.uid, device_pointer(address));
        };
        let mut copies = Vec::new();
        for (operand, tensor) in self.inputs.iter().zip(tensors) {
            if let Some(address) = operand.address(tensor, &operand.stride)? {
                point(operand, address);
                continue;
            }
            let copy = tensor.copied(operand.form())?;
            point(operand, copy.address()?);
            copies.push(copy);
        }
        let mut outputs = Vec::with_capacity(self.outputs.len());
        for operand in &self.outputs {
            let output = Tensor::empty(shim, operand.form(), self.device)?;
            point(operand, output.address()?);
            outputs.push(output);
        }
        // SAFETY: operands are memory of the plan's device, as large as extents, strides and plan say (`require`, `address`, `copied`, `empty`).
        unsafe { self.execute(shim, plan, &pack) }?;
        Ok(outputs)
    }

    /// Puts an execution on the device's current stream, with a workspace of PyTorch's.
    ///
    /// # Safety
    /// The operands of the pack are memory of the plan's device, as large as extents and strides say. What is freed before the kernels end is reused in
    /// the order of this same stream, as is all memory of PyTorch's allocator; that no other stream uses it meanwhile is asked of all who call PyTorch.
    unsafe fn execute(&self, shim: &'static Shim, plan: &session::Plan, pack: &VariantPack) -> Outcome<()> {
        let room = self.workspace(shim, plan.workspace_bytes())?;
        let pointer = match &room {
            Some(tensor) => device_pointer(tensor.address()?),
            None => DevicePointer::NULL,
        };
        let workspace = Workspace { pointer, bytes: plan.workspace_bytes() };
        let stream = raw_stream(plan, self.current_stream()?);
        // SAFETY: as promised by the caller; the workspace is as large as the plan says.
        unsafe { plan.execute(pack, workspace, &stream) }.map_err(told)
    }

    fn workspace(&self, shim: &'static Shim, bytes: u64) -> Outcome<Option<Tensor>> {
        if bytes == 0 {
            return Ok(None);
        }
        let data_type = shim.number_of(DataType::UInt8).ok_or("PyTorch has no bytes")?;
        let dim = [i64::try_from(bytes).map_err(|_| format!("a workspace of {bytes} bytes"))?];
        Tensor::empty(shim, Form { dim: &dim, stride: &[1], data_type }, self.device).map(Some)
    }

    fn current_stream(&self) -> Outcome<u64> {
        let mut stream = std::ptr::null_mut();
        // SAFETY: there is room for one handle.
        let status = unsafe { shim::current_stream()?(self.device.index, &raw mut stream) };
        checked(status, "tell the current stream").map(|()| stream.expose_provenance() as u64)
    }
}

/// An execution whose operands are known.
pub(super) struct DirectLaunch<'a> {
    execution: &'a Execution,
    plan: &'a session::Plan,
    pack: VariantPack,
}

impl DirectLaunch<'_> {
    /// Puts it on the device's current stream.
    pub(super) fn run(&self, shim: &'static Shim) -> Outcome<()> {
        // SAFETY: operands are tensors of the plan's device that lie as the graph says (`Operand::viewed`).
        unsafe { self.execution.execute(shim, self.plan, &self.pack) }
    }
}

fn device_pointer(address: *mut c_void) -> DevicePointer {
    DevicePointer::from_raw(address.addr() as u64)
}

/// The session for tensors of a device, unless the operator was told of another that can take them.
fn opened(shim: &Shim, session: &[u8], device: Device) -> Outcome<Arc<Opened>> {
    let (named, own) = (String::from_utf8_lossy(session), shim.label(device));
    let takes = match &*named {
        "" => true,
        "cpu" | "emulator" => device.kind == shim.cpu,
        "cuda" => own == "cuda:0",
        named => named == own,
    };
    if !takes {
        return Err(format!("device: '{named}' cannot take tensors of {own}"));
    }
    let name = if named.is_empty() { &own } else { &*named };
    Opened::shared(name).map_err(told)?.ok_or_else(|| format!("device: '{name}' is none"))
}

impl Shim {
    /// The name of a device.
    fn label(&self, Device { kind, index }: Device) -> String {
        match kind {
            kind if kind == self.cpu => "cpu".to_owned(),
            kind if kind == self.cuda => format!("cuda:{index}"),
            kind => format!("device {index} of PyTorch's type {kind}"),
        }
    }
}
