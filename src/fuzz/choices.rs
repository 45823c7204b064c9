//! Decisions drawn from bytes.

use arbitrary::Unstructured;

/// Draws decisions from a string of bytes. Once it is used up each decision is the first of its kind, so that short
/// strings make simple graphs.
pub(super) struct Choices<'a>(Unstructured<'a>);

impl<'a> Choices<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self(Unstructured::new(bytes))
    }

    /// A number below `count`, which is not 0.
    pub(super) fn below(&mut self, count: usize) -> usize {
        self.0.choose_index(count).unwrap_or(0)
    }

    /// One of some values; there is at least one.
    pub(super) fn of<T: Clone>(&mut self, values: &[T]) -> T {
        values[self.below(values.len())].clone()
    }

    /// True in so many of a hundred cases.
    pub(super) fn chance(&mut self, percent: usize) -> bool {
        self.below(100) >= 100 - percent
    }

    /// An index among those of a slice; `None` where it is empty.
    pub(super) fn index_of<T>(&mut self, values: &[T]) -> Option<usize> {
        (!values.is_empty()).then(|| self.below(values.len()))
    }
}
