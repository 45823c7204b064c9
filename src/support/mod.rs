//! Support surfaces: whether, where and why a graph can run.
//!
//! - `records/`: the documented rules, each id a [`Rule`] of the [`catalogue`];
//! - `surface/`: what the surfaces 90, 80 and 70 allow, as tables of limits that name rules;
//! - `rules/`: the rules as code, one file per heading of the document, written once for the tables;
//! - `family/`: who is asked: these three surfaces, and families of others;
//! - [`check`] puts a graph to them and gives a [`Report`], and for a graph that holds a [`Supported`]: the proof that
//!   lowering asks for, which nothing else can make;
//! - [`nearest()`] looks for the fewest edits that make a refused graph legal, whatever the [`Goal`].
//!
//! Each uses only those above it. Invariant: a rule is never broken silently. Whatever makes a surface refuse a graph is
//! a [`Violation`] that names the rule, the place, what is required and what was found.

// Each uses only those above it: `tests/architecture.rs`.

mod source;

mod rule;

pub(crate) mod records;

mod forms;

mod layout;

mod surface;

mod context;

mod findings;

mod order;

mod rules;

mod family;

mod supported;

mod report;

mod checker;

mod nearest;

mod verdict;

mod table;

mod index;

pub use checker::{check, check_relaxed};
pub use family::catalogue;
pub use findings::Violation;
pub use index::{Entry, Term, TermKind, entry, terms};
pub(crate) use layout::is_disjoint;
pub use nearest::{Answer, Change, Defect, EditRecord, Goal, Remedy, nearest};
pub use report::{Finding, Report, Requirement, SurfaceOutcome};
pub use rule::{DetailedStatus, Kind, Rule, SurfaceId};
pub use source::{Citation, DOCUMENTS, Document, citations};
pub use supported::Supported;
pub use table::surface_table;
pub use verdict::{AnswerRecord, GraphLabel, Verdict, VerdictStatus, ViolationRecord};

#[cfg(test)]
mod tests;
