//! Attention, forward and backward, by few blocks that claim their tiles from a counter: causal, of lengths that tensors tell, ragged, in pages, in FP8, of blocks that are kept.

use fusewright::build::Build;
use fusewright::device::Device;
use fusewright::engine::{EngineConfig, Knob};
use fusewright::graph::Graph;
use libtest_mimic::{Failed, Trial};

use crate::cases::{self, Case};
use crate::pipeline;

/// Blocks of a launch: each claims several tiles.
const BLOCKS: u32 = 3;

/// Of the chip's L2: heads come in sections.
const L2_BYTES: u64 = 256 << 10;

/// Cases, behind `attention_`: among them tiles that a producer passes over without telling, and a warp that brings pages together.
const CASES: &[&str] = &[
    "sections_even",
    "sections_of_fewer_heads",
    "sections_of_groups",
    "lengths",
    "lengths_bottom_right_window",
    "ragged_all",
    "ragged_groups_few_queries",
    "pages_ragged_results",
    "dropout_groups_lengths_sinks",
    "blocks_ragged_sinks",
    "fp8_ragged",
    "bwd_causal_more_keys",
    "bwd_lengths_bottom_right_window",
    "bwd_groups_lengths",
    "bwd_ragged_all",
    "bwd_rows_without_keys",
    "bwd_fp8_ragged",
];

/// A trial for each case; sections of heads static and dynamic, gradients by both kinds of configs.
pub(crate) fn trials(
    tier: &str,
    device: impl Fn() -> Result<Device, Failed> + Copy + Send + 'static,
    run: impl Fn(&Build) -> Result<(), Failed> + Copy + Send + 'static,
) -> Vec<Trial> {
    let trial = |case: Case| {
        Trial::test(format!("{tier}::claims::{}", case.name), move || {
            let device = Device { sm_count: BLOCKS, l2_bytes: L2_BYTES, ..device()? };
            let dynamic = case.name.contains("sections").then(|| case.graph.clone().with_dynamic_shapes());
            for graph in [case.graph.clone()].into_iter().chain(dynamic) {
                for config in claimed(&graph, &device)? {
                    let build = pipeline::lower_config(&graph, config, &device)?;
                    if !build.source.text.contains("fw_claim(tile_counter, ") {
                        return Err(format!("{} claims no tile", build.config).into());
                    }
                    let of_config =
                        |failed: Failed| format!("{}: {}", build.config, failed.message().unwrap_or_default());
                    run(&build).map_err(of_config)?;
                }
            }
            Ok(())
        })
    };
    let is_tried = |case: &Case| CASES.iter().any(|name| case.name == format!("attention_{name}"));
    let cases: Vec<Case> = cases::all().into_iter().filter(is_tried).collect();
    assert_eq!(cases.len(), CASES.len(), "a case is missing");
    cases.into_iter().map(trial).collect()
}

/// The first config of each kind whose blocks have tiles alone, with claimed ones.
fn claimed(graph: &Graph, device: &Device) -> Result<Vec<EngineConfig>, String> {
    let configs = pipeline::configs(graph, device)?;
    let first = |stored: u32| {
        let is_tried = |config: &&EngineConfig| {
            config.knob(Knob::SplitK, 1) == 1 && config.knob(Knob::StoredGradients, 0) == stored
        };
        let mut config = configs.iter().find(is_tried)?.clone();
        config.knobs.retain(|(knob, _)| *knob != Knob::TileScheduler);
        config.knobs.push((Knob::TileScheduler, 1));
        Some(config)
    };
    let found: Vec<EngineConfig> = [0, 1].into_iter().filter_map(first).collect();
    if found.is_empty() { Err("no such config".to_owned()) } else { Ok(found) }
}
