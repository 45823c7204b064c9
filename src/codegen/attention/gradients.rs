//! Code that kernels of the backward pass share: which tile of own rows a unit is, what is dropped, and gradients to memory.

use serde::Serialize;

use super::output::RowStore;
use super::sequences::{batch_offset, is_ragged};
use super::{count, dropout, edge_text, existing_rows, length_lines, number, stride};
use crate::codegen::sections::Used;
use crate::codegen::template::{self, template};
use crate::error::Error;
use crate::graph::{FinalizedGraph, TensorId};
use crate::kernel::{
    BackwardDropout, BackwardOutput, BackwardProblem, BandEdge, Dropping, MaskedDropping, Number, ScoreGradients,
};

/// Own rows of a kernel: so many of a tile, by so many others of a step.
pub(super) struct GradientRows<'a, 'u> {
    pub(super) graph: &'a FinalizedGraph,
    pub(super) used: &'u mut Used,
    pub(super) problem: &'a BackwardProblem,
    pub(super) rows: u32,
    pub(super) others: u32,
}

/// A gradient to memory, and the factor that its sums lack.
#[derive(Serialize)]
pub(super) struct GradientText {
    pub(super) factor: String,
    pub(super) store: String,
}

/// Lines of a step that drop.
#[derive(Default)]
pub(super) struct Drops {
    /// Those that say what is kept, before scores are there.
    pub(super) kept: Option<String>,
    /// Those that drop gradients of probabilities `y`.
    pub(super) gradients: Option<String>,
    /// Those that drop probabilities `x`, where they are multiplied.
    pub(super) values: Option<String>,
}

/// What `attention/backward_cut.cuh` reads.
#[derive(Serialize)]
struct CutText {
    scores: u32,
    others: u32,
}

/// The factor of scores.
pub(super) fn scale_text(graph: &FinalizedGraph, used: &mut Used, scale: Option<TensorId>) -> String {
    factors_text(graph, used, scale.into_iter())
}

/// The product of numbers.
pub(super) fn factors_text(graph: &FinalizedGraph, used: &mut Used, factors: impl Iterator<Item = TensorId>) -> String {
    let factors: Vec<String> = factors.map(|id| number(graph, used, id)).collect();
    if factors.is_empty() { "1.0f".to_owned() } else { factors.join(" * ") }
}

/// An end of a row's others, none beyond its sequence. NVRTC 13.0 does not come back from a single row's `row < 1 ? min(…) : 0`.
fn within(end: Option<String>) -> String {
    let others = "row < rows ? others : 0";
    end.map_or(others.to_owned(), |end| format!("min({others}, {end})"))
}

impl GradientRows<'_, '_> {
    /// Accumulators of a thread for the scores of a step.
    pub(super) fn scores(&self) -> u32 {
        self.others / 2
    }

    /// A count of the kernel.
    fn count(&self, name: &'static str, value: i64) -> Number {
        count(self.graph, name, value)
    }

    /// Heads of Q, rows from one of them to the next among what is known of queries, and the last own row.
    pub(super) fn query_heads(&self) -> Number {
        self.count("heads", self.problem.extents.heads)
    }

    pub(super) fn padded(&self) -> Number {
        self.count("padded", self.problem.padded)
    }

    pub(super) fn last_row(&self) -> Number {
        self.count("last_row", self.problem.rows() - 1)
    }

    /// Tiles of own rows that a launch computes.
    pub(super) fn units(&self) -> Number {
        let tiles = self.problem.row_tiles(self.rows);
        let of_head = if self.problem.pairs { (tiles + 1) / 2 * 2 } else { tiles };
        self.count("units", self.problem.launched() * of_head)
    }

    /// Whether tiles have different numbers of steps.
    pub(super) fn is_causal(&self) -> bool {
        self.problem.band.right.is_some()
    }

    /// How blocks walk tiles: the first of a block, how many there are, and the next. Where tiles differ a block has two of a head in turn whose steps are
    /// as many as those of any two, or those that had the longest of a turn have the shortest of the next.
    pub(super) fn walk(&self) -> [String; 3] {
        let first = if self.problem.pairs { "2 * blockIdx.x" } else { "blockIdx.x" };
        [first.to_owned(), self.units().to_string(), self.next()]
    }

    fn next(&self) -> String {
        match self.is_causal() {
            _ if self.problem.claims => format!("fw_claim(tile_counter, {}u)", self.units()),
            _ if self.problem.pairs => "unit % 2 ? unit + 2 * gridDim.x - 1 : unit + 1".to_owned(),
            true => "turn * gridDim.x + (turn % 2 ? gridDim.x - 1 - blockIdx.x : blockIdx.x)".to_owned(),
            false => "unit + gridDim.x".to_owned(),
        }
    }

    /// The head with own rows among those that a launch computes.
    pub(super) fn local_head(&self) -> &'static str {
        if self.problem.of_launch.is_some() { "(head - first_head)" } else { "head" }
    }

    /// The first step of which an own row keeps something, and the end of those of which one does. Where gradients of scores are left in the workspace,
    /// steps begin and end with so many others that are read together.
    pub(super) fn first_step(&self, row: &str) -> String {
        let others = self.others;
        match self.problem.gradients {
            Some(ScoreGradients { aligned, .. }) => format!("first_of({row}) / {aligned} * {aligned} / {others}"),
            None => format!("first_of({row}) / {others}"),
        }
    }

    pub(super) fn end_of_steps(&self, row: &str) -> String {
        let (others, more) = (self.others, self.others - 1);
        match self.problem.gradients {
            Some(ScoreGradients { aligned, .. }) => {
                format!("((end_of({row}) + {}) / {aligned} * {aligned} + {more}) / {others}", aligned - 1)
            }
            None => format!("(end_of({row}) + {more}) / {others}"),
        }
    }

    /// The lines that say which tile of own rows of which head a unit is, and which steps it has.
    pub(super) fn unit(&self) -> String {
        let (problem, rows) = (self.problem, self.rows);
        let of_batch = self.count("heads of a batch", problem.row_heads() / problem.extents.batches);
        let mut lines = self.place();
        lines.extend(self.passed_over());
        lines.push(format!("const unsigned b = head / {of_batch}u, h = head % {of_batch}u;"));
        lines.extend(length_lines(self.graph, &problem.band, &problem.extents));
        let [own, other] = if problem.of_keys { ["keys", "queries"] } else { ["queries", "keys"] };
        lines.push(format!("[[maybe_unused]] const int rows = {own}, others = {other};"));
        lines.extend(self.edges());
        if problem.outputs.iter().all(|output| is_ragged(self.graph, output.tensor)) {
            lines.push("if (m0 >= rows) continue;  // rows beyond the sequence are nowhere".to_owned());
        }
        lines.push(format!("const int last_row = min(m0 + {rows}, rows) - 1;"));
        lines.push(format!("const int end = last_row < m0 ? 0 : {};", self.end_of_steps("last_row")));
        lines.push(format!("const int begin = min({}, end);", self.first_step("m0")));
        lines.join("\n")
    }

    /// The lines that say which tile of which head a unit is. Of dynamic shapes one text does for all numbers of heads.
    fn place(&self) -> Vec<String> {
        let (problem, rows, heads) = (self.problem, self.rows, self.problem.launched());
        let (tiles, section) = (problem.row_tiles(rows), problem.section.min(heads));
        let (of_head, unit) = if problem.pairs { ((tiles + 1) / 2, "unit / 2") } else { (tiles, "unit") };
        let first = if problem.of_launch.is_some() { "first_head + " } else { "" };
        let last_tile = self.count("last_tile", tiles - 1);
        // of causal tiles the longest come first: the first keys, and the last queries
        let tile = |tile: &str| match self.is_causal() && !problem.of_keys {
            _ if problem.pairs => format!("unit % 2 ? {last_tile} - {tile} : {tile}"),
            true => format!("{last_tile} - {tile}"),
            false => tile.to_owned(),
        };
        let all = self.count("heads of a launch", heads);
        if section >= heads && !self.graph.is_dynamic() {
            return vec![
                format!("const unsigned head = {first}{unit} % {all}u;"),
                format!("const int m0 = ({}) * {rows};", tile(&format!("int({unit} / {all}u)"))),
            ];
        }
        let units = self.count("units of a section", section * of_head);
        let section = self.count("section", section);
        vec![
            "// heads that are in L2 together come before others, of these all with the same rows".to_owned(),
            format!("const unsigned section = {unit} / {units}u * {section}u, rest = {unit} % {units}u;"),
            format!("const unsigned of_section = min({section}u, {all}u - section);"),
            format!("const unsigned head = {first}section + rest % of_section;"),
            format!("const int m0 = ({}) * {rows};", tile("int(rest / of_section)")),
        ]
    }

    /// The lines that pass over units that are no tile.
    fn passed_over(&self) -> impl Iterator<Item = String> {
        let (problem, rows, all) = (self.problem, i64::from(self.rows), self.problem.row_heads());
        let (tiles, is_dynamic) = (problem.row_tiles(self.rows), self.graph.is_dynamic());
        // an even number of tiles has none in the middle, but behind all
        let middle = self.count("middle", if tiles % 2 != 0 { tiles / 2 * rows } else { tiles * rows });
        let middle = (problem.pairs && (tiles % 2 != 0 || is_dynamic))
            .then(|| format!("if (unit % 2 && m0 == {middle}) continue;  // the one in the middle"));
        let has_fewer = problem.of_launch.is_some() && (all % problem.launched() != 0 || is_dynamic);
        let beyond = has_fewer
            .then(|| format!("if (head >= {}u) continue;  // the last launch has fewer", self.count("all heads", all)));
        middle.into_iter().chain(beyond)
    }

    /// Whether a band between two edges keeps something of a row, where it may not.
    pub(super) fn has_width(&self) -> Option<String> {
        let [left, right] = [self.problem.band.left?, self.problem.band.right?];
        let is_known = left.more.is_none() && right.more.is_none();
        let edge = |edge: BandEdge| edge_text(self.graph, edge, edge.keys, "+");
        (!is_known || left.keys.saturating_add(right.keys) <= 0).then(|| format!("0{}{} > 0", edge(left), edge(right)))
    }

    /// The lines that say which of the others own rows keep.
    pub(super) fn edges(&self) -> [String; 2] {
        let [first, end] = self.kept();
        [
            format!("const auto first_of = [&]([[maybe_unused]] int row) {{ return {first}; }};"),
            format!("const auto end_of = [&]([[maybe_unused]] int row) {{ return {end}; }};"),
        ]
    }

    /// The first of the others that an own row keeps, and the end of them: none beyond the sequence.
    fn kept(&self) -> [String; 2] {
        let band = &self.problem.band;
        let shift = if band.is_bottom_right { " + keys - queries" } else { "" };
        let back = if band.is_bottom_right { " - keys + queries" } else { "" };
        let edge = |edge, keys: i64, sign| edge_text(self.graph, edge, keys, sign);
        if self.problem.of_keys {
            let first = band.right.map(|right| format!("max(row{back}{}, 0)", edge(right, -right.keys, "-")));
            let end = band.left.map(|left| format!("max(row{back}{}, 0)", edge(left, left.keys, "+")));
            return [first.unwrap_or("0".to_owned()), within(end)];
        }
        let first = band.left.map(|left| format!("max(row{shift}{}, 0)", edge(left, 1 - left.keys, "-")));
        let end = band.right.map(|right| format!("max(row{shift}{}, 0)", edge(right, right.keys + 1, "+")));
        [first.unwrap_or("0".to_owned()), within(end)]
    }

    /// What becomes of a step's probabilities, and of their gradients, of a head of Q.
    pub(super) fn drops(&mut self, head: &str) -> Result<Drops, Error> {
        match self.problem.dropout {
            None => Ok(Drops::default()),
            Some(BackwardDropout::Drawn(dropout)) => Ok(self.drawn(dropout)),
            Some(BackwardDropout::Masked(masked)) => self.masked(masked, head),
        }
    }

    /// The lines that say what all of the kernel's drops are told.
    pub(super) fn dropout_state(&mut self) -> Result<Option<String>, Error> {
        match self.problem.dropout {
            None => Ok(None),
            Some(BackwardDropout::Drawn(dropout)) => dropout::state(self.graph, self.used, dropout).map(Some),
            Some(BackwardDropout::Masked(masked)) => Ok(masked
                .scale
                .map(|scale| format!("const float drop_scale = {};", number(self.graph, self.used, scale)))),
        }
    }

    /// Probabilities times a mask and its factor, before they are rounded. Where there is no probability, what the mask has may be anything.
    fn masked(&mut self, masked: MaskedDropping, head: &str) -> Result<Drops, Error> {
        let read = self.read(masked.mask, "drop_mask", head)?;
        let factor = masked.scale.map_or(String::new(), |_| " * drop_scale".to_owned());
        let value = format!("{}{factor}", read.value);
        let each = |text: String| format!("#pragma unroll\nfor (int i = 0; i < {}; ++i) {text}", self.scores());
        Ok(Drops {
            kept: read.reads,
            gradients: Some(each(format!("y[i] *= {value};"))),
            values: self.problem.of_keys.then(|| each(format!("if (x[i] != 0.0f) x[i] *= {value};"))),
        })
    }

    /// What a generator says. Rows of keys have the eight columns of a counter side by side, rows of queries one each.
    fn drawn(&mut self, dropout: Dropping) -> Drops {
        let (problem, threshold) = (self.problem, dropout.threshold);
        let heads = self.query_heads();
        if problem.of_keys {
            ["fw_kept_rows", "fw_drop"].into_iter().for_each(|section| self.used.add(section));
            let head = format!("b * {heads} + {}", self.query_head());
            let words = self.scores().div_ceil(32);
            let count = self.scores();
            let kept = format!(
                "unsigned kept[{words}];\nfw_kept_rows<{threshold}u, {count}>(kept, row / 8, block * {}, {head}, drop_state, lane);",
                self.others
            );
            return Drops {
                kept: Some(kept),
                gradients: Some("fw_drop(y, kept);".to_owned()),
                values: Some("fw_drop(x, kept);".to_owned()),
            };
        }
        self.used.add("fw_drop_columns");
        let lines = [
            "const unsigned drop_queries[2] = {(unsigned)row, (unsigned)row + 8};".to_owned(),
            format!("const unsigned drop_heads[2] = {{b * {heads} + h, b * {heads} + h}};"),
            format!(
                "fw_drop_columns<{threshold}u>(y, block * {}, drop_queries, drop_heads, drop_state, lane);",
                self.others / 8
            ),
        ];
        Drops { gradients: Some(lines.join("\n")), ..Drops::default() }
    }

    /// What is drawn.
    fn drawing(&self) -> Option<Dropping> {
        self.problem.dropout.and_then(|dropout| dropout.drawn())
    }

    /// The head of Q whose scores a step has.
    pub(super) fn query_head(&self) -> String {
        match self.problem.members() {
            1 => "h".to_owned(),
            members => format!("h * {members} + member"),
        }
    }

    /// Whether steps have to know which of several heads they are of.
    pub(super) fn counts_members(&self) -> bool {
        let BackwardProblem { dropout, bias, slopes, .. } = self.problem;
        let is_told = dropout.is_some() || bias.is_some() || slopes.is_some() || self.problem.gradients.is_some();
        self.problem.members() > 1 && is_told
    }

    fn output(&mut self, output: &BackwardOutput, first: u32, clears: bool) -> Result<GradientText, Error> {
        let (problem, tensor) = (self.problem, output.tensor);
        let [of_head, of_row] = [1, 2].map(|axis| stride(self.graph, tensor, axis));
        let store = RowStore {
            tensor,
            first,
            head: output.head,
            rows: existing_rows(self.graph, tensor, problem.rows()),
            row_offset: format!("{} + h * {of_head}ull + row_of * {of_row}ull", batch_offset(self.graph, tensor)),
            stores: output.stores,
            operand: problem.operand,
            clears,
        };
        if problem.scaling.is_some() {
            return self.scaled_output(&store, output);
        }
        let has_factor = self.drawing().is_some() && output.is_of_values;
        let factor = if has_factor { "drop_scale" } else { "1.0f" };
        Ok(GradientText { factor: factor.to_owned(), store: store.text(self.graph, self.used)? })
    }

    /// Accumulators of each result, and the factor that its sums lack: gradients of scores are scaled before they are rounded.
    pub(super) fn outputs(&mut self, clears: bool) -> Result<Vec<GradientText>, Error> {
        self.outputs_from(self.problem.first_sum(self.others), clears)
    }

    /// The same of accumulators from a number on.
    pub(super) fn outputs_from(&mut self, mut first: u32, clears: bool) -> Result<Vec<GradientText>, Error> {
        let problem = self.problem;
        let mut outputs = Vec::new();
        for output in &problem.outputs {
            outputs.push(self.output(output, first, clears)?);
            first += output.registers();
        }
        Ok(outputs)
    }

    /// The lambda that makes of a step what a mask leaves of it.
    pub(super) fn cut(&self) -> Result<String, Error> {
        let record = CutText { scores: self.scores(), others: self.others };
        template::render(template!("attention/backward_cut.cuh"), &record)
    }

    /// The factor of gradients of probabilities.
    pub(super) fn factor(&self) -> &'static str {
        match (&self.problem.scaling, self.drawing()) {
            (Some(_), _) => "of_differences",
            (None, Some(_)) => "scale * drop_scale",
            (None, None) => "scale",
        }
    }

    /// What is known of the query of `x[i]`: its statistic and Δ, of columns or of rows.
    pub(super) fn facts(&self) -> [String; 2] {
        match self.problem.of_keys {
            true => {
                let at = |first: u32| {
                    let first = if first == 0 { String::new() } else { format!("{first} + ") };
                    format!("rows_of[{first}8 * (i >> 2) + (i & 1)]")
                };
                [at(0), at(self.others)]
            }
            false => ["statistic", "delta"].map(|name| format!("{name}[i >> 1 & 1]")),
        }
    }
}
