//! Engine configs of both sides in one list.
//!
//! By `ours-first` ours come before the real library's, by `theirs-first` after them. By `tuned` one of ours comes first, where it was
//! measured to be faster, and the others last: a program that drops the first, since it forbids what that does, goes on with the
//! real library's first. Of ours there are few, as programs that measure all compile them all.

use std::sync::Arc;

use super::attributes::Asked;
use super::numbers::{MODE_FALLBACK, kind, name};
use super::pairs::Pair;
use super::policy::Policy;
use super::sides::{Half, Refusal, Side};
use super::{errors, measure, trace};

/// How many configs of our first engine are listed.
const MOST_OF_OURS: usize = 4;

/// Finds the order once both sides have answered, and writes both answers down.
pub(crate) fn finalized(pair: &Pair) {
    let (mut ours, theirs) = (configs_of_ours(pair), configs(pair, Side::Real).unwrap_or_default());
    let counts = (ours.len(), theirs.len());
    let ahead = match Policy::current() {
        Policy::OursFirst => ours.len(),
        Policy::TheirsFirst => 0,
        Policy::Tuned if theirs.is_empty() => ours.len(),
        Policy::Tuned if ours.is_empty() || mode(pair) == Some(MODE_FALLBACK) => 0,
        Policy::Tuned => usize::from(measure::ours_wins(pair, &ours[0], &theirs)),
    };
    let behind = ours.split_off(ahead);
    pair.set_configs(ours.into_iter().chain(theirs).chain(behind).collect());
    trace::heuristics(pair, counts, ahead);
}

/// The configs of a side, each a descriptor of its own.
fn configs(pair: &Pair, side: Side) -> Result<Vec<Arc<Half>>, Refusal> {
    let half = pair.half(side)?;
    let count = half.count(name::HEURISTICS_RESULTS)?;
    let make = |_| Half::new(side, kind::ENGINE_CONFIG).map(Arc::new);
    let mut made = (0..count).map(make).collect::<Result<Vec<_>, _>>()?;
    let pointers: Vec<_> = made.iter().map(|half| half.pointer()).collect();
    // it may give fewer than it counts
    let found = if count == 0 { 0 } else { half.fill(name::HEURISTICS_RESULTS, &pointers)? };
    made.truncate(found);
    Ok(made)
}

/// The first few configs of ours; and the last one, where that is of another engine, for programs that forbid what the first does.
fn configs_of_ours(pair: &Pair) -> Vec<Arc<Half>> {
    let mut configs = configs(pair, Side::Ours).unwrap_or_default();
    let last = configs.last().cloned();
    let engine = |config: &Half| trace::engine_of(config).ok();
    let is_other = match (configs.first(), &last) {
        (Some(first), Some(last)) if configs.len() > MOST_OF_OURS => engine(first) != engine(last),
        _ => false,
    };
    configs.truncate(MOST_OF_OURS);
    configs.extend(last.filter(|_| is_other));
    configs
}

/// The heuristic mode that was asked for. What comes first matters to programs that begin with it, which those do not that ask for
/// fallbacks, when all else has failed.
fn mode(pair: &Pair) -> Option<u32> {
    const HEURISTIC_MODE: u32 = 8;
    let half = pair.half(Side::Ours).ok()?;
    let (mut mode, mut count) = (0_u32, 0_i64);
    // SAFETY: there is room for one enumerator, and for the count.
    let got = unsafe { half.get(name::HEURISTICS_MODE, HEURISTIC_MODE, 1, &raw mut count, (&raw mut mode).cast()) };
    got.ok().map(|()| mode)
}

/// Gets the results: how many there are, or as many as there is room for.
///
/// # Safety
/// As [`super::attributes::get`].
pub(crate) unsafe fn get(function: &str, pair: &Pair, asked: Asked) -> u32 {
    let Some(configs) = pair.configs() else {
        let text = "the heuristics are not finalized";
        return errors::fail(function, super::numbers::status::NOT_INITIALIZED, text);
    };
    if !asked.wants_elements() {
        // SAFETY: as promised by the caller.
        return unsafe { asked.give_count(configs.len()) };
    }
    // SAFETY: as promised by the caller.
    let targets = match unsafe { asked.targets(function, configs.len()) } {
        Ok(targets) => targets,
        Err(status) => return status,
    };
    for (target, config) in targets.iter().zip(configs.iter()) {
        target.become_of(Arc::clone(config));
        if let Some(subject) = pair.subject() {
            target.set_subject(&subject);
        }
    }
    // SAFETY: as promised by the caller.
    unsafe { asked.give_count(targets.len()) }
}
