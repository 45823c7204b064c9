//! Verdicts about graphs.

use std::sync::Arc;

use fusewright::device::ComputeCapability;
use fusewright::engine::{self, Engine};
use fusewright::graph::FinalizedGraph;
use fusewright::support::{self, GraphLabel, Remedy, SurfaceId, VerdictStatus, ViolationRecord};
use pyo3::prelude::*;

/// A broken rule of a surface.
#[pyclass(frozen, get_all, module = "fusewright")]
#[derive(Clone)]
pub(crate) struct Violation {
    surface: String,
    rule: String,
    #[pyo3(name = "where")]
    place: String,
    required: String,
    found: String,
}

#[pymethods]
impl Violation {
    fn __repr__(&self) -> String {
        let Self { surface, rule, place, required, found } = self;
        format!("surface {surface}: {rule} at {place}: required: {required}; found: {found}")
    }
}

impl From<&support::Violation> for Violation {
    fn from(violation: &support::Violation) -> Self {
        let ViolationRecord { surface, rule, place, required, found, .. } = violation.into();
        Self { surface: surface.to_string(), rule: rule.to_owned(), place, required, found }
    }
}

/// Whether a graph runs on a chip, by which engine and on which surface, or why not; true where it runs.
#[pyclass(frozen, module = "fusewright")]
pub(crate) struct Verdict {
    /// Whether an engine takes the graph.
    #[pyo3(get)]
    supported: bool,
    /// The surface that holds as documented.
    #[pyo3(get)]
    surface: Option<String>,
    /// The engine that takes the graph.
    #[pyo3(get)]
    engine: Option<String>,
    /// Rules that the graph breaks and the engine does without.
    #[pyo3(get)]
    relaxed: Vec<&'static str>,
    /// Broken rules of the surfaces.
    #[pyo3(get)]
    violations: Vec<Violation>,
    /// The smallest changes that would help, as sentences.
    #[pyo3(get)]
    nearest: Vec<String>,
    /// The record that `fusewright check --format json` writes.
    #[pyo3(get)]
    json: String,
    text: String,
}

#[pymethods]
impl Verdict {
    fn __bool__(&self) -> bool {
        self.supported
    }

    fn __str__(&self) -> &str {
        &self.text
    }

    fn __repr__(&self) -> String {
        format!("<Verdict: {}>", self.text.lines().next().unwrap_or_default())
    }
}

impl Verdict {
    /// The verdict on a graph on a chip; what would help is looked for where no engine takes it.
    pub(crate) fn of(graph: &Arc<FinalizedGraph>, capability: ComputeCapability) -> Self {
        let decision = engine::decide(graph, capability, &SurfaceId::ALL);
        let remedy = match decision.engine() {
            None => engine::remedy(graph, &decision.report),
            Some(_) => Remedy::default(),
        };
        let lines = [vec![decision.verdict_line()], decision.details(false), remedy.lines()].concat();
        let record = decision.report.verdict(GraphLabel::Number(0), decision.engine().map(Engine::name));
        let record = support::Verdict { missing: decision.missing(), ..record.with_remedy(&remedy) };
        Self {
            supported: matches!(record.status, VerdictStatus::Supported),
            surface: record.surface.map(|surface| surface.to_string()),
            engine: record.engine.clone(),
            relaxed: record.relaxed.clone(),
            violations: decision.report.violations().map(Violation::from).collect(),
            nearest: remedy.lines(),
            json: serde_json::to_string(&record).unwrap_or_default(),
            text: lines.join("\n"),
        }
    }
}
