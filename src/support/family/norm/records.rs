//! Documented rules of the surfaces of norms (`docs/spec/engines.md` 1.2, 1.3, 3.1, 3.2, 4.6, 5; `docs/spec/norms.md` 3).

use super::{ADD_RELU, BACKWARD, DRELU, FINALIZE, FORWARD, WEIGHTS};
use crate::support::rule::{
    ARCH, DEFINITION, LAYOUT, OTHER, PATTERN, PERMISSION, SHAPE, SurfaceId, TYPE, restated, rules,
};

const FORWARD_ALONE: &[SurfaceId] = &[FORWARD];
const BACKWARD_ALONE: &[SurfaceId] = &[BACKWARD];
const ADD_RELU_ALONE: &[SurfaceId] = &[ADD_RELU];
const DRELU_ALONE: &[SurfaceId] = &[DRELU];
const FINALIZE_ALONE: &[SurfaceId] = &[FINALIZE];
const WEIGHTS_ALONE: &[SurfaceId] = &[WEIGHTS];

rules! {
    &[FORWARD, BACKWARD, ADD_RELU, DRELU], "norms NA-10" {
        NA_10 = "NA-10", "graph", PATTERN, "one norm in a graph; a batch norm for inference may stand beside a batch norm's gradient (N-66)";
    }
    &[FORWARD, BACKWARD], "003 Normalizations; norms N-70" {
        N_70 = "N-70", "graph", PATTERN, "an INSTANCE norm is alone; of others linear chains of Pointwise operations come before X (of a gradient DY) and after Y (DX)";
    }
    &[FORWARD, BACKWARD, FINALIZE], "norms N-165; project" {
        N_165 = "N-165", "graph", ARCH, "compute capability 7.0, 7.2, 7.5, 8.0, 8.6, 8.7, 8.9 or 9.0, those of surface 70";
    }
    &[FORWARD, ADD_RELU], "norms N-161; project" {
        N_161 = "N-161", "NormForward", PATTERN, "no statistics of a norm for INFERENCE: MEAN and INV_VARIANCE are outputs of TRAINING";
    }
    &[ADD_RELU, FINALIZE], "norms N-17; 003 Mapping with Backend Descriptors" {
        N_17 = "N-17", "NormForward, BnFinalize", OTHER, "EPSILON, MOMENTUM and ACCUM_COUNT are given by value";
    }
    &[ADD_RELU, DRELU, FINALIZE, WEIGHTS], "norms N-159" {
        N_159 = "N-159", "norm", TYPE, "computed in FLOAT";
    }

    FORWARD_ALONE, "003 NormalizationForward" {
        NF_X = "NF-X", "X", SHAPE, "X has rank 2 to 5; of an INSTANCE norm 4 or 5, of an ADA_LAYER norm 3";
        NF_MEAN = "NF-MEAN", "MEAN", TYPE, "MEAN is FLOAT, the compute type";
        NF_INV = "NF-INV", "INV_VARIANCE", TYPE, "INV_VARIANCE is FLOAT, the compute type";
        NF_SCALE = "NF-SCALE", "X", SHAPE, "LAYER and RMS norms normalise the last axes of X, which SCALE spans";
        NF_BIAS = "NF-BIAS", "BIAS", PERMISSION, "an RMS norm may have a BIAS; LAYER and ADA_LAYER norms may lack it";
        NF_Y = "NF-Y", "Y", DEFINITION, "Y has X's dims";
        NF_EPS = "NF-EPS", "EPSILON", OTHER, "EPSILON is given by value";
        NF_PHASE = "NF-PHASE", "NormForward", PERMISSION, "phases TRAINING and INFERENCE";
        NF_LAYOUT = "NF-LAYOUT", "io", LAYOUT, "tensors lie as NC(D)HW or N(D)HWC, those of rank 2 and 3 row-major or column-major";
        NF_SAME_LAYOUT = "NF-SAME-LAYOUT", "io", LAYOUT, "all tensors lie in one layout";
        NF_IO = "NF-IO", "X, Y", TYPE, "X and Y are HALF, BFLOAT16 or FLOAT";
        NF_COMP = "NF-COMP", "NormForward", TYPE, "computed in FLOAT";
        NF_W = "NF-W", "SCALE, BIAS", TYPE, "SCALE and BIAS are HALF, BFLOAT16 or FLOAT; of an INSTANCE norm FLOAT";
        NF_ALIGN = "NF-ALIGN", "X, Y", LAYOUT, "X and Y are aligned to 16 bytes; of an INSTANCE norm to 8";
        NF_ENGINE = "NF-ENGINE", "NormForward", DEFINITION, "LAYER and RMS norms also have engines that are compiled at run time";
        NF_ENGINE_SIZE = "NF-ENGINE-SIZE", "Y, SCALE, BIAS", TYPE, "where Y is wider than X, which no engine compiled at run time takes, SCALE and BIAS are FLOAT";
        NF_W_NONJIT = "NF-W-NONJIT", "SCALE, BIAS", restated("NF-ENGINE-SIZE"), "engines that are not compiled at run time take SCALE and BIAS in FLOAT";
        NF_LIB = "NF-LIB", "NormForward", DEFINITION, "INSTANCE norms are in the full library only";
        NF_BN = "NF-BN", "NormForward", DEFINITION, "of a BATCH norm see NormAddRelu";
    }
    FORWARD_ALONE, "003 Normalizations; norms N-69, N-71" {
        N_69 = "N-69", "graph", PERMISSION, "comparisons of a norm's clamped ReLU, and their LOGICAL_AND, make a mask";
        N_71 = "N-71", "SCALE", PERMISSION, "SCALE may be the ADD of a stored tensor and a scalar";
    }

    BACKWARD_ALONE, "003 NormalizationBackward" {
        NB_X = "NB-X" as NF_X;
        NB_MEAN = "NB-MEAN" as NF_MEAN;
        NB_INV = "NB-INV" as NF_INV;
        NB_SCALE = "NB-SCALE" as NF_SCALE;
        NB_DY = "NB-DY", "DY", DEFINITION, "DY has X's dims";
        NB_DX = "NB-DX", "DX", DEFINITION, "DX has X's dims";
        NB_DSCALE = "NB-DSCALE", "DSCALE", DEFINITION, "DSCALE has SCALE's dims";
        NB_DBIAS = "NB-DBIAS", "DBIAS", PERMISSION, "an RMS norm's gradient may have DBIAS";
        NB_LAYOUT = "NB-LAYOUT" as NF_LAYOUT;
        NB_SAME_LAYOUT = "NB-SAME-LAYOUT" as NF_SAME_LAYOUT;
        NB_IO = "NB-IO", "X, DY, DX", TYPE, "X, DY and DX are HALF, BFLOAT16 or FLOAT";
        NB_NO_MIX = "NB-NO-MIX", "X, DY, DX", TYPE, "DY and DX have X's type";
        NB_COMP = "NB-COMP", "NormBackward", TYPE, "computed in FLOAT";
        NB_W = "NB-W", "SCALE, DSCALE, DBIAS", TYPE, "SCALE, DSCALE and DBIAS are HALF, BFLOAT16 or FLOAT; of an INSTANCE norm FLOAT";
        NB_ALIGN = "NB-ALIGN", "X, DY, DX", LAYOUT, "X, DY and DX are aligned to 16 bytes; of an INSTANCE norm to 8";
        NB_STATS = "NB-STATS", "MEAN, INV_VARIANCE", DEFINITION, "the statistics are those that the norm stored in training";
        NB_ENGINE = "NB-ENGINE", "NormBackward", DEFINITION, "LAYER and RMS norms also have an engine that is compiled at run time";
        NB_LIB = "NB-LIB", "NormBackward", DEFINITION, "INSTANCE norms are in the full library only";
    }

    ADD_RELU_ALONE, "003 BnAddRelu" {
        BAR_OPT = "BAR-OPT", "graph", PERMISSION, "the ADD, the ReLU and the CMP_GT may be left out";
        BAR_LAYOUT = "BAR-LAYOUT", "io", LAYOUT, "all tensors are fully packed NHWC";
        BAR_RANK = "BAR-RANK", "X", SHAPE, "X has rank 4 or 5";
        BAR_ACT = "BAR-ACT", "graph", PATTERN, "the activation is ReLU";
    }
    ADD_RELU_ALONE, "003 BnAddRelu; 003 Specialized Runtime Fusion Engines" {
        BAR_MODE = "BAR-MODE", "NormForward", PATTERN, "the norm is BATCH; NormAddRelu takes INSTANCE, too";
    }
    ADD_RELU_ALONE, "003 BnAddRelu" {
        BAR_PHASE = "BAR-PHASE", "NormForward", PATTERN, "a BATCH norm is of phase TRAINING";
        BAR_INTYPE = "BAR-INTYPE", "SCALE, BIAS, PREV_RUNNING_*", TYPE, "SCALE, BIAS and the running statistics that are read are FLOAT";
        BAR_OUTTYPE = "BAR-OUTTYPE", "MEAN, INV_VARIANCE, NEXT_RUNNING_*", TYPE, "MEAN, INV_VARIANCE and the running statistics that are written are FLOAT";
        BAR_XTYPE = "BAR-XTYPE", "X, Z, Y", TYPE, "X, the residual Z and Y are FLOAT, HALF or BFLOAT16";
        BAR_C = "BAR-C", "X", SHAPE, "channels are a multiple of 8; of 4 where X is FLOAT";
        BAR_CC = "BAR-CC", "graph", ARCH, "compute capability 8.0, 8.6, 8.7, 8.9 or 9.0";
    }
    ADD_RELU_ALONE, "003 BnAddRelu; project" {
        BAR_ORDER = "BAR-ORDER", "graph", PATTERN, "the ADD comes before the ReLU; the CMP_GT reads what the ReLU reads or gives";
    }
    ADD_RELU_ALONE, "003 BnAddRelu; norms N-65" {
        N_65 = "N-65", "graph", PATTERN, "relu(norm(X) + Z) and its mask alone, what lies between them virtual";
    }
    ADD_RELU_ALONE, "003 Specialized Runtime Fusion Engines; norms N-72" {
        N_72 = "N-72", "NormForward", PERMISSION, "an INSTANCE norm may be of phase INFERENCE";
    }
    ADD_RELU_ALONE, "003 BnAddRelu, single-node multi-GPU" {
        BAR_MG_ATTR = "BAR-MG-ATTR", "peer statistics", DEFINITION, "a norm of several GPUs has tensors of peer statistics";
        BAR_MG_COUNT = "BAR-MG-COUNT", "peer statistics", DEFINITION, "there is one for each GPU of the node";
        BAR_MG_MAX = "BAR-MG-MAX", "peer statistics", DEFINITION, "there are at most 32";
        BAR_MG_EQUAL = "BAR-MG-EQUAL", "peer statistics", DEFINITION, "every GPU works on the same dims";
        BAR_MG_SIZE = "BAR-MG-SIZE", "peer statistics", DEFINITION, "each has 4 elements for each GPU and channel";
        BAR_MG_ZERO = "BAR-MG-ZERO", "peer statistics", DEFINITION, "they are zeros before execution";
        BAR_MG_ALGO = "BAR-MG-ALGO", "peer statistics", DEFINITION, "each GPU writes its statistics to its peers, and normalises by those of all";
    }

    DRELU_ALONE, "003 DReluForkDBn" {
        DRF_OPT = "DRF-OPT", "graph", PERMISSION, "the dReLU may be left out";
        DRF_DZ = "DRF-DZ", "dZ", PERMISSION, "dZ, the gradient behind the dReLU, may be stored";
        DRF_LAYOUT = "DRF-LAYOUT", "io", LAYOUT, "all tensors are fully packed NHWC";
        DRF_RANK = "DRF-RANK", "X", SHAPE, "X has rank 4 or 5";
        DRF_ACT = "DRF-ACT", "graph", PATTERN, "the activation is dReLU";
    }
    DRELU_ALONE, "003 DReluForkDBn; 003 Mapping with Backend Descriptors; project" {
        DRF_MASK = "DRF-MASK", "graph", TYPE, "the dReLU reads a packed BOOLEAN mask of dY's dims, an input of the graph, or the ReLU's input (N-66)";
    }
    DRELU_ALONE, "003 DReluForkDBn; 003 Specialized Runtime Fusion Engines" {
        DRF_MODE = "DRF-MODE", "NormBackward", PATTERN, "the norm is BATCH; DReluForkDNorm takes INSTANCE, LAYER and RMS, too";
    }
    DRELU_ALONE, "003 DReluForkDBn" {
        DRF_FLOAT = "DRF-FLOAT", "SCALE, MEAN, INV_VARIANCE, DSCALE, DBIAS", TYPE, "SCALE, the statistics and their gradients are FLOAT";
        DRF_XTYPE = "DRF-XTYPE", "dY, X, dZ, dX", TYPE, "dY, X, dZ and dX are FLOAT, HALF or BFLOAT16";
        DRF_C = "DRF-C", "X", SHAPE, "channels are a multiple of 8; of 4 where X is FLOAT";
        DRF_CC = "DRF-CC", "graph", ARCH, "compute capability 8.0, 8.6, 8.7, 8.9 or 9.0";
        DRF_MG = "DRF-MG", "peer statistics", DEFINITION, "of several GPUs the rules BAR-MG-* hold; DSCALE and DBIAS are those of all";
    }
    DRELU_ALONE, "norms N-66" {
        N_66 = "N-66", "graph", PATTERN, "a BATCH norm for inference that gives the ReLU's input again is virtual, and reads the gradient's X, MEAN, INV_VARIANCE and SCALE";
    }
    DRELU_ALONE, "003 DReluForkDBn; norms N-67" {
        N_67 = "N-67", "graph", PATTERN, "the gradient of a norm, behind a dReLU or alone";
    }
    DRELU_ALONE, "002 6.1.3.1" {
        LF_6 = "LF-6", "graph", DEFINITION, "DACTIVATION_FORK_DBATCHNORM of the older API is this pattern, dZ stored";
    }

    FINALIZE_ALONE, "003 Pre-Compiled Single Operation Engines" {
        EC_1 = "EC-1", "graph", PATTERN, "BN_FINALIZE is the only operation";
    }
    FINALIZE_ALONE, "norms N-63" {
        N_63 = "N-63", "BnFinalize", TYPE, "sums, statistics, parameters and what is made of them are FLOAT";
    }
    FINALIZE_ALONE, "norms N-10h; 002 6.1.3.3" {
        N_10H = "N-10h", "BnFinalize", SHAPE, "sums, statistics and parameters are [1,C,1s]";
    }
    FINALIZE_ALONE, "002 6.1.3.1" {
        LF_2 = "LF-2", "graph", DEFINITION, "BN_FINALIZE_STATISTICS_TRAINING of the older API is BN_FINALIZE";
        LF_3 = "LF-3", "graph", DEFINITION, "BN_FINALIZE_STATISTICS_INFERENCE of the older API is BN_FINALIZE of mode INFERENCE";
        LF_NOP2 = "LF-NOP2", "BnFinalize", PERMISSION, "each output may be left out, and the parameters that it is made of";
    }
    FINALIZE_ALONE, "002 6.1.3.3" {
        LF_COUNT = "LF-COUNT", "ACCUM_COUNT", TYPE, "ACCUM_COUNT is INT64";
        LF_FACTOR = "LF-FACTOR", "EPSILON, MOMENTUM", TYPE, "EPSILON and MOMENTUM are FLOAT or DOUBLE";
    }

    WEIGHTS_ALONE, "003 DgradDreluBNBwdWeight; norms N-80" {
        N_80 = "N-80", "graph", PATTERN, "DBN_WEIGHT of dy_bn = RELU_BWD(CONV_DGRAD(dy, W), y), where y is (X - mean) * invstd * scale + bias; all before dy_bn virtual";
    }
    WEIGHTS_ALONE, "003 DgradDreluBNBwdWeight" {
        DDB_CONVTYPE = "DDB-CONVTYPE", "dy, W", TYPE, "dy and W are HALF";
        DDB_BNTYPE = "DDB-BNTYPE", "X, mean, invstd, scale, bias", TYPE, "X is HALF; mean, invstd, scale and bias are FLOAT";
        DDB_OUTTYPE = "DDB-OUTTYPE", "DSCALE, DBIAS, EQ_*", TYPE, "DSCALE, DBIAS and the equivalent scales and bias are FLOAT";
        DDB_ALIGN = "DDB-ALIGN", "io", LAYOUT, "all pointers are aligned to 16 bytes";
        DDB_CC = "DDB-CC", "graph", ARCH, "compute capability 8.0, 8.6, 8.7 or 9.0";
        DDB_INPUTS = "DDB-INPUTS", "DBN_WEIGHT", PATTERN, "DBN_WEIGHT reads the X, mean, invstd and scale of which y is recomputed";
        DDB_ALPHA2 = "DDB-ALPHA2", "graph", OTHER, "where an ADD takes the mean from X, its alpha2 is -1";
        DDB_RECOMP = "DDB-RECOMP", "graph", DEFINITION, "y is recomputed, not stored";
    }
    WEIGHTS_ALONE, "003 DgradDreluBNBwdWeight; project" {
        DDB_MATH = "DDB-MATH", "DBN_WEIGHT", DEFINITION, "A = scale*invstd, B = -A*invstd*DSCALE/m, C = -A*DBIAS/m - B*mean, of m elements a channel";
        DDB_DYBN_OUT = "DDB-DYBN-OUT", "dy_bn", PATTERN, "dy_bn is stored, for dBNApply";
    }
}
