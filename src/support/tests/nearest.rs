//! The nearest legal change: every kind of edit, each checked again.

use super::graphs::*;
use super::*;
use crate::engine::{self, remedy};
use crate::graph::{PointwiseMode, ReductionMode};
use crate::support::{Answer, Remedy};

fn reported(graph: &Graph, (surface, major, minor): At) -> (Arc<crate::graph::FinalizedGraph>, crate::support::Report) {
    let finalized = Arc::new(graph.finalize().expect("well formed"));
    let report = check(&finalized, ComputeCapability::new(major, minor), &[surface]);
    (finalized, report)
}

/// The change that makes a refused graph legal there; every graph of it is checked again here.
fn change(graph: &Graph, at: At) -> Option<Answer> {
    let (finalized, report) = reported(graph, at);
    assert!(report.supported.is_none(), "the graph is refused");
    let answer = engine::to_hold(&finalized, &report)?;
    for graph in answer.change.descriptions() {
        assert_eq!(broken(&graph, at), BTreeSet::new(), "{}", answer.change.text);
    }
    Some(answer)
}

/// What helps a graph on Hopper, whatever the surface.
fn helped(graph: &Graph) -> Remedy {
    let finalized = Arc::new(graph.finalize().expect("well formed"));
    let decision = engine::decide(&finalized, ComputeCapability::SM_90, &SurfaceId::ALL);
    assert!(decision.engine().is_none(), "the graph is refused");
    remedy(&finalized, &decision.report)
}

#[track_caller]
fn expect(base: fn() -> Graph, at: At, edit: fn(&mut Graph), text: &str) {
    let mut graph = base();
    edit(&mut graph);
    let change = change(&graph, at).map(|answer| answer.change.text);
    assert_eq!(change.as_deref(), Some(text));
}

#[test]
fn inputs_are_swapped() {
    let swapped = "swap the first two inputs of operation 'add' (POINTWISE ADD)";
    expect(matmul, H90, |g| g.swap("add"), swapped);
    expect(matmul, A70, |g| g.swap("add"), swapped);
}

#[test]
fn inputs_that_neither_commute_nor_have_a_mirror_stay() {
    let mut graph = matmul();
    graph.pointwise_of("add").mode = PointwiseMode::Pow;
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
fn operations_that_do_not_commute_are_written_the_other_way_round() {
    for (mode, expected) in [
        (PointwiseMode::CmpGt, "CMP_LT of 'mm::C' (uid 3) and 'bias' (uid 4)"),
        (PointwiseMode::Sub, "ADD of the NEG of 'mm::C' (uid 3) and 'bias' (uid 4)"),
    ] {
        let mut graph = matmul();
        graph.swap("add");
        graph.pointwise_of("add").mode = mode;
        let answer = change(&graph, H90).expect("the other way round");
        assert_eq!(answer.change.text, format!("write operation 'add' (POINTWISE {}) as {expected}", mode.name()));
        assert_eq!(answer.change.price, "");
    }
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
fn a_reduction_that_no_surface_takes_is_no_small_change() {
    let mut graph = matmul_reduction();
    graph.op("sum").attributes = Attributes::Reduction(crate::graph::Reduction::new(ReductionMode::Amax));
    assert!(change(&graph, H90).is_none(), "alone, too, only surface 70 was to take it");
}

#[test]
fn two_tensors_are_padded() {
    let both = "pad the strides of tensors 'A' (uid 1) and 'B' (uid 2) to [768,24,1], [1152,72,1]";
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
    let pointers = "align the pointers of tensors 'A' (uid 1), 'scale' (uid 2) and 'B' (uid 4) to 16 bytes";
    expect(matmul_g1, H90, |g| ["A", "scale", "B"].iter().for_each(|name| g.t(name).alignment = 8), pointers);
}

#[test]
fn four_defects_of_different_kinds_are_no_small_change() {
    let mut graph = matmul();
    graph.swap("add");
    graph.t("A").alignment = 2;
    graph.compute("relu", DataType::Int32);
    let answer = change(&graph, H90).expect("three edits");
    assert_eq!((answer.change.count, answer.change.edits.len()), (3, 3));
    graph.types(&["mm::C"], DataType::Int64);
    assert!(change(&graph, H90).is_none());
}

#[test]
fn one_type_for_many_virtual_tensors_is_one_edit() {
    let mut graph = matmul();
    let mut value = graph.id("add::OUT_0");
    for _ in 0..17 {
        value = graph.pointwise("next", PointwiseMode::Abs, &[value]);
        graph.tensor_mut(value).data_type = Some(DataType::Int64);
    }
    graph.op("relu").inputs[0].1 = value;
    let answer = change(&graph, H90).expect("all FLOAT");
    assert_eq!((answer.change.count, answer.change.edits.len()), (1, 17));
}

#[test]
fn a_place_that_needs_no_edit_is_left_out() {
    let mut graph = matmul();
    graph.t("A").alignment = 8;
    graph.t("bias").alignment = 8;
    let answer = change(&graph, H90).expect("aligned");
    let found = broken(&graph, H90);
    let aligned: Vec<_> = answer.change.edits.iter().filter_map(|edit| edit.tensor.as_deref()).collect();
    for left_out in &aligned {
        let mut fewer = graph.clone();
        aligned.iter().filter(|name| name != &left_out).for_each(|name| fewer.t(name).alignment = 16);
        assert_ne!(broken(&fewer, H90), BTreeSet::new(), "'{left_out}' need not be aligned; broken before: {found:?}");
    }
}

#[test]
fn outputs_and_inputs_take_a_type_that_runs() {
    let mut graph = lone_matmul();
    graph.types(&["A", "B"], DataType::Double);
    let run = helped(&graph).run.expect("FLOAT operands");
    assert_eq!(run.change.text, "make tensors 'A' (uid 1) and 'B' (uid 2) FLOAT instead of DOUBLE");
    assert_eq!(
        run.change.price,
        "the caller's data are FLOAT, which holds 24 significant bits, not 53, and values beyond 3.40e38 become infinite"
    );
    let kinds: Vec<_> = run.change.edits.iter().map(|edit| (edit.kind, &edit.from, &edit.to)).collect();
    assert_eq!(kinds, [("data_type", &"DOUBLE".into(), &"FLOAT".into()); 2]);
}

#[test]
fn images_are_laid_out_with_channels_last() {
    let mut graph = forward();
    let dim = graph.t("X").dim.clone();
    graph.reshape("X", Tensor::new("").row_major(dim));
    let answer = change(&graph, H90).expect("NHWC");
    assert!(
        answer.change.text.starts_with("lay out tensor 'X' (uid 1) channels last (NHWC): strides ["),
        "{}",
        answer.change.text
    );
    assert_eq!(answer.change.price, "the caller's memory is laid out so");
}

#[test]
fn an_axis_is_added_and_batches_are_folded() {
    let flat = |dims: [&[i64]; 2]| {
        let mut graph = Graph::new().io_data_type(DataType::Half).compute_data_type(DataType::Float);
        let [a, b] = dims.map(|dim| graph.tensor(Tensor::new("").row_major(dim)));
        let c = graph.matmul("mm", a, b);
        graph.set_output(c);
        graph
    };
    let answer = change(&flat([&[32, 16], &[16, 64]]), H90).expect("rank 3");
    assert_eq!(answer.change.text, "give every tensor an axis of 1 in front");
    let answer = change(&flat([&[2, 3, 32, 16], &[2, 3, 16, 64]]), H90).expect("rank 3");
    assert_eq!(answer.change.text, "fold all axes before the last two of every tensor into one batch axis");
    let folded: Vec<_> = answer.change.graphs[0].tensors().map(|tensor| tensor.dim.clone()).collect();
    assert_eq!(folded, [vec![6, 32, 16], vec![6, 16, 64], vec![6, 32, 64]]);
}

/// Two matmuls in a chain, the first's result only read by the second.
fn chain() -> Graph {
    let mut graph = lone_matmul();
    let c = graph.id("C");
    graph.tensor_mut(c).is_virtual = true;
    graph.tensor_mut(c).data_type = Some(DataType::Half);
    let b = graph.tensor(Tensor::new("B2").row_major([2, 64, 32]));
    let second = graph.matmul("mm2", c, b);
    graph.set_output(second);
    graph
}

#[test]
fn two_cores_are_cut_apart_and_both_graphs_are_legal() {
    let Remedy { run, hold } = helped(&chain());
    let run = run.expect("two graphs");
    let sentence = "cut it into 2 graphs; graph 1: 'mm' (MATMUL); it stores 'C' (uid 3); graph 2: 'mm2' (MATMUL)";
    assert_eq!(run.change.sentence(), sentence);
    assert_eq!(run.change.price, "2 launches at least; 8192 bytes written and read again");
    assert_eq!((run.change.count, run.change.graphs.len(), run.engines.len()), (1, 2, 2));
    assert_eq!(run.held(), Some(vec![SurfaceId::S90]));
    assert!(hold.is_some_and(|hold| hold.change.text == run.change.text));
    let names: Vec<_> = run.change.graphs.iter().map(|graph| graph.name().to_owned()).collect();
    assert_eq!(names, [".1", ".2"]);
}

#[test]
fn a_supported_graph_needs_no_change() {
    let finalized = Arc::new(matmul().finalize().expect("well formed"));
    let report = check(&finalized, ComputeCapability::SM_90, &SurfaceId::ALL);
    let Remedy { run, hold } = remedy(&finalized, &report);
    assert!(run.is_none() && hold.is_none());
}

#[test]
fn what_a_wrong_layout_hides_is_told() {
    let mut graph = forward();
    let dim = graph.t("X").dim.clone();
    graph.reshape("X", Tensor::new("").row_major(dim));
    let (finalized, report) = reported(&graph, H90);
    assert!(crate::support::hidden(&finalized, &report).is_empty(), "channels of whole vectors");
    let mut graph = lone(crate::graph::ConvolutionDirection::Forward, 1);
    let [x, w, y] = ["X", "W", "Y"].map(|name| graph.t(name).dim.clone());
    graph.reshape("X", Tensor::new("").row_major([x[0], 3, x[2], x[3]]));
    graph.reshape("W", Tensor::new("").channels_last([w[0], 3, w[2], w[3]]));
    graph.reshape("Y", Tensor::new("").channels_last(y));
    let (finalized, report) = reported(&graph, H90);
    let hidden = crate::support::hidden(&finalized, &report);
    let told: Vec<_> = hidden.iter().map(|violation| (violation.rule.id, violation.place.as_str())).collect();
    assert_eq!(told, [("S90-G1-ALIGN-128", "tensor 'X' (uid 1)")]);
}

#[test]
fn two_types_are_two_edits_of_one_kind() {
    let mut graph = int8_matmul();
    graph.compute("mm", DataType::Half);
    let c = graph.id("C");
    let exponential = graph.pointwise("exponential", PointwiseMode::Exp, &[c]);
    graph.last_operation().compute_data_type = Some(DataType::Double);
    graph.set_output(exponential).data_type = Some(DataType::Float);
    let Remedy { run, hold } = helped(&graph);
    let run = run.expect("engines compute both in FLOAT").change;
    assert_eq!((run.count, run.edits.len()), (1, 2), "{}", run.text);
    let hold = hold.expect("INT32 and FLOAT");
    let types: Vec<_> = hold.change.edits.iter().map(|edit| (edit.kind, edit.to.as_str())).collect();
    let both = [("compute_data_type", Some("INT32")), ("compute_data_type", Some("FLOAT"))];
    assert!(types.len() == 2 && both.iter().all(|edit| types.contains(edit)), "{}", hold.change.text);
}

#[test]
fn norms_are_brought_onto_their_surfaces() {
    use super::norms::graphs::{add_relu, add_relu_of, layer};
    use crate::support::family::norm::{ADD_RELU, FORWARD};
    let (single, activated) = ((FORWARD, 9, 0), (ADD_RELU, 9, 0));
    let text = "make tensor 'MEAN' (uid 6) FLOAT instead of HALF";
    expect(layer, single, |g| g.types(&["MEAN"], DataType::Half), text);
    let text = "lay out tensor 'Z' (uid 13) channels last (NHWC): strides [576,1,96,16]";
    expect(add_relu, activated, |g| g.reshape("Z", rows([4, 16, 6, 6])), text);
    let text = "compute operation 'norm' (BATCHNORM) in FLOAT instead of HALF";
    expect(add_relu, activated, |g| g.compute("norm", DataType::Half), text);
    let ragged = add_relu_of(crate::graph::NormMode::Batch, &[4, 35, 6, 6]);
    let answer = change(&ragged, activated).expect("whole vectors of channels");
    assert_eq!(
        answer.change.text,
        "give every tensor of 35 channels 40, packed, and leave those at the end out of the results"
    );
    assert_eq!(answer.change.price, "the caller's data have channels of zeros at the end");
    let x = answer.change.edits.iter().find(|edit| edit.tensor.as_deref() == Some("X")).expect("X has more");
    assert_eq!((x.kind, &x.to), ("channels", &serde_json::json!([4, 40, 6, 6])));
    assert!(answer.change.edits.iter().all(|edit| edit.tensor.as_deref() != Some("EPSILON")));
}
