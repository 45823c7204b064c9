//! Where records are written.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::{Destination, Settings};

/// An opened destination.
pub(super) enum Output {
    Null,
    Stdout,
    Stderr,
    File(File),
}

impl Output {
    /// Opens what is asked for, where anything is to be written; standard error where a file cannot be made.
    pub(super) fn open(settings: &Settings) -> Self {
        match &settings.destination {
            _ if settings.mask() == 0 => Self::Null,
            Destination::Null => Self::Null,
            Destination::Stdout => Self::Stdout,
            Destination::Stderr => Self::Stderr,
            Destination::File(name) => {
                let path = expanded(name, std::process::id(), &jiff::Zoned::now());
                match File::create(&path) {
                    Ok(file) => Self::File(file),
                    Err(error) => {
                        let message = format!("CUDNN_LOGDEST_DBG: {} cannot be made: {error}\n", path.display());
                        Self::Stderr.write(&message);
                        Self::Stderr
                    }
                }
            }
        }
    }

    /// Writes a record whole. A destination that fails costs the record: logging never stops the program.
    pub(super) fn write(&mut self, text: &str) {
        let _ = match self {
            Self::Null => Ok(()),
            Self::Stdout => io::stdout().lock().write_all(text.as_bytes()),
            Self::Stderr => io::stderr().lock().write_all(text.as_bytes()),
            Self::File(file) => file.write_all(text.as_bytes()),
        };
    }
}

/// A file's name with the process id for `%i`, and the time for the specifiers of `strftime`; as it is where it holds others.
pub(super) fn expanded(name: &Path, process: u32, now: &jiff::Zoned) -> PathBuf {
    let Some(name) = name.to_str() else { return name.to_owned() };
    let mut format = String::new();
    let mut characters = name.chars().peekable();
    while let Some(character) = characters.next() {
        match (character, characters.peek()) {
            ('%', Some('i')) => {
                characters.next();
                format.push_str(&process.to_string());
            }
            ('%', Some('%')) => {
                characters.next();
                format.push_str("%%");
            }
            _ => format.push(character),
        }
    }
    jiff::fmt::strtime::format(&format, now).map_or_else(|_| PathBuf::from(format), PathBuf::from)
}
