//! The nearest legal change: every kind of edit, each checked again.

use super::graphs::*;
use super::*;
use crate::graph::{PointwiseMode, ReductionMode};
use crate::support::{Change, nearest_change};

/// The change that makes a refused graph legal there; it is checked again here.
fn change(graph: &Graph, (surface, major, minor): At) -> Option<Change> {
    let finalized = Arc::new(graph.finalize().expect("well formed"));
    let capability = ComputeCapability::new(major, minor);
    let report = check(&finalized, capability, &[surface]);
    assert!(report.supported.is_none(), "the graph is refused");
    let change = nearest_change(&finalized, &report)?;
    assert_eq!(broken(&change.graph, (surface, major, minor)), BTreeSet::new(), "{}", change.description);
    Some(change)
}

#[track_caller]
fn expect(base: fn() -> Graph, at: At, edit: fn(&mut Graph), description: &str) {
    let mut graph = base();
    edit(&mut graph);
    let change = change(&graph, at).map(|change| change.description);
    assert_eq!(change.as_deref(), Some(description));
}

#[test]
fn inputs_are_swapped() {
    let swapped = "swap the first two inputs of operation 'add' (POINTWISE ADD)";
    expect(matmul, H90, |g| g.swap("add"), swapped);
    expect(matmul, A70, |g| g.swap("add"), swapped);
}

#[test]
fn inputs_that_do_not_commute_stay() {
    let mut graph = matmul();
    graph.pointwise_of("add").mode = PointwiseMode::Sub;
    graph.swap("add");
    assert!(change(&graph, H90).is_none());
}

#[test]
fn pointers_are_aligned() {
    let aligned = "align the pointer of tensor 'A' (uid 1) to 16 bytes";
    expect(lone_matmul, H90, |g| g.t("A").alignment = 8, aligned);
    expect(lone_matmul, A80, |g| g.t("A").alignment = 2, aligned);
}

#[test]
fn strides_are_padded() {
    let padded = "pad the strides of tensor 'A' (uid 1) to [1024,24,1]";
    expect(lone_matmul, H90, |g| g.reshape("A", strided([2, 32, 16], [1024, 20, 1])), padded);
    expect(
        lone_matmul,
        H90,
        |g| g.reshape("A", strided([2, 32, 16], [640, 20, 1])),
        "pad the strides of tensor 'A' (uid 1) to [768,24,1]",
    );
    expect(
        matmul,
        H90,
        |g| g.reshape("Y", strided([2, 32, 64], [2048, 63, 1])),
        "pad the strides of tensor 'Y' (uid 6) to [2048,64,1]",
    );
}

#[test]
fn virtual_tensors_change_their_type() {
    expect(
        matmul,
        H90,
        |g| g.types(&["mm::C"], DataType::Int64),
        "make virtual tensor 'mm::C' (uid 3) FLOAT instead of INT64",
    );
    expect(
        logic,
        A70,
        |g| g.types(&["gt::OUT_0"], DataType::Float),
        "make virtual tensor 'gt::OUT_0' (uid 3) INT32 instead of FLOAT",
    );
}

#[test]
fn core_operands_are_converted() {
    let converted = "convert tensor 'B' (uid 2) to FLOAT with a Pointwise IDENTITY before operation 'mm' (MATMUL)";
    expect(lone_matmul, H90, |g| g.types(&["A"], DataType::Float), converted);
    expect(
        matmul_g1,
        H90,
        |g| g.types(&["mul::OUT_0"], DataType::BFloat16),
        "make virtual tensor 'mul::OUT_0' (uid 3) HALF instead of BFLOAT16",
    );
}

#[test]
fn operations_compute_in_another_type() {
    expect(
        int8_matmul,
        H90,
        |g| g.compute("mm", DataType::Float),
        "compute operation 'mm' (MATMUL) in INT32 instead of FLOAT",
    );
    expect(
        matmul,
        H90,
        |g| g.compute("relu", DataType::Int32),
        "compute operation 'relu' (POINTWISE RELU_FWD) in FLOAT instead of INT32",
    );
    expect(
        logic,
        A70,
        |g| g.compute("not", DataType::Float),
        "compute operation 'not' (POINTWISE LOGICAL_NOT) in BOOLEAN instead of FLOAT",
    );
}

#[test]
fn a_trailing_reduction_is_left_to_another_graph() {
    let mut graph = matmul_reduction();
    graph.op("sum").attributes = Attributes::Reduction(crate::graph::Reduction::new(ReductionMode::Amax));
    let change = change(&graph, H90).expect("without the reduction it is legal");
    assert!(change.description.starts_with("store tensor 'relu::OUT_0' (uid"), "{}", change.description);
    assert!(change.description.ends_with("leave operation 'sum' (REDUCTION AMAX) to a second graph"));
    assert_eq!(change.graph.operations().len(), 2);
}

#[test]
fn two_tensors_are_padded() {
    let both =
        "pad the strides of tensor 'A' (uid 1) to [768,24,1]; pad the strides of tensor 'B' (uid 2) to [1152,72,1]";
    expect(
        lone_matmul,
        H90,
        |g| {
            g.reshape("A", strided([2, 32, 16], [640, 20, 1]));
            g.reshape("B", strided([2, 16, 64], [1056, 66, 1]));
        },
        both,
    );
}

#[test]
fn two_edits_of_different_kinds_are_made() {
    expect(
        matmul,
        H90,
        |g| {
            g.swap("add");
            g.t("A").alignment = 2;
        },
        "swap the first two inputs of operation 'add' (POINTWISE ADD); align the pointer of tensor 'A' (uid 1) to 16 bytes",
    );
}

#[test]
fn one_kind_of_edit_is_made_wherever_its_rule_is_broken() {
    let pointers = "align the pointer of tensor 'A' (uid 1) to 16 bytes; align the pointer of tensor 'scale' (uid 2) to 16 bytes; \
                    align the pointer of tensor 'B' (uid 4) to 16 bytes";
    expect(matmul_g1, H90, |g| ["A", "scale", "B"].iter().for_each(|name| g.t(name).alignment = 8), pointers);
}

#[test]
fn three_defects_of_different_kinds_are_no_small_change() {
    let mut graph = matmul();
    graph.swap("add");
    graph.t("A").alignment = 2;
    graph.compute("relu", DataType::Int32);
    assert!(change(&graph, H90).is_none());
}

#[test]
fn many_broken_rules_are_no_small_change() {
    for (readers, is_found) in [(16, true), (17, false)] {
        let mut graph = matmul();
        let mut value = graph.id("add::OUT_0");
        for _ in 0..readers {
            value = graph.pointwise("next", PointwiseMode::Abs, &[value]);
            graph.tensor_mut(value).data_type = Some(DataType::Int64);
        }
        graph.op("relu").inputs[0].1 = value;
        assert_eq!(change(&graph, H90).is_some(), is_found, "{readers} virtual tensors of INT64");
    }
}

#[test]
fn a_supported_graph_needs_no_change() {
    let finalized = Arc::new(matmul().finalize().expect("well formed"));
    let report = check(&finalized, ComputeCapability::SM_90, &SurfaceId::ALL);
    assert!(nearest_change(&finalized, &report).is_none());
}
