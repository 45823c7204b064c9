//! DLPack's exchange API (version 1.3 of its header): tensors by functions that a framework's type names, without a call of Python.

use std::ffi::{CStr, c_int, c_void};
use std::mem::MaybeUninit;
use std::sync::{Mutex, PoisonError};

use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyType};

use crate::dlpack::{CPU, Device, View};

const NAME: &CStr = c"dlpack_exchange_api";
const ATTRIBUTE: &str = "__dlpack_c_exchange_api__";

/// The major version whose structure is known.
const MAJOR: u32 = 1;

/// What all versions begin with.
#[repr(C)]
struct Header {
    major: u32,
    minor: u32,
    older: *const Self,
}

/// A framework's functions; those that give and take owners are not called.
#[repr(C)]
struct Api {
    header: Header,
    _allocate: *const c_void,
    _export: *const c_void,
    _import: *const c_void,
    functions: Functions,
}

/// Those that are called.
#[repr(C)]
#[derive(Clone, Copy)]
struct Functions {
    view: Option<unsafe extern "C" fn(object: *mut c_void, view: *mut View) -> c_int>,
    current_stream: Option<unsafe extern "C" fn(kind: i32, id: i32, stream: *mut *mut c_void) -> c_int>,
}

/// The view of a tensor whose type has the API, valid while the object lives and nobody resizes it. `None` where `__dlpack__` has to be asked: there is no such API,
/// it exports no view, memory of a GPU is not written on `stream`, or the object is refused, which that says for users of Python.
pub(crate) fn view(object: &Bound<'_, PyAny>, stream: Option<u64>) -> PyResult<Option<View>> {
    let Some(functions) = functions(object)? else { return Ok(None) };
    let Some(export) = functions.view else { return Ok(None) };
    if requires_gradient(object)? {
        return Ok(None);
    }
    let mut view = MaybeUninit::uninit();
    // SAFETY: a function of the object's own type, called with the interpreter held; it fills the view or raises.
    let raised = unsafe { export(object.as_ptr().cast(), view.as_mut_ptr()) } != 0;
    if raised {
        let error = PyErr::fetch(object.py());
        return if object.hasattr("__dlpack__")? { Ok(None) } else { Err(error) };
    }
    // SAFETY: filled, as nothing was raised.
    let view = unsafe { view.assume_init() };
    let is_ready =
        view.device.kind == CPU || stream.is_some() && current_stream(object.py(), functions, view.device)? == stream;
    Ok(is_ready.then_some(view))
}

/// The memory of a tensor whose type has the API, whoever writes it, and whether or not gradients are asked for: for code that knows both. Valid as [`view`].
pub(crate) fn memory(object: &Bound<'_, PyAny>) -> PyResult<Option<View>> {
    let Some(export) = functions(object)?.and_then(|functions| functions.view) else { return Ok(None) };
    let mut view = MaybeUninit::uninit();
    // SAFETY: as for `view`.
    match unsafe { export(object.as_ptr().cast(), view.as_mut_ptr()) } {
        // SAFETY: filled, as nothing was raised.
        0 => Ok(Some(unsafe { view.assume_init() })),
        _ => {
            drop(PyErr::take(object.py()));
            Ok(None)
        }
    }
}

/// The functions of an object's type, of the known version. Each type is asked once, as calls past PyTorch's dispatcher ask for every tensor's.
fn functions(object: &Bound<'_, PyAny>) -> PyResult<Option<Functions>> {
    let asked = object.get_type();
    let known = || KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let found = known().iter().find_map(|known| known.of.is(&asked).then_some(known.functions));
    if found.is_some() {
        return Ok(found);
    }
    let stated = stated(&asked)?;
    if let Some(functions) = stated {
        let mut known = known();
        if known.len() < MOST_KNOWN {
            known.push(Known { of: asked.unbind(), functions });
        }
    }
    Ok(stated)
}

/// A type, held so that no other has its address, and its functions.
struct Known {
    of: Py<PyType>,
    functions: Functions,
}

/// Types whose functions are known: frameworks have one or two each.
static KNOWN: Mutex<Vec<Known>> = Mutex::new(Vec::new());

/// Programs that make types as they run are asked again and again rather than remembered.
const MOST_KNOWN: usize = 16;

/// The functions that a type states.
fn stated(of: &Bound<'_, PyType>) -> PyResult<Option<Functions>> {
    let Ok(capsule) = of.getattr(ATTRIBUTE) else { return Ok(None) };
    let capsule = capsule.cast_into::<PyCapsule>()?;
    let mut header = capsule.pointer_checked(Some(NAME))?.cast::<Header>().as_ptr().cast_const();
    // SAFETY: a capsule of this name holds a chain of structures that live as long as the process.
    while let Some(found) = unsafe { header.as_ref() } {
        if found.major == MAJOR {
            // SAFETY: of this version it is the whole structure.
            return Ok(unsafe { header.cast::<Api>().as_ref() }.map(|api| api.functions));
        }
        header = found.older;
    }
    Ok(None)
}

/// Whether it is a tensor of PyTorch that requires gradients, which `__dlpack__` refuses.
fn requires_gradient(object: &Bound<'_, PyAny>) -> PyResult<bool> {
    object.getattr_opt("requires_grad")?.map_or(Ok(false), |requires| requires.is_truthy())
}

/// The stream on which the framework works with a device now, if it says so.
fn current_stream(py: Python<'_>, functions: Functions, device: Device) -> PyResult<Option<u64>> {
    let Some(current_stream) = functions.current_stream else { return Ok(None) };
    let mut stream = std::ptr::null_mut();
    // SAFETY: as for views.
    match unsafe { current_stream(device.kind, device.id, &raw mut stream) } {
        0 => Ok(Some(stream.expose_provenance() as u64)),
        _ => Err(PyErr::fetch(py)),
    }
}
