//! What each kind of descriptor becomes when it is finalized.

use std::sync::Arc;

use cudarc::cudnn::sys::cudnnBackendDescriptorType_t as Kind;

use super::descriptor::{Given, Object};
use super::failure::{Failure, Result};
use super::operation::Node;
use super::{attention, device, engine, graph, kernels, operation, plan, tensor};

/// The object of a kind, of what its descriptor was given.
pub(super) fn build(kind: Kind, given: &Given<'_>) -> Result<Arc<dyn Object>> {
    let object: Arc<dyn Object> = match kind {
        Kind::CUDNN_BACKEND_TENSOR_DESCRIPTOR => Arc::new(tensor::tensor(given)?),
        Kind::CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR => Arc::new(graph::build(given)?),
        Kind::CUDNN_BACKEND_ENGINE_DESCRIPTOR => Arc::new(engine::engine(given)?),
        Kind::CUDNN_BACKEND_ENGINECFG_DESCRIPTOR => Arc::new(engine::config(given)?),
        Kind::CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR => Arc::new(engine::knob_choice(given)?),
        Kind::CUDNN_BACKEND_KNOB_INFO_DESCRIPTOR
        | Kind::CUDNN_BACKEND_LAYOUT_INFO_DESCRIPTOR
        | Kind::CUDNN_BACKEND_INTERMEDIATE_INFO_DESCRIPTOR => {
            return Err(Failure::unsupported(format!("{kind:?} is got from an engine, and never finalized")));
        }
        Kind::CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR => Arc::new(engine::heuristics(given)?),
        Kind::CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR => Arc::new(plan::plan(given)?),
        Kind::CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR => Arc::new(plan::pack(given)?),
        Kind::CUDNN_BACKEND_KERNEL_CACHE_DESCRIPTOR => Arc::new(kernels::kernels(given)?),
        Kind::CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR => Arc::new(device::properties(given)?),
        Kind::CUDNN_BACKEND_OPERATION_SDPA_FWD_DESCRIPTOR => well_formed(attention::forward(given)?)?,
        Kind::CUDNN_BACKEND_OPERATION_DIAGONAL_BAND_MASK_DESCRIPTOR => well_formed(attention::band(given)?)?,
        Kind::CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR => well_formed(attention::transpose(given)?)?,
        Kind::CUDNN_BACKEND_RNG_DESCRIPTOR => Arc::new(attention::distribution(given)?),
        Kind::CUDNN_BACKEND_OPERATION_RNG_DESCRIPTOR => well_formed(attention::random(given)?)?,
        _ => match operation::node(kind, given)? {
            Some(node) => well_formed(node)?,
            None => Arc::new(operation::bundle(kind, given)?),
        },
    };
    Ok(object)
}

fn well_formed(node: Node) -> Result<Arc<dyn Object>> {
    graph::require_well_formed(&node)?;
    Ok(Arc::new(node))
}
