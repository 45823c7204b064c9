//! Records of the pass that computes all gradients, and of dQ from its sums.

use serde::Serialize;

use super::super::length_line;
use super::*;
use crate::kernel::{AttentionGradientsKernel, AttentionQueriesKernel, GradientsLayout, Walk};

/// What `attention/gradients_consumer.cuh` reads.
#[derive(Serialize)]
struct ConsumerText {
    first: &'static str,
    units: i64,
    next: String,
    unit: String,
    stages: u32,
    scale: String,
    log2e: String,
    own_1_at: u32,
    others: u32,
    members: i64,
    /// What the generator of dropout is told.
    dropout: Option<String>,
    lengths: bool,
    keys: u32,
    key_lines: u32,
    /// Where the slots of gradients of scores lie, and whether their queries' first parts are told.
    scores_at: u32,
    firsts_at: u32,
    /// From one consumer's columns of keys to the other's, in bytes.
    columns_at: u32,
    sums: &'static str,
    part: u32,
    floats: u32,
    turns: &'static str,
    barriers: &'static str,
    /// Accumulators of a part of dQ.
    sum_count: u32,
    scores: u32,
    packed: u32,
    first_step: String,
    next_step: String,
    query_products: String,
    outputs: Vec<GradientText>,
}

/// What `attention/gradients_step.cuh` reads.
#[derive(Serialize)]
struct StepText {
    is_first: bool,
    walk: String,
    heads: i64,
    members: i64,
    steps_of_head: i64,
    zeros: Option<String>,
    stages: u32,
    keys: u32,
    others: u32,
    others_at: u32,
    other_1_at: u32,
    stage_bytes: u32,
    rows_at: u32,
    scores_bytes: u32,
    scores: u32,
    packed: u32,
    pack: &'static str,
    /// The factor of gradients of probabilities.
    factor: &'static str,
    kept: Option<String>,
    adds: &'static str,
    score_products: Vec<String>,
    difference_products: Vec<String>,
    value_products: Vec<String>,
    sum_products: Vec<String>,
    p_words: String,
    sum_count: u32,
    slot_units: u32,
    query_products: String,
    idle_product: String,
}

/// What `attention/gradients_queries.cuh` reads.
#[derive(Serialize)]
struct QueriesText {
    /// From one slot to the next, in units of 16 bytes.
    slot_units: u32,
    products: Vec<String>,
}

/// What `attention/gradients_turns.cuh` reads.
#[derive(Serialize)]
struct TurnsText {
    first: &'static str,
    units: i64,
    next: String,
    unit: String,
    walk: String,
    keys: u32,
    others: u32,
    tiles: i64,
    members: i64,
    heads: i64,
    steps_of_head: i64,
    paired: bool,
    rotation: u32,
    turn_steps: i64,
    firsts_at: u32,
    turns: &'static str,
    barriers: &'static str,
}

/// Regions of the workspace, behind statistics and Δ.
const SUMS: &str = "partial2";
const TURNS: &str = "partial3";

/// Barriers of each of two slots: gradients of scores are written; they are multiplied, and the part is added; it is its turn.
const BARRIERS: &str = "const unsigned written = own_empty + 8, done = written + 16, turn_come = done + 16;";

pub(in crate::codegen) fn gradients(
    graph: &FinalizedGraph,
    used: &mut Used,
    kernel: &AttentionGradientsKernel,
) -> Result<BackwardText, Error> {
    let device_code = ["fw_part", "fw_named_barrier", "fw_store_fragments", "fw_fence_async", "fw_turn"];
    SECTIONS.iter().chain(&["fw_fast_exp2"]).chain(&device_code).for_each(|section| used.add(section));
    let pass = &kernel.pass;
    used.add(if pass.operand == MmaType::F16 { "fw_f16_bits" } else { "fw_bf16_bits" });
    let backward = Backward { graph, used, kernel: pass, layout: pass.layout() };
    let mut gradients = Gradients { kernel, layout: kernel.layout(), backward };
    let scores = gradients.backward.scores();
    let mut sums = Vec::new();
    let mut first = pass.first_sum();
    for output in &pass.outputs {
        sums.push(SumText { name: name_of_sum(output.is_of_values), registers: registers(first, output.registers()) });
        first += output.registers();
    }
    // a part of dQ is multiplied when no gradients of probabilities are
    sums.push(SumText { name: QUERY_SUMS, registers: registers(scores, kernel.sums.registers()) });
    Ok(BackwardText {
        threads: pass.tile.threads(),
        score_registers: registers(0, scores),
        difference_registers: registers(scores, scores),
        sums,
        accumulators: first,
        barriers: gradients.layout.barriers,
        stages: pass.tile.stages,
        consumers: pass.tile.consumers,
        arrivals: 2,
        more_barriers: vec![8, 8, 8, 8, 1, 1],
        producer_registers: pass.registers[0],
        consumer_registers: pass.registers[1],
        producer: gradients.producer()?,
        consumer: gradients.consumer()?,
    })
}

const QUERY_SUMS: &str = "FW_QUERY_SUMS";

struct Gradients<'a, 'u> {
    kernel: &'a AttentionGradientsKernel,
    layout: GradientsLayout,
    backward: Backward<'a, 'u>,
}

impl Gradients<'_, '_> {
    /// Bytes from one consumer's columns of keys to the other's: a line of 64, or within it.
    fn columns_at(&self) -> u32 {
        match self.kernel.sums.columns {
            LINE => self.kernel.pass.tile.rows() * LINE_BYTES,
            columns => columns * 2,
        }
    }

    /// Products of gradients of scores in shared memory with the rows of queries.
    fn sum_products(&self, head: i64) -> Vec<String> {
        let shape = self.backward.shape(value_columns(head));
        let product = |step: u32| {
            let (a, b, scale) = (2 * step, step * STEP * LINE_BYTES / 16, if step == 0 { "p" } else { "1" });
            format!("FW_PRODUCT({shape}, FW_SUMS, {a}, {b}, \"{scale}\", \", 1, 1, 0, 1\")")
        };
        (0..self.kernel.pass.tile.others / STEP).map(product).collect()
    }

    /// How all warps walk tiles of keys; `walk` says which step is the next.
    fn units(&self) -> UnitsText {
        let is_paired = self.kernel.walk == Walk::Paired;
        UnitsText {
            first: if is_paired { "2 * blockIdx.x" } else { "blockIdx.x" },
            units: self.kernel.units() * if is_paired { 2 } else { 1 },
            next: match is_paired {
                true => "unit % 2 ? unit + 2 * gridDim.x - 1 : unit + 1".to_owned(),
                false => "unit + gridDim.x".to_owned(),
            },
            unit: self.unit(),
            walk: format!("for (int at = 0; at < end - begin; ++at) {{\n{}", self.walk()),
        }
    }

    /// The lines that say which tile of keys of which head a unit is, and which steps it has.
    fn unit(&self) -> String {
        let (kernel, pass) = (self.kernel, &self.kernel.pass);
        let (heads, turns, tiles) = (pass.row_heads(), kernel.turns(), kernel.key_tiles());
        let section = pass.section.min(heads);
        let number = if kernel.walk == Walk::Paired { "unit / 2" } else { "unit" };
        let mut lines = vec![
            format!("const unsigned number_of = {number};"),
            format!(
                "const unsigned section = number_of / {0}u * {section}u, rest = number_of % {0}u;",
                section * turns
            ),
            format!("const unsigned of_section = min({section}u, {heads}u - section);"),
            "const unsigned head = section + rest % of_section;".to_owned(),
            format!("[[maybe_unused]] const unsigned first_number = section * {turns}u + head - section;"),
        ];
        match kernel.walk {
            Walk::Paired => {
                lines.push("const int pair = rest / of_section;".to_owned());
                lines.push(format!("const int tile_of_keys = unit % 2 ? {} - pair : pair;", tiles - 1));
                lines.push("if (unit % 2 && tile_of_keys == pair) continue;  // the one in the middle".to_owned());
            }
            Walk::Rotated(_) | Walk::Ascending => {
                lines.push("const int tile_of_keys = rest / of_section;".to_owned());
            }
        }
        lines.push(format!("const int m0 = tile_of_keys * {};", pass.tile.rows()));
        lines.extend(self.backward.bounds());
        lines.join("\n")
    }

    /// The line that says which queries step `at` of a tile has.
    fn walk(&self) -> String {
        match self.kernel.walk {
            Walk::Paired => "const int block = unit % 2 ? end - 1 - at : begin + at;".to_owned(),
            Walk::Ascending => "const int block = begin + at;".to_owned(),
            Walk::Rotated(steps) => {
                format!("const int block = begin + (tile_of_keys * {steps} + at) % (end - begin);")
            }
        }
    }

    fn producer(&self) -> Result<String, Error> {
        let (kernel, pass) = (self.kernel, &self.kernel.pass);
        let units = self.units();
        let record = TurnsText {
            first: units.first,
            units: units.units,
            next: units.next.clone(),
            unit: units.unit.clone(),
            walk: self.walk(),
            keys: pass.tile.rows(),
            others: pass.tile.others,
            tiles: kernel.key_tiles(),
            members: pass.members(),
            heads: pass.extents.heads,
            steps_of_head: kernel.sums.steps,
            paired: kernel.walk == Walk::Paired,
            rotation: if let Walk::Rotated(steps) = kernel.walk { steps } else { 0 },
            turn_steps: 2 * pass.members() * kernel.sums.steps,
            firsts_at: self.layout.firsts,
            turns: TURNS,
            barriers: BARRIERS,
        };
        let turns = template::render(template!("attention/gradients_turns.cuh"), &record)?;
        self.backward.producer(units, Some(turns))
    }

    fn consumer(&mut self) -> Result<String, Error> {
        let (kernel, pass, layout) = (self.kernel, &self.kernel.pass, self.layout);
        let units = self.units();
        let stored = pass.outputs.iter().map(|output| output.tensor);
        let dropout = pass.dropout.map(|dropout| dropout::state(self.backward.graph, self.backward.used, dropout));
        let record = ConsumerText {
            first: units.first,
            units: units.units,
            next: units.next,
            unit: with_offsets(units.unit, self.backward.graph, stored),
            stages: pass.tile.stages,
            scale: scale_text(self.backward.graph, self.backward.used, pass.scale),
            log2e: names::float_literal(LOG2E),
            own_1_at: head_lines(pass.extents.head[0]) * pass.tile.rows() * LINE_BYTES,
            others: pass.tile.others,
            members: pass.members(),
            dropout: dropout.transpose()?,
            lengths: pass.band.lengths.is_some(),
            keys: pass.tile.rows(),
            key_lines: head_lines(pass.extents.head[0]),
            scores_at: layout.scores,
            firsts_at: layout.firsts,
            columns_at: self.columns_at(),
            sums: SUMS,
            part: kernel.sums.part(),
            floats: kernel.sums.floats(),
            turns: TURNS,
            barriers: BARRIERS,
            sum_count: kernel.sums.registers(),
            scores: self.backward.scores(),
            packed: pass.tile.others / 4,
            first_step: self.step(true)?,
            next_step: self.step(false)?,
            query_products: self.query_products()?,
            outputs: self.backward.outputs()?,
        };
        template::render(template!("attention/gradients_consumer.cuh"), &record)
    }

    /// A step, beside the products of dQ of the step before unless it is the first of a tile.
    fn step(&mut self, is_first: bool) -> Result<String, Error> {
        let (pass, layout) = (&self.kernel.pass, self.layout);
        let [head, value_head] = pass.extents.head;
        let others = pass.tile.others;
        let kept = pass.dropout.and_then(|dropout| self.backward.drops(dropout).0);
        let record = StepText {
            is_first,
            walk: self.walk(),
            heads: pass.extents.heads,
            members: pass.members(),
            steps_of_head: self.kernel.sums.steps,
            zeros: self.backward.zeros()?,
            stages: pass.tile.stages,
            keys: pass.tile.rows(),
            others,
            others_at: layout.pass.others,
            other_1_at: self.backward.second_other(),
            stage_bytes: layout.pass.stage_bytes,
            rows_at: layout.pass.rows,
            scores_bytes: layout.scores_bytes,
            scores: self.backward.scores(),
            packed: others / 4,
            pack: pack_function(pass.operand),
            factor: if pass.dropout.is_some() { "scale * drop_scale" } else { "scale" },
            kept,
            adds: if is_first { "false" } else { "true" },
            score_products: self.backward.first_products(head, "FW_SCORES"),
            difference_products: self.backward.first_products(value_head, "FW_DIFFERENCES"),
            value_products: self.backward.last_products(value_head, "FW_VALUE_SUMS"),
            sum_products: self.sum_products(head),
            p_words: word_list("p", others / 4),
            sum_count: self.kernel.sums.registers(),
            slot_units: self.layout.scores_bytes / 16,
            query_products: self.query_products()?,
            idle_product: self.query_product(0),
        };
        template::render(template!("attention/gradients_step.cuh"), &record)
    }

    /// The product with so many keys before it.
    fn query_product(&self, step: u32) -> String {
        let shape = self.backward.shape(self.kernel.sums.columns);
        let (plus, scale) = (step * STEP * LINE_BYTES / 16, if step == 0 { "p" } else { "1" });
        format!("FW_PRODUCT({shape}, {QUERY_SUMS}, {plus}, {plus}, \"{scale}\", \", 1, 1, 1, 1\")")
    }

    /// A part of dQ: gradients of scores of all keys of the block, with rows along k, times the keys.
    fn query_products(&self) -> Result<String, Error> {
        let products = (0..self.kernel.pass.tile.rows() / STEP).map(|step| self.query_product(step)).collect();
        let record = QueriesText { slot_units: self.layout.scores_bytes / 16, products };
        template::render(template!("attention/gradients_queries.cuh"), &record)
    }
}

/// What `attention/gradients_result.cu` reads beside the function's name and parameters.
#[derive(Serialize)]
pub(in crate::codegen) struct ResultText {
    threads: u32,
    /// Threads of a step of queries, and steps.
    items: u32,
    items_of_part: u32,
    places: i64,
    steps: i64,
    step: u32,
    heads: i64,
    columns: u32,
    floats: u32,
    part: u32,
    head_columns: i64,
    length: Option<String>,
    sequences: Vec<String>,
    rows: String,
    storage: &'static str,
    pointer: String,
    offset: String,
    pack: &'static str,
    vectors: bool,
}

pub(in crate::codegen) fn queries(
    graph: &FinalizedGraph,
    used: &mut Used,
    kernel: &AttentionQueriesKernel,
) -> ResultText {
    let (id, sums) = (kernel.output.tensor, kernel.sums);
    let tensor = graph.tensor(id);
    let is_half = tensor.data_type == DataType::Half;
    used.add(if is_half { "fw_f16_bits" } else { "fw_bf16_bits" });
    used.add("fw_vector");
    let [batches, heads, queries] = kernel.extents;
    let stride = &tensor.stride;
    ResultText {
        threads: AttentionQueriesKernel::THREADS,
        items: sums.floats() / 16,
        items_of_part: sums.part() / 16,
        places: batches * heads * sums.steps,
        steps: sums.steps,
        step: QuerySums::STEP,
        heads,
        columns: sums.columns,
        floats: sums.floats(),
        part: sums.part(),
        head_columns: kernel.output.head,
        length: kernel.lengths.map(|id| length_line(graph, "rows", id, queries)),
        sequences: offset_lines(graph, [id].into_iter()),
        rows: if kernel.lengths.is_some() { "rows".to_owned() } else { queries.to_string() },
        storage: names::storage_type(tensor.data_type),
        pointer: names::pointer(graph, id),
        offset: format!(
            "{} + h * {}ull + query * {}ull + column",
            batch_offset(graph, id),
            stride[1],
            stride[2]
        ),
        pack: pack_function(if is_half { MmaType::F16 } else { MmaType::Bf16 }),
        vectors: kernel.output.stores_vectors,
    }
}
