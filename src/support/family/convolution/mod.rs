//! Patterns of pre-compiled engines around a convolution: ConvBNfprop, DBARCS, ConvBNwgrad, ConvBiasAct.
//!
//! The runtime fusion engine judges every convolution, so these surfaces are asked where they are named alone, and about graphs that have
//! the whole pattern: no verdict of surfaces 90 to 70, nor what is said of it, depends on them.

mod bias;
pub(crate) mod records;
mod statistics;

use super::{Family, Limits, Subject};
use crate::device::ComputeCapability;
use crate::graph::{
    Attributes, Convolution, FinalTensor, FinalizedGraph, Operation, OperationId, PointwiseMode, TensorId,
};
use crate::support::findings::Findings;
use crate::support::forms::{dims_text, one_of};
use crate::support::layout::{self, Layout};
use crate::support::rule::{Rule, SurfaceId};

pub(in crate::support) const BN_FPROP: SurfaceId = SurfaceId::Named("ConvBNfprop");
pub(in crate::support) const DBARCS: SurfaceId = SurfaceId::Named("DBARCS");
pub(in crate::support) const BN_WGRAD: SurfaceId = SurfaceId::Named("ConvBNwgrad");
pub(in crate::support) const BIAS_ACT: SurfaceId = SurfaceId::Named("ConvBiasAct");

pub(super) static FAMILY: Family = Family {
    surfaces: &[
        (BN_FPROP, &ConvolutionPattern { is_whole: statistics::is_fprop, check: statistics::fprop }),
        (DBARCS, &ConvolutionPattern { is_whole: statistics::is_dual, check: statistics::dual }),
        (BN_WGRAD, &ConvolutionPattern { is_whole: statistics::is_wgrad, check: statistics::wgrad }),
        (BIAS_ACT, &ConvolutionPattern { is_whole: bias::is_whole, check: bias::check }),
    ],
    rules: &[records::RULES],
    is_by_name: true,
};

/// One pattern.
struct ConvolutionPattern {
    is_whole: fn(&View) -> bool,
    check: fn(&View, &mut Findings),
}

impl Limits for ConvolutionPattern {
    fn concerns(&self, subject: &Subject) -> bool {
        View::of(subject).is_some_and(|view| (self.is_whole)(&view))
    }

    fn check(&self, subject: &Subject, found: &mut Findings) {
        if let Some(view) = View::of(subject) {
            (self.check)(&view, found);
        }
    }
}

/// A graph with one convolution, on a chip.
struct View<'a> {
    graph: &'a FinalizedGraph,
    capability: ComputeCapability,
    core: OperationId,
    convolution: &'a Convolution,
}

/// An operation with its place.
type Slot<'a> = (OperationId, &'a Operation);

impl<'a> View<'a> {
    /// `None` where there is no convolution, or another core beside it.
    fn of(&Subject { graph, capability, facts }: &Subject<'a>) -> Option<Self> {
        let core = facts.core.as_ref()?.id;
        match &graph.operation(core).attributes {
            Attributes::Convolution(convolution) => Some(Self { graph, capability, core, convolution }),
            _ => None,
        }
    }

    fn tensor(&self, id: TensorId) -> &'a FinalTensor {
        self.graph.tensor(id)
    }

    /// What the convolution reads.
    fn operands(&self) -> Option<[TensorId; 2]> {
        let mut inputs = self.graph.operation(self.core).input_tensors();
        Some([inputs.next()?, inputs.next()?])
    }

    fn result(&self) -> Option<TensorId> {
        self.graph.operation(self.core).result()
    }

    fn operations(&self) -> impl Iterator<Item = Slot<'a>> + use<'a> {
        let graph = self.graph;
        graph.operation_ids().map(move |id| (id, graph.operation(id)))
    }

    /// The pointwise operation that gives a tensor.
    fn pointwise(&self, tensor: TensorId) -> Option<(OperationId, &'a Operation, PointwiseMode)> {
        let id = self.graph.producer(tensor)?;
        let operation = self.graph.operation(id);
        operation.pointwise_mode().map(|mode| (id, operation, mode))
    }

    fn stored(&self) -> impl Iterator<Item = TensorId> + use<'a> {
        let graph = self.graph;
        graph.tensor_ids().filter(move |&id| !graph.tensor(id).is_virtual && !graph.tensor(id).is_pass_by_value)
    }

    /// Reports what the pattern has no place for.
    fn others(&self, rule: &'static Rule, known: &[OperationId], found: &mut Findings) {
        for (id, operation) in self.operations().filter(|slot| slot.0 != self.core && !known.contains(&slot.0)) {
            found.operation(rule, id, rule.summary, operation.tag());
        }
    }

    fn chip(&self, rule: &'static Rule, allowed: &[ComputeCapability], found: &mut Findings) {
        if !allowed.contains(&self.capability) {
            found.graph(rule, one_of(allowed), self.capability.to_string());
        }
    }

    /// Pointers of 16 bytes.
    fn aligned(&self, rule: &'static Rule, found: &mut Findings) {
        for id in self.stored().filter(|&id| self.tensor(id).alignment % 16 != 0) {
            let text = format!("a pointer aligned to {} bytes", self.tensor(id).alignment);
            found.tensor(rule, id, "a pointer aligned to 16 bytes", text);
        }
    }

    /// Four axes, the second one fastest, without padding.
    fn packed(&self, rule: &'static Rule, id: TensorId, found: &mut Findings) {
        let tensor = self.tensor(id);
        if !tensor.is_virtual && (tensor.dim.len() != 4 || !Layout::Nhwc.holds_packed(tensor)) {
            found.tensor(rule, id, "4-D, fully packed NHWC", layout::describe(tensor));
        }
    }

    fn has_dims(&self, rule: &'static Rule, id: TensorId, required: &[i64], found: &mut Findings) {
        let dim = &self.tensor(id).dim;
        if dim != required {
            found.tensor(rule, id, format!("dims {}", dims_text(required)), dims_text(dim));
        }
    }

    fn is_virtual(&self, rule: &'static Rule, id: TensorId, required: bool, found: &mut Findings) {
        let word = |is_virtual: bool| if is_virtual { "a virtual tensor" } else { "a stored tensor" };
        if self.tensor(id).is_virtual != required {
            found.tensor(rule, id, word(required), word(!required));
        }
    }
}

/// Extents of a vector of channels.
fn channel(dim: &[i64]) -> Vec<i64> {
    dim.iter().enumerate().map(|(axis, &extent)| if axis == 1 { extent } else { 1 }).collect()
}
