//! Mainloop fusion of convolutions, and the stages as such.

use super::graphs::*;
use super::*;
use crate::graph::{ConvolutionDirection, PointwiseMode, Port};

const H_A: &[At] = &[H90, A80];

pub(super) static SUITES: &[Suite] = &[
    Suite {
        name: "forward, chain",
        base: forward_g1,
        legal: &[H90, A80, A70],
        pairs: FORWARD_PAIRS,
        rows: FORWARD_ROWS,
    },
    Suite { name: "forward, conversion", base: forward_mixed, legal: &[H90, A80], pairs: &[], rows: MIXED_ROWS },
    Suite {
        name: "backward filter, chain",
        base: backward_filter_g1,
        legal: &[A70],
        pairs: FILTER_PAIRS,
        rows: FILTER_ROWS,
    },
    Suite { name: "backward data, chain", base: backward_data_g1, legal: &[H90], pairs: DATA_PAIRS, rows: DATA_ROWS },
];

const FORWARD_PAIRS: &[Pair] = &[
    pair("S*-CF-G1-DIMS", H_A, |g| g.reshape("scale", nhwc([2, 1, 8, 8])), |g| g.reshape("scale", nhwc(IMAGE))),
    pair(
        "S*-CF-G1-GROUP",
        H_A,
        |g| grouped(g, 16, 2),
        |g| {
            grouped(g, 16, 2);
            scalars(g);
        },
    ),
    pair("S80-G1-ALIGN-GROUP", &[A80], |g| padded_groups(g, 3), |g| padded_groups(g, 4)),
    pair("S70-CONV-G1-CHAIN", &[A70], |g| mode(g, "mul", PointwiseMode::Sub), AS_IS),
    pair("S70-CONV-G1-OPERAND", &[A70], |g| g.reshape("scale", nhwc([1, 1, 1, 1])), AS_IS),
    pair("S70-CONV-G1-HALF", &[A70], |g| g.types(&["scale"], DataType::Float), AS_IS),
];

const FORWARD_ROWS: &[Row] = &[
    row(&[V70, T70], AS_IS, &["S70-G1-CC"]),
    row(H_A, |g| g.swap("mul"), &[]),
    row(&[A70], |g| g.swap("mul"), &["S70-CF-G1-X", "S70-G1-BCAST-FIRST"]),
    row(H_A, |g| g.reshape("scale", nhwc([1, 1, 1, 1])), &[]),
    row(&[A70], |g| g.types(&["mul::OUT_0"], DataType::Float), &["S70-CONV-G1-HALF"]),
    row(H_A, |g| g.types(&["scale", "mul::OUT_0"], DataType::Float), &[]),
    row(&[A70], |g| g.types(&["X"], DataType::Float), &["S70-CONV-G1-HALF", "S70-NO-MIXED"]),
    row(&[A80], |g| g.t("X").alignment = 2, &["S80-G1-ALIGN-32"]),
    row(&[H90, A80, A70], |g| g.store("relu::OUT_0", nhwc(IMAGE)), &["S*-G1-VIRTUAL"]),
];

const MIXED_ROWS: &[Row] = &[
    row(&[A70], AS_IS, &["S70-NO-MIXED", "S70-CONV-G1-CHAIN", "S70-CONV-G1-HALF"]),
    row(H_A, |g| g.types(&["X"], DataType::Int32), &[]),
    row(
        H_A,
        |g| {
            g.types(&["X"], DataType::Int8);
            g.compute("cast", DataType::Int32);
        },
        &[],
    ),
];

const FILTER_PAIRS: &[Pair] =
    &[pair("S90-CBF-G1-NONE", &[H90], AS_IS, |g| *g = lone(ConvolutionDirection::BackwardFilter, 1))];

const FILTER_ROWS: &[Row] = &[
    row(&[H90], |g| g.types(&["mul::OUT_0"], DataType::Float), &["S90-CBF-G1-NONE", "S90-MIXED-NO-CBF"]),
    row(&[A70], |g| g.swap("add"), &["S70-CBF-G1-X", "S70-G1-BCAST-FIRST"]),
    row(&[A70], |g| mode(g, "relu", PointwiseMode::TanhFwd), &["S70-CONV-G1-CHAIN"]),
];

const DATA_PAIRS: &[Pair] = &[
    pair("S90-CBD-G1-DIMS", &[H90], |g| g.reshape("scale", nhwc([2, 1, 8, 8])), |g| g.reshape("scale", nhwc(RESPONSE))),
    pair("S70-CBD-G1-NONE", &[A70], AS_IS, |g| *g = lone(ConvolutionDirection::BackwardData, 1)),
];

const DATA_ROWS: &[Row] = &[row(&[H90], |g| g.swap("mul"), &[])];

fn mode(g: &mut Graph, name: &str, mode: PointwiseMode) {
    g.pointwise_of(name).mode = mode;
}

fn grouped(g: &mut Graph, channels: i64, groups: i64) {
    g.reshape("X", nhwc([2, channels, 8, 8]));
    g.reshape("W", nhwc([32, channels / groups, 3, 3]));
    ["scale", "shift"].iter().for_each(|name| g.reshape(name, nhwc([1, channels, 1, 1])));
}

/// Two groups of so many channels; the filter's lines are padded to four channels.
fn padded_groups(g: &mut Graph, channels: i64) {
    grouped(g, 2 * channels, 2);
    scalars(g);
    g.reshape("W", strided([32, channels, 3, 3], [48, 1, 12, 4]));
}

fn scalars(g: &mut Graph) {
    ["scale", "shift"].iter().for_each(|name| g.reshape(name, nhwc([1, 1, 1, 1])));
}

#[test]
fn operations_get_the_stage_that_data_flow_gives_them() {
    use crate::fusion::{Pattern, Side, Stage, fuse};
    let graph = Arc::new(backward_filter_g1().finalize().expect("well formed"));
    let fusion = fuse(Arc::clone(&graph)).expect("a backward filter with g1 on X");
    assert_eq!(fusion.pattern(), Pattern::ConvolutionBackwardFilter);
    assert_eq!(fusion.operations(Stage::Before(Side::A)).count(), 3);
    let names =
        |ids: Vec<crate::graph::TensorId>| ids.iter().map(|&id| graph.tensor(id).name.clone()).collect::<BTreeSet<_>>();
    let expected = ["X", "scale", "shift"].map(str::to_owned);
    assert_eq!(names(fusion.stage_inputs(Stage::Before(Side::A))), BTreeSet::from(expected));
    let product = fusion.product().expect("it has a core");
    assert_eq!(graph.tensor(fusion.anchor(product.operand(Side::A))).name, "X");
    let [dy, x] = product.tensors();
    assert_eq!((graph.tensor(dy).name.as_str(), graph.tensor(x).name.as_str()), ("DY", "relu::OUT_0"));
    assert_eq!(fusion.stage_outputs(Stage::Before(Side::A)), [x]);
}

#[test]
fn a_graph_of_ten_thousand_operations_is_cut_and_checked() {
    let mut graph = matmul();
    let mut value = graph.id("add::OUT_0");
    for _ in 0..10_000 {
        value = graph.pointwise("next", PointwiseMode::Abs, &[value]);
    }
    graph.op("relu").inputs[0] = (Port::IN_0, value);
    assert_eq!(broken(&graph, H90), BTreeSet::new());
}

#[test]
fn the_order_of_operations_is_nothing() {
    for suite in suites() {
        let mut graph = (suite.base)();
        let names: Vec<String> = graph.operations().iter().map(|op| op.name.clone()).collect();
        let verdicts: Vec<_> = [H90, A80, A70].map(|at| broken(&graph, at)).into();
        graph.operations.reverse();
        assert_eq!(verdicts, [H90, A80, A70].map(|at| broken(&graph, at)), "{names:?}");
    }
}
