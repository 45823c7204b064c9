//! Measuring an engine here against another library that computes the same graph, in a program that uses both.
//!
//! The library's own measurements have memory that they poison and guard ([`crate::harness`]); here both sides are called through functions, and
//! what they are given has the program's sizes and no more.

use std::time::{Duration, Instant};

use half::{bf16, f16};

use super::timing::median;
use crate::error::Error;
use crate::graph::{DataType, Expected, FinalizedGraph};
use crate::host_tensor::HostTensor;
use crate::plan::{BesideCaptures, DeviceBuffer, DeviceContext, LIMIT, Step, Stream, event_pairs};

/// Times that each is measured, in alternating order.
const ROUNDS: usize = 4;
/// Time that the runs of one in a round shall take together.
const BURST: Duration = Duration::from_millis(8);
const MOST_RUNS_OF_A_BURST: f64 = 25.0;
/// Of the other's time: what an engine here has to stay within, so that noise decides nothing.
const WINS: f64 = 0.97;
/// Bytes of a tensor that are random; those behind them are all alike.
const RANDOM_BYTES: usize = 64 << 20;

/// Who computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rival {
    /// An engine here.
    Ours,
    /// The other library.
    Theirs,
}

/// Median times of one execution on the device with cold L2, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rivals {
    /// By an engine here.
    pub ours_ms: f64,
    /// By the other library.
    pub theirs_ms: f64,
}

impl Rivals {
    /// Whether the engine here is faster by at least 3 %.
    pub fn ours_wins(&self) -> bool {
        self.ours_ms <= WINS * self.theirs_ms
    }
}

/// What an execution is given.
#[derive(Debug)]
pub struct Arguments {
    /// Tensors that are not virtual, and scalars.
    pub uids: Vec<i64>,
    /// Of each its address: of a scalar that of host memory, else of device memory.
    pub pointers: Vec<u64>,
    /// Address of so much device memory as was asked for; 0 where that is nothing.
    pub workspace: u64,
}

/// Times a graph by two functions that put one execution on the stream, in turns, on memory of its own: random numbers of moderate size.
///
/// Captures that other threads have begun go on undisturbed.
///
/// # Errors
/// [`Error::Input`] for a graph that cannot be run on random numbers: it has integers that say where or how much, or waits for others.
/// [`Error::Environment`] where the stream is captured, memory does not suffice, or the driver is too old; and those of the functions.
pub fn time_rivals(
    context: &DeviceContext,
    stream: &Stream,
    graph: &FinalizedGraph,
    workspace_bytes: u64,
    mut execute: impl FnMut(Rival, &Arguments) -> Result<(), Error>,
) -> Result<Rivals, Error> {
    if stream.is_captured() {
        return Err(Error::environment("the stream is captured"));
    }
    let _beside_captures = BesideCaptures::new();
    stream.wait(LIMIT)?; // what the program has put there
    let memory = Memory::of(context, stream, graph, workspace_bytes)?;
    let arguments = memory.arguments();
    let mut flush = DeviceBuffer::new(context, 2 * context.device().l2_bytes as usize, 256)?;
    let mut samples = [Vec::new(), Vec::new()];
    let mut runs = [0; 2];
    let mut order = [Rival::Ours, Rival::Theirs];
    for rival in order {
        runs[rival as usize] = runs_of_a_burst(stream, || execute(rival, &arguments))?;
    }
    for _ in 0..ROUNDS {
        for rival in order {
            let burst = event_pairs(context, stream, runs[rival as usize], |step| match step {
                Step::Before => flush.fill(0, stream),
                Step::Timed => execute(rival, &arguments),
            })?;
            samples[rival as usize].extend(burst);
        }
        order.reverse();
    }
    let [ours, theirs] = samples;
    Ok(Rivals { ours_ms: median(ours), theirs_ms: median(theirs) })
}

/// Runs it, so that its code is on the device, and then once more for the time that it takes.
fn runs_of_a_burst(stream: &Stream, mut execute: impl FnMut() -> Result<(), Error>) -> Result<usize, Error> {
    execute()?;
    stream.wait(LIMIT)?;
    let start = Instant::now();
    execute()?;
    stream.wait(LIMIT)?;
    let each = start.elapsed().max(Duration::from_micros(1));
    Ok(BURST.div_duration_f64(each).clamp(2.0, MOST_RUNS_OF_A_BURST) as usize)
}

/// A graph's tensors and scalars.
struct Memory {
    tensors: Vec<(i64, DeviceBuffer)>,
    /// Eight bytes each, which any scalar fits.
    scalars: Vec<(i64, Box<[u8; 8]>)>,
    workspace: Option<DeviceBuffer>,
}

impl Memory {
    fn of(
        context: &DeviceContext,
        stream: &Stream,
        graph: &FinalizedGraph,
        workspace_bytes: u64,
    ) -> Result<Self, Error> {
        let (mut tensors, mut scalars) = (Vec::new(), Vec::new());
        let mut random = Random(0x9e37_79b9_7f4a_7c15);
        for id in graph.tensor_ids() {
            let tensor = graph.tensor(id);
            let is_input = graph.producer(id).is_none();
            if tensor.is_virtual || tensor.value.is_some() {
                continue;
            }
            if (is_input && !may_be_random(tensor.data_type)) || graph.is_of_peers(id) {
                let what = graph.describe_tensor(id);
                return Err(Error::input(what, "no random number can stand for what it says"));
            }
            if tensor.is_pass_by_value {
                scalars.push((tensor.uid, scalar(tensor.data_type, 1.0)?));
                continue;
            }
            let bytes = HostTensor::storage_bytes(tensor.data_type, &tensor.dim, &tensor.stride)?;
            let alignment = u64::try_from(tensor.alignment).unwrap_or(1).max(256);
            let mut buffer = DeviceBuffer::new(context, bytes, alignment)?;
            buffer.fill(Random::BYTE, stream)?;
            if is_input {
                buffer.upload(&random.bytes(bytes.min(RANDOM_BYTES)), stream)?;
            }
            tensors.push((tensor.uid, buffer));
        }
        for expectation in graph.expectations() {
            let value = match expectation.expected {
                Expected::Masked | Expected::FarBelow => f64::NEG_INFINITY,
                Expected::Zero => 0.0,
                Expected::One => 1.0,
                Expected::Kept(kept) => kept.into(),
                Expected::Length(length) => length as f64,
            };
            scalars.push((expectation.uid, scalar(expectation.data_type, value)?));
        }
        let bytes = usize::try_from(workspace_bytes).unwrap_or(usize::MAX);
        let workspace = (bytes > 0).then(|| DeviceBuffer::new(context, bytes, 256)).transpose()?;
        Ok(Self { tensors, scalars, workspace })
    }

    fn arguments(&self) -> Arguments {
        let tensors = self.tensors.iter().map(|(uid, buffer)| (*uid, buffer.pointer().address()));
        let scalars = self.scalars.iter().map(|(uid, bytes)| (*uid, bytes.as_ptr().expose_provenance() as u64));
        let (uids, pointers) = tensors.chain(scalars).unzip();
        let workspace = self.workspace.as_ref().map_or(0, |buffer| buffer.pointer().address());
        Arguments { uids, pointers, workspace }
    }
}

/// Whether any numbers of a type will do: those of others may say where something lies, or how long it is.
fn may_be_random(data_type: DataType) -> bool {
    use DataType::{BFloat16, Boolean, ByteBoolean, Double, Float, Fp8E4M3, Fp8E5M2, Half, Int8, UInt8};
    [BFloat16, Boolean, ByteBoolean, Double, Float, Fp8E4M3, Fp8E5M2, Half, Int8, UInt8].contains(&data_type)
}

/// A number in host memory.
fn scalar(data_type: DataType, value: f64) -> Result<Box<[u8; 8]>, Error> {
    let mut bytes = Box::new([0; 8]);
    let mut put = |value: &[u8]| bytes[..value.len()].copy_from_slice(value);
    match data_type {
        DataType::Float => put(&(value as f32).to_ne_bytes()),
        DataType::Double => put(&value.to_ne_bytes()),
        DataType::Half => put(&f16::from_f64(value).to_ne_bytes()),
        DataType::BFloat16 => put(&bf16::from_f64(value).to_ne_bytes()),
        DataType::Int32 => put(&(value as i32).to_ne_bytes()),
        DataType::Int64 => put(&(value as i64).to_ne_bytes()),
        _ => return Err(Error::input("a scalar", format!("of type {data_type} is not made"))),
    }
    Ok(bytes)
}

/// Random bytes that are numbers of moderate size in every floating type: exponents below that of 2, of either sign.
struct Random(u64);

impl Random {
    /// Such a byte.
    const BYTE: u8 = 0x3c;

    fn bytes(&mut self, count: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(count.next_multiple_of(8));
        while bytes.len() < count {
            // xorshift
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            bytes.extend((self.0 & 0x8f8f_8f8f_8f8f_8f8f | 0x3030_3030_3030_3030).to_ne_bytes());
        }
        bytes.truncate(count);
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_bytes_are_moderate_numbers_of_every_type() {
        let bytes = Random(1).bytes(4099);
        assert_eq!(bytes.len(), 4099);
        for word in bytes.chunks_exact(8) {
            let double = f64::from_ne_bytes(word.try_into().unwrap());
            let float = f32::from_ne_bytes(word[..4].try_into().unwrap());
            let halves = [word[0], word[1]];
            let small =
                [f16::from_ne_bytes(halves).to_f64(), bf16::from_ne_bytes(halves).to_f64(), float.into(), double];
            assert!(small.iter().all(|number| number.is_finite() && number.abs() <= 2.0), "{small:?}");
        }
    }

    #[test]
    fn three_percent_is_a_win() {
        assert!(Rivals { ours_ms: 0.97, theirs_ms: 1.0 }.ours_wins());
        assert!(!Rivals { ours_ms: 0.98, theirs_ms: 1.0 }.ours_wins());
        assert!(!Rivals { ours_ms: f64::NAN, theirs_ms: 1.0 }.ours_wins());
    }
}
