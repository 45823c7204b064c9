//! Constraints of reductions (8.5).

use crate::support::rule::{LAYOUT, OTHER, RUNTIME, restated, rules};

rules! {
    RUNTIME, "003 Constraints for Reduction Operations" {
        OP_RED_YTYPE = "OP-RED-YTYPE", "Reduction", restated("S*-DTYPE-RED-OUT"), "the result is FLOAT";
        OP_RED_COMP = "OP-RED-COMP", "Reduction", restated("S*-CT-RED"), "computed in FLOAT";
        OP_RED_LAYOUT = "OP-RED-LAYOUT", "Reduction", LAYOUT, "X and Y are fully packed NHWC, NDHWC or row-major [B,M,N]";
        OP_RED_OP = "OP-RED-OP", "Reduction", OTHER, "operator ADD, MIN or MAX";
    }
}
