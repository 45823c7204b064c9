//! Matmul and convolution: definitions, and recommendations that change no verdict (8.1).

use crate::fusion::Pattern;
use crate::graph::{DataType, TensorId};
use crate::support::context::{Context, Core};
use crate::support::layout::Layout;
use crate::support::rule::{DEFINITION, NOTE, Rule, SurfaceId, rules};

rules! {
    ALL, "003 Matmul; 003 Convolutions; 002 9.2.10 to 9.2.12" {
        OP_MM_DEF = "OP-MM-DEF", "Matmul", DEFINITION, "C = A·B over the last two axes";
        OP_CONV_ATTR = "OP-CONV-ATTR", "convolutions", DEFINITION, "forward: X, W to Y; backward filter: X, DY to DW; backward data: W, DY to DX";
        OP_FP8_TC = "OP-FP8-TC", "FP8 operands", DEFINITION, "FP8 tensor cores; FLOAT accumulates accurately, FAST_FLOAT_FOR_FP8 fast";
    }
    S98, "003 Recommended Compute Type for FP8" {
        OP_FP8_REC_FWD = "OP-FP8-REC-FWD", "ConvolutionFwd", NOTE, "FP8_E4M3 tensors, computed in FAST_FLOAT_FOR_FP8 or FLOAT";
    }
    S90, "003 Recommended Compute Type for FP8" {
        OP_FP8_REC_BWD = "OP-FP8-REC-BWD", "ConvolutionBwdData", NOTE, "FP8_E4M3 tensors, computed in FLOAT";
    }
    ALL, "003 Recommended Compute Type for FP8" {
        OP_FP8_REC_BN = "OP-FP8-REC-BN", "BatchNorm", NOTE, "FP8_E4M3 tensors, computed in FLOAT";
        OP_FP8_REC_POOL = "OP-FP8-REC-POOL", "pooling", NOTE, "FP8_E4M3 or FP8_E5M2 tensors, computed in FLOAT";
        OP_FP8_REC_PW = "OP-FP8-REC-PW", "Pointwise", NOTE, "FP8_E4M3 or FP8_E5M2 tensors, computed in FLOAT";
    }
    S90, "003 Support Surface 90, Support Surface of Dimension and Layout for Tensors in g1" {
        S90_CBF_G1_PERF = "S90-CBF-G1-PERF", "CBF, INT8 or FP8", NOTE, "NHWC operands may be slow";
        S90_CBD_G1_PERF = "S90-CBD-G1-PERF", "CBD, INT8 or FP8", NOTE, "dy in CHWN, or W in NHWC, may be slow";
    }
}

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
