//! The shared library with the cuDNN 9 backend ABI: the functions of [`fusewright::capi`] under the names that C programs call.
//!
//! No other crate exports these names. Whatever links one that did, such as a program or an extension of Python, would capture
//! the calls that other libraries of its process make to cuDNN.
//!
//! Where `FUSEWRIGHT_CUDNN_LIBRARY` names a real cuDNN, `forward` puts this library before it: graphs that an engine takes here
//! may run here, and everything else is the real library's.

mod forward;
pub mod names;

/// Called by the loader, before any function of the library can be.
#[used]
#[cfg_attr(target_os = "linux", unsafe(link_section = ".init_array"))]
static INITIALISE: extern "C" fn() = initialise;

extern "C" fn initialise() {
    // no panic leaves the library; without the real one it is as it would be alone
    let _ = std::panic::catch_unwind(forward::start);
}
