//! Softmax, which attention in its documented form is made of. The descriptor has no compute type; attention's softmax is computed in
//! FLOAT (MHAF-PW-COMP, MHAF-RED).

use crate::capi::attribute::TENSORS;

super::slots! {
    CUDNN_BACKEND_OPERATION_SOFTMAX_DESCRIPTOR, "SOFTMAX";
    inputs {
        Required X: CUDNN_ATTR_OPERATION_SOFTMAX_XDESC;
        Optional SINK: CUDNN_ATTR_OPERATION_SOFTMAX_SINK_DESC;
    }
    outputs {
        Required Y: CUDNN_ATTR_OPERATION_SOFTMAX_YDESC;
        Optional STATS: CUDNN_ATTR_OPERATION_SOFTMAX_STATS_DESC;
        Optional MAX: CUDNN_ATTR_OPERATION_SOFTMAX_MAX_DESC;
        Optional SUM_EXP: CUDNN_ATTR_OPERATION_SOFTMAX_SUM_EXP_DESC;
    }
}
