//! "Did you mean": what an unknown spelling could stand for. A synonym of the field comes first, then the known spelling
//! nearest by letters. Hints never change what is accepted.

use serde::Serialize;

use super::schema;
use super::vocabulary::{is_of_the_field, normalized, synonym};
use crate::graph::{DataType, PaddingMode, PointwiseMode, ReductionMode, ResampleMode};

/// Most spellings that a message lists.
const LISTED: usize = 24;

/// Fewest letters of words that can be near by letters; any letter is near any other.
const SHORTEST: usize = 3;

/// `, did you mean "X"?` for a name of the same file that is one edit away or differs in case only, else nothing (FEJ-05).
pub(super) fn suggestion<'a>(unknown: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    let (mut other_case, mut one_edit) = (None, None);
    for known in known {
        if known.eq_ignore_ascii_case(unknown) {
            other_case = other_case.or(Some(known));
        } else if one_edit.is_none() && is_one_edit_away(unknown, known) {
            one_edit = Some(known);
        }
    }
    other_case.or(one_edit).map(|known| did_you_mean(&[known], "")).unwrap_or_default()
}

/// What could be meant by a value, port or type that is none of `known`, and what is allowed (FEJ-11, FEJ-12).
pub(super) fn value_hint(unknown: &str, known: &[&str]) -> String {
    let hint = synonym(unknown, known).map(|synonym| did_you_mean(synonym.means, synonym.how));
    hint.unwrap_or_else(|| did_you_mean(&near(unknown, known), "")) + &allowed(known)
}

/// As [`value_hint`] for a mode: what is an operation of its own is no mode.
pub(super) fn mode_hint(unknown: &str, known: &[&str]) -> String {
    let is_meant = synonym(unknown, known).is_some() || !near(unknown, known).is_empty();
    let tags: Vec<&str> = schema::all().map(|schema| schema.tag).collect();
    let tag = if is_meant { String::new() } else { tag_meant(unknown, &tags) };
    match tag.strip_prefix(", did you mean ") {
        Some(tag) => format!(", which is no mode here: did you mean the tag {tag}{}", allowed(known)),
        None => value_hint(unknown, known),
    }
}

/// As [`value_hint`] for a tag: the name of a mode stands for the operation that has it.
pub(super) fn tag_hint(unknown: &str, known: &[&str]) -> String {
    tag_meant(unknown, known) + &allowed(known)
}

/// `, did you mean "TAG"?`; nothing where no operation is meant.
fn tag_meant(unknown: &str, known: &[&str]) -> String {
    if let Some(synonym) = synonym(unknown, known) {
        return did_you_mean(synonym.means, synonym.how);
    }
    let modes = [("POINTWISE", PointwiseMode::names().collect()), ("REDUCTION", ReductionMode::names().collect())];
    let hint = modes.iter().find_map(|(tag, modes): &(&str, Vec<&str>)| {
        let (mode, how) = mode_meant(unknown, modes)?;
        Some(did_you_mean(&[tag], format!("with `mode` {mode} {how}").trim_end()))
    });
    hint.unwrap_or_else(|| did_you_mean(&near(unknown, known), ""))
}

/// A mode's own spelling, in any case and with the backend's prefix, or a synonym of it, and what else must be set.
fn mode_meant(word: &str, modes: &[&'static str]) -> Option<(&'static str, &'static str)> {
    let plain = normalized(word);
    if let Some(mode) = modes.iter().find(|mode| normalized(mode) == plain) {
        return Some((mode, ""));
    }
    let synonym = synonym(word, modes)?;
    Some((synonym.means.first()?, synonym.how))
}

/// `, did you mean "X" or "Y", HOW?`; nothing where nothing is meant.
fn did_you_mean(means: &[&str], how: &str) -> String {
    if means.is_empty() {
        return String::new();
    }
    let quoted: Vec<String> = means.iter().map(|means| format!("\"{}\"", means.escape_debug())).collect();
    let how = if how.is_empty() { String::new() } else { format!(" {how}") };
    format!(", did you mean {}{how}?", quoted.join(" or "))
}

/// ` (one of A, B, C)`: what may stand there.
fn allowed(known: &[&str]) -> String {
    match known {
        [] => String::new(),
        [one] => format!(" (allowed is {one})"),
        few if few.len() <= LISTED => format!(" (one of {})", few.join(", ")),
        many => format!(" (one of {}, which `fusewright rules --values` lists)", many.len()),
    }
}

/// The spellings that differ from an unknown one in case or separators only; else those one edit away. A word that means
/// something of its own is near to none, nor is one whose digits differ: INT16 is no INT8.
fn near<'a>(unknown: &str, known: &[&'a str]) -> Vec<&'a str> {
    let plain = normalized(unknown);
    let all = |is_near: &dyn Fn(&str) -> bool| -> Vec<&'a str> {
        known.iter().copied().filter(|known| is_near(known)).collect()
    };
    let same = all(&|known| normalized(known) == plain);
    if !same.is_empty() || is_of_the_field(unknown) {
        return same;
    }
    let digits = |text: &str| -> String { text.chars().filter(char::is_ascii_digit).collect() };
    let is_word = |text: &str| text.len() >= SHORTEST;
    all(&|known| {
        is_word(unknown) && is_word(known) && is_one_edit_away(unknown, known) && digits(unknown) == digits(known)
    })
}

/// One list of spellings that graph files may hold.
#[derive(Clone, Debug, Serialize)]
pub struct Values {
    /// Where they stand, such as `data_type`.
    pub place: &'static str,
    /// The spellings, exactly as they are read.
    pub spellings: Vec<&'static str>,
}

/// What may stand in a graph file as tag, type or mode.
pub fn values() -> Vec<Values> {
    let row = |place, spellings: Vec<&'static str>| Values { place, spellings };
    vec![
        row("tag", schema::all().map(|schema| schema.tag).collect()),
        row("data_type, compute_data_type", DataType::all().map(DataType::name).collect()),
        row("mode of POINTWISE", PointwiseMode::names().collect()),
        row("mode of REDUCTION", ReductionMode::names().collect()),
        row("resample_mode", ResampleMode::names().collect()),
        row("padding_mode", PaddingMode::names().collect()),
    ]
}

/// Whether one inserted, deleted or replaced character, or one swap of neighbours, leads from `a` to `b`. In linear time, as no
/// edit distance is computed: tensors' names, both from a file, may be megabytes long.
fn is_one_edit_away(a: &str, b: &str) -> bool {
    if a.len().abs_diff(b.len()) > 1 {
        return false;
    }
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let prefix = a.iter().zip(b).take_while(|(x, y)| x == y).count();
    let (a, b) = (&a[prefix..], &b[prefix..]);
    match (a, b) {
        ([], rest) | (rest, []) => rest.len() == 1,
        ([x, tail_a @ ..], [y, tail_b @ ..]) => tail_a == tail_b || tail_a == b || a == tail_b || swapped(a, b, *x, *y),
    }
}

fn swapped(a: &[u8], b: &[u8], x: u8, y: u8) -> bool {
    a.len() == b.len() && a.len() >= 2 && a[1] == y && b[1] == x && a[2..] == b[2..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_edit_is_an_insertion_deletion_replacement_or_swap() {
        for near in ["AD", "ADDD", "ABD", "DAD", "DD", "XADD", "ADX"] {
            assert!(is_one_edit_away(near, "ADD"), "{near}");
        }
        for far in ["", "A", "ADDDD", "BBD", "MUL"] {
            assert!(!is_one_edit_away(far, "ADD"), "{far}");
        }
    }

    #[test]
    fn case_alone_is_suggested_and_distance_two_is_not() {
        assert_eq!(suggestion("relu_fwd", ["ADD", "RELU_FWD"]), ", did you mean \"RELU_FWD\"?");
        assert_eq!(suggestion("b", ["A", "B"]), ", did you mean \"B\"?");
        assert_eq!(suggestion("RELX_FWX", ["ADD", "RELU_FWD"]), "");
    }

    /// Everything that a value of a kind may be.
    fn spellings(place: &str) -> Vec<&'static str> {
        values().into_iter().find(|values| values.place == place).unwrap().spellings
    }

    #[test]
    fn synonyms_of_types_come_before_letters() {
        let known = spellings("data_type, compute_data_type");
        for (words, means) in [
            (&["FLOAT16", "F16", "FP16", "torch.half", "half"][..], "\"HALF\""),
            (&["BF16", "bfloat16"], "\"BFLOAT16\""),
            (&["FP32", "FLOAT32", "F32"], "\"FLOAT\""),
            (&["FP64"], "\"DOUBLE\""),
            (&["BOOL"], "\"BOOLEAN\""),
            (&["FP8"], "\"FP8_E4M3\" or \"FP8_E5M2\""),
            (&["E4M3", "float8_e4m3fn"], "\"FP8_E4M3\""),
            (&["HAFL", "HALV"], "\"HALF\""),
        ] {
            for word in words {
                let hint = value_hint(word, &known);
                assert!(hint.starts_with(&format!(", did you mean {means}? (one of FLOAT, DOUBLE")), "{word}{hint}");
            }
        }
        for far in ["INT16", "INT2", "UINT16", "FP8_E4M2", "XYZ", "torch.int16"] {
            assert!(value_hint(far, &known).starts_with(" (one of FLOAT, DOUBLE, HALF"), "{far}");
        }
    }

    #[test]
    fn modes_of_frameworks_are_named() {
        let known = spellings("mode of POINTWISE");
        for (word, means) in [
            ("TANH", "\"TANH_FWD\""),
            ("relu", "\"RELU_FWD\""),
            ("SILU", "\"SWISH_FWD\""),
            ("Cast", "\"IDENTITY\""),
            ("LEAKY_RELU", "\"RELU_FWD\" with `relu_lower_clip_slope`"),
            ("GELU_FDW", "\"GELU_FWD\""),
            ("CMP_GX", "\"CMP_GT\" or \"CMP_GE\""),
        ] {
            let hint = value_hint(word, &known);
            let rest = " (one of 51, which `fusewright rules --values` lists)";
            assert_eq!(hint, format!(", did you mean {means}?{rest}"), "{word}");
        }
        for far in ["SINH", "ATAN", "EXP2", "LOG2", "COSH"] {
            assert!(value_hint(far, &known).starts_with(" (one of 51"), "{far}{}", value_hint(far, &known));
        }
    }

    #[test]
    fn a_mode_as_a_tag_is_an_operation_with_that_mode() {
        let known = spellings("tag");
        for (word, means) in [
            ("GEMM", "\"MATMUL\""),
            ("Conv2d", "\"CONV_FPROP\""),
            ("RELU", "\"POINTWISE\" with `mode` RELU_FWD"),
            ("ADD", "\"POINTWISE\" with `mode` ADD"),
            ("AMAX", "\"REDUCTION\" with `mode` AMAX"),
            ("SUM", "\"REDUCTION\" with `mode` ADD"),
            ("MATMULL", "\"MATMUL\""),
        ] {
            let hint = tag_hint(word, &known);
            assert!(hint.starts_with(&format!(", did you mean {means}? (one of ")), "{word}{hint}");
        }
    }

    #[test]
    fn an_operation_as_a_mode_is_a_tag() {
        let known = spellings("mode of POINTWISE");
        for (word, means) in [
            ("SOFTMAX", "\"SOFTMAX\""),
            ("GEMM", "\"MATMUL\""),
            ("CUDNN_REDUCE_TENSOR_AVG", "\"REDUCTION\" with `mode` AVG"),
        ] {
            let hint = mode_hint(word, &known);
            let text = format!(", which is no mode here: did you mean the tag {means}? (one of 51");
            assert!(hint.starts_with(&text), "{word}{hint}");
        }
        for mode in ["RELU", "GELU_FDW", "SINH", "XYZ"] {
            assert_eq!(mode_hint(mode, &known), value_hint(mode, &known));
        }
    }

    #[test]
    fn spellings_of_the_backend_are_those_of_files() {
        for (place, word, means) in [
            ("data_type, compute_data_type", "CUDNN_DATA_HALF", "\"HALF\""),
            ("mode of POINTWISE", "CUDNN_POINTWISE_RELU_FWD", "\"RELU_FWD\""),
            ("mode of REDUCTION", "CUDNN_REDUCE_TENSOR_MUL_NO_ZEROS", "\"MUL_NO_ZEROS\""),
            ("resample_mode", "CUDNN_RESAMPLE_MAXPOOL", "\"MAXPOOL\""),
            ("padding_mode", "CUDNN_NEG_INF_PAD", "\"NEG_INF_PAD\""),
        ] {
            let hint = value_hint(word, &spellings(place));
            assert!(hint.starts_with(&format!(", did you mean {means}? (one of ")), "{word}{hint}");
        }
        for (word, means) in [
            ("ConvolutionFwd", "\"CONV_FPROP\""),
            ("CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR", "\"CONV_WGRAD\""),
            ("CUDNN_BACKEND_OPERATION_GEN_STATS_DESCRIPTOR", "\"GENSTATS\""),
            ("CUDNN_POINTWISE_ADD", "\"POINTWISE\" with `mode` ADD"),
        ] {
            let hint = tag_hint(word, &spellings("tag"));
            assert!(hint.starts_with(&format!(", did you mean {means}? (one of ")), "{word}{hint}");
        }
    }

    #[test]
    fn a_short_list_is_told_whole() {
        assert_eq!(value_hint("Q", &["A", "B"]), " (one of A, B)");
        assert_eq!(value_hint("b", &["A", "B"]), ", did you mean \"B\"? (one of A, B)");
        assert_eq!(value_hint("Q", &["IN_0"]), " (allowed is IN_0)");
    }
}
