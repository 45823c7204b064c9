//! Resampling by hand.

use super::*;
use ResampleMode::{AvgpoolExcludePadding as Exclude, AvgpoolIncludePadding as Include, Maxpool};

/// `x → y`, and the index where the mode has one. All tensors are FLOAT, the index INT32.
fn forward(attributes: Resample, dim: &[i64]) -> FinalizedGraph {
    let mut graph = float_graph();
    let x = graph.tensor(Tensor::new("x").channels_last(dim));
    let mut outputs = vec![(Port::Y, graph.tensor(Tensor::new("y")))];
    if attributes.mode == Maxpool {
        outputs.push((Port::INDEX, graph.tensor(Tensor::new("index").data_type(DataType::Int32))));
    }
    operation(&mut graph, Attributes::ResampleForward(attributes), &[(Port::X, x)], &outputs);
    graph.finalize().unwrap_or_else(|error| panic!("{error}"))
}

/// Values of Y, and of the index.
fn resampled(graph: &FinalizedGraph, x: &[f64]) -> (Vec<f64>, Vec<f64>) {
    let inputs = given(graph, &[("x", x)]);
    let outputs = execute(graph, &inputs).unwrap();
    let comparison = compare(graph, &oracle(graph, &inputs), &outputs, Some(&bounds(graph, &inputs).unwrap())).unwrap();
    assert!(comparison.is_match(), "{comparison}");
    let values = |name| {
        let id = graph.outputs().find(|&id| graph.tensor(id).name == name);
        id.map_or_else(Vec::new, |id| outputs[&id].to_dense().unwrap())
    };
    (values("y"), values("index"))
}

const NINE: [f64; 9] = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0];

#[test]
fn maxima_and_their_places() {
    let plain = forward(pooling(Maxpool, &[2, 2], &[1, 1], &[0, 0]), &[1, 1, 3, 3]);
    assert_eq!(resampled(&plain, &NINE), (vec![5.0, 6.0, 8.0, 9.0], vec![3.0; 4]));
    // Padded positions count: the window of the first corner has its first row and column outside.
    let padded = forward(pooling(Maxpool, &[3, 3], &[2, 2], &[1, 1]), &[1, 1, 3, 3]);
    assert_eq!(resampled(&padded, &NINE), (vec![5.0, 6.0, 8.0, 9.0], vec![8.0, 7.0, 5.0, 4.0]));
}

#[test]
fn averages_with_and_without_padding() {
    let sums = [12.0, 16.0, 24.0, 28.0];
    let include = forward(pooling(Include, &[3, 3], &[2, 2], &[1, 1]), &[1, 1, 3, 3]);
    assert_eq!(resampled(&include, &NINE).0, sums.map(|sum| f64::from(sum as f32 / 9.0)));
    let exclude = forward(pooling(Exclude, &[3, 3], &[2, 2], &[1, 1]), &[1, 1, 3, 3]);
    assert_eq!(resampled(&exclude, &NINE).0, sums.map(|sum| sum / 4.0));
}

#[test]
fn the_last_window_may_leave_pixels_out_and_post_padding_may_differ() {
    // 1 + ⌊(4 + 0 + 1 − 2) / 2⌋ = 2: the post-padding is not reached.
    let mut attributes = pooling(Exclude, &[2, 1], &[2, 1], &[0, 0]);
    attributes.post_padding[0] = Fraction::whole(1);
    let four = forward(attributes.clone(), &[1, 1, 4, 1]);
    assert_eq!(resampled(&four, &[1.0, 3.0, 5.0, 9.0]).0, [2.0, 7.0]);
    let five = forward(attributes.clone(), &[1, 1, 5, 1]);
    assert_eq!(resampled(&five, &[1.0, 3.0, 5.0, 9.0, 4.0]).0, [2.0, 7.0, 4.0]);
    attributes.pre_padding[0] = Fraction::whole(-1);
    let cut = forward(attributes, &[1, 1, 5, 1]);
    assert_eq!(resampled(&cut, &[1.0, 3.0, 5.0, 9.0, 4.0]).0, [4.0, 6.5]);
}

#[test]
fn windows_wholly_in_padding() {
    let graph = |mode| forward(pooling(mode, &[2, 2], &[2, 2], &[3, 3]), &[1, 1, 1, 1]);
    let around = |middle: f64, else_: f64| {
        let mut all = vec![else_; 9];
        all[4] = middle;
        all
    };
    let low = f64::NEG_INFINITY;
    assert_eq!(resampled(&graph(Maxpool), &[-8.0]), (around(-8.0, low), around(3.0, 0.0)));
    assert_eq!(resampled(&graph(Include), &[-8.0]).0, around(-2.0, 0.0));
    assert_eq!(resampled(&graph(Exclude), &[-8.0]).0, around(-8.0, 0.0));
}

#[test]
fn the_first_of_equal_maxima_wins() {
    let graph = forward(pooling(Maxpool, &[2, 2], &[1, 1], &[0, 0]), &[1, 1, 2, 2]);
    for (x, place) in [
        ([1.0, 1.0, 1.0, 1.0], 0.0),
        ([0.0, 1.0, 1.0, 1.0], 1.0),
        ([0.0, 0.0, 1.0, 1.0], 2.0),
        ([-0.0, 0.0, -1.0, -1.0], 0.0),
        ([f64::NEG_INFINITY; 4], 0.0),
    ] {
        assert_eq!(resampled(&graph, &x).1, [place], "{x:?}");
    }
}

#[test]
fn padding_ties_with_nothing_but_infinity() {
    let graph = forward(pooling(Maxpool, &[3, 1], &[3, 1], &[1, 0]), &[1, 1, 1, 1]);
    assert_eq!(resampled(&graph, &[f64::NEG_INFINITY]), (vec![f64::NEG_INFINITY], vec![0.0]));
    assert_eq!(resampled(&graph, &[-1e38]).1, [1.0]);
}

#[test]
fn nan_propagates_and_its_first_place_is_the_index() {
    let graph = forward(pooling(Maxpool, &[2, 2], &[1, 1], &[0, 0]), &[1, 1, 2, 2]);
    for (x, place) in [
        ([9.0, f64::NAN, f64::INFINITY, 1.0], 1.0),
        ([f64::NAN, f64::NAN, 1.0, 1.0], 0.0),
        ([1.0, 1.0, 1.0, f64::NAN], 3.0),
    ] {
        let (y, index) = resampled(&graph, &x);
        assert!(y[0].is_nan(), "{x:?}");
        assert_eq!(index, [place], "{x:?}");
    }
    let mean = forward(pooling(Include, &[2, 2], &[1, 1], &[0, 0]), &[1, 1, 2, 2]);
    assert!(resampled(&mean, &[1.0, f64::NAN, 1.0, 1.0]).0[0].is_nan());
}

/// Twice the extents.
fn bilinear(axes: usize) -> Resample {
    let all = |numerator, denominator| vec![Fraction { numerator, denominator }; axes];
    Resample {
        mode: ResampleMode::Bilinear,
        padding_mode: PaddingMode::EdgeValPad,
        window: all(4, 2),
        stride: all(1, 2),
        pre_padding: all(1, 2),
        post_padding: all(1, 1),
        ..pooling(Maxpool, &[], &[], &[])
    }
}

#[test]
fn bilinear_copies_and_averages() {
    let line = forward(bilinear(2), &[1, 1, 1, 3]);
    let row = [1.0, 1.0, 2.0, 3.0, 5.0, 7.0];
    assert_eq!(resampled(&line, &[1.0, 3.0, 7.0]).0, [row, row].concat());
    let square = forward(bilinear(2), &[1, 1, 2, 2]);
    let expected =
        [[0.0, 0.0, 4.0, 8.0], [0.0, 0.0, 4.0, 8.0], [8.0, 8.0, 12.0, 16.0], [16.0, 16.0, 20.0, 24.0]].concat();
    assert_eq!(resampled(&square, &[0.0, 8.0, 16.0, 24.0]).0, expected);
    let cube = forward(bilinear(3), &[1, 1, 1, 1, 2]);
    assert_eq!(resampled(&cube, &[2.0, 4.0]).0, [2.0, 2.0, 3.0, 4.0].repeat(4));
}

#[test]
fn bilinear_does_not_read_neighbours_of_weight_zero() {
    let line = forward(bilinear(2), &[1, 1, 1, 3]);
    let (y, _) = resampled(&line, &[1.0, f64::NAN, 7.0]);
    assert_eq!((y[1], y[5]), (1.0, 7.0));
    assert!(y[2].is_nan() && y[3].is_nan() && y[4].is_nan());
}

#[test]
fn bilinear_agrees_with_the_oracle_in_either_layout() {
    for dim in [&[2, 3, 5, 7][..], &[1, 8, 1, 9], &[2, 3, 4, 1, 5]] {
        for is_channels_last in [true, false] {
            let mut graph = float_graph();
            let x = Tensor::new("x");
            let x = graph.tensor(if is_channels_last { x.channels_last(dim) } else { x.row_major(dim) });
            let y = graph.resample("up", bilinear(dim.len() - 2), x);
            graph.set_output(y);
            assert_agreement(&graph, true);
        }
    }
}

#[test]
fn both_readings_of_bilinear_agree_on_constants_and_ranges() {
    let graph = forward(bilinear(2), &[2, 3, 4, 5]);
    assert!(resampled(&graph, &[2.5; 120]).0.iter().all(|&y| y == 2.5));
    assert_eq!(graph.tensor(by_name(&graph, "y")).dim, [2, 3, 8, 10]);
    let ramp: Vec<f64> = (0..120).map(|i| f64::from(i % 5)).collect();
    let y = resampled(&graph, &ramp).0;
    assert!(y.chunks(10).all(|row| row.is_sorted() && row[0] >= 0.0 && row[9] <= 4.0));
}

#[test]
fn scales_apply_to_y_and_not_to_the_index() {
    let attributes = Resample { alpha: 2.0, beta: 0.5, ..pooling(Maxpool, &[2, 2], &[2, 2], &[0, 0]) };
    let graph = forward(attributes, &[1, 1, 2, 2]);
    let inputs = given(&graph, &[("x", &[1.0, 2.0, 4.0, 3.0]), ("y", &[10.0])]);
    let outputs = execute(&graph, &inputs).unwrap();
    let value = |name: &str| outputs[&by_name(&graph, name)].to_dense::<f64>().unwrap();
    assert_eq!((value("y"), value("index")), (vec![13.0], vec![2.0]));
    assert_eq!(oracle(&graph, &inputs), outputs);
    let random = random_inputs(&graph, 0, Distribution::Normal).unwrap();
    assert!(random.contains_key(&by_name(&graph, "y")) && !random.contains_key(&by_name(&graph, "index")));
}

#[test]
fn narrow_types_saturate() {
    for (data_type, low) in [
        (DataType::Int8, -128.0),
        (DataType::Fp8E4M3, -448.0),
        (DataType::Half, f64::NEG_INFINITY),
        (DataType::BFloat16, f64::NEG_INFINITY),
    ] {
        let mut graph = float_graph().io_data_type(data_type);
        let x = graph.tensor(Tensor::new("x").channels_last([1, 1, 1, 1]));
        let y = graph.resample("pool", pooling(Maxpool, &[1, 1], &[1, 1], &[1, 0]), x);
        graph.set_output(y);
        let graph = graph.finalize().unwrap();
        assert_eq!(output(&graph, &given(&graph, &[("x", &[3.0])])), [low, 3.0, low], "{data_type}");
    }
}

#[test]
fn meaningless_parameters_are_refused_with_a_reason() {
    let half = Fraction { numerator: 1, denominator: 2 };
    let max = pooling(Maxpool, &[2, 2], &[1, 1], &[0, 0]);
    let cases = [
        (Resample { mode: ResampleMode::Nearest, ..max.clone() }, "NEAREST (OP-RF-NO-NEAREST)"),
        (
            Resample { padding_mode: PaddingMode::ZeroPad, ..max.clone() },
            "MAXPOOL with padding mode NEG_INF_PAD, found ZERO_PAD",
        ),
        (Resample { padding_mode: PaddingMode::ZeroPad, ..bilinear(2) }, "BILINEAR with padding mode EDGE_VAL_PAD"),
        (Resample { window: vec![Fraction::whole(3); 2], ..bilinear(2) }, "BILINEAR with window 2"),
        (Resample { stride: vec![half; 2], ..max.clone() }, "whole windows, strides and paddings (OP-RF-FREE)"),
        (Resample { stride: vec![Fraction::whole(1 << 32); 2], ..max.clone() }, "up to 2147483648"),
        (
            Resample {
                window: vec![Fraction::whole(1 << 20); 2],
                pre_padding: vec![Fraction::whole(1 << 20); 2],
                stride: vec![Fraction::whole(1 << 30); 2],
                ..max
            },
            "windows of up to 2147483648 positions, found 1099511627776",
        ),
    ];
    for (attributes, reason) in cases {
        let mut graph = float_graph();
        let x = graph.tensor(Tensor::new("x").channels_last([1, 1, 2, 2]));
        let y = graph.resample("pool", attributes, x);
        graph.set_output(y);
        let graph = graph.finalize().unwrap_or_else(|error| panic!("{reason}: {error}"));
        for error in [
            execute(&graph, &HostTensors::new()).unwrap_err(),
            evaluate_f64(&graph, &HostTensors::new()).unwrap_err(),
            bounds(&graph, &HostTensors::new()).unwrap_err(),
        ] {
            assert!(error.to_string().contains(reason), "{error}");
        }
    }
}
