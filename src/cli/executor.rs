//! The computations a graph can be given to: the CPU engine, the emulator, a GPU.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use fusewright::compile::{Cache, Compiler, Options};
use fusewright::device::{ComputeCapability, Device};
use fusewright::emulator::{self, EmulatedKernel};
use fusewright::engine::HeuristicMode;
use fusewright::error::Error;
use fusewright::graph::FinalizedGraph;
use fusewright::host_tensor::HostTensors;
use fusewright::plan::{DeviceContext, DeviceTensors, Driver, ExecutionPlan};
use fusewright::reference::BoundOptions;
use fusewright::tuning::TuningStore;
use fusewright::{engine, reference};

use super::arguments::DeviceChoice;
use super::build::{self, Build};
use super::cost::{self, Rate};

/// A kernel that takes longer hangs.
const LIMIT: Duration = Duration::from_secs(60);

/// A computation of graphs.
pub(super) enum Executor {
    /// The CPU engine: no kernel is involved.
    CpuEngine,
    /// The generated kernel, compiled for the CPU; with the folder of compiled kernels, where there is one.
    Emulator(Option<PathBuf>),
    /// The generated kernel on a GPU.
    Gpu(Box<Gpu>),
}

/// An opened GPU with the compiler for it. Kernels are those that won when they were tuned, where that was done.
pub(super) struct Gpu {
    context: DeviceContext,
    compiler: Compiler,
}

/// What an execution gave.
pub(super) struct Execution {
    /// The graph's outputs.
    pub(super) outputs: HostTensors,
    /// Seconds for making the kernel; 0 without one.
    pub(super) build_seconds: f64,
    /// Seconds for the execution alone.
    pub(super) seconds: f64,
}

impl Executor {
    /// The computation asked for. `auto` is the first GPU, else the CPU engine.
    ///
    /// # Errors
    /// [`Error::Environment`] where a GPU or the emulator is asked for and something it needs is missing.
    pub(super) fn open(choice: DeviceChoice) -> Result<Self, Error> {
        match choice {
            DeviceChoice::Auto => Ok(Self::open_gpu(0).unwrap_or_else(|error| {
                // That there is no GPU is nothing to warn of; that there is one, and something else is missing, is.
                match Driver::load() {
                    Ok(_) => tracing::warn!("the GPU is not used: {error}"),
                    Err(_) => tracing::info!("no GPU is used: {error}"),
                }
                Self::CpuEngine
            })),
            DeviceChoice::Cpu => Ok(Self::CpuEngine),
            DeviceChoice::Emulator => Self::open_emulator(),
            DeviceChoice::Cuda(ordinal) => Self::open_gpu(ordinal),
        }
    }

    /// Something that runs generated kernels: the first GPU, else the emulator.
    pub(super) fn open_for_kernels() -> Option<Self> {
        Self::open_gpu(0).or_else(|_| Self::open_emulator()).ok()
    }

    fn open_gpu(ordinal: u32) -> Result<Self, Error> {
        let context = Driver::load()?.open(ordinal)?;
        let compiler = Compiler::new(Cache::from_environment(), Options::default());
        compiler.nvrtc(context.device().capability)?;
        Ok(Self::Gpu(Box::new(Gpu { context, compiler })))
    }

    fn open_emulator() -> Result<Self, Error> {
        emulator::compiler_version()?;
        Ok(Self::Emulator(super::cache::emulator_folder(&Cache::from_environment())))
    }

    /// What computes, for people.
    pub(super) fn name(&self) -> String {
        match self {
            Self::CpuEngine => "the CPU engine".to_owned(),
            Self::Emulator(_) => "the generated kernel in the emulator".to_owned(),
            Self::Gpu(gpu) => {
                let (ordinal, name) = (gpu.context.ordinal(), &gpu.context.device().name);
                format!("the generated kernel on cuda:{ordinal} ({name})")
            }
        }
    }

    /// Whether it runs a generated kernel.
    pub(super) fn runs_kernels(&self) -> bool {
        !matches!(self, Self::CpuEngine)
    }

    /// How fast it is.
    pub(super) fn rate(&self) -> Rate {
        match self {
            Self::CpuEngine => cost::CPU_ENGINE,
            Self::Emulator(_) => cost::EMULATOR,
            Self::Gpu(_) => cost::GPU,
        }
    }

    /// The chip that kernels are generated for.
    pub(super) fn device(&self) -> Device {
        match self {
            Self::Gpu(gpu) => gpu.context.device().clone(),
            _ => Device::typical(ComputeCapability::SM_90),
        }
    }

    /// Whether it takes a graph.
    ///
    /// # Errors
    /// [`Error::NotSupported`] with the reasons, where kernels are generated and no engine takes the graph.
    pub(super) fn check(&self, graph: &Arc<FinalizedGraph>) -> Result<(), Error> {
        match self {
            Self::CpuEngine => Ok(()),
            _ => Ok(engine::select(graph, self.device().capability).map(drop)?),
        }
    }

    /// What the kernel it generates does beyond rounding.
    pub(super) fn liberties(&self, graph: &Arc<FinalizedGraph>) -> BoundOptions {
        let build = self.runs_kernels().then(|| build::generate(graph, &self.device(), HeuristicMode::A));
        match build {
            Some(Ok(build)) => BoundOptions { tf32: build.source.uses_tf32, fp8: build.source.uses_fp8 },
            _ => BoundOptions::default(),
        }
    }

    /// Computes a graph once.
    ///
    /// # Errors
    /// Those of the stages: the graph is not taken, inputs do not fit, the kernel does not compile or misbehaves.
    pub(super) fn execute(&self, graph: &Arc<FinalizedGraph>, inputs: &HostTensors) -> Result<Execution, Error> {
        let start = Instant::now();
        match self {
            Self::CpuEngine => finish(start, 0.0, || reference::execute(graph, inputs)),
            Self::Emulator(folder) => {
                let kernel = emulate(&build::generate(graph, &self.device(), HeuristicMode::A)?, folder.as_deref())?;
                finish(Instant::now(), start.elapsed().as_secs_f64(), || kernel.run(graph, inputs))
            }
            Self::Gpu(gpu) => {
                let plan = gpu.plan(graph)?;
                let build_seconds = start.elapsed().as_secs_f64();
                let (outputs, seconds) = execute(&plan, graph, inputs)?;
                Ok(Execution { outputs, build_seconds, seconds })
            }
        }
    }
}

fn finish(
    start: Instant,
    build_seconds: f64,
    compute: impl FnOnce() -> Result<HostTensors, Error>,
) -> Result<Execution, Error> {
    let outputs = compute()?;
    Ok(Execution { outputs, build_seconds, seconds: start.elapsed().as_secs_f64() })
}

/// A plan's outputs, and the seconds of its execution.
fn execute(plan: &ExecutionPlan, graph: &FinalizedGraph, inputs: &HostTensors) -> Result<(HostTensors, f64), Error> {
    let tensors = DeviceTensors::upload(plan, graph, inputs)?;
    let start = Instant::now();
    tensors.execute(plan)?;
    tensors.stream().wait(LIMIT)?;
    let seconds = start.elapsed().as_secs_f64();
    Ok((tensors.download(graph)?, seconds))
}

impl Gpu {
    fn plan(&self, graph: &Arc<FinalizedGraph>) -> Result<ExecutionPlan, Error> {
        let device = self.context.device();
        let store = TuningStore::beside(self.compiler.cache());
        let build = build::generate_tuned(graph, device, &store)?;
        tracing::info!(config = %build.config, "kernel chosen");
        let compiled = build.compile(&self.compiler, device.capability)?;
        // SAFETY: the source was rendered from a config of the graph, and the cubin compiled from it.
        unsafe { ExecutionPlan::build(&self.context, graph, &build.source, &compiled.cubin) }
    }
}

/// Compiles for the emulator through the cache, or without it where it cannot be written.
fn emulate(build: &Build, folder: Option<&Path>) -> Result<EmulatedKernel, Error> {
    if let Some(folder) = folder {
        // SAFETY: the source was rendered from the graph that the kernel is run for.
        match unsafe { EmulatedKernel::compile(&build.source, folder) } {
            Err(Error::Environment { message, source }) => {
                let cause = source.map(|source| format!(": {source}")).unwrap_or_default();
                tracing::warn!("the emulator goes on without the cache: {message}{cause}");
            }
            compiled => return compiled,
        }
    }
    let cannot = |source: std::io::Error| Error::Environment {
        message: "no temporary folder can be made for the emulator".to_owned(),
        source: Some(Box::new(source)),
    };
    let temporary = tempfile::tempdir().map_err(cannot)?;
    // The library stays loaded after its file is gone.
    // SAFETY: as above.
    unsafe { EmulatedKernel::compile(&build.source, temporary.path()) }
}
