//! Record of attention: a ring of stages between a warpgroup that brings tiles and those that multiply.

use serde::Serialize;

mod backward;
mod bias;
mod bias_gradient;
mod dropout;
mod sequences;

pub(super) use backward::{backward, rows as backward_rows, sinks as backward_sinks};
pub(super) use bias_gradient::backward_bias;
pub(super) use dropout::mask as dropout_mask;

use self::sequences::{Boxed, batch_offset, is_ragged, with_offsets};
use super::expression::Speller;
use super::names;
use super::sections::Used;
use super::template::{self, template};
use crate::error::Error;
use crate::graph::{FinalizedGraph, ScoreMask, TensorId};
use crate::kernel::{
    AttentionExtents, AttentionKernel, AttentionLayout, Band, BandEdge, ForwardDropout, MmaType, Register, Scores,
    StageProgram, Value, head_lines, value_columns,
};

/// Device code that both passes of an attention use.
const SECTIONS: &[&str] = &[
    "FW_SHARED",
    "fw_shared_address",
    "fw_mbarrier",
    "fw_tma_load",
    "fw_elect",
    "fw_set_registers",
    "fw_wgmma",
    "fw_accumulators",
    "fw_uniform",
    "fw_take_all",
    "fw_quad_transpose",
];

/// Device code that the forward pass uses beside it.
const FORWARD_SECTIONS: &[&str] =
    &["fw_behind", "fw_scale_all", "fw_exponentials", "fw_quad_largest", "fw_quad_total", "fw_infinity"];

/// Elements of 16 bits of a swizzled row, and bytes of it.
const LINE: u32 = 64;
const LINE_BYTES: u32 = 128;

/// k of an instruction.
const STEP: u32 = 16;

/// `log₂ e` and `ln 2`.
const LOG2E: f32 = std::f32::consts::LOG2_E;
const LN2: f32 = std::f32::consts::LN_2;

/// What a score may exceed its row's reference by, as a power of two: probabilities stay below 2⁸ of the largest so far (AT-K7).
const ROOM: f32 = 8.0;

/// What `attention/forward.cu` reads beside the function's name and parameters.
#[derive(Serialize)]
pub(super) struct ForwardText {
    threads: u32,
    /// Lists of the registers of scores and of O.
    score_registers: String,
    value_registers: String,
    accumulators: u32,
    barriers: u32,
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
    element: u32,
}

/// What `attention/producer.cuh` reads.
#[derive(Serialize)]
struct ProducerText {
    stages: u32,
    units: i64,
    next: String,
    unit: String,
    /// Whether steps are left out whose tiles are.
    blocks: bool,
    /// Heads of Q that share one of K, and of V.
    key_group: i64,
    value_group: i64,
    /// Lines that say where ragged sequences lie.
    sequences: Vec<String>,
    /// Coordinates of boxes.
    query_at: String,
    key_at: String,
    value_at: String,
    keys_at: u32,
    values_at: u32,
    query_bytes: u32,
    key_bytes: u32,
    value_bytes: u32,
    query_lines: Vec<LineText>,
    key_lines: Vec<LineText>,
    value_lines: Vec<LineText>,
}

/// What `attention/consumer.cuh` reads.
#[derive(Serialize)]
struct ConsumerText {
    units: i64,
    next: String,
    unit: String,
    /// Whether steps are left out whose tiles are.
    blocks: bool,
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
    /// Accumulators of scores and of O, and pairs of probabilities.
    scores: u32,
    values: u32,
    packed: u32,
    pack: &'static str,
    softmax: String,
    /// Room for what is read two columns at a time before scores are there, and the reads of pair `i`.
    pairs: Vec<String>,
    pair_reads: Vec<String>,
    key_products: Vec<String>,
    value_products: Vec<String>,
    /// The probabilities as words of these.
    words: String,
    lengths: bool,
    /// What the generator is told, and the factor of what is kept.
    dropout: Option<String>,
    barrier_ids: Vec<u32>,
    rows: String,
    output: String,
}

/// What `attention/softmax.cuh` reads.
#[derive(Serialize)]
struct SoftmaxText {
    scores: u32,
    keys: u32,
    program: Option<String>,
    /// The condition that scores are multiplied by their scale before they are compared.
    scales_first: Option<&'static str>,
    left: bool,
    lengths: bool,
    largest: bool,
    /// The lines that drop probabilities.
    dropout: Option<String>,
}

/// What `attention/rows.cuh` reads.
#[derive(Serialize)]
struct RowsText {
    rows: i64,
    dropout: bool,
    largest: bool,
    /// A row's score beside its keys, where the largest is stored.
    sink: Option<String>,
    stores: Vec<String>,
}

/// What `attention/output.cuh` reads.
#[derive(Serialize)]
struct OutputText {
    zeros: String,
    groups: Vec<GroupText>,
    /// Rows that exist.
    rows: String,
    columns: i64,
    pack: &'static str,
    storage: &'static str,
    pointer: String,
    offset: String,
    vectors: bool,
}

/// 32 columns of O.
#[derive(Serialize)]
struct GroupText {
    column: u32,
    takes: Vec<TakeText>,
    /// Whether some lanes have no columns.
    guard: bool,
}

#[derive(Serialize)]
struct TakeText {
    register: u32,
    fragment: u32,
}

pub(super) fn forward(graph: &FinalizedGraph, used: &mut Used, kernel: &AttentionKernel) -> Result<ForwardText, Error> {
    for &section in SECTIONS.iter().chain(FORWARD_SECTIONS) {
        used.add(section);
    }
    let layout = kernel.tile.layout(kernel.extents.head);
    let mut forward = Forward { graph, used, kernel, layout };
    let [scores, values] = [forward.scores(), forward.values()];
    Ok(ForwardText {
        threads: kernel.tile.threads(),
        score_registers: registers(0, scores),
        value_registers: registers(scores, values),
        accumulators: scores + values,
        barriers: layout.barriers,
        stages: kernel.tile.stages,
        consumers: kernel.tile.consumers,
        producer_registers: kernel.registers[0],
        consumer_registers: kernel.registers[1],
        producer: forward.producer()?,
        consumer: forward.consumer()?,
    })
}

/// `acc3, acc4, …`.
fn registers(first: u32, count: u32) -> String {
    (first..first + count).map(|number| format!("acc{number}")).collect::<Vec<_>>().join(", ")
}

/// The instruction that packs two numbers.
fn pack_function(operand: MmaType) -> &'static str {
    match operand {
        MmaType::F16 => "fw_pack_f16x2",
        _ => "fw_pack_bf16x2",
    }
}

/// The lines that say how long the sequences of batch `b` are.
fn length_lines(graph: &FinalizedGraph, band: &Band, extents: &AttentionExtents) -> Vec<String> {
    let Some([queries, keys]) = band.lengths else {
        return vec![format!("constexpr int queries = {}, keys = {};", extents.queries, extents.keys)];
    };
    vec![length_line(graph, "queries", queries, extents.queries), length_line(graph, "keys", keys, extents.keys)]
}

/// The length of a batch's sequence, of so many rows at most.
fn length_line(graph: &FinalizedGraph, name: &str, id: TensorId, most: i64) -> String {
    let stride = graph.tensor(id).stride.first().copied().unwrap_or(0);
    let pointer = names::pointer(graph, id);
    format!("const int {name} = min(max({pointer}[b * {stride}ull], 0), {most});")
}

/// The rows of a tensor that exist: those of a ragged one within the sequence alone.
fn existing_rows(graph: &FinalizedGraph, id: TensorId, all: i64) -> String {
    if is_ragged(graph, id) { "rows".to_owned() } else { all.to_string() }
}

/// Where the element of a tensor for a score of batch, head, query and key lies; of extents of 1 there is one for all.
fn spread_offset(graph: &FinalizedGraph, id: TensorId, at: &[String; 4]) -> String {
    let tensor = graph.tensor(id);
    let spread = (0..tensor.dim.len()).filter(|&axis| tensor.dim[axis] > 1);
    let terms: Vec<String> = spread.map(|axis| format!("({}) * {}ull", at[axis], tensor.stride[axis])).collect();
    if terms.is_empty() { "0".to_owned() } else { terms.join(" + ") }
}

/// A tensor of one element.
fn number(graph: &FinalizedGraph, used: &mut Used, id: TensorId) -> String {
    let tensor = graph.tensor(id);
    if tensor.is_pass_by_value {
        return graph.canonical_name(id);
    }
    used.add(names::storage_section(tensor.data_type));
    format!("fw_value({}[0])", names::pointer(graph, id))
}

/// What is added to a row for an edge of its band: a number, and one that is known when the kernel is launched.
fn edge_text(graph: &FinalizedGraph, edge: BandEdge, keys: i64, sign: &str) -> String {
    // bounds beyond this reach beyond all rows
    const FAR: i64 = 1 << 29;
    let known = match keys.clamp(-FAR, FAR) {
        0 => String::new(),
        keys => format!(" + {keys}"),
    };
    let more = edge.more.map(|id| format!(" {sign} min(max(int({}), {}), {FAR})", graph.canonical_name(id), -FAR));
    known + &more.unwrap_or_default()
}

struct Forward<'a, 'u> {
    graph: &'a FinalizedGraph,
    used: &'u mut Used,
    kernel: &'a AttentionKernel,
    layout: AttentionLayout,
}

impl Forward<'_, '_> {
    /// Accumulators of a thread for the scores of a step.
    fn scores(&self) -> u32 {
        self.kernel.tile.keys / 2
    }

    /// Accumulators of a thread for O.
    fn values(&self) -> u32 {
        value_columns(self.kernel.extents.head[1]) / 2
    }

    fn units(&self) -> i64 {
        self.kernel.row_tiles() * self.kernel.extents.row_heads()
    }

    /// Head of Q, and query, of a row.
    fn head_and_query(&self, row: &str) -> [String; 2] {
        match self.kernel.extents.packed {
            1 => ["h".to_owned(), row.to_owned()],
            packed => [format!("(h * {packed} + ({row}) % {packed})"), format!("({row}) / {packed}")],
        }
    }

    fn is_causal(&self) -> bool {
        self.kernel.band.right.is_some()
    }

    /// O and the statistics.
    fn stored(&self) -> impl Iterator<Item = TensorId> + use<> {
        [self.kernel.output].into_iter().chain(self.kernel.statistics.tensors())
    }

    fn pack(&self) -> &'static str {
        pack_function(self.kernel.operand)
    }

    /// The next unit of a block. Where tiles differ, blocks that had the longest of a turn have the shortest of the next.
    fn next(&self) -> String {
        match self.is_causal() {
            true => "turn * gridDim.x + (turn % 2 ? gridDim.x - 1 - blockIdx.x : blockIdx.x)".to_owned(),
            false => "unit + gridDim.x".to_owned(),
        }
    }

    /// The lines that say which tile of queries of which head a unit is, and which steps of keys it has.
    fn unit(&mut self) -> String {
        let (kernel, heads) = (self.kernel, self.kernel.extents.row_heads());
        let (tiles, section, extents) = (kernel.row_tiles(), kernel.section, kernel.extents);
        let (rows, keys) = (kernel.tile.queries(), kernel.tile.keys);
        let mut lines = Vec::new();
        let mut line = |line: String| lines.push(line);
        let tile = |tile: &str| if self.is_causal() { format!("{} - {tile}", tiles - 1) } else { tile.to_owned() };
        if section < heads {
            line(
                "// heads whose K and V are in L2 together come before others, of these all with the same rows"
                    .to_owned(),
            );
            line(format!("const unsigned section = unit / {0}u * {section}u, rest = unit % {0}u;", section * tiles));
            line(format!("const unsigned of_section = min({section}u, {heads}u - section);"));
            line("const unsigned head = section + rest % of_section;".to_owned());
            line(format!("const int m0 = ({}) * {rows};", tile("int(rest / of_section)")));
        } else {
            line(format!("const unsigned head = unit % {heads}u;"));
            line(format!("const int m0 = ({}) * {rows};", tile(&format!("int(unit / {heads}u)"))));
        }
        line(format!("const unsigned b = head / {0}u, h = head % {0}u;", extents.heads / extents.packed));
        length_lines(self.graph, &kernel.band, &extents).into_iter().for_each(&mut line);
        match extents.packed {
            1 => line("const int rows = queries;".to_owned()),
            packed => line(format!("const int rows = queries * {packed};  // of {packed} heads, query by query")),
        }
        let shift = if kernel.band.is_bottom_right { " + keys - queries" } else { "" };
        let [_, query] = self.head_and_query("row");
        let moved = |edge, keys, sign| format!("{query}{shift}{}", edge_text(self.graph, edge, keys, sign));
        let end = kernel.band.right.map(|right| moved(right, right.keys.saturating_add(1), "+"));
        let end = end.map_or("keys".to_owned(), |end| format!("min(keys, max({end}, 0))"));
        let first = kernel.band.left.map(|left| moved(left, 1_i64.saturating_sub(left.keys), "-"));
        let first = first.map_or("0".to_owned(), |first| format!("max({first}, 0)"));
        line(format!("const auto keys_of = [&]([[maybe_unused]] int row) {{ return {end}; }};"));
        line(format!("const auto first_key = [&]([[maybe_unused]] int row) {{ return {first}; }};"));
        if self.stored().all(|id| is_ragged(self.graph, id)) {
            line("if (m0 >= rows) continue;  // rows beyond the sequence are nowhere".to_owned());
        }
        line(format!("const int last_row = min(m0 + {rows}, rows) - 1;"));
        line(format!("const int end = last_row < m0 ? 0 : (keys_of(last_row) + {}) / {keys};", keys - 1));
        line(format!("const int begin = min(first_key(m0) / {keys}, end);"));
        lines.extend(kernel.band.blocks.map(|id| self.blocks(id)).into_iter().flatten());
        lines.join("\n")
    }

    /// The lines that say which steps are kept: the last one before a step, and how many of some.
    fn blocks(&self, id: TensorId) -> [String; 4] {
        let (stride, keys) = (&self.graph.tensor(id).stride, self.kernel.tile.keys);
        let pointer = names::pointer(self.graph, id);
        let tile = ScoreMask::TILE;
        [
            format!(
                "const unsigned char* const tiles = {pointer} + b * {}ull + h * {}ull + m0 / {tile} * {}ull;",
                stride[0], stride[1], stride[2]
            ),
            format!(
                "const auto is_kept = [&](int block) {{ const int tile = block * {keys} / {tile}; return tiles[tile / 8 * {}ull] >> tile % 8 & 1; }};",
                stride[3]
            ),
            "[[maybe_unused]] const auto before = [&](int block) { do --block; while (block >= begin && !is_kept(block)); return block; };"
                .to_owned(),
            "[[maybe_unused]] const auto count = [&](int block, int to) { int kept = 0; for (; block < to; ++block) kept += is_kept(block); return kept; };"
                .to_owned(),
        ]
    }

    fn producer(&mut self) -> Result<String, Error> {
        let (kernel, layout) = (self.kernel, self.layout);
        let [head, value_head] = kernel.extents.head;
        let of_lines = |head: i64, rows: u32| -> Vec<LineText> {
            (0..head_lines(head)).map(|line| LineText { at: line * rows * LINE_BYTES, element: line * LINE }).collect()
        };
        let groups = kernel.extents.groups();
        let boxed = [(0, "queries"), (1, "keys"), (2, "keys")].map(|(number, length)| Boxed {
            number,
            map: &kernel.maps[number],
            length,
        });
        let [q, k, v] = boxed;
        let query_at = match kernel.extents.packed {
            1 => q.at(self.graph, "m0", "h"),
            packed => format!("0, {}", q.at(self.graph, &format!("m0 / {packed}"), "h")),
        };
        let step = format!("block * {}", kernel.tile.keys);
        let record = ProducerText {
            stages: kernel.tile.stages,
            units: self.units(),
            next: self.next(),
            unit: self.unit(),
            blocks: kernel.band.blocks.is_some(),
            key_group: groups[0] / kernel.extents.packed,
            value_group: groups[1] / kernel.extents.packed,
            sequences: boxed.iter().flat_map(|boxed| boxed.lines(self.graph)).collect(),
            query_at,
            key_at: k.at(self.graph, &step, "key_head"),
            value_at: v.at(self.graph, &step, "value_head"),
            keys_at: layout.keys,
            values_at: layout.values,
            query_bytes: layout.keys,
            key_bytes: layout.tile_bytes[0],
            value_bytes: layout.tile_bytes[1],
            query_lines: of_lines(head, kernel.tile.queries()),
            key_lines: of_lines(head, kernel.tile.keys),
            value_lines: of_lines(value_head, kernel.tile.keys),
        };
        template::render(template!("attention/producer.cuh"), &record)
    }

    fn consumer(&mut self) -> Result<String, Error> {
        let (kernel, layout) = (self.kernel, self.layout);
        let has_lengths = kernel.band.lengths.is_some();
        if has_lengths {
            ["fw_named_barrier", "fw_fence_async", "fw_vector"].into_iter().for_each(|section| self.used.add(section));
        }
        self.used.add(if kernel.operand == MmaType::F16 { "fw_f16_bits" } else { "fw_bf16_bits" });
        let keys = kernel.tile.keys;
        let plain_end = match has_lengths {
            true => format!("first_row + 63 < rows ? keys_of(first_row) / {keys} : 0"),
            false => format!("keys_of(first_row) / {keys}"),
        };
        match self.knows_largest() {
            true => ["fw_row_maxima_nan", "fw_quad_largest_nan"].into_iter().for_each(|section| self.used.add(section)),
            false => self.used.add("fw_row_maxima"),
        }
        let (rows, output) = (self.rows()?, self.output()?);
        let (pairs, pair_reads) = self.pairs();
        let record = ConsumerText {
            units: self.units(),
            next: self.next(),
            unit: with_offsets(self.unit(), self.graph, self.stored()),
            blocks: kernel.band.blocks.is_some(),
            stages: kernel.tile.stages,
            keys,
            keys_at: layout.keys,
            values_at: layout.values,
            key_bytes: layout.tile_bytes[0],
            value_bytes: layout.tile_bytes[1],
            value_line_count: head_lines(kernel.extents.head[1]),
            scale: self.scale(),
            plain_end,
            sink: kernel.sink.map(|id| self.sink_of_row(id)),
            largest: self.knows_largest(),
            scores: self.scores(),
            values: self.values(),
            packed: keys / 4,
            pack: self.pack(),
            softmax: self.softmax()?,
            pairs,
            pair_reads,
            key_products: self.key_products(),
            value_products: self.value_products(),
            words: (0..keys / 4).map(|word| format!("FW_WORD(p[{word}])")).collect::<Vec<_>>().join(", "),
            lengths: has_lengths,
            dropout: kernel.dropout.map(|dropout| self.dropout_state(dropout)).transpose()?,
            barrier_ids: (1..=kernel.tile.consumers).collect(),
            rows,
            output,
        };
        template::render(template!("attention/consumer.cuh"), &record)
    }

    /// Whether the largest score of a row is kept beside the reference, which may be below it.
    fn knows_largest(&self) -> bool {
        self.kernel.statistics.max.is_some() || self.kernel.statistics.sum_exp.is_some()
    }

    /// The sink of a row, which rows beyond their sequence do not have.
    fn sink_of_row(&mut self, id: TensorId) -> String {
        let stride = self.graph.tensor(id).stride.get(1).copied().unwrap_or(0);
        let [head, _] = self.head_and_query("row + 8 * e");
        self.used.add(names::storage_section(self.graph.tensor(id).data_type));
        let sink = format!("fw_value({}[{head} * {stride}ull])", names::pointer(self.graph, id));
        match self.kernel.band.lengths {
            Some(_) => format!("row + 8 * e < rows ? {sink} : negative"),
            None => sink,
        }
    }

    /// [`ROOM`], but none where a mask may multiply probabilities beyond what HALF holds.
    fn room(&self) -> f32 {
        let is_masked = matches!(self.kernel.dropout, Some(ForwardDropout::Masked { .. }));
        if is_masked && self.kernel.operand == MmaType::F16 { 0.0 } else { ROOM }
    }

    /// `c`, by which scores become exponents of two; `unit_of_scores`, what one of them is in natural units; `room`.
    fn scale(&mut self) -> String {
        let (log2e, room) = (names::float_literal(LOG2E), names::float_literal(self.room()));
        let reads_unit = self.knows_largest() || self.kernel.sink.is_some();
        let unit = if reads_unit { ", unit_of_scores = 1.0f" } else { "" };
        let constant = format!("constexpr float c = {log2e}{unit}, room = {room} / c;");
        let Scores::Scaled(Some(id)) = self.kernel.scores else { return constant };
        let scale = number(self.graph, self.used, id);
        [
            format!("const float scale = {scale};"),
            "// scores are compared before they are scaled, where that does not turn their order".to_owned(),
            "const bool scales_first = !(scale > 0.0f && scale < fw_infinity());".to_owned(),
            "const float unit_of_scores = scales_first ? 1.0f : scale;".to_owned(),
            format!("const float c = unit_of_scores * {log2e}, room = {room} / c;"),
        ]
        .join("\n")
    }

    /// The lines that say what the generator of dropout is told, and the factor of O.
    fn dropout_state(&mut self, dropout: ForwardDropout) -> Result<String, Error> {
        match dropout {
            ForwardDropout::Drawn(dropout) => dropout::state(self.graph, self.used, dropout),
            ForwardDropout::Masked { scale, .. } => {
                Ok(format!("const float drop_scale = {};", number(self.graph, self.used, scale)))
            }
        }
    }

    /// The lines that multiply the probabilities of a step by a mask. Where there is no probability, what the mask has may be anything.
    fn masked(&mut self, mask: TensorId) -> String {
        self.used.add(names::storage_section(self.graph.tensor(mask).data_type));
        let value = format!("fw_value({}[{}])", names::pointer(self.graph, mask), self.score_offset(mask));
        [
            "#pragma unroll".to_owned(),
            format!("for (int i = 0; i < {}; ++i) {{", self.scores()),
            self.score_row("i >> 1 & 1"),
            self.score_column("8 * (i >> 2) + (i & 1)", 1),
            format!("if (x[i] != 0.0f) x[i] *= {value};"),
            "}".to_owned(),
        ]
        .join("\n")
    }

    /// The lines that make dropped ones of the probabilities of a step 0.
    fn dropped(&mut self, dropout: ForwardDropout) -> String {
        let dropout = match dropout {
            ForwardDropout::Drawn(dropout) => dropout,
            ForwardDropout::Masked { mask, .. } => return self.masked(mask),
        };
        self.used.add("fw_drop_columns");
        let rows = ["row", "row + 8"].map(|row| self.head_and_query(row));
        let of_head = |[head, _]: &[String; 2]| format!("b * {} + {head}", self.kernel.extents.heads);
        let (heads, queries) = (
            rows.each_ref().map(of_head).join(", "),
            rows.each_ref().map(|row| format!("unsigned({})", row[1])).join(", "),
        );
        [
            format!("const unsigned drop_queries[2] = {{{queries}}};"),
            format!("const unsigned drop_heads[2] = {{{heads}}};"),
            format!(
                "fw_drop_columns<{}u>(x, block * {}, drop_queries, drop_heads, drop_state, lane);",
                dropout.threshold,
                self.kernel.tile.keys / 8
            ),
        ]
        .join("\n")
    }

    fn softmax(&mut self) -> Result<String, Error> {
        let kernel = self.kernel;
        let program = match &kernel.scores {
            Scores::Program { program, result } => Some(self.program(program, *result)),
            Scores::Scaled(_) => None,
        };
        let record = SoftmaxText {
            scores: self.scores(),
            keys: kernel.tile.keys,
            program,
            scales_first: matches!(kernel.scores, Scores::Scaled(Some(_))).then_some("scales_first"),
            left: kernel.band.left.is_some(),
            lengths: kernel.band.lengths.is_some(),
            largest: self.knows_largest(),
            dropout: kernel.dropout.map(|dropout| self.dropped(dropout)),
        };
        template::render(template!("attention/softmax.cuh"), &record)
    }

    /// The lines that evaluate the operations of one score, `x[i]`. What is read for rows and columns beyond the last is the last's.
    fn program(&mut self, program: &StageProgram, result: TensorId) -> String {
        let (graph, paired) = (self.graph, &self.kernel.paired);
        let mut lines = vec![self.score_row("i >> 1 & 1"), self.score_column("8 * (i >> 2) + (i & 1)", 1)];
        let offset = |id: TensorId| self.score_offset(id);
        let offsets: Vec<(TensorId, String)> = program.loads().map(|id| (id, offset(id))).collect();
        let coordinates = self.coordinates();
        let mut speller = Speller::new(graph, self.used, program, [result].into_iter());
        for step in &program.steps {
            if step.value == Value::Load {
                let tensor = graph.tensor(step.tensor);
                let offset = offsets.iter().find(|known| known.0 == step.tensor).map_or("0", |known| &known.1);
                let text = match tensor.is_pass_by_value {
                    true => graph.canonical_name(step.tensor),
                    false if paired.contains(&step.tensor) => {
                        format!("fw_value(pairs_{}[i / 2].at[i & 1])", graph.canonical_name(step.tensor))
                    }
                    false => speller.element(step.tensor, offset),
                };
                if speller.value(step.tensor) != text {
                    lines.push(speller.define_load(step.tensor, &text));
                }
                continue;
            }
            let coordinate = step.generated_axis().map(|axis| coordinates[axis].clone());
            lines.push(speller.define(step, (Register::Float, "x[i]"), coordinate.as_deref()));
        }
        let value = speller.unrounded(result);
        lines.push(format!("x[i] = {value};"));
        lines.join("\n")
    }

    /// Row of a score, of the first or the second of a lane's, as `of_lane` tells.
    fn score_row(&self, of_lane: &str) -> String {
        format!("const int score_row = min(row + 8 * ({of_lane}), {});", self.kernel.extents.rows() - 1)
    }

    /// Column of a score, the first of so many side by side.
    fn score_column(&self, of_lane: &str, count: i64) -> String {
        let (keys, last) = (self.kernel.tile.keys, self.kernel.extents.keys - count);
        format!("const int score_column = min(block * {keys} + 2 * int(quad) + {of_lane}, {last});")
    }

    /// Batch, head, query and key of a score.
    fn coordinates(&self) -> [String; 4] {
        let [head, query] = self.head_and_query("score_row");
        ["b".to_owned(), head, query, "score_column".to_owned()]
    }

    /// Where the element of a tensor for a score lies.
    fn score_offset(&self, id: TensorId) -> String {
        spread_offset(self.graph, id, &self.coordinates())
    }

    /// Room for what is read two columns at a time, and the lines that read it for a step.
    fn pairs(&mut self) -> (Vec<String>, Vec<String>) {
        let (mut room, mut reads) = (Vec::new(), Vec::new());
        if self.kernel.paired.is_empty() {
            return (room, reads);
        }
        self.used.add("fw_vector");
        reads.extend([self.score_row("i & 1"), self.score_column("8 * (i >> 1)", 2)]);
        for &id in &self.kernel.paired {
            let data_type = self.graph.tensor(id).data_type;
            self.used.add(names::storage_section(data_type));
            let (storage, name) = (names::storage_type(data_type), self.graph.canonical_name(id));
            let count = self.scores() / 2;
            room.push(format!("fw_vector<{storage}, 2> pairs_{name}[{count}];"));
            let from = format!("{} + {}", names::pointer(self.graph, id), self.score_offset(id));
            reads.push(format!("pairs_{name}[i] = *reinterpret_cast<const fw_vector<{storage}, 2>*>({from});"));
        }
        (room, reads)
    }

    fn shape(&self, columns: u32) -> String {
        let operand = if self.kernel.operand == MmaType::F16 { "f16" } else { "bf16" };
        format!("\"m64n{columns}k16.f32.{operand}.{operand}\"")
    }

    fn key_products(&self) -> Vec<String> {
        let tile = self.kernel.tile;
        let steps = u32::try_from(self.kernel.extents.head[0]).unwrap_or(0).div_ceil(STEP);
        let shape = self.shape(tile.keys);
        let product = |step: u32| {
            // 16 elements are 32 bytes of a line; lines of the next 64 elements come behind those of all rows
            let (line, part) = (step / 4, step % 4 * 2);
            let plus = |rows: u32| line * rows * LINE_BYTES / 16 + part;
            let scale = if step == 0 { "p" } else { "1" };
            let (a, b) = (plus(tile.queries()), plus(tile.keys));
            format!("FW_PRODUCT({shape}, FW_SCORES, {a}, {b}, \"{scale}\", \", 1, 1, 0, 0\")")
        };
        (0..steps).map(product).collect()
    }

    /// Products of 16 keys' probabilities each, four words from number `4 step` on, with their values.
    fn value_products(&self) -> Vec<String> {
        const FIRST_WORD: u32 = 2;
        let shape = self.shape(value_columns(self.kernel.extents.head[1]));
        let product = |step: u32| {
            let words: Vec<String> = (0..4).map(|word| (FIRST_WORD + 4 * step + word).to_string()).collect();
            let (plus_b, scale) = (step * STEP * LINE_BYTES / 16, if step == 0 { "p" } else { "1" });
            format!("FW_PRODUCT_OF({shape}, {}, FW_VALUES, {plus_b}, \"{scale}\", \", 1, 1, 1\")", words.join(", "))
        };
        (0..self.kernel.tile.keys / STEP).map(product).collect()
    }

    /// `b * … + h * … + <row> * …`.
    fn row_offset(&self, id: TensorId, row: &str) -> String {
        let stride = &self.graph.tensor(id).stride;
        let [head, query] = self.head_and_query(row);
        let batch = batch_offset(self.graph, id);
        format!("{batch} + {head} * {}ull + ({query}) * {}ull", stride[1], stride[2])
    }

    fn rows(&mut self) -> Result<String, Error> {
        let statistics = self.kernel.statistics;
        let ln2 = names::float_literal(LN2);
        let is_known = self.knows_largest();
        let sink = self.kernel.sink.filter(|_| is_known).map(|id| self.sink_of_row(id));
        let factor = "exp2f(fmaf(-greatest, c, reference[e]))";
        let [max, sum_exp] = match &sink {
            // the reference is the sink's own where that is the largest
            Some(_) => [
                "fw_max_nan(greatest * unit_of_scores, sink)".to_owned(),
                format!("total * (is_sink ? 1.0f : {factor})"),
            ],
            None => ["greatest * unit_of_scores".to_owned(), format!("total * {factor}")],
        };
        let values = [
            (statistics.stats, format!("total == 0.0f ? negative : (reference[e] + log2f(total)) * {ln2}")),
            (statistics.max, max),
            (statistics.sum_exp, format!("total == 0.0f ? 0.0f : {sum_exp}")),
        ];
        let store = |(id, value): (Option<TensorId>, String)| {
            let id = id?;
            let inside = if is_ragged(self.graph, id) { "if (row + 8 * e < rows) " } else { "" };
            let at = self.row_offset(id, "row + 8 * e");
            Some(format!("{inside}{}[{at}] = {value};", names::pointer(self.graph, id)))
        };
        let record = RowsText {
            rows: self.kernel.extents.rows(),
            dropout: self.kernel.dropout.is_some(),
            largest: is_known,
            sink,
            stores: values.into_iter().filter_map(store).collect(),
        };
        template::render(template!("attention/rows.cuh"), &record)
    }

    fn output(&mut self) -> Result<String, Error> {
        let kernel = self.kernel;
        let (first, fragments) = (self.scores(), value_columns(kernel.extents.head[1]) / 8);
        if kernel.stores_vectors {
            self.used.add("fw_vector");
        }
        let group = |start: u32| {
            let end = (start + 4).min(fragments);
            let take = |fragment: u32| TakeText { register: first + 4 * fragment, fragment: fragment - start };
            GroupText { column: 8 * start, takes: (start..end).map(take).collect(), guard: end - start < 4 }
        };
        let zeros = (first..first + self.values()).map(|number| format!("FW_ZERO({number})")).collect::<Vec<_>>();
        let record = OutputText {
            zeros: zeros.join(" "),
            groups: (0..fragments).step_by(4).map(group).collect(),
            rows: existing_rows(self.graph, kernel.output, kernel.extents.rows()),
            columns: kernel.extents.head[1],
            pack: self.pack(),
            storage: names::storage_type(self.graph.tensor(kernel.output).data_type),
            pointer: names::pointer(self.graph, kernel.output),
            offset: format!("{} + column", self.row_offset(kernel.output, "row_of")),
            vectors: kernel.stores_vectors,
        };
        template::render(template!("attention/output.cuh"), &record)
    }
}
