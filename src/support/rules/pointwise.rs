//! Constraints of pointwise operations (8.2, 8.3).

use crate::graph::{Attributes, DataType, Operation, OperationId, Pointwise, PointwiseMode};
use crate::support::context::Context;
use crate::support::findings::Findings;
use crate::support::forms::one_of;
use crate::support::surface::Listed;

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
#[warn(clippy::wildcard_enum_match_arm)]
fn is_arithmetic(mode: PointwiseMode) -> bool {
    use PointwiseMode as M;
    match mode {
        M::Add | M::AddSquare | M::Div | M::Max | M::Min | M::Mod | M::Abs | M::Ceil | M::Floor => true,
        M::Mul | M::Sub | M::Neg | M::GenIndex | M::BinarySelect => true,
        M::CmpEq | M::CmpNeq | M::CmpGt | M::CmpGe | M::CmpLt | M::CmpLe => true,
        // Of IDENTITY and of truth values the surfaces say more.
        M::Identity | M::LogicalAnd | M::LogicalOr | M::LogicalNot => false,
        M::Pow | M::Atan2 | M::Sqrt | M::Rsqrt | M::Reciprocal | M::Exp | M::Log | M::Erf => false,
        M::Sin | M::Cos | M::Tan => false,
        M::ReluFwd | M::TanhFwd | M::SigmoidFwd | M::EluFwd | M::GeluFwd | M::GeluApproxTanhFwd => false,
        M::SoftplusFwd | M::SwishFwd => false,
        M::ReluBwd | M::TanhBwd | M::SigmoidBwd | M::EluBwd | M::GeluBwd | M::GeluApproxTanhBwd => false,
        M::SoftplusBwd | M::SwishBwd => false,
    }
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
