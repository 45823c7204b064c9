//! Stages of 16-bit floats whose pairs are computed in one register.
//!
//! Operands of 8 bits are read as 16-bit floats, which hold each of their values.
//!
//! A sum, difference or product of two FP16 values, or of two BF16 values, that is computed in FP32 and then rounded is the
//! one that is rounded once: FP32 has at least twice their bits and two more (Figueroa, *When is double rounding innocuous?*,
//! 1995). So the instructions for pairs compute what the graph asks for.

use crate::codegen::names;
use crate::codegen::sections::Used;
use crate::codegen::sweep::SweepSpeller;
use crate::graph::{DataType, FinalizedGraph, Pointwise, PointwiseMode, TensorId};
use crate::kernel::{Access, Step, Sweep, Value};

/// Bits of a broadcast element in both halves of a register.
const BOTH: &str = "0x10001u";

/// A byte in both halves of 16 bits.
const BOTH_BYTES: &str = "0x101u";

/// How functions on pairs of FP16 and of BF16 values end.
const F16X2: &str = "f16x2";
const BF16X2: &str = "bf16x2";

/// A stage in pairs.
pub(super) struct Pairs {
    /// Lines before the first pair, and for each pair: one of a vector of two, else number `e`.
    pub(super) before: Vec<String>,
    pub(super) body: Vec<String>,
    /// The register that holds a pair of the result.
    pub(super) value: String,
}

/// A stage's result, computed a pair at a time; `None` if some value has another type, some operation no instruction for pairs, or some
/// tensor is both read and computed.
pub(super) fn pairs(speller: &mut SweepSpeller<'_>, result: TensorId) -> Option<Pairs> {
    let (graph, sweep) = (speller.speller.graph, speller.sweep);
    let data_type = graph.tensor(result).data_type;
    let is_in_place = sweep.program.loads().any(|id| sweep.program.results().any(|result| result == id));
    if is_in_place
        || sweep.vector % 2 != 0
        || !sweep.program.steps.iter().all(|step| is_paired(graph, sweep, data_type, step))
    {
        return None;
    }
    let suffix = if data_type == DataType::Half { F16X2 } else { BF16X2 };
    let (mut before, mut body) = (speller.offsets(), Vec::new());
    for step in &sweep.program.steps {
        let name = graph.canonical_name(step.tensor);
        let text = match &step.value {
            Value::Pointwise { attributes, operands, .. } => {
                let operands: Vec<String> = operands.iter().map(|&id| graph.canonical_name(id)).collect();
                computed(speller.speller.used, attributes, &operands, suffix)
            }
            _ if sweep.vector > 2 && speller.access(step.tensor) == Access::Vector => {
                before.push(vector(speller, step.tensor));
                let stored = speller.data_type(step.tensor);
                of_pair(speller.speller.used, stored, &format!("v_{name}.at[e]"), suffix)
            }
            _ if sweep.vector > 2 => {
                before.push(format!("const unsigned {name} = {};", loaded(speller, step.tensor, suffix)));
                continue;
            }
            _ => loaded(speller, step.tensor, suffix),
        };
        body.push(format!("const unsigned {name} = {text};"));
    }
    Some(Pairs { before, body, value: graph.canonical_name(result) })
}

/// The line that reads a tensor's vector in pairs.
fn vector(speller: &mut SweepSpeller<'_>, tensor: TensorId) -> String {
    let (name, from) = (speller.speller.graph.canonical_name(tensor), speller.vector_pointer(tensor));
    let word = if widened(speller.data_type(tensor)).is_some() { "unsigned short" } else { "unsigned" };
    let pairs = format!("fw_vector<{word}, {}>", speller.sweep.vector / 2);
    speller.speller.used.add("fw_vector");
    format!("const {pairs} v_{name} = *reinterpret_cast<const {pairs}*>({from});")
}

fn is_paired(graph: &FinalizedGraph, sweep: &Sweep, data_type: DataType, step: &Step) -> bool {
    let is_16_bit = matches!(data_type, DataType::Half | DataType::BFloat16);
    let found = graph.tensor(step.tensor).data_type;
    is_16_bit
        && match &step.value {
            Value::Load => {
                let is_held = found == data_type || widened(found).is_some();
                is_held && matches!(sweep.access.get(&step.tensor), Some(Access::Vector | Access::Broadcast))
            }
            Value::Pointwise { attributes, operands, compute } => {
                found == data_type
                    && function(attributes).is_some()
                    && is_computed(graph, attributes, operands, *compute)
            }
            _ => false,
        }
}

/// Whether instructions on pairs give what an operation gives in its compute type: `INT32` rounds what is none of its values.
fn is_computed(graph: &FinalizedGraph, attributes: &Pointwise, operands: &[TensorId], compute: DataType) -> bool {
    let is_integer = |id: &TensorId| matches!(graph.tensor(*id).data_type, DataType::Int8 | DataType::UInt8);
    match attributes.mode {
        PointwiseMode::Identity => compute != DataType::Int32 || operands.iter().all(is_integer),
        _ => compute == DataType::Float,
    }
}

/// A pair of a tensor's elements, or one element twice.
fn loaded(speller: &mut SweepSpeller<'_>, tensor: TensorId, suffix: &str) -> String {
    let data_type = speller.speller.graph.tensor(tensor).data_type;
    let broadcast = speller.sweep.access[&tensor] == Access::Broadcast;
    let is_of_bytes = widened(data_type).is_some();
    let (pointer, offset) = (names::pointer(speller.speller.graph, tensor), speller.offset_name(tensor));
    let bits = match (broadcast, is_of_bytes) {
        (true, false) => {
            speller.speller.used.add(names::storage_section(data_type));
            format!("{pointer}[{offset}].bits * {BOTH}")
        }
        (true, true) => format!("*reinterpret_cast<const unsigned char*>({pointer} + {offset}) * {BOTH_BYTES}"),
        (false, false) => format!("*reinterpret_cast<const unsigned*>({})", speller.vector_pointer(tensor)),
        (false, true) => format!("*reinterpret_cast<const unsigned short*>({})", speller.vector_pointer(tensor)),
    };
    of_pair(speller.speller.used, data_type, &bits, suffix)
}

/// A pair of 16-bit floats from the bits of a pair of a type.
fn of_pair(used: &mut Used, data_type: DataType, bits: &str, suffix: &str) -> String {
    match widened(data_type).map(|sections| sections[usize::from(suffix == BF16X2)]) {
        None => bits.to_owned(),
        Some(section) => {
            used.add(section);
            used.add(names::storage_section(data_type));
            format!("{section}({bits})")
        }
    }
}

/// The functions, each a section of its name, that turn two bytes into FP16 and into BF16; `None` for other types.
fn widened(data_type: DataType) -> Option<[&'static str; 2]> {
    match data_type {
        DataType::Int8 => Some(["fw_f16x2_of_i8", "fw_bf16x2_of_i8"]),
        DataType::UInt8 => Some(["fw_f16x2_of_u8", "fw_bf16x2_of_u8"]),
        DataType::Fp8E4M3 => Some(["fw_f16x2_of_e4m3", "fw_bf16x2_of_e4m3"]),
        DataType::Fp8E5M2 => Some(["fw_f16x2_of_e5m2", "fw_bf16x2_of_e5m2"]),
        _ => None,
    }
}

/// The device function of an operation on pairs, without its type; empty for none.
fn function(attributes: &Pointwise) -> Option<&'static str> {
    use PointwiseMode as M;
    let clips = [attributes.lower_clip(), attributes.upper_clip(), attributes.lower_slope()];
    match attributes.mode {
        _ if attributes.is_scaled() => None,
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
            used.add(if suffix == F16X2 { "fw_f16x2" } else { "fw_bf16x2" });
            format!("{function}{suffix}({})", operands.join(", "))
        }
    }
}
