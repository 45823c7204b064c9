//! Texts of plans.

use serde::{Deserialize, Serialize};

use crate::compile::Cubin;
use crate::compile::sealed::Sealed;
use crate::device::Device;

/// What a plan is made of.
#[derive(Serialize, Deserialize)]
pub(super) struct PlanText {
    pub(super) device: Device,
    /// The engine config, as it prints.
    pub(super) config: String,
    /// A frontend file.
    pub(super) graph: String,
    /// Hash of the CUDA text.
    pub(super) source: String,
    pub(super) cubin: Cubin,
}

/// What every form of a plan's text holds: enough to build the plan anew.
#[derive(Deserialize)]
pub(super) struct PlanOrigin {
    pub(super) device: Device,
    pub(super) graph: String,
}

impl Sealed for PlanText {
    const KIND: &'static str = "fusewright plan";
}
