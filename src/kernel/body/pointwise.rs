//! Kernels of graphs without a core.

use crate::graph::{SignalMode, TensorId};
use crate::kernel::{Accumulation, IterationSpace, Sweep};

/// One thread evaluates one vector; one tile a block (a grid-stride loop costs 5 to 10 % of the bandwidth).
#[derive(Clone, Debug)]
pub struct PointwiseKernel {
    /// What is evaluated.
    pub sweep: Sweep,
    /// Threads of a block.
    pub threads: u32,
}

/// One thread evaluates the points whose bits share a byte of packed booleans, in vectors of one. All stores are packed
/// booleans of one layout, in which each axis steps over all that those after it span.
#[derive(Clone, Debug)]
pub struct PackedKernel {
    /// What is evaluated.
    pub sweep: Sweep,
    /// Threads of a block.
    pub threads: u32,
}

/// A block of `columns × rows` threads reduces in a fixed order: each thread over its points, then the block's threads
/// in a tree, then (by a [`CombineKernel`]) the splits of the reduced axes.
#[derive(Clone, Debug)]
pub struct ReductionKernel {
    /// What is evaluated; reduced and kept axes are marked.
    pub sweep: Sweep,
    /// The reductions; all have the same kept axes.
    pub accumulations: Vec<Accumulation>,
    /// Whether vectors run along a reduced axis (a thread combines its vector) or a kept one (it keeps them apart).
    pub reduce_vector: bool,
    /// Threads along the vector axis.
    pub columns: u32,
    /// Threads across it.
    pub rows: u32,
    /// Parts into which the reduced points are cut; 1 writes the results, more writes partials to the workspace.
    pub splits: u32,
    /// Number of reduced elements behind one result.
    pub count: i64,
}

impl ReductionKernel {
    /// Points that a thread has under way at once.
    pub const GROUP: u32 = 4;

    /// Accumulators of a thread, of each reduction: one, or one for each point of a vector of kept points.
    pub fn accumulators(&self) -> i64 {
        if self.reduce_vector { 1 } else { self.sweep.vector }
    }
}

/// Combines `splits` partial results for each of `kept` elements, in order of the split; with several `parts` each row of blocks
/// combines as many consecutive splits to a partial result of its own.
#[derive(Clone, Debug)]
pub struct CombineKernel {
    /// The kept points: element `k` of the partials is point `k` of this space, innermost axis fastest.
    pub space: IterationSpace,
    /// The reductions, in the order of their partials.
    pub accumulations: Vec<Accumulation>,
    /// Partial results for each kept point.
    pub splits: i64,
    /// Partial results that are left; 1 where results are written.
    pub parts: i64,
    /// Threads along kept points.
    pub columns: u32,
    /// Threads along splits.
    pub rows: u32,
    /// Number of reduced elements behind one result.
    pub count: i64,
    /// What is evaluated of the totals of a kept point, where results are written.
    pub following: Option<Sweep>,
}

/// What one thread does with flags in device memory, in order. A launch of its own: all work before it on the stream is
/// done, none of the work after it has begun.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignalKernel {
    /// Waits and sets.
    pub actions: Vec<FlagAction>,
}

/// One wait or set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlagAction {
    /// Wait until the flag has the value, or give it the value.
    pub mode: SignalMode,
    /// The flag: an integer in device memory.
    pub flag: TensorId,
    /// The value.
    pub value: i64,
}
