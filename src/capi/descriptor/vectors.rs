//! Vectors of C++, as the frontend gives the shapes of an execution: by the address of a `std::vector<std::vector<int64_t>>`.

use std::ffi::c_void;

use super::super::attribute::MAX_DIMS;
use super::super::failure::{Failure, Result};

/// Most vectors of a vector: an execution has fewer tensors.
const MOST: usize = 1 << 16;

/// As `std::vector` lies in memory, in libstdc++ and libc++: the first element, the end of the last, the end of the room.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Vector {
    first: *const c_void,
    end: *const c_void,
    room: *const c_void,
}

impl Vector {
    /// The vector of some elements, while these live.
    #[cfg(any(test, feature = "fuzz"))]
    pub(crate) fn of<T>(elements: &[T]) -> Self {
        let std::ops::Range { start, end } = elements.as_ptr_range();
        Self { first: start.cast(), end: end.cast(), room: end.cast() }
    }

    /// How many elements of a size it has, at most so many.
    fn count(&self, bytes: usize, most: usize) -> Result<usize> {
        let length = self.end.addr().checked_sub(self.first.addr()).filter(|length| length % bytes == 0);
        let is_there = |count: &usize| *count <= most && (*count == 0 || !self.first.is_null());
        let count = length.map(|length| length / bytes).filter(is_there);
        count.ok_or_else(|| Failure::bad("what is given is the address of no std::vector<std::vector<int64_t>>"))
    }

    /// Copies the elements.
    ///
    /// # Safety
    /// It is a vector of elements of this type.
    unsafe fn elements<T: Copy>(&self, most: usize) -> Result<Vec<T>> {
        let count = self.count(size_of::<T>(), most)?;
        // SAFETY: as promised by the caller.
        Ok((0..count).map(|index| unsafe { self.first.cast::<T>().add(index).read_unaligned() }).collect())
    }
}

/// The integers of a vector of vectors.
///
/// # Safety
/// The address is that of a `std::vector<std::vector<int64_t>>`.
pub(super) unsafe fn rows(address: *const c_void) -> Result<Vec<Vec<i64>>> {
    // SAFETY: as promised by the caller.
    unsafe {
        let vectors = address.cast::<Vector>().read_unaligned().elements::<Vector>(MOST)?;
        vectors.iter().map(|vector| vector.elements(MAX_DIMS)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_read_and_what_is_none_is_refused() {
        let read = |vectors: &[Vector]| {
            let outer = Vector::of(vectors);
            // SAFETY: it is laid out as such a vector.
            unsafe { rows((&raw const outer).cast()) }.map_err(|failure| failure.message)
        };
        let integers = [vec![1_i64, 64, 32], vec![], vec![7; MAX_DIMS]];
        let vectors = integers.each_ref().map(|integers| Vector::of(integers));
        assert_eq!(read(&vectors), Ok(integers.to_vec()));
        assert_eq!(read(&[]), Ok(Vec::new()));
        for (what, elements) in [("axes", 8 * MAX_DIMS + 8), ("half an integer", 12)] {
            let bytes = vec![0_u8; elements];
            let why = read(&[Vector::of(&bytes)]).unwrap_err();
            assert!(why.contains("no std::vector<std::vector<int64_t>>"), "{what}: {why}");
        }
    }
}
