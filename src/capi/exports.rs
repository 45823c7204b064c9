//! The functions of the ABI. Their meaning is that of the cuDNN 9 documentation; docs/spec/backend-api.md states it.
#![expect(non_snake_case, reason = "names of the ABI")]

use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::panic::catch_unwind;
use std::sync::LazyLock;

use cudarc::cudnn::sys::{cudnnCallback_t, cudnnStatus_t as Status};

use super::calls::{AttributeName, Call, DESCRIPTOR, HANDLE, KindName, TypeName};
use super::failure::{self, Failure, Result};
use super::{callback, descriptor, gate, handle, objects, plan};
use crate::logging;
use crate::plan::Driver;

/// The version of the API that this is: 9.21.0.
const VERSION: [c_int; 3] = [9, 21, 0];

/// What a number that is no status is called (HB-03).
const UNKNOWN: &CStr = c"CUDNN_UNKNOWN_STATUS";

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
pub unsafe extern "C" fn cudnnCreate(handle: *mut *mut c_void) -> Status {
    // SAFETY: as promised by the caller.
    Call::new("cudnnCreate", &[("handle", "cudnnHandle_t *", &handle)])
        .run(|| unsafe { give(handle, "the pointer to a handle", handle::create) })
}

/// Destroys a library handle, and waits for the device; null is none.
pub extern "C" fn cudnnDestroy(handle: *mut c_void) -> Status {
    Call::new("cudnnDestroy", &[("handle", HANDLE, &handle)]).with(handle).run(|| handle::destroy(handle))
}

/// Sets the stream that executions with a handle go to.
///
/// # Safety
/// The stream is null or one of the handle's device, and lives as long as the handle uses it.
pub unsafe extern "C" fn cudnnSetStream(handle: *mut c_void, stream: *mut c_void) -> Status {
    Call::new("cudnnSetStream", &[("handle", HANDLE, &handle), ("streamId", "cudaStream_t", &stream)]).with(handle).run(
        || {
            let handle = handle::find(handle)?;
            // SAFETY: as promised by the caller.
            unsafe { handle.set_stream(stream) }
        },
    )
}

/// Gets the stream of a handle.
///
/// # Safety
/// `stream` is null or has room for a pointer.
pub unsafe extern "C" fn cudnnGetStream(handle: *mut c_void, stream: *mut *mut c_void) -> Status {
    Call::new("cudnnGetStream", &[("handle", HANDLE, &handle), ("streamId", "cudaStream_t *", &stream)])
        .with(handle)
        .run(|| {
            let handle = handle::find(handle)?;
            // SAFETY: as promised by the caller.
            unsafe { give(stream, "the pointer to a stream", || Ok(handle.raw_stream())) }
        })
}

/// Creates a descriptor of a type.
///
/// # Safety
/// `created` is null or has room for a pointer.
pub unsafe extern "C" fn cudnnBackendCreateDescriptor(of_type: u32, created: *mut *mut c_void) -> Status {
    // SAFETY: as promised by the caller.
    Call::new(
        "cudnnBackendCreateDescriptor",
        &[
            ("descriptorType", "cudnnBackendDescriptorType_t", &KindName(of_type)),
            ("descriptor", "cudnnBackendDescriptor_t *", &created),
        ],
    )
    .run(|| unsafe { give(created, "the pointer to a descriptor", || descriptor::create(of_type)) })
}

/// Destroys a descriptor.
pub extern "C" fn cudnnBackendDestroyDescriptor(descriptor: *mut c_void) -> Status {
    Call::new("cudnnBackendDestroyDescriptor", &[("descriptor", DESCRIPTOR, &descriptor)])
        .run(|| descriptor::destroy(descriptor))
}

/// Makes a descriptor as it was when it was created.
pub extern "C" fn cudnnBackendInitialize(descriptor: *mut c_void) -> Status {
    Call::new("cudnnBackendInitialize", &[("descriptor", DESCRIPTOR, &descriptor)]).run(|| {
        descriptor::find(descriptor)?.clear();
        Ok(())
    })
}

/// Sets an attribute of a descriptor that is not finalized.
///
/// # Safety
/// `elements` points to so many elements of the type, or is null. The text of a plan or of a kernel cache comes from this
/// library: the machine code in it runs as it is.
pub unsafe extern "C" fn cudnnBackendSetAttribute(
    descriptor: *mut c_void,
    name: u32,
    of_type: u32,
    count: i64,
    elements: *const c_void,
) -> Status {
    // SAFETY: as promised by the caller.
    Call::new(
        "cudnnBackendSetAttribute",
        &[
            ("descriptor", DESCRIPTOR, &descriptor),
            ("attributeName", "cudnnBackendAttributeName_t", &AttributeName(name)),
            ("attributeType", "cudnnBackendAttributeType_t", &TypeName(of_type)),
            ("elementCount", "int64_t", &count),
            ("arrayOfElements", "const void *", &elements),
        ],
    )
    .run(|| unsafe { descriptor::find(descriptor)?.set(name, of_type, count, elements) })
}

/// Gets an attribute of a finalized descriptor: as many elements as there is room for, and how many that are; with no room
/// or null, how many there are.
///
/// # Safety
/// `elements` has room for `room` elements of the type, or is null; `count` is null or has room for a number.
pub unsafe extern "C" fn cudnnBackendGetAttribute(
    descriptor: *mut c_void,
    name: u32,
    of_type: u32,
    room: i64,
    count: *mut i64,
    elements: *mut c_void,
) -> Status {
    Call::new(
        "cudnnBackendGetAttribute",
        &[
            ("descriptor", DESCRIPTOR, &descriptor),
            ("attributeName", "cudnnBackendAttributeName_t", &AttributeName(name)),
            ("attributeType", "cudnnBackendAttributeType_t", &TypeName(of_type)),
            ("requestedElementCount", "int64_t", &room),
            ("elementCount", "int64_t *", &count),
            ("arrayOfElements", "void *", &elements),
        ],
    )
    .run(|| {
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
pub extern "C" fn cudnnBackendFinalize(descriptor: *mut c_void) -> Status {
    Call::new("cudnnBackendFinalize", &[("descriptor", DESCRIPTOR, &descriptor)])
        .run(|| descriptor::find(descriptor)?.finalize(objects::build))
}

/// Executes a plan on the stream of a handle.
///
/// # Safety
/// The pointers of the variant pack are what the plan's graph asks for, until the work is done. Where the stream is captured,
/// the plan lives as long as the graph and what is made of it.
pub unsafe extern "C" fn cudnnBackendExecute(handle: *mut c_void, plan: *mut c_void, pack: *mut c_void) -> Status {
    // SAFETY: as promised by the caller.
    Call::new(
        "cudnnBackendExecute",
        &[("handle", HANDLE, &handle), ("executionPlan", DESCRIPTOR, &plan), ("variantPack", DESCRIPTOR, &pack)],
    )
    .with(handle)
    .run(|| unsafe { plan::execute(handle, plan, pack) })
}

/// Fills an empty CUDA graph with one execution of a plan, bound to the pointers of a variant pack.
///
/// # Safety
/// As [`cudnnBackendExecute`]; the graph is null, or a `cudaGraph_t` that nothing else uses meanwhile. The plan lives as long
/// as the graph and what is made of it.
pub unsafe extern "C" fn cudnnBackendPopulateCudaGraph(
    handle: *mut c_void,
    plan: *mut c_void,
    pack: *mut c_void,
    graph: *mut c_void,
) -> Status {
    // SAFETY: as promised by the caller.
    Call::new(
        "cudnnBackendPopulateCudaGraph",
        &[
            ("handle", HANDLE, &handle),
            ("executionPlan", DESCRIPTOR, &plan),
            ("variantPack", DESCRIPTOR, &pack),
            ("graph", "cudaGraph_t", &graph),
        ],
    )
    .with(handle)
    .run(|| unsafe { plan::populate(handle, plan, pack, graph) })
}

/// Binds a CUDA graph that the plan filled, or a copy of it, to the pointers of another variant pack.
///
/// # Safety
/// As [`cudnnBackendPopulateCudaGraph`].
pub unsafe extern "C" fn cudnnBackendUpdateCudaGraph(
    handle: *mut c_void,
    plan: *mut c_void,
    pack: *mut c_void,
    graph: *mut c_void,
) -> Status {
    // SAFETY: as promised by the caller.
    Call::new(
        "cudnnBackendUpdateCudaGraph",
        &[
            ("handle", HANDLE, &handle),
            ("executionPlan", DESCRIPTOR, &plan),
            ("variantPack", DESCRIPTOR, &pack),
            ("graph", "cudaGraph_t", &graph),
        ],
    )
    .with(handle)
    .run(|| unsafe { plan::update(handle, plan, pack, graph) })
}

/// Has log records of the severities of a mask sent to a function, in place of what the environment asks for; null restores
/// that. What the function itself asks of the library is not logged.
///
/// # Safety
/// The function may be called with the data from any thread until another is set, and may still be running then in other
/// threads; it neither builds nor creates anything with the library.
pub unsafe extern "C" fn cudnnSetCallback(mask: c_uint, data: *mut c_void, function: cudnnCallback_t) -> Status {
    let address = function.map(|function| function as *const c_void);
    let parameters: [(_, _, &dyn std::fmt::Debug); 3] =
        [("mask", "unsigned", &mask), ("udata", "void *", &data), ("fptr", "cudnnCallback_t", &address)];
    Call::new("cudnnSetCallback", &parameters).run(|| {
        callback::set(mask, data, function);
        Ok(())
    })
}

/// What [`cudnnSetCallback`] set last: mask, data and function; the function is null for the default.
///
/// # Safety
/// Each pointer is null or has room for its value.
pub unsafe extern "C" fn cudnnGetCallback(
    mask: *mut c_uint,
    data: *mut *mut c_void,
    function: *mut cudnnCallback_t,
) -> Status {
    Call::new("cudnnGetCallback", &[]).run(|| {
        let current = callback::get();
        // SAFETY: as promised by the caller.
        unsafe {
            give(mask, "the pointer to a mask", || Ok(current.mask))?;
            give(data, "the pointer to the data", || Ok(current.data()))?;
            give(function, "the pointer to a function", || Ok(current.function))
        }
    })
}

/// The version of the API: 10000 · major + 100 · minor + patch.
pub extern "C" fn cudnnGetVersion() -> usize {
    logging::VERSION as usize
}

/// The CUDA version of the driver: 1000 · major + 10 · minor; 0 where there is none. No CUDA runtime is used.
pub extern "C" fn cudnnGetCudartVersion() -> usize {
    let _inside = gate::enter();
    let version = catch_unwind(|| Driver::load().map(|driver| driver.version()).unwrap_or_default());
    let (major, minor) = version.unwrap_or_default();
    (1000 * major + 10 * minor) as usize
}

/// A part of the version: 0 major, 1 minor, 2 patch.
///
/// # Safety
/// `value` is null or has room for a number.
pub unsafe extern "C" fn cudnnGetProperty(property: u32, value: *mut c_int) -> Status {
    // SAFETY: as promised by the caller.
    Call::new("cudnnGetProperty", &[("type", "libraryPropertyType", &property), ("value", "int *", &value)]).run(
        || unsafe {
            give(value, "the pointer to a value", || {
                let part = VERSION.get(property as usize).copied();
                part.ok_or_else(|| {
                    Failure::new(Status::CUDNN_STATUS_INVALID_VALUE, format!("{property} is no property"))
                })
            })
        },
    )
}

/// Whether the parts of the library belong together; there is one part.
pub extern "C" fn cudnnGraphVersionCheck() -> Status {
    Status::CUDNN_STATUS_SUCCESS
}

/// The name of a status, which lives as long as the program.
pub extern "C" fn cudnnGetErrorString(status: u32) -> *const c_char {
    let _inside = gate::enter();
    let name = NAMES.iter().find(|name| name.0 == status);
    name.map_or(UNKNOWN, |name| name.1.as_c_str()).as_ptr()
}

/// Writes the text of the calling thread's latest failure, cut to the room there is and ended by a zero byte; the text is
/// forgotten with that.
///
/// # Safety
/// `message` is null or has room for `room` bytes.
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
    failure::STATUSES.iter().filter_map(named).collect()
});
