//! The catalogue against the documented ids, and the suites against the catalogue.

use std::collections::BTreeSet;

use super::{At, suites};
use crate::support::{Entry, Kind, SurfaceId, catalogue, citations, entry, terms};

/// Ids of every documented rule.
const IDS: &str = include_str!("../../../tests/data/rule_ids.txt");

#[test]
fn the_catalogue_has_exactly_the_documented_ids() {
    let documented: BTreeSet<&str> = IDS.lines().collect();
    let found: Vec<&str> = catalogue().map(|rule| rule.id).collect();
    assert_eq!(found.len(), 603);
    assert_eq!(found.iter().copied().collect::<BTreeSet<_>>(), documented);
}

#[test]
fn records_say_where_they_come_from_and_what_they_ask() {
    for rule in catalogue() {
        assert!(!rule.scope.is_empty() && !rule.summary.is_empty(), "{}", rule.id);
        if let Err(message) = citations(rule.source) {
            panic!("the source of {}: {message}", rule.id);
        }
        let place = |surface: &SurfaceId| SurfaceId::named().position(|known| known == *surface);
        assert!(rule.surfaces.is_sorted_by_key(place), "{}", rule.id);
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
    ("MHAF-RNG-DIST", "random numbers of another distribution drop nothing: PAT-ONE-CORE"),
    ("MHAF-RANK", "products of another rank are none of an attention: PAT-ONE-CORE"),
    ("MHAB-RANK", "products of another rank are none of an attention: PAT-ONE-CORE"),
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
    ("an ADA_LAYER norm has rank 3: DRF-RANK", &["DRF-MODE"]),
    ("dO lies as O does, and O's row asks the same", &["FAB-DO-STRIDE", "F8B-DO-STRIDE"]),
    ("dV has the head size of dO", &["F8B-DO-D"]),
    ("an INT64 index is read, and no input is INT64: S70-DTYPE-INPUT", &["OP-RB-NCHW-NO-I64"]),
];

/// Ids of the restrictions, those left out that no graph can break.
pub(super) fn breakable() -> BTreeSet<&'static str> {
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

#[test]
fn other_ids_say_where_they_come_from_and_are_no_rules() {
    for term in terms() {
        assert!(catalogue().all(|rule| rule.id != term.id), "{} is a rule", term.id);
        assert_eq!(terms().iter().filter(|other| other.id == term.id).count(), 1, "{}", term.id);
        if let Err(message) = citations(term.source) {
            panic!("the source of {}: {message}", term.id);
        }
    }
    assert!(matches!(entry("fej-12"), Some(Entry::Term(term)) if term.id == "FEJ-12"));
    assert!(matches!(entry("s90-cc"), Some(Entry::Rule(rule)) if rule.id == "S90-CC"));
    assert!(entry("S90").is_none());
}

/// What looks like an id in a text and is none.
const NO_IDS: &[&str] = &["UTF-8", "UTF-16"];

/// Rules that tell what they are about to name a surface's: `S*-COMB-HALF` stands without its prefix in these files.
const PREFIXED_LATER: &[&str] = &["src/fuzz/breaker"];

#[test]
fn every_id_in_a_text_of_the_program_is_found() {
    let mut missing = BTreeSet::new();
    let mut seen = BTreeSet::new();
    for (path, text) in production_sources() {
        for literal in literals(&text) {
            for id in ids(literal) {
                seen.insert(id.to_owned());
                let is_known = entry(id).is_some()
                    || NO_IDS.contains(&id)
                    || is_of_every_surface(id)
                    || PREFIXED_LATER.iter().any(|folder| path.starts_with(folder));
                if !is_known {
                    missing.insert(format!("{id} in {path}"));
                }
            }
        }
    }
    assert_eq!(missing, BTreeSet::new(), "each needs a record in support/records or a term in support/index.rs");
    let unused: Vec<&str> = terms().iter().map(|term| term.id).filter(|id| !seen.contains(*id)).collect();
    assert_eq!(unused, Vec::<&str>::new(), "no text names these terms");
}

/// `DTYPE-RED-OUT`: what each surface has under its own prefix.
fn is_of_every_surface(id: &str) -> bool {
    SurfaceId::RUNTIME.iter().any(|surface| entry(&format!("S{surface}-{id}")).is_some())
}

/// Sources that messages come from, without their tests, by path in the repository.
fn production_sources() -> Vec<(String, String)> {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let (mut folders, mut sources) = (vec![root.join("src")], Vec::new());
    while let Some(folder) = folders.pop() {
        for file in std::fs::read_dir(folder).expect("the sources are there").map(|file| file.expect("listed").path()) {
            let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if file.is_dir() && name != "tests" {
                folders.push(file);
            } else if name.ends_with(".rs") && name != "tests.rs" && name != "index.rs" {
                let text = std::fs::read_to_string(&file).expect("sources are text");
                let text = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default().to_owned();
                let path = file.strip_prefix(root).expect("it is below the root").to_string_lossy().into_owned();
                sources.push((path, text));
            }
        }
    }
    sources
}

/// String literals of a source, comments left out.
fn literals(text: &str) -> Vec<&str> {
    let lines = text.lines().filter(|line| !line.trim_start().starts_with("//"));
    lines.flat_map(|line| line.split('"').skip(1).step_by(2)).collect()
}

/// Words of capitals and digits in parts joined by hyphens, and the two that are joined by underscores.
fn ids(literal: &str) -> Vec<&str> {
    let words = literal.split(|c: char| !(c.is_ascii_alphanumeric() || "-_*".contains(c)));
    let is_part = |part: &str| !part.is_empty() && part.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit());
    let is_id = |word: &&str| {
        let is_joined =
            word.contains('-') && word.starts_with(|c: char| c.is_ascii_uppercase()) && word.split('-').all(is_part);
        is_joined || ["ATTRIBUTE_NOT_SET", "SHAPE_DEDUCTION_FAILED"].contains(word)
    };
    words.filter(is_id).collect()
}
