//! Graphs without a core: passes over iteration spaces.

use super::NAME;
use crate::device::Device;
use crate::engine::builder::KernelBuilder;
use crate::engine::config::Field;
use crate::engine::lowering::{lower_passes, pass_candidates};
use crate::engine::{EngineConfig, Estimate, Floor, Knob, Offer, RankedConfig};
use crate::fusion::Fusion;
use crate::kernel::Kernel;

/// A graph without a core.
#[derive(Debug)]
pub(super) struct Passes {
    fusion: Fusion,
}

/// How passes are launched.
#[derive(Debug)]
struct Config {
    /// Threads of a block.
    threads: u32,
}

impl Default for Config {
    fn default() -> Self {
        Self { threads: 256 }
    }
}

const FIELDS: &[Field<Config>] =
    &[Field { knob: Knob::Threads, get: |config| config.threads, set: |config, value| config.threads = value }];

impl Passes {
    pub(super) fn new(fusion: &Fusion) -> Self {
        Self { fusion: fusion.clone() }
    }
}

impl Offer for Passes {
    /// Passes move every tensor once, with any of the configs.
    fn candidates(&self, device: &Device) -> Vec<RankedConfig> {
        let estimated_us = Floor::memory_seconds(self.fusion.graph(), device) * 1e6;
        let config = |&threads: &u32| RankedConfig {
            config: EngineConfig::of_fields(NAME, FIELDS, &Config { threads }),
            through_workspace: None,
            estimated_us,
            estimate: Estimate::of_memory(estimated_us),
        };
        pass_candidates(&self.fusion).iter().map(config).collect()
    }

    fn lower(&self, config: &EngineConfig, device: &Device) -> Kernel {
        let mut builder = KernelBuilder::new(self.fusion.graph(), config);
        lower_passes(&self.fusion, config.fields(FIELDS).threads, device, &mut builder);
        builder.finish()
    }
}
