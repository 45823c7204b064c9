//! Calls of the ABI: caught where they panic, remembered where they fail, and logged.

use std::ffi::c_void;
use std::fmt::{Debug, Write as _};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

use cudarc::cudnn::sys::cudnnStatus_t as Status;

use super::failure::{self, Failure, Result};
use super::{attributes, gate, handle};
use crate::logging;

/// Names of the ABI's types, as logs have them.
pub(super) const HANDLE: &str = "cudnnHandle_t";
pub(super) const DESCRIPTOR: &str = "cudnnBackendDescriptor_t";

/// A parameter: its name, its type and its value.
type Parameter<'a> = (&'static str, &'static str, &'a dyn Debug);

/// One call.
pub(super) struct Call<'a> {
    function: &'static str,
    /// Null where the function takes none.
    handle: *mut c_void,
    parameters: &'a [Parameter<'a>],
}

impl<'a> Call<'a> {
    pub(super) fn new(function: &'static str, parameters: &'a [Parameter<'a>]) -> Self {
        Self { function, handle: std::ptr::null_mut(), parameters }
    }

    pub(super) fn with(self, handle: *mut c_void) -> Self {
        Self { handle, ..self }
    }

    /// The status of what the function does; no panic leaves the library.
    pub(super) fn run(&self, body: impl FnOnce() -> Result<()>) -> Status {
        let _inside = gate::enter();
        let run = AssertUnwindSafe(|| self.run_and_log(body));
        catch_unwind(run).unwrap_or(Status::CUDNN_STATUS_INTERNAL_ERROR_UNEXPECTED_VALUE)
    }

    fn run_and_log(&self, body: impl FnOnce() -> Result<()>) -> Status {
        static LOGGING: Once = Once::new();
        LOGGING.call_once(logging::install);
        let outcome = catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|_| {
            let message = "a defect of this library: it panicked";
            Err(Failure::new(Status::CUDNN_STATUS_INTERNAL_ERROR_UNEXPECTED_VALUE, message))
        });
        if tracing::enabled!(tracing::Level::INFO) {
            self.log();
        }
        match outcome {
            Ok(()) => Status::CUDNN_STATUS_SUCCESS,
            Err(failure) => {
                self.log_failure(&failure);
                failure::remember(self.function, failure)
            }
        }
    }

    fn log(&self) {
        let mut details = String::new();
        for (name, of_type, value) in self.parameters {
            // writing to a string cannot fail
            let _ = writeln!(details, "{name}: type={of_type}; val={value:?};");
        }
        let (function, handle, stream) = (self.function, self.handle.addr() as u64, self.stream());
        tracing::info!(function, handle, stream, details);
    }

    /// The traceback, the root cause first.
    fn log_failure(&self, failure: &Failure) {
        let is_asked_for = match failure.is_refusal() {
            true => tracing::enabled!(tracing::Level::WARN),
            false => tracing::enabled!(tracing::Level::ERROR),
        };
        if !is_asked_for {
            return;
        }
        let traceback: Vec<String> = failure.traceback(self.function).iter().map(|line| one_line(line)).collect();
        let details = traceback.join("\n");
        let (function, handle, stream) = (self.function, self.handle.addr() as u64, self.stream());
        let (status, status_number) = (failure.status, failure.status as u64);
        match failure.is_refusal() {
            true => tracing::warn!(function, ?status, status_number, handle, stream, details),
            false => tracing::error!(function, ?status, status_number, handle, stream, details),
        }
    }

    fn stream(&self) -> u64 {
        handle::find(self.handle).map_or(0, |handle| handle.raw_stream().addr() as u64)
    }
}

fn one_line(text: &str) -> String {
    text.split('\n').map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join(" | ")
}

/// An attribute's number, in logs by its name.
pub(super) struct AttributeName(pub(super) u32);

impl Debug for AttributeName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match attributes::of_name(self.0) {
            Some(attribute) => write!(f, "{:?} ({})", attribute.name, self.0),
            None => write!(f, "{}", self.0),
        }
    }
}

/// The number of a type of elements, in logs by its name.
pub(super) struct TypeName(pub(super) u32);

impl Debug for TypeName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match attributes::type_of(self.0) {
            Some(kind) => write!(f, "{kind:?} ({})", self.0),
            None => write!(f, "{}", self.0),
        }
    }
}

/// The number of a type of descriptors, in logs by its name.
pub(super) struct KindName(pub(super) u32);

impl Debug for KindName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match attributes::of_kind(self.0) {
            Some((kind, _)) => write!(f, "{kind:?} ({})", self.0),
            None => write!(f, "{}", self.0),
        }
    }
}
