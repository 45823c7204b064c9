//! Code that kernels of a forward pass share: what becomes of rows of scores in the accumulators of a warp, and which of them a tile has.

use serde::Serialize;

use super::fp8::Scaled;
use super::output::RowStore;
use super::score_program::ProgramLines;
use super::sequences::{batch_offset, is_ragged};
use super::{
    LN2, LOG2E, combination, count, dropout, edge_text, existing_rows, fp8, length_lines, number, spread_offset, stride,
};
use crate::codegen::names;
use crate::codegen::sections::Used;
use crate::codegen::template::{self, template};
use crate::error::Error;
use crate::graph::{FinalizedGraph, ScoreMask, TensorId};
use crate::kernel::{AttentionExtents, AttentionProblem, ForwardDropout, MmaType, Number, Scores, value_columns};

/// Device code of rows.
pub(super) const SECTIONS: &[&str] =
    &["fw_take_all", "fw_scale_all", "fw_quad_largest", "fw_quad_total", "fw_infinity"];

/// What a score may exceed its row's reference by, as a power of two: probabilities stay below 2⁸ of the largest so far (AT-K7).
const ROOM: f32 = 8.0;

/// The weight of a reference as a power of two where a mask multiplies probabilities in HALF.
const MASKED_TOP: f32 = -1.0;

/// What `attention/softmax.cuh` reads.
#[derive(Serialize)]
struct SoftmaxText {
    scores: u32,
    keys: u32,
    /// What the graph does with scores: lines for all of a step, and for each.
    of_step: Vec<String>,
    program: Option<String>,
    /// The condition that scores are multiplied by their scale before they are compared.
    scales_first: Option<&'static str>,
    left: bool,
    lengths: bool,
    largest: bool,
    /// The lines that drop probabilities.
    dropout: Option<String>,
    /// What makes a reference of a row's largest score, where their weight is not 1.
    top: Option<String>,
    /// Whether the largest score is kept beside the reference, which may be below it, for the largest probability alone.
    seen: bool,
    /// Whether scores may be so large that a rounded reference says nothing of them.
    vast: bool,
    /// Whether exponentials are computed here; in FP8 they are beside what becomes of them.
    exponentials: bool,
}

/// What `attention/rows.cuh` reads.
#[derive(Serialize)]
struct RowsText {
    rows: Number,
    dropout: bool,
    scaling: bool,
    largest: bool,
    /// The lines that keep the largest probability.
    largest_p: Option<String>,
    /// A row's score beside its keys, where the largest is stored.
    sink: Option<String>,
    stores: Vec<String>,
}

/// Rows of scores of a kernel: so many queries of a tile by so many keys of a step.
pub(super) struct ScoreRows<'a, 'u> {
    pub(super) graph: &'a FinalizedGraph,
    pub(super) used: &'u mut Used,
    pub(super) problem: &'a AttentionProblem,
    pub(super) queries: u32,
    pub(super) keys: u32,
}

impl ScoreRows<'_, '_> {
    /// Accumulators of a thread for the scores of a step.
    pub(super) fn scores(&self) -> u32 {
        self.keys / 2
    }

    /// Accumulators of a thread for O.
    pub(super) fn values(&self) -> u32 {
        value_columns(self.problem.extents.head[1]) / 2
    }

    pub(super) fn head_and_query(&self, row: &str) -> [String; 2] {
        head_and_query(self.problem.extents, row)
    }

    /// A count of the kernel.
    fn count(&self, name: &'static str, value: i64) -> Number {
        count(self.graph, name, value)
    }

    /// Tiles of rows of all heads, each as often as blocks share its keys.
    pub(super) fn units(&self) -> Number {
        self.count("units", self.problem.units(self.queries))
    }

    pub(super) fn is_causal(&self) -> bool {
        self.problem.band.right.is_some()
    }

    /// The lines that say which tile of queries of which head a unit is, and which steps of keys it has.
    pub(super) fn unit(&mut self) -> String {
        let (problem, extents) = (self.problem, self.problem.extents);
        let heads = self.count("heads", extents.row_heads());
        // of dynamic shapes one text does for all
        let has_sections = problem.section < extents.row_heads() || self.graph.is_dynamic();
        let section = problem.section.min(extents.row_heads());
        let tiles = problem.row_tiles(self.queries);
        let (rows, keys) = (self.queries, self.keys);
        let mut lines = Vec::new();
        let mut line = |line: String| lines.push(line);
        let unit = if problem.parts == 1 { "unit" } else { "tile_of_all" };
        let parts = self.count("parts", problem.parts);
        if problem.parts > 1 {
            line(format!("const unsigned part = unit % {parts}u, {unit} = unit / {parts}u;"));
        }
        let last_tile = self.count("last_tile", tiles - 1);
        let tile = |tile: &str| if self.is_causal() { format!("{last_tile} - {tile}") } else { tile.to_owned() };
        if has_sections {
            let units_of_section = self.count("units_of_section", section * tiles);
            let section = self.count("section", section);
            line(
                "// heads whose K and V are in L2 together come before others, of these all with the same rows"
                    .to_owned(),
            );
            line(format!(
                "const unsigned section = {unit} / {units_of_section}u * {section}u, rest = {unit} % {units_of_section}u;"
            ));
            line(format!("const unsigned of_section = min({section}u, {heads}u - section);"));
            line("const unsigned head = section + rest % of_section;".to_owned());
            line(format!("const int m0 = ({}) * {rows};", tile("int(rest / of_section)")));
        } else {
            line(format!("const unsigned head = {unit} % {heads}u;"));
            line(format!("const int m0 = ({}) * {rows};", tile(&format!("int({unit} / {heads}u)"))));
        }
        line(format!("const unsigned b = head / {0}u, h = head % {0}u;", extents.heads / extents.packed));
        length_lines(self.graph, &problem.band, &extents).into_iter().for_each(&mut line);
        match extents.packed {
            1 => line("const int rows = queries;".to_owned()),
            packed => line(format!("const int rows = queries * {packed};  // of {packed} heads, query by query")),
        }
        let shift = if problem.band.is_bottom_right { " + keys - queries" } else { "" };
        let [_, query] = self.head_and_query("row");
        let moved = |edge, keys, sign| format!("{query}{shift}{}", edge_text(self.graph, edge, keys, sign));
        let end = problem.band.right.map(|right| moved(right, right.keys.saturating_add(1), "+"));
        let end = end.map_or("keys".to_owned(), |end| format!("min(keys, max({end}, 0))"));
        let first = problem.band.left.map(|left| moved(left, 1_i64.saturating_sub(left.keys), "-"));
        let first = first.map_or("0".to_owned(), |first| format!("max({first}, 0)"));
        line(format!("const auto keys_of = [&]([[maybe_unused]] int row) {{ return {end}; }};"));
        line(format!("const auto first_key = [&]([[maybe_unused]] int row) {{ return {first}; }};"));
        if problem.stored().all(|id| is_ragged(self.graph, id)) {
            line("if (m0 >= rows) continue;  // rows beyond the sequence are nowhere".to_owned());
        }
        line(format!("const int last_row = min(m0 + {rows}, rows) - 1;"));
        let [begin, end] = if problem.parts == 1 { ["begin", "end"] } else { ["first_step", "step_end"] };
        line(format!("const int {end} = last_row < m0 ? 0 : (keys_of(last_row) + {}) / {keys};", keys - 1));
        line(format!("const int {begin} = min(first_key(m0) / {keys}, {end});"));
        if problem.parts > 1 {
            line("const unsigned steps_of_all = step_end - first_step;  // of which the parts have as many each, or one more".to_owned());
            line(format!("const int begin = first_step + int(steps_of_all * part / {parts}u);"));
            line(format!("const int end = first_step + int(steps_of_all * (part + 1) / {parts}u);"));
        }
        lines.extend(problem.band.blocks.into_iter().flat_map(|id| self.kept_steps(id)));
        lines.join("\n")
    }

    /// The lines that tell which steps of a tile are kept, each of which lies in one block of scores: the last before a step, less than `begin`
    /// where there is none, and how many from one on.
    fn kept_steps(&self, id: TensorId) -> [String; 4] {
        let [batch, head, row, byte] = [0, 1, 2, 3].map(|axis| stride(self.graph, id, axis));
        let (tile, of_byte, keys) = (ScoreMask::TILE, ScoreMask::TILES_OF_BYTE, self.keys);
        let mask = names::pointer(self.graph, id);
        [
            format!("const auto* const blocks = {mask} + b * {batch}ull + h * {head}ull + m0 / {tile} * {row}ull;"),
            format!(
                "const auto is_kept = [&](int step) {{ const int tile = step * {keys} / {tile}; return blocks[tile / {of_byte} * {byte}ull] >> tile % {of_byte} & 1; }};"
            ),
            "const auto before = [&](int step) { do --step; while (step >= begin && !is_kept(step)); return step; };"
                .to_owned(),
            "[[maybe_unused]] const auto kept_steps = [&](int from, int to) { int kept = 0; for (; from < to; ++from) kept += is_kept(from); return kept; };"
                .to_owned(),
        ]
    }

    /// Whether the largest score of a row is kept beside the reference, which may be below it.
    pub(super) fn knows_largest(&self) -> bool {
        let of_sinks = self.problem.sink.is_some() && self.problem.scaling.largest[0].is_some();
        self.problem.statistics.max.is_some() || self.problem.statistics.sum_exp.is_some() || of_sinks
    }

    /// Whether the largest score of a row is kept for the largest probability alone.
    pub(super) fn sees_largest(&self) -> bool {
        self.problem.scaling.largest[0].is_some() && !self.knows_largest()
    }

    /// The weight of a row's reference as a power of two, where it is not 1: words of FP8 have room above 1, and a mask may multiply a probability of
    /// almost 1 by what HALF just does not hold.
    fn weight(&self) -> Option<f32> {
        let is_masked = matches!(self.problem.dropout, Some(ForwardDropout::Masked { .. }));
        match self.problem.operand {
            MmaType::Fp8 => Some(fp8::TOP),
            MmaType::F16 if is_masked => Some(MASKED_TOP),
            _ => None,
        }
    }

    /// What makes a reference of a row's largest score, where their weight is not 1.
    pub(super) fn top(&self) -> Option<String> {
        self.weight().map(|weight| match weight > 0.0 {
            true => format!("- {}", names::float_literal(weight)),
            false => format!("+ {}", names::float_literal(-weight)),
        })
    }

    /// The sink of a row, which rows beyond their sequence do not have.
    pub(super) fn sink_of_row(&mut self, id: TensorId) -> String {
        let [head, query] = self.head_and_query("row + 8 * e");
        let offset = spread_offset(self.graph, id, &["b".to_owned(), head, query, "0".to_owned()]);
        self.used.add(names::storage_section(self.graph.tensor(id).data_type));
        let sink = format!("fw_value({}[{offset}])", names::pointer(self.graph, id));
        let conditions =
            [self.problem.band.lengths.map(|_| "row + 8 * e < rows"), (self.problem.parts > 1).then_some("part == 0")];
        match conditions.into_iter().flatten().collect::<Vec<_>>().join(" && ") {
            always if always.is_empty() => sink,
            condition => format!("{condition} ? {sink} : negative"),
        }
    }

    /// [`ROOM`], but none where a mask may multiply probabilities beyond what HALF holds.
    fn room(&self) -> f32 {
        let is_masked = matches!(self.problem.dropout, Some(ForwardDropout::Masked { .. }));
        match self.problem.operand {
            MmaType::Fp8 => fp8::ROOM,
            MmaType::F16 if is_masked => 0.0,
            _ => ROOM,
        }
    }

    /// `c`, by which scores become exponents of two; `unit_of_scores`, what one of them is in natural units; `room`.
    pub(super) fn scale(&mut self) -> String {
        let (log2e, room) = (names::float_literal(LOG2E), names::float_literal(self.room()));
        let reads_unit = self.knows_largest() || self.problem.sink.is_some();
        let unit = if reads_unit { ", unit_of_scores = 1.0f" } else { "" };
        let constant = format!("constexpr float c = {log2e}{unit}, room = {room} / c;");
        let Scores::Scaled(factors) = &self.problem.scores else { return constant };
        if factors.is_empty() {
            return constant;
        }
        let scale: Vec<String> = factors.iter().map(|&id| number(self.graph, self.used, id)).collect();
        let scale = scale.join(" * ");
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
    pub(super) fn dropout_state(&mut self, dropout: ForwardDropout) -> Result<String, Error> {
        match dropout {
            ForwardDropout::Drawn(dropout) => dropout::state(self.graph, self.used, dropout),
            ForwardDropout::Masked { scale, .. } => {
                Ok(format!("const float drop_scale = {};", number(self.graph, self.used, scale)))
            }
        }
    }

    /// The lines that multiply the probabilities of a step by a mask. Where there is no probability, what the mask has may be anything.
    fn masked(&mut self, mask: TensorId) -> String {
        let tensor = self.graph.tensor(mask);
        let value = match tensor.is_pass_by_value {
            true => number(self.graph, self.used, mask),
            false => {
                self.used.add(names::storage_section(tensor.data_type));
                format!("fw_value({}[{}])", names::pointer(self.graph, mask), self.score_offset(mask))
            }
        };
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
        let of_head = |[head, _]: &[String; 2]| format!("b * {} + {head}", self.problem.extents.heads);
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
                self.keys / 8
            ),
        ]
        .join("\n")
    }

    /// What the graph does with scores.
    fn program(&mut self) -> ProgramLines {
        match &self.problem.scores {
            Scores::Program(scores) => self.program_lines(scores),
            Scores::Scaled(_) => ProgramLines::default(),
        }
    }

    /// The lines before the steps of a tile that say what is the same for all its scores, and from the scores `x` of a step to its probabilities.
    pub(super) fn softmax(&mut self) -> Result<(Vec<String>, String), Error> {
        let problem = self.problem;
        match self.knows_largest() {
            true => ["fw_row_maxima_nan", "fw_quad_largest_nan"].into_iter().for_each(|section| self.used.add(section)),
            false => self.used.add("fw_row_maxima"),
        }
        if !self.is_fp8() {
            self.used.add("fw_exponentials");
        }
        if self.problem.scores.may_be_vast() {
            ["fw_reference", "fw_bound", "fw_factor", "fw_above_largest"]
                .into_iter()
                .for_each(|section| self.used.add(section));
        }
        let program = self.program();
        let record = SoftmaxText {
            scores: self.scores(),
            keys: self.keys,
            of_step: program.of_step,
            program: Some(program.each.join("\n")).filter(|lines| !lines.is_empty()),
            scales_first: matches!(&problem.scores, Scores::Scaled(factors) if !factors.is_empty())
                .then_some("scales_first"),
            left: problem.band.left.is_some(),
            lengths: problem.band.lengths.is_some(),
            largest: self.knows_largest(),
            dropout: problem.dropout.map(|dropout| self.dropped(dropout)),
            top: self.top(),
            seen: self.sees_largest(),
            vast: self.problem.scores.may_be_vast(),
            exponentials: !self.is_fp8(),
        };
        Ok((program.of_tile, template::render(template!("attention/softmax.cuh"), &record)?))
    }

    /// Row of a score, of the first or the second of a lane's, as `of_lane` tells.
    pub(super) fn score_row(&self, of_lane: &str) -> String {
        let last = self.count("last_row", self.problem.extents.rows() - 1);
        format!("const int score_row = min(row + 8 * ({of_lane}), {last});")
    }

    /// Column of a score, the first of so many side by side.
    pub(super) fn score_column(&self, of_lane: &str, side_by_side: i64) -> String {
        let name = if side_by_side == 1 { "last_key" } else { "last_keys" };
        let (keys, last) = (self.keys, self.count(name, self.problem.extents.keys - side_by_side));
        format!("const int score_column = min(block * {keys} + 2 * int(quad) + {of_lane}, {last});")
    }

    /// Batch, head, query and key of a score.
    pub(super) fn coordinates(&self) -> [String; 4] {
        let [head, query] = self.head_and_query("score_row");
        ["b".to_owned(), head, query, "score_column".to_owned()]
    }

    /// Where the element of a tensor for a score lies.
    pub(super) fn score_offset(&self, id: TensorId) -> String {
        spread_offset(self.graph, id, &self.coordinates())
    }

    /// Room for what is read two columns at a time, and the lines that read it for a step.
    pub(super) fn pairs(&mut self) -> (Vec<String>, Vec<String>) {
        let (mut room, mut reads) = (Vec::new(), Vec::new());
        if self.problem.paired.is_empty() {
            return (room, reads);
        }
        self.used.add("fw_vector");
        reads.extend([self.score_row("i & 1"), self.score_column("8 * (i >> 1)", 2)]);
        for &id in &self.problem.paired {
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

    /// `b * … + h * … + <row> * …`.
    fn row_offset(&self, id: TensorId, row: &str) -> String {
        row_offset(self.graph, self.problem.extents, id, row)
    }

    /// What softmax knows of the lane's rows, to memory, and the factors of their parts of O.
    pub(super) fn rows(&mut self) -> Result<String, Error> {
        if self.problem.parts > 1 {
            return self.weights_of_part();
        }
        let statistics = self.problem.statistics;
        if statistics.stats.is_some() && self.problem.scores.may_be_vast() {
            self.used.add("fw_statistic");
        }
        let ln2 = names::float_literal(LN2);
        let is_known = self.knows_largest();
        let sink = self.problem.sink.filter(|_| is_known).map(|id| self.sink_of_row(id));
        let [greatest, max] = match &sink {
            Some(_) => ["greatest_of_all", "fw_max_nan(greatest * unit_of_scores, sink)"],
            None => ["greatest", "greatest * unit_of_scores"],
        };
        let [largest, log] = match self.problem.scores.may_be_vast() {
            true => [
                format!("fw_is_vast(m[e], c) ? 0.0f : -{greatest}"),
                format!("fw_statistic(m[e], c, reference[e], log2f(total), {ln2})"),
            ],
            false => [format!("-{greatest}"), format!("(reference[e] + log2f(total)) * {ln2}")],
        };
        let values = [
            (statistics.stats, format!("total == 0.0f ? negative : {log}")),
            (statistics.max, max.to_owned()),
            (statistics.sum_exp, format!("total == 0.0f ? 0.0f : total * exp2f(fmaf({largest}, c, reference[e]))")),
        ];
        let store = |(id, value): (Option<TensorId>, String)| {
            let id = id?;
            let inside = if is_ragged(self.graph, id) { "if (row + 8 * e < rows) " } else { "" };
            let at = self.row_offset(id, "row + 8 * e");
            Some(format!("{inside}{}[{at}] = {value};", names::pointer(self.graph, id)))
        };
        let record = RowsText {
            rows: self.count("rows", self.problem.extents.rows()),
            dropout: self.problem.dropout.is_some(),
            scaling: self.is_fp8(),
            largest: is_known,
            largest_p: fp8::largest_lines(self.problem, is_known),
            sink,
            stores: values.into_iter().filter_map(store).collect(),
        };
        template::render(template!("attention/rows.cuh"), &record)
    }

    /// What a part's rows weigh, to the workspace, and the factors of their parts of O.
    fn weights_of_part(&mut self) -> Result<String, Error> {
        let weight = if self.problem.scores.may_be_vast() {
            self.used.add("fw_weight_of_part");
            "fw_weight_of_part(m[e], c, reference[e], total)"
        } else {
            "{{total == 0.0f ? negative : reference[e], log2f(total)}}"
        };
        let at = combination::row_of_part(self.graph, self.problem, "row + 8 * e");
        let record = RowsText {
            rows: self.count("rows", self.problem.extents.rows()),
            dropout: self.problem.dropout.is_some(),
            scaling: false,
            largest: false,
            largest_p: None,
            sink: None,
            stores: vec![format!("reinterpret_cast<fw_vector<float, 2>*>(partial1)[{at}] = {weight};")],
        };
        template::render(template!("attention/rows.cuh"), &record)
    }

    /// O to memory; accumulators that nothing was added to are cleared first where the kernel asks for it.
    pub(super) fn output(&mut self, clears: bool) -> Result<String, Error> {
        let problem = self.problem;
        if problem.parts > 1 {
            return combination::part(self.graph, self.used, problem, self.scores());
        }
        let store = RowStore {
            tensor: problem.output,
            first: self.scores(),
            head: problem.extents.head[1],
            rows: existing_rows(self.graph, problem.output, problem.extents.rows()),
            row_offset: self.row_offset(problem.output, "row_of"),
            stores: problem.stores,
            operand: problem.operand,
            clears,
        };
        if self.is_fp8() {
            return store.scaled_text(self.graph, self.used, Scaled::of_forward(&problem.scaling));
        }
        store.text(self.graph, self.used)
    }
}

/// Head of Q, and query, of a row.
fn head_and_query(extents: AttentionExtents, row: &str) -> [String; 2] {
    match extents.packed {
        1 => ["h".to_owned(), row.to_owned()],
        packed => [format!("(h * {packed} + ({row}) % {packed})"), format!("({row}) / {packed}")],
    }
}

/// `b * … + h * … + <row> * …`.
pub(super) fn row_offset(graph: &FinalizedGraph, extents: AttentionExtents, id: TensorId, row: &str) -> String {
    let [of_head, of_query] = [1, 2].map(|axis| stride(graph, id, axis));
    let [head, query] = head_and_query(extents, row);
    format!("{} + {head} * {of_head}ull + ({query}) * {of_query}ull", batch_offset(graph, id))
}
