//! What compiles and runs the kernels of random graphs: NVRTC, the emulator, a GPU.

use std::slice;
use std::time::Duration;

use tempfile::TempDir;

use crate::build::Build;
use crate::compile::{Cubin, Nvrtc, Options};
use crate::device::{ComputeCapability, Device};
use crate::emulator::{self, EmulatedKernel};
use crate::error::Error;
use crate::graph::{Attributes, Operation, Pointwise, PointwiseMode};
use crate::harness::DeviceTensors;
use crate::host_tensor::HostTensors;
use crate::plan::{DeviceContext, Driver, ExecutionPlan};

/// A kernel in some shape, and inputs of its graph.
#[derive(Clone, Copy)]
pub struct Execution<'a> {
    /// The kernel.
    pub build: &'a Build,
    /// Inputs.
    pub inputs: &'a HostTensors,
}

/// Other shapes in which kernels are run that were compiled for the CPU, and for a GPU.
const EMULATED_SHAPES: usize = 2;
const SHAPES: usize = 16;

/// What takes rendered kernels: a compiler, the emulator, a GPU.
pub trait Runner: Sync {
    /// Compiles a kernel, and runs it on inputs of its graph, then others of the same text on those of theirs; nothing where it
    /// [only compiles](Self::only_compiles).
    ///
    /// # Errors
    /// Those of compiling and of running.
    fn run(&self, kernel: &Build, executions: &[Execution<'_>]) -> Result<Vec<HostTensors>, Error>;

    /// The chip that kernels are made for.
    fn device(&self) -> &Device;

    /// Chips that kernels may be made for; one is drawn for each graph.
    fn devices(&self) -> &[Device] {
        slice::from_ref(self.device())
    }

    /// FLOP of a core, and bytes of tensors, up to which graphs are run.
    fn limit(&self) -> u64;

    /// Other shapes in which kernels of dynamic shapes are run, at most.
    fn shapes(&self) -> usize;

    /// Whether nothing is run, so that inputs need not exist.
    fn only_compiles(&self) -> bool {
        false
    }
}

/// FLOP or bytes up to which graphs are computed in the emulator, and on a GPU beside the CPU engine.
const EMULATED: u64 = 1_000_000;
const ON_A_GPU: u64 = 40_000_000;

/// Of the smaller of the emulated chips: its L2 does not hold what all heads of an attention read.
const FEW_MULTIPROCESSORS: u32 = 2;
const FEW_BYTES_OF_L2: u64 = 16 << 10;

/// A kernel that takes longer hangs.
const PATIENCE: Duration = Duration::from_secs(60);

/// Compiles with NVRTC, and runs nothing. No cache: hardly two graphs are the same.
pub struct CompiledOnly {
    nvrtc: Nvrtc,
    device: Device,
}

impl CompiledOnly {
    /// For a typical chip of a compute capability.
    ///
    /// # Errors
    /// [`Error::Environment`] without an NVRTC that knows it.
    pub fn open(capability: ComputeCapability) -> Result<Self, Error> {
        Ok(Self { nvrtc: Nvrtc::load_for(capability)?, device: Device::typical(capability) })
    }
}

impl Runner for CompiledOnly {
    fn run(&self, kernel: &Build, _: &[Execution<'_>]) -> Result<Vec<HostTensors>, Error> {
        compile(&self.nvrtc, kernel).map(|_| Vec::new())
    }

    fn shapes(&self) -> usize {
        0
    }

    fn device(&self) -> &Device {
        &self.device
    }

    fn limit(&self) -> u64 {
        u64::MAX
    }

    fn only_compiles(&self) -> bool {
        true
    }
}

/// What ptxas says where products of `wgmma` wait for each other.
const SERIALISED: &str = "C7513";

/// Whether an operation has a way of its own for some values, and so a branch: full-precision quotients and roots, powers,
/// what reduces large angles, `expm1` and `log1p`. Before a product that makes ptxas serialise it, which is known and still
/// the fastest way (docs/performance-notes.md).
fn has_slow_path(operation: &Operation) -> bool {
    use PointwiseMode as M;
    matches!(&operation.attributes, Attributes::Pointwise(Pointwise { mode, .. }) if matches!(
        mode,
        M::Div | M::Mod | M::Pow | M::Atan2 | M::Sqrt | M::Reciprocal | M::Sin | M::Cos | M::Tan | M::EluFwd | M::EluBwd
            | M::SoftplusFwd
    ))
}

/// A kernel's machine code, past any cache; what the assembler warns of is an error.
fn compile(nvrtc: &Nvrtc, Build { graph, capability, source, .. }: &Build) -> Result<Cubin, Error> {
    let name = format!("{}.cu", graph.key());
    let cubin = nvrtc.compile(&source.text, *capability, &name, &Options::default())?;
    let may_wait = graph.operations().any(has_slow_path);
    let warnings = cubin.warnings.iter().map(String::as_str);
    let unexpected: Vec<&str> = warnings.filter(|text| !(may_wait && text.contains(SERIALISED))).collect();
    if unexpected.is_empty() { Ok(cubin) } else { Err(Error::Wrong(unexpected.join("; "))) }
}

/// Runs kernels for Hopper, and for a chip without its instructions, in the emulator; what it compiles is gone with it.
pub struct Emulated {
    /// One is so small that blocks which stay have several tiles each, even of graphs that are cheap to emulate.
    devices: [Device; 3],
    folder: TempDir,
}

impl Emulated {
    /// # Errors
    /// [`Error::Environment`] without a C++ compiler or a folder for temporary files.
    pub fn open() -> Result<Self, Error> {
        emulator::compiler_version()?;
        let folder = tempfile::tempdir().map_err(|error| Error::Environment {
            message: "no temporary folder can be made for the emulator".to_owned(),
            source: Some(Box::new(error)),
        })?;
        let whole = Device::typical(ComputeCapability::SM_90);
        let few = Device { sm_count: FEW_MULTIPROCESSORS, l2_bytes: FEW_BYTES_OF_L2, ..whole.clone() };
        let older = Device::typical(ComputeCapability::SM_86);
        Ok(Self { devices: [whole, few, older], folder })
    }
}

impl Runner for Emulated {
    fn run(&self, _: &Build, executions: &[Execution<'_>]) -> Result<Vec<HostTensors>, Error> {
        let run = |&Execution { build, inputs }: &Execution<'_>| {
            // SAFETY: the source was rendered from the graph; a wrong one is a finding. What has the same text is compiled once.
            let kernel = unsafe { EmulatedKernel::compile(&build.source, self.folder.path()) }?;
            kernel.run(&build.graph, inputs)
        };
        executions.iter().map(run).collect()
    }

    fn shapes(&self) -> usize {
        EMULATED_SHAPES
    }

    fn device(&self) -> &Device {
        &self.devices[0]
    }

    fn devices(&self) -> &[Device] {
        &self.devices
    }

    fn limit(&self) -> u64 {
        EMULATED
    }
}

/// Compiles with NVRTC and runs on a GPU.
pub struct OnGpu {
    context: DeviceContext,
    nvrtc: Nvrtc,
}

impl OnGpu {
    /// # Errors
    /// [`Error::Environment`] without that GPU, or without an NVRTC that knows it.
    pub fn open(ordinal: u32) -> Result<Self, Error> {
        let context = Driver::load()?.open(ordinal)?;
        let nvrtc = Nvrtc::load_for(context.device().capability)?;
        Ok(Self { context, nvrtc })
    }
}

impl Runner for OnGpu {
    fn run(&self, kernel: &Build, executions: &[Execution<'_>]) -> Result<Vec<HostTensors>, Error> {
        let cubin = compile(&self.nvrtc, kernel)?;
        let run = |&Execution { build, inputs }: &Execution<'_>| {
            let Build { graph, source, .. } = build;
            // SAFETY: the source was rendered from the graph, and the cubin compiled from its text.
            let plan = unsafe { ExecutionPlan::build(&self.context, graph, source, &cubin) }?;
            let tensors = DeviceTensors::upload(&plan, graph, inputs)?;
            tensors.execute(&plan)?;
            tensors.stream().wait(PATIENCE)?;
            tensors.download(graph)
        };
        executions.iter().map(run).collect()
    }

    fn shapes(&self) -> usize {
        SHAPES
    }

    fn device(&self) -> &Device {
        self.context.device()
    }

    fn limit(&self) -> u64 {
        ON_A_GPU
    }
}
