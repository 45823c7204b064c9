//! Source to cubin: NVRTC, its options and its log; memory and disk cache.
//!
//! [`Compiler`] is what the pipeline uses: it finds an NVRTC that knows the chip, asks the [`Cache`], and compiles
//! only where nothing else helps. [`Nvrtc`] alone compiles without any cache. The outcome is always a cubin for one
//! exact chip, never PTX: a driver need not accept the PTX of a newer toolkit, and would assemble it out of sight.
//!
//! Environment variables:
//!
//! | variable | meaning |
//! |---|---|
//! | `FUSEWRIGHT_NVRTC` | where NVRTC is: a folder or the library itself; several are separated as in `PATH`; asked first |
//! | `FUSEWRIGHT_CACHE_DIR` | folder of the disk cache, instead of `fusewright` in the user's cache folder |
//! | `FUSEWRIGHT_CACHE` | `off` or `0`: no disk cache |
//! | `FUSEWRIGHT_BUNDLE` | files of binaries made ahead of time ([`Bundle`]), separated as in `PATH`; asked before everything else |
//! | `FUSEWRIGHT_CACHE_LIMIT` | bytes that each folder of the disk cache may hold, such as `500M` or `2G`; `off` or `0`: no limit |
//!
//! Binaries are found again by [`CacheKey`], which holds everything that can change them.
//!
//! # When
//!
//! You need this to compile without a [`Session`](crate::session::Session), or with a cache of your own.
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
//! use fusewright::build::Build;
//! use fusewright::compile::{Cache, Compiler, Options};
//! use fusewright::device::{ComputeCapability, Device};
//! use fusewright::engine::select;
//!
//! let device = Device::typical(ComputeCapability::SM_90);
//! let build = Build::first(&select(&graph, device.capability)?, &device)?;
//! let compiler = Compiler::new(Cache::at("/var/cache/mine"), Options::default());
//! let compiled = build.compile(&compiler)?;
//! println!("{} bytes of machine code", compiled.cubin.bytes());
//! # Ok::<(), fusewright::error::Error>(())
//! ```

mod architectures;
mod bundle;
mod cache;
mod compiler;
mod cubin;
mod folder;
pub(crate) mod kernels;
mod key;
mod library;
mod log;
mod nvrtc;
mod once_map;
mod options;
mod programs;
pub(crate) mod sealed;
mod search;
#[cfg(test)]
pub(crate) mod testing;

pub use bundle::Bundle;
pub use cache::{Cache, CacheEntry, Cleared, Origin};
pub use compiler::{Compiled, Compiler, Request};
pub use cubin::{Cubin, FunctionResources};
pub(crate) use folder::{Limit, PrivateFolder, UNFINISHED, is_ours, warn_once};
pub use key::CacheKey;
pub(crate) use library::{containing_file, loader_reason, symbol};
pub use nvrtc::{Nvrtc, Version};
pub(crate) use once_map::OnceMap;
pub use options::Options;
#[cfg(feature = "emulator")]
pub(crate) use search::absolute_paths;
