//! Why a graph could not be read, and where.

use std::fmt;
use std::sync::Arc;

/// A graph that could not be read from its document; other graphs of the same document are not affected.
///
/// Displayed as `FILE: graph 2 (line 17): node 'act' (POINTWISE, node 3): tensor 'x': MESSAGE [FEJ-12]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadError {
    /// The file, as its reader called it.
    pub source_name: Arc<str>,
    /// Number of the graph in the file, from 1 (FEJ-02).
    pub number: usize,
    /// Line on which the graph begins, from 1.
    pub line: usize,
    /// Node concerned, as `'name' (TAG, node 3)`; nodes are counted from 0, as the library's own names do (FEJ-07).
    pub node: Option<Box<str>>,
    /// Tensor concerned, as `'name'` or `'name' (uid 7)`.
    pub tensor: Option<Box<str>>,
    /// What is wrong, with the values required and found. Where the text is no JSON, further lines show the place.
    pub message: String,
    /// Rule of the file format (`FEJ-12`).
    pub rule: &'static str,
    /// What is wrong with other nodes and tensors of the graph, in their order, at most 19; each has none itself.
    pub others: Box<[ReadError]>,
}

impl ReadError {
    /// This error and the others.
    pub fn all(&self) -> impl Iterator<Item = &Self> {
        std::iter::once(self).chain(&self.others)
    }

    /// What is wrong, with the rule at the end of its first line.
    pub(crate) fn text(&self) -> String {
        let (first, shown) = self.message.split_at(self.message.find('\n').unwrap_or(self.message.len()));
        format!("{first} [{}]{shown}", self.rule)
    }

    /// File, graph, node and tensor, as far as they are known.
    pub(crate) fn place(&self) -> String {
        let mut place = format!("{}: graph {} (line {})", self.source_name.escape_debug(), self.number, self.line);
        if let Some(node) = &self.node {
            place.push_str(&format!(": node {node}"));
        }
        if let Some(tensor) = &self.tensor {
            place.push_str(&format!(": tensor {tensor}"));
        }
        place
    }
}

/// This error; not the others.
impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place(), self.text())
    }
}

impl std::error::Error for ReadError {}

/// A [`ReadError`] before the file, the graph number and, at first, the node are known.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Failure {
    pub(super) rule: &'static str,
    pub(super) node: Option<String>,
    pub(super) tensor: Option<String>,
    pub(super) message: String,
    /// What else is wrong, elsewhere in the graph; each has none itself.
    pub(super) others: Vec<Failure>,
}

/// Most failures that are told of one graph; reading ends with the last of them, as each may have cost a search for what
/// was meant.
pub(super) const MOST: usize = 20;

impl Failure {
    pub(super) fn new(rule: &'static str, message: impl Into<String>) -> Self {
        Self { rule, node: None, tensor: None, message: message.into(), others: Vec::new() }
    }

    /// Nothing, or the first of several failures with the others beside it.
    pub(super) fn of_all(failures: Vec<Self>) -> Result<(), Self> {
        let mut failures = failures.into_iter();
        match failures.next() {
            Some(first) => Err(Self { others: failures.collect(), ..first }),
            None => Ok(()),
        }
    }

    /// Names the node, unless an inner place already did.
    pub(super) fn at_node(mut self, node: impl FnOnce() -> String) -> Self {
        self.node.get_or_insert_with(node);
        self
    }

    pub(super) fn at_tensor(mut self, tensor: impl FnOnce() -> String) -> Self {
        self.tensor.get_or_insert_with(tensor);
        self
    }

    pub(super) fn into_error(self, source_name: &Arc<str>, number: usize, line: usize) -> ReadError {
        let Self { rule, node, tensor, message, others } = self;
        let others = others.into_iter().map(|other| other.into_error(source_name, number, line)).collect();
        let [node, tensor] = [node, tensor].map(|part| part.map(String::into_boxed_str));
        ReadError { source_name: Arc::clone(source_name), number, line, node, tensor, message, rule, others }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_file_graph_line_node_and_tensor() {
        let failure = Failure::new("FEJ-12", "no such mode")
            .at_node(|| "'a' (POINTWISE, node 3)".to_owned())
            .at_tensor(|| "'x'".to_owned());
        let error = failure.into_error(&Arc::from("log\n.txt"), 2, 17);
        let text = "log\\n.txt: graph 2 (line 17): node 'a' (POINTWISE, node 3): tensor 'x': no such mode [FEJ-12]";
        assert_eq!(error.to_string(), text);
        assert_eq!(crate::error::Error::from(error).to_string(), text);
    }
}
