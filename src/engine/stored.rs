//! Values that mainloop stages store: launches of their own before the core, which reads them as any operand in memory.
//!
//! No engine sees such a value. Each is given the rest of the graph, to which what is stored is an input, so that boxes, copies and all
//! else is planned as of any input.

use super::engines::passes;
use super::lowering::LAUNCH_SECONDS;
use super::{Bound, Engine, EngineConfig, Offer, RankedConfig, Term};
use crate::device::Device;
use crate::error::Reason;
use crate::graph::{Attributes, FinalizedGraph};
use crate::kernel::Kernel;
use crate::support::Supported;

/// What an engine offers for a graph, of which others compute what mainloop stages store.
///
/// # Errors
/// Why the engine does not compute the graph, or nobody what is stored.
pub(super) fn offer(engine: &dyn Engine, supported: &Supported) -> Result<Box<dyn Offer>, Reason> {
    let fusion = supported.fusion();
    let stored = fusion.stored_before_core();
    if stored.is_empty() {
        return engine.take(supported);
    }
    let [first, rest] = fusion.cut_at(&stored).map_err(|misfit| Reason::Graph(misfit.to_string()))?;
    has_no_definitions(first.graph()).map_err(Reason::Graph)?;
    let remark = |&id| {
        let tensor = fusion.graph().describe_tensor(id);
        format!(
            "tensor {tensor} is computed before the core and stored; so it is evaluated first, and read from memory"
        )
    };
    let remarks = stored.iter().map(remark).collect();
    let (first, rest) = (passes(&supported.of_part(first))?, engine.take(&supported.of_part(rest))?);
    Ok(Box::new(StoredFirst { first, rest, remarks }))
}

/// Values of definitions stand behind a graph's own tensors, where those of the rest stand, too.
fn has_no_definitions(graph: &FinalizedGraph) -> Result<(), String> {
    let is_composite = |operation: &_| matches!(graph.operation(*operation).attributes, Attributes::Composite(_));
    match graph.operation_ids().find(is_composite) {
        Some(id) => Err(format!("no kernels for {} before a core", graph.describe_operation(id))),
        None => Ok(()),
    }
}

/// A graph in two parts.
#[derive(Debug)]
struct StoredFirst {
    /// What is stored before the core.
    first: Box<dyn Offer>,
    /// The core, and all around it that is not stored before it.
    rest: Box<dyn Offer>,
    remarks: Vec<String>,
}

impl StoredFirst {
    /// How what is stored is computed, whatever becomes of the rest.
    fn passes(&self, device: &Device) -> Option<RankedConfig> {
        self.first.candidates(device).into_iter().next()
    }
}

impl Offer for StoredFirst {
    fn remarks(&self) -> Vec<String> {
        [&self.remarks[..], &self.rest.remarks()].concat()
    }

    fn candidates(&self, device: &Device) -> Vec<RankedConfig> {
        let Some(passes) = self.passes(device) else { return Vec::new() };
        let term = Term { bound: Bound::Stored, time: passes.estimated_us + LAUNCH_SECONDS * 1e6 };
        let behind = |ranked: RankedConfig| RankedConfig {
            estimated_us: ranked.estimated_us + term.time,
            estimate: ranked.estimate.and(term),
            ..ranked
        };
        self.rest.candidates(device).into_iter().map(behind).collect()
    }

    fn lower(&self, config: &EngineConfig, device: &Device) -> Kernel {
        let passes = self.passes(device).map(|passes| self.first.lower(&passes.config, device));
        passes.into_iter().fold(self.rest.lower(config, device), Kernel::after)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::device::ComputeCapability;
    use crate::engine::{Decision, decide};
    use crate::graph::{DataType, Graph, PointwiseMode, Tensor};
    use crate::kernel::Body;
    use crate::support::SurfaceId;

    /// `relu(A·scale)·B` with the product, or the ReLU, stored.
    fn decided(is_inner: bool) -> Decision {
        let mut graph = Graph::new()
            .io_data_type(DataType::Half)
            .intermediate_data_type(DataType::Half)
            .compute_data_type(DataType::Float);
        let a = graph.tensor(Tensor::new("A").row_major([1, 256, 128]));
        let scale = graph.tensor(Tensor::new("scale").row_major([1, 256, 1]));
        let b = graph.tensor(Tensor::new("B").row_major([1, 128, 64]));
        let scaled = graph.pointwise("scaled", PointwiseMode::Mul, &[a, scale]);
        let relu = graph.pointwise("relu", PointwiseMode::ReluFwd, &[scaled]);
        let c = graph.matmul("mm", relu, b);
        graph.set_output(c);
        graph.set_output(if is_inner { scaled } else { relu });
        decide(&Arc::new(graph.finalize().expect("well formed")), ComputeCapability::SM_90, &SurfaceId::ALL)
    }

    #[test]
    fn every_engine_reads_what_is_stored_from_memory() {
        let device = Device::typical(ComputeCapability::SM_90);
        let first = decided(false).into_selection().expect("an engine takes it");
        let mut engines = Vec::new();
        for selection in std::iter::successors(Some(first), crate::engine::Selection::fallback) {
            for RankedConfig { config, estimate, .. } in selection.candidates(&device) {
                assert!(estimate.on_top.iter().any(|term| term.bound == Bound::Stored && term.time > 0.0));
                let kernel = selection.lower(&config, &device);
                assert_eq!(kernel.functions[0].launch.function, "fw_before_pointwise");
                let gemm = kernel.functions.iter().find_map(|function| match &function.body {
                    Body::Gemm(gemm) => Some(gemm),
                    _ => None,
                });
                let a = gemm.expect("a product").a.tensor;
                assert!(kernel.graph.producer(a).is_none() && !kernel.graph.tensor(a).is_virtual, "{config}");
            }
            engines.push(selection.engine().name());
        }
        assert_eq!(engines, ["warpgroup_mma", "warp_mma", "scalar"]);
    }

    #[test]
    fn what_follows_a_stored_value_stays_with_the_core() {
        let selection = decided(true).into_selection().expect("an engine takes it");
        let device = Device::typical(ComputeCapability::SM_90);
        let kernel = selection.lower(&selection.config(&device).expect("a config"), &device);
        let modes: Vec<&str> = kernel.graph.operations().map(|operation| operation.name.as_str()).collect();
        assert_eq!((modes, kernel.functions.len()), (vec!["relu", "mm"], 2));
    }

    #[test]
    fn people_are_told_what_is_evaluated_first() {
        let lines = decided(false).details(false).join("\n");
        assert!(lines.contains("note: tensor 'relu::OUT_0'") && lines.contains("so it is evaluated first"), "{lines}");
    }
}
