//! Spells what phases of a launch evaluate at their points, and what they copy to shared memory before.

use std::collections::BTreeSet;

use serde::Serialize;

use super::index::{definition_lines, index_type};
use super::reduction::accumulator;
use super::sections::Used;
use super::sweep::{SweepSpeller, address, coordinates, enters};
use crate::error::Error;
use crate::graph::{FinalizedGraph, TensorId};
use crate::kernel::{Accumulation, Held, Index, Sweep, Variable, needed};

/// One sweep over points: coordinates of the kept point, of the reduced one, and what is evaluated there.
#[derive(Serialize)]
pub(super) struct PointText {
    of_kept: Vec<String>,
    of_reduced: Vec<String>,
    evaluate: String,
}

/// One sweep over kept points alone.
#[derive(Serialize)]
pub(super) struct KeptText {
    of_kept: Vec<String>,
    evaluate: String,
}

/// How the points of a kernel are spelled.
pub(super) struct PointSpelling<'a> {
    pub(super) graph: &'a FinalizedGraph,
    /// The variable that counts kept points.
    pub(super) kept: &'static str,
    /// Place of a total's part among a thread's.
    pub(super) at: &'static str,
    /// Where vectors of some tensors are read, or their elements.
    pub(super) reads_from: Vec<(TensorId, String)>,
}

impl PointSpelling<'_> {
    /// A sweep whose points enter `accumulations` of the thread, and `sums` of each of its vectors.
    ///
    /// # Errors
    /// [`Error::Generated`] if a template fails: a defect of ours.
    pub(super) fn text(
        &self,
        used: &mut Used,
        sweep: &Sweep,
        (accumulations, sums): (&[Accumulation], &[Accumulation]),
    ) -> Result<PointText, Error> {
        let all: Vec<Accumulation> = accumulations.iter().chain(sums).copied().collect();
        let point = if sweep.vector > 1 { "e" } else { "0" };
        let speller = SweepSpeller::new(self.graph, used, sweep, &all).with_reads_from(self.reads_from.clone());
        let text = speller.text_with(|speller| {
            let entered = accumulations.iter().enumerate();
            let mut lines: Vec<String> = entered
                .map(|(number, total)| enters(speller, &format!("{}[{}]", accumulator(number), self.at), total))
                .collect();
            let summed = sums.iter().enumerate();
            lines.extend(summed.map(|(number, sum)| enters(speller, &format!("sum{number}[g][{point}]"), sum)));
            lines
        });
        let mut uses = text.uses.clone();
        let [of_kept, of_reduced] = self.coordinates(sweep, &mut uses);
        Ok(PointText { of_kept, of_reduced, evaluate: text.evaluate()? })
    }

    /// A sweep over kept points.
    ///
    /// # Errors
    /// As above.
    pub(super) fn once(&self, used: &mut Used, sweep: &Sweep) -> Result<KeptText, Error> {
        let PointText { of_kept, evaluate, .. } = self.text(used, sweep, (&[], &[]))?;
        Ok(KeptText { of_kept, evaluate })
    }

    /// Values that threads keep for a kept point, stored where `place` says.
    ///
    /// # Errors
    /// As above.
    pub(super) fn holding(
        &self,
        used: &mut Used,
        held: &Held,
        place: impl Fn(usize) -> String,
    ) -> Result<KeptText, Error> {
        let speller = SweepSpeller::new(self.graph, used, &held.sweep, &[]).with_reads_from(self.reads_from.clone());
        let text = speller.text_with(|speller| {
            let values = held.values.iter().enumerate();
            values.map(|(number, &id)| format!("{} = {};", place(number), speller.value(id))).collect()
        });
        let mut uses = text.uses.clone();
        let [of_kept, _] = self.coordinates(&held.sweep, &mut uses);
        Ok(KeptText { of_kept, evaluate: text.evaluate()? })
    }

    /// Coordinates of kept and of reduced points, and where tensors lie there.
    pub(super) fn addresses(&self, sweep: &Sweep, tensors: &[TensorId]) -> ([Vec<String>; 2], Vec<String>) {
        let mut uses = BTreeSet::new();
        let addresses = tensors.iter().map(|&id| address(self.graph, sweep, id, &mut uses)).collect();
        (self.coordinates(sweep, &mut uses), addresses)
    }

    fn coordinates(&self, sweep: &Sweep, uses: &mut BTreeSet<Variable>) -> [Vec<String>; 2] {
        let index = index_type(sweep.wide_index);
        [(self.kept, false), ("r", true)].map(|(linear, reduced)| {
            let definitions = coordinates(sweep, &Index::local(linear), |axis| axis.reduced == reduced);
            definition_lines(index, &needed(definitions, uses))
        })
    }
}
