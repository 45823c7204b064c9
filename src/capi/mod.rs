//! The cuDNN 9 backend API as a C ABI: descriptors over the Rust API, so that programs written for the cuDNN frontend run
//! on this library unchanged. Translation, checks and lifetimes only.
//!
//! - `exports` holds the functions of the ABI; the workspace's member `cudnn` alone exports their names. Each asks a
//!   function of the modules below, as one of the `calls` that are caught where they panic, logged, and remembered for
//!   `cudnnGetLastErrorString` where they fail; `callback` sends logs to a function of the caller. All go through the
//!   `gate`, which is closed while the process forks.
//! - A pointer that a caller holds is a number in a `registry`: null, foreign and destroyed ones are found out, never
//!   followed.
//! - `attributes` is the table of what each descriptor has; `descriptor` sets, gets and finalizes by it; `objects` says
//!   what each kind becomes then.
//! - `operation`, `graph` and `attention` make a [`Graph`](crate::graph::Graph) of descriptors, `engine` answers for engines,
//!   configs and heuristics, `plan` builds and executes, `quick` does so with another config until the plan's is built, `kernels` are the binaries that an application keeps itself.
//!
//! Names and numbers of the ABI are those of cudarc's bindings of cuDNN 9.21.

mod attention;
pub(crate) mod attribute;
pub(crate) mod attributes;
mod callback;
mod calls;
mod composite;
pub(crate) mod descriptor;
mod device;
mod engine;
mod exports;
mod failure;
mod gate;
mod graph;
mod handle;
mod kernels;
mod legacy;
mod objects;
mod operation;
mod plan;
mod quick;
pub mod registry;
mod tensor;
#[cfg(test)]
mod tests;
pub(crate) mod translate;

pub use exports::*;
pub use graph::finalized_graph;
pub use legacy::*;
pub use plan::settle;
