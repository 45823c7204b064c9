//! Graph files of the repository: the suite, and the verdict graphs.

use std::fs;
use std::path::PathBuf;

use fusewright::engine::Floor;
use fusewright::frontend;
use fusewright::graph::Graph;

use crate::common::verdicts::{self, VerdictRecord};

/// Largest work of a graph in the emulator tier: multiply-adds, or elements moved.
const EMULATED_WORK: u64 = 4 << 20;

/// The 55 suite graphs by file stem, in order of their names.
pub(crate) fn suite() -> Result<Vec<(String, Graph)>, String> {
    let folder = verdicts::folder().join("suite");
    let entries = fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut paths: Vec<PathBuf> = entries.filter_map(|entry| entry.ok().map(|entry| entry.path())).collect();
    paths.sort();
    paths.into_iter().filter(|path| path.extension().is_some_and(|extension| extension == "json")).map(read).collect()
}

fn read(path: PathBuf) -> Result<(String, Graph), String> {
    let bytes = fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let mut documents = frontend::read_documents(&name, &bytes).documents;
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

/// `count` graphs of the verdict file that an engine takes, spread evenly over it, by name.
pub(crate) fn accepted_verdicts(count: usize, wanted: impl Fn(&Graph) -> bool) -> Vec<(String, Graph)> {
    let device = crate::pipeline::typical_device();
    let records = verdicts::read().unwrap_or_default();
    let accepted: Vec<&VerdictRecord> = records
        .iter()
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
const FOUND: &[u64] = &[254, 836, 889, 1174, 1549, 1685, 2122, 2140, 2293, 2557, 2706, 3609, 3709];

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
