//! What becomes of a product's sums where zeros outside an operand may meet what is not finite.

use super::copied::ProductBefore;
use super::operand::{Instruction, OperandPlan};
use super::problem::Problem;
use crate::fusion::Product;
use crate::graph::FinalizedGraph;
use crate::kernel::{Coordinate, GemmTile, Inside, Multiply, OperandsBefore, Register, Telling};

/// A product whose operands have zeros outside, as in the padding of a convolution.
pub(super) struct Padding<'a> {
    pub(super) graph: &'a FinalizedGraph,
    pub(super) product: &'a Product,
    pub(super) problem: &'a Problem,
    /// The product before its operands were unfolded, or taps taken together, if they are.
    pub(super) before: Option<&'a ProductBefore>,
    /// Whether matrices have different numbers of steps, of the taps that are theirs.
    pub(super) counts_steps: bool,
    /// Which operands are multiplied as boxes bring them.
    pub(super) boxed: [bool; 2],
}

impl Padding<'_> {
    /// What is done about it; `None` where all is finite or inside.
    pub(super) fn inside(&self, multiply: &Multiply, tile: GemmTile, wide_index: bool) -> Option<Inside> {
        let telling = self.telling(tile.k.into()).filter(|_| multiply.accumulator() == Register::Float)?;
        Some(Inside { telling, before: self.operands_before(tile, wide_index) })
    }

    fn telling(&self, step_k: i64) -> Option<Telling> {
        let problem = self.before.map_or(self.problem, |before| &before.problem);
        let is_outside = |of: &Coordinate| of.bound.is_some() || of.divisor > 1;
        let has_outside = |slot: usize| problem.operands[slot].iter().any(is_outside);
        let has_all_taps = self.counts_steps && problem.space.counted.iter().all(|counted| counted.least > 0);
        // what an image has of the next group meets zeros of the filter
        let reaches_into_groups = |slot: usize| self.boxed[slot] && self.problem.reaches_into_groups(slot, step_k);
        let is_infinite = |slot: usize| {
            let tensor = self.product.tensors()[problem.core_slot(slot)];
            self.graph.tensor(tensor).data_type.is_floating()
        };
        let of_a = has_outside(0) || reaches_into_groups(1);
        let of_b = (has_outside(1) && !has_all_taps) || reaches_into_groups(0);
        match (of_a && is_infinite(1), of_b && is_infinite(0)) {
            (true, true) => Some(Telling::All),
            (true, false) => Some(Telling::Row),
            (false, true) => Some(Telling::Column),
            (false, false) => None,
        }
    }

    fn operands_before(&self, tile: GemmTile, wide_index: bool) -> Option<Box<OperandsBefore>> {
        let ProductBefore { fusion, product, problem } = self.before?;
        let plan = |slot| OperandPlan::new(fusion, product, problem, slot, Instruction::Fma);
        let [a, b] = [0, 1].map(|slot| plan(slot).at(tile, wide_index));
        let (k, derived) = (problem.space.k.clone(), problem.space.derived.clone());
        Some(Box::new(OperandsBefore { a, b, k, derived }))
    }
}
