//! Alignment of tensors in device memory.

use crate::support::rule::{LAYOUT, PERMISSION, S70, S80, S90, rules};

rules! {
    S90, "003 Support Surface 90, Mainloop Fusions" {
        S90_G1_ALIGN_128 = "S90-G1-ALIGN-128", "g1", LAYOUT, "every input of the mainloop is aligned to 128 bits";
        S90_G1_ALIGN_GROUP = "S90-G1-ALIGN-GROUP", "CF, CBF, CBD g1, grouped", LAYOUT, "each group is aligned to 128 bits";
    }
    S90, "003 Support Surface 90, Epilogue Fusion" {
        S90_G2_ALIGN_8 = "S90-G2-ALIGN-8", "g2", PERMISSION, "tensors of g2 need byte alignment only";
        S90_G2_ALIGN_GROUP = "S90-G2-ALIGN-GROUP", "CF, CBF, CBD g2, grouped", PERMISSION, "groups in g2 need byte alignment only";
    }
    S80, "003 Support Surface 80, Mainloop Fusions" {
        S80_G1_ALIGN_32 = "S80-G1-ALIGN-32", "g1", LAYOUT, "every input of the mainloop is aligned to 32 bits";
        S80_CF_ALIGN_8 = "S80-CF-ALIGN-8", "CF, empty g1", PERMISSION, "X and W need byte alignment only";
        S80_G1_ALIGN_GROUP = "S80-G1-ALIGN-GROUP", "CF g1, grouped", LAYOUT, "each group is aligned to 32 bits";
    }
    S80, "003 Support Surface 80, Epilogue Fusion" {
        S80_G2_ALIGN_8 = "S80-G2-ALIGN-8" as S90_G2_ALIGN_8;
        S80_G2_ALIGN_GROUP = "S80-G2-ALIGN-GROUP", "CF g2, grouped", PERMISSION, "groups in g2 need byte alignment only";
    }
    S70, "003 Support Surface 70, Mainloop Fusions" {
        S70_G1_ALIGN_32 = "S70-G1-ALIGN-32" as S80_G1_ALIGN_32;
    }
    S70, "003 Support Surface 70, Epilogue Fusion" {
        S70_G2_ALIGN_32 = "S70-G2-ALIGN-32", "g2", LAYOUT, "inputs and outputs of g2 are aligned to 32 bits";
        S70_G2_ALIGN_PWOUT_8 = "S70-G2-ALIGN-PWOUT-8", "g2 Pointwise outputs", LAYOUT, "outputs of Pointwise operations are aligned to 8 bits";
    }
}
