//! Engines: what each accepts beyond the documented surfaces, which configs it offers, how it lowers a graph.
//!
//! [`ENGINES`] lists them in order of preference; [`decide`] asks the surfaces and the engines, and says of each that
//! refuses why. [`heuristics`] ranks configs in the modes of the backend API.

mod config;
mod decision;
mod floor;
mod heuristics;
mod limits;
mod lowering;
mod surface70;
mod surface80;
mod surface90;

use std::fmt;

use crate::device::Device;
use crate::kernel::Kernel;
use crate::support::Supported;

pub use config::{EngineConfig, Knob, KnobType, RankedConfig, knob_values};
pub use decision::{Decision, Selection, decide, select};
pub use floor::{Floor, core_type};
pub use heuristics::{HeuristicMode, Heuristics, heuristics};
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

    /// Whether the engine computes this graph on the chip it was checked for. That launches stay within limits is not its
    /// concern: the kernels of all configs are asked ([`Kernel::fits`]).
    ///
    /// # Errors
    /// Why not, as a sentence.
    fn accepts(&self, supported: &Supported) -> Result<(), String>;

    /// Configs for a device with the times that the engine's model expects, best first; none where the device has too little shared
    /// memory for any.
    fn candidates(&self, supported: &Supported, device: &Device) -> Vec<RankedConfig>;

    /// Lowers an accepted graph. Cannot fail for reasons that lie in the graph.
    fn lower(&self, supported: &Supported, config: &EngineConfig, device: &Device) -> Kernel;
}

/// Every engine, the preferred first.
pub static ENGINES: &[&dyn Engine] = &[&Surface90, &Surface80, &Surface70];
