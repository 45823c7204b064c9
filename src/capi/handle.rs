//! Handles: a session on a device, and a stream.

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::sync::{Arc, Mutex, PoisonError, RwLock, Weak};

use cudarc::cudnn::sys::cudnnStatus_t as Status;

use super::failure::{Failure, Result};
use super::gate;
use super::registry::{NUMBERS, Registry};
use crate::error::Error;
use crate::plan::{DeviceContext, Driver, Stream};
use crate::session::{Session, SessionOptions};

static HANDLES: Registry<Handle> = Registry::new(&NUMBERS);

/// The sessions that the handles of a device share, as long as there is one; by the process (see [`gate::forks`]) and the device.
static SESSIONS: Mutex<BTreeMap<(usize, u32), Weak<Session>>> = Mutex::new(BTreeMap::new());

/// How many plans the session of a device keeps that no descriptor has any more.
const VARIABLE: &str = "FUSEWRIGHT_PLANS";

/// Unless that says another number. One that is gone and asked for again takes about a third of a millisecond, as its binary is
/// in the compiler's cache (1,000 plans of one kernel: 0.30–0.34 s on an H200's host, `cargo bench --bench runtime`).
const PLANS: usize = 256;

/// What a library handle stands for.
pub(super) struct Handle {
    pub(super) session: Arc<Session>,
    context: DeviceContext,
    /// The process that made it, by [`gate::forks`].
    forks: usize,
    stream: RwLock<(usize, Stream)>,
}

/// A handle for the current device of the calling thread, on its legacy default stream (HB-01).
pub(super) fn create() -> Result<*mut c_void> {
    let missing = |error: Error| Failure::new(Status::CUDNN_STATUS_NOT_INITIALIZED, error);
    let driver = Driver::load().map_err(missing)?;
    let (session, context) = session(driver).map_err(missing)?;
    // SAFETY: null is the legacy default stream.
    let stream = unsafe { Stream::from_raw(&context, std::ptr::null_mut()) };
    Ok(HANDLES.insert(Handle { session, context, forks: gate::forks(), stream: RwLock::new((0, stream)) }))
}

/// The session on the current device.
fn session(driver: Driver) -> std::result::Result<(Arc<Session>, DeviceContext), Error> {
    let ordinal = driver.current_device();
    let key = (gate::forks(), ordinal);
    // without the lock: what is wrong with the environment is logged
    let options = options();
    let mut sessions = SESSIONS.lock().unwrap_or_else(PoisonError::into_inner);
    let known = sessions.get(&key).and_then(Weak::upgrade);
    if let Some((session, context)) = known.and_then(|session| Some((session.clone(), session.context()?.clone()))) {
        return Ok((session, context));
    }
    let context = driver.open(ordinal)?;
    let session = Arc::new(Session::on(context.clone(), options));
    sessions.insert(key, Arc::downgrade(&session));
    Ok((session, context))
}

fn options() -> SessionOptions {
    let plans = std::env::var_os(VARIABLE).map_or(PLANS, |text| {
        let number = text.to_str().and_then(|text| text.trim().parse().ok()).filter(|&number: &usize| number > 0);
        number.unwrap_or_else(|| {
            tracing::warn!("{VARIABLE} is a number of plans, at least 1; found: {text:?}; {PLANS} are kept");
            PLANS
        })
    });
    SessionOptions { plans, ..SessionOptions::default() }
}

/// The handle that a pointer stands for.
pub(super) fn find(pointer: *mut c_void) -> Result<Arc<Handle>> {
    if pointer.is_null() {
        return Err(Failure::null("the handle"));
    }
    let handle = HANDLES.get(pointer);
    let handle = handle.ok_or_else(|| Failure::bad("a pointer is to no handle, or to one that was destroyed"))?;
    handle.require_process()?;
    Ok(handle)
}

/// Ends a handle once its device has done all its work (HB-01); what was made with it goes on.
pub(super) fn destroy(pointer: *mut c_void) -> Result<()> {
    if pointer.is_null() {
        return Ok(());
    }
    match HANDLES.remove(pointer) {
        Some(handle) if handle.require_process().is_ok() => handle.context.synchronize(),
        // the device's context is the other process's
        Some(handle) => std::mem::forget(handle),
        None => find(pointer).map(drop)?,
    }
    Ok(())
}

impl Handle {
    /// Whether this process made it: a child cannot use the CUDA context of its parent.
    pub(super) fn require_process(&self) -> Result<()> {
        if self.forks == gate::forks() {
            return Ok(());
        }
        let message = "the handle was created before the process forked; CUDA cannot be used with it in the child";
        Err(Failure::new(Status::CUDNN_STATUS_NOT_INITIALIZED, message))
    }

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
