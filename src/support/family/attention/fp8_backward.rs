//! Flash attention in FP8, backward (`docs/spec/engines.md` 3.8).

use super::fp8::{HEAD_UNIT, LARGEST_HEAD};
use super::records::*;
use super::{Limits, Subject, contiguous, extent};
use crate::device::ComputeCapability;
use crate::fusion::{Stage, attention_backward};
use crate::graph::backward_scaling::{FACTORS, LARGEST};
use crate::graph::{
    Attributes, Composite, DataType, FinalTensor, FinalizedGraph, Operation, Port, ScoreMask, TensorId,
};
use crate::support::findings::Findings;
use crate::support::layout::{self, Layout};
use crate::support::rule::Rule;

/// The surface.
pub(super) struct Fp8FlashBprop;

/// Elements of a head of what is particular to the pass.
const HEAD: i64 = 128;

impl Limits for Fp8FlashBprop {
    fn concerns(&self, subject: &Subject) -> bool {
        is_fp8_backward(subject.graph)
    }

    fn check(&self, &Subject { graph, capability, facts }: &Subject, found: &mut Findings) {
        let Some(id) = attention_backward(graph).filter(|_| is_fp8_backward(graph)) else { return };
        if capability != ComputeCapability::SM_90 {
            found.graph(&F8B_CC, F8B_CC.summary, capability.to_string());
        }
        let is_core = |id| facts.fusion.as_ref().is_ok_and(|fusion| fusion.stage(id) == Stage::Core);
        for other in graph.operation_ids().filter(|&id| !is_core(id)) {
            found.operation(&F8B_FORM, other, F8B_FORM.summary, graph.operation(other).tag());
        }
        let pass = Pass { graph, operation: graph.operation(id) };
        if let Some(what) = pass.beside_causal() {
            found.operation(&F8B_PRE, id, F8B_PRE.summary, what);
        }
        pass.operands(found);
        pass.rows(found);
        pass.gradients(found);
        pass.scaling(found);
    }
}

/// Whether a graph is a backward pass whose queries are in FP8.
pub(super) fn is_fp8_backward(graph: &FinalizedGraph) -> bool {
    let queries = attention_backward(graph).and_then(|id| graph.operation(id).input(Port::Q));
    queries.is_some_and(|id| graph.tensor(id).data_type.is_fp8())
}

/// A backward pass.
struct Pass<'a> {
    graph: &'a FinalizedGraph,
    operation: &'a Operation,
}

impl Pass<'_> {
    fn tensor(&self, id: TensorId) -> &FinalTensor {
        self.graph.tensor(id)
    }

    /// What becomes of scores, or of probabilities, beside scales and the causal mask.
    fn beside_causal(&self) -> Option<&'static str> {
        let Attributes::Composite(Composite::AttentionBackward(backward)) = &self.operation.attributes else {
            return None;
        };
        let causal = ScoreMask { right_bound: Some(0), left_bound: None, is_bottom_right: false };
        let given = |port| self.operation.input(port).is_some();
        if backward.dropout.is_some() {
            return Some("dropout");
        }
        let of_mask = [Port::SEQ_LEN_Q, Port::LEFT_BOUND, Port::RIGHT_BOUND].into_iter().any(given);
        if of_mask || ![causal, ScoreMask::default()].contains(&backward.mask) {
            return Some("another mask");
        }
        [(Port::ATTENTION_BIAS, "a bias"), (Port::SINK_TOKEN, "a sink")]
            .into_iter()
            .find_map(|(port, what)| given(port).then_some(what))
    }

    fn operands(&self, found: &mut Findings) {
        let operands = [Port::Q, Port::K, Port::V].map(|port| self.operation.input(port));
        let first = operands[0].map(|id| self.tensor(id).data_type);
        for id in operands.into_iter().flatten() {
            let data_type = self.tensor(id).data_type;
            if Some(data_type) != first {
                found.tensor(&F8F_TYPE, id, F8F_TYPE.summary, format!("{data_type}"));
            }
            contiguous(self.graph, &F8F_STRIDES, (id, 3), found);
        }
        for (rule, id) in [(&F8F_Q_D, operands[0]), (&F8F_V_D, operands[2])] {
            let size = id.map_or(HEAD_UNIT, |id| extent(self.tensor(id), 3));
            if let Some(id) = id.filter(|_| size % HEAD_UNIT != 0 || size > LARGEST_HEAD) {
                found.tensor(rule, id, rule.summary, size.to_string());
            }
        }
    }

    /// O, dO and statistics.
    fn rows(&self, found: &mut Findings) {
        let [o, gradient, stats] = [Port::O, Port::DO, Port::STATS].map(|port| self.operation.input(port));
        if let Some(o) = o {
            self.is_fp8(&F8F_O, o, found);
            contiguous(self.graph, &F8F_O, (o, 3), found);
        }
        if let Some(gradient) = gradient {
            self.head([&F8B_DO_TYPE, &F8B_DO_D, &F8B_DO_STRIDE], gradient, found);
            if let Some(o) = o.map(|id| self.tensor(id)).filter(|o| o.stride != self.tensor(gradient).stride) {
                found.tensor(&F8B_DO_LAYOUT, gradient, layout::describe(o), layout::describe(self.tensor(gradient)));
            }
        }
        if let Some(id) = stats {
            let tensor = self.tensor(id);
            if tensor.data_type != DataType::Float {
                found.tensor(&F8F_STATS, id, F8F_STATS.summary, format!("{}", tensor.data_type));
            } else if !tensor.is_virtual && !Layout::RowMajor.holds_packed(tensor) {
                found.tensor(&F8F_STATS, id, F8F_STATS.summary, layout::describe(tensor));
            }
        }
    }

    fn gradients(&self, found: &mut Findings) {
        let gradients = [Port::DQ, Port::DK, Port::DV].into_iter().filter_map(|port| self.operation.output(port));
        // what becomes of a virtual one is told by `F8B_FORM`
        for id in gradients.filter(|&id| !self.tensor(id).is_virtual) {
            self.head([&F8B_DQKV_TYPE, &F8B_DQKV_D, &F8B_DQKV_STRIDE], id, found);
        }
    }

    fn head(&self, [of_type, of_size, of_stride]: [&'static Rule; 3], id: TensorId, found: &mut Findings) {
        self.is_fp8(of_type, id, found);
        let size = extent(self.tensor(id), 3);
        if size != HEAD {
            found.tensor(of_size, id, of_size.summary, size.to_string());
        }
        contiguous(self.graph, of_stride, (id, 3), found);
    }

    fn is_fp8(&self, rule: &'static Rule, id: TensorId, found: &mut Findings) {
        let data_type = self.tensor(id).data_type;
        if !data_type.is_fp8() {
            found.tensor(rule, id, rule.summary, format!("{data_type}"));
        }
    }

    /// Numbers that scale, and largest magnitudes.
    fn scaling(&self, found: &mut Findings) {
        let missing: Vec<&str> = FACTORS
            .into_iter()
            .filter(|&port| self.operation.input(port).is_none())
            .chain(LARGEST.into_iter().filter(|&port| self.operation.output(port).is_none()))
            .map(|port| port.0)
            .collect();
        if !missing.is_empty() {
            found.graph(&F8B_SCALES, F8B_SCALES.summary, format!("without {}", missing.join(", ")));
        }
        let factors = FACTORS.into_iter().chain([Port::ATTN_SCALE]).filter_map(|port| self.operation.input(port));
        let largest = LARGEST.into_iter().filter_map(|port| self.operation.output(port));
        let numbers = factors.map(|id| (&F8F_FACTORS, id)).chain(largest.map(|id| (&F8F_AMAX, id)));
        for (rule, id) in numbers {
            let data_type = self.tensor(id).data_type;
            if data_type != DataType::Float {
                found.tensor(rule, id, rule.summary, format!("{data_type}"));
            }
        }
    }
}
