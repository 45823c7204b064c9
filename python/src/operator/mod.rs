//! The kernel of PyTorch's operator `fusewright::run` (`python/fusewright/torch/_op.py`), without the interpreter: an execution costs the
//! host about what its launch does. It is registered by PyTorch's C ABI, of version 2.10 or newer; with an older PyTorch
//! the operator keeps the kernel that is written in Python.
//!
//! The dispatcher calls with the interpreter's lock or without it, and no object of Python is touched here.

mod exception;
mod execution;
mod host;
mod layout;
mod shim;
mod values;

use std::ffi::CString;
use std::panic::{AssertUnwindSafe, catch_unwind};

use fusewright::error::Error;
use pyo3::prelude::*;

use self::execution::Execution;
use self::shim::{Shim, checked};
use self::values::{Arguments, listed};
use crate::errors::with_causes;

/// What PyTorch can be told of an error is its text.
type Outcome<T> = Result<T, String>;

fn told(error: Error) -> String {
    with_causes(&error)
}

/// Registers the kernel for a dispatch key, `CUDA` or `CPU`, of the operator `run` of a namespace. False where PyTorch lacks what it needs.
#[pyfunction]
#[pyo3(signature = (key, namespace = "fusewright"))]
pub(crate) fn register_torch_kernel(key: &str, namespace: &str) -> bool {
    registered(key, namespace).inspect_err(|why| tracing::debug!(key, why, "no kernel of the operator")).is_ok()
}

fn registered(key: &str, namespace: &str) -> Outcome<()> {
    let shim = Shim::get()?;
    exception::can_throw(shim)?;
    match key {
        "CPU" => {}
        "CUDA" => drop(shim::current_stream()?),
        _ => return Err("no kernel for this key".to_owned()),
    }
    let [key, namespace] = [key, namespace].map(|name| CString::new(name).map_err(|error| error.to_string()));
    let (key, namespace) = (key?, namespace?);
    let (mut library, file) = (std::ptr::null_mut(), c"fusewright".as_ptr());
    // SAFETY: texts that end with a zero byte, and room for one handle. The library is never deleted, so the kernel stays registered; the
    // extension that has it is never unloaded.
    let statuses = unsafe {
        let functions = &shim.functions;
        let made = (functions.library_for)(namespace.as_ptr(), key.as_ptr(), file, 0, &raw mut library);
        checked(made, "make a library")?;
        (functions.library_impl)(library, c"run".as_ptr(), run, shim.version())
    };
    checked(statuses, "register a kernel")
}

/// The kernel: takes what is on the stack and leaves a list of tensors there, or throws.
///
/// # Safety
/// On the stack are the arguments of the operator's schema, `(Tensor[] inputs, str graph, str device) -> Tensor[]`, in the conventions of
/// [`Shim::version`], and they are the kernel's.
unsafe extern "C-unwind" fn run(stack: *mut u64, inputs: u64, outputs: u64) {
    // registered with the functions at hand
    let Ok(shim) = Shim::get() else { return };
    // SAFETY: as promised by the caller.
    let guarded = AssertUnwindSafe(|| unsafe { run_guarded(shim, stack, inputs, outputs) });
    let outcome = catch_unwind(guarded).unwrap_or_else(|_| Err("the library panicked".to_owned()));
    if let Err(message) = outcome {
        exception::throw(shim, message)
    }
}

/// # Safety
/// As [`run`].
unsafe fn run_guarded(shim: &'static Shim, stack: *mut u64, inputs: u64, outputs: u64) -> Outcome<()> {
    if (inputs, outputs) != (3, 1) {
        return Err(format!("found {inputs} arguments and {outputs} results; required: 3 and 1"));
    }
    // SAFETY: as promised by the caller.
    let arguments = unsafe { Arguments::take(shim, stack.cast::<[u64; 3]>().read()) }?;
    let first = arguments.tensors.first().ok_or("found no tensors; required: at least one")?;
    let (text, session) = (arguments.graph.bytes()?, arguments.device.bytes()?);
    let execution = Execution::of(shim, text, session, first.device()?)?;
    let results = listed(shim, execution.run(shim, &arguments.tensors)?)?;
    // SAFETY: there is room for one result.
    unsafe { stack.write(results) };
    Ok(())
}
