//! Constraints of pointwise operations (8.2, 8.3).

use crate::support::rule::{OTHER, PERMISSION, S70, S98, TYPE, rules};

rules! {
    S98, "003 Constraints for Pointwise Operations for Support Surface 90 and 80" {
        OP_PW98_DTYPE = "OP-PW98-DTYPE", "Pointwise", PERMISSION, "every operator takes every type that the surface lists";
        OP_PW98_PREC_LOGIC = "OP-PW98-PREC-LOGIC", "LOGICAL_*", TYPE, "math precision INT32";
        OP_PW98_PREC_INTOK = "OP-PW98-PREC-INTOK", "arithmetic, comparisons, GEN_INDEX, BINARY_SELECT", TYPE, "math precision FLOAT or INT32";
        OP_PW98_PREC_IDENT = "OP-PW98-PREC-IDENT", "IDENTITY", TYPE, "math precision INT32 or FLOAT, or else the type of input and output";
        OP_PW98_PREC_OTHER = "OP-PW98-PREC-OTHER", "every other operator", TYPE, "math precision FLOAT";
        OP_PW98_ALPHA1 = "OP-PW98-ALPHA1", "Pointwise", OTHER, "alpha1 is 1";
        OP_PW98_ALPHA2 = "OP-PW98-ALPHA2", "Pointwise", OTHER, "alpha2 is 1";
    }
    S70, "003 Constraints for Pointwise Operations for Support Surface 70" {
        OP_PW7_DTYPE_LOGIC = "OP-PW7-DTYPE-LOGIC", "LOGICAL_*", TYPE, "inputs and result are INT32, INT8 or BOOLEAN";
        OP_PW7_DTYPE_OTHER = "OP-PW7-DTYPE-OTHER", "every other operator", PERMISSION, "every type that the surface lists";
        OP_PW7_PREC_LOGIC = "OP-PW7-PREC-LOGIC", "LOGICAL_*", TYPE, "math precision BOOLEAN";
        OP_PW7_PREC_OTHER = "OP-PW7-PREC-OTHER", "every other operator", TYPE, "math precision FLOAT";
        OP_PW7_ALPHA1 = "OP-PW7-ALPHA1", "Pointwise", OTHER, "alpha1 is 1";
        OP_PW7_ALPHA2 = "OP-PW7-ALPHA2", "Pointwise", OTHER, "alpha2 is 1";
        OP_PW7_NO_TDESC = "OP-PW7-NO-TDESC", "BINARY_SELECT", PERMISSION, "allowed, with a predicate of any listed type";
    }
}
