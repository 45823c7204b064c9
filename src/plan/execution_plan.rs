//! A compiled graph on one GPU, ready to run.

use std::collections::BTreeMap;
use std::ffi::{CString, c_void};

use cudarc::driver::result;
use cudarc::driver::sys::{self, CUfunction, CUfunction_attribute, CUmodule, CUresult};

use super::bindings::Bindings;
use super::driver::failed;
use super::variant_pack::{Value, VariantPack};
use super::{DeviceContext, Stream, Workspace, scalar};
use crate::codegen::Source;
use crate::compile::Cubin;
use crate::device::ComputeCapability;
use crate::error::Error;
use crate::graph::{DataType, FinalizedGraph, TensorId};
use crate::kernel::{Launch, Parameter};

/// Most arguments of one kernel: 4 KiB of arguments of up to 8 bytes.
pub const MAX_PARAMETERS: usize = 512;

/// Alignment of a workspace, in bytes; what kernels may assume of their offsets into it.
pub const WORKSPACE_ALIGNMENT: u64 = 256;

/// Chips from here on start a launch before the one before it has finished.
const EARLY_START: ComputeCapability = ComputeCapability::SM_90;

/// Where an argument's bytes come from at execution.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Argument {
    /// Known when the plan was built.
    Constant(u64),
    /// The device pointer at this position of the variant pack.
    Pointer(usize),
    /// The host value at this position, of this type.
    Scalar(usize, DataType),
    /// This many bytes into the workspace.
    Workspace(u64),
}

/// A function of a module.
#[derive(Clone, Copy, Debug)]
struct Function(CUfunction);

// SAFETY: a handle, which the driver lets any thread use.
unsafe impl Send for Function {}
// SAFETY: as above; launching does not change it.
unsafe impl Sync for Function {}

/// A loaded cubin, unloaded at the end.
#[derive(Debug)]
struct Module {
    context: DeviceContext,
    handle: CUmodule,
}

// SAFETY: a handle, which the driver lets any thread use.
unsafe impl Send for Module {}
// SAFETY: as above; looking functions up does not change it.
unsafe impl Sync for Module {}

/// One launch with everything known that can be known beforehand.
#[derive(Debug)]
struct PreparedLaunch {
    function: Function,
    name: String,
    grid: [u32; 3],
    block: [u32; 3],
    shared_bytes: u32,
    /// Whether the chip may start it before the launch before it has finished.
    starts_early: bool,
    arguments: Vec<Argument>,
}

/// A compiled graph on one GPU, ready to run any number of times, from any thread, on any stream of the device.
///
/// Executions share nothing but the code, so several may be under way at once, given a workspace each. Dropping the plan
/// waits for the device, since code must not be unloaded while it runs.
#[derive(Debug)]
pub struct ExecutionPlan {
    bindings: Bindings,
    launches: Vec<PreparedLaunch>,
    workspace_bytes: u64,
    module: Module,
}

impl ExecutionPlan {
    /// Loads the cubin of a source generated from this graph, and prepares its launches.
    ///
    /// # Errors
    /// [`Error::Environment`] where the driver does not take the cubin (another chip, no memory);
    /// [`Error::Generated`] where source, cubin and graph do not belong together.
    pub fn build(
        context: &DeviceContext,
        graph: &FinalizedGraph,
        source: &Source,
        cubin: &Cubin,
    ) -> Result<Self, Error> {
        let bindings = Bindings::of(graph);
        let resolve = |parameter: &Parameter| argument(graph, &bindings, parameter);
        let resolve = |launch: &Launch| launch.parameters.iter().map(resolve).collect::<Result<Vec<_>, _>>();
        let arguments = source.launches.iter().map(resolve).collect::<Result<Vec<_>, _>>()?;
        let module = Module::load(context, cubin)?;
        let launches = prepare(&module, source, arguments)?;
        Ok(Self { bindings, launches, workspace_bytes: source.workspace_bytes, module })
    }

    /// Bytes of workspace an execution needs; may be zero.
    pub fn workspace_bytes(&self) -> u64 {
        self.workspace_bytes
    }

    /// The device it runs on.
    pub fn context(&self) -> &DeviceContext {
        &self.module.context
    }

    /// Puts one execution on the stream and returns: nothing is allocated, compiled, waited for or locked.
    ///
    /// # Errors
    /// [`Error::Input`] if the pack lacks a tensor, has one too many, holds a null or misaligned pointer or a value of
    /// the wrong kind, if the workspace is null, misaligned or too small, or if the stream is of another device: nothing
    /// has been launched then. [`Error::Environment`] if the driver refuses a launch; [`Error::Wrong`] if an earlier
    /// kernel failed. Failures of these kernels themselves show when the stream is waited for.
    pub fn execute(&self, pack: &VariantPack, workspace: Workspace, stream: &Stream) -> Result<(), Error> {
        self.bindings.check(pack)?;
        self.check_workspace(workspace)?;
        if !stream.is_of(self.context()) {
            return Err(Error::input("stream", "it belongs to another device than the plan"));
        }
        let _entered = self.context().enter()?;
        self.launches.iter().try_for_each(|launch| launch.start(pack, workspace, stream))
    }

    fn check_workspace(&self, workspace: Workspace) -> Result<(), Error> {
        let required = self.workspace_bytes;
        if required == 0 {
            return Ok(());
        }
        let address = workspace.pointer.address();
        let problem = if address == 0 {
            "the pointer is null".to_owned()
        } else if workspace.bytes < required {
            format!("found: {} bytes", workspace.bytes)
        } else if !address.is_multiple_of(WORKSPACE_ALIGNMENT) {
            format!("found: address {address:#x}")
        } else {
            return Ok(());
        };
        let message = format!("required: {required} bytes aligned to {WORKSPACE_ALIGNMENT}; {problem}");
        Err(Error::input("workspace", message))
    }
}

impl PreparedLaunch {
    fn start(&self, pack: &VariantPack, workspace: Workspace, stream: &Stream) -> Result<(), Error> {
        // On the stack, so that executions share nothing: a kilobyte a hundred arguments.
        let mut slots = [0u64; MAX_PARAMETERS];
        let mut pointers = [std::ptr::null_mut::<c_void>(); MAX_PARAMETERS];
        for ((slot, pointer), argument) in slots.iter_mut().zip(&mut pointers).zip(&self.arguments) {
            *slot = argument.bits(pack, workspace);
            *pointer = (slot as *mut u64).cast();
        }
        let mut early = early_start();
        let config = sys::CUlaunchConfig {
            gridDimX: self.grid[0],
            gridDimY: self.grid[1],
            gridDimZ: self.grid[2],
            blockDimX: self.block[0],
            blockDimY: self.block[1],
            blockDimZ: self.block[2],
            sharedMemBytes: self.shared_bytes,
            hStream: stream.raw(),
            attrs: &raw mut early,
            numAttrs: u32::from(self.starts_early),
        };
        // SAFETY: the function's module is loaded as long as the plan. There is one pointer per parameter, each to a
        // slot that is at least as large as the parameter, and one attribute where any is counted; the driver copies
        // them before it returns. What the kernel does with the device pointers is what whoever made them answers for
        // (`DevicePointer::from_raw`).
        let launched = unsafe {
            sys::cuLaunchKernelEx(&raw const config, self.function.0, pointers.as_mut_ptr(), std::ptr::null_mut())
        };
        launched.result().map_err(|error| self.not_launched(error))
    }

    #[cold]
    fn not_launched(&self, error: result::DriverError) -> Error {
        let Self { name, grid, block, shared_bytes, .. } = self;
        let what = format!("kernel {name}, grid {grid:?}, block {block:?}, {shared_bytes} bytes of shared memory");
        failed(&what, error)
    }
}

/// Lets a launch start before the one before it has finished; its kernel waits (`griddepcontrol.wait`).
fn early_start() -> sys::CUlaunchAttribute {
    sys::CUlaunchAttribute {
        id: sys::CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
        pad: Default::default(),
        value: sys::CUlaunchAttributeValue { programmaticStreamSerializationAllowed: 1 },
    }
}

impl Argument {
    /// The argument's bytes. The pack has passed the check of the plan's bindings.
    fn bits(self, pack: &VariantPack, workspace: Workspace) -> u64 {
        let value = |position: usize| pack.entries().get(position).map(|entry| entry.1);
        match self {
            Self::Constant(bits) => bits,
            Self::Workspace(offset) => workspace.pointer.address() + offset,
            Self::Pointer(position) => match value(position) {
                Some(Value::Pointer(pointer)) => pointer.address(),
                _ => 0,
            },
            Self::Scalar(position, data_type) => match value(position) {
                Some(Value::Scalar(value)) => scalar::slot(data_type, value).unwrap_or(0),
                _ => 0,
            },
        }
    }
}

impl Module {
    fn load(context: &DeviceContext, cubin: &Cubin) -> Result<Self, Error> {
        // The driver reads as far as the headers say, so what is plainly no image must not reach it.
        if !cubin.image.starts_with(b"\x7fELF") || cubin.image.len() < 64 {
            return Err(inconsistent("the compiled image is no ELF file".to_owned()));
        }
        let _entered = context.enter()?;
        // SAFETY: the image is a whole cubin: it comes from NVRTC, or from a cache that checked its checksum.
        let handle = unsafe { result::module::load_data(cubin.image.as_ptr().cast()) };
        let device = context.device();
        let what = || format!("loading the kernel on {} ({})", device.name, device.capability);
        let handle = handle.map_err(|error| failed(&what(), error))?;
        Ok(Self { context: context.clone(), handle })
    }

    fn function(&self, name: &str) -> Result<Function, Error> {
        let missing = || inconsistent(format!("the compiled image has no function '{}'", name.escape_debug()));
        let c_name = CString::new(name).map_err(|_| missing())?;
        let _entered = self.context.enter()?;
        // SAFETY: the module is loaded.
        match unsafe { result::module::get_function(self.handle, c_name) } {
            Ok(function) => Ok(Function(function)),
            Err(error) if error.0 == CUresult::CUDA_ERROR_NOT_FOUND => Err(missing()),
            Err(error) => Err(failed(&format!("finding the function {name}"), error)),
        }
    }
}

impl Drop for Module {
    fn drop(&mut self) {
        if let Some(_entered) = self.context.enter_to_release() {
            let _ = result::ctx::synchronize();
            // SAFETY: loaded by `load` in this context, unloaded once, and no kernel of it runs any more.
            let _ = unsafe { result::module::unload(self.handle) };
        }
    }
}

/// Looks the functions up and lets each have the most dynamic shared memory that one of its launches asks for.
fn prepare(module: &Module, source: &Source, arguments: Vec<Vec<Argument>>) -> Result<Vec<PreparedLaunch>, Error> {
    let mut shared: BTreeMap<&str, u32> = BTreeMap::new();
    for launch in &source.launches {
        let most = shared.entry(&launch.function).or_default();
        *most = launch.shared_bytes.max(*most);
    }
    let mut functions = BTreeMap::new();
    for (name, bytes) in shared {
        let function = module.function(name)?;
        allow_shared(&module.context, name, function, bytes)?;
        functions.insert(name, function);
    }
    let launch = |(launch, arguments): (&Launch, Vec<Argument>)| {
        if arguments.len() > MAX_PARAMETERS {
            let found = arguments.len();
            let name = &launch.function;
            let message = format!("kernel {name} has {found} parameters; required: at most {MAX_PARAMETERS}");
            return Err(inconsistent(message));
        }
        Ok(PreparedLaunch {
            function: functions[launch.function.as_str()],
            name: launch.function.clone(),
            grid: launch.grid,
            block: launch.block,
            shared_bytes: launch.shared_bytes,
            starts_early: launch.starts_early && module.context.device().capability >= EARLY_START,
            arguments,
        })
    };
    source.launches.iter().zip(arguments).map(launch).collect()
}

/// More than 48 KiB must be asked for by function.
fn allow_shared(context: &DeviceContext, name: &str, function: Function, bytes: u32) -> Result<(), Error> {
    if bytes == 0 {
        return Ok(());
    }
    let _entered = context.enter()?;
    let attribute = CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
    let value = i32::try_from(bytes).unwrap_or(i32::MAX);
    // SAFETY: the function's module is loaded.
    let set = unsafe { result::function::set_function_attribute(function.0, attribute, value) };
    let available = context.device().shared_bytes_per_block;
    let what = || format!("kernel {name} asks for {bytes} bytes of shared memory, of which a block has {available}");
    set.map_err(|error| failed(&what(), error))
}

/// Where the bytes of a parameter come from.
fn argument(graph: &FinalizedGraph, bindings: &Bindings, parameter: &Parameter) -> Result<Argument, Error> {
    let wrong = |id: TensorId, what: &str| inconsistent(format!("tensor {} is no {what}", graph.describe_tensor(id)));
    match *parameter {
        Parameter::Workspace { offset } | Parameter::Accumulators { offset, .. } => Ok(Argument::Workspace(offset)),
        Parameter::TensorMap(map) => Err(wrong(map.tensor, "tensor with a map")),
        Parameter::Tensor(id) => {
            let tensor = graph.tensor(id);
            let position = bindings.position(tensor.uid).filter(|_| !tensor.is_pass_by_value);
            position.map(Argument::Pointer).ok_or_else(|| wrong(id, "tensor in device memory"))
        }
        Parameter::Scalar(id) => {
            let tensor = graph.tensor(id);
            let argument = match tensor.value {
                _ if !tensor.is_pass_by_value => None,
                Some(value) => scalar::slot(tensor.data_type, value).map(Argument::Constant),
                None => bindings.position(tensor.uid).map(|at| Argument::Scalar(at, tensor.data_type)),
            };
            argument.ok_or_else(|| wrong(id, "host scalar that a kernel takes"))
        }
    }
}

/// Stages of ours that do not agree.
fn inconsistent(message: String) -> Error {
    Error::Generated { message, log: String::new(), source_path: None }
}
