//! Partial results of reductions, combined in a fixed order, and what follows their totals.

use std::collections::BTreeSet;

use super::sweep::{Width, over, program_parameters, single_point, to_u32};
use crate::engine::builder::{KernelBuilder, Shape};
use crate::graph::{FinalizedGraph, TensorId};
use crate::kernel::{Access, Accumulation, Body, CombineKernel, IterationSpace, Parameter, StageProgram, Sweep};

/// Partial results of a point that a thread combines one after the other, where there are more than many of them.
const SPLITS_OF_A_THREAD: i64 = 16;
const MANY_SPLITS_OF_A_THREAD: i64 = 64;

/// Threads of a block that combines partial results, where threads would have more than a few each.
const COMBINING_THREADS: u32 = 1024;

/// Kept elements from which a combination reads whole lines of partials.
const WIDE_COMBINE: i64 = 4096;

/// Threads of a block that combines few.
const THREADS: u32 = 256;

/// What follows totals, at each kept point, of which a thread has the totals in registers.
pub(super) fn following_sweep(
    graph: &FinalizedGraph,
    mut space: IterationSpace,
    (program, stores): (StageProgram, Vec<TensorId>),
    totals: &BTreeSet<TensorId>,
) -> Sweep {
    if space.axes.is_empty() {
        let moved: Vec<TensorId> = program.moved().chain(stores.iter().copied()).collect();
        space.axes.push(single_point(&moved));
    }
    for axis in &mut space.axes {
        axis.strides.extend(totals.iter().map(|&id| (id, 0.into())));
    }
    over(graph, space, program, stores, Width { vector: 1, ragged: false })
}

/// Parameters of what follows totals, beside these.
pub(super) fn following_parameters(following: Option<&Sweep>, totals: &[TensorId]) -> Vec<Parameter> {
    let parameters = following.into_iter().flat_map(|sweep| sweep_parameters(sweep, None));
    parameters.filter(|parameter| !totals.iter().any(|&id| *parameter == Parameter::Tensor(id))).collect()
}

/// Threads along kept points and along so many partial results of each, in a block that combines them; of these a thread has up to so many, as
/// long as blocks may have more threads.
pub(super) fn combining_block(kept: i64, splits: i64, most_of_a_thread: i64) -> [u32; 2] {
    // few kept elements: narrow blocks, so that more of them share the splits
    let columns = power_of_two_within(kept, if kept >= WIDE_COMBINE { 32 } else { 8 });
    let taller = std::iter::successors(Some(THREADS / columns), |rows| Some(rows * 2));
    let heights = taller.take_while(|rows| rows * columns <= COMBINING_THREADS);
    let enough = |rows: &u32| splits / i64::from(*rows) <= most_of_a_thread;
    let rows = heights.clone().find(enough).or(heights.last()).unwrap_or(1);
    [columns, rows]
}

/// Partial results of reductions that are yet to be combined.
pub(super) struct Combination {
    /// The kept points.
    pub(super) space: IterationSpace,
    pub(super) accumulations: Vec<Accumulation>,
    /// Where the partial results of each reduction lie.
    pub(super) partials: Vec<Parameter>,
    /// Partial results of each point.
    pub(super) splits: i64,
    /// Elements behind one result.
    pub(super) count: i64,
    /// What is evaluated of the results of a point.
    pub(super) following: Option<Sweep>,
}

impl Combination {
    /// Adds the function that combines them. It may start early: the launch before it writes the partials, or is another
    /// combination, which ends no sooner than that.
    pub(super) fn push(self, builder: &mut KernelBuilder) {
        let kept = self.space.points();
        let [columns, rows] = combining_block(kept, self.splits, SPLITS_OF_A_THREAD);
        let each = self.splits / i64::from(rows);
        if each <= MANY_SPLITS_OF_A_THREAD {
            let targets =
                self.accumulations.iter().map(|accumulation| Parameter::Tensor(accumulation.target)).collect();
            return self.push_to(targets, 1, [columns, rows], builder);
        }
        let parts = (each + SPLITS_OF_A_THREAD - 1) / SPLITS_OF_A_THREAD;
        let partials = builder.regions(self.partials.len(), parts * kept);
        let rest = Self {
            partials,
            splits: parts,
            space: self.space.clone(),
            accumulations: self.accumulations.clone(),
            following: self.following.clone(),
            ..self
        };
        self.push_to(rest.partials.clone(), parts, [columns, rows], builder);
        rest.push(builder);
    }

    /// Adds the function that leaves so many partial results of each point, or the results themselves.
    fn push_to(self, targets: Vec<Parameter>, parts: i64, [columns, rows]: [u32; 2], builder: &mut KernelBuilder) {
        let Self { space, accumulations, partials, splits, count, following } = self;
        let following = following.filter(|_| parts == 1);
        let totals: Vec<TensorId> = accumulations.iter().map(|accumulation| accumulation.target).collect();
        let shape = Shape {
            grid: [to_u32((space.points() + i64::from(columns) - 1) / i64::from(columns)), to_u32(parts)],
            block: [columns, rows, 1],
            shared_bytes: columns * rows * 4,
        };
        let mut parameters: Vec<Parameter> = partials.into_iter().chain(targets).collect();
        parameters.extend(following_parameters(following.as_ref(), &totals));
        let body =
            Body::Combine(CombineKernel { space, accumulations, splits, parts, columns, rows, count, following });
        builder.push("combine", shape, parameters, body);
    }
}

/// Operands, then stores, then the core's accumulators; a tensor that is both operand and store appears once.
pub(super) fn sweep_parameters(sweep: &Sweep, core: Option<Parameter>) -> Vec<Parameter> {
    let is_scalar = |id| sweep.access.get(&id) == Some(&Access::Parameter);
    let mut parameters = program_parameters(sweep.program.reads(), &sweep.stores, is_scalar);
    parameters.extend(core);
    parameters
}

/// The smallest power of two not below `value`, at most `largest`.
pub(super) fn power_of_two_within(value: i64, largest: u32) -> u32 {
    to_u32(value.clamp(1, i64::from(largest))).next_power_of_two()
}
