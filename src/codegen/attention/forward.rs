//! Record of attention by `wgmma`: a ring of stages between a warpgroup that brings tiles and those that multiply.

use serde::Serialize;

use super::scores::{self, ScoreRows};
use super::sequences::{Boxed, batch_offset, with_offsets};
use super::{LINE_BYTES, SECTIONS, STEP, fp8, registers, stride};
use crate::codegen::names;
use crate::codegen::sections::Used;
use crate::codegen::template::{self, template};
use crate::error::Error;
use crate::graph::{DataType, FinalizedGraph};
use crate::kernel::{
    AttentionKernel, AttentionLayout, MmaType, Number, Pages, WARPGROUP, head_lines, operand_lines, value_columns,
};

/// What `attention/forward.cu` reads beside the function's name and parameters.
#[derive(Serialize)]
pub(in crate::codegen) struct ForwardText {
    threads: u32,
    /// Lists of the registers of scores and of O.
    score_registers: String,
    value_registers: String,
    accumulators: u32,
    barriers: u32,
    /// Where the number of a tile lies that was claimed.
    claimed: Option<u32>,
    stages: u32,
    consumers: u32,
    producer_registers: u32,
    consumer_registers: u32,
    producer: String,
    consumer: String,
}

/// A line of boxes: where it lies in a tile, and its first element.
#[derive(Serialize)]
struct LineText {
    at: u32,
    element: String,
}

/// What `attention/producer.cuh` reads.
#[derive(Serialize)]
struct ProducerText {
    /// Whether all lanes of a warp ask for boxes.
    by_warp: bool,
    /// Whether tiles are claimed.
    claims: bool,
    units: Number,
    next: String,
    unit: String,
    /// Whether steps are left out whose blocks of scores are.
    leaves_out: bool,
    /// Heads of Q that share one of K, and of V.
    key_group: i64,
    value_group: i64,
    /// Lines that say where ragged sequences lie.
    sequences: Vec<String>,
    /// Coordinates of boxes.
    query_at: String,
    query_bytes: u32,
    query_lines: Vec<LineText>,
    /// What brings a step of K, and of V.
    loads: [String; 2],
}

/// What `attention/load.cuh` reads.
#[derive(Serialize)]
struct LoadText {
    name: &'static str,
    by_warp: bool,
    pages: Option<PagesText>,
    stages: u32,
    keys: u32,
    map: usize,
    head: &'static str,
    /// Coordinates of a box.
    at: String,
    tiles_at: u32,
    bytes: u32,
    lines: Vec<LineText>,
}

/// Boxes of a step of rows in pages.
#[derive(Serialize)]
struct PagesText {
    /// Boxes, and how many a lane asks for.
    boxes: u32,
    turns: u32,
    /// Rows of a box, and bytes of a line of them.
    rows: u32,
    bytes: u32,
    /// The first row in its page, of a box from a key on.
    row: String,
    /// The table, and the entry of a key in it.
    table: String,
    entry: String,
}

/// What `attention/consumer.cuh` reads.
#[derive(Serialize)]
struct ConsumerText {
    /// Whether the producer tells which tile it claimed.
    claims: bool,
    units: Number,
    next: String,
    unit: String,
    /// Whether steps are left out whose blocks of scores are.
    leaves_out: bool,
    stages: u32,
    keys: u32,
    keys_at: u32,
    values_at: u32,
    key_bytes: u32,
    value_bytes: u32,
    value_line_count: u32,
    /// How scores are scaled: `c`, `unit_of_scores` and `room`.
    scale: String,
    plain_end: String,
    sink: Option<String>,
    largest: bool,
    seen: bool,
    /// Accumulators of scores and of O, and words of probabilities.
    scores: u32,
    values: u32,
    packed: u32,
    /// What makes the words; in FP8 of scores, else of probabilities.
    weights: String,
    /// In FP8 the steps after which sums are folded, where they are kept, and how many vectors of them a warpgroup has.
    fold: u32,
    sums_at: u32,
    vectors_of_sums: u32,
    /// Numbers that O is multiplied by, and what keeps largest magnitudes.
    factors: Vec<String>,
    kept: Vec<String>,
    /// What makes a reference of a row's largest score, where its weight is not 1.
    top: Option<String>,
    /// Whether scores may be so large that a rounded reference says nothing of them.
    vast: bool,
    /// Lines that say what is the same for all scores of a tile.
    of_tile: Vec<String>,
    softmax: String,
    /// Room for what is read two columns at a time before scores are there, and the reads of pair `i`.
    pairs: Vec<String>,
    pair_reads: Vec<String>,
    key_products: Vec<String>,
    value_products: Vec<String>,
    value_descriptor: String,
    /// The probabilities as words of these.
    words: String,
    lengths: bool,
    /// What the generator is told, and the factor of what is kept.
    dropout: Option<String>,
    barrier_ids: Vec<u32>,
    rows: String,
    output: String,
}

/// The lines of a tile of so many rows.
fn line_texts(head: i64, rows: u32, operand: MmaType) -> Vec<LineText> {
    let elements = LINE_BYTES / operand.bytes();
    let line = |line: u32| LineText { at: line * rows * LINE_BYTES, element: (line * elements).to_string() };
    (0..operand_lines(head, operand)).map(line).collect()
}

fn pages_text(graph: &FinalizedGraph, pages: Pages, keys: u32) -> PagesText {
    const LANES: u32 = 32;
    let rows = pages.box_rows(keys);
    let boxes = keys / rows;
    let stride = stride(graph, pages.table, 2);
    PagesText {
        boxes,
        turns: boxes.div_ceil(LANES),
        rows,
        bytes: rows * LINE_BYTES,
        row: if pages.rows == i64::from(rows) { "0".to_owned() } else { format!("key % {}", pages.rows) },
        table: names::pointer(graph, pages.table),
        entry: format!("{} + key / {} * {stride}ull", batch_offset(graph, pages.table), pages.rows),
    }
}

pub(in crate::codegen) fn forward(
    graph: &FinalizedGraph,
    used: &mut Used,
    kernel: &AttentionKernel,
) -> Result<ForwardText, Error> {
    for &section in SECTIONS.iter().chain(scores::SECTIONS) {
        used.add(section);
    }
    let (problem, tile) = (&kernel.problem, kernel.tile);
    let layout = tile.layout(problem.extents.head, problem.operand);
    if problem.claims {
        used.add("fw_claim");
    }
    let rows = ScoreRows { graph, used, problem, queries: tile.queries(), keys: tile.keys };
    let [scores, values] = [rows.scores(), rows.values()];
    let mut forward = Forward { rows, kernel, layout };
    if !forward.is_paged() {
        forward.rows.used.add("fw_elect");
    }
    Ok(ForwardText {
        threads: kernel.tile.threads(),
        score_registers: registers(0, scores),
        value_registers: registers(scores, values),
        accumulators: scores + values,
        barriers: layout.barriers,
        claimed: problem.claims.then_some(layout.claimed),
        stages: kernel.tile.stages,
        consumers: kernel.tile.consumers,
        producer_registers: kernel.registers[0],
        consumer_registers: kernel.registers[1],
        producer: forward.producer()?,
        consumer: forward.consumer()?,
    })
}

struct Forward<'a, 'u> {
    rows: ScoreRows<'a, 'u>,
    kernel: &'a AttentionKernel,
    layout: AttentionLayout,
}

impl Forward<'_, '_> {
    /// The next unit of a block. Where tiles differ and are not claimed, blocks that had the longest of a turn have the shortest of the next.
    fn next(&self) -> String {
        let claim = || format!("fw_claim(tile_counter, {}u)", self.rows.units());
        match (self.kernel.problem.claims, self.rows.is_causal()) {
            (true, _) if self.is_paged() => format!("__shfl_sync(0xffffffffu, lane == 0 ? {} : 0u, 0)", claim()),
            (true, _) => claim(),
            (false, true) => "turn * gridDim.x + (turn % 2 ? gridDim.x - 1 - blockIdx.x : blockIdx.x)".to_owned(),
            (false, false) => "unit + gridDim.x".to_owned(),
        }
    }

    fn producer(&mut self) -> Result<String, Error> {
        let (kernel, layout, graph) = (self.kernel, self.layout, self.rows.graph);
        let problem = &kernel.problem;
        let groups = problem.extents.groups();
        let boxed = [(0, "queries"), (1, "keys"), (2, "keys")].map(|(number, length)| Boxed {
            number,
            map: &kernel.maps[number],
            length,
        });
        let q = boxed[0];
        let query_at = match problem.extents.packed {
            1 => q.at("m0", "h"),
            packed => format!("0, {}", q.at(&format!("m0 / {packed}"), "h")),
        };
        let boxed_values = if self.rows.is_fp8() { &boxed[..2] } else { &boxed[..] };
        let tables = problem.pages.into_iter().flatten().map(|pages| pages.table);
        let record = ProducerText {
            by_warp: self.is_paged(),
            claims: problem.claims,
            units: self.rows.units(),
            next: self.next(),
            unit: with_offsets(self.rows.unit(), graph, tables),
            leaves_out: problem.band.blocks.is_some(),
            key_group: groups[0] / problem.extents.packed,
            value_group: groups[1] / problem.extents.packed,
            sequences: boxed_values.iter().flat_map(|boxed| boxed.lines(graph)).collect(),
            query_at,
            query_bytes: layout.keys,
            query_lines: line_texts(problem.extents.head[0], kernel.tile.queries(), problem.operand),
            loads: [self.load(0, boxed[1])?, self.load(1, boxed[2])?],
        };
        template::render(template!("attention/producer.cuh"), &record)
    }

    /// Whether keys or values are in pages.
    fn is_paged(&self) -> bool {
        self.kernel.problem.pages.iter().any(Option::is_some)
    }

    /// What brings a step of K, or of V.
    fn load(&self, side: usize, boxed: Boxed<'_>) -> Result<String, Error> {
        let (kernel, layout, graph) = (self.kernel, self.layout, self.rows.graph);
        let problem = &kernel.problem;
        let keys = kernel.tile.keys;
        let (head, head_size) = (["key_head", "value_head"][side], problem.extents.head[side]);
        let is_turned = side == 1 && self.rows.is_fp8();
        let record = LoadText {
            name: ["k", "v"][side],
            by_warp: self.is_paged(),
            pages: problem.pages[side].map(|pages| pages_text(graph, pages, keys)),
            stages: kernel.tile.stages,
            keys,
            map: side + 1,
            head,
            at: match is_turned {
                true => format!("0, {head}, b"),
                false => boxed.at(&format!("block * {keys}"), head),
            },
            tiles_at: [layout.keys, layout.values][side],
            bytes: layout.tile_bytes[side],
            lines: if is_turned { self.turned_lines() } else { line_texts(head_size, keys, problem.operand) },
        };
        template::render(template!("attention/load.cuh"), &record)
    }

    fn consumer(&mut self) -> Result<String, Error> {
        let (kernel, layout, rows) = (self.kernel, self.layout, &mut self.rows);
        let problem = rows.problem;
        let has_lengths = problem.band.lengths.is_some();
        // turned values are zeros beyond their sequence
        let clears = has_lengths && !rows.is_fp8();
        if clears {
            ["fw_named_barrier", "fw_fence_async", "fw_vector"].into_iter().for_each(|section| rows.used.add(section));
        }
        match problem.operand {
            MmaType::Fp8 => {
                ["fw_max_nan", "fw_fast_exp2", "fw_fold_all"].into_iter().for_each(|section| rows.used.add(section))
            }
            MmaType::F16 => ["fw_behind", "fw_f16_bits"].into_iter().for_each(|section| rows.used.add(section)),
            _ => ["fw_behind", "fw_bf16_bits"].into_iter().for_each(|section| rows.used.add(section)),
        }
        let keys = kernel.tile.keys;
        let plain_end = match has_lengths {
            true => format!("first_row + 63 < rows ? keys_of(first_row) / {keys} : 0"),
            false => format!("keys_of(first_row) / {keys}"),
        };
        let (of_tile, softmax) = rows.softmax()?;
        let (stores, output) = (rows.rows()?, rows.output(true)?);
        let (pairs, pair_reads) = rows.pairs();
        let (scale, largest, seen) = (rows.scale(), rows.knows_largest(), rows.sees_largest());
        let sink = problem.sink.map(|id| rows.sink_of_row(id));
        let dropout = problem.dropout.map(|dropout| rows.dropout_state(dropout)).transpose()?;
        let unit = with_offsets(rows.unit(), rows.graph, rows.problem.stored());
        let [scores, values] = [rows.scores(), rows.values()];
        let (is_fp8, words) = (rows.is_fp8(), keys * problem.operand.bytes() / 8);
        let (weights, top) = (rows.weights()?, rows.top());
        let [factors, kept] = match is_fp8 {
            true => [
                fp8::factor_lines(rows.graph, rows.used, &problem.scaling),
                fp8::keep_lines(rows.graph, rows.used, &problem.scaling),
            ],
            false => [Vec::new(), Vec::new()],
        };
        let record = ConsumerText {
            claims: problem.claims,
            units: rows.units(),
            next: self.next(),
            unit,
            leaves_out: problem.band.blocks.is_some(),
            stages: kernel.tile.stages,
            keys,
            keys_at: layout.keys,
            values_at: layout.values,
            key_bytes: layout.tile_bytes[0],
            value_bytes: layout.tile_bytes[1],
            value_line_count: head_lines(problem.extents.head[1]),
            scale,
            plain_end,
            sink,
            largest,
            seen,
            scores,
            values,
            packed: words,
            weights,
            fold: if is_fp8 { kernel.tile.steps_of_sum() } else { 0 },
            sums_at: layout.sums,
            vectors_of_sums: values / 4 * WARPGROUP,
            factors,
            kept,
            top,
            vast: problem.scores.may_be_vast(),
            of_tile,
            softmax,
            pairs,
            pair_reads,
            key_products: self.key_products(),
            value_products: self.value_products(),
            value_descriptor: self.value_descriptor(),
            words: (0..words).map(|word| format!("FW_WORD(p[{word}])")).collect::<Vec<_>>().join(", "),
            lengths: clears,
            dropout,
            barrier_ids: (1..=kernel.tile.consumers).collect(),
            rows: stores,
            output,
        };
        template::render(template!("attention/consumer.cuh"), &record)
    }

    /// An instruction of so many columns, of operands of these types.
    fn shape(&self, columns: u32, of: [DataType; 2]) -> String {
        let [a, b] = of.map(|data_type| match self.kernel.problem.operand {
            MmaType::Fp8 => fp8::type_name(data_type),
            MmaType::F16 => "f16",
            _ => "bf16",
        });
        format!("\"m64n{columns}k{}.f32.{a}.{b}\"", self.step())
    }

    /// k of an instruction: 32 bytes.
    fn step(&self) -> u32 {
        2 * STEP / self.kernel.problem.operand.bytes()
    }

    /// What stands behind the scale of an instruction: signs, and of 16 bits whether operands are MN-major.
    fn tail(&self, of_16_bits: &'static str) -> &'static str {
        if self.rows.is_fp8() { ", 1, 1" } else { of_16_bits }
    }

    fn types(&self) -> [DataType; 3] {
        self.kernel.maps.each_ref().map(|map| self.rows.graph.tensor(map.tensor).data_type)
    }

    fn key_products(&self) -> Vec<String> {
        let tile = self.kernel.tile;
        let steps = u32::try_from(self.kernel.problem.extents.head[0]).unwrap_or(0).div_ceil(self.step());
        let ([q, k, _], tail) = (self.types(), self.tail(", 1, 1, 0, 0"));
        let shape = self.shape(tile.keys, [q, k]);
        let product = |step: u32| {
            // elements of a step are 32 bytes of a line; lines of the next 128 bytes come behind those of all rows
            let (line, part) = (step / 4, step % 4 * 2);
            let plus = |rows: u32| line * rows * LINE_BYTES / 16 + part;
            let scale = if step == 0 { "p" } else { "1" };
            let (a, b) = (plus(tile.queries()), plus(tile.keys));
            format!("FW_PRODUCT({shape}, FW_SCORES, {a}, {b}, \"{scale}\", \"{tail}\")")
        };
        (0..steps).map(product).collect()
    }

    /// Products of a step of keys' probabilities each, four words from number `4 step` on, with their values.
    fn value_products(&self) -> Vec<String> {
        const FIRST_WORD: u32 = 2;
        let (tile, elements) = (self.kernel.tile, value_columns(self.kernel.problem.extents.head[1]));
        let ([.., v], tail) = (self.types(), self.tail(", 1, 1, 1"));
        let shape = self.shape(elements, [self.kernel.problem.probabilities, v]);
        let line = tile.line_of_keys();
        let plus = |step: u32| match self.rows.is_fp8() {
            // lines of keys of all elements come behind each other
            true => {
                let first = step * self.step();
                (first / line * line * elements + first % line) / 16
            }
            false => step * STEP * LINE_BYTES / 16,
        };
        let product = |step: u32| {
            let words: Vec<String> = (0..4).map(|word| (FIRST_WORD + 4 * step + word).to_string()).collect();
            let (plus_b, scale) = (plus(step), if step == 0 { "p" } else { "1" });
            format!("FW_PRODUCT_OF({shape}, {}, FW_VALUES, {plus_b}, \"{scale}\", \"{tail}\")", words.join(", "))
        };
        (0..tile.keys / self.step()).map(product).collect()
    }

    /// How values of a stage are found.
    fn value_descriptor(&self) -> String {
        match self.rows.is_fp8() {
            true => {
                let line = self.kernel.tile.line_of_keys();
                format!("fw_matrix_descriptor<{line}>(tile, 0, {})", 8 * line)
            }
            false => format!("fw_matrix_descriptor<128>(tile, {}, 1024)", LINE_BYTES * self.kernel.tile.keys),
        }
    }

    /// Lines of keys side by side.
    fn turned_lines(&self) -> Vec<LineText> {
        let (tile, elements) = (self.kernel.tile, value_columns(self.kernel.problem.extents.head[1]));
        let line = tile.line_of_keys();
        let text = |number: u32| LineText {
            at: number * line * elements,
            element: format!("block * {} + {}", tile.keys, number * line),
        };
        (0..tile.keys / line).map(text).collect()
    }
}
