//! Buffers that notice writes outside them.

/// Bytes of the zone on either side of a buffer.
const RED_ZONE: usize = 4096;

/// Largest alignment of a buffer, that of device allocations.
const MAX_ALIGNMENT: usize = 256;

/// Memory that nobody has written: NaN in every floating-point format.
const POISON: u8 = 0xff;

/// Red zones repeat these two bytes: NaN as half, bfloat16 and float, and no [`POISON`], so that copies of poison are
/// noticed.
const PATTERN: [u8; 2] = [0xc5, 0xff];

/// A buffer between two red zones, aligned to its alignment and to no higher power of two.
#[derive(Debug)]
pub(super) struct GuardedBuffer {
    storage: Vec<u8>,
    start: usize,
    len: usize,
}

impl GuardedBuffer {
    /// A buffer of `len` bytes that nobody has written. `alignment` is taken as a power of two from 1 to 256.
    pub(super) fn poisoned(len: usize, alignment: usize) -> Self {
        let alignment = alignment.clamp(1, MAX_ALIGNMENT).next_power_of_two();
        let mut storage: Vec<u8> = PATTERN.into_iter().cycle().take(len + 2 * RED_ZONE + 2 * MAX_ALIGNMENT).collect();
        let first = storage.as_ptr().addr() + RED_ZONE;
        let start = RED_ZONE + first.next_multiple_of(2 * alignment) - first;
        // Exactly aligned: a kernel that assumes more than the graph guarantees must fail. One multiple further fits.
        let start = start + if alignment < MAX_ALIGNMENT { alignment } else { 0 };
        storage[start..start + len].fill(POISON);
        Self { storage, start, len }
    }

    /// A buffer that holds these bytes.
    pub(super) fn holding(bytes: &[u8], alignment: usize) -> Self {
        let mut buffer = Self::poisoned(bytes.len(), alignment);
        buffer.storage[buffer.start..][..bytes.len()].copy_from_slice(bytes);
        buffer
    }

    /// Address of the first byte. Pointers of several calls may be used side by side.
    pub(super) fn pointer(&mut self) -> *mut u8 {
        self.storage.as_mut_ptr().wrapping_add(self.start)
    }

    /// The contents.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.storage[self.start..][..self.len]
    }

    /// Where a red zone was written to: `3 bytes past the end`; `None` where neither was.
    pub(super) fn damage(&self) -> Option<String> {
        let end = self.start + self.len;
        let is_damaged = |&i: &usize| self.storage[i] != PATTERN[i % 2];
        let below =
            (0..self.start).rev().find(is_damaged).map(|i| format!("{} bytes before the start", self.start - i));
        below.or_else(|| (end..self.storage.len()).find(is_damaged).map(|i| format!("{} bytes past the end", i - end)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_aligned_as_asked_and_no_better() {
        for alignment in [1, 2, 4, 16, 128] {
            let address = GuardedBuffer::poisoned(100, alignment).pointer().addr();
            assert_eq!(address % (2 * alignment), alignment);
        }
        assert_eq!(GuardedBuffer::poisoned(100, 256).pointer().addr() % 256, 0);
        assert_eq!(GuardedBuffer::poisoned(100, 1 << 20).pointer().addr() % 256, 0);
        assert_eq!(GuardedBuffer::poisoned(100, 0).pointer().addr() % 2, 1);
    }

    #[test]
    fn a_write_next_to_the_buffer_is_damage() {
        for len in [0, 1, 7, 5000] {
            let mut buffer = GuardedBuffer::holding(&vec![1; len], 16);
            assert_eq!(buffer.damage(), None);
            let end = buffer.start + len;
            buffer.storage[end] = POISON;
            buffer.storage[end + 1] = POISON - 1;
            assert!(["0 bytes past the end", "1 bytes past the end"].contains(&buffer.damage().unwrap().as_str()));
            buffer.storage[buffer.start - 1] = 0;
            assert_eq!(buffer.damage().unwrap(), "1 bytes before the start");
            assert_eq!(buffer.bytes(), vec![1; len]);
        }
    }

    #[test]
    fn both_zones_are_at_least_a_page() {
        for alignment in [1, 16, 256] {
            let buffer = GuardedBuffer::poisoned(1, alignment);
            assert!(buffer.start >= RED_ZONE && buffer.storage.len() - buffer.start > RED_ZONE);
        }
    }
}
