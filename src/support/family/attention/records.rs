//! Documented rules of fused flash attention (`docs/spec/engines.md` 3.5).

use super::{FLASH_BPROP, FLASH_FPROP, FP8_FLASH_BPROP, FP8_FLASH_FPROP};
use crate::support::rule::{ARCH, LAYOUT, PATTERN, PERMISSION, SHAPE, SurfaceId, TYPE, rules};

const FPROP_ALONE: &[SurfaceId] = &[FLASH_FPROP];
const FP8_ALONE: &[SurfaceId] = &[FP8_FLASH_FPROP];
const FP8_BPROP_ALONE: &[SurfaceId] = &[FP8_FLASH_BPROP];
/// The same in FP8.
const FP8_BOTH: &[SurfaceId] = &[FP8_FLASH_FPROP, FP8_FLASH_BPROP];
const BPROP_ALONE: &[SurfaceId] = &[FLASH_BPROP];
/// Limits of tensors that both passes have carry over (`FAB-CARRY`).
const BOTH: &[SurfaceId] = &[FLASH_FPROP, FLASH_BPROP];

rules! {
    FPROP_ALONE, "003 Fused Flash Attention fprop" {
        FAF_FORM = "FAF-FORM", "graph", PATTERN, "Matmul, pointwise operations on scores and masks of them, Softmax, dropout, Matmul, and nothing else";
        FAF_SCALE = "FAF-SCALE", "scores", PERMISSION, "scores may be multiplied by a scale";
        FAF_BIAS = "FAF-BIAS", "scores", PERMISSION, "a bias may be added to scores";
        FAF_CAUSAL = "FAF-CAUSAL", "scores", PERMISSION, "a causal mask keeps the keys up to each query";
        FAF_PAD = "FAF-PAD", "scores", PERMISSION, "a padding mask keeps what lies within the lengths of the sequences";
        FAF_SWA = "FAF-SWA", "scores", PERMISSION, "a sliding window keeps the keys of a band, with or without the causal mask";
        FAF_ACT = "FAF-ACT", "scores", PERMISSION, "scores may go through activations: a soft cap is DIV, TANH_FWD, MUL";
        FAF_USERMASK = "FAF-USERMASK", "scores", PERMISSION, "scores may be multiplied by a tensor of the caller's";
        FAF_DROP = "FAF-DROP", "probabilities", PERMISSION, "probabilities may be dropped by a random mask, and what is left scaled";
        FAF_DROPMASK = "FAF-DROPMASK", "probabilities", PERMISSION, "probabilities may be scaled and multiplied by a mask of the caller's";
        FAF_MULTI = "FAF-MULTI", "scores", PERMISSION, "several of these together, or none";
        FAF_K_HEADS = "FAF-K-HEADS", "K", PERMISSION, "K may have a divisor of the heads of Q";
        FAF_V_HEADS = "FAF-V-HEADS", "V", PERMISSION, "V may have a divisor of the heads of Q";
        FAF_PAGE_CONT = "FAF-PAGE-CONT", "K, V", PERMISSION, "K and V may be loaded from pages of a container, as many as there are, of any batch";
        FAF_CC = "FAF-CC", "graph", ARCH, "compute capability 8.0, 8.6, 8.7, 8.9 or 9.0: Ampere and later";
    }
    BOTH, "003 Limitations For The Input And The Output Non-Virtual Tensors" {
        FAF_QKV_TYPE = "FAF-QKV-TYPE", "Q, K, V", TYPE, "Q, K and V are all HALF or all BFLOAT16";
        FAF_Q_D = "FAF-Q-D", "Q", SHAPE, "the head size of Q is a multiple of 8, at most 128, on Hopper 256";
        FAF_V_D = "FAF-V-D", "V", SHAPE, "the head size of V is a multiple of 8, at most 128, on Hopper 256";
        FAF_QK_STRIDE = "FAF-QK-STRIDE", "Q, K", LAYOUT, "the axis that Q and K are contracted along has stride 1";
        FAF_V_STRIDE = "FAF-V-STRIDE", "V", LAYOUT, "the head size of V has stride 1";
        FAF_STATS_TYPE = "FAF-STATS-TYPE", "Stats", TYPE, "statistics of the softmax are FLOAT";
        FAF_STATS_LAYOUT = "FAF-STATS-LAYOUT", "Stats", LAYOUT, "statistics of the softmax are row-major";
        FAF_O_TYPE = "FAF-O-TYPE", "O", TYPE, "O is HALF or BFLOAT16";
        FAF_O_STRIDE = "FAF-O-STRIDE", "O", LAYOUT, "the head size of O has stride 1";
        FAF_SCALE_TYPE = "FAF-SCALE-TYPE", "scale", TYPE, "a number that scores are multiplied by is HALF, BFLOAT16 or FLOAT";
        FAF_KV_SOURCE = "FAF-KV-SOURCE", "K, V", PATTERN, "K and V are tensors in memory, or loaded from pages that are";
    }
    FPROP_ALONE, "003 Limitations For The Input And The Output Non-Virtual Tensors" {
        FAF_PAGE_POW2 = "FAF-PAGE-POW2", "containers", SHAPE, "the rows of a page are a power of two";
        FAF_PAGE_TABLE = "FAF-PAGE-TABLE", "page tables", SHAPE, "a page table has a page for all rows of each sequence, and no more";
        FAF_PAGE_TYPE = "FAF-PAGE-TYPE", "page tables", TYPE, "page tables are INT32";
    }
    BPROP_ALONE, "003 Fused Flash Attention bprop" {
        FAB_FORM = "FAB-FORM", "graph", PATTERN, "the backward pass of an attention, and nothing else";
        FAB_OPTS = "FAB-OPTS", "scores", PERMISSION, "scores may be what they may be in the forward pass";
        FAB_GQA = "FAB-GQA", "dK, dV", PERMISSION, "heads of Q that share one of K and V add up in its gradients";
        FAB_CC = "FAB-CC", "graph", ARCH, "compute capability 8.0, 8.6, 8.7, 8.9 or 9.0: Ampere and later";
    }
    BPROP_ALONE, "003 Limitations For The bprop Specific Tensors" {
        FAB_DQKV_TYPE = "FAB-DQKV-TYPE", "dQ, dK, dV", TYPE, "dQ, dK and dV are HALF or BFLOAT16";
        FAB_DQKV_STRIDE = "FAB-DQKV-STRIDE", "dQ, dK, dV", LAYOUT, "the head size of dQ, dK and dV has stride 1";
        FAB_DO_TYPE = "FAB-DO-TYPE", "dO", TYPE, "dO is HALF or BFLOAT16";
        FAB_DO_STRIDE = "FAB-DO-STRIDE", "dO", LAYOUT, "the head size of dO has stride 1";
        FAB_DO_LAYOUT = "FAB-DO-LAYOUT", "dO", LAYOUT, "dO lies as O does";
    }
    FP8_ALONE, "003 Fused Flash Attention fprop" {
        F8F_FORM = "F8F-SUBSET", "graph", PATTERN, "an attention in FP8, with what scales its values, and nothing else";
        F8F_PRE = "F8F-PRE", "scores", PATTERN, "scores in FP8 are multiplied by numbers and masked by the causal mask, or by none";
        F8F_NODROP = "F8F-NODROP", "probabilities", PATTERN, "probabilities in FP8 are not dropped";
        F8F_CC = "F8F-CC", "graph", ARCH, "compute capability 9.0: Hopper";
        F8F_HEADS = "F8F-HEADS", "K, V", PERMISSION, "K and V may have divisors of the heads of Q";
    }
    FP8_ALONE, "003 Scaling and Descaling" {
        F8_MANDATORY = "F8-MANDATORY", "graph", PATTERN, "what scales and descales is there: factors of probabilities and of O, and their largest magnitudes";
    }
    FP8_BOTH, "003 Limitations For The Input And The Output Non-Virtual Tensors for FP8 Flash Attention" {
        F8F_TYPE = "F8F-TYPE", "Q, K, V", TYPE, "Q, K and V are all FP8_E4M3 or all FP8_E5M2";
        F8F_Q_D = "F8F-Q-D", "Q", SHAPE, "the head size of Q is a multiple of 16, at most 256";
        F8F_V_D = "F8F-V-D", "V", SHAPE, "the head size of V is a multiple of 16, at most 256";
        F8F_STRIDES = "F8F-STRIDES", "Q, K, V", LAYOUT, "head sizes of Q, K and V have stride 1";
        F8F_STATS = "F8F-STATS", "Stats", TYPE, "statistics of the softmax are FLOAT and row-major";
        F8F_O = "F8F-O", "O", TYPE, "O is FP8_E4M3 or FP8_E5M2, and its head size has stride 1";
        F8F_FACTORS = "F8F-FACTORS", "factors", TYPE, "factors of scores, probabilities and O are FLOAT numbers";
        F8F_AMAX = "F8F-AMAX", "largest magnitudes", TYPE, "largest magnitudes are FLOAT numbers";
    }
    FP8_BPROP_ALONE, "003 Fused Flash Attention bprop" {
        F8B_FORM = "F8B-FORM", "graph", PATTERN, "the backward pass of an attention in FP8, and nothing else";
        F8B_PRE = "F8B-PRE", "scores", PATTERN, "scores in FP8 are masked by the causal mask, or by none; they have no bias and no sink, and nothing is dropped";
        F8B_CC = "F8B-CC", "graph", ARCH, "compute capability 9.0: Hopper";
        F8B_SCALES = "F8B-SCALES", "graph", PATTERN, "what scales and descales is there: factors of heads, of probabilities, of gradients, and the largest magnitudes of these";
    }
    FP8_BPROP_ALONE, "003 Limitations For The FP8 Fused Flash Attention bprop Specific Tensors" {
        F8B_DQKV_TYPE = "F8B-DQKV-TYPE", "dQ, dK, dV", TYPE, "dQ, dK and dV are FP8_E4M3 or FP8_E5M2";
        F8B_DQKV_D = "F8B-DQKV-D", "dQ, dK, dV", SHAPE, "the head size of dQ, dK and dV is 128";
        F8B_DQKV_STRIDE = "F8B-DQKV-STRIDE", "dQ, dK, dV", LAYOUT, "the head size of dQ, dK and dV has stride 1";
        F8B_DO_TYPE = "F8B-DO-TYPE", "dO", TYPE, "dO is FP8_E4M3 or FP8_E5M2";
        F8B_DO_D = "F8B-DO-D", "dO", SHAPE, "the head size of dO is 128";
        F8B_DO_STRIDE = "F8B-DO-STRIDE", "dO", LAYOUT, "the head size of dO has stride 1";
        F8B_DO_LAYOUT = "F8B-DO-LAYOUT", "dO", LAYOUT, "dO lies as O does";
    }
}
