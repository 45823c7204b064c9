//! Rendered kernels under review: one of each skeleton, committed as CUDA files in which sections of device code, reviewed where
//! they are written, are only named.
//!
//! `FUSEWRIGHT_BLESS=1 cargo test --test tiers golden` rewrites them; the difference is reviewed like code.

use std::fs;
use std::path::PathBuf;

use fusewright::codegen::abridged;
use fusewright::graph::Graph;
use libtest_mimic::{Failed, Trial};

use crate::{cases, pipeline};

/// Cases with a committed kernel: every skeleton, access kind and epilogue shape once.
const GOLDENS: &[&str] = &[
    "pw_broadcast_ragged",
    "pw_logical_and_boolean",
    "pw_padded_strides_two_outputs",
    "pw_mask_gaps_between_lines",
    "pw_transposed_two_operands",
    "red_genstats",
    "red_scaled_pixel",
    "red_split_channel",
    "softmax_statistics_sink",
    "attention_bias",
    "attention_groups_few_queries_lengths_sinks",
    "attention_dropout",
    "attention_pages_groups_one_query",
    "attention_blocks",
    "attention_sections_of_groups",
    "attention_bwd_fp8_causal_groups",
    "attention_bwd_groups_lengths",
    "attention_operands_in_fours",
    "attention_float_groups_lengths_sinks",
    "attention_bwd_float_groups_lengths_sinks",
    "attention_bwd_bias_float",
    "attention_bwd_bias_gradient_groups_lengths_causal",
    "attention_bwd_bias_gradient_of_keys",
    "attention_bwd_cap_bias_gradient",
    "attention_bwd_cap_float",
    "norm_batch_add_relu_mask_channels",
    "norm_instance_backward_channels_half",
    "norm_group_channels_of_forties_in_clusters",
    "norm_layer_half",
    "norm_layer_few_long_rows_half",
    "norm_batch_backward_half",
    "norm_batch_channels_bf16",
    "norm_batch_many_pixels",
    "norm_batch_of_three_gpus",
    "norm_layer_backward_many_rows",
    "norm_layer_backward_few_long_rows_bf16",
    "norm_group_backward_channels_last_half",
    "norm_finalize",
    "mm_both_mainloops_two_outputs",
    "mm_boxes_half",
    "mm_half_wide",
    "mm_boolean_output",
    "conv_fprop_add_maxpool",
    "conv_copied_wgrad_odd_inputs",
    "conv_copied_fprop_channels_first",
    "conv_unfolded_wgrad_stride_2",
    "conv_walk_fprop_3x3",
    "conv_evaluated_fprop_odd_inputs",
    "concat_channels_fprop_scale_bias_relu",
    "resample_maxpool_index_asymmetric",
    "mm_reduce_amax_all",
];

/// Those of another config than the first choice: wide tiles, clusters, tiles that are claimed, stages that are evaluated first, and taps of a row together, which small graphs would not get.
const CONFIGS: &[(&str, &str)] = &[
    (
        "attention_sections_of_groups",
        "warpgroup_attention tile_m=64 tile_n=64 stages=2 pack_heads=1 tile_scheduler=dynamic",
    ),
    ("mm_boxes_half", "warpgroup_mma tile_m=64 tile_n=64 stages=6 schedule=ping_pong tma_epilogue=1"),
    (
        "mm_half_wide",
        "warpgroup_mma tile_m=64 tile_n=96 stages=4 schedule=ping_pong cluster_m=2 cluster_n=2 tma_epilogue=1",
    ),
    (
        "conv_evaluated_fprop_odd_inputs",
        "warpgroup_mma tile_m=64 tile_n=64 stages=6 schedule=ping_pong tma_epilogue=1 evaluate_first=1",
    ),
    (
        "conv_walk_fprop_3x3",
        "warpgroup_mma tile_m=128 tile_n=48 stages=4 schedule=cooperative tap_rows=1 tma_epilogue=1",
    ),
];

pub(crate) fn trials() -> Vec<Trial> {
    let chosen = cases::all().into_iter().filter(|case| GOLDENS.contains(&case.name.as_str()));
    chosen
        .map(|case| {
            Trial::test(format!("host::golden::{}", case.name), move || matches_golden(&case.name, &case.graph))
        })
        .collect()
}

fn matches_golden(name: &str, graph: &Graph) -> Result<(), Failed> {
    let device = pipeline::typical_device();
    let lowered = match CONFIGS.iter().find(|config| config.0 == name) {
        Some((_, config)) => pipeline::lower_config(graph, config.parse()?, &device)?,
        None => pipeline::lower(graph, &device)?,
    };
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/goldens");
    let path = folder.join(format!("{name}.{}.cu", lowered.config.engine));
    let text = abridged(&lowered.source.text);
    if std::env::var_os("FUSEWRIGHT_BLESS").is_some_and(|value| value == "1") {
        fs::write(&path, &text)?;
    }
    let golden = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    match golden.lines().zip(text.lines()).position(|(old, new)| old != new) {
        Some(line) => Err(format!("line {} differs from {}", line + 1, path.display()).into()),
        None if golden.len() != text.len() => Err(format!("length differs from {}", path.display()).into()),
        None => Ok(()),
    }
}
