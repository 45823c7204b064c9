//! Handles of two devices, where the driver is the fake one of the tests.

use std::ffi::c_void;
use std::ptr;

use cudarc::cudnn::sys::cudnnBackendAttributeName_t as Name;
use cudarc::cudnn::sys::cudnnBackendAttributeType_t as Type;
use cudarc::cudnn::sys::cudnnBackendDescriptorType_t as Kind;
use cudarc::cudnn::sys::cudnnStatus_t as Status;
use cudarc::driver::sys::CUcontext;

use super::caller::{Caller, judge, refuse};
use super::elements::Pointer;
use crate::capi::{cudnnCreate, cudnnDestroy, cudnnGetStream, cudnnSetStream};
use crate::fuzz::choices::Choices;
use crate::fuzz::finding::{Finding, finding};
use crate::fuzz::targets::expect;
use crate::plan::Driver;
use crate::plan::cuda::{self, CudaError};

/// Set where the driver is the fake one.
const VARIABLE: &str = "FAKE_CUDA_DEVICES";

/// Most handles at a time.
const HANDLES: usize = 4;

/// The primary contexts of the devices, retained as the CUDA runtime does, and handles.
pub(super) struct Devices {
    contexts: Vec<CUcontext>,
    /// What the program made current; null for none.
    current: CUcontext,
    handles: Vec<*mut c_void>,
}

fn succeed(function: &str, result: Result<(), CudaError>) -> Result<(), Finding> {
    result.map_err(|error| finding("the driver does what it is asked", format!("{function}: {error:?}")))
}

impl Devices {
    /// The devices of the fake driver; `None` without it.
    pub(super) fn open() -> Option<Self> {
        std::env::var_os(VARIABLE)?;
        let count = Driver::load().ok()?.device_count();
        let retain = |device| {
            let mut context = ptr::null_mut();
            // SAFETY: the driver is loaded and there is room for a context.
            let result = unsafe { cuda::cuDevicePrimaryCtxRetain(&raw mut context, device as i32) };
            result.ok().map(|()| context)
        };
        let contexts = (0..count).map(retain).collect::<Option<_>>()?;
        let mut devices = Self { contexts, current: ptr::null_mut(), handles: Vec::new() };
        devices.make_current(ptr::null_mut()).ok()?;
        Some(devices)
    }

    fn make_current(&mut self, context: CUcontext) -> Result<(), Finding> {
        // SAFETY: the context is retained, or null.
        succeed("cuCtxSetCurrent", unsafe { cuda::cuCtxSetCurrent(context) })?;
        self.current = context;
        Ok(())
    }

    /// What the program made current is so still.
    pub(super) fn require_kept(&self) -> Result<(), Finding> {
        let mut current = ptr::null_mut();
        // SAFETY: there is room for a context.
        succeed("cuCtxGetCurrent", unsafe { cuda::cuCtxGetCurrent(&raw mut current) })?;
        let is_kept = current == self.current;
        expect("the current context stays", is_kept, || format!("{:?}, then {current:?}", self.current))
    }

    /// Creates, uses or destroys a handle, or makes another context current.
    pub(super) fn step(&mut self, caller: &mut Caller, choices: &mut Choices<'_>) -> Result<(), Finding> {
        match choices.below(5) {
            0 | 1 => {
                let contexts = [&self.contexts[..], &[ptr::null_mut()]].concat();
                self.make_current(choices.of(&contexts))
            }
            2 if self.handles.len() < HANDLES => self.create(),
            3 => match choices.index_of(&self.handles) {
                Some(index) => destroy(self.handles.swap_remove(index)),
                None => Ok(()),
            },
            _ => match choices.index_of(&self.handles) {
                Some(index) => use_handle(caller, self.handles[index]),
                None => Ok(()),
            },
        }
    }

    fn create(&mut self) -> Result<(), Finding> {
        let mut handle = ptr::null_mut();
        // SAFETY: there is room for a handle.
        let is_made = judge("cudnnCreate", unsafe { cudnnCreate(&raw mut handle) })?;
        expect("a handle can be created", is_made, String::new)?;
        self.handles.push(handle);
        Ok(())
    }

    /// Destroys what is left.
    pub(super) fn close(mut self) -> Result<(), Finding> {
        for handle in std::mem::take(&mut self.handles) {
            destroy(handle)?;
            self.require_kept()?;
        }
        self.make_current(ptr::null_mut())?;
        for device in 0..self.contexts.len() {
            // SAFETY: it was retained once.
            succeed("cuDevicePrimaryCtxRelease", unsafe { cuda::cuDevicePrimaryCtxRelease_v2(device as i32) })?;
        }
        Ok(())
    }
}

fn destroy(handle: *mut c_void) -> Result<(), Finding> {
    let is_destroyed = judge("cudnnDestroy", cudnnDestroy(handle))?;
    expect("a handle can be destroyed", is_destroyed, String::new)?;
    refuse("cudnnDestroy", cudnnDestroy(handle), Status::CUDNN_STATUS_BAD_PARAM)
}

/// A handle has a stream and a device.
fn use_handle(caller: &mut Caller, handle: *mut c_void) -> Result<(), Finding> {
    let mut stream = ptr::without_provenance_mut(1);
    // SAFETY: the handle is live; there is room for a stream, and null is the default one.
    unsafe {
        judge("cudnnSetStream", cudnnSetStream(handle, ptr::null_mut()))?;
        judge("cudnnGetStream", cudnnGetStream(handle, &raw mut stream))?;
    }
    expect("a handle has the stream that it was given", stream.is_null(), || format!("{stream:?}"))?;
    let properties: Pointer = caller.create(Kind::CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR as u32)?;
    let (name, of_type) = (Name::CUDNN_ATTR_DEVICEPROP_HANDLE as u32, Type::CUDNN_TYPE_HANDLE as u32);
    caller.set_handle(properties, name, of_type, handle.addr())?;
    let is_made = caller.finalize(properties)?;
    expect("a handle has the properties of a device", is_made, String::new)
}
