//! What compiles and runs the kernels of random graphs.

use std::sync::Arc;

use fusewright::codegen::Source;
use fusewright::compile::{Cubin, Nvrtc, Options};
use fusewright::device::{ComputeCapability, Device};
use fusewright::emulator::EmulatedKernel;
use fusewright::error::Error;
use fusewright::fuzz::Runner;
use fusewright::graph::FinalizedGraph;
use fusewright::host_tensor::HostTensors;
use tempfile::TempDir;

use super::arguments::DeviceChoice;
use super::executor::Executor;

/// Bytes of tensors up to which kernels are compiled alone.
const TENSORS: u64 = 1 << 28;

/// FLOP or bytes up to which graphs are computed in the emulator, and on a GPU beside the CPU engine.
const EMULATED: u64 = 1_000_000;
const ON_A_GPU: u64 = 40_000_000;

/// Compiles with NVRTC for Hopper, and runs nothing. No cache: no two graphs are the same.
pub(super) struct CompiledOnly {
    nvrtc: Nvrtc,
    device: Device,
}

impl CompiledOnly {
    /// # Errors
    /// [`Error::Environment`] without an NVRTC for the chip.
    pub(super) fn open() -> Result<Self, Error> {
        let device = Device::typical(ComputeCapability::SM_90);
        Ok(Self { nvrtc: Nvrtc::load_for(device.capability)?, device })
    }
}

impl Runner for CompiledOnly {
    fn run(&self, graph: &Arc<FinalizedGraph>, source: &Source, _: &HostTensors) -> Result<Option<HostTensors>, Error> {
        compile(&self.nvrtc, graph, source, self.device.capability).map(|_| None)
    }

    fn device(&self) -> &Device {
        &self.device
    }

    fn limit(&self) -> u64 {
        TENSORS
    }
}

/// A kernel's machine code; what the assembler warns of is an error.
fn compile(
    nvrtc: &Nvrtc,
    graph: &FinalizedGraph,
    source: &Source,
    capability: ComputeCapability,
) -> Result<Cubin, Error> {
    let name = format!("{}.cu", graph.key());
    let cubin = nvrtc.compile(&source.text, capability, &name, &Options::default())?;
    match cubin.warnings.is_empty() {
        true => Ok(cubin),
        false => Err(Error::Wrong(cubin.warnings.join("; "))),
    }
}

/// Runs kernels in the emulator, or on a GPU.
pub(super) struct Executed {
    executor: Executor,
    device: Device,
    /// For a GPU.
    nvrtc: Option<Nvrtc>,
    /// Kernels compiled for the emulator.
    folder: TempDir,
}

impl Executed {
    /// The executor of a device; `None` where that is the CPU engine.
    ///
    /// # Errors
    /// As [`Executor::open`].
    pub(super) fn open(choice: DeviceChoice) -> Result<Option<Self>, Error> {
        let executor = Executor::open(choice)?;
        if !executor.runs_kernels() {
            return Ok(None);
        }
        let device = executor.device();
        let runs_here = matches!(executor, Executor::Emulator(_));
        let nvrtc = if runs_here { None } else { Some(Nvrtc::load_for(device.capability)?) };
        let folder = tempfile::tempdir().map_err(|error| Error::Environment {
            message: "no temporary folder can be made for the emulator".to_owned(),
            source: Some(Box::new(error)),
        })?;
        Ok(Some(Self { executor, device, nvrtc, folder }))
    }
}

impl Runner for Executed {
    fn run(
        &self,
        graph: &Arc<FinalizedGraph>,
        source: &Source,
        inputs: &HostTensors,
    ) -> Result<Option<HostTensors>, Error> {
        let outputs = match (&self.executor, &self.nvrtc) {
            (Executor::Gpu(gpu), Some(nvrtc)) => {
                gpu.run(graph, source, &compile(nvrtc, graph, source, self.device.capability)?, inputs)
            }
            _ => EmulatedKernel::compile(source, self.folder.path())?.run(graph, inputs),
        };
        outputs.map(Some)
    }

    fn device(&self) -> &Device {
        &self.device
    }

    fn limit(&self) -> u64 {
        if matches!(self.executor, Executor::Emulator(_)) { EMULATED } else { ON_A_GPU }
    }
}
