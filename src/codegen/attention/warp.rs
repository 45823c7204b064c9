//! Record of attention by `mma.sync`: warps that bring the tiles of their block together, and multiply their own rows.

use serde::Serialize;

use super::loads::{RowLoad, fragments};
use super::scores::{self, ScoreRows};
use super::sequences::{batch_offset, with_offsets};
use super::stride;
use crate::codegen::sections::Used;
use crate::error::Error;
use crate::graph::FinalizedGraph;
use crate::kernel::{HeadRows, MmaType, Number, WarpAttentionKernel, head_row_bytes};

/// Device code that both passes use.
pub(super) const SECTIONS: &[&str] = &[
    "FW_SHARED",
    "fw_accumulators",
    "fw_clear_all",
    "fw_cp_async",
    "fw_left_of_lane",
    "fw_multiply_rows",
    "fw_multiply_columns",
    "fw_take_all",
];

/// Bytes of k of an instruction.
const STEP_BYTES: u32 = 32;

/// What `attention/warp_forward.cu` reads beside the function's name and parameters.
#[derive(Serialize)]
pub(in crate::codegen) struct ForwardText {
    threads: u32,
    blocks: u32,
    accumulators: u32,
    units: Number,
    unit: String,
    /// Whether steps are left out whose blocks of scores are.
    leaves_out: bool,
    keys: u32,
    /// Bytes from row to row of queries and keys, and of values.
    pitch: u32,
    value_pitch: u32,
    keys_at: u32,
    values_at: u32,
    /// What is multiplied, and instructions along a head.
    of: &'static str,
    steps: u32,
    /// Lambdas that bring queries, keys and values.
    loads: [String; 3],
    /// How scores are scaled: `c`, `unit_of_scores` and `room`.
    scale: String,
    plain_end: String,
    sink: Option<String>,
    /// What makes a reference of a row's largest score, where its weight is not 1.
    top: Option<String>,
    /// Whether scores may be so large that a rounded reference says nothing of them.
    vast: bool,
    largest: bool,
    /// Accumulators of scores and of O, and words of probabilities.
    scores: u32,
    values: u32,
    words: u32,
    of_tile: Vec<String>,
    softmax: String,
    /// Room for what is read two columns at a time before scores are there, and the reads of pair `i`.
    pairs: Vec<String>,
    pair_reads: Vec<String>,
    /// What the generator is told, and the factor of what is kept.
    dropout: Option<String>,
    rows: String,
    output: String,
}

/// Instructions along a head of so many elements.
pub(super) fn steps(head: i64, operand: MmaType) -> u32 {
    head_row_bytes(head, operand) / STEP_BYTES
}

pub(in crate::codegen) fn forward(
    graph: &FinalizedGraph,
    used: &mut Used,
    kernel: &WarpAttentionKernel,
) -> Result<ForwardText, Error> {
    let (problem, tile, layout) = (&kernel.problem, kernel.tile, kernel.layout());
    let of = fragments(used, problem.operand);
    SECTIONS.iter().chain(scores::SECTIONS).for_each(|section| used.add(section));
    let loads = loads(graph, used, kernel)?;
    let mut rows = ScoreRows { graph, used, problem, queries: tile.queries(), keys: tile.keys };
    let [scores, values] = [rows.scores(), rows.values()];
    let (pairs, pair_reads) = rows.pairs();
    let (of_tile, softmax) = rows.softmax()?;
    let keys = tile.keys;
    let operands = kernel.operands.map(|rows| rows.tensor);
    let stored: Vec<_> = problem.stored().collect();
    let mut ragged: Vec<_> = operands.into_iter().chain(stored).collect();
    ragged.sort_unstable();
    ragged.dedup();
    Ok(ForwardText {
        threads: tile.threads(),
        blocks: kernel.blocks,
        accumulators: scores + values,
        units: rows.units(),
        unit: with_offsets(rows.unit(), graph, ragged.into_iter()),
        leaves_out: problem.band.blocks.is_some(),
        keys,
        pitch: layout.pitches[0],
        value_pitch: layout.pitches[1],
        keys_at: layout.keys,
        values_at: layout.values,
        of,
        steps: steps(problem.extents.head[0], problem.operand),
        loads,
        scale: rows.scale(),
        plain_end: match problem.band.lengths {
            Some(_) => format!("first_row + 15 < rows ? keys_of(first_row) / {keys} : 0"),
            None => format!("keys_of(first_row) / {keys}"),
        },
        sink: problem.sink.map(|id| rows.sink_of_row(id)),
        top: rows.top(),
        vast: kernel.problem.scores.may_be_vast(),
        largest: rows.knows_largest(),
        scores,
        values,
        words: scores * problem.operand.bytes() / 4,
        of_tile,
        softmax,
        pairs,
        pair_reads,
        dropout: problem.dropout.map(|dropout| rows.dropout_state(dropout)).transpose()?,
        rows: rows.rows()?,
        output: rows.output(false)?,
    })
}

/// The lambdas that bring a tile's queries, and keys and values of a step.
fn loads(graph: &FinalizedGraph, used: &mut Used, kernel: &WarpAttentionKernel) -> Result<[String; 3], Error> {
    let (extents, tile, layout) = (kernel.problem.extents, kernel.tile, kernel.layout());
    let [q, k, v] = kernel.operands;
    let [key_group, value_group] = extents.groups().map(|group| group / extents.packed);
    let at = |rows: HeadRows, head: &str, row: &str| {
        let [of_head, of_row] = [1, rows.axes[1]].map(|axis| stride(graph, rows.tensor, axis));
        let batch = batch_offset(graph, rows.tensor);
        format!("{batch} + ({head}) * {of_head}ull + ({row}) * {of_row}ull")
    };
    let query_at = match extents.packed {
        1 => at(q, "h", "first + row"),
        packed => at(q, &format!("h * {packed} + (first + row) % {packed}"), &format!("(first + row) / {packed}")),
    };
    let mut load = |name, rows: HeadRows, offset: String, count, length, at: u32, head| {
        let at = format!("shared_bytes + {at}");
        let load = RowLoad { name, rows, offset, count, length, at, head, threads: tile.threads() };
        load.text(graph, used, kernel.problem.operand)
    };
    let [head, value_head] = extents.head;
    Ok([
        load("load_queries", q, query_at, tile.queries(), "rows", 0, head)?,
        load("load_keys", k, at(k, &format!("h / {key_group}"), "first + row"), tile.keys, "keys", layout.keys, head)?,
        load(
            "load_values",
            v,
            at(v, &format!("h / {value_group}"), "first + row"),
            tile.keys,
            "keys",
            layout.values,
            value_head,
        )?,
    ])
}
