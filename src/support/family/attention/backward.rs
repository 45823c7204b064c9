//! Flash attention, backward.

use super::fp8_backward::is_fp8_backward;
use super::records::*;
use super::{CHIPS, Limits, Subject, contiguous, extent, is_half, largest_head};
use crate::fusion::{Stage, attention_backward};
use crate::graph::{DataType, FinalizedGraph, Operation, Port, TensorId};
use crate::support::findings::Findings;
use crate::support::layout::{self, Layout};
use crate::support::rule::Rule;

/// The surface.
pub(super) struct FlashBprop;

impl Limits for FlashBprop {
    fn concerns(&self, subject: &Subject) -> bool {
        attention_backward(subject.graph).is_some() && !is_fp8_backward(subject.graph)
    }

    fn check(&self, &Subject { graph, capability, facts }: &Subject, found: &mut Findings) {
        let Some(id) = attention_backward(graph).filter(|_| !is_fp8_backward(graph)) else { return };
        if !CHIPS.contains(&capability) {
            found.graph(&FAB_CC, FAB_CC.summary, capability.to_string());
        }
        let is_core = |id| facts.fusion.as_ref().is_ok_and(|fusion| fusion.stage(id) == Stage::Core);
        for other in graph.operation_ids().filter(|&id| !is_core(id)) {
            found.operation(&FAB_FORM, other, FAB_FORM.summary, graph.operation(other).tag());
        }
        let view = View { graph, operation: graph.operation(id) };
        view.operands(largest_head(capability), found);
        view.rows(found);
        view.gradients(found);
    }
}

/// A backward pass.
struct View<'a> {
    graph: &'a FinalizedGraph,
    operation: &'a Operation,
}

impl View<'_> {
    fn inputs<const N: usize>(&self, ports: [Port; N]) -> impl Iterator<Item = TensorId> {
        ports.into_iter().filter_map(|port| self.operation.input(port))
    }

    fn operands(&self, largest: i64, found: &mut Findings) {
        let first = self.inputs([Port::Q]).next().map(|id| self.graph.tensor(id).data_type);
        for id in self.inputs([Port::Q, Port::K, Port::V]) {
            let data_type = self.graph.tensor(id).data_type;
            if !is_half(data_type) || Some(data_type) != first {
                found.tensor(&FAF_QKV_TYPE, id, FAF_QKV_TYPE.summary, format!("{data_type}"));
            }
        }
        for id in self.inputs([Port::K, Port::V]).filter(|&id| self.graph.tensor(id).is_virtual) {
            found.tensor(&FAF_KV_SOURCE, id, FAF_KV_SOURCE.summary, "a virtual tensor");
        }
        for (rule, port) in [(&FAF_Q_D, Port::Q), (&FAF_V_D, Port::V)] {
            for id in self.inputs([port]) {
                let size = extent(self.graph.tensor(id), 3);
                if size % 8 != 0 || size > largest {
                    found.tensor(rule, id, format!("a multiple of 8, at most {largest}"), size.to_string());
                }
            }
        }
        for (rule, port) in [(&FAF_QK_STRIDE, Port::Q), (&FAF_QK_STRIDE, Port::K), (&FAF_V_STRIDE, Port::V)] {
            self.inputs([port]).for_each(|id| contiguous(self.graph, rule, (id, 3), found));
        }
    }

    /// O, dO, statistics and the scale.
    fn rows(&self, found: &mut Findings) {
        for (of_type, of_stride, port) in
            [(&FAF_O_TYPE, &FAF_O_STRIDE, Port::O), (&FAB_DO_TYPE, &FAB_DO_STRIDE, Port::DO)]
        {
            self.inputs([port]).for_each(|id| self.head(of_type, of_stride, id, found));
        }
        if let [Some(o), Some(gradient)] = [Port::O, Port::DO].map(|port| self.operation.input(port))
            && self.graph.tensor(o).stride != self.graph.tensor(gradient).stride
        {
            let layouts = layout::describe(self.graph.tensor(gradient));
            found.tensor(&FAB_DO_LAYOUT, gradient, layout::describe(self.graph.tensor(o)), layouts);
        }
        for id in self.inputs([Port::STATS]) {
            let tensor = self.graph.tensor(id);
            if tensor.data_type != DataType::Float {
                found.tensor(&FAF_STATS_TYPE, id, FAF_STATS_TYPE.summary, format!("{}", tensor.data_type));
            }
            if !tensor.is_virtual && !Layout::RowMajor.holds_packed(tensor) {
                found.tensor(&FAF_STATS_LAYOUT, id, FAF_STATS_LAYOUT.summary, layout::describe(tensor));
            }
        }
        for id in self.inputs([Port::ATTN_SCALE]) {
            let data_type = self.graph.tensor(id).data_type;
            if !is_half(data_type) && data_type != DataType::Float {
                found.tensor(&FAF_SCALE_TYPE, id, FAF_SCALE_TYPE.summary, format!("{data_type}"));
            }
        }
    }

    fn gradients(&self, found: &mut Findings) {
        for port in [Port::DQ, Port::DK, Port::DV] {
            let Some(id) = self.operation.output(port) else { continue };
            if self.graph.tensor(id).is_virtual {
                continue; // what becomes of it is told by `FAB_FORM`
            }
            self.head(&FAB_DQKV_TYPE, &FAB_DQKV_STRIDE, id, found);
        }
    }

    fn head(&self, of_type: &'static Rule, of_stride: &'static Rule, id: TensorId, found: &mut Findings) {
        let data_type = self.graph.tensor(id).data_type;
        if !is_half(data_type) {
            found.tensor(of_type, id, of_type.summary, format!("{data_type}"));
        }
        contiguous(self.graph, of_stride, (id, 3), found);
    }
}
