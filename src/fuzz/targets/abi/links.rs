//! Descriptors that refer to each other where they should not.

use cudarc::cudnn::sys::cudnnBackendAttributeName_t as Name;
use cudarc::cudnn::sys::cudnnBackendAttributeType_t as Type;
use cudarc::cudnn::sys::cudnnBackendDescriptorType_t as Kind;
use cudarc::cudnn::sys::cudnnPointwiseMode_t as Mode;

use super::caller::Caller;
use super::elements::{Elements, Pointer};
use crate::fuzz::finding::Finding;

/// An attribute of pointwise operations that a ReLU does not use.
pub(super) const UNUSED: Name = Name::CUDNN_ATTR_OPERATION_POINTWISE_DXDESC;

/// What a ReLU refers to.
pub(super) struct Relu {
    mode: Pointer,
    tensors: [Pointer; 2],
}

fn set(caller: &mut Caller, pointer: Pointer, name: Name, elements: &Elements) -> Result<(), Finding> {
    let Elements { of_type, bytes } = elements;
    caller.set(pointer, name as u32, *of_type as u32, elements.count(), Some(bytes)).map(drop)
}

/// Sets an attribute to a descriptor.
///
/// # Errors
/// The first expectation that is not met.
pub(super) fn refer(caller: &mut Caller, pointer: Pointer, name: Name, other: Pointer) -> Result<(), Finding> {
    set(caller, pointer, name, &Elements::descriptors(&[other]))
}

fn tensor(caller: &mut Caller, uid: i64) -> Result<Pointer, Finding> {
    let tensor = caller.create(Kind::CUDNN_BACKEND_TENSOR_DESCRIPTOR as u32)?;
    set(caller, tensor, Name::CUDNN_ATTR_TENSOR_UNIQUE_ID, &Elements::int64(&[uid]))?;
    let float = Elements::enumerator(Type::CUDNN_TYPE_DATA_TYPE, 0);
    set(caller, tensor, Name::CUDNN_ATTR_TENSOR_DATA_TYPE, &float)?;
    set(caller, tensor, Name::CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, &Elements::int64(&[16]))?;
    set(caller, tensor, Name::CUDNN_ATTR_TENSOR_DIMENSIONS, &Elements::int64(&[1, 8, 16]))?;
    set(caller, tensor, Name::CUDNN_ATTR_TENSOR_STRIDES, &Elements::int64(&[128, 16, 1]))?;
    caller.finalize(tensor)?;
    Ok(tensor)
}

impl Relu {
    pub(super) fn new(caller: &mut Caller) -> Result<Self, Finding> {
        let mode = caller.create(Kind::CUDNN_BACKEND_POINTWISE_DESCRIPTOR as u32)?;
        let number = Mode::CUDNN_POINTWISE_RELU_FWD as u32;
        let relu = Elements::enumerator(Type::CUDNN_TYPE_POINTWISE_MODE, number);
        set(caller, mode, Name::CUDNN_ATTR_POINTWISE_MODE, &relu)?;
        let float = Elements::enumerator(Type::CUDNN_TYPE_DATA_TYPE, 0);
        set(caller, mode, Name::CUDNN_ATTR_POINTWISE_MATH_PREC, &float)?;
        caller.finalize(mode)?;
        Ok(Self { mode, tensors: [tensor(caller, 1)?, tensor(caller, 2)?] })
    }

    /// Gives an operation all that it needs.
    pub(super) fn give(&self, caller: &mut Caller, operation: Pointer) -> Result<(), Finding> {
        refer(caller, operation, Name::CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, self.mode)?;
        refer(caller, operation, Name::CUDNN_ATTR_OPERATION_POINTWISE_XDESC, self.tensors[0])?;
        refer(caller, operation, Name::CUDNN_ATTR_OPERATION_POINTWISE_YDESC, self.tensors[1])
    }

    /// An operation that is not finalized.
    pub(super) fn operation(&self, caller: &mut Caller) -> Result<Pointer, Finding> {
        let operation = caller.create(Kind::CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR as u32)?;
        self.give(caller, operation)?;
        Ok(operation)
    }
}
