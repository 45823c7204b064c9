//! Edits that break one chosen rule of a legal graph.

use std::sync::Arc;

use super::choices::Choices;
use super::oracle::Finding;
use crate::device::ComputeCapability;
use crate::graph::{Attributes, DataType, FinalizedGraph, Graph, OperationId, PointwiseMode, TensorId};
use crate::support::{self, SurfaceId};

/// A graph that breaks a chosen rule and is refused by its name.
#[derive(Clone, Debug)]
pub struct Broken {
    /// The rule's id.
    pub rule: &'static str,
    /// The graph.
    pub graph: Graph,
}

/// An edit: gives false where a graph has nothing to edit.
type Edit = fn(&FinalizedGraph, &mut Graph, &mut Choices<'_>) -> bool;

/// An edit and the rules that it breaks on surfaces 90, 80 and 70.
struct Breaker {
    rules: [Option<&'static str>; 3],
    edit: Edit,
}

const fn breaker(rules: [Option<&'static str>; 3], edit: Edit) -> Breaker {
    Breaker { rules, edit }
}

const BREAKERS: &[Breaker] = &[
    breaker([Some("S90-DTYPE-OUTPUT"), Some("S80-DTYPE-OUTPUT"), Some("S70-DTYPE-OUTPUT")], double_output),
    breaker([Some("S90-DTYPE-INPUT"), Some("S80-DTYPE-INPUT"), Some("S70-DTYPE-INPUT")], long_input),
    breaker([Some("S90-DTYPE-RED-OUT"), Some("S80-DTYPE-RED-OUT"), Some("S70-DTYPE-RED-OUT")], half_total),
    breaker([Some("S90-CT-RED"), Some("S80-CT-RED"), Some("S70-CT-RED")], half_reduction),
    breaker([Some("S90-G2-RED-EXIT"), Some("S80-G2-RED-EXIT"), Some("S70-G2-RED-EXIT")], read_total),
    breaker([Some("OP-PW98-ALPHA1"), Some("OP-PW98-ALPHA1"), Some("OP-PW7-ALPHA1")], first_scale),
    breaker([Some("OP-PW98-ALPHA2"), Some("OP-PW98-ALPHA2"), Some("OP-PW7-ALPHA2")], second_scale),
    breaker([Some("S90-NO-BOOLEAN"), Some("S80-NO-BOOLEAN"), None], boolean_output),
    breaker([Some("S90-G1-ALIGN-128"), None, None], unaligned_operand),
    breaker([Some("S90-G1-VIRTUAL"), Some("S80-G1-VIRTUAL"), None], stored_mainloop),
    breaker([Some("S90-COMB-BF16"), Some("S80-COMB-BF16"), Some("S70-COMB-BF16")], half_core),
    breaker([Some("PAT-ONE-CORE"); 3], second_core),
];

/// The graph with an edit that breaks one rule of the surface that it is legal on; `None` where the edit drawn does not fit.
///
/// # Errors
/// A finding if the surface still holds, or refuses without naming the rule.
pub fn broken(graph: &Graph, surface: SurfaceId, bytes: &[u8]) -> Result<Option<Broken>, Finding> {
    let choices = &mut Choices::new(bytes);
    let breaker = &BREAKERS[choices.below(BREAKERS.len())];
    let place = SurfaceId::ALL.iter().position(|&id| id == surface);
    let rule = place.and_then(|place| breaker.rules[place]);
    let (Some(rule), Ok(finalized)) = (rule, graph.finalize()) else { return Ok(None) };
    let mut edited = finalized.to_graph();
    if !(breaker.edit)(&finalized, &mut edited, choices) {
        return Ok(None);
    }
    let Ok(refinalized) = edited.finalize() else { return Ok(None) };
    let report = support::check(&Arc::new(refinalized), ComputeCapability::SM_90, &[surface]);
    if report.violations().any(|violation| violation.rule.id == rule) {
        return Ok(Some(Broken { rule, graph: edited }));
    }
    let oracle = "a graph that breaks a rule is refused by its name";
    Err(Finding { oracle, message: format!("surface {surface} does not name {rule}; it says: {report}") })
}

fn pick(choices: &mut Choices<'_>, ids: impl Iterator<Item = TensorId>) -> Option<TensorId> {
    let ids: Vec<TensorId> = ids.collect();
    choices.index_of(&ids).map(|index| ids[index])
}

fn pick_operation(
    graph: &FinalizedGraph,
    choices: &mut Choices<'_>,
    is_kind: impl Fn(&Attributes) -> bool,
) -> Option<OperationId> {
    let ids: Vec<OperationId> = graph.operation_ids().filter(|&id| is_kind(&graph.operation(id).attributes)).collect();
    choices.index_of(&ids).map(|index| ids[index])
}

fn is_reduction(attributes: &Attributes) -> bool {
    matches!(attributes, Attributes::Reduction(_))
}

/// Gives a tensor another type.
fn retype(id: Option<TensorId>, edited: &mut Graph, data_type: DataType) -> bool {
    let Some(id) = id else { return false };
    edited.tensor_mut(id).data_type = Some(data_type);
    true
}

fn double_output(graph: &FinalizedGraph, edited: &mut Graph, choices: &mut Choices<'_>) -> bool {
    retype(pick(choices, graph.outputs()), edited, DataType::Double)
}

fn boolean_output(graph: &FinalizedGraph, edited: &mut Graph, choices: &mut Choices<'_>) -> bool {
    retype(pick(choices, graph.outputs()), edited, DataType::Boolean)
}

fn long_input(graph: &FinalizedGraph, edited: &mut Graph, choices: &mut Choices<'_>) -> bool {
    let in_memory = graph.inputs().filter(|&id| !graph.tensor(id).is_pass_by_value);
    retype(pick(choices, in_memory), edited, DataType::Int64)
}

fn half_total(graph: &FinalizedGraph, edited: &mut Graph, choices: &mut Choices<'_>) -> bool {
    let reduction = pick_operation(graph, choices, is_reduction);
    retype(reduction.and_then(|id| graph.operation(id).result()), edited, DataType::Half)
}

fn half_reduction(graph: &FinalizedGraph, edited: &mut Graph, choices: &mut Choices<'_>) -> bool {
    let Some(id) = pick_operation(graph, choices, is_reduction) else { return false };
    edited.operation_mut(id).compute_data_type = Some(DataType::Half);
    true
}

fn read_total(graph: &FinalizedGraph, edited: &mut Graph, choices: &mut Choices<'_>) -> bool {
    let reduction = pick_operation(graph, choices, is_reduction);
    let Some(total) = reduction.and_then(|id| graph.operation(id).result()) else { return false };
    let read = edited.pointwise("reader", PointwiseMode::Neg, &[total]);
    edited.last_operation().compute_data_type = Some(DataType::Float);
    edited.set_output(read).data_type = Some(DataType::Float);
    true
}

fn scale(graph: &FinalizedGraph, edited: &mut Graph, choices: &mut Choices<'_>, inputs: usize) -> bool {
    let takes = |attributes: &Attributes| matches!(attributes, Attributes::Pointwise(pointwise) if pointwise.mode.inputs() >= inputs);
    let Some(id) = pick_operation(graph, choices, takes) else { return false };
    if let Attributes::Pointwise(pointwise) = &mut edited.operation_mut(id).attributes {
        *(if inputs == 1 { &mut pointwise.alpha1 } else { &mut pointwise.alpha2 }) = 0.5;
    }
    true
}

fn first_scale(graph: &FinalizedGraph, edited: &mut Graph, choices: &mut Choices<'_>) -> bool {
    scale(graph, edited, choices, 1)
}

fn second_scale(graph: &FinalizedGraph, edited: &mut Graph, choices: &mut Choices<'_>) -> bool {
    scale(graph, edited, choices, 2)
}

fn unaligned_operand(graph: &FinalizedGraph, edited: &mut Graph, choices: &mut Choices<'_>) -> bool {
    let Some(core) = graph.operations().find(|operation| operation.is_core()) else { return false };
    let in_memory = core.input_tensors().filter(|&id| graph.producer(id).is_none());
    let Some(id) = pick(choices, in_memory) else { return false };
    edited.tensor_mut(id).alignment = graph.tensor(id).data_type.bytes() as i64;
    true
}

fn stored_mainloop(graph: &FinalizedGraph, edited: &mut Graph, choices: &mut Choices<'_>) -> bool {
    let Some(core) = graph.operations().find(|operation| operation.is_core()) else { return false };
    let Some(id) = pick(choices, core.input_tensors().filter(|&id| graph.tensor(id).is_virtual)) else { return false };
    edited.set_output(id);
    true
}

fn half_core(graph: &FinalizedGraph, edited: &mut Graph, _: &mut Choices<'_>) -> bool {
    let Some(id) = graph.operation_ids().find(|&id| graph.operation(id).is_core()) else { return false };
    let is_bfloat16 = |id: TensorId| graph.tensor(id).data_type == DataType::BFloat16;
    if !graph.operation(id).input_tensors().all(is_bfloat16) {
        return false;
    }
    edited.operation_mut(id).compute_data_type = Some(DataType::Half);
    true
}

fn second_core(graph: &FinalizedGraph, edited: &mut Graph, _: &mut Choices<'_>) -> bool {
    let core = graph.operations().find(|operation| matches!(operation.attributes, Attributes::Matmul(_)));
    let Some([a, b]) = core.map(|core| [core.inputs[0].1, core.inputs[1].1]) else { return false };
    let again = edited.matmul("again", a, b);
    edited.last_operation().compute_data_type = Some(DataType::Float);
    edited.set_output(again).data_type = Some(DataType::Float);
    true
}
