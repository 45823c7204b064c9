//! Spells the epilogue of a matrix product whose warps each take a few rows and columns of the tile at a time.

use serde::Serialize;

use super::gemm_epilogue::{coordinate_lines, partial_index, pitch, workspace_index};
use super::names;
use super::sections::Used;
use super::sweep::{SweepSpeller, SweepText, accumulated_in_float, mapped};
use crate::graph::FinalizedGraph;
use crate::kernel::{Epilogue, GemmKernel, GemmTile, PartialReduction, Sweep, Value, WARPGROUP};

/// What `epilogue/warp.cuh` reads beside the sweep.
#[derive(Default, Serialize)]
pub(super) struct WarpEpilogueText {
    /// Place of an accumulator in the workspace, if they go there.
    workspace: Option<String>,
    /// Rows and columns that a warp takes at a time, and how often it takes columns.
    rows: u32,
    columns: u32,
    chunks: u32,
    /// Whether the piece's rows are swizzled, so that `lane_c` is an index whose bits are exchanged.
    swizzled: bool,
    /// Where the warps' pieces begin, and their bytes.
    staging_at: u32,
    piece_bytes: u32,
    /// Place of an accumulator in the piece.
    staged: String,
    /// Place of the lane's first element in the piece.
    lane_c: String,
    /// For each time: how accumulators go to the piece.
    cases: Vec<Vec<String>>,
    /// Vectors of a piece, of a line of it, and of a lane.
    vectors: u32,
    line_vectors: u32,
    passes: u32,
    /// Vectors of a lane that are evaluated side by side.
    unroll: u32,
    coordinates: Vec<String>,
    /// Before the rows are walked, before their columns are, after those, and after the rows.
    before_rows: Vec<String>,
    before_columns: Vec<String>,
    after_columns: Vec<String>,
    after_rows: Vec<String>,
}

pub(super) fn epilogue(
    graph: &FinalizedGraph,
    used: &mut Used,
    kernel: &GemmKernel,
    first_sum: u32,
    staging_at: u32,
) -> (WarpEpilogueText, Option<SweepText>) {
    let [rows, columns] = kernel.multiply.staged(kernel.tile, kernel.along_n);
    let pitch = pitch(kernel);
    let swizzled = kernel.multiply.stages_swizzled(kernel.tile, kernel.along_n);
    let (put, lane_c, lines) = if swizzled {
        used.add("fw_staged");
        ("fw_put_rows", format!("lane / 4 * {pitch} + fw_staged(lane / 4, lane % 4 * 2)"), rows)
    } else if kernel.along_n {
        ("fw_put_rows", format!("lane / 4 * {pitch} + lane % 4 * 2"), rows)
    } else {
        ("fw_put_columns", format!("lane % 4 * 2 * {pitch} + lane / 4"), columns)
    };
    used.add(put);
    let mut text = WarpEpilogueText {
        rows,
        columns,
        chunks: kernel.tile.n / columns,
        swizzled,
        staging_at,
        piece_bytes: 4 * lines * pitch,
        lane_c,
        cases: cases(kernel, put, first_sum),
        ..WarpEpilogueText::default()
    };
    match &kernel.epilogue {
        Epilogue::Workspace { strides } => {
            text.workspace = Some(workspace_index(kernel, *strides, "split"));
            text.staged = if swizzled {
                "line * 64 + fw_staged(line, piece)".to_owned()
            } else {
                format!("line * {pitch} + piece")
            };
            (text, None)
        }
        Epilogue::Fused { sweep, digits, reductions } => {
            let sweep = fused(graph, used, kernel, sweep, digits, reductions, &mut text);
            (text, Some(sweep))
        }
    }
}

/// A fragment of the accumulators is 16 rows by 8 columns: the rows of a warp.
fn cases(kernel: &GemmKernel, put: &str, first_sum: u32) -> Vec<Vec<String>> {
    let [_, columns] = kernel.multiply.staged(kernel.tile, kernel.along_n);
    let pitch = pitch(kernel);
    let blocks = kernel.multiply.consumer_rows(kernel.tile) / crate::kernel::WGMMA_ROWS;
    let swizzled = kernel.multiply.stages_swizzled(kernel.tile, kernel.along_n);
    let fragment = |first: u32, number: u32| {
        let at = match (swizzled, kernel.along_n, number) {
            (true, ..) => format!("piece_c + (lane_c ^ {})", (8 * number) ^ (number / 4 * 4)),
            (false, _, 0) => "lane_c".to_owned(),
            (false, true, _) => format!("lane_c + {}", 8 * number),
            (false, false, _) => format!("lane_c + {}", 8 * number * pitch),
        };
        format!("{put}<{}, {pitch}>({at});", first + 4 * number)
    };
    let chunk = |number: u32| {
        let first = first_sum + number * columns / 2;
        (0..columns / 8).map(|number| fragment(first, number)).collect()
    };
    (0..blocks * kernel.tile.n / columns).map(chunk).collect()
}

fn fused(
    graph: &FinalizedGraph,
    used: &mut Used,
    kernel: &GemmKernel,
    sweep: &Sweep,
    digits: &[&'static str],
    reductions: &[PartialReduction],
    record: &mut WarpEpilogueText,
) -> SweepText {
    let vector = sweep.vector as u32;
    let [rows, columns] = kernel.multiply.staged(kernel.tile, kernel.along_n);
    let line = if kernel.along_n { columns } else { rows };
    record.vectors = rows * columns / vector;
    record.line_vectors = line / vector;
    record.passes = record.vectors.div_ceil(32);
    record.unroll = unroll(kernel, sweep, reductions, record.passes);
    let names = digits.iter().map(|&name| name.to_owned()).collect();
    let accumulations: Vec<_> = reductions.iter().map(|reduction| reduction.accumulation).collect();
    let mut speller = SweepSpeller::new(graph, used, sweep, &accumulations).with_names(names);
    let values: Vec<String> = reductions
        .iter()
        .map(|reduction| accumulated_in_float(&mut speller.speller, reduction.accumulation.source))
        .collect();
    let mut text = speller.text(&[], "");
    for (number, (reduction, value)) in reductions.iter().zip(values).enumerate() {
        let total = Total::new(kernel, reduction, number, vector, record);
        text.body.push(total.combined(used, value));
        total.walk(used, record);
    }
    let accumulator = names::register_type(kernel.multiply.accumulator());
    if !kernel.multiply.stages_swizzled(kernel.tile, kernel.along_n) {
        let at = format!("const {accumulator}* const tile_at = piece_c + line * {} + piece;", pitch(kernel));
        text.before.insert(0, at);
    }
    record.coordinates = coordinate_lines(kernel, &text, ["warp_m0", "chunk_n0"]);
    text
}

/// Few steps leave registers, and time to compile, for vectors side by side: their loads overlap. Totals of a lane's rows
/// are told apart by the compiler alone.
fn unroll(kernel: &GemmKernel, sweep: &Sweep, reductions: &[PartialReduction], passes: u32) -> u32 {
    const FEW_STEPS: usize = 4;
    const MANY_ACCUMULATORS: u32 = 160;
    let keeps_rows = reductions.iter().any(|reduction| matches!(reduction.reduced, [_, false, true]));
    let accumulators = kernel.multiply.consumer_rows(kernel.tile) * kernel.tile.n / WARPGROUP;
    let steps = sweep.program.steps.iter().filter(|step| step.value != Value::Load).count();
    match (keeps_rows, steps <= FEW_STEPS, accumulators < MANY_ACCUMULATORS) {
        (true, ..) => passes,
        (_, true, true) => passes.min(2),
        _ => 1,
    }
}

/// A reduction in a warp: which lanes hold what, and when it is complete.
struct Total<'a> {
    kernel: &'a GemmKernel,
    reduction: &'a PartialReduction,
    number: usize,
    vector: u32,
    vectors: u32,
    passes: u32,
    line_vectors: u32,
}

impl<'a> Total<'a> {
    fn new(
        kernel: &'a GemmKernel,
        reduction: &'a PartialReduction,
        number: usize,
        vector: u32,
        record: &WarpEpilogueText,
    ) -> Self {
        let WarpEpilogueText { vectors, passes, line_vectors, .. } = *record;
        Self { kernel, reduction, number, vector, vectors, passes, line_vectors }
    }

    /// Totals a lane holds: one; one for each of its rows; one for each column of its vector.
    fn count(&self) -> u32 {
        match self.reduction.reduced {
            [_, true, true] => 1,
            [_, false, true] => self.passes,
            [_, true, false] => self.vector,
            [_, false, false] => 0,
        }
    }

    fn name(&self) -> String {
        format!("total{}", self.number)
    }

    fn combine(&self) -> &'static str {
        names::combine_function(self.reduction.accumulation.combine)
    }

    /// How a point enters.
    fn combined(&self, used: &mut Used, value: String) -> String {
        used.add(self.combine());
        let value = mapped(used, self.reduction.accumulation.map, value);
        let at = match self.reduction.reduced {
            [_, true, true] => "0",
            [_, false, true] => "pass",
            [_, true, false] => "e",
            [_, false, false] => return self.store("m", "n + e", &value),
        };
        let (name, combine) = (self.name(), self.combine());
        format!("{name}[{at}] = {combine}({name}[{at}], {value});")
    }

    /// `partial0[…] = …` for the element m, n.
    fn store(&self, m: &str, n: &str, value: &str) -> String {
        let [_, rows, columns, _] = self.kernel.space.extents();
        let tile = GemmTile { m: self.kernel.multiply.staged(self.kernel.tile, true)[0], ..self.kernel.tile };
        let index = partial_index(self.kernel, self.reduction, tile, ["(warp_m0 / 16)", "block_n"]);
        let renamed = renamed(&index, [("m", m), ("n", n)]);
        let inside = match self.reduction.reduced {
            [_, true, true] => format!("warp_m0 < {rows}"),
            [_, false, true] => format!("{m} < {rows}"),
            [_, true, false] => format!("warp_m0 < {rows} && {n} < {columns}"),
            [_, false, false] => return format!("partial{}[{renamed}] = {value};", self.number),
        };
        format!("if ({inside}) partial{}[{renamed}] = {value};", self.number)
    }

    /// What is said around the loops.
    fn walk(&self, used: &mut Used, record: &mut WarpEpilogueText) {
        let (name, combine, count) = (self.name(), self.combine(), self.count());
        if count == 0 {
            return;
        }
        used.add("fw_lanes_total");
        let identity = names::combine_identity(self.reduction.accumulation.combine);
        let clear = vec![
            format!("float {name}[{count}];"),
            format!("for (int e = 0; e < {count}; ++e) {name}[e] = {identity};"),
        ];
        let over = |from: u32, to: u32, at: &str| {
            format!(
                "const float sum = fw_lanes_total<{from}, {to}>({name}[{at}], [](float a, float b) {{ return {combine}(a, b); }});"
            )
        };
        let looped = |lines: Vec<String>| {
            let mut all = vec!["#pragma unroll".to_owned(), format!("for (unsigned e = 0; e < {count}; ++e) {{")];
            all.extend(lines.into_iter().map(|line| format!("  {line}")));
            all.push("}".to_owned());
            all
        };
        let line_vectors = self.line_vectors;
        match self.reduction.reduced {
            [_, true, true] => {
                record.before_columns.extend(clear);
                let store = format!("if (lane == 0) {{ {} }}", self.store("m", "n", "sum"));
                record.after_rows.extend(looped(vec![over(16, 1, "e"), store]));
            }
            [_, false, true] => {
                record.before_columns.extend(clear);
                let row = format!("warp_m0 + (e * 32 + lane) / {line_vectors}");
                let store = self.store(&format!("({row})"), "n", "sum");
                let lanes = if self.vectors < 32 { format!(" && lane < {}", self.vectors) } else { String::new() };
                let store = format!("if (lane % {line_vectors} == 0{lanes}) {{ {store} }}");
                record.after_rows.extend(looped(vec![over(line_vectors / 2, 1, "e"), store]));
            }
            _ => {
                record.before_rows.extend(clear);
                let column = format!("(chunk_n0 + lane % {line_vectors} * {} + e)", self.vector);
                let store = format!("if (lane < {line_vectors}) {{ {} }}", self.store("m", &column, "sum"));
                record.after_columns.extend(looped(vec![over(16, line_vectors, "e"), store]));
            }
        }
    }
}

/// A text with identifiers replaced.
fn renamed(text: &str, names: [(&str, &str); 2]) -> String {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut out = String::new();
    let mut word = String::new();
    let flush = |word: &mut String, out: &mut String| {
        let replaced = names.iter().find(|(name, _)| name == word).map_or(word.as_str(), |(_, other)| other);
        out.push_str(replaced);
        word.clear();
    };
    for c in text.chars() {
        if is_part(c) {
            word.push(c);
        } else {
            flush(&mut word, &mut out);
            out.push(c);
        }
    }
    flush(&mut word, &mut out);
    out
}
