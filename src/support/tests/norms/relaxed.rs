//! Graphs of these suites that run beyond the surfaces of norms: one file, whose graphs are run by the tiers of kernels.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Value, json};

use super::super::{At, Suite, snapshot};
use super::SUITES;
use crate::device::ComputeCapability;
use crate::engine::decide;
use crate::frontend::write_v2;
use crate::graph::Graph;
use crate::support::SurfaceId;

const FILE: &str = "tests/data/relaxed_norms.jsonl";

/// The graph on the chip, with the rules that the engine which takes it does without.
fn relaxed(graph: &Graph, (_, major, minor): At) -> Option<(BTreeSet<&'static str>, Value)> {
    let finalized = Arc::new(graph.finalize().ok()?);
    let decision = decide(&finalized, ComputeCapability::new(major, minor), &SurfaceId::ALL);
    decision.engine()?;
    let rules: BTreeSet<&str> = decision.report.relaxed().iter().map(|rule| rule.id).collect();
    let text: Value = serde_json::from_str(&write_v2(graph)).ok()?;
    Some((rules.clone(), json!({ "rules": rules, "chip": [major, minor], "graph": text })))
}

fn edited(suite: &Suite) -> Vec<(Graph, At)> {
    let pairs = suite.pairs.iter().flat_map(|pair| pair.refused.iter().map(|&at| (suite.edited(pair.breaks), at)));
    let rows = suite.rows.iter().flat_map(|row| row.at.iter().map(|&at| (suite.edited(row.edit), at)));
    pairs.chain(rows).collect()
}

#[test]
fn graphs_that_run_beyond_surfaces_of_norms_are_recorded() {
    let (mut known, mut lines) = (BTreeSet::new(), String::new());
    for (graph, at) in SUITES.iter().flat_map(edited) {
        let Some((rules, line)) = relaxed(&graph, at) else { continue };
        if !rules.is_subset(&known) {
            known.extend(rules);
            lines += &format!("{line}\n");
        }
    }
    snapshot::assert_file(FILE, &lines);
}
