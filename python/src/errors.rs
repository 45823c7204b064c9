//! Errors of the library as the exceptions of `fusewright._errors`.

use std::panic::{AssertUnwindSafe, catch_unwind};

use fusewright::error::{Error, NotSupported};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::verdict::Violation;

/// Does what may take long without the interpreter's lock. A panic becomes an exception like any other.
pub(crate) fn detached<T: Send>(py: Python<'_>, work: impl FnOnce() -> Result<T, Error> + Send) -> PyResult<T> {
    let panicked =
        || Error::Generated { message: "the library panicked".to_owned(), log: String::new(), source_path: None };
    let done = py.detach(|| catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| Err(panicked())));
    done.map_err(|error| exception(py, &error))
}

/// An execution that is asked for wrongly.
pub(crate) fn execution_error(py: Python<'_>, message: impl Into<String>) -> PyErr {
    raise(py, "ExecutionError", message.into(), |_| Ok(()))
}

/// An argument that cannot be used.
pub(crate) fn input_error(py: Python<'_>, message: impl Into<String>) -> PyErr {
    raise(py, "InputError", message.into(), |_| Ok(()))
}

/// The exception of an error, with all that is known of it as attributes.
pub(crate) fn exception(py: Python<'_>, error: &Error) -> PyErr {
    let message = with_causes(error);
    match error {
        Error::Malformed(_) | Error::Input { .. } => raise(py, "MalformedGraph", message, |_| Ok(())),
        Error::NotSupported(cause) => not_supported(py, message, cause),
        Error::Execution { .. } => raise(py, "ExecutionError", message, |_| Ok(())),
        Error::Generated { log, source_path, .. } => raise(py, "GeneratedCodeError", message, |attributes| {
            attributes.set_item("log", log)?;
            attributes.set_item("source_path", source_path.as_deref().map(|path| path.display().to_string()))
        }),
        Error::Environment { .. } => raise(py, "EnvironmentFailure", message, |_| Ok(())),
        _ => raise(py, "GeneratedCodeError", message, |_| Ok(())),
    }
}

fn not_supported(py: Python<'_>, message: String, cause: &NotSupported) -> PyErr {
    let violations = cause.report().into_iter().flat_map(|report| report.violations()).map(Violation::from);
    let violations: Vec<Violation> = violations.collect();
    let nearest = cause.remedy().lines();
    raise(py, "NotSupported", message, |attributes| {
        attributes.set_item("violations", violations)?;
        attributes.set_item("nearest", nearest)
    })
}

/// The error's text, and those of what led to it.
pub(crate) fn with_causes(error: &Error) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(inner) = cause {
        text.push_str(&format!(": {inner}"));
        cause = inner.source();
    }
    text
}

/// An exception of this class, made with these attributes.
fn raise(py: Python<'_>, class: &str, message: String, fill: impl FnOnce(&Bound<'_, PyDict>) -> PyResult<()>) -> PyErr {
    let made = || {
        let attributes = PyDict::new(py);
        fill(&attributes)?;
        let class = py.import("fusewright._errors")?.getattr(class)?;
        class.call((message,), Some(&attributes))
    };
    match made() {
        Ok(exception) => PyErr::from_value(exception),
        Err(error) => error,
    }
}
