//! What callers hold pointers to, by numbers that are given out once: never addresses to follow. The library that forwards to another has
//! registries of its own.

use std::collections::HashMap;
use std::ffi::c_void;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

/// Parts that are locked on their own, so that threads do not wait for each other.
const SHARDS: usize = 64;

/// The distance of two numbers.
const STEP: usize = 16;

/// The objects of a part by their numbers; none until the first comes.
type Shard<T> = RwLock<Option<HashMap<usize, Arc<T>, BuildHasherDefault<NumberHasher>>>>;

/// Hashes numbers that are our own, or addresses, in a part of the time that hashing against collisions takes.
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

/// Numbers that are given out once each. Registries share them, so that a pointer to an object of another kind is found out, too.
pub struct Numbers(AtomicUsize);

impl Numbers {
    /// None is an address that a program could hold by accident where the first is above 2^52: user space ends below 2^47 on x86-64 and 2^52 on AArch64.
    pub const fn from(first: usize) -> Self {
        Self(AtomicUsize::new(first))
    }

    fn next(&self) -> usize {
        self.0.fetch_add(STEP, Ordering::Relaxed)
    }
}

/// Those of this library's objects.
pub(super) static NUMBERS: Numbers = Numbers::from(0x7fd0_0000_0000_0010);

/// Objects of one kind under the numbers that stand for them, or under other keys.
pub struct Registry<T> {
    shards: [Shard<T>; SHARDS],
    numbers: &'static Numbers,
}

impl<T> Registry<T> {
    /// A registry without objects, which has numbers from these.
    pub const fn new(numbers: &'static Numbers) -> Self {
        Self { shards: [const { RwLock::new(None) }; SHARDS], numbers }
    }

    fn shard(&self, key: usize) -> &Shard<T> {
        &self.shards[key / STEP % SHARDS]
    }

    /// Keeps an object under a number that is never given out again; gives the pointer that stands for it.
    pub fn insert(&self, object: T) -> *mut c_void {
        let number = self.numbers.next();
        self.insert_at(number, object);
        std::ptr::without_provenance_mut(number)
    }

    /// Keeps an object under a key, in place of another.
    pub fn insert_at(&self, key: usize, object: T) {
        let mut shard = self.shard(key).write().unwrap_or_else(PoisonError::into_inner);
        shard.get_or_insert_default().insert(key, Arc::new(object));
    }

    /// The object that a pointer stands for; `None` for every other pointer.
    pub fn get(&self, pointer: *const c_void) -> Option<Arc<T>> {
        let shard = self.shard(pointer.addr()).read().unwrap_or_else(PoisonError::into_inner);
        shard.as_ref()?.get(&pointer.addr()).cloned()
    }

    /// Forgets an object; others may go on holding it. `None` where the pointer stands for none.
    pub fn remove(&self, pointer: *const c_void) -> Option<Arc<T>> {
        let mut shard = self.shard(pointer.addr()).write().unwrap_or_else(PoisonError::into_inner);
        shard.as_mut()?.remove(&pointer.addr())
    }
}
