//! The CUDA driver: found, asked for its devices, opened.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use cudarc::driver::result::{self, DriverError};
use cudarc::driver::sys::{self, CUdevice_attribute, CUresult};
use cudarc::driver::{CudaContext, sys::CUcontext};

use crate::device::{ComputeCapability, Device};
use crate::error::Error;

/// Every driver function that each plan needs, called here or through cudarc. cudarc looks a function up at its first call
/// and panics where it is missing, so all are asked for beforehand; those for tensor maps, CUDA graphs and measuring by
/// [`require_functions`] where they come in.
const FUNCTIONS: &[&str] = &[
    "cuCtxGetCurrent",
    "cuCtxGetDevice",
    "cuCtxPopCurrent_v2",
    "cuCtxPushCurrent_v2",
    "cuCtxSetCurrent",
    "cuCtxSynchronize",
    "cuDeviceGet",
    "cuDeviceGetAttribute",
    "cuDeviceGetCount",
    "cuDeviceGetName",
    "cuDevicePrimaryCtxRelease_v2",
    "cuDevicePrimaryCtxRetain",
    "cuDriverGetVersion",
    "cuEventCreate",
    "cuEventDestroy_v2",
    "cuEventRecord",
    "cuEventSynchronize",
    "cuFuncSetAttribute",
    "cuGetErrorName",
    "cuGetErrorString",
    "cuInit",
    "cuLaunchKernelEx",
    "cuMemAlloc_v2",
    "cuMemFree_v2",
    "cuMemcpyDtoDAsync_v2",
    "cuMemcpyDtoHAsync_v2",
    "cuMemcpyHtoDAsync_v2",
    "cuMemsetD8Async",
    "cuModuleGetFunction",
    "cuModuleLoadData",
    "cuModuleUnload",
    "cuStreamCreate",
    "cuStreamDestroy_v2",
    "cuStreamQuery",
    "cuStreamSynchronize",
];

/// The CUDA driver, loaded and initialised, with at least one device.
#[derive(Clone, Copy, Debug)]
pub struct Driver {
    version: (u32, u32),
    device_count: u32,
}

impl Driver {
    /// Loads libcuda and initialises it. Later calls cost little.
    ///
    /// # Errors
    /// [`Error::Environment`]: the library is absent (with the names looked for), too old, or finds no GPU.
    pub fn load() -> Result<Self, Error> {
        require_library()?;
        result::init().map_err(|error| failed("the CUDA driver cannot be initialised", error))?;
        let mut version = 0;
        // SAFETY: the function is present, and the pointer is valid for one int.
        unsafe { sys::cuDriverGetVersion(&raw mut version) }.result().map_err(|error| failed("no version", error))?;
        let version = u32::try_from(version).unwrap_or(0);
        let count = result::device::get_count().map_err(|error| failed("the devices cannot be counted", error))?;
        let device_count = u32::try_from(count).unwrap_or(0);
        if device_count == 0 {
            return Err(Error::environment("the CUDA driver is there, but no CUDA device is visible"));
        }
        Ok(Self { version: (version / 1000, version % 1000 / 10), device_count })
    }

    /// Newest CUDA version the driver serves, (major, minor).
    pub fn version(&self) -> (u32, u32) {
        self.version
    }

    /// Number of visible devices, at least 1; ordinals count from 0.
    pub fn device_count(&self) -> u32 {
        self.device_count
    }

    /// What code generation needs to know of a device; makes no context on it.
    ///
    /// # Errors
    /// [`Error::Environment`] for an ordinal that does not exist, or where the driver fails.
    pub fn device(&self, ordinal: u32) -> Result<Device, Error> {
        self.require(ordinal)?;
        let asked = |error| failed(&format!("cuda:{ordinal} cannot be asked for its properties"), error);
        describe(ordinal).map_err(asked)
    }

    /// The device whose context is current on this thread; the first where none is.
    pub fn current_device(&self) -> u32 {
        let (mut context, mut device) = (std::ptr::null_mut(), 0);
        // SAFETY: the driver is initialised; the pointer is valid for one handle.
        if unsafe { sys::cuCtxGetCurrent(&raw mut context) }.result().is_err() || context.is_null() {
            return 0;
        }
        // SAFETY: a context is current; the pointer is valid for one number.
        let asked = unsafe { sys::cuCtxGetDevice(&raw mut device) }.result();
        asked.ok().and_then(|()| u32::try_from(device).ok()).unwrap_or(0)
    }

    /// Opens a device: retains its primary context until the last clone of the result is gone.
    ///
    /// # Errors
    /// As [`Self::device`].
    pub fn open(&self, ordinal: u32) -> Result<DeviceContext, Error> {
        let device = self.device(ordinal)?;
        let _kept = KeptContext::new();
        let cuda = CudaContext::new(ordinal as usize)
            .map_err(|error| failed(&format!("cuda:{ordinal} ({}) cannot be opened", device.name), error))?;
        // SAFETY: nothing was allocated on this context yet, and this module orders its work by streams alone.
        unsafe { cuda.disable_event_tracking() };
        Ok(DeviceContext { cuda, device: Arc::new(device), abandoned: Arc::default() })
    }

    fn require(&self, ordinal: u32) -> Result<(), Error> {
        if ordinal < self.device_count {
            return Ok(());
        }
        let last = self.device_count - 1;
        Err(Error::environment(format!("there is no device cuda:{ordinal}; visible are cuda:0 to cuda:{last}")))
    }
}

/// A GPU that was opened. Cheap to clone; shared by threads.
#[derive(Clone, Debug)]
pub struct DeviceContext {
    pub(super) cuda: Arc<CudaContext>,
    device: Arc<Device>,
    /// Set once a kernel hangs.
    abandoned: Arc<AtomicBool>,
}

impl DeviceContext {
    /// What code generation needs to know of it.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Number of the device among the visible ones.
    pub fn ordinal(&self) -> usize {
        self.cuda.ordinal()
    }

    /// Gives the device up because a kernel hangs on it: everything that would wait for it is leaked from now on.
    pub(super) fn abandon(&self) {
        if !self.abandoned.swap(true, Ordering::Relaxed) {
            // The last release of the context would wait, too.
            std::mem::forget(Arc::clone(&self.cuda));
        }
    }

    /// Waits until all work of the device is done, where that is possible: not where it hangs, or a stream is captured.
    pub(crate) fn synchronize(&self) {
        if let Some(_entered) = self.enter_to_release() {
            // SAFETY: the context is current. A failed kernel shows in what is launched or read next.
            let _ = unsafe { sys::cuCtxSynchronize() };
        }
    }

    /// Enters the context to release something; `None` where that is impossible or would wait for ever.
    pub(super) fn enter_to_release(&self) -> Option<Entered> {
        // Where the context cannot be entered, the error has surfaced elsewhere.
        if self.abandoned.load(Ordering::Relaxed) { None } else { self.enter().ok() }
    }

    /// Makes the context current on this thread until the guard goes; costs one call where it is current already.
    pub(super) fn enter(&self) -> Result<Entered, Error> {
        let wanted = self.cuda.cu_ctx();
        let mut current: CUcontext = std::ptr::null_mut();
        // SAFETY: the driver is initialised; the pointer is valid for one handle.
        unsafe { sys::cuCtxGetCurrent(&raw mut current) }.result().map_err(|e| failed("no current context", e))?;
        if current == wanted {
            return Ok(Entered { pushed: false });
        }
        // SAFETY: the handle is of a context that `self.cuda` keeps alive.
        let pushed = unsafe { sys::cuCtxPushCurrent_v2(wanted) }.result();
        pushed.map_err(|error| failed("the context cannot be made current", error))?;
        Ok(Entered { pushed: true })
    }
}

/// The context that is current on this thread, which is so again at the end; where there was none, any may be.
struct KeptContext(CUcontext);

impl KeptContext {
    fn new() -> Self {
        let mut current: CUcontext = std::ptr::null_mut();
        // SAFETY: the driver is initialised; the pointer is valid for one handle, and is left alone on failure.
        let _ = unsafe { sys::cuCtxGetCurrent(&raw mut current) };
        Self(current)
    }
}

impl Drop for KeptContext {
    fn drop(&mut self) {
        if !self.0.is_null() {
            // SAFETY: it was current on this thread, whose context stack nobody else changes.
            let _ = unsafe { sys::cuCtxSetCurrent(self.0) };
        }
    }
}

/// While it lives, a context is current; afterwards the previous one is again.
pub(super) struct Entered {
    pushed: bool,
}

impl Drop for Entered {
    fn drop(&mut self) {
        if self.pushed {
            let mut ours: CUcontext = std::ptr::null_mut();
            // SAFETY: undoes the push of this guard, on the same thread: the guard holds no lock and is not sent.
            let _ = unsafe { sys::cuCtxPopCurrent_v2(&raw mut ours) };
        }
    }
}

/// An error of the driver, by its CUDA name. Faults that a kernel causes are ours, all else is the operator's.
pub(super) fn failed(what: &str, error: DriverError) -> Error {
    let name = error_name(error);
    if is_kernel_fault(error.0) {
        return Error::Wrong(format!("{what}: a kernel failed with {name}"));
    }
    Error::Environment { message: format!("{what}: {name}"), source: Some(Box::new(error)) }
}

/// The CUDA name of an error.
pub(super) fn error_name(error: DriverError) -> String {
    error.error_name().map_or_else(|_| format!("{:?}", error.0), |name| name.to_string_lossy().into_owned())
}

/// Stages of ours that do not agree.
pub(super) fn inconsistent(message: String) -> Error {
    Error::Generated { message, log: String::new(), source_path: None }
}

fn is_kernel_fault(code: CUresult) -> bool {
    matches!(
        code,
        CUresult::CUDA_ERROR_ILLEGAL_ADDRESS
            | CUresult::CUDA_ERROR_LAUNCH_TIMEOUT
            | CUresult::CUDA_ERROR_ASSERT
            | CUresult::CUDA_ERROR_HARDWARE_STACK_ERROR
            | CUresult::CUDA_ERROR_ILLEGAL_INSTRUCTION
            | CUresult::CUDA_ERROR_MISALIGNED_ADDRESS
            | CUresult::CUDA_ERROR_INVALID_ADDRESS_SPACE
            | CUresult::CUDA_ERROR_INVALID_PC
            | CUresult::CUDA_ERROR_LAUNCH_FAILED
    )
}

/// Whether the driver has a function beyond those that [`Driver::load`] demands.
pub(super) fn has_function(name: &str) -> bool {
    // SAFETY: called only once a `Driver` exists, so the library is present; the symbol is looked up, not used.
    unsafe { sys::culib().get::<*const ()>(name.as_bytes()) }.is_ok()
}

/// Whether the driver has every function that something needs beyond those that [`Driver::load`] demands.
pub(super) fn require_functions(what: &str, names: &[&str]) -> Result<(), Error> {
    match names.iter().find(|name| !has_function(name)) {
        Some(missing) => Err(Error::environment(format!(
            "{what} needs a newer driver: libcuda has no function {missing}; required: a driver for CUDA 12"
        ))),
        None => Ok(()),
    }
}

/// libcuda is there and has every function.
fn require_library() -> Result<(), Error> {
    // SAFETY: opens libraries by the names of the CUDA driver; their initialisers ask nothing of the process.
    if !unsafe { sys::is_culib_present() } {
        let names = cudarc::get_lib_name_candidates("cuda").join(", ");
        return Err(Error::environment(format!(
            "no CUDA driver was found, so there is no GPU to run on; install NVIDIA's driver, or use the CPU engine; \
             looked on the library path (LD_LIBRARY_PATH included) for: {names}"
        )));
    }
    match FUNCTIONS.iter().find(|name| !has_function(name)) {
        Some(missing) => Err(Error::environment(format!(
            "libcuda has no function {missing}: it is too old, or no driver; required: a driver for CUDA 12"
        ))),
        None => Ok(()),
    }
}

/// Part of the memory's peak rate (two transfers a clock, clock in kHz) that a large copy reaches on HBM chips.
const COPY_SHARE: f64 = 0.87;

fn describe(ordinal: u32) -> Result<Device, DriverError> {
    let device = result::device::get(i32::try_from(ordinal).unwrap_or(i32::MAX))?;
    let attribute = |attribute| {
        // SAFETY: the handle was just given by the driver.
        let value = unsafe { result::device::get_attribute(device, attribute) }?;
        Ok::<u32, DriverError>(u32::try_from(value).unwrap_or(0))
    };
    Ok(Device {
        name: result::device::get_name(device)?,
        capability: ComputeCapability::new(
            attribute(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
            attribute(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
        ),
        sm_count: attribute(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?,
        shared_bytes_per_block: attribute(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?,
        l2_bytes: u64::from(attribute(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE)?),
        bytes_per_second: COPY_SHARE
            * 2e3
            * f64::from(attribute(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE)?)
            * f64::from(attribute(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH)? / 8),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_driver_the_error_says_what_was_looked_for() {
        match Driver::load() {
            Ok(driver) => {
                let missing = driver.device(driver.device_count()).unwrap_err();
                assert_eq!(missing.exit_code(), 3);
            }
            Err(error) => {
                assert_eq!(error.exit_code(), 3);
                let message = error.to_string();
                let is_absent = message.contains("libcuda.so.1") && message.contains("LD_LIBRARY_PATH");
                assert!(is_absent || message.contains("CUDA"), "{message}");
            }
        }
    }

    #[test]
    fn faults_of_kernels_are_ours() {
        assert!(is_kernel_fault(CUresult::CUDA_ERROR_ILLEGAL_ADDRESS));
        assert!(!is_kernel_fault(CUresult::CUDA_ERROR_OUT_OF_MEMORY));
    }

    #[test]
    fn contexts_are_shared_by_threads() {
        fn shared<T: Send + Sync>() {}
        shared::<DeviceContext>();
        shared::<super::super::ExecutionPlan>();
        shared::<super::super::Stream>();
        shared::<super::super::DeviceBuffer>();
        shared::<super::super::CudaGraph>();
    }
}
