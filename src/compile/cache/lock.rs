//! A lock between processes: a file, locked through the operating system, which releases it when its holder dies.

use std::fs::{File, OpenOptions, TryLockError};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The right to build one entry.
///
/// The file is removed while it is still locked. Who waits for it then gets the lock of a file without a name, looks
/// for the entry, and finds it; who comes later finds the entry at once. The worst that can happen is that two
/// processes compile the same source, which is harmless.
#[derive(Debug)]
pub(super) struct Lock {
    path: PathBuf,
    file: File,
}

impl Drop for Lock {
    fn drop(&mut self) {
        // A file that stays behind costs nothing; the next holder removes it, or who sweeps the folder.
        let _ = std::fs::remove_file(&self.path);
        // a child that was forked meanwhile has the file open, too, and the lock would be its own
        let _ = self.file.unlock();
    }
}

impl Lock {
    /// Waits for the lock, but not longer than `patience`: a holder that hangs must not stop others, and some file
    /// systems have no locks.
    pub(super) fn acquire(path: &Path, patience: Duration) -> Option<Self> {
        // Whoever opens a pipe for writing alone waits for a reader.
        let file = OpenOptions::new().create(true).truncate(false).read(true).write(true).open(path).ok()?;
        let deadline = Instant::now() + patience;
        let mut pause = Duration::from_millis(1);
        loop {
            match file.try_lock() {
                Ok(()) => return Some(Self { path: path.to_owned(), file }),
                Err(TryLockError::WouldBlock) if Instant::now() < deadline => std::thread::sleep(pause),
                Err(TryLockError::WouldBlock) => {
                    tracing::warn!(path = %path.display(), "another process holds the lock for too long; not waiting");
                    return None;
                }
                Err(TryLockError::Error(error)) => {
                    tracing::debug!(path = %path.display(), %error, "no locks here");
                    return None;
                }
            }
            pause = (pause * 2).min(Duration::from_millis(16));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patience_ends_and_a_released_lock_is_free() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.lock");
        let held = Lock::acquire(&path, Duration::ZERO).unwrap();
        assert!(Lock::acquire(&path, Duration::from_millis(5)).is_none());
        drop(held);
        assert!(!path.exists());
        assert!(Lock::acquire(&path, Duration::ZERO).is_some());
    }

    /// A child that was forked meanwhile has the same open file.
    #[test]
    fn a_lock_is_free_for_those_who_wait_once_it_is_dropped_wherever_its_file_is_open() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.lock");
        let held = Lock::acquire(&path, Duration::ZERO).unwrap();
        let (inherited, waiting) = (held.file.try_clone().unwrap(), File::open(&path).unwrap());
        assert!(waiting.try_lock().is_err());
        drop(held);
        assert!(waiting.try_lock().is_ok());
        drop(inherited);
    }

    #[test]
    fn a_pipe_under_the_name_of_a_lock_does_not_block() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.lock");
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        let (done, is_done) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            drop(Lock::acquire(&path, Duration::ZERO));
            done.send(())
        });
        assert_eq!(is_done.recv_timeout(Duration::from_secs(10)), Ok(()));
    }

    #[test]
    fn a_file_left_by_a_killed_process_is_no_obstacle() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.lock");
        std::fs::write(&path, "").unwrap();
        assert!(Lock::acquire(&path, Duration::ZERO).is_some());
    }
}
