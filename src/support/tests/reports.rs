//! Reports: surfaces in order, relaxations, texts and records.

use super::graphs::*;
use super::*;
use crate::graph::Malformed;
use crate::support::records::alignment::S90_G1_ALIGN_128;
use crate::support::records::capability::S90_CC;
use crate::support::{DetailedStatus, GraphLabel, Report, Rule, Verdict, catalogue, check_relaxed};

fn report(graph: &Graph, surfaces: &[SurfaceId], relaxed: &[&'static Rule]) -> Report {
    let finalized = Arc::new(graph.finalize().expect("well formed"));
    check_relaxed(&finalized, ComputeCapability::SM_90, surfaces, relaxed)
}

/// Legal on 80, where operands need 32 bits only.
fn narrow() -> Graph {
    let mut graph = matmul();
    graph.t("A").alignment = 4;
    graph
}

#[test]
fn the_first_surface_that_holds_is_taken() {
    assert_eq!(report(&matmul(), &SurfaceId::ALL, &[]).surface(), Some(SurfaceId::S90));
    let narrow = report(&narrow(), &SurfaceId::ALL, &[]);
    assert_eq!(narrow.surface(), Some(SurfaceId::S80));
    let outcomes: Vec<_> = narrow.outcomes.iter().map(|outcome| (outcome.surface, outcome.violations.len())).collect();
    assert_eq!(outcomes, [(SurfaceId::S90, 1), (SurfaceId::S80, 0)]);
    assert_eq!(narrow.status(), None);
}

#[test]
fn a_relaxed_rule_is_named_and_does_not_refuse() {
    let relaxed = report(&narrow(), &SurfaceId::ALL, &[&S90_G1_ALIGN_128]);
    let supported = relaxed.supported.as_ref().expect("its only broken rule is relaxed");
    assert_eq!(supported.surface(), SurfaceId::S90);
    assert_eq!(supported.relaxed().iter().map(|rule| rule.id).collect::<Vec<_>>(), ["S90-G1-ALIGN-128"]);
    assert!(report(&narrow(), &[SurfaceId::S90], &[&S90_CC]).supported.is_none());
}

#[test]
fn no_relaxation_makes_up_for_missing_stages() {
    let mut graph = lone_matmul();
    let (a, b) = (graph.id("A"), graph.id("B"));
    let second = graph.matmul("mm2", a, b);
    graph.set_output(second);
    let every: Vec<&'static Rule> = catalogue().collect();
    assert!(report(&graph, &SurfaceId::ALL, &every).supported.is_none());
}

#[test]
fn the_most_decisive_rule_comes_first() {
    let mut graph = narrow();
    graph.types(&["bias"], DataType::Int64);
    let report = report(&graph, &[SurfaceId::S90], &[]);
    let rules: Vec<&str> = report.violations().map(|violation| violation.rule.id).collect();
    assert_eq!(rules, ["S90-DTYPE-INPUT", "S90-G1-ALIGN-128"]);
    assert_eq!(report.status(), Some(DetailedStatus::DataType));
}

#[test]
fn people_read_what_is_wrong_where() {
    let mut graph = narrow();
    graph.t("bias").name = "bi\nas".to_owned();
    graph.reshape("bi\nas", rows([1, 1, 64]));
    let mut report = report(&graph, &[SurfaceId::S90, SurfaceId::S70], &[]);
    report.notes = vec!["dims were inferred".to_owned()];
    let expected = "\
no surface holds on sm_90
tensor 'A' (uid 1)
  found    a pointer aligned to 4 bytes
  required a pointer aligned to 16 bytes  [S90-G1-ALIGN-128]
operation 'add' (POINTWISE ADD), tensor 'bi\\nas' (uid 4)
  found    [1,1,64]
  required dims [1,1,1], [2,32,1], [2,1,64] or [2,32,64]  [S70-MM-G2-DIMS]
note: dims were inferred";
    assert_eq!(report.to_string(), expected);
}

#[test]
fn one_cause_is_told_once() {
    let mut graph = matmul();
    graph.types(&["A"], DataType::Double);
    let report = report(&graph, &SurfaceId::ALL, &[]);
    let findings: Vec<_> =
        report.findings().into_iter().map(|finding| (finding.places.concat(), finding.found)).collect();
    let about_a = findings.iter().filter(|(place, _)| place.contains("'A'")).count();
    assert_eq!(about_a, 1, "{findings:?}");
    let rules: usize =
        report.findings().iter().flat_map(|finding| &finding.requirements).map(|all| all.rules.len()).sum();
    assert_eq!(rules, report.violations().count(), "and no rule is lost");
}

#[test]
fn records_have_the_documented_keys() {
    let verdict = report(&narrow(), &SurfaceId::ALL, &[]).verdict(GraphLabel::Number(3), Some("sm80-matmul"));
    let record = serde_json::to_value(&verdict).expect("a verdict is plain data");
    let expected = serde_json::json!({
        "graph": 3, "status": "supported", "surface": 80, "engine": "sm80-matmul", "error": null,
        "violations": [{
            "surface": 90, "rule": "S90-G1-ALIGN-128", "where": "tensor 'A' (uid 1)",
            "required": "a pointer aligned to 16 bytes", "found": "a pointer aligned to 4 bytes",
        }],
    });
    assert_eq!(record, expected);
    let malformed =
        Verdict::malformed(GraphLabel::Name("g".to_owned()), Malformed::graph("GR-NODES", "empty").to_string());
    let record = serde_json::to_value(&malformed).expect("a verdict is plain data");
    assert_eq!((&record["status"], &record["surface"]), (&"malformed".into(), &serde_json::Value::Null));
}
