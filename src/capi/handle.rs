//! Handles: a session on a device, and a stream.

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::sync::{Arc, Mutex, PoisonError, RwLock, Weak};

use cudarc::cudnn::sys::cudnnStatus_t as Status;

use super::failure::{Failure, Result};
use super::registry::Registry;
use crate::error::Error;
use crate::plan::{DeviceContext, Driver, Stream};
use crate::session::{Session, SessionOptions};

static HANDLES: Registry<Handle> = Registry::new();

/// The sessions that the handles of a device share, as long as there is one.
static SESSIONS: Mutex<BTreeMap<u32, Weak<Session>>> = Mutex::new(BTreeMap::new());

/// What a library handle stands for.
pub(super) struct Handle {
    pub(super) session: Arc<Session>,
    context: DeviceContext,
    stream: RwLock<(usize, Stream)>,
}

/// A handle for the current device of the calling thread, on its legacy default stream (HB-01).
pub(super) fn create() -> Result<*mut c_void> {
    let missing = |error: Error| Failure::new(Status::CUDNN_STATUS_NOT_INITIALIZED, error);
    let driver = Driver::load().map_err(missing)?;
    let (session, context) = session(driver).map_err(missing)?;
    // SAFETY: null is the legacy default stream.
    let stream = unsafe { Stream::from_raw(&context, std::ptr::null_mut()) };
    Ok(HANDLES.insert(Handle { session, context, stream: RwLock::new((0, stream)) }))
}

/// The session on the current device.
fn session(driver: Driver) -> std::result::Result<(Arc<Session>, DeviceContext), Error> {
    let ordinal = driver.current_device();
    let mut sessions = SESSIONS.lock().unwrap_or_else(PoisonError::into_inner);
    let known = sessions.get(&ordinal).and_then(Weak::upgrade);
    if let Some((session, context)) = known.and_then(|session| Some((session.clone(), session.context()?.clone()))) {
        return Ok((session, context));
    }
    let context = driver.open(ordinal)?;
    let session = Arc::new(Session::on(context.clone(), SessionOptions::default()));
    sessions.insert(ordinal, Arc::downgrade(&session));
    Ok((session, context))
}

/// The handle that a pointer stands for.
pub(super) fn find(pointer: *mut c_void) -> Result<Arc<Handle>> {
    if pointer.is_null() {
        return Err(Failure::null("the handle"));
    }
    HANDLES.get(pointer).ok_or_else(|| Failure::bad("a pointer is to no handle, or to one that was destroyed"))
}

/// Ends a handle once its device has done all its work (HB-01); what was made with it goes on.
pub(super) fn destroy(pointer: *mut c_void) -> Result<()> {
    if pointer.is_null() {
        return Ok(());
    }
    match HANDLES.remove(pointer) {
        Some(handle) => handle.context.synchronize(),
        None => find(pointer).map(drop)?,
    }
    Ok(())
}

impl Handle {
    /// Executions go to this stream from now on.
    ///
    /// # Safety
    /// As [`Stream::from_raw`].
    pub(super) unsafe fn set_stream(&self, raw: *mut c_void) -> Result<()> {
        // SAFETY: as promised by the caller.
        if !unsafe { Stream::is_on(&self.context, raw) } {
            let message = "the stream is of another device or context than the handle";
            return Err(Failure::new(Status::CUDNN_STATUS_BAD_PARAM_STREAM_MISMATCH, message));
        }
        // SAFETY: as promised by the caller.
        let stream = unsafe { Stream::from_raw(&self.context, raw) };
        *self.stream.write().unwrap_or_else(PoisonError::into_inner) = (raw.addr(), stream);
        Ok(())
    }

    /// Whether something of a device may be used with the handle.
    pub(super) fn require_context(&self, other: &DeviceContext) -> Result<()> {
        if other.ordinal() == self.context.ordinal() {
            return Ok(());
        }
        let (found, required) = (other.ordinal(), self.context.ordinal());
        let message = format!("the plan is on cuda:{found}; required: cuda:{required}, the handle's device");
        Err(Failure::new(Status::CUDNN_STATUS_BAD_PARAM_STREAM_MISMATCH, message))
    }

    pub(super) fn raw_stream(&self) -> *mut c_void {
        std::ptr::with_exposed_provenance_mut(self.stream.read().unwrap_or_else(PoisonError::into_inner).0)
    }

    /// Does something on the stream, which stays the handle's until that is done.
    pub(super) fn on_stream<R>(&self, act: impl FnOnce(&Stream) -> R) -> R {
        act(&self.stream.read().unwrap_or_else(PoisonError::into_inner).1)
    }
}
