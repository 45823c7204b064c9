//! Streams.

use std::ffi::c_void;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cudarc::driver::sys::{CUresult, CUstream, CUstream_flags, CUstreamCaptureStatus};

use super::DeviceContext;
use super::cuda;
use super::driver::failed;
use crate::error::Error;

/// Work on a GPU, in order. Cheap to clone; the clones are one stream.
#[derive(Clone, Debug)]
pub struct Stream(Arc<Handle>);

/// A stream's handle; one of ours is destroyed at the end.
#[derive(Debug)]
struct Handle {
    raw: CUstream,
    context: DeviceContext,
    is_ours: bool,
}

// SAFETY: a handle, which the driver lets any thread use.
unsafe impl Send for Handle {}
// SAFETY: as above; nothing of it changes.
unsafe impl Sync for Handle {}

impl Drop for Handle {
    fn drop(&mut self) {
        if let Some(_entered) = self.context.enter_to_release().filter(|_| self.is_ours) {
            // SAFETY: made by `Stream::new` in this context, and destroyed once; the driver lets its work end.
            let _ = unsafe { cuda::cuStreamDestroy_v2(self.raw) };
        }
    }
}

impl Stream {
    /// A new stream, not synchronised with the legacy default stream.
    ///
    /// # Errors
    /// [`Error::Environment`] where the driver fails.
    pub fn new(context: &DeviceContext) -> Result<Self, Error> {
        let _entered = context.enter()?;
        let mut raw: CUstream = std::ptr::null_mut();
        // SAFETY: the pointer is valid for one handle.
        let made = unsafe { cuda::cuStreamCreate(&raw mut raw, CUstream_flags::CU_STREAM_NON_BLOCKING as u32) };
        made.map_err(|error| failed("no stream can be made", error))?;
        Ok(Self(Arc::new(Handle { raw, context: context.clone(), is_ours: true })))
    }

    /// A stream of another library, as a `cudaStream_t` or `CUstream`; null is the legacy default stream. It is not
    /// destroyed with this value.
    ///
    /// # Safety
    /// The handle must be null or a stream of this device's primary context, and stay valid as long as this value and
    /// its clones.
    pub unsafe fn from_raw(context: &DeviceContext, handle: *mut c_void) -> Self {
        Self(Arc::new(Handle { raw: handle.cast(), context: context.clone(), is_ours: false }))
    }

    /// Whether a stream of another library is one of this device's primary context; so are the default ones.
    ///
    /// # Safety
    /// The handle must be null or a stream.
    pub unsafe fn is_on(context: &DeviceContext, handle: *mut c_void) -> bool {
        // the legacy default stream by its number, and that of a thread
        if handle.addr() <= 2 || !cuda::has("cuStreamGetCtx") {
            return true;
        }
        let mut of_stream = std::ptr::null_mut();
        // SAFETY: as promised by the caller; the pointer is valid for one handle.
        let asked = unsafe { cuda::cuStreamGetCtx(handle.cast(), &raw mut of_stream) };
        asked.is_err() || of_stream == context.raw()
    }

    /// The handle, as other libraries take it; it ends with the last clone of this value.
    pub fn as_raw(&self) -> *mut c_void {
        self.raw().cast()
    }

    /// Whether what is put on the stream becomes part of a CUDA graph, and does not run now.
    pub fn is_captured(&self) -> bool {
        let mut status = CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE as u32;
        let Ok(_entered) = self.0.context.enter() else { return false };
        // SAFETY: the stream is alive, and the pointer is valid for one number.
        let asked = unsafe { cuda::cuStreamIsCapturing(self.raw(), (&raw mut status).cast()) };
        // of the legacy default stream nothing is said while another one is captured
        match asked {
            Ok(()) => status != CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE as u32,
            Err(error) => !error.is(CUresult::CUDA_ERROR_NOT_FOUND),
        }
    }

    /// Waits until all work put on the stream so far is done.
    ///
    /// # Errors
    /// [`Error::Wrong`] if a kernel failed, or is not done after `limit`. In the latter case the device is given up:
    /// plans and memory of this context are leaked from then on, since releasing them would wait for the kernel.
    pub fn wait(&self, limit: Duration) -> Result<(), Error> {
        let start = Instant::now();
        while !self.is_done()? {
            let waited = start.elapsed();
            if waited > limit {
                self.0.context.abandon();
                return Err(Error::Wrong(format!("a kernel is not done after {} s: it hangs", limit.as_secs_f32())));
            }
            // Short work is polled for, long work is not worth a busy core.
            if waited > Duration::from_millis(2) {
                std::thread::sleep(Duration::from_micros(200));
            }
        }
        Ok(())
    }

    /// Waits without a limit, as cheaply as the driver can.
    pub(super) fn synchronize(&self) -> Result<(), Error> {
        let _entered = self.0.context.enter()?;
        // SAFETY: the stream is alive as long as `self`.
        unsafe { cuda::cuStreamSynchronize(self.raw()) }.map_err(|error| failed("waiting for the device", error))
    }

    fn is_done(&self) -> Result<bool, Error> {
        let _entered = self.0.context.enter()?;
        // SAFETY: the stream is alive as long as `self`.
        match unsafe { cuda::cuStreamQuery(self.raw()) } {
            Ok(()) => Ok(true),
            Err(error) if error.is(CUresult::CUDA_ERROR_NOT_READY) => Ok(false),
            Err(error) => Err(failed("waiting for the device", error)),
        }
    }

    /// Whether the stream is of this device.
    pub(super) fn is_of(&self, context: &DeviceContext) -> bool {
        self.0.context.raw() == context.raw()
    }

    pub(super) fn raw(&self) -> CUstream {
        self.0.raw
    }
}
