//! Data types and compute types.

use super::graphs::*;
use super::*;
use crate::graph::PointwiseMode;

const ALL: &[At] = &[H90, A80, A70];
const H_A: &[At] = &[H90, A80];

pub(super) static SUITES: &[Suite] = &[
    Suite { name: "types of a matmul", base: matmul, legal: ALL, pairs: MATMUL_PAIRS, rows: MATMUL_ROWS },
    Suite {
        name: "core types",
        base: lone_matmul,
        legal: &[H90, A80, L80, A70, V70],
        pairs: CORE_PAIRS,
        rows: CORE_ROWS,
    },
    Suite { name: "types without a core", base: image, legal: &[A70, V70], pairs: IMAGE_PAIRS, rows: IMAGE_ROWS },
    Suite { name: "logic", base: logic, legal: &[A70, V70], pairs: LOGIC_PAIRS, rows: LOGIC_ROWS },
];

const MATMUL_PAIRS: &[Pair] = &[
    pair("S*-DTYPE-INPUT", ALL, |g| g.types(&["bias"], DataType::Int64), |g| g.types(&["bias"], DataType::Int32)),
    pair("S*-DTYPE-VIRTUAL", ALL, |g| g.types(&["mm::C"], DataType::Int64), |g| g.types(&["mm::C"], DataType::Int32)),
    pair("S*-DTYPE-OUTPUT", ALL, |g| g.types(&["Y"], DataType::Double), |g| g.types(&["Y"], DataType::Int64)),
    pair("S*-NO-BOOLEAN", H_A, |g| g.types(&["bias"], DataType::Boolean), |g| g.types(&["bias"], DataType::Int8)),
    pair(
        "S70-DTYPE-BOOL-NOT-INPUT",
        &[A70],
        |g| g.types(&["bias"], DataType::Boolean),
        |g| g.types(&["add::OUT_0"], DataType::Boolean),
    ),
    chips("S80-DTYPE-FP8-CC", &[A80], &[L80, H80], |g| g.types(&["Y"], DataType::Fp8E4M3)),
    pair(
        "S70-DTYPE-FP8-PW-ONLY",
        &[A70],
        |g| g.types(&["Y"], DataType::Fp8E4M3),
        |g| {
            *g = image();
            g.types(&["Y"], DataType::Fp8E4M3);
        },
    ),
    // Pointwise compute types and scales.
    pair("OP-PW98-PREC-INTOK", H_A, |g| g.compute("add", DataType::Half), |g| g.compute("add", DataType::Int32)),
    pair("OP-PW98-PREC-OTHER", H_A, |g| g.compute("relu", DataType::Int32), AS_IS),
    pair("OP-PW98-PREC-LOGIC", H_A, |g| and(g, DataType::Float), |g| and(g, DataType::Int32)),
    pair("OP-PW98-PREC-IDENT", H_A, identity_in_half, |g| {
        identity_in_half(g);
        g.types(&["add::OUT_0"], DataType::Half);
    }),
    pair("OP-PW98-ALPHA1", H_A, |g| g.pointwise_of("add").alpha1 = 2.0, AS_IS),
    pair("OP-PW98-ALPHA2", H_A, |g| g.pointwise_of("add").alpha2 = -1.0, AS_IS),
    pair("OP-PW7-PREC-OTHER", &[A70], |g| g.compute("add", DataType::Int32), AS_IS),
    pair("OP-PW7-ALPHA1", &[A70], |g| g.pointwise_of("add").alpha1 = 2.0, AS_IS),
    pair("OP-PW7-ALPHA2", &[A70], |g| g.pointwise_of("add").alpha2 = -1.0, AS_IS),
];

const MATMUL_ROWS: &[Row] = &[
    row(ALL, |g| g.types(&["bias"], DataType::UInt8), &["S*-DTYPE-INPUT"]),
    row(ALL, |g| g.types(&["bias"], DataType::Double), &["S*-DTYPE-INPUT"]),
    row(ALL, |g| g.types(&["Y"], DataType::UInt8), &[]),
    row(H_A, |g| g.types(&["Y"], DataType::Boolean), &["S*-NO-BOOLEAN"]),
    row(&[A70], |g| g.types(&["Y"], DataType::Boolean), &[]),
    row(ALL, |g| g.types(&["mm::C"], DataType::BFloat16), &[]),
    row(ALL, |g| g.types(&["add::OUT_0"], DataType::UInt8), &["S*-DTYPE-VIRTUAL"]),
    row(H_A, |g| g.types(&["add::OUT_0"], DataType::Boolean), &["S*-NO-BOOLEAN"]),
    row(&[H90], |g| g.types(&["Y"], DataType::Fp8E4M3), &[]),
    row(&[A80], |g| g.types(&["mm::C"], DataType::Fp8E5M2), &["S80-DTYPE-FP8-CC"]),
];

const CORE_PAIRS: &[Pair] = &[
    pair("S*-DTYPE-CORE-IN", ALL, |g| both(g, DataType::Int32), |g| both(g, DataType::Float)),
    chips("S80-DTYPE-CORE-FP8-CC", &[A80, H80], &[L80], |g| both(g, DataType::Fp8E4M3)),
    pair("S*-COMB-HALF", ALL, |g| g.compute("mm", DataType::Int32), |g| g.compute("mm", DataType::Half)),
    pair(
        "S*-COMB-BF16",
        ALL,
        |g| {
            both(g, DataType::BFloat16);
            g.compute("mm", DataType::Half);
        },
        |g| both(g, DataType::BFloat16),
    ),
    chips("S70-COMB-BF16", &[V70, T70], &[A70], |g| both(g, DataType::BFloat16)),
    pair(
        "S*-COMB-FLOAT",
        ALL,
        |g| {
            both(g, DataType::Float);
            g.compute("mm", DataType::Half);
        },
        |g| both(g, DataType::Float),
    ),
    pair(
        "S*-COMB-FP8",
        &[H90, L80],
        |g| {
            both(g, DataType::Fp8E5M2);
            g.compute("mm", DataType::Half);
        },
        |g| {
            both(g, DataType::Fp8E5M2);
            g.compute("mm", DataType::FastFloatForFp8);
        },
    ),
];

const CORE_ROWS: &[Row] = &[
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
    row(&[A70], |g| both(g, DataType::Fp8E4M3), &["S70-DTYPE-CORE-IN"]),
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

const IMAGE_PAIRS: &[Pair] = &[pair("S*-LIM-NO-PW", H_A, AS_IS, |g| *g = forward())];

const IMAGE_ROWS: &[Row] = &[
    row(&[A70, V70], |g| g.types(&["X", "bias", "add::OUT_0"], DataType::Fp8E5M2), &[]),
    row(&[V70], |g| g.types(&["X", "bias", "Y"], DataType::BFloat16), &[]),
    row(&[A70], |g| g.types(&["bias"], DataType::Int64), &["S70-DTYPE-INPUT"]),
    row(H_A, |g| g.types(&["bias"], DataType::Int64), &["S*-LIM-NO-PW", "S*-DTYPE-INPUT"]),
];

const LOGIC_PAIRS: &[Pair] = &[
    pair(
        "OP-PW7-DTYPE-LOGIC",
        &[A70],
        |g| g.types(&["gt::OUT_0"], DataType::Float),
        |g| g.types(&["gt::OUT_0"], DataType::Int8),
    ),
    pair("OP-PW7-PREC-LOGIC", &[A70], |g| g.compute("not", DataType::Float), AS_IS),
];

const LOGIC_ROWS: &[Row] = &[
    row(&[A70], |g| g.types(&["Y"], DataType::UInt8), &["OP-PW7-DTYPE-LOGIC"]),
    row(&[A70], |g| g.compute("gt", DataType::Boolean), &["OP-PW7-PREC-OTHER"]),
];

fn both(g: &mut Graph, data_type: DataType) {
    g.types(&["A", "B"], data_type);
}

/// A logical AND, computed in this type.
fn and(g: &mut Graph, compute: DataType) {
    g.pointwise_of("add").mode = PointwiseMode::LogicalAnd;
    g.compute("add", compute);
}

/// IDENTITY to HALF in HALF.
fn identity_in_half(g: &mut Graph) {
    g.pointwise_of("relu").mode = PointwiseMode::Identity;
    g.compute("relu", DataType::Half);
}
