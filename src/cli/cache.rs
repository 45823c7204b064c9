//! `fusewright cache`: the folder of compiled binaries.

use std::fs;
use std::path::{Path, PathBuf};

use fusewright::compile::{Cache, CacheEntry};
use fusewright::error::Error;

use super::arguments::{CacheAction, CacheOptions};
use super::console::{Console, Style};
use super::outcome::{Outcome, Result};
use super::units;

/// Folder of the emulator's libraries, inside the cache.
const EMULATOR: &str = "emulator";

/// Where the emulator keeps compiled libraries; `None` where the disk cache is off.
pub(super) fn emulator_folder(cache: &Cache) -> Option<PathBuf> {
    cache.folder().map(|folder| folder.join(EMULATOR))
}

pub(super) fn run(options: &CacheOptions, console: &mut Console) -> Result<()> {
    let cache = Cache::from_environment();
    let Some(folder) = cache.folder() else {
        let message = "there is no disk cache: FUSEWRIGHT_CACHE is off, or the user has no home folder";
        return Err(Error::environment(message).into());
    };
    match options.action {
        CacheAction::Path => Ok(console.line(folder.display())?),
        CacheAction::List => list(&cache, folder, console),
        CacheAction::Clear => clear(&cache, folder, console),
        CacheAction::Verify => verify(&cache, folder, console),
    }
}

fn list(cache: &Cache, folder: &Path, console: &mut Console) -> Result<()> {
    let entries = cache.entries()?;
    for entry in &entries {
        console.line(entry_line(entry))?;
    }
    let bytes = entries.iter().map(|entry| entry.bytes).sum();
    let (libraries, library_bytes) = emulator_files(folder);
    console.line(format_args!(
        "{}, {} in {}; {} of the emulator, {}",
        units::plural(entries.len(), "binary").replace("binarys", "binaries"),
        units::bytes(bytes),
        folder.display(),
        units::plural(libraries, "file"),
        units::bytes(library_bytes),
    ))?;
    Ok(())
}

fn entry_line(entry: &CacheEntry) -> String {
    let age = units::seconds(entry.age.as_secs_f64());
    let stem = entry.path.file_stem().unwrap_or_default().to_string_lossy();
    let what = match &entry.content {
        Ok(key) => format!("{} {} graph {} NVRTC {}", key.target(), key.config(), key.graph(), key.nvrtc()),
        Err(damage) => format!("damaged: {damage}"),
    };
    format!("{stem:.16}  {:>9}  {age:>8} old  {what}", units::bytes(entry.bytes))
}

fn clear(cache: &Cache, folder: &Path, console: &mut Console) -> Result<()> {
    let (libraries, library_bytes) = emulator_files(folder);
    let cleared = cache.clear()?;
    if let Err(error) = fs::remove_dir_all(folder.join(EMULATOR))
        && error.kind() != std::io::ErrorKind::NotFound
    {
        let message = format!("cannot remove {}", folder.join(EMULATOR).display());
        return Err(Error::Environment { message, source: Some(Box::new(error)) }.into());
    }
    let removed = cleared.entries + libraries as u64;
    let bytes = units::bytes(cleared.bytes + library_bytes);
    console.line(format_args!("removed {removed} entries, {bytes}, from {}", folder.display()))?;
    Ok(())
}

fn verify(cache: &Cache, folder: &Path, console: &mut Console) -> Result<()> {
    let entries = cache.entries()?;
    let mut damaged = 0;
    for entry in &entries {
        if let Err(damage) = &entry.content {
            damaged += 1;
            let word = console.paint(Style::Bad, "damaged");
            console.line(format_args!("{word} {}: {damage}", entry.path.display()))?;
        }
    }
    console.line(format_args!(
        "{} entries in {}, {damaged} damaged{}",
        entries.len(),
        folder.display(),
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
