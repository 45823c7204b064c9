//! Matmul graphs.

use super::graphs::*;
use super::*;
use crate::graph::{PointwiseMode, Port, ReductionMode, Reordering, SignalMode};

const ALL: &[At] = &[H90, A80, A70];
const H_A: &[At] = &[H90, A80];

pub(super) static SUITES: &[Suite] = &[
    Suite { name: "matmul", base: matmul, legal: ALL, pairs: MATMUL_PAIRS, rows: MATMUL_ROWS },
    Suite {
        name: "lone matmul",
        base: lone_matmul,
        legal: &[H90, A80, H80, V70, A70],
        pairs: LONE_PAIRS,
        rows: LONE_ROWS,
    },
    Suite { name: "int8 matmul", base: int8_matmul, legal: ALL, pairs: INT8_PAIRS, rows: INT8_ROWS },
    Suite {
        name: "matmul, reduction",
        base: matmul_reduction,
        legal: ALL,
        pairs: REDUCTION_PAIRS,
        rows: REDUCTION_ROWS,
    },
    Suite { name: "matmul, g1A", base: matmul_g1, legal: ALL, pairs: G1_PAIRS, rows: G1_ROWS },
    Suite { name: "matmul, g1B", base: matmul_g1b, legal: H_A, pairs: G1B_PAIRS, rows: G1B_ROWS },
    Suite { name: "matmul, concat", base: matmul_concat, legal: &[A70], pairs: CONCAT_PAIRS, rows: CONCAT_ROWS },
];

const MATMUL_PAIRS: &[Pair] = &[
    pair(
        "S*-MM-G2-C",
        ALL,
        |g| {
            full_bias(g);
            g.swap("add");
        },
        full_bias,
    ),
    pair(
        "S*-G2-BCAST-FIRST",
        ALL,
        |g| side(g, ["bias", "gain"], [2, 32, 64]),
        |g| side(g, ["gain", "bias"], [2, 32, 64]),
    ),
    pair("S70-MM-G2-DIMS", &[A70], |g| g.reshape("bias", rows([2, 1, 1])), |g| g.reshape("bias", rows([1, 1, 1]))),
    pair("S*-MM-G2-OUT", ALL, |g| side(g, ["bias"], [2, 1, 64]), |g| side(g, ["gain"], [2, 32, 64])),
    pair(
        "S*-MM-G2-LAYOUT",
        ALL,
        |g| {
            full_bias(g);
            g.reshape("Y", columns([2, 32, 64]));
        },
        |g| ["bias", "Y"].iter().for_each(|name| g.reshape(name, columns([2, 32, 64]))),
    ),
    pair(
        "S*-MM-G2-PACK",
        H_A,
        |g| g.reshape("Y", strided([2, 32, 64], [2048, 63, 1])),
        |g| g.reshape("Y", strided([2, 32, 64], [2048, 64, 1])),
    ),
    pair("S70-G2-ALIGN-32", &[A70], |g| g.t("bias").alignment = 2, |g| g.t("bias").alignment = 4),
];

const MATMUL_ROWS: &[Row] = &[
    // Order of operands, forms of the side input.
    row(ALL, |g| g.swap("add"), &["S*-MM-G2-C", "S*-G2-BCAST-FIRST"]),
    row(ALL, |g| g.reshape("bias", rows([2, 32, 1])), &[]),
    row(H_A, |g| g.reshape("bias", rows([1, 1, 64])), &[]),
    row(H_A, |g| g.reshape("bias", rows([1, 32, 64])), &[]),
    row(&[A70], |g| g.reshape("bias", rows([1, 1, 64])), &["S70-MM-G2-DIMS"]),
    row(&[A70], |g| g.reshape("bias", rows([1, 32, 64])), &["S70-MM-G2-DIMS"]),
    // An epilogue of larger batch than C.
    row(ALL, larger_batch, &["S*-MM-G2-DIMS", "S*-MM-G2-OUT", "S*-G2-BCAST-FIRST"]),
    // Layout and packing.
    row(ALL, |g| g.reshape("Y", columns([2, 32, 64])), &[]),
    row(ALL, |g| g.reshape("Y", strided([2, 32, 64], [4096, 128, 2])), &["S*-MM-G2-LAYOUT"]),
    row(H_A, |g| g.reshape("Y", strided([2, 32, 64], [4096, 65, 1])), &[]),
    row(&[A70], |g| g.reshape("Y", strided([2, 32, 64], [4096, 66, 1])), &["S70-MM-G2-LAYOUT"]),
    row(H_A, |g| g.reshape("Y", strided([2, 32, 64], [64, 128, 1])), &[]),
    row(H_A, |g| g.reshape("bias", strided([2, 1, 64], [1, 1, 1])), &[]),
    row(ALL, |g| g.t("bias").reordering = Reordering::F16x16, &["S*-MM-G2-LAYOUT"]),
    // Pointers on other surfaces, and those of Pointwise outputs.
    row(H_A, |g| g.t("bias").alignment = 2, &[]),
    row(ALL, |g| g.t("Y").alignment = 2, &[]),
    // Placement.
    row(ALL, concat_in_g2, &["S*-G2-OPS"]),
    row(ALL, unfused::carried, &["S*-G2-OPS"]),
];

const LONE_PAIRS: &[Pair] = &[
    chips("S90-CC", &[(SurfaceId::S90, 8, 9), (SurfaceId::S90, 10, 0)], &[H90], AS_IS),
    chips(
        "S80-CC",
        &[(SurfaceId::S80, 7, 5), (SurfaceId::S80, 8, 8), (SurfaceId::S80, 10, 0)],
        &[A80, L80, H80],
        AS_IS,
    ),
    chips(
        "S70-CC",
        &[(SurfaceId::S70, 6, 1), (SurfaceId::S70, 7, 1), (SurfaceId::S70, 12, 0)],
        &[V70, T70, A70],
        AS_IS,
    ),
    pair("PAT-ONE-CORE", ALL, second_core, AS_IS),
    pair("S70-MM-G1-A", &[A70], |g| g.reshape("A", rows([1, 32, 16])), AS_IS),
    pair("S70-MM-G1-B", &[A70], |g| g.reshape("B", rows([1, 16, 64])), AS_IS),
    pair(
        "S*-MM-G1-LAYOUT",
        ALL,
        |g| g.reshape("A", strided([2, 32, 16], [1024, 32, 2])),
        |g| g.reshape("A", columns([2, 32, 16])),
    ),
    pair(
        "S90-G1-ALIGN-128",
        &[H90],
        |g| g.reshape("A", strided([2, 32, 16], [1024, 20, 1])),
        |g| g.reshape("A", strided([2, 32, 16], [1024, 24, 1])),
    ),
    pair("S*-G1-ALIGN-32", &[A80, A70], |g| g.t("A").alignment = 2, |g| g.t("A").alignment = 4),
];

const LONE_ROWS: &[Row] = &[
    // Rank and batch.
    row(ALL, rank_4, &["S*-MM-G1-A", "S*-MM-G1-B", "S*-MM-G2-C"]),
    row(H_A, |g| g.reshape("A", rows([1, 32, 16])), &[]),
    // Layout.
    row(&[A70], |g| g.reshape("A", strided([2, 32, 16], [1024, 24, 1])), &["S70-MM-G1-LAYOUT"]),
    row(H_A, |g| g.reshape("A", strided([2, 32, 16], [16, 32, 1])), &[]),
    // Alignment.
    row(&[A80], |g| g.reshape("A", strided([2, 32, 16], [1024, 18, 1])), &[]),
    row(&[A80], |g| g.reshape("A", strided([2, 32, 16], [1024, 17, 1])), &["S80-G1-ALIGN-32"]),
    row(&[H90], |g| g.t("A").alignment = 8, &["S90-G1-ALIGN-128"]),
    row(&[A70], odd_n, &["S70-G1-ALIGN-32", "S70-G2-ALIGN-32"]),
    row(&[A70], |g| g.t("C").alignment = 2, &["S70-G2-ALIGN-32"]),
    row(&[H90, A80], |g| g.t("C").alignment = 2, &[]),
    // Extents from outside.
    row(ALL, overrides, &["PAT-MM"]),
];

const INT8_PAIRS: &[Pair] = &[
    pair("S*-COMB-INT8", ALL, |g| g.compute("mm", DataType::Float), AS_IS),
    pair("S70-MM-INT8-LAYOUT", &[A70], |g| g.reshape("B", rows([2, 16, 64])), AS_IS),
];

const INT8_ROWS: &[Row] = &[
    row(&[A70], |g| g.reshape("A", columns([2, 32, 16])), &["S70-MM-INT8-LAYOUT"]),
    row(H_A, |g| g.reshape("B", rows([2, 16, 64])), &[]),
];

const REDUCTION_PAIRS: &[Pair] = &[
    pair("S70-MM-G2-RED", &[A70], |g| reduce_to(g, [2, 1, 1]), |g| reduce_to(g, [1, 1, 1])),
    pair("S*-MM-G2-RED-ROW", ALL, |g| g.store("mm::C", columns([2, 32, 64])), |g| g.store("mm::C", rows([2, 32, 64]))),
    pair(
        "OP-RED-LAYOUT",
        H_A,
        |g| g.store("relu::OUT_0", strided([2, 32, 64], [4096, 66, 1])),
        |g| g.store("relu::OUT_0", rows([2, 32, 64])),
    ),
    pair("OP-RED-OP", ALL, |g| reduction(g, ReductionMode::Amax), |g| reduction(g, ReductionMode::Max)),
    pair("S*-DTYPE-RED-OUT", ALL, |g| g.types(&["R"], DataType::Half), AS_IS),
    pair("S*-CT-RED", ALL, |g| g.compute("sum", DataType::Half), AS_IS),
    pair("S*-G2-RED-EXIT", ALL, |g| centred(g, "R"), |g| centred(g, "mm::C")),
    pair("S*-G2-OPS", ALL, second_reduction, AS_IS),
    pair("OP-COMPOSITE", ALL, |g| unfused::softmaxed(g, "mm::C"), AS_IS),
    pair(
        "S70-G2-SIGNAL-NO-RED",
        &[A70],
        |g| signal(g, "relu::OUT_0"),
        |g| {
            *g = matmul();
            signal(g, "Y");
        },
    ),
];

const REDUCTION_ROWS: &[Row] = &[
    row(ALL, |g| reduce_to(g, [2, 32, 1]), &[]),
    row(H_A, |g| reduce_to(g, [1, 32, 64]), &[]),
    row(&[A70], |g| reduce_to(g, [1, 32, 64]), &["S70-MM-G2-RED"]),
    row(H_A, beyond_reduction, &["S*-MM-G2-RED", "S*-MM-G2-DIMS", "S*-G2-BCAST-FIRST"]),
    row(ALL, |g| g.store("relu::OUT_0", columns([2, 32, 64])), &["S*-MM-G2-RED-ROW", "OP-RED-LAYOUT"]),
    row(&[A70], |g| g.store("relu::OUT_0", rows([2, 32, 64])), &[]),
    row(ALL, after_reduction, &["S*-G2-RED-EXIT", "S*-MM-G2-OUT"]),
];

const G1_PAIRS: &[Pair] = &[
    pair("PAT-MM", H_A, |g| both_scaled(g, true), |g| both_scaled(g, false)),
    chips("S70-G1-CC", &[V70, T70], &[A70], AS_IS),
    pair("S*-G1-OPS", ALL, reduce_in_g1, root_in_g1),
    pair("S*-G1-VIRTUAL", ALL, |g| g.store("mul::OUT_0", rows([2, 32, 16])), AS_IS),
    pair("S70-G1-BCAST-FIRST", &[A70], |g| scaled_gain(g, ["scale", "gain"]), |g| scaled_gain(g, ["gain", "scale"])),
    pair("S70-NO-MIXED", &[A70], |g| g.types(&["B", "mul::OUT_0"], DataType::BFloat16), AS_IS),
    pair("S70-MM-G1-A-HALF", &[A70], |g| g.types(&["A", "B", "mul::OUT_0"], DataType::Float), AS_IS),
    pair("S70-MM-G1A-DIMS", &[A70], |g| g.reshape("scale", rows([1, 32, 1])), |g| g.reshape("scale", rows([2, 32, 1]))),
    pair(
        "S70-MM-G1A-FULL-HALF",
        &[A70],
        |g| {
            full_scale(g);
            g.types(&["scale"], DataType::Float);
        },
        full_scale,
    ),
    pair(
        "S70-MM-G1A-SAME",
        &[A70],
        |g| {
            full_scale(g);
            g.reshape("A", columns([2, 32, 16]));
        },
        |g| ["A", "scale"].iter().for_each(|name| g.reshape(name, columns([2, 32, 16]))),
    ),
];

const G1_ROWS: &[Row] = &[
    row(ALL, |g| g.reshape("scale", rows([2, 1, 16])), &[]),
    row(ALL, |g| g.reshape("scale", rows([1, 1, 1])), &[]),
    row(H_A, |g| g.reshape("scale", rows([1, 32, 1])), &[]),
    row(ALL, |g| g.types(&["scale"], DataType::Float), &[]),
    row(H_A, |g| g.swap("mul"), &[]),
    row(&[A70], |g| g.swap("mul"), &["S70-MM-G1-A", "S70-G1-BCAST-FIRST"]),
    row(&[A70], |g| g.reshape("A", rows([2, 1, 16])), &["S70-MM-G1-A", "S70-G1-BCAST-FIRST"]),
    row(H_A, |g| g.reshape("A", rows([2, 1, 16])), &[]),
    // Conversion.
    row(H_A, |g| g.types(&["A"], DataType::Float), &[]),
    row(&[A70], |g| g.types(&["A"], DataType::Float), &["S70-NO-MIXED", "S70-MM-G1-A-HALF"]),
    row(H_A, |g| g.compute("mul", DataType::Int32), &[]),
    // Alignment of side inputs.
    row(&[H90], |g| g.t("scale").alignment = 8, &["S90-G1-ALIGN-128"]),
    row(&[A80, A70], |g| g.t("scale").alignment = 2, &["S*-G1-ALIGN-32"]),
    // Shape of the graph.
    row(&[A70], |g| both_scaled(g, true), &["PAT-MM"]),
    row(ALL, read_g1_in_g2, &["PAT-MM"]),
];

const G1B_PAIRS: &[Pair] = &[pair("S70-MM-G1B-NONE", &[A70], AS_IS, |g| *g = lone_matmul())];

const G1B_ROWS: &[Row] = &[
    row(&[A70], |g| g.swap("mul"), &["S70-MM-G1B-NONE", "S70-G1-BCAST-FIRST"]),
    row(&[A70], |g| g.types(&["B"], DataType::Float), &["S70-MM-G1B-NONE", "S70-NO-MIXED"]),
    row(H_A, |g| g.reshape("scale", rows([1, 16, 1])), &[]),
    row(&[H90], |g| g.t("B").alignment = 8, &["S90-G1-ALIGN-128"]),
];

const CONCAT_PAIRS: &[Pair] =
    &[pair("S70-G1-ORDER", &[A70], |g| negate_before(g, "join", 0), |g| negate_before(g, "mm", 0))];

const CONCAT_ROWS: &[Row] = &[
    row(H_A, AS_IS, &["S*-G1-OPS"]),
    row(&[A70], |g| g.reshape("A0", columns([2, 32, 8])), &["S70-MM-G1A-SAME"]),
    row(&[A70], |g| g.types(&["A0", "A1", "join::Y", "B"], DataType::Float), &["S70-MM-G1-A-HALF"]),
];

fn full_bias(g: &mut Graph) {
    g.reshape("bias", rows([2, 32, 64]));
}

fn larger_batch(g: &mut Graph) {
    g.reshape("A", rows([1, 32, 16]));
    g.reshape("B", rows([1, 16, 64]));
    g.reshape("bias", rows([2, 32, 64]));
}

/// `C + concat(D0, D1)`.
fn concat_in_g2(g: &mut Graph) {
    let halves = ["D0", "D1"].map(|name| g.tensor(Tensor::new(name).row_major([2, 32, 32])));
    let joined = g.concatenate("join", 2, &halves);
    g.tensor_mut(joined).data_type = Some(DataType::Half);
    g.op("add").inputs[1].1 = joined;
}

fn rank_4(g: &mut Graph) {
    g.reshape("A", rows([1, 2, 32, 16]));
    g.reshape("B", rows([1, 2, 16, 64]));
    g.reshape("C", rows([1, 2, 32, 64]));
}

fn odd_n(g: &mut Graph) {
    g.reshape("B", rows([2, 16, 63]));
    g.reshape("C", rows([2, 32, 63]));
}

fn second_core(g: &mut Graph) {
    let (a, b) = (g.id("A"), g.id("B"));
    let c = g.matmul("mm2", a, b);
    g.reshape("mm2::C", rows([2, 32, 64]));
    g.set_output(c);
}

fn overrides(g: &mut Graph) {
    let m = g.tensor(Tensor::new("M").row_major([2, 1, 1]).data_type(DataType::Int32));
    g.op("mm").inputs.push((Port::M_OVERRIDE, m));
}

fn reduce_to(g: &mut Graph, dim: [i64; 3]) {
    g.reshape("R", rows(dim));
}

fn reduction(g: &mut Graph, mode: ReductionMode) {
    if let Attributes::Reduction(reduction) = &mut g.op("sum").attributes {
        reduction.mode = mode;
    }
}

/// Batch extent 1 in the matmul, 2 in a side input and in what is reduced.
fn beyond_reduction(g: &mut Graph) {
    g.reshape("A", rows([1, 32, 16]));
    g.reshape("B", rows([1, 16, 64]));
    let side = g.tensor(Tensor::new("D").row_major([2, 32, 64]));
    let relu = g.id("relu::OUT_0");
    let sum = g.pointwise("add", PointwiseMode::Add, &[relu, side]);
    g.op("sum").inputs[0].1 = sum;
}

/// A stored result of side inputs alone; `gain` is `[2,32,64]`.
fn side<const N: usize>(g: &mut Graph, inputs: [&str; N], dim: [i64; 3]) {
    let gain = g.tensor(Tensor { name: "gain".to_owned(), ..rows([2, 32, 64]) });
    let inputs = inputs.map(|name| if name == "gain" { gain } else { g.id(name) });
    let mode = if N == 1 { PointwiseMode::Neg } else { PointwiseMode::Mul };
    let y = g.pointwise("side", mode, &inputs);
    *g.tensor_mut(y) = Tensor { name: "S".to_owned(), ..rows(dim) };
}

/// Scales A by a product of `scale` and a gain `[2,32,16]`.
fn scaled_gain(g: &mut Graph, inputs: [&str; 2]) {
    let gain = g.tensor(Tensor { name: "gain".to_owned(), ..rows([2, 32, 16]) });
    let inputs = inputs.map(|name| if name == "gain" { gain } else { g.id(name) });
    let product = g.pointwise("gain", PointwiseMode::Mul, &inputs);
    g.tensor_mut(product).data_type = Some(DataType::Half);
    g.op("mul").inputs[1].1 = product;
}

/// Takes another tensor off each element.
fn centred(g: &mut Graph, other: &str) {
    let (relu, other_id) = (g.id("relu::OUT_0"), g.id(other));
    g.tensor_mut(other_id).is_virtual = true;
    let y = g.pointwise("centre", PointwiseMode::Sub, &[relu, other_id]);
    *g.tensor_mut(y) = Tensor { name: "centred".to_owned(), ..rows([2, 32, 64]) };
}

fn after_reduction(g: &mut Graph) {
    let r = g.id("R");
    g.tensor_mut(r).is_virtual = true;
    let y = g.pointwise("after", PointwiseMode::Sqrt, &[r]);
    *g.tensor_mut(y) = Tensor { name: "after::OUT_0".to_owned(), ..rows([2, 1, 64]) };
}

fn second_reduction(g: &mut Graph) {
    let relu = g.id("relu::OUT_0");
    let r = g.reduction("max", ReductionMode::Max, relu, [2, 32, 1]);
    *g.tensor_mut(r) = Tensor { name: "M".to_owned(), ..rows([2, 32, 1]).data_type(DataType::Float) };
}

/// Sets a flag once the tensor is produced.
fn signal(g: &mut Graph, name: &str) {
    let x = g.id(name);
    let flag = g.tensor(Tensor::new("flag").row_major([1, 1, 1]).data_type(DataType::Int32));
    g.operation(Operation {
        name: "signal".to_owned(),
        attributes: Attributes::Signal(crate::graph::Signal { mode: SignalMode::Set, value: 1 }),
        compute_data_type: None,
        inputs: vec![(Port::X, x), (Port::FLAG, flag)],
        outputs: Vec::new(),
    });
}

fn reduce_in_g1(g: &mut Graph) {
    let scale = g.id("scale");
    g.reshape("scale", rows([2, 32, 64]));
    let sum = g.reduction("sum", ReductionMode::Add, scale, [2, 32, 1]);
    g.tensor_mut(sum).data_type = Some(DataType::Float);
    g.op("mul").inputs[1].1 = sum;
}

fn root_in_g1(g: &mut Graph) {
    let scale = g.id("scale");
    let root = g.pointwise("sqrt", PointwiseMode::Sqrt, &[scale]);
    g.op("mul").inputs[1].1 = root;
}

/// Scales both operands by the magnitude of a scalar, computed once for both or once for each.
fn both_scaled(g: &mut Graph, once: bool) {
    let scalar = g.tensor(Tensor::new("scalar").row_major([1, 1, 1]));
    let b = g.id("B");
    let first = g.pointwise("abs", PointwiseMode::Abs, &[scalar]);
    let second = if once { first } else { g.pointwise("abs", PointwiseMode::Abs, &[scalar]) };
    let scaled = g.pointwise("mulb", PointwiseMode::Mul, &[b, second]);
    g.tensor_mut(scaled).data_type = Some(DataType::Half);
    g.op("mul").inputs[1].1 = first;
    g.op("mm").inputs[1].1 = scaled;
}

fn full_scale(g: &mut Graph) {
    g.reshape("scale", rows([2, 32, 16]));
}

fn read_g1_in_g2(g: &mut Graph) {
    let scaled = g.id("mul::OUT_0");
    let y = g.pointwise("abs", PointwiseMode::Abs, &[scaled]);
    *g.tensor_mut(y) = Tensor { name: "Z".to_owned(), ..rows([2, 32, 16]) };
}

/// Negates an input of an operation.
fn negate_before(g: &mut Graph, name: &str, slot: usize) {
    let input = g.op(name).inputs[slot].1;
    let negated = g.pointwise("neg", PointwiseMode::Neg, &[input]);
    g.tensor_mut(negated).data_type = Some(DataType::Half);
    g.op(name).inputs[slot].1 = negated;
}
