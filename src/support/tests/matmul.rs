//! Matmul graphs.

use super::graphs::*;
use super::*;
use crate::graph::{PointwiseMode, Port, ReductionMode, Reordering, SignalMode};

const ALL: &[At] = &[H90, A80, A70];
const H_A: &[At] = &[H90, A80];

pub(super) static SUITES: &[Suite] = &[
    Suite { name: "matmul", base: matmul, legal: ALL, rows: MATMUL },
    Suite { name: "lone matmul", base: lone_matmul, legal: &[H90, A80, H80, V70, A70], rows: LONE },
    Suite { name: "int8 matmul", base: int8_matmul, legal: ALL, rows: INT8 },
    Suite { name: "matmul, reduction", base: matmul_reduction, legal: ALL, rows: REDUCTION },
    Suite { name: "matmul, g1A", base: matmul_g1, legal: ALL, rows: G1 },
    Suite { name: "matmul, g1B", base: matmul_g1b, legal: H_A, rows: G1B },
    Suite { name: "matmul, concat", base: matmul_concat, legal: &[A70], rows: CONCAT },
];

const MATMUL: &[Row] = &[
    // Order of operands, forms of the side input.
    row(ALL, |g| g.swap("add"), &["S*-MM-G2-C", "S*-G2-BCAST-FIRST"]),
    row(
        ALL,
        |g| {
            g.reshape("bias", rows([2, 32, 64]));
            g.swap("add");
        },
        &["S*-MM-G2-C"],
    ),
    row(ALL, |g| g.reshape("bias", rows([2, 32, 64])), &[]),
    row(ALL, |g| g.reshape("bias", rows([2, 32, 1])), &[]),
    row(ALL, |g| g.reshape("bias", rows([1, 1, 1])), &[]),
    row(H_A, |g| g.reshape("bias", rows([1, 1, 64])), &[]),
    row(H_A, |g| g.reshape("bias", rows([1, 32, 64])), &[]),
    row(&[A70], |g| g.reshape("bias", rows([1, 1, 64])), &["S70-MM-G2-DIMS"]),
    row(&[A70], |g| g.reshape("bias", rows([2, 1, 1])), &["S70-MM-G2-DIMS"]),
    row(&[A70], |g| g.reshape("bias", rows([1, 32, 64])), &["S70-MM-G2-DIMS"]),
    // An epilogue of larger batch than C.
    row(ALL, larger_batch, &["S*-MM-G2-DIMS", "S*-MM-G2-OUT", "S*-G2-BCAST-FIRST"]),
    // Layout and packing.
    row(ALL, |g| g.reshape("Y", columns([2, 32, 64])), &[]),
    row(
        ALL,
        |g| {
            g.reshape("bias", rows([2, 32, 64]));
            g.reshape("Y", columns([2, 32, 64]));
        },
        &["S*-MM-G2-LAYOUT"],
    ),
    row(ALL, |g| g.reshape("Y", strided([2, 32, 64], [4096, 128, 2])), &["S*-MM-G2-LAYOUT"]),
    row(H_A, |g| g.reshape("Y", strided([2, 32, 64], [4096, 65, 1])), &[]),
    row(&[A70], |g| g.reshape("Y", strided([2, 32, 64], [4096, 66, 1])), &["S70-MM-G2-LAYOUT"]),
    row(H_A, |g| g.reshape("Y", strided([2, 32, 64], [64, 128, 1])), &[]),
    row(H_A, |g| g.reshape("Y", strided([2, 32, 64], [2048, 63, 1])), &["S*-MM-G2-PACK"]),
    row(H_A, |g| g.reshape("bias", strided([2, 1, 64], [1, 1, 1])), &[]),
    // Alignment of epilogue tensors: the pointer, then strides of a Pointwise output.
    row(ALL, |g| g.t("bias").alignment = 4, &[]),
    row(H_A, |g| g.t("bias").alignment = 2, &[]),
    row(&[A70], |g| g.t("bias").alignment = 2, &["S70-G2-ALIGN-32"]),
    row(ALL, |g| g.t("Y").alignment = 2, &[]),
    // Operations on side inputs alone.
    row(ALL, |g| side(g, ["bias"], [2, 1, 64]), &["S*-MM-G2-OUT"]),
    row(ALL, |g| side(g, ["gain"], [2, 32, 64]), &[]),
    row(ALL, |g| side(g, ["gain", "bias"], [2, 32, 64]), &[]),
    row(ALL, |g| side(g, ["bias", "gain"], [2, 32, 64]), &["S*-G2-BCAST-FIRST"]),
    // Placement.
    row(ALL, concat_in_g2, &["S*-G2-OPS"]),
    row(ALL, unfused::carried, &["S*-G2-OPS"]),
    row(
        ALL,
        |g| {
            g.t("bias").reordering = Reordering::F16x16;
        },
        &["S*-MM-G2-LAYOUT"],
    ),
];

const LONE: &[Row] = &[
    // Rank and batch.
    row(ALL, rank_4, &["S*-MM-G1-A", "S*-MM-G1-B", "S*-MM-G2-C"]),
    row(H_A, |g| g.reshape("A", rows([1, 32, 16])), &[]),
    row(&[A70], |g| g.reshape("A", rows([1, 32, 16])), &["S70-MM-G1-A"]),
    row(&[A70], |g| g.reshape("B", rows([1, 16, 64])), &["S70-MM-G1-B"]),
    // Layout.
    row(ALL, |g| g.reshape("A", columns([2, 32, 16])), &[]),
    row(ALL, |g| g.reshape("A", strided([2, 32, 16], [1024, 32, 2])), &["S*-MM-G1-LAYOUT"]),
    row(H_A, |g| g.reshape("A", strided([2, 32, 16], [1024, 24, 1])), &[]),
    row(&[A70], |g| g.reshape("A", strided([2, 32, 16], [1024, 24, 1])), &["S70-MM-G1-LAYOUT"]),
    row(H_A, |g| g.reshape("A", strided([2, 32, 16], [16, 32, 1])), &[]),
    // Alignment: exactly the width, and one step less.
    row(&[H90], |g| g.reshape("A", strided([2, 32, 16], [1024, 20, 1])), &["S90-G1-ALIGN-128"]),
    row(&[A80], |g| g.reshape("A", strided([2, 32, 16], [1024, 18, 1])), &[]),
    row(&[A80], |g| g.reshape("A", strided([2, 32, 16], [1024, 17, 1])), &["S80-G1-ALIGN-32"]),
    row(&[H90], |g| g.t("A").alignment = 8, &["S90-G1-ALIGN-128"]),
    row(&[A80, A70], |g| g.t("A").alignment = 4, &[]),
    row(&[A80, A70], |g| g.t("A").alignment = 2, &["S*-G1-ALIGN-32"]),
    row(&[A70], odd_n, &["S70-G1-ALIGN-32", "S70-G2-ALIGN-32"]),
    row(&[A70], |g| g.t("C").alignment = 2, &["S70-G2-ALIGN-32"]),
    row(&[H90, A80], |g| g.t("C").alignment = 2, &[]),
    // Capability.
    row(&[(SurfaceId::S90, 8, 9), (SurfaceId::S90, 10, 0)], |_| {}, &["S90-CC"]),
    row(&[(SurfaceId::S80, 7, 5), (SurfaceId::S80, 8, 8), (SurfaceId::S80, 10, 0)], |_| {}, &["S80-CC"]),
    row(&[(SurfaceId::S70, 6, 1), (SurfaceId::S70, 7, 1), (SurfaceId::S70, 12, 0)], |_| {}, &["S70-CC"]),
    // Several cores.
    row(ALL, second_core, &["PAT-ONE-CORE"]),
    row(ALL, overrides, &["PAT-MM"]),
];

const INT8: &[Row] = &[
    row(ALL, |g| g.compute("mm", DataType::Float), &["S*-COMB-INT8"]),
    row(&[A70], |g| g.reshape("A", columns([2, 32, 16])), &["S70-MM-INT8-LAYOUT"]),
    row(&[A70], |g| g.reshape("B", rows([2, 16, 64])), &["S70-MM-INT8-LAYOUT"]),
    row(H_A, |g| g.reshape("B", rows([2, 16, 64])), &[]),
];

const REDUCTION: &[Row] = &[
    row(ALL, |g| reduce_to(g, [2, 32, 1]), &[]),
    row(ALL, |g| reduce_to(g, [1, 1, 1]), &[]),
    row(H_A, |g| reduce_to(g, [1, 32, 64]), &[]),
    row(&[A70], |g| reduce_to(g, [1, 32, 64]), &["S70-MM-G2-RED"]),
    row(&[A70], |g| reduce_to(g, [2, 1, 1]), &["S70-MM-G2-RED"]),
    row(H_A, beyond_reduction, &["S*-MM-G2-RED", "S*-MM-G2-DIMS", "S*-G2-BCAST-FIRST"]),
    row(ALL, |g| g.store("relu::OUT_0", columns([2, 32, 64])), &["S*-MM-G2-RED-ROW", "OP-RED-LAYOUT"]),
    row(ALL, |g| g.store("relu::OUT_0", rows([2, 32, 64])), &[]),
    row(ALL, |g| g.store("mm::C", columns([2, 32, 64])), &["S*-MM-G2-RED-ROW"]),
    row(H_A, |g| g.store("relu::OUT_0", strided([2, 32, 64], [4096, 66, 1])), &["OP-RED-LAYOUT"]),
    row(ALL, |g| reduction(g, ReductionMode::Amax), &["OP-RED-OP"]),
    row(ALL, |g| reduction(g, ReductionMode::Max), &[]),
    row(ALL, |g| g.types(&["R"], DataType::Half), &["S*-DTYPE-RED-OUT"]),
    row(ALL, |g| g.compute("sum", DataType::Half), &["S*-CT-RED"]),
    row(ALL, centred, &["S*-G2-RED-EXIT"]),
    row(ALL, after_reduction, &["S*-G2-RED-EXIT", "S*-MM-G2-OUT"]),
    row(ALL, second_reduction, &["S*-G2-OPS"]),
    row(&[A70], |g| signal(g, "relu::OUT_0"), &["S70-G2-SIGNAL-NO-RED"]),
];

const G1: &[Row] = &[
    row(ALL, |g| g.reshape("scale", rows([2, 1, 16])), &[]),
    row(ALL, |g| g.reshape("scale", rows([1, 1, 1])), &[]),
    row(H_A, |g| g.reshape("scale", rows([1, 32, 1])), &[]),
    row(&[A70], |g| g.reshape("scale", rows([1, 32, 1])), &["S70-MM-G1A-DIMS"]),
    row(ALL, |g| g.types(&["scale"], DataType::Float), &[]),
    row(
        &[A70],
        |g| {
            g.reshape("scale", rows([2, 32, 16]));
            g.types(&["scale"], DataType::Float);
        },
        &["S70-MM-G1A-FULL-HALF"],
    ),
    row(H_A, |g| g.swap("mul"), &[]),
    row(&[A70], |g| g.swap("mul"), &["S70-MM-G1-A", "S70-G1-BCAST-FIRST"]),
    row(&[A70], |g| scaled_gain(g, ["gain", "scale"]), &[]),
    row(&[A70], |g| scaled_gain(g, ["scale", "gain"]), &["S70-G1-BCAST-FIRST"]),
    row(
        &[A70],
        |g| {
            g.reshape("A", rows([2, 1, 16]));
        },
        &["S70-MM-G1-A", "S70-G1-BCAST-FIRST"],
    ),
    row(H_A, |g| g.reshape("A", rows([2, 1, 16])), &[]),
    // Conversion.
    row(H_A, |g| g.types(&["A"], DataType::Float), &[]),
    row(&[A70], |g| g.types(&["A"], DataType::Float), &["S70-NO-MIXED", "S70-MM-G1-A-HALF"]),
    row(&[A70], |g| g.types(&["B", "mul::OUT_0"], DataType::BFloat16), &["S70-NO-MIXED"]),
    row(&[A70], |g| g.types(&["A", "B", "mul::OUT_0"], DataType::Float), &["S70-MM-G1-A-HALF"]),
    // Layout in common, storage, alignment.
    row(
        &[A70],
        |g| {
            g.reshape("scale", rows([2, 32, 16]));
            g.reshape("A", columns([2, 32, 16]));
        },
        &["S70-MM-G1A-SAME"],
    ),
    row(ALL, |g| g.store("mul::OUT_0", rows([2, 32, 16])), &["S*-G1-VIRTUAL"]),
    row(&[H90], |g| g.t("scale").alignment = 8, &["S90-G1-ALIGN-128"]),
    row(&[A80, A70], |g| g.t("scale").alignment = 2, &["S*-G1-ALIGN-32"]),
    row(&[V70, T70], |_| {}, &["S70-G1-CC"]),
    row(H_A, |g| g.compute("mul", DataType::Int32), &[]),
    // Shape of the graph.
    row(ALL, reduce_in_g1, &["S*-G1-OPS"]),
    row(ALL, shared_by_operands, &["PAT-MM"]),
    row(ALL, read_g1_in_g2, &["PAT-MM"]),
];

const G1B: &[Row] = &[
    row(&[A70], |_| {}, &["S70-MM-G1B-NONE"]),
    row(&[A70], |g| g.swap("mul"), &["S70-MM-G1B-NONE", "S70-G1-BCAST-FIRST"]),
    row(&[A70], |g| g.types(&["B"], DataType::Float), &["S70-MM-G1B-NONE", "S70-NO-MIXED"]),
    row(H_A, |g| g.reshape("scale", rows([1, 16, 1])), &[]),
    row(&[H90], |g| g.t("B").alignment = 8, &["S90-G1-ALIGN-128"]),
];

const CONCAT: &[Row] = &[
    row(H_A, |_| {}, &["S*-G1-OPS"]),
    row(&[A70], |g| g.reshape("A0", columns([2, 32, 8])), &["S70-MM-G1A-SAME"]),
    row(&[A70], concat_after_pointwise, &["S70-G1-ORDER"]),
    row(&[A70], |g| g.types(&["A0", "A1", "join::Y", "B"], DataType::Float), &["S70-MM-G1-A-HALF"]),
];

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

/// Takes the sum off each element: the result of the reduction is read.
fn centred(g: &mut Graph) {
    let (relu, r) = (g.id("relu::OUT_0"), g.id("R"));
    g.tensor_mut(r).is_virtual = true;
    let y = g.pointwise("centre", PointwiseMode::Sub, &[relu, r]);
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

/// A value that flows into both operands.
fn shared_by_operands(g: &mut Graph) {
    let scalar = g.tensor(Tensor::new("scalar").row_major([1, 1, 1]));
    let b = g.id("B");
    let shared = g.pointwise("abs", PointwiseMode::Abs, &[scalar]);
    let scaled = g.pointwise("mulb", PointwiseMode::Mul, &[b, shared]);
    g.types(&["abs::OUT_0", "mulb::OUT_0"], DataType::Half);
    g.op("mul").inputs[1].1 = shared;
    g.op("mm").inputs[1].1 = scaled;
}

fn read_g1_in_g2(g: &mut Graph) {
    let scaled = g.id("mul::OUT_0");
    let y = g.pointwise("abs", PointwiseMode::Abs, &[scaled]);
    *g.tensor_mut(y) = Tensor { name: "Z".to_owned(), ..rows([2, 32, 16]) };
}

fn concat_after_pointwise(g: &mut Graph) {
    let a0 = g.id("A0");
    let negated = g.pointwise("neg", PointwiseMode::Neg, &[a0]);
    g.tensor_mut(negated).data_type = Some(DataType::Half);
    g.op("join").inputs[0].1 = negated;
}
