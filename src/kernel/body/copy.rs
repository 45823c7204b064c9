//! Copies of tensors to other layouts.

use super::tile::Tile;
use crate::graph::TensorId;
use crate::kernel::{Coordinate, Digit};

/// Moves a tensor's elements to another layout, bit by bit: values, infinities and NaNs among them, stay what they are. A thread gathers
/// 16 bytes along the axis that is contiguous in the copy, and stores them at once; those beyond the axis are zeros.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyKernel {
    /// What is copied.
    pub source: TensorId,
    /// Where to.
    pub copy: TensorId,
    /// Bytes of a unit: an element, or up to 8 bytes of them that lie together in both layouts.
    pub unit_bytes: u32,
    /// The axes, counted in units, in the order in which threads count them, innermost last.
    pub axes: Vec<CopyAxis>,
    /// Which of these is contiguous in the copy.
    pub gathered: usize,
    /// Vectors along it that neighbouring threads have: sectors of L2 are written as a whole.
    pub neighbours: i64,
    /// Threads of a block.
    pub threads: u32,
    /// Whether offsets need 64 bits.
    pub wide_index: bool,
}

/// An axis of a copy, in units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyAxis {
    /// Number of units.
    pub extent: i64,
    /// From one to the next in the source.
    pub from: i64,
    /// The same in the copy.
    pub to: i64,
}

/// Bytes that a thread stores at once.
const STORED: i64 = 16;

/// Groups of so many that hold all.
fn groups(all: i64, each: i64) -> i64 {
    (all + each - 1) / each
}

impl CopyKernel {
    /// Units that a thread gathers.
    pub fn vector(&self) -> i64 {
        STORED / i64::from(self.unit_bytes)
    }

    /// Coordinates along an axis that threads step by: groups of neighbouring vectors along the gathered one.
    pub fn count(&self, axis: usize) -> i64 {
        let extent = self.axes[axis].extent;
        if axis == self.gathered { groups(extent, self.vector() * self.neighbours) } else { extent }
    }

    /// Threads that have a vector.
    pub fn vectors(&self) -> i64 {
        (0..self.axes.len()).map(|axis| self.count(axis)).product::<i64>() * self.neighbours
    }
}

/// Moves a tensor's elements to a layout that is contiguous along another axis, bit by bit. A block reads a tile along the axis that is contiguous in the
/// source, to shared memory, and stores 16 bytes at once along the other; those beyond the axis are zeros.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransposedCopyKernel {
    /// What is copied.
    pub source: TensorId,
    /// Where to.
    pub copy: TensorId,
    /// Bytes of an element.
    pub element_bytes: u32,
    /// The axes, in elements, in the order in which blocks count them.
    pub axes: Vec<CopyAxis>,
    /// The tile of a block: along the axis that is contiguous in the copy, and along that of the source.
    pub tile: Tile,
    /// Elements of a row of the copy that are stored, zeros beyond the axis among them.
    pub stored: i64,
    /// Elements that are read at once.
    pub read: i64,
    /// Whether offsets need 64 bits.
    pub wide_index: bool,
}

impl TransposedCopyKernel {
    /// Elements that a thread stores at once.
    pub fn vector(&self) -> i64 {
        STORED / i64::from(self.element_bytes)
    }

    /// Points that are stored along an axis.
    pub fn stored_along(&self, axis: usize) -> i64 {
        if axis == self.tile.axes[0] { self.stored } else { self.axes[axis].extent }
    }

    /// All blocks.
    pub fn blocks(&self) -> i64 {
        (0..self.axes.len()).map(|axis| self.tile.count(axis, self.stored_along(axis).into()).value()).product()
    }

    /// Bytes of shared memory.
    pub fn shared_bytes(&self) -> i64 {
        self.tile.bytes(self.element_bytes.into())
    }
}

/// Moves an operand of a convolution to the matrix that it is multiplied as, bit by bit: a row for each value of m or n, contiguous along
/// k. What lies in the padding is zero. A thread gathers 16 bytes along k, and stores them at once; those beyond k are zeros.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnfoldKernel {
    /// What is unfolded.
    pub source: TensorId,
    /// Where to.
    pub copy: TensorId,
    /// Bytes of an element.
    pub element_bytes: u32,
    /// The digits of m or n, outermost first.
    pub rows: Vec<Digit>,
    /// Those of k, which may be padded: with zeros.
    pub k: Vec<Digit>,
    /// What tells the element of the source, by its axes.
    pub axes: Vec<UnfoldedAxis>,
    /// Elements from one row of the copy to the next.
    pub pitch: i64,
    /// Vectors of a row that neighbouring threads have.
    pub neighbours: i64,
    /// Threads of a block.
    pub threads: u32,
    /// Whether offsets need 64 bits.
    pub wide_index: bool,
}

/// An axis of what is unfolded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnfoldedAxis {
    /// The coordinate as a function of the digits.
    pub coordinate: Coordinate,
    /// Elements from one coordinate to the next.
    pub stride: i64,
}

impl UnfoldKernel {
    /// Elements that a thread gathers.
    pub fn vector(&self) -> i64 {
        STORED / i64::from(self.element_bytes)
    }

    /// Elements of a row, those that pad it included.
    pub fn depth(&self) -> i64 {
        self.k.iter().map(|digit| digit.radix.value()).product()
    }

    /// Groups of neighbouring vectors of a row.
    pub fn row_groups(&self) -> i64 {
        groups(self.depth(), self.vector() * self.neighbours)
    }

    /// Threads that have a vector.
    pub fn vectors(&self) -> i64 {
        self.rows.iter().map(|digit| digit.extent.value()).product::<i64>() * self.row_groups() * self.neighbours
    }

    /// Elements between neighbours of a digit in the source.
    pub fn step(&self, digit: &Digit) -> i64 {
        let scale = |axis: &UnfoldedAxis| {
            let terms = axis.coordinate.terms.iter().filter(|term| term.0 == digit.quantity);
            terms.map(|term| term.1.abs()).sum::<i64>() * axis.stride
        };
        self.axes.iter().map(scale).sum()
    }
}
