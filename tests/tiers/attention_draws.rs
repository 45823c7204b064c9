//! Attention by few blocks that draw their tiles from a counter: causal, of lengths that tensors tell, ragged, in pages, in FP8, of blocks that are kept.

use fusewright::build::Build;
use fusewright::device::Device;
use fusewright::engine::{EngineConfig, Knob};
use libtest_mimic::{Failed, Trial};

use crate::cases::{self, Case};
use crate::pipeline;

/// Blocks of a launch: each draws several tiles.
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
];

/// A trial for each case; sections of heads static and dynamic.
pub(crate) fn trials(
    tier: &str,
    device: impl Fn() -> Result<Device, Failed> + Copy + Send + 'static,
    run: impl Fn(&Build) -> Result<(), Failed> + Copy + Send + 'static,
) -> Vec<Trial> {
    let trial = |case: Case| {
        Trial::test(format!("{tier}::draws::{}", case.name), move || {
            let device = Device { sm_count: BLOCKS, l2_bytes: L2_BYTES, ..device()? };
            let dynamic = case.name.contains("sections").then(|| case.graph.clone().with_dynamic_shapes());
            for graph in [case.graph.clone()].into_iter().chain(dynamic) {
                let first =
                    pipeline::configs(&graph, &device)?.into_iter().find(|config| config.knob(Knob::SplitK, 1) == 1);
                let mut config: EngineConfig = first.ok_or("each config shares keys")?;
                config.knobs.retain(|(knob, _)| *knob != Knob::TileScheduler);
                config.knobs.push((Knob::TileScheduler, 1));
                let build = pipeline::lower_config(&graph, config, &device)?;
                if !build.source.text.contains("fw_draw(partial0)") {
                    return Err(format!("{} draws no tile", build.config).into());
                }
                run(&build)?;
            }
            Ok(())
        })
    };
    let is_tried = |case: &Case| CASES.iter().any(|name| case.name == format!("attention_{name}"));
    let cases: Vec<Case> = cases::all().into_iter().filter(is_tried).collect();
    assert_eq!(cases.len(), CASES.len(), "a case is missing");
    cases.into_iter().map(trial).collect()
}
