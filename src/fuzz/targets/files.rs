//! Any bytes as a file of graphs, and as a log.

use std::io::BufReader;

use super::{INPUT, expect};
use crate::error::Malformed;
use crate::frontend::{self, DocumentReader, Documents, GraphDocument, ReadError};
use crate::fuzz::finding::Finding;
use crate::fuzz::oracle::reads_back;

/// Any bytes as a file in one of the JSON dialects: an error names its place and its rule, and a graph that is well formed
/// is written and read back as itself. Gives whether there is such a graph.
///
/// # Errors
/// The first expectation that is not met.
pub fn frontend_json(bytes: &[u8]) -> Result<bool, Finding> {
    let Documents { documents, .. } = frontend::read_documents(INPUT, bytes);
    expect("every file has a document", !documents.is_empty(), String::new)?;
    let mut has_graph = false;
    for document in &documents {
        match document.result.as_ref().map(|graph| (graph, graph.finalize())) {
            Err(error) => error.all().try_for_each(|error| names_its_place(document, error))?,
            Ok((_, Err(malformed))) => malformed.all().try_for_each(names_its_rule)?,
            Ok((graph, Ok(finalized))) => {
                reads_back(graph, &finalized)?;
                has_graph = true;
            }
        }
    }
    Ok(has_graph)
}

fn names_its_place(document: &GraphDocument, error: &ReadError) -> Result<(), Finding> {
    let GraphDocument { number, first_line, .. } = document;
    let place = format!("{INPUT}: graph {number} (line {first_line}): ");
    let text = error.to_string();
    let is_named = text.starts_with(&place) && error.rule.starts_with("FEJ-") && !error.message.is_empty();
    expect("what cannot be read is named with its file, graph, line and rule", is_named, || text)
}

fn names_its_rule(malformed: &Malformed) -> Result<(), Finding> {
    let is_named = !malformed.rule.is_empty() && !malformed.message.is_empty();
    expect("a malformed graph breaks a named rule", is_named, || malformed.to_string())
}

/// Any bytes as a log, in pieces as long as the first byte says: graphs are numbered in the order of their lines, and no
/// matter how long the pieces are, the same is read. Gives whether there is a graph.
///
/// # Errors
/// The first expectation that is not met.
pub fn log_reader(bytes: &[u8]) -> Result<bool, Finding> {
    let Some((&piece, log)) = bytes.split_first() else { return Ok(false) };
    let whole = frontend::read_documents("app.log", log);
    is_in_order(&whole.documents, log)?;

    let mut reader = DocumentReader::new("app.log", BufReader::with_capacity(usize::from(piece) + 1, log));
    let mut pieces: Vec<GraphDocument> = reader.by_ref().collect();
    for document in &mut pieces {
        document.repeats = reader.repeats(document.number);
    }
    let has_graph = pieces.iter().any(|document| document.result.is_ok());
    let texts = [(&whole.documents[..], &whole.warnings[..]), (&pieces[..], reader.warnings())];
    let [whole, pieces] = texts.map(|read| format!("{read:?}"));
    expect("a log reads the same in pieces", whole == pieces, || format!("{whole}\nin pieces {pieces}"))?;
    Ok(has_graph)
}

fn is_in_order(documents: &[GraphDocument], log: &[u8]) -> Result<(), Finding> {
    let lines = 1 + log.iter().filter(|&&byte| byte == b'\n').count();
    let places: Vec<(usize, usize)> = documents.iter().map(|document| (document.number, document.first_line)).collect();
    let is_numbered = places.iter().map(|place| place.0).eq(1..=documents.len());
    let is_sorted = places.is_sorted_by_key(|place| place.1);
    let is_inside = places.iter().all(|&(_, line)| (1..=lines).contains(&line));
    let is_in_order = is_numbered && is_sorted && is_inside && !places.is_empty();
    expect("graphs are numbered in the order of their lines", is_in_order, || format!("{places:?} of {lines} lines"))
}
