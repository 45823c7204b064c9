//! From a graph to a rendered kernel, as every tier needs it.

use std::collections::BTreeSet;
use std::sync::Arc;

use fusewright::build::Build;
use fusewright::device::{ComputeCapability, Device};
use fusewright::engine::{self, EngineConfig, Knob};
use fusewright::graph::{FinalizedGraph, Graph};

/// Finalizes, checks, lowers and renders for a device.
pub(crate) fn lower(graph: &Graph, device: &Device) -> Result<Build, String> {
    let graph = Arc::new(graph.finalize().map_err(|error| error.to_string())?);
    let selection = engine::select(&graph, device.capability).map_err(|refusal| refusal.to_string())?;
    Build::first(&selection, device).map_err(|error| error.to_string())
}

/// Every config that the engine offers for a device, the best first.
pub(crate) fn configs(graph: &Graph, device: &Device) -> Result<Vec<EngineConfig>, String> {
    let graph = Arc::new(graph.finalize().map_err(|error| error.to_string())?);
    let selection = engine::select(&graph, device.capability).map_err(|refusal| refusal.to_string())?;
    Ok(selection.candidates(device).into_iter().map(|ranked| ranked.config).collect())
}

/// Configs, the best first, among which each pair of values of two knobs is, of all that the engine offers for a device.
pub(crate) fn configs_of_all_pairs(graph: &Graph, device: &Device) -> Result<Vec<EngineConfig>, String> {
    let mut seen = BTreeSet::new();
    let mut has_a_new_pair = |config: &EngineConfig| {
        let values = || Knob::ALL.iter().map(|&knob| (knob, config.knob(knob, knob.unset().unwrap_or(0))));
        let pairs = values().flat_map(|one| values().map(move |other| (one, other)));
        // the number of stages follows from the rest
        let pairs = pairs.filter(|pair| ![pair.0.0, pair.1.0].contains(&Knob::Stages));
        pairs.filter(|&pair| seen.insert(pair)).count() > 0
    };
    let configs = configs(graph, device)?;
    Ok(configs.into_iter().filter(|config| has_a_new_pair(config)).collect())
}

/// Lowers and renders every config that the engine offers for a device.
pub(crate) fn lower_every_config(graph: &Graph, device: &Device) -> Result<Vec<Build>, String> {
    lower_every_config_finalized(&Arc::new(graph.finalize().map_err(|error| error.to_string())?), device)
}

/// As [`lower_every_config`].
pub(crate) fn lower_every_config_finalized(graph: &Arc<FinalizedGraph>, device: &Device) -> Result<Vec<Build>, String> {
    let selection = engine::select(graph, device.capability).map_err(|refusal| refusal.to_string())?;
    let configs = selection.candidates(device).into_iter();
    let build = |config| Build::new(&selection, config, device).map_err(|error| error.to_string());
    configs.map(|ranked| build(ranked.config)).collect()
}

/// Lowers and renders a config of the engine that takes a graph.
pub(crate) fn lower_config(graph: &Graph, config: EngineConfig, device: &Device) -> Result<Build, String> {
    let graph = Arc::new(graph.finalize().map_err(|error| error.to_string())?);
    let selection = engine::select(&graph, device.capability).map_err(|refusal| refusal.to_string())?;
    if selection.engine().name() != config.engine {
        return Err(format!("{} takes the graph, not {}", selection.engine().name(), config.engine));
    }
    Build::new(&selection, config, device).map_err(|error| error.to_string())
}

/// The chip whose kernels the emulator runs: they are the same text for all.
pub(crate) fn typical_device() -> Device {
    Device::typical(ComputeCapability::SM_90)
}
