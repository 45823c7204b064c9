//! Loaded binaries and their functions.

use std::collections::HashMap;
use std::ffi::CString;
use std::sync::{Mutex, PoisonError};

use cudarc::driver::sys::{CUfunction, CUfunction_attribute, CUmodule, CUresult, CUstreamCaptureMode};

use super::DeviceContext;
use super::cuda;
use super::driver::{failed, inconsistent};
use crate::compile::Cubin;
use crate::error::Error;
use crate::kernel::MOST_BLOCKS_OF_A_CLUSTER;

/// A function of a module.
#[derive(Clone, Copy, Debug)]
pub(super) struct Function(CUfunction);

// SAFETY: a handle, which the driver lets any thread use.
unsafe impl Send for Function {}
// SAFETY: as above; launching does not change it.
unsafe impl Sync for Function {}

impl Function {
    pub(super) fn raw(self) -> CUfunction {
        self.0
    }
}

/// A loaded cubin, unloaded at the end.
#[derive(Debug)]
pub(super) struct Module {
    context: DeviceContext,
    /// Of each image.
    handles: Vec<CUmodule>,
    /// Bytes of dynamic shared memory that functions may have, where that had to be asked for.
    allowed: Mutex<HashMap<String, u32>>,
}

// SAFETY: a handle, which the driver lets any thread use.
unsafe impl Send for Module {}
// SAFETY: as above; looking functions up does not change it.
unsafe impl Sync for Module {}

impl Module {
    /// # Safety
    /// Each image is a whole one.
    pub(super) unsafe fn load(context: &DeviceContext, cubin: &Cubin) -> Result<Self, Error> {
        // The driver reads as far as the headers say, so what is plainly no image must not reach it.
        let is_image = |image: &Vec<u8>| image.starts_with(b"\x7fELF") && image.len() >= 64;
        if !cubin.images.iter().all(is_image) {
            return Err(inconsistent("the compiled image is no ELF file".to_owned()));
        }
        let _entered = context.enter()?;
        let _beside_captures = BesideCaptures::new();
        // what was loaded before one that fails is unloaded with the module
        let mut module = Self { context: context.clone(), handles: Vec::new(), allowed: Mutex::default() };
        for image in &cubin.images {
            let mut handle: CUmodule = std::ptr::null_mut();
            // SAFETY: as promised by the caller; the pointer is valid for one handle.
            let loaded = unsafe { cuda::cuModuleLoadData(&raw mut handle, image.as_ptr().cast()) };
            let device = context.device();
            let what = || format!("loading the kernel on {} ({})", device.name, device.capability);
            loaded.map_err(|error| failed(&what(), error))?;
            module.handles.push(handle);
        }
        Ok(module)
    }

    pub(super) fn context(&self) -> &DeviceContext {
        &self.context
    }

    /// A function that may be launched with up to so many bytes of dynamic shared memory, in clusters of up to so many blocks.
    pub(super) fn function(&self, name: &str, shared_bytes: u32, cluster: u32) -> Result<Function, Error> {
        let _entered = self.context.enter()?;
        let function = self.find(name)?;
        // More than 48 KiB must be asked for by function, and so must large clusters.
        if shared_bytes > 0 {
            self.allow_shared(name, function, shared_bytes)?;
        }
        if cluster > MOST_BLOCKS_OF_A_CLUSTER {
            allow_large_clusters(name, function)?;
        }
        Ok(function)
    }

    fn find(&self, name: &str) -> Result<Function, Error> {
        let missing = || inconsistent(format!("the compiled image has no function '{}'", name.escape_debug()));
        let c_name = CString::new(name).map_err(|_| missing())?;
        for &handle in &self.handles {
            let mut function: CUfunction = std::ptr::null_mut();
            // SAFETY: the module is loaded, the pointer is valid for one handle, and the name ends with a zero byte.
            match unsafe { cuda::cuModuleGetFunction(&raw mut function, handle, c_name.as_ptr()) } {
                Ok(()) => return Ok(Function(function)),
                Err(error) if error.is(CUresult::CUDA_ERROR_NOT_FOUND) => {}
                Err(error) => return Err(failed(&format!("finding the function {name}"), error)),
            }
        }
        Err(missing())
    }

    fn allow_shared(&self, name: &str, function: Function, bytes: u32) -> Result<(), Error> {
        let mut allowed = self.allowed.lock().unwrap_or_else(PoisonError::into_inner);
        // a plan of another shape may have asked for more
        if allowed.get(name).is_some_and(|&most| most >= bytes) {
            return Ok(());
        }
        let attribute = CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        let value = i32::try_from(bytes).unwrap_or(i32::MAX);
        // SAFETY: the function's module is loaded.
        let set = unsafe { cuda::cuFuncSetAttribute(function.0, attribute, value) };
        let available = self.context.device().shared_bytes_per_block;
        let what =
            || format!("kernel {name} asks for {bytes} bytes of shared memory, of which a block has {available}");
        set.map_err(|error| failed(&what(), error))?;
        allowed.insert(name.to_owned(), bytes);
        Ok(())
    }
}

fn allow_large_clusters(name: &str, function: Function) -> Result<(), Error> {
    let attribute = CUfunction_attribute::CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED;
    // SAFETY: the function's module is loaded.
    let set = unsafe { cuda::cuFuncSetAttribute(function.0, attribute, 1) };
    set.map_err(|error| {
        failed(&format!("kernel {name} asks for clusters of more than {MOST_BLOCKS_OF_A_CLUSTER} blocks"), error)
    })
}

/// While it lives, what this thread does leaves captures of streams alone that other threads have begun, and they leave it
/// alone.
pub(crate) struct BesideCaptures {
    previous: Option<CUstreamCaptureMode>,
}

impl BesideCaptures {
    pub(crate) fn new() -> Self {
        let mut mode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
        Self { previous: exchange(&mut mode).then_some(mode) }
    }
}

impl Drop for BesideCaptures {
    fn drop(&mut self) {
        if let Some(mut mode) = self.previous {
            exchange(&mut mode);
        }
    }
}

/// Exchanges the thread's mode; `false` where the driver has none.
fn exchange(mode: &mut CUstreamCaptureMode) -> bool {
    // SAFETY: the function is present, and the pointer is valid for one mode.
    cuda::has("cuThreadExchangeStreamCaptureMode") && unsafe { cuda::cuThreadExchangeStreamCaptureMode(mode) }.is_ok()
}

impl Drop for Module {
    fn drop(&mut self) {
        let Some(_entered) = self.context.enter_to_release() else { return };
        let _beside_captures = BesideCaptures::new();
        // where the device cannot be waited for, its code stays: it may be running
        // SAFETY: the context is current.
        if unsafe { cuda::cuCtxSynchronize() }.is_ok() {
            for &handle in &self.handles {
                // SAFETY: loaded by `load` in this context, unloaded once, and no kernel of it runs any more.
                let _ = unsafe { cuda::cuModuleUnload(handle) };
            }
        }
    }
}
