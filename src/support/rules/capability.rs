//! Compute capability, generic limitations and variations.

use crate::fusion;
use crate::graph::{Attributes, Convolution, ConvolutionDirection, OperationId};
use crate::support::context::Context;
use crate::support::findings::Findings;
use crate::support::forms::one_of;
use crate::support::rule::{ARCH, OTHER, PATTERN, PERMISSION, TYPE, restated, rules};

rules! {
    S90, "003 Support Surface 90, Compute Capability" {
        S90_CC = "S90-CC", "graph", ARCH, "compute capability 9.0";
    }
    S90, "003 Support Surface 90, Generic Limitations" {
        S90_LIM_CBD_STRIDE = "S90-LIM-CBD-STRIDE", "CBD core", OTHER, "backward data has filter stride 1 on every axis";
        S90_LIM_NO_PW = "S90-LIM-NO-PW", "PW", PATTERN, "a matmul or convolution in the graph";
    }
    S90, "003 Support Surface 90, Advanced Matmul/Convolution Variations" {
        S90_MIXED = "S90-MIXED", "MM, CF, CBD", PERMISSION, "g1 may convert an operand to the type the core computes on";
        S90_MIXED_NO_CBF = "S90-MIXED-NO-CBF", "CBF g1", TYPE, "no operation of g1 changes the type of a backward-filter operand";
        S90_GROUP = "S90-GROUP", "CF, CBF, CBD", PERMISSION, "convolutions may be grouped";
    }
    S90, "003 Support Surface 90, dimension tables" {
        S90_PW_NONE = "S90-PW-NONE", "PW", restated("S90-LIM-NO-PW"), "pure pointwise graphs are not supported";
    }
    S80, "003 Support Surface 80, Compute Capability" {
        S80_CC = "S80-CC", "graph", ARCH, "compute capability 8.0, 8.6, 8.7, 8.9 or 9.0";
    }
    S80, "003 Support Surface 80, Generic Limitations" {
        S80_LIM_NO_CBF = "S80-LIM-NO-CBF", "CBF", PATTERN, "no backward-filter convolution";
        S80_LIM_NO_CBD = "S80-LIM-NO-CBD", "CBD", PATTERN, "no backward-data convolution";
        S80_LIM_NO_PW = "S80-LIM-NO-PW", "PW", PATTERN, "a matmul or convolution in the graph";
    }
    S80, "003 Support Surface 80, Advanced Matmul/Convolution Variations" {
        S80_MIXED = "S80-MIXED", "MM, CF", PERMISSION, "g1 may convert an operand to the type the core computes on";
        S80_GROUP = "S80-GROUP", "CF", PERMISSION, "forward convolution may be grouped";
    }
    S80, "003 Support Surface 80, dimension tables" {
        S80_CBF_NONE = "S80-CBF-NONE", "CBF", restated("S80-LIM-NO-CBF"), "backward-filter convolution is not supported";
        S80_CBD_NONE = "S80-CBD-NONE", "CBD", restated("S80-LIM-NO-CBD"), "backward-data convolution is not supported";
        S80_PW_NONE = "S80-PW-NONE", "PW", restated("S80-LIM-NO-PW"), "pure pointwise graphs are not supported";
    }
    S70, "003 Support Surface 70, Compute Capability" {
        S70_CC = "S70-CC", "graph", ARCH, "compute capability 7.0, 7.2, 7.5, 8.0, 8.6, 8.7, 8.9 or 9.0";
    }
    S70, "003 Summary of Supported Features of Each Support Surface" {
        S70_NO_MIXED = "S70-NO-MIXED", "MM, CF, CBF, CBD g1", TYPE, "g1 leaves the type of its operand as it is";
        S70_NO_GROUP = "S70-NO-GROUP", "CF, CBF, CBD core", PATTERN, "convolutions have one group";
    }
}

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
