//! The checks of the documented rules, one file per heading, written once for the surfaces of the runtime fusion engine.

mod alignment;
mod capability;
mod composite;
mod compute_type;
pub(super) mod core;
mod data_type;
mod epilogue;
mod genstats;
mod layout;
mod mainloop;
mod pointwise;
mod procedure;
mod reduction;
mod resample;
mod unfused;

use super::context::Context;
use super::findings::Findings;

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
