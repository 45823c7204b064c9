//! Execution plans: variant pack, workspace, launch.
//!
//! A [`Driver`] is loaded, a [`DeviceContext`] opened on one GPU, and an [`ExecutionPlan`] built there from a graph, its
//! generated source and its cubin. [`ExecutionPlan::execute`] takes a [`VariantPack`] (device pointers and host scalars
//! by uid), a [`Workspace`] and a [`Stream`], checks them, and launches: no allocation, no compilation, no
//! synchronisation, no lock. [`ExecutionPlan::instantiate`] makes a [`CudaGraph`] of an execution: bound to its pointers,
//! which [`CudaGraph::update`] exchanges, and cheaper for the host to launch. [`ExecutionPlan::populate`] fills a CUDA graph
//! that a caller has, and [`ExecutionPlan::update`] exchanges the pointers there.
//!
//! [`check_execution`] tells without a GPU whether pack and workspace are right.
//!
//! The driver (libcuda) is looked for at run time. Where it is absent, [`Driver::load`] says so; nothing else here that
//! has to do with a device can be reached without it. Contexts are the devices' primary ones, which frameworks use too.
//! Which of them is current on a thread never changes for the caller. Ordering is the caller's, by streams. Nothing is ever
//! put on the legacy default stream unless a caller hands it in.

mod arguments;
mod bindings;
pub(crate) mod cuda;
mod cuda_graph;
mod driver;
mod event;
mod execution_plan;
mod launch;
mod memory;
mod module;
mod populate;
mod scalar;
mod stream;
mod tensor_map;
#[cfg(test)]
pub(crate) mod tests;
mod variant_pack;

pub use arguments::MAX_PARAMETER_BYTES;
pub(crate) use bindings::TensorsDigest;
pub use cuda_graph::CudaGraph;
pub use driver::{DeviceContext, Driver};
pub(crate) use event::{LIMIT, Step, event_pairs};
pub use execution_plan::{ExecutionPlan, check_execution};
pub use memory::{DeviceBuffer, DevicePointer, Workspace};
pub use stream::Stream;
pub(crate) use variant_pack::Unfit;
pub use variant_pack::VariantPack;

pub use crate::kernel::WORKSPACE_ALIGNMENT;
