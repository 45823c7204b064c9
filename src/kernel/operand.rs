//! Operands of a matrix product: how their elements come to shared memory, or to registers.

use super::boxes::SWIZZLE_PERIOD;
use super::{Coordinate, StepTail, Sweep, TensorMap};
use crate::graph::TensorId;

/// How the elements of an operand come to shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fetch {
    /// The tensor memory accelerator, a box at a time, by this map: `[k, m or n, batch]` or `[m or n, k, batch]`, without
    /// the batch where the operand has none.
    Tma(TensorMap),
    /// As `Tma`, but what comes is the tensor that the mainloop stage starts from: the stage is evaluated from shared
    /// memory to shared memory, `sweep.vector` elements at a time.
    Transformed(TensorMap),
    /// Rows of `Transformed` along k of which the multiplying warps evaluate the stage themselves, in pairs along k, to the
    /// fragments of A in their registers.
    Fragments(TensorMap),
    /// As `Tma`, but boxes run along m or n and the tile along k: elements of 8 or 32 bits are turned from shared memory to
    /// shared memory.
    Turned(TensorMap),
    /// `cp.async` of `sweep.vector` elements at a time: nothing is computed on the way.
    Async,
    /// Vectors through registers, where the mainloop stage is evaluated.
    Vector,
    /// Element by element through registers: any layout, any alignment.
    Element,
}

impl Fetch {
    /// Whether rows of boxes run along k, of a tile that does or does not; else along m or n.
    pub fn boxes_along_k(&self, along_k: bool) -> bool {
        along_k && !matches!(self, Self::Turned(_))
    }

    /// Elements of k that boxes bring of the last step along k, or under a tap. Where every step is one, and rows along k end within it, boxes end there: rows
    /// that lie in a tensor in part take longer (128 rows of a walk with 24 of 32 elements of HALF inside on an H100: 650 clocks, of 24 500; with 8
    /// of 16 390, of 8 240). What is multiplied behind these are zeros, with which the block begins.
    pub fn boxed_of(&self, along_k: bool, tail: StepTail) -> u32 {
        match self {
            Self::Tma(map) if along_k && !tail.differs() => map.whole_units().min(tail.elements),
            _ => tail.elements,
        }
    }

    /// The map of what comes in boxes.
    pub fn map(&self) -> Option<TensorMap> {
        match *self {
            Self::Tma(map) | Self::Transformed(map) | Self::Fragments(map) | Self::Turned(map) => Some(map),
            _ => None,
        }
    }

    /// Bytes of a stage in which boxes wait for their transformation, beside the tile: none where it is done in place.
    pub fn raw_bytes(&self, along_k: bool, rows: u32, element_bytes: u32) -> u32 {
        let map = match self {
            Self::Transformed(map) if map.element.bytes() != element_bytes => map,
            Self::Turned(map) => map,
            _ => return 0,
        };
        let lines = if self.boxes_along_k(along_k) { rows } else { rows / map.box_dims[0] * map.box_dims[1] };
        (lines * map.box_dims[0] * map.element.bytes()).next_multiple_of(SWIZZLE_PERIOD)
    }
}

/// One operand with its mainloop fusion.
#[derive(Clone, Debug)]
pub struct Operand {
    /// The operand tensor.
    pub tensor: TensorId,
    /// The mainloop stage at points of the operand tensor; axis `i` of its space has the coordinate `coordinates[i]`.
    pub sweep: Sweep,
    /// Coordinates of the sweep's axes.
    pub coordinates: Vec<Coordinate>,
    /// How elements are fetched.
    pub fetch: Fetch,
    /// Whether neighbouring threads, and vectors, step along k; else along m or n. What is turned arrives along k.
    pub along_k: bool,
    /// Where boxes begin, if it comes in boxes.
    pub start: BoxStart,
    /// The map of what the last tile along m or n asks for, where boxes of others would reach beyond the tensor there.
    pub edge: Option<TensorMap>,
}

/// Where a box of an operand begins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BoxStart {
    /// By the dims of the map: functions of the digits at the tile's first row and the step's first k.
    pub coordinates: Vec<Coordinate>,
    /// Pixels by which a filter's tap moves the walk, innermost axis first; none for boxes that walk no pixels.
    pub taps: Vec<Coordinate>,
}

impl Operand {
    /// The tensor that comes in boxes.
    pub fn map(&self) -> Option<TensorMap> {
        self.fetch.map()
    }

    /// The operand whose boxes along k have all rows of a tile, also those beyond the tensor, so that blocks can share them out.
    pub fn in_whole_tiles(mut self, rows: u32) -> Self {
        if let Fetch::Tma(map) = self.fetch
            && self.along_k
        {
            self.fetch = Fetch::Tma(map.narrowed(1, rows));
        }
        self
    }

    /// The map by which each of so many blocks asks for a part of what all receive: as many lines of a box.
    pub fn part_of_map(&self, sharers: u32) -> Option<TensorMap> {
        self.map().map(|map| map.narrowed(1, map.box_dims[1] / sharers))
    }

    /// Tensors read through pointers.
    pub(super) fn loads(&self) -> impl Iterator<Item = TensorId> {
        let boxed = self.map().map(|map| map.tensor);
        self.sweep.program.reads().filter(move |&id| Some(id) != boxed)
    }

    /// Whether rows of boxes run along k; else along m or n.
    pub fn boxes_along_k(&self) -> bool {
        self.fetch.boxes_along_k(self.along_k)
    }

    /// The axis of boxes that runs along k.
    pub fn axis_of_k(&self) -> usize {
        usize::from(!self.boxes_along_k())
    }

    /// Elements of k that boxes bring of the last step ([`Fetch::boxed_of`]).
    pub fn boxed_of(&self, tail: StepTail) -> u32 {
        self.fetch.boxed_of(self.along_k, tail)
    }

    /// Bytes of a stage in which boxes wait for their transformation, beside the tile of so many rows.
    pub fn raw_bytes(&self, rows: u32, element_bytes: u32) -> u32 {
        self.fetch.raw_bytes(self.along_k, rows, element_bytes)
    }
}
