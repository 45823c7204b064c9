//! Typed elements that come from C arrays, and go there.

use std::borrow::Cow;
use std::ffi::c_void;
use std::hint::black_box;
use std::sync::Arc;

use cudarc::cudnn::sys::cudnnBackendAttributeType_t as Type;
use cudarc::cudnn::sys::cudnnStatus_t as Status;

use super::super::failure::{Failure, Result};
use super::super::handle::{self, Handle};
use super::{Descriptor, find, vectors};
use crate::graph::Fraction;

/// The elements of an attribute.
#[derive(Clone)]
pub(in crate::capi) enum Values {
    Int64(Vec<i64>),
    Int32(Vec<i32>),
    /// Of any enumeration.
    Enum(Vec<u32>),
    Float(Vec<f32>),
    Double(Vec<f64>),
    Boolean(Vec<bool>),
    Pointer(Vec<usize>),
    /// Of vectors of C++, by the address of one of them.
    Rows(Vec<Vec<i64>>),
    Fraction(Vec<Fraction>),
    Char(Vec<u8>),
    Handle(LibraryHandle),
    Descriptors(Vec<Arc<Descriptor>>),
}

/// A library handle, and the pointer that stands for it.
#[derive(Clone)]
pub(in crate::capi) struct LibraryHandle {
    pub(super) handle: Arc<Handle>,
    pointer: usize,
}

/// As `cudnnFraction_t` lies in memory.
#[repr(C)]
#[derive(Clone, Copy)]
struct RawFraction {
    numerator: i64,
    denominator: i64,
}

impl Values {
    /// Copies the vectors at an address.
    ///
    /// # Safety
    /// `elements` is the address of a `std::vector<std::vector<int64_t>>`, or null.
    pub(super) unsafe fn read_rows(elements: *const c_void) -> Result<Self> {
        if elements.is_null() {
            return Err(Failure::null("the vector of vectors"));
        }
        // SAFETY: as promised by the caller.
        unsafe { vectors::rows(elements) }.map(Self::Rows)
    }

    /// Copies elements of a type.
    ///
    /// # Safety
    /// `elements` points to so many elements of the type, or is null.
    pub(super) unsafe fn read(kind: Type, count: usize, elements: *const c_void) -> Result<Self> {
        if elements.is_null() && count > 0 {
            return Err(Failure::null("the array of elements"));
        }
        // SAFETY: as promised by the caller; each kind is read as its type.
        unsafe {
            Ok(match kind {
                Type::CUDNN_TYPE_INT64 => Self::Int64(copied(elements, count)?),
                Type::CUDNN_TYPE_INT32 => Self::Int32(copied(elements, count)?),
                Type::CUDNN_TYPE_FLOAT => Self::Float(copied(elements, count)?),
                Type::CUDNN_TYPE_DOUBLE => Self::Double(copied(elements, count)?),
                Type::CUDNN_TYPE_CHAR => Self::Char(copied(elements, count)?),
                Type::CUDNN_TYPE_VOID_PTR => Self::Pointer(copied(elements, count)?),
                Type::CUDNN_TYPE_BOOLEAN => {
                    Self::Boolean(copied::<u8>(elements, count)?.into_iter().map(|byte| byte != 0).collect())
                }
                Type::CUDNN_TYPE_FRACTION => {
                    let fraction =
                        |raw: RawFraction| Fraction { numerator: raw.numerator, denominator: raw.denominator };
                    Self::Fraction(copied(elements, count)?.into_iter().map(fraction).collect())
                }
                Type::CUDNN_TYPE_HANDLE => {
                    let handles: Vec<*mut c_void> = copied(elements, count)?;
                    let &pointer = handles.first().ok_or_else(|| Failure::bad("no handle is given"))?;
                    Self::Handle(LibraryHandle { handle: handle::find(pointer)?, pointer: pointer.addr() })
                }
                Type::CUDNN_TYPE_BACKEND_DESCRIPTOR => {
                    let pointers: Vec<*mut c_void> = copied(elements, count)?;
                    let mut descriptors = room(count)?;
                    for pointer in pointers {
                        descriptors.push(find(pointer)?);
                    }
                    Self::Descriptors(descriptors)
                }
                _ => Self::Enum(copied(elements, count)?),
            })
        }
    }

    /// The descriptors; none where it is something else.
    pub(super) fn descriptors(&self) -> &[Arc<Descriptor>] {
        match self {
            Self::Descriptors(values) => values,
            _ => &[],
        }
    }

    pub(super) fn len(&self) -> usize {
        match self {
            Self::Int64(values) => values.len(),
            Self::Int32(values) => values.len(),
            Self::Enum(values) => values.len(),
            Self::Float(values) => values.len(),
            Self::Double(values) => values.len(),
            Self::Boolean(values) => values.len(),
            Self::Pointer(values) => values.len(),
            Self::Fraction(values) => values.len(),
            Self::Char(values) => values.len(),
            Self::Descriptors(values) => values.len(),
            Self::Handle(_) | Self::Rows(_) => 1,
        }
    }

    /// The elements as another type that their attribute may have; numbers are rounded, fractions have to be whole.
    pub(super) fn of_type(values: Cow<'_, Self>, kind: Type) -> Result<Cow<'_, Self>> {
        Ok(Cow::Owned(match (&*values, kind) {
            (Self::Float(values), Type::CUDNN_TYPE_DOUBLE) => {
                Self::Double(values.iter().map(|&value| value.into()).collect())
            }
            (Self::Double(values), Type::CUDNN_TYPE_FLOAT) => {
                Self::Float(values.iter().map(|&value| value as f32).collect())
            }
            (Self::Int64(values), Type::CUDNN_TYPE_FRACTION) => {
                Self::Fraction(values.iter().map(|&value| Fraction::whole(value)).collect())
            }
            (Self::Fraction(values), Type::CUDNN_TYPE_INT64) => {
                Self::Int64(values.iter().map(|&value| whole(value)).collect::<Result<_>>()?)
            }
            _ => return Ok(values),
        }))
    }

    /// Writes at most `room` elements. Descriptors are not written over: those that lie in the array become what these are.
    ///
    /// # Safety
    /// `elements` points to room for so many elements of the type.
    pub(super) unsafe fn write(&self, room: usize, elements: *mut c_void) -> Result<()> {
        // SAFETY: as promised by the caller; each kind is written as its type.
        unsafe {
            match self {
                Self::Int64(values) => store(values, room, elements),
                Self::Int32(values) => store(values, room, elements),
                Self::Enum(values) => store(values, room, elements),
                Self::Float(values) => store(values, room, elements),
                Self::Double(values) => store(values, room, elements),
                Self::Char(values) => store(values, room, elements),
                Self::Pointer(values) => store(values, room, elements),
                Self::Boolean(values) => {
                    let bytes: Vec<u8> = values.iter().map(|&value| u8::from(value)).collect();
                    store(&bytes, room, elements);
                }
                Self::Fraction(values) => {
                    let raw =
                        |value: &Fraction| RawFraction { numerator: value.numerator, denominator: value.denominator };
                    let raw: Vec<RawFraction> = values.iter().map(raw).collect();
                    store(&raw, room, elements);
                }
                Self::Handle(LibraryHandle { pointer, .. }) => store(&[*pointer], room, elements),
                // the vector was the caller's, and may be no more
                Self::Rows(_) => store(&[0_usize], room, elements),
                Self::Descriptors(values) => {
                    let targets: Vec<*mut c_void> = copied(elements, room.min(values.len()))?;
                    for (target, value) in targets.into_iter().zip(values) {
                        find(target)?.become_like(value)?;
                    }
                }
            }
        }
        Ok(())
    }
}

/// The integer that a fraction is.
fn whole(Fraction { numerator, denominator }: Fraction) -> Result<i64> {
    let is_whole = numerator.checked_rem(denominator) == Some(0);
    let quotient = numerator.checked_div(denominator).filter(|_| is_whole);
    quotient.ok_or_else(|| {
        let message = format!("{numerator}/{denominator} is no INT64");
        Failure::new(Status::CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE, message)
    })
}

/// # Safety
/// `elements` points to so many elements, which need not be aligned; any bits are an element.
unsafe fn copied<T: Copy>(elements: *const c_void, count: usize) -> Result<Vec<T>> {
    let mut copies = room(count)?;
    // SAFETY: as promised by the caller.
    copies.extend((0..count).map(|index| unsafe { elements.cast::<T>().add(index).read_unaligned() }));
    Ok(copies)
}

/// An empty list with room for so many elements, as many as a caller may think of.
fn room<T>(count: usize) -> Result<Vec<T>> {
    let mut elements = Vec::new();
    let missing = |_| Failure::memory(count.saturating_mul(size_of::<T>()));
    elements.try_reserve_exact(count).map_err(missing)?;
    Ok(elements)
}

/// Whether so many bytes are to be had now, before something is done that cannot fail for want of them, but ends the process.
pub(super) fn require_memory(bytes: usize) -> Result<()> {
    room::<u8>(bytes).map(|room| drop(black_box(room)))
}

/// # Safety
/// `elements` points to room for so many elements.
unsafe fn store<T: Copy>(values: &[T], room: usize, elements: *mut c_void) {
    for (index, value) in values.iter().take(room).enumerate() {
        // SAFETY: as promised by the caller.
        unsafe { elements.cast::<T>().add(index).write_unaligned(*value) };
    }
}
