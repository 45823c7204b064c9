//! Launches with everything known that can be known beforehand.

use std::collections::BTreeMap;
use std::ffi::c_void;

use cudarc::driver::sys;

use super::arguments::{Arguments, Block};
use super::cuda::{self, CudaError};
use super::driver::failed;
use super::module::{Function, Module};
use super::variant_pack::VariantPack;
use super::{Stream, Workspace};
use crate::device::ComputeCapability;
use crate::error::Error;
use crate::kernel::Launch;

/// Chips from here on start a launch before the one before it has finished.
const EARLY_START: ComputeCapability = ComputeCapability::SM_90;

/// Connects nodes of CUDA graphs so. Drivers that lack it, before CUDA 12.3, get whole edges, and launches without the
/// attribute, since those may be captured into a graph.
pub(super) const EARLY_EDGE: &str = "cuGraphAddDependencies_v2";

/// One launch of a plan.
#[derive(Debug)]
pub(super) struct PreparedLaunch {
    function: Function,
    name: String,
    grid: [u32; 2],
    block: [u32; 3],
    shared_bytes: u32,
    /// Whether the chip may start it before the launch before it has finished, and the driver knows how.
    pub(super) starts_early: bool,
    pub(super) arguments: Arguments,
}

/// Looks the functions up and lets each have the most dynamic shared memory, and the most blocks of a cluster, that one of its launches asks for.
pub(super) fn prepare(
    module: &Module,
    launches: &[Launch],
    arguments: Vec<Arguments>,
) -> Result<Vec<PreparedLaunch>, Error> {
    let mut most_of: BTreeMap<&str, [u32; 2]> = BTreeMap::new();
    for launch in launches {
        let most = most_of.entry(&launch.function).or_default();
        *most = [launch.shared_bytes.max(most[0]), launch.cluster.max(most[1])];
    }
    let mut functions = BTreeMap::new();
    for (name, [shared_bytes, cluster]) in most_of {
        functions.insert(name, module.function(name, shared_bytes, cluster)?);
    }
    let can_start_early = module.context().device().capability >= EARLY_START && cuda::has(EARLY_EDGE);
    let prepared = |(launch, arguments): (&Launch, Arguments)| PreparedLaunch {
        function: functions[launch.function.as_str()],
        name: launch.function.clone(),
        grid: launch.grid,
        block: launch.block,
        shared_bytes: launch.shared_bytes,
        starts_early: launch.starts_early && can_start_early,
        arguments,
    };
    Ok(launches.iter().zip(arguments).map(prepared).collect())
}

impl PreparedLaunch {
    /// # Safety
    /// As [`super::ExecutionPlan::execute`].
    pub(super) unsafe fn start(&self, pack: &VariantPack, workspace: Workspace, stream: &Stream) -> Result<(), Error> {
        // On the stack, so that executions share nothing.
        let mut arguments = Block::new();
        self.complete(&mut arguments, pack, workspace)?;
        let mut early = early_start();
        let config = sys::CUlaunchConfig {
            gridDimX: self.grid[0],
            gridDimY: self.grid[1],
            gridDimZ: 1,
            blockDimX: self.block[0],
            blockDimY: self.block[1],
            blockDimZ: self.block[2],
            sharedMemBytes: self.shared_bytes,
            hStream: stream.raw(),
            attrs: &raw mut early,
            numAttrs: u32::from(self.starts_early),
        };
        let pointers = arguments.pointers(&self.arguments);
        // SAFETY: the function's module is loaded as long as the plan. There is one pointer per parameter, each to bytes
        // that are at least as many as the parameter's, and one attribute where any is counted; the driver copies
        // them before it returns. What the kernel does with memory, the caller promises.
        let launched =
            unsafe { cuda::cuLaunchKernelEx(&raw const config, self.function.raw(), pointers, std::ptr::null_mut()) };
        launched.map_err(|error| self.not_launched(error))
    }

    /// Puts the arguments of an execution into a block.
    pub(super) fn complete(&self, block: &mut Block, pack: &VariantPack, workspace: Workspace) -> Result<(), Error> {
        block.fill(&self.arguments);
        self.arguments.patches().iter().try_for_each(|patch| block.set(patch, patch.value(pack, workspace)))
    }

    /// The kernel's name.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Whether it starts this function.
    pub(super) fn is_of(&self, function: sys::CUfunction) -> bool {
        self.function.raw() == function
    }

    /// The launch as a node of a CUDA graph.
    pub(super) fn node(&self, arguments: *mut *mut c_void) -> sys::CUDA_KERNEL_NODE_PARAMS {
        sys::CUDA_KERNEL_NODE_PARAMS {
            func: self.function.raw(),
            gridDimX: self.grid[0],
            gridDimY: self.grid[1],
            gridDimZ: 1,
            blockDimX: self.block[0],
            blockDimY: self.block[1],
            blockDimZ: self.block[2],
            sharedMemBytes: self.shared_bytes,
            kernelParams: arguments,
            extra: std::ptr::null_mut(),
            kern: std::ptr::null_mut(),
            ctx: std::ptr::null_mut(),
        }
    }

    #[cold]
    pub(super) fn not_launched(&self, error: CudaError) -> Error {
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
