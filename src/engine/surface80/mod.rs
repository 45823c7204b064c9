//! The engine of tensor cores through `mma.sync`, from sm_75 on: matmuls and convolutions with any mainloop and epilogue
//! DAG, operands in FP16, BF16, TF32 or INT8.
//!
//! Tiles come by `cp.async` where an operand is copied as it is, through registers where a mainloop stage is evaluated
//! or accesses are not aligned. FP8 operands are multiplied as FP16, which holds every FP8 value exactly; operands of
//! two types as the type that holds both.

mod shape;

use super::lowering::{RELAXED_WITH_CORE, is_lowered, lower_gemm, multiplied_type, tf32_is_allowed};
use super::{Engine, EngineConfig, RankedConfig};
use crate::device::{ComputeCapability, Device};
use crate::fusion::Fusion;
use crate::kernel::{Kernel, MmaType};
use crate::support::Supported;

/// See the module.
#[derive(Clone, Copy, Debug)]
pub struct Surface80;

const NAME: &str = "surface80";

/// `mma.sync` on FP16 and INT8 with `ldmatrix`.
const TURING: ComputeCapability = ComputeCapability::new(7, 5);

/// BF16, TF32 and `cp.async`.
const AMPERE: ComputeCapability = ComputeCapability::new(8, 0);

impl Engine for Surface80 {
    fn name(&self) -> &'static str {
        NAME
    }

    fn summary(&self) -> &'static str {
        "matmul and convolution fusions on tensor cores by mma.sync, from sm_75 on (BF16 and TF32 from sm_80 on)"
    }

    fn relaxes(&self) -> &'static [&'static str] {
        RELAXED_WITH_CORE
    }

    fn accepts(&self, supported: &Supported) -> Result<(), String> {
        let operand = operand_type(supported.fusion(), supported.capability())?;
        tf32_is_allowed(supported.fusion(), operand)?;
        is_lowered(supported.fusion())
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
        lower_gemm(fusion, &shape::choice(config, operand(supported)), config, device, &mut kernel);
        kernel
    }
}

fn operand(supported: &Supported) -> MmaType {
    operand_type(supported.fusion(), supported.capability()).expect("the graph was accepted")
}

/// The type in which a core's operands are multiplied, if the chip has the instruction.
fn operand_type(fusion: &Fusion, capability: ComputeCapability) -> Result<MmaType, String> {
    let operand = multiplied_type(fusion)?;
    let needed = if matches!(operand, MmaType::F16 | MmaType::S8) { TURING } else { AMPERE };
    if capability < needed {
        return Err(format!(
            "{capability} has no matrix instruction for {operand:?} operands; it begins with {needed}"
        ));
    }
    Ok(operand)
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

    #[test]
    fn chips_without_the_instruction_are_passed_over() {
        use DataType as T;
        assert!(chosen([T::Half, T::Half], T::Float, (7, 0)).is_err());
        assert!(chosen([T::Half, T::Half], T::Float, (7, 5)).is_ok());
        assert!(chosen([T::BFloat16, T::BFloat16], T::Float, (7, 5)).is_err());
        assert!(chosen([T::Float, T::Float], T::Float, (7, 5)).is_err());
    }
}
