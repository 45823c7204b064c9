//! Boxes by which the tensor memory accelerator brings and takes the tensors of an epilogue.

use super::TensorMap;

/// What boxes start at a multiple of, in bytes: eight lines of 128.
pub(super) const SWIZZLE_PERIOD: u32 = 1024;

/// Boxes of a warp's part of C by which the tensor memory accelerator brings and takes the epilogue's tensors. Each holds 16
/// rows, or the one row of a tensor that has but one; a warp evaluates its accumulators where they are, in registers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Boxes {
    /// Columns of a box: at most one swizzled row of each tensor.
    pub columns: u32,
    /// Tensors read. They come while the products, or the boxes before, are computed.
    pub read: Vec<TensorMap>,
    /// Tensors stored. They leave while the next boxes are computed.
    pub stored: Vec<TensorMap>,
}

/// Where a box lies in shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BoxPlace {
    /// Bytes from the start of its set.
    pub at: u32,
    /// Whether it is a single row. These have sets of their own, behind those of all warps.
    pub is_row: bool,
}

impl Boxes {
    /// Sets of boxes of a warp, used in turns.
    pub const SETS: u32 = 2;

    /// Rows of a box: those of a warp's fragments.
    pub const ROWS: u32 = 16;

    /// Whether a map's boxes are single rows.
    pub fn is_row(map: &TensorMap) -> bool {
        map.box_dims[1] == 1
    }

    /// Bytes of a warp's boxes.
    pub fn warp_bytes(&self) -> u32 {
        Self::SETS * (self.set_bytes() + self.row_set_bytes())
    }

    /// Bytes from one set of a warp to the next: a multiple of the period of every swizzle.
    pub fn set_bytes(&self) -> u32 {
        self.bytes_of(false).next_multiple_of(SWIZZLE_PERIOD)
    }

    /// The same of the sets of single rows.
    pub fn row_set_bytes(&self) -> u32 {
        self.bytes_of(true)
    }

    /// Bytes that come with one set.
    pub fn read_bytes(&self) -> u32 {
        self.read.iter().map(|map| map.box_dims[0] * map.box_dims[1] * map.element.bytes()).sum()
    }

    fn all(&self) -> impl Iterator<Item = &TensorMap> {
        self.read.iter().chain(&self.stored)
    }

    fn bytes_of(&self, rows: bool) -> u32 {
        self.all().filter(|map| Self::is_row(map) == rows).map(Self::box_bytes).sum()
    }

    /// Bytes of a box with what its alignment takes.
    fn box_bytes(map: &TensorMap) -> u32 {
        const ALIGNMENT: u32 = 128;
        (map.box_dims[0] * map.box_dims[1] * map.element.bytes()).next_multiple_of(ALIGNMENT)
    }

    /// Where boxes lie, those read before those stored. The widest come first, so that each begins at a multiple of eight
    /// of its rows, the period of its swizzle.
    pub fn places(&self) -> Vec<BoxPlace> {
        let boxes: Vec<(bool, u32)> = self.all().map(|map| (Self::is_row(map), Self::box_bytes(map))).collect();
        let place = |number: usize| {
            let (is_row, bytes) = boxes[number];
            let is_before = |other: &usize| {
                let (other_is_row, other_bytes) = boxes[*other];
                other_is_row == is_row && (bytes, *other) < (other_bytes, number)
            };
            BoxPlace { at: (0..boxes.len()).filter(is_before).map(|other| boxes[other].1).sum(), is_row }
        };
        (0..boxes.len()).map(place).collect()
    }
}
