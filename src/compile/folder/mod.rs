//! Folders of ours on disk. What lies there runs as machine code, so nobody but its user may write there.
//!
//! A folder is opened, looked at through its descriptor and used through it from then on: what its path names later, and
//! who may rename the folders above it, plays no part. Checksums find damage; that no file is forged rests on this alone.

mod limit;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::fs::{DirBuilder, File};
use std::io::{self, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use rustix::fs::{
    AtFlags, Dir, FileType, Mode, OFlags, Stat, fstat, mkdirat, open, openat, renameat, statat, unlinkat,
};
use rustix::io::Errno;
use rustix::process::geteuid;

pub(crate) use limit::Limit;

/// Extension of a file that is being written.
pub(crate) const UNFINISHED: &str = "part";
/// What the names of unfinished files begin with.
const TEMPORARY: &str = ".tmp";

/// What a killed process left is removed after this time; far above what any file is written or any lock held for.
const ABANDONED: Duration = Duration::from_secs(60 * 60);

/// A folder that is its user's or root's and that nobody else may write, held open.
#[derive(Debug)]
pub(crate) struct PrivateFolder {
    descriptor: OwnedFd,
    path: PathBuf,
}

/// A folder that is not used, since others than its user could put machine code there.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Untrusted(String);

impl PrivateFolder {
    /// Opens a folder.
    ///
    /// # Errors
    /// Those of the system; or that others may write there, with what to do.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let descriptor = open(path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        Self::checked(descriptor, path.to_owned())
    }

    /// Opens a folder for who can do without it: none where there is none, or where others may write, with a warning.
    pub(crate) fn open_if_private(path: &Path) -> Option<Self> {
        Self::open(path).inspect_err(|error| warn_of_distrust(path, error)).ok()
    }

    /// Opens a folder, made for its user alone where it is absent, as are the folders above it.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub(crate) fn create(path: &Path) -> io::Result<Self> {
        match Self::open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                DirBuilder::new().recursive(true).mode(0o700).create(path)?;
                Self::open(path)
            }
            opened => opened,
        }
    }

    /// Opens a folder in this one.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub(crate) fn subfolder(&self, name: &str) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Self::checked(openat(&self.descriptor, name, flags, Mode::empty())?, self.path.join(name))
    }

    /// Opens a folder in this one, made where it is absent.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub(crate) fn create_subfolder(&self, name: &str) -> io::Result<Self> {
        match mkdirat(&self.descriptor, name, Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => self.subfolder(name),
            Err(error) => Err(error.into()),
        }
    }

    fn checked(descriptor: OwnedFd, path: PathBuf) -> io::Result<Self> {
        let Some(distrust) = Distrust::of(&fstat(&descriptor)?) else { return Ok(Self { descriptor, path }) };
        let mend = match distrust {
            Distrust::Owner { .. } => String::new(),
            Distrust::Mode(_) => format!("'chmod go-w {}' or ", path.display()),
        };
        let message = format!(
            "{} {distrust}, and what lies there runs as code; mended by {mend}another folder in FUSEWRIGHT_CACHE_DIR",
            path.display()
        );
        Err(io::Error::new(io::ErrorKind::PermissionDenied, Untrusted(message)))
    }

    /// Where it was found.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// A path by which the system's loader finds a file of this very folder.
    #[cfg(feature = "emulator")]
    pub(crate) fn path_to_load(&self, name: &str) -> PathBuf {
        use std::os::fd::AsRawFd as _;
        Path::new("/proc/self/fd").join(self.descriptor.as_raw_fd().to_string()).join(name)
    }

    /// A file with its length, or why it is not read; `None` where there is none. It is no link, nothing waits for a
    /// pipe's other end, and it is the opened file that is looked at.
    pub(crate) fn file(&self, name: &str, largest: u64) -> Option<Result<(File, u64), String>> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = match openat(&self.descriptor, name, flags, Mode::empty()) {
            Err(Errno::NOENT) => return None,
            Err(Errno::LOOP) => return Some(Err("is a link".to_owned())),
            opened => opened.map_err(unreadable),
        };
        Some(file.and_then(|file| private_file(file, largest)))
    }

    /// The content of a file, as [`Self::file`].
    pub(crate) fn read(&self, name: &str, largest: u64) -> Option<Result<Vec<u8>, String>> {
        Some(self.file(name, largest)?.and_then(content))
    }

    /// Writes beside a file and renames, so that a reader sees all of it or nothing. It is not flushed to the disk: what
    /// a power cut spoils has a wrong checksum.
    pub(crate) fn write(&self, name: &str, content: &[u8]) -> io::Result<()> {
        let (unfinished, mut file) = self.unfinished()?;
        let renamed = || Ok(renameat(&self.descriptor, &unfinished, &self.descriptor, name)?);
        let written = file.write_all(content).and_then(|()| renamed());
        if written.is_err() {
            // The error tells what matters.
            let _ = self.remove(&unfinished);
        }
        written
    }

    /// A new file, its user's alone, under a name that nobody has.
    fn unfinished(&self) -> io::Result<(String, File)> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        loop {
            let (process, number) = (std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
            let name = format!("{TEMPORARY}{process:x}-{number:x}.{UNFINISHED}");
            match openat(&self.descriptor, &name, flags, Mode::RUSR | Mode::WUSR) {
                // Of a process that was killed, or that has this number elsewhere.
                Err(Errno::EXIST) => {}
                opened => return Ok((name, File::from(opened?))),
            }
        }
    }

    /// Opens a file for a lock, made where it is absent. Whoever opens a pipe for writing alone waits for a reader.
    pub(crate) fn lock_file(&self, name: &str) -> io::Result<File> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        Ok(openat(&self.descriptor, name, flags, Mode::RUSR | Mode::WUSR)?.into())
    }

    /// Removes a file.
    pub(crate) fn remove(&self, name: &str) -> io::Result<()> {
        Ok(unlinkat(&self.descriptor, name, AtFlags::empty())?)
    }

    /// What the system says of a file; of a link, of the link itself.
    pub(crate) fn stat(&self, name: &str) -> io::Result<Stat> {
        Ok(statat(&self.descriptor, name, AtFlags::SYMLINK_NOFOLLOW)?)
    }

    /// The names in it that `is_wanted`, in no order.
    pub(crate) fn names(&self, is_wanted: impl Fn(&str) -> bool) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in Dir::read_from(&self.descriptor)? {
            // A name that is no text is not ours.
            names.extend(entry?.file_name().to_str().ok().filter(|name| is_wanted(name)).map(str::to_owned));
        }
        Ok(names)
    }

    /// The names in it that `is_wanted` of files which killed processes left.
    pub(crate) fn abandoned(&self, is_wanted: impl Fn(&str) -> bool) -> io::Result<Vec<String>> {
        let mut names = self.names(is_wanted)?;
        names.retain(|name| self.stat(name).is_ok_and(|stat| age(&stat) > ABANDONED));
        Ok(names)
    }
}

/// The content of a file that its user or root owns and nobody else may write, wherever it lies, or why it is not read.
pub(crate) fn read_private_file(path: &Path, largest: u64) -> Result<Vec<u8>, String> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = open(path, flags, Mode::empty()).map_err(unreadable)?;
    private_file(file, largest).and_then(content)
}

fn unreadable(error: Errno) -> String {
    format!("cannot be read: {}", io::Error::from(error))
}

/// An opened file with its length, if it is one that its user or root owns and nobody else may write.
fn private_file(file: OwnedFd, largest: u64) -> Result<(File, u64), String> {
    let stat = fstat(&file).map_err(unreadable)?;
    let length = u64::try_from(stat.st_size).unwrap_or(u64::MAX);
    if !is_file(&stat) || length > largest {
        return Err("is no file of ours".to_owned());
    }
    Distrust::of(&stat).map_or_else(|| Ok((File::from(file), length)), |distrust| Err(distrust.to_string()))
}

/// What a file has at most so many bytes of: it may grow meanwhile.
fn content((file, length): (File, u64)) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let read = file.take(length).read_to_end(&mut bytes);
    read.map(|_| bytes).map_err(|error| format!("cannot be read: {error}"))
}

/// Why a folder or a file is not believed to be its user's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Distrust {
    /// Who owns it, and who runs this.
    Owner { owner: u32, user: u32 },
    /// Its permissions, by which others may write.
    Mode(u32),
}

impl Distrust {
    /// Access lists show in the group's bits. A sticky bit keeps nobody from adding files.
    fn of(stat: &Stat) -> Option<Self> {
        let (owner, user) = (stat.st_uid, geteuid().as_raw());
        if owner != user && owner != 0 {
            return Some(Self::Owner { owner, user });
        }
        (stat.st_mode & 0o022 != 0).then_some(Self::Mode(stat.st_mode & 0o7777))
    }
}

impl std::fmt::Display for Distrust {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Owner { owner, user } => write!(f, "belongs to user {owner}, not to user {user}, who runs this"),
            Self::Mode(mode) => write!(f, "has mode {mode:04o}, by which others than its owner may write it"),
        }
    }
}

/// Whether a name is one of ours: so many hexadecimal digits and this extension, or that of an unfinished file.
pub(crate) fn is_ours(name: &str, digits: usize, extension: &str) -> bool {
    let Some((stem, found)) = name.rsplit_once('.') else { return false };
    let has_our_stem = match extension {
        UNFINISHED => stem.starts_with(TEMPORARY),
        _ => stem.len() == digits && stem.bytes().all(|byte| byte.is_ascii_hexdigit()),
    };
    has_our_stem && found == extension
}

/// Time since a file was written; zero where the clock went back.
pub(crate) fn age(stat: &Stat) -> Duration {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let written = Duration::new(stat.st_mtime.try_into().unwrap_or(0), stat.st_mtime_nsec.try_into().unwrap_or(0));
    now.saturating_sub(written)
}

fn is_file(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode).is_file()
}

/// Warns that a cache is done without, once a process and folder.
pub(crate) fn warn_once(folder: &Path, error: &io::Error) {
    static WARNED: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());
    // Not waited for: in the child of a fork, nobody may be left to give it back.
    if WARNED.try_lock().is_ok_and(|mut warned| warned.insert(folder.to_owned())) {
        tracing::warn!(folder = %folder.display(), %error, "going on without the disk cache");
    }
}

fn warn_of_distrust(folder: &Path, error: &io::Error) {
    if error.get_ref().is_some_and(|cause| cause.is::<Untrusted>()) {
        warn_once(folder, error);
    }
}
