//! Errors, by who must act: the caller (malformed, not supported, bad input), us (generated code), the operator
//! (environment). Messages are lower case without a final stop; causes are reached through `source()`.
//!
//! # When
//!
//! You need this to tell what to do about a failure: repair the graph, run something else, or call the operator.
//!
//! ```
//! # use std::sync::Arc;
//! # use fusewright::graph::{DataType, Graph, PointwiseMode, Tensor};
//! # let mut graph = Graph::new().io_data_type(DataType::Half).compute_data_type(DataType::Float);
//! # let a = graph.tensor(Tensor::new("a").row_major([1, 64, 128]));
//! # let b = graph.tensor(Tensor::new("b").row_major([1, 128, 32]));
//! # let c = graph.matmul("matmul", a, b);
//! # graph.set_output(c);
//! # let graph = Arc::new(graph.finalize()?);
//! use fusewright::device::{ComputeCapability, Device};
//! use fusewright::error::Error;
//! use fusewright::session::{Session, SessionOptions};
//!
//! let old = Device::typical(ComputeCapability::new(5, 0));
//! match Session::without_gpu(old, SessionOptions::default()).check(&graph) {
//!     Err(Error::NotSupported(why)) => {
//!         assert_eq!(why.status().name(), "NOT_SUPPORTED_ARCH_MISMATCH");
//!         let rules: Vec<&str> = why.report().into_iter().flat_map(|report| report.violations()).map(|broken| broken.rule.id).collect();
//!         assert!(rules.contains(&"S70-CC"));
//!     }
//!     other => panic!("{other:?}"),
//! }
//! # Ok::<(), fusewright::error::Error>(())
//! ```

mod refused;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use crate::frontend::ReadError;
use crate::graph::FinalizedGraph;
pub use crate::graph::Malformed;
pub(crate) use refused::{Refused, missing, overlaps};

use crate::support::{DetailedStatus, Remedy, Report, Violation};

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

    /// The graph is well formed, but what was asked for it is not supported. Caller.
    #[error(transparent)]
    NotSupported(#[from] Arc<NotSupported>),

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

/// What is not supported, with all that is known of it: the command line, the C ABI and Rust callers read the same value.
#[derive(Debug)]
#[non_exhaustive]
pub enum NotSupported {
    /// No surface takes the graph, not even with what engines relax, or no engine takes what a surface does.
    Graph {
        /// The graph.
        graph: Arc<FinalizedGraph>,
        /// What each surface says: rules, places, required and found.
        report: Report,
        /// What each engine asked says.
        engines: Vec<Refusal>,
        /// Looks for what would help.
        remedy: fn(&Arc<FinalizedGraph>, &Report) -> Remedy,
    },
    /// The engine that takes the graph has nothing for the device.
    Device(Refusal),
    /// The CPU engine does not compute an operation, or not in its type.
    CpuEngine(String),
    /// A graph, or a step of a command, that is too much work to do.
    Work(String),
    /// The same, of a graph at this place of a file.
    At {
        /// File and number of the graph.
        place: String,
        /// What is not supported.
        cause: Arc<NotSupported>,
    },
}

/// Why an engine does not take a graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Name of the engine.
    pub engine: &'static str,
    /// Why.
    pub reason: Reason,
}

/// What keeps an engine from taking a graph; texts are sentences for people.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// The graph breaks rules that the engine does not relax.
    Rules,
    /// The chip lacks an instruction.
    Chip(String),
    /// There are no kernels for an operation, a type or a layout of the graph.
    Graph(String),
    /// Launches would be beyond a limit of the hardware, or counters of kernels.
    Limit(String),
    /// No config has so little shared memory as the device.
    SharedMemory(String),
    /// The environment forbids the arithmetic.
    Environment(String),
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rules => f.write_str("needs rules that the graph breaks"),
            Self::Chip(text)
            | Self::Graph(text)
            | Self::Limit(text)
            | Self::SharedMemory(text)
            | Self::Environment(text) => f.write_str(text),
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.engine, self.reason)
    }
}

impl NotSupported {
    /// What the surfaces say; `None` where they were not what refused.
    pub fn report(&self) -> Option<&Report> {
        match self {
            Self::Graph { report, .. } => Some(report),
            Self::At { cause, .. } => cause.report(),
            _ => None,
        }
    }

    /// What the engines asked say.
    pub fn engines(&self) -> &[Refusal] {
        match self {
            Self::Graph { engines, .. } => engines,
            Self::Device(refusal) => std::slice::from_ref(refusal),
            Self::At { cause, .. } => cause.engines(),
            Self::CpuEngine(_) | Self::Work(_) => &[],
        }
    }

    /// Status of the backend API ([`Report::status`]).
    pub fn status(&self) -> DetailedStatus {
        self.report().and_then(Report::status).unwrap_or(DetailedStatus::Unspecified)
    }

    /// The nearest legal changes: with which the graph runs, and with which a surface holds. They are searched for: copies of the
    /// graph are edited and checked, some milliseconds for a graph of tens of operations.
    pub fn remedy(&self) -> Remedy {
        match self {
            Self::Graph { graph, report, remedy, .. } => remedy(graph, report),
            Self::At { cause, .. } => cause.remedy(),
            _ => Remedy::default(),
        }
    }

    /// What led to it, a line each: broken rules, then engines, then what would help ([`Self::remedy`]).
    pub fn causes(&self) -> Vec<String> {
        let violations = self.report().into_iter().flat_map(Report::violations);
        let reasons = violations.map(broken).chain(self.engines().iter().map(Refusal::to_string));
        reasons.chain(self.remedy().lines()).collect()
    }
}

/// A broken rule as one line.
fn broken(violation: &Violation) -> String {
    let Violation { surface, rule, place, required, found, .. } = violation;
    format!("surface {surface}: {} at {place}: required: {required}; found: {found}", rule.id)
}

impl fmt::Display for NotSupported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Graph { graph, report, engines, .. } => {
                let refused = Refused { graph, report, engines };
                f.write_str(&refused.line())?;
                refused.details(false).iter().try_for_each(|line| write!(f, "\n{line}"))
            }
            Self::Device(refusal) => refusal.fmt(f),
            Self::CpuEngine(text) | Self::Work(text) => f.write_str(text),
            Self::At { place, cause } => write!(f, "{place}: {cause}"),
        }
    }
}

impl std::error::Error for NotSupported {}

impl From<NotSupported> for Error {
    fn from(cause: NotSupported) -> Self {
        Self::NotSupported(Arc::new(cause))
    }
}

/// Each further error is a line of its own, in the form of the first.
impl From<ReadError> for Error {
    fn from(error: ReadError) -> Self {
        let others: String = error.others.iter().map(|other| format!("\n{other}")).collect();
        Self::input(error.place(), format!("{}{others}", error.text()))
    }
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
    /// A tensor by which the GPUs of a node send each other statistics lies on no device of the plan, or a GPU sent none.
    Peers,
}

impl Misuse {
    /// What messages begin with.
    pub fn place(self) -> &'static str {
        match self {
            Self::Pack | Self::NullPointer | Self::Alignment => "variant pack",
            Self::Workspace => "workspace",
            Self::Stream => "stream",
            Self::CudaGraph => "CUDA graph",
            Self::Peers => "peer statistics",
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
