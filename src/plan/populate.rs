//! Executions as nodes of a CUDA graph that someone else owns.

use std::ffi::c_void;

use cudarc::driver::sys::{CUgraph, CUgraphNode, CUgraphNodeType};

use super::arguments::Block;
use super::cuda;
use super::cuda_graph::add_node;
use super::driver::{failed, require_functions};
use super::execution_plan::Prepared;
use super::launch::PreparedLaunch;
use super::variant_pack::VariantPack;
use super::{ExecutionPlan, Workspace};
use crate::error::{Error, Misuse};

const FUNCTIONS: &[&str] = &[
    "cuGraphAddKernelNode_v2",
    "cuGraphDestroyNode",
    "cuGraphGetNodes",
    "cuGraphKernelNodeGetParams_v2",
    "cuGraphKernelNodeSetAttribute",
    "cuGraphKernelNodeSetParams_v2",
    "cuGraphNodeGetType",
];

impl ExecutionPlan {
    /// Fills an empty CUDA graph of the caller with one execution, bound to these pointers and values: a chain of
    /// kernel nodes. The graph may be instantiated, or become a child of another; it runs the plan's code, so the plan
    /// has to outlive it and whatever is made of it.
    ///
    /// # Errors
    /// As [`Self::execute`], and [`Error::Execution`] where the graph has nodes already; it is left as it was.
    ///
    /// # Safety
    /// The handle must be a graph (`CUgraph` or `cudaGraph_t`) that nothing else uses meanwhile. Whenever it is launched, what
    /// it is bound to is as [`Self::execute`] asks.
    pub unsafe fn populate(&self, graph: *mut c_void, pack: &VariantPack, workspace: Workspace) -> Result<(), Error> {
        let prepared = prepare(self, pack, workspace)?;
        let _entered = prepared.context().enter()?;
        // SAFETY: as promised by the caller.
        unsafe { fill(prepared, graph.cast(), pack, workspace) }
    }

    /// Binds a graph that [`Self::populate`] filled, or a copy of it such as a child node's graph, to other pointers,
    /// values or another workspace. Executables made of it before keep what they were bound to until the driver updates
    /// them (`cuGraphExecUpdate` and the like).
    ///
    /// # Errors
    /// As [`Self::execute`], and [`Error::Execution`] where the graph is not one of this plan: nothing has changed then.
    ///
    /// # Safety
    /// As [`Self::populate`].
    pub unsafe fn update(&self, graph: *mut c_void, pack: &VariantPack, workspace: Workspace) -> Result<(), Error> {
        let prepared = prepare(self, pack, workspace)?;
        let _entered = prepared.context().enter()?;
        // SAFETY: as promised by the caller.
        let nodes = unsafe { nodes_of(graph.cast()) }?;
        // SAFETY: these are nodes of the caller's graph.
        let nodes = unsafe { of_launches(prepared, nodes) }?;
        for (node, launch) in nodes.into_iter().zip(&prepared.launches) {
            let mut arguments = Block::new();
            launch.complete(&mut arguments, pack, workspace)?;
            let parameters = launch.node(arguments.pointers(&launch.arguments));
            // SAFETY: the node is one of the caller's graph, with this launch's function; the driver copies the arguments.
            let set = unsafe { cuda::cuGraphKernelNodeSetParams_v2(node, &raw const parameters) };
            set.map_err(|error| launch.not_launched(error))?;
        }
        Ok(())
    }
}

fn prepare<'a>(plan: &'a ExecutionPlan, pack: &VariantPack, workspace: Workspace) -> Result<&'a Prepared, Error> {
    require_functions("a CUDA graph", FUNCTIONS)?;
    plan.prepared().check(pack, workspace)?;
    Ok(plan.prepared())
}

/// # Safety
/// As [`ExecutionPlan::populate`].
unsafe fn fill(prepared: &Prepared, graph: CUgraph, pack: &VariantPack, workspace: Workspace) -> Result<(), Error> {
    // SAFETY: as promised by the caller.
    let present = unsafe { nodes_of(graph) }?.len();
    if present > 0 {
        let message = format!("required: an empty graph; found: {present} nodes");
        return Err(Error::execution(Misuse::CudaGraph, message));
    }
    let mut added: Vec<CUgraphNode> = Vec::with_capacity(prepared.launches.len());
    for launch in &prepared.launches {
        // SAFETY: the graph is the caller's; the node before is one of it.
        match unsafe { append(graph, launch, added.last().copied(), pack, workspace) } {
            Ok(node) => added.push(node),
            Err(error) => {
                for node in added.into_iter().rev() {
                    // SAFETY: it was added just now, and nothing else knows it.
                    let _ = unsafe { cuda::cuGraphDestroyNode(node) };
                }
                return Err(error);
            }
        }
    }
    Ok(())
}

/// # Safety
/// The graph is alive, and the node before one of it.
unsafe fn append(
    graph: CUgraph,
    launch: &PreparedLaunch,
    previous: Option<CUgraphNode>,
    pack: &VariantPack,
    workspace: Workspace,
) -> Result<CUgraphNode, Error> {
    let mut arguments = Block::new();
    launch.complete(&mut arguments, pack, workspace)?;
    // SAFETY: as promised by the caller.
    unsafe { add_node(graph, launch, previous, &mut arguments) }
}

/// # Safety
/// The graph is alive.
unsafe fn nodes_of(graph: CUgraph) -> Result<Vec<CUgraphNode>, Error> {
    let refused = |error| failed("the nodes of a CUDA graph cannot be listed", error);
    let mut count = 0;
    // SAFETY: the graph is alive; without an array only the count is written.
    unsafe { cuda::cuGraphGetNodes(graph, std::ptr::null_mut(), &raw mut count) }.map_err(refused)?;
    let mut nodes: Vec<CUgraphNode> = vec![std::ptr::null_mut(); count];
    if count > 0 {
        // SAFETY: the array has room for as many nodes as counted.
        unsafe { cuda::cuGraphGetNodes(graph, nodes.as_mut_ptr(), &raw mut count) }.map_err(refused)?;
        nodes.truncate(count);
    }
    Ok(nodes)
}

/// The node of each launch of a plan, found by its function: drivers list nodes in any order.
///
/// # Safety
/// The nodes are alive.
unsafe fn of_launches(prepared: &Prepared, mut nodes: Vec<CUgraphNode>) -> Result<Vec<CUgraphNode>, Error> {
    let (required, found) = (prepared.launches.len(), nodes.len());
    let mut of_launches = Vec::with_capacity(required);
    for launch in &prepared.launches {
        // SAFETY: as promised by the caller.
        let place = nodes.iter().position(|&node| unsafe { runs(node, launch) });
        of_launches.extend(place.map(|place| nodes.remove(place)));
    }
    if nodes.is_empty() && of_launches.len() == required {
        return Ok(of_launches);
    }
    let names: Vec<&str> = prepared.launches.iter().map(PreparedLaunch::name).collect();
    let message = format!("required: the kernels of this plan ({}); found: {found} nodes, or others", names.join(", "));
    Err(Error::execution(Misuse::CudaGraph, message))
}

/// # Safety
/// The node is alive.
unsafe fn runs(node: CUgraphNode, launch: &PreparedLaunch) -> bool {
    // a number: newer drivers have kinds that the enumeration lacks
    let mut kind = u32::MAX;
    // SAFETY: as promised by the caller; the pointer is valid for one number.
    let asked = unsafe { cuda::cuGraphNodeGetType(node, (&raw mut kind).cast()) };
    if asked.is_err() || kind != CUgraphNodeType::CU_GRAPH_NODE_TYPE_KERNEL as u32 {
        return false;
    }
    let mut parameters = launch.node(std::ptr::null_mut());
    parameters.func = std::ptr::null_mut();
    // SAFETY: it is a kernel node; the pointer is valid for one record.
    let asked = unsafe { cuda::cuGraphKernelNodeGetParams_v2(node, &raw mut parameters) };
    asked.is_ok() && launch.is_of(parameters.func)
}
