//! Mainloop fusions (g1): operations, operands, dims of inputs.

use crate::fusion::{Side, Stage};
use crate::graph::{Attributes, DataType, Operation, OperationId, PointwiseMode, TensorId};
use crate::support::context::{Context, Core, Operand, spread};
use crate::support::findings::Findings;
use crate::support::forms::{Forms, dims_text};
use crate::support::order;
use crate::support::rule::Rule;
use crate::support::surface::{DimLimit, Mainloop, OperationKind, PatternLimits};

/// What g1 holds, what the core's operands are, and what flows into them.
pub(super) fn check(cx: &Context, found: &mut Findings) {
    let (Some(core), Some(limits)) = (&cx.facts.core, cx.limits()) else { return };
    for stage in Side::BOTH.map(Stage::Before) {
        operations(cx, found, stage);
        sequence(cx, found, stage);
        start(cx, found, stage);
    }
    for (side, operand) in core.operands.iter().enumerate() {
        whole_operand(cx, found, core, (limits, side));
        conversion(cx, found, operand);
        if let (true, Some(mainloop)) = (operand.is_fused, &limits.mainloop[side]) {
            fused_operand(cx, found, (core, operand), limits.operands[side], mainloop);
        }
    }
}

/// Listed kinds of operation, virtual results, no broadcast first input.
fn operations(cx: &Context, found: &mut Findings, stage: Stage) {
    let limits = &cx.surface.mainloop;
    for (id, operation) in cx.staged(stage) {
        order::listed_kind(found, &limits.operations, (id, operation), " before the matmul or convolution");
        for output in operation.output_tensors().filter(|&output| !cx.tensor(output).is_virtual) {
            found.slot(limits.virtual_, (id, output), "a virtual tensor", "a graph output");
        }
        if let Some(rule) = limits.broadcast_first {
            order::broadcast_first(cx, found, rule, (id, operation));
        }
    }
}

/// Concat and Signal do not depend on a Pointwise of the same stage.
fn sequence(cx: &Context, found: &mut Findings, stage: Stage) {
    let Some(rule) = cx.surface.mainloop.order else { return };
    for id in late_joins(cx, stage) {
        found.operation(rule, id, rule.summary, "it depends on a Pointwise of g1");
    }
}

/// Concat and Signal operations behind a Pointwise.
fn late_joins(cx: &Context, stage: Stage) -> Vec<OperationId> {
    let mut follows_pointwise = vec![false; cx.graph.tensors().len()];
    let mut late = Vec::new();
    for (id, operation) in cx.staged(stage) {
        let kind = OperationKind::of(&operation.attributes);
        let is_late = operation.input_tensors().any(|input| follows_pointwise[input.index()]);
        if is_late && matches!(kind, Some(OperationKind::Concat | OperationKind::Signal)) {
            late.push(id);
        }
        if is_late || kind == Some(OperationKind::Pointwise) {
            operation.output_tensors().for_each(|output| follows_pointwise[output.index()] = true);
        }
    }
    late
}

/// Chips that have no mainloop fusion.
fn start(cx: &Context, found: &mut Findings, stage: Stage) {
    let Some((rule, since)) = cx.surface.mainloop.since else { return };
    if let (true, Some((first, _))) = (cx.capability < since, cx.staged(stage).next()) {
        found.operation(
            rule,
            first,
            format!("no operation before the matmul or convolution on chips before {since}"),
            cx.capability.to_string(),
        );
    }
}

/// The operand itself: its rank and, on surface 70, its batch extent.
fn whole_operand(cx: &Context, found: &mut Findings, core: &Core, (limits, side): (&PatternLimits, usize)) {
    let (rule, operand) = (limits.operands[side], core.operands[side].tensor);
    let dim = &cx.tensor(operand).dim;
    if !core.is_ranked {
        let required = format!("{}: {}", core.ranks(), rule.summary);
        found.slot(rule, (core.id, operand), required, format!("dims {}", dims_text(dim)));
        found.set_unranked(operand);
        return;
    }
    let batch = cx.tensor(core.result).dim[0];
    if limits.full_batch && dim[0] != batch {
        let required = format!("batch extent {batch}, that of the result");
        found.slot(rule, (core.id, operand), required, format!("dims {}", dims_text(dim)));
    }
}

/// Where a surface has no mixed input precision, the anchor has the operand's type.
fn conversion(cx: &Context, found: &mut Findings, operand: &Operand) {
    let Some(rule) = cx.surface.mainloop.no_conversion else { return };
    let [anchor, full] = [operand.anchor, operand.tensor].map(|tensor| cx.tensor(tensor));
    let (from, to) = (anchor.data_type, full.data_type);
    if from != to && anchor.dim == full.dim {
        let required = format!("{to}, the type of the core operand {}", cx.graph.describe_tensor(operand.tensor));
        found.tensor(rule, operand.anchor, required, from.name());
    }
}

fn fused_operand(
    cx: &Context,
    found: &mut Findings,
    (core, operand): (&Core, &Operand),
    whole: &'static Rule,
    mainloop: &Mainloop,
) {
    match mainloop {
        Mainloop::Forbidden { empty, no_conversion } => {
            for (id, operation) in cx.staged(operand.stage) {
                found.operation(empty, id, empty.summary, operation.tag());
                changed_type(cx, found, *no_conversion, (id, operation));
            }
        }
        Mainloop::Broadcast { inputs, grouped_channel } => {
            let channel = grouped_channel.filter(|_| core.groups > 1);
            for slot in inputs_of(cx, operand).filter(|_| core.is_ranked) {
                broadcast_input(cx, found, (inputs, channel), operand, slot);
            }
        }
        Mainloop::HalfFirst { inputs, anchor, full } => {
            anchor_first(cx, found, whole, operand);
            half_first(cx, found, (core, operand), (inputs, anchor, full));
        }
        Mainloop::Chain { chain, data_type, operand: limit } => {
            let is_first = anchor_first(cx, found, whole, operand);
            half_chain(cx, found, data_type, operand);
            match chain_operands(cx, operand) {
                Err(text) => found.tensor(chain, operand.tensor, chain.summary, text),
                Ok(slots) if is_first && core.is_ranked => {
                    slots.into_iter().for_each(|slot| listed_dims(cx, found, limit, operand, slot));
                }
                Ok(_) => {}
            }
        }
    }
}

/// S90-MIXED-NO-CBF: a result of another type than what its operation converts (reporting conventions, 6).
fn changed_type(
    cx: &Context,
    found: &mut Findings,
    rule: Option<&'static Rule>,
    (id, operation): (OperationId, &Operation),
) {
    let (Some(rule), Some(input), Some(result)) = (rule, operation.input_tensors().next(), operation.result()) else {
        return;
    };
    let [from, to] = [input, result].map(|tensor| cx.tensor(tensor).data_type);
    if from != to {
        found.operation(rule, id, format!("a result of type {from}"), to.name());
    }
}

/// Graph inputs that Pointwise operations of the stage read, each use once. What a Concat or Signal reads is anchored
/// by its result, and nothing is said of operations that the stage does not list.
fn inputs_of<'a>(cx: &'a Context, operand: &Operand) -> impl Iterator<Item = (OperationId, TensorId)> + 'a {
    let staged = cx.staged(operand.stage).filter(|slot| is_pointwise(slot.1));
    let uses = staged.flat_map(|(id, operation)| operation.input_tensors().map(move |input| (id, input)));
    uses.filter(|&(_, input)| cx.graph.producer(input).is_none())
}

fn is_pointwise(operation: &Operation) -> bool {
    matches!(operation.attributes, Attributes::Pointwise(_))
}

fn broadcast_input(
    cx: &Context,
    found: &mut Findings,
    (inputs, grouped_channel): (&DimLimit, Option<&'static Rule>),
    operand: &Operand,
    slot: (OperationId, TensorId),
) {
    const CHANNEL: Forms = Forms::new("1Cs");
    const OTHERS: Forms = Forms::new("11s NCX");
    let (dim, full) = (&cx.tensor(slot.1).dim, &cx.tensor(operand.tensor).dim);
    match grouped_channel {
        Some(rule) if CHANNEL.admit(dim, full) && !OTHERS.admit(dim, full) => {
            found.slot(rule, slot, format!("dims {}", OTHERS.list(full)), dims_text(dim));
        }
        _ => listed_dims(cx, found, inputs, operand, slot),
    }
}

fn listed_dims(cx: &Context, found: &mut Findings, limit: &DimLimit, operand: &Operand, slot: (OperationId, TensorId)) {
    let (dim, full) = (&cx.tensor(slot.1).dim, &cx.tensor(operand.tensor).dim);
    if !limit.forms.admit(dim, full) {
        found.slot(limit.rule, slot, format!("dims {}", limit.forms.list(full)), dims_text(dim));
        if dim.len() != full.len() {
            found.set_unranked(slot.1);
        }
    }
}

/// Surface 70: the operand comes from its anchor at full size, and the anchor's values are first operands wherever
/// they meet others. Gives whether that holds.
fn anchor_first(cx: &Context, found: &mut Findings, rule: &'static Rule, operand: &Operand) -> bool {
    if !is_full_size(cx, operand) {
        let [anchor, full] = [operand.anchor, operand.tensor].map(|tensor| &cx.tensor(tensor).dim);
        found.tensor(rule, operand.anchor, format!("dims {}", dims_text(full)), dims_text(anchor));
        return false;
    }
    let mut is_derived = vec![false; cx.graph.tensors().len()];
    is_derived[operand.anchor.index()] = true;
    spread(cx.graph, cx.staged(operand.stage).map(|slot| slot.0), &mut is_derived);
    let mut holds = true;
    for slot in cx.staged(operand.stage) {
        holds &= order::derived_first(cx, found, rule, slot, |tensor| is_derived[tensor.index()]);
    }
    holds
}

fn is_full_size(cx: &Context, operand: &Operand) -> bool {
    cx.tensor(operand.anchor).dim == cx.tensor(operand.tensor).dim
}

fn require_half(cx: &Context, found: &mut Findings, rule: &'static Rule, tensor: TensorId) {
    let data_type = cx.tensor(tensor).data_type;
    if data_type != DataType::Half {
        found.tensor(rule, tensor, "HALF", data_type.name());
    }
}

/// Surface 70, matmul: A is HALF; the dims of the other inputs are asked for where Concat and Signal are in place.
fn half_first(
    cx: &Context,
    found: &mut Findings,
    (core, operand): (&Core, &Operand),
    (inputs, anchor, full): (&DimLimit, &'static Rule, &'static Rule),
) {
    if is_full_size(cx, operand) {
        require_half(cx, found, anchor, operand.anchor);
    }
    let is_in_order = core.is_ranked && late_joins(cx, operand.stage).is_empty();
    for slot in inputs_of(cx, operand).filter(|slot| is_in_order && slot.1 != operand.anchor) {
        half_operand(cx, found, (inputs, full), operand, slot);
    }
}

/// Another input of g1A: listed dims, and HALF if it is not broadcast at all.
fn half_operand(
    cx: &Context,
    found: &mut Findings,
    (inputs, full_size): (&DimLimit, &'static Rule),
    operand: &Operand,
    slot: (OperationId, TensorId),
) {
    const BROADCAST: Forms = Forms::new("111 BM1 B1K");
    listed_dims(cx, found, inputs, operand, slot);
    let (dim, full) = (&cx.tensor(slot.1).dim, &cx.tensor(operand.tensor).dim);
    if dim == full && !BROADCAST.admit(dim, full) {
        require_half(cx, found, full_size, slot.1);
    }
}

/// S70-CONV-G1-HALF: every tensor that a Pointwise of g1 reads or writes.
fn half_chain(cx: &Context, found: &mut Findings, rule: &'static Rule, operand: &Operand) {
    let mut tensors: Vec<TensorId> = Vec::new();
    for (_, operation) in cx.staged(operand.stage).filter(|slot| is_pointwise(slot.1)) {
        tensors.extend(operation.input_tensors().chain(operation.output_tensors()));
    }
    tensors.sort_unstable();
    tensors.dedup();
    tensors.into_iter().for_each(|tensor| require_half(cx, found, rule, tensor));
}

/// S70-CONV-G1-CHAIN: the operands of MUL and ADD, or what breaks the chain. No Pointwise at all is a chain, too.
fn chain_operands(cx: &Context, operand: &Operand) -> Result<Vec<(OperationId, TensorId)>, String> {
    const CHAIN: [PointwiseMode; 3] = [PointwiseMode::Mul, PointwiseMode::Add, PointwiseMode::ReluFwd];
    let chain: Vec<(OperationId, &Operation)> = cx.staged(operand.stage).filter(|slot| is_pointwise(slot.1)).collect();
    let modes: Vec<PointwiseMode> = chain.iter().filter_map(|slot| slot.1.pointwise_mode()).collect();
    if modes.is_empty() {
        return Ok(Vec::new());
    }
    let is_linked = |pair: &[(OperationId, &Operation)]| {
        let result = pair[0].1.result();
        pair[1].1.input_tensors().any(|input| Some(input) == result)
    };
    if modes != CHAIN || !chain.windows(2).all(is_linked) {
        let names: Vec<&str> = modes.iter().take(8).map(|mode| mode.name()).collect();
        return Err(format!("{}{}", names.join(", "), if modes.len() > 8 { ", …" } else { "" }));
    }
    let second_input = |&(id, operation): &(OperationId, &Operation)| Some((id, operation.inputs.get(1)?.1));
    Ok(chain.iter().filter_map(second_input).collect())
}
