//! A decision for people: whether the graph runs, by what, and what keeps it.

use std::fmt;

use super::{Decision, Taken};
use crate::error::{Refused, missing, overlaps};

impl Decision {
    /// Operations that no engine executes yet, whatever the rules: `LAYER_NORM ('ln')`.
    pub fn missing(&self) -> Vec<String> {
        missing(&self.graph)
    }

    fn refused(&self) -> Refused<'_> {
        Refused { graph: &self.graph, report: &self.report, engines: &self.passed_over }
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
            _ => self.refused().line(),
        }
    }

    /// What there is to say beyond [`Self::verdict_line`], a line each. `is_verbose`: also what keeps surfaces from holding where the
    /// graph runs, or where an operation is missing.
    pub fn details(&self, is_verbose: bool) -> Vec<String> {
        match &self.taken {
            Some(taken) => self.details_of(taken, is_verbose),
            None => self.refused().details(is_verbose),
        }
    }

    fn details_of(&self, Taken { engine, offer }: &Taken, is_verbose: bool) -> Vec<String> {
        let mut lines = vec![format!("engine {}: {}", engine.name(), engine.summary())];
        lines.extend(offer.remarks().into_iter().map(|remark| format!("note: {remark}")));
        lines.extend(self.relaxed(is_verbose));
        if is_verbose {
            lines.extend(self.report.findings().iter().flat_map(|finding| finding.lines()));
        }
        lines.extend(overlaps(&self.graph));
        lines.extend(self.report.notes.iter().map(|note| format!("note: {note}")));
        lines
    }

    /// The rules that the graph breaks and its engine does without.
    fn relaxed(&self, is_verbose: bool) -> Option<String> {
        let ids: Vec<&str> = self.report.relaxed().iter().map(|rule| rule.id).collect();
        match ids.len() {
            0 => None,
            _ if is_verbose => Some(format!("broken, and not needed by the engine: {}", ids.join(", "))),
            1 => Some("broken, and not needed by the engine: 1 of cuDNN's rules (-v names it)".to_owned()),
            count => Some(format!("broken, and not needed by the engine: {count} of cuDNN's rules (-v names them)")),
        }
    }
}

impl fmt::Display for Decision {
    /// The verdict, then what keeps the graph; no final line break.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.verdict_line())?;
        self.details(false).iter().try_for_each(|line| write!(f, "\n{line}"))
    }
}
