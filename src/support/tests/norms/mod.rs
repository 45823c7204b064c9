//! The surfaces of norms.

pub(super) mod graphs;
mod relaxed;

use super::*;
use crate::graph::{Composite, DataType as T, NormForward, NormMode, NormPhase, PointwiseMode as M, Port};
use crate::support::family::norm::{ADD_RELU, BACKWARD, DRELU, FINALIZE, FORWARD, WEIGHTS};
use graphs::*;

const F: &[At] = &[(FORWARD, 9, 0)];
const B: &[At] = &[(BACKWARD, 9, 0)];
const AR: &[At] = &[(ADD_RELU, 9, 0)];
const DR: &[At] = &[(DRELU, 9, 0)];
const FIN: &[At] = &[(FINALIZE, 9, 0)];
const W: &[At] = &[(WEIGHTS, 9, 0)];

pub(super) static SUITES: &[Suite] = &[
    suite("layer norm", layer, &[(FORWARD, 9, 0), (FORWARD, 7, 0)], LAYER_PAIRS),
    suite("instance norm", instance, F, INSTANCE_PAIRS),
    suite("layer norm between chains", chained, F, CHAIN_PAIRS),
    suite("clamped layer norm", clamped, F, &[]),
    suite("ada layer norm", || forward(NormMode::AdaLayer, &[4, 6, 16]), F, &[]),
    suite("layer norm of rows of a matrix", || forward(NormMode::Layer, &[6, 16]), F, &[]),
    suite("layer norm, backward", layer_backward, &[(BACKWARD, 9, 0), (BACKWARD, 7, 0)], LAYER_BACKWARD_PAIRS),
    suite("instance norm, backward", instance_backward, B, INSTANCE_BACKWARD_PAIRS),
    suite("batch norm, add, relu", add_relu, &[(ADD_RELU, 9, 0), (ADD_RELU, 8, 0)], ADD_RELU_PAIRS),
    suite("batch norm, add, relu, mask", masked, AR, MASKED_PAIRS),
    suite("batch norm alone", || forward(NormMode::Batch, &X), AR, &[]),
    suite("instance norm, add, relu", || add_relu_of(NormMode::Instance, &X), AR, INSTANCE_ADD_PAIRS),
    Suite { rows: DRELU_ROWS, ..suite("batch norm, backward", drelu, &[(DRELU, 9, 0), (DRELU, 8, 0)], DRELU_PAIRS) },
    suite("batch norm, backward alone", || backward(NormMode::Batch, &X), DR, &[]),
    suite("layer norm, backward, masked", || masked_backward(NormMode::Layer, &X), DR, &[]),
    suite("batch norm, backward, recomputed", recomputed, DR, RECOMPUTED_PAIRS),
    suite("batch norm, statistics", finalize, &[(FINALIZE, 9, 0), (FINALIZE, 7, 0)], FINALIZE_PAIRS),
    suite("batch norm, weights", weights, &[(WEIGHTS, 9, 0), (WEIGHTS, 8, 0)], WEIGHTS_PAIRS),
];

const fn suite(name: &'static str, base: fn() -> Graph, legal: &'static [At], pairs: &'static [Pair]) -> Suite {
    Suite { name, base, legal, pairs, rows: &[] }
}

/// The norm's phase is another.
fn infers(g: &mut Graph) {
    let Attributes::Composite(Composite::NormForward(norm)) = &g.op("norm").attributes else { panic!("no norm") };
    let inferring = NormForward::new(norm.mode, NormPhase::Inference);
    g.op("norm").attributes = Attributes::Composite(inferring.into());
}

fn without_statistics(g: &mut Graph) {
    infers(g);
    g.op("norm").outputs.retain(|slot| slot.0 == Port::Y);
}

/// A scalar in device memory.
fn in_memory(g: &mut Graph, name: &str) {
    let scalar = g.t(name);
    (scalar.is_pass_by_value, scalar.value) = (false, None);
}

const LAYER_PAIRS: &[Pair] = &[
    pair("NA-10", F, twice, AS_IS),
    chips("N-165", &[(FORWARD, 6, 1), (FORWARD, 10, 0)], &[(FORWARD, 7, 0), (FORWARD, 9, 0)], AS_IS),
    pair("N-161", F, infers, without_statistics),
    pair("NF-MEAN", F, |g| g.types(&["MEAN"], T::Half), AS_IS),
    pair("NF-INV", F, |g| g.types(&["INV_VARIANCE"], T::BFloat16), AS_IS),
    pair("NF-SCALE", F, |g| *g = per_pixel(), AS_IS),
    pair("NF-EPS", F, |g| in_memory(g, "EPSILON"), AS_IS),
    pair("NF-LAYOUT", F, |g| g.reshape("X", chwn(X)), |g| g.reshape("X", strided(X, [800, 1, 120, 20]))),
    pair("NF-SAME-LAYOUT", F, |g| in_rows(g, &["Y"]), |g| in_rows(g, &["X", "SCALE", "BIAS", "Y"])),
    pair("NF-IO", F, |g| g.types(&["Y"], T::Fp8E4M3), |g| g.types(&["Y"], T::BFloat16)),
    pair("NF-COMP", F, |g| g.compute("norm", T::Half), AS_IS),
    pair("NF-W", F, |g| g.types(&["SCALE"], T::Int32), |g| g.types(&["SCALE"], T::BFloat16)),
    pair("NF-ALIGN", F, |g| g.t("X").alignment = 8, AS_IS),
    pair(
        "NF-ENGINE-SIZE",
        F,
        |g| {
            g.types(&["Y"], T::Float);
            g.types(&["SCALE"], T::Half);
        },
        |g| g.types(&["Y"], T::Float),
    ),
];

const INSTANCE_PAIRS: &[Pair] = &[
    pair(
        "NF-X",
        F,
        |g| *g = forward(NormMode::Instance, &[4, 16, 36]),
        |g| *g = forward(NormMode::Instance, &[4, 16, 36, 1]),
    ),
    pair("NF-W", F, |g| g.types(&["SCALE"], T::Half), AS_IS),
    pair("NF-ALIGN", F, |g| g.t("X").alignment = 4, |g| g.t("X").alignment = 8),
];

const CHAIN_PAIRS: &[Pair] = &[pair("N-70", F, branched, AS_IS)];

const LAYER_BACKWARD_PAIRS: &[Pair] = &[
    pair("NB-MEAN", B, |g| g.types(&["MEAN"], T::Half), AS_IS),
    pair("NB-INV", B, |g| g.types(&["INV_VARIANCE"], T::BFloat16), AS_IS),
    pair("NB-SCALE", B, |g| *g = per_pixel_backward(), AS_IS),
    pair("NB-LAYOUT", B, |g| g.reshape("X", chwn(X)), |g| g.reshape("X", strided(X, [800, 1, 120, 20]))),
    pair("NB-SAME-LAYOUT", B, |g| in_rows(g, &["DX"]), |g| in_rows(g, &["X", "DY", "SCALE", "DX", "DSCALE", "DBIAS"])),
    pair("NB-IO", B, |g| g.types(&["X", "DY", "DX"], T::Int8), |g| g.types(&["X", "DY", "DX"], T::BFloat16)),
    pair("NB-NO-MIX", B, |g| g.types(&["DX"], T::Float), |g| g.types(&["X", "DY", "DX"], T::Float)),
    pair("NB-COMP", B, |g| g.compute("norm", T::Half), AS_IS),
    pair("NB-W", B, |g| g.types(&["DSCALE"], T::Int32), |g| g.types(&["DSCALE"], T::Half)),
    pair("NB-ALIGN", B, |g| g.t("DY").alignment = 8, AS_IS),
];

const INSTANCE_BACKWARD_PAIRS: &[Pair] = &[
    pair(
        "NB-X",
        B,
        |g| *g = backward(NormMode::Instance, &[4, 16, 36]),
        |g| *g = backward(NormMode::Instance, &[4, 16, 36, 1]),
    ),
    pair("NB-W", B, |g| g.types(&["SCALE"], T::Half), AS_IS),
];

const ADD_RELU_PAIRS: &[Pair] = &[
    chips("BAR-CC", &[(ADD_RELU, 7, 5), (ADD_RELU, 10, 0)], &[(ADD_RELU, 8, 0), (ADD_RELU, 8, 9)], AS_IS),
    pair("BAR-LAYOUT", AR, |g| in_rows(g, &["Z"]), AS_IS),
    pair("BAR-LAYOUT", AR, |g| g.reshape("X", strided(X, [800, 1, 120, 20])), AS_IS),
    pair(
        "BAR-RANK",
        AR,
        |g| *g = add_relu_of(NormMode::Batch, &[4, 16, 36]),
        |g| *g = add_relu_of(NormMode::Batch, &[4, 16, 36, 1]),
    ),
    pair("BAR-ACT", AR, |g| g.pointwise_of("second").mode = M::TanhFwd, AS_IS),
    pair("BAR-MODE", AR, |g| *g = add_relu_of(NormMode::Layer, &X), |g| *g = add_relu_of(NormMode::Instance, &X)),
    pair("BAR-PHASE", AR, |g| *g = inference(), AS_IS),
    pair("BAR-INTYPE", AR, |g| g.types(&["PREV_RUNNING_MEAN"], T::Half), AS_IS),
    pair("BAR-INTYPE", AR, |g| g.types(&["SCALE"], T::Half), AS_IS),
    pair("BAR-OUTTYPE", AR, |g| g.types(&["MEAN"], T::Half), AS_IS),
    pair("BAR-XTYPE", AR, |g| g.types(&["Z"], T::Int8), |g| g.types(&["Z"], T::BFloat16)),
    pair(
        "BAR-C",
        AR,
        |g| *g = add_relu_of(NormMode::Batch, &[4, 12, 6, 6]),
        |g| {
            *g = add_relu_of(NormMode::Batch, &[4, 12, 6, 6]);
            g.types(&["X"], T::Float);
        },
    ),
    pair("BAR-ORDER", AR, relu_add, AS_IS),
    pair("N-65", AR, |g| g.store("first::OUT_0", nhwc(X)), AS_IS),
    pair("N-65", AR, |g| g.pointwise_of("first").mode = M::Mul, AS_IS),
    pair("N-17", AR, |g| in_memory(g, "MOMENTUM"), AS_IS),
    pair("N-159", AR, |g| g.compute("norm", T::Half), AS_IS),
];

/// The mask may be that of what the ReLU reads.
const MASKED_PAIRS: &[Pair] = &[pair("BAR-ORDER", AR, |g| compare(g, "norm::Y"), |g| compare(g, "first::OUT_0"))];

fn compare(g: &mut Graph, name: &str) {
    let compared = g.id(name);
    g.op("mask").inputs[0].1 = compared;
}

const INSTANCE_ADD_PAIRS: &[Pair] = &[pair("N-161", AR, infers, without_statistics)];

const DRELU_PAIRS: &[Pair] = &[
    chips("DRF-CC", &[(DRELU, 7, 5), (DRELU, 10, 0)], &[(DRELU, 8, 0), (DRELU, 8, 9)], AS_IS),
    pair("DRF-LAYOUT", DR, |g| in_rows(g, &["DX"]), AS_IS),
    pair(
        "DRF-RANK",
        DR,
        |g| *g = masked_backward(NormMode::Batch, &[4, 16, 36]),
        |g| *g = masked_backward(NormMode::Batch, &[4, 16, 36, 1]),
    ),
    pair("DRF-ACT", DR, |g| g.pointwise_of("drelu").mode = M::TanhBwd, |g| g.pointwise_of("drelu").mode = M::ReluBwd),
    pair("DRF-MASK", DR, |g| g.types(&["mask"], T::Half), AS_IS),
    pair("DRF-FLOAT", DR, |g| g.types(&["INV_VARIANCE"], T::Half), AS_IS),
    pair("DRF-FLOAT", DR, |g| g.types(&["DSCALE"], T::Half), AS_IS),
    pair("DRF-XTYPE", DR, |g| g.types(&["dY"], T::Int8), |g| g.types(&["dY"], T::BFloat16)),
    pair(
        "DRF-C",
        DR,
        |g| *g = masked_backward(NormMode::Batch, &[4, 12, 6, 6]),
        |g| {
            *g = masked_backward(NormMode::Batch, &[4, 12, 6, 6]);
            g.types(&["X"], T::Float);
        },
    ),
    pair("N-67", DR, |g| g.pointwise_of("drelu").mode = M::Add, AS_IS),
];

const DRELU_ROWS: &[Row] =
    &[row(DR, |g| *g = masked_backward(NormMode::AdaLayer, &[4, 6, 16]), &["DRF-MODE", "DRF-RANK"])];

const RECOMPUTED_PAIRS: &[Pair] = &[pair("N-66", DR, other_mean, AS_IS), pair("N-66", DR, stored_again, AS_IS)];

fn other_mean(g: &mut Graph) {
    let other = g.tensor(Tensor { name: "other".to_owned(), ..nhwc([1, X[1], 1, 1]) }.data_type(T::Float));
    g.op("again").inputs.iter_mut().filter(|slot| slot.0 == Port::MEAN).for_each(|slot| slot.1 = other);
}

fn stored_again(g: &mut Graph) {
    g.store("again::Y", nhwc(X));
}

const FINALIZE_PAIRS: &[Pair] = &[
    pair("EC-1", FIN, activated_scale, AS_IS),
    pair("N-63", FIN, |g| g.types(&["EQ_SCALE"], T::Half), AS_IS),
    pair("N-10h", FIN, |g| *g = finalize_of(&[2, 16, 1, 1]), AS_IS),
    pair("LF-COUNT", FIN, |g| g.types(&["ACCUM_COUNT"], T::Int32), AS_IS),
    pair("LF-FACTOR", FIN, |g| g.types(&["EPSILON"], T::Int32), |g| g.types(&["EPSILON"], T::Double)),
    pair("N-17", FIN, |g| in_memory(g, "EPSILON"), AS_IS),
];

fn activated_scale(g: &mut Graph) {
    let scale = g.id("EQ_SCALE");
    let y = g.pointwise("relu", M::ReluFwd, &[scale]);
    g.set_output(y);
}

const WEIGHTS_PAIRS: &[Pair] = &[
    chips("DDB-CC", &[(WEIGHTS, 7, 5), (WEIGHTS, 8, 9)], &[(WEIGHTS, 8, 0), (WEIGHTS, 9, 0)], AS_IS),
    pair("N-80", W, |g| g.pointwise_of("drelu").mode = M::TanhBwd, AS_IS),
    pair("N-80", W, |g| g.store("bias::OUT_0", nhwc(X)), AS_IS),
    pair("DDB-CONVTYPE", W, |g| g.types(&["dy"], T::BFloat16), AS_IS),
    pair("DDB-BNTYPE", W, |g| g.types(&["X"], T::Float), AS_IS),
    pair("DDB-BNTYPE", W, |g| g.types(&["BIAS"], T::Half), AS_IS),
    pair("DDB-OUTTYPE", W, |g| g.types(&["EQ_BIAS"], T::Half), AS_IS),
    pair("DDB-ALIGN", W, |g| g.t("MEAN").alignment = 8, AS_IS),
    pair("DDB-INPUTS", W, weights_of_other_mean, AS_IS),
    pair("DDB-ALPHA2", W, |g| added_with(g, 1.0), |g| added_with(g, -1.0)),
    pair("DDB-DYBN-OUT", W, |g| g.t("dy_bn").is_virtual = true, AS_IS),
];

fn weights_of_other_mean(g: &mut Graph) {
    let other = g.tensor(Tensor { name: "other".to_owned(), ..nhwc([1, X[1], 1, 1]) }.data_type(T::Float));
    g.op("norm").inputs.iter_mut().filter(|slot| slot.0 == Port::MEAN).for_each(|slot| slot.1 = other);
}

fn decided(graph: &Graph) -> crate::engine::Decision {
    let graph = Arc::new(graph.finalize().expect("well formed"));
    crate::engine::decide(&graph, ComputeCapability::SM_90, &SurfaceId::ALL)
}

#[test]
fn every_norm_that_a_surface_takes_is_run_as_documented() {
    for suite in SUITES {
        let decision = decided(&(suite.base)());
        // gradients of rows behind a mask are on both surfaces, of which single norms come first
        let first = if suite.name == "layer norm, backward, masked" { BACKWARD } else { suite.legal[0].0 };
        assert_eq!(decision.report.surface(), Some(first), "{}", suite.name);
        let engine = if first == WEIGHTS { "warpgroup_mma" } else { "scalar" };
        assert_eq!(decision.engine().map(|engine| engine.name()), Some(engine), "{}", suite.name);
    }
}

#[test]
fn beyond_its_surface_a_norm_runs_with_the_broken_rules_named() {
    let mut ragged = add_relu_of(NormMode::Batch, &[4, 35, 6, 6]);
    in_rows(&mut ragged, &["X", "Z", "Y"]);
    let decision = decided(&ragged);
    let relaxed: Vec<&str> = decision.report.relaxed().iter().map(|rule| rule.id).collect();
    assert_eq!((decision.report.surface(), relaxed), (None, vec!["BAR-C", "BAR-LAYOUT"]));
    assert_eq!(decision.engine().map(|engine| engine.name()), Some("scalar"));
}

#[test]
fn a_mean_may_be_taken_away_by_an_add_that_counts_it_negatively() {
    let mut graph = weights();
    added_with(&mut graph, -1.0);
    let decision = decided(&graph);
    let taken = (decision.report.surface(), decision.engine().map(|engine| engine.name()));
    assert_eq!(taken, (Some(WEIGHTS), Some("warpgroup_mma")));
}

#[test]
fn statistics_of_a_norm_for_inference_are_refused() {
    for (base, surface) in [(layer as fn() -> Graph, FORWARD), (|| add_relu_of(NormMode::Instance, &X), ADD_RELU)] {
        let mut graph = base();
        infers(&mut graph);
        let refused = decided(&graph).into_selection().expect_err("N-161");
        assert_eq!(refused.status(), crate::support::DetailedStatus::GraphPattern);
        let report = refused.report().expect("surfaces were asked");
        assert_eq!(report.nearest().map(|outcome| outcome.surface), Some(surface));
        assert!(report.violations().any(|violation| violation.rule.id == "N-161"));
        let reasons: Vec<String> = refused.engines().iter().map(ToString::to_string).collect();
        assert!(reasons.concat().contains("phase INFERENCE has no MEAN (N-161)"), "{reasons:?}");
        without_statistics(&mut graph);
        assert_eq!(decided(&graph).report.surface(), Some(surface));
    }
}

#[test]
fn graphs_without_norms_are_asked_of_the_runtime_surfaces_alone() {
    for base in [super::graphs::matmul, super::graphs::forward, super::graphs::image] {
        let graph = Arc::new(base().finalize().expect("well formed"));
        let outcomes = check(&graph, ComputeCapability::new(6, 0), &SurfaceId::ALL).outcomes;
        let surfaces: Vec<SurfaceId> = outcomes.iter().map(|outcome| outcome.surface).collect();
        assert_eq!(surfaces, SurfaceId::RUNTIME);
    }
}
