//! Pure pointwise graphs: rank and dims.

use crate::fusion::Stage;
use crate::graph::{Attributes, Port, TensorId};
use crate::support::context::Context;
use crate::support::findings::Findings;
use crate::support::rule::Rule;
use crate::support::rules::epilogue::{StageDims, stage_dims};
use crate::support::surface::{DimLimit, UnfusedDims, UnfusedLimits};

/// One rank, dims around the largest extents, no Reduction of matrices.
pub(super) fn check(cx: &Context, found: &mut Findings) {
    let Some(limits) = limits(cx) else { return };
    let Some(dims) = dims(cx) else { return ranks(cx, found, limits.rank) };
    let is_matrix = std::ptr::eq(dims, &limits.matrix);
    if is_matrix {
        no_matrix_reduction(cx, found, limits.no_matrix_reduction);
    }
    let inputs = DimLimit { rule: dims.rule, forms: dims.inputs };
    let reduction = DimLimit { rule: dims.rule, forms: dims.reduction };
    let reduction = (!is_matrix).then_some(&reduction);
    stage_dims(cx, found, &StageDims { full: &cx.facts.full, inputs: &inputs, outputs: dims.rule, reduction });
}

/// Limits of a graph without a core, where the surface has any. Nothing is said of graphs with operations that no
/// surface names, but that they have them.
fn limits<'a>(cx: &Context<'a>) -> Option<&'a UnfusedLimits> {
    cx.surface.unfused.as_ref().ok().filter(|_| !cx.has_core() && cx.unnamed_operation().is_none())
}

/// Dims and layout that a pure pointwise graph answers to; `None` for other graphs and where ranks differ.
pub(super) fn dims<'a>(cx: &Context<'a>) -> Option<&'a UnfusedDims> {
    let limits = limits(cx)?;
    let mut ranks = ranked_tensors(cx).map(|id| cx.tensor(id).dim.len());
    let rank = ranks.next()?;
    if ranks.any(|other| other != rank) {
        return None;
    }
    match rank {
        3 => Some(&limits.matrix),
        4 | 5 => Some(&limits.image),
        _ => None,
    }
}

/// All tensors but the flags of signals.
fn ranked_tensors<'a>(cx: &Context<'a>) -> impl Iterator<Item = TensorId> + use<'a> {
    let ports = cx.operations().flat_map(|(_, operation)| operation.inputs.iter().chain(&operation.outputs));
    ports.filter(|slot| slot.0 != Port::FLAG).map(|slot| slot.1)
}

fn ranks(cx: &Context, found: &mut Findings, rule: &'static Rule) {
    let mut tensors: Vec<TensorId> = ranked_tensors(cx).collect();
    tensors.sort_unstable();
    tensors.dedup();
    let rank = tensors.first().map_or(0, |&id| cx.tensor(id).dim.len());
    if !matches!(rank, 3..=5) {
        return found.graph(rule, rule.summary, format!("rank {rank}"));
    }
    for id in tensors {
        let other = cx.tensor(id).dim.len();
        if other != rank {
            found.tensor(rule, id, format!("rank {rank}, as other tensors"), format!("rank {other}"));
        }
    }
}

fn no_matrix_reduction(cx: &Context, found: &mut Findings, rule: &'static Rule) {
    for (id, operation) in cx.staged(Stage::After) {
        if matches!(operation.attributes, Attributes::Reduction(_)) {
            found.operation(rule, id, "no Reduction of 3-D tensors", operation.tag());
        }
    }
}
