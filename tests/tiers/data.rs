//! Graph files of the repository: the suite, and the verdict graphs.

use std::fs;
use std::io::Read;
use std::path::PathBuf;
use std::sync::LazyLock;

use fusewright::engine::Floor;
use fusewright::graph::Graph;
use fusewright::graph::json;

/// A graph with the closed library's verdict.
#[derive(Clone)]
pub(crate) struct VerdictRecord {
    pub(crate) id: u64,
    pub(crate) family: String,
    pub(crate) graph: Graph,
}

/// Largest work of a graph in the emulator tier: multiply-adds, or elements moved.
const EMULATED_WORK: u64 = 4 << 20;

fn folder() -> PathBuf {
    std::env::var_os("FUSEWRIGHT_DATA")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data"), PathBuf::from)
}

/// The 53 suite graphs by file stem, in order of their names.
pub(crate) fn suite() -> Result<Vec<(String, Graph)>, String> {
    let folder = folder().join("suite");
    let entries = fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut paths: Vec<PathBuf> = entries.filter_map(|entry| entry.ok().map(|entry| entry.path())).collect();
    paths.sort();
    paths.into_iter().filter(|path| path.extension().is_some_and(|extension| extension == "json")).map(read).collect()
}

fn read(path: PathBuf) -> Result<(String, Graph), String> {
    let bytes = fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let mut documents = json::read_documents(&name, &bytes).documents;
    match documents.len() {
        1 => documents.remove(0).result.map(|graph| (name, graph)).map_err(|error| error.to_string()),
        count => Err(format!("{name}: {count} graphs")),
    }
}

/// Suite graphs that an engine takes, by file stem.
pub(crate) fn suite_of_engines() -> Vec<(String, Graph)> {
    let device = crate::pipeline::typical_device();
    let taken = |(_, graph): &(String, Graph)| crate::pipeline::lower(graph, &device).is_ok();
    suite().unwrap_or_default().into_iter().filter(taken).collect()
}

/// The verdict graphs, in order of their ids.
pub(crate) fn verdicts() -> Result<&'static [VerdictRecord], String> {
    static RECORDS: LazyLock<Result<Vec<VerdictRecord>, String>> = LazyLock::new(read_verdicts);
    RECORDS.as_deref().map_err(Clone::clone)
}

fn read_verdicts() -> Result<Vec<VerdictRecord>, String> {
    let path = folder().join("verdicts.jsonl.gz");
    let file = fs::File::open(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    let mut text = String::new();
    flate2::read::GzDecoder::new(file)
        .read_to_string(&mut text)
        .map_err(|error| format!("{}: {error}", path.display()))?;
    text.lines().map(record).collect()
}

fn record(line: &str) -> Result<VerdictRecord, String> {
    let value: serde_json::Value = serde_json::from_str(line).map_err(|error| error.to_string())?;
    let id = value["id"].as_u64().ok_or("a record without id")?;
    let family = value["family"].as_str().unwrap_or_default().to_owned();
    let mut documents = json::read_documents("verdicts", value["graph"].to_string().as_bytes()).documents;
    let document = documents.pop().ok_or_else(|| format!("record {id} holds no graph"))?;
    Ok(VerdictRecord { id, family, graph: document.result.map_err(|error| format!("record {id}: {error}"))? })
}

/// `count` accepted matmul and pointwise graphs of the verdict file, spread evenly over it, by name.
pub(crate) fn accepted_verdicts(count: usize, wanted: impl Fn(&Graph) -> bool) -> Vec<(String, Graph)> {
    let device = crate::pipeline::typical_device();
    let records = verdicts().unwrap_or_default();
    let accepted: Vec<&VerdictRecord> = records
        .iter()
        .filter(|record| matches!(record.family.as_str(), "matmul" | "pointwise"))
        .filter(|record| wanted(&record.graph) && crate::pipeline::lower(&record.graph, &device).is_ok())
        .collect();
    let stride = (accepted.len() / count.max(1)).max(1);
    let spread = |&(position, record): &(usize, &VerdictRecord)| {
        (position % stride == 0 && position / stride < count) || FOUND.contains(&record.id)
    };
    let chosen = accepted.into_iter().enumerate().filter(spread).map(|(_, record)| record);
    chosen.map(|record| (format!("verdict_{:04}_{}", record.id, record.family), record.graph.clone())).collect()
}

/// Verdict graphs whose results were once wrong, or wrongly judged: always run.
const FOUND: &[u64] = &[254, 889, 1174, 1549, 2122, 2140, 2293, 2557, 3709];

/// Accepted verdict graphs small enough for the emulator.
pub(crate) fn small_verdicts(count: usize) -> Vec<(String, Graph)> {
    accepted_verdicts(count, |graph| {
        graph.finalize().is_ok_and(|graph| {
            let floor = Floor::of(&graph);
            floor.flops / 2 <= EMULATED_WORK && floor.bytes <= EMULATED_WORK
        })
    })
}

/// The same graph with other names and uids.
pub(crate) fn renamed(graph: &Graph) -> Graph {
    let mut renamed = graph.clone().name("another");
    for (number, id) in graph.tensor_ids().enumerate() {
        let tensor = renamed.tensor_mut(id);
        tensor.name = format!("other {number}");
        tensor.uid = Some(9000 - number as i64);
    }
    renamed
}
