//! Scaling of probabilities and of O in FP8 (AT-P33): multiplications by numbers, whose operands may stand in either order, and what keeps
//! largest magnitudes.

use super::super::draft::Draft;
use super::super::{Attributes, OperationId, PointwiseMode, ReductionMode, TensorId};
use super::flow::Flow;
use super::unscaled;

/// What scales probabilities and O.
pub(super) struct Scaling {
    /// The probabilities before they are scaled.
    pub(super) p: TensorId,
    /// Operations that multiply by numbers, with what they multiply.
    steps: Vec<(OperationId, TensorId)>,
}

impl Scaling {
    /// The scaling that gives what a product multiplies, and of what it makes of it.
    pub(super) fn of(draft: &Draft, flow: &Flow, multiplied: TensorId, product: Option<TensorId>) -> Self {
        let mut scaling = Self { p: multiplied, steps: Vec::new() };
        let before = flow.writer(multiplied).and_then(|id| Some((id, value(draft, flow, id)?)));
        if let Some((operation, p)) = before.filter(|&(_, p)| is_virtual_with(draft, flow, p)) {
            scaling.p = p;
            scaling.steps.push((operation, p));
        }
        let mut open = product;
        while let Some(x) = open {
            let mut readers = flow.readers(draft, x).into_iter().filter(|&id| !is_amax(draft, id));
            let step = readers.next().filter(|_| readers.next().is_none());
            let step = step.filter(|&id| value(draft, flow, id) == Some(x) && draft.tensor(x).is_virtual);
            scaling.steps.extend(step.map(|id| (id, x)));
            open = step.and_then(|id| draft.operations[id.index()].result());
        }
        scaling
    }

    /// Values come before the numbers that they are multiplied by.
    pub(super) fn arrange(&self, draft: &mut Draft) {
        for &(id, x) in &self.steps {
            let operation = &mut draft.operations[id.index()];
            if let [(_, first), (_, second)] = &mut operation.inputs[..]
                && *first != x
            {
                std::mem::swap(first, second);
            }
        }
    }

    /// Values that are scaled.
    pub(super) fn values(&self) -> impl Iterator<Item = TensorId> + '_ {
        self.steps.iter().map(|step| step.1)
    }
}

/// What an operation multiplies by a number, or gives as it is.
fn value(draft: &Draft, flow: &Flow, id: OperationId) -> Option<TensorId> {
    let operation = &draft.operations[id.index()];
    let mode = unscaled(operation)?.mode;
    let inputs: Vec<TensorId> = operation.input_tensors().collect();
    let is_number = |id: TensorId| flow.writer(id).is_none() && draft.tensor(id).dim.iter().all(|&extent| extent == 1);
    match (mode, &inputs[..]) {
        (PointwiseMode::Identity, &[x]) => Some(x),
        (PointwiseMode::Mul, &[x, number]) | (PointwiseMode::Mul, &[number, x])
            if is_number(number) && !is_number(x) =>
        {
            Some(x)
        }
        _ => None,
    }
}

/// Whether a value is kept nowhere, and read by one operation beside what keeps its largest magnitude.
fn is_virtual_with(draft: &Draft, flow: &Flow, id: TensorId) -> bool {
    let readers = flow.readers(draft, id).into_iter().filter(|&id| !is_amax(draft, id));
    draft.tensor(id).is_virtual && readers.count() == 1
}

fn is_amax(draft: &Draft, id: OperationId) -> bool {
    let attributes = &draft.operations[id.index()].attributes;
    matches!(attributes, Attributes::Reduction(reduction) if reduction.mode == ReductionMode::Amax)
}
