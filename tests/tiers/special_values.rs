//! Windows, softmax, and products of operands that are copied, over NaN, infinities and equal values: kernels on the emulator against the CPU engine.

use std::path::PathBuf;

use fusewright::build::Build;
use fusewright::device::{ComputeCapability, Device};
use fusewright::emulator::EmulatedKernel;
use fusewright::graph::{DataType, FinalizedGraph, Graph, Scalar};
use fusewright::host_tensor::{HostTensor, HostTensors};
use fusewright::reference::{Distribution, bounds, compare, execute, random_inputs};
use libtest_mimic::{Failed, Trial};

use crate::{attention_cases, cases, pipeline, tier};

/// Cases with windows that overlap, in vectors and not, with and without padding; rows of softmax.
const CASES: &[&str] = &[
    "resample_maxpool_index_3x3",
    "resample_maxpool_index_ragged",
    "resample_maxpool_index_in_padding",
    "resample_maxpool_index_3d_channels_first",
    "resample_avgpool_include_padding_3x3",
    "resample_avgpool_exclude_padding_in_padding",
    "resample_bwd_maxpool_3x3",
    "resample_bwd_maxpool_3x3_channels_first",
    "resample_bwd_maxpool_ragged_channels_first",
    "resample_bwd_avgpool_exclude_padding_3d",
    "resample_bilinear_2d",
    "resample_bilinear_3d",
    "conv_fprop_add_maxpool",
    "conv_copied_fprop_odd_inputs",
    "conv_copied_fprop_fp8",
    "conv_copied_wgrad_channels_first",
    "conv_unfolded_wgrad_3x3",
    "conv_unfolded_wgrad_stride_2",
    "conv_unfolded_wgrad_fp8",
    "conv_unfolded_wgrad_rows",
    "mm_copied_half_layout_0",
    "concat_nested",
    "softmax_half",
    "softmax_statistics_sink",
    "softmax_virtual_statistics",
];

pub(crate) fn trials() -> Vec<Trial> {
    let requirement = fusewright::emulator::compiler_version().map(drop).map_err(|error| error.to_string());
    tier("emulator::special_values", requirement, "FUSEWRIGHT_REQUIRE_EMULATOR", || {
        let chosen = cases::all().into_iter().filter(|case| CASES.contains(&case.name.as_str()));
        let of_case = |case: cases::Case| {
            Trial::test(format!("emulator::special_values::{}", case.name), move || agrees(&case.graph))
        };
        let large = Trial::test("emulator::special_values::large_mask_of_dropout", || {
            for (data_type, large) in LARGE {
                let graph = attention_cases::dropout_by_mask(data_type);
                (0..4)
                    .try_for_each(|seed| holds(&graph, seed, |graph, inputs| set(graph, inputs, "drop_mask", large)))?;
            }
            Ok(())
        });
        let sinks = Trial::test("emulator::special_values::sinks_beside_large_scores", || {
            let graph = attention_cases::sinks_and_bias();
            (0..4).try_for_each(|seed| {
                holds(&graph, seed, |graph, inputs| {
                    set(graph, inputs, "bias", 60_000.0);
                    set(graph, inputs, "sink", 60_000.3 + f64::from(seed as u32));
                })
            })
        });
        let vast = Trial::test("emulator::special_values::vast_biases", || {
            attention_cases::biases().iter().try_for_each(|graph| {
                CHIPS.iter().try_for_each(|&(major, minor)| {
                    let device = Device::typical(ComputeCapability::new(major, minor));
                    pipeline::lower_every_config(graph, &device)?
                        .iter()
                        .step_by(5)
                        .try_for_each(has_values_of_vast_biases)
                })
            })
        });
        chosen.map(of_case).chain([large, sinks, vast]).collect()
    })
}

/// Nearly the largest number of HALF: no probability, of 1 at most, makes it larger. Of FLOAT a number that is rounded to infinity, where the
/// probability is not a little less than 1.
const LARGE: [(DataType, f64); 2] = [(DataType::Half, 50_000.0), (DataType::Float, 65_520.0)];

fn agrees(graph: &Graph) -> Result<(), Failed> {
    (0..4).try_for_each(|seed| holds(graph, seed, |_, inputs| add_special_values(inputs, seed)))
}

/// Holds a kernel to the CPU engine for inputs of a seed, as they are changed.
fn holds(graph: &Graph, seed: u64, change: impl Fn(&FinalizedGraph, &mut HostTensors)) -> Result<(), Failed> {
    let lowered = pipeline::lower(graph, &pipeline::typical_device())?;
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("emulator");
    // SAFETY: the source was rendered from the graph that it is run for.
    let kernel = unsafe { EmulatedKernel::compile(&lowered.source, &folder) }?;
    let graph = &lowered.graph;
    let mut inputs = random_inputs(graph, seed, Distribution::SmallIntegers)?;
    change(graph, &mut inputs);
    let bounds = bounds(graph, &inputs)?;
    let comparison = compare(graph, &execute(graph, &inputs)?, &kernel.run(graph, &inputs)?, Some(&bounds))?;
    if comparison.is_match() { Ok(()) } else { Err(format!("seed {seed}\n{comparison}").into()) }
}

/// Rows of which all keys, all but some, and some have a bias of BFLOAT16's least number, as masks of padding have, and such of a number that is
/// as large: a kernel's output beside the CPU engine's. No bound of an error holds there, as what is added to the bias is lost; a row's keys have
/// equal weights, or none.
fn has_values_of_vast_biases(lowered: &Build) -> Result<(), Failed> {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("emulator");
    // SAFETY: the source was rendered from the graph that it is run for.
    let kernel = unsafe { EmulatedKernel::compile(&lowered.source, &folder) }?;
    let graph = &lowered.graph;
    let mut inputs = random_inputs(graph, 3, Distribution::SmallIntegers)?;
    let id = graph.tensor_ids().find(|&id| graph.tensor(id).name == "bias").ok_or("no bias")?;
    let bias = graph.tensor(id);
    let keys = bias.dim[3] as usize;
    let values = HostTensor::from_fn(bias.data_type, &bias.dim, &bias.stride, |element| {
        let (row, key) = (element / keys, element % keys);
        [LEAST, if key % 70 == 5 { LEAST / 2.0 } else { LEAST }, if key < 200 { LEAST } else { 0.0 }, -LEAST, 1e10]
            [row % 5]
    })?;
    inputs.insert(id, values);
    let (expected, actual) = (execute(graph, &inputs)?, kernel.run(graph, &inputs)?);
    for id in graph.results() {
        // a probability and an element of O in BFLOAT16; statistics are FLOAT, from exponentials and logarithms of a few units
        let part = if graph.tensor(id).dim[3] == 1 { 1e-5 } else { 1.0 / 128.0 };
        for (element, (&a, &b)) in
            expected[&id].to_dense::<f32>()?.iter().zip(&actual[&id].to_dense::<f32>()?).enumerate()
        {
            if a != b && (a - b).abs() > a.abs().max(1.0) * part || a.is_nan() {
                return Err(format!("{} of {}: {b}, not {a}", element, graph.tensor(id).name).into());
            }
        }
    }
    Ok(())
}

/// The least number of BFLOAT16.
const LEAST: f64 = -3.389_531_389_251_535_5e38;

/// A chip of each engine.
const CHIPS: [(u32, u32); 2] = [(9, 0), (8, 0)];

/// Makes all elements of a tensor this value.
fn set(graph: &FinalizedGraph, inputs: &mut HostTensors, name: &str, value: f64) {
    for (_, tensor) in inputs.iter_mut().filter(|(id, _)| graph.tensor(**id).name == name) {
        for position in 0..tensor.elements() {
            tensor.set(position, Scalar::Float(value));
        }
    }
}

/// NaN and infinities among the elements of every floating tensor, more with every seed; in the last one little else.
fn add_special_values(inputs: &mut HostTensors, seed: u64) {
    const SPECIAL: [f64; 4] = [f64::NAN, f64::NEG_INFINITY, f64::INFINITY, f64::NEG_INFINITY];
    let spacing = [29, 7, 3, 1][seed as usize % 4];
    for tensor in inputs.values_mut() {
        if matches!(tensor.data_type, DataType::Float | DataType::Half | DataType::BFloat16) {
            for (number, position) in (0..tensor.elements()).step_by(spacing).enumerate() {
                let value = SPECIAL[(number * 7 + number / 5) % SPECIAL.len()];
                tensor.set(position, Scalar::Float(value));
            }
        }
        // a conversion to FP8 saturates
        if tensor.data_type == DataType::Fp8E5M2 {
            const SPECIAL_BITS: [u8; 3] = [0x7e, 0xfc, 0x7c];
            let positions = (0..tensor.bytes.len()).step_by(spacing).enumerate();
            positions.for_each(|(number, position)| tensor.bytes[position] = SPECIAL_BITS[number % 3]);
        }
    }
}
