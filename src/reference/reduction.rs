//! Reductions and per-channel statistics of the CPU engine.

use std::ops::Range;

use rayon::prelude::*;

use super::element::Element;
use crate::error::Result;
use crate::graph::ReductionMode;
use crate::host_tensor::{HostTensor, LaneStorage, Traversal, reserve};

/// Values folded one after the other; longer sums are folded in pieces whose results are then combined in pairs, so
/// that rounding errors grow slowly even where they all have one sign (equal terms). A constant, so that results do not
/// depend on the number of threads.
const PIECE: usize = 1 << 7;

/// What is computed over each reduced set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fold {
    /// An operator of operations.md section 6.
    Mode(ReductionMode),
    /// Σ x², of the statistics (section 5).
    SumOfSquares,
}

impl Fold {
    fn identity<T: Element>(self) -> T {
        match self {
            Self::Mode(ReductionMode::Mul | ReductionMode::MulNoZeros) => T::ONE,
            Self::Mode(ReductionMode::Min) => T::HIGHEST,
            Self::Mode(ReductionMode::Max) => T::LOWEST,
            Self::Mode(ReductionMode::Add | ReductionMode::Avg | ReductionMode::Amax) => T::default(),
            Self::Mode(ReductionMode::Norm1 | ReductionMode::Norm2) | Self::SumOfSquares => T::default(),
        }
    }

    /// What enters the fold for one element.
    fn term<T: Element>(self, x: T) -> T {
        match self {
            Self::Mode(ReductionMode::Norm1 | ReductionMode::Amax) => x.magnitude(),
            Self::Mode(ReductionMode::Norm2) | Self::SumOfSquares => x.mul(x),
            Self::Mode(ReductionMode::MulNoZeros) if x == T::default() => T::ONE,
            Self::Mode(ReductionMode::Add | ReductionMode::Avg | ReductionMode::Mul | ReductionMode::MulNoZeros) => x,
            Self::Mode(ReductionMode::Min | ReductionMode::Max) => x,
        }
    }

    fn combine<T: Element>(self, a: T, b: T) -> T {
        match self {
            Self::Mode(ReductionMode::Mul | ReductionMode::MulNoZeros) => a.mul(b),
            Self::Mode(ReductionMode::Min) => a.least(b),
            Self::Mode(ReductionMode::Max | ReductionMode::Amax) => a.greatest(b),
            Self::Mode(ReductionMode::Add | ReductionMode::Avg) => a.add(b),
            Self::Mode(ReductionMode::Norm1 | ReductionMode::Norm2) | Self::SumOfSquares => a.add(b),
        }
    }

    fn finish<T: Element>(self, value: T, count: usize) -> T {
        match self {
            Self::Mode(ReductionMode::Avg) => value.divide(count),
            Self::Mode(ReductionMode::Norm2) => value.root(),
            Self::Mode(ReductionMode::Add | ReductionMode::Mul | ReductionMode::MulNoZeros) => value,
            Self::Mode(ReductionMode::Min | ReductionMode::Max | ReductionMode::Amax | ReductionMode::Norm1) => value,
            Self::SumOfSquares => value,
        }
    }
}

/// Folds X over the axes on which `dim`, the extents of the result, is 1; row-major over `dim`. NaN wins in
/// `MIN`, `MAX` and `AMAX` (O-15).
pub(super) fn reduce<T: Element>(x: &HostTensor, dim: &[usize], fold: Fold) -> Result<Vec<T>> {
    let (extents, strides) = (x.extents(), x.strides());
    let is_kept = |&axis: &usize| dim[axis] == extents[axis];
    let kept = (0..extents.len()).filter(is_kept);
    let mut reduced: Vec<usize> = (0..extents.len()).filter(|axis| !is_kept(axis)).collect();
    reduced.sort_by_key(|&axis| std::cmp::Reverse(strides[axis]));
    let count: usize = reduced.iter().map(|&axis| extents[axis]).product();
    let space = Traversal::ordered(&extents, &kept.chain(reduced).collect::<Vec<_>>(), &[strides]);
    let sums = Sums { x, space, fold };
    let mut results = reserve(dim.iter().product())?;
    (0..dim.iter().product())
        .into_par_iter()
        .map(|set| fold.finish(sums.fold_set::<T>(set * count..(set + 1) * count), count))
        .collect_into_vec(&mut results);
    Ok(results)
}

/// The elements of X, each reduced set at consecutive positions.
struct Sums<'a> {
    x: &'a HostTensor,
    space: Traversal,
    fold: Fold,
}

impl Sums<'_> {
    fn fold_set<T: Element>(&self, set: Range<usize>) -> T {
        if set.len() <= PIECE {
            return self.fold_piece(set);
        }
        let pieces = set.len().div_ceil(PIECE);
        let piece = |i: usize| set.start + i * PIECE..set.end.min(set.start + (i + 1) * PIECE);
        let mut partial: Vec<T> = (0..pieces).into_par_iter().map(|i| self.fold_piece(piece(i))).collect();
        while partial.len() > 1 {
            partial = partial.chunks(2).map(|pair| self.combine(pair)).collect();
        }
        self.combine(&partial)
    }

    fn fold_piece<T: Element>(&self, range: Range<usize>) -> T {
        let lanes = self.x.load(&self.space, 0, range);
        let lanes = lanes.converted(self.x.data_type, <T::Lane as crate::host_tensor::Lane>::DATA_TYPE);
        let terms = T::Lane::slice(&lanes).iter().map(|&x| self.fold.term(T::from_lane(x)));
        terms.fold(self.fold.identity(), |a, b| self.fold.combine(a, b))
    }

    fn combine<T: Element>(&self, values: &[T]) -> T {
        values.iter().copied().reduce(|a, b| self.fold.combine(a, b)).unwrap_or_else(|| self.fold.identity())
    }
}
