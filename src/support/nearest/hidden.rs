//! What a wrong layout hides: a tensor that breaks its layout row is not asked for packing and alignment (reporting conventions, rule 4),
//! which it may break as soon as it is laid out as required.

use std::sync::Arc;

use super::edit::{Edit, Layout, TensorUid};
use crate::graph::{FinalizedGraph, TensorId};
use crate::support::checker::check;
use crate::support::findings::Violation;
use crate::support::report::Report;
use crate::support::rule::{DetailedStatus, SurfaceId};

/// Broken rules about the layout of tensors that a report says nothing of, and that are left once every tensor with a wrong layout lies
/// with channels last or, in three axes, row by row.
pub fn hidden(graph: &Arc<FinalizedGraph>, report: &Report) -> Vec<Violation> {
    let wrong: Vec<TensorId> = laid_wrong(report).filter_map(|violation| violation.at.tensor).collect();
    let Some(edited) = laid_out(graph, &wrong) else { return Vec::new() };
    let surfaces: Vec<SurfaceId> = report.outcomes.iter().map(|outcome| outcome.surface).collect();
    let again = check(&edited, report.capability, &surfaces);
    let is_new = |violation: &&Violation| {
        let uid = violation.at.tensor.map(|id| edited.tensor(id).uid);
        let same =
            |known: &Violation| known.rule == violation.rule && known.at.tensor.map(|id| graph.tensor(id).uid) == uid;
        wrong.iter().any(|&id| Some(graph.tensor(id).uid) == uid) && !report.violations().any(same)
    };
    laid_wrong(&again).filter(is_new).cloned().collect()
}

fn laid_wrong(report: &Report) -> impl Iterator<Item = &Violation> {
    report.violations().filter(|violation| violation.status() == DetailedStatus::Layout)
}

/// The graph with each of these tensors laid out anew; `None` where there is none that can be.
fn laid_out(graph: &FinalizedGraph, tensors: &[TensorId]) -> Option<Arc<FinalizedGraph>> {
    let mut edited = graph.to_graph();
    let mut is_changed = false;
    for &id in tensors {
        let layout = if graph.tensor(id).dim.len() > 3 { Layout::ChannelsLast } else { Layout::RowMajor };
        is_changed |= Edit::LayOut(vec![TensorUid::of(graph, id)], layout).apply(&mut edited).is_some();
    }
    is_changed.then(|| edited.finalize().ok().map(Arc::new)).flatten()
}
