//! Hopper's engine: matmuls through the tensor memory accelerator (TMA) and `wgmma`, with any epilogue DAG.
//!
//! One warpgroup asks for tiles, two multiply; blocks stay on their multiprocessor and walk the tiles of C. Operands are
//! FP16, BF16, TF32, FP8 or INT8 as they are stored; what the accelerator does not take is left to the next engine.

mod shape;

use super::lowering::{Problem, RELAXED_WITH_CORE, is_boxed, is_lowered, lower_gemm};
use super::{Engine, EngineConfig};
use crate::device::Device;
use crate::fusion::Fusion;
use crate::graph::DataType;
use crate::kernel::{Kernel, MmaType};
use crate::support::Supported;

/// See the module.
#[derive(Clone, Copy, Debug)]
pub struct Surface90;

const NAME: &str = "surface90";

/// NVIDIA's switch: 0 turns TF32 off (D-14).
const TF32_SWITCH: &str = "NVIDIA_TF32_OVERRIDE";

impl Engine for Surface90 {
    fn name(&self) -> &'static str {
        NAME
    }

    fn summary(&self) -> &'static str {
        "matmul fusions on Hopper by TMA and wgmma: operands as they are stored, any epilogue"
    }

    fn relaxes(&self) -> &'static [&'static str] {
        RELAXED_WITH_CORE
    }

    fn accepts(&self, supported: &Supported) -> Result<(), String> {
        let capability = supported.capability();
        if capability.major != 9 {
            return Err(format!("wgmma is Hopper's; the chip is {capability}"));
        }
        let fusion = supported.fusion();
        let operand = operand_type(fusion)?;
        if operand == MmaType::Tf32 && std::env::var_os(TF32_SWITCH).is_some_and(|value| value == "0") {
            return Err(format!("{TF32_SWITCH}=0 asks for full FP32"));
        }
        let problem = Problem::of(fusion).ok_or("a graph without matmul")?;
        is_boxed(fusion, &problem, 0, operand)?;
        is_boxed(fusion, &problem, 1, operand)?;
        is_lowered(fusion)
    }

    fn candidates(&self, supported: &Supported, device: &Device) -> Vec<EngineConfig> {
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
        lower_gemm(fusion, &shape::choice(config, fusion, operand(supported)), config, device, &mut kernel);
        kernel
    }
}

fn operand(supported: &Supported) -> MmaType {
    operand_type(supported.fusion()).expect("the graph was accepted")
}

/// The type in which a core's operands are multiplied: both as they are stored.
fn operand_type(fusion: &Fusion) -> Result<MmaType, String> {
    let types = fusion.core_operands().ok_or("a graph without matmul")?.map(|id| fusion.graph().tensor(id).data_type);
    use DataType as T;
    match types {
        [T::Half, T::Half] => Ok(MmaType::F16),
        [T::BFloat16, T::BFloat16] => Ok(MmaType::Bf16),
        [T::Float, T::Float] => Ok(MmaType::Tf32),
        [T::Int8, T::Int8] => Ok(MmaType::S8),
        [T::Fp8E4M3 | T::Fp8E5M2, T::Fp8E4M3 | T::Fp8E5M2] => Ok(MmaType::Fp8),
        [a, b] => Err(format!("wgmma does not multiply {a} by {b}")),
    }
}
