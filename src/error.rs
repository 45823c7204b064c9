//! Errors, by who must act: the caller (malformed, not supported, bad input), us (generated code), the operator
//! (environment). Messages are lower case without a final stop; causes are reached through `source()`.

use std::fmt;
use std::path::PathBuf;

/// A graph that is not well formed: it has no verdict.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Malformed {
    /// Rule of `spec/support-surfaces.md` or `spec/operations.md` (`GR-ACYCLIC`, `CV-R5`, …), or a rule of ours.
    pub rule: &'static str,
    /// Operation concerned, as `'name' (POINTWISE, node 3)`.
    pub operation: Option<String>,
    /// Tensor concerned, as `'name' (uid 7)`.
    pub tensor: Option<String>,
    /// What is wrong, with the values found and required.
    pub message: String,
}

impl Malformed {
    /// A defect that concerns the whole graph.
    pub fn graph(rule: &'static str, message: impl Into<String>) -> Self {
        Self { rule, operation: None, tensor: None, message: message.into() }
    }
}

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

/// Everything that can go wrong on the way from a file to a result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The graph is not well formed. Caller.
    #[error(transparent)]
    Malformed(#[from] Malformed),

    /// A file, or a value in it, cannot be used. Caller.
    #[error("{place}: {message}")]
    Input {
        /// File, line or graph number, node.
        place: String,
        /// What is wrong.
        message: String,
    },

    /// What an execution is given is not what its plan needs. Caller.
    #[error("{}: {message}", .misuse.place())]
    Execution {
        /// What kind of thing is wrong.
        misuse: Misuse,
        /// What is wrong, with the values found and required.
        message: String,
    },

    /// The graph is well formed, but no surface or engine takes it. Caller; the report lists every broken rule.
    #[error("{0}")]
    NotSupported(String),

    /// Our generated source does not compile, or a template failed. Us.
    #[error("{message}")]
    Generated {
        /// What failed.
        message: String,
        /// Compiler log or template error.
        log: String,
        /// Where the source was written for inspection.
        source_path: Option<PathBuf>,
    },

    /// The result is not what it must be: a kernel that hangs, diverges or disagrees. Us.
    #[error("{0}")]
    Wrong(String),

    /// Driver, device, compiler library, disk or memory. Operator.
    #[error("{message}")]
    Environment {
        /// What is missing or failed, and what was looked for.
        message: String,
        /// The underlying error, if there is one.
        #[source]
        source: Option<Box<dyn std::error::Error + Send + Sync>>,
    },
}

/// What can be wrong with what an execution is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Misuse {
    /// The variant pack lacks a tensor, has one too many, or a value where a pointer belongs.
    Pack,
    /// A pointer of the variant pack is null.
    NullPointer,
    /// A pointer of the variant pack has not its tensor's alignment.
    Alignment,
    /// The workspace is null, misaligned or too small.
    Workspace,
    /// The stream is of another device.
    Stream,
    /// A CUDA graph is not one of this plan.
    CudaGraph,
}

impl Misuse {
    /// What messages begin with.
    pub fn place(self) -> &'static str {
        match self {
            Self::Pack | Self::NullPointer | Self::Alignment => "variant pack",
            Self::Workspace => "workspace",
            Self::Stream => "stream",
            Self::CudaGraph => "CUDA graph",
        }
    }
}

impl Error {
    /// An execution that is asked for wrongly.
    pub fn execution(misuse: Misuse, message: impl Into<String>) -> Self {
        Self::Execution { misuse, message: message.into() }
    }

    /// Bad input at this place.
    pub fn input(place: impl Into<String>, message: impl Into<String>) -> Self {
        Self::Input { place: place.into(), message: message.into() }
    }

    /// A failure of the environment.
    pub fn environment(message: impl Into<String>) -> Self {
        Self::Environment { message: message.into(), source: None }
    }

    /// Process exit code of the command line for this error (design: 1 refused, 2 bad input, 3 environment).
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::NotSupported(_) | Self::Wrong(_) => 1,
            Self::Malformed(_) | Self::Input { .. } | Self::Execution { .. } => 2,
            Self::Generated { .. } | Self::Environment { .. } => 3,
        }
    }
}

/// Result with this crate's [`Error`].
pub type Result<T> = std::result::Result<T, Error>;
