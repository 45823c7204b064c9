//! Copies of tensors to other layouts.

use crate::graph::TensorId;

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

impl CopyKernel {
    /// Bytes that a thread stores at once.
    const STORED: i64 = 16;

    /// Units that a thread gathers.
    pub fn vector(&self) -> i64 {
        Self::STORED / i64::from(self.unit_bytes)
    }

    /// Coordinates along an axis, of which threads have one each: vectors along the gathered one.
    pub fn count(&self, axis: usize) -> i64 {
        let extent = self.axes[axis].extent;
        let vector = self.vector();
        if axis == self.gathered { (extent + vector - 1) / vector } else { extent }
    }

    /// Threads that have a vector.
    pub fn vectors(&self) -> i64 {
        (0..self.axes.len()).map(|axis| self.count(axis)).product()
    }
}
