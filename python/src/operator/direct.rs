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

/// What code calls with tensors, a graph's text, a session's name and, where the graph has one result, `out`. It executes at once what lies on a GPU
/// as the graph says, in new tensors without `out`; all else is left to another callable with the same arguments.
#[pyclass(frozen)]
pub(crate) struct DirectKernel {
    otherwise: Py<PyAny>,
    /// Gives new tensors for the results of a text, on the current GPU.
    allocate: Py<PyAny>,
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
    fn new(otherwise: Py<PyAny>, allocate: Py<PyAny>) -> Self {
        Self { otherwise, allocate, known: Mutex::default() }
    }

    #[pyo3(signature = (*arguments, out = None))]
    fn __call__<'py>(
        &self,
        py: Python<'py>,
        arguments: &Bound<'py, PyTuple>,
        out: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        if let Some(results) = self.launched(py, arguments, out.as_ref())? {
            return Ok(results);
        }
        let keywords = PyDict::new(py);
        keywords.set_item("out", out)?;
        self.otherwise.bind(py).call(arguments, Some(&keywords))
    }
}

impl DirectKernel {
    /// Executes, and gives the results; `None` where the other callable has to.
    fn launched<'py>(
        &self,
        py: Python<'py>,
        arguments: &Bound<'py, PyTuple>,
        out: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let (Ok(shim), Some(tensors)) = (Shim::get(), arguments.len().checked_sub(2)) else { return Ok(None) };
        let mut inputs = Vec::with_capacity(tensors);
        for number in 0..tensors {
            // what is viewed is held by the arguments
            let Some(view) = exchange::memory(&arguments.get_item(number)?)? else { return Ok(None) };
            inputs.push(view);
        }
        let Some(index) = inputs.first().filter(|view| view.device.kind == CUDA).map(|view| view.device.id) else {
            return Ok(None);
        };
        let (text, session) = (arguments.get_item(tensors)?, arguments.get_item(tensors + 1)?);
        let device = Device { kind: shim.cuda, index };
        let execution = self.execution(py, shim, &text, session.extract()?, device)?;
        let results = match out {
            Some(out) => PyTuple::new(py, [out])?,
            None => self.allocate.bind(py).call1((&text,))?.cast_into::<PyTuple>()?,
        };
        let mut outputs = Vec::with_capacity(results.len());
        for result in &results {
            // held by the tuple
            let Some(view) = exchange::memory(&result)? else { return Ok(None) };
            outputs.push(view);
        }
        let Some(launch) = execution.launch(&inputs, &outputs) else { return Ok(None) };
        py.detach(|| launch.run(shim)).map_err(|message| execution_error(py, message))?;
        Ok(Some(results.into_any()))
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
