//! Record of the backward pass of attention by `mma.sync`.

use serde::Serialize;

use super::gradients::{GradientRows, GradientText, scale_text};
use super::loads::{RowLoad, fragments};
use super::sequences::{batch_offset, with_offsets};
use super::stride;
use super::warp::{SECTIONS, steps};
use crate::codegen::sections::Used;
use crate::error::Error;
use crate::graph::FinalizedGraph;
use crate::kernel::{HeadRows, Number, WarpBackwardKernel, value_columns};

/// What `attention/warp_backward.cu` reads beside the function's name and parameters.
#[derive(Serialize)]
pub(in crate::codegen) struct BackwardText {
    threads: u32,
    blocks: u32,
    accumulators: u32,
    units: Number,
    unit: String,
    of_keys: bool,
    /// Whether dV is a result, and whether another gradient is.
    has_values: bool,
    has_sums: bool,
    scale: String,
    cap: Option<String>,
    /// What scores, as they are multiplied, or with their bias, are in powers of two.
    unit_of_scores: String,
    heads: Number,
    last_row: Number,
    others: u32,
    padded: Number,
    /// Heads whose rows are walked one after the other.
    members: i64,
    /// What brings own rows that change from member to member.
    reloads: Option<&'static str>,
    /// Bytes from row to row of Q and K, and of V and dO.
    pitch_0: u32,
    pitch_1: u32,
    own_1_at: u32,
    others_at: u32,
    other_1_at: u32,
    facts_at: u32,
    stage_count: u32,
    stage_bytes: u32,
    /// What is multiplied, and instructions along heads.
    of: &'static str,
    steps_0: u32,
    steps_1: u32,
    /// Lambdas that bring own rows, and others.
    loads: Vec<String>,
    cut: String,
    /// What the generator of dropout is told.
    dropout: Option<String>,
    /// Accumulators of scores, and words of what they become.
    scores: u32,
    words: u32,
    /// Accumulators before those of the first result.
    first_sum: u32,
    /// What is known of the query of `x[i]`.
    statistic: String,
    delta: String,
    /// The factor of gradients of probabilities.
    factor: &'static str,
    kept: Option<String>,
    /// Lines that ask for the bias of scores before these are there, and a score with its bias.
    bias: Option<String>,
    score: String,
    /// Lines that make probabilities of capped scores, and multiply by the slope of the cap.
    capped: Option<String>,
    drops: Option<String>,
    drops_values: Option<String>,
    /// Accumulators of dV, and of dK or dQ.
    values_from: u32,
    values: u32,
    sums_from: u32,
    sums: u32,
    /// Gradients to memory.
    outputs: Vec<GradientText>,
}

pub(in crate::codegen) fn backward(
    graph: &FinalizedGraph,
    used: &mut Used,
    kernel: &WarpBackwardKernel,
) -> Result<BackwardText, Error> {
    let (problem, tile, layout) = (&kernel.problem, kernel.tile, kernel.layout());
    let [head, value_head] = problem.extents.head;
    let of = fragments(used, problem.operand);
    SECTIONS.iter().chain(&["fw_fast_exp2"]).for_each(|section| used.add(section));
    let loads = loads(graph, used, kernel)?;
    let scale = scale_text(graph, used, problem.scale);
    let mut rows = GradientRows { graph, used, problem, rows: tile.rows(), others: tile.others };
    let dropout = rows.dropout_state()?;
    let drops = rows.drops(&rows.query_head())?;
    let biased = rows.biased(&rows.query_head())?;
    let [statistic, delta] = rows.facts();
    let scores = rows.scores();
    let first = problem.first_sum(tile.others);
    let [values, sums] = [value_head, head].map(|head| value_columns(head) / 2);
    let all: u32 = problem.outputs.iter().map(|output| output.registers()).sum();
    let results = problem.outputs.iter().map(|output| output.tensor);
    let mut ragged: Vec<_> = kernel.own.iter().chain(&kernel.others).map(|rows| rows.tensor).chain(results).collect();
    ragged.sort_unstable();
    ragged.dedup();
    Ok(BackwardText {
        threads: tile.threads(),
        blocks: kernel.blocks,
        accumulators: first + all,
        units: rows.units(),
        unit: with_offsets(rows.unit(), graph, ragged.into_iter()),
        of_keys: problem.of_keys,
        has_values: problem.has_values(),
        has_sums: problem.has_sums(),
        scale,
        cap: rows.cap(),
        unit_of_scores: rows.unit_of_scores(),
        heads: rows.query_heads(),
        last_row: rows.last_row(),
        others: tile.others,
        padded: rows.padded(),
        members: problem.members(),
        reloads: problem.changing().map(|side| OWN_LOADS[side]),
        pitch_0: layout.pitches[0],
        pitch_1: layout.pitches[1],
        own_1_at: layout.own_1,
        others_at: layout.others,
        other_1_at: layout.other_1,
        facts_at: layout.rows,
        stage_count: tile.stages,
        stage_bytes: layout.stage_bytes,
        of,
        steps_0: steps(head, problem.operand),
        steps_1: steps(value_head, problem.operand),
        loads,
        cut: rows.cut()?,
        dropout,
        scores,
        words: scores * problem.operand.bytes() / 4,
        first_sum: first,
        statistic,
        delta,
        factor: rows.factor(),
        kept: drops.kept,
        bias: biased.reads,
        capped: rows.capped(&biased.value)?,
        score: biased.value,
        drops: drops.gradients,
        drops_values: drops.values,
        values_from: first,
        values,
        sums_from: first + if problem.has_values() { values } else { 0 },
        sums,
        outputs: rows.outputs(false)?,
    })
}

/// Names of what brings own rows: of Q and K, of V and dO.
const OWN_LOADS: [&str; 2] = ["load_own_0", "load_own_1"];

/// The lambdas that bring own rows, and the others of a step.
fn loads(graph: &FinalizedGraph, used: &mut Used, kernel: &WarpBackwardKernel) -> Result<Vec<String>, Error> {
    let (problem, tile, layout) = (&kernel.problem, kernel.tile, kernel.layout());
    let [own, others] = if problem.of_keys { ["keys", "queries"] } else { ["queries", "keys"] };
    let groups = problem.extents.groups();
    let head_of_others = groups.map(|group| match (problem.of_keys, problem.members()) {
        (true, 1) => "h".to_owned(),
        (true, members) => format!("h * {members}u + next_member"),
        (false, _) => format!("h / {group}u"),
    });
    let own_head = [0, 1].map(|side| match problem.members() {
        members if problem.of_keys && groups[side] != members => {
            let member = if problem.changing().is_some() { " + own_member" } else { "" };
            format!("(h * {members}u{member}) / {}u", groups[side])
        }
        _ => "h".to_owned(),
    });
    let mut load = |name, rows: HeadRows, head_of: &str, count, length, at: String, head| {
        let [of_head, of_row] = [1, 2].map(|axis| stride(graph, rows.tensor, axis));
        let batch = batch_offset(graph, rows.tensor);
        let offset = format!("{batch} + ({head_of}) * {of_head}ull + (first + row) * {of_row}ull");
        let load = RowLoad { name, rows, offset, count, length, at, head, threads: tile.threads() };
        load.text(graph, used, problem.operand)
    };
    let [head, value_head] = problem.extents.head;
    let stage = if tile.stages > 1 { format!(" + next_stage * {}", layout.stage_bytes) } else { String::new() };
    let mut loads =
        vec![load(OWN_LOADS[0], kernel.own[0], &own_head[0], tile.rows(), own, "shared_bytes".to_owned(), head)?];
    if problem.has_sums() {
        let at = format!("shared_bytes + {}", layout.own_1);
        loads.push(load(OWN_LOADS[1], kernel.own[1], &own_head[1], tile.rows(), own, at, value_head)?);
    }
    let at = format!("stages{stage}");
    loads.push(load("load_other_0", kernel.others[0], &head_of_others[0], tile.others, others, at, head)?);
    let at = format!("stages{stage} + {}", layout.other_1);
    loads.push(load("load_other_1", kernel.others[1], &head_of_others[1], tile.others, others, at, value_head)?);
    Ok(loads)
}
