//! Tensors that callers give: whatever exports DLPack, or has `__cuda_array_interface__`.

use std::ffi::CStr;

use fusewright::graph::{DataType, FinalTensor};
use fusewright::host_tensor::HostTensor;
use pyo3::exceptions::{PyBufferError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict};

use crate::cuda_array::{CudaArray, row_major};
use crate::dlpack::{CPU, CUDA, CUDA_HOST, CUDA_MANAGED, ElementType, Managed, ManagedVersioned, View};
use crate::errors::{exception, execution_error};
use crate::exchange;

const PLAIN: &CStr = c"dltensor";
const VERSIONED: &CStr = c"dltensor_versioned";

/// Memory of another library, which stays valid while its owner lives.
pub(crate) struct Tensor<'py> {
    /// A capsule, or the object itself.
    _owner: Bound<'py, PyAny>,
    /// 0 of tensors that stand for others, whose elements lie nowhere.
    address: usize,
    device: (i32, i32),
    element: ElementType,
    dim: Vec<i64>,
    stride: Vec<i64>,
    /// The stream whose work writes the memory, where the caller has to wait for it.
    written_on: Option<u64>,
}

impl<'py> Tensor<'py> {
    /// Asks an object for its memory; on a GPU, as work on `stream` may use it.
    pub(crate) fn of(object: &Bound<'py, PyAny>, stream: Option<u64>) -> PyResult<Self> {
        require_own_values(object)?;
        if let Some(view) = exchange::view(object, stream)? {
            return Ok(Self::of_view(object.clone(), &view));
        }
        if object.hasattr("__dlpack__")? {
            return Self::of_capsule(capsule(object, stream)?);
        }
        match object.getattr_opt("__cuda_array_interface__")? {
            Some(interface) => Ok(Self::of_cuda_array(object.clone(), CudaArray::of(&interface)?, stream)),
            None => {
                let (required, found) =
                    ("a tensor that exports DLPack or has __cuda_array_interface__", object.get_type());
                Err(PyTypeError::new_err(format!("required: {required}; found: {}", found.name()?)))
            }
        }
    }

    /// Memory of a GPU: of which one its address says, to the driver.
    fn of_cuda_array(owner: Bound<'py, PyAny>, array: CudaArray, stream: Option<u64>) -> Self {
        let CudaArray { address, element, dim, stride, stream: written_on } = array;
        let written_on = written_on.filter(|&written_on| Some(written_on) != stream);
        Self { _owner: owner, address, device: (CUDA_MANAGED, 0), element, dim, stride, written_on }
    }

    fn of_view(owner: Bound<'py, PyAny>, view: &View) -> Self {
        let address = if view.data.is_null() { 0 } else { view.data.addr() + view.byte_offset as usize };
        let device = (view.device.kind, view.device.id);
        let (dim, stride) = layout(view);
        Self { _owner: owner, address, device, element: view.element, dim, stride, written_on: None }
    }

    /// The stream whose work has to be done before the memory is read.
    pub(crate) fn written_on(&self) -> Option<u64> {
        self.written_on
    }

    fn of_capsule(capsule: Bound<'py, PyCapsule>) -> PyResult<Self> {
        let py = capsule.py();
        let view = if let Ok(managed) = capsule.pointer_checked(Some(VERSIONED)) {
            // SAFETY: a capsule of this name holds this structure, whole while it lives.
            let managed = unsafe { managed.cast::<ManagedVersioned>().as_ref() };
            if managed.major != 1 {
                return Err(execution_error(
                    py,
                    format!("DLPack {}.{} of a tensor; required: 1", managed.major, managed.minor),
                ));
            }
            &managed.view
        } else {
            let managed = capsule.pointer_checked(Some(PLAIN))?;
            // SAFETY: as above.
            &unsafe { managed.cast::<Managed>().as_ref() }.view
        };
        Ok(Self::of_view(capsule.clone().into_any(), view))
    }

    /// That type and extents are those of a graph's tensor, and that its elements lie in memory.
    fn require(&self, py: Python<'_>, label: &str, tensor: &FinalTensor) -> PyResult<()> {
        let found = self.element.data_type();
        if found != Some(tensor.data_type) {
            let found = found.map_or_else(|| format!("{:?}", self.element), |known| known.to_string());
            return Err(execution_error(py, format!("{label}: found {found}; required: {}", tensor.data_type)));
        }
        if self.dim != tensor.dim {
            return Err(execution_error(
                py,
                format!("{label}: found shape {:?}; required: {:?}", self.dim, tensor.dim),
            ));
        }
        if self.address == 0 {
            let why = "as fake tensors and those that wrap others have none";
            return Err(execution_error(
                py,
                format!("{label}: found a tensor without memory, {why}; required: its elements"),
            ));
        }
        Ok(())
    }

    /// A copy in host memory, as a graph's tensor lies.
    pub(crate) fn to_host(&self, py: Python<'_>, label: &str, tensor: &FinalTensor) -> PyResult<HostTensor> {
        self.require(py, label, tensor)?;
        if ![CPU, CUDA_HOST].contains(&self.device.0) {
            return Err(execution_error(py, format!("{label}: lies on a device; required: memory of the CPU")));
        }
        let bytes = self.row_major_bytes();
        let copied = HostTensor::from_row_major_bytes(tensor.data_type, &tensor.dim, &tensor.stride, &bytes);
        copied.map_err(|error| exception(py, &error))
    }

    /// The elements' bytes, the last axis innermost.
    fn row_major_bytes(&self) -> Vec<u8> {
        let size = self.element.bytes();
        let count: i64 = self.dim.iter().product();
        let mut bytes = Vec::with_capacity(count.max(0) as usize * size);
        let mut index = vec![0_i64; self.dim.len()];
        for _ in 0..count.max(0) {
            let offset: i64 = index.iter().zip(&self.stride).map(|(i, stride)| i * stride).sum();
            let address = self.address.wrapping_add_signed(offset as isize * size as isize);
            // SAFETY: an element of the view, whose memory the owner keeps.
            bytes.extend_from_slice(unsafe {
                std::slice::from_raw_parts(std::ptr::with_exposed_provenance(address), size)
            });
            for axis in (0..index.len()).rev() {
                index[axis] += 1;
                if index[axis] < self.dim[axis] {
                    break;
                }
                index[axis] = 0;
            }
        }
        bytes
    }

    /// The address in memory of a GPU, where the tensor lies as a graph's does.
    pub(crate) fn address_on(&self, py: Python<'_>, label: &str, tensor: &FinalTensor, ordinal: i32) -> PyResult<u64> {
        self.require(py, label, tensor)?;
        if tensor.data_type == DataType::Boolean {
            return Err(execution_error(
                py,
                format!("{label}: booleans of graphs are bits on a GPU; frameworks have bytes"),
            ));
        }
        let is_there = self.device == (CUDA, ordinal) || self.device.0 == CUDA_MANAGED;
        if !is_there {
            return Err(execution_error(py, format!("{label}: lies elsewhere; required: memory of cuda:{ordinal}")));
        }
        let lies_so = (0..self.dim.len()).all(|axis| self.dim[axis] == 1 || self.stride[axis] == tensor.stride[axis]);
        match lies_so {
            true => Ok(self.address as u64),
            false => Err(execution_error(
                py,
                format!("{label}: found strides {:?}; required: {:?}", self.stride, tensor.stride),
            )),
        }
    }
}

/// That a tensor's values are those in its memory: PyTorch has some that are negated when they are read, and exports them as they lie.
fn require_own_values(object: &Bound<'_, PyAny>) -> PyResult<()> {
    let is_negated = match object.getattr_opt("is_neg")? {
        Some(is_negated) => is_negated.call0()?.is_truthy()?,
        None => false,
    };
    match is_negated {
        true => Err(PyBufferError::new_err(
            "found a tensor whose values are negated when they are read; required: resolve_neg() of it",
        )),
        false => Ok(()),
    }
}

/// What `__dlpack__` gives, of the newest version that the object knows.
fn capsule<'py>(object: &Bound<'py, PyAny>, stream: Option<u64>) -> PyResult<Bound<'py, PyCapsule>> {
    let py = object.py();
    let keywords = PyDict::new(py);
    if let Some(stream) = stream {
        // the legacy default stream has a number of its own
        keywords.set_item("stream", if stream == 0 { 1 } else { stream })?;
    }
    let plain = || object.call_method("__dlpack__", (), Some(&keywords));
    let with_version = || {
        let keywords = keywords.copy()?;
        keywords.set_item("max_version", (1, 1))?;
        object.call_method("__dlpack__", (), Some(&keywords))
    };
    let capsule = match with_version() {
        Err(error) if error.is_instance_of::<PyTypeError>(py) => plain(),
        given => given,
    }?;
    Ok(capsule.cast_into::<PyCapsule>()?)
}

/// Extents and strides of a view, strides in elements; none given means that the last axis is innermost.
fn layout(view: &View) -> (Vec<i64>, Vec<i64>) {
    let rank = usize::try_from(view.ndim).unwrap_or(0);
    let copied = |from: *const i64| match rank {
        0 => Vec::new(),
        // SAFETY: of as many extents as the view has axes.
        _ => unsafe { std::slice::from_raw_parts(from, rank) }.to_vec(),
    };
    let dim = copied(view.shape);
    if !view.strides.is_null() {
        return (dim, copied(view.strides));
    }
    let stride = row_major(&dim);
    (dim, stride)
}
