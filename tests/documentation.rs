//! What the documentation cites is there, and every public module says when it is needed and how it is used.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use fusewright::engine::Knob;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn files(folder: &Path, extension: &str, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a readable folder").flatten() {
        let path = entry.path();
        if path.is_dir() {
            files(&path, extension, found);
        } else if path.extension().is_some_and(|found| found == extension) {
            found.push(path);
        }
    }
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).expect("a readable file")
}

/// The comments of the sources, and the documents for people, each with its path.
fn texts() -> Vec<(PathBuf, String)> {
    let mut sources = Vec::new();
    files(&root().join("src"), "rs", &mut sources);
    let comments =
        |text: &str| text.lines().filter_map(|line| Some(&line[line.find("//")?..])).collect::<Vec<_>>().join("\n");
    let mut texts: Vec<_> = sources.into_iter().map(|path| (path.clone(), comments(&read(&path)))).collect();
    let documents = fs::read_dir(root().join("docs")).expect("docs").flatten().map(|entry| entry.path());
    let documents = documents.filter(|path| path.extension().is_some_and(|extension| extension == "md"));
    texts.extend(documents.chain([root().join("README.md")]).map(|path| (path.clone(), read(&path))));
    texts
}

/// Words of letters, digits and hyphens.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '-' && c != '_')
        .map(|word| word.trim_matches('-'))
        .filter(|word| !word.is_empty())
}

/// Documents of `docs/spec` number what they say: `A-16`, `PW-R8`, `FEJ-33`.
fn is_numbered(word: &str) -> bool {
    const HEADINGS: [&str; 12] = ["A", "D", "O", "V", "AT", "PW", "CV", "FEJ", "GR", "RD", "MM", "EN"];
    let Some((heading, rest)) = word.split_once('-') else { return false };
    let number = rest.trim_start_matches(|c: char| c.is_ascii_uppercase());
    HEADINGS.contains(&heading) && !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
}

#[test]
fn ids_that_are_cited_are_in_the_specification() {
    let mut documents = Vec::new();
    files(&root().join("docs/spec"), "md", &mut documents);
    let specification: String = documents.iter().map(|path| read(path)).collect();
    let known: BTreeSet<&str> = words(&specification).filter(|word| is_numbered(word)).collect();
    let texts = texts();
    let cited =
        texts.iter().flat_map(|(path, text)| words(text).filter(|word| is_numbered(word)).map(move |id| (id, path)));
    let cited: Vec<_> = cited.collect();
    assert!(cited.len() > 150, "{} citations", cited.len());
    let unknown: Vec<_> = cited.into_iter().filter(|(id, _)| !known.contains(id)).collect();
    assert!(unknown.is_empty(), "no document of docs/spec has: {unknown:?}");
}

#[test]
fn documents_that_are_named_are_there() {
    let mut missing = Vec::new();
    let mut named = 0;
    for (path, text) in texts() {
        let spelled = |c: char| c.is_ascii_alphanumeric() || "-_./".contains(c);
        for name in text.split(|c| !spelled(c)).filter(|name| name.ends_with(".md") && *name != ".md") {
            named += 1;
            let near = path.parent().expect("a file").to_owned();
            let folders = [
                root().to_owned(),
                near,
                root().join("docs"),
                root().join("docs/spec"),
                root().join("templates/pipeline"),
            ];
            if !folders.iter().any(|folder| folder.join(name).is_file()) {
                missing.push(format!("{}: {name}", path.display()));
            }
        }
    }
    assert!(named > 40, "{named} names");
    assert!(missing.is_empty(), "{}", missing.join("\n"));
}

/// Modules of `src/lib.rs` that are documented.
fn public_modules() -> Vec<String> {
    let text = read(&root().join("src/lib.rs"));
    let declared = text.split("pub mod ").skip(1).zip(text.split("pub mod "));
    let shown = declared.filter(|(_, before)| {
        let attributes = before.rsplit("\n\n").next().unwrap_or_default();
        !attributes.contains("doc(hidden)")
    });
    shown.filter_map(|(after, _)| Some(after.split_once(';')?.0.to_owned())).collect()
}

#[test]
fn every_public_module_says_when_and_how() {
    let modules = public_modules();
    assert!(modules.len() >= 15 && !modules.iter().any(|module| module == "kernel"), "{modules:?}");
    for module in modules {
        let files = [format!("src/{module}.rs"), format!("src/{module}/mod.rs")].map(|path| root().join(path));
        let text = read(files.iter().find(|path| path.is_file()).expect("a module"));
        let documentation: String =
            text.lines().take_while(|line| line.starts_with("//!")).collect::<Vec<_>>().join("\n");
        assert!(documentation.contains("//! # When\n"), "{module} does not say when it is needed");
        assert!(documentation.matches("//! ```").count() >= 2, "{module} has no example");
        assert!(!documentation.contains("```text") && !documentation.contains("```ignore"), "{module}: it runs");
    }
}

/// Paths that a document names between backquotes; patterns and placeholders are none.
fn named_paths(text: &str) -> impl Iterator<Item = &str> {
    const FOLDERS: [&str; 6] = ["src/", "tests/", "templates/", "scripts/", "docs/", "examples/"];
    let quoted = text.split('`').skip(1).step_by(2);
    let is_path = |word: &&str| {
        FOLDERS.iter().any(|folder| word.starts_with(folder)) && !word.contains(['<', '*', '{', ' ', '…'])
    };
    quoted.map(|word| word.trim_end_matches([',', ':'])).filter(is_path)
}

#[test]
fn the_files_of_a_task_are_there() {
    for document in ["docs/contributing.md", "docs/README.md"] {
        let text = read(&root().join(document));
        let missing: Vec<&str> = named_paths(&text).filter(|path| !root().join(path).exists()).collect();
        assert!(missing.is_empty(), "{document} names {missing:?}");
    }
    let tasks = read(&root().join("docs/contributing.md"));
    assert!(named_paths(&tasks).count() > 40);
    let architecture = read(&root().join("docs/architecture.md"));
    assert!(architecture.contains("(contributing.md)"), "the page leads on to the tasks");
}

#[test]
fn the_commands_of_a_task_name_tests_that_are_there() {
    let tasks = read(&root().join("docs/contributing.md"));
    let named: BTreeSet<&str> = tasks
        .split("--test ")
        .skip(1)
        .flat_map(|rest| rest.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').next())
        .filter(|name| !name.is_empty())
        .collect();
    assert!(named.len() > 10, "{named:?}");
    let is_there = |name: &&str| {
        [format!("tests/{name}.rs"), format!("tests/{name}/main.rs")].iter().any(|path| root().join(path).is_file())
    };
    let missing: Vec<&&str> = named.iter().filter(|name| !is_there(name)).collect();
    assert!(missing.is_empty(), "no test is called {missing:?}");
    for file in [".ci/run", "CHANGELOG.md", "scripts/test.sh", "scripts/fetch-nvrtc.sh"] {
        assert!(tasks.contains(&format!("`{file}`")) && root().join(file).is_file(), "{file}");
    }
}

#[test]
fn every_document_is_in_the_index() {
    let index = read(&root().join("docs/README.md"));
    let mut documents = Vec::new();
    files(&root().join("docs"), "md", &mut documents);
    let docs = root().join("docs");
    let relative = documents.iter().map(|path| path.strip_prefix(&docs).expect("below docs").display().to_string());
    let missing: Vec<String> =
        relative.filter(|path| path != "README.md" && !index.contains(&format!("({path})"))).collect();
    assert!(missing.is_empty(), "docs/README.md lacks {missing:?}");
}

#[test]
fn every_variable_is_explained() {
    let mut sources = Vec::new();
    for (folder, extension) in [("src", "rs"), ("tests", "rs"), ("scripts", "sh"), ("fuzz/fuzz_targets", "rs")] {
        files(&root().join(folder), extension, &mut sources);
    }
    let texts: Vec<String> = sources.iter().map(|path| read(path)).collect();
    let variables: BTreeSet<&str> = texts
        .iter()
        .flat_map(|text| words(text))
        .filter(|word| {
            word.strip_prefix("FUSEWRIGHT_").is_some_and(|rest| !rest.is_empty() && !rest.starts_with("TEST_"))
        })
        .collect();
    assert!(variables.len() > 10, "{variables:?}");
    let explained =
        ["README.md", "docs/contributing.md", "docs/cudnn-abi.md"].map(|path| read(&root().join(path))).join("\n");
    let rows: Vec<&str> = explained.lines().filter(|line| line.starts_with("| `FUSEWRIGHT_")).collect();
    let missing: Vec<_> = variables
        .into_iter()
        .filter(|variable| !rows.iter().any(|row| row.contains(&format!("`{variable}`"))))
        .collect();
    assert!(missing.is_empty(), "no table of variables has {missing:?}");
}

/// Programs set knobs by the numbers of cuDNN's types.
#[test]
fn every_knob_has_its_number_in_the_description_of_the_abi() {
    let text = read(&root().join("docs/cudnn-abi.md"));
    let rows: Vec<&str> = text.lines().filter(|line| line.starts_with("| `")).collect();
    let is_there = |knob: &Knob| rows.iter().any(|row| row.contains(&format!("`{}`", knob.name())));
    let missing: Vec<&str> = Knob::ALL.iter().filter(|knob| !is_there(knob)).map(|knob| knob.name()).collect();
    assert!(missing.is_empty(), "docs/cudnn-abi.md has no row for {missing:?}");
}
