//! Tensors that callers give: whatever exports DLPack.

use std::ffi::CStr;

use fusewright::graph::{DataType, FinalTensor};
use fusewright::host_tensor::HostTensor;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict};

use crate::dlpack::{CPU, CUDA, CUDA_HOST, CUDA_MANAGED, ElementType, Managed, ManagedVersioned, View};
use crate::errors::{exception, execution_error};

const PLAIN: &CStr = c"dltensor";
const VERSIONED: &CStr = c"dltensor_versioned";

/// Memory of another library, which stays valid while its capsule lives.
pub(crate) struct Tensor<'py> {
    _capsule: Bound<'py, PyCapsule>,
    address: usize,
    device: (i32, i32),
    element: ElementType,
    dim: Vec<i64>,
    stride: Vec<i64>,
}

impl<'py> Tensor<'py> {
    /// Asks an object for its memory; on a GPU, as work on `stream` may use it.
    pub(crate) fn of(object: &Bound<'py, PyAny>, stream: Option<u64>) -> PyResult<Self> {
        let py = object.py();
        if !object.hasattr("__dlpack__")? {
            let found = object.get_type().name()?;
            return Err(PyTypeError::new_err(format!("required: a tensor that exports DLPack; found: {found}")));
        }
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
        let capsule = capsule.cast_into::<PyCapsule>()?;
        Self::of_capsule(capsule)
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
        let (address, device, element) = (view.data.addr() + view.byte_offset as usize, view.device, view.element);
        let (dim, stride) = layout(view);
        Ok(Self { _capsule: capsule, address, device: (device.kind, device.id), element, dim, stride })
    }

    /// That type and extents are those of a graph's tensor.
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
            // SAFETY: an element of the view, whose memory the capsule keeps.
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
    let mut stride = vec![1; rank];
    for axis in (1..rank).rev() {
        stride[axis - 1] = stride[axis] * dim[axis];
    }
    (dim, stride)
}
