//! Errors as C++ exceptions, which is how a kernel tells PyTorch of them: Python gets a `RuntimeError`.
//!
//! A kernel of the C ABI has no other way; those in C++ throw `std::runtime_error` as well. It is thrown by the functions of the
//! Itanium C++ ABI, of the runtime that PyTorch uses itself. A foreign exception may pass Rust's frames: those that it passes
//! are the kernel's ("C-unwind") and that of [`throw`], and neither holds anything by then.

use std::ffi::{CString, c_char, c_void};

use libloading::os::unix::Library;

use super::Outcome;
use super::shim::{Shim, symbol};

/// More than `std::runtime_error` has in any runtime: two pointers.
const ROOM: usize = 64;

/// What makes and throws a `std::runtime_error`.
struct Runtime {
    allocate: unsafe extern "C-unwind" fn(usize) -> *mut c_void,
    construct: unsafe extern "C-unwind" fn(*mut c_void, *const c_char),
    destroy: unsafe extern "C-unwind" fn(*mut c_void),
    type_info: *mut c_void,
    throw: unsafe extern "C-unwind" fn(*mut c_void, *mut c_void, unsafe extern "C-unwind" fn(*mut c_void)) -> !,
}

impl Runtime {
    fn find(library: &Library) -> Outcome<Self> {
        // SAFETY: these names are of the C++ ABI and of `std::runtime_error`, with these signatures; the type's information is an object,
        // of which only the address is used.
        unsafe {
            Ok(Self {
                allocate: symbol(library, "__cxa_allocate_exception")?,
                construct: symbol(library, "_ZNSt13runtime_errorC1EPKc")?,
                destroy: symbol(library, "_ZNSt13runtime_errorD1Ev")?,
                type_info: symbol(library, "_ZTISt13runtime_error")?,
                throw: symbol(library, "__cxa_throw")?,
            })
        }
    }

    /// An exception that is not thrown yet.
    fn exception(&self, message: &CString) -> *mut c_void {
        // SAFETY: the memory has room for the object, aligned for any, and the constructor copies the text, which ends with a zero byte.
        unsafe {
            let exception = (self.allocate)(ROOM);
            (self.construct)(exception, message.as_ptr());
            exception
        }
    }
}

/// Whether errors can be told.
pub(super) fn can_throw(shim: &Shim) -> Outcome<()> {
    Runtime::find(&shim.library).map(drop)
}

/// Throws a `std::runtime_error` out of the kernel.
pub(super) fn throw(shim: &Shim, message: String) -> ! {
    let Ok(runtime) = Runtime::find(&shim.library) else {
        // it was there when the kernel was registered (`can_throw`)
        std::process::abort()
    };
    let text = CString::new(message.replace('\0', " ")).unwrap_or_default();
    drop(message);
    let exception = runtime.exception(&text);
    drop(text);
    // SAFETY: a whole exception of this type, which the runtime destroys when it was handled. No value of this frame needs dropping.
    unsafe { (runtime.throw)(exception, runtime.type_info, runtime.destroy) }
}
