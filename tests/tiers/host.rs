//! Without CUDA: the CPU engine against the f64 oracle, and properties of the rendered text.

use std::sync::Arc;

use fusewright::device::ComputeCapability;
use fusewright::engine::{self, Floor};
use fusewright::graph::{Attributes, FinalizedGraph, Graph};
use fusewright::host_tensor::HostTensors;
use fusewright::reference::{Distribution, bounds, compare, evaluate_f64, execute, random_inputs, shrink};
use fusewright::support::SurfaceId;
use libtest_mimic::{Failed, Trial};

use crate::cases::{self, Case};
use crate::common::verdicts;
use crate::data;
use crate::modes;
use crate::pipeline;
use crate::relaxed;
use crate::warp_attention;

/// Verdict graphs that are malformed: a reduction that reduces nothing, or a pointwise result that is not the
/// broadcast of its operands.
const MALFORMED_VERDICTS: usize = 33;

/// Work of a suite graph, shrunk if need be: the oracle and its bounds take about a second. Elements are those of all tensors of the
/// definition, virtual ones too: the scores of an attention are more than its operands.
const ORACLE_FLOPS: u64 = 1 << 27;
const ORACLE_ELEMENTS: u64 = 1 << 19;

/// Families of verdict graphs around a convolution.
const CONVOLUTIONS: [&str; 3] = ["fprop", "dgrad", "wgrad"];

/// Work of a verdict graph, shrunk if need be: all of them together take seconds.
const VERDICT_FLOPS: u64 = 1 << 22;
const VERDICT_BYTES: u64 = 1 << 19;

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    for case in cases::all() {
        let Case { name, graph, .. } = case;
        let suite = graph.clone();
        trials.push(Trial::test(format!("host::oracle::{name}"), move || agrees_with_oracle(&suite)));
        trials.push(Trial::test(format!("host::render::{name}"), move || renders_the_same_twice(&graph)));
    }
    for (name, graph) in data::suite().unwrap_or_default() {
        let Ok(graph) = graph.finalize() else { continue };
        if graph.operations().all(|operation| !matches!(operation.attributes, Attributes::Other(_))) {
            trials.push(Trial::test(format!("host::oracle::{name}"), move || suite_agrees_with_oracle(&graph)));
        }
    }
    trials.push(Trial::test("host::render::cases_of_unfolded_operands_unfold_them", cases_unfold));
    trials.push(modes::known_values());
    trials.push(modes::every_mode_has_a_case());
    trials.extend(modes::trials("host", |_, graph, inputs| Ok(execute(graph, inputs)?)));
    for family in CONVOLUTIONS {
        let test = move || verdict_convolutions_agree_with_oracle(family);
        trials.push(Trial::test(format!("host::oracle::verdicts_of_{family}"), test));
    }
    trials.push(Trial::test("host::relaxed::cases_break_their_rules", relaxed::cases_break_their_rules));
    trials.push(Trial::test("host::relaxed::every_relaxation_is_exercised", relaxed::every_relaxation_is_exercised));
    trials.push(Trial::test("host::data::suite_has_54_graphs", suite_is_complete));
    trials
        .push(Trial::test("host::attention::gradients_of_biases_are_hoppers", warp_attention::refuses_bias_gradients));
    trials.push(Trial::test("host::data::verdicts_have_3979_graphs", verdicts_are_complete));
    trials
}

/// A suite graph, shrunk by the rule of [`shrink`] to what the oracle evaluates in about a second.
fn suite_agrees_with_oracle(graph: &FinalizedGraph) -> Result<(), Failed> {
    let is_small = |graph: &FinalizedGraph| {
        let definition = graph.expand();
        let elements = definition.tensor_ids().map(|id| definition.tensor(id).dim.iter().product::<i64>() as u64);
        Floor::of(graph).flops <= ORACLE_FLOPS && elements.fold(0, u64::saturating_add) <= ORACLE_ELEMENTS
    };
    match shrink(graph, is_small, |_| true) {
        Some(shrunk) => finalized_agrees_with_oracle(&shrunk.graph),
        None => finalized_agrees_with_oracle(graph),
    }
}

/// Cases that are named so have operands that are unfolded, both of them, to windows, and along rows.
fn cases_unfold() -> Result<(), Failed> {
    let mut others = Vec::new();
    let is_named_so = |case: &Case| ["conv_unfolded", "conv_windows"].iter().any(|name| case.name.starts_with(name));
    for case in cases::all().into_iter().filter(is_named_so) {
        let source = pipeline::lower(&case.graph, &pipeline::typical_device())?.source;
        let unfolds = source.launches.iter().filter(|launch| launch.function.starts_with("fw_unfold")).count() == 2;
        let walks_taps = source.text.contains("++column");
        if !unfolds || (case.name.contains("_rows") && !walks_taps) {
            others.push(case.name);
        }
    }
    if others.is_empty() { Ok(()) } else { Err(others.join(", ").into()) }
}

fn agrees_with_oracle(graph: &Graph) -> Result<(), Failed> {
    finalized_agrees_with_oracle(&graph.finalize()?)
}

/// The CPU engine is within the oracle's bounds, on random and on small-integer inputs.
fn finalized_agrees_with_oracle(graph: &FinalizedGraph) -> Result<(), Failed> {
    for distribution in [Distribution::Normal, Distribution::SmallIntegers] {
        let inputs = random_inputs(graph, 1, distribution)?;
        let mut oracle = HostTensors::new();
        for (id, dense) in evaluate_f64(graph, &inputs)? {
            oracle.insert(id, dense.to_host(graph.tensor(id))?);
        }
        let bounds = bounds(graph, &inputs)?;
        let comparison = compare(graph, &oracle, &execute(graph, &inputs)?, Some(&bounds))?;
        if !comparison.is_match() {
            return Err(format!("{distribution:?} inputs\n{comparison}").into());
        }
    }
    Ok(())
}

/// Every convolution graph of the verdict file that a surface takes, shrunk where it is large. Those that stay too large
/// (their windows run over large images) are left out.
#[allow(clippy::print_stdout, reason = "how many were run is read beside the results")]
fn verdict_convolutions_agree_with_oracle(family: &str) -> Result<(), Failed> {
    let is_small = |graph: &FinalizedGraph| {
        let floor = Floor::of(graph);
        floor.flops <= VERDICT_FLOPS && floor.bytes <= VERDICT_BYTES
    };
    let (mut whole, mut shrunk, mut large) = (0, 0, 0);
    for record in verdicts::read()?.iter().filter(|record| record.family == family) {
        let Some(graph) = supported(&record.graph) else { continue };
        let smaller = shrink(&graph, is_small, |_| true).map(|shrunk| shrunk.graph);
        let run = smaller.as_ref().unwrap_or(&graph);
        if !is_small(run) {
            large += 1;
            continue;
        }
        *(if smaller.is_some() { &mut shrunk } else { &mut whole }) += 1;
        finalized_agrees_with_oracle(run).map_err(|error| format!("record {}: {:?}", record.id, error.message()))?;
    }
    println!("{family}: {whole} graphs as they are, {shrunk} shrunk, {large} too large");
    if whole + shrunk == 0 { Err("no graph was run".into()) } else { Ok(()) }
}

/// The graph, where a surface takes it.
fn supported(graph: &Graph) -> Option<Arc<FinalizedGraph>> {
    let graph = Arc::new(graph.finalize().ok()?);
    let decision = engine::decide(&graph, ComputeCapability::SM_90, &SurfaceId::ALL);
    decision.report.supported.is_some().then_some(graph)
}

/// Rendering is deterministic, and independent of names and uids.
fn renders_the_same_twice(graph: &Graph) -> Result<(), Failed> {
    let device = pipeline::typical_device();
    let first = pipeline::lower(graph, &device)?;
    let renamed = pipeline::lower(&data::renamed(graph), &device)?;
    if first.source != renamed.source {
        return Err("names or uids changed the source".into());
    }
    Ok(())
}

fn suite_is_complete() -> Result<(), Failed> {
    let graphs = data::suite()?;
    if graphs.len() != 55 {
        return Err(format!("{} suite graphs", graphs.len()).into());
    }
    for (name, graph) in graphs {
        graph.finalize().map_err(|error| format!("{name}: {error}"))?;
    }
    Ok(())
}

fn verdicts_are_complete() -> Result<(), Failed> {
    let records = verdicts::read()?;
    if records.len() != 3979 {
        return Err(format!("{} verdict graphs", records.len()).into());
    }
    let malformed = records.iter().filter(|record| record.graph.finalize().is_err()).count();
    if malformed != MALFORMED_VERDICTS {
        return Err(format!("{malformed} malformed graphs, expected {MALFORMED_VERDICTS}").into());
    }
    Ok(())
}
