//! Norms, data movement, random numbers, quantisation, experts, rotary embedding (sections 6.1, 6.4 and 6.7).

use super::{Key, Keys, Kind, NEVER, Schema, key};

const PHASE: &[Key] = &[key("forward_phase", Kind::Choice(&["INFERENCE", "TRAINING"]))];
const GROUPS: &[Key] = &[key("num_groups", Kind::Integer)];
const GROUPED_PHASE: &[Key] = &[PHASE[0], GROUPS[0]];
const PEER_STATS: &[Key] = &[key(super::PEER_STATS, Kind::Tensors)];
const ROPE_KEYS: &[Key] = &[key("output_scale", Kind::Float), key("rope_dim", Kind::Integer)];
const STATISTICS: &[&str] = &["MEAN", "INV_VARIANCE"];
const STATS_MODE: &[Key] = &[key("stats_mode", Kind::Choice(&["INFERENCE", "TRAINING"]))];
const PREVIOUS: &[&str] = &["PREV_RUNNING_MEAN", "PREV_RUNNING_VAR", "MOMENTUM"];
const GRADIENT: &[&str] = &["DY", "X", "SCALE", "MEAN", "INV_VARIANCE"];
const GRADIENTS: [&[&str]; 2] = [&["DX"], &["DSCALE", "DBIAS"]];

/// A norm that reads these tensors beside X and EPSILON, always and perhaps.
const fn norm(tag: &'static str, inputs: [&'static [&'static str]; 2], statistics: &'static [&'static str]) -> Schema {
    Schema { tag, inputs, outputs: [&["Y"], statistics], keys: Keys::Kept(PHASE), compute_since: 0 }
}

const fn norm_backward(
    tag: &'static str,
    inputs: [&'static [&'static str]; 2],
    outputs: [&'static [&'static str]; 2],
) -> Schema {
    Schema { tag, inputs, outputs, keys: Keys::Kept(&[]), compute_since: 0 }
}

const fn rope(tag: &'static str, inputs: &'static [&'static str], outputs: &'static [&'static str]) -> Schema {
    Schema { tag, inputs: [inputs, &[]], outputs: [outputs, &[]], keys: Keys::Kept(ROPE_KEYS), compute_since: 0 }
}

pub(super) const TABLE: &[Schema] = &[
    Schema {
        tag: "MATMUL_FP8",
        inputs: [&["A", "B", "Descale_A", "Descale_B", "Scale_C"], &["M_override", "N_override", "K_override"]],
        outputs: [&["C", "Amax_C"], &[]],
        keys: Keys::Kept(&[]),
        compute_since: 0,
    },
    Schema {
        tag: "BATCHNORM",
        inputs: [&["X", "SCALE", "BIAS", "EPSILON"], PREVIOUS],
        outputs: [&["Y"], &["MEAN", "INV_VARIANCE", "NEXT_RUNNING_MEAN", "NEXT_RUNNING_VAR"]],
        keys: Keys::Kept(PEER_STATS),
        compute_since: 0,
    },
    Schema {
        tag: "BATCHNORM_INFERENCE",
        inputs: [&["X", "MEAN", "INV_VARIANCE", "SCALE", "BIAS"], &[]],
        outputs: [&["Y"], &[]],
        keys: Keys::Kept(&[]),
        compute_since: 0,
    },
    Schema {
        tag: "BN_FINALIZE",
        // Which of them there are depends on where the statistics come from.
        inputs: [
            &["EPSILON"],
            &["SUM", "SQ_SUM", "SCALE", "BIAS", "ACCUM_COUNT", "PREV_RUNNING_MEAN", "PREV_RUNNING_VAR", "MOMENTUM"],
        ],
        outputs: [&[], &["EQ_SCALE", "EQ_BIAS", "MEAN", "INV_VARIANCE", "NEXT_RUNNING_MEAN", "NEXT_RUNNING_VAR"]],
        keys: Keys::Kept(STATS_MODE),
        compute_since: 0,
    },
    Schema { tag: "DBN", inputs: [GRADIENT, &[]], outputs: GRADIENTS, keys: Keys::Kept(PEER_STATS), compute_since: 0 },
    Schema {
        tag: "DBN_WEIGHT",
        inputs: [GRADIENT, &[]],
        outputs: [&[], &["DSCALE", "DBIAS", "EQ_BIAS", "EQ_SCALE_DY", "EQ_SCALE_X"]],
        keys: Keys::Kept(&[]),
        compute_since: 0,
    },
    norm("LAYER_NORM", [&["X", "EPSILON"], &["SCALE", "BIAS"]], STATISTICS),
    norm("ADA_LAYER_NORM", [&["X", "SCALE", "EPSILON"], &["BIAS"]], STATISTICS),
    norm("INSTANCE_NORM", [&["X", "SCALE", "BIAS", "EPSILON"], &[]], STATISTICS),
    norm("RMS_NORM", [&["X", "EPSILON"], &["SCALE", "BIAS"]], &["INV_VARIANCE"]),
    // Norms of groups are operations of this project: no frontend has them.
    Schema {
        keys: Keys::Kept(GROUPED_PHASE),
        ..norm("GROUP_NORM", [&["X", "EPSILON"], &["SCALE", "BIAS"]], STATISTICS)
    },
    Schema {
        keys: Keys::Kept(GROUPS),
        ..norm_backward("GROUP_NORM_BPROP", [&["DY", "X", "MEAN", "INV_VARIANCE"], &["SCALE", "EPSILON"]], GRADIENTS)
    },
    norm_backward("LAYER_NORM_BPROP", [&["DY", "X", "MEAN", "INV_VARIANCE"], &["SCALE", "EPSILON"]], GRADIENTS),
    norm_backward("ADA_LAYER_NORM_BPROP", [GRADIENT, &["EPSILON"]], GRADIENTS),
    norm_backward("INSTANCE_NORM_BPROP", [GRADIENT, &["EPSILON"]], GRADIENTS),
    norm_backward("RMS_NORM_BPROP", [&["DY", "X", "INV_VARIANCE"], &["SCALE"]], GRADIENTS),
    Schema {
        tag: "RESHAPE",
        inputs: [&["X"], &[]],
        outputs: [&["Y"], &[]],
        keys: Keys::Kept(&[
            key("dim", Kind::Integers),
            key("stride", Kind::Integers),
            key("reshape_mode", Kind::Choice(&["VIEW_ONLY", "LOGICAL"])),
        ]),
        compute_since: 0,
    },
    Schema {
        tag: "TRANSPOSE",
        inputs: [&["X"], &[]],
        outputs: [&["Y"], &[]],
        keys: Keys::Kept(&[key("permutation", Kind::Integers)]),
        compute_since: 0,
    },
    Schema {
        tag: "SLICE",
        inputs: [&["X"], &[]],
        outputs: [&["Y"], &[]],
        keys: Keys::Kept(&[key("slices", Kind::List), key("slice_strides", Kind::Integers)]),
        compute_since: 0,
    },
    Schema {
        tag: "RNG",
        inputs: [&[], &["Seed", "Offset"]],
        outputs: [&["Y"], &[]],
        keys: Keys::Kept(&[
            key("distribution", Kind::Choice(&["BERNOULLI", "UNIFORM", "NORMAL"])),
            key("dim", Kind::Integers),
            key("stride", Kind::Integers),
            key("seed", Kind::Integer),
            key("bernoulli_probability", Kind::Double),
        ]),
        compute_since: NEVER,
    },
    Schema {
        tag: "BLOCK_SCALE_QUANTIZE",
        inputs: [&["X"], &[]],
        outputs: [&["Y", "scale"], &[]],
        keys: Keys::Kept(&[key("block_size", Kind::Integer), key("axis", Kind::Integer)]),
        compute_since: 0,
    },
    Schema {
        tag: "BLOCK_SCALE_DEQUANTIZE",
        inputs: [&["X", "scale"], &[]],
        outputs: [&["Y"], &[]],
        keys: Keys::Kept(&[key("block_size", Kind::Integers), key("is_negative_scale", Kind::Flag)]),
        compute_since: 0,
    },
    Schema {
        tag: "MOE_GROUPED_MATMUL",
        inputs: [&["Token", "Weight", "FirstTokenOffset"], &["TokenIndex", "TokenKs"]],
        outputs: [&["Output"], &[]],
        keys: Keys::Kept(&[
            key("mode", Kind::Choice(&["NONE", "GATHER", "SCATTER", "COMBINE"])),
            key("top_k", Kind::Integer),
        ]),
        compute_since: NEVER,
    },
    Schema {
        tag: "MOE_GROUPED_MATMUL_BWD",
        inputs: [&["DOutput", "Token", "FirstTokenOffset"], &[]],
        outputs: [&["DWeight"], &[]],
        keys: Keys::Kept(&[]),
        compute_since: NEVER,
    },
    rope("ROPE", &["INPUT", "FREQS"], &["OUTPUT"]),
    rope("ROPE_BWD", &["DY", "FREQS"], &["DX"]),
];
