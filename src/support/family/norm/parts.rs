//! What a graph with norms consists of.

use crate::device::ComputeCapability;
use crate::graph::{
    Attributes, Composite, DataType, FinalTensor, FinalizedGraph, NormBackward, NormForward, NormMode, NormPhase,
    Operation, OperationId, Port, TensorId,
};

/// What a norm operation computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Forward(NormMode, Option<NormPhase>),
    Backward(NormMode),
    Finalize,
    Weights,
}

/// One norm operation.
#[derive(Clone, Copy)]
pub(super) struct Norm<'a> {
    pub(super) id: OperationId,
    pub(super) operation: &'a Operation,
    pub(super) kind: Kind,
}

impl Norm<'_> {
    /// Which elements are normalised together; those of a channel for batch norm's parts.
    pub(super) fn mode(&self) -> NormMode {
        match self.kind {
            Kind::Forward(mode, _) | Kind::Backward(mode) => mode,
            Kind::Finalize | Kind::Weights => NormMode::Batch,
        }
    }

    /// Whether rows are normalised, by axes that follow from the tensors.
    pub(super) fn is_of_rows(&self) -> bool {
        !matches!(self.mode(), NormMode::Instance | NormMode::Batch)
    }

    /// X; none of BN_FINALIZE, which has vectors alone.
    pub(super) fn x(&self) -> Option<TensorId> {
        self.operation.input(Port::X)
    }
}

/// A graph with norms on a chip, of which one is what a surface is about.
#[derive(Clone, Copy)]
pub(super) struct Parts<'a> {
    pub(super) graph: &'a FinalizedGraph,
    pub(super) capability: ComputeCapability,
    pub(super) norm: Norm<'a>,
}

/// Norm operations of a graph, in topological order; of groups cuDNN has none (N-04).
pub(super) fn norms(graph: &FinalizedGraph) -> impl Iterator<Item = Norm<'_>> {
    graph.operation_ids().filter_map(|id| {
        let operation = graph.operation(id);
        let Attributes::Composite(composite) = &operation.attributes else { return None };
        let kind = match composite {
            Composite::NormForward(NormForward { mode: NormMode::Group { .. }, .. })
            | Composite::NormBackward(NormBackward { mode: NormMode::Group { .. } }) => return None,
            Composite::NormForward(norm) => Kind::Forward(norm.mode, norm.phase),
            Composite::NormBackward(norm) => Kind::Backward(norm.mode),
            Composite::BnFinalize(_) => Kind::Finalize,
            Composite::BnBackwardWeights(_) => Kind::Weights,
            Composite::Softmax(_) | Composite::ScoreMask(_) | Composite::PagedCacheLoad(_) => return None,
            Composite::ScoreTranspose(_) => return None,
            Composite::Dropout(_) | Composite::MaskedDropout(_) | Composite::AttentionBackward(_) => return None,
        };
        Some(Norm { id, operation, kind })
    })
}

impl<'a> Parts<'a> {
    pub(super) fn tensor(&self, id: TensorId) -> &'a FinalTensor {
        self.graph.tensor(id)
    }

    /// Operations but the norm, in topological order.
    pub(super) fn others(&self) -> impl Iterator<Item = (OperationId, &'a Operation)> + use<'a> {
        let (graph, own) = (self.graph, self.norm.id);
        graph.operation_ids().filter(move |&id| id != own).map(move |id| (id, graph.operation(id)))
    }

    /// The operation that gives a tensor.
    pub(super) fn producer(&self, tensor: TensorId) -> Option<(OperationId, &'a Operation)> {
        self.graph.producer(tensor).map(|id| (id, self.graph.operation(id)))
    }

    /// Tensors in device memory.
    pub(super) fn stored(&self) -> impl Iterator<Item = TensorId> + use<'a> {
        let graph = self.graph;
        graph.tensor_ids().filter(move |&id| !graph.tensor(id).is_virtual && !graph.tensor(id).is_pass_by_value)
    }

    /// Numbers with X's dims, stored or not: all but vectors, scalars and masks.
    pub(super) fn full(&self) -> impl Iterator<Item = TensorId> + use<'a> {
        let graph = self.graph;
        let dim = self.norm.x().map(|x| graph.tensor(x).dim.as_slice());
        let is_full = move |id: &TensorId| {
            let tensor = graph.tensor(*id);
            Some(tensor.dim.as_slice()) == dim && tensor.data_type != DataType::Boolean && !tensor.is_pass_by_value
        };
        graph.tensor_ids().filter(is_full)
    }

    /// The norm's tensors at these ports, whether it reads or writes them.
    pub(super) fn at(&self, ports: &'static [Port]) -> impl Iterator<Item = TensorId> + use<'a> {
        let operation = self.norm.operation;
        ports.iter().filter_map(move |&port| operation.input(port).or_else(|| operation.output(port)))
    }
}
