//! What callers hold pointers to, by numbers that are given out once.

use std::collections::HashMap;
use std::ffi::c_void;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, RwLock};

/// Parts that are locked on their own, so that threads do not wait for each other.
const SHARDS: usize = 64;

/// The first number, and the distance of two: none is an address that a program could hold by accident, as user space ends
/// below 2^47 on x86-64 and 2^52 on AArch64.
const FIRST: usize = 0x7fd0_0000_0000_0010;
const STEP: usize = 16;

/// The objects of a part by their numbers; none until the first comes.
type Shard<T> = RwLock<Option<HashMap<usize, Arc<T>, BuildHasherDefault<NumberHasher>>>>;

/// Hashes numbers that are our own, in a part of the time that hashing against collisions takes.
#[derive(Default)]
struct NumberHasher(u64);

impl Hasher for NumberHasher {
    fn write_usize(&mut self, number: usize) {
        // spreads the low bits, in which numbers differ, over the high ones, which tables look at first
        self.0 = (number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(26);
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_usize(self.0 as usize ^ usize::from(byte)));
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// The number that comes next. All registries share it, so that a pointer to an object of another kind is found out, too.
static NEXT: AtomicUsize = AtomicUsize::new(FIRST);

/// Objects of one kind under the numbers that stand for them. A number is never given out again.
pub(super) struct Registry<T> {
    shards: [Shard<T>; SHARDS],
}

impl<T> Registry<T> {
    pub(super) const fn new() -> Self {
        Self { shards: [const { RwLock::new(None) }; SHARDS] }
    }

    fn shard(&self, number: usize) -> &Shard<T> {
        &self.shards[number / STEP % SHARDS]
    }

    /// Keeps an object; gives the pointer that stands for it.
    pub(super) fn insert(&self, object: T) -> *mut c_void {
        let number = NEXT.fetch_add(STEP, Ordering::Relaxed);
        let mut shard = self.shard(number).write().unwrap_or_else(std::sync::PoisonError::into_inner);
        shard.get_or_insert_default().insert(number, Arc::new(object));
        std::ptr::without_provenance_mut(number)
    }

    /// The object that a pointer stands for; `None` for every other pointer.
    pub(super) fn get(&self, pointer: *const c_void) -> Option<Arc<T>> {
        let shard = self.shard(pointer.addr()).read().unwrap_or_else(std::sync::PoisonError::into_inner);
        shard.as_ref()?.get(&pointer.addr()).cloned()
    }

    /// Forgets an object; others may go on holding it. `None` where the pointer stands for none.
    pub(super) fn remove(&self, pointer: *const c_void) -> Option<Arc<T>> {
        let mut shard = self.shard(pointer.addr()).write().unwrap_or_else(std::sync::PoisonError::into_inner);
        shard.as_mut()?.remove(&pointer.addr())
    }
}
