//! GenStats, resampling and signals.

use super::graphs::*;
use super::*;
use crate::graph::{
    ConvolutionDirection, Fraction, PaddingMode, PointwiseMode, Port, Resample, ResampleMode, Signal, SignalMode,
};

const A: &[At] = &[A70];

pub(super) static SUITES: &[Suite] = &[
    Suite { name: "genstats", base: genstats, legal: &[A70, V70], pairs: STATS_PAIRS, rows: STATS_ROWS },
    Suite { name: "average pool", base: average_pool, legal: &[A70, T70], pairs: AVERAGE_PAIRS, rows: AVERAGE_ROWS },
    Suite { name: "max pool", base: max_pool, legal: &[A70, T70], pairs: MAX_PAIRS, rows: MAX_ROWS },
    Suite { name: "max pool, index", base: indexed_pool, legal: &[A70, T70], pairs: INDEX_PAIRS, rows: INDEX_ROWS },
    Suite { name: "bilinear", base: bilinear, legal: &[A70, T70], pairs: BILINEAR_PAIRS, rows: BILINEAR_ROWS },
    Suite {
        name: "max pool, backward",
        base: max_pool_backward,
        legal: &[A70, T70],
        pairs: MAX_BACKWARD_PAIRS,
        rows: MAX_BACKWARD_ROWS,
    },
    Suite {
        name: "average pool, backward",
        base: average_pool_backward,
        legal: &[A70],
        pairs: AVERAGE_BACKWARD_PAIRS,
        rows: AVERAGE_BACKWARD_ROWS,
    },
    Suite { name: "signal", base: signalled, legal: &[A70], pairs: SIGNAL_PAIRS, rows: SIGNAL_ROWS },
];

const STATS_PAIRS: &[Pair] = &[
    pair("OP-GS-SURFACE", &[H90, A80], AS_IS, |g| *g = lone(ConvolutionDirection::Forward, 1)),
    pair("OP-GS-XTYPE", A, |g| g.types(&["Y"], DataType::BFloat16), |g| g.types(&["Y"], DataType::Float)),
    chips("OP-GS-XTYPE-PRE", &[V70, T70], A, |g| g.types(&["Y"], DataType::Float)),
    pair("OP-GS-OUTTYPE", A, |g| g.types(&["SUM"], DataType::Half), AS_IS),
    pair("OP-GS-PREC", A, |g| g.compute("stats", DataType::Half), AS_IS),
];

const STATS_ROWS: &[Row] = &[
    row(A, |g| g.reshape("Y", rows(RESPONSE)), &["OP-GS-LAYOUT", "S70-CF-G2-LAYOUT"]),
    row(A, read_sum, &["OP-GS-SHAPE", "S70-CF-G2-OUT"]),
    row(A, partial_statistics, &["OP-GS-SHAPE", "S70-CF-G2-DIMS"]),
];

const AVERAGE_PAIRS: &[Pair] = &[
    pair(
        "OP-RF-NO-NEAREST",
        A,
        |g| resample(g).mode = ResampleMode::Nearest,
        |g| resample(g).mode = ResampleMode::AvgpoolIncludePadding,
    ),
    pair("OP-RF-AVG-PAD", A, |g| resample(g).padding_mode = PaddingMode::NegInfPad, AS_IS),
    pair("OP-RF-DOWN-ALPHA", A, |g| resample(g).alpha = 2.0, AS_IS),
    pair("OP-RF-DOWN-BETA", A, |g| resample(g).beta = 1.0, AS_IS),
    pair("OP-RF-DOWN-COMP", A, |g| g.compute("pool", DataType::Half), AS_IS),
    pair("OP-RF-MODES-DOWN", A, |g| step(g, halves(1), 13), |g| step(g, whole(1), 7)),
    pair("OP-RF-FREE", A, |g| window(g, halves(5), 3), |g| window(g, whole(3), 3)),
    pair(
        "OP-RF-NO-BOOL",
        A,
        |g| {
            wide(g);
            g.types(&["Y"], DataType::Boolean);
        },
        wide,
    ),
    // NCHW is legal alone, without padding.
    pair("OP-RF-LAYOUT", A, |g| to_nchw(g, &["X"]), |g| to_nchw(g, &["X", "Y"])),
    pair(
        "OP-RF-NCHW-PAD",
        A,
        |g| {
            to_nchw(g, &["X", "Y"]);
            pad_after(g);
        },
        pad_after,
    ),
    pair("OP-IDX-MODE", A, write_index, |g| {
        *g = max_pool();
        write_index(g);
    }),
];

const AVERAGE_ROWS: &[Row] = &[
    row(&[V70], AS_IS, &["S70-G2-RES-CC"]),
    row(A, |g| g.reshape("X", chwn(IMAGE)), &["OP-RF-LAYOUT"]),
    row(
        A,
        |g| {
            to_nchw(g, &["X", "Y"]);
            then_relu(g);
        },
        &["S70-PW-45D-LAYOUT"],
    ),
    row(
        A,
        |g| {
            step(g, halves(1), 13);
            to_nchw(g, &["X", "Y"]);
            g.types(&["X", "Y"], DataType::Float);
        },
        &["OP-RF-MODES-DOWN", "OP-RF-NCHW-NO-UP"],
    ),
    row(A, one_axis, &["OP-RF-SPATIAL", "OP-RF-RANK"]),
];

const MAX_PAIRS: &[Pair] = &[pair("OP-RF-MAX-PAD", A, |g| resample(g).padding_mode = PaddingMode::ZeroPad, AS_IS)];

const MAX_ROWS: &[Row] = &[row(A, |g| resample(g).padding_mode = PaddingMode::EdgeValPad, &["OP-RF-MAX-PAD"])];

const INDEX_PAIRS: &[Pair] = &[
    pair("OP-IDX-SIZE", A, |g| window_of(g, 12), |g| window_of(g, 11)),
    pair("OP-RF-NCHW-NO-I64", A, |g| indexed_nchw(g, DataType::Int64), |g| indexed_nchw(g, DataType::Int32)),
];

const INDEX_ROWS: &[Row] =
    &[row(A, |g| g.types(&["index"], DataType::Int64), &[]), row(A, |g| g.types(&["index"], DataType::Fp8E5M2), &[])];

const BILINEAR_PAIRS: &[Pair] = &[
    pair("OP-RF-BIL-PADMODE", A, |g| resample(g).padding_mode = PaddingMode::ZeroPad, AS_IS),
    pair("OP-RF-BIL-ALPHA", A, |g| resample(g).alpha = 2.0, AS_IS),
    pair("OP-RF-BIL-BETA", A, |g| resample(g).beta = 1.0, AS_IS),
    pair("OP-RF-BIL-COMP", A, |g| g.compute("up", DataType::Half), AS_IS),
    pair("OP-RF-BIL-DTYPE", A, |g| g.types(&["Y"], DataType::Half), AS_IS),
    pair("OP-RF-BIL-PRE", A, |g| resample(g).pre_padding = both(3, 5), |g| resample(g).pre_padding = both(2, 4)),
    pair("OP-RF-BIL-POST", A, |g| resample(g).post_padding = both(11, 10), |g| resample(g).post_padding = both(10, 10)),
    pair("OP-RF-BIL-WIN", A, |g| resample(g).window = both(19, 10), |g| resample(g).window = both(20, 10)),
];

const BILINEAR_ROWS: &[Row] = &[
    row(
        A,
        |g| {
            let up = resample(g);
            up.pre_padding = whole(1);
            up.post_padding = halves(1);
        },
        &["OP-RF-BIL-PRE", "OP-RF-BIL-POST"],
    ),
    row(
        A,
        |g| {
            let up = resample(g);
            up.window = halves(5);
            up.post_padding = halves(3);
        },
        &["OP-RF-BIL-WIN", "OP-RF-BIL-POST"],
    ),
    row(A, |g| resample(g).stride = both(2, 4), &[]),
    row(A, |g| step(g, whole(2), 4), &["OP-RF-BIL-STRIDE", "OP-RF-BIL-DIMS", "OP-RF-MODES-DOWN"]),
    row(A, |g| step(g, whole(1), 8), &["OP-RF-BIL-STRIDE", "OP-RF-BIL-DIMS"]),
    row(A, |g| to_nchw(g, &["X", "Y"]), &["OP-RF-NCHW-NO-UP", "OP-RF-NCHW-PAD"]),
];

const MAX_BACKWARD_PAIRS: &[Pair] = &[
    pair("OP-RB-MODES", A, |g| resample(g).mode = ResampleMode::Nearest, AS_IS),
    pair("OP-RB-MAX-PAD", A, |g| resample(g).padding_mode = PaddingMode::ZeroPad, AS_IS),
    pair("OP-RB-ALPHA", A, |g| resample(g).alpha = 2.0, AS_IS),
    pair("OP-RB-BETA", A, |g| resample(g).beta = 1.0, AS_IS),
    pair("OP-RB-COMP", A, |g| g.compute("pool", DataType::Half), AS_IS),
    pair("OP-RB-NO-UP", A, |g| step_back(g, halves(1), 13), |g| step_back(g, whole(1), 7)),
    pair(
        "OP-RB-NHWC-IDX",
        A,
        |g| {
            g.op("pool").inputs.pop();
        },
        AS_IS,
    ),
    pair("OP-RB-NCHW-XY", A, |g| to_nchw(g, &["DY", "index", "DX"]), nchw_with_forward_tensors),
    pair("OP-RB-LAYOUT", A, |g| g.reshape("DY", chwn(POOLED)), AS_IS),
];

const MAX_BACKWARD_ROWS: &[Row] = &[
    row(
        A,
        |g| {
            nchw_with_forward_tensors(g);
            g.types(&["index"], DataType::Int64);
        },
        &["OP-RB-NCHW-NO-I64", "S70-DTYPE-INPUT"],
    ),
    row(A, one_axis, &["OP-RB-SPATIAL", "OP-RB-RANK"]),
];

const AVERAGE_BACKWARD_PAIRS: &[Pair] =
    &[pair("OP-RB-AVG-PAD", A, |g| resample(g).padding_mode = PaddingMode::EdgeValPad, AS_IS)];

const AVERAGE_BACKWARD_ROWS: &[Row] = &[row(A, read_index, &["OP-RB-NHWC-IDX"])];

const SIGNAL_PAIRS: &[Pair] = &[pair("S70-G2-SIGNAL-FINAL", A, read_signalled, AS_IS)];

const SIGNAL_ROWS: &[Row] = &[row(&[H90, A80], AS_IS, &["S*-LIM-NO-PW"])];

fn resample(g: &mut Graph) -> &mut Resample {
    g.operations
        .iter_mut()
        .find_map(|op| match &mut op.attributes {
            Attributes::ResampleForward(resample) | Attributes::ResampleBackward(resample) => Some(resample),
            _ => None,
        })
        .expect("the graph resamples")
}

fn whole(value: i64) -> Vec<Fraction> {
    vec![Fraction::whole(value); 2]
}

fn halves(numerator: i64) -> Vec<Fraction> {
    vec![Fraction { numerator, denominator: 2 }; 2]
}

fn both(numerator: i64, denominator: i64) -> Vec<Fraction> {
    vec![Fraction { numerator, denominator }; 2]
}

/// Another stride, and the extent that the result has then.
fn step(g: &mut Graph, stride: Vec<Fraction>, extent: i64) {
    resample(g).stride = stride;
    g.reshape("Y", nhwc([2, 16, extent, extent]));
}

/// As [`step`], where the gradient of the result is read.
fn step_back(g: &mut Graph, stride: Vec<Fraction>, extent: i64) {
    resample(g).stride = stride;
    ["DY", "index"].iter().for_each(|name| g.reshape(name, nhwc([2, 16, extent, extent])));
}

/// Another window, and the extent that the result has then.
fn window(g: &mut Graph, window: Vec<Fraction>, extent: i64) {
    resample(g).window = window;
    g.reshape("Y", nhwc([2, 16, extent, extent]));
}

/// 32 channels: packed truth values of a pixel fill four bytes.
fn wide(g: &mut Graph) {
    g.reshape("X", nhwc([2, 32, 8, 8]));
    g.reshape("Y", nhwc([2, 32, 4, 4]));
}

fn indexed_nchw(g: &mut Graph, index: DataType) {
    to_nchw(g, &["X", "Y", "index"]);
    g.types(&["index"], index);
}

fn to_nchw(g: &mut Graph, names: &[&str]) {
    for name in names {
        let dim = g.t(name).dim.clone();
        g.reshape(name, rows(dim));
    }
}

fn then_relu(g: &mut Graph) {
    let y = g.id("Y");
    let z = g.pointwise("relu", PointwiseMode::ReluFwd, &[y]);
    *g.tensor_mut(z) = Tensor { name: "Z".to_owned(), ..nhwc(POOLED) };
}

fn read_signalled(g: &mut Graph) {
    let y = g.id("Y");
    let z = g.pointwise("abs", PointwiseMode::Abs, &[y]);
    *g.tensor_mut(z) = Tensor { name: "V".to_owned(), ..nhwc(IMAGE) };
}

/// One row of padding after the image changes no extent.
fn pad_after(g: &mut Graph) {
    resample(g).post_padding = whole(1);
}

/// All tensors lose their last axis.
fn one_axis(g: &mut Graph) {
    for tensor in &mut g.tensors {
        tensor.dim.truncate(3);
        tensor.stride = rows(tensor.dim.clone()).stride;
    }
    let resample = resample(g);
    for values in [&mut resample.window, &mut resample.stride, &mut resample.pre_padding, &mut resample.post_padding] {
        values.truncate(1);
    }
}

fn write_index(g: &mut Graph) {
    let index = g.tensor(Tensor::new("index").channels_last(POOLED).data_type(DataType::Int8));
    g.op("pool").outputs.push((Port::INDEX, index));
}

fn read_index(g: &mut Graph) {
    let index = g.tensor(Tensor::new("index").channels_last(POOLED).data_type(DataType::Int8));
    g.op("pool").inputs.push((Port::INDEX, index));
}

/// A square window on a 24×24 image, one output a side for the larger windows.
fn window_of(g: &mut Graph, extent: i64) {
    let pool = resample(g);
    pool.window = whole(extent);
    pool.stride = whole(24);
    g.reshape("X", nhwc([2, 16, 24, 24]));
    ["Y", "index"].iter().for_each(|name| g.reshape(name, nhwc([2, 16, 1, 1])));
}

fn nchw_with_forward_tensors(g: &mut Graph) {
    to_nchw(g, &["DY", "index", "DX"]);
    let x = g.tensor(Tensor::new("X").row_major(IMAGE));
    let y = g.tensor(Tensor::new("Y").row_major(POOLED));
    g.op("pool").inputs.extend([(Port::X, x), (Port::Y, y)]);
}

fn read_sum(g: &mut Graph) {
    let sum = g.id("SUM");
    let root = g.pointwise("sqrt", PointwiseMode::Sqrt, &[sum]);
    *g.tensor_mut(root) = Tensor { name: "V".to_owned(), ..nhwc([1, 32, 1, 1]) };
}

/// Statistics of a side input that is no full-size value.
fn partial_statistics(g: &mut Graph) {
    let side = g.tensor(Tensor::new("V").channels_last([2, 32, 1, 1]));
    g.op("stats").inputs[0].1 = side;
}

/// `Y = signal(relu(X))`.
fn signalled() -> Graph {
    let mut graph = image();
    let value = graph.id("Y");
    *graph.tensor_mut(value) = Tensor { is_virtual: true, ..Tensor::new("relu::OUT_0") };
    let y = graph.tensor(Tensor::new("Y").channels_last(IMAGE));
    let flag = graph.tensor(Tensor::new("flag").dim([1]).stride([1]).data_type(DataType::Int32));
    graph.operation(Operation {
        name: "signal".to_owned(),
        attributes: Attributes::Signal(Signal { mode: SignalMode::Set, value: 1 }),
        compute_data_type: None,
        inputs: vec![(Port::X, value), (Port::FLAG, flag)],
        outputs: vec![(Port::Y, y)],
    });
    graph
}
