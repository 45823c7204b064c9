//! Attention whose probabilities lie in memory, forward and backward: Mha-fprop and Mha-bprop.

use std::collections::BTreeSet;

use super::mha_records::*;
use super::{CHIPS, Limits, Subject, extent, is_half};
use crate::fusion::{Fusion, Mha, MhaBackward, MhaForward, Stage};
use crate::graph::{
    Attributes, Composite, DataType, FinalizedGraph, OperationId, PointwiseMode, Port, ReductionMode, Reordering,
    ScoreMask, TensorId,
};
use crate::support::findings::Findings;
use crate::support::layout;
use crate::support::rule::Rule;

/// Elements of a head.
const HEAD: i64 = 64;

/// Queries, and keys, at most.
const LONGEST: i64 = 512;

/// What lengths of a pass for training are multiples of.
const BLOCK: i64 = 64;

/// Mha-fprop.
pub(super) struct MhaFprop;

/// Mha-bprop.
pub(super) struct MhaBprop;

impl Limits for MhaFprop {
    fn concerns(&self, subject: &Subject) -> bool {
        forward(subject).is_some()
    }

    fn check(&self, subject: &Subject, found: &mut Findings) {
        let Some(forward) = forward(subject) else { return };
        chip(subject, found);
        let view = View { graph: subject.graph };
        view.between(forward, found);
        view.others(&MHAF_G4, subject, |_| false, found);
        let products = [forward.scores, forward.output];
        view.products([&MHAF_MM_COMP, &MHAF_MM_IN, &MHAF_MM_OUT], &products, found);
        view.heads(forward, found);
        view.stored(forward, found);
    }
}

impl Limits for MhaBprop {
    fn concerns(&self, subject: &Subject) -> bool {
        backward(subject).is_some()
    }

    fn check(&self, subject: &Subject, found: &mut Findings) {
        let Some(backward) = backward(subject) else { return };
        chip(subject, found);
        let view = View { graph: subject.graph };
        view.fixed(backward, found);
        view.others(&MHAB_FIXED, subject, |id| view.is_bias_gradient(id, backward), found);
        view.products([&MHAB_MM_COMP, &MHAB_MM_IN, &MHAB_MM_OUT], &backward.products(), found);
        view.gradients(backward, found);
    }
}

fn chip(subject: &Subject, found: &mut Findings) {
    if !CHIPS.contains(&subject.capability) {
        found.graph(&MHAF_CC, MHAF_CC.summary, subject.capability.to_string());
    }
}

fn fusion<'a>(subject: &Subject<'a>) -> Option<&'a Fusion> {
    subject.facts.fusion.as_ref().ok()
}

/// The forward pass of a graph. One that neither stores S nor lacks a softmax is a flash attention.
fn forward<'a>(subject: &Subject<'a>) -> Option<&'a MhaForward> {
    match fusion(subject)?.mha()? {
        Mha::Forward(forward) => Some(forward),
        Mha::Backward(_) => None,
    }
}

fn backward<'a>(subject: &Subject<'a>) -> Option<&'a MhaBackward> {
    match fusion(subject)?.mha()? {
        Mha::Backward(backward) => Some(backward),
        Mha::Forward(_) => None,
    }
}

struct View<'a> {
    graph: &'a FinalizedGraph,
}

impl View<'_> {
    fn data_type(&self, id: TensorId) -> DataType {
        self.graph.tensor(id).data_type
    }

    fn composite(&self, id: OperationId) -> Option<&Composite> {
        match &self.graph.operation(id).attributes {
            Attributes::Composite(composite) => Some(composite),
            _ => None,
        }
    }

    /// Operations beside the pattern.
    fn others(
        &self,
        rule: &'static Rule,
        subject: &Subject,
        is_known: impl Fn(OperationId) -> bool,
        found: &mut Findings,
    ) {
        let is_core = |id| fusion(subject).is_some_and(|fusion| fusion.stage(id) == Stage::Core);
        for id in self.graph.operation_ids().filter(|&id| !is_core(id) && !is_known(id)) {
            found.operation(rule, id, rule.summary, self.graph.operation(id).tag());
        }
    }

    fn is_computed_in_float(&self, rule: &'static Rule, id: OperationId, found: &mut Findings) {
        let compute = self.graph.compute_type(id);
        if compute != DataType::Float {
            found.operation(rule, id, "computed in FLOAT", format!("computed in {compute}"));
        }
    }

    /// Types that products compute in, read and give.
    fn products(&self, rules: [&'static Rule; 3], products: &[OperationId], found: &mut Findings) {
        let [computes, reads, gives] = rules;
        let mut read = BTreeSet::new();
        for &id in products {
            self.is_computed_in_float(computes, id, found);
            let operation = self.graph.operation(id);
            read.extend([Port::A, Port::B].into_iter().filter_map(|port| operation.input(port)));
            let result = operation.output(Port::C).map(|id| (id, self.data_type(id)));
            if let Some((id, data_type)) = result.filter(|slot| !is_half(slot.1) && slot.1 != DataType::Float) {
                found.tensor(gives, id, gives.summary, data_type.name());
            }
        }
        for id in read.into_iter().filter(|&id| !is_half(self.data_type(id))) {
            found.tensor(reads, id, reads.summary, self.data_type(id).name());
        }
    }

    /// What is between the products of a forward pass.
    fn between(&self, forward: &MhaForward, found: &mut Findings) {
        for &id in &forward.between {
            match self.composite(id) {
                Some(Composite::Softmax(_)) => self.softmax(id, found),
                Some(Composite::Dropout(_)) => self.random_numbers(id, found),
                Some(Composite::MaskedDropout(_)) => self.mask_of_caller(id, found),
                Some(Composite::ScoreMask(mask)) => self.mask(id, *mask, found),
                _ => self.pointwise(id, found),
            }
        }
    }

    fn softmax(&self, id: OperationId, found: &mut Findings) {
        self.is_computed_in_float(&MHAF_RED, id, found);
        let operation = self.graph.operation(id);
        let read = operation.input(Port::X).filter(|&x| self.data_type(x) != DataType::Float);
        if let Some(x) = read {
            found.tensor(&MHAF_RED, x, MHAF_RED.summary, self.data_type(x).name());
        }
        if operation.input(Port::SINK).is_some() {
            found.operation(&MHAF_G4, id, MHAF_G4.summary, "a sink");
        }
    }

    fn random_numbers(&self, id: OperationId, found: &mut Findings) {
        let stored = self.graph.operation(id).output(Port::RNG_DUMP);
        if let Some(stored) = stored.filter(|&stored| self.data_type(stored) != DataType::Float) {
            found.tensor(&MHAF_RNG_Y, stored, MHAF_RNG_Y.summary, self.data_type(stored).name());
        }
    }

    fn mask_of_caller(&self, id: OperationId, found: &mut Findings) {
        let mask = self.graph.operation(id).input(Port::DROPOUT_MASK);
        if let Some(mask) = mask.filter(|&mask| !is_half(self.data_type(mask))) {
            found.tensor(&MHAF_USERMASK, mask, MHAF_USERMASK.summary, self.data_type(mask).name());
        }
    }

    /// Padding, and the causal mask from the top left corner.
    fn mask(&self, id: OperationId, mask: ScoreMask, found: &mut Findings) {
        let operation = self.graph.operation(id);
        let has_others =
            [Port::LEFT_BOUND, Port::RIGHT_BOUND, Port::BLOCK_MASK].iter().any(|&port| operation.input(port).is_some());
        let is_causal =
            matches!(mask.right_bound, None | Some(0)) && mask.left_bound.is_none() && !mask.is_bottom_right;
        if !is_causal || has_others {
            found.operation(&MHAF_G4, id, MHAF_G4.summary, "a mask of another kind");
        }
    }

    /// A scale, a bias, and masks where no softmax follows them.
    fn pointwise(&self, id: OperationId, found: &mut Findings) {
        use PointwiseMode as M;
        self.is_computed_in_float(&MHAF_PW_COMP, id, found);
        const KNOWN: [M; 7] = [M::Mul, M::Add, M::GenIndex, M::CmpLt, M::CmpGe, M::LogicalAnd, M::BinarySelect];
        let mode = self.graph.operation(id).pointwise_mode();
        if let Some(mode) = mode.filter(|mode| !KNOWN.contains(mode)) {
            found.operation(&MHAF_G4, id, MHAF_G4.summary, mode.name());
        }
    }

    /// Operands and result of a forward pass.
    fn heads(&self, forward: &MhaForward, found: &mut Findings) {
        let operand = |id: OperationId, port| self.graph.operation(id).input(port);
        let (scores, output) = (forward.scores, forward.output);
        let (Some(q), Some(k)) = (operand(scores, Port::A), operand(scores, Port::B)) else { return };
        let (Some(v), Some(o)) = (operand(output, Port::B), self.graph.operation(output).output(Port::C)) else {
            return;
        };
        let [queries, size, keys] = [(q, 2), (q, 3), (k, 3)].map(|(id, axis)| extent(self.graph.tensor(id), axis));
        if size != HEAD {
            found.tensor(&MHAF_K64, q, HEAD.to_string(), size.to_string());
        }
        for (id, length) in [(q, queries), (k, keys)] {
            if length > LONGEST {
                found.tensor(&MHAF_MN512, id, format!("at most {LONGEST}"), length.to_string());
            }
            if forward.stored.is_some() && length % BLOCK != 0 {
                found.tensor(&MHAF_SEQ_TRAIN, id, format!("a multiple of {BLOCK}"), length.to_string());
            }
        }
        let whole =
            [(&MHAF_STRIDE_QVO, q, 3), (&MHAF_STRIDE_QVO, v, 3), (&MHAF_STRIDE_K, k, 2), (&MHAF_STRIDE_QVO, o, 3)];
        for (rule, id, axis) in whole.into_iter().filter(|row| !self.graph.tensor(row.1).is_virtual) {
            super::contiguous(self.graph, rule, (id, axis), found);
        }
    }

    fn stored(&self, forward: &MhaForward, found: &mut Findings) {
        if let Some(s) = forward.stored {
            self.reordered(&MHAF_S_REORDER, s, found);
        }
    }

    fn reordered(&self, rule: &'static Rule, id: TensorId, found: &mut Findings) {
        let tensor = self.graph.tensor(id);
        if tensor.reordering != Reordering::F16x16 {
            found.tensor(rule, id, "reordered as F16x16", layout::describe(tensor));
        }
    }

    /// g5 and g6 of a backward pass.
    fn fixed(&self, backward: &MhaBackward, found: &mut Findings) {
        use PointwiseMode as M;
        const OF_PROBABILITIES: &[M] = &[M::Mul, M::ReluFwd];
        const OF_GRADIENTS: &[M] =
            &[M::Abs, M::CmpGt, M::Mul, M::BinarySelect, M::Sub, M::GenIndex, M::CmpLt, M::CmpGe, M::LogicalAnd];
        let mut sums = 0;
        for (stage, known) in [(&backward.g5, OF_PROBABILITIES), (&backward.g6, OF_GRADIENTS)] {
            for &id in stage {
                match &self.graph.operation(id).attributes {
                    Attributes::Pointwise(pointwise) => {
                        self.is_computed_in_float(&MHAB_PW, id, found);
                        if !known.contains(&pointwise.mode) {
                            found.operation(&MHAB_FIXED, id, MHAB_FIXED.summary, pointwise.mode.name());
                        }
                    }
                    Attributes::Reduction(reduction) => {
                        sums += usize::from(reduction.mode == ReductionMode::Add);
                        self.reduction(id, found);
                    }
                    _ => {}
                }
            }
        }
        if sums != 1 {
            found.operation(&MHAB_FIXED, backward.d_s, "one sum of rows behind it", format!("{sums} of them"));
        }
    }

    fn reduction(&self, id: OperationId, found: &mut Findings) {
        self.is_computed_in_float(&MHAB_RED, id, found);
        let operation = self.graph.operation(id);
        let tensors = operation.input_tensors().chain(operation.output_tensors());
        for id in tensors.filter(|&id| self.data_type(id) != DataType::Float) {
            found.tensor(&MHAB_RED, id, MHAB_RED.summary, self.data_type(id).name());
        }
    }

    /// Whether an operation adds gradients of scores up over the batches.
    fn is_bias_gradient(&self, id: OperationId, backward: &MhaBackward) -> bool {
        let operation = self.graph.operation(id);
        let Attributes::Reduction(reduction) = &operation.attributes else { return false };
        let of_scores = &self.graph.tensor(backward.d_p).dim;
        let added = operation.output(Port::Y).map(|y| &self.graph.tensor(y).dim);
        let is_of_batches = added.is_some_and(|dim| dim[0] == 1 && dim[1..] == of_scores[1..]);
        let of = operation.input(Port::X);
        reduction.mode == ReductionMode::Add && of == Some(backward.d_p) && is_of_batches
    }

    /// Extents and layouts of a backward pass.
    fn gradients(&self, backward: &MhaBackward, found: &mut Findings) {
        let operand = |id: OperationId, port| self.graph.operation(id).input(port);
        let given = [
            (backward.d_s, Port::A, 3),
            (backward.d_s, Port::B, 2),
            (backward.d_q, Port::B, 3),
            (backward.d_k, Port::B, 3),
        ];
        let given: Vec<(TensorId, usize)> =
            given.into_iter().filter_map(|(id, port, axis)| Some((operand(id, port)?, axis))).collect();
        if let Some(&(d_o, axis)) = given.first() {
            let size = extent(self.graph.tensor(d_o), axis);
            if size != HEAD {
                found.tensor(&MHAB_K2, d_o, HEAD.to_string(), size.to_string());
            }
        }
        let lengths = [2, 3].map(|axis| extent(self.graph.tensor(backward.s), axis));
        if let Some(length) = lengths.into_iter().find(|length| length % BLOCK != 0 || *length > LONGEST) {
            found.tensor(
                &MHAB_K512,
                backward.s,
                format!("multiples of {BLOCK}, at most {LONGEST}"),
                length.to_string(),
            );
        }
        given.into_iter().for_each(|slot| super::contiguous(self.graph, &MHAB_STRIDE, slot, found));
        [backward.s, backward.d_p].into_iter().for_each(|id| self.reordered(&MHAB_REORDER, id, found));
    }
}
