//! How much work a graph is for a slow computation, to decide what finishes while a person waits.

use fusewright::engine::Floor;
use fusewright::graph::{FinalizedGraph, Operation, TensorId};

/// Most steps that the emulator takes on: some minutes at about a million steps a second and core.
pub(super) const EMULATOR_LIMIT: u64 = 200_000_000;

/// Most steps that the CPU engine takes on: about a minute on two cores.
pub(super) const CPU_ENGINE_LIMIT: u64 = 20_000_000_000;

/// Most steps that the plain f64 evaluation takes on: about a minute on two cores.
pub(super) const EVALUATION_LIMIT: u64 = 2_000_000_000;

/// Steps of a graph: the multiply-adds of its core, and for every other operation the elements of the largest tensor it
/// touches.
pub(super) fn steps(graph: &FinalizedGraph) -> u64 {
    let others = graph.operations().filter(|operation| !operation.is_core());
    let elements = others.map(|operation| largest_tensor(graph, operation)).fold(0, u64::saturating_add);
    elements.saturating_add(Floor::of(graph).flops / 2)
}

fn largest_tensor(graph: &FinalizedGraph, operation: &Operation) -> u64 {
    let elements = |id: TensorId| graph.tensor(id).dim.iter().map(|&extent| extent as u64).product();
    operation.input_tensors().chain(operation.output_tensors()).map(elements).max().unwrap_or(0)
}
