//! What the backward pass makes of its scores, and reads for them: a soft cap, a bias, a mask of dropout, slopes of heads.

use serde::Serialize;

use super::gradients::GradientRows;
use super::{LOG2E, count, number, spread_offset, stride};
use crate::codegen::names;
use crate::codegen::template::{self, template};
use crate::error::Error;
use crate::graph::{AlibiSlopes, FinalizedGraph, TensorId};
use crate::kernel::{HeadSlopes, Number, ScoreTensor};

/// What `attention/bias.cuh` reads.
#[derive(Serialize)]
struct BiasText {
    name: &'static str,
    is_paired: bool,
    /// Whether rows are keys, and columns queries.
    of_keys: bool,
    storage: &'static str,
    /// Scores of a lane, and half of them.
    scores: u32,
    pairs: u32,
    columns: u32,
    last_query: Number,
    last_key: Number,
    pointer: String,
    /// Where the values of a head begin, and how far from there one lies.
    head_offset: String,
    offset: String,
}

/// What `attention/capped.cuh` reads.
#[derive(Serialize)]
struct CappedText {
    scores: u32,
    /// Whether there are gradients of probabilities.
    has_sums: bool,
    score: String,
    /// What is known of the query of `x[i]`.
    statistic: String,
    delta: String,
    /// The factor of gradients of probabilities.
    factor: &'static str,
}

/// A value of each score of a step.
pub(super) struct Read {
    /// Lines that ask for it.
    pub(super) reads: Option<String>,
    /// That of `x[i]`.
    pub(super) value: String,
}

impl GradientRows<'_, '_> {
    /// What scores are in powers of two: those that are scaled where something is added to them, or as they are multiplied; or tanh, where they are
    /// capped.
    pub(super) fn unit_of_scores(&mut self) -> String {
        let (log2e, further) = (names::float_literal(LOG2E), self.further_factors());
        let is_scaled = self.problem.bias.is_some() || self.problem.slopes.is_some();
        if is_scaled { log2e } else { format!("{} * {log2e}{further}", self.base()[1]) }
    }

    /// What becomes of a product, and what it is a score times that of.
    fn base(&self) -> [&'static str; 2] {
        if self.problem.cap.is_some() { ["capped.value", "cap"] } else { ["x[i]", "scale"] }
    }

    /// The cap of scores.
    pub(super) fn cap(&mut self) -> Option<String> {
        let cap = self.problem.cap?;
        self.used.add("fw_tanh_and_slope");
        Some(number(self.graph, self.used, cap))
    }

    /// The lines that make probabilities of capped scores, and multiply gradients of theirs by the slope of the cap.
    pub(super) fn capped(&mut self, score: &str) -> Result<Option<String>, Error> {
        if self.problem.cap.is_none() {
            return Ok(None);
        }
        let [statistic, delta] = self.facts();
        let record = CappedText {
            scores: self.scores(),
            has_sums: self.problem.has_sums(),
            score: score.to_owned(),
            statistic,
            delta,
            factor: self.factor(),
        };
        template::render(template!("attention/capped.cuh"), &record).map(Some)
    }

    /// Score `x[i]` of a head of Q, capped, with its bias, and leaning.
    pub(super) fn biased(&mut self, head: &str) -> Result<Read, Error> {
        let bias = self.problem.bias.map(|bias| self.read(bias, "bias", head)).transpose()?;
        let leaning = self.problem.slopes.map(|slopes| self.leaning(slopes, head));
        let [x, unit] = self.base();
        let value = match (&bias, &leaning) {
            (None, None) => x.to_owned(),
            (None, Some(leaning)) => format!("fmaf({x}, {unit}, {})", leaning.value),
            (Some(bias), None) => format!("fmaf({x}, {unit}, {})", bias.value),
            (Some(bias), Some(leaning)) => format!("fmaf({x}, {unit}, {}) + {}", bias.value, leaning.value),
        };
        let reads: Vec<String> = [bias, leaning].into_iter().flatten().filter_map(|read| read.reads).collect();
        Ok(Read { reads: (!reads.is_empty()).then(|| reads.join("\n")), value })
    }

    /// By what scores lean: the distance of the lane's first row and column for a step, and a known one for each score from there.
    fn leaning(&mut self, slopes: HeadSlopes, head: &str) -> Read {
        let slope = match slopes {
            HeadSlopes::OfFrontend => slope_of_frontend(self.problem.extents.heads, head),
            HeadSlopes::Given(id) if self.graph.tensor(id).is_pass_by_value => number(self.graph, self.used, id),
            HeadSlopes::Given(id) => {
                self.used.add(names::storage_section(self.graph.tensor(id).data_type));
                let offset = spread_offset(self.graph, id, &["b", head, "0", "0"].map(str::to_owned));
                format!("fw_value({}[{offset}])", names::pointer(self.graph, id))
            }
        };
        // of rows of keys, columns are queries
        let sign = if self.problem.of_keys { "-" } else { "" };
        let lines = [
            format!("const float slope = {sign}{slope};"),
            format!("const float leaning = slope * float(block * {} + 2 * int(quad) - row);", self.others),
        ];
        let value = "fmaf(slope, float(8 * (i >> 2) + (i & 1) - 8 * (i >> 1 & 1)), leaning)".to_owned();
        Read { reads: Some(lines.join("\n")), value }
    }

    /// A tensor with a value for each score, of a head of Q.
    pub(super) fn read(&mut self, read: ScoreTensor, name: &'static str, head: &str) -> Result<Read, Error> {
        let tensor = self.graph.tensor(read.tensor);
        if tensor.is_pass_by_value {
            return Ok(Read { reads: None, value: number(self.graph, self.used, read.tensor) });
        }
        self.used.add(names::storage_section(tensor.data_type));
        let is_paired = read.is_paired && !self.problem.of_keys;
        if is_paired {
            self.used.add("fw_vector");
        }
        let extents = self.problem.extents;
        let record = BiasText {
            name,
            is_paired,
            of_keys: self.problem.of_keys,
            storage: names::storage_type(tensor.data_type),
            scores: self.scores(),
            pairs: self.scores() / 2,
            columns: self.others,
            last_query: count(self.graph, "last_query", extents.queries - 1),
            last_key: count(self.graph, "last_key", extents.keys - 1),
            pointer: names::pointer(self.graph, read.tensor),
            head_offset: offset(self.graph, read.tensor, [(0, "b"), (1, head)]),
            offset: offset(self.graph, read.tensor, [(2, &format!("{name}_query")), (3, &format!("{name}_key"))]),
        };
        let value = match is_paired {
            true => format!("fw_value({name}[i / 2].at[i & 1])"),
            false => format!("fw_value({name}[i])"),
        };
        Ok(Read { reads: Some(template::render(template!("attention/bias.cuh"), &record)?), value })
    }
}

/// The slope that the frontend gives a head.
fn slope_of_frontend(heads: i64, head: &str) -> String {
    let AlibiSlopes { step, first, beyond, others } = AlibiSlopes::of(heads);
    let literal = |value: f64| names::float_literal(value as f32);
    let shift = match heads > beyond {
        true => format!("int({head}) < {beyond} ? {} : {}", literal(first), literal(others)),
        false => literal(first),
    };
    format!("exp2f(fmaf(float({head}), {}, {shift}))", literal(step))
}

/// Where an element lies along some axes; of extents of 1 there is one for all. Places of 32 bits need fewer registers.
fn offset(graph: &FinalizedGraph, id: TensorId, at: [(usize, &str); 2]) -> String {
    let tensor = graph.tensor(id);
    let reach: i64 = at.iter().map(|&(axis, _)| (tensor.dim[axis] - 1).saturating_mul(tensor.stride[axis])).sum();
    let suffix = if reach > i64::from(i32::MAX) { "ull" } else { "u" };
    let spread = at.into_iter().filter(|&(axis, _)| tensor.dim[axis] > 1);
    let terms: Vec<String> = spread.map(|(axis, at)| format!("({at}) * {}{suffix}", stride(graph, id, axis))).collect();
    if terms.is_empty() { "0".to_owned() } else { terms.join(" + ") }
}
