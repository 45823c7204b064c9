//! Reports: for people, and as the JSON records of the command line.

use std::cmp::Reverse;
use std::fmt;

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
}

impl fmt::Display for Report {
    /// Which surface holds, then what keeps others from holding, then notes; no final line break.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let capability = self.capability;
        match &self.supported {
            Some(supported) => write!(f, "surface {} holds on {capability}", supported.surface())?,
            None => write!(f, "no surface holds on {capability}")?,
        }
        match self.relaxed().len() {
            0 => {}
            1 => f.write_str(", but for 1 rule that an engine relaxes")?,
            count => write!(f, ", but for {count} rules that an engine relaxes")?,
        }
        self.findings().iter().try_for_each(|finding| write!(f, "\n{finding}"))?;
        self.notes.iter().try_for_each(|note| write!(f, "\nnote: {note}"))
    }
}

/// What is found at a place of a graph, with all that is required there: one cause, however many rules and surfaces name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding<'a> {
    /// Operation and tensor, or the whole graph; several where the same is found at each, and the same required.
    pub places: Vec<&'a str>,
    /// What the graph has there.
    pub found: &'a str,
    /// What is required instead, each with the rules that say so.
    pub requirements: Vec<Requirement<'a>>,
}

/// What is required at a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requirement<'a> {
    /// The requirement.
    pub required: &'a str,
    /// Rules that state it, in the order of the surfaces.
    pub rules: Vec<&'static Rule>,
}

impl Report {
    /// The broken rules of all surfaces asked by their causes: those at one tensor, or at one operation, that find the same. Those of
    /// the surface that comes nearest come first, and of them the most decisive.
    pub fn findings(&self) -> Vec<Finding<'_>> {
        let nearest = self.nearest().map(|outcome| outcome.surface);
        let mut violations: Vec<&Violation> = self.violations().collect();
        violations.sort_by_key(|violation| (Some(violation.surface) != nearest, violation.status()));
        let mut causes: Vec<(&Violation, Finding)> = Vec::new();
        for violation in violations {
            let is_same = |(first, finding): &&mut (&Violation, Finding)| {
                finding.found == violation.found
                    && first.status() == violation.status()
                    && is_one_place(first, violation)
            };
            match causes.iter_mut().find(is_same) {
                Some((_, finding)) => finding.add(violation),
                None => {
                    let mut finding =
                        Finding { places: vec![&violation.place], found: &violation.found, requirements: Vec::new() };
                    finding.add(violation);
                    causes.push((violation, finding));
                }
            }
        }
        let mut findings: Vec<Finding> = Vec::new();
        for (_, finding) in causes {
            let is_same =
                |known: &&mut Finding| known.found == finding.found && known.requirements == finding.requirements;
            match findings.iter_mut().find(is_same) {
                Some(known) => known.places.extend(finding.places),
                None => findings.push(finding),
            }
        }
        findings
    }
}

/// Whether both are about one tensor or, where neither names one, about one operation or the graph.
fn is_one_place(one: &Violation, other: &Violation) -> bool {
    one.at.tensor == other.at.tensor && (one.at.tensor.is_some() || one.at.operation == other.at.operation)
}

impl<'a> Finding<'a> {
    fn add(&mut self, violation: &'a Violation) {
        let place = self.requirements.iter().position(|requirement| requirement.required == violation.required);
        let place = place.unwrap_or_else(|| {
            self.requirements.push(Requirement { required: &violation.required, rules: Vec::new() });
            self.requirements.len() - 1
        });
        let rules = &mut self.requirements[place].rules;
        if !rules.contains(&violation.rule) {
            rules.push(violation.rule);
        }
    }
}

impl Finding<'_> {
    /// The places, what is found, and each requirement with its rules, a line each.
    pub fn lines(&self) -> Vec<String> {
        self.to_string().lines().map(str::to_owned).collect()
    }
}

impl fmt::Display for Finding<'_> {
    /// The places, what is found, and each requirement with its rules; no final line break.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\n  found    {}", self.places.join("; "), self.found)?;
        for (number, Requirement { required, rules }) in self.requirements.iter().enumerate() {
            let word = if number == 0 { "required" } else { "and also" };
            let ids: Vec<&str> = rules.iter().map(|rule| rule.id).collect();
            write!(f, "\n  {word} {required}  [{}]", ids.join(" "))?;
        }
        Ok(())
    }
}
