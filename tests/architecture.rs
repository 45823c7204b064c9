//! The order of modules: each uses only those above it.

use std::fs;
use std::path::{Path, PathBuf};

/// Top-level modules in pipeline order. `error` is used by all.
const ORDER: &[&str] = &[
    "error",
    "logging",
    "graph",
    "device",
    "host_tensor",
    "fusion",
    "support",
    "kernel",
    "engine",
    "codegen",
    "compile",
    "reference",
    "emulator",
    "plan",
    "tuning",
    "session",
    "capi",
    "fuzz",
];

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a readable source folder").flatten() {
        let path = entry.path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// The text without its tests: unit tests may use any module.
fn without_tests(text: &str) -> &str {
    text.split("#[cfg(test)]\nmod ").next().unwrap_or(text)
}

/// Top-level modules that a text names through `crate::`.
fn used_modules(text: &str) -> impl Iterator<Item = &str> {
    let lines = text.lines().filter(|line| !line.trim_start().starts_with("//"));
    lines.flat_map(|line| line.split("crate::").skip(1)).map(|rest| {
        let end = rest.find(|c: char| !c.is_ascii_lowercase() && c != '_' && !c.is_ascii_digit());
        &rest[..end.unwrap_or(rest.len())]
    })
}

#[test]
fn lib_lists_the_modules_in_order() {
    let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("src/lib.rs")).expect("src/lib.rs");
    let listed: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("pub mod ")?.strip_suffix(';')).collect();
    assert_eq!(listed, ORDER);
}

#[test]
fn no_module_uses_one_below_it() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let position = |module: &str| ORDER.iter().position(|known| *known == module);
    let mut files = Vec::new();
    sources(&root, &mut files);
    let mut wrong = Vec::new();
    for path in files {
        let relative = path.strip_prefix(&root).expect("below src");
        let top = relative.components().next().expect("a file name").as_os_str().to_string_lossy().replace(".rs", "");
        let is_test = relative.components().any(|part| part.as_os_str() == "tests") || relative.ends_with("tests.rs");
        let Some(own) = position(&top).filter(|_| !is_test) else { continue };
        let text = fs::read_to_string(&path).expect("a readable source file");
        for used in used_modules(without_tests(&text)) {
            if position(used).is_some_and(|used| used > own) {
                wrong.push(format!("{} uses {used}", relative.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
