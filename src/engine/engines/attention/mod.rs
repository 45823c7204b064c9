//! Hopper's engine of attention: both products by `wgmma`, scores and probabilities in registers, any pointwise operations on scores.
//!
//! Blocks walk tiles of queries. Keys are walked from right to left, those that a mask leaves no row of a tile not at all. What a softmax
//! subtracts is a reference of each row that moves seldom (`docs/spec/attention.md` AT-K7).

pub(super) mod boxes;
mod model;
pub(super) mod plan;

use crate::device::Device;
use crate::engine::builder::{KernelBuilder, Shape};
use crate::engine::config::{Field, ranked};
use crate::engine::lowering::program_parameters;
use crate::engine::{Engine, EngineConfig, Knob, Offer, RankedConfig};
use crate::error::Reason;
use crate::fusion::is_attention;
use crate::graph::{FinalizedGraph, TensorId};
use crate::kernel::{AttentionExtents, AttentionKernel, AttentionTile, Body, Kernel, Parameter, WGMMA_ROWS};
use crate::support::attention_records::{FAF_SCALE_TYPE, FAF_STATS_LAYOUT};
use crate::support::{Rule, Supported};
use plan::{Plan, push_mask};

/// See the module.
#[derive(Clone, Copy, Debug)]
pub(super) struct WarpgroupAttention;

const NAME: &str = "warpgroup_attention";

/// Statistics have any strides, and a number any type.
static RELAXED: &[&Rule] = &[&FAF_STATS_LAYOUT, &FAF_SCALE_TYPE];

impl Engine for WarpgroupAttention {
    fn id(&self) -> i64 {
        4
    }

    fn name(&self) -> &'static str {
        NAME
    }

    fn summary(&self) -> &'static str {
        "attention on Hopper by TMA and wgmma, scores in registers: 16-bit heads up to 256 elements, any pointwise operations on scores"
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
        let operations = attention.modifiers.len();
        let plan = Plan::new(fusion, attention).map_err(Reason::Graph)?;
        Ok(Box::new(Offered { plan, operations }))
    }
}

/// Registers of a thread that brings tiles, and of one that multiplies, by the number of multiplying warpgroups.
const REGISTERS: [[u32; 2]; 4] = [[0; 2], [24, 240], [24, 240], [32, 160]];

/// Registers of scores, probabilities and O at most: what else a thread needs fits beside them.
const HELD: [u32; 4] = [0, 200, 200, 128];

/// Keys of a step.
const KEYS: &[u32] = &[176, 160, 144, 128, 112, 96, 80, 64, 48, 32, 16];

const MOST_STAGES: u32 = 4;

/// Configs of an offer.
const MOST_CONFIGS: usize = 12;

/// The tile of a block.
#[derive(Debug)]
struct Config {
    queries: u32,
    keys: u32,
    stages: u32,
    pack_heads: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self { queries: 128, keys: 64, stages: 2, pack_heads: false }
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
];

/// The offer of an attention.
#[derive(Debug)]
struct Offered {
    plan: Plan,
    /// Pointwise operations on a score.
    operations: usize,
}

/// A tile of a block, and how many heads it has rows of.
#[derive(Clone, Copy, Debug)]
struct Choice {
    tile: AttentionTile,
    packed: i64,
}

impl Offered {
    /// Tiles that fit, with as many stages as there is room for, of heads alone and of groups.
    fn choices(&self, device: &Device) -> impl Iterator<Item = Choice> {
        let (plan, shared) = (&self.plan, device.shared_bytes_per_block);
        let head = plan.extents.head;
        let fits = move |tile: &AttentionTile| {
            let held = tile.held_registers(head) + plan.further_registers(tile.keys);
            held <= HELD[tile.consumers as usize] && tile.layout(head).bytes <= shared && plan.is_within_blocks(*tile)
        };
        let staged = move |consumers, keys| {
            (2..=MOST_STAGES).rev().map(|stages| AttentionTile { consumers, keys, stages }).find(fits)
        };
        let group = plan.group();
        let packed = if group > 1 { vec![1, group] } else { vec![1] };
        let tiles = (1..=3).flat_map(move |consumers| KEYS.iter().filter_map(move |&keys| staged(consumers, keys)));
        tiles
            .flat_map(move |tile| packed.clone().into_iter().map(move |packed| Choice { tile, packed }))
            .filter(|Choice { tile, packed }| i64::from(tile.queries()) % packed == 0)
    }
}

impl Offer for Offered {
    fn candidates(&self, device: &Device) -> Vec<RankedConfig> {
        let priced = self.choices(device).map(|choice| {
            let AttentionTile { keys, stages, .. } = choice.tile;
            let config = Config { queries: choice.tile.queries(), keys, stages, pack_heads: choice.packed > 1 };
            let estimate = model::estimate(&self.plan, (choice.tile, choice.packed), self.operations, device);
            (estimate, EngineConfig::of_fields(NAME, FIELDS, &config), None)
        });
        let mut ranking = ranked(priced.collect(), 1e6);
        ranking.truncate(MOST_CONFIGS);
        ranking
    }

    fn lower(&self, config: &EngineConfig, device: &Device) -> Kernel {
        let Config { queries, keys, stages, pack_heads } = config.fields(FIELDS);
        let tile = AttentionTile { consumers: queries / WGMMA_ROWS, keys, stages };
        let plan = &self.plan;
        let packed = if pack_heads { plan.group() } else { 1 };
        let kernel = AttentionKernel {
            maps: plan.maps(tile, packed),
            output: plan.output,
            stores_vectors: plan.stores_vectors,
            statistics: plan.statistics,
            sink: plan.sink,
            operand: plan.operand,
            extents: AttentionExtents { packed, ..plan.extents },
            scores: plan.scores.clone(),
            paired: plan.paired.clone(),
            band: plan.band,
            offsets: plan.offsets.clone(),
            dropout: plan.dropout,
            tile,
            section: model::section(plan, packed),
            registers: REGISTERS[tile.consumers as usize],
        };
        let units = kernel.row_tiles() * kernel.extents.row_heads();
        let shape = Shape {
            grid: [u32::try_from(units.min(i64::from(device.sm_count))).unwrap_or(u32::MAX), 1],
            block: [tile.threads(), 1, 1],
            shared_bytes: tile.layout(plan.extents.head).bytes,
        };
        let mut builder = KernelBuilder::new(&plan.graph, config);
        builder.push("attention", shape, self.parameters(&kernel), Body::Attention(Box::new(kernel)));
        plan.mask.iter().for_each(|mask| push_mask(&mut builder, &plan.graph, mask));
        builder.finish()
    }
}

impl Offered {
    fn parameters(&self, kernel: &AttentionKernel) -> Vec<Parameter> {
        let graph = &self.plan.graph;
        let (reads, stores) = kernel.touched();
        let is_scalar = |id: TensorId| graph.tensor(id).is_pass_by_value;
        let maps = kernel.maps.iter().map(|&map| Parameter::TensorMap(map));
        maps.chain(program_parameters(reads.into_iter(), &stores, is_scalar)).collect()
    }
}
