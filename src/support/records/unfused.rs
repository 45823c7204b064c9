//! Pure pointwise graphs: rank and dims.

use crate::support::rule::{DEFINITION, PATTERN, S70, SHAPE, restated, rules};

rules! {
    S70, "003 Support Surface 70, Support Surface of Dimension and Layout for Tensors in g2" {
        S70_PW_3D_DIMS = "S70-PW-3D-DIMS", "PW, 3-D", SHAPE, "dims as in a matmul epilogue around the largest extents";
        S70_PW_45D_DIMS = "S70-PW-45D-DIMS", "PW, 4-D or 5-D", SHAPE, "dims as in a convolution epilogue around the largest extents";
        S70_PW_3D_NO_RED = "S70-PW-3D-NO-RED", "PW, 3-D", PATTERN, "no Reduction";
        S70_PW_RANK = "S70-PW-RANK", "PW", SHAPE, "tensors of one rank: 3, 4 or 5";
    }
    S70, "003 DgradDreluBNBwdWeight" {
        DBN_ENGINE = "DBN-ENGINE", "PW", DEFINITION, "dBNApply, dy*A + X*B + C, is a graph without a core";
    }
    S70, "project" {
        DBN_ORDER = "DBN-ORDER", "PW", restated("S70-G2-BCAST-FIRST"), "A, B and C of dBNApply are second inputs";
    }
    S70, "002 6.1.3.1" {
        LF_5 = "LF-5", "PW", DEFINITION, "SCALE_BIAS_ADD_ACTIVATION_GEN_BITMASK of the older API is a graph without a core, with a CMP_GT to BOOLEAN";
    }
}
