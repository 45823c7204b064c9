//! Verdicts of the support surfaces.

use std::sync::Arc;

use super::{expect, graph_of};
use crate::device::ComputeCapability;
use crate::fuzz::choices::Choices;
use crate::fuzz::finding::{Finding, finding};
use crate::graph::FinalizedGraph;
use crate::support::{self, GraphLabel, Report, SurfaceId, SurfaceOutcome, Violation};

/// Chips that some surface lists, and one that none does.
const CAPABILITIES: [ComputeCapability; 6] = [
    ComputeCapability::SM_90,
    ComputeCapability::new(8, 0),
    ComputeCapability::new(8, 9),
    ComputeCapability::new(7, 5),
    ComputeCapability::new(7, 0),
    ComputeCapability::new(12, 0),
];

/// A graph asked of every surface, on a chip that the first byte names: a refusal has its reasons, each surface says the
/// same asked alone, and the report can be written. The other bytes stand for the graph. Gives whether it is well formed.
///
/// # Errors
/// The first expectation that is not met.
pub fn check(bytes: &[u8]) -> Result<bool, Finding> {
    let Some((first, rest)) = bytes.split_at_checked(1) else { return Ok(false) };
    let Some(finalized) = graph_of(rest).and_then(|made| made.graph.finalize().ok()) else { return Ok(false) };
    let (graph, capability) = (Arc::new(finalized), Choices::new(first).of(&CAPABILITIES));
    let report = support::check(&graph, capability, &SurfaceId::ALL);
    has_reasons(&report)?;
    is_the_same_alone(&graph, &report)?;
    is_written(&report)?;
    Ok(true)
}

/// A surface that was asked holds and ends the search, or names what breaks it.
fn has_reasons(report: &Report) -> Result<(), Finding> {
    let held = report.supported.as_ref().map(support::Supported::surface);
    let is_last = |surface| report.outcomes.last().is_some_and(|last| last.surface == surface);
    expect("the surface that holds ends the search", held.is_none_or(is_last), || report.to_string())?;
    report.outcomes.iter().try_for_each(|SurfaceOutcome { surface, violations }| {
        let holds = held == Some(*surface);
        expect("a surface refuses for reasons only", holds == violations.is_empty(), || report.to_string())?;
        violations.iter().try_for_each(is_complete)
    })
}

fn is_complete(violation: &Violation) -> Result<(), Finding> {
    let Violation { rule, place, required, found, .. } = violation;
    let is_complete = [rule.id, place, required, found].iter().all(|part| !part.is_empty());
    expect("a reason has a rule, a place, what is required and what was found", is_complete, || {
        format!("{violation:?}")
    })
}

fn is_the_same_alone(graph: &Arc<FinalizedGraph>, report: &Report) -> Result<(), Finding> {
    report.outcomes.iter().try_for_each(|outcome| {
        let alone = support::check(graph, report.capability, &[outcome.surface]);
        let is_same = alone.outcomes == [outcome.clone()];
        expect("a surface says the same asked alone", is_same, || format!("{report}\nalone: {alone}"))
    })
}

/// As text, on lines that all say something, and as a record that is JSON.
fn is_written(report: &Report) -> Result<(), Finding> {
    const ORACLE: &str = "a verdict can be written";
    let text = report.to_string();
    expect(ORACLE, !text.is_empty() && !text.ends_with('\n'), || format!("{text:?}"))?;
    let verdict = report.verdict(GraphLabel::Name(report.graph.clone()), None);
    let record = serde_json::to_string(&verdict).map_err(|error| finding(ORACLE, error))?;
    let record: serde_json::Value = serde_json::from_str(&record).map_err(|error| finding(ORACLE, error))?;
    let written = record["violations"].as_array().map_or(0, Vec::len);
    expect(ORACLE, written == report.violations().count(), || record.to_string())
}
