//! Constraints of GenStats (8.4).

use crate::support::rule::{DEFINITION, LAYOUT, PATTERN, RUNTIME, S70, SHAPE, TYPE, rules};

rules! {
    S70, "003 Constraints for GenStats Operations; 002 9.2.13" {
        OP_GS_SURFACE = "OP-GS-SURFACE", "GenStats", PATTERN, "only surface 70 has GenStats";
        OP_GS_XTYPE_PRE = "OP-GS-XTYPE-PRE", "GenStats before compute capability 8.0", TYPE, "X is HALF";
        OP_GS_XTYPE = "OP-GS-XTYPE", "GenStats", TYPE, "X is HALF or FLOAT";
        OP_GS_SHAPE = "OP-GS-SHAPE", "GenStats", SHAPE, "X is a full 4-D or 5-D value; SUM and SQSUM are [1,C,1s] outputs that nothing reads";
        OP_GS_OUTTYPE = "OP-GS-OUTTYPE", "GenStats", TYPE, "SUM and SQSUM are FLOAT";
        OP_GS_PREC = "OP-GS-PREC", "GenStats", TYPE, "math precision FLOAT";
        OP_GS_LAYOUT = "OP-GS-LAYOUT", "GenStats", LAYOUT, "X, SUM and SQSUM are fully packed NHWC";
    }
    RUNTIME, "002 9.2.13, 5.1.3.12" {
        OP_GS_MODE = "OP-GS-MODE", "GenStats", DEFINITION, "SUM_SQSUM is the only mode";
    }
}
