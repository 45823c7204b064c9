//! Documented rules of the convolution patterns (`docs/spec/engines.md` 4.1 to 4.5, 5).

use super::{BIAS_ACT, BN_FPROP, BN_WGRAD, DBARCS};
use crate::support::rule::{ARCH, DEFINITION, LAYOUT, PATTERN, PERMISSION, SHAPE, SurfaceId, TYPE, rules};

const FPROP: &[SurfaceId] = &[BN_FPROP];
const FPROPS: &[SurfaceId] = &[BN_FPROP, DBARCS];
const DUAL: &[SurfaceId] = &[DBARCS];
const WGRAD: &[SurfaceId] = &[BN_WGRAD];
const BIASED: &[SurfaceId] = &[BIAS_ACT];

rules! {
    FPROP, "003 ConvBNfprop" {
        CBN_OPT = "CBN-OPT", "graph", PERMISSION, "the scale, the bias and the ReLU may be left out";
    }
    FPROPS, "003 ConvBNfprop" {
        CBN_TYPE = "CBN-TYPE", "X, Z, W, s1, b1", TYPE, "X, what the convolution reads, W, the scale and the bias are HALF";
        CBN_Z = "CBN-Z", "X, Z, Y", LAYOUT, "images are 4-D and fully packed NHWC";
        CBN_W = "CBN-W", "W", LAYOUT, "W is fully packed KRSC";
        CBN_SB = "CBN-SB", "s1, b1", SHAPE, "the scale and the bias are [1,C,1,1]";
        CBN_ACT = "CBN-ACT", "graph", PATTERN, "the activation is ReLU";
    }
    FPROP, "003 ConvBNfprop" {
        CBN_VIRT = "CBN-VIRT", "graph", PATTERN, "what comes before the convolution is virtual, and its result is stored";
    }
    FPROPS, "003 ConvBNfprop" {
        CBN_ALIGN = "CBN-ALIGN", "io", LAYOUT, "pointers are aligned to 16 bytes";
    }
    FPROP, "003 ConvBNfprop" {
        CBN_CC = "CBN-CC", "graph", ARCH, "compute capability 8.0, 8.6, 8.7 or 9.0";
        CBN_CC90 = "CBN-CC90", "graph", PATTERN, "on compute capability 9.0 scale, bias and ReLU, or none of them";
    }
    FPROPS, "002 9.2.13; 003 Constraints for GenStats Operations" {
        CBN_GENSTATS = "CBN-GENSTATS", "GenStats", TYPE, "SUM and SQ_SUM are FLOAT";
    }
    FPROPS, "003 ConvBNfprop; norms N-75" {
        N_75 = "N-75", "graph", PATTERN, "a forward convolution, what scales, shifts and activates its X, and GENSTATS of its result alone";
    }
    FPROP, "002 6.1.3.1" {
        LF_0 = "LF-0", "graph", DEFINITION, "SCALE_BIAS_ACTIVATION_CONV_BNSTATS of the older API is this pattern";
    }

    DUAL, "003 DBARCS" {
        DBA_DUAL = "DBA-DUAL", "graph", PATTERN, "the second branch has both a scale and a bias, or neither";
        DBA_REQ = "DBA-REQ", "graph", PATTERN, "the first branch has a scale and a bias; the sum of both goes through a ReLU";
        DBA_CC = "DBA-CC", "graph", ARCH, "compute capability 9.0";
        DBA_CARRY = "DBA-CARRY", "graph", DEFINITION, "types, layouts and the rest are those of ConvBNfprop";
        DBA_DTYPE = "DBA-DTYPE", "dual_X, dual_scale, dual_bias", TYPE, "the second branch's tensors are HALF";
        DBA_DSHAPE = "DBA-DSHAPE", "dual_scale, dual_bias", SHAPE, "the second branch's scale and bias are [1,C,1,1]";
        DBA_VIRT = "DBA-VIRT", "graph", PATTERN, "the results of the ReLU and of the convolution are stored, all others between are virtual";
        DBA_W = "DBA-W", "W", SHAPE, "W is [K,C,1,1], without padding";
    }

    WGRAD, "003 ConvBNwgrad" {
        CBW_OPT = "CBW-OPT", "graph", PERMISSION, "the scale, the bias and the ReLU may be left out";
        CBW_ACT = "CBW-ACT", "graph", PATTERN, "the activation is ReLU";
        CBW_TYPE = "CBW-TYPE", "X, s1, b1, dy", TYPE, "X, the scale, the bias and dy are HALF";
        CBW_ALIGN = "CBW-ALIGN", "io", LAYOUT, "pointers are aligned to 16 bytes";
        CBW_LAYOUT = "CBW-LAYOUT", "X, s1, b1, dy", LAYOUT, "X, the scale, the bias and dy are fully packed NHWC";
        CBW_VIRT = "CBW-VIRT", "graph", PATTERN, "what comes before the convolution is virtual";
        CBW_CC = "CBW-CC", "graph", ARCH, "compute capability 8.0, 8.6, 8.7 or 9.0";
        CBW_CC90 = "CBW-CC90", "graph", PATTERN, "on compute capability 9.0 scale, bias and ReLU";
    }
    WGRAD, "003 ConvBNwgrad; norms N-77" {
        N_77 = "N-77", "graph", PATTERN, "a filter gradient, and what scales, shifts and activates its X alone";
    }
    WGRAD, "002 6.1.3.1" {
        LF_1 = "LF-1", "graph", DEFINITION, "SCALE_BIAS_ACTIVATION_WGRAD of the older API is this pattern";
    }

    BIASED, "003 ConvBiasAct" {
        CBA_ALPHA = "CBA-ALPHA", "alpha1, alpha2", SHAPE, "what scales the convolution and Z is one number";
        CBA_ACT_OPT = "CBA-ACT-OPT", "graph", PERMISSION, "the activation may be left out";
        CBA_BIAS = "CBA-BIAS", "bias", SHAPE, "the bias is [1,K,1,1]";
        CBA_NOCONV = "CBA-NOCONV", "graph", TYPE, "each virtual tensor has the compute type of its operation";
    }
    BIASED, "003 ConvBiasAct; 002 5.2.9" {
        CBA_TYPES = "CBA-TYPES", "X, W, Z, Y, bias", TYPE, "FLOAT or DOUBLE throughout; HALF or BFLOAT16 in FLOAT; INT8 or UINT8 X with INT8 W in INT32 to INT8 or FLOAT, the bias FLOAT";
    }
    BIASED, "002 5.2.9" {
        CBA_ACT_MODE = "CBA-ACT-MODE", "graph", PATTERN, "the activation is ReLU or the identity";
        CBA_BIAS_STRIDE = "CBA-BIAS-STRIDE", "bias", LAYOUT, "the bias has a channel stride of 1";
        CBA_Z = "CBA-Z", "Z, Y", LAYOUT, "Z lies as Y, in its type";
        CBA_RANK = "CBA-RANK", "X, W, Y, Z", DEFINITION, "ranks are those of the spatial axes and two";
    }
    BIASED, "003 ConvBiasAct; norms N-78" {
        N_78 = "N-78", "graph", PATTERN, "act(alpha1 * conv + alpha2 * Z + bias) alone, what lies between virtual";
    }
    BIASED, "003 ConvScaleBiasAct" {
        CSBA_PARAMS = "CSBA-PARAMS", "alpha1, alpha2, bias", DEFINITION, "of ConvScaleBiasAct scales and bias are FLOAT, of each channel";
        CSBA_XWZ = "CSBA-XWZ", "X, W, Z", DEFINITION, "of ConvScaleBiasAct X, W and Z are INT8x4 or INT8x32, which no tensor here is: INT8 goes to the runtime surfaces";
        CSBA_BIAS = "CSBA-BIAS", "bias", DEFINITION, "of ConvScaleBiasAct the bias is [1,K,1,1]";
        CSBA_NOCONV = "CSBA-NOCONV", "graph", DEFINITION, "of ConvScaleBiasAct each virtual tensor has the compute type of its operation";
        CSBA_RELU = "CSBA-RELU", "graph", DEFINITION, "of ConvScaleBiasAct the ReLU alone may be left out";
        CSBA_DEGEN = "CSBA-DEGEN", "graph", DEFINITION, "with one number for each scale it is ConvBiasAct";
    }
    BIASED, "002 6.1.3.1" {
        LF_4 = "LF-4", "graph", DEFINITION, "CONV_SCALE_BIAS_ADD_ACTIVATION of the older API is ConvScaleBiasAct, or a graph of the runtime surfaces";
    }
}
