//! Graphs from files.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};

use fusewright::error::{Error, Malformed};
use fusewright::graph::FinalizedGraph;
use fusewright::graph::json::{DocumentReader, GraphDocument};

use super::arguments::Selector;
use super::console::Console;
use super::outcome::Result;

/// The graphs of one file, read as they are asked for.
pub(super) type Reader = DocumentReader<Box<dyn BufRead>>;

/// Opens a file; `-` is standard input.
///
/// # Errors
/// [`Error::Input`] naming the file.
pub(super) fn open(path: &Path) -> std::result::Result<Reader, Error> {
    let name = path.display().to_string();
    let input: Box<dyn BufRead> = match name.as_str() {
        "-" => Box::new(io::stdin().lock()),
        _ => {
            let file = File::open(path).map_err(|error| Error::input(&name, format!("cannot be opened: {error}")))?;
            Box::new(BufReader::with_capacity(1 << 18, file))
        }
    };
    Ok(DocumentReader::new(&name, input))
}

/// The graphs of a file that are meant: all of them, or the one selected.
///
/// # Errors
/// [`Error::Input`] where the selected graph is not there, or its name is that of several.
pub(super) fn select(
    path: &Path,
    mut reader: Reader,
    selector: Option<&Selector>,
) -> std::result::Result<Box<dyn Iterator<Item = GraphDocument>>, Error> {
    let Some(selector) = selector else { return Ok(Box::new(reader)) };
    let is_meant = |document: &GraphDocument| match selector {
        Selector::Number(number) => document.number == *number,
        Selector::Name(name) => document.name == *name,
    };
    let mut count = 0;
    let mut found: Vec<GraphDocument> = reader.by_ref().inspect(|_| count += 1).filter(is_meant).collect();
    let place = path.display().to_string();
    match found.len() {
        1 => Ok(Box::new(found.drain(..).collect::<Vec<_>>().into_iter())),
        0 => Err(Error::input(place, format!("has no {selector}; it holds {count} graphs, numbered from 1"))),
        _ => {
            let numbers: Vec<String> = found.iter().map(|document| document.number.to_string()).collect();
            let message = format!("{selector} is the name of graphs {}: pick one by number", numbers.join(", "));
            Err(Error::input(place, message))
        }
    }
}

/// A well-formed graph and what messages call it.
pub(super) struct LoadedGraph {
    /// Its name: that of its record or context, else the file's stem.
    pub(super) name: String,
    /// File and graph: `app.log: graph 2 'mlp'`.
    pub(super) place: String,
    /// The graph.
    pub(super) graph: FinalizedGraph,
}

/// File and graph, as messages name them.
pub(super) fn place(path: &Path, document: &GraphDocument) -> String {
    format!("{}: graph {} '{}'", path.display(), document.number, document.name.escape_debug())
}

/// Finalizes the graph of a document, and passes its warnings on.
///
/// # Errors
/// [`Error::Input`] naming file, graph, node and tensor.
pub(super) fn load(path: &Path, document: GraphDocument, console: &Console) -> std::result::Result<LoadedGraph, Error> {
    let place = place(path, &document);
    document.warnings.iter().for_each(|warning| console.warn(format_args!("{place}: {warning}")));
    let graph = document.result?.finalize().map_err(|malformed| at(&place, &malformed))?;
    graph.notes().iter().for_each(|note| console.note(format_args!("{place}: {note}")));
    Ok(LoadedGraph { name: document.name, place, graph })
}

/// A defect of a graph with its place.
pub(super) fn at(place: &str, malformed: &Malformed) -> Error {
    Error::input(place, malformed.to_string())
}

/// Does something with every graph meant; trouble with a file or a graph is reported, and the next is taken.
pub(super) fn for_each(
    paths: &[PathBuf],
    selector: Option<&Selector>,
    console: &mut Console,
    mut action: impl FnMut(LoadedGraph, &mut Console) -> Result<()>,
) -> Result<()> {
    for path in paths {
        let documents = match open(path).and_then(|reader| select(path, reader, selector)) {
            Ok(documents) => documents,
            Err(error) => {
                console.fail(&error);
                continue;
            }
        };
        for document in documents {
            let done = load(path, document, console).map_err(Into::into).and_then(|graph| action(graph, console));
            console.survive(done)?;
        }
    }
    Ok(())
}

/// The one graph of a file that is meant.
///
/// # Errors
/// As [`open`], [`select`] and [`load`]; [`Error::Input`] where the file holds several and none is selected.
pub(super) fn load_one(
    path: &Path,
    selector: Option<&Selector>,
    console: &Console,
) -> std::result::Result<LoadedGraph, Error> {
    let mut documents = select(path, open(path)?, selector)?;
    let first = documents.next();
    let others = documents.count();
    match first {
        Some(document) if others == 0 => load(path, document, console),
        _ => {
            let message = format!("holds {} graphs: pick one with --graph", others + 1);
            Err(Error::input(path.display().to_string(), message))
        }
    }
}
