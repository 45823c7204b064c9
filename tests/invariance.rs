//! A verdict depends on what a graph computes, never on how it was written down: the order of its operations and
//! tensors, their names, the values of uids.

mod common;

use std::collections::HashMap;
use std::sync::Arc;

use common::verdicts;
use fusewright::device::ComputeCapability;
use fusewright::engine::{self, Engine};
use fusewright::graph::{FinalizedGraph, Graph, GraphKey, Operation, Tensor, TensorId};
use fusewright::support::SurfaceId;
use rayon::prelude::*;

/// Ways in which each graph is written down.
const FORMS: usize = 20;

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

/// The same graph written down in another way; every name and uid is unique.
fn rewritten(graph: &Graph, random: &mut Random) -> Graph {
    let ids: Vec<TensorId> = graph.tensor_ids().collect();
    let order = random.permutation(ids.len());
    let mut place = ids.clone();
    order.iter().zip(&ids).for_each(|(&old, &new)| place[old] = new);
    let mut result = Graph::new().name("another");
    result.io_data_type = graph.io_data_type;
    result.intermediate_data_type = graph.intermediate_data_type;
    result.compute_data_type = graph.compute_data_type;
    for (&old, alias) in order.iter().zip(random.permutation(ids.len())) {
        let tensor = graph.tensors()[old].clone();
        let ragged_offset = tensor.ragged_offset.map(|id| place[id.index()]);
        let (name, uid) = (format!("tensor {alias}"), Some(7919 * alias as i64 - 40));
        result.tensor(Tensor { name, uid, ragged_offset, ..tensor });
    }
    let count = graph.operations().len();
    for (old, alias) in random.permutation(count).into_iter().zip(random.permutation(count)) {
        let mut operation = Operation { name: format!("operation {alias}"), ..graph.operations()[old].clone() };
        let slots = operation.inputs.iter_mut().chain(&mut operation.outputs);
        slots.for_each(|slot| slot.1 = place[slot.1.index()]);
        result.operation(operation);
    }
    result
}

/// A linear congruential generator.
struct Random(u64);

impl Random {
    /// Fisher and Yates.
    fn permutation(&mut self, count: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..count).collect();
        for at in (1..count).rev() {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            order.swap(at, (self.0 >> 33) as usize % (at + 1));
        }
        order
    }
}

#[test]
fn verdicts_do_not_depend_on_how_a_graph_is_written_down() {
    let records = verdicts::read().expect("the file is in the repository");
    let changed: Vec<String> = records
        .par_iter()
        .filter_map(|record| {
            let mut random = Random(record.id);
            let first = answer(&rewritten(&record.graph, &mut random));
            let differing = (1..FORMS).map(|_| answer(&rewritten(&record.graph, &mut random)));
            let differing = differing.into_iter().find(|other| *other != first)?;
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
