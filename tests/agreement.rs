//! Our verdicts beside those of cuDNN 9.19 on an H200, for 3,979 random graphs.
//!
//! The documented surfaces are the law, so the two differ; how is kept in `tests/data/agreement.txt`, which this test
//! compares (`FUSEWRIGHT_BLESS=1` rewrites it). Every rule by which a graph is refused that the library accepts needs
//! a reason in [`WAITING`].

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::Arc;

use common::snapshot;
use common::verdicts::{self, VerdictRecord};
use fusewright::device::ComputeCapability;
use fusewright::engine::{self, Decision};
use fusewright::support::SurfaceId;
use rayon::prelude::*;

/// Families, a part of the decisive rule's id, and why graphs that the library accepts wait; the first row counts.
const WAITING: &[(&[&str], &str, &str)] =
    &[(&["matmul"], "-COMB-FLOAT", "never: in that type operands are others; the library ignores it")];

/// What we say of a graph.
enum Ours {
    Malformed,
    Refused { rule: &'static str },
    Accepted { surface: SurfaceId, relaxed: bool, runs: bool },
}

fn ours(record: &VerdictRecord) -> Ours {
    let Ok(graph) = record.graph.finalize() else { return Ours::Malformed };
    let decision = engine::decide(&Arc::new(graph), ComputeCapability::SM_90, &SurfaceId::ALL);
    match &decision.report.supported {
        None => Ours::Refused { rule: decisive_rule(&decision) },
        Some(supported) => Ours::Accepted {
            surface: supported.surface(),
            relaxed: !supported.relaxed().is_empty(),
            runs: decision.engine().is_some(),
        },
    }
}

/// The first rule of the surface that comes nearest.
fn decisive_rule(decision: &Decision) -> &'static str {
    let nearest = decision.report.nearest().and_then(|outcome| outcome.violations.first());
    nearest.expect("a refusal names a rule").rule.id
}

/// Counts of one family; pairs are (accepted by the library, refused by it).
#[derive(Default)]
struct Counts {
    graphs: usize,
    documented: [usize; 2],
    relaxed: [usize; 2],
    refused: [usize; 2],
    malformed: [usize; 2],
    /// Accepted by both, and an engine of ours takes it.
    running: usize,
}

impl Counts {
    fn add(&mut self, record: &VerdictRecord, ours: &Ours) {
        let theirs = usize::from(!record.is_accepted);
        self.graphs += 1;
        match ours {
            Ours::Malformed => self.malformed[theirs] += 1,
            Ours::Refused { .. } => self.refused[theirs] += 1,
            Ours::Accepted { relaxed: true, .. } => self.relaxed[theirs] += 1,
            Ours::Accepted { .. } => self.documented[theirs] += 1,
        }
        self.running += usize::from(record.is_accepted && matches!(ours, Ours::Accepted { runs: true, .. }));
    }

    fn row(&self, family: &str) -> String {
        let Self { graphs, documented, relaxed, refused, malformed, running } = self;
        let columns = [
            *graphs,
            documented[0] + relaxed[0],
            relaxed[0],
            *running,
            refused[1],
            refused[0],
            documented[1] + relaxed[1],
            relaxed[1],
            malformed[0],
            malformed[1],
        ];
        columns.iter().fold(format!("{family:<10}"), |row, count| format!("{row} {count:>8}"))
    }
}

/// `both acc` and so on count graphs; `relaxed` and `runs` are a part of the column before.
const HEAD: &str = "\
family       graphs both acc  relaxed     runs both ref they acc   we acc  relaxed  malformed: they acc, ref";

#[test]
#[allow(clippy::print_stdout, reason = "the table is read with --nocapture")]
fn agreement_with_the_closed_library() {
    let records = verdicts::read().expect("the file is in the repository");
    let answers: Vec<Ours> = records.par_iter().map(ours).collect();
    let pairs = || records.iter().zip(&answers);
    let (mut total, mut families) = (Counts::default(), BTreeMap::<&str, Counts>::new());
    for (record, ours) in pairs() {
        total.add(record, ours);
        families.entry(&record.family).or_default().add(record, ours);
    }
    let mut text = format!("Verdicts of fusewright and of cuDNN 9.19 on sm_90.\n\n{HEAD}\n");
    let rows = families.iter().map(|(family, counts)| counts.row(family));
    rows.chain([total.row("all")]).for_each(|row| text.extend([row.as_str(), "\n"]));
    text += &shares(&total);
    text += &only_they(pairs());
    text += &only_we(pairs());
    println!("{text}");
    snapshot::assert_file("tests/data/agreement.txt", &text);
}

fn shares(total: &Counts) -> String {
    let theirs = total.documented[0] + total.relaxed[0] + total.refused[0] + total.malformed[0];
    let share = |count: usize| format!("{count} of {theirs}, {:.1} %", 100.0 * count as f64 / theirs as f64);
    format!(
        "\nOf the graphs that the library accepts we accept\n  as documented  {}\n  with relaxed   {}\n  and run        {}\n",
        share(total.documented[0]),
        share(total.documented[0] + total.relaxed[0]),
        share(total.running),
    )
}

/// What the library accepts and we refuse, by family and decisive rule, most frequent first.
fn only_they<'a>(pairs: impl Iterator<Item = (&'a VerdictRecord, &'a Ours)>) -> String {
    let mut counts = BTreeMap::<(&str, &str), usize>::new();
    for (record, ours) in pairs.filter(|(record, _)| record.is_accepted) {
        if let Ours::Refused { rule } = ours {
            *counts.entry((&record.family, rule)).or_default() += 1;
        }
    }
    let mut rows: Vec<_> = counts.into_iter().collect();
    rows.sort_by_key(|&((family, _), count)| (family, std::cmp::Reverse(count)));
    let mut text = "\nOnly they accept: family, decisive rule, graphs, why it waits\n".to_owned();
    let mut missing = BTreeSet::new();
    for ((family, rule), count) in rows {
        let reason = WAITING.iter().find(|row| row.0.contains(&family) && rule.contains(row.1));
        missing.extend(reason.is_none().then_some((family, rule)));
        let reason = reason.map_or("no reason", |row| row.2);
        writeln!(text, "  {family:<9} {rule:<26} {count:>4}  {reason}").expect("a string takes everything");
    }
    assert!(missing.is_empty(), "refused though the library accepts, without a reason in WAITING: {missing:?}\n{text}");
    text
}

/// What we accept and the library refuses.
fn only_we<'a>(pairs: impl Iterator<Item = (&'a VerdictRecord, &'a Ours)>) -> String {
    let mut counts = BTreeMap::<(&str, SurfaceId, bool), usize>::new();
    for (record, ours) in pairs.filter(|(record, _)| !record.is_accepted) {
        if let &Ours::Accepted { surface, relaxed, .. } = ours {
            *counts.entry((&record.family, surface, relaxed)).or_default() += 1;
        }
    }
    let mut text = "\nOnly we accept: family, surface, graphs\n".to_owned();
    for ((family, surface, relaxed), count) in counts {
        let how = if relaxed { "relaxed" } else { "documented" };
        writeln!(text, "  {family:<9} {surface} {how:<11} {count:>4}").expect("a string takes everything");
    }
    text
}
