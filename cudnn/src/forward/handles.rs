//! Handles: programs have the real library's, so that its other functions take them as they are; ours are kept beside them.

use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use fusewright::capi::registry::Registry;
use fusewright::device::Device;
use fusewright::plan::Driver;

use super::NUMBERS;
use super::numbers::status;
use super::sides::{Pointer, Refusal, Side};

/// By the real library's handles.
static HANDLES: Registry<Handle> = Registry::new(&NUMBERS);

/// What is kept of a handle of the real library.
pub(crate) struct Handle {
    real: usize,
    /// Ours on the same device, or why there is none.
    ours: Result<usize, Refusal>,
    /// Its device, by number, and what is known of it.
    pub(crate) device: Option<(u32, Device)>,
    /// The stream that ours has, or [`NO_STREAM`] where it refused that of the real one.
    stream: AtomicUsize,
}

/// No address of a stream.
const NO_STREAM: usize = usize::MAX;

impl Handle {
    /// The handle of a side.
    pub(crate) fn of(&self, side: Side) -> Result<Pointer, Refusal> {
        match side {
            Side::Real => Ok(ptr::with_exposed_provenance_mut(self.real)),
            Side::Ours => self.ours.clone().map(ptr::with_exposed_provenance_mut),
        }
    }

    /// The same for an execution, which goes to its stream.
    pub(crate) fn to_execute(&self, side: Side) -> Result<Pointer, Refusal> {
        if side == Side::Ours && self.stream.load(Ordering::Relaxed) == NO_STREAM {
            return Err(Refusal::new(side, status::STREAM_MISMATCH, "the handle's stream was refused"));
        }
        self.of(side)
    }

    /// The stream of the real handle.
    pub(crate) fn stream(&self) -> Result<Pointer, Refusal> {
        let mut stream = ptr::null_mut();
        // SAFETY: the handle is the real library's, and there is room for a pointer.
        Side::Real.check(unsafe { (Side::Real.functions().get_stream)(self.of(Side::Real)?, &raw mut stream) })?;
        Ok(stream)
    }
}

/// What is kept of a handle that the program has.
pub(crate) fn find(real: Pointer) -> Option<Arc<Handle>> {
    HANDLES.get(real)
}

/// The same by the address; `None` of 0.
pub(crate) fn find_at(address: usize) -> Option<Arc<Handle>> {
    find(ptr::without_provenance_mut(address))
}

/// The handle of a side for one that the program has; the program's own where this library did not see it made.
pub(crate) fn of_side(real: Pointer, side: Side) -> Result<Pointer, Refusal> {
    match (find(real), side) {
        (Some(handle), side) => handle.to_execute(side),
        (None, Side::Real) => Ok(real),
        (None, Side::Ours) => Err(Refusal::new(side, status::BAD_PARAM, "the handle was not created here")),
    }
}

/// Creates a handle of the real library, and one of ours, whose failure is no concern of the program.
///
/// # Safety
/// `handle` is null or has room for a pointer.
pub(crate) unsafe fn create(handle: *mut Pointer) -> u32 {
    // SAFETY: as promised by the caller.
    let status = unsafe { (Side::Real.functions().create_handle)(handle) };
    if status == status::SUCCESS && !handle.is_null() {
        // SAFETY: as promised by the caller; the real library has just written there.
        let real = unsafe { handle.read() };
        // now, as the device that is current is the handle's
        HANDLES.insert_at(real.addr(), beside(real));
    }
    status
}

/// What is kept of a new handle of the real library.
fn beside(real: Pointer) -> Handle {
    let mut made = ptr::null_mut();
    // SAFETY: there is room for a pointer.
    let ours = Side::Ours.check(unsafe { (Side::Ours.functions().create_handle)(&raw mut made) });
    if let Err(refusal) = &ours {
        tracing::warn!("no handle of fusewright beside cuDNN's, which has all graphs of it: {refusal}");
    }
    let device = || {
        let driver = Driver::load().ok()?;
        let ordinal = driver.current_device();
        Some((ordinal, driver.device(ordinal).ok()?))
    };
    Handle {
        real: real.expose_provenance(),
        device: ours.as_ref().ok().and_then(|()| device()),
        ours: ours.map(|()| made.expose_provenance()),
        stream: AtomicUsize::new(0),
    }
}

/// Destroys both handles.
///
/// # Safety
/// The handle is null, or one of the real library that nothing uses any more.
pub(crate) unsafe fn destroy(real: Pointer) -> u32 {
    if let Some(Ok(ours)) = HANDLES.remove(real).map(|handle| handle.of(Side::Ours)) {
        // SAFETY: created once, and destroyed once.
        unsafe { (Side::Ours.functions().destroy_handle)(ours) };
    }
    // SAFETY: as promised by the caller.
    unsafe { (Side::Real.functions().destroy_handle)(real) }
}

/// Sets the stream of both.
///
/// # Safety
/// As [`fusewright::capi::cudnnSetStream`]; the handle is one of the real library.
pub(crate) unsafe fn set_stream(real: Pointer, stream: Pointer) -> u32 {
    // SAFETY: as promised by the caller.
    let status = unsafe { (Side::Real.functions().set_stream)(real, stream) };
    let Some(handle) = find(real).filter(|_| status == status::SUCCESS) else { return status };
    // programs set it before each call, mostly the same
    let is_new = handle.stream.load(Ordering::Relaxed) != stream.addr();
    if let Some(ours) = handle.of(Side::Ours).ok().filter(|_| is_new) {
        // SAFETY: as promised by the caller.
        let taken = Side::Ours.check(unsafe { (Side::Ours.functions().set_stream)(ours, stream) });
        handle.stream.store(if taken.is_ok() { stream.addr() } else { NO_STREAM }, Ordering::Relaxed);
    }
    status
}
