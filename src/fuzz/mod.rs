//! Random operation graphs, and what must hold of every one of them.
//!
//! - [`generate`] makes a graph of a [`Family`] from any string of bytes; about half are accepted on the surface that
//!   they aim at, the others are refused or malformed.
//! - [`examine`] holds a graph against the [oracles](Finding): nothing panics; writing and reading, and writing in another
//!   order under other names, change nothing; what is accepted lowers and renders; what is computed is right, and so are
//!   graphs made from it that mean the same; an edit that breaks one chosen rule is refused by its name.
//! - A [`Runner`] compiles the kernels, or runs them, too: by NVRTC alone, in the emulator, on a GPU.
//! - [`minimize`](fn@minimize) makes a graph smaller while it still shows a finding.
//! - [`targets`] are what the fuzz crate asks of any bytes: files, logs, cache entries, variant packs, programs against the
//!   ABI.
//! - [`Campaign`] does all of that for numbered graphs of a seed, in parallel, and counts.
//!
//! Jumps of functions, limits of rules, rings and waves are sought on purpose: `docs/fuzzing.md`.

mod breaker;
mod campaign;
mod change;
mod choices;
mod family;
mod finding;
mod generator;
mod metamorphic;
mod minimize;
mod oracle;
mod rewrite;
mod runner;
mod shapes;
pub mod targets;
mod twist;

pub use campaign::{Campaign, Failure, Totals, graph_bytes};
pub use family::Family;
pub use finding::Finding;
pub use generator::{Generated, generate};
pub use minimize::minimize;
pub use oracle::{Computed, Examination, Standing, drawn_inputs, examine};
pub use rewrite::rewritten;
pub use runner::{CompiledOnly, Emulated, Execution, OnGpu, Runner};
