//! What engines say of a described graph.

use std::sync::Arc;

use cudarc::cudnn::sys::cudnnBackendAttributeName_t as Name;
use cudarc::cudnn::sys::cudnnBackendAttributeType_t as Type;
use cudarc::cudnn::sys::cudnnBackendDescriptorType_t as Kind;
use cudarc::cudnn::sys::cudnnBackendHeurMode_t as RawMode;

use super::caller::{Caller, Room};
use super::elements::{self, Elements, Pointer};
use super::texts;
use crate::device::Device;
use crate::engine::{HeuristicMode, Heuristics, Selection, select};
use crate::fuzz::choices::Choices;
use crate::fuzz::finding::{Finding, finding};
use crate::fuzz::targets::expect;
use crate::graph::FinalizedGraph;

/// Heuristic modes by their numbers; the last is none.
const MODES: [(u32, Option<HeuristicMode>); 5] = [
    (RawMode::CUDNN_HEUR_MODE_A as u32, Some(HeuristicMode::A)),
    (RawMode::CUDNN_HEUR_MODE_B as u32, Some(HeuristicMode::B)),
    (RawMode::CUDNN_HEUR_MODE_FALLBACK as u32, Some(HeuristicMode::Fallback)),
    (RawMode::CUDNN_HEUR_MODE_INSTANT as u32, Some(HeuristicMode::A)),
    (99, None),
];

const DESCRIPTORS: u32 = Type::CUDNN_TYPE_BACKEND_DESCRIPTOR as u32;

/// Most results of a list that are looked at.
const RESULTS: usize = 3;

/// Device properties and their descriptor.
pub(super) struct Properties {
    pub(super) device: Option<Device>,
    pub(super) described: Pointer,
}

/// A graph and its descriptor on a device.
pub(super) struct Stated {
    pub(super) graph: FinalizedGraph,
    /// Whether the descriptor says just that.
    pub(super) is_whole: bool,
    pub(super) described: Pointer,
    pub(super) device: Properties,
}

/// Asks heuristics, configs and engines about a graph; they say what the Rust API does. Gives whether an engine takes it.
///
/// # Errors
/// The first expectation that is not met.
pub(super) fn consult(caller: &mut Caller, choices: &mut Choices<'_>, stated: Stated) -> Result<bool, Finding> {
    let Stated { graph, is_whole, described, device: Properties { device, described: properties } } = stated;
    let (number, mode) = choices.of(&MODES);
    let heuristics = caller.create(Kind::CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR as u32)?;
    let mode_elements = Elements::enumerator(Type::CUDNN_TYPE_HEUR_MODE, number);
    set(caller, heuristics, Name::CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, &Elements::descriptors(&[described]))?;
    set(caller, heuristics, Name::CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, &Elements::descriptors(&[properties]))?;
    set(caller, heuristics, Name::CUDNN_ATTR_ENGINEHEUR_MODE, &mode_elements)?;
    let is_taken = caller.finalize(heuristics)?;

    let graph = Arc::new(graph);
    let selection = device.as_ref().and_then(|device| select(&graph, device.capability).ok());
    let asked = selection.as_ref().zip(device.as_ref()).zip(mode);
    let wanted = asked.map_or(0, |((selection, device), mode)| {
        let answer = Heuristics::of(selection.clone(), device, mode);
        answer.configs.len() + usize::from(answer.selection.in_full_float(device).is_some())
    });
    if is_whole {
        expect("the ABI takes what the Rust API does", is_taken == (wanted > 0), || format!("{wanted} configs"))?;
    }
    if !is_taken {
        return Ok(false);
    }
    let (configs, count) =
        children(caller, heuristics, Name::CUDNN_ATTR_ENGINEHEUR_RESULTS, Kind::CUDNN_BACKEND_ENGINECFG_DESCRIPTOR)?;
    if is_whole {
        expect("the ABI has the configs of the Rust API", count == wanted, || format!("{count} instead of {wanted}"))?;
    }
    for config in configs {
        look_at_config(caller, choices, config, described, properties)?;
    }
    if let (Some(selection), Some(device)) = (selection, device)
        && choices.chance(30)
    {
        read_plan(caller, choices, &selection, &device, properties)?;
    }
    Ok(true)
}

fn set(caller: &mut Caller, pointer: Pointer, name: Name, elements: &Elements) -> Result<bool, Finding> {
    let Elements { of_type, bytes } = elements;
    caller.set(pointer, name as u32, *of_type as u32, elements.count(), Some(bytes))
}

/// The first descriptors of a list that an attribute gives, and how many there are.
fn children(caller: &mut Caller, pointer: Pointer, name: Name, kind: Kind) -> Result<(Vec<Pointer>, usize), Finding> {
    let got = caller.get(pointer, name as u32, DESCRIPTORS, &Room::none())?;
    let count = got.map_or(0, |got| got.count) as usize;
    let mut targets = Vec::new();
    for _ in 0..count.min(RESULTS) {
        targets.push(caller.create(kind as u32)?);
    }
    let got = caller.get(pointer, name as u32, DESCRIPTORS, &Room::with(targets.clone()))?;
    let again = got.map_or(0, |got| got.count) as usize;
    let room = targets.len();
    expect("a list fills the room", again == room, || format!("{name:?}: {again} of {count}, in room for {room}"))?;
    let is_whole = targets.iter().all(|&target| caller.alive(target).is_some_and(|known| known.is_finalized));
    expect("what a list gives is finalized", is_whole, || format!("{name:?}"))?;
    Ok((targets, count))
}

/// A number that an attribute gives.
fn integer(caller: &mut Caller, pointer: Pointer, name: Name, of_type: Type) -> Result<i64, Finding> {
    let got = caller.get(pointer, name as u32, of_type as u32, &Room::of(1))?;
    let bytes = got.map(|got| got.bytes).unwrap_or_default();
    let number = match bytes.len() {
        8 => elements::int64(&bytes),
        4 => elements::int32(&bytes).map(i64::from),
        _ => None,
    };
    number.ok_or_else(|| finding("a number can be got", format!("{name:?}")))
}

/// A config's engine and knobs make it again; engine and knobs can be asked.
fn look_at_config(
    caller: &mut Caller,
    choices: &mut Choices<'_>,
    config: Pointer,
    graph: Pointer,
    properties: Pointer,
) -> Result<(), Finding> {
    let engine_of = Name::CUDNN_ATTR_ENGINECFG_ENGINE;
    let knobs_of = Name::CUDNN_ATTR_ENGINECFG_KNOB_CHOICES;
    let (engines, _) = children(caller, config, engine_of, Kind::CUDNN_BACKEND_ENGINE_DESCRIPTOR)?;
    let (knobs, count) = children(caller, config, knobs_of, Kind::CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR)?;
    let Some(&engine) = engines.first() else { return Ok(()) };
    let again = caller.create(Kind::CUDNN_BACKEND_ENGINECFG_DESCRIPTOR as u32)?;
    set(caller, again, engine_of, &Elements::descriptors(&[engine]))?;
    set(caller, again, knobs_of, &Elements::descriptors(&knobs))?;
    let is_made = caller.finalize(again)?;
    expect("a config's engine and knobs make a config", is_made, || format!("{count} knobs"))?;
    if choices.chance(30) {
        for config in [config, again] {
            let (name, of_type) = (Name::CUDNN_ATTR_ENGINECFG_WORKSPACE_SIZE, Type::CUDNN_TYPE_INT64);
            let bytes = integer(caller, config, name, of_type)?;
            expect("a workspace has a size", bytes >= 0, || bytes.to_string())?;
            let (name, of_type) = (Name::CUDNN_ATTR_ENGINECFG_SHARED_MEMORY_USED, Type::CUDNN_TYPE_INT32);
            integer(caller, config, name, of_type)?;
        }
    }
    look_at_engine(caller, choices, engine, graph, properties)
}

fn look_at_engine(
    caller: &mut Caller,
    choices: &mut Choices<'_>,
    engine: Pointer,
    graph: Pointer,
    properties: Pointer,
) -> Result<(), Finding> {
    let number = integer(caller, engine, Name::CUDNN_ATTR_ENGINE_GLOBAL_INDEX, Type::CUDNN_TYPE_INT64)?;
    let count = integer(caller, graph, Name::CUDNN_ATTR_OPERATIONGRAPH_ENGINE_GLOBAL_COUNT, Type::CUDNN_TYPE_INT64)?;
    expect("engines are numbered", (0..count).contains(&number), || format!("{number} of {count}"))?;
    if choices.chance(30) {
        let (name, of_type) = (Name::CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, Type::CUDNN_TYPE_NUMERICAL_NOTE);
        caller.get(engine, name as u32, of_type as u32, &Room::of(8))?;
    }
    let wanted = choices.of(&[number, number, 0, 1, 2, count, -1]);
    let made = make_engine(caller, graph, properties, wanted)?;
    let is_right = made.is_some() || wanted != number;
    expect("an engine that heuristics name takes the graph", is_right, || number.to_string())?;
    let engine = made.unwrap_or(engine);
    let (infos, _) =
        children(caller, engine, Name::CUDNN_ATTR_ENGINE_KNOB_INFO, Kind::CUDNN_BACKEND_KNOB_INFO_DESCRIPTOR)?;
    let Some(index) = choices.index_of(&infos) else { return Ok(()) };
    let mut of_info = |name: Name| integer(caller, infos[index], name, Type::CUDNN_TYPE_INT64);
    let least = of_info(Name::CUDNN_ATTR_KNOB_INFO_MINIMUM_VALUE)?;
    let most = of_info(Name::CUDNN_ATTR_KNOB_INFO_MAXIMUM_VALUE)?;
    let stride = of_info(Name::CUDNN_ATTR_KNOB_INFO_STRIDE)?;
    let is_range = least <= most && stride >= 1 && (most - least) % stride == 0;
    expect("a knob's values are a range", is_range, || format!("{least}..={most} by {stride}"))?;
    let knob = integer(caller, infos[index], Name::CUDNN_ATTR_KNOB_INFO_TYPE, Type::CUDNN_TYPE_KNOB_TYPE)?;
    let value = choices.of(&[least, most, least + stride, most + 1, -1]);
    choose(caller, engine, knob, value, value == least)
}

/// The engine of a number for a graph; `None` where it does not take it.
fn make_engine(
    caller: &mut Caller,
    graph: Pointer,
    properties: Pointer,
    number: i64,
) -> Result<Option<Pointer>, Finding> {
    let engine = caller.create(Kind::CUDNN_BACKEND_ENGINE_DESCRIPTOR as u32)?;
    set(caller, engine, Name::CUDNN_ATTR_ENGINE_OPERATION_GRAPH, &Elements::descriptors(&[graph]))?;
    set(caller, engine, Name::CUDNN_ATTR_ENGINE_DEVICEPROP, &Elements::descriptors(&[properties]))?;
    set(caller, engine, Name::CUDNN_ATTR_ENGINE_GLOBAL_INDEX, &Elements::int64(&[number]))?;
    Ok(caller.finalize(engine)?.then_some(engine))
}

/// A config by one knob; with the least value there is one.
fn choose(caller: &mut Caller, engine: Pointer, knob: i64, value: i64, is_there: bool) -> Result<(), Finding> {
    let choice = caller.create(Kind::CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR as u32)?;
    let of_type = Elements::enumerator(Type::CUDNN_TYPE_KNOB_TYPE, knob as u32);
    set(caller, choice, Name::CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, &of_type)?;
    set(caller, choice, Name::CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, &Elements::int64(&[value]))?;
    let is_known = caller.finalize(choice)?;
    let config = caller.create(Kind::CUDNN_BACKEND_ENGINECFG_DESCRIPTOR as u32)?;
    set(caller, config, Name::CUDNN_ATTR_ENGINECFG_ENGINE, &Elements::descriptors(&[engine]))?;
    set(caller, config, Name::CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, &Elements::descriptors(&[choice]))?;
    let is_found = caller.finalize(config)?;
    expect("a knob takes the least of its values", is_found && is_known || !is_there, || format!("{knob}: {value}"))
}

/// The text of a plan is a plan, and is that plan's text.
fn read_plan(
    caller: &mut Caller,
    choices: &mut Choices<'_>,
    selection: &Selection,
    device: &Device,
    properties: Pointer,
) -> Result<(), Finding> {
    let candidates = selection.candidates(device);
    let Some(index) = choices.index_of(&candidates) else { return Ok(()) };
    let Some(text) = texts::plan(selection, &candidates[index].config, device) else { return Ok(()) };
    let plan = caller.create(Kind::CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR as u32)?;
    set(caller, plan, Name::CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, &Elements::text(text.as_bytes()))?;
    set(caller, plan, Name::CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, &Elements::descriptors(&[properties]))?;
    let is_read = caller.finalize(plan)?;
    expect("a plan's text is a plan", is_read, || text.clone())?;
    let name = Name::CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION as u32;
    let got = caller.get(plan, name, Type::CUDNN_TYPE_CHAR as u32, &Room::of(text.len() + 1))?;
    expect("a plan has its text", got.is_some_and(|got| got.bytes == text.as_bytes()), || text)?;
    let bytes = integer(caller, plan, Name::CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, Type::CUDNN_TYPE_INT64)?;
    expect("a plan's workspace has a size", bytes >= 0, || bytes.to_string())?;
    let name = Name::CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG;
    children(caller, plan, name, Kind::CUDNN_BACKEND_ENGINECFG_DESCRIPTOR).map(drop)
}
