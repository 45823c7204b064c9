//! The page of explanations: an index of verdicts, then a section for each graph.

use std::collections::BTreeSet;

use fusewright::engine::{Knob, RankedConfig};
use fusewright::error::Error;
use fusewright::support::{Report, SurfaceId, Violation};
use serde::Serialize;

use super::super::explanation::{Explanation, KernelExplanation};
use super::super::units;
use super::drawing::{Drawing, function};
use super::highlight::highlighted;
use super::render::render;
use super::roofline::Roofline;

/// Graphs up to which a page holds the text of every kernel.
const SOURCES: usize = 32;

/// Configs that are shown at once; the others are folded away.
const FEW: usize = 5;

/// A graph of a file, in the order of the file.
pub(in crate::cli) struct Entry {
    /// Its number in the file, from 1.
    pub(in crate::cli) number: usize,
    pub(in crate::cli) name: String,
    /// What is explained, or what is wrong with a graph that is not well formed.
    pub(in crate::cli) content: Result<Explanation, String>,
}

/// The page of a file's graphs.
///
/// # Errors
/// [`Error::Generated`] if a template fails: a defect of ours.
pub(in crate::cli) fn explanation_page(file: &str, device: &str, entries: &[Entry]) -> Result<String, Error> {
    let graphs: Vec<Graph> = entries.iter().map(|entry| Graph::of(entry, entries.len() <= SOURCES)).collect();
    let counted = |status: Status| graphs.iter().filter(|graph| graph.status == status).count();
    let counts: Vec<Count> = [Status::Runs, Status::Beyond, Status::Refused, Status::Malformed]
        .into_iter()
        .map(|status| (status, counted(status)))
        .filter(|(_, count)| *count > 0)
        .map(|(status, count)| Count { class: status.class(), text: format!("{}: {count}", status.text()) })
        .collect();
    let is_alone = graphs.len() == 1;
    render("explain.html", &Page { title: file, device, is_alone, counts, graphs })
}

#[derive(Serialize)]
struct Page<'a> {
    title: &'a str,
    device: &'a str,
    is_alone: bool,
    counts: Vec<Count>,
    graphs: Vec<Graph>,
}

/// How many graphs have a verdict.
#[derive(Serialize)]
struct Count {
    class: &'static str,
    text: String,
}

/// The verdict of a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Status {
    Runs,
    Beyond,
    Refused,
    Malformed,
}

impl Status {
    fn class(self) -> &'static str {
        match self {
            Self::Runs => "runs",
            Self::Beyond => "beyond",
            Self::Refused => "refused",
            Self::Malformed => "malformed",
        }
    }

    fn text(self) -> &'static str {
        match self {
            Self::Runs => "runs",
            Self::Beyond => "runs here, beyond cuDNN's surfaces",
            Self::Refused => "does not run",
            Self::Malformed => "malformed",
        }
    }

    /// Told apart without colour, too.
    fn sign(self) -> &'static str {
        match self {
            Self::Runs => "✓",
            Self::Beyond => "✓+",
            Self::Refused => "✕",
            Self::Malformed => "!",
        }
    }
}

/// What the template of a graph reads.
#[derive(Serialize)]
struct Graph {
    number: usize,
    name: String,
    #[serde(skip)]
    status: Status,
    class: &'static str,
    sign: &'static str,
    verdict: &'static str,
    engine: &'static str,
    expected: String,
    distance: String,
    /// What a search finds it by.
    text: String,
    error: Option<String>,
    explained: Option<Explained>,
}

impl Graph {
    fn of(entry: &Entry, with_source: bool) -> Self {
        let kernel =
            entry.content.as_ref().ok().and_then(|explanation| Some((explanation, explanation.kernel.as_ref()?)));
        let status = match (&entry.content, &kernel) {
            (Err(_), _) => Status::Malformed,
            (Ok(_), None) => Status::Refused,
            (Ok(explanation), Some(_)) if explanation.report.relaxed().is_empty() => Status::Runs,
            (Ok(_), Some(_)) => Status::Beyond,
        };
        let expected = kernel.map(|(explanation, kernel)| {
            let first = kernel.first();
            (units::seconds(first.estimated_us * 1e-6), explanation.distance(first).text())
        });
        let (expected, distance) = expected.unwrap_or_default();
        let name = entry.name.escape_debug().to_string();
        let engine = kernel.map_or("", |(_, kernel)| kernel.build.config.engine);
        let functions: BTreeSet<String> = match &entry.content {
            Ok(Explanation { graph, .. }) => graph.operation_ids().map(|id| function(graph, id)).collect(),
            Err(_) => BTreeSet::new(),
        };
        let words = [&name, status.text(), status.class(), engine].map(str::to_owned);
        let text: Vec<String> = words.into_iter().chain(functions).collect();
        Self {
            number: entry.number,
            name,
            status,
            class: status.class(),
            sign: status.sign(),
            verdict: status.text(),
            engine,
            text: text.join(" "),
            expected,
            distance,
            error: entry.content.as_ref().err().cloned(),
            explained: entry.content.as_ref().ok().map(|explanation| Explained::of(explanation, with_source)),
        }
    }
}

#[derive(Serialize)]
struct Explained {
    /// Broken rules of the whole graph.
    whole: Vec<String>,
    nearest: Vec<String>,
    drawing: Option<Drawing>,
    /// Operations, said where there is no drawing.
    operations: usize,
    form: String,
    stages: Vec<StageRow>,
    /// The surface that holds, or what is relaxed.
    held: String,
    rules: Vec<RuleRow>,
    notes: Vec<String>,
    engines: Vec<EngineRow>,
    floor: Vec<String>,
    kernel: Option<Kernel>,
}

#[derive(Serialize)]
struct StageRow {
    stage: &'static str,
    class: &'static str,
    text: String,
}

/// A broken rule; surfaces that say the same of the same place share a row.
#[derive(Serialize)]
struct RuleRow {
    rule: String,
    place: String,
    required: String,
    found: String,
}

#[derive(Serialize)]
struct EngineRow {
    name: &'static str,
    /// `chosen`, `refused` or `idle`.
    class: &'static str,
    text: String,
}

#[derive(Serialize)]
struct Kernel {
    mode: String,
    why: Vec<String>,
    parts: Vec<PartRow>,
    configs: Vec<ConfigRow>,
    more: Vec<ConfigRow>,
    knobs: Vec<KnobRow>,
    tuned: Vec<String>,
    has_measured: bool,
    roofline: Option<Roofline>,
    config: String,
    launches: Vec<LaunchRow>,
    workspace: String,
    lines: usize,
    /// HTML.
    source: Option<String>,
}

/// A term of the expected time.
#[derive(Serialize)]
struct PartRow {
    name: &'static str,
    time: String,
    percent: i64,
}

#[derive(Serialize)]
struct ConfigRow {
    expected: String,
    measured: String,
    /// Of the longest bar.
    percent: i64,
    bound: &'static str,
    config: String,
    workspace: String,
}

#[derive(Serialize)]
struct KnobRow {
    name: &'static str,
    values: String,
    summary: &'static str,
}

#[derive(Serialize)]
struct LaunchRow {
    function: String,
    grid: String,
    block: String,
    shared: String,
}

impl Explained {
    fn of(explanation: &Explanation, with_source: bool) -> Self {
        let Explanation { graph, names, report, floor, device, .. } = explanation;
        let form = match &explanation.fusion {
            Ok(fusion) if explanation.core_type.is_some() => fusion.pattern().form().to_owned(),
            Ok(_) => "no matmul or convolution: every operation is in the epilogue, g2".to_owned(),
            Err(misfit) => misfit.clone(),
        };
        let stage = |id| StageRow {
            stage: explanation.stage(id),
            class: class(explanation.stage(id)),
            text: graph.named_operation(id, names),
        };
        let inputs = graph.tensor_ids().filter(|&id| graph.producer(id).is_none());
        let input = |id: fusewright::graph::TensorId| StageRow {
            stage: "",
            class: "input",
            text: format!("{} {}", names[id.index()], graph.named_tensor(id, names)),
        };
        let seconds = units::seconds(explanation.floor_seconds());
        let bandwidth = units::count(device.bytes_per_second, "B/s");
        let mut least = vec![format!("{} moved ({} bytes)", units::bytes(floor.bytes), floor.bytes)];
        least.extend(explanation.core_type.map(|_| units::count(floor.flops as f64, "FLOP")));
        least.push(format!("{seconds} on {} ({}, {bandwidth})", device.name, device.capability));
        Self {
            whole: whole(explanation),
            nearest: explanation.nearest.clone(),
            drawing: Drawing::of(explanation),
            operations: graph.operations().len(),
            form,
            stages: inputs.map(input).chain(graph.operation_ids().map(stage)).collect(),
            held: held(report),
            rules: if explanation.missing.is_empty() { rules(report) } else { Vec::new() },
            notes: report.notes.clone(),
            engines: engines(explanation),
            floor: least,
            kernel: explanation.kernel.as_ref().map(|kernel| Kernel::of(explanation, kernel, with_source)),
        }
    }
}

/// Class of a stage's colour.
fn class(stage: &str) -> &'static str {
    match stage {
        "g1A" | "g1B" => "g1",
        "core" => "core",
        "g2" => "g2",
        _ => "unknown",
    }
}

/// What the whole graph breaks, each rule once; only of a graph that does not run.
fn whole(explanation: &Explanation) -> Vec<String> {
    if !explanation.missing.is_empty() {
        return explanation.verdict.first().cloned().into_iter().collect();
    }
    let violations = explanation.report.violations().filter(|_| explanation.kernel.is_none());
    let of_graph = violations.filter(|violation| violation.operation().is_none() && violation.tensor().is_none());
    let sentences: BTreeSet<String> =
        of_graph.map(|violation| format!("required {}; found {}", violation.required, violation.found)).collect();
    sentences.into_iter().collect()
}

/// Which surface holds, in a sentence.
fn held(report: &Report) -> String {
    match report.surface() {
        Some(surface) => format!("Surface {surface} holds as documented."),
        None if report.supported.is_some() => {
            let relaxed: Vec<&str> = report.relaxed().iter().map(|rule| rule.id).collect();
            format!("No surface holds as documented; the engine does without {}.", relaxed.join(", "))
        }
        None => "No surface holds.".to_owned(),
    }
}

fn rules(report: &Report) -> Vec<RuleRow> {
    let mut rows: Vec<(RuleRow, Vec<SurfaceId>)> = Vec::new();
    for Violation { surface, rule, place, required, found, .. } in report.violations() {
        let own = format!("S{surface}-");
        let name = rule.id.strip_prefix(&own).unwrap_or(rule.id);
        let is_same = |(row, _): &&mut (RuleRow, _)| {
            row.rule == name && row.place == *place && row.required == *required && row.found == *found
        };
        match rows.iter_mut().find(is_same) {
            Some((_, surfaces)) => surfaces.push(*surface),
            None => {
                let (required, found) = (required.clone(), found.clone());
                rows.push((RuleRow { rule: name.to_owned(), place: place.clone(), required, found }, vec![*surface]));
            }
        }
    }
    let named = |(row, surfaces): (RuleRow, Vec<SurfaceId>)| {
        let surfaces: Vec<String> = surfaces.iter().map(SurfaceId::to_string).collect();
        RuleRow { rule: format!("{} ({})", row.rule, surfaces.join(", ")), ..row }
    };
    rows.into_iter().map(named).collect()
}

fn engines(explanation: &Explanation) -> Vec<EngineRow> {
    let refused = |refusal: &fusewright::error::Refusal| EngineRow {
        name: refusal.engine,
        class: "refused",
        text: refusal.reason.to_string(),
    };
    let mut rows: Vec<EngineRow> = explanation.passed_over.iter().map(refused).collect();
    if let Some(kernel) = &explanation.kernel {
        let (name, text) = (kernel.chosen.name(), kernel.chosen.summary().to_owned());
        rows.push(EngineRow { name, class: "chosen", text });
        let idle = |&name: &&'static str| {
            let is_fallback = kernel.fallback.is_some_and(|engine| engine.name() == name);
            let text =
                if is_fallback { "asked for by the mode" } else { "not asked: the first that takes a graph runs it" };
            EngineRow { name, class: if is_fallback { "chosen" } else { "idle" }, text: text.to_owned() }
        };
        rows.extend(kernel.not_asked.iter().map(idle));
    }
    rows
}

impl Kernel {
    fn of(explanation: &Explanation, kernel: &KernelExplanation, with_source: bool) -> Self {
        let first = kernel.first();
        let slowest = kernel.ranking.iter().map(|ranked| ranked.estimated_us).fold(0.0, f64::max);
        let config = |ranked: &RankedConfig| {
            let measured: Vec<String> = kernel
                .measured(&ranked.config)
                .map(|entry| format!("{} on {}", units::seconds(entry.median_ms * 1e-3), entry.key.device()))
                .collect();
            ConfigRow {
                expected: units::seconds(ranked.estimated_us * 1e-6),
                measured: measured.join(", "),
                percent: (ranked.estimated_us / slowest * 100.0).round() as i64,
                bound: ranked.estimate.longest().map_or("", |term| term.bound.name()),
                config: ranked.config.to_string(),
                workspace: ranked.through_workspace.clone().unwrap_or_default(),
            }
        };
        let mut configs: Vec<ConfigRow> = kernel.ranking.iter().map(config).collect();
        let more = configs.split_off(configs.len().min(FEW));
        let knob = |(knob, values): (Knob, BTreeSet<u32>)| KnobRow {
            name: knob.name(),
            values: values.into_iter().map(|value| knob.value_text(value)).collect::<Vec<_>>().join(", "),
            summary: knob.summary(),
        };
        let part = |term: &fusewright::engine::Term| PartRow {
            name: term.bound.name(),
            time: units::seconds(term.time * 1e-6),
            percent: (term.time / first.estimated_us * 100.0).round() as i64,
        };
        let source = &kernel.build.source;
        let launch = |launch: &fusewright::kernel::Launch| LaunchRow {
            function: launch.function.clone(),
            grid: units::by(&launch.grid),
            block: units::by(&launch.block),
            shared: units::bytes(launch.shared_bytes.into()),
        };
        let tuned = |entry: &fusewright::tuning::TuningEntry| {
            let time = units::seconds(entry.median_ms * 1e-3);
            format!("{}: {} in {time}", entry.key.device(), entry.config)
        };
        Self {
            mode: kernel.mode.to_string(),
            why: kernel.why(explanation.distance(first)),
            parts: first.estimate.parts().iter().map(part).collect(),
            has_measured: configs.iter().chain(&more).any(|row| !row.measured.is_empty()),
            configs,
            more,
            knobs: kernel.knobs().into_iter().map(knob).collect(),
            tuned: kernel.tuned.iter().map(tuned).collect(),
            roofline: Roofline::of(explanation, kernel),
            config: kernel.build.config.to_string(),
            launches: source.launches.iter().map(launch).collect(),
            workspace: units::bytes(source.workspace_bytes),
            lines: source.text.lines().count(),
            source: with_source.then(|| highlighted(&source.text)),
        }
    }
}
