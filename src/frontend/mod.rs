//! Reading and writing graphs as cuDNN-frontend JSON.
//!
//! [`read_documents`] and [`DocumentReader`] find every graph in a file: a JSON file of any formatting, JSONL (graphs, or
//! records with a member `graph`), or a log with banners and objects inside text. Each graph is read alone, so that a bad
//! one spoils no other. All dialects of the frontend since 1.1 are read ([`Dialect`]); [`write_v2`] and [`write_v1c`]
//! write the two that its newer readers take.
//!
//! Invariants: reading infers nothing (what is unset stays unset, [`Graph::finalize`] completes it); tensors are numbered
//! in the order of first use, so that every form of one graph gives the same [`Graph`] (FEJ-33); no input makes a
//! reader panic, overflow the stack or take quadratic time. Rule ids `FEJ-…` are those of `spec/frontend-json.md`.
//!
//! [`Graph`]: crate::graph::Graph
//! [`Graph::finalize`]: crate::graph::Graph::finalize

mod attention;
mod attributes;
mod boundary;
mod candidate;
mod document;
mod document_reader;
mod envelope;
mod error;
mod fields;
mod finder;
mod float;
mod hazards;
mod kept;
mod log;
mod node;
mod numbering;
mod python;
mod reader;
mod schema;
mod spelling;
mod tensors;
mod vocabulary;
mod write;

#[cfg(test)]
mod tests;

pub use document::{Documents, GraphDocument, read_documents, read_graph};
pub use document_reader::DocumentReader;
pub use envelope::Dialect;
pub use error::ReadError;
pub use spelling::{Values, values};
pub use write::{write_v1c, write_v2};
