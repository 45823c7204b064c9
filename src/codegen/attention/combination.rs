//! Records of attention whose keys are split among blocks: what a part stores of its rows, and how the parts come together.

use serde::Serialize;

use super::sequences::{is_ragged, offset_lines};
use super::{LN2, count, length_line, scores};
use crate::codegen::names;
use crate::codegen::sections::Used;
use crate::codegen::template::{self, template};
use crate::error::Error;
use crate::graph::{DataType, FinalizedGraph};
use crate::kernel::{AttentionCombinationKernel, AttentionProblem, Number, value_columns};

/// What `attention/part.cuh` reads.
#[derive(Serialize)]
struct PartText {
    zeros: Vec<String>,
    /// First accumulators of each eight columns.
    takes: Vec<u32>,
    rows: Number,
    columns: i64,
    row_of_part: String,
}

/// Number of a row of a part among those of all parts.
pub(super) fn row_of_part(graph: &FinalizedGraph, problem: &AttentionProblem, row: &str) -> String {
    let all = count(graph, "all_rows", problem.all_rows());
    format!("part * {all}ull + head * {}ull + {row}", count(graph, "rows", problem.extents.rows()))
}

/// The lines that store a part's rows of O, from an accumulator on.
pub(super) fn part(
    graph: &FinalizedGraph,
    used: &mut Used,
    problem: &AttentionProblem,
    first: u32,
) -> Result<String, Error> {
    used.add("fw_vector");
    let columns = value_columns(problem.extents.head[1]);
    let record = PartText {
        zeros: (first..first + columns / 2).map(|number| format!("FW_ZERO({number})")).collect(),
        takes: (0..columns / 8).map(|fragment| first + 4 * fragment).collect(),
        rows: count(graph, "rows", problem.extents.rows()),
        columns: problem.extents.head[1],
        row_of_part: row_of_part(graph, problem, "row"),
    };
    template::render(template!("attention/part.cuh"), &record)
}

/// What `attention/combination.cu` reads beside the function's name and parameters.
#[derive(Serialize)]
pub(in crate::codegen) struct CombinationText {
    threads: u32,
    rows_of_block: u32,
    all_rows: Number,
    rows: Number,
    heads: i64,
    packed: i64,
    parts: Number,
    columns: i64,
    /// Elements of all rows of a part.
    elements: Number,
    /// The lines that say where sequences begin and how many queries they have, where rows are ragged.
    sequences: Vec<String>,
    is_ragged: bool,
    /// Conditions and places of what is stored.
    output_exists: Option<&'static str>,
    output: String,
    output_step: i64,
    value: String,
    stats: Option<String>,
    ln2: String,
}

pub(in crate::codegen) fn combination(
    graph: &FinalizedGraph,
    used: &mut Used,
    kernel: &AttentionCombinationKernel,
) -> CombinationText {
    let problem = &kernel.problem;
    ["fw_vector", "fw_fast_exp2", "fw_infinity"].into_iter().for_each(|section| used.add(section));
    let tensor = graph.tensor(problem.output);
    used.add(names::storage_section(tensor.data_type));
    let exists = |id| is_ragged(graph, id).then_some("row < rows");
    let at = |id| format!("{} + {}", names::pointer(graph, id), scores::row_offset(graph, problem.extents, id, "row"));
    let is_ragged = problem.stored().any(|id| exists(id).is_some());
    let lengths = problem.band.lengths.filter(|_| is_ragged);
    let length = lengths
        .map(|[queries, _]| length_line(graph, "queries", queries, count(graph, "queries", problem.extents.queries)));
    CombinationText {
        threads: AttentionCombinationKernel::THREADS,
        rows_of_block: AttentionCombinationKernel::ROWS,
        all_rows: count(graph, "all_rows", problem.all_rows()),
        rows: count(graph, "rows", problem.extents.rows()),
        heads: problem.extents.heads / problem.extents.packed,
        packed: problem.extents.packed,
        parts: count(graph, "parts", problem.parts),
        columns: problem.extents.head[1],
        elements: count(graph, "elements", problem.all_rows() * problem.extents.head[1]),
        sequences: offset_lines(graph, problem.stored()).into_iter().chain(length).collect(),
        is_ragged,
        output_exists: exists(problem.output),
        output: at(problem.output),
        output_step: tensor.stride[3],
        value: match tensor.data_type {
            DataType::Float => "y.at[e]".to_owned(),
            other => names::to_storage(other, "y.at[e]"),
        },
        stats: problem.statistics.stats.map(|id| {
            let inside = exists(id).map(|exists| format!(" && {exists}")).unwrap_or_default();
            format!("if (lane == 0{inside}) *({})", at(id))
        }),
        ln2: names::float_literal(LN2),
    }
}
