//! How an operand's tile lies in shared memory, and how threads share it.

use super::Side;
use crate::codegen::index::spell;
use crate::codegen::product::unit::{STEP_ORIGIN, TILE_ORIGIN};
use crate::codegen::sections::Used;
use crate::kernel::{Fetch, Index, Multiply, row_along_outer};

/// A tile of an operand.
#[derive(Clone, Copy)]
pub(in crate::codegen::product) struct Tile {
    slot: usize,
    /// Whether rows of the tile run along k.
    pub(in crate::codegen::product) k_major: bool,
    /// Elements of a row of the tile, and rows.
    pub(super) row_elements: u32,
    rows: u32,
    pub(super) element_bytes: u32,
    pub(super) vector: u32,
    threads: u32,
    along_k: bool,
    tile_k: u32,
    block: u32,
    /// Whether rows longer than a line are cut into columns of lines.
    in_columns: bool,
}

impl Tile {
    pub(in crate::codegen::product) fn of(side: Side<'_>) -> Self {
        let (kernel, operand) = (side.kernel, side.operand());
        let (tile_k, block) = (kernel.tile.k, side.block());
        let k_major = operand.along_k || operand.fetch == Fetch::Element;
        let (row_elements, rows) = if k_major { (tile_k, block) } else { (block, tile_k) };
        Self {
            slot: side.slot,
            k_major,
            row_elements,
            rows,
            element_bytes: kernel.multiply.element_bytes(),
            vector: operand.sweep.vector as u32,
            threads: kernel.multiply.loaders(kernel.tile),
            along_k: operand.along_k,
            tile_k,
            block,
            in_columns: matches!(kernel.multiply, Multiply::Wgmma(_)),
        }
    }

    /// The tile as it arrives in boxes, in lines of m or n, before it is turned.
    pub(super) fn before_turning(self) -> Self {
        Self { k_major: false, row_elements: self.block, rows: self.tile_k, ..self }
    }

    /// The tile of elements of other size.
    pub(super) fn of_elements(self, element_bytes: u32) -> Self {
        Self { element_bytes, ..self }
    }

    pub(in crate::codegen::product) fn row_bytes(&self) -> u32 {
        self.row_elements * self.element_bytes
    }

    pub(super) fn piece_bytes(&self) -> u32 {
        self.element_bytes * self.vector
    }

    pub(super) fn row_pieces(&self) -> u32 {
        self.row_elements / self.vector
    }

    pub(super) fn pieces(&self) -> u32 {
        self.row_pieces() * self.rows
    }

    /// Pieces of a thread, rounded up.
    pub(super) fn passes(&self) -> u32 {
        self.pieces().div_ceil(self.threads)
    }

    /// Whether some threads have a piece less than others.
    pub(super) fn has_rest(&self) -> bool {
        !self.pieces().is_multiple_of(self.threads)
    }

    /// Row and piece of the row from number `i` on.
    pub(super) fn row_and_piece(&self) -> [String; 2] {
        let i = || Index::local("i");
        let pieces = i64::from(self.row_pieces());
        [spell(&(i() / pieces)), spell(&(i() % pieces))]
    }

    /// Row and column of element `i`, in the order in which memory has the elements.
    pub(in crate::codegen::product) fn row_and_column(&self) -> [String; 2] {
        let i = || Index::local("i");
        let (block, tile_k) = (i64::from(self.block), i64::from(self.tile_k));
        let [row, column] = if self.along_k { [i() / tile_k, i() % tile_k] } else { [i() % block, i() / block] };
        [spell(&row), spell(&column)]
    }

    /// Index of m or n, and of k, of a piece or an element from the tile's first on.
    fn indices(&self) -> [Index; 2] {
        let row = Index::local("row");
        if self.vector == 1 {
            return [row, Index::local("column")];
        }
        let along = Index::local("piece") * i64::from(self.vector);
        if self.k_major { [row, along] } else { [along, row] }
    }

    /// Index of m or n, and of k, of a piece.
    pub(super) fn outer_and_k(&self) -> [String; 2] {
        let [outer, k] = self.indices();
        let from = |origin, at| spell(&(Index::local(origin) + at));
        [from(TILE_ORIGIN[self.slot], outer), from(STEP_ORIGIN, k)]
    }

    /// The operand's arguments for a piece: m and k, or k and n.
    pub(in crate::codegen::product) fn call(&self) -> String {
        let [outer, k] = self.outer_and_k();
        if self.slot == 0 { format!("{outer}, {k}") } else { format!("{k}, {outer}") }
    }

    /// Byte of a piece, or a column, of row `row` in the tile.
    pub(super) fn place(&self, used: &mut Used, piece: &'static str) -> String {
        self.place_of(used, self.piece_bytes(), piece)
    }

    pub(super) fn place_of(&self, used: &mut Used, piece_bytes: u32, piece: &'static str) -> String {
        let row_bytes = self.row_bytes();
        let line = row_along_outer(self.row_elements, self.element_bytes) * self.element_bytes;
        let piece = Index::local(piece);
        let bytes = i64::from(piece_bytes);
        if self.k_major || row_bytes <= line || !self.in_columns {
            return place_in_rows(used, row_bytes, &Index::local("row"), &(piece * bytes));
        }
        let per_line = i64::from(line / piece_bytes);
        let row = piece.clone() / per_line * i64::from(self.rows) + Index::local("row");
        place_in_rows(used, line, &row, &(piece % per_line * bytes))
    }
}

/// A byte of a row: rows of fewer than 32 bytes lie one after the other, others are swizzled.
fn place_in_rows(used: &mut Used, row_bytes: u32, row: &Index, byte: &Index) -> String {
    const SHORTEST_SWIZZLED: u32 = 32;
    if row_bytes < SHORTEST_SWIZZLED {
        return spell(&(row.clone() * i64::from(row_bytes) + byte.clone()));
    }
    used.add("fw_swizzled");
    format!("fw_swizzled<{row_bytes}>({}, {})", spell(row), spell(byte))
}
