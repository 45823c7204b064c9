//! Compute capability, generic limitations and variations.

use crate::support::rule::{ARCH, OTHER, PATTERN, PERMISSION, S70, S80, S90, TYPE, restated, rules};

rules! {
    S90, "003 Support Surface 90, Compute Capability" {
        S90_CC = "S90-CC", "graph", ARCH, "compute capability 9.0";
    }
    S90, "003 Support Surface 90, Generic Limitations" {
        S90_LIM_CBD_STRIDE = "S90-LIM-CBD-STRIDE", "CBD core", OTHER, "backward data has filter stride 1 on every axis";
        S90_LIM_NO_PW = "S90-LIM-NO-PW", "PW", PATTERN, "a matmul or convolution in the graph";
    }
    S90, "003 Support Surface 90, Advanced Matmul/Convolution Variations" {
        S90_MIXED = "S90-MIXED", "MM, CF, CBD", PERMISSION, "g1 may convert an operand to the type the core computes on";
        S90_MIXED_NO_CBF = "S90-MIXED-NO-CBF", "CBF g1", TYPE, "no operation of g1 changes the type of a backward-filter operand";
        S90_GROUP = "S90-GROUP", "CF, CBF, CBD", PERMISSION, "convolutions may be grouped";
    }
    S90, "003 Support Surface 90, dimension tables" {
        S90_PW_NONE = "S90-PW-NONE", "PW", restated("S90-LIM-NO-PW"), "pure pointwise graphs are not supported";
    }
    S80, "003 Support Surface 80, Compute Capability" {
        S80_CC = "S80-CC", "graph", ARCH, "compute capability 8.0, 8.6, 8.7, 8.9 or 9.0";
    }
    S80, "003 Support Surface 80, Generic Limitations" {
        S80_LIM_NO_CBF = "S80-LIM-NO-CBF", "CBF", PATTERN, "no backward-filter convolution";
        S80_LIM_NO_CBD = "S80-LIM-NO-CBD", "CBD", PATTERN, "no backward-data convolution";
        S80_LIM_NO_PW = "S80-LIM-NO-PW" as S90_LIM_NO_PW;
    }
    S80, "003 Support Surface 80, Advanced Matmul/Convolution Variations" {
        S80_MIXED = "S80-MIXED", "MM, CF", PERMISSION, "g1 may convert an operand to the type the core computes on";
        S80_GROUP = "S80-GROUP", "CF", PERMISSION, "forward convolution may be grouped";
    }
    S80, "003 Support Surface 80, dimension tables" {
        S80_CBF_NONE = "S80-CBF-NONE", "CBF", restated("S80-LIM-NO-CBF"), "backward-filter convolution is not supported";
        S80_CBD_NONE = "S80-CBD-NONE", "CBD", restated("S80-LIM-NO-CBD"), "backward-data convolution is not supported";
        S80_PW_NONE = "S80-PW-NONE", "PW", restated("S80-LIM-NO-PW"), "pure pointwise graphs are not supported";
    }
    S70, "003 Support Surface 70, Compute Capability" {
        S70_CC = "S70-CC", "graph", ARCH, "compute capability 7.0, 7.2, 7.5, 8.0, 8.6, 8.7, 8.9 or 9.0";
    }
    S70, "003 Summary of Supported Features of Each Support Surface" {
        S70_NO_MIXED = "S70-NO-MIXED", "MM, CF, CBF, CBD g1", TYPE, "g1 leaves the type of its operand as it is";
        S70_NO_GROUP = "S70-NO-GROUP", "CF, CBF, CBD core", PATTERN, "convolutions have one group";
    }
}
