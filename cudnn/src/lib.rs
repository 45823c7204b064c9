//! The shared library with the cuDNN 9 backend ABI: the functions of [`fusewright::capi`] under the names that C programs call.
//!
//! No other crate exports these names. Whatever links one that did, such as a program or an extension of Python, would capture
//! the calls that other libraries of its process make to cuDNN.

use std::arch::naked_asm;

/// Exports functions of [`fusewright::capi`]. Each is a jump, which leaves registers and stack as the caller made them, so that
/// a signature is said once, where the function is.
macro_rules! export {
    ($($function:ident)*) => {
        $(
            #[doc = concat!("[`fusewright::capi::", stringify!($function), "`].")]
            ///
            /// # Safety
            /// As there; it is called with that function's signature.
            #[unsafe(naked)]
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $function() {
                #[cfg(target_arch = "x86_64")]
                naked_asm!("jmp {}", sym fusewright::capi::$function);
                #[cfg(target_arch = "aarch64")]
                naked_asm!("b {}", sym fusewright::capi::$function);
            }
        )*
    };
}

export! {
    cudnnCreate
    cudnnDestroy
    cudnnSetStream
    cudnnGetStream
    cudnnBackendCreateDescriptor
    cudnnBackendDestroyDescriptor
    cudnnBackendInitialize
    cudnnBackendSetAttribute
    cudnnBackendGetAttribute
    cudnnBackendFinalize
    cudnnBackendExecute
    cudnnBackendPopulateCudaGraph
    cudnnBackendUpdateCudaGraph
    cudnnSetCallback
    cudnnGetCallback
    cudnnGetVersion
    cudnnGetCudartVersion
    cudnnGetProperty
    cudnnGraphVersionCheck
    cudnnGetErrorString
    cudnnGetLastErrorString
    cudnnCreateFilterDescriptor
    cudnnDestroyFilterDescriptor
    cudnnSetFilterNdDescriptor
    cudnnReorderFilterAndBias
}
