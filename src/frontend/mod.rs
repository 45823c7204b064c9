//! Reading and writing graphs as cuDNN-frontend JSON.
//!
//! [`read_documents`] and [`DocumentReader`] find every graph in a file: a JSON file of any formatting, JSONL (graphs, or
//! records with a member `graph`), or a log with banners and objects inside text. Each graph is read alone, so that a bad
//! one spoils no other. All dialects of the frontend since 1.1 are read ([`Dialect`]); [`write_v2`] and [`write_v1c`]
//! write the two that its newer readers take.
//!
//! Invariants: reading infers nothing (what is unset stays unset, [`Graph::finalize`] completes it); tensors are numbered
//! in the order of first use, so that every form of one graph gives the same [`Graph`] (FEJ-33); no input makes a
//! reader panic, overflow the stack or take quadratic time. Rule ids `FEJ-…` are those of `docs/spec/frontend-json.md`.
//!
//! # When
//!
//! You need this where graphs come from the cuDNN frontend: from a log, from `Graph::serialize`, or to hand one to another program.
//!
//! ```
//! use fusewright::frontend::{read_documents, read_graph, write_v2};
//! use fusewright::graph::{DataType, Graph, PointwiseMode, Tensor};
//!
//! let mut graph = Graph::new().name("g").io_data_type(DataType::Half).compute_data_type(DataType::Float);
//! let x = graph.tensor(Tensor::new("x").row_major([2, 8]));
//! let y = graph.pointwise("relu", PointwiseMode::ReluFwd, &[x]);
//! graph.set_output(y);
//! let text = write_v2(&graph);
//! assert_eq!(read_graph("g.json", text.as_bytes())?.finalize().unwrap().key(), graph.finalize().unwrap().key());
//!
//! // Every graph of a log, each with its line; one that cannot be read spoils no other.
//! let log = format!("[rank0] starting\n[rank0] {text}\n");
//! let found = read_documents("train.log", log.as_bytes());
//! assert_eq!((found.documents.len(), found.documents[0].first_line), (1, 2));
//! # Ok::<(), fusewright::frontend::ReadError>(())
//! ```
//!
//! [`Graph`]: crate::graph::Graph
//! [`Graph::finalize`]: crate::graph::Graph::finalize

mod attention;
mod attributes;
mod boundary;
mod candidate;
mod complaint;
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
mod rank;
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
