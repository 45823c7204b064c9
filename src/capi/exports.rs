//! The functions of the ABI. Their meaning is that of the cuDNN 9 documentation; spec/backend-api.md states it.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::LazyLock;

use cudarc::cudnn::sys::cudnnStatus_t as Status;

use super::failure::{self, Failure, Result};
use super::{descriptor, handle, plan};
use crate::plan::Driver;

/// The version of the API that this is: 9.21.0.
const VERSION: [c_int; 3] = [9, 21, 0];

/// What a number that is no status is called (HB-03).
const UNKNOWN: &CStr = c"CUDNN_UNKNOWN_STATUS";

/// The status of what a function does; no panic leaves the library.
fn guarded(function: &'static str, body: impl FnOnce() -> Result<()>) -> Status {
    let outcome = catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|_| {
        Err(Failure::new(Status::CUDNN_STATUS_INTERNAL_ERROR, "a defect of this library: it panicked"))
    });
    outcome.map_or_else(|failure| failure::remember(function, &failure), |()| Status::CUDNN_STATUS_SUCCESS)
}

/// Writes a result to where a caller wants it.
///
/// # Safety
/// The pointer is null or has room for the value.
unsafe fn give<T>(to: *mut T, what: &str, value: impl FnOnce() -> Result<T>) -> Result<()> {
    if to.is_null() {
        return Err(Failure::null(what));
    }
    let value = value()?;
    // SAFETY: as promised by the caller.
    unsafe { to.write(value) };
    Ok(())
}

/// Creates a library handle on the current device.
///
/// # Safety
/// `handle` is null or has room for a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnCreate(handle: *mut *mut c_void) -> Status {
    // SAFETY: as promised by the caller.
    guarded("cudnnCreate", || unsafe { give(handle, "the pointer to a handle", handle::create) })
}

/// Destroys a library handle.
#[unsafe(no_mangle)]
pub extern "C" fn cudnnDestroy(handle: *mut c_void) -> Status {
    guarded("cudnnDestroy", || handle::destroy(handle))
}

/// Sets the stream that executions with a handle go to.
///
/// # Safety
/// The stream is null or one of the handle's device, and lives as long as the handle uses it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnSetStream(handle: *mut c_void, stream: *mut c_void) -> Status {
    guarded("cudnnSetStream", || {
        let handle = handle::find(handle)?;
        // SAFETY: as promised by the caller.
        unsafe { handle.set_stream(stream) };
        Ok(())
    })
}

/// Gets the stream of a handle.
///
/// # Safety
/// `stream` is null or has room for a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnGetStream(handle: *mut c_void, stream: *mut *mut c_void) -> Status {
    guarded("cudnnGetStream", || {
        let handle = handle::find(handle)?;
        // SAFETY: as promised by the caller.
        unsafe { give(stream, "the pointer to a stream", || Ok(handle.raw_stream())) }
    })
}

/// Creates a descriptor of a type.
///
/// # Safety
/// `created` is null or has room for a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnBackendCreateDescriptor(of_type: u32, created: *mut *mut c_void) -> Status {
    // SAFETY: as promised by the caller.
    guarded("cudnnBackendCreateDescriptor", || unsafe {
        give(created, "the pointer to a descriptor", || descriptor::create(of_type))
    })
}

/// Destroys a descriptor.
#[unsafe(no_mangle)]
pub extern "C" fn cudnnBackendDestroyDescriptor(descriptor: *mut c_void) -> Status {
    guarded("cudnnBackendDestroyDescriptor", || descriptor::destroy(descriptor))
}

/// Sets an attribute of a descriptor that is not finalized.
///
/// # Safety
/// `elements` points to so many elements of the type, or is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnBackendSetAttribute(
    descriptor: *mut c_void,
    name: u32,
    of_type: u32,
    count: i64,
    elements: *const c_void,
) -> Status {
    // SAFETY: as promised by the caller.
    guarded("cudnnBackendSetAttribute", || unsafe { descriptor::find(descriptor)?.set(name, of_type, count, elements) })
}

/// Gets an attribute of a finalized descriptor: how many elements it has, and as many as there is room for.
///
/// # Safety
/// `elements` has room for `room` elements of the type, or is null; `count` is null or has room for a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnBackendGetAttribute(
    descriptor: *mut c_void,
    name: u32,
    of_type: u32,
    room: i64,
    count: *mut i64,
    elements: *mut c_void,
) -> Status {
    guarded("cudnnBackendGetAttribute", || {
        // SAFETY: as promised by the caller.
        let found = unsafe { descriptor::find(descriptor)?.get(name, of_type, room, elements) }?;
        if !count.is_null() {
            // SAFETY: as promised by the caller.
            unsafe { count.write(found) };
        }
        Ok(())
    })
}

/// Finalizes a descriptor.
#[unsafe(no_mangle)]
pub extern "C" fn cudnnBackendFinalize(descriptor: *mut c_void) -> Status {
    guarded("cudnnBackendFinalize", || descriptor::find(descriptor)?.finalize())
}

/// Executes a plan on the stream of a handle.
///
/// # Safety
/// The pointers of the variant pack are what the plan's graph asks for, until the work is done.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnBackendExecute(handle: *mut c_void, plan: *mut c_void, pack: *mut c_void) -> Status {
    // SAFETY: as promised by the caller.
    guarded("cudnnBackendExecute", || unsafe { plan::execute(handle, plan, pack) })
}

/// The version of the API: 10000 · major + 100 · minor + patch.
#[unsafe(no_mangle)]
pub extern "C" fn cudnnGetVersion() -> usize {
    let [major, minor, patch] = VERSION;
    (10_000 * major + 100 * minor + patch) as usize
}

/// The CUDA version of the driver: 1000 · major + 10 · minor; 0 where there is none. No CUDA runtime is used.
#[unsafe(no_mangle)]
pub extern "C" fn cudnnGetCudartVersion() -> usize {
    let version = catch_unwind(|| Driver::load().map(|driver| driver.version()).unwrap_or_default());
    let (major, minor) = version.unwrap_or_default();
    (1000 * major + 10 * minor) as usize
}

/// A part of the version: 0 major, 1 minor, 2 patch.
///
/// # Safety
/// `value` is null or has room for a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnGetProperty(property: u32, value: *mut c_int) -> Status {
    // SAFETY: as promised by the caller.
    guarded("cudnnGetProperty", || unsafe {
        give(value, "the pointer to a value", || {
            let part = VERSION.get(property as usize).copied();
            part.ok_or_else(|| Failure::new(Status::CUDNN_STATUS_INVALID_VALUE, format!("{property} is no property")))
        })
    })
}

/// Whether the parts of the library belong together; there is one part.
#[unsafe(no_mangle)]
pub extern "C" fn cudnnGraphVersionCheck() -> Status {
    Status::CUDNN_STATUS_SUCCESS
}

/// The name of a status, which lives as long as the program.
#[unsafe(no_mangle)]
pub extern "C" fn cudnnGetErrorString(status: u32) -> *const c_char {
    let name = NAMES.iter().find(|name| name.0 == status);
    name.map_or(UNKNOWN, |name| name.1.as_c_str()).as_ptr()
}

/// Writes the text of the calling thread's latest failure, cut to the room there is and ended by a zero byte; the text is
/// forgotten with that.
///
/// # Safety
/// `message` is null or has room for `room` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnGetLastErrorString(message: *mut c_char, room: usize) {
    if message.is_null() || room == 0 {
        return;
    }
    let text = failure::take_last();
    let bytes = text.bytes().filter(|&byte| byte != 0).take(room - 1).chain([0]);
    for (index, byte) in bytes.enumerate() {
        // SAFETY: as promised by the caller: the index is below `room`.
        unsafe { message.add(index).write(byte as c_char) };
    }
}

/// Every status with its name.
static NAMES: LazyLock<Vec<(u32, CString)>> = LazyLock::new(|| {
    let named = |status: &Status| Some((*status as u32, CString::new(format!("{status:?}")).ok()?));
    STATUSES.iter().filter_map(named).collect()
});

const STATUSES: &[Status] = &[
    Status::CUDNN_STATUS_SUCCESS,
    Status::CUDNN_STATUS_NOT_INITIALIZED,
    Status::CUDNN_STATUS_SUBLIBRARY_VERSION_MISMATCH,
    Status::CUDNN_STATUS_SERIALIZATION_VERSION_MISMATCH,
    Status::CUDNN_STATUS_DEPRECATED,
    Status::CUDNN_STATUS_LICENSE_ERROR,
    Status::CUDNN_STATUS_RUNTIME_IN_PROGRESS,
    Status::CUDNN_STATUS_RUNTIME_FP_OVERFLOW,
    Status::CUDNN_STATUS_SUBLIBRARY_LOADING_FAILED,
    Status::CUDNN_STATUS_BAD_PARAM,
    Status::CUDNN_STATUS_INVALID_VALUE,
    Status::CUDNN_STATUS_BAD_PARAM_NULL_POINTER,
    Status::CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER,
    Status::CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED,
    Status::CUDNN_STATUS_BAD_PARAM_OUT_OF_BOUND,
    Status::CUDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT,
    Status::CUDNN_STATUS_BAD_PARAM_STREAM_MISMATCH,
    Status::CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH,
    Status::CUDNN_STATUS_BAD_PARAM_DUPLICATED_ENTRIES,
    Status::CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE,
    Status::CUDNN_STATUS_BAD_PARAM_CUDA_GRAPH_MISMATCH,
    Status::CUDNN_STATUS_BAD_PARAM_DESCRIPTOR_TYPE,
    Status::CUDNN_STATUS_NOT_SUPPORTED,
    Status::CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN,
    Status::CUDNN_STATUS_NOT_SUPPORTED_SHAPE,
    Status::CUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE,
    Status::CUDNN_STATUS_NOT_SUPPORTED_LAYOUT,
    Status::CUDNN_STATUS_NOT_SUPPORTED_INCOMPATIBLE_CUDA_DRIVER,
    Status::CUDNN_STATUS_NOT_SUPPORTED_INCOMPATIBLE_CUDART,
    Status::CUDNN_STATUS_NOT_SUPPORTED_ARCH_MISMATCH,
    Status::CUDNN_STATUS_NOT_SUPPORTED_RUNTIME_PREREQUISITE_MISSING,
    Status::CUDNN_STATUS_NOT_SUPPORTED_SUBLIBRARY_UNAVAILABLE,
    Status::CUDNN_STATUS_NOT_SUPPORTED_SHARED_MEMORY_INSUFFICIENT,
    Status::CUDNN_STATUS_NOT_SUPPORTED_PADDING,
    Status::CUDNN_STATUS_NOT_SUPPORTED_BAD_LAUNCH_PARAM,
    Status::CUDNN_STATUS_NOT_SUPPORTED_CUDA_GRAPH_NATIVE_API,
    Status::CUDNN_STATUS_NOT_SUPPORTED_INVALID_DYNAMIC_SHAPE,
    Status::CUDNN_STATUS_INTERNAL_ERROR,
    Status::CUDNN_STATUS_INTERNAL_ERROR_COMPILATION_FAILED,
    Status::CUDNN_STATUS_INTERNAL_ERROR_UNEXPECTED_VALUE,
    Status::CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED,
    Status::CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED,
    Status::CUDNN_STATUS_INTERNAL_ERROR_BAD_LAUNCH_PARAM,
    Status::CUDNN_STATUS_INTERNAL_ERROR_TEXTURE_CREATION_FAILED,
    Status::CUDNN_STATUS_EXECUTION_FAILED,
    Status::CUDNN_STATUS_EXECUTION_FAILED_CUDA_DRIVER,
    Status::CUDNN_STATUS_EXECUTION_FAILED_CUBLAS,
    Status::CUDNN_STATUS_EXECUTION_FAILED_CUDART,
    Status::CUDNN_STATUS_EXECUTION_FAILED_CURAND,
];
