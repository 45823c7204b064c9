//! Memory layout and packing of tensors in device memory.

use crate::support::rule::{LAYOUT, S70, S80, S90, restated, rules};

rules! {
    S90, "003 Support Surface 90, Support Surface of Dimension and Layout for Tensors in g1" {
        S90_MM_G1_LAYOUT = "S90-MM-G1-LAYOUT", "MM g1", LAYOUT, "each input of the mainloop is row-major or column-major";
        S90_MM_G1_PACK = "S90-MM-G1-PACK", "MM g1", restated("S90-MM-G1-LAYOUT"), "the contiguous axis has stride 1";
        S90_CF_G1_LAYOUT = "S90-CF-G1-LAYOUT", "CF g1", LAYOUT, "each input of the mainloop is NHWC";
        S90_CF_G1_PACK = "S90-CF-G1-PACK", "CF g1", LAYOUT, "inputs of the mainloop do not overlap themselves";
        S90_CBF_G1_LAYOUT = "S90-CBF-G1-LAYOUT", "CBF g1", LAYOUT, "each input of the mainloop is NHWC or CHWN";
        S90_CBF_G1_PACK = "S90-CBF-G1-PACK", "CBF g1", LAYOUT, "inputs of the mainloop do not overlap themselves";
        S90_CBD_G1_LAYOUT = "S90-CBD-G1-LAYOUT", "CBD g1", LAYOUT, "each input of the mainloop is NHWC or CHWN";
        S90_CBD_G1_PACK = "S90-CBD-G1-PACK", "CBD g1", LAYOUT, "inputs of the mainloop do not overlap themselves";
    }
    S90, "003 Support Surface 90, Support Surface of Dimension and Layout for Tensors in g2" {
        S90_MM_G2_LAYOUT = "S90-MM-G2-LAYOUT", "MM g2", LAYOUT, "all tensors of g2 are row-major, or all column-major";
        S90_MM_G2_PACK = "S90-MM-G2-PACK", "MM g2", LAYOUT, "no output overlaps itself";
        S90_MM_G2_RED_ROW = "S90-MM-G2-RED-ROW", "MM g2 with Reduction", LAYOUT, "all tensors of g2 are row-major";
        S90_CF_G2_LAYOUT = "S90-CF-G2-LAYOUT", "CF g2", LAYOUT, "all tensors of g2 are NHWC";
        S90_CF_G2_PACK = "S90-CF-G2-PACK", "CF g2", LAYOUT, "tensors of g2 do not overlap themselves";
        S90_CBF_G2_LAYOUT = "S90-CBF-G2-LAYOUT", "CBF g2", LAYOUT, "all tensors of g2 are NHWC";
        S90_CBF_G2_PACK = "S90-CBF-G2-PACK", "CBF g2", LAYOUT, "tensors of g2 do not overlap themselves";
        S90_CBD_G2_LAYOUT = "S90-CBD-G2-LAYOUT", "CBD g2", LAYOUT, "all tensors of g2 are NHWC";
        S90_CBD_G2_PACK = "S90-CBD-G2-PACK", "CBD g2", LAYOUT, "tensors of g2 do not overlap themselves";
    }
    S80, "003 Support Surface 80, Support Surface of Dimension and Layout for Tensors in g1" {
        S80_MM_G1_LAYOUT = "S80-MM-G1-LAYOUT" as S90_MM_G1_LAYOUT;
        S80_MM_G1_PACK = "S80-MM-G1-PACK", "MM g1", restated("S80-MM-G1-LAYOUT"), "the contiguous axis has stride 1";
        S80_CF_G1_LAYOUT = "S80-CF-G1-LAYOUT" as S90_CF_G1_LAYOUT;
        S80_CF_G1_PACK = "S80-CF-G1-PACK" as S90_CF_G1_PACK;
    }
    S80, "003 Support Surface 80, Support Surface of Dimension and Layout for Tensors in g2" {
        S80_MM_G2_LAYOUT = "S80-MM-G2-LAYOUT" as S90_MM_G2_LAYOUT;
        S80_MM_G2_PACK = "S80-MM-G2-PACK" as S90_MM_G2_PACK;
        S80_MM_G2_RED_ROW = "S80-MM-G2-RED-ROW" as S90_MM_G2_RED_ROW;
        S80_CF_G2_LAYOUT = "S80-CF-G2-LAYOUT" as S90_CF_G2_LAYOUT;
        S80_CF_G2_PACK = "S80-CF-G2-PACK" as S90_CF_G2_PACK;
    }
    S70, "003 Support Surface 70, Support Surface of Dimension and Layout for Tensors in g1" {
        S70_MM_G1_LAYOUT = "S70-MM-G1-LAYOUT", "MM g1", LAYOUT, "each input of the mainloop is fully packed row-major or fully packed column-major";
        S70_MM_G1A_SAME = "S70-MM-G1A-SAME", "MM g1A", LAYOUT, "all inputs of g1A have one layout";
        S70_MM_INT8_LAYOUT = "S70-MM-INT8-LAYOUT", "MM g1, INT8", LAYOUT, "inputs of g1A are row-major and B is column-major";
        S70_CF_G1_LAYOUT = "S70-CF-G1-LAYOUT", "CF g1", LAYOUT, "each input of the mainloop is fully packed NHWC";
        S70_CBF_G1_LAYOUT = "S70-CBF-G1-LAYOUT", "CBF g1", LAYOUT, "each input of the mainloop is fully packed NHWC";
        S70_CBD_G1_LAYOUT = "S70-CBD-G1-LAYOUT", "CBD g1", LAYOUT, "each input of the mainloop is fully packed NHWC";
    }
    S70, "003 Support Surface 70, Support Surface of Dimension and Layout for Tensors in g2" {
        S70_MM_G2_LAYOUT = "S70-MM-G2-LAYOUT", "MM g2", LAYOUT, "all tensors of g2 are fully packed row-major, or all fully packed column-major";
        S70_MM_G2_RED_ROW = "S70-MM-G2-RED-ROW" as S90_MM_G2_RED_ROW;
        S70_CF_G2_LAYOUT = "S70-CF-G2-LAYOUT", "CF g2", LAYOUT, "all tensors of g2 are fully packed NHWC";
        S70_CBF_G2_LAYOUT = "S70-CBF-G2-LAYOUT", "CBF g2", LAYOUT, "all tensors of g2 are fully packed NHWC";
        S70_CBD_G2_LAYOUT = "S70-CBD-G2-LAYOUT", "CBD g2", LAYOUT, "all tensors of g2 are fully packed NHWC";
        S70_PW_3D_LAYOUT = "S70-PW-3D-LAYOUT", "PW, 3-D", LAYOUT, "all tensors are fully packed row-major, or all fully packed column-major";
        S70_PW_45D_LAYOUT = "S70-PW-45D-LAYOUT", "PW, 4-D or 5-D", LAYOUT, "all tensors are fully packed NHWC";
    }
}
