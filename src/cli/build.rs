//! From a finalized graph to its source: verdict, engine, config, kernel, text.

use std::fmt::Write as _;
use std::sync::Arc;

use fusewright::codegen::{self, Source};
use fusewright::compile::{Compiled, Compiler, Request};
use fusewright::device::{ComputeCapability, Device};
use fusewright::engine::{self, ENGINES, Engine, EngineConfig};
use fusewright::error::Error;
use fusewright::fusion::Fusion;
use fusewright::graph::FinalizedGraph;
use fusewright::kernel::Kernel;
use fusewright::support::{self, Report, Supported, SurfaceId};

/// What the surfaces say of a graph, and which engine takes it.
pub(super) struct Decision {
    /// The verdict.
    pub(super) report: Report,
    /// The engine, or why each one does not; `None` where the graph is not supported.
    pub(super) engine: Option<Result<&'static dyn Engine, Vec<String>>>,
}

/// Asks the documented surfaces; where they refuse, engines that do without some of the rules.
pub(super) fn decide(
    graph: &Arc<FinalizedGraph>,
    capability: ComputeCapability,
    surfaces: &[SurfaceId],
) -> Decision {
    let report = support::check(graph, capability, surfaces);
    if let Some(supported) = &report.supported {
        let engine = Some(engine::select(supported.fusion(), capability));
        return Decision { report, engine };
    }
    let relaxing = ENGINES.iter().filter(|engine| !engine.relaxes().is_empty());
    let relaxed = relaxing.into_iter().find_map(|&engine| {
        let report = support::check_relaxed(graph, capability, surfaces, engine.relaxes());
        let fusion = report.supported.as_ref().map(Supported::fusion)?;
        engine.accepts(fusion, capability).is_ok().then_some(Decision { report, engine: Some(Ok(engine)) })
    });
    relaxed.unwrap_or(Decision { report, engine: None })
}

impl Decision {
    /// The engine that takes the graph.
    pub(super) fn engine(&self) -> Option<&'static dyn Engine> {
        self.engine.as_ref().and_then(|engine| engine.as_ref().ok().copied())
    }

    /// The graph's stages with the engine that takes them.
    ///
    /// # Errors
    /// [`Error::NotSupported`] with the whole report, or with the reason of each engine.
    pub(super) fn accepted(&self) -> Result<(&Supported, &'static dyn Engine), Error> {
        let Some(supported) = &self.report.supported else {
            return Err(Error::NotSupported(self.report.to_string()));
        };
        match &self.engine {
            Some(Ok(engine)) => Ok((supported, *engine)),
            Some(Err(reasons)) => Err(Error::NotSupported(format!(
                "supported by surface {}, but no engine takes it yet: {}",
                supported.surface(),
                reasons.join("; ")
            ))),
            None => Err(Error::NotSupported("no engine was asked".to_owned())),
        }
    }
}

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

/// Generates the kernel of a graph with the engine's first config.
///
/// # Errors
/// As [`Decision::accepted`] and [`render`].
pub(super) fn generate(graph: &Arc<FinalizedGraph>, device: &Device) -> Result<Build, Error> {
    let decision = decide(graph, device.capability, &SurfaceId::ALL);
    let (supported, engine) = decision.accepted()?;
    let fusion = supported.fusion();
    match engine.candidates(fusion, device).into_iter().next() {
        Some(config) => render(engine, fusion, config, device),
        None => Err(Error::NotSupported(format!("engine {} offers no config", engine.name()))),
    }
}

/// Lowers and renders a graph with a config of its engine.
///
/// # Errors
/// [`Error::Generated`] where a template fails.
pub(super) fn render(
    engine: &dyn Engine,
    fusion: &Fusion,
    config: EngineConfig,
    device: &Device,
) -> Result<Build, Error> {
    let kernel = engine.lower(fusion, &config, device);
    let source = codegen::render(&kernel)?;
    Ok(Build { config, kernel, source })
}

/// The launches of a source, one a line.
pub(super) fn launch_lines(source: &Source) -> String {
    let mut text = String::new();
    for launch in &source.launches {
        let by = |extents: [u32; 3]| extents.map(|extent| extent.to_string()).join("×");
        let shared = super::units::bytes(launch.shared_bytes.into());
        let (grid, block) = (by(launch.grid), by(launch.block));
        // Writing to a string cannot fail.
        let _ = writeln!(text, "  {}  grid {grid}, block {block}, {shared} of shared memory", launch.function);
    }
    text
}
