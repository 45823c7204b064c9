//! The engine that runs on every chip from sm_70 on: pointwise and reduction graphs at memory speed, matmul with any
//! mainloop and epilogue DAG on plain multiply-adds.
//!
//! It evaluates a stage value by value at each point of an iteration space, so it takes any DAG, any mix of types
//! and layouts, and any extents.

mod matmul;
mod pass;
mod sweep;

use super::{Engine, EngineConfig, Knob};
use crate::device::{ComputeCapability, Device};
use crate::fusion::{Fusion, Pattern};
use crate::graph::{Attributes, DataType, Port};
use crate::kernel::Kernel;

/// See the module.
pub struct Surface70;

const NAME: &str = "surface70";

impl Engine for Surface70 {
    fn name(&self) -> &'static str {
        NAME
    }

    fn summary(&self) -> &'static str {
        "pointwise, reduction and matmul fusions in scalar code on every chip from sm_70 on"
    }

    fn accepts(&self, fusion: &Fusion, capability: ComputeCapability) -> Result<(), String> {
        if capability < ComputeCapability::new(7, 0) {
            return Err(format!("{capability} is older than sm_70"));
        }
        pattern_is_taken(fusion)?;
        operations_are_taken(fusion)?;
        types_are_taken(fusion)
    }

    fn candidates(&self, fusion: &Fusion, device: &Device) -> Vec<EngineConfig> {
        match fusion.pattern() {
            Pattern::Matmul => matmul::candidates(fusion, device),
            _ => vec![EngineConfig { engine: NAME, knobs: vec![(Knob::Threads, 256)] }],
        }
    }

    fn lower(&self, fusion: &Fusion, config: &EngineConfig, device: &Device) -> Kernel {
        let mut kernel = Kernel {
            graph: fusion.graph().clone(),
            engine: NAME,
            config: config.to_string(),
            functions: Vec::new(),
            workspace_bytes: 0,
        };
        match fusion.pattern() {
            Pattern::Matmul => matmul::lower(fusion, config, device, &mut kernel),
            _ => pass::lower(fusion, config, device, &mut kernel),
        }
        kernel
    }
}

fn pattern_is_taken(fusion: &Fusion) -> Result<(), String> {
    match fusion.pattern() {
        Pattern::Matmul | Pattern::Pointwise => Ok(()),
        pattern => Err(format!("no {pattern:?} kernels yet")),
    }
}

fn operations_are_taken(fusion: &Fusion) -> Result<(), String> {
    let graph = fusion.graph();
    for id in graph.operation_ids() {
        let operation = graph.operation(id);
        let taken = match &operation.attributes {
            Attributes::Pointwise(pointwise) => pointwise.alpha1 == 1.0 && pointwise.alpha2 == 1.0,
            Attributes::Reduction(_) | Attributes::GenStats => true,
            Attributes::Matmul(_) => {
                let overrides = [Port::M_OVERRIDE, Port::N_OVERRIDE, Port::K_OVERRIDE];
                let written = operation.result();
                overrides.iter().all(|&port| operation.input(port).is_none())
                    && operation.input_tensors().all(|input| Some(input) != written)
            }
            _ => false,
        };
        if !taken {
            return Err(format!("no kernels for {} yet", graph.describe_operation(id)));
        }
    }
    Ok(())
}

fn types_are_taken(fusion: &Fusion) -> Result<(), String> {
    let graph = fusion.graph();
    for id in graph.tensor_ids() {
        let data_type = graph.tensor(id).data_type;
        let known = data_type.is_floating() || data_type.is_integer() || data_type == DataType::Boolean;
        if !known || data_type == DataType::Double {
            return Err(format!("tensor {}: no kernels for {data_type}", graph.describe_tensor(id)));
        }
    }
    Ok(())
}
