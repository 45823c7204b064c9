//! From a graph to the engine that runs it: the surfaces first, then what engines take beyond them.

mod remedy;
mod text;

use std::sync::Arc;

pub use remedy::{remedy, to_hold};

use super::favourites;
use super::limits::launches_fit;
use super::stored;
use super::{ENGINES, Engine, EngineConfig, Offer, RankedConfig};
use crate::device::{ComputeCapability, Device};
use crate::error::{Error, NotSupported, Reason, Refusal};
use crate::graph::FinalizedGraph;
use crate::kernel::Kernel;
use crate::support::{self, Report, Supported, SurfaceId};

/// What the surfaces say of a graph on a chip, and which engine takes it.
#[derive(Clone, Debug)]
pub struct Decision {
    graph: Arc<FinalizedGraph>,
    /// Verdict of the documented surfaces or, where they refuse and an engine takes the graph all the same, the verdict
    /// with that engine's relaxations.
    pub report: Report,
    taken: Option<Taken>,
    /// Why engines passed over did not take the graph, in the order in which they were asked.
    pub passed_over: Vec<Refusal>,
}

/// An engine and what it planned.
#[derive(Clone, Debug)]
struct Taken {
    engine: &'static dyn Engine,
    offer: Arc<dyn Offer>,
}

/// A supported graph with its engine: all that lowering needs.
#[derive(Clone, Debug)]
pub struct Selection {
    supported: Supported,
    taken: Taken,
}

/// Asks the surfaces given; where they refuse, each engine's relaxations of them.
pub fn decide(graph: &Arc<FinalizedGraph>, capability: ComputeCapability, surfaces: &[SurfaceId]) -> Decision {
    let _span = tracing::debug_span!("decide", graph_key = %graph.key(), %capability).entered();
    let report = support::check(graph, capability, surfaces);
    let mut passed_over = Vec::new();
    let decision = |report, taken, passed_over| Decision { graph: Arc::clone(graph), report, taken, passed_over };
    if let Some(supported) = &report.supported {
        let taken = concerned(graph).find_map(|engine| asked(engine, supported, &mut passed_over));
        return decision(report, taken, passed_over);
    }
    for engine in concerned(graph) {
        let relaxed = support::check_relaxed(graph, capability, surfaces, engine.relaxes());
        let Some(supported) = &relaxed.supported else {
            passed_over.push(Refusal { engine: engine.name(), reason: Reason::Rules });
            continue;
        };
        if let Some(taken) = asked(engine, supported, &mut passed_over) {
            return decision(relaxed, Some(taken), passed_over);
        }
    }
    decision(report, None, passed_over)
}

/// The engines that are about graphs of this kind.
fn concerned(graph: &FinalizedGraph) -> impl Iterator<Item = &'static dyn Engine> {
    ENGINES.iter().copied().filter(|engine| engine.concerns(graph))
}

/// What an engine offers; why it does not take the graph is logged and added to `passed_over`.
fn asked(engine: &'static dyn Engine, supported: &Supported, passed_over: &mut Vec<Refusal>) -> Option<Taken> {
    match take(engine, supported) {
        Ok(taken) => Some(taken),
        Err(reason) => {
            tracing::debug!(engine = engine.name(), %reason, "engine passed over");
            passed_over.push(Refusal { engine: engine.name(), reason });
            None
        }
    }
}

/// What an engine offers for a graph, if its launches stay within limits.
fn take(engine: &'static dyn Engine, supported: &Supported) -> Result<Taken, Reason> {
    let offer = stored::offer(engine, supported)?;
    launches_fit(&*offer, supported)?;
    Ok(Taken { engine, offer: Arc::from(offer) })
}

impl Decision {
    /// The engine that takes the graph.
    pub fn engine(&self) -> Option<&'static dyn Engine> {
        self.taken.as_ref().map(|taken| taken.engine)
    }

    /// The proof and the engine together.
    ///
    /// # Errors
    /// [`NotSupported::Graph`] with the report, and the reason of each engine.
    pub fn into_selection(self) -> Result<Selection, Arc<NotSupported>> {
        let Self { graph, report, taken, passed_over } = self;
        match (&report.supported, taken) {
            (Some(supported), Some(taken)) => Ok(Selection { supported: supported.clone(), taken }),
            _ => Err(Arc::new(NotSupported::Graph { graph, report, engines: passed_over, remedy })),
        }
    }
}

/// The engine for a graph, asking every surface.
///
/// # Errors
/// As [`Decision::into_selection`].
pub fn select(graph: &Arc<FinalizedGraph>, capability: ComputeCapability) -> Result<Selection, Arc<NotSupported>> {
    decide(graph, capability, &SurfaceId::ALL).into_selection()
}

impl Selection {
    /// The proof that a surface holds.
    pub fn supported(&self) -> &Supported {
        &self.supported
    }

    /// The engine.
    pub fn engine(&self) -> &'static dyn Engine {
        self.taken.engine
    }

    /// Engine configs for a device, best first by the engine's model; none where it has too little shared memory. Where shapes are dynamic, one
    /// comes first that serves many of them, and is expected to be about as fast.
    pub fn candidates(&self, device: &Device) -> Vec<RankedConfig> {
        let _span = tracing::debug_span!("rank", engine = self.engine().name(), device = device.name).entered();
        let mut ranking = self.taken.offer.candidates(device);
        if self.supported.graph().is_dynamic() {
            favourites::put_first(&mut ranking);
        }
        ranking
    }

    /// Whether a config is among the [`Self::candidates`]: kernels are right for these, and no others.
    pub fn offers(&self, config: &EngineConfig, device: &Device) -> bool {
        self.taken.offer.offers(config, device)
    }

    /// The first of the [`Self::candidates`]: what to run unmeasured.
    ///
    /// # Errors
    /// [`Error::NotSupported`] where the device has too little shared memory for every config.
    pub fn config(&self, device: &Device) -> Result<EngineConfig, Error> {
        let first = self.candidates(device).into_iter().next();
        Ok(first.map(|ranked| ranked.config).ok_or_else(|| self.no_config_fits(device))?)
    }

    /// That a device has too little shared memory for every config.
    pub(crate) fn no_config_fits(&self, device: &Device) -> NotSupported {
        let (name, bytes) = (&device.name, device.shared_bytes_per_block);
        let text = format!("no config fits {name}, where a block has {bytes} bytes of shared memory");
        NotSupported::Device(Refusal { engine: self.engine().name(), reason: Reason::SharedMemory(text) })
    }

    /// The graph with the next engine that takes it, after this one in [`ENGINES`].
    pub fn fallback(&self) -> Option<Self> {
        let later = ENGINES.iter().skip_while(|engine| engine.name() != self.engine().name()).skip(1);
        let graph = self.supported.graph();
        later.copied().filter(|engine| engine.concerns(graph)).find_map(|engine| {
            let supported = self.proof_for(engine)?;
            let taken = take(engine, &supported).ok()?;
            Some(Self { supported, taken })
        })
    }

    /// The graph with the engine of this name, where it takes the graph: this one, or one after it.
    pub fn with_engine(self, name: &str) -> Option<Self> {
        if self.engine().name() == name {
            return Some(self);
        }
        self.fallback()?.with_engine(name)
    }

    /// A proof that needs no other relaxations than an engine's: this one, or else of any surface.
    fn proof_for(&self, engine: &dyn Engine) -> Option<Supported> {
        let relaxes = engine.relaxes();
        if self.supported.relaxed().iter().all(|rule| relaxes.contains(rule)) {
            return Some(self.supported.clone());
        }
        let (graph, capability) = (self.supported.graph(), self.supported.capability());
        support::check_relaxed(graph, capability, &SurfaceId::ALL, relaxes).supported
    }

    /// The kernel of a config.
    pub fn lower(&self, config: &EngineConfig, device: &Device) -> Kernel {
        let key = self.supported.graph().key();
        let _span = tracing::debug_span!("lower", graph_key = %key, engine = self.engine().name(), %config).entered();
        let kernel = self.taken.offer.lower(config, device);
        debug_assert_eq!(kernel.fits(), Ok(()), "{config}");
        kernel
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::graph::{DataType, Graph, PointwiseMode, ReductionMode, Tensor, TensorHandle};
    use crate::kernel::{Body, Epilogue};
    use crate::support::DetailedStatus;

    fn sum(x: Tensor) -> (Graph, TensorHandle) {
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
            decision.passed_over.iter().any(|refusal| refusal.to_string().contains("share addresses")),
            "{:?}",
            decision.passed_over
        );
        let (mut graph, _) = sum(Tensor::new("x").row_major([2, 8, 16]));
        graph.last_operation().compute_data_type = Some(DataType::Half);
        assert!(decided(&graph).into_selection().is_err());
    }

    #[test]
    fn a_refusal_holds_rules_places_engines_and_the_nearest_change() {
        let (mut graph, _) = sum(Tensor::new("x").row_major([2, 8, 16]));
        graph.last_operation().compute_data_type = Some(DataType::Half);
        let refused = decided(&graph).into_selection().expect_err("HALF arithmetic");
        let rules: Vec<&str> =
            refused.report().into_iter().flat_map(Report::violations).map(|violation| violation.rule.id).collect();
        assert_eq!(rules.last(), Some(&"OP-PW7-PREC-OTHER"), "{rules:?}");
        assert_eq!(
            refused.engines().iter().map(|refusal| refusal.engine).collect::<Vec<_>>(),
            concerned(&graph.finalize().expect("well formed")).map(|engine| engine.name()).collect::<Vec<_>>()
        );
        let run = refused.remedy().run.expect("FLOAT arithmetic");
        assert_eq!((run.surfaces, run.engines), (vec![Some(SurfaceId::S70)], vec!["scalar"]));
        assert_eq!(refused.status(), DetailedStatus::DataType);
    }

    /// Which configs of a matmul with an epilogue say that it goes through the workspace.
    fn announced(epilogue: impl FnOnce(&mut Graph, TensorHandle), k: i64) -> Vec<bool> {
        let mut graph = Graph::new()
            .io_data_type(DataType::Half)
            .intermediate_data_type(DataType::Float)
            .compute_data_type(DataType::Float);
        let a = graph.tensor(Tensor::new("A").row_major([2, 256, k]));
        let b = graph.tensor(Tensor::new("B").row_major([2, k, 64]));
        let c = graph.matmul("mm", a, b);
        epilogue(&mut graph, c);
        let device = Device::typical(ComputeCapability::SM_90);
        let mut selection = decided(&graph).into_selection().expect("supported");
        let mut all = Vec::new();
        loop {
            for ranked in selection.candidates(&device) {
                let kernel = selection.lower(&ranked.config, &device);
                let through_workspace = kernel.functions.iter().any(|function| match &function.body {
                    Body::Gemm(gemm) => matches!(gemm.epilogue, Epilogue::Workspace { .. }),
                    _ => false,
                });
                assert_eq!(ranked.through_workspace.is_some(), through_workspace, "{}", ranked.config);
                let sum = ranked.estimate.total();
                assert!((sum - ranked.estimated_us).abs() <= 1e-9 * sum, "{sum} of {}", ranked.estimated_us);
                all.push(through_workspace);
            }
            let Some(next) = selection.fallback() else { return all };
            selection = next;
        }
    }

    /// What an engine chooses and has no knob for would be lost where a config is written, and its kernel not found again.
    #[test]
    fn no_two_candidates_have_one_name() {
        let mut graph = Graph::new().io_data_type(DataType::Half).compute_data_type(DataType::Float);
        let a = graph.tensor(Tensor::new("A").row_major([1, 1024, 8192]));
        let b = graph.tensor(Tensor::new("B").row_major([1, 8192, 512]));
        let c = graph.matmul("mm", a, b);
        graph.set_output(c);
        let device = Device::typical(ComputeCapability::SM_90);
        let first = decided(&graph).into_selection().expect("supported");
        let mut engines = 0;
        for selection in std::iter::successors(Some(first), Selection::fallback) {
            let candidates = selection.candidates(&device);
            let names: BTreeSet<String> = candidates.iter().map(|ranked| ranked.config.to_string()).collect();
            assert_eq!(names.len(), candidates.len(), "{}", selection.engine().name());
            engines += 1;
        }
        assert_eq!(engines, 3);
    }

    #[test]
    fn what_goes_through_the_workspace_is_known_before_it_is_lowered() {
        let stored = |graph: &mut Graph, c: TensorHandle| {
            graph.set_output(c);
        };
        let broadcast = |graph: &mut Graph, c: TensorHandle| {
            let rows = graph.reduction("rows", ReductionMode::Add, c, [2, 256, 1]);
            graph.set_output(rows).data_type = Some(DataType::Float);
        };
        assert!(announced(stored, 64).iter().all(|through_workspace| !through_workspace));
        let split = announced(stored, 1 << 16);
        assert!(split.contains(&true) && split.contains(&false));
        let along_columns = announced(broadcast, 64);
        assert!(along_columns.contains(&false), "{along_columns:?}");
    }
}
