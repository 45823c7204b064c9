//! Engines, their configs and knobs, heuristics.
//!
//! An engine's number ([`engine::Engine::id`]) stands for it for every graph; of a graph that it does not take, it cannot be
//! finalized.

use std::sync::{Arc, OnceLock};

use cudarc::cudnn::sys::cudnnBackendAttributeName_t as Name;
use cudarc::cudnn::sys::cudnnBackendBehaviorNote_t as BehaviorNote;
use cudarc::cudnn::sys::cudnnBackendDescriptorType_t as Kind;
use cudarc::cudnn::sys::cudnnBackendHeurMode_t as RawMode;
use cudarc::cudnn::sys::cudnnBackendNumericalNote_t as NumericalNote;

use super::descriptor::{Descriptor, Given, Object, Referred, Values};
use super::failure::{Failure, Result};
use super::graph::OperationGraph;
use super::translate::{self, Choice};
use crate::build::Build;
use crate::codegen::Source;
use crate::compile::Bundle;
use crate::device::Device;
use crate::engine::{self, ENGINES, EngineConfig, HeuristicMode, Heuristics as Answer, Knob, RankedConfig, Selection};
use crate::graph::greatest_common_divisor;
use crate::plan::WORKSPACE_ALIGNMENT;
use crate::tuning::TuningStore;

/// An engine for a graph on a device.
pub(super) struct Engine {
    pub(super) graph: Arc<OperationGraph>,
    pub(super) device: Arc<Device>,
    pub(super) selection: Arc<Selection>,
    /// Best first.
    configs: Vec<RankedConfig>,
    numerical_notes: OnceLock<Vec<u32>>,
}

/// A knob and what it is set to, if it is.
pub(super) struct KnobChoice {
    choice: Choice,
    value: Option<u32>,
}

/// The value of knobs that are left as they are: what the frontend in XLA (JAX 0.11) gives those of an engine that nobody chose.
const NOT_CHOSEN: i64 = -1;

/// The values that a knob of an engine takes for a graph lie among these.
pub(super) struct KnobInfo {
    choice: Choice,
    minimum: u32,
    maximum: u32,
    stride: u32,
}

/// An engine with values of all its knobs.
pub(super) struct Config {
    pub(super) engine: Arc<Engine>,
    pub(super) config: EngineConfig,
    /// Its kernel, once it was asked about.
    source: OnceLock<Source>,
}

impl Config {
    fn new(engine: Arc<Engine>, config: EngineConfig) -> Self {
        Self { engine, config, source: OnceLock::new() }
    }

    pub(super) fn source(&self) -> Result<&Source> {
        if let Some(source) = self.source.get() {
            return Ok(source);
        }
        let source = self.engine.source(&self.config)?;
        Ok(self.source.get_or_init(|| source))
    }
}

/// What a heuristic mode answers.
pub(super) struct Heuristics {
    results: Vec<Arc<Descriptor>>,
}

/// The device of a descriptor of properties, or else of the graph's handle.
fn device(given: &Given<'_>, properties: Name, graph: &OperationGraph) -> Result<Arc<Device>> {
    if let Some(properties) = given.descriptor(properties) {
        return properties.object();
    }
    let message = "no device is known: neither a handle of the graph nor device properties are set";
    let handle = graph.handle.as_ref().ok_or_else(|| Failure::bad(message))?;
    Ok(Arc::clone(handle.session.device()))
}

/// The first engine that takes a graph.
fn selected(graph: &OperationGraph, device: &Device) -> Result<Selection> {
    engine::select(graph.graph()?, device.capability).map_err(Failure::refused)
}

/// The engine of a number, where it takes the graph ([002 9.2.2]).
pub(super) fn engine(given: &Given<'_>) -> Result<Engine> {
    let graph: Arc<OperationGraph> = given.required(Name::CUDNN_ATTR_ENGINE_OPERATION_GRAPH)?.object()?;
    let number = given.int64(Name::CUDNN_ATTR_ENGINE_GLOBAL_INDEX).unwrap_or_default();
    let wanted = ENGINES.iter().find(|engine| engine.id() == number);
    let name = wanted.ok_or_else(|| Failure::unsupported(format!("no engine has the number {number}")))?;
    let device = device(given, Name::CUDNN_ATTR_ENGINE_DEVICEPROP, &graph)?;
    let refused = || Failure::unsupported(format!("engine {number} ({}) does not take the graph", name.name()));
    let selection = selected(&graph, &device)?.with_engine(name.name()).ok_or_else(refused)?;
    Engine::new(graph, device, selection)
}

impl Engine {
    /// An engine that has a config for the graph on the device.
    pub(super) fn new(graph: Arc<OperationGraph>, device: Arc<Device>, selection: Selection) -> Result<Self> {
        let configs = selection.candidates(&device);
        if configs.is_empty() {
            return Err(Failure::refused(Arc::new(selection.no_config_fits(&device))));
        }
        Ok(Self { graph, device, selection: Arc::new(selection), configs, numerical_notes: OnceLock::new() })
    }

    fn number(&self) -> i64 {
        self.selection.engine().id()
    }

    fn knob_infos(&self) -> Vec<Arc<Descriptor>> {
        let infos = engine::knob_values(&self.configs).into_iter().filter_map(|(knob, values)| {
            let (minimum, maximum) = (*values.first()?, *values.last()?);
            let stride = values.iter().fold(0, |stride, value| greatest_common_divisor(stride, value - minimum)).max(1);
            Some(KnobInfo { choice: Choice::Knob(knob), minimum, maximum, stride })
        });
        let last = u32::try_from(self.configs.len()).unwrap_or(u32::MAX).saturating_sub(1);
        let infos = infos.chain([KnobInfo { choice: Choice::Place, minimum: 0, maximum: last, stride: 1 }]);
        let finished =
            |info| Descriptor::finished(Kind::CUDNN_BACKEND_KNOB_INFO_DESCRIPTOR, Vec::new(), Arc::new(info));
        infos.map(finished).collect()
    }

    /// By the kernel of the best config. That FLOAT is multiplied as TF32 is meant by TENSOR_CORE, not by DOWN_CONVERT_INPUTS:
    /// PyTorch drops every config with the latter.
    fn notes_of_best(&self) -> Vec<u32> {
        let kernel = self.selection.lower(&self.configs[0].config, &self.device);
        let tensor_core = NumericalNote::CUDNN_NUMERICAL_NOTE_TENSOR_CORE as u32;
        kernel.uses_tensor_cores().then_some(tensor_core).into_iter().collect()
    }

    /// The source of the kernel of a config.
    fn source(&self, config: &EngineConfig) -> Result<Source> {
        let build = Build::new(&self.selection, config.clone(), &self.device);
        Ok(build.map_err(|error| Failure::of_build(&error))?.source)
    }
}

impl Object for Engine {
    fn attribute(&self, name: Name) -> Result<Option<Values>> {
        Ok(Some(match name {
            Name::CUDNN_ATTR_ENGINE_KNOB_INFO => Values::Descriptors(self.knob_infos()),
            Name::CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE => Values::Enum(vec![
                BehaviorNote::CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION as u32,
                BehaviorNote::CUDNN_BEHAVIOR_NOTE_SUPPORTS_CUDA_GRAPH_NATIVE_API as u32,
            ]),
            Name::CUDNN_ATTR_ENGINE_NUMERICAL_NOTE => {
                Values::Enum(self.numerical_notes.get_or_init(|| self.notes_of_best()).clone())
            }
            Name::CUDNN_ATTR_ENGINE_LAYOUT_INFO => Values::Descriptors(Vec::new()),
            _ => return Ok(None),
        }))
    }
}

impl Referred for Engine {
    const WANTED: &'static str = "an engine descriptor";
}

impl Object for KnobInfo {
    fn attribute(&self, name: Name) -> Result<Option<Values>> {
        Ok(Some(match name {
            Name::CUDNN_ATTR_KNOB_INFO_TYPE => Values::Enum(vec![self.choice.number()]),
            Name::CUDNN_ATTR_KNOB_INFO_MINIMUM_VALUE => Values::Int64(vec![self.minimum.into()]),
            Name::CUDNN_ATTR_KNOB_INFO_MAXIMUM_VALUE => Values::Int64(vec![self.maximum.into()]),
            Name::CUDNN_ATTR_KNOB_INFO_STRIDE => Values::Int64(vec![self.stride.into()]),
            _ => return Ok(None),
        }))
    }
}

impl Object for KnobChoice {}

impl Referred for KnobChoice {
    const WANTED: &'static str = "a knob choice descriptor";
}

pub(super) fn knob_choice(given: &Given<'_>) -> Result<KnobChoice> {
    let number = given.enumerator(Name::CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE).unwrap_or(u32::MAX);
    let value = given.int64(Name::CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE).unwrap_or_default();
    let value = match value {
        NOT_CHOSEN => None,
        _ => Some(u32::try_from(value).map_err(|_| Failure::unsupported(format!("no knob has the value {value}")))?),
    };
    Ok(KnobChoice { choice: translate::choice(number)?, value })
}

/// The best config of an engine with the knobs chosen ([002 9.2.3]).
pub(super) fn config(given: &Given<'_>) -> Result<Config> {
    let engine: Arc<Engine> = given.required(Name::CUDNN_ATTR_ENGINECFG_ENGINE)?.object()?;
    let choices = given.descriptors(Name::CUDNN_ATTR_ENGINECFG_KNOB_CHOICES).iter();
    let choices: Vec<Arc<KnobChoice>> = choices.map(|choice| choice.object()).collect::<Result<_>>()?;
    let chosen: Vec<(Choice, u32)> = choices.iter().filter_map(|chosen| Some((chosen.choice, chosen.value?))).collect();
    let fits = |place: usize, config: &EngineConfig| {
        let of_knob = |knob: Knob| config.knobs.iter().find(|set| set.0 == knob).map(|set| set.1).or(knob.unset());
        chosen.iter().all(|&(choice, value)| match choice {
            Choice::Knob(knob) => of_knob(knob) == Some(value),
            Choice::Place => place == value as usize,
        })
    };
    let configs = engine.configs.iter().map(|ranked| &ranked.config).enumerate();
    let mut fitting: Vec<&EngineConfig> =
        configs.filter(|(place, config)| fits(*place, config)).map(|numbered| numbered.1).collect();
    // a config whose knobs are all chosen is meant itself, others by what they leave unset
    fitting.sort_by_key(|config| config.knobs.len() != chosen.len());
    let found = fitting.first().map(|&config| config.clone());
    let config = found.ok_or_else(|| {
        let texts: Vec<String> = chosen.iter().map(|(choice, value)| format!("{}={value}", choice.name())).collect();
        let name = engine.selection.engine().name();
        Failure::unsupported(format!("{name} has no config with {} for the graph", texts.join(" ")))
    })?;
    Ok(Config::new(engine, config))
}

impl Object for Config {
    fn attribute(&self, name: Name) -> Result<Option<Values>> {
        Ok(Some(match name {
            Name::CUDNN_ATTR_ENGINECFG_KNOB_CHOICES => Values::Descriptors(Vec::new()),
            Name::CUDNN_ATTR_ENGINECFG_WORKSPACE_SIZE => {
                Values::Int64(vec![reserved(self.source()?.workspace_bytes) as i64])
            }
            Name::CUDNN_ATTR_ENGINECFG_SHARED_MEMORY_USED => {
                let bytes = self.source()?.launches.iter().map(|launch| launch.shared_bytes).max().unwrap_or_default();
                Values::Int32(vec![bytes as i32])
            }
            _ => return Ok(None),
        }))
    }
}

impl Referred for Config {
    const WANTED: &'static str = "an engine config descriptor";
}

/// Bytes of workspace that callers give: room to align it, since they may not know how.
pub(super) fn reserved(bytes: u64) -> u64 {
    if bytes == 0 { 0 } else { bytes + WORKSPACE_ALIGNMENT }
}

/// The configs of a mode, best first ([002 9.2.4], B-08).
pub(super) fn heuristics(given: &Given<'_>) -> Result<Heuristics> {
    let graph: Arc<OperationGraph> = given.required(Name::CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH)?.object()?;
    let number = given.enumerator(Name::CUDNN_ATTR_ENGINEHEUR_MODE).unwrap_or(u32::MAX);
    let is = |mode: RawMode| mode as u32 == number;
    let mode = match () {
        () if is(RawMode::CUDNN_HEUR_MODE_A) || is(RawMode::CUDNN_HEUR_MODE_INSTANT) => HeuristicMode::A,
        () if is(RawMode::CUDNN_HEUR_MODE_B) => HeuristicMode::B,
        () if is(RawMode::CUDNN_HEUR_MODE_FALLBACK) => HeuristicMode::Fallback,
        () => return Err(Failure::bad(format!("{number} is no heuristic mode"))),
    };
    let device = device(given, Name::CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, &graph)?;
    let Answer { selection, mut configs } = Answer::of(selected(&graph, &device)?, &device, mode);
    // what needs no compiler comes first
    TuningStore::of_bundles(Bundle::of_environment()).put_bundled_first(&selection, &device, &mut configs);
    let in_full = selection.in_full_float(&device);
    let engine = Arc::new(Engine::new(Arc::clone(&graph), Arc::clone(&device), selection)?);
    let described_engine = described(&engine);
    let mut results: Vec<_> =
        configs.into_iter().map(|ranked| result(&engine, &described_engine, ranked.config)).collect();
    if let Some(selection) = in_full {
        // programs that forbid TF32 drop what has the note TENSOR_CORE, and ask nothing further
        let engine = Arc::new(Engine::new(graph, device, selection)?);
        results.push(result(&engine, &described(&engine), engine.configs[0].config.clone()));
    }
    Ok(Heuristics { results })
}

impl Object for Heuristics {
    fn attribute(&self, name: Name) -> Result<Option<Values>> {
        let are_results = name == Name::CUDNN_ATTR_ENGINEHEUR_RESULTS;
        Ok(are_results.then(|| Values::Descriptors(self.results.clone())))
    }
}

/// An engine's descriptor, as a caller would have made it.
pub(super) fn described(engine: &Arc<Engine>) -> Arc<Descriptor> {
    let graph = Arc::clone(&engine.graph);
    let graph = Descriptor::finished(Kind::CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, Vec::new(), graph);
    let values = vec![
        (Name::CUDNN_ATTR_ENGINE_OPERATION_GRAPH, Values::Descriptors(vec![graph])),
        (Name::CUDNN_ATTR_ENGINE_GLOBAL_INDEX, Values::Int64(vec![engine.number()])),
    ];
    Descriptor::finished(Kind::CUDNN_BACKEND_ENGINE_DESCRIPTOR, values, Arc::<Engine>::clone(engine))
}

pub(super) fn result(engine: &Arc<Engine>, described: &Arc<Descriptor>, config: EngineConfig) -> Arc<Descriptor> {
    let choices = config.knobs.iter().map(|&(knob, value)| {
        let values = vec![
            (Name::CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, Values::Enum(vec![Choice::Knob(knob).number()])),
            (Name::CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, Values::Int64(vec![value.into()])),
        ];
        let built = Arc::new(KnobChoice { choice: Choice::Knob(knob), value: Some(value) });
        Descriptor::finished(Kind::CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR, values, built)
    });
    let values = vec![
        (Name::CUDNN_ATTR_ENGINECFG_ENGINE, Values::Descriptors(vec![Arc::clone(described)])),
        (Name::CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, Values::Descriptors(choices.collect())),
    ];
    let built = Arc::new(Config::new(Arc::clone(engine), config));
    Descriptor::finished(Kind::CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, values, built)
}
