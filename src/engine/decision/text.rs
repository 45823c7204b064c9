//! A decision for people: whether the graph runs, by what, and what keeps it.

use std::fmt;

use super::Decision;
use crate::error::Reason;
use crate::graph::{Attributes, FinalTensor};

impl Decision {
    /// Operations that no engine executes yet, whatever the rules: `LAYER_NORM ('ln')`.
    pub fn missing(&self) -> Vec<String> {
        let graph = &self.graph;
        let is_missing = |id: &_| matches!(graph.operation(*id).attributes, Attributes::Other(_));
        let text = |id| {
            let operation = graph.operation(id);
            format!("{} ('{}')", operation.tag(), operation.name.escape_debug())
        };
        graph.operation_ids().filter(is_missing).map(text).collect()
    }

    /// In one line, whether the graph runs here.
    pub fn verdict_line(&self) -> String {
        let capability = self.report.capability;
        match (&self.report.supported, self.engine()) {
            (Some(supported), Some(engine)) if supported.relaxed().is_empty() => {
                format!("runs on {capability} by {}, as documented on surface {}", engine.name(), supported.surface())
            }
            (Some(_), Some(engine)) => {
                format!("runs here on {capability} by {}, beyond cuDNN's surfaces", engine.name())
            }
            _ => match self.missing().as_slice() {
                [] => format!("does not run on {capability}"),
                missing => format!("does not run on {capability}: no engine executes {} yet", missing.join(", ")),
            },
        }
    }

    /// What there is to say beyond [`Self::verdict_line`], a line each. `is_verbose`: also what keeps surfaces from holding where the
    /// graph runs, or where an operation is missing.
    pub fn details(&self, is_verbose: bool) -> Vec<String> {
        let mut lines = Vec::new();
        if let Some(engine) = self.engine() {
            lines.push(format!("engine {}: {}", engine.name(), engine.summary()));
        }
        let relaxed = self.report.relaxed();
        let is_shown = is_verbose || (self.engine().is_none() && self.missing().is_empty());
        match relaxed.len() {
            0 => {}
            count if !is_shown => {
                lines.push(format!("broken, and not needed by the engine: {count} of cuDNN's rules (-v names them)"))
            }
            _ => {
                let ids: Vec<&str> = relaxed.iter().map(|rule| rule.id).collect();
                lines.push(format!("broken, and not needed by the engine: {}", ids.join(", ")));
            }
        }
        if is_shown {
            lines.extend(self.report.findings().iter().flat_map(|finding| owned_lines(&finding.to_string())));
        }
        lines.extend(self.refusals(is_verbose));
        lines.extend(self.overlaps());
        lines.extend(self.report.notes.iter().map(|note| format!("note: {note}")));
        lines
    }

    /// Tensors two axes of which have the same stride: most often a stride that was mistyped.
    fn overlaps(&self) -> Vec<String> {
        let overlap = |tensor: &FinalTensor| {
            let axes: Vec<usize> = (0..tensor.dim.len()).filter(|&axis| tensor.dim[axis] > 1).collect();
            let pairs = axes
                .iter()
                .flat_map(|&one| axes.iter().filter(move |&&other| other > one).map(move |&other| (one, other)));
            pairs.into_iter().find(|&(one, other)| tensor.stride[one] == tensor.stride[other])
        };
        let stored = self.graph.tensor_ids().filter(|&id| !self.graph.tensor(id).is_virtual);
        let told = stored.filter_map(|id| {
            let tensor = self.graph.tensor(id);
            let (one, other) = overlap(tensor)?;
            let (name, stride) = (self.graph.describe_tensor(id), tensor.stride[one]);
            Some(format!("note: tensor {name}: axes {one} and {other} have the same stride {stride}, so elements lie on one another; is one of them a mistake?"))
        });
        told.collect()
    }

    /// Why engines did not take a graph that none takes: reasons that are no broken rules, each once.
    fn refusals(&self, is_verbose: bool) -> Vec<String> {
        if self.engine().is_some() || (!self.missing().is_empty() && !is_verbose) {
            return Vec::new();
        }
        let mut reasons: Vec<(&Reason, Vec<&str>)> = Vec::new();
        for refusal in self.passed_over.iter().filter(|refusal| refusal.reason != Reason::Rules) {
            match reasons.iter_mut().find(|(reason, _)| *reason == &refusal.reason) {
                Some((_, engines)) => engines.push(refusal.engine),
                None => reasons.push((&refusal.reason, vec![refusal.engine])),
            }
        }
        reasons.into_iter().map(|(reason, engines)| format!("{}: {reason}", engines.join(", "))).collect()
    }
}

fn owned_lines(text: &str) -> Vec<String> {
    text.lines().map(str::to_owned).collect()
}

impl fmt::Display for Decision {
    /// The verdict, then what keeps the graph; no final line break.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.verdict_line())?;
        self.details(false).iter().try_for_each(|line| write!(f, "\n{line}"))
    }
}
