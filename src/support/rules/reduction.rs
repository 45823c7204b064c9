//! Constraints of reductions (8.5).

use crate::graph::{Attributes, ReductionMode, TensorId};
use crate::support::context::Context;
use crate::support::findings::Findings;
use crate::support::forms::one_of;
use crate::support::layout::{self, Layout};
use crate::support::records::reduction::{OP_RED_LAYOUT, OP_RED_OP};

const OPERATORS: &[ReductionMode] = &[ReductionMode::Add, ReductionMode::Min, ReductionMode::Max];

/// Operator, and layout of X and Y where they are in device memory.
pub(super) fn check(cx: &Context, found: &mut Findings) {
    for (id, operation) in cx.operations() {
        let Attributes::Reduction(reduction) = &operation.attributes else { continue };
        if !OPERATORS.contains(&reduction.mode) {
            found.operation(&OP_RED_OP, id, one_of(OPERATORS), reduction.mode.name());
        }
        for tensor in operation.input_tensors().chain(operation.output_tensors()) {
            packed(cx, found, tensor);
        }
    }
}

fn packed(cx: &Context, found: &mut Findings, id: TensorId) {
    let tensor = cx.tensor(id);
    let layout = match tensor.dim.len() {
        3 => Layout::RowMajor,
        4 | 5 => Layout::Nhwc,
        _ => return,
    };
    if !tensor.is_virtual && !layout.holds_packed(tensor) {
        found.tensor(&OP_RED_LAYOUT, id, format!("fully packed {}", layout.name()), layout::describe(tensor));
        found.set_unlaid(id);
    }
}
