//! The engine of tensor cores through `mma.sync`, from sm_75 on: matmuls and convolutions with any mainloop and epilogue
//! DAG, operands in FP16, BF16, TF32, INT8 or FP8.
//!
//! Tiles come by `cp.async` where an operand is copied as it is, through registers where a mainloop stage is evaluated
//! or accesses are not aligned. FP8 operands are multiplied as they are from sm_89 on where both are copied as they are;
//! else as FP16, which holds every FP8 value exactly. Sums are FP32, or INT32 of INT8, also where the graph computes in HALF
//! . Operands of two types are multiplied as the type that holds both.

mod shape;

use super::lowering::{
    Problem, RELAXED_WITH_CORE, fetches, is_lowered, lower_gemm, multiplied_type, promotes, tf32_is_allowed,
};
use super::{Engine, EngineConfig, RankedConfig};
use crate::device::{ComputeCapability, Device};
use crate::fusion::Fusion;
use crate::kernel::{Fetch, Kernel, MmaType};
use crate::support::Supported;

/// See the module.
#[derive(Clone, Copy, Debug)]
pub struct WarpMma;

const NAME: &str = "warp_mma";

/// `mma.sync` on FP16 and INT8 with `ldmatrix`.
const TURING: ComputeCapability = ComputeCapability::new(7, 5);

/// BF16, TF32 and `cp.async`.
const AMPERE: ComputeCapability = ComputeCapability::new(8, 0);

/// FP8.
const ADA: ComputeCapability = ComputeCapability::new(8, 9);

impl Engine for WarpMma {
    fn id(&self) -> i64 {
        1
    }

    fn name(&self) -> &'static str {
        NAME
    }

    fn summary(&self) -> &'static str {
        "matmul and convolution fusions on tensor cores by mma.sync, from sm_75 on (BF16 and TF32 from sm_80 on), sums in FP32 \
         or INT32"
    }

    fn relaxes(&self) -> &'static [&'static str] {
        RELAXED_WITH_CORE
    }

    fn accepts(&self, supported: &Supported) -> Result<(), String> {
        is_lowered(supported.fusion())?;
        let operand = operand_type(supported.fusion(), supported.capability())?;
        tf32_is_allowed(supported.fusion(), operand)
    }

    fn candidates(&self, supported: &Supported, device: &Device) -> Vec<RankedConfig> {
        shape::candidates(supported.fusion(), operand(supported), device)
    }

    fn lower(&self, supported: &Supported, config: &EngineConfig, device: &Device) -> Kernel {
        let fusion = supported.fusion();
        let mut kernel = Kernel {
            graph: fusion.graph().clone(),
            engine: NAME,
            config: config.to_string(),
            functions: Vec::new(),
            workspace_bytes: 0,
        };
        let operand = operand(supported);
        let choice = shape::choice(config, operand, promotes(fusion, operand));
        lower_gemm(fusion, &choice, config, device, &mut kernel);
        kernel
    }
}

fn operand(supported: &Supported) -> MmaType {
    operand_type(supported.fusion(), supported.capability()).expect("the graph was accepted")
}

/// The type in which a core's operands are multiplied, if the chip has the instruction.
fn operand_type(fusion: &Fusion, capability: ComputeCapability) -> Result<MmaType, String> {
    let operand = multiplied_type(fusion)?;
    if operand == MmaType::F16 && capability >= ADA && copies_fp8(fusion) {
        return Ok(MmaType::Fp8);
    }
    let needed = if matches!(operand, MmaType::F16 | MmaType::S8) { TURING } else { AMPERE };
    if capability < needed {
        return Err(format!(
            "{capability} has no matrix instruction for {operand:?} operands; it begins with {needed}"
        ));
    }
    Ok(operand)
}

/// Whether both operands are FP8 tensors that `cp.async` takes along k: `ldmatrix` does not transpose bytes, so others are
/// faster as FP16.
fn copies_fp8(fusion: &Fusion) -> bool {
    let copied = |problem: &Problem| fetches(fusion, problem, &shape::multiply(MmaType::Fp8)) == [Fetch::Async; 2];
    Problem::of(fusion).as_ref().is_some_and(copied)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::graph::{DataType, Graph, Tensor};

    fn chosen(types: [DataType; 2], compute: DataType, capability: (u32, u32)) -> Result<MmaType, String> {
        let mut graph = Graph::new().io_data_type(DataType::Float).compute_data_type(compute);
        let a = graph.tensor(Tensor::new("A").row_major([1, 8, 8]).data_type(types[0]));
        let b = graph.tensor(Tensor::new("B").row_major([1, 8, 8]).data_type(types[1]));
        let c = graph.matmul("mm", a, b);
        graph.set_output(c);
        let fusion = crate::fusion::fuse(Arc::new(graph.finalize().expect("well formed"))).expect("a matmul");
        operand_type(&fusion, ComputeCapability::new(capability.0, capability.1))
    }

    #[test]
    fn operands_are_multiplied_in_a_type_that_holds_both() {
        use DataType as T;
        let on_ampere = |a, b| chosen([a, b], T::Float, (8, 0)).ok();
        assert_eq!(on_ampere(T::Half, T::Half), Some(MmaType::F16));
        assert_eq!(on_ampere(T::Fp8E4M3, T::Fp8E5M2), Some(MmaType::F16));
        assert_eq!(on_ampere(T::BFloat16, T::Fp8E5M2), Some(MmaType::Bf16));
        assert_eq!(on_ampere(T::BFloat16, T::Half), Some(MmaType::Tf32));
        assert_eq!(on_ampere(T::Half, T::Float), Some(MmaType::Tf32));
        assert_eq!(on_ampere(T::Half, T::Int8), None);
        assert_eq!(chosen([T::Int8, T::Int8], T::Int32, (7, 5)), Ok(MmaType::S8));
    }

    /// What `A · B` of FP8 is multiplied as on a chip, B with these strides.
    fn of_fp8(stride: [i64; 3], capability: (u32, u32)) -> MmaType {
        let mut graph = Graph::new().io_data_type(DataType::Fp8E4M3).compute_data_type(DataType::Float);
        let a = graph.tensor(Tensor::new("A").row_major([1, 8, 8]));
        let b = graph.tensor(Tensor::new("B").dim([1, 8, 8]).stride(stride).data_type(DataType::Fp8E5M2));
        let c = graph.matmul("mm", a, b);
        graph.set_output(c);
        let fusion = crate::fusion::fuse(Arc::new(graph.finalize().expect("well formed"))).expect("a matmul");
        operand_type(&fusion, ComputeCapability::new(capability.0, capability.1)).expect("FP16 holds it")
    }

    #[test]
    fn fp8_is_multiplied_as_it_is_where_chip_and_layout_allow_it() {
        let (along_k, along_n) = ([64, 1, 8], [64, 8, 1]);
        assert_eq!(of_fp8(along_k, (8, 9)), MmaType::Fp8);
        assert_eq!(of_fp8(along_k, (9, 0)), MmaType::Fp8);
        assert_eq!(of_fp8(along_k, (8, 6)), MmaType::F16);
        assert_eq!(of_fp8(along_n, (8, 9)), MmaType::F16);
    }

    #[test]
    fn chips_without_the_instruction_are_passed_over() {
        use DataType as T;
        assert!(chosen([T::Half, T::Half], T::Float, (7, 0)).is_err());
        assert!(chosen([T::Half, T::Half], T::Float, (7, 5)).is_ok());
        assert!(chosen([T::BFloat16, T::BFloat16], T::Float, (7, 5)).is_err());
        assert!(chosen([T::Float, T::Float], T::Float, (7, 5)).is_err());
    }
}
