//! Compute capability, generic limitations and variations.

use crate::fusion;
use crate::graph::{Attributes, Convolution, ConvolutionDirection, OperationId};
use crate::support::context::Context;
use crate::support::findings::Findings;
use crate::support::forms::one_of;

/// The chip is listed, the surface has the pattern, and the convolution parameters are within its limits.
pub(super) fn check(cx: &Context, found: &mut Findings) {
    let listed = &cx.surface.capabilities;
    if !listed.admits(&cx.capability) {
        found.graph(listed.rule, one_of(listed.allowed), cx.capability.to_string());
    }
    excluded_pattern(cx, found);
    for (id, operation) in cx.operations() {
        if let Attributes::Convolution(convolution) = &operation.attributes {
            parameters(cx, found, id, convolution);
        }
    }
}

fn excluded_pattern(cx: &Context, found: &mut Findings) {
    let Ok(fusion) = &cx.facts.fusion else { return };
    let Some(rule) = cx.surface.excludes(fusion.pattern()) else { return };
    match fusion.product().map(|product| product.operation) {
        Some(core) => found.operation(rule, core, rule.summary, cx.graph.operation(core).tag()),
        None => found.graph(rule, rule.summary, without_core(cx)),
    }
}

fn without_core(cx: &Context) -> String {
    match cx.unnamed_operation() {
        Some(operation) if matches!(operation.attributes, Attributes::Composite(_)) => {
            format!("none, but {}", operation.tag())
        }
        Some(operation) => format!("none, and {}, which no engine executes yet", operation.tag()),
        None => "none".to_owned(),
    }
}

fn parameters(cx: &Context, found: &mut Findings, id: OperationId, convolution: &Convolution) {
    let is_strided = convolution.stride.iter().any(|&stride| stride != 1);
    if let Some(rule) = cx.surface.unit_backward_stride
        && convolution.direction == ConvolutionDirection::BackwardData
        && is_strided
    {
        found.operation(rule, id, "filter stride 1 on every axis", format!("{:?}", convolution.stride));
    }
    if let Some(rule) = cx.surface.single_group {
        let groups = fusion::groups(cx.graph, id);
        if groups != 1 {
            found.operation(rule, id, "one group", format!("{groups} groups"));
        }
    }
}
