//! GenStats, resampling and signals.

use super::graphs::*;
use super::*;
use crate::graph::{Fraction, PaddingMode, PointwiseMode, Port, Resample, ResampleMode, Signal, SignalMode};

const A: &[At] = &[A70];

pub(super) static SUITES: &[Suite] = &[
    Suite { name: "genstats", base: genstats, legal: &[A70, V70], rows: STATS },
    Suite { name: "average pool", base: average_pool, legal: &[A70, T70], rows: AVERAGE },
    Suite { name: "max pool", base: max_pool, legal: &[A70, T70], rows: MAX },
    Suite { name: "max pool, index", base: indexed_pool, legal: &[A70, T70], rows: INDEX },
    Suite { name: "bilinear", base: bilinear, legal: &[A70, T70], rows: BILINEAR },
    Suite { name: "max pool, backward", base: max_pool_backward, legal: &[A70, T70], rows: MAX_BACKWARD },
    Suite { name: "average pool, backward", base: average_pool_backward, legal: &[A70], rows: AVERAGE_BACKWARD },
    Suite { name: "signal", base: signalled, legal: &[A70], rows: SIGNAL },
];

const STATS: &[Row] = &[
    row(&[H90, A80], |_| {}, &["OP-GS-SURFACE"]),
    row(A, |g| g.types(&["Y"], DataType::Float), &[]),
    row(&[V70, T70], |g| g.types(&["Y"], DataType::Float), &["OP-GS-XTYPE-PRE"]),
    row(A, |g| g.types(&["Y"], DataType::BFloat16), &["OP-GS-XTYPE"]),
    row(A, |g| g.types(&["SUM"], DataType::Half), &["OP-GS-OUTTYPE"]),
    row(A, |g| g.compute("stats", DataType::Half), &["OP-GS-PREC"]),
    row(A, |g| g.reshape("Y", rows(RESPONSE)), &["OP-GS-LAYOUT", "S70-CF-G2-LAYOUT"]),
    row(A, read_sum, &["OP-GS-SHAPE", "S70-CF-G2-OUT"]),
    row(A, partial_statistics, &["OP-GS-SHAPE", "S70-CF-G2-DIMS"]),
];

const AVERAGE: &[Row] = &[
    row(&[V70], |_| {}, &["S70-G2-RES-CC"]),
    row(A, |g| resample(g).padding_mode = PaddingMode::NegInfPad, &["OP-RF-AVG-PAD"]),
    row(A, |g| resample(g).alpha = 2.0, &["OP-RF-DOWN-ALPHA"]),
    row(A, |g| resample(g).beta = 1.0, &["OP-RF-DOWN-BETA"]),
    row(A, |g| g.compute("pool", DataType::Half), &["OP-RF-DOWN-COMP"]),
    row(A, |g| resample(g).mode = ResampleMode::Nearest, &["OP-RF-NO-NEAREST"]),
    row(A, |g| resample(g).mode = ResampleMode::AvgpoolIncludePadding, &[]),
    row(A, half_stride, &["OP-RF-MODES-DOWN"]),
    row(
        A,
        |g| {
            resample(g).window = halves(5);
            g.reshape("Y", nhwc([2, 16, 3, 3]));
        },
        &["OP-RF-FREE"],
    ),
    row(
        A,
        |g| {
            g.types(&["Y"], DataType::Boolean);
            g.reshape("X", nhwc([2, 32, 8, 8]));
            g.reshape("Y", nhwc([2, 32, 4, 4]));
        },
        &["OP-RF-NO-BOOL"],
    ),
    // NCHW is legal alone, but not beside other operations.
    row(A, |g| to_nchw(g, &["X", "Y"]), &[]),
    row(A, |g| to_nchw(g, &["X"]), &["OP-RF-LAYOUT"]),
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
            to_nchw(g, &["X", "Y"]);
            pad_after(g);
        },
        &["OP-RF-NCHW-PAD"],
    ),
    row(A, pad_after, &[]),
    row(
        A,
        |g| {
            half_stride(g);
            to_nchw(g, &["X", "Y"]);
            g.types(&["X", "Y"], DataType::Float);
        },
        &["OP-RF-MODES-DOWN", "OP-RF-NCHW-NO-UP"],
    ),
    row(A, one_axis, &["OP-RF-SPATIAL", "OP-RF-RANK"]),
    row(A, indexed, &["OP-IDX-MODE"]),
];

const MAX: &[Row] = &[
    row(A, |g| resample(g).padding_mode = PaddingMode::ZeroPad, &["OP-RF-MAX-PAD"]),
    row(A, |g| resample(g).padding_mode = PaddingMode::EdgeValPad, &["OP-RF-MAX-PAD"]),
];

const INDEX: &[Row] = &[
    row(A, |g| g.types(&["index"], DataType::Int64), &[]),
    row(
        A,
        |g| {
            to_nchw(g, &["X", "Y", "index"]);
            g.types(&["index"], DataType::Int64);
        },
        &["OP-RF-NCHW-NO-I64"],
    ),
    row(A, |g| g.types(&["index"], DataType::Fp8E5M2), &[]),
    row(A, |g| window_of(g, 11), &[]),
    row(A, |g| window_of(g, 12), &["OP-IDX-SIZE"]),
];

const BILINEAR: &[Row] = &[
    row(A, |g| resample(g).padding_mode = PaddingMode::ZeroPad, &["OP-RF-BIL-PADMODE"]),
    row(A, |g| resample(g).alpha = 2.0, &["OP-RF-BIL-ALPHA"]),
    row(A, |g| resample(g).beta = 1.0, &["OP-RF-BIL-BETA"]),
    row(A, |g| g.compute("up", DataType::Half), &["OP-RF-BIL-COMP"]),
    row(A, |g| g.types(&["Y"], DataType::Half), &["OP-RF-BIL-DTYPE"]),
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
    row(A, |g| resample(g).pre_padding = vec![Fraction { numerator: 3, denominator: 5 }; 2], &["OP-RF-BIL-PRE"]),
    row(A, |g| resample(g).post_padding = vec![Fraction { numerator: 11, denominator: 10 }; 2], &["OP-RF-BIL-POST"]),
    row(A, |g| resample(g).window = vec![Fraction { numerator: 19, denominator: 10 }; 2], &["OP-RF-BIL-WIN"]),
    row(A, |g| resample(g).stride = vec![Fraction { numerator: 2, denominator: 4 }; 2], &[]),
    row(
        A,
        |g| {
            resample(g).stride = whole(2);
            g.reshape("Y", nhwc(POOLED));
        },
        &["OP-RF-BIL-STRIDE", "OP-RF-BIL-DIMS", "OP-RF-MODES-DOWN"],
    ),
    row(
        A,
        |g| {
            resample(g).stride = whole(1);
            g.reshape("Y", nhwc(IMAGE));
        },
        &["OP-RF-BIL-STRIDE", "OP-RF-BIL-DIMS"],
    ),
    row(A, |g| to_nchw(g, &["X", "Y"]), &["OP-RF-NCHW-NO-UP", "OP-RF-NCHW-PAD"]),
];

const MAX_BACKWARD: &[Row] = &[
    row(
        A,
        |g| {
            g.op("pool").inputs.pop();
        },
        &["OP-RB-NHWC-IDX"],
    ),
    row(A, |g| resample(g).padding_mode = PaddingMode::ZeroPad, &["OP-RB-MAX-PAD"]),
    row(A, |g| resample(g).alpha = 2.0, &["OP-RB-ALPHA"]),
    row(A, |g| resample(g).beta = 1.0, &["OP-RB-BETA"]),
    row(A, |g| g.compute("pool", DataType::Half), &["OP-RB-COMP"]),
    row(A, |g| resample(g).mode = ResampleMode::Nearest, &["OP-RB-MODES"]),
    row(
        A,
        |g| {
            half_stride(g);
            g.reshape("DY", nhwc([2, 16, 13, 13]));
            g.reshape("index", nhwc([2, 16, 13, 13]));
        },
        &["OP-RB-NO-UP"],
    ),
    row(A, |g| to_nchw(g, &["DY", "index", "DX"]), &["OP-RB-NCHW-XY"]),
    row(
        A,
        |g| {
            to_nchw(g, &["DY", "index", "DX"]);
            forward_tensors(g);
        },
        &[],
    ),
    row(
        A,
        |g| {
            to_nchw(g, &["DY", "index", "DX"]);
            forward_tensors(g);
            g.types(&["index"], DataType::Int64);
        },
        &["OP-RB-NCHW-NO-I64", "S70-DTYPE-INPUT"],
    ),
    row(A, |g| g.reshape("DY", chwn(POOLED)), &["OP-RB-LAYOUT"]),
    row(A, one_axis, &["OP-RB-SPATIAL", "OP-RB-RANK"]),
];

const AVERAGE_BACKWARD: &[Row] = &[
    row(A, |g| resample(g).padding_mode = PaddingMode::EdgeValPad, &["OP-RB-AVG-PAD"]),
    row(A, read_index, &["OP-RB-NHWC-IDX"]),
];

const SIGNAL: &[Row] = &[
    row(&[H90, A80], |_| {}, &["S*-LIM-NO-PW"]),
    row(
        A,
        |g| {
            let y = g.id("Y");
            let z = g.pointwise("abs", PointwiseMode::Abs, &[y]);
            store_image(g, z);
        },
        &["S70-G2-SIGNAL-FINAL"],
    ),
];

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

/// Stride 1/2 over an 8×8 image with a 2×2 window: 13 outputs.
fn half_stride(g: &mut Graph) {
    resample(g).stride = halves(1);
    if g.operations[0].outputs.iter().any(|slot| g.tensors[slot.1.index()].name == "Y") {
        g.reshape("Y", nhwc([2, 16, 13, 13]));
    }
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

fn store_image(g: &mut Graph, id: TensorId) {
    *g.tensor_mut(id) = Tensor { name: "V".to_owned(), ..nhwc(IMAGE) };
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

fn indexed(g: &mut Graph) {
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

fn forward_tensors(g: &mut Graph) {
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
