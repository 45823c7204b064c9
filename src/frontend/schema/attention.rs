//! Attention (sections 6.5 and 6.6). Keys of older versions are rewritten to these before they are read.

use super::{Key, Keys, Kind, NEVER, Schema, key, since};

const ALIGNMENT: Kind = Kind::Default(&["TOP_LEFT", "BOTTOM_RIGHT"]);

/// Of a mask of scores, an operation of this project.
pub(super) const MASK_KEYS: &[Key] =
    &[key("left_bound", Kind::Integer), key("right_bound", Kind::Integer), key("diagonal_alignment", ALIGNMENT)];

/// Of dropout, an operation of this project.
pub(super) const DROPOUT_KEYS: &[Key] = &[key("keep_probability", Kind::Float)];

/// Of the gradients of an attention, an operation of this project.
pub(super) const OPERATION_OPTIONS: &[&str] = &[
    "Attn_scale",
    "Soft_cap",
    "Bias",
    "Alibi_slopes",
    "SEQ_LEN_Q",
    "SEQ_LEN_KV",
    "LEFT_BOUND",
    "RIGHT_BOUND",
    "SINK_TOKEN",
    "Seed",
    "Offset",
    "Dropout_mask",
    "Dropout_scale",
    "Dropout_scale_inv",
    "Descale_Q",
    "Descale_K",
    "Descale_V",
    "Descale_O",
    "Descale_dO",
    "Descale_S",
    "Descale_dP",
    "Scale_S",
    "Scale_dP",
    "Scale_dQ",
    "Scale_dK",
    "Scale_dV",
];
pub(super) const OPERATION_RESULTS: &[&str] =
    &["dBias", "DSINK_TOKEN", "RNG_DUMP", "Amax_dQ", "Amax_dK", "Amax_dV", "Amax_dP"];
pub(super) const OPERATION_KEYS: &[Key] = &[
    key("left_bound", Kind::Integer),
    key("right_bound", Kind::Integer),
    key("diagonal_alignment", ALIGNMENT),
    key("keep_probability", Kind::Float),
    key("alibi_mask", Kind::Flag),
];

const FORWARD_KEYS: &[Key] = &[
    key("alibi_mask", Kind::Flag),
    key("padding_mask", Kind::Flag),
    key("dropout_probability", Kind::Float),
    key("attn_scale_value", Kind::Float),
    key("generate_stats", Kind::OptionalFlag),
    key("left_bound", Kind::Integer),
    key("right_bound", Kind::Integer),
    key("diagonal_alignment", ALIGNMENT),
    key("max_seq_len_kv", Kind::Integer),
    key("mma_core_mode", Kind::DataType),
    // Only COMPOSITE existed before the key did; the library's reader refuses AUTO.
    key("implementation", Kind::Default(&["COMPOSITE", "UNIFIED", "AUTO"])),
    key("unfuse_fma", Kind::Flag),
    key("is_mxfp8", Kind::Flag),
    since(NEVER, "rescale_threshold", Kind::Float),
    since(12800, "max_total_seq_len_q", Kind::Integer),
    since(12800, "max_total_seq_len_kv", Kind::Integer),
    since(13000, "stats_use_log2", Kind::Flag),
];

const BACKWARD_KEYS: &[Key] = &[
    key("alibi_mask", Kind::Flag),
    key("padding_mask", Kind::Flag),
    key("dropout_probability", Kind::Float),
    key("attn_scale_value", Kind::Float),
    key("left_bound", Kind::Integer),
    key("right_bound", Kind::Integer),
    key("diagonal_alignment", ALIGNMENT),
    key("max_total_seq_len_q", Kind::Integer),
    key("max_total_seq_len_kv", Kind::Integer),
    key("is_deterministic_algorithm", Kind::Flag),
];

const FP8_BACKWARD_KEYS: &[Key] = &[
    key("attn_scale_value", Kind::Float),
    key("dropout_probability", Kind::Float),
    key("padding_mask", Kind::Flag),
    key("is_deterministic_algorithm", Kind::Flag),
    key("left_bound", Kind::Integer),
    key("right_bound", Kind::Integer),
    key("diagonal_alignment", ALIGNMENT),
    key("is_mxfp8", Kind::Flag),
    since(13100, "max_total_seq_len_q", Kind::Integer),
    since(13100, "max_total_seq_len_kv", Kind::Integer),
];

const FORWARD_OPTIONS: &[&str] = &[
    "Attn_scale",
    "Bias",
    "SEQ_LEN_Q",
    "SEQ_LEN_KV",
    "Seed",
    "Offset",
    "Dropout_mask",
    "Dropout_scale",
    "Page_table_K",
    "Page_table_V",
    "Descale_Q",
    "Descale_K",
    "Descale_V",
    "Descale_S",
    "Scale_S",
    "Scale_O",
    "SINK_TOKEN",
    "Block_mask",
    "CU_SEQ_LEN_Q",
    "CU_SEQ_LEN_KV",
];

const BACKWARD_OPTIONS: &[&str] = &[
    "Attn_scale",
    "Bias",
    "SEQ_LEN_Q",
    "SEQ_LEN_KV",
    "Seed",
    "Offset",
    "Dropout_mask",
    "Dropout_scale",
    "Dropout_scale_inv",
    "SINK_TOKEN",
];

const FP8_BACKWARD_OPTIONS: &[&str] = &[
    "Q_T",
    "K_T",
    "dO_T",
    "dO_f16",
    "Attn_scale",
    "Bias",
    "SEQ_LEN_Q",
    "SEQ_LEN_KV",
    "Seed",
    "Offset",
    "Dropout_mask",
    "Dropout_scale",
    "Dropout_scale_inv",
    "Descale_Q",
    "Descale_K",
    "Descale_V",
    "Descale_O",
    "Descale_dO",
    "Descale_dO_T",
    "Descale_K_T",
    "Descale_Q_T",
    "Descale_S",
    "Descale_dP",
    "Scale_dQ",
    "Scale_dK",
    "Scale_dV",
    "Scale_S",
    "Scale_dP",
    "SINK_TOKEN",
];

const fn forward(tag: &'static str) -> Schema {
    Schema {
        tag,
        inputs: [&["Q", "K", "V"], FORWARD_OPTIONS],
        outputs: [&["O"], &["Stats", "RNG_DUMP", "Amax_S", "Amax_O", "Max", "Sum_exp"]],
        keys: Keys::Kept(FORWARD_KEYS),
        compute_since: 13200,
    }
}

const fn fp8_backward(tag: &'static str) -> Schema {
    Schema {
        tag,
        inputs: [&["Q", "K", "V", "O", "dO", "Stats"], FP8_BACKWARD_OPTIONS],
        outputs: [&["dQ", "dK", "dV"], &["Amax_dQ", "Amax_dK", "Amax_dV", "Amax_dP", "DSINK_TOKEN"]],
        keys: Keys::Kept(FP8_BACKWARD_KEYS),
        compute_since: 0,
    }
}

pub(super) const TABLE: &[Schema] = &[
    forward("SDPA"),
    forward("SDPA_FP8_FWD"),
    forward("SDPA_MXFP8_FWD"),
    Schema {
        tag: "SDPA_BWD",
        inputs: [&["Q", "K", "V", "O", "dO", "Stats"], BACKWARD_OPTIONS],
        outputs: [&["dQ", "dK", "dV"], &["dBias", "RNG_DUMP", "DSINK_TOKEN"]],
        keys: Keys::Kept(BACKWARD_KEYS),
        compute_since: NEVER,
    },
    fp8_backward("SDPA_FP8_BWD"),
    fp8_backward("SDPA_MXFP8_BWD"),
];
