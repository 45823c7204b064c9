//! Spells reductions of a warp's part of C: what a lane adds up, and how lanes share their totals.

use serde::Serialize;

use super::gemm_epilogue::partial_index;
use super::names;
use super::sections::Used;
use super::sweep::mapped;
use crate::kernel::{GemmKernel, GemmTile, PartialReduction};

/// Around the loops over a warp's part: before the rows are walked, before their columns are, after those, and after the
/// rows.
#[derive(Default, Serialize)]
pub(super) struct TotalsText {
    before_rows: Vec<String>,
    before_columns: Vec<String>,
    after_columns: Vec<String>,
    after_rows: Vec<String>,
}

/// Which elements a lane holds.
#[derive(Clone, Copy)]
pub(super) enum Lanes {
    /// Vectors, lane by lane: `vectors` of a piece, in so many passes; `line_vectors` of a line of it.
    Vectors { vector: u32, vectors: u32, passes: u32, line_vectors: u32 },
    /// Pairs of columns of two rows, as fragments of the accumulators lie.
    Fragments,
}

/// A reduction in a warp: which lanes hold what, and when it is complete.
pub(super) struct Total<'a> {
    pub(super) kernel: &'a GemmKernel,
    pub(super) reduction: &'a PartialReduction,
    /// Which of the kernel's reductions it is.
    pub(super) number: usize,
    pub(super) lanes: Lanes,
}

impl<'a> Total<'a> {
    /// Totals a lane holds: one; one for each of its rows; one for each column of its vector.
    fn count(&self) -> u32 {
        match self.reduction.reduced {
            [_, true, true] => 1,
            [_, false, true] => self.lanes.rows(),
            [_, true, false] => self.lanes.columns(),
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
    pub(super) fn combined(&self, used: &mut Used, value: String) -> String {
        used.add(self.combine());
        let value = mapped(used, self.reduction.accumulation.map, value);
        let at = match self.reduction.reduced {
            [_, true, true] => "0",
            [_, false, true] => self.lanes.row(),
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
    pub(super) fn walk(&self, used: &mut Used, record: &mut TotalsText) {
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
        match self.reduction.reduced {
            [_, true, true] => {
                record.before_columns.extend(clear);
                let store = format!("if (lane == 0) {{ {} }}", self.store("m", "n", "sum"));
                record.after_rows.extend(looped(vec![over(16, 1, "e"), store]));
            }
            [_, false, true] => {
                record.before_columns.extend(clear);
                let (sharing, row, first) = self.lanes.holding_row();
                let store = self.store(&format!("({row})"), "n", "sum");
                let store = format!("if ({first}) {{ {store} }}");
                record.after_rows.extend(looped(vec![over(sharing / 2, 1, "e"), store]));
            }
            _ => {
                record.before_rows.extend(clear);
                let (distance, column, first) = self.lanes.holding_column();
                let store = self.store("m", &format!("({column})"), "sum");
                let store = format!("if ({first}) {{ {store} }}");
                record.after_columns.extend(looped(vec![over(16, distance, "e"), store]));
            }
        }
    }
}

impl Lanes {
    /// Rows of which a lane holds elements.
    fn rows(self) -> u32 {
        match self {
            Self::Vectors { passes, .. } => passes,
            Self::Fragments => 2,
        }
    }

    /// Columns of which a lane holds elements, at a time.
    fn columns(self) -> u32 {
        match self {
            Self::Vectors { vector, .. } => vector,
            Self::Fragments => unreachable!("columns are not kept where epilogues are evaluated in fragments"),
        }
    }

    /// Which of its rows a lane is at.
    fn row(self) -> &'static str {
        match self {
            Self::Vectors { .. } => "pass",
            Self::Fragments => "half",
        }
    }

    /// Neighbouring lanes that share a row, which row is a lane's `e`, and whether a lane is the first of those.
    fn holding_row(self) -> (u32, String, String) {
        match self {
            Self::Vectors { vectors, line_vectors, .. } => {
                let all = if vectors < 32 { format!(" && lane < {vectors}") } else { String::new() };
                let row = format!("warp_m0 + (e * 32 + lane) / {line_vectors}");
                (line_vectors, row, format!("lane % {line_vectors} == 0{all}"))
            }
            Self::Fragments => (4, "warp_m0 + lane / 4 + 8 * e".to_owned(), "lane % 4 == 0".to_owned()),
        }
    }

    /// Distance of lanes that share a column, which column is a lane's `e`, and whether a lane is the first of those.
    fn holding_column(self) -> (u32, String, String) {
        match self {
            Self::Vectors { vector, line_vectors, .. } => {
                let column = format!("chunk_n0 + lane % {line_vectors} * {vector} + e");
                (line_vectors, column, format!("lane < {line_vectors}"))
            }
            Self::Fragments => unreachable!("columns are not kept where epilogues are evaluated in fragments"),
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
