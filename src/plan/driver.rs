//! The CUDA driver: found, asked for its devices, opened.

use std::ffi::{CStr, c_char, c_int};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use cudarc::driver::sys::{CUcontext, CUdevice, CUdevice_attribute, CUresult};

use super::cuda::{self, CudaError, Missing};
use super::modules::Modules;
use crate::device::{ComputeCapability, Device};
use crate::error::Error;

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
    /// [`Error::Environment`]: the library is absent (with the names looked for), too old, no driver but the toolkit's stub
    /// of it, or finds no GPU.
    pub fn load() -> Result<Self, Error> {
        cuda::load().map_err(missing)?;
        // SAFETY: no flags are defined.
        unsafe { cuda::cuInit(0) }.map_err(not_initialised)?;
        let (mut version, mut count) = (0, 0);
        // SAFETY: the pointer is valid for one int.
        unsafe { cuda::cuDriverGetVersion(&raw mut version) }.map_err(|error| failed("no version", error))?;
        // SAFETY: the pointer is valid for one int.
        let counted = unsafe { cuda::cuDeviceGetCount(&raw mut count) };
        counted.map_err(|error| failed("the devices cannot be counted", error))?;
        let version = u32::try_from(version).unwrap_or(0);
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
        // SAFETY: the pointer is valid for one handle.
        if unsafe { cuda::cuCtxGetCurrent(&raw mut context) }.is_err() || context.is_null() {
            return 0;
        }
        // SAFETY: a context is current; the pointer is valid for one number.
        let asked = unsafe { cuda::cuCtxGetDevice(&raw mut device) };
        asked.ok().and_then(|()| u32::try_from(device).ok()).unwrap_or(0)
    }

    /// Opens a device: retains its primary context until the last clone of the result is gone. Which context is current on
    /// a thread does not change, neither here nor by anything that is done with the result or when that goes.
    ///
    /// # Errors
    /// As [`Self::device`].
    pub fn open(&self, ordinal: u32) -> Result<DeviceContext, Error> {
        let device = self.device(ordinal)?;
        let primary = PrimaryContext::retain(ordinal)
            .map_err(|error| failed(&format!("cuda:{ordinal} ({}) cannot be opened", device.name), error))?;
        Ok(DeviceContext {
            primary: Arc::new(primary),
            device: Arc::new(device),
            abandoned: Arc::default(),
            modules: Arc::default(),
        })
    }

    fn require(&self, ordinal: u32) -> Result<(), Error> {
        if ordinal < self.device_count {
            return Ok(());
        }
        let last = self.device_count - 1;
        Err(Error::environment(format!("there is no device cuda:{ordinal}; visible are cuda:0 to cuda:{last}")))
    }
}

/// The primary context of a device, which the CUDA runtime uses, too. cudarc's type for it makes the context current
/// whenever it is used, and once more when it goes; this one never does.
#[derive(Debug)]
struct PrimaryContext {
    ordinal: u32,
    device: CUdevice,
    handle: CUcontext,
}

// SAFETY: a handle, which the driver lets any thread use.
unsafe impl Send for PrimaryContext {}
// SAFETY: as above; nothing of it changes.
unsafe impl Sync for PrimaryContext {}

impl PrimaryContext {
    fn retain(ordinal: u32) -> Result<Self, CudaError> {
        let (device, mut handle) = (device_of(ordinal)?, std::ptr::null_mut());
        // SAFETY: the device was just given by the driver; the pointer is valid for one handle.
        unsafe { cuda::cuDevicePrimaryCtxRetain(&raw mut handle, device) }?;
        Ok(Self { ordinal, device, handle })
    }
}

impl Drop for PrimaryContext {
    fn drop(&mut self) {
        // SAFETY: retained once, and released once. It need not be current.
        let _ = unsafe { cuda::cuDevicePrimaryCtxRelease_v2(self.device) };
    }
}

/// A GPU that was opened. Cheap to clone; shared by threads.
#[derive(Clone, Debug)]
pub struct DeviceContext {
    primary: Arc<PrimaryContext>,
    device: Arc<Device>,
    /// Set once a kernel hangs.
    abandoned: Arc<AtomicBool>,
    modules: Arc<Modules>,
}

impl DeviceContext {
    /// What code generation needs to know of it.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Number of the device among the visible ones.
    pub fn ordinal(&self) -> usize {
        self.primary.ordinal as usize
    }

    /// Lets kernels of this device address the memory of another one, as those of a batch norm over several GPUs do (`peer_stats`).
    ///
    /// # Errors
    /// [`Error::Environment`] where the two devices have no such way to each other.
    pub fn access_memory_of(&self, other: &Self) -> Result<(), Error> {
        let _entered = self.enter()?;
        // SAFETY: the other context is alive, and this one is current.
        match unsafe { cuda::cuCtxEnablePeerAccess(other.raw(), 0) } {
            Err(error) if error.is(CUresult::CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED) => Ok(()),
            enabled => {
                let what =
                    format!("device {} has no access to the memory of device {}", self.ordinal(), other.ordinal());
                enabled.map_err(|error| failed(&what, error))
            }
        }
    }

    /// Modules that plans of the device share.
    pub(super) fn modules(&self) -> &Modules {
        &self.modules
    }

    /// The context's handle.
    pub(super) fn raw(&self) -> CUcontext {
        self.primary.handle
    }

    /// Gives the device up because a kernel hangs on it: everything that would wait for it is leaked from now on.
    pub(super) fn abandon(&self) {
        if !self.abandoned.swap(true, Ordering::Relaxed) {
            // The last release of the context would wait, too.
            std::mem::forget(Arc::clone(&self.primary));
        }
    }

    /// Waits until all work of the device is done, where that is possible: not where it hangs, or a stream is captured.
    pub(crate) fn synchronize(&self) {
        if let Some(_entered) = self.enter_to_release() {
            // SAFETY: the context is current. A failed kernel shows in what is launched or read next.
            let _ = unsafe { cuda::cuCtxSynchronize() };
        }
    }

    /// Enters the context to release something; `None` where that is impossible or would wait for ever.
    pub(super) fn enter_to_release(&self) -> Option<Entered> {
        // Where the context cannot be entered, the error has surfaced elsewhere.
        if self.abandoned.load(Ordering::Relaxed) { None } else { self.enter().ok() }
    }

    /// Makes the context current on this thread until the guard goes; costs one call where it is current already.
    pub(super) fn enter(&self) -> Result<Entered, Error> {
        let wanted = self.raw();
        let mut current: CUcontext = std::ptr::null_mut();
        // SAFETY: the pointer is valid for one handle.
        unsafe { cuda::cuCtxGetCurrent(&raw mut current) }.map_err(|error| failed("no current context", error))?;
        if current == wanted {
            return Ok(Entered { pushed: false });
        }
        // SAFETY: the handle is of a context that `self.primary` keeps alive.
        let pushed = unsafe { cuda::cuCtxPushCurrent_v2(wanted) };
        pushed.map_err(|error| failed("the context cannot be made current", error))?;
        Ok(Entered { pushed: true })
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
            let _ = unsafe { cuda::cuCtxPopCurrent_v2(&raw mut ours) };
        }
    }
}

/// An error of the driver, by its CUDA name. Faults that a kernel causes are ours, all else is the operator's.
pub(super) fn failed(what: &str, error: CudaError) -> Error {
    if KERNEL_FAULTS.iter().any(|&fault| error.is(fault)) {
        return Error::Wrong(format!("{what}: a kernel failed with {error}"));
    }
    Error::Environment { message: format!("{what}: {error}"), source: Some(Box::new(error)) }
}

/// A driver that cannot be initialised; a stub of the toolkit is named, since it hides the driver.
fn not_initialised(error: CudaError) -> Error {
    let mut what = "the CUDA driver cannot be initialised".to_owned();
    if error.is(CUresult::CUDA_ERROR_STUB_LIBRARY) {
        let path = cuda::path();
        what = format!(
            "{what}: {} is the CUDA toolkit's stub, which is there to link against; take its folder out of \
             LD_LIBRARY_PATH, so that the driver's libcuda.so.1 is found",
            path.display()
        );
    }
    failed(&what, error)
}

/// Stages of ours that do not agree.
pub(super) fn inconsistent(message: String) -> Error {
    Error::Generated { message, log: String::new(), source_path: None }
}

const KERNEL_FAULTS: [CUresult; 9] = [
    CUresult::CUDA_ERROR_ILLEGAL_ADDRESS,
    CUresult::CUDA_ERROR_LAUNCH_TIMEOUT,
    CUresult::CUDA_ERROR_ASSERT,
    CUresult::CUDA_ERROR_HARDWARE_STACK_ERROR,
    CUresult::CUDA_ERROR_ILLEGAL_INSTRUCTION,
    CUresult::CUDA_ERROR_MISALIGNED_ADDRESS,
    CUresult::CUDA_ERROR_INVALID_ADDRESS_SPACE,
    CUresult::CUDA_ERROR_INVALID_PC,
    CUresult::CUDA_ERROR_LAUNCH_FAILED,
];

/// Whether the driver has every function that something needs beyond those that [`Driver::load`] demands.
pub(super) fn require_functions(what: &str, names: &[&str]) -> Result<(), Error> {
    match names.iter().find(|name| !cuda::has(name)) {
        Some(missing) => Err(Error::environment(format!(
            "{what} needs a newer driver: libcuda has no function {missing}; required: a driver for CUDA 12"
        ))),
        None => Ok(()),
    }
}

/// Why there is no driver, for people.
fn missing(missing: Missing) -> Error {
    Error::environment(match missing {
        Missing::Library { names, reasons } => format!(
            "no CUDA driver was found, so there is no GPU to run on; install NVIDIA's driver, or use the CPU engine; \
             looked on the library path (LD_LIBRARY_PATH included) for {}: {}",
            names.join(", "),
            reasons.join("; ")
        ),
        Missing::Function { name, path } => format!(
            "{} has no function {name}: it is too old, or no driver; required: a driver for CUDA 12",
            path.display()
        ),
    })
}

/// Part of the memory's peak rate (two transfers a clock, clock in kHz) that a large copy reaches on HBM chips.
const COPY_SHARE: f64 = 0.87;

fn describe(ordinal: u32) -> Result<Device, CudaError> {
    let device = device_of(ordinal)?;
    let attribute = |attribute| {
        let mut value: c_int = 0;
        // SAFETY: the device was just given by the driver; the pointer is valid for one int.
        unsafe { cuda::cuDeviceGetAttribute(&raw mut value, attribute, device) }?;
        Ok::<u32, CudaError>(u32::try_from(value).unwrap_or(0))
    };
    Ok(Device {
        name: name_of(device)?,
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

fn device_of(ordinal: u32) -> Result<CUdevice, CudaError> {
    let mut device: CUdevice = 0;
    // SAFETY: the pointer is valid for one handle.
    unsafe { cuda::cuDeviceGet(&raw mut device, c_int::try_from(ordinal).unwrap_or(c_int::MAX)) }?;
    Ok(device)
}

fn name_of(device: CUdevice) -> Result<String, CudaError> {
    const ROOM: usize = 256;
    let mut name: [c_char; ROOM] = [0; ROOM];
    // SAFETY: the device was given by the driver. The last byte, of which the driver is not told, stays zero.
    let name = unsafe {
        cuda::cuDeviceGetName(name.as_mut_ptr(), ROOM as c_int - 1, device)?;
        CStr::from_ptr(name.as_ptr())
    };
    Ok(name.to_string_lossy().into_owned())
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
        assert!(KERNEL_FAULTS.contains(&CUresult::CUDA_ERROR_ILLEGAL_ADDRESS));
        assert!(!KERNEL_FAULTS.contains(&CUresult::CUDA_ERROR_OUT_OF_MEMORY));
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
