//! fusewright: a runtime fusion compiler for operation graphs in the cuDNN Graph API model.
//!
//! ```
//! use std::sync::Arc;
//!
//! use fusewright::device::{ComputeCapability, Device};
//! use fusewright::error::Error;
//! use fusewright::graph::{DataType, Graph, PointwiseMode, Tensor};
//! use fusewright::session::{Session, SessionOptions};
//!
//! // y = relu(a · b), in cuDNN's terms; what is not said is inferred.
//! let mut graph = Graph::new().io_data_type(DataType::Half).compute_data_type(DataType::Float);
//! graph = graph.intermediate_data_type(DataType::Float);
//! let a = graph.tensor(Tensor::new("a").row_major([1, 512, 4096]));
//! let b = graph.tensor(Tensor::new("b").row_major([1, 4096, 1024]));
//! let product = graph.matmul("matmul", a, b);
//! let y = graph.pointwise("relu", PointwiseMode::ReluFwd, &[product]);
//! graph.set_output(y);
//! let graph = Arc::new(graph.finalize()?);
//!
//! // A session answers, compiles and keeps; on a GPU (`Session::open`) it gives plans, too.
//! let session = Session::without_gpu(Device::typical(ComputeCapability::SM_90), SessionOptions::default());
//! match session.check(&graph) {
//!     Ok(selection) => println!("{} takes it: {}", selection.engine().name(), session.config(&selection)?),
//!     Err(Error::NotSupported(why)) => println!("{why}\n{}", why.remedy().lines().join("\n")),
//!     Err(error) => return Err(error),
//! }
//! assert_eq!(graph.uid_of(y), Some(4), "the key of y in the variant pack");
//! # Ok::<(), Error>(())
//! ```
//!
//! A backend needs [`graph`], [`session`], [`plan`] and [`error`] (`examples/4_backend.rs`), a tool [`frontend`] and [`support`], and whoever
//! compares results [`mod@reference`].
//!
//! The pipeline is a chain of immutable values; each stage is a function in one module, and uses only modules above it:
//!
//! ```text
//! Graph → FinalizedGraph → Fusion → Supported → Offer → Kernel → source text → cubin → ExecutionPlan
//! graph   graph            fusion   support     engine  kernel   codegen       compile  plan
//! ```
//!
//! A [`build::Build`] goes from an offer's config to source and machine code; whatever needs kernels makes one.
//!
//! [`tuning`] measures what [`engine`] only estimates, and remembers the winners. [`session`] is the whole pipeline as a
//! service, with the plans it built kept.
//!
//! Features: `reference` (the CPU engine), `emulator` (kernels on the CPU), `fuzz` (random graphs, with both), and `cli`, the
//! default, with all of them. The way from a graph to a plan, and the C ABI, need none.
//!
//! Modules that are hidden here ([`fusion`], [`kernel`], [`capi`], `fuzz` and `cli`) are open to the repository's own programs; no promise
//! holds for them.
//!
//! Two invariants: everything up to rendering does no I/O and needs no GPU; after [`support`] accepted a graph,
//! lowering and rendering cannot fail for reasons that lie in the graph. An engine looks at a supported graph once and answers
//! with an offer, from which configs and kernels come; a refusal is one typed value ([`error::NotSupported`]) for Rust, the command
//! line and the C ABI. `docs/architecture.md` has the types between the stages, `docs/contributing.md` says where to add what; ids like `A-16`
//! are those of `docs/spec/`, and so are documents that a comment names without a folder.

pub mod logging;

pub mod graph;

pub mod frontend;

pub mod device;

#[doc(hidden)]
pub mod fusion;

pub mod support;

#[doc(hidden)]
pub mod kernel;

pub mod error;

pub mod engine;

pub mod codegen;

pub mod compile;

pub mod build;

pub mod host_tensor;

#[cfg(feature = "reference")]
pub mod reference;

#[cfg(feature = "emulator")]
pub mod emulator;

pub mod plan;

pub mod harness;

pub mod tuning;

pub mod session;

#[doc(hidden)]
pub mod capi;

#[cfg(feature = "fuzz")]
#[doc(hidden)]
pub mod fuzz;

#[cfg(feature = "cli")]
#[doc(hidden)]
pub mod cli;

/// Commands name the library as other programs do.
#[cfg(feature = "cli")]
extern crate self as fusewright;

/// The example in the README, compiled and run with the other examples of this documentation.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
