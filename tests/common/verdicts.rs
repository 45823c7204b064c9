//! Graphs with the verdicts that the closed library gave on an H200 (`tests/data/README.md`).

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::sync::LazyLock;

use fusewright::frontend::read_graph;
use fusewright::graph::Graph;
use serde::Deserialize;

/// One line of the file.
#[derive(Deserialize)]
struct Line {
    id: u64,
    family: String,
    verdict: String,
    graph: serde_json::Value,
}

/// A graph with the library's verdict.
#[derive(Clone)]
pub(crate) struct VerdictRecord {
    pub(crate) id: u64,
    pub(crate) family: String,
    /// Whether the library has an engine for it.
    pub(crate) is_accepted: bool,
    pub(crate) graph: Graph,
}

/// The folder with the graph files: `FUSEWRIGHT_DATA`, or that of the repository.
pub(crate) fn folder() -> PathBuf {
    std::env::var_os("FUSEWRIGHT_DATA")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data"), PathBuf::from)
}

/// Every verdict graph, in order of their ids; read once. The error names the file or the record.
pub(crate) fn read() -> Result<&'static [VerdictRecord], String> {
    static RECORDS: LazyLock<Result<Vec<VerdictRecord>, String>> = LazyLock::new(records);
    RECORDS.as_deref().map_err(Clone::clone)
}

fn records() -> Result<Vec<VerdictRecord>, String> {
    let path = folder().join("verdicts.jsonl.gz");
    let in_file = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let file = File::open(&path).map_err(|error| in_file(&error))?;
    let text = BufReader::new(flate2::read::GzDecoder::new(file));
    text.lines().map(|line| record(&line.map_err(|error| in_file(&error))?)).collect()
}

fn record(line: &str) -> Result<VerdictRecord, String> {
    let Line { id, family, verdict, graph } = serde_json::from_str(line).map_err(|error| error.to_string())?;
    let graph =
        read_graph("verdicts", graph.to_string().as_bytes()).map_err(|error| format!("record {id}: {error}"))?;
    Ok(VerdictRecord { id, family, is_accepted: verdict == "supported", graph })
}
