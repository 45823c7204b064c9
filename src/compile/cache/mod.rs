//! Binaries that were compiled before: those of bundles first, then memory, then disk.
//!
//! The cache only ever saves time. Whatever is wrong with it (a damaged entry, a folder that cannot be written, a full
//! disk) costs a compilation and at most a warning in the log, never an error.
//!
//! Whoever may write an entry decides what runs: checksums find damage, not forgery. A folder that belongs to another user,
//! or that others may write, is therefore not used.

mod disk;
mod entry;
mod lock;

use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use disk::{CacheEntry, Cleared};

use self::disk::Disk;
use super::folder::Limit;
use super::once_map::OnceMap;
use super::{Bundle, CacheKey, Cubin};
use crate::device::ComputeCapability;
use crate::error::Error;

/// Binaries kept in memory at most; a process that meets more kernels than this finds the others on disk.
const CAPACITY: usize = 8192;

/// Where a binary came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Origin {
    /// This process had it.
    Memory,
    /// The disk had it.
    Disk,
    /// It was compiled now.
    Compiled,
    /// It was made ahead of time, and a bundle had it.
    Bundle,
}

/// A cache of binaries, shared by threads; its folder is shared by processes.
#[derive(Debug)]
pub struct Cache {
    bundles: Vec<Arc<Bundle>>,
    memory: OnceMap<Arc<Cubin>>,
    disk: Option<Disk>,
}

impl Cache {
    /// As the environment says: in `FUSEWRIGHT_CACHE_DIR`, or else in `fusewright` in the user's cache folder; without
    /// disk where `FUSEWRIGHT_CACHE` is `off` or `0`, or where the user has no home. Bundles are those of [`Bundle::of_environment`].
    pub fn from_environment() -> Self {
        Self::kept_by_environment().with_bundles(Bundle::of_environment().to_vec())
    }

    fn kept_by_environment() -> Self {
        let switch = std::env::var_os("FUSEWRIGHT_CACHE");
        if switch.is_some_and(|switch| switch == "off" || switch == "0") {
            return Self::memory_only();
        }
        match folder_of_environment() {
            Some(folder) => Self::at(folder),
            None => {
                tracing::warn!("no disk cache: the user has no home folder; FUSEWRIGHT_CACHE_DIR can name one");
                Self::memory_only()
            }
        }
    }

    /// On disk in this folder, which is made when first needed.
    pub fn at(folder: impl Into<PathBuf>) -> Self {
        Self { disk: Some(Disk::new(folder.into())), ..Self::memory_only() }
    }

    /// Without disk.
    pub fn memory_only() -> Self {
        Self { bundles: Vec::new(), memory: OnceMap::new(CAPACITY), disk: None }
    }

    /// With bundles that are asked before memory and disk, the first of them first.
    pub fn with_bundles(self, bundles: Vec<Arc<Bundle>>) -> Self {
        Self { bundles, ..self }
    }

    /// The bundles.
    pub fn bundles(&self) -> &[Arc<Bundle>] {
        &self.bundles
    }

    /// The binary that a bundle has of a CUDA text for a chip.
    pub fn bundled(&self, source: &str, capability: ComputeCapability) -> Option<Arc<Cubin>> {
        self.bundles.iter().find_map(|bundle| bundle.get(source, capability)).cloned()
    }

    /// With another limit of the disk's entries than that of `FUSEWRIGHT_CACHE_LIMIT`, in bytes; `None`: without a limit.
    /// Where there are more, those go that were not used for the longest time.
    pub fn with_limit(mut self, bytes: Option<u64>) -> Self {
        if let Some(disk) = &mut self.disk {
            disk.set_limit(Limit(bytes));
        }
        self
    }

    /// The folder on disk, if there is one.
    pub fn folder(&self) -> Option<&Path> {
        self.disk.as_ref().map(Disk::folder)
    }

    /// Makes the folder on disk, if there is to be one, and looks whether it can be used.
    ///
    /// # Errors
    /// [`Error::Environment`] if it cannot be made, or if it belongs to another user or others may write there: then the
    /// cache goes on without it.
    pub fn prepare(&self) -> Result<(), Error> {
        self.disk.as_ref().map_or(Ok(()), Disk::prepare)
    }

    /// The binary of a key, from memory, from disk or from `compile`, which is called at most once. While one thread or
    /// process compiles a key, the others wait for its result; other keys are not held up.
    ///
    /// # Errors
    /// Only those of `compile`; they are not remembered.
    pub fn get_or_compile(
        &self,
        key: &CacheKey,
        compile: impl FnOnce() -> Result<Cubin, Error>,
    ) -> Result<(Arc<Cubin>, Origin), Error> {
        let make = || {
            let (cubin, origin) = match &self.disk {
                Some(disk) => disk.get_or_compile(key, compile)?,
                None => (compile()?, Origin::Compiled),
            };
            Ok::<_, Error>((Arc::new(cubin), origin))
        };
        let (cubin, made) = self.memory.get_or_make(key.digest(), make)?;
        Ok((cubin, made.unwrap_or(Origin::Memory)))
    }

    /// The entries on disk, the youngest first; each is read and checked whole, damaged ones are among them.
    ///
    /// # Errors
    /// [`Error::Environment`] if the folder exists and cannot be read, or is not used since others may write there.
    pub fn entries(&self) -> Result<Vec<CacheEntry>, Error> {
        self.disk.as_ref().map_or_else(|| Ok(Vec::new()), Disk::entries)
    }

    /// Removes every entry of ours, locks and unfinished files included, and forgets what is in memory. Other files in
    /// the folder stay.
    ///
    /// # Errors
    /// [`Error::Environment`] if a file cannot be removed, or the folder is not used since others may write there.
    pub fn clear(&self) -> Result<Cleared, Error> {
        self.memory.clear();
        self.disk.as_ref().map_or_else(|| Ok(Cleared::default()), Disk::clear)
    }
}

/// Absolute: what is in the working directory may be a stranger's, even where this user unpacked it. Only
/// `FUSEWRIGHT_CACHE_DIR` can mean a folder there.
fn folder_of_environment() -> Option<PathBuf> {
    if let Some(folder) = std::env::var_os("FUSEWRIGHT_CACHE_DIR").filter(|folder| !folder.is_empty()) {
        return std::path::absolute(folder).ok();
    }
    use etcetera::base_strategy::{BaseStrategy, choose_base_strategy};
    let caches = choose_base_strategy().ok()?.cache_dir();
    caches.is_absolute().then(|| caches.join("fusewright"))
}

#[cfg(test)]
mod tests;
