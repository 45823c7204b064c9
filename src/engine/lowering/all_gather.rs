//! Values that the GPUs of a node send each other, between what each reduces for itself and what all make of it: a launch of a thread a channel.

use std::collections::BTreeSet;

use super::combination::sweep_parameters;
use super::sweep::{Width, over, single_point};
use crate::engine::builder::{KernelBuilder, Shape};
use crate::graph::{Attributes, FinalizedGraph, Operation, Port, TensorId};
use crate::kernel::{
    AllGatherKernel, Body, Gathered, IterationRequest, IterationSpace, Parameter, StageProgram, Value,
};

/// Threads of a block: channels are few, and blocks on several multiprocessors write at once.
const THREADS: u32 = 128;

/// What an operation gathers.
pub(super) fn gathered(operation: &Operation) -> Option<Gathered> {
    let Attributes::AllGather(gather) = operation.attributes else { return None };
    let (source, target) = (operation.input(Port::X)?, operation.output(Port::Y)?);
    Some(Gathered { source, target, peer: operation.peers().next()?, gather })
}

/// Tensors that the GPUs of an operation write to, by their ranks.
fn peers(graph: &FinalizedGraph, gathered: Gathered) -> Vec<TensorId> {
    graph.producer(gathered.target).map_or_else(Vec::new, |id| graph.operation(id).peers().collect())
}

/// Adds the function that gathers values of the same channels and peers, computed by `program` from what lies in memory.
pub(super) fn push(
    graph: &FinalizedGraph,
    program: &StageProgram,
    gathered: Vec<Gathered>,
    builder: &mut KernelBuilder,
) {
    let Some(&first) = gathered.first() else { return };
    let peers = peers(graph, first);
    let extents = &graph.tensor(first.source).dim;
    let program = program.needed_for(gathered.iter().map(|gathered| gathered.source));
    debug_assert!(program.steps.iter().all(|step| matches!(step.value, Value::Load | Value::Pointwise { .. })));
    let moved: Vec<TensorId> = program.moved().collect();
    let mut space = IterationSpace::new(&IterationRequest {
        graph,
        extents,
        tensors: &moved,
        reference: first.source,
        reduced: &BTreeSet::new(),
        pinned: &BTreeSet::new(),
        accumulators: &[],
    });
    if space.axes.is_empty() {
        space.axes.push(single_point(&moved));
    }
    let channels = extents.iter().product();
    let sweep = over(graph, space, program, Vec::new(), Width { vector: 1, ragged: false });
    let mut parameters = sweep_parameters(&sweep, None);
    let targets = gathered.iter().map(|gathered| gathered.target);
    parameters.extend(targets.chain(peers.iter().copied()).map(Parameter::Tensor));
    parameters.extend([Parameter::OwnRank { first: first.peer }, Parameter::AbsentRank]);
    let kernel = AllGatherKernel { sweep, gathered, peers, channels, threads: THREADS };
    builder.push("all_gather", Shape::line_of_blocks(channels, THREADS), parameters, Body::AllGather(kernel));
}
