//! Records of dropout.

use serde::Serialize;

use super::{count, number, stride};
use crate::codegen::names;
use crate::codegen::sections::Used;
use crate::codegen::template::{self, template};
use crate::error::Error;
use crate::graph::FinalizedGraph;
use crate::kernel::{DropoutMaskKernel, Dropping, Number};

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
    items: Number,
    groups: Number,
    queries: Number,
    /// Groups of a head.
    of_head: Number,
    keys: Number,
    threshold: u32,
    dropout: String,
    pointer: String,
    offset: String,
    column_stride: Number,
}

pub(in crate::codegen) fn mask(
    graph: &FinalizedGraph,
    used: &mut Used,
    kernel: &DropoutMaskKernel,
) -> Result<MaskText, Error> {
    used.add("fw_philox");
    let [_, heads, queries, keys] = kernel.extents;
    let told = |name, value| count(graph, name, value);
    let heads = told("heads", heads);
    let [of_batch, of_head, of_query, column_stride] = [0, 1, 2, 3].map(|axis| stride(graph, kernel.output, axis));
    Ok(MaskText {
        threads: DropoutMaskKernel::THREADS,
        items: told("items", kernel.items()),
        groups: told("groups", kernel.groups()),
        queries: told("queries", queries),
        of_head: told("groups of a head", kernel.groups() * queries),
        keys: told("keys", keys),
        threshold: kernel.dropout.threshold,
        dropout: state(graph, used, kernel.dropout)?,
        pointer: names::pointer(graph, kernel.output),
        offset: format!("head / {heads}u * {of_batch}ull + head % {heads}u * {of_head}ull + query * {of_query}ull"),
        column_stride,
    })
}
