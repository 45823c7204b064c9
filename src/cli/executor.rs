//! The computations a graph can be given to: the CPU engine, the emulator, a GPU.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use fusewright::build::Build;
use fusewright::compile::{Cache, Compiler, Options};
use fusewright::device::{ComputeCapability, Device};
use fusewright::emulator::{self, EmulatedKernel};
use fusewright::engine::{self, Selection};
use fusewright::error::Error;
use fusewright::graph::FinalizedGraph;
use fusewright::harness::DeviceTensors;
use fusewright::host_tensor::HostTensors;
use fusewright::plan::{DeviceContext, Driver, ExecutionPlan};
use fusewright::reference::{self, BoundOptions};
use fusewright::tuning::TuningStore;

use super::arguments::DeviceChoice;
use super::console::Console;
use super::cost::{self, Rate};
use super::units;

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

/// A graph that an executor takes.
pub(super) struct Task<'a> {
    /// The graph.
    pub(super) graph: Arc<FinalizedGraph>,
    /// What computes it.
    pub(super) executor: &'a Executor,
    way: Way<'a>,
}

/// How a graph is computed; with its engine, where a kernel is generated.
enum Way<'a> {
    CpuEngine,
    Emulator(Selection, Option<&'a Path>),
    Gpu(Selection, &'a Gpu),
}

/// What an execution gave.
#[derive(Clone)]
pub(super) struct Execution {
    /// The graph's outputs.
    pub(super) outputs: HostTensors,
    /// Seconds for making the kernel; 0 without one.
    pub(super) build_seconds: f64,
    /// Seconds for the execution alone.
    pub(super) seconds: f64,
    /// What was done beyond rounding.
    pub(super) liberties: BoundOptions,
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
        compiler.require(context.device().capability)?;
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

    /// Asks whether it takes a graph.
    ///
    /// # Errors
    /// [`Error::NotSupported`] with the reasons, where no engine takes the graph or the CPU engine does not compute it.
    pub(super) fn take(&self, graph: &Arc<FinalizedGraph>) -> Result<Task<'_>, Error> {
        let select = || engine::select(graph, self.device().capability);
        let way = match self {
            Self::CpuEngine => reference::supports(graph).map(|()| Way::CpuEngine)?,
            Self::Emulator(folder) => Way::Emulator(select()?, folder.as_deref()),
            Self::Gpu(gpu) => Way::Gpu(select()?, gpu),
        };
        Ok(Task { graph: Arc::clone(graph), executor: self, way })
    }
}

impl Task<'_> {
    /// Computes the graph once, with a spinner meanwhile.
    ///
    /// # Errors
    /// Those of the stages: inputs do not fit, the kernel does not compile or misbehaves.
    pub(super) fn execute(&self, inputs: &HostTensors, console: &Console) -> Result<Execution, Error> {
        let name = self.executor.name();
        let spinner = console.spinner(&name);
        let execution = self.compute(inputs);
        spinner.finish_and_clear();
        if let Ok(Execution { build_seconds, seconds, .. }) = &execution {
            let (built, computed) = (units::seconds(*build_seconds), units::seconds(*seconds));
            console.note(format_args!("{name}: {computed}, after {built} for the kernel"));
        }
        execution
    }

    fn compute(&self, inputs: &HostTensors) -> Result<Execution, Error> {
        let (graph, start) = (&self.graph, Instant::now());
        match &self.way {
            Way::CpuEngine => {
                let outputs = reference::execute(graph, inputs)?;
                let seconds = start.elapsed().as_secs_f64();
                Ok(Execution { outputs, build_seconds: 0.0, seconds, liberties: BoundOptions::default() })
            }
            Way::Emulator(selection, folder) => {
                let build = Build::first(selection, &self.executor.device())?;
                let kernel = emulate(&build, *folder)?;
                let (build_seconds, start) = (start.elapsed().as_secs_f64(), Instant::now());
                let outputs = kernel.run(graph, inputs)?;
                let seconds = start.elapsed().as_secs_f64();
                Ok(Execution { outputs, build_seconds, seconds, liberties: liberties(&build) })
            }
            Way::Gpu(selection, gpu) => {
                let build = gpu.build(selection)?;
                let plan = gpu.load(&build)?;
                let build_seconds = start.elapsed().as_secs_f64();
                let (outputs, seconds) = execute(&plan, graph, inputs)?;
                Ok(Execution { outputs, build_seconds, seconds, liberties: liberties(&build) })
            }
        }
    }
}

/// What a kernel does beyond rounding.
fn liberties(build: &Build) -> BoundOptions {
    BoundOptions { tf32: build.source.uses_tf32, fp8: build.source.uses_fp8 }
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
    /// The kernel that won when the graph was tuned, or else the first by the engine's model.
    fn build(&self, selection: &Selection) -> Result<Build, Error> {
        let device = self.context.device();
        let config = TuningStore::beside(self.compiler.cache()).config(selection, device)?;
        let build = Build::new(selection, config, device)?;
        tracing::info!(config = %build.config, "kernel chosen");
        Ok(build)
    }

    fn load(&self, build: &Build) -> Result<ExecutionPlan, Error> {
        let compiled = build.compile(&self.compiler)?;
        // SAFETY: the source was rendered from a config of the graph, and the cubin compiled from it.
        unsafe { ExecutionPlan::build(&self.context, &build.graph, &build.source, &compiled.cubin) }
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
