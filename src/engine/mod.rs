//! Engines: what each accepts beyond the documented surfaces, which configs it offers, how it lowers a graph.
//!
//! [`ENGINES`] lists them in order of preference; [`decide`] asks the surfaces and the engines, and says of each that
//! refuses why. An engine looks at a supported graph once and answers with an [`Offer`]: what it planned, from which configs
//! and kernels come. [`heuristics`] ranks configs in the modes of the backend API.
//!
//! # When
//!
//! You need this to choose among engines and configs yourself; a [`Session`](crate::session::Session) chooses for you.
//!
//! ```
//! # use std::sync::Arc;
//! # use fusewright::graph::{DataType, Graph, PointwiseMode, Tensor};
//! # let mut graph = Graph::new().io_data_type(DataType::Half).compute_data_type(DataType::Float);
//! # let a = graph.tensor(Tensor::new("a").row_major([1, 64, 128]));
//! # let b = graph.tensor(Tensor::new("b").row_major([1, 128, 32]));
//! # let c = graph.matmul("matmul", a, b);
//! # graph.set_output(c);
//! # let graph = Arc::new(graph.finalize()?);
//! use fusewright::device::{ComputeCapability, Device};
//! use fusewright::engine::{HeuristicMode, heuristics, select};
//!
//! let device = Device::typical(ComputeCapability::SM_90);
//! let selection = select(&graph, device.capability)?;
//! let ranking = selection.candidates(&device);
//! assert!(ranking.is_sorted_by(|one, next| one.estimated_us <= next.estimated_us));
//! println!("{} offers {} configs", selection.engine().name(), ranking.len());
//!
//! let answer = heuristics(&graph, &device, HeuristicMode::A)?;
//! assert_eq!(answer.first(), &ranking[0]);
//! # Ok::<(), fusewright::error::Error>(())
//! ```

mod builder;
mod config;
mod decision;
mod engines;
mod estimate;
mod favourites;
mod floor;
mod heuristics;
mod limits;
mod lowering;
mod offer;
mod stored;

pub use config::{EngineConfig, Knob, KnobDomain, RankedConfig, knob_values};
pub use decision::{Decision, Selection, decide, remedy, select, to_hold};
pub use engines::ENGINES;
pub use estimate::{Bound, Estimate, Term, Waves};
pub use floor::{Floor, core_type};
pub use heuristics::{HeuristicMode, Heuristics, heuristics};
pub use offer::{Engine, Offer};
