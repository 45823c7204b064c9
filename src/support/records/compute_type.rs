//! Compute data types, and the core operand types they go with.

use crate::support::rule::{DEFINITION, S70, S80, S90, TYPE, restated, rules};

rules! {
    S90, "003 Support Surface 90, Compute Data Type" {
        S90_CT_PW = "S90-CT-PW", "Pointwise", restated("OP-PW98-PREC-INTOK"), "computed in FLOAT or INT32";
        S90_CT_RED = "S90-CT-RED", "Reduction", TYPE, "computed in FLOAT";
    }
    S90, "003 Support Surface 90, Combinatory Support Surface" {
        S90_COMB_INT8 = "S90-COMB-INT8", "core", TYPE, "INT8 operands compute in INT32";
        S90_COMB_FP8 = "S90-COMB-FP8", "core", TYPE, "FP8 operands compute in FLOAT or FAST_FLOAT_FOR_FP8";
        S90_COMB_HALF = "S90-COMB-HALF", "core", TYPE, "HALF operands compute in FLOAT or HALF";
        S90_COMB_BF16 = "S90-COMB-BF16", "core", TYPE, "BFLOAT16 operands compute in FLOAT";
        S90_COMB_FLOAT = "S90-COMB-FLOAT", "core", TYPE, "FLOAT operands compute in FLOAT: no engine takes another type, in which they would be other values (A-64)";
    }
    S80, "003 Support Surface 80, Compute Data Type" {
        S80_CT_PW = "S80-CT-PW", "Pointwise", restated("OP-PW98-PREC-INTOK"), "computed in FLOAT or INT32";
        S80_CT_RED = "S80-CT-RED" as S90_CT_RED;
    }
    S80, "003 Support Surface 80, Combinatory Support Surface" {
        S80_COMB_INT8 = "S80-COMB-INT8" as S90_COMB_INT8;
        S80_COMB_FP8 = "S80-COMB-FP8" as S90_COMB_FP8;
        S80_COMB_HALF = "S80-COMB-HALF" as S90_COMB_HALF;
        S80_COMB_BF16 = "S80-COMB-BF16" as S90_COMB_BF16;
        S80_COMB_FLOAT = "S80-COMB-FLOAT" as S90_COMB_FLOAT;
    }
    S70, "003 Support Surface 70, Compute Data Type" {
        S70_CT_PW = "S70-CT-PW", "Pointwise", restated("OP-PW7-PREC-OTHER"), "computed in FLOAT or BOOLEAN";
        S70_CT_RED = "S70-CT-RED" as S90_CT_RED;
    }
    S70, "003 Support Surface 70, Combinatory Support Surface" {
        S70_COMB_INT8 = "S70-COMB-INT8", "core", TYPE, "INT8 operands compute in INT32; not for backward convolutions";
        S70_COMB_HALF = "S70-COMB-HALF" as S90_COMB_HALF;
        S70_COMB_HALF_DUP = "S70-COMB-HALF-DUP", "core", DEFINITION, "a second HALF row limited to compute capability 8.9; void (A-01)";
        S70_COMB_BF16 = "S70-COMB-BF16", "core", TYPE, "BFLOAT16 operands compute in FLOAT, on compute capability 8.0 or later";
        S70_COMB_FLOAT = "S70-COMB-FLOAT" as S90_COMB_FLOAT;
    }
}
