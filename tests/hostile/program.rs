//! The built program, run in a folder of its own.

use std::ffi::OsStr;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// What a run of the program gave.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
    pub(crate) took: Duration,
}

/// Runs the program with these arguments and variables; its cache is in the folder.
pub(crate) fn run<A: AsRef<OsStr>>(folder: &tempfile::TempDir, arguments: &[A], variables: &[(&str, &str)]) -> Ran {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fusewright"));
    command.args(arguments).env("FUSEWRIGHT_CACHE_DIR", folder.path().join("cache")).stdin(Stdio::null());
    command.env_remove("FUSEWRIGHT_LOG").env_remove("FUSEWRIGHT_CACHE").envs(variables.iter().copied());
    let start = Instant::now();
    let output = command.output().expect("the program starts");
    let text = |bytes| String::from_utf8(bytes).expect("the program writes UTF-8");
    Ran { code: output.status.code(), out: text(output.stdout), err: text(output.stderr), took: start.elapsed() }
}
