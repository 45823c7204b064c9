//! Winners on disk, one file each, shared by processes.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::{Tuned, TuningEntry, TuningKey};
use crate::compile::{Cache, create_private_folder};
use crate::device::Device;
use crate::engine::{EngineConfig, Selection};
use crate::error::Error;

/// Folder of the entries, inside the cache's.
const FOLDER: &str = "tuning";
const ENTRY: &str = "tuned";
const UNFINISHED: &str = "part";

/// Larger files are not ours.
const LARGEST_ENTRY: u64 = 1 << 16;

/// Winners of [`super::autotune`] on disk, in the folder `tuning` of the disk cache; holds none where that is off.
///
/// It only ever saves time: an entry that is damaged, of another key, or names a config that the engine does not offer for
/// the graph and the device is passed over.
#[derive(Clone, Debug)]
pub struct TuningStore {
    folder: Option<PathBuf>,
}

/// One file of the store.
#[derive(Clone, Debug)]
pub struct StoredTuning {
    /// The file.
    pub path: PathBuf,
    /// What it says, or what is wrong with it. Damaged files are replaced when their graph is next tuned.
    pub content: Result<TuningEntry, String>,
}

impl TuningStore {
    /// As the environment says: see [`Cache::from_environment`].
    pub fn from_environment() -> Self {
        Self::beside(&Cache::from_environment())
    }

    /// In the folder of a cache; without one, nothing is kept.
    pub fn beside(cache: &Cache) -> Self {
        Self { folder: cache.folder().map(|folder| folder.join(FOLDER)) }
    }

    /// What to run on a device: the stored winner, or else the first config by the engine's model.
    ///
    /// # Errors
    /// As [`Selection::config`].
    pub fn config(&self, selection: &Selection, device: &Device) -> Result<EngineConfig, Error> {
        self.winner(selection, device).map_or_else(|| selection.config(device), Ok)
    }

    /// The stored winner for a graph and a device, if there is one.
    pub fn winner(&self, selection: &Selection, device: &Device) -> Option<EngineConfig> {
        let key = key(selection, device);
        let path = self.path(&key)?;
        let wanted = match read(&path)?.and_then(|entry| check(entry, &key)) {
            Ok(config) => config,
            Err(damage) => {
                tracing::debug!(path = %path.display(), damage, "stored tuning passed over");
                return None;
            }
        };
        // A config that the engine does not offer might not fit the graph.
        let offered = selection.candidates(device).into_iter().map(|ranked| ranked.config);
        let winner = offered.into_iter().find(|config| *config == wanted);
        tracing::debug!(config = %wanted, offered = winner.is_some(), "stored tuning found");
        winner
    }

    /// Keeps a winner, in place of an earlier one; does nothing without a folder.
    ///
    /// # Errors
    /// [`Error::Environment`] if the folder cannot be written.
    pub fn put(&self, selection: &Selection, device: &Device, winner: &Tuned) -> Result<(), Error> {
        let key = key(selection, device);
        let Some(path) = self.path(&key) else { return Ok(()) };
        let config = winner.ranked.config.to_string();
        let entry = TuningEntry { key, config, median_ms: winner.sampled.median_ms };
        write(&path, &entry.encode()).map_err(|source| Error::Environment {
            message: format!("the tuned config cannot be kept in {}", path.display()),
            source: Some(Box::new(source)),
        })
    }

    /// Every file, checked, in the order of their names; none where there is no folder.
    ///
    /// # Errors
    /// [`Error::Environment`] if the folder exists and cannot be read.
    pub fn entries(&self) -> Result<Vec<StoredTuning>, Error> {
        let mut paths = self.files(&[ENTRY])?;
        paths.sort();
        let stored = |path: PathBuf| {
            let content = read(&path)?.and_then(|entry| {
                let is_at_home = path.file_stem().is_some_and(|stem| stem == entry.key.file_stem().as_str());
                if is_at_home { Ok(entry) } else { Err("is the entry of another key".to_owned()) }
            });
            Some(StoredTuning { path, content })
        };
        Ok(paths.into_iter().filter_map(stored).collect())
    }

    /// Removes every file of ours, and says how many entries there were.
    ///
    /// # Errors
    /// [`Error::Environment`] if a file cannot be removed.
    pub fn clear(&self) -> Result<usize, Error> {
        let mut entries = 0;
        for path in self.files(&[ENTRY, UNFINISHED])? {
            match fs::remove_file(&path) {
                Ok(()) => entries += usize::from(path.extension().is_some_and(|extension| extension == ENTRY)),
                // Another process was faster.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(environment("cannot remove", &path, error)),
            }
        }
        Ok(entries)
    }

    fn path(&self, key: &TuningKey) -> Option<PathBuf> {
        self.folder.as_ref().map(|folder| folder.join(key.file_stem()).with_extension(ENTRY))
    }

    fn files(&self, extensions: &[&str]) -> Result<Vec<PathBuf>, Error> {
        let Some(folder) = &self.folder else { return Ok(Vec::new()) };
        let entries = match fs::read_dir(folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(environment("cannot read", folder, error)),
        };
        let paths = entries.map(|entry| entry.map(|entry| entry.path()));
        let mut paths: Vec<PathBuf> =
            paths.collect::<io::Result<_>>().map_err(|error| environment("cannot read", folder, error))?;
        paths.retain(|path| path.extension().is_some_and(|found| extensions.iter().any(|wanted| found == *wanted)));
        Ok(paths)
    }
}

fn key(selection: &Selection, device: &Device) -> TuningKey {
    TuningKey::new(selection.supported().graph().key(), selection.engine().name(), device)
}

/// The config of an entry, which must be of this key.
fn check(entry: TuningEntry, key: &TuningKey) -> Result<EngineConfig, String> {
    if entry.key == *key { entry.config.parse() } else { Err("is the entry of another key".to_owned()) }
}

/// Reads and decodes a file; `None` where there is none. Only regular files are opened: a pipe would block.
fn read(path: &Path) -> Option<Result<TuningEntry, String>> {
    let metadata = fs::metadata(path).ok()?;
    if !metadata.is_file() || metadata.len() > LARGEST_ENTRY {
        return Some(Err("is no file of ours".to_owned()));
    }
    let bytes = fs::read(path).map_err(|error| format!("cannot be read: {error}"));
    Some(bytes.and_then(|bytes| TuningEntry::decode(&bytes)))
}

/// Writes beside the entry and renames, so that a reader sees all of it or nothing.
fn write(path: &Path, content: &str) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new(""));
    create_private_folder(folder)?;
    let mut file = tempfile::Builder::new().suffix(&format!(".{UNFINISHED}")).tempfile_in(folder)?;
    file.write_all(content.as_bytes())?;
    file.persist(path)?;
    Ok(())
}

fn environment(what: &str, path: &Path, error: io::Error) -> Error {
    Error::Environment { message: format!("{what} {}", path.display()), source: Some(Box::new(error)) }
}

#[cfg(test)]
pub(super) mod tests;
