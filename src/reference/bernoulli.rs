//! The generator that says which probabilities dropout keeps (`docs/spec/attention.md` AT-O13): Philox4x32-7 (Salmon, Moraes, Dror, Shaw,
//! "Parallel random numbers: as easy as 1, 2, 3", 2011), whose counter is the place of eight elements of a row.

use rayon::prelude::*;

use super::values::Values;
use crate::error::{Error, Result};
use crate::graph::{Bernoulli, FinalizedGraph, OperationId, Port, Scalar, TensorId};
use crate::host_tensor::{HostTensor, reserve};

/// Elements of a row that one counter serves, with 16 bits each.
const LANES: usize = 8;

const ROUNDS: usize = 7;
const MULTIPLIERS: [u32; 2] = [0xd251_1f53, 0xcd9e_8d57];
const WEYL: [u32; 2] = [0x9e37_79b9, 0xbb67_ae85];

/// Y of the CPU engine.
pub(super) fn drawn(
    graph: &FinalizedGraph,
    id: OperationId,
    attributes: Bernoulli,
    values: &Values,
) -> Result<Vec<(TensorId, HostTensor)>> {
    let Some(y) = graph.operation(id).output(Port::Y) else { return Ok(Vec::new()) };
    let mask = mask(graph, id, (attributes, y), values)?;
    Ok(vec![(y, values.poisoned(y)?.with_dense(&mask)?)])
}

/// Y by its definition.
pub(super) fn exact(
    graph: &FinalizedGraph,
    id: OperationId,
    attributes: Bernoulli,
    values: &Values,
) -> Result<Vec<Vec<f64>>> {
    let Some(y) = graph.operation(id).output(Port::Y) else { return Ok(Vec::new()) };
    let mask = mask(graph, id, (attributes, y), values)?;
    Ok(vec![mask.into_iter().map(f64::from).collect()])
}

/// 1 where an element is kept and 0 elsewhere, row-major.
fn mask(
    graph: &FinalizedGraph,
    id: OperationId,
    (attributes, y): (Bernoulli, TensorId),
    values: &Values,
) -> Result<Vec<f32>> {
    let number = |port| {
        let tensor = graph.operation(id).input(port);
        let value = tensor.map(|tensor| values.get(tensor)).transpose()?.and_then(|tensor| tensor.get(0));
        match value {
            Some(Scalar::Integer(value)) => Ok(value),
            _ => Err(Error::input(format!("port {port}"), "is no whole number")),
        }
    };
    let state = State::new(number(Port::SEED)?, number(Port::OFFSET)?);
    let dim: Vec<usize> = graph.tensor(y).dim.iter().map(|&extent| extent as usize).collect();
    let &[batches, heads, queries, keys] = &dim[..] else { return Ok(Vec::new()) };
    let mut mask = reserve(dim.iter().product())?;
    mask.resize(batches * heads * queries * keys, 0.0_f32);
    let threshold = attributes.threshold();
    mask.par_chunks_mut(keys.max(1)).enumerate().for_each(|(row, elements)| {
        for (group, elements) in elements.chunks_mut(LANES).enumerate() {
            let lanes = state.lanes([group, row % queries, row / queries].map(|place| place as u32));
            let kept = lanes.into_iter().map(|lane| f32::from(u8::from(u32::from(lane) < threshold)));
            elements.iter_mut().zip(kept).for_each(|(element, kept)| *element = kept);
        }
    });
    Ok(mask)
}

/// What is left of 1 in a column of a row of a head, where so much is dropped: for tests that know their own definition.
#[cfg(test)]
pub(crate) fn left(dropped: f32, [seed, offset]: [i64; 2], [head, row, column]: [i64; 3]) -> f64 {
    let keep = 1.0 - dropped;
    let lanes = State::new(seed, offset).lanes([column / LANES as i64, row, head].map(|place| place as u32));
    let is_kept = u32::from(lanes[column as usize % LANES]) < Bernoulli { keep }.threshold();
    if is_kept { f64::from(1.0 / keep) } else { 0.0 }
}

/// What a seed and an offset make of the generator.
#[derive(Clone, Copy)]
struct State {
    key: [u32; 2],
    /// The last word of every counter.
    offset: u32,
}

impl State {
    fn new(seed: i64, offset: i64) -> Self {
        let words = |value: i64| [value as u32, (value >> 32) as u32];
        let ([low, high], [offset, above]) = (words(seed), words(offset));
        Self { key: [low, high ^ above], offset }
    }

    /// The 16-bit numbers of eight columns of a row of a head, in the order of the columns.
    fn lanes(self, [group, row, head]: [u32; 3]) -> [u16; LANES] {
        let words = philox([group, row, head, self.offset], self.key);
        std::array::from_fn(|lane| (words[lane / 2] >> (16 * (lane % 2))) as u16)
    }
}

/// Philox4x32-7 of a counter and a key.
fn philox(mut counter: [u32; 4], mut key: [u32; 2]) -> [u32; 4] {
    for _ in 0..ROUNDS {
        let product = |at: usize| u64::from(MULTIPLIERS[at]) * u64::from(counter[2 * at]);
        let [a, b] = [product(0), product(1)];
        let high = |x: u64| (x >> 32) as u32;
        counter = [high(b) ^ counter[1] ^ key[0], b as u32, high(a) ^ counter[3] ^ key[1], a as u32];
        key = [key[0].wrapping_add(WEYL[0]), key[1].wrapping_add(WEYL[1])];
    }
    counter
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_generator_gives_the_numbers_of_its_authors() {
        assert_eq!(philox([0; 4], [0; 2]), [0x5f6f_b709, 0x0d89_3f64, 0x4f12_1f81, 0x4f73_0a48]);
        assert_eq!(philox([u32::MAX; 4], [u32::MAX; 2]), [0x5207_ddc2, 0x4516_5e59, 0x4d8e_e751, 0x8c52_f662]);
        let (counter, key) = ([0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344], [0xa409_3822, 0x299f_31d0]);
        assert_eq!(philox(counter, key), [0x4dfc_caba, 0x190a_87f0, 0xc473_62ba, 0xb6b5_242a], "digits of π");
    }

    #[test]
    fn lanes_are_the_halves_of_words_in_order() {
        let state = State::new(7, 9);
        let words = philox([1, 2, 3, 9], [7, 0]);
        let lanes = state.lanes([1, 2, 3]);
        assert_eq!([lanes[0], lanes[1], lanes[7]].map(u32::from), [words[0] & 0xffff, words[0] >> 16, words[3] >> 16]);
    }

    #[test]
    fn all_bits_of_seed_and_offset_count() {
        let lanes = |seed, offset| State::new(seed, offset).lanes([0; 3]);
        let first = lanes(1, 2);
        for other in [lanes(1 | 1 << 40, 2), lanes(1, 2 | 1 << 40), lanes(2, 1), lanes(1, 3), lanes(-1, 2)] {
            assert_ne!(first, other);
        }
        assert_eq!(lanes(i64::from(-5_i32), 2), State { key: [-5_i32 as u32, u32::MAX], offset: 2 }.lanes([0; 3]));
    }
}
