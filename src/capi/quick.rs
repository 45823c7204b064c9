//! Plans that are there soon, where the environment asks for them.

use std::sync::{Arc, OnceLock};

use super::gate;
use crate::engine::{EngineConfig, Selection};
use crate::error::Error;
use crate::session::{KernelCache, QuickPlan, Session};

/// Whether plans whose kernels have to be compiled are quick ones at first.
const VARIABLE: &str = "FUSEWRIGHT_QUICK_PLANS";

/// Whether the environment asks for quick plans. Not in a child of the process that loaded the library: it has no threads to build the best ones.
pub(super) fn is_asked_for() -> bool {
    static IS_SET: OnceLock<bool> = OnceLock::new();
    let is_set = *IS_SET.get_or_init(|| match std::env::var_os(VARIABLE) {
        None => false,
        Some(text) if text == "1" => true,
        Some(text) if text.is_empty() || text == "0" => false,
        Some(text) => {
            tracing::warn!("{VARIABLE} is 1 or 0; found: {text:?}; plans are those of their configs");
            false
        }
    });
    is_set && gate::forks() == 0
}

/// The plan of a config, and a quick one until that is there. The build is a call that forks, and the end of the process, wait for.
///
/// # Errors
/// As [`Session::plan_quick_with`].
pub(super) fn plan(
    session: &Arc<Session>,
    selection: &Arc<Selection>,
    config: &EngineConfig,
    kernels: Option<Arc<KernelCache>>,
) -> Result<QuickPlan, Error> {
    let of_best = (Arc::clone(selection), config.clone());
    let plan = session.plan_quick_with(selection, config, move |session| {
        let _inside = gate::enter();
        let (selection, config) = &of_best;
        session.plan_from(selection, config, kernels.as_deref())
    });
    gate::watch_exit();
    plan
}
