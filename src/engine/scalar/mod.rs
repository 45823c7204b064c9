//! The engine that runs on every chip from sm_70 on: pointwise and reduction graphs at memory speed, matmuls and
//! convolutions with any mainloop and epilogue DAG on plain multiply-adds.
//!
//! It evaluates a stage value by value at each point of an iteration space, so it takes any DAG, any mix of types
//! and layouts, and any extents.

mod gemm;

use super::lowering::{RELAXED, is_lowered, lower_passes, pass_candidates};
use super::{Engine, EngineConfig, Floor, RankedConfig};
use crate::device::{ComputeCapability, Device};
use crate::fusion::{Fusion, Pattern};
use crate::kernel::Kernel;
use crate::support::Supported;

/// See the module.
#[derive(Clone, Copy, Debug)]
pub struct Scalar;

const NAME: &str = "scalar";

impl Engine for Scalar {
    fn id(&self) -> i64 {
        2
    }

    fn name(&self) -> &'static str {
        NAME
    }

    fn summary(&self) -> &'static str {
        "every pattern in scalar code on every chip from sm_70 on"
    }

    fn relaxes(&self) -> &'static [&'static str] {
        &RELAXED
    }

    fn accepts(&self, supported: &Supported) -> Result<(), String> {
        let capability = supported.capability();
        if capability < ComputeCapability::new(7, 0) {
            return Err(format!("{capability} is older than sm_70"));
        }
        is_lowered(supported.fusion())
    }

    fn candidates(&self, supported: &Supported, device: &Device) -> Vec<RankedConfig> {
        match supported.fusion().pattern() {
            Pattern::Pointwise => passes(supported.fusion(), device),
            _ => gemm::candidates(supported.fusion(), device),
        }
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
        match fusion.pattern() {
            Pattern::Pointwise => lower_passes(fusion, config, device, &mut kernel),
            _ => gemm::lower(fusion, config, device, &mut kernel),
        }
        kernel
    }
}

/// Passes move every tensor once, with any of the configs.
fn passes(fusion: &Fusion, device: &Device) -> Vec<RankedConfig> {
    let estimated_us = Floor::of(fusion.graph()).seconds(device, None) * 1e6;
    let configs = pass_candidates(NAME, fusion).into_iter();
    configs.map(|config| RankedConfig { config, estimated_us }).collect()
}
