//! What g1 and g2 have in common: which operations they hold, and which operand comes first.

use super::context::Context;
use super::findings::Findings;
use super::forms::{dims_text, one_of};
use super::rule::Rule;
use super::surface::{Listed, OperationKind};
use crate::graph::{Attributes, Operation, OperationId, TensorId};

/// The operation is of a kind that the stage lists; composite ones answer to a row of their own. `place` says where the stage is, for messages.
pub(super) fn listed_kind(
    found: &mut Findings,
    listed: &Listed<OperationKind>,
    (id, operation): (OperationId, &Operation),
    place: &str,
) {
    let kind = OperationKind::of(&operation.attributes);
    let is_composite = matches!(operation.attributes, Attributes::Composite(_));
    if is_composite || kind.is_some_and(|kind| listed.admits(&kind)) {
        return;
    }
    let names: Vec<&str> = listed.allowed.iter().map(|kind| kind.name()).collect();
    let text = match kind {
        Some(kind) => kind.name().to_owned(),
        None => format!("{}, which no engine executes yet", operation.tag()),
    };
    found.operation(listed.rule, id, format!("only {} operations{place}", one_of(&names)), text);
}

/// The first input of a Pointwise has the dims of its result.
pub(super) fn broadcast_first(
    cx: &Context,
    found: &mut Findings,
    rule: &'static Rule,
    (id, operation): (OperationId, &Operation),
) {
    let (Attributes::Pointwise(_), [(_, first), _, ..], Some(result)) =
        (&operation.attributes, operation.inputs.as_slice(), operation.result())
    else {
        return;
    };
    let (first_dim, result_dim) = (&cx.tensor(*first).dim, &cx.tensor(result).dim);
    if first_dim != result_dim {
        let required = format!("a first input that is not broadcast, of dims {}", dims_text(result_dim));
        found.slot(rule, (id, *first), required, format!("dims {}", dims_text(first_dim)));
    }
}

/// Where derived values meet others in a Pointwise, a derived one is the first input. Gives whether that holds.
pub(super) fn derived_first(
    cx: &Context,
    found: &mut Findings,
    rule: &'static Rule,
    (id, operation): (OperationId, &Operation),
    is_derived: impl Fn(TensorId) -> bool,
) -> bool {
    let mut inputs = operation.input_tensors();
    let (Attributes::Pointwise(_), Some(first)) = (&operation.attributes, inputs.next()) else { return true };
    let Some(late) = inputs.find(|&input| is_derived(input)).filter(|_| !is_derived(first)) else { return true };
    let required = format!("{} as the first input", cx.graph.describe_tensor(late));
    found.slot(rule, (id, late), required, format!("{} before it", cx.graph.describe_tensor(first)));
    false
}
