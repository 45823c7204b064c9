//! `fusewright check`: a verdict for every graph.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use fusewright::device::ComputeCapability;
use fusewright::engine::{self, Decision, Engine};
use fusewright::error::Error;
use fusewright::frontend::GraphDocument;
use fusewright::support::{self, Change, GraphLabel, SurfaceId, Verdict, VerdictStatus};
use rayon::prelude::*;
use serde::Serialize;

use super::arguments::{CheckOptions, Format};
use super::console::{Console, Style};
use super::files::{self, Documents};
use super::outcome::{Outcome, Result};
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
    /// The report for people; empty for malformed graphs.
    text: String,
}

/// How many graphs had which verdict.
#[derive(Default)]
struct Tally {
    supported: usize,
    not_supported: usize,
    malformed: usize,
}

pub(super) fn run(options: &CheckOptions, console: &mut Console) -> Result<()> {
    let mut tally = Tally::default();
    files::each_file(&options.files, console, |path, console| {
        let done = check_file(path, options, &mut tally, console);
        console.survive(done)
    })?;
    if options.format == Format::Text {
        console.line(tally.text())?;
    }
    Ok(())
}

fn check_file(path: &Path, options: &CheckOptions, tally: &mut Tally, console: &mut Console) -> Result<()> {
    let mut documents = Documents::open(path, options.graph.as_ref())?;
    let file = path.display().to_string();
    let mut names = HashSet::new();
    loop {
        let batch: Vec<GraphDocument> = documents.by_ref().take(BATCH).collect();
        if batch.is_empty() {
            break;
        }
        let answers: Vec<Vec<Answer>> = batch.par_iter().map(|document| answer(&file, document, options)).collect();
        for (document, answers) in batch.iter().zip(answers) {
            let is_named = names.insert(document.name.clone());
            for answer in answers {
                tally.add(answer.verdict.status, console);
                print(&file, document, is_named, answer, options.format, console)?;
            }
        }
    }
    documents.remarks().iter().for_each(|remark| console.warn(format_args!("{}: {remark}", plain::path(path))));
    Ok(())
}

/// The verdicts of a graph, one for each capability asked; a malformed graph has one in all.
fn answer(file: &str, document: &GraphDocument, options: &CheckOptions) -> Vec<Answer> {
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
    let surfaces = if options.surfaces.is_empty() { &SurfaceId::ALL } else { options.surfaces.as_slice() };
    let capabilities = match options.capabilities.as_slice() {
        [] => &[ComputeCapability::SM_90],
        capabilities => capabilities,
    };
    let decide = |&capability| {
        let decision = engine::decide(&graph, capability, surfaces);
        let arch = (capabilities.len() > 1).then(|| capability.to_string());
        let engine = decision.engine().map(Engine::name);
        let change = support::nearest_change(&graph, &decision.report);
        let text = text(&decision, change.as_ref());
        let nearest = change.map(|change| change.description);
        let verdict = Verdict { arch, nearest, ..decision.report.verdict(GraphLabel::Number(0), engine) };
        Answer { verdict, text }
    };
    capabilities.iter().map(decide).collect()
}

fn malformed(error: String) -> Answer {
    let verdict = Verdict::malformed(GraphLabel::Number(0), error);
    Answer { verdict, text: String::new() }
}

/// The report, and which engine takes the graph, or what would make it legal.
fn text(decision: &Decision, change: Option<&Change>) -> String {
    let engine = match decision.engine() {
        Some(engine) => format!("\nengine {}", engine.name()),
        None if decision.report.supported.is_some() => {
            let reasons: Vec<String> = decision.passed_over.iter().map(ToString::to_string).collect();
            format!("\nno engine takes it yet: {}", reasons.join("; "))
        }
        None => String::new(),
    };
    let nearest = match change {
        Some(Change { description, surface, .. }) => {
            format!("\nnearest legal change, with which surface {surface} holds: {description}")
        }
        None => String::new(),
    };
    format!("{}{engine}{nearest}", decision.report)
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
    let mut lines = answer.text.lines();
    let verdict = console.paint(style, lines.next().unwrap_or_default());
    console.line(format_args!("{place}\n  {verdict}"))?;
    for line in lines {
        console.line(format_args!("  {line}"))?;
    }
    for warning in &document.warnings {
        console.line(format_args!("  warning: {warning}"))?;
    }
    Ok(())
}

impl Tally {
    fn add(&mut self, status: VerdictStatus, console: &mut Console) {
        let (count, outcome) = match status {
            VerdictStatus::Supported => (&mut self.supported, Outcome::Done),
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
