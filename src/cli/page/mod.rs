//! Pages for browsers: explanations of graphs, and benchmarks. Each is one file that fetches nothing; whatever is said by names in
//! graphs is escaped.

mod bars;
mod drawing;
mod explained;
mod highlight;
mod layout;
mod render;
mod roofline;

pub(super) use bars::{Case, Peers, bench_page};
pub(super) use explained::{Entry, explanation_page};
