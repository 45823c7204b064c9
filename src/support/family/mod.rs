//! Families of surfaces: whom a graph is put to, and in which order.
//!
//! A family is a type of [`Limits`], with rules that are written once for it, and a value of that type for each of its
//! surfaces. The runtime fusion engine's three surfaces are one ([`runtime`]). Another is a file beside it (its rules' records, limits, and
//! checks that report to [`Findings`]) and a row of [`FAMILIES`]; which graphs it is asked about it says itself.
//!
//! Nobody else matches on families. An enum `Runtime | Norm | Attention` in place of [`SurfaceId`] would be matched in
//! reports, records, `nearest` and refusals, and each family would edit them. All that these need is which surface
//! said what, and how it is written; so the surface stays what is asked and what answers, and the family is where it is
//! looked up.

pub(super) mod attention;
pub(super) mod convolution;
pub(super) mod norm;
pub(super) mod runtime;

use super::context::Facts;
use super::findings::Findings;
use super::rule::{Rule, SurfaceId};
use crate::device::ComputeCapability;
use crate::graph::FinalizedGraph;

/// One graph on one chip.
pub(super) struct Subject<'a> {
    pub(super) graph: &'a FinalizedGraph,
    pub(super) capability: ComputeCapability,
    pub(super) facts: &'a Facts,
}

/// What a surface allows.
pub(super) trait Limits: Sync {
    /// Whether the graph is of the kind that the surface is about: nothing is said of other graphs, not even that they
    /// are refused.
    fn concerns(&self, subject: &Subject) -> bool;

    /// Applies every rule of the surface. Where none is broken, the surface holds.
    fn check(&self, subject: &Subject, found: &mut Findings);

    /// Recommendations that a graph does not follow on which the surface holds, as sentences for people (V-06).
    fn notes(&self, _subject: &Subject) -> Vec<String> {
        Vec::new()
    }
}

/// Surfaces with limits of one type.
pub(super) struct Family {
    /// In the order in which they are asked.
    pub(super) surfaces: &'static [(SurfaceId, &'static dyn Limits)],
    /// Records of its rules, heading by heading.
    pub(super) rules: &'static [&'static [&'static Rule]],
    /// Whether its surfaces are asked where they are named alone, and not among [`SurfaceId::ALL`].
    pub(super) is_by_name: bool,
}

/// Every family. The first surface that holds is taken, so norms, which the runtime fusion engine refuses as such, come before its surfaces,
/// which are asked about all graphs. Patterns around convolutions, which it judges, are asked by name alone.
pub(super) static FAMILIES: &[&Family] = &[&norm::FAMILY, &attention::FAMILY, &runtime::FAMILY, &convolution::FAMILY];

impl SurfaceId {
    /// Every surface that is asked where none is named, in the order in which they are asked (V-02).
    pub const ALL: [Self; surface_count()] = every_surface();

    /// Surfaces of all families, those too that are asked by name alone.
    pub fn named() -> impl Iterator<Item = Self> {
        FAMILIES.iter().flat_map(|family| family.surfaces).map(|row| row.0)
    }
}

const fn surface_count() -> usize {
    let (mut count, mut family) = (0, 0);
    while family < FAMILIES.len() {
        if !FAMILIES[family].is_by_name {
            count += FAMILIES[family].surfaces.len();
        }
        family += 1;
    }
    count
}

const fn every_surface() -> [SurfaceId; surface_count()] {
    let mut all = [SurfaceId::S70; surface_count()];
    let (mut count, mut family) = (0, 0);
    while family < FAMILIES.len() {
        let mut surface = 0;
        while surface < FAMILIES[family].surfaces.len() && !FAMILIES[family].is_by_name {
            all[count] = FAMILIES[family].surfaces[surface].0;
            count += 1;
            surface += 1;
        }
        family += 1;
    }
    all
}

/// Limits of a surface; `None` where no family has it.
pub(super) fn limits(families: &[&Family], surface: SurfaceId) -> Option<&'static dyn Limits> {
    let mut rows = families.iter().flat_map(|family| family.surfaces);
    rows.find(|row| row.0 == surface).map(|row| row.1)
}

/// Every documented rule, in the order of the headings they stand under.
pub fn catalogue() -> impl Iterator<Item = &'static Rule> {
    FAMILIES.iter().flat_map(|family| family.rules).flat_map(|rules| rules.iter().copied())
}
