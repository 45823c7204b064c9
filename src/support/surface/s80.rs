//! Surface 80: Ampere and later.

use super::s90::{ANY_BROADCAST, ANY_REDUCTION, CORE_OPERANDS, FP8, INPUTS, MATRICES, OUTPUTS, POINTWISE};
use super::{
    Alignment, BooleanLimit, Combination, DataTypes, DimLimit, Epilogue, EpilogueStage, Fp8Limit, LayoutLimit, Listed,
    Mainloop, MainloopStage, OperationKind, Packing, PatternLimits, Surface,
};
use crate::device::ComputeCapability;
use crate::graph::DataType::*;
use crate::support::forms::Forms;
use crate::support::layout::Layout;
use crate::support::records::{
    alignment::*, capability::*, compute_type::*, data_type::*, epilogue::*, layout::*, mainloop::*,
};
use crate::support::rule::SurfaceId;

const ADA: ComputeCapability = ComputeCapability::new(8, 9);

pub(super) static SURFACE: Surface = Surface {
    id: SurfaceId::S80,
    capabilities: Listed {
        rule: &S80_CC,
        allowed: &[
            ComputeCapability::new(8, 0),
            ComputeCapability::new(8, 6),
            ComputeCapability::new(8, 7),
            ADA,
            ComputeCapability::SM_90,
        ],
    },
    data_types: DataTypes {
        input: Listed { rule: &S80_DTYPE_INPUT, allowed: INPUTS },
        core: Listed { rule: &S80_DTYPE_CORE_IN, allowed: CORE_OPERANDS },
        output: Listed { rule: &S80_DTYPE_OUTPUT, allowed: OUTPUTS },
        virtual_: Listed { rule: &S80_DTYPE_VIRTUAL, allowed: INPUTS },
        reduction: Listed { rule: &S80_DTYPE_RED_OUT, allowed: &[Float] },
        boolean: BooleanLimit::Nowhere(&S80_NO_BOOLEAN),
        fp8: Fp8Limit::Capability {
            core: Listed { rule: &S80_DTYPE_CORE_FP8_CC, allowed: &[ADA] },
            other: Listed { rule: &S80_DTYPE_FP8_CC, allowed: &[ADA, ComputeCapability::SM_90] },
        },
    },
    combinations: &[
        Combination::new(&S80_COMB_INT8, &[Int8], &[Int32]),
        Combination::new(&S80_COMB_FP8, FP8, &[Float, FastFloatForFp8]),
        Combination::new(&S80_COMB_HALF, &[Half], &[Float, Half]),
        Combination::new(&S80_COMB_BF16, &[BFloat16], &[Float]),
        Combination::new(&S80_COMB_FLOAT, &[Float], &[Float]),
    ],
    reduction_compute: &S80_CT_RED,
    pointwise: POINTWISE,
    mainloop: MainloopStage {
        operations: Listed { rule: &S80_G1_OPS, allowed: &[OperationKind::Pointwise] },
        virtual_: &S80_G1_VIRTUAL,
        order: None,
        since: None,
        broadcast_first: None,
        alignment: Alignment { rule: &S80_G1_ALIGN_32, bits: 32 },
        group_alignment: Some(&S80_G1_ALIGN_GROUP),
        no_conversion: None,
    },
    epilogue: EpilogueStage {
        operations: Listed { rule: &S80_G2_OPS, allowed: &[OperationKind::Pointwise, OperationKind::Reduction] },
        reduction_exit: &S80_G2_RED_EXIT,
        broadcast_first: &S80_G2_BCAST_FIRST,
        alignment: None,
        signal: None,
        resample: None,
    },
    matmul: MATMUL,
    forward: FORWARD,
    backward_filter: Err(&S80_LIM_NO_CBF),
    backward_data: Err(&S80_LIM_NO_CBD),
    unfused: Err(&S80_LIM_NO_PW),
    unit_backward_stride: None,
    single_group: None,
};

const MATMUL: PatternLimits = PatternLimits {
    operands: [&S80_MM_G1_A, &S80_MM_G1_B],
    full_batch: false,
    mainloop: [
        Some(Mainloop::Broadcast {
            inputs: DimLimit { rule: &S80_MM_G1A_DIMS, forms: ANY_BROADCAST },
            grouped_channel: None,
        }),
        Some(Mainloop::Broadcast {
            inputs: DimLimit { rule: &S80_MM_G1B_DIMS, forms: ANY_BROADCAST },
            grouped_channel: None,
        }),
    ],
    mainloop_layout: LayoutLimit { rule: &S80_MM_G1_LAYOUT, layouts: MATRICES, packing: Packing::Free },
    mainloop_common: None,
    bare_alignment_bits: None,
    slow: None,
    epilogue: Epilogue {
        result: &S80_MM_G2_C,
        result_first: true,
        inputs: DimLimit { rule: &S80_MM_G2_DIMS, forms: ANY_BROADCAST },
        outputs: &S80_MM_G2_OUT,
        reduction: DimLimit { rule: &S80_MM_G2_RED, forms: ANY_REDUCTION },
        layout: LayoutLimit {
            rule: &S80_MM_G2_LAYOUT,
            layouts: MATRICES,
            packing: Packing::DisjointOutputs(&S80_MM_G2_PACK),
        },
        row_major_reduction: Some(&S80_MM_G2_RED_ROW),
        grouped_reduction: None,
        grouped: None,
    },
};

const FORWARD: PatternLimits = PatternLimits {
    operands: [&S80_CF_G1_X, &S80_CF_G1_W],
    full_batch: false,
    mainloop: [
        Some(Mainloop::Broadcast {
            inputs: DimLimit { rule: &S80_CF_G1_DIMS, forms: Forms::new("11s 1Cs NCX") },
            grouped_channel: Some(&S80_CF_G1_GROUP),
        }),
        None,
    ],
    mainloop_layout: LayoutLimit {
        rule: &S80_CF_G1_LAYOUT,
        layouts: &[Layout::Nhwc],
        packing: Packing::Disjoint(&S80_CF_G1_PACK),
    },
    mainloop_common: None,
    bare_alignment_bits: Some(8), // S80-CF-ALIGN-8
    slow: None,
    epilogue: Epilogue {
        result: &S80_CF_G2_Y,
        result_first: true,
        inputs: DimLimit { rule: &S80_CF_G2_DIMS, forms: Forms::new("11s N1P 1Ks NKP") },
        outputs: &S80_CF_G2_OUT,
        reduction: DimLimit { rule: &S80_CF_G2_RED, forms: Forms::new("11s N1P 1Ks N1s") },
        layout: LayoutLimit {
            rule: &S80_CF_G2_LAYOUT,
            layouts: &[Layout::Nhwc],
            packing: Packing::Disjoint(&S80_CF_G2_PACK),
        },
        row_major_reduction: None,
        grouped_reduction: Some(&S80_CF_G2_GROUP_RED),
        grouped: None,
    },
};
