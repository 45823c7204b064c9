//! Cuts operations without a core, or behind one, into passes over iteration spaces.
//!
//! Results of equal extents share one pass; a reduction joins the pass over its input. What reductions give is read by later passes,
//! a level deeper each.

use std::collections::{BTreeMap, BTreeSet};

use super::all_gather;
use super::packed::stands_apart;
use crate::graph::{Attributes, FinalizedGraph, OperationId, Port, ReductionMode, TensorId};
use crate::kernel::{Accumulation, Gathered};

/// One pass: what is stored at each point, what is reduced.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Pass {
    /// Reductions, one behind the other, whose results the pass reads.
    pub(super) level: usize,
    pub(super) extents: Vec<i64>,
    pub(super) stores: Vec<TensorId>,
    pub(super) accumulations: Vec<Accumulation>,
    pub(super) reduced: BTreeSet<usize>,
    /// Strides of the stores, if they are packed booleans that stand apart.
    pub(super) packed: Option<Vec<i64>>,
    /// Mean and variance of one value, with neither stores nor other reductions.
    pub(super) moments: Option<Moments>,
    /// What is stored for each kept point, of the totals.
    pub(super) following: Vec<TensorId>,
    /// What the GPUs of a node send each other, with neither stores nor reductions.
    pub(super) gathered: Vec<Gathered>,
}

/// Mean of a value, and the mean of the squares of differences from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Moments {
    pub(super) source: TensorId,
    pub(super) mean: TensorId,
    pub(super) variance: TensorId,
}

impl Pass {
    /// A pass over points that does nothing yet.
    fn over(extents: Vec<i64>, level: usize) -> Self {
        Self {
            level,
            extents,
            stores: Vec::new(),
            accumulations: Vec::new(),
            reduced: BTreeSet::new(),
            packed: None,
            moments: None,
            following: Vec::new(),
            gathered: Vec::new(),
        }
    }

    /// Reductions along the same axes of values with the same extents, before all others.
    pub(super) fn reducing(graph: &FinalizedGraph, accumulations: Vec<Accumulation>) -> Option<Self> {
        let first = accumulations.first()?;
        let (extents, reduced) = (graph.tensor(first.source).dim.clone(), reduced_axes(graph, first));
        Some(Self { accumulations, reduced, ..Self::over(extents, 0) })
    }

    /// What is reduced to.
    pub(super) fn totals(&self) -> impl Iterator<Item = TensorId> + '_ {
        let moments = self.moments.iter().flat_map(|moments| [moments.mean, moments.variance]);
        self.accumulations.iter().map(|accumulation| accumulation.target).chain(moments)
    }

    /// What is reduced, or sent to other GPUs.
    pub(super) fn sources(&self) -> impl Iterator<Item = TensorId> + '_ {
        let moments = self.moments.iter().map(|moments| moments.source);
        let gathered = self.gathered.iter().map(|gathered| gathered.source);
        self.accumulations.iter().map(|accumulation| accumulation.source).chain(moments).chain(gathered)
    }

    /// What follows the totals, as a pass of its own.
    pub(super) fn into_following(self) -> Self {
        let points = Self::over(self.kept_extents(), self.level + 1);
        Self { stores: self.following, ..points }
    }

    /// Extents of the totals.
    pub(super) fn kept_extents(&self) -> Vec<i64> {
        let kept = |(axis, &extent)| if self.reduced.contains(&axis) { 1 } else { extent };
        self.extents.iter().enumerate().map(kept).collect()
    }
}

/// For each tensor, how many reductions and exchanges with other GPUs stand one behind the other before it. What goes by the same tensors of
/// peers goes at once: when the last of it is there.
fn levels(graph: &FinalizedGraph, operations: &[OperationId]) -> Levels {
    let mut levels = Levels { of_tensors: vec![0; graph.tensors().len()], of_exchanges: BTreeMap::new() };
    while levels.rise(graph, operations) {}
    levels
}

struct Levels {
    of_tensors: Vec<usize>,
    /// By the first tensor of the peers.
    of_exchanges: BTreeMap<TensorId, usize>,
}

impl Levels {
    fn of(&self, tensor: TensorId) -> usize {
        self.of_tensors[tensor.index()]
    }

    /// The level at which a value is sent to other GPUs.
    fn of_exchange(&self, peer: TensorId) -> usize {
        self.of_exchanges.get(&peer).copied().unwrap_or(0)
    }

    /// Follows the operations in order; whether an exchange has to wait for more than was known.
    fn rise(&mut self, graph: &FinalizedGraph, operations: &[OperationId]) -> bool {
        let known = self.of_exchanges.clone();
        for &id in operations {
            let operation = graph.operation(id);
            let before = operation.input_tensors().map(|input| self.of(input)).max().unwrap_or(0);
            let level = match operation.peers().next() {
                Some(peer) => {
                    let exchange = self.of_exchanges.entry(peer).or_default();
                    *exchange = before.max(*exchange);
                    *exchange + 1
                }
                None => before + usize::from(!accumulations(graph, id).is_empty()),
            };
            operation.output_tensors().for_each(|output| self.of_tensors[output.index()] = level);
        }
        known != self.of_exchanges
    }
}

/// Cuts operations into passes; `core` is the stored result of a core. Packed booleans that stand apart come first: what
/// they are computed from may be overwritten in place by the others.
pub(super) fn passes(graph: &FinalizedGraph, operations: &[OperationId], core: Option<TensorId>) -> Vec<Pass> {
    let mut passes: Vec<Pass> = Vec::new();
    let levels = levels(graph, operations);
    for &id in operations {
        for accumulation in accumulations(graph, id) {
            let reduced = reduced_axes(graph, &accumulation);
            let extents = &graph.tensor(accumulation.source).dim;
            let level = levels.of(accumulation.source);
            let joins = |pass: &&mut Pass| (pass.level, &pass.extents, &pass.reduced) == (level, extents, &reduced);
            match passes.iter_mut().find(joins) {
                Some(pass) => pass.accumulations.push(accumulation),
                None => {
                    let points = Pass::over(extents.clone(), level);
                    passes.push(Pass { accumulations: vec![accumulation], reduced, ..points });
                }
            }
        }
    }
    for gathered in operations.iter().filter_map(|&id| all_gather::gathered(graph.operation(id))) {
        let level = levels.of_exchange(gathered.peer);
        let extents = &graph.tensor(gathered.source).dim;
        let joins = |pass: &&mut Pass| pass.gathered.first().is_some_and(|first| first.peer == gathered.peer);
        match passes.iter_mut().find(joins) {
            Some(pass) => pass.gathered.push(gathered),
            None => passes.push(Pass { gathered: vec![gathered], ..Pass::over(extents.clone(), level) }),
        }
    }
    let stored = operations.iter().flat_map(|&id| stored_results(graph, id));
    for tensor in core.into_iter().chain(stored) {
        let extents = &graph.tensor(tensor).dim;
        let level = levels.of(tensor);
        let packed = stands_apart(graph, tensor).then(|| graph.tensor(tensor).stride.clone());
        let joins = |pass: &&mut Pass| {
            pass.gathered.is_empty() && (pass.level, &pass.extents, &pass.packed) == (level, extents, &packed)
        };
        match passes.iter_mut().find(joins) {
            Some(pass) => pass.stores.push(tensor),
            None => passes.push(Pass { stores: vec![tensor], packed, ..Pass::over(extents.clone(), level) }),
        }
    }
    passes.sort_by_key(|pass| (pass.level, pass.packed.is_none()));
    passes
}

/// The non-virtual results of an operation that has a value at each point.
pub(super) fn stored_results(graph: &FinalizedGraph, id: OperationId) -> impl Iterator<Item = TensorId> + '_ {
    let operation = graph.operation(id);
    let reduces =
        matches!(operation.attributes, Attributes::Reduction(_) | Attributes::GenStats | Attributes::AllGather(_));
    operation.output_tensors().filter(move |&tensor| !reduces && !graph.tensor(tensor).is_virtual)
}

/// What an operation reduces: one value for `REDUCTION`, two for `GENSTATS`.
pub(super) fn accumulations(graph: &FinalizedGraph, id: OperationId) -> Vec<Accumulation> {
    let operation = graph.operation(id);
    let port = |port| operation.output(port);
    match (&operation.attributes, operation.input(Port::X)) {
        (Attributes::Reduction(reduction), Some(x)) => {
            port(Port::Y).map(|y| Accumulation::reduction(reduction.mode, x, y)).into_iter().collect()
        }
        (Attributes::GenStats, Some(x)) => {
            let sum = port(Port::SUM).map(|y| Accumulation::reduction(ReductionMode::Add, x, y));
            let squares = port(Port::SQ_SUM).map(|y| Accumulation::sum_of_squares(x, y));
            sum.into_iter().chain(squares).collect()
        }
        _ => Vec::new(),
    }
}

/// Axes where the target has extent 1 and the source more.
fn reduced_axes(graph: &FinalizedGraph, accumulation: &Accumulation) -> BTreeSet<usize> {
    let source = &graph.tensor(accumulation.source).dim;
    let target = &graph.tensor(accumulation.target).dim;
    (0..source.len()).filter(|&axis| target[axis] == 1 && source[axis] > 1).collect()
}
