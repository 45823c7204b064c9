//! Streams.

use std::ffi::c_void;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cudarc::driver::CudaStream;
use cudarc::driver::result::DriverError;
use cudarc::driver::sys::{self, CUresult, CUstream};

use super::DeviceContext;
use super::driver::{failed, has_function};
use crate::error::Error;

/// Work on a GPU, in order. Cheap to clone; the clones are one stream.
#[derive(Clone, Debug)]
pub struct Stream {
    cuda: Arc<CudaStream>,
    context: DeviceContext,
}

impl Stream {
    /// A new stream, not synchronised with the legacy default stream.
    ///
    /// # Errors
    /// [`Error::Environment`] where the driver fails.
    pub fn new(context: &DeviceContext) -> Result<Self, Error> {
        let cuda = context.cuda.new_stream().map_err(|error| failed("no stream can be made", error))?;
        Ok(Self { cuda, context: context.clone() })
    }

    /// A stream of another library, as a `cudaStream_t` or `CUstream`; null is the legacy default stream. It is not
    /// destroyed with this value.
    ///
    /// # Safety
    /// The handle must be null or a stream of this device's primary context, and stay valid as long as this value and
    /// its clones.
    pub unsafe fn from_raw(context: &DeviceContext, handle: *mut c_void) -> Self {
        // SAFETY: as promised by the caller; the order of the work is the caller's concern.
        let cuda = unsafe { context.cuda.wrap_borrowed_stream(handle.cast()) };
        Self { cuda, context: context.clone() }
    }

    /// Whether a stream of another library is one of this device's primary context; so are the default ones.
    ///
    /// # Safety
    /// The handle must be null or a stream.
    pub unsafe fn is_on(context: &DeviceContext, handle: *mut c_void) -> bool {
        // the legacy default stream by its number, and that of a thread
        if handle.addr() <= 2 || !has_function("cuStreamGetCtx") {
            return true;
        }
        let mut of_stream = std::ptr::null_mut();
        // SAFETY: as promised by the caller; the pointer is valid for one handle.
        let asked = unsafe { sys::cuStreamGetCtx(handle.cast(), &raw mut of_stream) };
        asked.result().is_err() || of_stream == context.cuda.cu_ctx()
    }

    /// The handle, as other libraries take it; it ends with the last clone of this value.
    pub fn as_raw(&self) -> *mut c_void {
        self.raw().cast()
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
                self.context.abandon();
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
        self.cuda.synchronize().map_err(|error| failed("waiting for the device", error))
    }

    fn is_done(&self) -> Result<bool, Error> {
        let _entered = self.context.enter()?;
        // SAFETY: the stream is alive as long as `self`.
        match unsafe { sys::cuStreamQuery(self.raw()) } {
            CUresult::CUDA_SUCCESS => Ok(true),
            CUresult::CUDA_ERROR_NOT_READY => Ok(false),
            code => Err(failed("waiting for the device", DriverError(code))),
        }
    }

    /// Whether the stream is of this device.
    pub(super) fn is_of(&self, context: &DeviceContext) -> bool {
        self.context.cuda.cu_ctx() == context.cuda.cu_ctx()
    }

    pub(super) fn raw(&self) -> CUstream {
        self.cuda.cu_stream()
    }

    pub(super) fn cuda(&self) -> &CudaStream {
        &self.cuda
    }
}
