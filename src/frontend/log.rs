//! What the lines of a log add to the graph before them (section 1): uids, ragged offsets, refusals.

use std::collections::{HashMap, HashSet};

use crate::graph::{Graph, Tensor, TensorHandle};

/// Error codes by which the library says why it refused (section 7).
const ERROR_CODES: [&str; 15] = [
    "ATTRIBUTE_NOT_SET",
    "SHAPE_DEDUCTION_FAILED",
    "INVALID_TENSOR_NAME",
    "INVALID_VARIANT_PACK",
    "GRAPH_NOT_SUPPORTED",
    "GRAPH_EXECUTION_PLAN_CREATION_FAILED",
    "GRAPH_EXECUTION_FAILED",
    "HEURISTIC_QUERY_FAILED",
    "CUDNN_BACKEND_API_FAILED",
    "CUDA_API_FAILED",
    "INVALID_CUDA_DEVICE",
    "UNSUPPORTED_GRAPH_FORMAT",
    "HANDLE_ERROR",
    "INVALID_VALUE",
    "NVRTC_COMPILATION_FAILED",
];

/// Most refusals kept for one graph, and most characters of each.
const MAX_REFUSALS: usize = 8;
const MAX_REFUSAL_LENGTH: usize = 200;

/// Facts gathered since the last graph.
#[derive(Debug, Default)]
pub(super) struct LogFacts {
    /// By name; the first statement holds.
    uids: HashMap<String, i64>,
    /// Uid of a tensor, uid of its ragged offset.
    ragged_offsets: HashMap<i64, i64>,
    described: Option<i64>,
    refusals: Vec<String>,
}

impl LogFacts {
    /// Picks up what a line of text says.
    pub(super) fn observe(&mut self, line: &str) {
        if let Some((name, uid)) = named_uid(line) {
            self.uids.entry(name.to_owned()).or_insert(uid);
        }
        if let Some(uid) = number_after(line, "Id: ") {
            self.described = Some(uid);
        }
        if let (Some(uid), Some(offset)) = (self.described, number_after(line, "raggedOffset: Enabled UID:")) {
            self.ragged_offsets.insert(uid, offset);
        }
        if line.starts_with("[cudnn_frontend]") && ERROR_CODES.iter().any(|code| line.contains(code)) {
            self.observe_refusal(line);
        }
    }

    fn observe_refusal(&mut self, line: &str) {
        if self.refusals.len() < MAX_REFUSALS {
            let text: String = line.trim().chars().take(MAX_REFUSAL_LENGTH).collect();
            self.refusals.push(text.escape_debug().to_string());
        }
    }

    /// Completes the graph that these lines follow. A uid is given only where the name is unique in the graph.
    pub(super) fn complete(&self, graph: &mut Graph, warnings: &mut Vec<String>) {
        if !self.uids.is_empty() {
            self.complete_uids(graph);
        }
        if !self.ragged_offsets.is_empty() {
            self.complete_ragged_offsets(graph);
        }
        warnings.extend(self.refusals.iter().map(|line| format!("the log says: {line}")));
    }

    fn complete_uids(&self, graph: &mut Graph) {
        let mut taken: HashSet<i64> = graph.tensors.iter().filter_map(|tensor| tensor.uid).collect();
        let mut count: HashMap<String, usize> = HashMap::new();
        graph.tensors.iter().for_each(|tensor| *count.entry(tensor.name.clone()).or_default() += 1);
        for tensor in graph.tensors.iter_mut().filter(|tensor| tensor.uid.is_none() && count[&tensor.name] == 1) {
            tensor.uid = self.uids.get(&tensor.name).copied().filter(|&uid| taken.insert(uid));
        }
    }

    /// Offset tensors that no node uses are in the log only; they are added with their uid alone.
    fn complete_ragged_offsets(&self, graph: &mut Graph) {
        let uid = |(index, tensor): (usize, &Tensor)| Some((tensor.uid?, TensorHandle::at(index)?));
        let mut by_uid: HashMap<i64, TensorHandle> = graph.tensors.iter().enumerate().filter_map(uid).collect();
        for index in 0..graph.tensors.len() {
            let tensor = &graph.tensors[index];
            let Some(&offset) = tensor.uid.and_then(|uid| self.ragged_offsets.get(&uid)) else { continue };
            if tensor.ragged_offset.is_none() {
                let offset = *by_uid.entry(offset).or_insert_with(|| graph.tensor(Tensor::default().uid(offset)));
                graph.tensors[index].ragged_offset = Some(offset);
            }
        }
    }
}

/// The tensor name and uid that a line states, in the wording before or since 1.27.
fn named_uid(line: &str) -> Option<(&str, i64)> {
    if let Some((name, rest)) = quoted_after(line, "Backend Tensor named '") {
        return Some((name, number_after(rest, "with UID ")?));
    }
    let uid = number_after(line, "Assigned UID ")?;
    Some((quoted_after(line, "to tensor named '")?.0, uid))
}

/// The text between `mark` (which ends with a quote) and the next quote, and what follows it.
fn quoted_after<'a>(line: &'a str, mark: &str) -> Option<(&'a str, &'a str)> {
    line.split_once(mark)?.1.split_once('\'')
}

fn number_after(line: &str, mark: &str) -> Option<i64> {
    let rest = line.split_once(mark)?.1.trim_start();
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    rest[..end].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn observed(lines: &[&str]) -> LogFacts {
        let mut facts = LogFacts::default();
        lines.iter().for_each(|line| facts.observe(line));
        facts
    }

    #[test]
    fn uids_and_ragged_offsets_complete_the_graph() {
        let facts = observed(&[
            "[cudnn_frontend] INFO: Backend Tensor named 'q' with UID 5",
            "[cudnn_frontend] INFO: Assigned UID 6 to tensor named 'offset'",
            "[cudnn_frontend] INFO: Backend Tensor named 'same' with UID 8",
            "Id: 5 dim: 1",
            "raggedOffset: Enabled UID:6",
        ]);
        let mut graph = Graph::new();
        let names = ["q", "offset", "same", "same"];
        let ids = names.map(|name| graph.tensor(Tensor::new(name)));
        facts.complete(&mut graph, &mut Vec::new());
        assert_eq!(graph.tensors().iter().map(|tensor| tensor.uid).collect::<Vec<_>>(), [Some(5), Some(6), None, None]);
        assert_eq!(graph.tensors()[0].ragged_offset, Some(ids[1]));
    }

    #[test]
    fn a_uid_in_the_file_stays() {
        let mut graph = Graph::new();
        graph.tensor(Tensor::new("q").uid(1));
        graph.tensor(Tensor::new("k"));
        let lines = ["Backend Tensor named 'q' with UID 9", "Backend Tensor named 'k' with UID 1"];
        observed(&lines).complete(&mut graph, &mut Vec::new());
        assert_eq!((graph.tensors()[0].uid, graph.tensors()[1].uid), (Some(1), None));
    }

    #[test]
    fn refusals_become_warnings() {
        let mut warnings = Vec::new();
        let facts = observed(&["[cudnn_frontend] ERROR: GRAPH_NOT_SUPPORTED because", "other GRAPH_NOT_SUPPORTED"]);
        facts.complete(&mut Graph::new(), &mut warnings);
        assert_eq!(warnings, ["the log says: [cudnn_frontend] ERROR: GRAPH_NOT_SUPPORTED because"]);
    }
}
