//! Norms and batch norm's statistics (`docs/spec/norms.md` N-100 to N-104). The descriptors of norms have no compute type: they are
//! computed in FLOAT.

use cudarc::cudnn::sys::cudnnBackendAttributeName_t as Name;
use cudarc::cudnn::sys::cudnnBackendAttributeType_t as Type;
use cudarc::cudnn::sys::cudnnBackendDescriptorType_t as Kind;

use super::{Compute, Enumerators, Row, Wrong};
use crate::capi::attribute::{ANY, DATA_TYPE, DESCRIPTOR, ONE, TENSORS, attributes};
use crate::graph::{
    BnBackwardWeights, BnFinalize, BnFinalizeMode, NormBackward, NormForward, NormMode, NormPhase, Port,
};

const MODE: &[Type] = &[Type::CUDNN_TYPE_NORM_MODE];
const PHASE: &[Type] = &[Type::CUDNN_TYPE_NORM_FWD_PHASE];
const STATS_MODE: &[Type] = &[Type::CUDNN_TYPE_BN_FINALIZE_STATS_MODE];

/// Tables of tensors: the port and attribute of each, which is required of the descriptor whatever its mode, or not.
macro_rules! table {
    ($attributes:ident, $slots:ident { $($extra:tt)* } $($access:ident $port:ident: $name:ident;)*) => {
        attributes! {
            $attributes {
                $($extra)*
                $($access $name: DESCRIPTOR, ONE, TENSORS;)*
            }
        }
        const $slots: &[(Port, Name)] = &[$((Port::$port, Name::$name)),*];
    };
}

table! {
    FORWARD_ATTRIBUTES, FORWARD_SLOTS {
        Required CUDNN_ATTR_OPERATION_NORM_FWD_MODE: MODE, ONE;
        Required CUDNN_ATTR_OPERATION_NORM_FWD_PHASE: PHASE, ONE;
        Optional CUDNN_ATTR_OPERATION_NORM_FWD_PEER_STAT_DESCS: DESCRIPTOR, ANY, TENSORS;
    }
    Required X: CUDNN_ATTR_OPERATION_NORM_FWD_XDESC;
    Optional MEAN: CUDNN_ATTR_OPERATION_NORM_FWD_MEAN_DESC;
    Optional INV_VARIANCE: CUDNN_ATTR_OPERATION_NORM_FWD_INV_VARIANCE_DESC;
    Optional SCALE: CUDNN_ATTR_OPERATION_NORM_FWD_SCALE_DESC;
    Optional BIAS: CUDNN_ATTR_OPERATION_NORM_FWD_BIAS_DESC;
    Optional EPSILON: CUDNN_ATTR_OPERATION_NORM_FWD_EPSILON_DESC;
    Optional MOMENTUM: CUDNN_ATTR_OPERATION_NORM_FWD_EXP_AVG_FACTOR_DESC;
    Optional PREV_RUNNING_MEAN: CUDNN_ATTR_OPERATION_NORM_FWD_INPUT_RUNNING_MEAN_DESC;
    Optional PREV_RUNNING_VAR: CUDNN_ATTR_OPERATION_NORM_FWD_INPUT_RUNNING_VAR_DESC;
    Optional NEXT_RUNNING_MEAN: CUDNN_ATTR_OPERATION_NORM_FWD_OUTPUT_RUNNING_MEAN_DESC;
    Optional NEXT_RUNNING_VAR: CUDNN_ATTR_OPERATION_NORM_FWD_OUTPUT_RUNNING_VAR_DESC;
    Required Y: CUDNN_ATTR_OPERATION_NORM_FWD_YDESC;
}

table! {
    BACKWARD_ATTRIBUTES, BACKWARD_SLOTS {
        Required CUDNN_ATTR_OPERATION_NORM_BWD_MODE: MODE, ONE;
        Optional CUDNN_ATTR_OPERATION_NORM_BWD_PEER_STAT_DESCS: DESCRIPTOR, ANY, TENSORS;
    }
    Required DY: CUDNN_ATTR_OPERATION_NORM_BWD_DYDESC;
    Required X: CUDNN_ATTR_OPERATION_NORM_BWD_XDESC;
    Optional MEAN: CUDNN_ATTR_OPERATION_NORM_BWD_MEAN_DESC;
    Optional INV_VARIANCE: CUDNN_ATTR_OPERATION_NORM_BWD_INV_VARIANCE_DESC;
    Optional SCALE: CUDNN_ATTR_OPERATION_NORM_BWD_SCALE_DESC;
    Optional EPSILON: CUDNN_ATTR_OPERATION_NORM_BWD_EPSILON_DESC;
    Optional DSCALE: CUDNN_ATTR_OPERATION_NORM_BWD_DSCALE_DESC;
    Optional DBIAS: CUDNN_ATTR_OPERATION_NORM_BWD_DBIAS_DESC;
    Required DX: CUDNN_ATTR_OPERATION_NORM_BWD_DXDESC;
}

table! {
    FINALIZE_ATTRIBUTES, FINALIZE_SLOTS {
        Required CUDNN_ATTR_OPERATION_BN_FINALIZE_STATS_MODE: STATS_MODE, ONE;
        Required CUDNN_ATTR_OPERATION_BN_FINALIZE_MATH_PREC: DATA_TYPE, ONE;
    }
    Optional SUM: CUDNN_ATTR_OPERATION_BN_FINALIZE_Y_SUM_DESC;
    Optional SQ_SUM: CUDNN_ATTR_OPERATION_BN_FINALIZE_Y_SQ_SUM_DESC;
    Optional SCALE: CUDNN_ATTR_OPERATION_BN_FINALIZE_SCALE_DESC;
    Optional BIAS: CUDNN_ATTR_OPERATION_BN_FINALIZE_BIAS_DESC;
    Optional PREV_RUNNING_MEAN: CUDNN_ATTR_OPERATION_BN_FINALIZE_PREV_RUNNING_MEAN_DESC;
    Optional PREV_RUNNING_VAR: CUDNN_ATTR_OPERATION_BN_FINALIZE_PREV_RUNNING_VAR_DESC;
    Optional NEXT_RUNNING_MEAN: CUDNN_ATTR_OPERATION_BN_FINALIZE_UPDATED_RUNNING_MEAN_DESC;
    Optional NEXT_RUNNING_VAR: CUDNN_ATTR_OPERATION_BN_FINALIZE_UPDATED_RUNNING_VAR_DESC;
    Optional MEAN: CUDNN_ATTR_OPERATION_BN_FINALIZE_SAVED_MEAN_DESC;
    Optional INV_VARIANCE: CUDNN_ATTR_OPERATION_BN_FINALIZE_SAVED_INV_STD_DESC;
    Optional EQ_SCALE: CUDNN_ATTR_OPERATION_BN_FINALIZE_EQ_SCALE_DESC;
    Optional EQ_BIAS: CUDNN_ATTR_OPERATION_BN_FINALIZE_EQ_BIAS_DESC;
    Optional ACCUM_COUNT: CUDNN_ATTR_OPERATION_BN_FINALIZE_ACCUM_COUNT_DESC;
    Optional EPSILON: CUDNN_ATTR_OPERATION_BN_FINALIZE_EPSILON_DESC;
    Optional MOMENTUM: CUDNN_ATTR_OPERATION_BN_FINALIZE_EXP_AVERATE_FACTOR_DESC;
}

table! {
    WEIGHTS_ATTRIBUTES, WEIGHTS_SLOTS {
        Required CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_MATH_PREC: DATA_TYPE, ONE;
    }
    Required MEAN: CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_MEAN_DESC;
    Required INV_VARIANCE: CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_INVSTD_DESC;
    Required SCALE: CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_BN_SCALE_DESC;
    Required X: CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_X_DESC;
    Required DY: CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_DY_DESC;
    Optional DSCALE: CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_DBN_SCALE_DESC;
    Optional DBIAS: CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_DBN_BIAS_DESC;
    Optional EQ_SCALE_DY: CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_EQ_DY_SCALE_DESC;
    Optional EQ_SCALE_X: CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_EQ_X_SCALE_DESC;
    Optional EQ_BIAS: CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_EQ_BIAS;
}

pub(super) const FORWARD: Row = Row {
    kind: Kind::CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR,
    attributes: FORWARD_ATTRIBUTES,
    read: |given| {
        let mode = mode(given, Name::CUDNN_ATTR_OPERATION_NORM_FWD_MODE)?;
        let phase = match given(Name::CUDNN_ATTR_OPERATION_NORM_FWD_PHASE) {
            Some(0) => NormPhase::Inference,
            Some(1) => NormPhase::Training,
            other => return Err(unknown(Name::CUDNN_ATTR_OPERATION_NORM_FWD_PHASE, other)),
        };
        Ok(NormForward::new(mode, phase).into())
    },
    compute: Compute::Float,
    slots: FORWARD_SLOTS,
    lists: &[(&Port::PEER_STATS, Name::CUDNN_ATTR_OPERATION_NORM_FWD_PEER_STAT_DESCS)],
};

pub(super) const BACKWARD: Row = Row {
    kind: Kind::CUDNN_BACKEND_OPERATION_NORM_BACKWARD_DESCRIPTOR,
    attributes: BACKWARD_ATTRIBUTES,
    read: |given| Ok(NormBackward { mode: mode(given, Name::CUDNN_ATTR_OPERATION_NORM_BWD_MODE)? }.into()),
    compute: Compute::Float,
    slots: BACKWARD_SLOTS,
    lists: &[(&Port::PEER_STATS, Name::CUDNN_ATTR_OPERATION_NORM_BWD_PEER_STAT_DESCS)],
};

pub(super) const FINALIZE: Row = Row {
    kind: Kind::CUDNN_BACKEND_OPERATION_BN_FINALIZE_STATISTICS_DESCRIPTOR,
    attributes: FINALIZE_ATTRIBUTES,
    read: |given| {
        let mode = match given(Name::CUDNN_ATTR_OPERATION_BN_FINALIZE_STATS_MODE) {
            Some(0) => BnFinalizeMode::Training,
            Some(1) => BnFinalizeMode::Inference,
            other => return Err(unknown(Name::CUDNN_ATTR_OPERATION_BN_FINALIZE_STATS_MODE, other)),
        };
        Ok(BnFinalize { mode }.into())
    },
    compute: Compute::Given(Name::CUDNN_ATTR_OPERATION_BN_FINALIZE_MATH_PREC),
    slots: FINALIZE_SLOTS,
    lists: &[],
};

pub(super) const WEIGHTS: Row = Row {
    kind: Kind::CUDNN_BACKEND_OPERATION_BN_BWD_WEIGHTS_DESCRIPTOR,
    attributes: WEIGHTS_ATTRIBUTES,
    read: |_| Ok(BnBackwardWeights.into()),
    compute: Compute::Given(Name::CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_MATH_PREC),
    slots: WEIGHTS_SLOTS,
    lists: &[],
};

fn mode(given: Enumerators<'_>, name: Name) -> Result<NormMode, Wrong> {
    match given(name) {
        Some(0) => Ok(NormMode::Layer),
        Some(1) => Ok(NormMode::Instance),
        Some(2) => Ok(NormMode::Batch),
        // The extents of the statistics tell how many groups there are (NA-05).
        Some(3) => Ok(NormMode::Group { count: None }),
        Some(4) => Ok(NormMode::Rms),
        Some(5) => Ok(NormMode::AdaLayer),
        other => Err(unknown(name, other)),
    }
}

fn unknown(name: Name, number: Option<u32>) -> Wrong {
    Wrong::Bad(match number {
        Some(number) => format!("{name:?} is {number}, which is none of its values"),
        None => format!("{name:?} is not set"),
    })
}
