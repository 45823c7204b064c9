//! Convolutions beside batch norms: what scales, shifts and activates their X, and statistics of their result.

use super::records::*;
use super::{View, channel};
use crate::device::ComputeCapability;
use crate::graph::{Attributes, ConvolutionDirection, DataType, OperationId, PointwiseMode, TensorId};
use crate::support::findings::Findings;
use crate::support::rule::Rule;

const HOPPER: ComputeCapability = ComputeCapability::SM_90;
const SINCE_80_BUT_89: &[ComputeCapability] =
    &[ComputeCapability::SM_80, ComputeCapability::SM_86, ComputeCapability::new(8, 7), HOPPER];

/// `relu(x·scale + bias)`, of which each part may be absent.
#[derive(Default)]
struct Branch {
    input: Option<TensorId>,
    operations: Vec<OperationId>,
    /// Results of its operations.
    values: Vec<TensorId>,
    activation: Option<(OperationId, PointwiseMode)>,
    scale: Option<TensorId>,
    bias: Option<TensorId>,
}

impl Branch {
    /// What leads to a value.
    fn to(view: &View, mut value: TensorId) -> Self {
        let mut branch = Self::default();
        while let Some((id, operation, mode)) = view.pointwise(value) {
            let is_full = |&input: &TensorId| view.tensor(input).dim == view.tensor(value).dim;
            let (full, sides): (Vec<TensorId>, Vec<TensorId>) = operation.input_tensors().partition(is_full);
            let (&[inner], side) = (full.as_slice(), sides.first().copied()) else { break };
            match mode {
                PointwiseMode::Add if branch.bias.is_none() && branch.scale.is_none() && side.is_some() => {
                    branch.bias = side;
                }
                PointwiseMode::Mul if branch.scale.is_none() && side.is_some() => branch.scale = side,
                mode if mode.is_activation() && branch.operations.is_empty() => branch.activation = Some((id, mode)),
                _ => break,
            }
            branch.operations.push(id);
            branch.values.push(value);
            value = inner;
        }
        branch.input = Some(value);
        branch
    }

    fn vectors(&self) -> impl Iterator<Item = TensorId> + use<> {
        [self.scale, self.bias].into_iter().flatten()
    }

    fn is_relu(&self, rule: &'static Rule, found: &mut Findings) {
        if let Some((id, mode)) = self.activation.filter(|activation| activation.1 != PointwiseMode::ReluFwd) {
            found.operation(rule, id, "RELU_FWD", mode.name());
        }
    }
}

fn is_half(view: &View, rule: &'static Rule, tensors: impl IntoIterator<Item = TensorId>, found: &mut Findings) {
    for id in tensors.into_iter().filter(|&id| view.tensor(id).data_type != DataType::Half) {
        found.tensor(rule, id, "HALF", view.tensor(id).data_type.name());
    }
}

/// Statistics of the convolution's result.
fn statistics(view: &View) -> Vec<OperationId> {
    let y = view.result();
    let is_own =
        |slot: &super::Slot| matches!(slot.1.attributes, Attributes::GenStats) && slot.1.input_tensors().next() == y;
    view.operations().filter(is_own).map(|slot| slot.0).collect()
}

/// The sum of two images before the convolution, and the ReLU behind it.
fn sum(view: &View) -> Option<(OperationId, [TensorId; 2], Option<OperationId>)> {
    let mut value = view.operands()?[0];
    let relu = view.pointwise(value).filter(|slot| slot.2 == PointwiseMode::ReluFwd);
    if let Some((_, operation, _)) = relu {
        value = operation.input_tensors().next()?;
    }
    let (id, operation, _) = view.pointwise(value).filter(|slot| slot.2 == PointwiseMode::Add)?;
    let mut inputs = operation.input_tensors();
    let operands = [inputs.next()?, inputs.next()?];
    let are_full = operands.iter().all(|&input| view.tensor(input).dim == view.tensor(value).dim);
    are_full.then_some((id, operands, relu.map(|slot| slot.0)))
}

fn is_forward(view: &View) -> bool {
    view.convolution.direction == ConvolutionDirection::Forward && !statistics(view).is_empty()
}

/// ConvBNfprop.
pub(super) fn is_fprop(view: &View) -> bool {
    is_forward(view) && sum(view).is_none()
}

pub(super) fn fprop(view: &View, found: &mut Findings) {
    let (Some([z, w]), Some(y)) = (view.operands(), view.result()) else { return };
    let branch = Branch::to(view, z);
    view.chip(&CBN_CC, SINCE_80_BUT_89, found);
    view.others(&N_75, &[branch.operations.clone(), statistics(view)].concat(), found);
    branch.is_relu(&CBN_ACT, found);
    let steps = branch.operations.len();
    if view.capability >= HOPPER && !matches!(steps, 0 | 3) {
        let text = format!("{steps} of them");
        found.operation(&CBN_CC90, view.core, "scale, bias and ReLU before the convolution, or nothing", text);
    }
    is_half(view, &CBN_TYPE, branch.input.into_iter().chain(branch.values.first().copied()), found);
    is_half(view, &CBN_TYPE, branch.vectors().chain([w]), found);
    images(view, &branch, [w, y], found);
    branch.values.iter().for_each(|&value| view.is_virtual(&CBN_VIRT, value, true, found));
    view.is_virtual(&CBN_VIRT, y, false, found);
}

/// What ConvBNfprop and DBARCS ask of layouts, vectors, pointers and statistics.
fn images(view: &View, branch: &Branch, [w, y]: [TensorId; 2], found: &mut Findings) {
    branch.input.into_iter().chain([y]).for_each(|image| view.packed(&CBN_Z, image, found));
    view.packed(&CBN_W, w, found);
    if let Some(x) = branch.input {
        let required = channel(&view.tensor(x).dim);
        branch.vectors().for_each(|vector| view.has_dims(&CBN_SB, vector, &required, found));
    }
    view.aligned(&CBN_ALIGN, found);
    let outputs = statistics(view).into_iter().flat_map(|id| view.graph.operation(id).output_tensors());
    for id in outputs.filter(|&id| view.tensor(id).data_type != DataType::Float) {
        found.tensor(&CBN_GENSTATS, id, "FLOAT", view.tensor(id).data_type.name());
    }
}

/// DBARCS.
pub(super) fn is_dual(view: &View) -> bool {
    is_forward(view) && sum(view).is_some()
}

pub(super) fn dual(view: &View, found: &mut Findings) {
    let (Some([z, w]), Some(y), Some((add, operands, relu))) = (view.operands(), view.result(), sum(view)) else {
        return;
    };
    let [mut first, mut second] = operands.map(|operand| Branch::to(view, operand));
    let is_whole = |branch: &Branch| branch.scale.is_some() && branch.bias.is_some();
    if !is_whole(&first) && is_whole(&second) {
        std::mem::swap(&mut first, &mut second);
    }
    view.chip(&DBA_CC, &[HOPPER], found);
    let known = [first.operations.clone(), second.operations.clone(), statistics(view), vec![add]].concat();
    view.others(&N_75, &[known, relu.into_iter().collect()].concat(), found);
    if relu.is_none() {
        found.operation(&DBA_REQ, view.core, "a ReLU before the convolution", "none");
    }
    if !is_whole(&first) {
        found.operation(&DBA_REQ, add, "a scale and a bias of the first branch", "less");
    }
    if second.scale.is_some() != second.bias.is_some() {
        found.operation(&DBA_DUAL, add, "a scale and a bias of the second branch, or neither", "one of them");
    }
    [&first, &second].iter().for_each(|branch| branch.is_relu(&CBN_ACT, found));
    is_half(view, &CBN_TYPE, first.input.into_iter().chain(first.vectors()).chain([z, w]), found);
    is_half(view, &DBA_DTYPE, second.input.into_iter().chain(second.vectors()), found);
    images(view, &first, [w, y], found);
    if let Some(x) = second.input {
        view.packed(&CBN_Z, x, found);
        let required = channel(&view.tensor(x).dim);
        second.vectors().for_each(|vector| view.has_dims(&DBA_DSHAPE, vector, &required, found));
    }
    let between = first.values.iter().chain(&second.values).copied();
    between.for_each(|value| view.is_virtual(&DBA_VIRT, value, true, found));
    let results = relu.map(|_| z).into_iter().chain([y]);
    results.for_each(|value| view.is_virtual(&DBA_VIRT, value, false, found));
    one_by_one(view, w, found);
}

fn one_by_one(view: &View, w: TensorId, found: &mut Findings) {
    let paddings = || view.convolution.pre_padding.iter().chain(&view.convolution.post_padding);
    if view.tensor(w).dim.iter().skip(2).any(|&extent| extent != 1) || paddings().any(|&padding| padding != 0) {
        let text = format!("taps {:?}, padding {:?}", &view.tensor(w).dim[2..], paddings().collect::<Vec<_>>());
        found.operation(&DBA_W, view.core, "one tap, without padding", text);
    }
}

/// ConvBNwgrad; a filter gradient alone is a convolution like any other.
pub(super) fn is_wgrad(view: &View) -> bool {
    let is_made = |[_, x]: [TensorId; 2]| view.pointwise(x).is_some();
    view.convolution.direction == ConvolutionDirection::BackwardFilter && view.operands().is_some_and(is_made)
}

pub(super) fn wgrad(view: &View, found: &mut Findings) {
    let Some([dy, z]) = view.operands() else { return };
    let branch = Branch::to(view, z);
    view.chip(&CBW_CC, SINCE_80_BUT_89, found);
    view.others(&N_77, &branch.operations, found);
    branch.is_relu(&CBW_ACT, found);
    let steps = branch.operations.len();
    if view.capability >= HOPPER && steps != 3 {
        let text = format!("{steps} of them");
        found.operation(&CBW_CC90, view.core, "scale, bias and ReLU before the convolution", text);
    }
    let read: Vec<TensorId> = branch.input.into_iter().chain(branch.vectors()).chain([dy]).collect();
    is_half(view, &CBW_TYPE, read.iter().copied(), found);
    read.iter().for_each(|&id| view.packed(&CBW_LAYOUT, id, found));
    branch.values.iter().for_each(|&value| view.is_virtual(&CBW_VIRT, value, true, found));
    view.aligned(&CBW_ALIGN, found);
}
