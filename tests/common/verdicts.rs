//! Graphs with the verdicts that the closed library gave on an H200 (`tests/data/README.md`).

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use fusewright::graph::Graph;
use fusewright::graph::json::read_graph;
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
pub(crate) struct VerdictRecord {
    pub(crate) id: u64,
    pub(crate) family: String,
    /// Whether the library has an engine for it.
    pub(crate) is_accepted: bool,
    pub(crate) graph: Graph,
}

/// Every verdict graph, in order of their ids.
pub(crate) fn read() -> Vec<VerdictRecord> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/verdicts.jsonl.gz");
    let file = File::open(path).expect("the file is in the repository");
    let text = BufReader::new(flate2::read::GzDecoder::new(file));
    let lines = serde_json::Deserializer::from_reader(text).into_iter::<Line>();
    lines.map(|line| record(line.expect("each line is a record"))).collect()
}

fn record(line: Line) -> VerdictRecord {
    let Line { id, family, verdict, graph } = line;
    let graph = read_graph("verdicts", graph.to_string().as_bytes());
    let graph = graph.unwrap_or_else(|error| panic!("record {id}: {error}"));
    VerdictRecord { id, family, is_accepted: verdict == "supported", graph }
}
