//! The catalogue against the documented ids, and the suites against the catalogue.

use std::collections::BTreeSet;

use super::suites;
use crate::support::{Kind, SurfaceId, catalogue};

/// Ids of every documented rule.
const IDS: &str = include_str!("../../../tests/data/rule_ids.txt");

#[test]
fn the_catalogue_has_exactly_the_documented_ids() {
    let documented: BTreeSet<&str> = IDS.lines().collect();
    let found: Vec<&str> = catalogue().map(|rule| rule.id).collect();
    assert_eq!(found.len(), 351);
    assert_eq!(found.iter().copied().collect::<BTreeSet<_>>(), documented);
}

#[test]
fn records_say_where_they_come_from_and_what_they_ask() {
    for rule in catalogue() {
        assert!(!rule.scope.is_empty() && !rule.summary.is_empty(), "{}", rule.id);
        assert!(rule.source.starts_with(['0', 'p']), "{} names no document: {}", rule.id, rule.source);
        assert!(rule.surfaces.is_sorted() && !rule.surfaces.is_empty(), "{}", rule.id);
        if let Some(surface) = SurfaceId::ALL.into_iter().find(|s| rule.id.starts_with(&format!("S{s}-"))) {
            assert_eq!(rule.surfaces, [surface], "{}", rule.id);
        }
    }
}

#[test]
fn restated_rules_name_a_rule_that_is_reported() {
    let checked: BTreeSet<&str> = catalogue().filter(|rule| rule.status().is_some()).map(|rule| rule.id).collect();
    for rule in catalogue() {
        if let Kind::Restated(by) = rule.kind {
            let is_reported = SurfaceId::ALL.iter().any(|s| checked.contains(by.replace('*', &s.to_string()).as_str()));
            assert!(is_reported, "{} is reported as {by}", rule.id);
        }
    }
}

#[test]
fn a_record_serializes_with_its_surface_as_a_number() {
    let rule = catalogue().find(|rule| rule.id == "S90-MM-G2-DIMS").expect("it is documented");
    let record = serde_json::to_value(rule).expect("a record is plain data");
    assert_eq!(record["surface"], 90);
    assert_eq!(record["status"], "NOT_SUPPORTED_SHAPE");
    let shared = catalogue().find(|rule| rule.id == "OP-PW98-ALPHA1").expect("it is documented");
    assert_eq!(serde_json::to_value(shared).expect("plain data")["surface"], "90, 80");
}

/// Restrictions that no graph can break, with the reason.
const UNBREAKABLE: &[(&str, &str)] = &[
    ("S90-MM-G1A-DIMS", "every dims that broadcast to A are listed"),
    ("S90-MM-G1B-DIMS", "every dims that broadcast to B are listed"),
    ("S80-MM-G1A-DIMS", "every dims that broadcast to A are listed"),
    ("S80-MM-G1B-DIMS", "every dims that broadcast to B are listed"),
];

#[test]
fn every_restriction_has_a_graph_that_breaks_it() {
    let covered: BTreeSet<String> = suites()
        .flat_map(|suite| suite.rows)
        .flat_map(|row| row.at.iter().flat_map(|&at| super::expected(row.broken, at)))
        .collect();
    let missing: Vec<&str> = catalogue()
        .filter(|rule| rule.status().is_some() && !covered.contains(rule.id))
        .map(|rule| rule.id)
        .filter(|id| UNBREAKABLE.iter().all(|row| row.0 != *id))
        .collect();
    assert_eq!(missing, Vec::<&str>::new());
}

/// Restrictions that no graph breaks alone, by reason.
const NEVER_ALONE: &[(&str, &[&str])] = &[
    (
        "only a wrong rank breaks it, and then every tensor of the core has it",
        &[
            "S90-MM-G1-A",
            "S90-MM-G1-B",
            "S90-CF-G1-X",
            "S90-CF-G1-W",
            "S90-CBF-G1-DY",
            "S90-CBF-G1-X",
            "S90-CBD-G1-DY",
            "S90-CBD-G1-W",
            "S90-CBD-G2-DX",
            "S80-MM-G1-A",
            "S80-MM-G1-B",
            "S80-CF-G1-X",
            "S80-CF-G1-W",
            "S70-CF-G1-W",
            "S70-CBF-G1-DY",
            "S70-CBD-G1-DY",
            "S70-CBD-G1-W",
        ],
    ),
    ("the other operands of the chain are broadcast: S70-G1-BCAST-FIRST", &["S70-CF-G1-X", "S70-CBF-G1-X"]),
    ("every broadcast form is listed, and larger dims enlarge the output", &["S90-MM-G2-DIMS", "S80-MM-G2-DIMS"]),
    ("every reduced form is listed, and larger dims enlarge the side inputs", &["S90-MM-G2-RED", "S80-MM-G2-RED"]),
    ("a conversion takes an operation in g1: S90-CBF-G1-NONE", &["S90-MIXED-NO-CBF"]),
    ("the epilogue's rows of dims and layout ask the same of these tensors", &["OP-GS-SHAPE", "OP-GS-LAYOUT"]),
    ("one spatial axis and rank 3 are one defect", &["OP-RF-SPATIAL", "OP-RF-RANK", "OP-RB-SPATIAL", "OP-RB-RANK"]),
    ("upsampling is bilinear on padded NHWC tensors, by rows of its own", &["OP-RF-NCHW-NO-UP"]),
    ("the stride decides the output's dims", &["OP-RF-BIL-DIMS", "OP-RF-BIL-STRIDE"]),
    ("an INT64 index is read, and no input is INT64: S70-DTYPE-INPUT", &["OP-RB-NCHW-NO-I64"]),
];

/// Rules that some row breaks alone. The graph that the row edits is its passing twin, on that surface and chip or on
/// the nearest that admits such graphs ([`super::every_base_is_legal`]).
fn broken_alone() -> BTreeSet<String> {
    let mut alone = BTreeSet::new();
    for suite in suites().filter(|suite| !suite.legal.is_empty()) {
        for row in suite.rows.iter().filter(|row| row.broken.len() == 1) {
            alone.extend(row.at.iter().flat_map(|&at| super::expected(row.broken, at)));
        }
    }
    alone
}

#[test]
fn every_restriction_is_broken_alone_beside_a_graph_that_passes() {
    let alone = broken_alone();
    let missing: BTreeSet<&str> = catalogue()
        .filter(|rule| rule.status().is_some() && !alone.contains(rule.id))
        .map(|rule| rule.id)
        .filter(|id| UNBREAKABLE.iter().all(|row| row.0 != *id))
        .collect();
    let listed: BTreeSet<&str> = NEVER_ALONE.iter().flat_map(|row| row.1).copied().collect();
    assert_eq!(missing, listed);
}
