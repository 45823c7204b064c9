//! Engines: what each accepts beyond the documented surfaces, which configs it offers, how it lowers a graph.
//!
//! [`ENGINES`] lists them in order of preference; [`decide`] asks the surfaces and the engines, and says of each that
//! refuses why.

mod decision;
mod floor;
mod lowering;
mod surface70;
mod surface80;
mod surface90;

use std::fmt;

use crate::device::Device;
use crate::kernel::Kernel;
use crate::support::Supported;

pub use decision::{Decision, Selection, decide, select};
pub use floor::{Floor, core_type};
pub use surface70::Surface70;
pub use surface80::Surface80;
pub use surface90::Surface90;

/// A family of kernels.
pub trait Engine: Sync + fmt::Debug {
    /// Stable name, as printed by `check` and `explain`.
    fn name(&self) -> &'static str;

    /// One sentence for people.
    fn summary(&self) -> &'static str;

    /// Rules of the documented surfaces this engine does without: a graph that breaks only these is taken all the same.
    fn relaxes(&self) -> &'static [&'static str] {
        &[]
    }

    /// Whether the engine computes this graph on the chip it was checked for.
    ///
    /// # Errors
    /// Why not, as a sentence.
    fn accepts(&self, supported: &Supported) -> Result<(), String>;

    /// Configs for a device, best first; never empty for an accepted graph.
    fn candidates(&self, supported: &Supported, device: &Device) -> Vec<EngineConfig>;

    /// Lowers an accepted graph. Cannot fail for reasons that lie in the graph.
    fn lower(&self, supported: &Supported, config: &EngineConfig, device: &Device) -> Kernel;
}

/// Every engine, the preferred first.
pub static ENGINES: &[&dyn Engine] = &[&Surface90, &Surface80, &Surface70];

/// A tunable of an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Knob {
    /// Threads of a block.
    Threads,
    /// Rows of C of a block.
    TileM,
    /// Columns of C of a block.
    TileN,
    /// Depth of a mainloop step, in elements.
    TileK,
    /// Rows of C of a warp.
    WarpM,
    /// Columns of C of a warp.
    WarpN,
    /// Tiles of the operands in shared memory.
    Stages,
    /// Sets of operand fragments in registers.
    Fragments,
    /// Parts into which k is cut.
    SplitK,
    /// How the multiplying warpgroups of a block share its tiles: 0 cooperative, 1 in turns ("ping-pong").
    Schedule,
    /// Whether the transposed product is computed, with A and B exchanged: 0 or 1.
    SwapAb,
}

impl Knob {
    /// Name as printed and stored.
    pub fn name(self) -> &'static str {
        match self {
            Self::Threads => "threads",
            Self::TileM => "tile_m",
            Self::TileN => "tile_n",
            Self::TileK => "tile_k",
            Self::WarpM => "warp_m",
            Self::WarpN => "warp_n",
            Self::Stages => "stages",
            Self::Fragments => "fragments",
            Self::SplitK => "split_k",
            Self::Schedule => "schedule",
            Self::SwapAb => "swap_ab",
        }
    }
}

/// One way to run a graph: an engine and the values of its knobs.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct EngineConfig {
    /// Name of the engine.
    pub engine: &'static str,
    /// Knob values, each knob at most once.
    pub knobs: Vec<(Knob, u32)>,
}

impl EngineConfig {
    /// The value of a knob, or `default` where the config does not set it.
    pub fn knob(&self, knob: Knob, default: u32) -> u32 {
        self.knobs.iter().find(|setting| setting.0 == knob).map_or(default, |setting| setting.1)
    }
}

impl fmt::Display for EngineConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.engine)?;
        self.knobs.iter().try_for_each(|(knob, value)| write!(f, " {}={value}", knob.name()))
    }
}
