//! What is wrong with a graph that is not well formed.

use std::fmt;

/// A graph that is not well formed: it has no verdict. The first defect, and others beside it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Malformed {
    /// Rule of `docs/spec/support-surfaces.md` or `docs/spec/operations.md` (`GR-ACYCLIC`, `CV-R5`, …), or a rule of ours.
    pub rule: &'static str,
    /// Operation concerned, as `'name' (POINTWISE, node 3)`.
    pub operation: Option<String>,
    /// Tensor concerned, as `'name' (uid 7)`.
    pub tensor: Option<String>,
    /// What is wrong, with the values found and required.
    pub message: String,
    /// Further defects that do not follow from this one, in the order of the graph, at most 19; each has none itself.
    pub others: Vec<Malformed>,
}

impl Malformed {
    /// A defect that concerns the whole graph.
    pub fn graph(rule: &'static str, message: impl Into<String>) -> Self {
        Self { rule, operation: None, tensor: None, message: message.into(), others: Vec::new() }
    }

    /// This defect and the others.
    pub fn all(&self) -> impl Iterator<Item = &Self> {
        std::iter::once(self).chain(&self.others)
    }
}

/// This defect; not the others.
impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("malformed graph: ")?;
        if let Some(operation) = &self.operation {
            write!(f, "operation {operation}: ")?;
        }
        if let Some(tensor) = &self.tensor {
            write!(f, "tensor {tensor}: ")?;
        }
        write!(f, "{} [{}]", self.message, self.rule)
    }
}

impl std::error::Error for Malformed {}
