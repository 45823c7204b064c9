//! Operands of a matrix product: one record and one template for each way that elements come to shared memory or to fragments.

mod coordinates;
mod fragments;
mod pairs;
mod placed;
mod tile;
mod turned;
mod value;

pub(super) use fragments::fragments;
pub(super) use placed::{PlacedOperand, placed};
pub(super) use tile::Tile;
pub(super) use value::value;

use crate::codegen::sections::Used;
use crate::error::Error;
use crate::graph::FinalizedGraph;
use crate::kernel::{Fetch, GemmKernel, Operand};

/// An operand in its kernel: slot 0 is A, slot 1 is B.
#[derive(Clone, Copy)]
pub(super) struct Side<'a> {
    pub(super) graph: &'a FinalizedGraph,
    pub(super) kernel: &'a GemmKernel,
    pub(super) slot: usize,
}

impl<'a> Side<'a> {
    pub(super) fn operand(&self) -> &'a Operand {
        if self.slot == 0 { &self.kernel.a } else { &self.kernel.b }
    }

    /// `a` or `b`.
    pub(super) fn name(&self) -> &'static str {
        ["a", "b"][self.slot]
    }

    /// Number of its tensor map among those of the operands.
    pub(super) fn map_number(&self) -> usize {
        let others = [&self.kernel.a, &self.kernel.b].into_iter().take(self.slot);
        others.filter(|operand| operand.map().is_some()).count()
    }

    /// The number of the map of its boxes in the last step along k, or under a tap, where these differ: behind those of all whole boxes.
    pub(super) fn tail_number(&self) -> Option<usize> {
        self.kernel.differing_tail().map(|_| self.map_number() + self.maps_of_steps())
    }

    /// The number of the map of its boxes at the edge of C, if it has one: behind those of whole boxes, and of the last step's.
    pub(super) fn edge_number(&self) -> Option<usize> {
        let tails = if self.tail_number().is_some() { self.maps_of_steps() } else { 0 };
        let operands = [&self.kernel.a, &self.kernel.b].into_iter();
        let before = operands.take(self.slot).filter(|operand| operand.edge.is_some()).count();
        self.operand().edge.map(|_| self.maps_of_steps() + tails + before)
    }

    /// Maps that the operands' whole boxes have.
    fn maps_of_steps(&self) -> usize {
        [&self.kernel.a, &self.kernel.b].into_iter().filter(|operand| operand.map().is_some()).count()
    }

    /// Whether its tiles stay in shared memory.
    pub(super) fn is_stationary(&self) -> bool {
        self.slot == 1 && self.kernel.multiply.is_stationary()
    }

    /// What it is, for readers of the kernel.
    pub(super) fn title(&self) -> String {
        let tensor = self.graph.canonical_name(self.operand().tensor);
        let name = self.name().to_uppercase();
        match self.graph.producer(self.operand().tensor) {
            Some(_) => format!("mainloop fusion of {name}, {tensor}"),
            None => format!("operand {name}, {tensor}"),
        }
    }

    /// Rows of A, or columns of B, of a tile.
    pub(super) fn block(&self) -> u32 {
        [self.kernel.tile.m, self.kernel.tile.n][self.slot]
    }
}

/// The functions by which the threads of one warpgroup bring an operand to a stage: `fill_a(tile, k0)`.
///
/// # Errors
/// [`Error::Generated`] if a template fails: a defect of ours.
pub(super) fn filled(used: &mut Used, side: Side<'_>) -> Result<String, Error> {
    match side.operand().fetch {
        Fetch::Turned(_) => turned::turned(used, side),
        Fetch::Async => placed::copied_to_ring(used, side),
        _ => placed::computed(used, side),
    }
}
