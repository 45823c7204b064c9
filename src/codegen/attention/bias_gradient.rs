//! Record of the gradient of a bias.

use serde::Serialize;

use super::backward::{Backward, BoxText};
use super::gradients::{GradientRows, factors_text, scale_text};
use super::sequences::Boxed;
use super::{SECTIONS, length_lines, registers, spread_offset};
use crate::codegen::names;
use crate::codegen::sections::Used;
use crate::codegen::template::{self, template};
use crate::error::Error;
use crate::graph::FinalizedGraph;
use crate::kernel::{AttentionBiasKernel, BiasLayout, MmaType, head_lines};

/// What `attention/backward_bias.cu` reads beside the function's name and parameters.
#[derive(Serialize)]
pub(in crate::codegen) struct GradientText {
    threads: u32,
    score_registers: String,
    difference_registers: String,
    accumulators: u32,
    barriers: u32,
    stages: u32,
    consumers: u32,
    producer_registers: u32,
    consumer_registers: u32,
    /// Tiles of the gradient, and tiles of scores that are added up for each.
    units: i64,
    members: i64,
    /// The lines that say which tile of scores a member is, and leave it out where nothing of it is kept.
    member: String,
    sequences: Vec<String>,
    stage_bytes: u32,
    lines: Vec<BoxText>,
    keys_at: u32,
    gradients_at: u32,
    values_at: u32,
    scale: String,
    cap: Option<String>,
    unit: String,
    dropout: Option<String>,
    drops: Option<String>,
    /// The factor of gradients of probabilities, where there is one.
    factor: Option<&'static str>,
    /// What Δ is multiplied by, if it is.
    of_delta: Option<String>,
    scores: u32,
    columns: u32,
    heads: i64,
    padded: i64,
    last_query: i64,
    /// Lines that ask for what is read of each score.
    bias: Option<String>,
    score: String,
    score_products: Vec<String>,
    difference_products: Vec<String>,
    store: String,
}

/// What `attention/backward_bias_store.cuh` reads.
#[derive(Serialize)]
struct StoreText {
    sums_queries: bool,
    sums_keys: bool,
    stores_pairs: bool,
    scores: u32,
    columns: u32,
    consumers: u32,
    totals: u32,
    queries: i64,
    keys: i64,
    /// The lines that say which tile of the gradient a unit is.
    place: String,
    storage: &'static str,
    pointer: String,
    offset: String,
    /// A sum, and the one beside it, as they are stored.
    first: String,
    second: String,
    total: String,
}

pub(in crate::codegen) fn backward_bias(
    graph: &FinalizedGraph,
    used: &mut Used,
    kernel: &AttentionBiasKernel,
) -> Result<GradientText, Error> {
    let (pass, problem, layout) = (&kernel.pass, &kernel.pass.problem, kernel.layout());
    SECTIONS.iter().chain(&["fw_elect", "fw_fast_exp2"]).for_each(|section| used.add(section));
    used.add(if problem.operand == MmaType::F16 { "fw_f16_bits" } else { "fw_bf16_bits" });
    let store = store(graph, used, kernel, layout)?;
    let rows = GradientRows { graph, used, problem, rows: pass.tile.rows(), others: pass.tile.others };
    let mut backward = Backward { rows, kernel: pass, layout: pass.layout() };
    let scores = backward.rows.scores();
    let [head, value_head] = problem.extents.head;
    let (lines, sequences) = boxes(&backward, layout);
    let biased = backward.rows.biased("h")?;
    let drops = backward.rows.drops("h")?;
    let reads: Vec<String> = [biased.reads, drops.kept].into_iter().flatten().collect();
    let is_drawn = problem.dropout.is_some_and(|dropout| dropout.drawn().is_some());
    let factors = kernel.factors_of_delta();
    let of_delta = (!factors.is_empty()).then(|| factors_text(graph, backward.rows.used, factors.into_iter()));
    Ok(GradientText {
        threads: pass.tile.threads(),
        score_registers: registers(0, scores),
        difference_registers: registers(scores, scores),
        accumulators: 2 * scores,
        barriers: layout.barriers,
        stages: pass.tile.stages,
        consumers: pass.tile.consumers,
        producer_registers: pass.registers[0],
        consumer_registers: pass.registers[1],
        units: kernel.counts()[0],
        members: kernel.counts()[1],
        member: member(&backward, kernel),
        sequences,
        stage_bytes: layout.stage_bytes,
        lines,
        keys_at: layout.keys,
        gradients_at: head_lines(head) * pass.tile.rows() * super::LINE_BYTES,
        values_at: layout.keys + backward.second_other(),
        cap: backward.rows.cap(),
        unit: backward.rows.unit_of_scores(),
        factor: is_drawn.then_some("drop_scale"),
        of_delta,
        scores,
        columns: pass.tile.others,
        heads: problem.extents.heads,
        padded: problem.padded,
        last_query: problem.extents.queries - 1,
        bias: (!reads.is_empty()).then(|| reads.join("\n")),
        score: biased.value,
        score_products: backward.first_products(head, "FW_SCORES"),
        difference_products: backward.first_products(value_head, "FW_DIFFERENCES"),
        drops: drops.gradients,
        scale: scale_text(graph, backward.rows.used, problem.scale),
        dropout: backward.rows.dropout_state()?,
        store,
    })
}

/// The boxes of a stage, queries and dO before keys and values, and the lines that say where ragged sequences lie.
fn boxes(backward: &Backward<'_, '_>, layout: BiasLayout) -> (Vec<BoxText>, Vec<String>) {
    let tile = backward.kernel.tile;
    let [of_queries, of_keys] = backward.boxed();
    let groups = backward.kernel.problem.extents.groups();
    let mut lines = backward.boxes(of_queries, tile.rows(), "m0", ["h", "h"].map(str::to_owned));
    let columns = format!("block * {}", tile.others);
    let others = backward.boxes(of_keys, tile.others, &columns, groups.map(|group| format!("h / {group}u")));
    lines.extend(others.into_iter().map(|line| line.behind(layout.keys)));
    let sequences = |boxed: &Boxed<'_>| boxed.lines(backward.rows.graph);
    (lines, of_queries.iter().chain(&of_keys).flat_map(sequences).collect())
}

/// The number on each axis of tiles, batches first, of which one variable counts those of the gradient, and another those that share one.
fn numbers(kernel: &AttentionBiasKernel, counted: [Option<&str>; 2]) -> [String; 4] {
    let mut steps = [1, 1];
    let mut numbers = kernel.axes().map(|_| "0".to_owned());
    for (axis, counts) in kernel.axes().into_iter().enumerate().rev() {
        let of = usize::from(counts[1] > 1);
        let number = counted[of].filter(|_| counts[of] > 1);
        if let Some(variable) = number {
            numbers[axis] = format!("{variable} / {}u % {}u", steps[of], counts[of]);
        }
        steps[of] *= counts[of];
    }
    numbers
}

/// The lines that say which tile of scores a member is, and leave it out where nothing of it is kept.
fn member(backward: &Backward<'_, '_>, kernel: &AttentionBiasKernel) -> String {
    let (pass, [b, h, row, column]) = (&kernel.pass, numbers(kernel, [Some("unit"), Some("member")]));
    let (rows, columns) = (pass.tile.rows(), pass.tile.others);
    let mut lines = vec![
        format!("const unsigned b = {b}, h = {h};"),
        format!("const int m0 = int({row}) * {rows}, block = {column};"),
    ];
    lines.extend(length_lines(backward.rows.graph, &pass.problem.band, &pass.problem.extents));
    lines.push("[[maybe_unused]] const int rows = queries, others = keys;".to_owned());
    lines.extend(backward.rows.edges());
    lines.extend([
        format!("const int last_row = min(m0 + {rows}, rows) - 1;"),
        format!(
            "if (last_row < m0 || block * {columns} >= end_of(last_row) || (block + 1) * {columns} <= first_of(m0)) continue;  // nothing is kept"
        ),
    ]);
    lines.join("\n")
}

fn store(
    graph: &FinalizedGraph,
    used: &mut Used,
    kernel: &AttentionBiasKernel,
    layout: BiasLayout,
) -> Result<String, Error> {
    let (pass, tensor) = (&kernel.pass, graph.tensor(kernel.result));
    used.add(names::storage_section(tensor.data_type));
    if kernel.sums_queries() {
        used.add("fw_named_barrier");
    }
    if kernel.sums_keys() {
        used.add("fw_quad_total");
    }
    if kernel.stores_pairs {
        used.add("fw_vector");
    }
    let [b, h, row, column] = numbers(kernel, [Some("unit"), None]);
    let place = format!(
        "const unsigned b = {b}, h = {h};\nconst int m0 = int({row}) * {}, block = {column};",
        pass.tile.rows()
    );
    let stored = |value: &str| names::to_storage(tensor.data_type, value);
    let record = StoreText {
        sums_queries: kernel.sums_queries(),
        sums_keys: kernel.sums_keys(),
        stores_pairs: kernel.stores_pairs,
        scores: pass.tile.others / 2,
        columns: pass.tile.others,
        consumers: pass.tile.consumers,
        totals: layout.totals,
        queries: kernel.extents[2],
        keys: kernel.extents[3],
        place,
        storage: names::storage_type(tensor.data_type),
        pointer: names::pointer(graph, kernel.result),
        offset: spread_offset(graph, kernel.result, &["b", "h", "query", "key"].map(str::to_owned)),
        first: stored("sums[i]"),
        second: stored("sums[i + 1]"),
        total: stored("total"),
    };
    template::render(template!("attention/backward_bias_store.cuh"), &record)
}
