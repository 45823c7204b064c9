//! Binaries on disk, one file each, shared by processes.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::lock::Lock;
use super::{Origin, entry};
use crate::compile::folder::{self, Limit, PrivateFolder, UNFINISHED, is_ours};
use crate::compile::{CacheKey, Cubin};
use crate::error::Error;

const ENTRY: &str = "cubin";
const LOCK: &str = "lock";
/// Digits of a key in the name of a file.
const DIGITS: usize = 64;

/// How long another process may take to compile what this one needs; far above the slowest kernel.
const PATIENCE: Duration = Duration::from_secs(30);

/// Larger files are not ours.
const LARGEST_ENTRY: u64 = 1 << 30;

/// One file of the disk cache.
#[derive(Clone, Debug)]
pub struct CacheEntry {
    /// The file.
    pub path: PathBuf,
    /// Its size.
    pub bytes: u64,
    /// Time since it was written; zero where the clock went back.
    pub age: Duration,
    /// Its key, or what is wrong with the file. Damaged files are replaced when their key is next compiled.
    pub content: Result<CacheKey, String>,
}

/// What [`super::Cache::clear`] removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cleared {
    /// Entries, damaged ones included.
    pub entries: u64,
    /// Their size, with that of unfinished files.
    pub bytes: u64,
}

/// A folder of entries.
#[derive(Debug)]
pub(super) struct Disk {
    folder: PathBuf,
    limit: Limit,
    patience: Duration,
    /// One look for what killed processes left is enough.
    swept: AtomicBool,
}

impl Disk {
    pub(super) fn new(folder: PathBuf) -> Self {
        Self { folder, limit: Limit::of_environment(), patience: PATIENCE, swept: AtomicBool::new(false) }
    }

    pub(super) fn set_limit(&mut self, limit: Limit) {
        self.limit = limit;
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Makes the folder, and sees that nobody else may write there.
    pub(super) fn prepare(&self) -> Result<(), Error> {
        let failed = |error| environment(format!("the disk cache in {} is not used", self.folder.display()), error);
        PrivateFolder::create(&self.folder).map(drop).map_err(failed)
    }

    /// The entry of a key, or what `compile` makes, kept for others.
    pub(super) fn get_or_compile(
        &self,
        key: &CacheKey,
        compile: impl FnOnce() -> Result<Cubin, Error>,
    ) -> Result<(Cubin, Origin), Error> {
        if let Some(cubin) = PrivateFolder::open_if_private(&self.folder).and_then(|folder| read(&folder, key)) {
            return Ok((cubin, Origin::Disk));
        }
        let folder = match PrivateFolder::create(&self.folder) {
            Ok(folder) => folder,
            Err(error) => {
                folder::warn_once(&self.folder, &error);
                return compile().map(|cubin| (cubin, Origin::Compiled));
            }
        };
        self.sweep(&folder);
        let lock = Lock::acquire(&folder, name(key, LOCK), self.patience);
        if let Some(cubin) = read(&folder, key) {
            return Ok((cubin, Origin::Disk));
        }
        let cubin = compile()?;
        let entry = name(key, ENTRY);
        match folder.write(&entry, &entry::encode(key, &cubin)) {
            Ok(()) => folder.keep_within(self.limit, &entry, DIGITS, &[ENTRY]),
            Err(error) => folder::warn_once(&self.folder, &error),
        }
        drop(lock);
        Ok((cubin, Origin::Compiled))
    }

    /// Every entry, checked, the youngest first.
    pub(super) fn entries(&self) -> Result<Vec<CacheEntry>, Error> {
        let Some(folder) = self.existing()? else { return Ok(Vec::new()) };
        let names = self.names(&folder, &[ENTRY])?;
        let mut entries: Vec<CacheEntry> = names.iter().filter_map(|name| inspect(&folder, name)).collect();
        entries.sort_by(|a, b| a.age.cmp(&b.age).then_with(|| a.path.cmp(&b.path)));
        Ok(entries)
    }

    /// Removes every file of ours; a folder under the name of one is not ours.
    pub(super) fn clear(&self) -> Result<Cleared, Error> {
        let mut cleared = Cleared::default();
        let Some(folder) = self.existing()? else { return Ok(cleared) };
        for name in self.names(&folder, &[ENTRY, LOCK, UNFINISHED])? {
            let bytes = folder.stat(&name).map_or(0, |stat| stat.st_size as u64);
            match folder.remove(&name) {
                Ok(()) => {
                    cleared.entries += u64::from(is_ours(&name, DIGITS, ENTRY));
                    cleared.bytes += bytes;
                }
                // Another process was faster.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) if error.kind() == io::ErrorKind::IsADirectory => {}
                Err(error) => {
                    return Err(environment(format!("cannot remove {}", folder.path().join(name).display()), error));
                }
            }
        }
        Ok(cleared)
    }

    /// Removes locks and unfinished files that killed processes left: a lock whose entry was written just before is
    /// not asked for again.
    fn sweep(&self, folder: &PrivateFolder) {
        if self.swept.swap(true, Ordering::Relaxed) {
            return;
        }
        let is_passing = |name: &str| [LOCK, UNFINISHED].iter().any(|extension| is_ours(name, DIGITS, extension));
        // A folder that cannot be read is noticed by who needs it.
        for name in folder.abandoned(is_passing).unwrap_or_default() {
            tracing::debug!(folder = %self.folder.display(), name, "left by a killed process; removed");
            if is_ours(&name, DIGITS, LOCK) {
                drop(Lock::acquire(folder, name, Duration::ZERO));
            } else {
                // Another process may have been faster.
                let _ = folder.remove(&name);
            }
        }
    }

    /// The folder, if there is one.
    fn existing(&self) -> Result<Option<PrivateFolder>, Error> {
        match PrivateFolder::open(&self.folder) {
            Ok(folder) => Ok(Some(folder)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(self.unreadable(error)),
        }
    }

    /// Our files with one of these extensions.
    fn names(&self, folder: &PrivateFolder, extensions: &[&str]) -> Result<Vec<String>, Error> {
        let is_wanted = |name: &str| extensions.iter().any(|extension| is_ours(name, DIGITS, extension));
        folder.names(is_wanted).map_err(|error| self.unreadable(error))
    }

    fn unreadable(&self, error: io::Error) -> Error {
        environment(format!("cannot read the cache folder {}", self.folder.display()), error)
    }
}

fn name(key: &CacheKey, extension: &str) -> String {
    format!("{}.{extension}", key.file_stem())
}

/// The entry of a key; whatever is wrong with it is a miss.
fn read(folder: &PrivateFolder, key: &CacheKey) -> Option<Cubin> {
    let name = name(key, ENTRY);
    let path = || folder.path().join(&name);
    match read_entry(folder, &name)? {
        Ok((found, cubin)) if found == *key => Some(cubin),
        Ok(_) => {
            tracing::debug!(path = %path().display(), "cache entry of another key; passed over");
            None
        }
        Err(damage) => {
            tracing::debug!(path = %path().display(), damage, "damaged cache entry; passed over");
            None
        }
    }
}

/// Reads and decodes a file; `None` where there is none.
fn read_entry(folder: &PrivateFolder, name: &str) -> Option<Result<(CacheKey, Cubin), String>> {
    let file = folder.file(name, LARGEST_ENTRY)?;
    Some(file.and_then(|(file, length)| entry::read(file, length)))
}

/// What a listing says of a file; `None` if it is gone by now.
fn inspect(folder: &PrivateFolder, name: &str) -> Option<CacheEntry> {
    let stat = folder.stat(name).ok()?;
    let content = read_entry(folder, name)?.and_then(|(key, _)| {
        let is_at_home = name == self::name(&key, ENTRY);
        if is_at_home { Ok(key) } else { Err("is the entry of another key".to_owned()) }
    });
    Some(CacheEntry { path: folder.path().join(name), bytes: stat.st_size as u64, age: folder::age(&stat), content })
}

fn environment(message: String, error: io::Error) -> Error {
    Error::Environment { message, source: Some(Box::new(error)) }
}
