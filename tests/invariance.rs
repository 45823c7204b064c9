//! A verdict depends on what a graph computes, never on how it was written down: the order of its operations and
//! tensors, their names, the values of uids.

mod common;

use std::collections::HashMap;
use std::sync::Arc;

use common::verdicts;
use fusewright::device::ComputeCapability;
use fusewright::engine::{self, Engine};
use fusewright::fuzz::{graph_bytes, rewritten};
use fusewright::graph::{FinalizedGraph, Graph, GraphKey};
use fusewright::support::SurfaceId;
use rayon::prelude::*;

/// Ways in which each graph is written down.
const FORMS: u64 = 20;

/// What must not change.
#[derive(Debug, PartialEq)]
struct Answer {
    key: GraphKey,
    surface: Option<SurfaceId>,
    engine: Option<&'static str>,
    /// Surface, rule and canonical place of each violation, sorted.
    violations: Vec<(SurfaceId, &'static str, String)>,
}

/// The answer for a graph whose names are unique; nothing where the graph is malformed.
fn answer(graph: &Graph) -> Option<Answer> {
    let graph = Arc::new(graph.finalize().ok()?);
    let decision = engine::decide(&graph, ComputeCapability::SM_90, &SurfaceId::ALL);
    let places = places(&graph);
    let violations = decision.report.violations();
    let mut violations: Vec<_> =
        violations.map(|broken| (broken.surface, broken.rule.id, canonical(&broken.place, &places))).collect();
    violations.sort();
    let engine = decision.engine().map(Engine::name);
    Some(Answer { key: graph.key(), surface: decision.report.surface(), engine, violations })
}

/// Canonical numbers of operations and tensors, by name.
fn places(graph: &FinalizedGraph) -> HashMap<&str, usize> {
    let operations = graph.operations().map(|operation| operation.name.as_str());
    let tensors = graph.tensors().map(|tensor| tensor.name.as_str());
    operations.zip(0..).chain(tensors.zip(0..)).collect()
}

/// A place with canonical numbers instead of names, and without uids.
fn canonical(place: &str, places: &HashMap<&str, usize>) -> String {
    let parts = place.split('\'').enumerate();
    parts.map(|(number, part)| if number % 2 == 1 { format!("#{}", places[part]) } else { without_uid(part) }).collect()
}

/// Takes ` (uid 7)` off the front.
fn without_uid(text: &str) -> String {
    let end = text.strip_prefix(" (uid ").and_then(|rest| rest.find(')')).map_or(0, |end| " (uid )".len() + end);
    text[end..].to_owned()
}

#[test]
fn verdicts_do_not_depend_on_how_a_graph_is_written_down() {
    let records = verdicts::read().expect("the file is in the repository");
    let changed: Vec<String> = records
        .par_iter()
        .filter_map(|record| {
            let mut forms = (0..FORMS).map(|form| answer(&rewritten(&record.graph, &graph_bytes(record.id, form))));
            let first = forms.next()?;
            let differing = forms.find(|other| *other != first)?;
            Some(format!("graph {}: {first:#?}\nor {differing:#?}", record.id))
        })
        .collect();
    assert!(changed.is_empty(), "{} graphs, among them {}", changed.len(), changed[0]);
}

#[test]
fn places_are_compared_by_structure() {
    let places = HashMap::from([("mm", 0), ("bias", 2)]);
    let place = "operation 'mm' (MATMUL), tensor 'bias' (uid 41)";
    assert_eq!(canonical(place, &places), "operation #0 (MATMUL), tensor #2");
    assert_eq!(canonical("graph", &places), "graph");
}
