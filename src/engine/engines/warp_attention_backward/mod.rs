//! An attention's backward pass by `mma.sync`, from sm_75 on, for heads of any layout up to 256 elements.
//!
//! The launches are those of Hopper's engine: what is known of each query, then tiles of keys that walk the queries for dK and dV, and tiles of
//! queries that walk the keys for dQ, so that nothing is added up by several blocks (`docs/spec/attention.md` AT-K34 (a), AT-K40).

mod model;

use super::attention::plan::push_mask;
use super::attention_backward::plan::Plan;
use super::warp_attention::{fits_registers, is_multiplied, most_held, rows};
use crate::device::Device;
use crate::engine::builder::{KernelBuilder, Shape};
use crate::engine::config::{Field, ranked};
use crate::engine::lowering::program_parameters;
use crate::engine::{Engine, EngineConfig, Knob, Offer, RankedConfig};
use crate::error::Reason;
use crate::fusion::attention_backward;
use crate::graph::FinalizedGraph;
use crate::kernel::{
    BackwardOutput, Body, Kernel, MOST_BLOCKS, Parameter, WARP_ROWS, WarpBackwardKernel, WarpBackwardTile,
};
use crate::support::attention_records::{
    FAB_CC, FAB_DO_LAYOUT, FAB_DO_STRIDE, FAB_DO_TYPE, FAB_DQKV_STRIDE, FAB_DQKV_TYPE, FAF_O_STRIDE, FAF_O_TYPE,
    FAF_Q_D, FAF_QK_STRIDE, FAF_QKV_TYPE, FAF_SCALE_TYPE, FAF_STATS_LAYOUT, FAF_V_D, FAF_V_STRIDE,
};
use crate::support::{Rule, Supported};

/// See the module.
#[derive(Clone, Copy, Debug)]
pub(super) struct WarpAttentionBackward;

const NAME: &str = "warp_attention_backward";

/// As of the forward pass.
static RELAXED: &[&Rule] = &[
    &FAB_CC,
    &FAF_QKV_TYPE,
    &FAF_O_TYPE,
    &FAB_DO_TYPE,
    &FAB_DQKV_TYPE,
    &FAF_Q_D,
    &FAF_V_D,
    &FAF_QK_STRIDE,
    &FAF_V_STRIDE,
    &FAF_O_STRIDE,
    &FAB_DO_STRIDE,
    &FAB_DQKV_STRIDE,
    &FAF_STATS_LAYOUT,
    &FAF_SCALE_TYPE,
    &FAB_DO_LAYOUT,
];

impl Engine for WarpAttentionBackward {
    fn id(&self) -> i64 {
        7
    }

    fn name(&self) -> &'static str {
        NAME
    }

    fn summary(&self) -> &'static str {
        "gradients of an attention on tensor cores by mma.sync, from sm_75 on (BF16 and FLOAT from sm_80 on): heads of any layout up to 256 \
         elements, the same bits in every run"
    }

    fn relaxes(&self) -> &'static [&'static Rule] {
        RELAXED
    }

    fn concerns(&self, graph: &FinalizedGraph) -> bool {
        attention_backward(graph).is_some()
    }

    fn take(&self, supported: &Supported) -> Result<Box<dyn Offer>, Reason> {
        let fusion = supported.fusion();
        let Some(operation) = fusion.attention_backward() else {
            return Err(Reason::Graph("a graph that is no backward pass of an attention".to_owned()));
        };
        let plan = Plan::new(fusion, operation).map_err(Reason::Graph)?;
        is_multiplied(plan.operand, supported.capability())?;
        fits_registers(plan.extents).map_err(Reason::Graph)?;
        rows::are_in_memory(&plan.graph, plan.operands).map_err(Reason::Graph)?;
        stores_no_bias_gradient(&plan).map_err(Reason::Graph)?;
        Ok(Box::new(Offered { plan }))
    }
}

fn stores_no_bias_gradient(plan: &Plan) -> Result<(), String> {
    match plan.bias_gradient {
        Some(id) => Err(format!(
            "tensor {}: no kernel for the gradient of a bias; warpgroup_attention_backward has one, on Hopper",
            plan.graph.describe_tensor(id)
        )),
        None => Ok(()),
    }
}

/// Warps of a block.
const WARPS: &[u32] = &[8, 4, 2];

/// Other rows of a step.
const STEPS: &[u32] = &[64, 32, 16];

/// Configs of an offer.
const MOST_CONFIGS: usize = 8;

/// The tiles of the passes.
#[derive(Debug)]
struct Config {
    queries: u32,
    keys: u32,
    step: u32,
}

impl Default for Config {
    fn default() -> Self {
        Self { queries: 64, keys: 64, step: 32 }
    }
}

const FIELDS: &[Field<Config>] = &[
    Field { knob: Knob::TileM, get: |config| config.queries, set: |config, value| config.queries = value },
    Field { knob: Knob::TileN, get: |config| config.keys, set: |config, value| config.keys = value },
    Field { knob: Knob::TileK, get: |config| config.step, set: |config, value| config.step = value },
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
    tile: WarpBackwardTile,
    outputs: Vec<BackwardOutput>,
}

impl Offered {
    /// The pass with two stages, or with one where there is no room for more.
    fn pass(
        &self,
        of_keys: bool,
        outputs: &[BackwardOutput],
        [rows, others]: [u32; 2],
        device: &Device,
    ) -> Option<Pass> {
        let (head, operand) = (self.plan.extents.head, self.plan.operand);
        let fits = |tile: &WarpBackwardTile| {
            tile.held_registers(outputs, operand) + self.plan.further_registers(tile.others, !of_keys)
                <= most_held(operand)
                && tile.layout(head, operand).bytes <= device.shared_bytes_per_block
        };
        let tile = |stages| WarpBackwardTile { warps: rows / WARP_ROWS, others, stages };
        let tile = [2, 1].map(tile).into_iter().find(fits)?;
        Some(Pass { of_keys, tile, outputs: outputs.to_vec() })
    }

    /// The passes of a config.
    fn passes(&self, config: &Config, device: &Device) -> Option<Vec<Pass>> {
        let rows = |of_keys| if of_keys { config.keys } else { config.queries };
        self.plan.passes(|of_keys, outputs| self.pass(of_keys, outputs, [rows(of_keys), config.step], device))
    }

    fn configs() -> impl Iterator<Item = Config> {
        let rows = || WARPS.iter().map(|warps| warps * WARP_ROWS);
        rows().flat_map(move |keys| {
            rows().flat_map(move |queries| STEPS.iter().map(move |&step| Config { queries, keys, step }))
        })
    }

    fn push(&self, builder: &mut KernelBuilder, pass: Pass, regions: &[Parameter], device: &Device) {
        let plan = &self.plan;
        let blocks = model::blocks(plan, &pass, device);
        let Pass { of_keys, tile, outputs } = pass;
        let [q, k, v, _, gradient] = plan.operands;
        let [queries, keys] = [[q, gradient], [k, v]].map(|pair| pair.map(|id| rows::of(&plan.graph, id, [3, 2])));
        let (own, others) = if of_keys { (keys, queries) } else { (queries, keys) };
        let problem = plan.problem(of_keys, outputs, rows::held_by_l2(device));
        let kernel = WarpBackwardKernel { own, others, problem, tile, blocks };
        let units = kernel.row_tiles() * kernel.problem.row_heads();
        let shape = Shape {
            grid: [u32::try_from(units.min(i64::from(MOST_BLOCKS[0]))).unwrap_or(u32::MAX), 1],
            block: [tile.threads(), 1, 1],
            shared_bytes: kernel.layout().bytes,
        };
        let (reads, stores) = kernel.touched();
        let tensors = program_parameters(reads.into_iter(), &stores, |id| plan.is_scalar(id));
        let parameters = tensors.into_iter().chain(regions.iter().copied()).collect();
        let name = if of_keys { "attention_backward_keys" } else { "attention_backward_queries" };
        builder.push(name, shape, parameters, Body::WarpAttentionBackward(Box::new(kernel)));
    }
}

impl Offer for Offered {
    fn remarks(&self) -> Vec<String> {
        rows::remarks(self.plan.operand)
    }

    fn candidates(&self, device: &Device) -> Vec<RankedConfig> {
        let priced = Self::configs().filter_map(|config| {
            let passes = self.passes(&config, device)?;
            let estimate = model::estimate(&self.plan, &passes, device);
            Some((estimate, EngineConfig::of_fields(NAME, FIELDS, &config), None))
        });
        let mut ranking = ranked(priced.collect(), 1e6);
        ranking.truncate(MOST_CONFIGS);
        ranking
    }

    fn lower(&self, config: &EngineConfig, device: &Device) -> Kernel {
        let plan = &self.plan;
        let passes = self.passes(&config.fields(FIELDS), device).unwrap_or_default();
        let mut builder = KernelBuilder::new(&plan.graph, config);
        let regions = plan.push_rows(&mut builder, STEPS[0]);
        for pass in passes {
            self.push(&mut builder, pass, &regions[..2], device);
        }
        plan.mask.iter().for_each(|mask| push_mask(&mut builder, &plan.graph, mask));
        builder.finish()
    }
}
