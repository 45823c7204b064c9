//! A trace of every graph, for who wants to know what a program asks for and who computes it.
//!
//! `FUSEWRIGHT_CUDNN_TRACE` names a folder. Each graph is a file of frontend JSON there, named by its key, and `trace.jsonl` has a line
//! for each event (docs/cudnn-abi.md). Lines are written whole, so that processes share a folder.

use std::collections::HashSet;
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use fusewright::engine::{self, Engine};
use fusewright::frontend;
use fusewright::graph::FinalizedGraph;
use fusewright::support::{GraphLabel, SurfaceId};
use fusewright::tuning::Rivals;
use serde_json::{Value, json};

use super::handles;
use super::measure::Unmeasured;
use super::numbers::{FIRST_ENGINE, kind, name, status};
use super::pairs::{Pair, Subject};
use super::sides::{Half, Refusal, Side};

const VARIABLE: &str = "FUSEWRIGHT_CUDNN_TRACE";
const EVENTS: &str = "trace.jsonl";

static TRACE: LazyLock<Option<Trace>> = LazyLock::new(Trace::of_environment);

/// Where it is written.
struct Trace {
    folder: PathBuf,
    events: Mutex<File>,
    /// What was written already, of what is written once.
    seen: Mutex<HashSet<String>>,
}

impl Trace {
    #[expect(clippy::print_stderr, reason = "what was asked for is not done")]
    fn of_environment() -> Option<Self> {
        let folder = PathBuf::from(std::env::var_os(VARIABLE).filter(|folder| !folder.is_empty())?);
        match Self::open(&folder) {
            Ok(trace) => Some(trace),
            Err(error) => {
                eprintln!("fusewright: {VARIABLE}={}: {error}; nothing is traced", folder.display());
                None
            }
        }
    }

    fn open(folder: &Path) -> std::io::Result<Self> {
        std::fs::create_dir_all(folder)?;
        let events = OpenOptions::new().create(true).append(true).open(folder.join(EVENTS))?;
        Ok(Self { folder: folder.to_owned(), events: Mutex::new(events), seen: Mutex::default() })
    }

    /// Writes a line; a trace that cannot be written is no concern of the program.
    fn write(&self, event: &Value) {
        let line = format!("{event}\n");
        let _ = self.events.lock().unwrap_or_else(PoisonError::into_inner).write_all(line.as_bytes());
    }

    /// The same, once in this process.
    fn write_once(&self, event: &Value) -> bool {
        let is_new = self.seen.lock().unwrap_or_else(PoisonError::into_inner).insert(event.to_string());
        if is_new {
            self.write(event);
        }
        is_new
    }

    /// Writes a graph's file, unless it is there: beside it first, so that a reader sees all of it or nothing.
    fn write_graph(&self, graph: &FinalizedGraph) -> std::io::Result<()> {
        let path = self.folder.join(format!("{}.json", graph.key()));
        if path.exists() {
            return Ok(());
        }
        let unfinished = self.folder.join(format!(".{}-{}.part", graph.key(), std::process::id()));
        std::fs::write(&unfinished, frontend::write_v2(&graph.to_graph()))?;
        std::fs::rename(unfinished, path)
    }
}

/// Whether there is a trace.
pub(crate) fn is_on() -> bool {
    TRACE.is_some()
}

/// A graph was finalized, or refused by both sides.
pub(crate) fn graph(pair: &Pair, outcome: u32, refused: &[Refusal]) {
    let Some(trace) = &*TRACE else { return };
    let subject = pair.subject();
    let graph = subject.as_ref().and_then(|subject| subject.graph.as_ref());
    let mut event = json!({
        "event": "graph",
        "graph": graph.map(|graph| graph.key().to_string()),
        "cudnn": answer(pair, Side::Real, outcome, refused),
    });
    match graph {
        Some(graph) => {
            event["verdict"] = subject.as_ref().map_or(Value::Null, |subject| verdict(graph, subject));
        }
        None => event["fusewright"] = answer(pair, Side::Ours, outcome, refused),
    }
    if trace.write_once(&event)
        && let Some(graph) = graph
    {
        let _ = trace.write_graph(graph);
    }
}

/// What a side says: nothing where it goes on, else its status and reason.
fn answer(pair: &Pair, side: Side, outcome: u32, refused: &[Refusal]) -> Value {
    let refusal = refused.iter().find(|refusal| refusal.side == side).cloned();
    match refusal.or_else(|| pair.half(side).err()) {
        None => json!({"status": status::SUCCESS}),
        Some(refusal) if outcome == status::SUCCESS || refusal.status != status::SUCCESS => reason(&refusal),
        Some(_) => json!({"status": outcome}),
    }
}

fn reason(refusal: &Refusal) -> Value {
    json!({"status": refusal.status, "reason": refusal.text})
}

/// The verdict, as `fusewright check --format json` has it, on the device of the graph's handle; null where it has none.
fn verdict(graph: &Arc<FinalizedGraph>, subject: &Subject) -> Value {
    let Some(device) = handles::find_at(subject.handle).and_then(|handle| handle.device.clone()) else {
        return Value::Null;
    };
    let decision = engine::decide(graph, device.1.capability, &SurfaceId::ALL);
    let label = GraphLabel::Name(graph.key().to_string());
    let mut verdict = decision.report.verdict(label, decision.engine().map(Engine::name));
    verdict.missing = decision.missing();
    verdict.arch = Some(device.1.capability.to_string());
    serde_json::to_value(verdict).unwrap_or_default()
}

/// What an event is about.
fn event(name: &str, pair: &Pair) -> Value {
    let graph = pair.subject().and_then(|subject| Some(subject.graph.as_ref()?.key().to_string()));
    json!({"event": name, "graph": graph})
}

/// Heuristics have answered: how many configs each side has, and how many of ours come first.
pub(crate) fn heuristics(pair: &Pair, (ours, theirs): (usize, usize), ahead: usize) {
    let Some(trace) = &*TRACE else { return };
    let mut event = event("heuristics", pair);
    for (side, count) in [(Side::Ours, ours), (Side::Real, theirs)] {
        event[side.name()] = pair.half(side).map_or_else(|refusal| reason(&refusal), |_| json!({"configs": count}));
    }
    event["fusewright_first"] = json!(ahead);
    trace.write_once(&event);
}

/// Neither side has configs for a graph.
pub(crate) fn heuristics_refused(pair: &Pair, refused: &[Refusal]) {
    let Some(trace) = &*TRACE else { return };
    let mut event = event("heuristics", pair);
    for side in Side::BOTH {
        event[side.name()] = answer(pair, side, status::NOT_SUPPORTED, refused);
    }
    trace.write_once(&event);
}

/// Both sides were timed, now or earlier.
pub(crate) fn times(graph: &FinalizedGraph, times: &Result<Rivals, Unmeasured>, is_stored: bool) {
    let Some(trace) = &*TRACE else { return };
    let key = graph.key().to_string();
    trace.write_once(&match times {
        Ok(Rivals { ours_ms, theirs_ms }) => json!({
            "event": "measured", "graph": key, "fusewright_ms": ours_ms, "cudnn_ms": theirs_ms, "stored": is_stored,
        }),
        Err(Unmeasured::ForNow(reason) | Unmeasured::Ever(reason)) => {
            json!({"event": "unmeasured", "graph": key, "reason": reason})
        }
    });
}

/// A plan was built, or refused.
pub(crate) fn plan(pair: &Pair, outcome: u32, refused: &[Refusal]) {
    let Some(trace) = &*TRACE else { return };
    let mut event = event("plan", pair);
    match pair.counting() {
        Ok(half) if outcome == status::SUCCESS => {
            event["by"] = json!(half.side().name());
            event["engine"] = json!(engine_of_plan(&half).ok());
        }
        _ => {
            for refusal in refused {
                event[refusal.side.name()] = reason(refusal);
            }
        }
    }
    trace.write_once(&event);
}

/// A plan is executed for the first time.
pub(crate) fn execution(pair: &Pair, side: Side) {
    let Some(trace) = &*TRACE else { return };
    let mut event = event("execution", pair);
    event["by"] = json!(side.name());
    if let Ok(half) = pair.half(side) {
        event["engine"] = json!(engine_of_plan(&half).ok());
    }
    trace.write_once(&event);
}

/// The number of the engine of a plan, as programs know it.
fn engine_of_plan(plan: &Half) -> Result<i64, Refusal> {
    engine_of(&plan.referred(name::PLAN_CONFIG, kind::ENGINE_CONFIG)?)
}

/// The same of a config.
pub(crate) fn engine_of(config: &Half) -> Result<i64, Refusal> {
    let number = config.referred(name::CONFIG_ENGINE, kind::ENGINE)?.number(name::ENGINE_INDEX)?;
    Ok(if config.side() == Side::Ours { number + FIRST_ENGINE } else { number })
}
