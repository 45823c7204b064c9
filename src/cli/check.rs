//! `fusewright check`: a verdict for every graph.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fusewright::device::ComputeCapability;
use fusewright::engine::{self, Decision, Engine};
use fusewright::error::Error;
use fusewright::frontend::{self, GraphDocument};
use fusewright::graph::{FinalizedGraph, Graph};
use fusewright::support::{GraphLabel, Remedy, SurfaceId, Verdict, VerdictStatus};
use rayon::prelude::*;
use serde::Serialize;

use super::arguments::{CheckOptions, Format};
use super::console::{Console, Style, Verbosity};
use super::files::{self, Documents};
use super::outcome::{Outcome, Result};
use super::tensor_file::ResultFile;
use super::{plain, units};

/// Graphs that are checked in parallel before their verdicts are printed; bounds what is held in memory.
const BATCH: usize = 256;

/// One line of `--format json`: the verdict, and where the graph came from.
#[derive(Serialize)]
struct Record<'a> {
    #[serde(flatten)]
    verdict: Verdict,
    file: &'a str,
    number: usize,
    line: usize,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    warnings: &'a [String],
}

/// What there is to say of one graph on one chip.
struct Answer {
    verdict: Verdict,
    /// For people: the verdict in a line, then the reasons, then what would help; empty for malformed graphs.
    text: Vec<String>,
    /// The graph as `--fix` writes it; `None` where there is no such change.
    fixed: Option<Vec<Graph>>,
}

/// How many graphs had which verdict.
#[derive(Default)]
struct Tally {
    supported: usize,
    not_supported: usize,
    malformed: usize,
}

pub(super) fn run(options: &CheckOptions, console: &mut Console) -> Result<()> {
    let mut fix = options.fix.as_deref().map(|path| Fix::create(path, options)).transpose()?;
    let mut tally = Tally::default();
    files::each_file(&options.files, console, |path, console| {
        let done = check_file(path, options, (&mut tally, fix.as_mut()), console);
        console.survive(done)
    })?;
    if options.format == Format::Text {
        console.line(tally.text())?;
    }
    fix.map_or(Ok(()), |fix| fix.write(console))
}

fn check_file(
    path: &Path,
    options: &CheckOptions,
    (tally, mut fix): (&mut Tally, Option<&mut Fix>),
    console: &mut Console,
) -> Result<()> {
    let mut documents = Documents::open(path, options.graph.as_ref())?;
    let file = path.display().to_string();
    let mut names = HashSet::new();
    loop {
        let batch: Vec<GraphDocument> = documents.by_ref().take(BATCH).collect();
        if batch.is_empty() {
            break;
        }
        let is_verbose = console.verbosity() >= Verbosity::Verbose;
        let asked = |document| answer(&file, document, options, is_verbose);
        let answers: Vec<Vec<Answer>> = batch.par_iter().map(asked).collect();
        for (document, answers) in batch.iter().zip(answers) {
            let is_named = names.insert(document.name.clone());
            for mut answer in answers {
                let is_fixed = fix.as_mut().is_some_and(|fix| fix.add(document, answer.fixed.take()));
                tally.add(answer.verdict.status, is_fixed, console);
                print(&file, document, is_named, answer, options.format, console)?;
            }
        }
    }
    documents.remarks().iter().for_each(|remark| console.warn(format_args!("{}: {remark}", plain::path(path))));
    Ok(())
}

/// The verdicts of a graph, one for each capability asked; a malformed graph has one in all.
fn answer(file: &str, document: &GraphDocument, options: &CheckOptions, is_verbose: bool) -> Vec<Answer> {
    let graph = match &document.result {
        Ok(graph) => graph.finalize().map(Arc::new).map_err(|error| {
            let error = files::at(&files::place(Path::new(file), document), &error);
            error.to_string()
        }),
        Err(error) => Err(Error::from(error.clone()).to_string()),
    };
    let graph = match graph {
        Ok(graph) => graph,
        Err(error) => return vec![malformed(error)],
    };
    let capabilities = match options.capabilities.as_slice() {
        [] => &[ComputeCapability::SM_90],
        capabilities => capabilities,
    };
    let decide = |&capability: &ComputeCapability| {
        let arch = (capabilities.len() > 1).then(|| capability.to_string());
        decided(&graph, capability, options, is_verbose).with_arch(arch)
    };
    capabilities.iter().map(decide).collect()
}

/// The verdict on one chip. Where no engine takes the graph, what would help is looked for; where one does, what would make a surface
/// hold, if it is asked for: by a surface of the arguments, or in all words.
fn decided(
    graph: &Arc<FinalizedGraph>,
    capability: ComputeCapability,
    options: &CheckOptions,
    is_verbose: bool,
) -> Answer {
    let surfaces = if options.surfaces.is_empty() { &SurfaceId::ALL } else { options.surfaces.as_slice() };
    let decision = engine::decide(graph, capability, surfaces);
    let wants_surface = !options.surfaces.is_empty();
    let remedy = match decision.engine() {
        None => engine::remedy(graph, &decision.report),
        Some(_) if (wants_surface || is_verbose) && decision.report.surface().is_none() => {
            Remedy { run: None, hold: engine::to_hold(graph, &decision.report) }
        }
        Some(_) => Remedy::default(),
    };
    let elsewhere = if wants_surface && remedy.run.is_none() { elsewhere(&decision, graph) } else { None };
    let text =
        [vec![decision.verdict_line()], decision.details(is_verbose), remedy.lines(), elsewhere.into_iter().collect()];
    let text = text.concat();
    let is_legal = if wants_surface { decision.report.surface().is_some() } else { decision.engine().is_some() };
    let change = if wants_surface { &remedy.hold } else { &remedy.run };
    let fixed = match is_legal {
        true => Some(vec![graph.to_graph()]),
        false => change.as_ref().map(|answer| answer.change.descriptions()),
    };
    let verdict = decision.report.verdict(GraphLabel::Number(0), decision.engine().map(Engine::name));
    let verdict = Verdict { missing: decision.missing(), ..verdict.with_remedy(&remedy) };
    Answer { verdict, text, fixed: fixed.filter(|_| options.fix.is_some()) }
}

/// That a graph runs which the surfaces asked refuse, where no edit helps there.
fn elsewhere(refused: &Decision, graph: &Arc<FinalizedGraph>) -> Option<String> {
    if refused.engine().is_some() {
        return None;
    }
    let decision = engine::decide(graph, refused.report.capability, &SurfaceId::ALL);
    match (decision.engine(), engine::remedy(graph, &decision.report).run) {
        (Some(_), _) => Some(format!("without --surface it {}", decision.verdict_line())),
        (None, Some(answer)) => Some(format!("to run here, without --surface: {}", answer.change.sentence())),
        (None, None) => None,
    }
}

fn malformed(error: String) -> Answer {
    let verdict = Verdict::malformed(GraphLabel::Number(0), error);
    Answer { verdict, text: Vec::new(), fixed: None }
}

impl Answer {
    fn with_arch(self, arch: Option<String>) -> Self {
        Self { verdict: Verdict { arch, ..self.verdict }, ..self }
    }
}

/// The file of `--fix`: every graph that is legal, as it is or as it was changed, a line each; a lone graph is indented.
struct Fix {
    file: ResultFile,
    place: String,
    graphs: Vec<Graph>,
    /// Graphs that no known change helps, by number.
    left_out: usize,
}

impl Fix {
    /// # Errors
    /// [`Error::Input`] where several chips are asked about, where the file is one of those that are read, and where it cannot be made.
    fn create(path: &Path, options: &CheckOptions) -> Result<Self> {
        if options.capabilities.len() > 1 {
            return Err(Error::input("--fix", "changes are for one chip, so --arch names one").into());
        }
        let is_same = |other: &PathBuf| matches!((path.canonicalize(), other.canonicalize()), (Ok(one), Ok(other)) if one == other);
        if options.files.iter().any(is_same) {
            return Err(Error::input(plain::path(path), "is read, too: name another file for --fix").into());
        }
        Ok(Self {
            file: ResultFile::create(path)?,
            place: plain::path(path).to_string(),
            graphs: Vec::new(),
            left_out: 0,
        })
    }

    /// Whether there is something to write of a graph.
    fn add(&mut self, document: &GraphDocument, fixed: Option<Vec<Graph>>) -> bool {
        let Some(graphs) = fixed else {
            self.left_out += 1;
            return false;
        };
        let count = graphs.len();
        for (number, mut graph) in graphs.into_iter().enumerate() {
            // names of a file are unique, or numbers stand for them
            graph.name = if count == 1 { document.name.clone() } else { format!("{}.{}", document.name, number + 1) };
            self.graphs.push(graph);
        }
        true
    }

    /// Writes the file, unless there is nothing to write: what lay there then stays.
    fn write(self, console: &Console) -> Result<()> {
        if self.graphs.is_empty() {
            console.warn(format_args!("{}: not written, as no change is known for any graph", self.place));
            return Ok(());
        }
        let text = match self.graphs.as_slice() {
            [one] => frontend::write_v2(one),
            all => all.iter().map(|graph| one_line(&frontend::write_v2(graph))).collect(),
        };
        if self.left_out > 0 {
            let count = units::plural(self.left_out, "graph");
            console.warn(format_args!("{}: without {count} for which no change is known", self.place));
        }
        let count = units::plural(self.graphs.len(), "graph");
        self.file.write(text.as_bytes())?;
        console.say_done(format_args!("{}: {count} written, all of them legal", self.place));
        Ok(())
    }
}

/// JSON on one line.
fn one_line(json: &str) -> String {
    let value: serde_json::Value = serde_json::from_str(json).unwrap_or_default();
    format!("{value}\n")
}

fn print(
    file: &str,
    document: &GraphDocument,
    is_named: bool,
    answer: Answer,
    format: Format,
    console: &mut Console,
) -> Result<()> {
    if format == Format::Json {
        let graph = match is_named {
            true => GraphLabel::Name(document.name.clone()),
            false => GraphLabel::Number(document.number as u64),
        };
        let verdict = Verdict { graph, ..answer.verdict };
        let (number, line, warnings) = (document.number, document.first_line, document.warnings.as_slice());
        return Ok(console.json(&Record { verdict, file, number, line, warnings })?);
    }
    if let Some(error) = &answer.verdict.error {
        let word = console.paint(Style::Bad, "malformed");
        return Ok(console.line(format_args!("{error}\n  {word}"))?);
    }
    let style = if answer.verdict.status == VerdictStatus::Supported { Style::Good } else { Style::Refused };
    let place = files::place(Path::new(file), document);
    let (first, others) = answer.text.split_first().map_or(("", &[][..]), |(first, others)| (first.as_str(), others));
    let verdict = console.paint(style, first);
    console.line(format_args!("{place}\n  {verdict}"))?;
    for line in others {
        console.line(format_args!("  {line}"))?;
    }
    for warning in &document.warnings {
        console.line(format_args!("  warning: {warning}"))?;
    }
    Ok(())
}

impl Tally {
    fn add(&mut self, status: VerdictStatus, is_fixed: bool, console: &mut Console) {
        let (count, outcome) = match status {
            VerdictStatus::Supported => (&mut self.supported, Outcome::Done),
            VerdictStatus::NotSupported if is_fixed => (&mut self.not_supported, Outcome::Done),
            VerdictStatus::NotSupported => (&mut self.not_supported, Outcome::Refused),
            VerdictStatus::Malformed => (&mut self.malformed, Outcome::BadInput),
        };
        *count += 1;
        console.note_outcome(outcome);
    }

    fn text(&self) -> String {
        let Self { supported, not_supported, malformed } = self;
        let count = units::plural(supported + not_supported + malformed, "verdict");
        format!("{count}: {supported} supported, {not_supported} not supported, {malformed} malformed")
    }
}
