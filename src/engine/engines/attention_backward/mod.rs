//! Hopper's engine of an attention's backward pass: all products by `wgmma`, scores and gradients of probabilities in registers.
//!
//! A first launch makes of each query's statistic and Δ what the others read. Then either tiles of keys walk the queries for dK and dV, and
//! tiles of queries walk the keys for dQ: each multiplies the scores again, and nothing is added up by several blocks
//! (`docs/spec/attention.md` AT-K34 (a)). Or tiles of keys walk the queries for all gradients: scores are multiplied once, and dQ is added up in
//! the workspace, in an order that blocks wait for (AT-K33).

mod gradients;
mod model;
mod plan;

use super::attention::plan::{drawing_registers, push_mask};
use crate::device::Device;
use crate::engine::builder::{KernelBuilder, Shape};
use crate::engine::config::{Field, ranked};
use crate::engine::lowering::program_parameters;
use crate::engine::{Engine, EngineConfig, Knob, Offer, RankedConfig};
use crate::error::Reason;
use crate::fusion::attention_backward;
use crate::graph::{FinalizedGraph, TensorId};
use crate::kernel::{
    AttentionBackwardKernel, AttentionRowsKernel, AttentionSinksKernel, BackwardOutput, BackwardTile, Body, Kernel,
    Parameter, QuerySums, WGMMA_ROWS,
};
use crate::support::attention_records::{FAB_DO_LAYOUT, FAF_SCALE_TYPE, FAF_STATS_LAYOUT};
use crate::support::{Rule, Supported};
use plan::Plan;

/// See the module.
#[derive(Clone, Copy, Debug)]
pub(super) struct WarpgroupAttentionBackward;

const NAME: &str = "warpgroup_attention_backward";

/// Statistics and dO have strides of their own, and a number any type.
static RELAXED: &[&Rule] = &[&FAF_STATS_LAYOUT, &FAF_SCALE_TYPE, &FAB_DO_LAYOUT];

impl Engine for WarpgroupAttentionBackward {
    fn id(&self) -> i64 {
        5
    }

    fn name(&self) -> &'static str {
        NAME
    }

    fn summary(&self) -> &'static str {
        "gradients of an attention on Hopper by TMA and wgmma: 16-bit heads up to 256 elements, the same bits in every run"
    }

    fn relaxes(&self) -> &'static [&'static Rule] {
        RELAXED
    }

    fn concerns(&self, graph: &FinalizedGraph) -> bool {
        attention_backward(graph).is_some()
    }

    fn take(&self, supported: &Supported) -> Result<Box<dyn Offer>, Reason> {
        let capability = supported.capability();
        if capability.major != 9 {
            return Err(Reason::Chip(format!("wgmma is Hopper's; the chip is {capability}")));
        }
        let fusion = supported.fusion();
        let Some(operation) = fusion.attention_backward() else {
            return Err(Reason::Graph("a graph that is no backward pass of an attention".to_owned()));
        };
        Ok(Box::new(Offered { plan: Plan::new(fusion, operation).map_err(Reason::Graph)? }))
    }
}

/// Registers of a thread that brings tiles, and of one that multiplies, by the number of multiplying warpgroups.
const REGISTERS: [[u32; 2]; 4] = [[0; 2], [24, 240], [24, 240], [32, 160]];

/// Registers of scores, gradients of probabilities, fragments and sums at most.
const HELD: [u32; 4] = [0, 208, 208, 136];

/// Other rows of a step.
const STEPS: &[u32] = &[128, 112, 96, 80, 64, 48, 32, 16];

const MOST_STAGES: u32 = 4;

/// Configs of an offer.
const MOST_CONFIGS: usize = 12;

/// The tiles of the passes.
#[derive(Debug)]
struct Config {
    queries: u32,
    keys: u32,
    step: u32,
    /// Whether one pass computes all gradients: tiles of queries are its steps then.
    ordered_sums: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self { queries: 128, keys: 128, step: 64, ordered_sums: false }
    }
}

const FIELDS: &[Field<Config>] = &[
    Field { knob: Knob::TileM, get: |config| config.queries, set: |config, value| config.queries = value },
    Field { knob: Knob::TileN, get: |config| config.keys, set: |config, value| config.keys = value },
    Field { knob: Knob::TileK, get: |config| config.step, set: |config, value| config.step = value },
    Field {
        knob: Knob::OrderedSums,
        get: |config| config.ordered_sums.into(),
        set: |config, value| config.ordered_sums = value != 0,
    },
];

/// The offer of a backward pass.
#[derive(Debug)]
struct Offered {
    plan: Plan,
}

/// A pass of a kernel: its tile and what it stores.
#[derive(Clone, Debug)]
struct Pass {
    of_keys: bool,
    tile: BackwardTile,
    outputs: Vec<BackwardOutput>,
}

impl Offered {
    /// The pass with as many stages as there is room for.
    fn pass(
        &self,
        of_keys: bool,
        outputs: &[BackwardOutput],
        [rows, others]: [u32; 2],
        device: &Device,
    ) -> Option<Pass> {
        let fits = |tile: &BackwardTile| {
            tile.held_registers(outputs) + drawing_registers(self.plan.dropout) <= HELD[tile.consumers as usize]
                && tile.layout(self.plan.extents.head).bytes <= device.shared_bytes_per_block
        };
        let tile = |stages| BackwardTile { consumers: rows / WGMMA_ROWS, others, stages };
        let tile = (2..=MOST_STAGES).rev().map(tile).find(fits)?;
        Some(Pass { of_keys, tile, outputs: outputs.to_vec() })
    }

    /// The passes of a config: dK and dV together, or one after the other where registers hold no more.
    fn passes(&self, config: &Config, device: &Device) -> Option<Vec<Pass>> {
        let keys = |outputs: &[BackwardOutput]| self.pass(true, outputs, [config.keys, config.step], device);
        let of_keys = match &self.plan.of_keys[..] {
            [] => Vec::new(),
            outputs => match keys(outputs) {
                Some(both) => vec![both],
                None => outputs.chunks(1).map(keys).collect::<Option<_>>()?,
            },
        };
        let queries = |output| self.pass(false, &[output], [config.queries, config.step], device);
        let of_queries = self.plan.of_queries.into_iter().map(queries).collect::<Option<Vec<Pass>>>()?;
        Some([of_keys, of_queries].concat())
    }

    fn configs(&self) -> impl Iterator<Item = Config> + use<> {
        let rows = || (1..=3).map(|consumers| consumers * WGMMA_ROWS);
        rows().flat_map(move |keys| {
            rows().flat_map(move |queries| {
                STEPS.iter().map(move |&step| Config { queries, keys, step, ordered_sums: false })
            })
        })
    }
}

impl Offer for Offered {
    fn candidates(&self, device: &Device) -> Vec<RankedConfig> {
        let priced = self.configs().filter_map(|config| {
            let passes = self.passes(&config, device)?;
            let estimate = model::estimate(&self.plan, &passes, device);
            Some((estimate, EngineConfig::of_fields(NAME, FIELDS, &config), None))
        });
        let ordered = self.ordered_pass(device).into_iter().map(|pass| {
            let config =
                Config { queries: pass.tile.others, keys: pass.tile.rows(), step: pass.tile.others, ordered_sums: true };
            (model::ordered(&self.plan, &pass, device), EngineConfig::of_fields(NAME, FIELDS, &config), None)
        });
        let mut ranking = ranked(priced.chain(ordered).collect(), 1e6);
        ranking.truncate(MOST_CONFIGS);
        ranking
    }

    fn lower(&self, config: &EngineConfig, device: &Device) -> Kernel {
        let plan = &self.plan;
        let fields: Config = config.fields(FIELDS);
        let mut builder = KernelBuilder::new(&plan.graph, config);
        // the last step of the last head is read whole
        let floats = plan.extents.batches * plan.extents.heads * plan.padded() + i64::from(STEPS[0]);
        let mut regions = builder.regions(2 + usize::from(plan.sinks.is_some()), floats);
        let statistics = [regions[0], regions[1]];
        let ordered = if fields.ordered_sums { self.ordered_pass(device) } else { None };
        let sums = ordered.as_ref().and_then(|_| self.query_sums(&mut builder));
        regions.extend(sums.map(|(_, [_, turns])| turns));
        self.push_rows(&mut builder, &regions, sums.map(|(sums, _)| sums));
        if let Some(delta) = plan.sinks.map(|_| regions[2]) {
            self.push_sinks(&mut builder, [statistics[0], delta]);
        }
        match ordered.zip(sums) {
            Some((pass, (sums, places))) => self.push_ordered(&mut builder, pass, sums, [statistics, places], device),
            None => {
                let passes = self.passes(&fields, device).unwrap_or_default();
                passes.into_iter().for_each(|pass| self.push(&mut builder, pass, &statistics, device));
            }
        }
        plan.mask.iter().for_each(|mask| push_mask(&mut builder, &plan.graph, mask));
        builder.finish()
    }
}

impl Offered {
    fn is_scalar(&self, id: TensorId) -> bool {
        self.plan.graph.tensor(id).is_pass_by_value
    }

    /// What is known of each query, to regions of the workspace.
    fn push_rows(&self, builder: &mut KernelBuilder, regions: &[Parameter], sums: Option<QuerySums>) {
        let rows = AttentionRowsKernel { sums, ..self.plan.rows() };
        let [batches, heads, queries] = rows.extents;
        let lanes = batches * heads * queries * i64::from(rows.lanes());
        let shape = Shape::line_of_blocks(lanes, AttentionRowsKernel::THREADS);
        let tensors = program_parameters(rows.reads(), &[], |id| self.is_scalar(id));
        let parameters = tensors.into_iter().chain(regions.iter().copied()).collect();
        builder.push("attention_rows", shape, parameters, Body::AttentionRows(rows));
    }

    /// The gradient of sinks, from the statistics and Δ.
    fn push_sinks(&self, builder: &mut KernelBuilder, regions: [Parameter; 2]) {
        let Some(sinks) = self.plan.sinks() else { return };
        let grid = [u32::try_from(sinks.extents[1]).unwrap_or(u32::MAX), 1];
        let block = [AttentionSinksKernel::THREADS, 1, 1];
        let shape = Shape { grid, block, shared_bytes: AttentionSinksKernel::SHARED_BYTES };
        let tensors = [sinks.sink].into_iter().chain(sinks.lengths).chain([sinks.result]);
        let parameters = tensors.map(Parameter::Tensor).chain(regions).collect();
        builder.push("attention_sinks", shape, parameters, Body::AttentionSinks(sinks));
    }

    /// The kernel of a pass.
    fn kernel(&self, pass: Pass) -> AttentionBackwardKernel {
        let plan = &self.plan;
        let Pass { of_keys, tile, outputs } = pass;
        AttentionBackwardKernel {
            of_keys,
            maps: plan.maps(of_keys, tile),
            outputs,
            scale: plan.scale,
            operand: plan.operand,
            extents: plan.extents,
            band: plan.band,
            offsets: plan.offsets.clone(),
            dropout: plan.dropout,
            tile,
            padded: plan.padded(),
            section: model::section(plan, of_keys),
            registers: REGISTERS[tile.consumers as usize],
        }
    }

    /// Parameters of a pass, before the regions of the workspace.
    fn parameters(&self, kernel: &AttentionBackwardKernel) -> Vec<Parameter> {
        let (reads, stores) = kernel.touched();
        let maps = kernel.maps.iter().map(|&map| Parameter::TensorMap(map));
        maps.chain(program_parameters(reads.into_iter(), &stores, |id| self.is_scalar(id))).collect()
    }

    fn push(&self, builder: &mut KernelBuilder, pass: Pass, regions: &[Parameter], device: &Device) {
        let kernel = self.kernel(pass);
        let (of_keys, tile) = (kernel.of_keys, kernel.tile);
        let units = kernel.row_tiles() * kernel.row_heads();
        let shape = Shape {
            grid: [u32::try_from(units.min(i64::from(device.sm_count))).unwrap_or(u32::MAX), 1],
            block: [tile.threads(), 1, 1],
            shared_bytes: kernel.layout().bytes,
        };
        let parameters = self.parameters(&kernel).into_iter().chain(regions.iter().copied()).collect();
        let name = if of_keys { "attention_backward_keys" } else { "attention_backward_queries" };
        builder.push(name, shape, parameters, Body::AttentionBackward(Box::new(kernel)));
    }
}
