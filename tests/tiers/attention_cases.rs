//! Attention, forward: masks and lengths, groups of heads, statistics, sinks, operations on scores, heads of every size.

use fusewright::graph::DataType::{BFloat16, Double, Float, Fp8E4M3, Fp8E5M2, Half, Int8, Int32, Int64, UInt8};
use fusewright::graph::{
    Bernoulli, DataType, Dropout, Graph, MaskedDropout, PagedCacheLoad, Pointwise, PointwiseMode, Port, ReductionMode,
    Scalar, ScoreMask, Softmax, Tensor, TensorHandle,
};

use crate::cases::{self, Case, output, push};

/// Dims of a mask of dropout that is one number, given by value.
const BY_VALUE: [i64; 4] = [1; 4];

/// Adds the cases of this file.
pub(crate) fn attentions(cases: &mut Vec<Case>) {
    let mut add = |name: &str, attention: Attention| push(cases, format!("attention_{name}"), attention.graph());
    let of = Attention::new;
    add("half", of([2, 2, 70, 90], [64, 64]));
    add("bf16", Attention { io: BFloat16, ..of([1, 3, 33, 65], [64, 64]) });
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
        add(&format!("heads_of_{name}"), Attention { statistics: &[], ..of([1, 2, 65, 63], head) });
    }
    let causal = |shape, head| Attention { mask: band(None, Some(0)), ..of(shape, head) };
    add("causal", causal([1, 2, 300, 300], [64, 64]));
    add("sections_even", causal([1, 6, 210, 210], [64, 64]));
    add("sections_of_fewer_heads", causal([1, 5, 210, 210], [64, 64]));
    add("causal_more_queries", causal([1, 2, 200, 100], [64, 64]));
    add("causal_more_keys", causal([1, 2, 100, 200], [64, 64]));
    add("causal_bottom_right", Attention { mask: band(None, Some(60)), ..of([1, 2, 40, 100], [64, 64]) });
    add("rows_without_keys", Attention { mask: band(None, Some(-10)), ..of([1, 2, 70, 60], [64, 64]) });
    add("window", Attention { mask: band(Some(40), Some(0)), statistics: ALL, ..of([1, 2, 300, 300], [64, 64]) });
    add("window_of_none", Attention { mask: band(Some(0), Some(0)), statistics: ALL, ..of([1, 1, 20, 20], [64, 64]) });
    let by_value =
        Attention { mask: band(Some(30), None), bounds: [Some(10.0), Some(-3.0)], ..of([1, 2, 150, 150], [64, 64]) };
    add("window_by_value", Attention { statistics: ALL, ..by_value });
    add("window_to_both_sides", Attention { mask: band(Some(9), Some(5)), ..of([2, 1, 130, 140], [64, 64]) });
    let lengths = |mask| Attention { mask, has_lengths: true, statistics: ALL, ..of([5, 2, 100, 150], [64, 64]) };
    add("lengths", lengths(None));
    add("lengths_causal", lengths(band(None, Some(0))));
    let bottom_right = ScoreMask { right_bound: Some(0), left_bound: Some(70), is_bottom_right: true };
    add("lengths_bottom_right_window", lengths(Some(bottom_right)));
    let grouped = |keys, values, shape| Attention { key_heads: [keys, values], ..of(shape, [64, 64]) };
    add("groups", Attention { mask: band(None, Some(0)), ..grouped(2, 2, [2, 8, 70, 130]) });
    add("sections_of_groups", Attention { mask: band(None, Some(0)), ..grouped(2, 2, [2, 4, 100, 230]) });
    add("groups_of_keys_alone", grouped(2, 4, [2, 4, 40, 70]));
    add("groups_few_queries", Attention { statistics: ALL, ..grouped(1, 1, [2, 8, 3, 200]) });
    let few = Attention { mask: Some(bottom_right), has_lengths: true, sinks: true, ..grouped(2, 2, [3, 16, 5, 90]) };
    add("groups_few_queries_lengths_sinks", Attention { io: BFloat16, statistics: ALL, ..few });
    add(
        "sinks",
        Attention { sinks: true, statistics: ALL, mask: band(None, Some(-5)), ..of([2, 2, 66, 66], [64, 64]) },
    );
    let sinks = Attention { statistics: ALL, key_heads: [1, 1], ..of([3, 4, 5, 70], [64, 64]) };
    for (name, dim) in [("one_sink", [1; 4]), ("sinks_of_batches", [3, 1, 1, 1]), ("sinks_of_all_heads", [3, 4, 1, 1])]
    {
        add(name, Attention { sinks: true, sink_dim: Some(dim), ..sinks });
    }
    let scaled = |scale: f64| Attention { scale: Some(scale), statistics: ALL, ..of([1, 2, 30, 140], [64, 64]) };
    add("scale_negative", scaled(-0.25));
    add("scale_double", Attention { scale_type: Double, ..scaled(0.3) });
    add("scores_rounded_to_half", Attention { modify: Modifier::Half, ..of([1, 1, 5, 129], [8, 64]) });
    for (name, data_type) in [("double", Double), ("int32", Int32)] {
        let modify = Modifier::Gelu(data_type);
        add(&format!("scores_of_{name}"), Attention { modify, ..of([1, 2, 30, 140], [64, 64]) });
    }
    add("scale_zero", Attention { mask: band(None, Some(3)), ..scaled(0.0) });
    add("scale_none", Attention { scale: None, statistics: ALL, ..of([1, 2, 30, 140], [32, 32]) });
    add("scale_large", scaled(30.0));
    add("scale_of_integers", Attention { scale_type: Int32, ..scaled(2.0) });
    add("statistics_by_position", Attention { are_by_position: true, statistics: ALL, ..of([2, 3, 40, 70], [64, 64]) });
    let modified = |modify| Attention { modify, statistics: ALL, ..of([2, 2, 70, 140], [64, 64]) };
    add("bias", modified(Modifier::Bias([1, 2, 70, 140])));
    add("bias_of_keys", modified(Modifier::Bias([2, 1, 1, 140])));
    add("bias_of_odd_keys", Attention { modify: Modifier::Bias([1, 2, 33, 77]), ..of([2, 2, 33, 77], [64, 64]) });
    add("soft_cap", Attention { mask: band(Some(100), Some(0)), ..modified(Modifier::SoftCap) });
    add("alibi", Attention { mask: band(None, Some(0)), ..modified(Modifier::Alibi) });
    let packed = Attention { modify: Modifier::Alibi, key_heads: [2, 2], ..of([2, 8, 4, 140], [64, 64]) };
    add("alibi_few_queries", packed);
    let dropped = |keep, shape, head| Attention { dropout: Some((keep, Int32)), statistics: ALL, ..of(shape, head) };
    add("dropout", Attention { dumps: true, ..dropped(0.5, [2, 2, 70, 90], [64, 64]) });
    add("dropout_causal", Attention { mask: band(None, Some(0)), ..dropped(0.9, [1, 2, 150, 150], [128, 128]) });
    let by_value = Attention { dropout: Some((0.75, Int64)), ..of([2, 2, 70, 200], [64, 64]) };
    add("dropout_by_value", Attention { io: BFloat16, modify: Modifier::SoftCap, ..by_value });
    let few = Attention { key_heads: [2, 2], has_lengths: true, sinks: true, ..dropped(0.8, [3, 8, 5, 190], [64, 64]) };
    let few = Attention { dumps: true, ..few };
    add("dropout_groups_lengths_sinks", Attention { io: BFloat16, mask: Some(bottom_right), ..few });
    let masked = |dim, shape| Attention { drop_mask: Some(dim), ..of(shape, [64, 64]) };
    add("dropout_mask", masked([2, 2, 70, 90], [2, 2, 70, 90]));
    let few = Attention { key_heads: [2, 2], has_lengths: true, ..masked([1, 8, 5, 130], [2, 8, 5, 130]) };
    add("dropout_mask_groups_lengths", Attention { io: BFloat16, statistics: ALL, ..few });
    add("dropout_mask_by_value", masked(BY_VALUE, [1, 2, 20, 40]));
    add("dropout_of_almost_all", dropped(1e-6, [1, 2, 20, 40], [40, 72]));
    add("dropout_of_nothing", dropped(1.0, [1, 2, 20, 40], [64, 64]));
    add("interleaved", Attention { is_interleaved: true, ..of([2, 4, 70, 90], [64, 64]) });
    for (name, ragged) in [("operands", Ragged::Operands), ("results", Ragged::Results), ("all", Ragged::All)] {
        let lengths = Attention { ragged, is_interleaved: true, are_by_position: true, ..lengths(band(None, Some(0))) };
        add(&format!("ragged_{name}"), lengths);
    }
    let odd = Attention { operand_pitch: 2, output_pitch: 2, has_lengths: true, ..of([3, 1, 1, 70], [32, 32]) };
    let odd = Attention { ragged: Ragged::All, is_interleaved: true, are_by_position: true, ..odd };
    add("ragged_one_query_of_odd_rows", odd);
    let few = Attention { ragged: Ragged::All, is_interleaved: true, are_by_position: true, ..few };
    add("ragged_groups_few_queries", Attention { statistics: ALL, ..few });
    add("ragged_heads_of_72_40", Attention { head: [72, 40], statistics: &[], key_heads: [2, 1], ..few });
    add("ragged_heads_outside", Attention { is_interleaved: false, are_by_position: false, ..few });
    let paged = |rows, shape, head| Attention { has_lengths: true, pages: Pages::of(rows), ..of(shape, head) };
    for rows in [1, 2, 16, 64, 128] {
        add(&format!("pages_of_{rows}"), paged([rows, rows], [2, 2, 40, 150], [64, 64]));
    }
    add("pages_that_steps_are_no_multiples_of", paged([24, 7], [2, 2, 40, 150], [64, 64]));
    let few =
        Attention { key_heads: [2, 2], io: BFloat16, statistics: &[], ..paged([64, 64], [3, 16, 1, 300], [128, 128]) };
    add("pages_groups_one_query", few);
    let packed = Attention { key_heads: [1, 1], mask: Some(bottom_right), ..paged([16, 32], [4, 4, 6, 100], [64, 64]) };
    add("pages_packed_tables", Attention { pages: packed.pages.packed(), statistics: ALL, sinks: true, ..packed });
    let causal = ScoreMask { right_bound: Some(0), left_bound: None, is_bottom_right: true };
    let wide = Attention { mask: Some(causal), ..paged([128, 16], [2, 2, 33, 200], [192, 128]) };
    add("pages_causal_heads_of_192_128", wide);
    add("pages_of_keys_alone", paged([16, 0], [3, 2, 17, 90], [72, 40]));
    add("pages_of_values_alone", Attention { is_interleaved: true, ..paged([0, 8], [3, 2, 17, 90], [64, 64]) });
    let spare = Pages { spare: 3, ..Pages::of([16, 16]) };
    add("pages_of_larger_tables", Attention { pages: spare, ..paged([16, 16], [2, 2, 9, 70], [64, 64]) });
    add("pages_short_sequences", Attention { statistics: ALL, ..paged([1, 2], [7, 1, 3, 2], [64, 64]) });
    add(
        "pages_shared",
        Attention { pages: Pages { count: 3, ..Pages::of([32, 32]) }, ..paged([32, 32], [3, 2, 9, 130], [64, 64]) },
    );
    let ragged = Attention { ragged: Ragged::Results, is_interleaved: true, are_by_position: true, ..packed };
    add("pages_ragged_results", ragged);
    let biased = Attention { modify: Modifier::Bias([1, 2, 40, 150]), ..paged([64, 64], [2, 2, 40, 150], [64, 64]) };
    add("pages_bias_dropout", Attention { dropout: Some((0.75, Int64)), ..biased });
    add("strided_output", Attention { output_pitch: 3, ..of([1, 2, 70, 90], [40, 40]) });
    blocks_of_scores(&mut add);
    beyond_boxes(&mut add);
    in_fp8(&mut add);
    few_queries_of_many_keys(&mut add);
}

/// Values in FP8, scaled.
fn in_fp8(add: &mut impl FnMut(&str, Attention)) {
    let of = |shape, head| Attention { io: Fp8E4M3, fp8: Some(Fp8::ALL), ..Attention::new(shape, head) };
    add("fp8", of([2, 2, 70, 150], [64, 64]));
    add("fp8_e5m2", Attention { io: Fp8E5M2, ..of([1, 2, 70, 150], [64, 64]) });
    for (name, head) in [("16", [16, 16]), ("128", [128, 128]), ("96_48", [96, 48]), ("192_128", [192, 128])] {
        add(&format!("fp8_heads_of_{name}"), of([1, 2, 65, 263], head));
    }
    for (name, head) in [("256", [256, 256]), ("64_144", [64, 144]), ("64_192", [64, 192])] {
        add(&format!("fp8_heads_of_{name}"), of([1, 1, 65, 163], head));
    }
    let causal = Attention { mask: band(None, Some(0)), statistics: ALL, ..of([1, 4, 200, 200], [128, 128]) };
    add("fp8_causal_groups", Attention { key_heads: [2, 2], is_interleaved: true, ..causal });
    add("fp8_one_query", Attention { key_heads: [1, 1], ..of([2, 8, 1, 300], [64, 64]) });
    let lengths = Attention { has_lengths: true, sinks: true, ..of([5, 2, 100, 150], [64, 64]) };
    let lengths = Attention { statistics: ALL, mask: band(Some(40), Some(0)), ..lengths };
    add("fp8_lengths_sinks_window", lengths);
    let ragged = Attention { ragged: Ragged::All, is_interleaved: true, are_by_position: true, ..lengths };
    add("fp8_ragged", ragged);
    add("fp8_blocks_lengths_sinks", Attention { has_blocks: true, shape: [3, 2, 150, 400], ..lengths });
    let paged = Attention { has_lengths: true, pages: Pages::of([16, 32]), ..of([3, 4, 9, 150], [64, 64]) };
    add("fp8_pages", Attention { key_heads: [2, 2], ..paged });
    add("fp8_pages_packed_tables", Attention { pages: paged.pages.packed(), key_heads: [1, 1], ..paged });
    add("fp8_soft_cap", Attention { modify: Modifier::SoftCap, ..of([1, 2, 70, 140], [64, 64]) });
    add("fp8_output_of_half", Attention { output: Some(Half), ..of([1, 2, 70, 140], [64, 64]) });
    add("fp8_output_of_float", Attention { output: Some(Float), ..of([1, 2, 33, 40], [32, 48]) });
    add("fp8_strided_output", Attention { output_pitch: 3, ..of([1, 2, 70, 90], [48, 48]) });
    add(
        "fp8_largest_alone",
        Attention { fp8: Some(Fp8 { factors: false, largest: true }), ..of([1, 2, 70, 90], [64, 64]) },
    );
    add("fp8_values_turned", Attention { has_turned_values: true, ..of([2, 2, 33, 90], [64, 64]) });
    add("fp8_factors_of_half", Attention { scale_type: Half, ..of([1, 2, 33, 90], [64, 64]) });
    add("fp8_unscaled", Attention { fp8: None, ..of([1, 2, 70, 90], [64, 64]) });
    add(
        "fp8_factors_alone",
        Attention { fp8: Some(Fp8 { factors: true, largest: false }), ..of([1, 2, 70, 90], [64, 64]) },
    );
}

/// Blocks of scores that a mask leaves out, with whatever else is told of rows.
fn blocks_of_scores(add: &mut impl FnMut(&str, Attention)) {
    let of = |shape, head| Attention { has_blocks: true, statistics: ALL, ..Attention::new(shape, head) };
    let corner = ScoreMask { right_bound: Some(0), left_bound: Some(300), is_bottom_right: true };
    add("blocks", of([2, 2, 300, 520], [64, 64]));
    add("blocks_of_one", of([2, 3, 7, 5], [16, 16]));
    add("blocks_of_many_keys", Attention { statistics: &[], ..of([1, 2, 140, 1300], [64, 64]) });
    let window = Attention { mask: band(Some(200), Some(0)), has_lengths: true, ..of([2, 2, 200, 600], [128, 128]) };
    add("blocks_lengths_window", Attention { key_heads: [1, 1], io: BFloat16, modify: Modifier::SoftCap, ..window });
    add("blocks_causal_sinks", Attention { sinks: true, mask: band(None, Some(0)), ..of([2, 2, 260, 390], [64, 64]) });
    add(
        "blocks_bias_few_queries",
        Attention { modify: Modifier::Bias([1, 4, 5, 400]), ..of([2, 4, 5, 400], [64, 64]) },
    );
    add("blocks_heads_of_192_128", Attention { key_heads: [2, 1], ..of([2, 4, 150, 260], [192, 128]) });
    add("blocks_heads_of_256", of([1, 2, 130, 300], [256, 256]));
    let dropped = Attention { dropout: Some((0.75, Int32)), key_heads: [2, 2], ..of([2, 4, 130, 300], [64, 64]) };
    add("blocks_dropout_groups", dropped);
    let lengths =
        Attention { mask: Some(corner), has_lengths: true, key_heads: [2, 2], ..of([3, 4, 150, 400], [64, 64]) };
    let ragged = Attention { ragged: Ragged::All, is_interleaved: true, are_by_position: true, ..lengths };
    add("blocks_ragged_sinks", Attention { sinks: true, ..ragged });
    add("blocks_pages", Attention { pages: Pages::of([64, 16]), ..lengths });
    add("blocks_heads_of_20_12", of([1, 2, 140, 300], [20, 12]));
    add("blocks_float", Attention { io: Float, sinks: true, ..lengths });
}

/// Keys that blocks share, with whatever else is told of rows.
fn few_queries_of_many_keys(add: &mut impl FnMut(&str, Attention)) {
    let of = |shape, head| Attention { io: BFloat16, ..Attention::new(shape, head) };
    let grouped = |shape| Attention { key_heads: [2, 2], ..of(shape, [64, 64]) };
    add("parts_groups_sinks", Attention { sinks: true, ..grouped([2, 8, 1, 700]) });
    let lengths = Attention { has_lengths: true, ..grouped([5, 4, 3, 600]) };
    let causal = ScoreMask { right_bound: Some(0), left_bound: None, is_bottom_right: true };
    add("parts_lengths_sinks", Attention { sinks: true, mask: Some(causal), ..lengths });
    add("parts_window", Attention { mask: band(Some(400), Some(300)), ..of([1, 2, 70, 700], [64, 64]) });
    add("parts_causal", Attention { mask: band(None, Some(0)), ..of([1, 1, 300, 900], [128, 128]) });
    let modified = Attention { modify: Modifier::Bias([1, 2, 20, 500]), ..of([1, 2, 20, 500], [40, 72]) };
    add("parts_bias_dropout", Attention { dropout: Some((0.75, Int32)), ..modified });
    let ragged = Attention { ragged: Ragged::All, is_interleaved: true, are_by_position: true, ..lengths };
    add("parts_ragged", ragged);
    add("parts_pages", Attention { has_lengths: true, pages: Pages::of([64, 16]), ..grouped([2, 8, 1, 800]) });
    let blocked = Attention { has_blocks: true, sinks: true, ..lengths };
    add("parts_blocks_lengths_sinks", Attention { shape: [3, 4, 5, 1400], ..blocked });
    add("parts_heads_of_256", Attention { statistics: &[], ..of([1, 2, 5, 400], [256, 256]) });
}

/// Heads of types and layouts that boxes of 16-bit heads do not take.
fn beyond_boxes(add: &mut impl FnMut(&str, Attention)) {
    let of = Attention::new;
    for (name, elements) in [("pairs", 2), ("fours", 4)] {
        add(&format!("operands_in_{name}"), Attention { operand_pitch: elements, ..of([1, 2, 70, 90], [40, 40]) });
    }
    add("operands_of_odd_rows", Attention { operand_pitch: 3, statistics: ALL, ..of([1, 2, 70, 90], [40, 40]) });
    add("operands_unaligned", Attention { alignment: 2, ..of([1, 2, 33, 40], [64, 64]) });
    add("operands_turned", Attention { is_turned: true, ..of([2, 2, 40, 70], [64, 32]) });
    for (name, head) in [("20_12", [20, 12]), ("7_5", [7, 5]), ("1", [1, 1]), ("250_254", [250, 254])] {
        add(&format!("heads_of_{name}"), of([1, 2, 65, 63], head));
    }
    let turned =
        Attention { is_turned: true, has_lengths: true, mask: band(None, Some(0)), ..of([3, 2, 70, 90], [64, 64]) };
    add("operands_turned_lengths", Attention { io: BFloat16, statistics: ALL, ..turned });
    add("ragged_operands_turned", Attention { ragged: Ragged::Operands, ..turned });
    let float = |shape, head| Attention { io: Float, ..of(shape, head) };
    add("float", Attention { statistics: ALL, ..float([2, 2, 70, 90], [64, 64]) });
    for (name, head) in [("8", [8, 8]), ("72_40", [72, 40]), ("3_9", [3, 9]), ("256", [256, 256])] {
        add(&format!("float_heads_of_{name}"), float([1, 2, 65, 63], head));
    }
    let lengths = Attention { has_lengths: true, sinks: true, statistics: ALL, ..float([5, 8, 40, 150], [64, 64]) };
    add("float_groups_lengths_sinks", Attention { key_heads: [2, 2], mask: band(Some(70), Some(0)), ..lengths });
    add("float_bias", Attention { modify: Modifier::Bias([1, 2, 70, 140]), ..float([2, 2, 70, 140], [64, 64]) });
    add("float_dropout", Attention { dropout: Some((0.5, Int32)), ..float([2, 2, 70, 90], [64, 64]) });
    add("float_dropout_mask", Attention { drop_mask: Some([2, 1, 70, 90]), ..float([2, 2, 70, 90], [32, 32]) });
    let ragged = Attention { ragged: Ragged::All, is_interleaved: true, are_by_position: true, ..lengths };
    add("float_ragged", ragged);
    add(
        "float_ragged_operands_turned",
        Attention { is_turned: true, is_interleaved: false, key_heads: [8, 8], ..ragged },
    );
    add("float_operands_turned", Attention { is_turned: true, ..float([2, 2, 40, 70], [64, 32]) });
    add("float_output_of_half", Attention { output: Some(Float), ..of([1, 2, 70, 90], [64, 64]) });
}

/// Dropout by a mask of a type, over several steps of keys.
pub(crate) fn dropout_by_mask(data_type: DataType) -> Graph {
    let shape = [1, 1, 40, 600];
    let mut graph = Attention { drop_mask: Some(shape), scale: Some(1.0), ..Attention::new(shape, [64, 64]) }.graph();
    let mask = graph.tensor_ids().find(|id| graph.tensors()[id.index()].name == "drop_mask");
    mask.into_iter().for_each(|id| graph.tensor_mut(id).data_type = Some(data_type));
    graph
}

/// Sinks, a bias that is one number, and all statistics: where both are large, exponentials are of a reference that is rounded.
pub(crate) fn sinks_and_bias() -> Graph {
    let shape = [1, 2, 30, 90];
    let modify = Modifier::Bias([1; 4]);
    Attention { sinks: true, modify, statistics: ALL, ..Attention::new(shape, [64, 64]) }.graph()
}

/// A bias for each score, with and without sinks; many keys, so that blocks may share them; in FLOAT. What a bias can be in that type.
pub(crate) fn biases() -> [Graph; 4] {
    let of = |io, shape: [i64; 4]| {
        let modify = Modifier::Bias([1, shape[1], shape[2], shape[3]]);
        Attention { io, modify, statistics: ALL, ..Attention::new(shape, [64, 64]) }
    };
    let plain = of(BFloat16, [1, 2, 66, 300]);
    let few_queries = Attention { statistics: &[], ..of(BFloat16, [1, 1, 3, 2048]) };
    [plain, Attention { sinks: true, ..plain }, few_queries, of(Float, [1, 2, 30, 300])]
        .map(|attention| attention.graph())
}

/// An attention without options.
pub(crate) fn plain() -> Graph {
    Attention::new([2, 2, 70, 90], [64, 64]).graph()
}

const ALL: &[Port] = Softmax::STATISTICS;

/// What becomes of scores.
#[derive(Clone, Copy)]
enum Modifier {
    Nothing,
    /// A tensor of these extents is added.
    Bias([i64; 4]),
    /// `cap · tanh(scores / cap)`.
    SoftCap,
    /// They are rounded to HALF.
    Half,
    /// An INT8 number is added to GELU of them, in a type.
    Gelu(DataType),
    /// A slope of each head times the distance of key and query is added.
    Alibi,
}

/// An attention of `[batches, heads, queries, keys]` and heads of so many elements, of queries and of values.
#[derive(Clone, Copy)]
struct Attention {
    io: DataType,
    shape: [i64; 4],
    head: [i64; 2],
    key_heads: [i64; 2],
    scale: Option<f64>,
    scale_type: DataType,
    /// Whether statistics of a position's heads lie side by side.
    are_by_position: bool,
    modify: Modifier,
    mask: Option<ScoreMask>,
    /// What is added to the bounds of the mask, left and right, by host scalars.
    bounds: [Option<f64>; 2],
    has_lengths: bool,
    /// Whether a mask of blocks of scores is given.
    has_blocks: bool,
    sinks: bool,
    /// Extents of the sinks, where these are not one a head.
    sink_dim: Option<[i64; 4]>,
    statistics: &'static [Port],
    /// Extents of a mask that probabilities are multiplied by.
    drop_mask: Option<[i64; 4]>,
    /// Whether what is kept is stored.
    dumps: bool,
    /// Probability to keep, and the type of seed and offset, which are by value where it is INT64.
    dropout: Option<(f32, DataType)>,
    /// Whether heads of a position lie side by side.
    is_interleaved: bool,
    /// Elements beyond a row of O, and of Q, K and V.
    output_pitch: i64,
    operand_pitch: i64,
    /// What pointers to Q, K and V are multiples of.
    alignment: i64,
    /// Whether elements of Q, K, V and O lie further apart than their rows.
    is_turned: bool,
    /// Whether rows of V lie side by side.
    has_turned_values: bool,
    /// The type of O, where it is another than that of the rest.
    output: Option<DataType>,
    ragged: Ragged,
    pages: Pages,
    /// What scales values in FP8.
    fp8: Option<Fp8>,
}

/// What scales values in FP8: numbers, and what is kept of their largest magnitudes.
#[derive(Clone, Copy)]
struct Fp8 {
    factors: bool,
    largest: bool,
}

impl Fp8 {
    const ALL: Self = Self { factors: true, largest: true };
}

/// Pages that keys and values are in.
#[derive(Clone, Copy)]
struct Pages {
    /// Rows of a page of K, and of V; 0 for what is in none.
    rows: [i64; 2],
    /// Pages of a container; 0: two more than sequences need.
    count: i64,
    /// Whether entries of a sequence lie behind those of the one before.
    are_packed: bool,
    /// Entries of a sequence that no row needs.
    spare: i64,
}

impl Pages {
    fn of(rows: [i64; 2]) -> Self {
        Self { rows, count: 0, are_packed: false, spare: 0 }
    }

    fn packed(self) -> Self {
        Self { are_packed: true, ..self }
    }
}

/// Which tensors have sequences where offsets say.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ragged {
    Nothing,
    Operands,
    Results,
    All,
}

impl Ragged {
    /// Gives offsets to the operands, and to the results, that are ragged: some of 32 bits and some of 64.
    pub(crate) fn apply(self, graph: &mut Graph, operands: &[TensorHandle], results: &[TensorHandle]) {
        let of = |kind, ids: &[TensorHandle]| if [kind, Self::All].contains(&self) { ids.to_vec() } else { Vec::new() };
        let all = [of(Self::Operands, operands), of(Self::Results, results)].concat();
        for (number, id) in all.into_iter().enumerate() {
            let batches = graph.tensor_mut(id).dim[0];
            let data_type = if number % 2 == 0 { Int32 } else { Int64 };
            let offsets =
                Tensor::new(format!("offsets {number}")).row_major([batches + 1, 1, 1, 1]).data_type(data_type);
            let offsets = graph.tensor(offsets);
            graph.tensor_mut(id).ragged_offset = Some(offsets);
        }
    }
}

fn band(left_bound: Option<i64>, right_bound: Option<i64>) -> Option<ScoreMask> {
    Some(ScoreMask { left_bound, right_bound, is_bottom_right: false })
}

impl Attention {
    fn new(shape: [i64; 4], head: [i64; 2]) -> Self {
        Self {
            io: Half,
            shape,
            head,
            key_heads: [shape[1]; 2],
            scale: Some(0.125),
            scale_type: Float,
            are_by_position: false,
            modify: Modifier::Nothing,
            mask: None,
            bounds: [None; 2],
            has_lengths: false,
            has_blocks: false,
            sinks: false,
            sink_dim: None,
            statistics: &[Port::STATS],
            drop_mask: None,
            dumps: false,
            dropout: None,
            is_interleaved: false,
            output_pitch: 0,
            operand_pitch: 0,
            alignment: 16,
            is_turned: false,
            has_turned_values: false,
            output: None,
            ragged: Ragged::Nothing,
            pages: Pages::of([0, 0]),
            fp8: None,
        }
    }

    fn graph(self) -> Graph {
        let [batches, heads, queries, keys] = self.shape;
        let mut g = cases::graph(self.io);
        let lengths: Vec<(Port, TensorHandle)> = if self.has_lengths {
            let length = |port: Port| Tensor::new(port.0).row_major([batches, 1, 1, 1]).data_type(Int32);
            ScoreMask::LENGTHS.iter().map(|&port| (port, g.tensor(length(port)))).collect()
        } else {
            Vec::new()
        };
        let q = g.tensor(self.operand("Q", [batches, heads, queries, self.head[0]]));
        let [k, v] = [0, 1].map(|side| self.keys_or_values(&mut g, side, keys, lengths.get(1).map(|length| length.1)));
        let mut x = g.matmul("scores", q, k);
        if let Some(scale) = self.scale {
            let value = match self.scale_type {
                Int32 => Scalar::Integer(scale as i64),
                _ => Scalar::Float(scale),
            };
            let scale = g.tensor(Tensor::scalar("scale", self.scale_type, value));
            x = g.pointwise("scaled", PointwiseMode::Mul, &[x, scale]);
        }
        for (name, value) in [("descale_q", 0.5), ("descale_k", 2.5)] {
            x = self.multiplied(&mut g, name, value, x);
        }
        x = self.modified(&mut g, x);
        if self.mask.is_some() || self.has_lengths || self.has_blocks {
            let mut inputs: Vec<(Port, TensorHandle)> =
                [(Port::X, x)].into_iter().chain(lengths.iter().copied()).collect();
            for (&port, bound) in ScoreMask::BOUNDS.iter().zip(self.bounds) {
                let scalar = bound.map(|bound| Tensor::scalar(port.0, Float, Scalar::Float(bound)));
                inputs.extend(scalar.map(|scalar| (port, g.tensor(scalar))));
            }
            if self.has_blocks {
                let tiles = |extent: i64| (extent + 127) / 128;
                let dim = [batches, heads, tiles(queries), (tiles(keys) + 7) / 8];
                let blocks = Tensor::new("blocks").row_major(dim).data_type(UInt8);
                inputs.push((Port::BLOCK_MASK, g.tensor(blocks)));
            }
            x = g.composite("mask", self.mask.unwrap_or_default(), &inputs, &[Port::Y])[0];
        }
        let sink = Tensor::new("sink").row_major(self.sink_dim.unwrap_or([1, heads, 1, 1])).data_type(Float);
        let sink = self.sinks.then(|| g.tensor(sink));
        let (p, statistics) = g.softmax_with("softmax", x, sink, self.statistics);
        g.tensor_mut(p).data_type = Some(self.io);
        for &id in &statistics {
            output(&mut g, id, Float);
            if self.are_by_position {
                let tensor = g.tensor_mut(id);
                (tensor.dim, tensor.stride) = (vec![batches, heads, queries, 1], vec![heads * queries, 1, heads, 1]);
            }
        }
        let mut p = self.dropped(&mut g, p);
        if self.fp8.is_some() {
            g.tensor_mut(p).data_type = Some(Float);
            self.keep_largest(&mut g, "amax_s", p);
            p = self.scaled(&mut g, "scale_s", 256.0, p);
            g.tensor_mut(p).data_type = Some(self.io);
        }
        let mut o = g.matmul("values", p, v);
        g.last_operation().inputs.extend(lengths.get(1).map(|length| (Port::K_OVERRIDE, length.1)));
        if self.fp8.is_some() {
            for (name, value) in [("descale_s", 1.0 / 256.0), ("descale_v", 0.75)] {
                o = self.multiplied(&mut g, name, value, o);
            }
            self.keep_largest(&mut g, "amax_o", o);
            o = self.scaled(&mut g, "scale_o", 8.0, o);
        }
        let dim = [batches, heads, queries, self.head[1]];
        let result = if self.is_turned { self.operand("O", dim) } else { self.matrices("O", dim, self.output_pitch) };
        let tensor = g.set_output(o);
        (tensor.dim, tensor.stride, tensor.data_type) =
            (result.dim, result.stride, Some(self.output.unwrap_or(self.io)));
        if self.output_pitch % 8 != 0 {
            tensor.alignment = 2;
        }
        for &id in &statistics {
            g.tensor_mut(id).dim = vec![batches, heads, queries, 1];
        }
        self.ragged.apply(&mut g, &[q, k, v], &[&[o], &statistics[..]].concat());
        g
    }

    /// A value times a number, where values in FP8 are scaled.
    fn multiplied(&self, g: &mut Graph, name: &str, value: f64, x: TensorHandle) -> TensorHandle {
        if !self.fp8.is_some_and(|fp8| fp8.factors) {
            return x;
        }
        let factor = g.tensor(Tensor::scalar(name, self.scale_type, Scalar::Float(value)));
        g.pointwise(&format!("times_{name}"), PointwiseMode::Mul, &[x, factor])
    }

    /// A value that gets another type, times a number where there are some.
    fn scaled(&self, g: &mut Graph, name: &str, value: f64, x: TensorHandle) -> TensorHandle {
        match self.multiplied(g, name, value, x) {
            same if same == x => g.pointwise(name, PointwiseMode::Identity, &[x]),
            other => other,
        }
    }

    /// Keeps the largest magnitude of a value, where that of values in FP8 is kept.
    fn keep_largest(&self, g: &mut Graph, name: &str, x: TensorHandle) {
        if self.fp8.is_some_and(|fp8| fp8.largest) {
            let largest = g.reduction(name, ReductionMode::Amax, x, [1; 4]);
            output(g, largest, Float);
        }
    }

    /// K, turned, or V: in memory, or loaded out of pages.
    fn keys_or_values(&self, g: &mut Graph, side: usize, keys: i64, lengths: Option<TensorHandle>) -> TensorHandle {
        let (name, heads, size) = (["K", "V"][side], self.key_heads[side], self.head[side]);
        let (batches, page) = (self.shape[0], self.pages.rows[side]);
        let mut whole = self.operand(name, [batches, heads, keys, size]);
        if side == 1 && self.has_turned_values {
            whole.stride = turned([batches, heads, keys, size]);
        }
        if side == 0 {
            whole.dim.swap(2, 3);
            whole.stride.swap(2, 3);
        }
        let Some(lengths) = lengths.filter(|_| page > 0) else { return g.tensor(whole) };
        let entries = (keys + page - 1) / page;
        let count = if self.pages.count > 0 { self.pages.count } else { batches * entries + 2 };
        let container = g.tensor(self.matrices(&format!("{name}_container"), [count, heads, page, size], 0));
        let table = Tensor::new(format!("{name}_table")).row_major([batches, 1, entries + self.pages.spare, 1]);
        let table = g.tensor(table.data_type(if side == 1 && self.pages.are_packed { Int64 } else { Int32 }));
        if self.pages.are_packed {
            let offsets = Tensor::new(format!("{name}_table_offsets")).row_major([batches + 1, 1, 1, 1]);
            let offsets = g.tensor(offsets.data_type(Int32));
            g.tensor_mut(table).ragged_offset = Some(offsets);
        }
        let inputs = [(Port::CONTAINER, container), (Port::SEQ_LEN, lengths), (Port::PAGE_TABLE, table)];
        let loaded = g.composite(&format!("load_{name}"), PagedCacheLoad, &inputs, &[Port::Y_OUT])[0];
        let tensor = g.tensor_mut(loaded);
        (tensor.dim, tensor.stride, tensor.data_type) = (whole.dim, whole.stride, Some(self.io));
        loaded
    }

    /// Probabilities times a mask.
    fn masked(&self, g: &mut Graph, p: TensorHandle, dim: [i64; 4]) -> TensorHandle {
        let mask = g.tensor(match dim {
            BY_VALUE => Tensor::scalar("drop_mask", Float, Scalar::Float(0.5)),
            _ => Tensor::new("drop_mask").row_major(dim),
        });
        let scale = g.tensor(Tensor::scalar("dropout_scale", Float, Scalar::Float(1.25)));
        g.tensor_mut(p).data_type = Some(Float);
        let inputs = [(Port::X, p), (Port::DROPOUT_MASK, mask), (Port::DROPOUT_SCALE, scale)];
        let p = g.composite("dropout", MaskedDropout, &inputs, &[Port::Y])[0];
        g.tensor_mut(p).data_type = Some(self.io);
        p
    }

    /// What dropout leaves of the probabilities.
    fn dropped(&self, g: &mut Graph, p: TensorHandle) -> TensorHandle {
        if let Some(dim) = self.drop_mask {
            return self.masked(g, p, dim);
        }
        let Some((keep, data_type)) = self.dropout else { return p };
        let number = |name: &str, value: i64| match data_type {
            Int64 => Tensor::scalar(name, Int64, Scalar::Integer(value)),
            _ => Tensor::new(name).row_major([1; 4]).data_type(data_type),
        };
        let seed = g.tensor(number("seed", 0x0123_4567_89ab_cdef));
        let offset = g.tensor(number("offset", -5));
        let factor = Scalar::Float(f64::from(1.0 / keep));
        let scale = g.tensor(Tensor::scalar("dropout_scale", Float, factor));
        g.tensor_mut(p).data_type = Some(Float);
        let inputs = [(Port::X, p), (Port::SEED, seed), (Port::OFFSET, offset), (Port::DROPOUT_SCALE, scale)];
        let ports = if self.dumps { &[Port::Y, Port::RNG_DUMP][..] } else { &[Port::Y] };
        let results = g.composite("dropout", Dropout { kept: Bernoulli { keep } }, &inputs, ports);
        results[1..].iter().for_each(|&mask| output(g, mask, Float));
        let p = results[0];
        g.tensor_mut(p).data_type = Some(self.io);
        p
    }

    /// Matrices of every head, rows so many elements further apart than they are long.
    fn matrices(&self, name: &str, [batches, heads, rows, size]: [i64; 4], pitch: i64) -> Tensor {
        let line = size + pitch;
        let stride = match self.is_interleaved {
            true => [heads * rows * line, line, heads * line, 1],
            false => [heads * rows * line, rows * line, line, 1],
        };
        Tensor::new(name).dim([batches, heads, rows, size]).stride(stride)
    }

    /// Q, K or V, and O where it lies as they do.
    fn operand(&self, name: &str, dim: [i64; 4]) -> Tensor {
        let mut tensor = self.matrices(name, dim, self.operand_pitch);
        if self.is_turned {
            tensor.stride = turned(dim);
        }
        tensor.alignment(self.alignment)
    }

    fn modified(&self, g: &mut Graph, x: TensorHandle) -> TensorHandle {
        match self.modify {
            Modifier::Nothing => x,
            Modifier::Bias(dim) => {
                let bias = g.tensor(Tensor::new("bias").row_major(dim));
                g.pointwise("biased", PointwiseMode::Add, &[x, bias])
            }
            Modifier::SoftCap => {
                let cap = g.tensor(Tensor::scalar("cap", Float, Scalar::Float(3.0)));
                let small = g.pointwise("small", PointwiseMode::Div, &[x, cap]);
                let capped = g.pointwise("capped", PointwiseMode::TanhFwd, &[small]);
                g.pointwise("large", PointwiseMode::Mul, &[capped, cap])
            }
            Modifier::Gelu(data_type) => {
                let rounded = g.pointwise("rounded", PointwiseMode::GeluFwd, &[x]);
                g.tensor_mut(rounded).data_type = Some(data_type);
                let bias = g.tensor(Tensor::new("bias").row_major([1; 4]).data_type(Int8));
                g.pointwise("biased", PointwiseMode::Add, &[rounded, bias])
            }
            Modifier::Half => {
                let rounded = g.pointwise("rounded", PointwiseMode::Identity, &[x]);
                g.tensor_mut(rounded).data_type = Some(Half);
                rounded
            }
            Modifier::Alibi => {
                let slopes = g.tensor(Tensor::new("slopes").row_major([1, self.shape[1], 1, 1]).data_type(Float));
                let [row, column] = [("row", 2), ("column", 3)].map(|(name, axis)| {
                    let attributes = Pointwise { axis: Some(axis), ..Pointwise::new(PointwiseMode::GenIndex) };
                    let index = g.pointwise_with(name, attributes, &[x]);
                    g.tensor_mut(index).data_type = Some(Int32);
                    index
                });
                let distance = g.pointwise("distance", PointwiseMode::Sub, &[column, row]);
                g.tensor_mut(distance).data_type = Some(Int32);
                g.last_operation().compute_data_type = Some(Int32);
                let slope = g.pointwise("slope", PointwiseMode::Mul, &[distance, slopes]);
                g.pointwise("leaning", PointwiseMode::Add, &[x, slope])
            }
        }
    }
}

/// Strides of heads whose rows lie side by side.
fn turned([_, heads, rows, size]: [i64; 4]) -> Vec<i64> {
    vec![heads * rows * size, rows * size, 1, rows]
}
