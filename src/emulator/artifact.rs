//! Files of the build cache: written whole or not at all, and recognised when damaged.

use std::path::Path;

use crate::compile::{Limit, PrivateFolder, UNFINISHED, is_ours};
use crate::error::{Error, Result};

const SEAL_BYTES: usize = blake3::OUT_LEN;

/// Larger files are not ours.
const LARGEST: u64 = 1 << 30;

/// Digits of a key in the name of a file, and the extensions: libraries, the runtime, sources that do not compile.
const DIGITS: usize = 32;
const EXTENSIONS: [&str; 3] = ["so", "o", "cu"];

/// Writes `contents`, followed by their hash, in one step. Object files and shared libraries tolerate bytes after their
/// end.
pub(super) fn store(folder: &PrivateFolder, name: &str, contents: &[u8]) -> Result<()> {
    store_plain(folder, name, &[contents, blake3::hash(contents).as_bytes()].concat())
}

/// Writes a file that people read.
pub(super) fn store_plain(folder: &PrivateFolder, name: &str, contents: &[u8]) -> Result<()> {
    folder.write(name, contents).map_err(|error| cannot("write", &folder.path().join(name), error))?;
    folder.keep_within(Limit::of_environment(), name, DIGITS, &EXTENSIONS);
    Ok(())
}

/// What [`store`] once wrote there, unless it is damaged.
pub(super) fn read(folder: &PrivateFolder, name: &str) -> Option<Vec<u8>> {
    let mut contents = folder.read(name, LARGEST)?.ok()?;
    let seal = contents.split_off(contents.len().checked_sub(SEAL_BYTES)?);
    (blake3::hash(&contents).as_bytes()[..] == seal).then_some(contents)
}

/// Removes every file of ours, and the folder where nothing else is in it.
pub(super) fn clear(folder: &PrivateFolder) -> std::io::Result<()> {
    let is_one = |name: &str| EXTENSIONS.iter().chain([&UNFINISHED]).any(|extension| is_ours(name, DIGITS, extension));
    for name in folder.names(is_one)? {
        match folder.remove(&name) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    // It stays where others keep files in it.
    let _ = std::fs::remove_dir(folder.path());
    Ok(())
}

/// The error of a failed file operation: `cannot write '…'`.
pub(super) fn cannot(verb: &str, path: &Path, error: std::io::Error) -> Error {
    Error::Environment { message: format!("cannot {verb} {path:?}"), source: Some(Box::new(error)) }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const NAME: &str = "artifact";

    #[test]
    fn a_damaged_or_truncated_file_is_not_intact() {
        let dir = tempfile::tempdir().unwrap();
        let folder = PrivateFolder::open(dir.path()).unwrap();
        let path = dir.path().join(NAME);
        let is_intact = || read(&folder, NAME).is_some_and(|contents| contents == b"contents");
        assert!(!is_intact());
        store(&folder, NAME, b"contents").unwrap();
        assert!(is_intact());

        let mut bytes = fs::read(&path).unwrap();
        for length in [bytes.len() - 1, SEAL_BYTES, 3, 0] {
            fs::write(&path, &bytes[..length]).unwrap();
            assert!(!is_intact(), "{length} bytes");
        }
        bytes[0] ^= 1;
        fs::write(&path, &bytes).unwrap();
        assert!(!is_intact());
    }

    #[test]
    fn a_directory_that_cannot_be_written_is_an_error_of_the_environment() {
        let dir = tempfile::tempdir().unwrap();
        let folder = PrivateFolder::create(&dir.path().join("gone")).unwrap();
        fs::remove_dir(folder.path()).unwrap();
        let error = store(&folder, NAME, b"").unwrap_err();
        assert_eq!(error.to_string(), format!("cannot write {:?}", folder.path().join(NAME)));
        assert_eq!(error.exit_code(), 3);
    }
}
