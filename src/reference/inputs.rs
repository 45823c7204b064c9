//! Random inputs, the same on every machine.

use std::collections::BTreeMap;
use std::ops::Range;

use super::block_mask;
use super::landmarks::{landmarks, selectors};
use super::pages;
use super::ragged;
use super::resample::Pooling;
use super::statistics;
use super::supported::check_resample;
use super::values::required_inputs;
use crate::error::Result;
use crate::graph::{
    Attributes, Composite, DataType, FinalTensor, FinalizedGraph, Operation, Port, Scalar, ScoreMask, SignalMode,
    TensorId,
};
use crate::host_tensor::{HostTensor, HostTensors};

/// How random values are distributed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Distribution {
    /// Standard normal in floating types; uniform in integers: `INT8` −8 … 7, `UINT8` 0 … 15, `INT32` and `INT64`
    /// −100 … 100.
    #[default]
    Normal,
    /// Uniform integers −2 … 2 (0 … 2 in `UINT8`), so that most results are exact in any order of summation.
    SmallIntegers,
    /// Normal, but for about three elements in eight, which lie where some function of the graph jumps, turns or ties:
    /// at clips, equal operands, zeros, halves, the largest values of a type. Of one operand of a core every fourth vector
    /// selects an element of the other operand, so that such values get through. Every fourth tensor has no negative
    /// element, and every fourth no positive one, as the maximum of many is else always positive.
    Landmarks,
}

/// Random values for every tensor of [`required_inputs`]; gaps of padded strides, and of ragged tensors, are poisoned, `BOOLEAN` is uniform.
/// What has to be of a kind is: an index of max pooling points at a random pixel of its window (at 0 where the window
/// has none), messages of other GPUs have come, and a flag has the value that the first signal on it waits for, or another value than the one it sets.
///
/// A value depends only on the seed, the tensor's place in the canonical order and the element's row-major position
/// (with [`Distribution::Landmarks`] on the graph's operations, too): not on layouts, names or the number of threads.
///
/// # Errors
/// [`crate::error::Error::Input`] for types without elements in host memory, and
/// [`crate::error::Error::Environment`] where there is not enough memory.
pub fn random_inputs(graph: &FinalizedGraph, seed: u64, distribution: Distribution) -> Result<HostTensors> {
    let roles = roles(graph);
    let places = if distribution == Distribution::Landmarks { Places::of(graph) } else { Places::default() };
    let tensor = |id: TensorId| {
        let generator = Generator { key: mix(seed ^ mix(id.index() as u64 + 1)) };
        let tensor = graph.tensor(id);
        let values = match roles.get(&id) {
            Some(Role::Flag(value)) => HostTensor::from_fn(tensor.data_type, &tensor.dim, &tensor.stride, |_| *value),
            Some(Role::Index(pooling)) => random_index(tensor, generator, pooling),
            Some(Role::Messages) => random_messages(tensor, generator),
            Some(Role::Length(most)) => {
                HostTensor::from_fn(tensor.data_type, &tensor.dim, &tensor.stride, |at| generator.uniform(at, 0, *most))
            }
            None => random_tensor(tensor, generator, distribution, &places.at(tensor, id)),
        };
        Ok((id, values?))
    };
    let mut inputs = required_inputs(graph).into_iter().map(tensor).collect::<Result<HostTensors>>()?;
    ragged::complete(graph, &mut inputs)?;
    let generator = Generator { key: mix(seed) };
    pages::complete(graph, &mut inputs, |page| generator.bits(page))?;
    block_mask::complete(graph, &mut inputs, |place| generator.bits(place))?;
    statistics::complete(graph, &mut inputs)?;
    Ok(inputs)
}

/// What the values of an input must be.
enum Role {
    Flag(f64),
    Index(Pooling),
    /// What other GPUs have sent: a value and its flag, word by word (N-112).
    Messages,
    /// Lengths of sequences, at most so long.
    Length(i64),
}

/// Roles that the first operation to give one gives.
fn roles(graph: &FinalizedGraph) -> BTreeMap<TensorId, Role> {
    let mut roles = BTreeMap::new();
    let messages = graph.operations().flat_map(Operation::peers).map(|id| (id, Role::Messages));
    let lengths = graph.operations().flat_map(|operation| lengths(graph, operation));
    let others = graph.operations().filter_map(|operation| role(graph, operation));
    for (id, role) in others.chain(messages).chain(lengths) {
        roles.entry(id).or_insert(role);
    }
    roles
}

/// Lengths of queries and keys, of a mask of scores.
fn lengths(graph: &FinalizedGraph, operation: &Operation) -> Vec<(TensorId, Role)> {
    let extent = |port: Port, axis: usize| operation.input(port).and_then(|id| graph.tensor(id).dim.get(axis).copied());
    let most = match &operation.attributes {
        Attributes::Composite(Composite::ScoreMask(_)) => [extent(Port::X, 2), extent(Port::X, 3)],
        Attributes::Composite(Composite::AttentionBackward(_)) => [extent(Port::Q, 2), extent(Port::K, 2)],
        Attributes::Composite(Composite::PagedCacheLoad(_)) => {
            return pages::length(graph, operation).map(|(id, most)| (id, Role::Length(most))).into_iter().collect();
        }
        _ => return Vec::new(),
    };
    let length = |(port, most): (&Port, Option<i64>)| Some((operation.input(*port)?, Role::Length(most?)));
    ScoreMask::LENGTHS.iter().zip(most).filter_map(length).collect()
}

fn role(graph: &FinalizedGraph, operation: &Operation) -> Option<(TensorId, Role)> {
    match &operation.attributes {
        Attributes::Signal(signal) => {
            let value = if signal.mode == SignalMode::Wait { signal.value } else { !signal.value };
            Some((operation.input(Port::FLAG)?, Role::Flag(value as f64)))
        }
        Attributes::ResampleBackward(resample) if check_resample(operation, resample).is_ok() => {
            let (dx, dy) = (graph.tensor(operation.output(Port::DX)?), graph.tensor(operation.input(Port::DY)?));
            Some((operation.input(Port::INDEX)?, Role::Index(Pooling::new(resample, &dx.dim, &dy.dim)?)))
        }
        _ => None,
    }
}

/// Values that means, variances and sums may have, each behind a flag that tells that it has come.
fn random_messages(tensor: &FinalTensor, generator: Generator) -> Result<HostTensor> {
    let mut messages = HostTensor::poisoned(tensor.data_type, &tensor.dim, &tensor.stride)?;
    // word by word as they lie in memory
    for word in 0..(messages.bytes.len() as u64 * 8 / tensor.data_type.bits()) as usize {
        let value = if word % 2 == 0 { generator.uniform(word, 1, 16) / 8.0 } else { 1.0 };
        messages.set(word, Scalar::Float(value));
    }
    Ok(messages)
}

fn random_index(tensor: &FinalTensor, generator: Generator, pooling: &Pooling) -> Result<HostTensor> {
    let positions: usize = tensor.dim[2..].iter().product::<i64>() as usize;
    HostTensor::from_fn(tensor.data_type, &tensor.dim, &tensor.stride, |element| {
        let inside = pooling.inside(element % positions);
        if inside.iter().any(Range::is_empty) {
            return 0.0;
        }
        let offset = |axis: usize| {
            let own = Generator { key: mix(generator.key ^ axis as u64) };
            own.uniform(element, inside[axis].start, inside[axis].end - 1) as i64
        };
        pooling.place(std::array::from_fn(offset)) as f64
    })
}

/// What [`Distribution::Landmarks`] places in the tensors of a graph.
#[derive(Default)]
struct Places {
    landmarks: BTreeMap<TensorId, Vec<f64>>,
    selectors: BTreeMap<TensorId, Vec<bool>>,
}

impl Places {
    fn of(graph: &FinalizedGraph) -> Self {
        Self { landmarks: landmarks(graph), selectors: selectors(graph) }
    }

    fn at<'a>(&'a self, tensor: &'a FinalTensor, id: TensorId) -> Placed<'a> {
        Placed {
            dim: &tensor.dim,
            values: self.landmarks.get(&id).map_or(&[], Vec::as_slice),
            selects: self.selectors.get(&id).map(Vec::as_slice),
            has_sign: self.landmarks.contains_key(&id),
        }
    }
}

/// What is placed in one tensor.
struct Placed<'a> {
    dim: &'a [i64],
    values: &'a [f64],
    /// Axes that tell apart the vectors which may select.
    selects: Option<&'a [bool]>,
    /// Whether all values may be of one sign.
    has_sign: bool,
}

impl Placed<'_> {
    /// The value of the element at a row-major position; `random` where nothing is placed.
    fn at(&self, position: usize, generator: Generator, random: f64) -> f64 {
        let drawn = |what: u64, position, count: usize| {
            let own = Generator { key: mix(generator.key ^ mix(what)) };
            own.uniform(position, 0, count as i64 - 1) as usize
        };
        let signed = |value: f64| match drawn(0, 0, 4) {
            0 if self.has_sign => value.abs(),
            1 if self.has_sign => -value.abs(),
            _ => value,
        };
        if let Some(selects) = self.selects {
            let (vector, place, length) = self.split(position, selects);
            if drawn(1, vector, 4) == 0 {
                return if drawn(2, vector, length) == place { 1.0 } else { 0.0 };
            }
        }
        let is_placed = !self.values.is_empty() && drawn(3, position, 8) < 3;
        signed(if is_placed { self.values[drawn(4, position, self.values.len())] } else { random })
    }

    /// The number of an element's vector, its place in the vector, and the vector's length.
    fn split(&self, mut position: usize, selects: &[bool]) -> (usize, usize, usize) {
        let (mut vectors, mut length) = (1, 1);
        let (mut vector, mut place) = (0, 0);
        for (&extent, &is_apart) in self.dim.iter().zip(selects).rev() {
            let extent = extent as usize;
            let (index, count) = if is_apart { (&mut vector, &mut vectors) } else { (&mut place, &mut length) };
            *index += position % extent * *count;
            *count *= extent;
            position /= extent;
        }
        (vector, place, length)
    }
}

fn random_tensor(
    tensor: &FinalTensor,
    generator: Generator,
    distribution: Distribution,
    placed: &Placed<'_>,
) -> Result<HostTensor> {
    let data_type = tensor.data_type;
    let integers = match (distribution, data_type) {
        (_, DataType::Boolean) => Some((0, 1)),
        (Distribution::SmallIntegers, DataType::UInt8) => Some((0, 2)),
        (Distribution::SmallIntegers, _) => Some((-2, 2)),
        (_, DataType::Int8) => Some((-8, 7)),
        (_, DataType::UInt8) => Some((0, 15)),
        (_, data_type) if data_type.is_integer() => Some((-100, 100)),
        _ => None,
    };
    let random = |position| match integers {
        Some((low, high)) => generator.uniform(position, low, high),
        None => generator.normal(position),
    };
    HostTensor::from_fn(data_type, &tensor.dim, &tensor.stride, |position| {
        placed.at(position, generator, random(position))
    })
}

/// A counter-based generator: SplitMix64's output function (Steele, Lea, Flood 2014) of key and position.
#[derive(Clone, Copy)]
struct Generator {
    key: u64,
}

impl Generator {
    fn bits(self, position: usize) -> u64 {
        mix(self.key.wrapping_add((position as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)))
    }

    /// An integer of `low ..= high`; the ranges are so small that the bias of the multiplication does not count.
    fn uniform(self, position: usize, low: i64, high: i64) -> f64 {
        let count = (high - low + 1) as u64;
        let offset = ((self.bits(position) >> 32) * count) >> 32;
        (low + offset as i64) as f64
    }

    /// Standard normal, by Box and Muller; in single precision, since inputs of 10^8 elements are common.
    fn normal(self, position: usize) -> f64 {
        let bits = self.bits(position);
        let unit = |half: u64| (half as f32 + 0.5) / (1u64 << 32) as f32;
        let (radius, angle) = (unit(bits >> 32), unit(bits & 0xffff_ffff));
        f64::from((-2.0 * radius.ln()).max(0.0).sqrt() * (2.0 * std::f32::consts::PI * angle).cos())
    }
}

fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
