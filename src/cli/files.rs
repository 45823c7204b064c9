//! Graphs from files.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};

use fusewright::error::{Error, Malformed, NotSupported};
use fusewright::frontend::{DocumentReader, GraphDocument};
use fusewright::graph::FinalizedGraph;

use super::arguments::Selector;
use super::console::Console;
use super::{outcome, plain, units};

/// The graphs of one file that are meant, read as they are asked for.
pub(super) struct Documents {
    reader: DocumentReader<Box<dyn BufRead>>,
    /// The graph selected, where one was.
    selected: Option<std::vec::IntoIter<GraphDocument>>,
    /// Number of the last graph given.
    last: usize,
}

impl Documents {
    /// All graphs of a file, or the one selected; `-` is standard input.
    ///
    /// # Errors
    /// [`Error::Input`] naming the file: it cannot be opened, does not hold the selected graph, or holds several of
    /// that name.
    pub(super) fn open(path: &Path, selector: Option<&Selector>) -> Result<Self, Error> {
        let name = path.display().to_string();
        let input: Box<dyn BufRead> = match name.as_str() {
            "-" => Box::new(io::stdin().lock()),
            _ => {
                let file = File::open(path)
                    .map_err(|error| Error::input(plain::path(path), format!("cannot be opened: {error}")))?;
                Box::new(BufReader::with_capacity(1 << 18, file))
            }
        };
        let mut reader = DocumentReader::new(&name, input);
        let selected = match selector {
            Some(selector) => Some(vec![select(&plain::path(path), &mut reader, selector)?].into_iter()),
            None => None,
        };
        Ok(Self { reader, selected, last: 0 })
    }

    /// What there is to say of the whole file, once all graphs were given: repeats and skipped lines.
    pub(super) fn remarks(&self) -> Vec<String> {
        let mut remarks = self.reader.warnings().to_vec();
        for number in 1..=self.last {
            match self.reader.repeats(number) {
                0 => {}
                repeats => remarks.push(format!(
                    "graph {number} appears {} times, the same each time; it counts once, and no graph is lost",
                    repeats + 1
                )),
            }
        }
        remarks
    }
}

impl Iterator for Documents {
    type Item = GraphDocument;

    fn next(&mut self) -> Option<GraphDocument> {
        let document = match &mut self.selected {
            Some(selected) => selected.next(),
            None => self.reader.next(),
        }?;
        self.last = document.number;
        Some(document)
    }
}

fn select(
    name: &str,
    reader: &mut DocumentReader<Box<dyn BufRead>>,
    selector: &Selector,
) -> Result<GraphDocument, Error> {
    let (mut called, mut numbered, mut names) = (Vec::new(), None, Vec::new());
    for document in reader {
        names.push(document.name.clone());
        if document.name == selector.name {
            called.push(document);
        } else if Some(document.number) == selector.number {
            numbered = Some(document);
        }
    }
    let numbers: Vec<String> = called.iter().map(|document: &GraphDocument| format!("#{}", document.number)).collect();
    match called.pop() {
        Some(document) if called.is_empty() => Ok(document),
        Some(_) => {
            let meant = selector.name.escape_debug();
            let message = format!("graph '{meant}' is the name of graphs {}: pick one by number", numbers.join(", "));
            Err(Error::input(name, message))
        }
        None => numbered.ok_or_else(|| Error::input(name, format!("has no {selector}; it holds {}", held(&names)))),
    }
}

/// How many graphs there are, and the names of the first: `2 graphs: 'fc1', 'scale'`.
fn held(names: &[String]) -> String {
    const SHOWN: usize = 12;
    let mut shown: Vec<String> = names.iter().take(SHOWN).map(|name| format!("'{}'", name.escape_debug())).collect();
    shown.extend((names.len() > SHOWN).then(|| format!("… {} more", names.len() - SHOWN)));
    format!("{}: {}", units::plural(names.len(), "graph"), shown.join(", "))
}

/// Endings of the files that a folder is read for.
const ENDINGS: [&str; 3] = ["json", "jsonl", "log"];

/// The files that are meant: each file itself, and of a folder its graph files and logs in the order of their names.
///
/// # Errors
/// [`Error::Input`] naming a folder that cannot be read or holds no such file.
pub(super) fn expanded(path: &Path) -> Result<Vec<PathBuf>, Error> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let unread = |error: io::Error| Error::input(plain::path(path), format!("cannot be read: {error}"));
    let entries = std::fs::read_dir(path).and_then(Iterator::collect::<io::Result<Vec<_>>>).map_err(unread)?;
    let is_graph_file = |path: &PathBuf| {
        path.is_file() && ENDINGS.iter().any(|ending| path.extension().is_some_and(|it| it == *ending))
    };
    let mut files: Vec<PathBuf> = entries.into_iter().map(|entry| entry.path()).filter(is_graph_file).collect();
    if files.is_empty() {
        return Err(Error::input(plain::path(path), "is a folder without a file *.json, *.jsonl or *.log"));
    }
    files.sort();
    Ok(files)
}

/// Does something with each of the files meant; a path that leads to none is reported.
pub(super) fn each_file(
    paths: &[PathBuf],
    console: &mut Console,
    mut action: impl FnMut(&Path, &mut Console) -> outcome::Result<()>,
) -> outcome::Result<()> {
    for path in paths {
        match expanded(path) {
            Ok(files) => files.iter().try_for_each(|file| action(file, console))?,
            Err(error) => console.fail(&error),
        }
    }
    Ok(())
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
    format!("{}: graph {} '{}'", plain::path(path), document.number, document.name.escape_debug())
}

/// Finalizes the graph of a document, and passes its warnings on.
///
/// # Errors
/// [`Error::Input`] naming file, graph, node and tensor.
pub(super) fn load(path: &Path, document: GraphDocument, console: &Console) -> Result<LoadedGraph, Error> {
    let place = place(path, &document);
    document.warnings.iter().for_each(|warning| console.warn(format_args!("{place}: {warning}")));
    let graph = document.result?.finalize().map_err(|malformed| at(&place, &malformed))?;
    graph.notes().iter().for_each(|note| console.note(format_args!("{place}: {note}")));
    Ok(LoadedGraph { name: document.name, place, graph })
}

/// The defects of a graph, each with its place on a line of its own.
pub(super) fn at(place: &str, malformed: &Malformed) -> Error {
    let texts: Vec<String> = malformed.all().map(ToString::to_string).collect();
    Error::input(place, texts.join(&format!("\n{place}: ")))
}

/// Puts the place before an error that names none.
pub(super) fn locate(place: &str, error: Error) -> Error {
    match error {
        Error::NotSupported(cause) => NotSupported::At { place: place.to_owned(), cause }.into(),
        Error::Wrong(reason) => Error::Wrong(format!("{place}: {reason}")),
        Error::Input { place: inner, message } => Error::input(format!("{place}: {inner}"), message),
        Error::Generated { message, log, source_path } => {
            Error::Generated { message: format!("{place}: {message}"), log, source_path }
        }
        other => other,
    }
}

/// Does something with every graph meant; trouble with a file or a graph is reported, and the next is taken.
pub(super) fn for_each(
    paths: &[PathBuf],
    selector: Option<&Selector>,
    console: &mut Console,
    mut action: impl FnMut(LoadedGraph, &mut Console) -> outcome::Result<()>,
) -> outcome::Result<()> {
    each_file(paths, console, |path, console| {
        let mut documents = match Documents::open(path, selector) {
            Ok(documents) => documents,
            Err(error) => {
                console.fail(&error);
                return Ok(());
            }
        };
        for document in documents.by_ref() {
            let done = load(path, document, console).map_err(Into::into).and_then(|graph| action(graph, console));
            console.survive(done)?;
        }
        documents.remarks().iter().for_each(|remark| console.warn(format_args!("{}: {remark}", plain::path(path))));
        Ok(())
    })
}

/// The one graph of a file that is meant.
///
/// # Errors
/// As [`Documents::open`] and [`load`]; [`Error::Input`] where the file holds several and none is selected.
pub(super) fn load_one(path: &Path, selector: Option<&Selector>, console: &Console) -> Result<LoadedGraph, Error> {
    let mut documents = Documents::open(path, selector)?;
    let first = documents.next();
    let others = documents.count();
    match first {
        Some(document) if others == 0 => load(path, document, console),
        _ => {
            let message = format!("holds {} graphs: pick one with --graph", others + 1);
            Err(Error::input(plain::path(path), message))
        }
    }
}
