//! Spells what boxes of rows need where these are pixels of lines with positions behind them: loads walk positions, and what is stored is
//! taken from the boxes by the lanes, pixels alone. A walk that is stored must not leave the tensor (an illegal instruction on an H200).

use serde::Serialize;

use super::pixel_bounds;
use crate::codegen::index::{index_type, spell};
use crate::codegen::names;
use crate::codegen::sections::Used;
use crate::codegen::template::{self, template};
use crate::error::Error;
use crate::graph::FinalizedGraph;
use crate::kernel::{Boxes, GemmKernel, Index, Number, TensorMap};

/// Bytes that a lane takes from a box at a time.
const ACCESS_BYTES: u32 = 16;

/// Lanes of a warp.
const LANES: u32 = 32;

/// What `product/epilogue/boxed_lines.cuh` reads: the store of one tensor.
#[derive(Serialize)]
struct StoreText {
    index: &'static str,
    positions: i64,
    /// Passes of the warp over a box, rows of a pass, and lanes beside each other in a row.
    passes: u32,
    rows: u32,
    lanes: u32,
    /// The condition that a lane's elements are some of the tensor's.
    exists: String,
    /// Where they lie in the tensor, in bytes, and in the box.
    to: String,
    from: String,
}

/// Lines of pixels.
pub(super) struct Lines<'a> {
    kernel: &'a GemmKernel,
    /// Positions from one line to the next, and pixels of one.
    positions: i64,
    pixels: i64,
}

impl<'a> Lines<'a> {
    /// Those of an epilogue's boxes, if there are any.
    pub(super) fn of(kernel: &'a GemmKernel, boxes: &Boxes) -> Option<Self> {
        let (positions, bound) = (boxes.line?, pixel_bounds(kernel).into_iter().next()?);
        Some(Self { kernel, positions, pixels: bound.extent.value() })
    }

    /// Rows of C, where tiles reach beyond them.
    fn ragged_rows(&self) -> Option<Number> {
        let [_, rows, ..] = self.kernel.space.numbers();
        (rows % i64::from(self.kernel.tile.m) != 0).then_some(rows)
    }

    /// The condition that a row of these is a pixel.
    pub(super) fn is_pixel(&self, row: Index) -> String {
        format!("{} < {}", spell(&(row % self.positions)), self.pixels)
    }

    /// Where boxes that begin with a row of C are read: the lines before it, and its position. A walk begins at a row that exists.
    pub(super) fn walk(&self, row: &str) -> String {
        let kind = index_type(self.kernel.wide_index);
        let row = self.ragged_rows().map_or(row.to_owned(), |rows| format!("min({row}, ({kind}){})", rows - 1));
        let box_m0 = || Index::local("box_m0");
        let [line, position] = [box_m0() / self.positions, box_m0() % self.positions].map(|index| spell(&index));
        format!("const {kind} box_m0 = {row};\nconst {kind} line0 = {line}, position0 = {position};")
    }

    /// The load of a box, whose destination, map and barrier are spelled.
    pub(super) fn load(&self, to: &str, map: &TensorMap) -> String {
        match map.rank {
            3 => format!("fw_tma_load_im2col({to}, position0, line0, 0);"),
            _ => format!("fw_tma_load_im2col({to}, position0, line0, b, 0, 0);"),
        }
    }

    /// The store of a tensor from its box, which lies `place` bytes behind the first.
    ///
    /// # Errors
    /// [`Error::Generated`] if the template fails: a defect of ours.
    pub(super) fn store(
        &self,
        used: &mut Used,
        graph: &FinalizedGraph,
        map: &TensorMap,
        place: u32,
    ) -> Result<String, Error> {
        used.add("fw_vector");
        used.add("fw_boxed");
        let bytes = map.element.bytes();
        let row_bytes = map.box_dims[0] * bytes;
        let lanes = row_bytes / ACCESS_BYTES;
        let rows = (LANES / lanes).min(Boxes::ROWS);
        let place = if place == 0 { String::new() } else { format!(" + {place}") };
        let record = StoreText {
            index: index_type(self.kernel.wide_index),
            positions: self.positions,
            passes: Boxes::ROWS / rows,
            rows,
            lanes,
            exists: self.exists(map, lanes),
            to: format!(
                "reinterpret_cast<unsigned char*>({}) + {}",
                names::pointer(graph, map.tensor),
                offset(map, self.kernel.wide_index)
            ),
            from: format!("box{place} + fw_boxed<{row_bytes}>(line, byte)"),
        };
        template::render(template!("product/epilogue/boxed_lines.cuh"), &record)
    }

    /// The condition that the elements of a lane, of so many beside each other in a row, are some of the tensor's.
    fn exists(&self, map: &TensorMap, lanes: u32) -> String {
        // rows so short that a pass has more than a box
        let is_in_box = (LANES / lanes > Boxes::ROWS).then(|| format!("line < {}", Boxes::ROWS));
        let is_pixel = format!("position < {}", self.pixels);
        let is_row = self.ragged_rows().map(|rows| format!("row < {rows}"));
        let [.., columns, _] = self.kernel.space.numbers();
        let is_ragged = columns % i64::from(self.kernel.tile.n) != 0;
        let bytes = map.element.bytes();
        let row_bytes = map.dims[0] * u64::from(bytes);
        let is_column = is_ragged.then(|| format!("chunk_n0 * {bytes} + byte < {row_bytes}"));
        let all = is_in_box.into_iter().chain([is_pixel]).chain(is_row).chain(is_column);
        all.collect::<Vec<_>>().join(" && ")
    }
}

/// Bytes before a lane's elements in their tensor.
fn offset(map: &TensorMap, is_wide: bool) -> String {
    let axes = ["position", "pixel_line", "b"].into_iter().zip(map.strides).take(map.rank - 1);
    let axes = axes.map(|(axis, stride)| Index::local(axis) * stride as i64);
    let columns = Index::local("chunk_n0") * i64::from(map.element.bytes());
    let cast = if is_wide { "" } else { "(unsigned long long)" };
    let outer: Vec<String> = axes.map(|term| format!("{cast}{}", spell(&term))).collect();
    format!("({} + {} + byte)", outer.join(" + "), spell(&columns))
}
