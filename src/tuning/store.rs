//! Winners on disk, one file each, shared by processes.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{Rivals, Tuned, TuningEntry, TuningKey};
use crate::compile::{Bundle, Cache, Limit, PrivateFolder, UNFINISHED, is_ours, warn_once};
use crate::device::Device;
use crate::engine::{EngineConfig, RankedConfig, Selection};
use crate::error::Error;
use crate::graph::GraphKey;

/// Folder of the entries, inside the cache's.
const FOLDER: &str = "tuning";
const ENTRY: &str = "tuned";
/// Digits of a key in the name of a file.
const DIGITS: usize = 64;

/// What follows the other library's time, in an entry that has it in place of a config.
const UNIT: &str = " ms";

/// Larger files are not ours.
const LARGEST_ENTRY: u64 = 1 << 16;

/// Winners of [`super::autotune`] on disk, in the folder `tuning` of the disk cache; holds none where that is off.
///
/// It only ever saves time: an entry that is damaged, of another key, or names a config that the engine does not offer for
/// the graph and the device is passed over.
#[derive(Clone, Debug)]
pub struct TuningStore {
    /// The cache's.
    folder: Option<PathBuf>,
    bundles: Vec<Arc<Bundle>>,
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
        Self { folder: cache.folder().map(Path::to_owned), ..Self::of_bundles(cache.bundles()) }
    }

    /// Without winners: only what bundles have.
    pub fn of_bundles(bundles: &[Arc<Bundle>]) -> Self {
        Self { folder: None, bundles: bundles.to_vec() }
    }

    /// What to run on a device: what a bundle has a binary of, which needs no compiler, or else the stored winner, or else the first config by the
    /// engine's model.
    ///
    /// # Errors
    /// As [`Selection::config`].
    pub fn config(&self, selection: &Selection, device: &Device) -> Result<EngineConfig, Error> {
        let found = self.bundled(selection, device).or_else(|| self.winner(selection, device));
        found.map_or_else(|| selection.config(device), Ok)
    }

    /// The first config by the engine's model that a bundle has for a graph and a device.
    fn bundled(&self, selection: &Selection, device: &Device) -> Option<EngineConfig> {
        let named = self.named_by_bundles(selection, device);
        // nothing is ranked in vain
        let ranking = if named.is_empty() { Vec::new() } else { selection.candidates(device) };
        ranking.into_iter().map(|ranked| ranked.config).find(|config| named.contains(config))
    }

    /// Moves the first config of which a bundle has a binary before the others, where there is one.
    pub fn put_bundled_first(&self, selection: &Selection, device: &Device, configs: &mut [RankedConfig]) {
        let named = self.named_by_bundles(selection, device);
        if let Some(place) = configs.iter().position(|ranked| named.contains(&ranked.config)) {
            configs[..=place].rotate_right(1);
        }
    }

    /// The configs that bundles have for a graph and a device, whether or not the engine offers them.
    fn named_by_bundles(&self, selection: &Selection, device: &Device) -> Vec<EngineConfig> {
        let graph = selection.supported().graph().class();
        let named = self.bundles.iter().flat_map(|bundle| bundle.configs(graph, device));
        named.filter_map(|config| config.parse().ok()).collect()
    }

    /// The stored winner for a graph and a device, if there is one.
    pub fn winner(&self, selection: &Selection, device: &Device) -> Option<EngineConfig> {
        let key = key(selection, device);
        let folder = self.folder_to_read()?;
        let wanted = match read(&folder, &name(&key))?.and_then(|entry| check(entry, &key)) {
            Ok(config) => config,
            Err(damage) => {
                tracing::debug!(folder = %folder.path().display(), damage, "stored tuning passed over");
                return None;
            }
        };
        // A config that the engine does not offer might not fit the graph.
        let is_offered = selection.offers(&wanted, device);
        tracing::debug!(config = %wanted, is_offered, "stored tuning found");
        is_offered.then_some(wanted)
    }

    /// What an engine here and another library, by its name and version, took for a graph on a device, where that is stored.
    pub fn rivals(&self, graph: GraphKey, library: &str, device: &Device) -> Option<Rivals> {
        let key = TuningKey::new(graph, library, device);
        let entry = read(&self.folder_to_read()?, &name(&key))?.ok().filter(|entry| entry.key == key)?;
        let theirs_ms = entry.config.strip_suffix(UNIT)?.strip_prefix(library)?.trim_start().parse().ok()?;
        Some(Rivals { ours_ms: entry.median_ms, theirs_ms })
    }

    /// Keeps such times, in place of earlier ones; does nothing without a folder.
    ///
    /// # Errors
    /// [`Error::Environment`] if the folder cannot be written.
    pub fn put_rivals(&self, graph: GraphKey, library: &str, device: &Device, times: Rivals) -> Result<(), Error> {
        let config = format!("{library} {}{UNIT}", times.theirs_ms);
        self.write(&TuningEntry { key: TuningKey::new(graph, library, device), config, median_ms: times.ours_ms })
    }

    /// Keeps a winner, in place of an earlier one; does nothing without a folder.
    ///
    /// # Errors
    /// [`Error::Environment`] if the folder cannot be written.
    pub fn put(&self, selection: &Selection, device: &Device, winner: &Tuned) -> Result<(), Error> {
        let config = winner.ranked.config.to_string();
        self.write(&TuningEntry { key: key(selection, device), config, median_ms: winner.sampled.median_ms })
    }

    fn write(&self, entry: &TuningEntry) -> Result<(), Error> {
        let Some(folder) = &self.folder else { return Ok(()) };
        let name = name(&entry.key);
        let write = || -> io::Result<()> {
            let folder = PrivateFolder::create(folder)?.create_subfolder(FOLDER)?;
            folder.write(&name, entry.encode().as_bytes())?;
            folder.keep_within(Limit::of_environment(), &name, DIGITS, &[ENTRY]);
            Ok(())
        };
        write().map_err(|error| environment("the tuned config cannot be kept in", folder, error))
    }

    /// Every file, checked, in the order of their names; none where there is no folder.
    ///
    /// # Errors
    /// [`Error::Environment`] if the folder exists and cannot be read, or is not used since others may write there.
    pub fn entries(&self) -> Result<Vec<StoredTuning>, Error> {
        let Some(folder) = self.existing()? else { return Ok(Vec::new()) };
        let mut names = names(&folder, &[ENTRY])?;
        names.sort();
        let stored = |found: String| {
            let content = read(&folder, &found)?.and_then(|entry| {
                let is_at_home = found == name(&entry.key);
                if is_at_home { Ok(entry) } else { Err("is the entry of another key".to_owned()) }
            });
            Some(StoredTuning { path: folder.path().join(found), content })
        };
        Ok(names.into_iter().filter_map(stored).collect())
    }

    /// Removes every file of ours, and says how many entries there were.
    ///
    /// # Errors
    /// [`Error::Environment`] if a file cannot be removed, or the folder is not used since others may write there.
    pub fn clear(&self) -> Result<usize, Error> {
        let Some(folder) = self.existing()? else { return Ok(0) };
        let mut entries = 0;
        for name in names(&folder, &[ENTRY, UNFINISHED])? {
            match folder.remove(&name) {
                Ok(()) => entries += usize::from(is_ours(&name, DIGITS, ENTRY)),
                // Another process was faster.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(environment("cannot remove", &folder.path().join(name), error)),
            }
        }
        Ok(entries)
    }

    /// The folder, for who can do without it.
    fn folder_to_read(&self) -> Option<PrivateFolder> {
        let folder = PrivateFolder::open_if_private(self.folder.as_ref()?)?;
        match folder.subfolder(FOLDER) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            opened => opened.inspect_err(|error| warn_once(&folder.path().join(FOLDER), error)).ok(),
        }
    }

    /// The folder, if there is one.
    fn existing(&self) -> Result<Option<PrivateFolder>, Error> {
        let Some(folder) = &self.folder else { return Ok(None) };
        match PrivateFolder::open(folder).and_then(|folder| folder.subfolder(FOLDER)) {
            Ok(folder) => Ok(Some(folder)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(environment("cannot read the tuned configs in", folder, error)),
        }
    }
}

fn key(selection: &Selection, device: &Device) -> TuningKey {
    TuningKey::new(selection.supported().graph().key(), selection.engine().name(), device)
}

/// The config of an entry, which must be of this key.
fn check(entry: TuningEntry, key: &TuningKey) -> Result<EngineConfig, String> {
    if entry.key == *key { entry.config.parse() } else { Err("is the entry of another key".to_owned()) }
}

/// Reads and decodes a file; `None` where there is none.
fn read(folder: &PrivateFolder, name: &str) -> Option<Result<TuningEntry, String>> {
    let bytes = folder.read(name, LARGEST_ENTRY)?;
    Some(bytes.and_then(|bytes| TuningEntry::decode(&bytes)))
}

fn name(key: &TuningKey) -> String {
    format!("{}.{ENTRY}", key.file_stem())
}

/// Our files with one of these extensions.
fn names(folder: &PrivateFolder, extensions: &[&str]) -> Result<Vec<String>, Error> {
    let is_wanted = |name: &str| extensions.iter().any(|extension| is_ours(name, DIGITS, extension));
    folder.names(is_wanted).map_err(|error| environment("cannot read", folder.path(), error))
}

fn environment(what: &str, path: &Path, error: io::Error) -> Error {
    Error::Environment { message: format!("{what} {}", path.display()), source: Some(Box::new(error)) }
}

#[cfg(test)]
pub(super) mod tests;
