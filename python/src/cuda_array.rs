//! Numba's CUDA Array Interface (version 3): arrays on a GPU that do not know DLPack.

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::dlpack::ElementType;

/// What `__cuda_array_interface__` says.
pub(crate) struct CudaArray {
    pub(crate) address: usize,
    pub(crate) element: ElementType,
    pub(crate) dim: Vec<i64>,
    /// In elements.
    pub(crate) stride: Vec<i64>,
    /// The stream whose work must be done before the memory is read.
    pub(crate) stream: Option<u64>,
}

impl CudaArray {
    pub(crate) fn of(interface: &Bound<'_, PyAny>) -> PyResult<Self> {
        let interface = interface.cast::<PyDict>()?;
        let entry = |name: &str| interface.get_item(name).map(|found| found.filter(|value| !value.is_none()));
        let required = |name: &str| {
            entry(name)?.ok_or_else(|| PyTypeError::new_err(format!("__cuda_array_interface__ without {name:?}")))
        };
        if entry("mask")?.is_some() {
            return Err(PyTypeError::new_err("__cuda_array_interface__ with a mask; required: none"));
        }
        let element = element(&required("typestr")?.extract::<String>()?)?;
        let dim: Vec<i64> = required("shape")?.extract()?;
        let (address, _): (usize, bool) = required("data")?.extract()?;
        let stride = match entry("strides")? {
            Some(strides) => in_elements(&strides.extract::<Vec<i64>>()?, element)?,
            None => row_major(&dim),
        };
        if stride.len() != dim.len() {
            return Err(PyValueError::new_err(format!("found {} strides of {} axes", stride.len(), dim.len())));
        }
        let stream = entry("stream")?.map(|stream| stream.extract::<u64>()).transpose()?;
        Ok(Self { address, element, dim, stride, stream })
    }
}

/// The type of elements that NumPy names so: `<f4`, `|i1`.
fn element(name: &str) -> PyResult<ElementType> {
    const CODES: [(char, u8); 4] = [('i', 0), ('u', 1), ('f', 2), ('b', 6)];
    let mut letters = name.chars();
    let (order, kind) = (letters.next(), letters.next());
    let code = CODES.into_iter().find(|&(letter, _)| Some(letter) == kind).map(|(_, code)| code);
    let bytes = letters.as_str().parse::<u8>().ok().filter(|bytes| (1..=8).contains(bytes));
    match (order, code, bytes) {
        (Some('<' | '|' | '='), Some(code), Some(bytes)) => Ok(ElementType { code, bits: 8 * bytes, lanes: 1 }),
        _ => Err(PyTypeError::new_err(format!(
            "__cuda_array_interface__ of {name:?}; required: numbers in this order of bytes"
        ))),
    }
}

fn in_elements(strides: &[i64], element: ElementType) -> PyResult<Vec<i64>> {
    let bytes = element.bytes() as i64;
    match strides.iter().all(|stride| stride % bytes == 0) {
        true => Ok(strides.iter().map(|stride| stride / bytes).collect()),
        false => {
            Err(PyValueError::new_err(format!("found strides of {strides:?} bytes; required: multiples of {bytes}")))
        }
    }
}

/// Strides where the last axis is innermost.
pub(crate) fn row_major(dim: &[i64]) -> Vec<i64> {
    let mut stride = vec![1; dim.len()];
    for axis in (1..dim.len()).rev() {
        stride[axis - 1] = stride[axis] * dim[axis];
    }
    stride
}
