//! Documented rules of attention whose probabilities lie in memory (`docs/spec/engines.md` 3.3, 3.4, 4.8).

use super::{FP8_FLASH_FPROP, MHA_BPROP, MHA_FPROP};
use crate::support::rule::{
    ARCH, DEFINITION, LAYOUT, NOTE, PATTERN, PERMISSION, SHAPE, SurfaceId, TYPE, WELL_FORMED, rules,
};

const FPROP: &[SurfaceId] = &[MHA_FPROP];
const BPROP: &[SurfaceId] = &[MHA_BPROP];
const BOTH: &[SurfaceId] = &[MHA_FPROP, MHA_BPROP];
const FP8: &[SurfaceId] = &[FP8_FLASH_FPROP];

rules! {
    FPROP, "003 Fused Attention fprop" {
        MHAF_G3 = "MHAF-G3", "K", PERMISSION, "K may be multiplied by a number before it is by Q";
        MHAF_G4 = "MHAF-G4", "scores", PATTERN, "between the products scores are scaled and biased, masked by padding and the causal mask, go through a softmax and are dropped, in this order, each of which may be left out";
        MHAF_S_STORE = "MHAF-S-STORE", "S", PERMISSION, "the last of softmax and dropout may store S, which the backward pass reads";
        MHAF_S_REORDER = "MHAF-S-REORDER", "S", LAYOUT, "S that is stored is reordered as F16x16";
        MHAF_USERMASK = "MHAF-USERMASK", "mask", TYPE, "a mask of the caller's that probabilities are multiplied by is HALF or BFLOAT16";
    }
    FPROP, "003 Limitations Of Mha-fprop Fusions" {
        MHAF_MM_COMP = "MHAF-MM-COMP", "products", TYPE, "products are computed in FLOAT";
        MHAF_MM_IN = "MHAF-MM-IN", "products", TYPE, "what is multiplied is HALF or BFLOAT16";
        MHAF_MM_OUT = "MHAF-MM-OUT", "products", TYPE, "products are HALF, BFLOAT16 or FLOAT";
        MHAF_PW_COMP = "MHAF-PW-COMP", "scores", TYPE, "pointwise operations are computed in FLOAT";
        MHAF_RED = "MHAF-RED", "scores", TYPE, "rows of FLOAT are reduced, in FLOAT and to FLOAT";
        MHAF_RNG_Y = "MHAF-RNG-Y", "random numbers", TYPE, "random numbers are FLOAT";
        MHAF_RNG_DIST = "MHAF-RNG-DIST", "random numbers", PATTERN, "random numbers are of the distribution BERNOULLI";
        MHAF_RANK = "MHAF-RANK", "io", SHAPE, "tensors have four axes, the first two of which are batches";
        MHAF_K64 = "MHAF-K64", "Q", SHAPE, "heads of Q and K have 64 elements";
        MHAF_MN512 = "MHAF-MN512", "Q, K", SHAPE, "there are at most 512 queries, and at most 512 keys";
        MHAF_SEQ_INF = "MHAF-SEQ-INF", "Q, K", PERMISSION, "where nothing is stored for a backward pass any number of queries and keys will do";
        MHAF_SEQ_TRAIN = "MHAF-SEQ-TRAIN", "Q, K", SHAPE, "where S is stored queries and keys are multiples of 64";
        MHAF_STRIDE_QVO = "MHAF-STRIDE-QVO", "Q, V, O", LAYOUT, "the last axis of Q, V and O has stride 1";
        MHAF_STRIDE_K = "MHAF-STRIDE-K", "K", LAYOUT, "K is multiplied transposed: its second last axis has stride 1";
    }
    BOTH, "project" {
        MHAF_CC = "MHAF-CC", "graph", ARCH, "compute capability 8.0, 8.6, 8.7, 8.9 or 9.0: Ampere and later";
    }
    BPROP, "003 Fused Attention bprop" {
        MHAB_FIXED = "MHAB-FIXED", "graph", PATTERN, "g5, g6 and g7 are fixed: probabilities stripped of their signs, the gradient of the softmax with what its mask drops, and a transpose";
        MHAB_MASK = "MHAB-MASK", "dP", PERMISSION, "gradients of scores may be masked by padding and the causal mask, or by a mask of the caller's";
        MHAB_DBIAS = "MHAB-DBIAS", "dBias", PERMISSION, "gradients of scores may be added up over the batches";
        MHAB_G7 = "MHAB-G7", "dP", WELL_FORMED, "g7 exchanges queries and keys of dP";
        MHAB_PAIR = "MHAB-PAIR", "S", DEFINITION, "S is what Mha-fprop stored; a flash backward pass has none";
    }
    BPROP, "003 Limitations Of Mha-bprop Fusions" {
        MHAB_MM_COMP = "MHAB-MM-COMP", "products", TYPE, "products are computed in FLOAT";
        MHAB_MM_IN = "MHAB-MM-IN", "products", TYPE, "what is multiplied is HALF or BFLOAT16";
        MHAB_MM_OUT = "MHAB-MM-OUT", "products", TYPE, "products are HALF, BFLOAT16 or FLOAT";
        MHAB_PW = "MHAB-PW", "g5, g6", TYPE, "pointwise operations are computed in FLOAT";
        MHAB_RED = "MHAB-RED", "g6", TYPE, "values of FLOAT are reduced, in FLOAT and to FLOAT";
        MHAB_RANK = "MHAB-RANK", "io", SHAPE, "tensors have four axes, the first two of which are batches";
        MHAB_K2 = "MHAB-K2", "dO", SHAPE, "heads of dO and V have 64 elements";
        MHAB_K512 = "MHAB-K512", "S", SHAPE, "queries and keys are multiples of 64, at most 512";
        MHAB_STRIDE = "MHAB-STRIDE", "Q, K, V, dO", LAYOUT, "the last axis of Q, K, dO, and of V as it is stored, has stride 1";
        MHAB_REORDER = "MHAB-REORDER", "S, dP", LAYOUT, "S and dP are reordered as F16x16";
    }
    FP8, "003 FP8 Fused Flash Attention" {
        F8PC_LIMIT = "F8PC-LIMIT", "graph", PERMISSION, "a pre-compiled engine takes sequences of at most 512; the runtime engine has no such limit";
        F8PC_PREFER = "F8PC-PREFER", "graph", NOTE, "the runtime engines are preferred to the pre-compiled one";
    }
}
