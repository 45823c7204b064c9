//! Phases of a launch: passes over the same points, each of which has the totals of those before.

use std::collections::BTreeSet;

use crate::graph::TensorId;
use crate::kernel::{Accumulation, Sweep};

/// What is done before the next totals are known.
#[derive(Clone, Debug)]
pub struct Phase {
    /// What is evaluated at each point of a set, if anything.
    pub points: Option<Sweep>,
    /// What is reduced of it.
    pub accumulations: Vec<Accumulation>,
    /// What is evaluated once a kept point, before the points.
    pub once: Option<Sweep>,
    /// What threads keep for all points of a kept one, if anything.
    pub held: Option<Held>,
}

/// Values that are the same wherever a thread steps: it evaluates them before, and points read them as loads.
#[derive(Clone, Debug)]
pub struct Held {
    /// The values, in registers of `float`.
    pub values: Vec<TensorId>,
    /// How they come about, over kept points.
    pub sweep: Sweep,
}

impl Phase {
    /// All sweeps, in order.
    pub fn sweeps(&self) -> impl Iterator<Item = &Sweep> + '_ {
        self.of_kept().chain(&self.points)
    }

    /// Those over kept points.
    pub fn of_kept(&self) -> impl Iterator<Item = &Sweep> + '_ {
        self.once.iter().chain(self.held.iter().map(|held| &held.sweep))
    }

    /// Tensors in memory that phases read, and those that they write; totals and other values that stay with the threads are neither.
    pub fn touched(phases: &[Self]) -> (Vec<TensorId>, Vec<TensorId>) {
        let held = phases.iter().filter_map(|phase| phase.held.as_ref());
        let evaluated = held.flat_map(|held| held.sweep.program.results().filter(|id| held.values.contains(id)));
        let own: BTreeSet<TensorId> = Self::totals(phases).into_iter().chain(evaluated).collect();
        let sweeps = || phases.iter().flat_map(Self::sweeps);
        let reads = sweeps().flat_map(|sweep| sweep.program.reads()).filter(|id| !own.contains(id));
        let stores = sweeps().flat_map(|sweep| sweep.stores.iter().copied());
        (unique(reads), unique(stores))
    }

    /// Whether some phase has several totals, for which threads have more registers.
    pub fn have_several_totals(phases: &[Self]) -> bool {
        phases.iter().any(|phase| phase.accumulations.len() > 1)
    }

    /// What phases reduce to.
    pub fn totals(phases: &[Self]) -> BTreeSet<TensorId> {
        phases.iter().flat_map(|phase| &phase.accumulations).map(|accumulation| accumulation.target).collect()
    }
}

fn unique(tensors: impl Iterator<Item = TensorId>) -> Vec<TensorId> {
    let mut seen = BTreeSet::new();
    tensors.filter(|&id| seen.insert(id)).collect()
}
