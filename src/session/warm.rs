//! Plans that are built before they are asked for.

use std::fs::{self, File};
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rayon::prelude::*;

use super::Session;
use crate::error::Error;
use crate::frontend::DocumentReader;
use crate::graph::Graph;

/// One graph of a folder that is warmed.
#[derive(Debug)]
pub struct WarmStep {
    /// File and graph: `mlp.json: graph 1 'mlp'`.
    pub place: String,
    /// Why there is no plan of it.
    pub error: Option<Error>,
}

/// What became of a folder.
#[derive(Debug, Default)]
pub struct Warmed {
    /// Graphs with a plan now, whether or not they had one before.
    pub plans: usize,
    /// The others, in the order of files and graphs.
    pub failures: Vec<WarmStep>,
}

impl Session {
    /// Builds a plan of every graph in the files of a folder (not of folders in it), several at a time. `progress` is told of each
    /// graph as it is done, from the thread that did it.
    ///
    /// # Errors
    /// [`Error::Input`] where the folder or a file cannot be read. What is wrong with single graphs is part of the answer.
    pub fn warm(&self, folder: &Path, progress: impl Fn(&WarmStep) + Sync) -> Result<Warmed, Error> {
        let mut graphs = Vec::new();
        for file in files(folder)? {
            read(&file, &mut graphs)?;
        }
        let build = |(place, graph): (String, Result<Graph, Error>)| {
            let plan = || self.plan(&Arc::new(graph?.finalize()?)).map(drop);
            let step = WarmStep { place, error: plan().err() };
            progress(&step);
            step
        };
        let steps: Vec<WarmStep> = graphs.into_par_iter().map(build).collect();
        let plans = steps.iter().filter(|step| step.error.is_none()).count();
        Ok(Warmed { plans, failures: steps.into_iter().filter(|step| step.error.is_some()).collect() })
    }
}

/// The regular files of a folder, sorted.
fn files(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let unreadable = |error| Error::input(folder.display().to_string(), format!("cannot be read: {error}"));
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        if path.is_file() {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

fn read(path: &Path, graphs: &mut Vec<(String, Result<Graph, Error>)>) -> Result<(), Error> {
    let name = path.display().to_string();
    let file = File::open(path).map_err(|error| Error::input(&name, format!("cannot be opened: {error}")))?;
    for document in DocumentReader::new(&name, BufReader::new(file)) {
        let place = format!("{name}: graph {} '{}'", document.number, document.name.escape_debug());
        graphs.push((place, document.result.map_err(Error::from)));
    }
    Ok(())
}
