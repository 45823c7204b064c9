//! Matmul and convolution: definitions, and recommendations that change no verdict (8.1).

use crate::support::rule::{DEFINITION, NOTE, RUNTIME, S90, S98, rules};

rules! {
    RUNTIME, "003 Matmul; 003 Convolutions; 002 9.2.10 to 9.2.12" {
        OP_MM_DEF = "OP-MM-DEF", "Matmul", DEFINITION, "C = A·B over the last two axes";
        OP_CONV_ATTR = "OP-CONV-ATTR", "convolutions", DEFINITION, "forward: X, W to Y; backward filter: X, DY to DW; backward data: W, DY to DX";
        OP_FP8_TC = "OP-FP8-TC", "FP8 operands", DEFINITION, "FP8 tensor cores; FLOAT accumulates accurately, FAST_FLOAT_FOR_FP8 fast";
    }
    S98, "003 Recommended Compute Type for FP8" {
        OP_FP8_REC_FWD = "OP-FP8-REC-FWD", "ConvolutionFwd", NOTE, "FP8_E4M3 tensors, computed in FAST_FLOAT_FOR_FP8 or FLOAT";
    }
    S90, "003 Recommended Compute Type for FP8" {
        OP_FP8_REC_BWD = "OP-FP8-REC-BWD", "ConvolutionBwdData", NOTE, "FP8_E4M3 tensors, computed in FLOAT";
    }
    RUNTIME, "003 Recommended Compute Type for FP8" {
        OP_FP8_REC_BN = "OP-FP8-REC-BN", "BatchNorm", NOTE, "FP8_E4M3 tensors, computed in FLOAT";
        OP_FP8_REC_POOL = "OP-FP8-REC-POOL", "pooling", NOTE, "FP8_E4M3 or FP8_E5M2 tensors, computed in FLOAT";
        OP_FP8_REC_PW = "OP-FP8-REC-PW", "Pointwise", NOTE, "FP8_E4M3 or FP8_E5M2 tensors, computed in FLOAT";
    }
    S90, "003 Support Surface 90, Support Surface of Dimension and Layout for Tensors in g1" {
        S90_CBF_G1_PERF = "S90-CBF-G1-PERF", "CBF, INT8 or FP8", NOTE, "NHWC operands may be slow";
        S90_CBD_G1_PERF = "S90-CBD-G1-PERF", "CBD, INT8 or FP8", NOTE, "dy in CHWN, or W in NHWC, may be slow";
    }
}
