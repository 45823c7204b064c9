//! What must hold of any string of bytes: one function for each target of the fuzz crate (`fuzz/`), which only hands bytes
//! over. None needs the fuzzing engine, so that tests replay what it found.
//!
//! Each gives whether the bytes stand for something that its expectations could be asked of; or, as a [`Finding`], the
//! first that is not met. A panic is one, too.

mod abi;
mod cache;
mod files;
mod kernels;
mod pack;
mod verdict;

pub use abi::backend_api;
pub use cache::cache_entry;
pub use files::{frontend_json, log_reader};
pub use kernels::{lower_and_render, nvrtc_compile};
pub use pack::variant_pack;
pub use verdict::check;

use super::family::Family;
use super::finding::{Finding, finding};
use super::generator::{Generated, generate};
use crate::frontend;
use crate::support::SurfaceId;

/// How messages call the input.
const INPUT: &str = "input.json";

/// The graph that some bytes stand for: where they begin with a brace, the one that is written there; else one of the
/// family that the first byte names, generated from the others. `None` where there is none.
///
/// So a corpus may hold graphs of applications, whose extents, strides, modes and types the fuzzer then changes one by
/// one, beside strings that the generator shapes.
fn graph_of(bytes: &[u8]) -> Option<Generated> {
    let (&first, rest) = bytes.split_first()?;
    if first == b'{' {
        let graph = frontend::read_graph(INPUT, bytes).ok()?;
        return Some(Generated { graph, aim: SurfaceId::S90 });
    }
    Some(generate(Family::ALL[usize::from(first) % Family::ALL.len()], rest))
}

/// `Ok` where an expectation is met, else what happened instead.
fn expect(oracle: &'static str, is_met: bool, found: impl FnOnce() -> String) -> Result<(), Finding> {
    if is_met { Ok(()) } else { Err(finding(oracle, found())) }
}
