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
//!
//! # When
//!
//! You need this to execute: pointers, workspace and streams are its types. `examples/4_backend.rs` has all of it, with memory and a
//! stream of another library.
//!
//! ```no_run
//! # use std::sync::Arc;
//! # use fusewright::graph::{DataType, Graph, PointwiseMode, Tensor};
//! # let mut graph = Graph::new().io_data_type(DataType::Half).compute_data_type(DataType::Float);
//! # let a = graph.tensor(Tensor::new("a").row_major([1, 64, 128]));
//! # let b = graph.tensor(Tensor::new("b").row_major([1, 128, 32]));
//! # let c = graph.matmul("matmul", a, b);
//! # graph.set_output(c);
//! # let graph = Arc::new(graph.finalize()?);
//! use fusewright::plan::{DeviceBuffer, DevicePointer, Stream, VariantPack, WORKSPACE_ALIGNMENT, Workspace};
//! use fusewright::session::{Session, SessionOptions};
//!
//! # let (address, foreign) = (0x7000_0000_u64, std::ptr::null_mut());
//! let plan = Session::open(0, SessionOptions::default())?.plan(&graph)?;
//! let context = plan.execution().context();
//! let mut pack = VariantPack::new();
//! for (tensor, offset) in graph.tensors().filter(|tensor| !tensor.is_virtual).zip((0..).step_by(1 << 20)) {
//!     pack.set_pointer(tensor.uid, DevicePointer::from_raw(address + offset));
//! }
//! let scratch = DeviceBuffer::new(context, plan.workspace_bytes() as usize, WORKSPACE_ALIGNMENT)?;
//! let workspace = Workspace { pointer: scratch.pointer(), bytes: plan.workspace_bytes() };
//! // SAFETY: a stream of this device's primary context; the memory is large enough, and nobody else's until it is waited for.
//! unsafe { plan.execute(&pack, workspace, &Stream::from_raw(context, foreign)) }?;
//! # Ok::<(), fusewright::error::Error>(())
//! ```

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
mod modules;
mod peers;
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
pub(crate) use module::BesideCaptures;
pub use stream::Stream;
pub(crate) use variant_pack::Unfit;
pub use variant_pack::VariantPack;

pub use crate::kernel::WORKSPACE_ALIGNMENT;
