//! I/O and intermediate data types.

use crate::graph::{Attributes, DataType, OperationId, TensorId};
use crate::support::context::{Context, core_operands};
use crate::support::findings::Findings;
use crate::support::forms::one_of;
use crate::support::surface::{BooleanLimit, DataTypes, Fp8Limit, Listed};

/// Every tensor has a type that the surface lists for its role.
pub(super) fn check(cx: &Context, found: &mut Findings) {
    for tensor in cx.graph.tensor_ids() {
        roles(cx, found, tensor);
    }
    for (id, operation) in cx.operations() {
        for operand in core_operands(operation).into_iter().flatten() {
            core_operand(cx, found, id, operand);
        }
        if let (Attributes::Reduction(_), Some(result)) = (&operation.attributes, operation.result()) {
            listed(cx, found, &cx.surface.data_types.reduction, result);
        }
    }
}

fn roles(cx: &Context, found: &mut Findings, tensor: TensorId) {
    let limits = &cx.surface.data_types;
    let is_input = cx.is_input(tensor);
    if cx.tensor(tensor).data_type == DataType::Boolean && boolean(found, limits, tensor, is_input) {
        return;
    }
    if is_input {
        listed(cx, found, &limits.input, tensor);
    }
    if cx.tensor(tensor).is_virtual {
        listed(cx, found, &limits.virtual_, tensor);
    } else if cx.graph.producer(tensor).is_some() {
        listed(cx, found, &limits.output, tensor);
    }
    if cx.tensor(tensor).data_type.is_fp8() && !is_core_operand(cx, tensor) {
        fp8(cx, found, tensor);
    }
}

/// Whether a BOOLEAN tensor is out, which is reported instead of the lists.
fn boolean(found: &mut Findings, limits: &DataTypes, tensor: TensorId, is_input: bool) -> bool {
    match limits.boolean {
        BooleanLimit::Nowhere(rule) => found.tensor(rule, tensor, "a type other than BOOLEAN", "BOOLEAN"),
        BooleanLimit::NotInput(rule) if is_input => {
            found.tensor(rule, tensor, "BOOLEAN only as a result of the graph's own operations", "a BOOLEAN input");
        }
        BooleanLimit::NotInput(_) => return false,
    }
    true
}

/// FP8 core operands answer to the core's own rows.
fn fp8(cx: &Context, found: &mut Findings, tensor: TensorId) {
    let data_type = cx.tensor(tensor).data_type;
    match &cx.surface.data_types.fp8 {
        Fp8Limit::AsListed => {}
        Fp8Limit::Capability { other, .. } => capability(cx, found, other, tensor),
        Fp8Limit::PointwiseOnly(rule) if cx.has_core() => {
            found.tensor(rule, tensor, "FP8 only without a matmul or convolution", data_type.name());
        }
        Fp8Limit::PointwiseOnly(_) => {}
    }
}

fn capability(cx: &Context, found: &mut Findings, listed: &Listed<crate::device::ComputeCapability>, tensor: TensorId) {
    if !listed.admits(&cx.capability) {
        let data_type = cx.tensor(tensor).data_type;
        found.tensor(
            listed.rule,
            tensor,
            format!("FP8 on {} only", one_of(listed.allowed)),
            format!("{data_type} on {}", cx.capability),
        );
    }
}

fn is_core_operand(cx: &Context, tensor: TensorId) -> bool {
    let consumers = cx.graph.consumers(tensor).iter();
    consumers.filter_map(|&id| core_operands(cx.graph.operation(id))).any(|operands| operands.contains(&tensor))
}

fn core_operand(cx: &Context, found: &mut Findings, core: OperationId, operand: TensorId) {
    let limits = &cx.surface.data_types;
    let data_type = cx.tensor(operand).data_type;
    if !limits.core.admits(&data_type) {
        found.slot(limits.core.rule, (core, operand), one_of(limits.core.allowed), data_type.name());
    } else if let (true, Fp8Limit::Capability { core, .. }) = (data_type.is_fp8(), &limits.fp8) {
        capability(cx, found, core, operand);
    }
}

/// Whether the core's operand types are legal one by one, so that their combination may be asked for.
pub(super) fn is_legal_operand(cx: &Context, operand: TensorId) -> bool {
    let limits = &cx.surface.data_types;
    let data_type = cx.tensor(operand).data_type;
    let is_on_chip = match &limits.fp8 {
        Fp8Limit::Capability { core, .. } => !data_type.is_fp8() || core.admits(&cx.capability),
        _ => true,
    };
    limits.core.admits(&data_type) && is_on_chip
}

fn listed(cx: &Context, found: &mut Findings, limit: &Listed<DataType>, tensor: TensorId) {
    let data_type = cx.tensor(tensor).data_type;
    if !limit.admits(&data_type) {
        found.tensor(limit.rule, tensor, one_of(limit.allowed), data_type.name());
    }
}
