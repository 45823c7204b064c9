//! Reductions as map, combine and finish: the same three steps in a mainloop, across threads and across blocks.

use std::collections::BTreeSet;

use crate::graph::{ReductionMode, TensorId};

/// What is done to a value before it is combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Map {
    /// Nothing.
    Identity,
    /// |x|.
    Magnitude,
    /// x².
    Square,
    /// x, or 1 where x is 0.
    OneIfZero,
}

/// How two partial results become one; associative up to rounding, so the order is fixed everywhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Combine {
    /// a + b, from 0.
    Sum,
    /// a · b, from 1.
    Product,
    /// NaN-propagating minimum, from +∞.
    Smallest,
    /// NaN-propagating maximum, from −∞.
    Largest,
}

/// What is done to the last partial result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Finish {
    /// Nothing.
    Identity,
    /// Division by the number of reduced elements.
    Mean,
    /// Square root.
    Root,
}

/// One reduction of a value of the stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accumulation {
    /// The value reduced.
    pub source: TensorId,
    /// The tensor written.
    pub target: TensorId,
    /// Before combining.
    pub map: Map,
    /// Combining.
    pub combine: Combine,
    /// After combining.
    pub finish: Finish,
}

/// The values that reductions start from, each once, in order.
pub fn reduced_values<'a>(accumulations: impl Iterator<Item = &'a Accumulation>) -> Vec<TensorId> {
    let values: BTreeSet<TensorId> = accumulations.map(|accumulation| accumulation.source).collect();
    values.into_iter().collect()
}

impl Accumulation {
    /// The reduction operator `mode` from `source` to `target` (`operations.md` section 6).
    pub fn reduction(mode: ReductionMode, source: TensorId, target: TensorId) -> Self {
        let (map, combine, finish) = match mode {
            ReductionMode::Add => (Map::Identity, Combine::Sum, Finish::Identity),
            ReductionMode::Mul => (Map::Identity, Combine::Product, Finish::Identity),
            ReductionMode::Min => (Map::Identity, Combine::Smallest, Finish::Identity),
            ReductionMode::Max => (Map::Identity, Combine::Largest, Finish::Identity),
            ReductionMode::Amax => (Map::Magnitude, Combine::Largest, Finish::Identity),
            ReductionMode::Avg => (Map::Identity, Combine::Sum, Finish::Mean),
            ReductionMode::Norm1 => (Map::Magnitude, Combine::Sum, Finish::Identity),
            ReductionMode::Norm2 => (Map::Square, Combine::Sum, Finish::Root),
            ReductionMode::MulNoZeros => (Map::OneIfZero, Combine::Product, Finish::Identity),
        };
        Self { source, target, map, combine, finish }
    }

    /// Σ x² (GenStats).
    pub fn sum_of_squares(source: TensorId, target: TensorId) -> Self {
        Self { source, target, map: Map::Square, combine: Combine::Sum, finish: Finish::Identity }
    }
}
