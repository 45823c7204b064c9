//! Hopper's engine of attention: both products by `wgmma`, scores and probabilities in registers, any pointwise operations on scores.
//!
//! Blocks walk tiles of queries. Keys are walked from right to left, those that a mask leaves no row of a tile not at all. What a softmax
//! subtracts is a reference of each row that moves seldom (`docs/spec/attention.md` AT-K7).

pub(super) mod boxes;
mod model;
mod pages;
pub(super) mod plan;
pub(super) mod scaling;

use crate::device::Device;
use crate::engine::builder::{KernelBuilder, Shape};
use crate::engine::config::{Field, ranked};
use crate::engine::lowering::program_parameters;
use crate::engine::{Engine, EngineConfig, Knob, Offer, RankedConfig};
use crate::error::Reason;
use crate::fusion::is_attention;
use crate::graph::{FinalizedGraph, TensorId};
use crate::kernel::{
    AttentionCombinationKernel, AttentionKernel, AttentionProblem, AttentionTile, Body, Kernel, MmaType, Parameter,
    TurnedValuesKernel, WGMMA_ROWS,
};
use crate::support::attention_records::{
    F8_MANDATORY, F8F_FACTORS, F8F_O, F8F_PRE, F8F_STATS, F8F_STRIDES, FAF_PAGE_POW2, FAF_PAGE_TABLE, FAF_PAGE_TYPE,
    FAF_SCALE_TYPE, FAF_STATS_LAYOUT,
};
use crate::support::{Rule, Supported};
use plan::{Plan, held_by_l2, push_mask};

/// See the module.
#[derive(Clone, Copy, Debug)]
pub(super) struct WarpgroupAttention;

const NAME: &str = "warpgroup_attention";

/// In FP8, scores are what they are in 16 bits, and what scales may be missing. Statistics have any strides, a number any type, pages any number of rows, and tables further entries, of either type.
static RELAXED: &[&Rule] = &[
    &FAF_STATS_LAYOUT,
    &FAF_SCALE_TYPE,
    &FAF_PAGE_POW2,
    &FAF_PAGE_TABLE,
    &FAF_PAGE_TYPE,
    &F8F_PRE,
    &F8_MANDATORY,
    &F8F_STRIDES,
    &F8F_STATS,
    &F8F_O,
    &F8F_FACTORS,
];

impl Engine for WarpgroupAttention {
    fn id(&self) -> i64 {
        4
    }

    fn name(&self) -> &'static str {
        NAME
    }

    fn summary(&self) -> &'static str {
        "attention on Hopper by TMA and wgmma, scores in registers: heads of 16 bits, or in FP8, up to 256 elements, any pointwise operations on \
         scores"
    }

    fn relaxes(&self) -> &'static [&'static Rule] {
        RELAXED
    }

    fn concerns(&self, graph: &FinalizedGraph) -> bool {
        is_attention(graph)
    }

    fn take(&self, supported: &Supported) -> Result<Box<dyn Offer>, Reason> {
        let capability = supported.capability();
        if capability.major != 9 {
            return Err(Reason::Chip(format!("wgmma is Hopper's; the chip is {capability}")));
        }
        let fusion = supported.fusion();
        let Some(attention) = fusion.attention() else {
            return Err(Reason::Graph("a graph that is no attention".to_owned()));
        };
        let plan = Plan::boxed(fusion, attention).map_err(Reason::Graph)?;
        Ok(Box::new(Offered { plan }))
    }
}

/// Registers of a thread that brings tiles, and of one that multiplies, by the number of multiplying warpgroups.
const REGISTERS: [[u32; 2]; 4] = [[0; 2], [24, 240], [24, 240], [32, 160]];

/// Registers of scores, probabilities and O at most: what else a thread needs fits beside them.
const HELD: [u32; 4] = [0, 200, 200, 128];

/// Keys of a step in FP8: whole lines of keys side by side.
const KEYS_IN_FP8: &[u32] = &[160, 128, 96, 64, 32];

/// Keys of a step.
const KEYS: &[u32] = &[176, 160, 144, 128, 112, 96, 80, 64, 48, 32, 16];

const MOST_STAGES: u32 = 4;

/// Blocks that share the keys of a row, beside as many as fill the chip.
const PARTS: &[i64] = &[2, 4, 8, 16, AttentionProblem::MOST_PARTS];

/// Steps of each of them at least, of the longest row: fewer than the four of AT-K23, so that few keys are shared too.
const LEAST_STEPS: i64 = 2;

/// Multiplying warpgroups of a block that shares keys, at most: its rows are few.
const MOST_CONSUMERS: u32 = 2;

/// The largest share of multiprocessors with a tile where blocks share keys (AT-K23).
const FILLED: f64 = 0.8;

/// Configs of an offer, beside the first with the other scheduler.
const MOST_CONFIGS: usize = 12;

/// The tile of a block.
#[derive(Debug)]
struct Config {
    queries: u32,
    keys: u32,
    stages: u32,
    pack_heads: bool,
    splits: u32,
    claims: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self { queries: 128, keys: 64, stages: 2, pack_heads: false, splits: 1, claims: false }
    }
}

const FIELDS: &[Field<Config>] = &[
    Field { knob: Knob::TileM, get: |config| config.queries, set: |config, value| config.queries = value },
    Field { knob: Knob::TileN, get: |config| config.keys, set: |config, value| config.keys = value },
    Field { knob: Knob::Stages, get: |config| config.stages, set: |config, value| config.stages = value },
    Field {
        knob: Knob::PackHeads,
        get: |config| u32::from(config.pack_heads),
        set: |config, value| config.pack_heads = value != 0,
    },
    Field { knob: Knob::SplitK, get: |config| config.splits, set: |config, value| config.splits = value },
    Field {
        knob: Knob::TileScheduler,
        get: |config| u32::from(config.claims),
        set: |config, value| config.claims = value == 1,
    },
];

/// The offer of an attention.
#[derive(Debug)]
struct Offered {
    plan: Plan,
}

/// A tile of a block, how many heads it has rows of, and how many blocks share its keys.
#[derive(Clone, Copy, Debug)]
struct Choice {
    tile: AttentionTile,
    packed: i64,
    parts: i64,
}

impl Offered {
    /// Tiles that fit, with as many stages as there is room for, of heads alone and of groups, of which blocks share keys where these leave
    /// multiprocessors without a tile.
    fn choices(&self, device: &Device) -> impl Iterator<Item = Choice> {
        let (plan, shared) = (&self.plan, device.shared_bytes_per_block);
        let (head, operand) = (plan.extents().head, plan.problem.operand);
        let steps = if operand == MmaType::Fp8 { KEYS_IN_FP8 } else { KEYS };
        let fits = move |tile: &AttentionTile| {
            let held = tile.held_registers(head, operand) + plan.further_registers(tile.keys);
            held <= HELD[tile.consumers as usize]
                && tile.layout(head, operand).bytes <= shared
                && plan.is_within_blocks([tile.queries(), tile.keys])
        };
        let staged = move |consumers, keys| {
            (2..=MOST_STAGES).rev().map(|stages| AttentionTile { consumers, keys, stages }).find(fits)
        };
        let group = plan.group();
        let packed = if group > 1 { vec![1, group] } else { vec![1] };
        let tiles = (1..=3).flat_map(move |consumers| steps.iter().filter_map(move |&keys| staged(consumers, keys)));
        tiles
            .flat_map(move |tile| packed.clone().into_iter().map(move |packed| Choice { tile, packed, parts: 1 }))
            .filter(|Choice { tile, packed, .. }| i64::from(tile.queries()) % packed == 0)
            .flat_map(move |choice| self.parts(choice, device).into_iter().map(move |parts| Choice { parts, ..choice }))
    }

    /// Numbers of blocks that may share the keys of a choice's rows.
    fn parts(&self, Choice { tile, packed, .. }: Choice, device: &Device) -> Vec<i64> {
        let plan = &self.plan;
        let steps: Vec<i64> = plan.steps([tile.queries(), tile.keys], packed).collect();
        let tiles = (steps.len() as i64) * plan.extents().batches * plan.extents().heads / packed;
        let most = (steps.iter().copied().max().unwrap_or(0) / LEAST_STEPS).min(AttentionProblem::MOST_PARTS);
        let multiprocessors = i64::from(device.sm_count);
        let is_filled = tiles as f64 >= FILLED * multiprocessors as f64;
        if is_filled || tile.consumers > MOST_CONSUMERS || !plan.may_split() {
            return vec![1];
        }
        let mut parts: Vec<i64> = PARTS.iter().copied().chain([1, multiprocessors / tiles.max(1)]).collect();
        parts.retain(|&parts| parts == 1 || (2..=most).contains(&parts));
        parts.sort_unstable();
        parts.dedup();
        parts
    }
}

impl Offer for Offered {
    fn candidates(&self, device: &Device) -> Vec<RankedConfig> {
        let priced = self.choices(device).map(|choice| {
            let Choice { tile, packed, parts } = choice;
            let AttentionTile { keys, stages, .. } = tile;
            let splits = u32::try_from(parts).unwrap_or(1);
            let (estimate, claims) = model::price(&self.plan, (tile, packed, parts), device);
            let config = Config { queries: tile.queries(), keys, stages, pack_heads: packed > 1, splits, claims };
            (estimate, EngineConfig::of_fields(NAME, FIELDS, &config), None)
        });
        let mut ranking = ranked(priced.collect(), 1e6);
        ranking.truncate(MOST_CONFIGS);
        let other = ranking.first().filter(|first| self.has_turns(&first.config, device));
        if let Some(other) = other.map(RankedConfig::with_other_scheduler) {
            ranking.insert(1, other);
        }
        ranking
    }

    fn lower(&self, config: &EngineConfig, device: &Device) -> Kernel {
        let Config { queries, keys, stages, pack_heads, splits, claims } = config.fields(FIELDS);
        let tile = AttentionTile { consumers: queries / WGMMA_ROWS, keys, stages };
        let plan = &self.plan;
        let packed = if pack_heads { plan.group() } else { 1 };
        let mut problem = AttentionProblem { parts: splits.into(), ..plan.packed_problem(packed, held_by_l2(device)) };
        if problem.operand == MmaType::Fp8 {
            problem.pages[1] = None; // values come out of their pages as they are turned
        }
        let blocks = problem.units(tile.queries()).min(i64::from(device.sm_count));
        problem.claims = claims;
        let kernel = AttentionKernel {
            maps: plan.maps(tile, packed),
            problem,
            tile,
            registers: REGISTERS[tile.consumers as usize],
        };
        let shape = Shape {
            grid: [u32::try_from(blocks).unwrap_or(u32::MAX), 1],
            block: [tile.threads(), 1, 1],
            shared_bytes: tile.layout(plan.extents().head, plan.problem.operand).bytes,
        };
        let mut builder = KernelBuilder::new(&plan.graph, config);
        let turned = (plan.problem.operand == MmaType::Fp8).then(|| self.push_turned(&mut builder));
        let combination = (splits > 1).then(|| plan.combination(&kernel.problem));
        let counter = kernel.problem.claims.then(|| builder.push_tile_counter());
        let region = |floats| Parameter::Workspace { offset: builder.region(floats) };
        let regions = combination.iter().flat_map(|it| it.problem.part_floats()).map(region).collect::<Vec<_>>();
        let touched = self.touched(kernel.problem.touched());
        let parameters =
            maps(&kernel, turned).into_iter().chain(touched).chain(counter).chain(regions.clone()).collect();
        builder.push("attention", shape, parameters, Body::Attention(Box::new(kernel)));
        if let Some(kernel) = combination {
            self.push_combination(&mut builder, kernel, regions);
        }
        plan.mask.iter().for_each(|mask| push_mask(&mut builder, &plan.graph, mask));
        builder.finish()
    }
}

/// Parameters of a kernel's maps, of which values may lie in the workspace.
fn maps(kernel: &AttentionKernel, turned: Option<u64>) -> [Parameter; 3] {
    let [q, k, v] = kernel.maps;
    let values = turned.map_or(Parameter::TensorMap(v), |offset| Parameter::IntermediateMap { map: v, offset });
    [Parameter::TensorMap(q), Parameter::TensorMap(k), values]
}

impl Offered {
    /// Whether blocks of a config have several tiles each, alone.
    fn has_turns(&self, config: &EngineConfig, device: &Device) -> bool {
        let Config { queries, pack_heads, splits, .. } = config.fields(FIELDS);
        let packed = if pack_heads { self.plan.group() } else { 1 };
        let problem = self.plan.packed_problem(packed, held_by_l2(device));
        splits == 1 && problem.units(queries) > i64::from(device.sm_count)
    }

    /// Adds the function that puts keys of values side by side; gives where.
    fn push_turned(&self, builder: &mut KernelBuilder) -> u64 {
        let kernel = self.plan.turned_values();
        let offset = builder.region((kernel.bytes() + 3) / 4);
        let threads = TurnedValuesKernel::THREADS;
        let blocks = Shape::line_of_blocks(kernel.blocks() * i64::from(threads), threads);
        let shape = Shape { shared_bytes: kernel.shared_bytes(), ..blocks };
        let parameters = self.touched(kernel.touched()).into_iter().chain([Parameter::Workspace { offset }]).collect();
        builder.push("turned_values", shape, parameters, Body::TurnedValues(kernel));
        offset
    }

    /// Adds the function that puts together what parts left in these regions.
    fn push_combination(
        &self,
        builder: &mut KernelBuilder,
        kernel: AttentionCombinationKernel,
        regions: Vec<Parameter>,
    ) {
        const LANES: i64 = 32;
        let shape = Shape::line_of_blocks(kernel.problem.all_rows() * LANES, AttentionCombinationKernel::THREADS);
        let parameters = self.touched(kernel.touched()).into_iter().chain(regions).collect();
        builder.push("combination", shape, parameters, Body::AttentionCombination(Box::new(kernel)));
    }

    /// Parameters of what a kernel reads and stores.
    fn touched(&self, (reads, stores): (Vec<TensorId>, Vec<TensorId>)) -> Vec<Parameter> {
        let is_scalar = |id: TensorId| self.plan.graph.tensor(id).is_pass_by_value;
        program_parameters(reads.into_iter(), &stores, is_scalar)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::device::ComputeCapability;
    use crate::engine::select;
    use crate::frontend;

    /// Schedulers of the first two configs of a graph of the suite on a chip, or of those that there are.
    fn schedulers(device: &Device) -> Vec<u32> {
        const NAME_OF_GRAPH: &str = "sdpa_fwd_bf16_s4096_d128_causal";
        let path = format!("{}/tests/data/suite/{NAME_OF_GRAPH}.json", env!("CARGO_MANIFEST_DIR"));
        let bytes = std::fs::read(&path).expect("a file of the repository");
        let graph = frontend::read_graph(NAME_OF_GRAPH, &bytes).expect("a graph").finalize().expect("well formed");
        let selection = select(&Arc::new(graph), ComputeCapability::SM_90).expect("an engine takes it");
        assert_eq!(selection.engine().name(), NAME);
        let configs = selection.candidates(device).into_iter().take(2);
        configs.map(|ranked| ranked.config.knob(Knob::TileScheduler, 0)).collect()
    }

    #[test]
    fn the_other_scheduler_is_offered_second_where_blocks_have_several_tiles() {
        let chip = Device { sm_count: 132, ..Device::typical(ComputeCapability::SM_90) };
        assert_eq!(schedulers(&chip), [1, 0]);
        let vast = Device { sm_count: 1 << 20, ..chip.clone() };
        assert_eq!(schedulers(&vast), [0, 0], "a block has one tile");
        let tiny = Device { shared_bytes_per_block: 1, ..chip };
        assert_eq!(schedulers(&tiny), [0; 0], "no config fits");
    }
}
