//! Reports: for people, and as the JSON records of the command line.

use std::cmp::Reverse;
use std::fmt;

use serde::Serialize;

use super::findings::Violation;
use super::rule::{DetailedStatus, Rule, SurfaceId};
use super::supported::Supported;
use crate::device::ComputeCapability;
use crate::graph::FinalizedGraph;

/// What one surface says of a graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SurfaceOutcome {
    /// The surface.
    pub surface: SurfaceId,
    /// Broken rules, the most decisive first; empty where the surface holds as documented.
    pub violations: Vec<Violation>,
}

/// What the surfaces asked say of a graph on a chip.
#[derive(Clone, Debug)]
pub struct Report {
    /// Name of the graph, as its author gave it.
    pub graph: String,
    /// The chip asked about.
    pub capability: ComputeCapability,
    /// One entry for each surface asked that is about such graphs, in order; the last one holds if any does.
    pub outcomes: Vec<SurfaceOutcome>,
    /// The proof that a surface holds.
    pub supported: Option<Supported>,
    /// Recommendations not followed, and what finalizing completed or removed; sentences for people.
    pub notes: Vec<String>,
}

impl Report {
    pub(super) fn new(graph: &FinalizedGraph, capability: ComputeCapability) -> Self {
        let notes = graph.notes().to_vec();
        Self { graph: graph.name().to_owned(), capability, outcomes: Vec::new(), supported: None, notes }
    }

    /// The surface that holds as documented; `None` where none does, also where an engine relaxes what is broken.
    pub fn surface(&self) -> Option<SurfaceId> {
        self.supported.as_ref().filter(|supported| supported.relaxed().is_empty()).map(Supported::surface)
    }

    /// Rules of a surface that the graph breaks and an engine relaxes; empty unless that is why it is supported.
    pub fn relaxed(&self) -> &[&'static Rule] {
        self.supported.as_ref().map_or(&[], Supported::relaxed)
    }

    /// Violations of all surfaces asked, in the order asked.
    pub fn violations(&self) -> impl Iterator<Item = &Violation> {
        self.outcomes.iter().flat_map(|outcome| &outcome.violations)
    }

    /// The surface that comes nearest to holding: the one whose most decisive broken rule decides least, and of those
    /// the one with the fewest. `None` where no surface was asked.
    pub fn nearest(&self) -> Option<&SurfaceOutcome> {
        let distance = |outcome: &&SurfaceOutcome| {
            let decisive = outcome.violations.first().map(Violation::status);
            (decisive.is_some(), Reverse(decisive), outcome.violations.len())
        };
        self.outcomes.iter().min_by_key(distance)
    }

    /// Sub-status of the backend API for a refusal: the most decisive one of the nearest surface. `None` where the
    /// graph is supported.
    pub fn status(&self) -> Option<DetailedStatus> {
        if self.supported.is_some() {
            return None;
        }
        let violation = self.nearest().and_then(|outcome| outcome.violations.first());
        Some(violation.map_or(DetailedStatus::Unspecified, Violation::status))
    }

    /// The record of `check --format json`; `engine` names the engine that takes a supported graph.
    pub fn verdict(&self, graph: GraphLabel, engine: Option<&str>) -> Verdict {
        let is_supported = self.supported.is_some();
        Verdict {
            graph,
            arch: None,
            status: if is_supported { VerdictStatus::Supported } else { VerdictStatus::NotSupported },
            surface: self.surface(),
            engine: engine.map(str::to_owned),
            relaxed: self.relaxed().iter().map(|rule| rule.id).collect(),
            violations: self.violations().map(ViolationRecord::from).collect(),
            nearest: None,
            error: None,
        }
    }
}

impl fmt::Display for Report {
    /// The verdict, then each surface with its broken rules in columns, then notes; no final line break.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let capability = self.capability;
        match &self.supported {
            Some(supported) if supported.relaxed().is_empty() => {
                write!(f, "supported on {capability} by surface {}", supported.surface())?;
            }
            Some(supported) => {
                let ids: Vec<&str> = supported.relaxed().iter().map(|rule| rule.id).collect();
                write!(f, "supported on {capability} by no surface as documented, but by an engine that relaxes ")?;
                write!(f, "{}", ids.join(", "))?;
            }
            None => write!(f, "not supported on {capability}")?,
        }
        let held = self.supported.as_ref().map(Supported::surface);
        for outcome in &self.outcomes {
            write_outcome(f, outcome, held == Some(outcome.surface))?;
        }
        self.notes.iter().try_for_each(|note| write!(f, "\nnote: {note}"))
    }
}

fn write_outcome(f: &mut fmt::Formatter<'_>, outcome: &SurfaceOutcome, holds: bool) -> fmt::Result {
    let surface = outcome.surface;
    match outcome.violations.len() {
        0 => return write!(f, "\nsurface {surface}: every rule holds"),
        1 => write!(f, "\nsurface {surface}: 1 rule broken")?,
        count => write!(f, "\nsurface {surface}: {count} rules broken")?,
    }
    if holds {
        f.write_str(", all of them relaxed")?;
    }
    let width = outcome.violations.iter().map(|violation| violation.rule.id.len()).max().unwrap_or(0);
    for Violation { rule, place, required, found, .. } in &outcome.violations {
        write!(f, "\n  {:width$}  {place}", rule.id)?;
        write!(f, "\n  {:width$}    required {required}", "")?;
        write!(f, "\n  {:width$}    found    {found}", "")?;
    }
    Ok(())
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
    /// The engine that takes the graph.
    pub engine: Option<String>,
    /// Rules that the graph breaks and the engine relaxes: why a graph is supported though no surface holds.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub relaxed: Vec<&'static str>,
    /// Broken rules of the surfaces asked.
    pub violations: Vec<ViolationRecord>,
    /// A small change that makes a refused graph legal ([`super::nearest_change`]), where one is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nearest: Option<String>,
    /// What is wrong with a malformed graph.
    pub error: Option<String>,
}

impl Verdict {
    /// The record of a graph that is not well formed, or that could not be read; `error` says what is wrong.
    pub fn malformed(graph: GraphLabel, error: impl Into<String>) -> Self {
        Self {
            graph,
            arch: None,
            status: VerdictStatus::Malformed,
            surface: None,
            engine: None,
            relaxed: Vec::new(),
            violations: Vec::new(),
            nearest: None,
            error: Some(error.into()),
        }
    }
}

/// One broken rule in a record of `check --format json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ViolationRecord {
    /// The surface.
    pub surface: SurfaceId,
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
            rule: rule.id,
            place: place.clone(),
            required: required.clone(),
            found: found.clone(),
        }
    }
}
