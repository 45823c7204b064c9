//! From a graph to the engine that runs it: the surfaces first, then what engines take beyond them.

use std::sync::Arc;

use super::limits::launches_fit;
use super::{ENGINES, Engine, EngineConfig, RankedConfig};
use crate::device::{ComputeCapability, Device};
use crate::error::Error;
use crate::graph::FinalizedGraph;
use crate::kernel::Kernel;
use crate::support::{self, Report, Supported, SurfaceId};

/// What the surfaces say of a graph on a chip, and which engine takes it.
#[derive(Clone, Debug)]
pub struct Decision {
    /// Verdict of the documented surfaces or, where they refuse and an engine takes the graph all the same, the verdict
    /// with that engine's relaxations.
    pub report: Report,
    engine: Option<&'static dyn Engine>,
    /// Why engines passed over did not take the graph, one sentence each, beginning with the engine's name.
    pub passed_over: Vec<String>,
}

/// A supported graph with its engine: all that lowering needs.
#[derive(Clone, Debug)]
pub struct Selection {
    supported: Supported,
    engine: &'static dyn Engine,
}

/// Asks the surfaces given; where they refuse, each engine's relaxations of them.
pub fn decide(graph: &Arc<FinalizedGraph>, capability: ComputeCapability, surfaces: &[SurfaceId]) -> Decision {
    let _span = tracing::debug_span!("decide", graph_key = %graph.key(), %capability).entered();
    let report = support::check(graph, capability, surfaces);
    let mut passed_over = Vec::new();
    if let Some(supported) = &report.supported {
        let engine = ENGINES.iter().copied().find(|engine| takes(*engine, supported, &mut passed_over));
        return Decision { report, engine, passed_over };
    }
    for &engine in ENGINES {
        let relaxed = support::check_relaxed(graph, capability, surfaces, engine.relaxes());
        match &relaxed.supported {
            Some(supported) if takes(engine, supported, &mut passed_over) => {
                return Decision { report: relaxed, engine: Some(engine), passed_over };
            }
            Some(_) => {}
            None => passed_over.push(format!("{}: needs rules that the graph breaks", engine.name())),
        }
    }
    Decision { report, engine: None, passed_over }
}

fn takes(engine: &'static dyn Engine, supported: &Supported, passed_over: &mut Vec<String>) -> bool {
    match accepts(engine, supported) {
        Ok(()) => true,
        Err(reason) => {
            tracing::debug!(engine = engine.name(), reason, "engine passed over");
            passed_over.push(format!("{}: {reason}", engine.name()));
            false
        }
    }
}

/// Whether an engine computes the graph, and its launches stay within limits.
fn accepts(engine: &dyn Engine, supported: &Supported) -> Result<(), String> {
    engine.accepts(supported).and_then(|()| launches_fit(engine, supported))
}

impl Decision {
    /// The engine that takes the graph.
    pub fn engine(&self) -> Option<&'static dyn Engine> {
        self.engine
    }

    /// The proof and the engine together.
    ///
    /// # Errors
    /// [`Error::NotSupported`] with the whole report, or with the reason of each engine.
    pub fn into_selection(self) -> Result<Selection, Error> {
        let Some(supported) = self.report.supported.clone() else {
            return Err(Error::NotSupported(self.report.to_string()));
        };
        let engine = self.engine.ok_or_else(|| {
            let reasons = self.passed_over.join("; ");
            let surface = supported.surface();
            Error::NotSupported(format!("supported by surface {surface}, but no engine takes it yet: {reasons}"))
        })?;
        Ok(Selection { supported, engine })
    }
}

/// The engine for a graph, asking every surface.
///
/// # Errors
/// As [`Decision::into_selection`].
pub fn select(graph: &Arc<FinalizedGraph>, capability: ComputeCapability) -> Result<Selection, Error> {
    decide(graph, capability, &SurfaceId::ALL).into_selection()
}

impl Selection {
    /// The proof that a surface holds.
    pub fn supported(&self) -> &Supported {
        &self.supported
    }

    /// The engine.
    pub fn engine(&self) -> &'static dyn Engine {
        self.engine
    }

    /// Engine configs for a device, best first by the engine's model; none where it has too little shared memory.
    pub fn candidates(&self, device: &Device) -> Vec<RankedConfig> {
        self.engine.candidates(&self.supported, device)
    }

    /// The first of the [`Self::candidates`]: what to run unmeasured.
    ///
    /// # Errors
    /// [`Error::NotSupported`] where the device has too little shared memory for every config.
    pub fn config(&self, device: &Device) -> Result<EngineConfig, Error> {
        let first = self.candidates(device).into_iter().next();
        first.map(|ranked| ranked.config).ok_or_else(|| self.no_config_fits(device))
    }

    pub(super) fn no_config_fits(&self, device: &Device) -> Error {
        let (engine, name, bytes) = (self.engine.name(), &device.name, device.shared_bytes_per_block);
        let message = format!("{engine}: no config fits {name}, where a block has {bytes} bytes of shared memory");
        Error::NotSupported(message)
    }

    /// The graph with the next engine that takes it, after this one in [`ENGINES`].
    pub fn fallback(&self) -> Option<Self> {
        let later = ENGINES.iter().skip_while(|engine| engine.name() != self.engine.name()).skip(1);
        later.copied().find_map(|engine| {
            let supported = self.proof_for(engine).filter(|supported| accepts(engine, supported).is_ok())?;
            Some(Self { supported, engine })
        })
    }

    /// The graph with the engine of this name, where it takes the graph: this one, or one after it.
    pub fn with_engine(self, name: &str) -> Option<Self> {
        if self.engine.name() == name {
            return Some(self);
        }
        self.fallback()?.with_engine(name)
    }

    /// A proof that needs no other relaxations than an engine's: this one, or else of any surface.
    fn proof_for(&self, engine: &dyn Engine) -> Option<Supported> {
        let relaxes = engine.relaxes();
        if self.supported.relaxed().iter().all(|rule| relaxes.contains(&rule.id)) {
            return Some(self.supported.clone());
        }
        let (graph, capability) = (self.supported.graph(), self.supported.capability());
        support::check_relaxed(graph, capability, &SurfaceId::ALL, relaxes).supported
    }

    /// The kernel of a config.
    pub fn lower(&self, config: &EngineConfig, device: &Device) -> Kernel {
        let key = self.supported.graph().key();
        let _span = tracing::debug_span!("lower", graph_key = %key, engine = self.engine.name(), %config).entered();
        let kernel = self.engine.lower(&self.supported, config, device);
        debug_assert_eq!(kernel.fits(), Ok(()), "{config}");
        kernel
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::{DataType, Graph, PointwiseMode, Tensor, TensorId};

    fn sum(x: Tensor) -> (Graph, TensorId) {
        let mut graph = Graph::new().io_data_type(DataType::Float).compute_data_type(DataType::Float);
        let x = graph.tensor(x);
        let y = graph.pointwise("add", PointwiseMode::Add, &[x, x]);
        graph.set_output(y);
        (graph, y)
    }

    fn decided(graph: &Graph) -> Decision {
        let graph = Arc::new(graph.finalize().expect("well formed"));
        decide(&graph, ComputeCapability::SM_90, &SurfaceId::ALL)
    }

    #[test]
    fn a_documented_graph_needs_no_relaxation() {
        let selection = decided(&sum(Tensor::new("x").row_major([2, 8, 16])).0).into_selection().expect("supported");
        assert!(selection.supported().relaxed().is_empty());
    }

    #[test]
    fn a_relaxed_graph_names_the_rules_it_breaks() {
        let padded = Tensor::new("x").dim([2, 8, 16]).stride([256, 32, 1]);
        let selection = decided(&sum(padded).0).into_selection().expect("relaxed");
        assert!(!selection.supported().relaxed().is_empty());
    }

    #[test]
    fn what_no_engine_computes_is_refused_with_a_reason() {
        let (mut graph, y) = sum(Tensor::new("x").row_major([2, 8, 16]));
        graph.tensor_mut(y).stride = vec![8, 1, 1];
        let decision = decided(&graph);
        assert!(decision.engine().is_none());
        assert!(
            decision.passed_over.iter().any(|reason| reason.contains("share addresses")),
            "{:?}",
            decision.passed_over
        );
        let (mut graph, _) = sum(Tensor::new("x").row_major([2, 8, 16]));
        graph.last_operation().compute_data_type = Some(DataType::Half);
        assert!(decided(&graph).into_selection().is_err());
    }
}
