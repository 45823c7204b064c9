//! The CUDA driver's functions, over the types of cudarc.
//!
//! They are looked up by hand, as NVRTC's are (`compile/library.rs`), for three reasons. cudarc opens `libcuda.so`, which
//! is the name of the toolkit's stub, before `libcuda.so.1`, which is the driver's. It panics where a function is missing.
//! And its results are an enumeration, for which a number that it lacks is undefined behaviour; here they are numbers.
//! That the signatures are the driver's, the compiler checks against cudarc's.

use std::ffi::{CStr, c_char, c_int, c_uchar, c_uint, c_ulonglong, c_void};
use std::fmt;
use std::mem::ManuallyDrop;
use std::path::PathBuf;
use std::sync::OnceLock;

use cudarc::driver::sys::{
    self, CUDA_KERNEL_NODE_PARAMS, CUcontext, CUdevice, CUdevice_attribute, CUdeviceptr, CUevent, CUfunction,
    CUfunction_attribute, CUgraph, CUgraphEdgeData, CUgraphExec, CUgraphNode, CUgraphNodeType, CUlaunchConfig,
    CUmodule, CUpointer_attribute, CUresult, CUstream, CUstreamCaptureMode, CUstreamCaptureStatus, CUtensorMap,
    CUtensorMapDataType, CUtensorMapFloatOOBfill, CUtensorMapInterleave, CUtensorMapL2promotion, CUtensorMapSwizzle,
};
use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};

use crate::compile::{containing_file, loader_reason, symbol};

/// Names of the driver's library, in the order in which they are tried. Every driver has the first.
const NAMES: [&str; 2] = ["libcuda.so.1", "libcuda.so"];

static DRIVER: OnceLock<Driver> = OnceLock::new();

/// A result other than success, by its number.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct CudaError(c_int);

impl CudaError {
    /// Whether it is this result.
    pub(crate) fn is(self, code: CUresult) -> bool {
        self.0 == code as c_int
    }

    /// The CUDA name, or the number where the driver knows none.
    pub(super) fn name(self) -> String {
        let mut name: *const c_char = std::ptr::null();
        // SAFETY: the pointer is valid for one address; any number may be asked for.
        let asked = unsafe { cuGetErrorName(self.0, &raw mut name) };
        if asked.is_err() || name.is_null() {
            return format!("CUDA error {}", self.0);
        }
        // SAFETY: a string of the driver, which is never unloaded.
        unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned()
    }
}

impl fmt::Display for CudaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name())
    }
}

impl fmt::Debug for CudaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.name(), self.0)
    }
}

impl std::error::Error for CudaError {}

fn checked(code: c_int) -> Result<(), CudaError> {
    if code == CUresult::CUDA_SUCCESS as c_int { Ok(()) } else { Err(CudaError(code)) }
}

/// Why there is no driver.
#[derive(Debug)]
pub(super) enum Missing {
    /// No library of [`NAMES`] can be opened.
    Library { names: [&'static str; 2], reasons: Vec<String> },
    /// The library that was opened lacks a function.
    Function { name: &'static str, path: PathBuf },
}

/// The table of functions, and a function for each: its result, or that of a missing function.
///
/// Calling one asks what the driver's documentation of it asks.
macro_rules! functions {
    (
        required { $($(#[$used:meta])? $required:ident($($parameter:ident: $type:ty),*);)* }
        optional { $($optional:ident($($o_parameter:ident: $o_type:ty),*);)* }
    ) => {
        /// The functions of the library.
        #[expect(non_snake_case, reason = "the driver's names")]
        struct Driver {
            $($(#[$used])? $required: unsafe extern "C" fn($($type),*) -> c_int,)*
            $($optional: Option<unsafe extern "C" fn($($o_type),*) -> c_int>,)*
            cuGetErrorName: unsafe extern "C" fn(c_int, *mut *const c_char) -> c_int,
        }

        impl Driver {
            /// # Safety
            /// The library is a CUDA driver.
            unsafe fn of(library: &Library) -> Result<Self, &'static str> {
                // SAFETY: as promised by the caller, the symbols have the C signatures of the fields.
                unsafe {
                    Ok(Self {
                        $(
                            $(#[$used])?
                            $required: symbol(library, stringify!($required)).map_err(|_| stringify!($required))?,
                        )*
                        $($optional: symbol(library, stringify!($optional)).ok(),)*
                        cuGetErrorName: symbol(library, "cuGetErrorName").map_err(|_| "cuGetErrorName")?,
                    })
                }
            }

            fn has(&self, name: &str) -> bool {
                match name {
                    $(stringify!($optional) => self.$optional.is_some(),)*
                    _ => false,
                }
            }
        }

        $(
            const _: unsafe fn($($type),*) -> CUresult = sys::$required;

            $(#[$used])?
            #[expect(non_snake_case, reason = "the driver's name")]
            pub(crate) unsafe fn $required($($parameter: $type),*) -> Result<(), CudaError> {
                // SAFETY: as promised by the caller.
                checked(unsafe { (driver()?.$required)($($parameter),*) })
            }
        )*

        $(
            const _: unsafe fn($($o_type),*) -> CUresult = sys::$optional;

            #[allow(clippy::too_many_arguments, reason = "the driver's signature")]
            #[expect(non_snake_case, reason = "the driver's name")]
            pub(crate) unsafe fn $optional($($o_parameter: $o_type),*) -> Result<(), CudaError> {
                let function = driver()?.$optional.ok_or(CudaError(CUresult::CUDA_ERROR_NOT_FOUND as c_int))?;
                // SAFETY: as promised by the caller.
                checked(unsafe { function($($o_parameter),*) })
            }
        )*
    };
}

functions! {
    // what each plan needs
    required {
        cuCtxGetCurrent(context: *mut CUcontext);
        cuCtxGetDevice(device: *mut CUdevice);
        cuCtxPopCurrent_v2(context: *mut CUcontext);
        cuCtxPushCurrent_v2(context: CUcontext);
        #[cfg(feature = "fuzz")]
        cuCtxSetCurrent(context: CUcontext);
        cuCtxSynchronize();
        cuDeviceGet(device: *mut CUdevice, ordinal: c_int);
        cuDeviceGetAttribute(value: *mut c_int, attribute: CUdevice_attribute, device: CUdevice);
        cuDeviceGetCount(count: *mut c_int);
        cuDeviceGetName(name: *mut c_char, bytes: c_int, device: CUdevice);
        cuDevicePrimaryCtxRelease_v2(device: CUdevice);
        cuDevicePrimaryCtxRetain(context: *mut CUcontext, device: CUdevice);
        cuDriverGetVersion(version: *mut c_int);
        cuEventCreate(event: *mut CUevent, flags: c_uint);
        cuEventDestroy_v2(event: CUevent);
        cuEventRecord(event: CUevent, stream: CUstream);
        cuFuncSetAttribute(function: CUfunction, attribute: CUfunction_attribute, value: c_int);
        cuInit(flags: c_uint);
        cuLaunchKernelEx(
            config: *const CUlaunchConfig, function: CUfunction, parameters: *mut *mut c_void, extra: *mut *mut c_void
        );
        cuMemAlloc_v2(pointer: *mut CUdeviceptr, bytes: usize);
        cuMemFree_v2(pointer: CUdeviceptr);
        cuMemcpyDtoDAsync_v2(to: CUdeviceptr, from: CUdeviceptr, bytes: usize, stream: CUstream);
        cuMemcpyDtoHAsync_v2(to: *mut c_void, from: CUdeviceptr, bytes: usize, stream: CUstream);
        cuMemcpyHtoDAsync_v2(to: CUdeviceptr, from: *const c_void, bytes: usize, stream: CUstream);
        cuMemsetD8Async(pointer: CUdeviceptr, byte: c_uchar, bytes: usize, stream: CUstream);
        cuModuleGetFunction(function: *mut CUfunction, module: CUmodule, name: *const c_char);
        cuModuleLoadData(module: *mut CUmodule, image: *const c_void);
        cuModuleUnload(module: CUmodule);
        cuStreamCreate(stream: *mut CUstream, flags: c_uint);
        cuStreamDestroy_v2(stream: CUstream);
        cuStreamQuery(stream: CUstream);
        cuStreamSynchronize(stream: CUstream);
    }
    // tensor maps, CUDA graphs, captures, measuring, several GPUs
    optional {
        cuEventElapsedTime_v2(milliseconds: *mut f32, start: CUevent, end: CUevent);
        cuGraphAddDependencies_v2(
            graph: CUgraph, from: *const CUgraphNode, to: *const CUgraphNode, edges: *const CUgraphEdgeData,
            count: usize
        );
        cuGraphAddKernelNode_v2(
            node: *mut CUgraphNode, graph: CUgraph, dependencies: *const CUgraphNode, count: usize,
            parameters: *const CUDA_KERNEL_NODE_PARAMS
        );
        cuGraphCreate(graph: *mut CUgraph, flags: c_uint);
        cuGraphDestroy(graph: CUgraph);
        cuGraphDestroyNode(node: CUgraphNode);
        cuGraphExecDestroy(executable: CUgraphExec);
        cuGraphExecKernelNodeSetParams_v2(
            executable: CUgraphExec, node: CUgraphNode, parameters: *const CUDA_KERNEL_NODE_PARAMS
        );
        cuGraphGetNodes(graph: CUgraph, nodes: *mut CUgraphNode, count: *mut usize);
        cuGraphInstantiateWithFlags(executable: *mut CUgraphExec, graph: CUgraph, flags: c_ulonglong);
        cuGraphKernelNodeGetParams_v2(node: CUgraphNode, parameters: *mut CUDA_KERNEL_NODE_PARAMS);
        cuGraphKernelNodeSetParams_v2(node: CUgraphNode, parameters: *const CUDA_KERNEL_NODE_PARAMS);
        cuGraphLaunch(executable: CUgraphExec, stream: CUstream);
        cuGraphNodeGetType(node: CUgraphNode, kind: *mut CUgraphNodeType);
        cuCtxEnablePeerAccess(context: CUcontext, flags: c_uint);
        cuMemFreeHost(pointer: *mut c_void);
        cuMemHostAlloc(pointer: *mut *mut c_void, bytes: usize, flags: c_uint);
        cuPointerGetAttribute(value: *mut c_void, attribute: CUpointer_attribute, pointer: CUdeviceptr);
        cuStreamGetCtx(stream: CUstream, context: *mut CUcontext);
        cuStreamIsCapturing(stream: CUstream, status: *mut CUstreamCaptureStatus);
        cuTensorMapEncodeIm2col(
            map: *mut CUtensorMap, element: CUtensorMapDataType, rank: u32, address: *mut c_void, dims: *const u64,
            strides: *const u64, lower: *const c_int, upper: *const c_int, channels: u32, pixels: u32,
            element_strides: *const u32, interleave: CUtensorMapInterleave, swizzle: CUtensorMapSwizzle,
            promotion: CUtensorMapL2promotion, fill: CUtensorMapFloatOOBfill
        );
        cuTensorMapEncodeTiled(
            map: *mut CUtensorMap, element: CUtensorMapDataType, rank: u32, address: *mut c_void, dims: *const u64,
            strides: *const u64, box_dims: *const u32, element_strides: *const u32, interleave: CUtensorMapInterleave,
            swizzle: CUtensorMapSwizzle, promotion: CUtensorMapL2promotion, fill: CUtensorMapFloatOOBfill
        );
        cuTensorMapReplaceAddress(map: *mut CUtensorMap, address: *mut c_void);
        cuThreadExchangeStreamCaptureMode(mode: *mut CUstreamCaptureMode);
    }
}

/// By number, which cudarc's has not: the driver names those that no enumeration has, too.
#[expect(non_snake_case, reason = "the driver's name")]
unsafe fn cuGetErrorName(error: c_int, name: *mut *const c_char) -> Result<(), CudaError> {
    // SAFETY: as promised by the caller.
    checked(unsafe { (driver()?.cuGetErrorName)(error, name) })
}

/// The functions, once [`load`] has found them.
fn driver() -> Result<&'static Driver, CudaError> {
    DRIVER.get().ok_or(CudaError(CUresult::CUDA_ERROR_NOT_INITIALIZED as c_int))
}

/// Finds the functions: at the first call that succeeds, for the process.
pub(super) fn load() -> Result<(), Missing> {
    if DRIVER.get().is_some() {
        return Ok(());
    }
    let mut reasons = Vec::new();
    for name in NAMES {
        // SAFETY: opens a library by a name of the CUDA driver, whose initialisers ask nothing of the process.
        match unsafe { Library::open(Some(name), RTLD_NOW | RTLD_LOCAL) } {
            Ok(library) => {
                let driver = functions_of(library)?;
                // another thread may have been faster, with the same library
                let _ = DRIVER.set(driver);
                return Ok(());
            }
            Err(error) => reasons.push(loader_reason(&error)),
        }
    }
    Err(Missing::Library { names: NAMES, reasons })
}

/// The functions of a driver, which stays open.
fn functions_of(library: Library) -> Result<Driver, Missing> {
    let library = ManuallyDrop::new(library);
    // SAFETY: a library under the driver's name, whose functions have the signatures of `cuda.h`.
    unsafe { Driver::of(&library) }.map_err(|name| Missing::Function { name, path: path_of(&library) })
}

/// The file of the library that is used; empty where none is.
pub(super) fn path() -> PathBuf {
    DRIVER.get().and_then(|driver| containing_file(driver.cuInit as *const c_void)).unwrap_or_default()
}

fn path_of(library: &Library) -> PathBuf {
    // SAFETY: looked up, not called; any function of the driver lies in the file.
    let found: Result<unsafe extern "C" fn(c_uint) -> c_int, _> = unsafe { symbol(library, "cuInit") };
    found
        .ok()
        .and_then(|function| containing_file(function as *const c_void))
        .unwrap_or_else(|| PathBuf::from("libcuda"))
}

/// Whether the driver has a function beyond those that it must have.
pub(super) fn has(name: &str) -> bool {
    DRIVER.get().is_some_and(|driver| driver.has(name))
}
