//! Variant packs with and without mistakes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{expect, graph_of};
use crate::build::Build;
use crate::codegen::Source;
use crate::device::{ComputeCapability, Device};
use crate::engine;
use crate::error::Error;
use crate::fuzz::choices::Choices;
use crate::fuzz::finding::Finding;
use crate::graph::{FinalizedGraph, Scalar};
use crate::kernel::Parameter;
use crate::plan::{DevicePointer, VariantPack, WORKSPACE_ALIGNMENT, Workspace, check_execution};

/// Bytes that draw the pack; those that follow are the graph.
const DRAWS: usize = 32;

/// Most mistakes in a pack.
const MISTAKES: usize = 2;

/// Largest alignment of a tensor here, in bytes: there are addresses that are multiples of it.
const LARGEST_ALIGNMENT: u64 = 1 << 40;

/// What a tensor is given.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Entry {
    Address(u64),
    Value(Scalar),
}

/// What a tensor needs: an address that is a multiple of this, or a value.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Need {
    Address { multiple_of: u64 },
    Value,
}

/// By uid.
type Needs = BTreeMap<i64, Need>;

/// The variant pack and workspace of an accepted graph, with up to two mistakes: what an execution needs passes, and
/// anything else is refused as bad input that names a tensor with a mistake, or the workspace. Gives whether an engine
/// takes the graph.
///
/// # Errors
/// The first expectation that is not met.
pub fn variant_pack(bytes: &[u8]) -> Result<bool, Finding> {
    let Some((draws, rest)) = bytes.split_at_checked(DRAWS) else { return Ok(false) };
    let Some(finalized) = graph_of(rest).and_then(|made| made.graph.finalize().ok()) else { return Ok(false) };
    let (graph, device) = (Arc::new(finalized), Device::typical(ComputeCapability::SM_90));
    let Ok(selection) = engine::select(&graph, device.capability) else { return Ok(false) };
    let Ok(Build { source, .. }) = Build::first(&selection, &device) else { return Ok(false) };
    let Some(needs) = needs(&graph, &source) else { return Ok(false) };

    let choices = &mut Choices::new(draws);
    let mut entries: Vec<(i64, Entry)> = needs.iter().map(|(&uid, &need)| (uid, right(need, choices))).collect();
    let mut workspace =
        Workspace { pointer: DevicePointer::from_raw(WORKSPACE_ALIGNMENT * 7), bytes: source.workspace_bytes };
    for _ in 0..choices.below(MISTAKES + 1) {
        mistake(&mut entries, &mut workspace, choices);
    }

    let pack = entries.iter().fold(VariantPack::new(), with);
    let given: BTreeMap<i64, Entry> = entries.into_iter().collect();
    let mut wrong = wrong_tensors(&needs, &given);
    if wrong.is_empty() && !suffices(workspace, source.workspace_bytes) {
        wrong.push("workspace: ".to_owned());
    }
    is_judged(check_execution(&graph, &source, &pack, workspace), &wrong)?;
    Ok(true)
}

/// What the tensors of a graph need in an execution; `None` where one has to be aligned too widely.
fn needs(graph: &FinalizedGraph, source: &Source) -> Option<Needs> {
    let parameters = || source.launches.iter().flat_map(|launch| &launch.parameters);
    let mut needs = Needs::new();
    for id in graph.tensor_ids() {
        let tensor = graph.tensor(id);
        let has_map = parameters().any(|parameter| matches!(parameter, Parameter::TensorMap(map) if map.tensor == id));
        if tensor.is_pass_by_value && tensor.value.is_none() {
            needs.insert(tensor.uid, Need::Value);
        } else if !tensor.is_virtual && !tensor.is_pass_by_value {
            let alignment = u64::try_from(tensor.alignment).ok().filter(|bytes| *bytes <= LARGEST_ALIGNMENT)?;
            let mut multiples = (1..=16).map(|factor| alignment * factor);
            let multiple_of = multiples.find(|bytes| !has_map || bytes.is_multiple_of(16))?;
            needs.insert(tensor.uid, Need::Address { multiple_of });
        }
    }
    Some(needs)
}

fn right(need: Need, choices: &mut Choices<'_>) -> Entry {
    match need {
        Need::Address { multiple_of } => Entry::Address(multiple_of * (1 + choices.below(15) as u64)),
        Need::Value => Entry::Value(choices.of(&[Scalar::Integer(3), Scalar::Float(0.5), Scalar::Float(f64::NAN)])),
    }
}

/// Changes something that matters, or that does not: no entry, a null pointer, an address that lies off, that of another
/// tensor, another kind, an entry given twice or for no tensor, or a workspace that is null, short or off.
fn mistake(entries: &mut Vec<(i64, Entry)>, workspace: &mut Workspace, choices: &mut Choices<'_>) {
    let address = workspace.pointer.address();
    let Some(at) = choices.index_of(entries) else { return };
    let (uid, entry) = entries[at];
    match choices.below(10) {
        0 => drop(entries.remove(at)),
        1 => entries[at].1 = Entry::Address(0),
        2 => entries[at].1 = Entry::Address(off(entry, 1 << choices.below(8))),
        3 => entries[at].1 = entries[choices.below(entries.len())].1,
        4 => entries[at].1 = Entry::Value(Scalar::Integer(1)),
        5 => entries.insert(choices.below(at + 1), (uid, Entry::Address(1))),
        6 => entries.push((uid.wrapping_add(choices.of(&[1, -1, 1000])), Entry::Address(256))),
        7 => workspace.pointer = DevicePointer::NULL,
        8 => workspace.bytes = workspace.bytes.saturating_sub(1),
        _ => workspace.pointer = DevicePointer::from_raw(address + (1 << choices.below(8))),
    }
}

fn off(entry: Entry, bytes: u64) -> u64 {
    match entry {
        Entry::Address(address) => address.saturating_add(bytes),
        Entry::Value(_) => bytes,
    }
}

fn with(mut pack: VariantPack, &(uid, entry): &(i64, Entry)) -> VariantPack {
    match entry {
        Entry::Address(address) => pack.set_pointer(uid, DevicePointer::from_raw(address)),
        Entry::Value(value) => pack.set_scalar(uid, value),
    };
    pack
}

/// How messages name the tensors that lack an entry or have a wrong one, and the uids that should have none.
fn wrong_tensors(needs: &Needs, given: &BTreeMap<i64, Entry>) -> Vec<String> {
    let uids: BTreeSet<i64> = needs.keys().chain(given.keys()).copied().collect();
    let wrong = uids.into_iter().filter_map(|uid| match (needs.get(&uid), given.get(&uid)) {
        (Some(&Need::Address { multiple_of }), Some(&Entry::Address(address)))
            if address != 0 && address.is_multiple_of(multiple_of) =>
        {
            None
        }
        (Some(Need::Value), Some(Entry::Value(_))) => None,
        (Some(_), _) => Some(format!("(uid {uid})")),
        (None, _) => Some(format!("uid {uid} is not expected")),
    });
    wrong.collect()
}

fn suffices(workspace: Workspace, required: u64) -> bool {
    let address = workspace.pointer.address();
    let is_right = address != 0 && address.is_multiple_of(WORKSPACE_ALIGNMENT) && workspace.bytes >= required;
    required == 0 || is_right
}

fn is_judged(judged: Result<(), Error>, wrong: &[String]) -> Result<(), Finding> {
    match judged {
        Ok(()) => expect("what an execution cannot take is refused", wrong.is_empty(), || format!("{wrong:?} passed")),
        Err(error) => {
            let text = error.to_string();
            let is_named = matches!(error, Error::Execution { .. }) && wrong.iter().any(|name| text.contains(name));
            expect("a refusal names what is wrong in a pack", is_named, || format!("{text}; wrong are {wrong:?}"))
        }
    }
}
