//! The documented rules, one file per heading: records on top, then the checks, written once for all surfaces.

pub(super) mod alignment;
pub(super) mod capability;
pub(super) mod composite;
pub(super) mod compute_type;
pub(super) mod core;
pub(super) mod data_type;
pub(super) mod epilogue;
pub(super) mod genstats;
pub(super) mod layout;
pub(super) mod mainloop;
pub(super) mod pointwise;
pub(super) mod procedure;
pub(super) mod reduction;
pub(super) mod resample;
pub(super) mod unfused;

use super::context::Context;
use super::findings::Findings;
use super::rule::Rule;

/// Records of every heading, in the order of the document.
pub(super) static RECORDS: &[&[&Rule]] = &[
    procedure::RULES,
    capability::RULES,
    data_type::RULES,
    compute_type::RULES,
    mainloop::RULES,
    epilogue::RULES,
    unfused::RULES,
    layout::RULES,
    alignment::RULES,
    core::RULES,
    pointwise::RULES,
    genstats::RULES,
    reduction::RULES,
    resample::RULES,
    composite::RULES,
];

/// Looks at one heading of one surface.
type Check = fn(&Context, &mut Findings);

/// Headings that every graph answers to.
static GENERAL: &[Check] = &[
    procedure::check,
    capability::check,
    data_type::check,
    compute_type::check,
    pointwise::check,
    genstats::check,
    reduction::check,
    resample::check,
    composite::check,
];

/// Headings about stages, void where the surface excludes the pattern or there is none (reporting conventions, 3).
/// Dims come before layout, layout before alignment: a tensor is reported for the first of them that it breaks.
static STAGED: &[Check] = &[mainloop::check, epilogue::check, unfused::check, layout::check, alignment::check];

/// Applies every rule of the surface.
pub(super) fn check(cx: &Context, found: &mut Findings) {
    GENERAL.iter().for_each(|check| check(cx, found));
    let has_stages = cx.facts.fusion.as_ref().is_ok_and(|fusion| cx.surface.excludes(fusion.pattern()).is_none());
    if has_stages {
        STAGED.iter().for_each(|check| check(cx, found));
    }
}
