//! Backward passes whose consumers leave out different steps of one ring, from head to head of a group: in every config of a chip with few
//! multiprocessors, on which tiles are large.

use fusewright::build::Build;
use fusewright::device::Device;
use fusewright::engine::{EngineConfig, Knob};
use fusewright::graph::Graph;
use fusewright::kernel::WGMMA_ROWS;
use libtest_mimic::{Failed, Trial};

use crate::attention_backward_cases;
use crate::pipeline;

/// Multiprocessors of the chip for which kernels are made.
const MULTIPROCESSORS: u32 = 2;

/// Configs of a graph that run, of those that multiply scores in both passes, and of those that keep their gradients.
const CONFIGS: usize = 2;

/// A trial for each graph.
pub(crate) fn trials(
    tier: &str,
    device: fn() -> Result<Device, Failed>,
    run: fn(&Build) -> Result<(), Failed>,
) -> Vec<Trial> {
    let trial = |(name, graph): (String, Graph)| {
        Trial::test(format!("{tier}::rings::{name}"), move || {
            let device = Device { sm_count: MULTIPROCESSORS, ..device()? };
            let mut configs = pipeline::configs(&graph, &device)?;
            configs.retain(|config| config.knob(Knob::TileN, 0) > WGMMA_ROWS);
            let is_stored = |config: &EngineConfig| config.knob(Knob::StoredGradients, 0) != 0;
            let (stored, passes): (Vec<_>, Vec<_>) = configs.into_iter().partition(is_stored);
            for (kind, configs) in [("twice", passes), ("once", stored)] {
                if configs.len() < CONFIGS {
                    let found = configs.len();
                    return Err(format!("{found} configs with several consumers of keys multiply scores {kind}").into());
                }
                for config in configs.into_iter().take(CONFIGS) {
                    run(&pipeline::lower_config(&graph, config, &device)?)?;
                }
            }
            Ok(())
        })
    };
    attention_backward_cases::narrow_windows().into_iter().map(trial).collect()
}
