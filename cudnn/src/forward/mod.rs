//! A real cuDNN behind this library: what no engine takes here goes on to it.
//!
//! ```text
//! program ──names──▶ entry ──▶ pairs ──▶ sides ──▶ fusewright::capi
//!                │                          └────▶ the real library
//!                └── everything that is not the graph API: a jump to the real library
//! ```
//!
//! - `library` loads the real library; its functions fill the slots of [`crate::names`], but for those of `entry`.
//! - A program has the real library's handles. `handles` keeps one of ours beside each, on the same device and stream.
//! - A program's descriptor is a number that stands for a pair (`pairs`): one descriptor of each side, given the same attributes
//!   (`attributes`). A side that refuses is dropped, with its reason; what is left computes. `packs` are made for one side alone.
//! - `heuristics` lists the engine configs of both sides, in the order of the `policy`; each is of one side, and so are its plans.
//! - `measure` times the best plan of each side, once a graph; `trace` writes what was asked for and who took it.

mod attributes;
mod device;
mod entry;
mod errors;
mod handles;
mod heuristics;
mod library;
mod measure;
mod numbers;
mod packs;
mod pairs;
mod policy;
mod sides;
mod trace;

use std::path::Path;

use fusewright::capi::registry::Numbers;

use crate::names::{self, NAMES};
use library::Library;

/// Numbers that stand for what programs hold: below those of `capi`.
static NUMBERS: Numbers = Numbers::from(0x7fc0_0000_0000_0010);

/// Names the real library; without it there is none.
const VARIABLE: &str = "FUSEWRIGHT_CUDNN_LIBRARY";

/// Loads the real library that the environment names, and has the exported names go there or to `entry`.
///
/// Where it cannot be loaded, this library is as it is without one: a program without cuDNN is better off than none.
#[expect(clippy::print_stderr, reason = "there is no log yet, and what was asked for is not done")]
pub(crate) fn start() {
    let Some(path) = std::env::var_os(VARIABLE).filter(|path| !path.is_empty()) else { return };
    if let Err(reason) = forward_to(Path::new(&path)) {
        eprintln!("fusewright: {VARIABLE}={}: {reason}; going on without a real cuDNN", Path::new(&path).display());
    }
}

fn forward_to(path: &Path) -> Result<(), String> {
    let library = Library::open(path)?;
    sides::set_real(&library)?;
    for name in NAMES {
        let function = entry::of(name).or_else(|| library.symbol(name));
        // what the library lacks stays as it is without one
        if let (Some(function), Some(slot)) = (function, names::slot(name)) {
            slot.fill(function);
        }
    }
    Ok(())
}
