//! The catalogue against the documented ids, and the suites against the catalogue.

use std::collections::BTreeSet;

use super::{At, suites};
use crate::support::{Kind, SurfaceId, catalogue};

/// Ids of every documented rule.
const IDS: &str = include_str!("../../../tests/data/rule_ids.txt");

#[test]
fn the_catalogue_has_exactly_the_documented_ids() {
    let documented: BTreeSet<&str> = IDS.lines().collect();
    let found: Vec<&str> = catalogue().map(|rule| rule.id).collect();
    assert_eq!(found.len(), 352);
    assert_eq!(found.iter().copied().collect::<BTreeSet<_>>(), documented);
}

#[test]
fn records_say_where_they_come_from_and_what_they_ask() {
    for rule in catalogue() {
        assert!(!rule.scope.is_empty() && !rule.summary.is_empty(), "{}", rule.id);
        assert!(rule.source.starts_with(['0', 'p']), "{} names no document: {}", rule.id, rule.source);
        assert!(rule.surfaces.is_sorted(), "{}", rule.id);
        if let Some(surface) = SurfaceId::RUNTIME.into_iter().find(|s| rule.id.starts_with(&format!("S{s}-"))) {
            assert_eq!(rule.surfaces, [surface], "{}", rule.id);
        }
    }
}

#[test]
fn restated_rules_name_a_rule_that_is_reported() {
    let checked: BTreeSet<&str> = catalogue().filter(|rule| rule.status().is_some()).map(|rule| rule.id).collect();
    for rule in catalogue() {
        if let Kind::Restated(by) = rule.kind {
            let is_reported =
                SurfaceId::RUNTIME.iter().any(|s| checked.contains(by.replace('*', &s.to_string()).as_str()));
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

/// Ids of the restrictions, those left out that no graph can break.
fn breakable() -> BTreeSet<&'static str> {
    let restrictions = catalogue().filter(|rule| rule.status().is_some()).map(|rule| rule.id);
    restrictions.filter(|id| UNBREAKABLE.iter().all(|row| row.0 != *id)).collect()
}

#[test]
fn every_restriction_has_a_graph_that_breaks_it() {
    let pairs = suites().flat_map(|suite| suite.pairs).map(|pair| (pair.refused, [pair.rule].to_vec()));
    let rows = suites().flat_map(|suite| suite.rows).map(|row| (row.at, row.broken.to_vec()));
    let broken: BTreeSet<String> =
        pairs.chain(rows).flat_map(|(at, rules)| at.iter().flat_map(move |&at| super::expected(&rules, at))).collect();
    let missing: Vec<&str> = breakable().into_iter().filter(|&id| !broken.contains(id)).collect();
    assert_eq!(missing, Vec::<&str>::new());
}

#[test]
fn every_restriction_has_a_pair_save_those_never_broken_alone() {
    let paired: BTreeSet<String> = suites()
        .flat_map(|suite| suite.pairs)
        .flat_map(|pair| {
            let is_taken = |at: &&At| pair.taken.iter().any(|taken| taken.0 == at.0);
            pair.refused.iter().filter(is_taken).flat_map(|&at| super::expected(&[pair.rule], at))
        })
        .collect();
    let missing: BTreeSet<&str> = breakable().into_iter().filter(|&id| !paired.contains(id)).collect();
    let listed: BTreeSet<&str> = NEVER_ALONE.iter().flat_map(|row| row.1).copied().collect();
    assert_eq!(missing, listed);
}
