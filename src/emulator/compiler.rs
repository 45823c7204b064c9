//! The host's C++ compiler, and what it makes of generated source.

use std::ffi::OsString;
use std::fmt::Write;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Mutex, PoisonError};
use std::{env, fs};

use super::artifact::{self, cannot};
use crate::codegen::{Source, without_primitives};
use crate::compile::{PrivateFolder, absolute_paths};
use crate::error::{Error, Result};

/// A file of `templates/emulator` by its path there.
macro_rules! files {
    ($($path:literal),+ $(,)?) => {
        &[$(($path, include_str!(concat!("../../templates/emulator/", $path)))),+]
    };
}

/// The emulator's header and runtime.
const FILES: &[(&str, &str)] = files![
    "emulator.h",
    "arithmetic.h",
    "async_copy.h",
    "atomic.h",
    "bits.h",
    "block.h",
    "cluster.h",
    "flag.h",
    "language.h",
    "launcher.h",
    "mbarrier.h",
    "number.h",
    "request.h",
    "tensor_core.h",
    "tensor_map.h",
    "tma.h",
    "warp.h",
    "warpgroup.h",
    "wgmma.h",
    "runtime/runtime.cpp",
    "runtime/async_copy.cpp",
    "runtime/boxes.h",
    "runtime/cluster.cpp",
    "runtime/cluster.h",
    "runtime/fiber.cpp",
    "runtime/fiber.h",
    "runtime/launch.cpp",
    "runtime/mbarrier.cpp",
    "runtime/mbarrier.h",
    "runtime/poison.cpp",
    "runtime/poison.h",
    "runtime/products.h",
    "runtime/sanitizer.cpp",
    "runtime/scheduler.cpp",
    "runtime/scheduler.h",
    "runtime/stall.cpp",
    "runtime/swizzle.h",
    "runtime/tensor_core.cpp",
    "runtime/tma.cpp",
    "runtime/warpgroup.cpp",
    "runtime/wgmma.cpp",
];

/// Flags of every compilation. Float arithmetic is as written; integers wrap and types may be punned as on a GPU.
const FLAGS: &[&str] = &[
    "-std=c++17",
    "-O2",
    "-fPIC",
    "-fvisibility=hidden",
    "-ffp-contract=off",
    "-fwrapv",
    "-fno-strict-aliasing",
    "-pthread",
    "-w",
];

/// Flags of kernels: their defects are caught by checks whose handlers are in the runtime. Most run for less time than it takes to compile them,
/// which `-O1` halves (0.5 s for 1.1 of a convolution on Hopper; 165 tests of these in 30 s for 36).
const KERNEL_FLAGS: &[&str] =
    &["-O1", "-fno-exceptions", "-fsanitize=alignment,bounds,shift-exponent,integer-divide-by-zero"];

/// A C++ compiler with the flags for this machine.
#[derive(Clone, Debug)]
pub(super) struct Compiler {
    program: PathBuf,
    /// What follows the program in `$CXX`, as in `ccache g++`.
    arguments: Vec<String>,
    /// First line of `--version`.
    version: String,
    flags: Vec<&'static str>,
}

impl Compiler {
    /// The command in `$CXX` if it works, else the first of g++, c++ and clang++ that does.
    pub(super) fn find() -> Result<Self> {
        let from_environment = env::var("CXX").unwrap_or_default();
        Self::find_among(&[&from_environment, "g++", "c++", "clang++"])
    }

    /// The first of these commands that works.
    fn find_among(commands: &[&str]) -> Result<Self> {
        commands.iter().find_map(|command| Self::probe(command)).ok_or_else(|| {
            Error::environment(format!(
                "no C++ compiler, which the emulator needs (looked for {}); \
                 install one, for instance with 'apt-get install g++', or name it in CXX",
                commands
                    .iter()
                    .filter(|c| !c.is_empty())
                    .map(|c| c.escape_debug().to_string())
                    .collect::<Vec<_>>()
                    .join(", ")
            ))
        })
    }

    /// First line of `--version`.
    pub(super) fn into_version(self) -> String {
        self.version
    }

    fn probe(command: &str) -> Option<Self> {
        let mut words = command.split_whitespace().map(str::to_owned);
        let program = program(&words.next()?, &search_path())?;
        let arguments: Vec<String> = words.collect();
        let output = start(&program, &arguments).arg("--version").output().ok()?;
        let version = String::from_utf8_lossy(&output.stdout).lines().next()?.to_owned();
        let mut flags = cpu_flags();
        if version.contains("clang") {
            flags.push("-fno-sanitize=local-bounds"); // the part of clang's bounds checks that traps
        }
        output.status.success().then_some(Self { program, arguments, version, flags })
    }

    /// Adds a flag; libraries built with other flags are other entries of the cache.
    #[cfg(test)]
    pub(super) fn with_flag(mut self, flag: &'static str) -> Self {
        self.flags.push(flag);
        self
    }

    /// Name of the shared library in `folder` with the launchers of all functions of `source`, built unless it is there.
    pub(super) fn library(&self, source: &Source, folder: &PrivateFolder) -> Result<String> {
        let unit = translation_unit(source)?;
        let key = self.key(&[&source.text, &unit]);
        let name = format!("{key}.so");
        if artifact::read(folder, &name).is_none() {
            artifact::store(folder, &name, &self.build_library(source, &unit, folder, &key)?)?;
        }
        Ok(name)
    }

    /// Identity of what the compiler makes of these texts.
    fn key(&self, texts: &[&str]) -> String {
        let mut hasher = blake3::Hasher::new();
        let program = self.program.to_string_lossy();
        let files = FILES.iter().flat_map(|&(path, text)| [path, text]);
        let command = [&*program, &self.version].into_iter().chain(self.arguments.iter().map(String::as_str));
        let flags = FLAGS.iter().chain(KERNEL_FLAGS).chain(&self.flags).copied();
        for part in files.chain(command).chain(flags).chain(texts.iter().copied()) {
            hasher.update(&(part.len() as u64).to_le_bytes()).update(part.as_bytes());
        }
        hasher.finalize().to_hex()[..32].to_owned()
    }

    fn build_library(&self, source: &Source, unit: &str, folder: &PrivateFolder, key: &str) -> Result<Vec<u8>> {
        let runtime = self.runtime(folder)?;
        let directory = sources()?;
        write(&directory.path().join("kernel.cu"), without_primitives(&source.text))?;
        write(&directory.path().join("unit.cpp"), unit)?;
        write(&directory.path().join("runtime.o"), runtime)?;
        let compiled = self.call(directory.path(), KERNEL_FLAGS, &["-c", "unit.cpp", "-o", "unit.o"])?;
        if !compiled.status.success() {
            return Err(self.refusal(source, &compiled, folder, &format!("{key}.cu")));
        }
        let linked = self
            .command()
            .args(["-shared", "-pthread", "-o", "kernel.so", "unit.o", "runtime.o"])
            .current_dir(directory.path())
            .output();
        self.require_success("link", linked.map_err(|error| cannot("start", &self.program, error))?)?;
        read(&directory.path().join("kernel.so"))
    }

    /// The compiled runtime, built unless the folder has it.
    fn runtime(&self, folder: &PrivateFolder) -> Result<Vec<u8>> {
        static BUILDING: Mutex<()> = Mutex::new(());
        let name = format!("{}.o", self.key(&[]));
        let _one_at_a_time = BUILDING.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(runtime) = artifact::read(folder, &name) {
            return Ok(runtime);
        }
        let directory = sources()?;
        let compiled = self.call(directory.path(), &[], &["-c", "runtime/runtime.cpp", "-o", "runtime.o"])?;
        self.require_success("compile", compiled)?;
        let runtime = read(&directory.path().join("runtime.o"))?;
        artifact::store(folder, &name, &runtime)?;
        Ok(runtime)
    }

    /// The compiler, with no arguments of ours.
    pub(super) fn command(&self) -> Command {
        start(&self.program, &self.arguments)
    }

    fn call(&self, directory: &Path, flags: &[&str], arguments: &[&str]) -> Result<Output> {
        self.command()
            .args(FLAGS)
            .args(&self.flags)
            .args(flags)
            .args(arguments)
            .current_dir(directory)
            .output()
            .map_err(|error| cannot("start", &self.program, error))
    }

    fn require_success(&self, verb: &str, output: Output) -> Result<()> {
        if output.status.success() {
            return Ok(());
        }
        let log = String::from_utf8_lossy(&output.stderr);
        let program = self.program.display();
        Err(Error::environment(format!("{program} ({}) cannot {verb} the emulator:\n{log}", self.version)))
    }

    /// The error for generated source that does not compile; keeps the source beside the cache's entries.
    fn refusal(&self, source: &Source, output: &Output, folder: &PrivateFolder, kept: &str) -> Error {
        Error::Generated {
            message: format!("the generated source does not compile for the emulator with {}", self.version),
            log: String::from_utf8_lossy(&output.stderr).into_owned(),
            source_path: artifact::store_plain(folder, kept, source.text.as_bytes())
                .ok()
                .map(|()| folder.path().join(kept)),
        }
    }
}

/// A command of the compiler, for which the search path has absolute folders only, too.
fn start(program: &Path, arguments: &[String]) -> Command {
    let mut command = Command::new(program);
    command.args(arguments);
    if let Ok(folders) = env::join_paths(search_path()) {
        command.env("PATH", folders);
    }
    command
}

/// The folders of `PATH`; those that depend on the working directory are passed over.
fn search_path() -> Vec<PathBuf> {
    absolute_paths(&env::var_os("PATH").unwrap_or_else(|| OsString::from("/usr/bin:/bin"))).collect()
}

/// The file of a program: one that is named by its path, or the first that can be run in these folders.
fn program(name: &str, folders: &[PathBuf]) -> Option<PathBuf> {
    if name.contains('/') {
        return std::path::absolute(name).ok();
    }
    let can_be_run = |path: &PathBuf| {
        let metadata = fs::metadata(path);
        metadata.is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
    };
    folders.iter().map(|folder| folder.join(name)).find(can_be_run)
}

/// The file that is compiled: header, source, one launcher for each function.
fn translation_unit(source: &Source) -> Result<String> {
    let mut functions: Vec<&str> = source.launches.iter().map(|launch| launch.function.as_str()).collect();
    functions.sort_unstable();
    functions.dedup();
    let mut unit = "#include \"emulator.h\"\n#include \"kernel.cu\"\n".to_owned();
    for function in functions {
        if !is_identifier(function) {
            return Err(Error::Wrong(format!("the kernel name '{}' is no identifier", function.escape_debug())));
        }
        writeln!(unit, "FW_EMULATOR_LAUNCHER({function})").expect("a String takes all text");
    }
    Ok(unit)
}

fn is_identifier(name: &str) -> bool {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    name.chars().all(is_word) && name.starts_with(|c: char| !c.is_ascii_digit())
}

/// Instruction sets that make half conversions, fused multiply-add and the tensor-core emulation fast.
fn cpu_flags() -> Vec<&'static str> {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") && is_x86_feature_detected!("f16c") {
        return vec!["-mavx2", "-mfma", "-mf16c"];
    }
    Vec::new()
}

/// A temporary directory that holds [`FILES`].
fn sources() -> Result<tempfile::TempDir> {
    let directory = tempfile::tempdir().map_err(|error| cannot("create a directory in", &env::temp_dir(), error))?;
    let runtime = directory.path().join("runtime");
    fs::create_dir(&runtime).map_err(|error| cannot("create", &runtime, error))?;
    for (path, text) in FILES {
        write(&directory.path().join(path), text)?;
    }
    Ok(directory)
}

fn write(path: &Path, contents: impl AsRef<[u8]>) -> Result<()> {
    fs::write(path, contents).map_err(|error| cannot("write", path, error))
}

fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).map_err(|error| cannot("read", path, error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::Launch;

    fn source(functions: &[&str]) -> Source {
        let launch = |name: &&str| Launch {
            function: (*name).to_owned(),
            grid: [1; 2],
            cluster: 1,
            is_cooperative: false,
            block: [1; 3],
            shared_bytes: 0,
            starts_early: false,
            parameters: Vec::new(),
        };
        Source {
            text: String::new(),
            launches: functions.iter().map(launch).collect(),
            workspace_bytes: 0,
            uses_tf32: false,
            uses_fp8: false,
        }
    }

    #[test]
    fn every_function_has_one_launcher() {
        let unit = translation_unit(&source(&["b", "a", "b"])).unwrap();
        assert!(unit.ends_with("\nFW_EMULATOR_LAUNCHER(a)\nFW_EMULATOR_LAUNCHER(b)\n"), "{unit}");
    }

    #[test]
    fn a_function_name_cannot_smuggle_code() {
        for name in ["", "1a", "a b", "a)\nint x;", "ä"] {
            assert!(translation_unit(&source(&[name])).is_err(), "{name:?}");
        }
    }

    #[test]
    fn an_absent_compiler_is_an_error_that_says_what_to_do() {
        let error = Compiler::find_among(&["", "no-such-compiler", "nor this one"]).unwrap_err();
        assert_eq!(error.exit_code(), 3);
        let message = error.to_string();
        assert!(message.contains("looked for no-such-compiler, nor this one"), "{message}");
        assert!(message.contains("apt-get install g++"), "{message}");
    }

    #[test]
    fn programs_are_not_looked_for_in_the_working_directory() {
        let folder = tempfile::tempdir().unwrap();
        let compiler = folder.path().join("g++");
        fs::write(&compiler, "#!/bin/sh").unwrap();
        let list = OsString::from(format!(":.:bin::{}:", folder.path().display()));
        let folders: Vec<PathBuf> = absolute_paths(&list).collect();
        assert_eq!(folders, [folder.path()]);
        assert_eq!(program("g++", &folders), None, "it cannot be run");
        fs::set_permissions(&compiler, fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(program("g++", &folders), Some(compiler));
        let named = program("bin/g++", &folders);
        assert_eq!(named, Some(env::current_dir().unwrap().join("bin/g++")), "who writes a path means it");
    }

    #[test]
    fn the_key_depends_on_texts_flags_and_their_boundaries() {
        let compiler = Compiler {
            program: "/usr/bin/g++".into(),
            arguments: Vec::new(),
            version: "g++ 12".to_owned(),
            flags: Vec::new(),
        };
        let key = compiler.key(&["a", "bc"]);
        assert_eq!(key, compiler.key(&["a", "bc"]));
        assert_ne!(key, compiler.key(&["ab", "c"]));
        assert_ne!(key, compiler.clone().with_flag("-g").key(&["a", "bc"]));
    }

    #[test]
    fn every_template_file_is_embedded() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("templates/emulator");
        for folder in ["", "runtime"] {
            for entry in fs::read_dir(root.join(folder)).unwrap().map(|entry| entry.unwrap()) {
                let path = Path::new(folder).join(entry.file_name());
                let is_embedded = FILES.iter().any(|(name, _)| Path::new(name) == path);
                assert!(is_embedded || entry.path().is_dir(), "{path:?}");
            }
        }
    }
}
