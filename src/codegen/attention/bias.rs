//! A bias of scores, as the backward pass reads it.

use serde::Serialize;

use super::gradients::GradientRows;
use super::{LOG2E, number};
use crate::codegen::names;
use crate::codegen::template::{self, template};
use crate::error::Error;
use crate::graph::FinalTensor;

/// What `attention/bias.cuh` reads.
#[derive(Serialize)]
struct BiasText {
    is_paired: bool,
    /// Whether rows are keys, and columns queries.
    of_keys: bool,
    storage: &'static str,
    /// Scores of a lane, and half of them.
    scores: u32,
    pairs: u32,
    columns: u32,
    last_query: i64,
    last_key: i64,
    pointer: String,
    /// Where the values of a head begin, and how far from there one lies.
    head_offset: String,
    offset: String,
}

/// How the scores of a step are biased.
pub(super) struct Biased {
    /// Lines that ask for the bias.
    pub(super) reads: Option<String>,
    /// `x[i]` with it.
    pub(super) value: String,
}

impl GradientRows<'_, '_> {
    /// What scores are in powers of two: those that are scaled where their bias is added, or as they are multiplied.
    pub(super) fn unit_of_scores(&mut self) -> String {
        let (log2e, further) = (names::float_literal(LOG2E), self.further_factors());
        if self.problem.bias.is_some() { log2e } else { format!("scale * {log2e}{further}") }
    }

    /// Score `x[i]` with its bias, of a head of Q.
    pub(super) fn biased(&mut self, head: &str) -> Result<Biased, Error> {
        let Some(bias) = self.problem.bias else { return Ok(Biased { reads: None, value: "x[i]".to_owned() }) };
        let tensor = self.graph.tensor(bias.tensor);
        let with = |value: &str| format!("fmaf(x[i], scale, {value})");
        if tensor.is_pass_by_value {
            return Ok(Biased { reads: None, value: with(&number(self.graph, self.used, bias.tensor)) });
        }
        self.used.add(names::storage_section(tensor.data_type));
        let is_paired = bias.is_paired && !self.problem.of_keys;
        if is_paired {
            self.used.add("fw_vector");
        }
        let extents = self.problem.extents;
        let record = BiasText {
            is_paired,
            of_keys: self.problem.of_keys,
            storage: names::storage_type(tensor.data_type),
            scores: self.scores(),
            pairs: self.scores() / 2,
            columns: self.others,
            last_query: extents.queries - 1,
            last_key: extents.keys - 1,
            pointer: names::pointer(self.graph, bias.tensor),
            head_offset: offset(tensor, [(0, "b"), (1, head)]),
            offset: offset(tensor, [(2, "bias_query"), (3, "bias_key")]),
        };
        let value = if is_paired { "fw_value(bias[i / 2].at[i & 1])" } else { "fw_value(bias[i])" };
        Ok(Biased { reads: Some(template::render(template!("attention/bias.cuh"), &record)?), value: with(value) })
    }
}

/// Where an element lies along some axes; of extents of 1 there is one for all. Places of 32 bits need fewer registers.
fn offset(tensor: &FinalTensor, at: [(usize, &str); 2]) -> String {
    let reach: i64 = at.iter().map(|&(axis, _)| (tensor.dim[axis] - 1).saturating_mul(tensor.stride[axis])).sum();
    let suffix = if reach > i64::from(i32::MAX) { "ull" } else { "u" };
    let spread = at.into_iter().filter(|&(axis, _)| tensor.dim[axis] > 1);
    let terms: Vec<String> = spread.map(|(axis, at)| format!("({at}) * {}{suffix}", tensor.stride[axis])).collect();
    if terms.is_empty() { "0".to_owned() } else { terms.join(" + ") }
}
