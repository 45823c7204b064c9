//! Handles: a device, its compiler, a stream.

use std::ffi::c_void;
use std::sync::{Arc, PoisonError, RwLock};

use cudarc::cudnn::sys::cudnnStatus_t as Status;

use super::failure::{Failure, Result};
use super::registry::Registry;
use crate::compile::{Cache, Compiler, Options};
use crate::plan::{DeviceContext, Driver, Stream};

static HANDLES: Registry<Handle> = Registry::new();

/// What a library handle stands for.
pub(super) struct Handle {
    pub(super) context: DeviceContext,
    pub(super) compiler: Compiler,
    stream: RwLock<(usize, Stream)>,
}

/// A handle for the current device of the calling thread, on its legacy default stream (HB-01).
pub(super) fn create() -> Result<*mut c_void> {
    let missing = |error: crate::error::Error| Failure::new(Status::CUDNN_STATUS_NOT_INITIALIZED, error);
    let driver = Driver::load().map_err(missing)?;
    let context = driver.open(driver.current_device()).map_err(missing)?;
    // SAFETY: null is the legacy default stream.
    let stream = unsafe { Stream::from_raw(&context, std::ptr::null_mut()) };
    let compiler = Compiler::new(Cache::from_environment(), Options::default());
    Ok(HANDLES.insert(Handle { context, compiler, stream: RwLock::new((0, stream)) }))
}

/// The handle that a pointer stands for.
pub(super) fn find(pointer: *mut c_void) -> Result<Arc<Handle>> {
    if pointer.is_null() {
        return Err(Failure::null("the handle"));
    }
    HANDLES.get(pointer).ok_or_else(|| Failure::bad("a pointer is to no handle, or to one that was destroyed"))
}

/// Ends a handle; what was made with it goes on.
pub(super) fn destroy(pointer: *mut c_void) -> Result<()> {
    match HANDLES.remove(pointer) {
        Some(_) => Ok(()),
        None => find(pointer).map(drop),
    }
}

impl Handle {
    /// Executions go to this stream from now on.
    ///
    /// # Safety
    /// As [`Stream::from_raw`].
    pub(super) unsafe fn set_stream(&self, raw: *mut c_void) {
        // SAFETY: as promised by the caller.
        let stream = unsafe { Stream::from_raw(&self.context, raw) };
        *self.stream.write().unwrap_or_else(PoisonError::into_inner) = (raw.addr(), stream);
    }

    pub(super) fn raw_stream(&self) -> *mut c_void {
        std::ptr::with_exposed_provenance_mut(self.stream.read().unwrap_or_else(PoisonError::into_inner).0)
    }

    pub(super) fn stream(&self) -> Stream {
        self.stream.read().unwrap_or_else(PoisonError::into_inner).1.clone()
    }
}
