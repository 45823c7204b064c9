//! Flash attention in FP8, forward (`docs/spec/engines.md` 3.6).

use super::records::*;
use super::{Limits, Subject, View, contiguous, extent};
use crate::device::ComputeCapability;
use crate::fusion::Stage;
use crate::graph::{Attributes, Composite, DataType, OperationId, PointwiseMode, Port, ScoreMask, Softmax, TensorId};
use crate::support::findings::Findings;
use crate::support::layout::{self, Layout};
use crate::support::rule::Rule;

/// The surface.
pub(super) struct Fp8FlashFprop;

/// Largest head.
pub(super) const LARGEST_HEAD: i64 = 256;

/// What heads are multiples of.
pub(super) const HEAD_UNIT: i64 = 16;

impl Limits for Fp8FlashFprop {
    fn concerns(&self, subject: &Subject) -> bool {
        View::of(subject).is_some_and(|view| view.is_fp8())
    }

    fn check(&self, subject: &Subject, found: &mut Findings) {
        let Some(view) = View::of(subject).filter(View::is_fp8) else { return };
        if view.capability != ComputeCapability::SM_90 {
            found.graph(&F8F_CC, F8F_CC.summary, view.capability.to_string());
        }
        let is_core = |id| subject.facts.fusion.as_ref().is_ok_and(|fusion| fusion.stage(id) == Stage::Core);
        for id in view.graph.operation_ids().filter(|&id| !is_core(id)) {
            found.operation(&F8F_FORM, id, F8F_FORM.summary, view.graph.operation(id).tag());
        }
        view.scores_in_fp8(found);
        view.operands_in_fp8(found);
        view.scaling(found);
        view.results_in_fp8(found);
    }
}

impl View<'_> {
    /// Whether queries are in FP8.
    pub(super) fn is_fp8(&self) -> bool {
        let [q, ..] = self.attention.operands(self.graph);
        self.tensor(q).data_type.is_fp8()
    }

    /// What becomes of scores before, and of probabilities behind the softmax.
    fn scores_in_fp8(&self, found: &mut Findings) {
        for &id in &self.attention.modifiers {
            let operation = self.graph.operation(id);
            let numbers = operation.input_tensors().filter(|&id| self.is_number(id)).count();
            if operation.pointwise_mode() != Some(PointwiseMode::Mul) || numbers == 0 {
                found.operation(&F8F_PRE, id, F8F_PRE.summary, operation.tag());
            }
        }
        if let Some(id) = self.attention.mask.filter(|&id| !self.is_causal(id)) {
            found.operation(&F8F_PRE, id, F8F_PRE.summary, "another mask");
        }
        if let Some(id) = self.graph.operation(self.attention.softmax).input(Port::SINK) {
            found.tensor(&F8F_PRE, id, F8F_PRE.summary, "a sink");
        }
        for id in self.attention.loads.into_iter().flatten() {
            found.operation(&F8F_PRE, id, F8F_PRE.summary, self.graph.operation(id).tag());
        }
        if let Some(id) = self.attention.dropout {
            found.operation(&F8F_NODROP, id, F8F_NODROP.summary, self.graph.operation(id).tag());
        }
    }

    fn is_causal(&self, mask: OperationId) -> bool {
        let operation = self.graph.operation(mask);
        let causal = ScoreMask { right_bound: Some(0), left_bound: None, is_bottom_right: false };
        let is_plain =
            matches!(&operation.attributes, Attributes::Composite(Composite::ScoreMask(mask)) if *mask == causal);
        is_plain && operation.inputs.len() == 1
    }

    fn operands_in_fp8(&self, found: &mut Findings) {
        let [q, k, v] = self.attention.operands(self.graph);
        let first = self.tensor(q).data_type;
        for id in [q, k, v].into_iter().filter(|&id| self.tensor(id).data_type != first) {
            found.tensor(&F8F_TYPE, id, F8F_TYPE.summary, format!("{}", self.tensor(id).data_type));
        }
        for (rule, id) in [(&F8F_Q_D, q), (&F8F_V_D, v)] {
            let size = extent(self.tensor(id), 3);
            if size % HEAD_UNIT != 0 || size > LARGEST_HEAD {
                found.tensor(rule, id, rule.summary, size.to_string());
            }
        }
        for (id, axis) in self.attention.sources(self.graph) {
            contiguous(self.graph, &F8F_STRIDES, (id, axis), found);
        }
    }

    /// Numbers that scale, and largest magnitudes.
    fn scaling(&self, found: &mut Findings) {
        let scaling = &self.attention.scaling;
        let [first, second] = &scaling.output;
        let [of_probabilities, of_output] = scaling.amax;
        let missing: Vec<&str> = [
            ("a factor of probabilities", scaling.probabilities.is_none()),
            ("the largest magnitude of probabilities", of_probabilities.is_none()),
            ("two factors of O before its largest magnitude", first.len() < 2),
            ("the largest magnitude of O", of_output.is_none()),
            ("a factor of O behind it", second.is_empty()),
        ]
        .into_iter()
        .filter_map(|(what, is_missing)| is_missing.then_some(what))
        .collect();
        if !missing.is_empty() {
            found.graph(&F8_MANDATORY, F8_MANDATORY.summary, format!("without {}", missing.join(", ")));
        }
        let of_scores = self.attention.modifiers.iter().flat_map(|&id| self.graph.operation(id).input_tensors());
        let of_scores = of_scores.filter(|&id| self.is_number(id) && self.graph.producer(id).is_none());
        let steps = scaling.output.iter().flatten().chain(&scaling.probabilities);
        for id in of_scores.chain(steps.filter_map(|step| step.factor)) {
            self.float_number(&F8F_FACTORS, id, found);
        }
        for id in scaling.largest(self.graph).into_iter().flatten() {
            self.float_number(&F8F_AMAX, id, found);
        }
    }

    fn is_number(&self, id: TensorId) -> bool {
        self.tensor(id).dim.iter().all(|&extent| extent == 1)
    }

    fn float_number(&self, rule: &'static Rule, id: TensorId, found: &mut Findings) {
        let data_type = self.tensor(id).data_type;
        if data_type != DataType::Float {
            found.tensor(rule, id, rule.summary, format!("{data_type}"));
        }
    }

    fn results_in_fp8(&self, found: &mut Findings) {
        let rows = self.graph.operation(self.attention.softmax);
        for id in Softmax::STATISTICS.iter().filter_map(|&port| rows.output(port)) {
            let tensor = self.tensor(id);
            if tensor.data_type != DataType::Float {
                found.tensor(&F8F_STATS, id, F8F_STATS.summary, format!("{}", tensor.data_type));
            }
            if !tensor.is_virtual && !Layout::RowMajor.holds_packed(tensor) {
                found.tensor(&F8F_STATS, id, F8F_STATS.summary, layout::describe(tensor));
            }
        }
        let o = self.attention.result(self.graph);
        let tensor = self.tensor(o);
        if tensor.is_virtual {
            return; // what becomes of it is told by `F8F_FORM`
        }
        if !tensor.data_type.is_fp8() {
            found.tensor(&F8F_O, o, F8F_O.summary, format!("{}", tensor.data_type));
        }
        contiguous(self.graph, &F8F_O, (o, 3), found);
    }
}
