//! A lock between processes: a file, locked through the operating system, which releases it when its holder dies.

use std::fs::{File, TryLockError};
use std::time::{Duration, Instant};

use crate::compile::folder::PrivateFolder;

/// The right to build one entry.
///
/// The file is removed while it is still locked. Who waits for it then gets the lock of a file without a name, looks
/// for the entry, and finds it; who comes later finds the entry at once. The worst that can happen is that two
/// processes compile the same source, which is harmless.
#[derive(Debug)]
pub(super) struct Lock<'a> {
    folder: &'a PrivateFolder,
    name: String,
    file: File,
}

impl Drop for Lock<'_> {
    fn drop(&mut self) {
        // A file that stays behind costs nothing; the next holder removes it, or who sweeps the folder.
        let _ = self.folder.remove(&self.name);
        // a child that was forked meanwhile has the file open, too, and the lock would be its own
        let _ = self.file.unlock();
    }
}

impl<'a> Lock<'a> {
    /// Waits for the lock, but not longer than `patience`: a holder that hangs must not stop others, and some file
    /// systems have no locks.
    pub(super) fn acquire(folder: &'a PrivateFolder, name: String, patience: Duration) -> Option<Self> {
        let file = folder.lock_file(&name).ok()?;
        let deadline = Instant::now() + patience;
        let mut pause = Duration::from_millis(1);
        loop {
            match file.try_lock() {
                Ok(()) => return Some(Self { folder, name, file }),
                Err(TryLockError::WouldBlock) if Instant::now() < deadline => std::thread::sleep(pause),
                Err(TryLockError::WouldBlock) => {
                    let path = folder.path().join(name);
                    tracing::warn!(path = %path.display(), "another process holds the lock for too long; not waiting");
                    return None;
                }
                Err(TryLockError::Error(error)) => {
                    tracing::debug!(folder = %folder.path().display(), name, %error, "no locks here");
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

    const NAME: &str = "x.lock";

    fn acquire(folder: &PrivateFolder, patience: Duration) -> Option<Lock<'_>> {
        Lock::acquire(folder, NAME.to_owned(), patience)
    }

    fn private(folder: &tempfile::TempDir) -> PrivateFolder {
        PrivateFolder::open(folder.path()).unwrap()
    }

    #[test]
    fn patience_ends_and_a_released_lock_is_free() {
        let temporary = tempfile::tempdir().unwrap();
        let folder = private(&temporary);
        let held = acquire(&folder, Duration::ZERO).unwrap();
        assert!(acquire(&folder, Duration::from_millis(5)).is_none());
        drop(held);
        assert!(!temporary.path().join(NAME).exists());
        assert!(acquire(&folder, Duration::ZERO).is_some());
    }

    /// A child that was forked meanwhile has the same open file.
    #[test]
    fn a_lock_is_free_for_those_who_wait_once_it_is_dropped_wherever_its_file_is_open() {
        let temporary = tempfile::tempdir().unwrap();
        let folder = private(&temporary);
        let held = acquire(&folder, Duration::ZERO).unwrap();
        let waiting = File::open(temporary.path().join(NAME)).unwrap();
        let inherited = held.file.try_clone().unwrap();
        assert!(waiting.try_lock().is_err());
        drop(held);
        assert!(waiting.try_lock().is_ok());
        drop(inherited);
    }

    #[test]
    fn a_pipe_under_the_name_of_a_lock_does_not_block() {
        let temporary = tempfile::tempdir().unwrap();
        let folder = private(&temporary);
        let path = temporary.path().join(NAME);
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        let (done, is_done) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            drop(acquire(&folder, Duration::ZERO));
            done.send(())
        });
        assert_eq!(is_done.recv_timeout(Duration::from_secs(10)), Ok(()));
    }

    #[test]
    fn a_file_left_by_a_killed_process_is_no_obstacle() {
        let temporary = tempfile::tempdir().unwrap();
        std::fs::write(temporary.path().join(NAME), "").unwrap();
        assert!(acquire(&private(&temporary), Duration::ZERO).is_some());
    }
}
