//! Backward passes of attention that leave gradients of scores in the workspace, whatever the model prefers: all heads at once, and in parts, as on a
//! chip with few multiprocessors, where tiles of causal passes come in pairs, those of passes that multiply scores again, too.

use fusewright::build::Build;
use fusewright::device::Device;
use fusewright::engine::Knob;
use fusewright::graph::Graph;
use libtest_mimic::{Failed, Trial};

use crate::cases::{self, Case};
use crate::pipeline;

/// Multiprocessors of the chip with few.
const FEW: u32 = 2;

/// A trial for each backward pass with dQ that leaves gradients of scores in some config.
pub(crate) fn trials(
    tier: &str,
    device: impl Fn() -> Result<Device, Failed> + Copy + Send + 'static,
    run: impl Fn(&Build) -> Result<(), Failed> + Copy + Send + 'static,
) -> Vec<Trial> {
    let trial = |case: Case| {
        Trial::test(format!("{tier}::stored_gradients::{}", case.name), move || {
            let device = device()?;
            let few = Device { sm_count: FEW, ..device.clone() };
            let paired = case.name.contains("causal").then(|| first(&case.graph, &few, 0));
            for build in [first(&case.graph, &few, 1), first(&case.graph, &device, 1)].into_iter().chain(paired) {
                let build = build?;
                let of_config = |failed: Failed| format!("{}: {}", build.config, failed.message().unwrap_or_default());
                run(&build).map_err(of_config)?;
            }
            Ok(())
        })
    };
    let has_them = |case: &Case| {
        case.name.starts_with("attention_bwd_") && first(&case.graph, &pipeline::typical_device(), 1).is_ok()
    };
    cases::all().into_iter().filter(has_them).map(trial).collect()
}

/// The first config that leaves gradients of scores (1), or does not (0).
fn first(graph: &Graph, device: &Device, stored: u32) -> Result<Build, String> {
    let mut configs = pipeline::configs(graph, device)?.into_iter();
    let config = configs.find(|config| config.knob(Knob::StoredGradients, 0) == stored);
    pipeline::lower_config(graph, config.ok_or("no such config")?, device).map_err(|error| error.to_string())
}
