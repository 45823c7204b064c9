//! What `check` says of graphs that were edited as people edit them, and as they go wrong (`tests/data/edited/cases.json`). Every answer is
//! in `tests/snapshots/edited.txt`, which is to be read as a user would: would I know what to do?

mod common;

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use common::snapshot;
use serde::Deserialize;
use serde_json::Value;

/// One edited graph.
#[derive(Deserialize)]
struct Case {
    title: String,
    /// Name of a graph of the suite, or of one beside the cases.
    #[serde(default)]
    base: String,
    /// What is set in it, by JSON pointer.
    #[serde(default)]
    set: serde_json::Map<String, Value>,
    /// A whole graph instead.
    #[serde(default)]
    graph: Value,
    #[serde(default)]
    arch: Option<String>,
    #[serde(default)]
    surface: Option<u32>,
}

/// Refused graphs that no edit of ours helps, each with the reason.
const HOPELESS: &[&str] = &["no engine yet"];

fn data(name: &str) -> Value {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    let places = ["edited", "suite"].map(|kind| folder.join(kind).join(format!("{name}.json")));
    let path = places.iter().find(|path| path.exists()).unwrap_or_else(|| panic!("there is no graph {name}"));
    serde_json::from_slice(&fs::read(path).expect("a readable graph")).expect("JSON")
}

fn edited(case: &Case) -> Value {
    if !case.graph.is_null() {
        return case.graph.clone();
    }
    let mut graph = data(&case.base);
    for (pointer, value) in &case.set {
        let (parent, key) = pointer.rsplit_once('/').expect("a pointer");
        let parent = graph.pointer_mut(parent).unwrap_or_else(|| panic!("{}: no {parent}", case.title));
        parent[key] = value.clone();
    }
    graph
}

fn check(folder: &Path, file: &str, case: &Case, more: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fusewright"));
    command.args(["check", file]).args(more).current_dir(folder);
    command.args(case.arch.iter().flat_map(|arch| ["--arch", arch.as_str()]));
    let surface = case.surface.map(|surface| surface.to_string());
    command.args(surface.iter().flat_map(|surface| ["--surface", surface.as_str()]));
    command.output().expect("the program starts")
}

#[test]
fn edited_graphs_get_an_answer_that_says_what_to_do() {
    let cases: Vec<Case> = serde_json::from_value(data("cases")).expect("cases");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut all = String::new();
    let mut wrong = Vec::new();
    for case in &cases {
        fs::write(folder.path().join("graph.json"), edited(case).to_string()).expect("the folder can be written");
        let output = check(folder.path(), "graph.json", case, &[]);
        let text = String::from_utf8(output.stdout).expect("UTF-8");
        let complaint = String::from_utf8(output.stderr).expect("UTF-8");
        let arguments = [case.arch.clone(), case.surface.map(|surface| format!("surface {surface}"))];
        let arguments: Vec<String> = arguments.into_iter().flatten().collect();
        let heading = if arguments.is_empty() { String::new() } else { format!(" ({})", arguments.join(", ")) };
        let base = if case.base.is_empty() { String::new() } else { format!(" [{}]", case.base) };
        let answer: Vec<&str> = text.lines().filter(|line| !line.contains(" verdict: ")).collect();
        write!(all, "# {}{base}{heading}\n{}\n{complaint}\n", case.title, answer.join("\n")).expect("text grows");
        match output.status.code() {
            Some(0) | Some(2) => {}
            Some(1) => wrong.extend(without_help(folder.path(), case, &text)),
            other => wrong.push(format!("{}: exit code {other:?}", case.title)),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    snapshot::assert_file("tests/snapshots/edited.txt", &all);
}

/// What is wrong with the help that a refused graph gets: none, or a graph that is refused again.
fn without_help(folder: &Path, case: &Case, text: &str) -> Option<String> {
    if HOPELESS.iter().any(|hopeless| case.title.starts_with(hopeless)) {
        return None;
    }
    if text.contains("to run here, without --surface") || text.contains("without --surface it runs") {
        return None;
    }
    if !text.contains("to run here") {
        return Some(format!("{}: no help\n{text}", case.title));
    }
    let fixed = check(folder, "graph.json", case, &["--fix", "fixed.json"]);
    let again = check(folder, "fixed.json", case, &[]);
    let codes = [fixed.status.code(), again.status.code()];
    (codes != [Some(0); 2]).then(|| format!("{}: --fix and a second check end with {codes:?}", case.title))
}
