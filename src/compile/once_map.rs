//! Values that are made once, however many threads ask for them.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};

/// Parts that are locked on their own, so that threads do not wait for each other.
const SHARDS: usize = 16;

/// Values that a part is worth having for.
const LEAST: usize = 8;

/// A value, or the place where it will be.
#[derive(Debug)]
struct Slot<T> {
    ready: OnceLock<T>,
    /// Held by the thread that makes it.
    making: Mutex<()>,
    /// When it was last asked for, in insertions into its shard.
    used: AtomicU64,
}

/// In cache lines of its own: threads that use others, and what all of them read, are not disturbed.
#[derive(Debug)]
#[repr(align(128))]
struct Part<T>(RwLock<Shard<T>>);

#[derive(Debug)]
struct Shard<T> {
    slots: HashMap<[u8; 32], Arc<Slot<T>>>,
    insertions: u64,
}

/// Values by digest of what they are made of. Cheap to clone values only, such as an `Arc`.
#[derive(Debug)]
pub(crate) struct OnceMap<T> {
    shards: [Part<T>; SHARDS],
    /// How many of them are used.
    parts: usize,
    /// Values a shard keeps at most.
    shard_capacity: usize,
}

impl<T: Clone> OnceMap<T> {
    /// For so many values at most, and one at least; where there are more, those that were not asked for lately are forgotten.
    pub(crate) fn new(capacity: usize) -> Self {
        let shard = || Part(RwLock::new(Shard { slots: HashMap::new(), insertions: 0 }));
        let parts = (capacity / LEAST).clamp(1, SHARDS);
        Self { shards: std::array::from_fn(|_| shard()), parts, shard_capacity: (capacity / parts).max(1) }
    }

    /// The value where it is there already.
    pub(crate) fn get(&self, digest: &[u8; 32]) -> Option<T> {
        let shard = self.shard(digest).read().unwrap_or_else(PoisonError::into_inner);
        let slot = shard.slots.get(digest)?;
        let value = slot.ready.get()?.clone();
        slot.touch(shard.insertions);
        Some(value)
    }

    /// The value, made by the first caller; others with the same digest wait for it. A failure is not kept: the next
    /// caller tries again. `Ok(None)` beside the value says that it was there.
    pub(crate) fn get_or_make<Made, E>(
        &self,
        digest: [u8; 32],
        make: impl FnOnce() -> Result<(T, Made), E>,
    ) -> Result<(T, Option<Made>), E> {
        let slot = self.slot(digest);
        if let Some(value) = slot.ready.get() {
            return Ok((value.clone(), None));
        }
        let _making = slot.making.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(value) = slot.ready.get() {
            return Ok((value.clone(), None));
        }
        let (value, made) = make().inspect_err(|_| self.forget(&digest, &slot))?;
        Ok((slot.ready.get_or_init(|| value).clone(), Some(made)))
    }

    /// How many values there are.
    pub(crate) fn len(&self) -> usize {
        let of_shard = |Part(shard): &Part<T>| {
            let shard = shard.read().unwrap_or_else(PoisonError::into_inner);
            shard.slots.values().filter(|slot| slot.ready.get().is_some()).count()
        };
        self.shards.iter().map(of_shard).sum()
    }

    pub(crate) fn clear(&self) {
        for Part(shard) in &self.shards {
            // dropped without the lock: a value may take its time
            drop(std::mem::take(&mut shard.write().unwrap_or_else(PoisonError::into_inner).slots));
        }
    }

    /// Gives the place up of a value that could not be made.
    fn forget(&self, digest: &[u8; 32], failed: &Arc<Slot<T>>) {
        let mut shard = self.shard(digest).write().unwrap_or_else(PoisonError::into_inner);
        if shard.slots.get(digest).is_some_and(|slot| Arc::ptr_eq(slot, failed)) {
            shard.slots.remove(digest);
        }
    }

    fn shard(&self, digest: &[u8; 32]) -> &RwLock<Shard<T>> {
        &self.shards[usize::from(digest[0]) % self.parts].0
    }

    fn slot(&self, digest: [u8; 32]) -> Arc<Slot<T>> {
        let shard = self.shard(&digest).read().unwrap_or_else(PoisonError::into_inner);
        if let Some(slot) = shard.slots.get(&digest) {
            slot.touch(shard.insertions);
            return Arc::clone(slot);
        }
        drop(shard);
        let mut forgotten = Vec::new();
        let mut shard = self.shard(&digest).write().unwrap_or_else(PoisonError::into_inner);
        if shard.slots.len() >= self.shard_capacity && !shard.slots.contains_key(&digest) {
            forgotten = shard.forget_half();
        }
        shard.insertions += 1;
        let now = shard.insertions;
        let new = || Arc::new(Slot { ready: OnceLock::new(), making: Mutex::new(()), used: AtomicU64::new(now) });
        let slot = Arc::clone(shard.slots.entry(digest).or_insert_with(new));
        drop(shard);
        drop(forgotten);
        slot
    }
}

impl<T> Slot<T> {
    fn touch(&self, now: u64) {
        // most often it is the same: then the cache line stays shared
        if self.used.load(Ordering::Relaxed) != now {
            self.used.store(now, Ordering::Relaxed);
        }
    }
}

impl<T> Shard<T> {
    /// Takes the half out that was not asked for longest.
    fn forget_half(&mut self) -> Vec<Arc<Slot<T>>> {
        let mut ages: Vec<u64> = self.slots.values().map(|slot| slot.used.load(Ordering::Relaxed)).collect();
        let middle = ages.len() / 2;
        let (_, &mut limit, _) = ages.select_nth_unstable(middle);
        // what is being made is asked for now
        let is_old = |slot: &Arc<Slot<T>>| slot.ready.get().is_some() && slot.used.load(Ordering::Relaxed) < limit;
        let old: Vec<[u8; 32]> = self.slots.iter().filter(|entry| is_old(entry.1)).map(|entry| *entry.0).collect();
        // all of one age: none is older than another
        let old = if old.is_empty() { self.slots.keys().take(middle.max(1)).copied().collect() } else { old };
        old.iter().filter_map(|digest| self.slots.remove(digest)).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    fn digest(number: u16) -> [u8; 32] {
        let mut digest = [0; 32];
        digest[..2].copy_from_slice(&number.to_le_bytes());
        digest
    }

    fn put(map: &OnceMap<u16>, number: u16) -> bool {
        let made = map.get_or_make(digest(number), || Ok::<_, Infallible>((number, ())));
        made.is_ok_and(|(value, made)| value == number && made.is_some())
    }

    #[test]
    fn threads_that_ask_at_once_make_one_value() {
        let map = OnceMap::new(100);
        let made = AtomicU64::new(0);
        let make = || {
            made.fetch_add(1, Ordering::Relaxed);
            std::thread::sleep(std::time::Duration::from_millis(5));
            Ok::<_, Infallible>((Arc::new(7), ()))
        };
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..16).map(|_| scope.spawn(|| map.get_or_make(digest(1), make))).collect();
            for thread in threads {
                assert_eq!(*thread.join().unwrap().unwrap().0, 7);
            }
        });
        assert_eq!(made.into_inner(), 1);
        assert_eq!(map.len(), 1);
    }

    #[test]
    fn a_failure_is_tried_again() {
        let map = OnceMap::new(100);
        assert_eq!(map.get_or_make(digest(1), || Err::<(u16, ()), _>("no")), Err("no"));
        assert_eq!(map.get(&digest(1)), None);
        assert_eq!(map.len(), 0);
        assert!(put(&map, 1));
        assert!(!put(&map, 1));
    }

    #[test]
    fn there_are_never_more_than_was_said() {
        for capacity in [1, 2, 7, 8, 9, 20, 100, 130] {
            let map = OnceMap::new(capacity);
            for number in 0..500 {
                assert!(put(&map, number));
                assert!(map.len() <= capacity, "{} of {capacity}", map.len());
            }
        }
    }

    #[test]
    fn what_was_not_asked_for_lately_is_forgotten() {
        let map = OnceMap::new(16 * 8);
        // all of one shard
        for number in 0..100 {
            assert!(put(&map, number * 16));
            assert_eq!(map.get(&digest(0)), Some(0), "{number}");
        }
        assert!(map.len() <= 8, "{}", map.len());
        map.clear();
        assert_eq!(map.len(), 0);
    }
}
