//! Attention whose keys blocks share, with configs of fewest and of most of these, whatever the model prefers.

use fusewright::build::Build;
use fusewright::device::Device;
use fusewright::engine::Knob;
use fusewright::graph::Graph;
use libtest_mimic::{Failed, Trial};

use crate::cases::{self, Case};
use crate::pipeline;

/// A trial for each case of the suite that has few queries and many keys.
pub(crate) fn trials(
    tier: &str,
    device: impl Fn() -> Result<Device, Failed> + Copy + Send + 'static,
    run: impl Fn(&Build) -> Result<(), Failed> + Copy + Send + 'static,
) -> Vec<Trial> {
    let trial = |case: Case| {
        Trial::test(format!("{tier}::shared_keys::{}", case.name), move || {
            lowered(&case.graph, &device()?)?.iter().try_for_each(|build| {
                let of_config = |failed: Failed| format!("{}: {}", build.config, failed.message().unwrap_or_default());
                run(build).map_err(|failed| of_config(failed).into())
            })
        })
    };
    cases::all().into_iter().filter(|case| case.name.starts_with("attention_parts_")).map(trial).collect()
}

/// The first config of those with fewest parts, and the first of those with most.
fn lowered(graph: &Graph, device: &Device) -> Result<[Build; 2], String> {
    let mut builds = pipeline::lower_every_config(graph, device)?;
    let parts = |build: &Build| build.config.knob(Knob::SplitK, 1);
    builds.retain(|build| parts(build) > 1);
    builds.sort_by_key(parts);
    let most = builds.iter().map(parts).max().ok_or("blocks share keys in no config")?;
    let most = builds.iter().position(|build| parts(build) == most).ok_or("no config")?;
    let most = builds.swap_remove(most);
    let fewest = if builds.is_empty() { most.clone() } else { builds.remove(0) };
    Ok([fewest, most])
}
