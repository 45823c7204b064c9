//! Constraints of GenStats (8.4).

use crate::device::ComputeCapability;
use crate::graph::{Attributes, DataType, Operation, OperationId, TensorId};
use crate::support::context::Context;
use crate::support::findings::Findings;
use crate::support::forms::{dims_text, one_of};
use crate::support::layout::{self, Layout};
use crate::support::records::genstats::*;
use crate::support::surface::OperationKind;

const AMPERE: ComputeCapability = ComputeCapability::new(8, 0);

/// Surface 70 only, and there with types, shapes and layouts of its own.
pub(super) fn check(cx: &Context, found: &mut Findings) {
    let is_listed = cx.surface.epilogue.operations.admits(&OperationKind::GenStats);
    for (id, operation) in cx.operations().filter(|slot| matches!(slot.1.attributes, Attributes::GenStats)) {
        if is_listed {
            types(cx, found, id, operation);
            shapes(cx, found, id, operation);
            layouts(cx, found, operation);
        } else {
            found.operation(&OP_GS_SURFACE, id, "surface 70, the only one with GenStats", "GENSTATS");
        }
    }
}

fn types(cx: &Context, found: &mut Findings, id: OperationId, operation: &Operation) {
    let (rule, allowed): (_, &[DataType]) = match cx.capability < AMPERE {
        true => (&OP_GS_XTYPE_PRE, &[DataType::Half]),
        false => (&OP_GS_XTYPE, &[DataType::Half, DataType::Float]),
    };
    for x in operation.input_tensors() {
        let data_type = cx.tensor(x).data_type;
        if !allowed.contains(&data_type) {
            found.slot(rule, (id, x), one_of(allowed), data_type.name());
        }
    }
    for output in operation.output_tensors() {
        let data_type = cx.tensor(output).data_type;
        if data_type != DataType::Float {
            found.slot(&OP_GS_OUTTYPE, (id, output), "FLOAT", data_type.name());
        }
    }
    let compute = cx.graph.compute_type(id);
    if compute != DataType::Float {
        found.operation(&OP_GS_PREC, id, "compute type FLOAT", format!("compute type {compute}"));
    }
}

/// A full 4-D or 5-D value goes in; what comes out leaves the graph.
fn shapes(cx: &Context, found: &mut Findings, id: OperationId, operation: &Operation) {
    let full = &cx.facts.full;
    for x in operation.input_tensors() {
        let dim = &cx.tensor(x).dim;
        let is_full = dim == full || cx.facts.fusion.is_err();
        if !is_full || !matches!(dim.len(), 4 | 5) {
            let required = format!("a full 4-D or 5-D value, here {}", dims_text(full));
            found.slot(&OP_GS_SHAPE, (id, x), required, dims_text(dim));
        }
    }
    for output in operation.output_tensors() {
        if let Some(&reader) = cx.graph.consumers(output).first() {
            let text = format!("{} reads it", cx.graph.describe_operation(reader));
            found.slot(&OP_GS_SHAPE, (id, output), "an output of the graph", text);
        } else if cx.tensor(output).is_virtual {
            found.slot(&OP_GS_SHAPE, (id, output), "an output of the graph", "a virtual tensor");
        }
    }
}

fn layouts(cx: &Context, found: &mut Findings, operation: &Operation) {
    let tensors = operation.input_tensors().chain(operation.output_tensors());
    let stored: Vec<TensorId> = tensors.filter(|&id| !cx.tensor(id).is_virtual).collect();
    for id in stored {
        let tensor = cx.tensor(id);
        if matches!(tensor.dim.len(), 4 | 5) && !Layout::Nhwc.holds_packed(tensor) {
            found.tensor(&OP_GS_LAYOUT, id, "fully packed NHWC", layout::describe(tensor));
            found.set_unlaid(id);
        }
    }
}
