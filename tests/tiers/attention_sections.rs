//! Causal attention whose heads do not share L2 all at once, by few blocks: each section of heads begins with a turn of these, whose last has no tile
//! for some of them.

use fusewright::build::Build;
use fusewright::device::Device;
use fusewright::engine::{EngineConfig, Knob};
use fusewright::graph::Graph;
use libtest_mimic::{Failed, Trial};

use crate::cases::{self, Case};
use crate::pipeline;

/// Blocks of a launch: sections of eight tiles take an odd number of turns, or an even one, and of the last turn most, or a single tile.
const BLOCKS: [u32; 3] = [3, 5, 7];

/// Of the chip's L2: what two heads of a case read fits beside what else there is.
const L2_BYTES: u64 = 256 << 10;

/// A trial for each case with as many heads, static and dynamic.
pub(crate) fn trials(
    tier: &str,
    device: impl Fn() -> Result<Device, Failed> + Copy + Send + 'static,
    run: impl Fn(&Build) -> Result<(), Failed> + Copy + Send + 'static,
) -> Vec<Trial> {
    let trial = |case: Case| {
        Trial::test(format!("{tier}::sections::{}", case.name), move || {
            let device = device()?;
            let dynamic = case.graph.clone().with_dynamic_shapes();
            let (mut aligned, packs) = (0, case.name.ends_with("groups"));
            for (graph, blocks) in BLOCKS.map(|blocks| (&case.graph, blocks)).into_iter().chain([(&dynamic, BLOCKS[1])])
            {
                let build = lowered(graph, packs, &Device { sm_count: blocks, l2_bytes: L2_BYTES, ..device.clone() })?;
                aligned += usize::from(build.source.text.contains("has no tile for the block"));
                let of_blocks = |failed: Failed| format!("{blocks} blocks: {}", failed.message().unwrap_or_default());
                run(&build).map_err(of_blocks)?;
            }
            if aligned <= 1 {
                return Err("sections of no static graph begin with a turn".into());
            }
            Ok(())
        })
    };
    cases::all().into_iter().filter(|case| case.name.starts_with("attention_sections_")).map(trial).collect()
}

/// With tiles of 64 rows, of groups those of all their heads.
fn lowered(graph: &Graph, packs: bool, device: &Device) -> Result<Build, String> {
    let knobs = [(Knob::TileM, 64), (Knob::TileN, 64), (Knob::Stages, 2), (Knob::PackHeads, packs.into())];
    let config = EngineConfig { engine: "warpgroup_attention", knobs: knobs.to_vec() };
    pipeline::lower_config(graph, config, device)
}
