//! Executions as CUDA graphs: the cheapest way for the host to start them.

use std::sync::Arc;

use cudarc::driver::sys::{self, CUgraph, CUgraphExec, CUgraphNode};

use super::arguments::Block;
use super::bindings::TensorsDigest;
use super::cuda::{self, CudaError};
use super::driver::{failed, require_functions};
use super::execution_plan::Prepared;
use super::launch::{COOPERATIVE, PreparedLaunch};
use super::variant_pack::VariantPack;
use super::{DeviceContext, Stream, Workspace};
use crate::error::{Error, Misuse};

const FUNCTIONS: &[&str] = &[
    "cuGraphAddKernelNode_v2",
    "cuGraphCreate",
    "cuGraphDestroy",
    "cuGraphExecDestroy",
    "cuGraphExecKernelNodeSetParams_v2",
    "cuGraphInstantiateWithFlags",
    "cuGraphKernelNodeSetAttribute",
    "cuGraphLaunch",
];

/// An execution of a plan as an executable CUDA graph with a node for each launch, bound to the device pointers, host
/// values and workspace that it was last given. It keeps the plan's code loaded.
///
/// One caller owns it: changing and launching it need `&mut`. Its launches run one after another, on whatever streams
/// they are put. What it is bound to must stay usable until the last of them is done.
#[derive(Debug)]
pub struct CudaGraph {
    executable: Executable,
    nodes: Vec<Node>,
    /// The driver finds the nodes of an executable graph by those of the graph it was made from.
    _graph: Graph,
    prepared: Arc<Prepared>,
}

// SAFETY: handles, which the driver lets any thread use, one at a time (`&mut`), and memory that only it points to.
unsafe impl Send for CudaGraph {}
// SAFETY: as above; nothing is reached through a shared reference.
unsafe impl Sync for CudaGraph {}

/// A launch in the graph.
#[derive(Debug)]
struct Node {
    handle: CUgraphNode,
    arguments: Box<Block>,
    /// What the launch's patches have been set to.
    values: Vec<u64>,
    /// Whether the executable graph has these arguments.
    is_current: bool,
}

impl CudaGraph {
    pub(super) fn instantiate(
        prepared: Arc<Prepared>,
        pack: &VariantPack,
        workspace: Workspace,
    ) -> Result<Self, Error> {
        require_functions("a CUDA graph", FUNCTIONS)?;
        prepared.check(pack, workspace)?;
        let _entered = prepared.context().enter()?;
        let graph = Graph::new(prepared.context())?;
        let mut nodes: Vec<Node> = Vec::with_capacity(prepared.launches.len());
        for launch in &prepared.launches {
            let node = graph.add(launch, nodes.last(), pack, workspace)?;
            nodes.push(node);
        }
        let executable = graph.instantiate()?;
        Ok(Self { executable, nodes, _graph: graph, prepared })
    }

    /// Binds it to other pointers, values or another workspace, from the next launch on. Only launches of which an
    /// argument differs are touched, and in them only that argument.
    ///
    /// # Errors
    /// [`Error::Execution`] as [`super::ExecutionPlan::execute`]: it stays bound as it was. [`Error::Environment`] if the
    /// driver refuses: the graph cannot be launched until an update succeeds.
    pub fn update(&mut self, pack: &VariantPack, workspace: Workspace) -> Result<(), Error> {
        let prepared = &*self.prepared;
        prepared.check(pack, workspace)?;
        let _entered = prepared.context().enter()?;
        for (node, launch) in self.nodes.iter_mut().zip(&prepared.launches) {
            node.bind(launch, pack, workspace)?;
            if !node.is_current {
                self.executable.set(node, launch)?;
            }
        }
        Ok(())
    }

    /// Whether memory that was laid out for a graph is that of the plan's graph.
    pub(crate) fn check_tensors(&self, tensors: &TensorsDigest) -> Result<(), Error> {
        self.prepared.check_tensors(tensors)
    }

    /// Puts the execution on the stream and returns, as [`super::ExecutionPlan::execute`].
    ///
    /// # Errors
    /// [`Error::Execution`] if the stream is of another device, or the last update failed half-way: nothing is launched.
    /// [`Error::Environment`] if the driver refuses the launch; [`Error::Wrong`] if an earlier kernel failed.
    ///
    /// # Safety
    /// As [`super::ExecutionPlan::execute`], for the pointers and the workspace that it was last bound to.
    pub unsafe fn launch(&mut self, stream: &Stream) -> Result<(), Error> {
        if self.nodes.iter().any(|node| !node.is_current) {
            let message = "its last update failed half-way; required: one that succeeds";
            return Err(Error::execution(Misuse::CudaGraph, message));
        }
        self.prepared.check_stream(stream)?;
        self.prepared.check_peers()?;
        let _entered = self.prepared.context().enter()?;
        // SAFETY: graph and stream are alive. What the kernels do with memory, the caller promises.
        let launched = unsafe { cuda::cuGraphLaunch(self.executable.handle, stream.raw()) };
        launched.map_err(|error| failed("the CUDA graph cannot be launched", error))
    }
}

impl Node {
    /// Arguments of the first execution; the node is still to be made.
    fn new(launch: &PreparedLaunch, pack: &VariantPack, workspace: Workspace) -> Result<Self, Error> {
        let mut arguments = Box::new(Block::new());
        arguments.fill(&launch.arguments);
        let mut values = Vec::with_capacity(launch.arguments.patches().len());
        for patch in launch.arguments.patches() {
            let value = patch.value(pack, workspace);
            arguments.set(patch, value)?;
            values.push(value);
        }
        Ok(Self { handle: std::ptr::null_mut(), arguments, values, is_current: true })
    }

    /// Sets the arguments that differ.
    fn bind(&mut self, launch: &PreparedLaunch, pack: &VariantPack, workspace: Workspace) -> Result<(), Error> {
        for (bound, patch) in self.values.iter_mut().zip(launch.arguments.patches()) {
            let value = patch.value(pack, workspace);
            if *bound != value {
                self.is_current = false;
                self.arguments.set(patch, value)?;
                *bound = value;
            }
        }
        Ok(())
    }
}

/// A CUDA graph, destroyed at the end.
#[derive(Debug)]
struct Graph {
    context: DeviceContext,
    handle: CUgraph,
}

impl Graph {
    fn new(context: &DeviceContext) -> Result<Self, Error> {
        let mut handle: CUgraph = std::ptr::null_mut();
        // SAFETY: the pointer is valid for one handle.
        let created = unsafe { cuda::cuGraphCreate(&raw mut handle, 0) };
        created.map_err(|error| failed("no CUDA graph can be made", error))?;
        Ok(Self { context: context.clone(), handle })
    }

    /// Adds a launch after the one before it.
    fn add(
        &self,
        launch: &PreparedLaunch,
        previous: Option<&Node>,
        pack: &VariantPack,
        workspace: Workspace,
    ) -> Result<Node, Error> {
        let mut node = Node::new(launch, pack, workspace)?;
        let after = previous.map(|node| node.handle);
        // SAFETY: the graph and the node before are alive.
        node.handle = unsafe { add_node(self.handle, launch, after, &mut node.arguments) }?;
        Ok(node)
    }

    fn instantiate(&self) -> Result<Executable, Error> {
        let mut handle: CUgraphExec = std::ptr::null_mut();
        // SAFETY: the graph is alive, and the pointer is valid for one handle.
        let made = unsafe { cuda::cuGraphInstantiateWithFlags(&raw mut handle, self.handle, 0) };
        made.map_err(|error| failed("the CUDA graph cannot be instantiated", error))?;
        Ok(Executable { context: self.context.clone(), handle })
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        if let Some(_entered) = self.context.enter_to_release() {
            // SAFETY: made by `new` and destroyed once.
            let _ = unsafe { cuda::cuGraphDestroy(self.handle) };
        }
    }
}

/// Adds a launch with its arguments to a graph, after another node.
///
/// # Safety
/// The graph is alive, and the node before one of it.
pub(super) unsafe fn add_node(
    graph: CUgraph,
    launch: &PreparedLaunch,
    after: Option<CUgraphNode>,
    arguments: &mut Block,
) -> Result<CUgraphNode, Error> {
    let whole = after.filter(|_| !launch.starts_early);
    let dependencies = whole.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    let parameters = launch.node(arguments.pointers(&launch.arguments));
    let mut node: CUgraphNode = std::ptr::null_mut();
    // SAFETY: the graph, the node before and the plan's functions are alive, there are as many dependencies as counted,
    // and the arguments are as launches have them; the driver copies them before it returns.
    let added = unsafe {
        let count = usize::from(whole.is_some());
        cuda::cuGraphAddKernelNode_v2(&raw mut node, graph, dependencies, count, &raw const parameters)
    };
    added.map_err(|error| launch.not_launched(error))?;
    if launch.is_cooperative {
        let (id, value) = (sys::CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_COOPERATIVE, COOPERATIVE);
        // SAFETY: the node was just added, and the value is of the attribute's kind.
        unsafe { cuda::cuGraphKernelNodeSetAttribute(node, id, &raw const value) }
            .map_err(|error| launch.not_launched(error))?;
    }
    if let Some(after) = after.filter(|_| launch.starts_early) {
        // SAFETY: both nodes are of the graph.
        unsafe { connect_early(graph, after, node) }.map_err(|error| launch.not_launched(error))?;
    }
    Ok(node)
}

/// Lets a node start before the one before it has finished: the edge that stands for a launch's attribute.
///
/// # Safety
/// The graph and its nodes are alive, and [`EARLY_EDGE`](super::launch::EARLY_EDGE) is present.
unsafe fn connect_early(graph: CUgraph, from: CUgraphNode, to: CUgraphNode) -> Result<(), CudaError> {
    let edge = sys::CUgraphEdgeData {
        from_port: sys::CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC as u8,
        to_port: 0,
        type_: sys::CUgraphDependencyType::CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC as u8,
        reserved: [0; 5],
    };
    // SAFETY: as promised by the caller, and there is one of each.
    unsafe { cuda::cuGraphAddDependencies_v2(graph, &raw const from, &raw const to, &raw const edge, 1) }
}

/// An executable graph, destroyed at the end.
#[derive(Debug)]
struct Executable {
    context: DeviceContext,
    handle: CUgraphExec,
}

impl Executable {
    /// Gives a node's arguments to the launches to come.
    fn set(&self, node: &mut Node, launch: &PreparedLaunch) -> Result<(), Error> {
        let parameters = launch.node(node.arguments.pointers(&launch.arguments));
        // SAFETY: the node is of the graph this was made from, and both are alive; the driver copies the arguments
        // before it returns.
        let set = unsafe { cuda::cuGraphExecKernelNodeSetParams_v2(self.handle, node.handle, &raw const parameters) };
        set.map_err(|error| launch.not_launched(error))?;
        node.is_current = true;
        Ok(())
    }
}

impl Drop for Executable {
    fn drop(&mut self) {
        if let Some(_entered) = self.context.enter_to_release() {
            // SAFETY: made by `Graph::instantiate` and destroyed once; launches under way end by themselves.
            let _ = unsafe { cuda::cuGraphExecDestroy(self.handle) };
        }
    }
}
