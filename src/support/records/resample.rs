//! Constraints of resampling (8.6, 8.7); surface 70 only.

use crate::support::rule::{DEFINITION, LAYOUT, OTHER, PADDING, PATTERN, S70, SHAPE, TYPE, WELL_FORMED, rules};

rules! {
    S70, "003 ResampleFwd" {
        OP_RF_LAYOUT = "OP-RF-LAYOUT", "ResampleFwd", LAYOUT, "tensors are NHWC, NDHWC, NCHW or NCDHW";
        OP_RF_SPATIAL = "OP-RF-SPATIAL", "ResampleFwd", SHAPE, "two or three spatial axes";
        OP_RF_RANK = "OP-RF-RANK", "ResampleFwd", SHAPE, "X has rank 4 or 5";
        OP_RF_NO_BOOL = "OP-RF-NO-BOOL", "ResampleFwd", TYPE, "a type other than BOOLEAN";
        OP_RF_IDX_DIMS = "OP-RF-IDX-DIMS", "ResampleFwd", WELL_FORMED, "the index tensor has the dims of Y";
        OP_RF_NCHW_NO_UP = "OP-RF-NCHW-NO-UP", "ResampleFwd, NCHW", OTHER, "no upsampling";
        OP_RF_NCHW_NO_I64 = "OP-RF-NCHW-NO-I64", "ResampleFwd, NCHW", TYPE, "an index of another type than INT64";
        OP_RF_NCHW_PAD = "OP-RF-NCHW-PAD", "ResampleFwd, NCHW", PADDING, "padding is the same before and after";
        OP_RF_MODES_DOWN = "OP-RF-MODES-DOWN", "ResampleFwd, downsampling", OTHER, "AVGPOOL_INCLUDE_PADDING, AVGPOOL_EXCLUDE_PADDING and MAXPOOL with strides of 1 or more, BILINEAR with smaller ones";
    }
    S70, "003 ResampleFwd, Specific Restrictions for the Downsampling Modes" {
        OP_RF_AVG_PAD = "OP-RF-AVG-PAD", "ResampleFwd, average", PADDING, "padding mode ZERO_PAD";
        OP_RF_MAX_PAD = "OP-RF-MAX-PAD", "ResampleFwd, MAXPOOL", PADDING, "padding mode NEG_INF_PAD";
        OP_RF_DOWN_ALPHA = "OP-RF-DOWN-ALPHA", "ResampleFwd, downsampling", OTHER, "alpha = 1";
        OP_RF_DOWN_BETA = "OP-RF-DOWN-BETA", "ResampleFwd, downsampling", OTHER, "beta = 0";
        OP_RF_DOWN_COMP = "OP-RF-DOWN-COMP", "ResampleFwd, downsampling", TYPE, "compute type FLOAT";
    }
    S70, "003 ResampleFwd, Specific Restrictions for Upsampling Mode BILINEAR" {
        OP_RF_NO_NEAREST = "OP-RF-NO-NEAREST", "ResampleFwd, NEAREST", OTHER, "a mode other than NEAREST";
        OP_RF_BIL_DIMS = "OP-RF-BIL-DIMS", "ResampleFwd, BILINEAR", SHAPE, "spatial extents of Y are twice those of X";
        OP_RF_BIL_PRE = "OP-RF-BIL-PRE", "ResampleFwd, BILINEAR", PADDING, "pre-padding 1/2";
        OP_RF_BIL_POST = "OP-RF-BIL-POST", "ResampleFwd, BILINEAR", PADDING, "post-padding 1";
        OP_RF_BIL_STRIDE = "OP-RF-BIL-STRIDE", "ResampleFwd, BILINEAR", OTHER, "stride 1/2";
        OP_RF_BIL_WIN = "OP-RF-BIL-WIN", "ResampleFwd, BILINEAR", OTHER, "window 2";
        OP_RF_BIL_DTYPE = "OP-RF-BIL-DTYPE", "ResampleFwd, BILINEAR", TYPE, "X and Y are FLOAT";
        OP_RF_BIL_COMP = "OP-RF-BIL-COMP", "ResampleFwd, BILINEAR", TYPE, "compute type FLOAT";
        OP_RF_BIL_ALPHA = "OP-RF-BIL-ALPHA", "ResampleFwd, BILINEAR", OTHER, "alpha = 1";
        OP_RF_BIL_BETA = "OP-RF-BIL-BETA", "ResampleFwd, BILINEAR", OTHER, "beta = 0";
        OP_RF_BIL_PADMODE = "OP-RF-BIL-PADMODE", "ResampleFwd, BILINEAR", PADDING, "padding mode EDGE_VAL_PAD";
    }
    S70, "003 ResampleFwd; 003 ResampleBwd" {
        OP_RF_FREE = "OP-RF-FREE", "resample", OTHER, "whole numbers for the window, stride and padding of pooling; other parameters that no rule names are free";
    }
    S70, "003 Resampling Index Tensor Dump for Training" {
        OP_IDX_MODE = "OP-IDX-MODE", "index tensor", PATTERN, "MAXPOOL only";
        OP_IDX_VALUE = "OP-IDX-VALUE", "index tensor", DEFINITION, "row-major position of the maximum in its window, padded positions counted";
        OP_IDX_TIE = "OP-IDX-TIE", "index tensor", DEFINITION, "the first maximum in scan order wins";
        OP_IDX_SIZE = "OP-IDX-SIZE", "index tensor", TYPE, "its type holds the largest window position";
    }
    S70, "003 ResampleBwd" {
        OP_RB_LAYOUT = "OP-RB-LAYOUT", "ResampleBwd", LAYOUT, "tensors are NHWC, NDHWC, NCHW or NCDHW";
        OP_RB_SPATIAL = "OP-RB-SPATIAL", "ResampleBwd", SHAPE, "two or three spatial axes";
        OP_RB_RANK = "OP-RB-RANK", "ResampleBwd", SHAPE, "DY has rank 4 or 5";
        OP_RB_NHWC_IDX = "OP-RB-NHWC-IDX", "ResampleBwd, NHWC", PATTERN, "MAXPOOL has an index tensor, average modes have none";
        OP_RB_NHWC_IDXDIMS = "OP-RB-NHWC-IDXDIMS", "ResampleBwd, NHWC", WELL_FORMED, "the index tensor has the dims of DY";
        OP_RB_NCHW_XY = "OP-RB-NCHW-XY", "ResampleBwd, NCHW MAXPOOL", PATTERN, "X, Y and DY are given";
        OP_RB_NCHW_NO_I64 = "OP-RB-NCHW-NO-I64", "ResampleBwd, NCHW", TYPE, "an index of another type than INT64";
        OP_RB_MODES = "OP-RB-MODES", "ResampleBwd", OTHER, "mode AVGPOOL_INCLUDE_PADDING, AVGPOOL_EXCLUDE_PADDING or MAXPOOL";
        OP_RB_NO_UP = "OP-RB-NO-UP", "ResampleBwd", OTHER, "no upsampling";
    }
    S70, "003 ResampleBwd, Specific Restrictions for the Backwards Downsampling Modes" {
        OP_RB_AVG_PAD = "OP-RB-AVG-PAD", "ResampleBwd, average", PADDING, "padding mode ZERO_PAD";
        OP_RB_MAX_PAD = "OP-RB-MAX-PAD", "ResampleBwd, MAXPOOL", PADDING, "padding mode NEG_INF_PAD";
        OP_RB_ALPHA = "OP-RB-ALPHA", "ResampleBwd", OTHER, "alpha = 1";
        OP_RB_BETA = "OP-RB-BETA", "ResampleBwd", OTHER, "beta = 0";
        OP_RB_COMP = "OP-RB-COMP", "ResampleBwd", TYPE, "compute type FLOAT";
    }
}
