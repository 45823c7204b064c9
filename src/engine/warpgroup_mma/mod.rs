//! Hopper's engine: matmuls through the tensor memory accelerator (TMA) and `wgmma`, with any epilogue DAG.
//!
//! One warpgroup brings tiles, two multiply; blocks stay on their multiprocessor and walk the tiles of C. An operand with a
//! mainloop stage or of another type is computed by the first warpgroup on its way: from boxes of the tensor that the stage
//! starts from, or through registers where the accelerator does not take its layout. Operands of 8 bits and of TF32 that do
//! not run along k are turned there. Sums are kept in FP16 where the matmul computes in HALF, else in FP32 or INT32. What
//! cannot be read in vectors is left to the next engine.

mod model;
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
pub struct WarpgroupMma;

const NAME: &str = "warpgroup_mma";

impl Engine for WarpgroupMma {
    fn id(&self) -> i64 {
        0
    }

    fn name(&self) -> &'static str {
        NAME
    }

    fn summary(&self) -> &'static str {
        "matmul fusions on Hopper by TMA and wgmma: operands as they are stored, sums in the compute type, any epilogue"
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
        is_lowered(fusion)?;
        let operand = operand_type(fusion)?;
        tf32_is_allowed(fusion, operand)?;
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::device::ComputeCapability;
    use crate::graph::{DataType, Graph, Tensor};

    /// How the operands of a matmul come to shared memory and what they are multiplied as; a reason where another engine
    /// takes it.
    fn ways(types: [DataType; 2], compute: DataType, columns: [bool; 2]) -> Result<([Fetch; 2], MmaType), String> {
        let mut graph = Graph::new().io_data_type(DataType::Float).compute_data_type(compute);
        let mut tensor = |name, [rows, width]: [i64; 2], slot: usize| {
            let stride = if columns[slot] { [rows * width, 1, rows] } else { [rows * width, width, 1] };
            graph.tensor(Tensor::new(name).dim([1, rows, width]).stride(stride).data_type(types[slot]))
        };
        let (a, b) = (tensor("A", [48, 64], 0), tensor("B", [64, 32], 1));
        let c = graph.matmul("mm", a, b);
        graph.set_output(c);
        let graph = Arc::new(graph.finalize().expect("well formed"));
        let selection = crate::engine::select(&graph, ComputeCapability::SM_90).expect("supported");
        let fusion = selection.supported().fusion();
        WarpgroupMma.accepts(selection.supported())?;
        let operand = operand_type(fusion)?;
        let problem = Problem::of(fusion).expect("a matmul");
        Ok((fetches(fusion, &problem, &shape::multiply(fusion, operand)), operand))
    }

    #[test]
    fn operands_of_8_and_32_bits_are_turned_where_they_do_not_run_along_k() {
        use DataType::{Float, Fp8E4M3, Fp8E5M2, Int8, Int32};
        for (types, compute, expected) in [
            ([Int8; 2], Int32, MmaType::S8),
            ([Fp8E4M3, Fp8E5M2], Float, MmaType::Fp8),
            ([Float; 2], Float, MmaType::Tf32),
        ] {
            for columns in [[false, false], [false, true], [true, false], [true, true]] {
                let (fetched, operand) = ways(types, compute, columns).expect("the engine takes it");
                let turned = fetched.map(|fetch| matches!(fetch, Fetch::Turned(_)));
                assert_eq!((operand, turned), (expected, [columns[0], !columns[1]]), "{types:?} {columns:?}");
            }
        }
    }

    #[test]
    fn operands_of_16_bits_are_multiplied_as_they_lie() {
        for columns in [[false, false], [true, true]] {
            let (fetched, _) = ways([DataType::Half; 2], DataType::Float, columns).expect("the engine takes it");
            assert!(fetched.iter().all(|fetch| matches!(fetch, Fetch::Tma(_))), "{columns:?}");
        }
    }
}
