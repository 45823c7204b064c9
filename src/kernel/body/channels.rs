//! Sets of points whose reductions stand one behind the other, and whose innermost axis is kept.

use super::phase::Phase;
use crate::graph::TensorId;
use crate::kernel::{Accumulation, Sweep};

/// Several passes over the same sets of points in one launch, of which a thread has vectors of kept points (channels): it copies its points to shared
/// memory once, evaluates them phase after phase, and has the totals of a phase when the next begins. A block has `columns` vectors of kept points
/// and all that is reduced to them, or several blocks have these together.
///
/// All sweeps over points have the same axes, in the same vectors along the innermost one, which is kept. Those over kept points alone have the kept
/// axes, and a thread evaluates them for one.
#[derive(Clone, Debug)]
pub struct ChannelsKernel {
    /// In the order in which they are done.
    pub phases: Vec<Phase>,
    /// Threads along vectors of kept points, a power of two within a warp: they divide the vectors of the innermost axis.
    pub columns: u32,
    /// Threads along reduced points: all threads are whole warps.
    pub rows: u32,
    /// Blocks that share reduced points, a power of two. Where these are several, they are a cluster: each stores its totals in the shared memory of all.
    pub cluster: u32,
    /// Blocks, or clusters of them.
    pub groups: i64,
    /// Reduced points of a kept one.
    pub count: i64,
    /// Points of a vector.
    pub vector: i64,
    /// What points read in vectors that differ along reduced axes: it comes to shared memory.
    pub ahead: Vec<TensorId>,
    /// Bytes of a vector of these.
    pub vector_bytes: u32,
}

impl ChannelsKernel {
    /// All sweeps.
    pub fn sweeps(&self) -> impl Iterator<Item = &Sweep> + '_ {
        self.phases.iter().flat_map(Phase::sweeps)
    }

    /// What is reduced, phase after phase.
    pub fn accumulations(&self) -> impl Iterator<Item = &Accumulation> + '_ {
        self.phases.iter().flat_map(|phase| &phase.accumulations)
    }

    /// Whether some phase has several totals, for which threads have more registers.
    pub fn have_several_totals(phases: &[Phase]) -> bool {
        phases.iter().any(|phase| phase.accumulations.len() > 1)
    }

    /// All blocks.
    pub fn blocks(&self) -> i64 {
        self.groups * i64::from(self.cluster)
    }

    /// Threads of a block.
    pub fn threads(&self) -> u32 {
        self.columns * self.rows
    }

    /// Kept points of a block.
    pub fn kept(&self) -> u32 {
        self.columns * self.vector as u32
    }

    /// Reduced points of which a row of threads has one each.
    pub fn span(&self) -> u32 {
        self.rows * self.cluster
    }

    /// Vectors of a thread.
    pub fn each(&self) -> i64 {
        (self.count + i64::from(self.span()) - 1) / i64::from(self.span())
    }

    /// Floats of shared memory for one total of all kept points: those of the warps, those of the blocks, and the total itself.
    pub fn total_floats(&self) -> u32 {
        self.kept() * (self.threads() / 32 + self.cluster + 1)
    }

    /// Floats of shared memory before the values that threads hold in a phase.
    pub fn held_at(&self) -> u32 {
        self.total_floats() * self.accumulations().count() as u32
    }

    /// Bytes of shared memory before the points.
    pub fn points_at(&self) -> u32 {
        let held = self.phases.iter().filter_map(|phase| phase.held.as_ref()).map(|held| held.values.len()).max();
        (self.held_at() + self.kept() * held.unwrap_or(0) as u32).next_multiple_of(4) * 4
    }

    /// Bytes of shared memory in all.
    pub fn shared_bytes(&self) -> i64 {
        let points = self.each() * i64::from(self.threads() * self.vector_bytes) * self.ahead.len() as i64;
        i64::from(self.points_at()) + points
    }
}
