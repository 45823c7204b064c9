//! Compute data types, and the core operand types they go with.

use crate::graph::{Attributes, ConvolutionDirection, DataType, Operation, OperationId, TensorId};
use crate::support::context::{Context, core_operands};
use crate::support::findings::Findings;
use crate::support::forms::one_of;
use crate::support::rules::data_type::is_legal_operand;
use crate::support::surface::Combination;

/// Reductions compute in FLOAT, cores in a type that goes with their operands. Pointwise operations answer to rows of
/// their own.
pub(super) fn check(cx: &Context, found: &mut Findings) {
    for (id, operation) in cx.operations() {
        let compute = cx.graph.compute_type(id);
        if matches!(operation.attributes, Attributes::Reduction(_)) && compute != DataType::Float {
            found.operation(cx.surface.reduction_compute, id, "compute type FLOAT", format!("compute type {compute}"));
        }
        if let Some(operands) = core_operands(operation)
            && operands.iter().all(|&operand| is_legal_operand(cx, operand))
        {
            combination(cx, found, (id, operation), operands);
        }
    }
}

fn combination(cx: &Context, found: &mut Findings, core: (OperationId, &Operation), operands: [TensorId; 2]) {
    let types = operands.map(|operand| cx.tensor(operand).data_type);
    let row = |data_type| cx.surface.combinations.iter().find(|row| row.operands.contains(&data_type));
    let [Some(first), Some(second)] = types.map(row) else { return };
    if first.rule != second.rule {
        for (row, operand) in [first, second].into_iter().zip(operands) {
            let required = format!("two operands of {}", one_of(row.operands));
            found.slot(row.rule, (core.0, operand), required, format!("operands of {} and {}", types[0], types[1]));
        }
    } else if let Some((required, text)) = broken(cx, first, core, types[0]) {
        found.operation(first.rule, core.0, required, text);
    }
}

/// What the row asks for and what the core has instead, if it does not meet the row.
fn broken(
    cx: &Context,
    row: &Combination,
    (id, core): (OperationId, &Operation),
    operands: DataType,
) -> Option<(String, String)> {
    let is_backward = matches!(&core.attributes,
        Attributes::Convolution(convolution) if convolution.direction != ConvolutionDirection::Forward);
    let compute = cx.graph.compute_type(id);
    if !row.compute.contains(&compute) {
        let required = format!("compute type {} for operands of {operands}", one_of(row.compute));
        Some((required, format!("compute type {compute}")))
    } else if let Some(since) = row.since.filter(|&since| cx.capability < since) {
        Some((format!("{since} or later for operands of {operands}"), cx.capability.to_string()))
    } else if row.forward_only && is_backward {
        Some((format!("no {operands} operands in backward convolutions"), core.tag().to_owned()))
    } else {
        None
    }
}
