//! A compiled graph on one GPU, ready to run.

use std::borrow::Cow;
use std::sync::Arc;

use super::arguments::{Among, Arguments};
use super::bindings::{Bindings, TensorsDigest};
use super::launch::{self, PreparedLaunch};
use super::module::Module;
use super::peers::AbsentRank;
use super::variant_pack::VariantPack;
use super::{CudaGraph, DeviceContext, Stream, Workspace};
use crate::codegen::Source;
use crate::compile::Cubin;
use crate::error::{Error, Misuse};
use crate::graph::FinalizedGraph;
use crate::kernel::WORKSPACE_ALIGNMENT;

/// A compiled graph on one GPU, ready to run any number of times, from any thread, on any stream of the device.
///
/// Executions share nothing but the code, so several may be under way at once, given a workspace each. Dropping the plan
/// and the CUDA graphs made from it waits for the device, since code must not be unloaded while it runs.
#[derive(Debug)]
pub struct ExecutionPlan {
    prepared: Arc<Prepared>,
}

/// What all executions of a plan share; nothing in it changes.
#[derive(Debug)]
pub(super) struct Prepared {
    pub(super) launches: Vec<PreparedLaunch>,
    bindings: Bindings,
    tensors: TensorsDigest,
    workspace_bytes: u64,
    module: Arc<Module>,
    /// Dropped behind the module, whose kernels write it.
    absent_rank: Option<AbsentRank>,
}

impl ExecutionPlan {
    /// Loads the cubin of a source generated from this graph, and prepares its launches.
    ///
    /// # Errors
    /// [`Error::Environment`] where the driver does not take the cubin (another chip, no memory) or is too old for
    /// tensor maps; [`Error::Generated`] where source, cubin and graph do not belong together, or the driver refuses the
    /// geometry of a tensor map.
    ///
    /// # Safety
    /// The source was rendered from the lowering of this graph, with its launches, and the cubin compiled from its text: an
    /// execution runs that machine code with those launches. The image is whole, since the driver reads as far as its
    /// headers say. (A [`Session`](crate::session::Session) does all of that itself, and is safe.)
    pub unsafe fn build(
        context: &DeviceContext,
        graph: &FinalizedGraph,
        source: &Source,
        cubin: &Cubin,
    ) -> Result<Self, Error> {
        // SAFETY: as promised by the caller.
        let load = || unsafe { Module::load(context, cubin) }.map(Arc::new);
        Self::prepare(context, graph, source, load)
    }

    /// As [`Self::build`], with the module that another plan of the same cubin has, where there is one: a plan of another shape costs no load.
    ///
    /// # Errors
    /// As [`Self::build`].
    ///
    /// # Safety
    /// As [`Self::build`].
    pub unsafe fn build_shared(
        context: &DeviceContext,
        graph: &FinalizedGraph,
        source: &Source,
        cubin: &Arc<Cubin>,
    ) -> Result<Self, Error> {
        // SAFETY: as promised by the caller.
        Self::prepare(context, graph, source, || unsafe { context.modules().get_or_load(context, cubin) })
    }

    fn prepare(
        context: &DeviceContext,
        graph: &FinalizedGraph,
        source: &Source,
        load: impl FnOnce() -> Result<Arc<Module>, Error>,
    ) -> Result<Self, Error> {
        let _entered = context.enter()?;
        let bindings = Bindings::of(graph, &source.launches);
        let absent_rank = AbsentRank::of(context, &source.launches)?;
        let address = absent_rank.as_ref().map_or(0, AbsentRank::address);
        let among = Among { ordinal: context.ordinal() as u32, absent_rank: address };
        let arguments = |launch| Arguments::prepare(graph, &bindings, launch, among);
        let arguments = source.launches.iter().map(arguments).collect::<Result<Vec<_>, _>>()?;
        let module = load()?;
        let launches = launch::prepare(&module, &source.launches, arguments)?;
        let tensors = bindings.digest(graph.key());
        let workspace_bytes = source.workspace_bytes;
        let prepared = Prepared { launches, bindings, tensors, workspace_bytes, module, absent_rank };
        Ok(Self { prepared: Arc::new(prepared) })
    }

    /// Bytes of workspace an execution needs; may be zero.
    pub fn workspace_bytes(&self) -> u64 {
        self.prepared.workspace_bytes
    }

    /// Launches of an execution.
    pub fn launches(&self) -> usize {
        self.prepared.launches.len()
    }

    /// The device it runs on.
    pub fn context(&self) -> &DeviceContext {
        self.prepared.context()
    }

    /// Puts one execution on the stream and returns: nothing is allocated, compiled, waited for or locked.
    ///
    /// # Errors
    /// [`Error::Execution`] if the pack lacks a tensor, has one too many, holds a null or misaligned pointer (a tensor with a
    /// tensor map needs 16 bytes) or a value of the wrong kind, if the workspace is null, misaligned or too small, or if
    /// the stream is of another device: nothing has been launched then. [`Error::Environment`] if the driver refuses a
    /// launch; [`Error::Wrong`] if an earlier kernel failed. Failures of these kernels themselves show when the stream is
    /// waited for.
    ///
    /// # Safety
    /// The kernels read and write at the pack's pointers and in the workspace. Until they are done, each pointer is to memory
    /// that the device can access, as long as its tensor's extents and strides say, and the workspace to as many bytes as
    /// it states; and nothing else uses memory that they write, or writes memory that they read, except on the same
    /// stream. ([`DeviceTensors`](crate::harness::DeviceTensors) sees to all of that, and is safe.)
    pub unsafe fn execute(&self, pack: &VariantPack, workspace: Workspace, stream: &Stream) -> Result<(), Error> {
        self.prepared.check(pack, workspace)?;
        self.prepared.check_stream(stream)?;
        let _entered = self.context().enter()?;
        // SAFETY: as promised by the caller.
        self.prepared.launches.iter().try_for_each(|launch| unsafe { launch.start(pack, workspace, stream) })
    }

    /// Whether executions that are done had the statistics of every GPU of the node, where the graph has several (`peer_stats`). The next
    /// execution asks as well; what it refuses is not told again.
    ///
    /// # Errors
    /// [`Error::Execution`] that names the rank of a GPU that sent none within ten seconds.
    pub fn check_peers(&self) -> Result<(), Error> {
        self.prepared.check_peers()
    }

    pub(super) fn prepared(&self) -> &Prepared {
        &self.prepared
    }

    /// Whether memory that was laid out for a graph is that of the plan's graph.
    pub(crate) fn check_tensors(&self, tensors: &TensorsDigest) -> Result<(), Error> {
        self.prepared.check_tensors(tensors)
    }

    /// What a pack has for this plan; the pack itself where it has nothing else. For callers whose packs may serve more than
    /// one graph: an execution refuses the entries of uids that are not the plan's.
    pub(crate) fn known<'a>(&self, pack: &'a VariantPack) -> Cow<'a, VariantPack> {
        self.prepared.bindings.known(pack)
    }

    /// An execution as a CUDA graph, bound to these pointers and values until [`CudaGraph::update`] changes them: for
    /// callers that execute often, since a launch of it keeps the host for less than half as long as
    /// [`Self::execute`]. Executions that may overlap need one each, with a workspace each.
    ///
    /// # Errors
    /// As [`Self::execute`]; nothing is launched, and no memory is touched.
    pub fn instantiate(&self, pack: &VariantPack, workspace: Workspace) -> Result<CudaGraph, Error> {
        CudaGraph::instantiate(Arc::clone(&self.prepared), pack, workspace)
    }
}

impl Prepared {
    pub(super) fn context(&self) -> &DeviceContext {
        self.module.context()
    }

    /// Whether an execution can be given these.
    pub(super) fn check(&self, pack: &VariantPack, workspace: Workspace) -> Result<(), Error> {
        self.bindings.check(pack)?;
        check_workspace(workspace, self.workspace_bytes)?;
        let Some(absent_rank) = &self.absent_rank else { return Ok(()) };
        let mut patches = self.launches.iter().flat_map(|launch| launch.arguments.patches());
        patches.try_for_each(|patch| patch.check(pack))?;
        absent_rank.check()
    }

    /// Whether the executions so far had the statistics of every GPU of the node.
    pub(super) fn check_peers(&self) -> Result<(), Error> {
        self.absent_rank.as_ref().map_or(Ok(()), AbsentRank::check)
    }

    /// Whether memory that was laid out for a graph is that of the plan's graph.
    pub(super) fn check_tensors(&self, tensors: &TensorsDigest) -> Result<(), Error> {
        if self.tensors == *tensors {
            return Ok(());
        }
        Err(Error::execution(Misuse::Pack, "the tensors are of another graph than the plan"))
    }

    pub(super) fn check_stream(&self, stream: &Stream) -> Result<(), Error> {
        if stream.is_of(self.context()) {
            return Ok(());
        }
        Err(Error::execution(Misuse::Stream, "it belongs to another device than the plan"))
    }
}

/// Whether a plan of this graph and source could be executed with a pack and a workspace: what
/// [`ExecutionPlan::execute`] checks of them, without a GPU.
///
/// # Errors
/// [`Error::Execution`] as there.
pub fn check_execution(
    graph: &FinalizedGraph,
    source: &Source,
    pack: &VariantPack,
    workspace: Workspace,
) -> Result<(), Error> {
    Bindings::of(graph, &source.launches).check(pack)?;
    check_workspace(workspace, source.workspace_bytes)
}

fn check_workspace(workspace: Workspace, required: u64) -> Result<(), Error> {
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
    Err(Error::execution(Misuse::Workspace, message))
}
