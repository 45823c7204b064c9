//! A caller that knows what each of its calls has to answer.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{CStr, c_void};
use std::ptr;

use cudarc::cudnn::sys::cudnnBackendAttributeName_t as Name;
use cudarc::cudnn::sys::cudnnBackendAttributeType_t as Type;
use cudarc::cudnn::sys::cudnnBackendDescriptorType_t as Kind;
use cudarc::cudnn::sys::cudnnStatus_t as Status;

use super::elements::{self, Elements, Pointer};
use crate::capi::attribute::{Access, Attribute};
use crate::capi::attributes;
use crate::capi::descriptor::Vector;
use crate::capi::{
    cudnnBackendCreateDescriptor, cudnnBackendDestroyDescriptor, cudnnBackendFinalize, cudnnBackendGetAttribute,
    cudnnBackendInitialize, cudnnBackendSetAttribute, cudnnGetErrorString, cudnnGetLastErrorString,
};
use crate::fuzz::finding::Finding;
use crate::fuzz::targets::expect;

/// Bytes behind what a get may write.
const GUARD: usize = 64;

/// What they are.
const UNTOUCHED: u8 = 0xa5;

/// From a plan down to its tensors: an attention's graph has a graph of its own, of operations on scores.
const TIERS: usize = 8;

/// A descriptor that was created.
pub(super) struct Known {
    pub(super) pointer: Pointer,
    pub(super) kind: Kind,
    pub(super) attributes: &'static [Attribute],
    pub(super) is_finalized: bool,
    pub(super) is_destroyed: bool,
    /// Descriptors from it down to its tensors, when it was finalized.
    height: usize,
    /// What was set, with the descriptors among it.
    set: BTreeMap<u32, Vec<Pointer>>,
}

/// Descriptors that were created, and calls on them, each of which is held against what it must answer.
pub(super) struct Caller {
    known: Vec<Known>,
}

/// What the library answered: success, or another status.
pub(super) type Answer = Result<bool, Finding>;

fn raw(pointer: Pointer) -> *mut c_void {
    ptr::without_provenance_mut(pointer)
}

/// A call's answer: a status that the library knows, and, where it is no success, the text that says why, once.
///
/// # Errors
/// The first expectation that is not met.
pub(super) fn judge(function: &str, status: Status) -> Answer {
    let name = name_of(status as u32);
    expect("every status has a name", name != "CUDNN_UNKNOWN_STATUS", || format!("{function}: {}", status as u32))?;
    let panicked = status == Status::CUDNN_STATUS_INTERNAL_ERROR_UNEXPECTED_VALUE;
    if status == Status::CUDNN_STATUS_SUCCESS {
        return Ok(true);
    }
    let text = last_error(4096)?;
    expect("no call panics", !panicked, || format!("{function}: {text}"))?;
    let is_named = text.starts_with(&format!("{function}: {name}; Reason: ")) && !text.ends_with("Reason: ");
    expect("a failure's text names function, status and reason", is_named, || format!("{function}: {text:?}"))?;
    let again = last_error(4096)?;
    expect("a failure's text is forgotten once it was read", again.is_empty(), || again)?;
    Ok(false)
}

/// What the library calls a status.
pub(super) fn name_of(number: u32) -> String {
    // SAFETY: names end with a zero byte and live as long as the program.
    unsafe { CStr::from_ptr(cudnnGetErrorString(number)) }.to_string_lossy().into_owned()
}

/// The text of the last failure, in as many bytes.
///
/// # Errors
/// What is written behind them, or no zero byte among them.
pub(super) fn last_error(room: usize) -> Result<String, Finding> {
    let mut bytes = vec![UNTOUCHED; room + GUARD];
    // SAFETY: there is more room than is said.
    unsafe { cudnnGetLastErrorString(bytes.as_mut_ptr().cast(), room) };
    let is_kept = bytes[room..].iter().all(|&byte| byte == UNTOUCHED);
    expect("an error text keeps to its room", is_kept, || format!("{room} bytes"))?;
    let end = bytes[..room].iter().position(|&byte| byte == 0);
    expect("an error text ends with a zero byte", end.is_some() || room == 0, || format!("{room} bytes"))?;
    Ok(String::from_utf8_lossy(&bytes[..end.unwrap_or(0)]).into_owned())
}

/// As [`judge`], of a call that has to fail with a status.
///
/// # Errors
/// The first expectation that is not met.
pub(super) fn refuse(function: &str, status: Status, wanted: Status) -> Result<(), Finding> {
    judge(function, status)?;
    expect("wrong use has its status", status == wanted, || format!("{function}: {status:?} instead of {wanted:?}"))
}

impl Caller {
    pub(super) fn new() -> Self {
        Self { known: Vec::new() }
    }

    /// Every descriptor that was created, in that order.
    pub(super) fn known(&self) -> &[Known] {
        &self.known
    }

    /// Pointers to descriptors that are wanted and not destroyed, the latest first, at most `count`.
    pub(super) fn latest(&self, is_wanted: impl Fn(&Known) -> bool, count: usize) -> Vec<Pointer> {
        let wanted = self.known.iter().rev().filter(|known| !known.is_destroyed && is_wanted(known));
        wanted.take(count).map(|known| known.pointer).collect()
    }

    fn find(&self, pointer: Pointer) -> Option<&Known> {
        self.known.iter().find(|known| known.pointer == pointer)
    }

    fn find_mut(&mut self, pointer: Pointer) -> Option<&mut Known> {
        self.known.iter_mut().find(|known| known.pointer == pointer)
    }

    /// The descriptor of a pointer that may be used.
    pub(super) fn alive(&self, pointer: Pointer) -> Option<&Known> {
        self.find(pointer).filter(|known| !known.is_destroyed)
    }

    /// The status of a call with a pointer to no descriptor; `None` where there is one.
    pub(super) fn refusal(&self, pointer: Pointer) -> Option<Status> {
        match pointer {
            0 => Some(Status::CUDNN_STATUS_BAD_PARAM_NULL_POINTER),
            _ if self.alive(pointer).is_some() => None,
            _ => Some(Status::CUDNN_STATUS_BAD_PARAM),
        }
    }

    /// Creates a descriptor; null where there are none of the kind.
    pub(super) fn create(&mut self, kind: u32) -> Result<Pointer, Finding> {
        const FUNCTION: &str = "cudnnBackendCreateDescriptor";
        let mut made = ptr::null_mut();
        // SAFETY: there is room for a pointer.
        let status = unsafe { cudnnBackendCreateDescriptor(kind, &raw mut made) };
        let Some((kind, attributes)) = attributes::of_kind(kind) else {
            refuse(FUNCTION, status, Status::CUDNN_STATUS_NOT_SUPPORTED)?;
            return Ok(0);
        };
        let is_made = judge(FUNCTION, status)?;
        let pointer = made.addr();
        let is_new = is_made && pointer != 0 && self.find(pointer).is_none();
        expect("a descriptor has a pointer that no other had", is_new, || format!("{kind:?}: {status:?} {made:?}"))?;
        let set = BTreeMap::new();
        self.known.push(Known { pointer, kind, attributes, is_finalized: false, is_destroyed: false, height: 1, set });
        Ok(pointer)
    }

    pub(super) fn destroy(&mut self, pointer: Pointer) -> Answer {
        const FUNCTION: &str = "cudnnBackendDestroyDescriptor";
        let status = cudnnBackendDestroyDescriptor(raw(pointer));
        if let Some(wanted) = self.refusal(pointer) {
            return refuse(FUNCTION, status, wanted).map(|()| false);
        }
        let is_destroyed = judge(FUNCTION, status)?;
        expect("a descriptor can be destroyed", is_destroyed, || format!("{status:?}"))?;
        if let Some(known) = self.find_mut(pointer) {
            known.is_destroyed = true;
        }
        Ok(true)
    }

    /// Destroys what is left.
    pub(super) fn destroy_all(&mut self) -> Result<(), Finding> {
        let alive: Vec<Pointer> = self.latest(|_| true, usize::MAX);
        for pointer in alive {
            self.destroy(pointer)?;
            self.destroy(pointer)?;
        }
        Ok(())
    }

    /// Sets an attribute, by an array or null; of an array, `count` elements are there. What would have a plan compiled is
    /// left out.
    pub(super) fn set(
        &mut self,
        pointer: Pointer,
        name: u32,
        of_type: u32,
        count: i64,
        given: Option<&[u8]>,
    ) -> Answer {
        const FUNCTION: &str = "cudnnBackendSetAttribute";
        let size = elements::size(of_type);
        let descriptors = match given {
            Some(bytes) if of_type == Type::CUDNN_TYPE_BACKEND_DESCRIPTOR as u32 => elements::pointers(bytes, count),
            _ => Vec::new(),
        };
        if self.would_compile(name, &descriptors) {
            return Ok(false);
        }
        let holds = given.is_none_or(|bytes| count <= (bytes.len() / size) as i64);
        expect("the caller gives as many elements as it says", holds, || format!("{count} of type {of_type}"))?;
        let rows = given.filter(|_| attributes::of_name(name).is_some_and(Attribute::has_rows)).map(elements::rows);
        let vectors: Vec<Vector> = rows.iter().flatten().map(|row| Vector::of(row)).collect();
        let vector = Vector::of(&vectors);
        let elements = match (&rows, given) {
            (Some(_), _) => (&raw const vector).cast(),
            (None, Some(bytes)) => bytes.as_ptr().cast(),
            (None, None) => ptr::null(),
        };
        // SAFETY: there are so many elements, or none, and a vector where one is asked for.
        let status = unsafe { cudnnBackendSetAttribute(raw(pointer), name, of_type, count, elements) };
        if let Some(wanted) = self.refusal_of_set(pointer, name, of_type, count, given.is_none()) {
            return refuse(FUNCTION, status, wanted).map(|()| false);
        }
        let is_set = judge(FUNCTION, status)?;
        let refers = of_type == Type::CUDNN_TYPE_BACKEND_DESCRIPTOR as u32;
        let is_right = match refers || of_type == Type::CUDNN_TYPE_HANDLE as u32 {
            _ if self.has_no_table(pointer) => is_set,
            true => is_set == (refers && descriptors.iter().all(|&other| self.alive(other).is_some())),
            false => is_set,
        };
        expect("what is rightly given is set", is_right, || format!("{name} of type {of_type}: {status:?}"))?;
        if let Some(known) = self.find_mut(pointer).filter(|_| is_set) {
            known.set.insert(name, descriptors);
        }
        Ok(is_set)
    }

    /// Sets a live handle.
    pub(super) fn set_handle(
        &mut self,
        pointer: Pointer,
        name: u32,
        of_type: u32,
        handle: usize,
    ) -> Result<(), Finding> {
        // SAFETY: there is one pointer.
        let status = unsafe { cudnnBackendSetAttribute(raw(pointer), name, of_type, 1, (&raw const handle).cast()) };
        let is_set = judge("cudnnBackendSetAttribute", status)?;
        expect("a handle can be set", is_set, || format!("{name}: {status:?}"))?;
        if let Some(known) = self.find_mut(pointer) {
            known.set.insert(name, Vec::new());
        }
        Ok(())
    }

    /// Whether a plan would be compiled by a finalize with this set.
    fn would_compile(&self, name: u32, descriptors: &[Pointer]) -> bool {
        let is_config = |&pointer: &Pointer| {
            self.find(pointer).is_some_and(|known| known.kind == Kind::CUDNN_BACKEND_ENGINECFG_DESCRIPTOR)
        };
        name == Name::CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG as u32 && descriptors.iter().any(is_config)
    }

    /// Whether a descriptor is of a kind that may be given anything.
    fn has_no_table(&self, pointer: Pointer) -> bool {
        self.alive(pointer).is_some_and(|known| known.attributes.is_empty())
    }

    /// The status of a set that is refused, whatever the elements are; in the order of the checks.
    fn refusal_of_set(&self, pointer: Pointer, name: u32, of_type: u32, count: i64, is_null: bool) -> Option<Status> {
        let Some(known) = self.alive(pointer) else { return self.refusal(pointer) };
        if known.is_finalized {
            return Some(Status::CUDNN_STATUS_NOT_INITIALIZED);
        }
        if known.attributes.is_empty() {
            return None;
        }
        let attribute = known.attribute(name).filter(|attribute| attribute.access != Access::Computed);
        let Some(attribute) = attribute else { return Some(Status::CUDNN_STATUS_BAD_PARAM) };
        if attribute.access == Access::Unsupported {
            return Some(Status::CUDNN_STATUS_NOT_SUPPORTED);
        }
        if !takes(attribute, of_type) {
            return Some(Status::CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE);
        }
        if !usize::try_from(count).is_ok_and(|count| attribute.count.contains(&count)) {
            return Some(Status::CUDNN_STATUS_BAD_PARAM);
        }
        (is_null && count > 0).then_some(Status::CUDNN_STATUS_BAD_PARAM_NULL_POINTER)
    }

    /// Gets an attribute; `None` where that fails.
    pub(super) fn get(
        &mut self,
        pointer: Pointer,
        name: u32,
        of_type: u32,
        into: &Room,
    ) -> Result<Option<Got>, Finding> {
        const FUNCTION: &str = "cudnnBackendGetAttribute";
        let mut count = -1_i64;
        let (count_at, mut bytes) = match into.counts {
            true => (&raw mut count, into.bytes(of_type)),
            false => (ptr::null_mut(), into.bytes(of_type)),
        };
        let before = bytes.clone();
        let elements = if into.is_null { ptr::null_mut() } else { bytes.as_mut_ptr().cast() };
        // SAFETY: there is room for so many elements, or none is given.
        let status = unsafe { cudnnBackendGetAttribute(raw(pointer), name, of_type, into.count, count_at, elements) };
        let refusal = self.refusal_of_get(pointer, name, of_type, into.count);
        let is_got = match refusal {
            Some(wanted) => refuse(FUNCTION, status, wanted).map(|()| false)?,
            None => judge(FUNCTION, status)?,
        };
        let refers = of_type == Type::CUDNN_TYPE_BACKEND_DESCRIPTOR as u32;
        let written = if is_got && !refers { into.written(count, of_type) } else { 0 };
        expect("a get keeps to its room", bytes[written..] == before[written..], || {
            format!("{name} of type {of_type}, {count} elements in room for {}: {status:?}", into.count)
        })?;
        if refers && refusal.is_none() {
            self.see_targets(&into.targets)?;
        }
        if !is_got {
            return Ok(None);
        }
        let allowed = self.alive(pointer).and_then(|known| known.attribute(name)).map(|attribute| &attribute.count);
        let is_counted = usize::try_from(count).is_ok_and(|count| allowed.is_some_and(|range| range.contains(&count)));
        let fills_the_room = !into.is_null && into.count > 0 && count == into.count;
        let is_right = !into.counts || is_counted || fills_the_room;
        expect("a get says how many elements there are", is_right, || format!("{name}: {count}"))?;
        let is_written = into.is_null || into.count == 0 || count <= into.count;
        expect("a get counts what it writes", is_written, || format!("{name}: {count} in room for {}", into.count))?;
        bytes.truncate(written);
        Ok(Some(Got { count, bytes }))
    }

    fn refusal_of_get(&self, pointer: Pointer, name: u32, of_type: u32, room: i64) -> Option<Status> {
        let Some(known) = self.alive(pointer) else { return self.refusal(pointer) };
        let attribute = known.attribute(name).filter(|_| room >= 0);
        let Some(attribute) = attribute else { return Some(Status::CUDNN_STATUS_BAD_PARAM) };
        if !takes(attribute, of_type) {
            return Some(Status::CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE);
        }
        match attribute.access {
            Access::Unsupported => Some(Status::CUDNN_STATUS_NOT_SUPPORTED),
            _ => (!known.is_finalized).then_some(Status::CUDNN_STATUS_NOT_INITIALIZED),
        }
    }

    /// Learns which targets of a get became finalized: of those an attribute that none has cannot be set for that reason.
    fn see_targets(&mut self, targets: &[Pointer]) -> Result<(), Finding> {
        let unfinished: BTreeSet<Pointer> = targets
            .iter()
            .copied()
            .filter(|&target| self.alive(target).is_some_and(|known| !known.is_finalized))
            .collect();
        for target in unfinished {
            // SAFETY: nothing is given.
            let status = unsafe { cudnnBackendSetAttribute(raw(target), u32::MAX, 0, 0, ptr::null()) };
            judge("cudnnBackendSetAttribute", status)?;
            if let Some(known) = self.find_mut(target) {
                known.is_finalized = status == Status::CUDNN_STATUS_NOT_INITIALIZED;
            }
        }
        Ok(())
    }

    /// Makes a descriptor as it was when it was created.
    pub(super) fn initialize(&mut self, pointer: Pointer) -> Answer {
        const FUNCTION: &str = "cudnnBackendInitialize";
        let status = cudnnBackendInitialize(raw(pointer));
        if let Some(wanted) = self.refusal(pointer) {
            return refuse(FUNCTION, status, wanted).map(|()| false);
        }
        let is_cleared = judge(FUNCTION, status)?;
        expect("a descriptor can be initialized", is_cleared, || format!("{status:?}"))?;
        if let Some(known) = self.find_mut(pointer) {
            known.is_finalized = false;
            known.set.clear();
        }
        Ok(true)
    }

    pub(super) fn finalize(&mut self, pointer: Pointer) -> Answer {
        const FUNCTION: &str = "cudnnBackendFinalize";
        let status = cudnnBackendFinalize(raw(pointer));
        let Some(known) = self.alive(pointer) else {
            let wanted = self.refusal(pointer).unwrap_or(Status::CUDNN_STATUS_BAD_PARAM);
            return refuse(FUNCTION, status, wanted).map(|()| false);
        };
        let kind = known.kind;
        if known.is_finalized {
            return refuse(FUNCTION, status, Status::CUDNN_STATUS_BAD_PARAM).map(|()| false);
        }
        if !judge(FUNCTION, status)? {
            return is_refused_for_a_reason(kind, status).map(|()| false);
        }
        let is_complete = known.requirements().all(|name| known.set.contains_key(&name));
        expect("what is finalized has all that is required", is_complete, || format!("{kind:?}"))?;
        let mut referred = known.set.values().flatten();
        let is_founded = referred.all(|&other| self.find(other).is_some_and(|other| other.is_finalized));
        expect("what is finalized refers to what is", is_founded, || format!("{kind:?}"))?;
        let mut referred = known.set.values().flatten().filter_map(|&other| self.find(other));
        let (height, is_tiered) = if kind == Kind::CUDNN_BACKEND_TENSOR_DESCRIPTOR {
            // the offsets of a ragged tensor are one, of the same tier, and are not ragged themselves
            (1, referred.all(|offsets| offsets.set.values().all(Vec::is_empty)))
        } else {
            let height = 1 + referred.clone().map(|other| other.height).max().unwrap_or(0);
            (height, height <= TIERS && referred.all(|other| other.kind != kind))
        };
        expect("descriptors refer to each other in eight tiers at most", is_tiered, || format!("{kind:?}: {height}"))?;
        if let Some(known) = self.find_mut(pointer) {
            known.is_finalized = true;
            known.height = height;
        }
        if kind == Kind::CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR {
            self.has_results(pointer)?;
        }
        Ok(true)
    }

    fn has_results(&mut self, heuristics: Pointer) -> Result<(), Finding> {
        let name = Name::CUDNN_ATTR_ENGINEHEUR_RESULTS as u32;
        let got = self.get(heuristics, name, Type::CUDNN_TYPE_BACKEND_DESCRIPTOR as u32, &Room::none())?;
        let count = got.map_or(0, |got| got.count);
        expect("heuristics that are finalized have results", count >= 1, || format!("{count}"))
    }
}

/// Without a handle, a finalize can fail because of what it is given, because no engine takes it, or because there is no
/// device of a number; not in a compiler.
fn is_refused_for_a_reason(kind: Kind, status: Status) -> Result<(), Finding> {
    let is_known = matches!(status as u32, 0 | 2000..4000) || status == Status::CUDNN_STATUS_NOT_INITIALIZED;
    expect("a finalize is refused as bad or not supported", is_known, || format!("{kind:?}: {status:?}"))
}

impl Known {
    pub(super) fn attribute(&self, name: u32) -> Option<&'static Attribute> {
        self.attributes.iter().find(|attribute| attribute.name as u32 == name)
    }

    fn requirements(&self) -> impl Iterator<Item = u32> {
        let required = self.attributes.iter().filter(|attribute| attribute.access == Access::Required);
        required.map(|attribute| attribute.name as u32)
    }
}

/// What a get says and writes.
pub(super) struct Got {
    pub(super) count: i64,
    pub(super) bytes: Vec<u8>,
}

/// Where a get may write.
#[derive(Default)]
pub(super) struct Room {
    /// Elements that there is room for, as is said.
    pub(super) count: i64,
    /// Whether the array is null.
    pub(super) is_null: bool,
    /// Whether it may say how many there are.
    pub(super) counts: bool,
    /// Pointers that lie in an array of descriptors; null behind them.
    pub(super) targets: Vec<Pointer>,
}

impl Room {
    /// Only the count is asked for.
    pub(super) fn none() -> Self {
        Self { is_null: true, counts: true, ..Self::default() }
    }

    /// Room for elements.
    pub(super) fn of(count: usize) -> Self {
        Self { count: count as i64, counts: true, ..Self::default() }
    }

    /// Room for descriptors.
    pub(super) fn with(targets: Vec<Pointer>) -> Self {
        Self { count: targets.len() as i64, counts: true, targets, ..Self::default() }
    }

    /// The array with a guard behind it.
    fn bytes(&self, of_type: u32) -> Vec<u8> {
        let room = if self.is_null { 0 } else { self.count.max(0) as usize * elements::size(of_type) };
        let mut bytes = vec![UNTOUCHED; room + GUARD];
        if of_type == Type::CUDNN_TYPE_BACKEND_DESCRIPTOR as u32 {
            let targets = Elements::descriptors(&self.targets).bytes;
            bytes[..room].fill(0);
            let count = room.min(targets.len());
            bytes[..count].copy_from_slice(&targets[..count]);
        }
        bytes
    }

    /// Bytes of the elements that are written of so many.
    fn written(&self, count: i64, of_type: u32) -> usize {
        match self.is_null {
            true => 0,
            // where the count is not said, all of the room may be used
            false if !self.counts => self.count.max(0) as usize * elements::size(of_type),
            false => count.clamp(0, self.count.max(0)) as usize * elements::size(of_type),
        }
    }
}

/// Whether a type is one that an attribute takes.
fn takes(attribute: &Attribute, of_type: u32) -> bool {
    attribute.types.iter().any(|&kind| kind as u32 == of_type)
}
