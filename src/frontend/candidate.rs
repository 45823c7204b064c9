//! Which JSON values are graphs, or records that hold one.

use serde_json::Value;

use super::complaint;
use super::envelope::{self, Dialect};
use super::error::Failure;
use super::fields::{Fields, Object};
use super::finder;
use super::reader::{self, Reading};
use crate::graph::Graph;

/// Something that is, or looks like, a graph.
#[derive(Debug)]
pub(super) struct Candidate {
    pub(super) header: Header,
    graph: Result<Object, Failure>,
}

/// What is known of a graph besides its content.
#[derive(Debug)]
pub(super) struct Header {
    /// Name or id of the record it is a member of.
    pub(super) record: Option<String>,
    pub(super) first_line: usize,
    pub(super) gid: Option<i64>,
    pub(super) dialect: Option<Dialect>,
}

impl Candidate {
    /// A graph that is not to be had.
    pub(super) fn failed(first_line: usize, failure: Failure) -> Self {
        let header = Header { record: None, first_line, gid: None, dialect: None };
        Self { header, graph: Err(failure) }
    }

    fn graph(graph: Object, record: Option<String>, first_line: usize) -> Self {
        let fields = Fields(&graph);
        let gid = fields.integer("gid").ok().flatten();
        let header = Header { record, first_line, gid, dialect: envelope::detect(fields).ok() };
        Self { header, graph: Ok(graph) }
    }

    /// Reads the graph.
    pub(super) fn read(self) -> (Header, Result<Reading, Failure>) {
        (self.header, self.graph.and_then(|graph| reader::read(&graph)))
    }
}

/// The graphs in the text of one JSON value: itself, the elements of an array, or the member `graph` of a record.
///
/// # Errors
/// The parser's complaint, where the text gives no sign of being a graph.
pub(super) fn candidates(text: &[u8], line: usize) -> Result<Vec<Candidate>, String> {
    let elements = match serde_json::from_slice(text) {
        Ok(Value::Array(elements)) => elements,
        Ok(value) => vec![value],
        Err(error) => {
            let message = complaint::describe(&error, text, line);
            let is_graph = finder::mentions_nodes(text);
            let failure = || Candidate::failed(line, Failure::new("FEJ-51", message.clone()));
            return if is_graph { Ok(vec![failure()]) } else { Err(message) };
        }
    };
    Ok(elements.into_iter().filter_map(|element| candidate(element, line)).collect())
}

fn candidate(value: Value, line: usize) -> Option<Candidate> {
    let Value::Object(mut object) = value else { return None };
    if object.contains_key("nodes") {
        return Some(Candidate::graph(object, None, line));
    }
    match object.remove("graph") {
        Some(Value::Object(graph)) if graph.contains_key("nodes") => {
            Some(Candidate::graph(graph, record_name(&object), line))
        }
        _ => None,
    }
}

fn record_name(record: &Object) -> Option<String> {
    match record.get("name").or(record.get("id"))? {
        Value::String(name) => Some(name.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

/// Identity for the removal of repeats: everything but uids, which are the process's (FEJ-33). Records are repeats only
/// if they have the same name.
pub(super) fn fingerprint(graph: &Graph, record: Option<&str>) -> [u8; 32] {
    let mut graph = graph.clone();
    graph.tensors.iter_mut().for_each(|tensor| tensor.uid = None);
    *blake3::hash(format!("{record:?} {graph:?}").as_bytes()).as_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn records(text: &str) -> Vec<Option<String>> {
        candidates(text.as_bytes(), 1).unwrap().into_iter().map(|candidate| candidate.header.record).collect()
    }

    #[test]
    fn graphs_records_and_arrays_of_both() {
        assert_eq!(records(r#"{"nodes":[]}"#), [None]);
        assert_eq!(records(r#"{"id":7,"graph":{"nodes":[]}}"#), [Some("7".to_owned())]);
        assert_eq!(records(r#"[{"name":"a","graph":{"nodes":[]}},{"nodes":[]},3]"#), [Some("a".to_owned()), None]);
        assert!(records(r#"{"graph":{"edges":[]}}"#).is_empty());
        assert!(records("[]").is_empty());
    }

    #[test]
    fn a_broken_value_is_a_graph_if_it_mentions_nodes() {
        assert_eq!(candidates(br#"{"nodes":tru}"#, 3).unwrap().len(), 1);
        assert!(candidates(br#"{"other":tru}"#, 3).unwrap_err().starts_with("not valid JSON at line 3"));
    }
}
