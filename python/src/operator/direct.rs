//! Executions that Inductor's code asks for past the dispatcher, into a tensor that it has allocated.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use super::execution::Execution;
use super::shim::Shim;
use super::values::Device;
use crate::dlpack::{CUDA, View};
use crate::errors::execution_error;
use crate::exchange;

/// What code calls with tensors, a graph's text, a session's name and `out`. It executes at once what lies on a GPU as the graph says; all else is
/// left to another callable with the same arguments.
#[pyclass(frozen)]
pub(crate) struct DirectKernel {
    otherwise: Py<PyAny>,
    /// By the addresses of texts, which are constants of code, and the GPU.
    known: Mutex<HashMap<(usize, i32), Known>>,
}

struct Known {
    /// Held, so that no other text has its address.
    _text: Py<PyAny>,
    session: String,
    execution: Arc<Execution>,
}

#[pymethods]
impl DirectKernel {
    #[new]
    fn new(otherwise: Py<PyAny>) -> Self {
        Self { otherwise, known: Mutex::default() }
    }

    #[pyo3(signature = (*arguments, out))]
    fn __call__(&self, py: Python<'_>, arguments: &Bound<'_, PyTuple>, out: &Bound<'_, PyAny>) -> PyResult<()> {
        if self.launched(py, arguments, out)? {
            return Ok(());
        }
        let keywords = PyDict::new(py);
        keywords.set_item("out", out)?;
        self.otherwise.call(py, arguments, Some(&keywords)).map(drop)
    }
}

impl DirectKernel {
    /// Executes; false where the other callable has to.
    fn launched(&self, py: Python<'_>, arguments: &Bound<'_, PyTuple>, out: &Bound<'_, PyAny>) -> PyResult<bool> {
        let (Ok(shim), Some(tensors)) = (Shim::get(), arguments.len().checked_sub(2)) else { return Ok(false) };
        let Some(output) = exchange::memory(out)?.filter(|view| view.device.kind == CUDA) else { return Ok(false) };
        let (text, session) = (arguments.get_item(tensors)?, arguments.get_item(tensors + 1)?);
        let device = Device { kind: shim.cuda, index: output.device.id };
        let execution = self.execution(py, shim, &text, session.extract()?, device)?;
        let mut inputs = Vec::with_capacity(tensors);
        for number in 0..tensors {
            // what is viewed is held by the arguments
            let Some(view) = exchange::memory(&arguments.get_item(number)?)? else { return Ok(false) };
            inputs.push(view);
        }
        let Some(launch) = execution.launch(&inputs, &[output]) else { return Ok(false) };
        py.detach(|| launch.run(shim)).map_err(|message| execution_error(py, message))?;
        Ok(true)
    }

    fn execution(
        &self,
        py: Python<'_>,
        shim: &'static Shim,
        text: &Bound<'_, PyAny>,
        session: &str,
        device: Device,
    ) -> PyResult<Arc<Execution>> {
        let place = (text.as_ptr().addr(), device.index);
        let found =
            self.known.lock().unwrap_or_else(PoisonError::into_inner).get(&place).and_then(|known| known.of(session));
        if let Some(execution) = found {
            return Ok(execution);
        }
        let bytes: String = text.extract()?;
        // without the lock: it may compile
        let made = py.detach(|| Execution::of(shim, bytes.as_bytes(), session.as_bytes(), device));
        let execution = made.map_err(|message| execution_error(py, message))?;
        let known =
            Known { _text: text.clone().unbind(), session: session.to_owned(), execution: Arc::clone(&execution) };
        self.known.lock().unwrap_or_else(PoisonError::into_inner).insert(place, known);
        Ok(execution)
    }
}

impl Known {
    fn of(&self, session: &str) -> Option<Arc<Execution>> {
        (self.session == session).then(|| Arc::clone(&self.execution))
    }
}

impl View {
    /// Extents and strides, where both are told.
    pub(super) fn layout(&self) -> Option<(&[i64], &[i64])> {
        match usize::try_from(self.ndim).ok()? {
            0 => Some((&[], &[])),
            _ if self.shape.is_null() || self.strides.is_null() => None,
            // SAFETY: of as many axes as the view has, while the tensor lives and nobody resizes it.
            rank => Some(unsafe {
                (std::slice::from_raw_parts(self.shape, rank), std::slice::from_raw_parts(self.strides, rank))
            }),
        }
    }
}
