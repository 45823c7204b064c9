//! Records of the backward pass in FP8: heads as FP16, what scales scores and gradients, and largest magnitudes.

use serde::Serialize;

use super::fp8::Scaled;
use super::gradients::{GradientRows, GradientText, factors_text};
use super::output::RowStore;
use super::sequences::{batch_offset, offset_lines};
use super::{count, length_line, stride};
use crate::codegen::names;
use crate::codegen::sections::Used;
use crate::error::Error;
use crate::graph::{DataType, FinalizedGraph, TensorId};
use crate::kernel::{BackwardOutput, HalfRows, HalfRowsKernel, Number};

/// What `attention/half_rows.cu` reads beside the function's name and parameters.
#[derive(Serialize)]
pub(in crate::codegen) struct HalfRowsText {
    threads: u32,
    heads: Vec<SideText>,
    cleared: Vec<String>,
}

/// One tensor: the blocks that have its rows, where these lie and go.
#[derive(Serialize)]
struct SideText {
    begin: Number,
    end: Number,
    items: Number,
    /// Vectors of 16 elements of a row.
    vectors: i64,
    rows: Number,
    heads: Number,
    length: Option<String>,
    /// The lines that say where sequences lie.
    sequences: Vec<String>,
    storage: &'static str,
    pointer: String,
    offset: String,
    /// Elements from one to the next.
    step: Number,
    is_vector: bool,
    region: String,
    convert: &'static str,
}

/// What launches tell of each tensor: the end of its blocks, its vectors, rows and heads.
const COUNTS: [[&str; 4]; 5] = [
    ["blocks 0", "items 0", "rows 0", "heads 0"],
    ["blocks 1", "items 1", "rows 1", "heads 1"],
    ["blocks 2", "items 2", "rows 2", "heads 2"],
    ["blocks 3", "items 3", "rows 3", "heads 3"],
    ["blocks 4", "items 4", "rows 4", "heads 4"],
];

pub(in crate::codegen) fn half_rows(graph: &FinalizedGraph, used: &mut Used, kernel: &HalfRowsKernel) -> HalfRowsText {
    used.add("fw_vector");
    let mut begin = Number::from(0);
    let mut side = |(place, (heads, blocks)): (usize, (&HalfRows, i64))| {
        let (id, [_, heads_of_batch, rows, size]) = (heads.tensor, heads.dim);
        let tensor = graph.tensor(id);
        let convert = match tensor.data_type {
            DataType::Fp8E4M3 => "fw_f16x2_of_e4m3",
            _ => "fw_f16x2_of_e5m2",
        };
        [convert, names::storage_section(tensor.data_type)].into_iter().for_each(|section| used.add(section));
        let [end_name, items_name, rows_name, heads_name] = COUNTS[place];
        let (first, end) = (begin, begin.value() + blocks);
        begin = count(graph, end_name, end);
        let rows = count(graph, rows_name, rows);
        let [of_head, of_row, step] = [1, 2, 3].map(|axis| stride(graph, id, axis));
        SideText {
            begin: first,
            end: begin,
            items: count(graph, items_name, heads.items()),
            vectors: size / HalfRows::EACH,
            rows,
            heads: count(graph, heads_name, heads_of_batch),
            length: heads.lengths.map(|lengths| length_line(graph, "length", lengths, rows)),
            sequences: offset_lines(graph, [id].into_iter()),
            storage: names::storage_type(tensor.data_type),
            pointer: names::pointer(graph, id),
            offset: format!("{} + h * {of_head}ull + row * {of_row}ull", batch_offset(graph, id)),
            step,
            is_vector: heads.has_vectors,
            region: format!("partial{place}"),
            convert,
        }
    };
    let heads = kernel.heads.iter().zip(kernel.blocks()).enumerate().map(&mut side).collect();
    let cleared = kernel.cleared.iter().map(|&id| names::pointer(graph, id)).collect();
    HalfRowsText { threads: HalfRowsKernel::THREADS, heads, cleared }
}

impl GradientRows<'_, '_> {
    /// What scores in FP8 are multiplied by beside their scale, as a factor behind another.
    pub(super) fn further_factors(&mut self) -> String {
        let Some(scaling) = self.problem.scaling.as_ref().filter(|scaling| !scaling.scores.is_empty()) else {
            return String::new();
        };
        format!(" * {}", factors_text(self.graph, self.used, scaling.scores.iter().copied()))
    }

    /// The lines of a launch that say what differences of probabilities' gradients, and operands, are multiplied by.
    pub(super) fn scaling_lines(&mut self) -> Vec<String> {
        let Some(scaling) = &self.problem.scaling else { return Vec::new() };
        let mut line = |name: &str, ids: Vec<TensorId>| {
            format!("const float {name} = {};", factors_text(self.graph, self.used, ids.into_iter()))
        };
        let mut lines = Vec::new();
        if self.problem.has_sums() {
            let of_differences = line("of_differences", scaling.differences.clone());
            lines.push(of_differences.replace(" = ", " = scale * "));
            lines.push(line("of_gradients", scaling.operands[1].into_iter().collect()));
        }
        if self.problem.has_values() {
            lines.push(line("of_probabilities", scaling.operands[0].into_iter().collect()));
        }
        lines
    }

    /// What words of probabilities and of gradients of scores are made of, in a launch that packs pairs by a function: `i` is the word's number.
    pub(super) fn operand_words(&mut self, pack: &str) -> [String; 2] {
        let Some(scaling) = &self.problem.scaling else {
            return ["x", "y"].map(|name| format!("{pack}({name}[2 * i], {name}[2 * i + 1])"));
        };
        self.used.add("fw_clamp_f16x2");
        // 448 and 57344, twice
        let limit = |of: DataType| if of == DataType::Fp8E4M3 { "0x5f005f00u" } else { "0x7b007b00u" };
        let [p, s] = scaling.types.map(limit);
        [("x", "of_probabilities", p), ("y", "of_gradients", s)].map(|(name, factor, limit)| {
            format!("fw_clamp_f16x2({pack}({name}[2 * i] * {factor}, {name}[2 * i + 1] * {factor}), {limit})")
        })
    }

    /// The line behind gradients of scores that keeps the largest of them.
    pub(super) fn largest_line(&mut self) -> Option<&'static str> {
        self.problem.scaling.as_ref()?.largest?;
        self.used.add("fw_max_nan");
        Some("largest_y = fw_max_nan(largest_y, fabsf(y[i]));")
    }

    /// The line that puts the largest gradient of a warp's scores to memory.
    pub(super) fn kept_line(&mut self) -> Option<String> {
        let id = self.problem.scaling.as_ref()?.largest?;
        self.used.add("fw_keep_largest");
        Some(format!("fw_keep_largest({}, largest_y, lane);", names::pointer(self.graph, id)))
    }

    /// A gradient to memory, scaled, and its largest magnitude.
    pub(super) fn scaled_output(&mut self, store: &RowStore, output: &BackwardOutput) -> Result<GradientText, Error> {
        let (graph, factors) = (self.graph, output.factors);
        let scaled = Scaled { largest: factors.largest.map(|_| "largest_o"), adds_sums: false };
        let text = store.scaled_text(graph, self.used, scaled)?;
        let mut lines =
            vec![format!("const float of_stored = {};", factors_text(graph, self.used, factors.last.into_iter()))];
        lines.extend(factors.largest.map(|_| "float largest_o = 0.0f;".to_owned()));
        lines.push(text);
        if let Some(id) = factors.largest {
            self.used.add("fw_keep_largest");
            lines.push(format!("fw_keep_largest({}, largest_o, lane);", names::pointer(graph, id)));
        }
        let factor = factors_text(graph, self.used, factors.factors.into_iter().flatten());
        Ok(GradientText { factor, store: lines.join("\n") })
    }
}
