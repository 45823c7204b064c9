//! Support surfaces: whether, where and why a graph can run.
//!
//! - `surface/`: what the surfaces 90, 80 and 70 allow, as tables of limits;
//! - `rules/`: rules as code, one file per heading of the document, each id a [`Rule`] of the [`catalogue`];
//! - [`check`] applies the rules and gives a [`Report`], and for a graph that holds a [`Supported`]: the proof that
//!   lowering asks for, which nothing else can make;
//! - [`nearest_change`] looks for one small edit that makes a refused graph legal.
//!
//! Invariant: a rule is never broken silently. Whatever makes a surface refuse a graph is a [`Violation`] that names
//! the rule, the place, what is required and what was found.

mod context;
mod findings;
mod forms;
mod layout;
mod nearest;
mod order;
mod report;
mod rule;
mod rules;
mod surface;
mod table;

use std::sync::Arc;

pub use findings::Violation;
pub(crate) use layout::is_disjoint;
pub use nearest::{Change, nearest_change};
pub use report::{GraphLabel, Report, SurfaceOutcome, Verdict, VerdictStatus, ViolationRecord};
pub use rule::{DetailedStatus, Kind, Rule, SurfaceId, catalogue};
pub use table::surface_table;

use crate::device::ComputeCapability;
use crate::fusion::{self, Fusion};
use crate::graph::FinalizedGraph;
use context::{Context, Facts};
use findings::Findings;
use surface::Surface;

/// A graph that satisfies every rule of a surface on a chip, up to rules that its engine relaxes.
///
/// Only the checker makes one; lowering takes nothing else.
#[derive(Clone, Debug)]
pub struct Supported {
    fusion: Fusion,
    surface: SurfaceId,
    capability: ComputeCapability,
    relaxed: Vec<&'static Rule>,
}

impl Supported {
    /// The graph cut into stages.
    pub fn fusion(&self) -> &Fusion {
        &self.fusion
    }

    /// The graph.
    pub fn graph(&self) -> &Arc<FinalizedGraph> {
        self.fusion.graph()
    }

    /// The surface that holds.
    pub fn surface(&self) -> SurfaceId {
        self.surface
    }

    /// The chip asked about.
    pub fn capability(&self) -> ComputeCapability {
        self.capability
    }

    /// Rules of the surface that the graph breaks and the caller relaxed, each once; empty for [`check`].
    pub fn relaxed(&self) -> &[&'static Rule] {
        &self.relaxed
    }
}

/// Asks surfaces in the given order, stopping at the first that holds; [`SurfaceId::ALL`] is the documented order.
///
/// The verdict depends on the graph's structure, never on the order in which operations were added. A capability that
/// no surface lists is refused.
pub fn check(graph: &Arc<FinalizedGraph>, capability: ComputeCapability, surfaces: &[SurfaceId]) -> Report {
    check_relaxed(graph, capability, surfaces, &[])
}

/// As [`check`], for an engine that does without some rules: violations of rules whose ids are in `relaxed` are
/// reported, but do not refuse. What decides whether a graph has stages at all (`PAT-*`) cannot be relaxed.
pub fn check_relaxed(
    graph: &Arc<FinalizedGraph>,
    capability: ComputeCapability,
    surfaces: &[SurfaceId],
    relaxed: &[&str],
) -> Report {
    let facts = Facts::new(graph, fusion::fuse(Arc::clone(graph)));
    let mut report = Report::new(graph, capability);
    for &id in surfaces {
        let cx = Context { graph, capability, surface: Surface::get(id), facts: &facts };
        let mut found = Findings::new(graph, id);
        rules::check(&cx, &mut found);
        let violations = found.into_violations();
        let holds = violations.iter().all(|violation| relaxed.contains(&violation.rule.id));
        if let (true, Ok(fusion)) = (holds, &facts.fusion) {
            report.notes.extend(rules::core::notes(&cx));
            let relaxed = broken_rules(&violations);
            report.supported = Some(Supported { fusion: fusion.clone(), surface: id, capability, relaxed });
        }
        report.outcomes.push(SurfaceOutcome { surface: id, violations });
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

#[cfg(test)]
mod tests;
