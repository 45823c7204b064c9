//! The nearest legal change: one or two small edits that keep the mathematics of a refused graph and make a surface hold.
//!
//! Each broken rule suggests edits at its place. Edits that together answer every broken rule of some surface are made
//! on a copy of the graph, and the copy is checked again, as documented.

mod edit;

use std::sync::Arc;

use super::checker::ask;
use super::family::{FAMILIES, Family};
use super::findings::Violation;
use super::report::{Report, SurfaceOutcome};
use super::rule::SurfaceId;
use crate::graph::{FinalizedGraph, Graph};
use edit::{Edit, suggestions};

/// Changes tried for one graph at most.
const TRIES: usize = 64;

/// Operations of all copies checked for one graph at most: large graphs have fewer tries.
const CHECKED_OPERATIONS: usize = 4096;

/// Broken rules of a surface beyond which only a single edit is looked for: more is no small change.
const PLACES: usize = 16;

/// Edits that make a graph legal.
#[derive(Clone, Debug)]
pub struct Change {
    /// The edits as instructions to people, with semicolons between: `swap the first two inputs of operation 'add'
    /// (POINTWISE ADD)`.
    pub description: String,
    /// The surface that holds then.
    pub surface: SurfaceId,
    /// The edited graph.
    pub graph: Graph,
}

/// Looks for a small change with which a surface of the report holds as documented, on the chip of the report.
///
/// The edits, in the order they are tried: swap the inputs of a commutative operation; raise the alignment of a
/// pointer; pad strides; give a virtual tensor another type; convert a core operand with IDENTITY; compute in another
/// type; leave a trailing Reduction to a second graph. First each alone; then one kind of edit at every place that
/// breaks a rule, and two such steps. `None` where the graph is supported, and where no such change is found among the
/// first 64 (fewer for graphs of more than 64 operations, none beyond 4,096).
pub fn nearest_change(graph: &Arc<FinalizedGraph>, report: &Report) -> Option<Change> {
    nearest_among(FAMILIES, graph, report)
}

/// As [`nearest_change`], for surfaces that these families have.
pub(super) fn nearest_among(families: &[&Family], graph: &Arc<FinalizedGraph>, report: &Report) -> Option<Change> {
    let tries = TRIES.min(CHECKED_OPERATIONS / graph.operations().len());
    if report.supported.is_some() || tries == 0 {
        return None;
    }
    let surfaces: Vec<SurfaceId> = report.outcomes.iter().map(|outcome| outcome.surface).collect();
    candidates(graph, report).into_iter().take(tries).find_map(|edits| {
        let mut edited = graph.to_graph();
        edits.iter().try_for_each(|edit| edit.apply(graph, &mut edited))?;
        let again = ask(families, (&Arc::new(edited.finalize().ok()?), report.capability), &surfaces, &[]);
        let surface = again.surface()?;
        Some(Change { description: describe(graph, &edits), surface, graph: edited })
    })
}

/// Sets of edits that answer every broken rule of some surface, the smallest first, each once.
fn candidates(graph: &FinalizedGraph, report: &Report) -> Vec<Vec<Edit>> {
    let mut candidates: Vec<Vec<Edit>> = Vec::new();
    for outcome in &report.outcomes {
        for edits in common_edits(graph, outcome).into_iter().map(|edit| vec![edit]).chain(steps(graph, outcome)) {
            if !candidates.contains(&edits) {
                candidates.push(edits);
            }
        }
    }
    candidates.sort_by_key(|edits| (edits.len(), edits.iter().map(Edit::rank).max()));
    candidates
}

/// Edits that every broken rule of a surface suggests.
fn common_edits(graph: &FinalizedGraph, outcome: &SurfaceOutcome) -> Vec<Edit> {
    let Some((first, others)) = outcome.violations.split_first() else { return Vec::new() };
    let mut edits = suggestions(graph, first);
    for other in others {
        if edits.is_empty() {
            break;
        }
        let suggested = suggestions(graph, other);
        edits.retain(|edit| suggested.contains(edit));
    }
    edits
}

/// A broken rule and the edits that it suggests.
struct Defect<'a> {
    violation: &'a Violation,
    suggested: Vec<Edit>,
}

impl Defect<'_> {
    fn is_answered(&self, edits: &[Edit]) -> bool {
        self.suggested.iter().any(|edit| edits.contains(edit))
    }
}

/// Changes of several edits: one or two steps after which every broken rule of a surface is answered.
fn steps(graph: &FinalizedGraph, outcome: &SurfaceOutcome) -> Vec<Vec<Edit>> {
    if outcome.violations.len() > PLACES {
        return Vec::new();
    }
    let suggested = |violation| Defect { violation, suggested: suggestions(graph, violation) };
    let defects: Vec<Defect> = outcome.violations.iter().map(suggested).collect();
    let mut changes = Vec::new();
    for first in next_steps(&defects, &[]) {
        if defects.iter().all(|defect| defect.is_answered(&first)) {
            changes.push(first);
        } else {
            let both = next_steps(&defects, &first).into_iter().map(|second| [first.as_slice(), &second].concat());
            changes.extend(both.filter(|edits| defects.iter().all(|defect| defect.is_answered(edits))));
        }
    }
    changes.retain(|edits| edits.len() > 1 && is_consistent(edits));
    changes.iter_mut().for_each(|edits| edits.sort_by_key(Edit::rank));
    changes
}

/// Steps that answer the first defect left: each edit that it suggests, alone and with its like wherever the same rule
/// is broken.
fn next_steps(defects: &[Defect], made: &[Edit]) -> Vec<Vec<Edit>> {
    let Some(first) = defects.iter().find(|defect| !defect.is_answered(made)) else { return Vec::new() };
    let mut steps = Vec::new();
    for &edit in &first.suggested {
        let alike = |defect: &&Defect| defect.violation.rule == first.violation.rule && !defect.is_answered(&[edit]);
        let like = |defect: &Defect| defect.suggested.iter().copied().find(|other| other.rank() == edit.rank());
        let mut everywhere = vec![edit];
        everywhere.extend(defects.iter().filter(alike).filter_map(like));
        if everywhere.len() > 1 {
            steps.push(everywhere);
        }
        steps.push(vec![edit]);
    }
    steps
}

/// Whether no two edits set the same thing.
fn is_consistent(edits: &[Edit]) -> bool {
    edits.iter().enumerate().all(|(place, edit)| edits[..place].iter().all(|earlier| !edit.collides_with(earlier)))
}

/// One instruction after the other, with semicolons between.
fn describe(graph: &FinalizedGraph, edits: &[Edit]) -> String {
    edits.iter().map(|edit| edit.describe(graph)).collect::<Vec<_>>().join("; ")
}
