//! Hopper's engine: matmuls through the tensor memory accelerator (TMA) and `wgmma`, with any epilogue DAG.
//!
//! One warpgroup brings tiles, two multiply; blocks stay on their multiprocessor and walk the tiles of C. An operand with a
//! mainloop stage or of another type is computed by the first warpgroup on its way: from boxes of the tensor that the stage
//! starts from, or through registers where the accelerator does not take its layout. What cannot be read in vectors is left
//! to the next engine.

mod shape;

use super::lowering::{
    Problem, RELAXED_WITH_CORE, fetches, is_lowered, lower_gemm, multiplied_type, tf32_is_allowed, why_not_boxed,
};
use super::{Engine, EngineConfig};
use crate::device::Device;
use crate::fusion::Fusion;
use crate::kernel::{Fetch, Kernel, MmaType};
use crate::support::Supported;

/// See the module.
#[derive(Clone, Copy, Debug)]
pub struct Surface90;

const NAME: &str = "surface90";

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
        tf32_is_allowed(fusion, operand)?;
        is_lowered(fusion)?;
        let problem = Problem::transposed(fusion).ok_or("convolutions have no kernels here yet")?;
        let fetched = fetches(fusion, &problem, &shape::multiply(fusion, operand));
        match fetched.iter().position(|fetch| *fetch == Fetch::Element) {
            Some(slot) => {
                let why = why_not_boxed(fusion, &problem, slot, operand).unwrap_or_default();
                Err(format!("{why}, and it cannot be read in vectors"))
            }
            None => Ok(()),
        }
    }

    fn candidates(&self, supported: &Supported, device: &Device) -> Vec<super::RankedConfig> {
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

/// The type in which a core's operands are multiplied: FP8 as it is where both are boxed, else the type that holds both.
fn operand_type(fusion: &Fusion) -> Result<MmaType, String> {
    let common = multiplied_type(fusion)?;
    let boxed = |problem: Problem| (0..2).all(|slot| why_not_boxed(fusion, &problem, slot, MmaType::Fp8).is_none());
    let as_stored = common == MmaType::F16 && Problem::of(fusion).is_some_and(boxed);
    Ok(if as_stored { MmaType::Fp8 } else { common })
}
