//! Counts of a session.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::compile::Origin;

/// What a session was asked and did.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Stats {
    /// Graphs that were checked, whether or not their verdict was known.
    pub checks: u64,
    /// Of those, the ones whose verdict was known.
    pub check_hits: u64,
    /// Plans that were found in memory.
    pub hits: u64,
    /// Plans made with a binary from memory or a kernel cache.
    pub from_memory: u64,
    /// Plans made with a binary from disk.
    pub from_disk: u64,
    /// Plans made with a binary from a bundle.
    pub from_bundle: u64,
    /// Plans whose kernel was compiled.
    pub compiled: u64,
    /// Builds that failed.
    pub failed: u64,
    /// Plans in memory now.
    pub plans: usize,
    /// Time of all builds, in milliseconds: rendering, compiling or reading, loading.
    pub build_ms: f64,
    /// Time of the longest build, in milliseconds.
    pub longest_build_ms: f64,
}

impl Stats {
    /// Plans that were not in memory.
    pub fn misses(&self) -> u64 {
        self.from_memory + self.from_disk + self.from_bundle + self.compiled + self.failed
    }
}

/// The same while it is counted.
#[derive(Debug, Default)]
pub(super) struct Counters {
    checks: AtomicU64,
    check_hits: AtomicU64,
    hits: AtomicU64,
    from_memory: AtomicU64,
    from_disk: AtomicU64,
    from_bundle: AtomicU64,
    compiled: AtomicU64,
    failed: AtomicU64,
    build_nanoseconds: AtomicU64,
    longest_nanoseconds: AtomicU64,
}

fn increment(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

impl Counters {
    pub(super) fn checked(&self, was_known: bool) {
        increment(&self.checks);
        if was_known {
            increment(&self.check_hits);
        }
    }

    pub(super) fn hit(&self) {
        increment(&self.hits);
    }

    pub(super) fn failed(&self) {
        increment(&self.failed);
    }

    pub(super) fn built(&self, origin: Origin, time: Duration) {
        increment(match origin {
            Origin::Memory => &self.from_memory,
            Origin::Disk => &self.from_disk,
            Origin::Bundle => &self.from_bundle,
            Origin::Compiled => &self.compiled,
        });
        let nanoseconds = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.build_nanoseconds.fetch_add(nanoseconds, Ordering::Relaxed);
        self.longest_nanoseconds.fetch_max(nanoseconds, Ordering::Relaxed);
    }

    pub(super) fn stats(&self, plans: usize) -> Stats {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let milliseconds = |counter: &AtomicU64| count(counter) as f64 / 1e6;
        Stats {
            checks: count(&self.checks),
            check_hits: count(&self.check_hits),
            hits: count(&self.hits),
            from_memory: count(&self.from_memory),
            from_disk: count(&self.from_disk),
            from_bundle: count(&self.from_bundle),
            compiled: count(&self.compiled),
            failed: count(&self.failed),
            plans,
            build_ms: milliseconds(&self.build_nanoseconds),
            longest_build_ms: milliseconds(&self.longest_nanoseconds),
        }
    }
}
