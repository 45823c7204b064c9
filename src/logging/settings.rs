//! What the environment asks for.

use std::ffi::OsString;
use std::path::PathBuf;

use super::Severity;

/// Where records go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Destination {
    /// Nowhere.
    Null,
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
    /// A file, which is overwritten; the name as it was given.
    File(PathBuf),
}

/// Level and destination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// 0 nothing, 1 errors, 2 warnings too, 3 everything.
    pub level: u8,
    /// Where to.
    pub destination: Destination,
}

/// Older variables, still honoured, with the level that each stands for.
const OLDER: [(&str, u8); 3] = [("CUDNN_LOGINFO_DBG", 3), ("CUDNN_LOGWARN_DBG", 2), ("CUDNN_LOGERR_DBG", 1)];

impl Settings {
    /// Of the variables of the process.
    pub fn from_environment() -> Self {
        Self::of(|name| std::env::var_os(name))
    }

    /// Of variables.
    pub fn of(variable: impl Fn(&str) -> Option<OsString>) -> Self {
        let number = |name: &str| variable(name)?.to_str()?.trim().parse::<i64>().ok();
        let older = || OLDER.into_iter().find(|row| number(row.0).is_some_and(|value| value != 0)).map(|row| row.1);
        let level = number("CUDNN_LOGLEVEL_DBG").map(|level| level.clamp(0, 3) as u8).or_else(older).unwrap_or(0);
        let destination = match variable("CUDNN_LOGDEST_DBG") {
            None => Destination::Stderr,
            Some(name) => match name.to_str() {
                Some("NULL") => Destination::Null,
                Some("stdout") => Destination::Stdout,
                Some("stderr" | "") => Destination::Stderr,
                _ => Destination::File(name.into()),
            },
        };
        Self { level, destination }
    }

    /// Severities that are written, one bit each.
    pub(super) fn mask(&self) -> u8 {
        if self.destination == Destination::Null {
            return 0;
        }
        let written = |severity: &&Severity| **severity as u8 <= self.level;
        Severity::ALL.iter().filter(written).fold(0, |mask, severity| mask | severity.bit())
    }
}
