//! Constraints of pointwise operations (8.2, 8.3).

use crate::graph::{Attributes, DataType, Operation, OperationId, Pointwise, PointwiseMode};
use crate::support::context::Context;
use crate::support::findings::Findings;
use crate::support::forms::one_of;
use crate::support::rule::{OTHER, PERMISSION, TYPE, rules};
use crate::support::surface::Listed;

rules! {
    S98, "003 Constraints for Pointwise Operations for Support Surface 90 and 80" {
        OP_PW98_DTYPE = "OP-PW98-DTYPE", "Pointwise", PERMISSION, "every operator takes every type that the surface lists";
        OP_PW98_PREC_LOGIC = "OP-PW98-PREC-LOGIC", "LOGICAL_*", TYPE, "math precision INT32";
        OP_PW98_PREC_INTOK = "OP-PW98-PREC-INTOK", "arithmetic, comparisons, GEN_INDEX, BINARY_SELECT", TYPE, "math precision FLOAT or INT32";
        OP_PW98_PREC_IDENT = "OP-PW98-PREC-IDENT", "IDENTITY", TYPE, "math precision INT32 or FLOAT, or else the type of input and output";
        OP_PW98_PREC_OTHER = "OP-PW98-PREC-OTHER", "every other operator", TYPE, "math precision FLOAT";
        OP_PW98_ALPHA1 = "OP-PW98-ALPHA1", "Pointwise", OTHER, "alpha1 is 1";
        OP_PW98_ALPHA2 = "OP-PW98-ALPHA2", "Pointwise", OTHER, "alpha2 is 1";
    }
    S70, "003 Constraints for Pointwise Operations for Support Surface 70" {
        OP_PW7_DTYPE_LOGIC = "OP-PW7-DTYPE-LOGIC", "LOGICAL_*", TYPE, "inputs and result are INT32, INT8 or BOOLEAN";
        OP_PW7_DTYPE_OTHER = "OP-PW7-DTYPE-OTHER", "every other operator", PERMISSION, "every type that the surface lists";
        OP_PW7_PREC_LOGIC = "OP-PW7-PREC-LOGIC", "LOGICAL_*", TYPE, "math precision BOOLEAN";
        OP_PW7_PREC_OTHER = "OP-PW7-PREC-OTHER", "every other operator", TYPE, "math precision FLOAT";
        OP_PW7_ALPHA1 = "OP-PW7-ALPHA1", "Pointwise", OTHER, "alpha1 is 1";
        OP_PW7_ALPHA2 = "OP-PW7-ALPHA2", "Pointwise", OTHER, "alpha2 is 1";
        OP_PW7_NO_TDESC = "OP-PW7-NO-TDESC", "BINARY_SELECT", PERMISSION, "allowed, with a predicate of any listed type";
    }
}

/// Math precision, scales and, for logical operators on surface 70, tensor types.
pub(super) fn check(cx: &Context, found: &mut Findings) {
    for (id, operation) in cx.operations() {
        if let Attributes::Pointwise(pointwise) = &operation.attributes {
            precision(cx, found, (id, operation), pointwise.mode);
            scales(cx, found, id, pointwise);
            if pointwise.mode.is_logical() {
                logical_tensors(cx, found, (id, operation));
            }
        }
    }
}

fn precision(cx: &Context, found: &mut Findings, (id, operation): (OperationId, &Operation), mode: PointwiseMode) {
    let limits = &cx.surface.pointwise;
    let compute = cx.graph.compute_type(id);
    if let (PointwiseMode::Identity, Some(listed)) = (mode, &limits.identity) {
        let is_common = tensors(operation).all(|tensor| cx.tensor(tensor).data_type == compute);
        if !listed.admits(&compute) && !is_common {
            let required = format!("compute type {}, or the type of input and output", one_of(listed.allowed));
            found.operation(listed.rule, id, required, compute_text(compute));
        }
        return;
    }
    let listed = match &limits.arithmetic {
        _ if mode.is_logical() => &limits.logical,
        Some(listed) if is_arithmetic(mode) => listed,
        _ => &limits.other,
    };
    if !listed.admits(&compute) {
        let required = format!("compute type {}", one_of(listed.allowed));
        found.operation(listed.rule, id, required, compute_text(compute));
    }
}

fn compute_text(compute: DataType) -> String {
    format!("compute type {compute}")
}

/// Operators that surfaces 90 and 80 also compute in INT32.
fn is_arithmetic(mode: PointwiseMode) -> bool {
    use PointwiseMode as M;
    mode.is_comparison()
        || matches!(mode, M::Add | M::AddSquare | M::Div | M::Max | M::Min | M::Mod | M::Abs | M::Ceil | M::Floor)
        || matches!(mode, M::Mul | M::Sub | M::Neg | M::GenIndex | M::BinarySelect)
}

fn scales(cx: &Context, found: &mut Findings, id: OperationId, pointwise: &Pointwise) {
    let scales = [("alpha1", pointwise.alpha1), ("alpha2", pointwise.alpha2)];
    for (rule, (name, scale)) in cx.surface.pointwise.alpha.into_iter().zip(scales) {
        if scale != 1.0 {
            found.operation(rule, id, format!("{name} = 1"), format!("{name} = {scale}"));
        }
    }
}

fn logical_tensors(cx: &Context, found: &mut Findings, (id, operation): (OperationId, &Operation)) {
    let Some(listed): Option<&Listed<DataType>> = cx.surface.pointwise.logical_tensors.as_ref() else { return };
    for tensor in tensors(operation) {
        let data_type = cx.tensor(tensor).data_type;
        if !listed.admits(&data_type) {
            found.slot(listed.rule, (id, tensor), one_of(listed.allowed), data_type.name());
        }
    }
}

fn tensors(operation: &Operation) -> impl Iterator<Item = crate::graph::TensorId> + '_ {
    operation.input_tensors().chain(operation.output_tensors())
}
