//! What an attribute of a descriptor is, and tables of them.

use std::ops::RangeInclusive;

use cudarc::cudnn::sys::cudnnBackendAttributeName_t as Name;
use cudarc::cudnn::sys::cudnnBackendAttributeType_t as Type;
use cudarc::cudnn::sys::cudnnBackendDescriptorType_t as Kind;

/// Most axes of a tensor (D-R6).
pub(crate) const MAX_DIMS: usize = 8;

/// Most elements of an attribute, of those that have any number: what a text with a binary in it may have, and more.
pub(crate) const MAX_ELEMENTS: usize = 1 << 30;

/// Who gives an attribute its value.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// The caller has to.
    Required,
    /// The caller may.
    Optional,
    /// The descriptor, once it is finalized.
    Computed,
    /// Nobody: no engine has what it is about.
    Unsupported,
}

/// One attribute of a descriptor.
pub(crate) struct Attribute {
    pub(crate) name: Name,
    /// Types that its elements may be given in; they are got in the first.
    pub(crate) types: &'static [Type],
    /// Kinds of the descriptors that it refers to; none where it refers to none.
    pub(crate) kinds: &'static [Kind],
    pub(crate) count: RangeInclusive<usize>,
    pub(crate) access: Access,
}

impl Attribute {
    /// Whether its element is the address of a vector of vectors of C++.
    pub(crate) fn has_rows(&self) -> bool {
        [Name::CUDNN_ATTR_VARIANT_PACK_OVERRIDE_SHAPES, Name::CUDNN_ATTR_VARIANT_PACK_OVERRIDE_STRIDES]
            .contains(&self.name)
    }

    /// Whether it is got as it is now, and not as it was set.
    pub(super) fn is_living(&self) -> bool {
        self.name == Name::CUDNN_ATTR_KERNEL_CACHE_JSON_REPRESENTATION
    }
}

pub(super) const ONE: RangeInclusive<usize> = 1..=1;
pub(super) const ANY: RangeInclusive<usize> = 0..=usize::MAX;
pub(super) const SOME: RangeInclusive<usize> = 1..=usize::MAX;
pub(super) const AXES: RangeInclusive<usize> = 1..=MAX_DIMS;

pub(super) const INT64: &[Type] = &[Type::CUDNN_TYPE_INT64];
pub(super) const INT32: &[Type] = &[Type::CUDNN_TYPE_INT32];
pub(super) const BOOLEAN: &[Type] = &[Type::CUDNN_TYPE_BOOLEAN];
pub(super) const NUMBER: &[Type] = &[Type::CUDNN_TYPE_DOUBLE, Type::CUDNN_TYPE_FLOAT];
pub(super) const FRACTION: &[Type] = &[Type::CUDNN_TYPE_FRACTION, Type::CUDNN_TYPE_INT64];
pub(super) const DATA_TYPE: &[Type] = &[Type::CUDNN_TYPE_DATA_TYPE];
pub(super) const DESCRIPTOR: &[Type] = &[Type::CUDNN_TYPE_BACKEND_DESCRIPTOR];
pub(super) const HANDLE: &[Type] = &[Type::CUDNN_TYPE_HANDLE];
pub(super) const POINTER: &[Type] = &[Type::CUDNN_TYPE_VOID_PTR];
pub(super) const CHAR: &[Type] = &[Type::CUDNN_TYPE_CHAR];
pub(super) const NAN: &[Type] = &[Type::CUDNN_TYPE_NAN_PROPOGATION];

/// What a slot for a tensor refers to.
pub(super) const TENSORS: &[Kind] = &[Kind::CUDNN_BACKEND_TENSOR_DESCRIPTOR];

/// Tables of attributes, one row an attribute: who gives it its value, its name, types and count, and the kinds of the descriptors
/// that it refers to.
macro_rules! attributes {
    (@kinds) => { &[] };
    (@kinds $kinds:ident) => { $kinds };
    ($($table:ident { $($access:ident $name:ident: $types:expr, $count:expr $(, $kinds:ident)?;)* })*) => {
        $(const $table: &[$crate::capi::attribute::Attribute] = &[$($crate::capi::attribute::Attribute {
            name: cudarc::cudnn::sys::cudnnBackendAttributeName_t::$name,
            types: $types,
            kinds: $crate::capi::attribute::attributes!(@kinds $($kinds)?),
            count: $count,
            access: $crate::capi::attribute::Access::$access,
        }),*];)*
    };
}

pub(super) use attributes;
