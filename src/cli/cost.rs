//! How long slow computations take for a graph, to decide what finishes while a person waits.
//!
//! Estimates from the graph's extents alone, so that the same graph is treated the same everywhere; the rates are those
//! of two cores of a server of 2023.

use fusewright::engine::Floor;
use fusewright::graph::{FinalizedGraph, Operation, TensorId};

/// Longest that a computation may take before a smaller graph takes its place, in seconds.
pub(super) const RUN_SECONDS: f64 = 60.0;

/// As [`RUN_SECONDS`], for each computation of a verification. It bounds the memory of the error bounds, too: about two
/// gigabytes.
pub(super) const VERIFY_SECONDS: f64 = 20.0;

/// Speed of a computation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Rate {
    /// Multiply-adds of matmuls and convolutions in a second.
    pub(super) multiply_adds: f64,
    /// Elements in a second, of the largest tensor of each other operation.
    pub(super) elements: f64,
}

/// The CPU engine.
pub(super) const CPU_ENGINE: Rate = Rate { multiply_adds: 5e9, elements: 1e8 };

/// The emulator, which runs every kernel under two schedules.
pub(super) const EMULATOR: Rate = Rate { multiply_adds: 1e8, elements: 2e7 };

/// The op-by-op f64 evaluation, and the error bounds, which repeat it.
pub(super) const EVALUATION: Rate = Rate { multiply_adds: 2.5e8, elements: 1e7 };

/// A GPU: never too slow to wait for.
pub(super) const GPU: Rate = Rate { multiply_adds: f64::INFINITY, elements: f64::INFINITY };

impl Rate {
    /// Estimated seconds for a graph; composite operations cost what defines them.
    pub(super) fn seconds(self, graph: &FinalizedGraph) -> f64 {
        let graph = &*graph.expand();
        let others = graph.operations().filter(|operation| !operation.is_core());
        let elements: f64 = others.map(|operation| largest_tensor(graph, operation)).sum();
        Floor::of(graph).flops as f64 / 2.0 / self.multiply_adds + elements / self.elements
    }
}

fn largest_tensor(graph: &FinalizedGraph, operation: &Operation) -> f64 {
    let elements = |id: TensorId| graph.tensor(id).dim.iter().map(|&extent| extent as f64).product();
    operation.input_tensors().chain(operation.output_tensors()).map(elements).fold(0.0, f64::max)
}
