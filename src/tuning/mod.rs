//! Tuning: which config of an engine is the fastest for a graph on a GPU, found by measuring and kept on disk.
//!
//! [`autotune`] compiles configs in parallel and times them against each other; a [`TuningStore`] keeps the winner
//! beside the cached binaries. [`TuningStore::config`] answers what to run: the stored winner where there is one, else the
//! first config by the engine's model.
//!
//! # When
//!
//! You need this where the model's choice is not fast enough: it is measured once, and sessions take the winner from then on.
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
//! use fusewright::harness::DeviceTensors;
//! use fusewright::reference::{Distribution, random_inputs};
//! use fusewright::session::{Session, SessionOptions};
//! use fusewright::tuning::time;
//!
//! let plan = Session::open(0, SessionOptions::default())?.plan(&graph)?;
//! let inputs = random_inputs(&graph, 0, Distribution::Normal)?;
//! let tensors = DeviceTensors::upload(plan.execution(), &graph, &inputs)?;
//! println!("{:?}", time(plan.execution(), &tensors)?);
//! # Ok::<(), fusewright::error::Error>(())
//! ```
//!
//! [`time`] measures one plan, [`time_interleaved`] several plans of one graph against each other, [`time_rivals`] one against another
//! library's, [`copy_bandwidth`] the memory.

mod autotune;
mod entry;
mod interleaved;
mod rivals;
mod store;
mod timing;

pub use autotune::{DEFAULT_CANDIDATES, Tuned, autotune};
pub use entry::{TuningEntry, TuningKey};
pub use interleaved::{Sampled, time_interleaved};
pub use rivals::{Arguments, Rival, Rivals, time_rivals};
pub use store::{StoredTuning, TuningStore};
pub use timing::{Timing, copy_bandwidth, time};
