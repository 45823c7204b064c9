//! Numbers that stand for what programs hold, given out once: never addresses to follow.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use super::sides::Pointer;

/// Parts that are locked on their own, so that threads do not wait for each other.
const SHARDS: usize = 64;
/// The first number and the distance of two, as those of `capi` beyond every address of a program, and below `capi`'s own.
const FIRST: usize = 0x7fc0_0000_0000_0010;
const STEP: usize = 16;

type Shard<T> = RwLock<Option<HashMap<usize, Arc<T>, BuildHasherDefault<NumberHasher>>>>;

/// Hashes numbers that are our own, or addresses, without a defence against collisions.
#[derive(Default)]
pub(crate) struct NumberHasher(u64);

impl Hasher for NumberHasher {
    fn write_usize(&mut self, number: usize) {
        self.0 = (number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(26);
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_usize(self.0 as usize ^ usize::from(byte)));
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// Objects under their keys.
pub(crate) struct Registry<T> {
    shards: [Shard<T>; SHARDS],
    next: AtomicUsize,
}

impl<T> Registry<T> {
    pub(crate) const fn new() -> Self {
        Self { shards: [const { RwLock::new(None) }; SHARDS], next: AtomicUsize::new(FIRST) }
    }

    fn shard(&self, key: usize) -> &Shard<T> {
        &self.shards[key / STEP % SHARDS]
    }

    /// Keeps an object under a number of its own, which is given.
    pub(crate) fn insert(&self, object: T) -> Pointer {
        let number = self.next.fetch_add(STEP, Ordering::Relaxed);
        self.insert_at(number, object);
        std::ptr::without_provenance_mut(number)
    }

    /// Keeps an object under a key, in place of another.
    pub(crate) fn insert_at(&self, key: usize, object: T) {
        let mut shard = self.shard(key).write().unwrap_or_else(PoisonError::into_inner);
        shard.get_or_insert_default().insert(key, Arc::new(object));
    }

    /// The object that a pointer stands for.
    pub(crate) fn get(&self, pointer: Pointer) -> Option<Arc<T>> {
        let shard = self.shard(pointer.addr()).read().unwrap_or_else(PoisonError::into_inner);
        shard.as_ref()?.get(&pointer.addr()).cloned()
    }

    /// Forgets an object; others may go on holding it.
    pub(crate) fn remove(&self, pointer: Pointer) -> Option<Arc<T>> {
        let mut shard = self.shard(pointer.addr()).write().unwrap_or_else(PoisonError::into_inner);
        shard.as_mut()?.remove(&pointer.addr())
    }
}
