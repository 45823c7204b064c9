//! Means and variances of sets that are read once.

use crate::graph::TensorId;
use crate::kernel::{Accumulation, IterationSpace, ReductionKernel, Sweep};

/// Partial moments of a value: for each kept point, and each part of its points, a shift near them, the sum of their differences from it, and of the
/// squares of these. The shift is the mean of the block's first points, so that nothing cancels where a mean is huge beside its variance.
#[derive(Clone, Debug)]
pub struct MomentsKernel {
    /// What is evaluated, by whom; its reductions are the sum of the differences, that of their squares, and that of the value itself.
    pub reduction: ReductionKernel,
    /// The value alone, without stores.
    pub shift: Sweep,
}

/// Mean and variance of each kept point, from partial moments in order of their parts, in f64.
#[derive(Clone, Debug)]
pub struct CombineMomentsKernel {
    /// The kept points: element `k` of the partials is point `k` of this space, innermost axis fastest.
    pub space: IterationSpace,
    /// The mean, and the mean of the squares of differences from it.
    pub targets: [TensorId; 2],
    /// Parts.
    pub parts: Parts,
    /// Threads along kept points.
    pub columns: u32,
    /// Threads along parts.
    pub rows: u32,
    /// What is evaluated of the totals of a kept point.
    pub following: Option<Sweep>,
}

/// How points are dealt out among parts: so many at a time to one after the other, each time in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parts {
    /// Number of parts.
    pub count: i64,
    /// Points of a set.
    pub points: i64,
    /// Points at a time.
    pub each: i64,
}

impl Parts {
    /// Points that all parts have, and points that are left for the first parts, so many each at most.
    pub fn whole_and_rest(&self) -> (i64, i64) {
        let turn = self.each * self.count;
        (self.points / turn * self.each, self.points % turn)
    }
}

impl MomentsKernel {
    /// The sum of the value.
    pub fn sum(&self) -> Accumulation {
        self.reduction.accumulations[0]
    }

    /// Sums of each accumulator.
    pub const SUMS: i64 = 3;

    /// Sums of a thread that are added up with those of others at once.
    pub fn sums_at_once(&self) -> i64 {
        // 48 KiB of 512 threads, which a block has on every chip
        const MOST: i64 = 24;
        (Self::SUMS * self.reduction.accumulators()).min(MOST)
    }

    /// Bytes of shared memory.
    pub fn shared_bytes(&self) -> u32 {
        self.reduction.columns * self.reduction.rows * self.sums_at_once() as u32 * 4
    }

    /// How the kernel deals points out.
    pub fn parts(&self) -> Parts {
        let ReductionKernel { sweep, reduce_vector, columns, rows, splits, count, .. } = &self.reduction;
        let (threads, vector) = if *reduce_vector { (columns, sweep.vector) } else { (rows, 1) };
        Parts { count: (*splits).into(), points: *count, each: i64::from(ReductionKernel::GROUP * threads) * vector }
    }
}
