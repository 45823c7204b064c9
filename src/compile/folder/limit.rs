//! How much a folder may hold.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{LazyLock, Mutex, MutexGuard};

use super::{PrivateFolder, UNFINISHED, is_file, is_ours};

/// Names the limit.
const VARIABLE: &str = "FUSEWRIGHT_CACHE_LIMIT";

/// Bytes that a folder may hold where nothing else is said: some 50,000 binaries.
const USUAL: u64 = 4 << 30;

/// Bytes that a folder may hold, if there is a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limit(pub(crate) Option<u64>);

/// What a process knows of a folder without reading it.
#[derive(Debug, Default)]
struct Count {
    /// Bytes when it was read last, and those written since.
    held: u64,
    /// Bytes written since.
    written: u64,
}

/// By the folder's path. Held for as long as it takes to add two numbers.
static COUNTS: Mutex<BTreeMap<PathBuf, Count>> = Mutex::new(BTreeMap::new());

/// What is known of folders, unless nobody is left to give it back: in the child of a fork.
fn counts() -> Option<MutexGuard<'static, BTreeMap<PathBuf, Count>>> {
    // far more than others hold it for
    const TRIES: usize = 1000;
    (0..TRIES).find_map(|_| {
        let guard = COUNTS.try_lock().ok();
        if guard.is_none() {
            std::thread::yield_now();
        }
        guard
    })
}

impl Limit {
    /// What `FUSEWRIGHT_CACHE_LIMIT` says, or 4 GiB.
    pub(crate) fn of_environment() -> Self {
        static LIMIT: LazyLock<Limit> = LazyLock::new(|| {
            let Some(text) = std::env::var_os(VARIABLE).filter(|text| !text.is_empty()) else {
                return Limit(Some(USUAL));
            };
            text.to_str().and_then(Limit::parse).unwrap_or_else(|| {
                tracing::warn!("{VARIABLE} is {text:?}, and not a size such as 500M or 2G, or off: 4G is taken");
                Limit(Some(USUAL))
            })
        });
        *LIMIT
    }

    /// Reads bytes with K, M, G or T for their powers of 1024; `off` and 0 mean no limit.
    fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        if text == "off" {
            return Some(Self(None));
        }
        let (digits, shift) = match text.char_indices().next_back()? {
            (at, unit) if unit.is_ascii_alphabetic() => {
                (&text[..at], 10 * (1 + "KMGT".find(unit.to_ascii_uppercase())? as u32))
            }
            _ => (text, 0),
        };
        let bytes: u64 = digits.parse().ok()?;
        let bytes = bytes.checked_mul(1 << shift)?;
        Some(Self((bytes > 0).then_some(bytes)))
    }
}

impl PrivateFolder {
    /// Notes that a file was written, and where the folder holds more than the limit, removes what was not used for the
    /// longest time, down to seven eighths; not the file itself. The folder is read at a process's first write, and then
    /// once a sixteenth of the limit is written: others may write, too.
    ///
    /// Files count that have so many digits and one of these extensions.
    pub(crate) fn keep_within(&self, limit: Limit, written: &str, digits: usize, extensions: &[&str]) {
        let Limit(Some(limit)) = limit else { return };
        let bytes = self.stat(written).map_or(0, |stat| room(&stat));
        if !self.is_to_be_read(limit, bytes) {
            return;
        }
        let held = self.trim(limit, written, digits, extensions);
        if let Some(mut counts) = counts() {
            counts.insert(self.path().to_owned(), Count { held, written: 0 });
        }
    }

    /// Counts bytes that were written, and whether the folder is to be read for it.
    fn is_to_be_read(&self, limit: u64, bytes: u64) -> bool {
        let Some(mut counts) = counts() else { return false };
        let is_new = !counts.contains_key(self.path());
        let count = counts.entry(self.path().to_owned()).or_default();
        count.held += bytes;
        count.written += bytes;
        is_new || count.held > limit || count.written > limit / 16
    }

    /// Removes the oldest files where there are too many, and unfinished ones that killed processes left; gives the bytes
    /// of those that stay.
    fn trim(&self, limit: u64, written: &str, digits: usize, extensions: &[&str]) -> u64 {
        for name in self.abandoned(|name| is_ours(name, digits, UNFINISHED)).unwrap_or_default() {
            // Another process may have been faster.
            let _ = self.remove(&name);
        }
        let is_counted = |name: &str| extensions.iter().any(|extension| is_ours(name, digits, extension));
        let names = self.names(is_counted).unwrap_or_default();
        let stats = names.into_iter().filter_map(|name| self.stat(&name).ok().map(|stat| (name, stat)));
        // File systems that note when a file was read do so at least once a day.
        let mut files: Vec<_> = stats
            .filter(|(_, stat)| is_file(stat))
            .map(|(name, stat)| {
                let (read, changed) = ((stat.st_atime, stat.st_atime_nsec), (stat.st_mtime, stat.st_mtime_nsec));
                (read.max(changed), room(&stat), name)
            })
            .collect();
        let mut held: u64 = files.iter().map(|(_, bytes, _)| bytes).sum();
        if held <= limit {
            return held;
        }
        files.sort_unstable();
        let wanted = limit - limit / 8;
        for (_, bytes, name) in files.into_iter().filter(|(_, _, name)| name != written) {
            if held <= wanted {
                break;
            }
            if self.remove(&name).is_ok() {
                tracing::debug!(folder = %self.path().display(), name, bytes, "removed: the cache is over its limit");
                held -= bytes;
            }
        }
        held
    }
}

/// Bytes of a file on the disk; of one with holes fewer than its length.
fn room(stat: &rustix::fs::Stat) -> u64 {
    let length = u64::try_from(stat.st_size).unwrap_or(0);
    match u64::try_from(stat.st_blocks).unwrap_or(0) {
        // Not every file system says.
        0 => length,
        blocks => length.min(blocks.saturating_mul(512)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_sizes_with_a_unit() {
        for (text, bytes) in [("1000", 1000), ("3k", 3 << 10), ("500M", 500 << 20), (" 2G ", 2 << 30), ("1T", 1 << 40)]
        {
            assert_eq!(Limit::parse(text), Some(Limit(Some(bytes))), "{text}");
        }
        for text in ["off", "0", "0G"] {
            assert_eq!(Limit::parse(text), Some(Limit(None)), "{text}");
        }
        for text in ["", "G", "2X", "-1", "1.5G", "2GB", "99999999T", "on", "2é"] {
            assert_eq!(Limit::parse(text), None, "{text}");
        }
    }
}
