//! Outputs of executions.

use std::ffi::c_void;
use std::sync::Arc;
use std::time::Duration;

use fusewright::error::Error;
use fusewright::graph::{DataType, FinalTensor};
use fusewright::host_tensor::HostTensor;
use fusewright::plan::{DeviceBuffer, Stream};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::dlpack::{CPU, CUDA, Device, ElementType, Managed, View};
use crate::errors::{detached, execution_error};

/// How long a consumer on another stream waits for what an output is computed by.
pub(crate) const LIMIT: Duration = Duration::from_secs(600);

/// Memory of an output; of a GPU, with the stream that writes it and the workspace that is used meanwhile.
pub(crate) enum Memory {
    Host(Vec<u8>),
    Gpu { buffer: DeviceBuffer, ordinal: i32, stream: Stream, _workspace: Option<Arc<DeviceBuffer>> },
}

/// An output of an execution; NumPy, PyTorch and others take it by `from_dlpack` without a copy.
#[pyclass(frozen, module = "fusewright")]
pub(crate) struct Array {
    memory: Arc<Memory>,
    #[pyo3(get)]
    shape: Vec<i64>,
    #[pyo3(get)]
    strides: Vec<i64>,
    data_type: DataType,
}

impl Array {
    /// An output in host memory; booleans take a byte each, the last axis innermost.
    pub(crate) fn of_host(tensor: HostTensor) -> Result<Self, Error> {
        let HostTensor { data_type, ref dim, ref stride, .. } = tensor;
        let (shape, mut strides) = (dim.clone(), stride.clone());
        let bytes = if data_type == DataType::Boolean {
            let mut step = 1;
            for axis in (0..shape.len()).rev() {
                strides[axis] = step;
                step *= shape[axis];
            }
            tensor.to_row_major_bytes()?
        } else {
            tensor.bytes
        };
        Ok(Self { memory: Arc::new(Memory::Host(bytes)), shape, strides, data_type })
    }

    /// An output on a GPU, as a graph's tensor lies.
    pub(crate) fn of_gpu(memory: Memory, tensor: &FinalTensor) -> Self {
        let (shape, strides) = (tensor.dim.clone(), tensor.stride.clone());
        Self { memory: Arc::new(memory), shape, strides, data_type: tensor.data_type }
    }

    fn place(&self) -> (Device, *mut c_void) {
        match &*self.memory {
            Memory::Host(bytes) => (Device { kind: CPU, id: 0 }, bytes.as_ptr().cast_mut().cast()),
            Memory::Gpu { buffer, ordinal, .. } => {
                let address = usize::try_from(buffer.pointer().address()).unwrap_or(0);
                (Device { kind: CUDA, id: *ordinal }, std::ptr::without_provenance_mut(address))
            }
        }
    }
}

#[pymethods]
impl Array {
    #[getter]
    fn data_type(&self) -> String {
        self.data_type.to_string()
    }

    fn __dlpack_device__(&self) -> (i32, i32) {
        let (device, _) = self.place();
        (device.kind, device.id)
    }

    /// A capsule of the memory. A consumer on another stream than the one that writes it waits here until it is written.
    #[pyo3(signature = (**keywords))]
    fn __dlpack__(&self, py: Python<'_>, keywords: Option<&Bound<'_, PyDict>>) -> PyResult<Py<PyAny>> {
        let consumer = keywords.map(|given| given.get_item("stream")).transpose()?.flatten();
        let consumer = consumer.and_then(|stream| stream.extract::<u64>().ok());
        if let Memory::Gpu { stream, .. } = &*self.memory {
            let own = stream.as_raw().addr() as u64;
            let is_own = consumer.is_some_and(|given| given == own || (given == 1 && own == 0));
            if !is_own {
                detached(py, || stream.wait(LIMIT))?;
            }
        }
        let Some(element) = ElementType::of(self.data_type) else {
            return Err(execution_error(py, format!("{} has no form in DLPack", self.data_type)));
        };
        Export::capsule(py, self, element)
    }

    fn __repr__(&self) -> String {
        format!("<Array {} {:?} with strides {:?}>", self.data_type, self.shape, self.strides)
    }
}

/// What a capsule keeps alive: memory, extents, strides.
struct Export {
    _memory: Arc<Memory>,
    shape: Vec<i64>,
    strides: Vec<i64>,
}

impl Export {
    fn capsule(py: Python<'_>, array: &Array, element: ElementType) -> PyResult<Py<PyAny>> {
        let (device, data) = array.place();
        let mut export = Box::new(Self {
            _memory: Arc::clone(&array.memory),
            shape: array.shape.clone(),
            strides: array.strides.clone(),
        });
        let (shape, strides) = (export.shape.as_mut_ptr(), export.strides.as_mut_ptr());
        let ndim = array.shape.len() as i32;
        let view = View { data, device, ndim, element, shape, strides, byte_offset: 0 };
        let manager = Box::into_raw(export).cast();
        let managed = Box::into_raw(Box::new(Managed { view, manager, deleter: Some(release) }));
        // SAFETY: the name lives for ever; the destructor takes a capsule that nobody consumed.
        let capsule = unsafe { ffi::PyCapsule_New(managed.cast(), c"dltensor".as_ptr(), Some(drop_unused)) };
        if capsule.is_null() {
            // SAFETY: nobody else has it.
            unsafe { release(managed) };
            return Err(PyErr::fetch(py));
        }
        // SAFETY: a new reference, not null.
        Ok(unsafe { Bound::from_owned_ptr(py, capsule) }.unbind())
    }
}

/// Frees what a capsule was made of.
unsafe extern "C" fn release(managed: *mut Managed) {
    // SAFETY: made by `Export::capsule`, and released once, by a consumer or by the capsule.
    let managed = unsafe { Box::from_raw(managed) };
    // SAFETY: as above.
    drop(unsafe { Box::from_raw(managed.manager.cast::<Export>()) });
}

/// Releases a capsule that was not consumed; a consumer gives it another name.
unsafe extern "C" fn drop_unused(capsule: *mut ffi::PyObject) {
    // SAFETY: called by Python with the capsule that ends.
    if unsafe { ffi::PyCapsule_IsValid(capsule, c"dltensor".as_ptr()) } == 1 {
        // SAFETY: it holds what `Export::capsule` put there.
        unsafe { release(ffi::PyCapsule_GetPointer(capsule, c"dltensor".as_ptr()).cast()) }
    }
}
