//! Why a call fails: a status of the ABI and a text.

use std::cell::RefCell;
use std::fmt::Display;
use std::sync::Arc;

use cudarc::cudnn::sys::cudnnStatus_t as Status;
use cudarc::driver::sys::CUresult;

use crate::error::{Error, Misuse, NotSupported, Reason};
use crate::plan::cuda::CudaError;
use crate::support::DetailedStatus;

/// A status other than success, and what is wrong.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(super) status: Status,
    pub(super) message: String,
    /// The refusal that led to it: its causes are looked for where a log wants them, as that takes milliseconds.
    cause: Option<Arc<NotSupported>>,
}

/// Rules of attention by which extents do not fit each other (attention.md, section 10).
const OF_SHAPES: &[&str] = &["AT-E1", "AT-E2", "AT-E3", "AT-E8", "AT-E11", "AT-E14", "AT-E19", "AT-O17", "SDPA-SHAPE"];

pub(crate) type Result<T> = std::result::Result<T, Failure>;

impl Failure {
    pub(super) fn new(status: Status, message: impl Display) -> Self {
        Self { status, message: message.to_string(), cause: None }
    }

    pub(super) fn bad(message: impl Display) -> Self {
        Self::new(Status::CUDNN_STATUS_BAD_PARAM, message)
    }

    pub(super) fn null(what: &str) -> Self {
        Self::new(Status::CUDNN_STATUS_BAD_PARAM_NULL_POINTER, format!("{what} is null"))
    }

    pub(super) fn unsupported(message: impl Display) -> Self {
        Self::new(Status::CUDNN_STATUS_NOT_SUPPORTED, message)
    }

    /// So many bytes of memory are not to be had.
    pub(super) fn memory(bytes: usize) -> Self {
        let message = format!("there is no memory for {bytes} bytes");
        Self::new(Status::CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED, message)
    }

    /// Whether it is a refusal, and not wrong use or a fault: what logs call a warning.
    pub(super) fn is_refusal(&self) -> bool {
        let number = self.status as u32;
        (Status::CUDNN_STATUS_NOT_SUPPORTED as u32..Status::CUDNN_STATUS_INTERNAL_ERROR as u32).contains(&number)
    }

    /// From the root cause to the function that was called.
    pub(super) fn traceback(&self, function: &str) -> Vec<String> {
        let mut lines = self.cause.as_ref().map(|cause| cause.causes()).unwrap_or_default();
        lines.extend([self.message.clone(), function.to_owned()]);
        lines
    }

    /// What went wrong before an execution.
    pub(super) fn of_build(error: &Error) -> Self {
        if let Error::NotSupported(cause) = error {
            return Self::refused(Arc::clone(cause));
        }
        let status = match error {
            Error::Execution { misuse, .. } => of_misuse(*misuse),
            // What has a meaning in cuDNN's own terms, and lacks what tells us which.
            Error::Malformed(malformed) if malformed.rule == "N-160" => {
                Status::CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN
            }
            Error::Malformed(malformed) if OF_SHAPES.contains(&malformed.rule) => {
                Status::CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH
            }
            Error::Malformed(_) | Error::Input { .. } => Status::CUDNN_STATUS_BAD_PARAM,
            Error::NotSupported(_) => Status::CUDNN_STATUS_NOT_SUPPORTED,
            Error::Generated { .. } => Status::CUDNN_STATUS_INTERNAL_ERROR_COMPILATION_FAILED,
            Error::Wrong(_) => Status::CUDNN_STATUS_INTERNAL_ERROR,
            Error::Environment { source, .. } => match of_driver(source.as_deref()) {
                None => Status::CUDNN_STATUS_NOT_SUPPORTED_RUNTIME_PREREQUISITE_MISSING,
                Some(error) if error.is(CUresult::CUDA_ERROR_OUT_OF_MEMORY) => {
                    Status::CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED
                }
                Some(_) => Status::CUDNN_STATUS_INTERNAL_ERROR,
            },
        };
        Self::new(status, with_causes(error))
    }

    /// What went wrong with the shapes of an execution: [`Self::of_build`], but what is supported in no such shape says that.
    pub(super) fn of_shapes(error: &Error) -> Self {
        let failure = Self::of_build(error);
        let status = match error {
            Error::NotSupported(_) => Status::CUDNN_STATUS_NOT_SUPPORTED_INVALID_DYNAMIC_SHAPE,
            Error::Malformed(_) | Error::Input { .. } => Status::CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH,
            _ => failure.status,
        };
        Self { status, ..failure }
    }

    /// What went wrong when a plan was given its arguments and launched.
    pub(super) fn of_execution(error: &Error) -> Self {
        let status = match error {
            Error::Execution { misuse, .. } => of_misuse(*misuse),
            Error::Malformed(_) | Error::Input { .. } => Status::CUDNN_STATUS_BAD_PARAM,
            Error::Environment { source, .. } => match of_driver(source.as_deref()) {
                None => Status::CUDNN_STATUS_NOT_SUPPORTED_INCOMPATIBLE_CUDA_DRIVER,
                Some(_) => Status::CUDNN_STATUS_EXECUTION_FAILED_CUDA_DRIVER,
            },
            _ => Status::CUDNN_STATUS_EXECUTION_FAILED,
        };
        Self::new(status, with_causes(error))
    }

    /// A refusal, with the status of its root cause (docs/spec/backend-api.md, section 8).
    pub(super) fn refused(cause: Arc<NotSupported>) -> Self {
        let status = match cause.status() {
            DetailedStatus::ArchMismatch => Status::CUDNN_STATUS_NOT_SUPPORTED_ARCH_MISMATCH,
            DetailedStatus::GraphPattern => Status::CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN,
            DetailedStatus::DataType => Status::CUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE,
            DetailedStatus::Shape => Status::CUDNN_STATUS_NOT_SUPPORTED_SHAPE,
            DetailedStatus::Layout => Status::CUDNN_STATUS_NOT_SUPPORTED_LAYOUT,
            DetailedStatus::Padding => Status::CUDNN_STATUS_NOT_SUPPORTED_PADDING,
            _ => Status::CUDNN_STATUS_NOT_SUPPORTED,
        };
        let status = match cause.engines() {
            [refusal] if matches!(refusal.reason, Reason::SharedMemory(_)) => {
                Status::CUDNN_STATUS_NOT_SUPPORTED_SHARED_MEMORY_INSUFFICIENT
            }
            _ => status,
        };
        Self { cause: Some(Arc::clone(&cause)), ..Self::new(status, cause) }
    }
}

/// The driver's own error; `None` where something is missing.
fn of_driver(source: Option<&(dyn std::error::Error + Send + Sync + 'static)>) -> Option<CudaError> {
    source.and_then(|source| source.downcast_ref()).copied()
}

fn of_misuse(misuse: Misuse) -> Status {
    match misuse {
        Misuse::Pack => Status::CUDNN_STATUS_BAD_PARAM,
        Misuse::NullPointer => Status::CUDNN_STATUS_BAD_PARAM_NULL_POINTER,
        Misuse::Alignment => Status::CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER,
        Misuse::Workspace => Status::CUDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT,
        Misuse::Stream => Status::CUDNN_STATUS_BAD_PARAM_STREAM_MISMATCH,
        Misuse::CudaGraph => Status::CUDNN_STATUS_BAD_PARAM_CUDA_GRAPH_MISMATCH,
        Misuse::Peers => Status::CUDNN_STATUS_EXECUTION_FAILED,
    }
}

fn with_causes(error: &Error) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}

thread_local! {
    static LAST: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Keeps a failure's text for this thread; gives its status.
pub(super) fn remember(function: &str, failure: Failure) -> Status {
    let Failure { status, message, .. } = failure;
    // a thread that ends keeps nothing any more
    let _ = LAST.try_with(|last| *last.borrow_mut() = format!("{function}: {status:?}; Reason: {message}"));
    status
}

/// The text of this thread's latest failure, which is forgotten with that (LG-16).
pub(super) fn take_last() -> String {
    LAST.try_with(|last| std::mem::take(&mut *last.borrow_mut())).unwrap_or_default()
}

/// The status of a number.
pub(super) fn status_of(number: u32) -> Option<Status> {
    STATUSES.iter().copied().find(|status| *status as u32 == number)
}

/// Every status.
pub(super) const STATUSES: &[Status] = &[
    Status::CUDNN_STATUS_SUCCESS,
    Status::CUDNN_STATUS_NOT_INITIALIZED,
    Status::CUDNN_STATUS_SUBLIBRARY_VERSION_MISMATCH,
    Status::CUDNN_STATUS_SERIALIZATION_VERSION_MISMATCH,
    Status::CUDNN_STATUS_DEPRECATED,
    Status::CUDNN_STATUS_LICENSE_ERROR,
    Status::CUDNN_STATUS_RUNTIME_IN_PROGRESS,
    Status::CUDNN_STATUS_RUNTIME_FP_OVERFLOW,
    Status::CUDNN_STATUS_SUBLIBRARY_LOADING_FAILED,
    Status::CUDNN_STATUS_BAD_PARAM,
    Status::CUDNN_STATUS_INVALID_VALUE,
    Status::CUDNN_STATUS_BAD_PARAM_NULL_POINTER,
    Status::CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER,
    Status::CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED,
    Status::CUDNN_STATUS_BAD_PARAM_OUT_OF_BOUND,
    Status::CUDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT,
    Status::CUDNN_STATUS_BAD_PARAM_STREAM_MISMATCH,
    Status::CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH,
    Status::CUDNN_STATUS_BAD_PARAM_DUPLICATED_ENTRIES,
    Status::CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE,
    Status::CUDNN_STATUS_BAD_PARAM_CUDA_GRAPH_MISMATCH,
    Status::CUDNN_STATUS_BAD_PARAM_DESCRIPTOR_TYPE,
    Status::CUDNN_STATUS_NOT_SUPPORTED,
    Status::CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN,
    Status::CUDNN_STATUS_NOT_SUPPORTED_SHAPE,
    Status::CUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE,
    Status::CUDNN_STATUS_NOT_SUPPORTED_LAYOUT,
    Status::CUDNN_STATUS_NOT_SUPPORTED_INCOMPATIBLE_CUDA_DRIVER,
    Status::CUDNN_STATUS_NOT_SUPPORTED_INCOMPATIBLE_CUDART,
    Status::CUDNN_STATUS_NOT_SUPPORTED_ARCH_MISMATCH,
    Status::CUDNN_STATUS_NOT_SUPPORTED_RUNTIME_PREREQUISITE_MISSING,
    Status::CUDNN_STATUS_NOT_SUPPORTED_SUBLIBRARY_UNAVAILABLE,
    Status::CUDNN_STATUS_NOT_SUPPORTED_SHARED_MEMORY_INSUFFICIENT,
    Status::CUDNN_STATUS_NOT_SUPPORTED_PADDING,
    Status::CUDNN_STATUS_NOT_SUPPORTED_BAD_LAUNCH_PARAM,
    Status::CUDNN_STATUS_NOT_SUPPORTED_CUDA_GRAPH_NATIVE_API,
    Status::CUDNN_STATUS_NOT_SUPPORTED_INVALID_DYNAMIC_SHAPE,
    Status::CUDNN_STATUS_INTERNAL_ERROR,
    Status::CUDNN_STATUS_INTERNAL_ERROR_COMPILATION_FAILED,
    Status::CUDNN_STATUS_INTERNAL_ERROR_UNEXPECTED_VALUE,
    Status::CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED,
    Status::CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED,
    Status::CUDNN_STATUS_INTERNAL_ERROR_BAD_LAUNCH_PARAM,
    Status::CUDNN_STATUS_INTERNAL_ERROR_TEXTURE_CREATION_FAILED,
    Status::CUDNN_STATUS_EXECUTION_FAILED,
    Status::CUDNN_STATUS_EXECUTION_FAILED_CUDA_DRIVER,
    Status::CUDNN_STATUS_EXECUTION_FAILED_CUBLAS,
    Status::CUDNN_STATUS_EXECUTION_FAILED_CUDART,
    Status::CUDNN_STATUS_EXECUTION_FAILED_CURAND,
];

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::device::ComputeCapability;
    use crate::engine;
    use crate::graph::{DataType, FinalizedGraph, Graph, PointwiseMode, Tensor};
    use crate::support::{Remedy, Report};

    static SEARCHES: AtomicUsize = AtomicUsize::new(0);

    fn counted(graph: &Arc<FinalizedGraph>, report: &Report) -> Remedy {
        SEARCHES.fetch_add(1, Ordering::Relaxed);
        engine::remedy(graph, report)
    }

    #[test]
    fn what_would_help_is_looked_for_only_where_it_is_told() {
        let mut graph = Graph::new().io_data_type(DataType::Int4).compute_data_type(DataType::Float);
        let x = graph.tensor(Tensor::new("x").row_major([2, 3, 4]));
        let y = graph.pointwise("relu", PointwiseMode::ReluFwd, &[x]);
        graph.set_output(y);
        let graph = Arc::new(graph.finalize().expect("well formed"));
        let refused = engine::select(&graph, ComputeCapability::SM_90).expect_err("no surface has INT4");
        let Some(NotSupported::Graph { graph, report, engines, .. }) = Arc::into_inner(refused) else {
            panic!("the graph is refused")
        };
        let failure = Failure::refused(Arc::new(NotSupported::Graph { graph, report, engines, remedy: counted }));
        assert_eq!(SEARCHES.load(Ordering::Relaxed), 0);
        let told = failure.traceback("cudnnBackendFinalize");
        assert!(told.iter().any(|line| line.starts_with("to run here")), "{told:?}");
        assert_eq!(SEARCHES.load(Ordering::Relaxed), 1);
    }
}
