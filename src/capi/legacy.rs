//! Functions of the older API that the frontend's headers name, so that programs which are not optimised link. They reorder
//! filters for the INT8x32 layout, which no engine takes.
#![expect(non_snake_case, reason = "names of the ABI")]

use std::ffi::{c_int, c_void};

use cudarc::cudnn::sys::cudnnStatus_t as Status;

use super::calls::Call;
use super::failure::Failure;

fn refused(function: &'static str) -> Status {
    Call::new(function, &[]).run(|| Err(Failure::unsupported("no engine takes filters in the INT8x32 layout")))
}

/// Not supported.
pub extern "C" fn cudnnCreateFilterDescriptor(_filter: *mut *mut c_void) -> Status {
    refused("cudnnCreateFilterDescriptor")
}

/// Not supported.
pub extern "C" fn cudnnDestroyFilterDescriptor(_filter: *mut c_void) -> Status {
    refused("cudnnDestroyFilterDescriptor")
}

/// Not supported.
pub extern "C" fn cudnnSetFilterNdDescriptor(
    _filter: *mut c_void,
    _data_type: u32,
    _format: u32,
    _count: c_int,
    _dim: *const c_int,
) -> Status {
    refused("cudnnSetFilterNdDescriptor")
}

/// Not supported.
pub extern "C" fn cudnnReorderFilterAndBias(
    _handle: *mut c_void,
    _filter: *mut c_void,
    _reordering: u32,
    _filter_data: *const c_void,
    _reordered_filter: *mut c_void,
    _reorders_bias: c_int,
    _bias_data: *const c_void,
    _reordered_bias: *mut c_void,
) -> Status {
    refused("cudnnReorderFilterAndBias")
}
