//! Pointwise graphs whose operands lie in other layouts than their results: tiles of these go through shared memory.

use fusewright::graph::DataType::{self, BFloat16, Boolean, Float, Fp8E4M3, Half, Int8, Int64};
use fusewright::graph::{PointwiseMode, Scalar, Tensor};

use crate::cases::{Case, graph, push};

/// Adds the cases of this file.
pub(crate) fn cases(cases: &mut Vec<Case>) {
    sums_of_layouts(cases);
    several_operands(cases);
    matrices(cases);
    masks(cases);
}

/// `x + r` with channels innermost in r and in the result: tiles that are whole, end early both ways, are short one way, of each size of element.
fn sums_of_layouts(cases: &mut Vec<Case>) {
    let shapes: [(&str, DataType, DataType, [i64; 4]); 9] = [
        ("whole", Half, Half, [1, 64, 8, 16]),
        ("ragged", Half, Half, [2, 72, 7, 10]),
        ("odd_pixels", BFloat16, BFloat16, [2, 40, 7, 9]),
        ("odd_channels", BFloat16, BFloat16, [1, 37, 8, 8]),
        ("few_channels", Half, Half, [1, 16, 15, 20]),
        ("few_pixels", Float, Float, [3, 136, 4, 5]),
        ("of_floats", Float, Half, [1, 72, 6, 12]),
        ("of_bytes", Int8, Fp8E4M3, [1, 144, 12, 12]),
        ("of_long_integers", Int64, Int64, [1, 18, 5, 6]),
    ];
    for (label, operand, result, dim) in shapes {
        let mut g = graph(result);
        let x = g.tensor(Tensor::new("x").row_major(dim).data_type(operand));
        let r = g.tensor(Tensor::new("r").channels_last(dim));
        let y = g.pointwise("y", PointwiseMode::Add, &[x, r]);
        *g.set_output(y) = Tensor::new("y").channels_last(dim).data_type(result);
        push(cases, format!("pw_transposed_{label}"), g);
    }
}

/// Operands of several layouts at once: one for all images, one by channels, a number of the host's, and the result row-major.
fn several_operands(cases: &mut Vec<Case>) {
    let dim = [2, 48, 6, 10];
    let mut g = graph(Half);
    let x = g.tensor(Tensor::new("x").row_major(dim));
    let shared = g.tensor(Tensor::new("shared").row_major([1, 48, 6, 10]).data_type(Float));
    let bias = g.tensor(Tensor::new("bias").channels_last([1, 48, 1, 1]).data_type(Float));
    let sum = g.pointwise("sum", PointwiseMode::Add, &[x, shared]);
    let biased = g.pointwise("biased", PointwiseMode::Add, &[sum, bias]);
    let y = g.pointwise("y", PointwiseMode::ReluFwd, &[biased]);
    *g.set_output(y) = Tensor::new("y").channels_last(dim);
    push(cases, "pw_transposed_two_operands", g);

    let mut g = graph(BFloat16);
    let x = g.tensor(Tensor::new("x").channels_last(dim));
    let bias = g.tensor(Tensor::new("bias").channels_last([1, 48, 1, 1]));
    let scaled = g.pointwise("scaled", PointwiseMode::Mul, &[x, bias]);
    let number = g.tensor(Tensor::scalar("number", Float, Scalar::Float(0.375)));
    let y = g.pointwise("y", PointwiseMode::Add, &[scaled, number]);
    *g.set_output(y) = Tensor::new("y").row_major(dim);
    push(cases, "pw_transposed_to_row_major", g);
}

/// Matrices: rows become columns, and heads change places with rows around them.
fn matrices(cases: &mut Vec<Case>) {
    let mut g = graph(Half);
    let x = g.tensor(Tensor::new("x").dim([2, 33, 70]).stride([2310, 1, 33]));
    let y = g.pointwise("y", PointwiseMode::SwishFwd, &[x]);
    *g.set_output(y) = Tensor::new("y").row_major([2, 33, 70]);
    push(cases, "pw_transposed_matrices", g);

    let mut g = graph(BFloat16);
    let dim = [2, 3, 18, 32];
    let x = g.tensor(Tensor::new("keys").dim(dim).stride([1728, 32, 96, 1]));
    let turned = g.tensor(Tensor::new("turned").dim(dim).stride([1728, 576, 1, 18]));
    let y = g.pointwise("y", PointwiseMode::Sub, &[x, turned]);
    *g.set_output(y) = Tensor::new("y").row_major(dim);
    push(cases, "pw_transposed_heads", g);
}

/// Masks of bits as results, whose bytes lie along channels, and as operands, which are read by the bit.
fn masks(cases: &mut Vec<Case>) {
    let dim = [1, 40, 6, 6];
    let mut g = graph(Half);
    let x = g.tensor(Tensor::new("x").row_major(dim));
    let r = g.tensor(Tensor::new("r").channels_last(dim));
    let mask = g.pointwise("mask", PointwiseMode::CmpGt, &[x, r]);
    *g.set_output(mask) = Tensor::new("mask").channels_last(dim).data_type(Boolean);
    let larger = g.pointwise("larger", PointwiseMode::Max, &[x, r]);
    *g.set_output(larger) = Tensor::new("larger").channels_last(dim);
    push(cases, "pw_transposed_mask_stored", g);

    let mut g = graph(Half);
    let x = g.tensor(Tensor::new("x").row_major(dim));
    let mask = g.tensor(Tensor::new("mask").row_major(dim).data_type(Boolean));
    let y = g.pointwise("y", PointwiseMode::Mul, &[x, mask]);
    *g.set_output(y) = Tensor::new("y").channels_last(dim);
    push(cases, "pw_transposed_mask_read", g);
}
