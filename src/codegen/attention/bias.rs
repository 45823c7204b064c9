//! A bias of scores, as the backward pass reads it.

use serde::Serialize;

use super::number;
use super::spread_offset;
use crate::codegen::names;
use crate::codegen::sections::Used;
use crate::codegen::template::{self, template};
use crate::error::Error;
use crate::graph::FinalizedGraph;
use crate::kernel::{AttentionBackwardKernel, ScoreBias};

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
    offset: String,
}

/// How the scores of a step are biased.
pub(super) struct Biased {
    /// Lines that ask for the bias.
    pub(super) reads: Option<String>,
    /// What is added to `x[i]`.
    pub(super) value: String,
}

/// How a pass biases its scores, whose head of Q is this.
pub(super) fn biased(
    graph: &FinalizedGraph,
    used: &mut Used,
    (kernel, bias): (&AttentionBackwardKernel, ScoreBias),
    head: &str,
) -> Result<Biased, Error> {
    let tensor = graph.tensor(bias.tensor);
    if tensor.is_pass_by_value {
        return Ok(Biased { reads: None, value: number(graph, used, bias.tensor) });
    }
    used.add(names::storage_section(tensor.data_type));
    let is_paired = bias.is_paired && !kernel.of_keys;
    if is_paired {
        used.add("fw_vector");
    }
    let at = ["b", head, "bias_query", "bias_key"].map(str::to_owned);
    let record = BiasText {
        is_paired,
        of_keys: kernel.of_keys,
        storage: names::storage_type(tensor.data_type),
        scores: kernel.tile.others / 2,
        pairs: kernel.tile.others / 4,
        columns: kernel.tile.others,
        last_query: kernel.extents.queries - 1,
        last_key: kernel.extents.keys - 1,
        pointer: names::pointer(graph, bias.tensor),
        offset: spread_offset(graph, bias.tensor, &at),
    };
    let value = if is_paired { "fw_value(bias[i / 2].at[i & 1])" } else { "fw_value(bias[i])" };
    Ok(Biased { reads: Some(template::render(template!("attention/bias.cuh"), &record)?), value: value.to_owned() })
}
