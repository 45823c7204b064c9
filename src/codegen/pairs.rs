//! Stages of 16-bit floats whose pairs are computed in one register.
//!
//! A sum, difference or product of two FP16 values, or of two BF16 values, that is computed in FP32 and then rounded is the
//! one that is rounded once: FP32 has at least twice their bits and two more (Figueroa, *When is double rounding innocuous?*,
//! 1995). So the instructions for pairs compute what the graph asks for.

use super::names;
use super::sections::Used;
use super::sweep::SweepSpeller;
use crate::graph::{DataType, FinalizedGraph, Pointwise, PointwiseMode, TensorId};
use crate::kernel::{Access, Sweep, Value};

/// Bits of a broadcast element in both halves of a register.
const BOTH: &str = "0x10001u";

/// Lines that compute a stage's result, a pair at a time, and the register that holds it; `None` if some value has another
/// type, some operation no instruction for pairs, or some tensor is both read and computed.
pub(super) fn pairs(speller: &mut SweepSpeller<'_>, result: TensorId) -> Option<(Vec<String>, String)> {
    let (graph, sweep) = (speller.speller.graph, speller.sweep);
    let data_type = graph.tensor(result).data_type;
    let is_in_place = sweep.program.loads().any(|id| sweep.program.results().any(|result| result == id));
    if is_in_place
        || sweep.vector != 2
        || !sweep.program.steps.iter().all(|step| is_paired(graph, sweep, data_type, step))
    {
        return None;
    }
    let suffix = if data_type == DataType::Half { "f16x2" } else { "bf16x2" };
    let mut lines = speller.offsets();
    for step in &sweep.program.steps {
        let name = graph.canonical_name(step.tensor);
        let text = match &step.value {
            Value::Pointwise { attributes, operands, .. } => {
                let operands: Vec<String> = operands.iter().map(|&id| graph.canonical_name(id)).collect();
                computed(speller.speller.used, attributes, &operands, suffix)
            }
            _ if sweep.access[&step.tensor] == Access::Broadcast => {
                let (pointer, offset) = (names::pointer(graph, step.tensor), speller.offset_name(step.tensor));
                speller.speller.used.add(names::storage_section(data_type));
                format!("{pointer}[{offset}].bits * {BOTH}")
            }
            _ => format!("*reinterpret_cast<const unsigned*>({})", speller.vector_pointer(step.tensor)),
        };
        lines.push(format!("const unsigned {name} = {text};"));
    }
    Some((lines, graph.canonical_name(result)))
}

fn is_paired(graph: &FinalizedGraph, sweep: &Sweep, data_type: DataType, step: &crate::kernel::Step) -> bool {
    let is_16_bit = matches!(data_type, DataType::Half | DataType::BFloat16);
    let has_type = is_16_bit && graph.tensor(step.tensor).data_type == data_type;
    has_type
        && match &step.value {
            Value::Load => matches!(sweep.access.get(&step.tensor), Some(Access::Vector | Access::Broadcast)),
            Value::Pointwise { attributes, compute, .. } => {
                let is_exact = attributes.mode == PointwiseMode::Identity || *compute == DataType::Float;
                is_exact && function(attributes).is_some()
            }
            _ => false,
        }
}

/// The device function of an operation on pairs, without its type; empty for none.
fn function(attributes: &Pointwise) -> Option<&'static str> {
    use PointwiseMode as M;
    let clips = [attributes.lower_clip(), attributes.upper_clip(), attributes.lower_slope()];
    match attributes.mode {
        M::Identity => Some(""),
        M::Add => Some("fw_add_"),
        M::Sub => Some("fw_sub_"),
        M::Mul => Some("fw_mul_"),
        M::ReluFwd if attributes.propagates_nan() && clips == [0.0, f32::INFINITY, 0.0] => Some("fw_relu_"),
        _ => None,
    }
}

fn computed(used: &mut Used, attributes: &Pointwise, operands: &[String], suffix: &str) -> String {
    match function(attributes) {
        Some("") | None => operands.join(", "),
        Some(function) => {
            used.add(if suffix == "f16x2" { "fw_f16x2" } else { "fw_bf16x2" });
            format!("{function}{suffix}({})", operands.join(", "))
        }
    }
}
