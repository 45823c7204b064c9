//! The graphs of one file, as callers see them.

use std::sync::Arc;

use super::error::{Failure, ReadError};
use super::{Dialect, DocumentReader};
use crate::graph::Graph;

/// One graph of a file, or why it could not be read.
#[derive(Clone, Debug)]
pub struct GraphDocument {
    /// Number in the file, from 1, in order of appearance; exact repeats have none (FEJ-02).
    pub number: usize,
    /// What people call it: the `name` or `id` of its record; else the name in its context; else the file's stem, with
    /// `#number` where the file holds several graphs. Need not be unique.
    pub name: String,
    /// Line on which it begins, from 1.
    pub first_line: usize,
    /// How often exactly this graph appeared again. [`DocumentReader`] gives 0 and knows the count at its end.
    pub repeats: usize,
    /// The form it is written in, where that is known.
    pub dialect: Option<Dialect>,
    /// The library's process-local number; joins log lines.
    pub gid: Option<i64>,
    /// The graph; nothing in it is inferred.
    pub result: Result<Graph, ReadError>,
    /// What was guessed, doubtful or ignored.
    pub warnings: Vec<String>,
    /// What the library never writes, and this graph may have had (FEJ-37).
    pub not_in_dump: Vec<&'static str>,
    /// Keys without meaning for us, sorted (FEJ-11).
    pub ignored_keys: Vec<String>,
}

/// All graphs of one file.
#[derive(Clone, Debug)]
pub struct Documents {
    /// The file, as the caller called it.
    pub source_name: String,
    /// In order of appearance; never empty: a file without a graph gives one document that says so.
    pub documents: Vec<GraphDocument>,
    /// What concerns the file as a whole, such as lines that mention `"nodes"` but do not parse (FEJ-51).
    pub warnings: Vec<String>,
}

/// Finds and reads every graph in a file's content; `source_name` is for messages and names, `-` is standard input.
///
/// ```
/// let log = br#"[cudnn_frontend] INFO: validating
/// {"context":{"io_data_type":"HALF"},"nodes":[],"tensors":[]}"#;
/// let documents = fusewright::frontend::read_documents("app.log", log).documents;
/// assert_eq!((documents.len(), documents[0].first_line), (1, 2));
/// ```
pub fn read_documents(source_name: &str, bytes: &[u8]) -> Documents {
    let mut reader = DocumentReader::new(source_name, bytes);
    let mut documents: Vec<GraphDocument> = reader.by_ref().collect();
    for document in &mut documents {
        document.repeats = reader.repeats(document.number);
    }
    Documents { source_name: source_name.to_owned(), documents, warnings: reader.into_warnings() }
}

/// Reads the only graph of a file's content.
///
/// # Errors
/// The graph's own error; or that the file holds none, or more than one.
pub fn read_graph(source_name: &str, bytes: &[u8]) -> Result<Graph, ReadError> {
    let mut documents = read_documents(source_name, bytes).documents;
    let count = documents.len();
    match documents.pop() {
        Some(document) if count == 1 => document.result,
        _ => {
            let message = format!("one graph is required, found {count}");
            Err(Failure::new("FEJ-02", message).into_error(&Arc::from(source_name), count, 1))
        }
    }
}
