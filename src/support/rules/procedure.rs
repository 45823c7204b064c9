//! Procedure, graph-wide rules and the five patterns (sections 1 to 4).

use crate::support::context::Context;
use crate::support::findings::Findings;
use crate::support::records::procedure::{PAT_CBD, PAT_CBF, PAT_CF, PAT_MM, PAT_ONE_CORE};
use crate::support::rule::Rule;

/// The graph fits one of the five forms.
pub(super) fn check(cx: &Context, found: &mut Findings) {
    if let Err(misfit) = &cx.facts.fusion {
        found.operation(row(misfit.rule), misfit.operation, misfit.required.as_str(), misfit.found.as_str());
    }
}

fn row(id: &str) -> &'static Rule {
    match id {
        "PAT-MM" => &PAT_MM,
        "PAT-CF" => &PAT_CF,
        "PAT-CBF" => &PAT_CBF,
        "PAT-CBD" => &PAT_CBD,
        _ => &PAT_ONE_CORE,
    }
}
