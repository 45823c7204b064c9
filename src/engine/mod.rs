//! Engines: what each accepts beyond the documented surfaces, which configs it offers, how it lowers a graph.
//!
//! [`ENGINES`] lists them in order of preference; [`decide`] asks the surfaces and the engines, and says of each that
//! refuses why. An engine looks at a supported graph once and answers with an [`Offer`]: what it planned, from which configs
//! and kernels come. [`heuristics`] ranks configs in the modes of the backend API.

mod builder;
mod config;
mod decision;
mod estimate;
mod floor;
mod heuristics;
mod limits;
mod list;
mod lowering;
mod offer;
mod scalar;
mod warp_mma;
mod warpgroup_mma;

pub use config::{EngineConfig, Knob, KnobType, RankedConfig, knob_values};
pub use decision::{Decision, Selection, decide, select};
pub use estimate::{Bound, Estimate, Term, Waves};
pub use floor::{Floor, core_type};
pub use heuristics::{HeuristicMode, Heuristics, heuristics};
pub use list::ENGINES;
pub use offer::{Engine, Offer};
pub use scalar::Scalar;
pub use warp_mma::WarpMma;
pub use warpgroup_mma::WarpgroupMma;
