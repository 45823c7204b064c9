//! The type in which matrix instructions multiply a core's operands.

use super::problem::Problem;
use crate::device::Device;
use crate::fusion::Product;
use crate::graph::{DataType, FinalizedGraph};
use crate::kernel::{Mma, MmaType, Multiply};

/// Most terms of which sums of INT8 products stay within INT32.
const INT32_TERMS: i64 = (1 << 17) - 1;

/// NVIDIA's switch: 0 turns TF32 off (D-14).
const TF32_SWITCH: &str = "NVIDIA_TF32_OVERRIDE";

/// The type that holds both operands, FP8 as FP16. INT8 is multiplied as INT8 where FLOAT is asked for, too, if sums in INT32
/// cannot overflow, as these are exact; else as FP16. BFLOAT16 is converted to HALF where that is asked for.
///
/// # Errors
/// That there is no such type, as a sentence.
pub(in crate::engine) fn multiplied_type(graph: &FinalizedGraph, product: &Product) -> Result<MmaType, String> {
    let types = product.tensors().map(|id| graph.tensor(id).data_type);
    let all = |accepted: &[DataType]| types.iter().all(|data_type| accepted.contains(data_type));
    use DataType as T;
    let compute = graph.compute_type(product.operation);
    let none = || Err(format!("no matrix instruction multiplies {} by {} in {compute}", types[0], types[1]));
    match compute {
        T::Int32 if all(&[T::Int8]) => Ok(MmaType::S8),
        T::Int32 => none(),
        T::Float if all(&[T::Int8]) => {
            let [.., terms] = Problem::of(graph, product).space.extents();
            Ok(if terms <= INT32_TERMS { MmaType::S8 } else { MmaType::F16 })
        }
        T::Half if all(&[T::BFloat16]) => Ok(MmaType::F16),
        _ if all(&[T::Half, T::Fp8E4M3, T::Fp8E5M2]) => Ok(MmaType::F16),
        _ if all(&[T::BFloat16, T::Fp8E4M3, T::Fp8E5M2]) => Ok(MmaType::Bf16),
        _ if all(&[T::Half, T::BFloat16, T::Float, T::Fp8E4M3, T::Fp8E5M2]) => Ok(MmaType::Tf32),
        _ => none(),
    }
}

/// Whether sums of FP8 products are added up outside the tensor core: unless the graph asks for speed.
pub(in crate::engine) fn promotes(graph: &FinalizedGraph, product: &Product, operand: MmaType) -> bool {
    operand == MmaType::Fp8 && graph.compute_type(product.operation) != DataType::FastFloatForFp8
}

/// Whether the chip has no FP8 instruction of a warp: the assembler spells it with two of FP16, whose sums it adds up in
/// FP32 (seen in the code for sm_90 and sm_100; sm_89 and sm_120 have one).
pub(in crate::engine) fn unpacks_fp8(device: &Device) -> bool {
    (9..12).contains(&device.capability.major)
}

/// Registers of a thread for FP8 products beside accumulators and fragments: for a set of fragments in FP16, or for sums
/// on their way to the accumulators (a bound under which no tile was seen to spill).
pub(in crate::engine) fn fp8_registers(multiply: &Multiply, device: &Device) -> u32 {
    const SUMS: u32 = 48;
    match *multiply {
        Multiply::Mma(Mma { operand: MmaType::Fp8, warp_m, warp_n, .. }) if unpacks_fp8(device) => {
            (warp_m + warp_n) / 2
        }
        Multiply::Mma(Mma { promotes: true, .. }) => SUMS,
        _ => 0,
    }
}

/// Whether FLOAT operands are rounded where a product is multiplied in a type.
pub(in crate::engine) fn rounds_to_tf32(graph: &FinalizedGraph, product: &Product, operand: MmaType) -> bool {
    let is_float = |id| graph.tensor(id).data_type == DataType::Float;
    operand == MmaType::Tf32 && product.tensors().into_iter().any(is_float)
}

/// Whether FLOAT operands may be rounded to TF32.
///
/// # Errors
/// That the environment asks for full FP32.
pub(in crate::engine) fn tf32_is_allowed(
    graph: &FinalizedGraph,
    product: &Product,
    operand: MmaType,
) -> Result<(), String> {
    if rounds_to_tf32(graph, product, operand) { may_round_to_tf32() } else { Ok(()) }
}

/// Whether the environment lets FLOAT be rounded to TF32.
///
/// # Errors
/// That it asks for full FP32.
pub(in crate::engine) fn may_round_to_tf32() -> Result<(), String> {
    match std::env::var_os(TF32_SWITCH) {
        Some(value) if value == "0" => Err(format!("{TF32_SWITCH}=0 asks for full FP32")),
        _ => Ok(()),
    }
}
