//! I/O and intermediate data types.

use crate::support::rule::{ARCH, DEFINITION, S70, S80, S90, TYPE, rules};

rules! {
    S90, "003 Support Surface 90, I/O and Intermediate Data Type" {
        S90_DTYPE_INPUT = "S90-DTYPE-INPUT", "graph inputs", TYPE, "one of FLOAT, INT32, HALF, BFLOAT16, INT8, FP8_E4M3, FP8_E5M2";
        S90_DTYPE_CORE_IN = "S90-DTYPE-CORE-IN", "core operands", TYPE, "one of FLOAT, HALF, BFLOAT16, INT8, FP8_E4M3, FP8_E5M2";
        S90_DTYPE_OUTPUT = "S90-DTYPE-OUTPUT", "graph outputs", TYPE, "one of INT64, FLOAT, INT32, HALF, BFLOAT16, INT8, UINT8, FP8_E4M3, FP8_E5M2";
        S90_DTYPE_RED_OUT = "S90-DTYPE-RED-OUT", "g2 Reduction", TYPE, "the result of a reduction is FLOAT";
        S90_DTYPE_VIRTUAL = "S90-DTYPE-VIRTUAL", "virtual tensors", TYPE, "one of FLOAT, INT32, HALF, BFLOAT16, INT8, FP8_E4M3, FP8_E5M2";
        S90_VIRTUAL_OBEYED = "S90-VIRTUAL-OBEYED", "virtual tensors", DEFINITION, "values are rounded to the declared type although never stored; FLOAT is recommended";
        S90_NO_BOOLEAN = "S90-NO-BOOLEAN", "all tensors", TYPE, "no tensor is BOOLEAN";
    }
    S80, "003 Support Surface 80, I/O and Intermediate Data Type" {
        S80_DTYPE_INPUT = "S80-DTYPE-INPUT" as S90_DTYPE_INPUT;
        S80_DTYPE_CORE_IN = "S80-DTYPE-CORE-IN" as S90_DTYPE_CORE_IN;
        S80_DTYPE_CORE_FP8_CC = "S80-DTYPE-CORE-FP8-CC", "core operands", ARCH, "FP8 operands on compute capability 8.9 only";
        S80_DTYPE_OUTPUT = "S80-DTYPE-OUTPUT" as S90_DTYPE_OUTPUT;
        S80_DTYPE_RED_OUT = "S80-DTYPE-RED-OUT" as S90_DTYPE_RED_OUT;
        S80_DTYPE_VIRTUAL = "S80-DTYPE-VIRTUAL" as S90_DTYPE_VIRTUAL;
        S80_VIRTUAL_OBEYED = "S80-VIRTUAL-OBEYED" as S90_VIRTUAL_OBEYED;
        S80_DTYPE_FP8_CC = "S80-DTYPE-FP8-CC", "all tensors", ARCH, "FP8 tensors on compute capability 8.9 and 9.0 only";
        S80_NO_BOOLEAN = "S80-NO-BOOLEAN" as S90_NO_BOOLEAN;
    }
    S70, "003 Support Surface 70, I/O and Intermediate Data Type" {
        S70_DTYPE_INPUT = "S70-DTYPE-INPUT" as S90_DTYPE_INPUT;
        S70_DTYPE_CORE_IN = "S70-DTYPE-CORE-IN", "core operands", TYPE, "one of FLOAT, HALF, BFLOAT16, INT8";
        S70_DTYPE_OUTPUT = "S70-DTYPE-OUTPUT", "graph outputs", TYPE, "one of INT64, FLOAT, INT32, HALF, BFLOAT16, INT8, UINT8, FP8_E4M3, FP8_E5M2, BOOLEAN";
        S70_DTYPE_RED_OUT = "S70-DTYPE-RED-OUT" as S90_DTYPE_RED_OUT;
        S70_DTYPE_VIRTUAL = "S70-DTYPE-VIRTUAL", "virtual tensors", TYPE, "one of FLOAT, INT32, HALF, BFLOAT16, INT8, FP8_E4M3, FP8_E5M2, BOOLEAN";
        S70_VIRTUAL_OBEYED = "S70-VIRTUAL-OBEYED" as S90_VIRTUAL_OBEYED;
        S70_DTYPE_FP8_PW_ONLY = "S70-DTYPE-FP8-PW-ONLY", "all tensors", TYPE, "FP8 tensors in pure pointwise graphs only";
        S70_DTYPE_BOOL_NOT_INPUT = "S70-DTYPE-BOOL-NOT-INPUT", "graph inputs", TYPE, "a BOOLEAN tensor is produced inside the graph";
    }
}
