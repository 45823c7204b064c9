//! DLPack's C structures (version 1.1 of its header), and the types of elements that it shares with graphs.

use std::ffi::c_void;

use fusewright::graph::DataType;

pub(crate) const CPU: i32 = 1;
pub(crate) const CUDA: i32 = 2;
pub(crate) const CUDA_HOST: i32 = 3;
pub(crate) const CUDA_MANAGED: i32 = 13;

/// Where memory is.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Device {
    pub(crate) kind: i32,
    pub(crate) id: i32,
}

/// What an element is.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ElementType {
    pub(crate) code: u8,
    pub(crate) bits: u8,
    pub(crate) lanes: u16,
}

/// A view of memory.
#[repr(C)]
pub(crate) struct View {
    pub(crate) data: *mut c_void,
    pub(crate) device: Device,
    pub(crate) ndim: i32,
    pub(crate) element: ElementType,
    pub(crate) shape: *mut i64,
    pub(crate) strides: *mut i64,
    pub(crate) byte_offset: u64,
}

/// A view with its owner, as `dltensor` capsules hold it.
#[repr(C)]
pub(crate) struct Managed {
    pub(crate) view: View,
    pub(crate) manager: *mut c_void,
    pub(crate) deleter: Option<unsafe extern "C" fn(*mut Self)>,
}

/// A view with its owner, as `dltensor_versioned` capsules hold it.
#[repr(C)]
pub(crate) struct ManagedVersioned {
    pub(crate) major: u32,
    pub(crate) minor: u32,
    pub(crate) manager: *mut c_void,
    pub(crate) deleter: Option<unsafe extern "C" fn(*mut Self)>,
    pub(crate) flags: u64,
    pub(crate) view: View,
}

/// Codes of DLPack's types beside those of graphs.
const TYPES: [(DataType, u8, u8); 11] = [
    (DataType::Int8, 0, 8),
    (DataType::Int32, 0, 32),
    (DataType::Int64, 0, 64),
    (DataType::UInt8, 1, 8),
    (DataType::Half, 2, 16),
    (DataType::Float, 2, 32),
    (DataType::Double, 2, 64),
    (DataType::BFloat16, 4, 16),
    (DataType::Boolean, 6, 8),
    (DataType::Fp8E4M3, 10, 8),
    (DataType::Fp8E5M2, 12, 8),
];

impl ElementType {
    /// DLPack's name of a type of host memory; booleans take a byte each.
    pub(crate) fn of(data_type: DataType) -> Option<Self> {
        let (_, code, bits) = TYPES.into_iter().find(|known| known.0 == data_type)?;
        Some(Self { code, bits, lanes: 1 })
    }

    /// The type of graphs that elements have.
    pub(crate) fn data_type(self) -> Option<DataType> {
        TYPES.into_iter().find(|known| (known.1, known.2, 1) == (self.code, self.bits, self.lanes)).map(|known| known.0)
    }

    /// Bytes of an element.
    pub(crate) fn bytes(self) -> usize {
        usize::from(self.bits / 8)
    }
}
