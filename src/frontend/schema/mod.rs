//! What graph files may say: every tag with its ports and attribute keys (`docs/spec/frontend-json.md` section 6).
//!
//! Data only. Ports are listed in the order of the operation's definition.

mod attention;
mod other;

use super::spelling::tag_hint;

/// How an attribute is written, and what its absence means (FEJ-13).
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Kind {
    /// `true` or `false`; absent means false.
    Flag,
    /// `true`, `false` or `null`.
    OptionalFlag,
    /// An integer or `null`.
    Integer,
    /// An array of integers; absent means empty.
    Integers,
    /// A float, written as hexadecimal bits, or `null`.
    Float,
    /// A double, written as a number, or `null`.
    Double,
    /// One of these spellings, or `null`.
    Choice(&'static [&'static str]),
    /// One of these spellings; absent means the first.
    Default(&'static [&'static str]),
    /// A data type or `null`.
    DataType,
    /// An array kept as it is; absent means empty.
    List,
    /// An array of tensors that the operation reads beside its `inputs`; absent means empty.
    Tensors,
}

/// An attribute key of a class.
#[derive(Clone, Copy, Debug)]
pub(super) struct Key {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    /// First frontend version (1.32.0 is 13200) that writes it.
    pub(super) since: i64,
}

/// A key that every version of interest writes.
const fn key(name: &'static str, kind: Kind) -> Key {
    since(0, name, kind)
}

const fn since(since: i64, name: &'static str, kind: Kind) -> Key {
    Key { name, kind, since }
}

/// Attribute keys of a class.
#[derive(Debug)]
pub(super) enum Keys {
    /// Read and written in `attributes`; only the names stand here.
    Typed(&'static [&'static str]),
    /// Kept by key, as this table says.
    Kept(&'static [Key]),
}

/// One tag.
#[derive(Debug)]
pub(super) struct Schema {
    pub(super) tag: &'static str,
    /// Input ports that must be there, then those that may.
    pub(super) inputs: [&'static [&'static str]; 2],
    /// Output ports that must be there, then those that may.
    pub(super) outputs: [&'static [&'static str]; 2],
    pub(super) keys: Keys,
    /// First frontend version that writes `compute_data_type`; never: `NEVER`.
    pub(super) compute_since: i64,
}

/// The later of all versions: a key that the library does not write.
pub(super) const NEVER: i64 = i64::MAX;

impl Schema {
    /// Whether this is an attribute key of the class, in any version.
    pub(super) fn knows(&self, name: &str) -> bool {
        match &self.keys {
            Keys::Typed(names) => names.contains(&name),
            Keys::Kept(keys) => keys.iter().any(|key| key.name == name),
        }
    }
}

/// Key of the tensors that a batch norm's GPUs send each other, which are objects on the node in every dialect (N-10g).
pub(super) const PEER_STATS: &str = "peer_stats";

/// The schemas of all tags.
pub(super) fn all() -> impl Iterator<Item = &'static Schema> {
    [GENERIC, other::TABLE, attention::TABLE].into_iter().flatten()
}

/// The schema of a tag, after [`canonical_tag`].
pub(super) fn schema(tag: &str) -> Option<&'static Schema> {
    all().find(|schema| schema.tag == tag)
}

/// What could be meant by an unknown tag.
pub(super) fn nearest_tag(tag: &str) -> String {
    tag_hint(tag, &all().map(|schema| schema.tag).collect::<Vec<_>>())
}

/// The spelling by which newer versions call a tag (section 6.5).
pub(super) fn canonical_tag(tag: &str) -> &str {
    if tag == "SDPA_FWD" { "SDPA" } else { tag }
}

/// The spelling by which newer versions call a port (section 6.6).
pub(super) fn canonical_port(port: &str) -> &str {
    if port == "Amax_d" { "Amax_dP" } else { port }
}

const CONVOLUTION_KEYS: &[&str] = &["pre_padding", "post_padding", "stride", "dilation", "math_mode", "alpha", "beta"];

const RESAMPLE_KEYS: &[&str] = &[
    "resample_mode",
    "padding_mode",
    "window",
    "stride",
    "pre_padding",
    "post_padding",
    "generate_index",
    "is_inference",
    "alpha",
    "beta",
    "window_denominators",
    "stride_denominators",
    "pre_padding_denominators",
    "post_padding_denominators",
];

const POINTWISE_KEYS: &[&str] = &[
    "mode",
    "axis",
    "relu_lower_clip",
    "relu_upper_clip",
    "relu_lower_clip_slope",
    "swish_beta",
    "elu_alpha",
    "softplus_beta",
    "nan_propagation",
    "alpha1",
    "alpha2",
];

const fn convolution(tag: &'static str, inputs: &'static [&'static str], outputs: &'static [&'static str]) -> Schema {
    Schema {
        tag,
        inputs: [inputs, &[]],
        outputs: [outputs, &[]],
        keys: Keys::Typed(CONVOLUTION_KEYS),
        compute_since: 0,
    }
}

/// Operations with typed attributes: their keys are read and written in `attributes`, the table names them.
/// `ATTENTION_BACKWARD`, `DROPOUT`, `MASKED_DROPOUT`, `RESAMPLE_BWD`, `SCORE_MASK`, `SCORE_TRANSPOSE`, `SIGNAL` and `SOFTMAX` are tags of ours, and so are the keys that no version writes,
/// and the port `Block_mask` of `MATMUL`.
const GENERIC: &[Schema] = &[
    Schema {
        tag: "ATTENTION_BACKWARD",
        inputs: [&["Q", "K", "V", "O", "dO", "Stats"], attention::OPERATION_OPTIONS],
        outputs: [&["dQ", "dK", "dV"], attention::OPERATION_RESULTS],
        keys: Keys::Kept(attention::OPERATION_KEYS),
        compute_since: 0,
    },
    convolution("CONV_FPROP", &["X", "W"], &["Y"]),
    convolution("CONV_DGRAD", &["DY", "W"], &["DX"]),
    convolution("CONV_WGRAD", &["DY", "X"], &["DW"]),
    Schema {
        tag: "DROPOUT",
        inputs: [&["X", "Seed", "Offset", "Dropout_scale"], &[]],
        outputs: [&["Y"], &["RNG_DUMP", "S"]],
        keys: Keys::Kept(attention::DROPOUT_KEYS),
        compute_since: 0,
    },
    Schema {
        tag: "MASKED_DROPOUT",
        inputs: [&["X", "Dropout_mask", "Dropout_scale"], &[]],
        outputs: [&["Y"], &["S"]],
        keys: Keys::Kept(&[]),
        compute_since: 0,
    },
    Schema {
        tag: "MATMUL",
        inputs: [&["A", "B"], &["M_override", "N_override", "K_override", "Block_mask"]],
        outputs: [&["C"], &[]],
        keys: Keys::Typed(&["padding_value"]),
        compute_since: 0,
    },
    Schema {
        tag: "PAGED_CACHE_LOAD",
        inputs: [&["container", "seqLen", "pageTable"], &[]],
        outputs: [&["yOut"], &[]],
        keys: Keys::Kept(&[]),
        compute_since: 0,
    },
    Schema {
        tag: "POINTWISE",
        inputs: [&["IN_0"], &["IN_1", "IN_2"]],
        outputs: [&["OUT_0"], &[]],
        keys: Keys::Typed(POINTWISE_KEYS),
        compute_since: 0,
    },
    Schema {
        tag: "REDUCTION",
        inputs: [&["X"], &[]],
        outputs: [&["Y"], &[]],
        keys: Keys::Typed(&["mode", "is_deterministic"]),
        compute_since: 0,
    },
    Schema {
        tag: "GENSTATS",
        inputs: [&["X"], &[]],
        outputs: [&["SUM", "SQ_SUM"], &[]],
        keys: Keys::Typed(&[]),
        compute_since: 0,
    },
    Schema {
        tag: "RESAMPLE",
        inputs: [&["X"], &[]],
        outputs: [&["Y"], &["Index"]],
        keys: Keys::Typed(RESAMPLE_KEYS),
        compute_since: NEVER,
    },
    Schema {
        tag: "RESAMPLE_BWD",
        inputs: [&["DY"], &["X", "Y", "Index"]],
        outputs: [&["DX"], &[]],
        keys: Keys::Typed(RESAMPLE_KEYS),
        compute_since: NEVER,
    },
    Schema {
        // Its inputs are keyed "0", "1", …; the reader knows.
        tag: "CONCATENATE",
        inputs: [&[], &[]],
        outputs: [&["Y"], &[]],
        keys: Keys::Typed(&["axis", "in_place_index"]),
        compute_since: NEVER,
    },
    Schema {
        tag: "SIGNAL",
        inputs: [&["X", "FLAG"], &[]],
        outputs: [&[], &["Y"]],
        keys: Keys::Typed(&["mode", "value"]),
        compute_since: NEVER,
    },
    Schema {
        tag: "SCORE_MASK",
        inputs: [&["X"], &["SEQ_LEN_Q", "SEQ_LEN_KV", "LEFT_BOUND", "RIGHT_BOUND", "Block_mask"]],
        outputs: [&["Y"], &[]],
        keys: Keys::Kept(attention::MASK_KEYS),
        compute_since: 0,
    },
    Schema {
        tag: "SCORE_TRANSPOSE",
        inputs: [&["X"], &[]],
        outputs: [&["Y"], &[]],
        keys: Keys::Kept(&[]),
        compute_since: 0,
    },
    Schema {
        tag: "SOFTMAX",
        inputs: [&["X"], &["SINK", "SEQ_LEN_Q"]],
        outputs: [&["Y"], &["Stats", "Max", "Sum_exp"]],
        keys: Keys::Kept(&[]),
        compute_since: 0,
    },
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn tags_ports_and_keys_are_unique() {
        let tables = || [GENERIC, other::TABLE, attention::TABLE].into_iter().flatten();
        let tags: BTreeSet<_> = tables().map(|schema| schema.tag).collect();
        assert_eq!(tags.len(), tables().count());
        for schema in tables() {
            for ports in [schema.inputs.concat(), schema.outputs.concat()] {
                let unique: BTreeSet<_> = ports.iter().collect();
                assert_eq!(unique.len(), ports.len(), "{}", schema.tag);
            }
        }
    }

    #[test]
    fn an_unknown_tag_gets_its_neighbour() {
        assert!(schema("MATMULL").is_none());
        assert!(nearest_tag("MATMULL").starts_with(", did you mean \"MATMUL\"? (one of "));
    }
}
