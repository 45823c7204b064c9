//! From a supported graph to its kernel's source and binary.

use std::fmt::Write as _;
use std::sync::Arc;

use fusewright::codegen::{self, Source};
use fusewright::compile::{Compiled, Compiler, Request};
use fusewright::device::{ComputeCapability, Device};
use fusewright::engine::{self, EngineConfig, HeuristicMode, Heuristics, Selection};
use fusewright::error::Error;
use fusewright::graph::FinalizedGraph;
use fusewright::kernel::Kernel;
use fusewright::tuning::TuningStore;

/// A graph's kernel for a device.
pub(super) struct Build {
    /// The engine config.
    pub(super) config: EngineConfig,
    /// The kernel description.
    pub(super) kernel: Kernel,
    /// Its CUDA text and launches.
    pub(super) source: Source,
}

impl Build {
    /// Compiles the source for an exact chip.
    ///
    /// # Errors
    /// As [`Compiler::compile`].
    pub(super) fn compile(&self, compiler: &Compiler, capability: ComputeCapability) -> Result<Compiled, Error> {
        compiler.compile(&Request {
            graph: self.kernel.graph.key(),
            engine: self.kernel.engine,
            config: &self.kernel.config,
            source: &self.source.text,
            capability,
        })
    }
}

/// Generates the kernel of a graph with a mode's first config.
///
/// # Errors
/// As [`engine::heuristics`] and [`render`].
pub(super) fn generate(graph: &Arc<FinalizedGraph>, device: &Device, mode: HeuristicMode) -> Result<Build, Error> {
    let Heuristics { selection, mut configs } = engine::heuristics(graph, device, mode)?;
    render(&selection, configs.swap_remove(0).config, device)
}

/// Generates the kernel of a graph with the stored winner of tuning on this device, or else as [`generate`] in mode A.
///
/// # Errors
/// As [`generate`] and [`TuningStore::config`].
pub(super) fn generate_tuned(
    graph: &Arc<FinalizedGraph>,
    device: &Device,
    store: &TuningStore,
) -> Result<Build, Error> {
    let selection = engine::select(graph, device.capability)?;
    render(&selection, store.config(&selection, device)?, device)
}

/// Lowers and renders a graph with a config of its engine.
///
/// # Errors
/// [`Error::Generated`] where a template fails.
pub(super) fn render(selection: &Selection, config: EngineConfig, device: &Device) -> Result<Build, Error> {
    let kernel = selection.lower(&config, device);
    let source = codegen::render(&kernel)?;
    Ok(Build { config, kernel, source })
}

/// The launches of a source, one a line.
pub(super) fn launch_lines(source: &Source) -> String {
    let mut text = String::new();
    for launch in &source.launches {
        let by = |extents: &[u32]| extents.iter().map(u32::to_string).collect::<Vec<_>>().join("×");
        let shared = super::units::bytes(launch.shared_bytes.into());
        let (grid, block) = (by(&launch.grid), by(&launch.block));
        // Writing to a string cannot fail.
        let _ = writeln!(text, "  {}  grid {grid}, block {block}, {shared} of shared memory", launch.function);
    }
    text
}
