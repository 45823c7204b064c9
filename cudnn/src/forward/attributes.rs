//! Attributes of pairs: set on both sides and got from the one that counts, with handles and descriptors in each side's own terms.

use std::ffi::c_void;
use std::sync::Arc;

use super::numbers::{FIRST_ENGINE, kind, name, status, type_of};
use super::pairs::{self, Pair};
use super::sides::{Half, Pointer, Refusal, Side};
use super::{device, errors, handles, heuristics};

/// More descriptors than any attribute has.
const MOST_DESCRIPTORS: i64 = 1 << 24;

/// An attribute and its elements, as a program gives them.
#[derive(Clone, Copy)]
struct Given {
    name: u32,
    of_type: u32,
    count: i64,
    elements: *const c_void,
}

/// Sets an attribute of a pair.
///
/// # Safety
/// As [`fusewright::capi::cudnnBackendSetAttribute`].
pub(crate) unsafe fn set(
    function: &str,
    pair: &Pair,
    name: u32,
    of_type: u32,
    count: i64,
    elements: *const c_void,
) -> u32 {
    let given = Given { name, of_type, count, elements };
    let has_elements = count > 0 && !elements.is_null();
    // SAFETY: as promised by the caller.
    unsafe {
        match (&pair.pack, of_type) {
            (Some(pack), _) => pack.set(function, name, of_type, count, elements),
            (None, type_of::DESCRIPTOR) if has_elements => set_descriptors(function, pair, given),
            (None, type_of::HANDLE) if has_elements => set_handle(function, pair, given),
            (None, type_of::INT64) if has_elements && name == name::ENGINE_INDEX => set_engine(function, pair, given),
            (None, type_of::CHAR) if has_elements && name == name::DEVICE_TEXT => set_device(function, pair, given),
            _ => pair.ask(function, |half| half.set(name, of_type, count, elements)),
        }
    }
}

/// Sets descriptors: on each side those of that side. Where one of them has none there, neither has the pair.
///
/// # Safety
/// As [`set`]; there is at least one element.
unsafe fn set_descriptors(function: &str, pair: &Pair, given: Given) -> u32 {
    if given.count > MOST_DESCRIPTORS {
        return errors::fail(function, status::BAD_PARAM, "there are too many descriptors");
    }
    // SAFETY: as promised by the caller.
    let pointer = |index: usize| unsafe { given.elements.cast::<Pointer>().add(index).read_unaligned() };
    let referred: Result<Vec<Arc<Pair>>, u32> =
        (0..given.count as usize).map(|index| pairs::require(function, pointer(index))).collect();
    let referred = match referred {
        Ok(referred) => referred,
        Err(status) => return status,
    };
    if let Some(subject) = referred.iter().find_map(|other| other.subject()) {
        pair.set_subject(&subject);
    }
    // what a side can do without is left out there
    let is_dispensable = matches!(given.name, name::PLAN_KERNEL_CACHE | name::PLAN_DEVICE);
    pair.ask(function, |half| {
        let halves: Result<Vec<Arc<Half>>, Refusal> = referred.iter().map(|other| other.half(half.side())).collect();
        let halves = match halves {
            Ok(halves) => halves,
            Err(_) if is_dispensable => return Ok(()),
            Err(refusal) => return Err(refusal),
        };
        let pointers: Vec<Pointer> = halves.iter().map(|half| half.pointer()).collect();
        // SAFETY: the descriptors are this side's, and alive.
        unsafe { half.set(given.name, given.of_type, given.count, pointers.as_ptr().cast()) }
    })
}

/// Sets a handle: on each side its own.
///
/// # Safety
/// As [`set`]; there is at least one element.
unsafe fn set_handle(function: &str, pair: &Pair, given: Given) -> u32 {
    // SAFETY: as promised by the caller.
    let program = unsafe { given.elements.cast::<Pointer>().read_unaligned() };
    if given.name == name::GRAPH_HANDLE {
        pair.set_handle(program.addr());
    }
    pair.ask(function, |half| {
        let handle = match handles::find(program) {
            Some(handle) => handle.of(half.side())?,
            None => handles::of_side(program, half.side())?,
        };
        // SAFETY: one handle of this side.
        unsafe { half.set(given.name, given.of_type, 1, (&raw const handle).cast()) }
    })
}

/// Sets device properties by their text, which is told to our side in its own words where it is cuDNN's.
///
/// # Safety
/// As [`set`]; there is at least one element.
unsafe fn set_device(function: &str, pair: &Pair, given: Given) -> u32 {
    let length = usize::try_from(given.count).unwrap_or(0);
    // SAFETY: as promised by the caller.
    let text = unsafe { std::slice::from_raw_parts(given.elements.cast::<u8>(), length) };
    let translated = device::translated(text);
    pair.ask(function, |half| {
        let text = translated.as_deref().filter(|_| half.side() == Side::Ours).unwrap_or(text);
        // SAFETY: so many bytes.
        unsafe { half.set(given.name, given.of_type, text.len() as i64, text.as_ptr().cast()) }
    })
}

/// Sets an engine's number, which says whose engine it is.
///
/// # Safety
/// As [`set`]; there is at least one element.
unsafe fn set_engine(function: &str, pair: &Pair, given: Given) -> u32 {
    // SAFETY: as promised by the caller.
    let number = unsafe { given.elements.cast::<i64>().read_unaligned() };
    let (owner, own) = match number >= FIRST_ENGINE {
        true => (Side::Ours, number - FIRST_ENGINE),
        false => (Side::Real, number),
    };
    let half = match pair.half(owner) {
        Ok(half) => half,
        Err(refusal) => return errors::refuse(function, &[&refusal]),
    };
    // SAFETY: one number.
    match unsafe { half.set(given.name, given.of_type, given.count, (&raw const own).cast()) } {
        Ok(()) => {
            pair.keep_only(owner);
            status::SUCCESS
        }
        Err(refusal) => errors::refuse(function, &[&refusal]),
    }
}

/// What a program asks for, and where it wants it.
#[derive(Clone, Copy)]
pub(crate) struct Asked {
    pub(crate) name: u32,
    pub(crate) of_type: u32,
    pub(crate) room: i64,
    pub(crate) count: *mut i64,
    pub(crate) elements: Pointer,
}

impl Asked {
    pub(crate) fn wants_elements(&self) -> bool {
        self.room > 0 && !self.elements.is_null()
    }

    /// The program's descriptors that results are to be put into.
    ///
    /// # Safety
    /// There are `room` descriptors at `elements`.
    pub(crate) unsafe fn targets(&self, function: &str, most: usize) -> Result<Vec<Arc<Pair>>, u32> {
        let room = usize::try_from(self.room).unwrap_or(0).min(most);
        // SAFETY: as promised by the caller.
        let pointer = |index: usize| unsafe { self.elements.cast::<Pointer>().add(index).read_unaligned() };
        (0..room).map(|index| pairs::require(function, pointer(index))).collect()
    }

    /// Says how many elements there are.
    ///
    /// # Safety
    /// `count` is null or has room for a number.
    pub(crate) unsafe fn give_count(&self, found: usize) -> u32 {
        if !self.count.is_null() {
            // SAFETY: as promised by the caller.
            unsafe { self.count.write_unaligned(found as i64) };
        }
        status::SUCCESS
    }
}

/// Gets an attribute of a pair.
///
/// # Safety
/// As [`fusewright::capi::cudnnBackendGetAttribute`].
pub(crate) unsafe fn get(function: &str, pair: &Pair, asked: Asked) -> u32 {
    // SAFETY: as promised by the caller.
    unsafe {
        if let Some(pack) = &pair.pack {
            let half = pack.of(Side::Real).or_else(|refusal| pack.of(Side::Ours).map_err(|_| refusal));
            return half
                .and_then(|half| get_from(&half, asked))
                .map_or_else(|refusal| errors::refuse(function, &[&refusal]), |()| status::SUCCESS);
        }
        match asked.name {
            name::HEURISTICS_RESULTS if pair.kind() == kind::HEURISTICS && asked.of_type == type_of::DESCRIPTOR => {
                heuristics::get(function, pair, asked)
            }
            _ if asked.of_type == type_of::DESCRIPTOR && asked.wants_elements() => fill(function, pair, asked),
            _ => get_values(function, pair, asked),
        }
    }
}

/// # Safety
/// As [`get`].
unsafe fn get_from(half: &Half, asked: Asked) -> Result<(), Refusal> {
    // SAFETY: as promised by the caller.
    unsafe { half.get(asked.name, asked.of_type, asked.room, asked.count, asked.elements) }
}

/// Gets what is no descriptor: from the real library, or from us where it has none. Of how many engines there are we are asked first, as our numbers are the
/// largest: programs look whether a number that they kept is below.
///
/// # Safety
/// As [`get`].
unsafe fn get_values(function: &str, pair: &Pair, asked: Asked) -> u32 {
    let mut refusals = Vec::new();
    let mut sides = Side::BOTH;
    if asked.name == name::GRAPH_ENGINE_COUNT {
        sides.reverse();
    }
    for side in sides {
        // SAFETY: as promised by the caller.
        match pair.half(side).and_then(|half| unsafe { get_from(&half, asked) }) {
            Ok(()) => {
                // SAFETY: as promised by the caller.
                unsafe { renumber(side, asked) };
                return status::SUCCESS;
            }
            Err(refusal) => refusals.push(refusal),
        }
    }
    // that of a side that was asked tells more than that of one that was dropped
    refusals.sort_by_key(|refusal| pair.half(refusal.side).is_err());
    errors::refuse(function, &refusals.iter().collect::<Vec<_>>())
}

/// Gives engines of ours the numbers that programs know them by.
///
/// # Safety
/// As [`get`].
unsafe fn renumber(side: Side, asked: Asked) {
    let is_number =
        matches!(asked.name, name::ENGINE_INDEX | name::GRAPH_ENGINE_COUNT) && asked.of_type == type_of::INT64;
    if side == Side::Ours && is_number && asked.wants_elements() {
        // SAFETY: as promised by the caller: there is one number, just written.
        unsafe {
            let number = asked.elements.cast::<i64>();
            number.write_unaligned(number.read_unaligned() + FIRST_ENGINE);
        }
    }
}

/// Has the program's descriptors become those that the pair's side refers to; they are of that side alone then.
///
/// # Safety
/// As [`get`]; there is room for at least one.
unsafe fn fill(function: &str, pair: &Pair, asked: Asked) -> u32 {
    let half = match pair.counting() {
        Ok(half) => half,
        Err([real, ours]) => return errors::refuse(function, &[&real, &ours]),
    };
    // SAFETY: as promised by the caller.
    let targets = match unsafe { asked.targets(function, MOST_DESCRIPTORS as usize) } {
        Ok(targets) => targets,
        Err(status) => return status,
    };
    match put_into(&half, asked.name, &targets) {
        Ok(found) => {
            if let Some(subject) = pair.subject() {
                targets[..found].iter().for_each(|target| target.set_subject(&subject));
            }
            // SAFETY: as promised by the caller.
            unsafe { asked.give_count(found) }
        }
        Err(refusal) => errors::refuse(function, &[&refusal]),
    }
}

/// Has targets become what an attribute of one side refers to; gives how many did.
fn put_into(half: &Half, name: u32, targets: &[Arc<Pair>]) -> Result<usize, Refusal> {
    let side = half.side();
    let halves = targets.iter().map(|target| target.to_fill(side)).collect::<Result<Vec<_>, _>>()?;
    let pointers: Vec<Pointer> = halves.iter().map(|half| half.pointer()).collect();
    let found = half.fill(name, &pointers)?;
    targets[..found].iter().for_each(|target| target.keep_only(side));
    Ok(found)
}
