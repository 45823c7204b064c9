//! What is found wrong.

use std::fmt;

use crate::error::Error;
use crate::reference::Comparison;

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

/// That a comparison matches.
pub(super) fn judge(oracle: &'static str, comparison: Result<Comparison, Error>) -> Result<(), Finding> {
    match comparison {
        Ok(comparison) if comparison.is_match() => Ok(()),
        Ok(comparison) => Err(finding(oracle, comparison)),
        Err(error) => Err(finding(oracle, error)),
    }
}
