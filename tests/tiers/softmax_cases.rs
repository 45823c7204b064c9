//! Softmax, unfused: its statistics, masks that leave rows empty, rows of every length, between other operations.

use fusewright::graph::DataType::{BFloat16, Float, Fp8E4M3, Half};
use fusewright::graph::{DataType, Graph, PointwiseMode, Port, ReductionMode, Scalar, Softmax, Tensor};

use crate::cases::{self, Case, output, push};

/// Adds the cases of this file.
pub(crate) fn softmaxes(cases: &mut Vec<Case>) {
    for (name, data_type) in [("float", Float), ("half", Half), ("bf16", BFloat16)] {
        push(cases, format!("softmax_{name}"), of(Tensor::new("x").row_major([2, 3, 5, 64]), data_type));
        push(cases, format!("softmax_{name}_ragged"), of(Tensor::new("x").row_major([3, 7, 37]), data_type));
    }
    for (name, dim) in [
        ("one_column", vec![2, 9, 1]),
        ("one_row", vec![1, 1, 129]),
        ("one_element", vec![1, 1]),
        ("vector", vec![100]),
        ("long_row", vec![1, 2, 9000]),
        ("long_rows_of_clusters", vec![1, 3, 32_776]),
        ("many_rows", vec![3, 500, 3]),
        ("rank_8", vec![2, 1, 2, 1, 2, 3, 2, 5]),
    ] {
        push(cases, format!("softmax_{name}"), of(Tensor::new("x").row_major(dim), Half));
    }
    push(cases, "softmax_channels_last", of(Tensor::new("x").channels_last([2, 5, 3, 8]), Half));
    push(cases, "softmax_strided", of(Tensor::new("x").dim([2, 5, 8]).stride([100, 1, 12]), Half));
    push(cases, "softmax_statistics_sink", statistics_and_sink([2, 3, 5, 40]));
    push(cases, "softmax_statistics_one_column", statistics_and_sink([2, 3, 5, 1]));
    push(cases, "softmax_virtual_statistics", virtual_statistics());
    push(cases, "softmax_masked_rows", masked_rows());
    push(cases, "softmax_equal_maxima", equal_maxima());
    push(cases, "softmax_between", between());
    push(cases, "softmax_twice", twice());
    push(cases, "softmax_summed", summed());
}

/// Y alone, of the type of X.
fn of(x: Tensor, data_type: DataType) -> Graph {
    let mut g = cases::graph(data_type);
    let x = g.tensor(x);
    let y = g.softmax("softmax", x);
    output(&mut g, y, data_type);
    g
}

fn statistics_and_sink(dim: [i64; 4]) -> Graph {
    let mut g = cases::graph(Half);
    let x = g.tensor(Tensor::new("x").row_major(dim));
    let sink = g.tensor(Tensor::new("sink").row_major([1, dim[1], 1, 1]).data_type(Float));
    let (y, statistics) = g.softmax_with("softmax", x, Some(sink), Softmax::STATISTICS);
    output(&mut g, y, Fp8E4M3);
    for id in statistics {
        output(&mut g, id, Float);
    }
    g
}

/// `exp(x − stats)`, which is the softmax again.
fn virtual_statistics() -> Graph {
    let mut g = cases::graph(Half);
    let x = g.tensor(Tensor::new("x").row_major([2, 6, 24]));
    let (y, statistics) = g.softmax_with("softmax", x, None, &[Port::STATS, Port::MAX]);
    let below = g.pointwise("below", PointwiseMode::Sub, &[x, statistics[0]]);
    let again = g.pointwise("again", PointwiseMode::Exp, &[below]);
    let difference = g.pointwise("difference", PointwiseMode::Sub, &[again, y]);
    output(&mut g, difference, Float);
    g
}

/// Scores that are not above a limit of their row are masked with −∞: many rows of three are empty.
fn masked_rows() -> Graph {
    let mut g = cases::graph(Half);
    let x = g.tensor(Tensor::new("x").row_major([2, 64, 3]));
    let limit = g.tensor(Tensor::new("limit").row_major([2, 64, 1]));
    let infinity = g.tensor(Tensor::scalar("infinity", Float, Scalar::Float(f64::NEG_INFINITY)));
    let kept = g.pointwise("kept", PointwiseMode::CmpGt, &[x, limit]);
    g.tensor_mut(kept).data_type = Some(DataType::Boolean);
    let masked = g.pointwise("masked", PointwiseMode::BinarySelect, &[x, infinity, kept]);
    let (y, statistics) = g.softmax_with("softmax", masked, None, Softmax::STATISTICS);
    for id in [y].into_iter().chain(statistics) {
        output(&mut g, id, Float);
    }
    g
}

/// Rounded down, several elements of a row are its maximum.
fn equal_maxima() -> Graph {
    let mut g = cases::graph(Float);
    let x = g.tensor(Tensor::new("x").row_major([4, 5, 48]));
    let whole = g.pointwise("whole", PointwiseMode::Floor, &[x]);
    output(&mut g, whole, Float);
    let (y, statistics) = g.softmax_with("softmax", whole, None, &[Port::SUM_EXP]);
    output(&mut g, y, Float);
    output(&mut g, statistics[0], Float);
    g
}

/// Scaled before, activated after, in types of its own.
fn between() -> Graph {
    let mut g = cases::graph(BFloat16);
    let x = g.tensor(Tensor::new("x").row_major([2, 3, 9, 20]));
    let scale = g.tensor(Tensor::new("scale").row_major([1, 3, 1, 20]));
    let scaled = g.pointwise("scaled", PointwiseMode::Mul, &[x, scale]);
    g.tensor_mut(scaled).data_type = Some(Half);
    let y = g.softmax("softmax", scaled);
    g.tensor_mut(y).data_type = Some(Half);
    let gated = g.pointwise("gated", PointwiseMode::Mul, &[x, y]);
    output(&mut g, gated, BFloat16);
    g
}

/// A softmax of a softmax, both stored.
fn twice() -> Graph {
    let mut g = cases::graph(Half);
    let x = g.tensor(Tensor::new("x").row_major([2, 8, 30]));
    let once = g.softmax("once", x);
    output(&mut g, once, Half);
    let again = g.softmax("again", once);
    output(&mut g, again, Half);
    g
}

/// A sum of squares of shares over all rows, behind the softmax.
fn summed() -> Graph {
    let mut g = cases::graph(Half);
    let x = g.tensor(Tensor::new("x").row_major([2, 40, 12]));
    let y = g.softmax("softmax", x);
    let squares = g.pointwise("squares", PointwiseMode::Mul, &[y, y]);
    let sum = g.reduction("sum", ReductionMode::Add, squares, [1, 1, 1]);
    output(&mut g, sum, Float);
    g
}
