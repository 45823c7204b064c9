//! Records of gradients of queries that are multiplied of gradients of scores in the workspace.

use serde::Serialize;

use super::backward::BoxText;
use super::gradients::{GradientRows, GradientText};
use super::sequences::{Boxed, with_offsets};
use super::{LINE, LINE_BYTES, SECTIONS, STEP, count, registers};
use crate::codegen::sections::Used;
use crate::error::Error;
use crate::graph::FinalizedGraph;
use crate::kernel::{
    AttentionQueriesKernel, MmaType, Number, QueriesTile, ScoreGradients, WGMMA_ROWS, head_lines, value_columns,
};

/// What `attention/backward_queries.cu` reads beside the function's name and parameters.
#[derive(Serialize)]
pub(in crate::codegen) struct QueriesText {
    threads: u32,
    accumulators: u32,
    barriers: u32,
    stages: u32,
    stage_bytes: u32,
    consumers: u32,
    consumer_rows: u32,
    producer_registers: u32,
    consumer_registers: u32,
    first: String,
    units: String,
    next: String,
    unit: String,
    /// The same with where dQ's sequences lie.
    stored_unit: String,
    sequences: Vec<String>,
    /// Whether rows whose keys no end of a sequence cuts keep one, where that is not known or false.
    has_width: Option<String>,
    /// Keys of a step, and where they lie in a stage.
    step: u32,
    keys_at: u32,
    key_lines: Vec<BoxText>,
    line_count: u32,
    /// The head among those whose gradients are in the workspace, and the chunks of a head, and of the same keys.
    local_head: String,
    chunks_of_head: Number,
    chunks_of_keys: Number,
    lengths: bool,
    barrier_ids: Vec<u32>,
    parts: Vec<PartText>,
    parts_count: u32,
    part_bytes: u32,
}

/// 64 queries of a warpgroup.
#[derive(Serialize)]
struct PartText {
    name: String,
    registers: String,
    products: Vec<String>,
    outputs: Vec<GradientText>,
}

pub(in crate::codegen) fn queries(
    graph: &FinalizedGraph,
    used: &mut Used,
    kernel: &AttentionQueriesKernel,
) -> Result<QueriesText, Error> {
    SECTIONS.iter().chain(&["fw_elect"]).for_each(|section| used.add(section));
    let (problem, tile, layout, gradients) = (&kernel.problem, kernel.tile, kernel.layout(), kernel.gradients);
    used.add(if problem.operand == MmaType::F16 { "fw_f16_bits" } else { "fw_bf16_bits" });
    if problem.band.lengths.is_some() {
        ["fw_named_barrier", "fw_fence_async", "fw_vector"].into_iter().for_each(|section| used.add(section));
    }
    let head = problem.extents.head[0];
    let mut rows = GradientRows { graph, used, problem, rows: tile.rows(), others: QueriesTile::STEP };
    let parts = (0..tile.parts).map(|part| part_text(&mut rows, kernel, part)).collect::<Result<Vec<_>, _>>()?;
    let unit = rows.unit();
    let [first, units, next] = rows.walk();
    let keys = Boxed { number: 1, map: &kernel.maps[1], length: "keys" };
    let key_head = format!("h / {}u", problem.extents.groups()[0]);
    let line = |line: u32| {
        let at = layout.keys + line * QueriesTile::STEP * LINE_BYTES;
        let coordinates = keys.at(&format!("block * {}", QueriesTile::STEP), &key_head);
        BoxText { at, map: "map1".to_owned(), element: line * LINE, coordinates }
    };
    Ok(QueriesText {
        threads: tile.threads(),
        accumulators: tile.accumulators(head),
        barriers: layout.barriers,
        stages: tile.stages,
        stage_bytes: layout.stage_bytes,
        consumers: tile.consumers,
        consumer_rows: tile.consumer_rows(),
        producer_registers: kernel.registers[0],
        consumer_registers: kernel.registers[1],
        first,
        units,
        next,
        stored_unit: with_offsets(unit.clone(), graph, problem.outputs.iter().map(|output| output.tensor)),
        unit,
        sequences: keys.lines(graph),
        has_width: rows.has_width(),
        step: QueriesTile::STEP,
        keys_at: layout.keys,
        key_lines: (0..head_lines(head)).map(line).collect(),
        line_count: head_lines(head),
        local_head: rows.local_head().to_owned(),
        chunks_of_head: count(graph, "chunks of a head", gradients.chunks.iter().product()),
        chunks_of_keys: count(graph, "chunks of keys", gradients.chunks[1]),
        lengths: problem.band.lengths.is_some(),
        barrier_ids: (1..=tile.consumers).collect(),
        parts,
        parts_count: tile.parts,
        part_bytes: WGMMA_ROWS / ScoreGradients::CHUNK[1] * ScoreGradients::CHUNK_BYTES,
    })
}

/// The products of a part, and its rows to memory.
fn part_text(rows: &mut GradientRows<'_, '_>, kernel: &AttentionQueriesKernel, part: u32) -> Result<PartText, Error> {
    let head = kernel.problem.extents.head[0];
    let (columns, name) = (value_columns(head), format!("FW_PART_{part}"));
    let first = part * columns / 2;
    let operand = if kernel.problem.operand == MmaType::F16 { "f16" } else { "bf16" };
    let product = |step: u32| {
        let (plus_a, plus_b) = (step * STEP * ScoreGradients::CHUNK[1] * 2 / 16, step * STEP * LINE_BYTES / 16);
        let scale = if step == 0 { "p" } else { "1" };
        format!(
            "FW_PRODUCT(\"m64n{columns}k16.f32.{operand}.{operand}\", {name}, {plus_a}, {plus_b}, \"{scale}\", \", 1, 1, 1, 1\")"
        )
    };
    let outputs = rows.outputs_from(first, true)?;
    let products = (0..QueriesTile::STEP / STEP).map(product).collect();
    Ok(PartText { registers: registers(first, columns / 2), name, products, outputs })
}
