//! Windows, softmax, and products of operands that are copied, over NaN, infinities and equal values: kernels on the emulator against the CPU engine.

use std::path::PathBuf;

use fusewright::emulator::EmulatedKernel;
use fusewright::graph::{DataType, FinalizedGraph, Graph, Scalar};
use fusewright::host_tensor::HostTensors;
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
        chosen.map(of_case).chain([large, sinks]).collect()
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
