//! From a graph to a rendered kernel, as every tier needs it.

use std::sync::Arc;

use fusewright::codegen::{Source, render};
use fusewright::device::{ComputeCapability, Device};
use fusewright::engine::{self, EngineConfig, Selection};
use fusewright::graph::{FinalizedGraph, Graph};

/// A graph on its way through the pipeline.
pub(crate) struct Lowered {
    pub(crate) graph: Arc<FinalizedGraph>,
    pub(crate) config: EngineConfig,
    pub(crate) source: Source,
}

/// Finalizes, checks, lowers and renders for a device.
pub(crate) fn lower(graph: &Graph, device: &Device) -> Result<Lowered, String> {
    let graph = Arc::new(graph.finalize().map_err(|error| error.to_string())?);
    lower_finalized(graph, device)
}

/// Checks, lowers and renders for a device.
pub(crate) fn lower_finalized(graph: Arc<FinalizedGraph>, device: &Device) -> Result<Lowered, String> {
    let selection = engine::select(&graph, device.capability).map_err(|refusal| refusal.to_string())?;
    let config = selection.candidates(device).swap_remove(0).config;
    render_config(graph, &selection, config, device)
}

/// Lowers and renders every config that the engine offers for a device.
pub(crate) fn lower_every_config(graph: &Graph, device: &Device) -> Result<Vec<Lowered>, String> {
    lower_every_config_finalized(&Arc::new(graph.finalize().map_err(|error| error.to_string())?), device)
}

/// As [`lower_every_config`].
pub(crate) fn lower_every_config_finalized(
    graph: &Arc<FinalizedGraph>,
    device: &Device,
) -> Result<Vec<Lowered>, String> {
    let selection = engine::select(graph, device.capability).map_err(|refusal| refusal.to_string())?;
    let configs = selection.candidates(device).into_iter();
    configs.map(|ranked| render_config(graph.clone(), &selection, ranked.config, device)).collect()
}

/// Lowers and renders a config of the engine that takes a graph.
pub(crate) fn lower_config(graph: &Graph, config: EngineConfig, device: &Device) -> Result<Lowered, String> {
    let graph = Arc::new(graph.finalize().map_err(|error| error.to_string())?);
    let selection = engine::select(&graph, device.capability).map_err(|refusal| refusal.to_string())?;
    if selection.engine().name() != config.engine {
        return Err(format!("{} takes the graph, not {}", selection.engine().name(), config.engine));
    }
    render_config(graph, &selection, config, device)
}

fn render_config(
    graph: Arc<FinalizedGraph>,
    selection: &Selection,
    config: EngineConfig,
    device: &Device,
) -> Result<Lowered, String> {
    let kernel = selection.lower(&config, device);
    let source = render(&kernel).map_err(|error| error.to_string())?;
    Ok(Lowered { graph, config, source })
}

/// The chip whose kernels the emulator runs: they are the same text for all.
pub(crate) fn typical_device() -> Device {
    Device::typical(ComputeCapability::SM_90)
}
