//! Tuning: which config of an engine is the fastest for a graph on a GPU, found by measuring and kept on disk.
//!
//! [`autotune`] compiles configs in parallel and times them against each other; a [`TuningStore`] keeps the winner
//! beside the cached binaries. [`TuningStore::config`] answers what to run: the stored winner where there is one, else the
//! first config by the engine's model.
//!
//! [`time`] measures one plan, [`time_interleaved`] several plans of one graph against each other, [`copy_bandwidth`] the memory.

mod autotune;
mod entry;
mod interleaved;
mod store;
mod timing;

pub use autotune::{DEFAULT_CANDIDATES, Tuned, autotune};
pub use entry::{TuningEntry, TuningKey};
pub use interleaved::{Sampled, time_interleaved};
pub use store::{StoredTuning, TuningStore};
pub use timing::{Timing, copy_bandwidth, time};
