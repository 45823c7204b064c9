//! What the tables of the surfaces say of chips, types, dims, layouts and alignment.

use super::parts::{Kind, Parts};
use super::records::{NB_NO_MIX, NB_SCALE, NF_ENGINE_SIZE, NF_SCALE};
use super::{AlignmentLimit, LayoutLimit, NormSurface, PARAMETERS, RankLimit, Tensors, TypeLimit};
use crate::graph::{DataType, Port, TensorId};
use crate::support::context::core_operands;
use crate::support::findings::Findings;
use crate::support::forms::{dims_text, one_of};
use crate::support::layout::{self, Layout};
use crate::support::rule::Rule;

/// Bytes of a vector of channels.
const VECTOR_BITS: u64 = 128;

/// Widest types of which a vector has as many elements as one of 16 bits.
const NARROW_BITS: u64 = 16;

/// Applies every table. Dims come before layout, layout before alignment: a tensor is reported for the first that it breaks.
pub(super) fn check(surface: &NormSurface, parts: &Parts, found: &mut Findings) {
    chip(surface, parts, found);
    compute(surface.compute, parts, found);
    surface.types.iter().for_each(|limit| types(limit, parts, found));
    ranks(surface, parts, found);
    if let Some(rule) = surface.channels {
        channels(rule, parts, found);
    }
    if let Some(limit) = &surface.layout {
        layouts(limit, parts, found);
    }
    if let Some(limit) = &surface.alignment {
        aligned(limit, parts, found);
    }
    if let Some(rule) = surface.by_value {
        by_value(rule, parts, found);
    }
}

fn chip(surface: &NormSurface, parts: &Parts, found: &mut Findings) {
    if !surface.chips.admits(&parts.capability) {
        found.graph(surface.chips.rule, one_of(surface.chips.allowed), parts.capability.to_string());
    }
}

fn compute(rule: &'static Rule, parts: &Parts, found: &mut Findings) {
    let compute = parts.graph.compute_type(parts.norm.id);
    if compute != DataType::Float {
        found.operation(rule, parts.norm.id, "compute type FLOAT", format!("compute type {compute}"));
    }
}

/// The tensors that a limit is about.
fn selected(of: Tensors, parts: &Parts) -> Vec<TensorId> {
    match of {
        Tensors::At(ports) => parts.at(ports).collect(),
        Tensors::Full => parts.full().collect(),
        Tensors::Stored => parts.stored().collect(),
        Tensors::Operands => parts.others().filter_map(|slot| core_operands(slot.1)).flatten().collect(),
    }
}

fn types(limit: &TypeLimit, parts: &Parts, found: &mut Findings) {
    if !limit.modes.is_empty() && !limit.modes.contains(&parts.norm.mode()) {
        return;
    }
    for id in selected(limit.of, parts) {
        let data_type = parts.tensor(id).data_type;
        if !limit.types.admits(&data_type) {
            report_type(limit.types.rule, parts, found, id, (one_of(limit.types.allowed), data_type.name()));
        }
    }
}

/// At the norm where it has the tensor, else at the tensor alone.
fn report_type(
    rule: &'static Rule,
    parts: &Parts,
    found: &mut Findings,
    id: TensorId,
    (required, text): (String, &str),
) {
    let mut own = parts.norm.operation.input_tensors().chain(parts.norm.operation.output_tensors());
    match own.any(|tensor| tensor == id) {
        true => found.slot(rule, (parts.norm.id, id), required, text),
        false => found.tensor(rule, id, required, text),
    }
}

fn ranks(surface: &NormSurface, parts: &Parts, found: &mut Findings) {
    let (Some(RankLimit { rule, ranks }), Some(x)) = (&surface.ranks, parts.norm.x()) else { return };
    let (allowed, dim) = (ranks(parts.norm.mode()), &parts.tensor(x).dim);
    if !allowed.contains(&dim.len()) {
        found.slot(rule, (parts.norm.id, x), format!("rank {}", one_of(allowed)), format!("dims {}", dims_text(dim)));
        parts.stored().for_each(|id| found.set_unranked(id));
    }
}

fn channels(rule: &'static Rule, parts: &Parts, found: &mut Findings) {
    let Some(x) = parts.norm.x().filter(|&x| found.asks_layout(x)) else { return };
    let tensor = parts.tensor(x);
    let multiple = (VECTOR_BITS / tensor.data_type.bits().max(NARROW_BITS)) as i64;
    if tensor.dim[1] % multiple != 0 {
        let required = format!("a multiple of {multiple} channels of {}", tensor.data_type);
        found.slot(rule, (parts.norm.id, x), required, format!("{} channels", tensor.dim[1]));
    }
}

fn layouts(limit: &LayoutLimit, parts: &Parts, found: &mut Findings) {
    let holds = |layout: &Layout, id: TensorId| match limit.is_packed {
        true => layout.holds_packed(parts.tensor(id)),
        false => layout.holds(parts.tensor(id)),
    };
    let packing = if limit.is_packed { "fully packed " } else { "" };
    let asked: Vec<TensorId> = parts.stored().filter(|&id| found.asks_layout(id)).collect();
    let mut shared = (limit.layouts)(rank(parts)).to_vec();
    for id in asked {
        let layouts = (limit.layouts)(rank(parts));
        let own: Vec<Layout> = layouts.iter().copied().filter(|layout| holds(layout, id)).collect();
        let names = |layouts: &[Layout]| one_of(&layouts.iter().map(|layout| layout.name()).collect::<Vec<_>>());
        let common: Vec<Layout> = own.iter().copied().filter(|layout| shared.contains(layout)).collect();
        let text = layout::describe(parts.tensor(id));
        if own.is_empty() {
            found.tensor(limit.rule, id, format!("{packing}{}", names(layouts)), text);
            found.set_unlaid(id);
        } else if let (Some(rule), true) = (limit.same, common.is_empty()) {
            found.tensor(rule, id, format!("{} as other tensors", names(&shared)), text);
            found.set_unlaid(id);
        } else {
            shared = common;
        }
    }
}

/// Axes of X, and of whatever is shaped by it.
fn rank(parts: &Parts) -> usize {
    parts.norm.x().map_or(0, |x| parts.tensor(x).dim.len())
}

fn aligned(limit: &AlignmentLimit, parts: &Parts, found: &mut Findings) {
    let bytes = (limit.bytes)(parts.norm.mode());
    let stored = selected(limit.of, parts).into_iter().filter(|&id| !parts.tensor(id).is_virtual);
    for id in stored.filter(|&id| found.asks_alignment(id)).collect::<Vec<_>>() {
        let alignment = parts.tensor(id).alignment;
        if alignment % bytes != 0 {
            let text = format!("a pointer aligned to {alignment} bytes");
            found.tensor(limit.rule, id, format!("a pointer aligned to {bytes} bytes"), text);
        }
    }
}

fn by_value(rule: &'static Rule, parts: &Parts, found: &mut Findings) {
    const SCALARS: &[Port] = &[Port::EPSILON, Port::MOMENTUM, Port::ACCUM_COUNT];
    for id in parts.at(SCALARS).filter(|&id| !parts.tensor(id).is_pass_by_value) {
        found.slot(rule, (parts.norm.id, id), "a scalar by value", "a tensor in device memory");
    }
}

/// What the engines of single norms ask of types beside each other, and that rows are the last axes.
pub(super) fn single(parts: &Parts, found: &mut Findings) {
    let is_forward = matches!(parts.norm.kind, Kind::Forward(..));
    if is_forward {
        widths(parts, found);
    } else {
        one_type(parts, found);
    }
    if parts.norm.is_of_rows() {
        last_axes(if is_forward { &NF_SCALE } else { &NB_SCALE }, parts, found);
    }
}

/// A stored Y is wider than X on engines alone that take parameters in FLOAT.
fn widths(parts: &Parts, found: &mut Findings) {
    let bits = |id| parts.tensor(id).data_type.bits();
    let mut stored = parts.at(&[Port::Y]).filter(|&y| !parts.tensor(y).is_virtual);
    if !stored.any(|y| parts.norm.x().is_some_and(|x| bits(y) > bits(x))) {
        return;
    }
    for id in parts.at(PARAMETERS) {
        let data_type = parts.tensor(id).data_type;
        if data_type != DataType::Float {
            found.slot(&NF_ENGINE_SIZE, (parts.norm.id, id), "FLOAT, as Y is wider than X", data_type.name());
        }
    }
}

fn one_type(parts: &Parts, found: &mut Findings) {
    let Some(x) = parts.norm.x() else { return };
    let required = parts.tensor(x).data_type;
    for id in parts.at(&[Port::DY, Port::DX]).filter(|&id| !parts.tensor(id).is_virtual) {
        let data_type = parts.tensor(id).data_type;
        if data_type != required {
            found.slot(&NB_NO_MIX, (parts.norm.id, id), format!("{required}, the type of X"), data_type.name());
        }
    }
}

/// No axis that is kept comes after one that is normalised.
fn last_axes(rule: &'static Rule, parts: &Parts, found: &mut Findings) {
    let (Some(x), Some(kept)) = (parts.norm.x(), kept_axes(parts)) else { return };
    let dim = &parts.tensor(x).dim;
    let counted = || (0..dim.len()).filter(|&axis| dim[axis] > 1);
    let first = counted().find(|&axis| !kept[axis]).unwrap_or(dim.len());
    if let Some(axis) = counted().find(|&axis| axis > first && kept[axis]) {
        let text = format!("axis {axis} is kept, and axis {first} normalised");
        found.slot(rule, (parts.norm.id, x), "rows along the last axes", text);
    }
}

/// Axes that a statistic has, of a norm whose statistics or scale tell them (N-12).
fn kept_axes(parts: &Parts) -> Option<Vec<bool>> {
    let dim = |port: &'static [Port]| parts.at(port).next().map(|id| &parts.tensor(id).dim);
    let of_statistics = dim(&[Port::INV_VARIANCE, Port::MEAN]).map(|dim| dim.iter().map(|&extent| extent != 1));
    let of_scale = || dim(&[Port::SCALE]).map(|dim| dim.iter().map(|&extent| extent == 1).collect());
    of_statistics.map(Iterator::collect).or_else(of_scale)
}
