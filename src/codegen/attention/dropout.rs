//! Records of dropout.

use serde::Serialize;

use super::number;
use crate::codegen::names;
use crate::codegen::sections::Used;
use crate::codegen::template::{self, template};
use crate::error::Error;
use crate::graph::FinalizedGraph;
use crate::kernel::{DropoutMaskKernel, Dropping};

/// What `attention/dropout.cuh` reads.
#[derive(Serialize)]
struct DropoutText {
    seed: String,
    offset: String,
    scale: String,
}

/// The lines that say what the generator of dropout is told, and the factor of what is kept.
pub(super) fn state(graph: &FinalizedGraph, used: &mut Used, dropout: Dropping) -> Result<String, Error> {
    let [seed, offset, scale] = [dropout.state[0], dropout.state[1], dropout.scale].map(|id| number(graph, used, id));
    template::render(template!("attention/dropout.cuh"), &DropoutText { seed, offset, scale })
}

/// What `attention/dropout_mask.cu` reads beside the function's name and parameters.
#[derive(Serialize)]
pub(in crate::codegen) struct MaskText {
    threads: u32,
    items: i64,
    groups: i64,
    queries: i64,
    keys: i64,
    threshold: u32,
    dropout: String,
    pointer: String,
    offset: String,
    column_stride: i64,
}

pub(in crate::codegen) fn mask(
    graph: &FinalizedGraph,
    used: &mut Used,
    kernel: &DropoutMaskKernel,
) -> Result<MaskText, Error> {
    used.add("fw_philox");
    let ([_, heads, queries, keys], stride) = (kernel.extents, &graph.tensor(kernel.output).stride);
    Ok(MaskText {
        threads: DropoutMaskKernel::THREADS,
        items: kernel.items(),
        groups: kernel.groups(),
        queries,
        keys,
        threshold: kernel.dropout.threshold,
        dropout: state(graph, used, kernel.dropout)?,
        pointer: names::pointer(graph, kernel.output),
        offset: format!(
            "head / {heads}u * {}ull + head % {heads}u * {}ull + query * {}ull",
            stride[0], stride[1], stride[2]
        ),
        column_stride: stride[3],
    })
}
