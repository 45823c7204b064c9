//! What the CPU engine computes of attentions that arrive by operations, beside their definition (attention.md 4).

use std::sync::Arc;

use super::samples::{Attention, BATCHES, CAP, Form, MASK_KEEPS, PAGES, QUERIES, table};
use crate::graph::{FinalTensor, FinalizedGraph, Port};
use crate::host_tensor::{HostTensor, HostTensors};
use crate::reference;

/// An element of a tensor by its name and its row-major position, for the configuration.
pub(super) fn element(attention: Attention, tensor: &FinalTensor, position: usize) -> f64 {
    let left = attention.left.unwrap_or(0);
    let fixed = attention.is_bottom_right && !attention.lengths;
    match tensor.name.as_str() {
        "scale" => attention.scale.unwrap_or(1.0),
        "cap" => CAP,
        "right bound" => attention.right.unwrap_or(0) as f64,
        "left bound" if fixed => (left - (attention.keys - QUERIES)) as f64,
        "left bound" => left as f64,
        "SEQ_LEN_Q" => lengths(attention)[position][0] as f64,
        "SEQ_LEN_KV" => lengths(attention)[position][1] as f64,
        "Block_mask" => f64::from(blocks(position)),
        "Page_table_K" => entry(attention, 0, position as i64) as f64,
        "Page_table_V" => entry(attention, 1, position as i64) as f64,
        "K" if attention.pages[0].is_some() => paged(attention, 0, position as i64),
        "V" if attention.pages[1].is_some() => paged(attention, 1, position as i64),
        "sink" => sink(position),
        "slopes" => slope(position),
        "Seed" => STATE[0] as f64,
        "Offset" => STATE[1] as f64,
        "mask" => masked(position),
        "factor" if attention.masked => 1.0 / f64::from(MASK_KEEPS),
        "factor" => f64::from(1.0 / (1.0 - attention.dropped.unwrap_or(0.0))),
        "keep" if attention.masked => f64::from(MASK_KEEPS),
        "keep" => f64::from(1.0 - attention.dropped.unwrap_or(0.0)),
        name => number(name, position),
    }
}

/// The byte of a head's mask of blocks, whose first bit is that of all its scores; the others are nothing.
fn blocks(head: usize) -> u8 {
    if head % 3 == 1 { 0xfe } else { 0x51 }
}

/// Rows of a page, and entries of a sequence in the table.
fn pages(attention: Attention, side: usize) -> [i64; 2] {
    let page = attention.pages[side].expect("pages");
    [page, (attention.keys + page - 1) / page]
}

/// An entry of a table: pages in some order, and none where a sequence has no rows.
fn entry(attention: Attention, side: usize, position: i64) -> i64 {
    let [page, entries] = pages(attention, side);
    let [batch, at] = [position / entries, position % entries];
    if at * page < lengths(attention)[batch as usize][1] { (7 * position + 3) % PAGES } else { -5 }
}

/// An element of a container: the one of the sequence whose page it is in, else NaN.
fn paged(attention: Attention, side: usize, position: i64) -> f64 {
    let ([page, entries], name) = (pages(attention, side), ["K", "V"][side]);
    let (heads, size) = (attention.heads[side + 1], attention.head_sizes[side]);
    let [x, row] = [position % size, position / size % page];
    let [head, number_of_page] = [position / size / page % heads, position / size / page / heads];
    let owner = (0..BATCHES * entries).find(|&at| entry(attention, side, at) == number_of_page);
    let Some(owner) = owner else { return f64::NAN };
    let (batch, place) = (owner / entries, owner % entries * page + row);
    if place >= lengths(attention)[batch as usize][1] {
        return f64::NAN;
    }
    number(name, (((batch * heads + head) * attention.keys + place) * size + x) as usize)
}

const STATE: [i64; 2] = [7, -3];

/// A mask that keeps every other element, and a few more.
fn masked(position: usize) -> f64 {
    if position.is_multiple_of(2) || position.is_multiple_of(5) { 1.0 } else { 0.0 }
}

/// What is left of 1 in a column of a row of a head, which all heads of all batches before it precede.
pub(super) fn left(attention: Attention, at: [i64; 3]) -> f64 {
    if attention.masked {
        // all batches share the mask
        let [head, row, column] = [at[0] % attention.heads[0], at[1], at[2]];
        return masked(((head * QUERIES + row) * attention.keys + column) as usize) / f64::from(MASK_KEEPS);
    }
    attention.dropped.map_or(1.0, |dropped| reference::bernoulli::left(dropped, STATE, at))
}

pub(super) fn number(name: &str, position: usize) -> f64 {
    let seed = name.bytes().next().map_or(0, usize::from);
    ((position * 37 + position / 7 + seed * 5) % 17) as f64 / 8.0 - 1.0
}

pub(super) fn sink(head: usize) -> f64 {
    0.5 - head as f64
}

pub(super) fn slope(head: usize) -> f64 {
    0.5 / (head + 1) as f64
}

pub(super) fn lengths(attention: Attention) -> [[i64; 2]; 2] {
    if attention.lengths {
        [[QUERIES, attention.keys - 1], [3, attention.keys]]
    } else {
        [[QUERIES, attention.keys]; 2]
    }
}

/// O, and maximum and sum of exponentials of one row, by the definition.
fn row(attention: Attention, batch: i64, head: i64, row: i64) -> (Vec<f64>, f64, f64) {
    let Attention { keys, heads: [of_q, of_k, of_v], head_sizes: [d, d_v], .. } = attention;
    let at = |name: &str, [heads, rows, size]: [i64; 3], [head, row, column]: [i64; 3]| {
        number(name, (((batch * heads + head) * rows + row) * size + column) as usize)
    };
    let [length_q, length_kv] = lengths(attention)[batch as usize];
    let shift = if attention.is_bottom_right { length_kv - length_q } else { 0 };
    let score = |column: i64| {
        let q = |x| at("Q", [of_q, QUERIES, d], [head, row, x]);
        let k = |x| at("K", [of_k, keys, d], [head * of_k / of_q, column, x]);
        let mut score = (0..d).map(|x| q(x) * k(x)).sum::<f64>() * attention.scale.unwrap_or(1.0);
        if attention.cap {
            score = CAP * (score / CAP).tanh();
        }
        if attention.bias {
            score += number("bias", ((head * QUERIES + row) * keys + column) as usize);
        }
        if attention.slopes {
            score += slope(head as usize) * (column - row) as f64;
        }
        let is_kept = row < length_q
            && column < length_kv
            && (!attention.blocks || blocks((batch * of_q + head) as usize) & 1 == 1)
            && attention.right.is_none_or(|right| column <= row + shift + right)
            && attention.left.is_none_or(|left| column > row + shift - left);
        if is_kept { score } else { f64::NEG_INFINITY }
    };
    let scores: Vec<f64> = (0..keys).map(score).collect();
    let sink = (attention.sink && row < length_q).then(|| sink(head as usize)); // AT-O32
    let largest = scores.iter().copied().chain(sink).fold(f64::NEG_INFINITY, f64::max);
    let reference = if largest.is_finite() { largest } else { 0.0 };
    let weights: Vec<f64> = scores.iter().map(|score| (score - reference).exp()).collect();
    let sum = weights.iter().sum::<f64>() + sink.map_or(0.0, |sink| (sink - reference).exp());
    let values = (0..d_v).map(|x| {
        let v = |column| at("V", [of_v, keys, d_v], [head * of_v / of_q, column, x]);
        let left = |column| left(attention, [batch * of_q + head, row, column]);
        let total: f64 = (0..keys).map(|column| weights[column as usize] * left(column) * v(column)).sum();
        if sum > 0.0 { total / sum } else { 0.0 }
    });
    (values.collect(), largest, sum)
}

fn inputs(attention: Attention, graph: &FinalizedGraph) -> HostTensors {
    let given = graph.inputs().filter(|&id| graph.tensor(id).value.is_none());
    let tensor = |id| {
        let tensor = graph.tensor(id);
        let at = |position| element(attention, tensor, position);
        // K lies as it was before its axes were swapped
        let host = match tensor.name == "K" && tensor.stride[3] != 1 {
            true => {
                let [_, _, rows, columns] = tensor.dim[..] else { panic!("four axes") };
                HostTensor::from_fn(tensor.data_type, &tensor.dim, &tensor.stride, |position| {
                    let (matrix, place) = (position as i64 / (rows * columns), position as i64 % (rows * columns));
                    at((matrix * rows * columns + place % columns * rows + place / columns) as usize)
                })
            }
            false => HostTensor::from_fn(tensor.data_type, &tensor.dim, &tensor.stride, at),
        };
        (id, host.expect("an input"))
    };
    given.map(tensor).collect()
}

pub(super) fn assert_near(found: f64, expected: f64, what: &str) {
    let is_near = found == expected || (found - expected).abs() <= 4e-3 * expected.abs().max(1.0);
    assert!(is_near, "{what}: {found}, expected {expected}");
}

#[test]
fn attention_by_operations_is_computed_by_its_definition() {
    for (name, attention) in table() {
        for (form, is_known) in [(Form::Old, false), (Form::Operations, false), (Form::Old, true)] {
            let attention = Attention { is_known, ..attention };
            let graph = Arc::new(attention.graph(form).finalize().expect("well formed"));
            let found = reference::execute(&graph, &inputs(attention, &graph)).expect("computed");
            let softmax =
                graph.operations().find(|one| one.output(Port::STATS).is_some() || one.input(Port::SINK).is_some());
            let statistic = |port| softmax.and_then(|softmax| softmax.output(port)).map(|id| &found[&id]);
            let output = graph.operations().filter_map(|one| one.output(Port::C)).find(|id| found.contains_key(id));
            let o: Vec<f64> = found[&output.expect("O")].to_dense().expect("numbers");
            let (heads, size) = (attention.heads[0], attention.head_sizes[1] as usize);
            let rows = (0..BATCHES).flat_map(|b| (0..heads).flat_map(move |h| (0..QUERIES).map(move |r| (b, h, r))));
            for (at, (batch, head, query)) in rows.enumerate() {
                let what = format!("{name}, {form:?}, batch {batch}, head {head}, row {query}");
                let (values, largest, sum) = row(attention, batch, head, query);
                for (x, expected) in values.into_iter().enumerate() {
                    assert_near(o[at * size + x], expected, &what);
                }
                let all = [(Port::STATS, largest + sum.ln()), (Port::MAX, largest), (Port::SUM_EXP, sum)];
                for (port, expected) in all {
                    if let Some(tensor) = statistic(port) {
                        let values: Vec<f64> = tensor.to_dense().expect("numbers");
                        assert_near(values[at], expected, &format!("{what}, {port}"));
                    }
                }
            }
        }
    }
}
