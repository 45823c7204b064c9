//! What an engine is, and what it answers.

use std::fmt;

use super::{EngineConfig, RankedConfig};
use crate::device::Device;
use crate::error::Reason;
use crate::fusion::{attention_backward, is_attention, is_mha};
use crate::graph::FinalizedGraph;
use crate::kernel::Kernel;
use crate::support::{Rule, Supported};

/// A family of kernels.
pub trait Engine: Sync + fmt::Debug {
    /// Number of the engine in the backend API, for every graph: fixed, and never another engine's. It says nothing of preference.
    fn id(&self) -> i64;

    /// Stable name, as printed by `check` and `explain`.
    fn name(&self) -> &'static str;

    /// One sentence for people.
    fn summary(&self) -> &'static str;

    /// Rules of the documented surfaces this engine does without: a graph that breaks only these is taken all the same.
    fn relaxes(&self) -> &'static [&'static Rule] {
        &[]
    }

    /// Whether the engine is about graphs of this kind: of others it says nothing, not even that it refuses them.
    fn concerns(&self, graph: &FinalizedGraph) -> bool {
        !is_attention(graph) && attention_backward(graph).is_none() && !is_mha(graph)
    }

    /// Plans a graph for the chip it was checked for. That launches stay within limits is not the engine's concern: the kernels
    /// of all configs are asked ([`Kernel::fits`]).
    ///
    /// # Errors
    /// Why it does not compute the graph.
    fn take(&self, supported: &Supported) -> Result<Box<dyn Offer>, Reason>;
}

/// What an engine planned for a graph. Nothing in it depends on the device, of which only the chip is known so far.
pub trait Offer: Send + Sync + fmt::Debug {
    /// Configs for a device with the times that the engine's model expects, best first; none where the device has too little shared
    /// memory for any.
    fn candidates(&self, device: &Device) -> Vec<RankedConfig>;

    /// Whether a config is one of the [`Self::candidates`]: for less than their ranking where that takes long.
    fn offers(&self, config: &EngineConfig, device: &Device) -> bool {
        self.candidates(device).iter().any(|ranked| ranked.config == *config)
    }

    /// What whoever expects the engine's best should know, as sentences for people: operands that are multiplied in another type.
    fn remarks(&self) -> Vec<String> {
        Vec::new()
    }

    /// The kernel of one of the [`Self::candidates`]. Cannot fail for reasons that lie in the graph.
    fn lower(&self, config: &EngineConfig, device: &Device) -> Kernel;
}
