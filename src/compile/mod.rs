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
//! | `FUSEWRIGHT_CACHE_LIMIT` | bytes that each folder of the disk cache may hold, such as `500M` or `2G`; `off` or `0`: no limit |
//!
//! Binaries are found again by [`CacheKey`], which holds everything that can change them.

mod architectures;
mod cache;
mod compiler;
mod cubin;
mod folder;
mod key;
mod library;
mod log;
mod nvrtc;
mod once_map;
mod options;
mod search;
#[cfg(test)]
pub(crate) mod testing;

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
