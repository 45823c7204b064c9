//! Arrays of elements as C programs give them.

use cudarc::cudnn::sys::cudnnBackendAttributeType_t as Type;

use crate::capi::attribute::MAX_DIMS;
use crate::graph::Fraction;

/// A pointer as a caller holds it: a number.
pub(super) type Pointer = usize;

/// Bytes of an element of a type; of an unknown one as many as the largest has.
pub(super) fn size(of_type: u32) -> usize {
    let is = |one: Type| one as u32 == of_type;
    let any = |types: &[Type]| types.iter().any(|&one| is(one));
    match of_type {
        _ if any(&[Type::CUDNN_TYPE_BOOLEAN, Type::CUDNN_TYPE_CHAR]) => 1,
        _ if any(&[Type::CUDNN_TYPE_INT64, Type::CUDNN_TYPE_DOUBLE, Type::CUDNN_TYPE_VOID_PTR]) => 8,
        _ if any(&[Type::CUDNN_TYPE_HANDLE, Type::CUDNN_TYPE_BACKEND_DESCRIPTOR]) => 8,
        _ if is(Type::CUDNN_TYPE_FRACTION) || of_type > Type::CUDNN_TYPE_RNG_DISTRIBUTION as u32 => 16,
        _ => 4,
    }
}

/// Elements of a type.
#[derive(Clone)]
pub(super) struct Elements {
    pub(super) of_type: Type,
    pub(super) bytes: Vec<u8>,
}

impl Elements {
    pub(super) fn count(&self) -> i64 {
        (self.bytes.len() / size(self.of_type as u32)) as i64
    }

    fn new<const N: usize>(of_type: Type, elements: impl IntoIterator<Item = [u8; N]>) -> Self {
        Self { of_type, bytes: elements.into_iter().flatten().collect() }
    }

    pub(super) fn int64(values: &[i64]) -> Self {
        Self::new(Type::CUDNN_TYPE_INT64, values.iter().map(|value| value.to_ne_bytes()))
    }

    pub(super) fn double(value: f64) -> Self {
        Self::new(Type::CUDNN_TYPE_DOUBLE, [value.to_ne_bytes()])
    }

    pub(super) fn float(value: f32) -> Self {
        Self::new(Type::CUDNN_TYPE_FLOAT, [value.to_ne_bytes()])
    }

    pub(super) fn boolean(value: bool) -> Self {
        Self::new(Type::CUDNN_TYPE_BOOLEAN, [[u8::from(value)]])
    }

    /// An enumerator of any enumeration.
    pub(super) fn enumerator(of_type: Type, number: u32) -> Self {
        Self::new(of_type, [number.to_ne_bytes()])
    }

    pub(super) fn descriptors(pointers: &[Pointer]) -> Self {
        Self::new(Type::CUDNN_TYPE_BACKEND_DESCRIPTOR, pointers.iter().map(|pointer| pointer.to_ne_bytes()))
    }

    pub(super) fn fractions(values: &[Fraction]) -> Self {
        let numbers = values.iter().flat_map(|value| [value.numerator, value.denominator]);
        Self::new(Type::CUDNN_TYPE_FRACTION, numbers.map(i64::to_ne_bytes))
    }

    pub(super) fn text(text: &[u8]) -> Self {
        Self { of_type: Type::CUDNN_TYPE_CHAR, bytes: text.to_vec() }
    }
}

/// The first `count` pointers in an array of descriptors.
pub(super) fn pointers(bytes: &[u8], count: i64) -> Vec<Pointer> {
    let pointers = bytes.as_chunks().0.iter().map(|&pointer| Pointer::from_ne_bytes(pointer));
    pointers.take(usize::try_from(count).unwrap_or_default()).collect()
}

/// Vectors of integers, as many as fit a pack now and then.
pub(super) fn rows(bytes: &[u8]) -> Vec<Vec<i64>> {
    let row = |&byte: &u8| vec![i64::from(byte); usize::from(byte) % (MAX_DIMS + 1)];
    bytes.iter().take(3).map(row).collect()
}

/// The only number in an array.
pub(super) fn int64(bytes: &[u8]) -> Option<i64> {
    bytes.try_into().map(i64::from_ne_bytes).ok()
}

/// The only number in an array.
pub(super) fn int32(bytes: &[u8]) -> Option<i32> {
    bytes.try_into().map(i32::from_ne_bytes).ok()
}
