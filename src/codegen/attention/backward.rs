//! Records of the backward pass of attention.

use serde::Serialize;

use super::gradients::{GradientRows, GradientText, factors_text, scale_text};
use super::sequences::{Boxed, batch_offset, offset_lines, with_offsets};
use super::{LINE, LINE_BYTES, LOG2E, SECTIONS, STEP, count, length_line, number, pack_function, registers, stride};
use crate::codegen::names;
use crate::codegen::sections::Used;
use crate::codegen::template::{self, template};
use crate::error::Error;
use crate::graph::{FinalizedGraph, TensorId};
use crate::kernel::{
    AttentionBackwardKernel, AttentionRowsKernel, AttentionSinksKernel, BackwardLayout, MmaType, Number,
    ScoreGradients, WGMMA_ROWS, head_lines, value_columns,
};

/// What `attention/backward_rows.cu` reads beside the function's name and parameters.
#[derive(Serialize)]
pub(in crate::codegen) struct RowsText {
    threads: u32,
    /// Lanes of a row, and rows of a block.
    lanes: u32,
    rows_of_block: u32,
    rows: Number,
    queries: Number,
    heads: Number,
    columns: i64,
    padded: Number,
    /// Types of O and dO.
    storage: [&'static str; 2],
    output: String,
    output_offset: String,
    /// Where element `i` of a lane's eight lies behind the first.
    output_step: String,
    gradient: String,
    gradient_offset: String,
    gradient_step: String,
    /// Whether some lane has fewer than eight.
    is_partial: bool,
    vectors: bool,
    stats: String,
    stats_offset: String,
    log2e: String,
    scale: String,
    /// What Δ is multiplied by, as a factor behind it.
    factors: String,
    /// The region that has Δ alone, and the one that has the sink's part of it, where there are such.
    delta_region: Option<String>,
    sink_region: Option<String>,
    /// The sink of the head.
    sink: Option<String>,
    may_be_empty: bool,
    /// Lines that say where ragged sequences lie, and where rows beyond them are nowhere.
    sequences: Vec<String>,
    length: Option<String>,
}

pub(in crate::codegen) fn rows(graph: &FinalizedGraph, used: &mut Used, kernel: &AttentionRowsKernel) -> RowsText {
    let offset = |id: TensorId| {
        let [of_head, of_query] = [1, 2].map(|axis| stride(graph, id, axis));
        format!("{} + h * {of_head}ull + query * {of_query}ull", batch_offset(graph, id))
    };
    let column = |id: TensorId, first: &str| match graph.tensor(id).stride[3] {
        1 => first.to_owned(),
        stride => format!("({first}) * {stride}ull"),
    };
    if kernel.loads_vectors {
        used.add("fw_vector");
    }
    if kernel.may_be_empty {
        used.add("fw_infinity");
    }
    if kernel.sink.is_some() {
        used.add("fw_fast_exp2");
    }
    let pointer = |id: TensorId| names::pointer(graph, id);
    let [batches, heads, queries] = kernel.extents;
    let [delta_region, sink_region] = kernel.further_regions().map(|place| Some(format!("partial{}", place?)));
    RowsText {
        threads: AttentionRowsKernel::THREADS,
        lanes: kernel.lanes(),
        rows_of_block: AttentionRowsKernel::THREADS / kernel.lanes(),
        rows: count(graph, "all_rows", batches * heads * queries),
        queries: count(graph, "queries", queries),
        heads: count(graph, "heads", heads),
        columns: kernel.head,
        padded: count(graph, "padded", kernel.padded),
        storage: [kernel.output, kernel.gradient].map(|id| names::storage_type(graph.tensor(id).data_type)),
        output: pointer(kernel.output),
        output_offset: format!("{} + {}", offset(kernel.output), column(kernel.output, "8 * lane")),
        output_step: column(kernel.output, "i"),
        gradient: pointer(kernel.gradient),
        gradient_offset: format!("{} + {}", offset(kernel.gradient), column(kernel.gradient, "8 * lane")),
        gradient_step: column(kernel.gradient, "i"),
        is_partial: kernel.head % 8 != 0,
        vectors: kernel.loads_vectors,
        stats: pointer(kernel.stats),
        stats_offset: offset(kernel.stats),
        log2e: names::float_literal(LOG2E),
        scale: factors_text(graph, used, kernel.scale.into_iter().chain(kernel.factors_of_left.iter().copied())),
        factors: kernel.factors.iter().map(|&id| format!(" * {}", number(graph, used, id))).collect(),
        delta_region,
        sink_region,
        sink: kernel.sink.map(|id| format!("{}[h * {}ull]", pointer(id), graph.tensor(id).stride[1])),
        may_be_empty: kernel.may_be_empty,
        sequences: offset_lines(graph, [kernel.output, kernel.gradient, kernel.stats].into_iter()),
        length: kernel.lengths.map(|id| length_line(graph, "length", id, count(graph, "queries", queries))),
    }
}

/// What `attention/backward_sinks.cu` reads beside the function's name and parameters.
#[derive(Serialize)]
pub(in crate::codegen) struct SinksText {
    threads: u32,
    batches: Number,
    heads: Number,
    padded: Number,
    /// The line that says how many queries there are.
    lengths: String,
    result: String,
    result_step: i64,
}

pub(in crate::codegen) fn sinks(graph: &FinalizedGraph, used: &mut Used, kernel: &AttentionSinksKernel) -> SinksText {
    ["FW_SHARED", "fw_block_total"].into_iter().for_each(|section| used.add(section));
    let [batches, heads, queries] = kernel.extents;
    let queries = count(graph, "queries", queries);
    let length = kernel.lengths.map(|id| length_line(graph, "queries", id, queries));
    let kind = if graph.is_dynamic() { "const" } else { "constexpr" };
    SinksText {
        threads: AttentionSinksKernel::THREADS,
        batches: count(graph, "batches", batches),
        heads: count(graph, "heads", heads),
        padded: count(graph, "padded", kernel.padded),
        lengths: length.unwrap_or_else(|| format!("{kind} int queries = {queries};")),
        result: names::pointer(graph, kernel.result),
        result_step: graph.tensor(kernel.result).stride[1],
    }
}

/// What `attention/backward.cu` reads beside the function's name and parameters.
#[derive(Serialize)]
pub(in crate::codegen) struct BackwardText {
    threads: u32,
    score_registers: String,
    difference_registers: String,
    sums: Vec<SumText>,
    accumulators: u32,
    barriers: u32,
    stages: u32,
    consumers: u32,
    /// Arrivals that fill a stage.
    arrivals: u32,
    /// Where the number of a tile lies that was claimed, and warps beside the multiplying ones that read it.
    claimed: Option<u32>,
    readers: u32,
    producer_registers: u32,
    consumer_registers: u32,
    producer: String,
    consumer: String,
}

/// A macro with the registers of a gradient.
#[derive(Serialize)]
struct SumText {
    name: &'static str,
    registers: String,
}

/// A line of boxes: where it lies, of which map it is, its first element and its other coordinates.
#[derive(Serialize)]
pub(super) struct BoxText {
    pub(super) at: u32,
    pub(super) map: String,
    pub(super) element: u32,
    pub(super) coordinates: String,
}

impl BoxText {
    /// The line so many bytes further on.
    pub(super) fn behind(self, bytes: u32) -> Self {
        Self { at: self.at + bytes, ..self }
    }
}

/// What `attention/backward_producer.cuh` reads.
#[derive(Serialize)]
struct ProducerText {
    /// Whether tiles are claimed.
    claims: bool,
    stages: u32,
    first: String,
    units: String,
    next: String,
    unit: String,
    /// Lines that say where ragged sequences lie.
    sequences: Vec<String>,
    own_bytes: u32,
    own_lines: Vec<BoxText>,
    /// Heads whose rows are walked one after the other.
    members: i64,
    others_at: u32,
    stage_bytes: u32,
    other_bytes: u32,
    other_lines: Vec<BoxText>,
    others: u32,
    copies_rows: bool,
    rows_at: u32,
    heads: Number,
    padded: Number,
}

/// What `attention/backward_consumer.cuh` reads.
#[derive(Serialize)]
struct ConsumerText {
    /// Whether the producer tells which tile it claimed.
    claims: bool,
    first: String,
    units: String,
    next: String,
    unit: String,
    stages: u32,
    of_keys: bool,
    /// Whether dV is a result, and whether another gradient is.
    has_values: bool,
    has_sums: bool,
    scale: String,
    cap: Option<String>,
    /// What scores, as they are multiplied, or with their bias, are in powers of two.
    unit_of_scores: String,
    own_1_at: u32,
    others_at: u32,
    stage_bytes: u32,
    last_row: Number,
    others: u32,
    heads: Number,
    padded: Number,
    members: i64,
    /// What the generator of dropout is told.
    dropout: Option<String>,
    /// Lines that say what scales values in FP8.
    scaling: Vec<String>,
    /// Where the largest gradient of a warp's scores is kept.
    kept: Option<String>,
    /// The first step of a warpgroup's rows, and the end of its steps.
    own_first: String,
    own_end: String,
    /// Where a warp's gradients of scores go in the workspace.
    left: Option<String>,
    /// Whether steps know which of several heads their others are of.
    counts_members: bool,
    /// Accumulators of scores, and words of what they become.
    scores: u32,
    packed: u32,
    cut: String,
    first_step: String,
    next_step: String,
    last_sums: String,
    /// Gradients to memory.
    outputs: Vec<GradientText>,
}

/// What `attention/backward_step.cuh` reads.
#[derive(Serialize)]
struct StepText {
    is_first: bool,
    of_keys: bool,
    has_values: bool,
    has_sums: bool,
    others: u32,
    others_at: u32,
    other_1_at: u32,
    stage_bytes: u32,
    rows_at: u32,
    other_line_count: u32,
    scores: u32,
    packed: u32,
    /// Word `i` of probabilities, and of gradients of scores.
    p_word: String,
    s_word: String,
    /// Where gradients of scores are left, of the step.
    left: Option<String>,
    /// What keeps the largest gradient of scores.
    largest: Option<&'static str>,
    lengths: bool,
    barrier_ids: Vec<u32>,
    /// What is known of the query of `x[i]`.
    statistic: String,
    delta: String,
    /// The factor of gradients of probabilities.
    factor: &'static str,
    /// Lines that say what is kept before scores are there, and those that drop gradients of probabilities, and probabilities.
    kept: Option<String>,
    /// Lines that ask for the bias of scores before these are there, and a score with its bias.
    bias: Option<String>,
    score: String,
    /// Lines that make probabilities of capped scores, and multiply by the slope of the cap.
    capped: Option<String>,
    drops: Option<String>,
    drops_values: Option<String>,
    score_products: Vec<String>,
    difference_products: Vec<String>,
    sums_of_before: String,
    /// Groups of products behind that of scores.
    pending: usize,
}

/// What `attention/backward_sums.cuh` reads.
#[derive(Serialize)]
struct SumsText {
    has_values: bool,
    has_sums: bool,
    others: u32,
    other_1_at: u32,
    value_products: Vec<String>,
    sum_products: Vec<String>,
    p_words: String,
    s_words: String,
}

pub(in crate::codegen) fn backward(
    graph: &FinalizedGraph,
    used: &mut Used,
    kernel: &AttentionBackwardKernel,
) -> Result<BackwardText, Error> {
    SECTIONS.iter().chain(&["fw_elect", "fw_fast_exp2"]).for_each(|section| used.add(section));
    used.add(if kernel.problem.operand == MmaType::F16 { "fw_f16_bits" } else { "fw_bf16_bits" });
    let layout = kernel.layout();
    let (problem, tile) = (&kernel.problem, kernel.tile);
    if problem.claims {
        used.add("fw_claim");
    }
    let rows = GradientRows { graph, used, problem, rows: tile.rows(), others: tile.others };
    let scores = rows.scores();
    let mut backward = Backward { rows, kernel, layout };
    let mut first = kernel.first_sum();
    let mut sums = Vec::new();
    for output in &problem.outputs {
        sums.push(SumText { name: name_of_sum(output.is_of_values), registers: registers(first, output.registers()) });
        first += output.registers();
    }
    Ok(BackwardText {
        threads: kernel.tile.threads(),
        score_registers: registers(0, scores),
        difference_registers: if problem.has_sums() { registers(scores, scores) } else { String::new() },
        sums,
        accumulators: first,
        barriers: layout.barriers,
        stages: kernel.tile.stages,
        consumers: kernel.tile.consumers,
        arrivals: 1 + u32::from(problem.of_keys),
        claimed: problem.claims.then_some(layout.claimed),
        readers: u32::from(problem.claims && problem.of_keys),
        producer_registers: kernel.registers[0],
        consumer_registers: kernel.registers[1],
        producer: backward.producer()?,
        consumer: backward.consumer()?,
    })
}

fn name_of_sum(is_of_values: bool) -> &'static str {
    if is_of_values { "FW_VALUE_SUMS" } else { "FW_SUMS" }
}

pub(super) struct Backward<'a, 'u> {
    pub(super) rows: GradientRows<'a, 'u>,
    pub(super) kernel: &'a AttentionBackwardKernel,
    pub(super) layout: BackwardLayout,
}

impl Backward<'_, '_> {
    /// Boxes of two tensors with so many rows each, the second behind the first, from a row on, of these heads.
    pub(super) fn boxes(&self, boxed: [Boxed<'_>; 2], rows: u32, row: &str, heads: [String; 2]) -> Vec<BoxText> {
        let mut boxes = Vec::new();
        let mut at = 0;
        for ((boxed, head), size) in boxed.into_iter().zip(heads).zip(self.kernel.problem.extents.head) {
            for line in 0..head_lines(size) {
                let (map, coordinates) = (format!("map{}", boxed.number), boxed.at(row, &head));
                boxes.push(BoxText { at, map, element: line * LINE, coordinates });
                at += rows * LINE_BYTES;
            }
        }
        boxes
    }

    /// The boxes of own rows, then those of others.
    pub(super) fn boxed(&self) -> [[Boxed<'_>; 2]; 2] {
        let lengths = if self.kernel.problem.of_keys { ["keys", "queries"] } else { ["queries", "keys"] };
        let boxed = |number: usize| Boxed { number, map: &self.kernel.maps[number], length: lengths[number / 2] };
        [[boxed(0), boxed(1)], [boxed(2), boxed(3)]]
    }

    fn producer(&mut self) -> Result<String, Error> {
        let (kernel, layout, graph) = (self.kernel, self.layout, self.rows.graph);
        let problem = &kernel.problem;
        let members = problem.members();
        let own = "h".to_owned();
        let [first, second] = problem.extents.groups();
        let other = match problem.of_keys {
            true if members > 1 => [(); 2].map(|()| format!("h * {members}u + member")),
            true => [own.clone(), own.clone()],
            false => [format!("h / {first}u"), format!("h / {second}u")],
        };
        let [own_boxes, other_boxes] = self.boxed();
        let sequences = own_boxes.iter().chain(&other_boxes).flat_map(|boxed| boxed.lines(graph)).collect();
        let step = format!("block * {}", kernel.tile.others);
        let unit = self.rows.unit();
        let [first, units, next] = self.rows.walk();
        let record = ProducerText {
            claims: problem.claims,
            stages: kernel.tile.stages,
            first,
            units,
            next,
            unit,
            own_bytes: layout.others,
            sequences,
            own_lines: self.boxes(own_boxes, kernel.tile.rows(), "m0", [own.clone(), own]),
            members,
            others_at: layout.others,
            stage_bytes: layout.stage_bytes,
            other_bytes: layout.stage_bytes,
            other_lines: self.boxes(other_boxes, kernel.tile.others, &step, other),
            others: kernel.tile.others,
            copies_rows: problem.of_keys,
            rows_at: layout.rows,
            heads: self.rows.query_heads(),
            padded: self.rows.padded(),
        };
        template::render(template!("attention/backward_producer.cuh"), &record)
    }

    fn consumer(&mut self) -> Result<String, Error> {
        let (kernel, layout) = (self.kernel, self.layout);
        let problem = &kernel.problem;
        if problem.band.lengths.is_some() {
            ["fw_named_barrier", "fw_fence_async", "fw_vector"]
                .into_iter()
                .for_each(|section| self.rows.used.add(section));
        }
        let outputs = self.rows.outputs(true)?;
        let unit = with_offsets(self.rows.unit(), self.rows.graph, problem.outputs.iter().map(|output| output.tensor));
        let scale = scale_text(self.rows.graph, self.rows.used, problem.scale);
        let dropout = self.rows.dropout_state()?;
        let (scaling, kept) = (self.rows.scaling_lines(), self.rows.kept_line());
        let [first, units, next] = self.rows.walk();
        let record = ConsumerText {
            claims: problem.claims,
            first,
            units,
            next,
            unit,
            stages: kernel.tile.stages,
            of_keys: problem.of_keys,
            has_values: problem.has_values(),
            has_sums: problem.has_sums(),
            scale,
            cap: self.rows.cap(),
            unit_of_scores: self.rows.unit_of_scores(),
            own_1_at: head_lines(problem.extents.head[0]) * kernel.tile.rows() * LINE_BYTES,
            others_at: layout.others,
            stage_bytes: layout.stage_bytes,
            last_row: self.rows.last_row(),
            others: kernel.tile.others,
            heads: self.rows.query_heads(),
            padded: self.rows.padded(),
            members: problem.members(),
            dropout,
            scaling,
            kept,
            own_first: self.rows.first_step("first_row"),
            own_end: self.rows.end_of_steps("own_last"),
            left: self.left(),
            counts_members: self.rows.counts_members(),
            scores: self.rows.scores(),
            packed: kernel.tile.others / 4,
            cut: self.rows.cut()?,
            first_step: self.step(true)?,
            next_step: self.step(false)?,
            last_sums: self.sums()?,
            outputs,
        };
        template::render(template!("attention/backward_consumer.cuh"), &record)
    }

    /// Where a warp's gradients of scores begin in the workspace, of the first head of queries.
    fn left(&self) -> Option<String> {
        let ScoreGradients { members, chunks: [along, across], .. } = self.kernel.problem.gradients?;
        let words = ScoreGradients::CHUNK_BYTES / 4;
        let graph = self.rows.graph;
        Some(format!(
            "unsigned* const gradients_of_keys = reinterpret_cast<unsigned*>(partial2) + \
             ({} * {}ull + m0 / {WGMMA_ROWS} + consumer) * {}ull + warp % 4 * {} + lane;",
            self.rows.local_head(),
            count(graph, "chunks of a head along queries", members * along),
            count(graph, "words of chunks of keys", across * i64::from(words)),
            words / 4,
        ))
    }

    /// The same of a step.
    fn left_of_step(&self) -> Option<String> {
        let ScoreGradients { members, chunks, .. } = self.kernel.problem.gradients?;
        let words = i64::from(ScoreGradients::CHUNK_BYTES / 4);
        let of_step = i64::from(self.kernel.tile.others / ScoreGradients::CHUNK[1]) * words;
        let member = if members > 1 {
            let of_member = chunks.iter().product::<i64>() * words;
            format!("member * {}ull + ", count(self.rows.graph, "words of a head", of_member))
        } else {
            String::new()
        };
        Some(format!("gradients_of_keys + {member}block * {of_step}ull"))
    }

    /// A step, beside the sums of the step before unless it is the first of a tile.
    fn step(&mut self, is_first: bool) -> Result<String, Error> {
        let (kernel, layout) = (self.kernel, self.layout);
        let problem = &kernel.problem;
        let ([head, value_head], others) = (problem.extents.head, kernel.tile.others);
        let drops = self.rows.drops(&self.rows.query_head())?;
        let biased = self.rows.biased(&self.rows.query_head())?;
        let [statistic, delta] = self.rows.facts();
        let [p_word, s_word] = self.rows.operand_words(pack_function(problem.operand));
        let record = StepText {
            is_first,
            of_keys: problem.of_keys,
            has_values: problem.has_values(),
            has_sums: problem.has_sums(),
            others,
            others_at: layout.others,
            other_1_at: self.second_other(),
            stage_bytes: layout.stage_bytes,
            rows_at: layout.rows,
            other_line_count: head_lines(head) + head_lines(value_head),
            scores: self.rows.scores(),
            packed: others / 4,
            p_word,
            s_word,
            left: self.left_of_step(),
            largest: self.rows.largest_line(),
            lengths: problem.band.lengths.is_some(),
            barrier_ids: (1..=kernel.tile.consumers).collect(),
            statistic,
            delta,
            factor: self.rows.factor(),
            kept: drops.kept,
            bias: biased.reads,
            capped: self.rows.capped(&biased.value)?,
            score: biased.value,
            drops: drops.gradients,
            drops_values: drops.values,
            score_products: self.first_products(head, "FW_SCORES"),
            difference_products: self.first_products(value_head, "FW_DIFFERENCES"),
            sums_of_before: if is_first { String::new() } else { self.sums()? },
            pending: usize::from(problem.has_sums()) + if is_first { 0 } else { problem.outputs.len() },
        };
        template::render(template!("attention/backward_step.cuh"), &record)
    }

    /// The sums of a step, whose tile is `tile_before`, added to those before where `adds` says so.
    fn sums(&self) -> Result<String, Error> {
        let ([head, value_head], others) = (self.kernel.problem.extents.head, self.kernel.tile.others);
        let words =
            |name: &str| (0..others / 4).map(|at| format!("FW_WORD({name}[{at}])")).collect::<Vec<_>>().join(", ");
        let record = SumsText {
            has_values: self.kernel.problem.has_values(),
            has_sums: self.kernel.problem.has_sums(),
            others,
            other_1_at: self.second_other(),
            value_products: self.last_products(value_head, "FW_VALUE_SUMS"),
            sum_products: self.last_products(head, "FW_SUMS"),
            p_words: words("p"),
            s_words: words("s"),
        };
        template::render(template!("attention/backward_sums.cuh"), &record)
    }

    /// Where the second of the others' tiles lies, behind the first.
    pub(super) fn second_other(&self) -> u32 {
        head_lines(self.kernel.problem.extents.head[0]) * self.kernel.tile.others * LINE_BYTES
    }

    fn shape(&self, columns: u32) -> String {
        let operand = if self.kernel.problem.operand == MmaType::F16 { "f16" } else { "bf16" };
        format!("\"m64n{columns}k16.f32.{operand}.{operand}\"")
    }

    /// Products of own rows and others along a head of so many elements.
    pub(super) fn first_products(&self, head: i64, registers: &str) -> Vec<String> {
        let tile = self.kernel.tile;
        let steps = u32::try_from(head).unwrap_or(0).div_ceil(STEP);
        let shape = self.shape(tile.others);
        let product = |step: u32| {
            // 16 elements are 32 bytes of a line; lines of the next 64 elements come behind those of all rows
            let (line, part) = (step / 4, step % 4 * 2);
            let plus = |rows: u32| line * rows * LINE_BYTES / 16 + part;
            let scale = if step == 0 { "p" } else { "1" };
            let (a, b) = (plus(tile.rows()), plus(tile.others));
            format!("FW_PRODUCT({shape}, {registers}, {a}, {b}, \"{scale}\", \", 1, 1, 0, 0\")")
        };
        (0..steps).map(product).collect()
    }

    /// Products of words of scores, from number 2 on, with the others' rows of so many elements.
    fn last_products(&self, head: i64, registers: &str) -> Vec<String> {
        const FIRST_WORD: u32 = 2;
        let shape = self.shape(value_columns(head));
        let product = |step: u32| {
            let words: Vec<String> = (0..4).map(|word| (FIRST_WORD + 4 * step + word).to_string()).collect();
            let (plus_b, scale) = (step * STEP * LINE_BYTES / 16, if step == 0 { "p" } else { "1" });
            format!("FW_PRODUCT_OF({shape}, {}, {registers}, {plus_b}, \"{scale}\", \", 1, 1, 1\")", words.join(", "))
        };
        (0..self.kernel.tile.others / STEP).map(product).collect()
    }
}
