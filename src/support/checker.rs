//! Putting a graph to surfaces.

use std::sync::Arc;

use super::context::Facts;
use super::family::{self, FAMILIES, Family, Subject};
use super::findings::{Findings, Violation};
use super::report::{Report, SurfaceOutcome};
use super::rule::{Rule, SurfaceId};
use super::supported::Supported;
use crate::device::ComputeCapability;
use crate::fusion;
use crate::graph::FinalizedGraph;

/// Asks surfaces in the given order, stopping at the first that holds; [`SurfaceId::ALL`] is the documented order.
/// Those that are about other kinds of graphs are passed over.
///
/// The verdict depends on the graph's structure, never on the order in which operations were added. A capability that
/// no surface lists is refused.
pub fn check(graph: &Arc<FinalizedGraph>, capability: ComputeCapability, surfaces: &[SurfaceId]) -> Report {
    check_relaxed(graph, capability, surfaces, &[])
}

/// As [`check`], for an engine that does without some rules: violations of rules in `relaxed` are reported, but do not
/// refuse. What decides whether a graph has stages at all (`PAT-*`) cannot be relaxed.
pub fn check_relaxed(
    graph: &Arc<FinalizedGraph>,
    capability: ComputeCapability,
    surfaces: &[SurfaceId],
    relaxed: &[&'static Rule],
) -> Report {
    ask(FAMILIES, (graph, capability), surfaces, relaxed)
}

/// As [`check_relaxed`], of surfaces that these families have.
pub(super) fn ask(
    families: &[&Family],
    (graph, capability): (&Arc<FinalizedGraph>, ComputeCapability),
    surfaces: &[SurfaceId],
    relaxed: &[&'static Rule],
) -> Report {
    let facts = Facts::new(graph, fusion::fuse(Arc::clone(graph)));
    let subject = Subject { graph, capability, facts: &facts };
    let mut report = Report::new(graph, capability);
    for &surface in surfaces {
        let limits = family::limits(families, surface).filter(|limits| limits.concerns(&subject));
        let Some(limits) = limits else { continue };
        let mut found = Findings::new(graph, surface);
        limits.check(&subject, &mut found);
        let violations = found.into_violations();
        // a rule is one static: its address says which it is
        let is_relaxed = |rule| relaxed.iter().any(|&relaxed| std::ptr::eq(relaxed, rule));
        let holds = violations.iter().all(|violation| is_relaxed(violation.rule));
        if let (true, Ok(fusion)) = (holds, &facts.fusion) {
            report.notes.extend(limits.notes(&subject));
            let relaxed = broken_rules(&violations);
            report.supported = Some(Supported { fusion: fusion.clone(), surface, capability, relaxed });
        }
        report.outcomes.push(SurfaceOutcome { surface, violations });
        if report.supported.is_some() {
            break;
        }
    }
    tracing::debug!(graph_key = %graph.key(), %capability, surface = ?report.surface(), "checked support");
    report
}

/// The rules broken, each once.
fn broken_rules(violations: &[Violation]) -> Vec<&'static Rule> {
    let mut rules: Vec<&'static Rule> = violations.iter().map(|violation| violation.rule).collect();
    rules.sort_by_key(|rule| rule.id);
    rules.dedup();
    rules
}
