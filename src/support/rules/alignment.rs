//! Alignment of tensors in device memory.

use crate::fusion::Pattern;
use crate::graph::{Attributes, FinalTensor, TensorId};
use crate::support::context::{Context, Core};
use crate::support::findings::Findings;
use crate::support::layout::{self, Layout};
use crate::support::rule::Rule;
use crate::support::rules::unfused;
use crate::support::surface::Alignment;

/// Pointers and strides of mainloop inputs and epilogue tensors are multiples of the required bits.
pub(super) fn check(cx: &Context, found: &mut Findings) {
    if let (Some(core), Some(limits)) = (&cx.facts.core, cx.limits()) {
        if !core.is_ranked {
            return;
        }
        let is_fused = core.operands.iter().any(|operand| operand.is_fused);
        let alignment = &cx.surface.mainloop.alignment;
        let bits = limits.bare_alignment_bits.filter(|_| !is_fused).unwrap_or(alignment.bits);
        mainloop(cx, found, core, &Alignment { rule: alignment.rule, bits });
    } else if unfused::dims(cx).is_none() {
        return;
    }
    if let Some(limits) = &cx.surface.epilogue.alignment {
        epilogue(cx, found, limits);
    }
}

fn mainloop(cx: &Context, found: &mut Findings, core: &Core, limit: &Alignment) {
    for (side, operand) in core.operands.iter().enumerate() {
        for &id in operand.inputs.iter().filter(|&&id| !cx.tensor(id).is_virtual) {
            aligned(cx, found, limit, id);
            if let (Some(rule), true) = (cx.surface.mainloop.group_alignment, core.groups > 1) {
                group_aligned(cx, found, (rule, limit.bits), id, channels_per_group(cx, core, side, id));
            }
        }
    }
}

fn epilogue(cx: &Context, found: &mut Findings, [limit, pointwise]: &[Alignment; 2]) {
    let tensors = &cx.facts.epilogue;
    tensors.inputs.iter().for_each(|&id| aligned(cx, found, limit, id));
    for &id in &tensors.outputs {
        let writer = cx.graph.producer(id).map(|producer| &cx.graph.operation(producer).attributes);
        let limit = if matches!(writer, Some(Attributes::Pointwise(_))) { pointwise } else { limit };
        aligned(cx, found, limit, id);
    }
}

/// The pointer, and every stride but that of the contiguous axis.
fn aligned(cx: &Context, found: &mut Findings, limit: &Alignment, id: TensorId) {
    let tensor = cx.tensor(id);
    if !found.asks_alignment(id) {
        return;
    }
    let bits = limit.bits;
    if !is_multiple(i128::from(tensor.alignment) * 8, bits) {
        let text = format!("a pointer aligned to {} bytes", tensor.alignment);
        found.tensor(limit.rule, id, format!("a pointer aligned to {} bytes", bits / 8), text);
    } else if layout::has_unaligned_stride(tensor, bits) {
        let required = format!("strides that are multiples of {}", elements(tensor, bits));
        let text = format!("{} of {}", layout::describe(tensor), tensor.data_type);
        found.tensor(limit.rule, id, required, text);
    }
}

/// `8 elements (128 bits)`.
fn elements(tensor: &FinalTensor, bits: u64) -> String {
    format!("{} elements ({bits} bits), save along the contiguous axis", bits.div_ceil(tensor.data_type.bits()))
}

/// Channels that one group has in this tensor, where its channel axis has its full extent.
fn channels_per_group(cx: &Context, core: &Core, side: usize, id: TensorId) -> Option<i64> {
    let pattern = cx.facts.fusion.as_ref().ok()?.pattern();
    let is_filter = side == 1 && pattern != Pattern::ConvolutionBackwardFilter;
    let full = cx.tensor(core.operands[side].tensor).dim[1];
    let channels = cx.tensor(id).dim[1];
    match is_filter {
        true => Some(channels),
        false if channels == full => Some(channels / core.groups),
        false => None,
    }
}

fn group_aligned(
    cx: &Context,
    found: &mut Findings,
    (rule, bits): (&'static Rule, u64),
    id: TensorId,
    channels: Option<i64>,
) {
    let tensor = cx.tensor(id);
    let Some(channels) = channels.filter(|_| found.asks_alignment(id) && Layout::Nhwc.holds(tensor)) else { return };
    if !is_multiple(i128::from(channels) * i128::from(tensor.data_type.bits()), bits) {
        let text = format!("{channels} channels of {} in a group", tensor.data_type);
        found.tensor(rule, id, format!("groups that are multiples of {bits} bits"), text);
    }
}

fn is_multiple(value: i128, of: u64) -> bool {
    value % i128::from(of) == 0
}
