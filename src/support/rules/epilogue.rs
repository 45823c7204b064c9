//! Epilogue fusion (g2): operations, their order, dims of inputs and outputs.

use crate::fusion::{Pattern, Stage};
use crate::graph::{Attributes, Operation, OperationId, Port, TensorId};
use crate::support::context::{Context, Core, has_own_dims};
use crate::support::findings::Findings;
use crate::support::forms::{Forms, dims_text};
use crate::support::order;
use crate::support::rule::Rule;
use crate::support::surface::{DimLimit, Epilogue, OperationKind, ResamplePlacement, SignalLimits};

/// What g2 holds, in which order, around which core result.
pub(super) fn check(cx: &Context, found: &mut Findings) {
    operations(cx, found);
    if let Some(signal) = &cx.surface.epilogue.signal {
        signals(cx, found, signal);
    }
    if let Some(resample) = &cx.surface.epilogue.resample {
        resamples(cx, found, resample);
    }
    if let (Some(core), Some(limits)) = (&cx.facts.core, cx.limits()) {
        core_result(cx, found, core, &limits.epilogue);
        grouped(cx, found, core, &limits.epilogue);
        if core.is_ranked {
            let epilogue = &limits.epilogue;
            let dims = StageDims {
                full: &cx.tensor(core.result).dim,
                inputs: &epilogue.inputs,
                outputs: epilogue.outputs,
                reduction: Some(&epilogue.reduction),
            };
            stage_dims(cx, found, &dims);
        }
    }
}

/// Listed kinds of operation, one Reduction that nothing follows, no broadcast first input.
fn operations(cx: &Context, found: &mut Findings) {
    let limits = &cx.surface.epilogue;
    let mut reductions = 0;
    for (id, operation) in cx.staged(Stage::After) {
        if !matches!(operation.attributes, Attributes::GenStats) || limits.operations.admits(&OperationKind::GenStats) {
            order::listed_kind(found, &limits.operations, (id, operation), "");
        }
        if matches!(operation.attributes, Attributes::Reduction(_)) {
            reductions += 1;
            if reductions == 2 {
                found.operation(limits.operations.rule, id, "at most one Reduction", "a second one");
            }
            if let Some(reader) = reader(cx, operation) {
                let text = format!("{} reads its result", cx.graph.describe_operation(reader));
                found.operation(limits.reduction_exit, id, "a result that no operation reads", text);
            }
        }
        order::broadcast_first(cx, found, limits.broadcast_first, (id, operation));
    }
}

fn reader(cx: &Context, operation: &Operation) -> Option<OperationId> {
    operation.output_tensors().find_map(|output| cx.graph.consumers(output).first().copied())
}

fn signals(cx: &Context, found: &mut Findings, limits: &SignalLimits) {
    let is_signal = |operation: &Operation| matches!(operation.attributes, Attributes::Signal(_));
    let mut staged = cx.staged(Stage::After);
    let reduction = staged.find(|slot| matches!(slot.1.attributes, Attributes::Reduction(_))).map(|slot| slot.0);
    for (id, operation) in cx.staged(Stage::After).filter(|slot| is_signal(slot.1)) {
        let readers = operation.output_tensors().flat_map(|output| cx.graph.consumers(output));
        for &reader in readers.filter(|&&reader| !is_signal(cx.graph.operation(reader))) {
            let text = format!("{} reads its result", cx.graph.describe_operation(reader));
            found.operation(limits.last, id, "a result that no operation reads", text);
        }
        if let Some(reduction) = reduction {
            let text = cx.graph.describe_operation(reduction);
            found.operation(limits.without_reduction, id, "no Reduction beside a Signal", text);
        }
    }
}

fn resamples(cx: &Context, found: &mut Findings, limits: &ResamplePlacement) {
    let pattern = cx.facts.fusion.as_ref().map_or(Pattern::Pointwise, |fusion| fusion.pattern());
    for (id, operation) in cx.staged(Stage::After) {
        if OperationKind::of(&operation.attributes) != Some(OperationKind::Resample) {
            continue;
        }
        if !matches!(pattern, Pattern::ConvolutionForward | Pattern::Pointwise) {
            found.operation(
                limits.pattern,
                id,
                limits.pattern.summary,
                format!("a graph of the form {}", pattern.form()),
            );
        }
        if cx.capability < limits.since {
            found.operation(limits.capability, id, limits.capability.summary, cx.capability.to_string());
        }
        for input in operation.input_tensors().filter(|&input| !cx.is_input(input)) {
            found.slot(limits.input, (id, input), "a tensor in device memory", "a result of the graph");
        }
    }
}

/// The core result: its rank, and its place where it meets side inputs.
fn core_result(cx: &Context, found: &mut Findings, core: &Core, limits: &Epilogue) {
    if !core.is_ranked {
        let dim = &cx.tensor(core.result).dim;
        let required = format!("{}: {}", core.ranks(), limits.result.summary);
        found.slot(limits.result, (core.id, core.result), required, format!("dims {}", dims_text(dim)));
    }
    if limits.result_first {
        for slot in cx.staged(Stage::After) {
            order::derived_first(cx, found, limits.result, slot, |tensor| core.reaches(tensor));
        }
    }
}

/// Grouped convolutions: no Reduction, or nothing at all.
fn grouped(cx: &Context, found: &mut Findings, core: &Core, limits: &Epilogue) {
    if core.groups == 1 {
        return;
    }
    let text = format!("a convolution of {} groups before it", core.groups);
    if let (Some(rule), Some((first, _))) = (limits.grouped, cx.staged(Stage::After).next()) {
        found.operation(rule, first, "no operation after a grouped convolution", text.as_str());
    }
    for (id, operation) in cx.staged(Stage::After) {
        if let (Some(rule), Attributes::Reduction(_)) = (limits.grouped_reduction, &operation.attributes) {
            found.operation(rule, id, "no Reduction after a grouped convolution", text.as_str());
        }
    }
}

/// Dims that a stage lists around its full extents.
pub(super) struct StageDims<'a> {
    /// Dims of the core result, or the largest extents of a pure pointwise graph.
    pub(super) full: &'a [i64],
    pub(super) inputs: &'a DimLimit,
    pub(super) outputs: &'static Rule,
    /// `None` where the surface has no Reduction here at all.
    pub(super) reduction: Option<&'a DimLimit>,
}

/// Dims of the graph inputs, outputs and the reduction result of g2. Nothing is said of operations that the stage does
/// not list.
pub(super) fn stage_dims(cx: &Context, found: &mut Findings, dims: &StageDims) {
    let listed = &cx.surface.epilogue.operations;
    let mut is_reported = vec![false; cx.graph.tensors().len()];
    let is_listed = |slot: &(OperationId, &Operation)| {
        OperationKind::of(&slot.1.attributes).is_some_and(|kind| listed.admits(&kind))
    };
    for (id, operation) in cx.staged(Stage::After).filter(is_listed) {
        for &(port, input) in &operation.inputs {
            let is_side_input = cx.is_input(input) && !has_own_dims(operation, port);
            if is_side_input && !dims.inputs.forms.admit(&cx.tensor(input).dim, dims.full) {
                let is_first = !std::mem::replace(&mut is_reported[input.index()], true);
                if is_first {
                    misfit(cx, found, dims.inputs.rule, (id, input), (dims.inputs.forms, dims.full));
                }
            }
        }
        result_dims(cx, found, dims, (id, operation));
    }
}

fn result_dims(cx: &Context, found: &mut Findings, dims: &StageDims, (id, operation): (OperationId, &Operation)) {
    const FULL: Forms = Forms::new("ABC");
    let is_stored = |output: TensorId| !cx.tensor(output).is_virtual;
    for (port, output) in operation.outputs.iter().copied() {
        let (rule, forms) = match OperationKind::of(&operation.attributes) {
            Some(OperationKind::GenStats) => continue, // OP-GS-SHAPE
            Some(OperationKind::Reduction) if reader(cx, operation).is_some() => continue, // it is not the exit
            Some(OperationKind::Reduction) => match dims.reduction {
                Some(limit) => (limit.rule, limit.forms),
                None => continue,
            },
            Some(OperationKind::Resample) if port != Port::INDEX && !is_stored(output) => (dims.inputs.rule, FULL),
            _ if is_stored(output) => (dims.outputs, FULL),
            _ => continue,
        };
        if !forms.admit(&cx.tensor(output).dim, dims.full) {
            misfit(cx, found, rule, (id, output), (forms, dims.full));
        }
    }
}

fn misfit(
    cx: &Context,
    found: &mut Findings,
    rule: &'static Rule,
    slot: (OperationId, TensorId),
    (forms, full): (Forms, &[i64]),
) {
    let dim = &cx.tensor(slot.1).dim;
    found.slot(rule, slot, format!("dims {}", forms.list(full)), dims_text(dim));
    if dim.len() != full.len() {
        found.set_unranked(slot.1);
    }
}
