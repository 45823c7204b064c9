//! Surface 70: Volta and later; the only one with pure pointwise graphs, resample, GenStats, Concat and Signal.

use super::s90::{INPUTS, MATRICES};
use super::{
    Alignment, BooleanLimit, Combination, DataTypes, DimLimit, Epilogue, EpilogueStage, Fp8Limit, LayoutLimit, Listed,
    Mainloop, MainloopCommon, MainloopStage, OperationKind, Packing, PatternLimits, PointwiseLimits, ResamplePlacement,
    SignalLimits, Surface, UnfusedDims, UnfusedLimits,
};
use crate::device::ComputeCapability;
use crate::graph::DataType::{self, *};
use crate::support::forms::Forms;
use crate::support::layout::Layout;
use crate::support::records::{
    alignment::*, capability::*, compute_type::*, data_type::*, epilogue::*, layout::*, mainloop::*, pointwise::*,
    unfused::*,
};
use crate::support::rule::{Rule, SurfaceId};

const TURING: ComputeCapability = ComputeCapability::new(7, 5);
const AMPERE: ComputeCapability = ComputeCapability::new(8, 0);

const OUTPUTS: &[DataType] = &[Int64, Float, Int32, Half, BFloat16, Int8, UInt8, Fp8E4M3, Fp8E5M2, Boolean];
const VIRTUALS: &[DataType] = &[Float, Int32, Half, BFloat16, Int8, Fp8E4M3, Fp8E5M2, Boolean];

pub(super) static SURFACE: Surface = Surface {
    id: SurfaceId::S70,
    capabilities: Listed {
        rule: &S70_CC,
        allowed: &[
            ComputeCapability::new(7, 0),
            ComputeCapability::new(7, 2),
            TURING,
            AMPERE,
            ComputeCapability::new(8, 6),
            ComputeCapability::new(8, 7),
            ComputeCapability::new(8, 9),
            ComputeCapability::SM_90,
        ],
    },
    data_types: DataTypes {
        input: Listed { rule: &S70_DTYPE_INPUT, allowed: INPUTS },
        core: Listed { rule: &S70_DTYPE_CORE_IN, allowed: &[Float, Half, BFloat16, Int8] },
        output: Listed { rule: &S70_DTYPE_OUTPUT, allowed: OUTPUTS },
        virtual_: Listed { rule: &S70_DTYPE_VIRTUAL, allowed: VIRTUALS },
        reduction: Listed { rule: &S70_DTYPE_RED_OUT, allowed: &[Float] },
        boolean: BooleanLimit::NotInput(&S70_DTYPE_BOOL_NOT_INPUT),
        fp8: Fp8Limit::PointwiseOnly(&S70_DTYPE_FP8_PW_ONLY),
    },
    combinations: &[
        Combination { forward_only: true, ..Combination::new(&S70_COMB_INT8, &[Int8], &[Int32]) },
        Combination::new(&S70_COMB_HALF, &[Half], &[Float, Half]),
        Combination { since: Some(AMPERE), ..Combination::new(&S70_COMB_BF16, &[BFloat16], &[Float]) },
        Combination::new(&S70_COMB_FLOAT, &[Float], &[Float]),
    ],
    reduction_compute: &S70_CT_RED,
    pointwise: PointwiseLimits {
        logical: Listed { rule: &OP_PW7_PREC_LOGIC, allowed: &[Boolean] },
        arithmetic: None,
        identity: None,
        other: Listed { rule: &OP_PW7_PREC_OTHER, allowed: &[Float] },
        logical_tensors: Some(Listed { rule: &OP_PW7_DTYPE_LOGIC, allowed: &[Int32, Int8, Boolean] }),
        alpha: [&OP_PW7_ALPHA1, &OP_PW7_ALPHA2],
    },
    mainloop: MainloopStage {
        operations: Listed {
            rule: &S70_G1_OPS,
            allowed: &[OperationKind::Pointwise, OperationKind::Concat, OperationKind::Signal],
        },
        virtual_: &S70_G1_VIRTUAL,
        order: Some(&S70_G1_ORDER),
        since: Some((&S70_G1_CC, AMPERE)),
        broadcast_first: Some(&S70_G1_BCAST_FIRST),
        alignment: Alignment { rule: &S70_G1_ALIGN_32, bits: 32 },
        group_alignment: None,
        no_conversion: Some(&S70_NO_MIXED),
    },
    epilogue: EPILOGUE,
    matmul: MATMUL,
    forward: FORWARD,
    backward_filter: Ok(BACKWARD_FILTER),
    backward_data: Ok(BACKWARD_DATA),
    unfused: Ok(UNFUSED),
    unit_backward_stride: None,
    single_group: Some(&S70_NO_GROUP),
};

const EPILOGUE: EpilogueStage = EpilogueStage {
    operations: Listed {
        rule: &S70_G2_OPS,
        allowed: &[
            OperationKind::Pointwise,
            OperationKind::Resample,
            OperationKind::GenStats,
            OperationKind::Signal,
            OperationKind::Reduction,
        ],
    },
    reduction_exit: &S70_G2_RED_EXIT,
    broadcast_first: &S70_G2_BCAST_FIRST,
    alignment: Some([
        Alignment { rule: &S70_G2_ALIGN_32, bits: 32 },
        Alignment { rule: &S70_G2_ALIGN_PWOUT_8, bits: 8 },
    ]),
    signal: Some(SignalLimits { last: &S70_G2_SIGNAL_FINAL, without_reduction: &S70_G2_SIGNAL_NO_RED }),
    resample: Some(ResamplePlacement {
        input: &S70_G2_RES_INPUT,
        pattern: &S70_G2_RES_PATTERN,
        capability: &S70_G2_RES_CC,
        since: TURING,
    }),
};

/// Fully packed matrices, row-major or column-major.
const fn matrices(rule: &'static Rule) -> LayoutLimit {
    LayoutLimit { rule, layouts: MATRICES, packing: Packing::Full }
}

/// Fully packed NHWC.
const fn images(rule: &'static Rule) -> LayoutLimit {
    LayoutLimit { rule, layouts: &[Layout::Nhwc], packing: Packing::Full }
}

const MATMUL: PatternLimits = PatternLimits {
    operands: [&S70_MM_G1_A, &S70_MM_G1_B],
    full_batch: true,
    mainloop: [
        Some(Mainloop::HalfFirst {
            inputs: DimLimit { rule: &S70_MM_G1A_DIMS, forms: Forms::new("111 BM1 B1K BMK") },
            anchor: &S70_MM_G1_A_HALF,
            full: &S70_MM_G1A_FULL_HALF,
        }),
        Some(Mainloop::Forbidden { empty: &S70_MM_G1B_NONE, no_conversion: None }),
    ],
    mainloop_layout: matrices(&S70_MM_G1_LAYOUT),
    mainloop_common: Some(MainloopCommon { same: &S70_MM_G1A_SAME, int8: &S70_MM_INT8_LAYOUT }),
    bare_alignment_bits: None,
    slow: None,
    epilogue: Epilogue {
        result: &S70_MM_G2_C,
        result_first: true,
        inputs: DimLimit { rule: &S70_MM_G2_DIMS, forms: MATRIX_INPUTS },
        outputs: &S70_MM_G2_OUT,
        reduction: DimLimit { rule: &S70_MM_G2_RED, forms: MATRIX_REDUCTIONS },
        layout: matrices(&S70_MM_G2_LAYOUT),
        row_major_reduction: Some(&S70_MM_G2_RED_ROW),
        grouped_reduction: None,
        grouped: None,
    },
};

const MATRIX_INPUTS: Forms = Forms::new("111 BM1 B1N BMN");
const MATRIX_REDUCTIONS: Forms = Forms::new("111 BM1 B1N");

const FORWARD: PatternLimits = PatternLimits {
    operands: [&S70_CF_G1_X, &S70_CF_G1_W],
    full_batch: false,
    mainloop: [Some(CHAIN), None],
    mainloop_layout: images(&S70_CF_G1_LAYOUT),
    mainloop_common: None,
    bare_alignment_bits: None,
    slow: None,
    epilogue: Epilogue {
        result: &S70_CF_G2_Y,
        result_first: true,
        inputs: DimLimit { rule: &S70_CF_G2_DIMS, forms: Forms::new("11s N1P 1Ks NKP") },
        outputs: &S70_CF_G2_OUT,
        reduction: DimLimit { rule: &S70_CF_G2_RED, forms: Forms::new("11s N1P 1Ks") },
        layout: images(&S70_CF_G2_LAYOUT),
        row_major_reduction: None,
        grouped_reduction: None,
        grouped: None,
    },
};

const CHAIN: Mainloop = Mainloop::Chain {
    chain: &S70_CONV_G1_CHAIN,
    data_type: &S70_CONV_G1_HALF,
    operand: DimLimit { rule: &S70_CONV_G1_OPERAND, forms: Forms::new("1Cs") },
};

const BACKWARD_FILTER: PatternLimits = PatternLimits {
    operands: [&S70_CBF_G1_DY, &S70_CBF_G1_X],
    full_batch: false,
    mainloop: [None, Some(CHAIN)],
    mainloop_layout: images(&S70_CBF_G1_LAYOUT),
    mainloop_common: None,
    bare_alignment_bits: None,
    slow: None,
    epilogue: Epilogue {
        result: &S70_CBF_G2_DW,
        result_first: true,
        inputs: DimLimit { rule: &S70_CBF_G2_DIMS, forms: Forms::new("11s 1CF K1s KCF") },
        outputs: &S70_CBF_G2_OUT,
        reduction: DimLimit { rule: &S70_CBF_G2_RED, forms: Forms::new("11s 1CF K1s") },
        layout: images(&S70_CBF_G2_LAYOUT),
        row_major_reduction: None,
        grouped_reduction: None,
        grouped: None,
    },
};

const BACKWARD_DATA: PatternLimits = PatternLimits {
    operands: [&S70_CBD_G1_DY, &S70_CBD_G1_W],
    full_batch: false,
    mainloop: [Some(Mainloop::Forbidden { empty: &S70_CBD_G1_NONE, no_conversion: None }), None],
    mainloop_layout: images(&S70_CBD_G1_LAYOUT),
    mainloop_common: None,
    bare_alignment_bits: None,
    slow: None,
    epilogue: Epilogue {
        result: &S70_CBD_G2_DX,
        result_first: true,
        inputs: DimLimit { rule: &S70_CBD_G2_DIMS, forms: Forms::new("11s N1X 1Cs NCX") },
        outputs: &S70_CBD_G2_OUT,
        reduction: DimLimit { rule: &S70_CBD_G2_RED, forms: Forms::new("11s N1X 1Cs") },
        layout: images(&S70_CBD_G2_LAYOUT),
        row_major_reduction: None,
        grouped_reduction: None,
        grouped: None,
    },
};

/// The union of the three convolution epilogues, around `[a,b,s]`.
const UNFUSED: UnfusedLimits = UnfusedLimits {
    rank: &S70_PW_RANK,
    no_matrix_reduction: &S70_PW_3D_NO_RED,
    matrix: UnfusedDims {
        rule: &S70_PW_3D_DIMS,
        inputs: MATRIX_INPUTS,
        reduction: MATRIX_REDUCTIONS,
        layout: matrices(&S70_PW_3D_LAYOUT),
    },
    image: UnfusedDims {
        rule: &S70_PW_45D_DIMS,
        inputs: Forms::new("11s a1S 1bs 1bS a1s abS"),
        reduction: Forms::new("11s a1S 1bs 1bS a1s"),
        layout: images(&S70_PW_45D_LAYOUT),
    },
};
