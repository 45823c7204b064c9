//! Records of rows of heads on their way to shared memory, whatever their layout.

use serde::Serialize;

use crate::codegen::names;
use crate::codegen::sections::Used;
use crate::codegen::template::{self, template};
use crate::error::Error;
use crate::graph::FinalizedGraph;
use crate::kernel::{HeadRows, MmaType, head_row_pitch};

/// The type with functions of what is multiplied.
pub(super) fn fragments(used: &mut Used, operand: MmaType) -> &'static str {
    let section = match operand {
        MmaType::F16 => "fw_of_f16",
        MmaType::Tf32 => "fw_of_tf32",
        _ => "fw_of_bf16",
    };
    used.add(section);
    section
}

/// A lambda that brings rows from row `first` on.
pub(super) struct RowLoad {
    pub(super) name: &'static str,
    pub(super) rows: HeadRows,
    /// Where row `first + row` lies.
    pub(super) offset: String,
    /// Rows of the tile.
    pub(super) count: u32,
    /// The variable with the number of rows that exist.
    pub(super) length: &'static str,
    /// Where the tile lies.
    pub(super) at: String,
    /// Elements of a row.
    pub(super) head: i64,
    pub(super) threads: u32,
}

/// What `attention/load_rows.cuh` reads.
#[derive(Serialize)]
struct LoadText {
    name: &'static str,
    rows: u32,
    width: i64,
    element_bytes: u32,
    pitch: u32,
    piece: Option<u32>,
    threads: u32,
    at: String,
    length: &'static str,
    pointer: String,
    offset: String,
    storage: &'static str,
    /// Whether elements of a row are nearer to each other than rows are.
    along_rows: bool,
    step: i64,
}

impl RowLoad {
    /// The lambda.
    pub(super) fn text(&self, graph: &FinalizedGraph, used: &mut Used, operand: MmaType) -> Result<String, Error> {
        let HeadRows { tensor: id, axes: [size, row], piece } = self.rows;
        let tensor = graph.tensor(id);
        used.add(if piece.is_some() { "fw_copy_rows" } else { "fw_gather_rows" });
        used.add(names::storage_section(tensor.data_type));
        let record = LoadText {
            name: self.name,
            rows: self.count,
            width: self.head,
            element_bytes: operand.bytes(),
            pitch: head_row_pitch(self.head, operand),
            piece,
            threads: self.threads,
            at: self.at.clone(),
            length: self.length,
            pointer: names::pointer(graph, id),
            offset: self.offset.clone(),
            storage: names::storage_type(tensor.data_type),
            along_rows: tensor.stride[size] <= tensor.stride[row],
            step: tensor.stride[size],
        };
        template::render(template!("attention/load_rows.cuh"), &record)
    }
}
