//! The backward pass of an attention as a core: an operation of its own.

use crate::graph::{Attributes, Composite, FinalizedGraph, OperationId};

/// The operation of a graph that computes the gradients of an attention, if there is one.
pub(crate) fn attention_backward(graph: &FinalizedGraph) -> Option<OperationId> {
    let is_backward = |id: &OperationId| {
        matches!(graph.operation(*id).attributes, Attributes::Composite(Composite::AttentionBackward(_)))
    };
    graph.operation_ids().find(is_backward)
}
