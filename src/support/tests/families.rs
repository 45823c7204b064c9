//! Families are open: one that is defined here, with rules of its own, is asked, answers, and is written like any other.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::{At, H90};
use crate::device::ComputeCapability;
use crate::graph::{Attributes, DataType, FinalizedGraph, Graph, OperationId, Tensor};
use crate::support::checker::ask;
use crate::support::family::{FAMILIES, Family, Limits, Subject, limits};
use crate::support::findings::Findings;
use crate::support::rule::{NOTE, Rule, SHAPE, TYPE, rules};
use crate::support::{Defect, DetailedStatus, Goal, GraphLabel, Report, SurfaceId, nearest};

const SHORT: SurfaceId = SurfaceId::Named("short rows");
const LONG: SurfaceId = SurfaceId::Named("long rows");

rules! {
    &[SHORT, LONG], "project, softmax in one launch" {
        SM_ROW = "SM-ROW", "Softmax", SHAPE, "a row is not longer than what a block keeps";
        SM_COMPUTE = "SM-COMPUTE", "Softmax", TYPE, "computed in FLOAT";
    }
    &[LONG], "project, softmax in one launch" {
        SM_SLOW = "SM-SLOW", "Softmax", NOTE, "rows in shared memory may be slow";
    }
}

/// What softmax in one launch allows: rows that fit where a block keeps them.
struct RowLimits {
    longest: i64,
    slow: Option<&'static Rule>,
}

static SOFTMAX: Family = Family {
    surfaces: &[
        (SHORT, &RowLimits { longest: 1024, slow: None }),
        (LONG, &RowLimits { longest: 16_384, slow: Some(&SM_SLOW) }),
    ],
    rules: &[RULES],
    is_by_name: false,
};

fn softmaxes(graph: &FinalizedGraph) -> impl Iterator<Item = OperationId> {
    graph.operation_ids().filter(|&id| matches!(graph.operation(id).attributes, Attributes::Composite(_)))
}

impl Limits for RowLimits {
    fn concerns(&self, subject: &Subject) -> bool {
        softmaxes(subject.graph).next().is_some()
    }

    fn check(&self, subject: &Subject, found: &mut Findings) {
        let graph = subject.graph;
        for id in softmaxes(graph) {
            let x = graph.operation(id).input_tensors().next().expect("softmax reads X");
            let row = graph.tensor(x).dim.last().copied().unwrap_or(1);
            if row > self.longest {
                found.slot(&SM_ROW, (id, x), format!("rows of {} elements at most", self.longest), row.to_string());
            }
            let compute = graph.compute_type(id);
            if compute != DataType::Float {
                found.operation(&SM_COMPUTE, id, "compute type FLOAT", format!("compute type {compute}"));
            }
        }
    }

    fn notes(&self, _subject: &Subject) -> Vec<String> {
        self.slow.iter().map(|rule| format!("{} [{}]", rule.summary, rule.id)).collect()
    }
}

fn families() -> Vec<&'static Family> {
    [&[&SOFTMAX], FAMILIES].concat()
}

fn every_surface() -> Vec<SurfaceId> {
    families().iter().flat_map(|family| family.surfaces).map(|row| row.0).collect()
}

fn softmax(columns: i64) -> Graph {
    let mut graph = Graph::new().io_data_type(DataType::Half).compute_data_type(DataType::Float);
    let x = graph.tensor(Tensor::new("X").row_major([1, 4, columns]));
    let y = graph.softmax("softmax", x);
    *graph.set_output(y) = Tensor::new("Y").row_major([1, 4, columns]);
    graph
}

fn finalized(graph: &Graph) -> Arc<FinalizedGraph> {
    Arc::new(graph.finalize().expect("well formed"))
}

fn asked(graph: &Graph, relaxed: &[&'static Rule]) -> Report {
    ask(&families(), (&finalized(graph), ComputeCapability::SM_90), &every_surface(), relaxed)
}

/// That one of the family's surfaces holds.
struct Held;

impl Goal for Held {
    fn defects(&self, graph: &Arc<FinalizedGraph>) -> Vec<Defect> {
        let report = ask(&families(), (graph, ComputeCapability::SM_90), &[SHORT], &[]);
        report.violations().map(Defect::of).collect()
    }
}

/// Surfaces that answered, with the rules that are broken there.
fn answers(report: &Report) -> Vec<(String, Vec<&'static str>)> {
    let broken = |violations: &[crate::support::Violation]| violations.iter().map(|broken| broken.rule.id).collect();
    report.outcomes.iter().map(|outcome| (outcome.surface.to_string(), broken(&outcome.violations))).collect()
}

#[test]
fn a_family_is_asked_about_its_own_graphs_alone() {
    let matmul = asked(&super::graphs::matmul(), &[]);
    assert_eq!(answers(&matmul), [("90".to_owned(), vec![])]);
    let short = asked(&softmax(1024), &[]);
    assert_eq!(answers(&short), [("short rows".to_owned(), vec![])]);
    assert_eq!((short.surface(), short.status()), (Some(SHORT), None));
}

#[test]
fn each_of_its_surfaces_has_limits_of_its_own() {
    let long = asked(&softmax(1025), &[]);
    assert_eq!(answers(&long), [("short rows".to_owned(), vec!["SM-ROW"]), ("long rows".to_owned(), vec![])]);
    assert_eq!(long.surface(), Some(LONG));
    let text = "\
surface long rows holds on sm_90
operation 'softmax' (SOFTMAX), tensor 'X' (uid 1)
  found    1025
  required rows of 1024 elements at most  [SM-ROW]
note: rows in shared memory may be slow [SM-SLOW]";
    assert_eq!(long.to_string(), text);
}

#[test]
fn the_runtime_surfaces_answer_for_what_a_family_refuses() {
    let refused = asked(&softmax(16_385), &[]);
    let surfaces: Vec<String> = answers(&refused).into_iter().map(|answer| answer.0).collect();
    assert_eq!(surfaces, ["short rows", "long rows", "90", "80", "70"]);
    assert_eq!(refused.nearest().map(|outcome| outcome.surface), Some(SHORT), "dims decide less than what a graph is");
    assert_eq!(refused.status(), Some(DetailedStatus::Shape));
    let relaxed = asked(&softmax(16_385), &[&SM_ROW]);
    assert_eq!((relaxed.surface(), relaxed.relaxed()), (None, [&SM_ROW].as_slice()));
}

#[test]
fn records_keep_to_numbers_and_null() {
    let record = |graph: &Graph| {
        let verdict = asked(graph, &[]).verdict(GraphLabel::Number(0), Some("rows"));
        serde_json::to_value(&verdict).expect("a verdict is plain data")
    };
    let long = record(&softmax(2000));
    assert_eq!((&long["status"], &long["surface"]), (&"supported".into(), &serde_json::Value::Null));
    assert_eq!(long["surface_name"], "long rows");
    let violation = serde_json::json!({
        "surface": null, "surface_name": "short rows", "rule": "SM-ROW", "where": "operation 'softmax' (SOFTMAX), tensor 'X' (uid 1)",
        "required": "rows of 1024 elements at most", "found": "2000",
    });
    assert_eq!(long["violations"], serde_json::json!([violation]));
    let matmul = record(&super::graphs::matmul());
    assert_eq!((&matmul["surface"], matmul.get("surface_name")), (&90.into(), None));
    let rule = |rule: &Rule| serde_json::to_value(rule).expect("a record is plain data");
    assert_eq!(rule(&SM_ROW)["surface"], "short rows, long rows");
    assert_eq!(rule(&SM_SLOW)["surface"], "long rows");
}

#[test]
fn a_change_is_sought_on_its_surfaces_too() {
    let mut graph = softmax(64);
    graph.last_operation().compute_data_type = Some(DataType::Half);
    let change = nearest(&finalized(&graph), &Held, 1).expect("FLOAT");
    assert_eq!(change.text, "compute operation 'softmax' (SOFTMAX) in FLOAT instead of HALF");
}

#[test]
fn surfaces_that_no_family_has_are_passed_over() {
    let graph = finalized(&softmax(64));
    let report = ask(FAMILIES, (&graph, ComputeCapability::SM_90), &[SHORT], &[]);
    assert!(report.outcomes.is_empty() && report.supported.is_none());
    assert_eq!(report.status(), Some(DetailedStatus::Unspecified));
}

#[test]
fn every_surface_has_one_family_and_every_rule_surfaces_of_one() {
    assert!(every_surface()[2..].iter().copied().eq(SurfaceId::named()));
    assert!(
        SurfaceId::named().zip(SurfaceId::ALL).all(|(named, asked)| named == asked),
        "those by name alone are last"
    );
    let runtime: Vec<SurfaceId> = SurfaceId::ALL.into_iter().filter(|surface| surface.number().is_some()).collect();
    assert_eq!(runtime, SurfaceId::RUNTIME, "in the documented order (V-02)");
    let surfaces = every_surface();
    assert_eq!(surfaces.iter().collect::<BTreeSet<_>>().len(), surfaces.len());
    let names = surfaces.iter().filter(|surface| surface.number().is_none()).map(ToString::to_string);
    assert!(names.into_iter().all(|name| name.parse::<u32>().is_err()), "a name that reads as a number");
    for family in families() {
        let is_its_own = |surface: &SurfaceId| family.surfaces.iter().any(|row| row.0 == *surface);
        for rule in family.rules.iter().copied().flatten() {
            assert!(!rule.surfaces.is_empty() && rule.surfaces.iter().all(is_its_own), "{}", rule.id);
        }
    }
}

#[test]
fn limits_are_found_by_the_surface() {
    let (surface, ..): At = H90;
    assert!(limits(FAMILIES, surface).is_some() && limits(FAMILIES, SHORT).is_none());
    assert!(limits(&families(), SHORT).is_some());
}
