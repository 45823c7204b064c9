//! Records of attention in FP8: values with keys side by side, sums of steps that are added up in FP32, scaled results.

use serde::Serialize;

use super::output::RowStore;
use super::scores::ScoreRows;
use super::sequences::{batch_offset, offset_lines};
use super::{length_line, number, pack_function};
use crate::codegen::names;
use crate::codegen::sections::Used;
use crate::codegen::template::{self, template};
use crate::error::Error;
use crate::graph::{DataType, FinalizedGraph, TensorId};
use crate::kernel::{AttentionProblem, MmaType, RowStores, TurnedValuesKernel, ValueScaling, WARPGROUP, value_columns};

/// What a score may exceed its row's reference by in FP8, as a power of two, and what the exponential of a reference is: E4M3 holds 2⁸, and what is
/// below 2⁻¹⁶ of the reference's becomes 0 (AT-O19).
pub(super) const ROOM: f32 = 2.0;
pub(super) const TOP: f32 = 8.0 - ROOM;

/// Type of an operand in the shape of an instruction.
pub(super) fn type_name(data_type: DataType) -> &'static str {
    if data_type == DataType::Fp8E4M3 { "e4m3" } else { "e5m2" }
}

/// What `attention/turned_values.cu` reads beside the function's name and parameters.
#[derive(Serialize)]
pub(in crate::codegen) struct TurnedText {
    threads: u32,
    keys_of_block: i64,
    blocks_of_head: i64,
    heads: i64,
    elements: i64,
    pitch: i64,
    row: i64,
    /// Vectors of a row of elements, or 0.
    vectors: i64,
    /// Groups of 16 keys of a block.
    groups: i64,
    along_keys: bool,
    /// The lines that say where sequences lie, and how long they are.
    sequences: Vec<String>,
    length: String,
    storage: &'static str,
    pointer: String,
    /// Where the page of row `key` begins, in elements of the table's number.
    page: Option<String>,
    offset: String,
    element_step: i64,
    cleared: Vec<String>,
}

pub(in crate::codegen) fn turned_values(
    graph: &FinalizedGraph,
    used: &mut Used,
    kernel: &TurnedValuesKernel,
) -> TurnedText {
    ["fw_vector", "FW_SHARED"].into_iter().for_each(|section| used.add(section));
    let (extents, tensor) = (kernel.extents, graph.tensor(kernel.values));
    let [keys, elements] = kernel.axes;
    let stride = &tensor.stride;
    let heads = extents.key_heads[1];
    let page = kernel.pages.map(|pages| {
        let step = graph.tensor(pages.table).stride[2];
        let (table, batch) = (names::pointer(graph, pages.table), batch_offset(graph, pages.table));
        format!("{table}[{batch} + key / {} * {step}ull]", pages.rows)
    });
    let offset = match kernel.pages {
        Some(pages) => {
            format!("page * {}ull + h * {}ull + key % {} * {}ull", stride[0], stride[1], pages.rows, stride[keys])
        }
        None => format!("{} + h * {}ull + key * {}ull", batch_offset(graph, kernel.values), stride[1], stride[keys]),
    };
    let length = match kernel.lengths {
        Some(id) => length_line(graph, "keys", id, extents.keys.into()),
        None => format!("constexpr int keys = {};", extents.keys),
    };
    let ragged = [kernel.values].into_iter().chain(kernel.pages.map(|pages| pages.table));
    TurnedText {
        threads: TurnedValuesKernel::THREADS,
        keys_of_block: TurnedValuesKernel::KEYS,
        blocks_of_head: TurnedValuesKernel::row(extents.keys) / TurnedValuesKernel::KEYS,
        heads,
        elements: extents.head[1],
        pitch: kernel.pitch(),
        row: TurnedValuesKernel::row(extents.keys),
        vectors: if kernel.has_vectors { extents.head[1] / 16 } else { 0 },
        groups: TurnedValuesKernel::KEYS / 16,
        along_keys: stride[keys] == 1,
        sequences: offset_lines(graph, ragged),
        length,
        storage: names::storage_type(tensor.data_type),
        pointer: names::pointer(graph, kernel.values),
        page,
        offset,
        element_step: stride[elements],
        cleared: kernel.cleared.iter().map(|&id| names::pointer(graph, id)).collect(),
    }
}

/// What O is multiplied by, of a whole launch: `of_output`, and behind the value whose largest magnitude is kept `of_stored`.
pub(super) fn factor_lines(graph: &FinalizedGraph, used: &mut Used, scaling: &ValueScaling) -> Vec<String> {
    let mut product = |name: &str, ids: &[TensorId]| {
        let texts: Vec<String> = ids.iter().map(|&id| number(graph, used, id)).collect();
        let text = if texts.is_empty() { "1.0f".to_owned() } else { texts.join(" * ") };
        format!("const float {name} = {text};")
    };
    let mut lines = vec![product("of_output", &scaling.factors), product("of_stored", &scaling.last_factors)];
    lines.extend(
        LARGEST
            .iter()
            .zip(scaling.largest)
            .filter(|row| row.1.is_some())
            .map(|(name, _)| format!("float {name} = 0.0f;")),
    );
    lines
}

/// Variables with largest magnitudes, of probabilities and of O.
const LARGEST: [&str; 2] = ["largest_p", "largest_o"];

/// The lines that put the largest magnitudes of a warp to memory.
pub(super) fn keep_lines(graph: &FinalizedGraph, used: &mut Used, scaling: &ValueScaling) -> Vec<String> {
    let kept = LARGEST.iter().zip(scaling.largest).filter_map(|(name, id)| Some((name, id?)));
    let line = |(name, id): (&&str, TensorId)| {
        used.add("fw_keep_largest");
        format!("fw_keep_largest({}, {name}, lane);", names::pointer(graph, id))
    };
    kept.map(line).collect()
}

/// The lines that make a row's largest probability known.
pub(super) fn largest_lines(problem: &AttentionProblem, is_known: bool) -> Option<String> {
    problem.scaling.largest[0]?;
    let top = if is_known { "greatest" } else { "fw_quad_largest(seen[e])" };
    let above = if problem.scores.may_be_vast() { "fw_is_vast(m[e], c) ? 0.0f : " } else { "" };
    let value = format!("total == 0.0f ? 0.0f : fw_fast_exp2(fmaf({above}highest, c, -reference[e])) / total");
    Some(
        [
            format!("const float highest = {top}, probability = {value};"),
            format!("if (row + 8 * e < {}) largest_p = fw_max_nan(largest_p, probability);", problem.extents.rows()),
        ]
        .join("\n"),
    )
}

/// How rows are scaled that a store has.
#[derive(Clone, Copy)]
pub(super) struct Scaled {
    /// The variable with their largest magnitude.
    pub(super) largest: Option<&'static str>,
    /// Whether sums of earlier steps are in shared memory.
    pub(super) adds_sums: bool,
}

impl Scaled {
    /// That of O.
    pub(super) fn of_forward(scaling: &ValueScaling) -> Self {
        Self { largest: scaling.largest[1].map(|_| LARGEST[1]), adds_sums: true }
    }
}

/// What `attention/output_fp8.cuh` reads.
#[derive(Serialize)]
struct OutputText {
    rows: String,
    columns: i64,
    largest: Option<&'static str>,
    adds_sums: bool,
    pointer: String,
    offset: String,
    step: i64,
    /// An element of another type than FP8.
    value: String,
    groups: Vec<GroupText>,
    /// What makes words of elements that are stored 16 at a time.
    pack: Option<String>,
}

/// 64 columns of O: the first accumulator of a thread and the first vector of its sums, and how many values it has of them.
#[derive(Serialize)]
struct GroupText {
    column: u32,
    register: u32,
    vector: u32,
    values: u32,
    /// Pairs of fragments of eight columns.
    pairs: u32,
}

impl RowStore {
    /// The lines that store rows of O from the sums `o`, scaled.
    pub(super) fn scaled_text(
        &self,
        graph: &FinalizedGraph,
        used: &mut Used,
        Scaled { largest, adds_sums }: Scaled,
    ) -> Result<String, Error> {
        let tensor = graph.tensor(self.tensor);
        let fragments = value_columns(self.head) / 8;
        let are_bytes = self.stores == RowStores::Bytes;
        if are_bytes {
            ["fw_quad_transpose", "fw_vector", "fw_fp8x4"].into_iter().for_each(|section| used.add(section));
        }
        used.add(names::storage_section(tensor.data_type));
        if largest.is_some() {
            used.add("fw_max_nan");
        }
        let group = |fragment: u32| {
            let count = (fragments - fragment).min(8);
            GroupText {
                column: 8 * fragment,
                register: self.first + 4 * fragment,
                vector: fragment * WARPGROUP,
                values: 4 * count,
                pairs: count / 2,
            }
        };
        let record = OutputText {
            rows: self.rows.clone(),
            columns: self.head,
            largest,
            adds_sums,
            pointer: names::pointer(graph, self.tensor),
            offset: self.row_offset.clone(),
            step: tensor.stride[3],
            value: match tensor.data_type {
                DataType::Float => "y[i]".to_owned(),
                other => names::to_storage(other, "y[i]"),
            },
            groups: (0..fragments).step_by(8).map(group).collect(),
            pack: are_bytes.then(|| format!("fw_pack_{}x4", type_name(tensor.data_type))),
        };
        template::render(template!("attention/output_fp8.cuh"), &record)
    }
}

impl ScoreRows<'_, '_> {
    /// Whether products are of FP8.
    pub(super) fn is_fp8(&self) -> bool {
        self.problem.operand == MmaType::Fp8
    }

    /// The lines that make the words of a step's probabilities.
    pub(super) fn weights(&mut self) -> Result<String, Error> {
        let packed = self.keys * self.problem.operand.bytes() / 8;
        if !self.is_fp8() {
            let pack = pack_function(self.problem.operand);
            return Ok(format!(
                "#pragma unroll\nfor (int i = 0; i < {packed}; ++i) p[i] = {pack}(x[2 * i], x[2 * i + 1]);"
            ));
        }
        self.used.add("fw_fp8x4");
        let of = type_name(self.problem.probabilities);
        let at = "8 * (i / 2) + 2 * (i % 2)";
        let word = format!("fw_pack_{of}x4(x[{at}], x[{at} + 1], x[{at} + 4], x[{at} + 5])");
        template::render(template!("attention/weights.cuh"), &WeightsText { packed, word })
    }
}

/// What `attention/weights.cuh` reads.
#[derive(Serialize)]
struct WeightsText {
    /// Words of a step, four of each 32 keys.
    packed: u32,
    /// Word number `i`.
    word: String,
}
