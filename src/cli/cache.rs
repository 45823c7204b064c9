//! `fusewright cache`: the folder of compiled binaries and tuned configs.

use std::error::Error as _;
use std::fs;
use std::path::{Path, PathBuf};

use fusewright::compile::{Cache, CacheEntry};
use fusewright::emulator;
use fusewright::error::Error;
use fusewright::tuning::{StoredTuning, TuningEntry, TuningStore};

use super::arguments::{CacheAction, CacheOptions};
use super::console::{Console, Style};
use super::outcome::{Outcome, Result};
use super::{plain, units};

/// Folder of the emulator's libraries, inside the cache.
const EMULATOR: &str = "emulator";

/// Where the emulator keeps compiled libraries; `None`, with a warning, where the disk cache cannot be used, and without
/// one where it is off.
pub(super) fn emulator_folder(cache: &Cache) -> Option<PathBuf> {
    let folder = cache.folder()?;
    if let Err(error) = cache.prepare() {
        tracing::warn!("the emulator goes on without the cache: {}", with_cause(&error));
        return None;
    }
    Some(folder.join(EMULATOR))
}

fn with_cause(error: &Error) -> String {
    let cause = error.source().map(|cause| format!(": {cause}")).unwrap_or_default();
    format!("{error}{cause}")
}

pub(super) fn run(options: &CacheOptions, console: &mut Console) -> Result<()> {
    let cache = Cache::from_environment();
    let Some(folder) = cache.folder() else {
        let message = "there is no disk cache: FUSEWRIGHT_CACHE is off, or the user has no home folder";
        return Err(Error::environment(message).into());
    };
    match options.action {
        CacheAction::Path => path(&cache, folder, console),
        CacheAction::List => list(&cache, folder, console),
        CacheAction::Clear => clear(&cache, folder, console),
        CacheAction::Verify => verify(&cache, folder, console),
    }
}

/// The path, and a warning if there is a folder that cannot be used.
fn path(cache: &Cache, folder: &Path, console: &mut Console) -> Result<()> {
    console.line(plain::path(folder))?;
    if folder.exists()
        && let Err(error) = cache.prepare()
    {
        tracing::warn!("{}", with_cause(&error));
    }
    Ok(())
}

fn list(cache: &Cache, folder: &Path, console: &mut Console) -> Result<()> {
    let entries = cache.entries()?;
    for entry in &entries {
        console.line(entry_line(entry))?;
    }
    let tunings = TuningStore::beside(cache).entries()?;
    for stored in &tunings {
        console.line(tuning_line(stored))?;
    }
    let bytes = entries.iter().map(|entry| entry.bytes).sum();
    let (libraries, library_bytes) = emulator_files(folder);
    console.line(format_args!(
        "{}, {} in {}; {}; {} of the emulator, {}",
        units::plural(entries.len(), "binary"),
        units::bytes(bytes),
        plain::path(folder),
        units::plural(tunings.len(), "tuned config"),
        units::plural(libraries, "file"),
        units::bytes(library_bytes),
    ))?;
    Ok(())
}

fn entry_line(entry: &CacheEntry) -> String {
    let age = units::seconds(entry.age.as_secs_f64());
    let stem = entry.path.file_stem().unwrap_or_default().to_string_lossy();
    let stem = plain::part(&stem);
    let what = match &entry.content {
        Ok(key) => {
            let parts = [key.target(), key.config(), key.graph(), key.nvrtc()].map(plain::part);
            format!("{} {} graph {} NVRTC {}", parts[0], parts[1], parts[2], parts[3])
        }
        Err(damage) => format!("damaged: {}", plain::part(damage)),
    };
    format!("{stem:.16}  {:>9}  {age:>8} old  {what}", units::bytes(entry.bytes))
}

fn tuning_line(stored: &StoredTuning) -> String {
    let stem = stored.path.file_stem().unwrap_or_default().to_string_lossy();
    let stem = plain::part(&stem);
    let what = match &stored.content {
        Ok(TuningEntry { key, config, .. }) => {
            let (device, config) = (key.device().escape_debug(), config.escape_debug());
            format!("tuned on {device}: {config} graph {}", plain::part(key.graph()))
        }
        Err(damage) => format!("damaged: {}", plain::part(damage)),
    };
    format!("{stem:.16}  {what}")
}

fn clear(cache: &Cache, folder: &Path, console: &mut Console) -> Result<()> {
    let (libraries, library_bytes) = emulator_files(folder);
    let cleared = cache.clear()?;
    let tunings = TuningStore::beside(cache).clear()?;
    emulator::clear(&folder.join(EMULATOR))?;
    let removed = cleared.entries + (tunings + libraries) as u64;
    let bytes = units::bytes(cleared.bytes + library_bytes);
    console.line(format_args!("removed {removed} entries, {bytes}, from {}", plain::path(folder)))?;
    Ok(())
}

fn verify(cache: &Cache, folder: &Path, console: &mut Console) -> Result<()> {
    let binaries = cache.entries()?.into_iter().map(|entry| (entry.path, entry.content.err()));
    let tunings = TuningStore::beside(cache).entries()?.into_iter().map(|stored| (stored.path, stored.content.err()));
    let entries: Vec<(PathBuf, Option<String>)> = binaries.chain(tunings).collect();
    let mut damaged = 0;
    for (path, damage) in entries.iter().filter_map(|(path, damage)| Some((path, damage.as_ref()?))) {
        damaged += 1;
        let word = console.paint(Style::Bad, "damaged");
        console.line(format_args!("{word} {}: {}", plain::path(path), plain::part(damage)))?;
    }
    console.line(format_args!(
        "{} entries in {}, {damaged} damaged{}",
        entries.len(),
        plain::path(folder),
        if damaged > 0 { "; each is replaced when it is next needed" } else { "" }
    ))?;
    if damaged > 0 {
        console.note_outcome(Outcome::Refused);
    }
    Ok(())
}

/// Number and size of the emulator's files.
fn emulator_files(folder: &Path) -> (usize, u64) {
    let files = fs::read_dir(folder.join(EMULATOR)).into_iter().flatten().flatten();
    let sizes = files.filter_map(|file| file.metadata().ok()).map(|metadata| metadata.len());
    sizes.fold((0, 0), |(count, bytes), size| (count + 1, bytes + size))
}
