//! A refusal for people.

use std::sync::Arc;

use super::{Reason, Refusal};
use crate::graph::{Attributes, FinalTensor, FinalizedGraph};
use crate::support::{Report, Violation, hidden, is_disjoint};

/// Whatever keeps a graph from running.
pub(crate) struct Refused<'a> {
    pub(crate) graph: &'a Arc<FinalizedGraph>,
    pub(crate) report: &'a Report,
    pub(crate) engines: &'a [Refusal],
}

/// Operations that no engine executes yet, whatever the rules: `LAYER_NORM ('ln')`.
pub(crate) fn missing(graph: &FinalizedGraph) -> Vec<String> {
    let is_missing = |id: &_| matches!(graph.operation(*id).attributes, Attributes::Other(_));
    let text = |id| {
        let operation = graph.operation(id);
        format!("{} ('{}')", operation.tag(), operation.name.escape_debug())
    };
    graph.operation_ids().filter(is_missing).map(text).collect()
}

/// Tensors whose elements lie on one another: most often a stride that was mistyped.
pub(crate) fn overlaps(graph: &FinalizedGraph) -> Vec<String> {
    let stored = graph.tensor_ids().filter(|&id| !graph.tensor(id).is_virtual && !is_disjoint(graph.tensor(id)));
    let told = stored.map(|id| {
        let (name, tensor) = (graph.describe_tensor(id), graph.tensor(id));
        let why = match overlap(tensor) {
            Some((one, other)) => format!("axes {one} and {other} have the same stride {}", tensor.stride[one]),
            None => format!("strides {:?} are too small for dims {:?}", tensor.stride, tensor.dim),
        };
        format!("note: tensor {name}: {why}, so elements lie on one another; is a stride mistyped?")
    });
    told.collect()
}

/// The first two axes of more than one element that have the same stride.
fn overlap(tensor: &FinalTensor) -> Option<(usize, usize)> {
    let axes: Vec<usize> = (0..tensor.dim.len()).filter(|&axis| tensor.dim[axis] > 1).collect();
    let mut pairs =
        axes.iter().enumerate().flat_map(|(place, &one)| axes[place + 1..].iter().map(move |&other| (one, other)));
    pairs.find(|&(one, other)| tensor.stride[one] == tensor.stride[other])
}

impl Refused<'_> {
    /// In one line, that the graph does not run.
    pub(crate) fn line(&self) -> String {
        let capability = self.report.capability;
        match missing(self.graph).as_slice() {
            [] => format!("does not run on {capability}"),
            missing => format!("does not run on {capability}: no engine executes {} yet", missing.join(", ")),
        }
    }

    /// Why, a line each. Where an operation is missing, that is all there is to say, unless `is_verbose`.
    pub(crate) fn details(&self, is_verbose: bool) -> Vec<String> {
        let mut lines = Vec::new();
        if is_verbose || missing(self.graph).is_empty() {
            lines.extend(self.report.findings().iter().flat_map(|finding| finding.lines()));
            lines.extend(self.hidden());
            lines.extend(self.reasons());
        }
        lines.extend(overlaps(self.graph));
        lines.extend(self.report.notes.iter().map(|note| format!("note: {note}")));
        lines
    }

    /// What tensors of a wrong layout break as soon as they are laid out as required, each once.
    fn hidden(&self) -> Vec<String> {
        let mut lines: Vec<String> = Vec::new();
        for violation in hidden(self.graph, self.report) {
            let Violation { rule, place, required, .. } = violation;
            let line = format!("once laid out so, {place} needs {required}, too  [{}]", rule.id);
            if !lines.contains(&line) {
                lines.push(line);
            }
        }
        lines
    }

    /// Reasons of engines that are no broken rules, each once.
    fn reasons(&self) -> Vec<String> {
        let mut reasons: Vec<(&Reason, Vec<&str>)> = Vec::new();
        for refusal in self.engines.iter().filter(|refusal| refusal.reason != Reason::Rules) {
            match reasons.iter_mut().find(|(reason, _)| *reason == &refusal.reason) {
                Some((_, engines)) => engines.push(refusal.engine),
                None => reasons.push((&refusal.reason, vec![refusal.engine])),
            }
        }
        reasons.into_iter().map(|(reason, engines)| format!("{}: {reason}", engines.join(", "))).collect()
    }
}
