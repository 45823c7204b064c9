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
mod choices;
mod generator;
mod metamorphic;
mod minimize;
mod oracle;
mod rewrite;
mod runner;
pub mod targets;
mod twist;

use std::fmt;
use std::str::FromStr;

pub use campaign::{Campaign, Failure, Totals, graph_bytes};
pub use generator::{Generated, generate};
pub use minimize::minimize;
pub use oracle::{Computed, Examination, Finding, Standing, drawn_inputs, examine};
pub use rewrite::rewritten;
pub use runner::{CompiledOnly, Emulated, OnGpu, Runner};

/// The patterns of graphs that are generated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Family {
    /// Matmuls with stages before and behind.
    Matmul,
    /// Forward convolutions.
    Forward,
    /// Convolutions that compute the image's gradient.
    BackwardData,
    /// Convolutions that compute the filter's gradient.
    BackwardFilter,
    /// Graphs without a core: pointwise operations, reductions, statistics, resamplings.
    Pointwise,
    /// Softmax between pointwise operations.
    Softmax,
}

impl Family {
    /// Every family.
    pub const ALL: [Self; 6] =
        [Self::Matmul, Self::Forward, Self::BackwardData, Self::BackwardFilter, Self::Pointwise, Self::Softmax];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Matmul => "matmul",
            Self::Forward => "fprop",
            Self::BackwardData => "dgrad",
            Self::BackwardFilter => "wgrad",
            Self::Pointwise => "pointwise",
            Self::Softmax => "softmax",
        }
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Family {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let names = || Self::ALL.map(Self::name).join(", ");
        let family = Self::ALL.into_iter().find(|family| family.name() == text);
        family.ok_or_else(|| format!("'{text}' is no family; there are {}", names()))
    }
}
