//! Files of the build cache: written whole or not at all, and recognised when damaged.

use std::fs;
use std::io::Write;
use std::path::Path;

use tempfile::NamedTempFile;

use crate::error::{Error, Result};

const SEAL_BYTES: usize = blake3::OUT_LEN;

/// Writes `contents`, followed by their hash, to `path` in one step. Object files and shared libraries tolerate bytes
/// after their end.
pub(super) fn store(path: &Path, contents: &[u8]) -> Result<()> {
    let write = || -> std::io::Result<()> {
        let mut file = NamedTempFile::new_in(path.parent().unwrap_or(Path::new(".")))?;
        file.write_all(contents)?;
        file.write_all(blake3::hash(contents).as_bytes())?;
        file.persist(path)?;
        Ok(())
    };
    write().map_err(|error| cannot("write", path, error))
}

/// Whether `path` holds what [`store`] once wrote there.
pub(super) fn is_intact(path: &Path) -> bool {
    let Ok(bytes) = fs::read(path) else { return false };
    let Some(length) = bytes.len().checked_sub(SEAL_BYTES) else { return false };
    let (contents, seal) = bytes.split_at(length);
    blake3::hash(contents).as_bytes() == seal
}

/// The error of a failed file operation: `cannot write '…'`.
pub(super) fn cannot(verb: &str, path: &Path, error: std::io::Error) -> Error {
    Error::Environment { message: format!("cannot {verb} {path:?}"), source: Some(Box::new(error)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_damaged_or_truncated_file_is_not_intact() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("artifact");
        assert!(!is_intact(&path));
        store(&path, b"contents").unwrap();
        assert!(is_intact(&path));

        let mut bytes = fs::read(&path).unwrap();
        for length in [bytes.len() - 1, SEAL_BYTES, 3, 0] {
            fs::write(&path, &bytes[..length]).unwrap();
            assert!(!is_intact(&path), "{length} bytes");
        }
        bytes[0] ^= 1;
        fs::write(&path, &bytes).unwrap();
        assert!(!is_intact(&path));
    }

    #[test]
    fn a_directory_that_cannot_be_written_is_an_error_of_the_environment() {
        let error = store(Path::new("/nonexistent/artifact"), b"").unwrap_err();
        assert_eq!(error.to_string(), "cannot write \"/nonexistent/artifact\"");
        assert_eq!(error.exit_code(), 3);
    }
}
