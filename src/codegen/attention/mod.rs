//! Records of attention: forward and backward, by `wgmma` and by `mma.sync`.

mod backward;
mod bias;
mod bias_gradient;
mod combination;
mod dropout;
mod forward;
mod fp8;
mod gradients;
mod gradients_fp8;
mod loads;
mod output;
mod queries;
mod score_program;
mod scores;
mod sequences;
mod tile_counter;
mod warp;
mod warp_backward;

pub(super) use backward::{backward, rows as backward_rows, sinks as backward_sinks};
pub(super) use bias_gradient::backward_bias;
pub(super) use combination::combination;
pub(super) use dropout::mask as dropout_mask;
pub(super) use forward::forward;
pub(super) use fp8::turned_values;
pub(super) use gradients_fp8::half_rows;
pub(super) use queries::queries as backward_queries;
pub(super) use tile_counter::tile_counter;
pub(super) use warp::forward as warp_forward;
pub(super) use warp_backward::backward as warp_backward;

use self::sequences::is_ragged;
use super::names;
use super::sections::Used;
use crate::graph::{FinalizedGraph, TensorId};
use crate::kernel::{AttentionExtents, Band, BandEdge, MmaType, Number, Told};

/// Device code that both passes of an attention by `wgmma` use.
const SECTIONS: &[&str] = &[
    "FW_SHARED",
    "fw_shared_address",
    "fw_mbarrier",
    "fw_tma_load",
    "fw_set_registers",
    "fw_wgmma",
    "fw_accumulators",
    "fw_uniform",
    "fw_take_all",
    "fw_quad_transpose",
];

/// Elements of 16 bits of a swizzled row, and bytes of it.
const LINE: u32 = 64;
const LINE_BYTES: u32 = 128;

/// k of an instruction.
const STEP: u32 = 16;

/// `log₂ e` and `ln 2`.
const LOG2E: f32 = std::f32::consts::LOG2_E;
const LN2: f32 = std::f32::consts::LN_2;

/// `acc3, acc4, …`.
fn registers(first: u32, count: u32) -> String {
    (first..first + count).map(|number| format!("acc{number}")).collect::<Vec<_>>().join(", ")
}

/// The instruction that packs two numbers.
fn pack_function(operand: MmaType) -> &'static str {
    match operand {
        MmaType::F16 => "fw_pack_f16x2",
        _ => "fw_pack_bf16x2",
    }
}

/// A count of a kernel, which launches tell where shapes are dynamic.
fn count(graph: &FinalizedGraph, name: &'static str, value: i64) -> Number {
    Number::count(graph.is_dynamic(), name, value)
}

/// The stride of a tensor along an axis, likewise.
fn stride(graph: &FinalizedGraph, id: TensorId, axis: usize) -> Number {
    let value = graph.tensor(id).stride[axis];
    if graph.is_dynamic() { Number::parameter(value, Told::Stride(id.index(), axis)) } else { value.into() }
}

/// The lines that say how long the sequences of batch `b` are.
fn length_lines(graph: &FinalizedGraph, band: &Band, extents: &AttentionExtents) -> Vec<String> {
    let Some([queries, keys]) = band.lengths else {
        let [queries, keys] =
            [("queries", extents.queries), ("keys", extents.keys)].map(|(name, value)| count(graph, name, value));
        let kind = if graph.is_dynamic() { "const" } else { "constexpr" };
        return vec![format!("{kind} int queries = {queries}, keys = {keys};")];
    };
    let most = |name, value| count(graph, name, value);
    vec![
        length_line(graph, "queries", queries, most("queries", extents.queries)),
        length_line(graph, "keys", keys, most("keys", extents.keys)),
    ]
}

/// The length of a batch's sequence, of so many rows at most.
fn length_line(graph: &FinalizedGraph, name: &str, id: TensorId, most: Number) -> String {
    let stride = stride(graph, id, 0);
    let pointer = names::pointer(graph, id);
    format!("const int {name} = min(max({pointer}[b * {stride}ull], 0), {most});")
}

/// The rows of a tensor that exist: those of a ragged one within the sequence alone.
fn existing_rows(graph: &FinalizedGraph, id: TensorId, all: i64) -> String {
    if is_ragged(graph, id) { "rows".to_owned() } else { count(graph, "rows", all).to_string() }
}

/// Where the element of a tensor for a score of batch, head, query and key lies; of extents of 1 there is one for all.
fn spread_offset(graph: &FinalizedGraph, id: TensorId, at: &[String; 4]) -> String {
    let tensor = graph.tensor(id);
    let spread = (0..tensor.dim.len()).filter(|&axis| tensor.dim[axis] > 1);
    let terms: Vec<String> = spread.map(|axis| format!("({}) * {}ull", at[axis], stride(graph, id, axis))).collect();
    if terms.is_empty() { "0".to_owned() } else { terms.join(" + ") }
}

/// A tensor of one element.
fn number(graph: &FinalizedGraph, used: &mut Used, id: TensorId) -> String {
    let tensor = graph.tensor(id);
    if tensor.is_pass_by_value {
        return graph.canonical_name(id);
    }
    used.add(names::storage_section(tensor.data_type));
    format!("fw_value({}[0])", names::pointer(graph, id))
}

/// What is added to a row for an edge of its band: a number, and one that is known when the kernel is launched.
fn edge_text(graph: &FinalizedGraph, edge: BandEdge, keys: i64, sign: &str) -> String {
    // bounds beyond this reach beyond all rows
    const FAR: i64 = 1 << 29;
    let known = match keys.clamp(-FAR, FAR) {
        0 => String::new(),
        keys => format!(" + {keys}"),
    };
    let more = edge.more.map(|id| format!(" {sign} min(max(int({}), {}), {FAR})", graph.canonical_name(id), -FAR));
    known + &more.unwrap_or_default()
}
