//! Channels, or groups of them, whose reductions stand one behind the other, where they lie side by side.

use super::phase::Phase;
use crate::graph::TensorId;
use crate::kernel::{Accumulation, Sweep};

/// Several passes over the same sets of points in one launch, of which a thread has vectors of channels: it copies its points to shared memory once,
/// evaluates them phase after phase, and has the totals of a phase when the next begins. A block has `columns` vectors of channels and all pixels of
/// these, or several blocks have the pixels together. Channels are sets of their own, or so many side by side are one: groups.
///
/// All sweeps over points have the same axes, in the same vectors along the innermost one; those that a thread steps along, over pixels, are marked as
/// reduced, the others are channels. Those over channels alone have the axes of channels, and a thread evaluates them for one.
#[derive(Clone, Debug)]
pub struct ChannelsKernel {
    /// In the order in which they are done.
    pub phases: Vec<Phase>,
    /// Threads along vectors of channels: they divide those that lie side by side. A power of two within a warp, or whole groups.
    pub columns: u32,
    /// Threads along pixels: all threads are whole warps where channels are sets of their own, and no fewer than channels.
    pub rows: u32,
    /// Blocks that share pixels, a power of two. Where these are several, they are a cluster: each stores its totals in the shared memory of all.
    pub cluster: u32,
    /// Blocks, or clusters of them.
    pub groups: i64,
    /// Reduced points of a channel, and channels of a group.
    pub count: i64,
    pub of_group: i64,
    /// Points of a vector.
    pub vector: i64,
    /// What points read in vectors that differ along reduced axes, at least one tensor: it comes to shared memory.
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

    /// All blocks.
    pub fn blocks(&self) -> i64 {
        self.groups * i64::from(self.cluster)
    }

    /// Threads of a block.
    pub fn threads(&self) -> u32 {
        self.columns * self.rows
    }

    /// Channels of a block.
    pub fn channels(&self) -> u32 {
        self.columns * self.vector as u32
    }

    /// Sets of a block.
    pub fn sets(&self) -> u32 {
        self.channels() / self.of_group as u32
    }

    /// Points of a set.
    pub fn elements(&self) -> i64 {
        self.count * self.of_group
    }

    /// Pixels of which a row of threads has one each.
    pub fn span(&self) -> u32 {
        self.rows * self.cluster
    }

    /// Vectors of a thread.
    pub fn each(&self) -> i64 {
        (self.count + i64::from(self.span()) - 1) / i64::from(self.span())
    }

    /// Floats of shared memory for what warps have of one total of all channels; of groups, for what threads have, then columns of these.
    pub fn part_floats(&self) -> u32 {
        let parts =
            if self.of_group == 1 { self.channels() * self.threads() / 32 } else { self.threads() + self.columns };
        parts.next_multiple_of(4)
    }

    /// Floats of shared memory for one total of all sets: its parts, those of the blocks, and the total itself.
    pub fn total_floats(&self) -> u32 {
        (self.part_floats() + self.sets() * (self.cluster + 1)).next_multiple_of(4)
    }

    /// Floats of shared memory before the values that threads hold in a phase.
    pub fn held_at(&self) -> u32 {
        self.total_floats() * self.accumulations().count() as u32
    }

    /// Bytes of shared memory before the points.
    pub fn points_at(&self) -> u32 {
        let held = self.phases.iter().filter_map(|phase| phase.held.as_ref()).map(|held| held.values.len()).max();
        (self.held_at() + self.channels() * held.unwrap_or(0) as u32).next_multiple_of(4) * 4
    }

    /// Bytes of shared memory in all.
    pub fn shared_bytes(&self) -> i64 {
        let points = self.each() * i64::from(self.threads() * self.vector_bytes) * self.ahead.len() as i64;
        i64::from(self.points_at()) + points
    }
}
