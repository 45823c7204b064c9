//! Rendered kernels, run on the CPU by the emulator, against the CPU engine.

use std::path::PathBuf;

use fusewright::build::Build;
use fusewright::codegen::Source;
use fusewright::device::{ComputeCapability, Device};
use fusewright::emulator::EmulatedKernel;
use fusewright::engine::{EngineConfig, Knob};
use fusewright::error::Error;
use fusewright::graph::{FinalizedGraph, Graph, Operation};
use fusewright::host_tensor::HostTensors;
use fusewright::reference::{BoundOptions, Distribution, bounds_with, compare, execute, random_inputs};
use libtest_mimic::{Failed, Trial};

use crate::hopper::{self, KernelTest};
use crate::modes::{self, ModeCase};
use crate::pipeline;
use crate::tap_rows::{self, Configs};
use crate::{
    attention_claims, attention_parts, cases, clusters, data, dynamic, evaluated, infinities, rings, shape_sweep,
    stationary, stored_gradients, tier, walks, warp_attention,
};

/// Verdict graphs run in this tier: small ones, so that each takes well under a second.
const VERDICT_GRAPHS: usize = 60;

/// The newest chip without the matrix instructions that kernels use: cores run on plain multiply-adds.
const VOLTA: ComputeCapability = ComputeCapability::new(7, 0);

/// Cases run with every pair of values of two knobs of their engine: each way of an operand to shared memory, each operand type, each
/// direction of a convolution, both orientations of an epilogue, reductions, packed booleans, splits of k.
const PAIRS_OF_KNOBS: &[&str] = &[
    "mm_f32_65x63x17",
    "mm_layout_5",
    "mm_half_layout_0",
    "mm_half_layout_3",
    "mm_half_layout_5",
    "mm_int8_int8_int32_int8",
    "mm_fp8_layout_1",
    "mm_half_wide",
    "mm_int8_wide",
    "mm_tf32_wide",
    "mm_both_mainloops_two_outputs",
    "mm_boxes_half",
    "mm_half_sums_stage",
    "mm_boxes_int8_weights",
    "mm_reduce_add_all",
    "mm_reduce_amax_row",
    "mm_reduce_odd_column",
    "mm_reduce_odd_row",
    "mm_boolean_output",
    "mm_boolean_of_another_layout",
    "mm_long_k",
    "conv_fprop_many_channels",
    "conv_fprop_grouped_ragged",
    "conv_fprop_fp8_e4m3_float_half",
    "conv_fprop_genstats",
    "conv_fprop_bias_add_genstats",
    "conv_fprop_bias_add_genstats_of_stage",
    "conv_dgrad_strided_dilated_rotated",
    "conv_wgrad_scale_bias_relu",
    "conv_wgrad_max_channel",
    "conv_walk_fprop_padded_channels",
    "conv_walk_fprop_scale_bias_relu",
    "conv_walk_dgrad_stride_2",
    "conv_walk_dgrad_stride_2_of_odd_pixels",
    "conv_walk_dgrad_phases_bias_add_relu",
    "conv_walk_dgrad_phases_genstats",
    "conv_walk_wgrad_3x3",
    "conv_walk_wgrad_rotated_beyond_the_last_tap",
    "norm_dgrad_weights_3x3",
    "norm_dgrad_weights_stride_2_of_odd_pixels",
    "stored_stage_dbarcs",
    "conv_depthwise_fprop_3x3",
    "conv_depthwise_fprop_ragged_strips",
    "conv_depthwise_fprop_rows_at_stride_3",
    "conv_depthwise_fprop_5x5",
    "conv_depthwise_fprop_7x7",
    "conv_depthwise_dgrad_rows_at_stride_3",
    "conv_depthwise_dgrad_rows_at_dilation_2",
    "conv_depthwise_wgrad_ragged_strips",
    "conv_depthwise_wgrad_rows_at_stride_3",
    "conv_depthwise_wgrad_5x5",
    "conv_depthwise_wgrad_3d",
    "conv_depthwise_dgrad_strided_dilated_rotated",
    "conv_depthwise_wgrad_strided_dilated_rotated",
    "softmax_long_row",
    "attention_groups",
    "attention_soft_cap",
    "attention_blocks",
    "attention_pages_that_steps_are_no_multiples_of",
    "attention_bwd_groups_lengths",
    "attention_bwd_groups_window",
    "attention_bwd_heads_of_192_128",
    "attention_bwd_cap_heads_of_192_128",
];

/// Tiles of a block, at most, in walks; the other blocks have one fewer.
const TILES: [i64; 1] = [3];

/// The newest chip without Hopper's instructions: cores run by `mma.sync`.
const AMPERE: ComputeCapability = ComputeCapability::new(8, 0);

/// Cases with a core that multiply-adds compute on Volta.
pub(crate) fn on_volta() -> Vec<(String, Graph)> {
    on_chip(VOLTA, Operation::is_core)
}

/// Cases with an operation of some kind that a chip takes.
fn on_chip(capability: ComputeCapability, kind: fn(&Operation) -> bool) -> Vec<(String, Graph)> {
    let has_kind = |graph: &Graph| graph.finalize().is_ok_and(|graph| graph.operations().any(kind));
    let taken = |graph: &Graph| pipeline::lower(graph, &Device::typical(capability)).is_ok();
    let cases = cases::all().into_iter().filter(|case| has_kind(&case.graph) && taken(&case.graph));
    cases.map(|case| (case.name, case.graph)).collect()
}

pub(crate) fn trials() -> Vec<Trial> {
    let requirement = fusewright::emulator::compiler_version().map(drop).map_err(|error| error.to_string());
    tier("emulator", requirement, "FUSEWRIGHT_REQUIRE_EMULATOR", || {
        let suite = cases::all().into_iter().map(|case| trial(case.name, case.graph, case.capability));
        let typical = pipeline::typical_device().capability;
        let verdicts = data::small_verdicts(VERDICT_GRAPHS);
        let graphs = suite.chain(verdicts.into_iter().map(|(name, graph)| trial(name, graph, typical)));
        let graphs =
            graphs.chain(on_volta().into_iter().map(|(name, graph)| trial(format!("sm_70::{name}"), graph, VOLTA)));
        let on_ampere = on_chip(AMPERE, Operation::is_core).into_iter();
        let graphs = graphs.chain(on_ampere.map(|(name, graph)| trial(format!("sm_80::{name}"), graph, AMPERE)));
        let in_pairs = cases::all().into_iter().filter(|case| PAIRS_OF_KNOBS.contains(&case.name.as_str()));
        let graphs = graphs.chain(in_pairs.map(|case| config_trial(case.name, case.graph)));
        let graphs = graphs.chain(shape_sweep::emulated(run_lowered));
        let graphs = graphs.chain(walks::trials("emulator", &TILES, || Ok(pipeline::typical_device()), run_lowered));
        let typical = || Ok(pipeline::typical_device());
        let graphs = graphs.chain(tap_rows::trials("emulator", Configs::AtMost(2), typical, run_lowered));
        let graphs = graphs.chain(tap_rows::infinities("emulator", Configs::AtMost(1), typical, run_inputs));
        let graphs = graphs.chain(clusters::trials("emulator", 4, typical, run_lowered));
        let graphs = graphs.chain(stationary::trials("emulator", 2, typical, run_lowered));
        let graphs = graphs.chain(rings::trials("emulator", typical, run_lowered));
        let graphs = graphs.chain(evaluated::trials("emulator", typical, run_lowered));
        let graphs = graphs.chain(dynamic::trials("emulator", typical, run_lowered));
        let graphs = graphs.chain(warp_attention::run("emulator", run_lowered));
        let graphs = graphs.chain(attention_parts::trials("emulator", typical, run_lowered));
        let graphs = graphs.chain(attention_claims::trials("emulator", typical, run_lowered));
        let graphs = graphs.chain(stored_gradients::trials("emulator", typical, run_lowered));
        let on_typical = infinities::trials("emulator", || Ok(pipeline::typical_device()), run_inputs);
        let on_ampere =
            infinities::trials_on_other_chips("emulator::sm_80", || Ok(Device::typical(AMPERE)), run_inputs);
        let on_volta = infinities::trials_on_other_chips("emulator::sm_70", || Ok(Device::typical(VOLTA)), run_inputs);
        let graphs = graphs.chain(on_typical).chain(on_ampere).chain(on_volta);
        graphs.chain(modes::trials("emulator", run_mode)).chain(hopper::trials("emulator", run_kernel)).collect()
    })
}

fn trial(name: String, graph: Graph, capability: ComputeCapability) -> Trial {
    Trial::test(format!("emulator::{name}"), move || {
        run_lowered(&pipeline::lower(&graph, &Device::typical(capability))?)
    })
}

fn run_lowered(lowered: &Build) -> Result<(), Failed> {
    let kernel = emulated(&lowered.source)?;
    for distribution in [Distribution::Normal, Distribution::SmallIntegers] {
        agrees(lowered, &kernel, distribution)?;
    }
    Ok(())
}

fn run_inputs(lowered: &Build, inputs: &HostTensors) -> Result<HostTensors, Failed> {
    Ok(emulated(&lowered.source)?.run(&lowered.graph, inputs)?)
}

/// Small-integer inputs: every config has to give the same sums. Those of tap rows have trials of their own.
fn config_trial(name: String, graph: Graph) -> Trial {
    Trial::test(format!("emulator::pairs_of_knobs::{name}"), move || {
        let device = pipeline::typical_device();
        let is_other = |config: &EngineConfig| config.knob(Knob::TapRows, 0) == 0;
        for config in pipeline::configs_of_all_pairs(&graph, &device)?.into_iter().filter(is_other) {
            let lowered = pipeline::lower_config(&graph, config, &device)?;
            let kernel = emulated(&lowered.source)?;
            agrees(&lowered, &kernel, Distribution::SmallIntegers)?;
        }
        Ok(())
    })
}

fn agrees(lowered: &Build, kernel: &EmulatedKernel, distribution: Distribution) -> Result<(), Failed> {
    let graph = &lowered.graph;
    let inputs = random_inputs(graph, 7, distribution)?;
    let bounds = bounds_with(graph, &inputs, BoundOptions { tf32: lowered.source.uses_tf32, fp8: false })?;
    let comparison = compare(graph, &execute(graph, &inputs)?, &kernel.run(graph, &inputs)?, Some(&bounds))?;
    if comparison.is_match() {
        Ok(())
    } else {
        Err(format!("{distribution:?} inputs, {}\n{comparison}", lowered.config).into())
    }
}

fn run_mode(case: &ModeCase, graph: &FinalizedGraph, inputs: &HostTensors) -> Result<HostTensors, Failed> {
    let lowered = pipeline::lower(&case.graph, &pipeline::typical_device())?;
    Ok(emulated(&lowered.source)?.run(graph, inputs)?)
}

fn run_kernel(test: &KernelTest) -> Result<Option<HostTensors>, Failed> {
    Ok(Some(emulated(&test.source)?.run(&test.graph, &test.inputs)?))
}

/// A kernel of a graph, which it is run for.
fn emulated(source: &Source) -> Result<EmulatedKernel, Failed> {
    const LOG_LINES: usize = 12;
    // SAFETY: the tests run each source for the graph that it was rendered from or written for.
    unsafe { EmulatedKernel::compile(source, &cache_dir()) }.map_err(|error| match error {
        Error::Generated { message, log, .. } => {
            let log: Vec<&str> = log.lines().take(LOG_LINES).collect();
            format!("{message}\n{}", log.join("\n")).into()
        }
        error => error.into(),
    })
}

/// Compiled kernels are kept beside the test binary, so that a second run is quick.
pub(crate) fn cache_dir() -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("emulator")
}
