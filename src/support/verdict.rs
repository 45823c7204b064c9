//! Verdicts: the JSON records of the command line.

use serde::Serialize;

use super::findings::Violation;
use super::nearest::{Answer, Change, EditRecord, Remedy};
use super::report::Report;
use super::rule::SurfaceId;

impl Report {
    /// The record of `check --format json`; `engine` names the engine that takes a supported graph.
    pub fn verdict(&self, graph: GraphLabel, engine: Option<&str>) -> Verdict {
        let is_supported = self.supported.is_some();
        Verdict {
            graph,
            arch: None,
            status: if is_supported { VerdictStatus::Supported } else { VerdictStatus::NotSupported },
            surface: self.surface(),
            surface_name: self.surface().and_then(SurfaceId::name),
            engine: engine.map(str::to_owned),
            relaxed: self.relaxed().iter().map(|rule| rule.id).collect(),
            missing: Vec::new(),
            violations: self.violations().map(ViolationRecord::from).collect(),
            nearest: None,
            nearest_documented: None,
            error: None,
        }
    }
}

impl Answer {
    /// As the record of `check --format json`.
    pub fn record(&self) -> AnswerRecord {
        let Self { change, surfaces, engines } = self;
        let Change { price, edits, .. } = change;
        AnswerRecord {
            surface: self.held().and_then(|held| held.first().copied()),
            surfaces: surfaces.clone(),
            surface_names: names(surfaces),
            engines: engines.clone(),
            edits: edits.clone(),
            text: change.sentence(),
            price: price.clone(),
        }
    }
}

/// The names of surfaces that have no number, graph by graph; nothing where there are none.
fn names(surfaces: &[Option<SurfaceId>]) -> Vec<Option<&'static str>> {
    let names: Vec<_> = surfaces.iter().map(|surface| surface.and_then(SurfaceId::name)).collect();
    if names.iter().any(Option::is_some) { names } else { Vec::new() }
}

/// How a record names its graph.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum GraphLabel {
    /// By name.
    Name(String),
    /// By its place in the input, from 0.
    Number(u64),
}

/// A change in a record of `check --format json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AnswerRecord {
    /// The surface that holds then as documented, of a cut that of its first graph; null where one of its graphs is beyond the
    /// surfaces.
    pub surface: Option<SurfaceId>,
    /// The surface that holds of each graph.
    pub surfaces: Vec<Option<SurfaceId>>,
    /// Of each graph the name of the surface that holds, where it has no number.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub surface_names: Vec<Option<&'static str>>,
    /// The engine that takes each graph of the change: one graph, or those into which it is cut.
    pub engines: Vec<&'static str>,
    /// What is edited, place by place.
    pub edits: Vec<EditRecord>,
    /// The edits as instructions, with semicolons between.
    pub text: String,
    /// What they cost; empty where nothing.
    pub price: String,
}

/// Outcome in a record of `check --format json`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum VerdictStatus {
    /// A surface holds.
    Supported,
    /// No surface asked holds.
    NotSupported,
    /// The graph has no verdict.
    Malformed,
}

/// One record of `check --format json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Verdict {
    /// The graph's name or number.
    pub graph: GraphLabel,
    /// The chip, where several were asked about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arch: Option<String>,
    /// Outcome.
    pub status: VerdictStatus,
    /// The surface that holds as documented.
    pub surface: Option<SurfaceId>,
    /// The name of that surface, where it has no number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub surface_name: Option<&'static str>,
    /// The engine that takes the graph.
    pub engine: Option<String>,
    /// Rules that the graph breaks and the engine relaxes: why a graph is supported though no surface holds.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub relaxed: Vec<&'static str>,
    /// Operations that no engine executes yet, whatever the rules: `LAYER_NORM ('ln')`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
    /// Broken rules of the surfaces asked.
    pub violations: Vec<ViolationRecord>,
    /// The fewest edits with which a refused graph runs, maybe beyond the surfaces.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nearest: Option<AnswerRecord>,
    /// The fewest edits with which a surface holds as documented, where they are others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nearest_documented: Option<AnswerRecord>,
    /// What is wrong with a malformed graph.
    pub error: Option<String>,
}

impl Verdict {
    /// The verdict with what would help; where one change serves for both, it is written once.
    pub fn with_remedy(self, Remedy { run, hold }: &Remedy) -> Self {
        let is_other = |hold: &&Answer| run.as_ref().is_none_or(|run| run.change.sentence() != hold.change.sentence());
        Self {
            nearest: run.as_ref().map(Answer::record),
            nearest_documented: hold.as_ref().filter(is_other).map(Answer::record),
            ..self
        }
    }

    /// The record of a graph that is not well formed, or that could not be read; `error` says what is wrong.
    pub fn malformed(graph: GraphLabel, error: impl Into<String>) -> Self {
        Self {
            graph,
            arch: None,
            status: VerdictStatus::Malformed,
            surface: None,
            surface_name: None,
            engine: None,
            relaxed: Vec::new(),
            missing: Vec::new(),
            violations: Vec::new(),
            nearest: None,
            nearest_documented: None,
            error: Some(error.into()),
        }
    }
}

/// One broken rule in a record of `check --format json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ViolationRecord {
    /// The surface.
    pub surface: SurfaceId,
    /// Its name, where it has no number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub surface_name: Option<&'static str>,
    /// Id of the rule.
    pub rule: &'static str,
    /// Operation and tensor.
    #[serde(rename = "where")]
    pub place: String,
    /// What is required.
    pub required: String,
    /// What was found.
    pub found: String,
}

impl From<&Violation> for ViolationRecord {
    fn from(violation: &Violation) -> Self {
        let Violation { surface, rule, place, required, found, at: _ } = violation;
        Self {
            surface: *surface,
            surface_name: surface.name(),
            rule: rule.id,
            place: place.clone(),
            required: required.clone(),
            found: found.clone(),
        }
    }
}
