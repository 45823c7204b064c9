//! What is found wrong.

use std::fmt;

/// An expectation that a graph does not meet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The expectation, in words that tell two kinds of failures apart.
    pub oracle: &'static str,
    /// What happened.
    pub message: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.oracle, self.message)
    }
}

/// That an expectation is not met.
pub(super) fn finding(oracle: &'static str, message: impl fmt::Display) -> Finding {
    Finding { oracle, message: message.to_string() }
}
