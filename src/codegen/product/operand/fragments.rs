//! Spells how multiplying warps compute the fragments of A.

use serde::Serialize;

use super::{Side, value};
use crate::codegen::index::index_type;
use crate::codegen::names;
use crate::codegen::sections::Used;
use crate::codegen::template::{self, template};
use crate::error::Error;
use crate::kernel::TensorMap;

/// What `product/operand/fragments.cuh` reads.
#[derive(Serialize)]
struct FragmentsText {
    index: &'static str,
    /// First row of the warpgroup's part of a tile, where two share it.
    consumer_row: Option<String>,
    raw_type: &'static str,
    /// Byte of a pair in the box.
    place: String,
    /// k of a pair: as a whole, or the step's first and the column in it.
    k: &'static str,
    /// Bytes of a row of the box.
    raw_row: u32,
}

/// The functions by which multiplying warps compute A's fragments, `fill_a(fragment, raw, k0, block, part)`; `consumer_row` is
/// the first row of the warpgroup's part of a tile, where two share it.
///
/// # Errors
/// [`Error::Generated`] if a template fails: a defect of ours.
pub(in crate::codegen::product) fn fragments(
    used: &mut Used,
    side: Side<'_>,
    map: &TensorMap,
    consumer_row: Option<String>,
) -> Result<String, Error> {
    used.add("fw_boxed");
    used.add("fw_as_word");
    let stored = side.graph.tensor(map.tensor).data_type;
    used.add(names::storage_section(stored));
    let bytes = map.element.bytes();
    let raw_row = bytes * side.kernel.tile.k;
    let record = FragmentsText {
        index: index_type(side.kernel.wide_index),
        consumer_row,
        raw_type: names::storage_type(stored),
        place: match bytes {
            1 => format!("fw_boxed<{raw_row}>(row, column) + right"),
            _ => format!("fw_boxed<{raw_row}>(row, (column + right) * {bytes})"),
        },
        k: if side.takes_column() { "k0, column + right" } else { "k0 + column + right" },
        raw_row,
    };
    let call = value::value(used, side)?;
    Ok(call.function + "\n" + &template::render(template!("product/operand/fragments.cuh"), &record)?)
}
