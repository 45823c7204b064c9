//! Boxes by which the tensor memory accelerator brings and takes the tensors of an epilogue.

use super::TensorMap;

/// What boxes start at a multiple of, in bytes: eight lines of 128.
pub(super) const SWIZZLE_PERIOD: u32 = 1024;

/// Boxes of a warp's part of C by which the tensor memory accelerator brings and takes the epilogue's tensors. Each holds 16
/// rows; a warp evaluates its accumulators where they are, in registers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Boxes {
    /// Columns of a box: at most one swizzled row of each tensor.
    pub columns: u32,
    /// Tensors read. They come while the products, or the boxes before, are computed.
    pub read: Vec<TensorMap>,
    /// Tensors stored. They leave while the next boxes are computed.
    pub stored: Vec<TensorMap>,
    /// Where C's rows are pixels of lines with positions behind them: positions from one line to the next. Boxes that are read walk from
    /// position to position, and from line to line; the lanes of a warp store pixels from the boxes.
    pub line: Option<i64>,
}

impl Boxes {
    /// Sets of boxes of a warp, used in turns.
    pub const SETS: u32 = 2;

    /// Rows of a box: those of a warp's fragments.
    pub const ROWS: u32 = 16;

    /// Bytes of a warp's boxes.
    pub fn warp_bytes(&self) -> u32 {
        Self::SETS * self.set_bytes()
    }

    /// Bytes from one set of a warp to the next: a multiple of the period of every swizzle.
    pub fn set_bytes(&self) -> u32 {
        self.all().map(Self::box_bytes).sum::<u32>().next_multiple_of(SWIZZLE_PERIOD)
    }

    /// Bytes that come with one set.
    pub fn read_bytes(&self) -> u32 {
        self.read.iter().map(|map| map.box_dims[0] * map.box_dims[1] * map.element.bytes()).sum()
    }

    /// Tensors that the tensor memory accelerator takes from their boxes.
    pub fn stored_by_tma(&self) -> &[TensorMap] {
        if self.line.is_some() { &[] } else { &self.stored }
    }

    fn all(&self) -> impl Iterator<Item = &TensorMap> {
        self.read.iter().chain(&self.stored)
    }

    /// Bytes of a box with what its alignment takes.
    fn box_bytes(map: &TensorMap) -> u32 {
        const ALIGNMENT: u32 = 128;
        (map.box_dims[0] * map.box_dims[1] * map.element.bytes()).next_multiple_of(ALIGNMENT)
    }

    /// Where boxes lie, in bytes from the start of their set, those read before those stored. The widest come first, so that each
    /// begins at a multiple of eight of its rows, the period of its swizzle.
    pub fn places(&self) -> Vec<u32> {
        let boxes: Vec<u32> = self.all().map(Self::box_bytes).collect();
        let place = |number: usize| {
            let is_before = |other: &usize| (boxes[number], *other) < (boxes[*other], number);
            (0..boxes.len()).filter(is_before).map(|other| boxes[other]).sum()
        };
        (0..boxes.len()).map(place).collect()
    }
}
