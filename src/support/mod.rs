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
//!
//! # When
//!
//! You need this to know which rules a graph breaks, whether or not an engine takes it all the same; [`select`](crate::engine::select)
//! answers for surfaces and engines together.
//!
//! ```
//! # use std::sync::Arc;
//! # use fusewright::graph::{DataType, Graph, PointwiseMode, Tensor};
//! # let mut graph = Graph::new().io_data_type(DataType::Half).compute_data_type(DataType::Float);
//! # let a = graph.tensor(Tensor::new("a").row_major([1, 64, 128]));
//! # let b = graph.tensor(Tensor::new("b").row_major([1, 128, 32]));
//! # let c = graph.matmul("matmul", a, b);
//! # graph.set_output(c);
//! # let graph = Arc::new(graph.finalize()?);
//! use fusewright::device::ComputeCapability;
//! use fusewright::support::{SurfaceId, check};
//!
//! let report = check(&graph, ComputeCapability::SM_90, &[SurfaceId::S90]);
//! assert_eq!(report.surface(), Some(SurfaceId::S90));
//!
//! let report = check(&graph, ComputeCapability::SM_75, &[SurfaceId::S80]);
//! let broken: Vec<&str> = report.violations().map(|violation| violation.rule.id).collect();
//! assert_eq!(broken, ["S80-CC"]);
//! # Ok::<(), fusewright::error::Error>(())
//! ```

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
pub(crate) use family::attention::mha_records;
pub(crate) use family::attention::records as attention_records;
pub use family::catalogue;
pub(crate) use family::norm::records as norm_records;
pub use findings::Violation;
pub use index::{Entry, Term, TermKind, entry, terms};
pub(crate) use layout::is_disjoint;
pub use nearest::{Answer, Change, Defect, EditRecord, Goal, MOST_EDITS, Remedy, hidden, nearest};
pub use report::{Finding, Report, Requirement, SurfaceOutcome};
pub use rule::{DetailedStatus, Kind, Rule, SurfaceId};
pub use source::{Citation, DOCUMENTS, Document, citations};
pub use supported::Supported;
pub use table::surface_table;
pub use verdict::{AnswerRecord, GraphLabel, Verdict, VerdictStatus, ViolationRecord};

#[cfg(test)]
mod tests;
