//! Names with control characters, terminal escapes and line breaks: whatever a command says, a terminal shows it as text,
//! and nobody forges a line of it.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::program::{Ran, run};

/// Colour, window title, C1 and DEL, backspace, carriage return, a line of its own, reversed and invisible text, quotes.
const EVIL: &str =
    "evil\u{1b}[31m\u{1b}]0;t\u{7}\u{9b}2J\u{7f}\u{8}\rx\nFORGED line\t\u{202e}\u{200b}\u{feff}\u{2028}'\"\\";

/// Fails where a text would do more than be read.
#[track_caller]
fn is_tame(what: &str, text: &str) {
    let commands = |c: char| c.is_control() && c != '\n';
    let disguises =
        |c: char| matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}');
    let wild = text.lines().find(|line| line.contains(|c| commands(c) || disguises(c)));
    assert!(wild.is_none(), "{what}: {wild:?}");
    let forged = text.lines().find(|line| line.trim_start().starts_with("FORGED"));
    assert!(forged.is_none(), "{what}: {forged:?}");
}

#[track_caller]
fn is_tame_run(what: &str, ran: &Ran) {
    is_tame(what, &ran.out);
    is_tame(what, &ran.err);
}

/// `y = relu(a + b)` in the second dialect.
fn graph() -> Value {
    let tensor = |uid: i64, name: &str, is_virtual: bool| {
        json!({"uid": uid, "name": name, "data_type": "FLOAT", "dim": [2, 3, 4], "stride": [12, 4, 1],
               "is_virtual": is_virtual, "is_pass_by_value": false, "pass_by_value": null, "reordering_type": "NONE"})
    };
    let node = |name: &str, mode: &str, inputs: Value, output: i64| {
        json!({"tag": "POINTWISE", "name": name, "mode": mode, "compute_data_type": "FLOAT", "axis": null,
               "inputs": inputs, "outputs": {"OUT_0": output}})
    };
    json!({
        "context": {"name": "g", "io_data_type": "FLOAT", "intermediate_data_type": "FLOAT",
                    "compute_data_type": "FLOAT"},
        "cudnn_frontend_version": 13200, "json_version": "2.0",
        "nodes": [node("add", "ADD", json!({"IN_0": 1, "IN_1": 2}), 3), node("relu", "RELU_FWD", json!({"IN_0": 3}), 4)],
        "tensors": [tensor(1, "a", false), tensor(2, "b", false), tensor(3, "sum", true), tensor(4, "y", false)],
    })
}

/// The graph with every name hostile; they stay apart.
fn renamed() -> Value {
    let mut graph = graph();
    for pointer in ["/context", "/nodes/0", "/nodes/1", "/tensors/0", "/tensors/1", "/tensors/2", "/tensors/3"] {
        let name = graph.pointer_mut(pointer).expect("a place of the graph");
        name["name"] = json!(format!("{EVIL}{pointer}"));
    }
    graph
}

/// Pointers to everything in a value.
fn places(value: &Value, here: &str, found: &mut Vec<String>) {
    found.push(here.to_owned());
    match value {
        Value::Object(fields) => fields.iter().for_each(|(key, value)| places(value, &format!("{here}/{key}"), found)),
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(number, value)| places(value, &format!("{here}/{number}"), found));
        }
        _ => {}
    }
}

/// The graph with each of its values, and each of its keys, in turn replaced by what is hostile.
fn spoiled() -> Vec<Value> {
    let graph = renamed();
    let mut pointers = Vec::new();
    places(&graph, "", &mut pointers);
    let mut spoiled = Vec::new();
    for pointer in pointers.iter().filter(|pointer| !pointer.is_empty()) {
        for hostile in [json!(EVIL), json!([EVIL]), json!({EVIL: EVIL})] {
            let mut other = graph.clone();
            *other.pointer_mut(pointer).expect("a place of the graph") = hostile;
            spoiled.push(other);
        }
        let (parent, key) = pointer.rsplit_once('/').expect("a pointer begins with a slash");
        let mut other = graph.clone();
        if let Some(fields) = other.pointer_mut(parent).and_then(Value::as_object_mut) {
            let value = fields.remove(key).expect("a key of the graph");
            fields.insert(EVIL.to_owned(), value);
            spoiled.push(other);
        }
    }
    spoiled
}

fn write(folder: &tempfile::TempDir, name: &str, content: impl AsRef<[u8]>) -> String {
    let path = folder.path().join(name);
    fs::create_dir_all(path.parent().expect("a folder")).expect("a folder that can be made");
    fs::write(&path, content).expect("a file that can be written");
    path.to_str().expect("UTF-8").to_owned()
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

#[test]
fn every_command_shows_names_as_text() {
    let folder = folder();
    let evil_name = EVIL.replace('/', "_");
    let file = write(&folder, &format!("{evil_name}.json"), renamed().to_string());
    let file = file.as_str();
    let out = folder.path().join(&evil_name);
    let out = out.to_str().expect("UTF-8");
    let mut said = 0;
    for arguments in [
        &["check", file][..],
        &["check", file, "--arch", "sm_90", "--arch", "sm_70"],
        &["check", file, "--graph", EVIL],
        &["check", file, file],
        &["explain", file],
        &["explain", file, "--source"],
        &["compile", file, "--out", out],
        &["run", file, "--device", "cpu", "--verify"],
        &["run", file, "--device", "emulator"],
        &["run", file, "--device", "cpu", "--outputs", out],
        &["run", file, "--device", "cpu", "--inputs", out],
        &["bench", file],
        &["bench", file, file],
    ] {
        for verbosity in [&[][..], &["-v", "-v"]] {
            let ran = run(&folder, &[arguments, verbosity].concat(), &[]);
            is_tame_run(&format!("{:?}", &arguments[..1]), &ran);
            said += usize::from(ran.out.contains("evil") || ran.err.contains("evil"));
        }
    }
    // `explain --source` has no reason to name anything.
    assert!(said >= 20, "the names were to be seen in {said} outputs");
}

#[test]
fn sources_and_binaries_hold_no_name_raw() {
    let folder = folder();
    let file = write(&folder, "graph.json", renamed().to_string());
    let out = folder.path().join("out");
    run(&folder, &["compile", &file, "--out", out.to_str().expect("UTF-8")], &[]);
    let written: Vec<PathBuf> = fs::read_dir(&out).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    for path in &written {
        is_tame("a file's name", path.to_str().expect("UTF-8"));
        if path.extension().is_some_and(|extension| extension == "cu") {
            is_tame("the source", &fs::read_to_string(path).expect("a text"));
        }
    }
    let ran = run(&folder, &["explain", &file, "--source"], &[]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
}

#[test]
fn every_complaint_about_a_file_quotes_it_as_text() {
    let folder = folder();
    let graphs = spoiled();
    let lines: String = graphs.iter().map(|graph| format!("{graph}\n")).collect();
    let log = format!("[cudnn_frontend] ERROR: {}\n{EVIL}\n{{\"{EVIL}\n{lines}", EVIL.replace('\n', " "));
    let file = write(&folder, "graphs.log", log);
    let text = run(&folder, &["check", &file], &[]);
    is_tame_run("check", &text);
    assert!(text.out.matches("malformed").count() > graphs.len() / 2, "{:.2000}", text.out);
    let json = run(&folder, &["check", &file, "--format", "json"], &[]);
    is_tame_run("check --format json", &json);
    let records: Vec<Value> = json.out.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let named = format!("{EVIL}/context");
    assert!(records.iter().any(|record| record["graph"] == named.as_str()), "programs get names as they are");
}

#[test]
fn arguments_are_quoted_as_text() {
    let folder = folder();
    let file = write(&folder, "graph.json", graph().to_string());
    let file = file.as_str();
    for arguments in [
        &[EVIL][..],
        &["check", EVIL],
        &["check", file, EVIL],
        &["check", file, "--graph", EVIL],
        &["check", file, "--arch", EVIL],
        &["check", file, "--surface", EVIL],
        &["check", file, "--format", EVIL],
        &["check", &format!("--{EVIL}"), file],
        &["explain", file, "--mode", EVIL],
        &["run", file, "--device", EVIL],
        &["run", file, "--seed", EVIL],
        &["run", file, "--inputs", EVIL],
        &["run", file, "--device", "cpu", "--outputs", "/nowhere/\u{1b}[31mevil"],
        &["bench", file, "--autotune=\u{1b}[31mevil"],
        &["cache", EVIL],
    ] {
        let ran = run(&folder, arguments, &[]);
        assert_eq!(ran.code, Some(2), "{arguments:?}: {ran:?}");
        assert!(ran.err.contains("evil"), "{arguments:?}: {ran:?}");
        is_tame_run(&format!("{arguments:?}"), &ran);
    }
}

/// An entry of the disk cache, with a right checksum, whose key is not to be trusted.
fn evil_entry() -> Vec<u8> {
    let key = json!({"graph": EVIL, "engine": EVIL, "config": EVIL, "source": EVIL, "nvrtc": EVIL, "options": [EVIL],
                     "target": EVIL, "fusewright": EVIL});
    let metadata =
        json!({"key": key, "log": EVIL, "resources": [], "warnings": [EVIL], "milliseconds": 1.0}).to_string();
    let lengths = [(metadata.len() as u64).to_le_bytes(), 0u64.to_le_bytes()].concat();
    let hashed = [&lengths[..], metadata.as_bytes()].concat();
    [&b"fusewright cub 1"[..], blake3::hash(&hashed).as_bytes(), &hashed].concat()
}

/// The same for a tuned config.
fn evil_tuning() -> String {
    let key = json!({"graph": EVIL, "engine": EVIL, "device": EVIL, "capability": EVIL, "sm_count": 1,
                     "shared_bytes_per_block": 1, "l2_bytes": 1, "fusewright": EVIL});
    let entry = json!({"key": key, "config": EVIL, "median_ms": 1.0}).to_string();
    format!("{}\n{entry}\n", blake3::hash(entry.as_bytes()).to_hex())
}

#[test]
fn what_lies_in_the_cache_is_quoted_as_text() {
    let folder = folder();
    let wrong = json!({"key": EVIL}).to_string();
    let wrong = format!("{}\n{wrong}\n", blake3::hash(wrong.as_bytes()).to_hex());
    let evil_file = |extension: &str| format!("{}.{extension}", EVIL.replace('/', "_"));
    for (path, content) in [
        (format!("cache/{}.cubin", "0".repeat(64)), evil_entry()),
        (format!("cache/{}", evil_file("cubin")), evil_entry()),
        (format!("cache/tuning/{}.tuned", "0".repeat(64)), evil_tuning().into_bytes()),
        (format!("cache/tuning/{}", evil_file("tuned")), evil_tuning().into_bytes()),
        (format!("cache/tuning/{}.tuned", "1".repeat(64)), wrong.into_bytes()),
    ] {
        write(&folder, &path, content);
    }
    for action in ["path", "list", "verify", "clear"] {
        let ran = run(&folder, &["cache", action], &[]);
        is_tame_run(action, &ran);
    }
}

#[test]
fn what_the_environment_names_is_quoted_as_text() {
    let folder = folder();
    let file = write(&folder, "graph.json", graph().to_string());
    let place = folder.path().join(EVIL.replace('/', "_"));
    let place = place.to_str().expect("UTF-8");
    let settings: [&[(&str, &str)]; 3] =
        [&[("FUSEWRIGHT_CACHE_DIR", place)], &[("FUSEWRIGHT_NVRTC", place)], &[("CXX", place), ("PATH", place)]];
    for variables in settings {
        for arguments in [&["doctor"][..], &["cache", "path"], &["cache", "list"], &["compile", &file, "-v"]] {
            let ran = run(&folder, arguments, variables);
            is_tame_run(&format!("{arguments:?} with {}", variables[0].0), &ran);
        }
    }
    fs::write(Path::new(place), "a file in place of the folder")
        .or_else(|_| fs::remove_dir_all(place))
        .expect("removed");
    for action in ["list", "verify", "clear"] {
        is_tame_run(action, &run(&folder, &["cache", action], &[("FUSEWRIGHT_CACHE_DIR", place)]));
    }
}
