//! What there is to explain of a graph on a chip, as one value: [`super::explain`] prints it, [`super::page`] draws it.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fusewright::build::Build;
use fusewright::device::Device;
use fusewright::engine::{
    self, Decision, ENGINES, Engine, EngineConfig, Floor, HeuristicMode, Heuristics, Knob, RankedConfig, Selection,
    core_type, knob_values,
};
use fusewright::error::{Error, Refusal};
use fusewright::fusion::{Fusion, fuse};
use fusewright::graph::{DataType, FinalizedGraph, OperationId};
use fusewright::support::{Remedy, Report, SurfaceId};
use fusewright::tuning::{TuningEntry, TuningStore};

use super::units;

/// A graph, the verdict, and what runs it.
pub(super) struct Explanation {
    pub(super) graph: Arc<FinalizedGraph>,
    /// The author's names of its tensors, in canonical order.
    pub(super) names: Vec<String>,
    /// How it is cut, or why it cannot be.
    pub(super) fusion: Result<Fusion, String>,
    pub(super) report: Report,
    /// The smallest changes that would make a refused graph run, as sentences.
    pub(super) nearest: Vec<String>,
    /// Operations that no engine executes yet: of such a graph no rule is told.
    pub(super) missing: Vec<String>,
    /// Whether the graph runs, and all that keeps it from running or surfaces from holding, a line each.
    pub(super) verdict: Vec<String>,
    /// Why engines did not take it, in the order in which they were asked.
    pub(super) passed_over: Vec<Refusal>,
    /// What runs it; `None` where it is refused.
    pub(super) kernel: Option<KernelExplanation>,
    pub(super) floor: Floor,
    /// Type of the core's operands; `None` without a core.
    pub(super) core_type: Option<DataType>,
    /// The device that times are of.
    pub(super) device: Device,
}

/// An engine with its configs, and the kernel of the first.
pub(super) struct KernelExplanation {
    /// The first engine that takes the graph.
    pub(super) chosen: &'static dyn Engine,
    /// The engine whose configs these are, where the mode asks another.
    pub(super) fallback: Option<&'static dyn Engine>,
    /// Engines after the chosen one, which were not asked.
    pub(super) not_asked: Vec<&'static str>,
    pub(super) mode: HeuristicMode,
    /// The mode's configs, best first; at least one.
    pub(super) ranking: Vec<RankedConfig>,
    /// What was measured on devices of the chip.
    pub(super) tuned: Vec<TuningEntry>,
    /// The kernel of the first config.
    pub(super) build: Build,
}

/// How far an expected time is from the floor.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Distance {
    /// The floor, in seconds.
    pub(super) floor: f64,
    /// Part of the floor by which the time is longer; negative where it is shorter.
    pub(super) above: f64,
}

impl Explanation {
    /// Decides about a graph, and lowers it in the mode's first config.
    ///
    /// # Errors
    /// As [`Build::new`]; none for a refused graph.
    pub(super) fn of(graph: Arc<FinalizedGraph>, device: &Device, mode: HeuristicMode) -> Result<Self, Error> {
        let decision = engine::decide(&graph, device.capability, &SurfaceId::ALL);
        let nearest = nearest(&graph, &decision);
        let missing = decision.missing();
        let verdict = [vec![decision.verdict_line()], decision.details(missing.is_empty())].concat();
        let (report, passed_over) = (decision.report.clone(), decision.passed_over.clone());
        let selection = decision.into_selection().ok();
        let kernel = selection.map(|selection| KernelExplanation::of(selection, device, mode)).transpose()?;
        Ok(Self {
            names: graph.author_names(),
            fusion: fuse(Arc::clone(&graph)).map_err(|misfit| misfit.to_string()),
            report,
            verdict,
            missing,
            nearest,
            passed_over,
            kernel,
            floor: Floor::of(&graph),
            core_type: core_type(&graph),
            device: device.clone(),
            graph,
        })
    }

    /// Name of an operation's stage; `?` where the graph cannot be cut.
    pub(super) fn stage(&self, id: OperationId) -> &'static str {
        self.fusion.as_ref().map_or("?", |fusion| fusion.stage(id).name())
    }

    /// The floor's time, in seconds.
    pub(super) fn floor_seconds(&self) -> f64 {
        self.floor.seconds(&self.device, self.core_type)
    }

    /// How far a config's expected time is from the floor.
    pub(super) fn distance(&self, ranked: &RankedConfig) -> Distance {
        let floor = self.floor_seconds();
        Distance { floor, above: ranked.estimated_us * 1e-6 / floor - 1.0 }
    }
}

/// What would make a refused graph run and a surface hold, a sentence for each way.
fn nearest(graph: &Arc<FinalizedGraph>, decision: &Decision) -> Vec<String> {
    let remedy = match decision.engine() {
        None => engine::remedy(graph, &decision.report),
        Some(_) if decision.report.surface().is_none() => {
            Remedy { run: None, hold: engine::to_hold(graph, &decision.report) }
        }
        Some(_) => Remedy::default(),
    };
    remedy.lines()
}

impl KernelExplanation {
    fn of(selection: Selection, device: &Device, mode: HeuristicMode) -> Result<Self, Error> {
        let chosen = selection.engine();
        let graph = Arc::clone(selection.supported().graph());
        let later = ENGINES.iter().skip_while(|engine| engine.name() != chosen.name()).skip(1);
        let later = later.filter(|engine| engine.concerns(&graph));
        let Heuristics { selection, configs: ranking } = Heuristics::of(selection, device, mode);
        let fallback = Some(selection.engine()).filter(|engine| engine.name() != chosen.name());
        let build = match ranking.first() {
            Some(first) => Build::new(&selection, first.config.clone(), device)?,
            None => Build::first(&selection, device)?,
        };
        Ok(Self {
            chosen,
            fallback,
            not_asked: later.map(|engine| engine.name()).collect(),
            mode,
            ranking,
            tuned: tuned(&selection),
            build,
        })
    }

    /// The config that was lowered, with what the engine's model expects of it.
    pub(super) fn first(&self) -> &RankedConfig {
        &self.ranking[0]
    }

    /// Knobs with the values that they take in the ranking.
    pub(super) fn knobs(&self) -> BTreeMap<Knob, BTreeSet<u32>> {
        knob_values(&self.ranking)
    }

    /// What was measured of a config.
    pub(super) fn measured(&self, config: &EngineConfig) -> impl Iterator<Item = &TuningEntry> {
        let text = config.to_string();
        self.tuned.iter().filter(move |entry| entry.config == text)
    }

    /// Why the first config is first, sentence by sentence: what bounds it in the engine's model, and how its tiles fill the device.
    pub(super) fn why(&self, distance: Distance) -> Vec<String> {
        let first = self.first();
        let mut sentences = Vec::new();
        let time = |us: f64| units::seconds(us * 1e-6);
        let parts = first.estimate.parts();
        if let Some((longest, others)) = parts.split_first() {
            let (name, part, total) = (longest.bound.name(), time(longest.time), time(first.estimated_us));
            let others: Vec<String> =
                others.iter().map(|term| format!("{} {}", term.bound.name(), time(term.time))).collect();
            let beside = if others.is_empty() { String::new() } else { format!("; on top {}", others.join(", ")) };
            sentences.push(format!("bound by {name}: {part} of the {total} expected{beside}"));
        }
        if let Some(waves) = first.estimate.waves {
            let count = units::plural(waves.count as usize, "wave");
            sentences
                .push(format!("{count} of tiles, {:.0} % of the multiprocessors' turns used", waves.filled * 100.0));
        }
        sentences.push(distance.text());
        if let Some(second) = self.ranking.get(1) {
            let slower = second.estimated_us / first.estimated_us - 1.0;
            sentences.push(match slower < 0.0 {
                true => {
                    format!("it serves many shapes; the next config is expected to take {:.1} % less", -slower * 100.0)
                }
                false => format!("the next config is expected to take {}", longer(slower)),
            });
        }
        sentences
    }
}

impl Distance {
    /// `6 % above the floor of 27.8 µs`.
    pub(super) fn text(self) -> String {
        let floor = units::seconds(self.floor);
        let percent = self.above * 100.0;
        match percent.round().total_cmp(&0.0) {
            Ordering::Greater if self.above >= 9.0 => format!("{:.0} times the floor of {floor}", self.above + 1.0),
            Ordering::Greater => format!("{percent:.0} % above the floor of {floor}"),
            Ordering::Less => format!("{:.0} % below the floor of {floor}: models are coarse", -percent),
            Ordering::Equal => format!("at the floor of {floor}"),
        }
    }
}

/// `3 % longer`, `as long`.
fn longer(part: f64) -> String {
    let percent = part * 100.0;
    if percent < 0.5 { "as long".to_owned() } else { format!("{percent:.0} % longer") }
}

/// What was found by tuning the graph on devices of the chip asked about; nothing where the cache cannot be read.
fn tuned(selection: &Selection) -> Vec<TuningEntry> {
    let (supported, engine) = (selection.supported(), selection.engine().name());
    let stored = TuningStore::from_environment().entries().unwrap_or_default();
    let entries = stored.into_iter().filter_map(|stored| stored.content.ok());
    let is_asked = |entry: &TuningEntry| entry.key.is_of(supported.graph().key(), engine, supported.capability());
    entries.filter(is_asked).collect()
}
