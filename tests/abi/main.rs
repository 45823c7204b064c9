//! Programs in C and Python against the shared library, each in a process of its own, on a driver without a GPU.
//!
//! They show what calls leave behind in a program: its current device, its children, its memory.
#![cfg(target_os = "linux")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use fusewright::compile::Nvrtc;
use fusewright::device::ComputeCapability;
use fusewright::fuzz::{graph_bytes, targets};
use object::read::elf::ElfFile64;
use object::{Endianness, Object, ObjectSymbol};

/// Where everything is built.
const FOLDER: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/abi");

const FILE: &str = "libfusewright_cudnn.so";

/// Seed of the random programs.
const SEED: u64 = 20_261_123;

fn in_repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn succeed(command: &mut Command) -> String {
    let output = command.output().expect("it can be run");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success(),
        "{command:?}: {}\n{text}{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    text
}

/// Whether there is a compiler; CI has one.
#[expect(clippy::print_stderr, reason = "a skipped test says so")]
fn has_compiler() -> bool {
    let is_there = Command::new("g++").arg("--version").output().is_ok();
    if !is_there {
        eprintln!("skipped: no g++ to build the fake driver with");
    }
    is_there
}

/// Whether plans can be built.
#[expect(clippy::print_stderr, reason = "a skipped test says so")]
fn builds() -> bool {
    match Nvrtc::load_for(ComputeCapability::SM_90) {
        Ok(_) => true,
        Err(error) if std::env::var_os("FUSEWRIGHT_REQUIRE_NVRTC").is_some_and(|value| value == "1") => {
            panic!("FUSEWRIGHT_REQUIRE_NVRTC=1, but {error}")
        }
        Err(error) => {
            eprintln!("no plans are built: {error}");
            false
        }
    }
}

/// Builds a file once a run, under a name of its own until it is whole.
fn built(name: &str, build: impl FnOnce(&Path)) -> PathBuf {
    let path = Path::new(FOLDER).join(name);
    std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
    let unfinished = path.with_extension(format!("part{}", std::process::id()));
    build(&unfinished);
    std::fs::rename(unfinished, &path).expect("in one folder");
    path
}

/// The shared library, of what is compiled for the tests: naming one of them lets cargo choose the same features of what both
/// depend on, so that nothing but the library is built.
fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let profile = if cfg!(debug_assertions) { "test" } else { "release" };
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["build", "--locked", "--profile", profile, "--workspace", "--lib", "--test", "abi"]);
        succeed(cargo.current_dir(in_repository("")));
        let path = std::env::current_exe().expect("a path").ancestors().nth(2).expect("a folder").join(FILE);
        assert!(path.is_file(), "{} is not there", path.display());
        path
    })
}

/// The folder of the fake driver, which has the driver's name alone.
fn driver() -> &'static Path {
    static DRIVER: OnceLock<PathBuf> = OnceLock::new();
    DRIVER.get_or_init(|| {
        let driver = built("driver/libcuda.so.1", |path| {
            let source = in_repository("src/plan/tests/fake_cuda.cpp");
            let mut compiler = Command::new("g++");
            compiler.args(["-std=c++17", "-O1", "-shared", "-fPIC", "-DVERSION=13000", "-o"]).arg(path).arg(source);
            succeed(&mut compiler);
        });
        let folder = driver.parent().expect("a folder").to_owned();
        let link = folder.join("libcuda.so");
        let _ = std::fs::remove_file(&link);
        std::os::unix::fs::symlink("libcuda.so.1", &link).expect("a link");
        folder
    })
}

/// A program that is to be run on the fake driver.
fn program(name: &str) -> Command {
    let source = in_repository(&format!("tests/abi/programs/{name}.c"));
    let program = built(&format!("programs/{name}-{}", uses()), |path| {
        let mut compiler = Command::new("gcc");
        compiler.args(["-std=gnu11", "-O1", "-Wall", "-Werror", "-o"]).arg(path).arg(source).arg(library());
        compiler.arg("-Wl,-rpath").arg(library().parent().expect("a folder")).args(["-pthread", "-ldl"]);
        succeed(&mut compiler);
    });
    on_fake_driver(Command::new(program))
}

/// A number that no other use of this process has.
fn uses() -> usize {
    static USES: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
    USES.fetch_add(1, std::sync::atomic::Ordering::Relaxed)
}

fn on_fake_driver(mut command: Command) -> Command {
    command.env("LD_LIBRARY_PATH", path_behind(driver())).env("FAKE_CUDA_ANY", "1").env("FUSEWRIGHT_CACHE", "off");
    command
}

/// The library path with a folder before it.
fn path_behind(folder: &Path) -> std::ffi::OsString {
    let rest = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let rest = std::env::split_paths(&rest).filter(|folder| folder.is_absolute());
    let folders = std::iter::once(folder.to_owned()).chain(rest);
    std::env::join_paths(folders).expect("no colon in a folder's name")
}

/// The names that a file defines for others, of both its tables of symbols.
fn exported(file: &Path) -> BTreeSet<String> {
    let content = std::fs::read(file).expect("a readable file");
    let file = ElfFile64::<Endianness>::parse(&*content).expect("an ELF file");
    let symbols = file.symbols().chain(file.dynamic_symbols());
    let symbols = symbols.filter(|symbol| symbol.is_global() && symbol.is_definition());
    symbols.map(|symbol| symbol.name().expect("a name").to_owned()).collect()
}

#[track_caller]
fn pass(program: &mut Command) {
    let text = succeed(program);
    assert!(text.ends_with("passed\n"), "{text}");
}

fn flag(is_set: bool) -> &'static str {
    if is_set { "1" } else { "0" }
}

/// A program with the library in it, as this one is, leaves calls of cuDNN to the cuDNN of the process.
#[test]
fn what_links_the_library_exports_no_name_of_cudnn() {
    std::hint::black_box(fusewright::capi::cudnnCreate as *const ()); // so that it is linked
    let itself = std::env::current_exe().expect("a path");
    for program in [&itself, Path::new(env!("CARGO_BIN_EXE_fusewright"))] {
        let captured: Vec<String> = exported(program).into_iter().filter(|name| name.starts_with("cudnn")).collect();
        assert!(captured.is_empty(), "{}: {captured:?}", program.display());
    }
}

/// Names of cuDNN in code of a text, and on lines of their own.
fn names(text: &str) -> BTreeSet<String> {
    let is_name = |word: &&str| word.starts_with("cudnn") && word.chars().all(|c| c.is_alphanumeric() || c == '_');
    text.split(['`', '\n']).map(str::trim).filter(is_name).map(str::to_owned).collect()
}

/// Those of docs/cudnn-abi.md, and those that are forwarded.
#[test]
fn the_shared_library_exports_names_of_cudnn_alone() {
    let document = std::fs::read_to_string(in_repository("docs/cudnn-abi.md")).expect("a document");
    let section = document.split("\n## ").find(|section| section.starts_with("Functions")).expect("a section");
    let source = std::fs::read_to_string(in_repository("cudnn/src/names.rs")).expect("a source");
    let lists = source.rsplit_once("exports! {").expect("the lists of names").1;
    let (ours, others) = lists.split_once("sizes {").expect("what is not ours behind what is");
    assert_eq!(names(ours), names(section), "functions of the library, and those that its document lists");
    let promised: BTreeSet<String> = names(ours).into_iter().chain(names(others)).collect();
    assert_eq!(exported(library()), promised);
}

/// The stand-in for a real cuDNN.
fn stand_in() -> &'static Path {
    static STAND_IN: OnceLock<PathBuf> = OnceLock::new();
    STAND_IN.get_or_init(|| {
        built("real/libcudnn.so.9", |path| {
            let source = in_repository("tests/abi/programs/real.c");
            let mut compiler = Command::new("gcc");
            compiler.args(["-std=gnu11", "-O1", "-Wall", "-Werror", "-shared", "-fPIC", "-o"]).arg(path).arg(source);
            succeed(&mut compiler);
        })
    })
}

const LIBRARY: &str = "FUSEWRIGHT_CUDNN_LIBRARY";
const POLICY: &str = "FUSEWRIGHT_CUDNN";

/// A program of cuDNN with the stand-in behind the library.
fn forwarding(policy: &str, first: &str) -> Command {
    let mut program = program("forward");
    program.arg(stand_in()).args([first, flag(builds())]).env(LIBRARY, stand_in()).env(POLICY, policy);
    program
}

#[test]
fn a_real_library_has_what_is_not_taken_here() {
    if has_compiler() {
        pass(&mut forwarding("ours-first", "ours"));
        pass(&mut forwarding("theirs-first", "theirs"));
    }
}

#[test]
fn what_is_measured_to_be_faster_comes_first_and_all_is_traced() {
    if !has_compiler() || !builds() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let [cache, trace] = ["cache", "trace"].map(|name| folder.path().join(name));
    let program = || {
        let mut program = forwarding("tuned", "tuned");
        program.env_remove("FUSEWRIGHT_CACHE").env("FUSEWRIGHT_CACHE_DIR", &cache);
        program.env("FUSEWRIGHT_CUDNN_TRACE", &trace);
        program
    };
    pass(&mut program());
    // from the store
    pass(&mut program());
    let text = std::fs::read_to_string(trace.join("trace.jsonl")).expect("a trace");
    let events: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).expect("an event on each line")).collect();
    let of = |name: &str| events.iter().filter(|event| event["event"] == name).collect::<Vec<_>>();
    let measured: Vec<bool> = of("measured").iter().map(|event| event["stored"] == true).collect();
    assert_eq!(measured, [false, false, true, true], "{text}");
    let first: Vec<u64> = of("heuristics").iter().filter_map(|event| event["fusewright_first"].as_u64()).collect();
    assert_eq!(first, [1, 0, 1, 0], "{text}");
    for event in of("graph") {
        assert_eq!(
            (&event["verdict"]["status"], &event["cudnn"]["status"]),
            (&"supported".into(), &0.into()),
            "{text}"
        );
        let file = trace.join(format!("{}.json", event["graph"].as_str().expect("a key")));
        let check = succeed(Command::new(env!("CARGO_BIN_EXE_fusewright")).args(["check"]).arg(file));
        assert!(check.ends_with("1 verdict: 1 supported, 0 not supported, 0 malformed\n"), "{check}");
    }
}

/// Without one, or with one that is none, all is as it was.
#[test]
fn a_real_library_that_cannot_be_loaded_is_done_without() {
    if !has_compiler() {
        return;
    }
    let no_library = in_repository("tests/abi/main.rs");
    for path in [Path::new("/nowhere/libcudnn.so.9"), Path::new("libcudnn.so.9"), &no_library, library()] {
        let output = program("create").env(LIBRARY, path).output().expect("it can be run");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{}: {said}", path.display());
        assert!(said.contains("going on without a real cuDNN") && said.contains(LIBRARY), "{said}");
    }
}

#[test]
fn chains_rings_and_long_lists_are_bounded() {
    if has_compiler() {
        pass(&mut program("limits"));
    }
}

#[test]
fn children_of_threads_use_descriptors_and_plans() {
    if has_compiler() {
        pass(program("forks").args(["60", flag(builds())]));
        pass(program("forks").args(["60", flag(builds())]).env("FUSEWRIGHT_QUICK_PLANS", "1"));
    }
}

#[test]
fn children_refuse_the_handles_of_their_parents() {
    if has_compiler() {
        pass(&mut program("create"));
    }
}

#[test]
fn the_current_context_is_kept_beside_two_devices() {
    if has_compiler() {
        pass(program("context").arg(flag(builds())).env("FAKE_CUDA_DEVICES", "2"));
    }
}

#[test]
fn modules_that_no_descriptor_has_are_unloaded() {
    if has_compiler() && builds() {
        pass(program("modules").arg("8").env("FUSEWRIGHT_PLANS", "8"));
        pass(program("modules").arg("24").env("FUSEWRIGHT_PLANS", "many"));
    }
}

#[test]
fn a_stub_before_the_driver_is_passed_over() {
    if has_compiler() {
        let stub = built("stub/libcuda.so", |path| {
            let source = in_repository("tests/abi/programs/stub.c");
            succeed(Command::new("gcc").args(["-shared", "-fPIC", "-o"]).arg(path).arg(source));
        });
        let folders = [stub.parent().expect("a folder"), &driver_alone()].map(Path::to_owned);
        let path = std::env::join_paths(folders).expect("no colon in a folder's name");
        pass(program("create").env("LD_LIBRARY_PATH", path));
    }
}

/// A folder with the fake driver under the name that it is installed by.
fn driver_alone() -> PathBuf {
    let driver = driver().join("libcuda.so.1");
    let alone = built("alone/libcuda.so.1", |path| {
        std::fs::copy(driver, path).expect("it can be read");
    });
    alone.parent().expect("a folder").to_owned()
}

/// The fuzz target's programs with handles of two devices, in a process of their own.
#[test]
fn random_programs_keep_the_context_beside_two_devices() {
    const DEVICES: &str = "FAKE_CUDA_DEVICES";
    if std::env::var_os(DEVICES).is_some() {
        for number in 0..150 {
            let program = [graph_bytes(SEED, 2 * number), graph_bytes(SEED, 2 * number + 1)].concat();
            targets::backend_api(&program).unwrap_or_else(|finding| panic!("program {number}: {finding}"));
        }
    } else if has_compiler() {
        let mut again = on_fake_driver(Command::new(std::env::current_exe().expect("a path")));
        again.args(["--exact", "random_programs_keep_the_context_beside_two_devices"]).env(DEVICES, "2");
        let text = succeed(&mut again);
        assert!(text.contains("1 passed"), "{text}");
    }
}

#[test]
#[expect(clippy::print_stderr, reason = "a skipped test says so")]
fn children_of_python_use_the_library() {
    if !has_compiler() {
        return;
    }
    if Command::new("python3").arg("--version").output().is_err() {
        eprintln!("skipped: no Python");
        return;
    }
    let mut python = on_fake_driver(Command::new("python3"));
    pass(python.arg(in_repository("tests/abi/programs/forks.py")).arg(library()));
}
