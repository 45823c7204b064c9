//! Binaries on disk, one file each, shared by processes.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use super::lock::Lock;
use super::{Origin, entry};
use crate::compile::{CacheKey, Cubin};
use crate::error::Error;

const ENTRY: &str = "cubin";
const LOCK: &str = "lock";
const UNFINISHED: &str = "part";
/// What the names of unfinished files begin with.
const TEMPORARY: &str = ".tmp";

/// How long another process may take to compile what this one needs; far above the slowest kernel.
const PATIENCE: Duration = Duration::from_secs(30);

/// What a killed process left is removed after this time; far above what any file is written or any lock held for.
const ABANDONED: Duration = Duration::from_secs(60 * 60);

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
    patience: Duration,
    /// One warning a process is enough.
    warned: AtomicBool,
    /// So is one look for what killed processes left.
    swept: AtomicBool,
}

impl Disk {
    pub(super) fn new(folder: PathBuf) -> Self {
        Self { folder, patience: PATIENCE, warned: AtomicBool::new(false), swept: AtomicBool::new(false) }
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// The entry of a key, or what `compile` makes, kept for others.
    pub(super) fn get_or_compile(
        &self,
        key: &CacheKey,
        compile: impl FnOnce() -> Result<Cubin, Error>,
    ) -> Result<(Cubin, Origin), Error> {
        if let Some(cubin) = self.read(key) {
            return Ok((cubin, Origin::Disk));
        }
        if let Err(error) = create_private_folder(&self.folder) {
            self.warn(&error);
            return compile().map(|cubin| (cubin, Origin::Compiled));
        }
        self.sweep();
        let lock = Lock::acquire(&self.path(key, LOCK), self.patience);
        if let Some(cubin) = self.read(key) {
            return Ok((cubin, Origin::Disk));
        }
        let cubin = compile()?;
        if let Err(error) = self.write(key, &cubin) {
            self.warn(&error);
        }
        drop(lock);
        Ok((cubin, Origin::Compiled))
    }

    /// Every entry, checked, the youngest first.
    pub(super) fn entries(&self) -> Result<Vec<CacheEntry>, Error> {
        let mut entries: Vec<CacheEntry> = self.files(&[ENTRY])?.into_iter().filter_map(inspect).collect();
        entries.sort_by(|a, b| a.age.cmp(&b.age).then_with(|| a.path.cmp(&b.path)));
        Ok(entries)
    }

    /// Removes every file of ours; a folder under the name of one is not ours.
    pub(super) fn clear(&self) -> Result<Cleared, Error> {
        let mut cleared = Cleared::default();
        for path in self.files(&[ENTRY, LOCK, UNFINISHED])? {
            let bytes = fs::symlink_metadata(&path).map_or(0, |metadata| metadata.len());
            match fs::remove_file(&path) {
                Ok(()) => {
                    cleared.entries += u64::from(path.extension().is_some_and(|extension| extension == ENTRY));
                    cleared.bytes += bytes;
                }
                // Another process was faster.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(_) if path.is_dir() => {}
                Err(error) => return Err(environment(format!("cannot remove {}", path.display()), error)),
            }
        }
        Ok(cleared)
    }

    fn path(&self, key: &CacheKey, extension: &str) -> PathBuf {
        self.folder.join(key.file_stem()).with_extension(extension)
    }

    /// The entry of a key; whatever is wrong with it is a miss.
    fn read(&self, key: &CacheKey) -> Option<Cubin> {
        let path = self.path(key, ENTRY);
        match read_entry(&path)? {
            Ok((found, cubin)) if found == *key => Some(cubin),
            Ok(_) => {
                tracing::debug!(path = %path.display(), "cache entry of another key; passed over");
                None
            }
            Err(damage) => {
                tracing::debug!(path = %path.display(), damage, "damaged cache entry; passed over");
                None
            }
        }
    }

    /// Writes beside the entry and renames, so that a reader sees all of it or nothing. It is not flushed to the disk:
    /// what a power cut spoils has a wrong checksum.
    fn write(&self, key: &CacheKey, cubin: &Cubin) -> io::Result<()> {
        let suffix = format!(".{UNFINISHED}");
        let mut file = tempfile::Builder::new().prefix(TEMPORARY).suffix(&suffix).tempfile_in(&self.folder)?;
        file.write_all(&entry::encode(key, cubin))?;
        file.persist(self.path(key, ENTRY))?;
        Ok(())
    }

    /// Removes locks and unfinished files that killed processes left: a lock whose entry was written just before is
    /// not asked for again.
    fn sweep(&self) {
        if self.swept.swap(true, Ordering::Relaxed) {
            return;
        }
        // A folder that cannot be read is noticed by who needs it.
        for path in self.files(&[LOCK, UNFINISHED]).unwrap_or_default() {
            if !is_abandoned(&path) {
                continue;
            }
            tracing::debug!(path = %path.display(), "left by a killed process; removed");
            if path.extension() == Some(OsStr::new(LOCK)) {
                drop(Lock::acquire(&path, Duration::ZERO));
            } else {
                // Another process may have been faster.
                let _ = fs::remove_file(&path);
            }
        }
    }

    fn warn(&self, error: &io::Error) {
        if !self.warned.swap(true, Ordering::Relaxed) {
            tracing::warn!(folder = %self.folder.display(), %error, "the disk cache cannot be written; going on without");
        }
    }

    /// Our files with one of these extensions; none where there is no folder.
    fn files(&self, extensions: &[&str]) -> Result<Vec<PathBuf>, Error> {
        let failed = |error| environment(format!("cannot read the cache folder {}", self.folder.display()), error);
        let entries = match fs::read_dir(&self.folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(failed(error)),
        };
        let mut files = Vec::new();
        for entry in entries {
            let path = entry.map_err(failed)?.path();
            if extensions.iter().any(|extension| is_ours(&path, extension)) {
                files.push(path);
            }
        }
        Ok(files)
    }
}

/// Whether a path is named as our files with this extension are: the folder may hold a `Cargo.lock`, too.
fn is_ours(path: &Path, extension: &str) -> bool {
    let stem = path.file_stem().and_then(OsStr::to_str).unwrap_or_default();
    let has_our_stem = match extension {
        UNFINISHED => stem.starts_with(TEMPORARY),
        _ => stem.len() == 64 && stem.bytes().all(|byte| byte.is_ascii_hexdigit()),
    };
    has_our_stem && path.extension() == Some(OsStr::new(extension))
}

fn is_abandoned(path: &Path) -> bool {
    let written = fs::symlink_metadata(path).and_then(|metadata| metadata.modified());
    let age = written.ok().and_then(|written| SystemTime::now().duration_since(written).ok());
    age.is_some_and(|age| age > ABANDONED)
}

/// Reads and decodes a file; `None` where there is none. Only regular files are opened: a pipe would block.
fn read_entry(path: &Path) -> Option<Result<(CacheKey, Cubin), String>> {
    let metadata = fs::metadata(path).ok()?;
    if !metadata.is_file() || metadata.len() > LARGEST_ENTRY {
        return Some(Err("is no file of ours".to_owned()));
    }
    let file = File::open(path).map_err(|error| format!("cannot be read: {error}"));
    Some(file.and_then(|file| entry::read(file, metadata.len())))
}

/// What a listing says of a file; `None` if it is gone by now.
fn inspect(path: PathBuf) -> Option<CacheEntry> {
    let metadata = fs::symlink_metadata(&path).ok()?;
    let written = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
    let age = SystemTime::now().duration_since(written).unwrap_or_default();
    let content = read_entry(&path)?.and_then(|(key, _)| {
        let is_at_home = path.file_stem().is_some_and(|stem| stem == key.file_stem().as_str());
        if is_at_home { Ok(key) } else { Err("is the entry of another key".to_owned()) }
    });
    Some(CacheEntry { path, bytes: metadata.len(), age, content })
}

/// Binaries run on the GPU with the rights of whoever loads them: only their owner may write new ones.
pub(crate) fn create_private_folder(folder: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

fn environment(message: String, error: io::Error) -> Error {
    Error::Environment { message, source: Some(Box::new(error)) }
}
