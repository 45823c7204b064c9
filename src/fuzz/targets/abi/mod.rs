//! Programs against the cuDNN backend ABI.

mod caller;
mod draws;
mod elements;
mod engines;
#[cfg(unix)]
mod forks;
mod graph;
mod handles;
mod links;
mod texts;

use std::collections::BTreeSet;
use std::ffi::{c_int, c_void};
use std::ptr;

use cudarc::cudnn::sys::cudnnBackendAttributeName_t as Name;
use cudarc::cudnn::sys::cudnnBackendAttributeType_t as Type;
use cudarc::cudnn::sys::cudnnBackendDescriptorType_t as Kind;
use cudarc::cudnn::sys::cudnnStatus_t as Status;

use super::expect;
use crate::capi::attribute::{Access, Attribute};
use crate::capi::{
    cudnnBackendCreateDescriptor, cudnnBackendExecute, cudnnBackendFinalize, cudnnBackendPopulateCudaGraph,
    cudnnBackendUpdateCudaGraph, cudnnCreate, cudnnDestroy, cudnnGetCallback, cudnnGetProperty, cudnnGetStream,
    cudnnGetVersion, cudnnGraphVersionCheck, cudnnSetStream,
};
use crate::fuzz::choices::Choices;
use crate::fuzz::family::Family;
use crate::fuzz::finding::Finding;
use crate::fuzz::generator::generate;
use caller::{Caller, Room, judge, last_error, name_of, refuse};
use elements::{Elements, Pointer};

/// Most calls that a program chooses one by one.
const STEPS: usize = 200;

/// Most graphs that it describes.
const GRAPHS: usize = 3;

/// Most elements of an array that is not null.
const ELEMENTS: usize = 256;

/// Most entries of a variant pack.
const ENTRIES: usize = 5000;

/// Descriptors that a program tries to have refer to each other.
const LINKS: usize = 8;

/// A program of up to 200 steps that the bytes choose: calls of the ABI with right and wrong arguments, whole graphs by
/// descriptors with what heuristics say of them, chains and rings of descriptors, long variant packs, and forks whose child
/// goes on for some steps while a thread of the parent's calls. Each call is held against what the documentation says of it, a
/// described graph against the Rust API. Nothing is compiled. Handles are created where `FAKE_CUDA_DEVICES` says that the
/// driver is the fake one of the tests; the current context is then the same after every step. Gives whether a graph was
/// described that an engine takes.
///
/// # Errors
/// The first expectation that is not met.
pub fn backend_api(bytes: &[u8]) -> Result<bool, Finding> {
    let mut caller = Caller::new();
    let devices = handles::Devices::open();
    let choices = Choices::new(bytes);
    let program = Program { bytes, choices, caller: &mut caller, devices, graphs: 0, is_child: false, is_taken: false };
    let outcome = program.run();
    let cleared = caller.destroy_all();
    outcome.and_then(|is_taken| cleared.map(|()| is_taken))
}

/// A program as it runs.
struct Program<'a> {
    /// All that it is made of; graphs begin anywhere in it.
    bytes: &'a [u8],
    choices: Choices<'a>,
    caller: &'a mut Caller,
    devices: Option<handles::Devices>,
    graphs: usize,
    is_child: bool,
    is_taken: bool,
}

impl Program<'_> {
    fn run(mut self) -> Result<bool, Finding> {
        for _ in 0..self.choices.below(STEPS) + 1 {
            self.step()?;
            self.devices.as_ref().map_or(Ok(()), handles::Devices::require_kept)?;
        }
        self.devices.take().map_or(Ok(()), handles::Devices::close)?;
        Ok(self.is_taken)
    }

    fn step(&mut self) -> Result<(), Finding> {
        match self.choices.below(43) {
            0..=3 => self.finalize(),
            4..=8 => self.create(),
            9..=17 => self.set(),
            18..=19 => self.set_anything(),
            20..=25 => self.get(),
            26 => self.destroy(),
            27..=32 => self.complete(),
            33..=34 => self.describe(),
            35..=36 => self.use_plan(),
            37 => self.ask_the_library(),
            38 => self.misuse_handles(),
            39 => self.link(),
            40 => self.fill_a_pack(),
            41 => self.use_devices(),
            #[cfg(unix)]
            42 if self.choices.chance(20) => self.fork(),
            _ => self.read_an_error(),
        }
    }

    fn pointer(&mut self) -> Pointer {
        draws::pointer(self.caller, &mut self.choices)
    }

    fn create(&mut self) -> Result<(), Finding> {
        let kind = draws::kind(&mut self.choices);
        if self.choices.chance(95) {
            return self.caller.create(kind).map(drop);
        }
        // SAFETY: null is allowed.
        let status = unsafe { cudnnBackendCreateDescriptor(kind, ptr::null_mut()) };
        refuse("cudnnBackendCreateDescriptor", status, Status::CUDNN_STATUS_BAD_PARAM_NULL_POINTER)
    }

    fn finalize(&mut self) -> Result<(), Finding> {
        let pointer = self.pointer();
        self.caller.finalize(pointer)?;
        let again = self.caller.finalize(pointer)?;
        expect("nothing is finalized twice, nor by trying again", !again, || format!("{pointer:#x}"))
    }

    fn destroy(&mut self) -> Result<(), Finding> {
        let pointer = self.pointer();
        match self.choices.chance(25) {
            true => self.caller.initialize(pointer).map(drop),
            false => self.caller.destroy(pointer).map(drop),
        }
    }

    /// Sets an attribute that the descriptor has, mostly as it should be.
    fn set(&mut self) -> Result<(), Finding> {
        let pointer = self.pointer();
        let Some(attributes) = self.caller.alive(pointer).map(|known| known.attributes) else {
            return self.set_anything();
        };
        let Some(index) = self.choices.index_of(attributes) else { return self.set_anything() };
        self.set_plausibly(pointer, &attributes[index])
    }

    fn set_plausibly(&mut self, pointer: Pointer, attribute: &Attribute) -> Result<(), Finding> {
        let (name, of_type) = (attribute.name as u32, self.choices.of(attribute.types) as u32);
        if let Some(text) = draws::text(&mut self.choices, name) {
            return self.caller.set(pointer, name, of_type, text.len() as i64, Some(&text)).map(drop);
        }
        let (least, most) = (*attribute.count.start(), (*attribute.count.end()).min(8));
        // arrays of one rank go together
        let count =
            if self.choices.chance(60) { least.max(4.min(most)) } else { least + self.choices.below(most + 1 - least) };
        let bytes = draws::elements(self.caller, &mut self.choices, name, of_type, count);
        self.caller.set(pointer, name, of_type, count as i64, Some(&bytes)).map(drop)
    }

    /// Any attribute of any type, with any count.
    fn set_anything(&mut self) -> Result<(), Finding> {
        let (pointer, of_type) = (self.pointer(), draws::element_type(&mut self.choices));
        let name = self.any_name(pointer);
        let count = self.any_count();
        if self.choices.chance(25) || count > ELEMENTS as i64 {
            return self.caller.set(pointer, name, of_type, count, None).map(drop);
        }
        let bytes = draws::elements(self.caller, &mut self.choices, name, of_type, count.max(0) as usize);
        self.caller.set(pointer, name, of_type, count, Some(&bytes)).map(drop)
    }

    /// An attribute's number: one of the descriptor's, of another's, or none.
    fn any_name(&mut self, pointer: Pointer) -> u32 {
        let attributes = self.caller.alive(pointer).map_or(&[][..], |known| known.attributes);
        match self.choices.index_of(attributes) {
            Some(index) if self.choices.chance(70) => attributes[index].name as u32,
            _ => self.choices.below(3000) as u32,
        }
    }

    fn any_count(&mut self) -> i64 {
        match self.choices.chance(20) {
            true => self.choices.of(&[-1, 0, 9, 257, 1 << 20, i64::MAX, i64::MIN, 1 << 32]),
            false => self.choices.below(12) as i64,
        }
    }

    fn get(&mut self) -> Result<(), Finding> {
        let pointer = self.pointer();
        let attributes = self.caller.alive(pointer).map_or(&[][..], |known| known.attributes);
        let (name, of_type) = match self.choices.index_of(attributes) {
            Some(index) if self.choices.chance(90) => {
                (attributes[index].name as u32, self.choices.of(attributes[index].types) as u32)
            }
            _ => (self.any_name(pointer), draws::element_type(&mut self.choices)),
        };
        let room = self.room(of_type);
        self.caller.get(pointer, name, of_type, &room).map(drop)
    }

    fn room(&mut self, of_type: u32) -> Room {
        let (count, counts) = (self.any_count(), self.choices.chance(90));
        let is_null = count > ELEMENTS as i64 || self.choices.chance(20);
        let mut targets = Vec::new();
        if of_type == Type::CUDNN_TYPE_BACKEND_DESCRIPTOR as u32 && !is_null {
            targets = (0..count.max(0)).map(|_| self.pointer()).collect();
        }
        Room { count, is_null, counts, targets }
    }

    /// Gives a descriptor all that it requires, and finalizes it.
    fn complete(&mut self) -> Result<(), Finding> {
        let mut pointer = self.pointer();
        if self.choices.chance(50) {
            pointer = self.caller.create(draws::kind(&mut self.choices))?;
        }
        let Some(attributes) = self.caller.alive(pointer).map(|known| known.attributes) else { return Ok(()) };
        for attribute in attributes {
            let is_given = match attribute.access {
                Access::Required => self.choices.chance(98),
                Access::Optional => self.choices.chance(25),
                Access::Computed | Access::Unsupported => false,
            };
            if is_given {
                self.set_plausibly(pointer, attribute)?;
            }
        }
        self.caller.finalize(pointer).map(drop)
    }

    /// Describes a graph, and asks what engines do with it.
    fn describe(&mut self) -> Result<(), Finding> {
        if self.graphs == GRAPHS {
            return Ok(());
        }
        self.graphs += 1;
        let start = self.choices.below(self.bytes.len().max(1));
        let family = self.choices.of(&Family::ALL);
        let made = generate(family, self.bytes.get(start..).unwrap_or_default());
        let Some(graph) = graph::sayable(&made.graph) else { return Ok(()) };
        let mut author = graph::Author::new(self.caller, &mut self.choices);
        let (described, is_whole) = author.graph(&graph)?;
        let device = self.describe_device()?;
        let stated = engines::Stated { graph, is_whole, described, device };
        self.is_taken |= engines::consult(self.caller, &mut self.choices, stated)?;
        Ok(())
    }

    /// Device properties by a text, perhaps of a device that is refused.
    fn describe_device(&mut self) -> Result<engines::Properties, Finding> {
        let text = texts::device(&mut self.choices);
        let device = serde_json::from_str(&text).ok();
        let described = self.caller.create(Kind::CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR as u32)?;
        let Elements { of_type, bytes } = Elements::text(text.as_bytes());
        let name = Name::CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION as u32;
        self.caller.set(described, name, of_type as u32, bytes.len() as i64, Some(&bytes))?;
        let is_read = self.caller.finalize(described)?;
        expect("what is no device is not read", !is_read || device.is_some(), || text)?;
        Ok(engines::Properties { device: device.filter(|_| is_read), described })
    }

    /// Has descriptors refer to each other by an attribute that their mode does not use: in a chain, or in a ring.
    fn link(&mut self) -> Result<(), Finding> {
        let relu = links::Relu::new(self.caller)?;
        let first = relu.operation(self.caller)?;
        self.caller.finalize(first)?;
        let mut last = first;
        for _ in 0..self.choices.below(LINKS) {
            let next = relu.operation(self.caller)?;
            links::refer(self.caller, next, links::UNUSED, last)?;
            if self.caller.finalize(next)? {
                last = next;
            }
        }
        if self.choices.chance(50) {
            self.caller.initialize(first)?;
            relu.give(self.caller, first)?;
            links::refer(self.caller, first, links::UNUSED, last)?;
            self.caller.finalize(first)?;
        }
        Ok(())
    }

    /// A variant pack of up to thousands of entries, perhaps with a uid twice.
    fn fill_a_pack(&mut self) -> Result<(), Finding> {
        let count = self.choices.of(&[1, 2, 3, 17, 256, ENTRIES - 1]) + self.choices.below(2);
        let step = self.choices.of(&[1, -1, 7, -1 << 40]);
        let mut uids: Vec<i64> = (0..count as i64).map(|number| number * step).collect();
        if self.choices.chance(40) {
            let [from, to] = [self.choices.below(count), self.choices.below(count)];
            uids[to] = uids[from];
        }
        let is_unique = BTreeSet::from_iter(&uids).len() == count;
        let pack = self.caller.create(Kind::CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR as u32)?;
        let pointers: Vec<u8> = (0..count).flat_map(|number| (16 * number).to_ne_bytes()).collect();
        let Elements { of_type, bytes } = Elements::int64(&uids);
        let (name, pointer) = (Name::CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, Type::CUDNN_TYPE_VOID_PTR);
        self.caller.set(pack, name as u32, of_type as u32, count as i64, Some(&bytes))?;
        let name = Name::CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS;
        self.caller.set(pack, name as u32, pointer as u32, count as i64, Some(&pointers))?;
        let is_made = self.caller.finalize(pack)?;
        expect("a pack has a pointer for each uid", is_made == is_unique, || format!("{count} uids by {step}"))
    }

    fn use_devices(&mut self) -> Result<(), Finding> {
        match &mut self.devices {
            Some(devices) => devices.step(self.caller, &mut self.choices),
            None => Ok(()),
        }
    }

    /// Some steps in a child, which knows what its parent knew.
    #[cfg(unix)]
    fn fork(&mut self) -> Result<(), Finding> {
        if self.is_child {
            return Ok(());
        }
        forks::in_child(|| {
            self.is_child = true;
            // a context is of the process that made it
            std::mem::forget(self.devices.take());
            (0..1 + self.choices.below(8)).try_for_each(|_| self.step())
        })
    }

    /// Executions with handles that there are none of.
    fn use_plan(&mut self) -> Result<(), Finding> {
        let (handle, plan, pack, graph) = (self.handle(), self.pointer(), self.pointer(), self.choices.of(&[0, 1]));
        let [raw, plan, pack, graph] = [handle, plan, pack, graph].map(ptr::without_provenance_mut::<c_void>);
        // SAFETY: the handle is found out before anything is followed.
        let (function, status) = unsafe {
            match self.choices.below(3) {
                0 => ("cudnnBackendExecute", cudnnBackendExecute(raw, plan, pack)),
                1 => ("cudnnBackendPopulateCudaGraph", cudnnBackendPopulateCudaGraph(raw, plan, pack, graph)),
                _ => ("cudnnBackendUpdateCudaGraph", cudnnBackendUpdateCudaGraph(raw, plan, pack, graph)),
            }
        };
        refuse(function, status, no_handle(handle))
    }

    /// A pointer to no handle: null, foreign, or to a descriptor.
    fn handle(&mut self) -> Pointer {
        if self.choices.chance(50) { self.pointer() } else { draws::foreign(self.caller, &mut self.choices) }
    }

    fn misuse_handles(&mut self) -> Result<(), Finding> {
        let handle = self.handle();
        let raw = ptr::without_provenance_mut(handle);
        let mut stream = ptr::null_mut();
        // SAFETY: the handle is found out before anything is followed; there is room for a stream.
        unsafe {
            refuse("cudnnSetStream", cudnnSetStream(raw, stream), no_handle(handle))?;
            refuse("cudnnGetStream", cudnnGetStream(raw, &raw mut stream), no_handle(handle))?;
            refuse("cudnnGetStream", cudnnGetStream(raw, ptr::null_mut()), no_handle(handle))?;
            refuse("cudnnCreate", cudnnCreate(ptr::null_mut()), Status::CUDNN_STATUS_BAD_PARAM_NULL_POINTER)?;
        }
        let status = if handle == 0 { Status::CUDNN_STATUS_SUCCESS } else { no_handle(handle) };
        refuse("cudnnDestroy", cudnnDestroy(raw), status)
    }

    /// Numbers, names, and what is set for all.
    fn ask_the_library(&mut self) -> Result<(), Finding> {
        let number = self.choices.below(7000) as u32;
        let name = name_of(number);
        expect("every number of a status has a name", name.starts_with("CUDNN_"), || format!("{number}: {name}"))?;
        let property = self.choices.of(&[0, 1, 2, 3, u32::MAX]);
        let mut value: c_int = -1;
        // SAFETY: there is room for a number.
        let is_known = judge("cudnnGetProperty", unsafe { cudnnGetProperty(property, &raw mut value) })?;
        expect("there are three properties", is_known == (property < 3) && is_known == (value >= 0), || {
            format!("{property}: {value}")
        })?;
        let null = Status::CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
        // SAFETY: null is allowed.
        unsafe {
            refuse("cudnnGetProperty", cudnnGetProperty(property, ptr::null_mut()), null)?;
            let status = cudnnGetCallback(ptr::null_mut(), ptr::null_mut(), ptr::null_mut());
            refuse("cudnnGetCallback", status, null)?;
        }
        let is_right = cudnnGetVersion() >= 90_000 && cudnnGraphVersionCheck() == Status::CUDNN_STATUS_SUCCESS;
        expect("the version is one of cuDNN 9", is_right, || cudnnGetVersion().to_string())
    }

    /// The text of a failure in short room is the beginning of the whole.
    fn read_an_error(&mut self) -> Result<(), Finding> {
        let room = self.choices.of(&[0, 1, 2, 8, 30, 64, 100, 1000]);
        let fail = || cudnnBackendFinalize(ptr::null_mut());
        fail();
        let whole = last_error(4096)?;
        fail();
        let cut = last_error(room)?;
        let wanted = &whole[..whole.len().min(room.saturating_sub(1))];
        expect("a failure's text is cut to its room", cut == wanted, || format!("{cut:?} of {whole:?}"))?;
        // with no room it is not read
        last_error(4096).map(drop)
    }
}

/// What a call with a pointer to no handle answers.
fn no_handle(handle: Pointer) -> Status {
    match handle {
        0 => Status::CUDNN_STATUS_BAD_PARAM_NULL_POINTER,
        _ => Status::CUDNN_STATUS_BAD_PARAM,
    }
}
