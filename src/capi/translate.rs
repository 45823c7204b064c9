//! Enumerations of the ABI and what they stand for here.

use cudarc::cudnn::sys::{
    cudnnBackendKnobType_t as RawKnob, cudnnBackendTensorReordering_t as RawReordering, cudnnDataType_t as RawType,
    cudnnPaddingMode_t as RawPadding, cudnnPointwiseMode_t as RawMode, cudnnReduceTensorOp_t as RawReduction,
    cudnnResampleMode_t as RawResample,
};

use super::failure::{Failure, Result};
use crate::engine::Knob;
use crate::graph::{DataType, PaddingMode, PointwiseMode, ReductionMode, Reordering, ResampleMode};

/// The value that a number stands for by a table.
fn found<R: Copy + Into<u32>, V: Copy>(table: &[(R, V)], number: u32, what: &str) -> Result<V> {
    let row = table.iter().find(|row| row.0.into() == number);
    row.map(|row| row.1).ok_or_else(|| Failure::bad(format!("{number} is no {what}")))
}

/// A raw enumerator as its number.
macro_rules! numbered {
    ($raw:ident { $($variant:ident => $value:expr,)* }) => {
        &[$(($raw::$variant as u32, $value)),*]
    };
}

const DATA_TYPES: &[(u32, DataType)] = numbered!(RawType {
    CUDNN_DATA_FLOAT => DataType::Float,
    CUDNN_DATA_DOUBLE => DataType::Double,
    CUDNN_DATA_HALF => DataType::Half,
    CUDNN_DATA_INT8 => DataType::Int8,
    CUDNN_DATA_INT32 => DataType::Int32,
    CUDNN_DATA_INT8x4 => DataType::Int8x4,
    CUDNN_DATA_UINT8 => DataType::UInt8,
    CUDNN_DATA_UINT8x4 => DataType::UInt8x4,
    CUDNN_DATA_INT8x32 => DataType::Int8x32,
    CUDNN_DATA_BFLOAT16 => DataType::BFloat16,
    CUDNN_DATA_INT64 => DataType::Int64,
    CUDNN_DATA_BOOLEAN => DataType::Boolean,
    CUDNN_DATA_FP8_E4M3 => DataType::Fp8E4M3,
    CUDNN_DATA_FP8_E5M2 => DataType::Fp8E5M2,
    CUDNN_DATA_FAST_FLOAT_FOR_FP8 => DataType::FastFloatForFp8,
    CUDNN_DATA_FP8_E8M0 => DataType::Fp8E8M0,
    CUDNN_DATA_FP4_E2M1 => DataType::Fp4E2M1,
    CUDNN_DATA_INT4 => DataType::Int4,
    CUDNN_DATA_COMPLEX_FP32 => DataType::ComplexFp32,
    CUDNN_DATA_COMPLEX_FP64 => DataType::ComplexFp64,
});

pub(crate) fn data_type(number: u32) -> Result<DataType> {
    found(DATA_TYPES, number, "data type")
}

const REDUCTIONS: &[(u32, ReductionMode)] = numbered!(RawReduction {
    CUDNN_REDUCE_TENSOR_ADD => ReductionMode::Add,
    CUDNN_REDUCE_TENSOR_MUL => ReductionMode::Mul,
    CUDNN_REDUCE_TENSOR_MIN => ReductionMode::Min,
    CUDNN_REDUCE_TENSOR_MAX => ReductionMode::Max,
    CUDNN_REDUCE_TENSOR_AMAX => ReductionMode::Amax,
    CUDNN_REDUCE_TENSOR_AVG => ReductionMode::Avg,
    CUDNN_REDUCE_TENSOR_NORM1 => ReductionMode::Norm1,
    CUDNN_REDUCE_TENSOR_NORM2 => ReductionMode::Norm2,
    CUDNN_REDUCE_TENSOR_MUL_NO_ZEROS => ReductionMode::MulNoZeros,
});

pub(crate) fn reduction(number: u32) -> Result<ReductionMode> {
    found(REDUCTIONS, number, "reduction operator")
}

const RESAMPLES: &[(u32, ResampleMode)] = numbered!(RawResample {
    CUDNN_RESAMPLE_NEAREST => ResampleMode::Nearest,
    CUDNN_RESAMPLE_BILINEAR => ResampleMode::Bilinear,
    CUDNN_RESAMPLE_AVGPOOL => ResampleMode::AvgpoolIncludePadding,
    CUDNN_RESAMPLE_AVGPOOL_EXCLUDE_PADDING => ResampleMode::AvgpoolExcludePadding,
    CUDNN_RESAMPLE_MAXPOOL => ResampleMode::Maxpool,
});

pub(crate) fn resample(number: u32) -> Result<ResampleMode> {
    found(RESAMPLES, number, "resampling mode")
}

const PADDINGS: &[(u32, PaddingMode)] = numbered!(RawPadding {
    CUDNN_ZERO_PAD => PaddingMode::ZeroPad,
    CUDNN_NEG_INF_PAD => PaddingMode::NegInfPad,
    CUDNN_EDGE_VAL_PAD => PaddingMode::EdgeValPad,
});

pub(crate) fn padding(number: u32) -> Result<PaddingMode> {
    found(PADDINGS, number, "padding mode")
}

const REORDERINGS: &[(u32, Reordering)] = numbered!(RawReordering {
    CUDNN_TENSOR_REORDERING_NONE => Reordering::None,
    CUDNN_TENSOR_REORDERING_INT8x32 => Reordering::Int8x32,
    CUDNN_TENSOR_REORDERING_F16x16 => Reordering::F16x16,
    CUDNN_TENSOR_REORDERING_F8_128x4 => Reordering::F8_128x4,
});

pub(crate) fn reordering(number: u32) -> Result<Reordering> {
    found(REORDERINGS, number, "reordering of a tensor")
}

/// The ABI names pointwise modes as graph files do, behind a prefix.
pub(crate) fn pointwise(number: u32) -> Result<PointwiseMode> {
    let mode = PointwiseMode::ALL.iter().copied().find(|&mode| raw_pointwise(mode) as u32 == number);
    mode.ok_or_else(|| Failure::bad(format!("{number} is no pointwise mode")))
}

pub(super) fn raw_pointwise(mode: PointwiseMode) -> RawMode {
    use PointwiseMode as M;
    match mode {
        M::Add => RawMode::CUDNN_POINTWISE_ADD,
        M::AddSquare => RawMode::CUDNN_POINTWISE_ADD_SQUARE,
        M::Sub => RawMode::CUDNN_POINTWISE_SUB,
        M::Mul => RawMode::CUDNN_POINTWISE_MUL,
        M::Div => RawMode::CUDNN_POINTWISE_DIV,
        M::Mod => RawMode::CUDNN_POINTWISE_MOD,
        M::Pow => RawMode::CUDNN_POINTWISE_POW,
        M::Max => RawMode::CUDNN_POINTWISE_MAX,
        M::Min => RawMode::CUDNN_POINTWISE_MIN,
        M::Atan2 => RawMode::CUDNN_POINTWISE_ATAN2,
        M::Abs => RawMode::CUDNN_POINTWISE_ABS,
        M::Neg => RawMode::CUDNN_POINTWISE_NEG,
        M::Sqrt => RawMode::CUDNN_POINTWISE_SQRT,
        M::Rsqrt => RawMode::CUDNN_POINTWISE_RSQRT,
        M::Reciprocal => RawMode::CUDNN_POINTWISE_RECIPROCAL,
        M::Exp => RawMode::CUDNN_POINTWISE_EXP,
        M::Log => RawMode::CUDNN_POINTWISE_LOG,
        M::Erf => RawMode::CUDNN_POINTWISE_ERF,
        M::Ceil => RawMode::CUDNN_POINTWISE_CEIL,
        M::Floor => RawMode::CUDNN_POINTWISE_FLOOR,
        M::Sin => RawMode::CUDNN_POINTWISE_SIN,
        M::Cos => RawMode::CUDNN_POINTWISE_COS,
        M::Tan => RawMode::CUDNN_POINTWISE_TAN,
        M::Identity => RawMode::CUDNN_POINTWISE_IDENTITY,
        M::ReluFwd => RawMode::CUDNN_POINTWISE_RELU_FWD,
        M::TanhFwd => RawMode::CUDNN_POINTWISE_TANH_FWD,
        M::SigmoidFwd => RawMode::CUDNN_POINTWISE_SIGMOID_FWD,
        M::EluFwd => RawMode::CUDNN_POINTWISE_ELU_FWD,
        M::GeluFwd => RawMode::CUDNN_POINTWISE_GELU_FWD,
        M::GeluApproxTanhFwd => RawMode::CUDNN_POINTWISE_GELU_APPROX_TANH_FWD,
        M::SoftplusFwd => RawMode::CUDNN_POINTWISE_SOFTPLUS_FWD,
        M::SwishFwd => RawMode::CUDNN_POINTWISE_SWISH_FWD,
        M::ReluBwd => RawMode::CUDNN_POINTWISE_RELU_BWD,
        M::TanhBwd => RawMode::CUDNN_POINTWISE_TANH_BWD,
        M::SigmoidBwd => RawMode::CUDNN_POINTWISE_SIGMOID_BWD,
        M::EluBwd => RawMode::CUDNN_POINTWISE_ELU_BWD,
        M::GeluBwd => RawMode::CUDNN_POINTWISE_GELU_BWD,
        M::GeluApproxTanhBwd => RawMode::CUDNN_POINTWISE_GELU_APPROX_TANH_BWD,
        M::SoftplusBwd => RawMode::CUDNN_POINTWISE_SOFTPLUS_BWD,
        M::SwishBwd => RawMode::CUDNN_POINTWISE_SWISH_BWD,
        M::CmpEq => RawMode::CUDNN_POINTWISE_CMP_EQ,
        M::CmpNeq => RawMode::CUDNN_POINTWISE_CMP_NEQ,
        M::CmpGt => RawMode::CUDNN_POINTWISE_CMP_GT,
        M::CmpGe => RawMode::CUDNN_POINTWISE_CMP_GE,
        M::CmpLt => RawMode::CUDNN_POINTWISE_CMP_LT,
        M::CmpLe => RawMode::CUDNN_POINTWISE_CMP_LE,
        M::LogicalAnd => RawMode::CUDNN_POINTWISE_LOGICAL_AND,
        M::LogicalOr => RawMode::CUDNN_POINTWISE_LOGICAL_OR,
        M::LogicalNot => RawMode::CUDNN_POINTWISE_LOGICAL_NOT,
        M::GenIndex => RawMode::CUDNN_POINTWISE_GEN_INDEX,
        M::BinarySelect => RawMode::CUDNN_POINTWISE_BINARY_SELECT,
    }
}

/// What an engine config is chosen by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Choice {
    /// A knob of ours.
    Knob(Knob),
    /// The place in the engine's order of configs, from 0: a knob type that every engine has.
    Place,
}

const PLACE: RawKnob = RawKnob::CUDNN_KNOB_TYPE_KERNEL_CFG;

impl Choice {
    /// The number of its knob type.
    pub(super) fn number(self) -> u32 {
        match self {
            Self::Knob(knob) => knob_number(knob),
            Self::Place => PLACE as u32,
        }
    }

    /// How messages name it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Knob(knob) => knob.name(),
            Self::Place => "KERNEL_CFG",
        }
    }
}

/// The number of a knob: that of the knob type which says the same, or the nearest; all of them types that the frontend
/// knows, since it takes the others for one.
fn knob_number(knob: Knob) -> u32 {
    let raw = match knob {
        Knob::Threads => RawKnob::CUDNN_KNOB_TYPE_BLOCK_SIZE,
        Knob::TileM => RawKnob::CUDNN_KNOB_TYPE_TILE_M,
        Knob::TileN => RawKnob::CUDNN_KNOB_TYPE_TILE_N,
        Knob::Outputs => RawKnob::CUDNN_KNOB_TYPE_ARRAY_SIZE_PER_THREAD,
        Knob::Rows => RawKnob::CUDNN_KNOB_TYPE_SPLIT_P_SLC,
        Knob::Channels => RawKnob::CUDNN_KNOB_TYPE_LOAD_SIZE,
        Knob::TileK => RawKnob::CUDNN_KNOB_TYPE_TILEK,
        Knob::WarpM => RawKnob::CUDNN_KNOB_TYPE_TILE_ROWS,
        Knob::WarpN => RawKnob::CUDNN_KNOB_TYPE_TILE_COLS,
        Knob::Stages => RawKnob::CUDNN_KNOB_TYPE_STAGES,
        Knob::Fragments => RawKnob::CUDNN_KNOB_TYPE_MULTIPLY,
        Knob::SplitK => RawKnob::CUDNN_KNOB_TYPE_SPLIT_K_SLC,
        Knob::ClusterK => RawKnob::CUDNN_KNOB_TYPE_SLICED,
        Knob::ClusterM => RawKnob::CUDNN_KNOB_TYPE_TILE_CGA_M,
        Knob::ClusterN => RawKnob::CUDNN_KNOB_TYPE_TILE_CGA_N,
        Knob::Schedule => RawKnob::CUDNN_KNOB_TYPE_WARP_SPEC_CFG,
        Knob::SwapAb => RawKnob::CUDNN_KNOB_TYPE_SWAP_AB,
        Knob::TapRows => RawKnob::CUDNN_KNOB_TYPE_SPLIT_RS,
        Knob::TmaEpilogue => RawKnob::CUDNN_KNOB_TYPE_EDGE,
        Knob::StationaryB => RawKnob::CUDNN_KNOB_TYPE_SPECFILT,
        Knob::Occupancy => RawKnob::CUDNN_KNOB_TYPE_OCCUPANCY,
        Knob::PackHeads => RawKnob::CUDNN_KNOB_TYPE_SPLIT_H,
        Knob::TileScheduler => RawKnob::CUDNN_KNOB_TYPE_STREAM_K,
        Knob::StoredGradients => RawKnob::CUDNN_KNOB_TYPE_SPLIT_K_BUF,
        Knob::EvaluateFirst => RawKnob::CUDNN_KNOB_TYPE_WORKSPACE,
    };
    raw as u32
}

/// What a number chooses by.
pub(super) fn choice(number: u32) -> Result<Choice> {
    if number == PLACE as u32 {
        return Ok(Choice::Place);
    }
    let knob = Knob::ALL.iter().copied().find(|&knob| knob_number(knob) == number);
    knob.map(Choice::Knob).ok_or_else(|| Failure::unsupported(format!("no engine has a knob of type {number}")))
}
