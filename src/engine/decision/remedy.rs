//! What would make a refused graph run, and what would make a surface hold: the nearest legal change, asked of the engines and of the
//! surfaces.

use std::sync::Arc;

use super::{Decision, decide};
use crate::device::ComputeCapability;
use crate::engine::{ENGINES, Engine};
use crate::graph::FinalizedGraph;
use crate::support::{
    self, Answer, Change, Defect, DetailedStatus, Goal, MOST_EDITS, Remedy, Report, SurfaceId, SurfaceOutcome,
    Violation, nearest,
};

/// The nearest legal changes of a graph, of which `report` says what the surfaces asked have against it.
///
/// Nothing is looked for where an engine takes the graph but that a surface holds.
pub fn remedy(graph: &Arc<FinalizedGraph>, report: &Report) -> Remedy {
    let surfaces: Vec<SurfaceId> = report.outcomes.iter().map(|outcome| outcome.surface).collect();
    let goal = Run { capability: report.capability, surfaces: &surfaces };
    let run = nearest(graph, &goal, MOST_EDITS).map(|change| goal.answer(change));
    let hold = match &run {
        Some(answer) if answer.held().is_some() => Some(answer.clone()),
        _ => to_hold(graph, report),
    };
    Remedy { run, hold }
}

/// The change of fewest edits with which one of the surfaces of a report holds as documented.
pub fn to_hold(graph: &Arc<FinalizedGraph>, report: &Report) -> Option<Answer> {
    let is_of_chip = |violation: &Violation| violation.status() == DetailedStatus::ArchMismatch;
    let asked: Vec<SurfaceId> = report.outcomes.iter().map(|outcome| outcome.surface).collect();
    let mut best: Option<Answer> = None;
    for outcome in report.outcomes.iter().filter(|outcome| !outcome.violations.iter().any(is_of_chip)) {
        let most = best.as_ref().map_or(MOST_EDITS, |answer| answer.change.count.saturating_sub(1));
        let goal = Hold { capability: report.capability, surface: outcome.surface, asked: &asked };
        let Some(change) = (most > 0).then(|| nearest(graph, &goal, most)).flatten() else { continue };
        best = Some(Run { capability: report.capability, surfaces: &asked }.answer(change));
    }
    best
}

/// That some engine takes the graph.
struct Run<'a> {
    capability: ComputeCapability,
    surfaces: &'a [SurfaceId],
}

impl Run<'_> {
    /// A change with who takes its graphs, and the surface that holds of all of them.
    fn answer(&self, change: Change) -> Answer {
        let decisions: Vec<Decision> =
            change.graphs.iter().map(|graph| decide(graph, self.capability, self.surfaces)).collect();
        let surfaces = decisions.iter().map(|decision| decision.report.surface()).collect();
        let engines = decisions.iter().filter_map(Decision::engine).map(Engine::name).collect();
        Answer { change, surfaces, engines }
    }
}

impl Goal for Run<'_> {
    /// Surface by surface the fewest broken rules that an engine does not relax or, where one relaxes all, whatever else it may have
    /// against the graph.
    fn defects(&self, graph: &Arc<FinalizedGraph>) -> Vec<Defect> {
        let decision = decide(graph, self.capability, self.surfaces);
        if decision.engine().is_some() {
            return Vec::new();
        }
        let mut defects: Vec<Defect> = Vec::new();
        for outcome in &decision.report.outcomes {
            let fewest = ENGINES.iter().map(|engine| blocking(*engine, outcome)).min_by_key(Vec::len);
            let fewest = fewest.unwrap_or_default();
            if fewest.is_empty() {
                // whatever an engine relaxes may still be what it has no kernels for
                return whatever(graph, &decision.report);
            }
            let new = fewest.into_iter().map(Defect::of).filter(|defect| !defects.contains(defect));
            defects.extend(new.collect::<Vec<_>>());
        }
        if defects.is_empty() { whatever(graph, &decision.report) } else { defects }
    }
}

/// Broken rules of a surface that an engine does not relax.
fn blocking<'a>(engine: &dyn Engine, outcome: &'a SurfaceOutcome) -> Vec<&'a Violation> {
    let relaxes = engine.relaxes();
    let is_needed = |violation: &&Violation| !relaxes.iter().any(|rule| std::ptr::eq(*rule, violation.rule));
    outcome.violations.iter().filter(is_needed).collect()
}

/// Every broken rule, and what engines may have against operations, cores first.
fn whatever(graph: &FinalizedGraph, report: &Report) -> Vec<Defect> {
    let mut defects: Vec<Defect> = report.violations().map(Defect::of).collect();
    let mut operations: Vec<_> = graph.operation_ids().collect();
    operations.sort_by_key(|&id| !graph.operation(id).is_core());
    defects.extend(operations.into_iter().flat_map(|id| Defect::of_operation(graph, id)));
    defects
}

/// That a surface holds as documented; of each part of a cut, and with fewer edits, any of those asked.
struct Hold<'a> {
    capability: ComputeCapability,
    surface: SurfaceId,
    asked: &'a [SurfaceId],
}

impl Goal for Hold<'_> {
    fn defects(&self, graph: &Arc<FinalizedGraph>) -> Vec<Defect> {
        let report = support::check(graph, self.capability, &[self.surface]);
        if report.surface().is_some() {
            return Vec::new();
        }
        let defects: Vec<Defect> = report.violations().map(Defect::of).collect();
        // a surface that is not about such graphs says nothing of them
        if defects.is_empty() { vec![Defect::unknown()] } else { defects }
    }

    fn takes(&self, graph: &Arc<FinalizedGraph>) -> bool {
        support::check(graph, self.capability, self.asked).surface().is_some()
    }
}
