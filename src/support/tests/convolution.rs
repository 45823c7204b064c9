//! Convolution graphs of all three directions.

use super::graphs::*;
use super::*;
use crate::graph::{ConvolutionDirection, Fraction, PointwiseMode, ReductionMode, ResampleMode};

const ALL: &[At] = &[H90, A80, A70];
const H_A: &[At] = &[H90, A80];
const H_V: &[At] = &[H90, A70];

pub(super) static SUITES: &[Suite] = &[
    Suite { name: "forward", base: forward, legal: ALL, rows: FORWARD },
    Suite { name: "forward, reduction", base: forward_reduction, legal: ALL, rows: FORWARD_REDUCTION },
    Suite { name: "forward, grouped", base: grouped_forward, legal: H_A, rows: FORWARD_GROUPED },
    Suite { name: "backward filter", base: backward_filter, legal: H_V, rows: FILTER_ROWS },
    Suite { name: "backward filter, reduction", base: backward_filter_reduction, legal: H_V, rows: FILTER_REDUCTION },
    Suite { name: "backward filter, grouped", base: grouped_backward_filter, legal: &[H90], rows: FILTER_GROUPED },
    Suite { name: "backward data", base: backward_data, legal: H_V, rows: DATA },
    Suite { name: "backward data, reduction", base: backward_data_reduction, legal: H_V, rows: DATA_REDUCTION },
    Suite { name: "backward data, grouped", base: grouped_backward_data, legal: &[H90], rows: DATA_GROUPED },
    Suite { name: "forward, pooled side input", base: forward_pool, legal: &[A70, T70], rows: POOL },
];

const FORWARD: &[Row] = &[
    row(ALL, |g| g.reshape("bias", nhwc([1, 1, 1, 1])), &[]),
    row(ALL, |g| g.reshape("bias", nhwc([2, 1, 8, 8])), &[]),
    row(ALL, |g| g.reshape("bias", nhwc(RESPONSE)), &[]),
    row(ALL, |g| g.reshape("bias", nhwc([2, 32, 1, 1])), &["S*-CF-G2-DIMS"]),
    row(ALL, |g| g.reshape("bias", nhwc([1, 32, 8, 8])), &["S*-CF-G2-DIMS"]),
    row(ALL, |g| g.swap("add"), &["S*-CF-G2-Y", "S*-G2-BCAST-FIRST"]),
    row(
        ALL,
        |g| {
            g.reshape("bias", nhwc(RESPONSE));
            g.swap("add");
        },
        &["S*-CF-G2-Y"],
    ),
    row(ALL, |g| g.reshape("Y", rows(RESPONSE)), &["S*-CF-G2-LAYOUT"]),
    row(H_A, |g| g.reshape("Y", strided(RESPONSE, [4096, 1, 512, 40])), &[]),
    row(&[A70], |g| g.reshape("Y", strided(RESPONSE, [4096, 1, 512, 40])), &["S70-CF-G2-LAYOUT"]),
    row(H_A, |g| g.reshape("Y", strided(RESPONSE, [4096, 1, 512, 24])), &["S*-CF-G2-PACK"]),
    row(ALL, |g| g.reshape("X", rows(IMAGE)), &["S*-CF-G1-LAYOUT"]),
    row(ALL, |g| g.reshape("W", chwn(FILTER)), &["S*-CF-G1-LAYOUT"]),
    row(H_A, |g| g.reshape("X", strided(IMAGE, [2048, 1, 256, 24])), &[]),
    row(H_A, |g| g.reshape("X", strided(IMAGE, [2048, 1, 64, 16])), &["S*-CF-G1-PACK"]),
    row(&[A70], |g| g.reshape("X", strided(IMAGE, [2048, 1, 256, 24])), &["S70-CF-G1-LAYOUT"]),
    // Alignment: byte alignment on 80 while g1 is empty.
    row(&[A80], |g| g.t("X").alignment = 2, &[]),
    row(&[A70], |g| g.t("X").alignment = 2, &["S70-G1-ALIGN-32"]),
    row(&[H90], |g| g.t("W").alignment = 8, &["S90-G1-ALIGN-128"]),
    row(&[H90], |g| channels(g, 4), &["S90-G1-ALIGN-128"]),
    row(&[A80], |g| channels(g, 1), &[]),
    row(&[A70], |g| channels(g, 2), &[]),
    row(&[A70], |g| channels(g, 3), &["S70-G1-ALIGN-32"]),
    // Outputs and placement.
    row(ALL, |g| g.store("conv::Y", nhwc(RESPONSE)), &[]),
    row(ALL, small_output, &["S*-CF-G2-OUT"]),
    row(ALL, compute_w, &["PAT-CF"]),
    row(ALL, one_spatial_axis, &["S*-CF-G1-X", "S*-CF-G1-W", "S*-CF-G2-Y"]),
    row(&[A70], stride_of_response, &[]),
];

const FORWARD_REDUCTION: &[Row] = &[
    row(ALL, |g| g.reshape("R", nhwc([1, 1, 1, 1])), &[]),
    row(ALL, |g| g.reshape("R", nhwc([2, 1, 8, 8])), &[]),
    row(&[H90], |g| g.reshape("R", nhwc([2, 32, 1, 1])), &[]),
    row(&[A80, A70], |g| g.reshape("R", nhwc([2, 32, 1, 1])), &["S*-CF-G2-RED"]),
    row(H_A, |g| g.reshape("R", nhwc([2, 1, 1, 1])), &[]),
    row(&[A70], |g| g.reshape("R", nhwc([2, 1, 1, 1])), &["S70-CF-G2-RED"]),
    row(ALL, |g| g.reshape("R", nhwc([1, 32, 8, 8])), &["S*-CF-G2-RED"]),
    row(ALL, |g| g.reshape("R", strided([1, 32, 1, 1], [64, 2, 64, 64])), &["S*-CF-G2-LAYOUT", "OP-RED-LAYOUT"]),
];

const FORWARD_GROUPED: &[Row] = &[
    row(&[A70], |_| {}, &["S70-NO-GROUP"]),
    row(H_A, |g| add_reduction(g, [1, 32, 1, 1]), &["S*-CF-G2-GROUP-RED"]),
    row(&[H90], |g| groups_of(g, 12, 3), &["S90-G1-ALIGN-GROUP", "S90-G1-ALIGN-128"]),
    row(
        &[H90],
        |g| {
            groups_of(g, 16, 4);
            g.reshape("W", strided([32, 4, 3, 3], [128, 1, 32, 8]));
        },
        &["S90-G1-ALIGN-GROUP"],
    ),
    row(&[A80], |g| groups_of(g, 12, 4), &[]),
];

const FILTER_ROWS: &[Row] = &[
    row(&[A80], |_| {}, &["S80-LIM-NO-CBF"]),
    row(H_V, |g| g.reshape("bias", nhwc([1, 16, 3, 3])), &[]),
    row(H_V, |g| g.reshape("bias", nhwc(FILTER)), &[]),
    row(H_V, |g| g.reshape("bias", nhwc([1, 16, 1, 1])), &["S*-CBF-G2-DIMS"]),
    row(&[H90], |g| g.reshape("bias", nhwc([32, 1, 3, 3])), &["S*-CBF-G2-DIMS"]),
    row(H_V, |g| g.swap("add"), &["S*-CBF-G2-DW", "S*-G2-BCAST-FIRST"]),
    row(
        H_V,
        |g| {
            g.reshape("bias", nhwc(FILTER));
            g.swap("add");
        },
        &["S*-CBF-G2-DW"],
    ),
    row(H_V, |g| g.reshape("Y", rows(FILTER)), &["S*-CBF-G2-LAYOUT"]),
    row(&[H90], |g| g.reshape("Y", strided(FILTER, [160, 1, 48, 8])), &["S90-CBF-G2-PACK"]),
    row(&[H90], |g| g.reshape("DY", chwn(RESPONSE)), &["S90-G1-ALIGN-128"]),
    row(&[H90], chwn_batch_of_eight, &[]),
    row(&[A70], |g| g.reshape("DY", chwn(RESPONSE)), &["S70-CBF-G1-LAYOUT"]),
    row(&[H90], |g| g.reshape("X", rows(IMAGE)), &["S90-CBF-G1-LAYOUT"]),
    row(&[H90], |g| g.reshape("X", strided(IMAGE, [2048, 1, 64, 16])), &["S90-CBF-G1-PACK"]),
    row(H_V, small_output, &["S*-CBF-G2-OUT"]),
    row(H_V, compute_dy, &["PAT-CBF"]),
    row(&[A80], compute_dy, &["PAT-CBF"]),
    row(H_V, one_spatial_axis, &["S*-CBF-G1-X", "S*-CBF-G1-DY", "S*-CBF-G2-DW"]),
    row(&[A70], |g| g.types(&["X", "DY"], DataType::Int8), &["S70-COMB-INT8"]),
    row(
        &[A70],
        |g| {
            g.types(&["X", "DY"], DataType::Int8);
            g.compute("conv", DataType::Int32);
        },
        &["S70-COMB-INT8"],
    ),
    row(&[A70], |g| insert_pool(g, FILTER), &["S70-G2-RES-PATTERN"]),
];

const FILTER_REDUCTION: &[Row] = &[
    row(H_V, |g| g.reshape("R", nhwc([1, 16, 3, 3])), &[]),
    row(H_V, |g| g.reshape("R", nhwc([1, 1, 1, 1])), &[]),
    row(H_V, |g| g.reshape("R", nhwc([32, 16, 1, 1])), &["S*-CBF-G2-RED"]),
    row(H_V, |g| g.reshape("R", nhwc([1, 16, 1, 1])), &["S*-CBF-G2-RED"]),
];

const FILTER_GROUPED: &[Row] = &[
    row(&[A70], |_| {}, &["S70-NO-GROUP"]),
    row(&[H90], |g| add_reduction(g, [32, 1, 1, 1]), &["S90-CBF-G2-GROUP-RED"]),
];

const DATA: &[Row] = &[
    row(&[A80], |_| {}, &["S80-LIM-NO-CBD"]),
    row(H_V, |g| g.reshape("bias", nhwc([2, 1, 8, 8])), &[]),
    row(H_V, |g| g.reshape("bias", nhwc([2, 16, 1, 1])), &["S*-CBD-G2-DIMS"]),
    row(&[H90], |g| g.swap("add"), &["S90-G2-BCAST-FIRST"]),
    row(&[A70], |g| g.swap("add"), &["S70-CBD-G2-DX", "S70-G2-BCAST-FIRST"]),
    row(
        &[H90],
        |g| {
            g.reshape("bias", nhwc(IMAGE));
            g.swap("add");
        },
        &[],
    ),
    row(
        &[A70],
        |g| {
            g.reshape("bias", nhwc(IMAGE));
            g.swap("add");
        },
        &["S70-CBD-G2-DX"],
    ),
    row(H_V, |g| g.reshape("Y", rows(IMAGE)), &["S*-CBD-G2-LAYOUT"]),
    row(&[H90], |g| g.reshape("Y", strided(IMAGE, [2048, 1, 64, 16])), &["S90-CBD-G2-PACK"]),
    row(&[H90], |g| g.reshape("W", chwn(FILTER)), &[]),
    row(&[A70], |g| g.reshape("W", chwn(FILTER)), &["S70-CBD-G1-LAYOUT"]),
    row(&[H90], |g| g.reshape("W", rows(FILTER)), &["S90-CBD-G1-LAYOUT"]),
    row(&[H90], |g| g.reshape("DY", strided(RESPONSE, [4096, 1, 128, 32])), &["S90-CBD-G1-PACK"]),
    row(&[H90], strided_backward, &["S90-LIM-CBD-STRIDE"]),
    row(&[A70], strided_backward, &[]),
    row(H_V, small_output, &["S*-CBD-G2-OUT"]),
    row(H_V, compute_w, &["PAT-CBD"]),
    row(H_V, one_spatial_axis, &["S*-CBD-G1-DY", "S*-CBD-G1-W", "S*-CBD-G2-DX"]),
    row(&[A70], |g| insert_pool(g, IMAGE), &["S70-G2-RES-PATTERN"]),
];

const DATA_REDUCTION: &[Row] = &[
    row(H_V, |g| g.reshape("R", nhwc([2, 1, 8, 8])), &[]),
    row(&[H90], |g| g.reshape("R", nhwc([2, 16, 1, 1])), &[]),
    row(&[A70], |g| g.reshape("R", nhwc([2, 16, 1, 1])), &["S70-CBD-G2-RED"]),
    row(H_V, |g| g.reshape("R", nhwc([1, 1, 8, 8])), &["S*-CBD-G2-RED"]),
];

const DATA_GROUPED: &[Row] = &[
    row(&[A70], |_| {}, &["S70-NO-GROUP"]),
    row(&[H90], |g| add_reduction(g, [1, 16, 1, 1]), &["S90-CBD-G2-GROUP-NONE"]),
];

const POOL: &[Row] = &[
    row(&[V70], |_| {}, &["S70-G2-RES-CC"]),
    row(&[H90, A80], |_| {}, &["S*-G2-OPS"]),
    row(&[A70], pool_of_a_result, &["S70-G2-RES-INPUT"]),
    row(&[A70], |g| g.reshape("Z", rows([2, 32, 16, 16])), &["S70-CF-G2-LAYOUT"]),
    row(&[A70], |g| g.swap("add"), &["S70-CF-G2-Y"]),
];

/// The image has so many channels; the filter follows.
fn channels(g: &mut Graph, channels: i64) {
    g.reshape("X", nhwc([2, channels, 8, 8]));
    g.reshape("W", nhwc([32, channels, 3, 3]));
}

fn groups_of(g: &mut Graph, channels: i64, groups: i64) {
    g.reshape("X", nhwc([2, channels, 8, 8]));
    let filters = if 32 % groups == 0 { 32 } else { 48 };
    g.reshape("W", nhwc([filters, channels / groups, 3, 3]));
    g.reshape("Y", nhwc([2, filters, 8, 8]));
}

/// Stores a channel vector computed from side inputs alone.
fn small_output(g: &mut Graph) {
    let bias = g.id("bias");
    let dim = g.t("bias").dim.clone();
    let root = g.pointwise("abs", PointwiseMode::Abs, &[bias]);
    *g.tensor_mut(root) = Tensor { name: "Z".to_owned(), ..nhwc(dim) };
}

fn compute_w(g: &mut Graph) {
    compute_operand(g, "W");
}

fn compute_dy(g: &mut Graph) {
    compute_operand(g, "DY");
}

/// Computes an operand that its form keeps bare.
fn compute_operand(g: &mut Graph, name: &str) {
    let operand = g.id(name);
    let computed = g.pointwise("abs", PointwiseMode::Abs, &[operand]);
    g.tensor_mut(computed).data_type = Some(DataType::Half);
    let inputs = &mut g.op("conv").inputs;
    inputs.iter_mut().filter(|slot| slot.1 == operand).for_each(|slot| slot.1 = computed);
}

/// All tensors lose their last axis.
fn one_spatial_axis(g: &mut Graph) {
    for tensor in &mut g.tensors {
        if !tensor.dim.is_empty() {
            tensor.dim.truncate(3);
            tensor.stride = nhwc(tensor.dim.clone()).stride;
        }
    }
    if let Attributes::Convolution(convolution) = &mut g.op("conv").attributes {
        *convolution = crate::graph::Convolution::new(convolution.direction, 1).padding([1]);
    }
}

fn stride_of_response(g: &mut Graph) {
    if let Attributes::Convolution(convolution) = &mut g.op("conv").attributes {
        convolution.stride = vec![2, 2];
    }
    g.reshape("conv::Y", nhwc([2, 32, 4, 4]));
    g.reshape("Y", nhwc([2, 32, 4, 4]));
}

fn strided_backward(g: &mut Graph) {
    if let Attributes::Convolution(convolution) = &mut g.op("conv").attributes {
        convolution.stride = vec![2, 2];
    }
    g.reshape("DY", nhwc([2, 32, 4, 4]));
}

/// CHWN operands need a batch that is a multiple of eight HALF elements.
fn chwn_batch_of_eight(g: &mut Graph) {
    g.reshape("DY", chwn([8, 32, 8, 8]));
    g.reshape("X", chwn([8, 16, 8, 8]));
}

/// Replaces the stored result by its reduction.
fn add_reduction(g: &mut Graph, dim: [i64; 4]) {
    let y = g.id("Y");
    let stored = g.tensor_mut(y);
    (stored.is_virtual, stored.data_type) = (true, Some(DataType::Float));
    let sum = g.reduction("sum", ReductionMode::Add, y, dim);
    *g.tensor_mut(sum) = Tensor { name: "R".to_owned(), ..nhwc(dim).data_type(DataType::Float) };
}

/// Adds a pooled side input instead of the bias.
fn insert_pool(g: &mut Graph, dim: [i64; 4]) {
    let [n, c, h, w] = dim;
    let z = g.tensor(Tensor::new("Z").channels_last([n, c, 2 * h, 2 * w]));
    let pooled = g.resample("pool", pool(ResampleMode::Maxpool), z);
    g.tensor_mut(pooled).dim = dim.to_vec();
    g.op("add").inputs[1].1 = pooled;
}

/// A 3×3 pooling of the core result, at its own size.
fn pool_of_a_result(g: &mut Graph) {
    let c = g.id("conv::Y");
    g.op("pool").inputs[0].1 = c;
    if let Attributes::ResampleForward(pool) = &mut g.op("pool").attributes {
        let whole = |value| vec![Fraction::whole(value); 2];
        (pool.window, pool.stride, pool.pre_padding, pool.post_padding) = (whole(3), whole(1), whole(1), whole(1));
    }
}

#[test]
fn slow_layouts_are_notes() {
    let mut graph = lone(ConvolutionDirection::BackwardFilter, 1);
    graph.types(&["X", "DY"], DataType::Fp8E4M3);
    let report = check(&Arc::new(graph.finalize().expect("well formed")), ComputeCapability::SM_90, &SurfaceId::ALL);
    assert_eq!(report.surface(), Some(SurfaceId::S90));
    assert_eq!(report.notes.iter().filter(|note| note.contains("S90-CBF-G1-PERF")).count(), 2);
}
