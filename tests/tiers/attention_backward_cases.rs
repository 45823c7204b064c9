//! Attention, backward: masks and lengths, groups of heads, heads of every size, layouts.

mod fp8;

use fusewright::graph::DataType::{BFloat16, Float, Half, Int32, Int64};
use fusewright::graph::{
    AttentionBackward, Bernoulli, DataType, Dropout, Graph, Port, Scalar, ScoreMask, Tensor, TensorHandle,
};

use crate::attention_cases::Ragged;
use crate::cases::{Case, push};
use fp8::Scaling;

/// What cases with the gradient of a bias are called.
pub(crate) const BIAS_GRADIENT: &str = "bias_gradient";

/// Adds the cases of this file.
pub(crate) fn backward_passes(cases: &mut Vec<Case>) {
    let mut add = |name: &str, backward: Backward| push(cases, format!("attention_bwd_{name}"), backward.graph());
    let of = Backward::new;
    fp8::cases(|name, backward| add(&format!("fp8{name}"), backward));
    add("half", of([2, 2, 70, 90], [64, 64]));
    add("bf16", Backward { io: BFloat16, ..of([1, 3, 33, 65], [64, 64]) });
    add("one_element", of([1, 1, 1, 1], [8, 8]));
    add("one_query", of([2, 2, 1, 129], [64, 64]));
    add("one_key", of([2, 2, 70, 1], [16, 16]));
    for (name, head) in [
        ("8", [8, 8]),
        ("72_40", [72, 40]),
        ("96", [96, 96]),
        ("128", [128, 128]),
        ("192_128", [192, 128]),
        ("8_256", [8, 256]),
        ("256", [256, 256]),
    ] {
        add(&format!("heads_of_{name}"), of([1, 2, 65, 63], head));
    }
    let banded = |left, right, shape| Backward { mask: band(left, right), ..of(shape, [64, 64]) };
    add("causal", banded(None, Some(0), [1, 2, 300, 300]));
    add("causal_more_queries", banded(None, Some(0), [1, 2, 200, 100]));
    add("causal_more_keys", banded(None, Some(0), [1, 2, 100, 200]));
    add("causal_bottom_right", banded(None, Some(60), [1, 2, 40, 100]));
    add("rows_without_keys", banded(None, Some(-10), [1, 2, 70, 60]));
    add("window", banded(Some(40), Some(0), [1, 2, 300, 300]));
    add("window_of_none", banded(Some(0), Some(0), [1, 1, 20, 20]));
    add("window_of_none_one_key", banded(Some(0), Some(0), [1, 2, 2, 1]));
    add("window_of_none_many_keys", banded(Some(-70), Some(0), [1, 1, 150, 300]));
    add("window_behind_all_keys", banded(Some(-7), None, [1, 1, 70, 5]));
    let closed = Backward { bounds: [Some(-4.0), None], ..banded(Some(3), Some(0), [1, 2, 2, 1]) };
    add("window_of_none_by_value", closed);
    add("window_to_both_sides", banded(Some(9), Some(5), [2, 1, 130, 140]));
    add("window_by_value", Backward { bounds: [Some(10.0), Some(-3.0)], ..banded(Some(30), None, [1, 2, 150, 150]) });
    let lengths = |mask| Backward { mask, has_lengths: true, ..of([5, 2, 100, 150], [64, 64]) };
    add("lengths", lengths(ScoreMask::default()));
    add("lengths_causal", lengths(band(None, Some(0))));
    add(
        "lengths_bottom_right_window",
        lengths(ScoreMask { right_bound: Some(0), left_bound: Some(70), is_bottom_right: true }),
    );
    add("groups", Backward { key_heads: 2, mask: band(None, Some(0)), ..of([2, 8, 70, 130], [64, 64]) });
    let dropped = |keep, shape, head| Backward { keep: Some(keep), ..of(shape, head) };
    add("dropout", dropped(0.5, [2, 2, 70, 90], [64, 64]));
    add("dropout_causal", Backward { mask: band(None, Some(0)), ..dropped(0.9, [1, 2, 150, 150], [128, 128]) });
    let sunk = Backward { has_lengths: true, has_sinks: true, ..dropped(0.75, [3, 6, 100, 90], [64, 64]) };
    add("dropout_groups_lengths_sinks", Backward { key_heads: 2, io: BFloat16, ..sunk });
    add("dropout_heads_of_256", dropped(0.8, [1, 2, 65, 63], [256, 256]));
    for (name, port) in [("queries", Port::DQ), ("keys", Port::DK), ("values", Port::DV)] {
        add(&format!("dropout_{name}_alone"), Backward { alone: Some(port), ..dropped(0.6, [1, 2, 70, 90], [40, 72]) });
    }
    let narrow = Backward { key_heads: 1, mask: band(Some(20), Some(5)), ..of([1, 2, 300, 300], [64, 64]) };
    add("groups_window", narrow);
    let shared = Backward { key_heads: 1, io: BFloat16, has_lengths: true, ..of([2, 3, 140, 40], [128, 128]) };
    add("groups_lengths", shared);
    for (name, scale) in [("negative", Some(-0.25)), ("zero", Some(0.0)), ("none", None)] {
        add(&format!("scale_{name}"), Backward { scale, ..of([1, 2, 30, 140], [64, 64]) });
    }
    let sunk = Backward { has_sinks: true, mask: band(None, Some(0)), ..of([3, 5, 70, 90], [64, 64]) };
    add("sinks", sunk);
    add("sinks_lengths", Backward { has_lengths: true, mask: ScoreMask::default(), ..sunk });
    add("interleaved", Backward { is_interleaved: true, ..of([2, 4, 70, 90], [64, 64]) });
    for (name, port) in [("queries", Port::DQ), ("keys", Port::DK), ("values", Port::DV)] {
        add(&format!("of_{name}_alone"), Backward { alone: Some(port), ..of([1, 2, 70, 90], [64, 64]) });
    }
    let sequences = Backward { is_interleaved: true, has_sinks: true, ..lengths(band(None, Some(0))) };
    for (name, ragged) in [("operands", Ragged::Operands), ("results", Ragged::Results), ("all", Ragged::All)] {
        add(&format!("ragged_{name}"), Backward { ragged, ..sequences });
    }
    let odd = Backward { operand_pitch: 2, has_lengths: true, ..of([3, 1, 1, 70], [32, 32]) };
    add("ragged_one_query_of_odd_rows", Backward { ragged: Ragged::All, is_interleaved: true, ..odd });
    let grouped = Backward { ragged: Ragged::All, is_interleaved: true, head: [72, 40], ..shared };
    add("ragged_groups_heads_of_72_40", grouped);
    for (name, backward) in capped() {
        add(&format!("cap_{name}"), backward);
    }
    for (name, backward) in leaning() {
        add(&format!("alibi_{name}"), backward);
    }
    for (name, backward) in masked() {
        add(&format!("mask_of_dropout_{name}"), backward);
    }
    for (name, backward) in biased() {
        let kind = if backward.bias_gradient.is_some() { BIAS_GRADIENT } else { "bias" };
        add(&format!("{kind}_{name}"), backward);
    }
    add("strided", Backward { pitch: 3, ..of([1, 2, 70, 90], [40, 40]) });
    beyond_boxes(&mut add);
}

/// Heads of types and layouts that boxes of 16-bit heads do not take.
fn beyond_boxes(add: &mut impl FnMut(&str, Backward)) {
    let of = Backward::new;
    for (name, elements) in [("pairs", 2), ("odd_rows", 3)] {
        add(&format!("operands_of_{name}"), Backward { operand_pitch: elements, ..of([1, 2, 70, 90], [40, 40]) });
    }
    // rows begin at multiples of 16 bytes, and do not end there
    add("operands_of_parts_of_vectors", Backward { operand_pitch: 4, ..of([1, 2, 70, 90], [12, 20]) });
    let spread = Backward { is_spread: true, has_lengths: true, ..of([3, 2, 70, 90], [64, 32]) };
    add("operands_spread_lengths", Backward { io: BFloat16, ..spread });
    for (name, head) in [("20_12", [20, 12]), ("7_5", [7, 5]), ("250_254", [250, 254])] {
        add(&format!("heads_of_{name}"), of([1, 2, 65, 63], head));
    }
    let float = |shape, head| Backward { io: Float, ..of(shape, head) };
    add("float", float([2, 2, 70, 90], [64, 64]));
    for (name, head) in [("72_40", [72, 40]), ("3_9", [3, 9]), ("256", [256, 256])] {
        add(&format!("float_heads_of_{name}"), float([1, 2, 65, 63], head));
    }
    let lengths = Backward { has_lengths: true, has_sinks: true, key_heads: 2, ..float([3, 6, 70, 90], [64, 64]) };
    add("float_groups_lengths_sinks", Backward { mask: band(Some(40), Some(0)), ..lengths });
    add("float_dropout", Backward { keep: Some(0.75), ..float([2, 2, 70, 90], [64, 64]) });
    let apart = |[of_keys, of_values]: [i64; 2], shape: [i64; 4]| Backward {
        key_heads: of_keys,
        value_heads: Some(of_values),
        ..of(shape, [64, 40])
    };
    add("groups_of_keys_alone", apart([2, 4], [2, 4, 70, 130]));
    add("groups_of_values_alone", Backward { mask: band(None, Some(0)), ..apart([4, 1], [1, 4, 150, 150]) });
    let dropped = Backward { keep: Some(0.75), has_sinks: true, has_lengths: true, ..apart([2, 3], [3, 6, 70, 90]) };
    add("groups_apart_dropout_lengths_sinks", Backward { io: BFloat16, ..dropped });
    let biased = Backward { bias: Some(([1, 4, 70, 90], Half)), ..apart([1, 2], [2, 4, 70, 90]) };
    add("groups_apart_bias", biased);
    add("groups_apart_values_alone", Backward { alone: Some(Port::DV), ..apart([2, 1], [1, 4, 70, 90]) });
    add("float_ragged", Backward { ragged: Ragged::All, is_interleaved: true, ..lengths });
}

/// A backward pass without options.
pub(crate) fn plain() -> Graph {
    Backward::new([2, 2, 70, 90], [64, 64]).graph()
}

/// So many queries of a few more keys, causal, of two batches with two heads each.
pub(crate) fn causal(queries: i64) -> Graph {
    Backward { mask: band(None, Some(0)), ..Backward::new([2, 2, queries, queries + 20], [64, 64]) }.graph()
}

/// Groups of heads under windows, narrower and wider than a consumer's keys.
pub(crate) fn narrow_windows() -> Vec<(String, Graph)> {
    let graph = |[left, right]: [i64; 2]| {
        let mask = band(Some(left), Some(right));
        let backward = Backward { key_heads: 2, mask, ..Backward::new([1, 4, 330, 330], [64, 64]) };
        (format!("{left}_{right}"), backward.graph())
    };
    [[20, 5], [90, 0], [100, 70]].map(graph).into()
}

/// Backward passes of attentions with a bias, of each score or shared along some axes, and with its gradient.
fn biased() -> Vec<(&'static str, Backward)> {
    let of = |bias, data_type, shape, head| Backward { bias: Some((bias, data_type)), ..Backward::new(shape, head) };
    let with_gradient = |backward: Backward| Backward { bias_gradient: backward.bias.map(|bias| bias.1), ..backward };
    let shape = [2, 2, 70, 90];
    let heads = [64, 64];
    let grouped = of([1, 4, 100, 90], BFloat16, [3, 4, 100, 90], [128, 128]);
    let grouped = Backward { io: BFloat16, key_heads: 2, mask: band(None, Some(0)), has_lengths: true, ..grouped };
    let causal = of([2, 1, 300, 200], Float, [2, 3, 300, 200], heads);
    let window = of([1, 1, 130, 140], Half, [2, 2, 130, 140], [72, 40]);
    let dropped = Backward { keep: Some(0.75), ..of([1, 2, 70, 90], Half, shape, heads) };
    let ragged = Backward { ragged: Ragged::All, is_interleaved: true, key_heads: 1, has_sinks: true, ..grouped };
    let shared = Backward { key_heads: 1, keep: Some(0.5), ..of([1, 1, 1, 89], Half, [2, 4, 70, 89], [40, 72]) };
    let alone = [
        ("of_heads", of([1, 2, 70, 90], Half, shape, heads)),
        ("groups_lengths_causal", grouped),
        ("dropout_groups_of_keys", shared),
        ("float", Backward { io: Float, ..of([2, 1, 70, 90], Float, shape, [36, 36]) }),
        ("heads_of_256", of([1, 1, 65, 64], Float, [1, 2, 65, 64], [256, 256])),
    ];
    let gradients = [
        ("of_heads", of([1, 2, 70, 90], Half, shape, heads)),
        ("of_all", of(shape, Float, shape, heads)),
        ("of_odd_keys", of([1, 1, 33, 77], Half, [2, 2, 33, 77], [16, 16])),
        ("of_keys", of([2, 1, 1, 140], Half, [2, 2, 150, 140], heads)),
        ("of_queries", of([1, 2, 150, 1], Float, [3, 2, 150, 130], heads)),
        ("of_one", of([1, 1, 1, 1], Float, [2, 2, 70, 130], heads)),
        ("of_one_query", of([1, 2, 1, 129], Half, [2, 2, 1, 129], heads)),
        ("groups_lengths_causal", grouped),
        ("causal", Backward { mask: band(None, Some(0)), ..causal }),
        ("window", Backward { mask: band(Some(40), Some(5)), scale: Some(0.0), ..window }),
        ("dropout", dropped),
        ("dropout_groups", Backward { keep: Some(0.5), key_heads: 1, ..dropped }),
        ("heads_of_192_128", of([1, 2, 65, 63], Half, [2, 2, 65, 63], [192, 128])),
        ("heads_of_256", of([1, 1, 65, 64], Half, [1, 2, 65, 64], [256, 256])),
        ("ragged_groups_sinks", ragged),
    ];
    alone.into_iter().chain(gradients.map(|(name, backward)| (name, with_gradient(backward)))).collect()
}

/// Backward passes of attentions whose scores lean by slopes, the frontend's or given ones.
fn leaning() -> Vec<(&'static str, Backward)> {
    let causal = band(None, Some(0));
    let of =
        |shape: [i64; 4], head| Backward { slopes: Slopes::OfFrontend, mask: causal, ..Backward::new(shape, head) };
    let given = |shape, head| Backward { slopes: Slopes::Given, ..of(shape, head) };
    let grouped = Backward { key_heads: 2, has_lengths: true, io: BFloat16, ..given([3, 6, 100, 90], [64, 64]) };
    let biased = Backward { bias: Some(([1, 2, 70, 90], Half)), ..of([2, 2, 70, 90], [64, 64]) };
    vec![
        ("causal", of([2, 2, 150, 150], [64, 64])),
        ("heads_of_no_power_of_two", of([1, 3, 70, 90], [128, 128])),
        ("unscaled", Backward { scale: None, mask: ScoreMask::default(), ..of([1, 2, 70, 90], [72, 40]) }),
        ("given", given([2, 2, 70, 90], [64, 64])),
        ("given_groups_lengths", grouped),
        ("ragged_groups", Backward { ragged: Ragged::All, is_interleaved: true, has_sinks: true, ..grouped }),
        ("groups", Backward { key_heads: 2, ..of([1, 8, 150, 150], [64, 64]) }),
        ("heads_of_256", of([1, 2, 65, 63], [256, 256])),
        ("bias", biased),
        ("bias_gradient", Backward { bias_gradient: Some(Half), ..biased }),
        ("dropout", Backward { keep: Some(0.75), ..given([1, 2, 70, 90], [64, 64]) }),
        ("float", Backward { io: Float, ..of([1, 3, 70, 90], [36, 36]) }),
        ("groups_apart", Backward { key_heads: 1, value_heads: Some(2), ..given([1, 4, 70, 90], [64, 40]) }),
    ]
}

/// Backward passes of attentions whose scores are capped, from hardly to wholly: such scores are about 1 before.
fn capped() -> Vec<(&'static str, Backward)> {
    let of = |cap, shape, head| Backward { cap: Some(Cap::Known(cap)), ..Backward::new(shape, head) };
    let (shape, heads) = ([2, 2, 70, 90], [64, 64]);
    let causal = band(None, Some(0));
    let stored = |data_type| Backward { cap: Some(Cap::Stored(data_type)), ..of(1.0, [1, 2, 70, 90], heads) };
    let grouped = Backward { key_heads: 2, has_lengths: true, io: BFloat16, ..of(1.5, [3, 6, 100, 90], heads) };
    let biased = Backward { bias: Some(([1, 2, 70, 90], Half)), ..of(0.5, shape, heads) };
    let wide = of(2.0, [1, 2, 65, 63], [256, 256]);
    let mut all = vec![
        ("half", of(1.0, shape, heads)),
        ("causal", Backward { mask: causal, ..of(1.0, [1, 2, 300, 300], [128, 128]) }),
        ("heads_of_192_128", of(0.7, [1, 2, 65, 63], [192, 128])),
        ("heads_of_256", wide),
        ("heads_of_256_causal", Backward { mask: causal, io: BFloat16, ..wide }),
        ("unscaled", Backward { scale: None, ..of(20.0, [1, 2, 70, 90], [72, 40]) }),
        ("scale_zero", Backward { scale: Some(0.0), ..of(1.0, [1, 2, 30, 140], heads) }),
        ("scale_negative", Backward { scale: Some(-0.25), ..of(1.0, [1, 2, 30, 140], heads) }),
        // all scores saturated, or where their slope vanishes at the type's smallest numbers
        ("tiny", of(0.02, [1, 2, 70, 90], heads)),
        ("vanishing", Backward { io: Float, ..of(1e-30, [1, 2, 30, 40], [16, 16]) }),
        ("steep", Backward { io: Float, ..of(0.15, [1, 2, 30, 40], [16, 16]) }),
        // where a tanh whose error is one of 1 would be far off
        ("huge", of(1e6, [1, 2, 70, 90], heads)),
        ("huge_float", Backward { io: Float, ..of(1e6, [1, 2, 70, 90], heads) }),
        ("enormous", of(1e30, [1, 2, 70, 90], heads)),
        ("negative", of(-1.0, [1, 2, 70, 90], heads)),
        ("stored", stored(Float)),
        ("stored_half", stored(Half)),
        ("window", Backward { mask: band(Some(40), Some(5)), ..of(1.0, [2, 1, 130, 140], heads) }),
        ("groups_lengths", grouped),
        ("ragged_groups_sinks", Backward { ragged: Ragged::All, is_interleaved: true, has_sinks: true, ..grouped }),
        ("bias", biased),
        ("bias_gradient", Backward { bias_gradient: Some(Half), ..biased }),
        (
            "bias_gradient_of_keys",
            Backward { bias: Some(([1, 1, 1, 90], Float)), bias_gradient: Some(Float), ..biased },
        ),
        ("bias_alibi", Backward { slopes: Slopes::OfFrontend, mask: causal, ..biased }),
        ("alibi", Backward { slopes: Slopes::Given, ..of(0.5, [1, 2, 70, 90], heads) }),
        ("dropout", Backward { keep: Some(0.75), ..of(1.0, [1, 2, 70, 90], [128, 128]) }),
        ("dropout_bias_gradient", Backward { keep: Some(0.75), bias_gradient: Some(Half), ..biased }),
        ("mask_of_dropout", Backward { masked: Some(([2, 2, 70, 90], Half)), ..of(1.0, shape, heads) }),
        ("float", Backward { io: Float, has_sinks: true, ..of(1.0, [1, 3, 70, 90], [36, 36]) }),
        ("groups_apart", Backward { key_heads: 1, value_heads: Some(2), ..of(1.0, [1, 4, 70, 90], [64, 40]) }),
    ];
    for (name, port) in [("queries_alone", Port::DQ), ("keys_alone", Port::DK), ("values_alone", Port::DV)] {
        all.push((name, Backward { alone: Some(port), ..of(1.0, [1, 2, 70, 90], [40, 72]) }));
    }
    all
}

/// Backward passes of attentions whose probabilities a mask is multiplied by.
fn masked() -> Vec<(&'static str, Backward)> {
    let of = |mask, data_type, shape, head| Backward { masked: Some((mask, data_type)), ..Backward::new(shape, head) };
    let (shape, heads) = ([2, 2, 70, 90], [64, 64]);
    let causal = band(None, Some(0));
    let grouped = of([1, 6, 100, 90], BFloat16, [3, 6, 100, 90], heads);
    let grouped = Backward { key_heads: 2, has_lengths: true, has_sinks: true, io: BFloat16, ..grouped };
    let biased = Backward { bias: Some(([1, 2, 70, 90], Half)), mask: causal, ..of(shape, Half, shape, heads) };
    let apart = of([1, 4, 70, 90], Half, [1, 4, 70, 90], [64, 40]);
    let mut all = vec![
        ("of_all", of(shape, Half, shape, heads)),
        ("of_float", of([1, 2, 70, 90], Float, shape, heads)),
        ("of_odd_keys", of([1, 1, 33, 77], Half, [2, 2, 33, 77], [16, 16])),
        ("of_keys", Backward { mask: causal, ..of([2, 1, 1, 140], Half, [2, 2, 150, 140], [128, 128]) }),
        ("of_queries", of([1, 1, 150, 1], Half, [1, 2, 150, 130], [192, 128])),
        ("groups_lengths_sinks", grouped),
        ("ragged_groups_sinks", Backward { ragged: Ragged::All, is_interleaved: true, ..grouped }),
        ("heads_of_256", of([1, 2, 65, 63], Half, [1, 2, 65, 63], [256, 256])),
        ("bias", biased),
        ("bias_gradient", Backward { bias_gradient: Some(Half), ..biased }),
        ("alibi", Backward { slopes: Slopes::OfFrontend, ..biased }),
        ("float", Backward { io: Float, ..of(shape, Float, shape, [36, 36]) }),
        ("groups_apart", Backward { key_heads: 1, value_heads: Some(2), ..apart }),
    ];
    for (name, port) in [("queries_alone", Port::DQ), ("keys_alone", Port::DK), ("values_alone", Port::DV)] {
        all.push((name, Backward { alone: Some(port), ..of([1, 2, 70, 90], Half, shape, [40, 72]) }));
    }
    all
}

/// Q, K, V, O, dO and the statistics.
const HEADS: usize = 6;

fn band(left_bound: Option<i64>, right_bound: Option<i64>) -> ScoreMask {
    ScoreMask { left_bound, right_bound, is_bottom_right: false }
}

/// What scores are capped by: a known number, or one in memory.
#[derive(Clone, Copy)]
enum Cap {
    Known(f64),
    Stored(DataType),
}

/// By what scores lean.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Slopes {
    Nothing,
    OfFrontend,
    Given,
}

/// The backward pass of an attention of `[batches, heads, queries, keys]` and heads of so many elements, of queries and of values.
#[derive(Clone, Copy)]
struct Backward {
    io: DataType,
    shape: [i64; 4],
    head: [i64; 2],
    key_heads: i64,
    /// Heads of V, where it has others than K.
    value_heads: Option<i64>,
    scale: Option<f64>,
    mask: ScoreMask,
    /// What is added to the bounds of the mask, left and right, by host scalars.
    bounds: [Option<f64>; 2],
    has_lengths: bool,
    has_sinks: bool,
    /// The probability to keep, where some are dropped.
    keep: Option<f32>,
    /// Extents of a mask that probabilities are multiplied by, and its type.
    masked: Option<([i64; 4], DataType)>,
    slopes: Slopes,
    /// What scores are capped by.
    cap: Option<Cap>,
    /// Extents of a bias of scores, and its type.
    bias: Option<([i64; 4], DataType)>,
    /// Whether the gradient of the bias is stored, and its type.
    bias_gradient: Option<DataType>,
    /// Whether heads of a position lie side by side.
    is_interleaved: bool,
    /// Elements beyond a row of O and of the gradients.
    pitch: i64,
    /// Elements beyond a row of Q, K, V and dO.
    operand_pitch: i64,
    /// Whether elements of a row lie two apart, of all tensors of heads.
    is_spread: bool,
    /// The gradient that is stored, if it is one alone.
    alone: Option<Port>,
    ragged: Ragged,
    /// What scales it, in FP8.
    scaling: Option<Scaling>,
}

impl Backward {
    fn new(shape: [i64; 4], head: [i64; 2]) -> Self {
        Self {
            io: Half,
            shape,
            head,
            key_heads: shape[1],
            value_heads: None,
            scale: Some(0.125),
            mask: ScoreMask::default(),
            bounds: [None; 2],
            has_lengths: false,
            has_sinks: false,
            keep: None,
            masked: None,
            slopes: Slopes::Nothing,
            cap: None,
            bias: None,
            bias_gradient: None,
            is_interleaved: false,
            pitch: 0,
            operand_pitch: 0,
            is_spread: false,
            alone: None,
            ragged: Ragged::Nothing,
            scaling: None,
        }
    }

    fn graph(self) -> Graph {
        let [batches, heads, queries, keys] = self.shape;
        let [head, value_head] = self.head;
        let value_heads = self.value_heads.unwrap_or(self.key_heads);
        let mut graph = Graph::new().io_data_type(self.io).compute_data_type(Float).intermediate_data_type(Float);
        let matrices = |name: &str, heads, rows, size| self.matrices(name, [heads, rows, size], self.operand_pitch);
        let mut inputs = Vec::new();
        let rows = Tensor::new("Stats").dim([batches, heads, queries, 1]).data_type(Float);
        let rows = match self.is_interleaved {
            true => rows.stride([heads * queries, 1, heads, 1]),
            false => rows.stride([heads * queries, queries, 1, 1]),
        };
        for (port, tensor) in [
            (Port::Q, matrices("Q", heads, queries, head)),
            (Port::K, matrices("K", self.key_heads, keys, head)),
            (Port::V, matrices("V", value_heads, keys, value_head)),
            (Port::O, self.matrices("O", [heads, queries, value_head], self.pitch)),
            (Port::DO, matrices("dO", heads, queries, value_head)),
            (Port::STATS, rows),
        ] {
            inputs.push((port, graph.tensor(tensor)));
        }
        let scalar = |name: &str, value| Tensor::scalar(name, Float, Scalar::Float(value));
        if let Some(scale) = self.scale {
            inputs.push((Port::ATTN_SCALE, graph.tensor(scalar("scale", scale))));
        }
        match self.cap {
            Some(Cap::Known(cap)) => inputs.push((Port::SOFT_CAP, graph.tensor(scalar("cap", cap)))),
            Some(Cap::Stored(data_type)) => {
                let cap = Tensor::new("cap").row_major([1; 4]).data_type(data_type);
                inputs.push((Port::SOFT_CAP, graph.tensor(cap)));
            }
            None => {}
        }
        if let Some((dim, data_type)) = self.bias {
            let bias = Tensor::new("bias").row_major(dim).data_type(data_type);
            inputs.push((Port::ATTENTION_BIAS, graph.tensor(bias)));
        }
        for &port in ScoreMask::LENGTHS.iter().filter(|_| self.has_lengths) {
            let length = Tensor::new(port.0).row_major([batches, 1, 1, 1]).data_type(Int32);
            inputs.push((port, graph.tensor(length)));
        }
        for (&port, bound) in ScoreMask::BOUNDS.iter().zip(self.bounds) {
            if let Some(bound) = bound {
                inputs.push((port, graph.tensor(scalar(port.0, bound))));
            }
        }
        if let Some(keep) = self.keep {
            for port in Dropout::STATE {
                inputs.push((port, graph.tensor(Tensor::new(port.0).row_major([1; 4]).data_type(Int64))));
            }
            inputs.push((Port::DROPOUT_SCALE, graph.tensor(scalar("factor", f64::from(1.0 / keep)))));
        }
        if let Some((dim, data_type)) = self.masked {
            let mask = Tensor::new("drop mask").row_major(dim).data_type(data_type);
            inputs.push((Port::DROPOUT_MASK, graph.tensor(mask)));
            for (port, value) in [(Port::DROPOUT_SCALE, 1.25), (Port::DROPOUT_SCALE_INV, 0.75)] {
                inputs.push((port, graph.tensor(scalar(port.0, value))));
            }
        }
        if self.slopes == Slopes::Given {
            let slopes = Tensor::new("slopes").row_major([1, heads, 1, 1]).data_type(Float);
            inputs.push((Port::ALIBI_SLOPES, graph.tensor(slopes)));
        }
        let scaling = self.scaling;
        inputs.extend(scaling.iter().flat_map(|scaling| scaling.inputs(&mut graph)));
        for (place, data_type) in
            scaling.into_iter().flat_map(|scaling| [(1, scaling.keys), (4, scaling.of_output_gradient)])
        {
            graph.tensor_mut(inputs[place].1).data_type = data_type;
        }
        let dump = Tensor::new("mask").row_major(self.shape).data_type(Float);
        let results = [
            (Port::DQ, [heads, queries, head]),
            (Port::DK, [self.key_heads, keys, head]),
            (Port::DV, [value_heads, keys, value_head]),
        ];
        let mut ports = results.map(|result| result.0).to_vec();
        let sinks = |name: &str| Tensor::new(name).row_major([1, heads, 1, 1]).data_type(Float);
        if self.has_sinks {
            inputs.push((Port::SINK_TOKEN, graph.tensor(sinks("sink"))));
            ports.push(Port::DSINK_TOKEN);
        }
        let bias_gradient = self.bias.zip(self.bias_gradient).map(|((dim, _), data_type)| (dim, data_type));
        ports.extend(bias_gradient.map(|_| Port::ATTENTION_DBIAS));
        let dropout = self.keep.map(|keep| Dropout { kept: Bernoulli { keep } });
        let backward = AttentionBackward { mask: self.mask, dropout, alibi: self.slopes == Slopes::OfFrontend };
        let dumps = self.keep.is_some() && self.alone.is_none();
        ports.extend(dumps.then_some(Port::RNG_DUMP));
        ports.extend(scaling.iter().flat_map(|scaling| scaling.ports()));
        let mut gradients = graph.composite("backward", backward, &inputs, &ports);
        if let Some(scaling) = scaling {
            scaling.keep(&mut graph, &mut gradients);
        }
        if let Some(id) = gradients.pop_if(|_| dumps) {
            *graph.set_output(id) = dump;
        }
        if let Some((dim, data_type)) = bias_gradient
            && let Some(id) = gradients.pop()
        {
            *graph.set_output(id) = Tensor::new("dBias").row_major(dim).data_type(data_type);
        }
        if let [.., id] = gradients[..]
            && self.has_sinks
        {
            *graph.set_output(id) = sinks("dSink");
        }
        let operands: Vec<TensorHandle> = inputs.iter().take(HEADS).map(|slot| slot.1).collect();
        for (&id, (port, extents)) in gradients.iter().zip(results) {
            *graph.set_output(id) = self.matrices(port.0, extents, self.pitch);
            let tensor = graph.tensor_mut(id);
            tensor.is_virtual = self.alone.is_some_and(|alone| alone != port);
            tensor.data_type = scaling.and_then(|scaling| scaling.results);
        }
        self.ragged.apply(&mut graph, &operands, &gradients[..results.len()]);
        graph
    }

    fn matrices(self, name: &str, [heads, rows, size]: [i64; 3], pitch: i64) -> Tensor {
        let row = size + pitch;
        let stride = match self.is_interleaved {
            _ if self.is_spread => [2 * heads * rows * size, 2 * rows * size, 2 * size, 2],
            true => [heads * rows * row, row, heads * row, 1],
            false => [heads * rows * row, rows * row, row, 1],
        };
        Tensor::new(name).dim([self.shape[0], heads, rows, size]).stride(stride)
    }
}
