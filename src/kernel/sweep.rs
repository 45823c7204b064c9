//! How points are visited: vectors of consecutive ones, and what is read and stored at each.

use std::collections::{BTreeMap, BTreeSet};

use super::{IterationSpace, Number, Register, StageProgram};
use crate::graph::TensorId;

/// How a thread moves the elements of one tensor that belong to its vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Consecutive elements in wide accesses.
    Vector,
    /// The same element for the whole vector.
    Broadcast,
    /// One access an element.
    Strided,
    /// A byte of eight packed booleans.
    Bits,
    /// As many packed booleans of one byte as the vector has points.
    BitsOfByte,
    /// One bit of a byte that a thread puts together from points of several lines.
    Bit,
    /// Host scalar from the parameters.
    Parameter,
}

/// Where a stage finds the core's accumulators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accumulators {
    /// In a tile of shared memory, a vector at a time.
    Tile(Register),
    /// In a piece of shared memory of 64 columns whose rows are swizzled, a vector at a time.
    SwizzledTile(Register),
    /// In registers, as a fragment of 16 rows by 8 columns: vectors are its pairs of columns.
    Fragment(Register),
    /// In registers, as a vector of a thread's own.
    Registers(Register),
    /// In the workspace, as `splits` partial sums of `elements` elements each.
    Workspace {
        /// Their class.
        register: Register,
        /// Number of partial sums.
        splits: u32,
        /// Elements of one partial sum.
        elements: Number,
        /// Whether a vector of points is a vector of them.
        vector: bool,
    },
}

impl Accumulators {
    /// Class of the accumulators.
    pub fn register(&self) -> Register {
        match *self {
            Self::Tile(register)
            | Self::SwizzledTile(register)
            | Self::Fragment(register)
            | Self::Registers(register)
            | Self::Workspace { register, .. } => register,
        }
    }
}

/// Evaluation of a stage over vectors of consecutive points.
#[derive(Clone, Debug)]
pub struct Sweep {
    /// The points; vectors run along the innermost axis.
    pub space: IterationSpace,
    /// The values at each point.
    pub program: StageProgram,
    /// How each tensor in memory is accessed.
    pub access: BTreeMap<TensorId, Access>,
    /// How the tensors that windows read around each point are accessed: in vectors of channels or element by element.
    pub gathers: BTreeMap<TensorId, Access>,
    /// Concatenations of whose parts each vector of points lies in one, at a multiple of the access size: read as a whole.
    pub concatenated: BTreeSet<TensorId>,
    /// Tensors stored at each point.
    pub stores: Vec<TensorId>,
    /// Points of one vector; divides the innermost extent unless `ragged`.
    pub vector: i64,
    /// Whether the last vector of a row has fewer points.
    pub ragged: bool,
    /// Whether offsets need 64 bits.
    pub wide_index: bool,
    /// The core's accumulators, if the program reads them.
    pub accumulators: Option<Accumulators>,
}
