//! Matmul and convolution: definitions, and recommendations that change no verdict (8.1).

use crate::fusion::Pattern;
use crate::graph::{DataType, TensorId};
use crate::support::context::{Context, Core};
use crate::support::layout::Layout;
use crate::support::records::core::{OP_FP8_REC_BWD, OP_FP8_REC_FWD};
use crate::support::rule::{Rule, SurfaceId};

/// Recommendations that a supported graph does not follow, as sentences for people (V-06).
pub(in crate::support) fn notes(cx: &Context) -> Vec<String> {
    let (Some(core), Ok(fusion)) = (&cx.facts.core, &cx.facts.fusion) else { return Vec::new() };
    let mut notes = slow_layouts(cx, core);
    let rule = match fusion.pattern() {
        Pattern::ConvolutionForward if cx.surface.id != SurfaceId::S70 => &OP_FP8_REC_FWD,
        Pattern::ConvolutionBackwardData if cx.surface.id == SurfaceId::S90 => &OP_FP8_REC_BWD,
        _ => return notes,
    };
    let operands = core.operands.iter().map(|operand| operand.tensor);
    let unusual = operands.filter(|&id| cx.tensor(id).data_type == DataType::Fp8E5M2);
    notes.extend(unusual.map(|id| note(cx, rule, id, "is FP8_E5M2")));
    if rule == &OP_FP8_REC_BWD && cx.graph.compute_type(core.id) == DataType::FastFloatForFp8 {
        notes.push(note(cx, rule, core.result, "is computed in FAST_FLOAT_FOR_FP8"));
    }
    notes
}

/// Layouts of 8-bit operands that may be slow.
fn slow_layouts(cx: &Context, core: &Core) -> Vec<String> {
    let Some(slow) = cx.limits().and_then(|limits| limits.slow.as_ref()) else { return Vec::new() };
    let mut notes = Vec::new();
    for (operand, layout) in core.operands.iter().zip(slow.operands) {
        let data_type = cx.tensor(operand.tensor).data_type;
        let is_narrow = data_type == DataType::Int8 || data_type.is_fp8();
        let other = if layout == Layout::Nhwc { Layout::Chwn } else { Layout::Nhwc };
        let tensor = cx.tensor(operand.anchor);
        if is_narrow && layout.holds(tensor) && !other.holds(tensor) {
            notes.push(note(cx, slow.rule, operand.anchor, &format!("is {} of {data_type}", layout.name())));
        }
    }
    notes
}

fn note(cx: &Context, rule: &Rule, id: TensorId, text: &str) -> String {
    format!("tensor {} {text}: {} [{}]", cx.graph.describe_tensor(id), rule.summary, rule.id)
}
