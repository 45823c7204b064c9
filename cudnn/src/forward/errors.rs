//! Why calls of the graph API fail, for `cudnnGetLastErrorString`: the reasons of both sides.

use std::cell::RefCell;

use super::numbers::status;
use super::sides::{Refusal, Side};

thread_local! {
    static LAST: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Keeps a text for this thread; gives the status.
pub(crate) fn fail(function: &str, status: u32, text: &str) -> u32 {
    // a thread that ends keeps nothing any more
    let _ = LAST.try_with(|last| *last.borrow_mut() = format!("{function}: {text}"));
    status
}

/// The same of refusals, the status being that of the first.
pub(crate) fn refuse(function: &str, refusals: &[&Refusal]) -> u32 {
    let texts: Vec<String> = refusals.iter().map(|refusal| refusal.to_string()).collect();
    fail(function, refusals.first().map_or(status::NOT_SUPPORTED, |refusal| refusal.status), &texts.join("\n"))
}

/// The text of this thread's latest failure, which is forgotten with that. What the real library says comes first: what it said
/// of calls that failed here was taken when they did, so that it is about a later one.
pub(crate) fn take_last() -> String {
    let ours = LAST.try_with(|last| std::mem::take(&mut *last.borrow_mut())).unwrap_or_default();
    let real = Side::Real.take_error();
    if real.is_empty() { ours } else { real }
}
