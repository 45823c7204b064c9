//! Damaged entries of the disk cache.

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::LazyLock;

use serde_json::json;

use super::expect;
use crate::compile::{Cache, CacheKey, Cubin, FunctionResources, Origin};
use crate::error::Error;
use crate::fuzz::choices::Choices;
use crate::fuzz::finding::{Finding, finding};

/// Bytes that say what is done to the entry; those that follow are put in.
const SCRIPT: usize = 32;

/// Where the hash lies in an entry, and what it covers.
const HASH: std::ops::Range<usize> = 16..48;

/// Two entries as files, of the [`key`]s 0 and 1.
static ENTRIES: LazyLock<Result<[Vec<u8>; 2], String>> = LazyLock::new(|| {
    let entry = |number| -> Result<Vec<u8>, Box<dyn std::error::Error>> {
        let folder = tempfile::tempdir()?;
        Cache::at(folder.path()).get_or_compile(&key(number), || Ok(cubin(number)))?;
        Ok(fs::read(file_of(folder.path(), &key(number)))?)
    };
    let both = || Ok::<_, Box<dyn std::error::Error>>([entry(0)?, entry(1)?]);
    both().map_err(|error| error.to_string())
});

/// What one asks of the cache for a key, and what it gave.
type Given = (Cubin, Origin);

/// An entry that is damaged as the bytes say: the cache gives its binary where it is whole, and else has it compiled again
/// and kept. Where the damage has a right checksum, as no accident has, what is given is still what is kept. Gives whether
/// there was damage.
///
/// # Errors
/// The first expectation that is not met.
pub fn cache_entry(bytes: &[u8]) -> Result<bool, Finding> {
    const ORACLE: &str = "a damaged cache entry costs a compilation, and nothing else";
    let Some((script, content)) = bytes.split_at_checked(SCRIPT) else { return Ok(false) };
    let entries = ENTRIES.as_ref().map_err(|error| finding("a cache entry can be written", error))?;
    let (damaged, is_sealed) = damaged(entries, &mut Choices::new(script), content);
    let folder = tempfile::tempdir().map_err(|error| finding("a temporary folder can be made", error))?;
    let file = file_of(folder.path(), &key(0));
    write_private(&file, &damaged).map_err(|error| finding("a temporary file can be written", error))?;

    let is_listed_whole = listed(folder.path())?;
    let rebuilt = Cubin { log: "compiled again".to_owned(), ..cubin(0) };
    let (given, origin) = get(folder.path(), || Ok(rebuilt.clone()))?;
    let is_whole = origin == Origin::Disk;
    expect("the list of entries tells which are damaged", is_whole == is_listed_whole, || format!("{origin:?}"))?;
    if is_whole {
        let is_right = if is_sealed { damaged != entries[1] } else { damaged == entries[0] && given == cubin(0) };
        expect(ORACLE, is_right, || format!("given was {given:?}"))?;
    } else {
        expect(ORACLE, given == rebuilt && damaged != entries[0], || format!("given was {given:?}"))?;
    }
    let kept = get(folder.path(), || Err(Error::environment("asked to compile again")))?;
    expect("what the cache gave is kept", kept == (given, Origin::Disk), || format!("{kept:?}"))?;
    Ok(damaged != entries[0])
}

/// Writes a file that others may not write, whatever the process's mask is: such a one is not read.
fn write_private(path: &Path, content: &[u8]) -> io::Result<()> {
    fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?.write_all(content)
}

/// Whether the only entry of the folder is listed as whole.
fn listed(folder: &Path) -> Result<bool, Finding> {
    const ORACLE: &str = "a damaged cache entry is listed";
    let entries = Cache::at(folder).entries().map_err(|error| finding(ORACLE, error))?;
    match &entries[..] {
        [entry] => Ok(entry.content.is_ok()),
        entries => Err(finding(ORACLE, format!("{} entries", entries.len()))),
    }
}

/// What a new process would get.
fn get(folder: &Path, compile: impl FnOnce() -> Result<Cubin, Error>) -> Result<Given, Finding> {
    let got = Cache::at(folder).get_or_compile(&key(0), compile);
    let (cubin, origin) = got.map_err(|error| finding("the cache gives a binary", error))?;
    Ok(((*cubin).clone(), origin))
}

/// The first entry after up to four changes, and whether its checksum was made right again.
fn damaged(entries: &[Vec<u8>; 2], choices: &mut Choices<'_>, content: &[u8]) -> (Vec<u8>, bool) {
    let mut file = entries[0].clone();
    for _ in 0..choices.below(5) {
        damage(&mut file, entries, choices, content);
    }
    let seals = choices.chance(50) && file.len() >= HASH.end;
    if seals {
        let hash = blake3::hash(&file[HASH.end..]);
        file[HASH].copy_from_slice(hash.as_bytes());
    }
    (file, seals)
}

fn damage(file: &mut Vec<u8>, entries: &[Vec<u8>; 2], choices: &mut Choices<'_>, content: &[u8]) {
    let at = choices.below(file.len() + 1);
    match choices.below(6) {
        0 => file.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= 1 << choices.below(8)),
        1 => file.truncate(at),
        2 => drop(file.splice(at..at, content.iter().copied())),
        3 => file.iter_mut().skip(at).zip(content).for_each(|(byte, new)| *byte = *new),
        4 => *file = content.to_vec(),
        _ => file.clone_from(&entries[1]),
    }
}

fn file_of(folder: &Path, key: &CacheKey) -> std::path::PathBuf {
    folder.join(key.file_stem()).with_extension("cubin")
}

/// A key as a listing would read it; numbers give different ones.
fn key(number: usize) -> CacheKey {
    let key = json!({
        "graph": format!("graph {number}"), "engine": "matmul", "config": "tile 128x128", "source": "0123",
        "nvrtc": "13.0 (1 bytes)", "options": ["-arch=sm_90a"], "target": "sm_90a", "fusewright": "0.1.0",
    });
    serde_json::from_value(key).expect("every part of a key is there")
}

fn cubin(number: usize) -> Cubin {
    let function = FunctionResources { function: "kernel".to_owned(), registers: 64, ..FunctionResources::default() };
    Cubin {
        images: vec![format!("\x7fELF image {number}").into_bytes(); number % 3 + 1],
        log: "ptxas info".to_owned(),
        resources: vec![function],
        warnings: vec!["a warning".to_owned()],
        milliseconds: 12.5,
    }
}
