//! Convolution graphs of all three directions.

use super::graphs::*;
use super::*;
use crate::graph::{ConvolutionDirection as D, Fraction, PointwiseMode, ReductionMode, ResampleMode};

const ALL: &[At] = &[H90, A80, A70];
const H_A: &[At] = &[H90, A80];
const H_V: &[At] = &[H90, A70];

pub(super) static SUITES: &[Suite] = &[
    Suite { name: "forward", base: forward, legal: ALL, pairs: FORWARD_PAIRS, rows: FORWARD_ROWS },
    Suite {
        name: "forward, reduction",
        base: forward_reduction,
        legal: ALL,
        pairs: FORWARD_REDUCTION_PAIRS,
        rows: FORWARD_REDUCTION_ROWS,
    },
    Suite {
        name: "forward, grouped",
        base: grouped_forward,
        legal: H_A,
        pairs: FORWARD_GROUPED_PAIRS,
        rows: FORWARD_GROUPED_ROWS,
    },
    Suite { name: "backward filter", base: backward_filter, legal: H_V, pairs: FILTER_PAIRS, rows: FILTER_ROWS },
    Suite {
        name: "backward filter, reduction",
        base: backward_filter_reduction,
        legal: H_V,
        pairs: FILTER_REDUCTION_PAIRS,
        rows: FILTER_REDUCTION_ROWS,
    },
    Suite {
        name: "backward filter, grouped",
        base: grouped_backward_filter,
        legal: &[H90],
        pairs: FILTER_GROUPED_PAIRS,
        rows: FILTER_GROUPED_ROWS,
    },
    Suite { name: "backward data", base: backward_data, legal: H_V, pairs: DATA_PAIRS, rows: DATA_ROWS },
    Suite {
        name: "backward data, reduction",
        base: backward_data_reduction,
        legal: H_V,
        pairs: DATA_REDUCTION_PAIRS,
        rows: DATA_REDUCTION_ROWS,
    },
    Suite {
        name: "backward data, grouped",
        base: grouped_backward_data,
        legal: &[H90],
        pairs: DATA_GROUPED_PAIRS,
        rows: DATA_GROUPED_ROWS,
    },
    Suite {
        name: "forward, pooled side input",
        base: forward_pool,
        legal: &[A70, T70],
        pairs: POOL_PAIRS,
        rows: POOL_ROWS,
    },
];

const FORWARD_PAIRS: &[Pair] = &[
    pair("PAT-CF", H_A, |g| compute_operand(g, "W"), |g| compute_operand(g, "X")),
    pair("S*-CF-G1-LAYOUT", ALL, |g| g.reshape("X", rows(IMAGE)), AS_IS),
    pair(
        "S*-CF-G1-PACK",
        H_A,
        |g| g.reshape("X", strided(IMAGE, [2048, 1, 64, 16])),
        |g| g.reshape("X", strided(IMAGE, [2048, 1, 128, 16])),
    ),
    pair(
        "S*-CF-G2-Y",
        ALL,
        |g| {
            g.reshape("bias", nhwc(RESPONSE));
            g.swap("add");
        },
        |g| g.reshape("bias", nhwc(RESPONSE)),
    ),
    pair("S*-CF-G2-DIMS", ALL, |g| g.reshape("bias", nhwc([1, 32, 8, 8])), |g| g.reshape("bias", nhwc(RESPONSE))),
    pair("S*-CF-G2-OUT", ALL, |g| side_output(g, [1, 32, 1, 1]), |g| side_output(g, RESPONSE)),
    pair("S*-CF-G2-LAYOUT", ALL, |g| g.reshape("Y", rows(RESPONSE)), AS_IS),
    pair(
        "S*-CF-G2-PACK",
        H_A,
        |g| g.reshape("Y", strided(RESPONSE, [4096, 1, 512, 24])),
        |g| g.reshape("Y", strided(RESPONSE, [4096, 1, 512, 32])),
    ),
];

const FORWARD_ROWS: &[Row] = &[
    row(ALL, |g| g.reshape("bias", nhwc([1, 1, 1, 1])), &[]),
    row(ALL, |g| g.reshape("bias", nhwc([2, 1, 8, 8])), &[]),
    row(ALL, |g| g.reshape("bias", nhwc([2, 32, 1, 1])), &["S*-CF-G2-DIMS"]),
    row(ALL, |g| g.swap("add"), &["S*-CF-G2-Y", "S*-G2-BCAST-FIRST"]),
    row(&[A70], |g| g.reshape("Y", strided(RESPONSE, [4096, 1, 512, 40])), &["S70-CF-G2-LAYOUT"]),
    row(ALL, |g| g.reshape("W", chwn(FILTER)), &["S*-CF-G1-LAYOUT"]),
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
    row(&[A70], |g| compute_operand(g, "W"), &["PAT-CF"]),
    row(ALL, one_spatial_axis, &["S*-CF-G1-X", "S*-CF-G1-W", "S*-CF-G2-Y"]),
    row(&[A70], stride_of_response, &[]),
];

const FORWARD_REDUCTION_PAIRS: &[Pair] =
    &[pair("S*-CF-G2-RED", ALL, |g| g.reshape("R", nhwc([1, 32, 8, 8])), |g| g.reshape("R", nhwc([2, 1, 8, 8])))];

const FORWARD_REDUCTION_ROWS: &[Row] = &[
    row(ALL, |g| g.reshape("R", nhwc([1, 1, 1, 1])), &[]),
    row(&[H90], |g| g.reshape("R", nhwc([2, 32, 1, 1])), &[]),
    row(&[A80, A70], |g| g.reshape("R", nhwc([2, 32, 1, 1])), &["S*-CF-G2-RED"]),
    row(H_A, |g| g.reshape("R", nhwc([2, 1, 1, 1])), &[]),
    row(&[A70], |g| g.reshape("R", nhwc([2, 1, 1, 1])), &["S70-CF-G2-RED"]),
    row(ALL, |g| g.reshape("R", strided([1, 32, 1, 1], [64, 2, 64, 64])), &["S*-CF-G2-LAYOUT", "OP-RED-LAYOUT"]),
];

const FORWARD_GROUPED_PAIRS: &[Pair] = &[
    pair("S70-NO-GROUP", &[A70], AS_IS, |g| *g = lone(D::Forward, 1)),
    pair("S90-G1-ALIGN-GROUP", &[H90], |g| padded_groups(g, 4), |g| padded_groups(g, 2)),
    pair(
        "S*-CF-G2-GROUP-RED",
        H_A,
        |g| add_reduction(g, [1, 32, 1, 1]),
        |g| {
            *g = lone(D::Forward, 1);
            add_reduction(g, [1, 32, 1, 1]);
        },
    ),
];

const FORWARD_GROUPED_ROWS: &[Row] = &[
    row(&[H90], |g| groups_of(g, 12, 3), &["S90-G1-ALIGN-GROUP", "S90-G1-ALIGN-128"]),
    row(&[A80], |g| groups_of(g, 12, 4), &[]),
];

const FILTER_PAIRS: &[Pair] = &[
    pair("S80-LIM-NO-CBF", &[A80], AS_IS, |g| *g = forward()),
    pair("PAT-CBF", H_V, |g| compute_operand(g, "DY"), AS_IS),
    pair("S*-CBF-G1-LAYOUT", H_V, |g| g.reshape("X", rows(IMAGE)), AS_IS),
    pair(
        "S90-CBF-G1-PACK",
        &[H90],
        |g| g.reshape("X", strided(IMAGE, [2048, 1, 64, 16])),
        |g| g.reshape("X", strided(IMAGE, [2048, 1, 128, 16])),
    ),
    pair(
        "S*-CBF-G2-DW",
        H_V,
        |g| {
            g.reshape("bias", nhwc(FILTER));
            g.swap("add");
        },
        |g| g.reshape("bias", nhwc(FILTER)),
    ),
    pair("S*-CBF-G2-DIMS", H_V, |g| g.reshape("bias", nhwc([1, 16, 1, 1])), |g| g.reshape("bias", nhwc([1, 16, 3, 3]))),
    pair("S*-CBF-G2-OUT", H_V, |g| side_output(g, [32, 1, 1, 1]), |g| side_output(g, FILTER)),
    pair("S*-CBF-G2-LAYOUT", H_V, |g| g.reshape("Y", rows(FILTER)), AS_IS),
    pair(
        "S90-CBF-G2-PACK",
        &[H90],
        |g| g.reshape("Y", strided(FILTER, [160, 1, 48, 8])),
        |g| g.reshape("Y", strided(FILTER, [160, 1, 48, 16])),
    ),
    pair(
        "S70-G2-RES-PATTERN",
        &[A70],
        |g| insert_pool(g, FILTER),
        |g| {
            *g = forward();
            insert_pool(g, RESPONSE);
        },
    ),
];

const FILTER_ROWS: &[Row] = &[
    row(&[H90], |g| g.reshape("bias", nhwc([32, 1, 3, 3])), &["S90-CBF-G2-DIMS"]),
    row(H_V, |g| g.swap("add"), &["S*-CBF-G2-DW", "S*-G2-BCAST-FIRST"]),
    row(&[H90], |g| g.reshape("DY", chwn(RESPONSE)), &["S90-G1-ALIGN-128"]),
    row(&[H90], chwn_batch_of_eight, &[]),
    row(&[A70], |g| g.reshape("DY", chwn(RESPONSE)), &["S70-CBF-G1-LAYOUT"]),
    row(&[A80], |g| compute_operand(g, "DY"), &["PAT-CBF"]),
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
];

const FILTER_REDUCTION_PAIRS: &[Pair] =
    &[pair("S*-CBF-G2-RED", H_V, |g| g.reshape("R", nhwc([1, 16, 1, 1])), |g| g.reshape("R", nhwc([1, 16, 3, 3])))];

const FILTER_REDUCTION_ROWS: &[Row] = &[
    row(H_V, |g| g.reshape("R", nhwc([1, 1, 1, 1])), &[]),
    row(H_V, |g| g.reshape("R", nhwc([32, 16, 1, 1])), &["S*-CBF-G2-RED"]),
];

const FILTER_GROUPED_PAIRS: &[Pair] = &[pair(
    "S90-CBF-G2-GROUP-RED",
    &[H90],
    |g| add_reduction(g, [32, 1, 1, 1]),
    |g| {
        *g = lone(D::BackwardFilter, 1);
        add_reduction(g, [32, 1, 1, 1]);
    },
)];

const FILTER_GROUPED_ROWS: &[Row] = &[row(&[A70], AS_IS, &["S70-NO-GROUP"])];

const DATA_PAIRS: &[Pair] = &[
    pair("S80-LIM-NO-CBD", &[A80], AS_IS, |g| *g = forward()),
    pair("S90-LIM-CBD-STRIDE", &[H90], strided_backward, AS_IS),
    pair("PAT-CBD", &[H90], |g| compute_operand(g, "W"), |g| compute_operand(g, "DY")),
    pair("S90-CBD-G1-LAYOUT", &[H90], |g| g.reshape("W", rows(FILTER)), |g| g.reshape("W", chwn(FILTER))),
    pair("S70-CBD-G1-LAYOUT", &[A70], |g| g.reshape("W", chwn(FILTER)), AS_IS),
    pair(
        "S90-CBD-G1-PACK",
        &[H90],
        |g| g.reshape("DY", strided(RESPONSE, [4096, 1, 128, 32])),
        |g| g.reshape("DY", strided(RESPONSE, [4096, 1, 256, 32])),
    ),
    pair(
        "S70-CBD-G2-DX",
        &[A70],
        |g| {
            g.reshape("bias", nhwc(IMAGE));
            g.swap("add");
        },
        |g| g.reshape("bias", nhwc(IMAGE)),
    ),
    pair("S*-CBD-G2-DIMS", H_V, |g| g.reshape("bias", nhwc([2, 16, 1, 1])), |g| g.reshape("bias", nhwc([1, 16, 1, 1]))),
    pair("S*-CBD-G2-OUT", H_V, |g| side_output(g, [1, 16, 1, 1]), |g| side_output(g, IMAGE)),
    pair("S*-CBD-G2-LAYOUT", H_V, |g| g.reshape("Y", rows(IMAGE)), AS_IS),
    pair(
        "S90-CBD-G2-PACK",
        &[H90],
        |g| g.reshape("Y", strided(IMAGE, [2048, 1, 64, 16])),
        |g| g.reshape("Y", strided(IMAGE, [2048, 1, 128, 16])),
    ),
];

const DATA_ROWS: &[Row] = &[
    row(H_V, |g| g.reshape("bias", nhwc([2, 1, 8, 8])), &[]),
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
    row(&[A70], strided_backward, &[]),
    row(&[A70], |g| compute_operand(g, "W"), &["PAT-CBD"]),
    row(H_V, one_spatial_axis, &["S*-CBD-G1-DY", "S*-CBD-G1-W", "S*-CBD-G2-DX"]),
    row(&[A70], |g| insert_pool(g, IMAGE), &["S70-G2-RES-PATTERN"]),
];

const DATA_REDUCTION_PAIRS: &[Pair] =
    &[pair("S*-CBD-G2-RED", H_V, |g| g.reshape("R", nhwc([1, 1, 8, 8])), |g| g.reshape("R", nhwc([2, 1, 8, 8])))];

const DATA_REDUCTION_ROWS: &[Row] = &[
    row(&[H90], |g| g.reshape("R", nhwc([2, 16, 1, 1])), &[]),
    row(&[A70], |g| g.reshape("R", nhwc([2, 16, 1, 1])), &["S70-CBD-G2-RED"]),
];

const DATA_GROUPED_PAIRS: &[Pair] =
    &[pair("S90-CBD-G2-GROUP-NONE", &[H90], |g| add_reduction(g, [1, 16, 1, 1]), AS_IS)];

const DATA_GROUPED_ROWS: &[Row] = &[row(&[A70], AS_IS, &["S70-NO-GROUP"])];

const POOL_PAIRS: &[Pair] = &[
    chips("S70-G2-RES-CC", &[V70], &[T70, A70], AS_IS),
    pair("S70-G2-RES-INPUT", &[A70], |g| pool_in_place(g, "conv::Y"), |g| pool_in_place(g, "Z")),
];

const POOL_ROWS: &[Row] = &[
    row(&[H90, A80], AS_IS, &["S*-G2-OPS"]),
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

/// Groups of the 16 channels; the filter's lines are padded to eight channels.
fn padded_groups(g: &mut Graph, groups: i64) {
    groups_of(g, 16, groups);
    g.reshape("W", strided([32, 16 / groups, 3, 3], [128, 1, 32, 8]));
}

/// Stores the magnitude of a bias of these dims.
fn side_output(g: &mut Graph, dim: [i64; 4]) {
    g.reshape("bias", nhwc(dim));
    let bias = g.id("bias");
    let magnitude = g.pointwise("abs", PointwiseMode::Abs, &[bias]);
    *g.tensor_mut(magnitude) = Tensor { name: "Z".to_owned(), ..nhwc(dim) };
}

/// Computes an operand of the convolution.
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

/// A 3×3 pooling of a full-size tensor, at its own size.
fn pool_in_place(g: &mut Graph, name: &str) {
    g.reshape("Z", nhwc(RESPONSE));
    let input = g.id(name);
    g.op("pool").inputs[0].1 = input;
    if let Attributes::ResampleForward(pool) = &mut g.op("pool").attributes {
        let whole = |value| vec![Fraction::whole(value); 2];
        (pool.window, pool.stride, pool.pre_padding, pool.post_padding) = (whole(3), whole(1), whole(1), whole(1));
    }
}

#[test]
fn slow_layouts_are_notes() {
    let mut graph = lone(D::BackwardFilter, 1);
    graph.types(&["X", "DY"], DataType::Fp8E4M3);
    let report = check(&Arc::new(graph.finalize().expect("well formed")), ComputeCapability::SM_90, &SurfaceId::ALL);
    assert_eq!(report.surface(), Some(SurfaceId::S90));
    assert_eq!(report.notes.iter().filter(|note| note.contains("S90-CBF-G1-PERF")).count(), 2);
}
