//! Surface 90: Hopper.

use super::{
    Alignment, BooleanLimit, Combination, DataTypes, DimLimit, Epilogue, EpilogueStage, Fp8Limit, LayoutLimit, Listed,
    Mainloop, MainloopStage, OperationKind, Packing, PatternLimits, PointwiseLimits, SlowLayouts, Surface,
};
use crate::device::ComputeCapability;
use crate::graph::DataType::{self, *};
use crate::support::forms::Forms;
use crate::support::layout::Layout;
use crate::support::records::{
    alignment::*, capability::*, compute_type::*, core::*, data_type::*, epilogue::*, layout::*, mainloop::*,
    pointwise::*,
};
use crate::support::rule::SurfaceId;

pub(super) const INPUTS: &[DataType] = &[Float, Int32, Half, BFloat16, Int8, Fp8E4M3, Fp8E5M2];
pub(super) const CORE_OPERANDS: &[DataType] = &[Float, Half, BFloat16, Int8, Fp8E4M3, Fp8E5M2];
pub(super) const OUTPUTS: &[DataType] = &[Int64, Float, Int32, Half, BFloat16, Int8, UInt8, Fp8E4M3, Fp8E5M2];
pub(super) const FP8: &[DataType] = &[Fp8E4M3, Fp8E5M2];

pub(super) const MATRICES: &[Layout] = &[Layout::RowMajor, Layout::ColumnMajor];
const NHWC: &[Layout] = &[Layout::Nhwc];
const NHWC_OR_CHWN: &[Layout] = &[Layout::Nhwc, Layout::Chwn];

/// Every axis of a matrix operand 1 or full.
pub(super) const ANY_BROADCAST: Forms = Forms::new("111 B11 1M1 BM1 11K B1K 1MK BMK");
/// As [`ANY_BROADCAST`] without the full form: something is reduced.
pub(super) const ANY_REDUCTION: Forms = Forms::new("111 B11 1M1 BM1 11N B1N 1MN");

pub(super) static SURFACE: Surface = Surface {
    id: SurfaceId::S90,
    capabilities: Listed { rule: &S90_CC, allowed: &[ComputeCapability::SM_90] },
    data_types: DataTypes {
        input: Listed { rule: &S90_DTYPE_INPUT, allowed: INPUTS },
        core: Listed { rule: &S90_DTYPE_CORE_IN, allowed: CORE_OPERANDS },
        output: Listed { rule: &S90_DTYPE_OUTPUT, allowed: OUTPUTS },
        virtual_: Listed { rule: &S90_DTYPE_VIRTUAL, allowed: INPUTS },
        reduction: Listed { rule: &S90_DTYPE_RED_OUT, allowed: &[Float] },
        boolean: BooleanLimit::Nowhere(&S90_NO_BOOLEAN),
        fp8: Fp8Limit::AsListed,
    },
    combinations: &[
        Combination::new(&S90_COMB_INT8, &[Int8], &[Int32]),
        Combination::new(&S90_COMB_FP8, FP8, &[Float, FastFloatForFp8]),
        Combination::new(&S90_COMB_HALF, &[Half], &[Float, Half]),
        Combination::new(&S90_COMB_BF16, &[BFloat16], &[Float]),
        Combination::new(&S90_COMB_FLOAT, &[Float], &[Float]),
    ],
    reduction_compute: &S90_CT_RED,
    pointwise: POINTWISE,
    mainloop: MainloopStage {
        operations: Listed { rule: &S90_G1_OPS, allowed: &[OperationKind::Pointwise] },
        virtual_: &S90_G1_VIRTUAL,
        order: None,
        since: None,
        broadcast_first: None,
        alignment: Alignment { rule: &S90_G1_ALIGN_128, bits: 128 },
        group_alignment: Some(&S90_G1_ALIGN_GROUP),
        no_conversion: None,
    },
    epilogue: EpilogueStage {
        operations: Listed { rule: &S90_G2_OPS, allowed: &[OperationKind::Pointwise, OperationKind::Reduction] },
        reduction_exit: &S90_G2_RED_EXIT,
        broadcast_first: &S90_G2_BCAST_FIRST,
        alignment: None,
        signal: None,
        resample: None,
    },
    matmul: MATMUL,
    forward: FORWARD,
    backward_filter: Ok(BACKWARD_FILTER),
    backward_data: Ok(BACKWARD_DATA),
    unfused: Err(&S90_LIM_NO_PW),
    unit_backward_stride: Some(&S90_LIM_CBD_STRIDE),
    single_group: None,
};

/// Surfaces 90 and 80 share the constraints of pointwise operations.
pub(super) const POINTWISE: PointwiseLimits = PointwiseLimits {
    logical: Listed { rule: &OP_PW98_PREC_LOGIC, allowed: &[Int32] },
    arithmetic: Some(Listed { rule: &OP_PW98_PREC_INTOK, allowed: &[Float, Int32] }),
    identity: Some(Listed { rule: &OP_PW98_PREC_IDENT, allowed: &[Float, Int32] }),
    other: Listed { rule: &OP_PW98_PREC_OTHER, allowed: &[Float] },
    logical_tensors: None,
    alpha: [&OP_PW98_ALPHA1, &OP_PW98_ALPHA2],
};

const MATMUL: PatternLimits = PatternLimits {
    operands: [&S90_MM_G1_A, &S90_MM_G1_B],
    full_batch: false,
    mainloop: [
        Some(Mainloop::Broadcast {
            inputs: DimLimit { rule: &S90_MM_G1A_DIMS, forms: ANY_BROADCAST },
            grouped_channel: None,
        }),
        Some(Mainloop::Broadcast {
            inputs: DimLimit { rule: &S90_MM_G1B_DIMS, forms: ANY_BROADCAST },
            grouped_channel: None,
        }),
    ],
    mainloop_layout: LayoutLimit { rule: &S90_MM_G1_LAYOUT, layouts: MATRICES, packing: Packing::Free },
    mainloop_common: None,
    bare_alignment_bits: None,
    slow: None,
    epilogue: Epilogue {
        result: &S90_MM_G2_C,
        result_first: true,
        inputs: DimLimit { rule: &S90_MM_G2_DIMS, forms: ANY_BROADCAST },
        outputs: &S90_MM_G2_OUT,
        reduction: DimLimit { rule: &S90_MM_G2_RED, forms: ANY_REDUCTION },
        layout: LayoutLimit {
            rule: &S90_MM_G2_LAYOUT,
            layouts: MATRICES,
            packing: Packing::DisjointOutputs(&S90_MM_G2_PACK),
        },
        row_major_reduction: Some(&S90_MM_G2_RED_ROW),
        grouped_reduction: None,
        grouped: None,
    },
};

const FORWARD: PatternLimits = PatternLimits {
    operands: [&S90_CF_G1_X, &S90_CF_G1_W],
    full_batch: false,
    mainloop: [
        Some(Mainloop::Broadcast {
            inputs: DimLimit { rule: &S90_CF_G1_DIMS, forms: Forms::new("11s 1Cs NCX") },
            grouped_channel: Some(&S90_CF_G1_GROUP),
        }),
        None,
    ],
    mainloop_layout: LayoutLimit {
        rule: &S90_CF_G1_LAYOUT,
        layouts: NHWC,
        packing: Packing::Disjoint(&S90_CF_G1_PACK),
    },
    mainloop_common: None,
    bare_alignment_bits: None,
    slow: None,
    epilogue: Epilogue {
        result: &S90_CF_G2_Y,
        result_first: true,
        inputs: DimLimit { rule: &S90_CF_G2_DIMS, forms: Forms::new("11s N1P 1Ks NKP") },
        outputs: &S90_CF_G2_OUT,
        reduction: DimLimit { rule: &S90_CF_G2_RED, forms: Forms::new("11s N1P 1Ks NKs N1s") },
        layout: LayoutLimit { rule: &S90_CF_G2_LAYOUT, layouts: NHWC, packing: Packing::Disjoint(&S90_CF_G2_PACK) },
        row_major_reduction: None,
        grouped_reduction: Some(&S90_CF_G2_GROUP_RED),
        grouped: None,
    },
};

const BACKWARD_FILTER: PatternLimits = PatternLimits {
    operands: [&S90_CBF_G1_DY, &S90_CBF_G1_X],
    full_batch: false,
    mainloop: [None, Some(Mainloop::Forbidden { empty: &S90_CBF_G1_NONE, no_conversion: Some(&S90_MIXED_NO_CBF) })],
    mainloop_layout: LayoutLimit {
        rule: &S90_CBF_G1_LAYOUT,
        layouts: NHWC_OR_CHWN,
        packing: Packing::Disjoint(&S90_CBF_G1_PACK),
    },
    mainloop_common: None,
    bare_alignment_bits: None,
    slow: Some(SlowLayouts { rule: &S90_CBF_G1_PERF, operands: [Layout::Nhwc, Layout::Nhwc] }),
    epilogue: Epilogue {
        result: &S90_CBF_G2_DW,
        result_first: true,
        inputs: DimLimit { rule: &S90_CBF_G2_DIMS, forms: Forms::new("11s 1CF K1s KCF") },
        outputs: &S90_CBF_G2_OUT,
        reduction: DimLimit { rule: &S90_CBF_G2_RED, forms: Forms::new("11s 1CF K1s") },
        layout: LayoutLimit { rule: &S90_CBF_G2_LAYOUT, layouts: NHWC, packing: Packing::Disjoint(&S90_CBF_G2_PACK) },
        row_major_reduction: None,
        grouped_reduction: Some(&S90_CBF_G2_GROUP_RED),
        grouped: None,
    },
};

const BACKWARD_DATA: PatternLimits = PatternLimits {
    operands: [&S90_CBD_G1_DY, &S90_CBD_G1_W],
    full_batch: false,
    mainloop: [
        Some(Mainloop::Broadcast {
            inputs: DimLimit { rule: &S90_CBD_G1_DIMS, forms: Forms::new("11s 1Ks NKP") },
            grouped_channel: None,
        }),
        None,
    ],
    mainloop_layout: LayoutLimit {
        rule: &S90_CBD_G1_LAYOUT,
        layouts: NHWC_OR_CHWN,
        packing: Packing::Disjoint(&S90_CBD_G1_PACK),
    },
    mainloop_common: None,
    bare_alignment_bits: None,
    slow: Some(SlowLayouts { rule: &S90_CBD_G1_PERF, operands: [Layout::Chwn, Layout::Nhwc] }),
    epilogue: Epilogue {
        result: &S90_CBD_G2_DX,
        result_first: false,
        inputs: DimLimit { rule: &S90_CBD_G2_DIMS, forms: Forms::new("11s N1X 1Cs NCX") },
        outputs: &S90_CBD_G2_OUT,
        reduction: DimLimit { rule: &S90_CBD_G2_RED, forms: Forms::new("11s N1X 1Cs NCs N1s") },
        layout: LayoutLimit { rule: &S90_CBD_G2_LAYOUT, layouts: NHWC, packing: Packing::Disjoint(&S90_CBD_G2_PACK) },
        row_major_reduction: None,
        grouped_reduction: None,
        grouped: Some(&S90_CBD_G2_GROUP_NONE),
    },
};
