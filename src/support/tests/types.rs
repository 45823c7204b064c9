//! Data types and compute types.

use super::graphs::*;
use super::*;
use crate::graph::PointwiseMode;

const ALL: &[At] = &[H90, A80, A70];
const H_A: &[At] = &[H90, A80];

pub(super) static SUITES: &[Suite] = &[
    Suite { name: "types of a matmul", base: matmul, legal: ALL, rows: MATMUL },
    Suite { name: "core types", base: lone_matmul, legal: &[H90, A80, L80, A70, V70], rows: CORE },
    Suite { name: "types without a core", base: image, legal: &[A70, V70], rows: IMAGE_ROWS },
    Suite { name: "logic", base: logic, legal: &[A70, V70], rows: LOGIC },
];

const MATMUL: &[Row] = &[
    row(ALL, |g| g.types(&["bias"], DataType::Int32), &[]),
    row(ALL, |g| g.types(&["bias"], DataType::Int64), &["S*-DTYPE-INPUT"]),
    row(ALL, |g| g.types(&["bias"], DataType::UInt8), &["S*-DTYPE-INPUT"]),
    row(ALL, |g| g.types(&["bias"], DataType::Double), &["S*-DTYPE-INPUT"]),
    row(H_A, |g| g.types(&["bias"], DataType::Boolean), &["S*-NO-BOOLEAN"]),
    row(&[A70], |g| g.types(&["bias"], DataType::Boolean), &["S70-DTYPE-BOOL-NOT-INPUT"]),
    row(ALL, |g| g.types(&["Y"], DataType::Int64), &[]),
    row(ALL, |g| g.types(&["Y"], DataType::UInt8), &[]),
    row(ALL, |g| g.types(&["Y"], DataType::Double), &["S*-DTYPE-OUTPUT"]),
    row(H_A, |g| g.types(&["Y"], DataType::Boolean), &["S*-NO-BOOLEAN"]),
    row(&[A70], |g| g.types(&["Y"], DataType::Boolean), &[]),
    row(ALL, |g| g.types(&["mm::C"], DataType::BFloat16), &[]),
    row(ALL, |g| g.types(&["mm::C"], DataType::Int64), &["S*-DTYPE-VIRTUAL"]),
    row(ALL, |g| g.types(&["add::OUT_0"], DataType::UInt8), &["S*-DTYPE-VIRTUAL"]),
    row(H_A, |g| g.types(&["add::OUT_0"], DataType::Boolean), &["S*-NO-BOOLEAN"]),
    row(&[A70], |g| g.types(&["add::OUT_0"], DataType::Boolean), &[]),
    row(&[H90, L80, H80], |g| g.types(&["Y"], DataType::Fp8E4M3), &[]),
    row(&[A80], |g| g.types(&["Y"], DataType::Fp8E4M3), &["S80-DTYPE-FP8-CC"]),
    row(&[A80], |g| g.types(&["mm::C"], DataType::Fp8E5M2), &["S80-DTYPE-FP8-CC"]),
    row(&[A70], |g| g.types(&["Y"], DataType::Fp8E4M3), &["S70-DTYPE-FP8-PW-ONLY"]),
    // Pointwise compute types.
    row(H_A, |g| g.compute("add", DataType::Int32), &[]),
    row(&[A70], |g| g.compute("add", DataType::Int32), &["OP-PW7-PREC-OTHER"]),
    row(H_A, |g| g.compute("add", DataType::Half), &["OP-PW98-PREC-INTOK"]),
    row(H_A, |g| g.compute("relu", DataType::Int32), &["OP-PW98-PREC-OTHER"]),
    row(H_A, |g| g.pointwise_of("add").mode = PointwiseMode::LogicalAnd, &["OP-PW98-PREC-LOGIC"]),
    row(
        H_A,
        |g| {
            g.pointwise_of("add").mode = PointwiseMode::LogicalAnd;
            g.compute("add", DataType::Int32);
        },
        &[],
    ),
    row(
        H_A,
        |g| {
            g.pointwise_of("relu").mode = PointwiseMode::Identity;
            g.compute("relu", DataType::Half);
        },
        &["OP-PW98-PREC-IDENT"],
    ),
    row(H_A, identity_in_half, &[]),
    row(H_A, |g| g.pointwise_of("add").alpha1 = 2.0, &["OP-PW98-ALPHA1"]),
    row(H_A, |g| g.pointwise_of("add").alpha2 = -1.0, &["OP-PW98-ALPHA2"]),
    row(&[A70], |g| g.pointwise_of("add").alpha1 = 2.0, &["OP-PW7-ALPHA1"]),
    row(&[A70], |g| g.pointwise_of("add").alpha2 = -1.0, &["OP-PW7-ALPHA2"]),
];

const CORE: &[Row] = &[
    row(ALL, |g| g.compute("mm", DataType::Half), &[]),
    row(ALL, |g| g.compute("mm", DataType::Int32), &["S*-COMB-HALF"]),
    row(ALL, |g| both(g, DataType::BFloat16), &[]),
    row(&[V70, T70], |g| both(g, DataType::BFloat16), &["S70-COMB-BF16"]),
    row(
        ALL,
        |g| {
            both(g, DataType::BFloat16);
            g.compute("mm", DataType::Half);
        },
        &["S*-COMB-BF16"],
    ),
    row(ALL, |g| both(g, DataType::Float), &[]),
    row(
        ALL,
        |g| {
            both(g, DataType::Float);
            g.compute("mm", DataType::Half);
        },
        &["S*-COMB-FLOAT"],
    ),
    row(H_A, |g| both(g, DataType::Int8), &["S*-COMB-INT8"]),
    row(ALL, |g| g.types(&["A"], DataType::Float), &["S*-COMB-FLOAT", "S*-COMB-HALF"]),
    row(&[H90, L80], |g| both(g, DataType::Fp8E4M3), &[]),
    row(
        &[H90, L80],
        |g| {
            both(g, DataType::Fp8E4M3);
            g.types(&["B"], DataType::Fp8E5M2);
        },
        &[],
    ),
    row(
        &[H90, L80],
        |g| {
            both(g, DataType::Fp8E5M2);
            g.compute("mm", DataType::FastFloatForFp8);
        },
        &[],
    ),
    row(
        &[H90, L80],
        |g| {
            both(g, DataType::Fp8E5M2);
            g.compute("mm", DataType::Half);
        },
        &["S*-COMB-FP8"],
    ),
    row(&[A80, H80], |g| both(g, DataType::Fp8E4M3), &["S80-DTYPE-CORE-FP8-CC"]),
    row(&[A70], |g| both(g, DataType::Fp8E4M3), &["S70-DTYPE-CORE-IN"]),
    row(ALL, |g| both(g, DataType::Int32), &["S*-DTYPE-CORE-IN"]),
    row(
        &[H90],
        |g| {
            both(g, DataType::Boolean);
            g.reshape("A", rows([2, 32, 128]));
            g.reshape("B", rows([2, 128, 128]));
            g.reshape("C", rows([2, 32, 128]));
        },
        &["S90-DTYPE-CORE-IN", "S90-NO-BOOLEAN"],
    ),
    row(ALL, |g| both(g, DataType::Double), &["S*-DTYPE-CORE-IN", "S*-DTYPE-INPUT"]),
];

const IMAGE_ROWS: &[Row] = &[
    row(H_A, |_| {}, &["S*-LIM-NO-PW"]),
    row(&[A70, V70], |g| g.types(&["X", "bias", "add::OUT_0"], DataType::Fp8E5M2), &[]),
    row(&[V70], |g| g.types(&["X", "bias", "Y"], DataType::BFloat16), &[]),
    row(&[A70], |g| g.types(&["bias"], DataType::Int64), &["S70-DTYPE-INPUT"]),
    row(H_A, |g| g.types(&["bias"], DataType::Int64), &["S*-LIM-NO-PW", "S*-DTYPE-INPUT"]),
];

const LOGIC: &[Row] = &[
    row(&[A70], |g| g.types(&["gt::OUT_0"], DataType::Int8), &[]),
    row(&[A70], |g| g.types(&["gt::OUT_0"], DataType::Float), &["OP-PW7-DTYPE-LOGIC"]),
    row(&[A70], |g| g.types(&["Y"], DataType::UInt8), &["OP-PW7-DTYPE-LOGIC"]),
    row(&[A70], |g| g.compute("not", DataType::Float), &["OP-PW7-PREC-LOGIC"]),
    row(&[A70], |g| g.compute("gt", DataType::Boolean), &["OP-PW7-PREC-OTHER"]),
];

fn both(g: &mut Graph, data_type: DataType) {
    g.types(&["A", "B"], data_type);
}

/// IDENTITY from HALF to HALF in HALF.
fn identity_in_half(g: &mut Graph) {
    g.pointwise_of("relu").mode = PointwiseMode::Identity;
    g.compute("relu", DataType::Half);
    g.types(&["add::OUT_0"], DataType::Half);
}
