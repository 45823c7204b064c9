//! What can befall a cache's folder while processes use it.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use fusewright::compile::Cache;

use crate::chance::Chance;

/// Files that are not the cache's, though some look like it, with what they hold.
pub(crate) const FOREIGN: [(&str, &str); 6] = [
    ("notes.txt", "mine"),
    ("Cargo.lock", "mine, too"),
    ("kernel.cubin", "\x7fELF"),
    ("film.part", "half of it"),
    ("0123.lock", ""),
    ("ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff.txt", "64 digits"),
];

/// Length of an entry that was stretched: as large as an entry may be.
const STRETCHED: u64 = 1 << 30;

/// One kind of harm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Harm {
    /// One bit of an entry, or of a file that is being written.
    FlipBit,
    /// The end of such a file is lost.
    Truncate,
    /// An entry grows to a gigabyte of zeros, which take no room.
    Stretch,
    /// An entry lies under another's name.
    Swap,
    /// An entry is gone.
    Remove,
    /// Every file of the cache is gone, by its own means.
    Clear,
    /// The folder is gone.
    RemoveFolder,
    /// A file lies where the folder was: nothing can be written, by nobody.
    FileInPlace,
    /// The folder's permissions forbid writing, to all but root.
    ReadOnly,
    /// [`FOREIGN`], and hundreds of others.
    ForeignFiles,
    /// Where an entry was is a folder, a pipe or a link to itself.
    ObstacleForEntry,
    /// The same for its lock.
    ObstacleForLock,
}

impl Harm {
    pub(crate) const ALL: [Self; 12] = [
        Self::FlipBit,
        Self::Truncate,
        Self::Stretch,
        Self::Swap,
        Self::Remove,
        Self::Clear,
        Self::RemoveFolder,
        Self::FileInPlace,
        Self::ReadOnly,
        Self::ForeignFiles,
        Self::ObstacleForEntry,
        Self::ObstacleForLock,
    ];

    /// Does it, unless the state of the folder or another process prevents that.
    pub(crate) fn inflict(self, folder: &Path, chance: &mut Chance) -> io::Result<()> {
        match self {
            Self::FlipBit => flip_bit(&pick(folder, &["cubin", "part"], chance)?, chance),
            Self::Truncate => truncate(&pick(folder, &["cubin", "part"], chance)?, chance),
            Self::Stretch => writable(&pick(folder, &["cubin"], chance)?)?.set_len(STRETCHED),
            Self::Swap => {
                let [from, to] = [pick(folder, &["cubin"], chance)?, pick(folder, &["cubin"], chance)?];
                fs::copy(from, to).map(drop)
            }
            Self::Remove => fs::remove_file(pick(folder, &["cubin"], chance)?),
            Self::Clear => Cache::at(folder).clear().map(drop).map_err(io::Error::other),
            Self::RemoveFolder => fs::remove_dir_all(folder),
            Self::FileInPlace => {
                fs::remove_dir_all(folder)?;
                File::create_new(folder).map(drop)
            }
            Self::ReadOnly => fs::set_permissions(folder, Permissions::from_mode(0o500)),
            Self::ForeignFiles => add_foreign_files(folder),
            Self::ObstacleForEntry => put_obstacle(&pick(folder, &["cubin"], chance)?, chance.below(3)),
            Self::ObstacleForLock => {
                put_obstacle(&pick(folder, &["cubin", "lock"], chance)?.with_extension("lock"), chance.below(3))
            }
        }
    }
}

/// Undoes what a cache cannot undo: its folder can be made and written, and nothing but files lies in it.
pub(crate) fn mend(folder: &Path) {
    if folder.is_file() {
        fs::remove_file(folder).expect("a file that can be removed");
    }
    fs::create_dir_all(folder).expect("a folder that can be made");
    fs::set_permissions(folder, Permissions::from_mode(0o700)).expect("the test's own folder");
    for entry in fs::read_dir(folder).expect("a folder").flatten() {
        // What is gone by now was another process's.
        let _ = match entry.file_type() {
            Ok(kind) if kind.is_dir() => fs::remove_dir_all(entry.path()),
            Ok(kind) if !kind.is_file() => fs::remove_file(entry.path()),
            _ => Ok(()),
        };
    }
}

pub(crate) fn add_foreign_files(folder: &Path) -> io::Result<()> {
    FOREIGN.iter().try_for_each(|(name, content)| fs::write(folder.join(name), content))?;
    (0..300).try_for_each(|number| File::create(folder.join(format!("{number}.tmp"))).map(drop))
}

/// Names of the files with one of these extensions, in order.
pub(crate) fn files(folder: &Path, extensions: &[&str]) -> io::Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder)?.flatten().map(|entry| entry.path());
    let is_meant =
        |path: &PathBuf| path.extension().is_some_and(|found| extensions.iter().any(|wanted| found == *wanted));
    let mut files: Vec<PathBuf> = entries.filter(is_meant).collect();
    files.sort();
    Ok(files)
}

/// A file of the cache with one of these extensions; no obstacle, as a pipe would block who opens it, and none that was
/// stretched, which would take minutes to copy.
fn pick(folder: &Path, extensions: &[&str], chance: &mut Chance) -> io::Result<PathBuf> {
    let mut files = files(folder, extensions)?;
    files.retain(|path| {
        fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_file() && metadata.len() < STRETCHED)
    });
    files.retain(|path| FOREIGN.iter().all(|(name, _)| !path.ends_with(name)));
    chance.of(&files).cloned().ok_or_else(|| io::ErrorKind::NotFound.into())
}

/// Opens a file for changes in place.
fn writable(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).open(path)
}

fn flip_bit(path: &Path, chance: &mut Chance) -> io::Result<()> {
    let mut file = writable(path)?;
    let position = chance.below(file.metadata()?.len().max(1));
    let mut byte = [0];
    file.seek(SeekFrom::Start(position))?;
    file.read_exact(&mut byte)?;
    file.seek(SeekFrom::Start(position))?;
    file.write_all(&[byte[0] ^ 1 << chance.below(8)])
}

fn truncate(path: &Path, chance: &mut Chance) -> io::Result<()> {
    let file = writable(path)?;
    let length = file.metadata()?.len();
    file.set_len(chance.below(length.max(1)))
}

/// Puts obstacles of all kinds where three entries were, and where the locks of three others are looked for. Fewer where
/// there are not so many entries; says how many.
pub(crate) fn put_obstacles(folder: &Path) -> io::Result<usize> {
    let entries = files(folder, &["cubin"])?;
    let ours = entries.iter().filter(|path| path.is_file() && FOREIGN.iter().all(|(name, _)| !path.ends_with(name)));
    let mut count = 0;
    for path in ours.take(6) {
        let kind = count as u64 % 3;
        if count < 3 {
            put_obstacle(path, kind)?;
        } else {
            fs::remove_file(path)?;
            put_obstacle(&path.with_extension("lock"), kind)?;
        }
        count += 1;
    }
    Ok(count)
}

/// A folder, a link to itself or a pipe, by number.
fn put_obstacle(path: &Path, kind: u64) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    match kind {
        0 => fs::create_dir_all(path.join("not empty")),
        1 => symlink(path, path),
        _ => match Command::new("mkfifo").arg(path).stderr(Stdio::null()).status()?.success() {
            true => Ok(()),
            false => Err(io::ErrorKind::AlreadyExists.into()),
        },
    }
}
