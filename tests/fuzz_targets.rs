//! The fuzz crate's targets without its engine: a few inputs each, and all that once showed a defect.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use fusewright::device::ComputeCapability;
use fusewright::fuzz::{CompiledOnly, Family, Finding, graph_bytes, targets};

/// Seed of the inputs here.
const SEED: u64 = 20_261_122;

type Target = fn(&[u8]) -> Result<bool, Finding>;

const TARGETS: [(&str, Target); 8] = [
    ("frontend_json", targets::frontend_json),
    ("log_reader", targets::log_reader),
    ("check", targets::check),
    ("lower_and_render", targets::lower_and_render),
    ("nvrtc_compile", nvrtc_compile),
    ("cache_entry", targets::cache_entry),
    ("variant_pack", targets::variant_pack),
    ("backend_api", targets::backend_api),
];

/// None where there is no NVRTC, which is then said once, unless `FUSEWRIGHT_REQUIRE_NVRTC=1` forbids that.
#[expect(clippy::print_stderr, reason = "a skipped test says so")]
static COMPILER: LazyLock<Option<CompiledOnly>> =
    LazyLock::new(|| match CompiledOnly::open(ComputeCapability::SM_90) {
        Ok(compiler) => Some(compiler),
        Err(error) if std::env::var_os("FUSEWRIGHT_REQUIRE_NVRTC").is_some_and(|value| value == "1") => {
            panic!("FUSEWRIGHT_REQUIRE_NVRTC=1, but {error}")
        }
        Err(error) => {
            eprintln!("skipped: no NVRTC ({error})");
            None
        }
    });

fn nvrtc_compile(bytes: &[u8]) -> Result<bool, Finding> {
    COMPILER.as_ref().map_or(Ok(false), |compiler| targets::nvrtc_compile(bytes, compiler))
}

fn in_repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("a readable folder").map(|entry| entry.expect("an entry").path());
    let mut files: Vec<PathBuf> = entries.collect();
    files.sort();
    files
}

fn stem(path: &Path) -> String {
    path.file_stem().expect("a name").to_string_lossy().into_owned()
}

/// Asks a target of the inputs; gives how many stood for something.
#[track_caller]
fn ask(target: Target, inputs: impl IntoIterator<Item = Vec<u8>>) -> usize {
    let asked = inputs.into_iter().filter(|input| {
        target(input).unwrap_or_else(|finding| panic!("{finding}\nby {:?}", String::from_utf8_lossy(input)))
    });
    asked.count()
}

/// Bytes that draw what a target draws besides the graph, then those of a generated graph.
fn strings(draws: usize, count: u64) -> impl Iterator<Item = Vec<u8>> {
    (0..count).map(move |number| {
        let bytes = graph_bytes(SEED, number);
        let family = (number % Family::ALL.len() as u64) as u8;
        [&bytes[..draws], &[family], &bytes[draws..]].concat()
    })
}

/// Graph files of the tests, and after each some in which a few characters are others that JSON may have there.
fn damaged_files() -> impl Iterator<Item = Vec<u8>> {
    const CHARACTERS: &[u8] = b"0123456789-.,:\"[]{}ntaE \n";
    let paths = [files(&in_repository("tests/data/suite")), files(&in_repository("tests/data/json"))].concat();
    paths.into_iter().zip(0u64..).flat_map(|(path, number)| {
        let file = fs::read(path).expect("a readable file");
        let damaged = |draws: &[u8]| {
            let mut damaged = file.clone();
            for draw in draws.chunks_exact(4) {
                let at = usize::from(u16::from_le_bytes([draw[0], draw[1]])) % damaged.len();
                damaged[at] = CHARACTERS[usize::from(draw[2]) % CHARACTERS.len()];
            }
            damaged
        };
        let draws = graph_bytes(SEED, number);
        let changes = [0, 1, 1, 1, 2, 2, 10].into_iter().zip(draws.chunks(64));
        changes.map(|(count, draws)| damaged(&draws[..4 * count])).collect::<Vec<_>>()
    })
}

#[test]
fn files_and_logs() {
    let read = ask(targets::frontend_json, damaged_files());
    assert!(read >= 100, "{read} files hold a graph");
    let in_pieces = damaged_files().enumerate().map(|(number, file)| [&[number as u8], &file[..]].concat());
    let read = ask(targets::log_reader, in_pieces);
    assert!(read >= 100, "{read} logs hold a graph");
}

#[test]
fn verdicts_and_sources() {
    let well_formed = ask(targets::check, strings(1, 500));
    assert!(well_formed >= 400, "{well_formed} of 500 are well formed");
    let accepted = ask(targets::lower_and_render, strings(0, 300).chain(damaged_files()));
    assert!(accepted >= 200, "{accepted} are accepted");
}

#[test]
fn kernels_compile() {
    let compiled = ask(nvrtc_compile, strings(4, 10));
    assert!(compiled >= 4 || COMPILER.is_none(), "{compiled} of 10 were compiled");
}

#[test]
fn cache_entries() {
    let damaged = ask(targets::cache_entry, (0..500).map(|number| graph_bytes(SEED, number)));
    assert!(damaged >= 300, "{damaged} of 500 were damaged");
    let whole = ask(targets::cache_entry, [vec![0; 32]]);
    assert_eq!(whole, 0, "nothing is done by zeros");
}

#[test]
fn variant_packs() {
    let judged = ask(targets::variant_pack, strings(32, 300));
    assert!(judged >= 150, "the packs of {judged} graphs of 300 were judged");
}

#[test]
fn programs_against_the_abi() {
    let programs = (0..200).map(|number| [graph_bytes(SEED, 2 * number), graph_bytes(SEED, 2 * number + 1)].concat());
    let taken = ask(targets::backend_api, programs);
    assert!(taken >= 60, "of {taken} programs of 200 an engine takes a graph");
}

#[test]
fn inputs_that_showed_a_defect_once() {
    let folders = files(&in_repository("fuzz/regressions")).into_iter().filter(|path| path.is_dir());
    for folder in folders {
        let name = stem(&folder);
        let target = TARGETS.iter().find(|target| target.0 == name);
        let (_, target) = target.unwrap_or_else(|| panic!("{} is the folder of no target", folder.display()));
        let inputs = files(&folder);
        assert!(!inputs.is_empty(), "{} is empty", folder.display());
        ask(*target, inputs.iter().map(|path| fs::read(path).expect("a readable file")));
    }
}

#[test]
fn every_target_of_the_fuzz_crate_is_replayed() {
    let in_crate: BTreeSet<String> = files(&in_repository("fuzz/fuzz_targets")).iter().map(|path| stem(path)).collect();
    let replayed: BTreeSet<String> = TARGETS.iter().map(|target| target.0.to_owned()).collect();
    assert_eq!(in_crate, replayed);
    let manifest = fs::read_to_string(in_repository("fuzz/Cargo.toml")).expect("a manifest");
    let declared = |name: &&String| manifest.contains(&format!("name = \"{name}\""));
    assert_eq!(in_crate.iter().filter(declared).count(), in_crate.len());
}
