//! What frameworks and people call types, modes, tags and ports, beside the one spelling that files have.

/// Words of the field for something that files spell otherwise.
#[derive(Debug)]
pub(super) struct Synonym {
    /// The words, as [`normalized`] gives them.
    words: &'static [&'static str],
    /// The spellings meant; several where the word leaves open which.
    pub(super) means: &'static [&'static str],
    /// What else must be set, as the end of a sentence; or nothing.
    pub(super) how: &'static str,
}

const fn same(words: &'static [&'static str], means: &'static [&'static str]) -> Synonym {
    Synonym { words, means, how: "" }
}

const fn with(words: &'static [&'static str], means: &'static [&'static str], how: &'static str) -> Synonym {
    Synonym { words, means, how }
}

/// Rows in the order they are tried: a word may mean a mode in one place and a tag in another, and the row is taken whose
/// spellings are all known where the word stands.
static SYNONYMS: &[Synonym] = &[
    // Types.
    same(&["FLOAT16", "F16", "FP16", "HALFFLOAT", "IEEEHALF"], &["HALF"]),
    same(&["BF16", "BFLOAT", "BRAIN", "BRAINFLOAT", "BRAINFLOAT16"], &["BFLOAT16"]),
    same(&["FLOAT32", "F32", "FP32", "SINGLE", "TF32", "TFLOAT32"], &["FLOAT"]),
    same(&["FLOAT64", "F64", "FP64"], &["DOUBLE"]),
    same(&["BOOL", "PRED", "I1", "INT1"], &["BOOLEAN"]),
    same(&["I8", "S8", "CHAR"], &["INT8"]),
    same(&["U8", "BYTE"], &["UINT8"]),
    same(&["I32", "S32", "INT"], &["INT32"]),
    same(&["I64", "S64", "LONG"], &["INT64"]),
    same(&["I4", "S4"], &["INT4"]),
    same(&["E4M3", "F8E4M3", "F8E4M3FN", "FP8E4M3FN", "FLOAT8E4M3", "FLOAT8E4M3FN"], &["FP8_E4M3"]),
    same(&["E5M2", "F8E5M2", "FLOAT8E5M2"], &["FP8_E5M2"]),
    same(&["FP8", "F8", "FLOAT8"], &["FP8_E4M3", "FP8_E5M2"]),
    same(&["E8M0", "UE8M0", "F8E8M0", "F8E8M0FNU", "FLOAT8E8M0FNU"], &["FP8_E8M0"]),
    same(&["FP4", "F4", "FLOAT4", "E2M1", "F4E2M1", "F4E2M1FN", "FLOAT4E2M1", "FLOAT4E2M1FN"], &["FP4_E2M1"]),
    same(&["COMPLEX64", "C64"], &["COMPLEX_FP32"]),
    same(&["COMPLEX128", "C128"], &["COMPLEX_FP64"]),
    // Modes of pointwise operations.
    same(&["RELU"], &["RELU_FWD"]),
    with(&["RELU6"], &["RELU_FWD"], "with `relu_upper_clip` 6"),
    with(&["CLAMP", "CLIP", "CLIPPEDRELU"], &["RELU_FWD"], "with `relu_lower_clip` and `relu_upper_clip`"),
    with(&["HARDTANH"], &["RELU_FWD"], "with `relu_lower_clip` -1 and `relu_upper_clip` 1"),
    with(&["LEAKYRELU", "LRELU"], &["RELU_FWD"], "with `relu_lower_clip_slope`"),
    with(
        &["HARDSIGMOID", "HSIGMOID"],
        &["RELU_FWD"],
        "with `relu_lower_clip` 0 and `relu_upper_clip` 1, of a MUL by 1/6 and an ADD of 1/2",
    ),
    with(
        &["HARDSWISH", "HSWISH"],
        &["RELU_FWD"],
        "with `relu_lower_clip` 0 and `relu_upper_clip` 1, of a MUL by 1/6 and an ADD of 1/2, times the input",
    ),
    same(&["GELU", "GELUERF"], &["GELU_FWD"]),
    same(&["GELUTANH", "GELUAPPROX", "GELUAPPROXTANH", "APPROXGELU", "FASTGELU"], &["GELU_APPROX_TANH_FWD"]),
    same(&["SILU", "SWISH"], &["SWISH_FWD"]),
    same(&["SIGMOID", "LOGISTIC"], &["SIGMOID_FWD"]),
    same(&["TANH"], &["TANH_FWD"]),
    same(&["ELU"], &["ELU_FWD"]),
    same(&["SOFTPLUS"], &["SOFTPLUS_FWD"]),
    same(&["RELUBACKWARD", "RELUGRAD", "DRELU"], &["RELU_BWD"]),
    same(&["GELUBACKWARD", "GELUGRAD", "DGELU"], &["GELU_BWD"]),
    same(&["SILUBACKWARD", "SILUGRAD", "DSILU", "DSWISH"], &["SWISH_BWD"]),
    same(&["SIGMOIDBACKWARD", "SIGMOIDGRAD", "DSIGMOID"], &["SIGMOID_BWD"]),
    same(&["TANHBACKWARD", "TANHGRAD", "DTANH"], &["TANH_BWD"]),
    same(&["CAST", "CONVERT", "CONVERTTYPE", "CONVERTELEMENTTYPE", "COPY", "TO"], &["IDENTITY"]),
    same(&["PLUS", "BIAS", "BIASADD"], &["ADD"]),
    same(&["SUBTRACT", "MINUS"], &["SUB"]),
    same(&["MULTIPLY", "TIMES", "SCALE"], &["MUL"]),
    same(&["DIVIDE", "TRUEDIVIDE"], &["DIV"]),
    same(&["POWER"], &["POW"]),
    same(&["REMAINDER", "FMOD"], &["MOD"]),
    same(&["NEGATE", "NEGATIVE"], &["NEG"]),
    same(&["ABSOLUTE"], &["ABS"]),
    same(&["INV", "INVERSE", "RCP"], &["RECIPROCAL"]),
    same(&["LN"], &["LOG"]),
    same(&["SQUAREROOT"], &["SQRT"]),
    same(&["INVSQRT", "RECIPROCALSQRT"], &["RSQRT"]),
    with(&["SQUARE"], &["MUL"], "of the tensor by itself"),
    same(&["WHERE", "SELECT"], &["BINARY_SELECT"]),
    same(&["IOTA", "ARANGE"], &["GEN_INDEX"]),
    same(&["EQ", "EQUAL"], &["CMP_EQ"]),
    same(&["NE", "NEQ", "NOTEQUAL", "CMPNE"], &["CMP_NEQ"]),
    same(&["GT", "GREATER"], &["CMP_GT"]),
    same(&["GE", "GREATEREQUAL"], &["CMP_GE"]),
    same(&["LT", "LESS"], &["CMP_LT"]),
    same(&["LE", "LESSEQUAL"], &["CMP_LE"]),
    same(&["AND"], &["LOGICAL_AND"]),
    same(&["OR"], &["LOGICAL_OR"]),
    same(&["NOT"], &["LOGICAL_NOT"]),
    // Modes of reductions and of resampling. As a tag the words mean an operation with that mode: these rows come first.
    with(&["SUM", "REDUCESUM"], &["REDUCTION"], "with `mode` ADD"),
    with(&["MEAN", "AVERAGE", "REDUCEMEAN"], &["REDUCTION"], "with `mode` AVG"),
    with(&["REDUCEMAX"], &["REDUCTION"], "with `mode` MAX"),
    with(&["REDUCEMIN"], &["REDUCTION"], "with `mode` MIN"),
    with(&["PROD", "REDUCEPROD"], &["REDUCTION"], "with `mode` MUL"),
    same(&["REDUCE"], &["REDUCTION"]),
    same(&["SUM", "REDUCESUM"], &["ADD"]),
    same(&["MEAN", "AVERAGE", "REDUCEMEAN"], &["AVG"]),
    same(&["MAXIMUM", "REDUCEMAX"], &["MAX"]),
    same(&["MINIMUM", "REDUCEMIN"], &["MIN"]),
    same(&["PROD", "PRODUCT", "REDUCEPROD"], &["MUL"]),
    same(&["ABSMAX", "MAXABS"], &["AMAX"]),
    same(&["L1", "L1NORM"], &["NORM1"]),
    same(&["L2", "L2NORM"], &["NORM2"]),
    with(&["MAXPOOL", "MAXPOOLING", "MAXPOOL2D"], &["RESAMPLE"], "with `resample_mode` MAXPOOL"),
    with(
        &["AVGPOOL", "AVGPOOL2D", "AVERAGEPOOLING"],
        &["RESAMPLE"],
        "with `resample_mode` AVGPOOL_EXCLUDE_PADDING or AVGPOOL_INCLUDE_PADDING",
    ),
    same(&["POOL", "POOLING", "UPSAMPLE", "INTERPOLATE"], &["RESAMPLE"]),
    same(&["MAX", "MAXPOOLING"], &["MAXPOOL"]),
    same(&["AVG", "AVGPOOL", "AVERAGE"], &["AVGPOOL_EXCLUDE_PADDING", "AVGPOOL_INCLUDE_PADDING"]),
    same(&["LINEAR"], &["BILINEAR"]),
    // Tags.
    same(&["GEMM", "MM", "BMM", "BATCHEDGEMM", "BATCHMATMUL", "DOT", "DOTGENERAL"], &["MATMUL"]),
    with(&["LINEAR", "DENSE", "FC"], &["MATMUL"], "and a POINTWISE with `mode` ADD for the bias"),
    with(&["ADDMM"], &["MATMUL"], "and a POINTWISE with `mode` ADD"),
    same(&["CONV", "CONV1D", "CONV2D", "CONV3D", "CONVOLUTION", "CONVFWD", "CONVFORWARD"], &["CONV_FPROP"]),
    same(&["CONVOLUTIONFWD", "CONVOLUTIONFORWARD"], &["CONV_FPROP"]),
    same(
        &["DGRAD", "CONVTRANSPOSE", "CONVTRANSPOSE2D", "DECONV", "DECONVOLUTION", "CONVBWDDATA", "CONVBACKWARDDATA"],
        &["CONV_DGRAD"],
    ),
    same(&["CONVOLUTIONBWDDATA", "CONVOLUTIONBACKWARDDATA"], &["CONV_DGRAD"]),
    same(&["WGRAD", "CONVBWDFILTER", "CONVBACKWARDFILTER"], &["CONV_WGRAD"]),
    same(&["CONVOLUTIONBWDFILTER", "CONVOLUTIONBACKWARDFILTER"], &["CONV_WGRAD"]),
    same(&["RESAMPLEFWD", "RESAMPLEFORWARD"], &["RESAMPLE"]),
    same(&["SOFTMAXFWD", "SOFTMAXFORWARD"], &["SOFTMAX"]),
    same(&["CONCATENATION"], &["CONCATENATE"]),
    same(&["ELEMENTWISE", "UNARY", "BINARY", "ACTIVATION"], &["POINTWISE"]),
    same(&["ATTENTION", "MHA", "FLASHATTENTION", "SCALEDDOTPRODUCTATTENTION"], &["SDPA"]),
    same(&["LAYERNORMALIZATION", "LN"], &["LAYER_NORM"]),
    same(&["RMSNORMALIZATION"], &["RMS_NORM"]),
    same(&["BATCHNORM2D", "BATCHNORMALIZATION", "BN"], &["BATCHNORM"]),
    same(&["PERMUTE"], &["TRANSPOSE"]),
    same(&["VIEW", "FLATTEN"], &["RESHAPE"]),
    same(&["CONCAT", "CAT"], &["CONCATENATE"]),
    // Ports.
    same(&["LHS", "LEFT", "INPUT", "INPUT0", "X"], &["A"]),
    same(&["INPUT", "INPUT0", "IN", "IN0", "X", "A", "LHS"], &["IN_0"]),
    same(&["INPUT1", "IN1", "B", "BIAS", "RHS"], &["IN_1"]),
    same(&["INPUT2", "IN2", "MASK"], &["IN_2"]),
    same(&["INPUT", "IN", "IN0", "IMAGE", "A", "DATA"], &["X"]),
    same(&["WEIGHT", "WEIGHTS", "FILTER", "FILTERS", "KERNEL", "B"], &["W"]),
    same(&["RHS", "RIGHT", "INPUT1", "WEIGHT", "WEIGHTS", "W"], &["B"]),
    same(&["OUTPUT", "OUT", "RESULT", "Y", "C"], &["OUT_0"]),
    same(&["OUTPUT", "OUT", "RESULT", "Y", "OUT0", "D"], &["C"]),
    same(&["OUTPUT", "OUT", "RESULT", "C", "OUT0"], &["Y"]),
    same(&["GRAD", "LOSS", "GRADOUTPUT"], &["DY"]),
];

/// Words of the field that nothing in the files means. What is near them by letters is far from them in meaning.
const WITHOUT_COUNTERPART: &[&str] = &[
    "SINH", "COSH", "ASIN", "ACOS", "ATAN", "ASINH", "ACOSH", "ATANH", "ERFC", "EXPM1", "LOG1P", "XOR", "SIGN",
    "ROUND", "TRUNC", "CELU", "SELU", "MISH", "INT16", "UINT16", "UINT32", "UINT64", "I16", "U16", "U32", "U64",
    "UINT4", "U4", "FP6",
];

/// Longest word that is looked up; longer ones are no word of the field.
const LONGEST: usize = 64;

/// What the backend's enumerations put before the spellings of files, the longer before the shorter.
const BACKEND_PREFIXES: &[&str] = &[
    "CUDNNBACKENDOPERATION",
    "CUDNNTENSORREORDERING",
    "CUDNNREDUCETENSOR",
    "CUDNNPOINTWISE",
    "CUDNNRESAMPLE",
    "CUDNNDATA",
    "CUDNN",
];

/// A word in capitals, without what separates its parts, without the module before its last dot (`torch.float16`), and without what the
/// backend adds (`CUDNN_DATA_HALF`).
pub(super) fn normalized(word: &str) -> String {
    let last = word.rsplit('.').next().unwrap_or(word);
    let joined: String = last.chars().filter(|c| !"_- ".contains(*c)).map(|c| c.to_ascii_uppercase()).collect();
    let bare = BACKEND_PREFIXES.iter().find_map(|prefix| joined.strip_prefix(prefix)).filter(|bare| !bare.is_empty());
    match bare {
        Some(bare) => bare.strip_suffix("DESCRIPTOR").unwrap_or(bare).to_owned(),
        None => joined,
    }
}

/// What a word of the field means where these spellings are known.
pub(super) fn synonym(word: &str, known: &[&str]) -> Option<&'static Synonym> {
    if word.len() > LONGEST {
        return None;
    }
    let word = normalized(word);
    let is_meant = |synonym: &&Synonym| {
        synonym.words.contains(&word.as_str()) && synonym.means.iter().all(|means| known.contains(means))
    };
    SYNONYMS.iter().find(is_meant)
}

/// Whether a word has a meaning of its own in the field, whatever is known where it stands.
pub(super) fn is_of_the_field(word: &str) -> bool {
    if word.len() > LONGEST {
        return false;
    }
    let word = normalized(word);
    WITHOUT_COUNTERPART.contains(&word.as_str()) || SYNONYMS.iter().any(|row| row.words.contains(&word.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frontend::schema;
    use crate::graph::{DataType, PointwiseMode, ReductionMode, ResampleMode};

    /// Every list of spellings that a word can stand in.
    fn vocabularies() -> Vec<Vec<&'static str>> {
        let ports = schema::all().flat_map(|schema| [schema.inputs.concat(), schema.outputs.concat()]);
        let lists = [
            DataType::all().map(DataType::name).collect(),
            PointwiseMode::names().collect(),
            ReductionMode::names().collect(),
            ResampleMode::names().collect(),
            schema::all().map(|schema| schema.tag).collect(),
        ];
        lists.into_iter().chain(ports).collect()
    }

    #[test]
    fn every_row_is_reached_and_no_word_is_a_spelling_where_it_is_one() {
        let vocabularies = vocabularies();
        for row in SYNONYMS {
            for word in row.words {
                assert_eq!(*word, normalized(word), "words are stated as they are looked up");
                let reached = |known: &Vec<&'static str>| {
                    synonym(word, known).is_some_and(|found| std::ptr::eq(found, row)) && !known.contains(word)
                };
                assert!(vocabularies.iter().any(reached), "{word} never means {:?}", row.means);
            }
        }
    }

    #[test]
    fn words_without_a_counterpart_have_none() {
        for word in WITHOUT_COUNTERPART {
            assert!(
                vocabularies().iter().all(|known| synonym(word, known).is_none() && !known.contains(word)),
                "{word}"
            );
        }
    }

    #[test]
    fn spellings_of_frameworks_are_read() {
        for word in ["torch.float16", "float16", "Float_16", "F16"] {
            assert_eq!(synonym(word, &["HALF", "FLOAT"]).map(|row| row.means), Some(&["HALF"][..]), "{word}");
        }
        assert!(synonym(&"F16".repeat(1 << 20), &["HALF"]).is_none());
    }

    #[test]
    fn spellings_of_the_backend_are_read_without_their_prefixes() {
        for (word, bare) in [
            ("CUDNN_DATA_HALF", "HALF"),
            ("CUDNN_POINTWISE_RELU_FWD", "RELUFWD"),
            ("CUDNN_REDUCE_TENSOR_ADD", "ADD"),
            ("CUDNN_ZERO_PAD", "ZEROPAD"),
            ("CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR", "MATMUL"),
            ("CUDNN", "CUDNN"),
        ] {
            assert_eq!(normalized(word), bare);
        }
    }
}
