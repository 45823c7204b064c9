//! The kernels of PyTorch's operators `fusewright::run` (`python/fusewright/torch/_op.py`) and `run_sized` (`_sized.py`), without the interpreter: an
//! execution costs the host about what its launch does. They are registered by PyTorch's C ABI, of version 2.10 or newer; with an older PyTorch
//! the operators keep the kernels that are written in Python.
//!
//! The dispatcher calls with the interpreter's lock or without it, and no object of Python is touched here.

mod by_text;
mod direct;
mod exception;
mod execution;
mod host;
mod layout;
mod shim;
mod sized;
mod values;

use std::ffi::CString;
use std::panic::{AssertUnwindSafe, catch_unwind};

use fusewright::error::Error;
use pyo3::prelude::*;

pub(crate) use self::direct::DirectKernel;
use self::execution::Execution;
use self::shim::{Kernel, Shim, checked};
use self::sized::SizedGraph;
use self::values::{Arguments, Tensor, listed};
use crate::errors::with_causes;

/// What PyTorch can be told of an error is its text.
type Outcome<T> = Result<T, String>;

fn told(error: Error) -> String {
    with_causes(&error)
}

/// Registers the kernel for a dispatch key, `CUDA` or `CPU`, of the operator `run` of a namespace, or of `run_sized`. False where PyTorch lacks what it needs.
#[pyfunction]
#[pyo3(signature = (key, namespace = "fusewright", operator = "run"))]
pub(crate) fn register_torch_kernel(key: &str, namespace: &str, operator: &str) -> bool {
    let why_not = |why: &String| tracing::debug!(key, operator, why, "no kernel of the operator");
    registered(key, namespace, operator).inspect_err(why_not).is_ok()
}

fn registered(key: &str, namespace: &str, operator: &str) -> Outcome<()> {
    let (name, kernel): (_, Kernel) = match operator {
        "run" => (c"run", run),
        "run_sized" => (c"run_sized", run_sized),
        _ => return Err("no operator has this name".to_owned()),
    };
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
        (functions.library_impl)(library, name.as_ptr(), kernel, shim.version())
    };
    checked(statuses, "register a kernel")
}

/// The kernel: takes what is on the stack and leaves a list of tensors there, or throws.
///
/// # Safety
/// On the stack are the arguments of the operator's schema, `(Tensor[] inputs, str graph, str device) -> Tensor[]`, in the conventions of
/// [`Shim::version`], and they are the kernel's.
unsafe extern "C-unwind" fn run(stack: *mut u64, inputs: u64, outputs: u64) {
    let execute = |shim: &'static Shim| {
        require((inputs, outputs), 3)?;
        // SAFETY: as promised by the caller.
        let arguments = unsafe { Arguments::take(shim, stack.cast::<[u64; 3]>().read()) }?;
        let first = arguments.tensors.first().ok_or("found no tensors; required: at least one")?;
        let (text, session) = (arguments.graph.bytes()?, arguments.device.bytes()?);
        Execution::of(shim, text, session, first.device()?)?.run(shim, &arguments.tensors)
    };
    // SAFETY: there is room for one result.
    unsafe { guarded(stack, execute) }
}

/// The kernel of `run_sized`.
///
/// # Safety
/// As [`run`], of `(Tensor[] inputs, SymInt[] sizes, str graph, str device) -> Tensor[]`.
unsafe extern "C-unwind" fn run_sized(stack: *mut u64, inputs: u64, outputs: u64) {
    let execute = |shim: &'static Shim| {
        require((inputs, outputs), 4)?;
        // SAFETY: as promised by the caller.
        let arguments = unsafe { Arguments::take_sized(shim, stack.cast::<[u64; 4]>().read()) }?;
        let graph = SizedGraph::of(arguments.graph.bytes()?)?;
        graph.run(shim, &arguments.tensors, &arguments.sizes, arguments.device.bytes()?)
    };
    // SAFETY: there is room for one result.
    unsafe { guarded(stack, execute) }
}

fn require(found: (u64, u64), arguments: u64) -> Outcome<()> {
    if found == (arguments, 1) {
        return Ok(());
    }
    Err(format!("found {} arguments and {} results; required: {arguments} and 1", found.0, found.1))
}

/// Leaves the results of an execution on the stack as a list, or throws.
///
/// # Safety
/// The stack has room for one result.
unsafe fn guarded(stack: *mut u64, execute: impl FnOnce(&'static Shim) -> Outcome<Vec<Tensor>>) {
    // registered with the functions at hand
    let Ok(shim) = Shim::get() else { return };
    let results = AssertUnwindSafe(|| listed(shim, execute(shim)?));
    match catch_unwind(results).unwrap_or_else(|_| Err("the library panicked".to_owned())) {
        // SAFETY: as promised by the caller.
        Ok(results) => unsafe { stack.write(results) },
        Err(message) => exception::throw(shim, message),
    }
}
