//! What a program may come up with: pointers, elements, texts.

use cudarc::cudnn::sys::cudnnBackendAttributeName_t as Name;
use cudarc::cudnn::sys::cudnnBackendAttributeType_t as Type;

use super::caller::Caller;
use super::elements::{self, Elements, Pointer};
use super::texts;
use crate::capi::attributes;
use crate::fuzz::choices::Choices;

/// Pointers that the library never gave.
const FOREIGN: [Pointer; 5] = [1, 0x1234, 0x7fff_dead_beef_0000, Pointer::MAX, Pointer::MAX / 2 + 1];

/// Numbers that are legal in few places.
const ODD: [i64; 12] =
    [0, -1, i64::MAX, i64::MIN, i64::MAX - 1, 1 << 31, 1 << 32, (1 << 31) - 1, 1 << 62, 65536, -2, 1 << 40];

/// Numbers that are legal in many.
const PLAIN: [i64; 14] = [1, 2, 3, 4, 8, 16, 32, 64, 128, 5, 7, 17, 256, 1024];

/// A pointer: mostly to a descriptor that there is.
pub(super) fn pointer(caller: &Caller, choices: &mut Choices<'_>) -> Pointer {
    let Some(index) = choices.index_of(caller.known()) else { return foreign(caller, choices) };
    if choices.chance(10) {
        return foreign(caller, choices);
    }
    // the latest ones more often
    let from_end = if choices.chance(50) { index % 8 } else { index };
    caller.known().iter().rev().nth(from_end).map_or(0, |known| known.pointer)
}

/// A pointer to no descriptor: null, one that was never given, one beside one that was, or one that was destroyed.
pub(super) fn foreign(caller: &Caller, choices: &mut Choices<'_>) -> Pointer {
    let destroyed = || caller.known().iter().find(|known| known.is_destroyed).map_or(0, |known| known.pointer);
    let beside = || caller.known().first().map_or(0, |known| known.pointer + 4);
    match choices.below(4) {
        0 => 0,
        1 => choices.of(&FOREIGN),
        2 => beside(),
        _ => destroyed(),
    }
}

/// A kind of descriptor by its number: mostly one that there is.
pub(super) fn kind(choices: &mut Choices<'_>) -> u32 {
    match choices.chance(5) {
        true => choices.of(&[41, 42, 99, 1 << 31, u32::MAX]),
        false => choices.below(41) as u32,
    }
}

/// A type of elements by its number.
pub(super) fn element_type(choices: &mut Choices<'_>) -> u32 {
    match choices.chance(5) {
        true => choices.of(&[30, 31, 99, u32::MAX]),
        false => choices.below(30) as u32,
    }
}

fn integer(choices: &mut Choices<'_>) -> i64 {
    if choices.chance(8) { choices.of(&ODD) } else { choices.of(&PLAIN) }
}

fn number(choices: &mut Choices<'_>) -> f64 {
    choices.of(&[1.0, 0.0, 0.5, -1.0, 6.0, f64::from(f32::MAX), f64::NAN, f64::INFINITY, f64::MAX, 1e-300])
}

/// So many elements of a type, as they might be for an attribute.
pub(super) fn elements(caller: &Caller, choices: &mut Choices<'_>, name: u32, of_type: u32, count: usize) -> Vec<u8> {
    if of_type == Type::CUDNN_TYPE_BACKEND_DESCRIPTOR as u32 {
        let pointers: Vec<Pointer> = (0..count).map(|_| referred(caller, choices, name)).collect();
        return Elements::descriptors(&pointers).bytes;
    }
    (0..count).flat_map(|_| element(caller, choices, name, of_type)).collect()
}

fn element(caller: &Caller, choices: &mut Choices<'_>, name: u32, of_type: u32) -> Vec<u8> {
    let is = |one: Type| one as u32 == of_type;
    match of_type {
        _ if is(Type::CUDNN_TYPE_INT64) => plausible(choices, name).to_ne_bytes().to_vec(),
        _ if is(Type::CUDNN_TYPE_INT32) => (integer(choices) as i32).to_ne_bytes().to_vec(),
        _ if is(Type::CUDNN_TYPE_DOUBLE) => number(choices).to_ne_bytes().to_vec(),
        _ if is(Type::CUDNN_TYPE_FLOAT) => (number(choices) as f32).to_ne_bytes().to_vec(),
        _ if is(Type::CUDNN_TYPE_FRACTION) => [integer(choices), integer(choices)].map(i64::to_ne_bytes).concat(),
        _ if is(Type::CUDNN_TYPE_HANDLE) || is(Type::CUDNN_TYPE_VOID_PTR) => {
            foreign(caller, choices).to_ne_bytes().to_vec()
        }
        _ if elements::size(of_type) == 1 => vec![choices.below(3) as u8],
        _ if elements::size(of_type) == 4 => enumerator(choices, of_type).to_ne_bytes().to_vec(),
        _ => vec![choices.below(256) as u8; elements::size(of_type)],
    }
}

/// A number that fits an attribute, mostly.
fn plausible(choices: &mut Choices<'_>, name: u32) -> i64 {
    let is_any_of = |names: &[Name]| names.iter().any(|&one| one as u32 == name);
    match name {
        _ if choices.chance(8) => integer(choices),
        _ if is_any_of(&[Name::CUDNN_ATTR_TENSOR_UNIQUE_ID, Name::CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS]) => {
            choices.below(24) as i64
        }
        _ if is_any_of(&[Name::CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT]) => 16,
        _ if is_any_of(&[Name::CUDNN_ATTR_TENSOR_VECTOR_COUNT]) => 1,
        _ if is_any_of(&[Name::CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, Name::CUDNN_ATTR_RESAMPLE_SPATIAL_DIMS]) => 2,
        _ if is_any_of(&[Name::CUDNN_ATTR_ENGINE_GLOBAL_INDEX]) => choices.below(4) as i64,
        _ => integer(choices),
    }
}

fn enumerator(choices: &mut Choices<'_>, of_type: u32) -> u32 {
    let below = match of_type {
        _ if choices.chance(4) => return choices.of(&[u32::MAX, 1 << 31, 77, 1000]),
        _ if of_type == Type::CUDNN_TYPE_POINTWISE_MODE as u32 => {
            return choices.below(8) as u32 * 100 + choices.below(24) as u32;
        }
        _ if of_type == Type::CUDNN_TYPE_KNOB_TYPE as u32 => 40,
        _ if of_type == Type::CUDNN_TYPE_DATA_TYPE as u32 => {
            return choices.of(&[0, 2, 9, 3, 4, 10, 1, 11, 12, 13, 30]);
        }
        _ => 10,
    };
    choices.below(below) as u32
}

/// A descriptor that another might refer to: mostly one of the kind it asks for.
fn referred(caller: &Caller, choices: &mut Choices<'_>, name: u32) -> Pointer {
    if choices.chance(12) {
        return pointer(caller, choices);
    }
    let kinds = attributes::of_name(name).map_or(&[][..], |attribute| attribute.kinds);
    let fitting = caller.latest(|known| known.is_finalized && kinds.contains(&known.kind), 6);
    choices.index_of(&fitting).map_or_else(|| pointer(caller, choices), |index| fitting[index])
}

/// A text for an attribute that holds one, perhaps damaged; `None` where it holds none.
pub(super) fn text(choices: &mut Choices<'_>, name: u32) -> Option<Vec<u8>> {
    let text = match name {
        _ if name == Name::CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION as u32 => texts::device(choices),
        _ if name == Name::CUDNN_ATTR_KERNEL_CACHE_JSON_REPRESENTATION as u32 => texts::kernels(choices),
        _ if name == Name::CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION as u32 => texts::some_plan(choices),
        _ => return None,
    };
    Some(if choices.chance(30) { texts::damaged(text, choices) } else { text.into_bytes() })
}
