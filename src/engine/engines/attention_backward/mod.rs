//! Hopper's engine of an attention's backward pass: all products by `wgmma`, scores and gradients of probabilities in registers.
//!
//! Heads in FP8 become FP16 in the workspace first. A launch makes of each query's statistic and Δ what the others read. Then tiles of keys walk the
//! queries for dK and dV, and tiles of queries walk the keys for dQ: each multiplies the scores again, and nothing is added up by several blocks
//! (`docs/spec/attention.md` AT-K34 (a)). Or tiles of keys leave the gradients of scores in the workspace,
//! of a part of the heads at a time, and dQ is multiplied of these (AT-K34 (b)). The gradient of a bias is a launch of its own (AT-K37).

mod bias;
mod model;
pub(super) mod plan;
mod queries;
pub(super) mod scaling;

use super::attention::plan::push_mask;
use crate::device::Device;
use crate::engine::builder::{KernelBuilder, Shape};
use crate::engine::config::{Field, ranked};
use crate::engine::lowering::program_parameters;
use crate::engine::{Engine, EngineConfig, Knob, Offer, RankedConfig};
use crate::error::Reason;
use crate::fusion::attention_backward;
use crate::graph::FinalizedGraph;
use crate::kernel::{AttentionBackwardKernel, BackwardOutput, BackwardTile, Body, Kernel, Parameter, WGMMA_ROWS};
use crate::support::attention_records::{
    F8B_DO_D, F8B_DO_LAYOUT, F8B_DO_STRIDE, F8B_DQKV_D, F8B_DQKV_STRIDE, F8B_DQKV_TYPE, F8B_PRE, F8B_SCALES,
    F8F_FACTORS, F8F_O, F8F_STATS, F8F_STRIDES, F8F_TYPE, FAB_DO_LAYOUT, FAF_SCALE_TYPE, FAF_STATS_LAYOUT,
};
use crate::support::{Rule, Supported};
use plan::Plan;

/// See the module.
#[derive(Clone, Copy, Debug)]
pub(super) struct WarpgroupAttentionBackward;

const NAME: &str = "warpgroup_attention_backward";

/// Statistics and dO have strides of their own, and a number any type. Heads in FP8 become FP16 whatever their type, strides and size; scores of
/// theirs have all masks, and what scales may be missing.
static RELAXED: &[&Rule] = &[
    &FAF_STATS_LAYOUT,
    &FAF_SCALE_TYPE,
    &FAB_DO_LAYOUT,
    &F8B_PRE,
    &F8B_SCALES,
    &F8B_DQKV_TYPE,
    &F8B_DQKV_D,
    &F8B_DQKV_STRIDE,
    &F8B_DO_D,
    &F8B_DO_STRIDE,
    &F8B_DO_LAYOUT,
    &F8F_TYPE,
    &F8F_STRIDES,
    &F8F_STATS,
    &F8F_O,
    &F8F_FACTORS,
];

impl Engine for WarpgroupAttentionBackward {
    fn id(&self) -> i64 {
        5
    }

    fn name(&self) -> &'static str {
        NAME
    }

    fn summary(&self) -> &'static str {
        "gradients of an attention on Hopper by TMA and wgmma: heads of 16 bits, and of FP8, up to 256 elements, the same bits in every run"
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
        Ok(Box::new(Offered { plan: Plan::boxed(fusion, operation).map_err(Reason::Graph)? }))
    }
}

/// Registers of a thread that brings tiles, and of one that multiplies, by the number of multiplying warpgroups. Beside one of these NVRTC 13.0 spills
/// where heads are grouped and a thread that brings tiles has 24.
const REGISTERS: [[u32; 2]; 4] = [[0; 2], [40, 240], [24, 240], [32, 160]];

/// The same where scores have a bias, slopes, or a mask of dropout: beside these NVRTC 13.0 spills in the warpgroup that brings tiles if that has 24.
const REGISTERS_BESIDE_READS: [[u32; 2]; 4] = [[0; 2], [40, 240], [40, 232], [32, 160]];

/// Registers of a kernel's threads.
fn registers(plan: &Plan, tile: BackwardTile) -> [u32; 2] {
    let is_masked = plan.dropout.is_some_and(|dropout| dropout.masked().is_some());
    let reads = plan.bias.is_some() || plan.slopes.is_some() || is_masked;
    let of_kernels = if reads { REGISTERS_BESIDE_READS } else { REGISTERS };
    of_kernels[tile.consumers as usize]
}

/// Registers of scores, gradients of probabilities, fragments and sums at most: beyond these NVRTC 13.0 spills, or serializes `wgmma` (C7512).
const HELD: [u32; 4] = [0, 208, 208, 128];

/// Other rows of a step.
const STEPS: &[u32] = &[128, 112, 96, 80, 64, 48, 32, 16];

/// Those at most of a step whose scores are capped, up to how many NVRTC 13.0 computes caps one after the other, and what registers more of them
/// take side by side: beyond 64 it spills whatever else a thread holds.
const MOST_CAPPED: u32 = 64;
const CAPPED_IN_TURN: u32 = 48;
const CAPPED_SIDE_BY_SIDE: u32 = 32;

/// Those of a lone warpgroup for what it draws, beyond others, where a step has all of the others: NVRTC 13.0 spills 28 bytes else (70 queries in a step of 80,
/// heads of 64, half of the probabilities kept).
const DRAWN_AT_ONCE: u32 = 4;

const MOST_STAGES: u32 = 4;

/// Multiplying warpgroups of a block, at most.
const MOST_CONSUMERS: u32 = 3;

/// Configs of an offer, beside the first with claimed tiles.
const MOST_CONFIGS: usize = 12;

/// The tiles of the passes.
#[derive(Debug)]
struct Config {
    queries: u32,
    keys: u32,
    step: u32,
    /// Whether gradients of scores are left in the workspace.
    stores: bool,
    /// Whether blocks claim their tiles.
    claims: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self { queries: 128, keys: 128, step: 64, stores: false, claims: false }
    }
}

const FIELDS: &[Field<Config>] = &[
    Field { knob: Knob::TileM, get: |config| config.queries, set: |config, value| config.queries = value },
    Field { knob: Knob::TileN, get: |config| config.keys, set: |config, value| config.keys = value },
    Field { knob: Knob::TileK, get: |config| config.step, set: |config, value| config.step = value },
    Field {
        knob: Knob::StoredGradients,
        get: |config| u32::from(config.stores),
        set: |config, value| config.stores = value == 1,
    },
    Field {
        knob: Knob::TileScheduler,
        get: |config| u32::from(config.claims),
        set: |config, value| config.claims = value == 1,
    },
];

/// What passes find in the workspace.
#[derive(Clone, Copy, Debug)]
struct Memory<'a> {
    /// What is known of queries, and what else a pass is told.
    regions: &'a [Parameter],
    /// Heads as FP16.
    halves: Option<[u64; 4]>,
    /// The counter of tiles, where blocks claim these.
    counter: Option<Parameter>,
}

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
        leaves_gradients: bool,
        device: &Device,
    ) -> Option<Pass> {
        let is_capped = self.plan.cap.is_some();
        if is_capped && others > MOST_CAPPED {
            return None;
        }
        let of_caps = if is_capped && others > CAPPED_IN_TURN { CAPPED_SIDE_BY_SIDE } else { 0 };
        let of_left = if leaves_gradients { queries::OF_LEFT } else { 0 };
        let all = if of_keys { self.plan.extents.queries } else { self.plan.extents.keys };
        let draws_at_once = self.plan.drawing_registers() > 0 && rows == WGMMA_ROWS && all <= i64::from(others);
        let of_draws = if draws_at_once { DRAWN_AT_ONCE } else { 0 };
        let fits = |tile: &BackwardTile| {
            let further = self.plan.further_registers(tile.others, !of_keys) + of_caps + of_left + of_draws;
            tile.held_registers(outputs) + further <= HELD[tile.consumers as usize]
                && tile.layout(self.plan.extents.head).bytes <= device.shared_bytes_per_block
        };
        let tile = |stages| BackwardTile { consumers: rows / WGMMA_ROWS, others, stages };
        let tile = (2..=MOST_STAGES).rev().map(tile).find(fits)?;
        Some(Pass { of_keys, tile, outputs: outputs.to_vec() })
    }

    fn configs(&self) -> impl Iterator<Item = Config> + use<> {
        let rows = || (1..=MOST_CONSUMERS).map(|consumers| consumers * WGMMA_ROWS);
        let of = move |queries: u32, stores: bool| {
            rows().flat_map(move |keys| {
                STEPS.iter().map(move |&step| Config { queries, keys, step, stores, claims: false })
            })
        };
        let stored = (1..=queries::MOST_PARTS_OF_TILE).flat_map(move |parts| of(parts * WGMMA_ROWS, true));
        rows().flat_map(move |queries| of(queries, false)).chain(stored)
    }
}

impl Offer for Offered {
    fn candidates(&self, device: &Device) -> Vec<RankedConfig> {
        let of_bias = bias::kernel(&self.plan, device);
        let priced = self.configs().filter_map(|config| {
            let passes = self.passes(&config, device)?;
            let estimate = model::estimate(&self.plan, &passes, of_bias.as_ref(), device);
            Some((estimate, EngineConfig::of_fields(NAME, FIELDS, &config), None))
        });
        let mut ranking = ranked(priced.collect(), 1e6);
        let is_stored = |it: &RankedConfig| it.config.knob(Knob::StoredGradients, 0) == 1;
        let later = ranking.split_off(ranking.len().min(MOST_CONFIGS));
        // the better of both ways is told by measuring, too
        for stored in [false, true] {
            if !ranking.iter().any(|it| is_stored(it) == stored) {
                ranking.extend(later.iter().find(|it| is_stored(it) == stored).cloned());
            }
        }
        // what claiming gains was not measured: it is no first choice
        if let Some(claimed) =
            ranking.first().filter(|_| self.has_turns(device)).map(RankedConfig::with_other_scheduler)
        {
            ranking.insert(1, claimed);
        }
        ranking
    }

    fn lower(&self, config: &EngineConfig, device: &Device) -> Kernel {
        let plan = &self.plan;
        let chosen: Config = config.fields(FIELDS);
        let passes = self.passes(&chosen, device);
        let mut builder = KernelBuilder::new(&plan.graph, config);
        let counter = chosen.claims.then(|| builder.push_tile_counter());
        let halves = plan.push_half_rows(&mut builder);
        // a step may begin beside the last queries of a part that is stored together, and end beyond them
        let regions = plan.push_rows(&mut builder, 2 * STEPS[0]);
        if let [statistics, _, delta, ..] = regions[..] {
            self.push_bias(&mut builder, [statistics, delta], device);
        }
        if let Some(passes) = passes {
            let memory = Memory { regions: &regions[..2], halves, counter };
            self.push_passes(&mut builder, passes, memory, device);
        }
        plan.mask.iter().for_each(|mask| push_mask(&mut builder, &plan.graph, mask));
        builder.finish()
    }
}

impl Offered {
    /// Whether there are more tiles than multiprocessors.
    fn has_turns(&self, device: &Device) -> bool {
        let (extents, rows) = (self.plan.extents, i64::from(WGMMA_ROWS * MOST_CONSUMERS));
        let tiles = (extents.queries.max(extents.keys) + rows - 1) / rows;
        extents.batches * extents.heads * tiles > i64::from(device.sm_count)
    }

    /// The gradient of the bias, from the statistics and Δ.
    fn push_bias(&self, builder: &mut KernelBuilder, regions: [Parameter; 2], device: &Device) {
        let Some(kernel) = bias::kernel(&self.plan, device) else { return };
        let tile = kernel.pass.tile;
        let units = kernel.counts()[0].min(i64::from(device.sm_count));
        let shape = Shape {
            grid: [u32::try_from(units).unwrap_or(u32::MAX), 1],
            block: [tile.threads(), 1, 1],
            shared_bytes: kernel.layout().bytes,
        };
        let (reads, stores) = kernel.touched();
        let maps = kernel.pass.maps.iter().map(|&map| Parameter::TensorMap(map));
        let others = program_parameters(reads.into_iter(), &stores, |id| self.plan.is_scalar(id));
        let parameters = maps.chain(others).chain(regions).collect();
        builder.push("attention_bias", shape, parameters, Body::AttentionBias(Box::new(kernel)));
    }

    /// A pass, with further parameters.
    fn push(
        &self,
        builder: &mut KernelBuilder,
        kernel: AttentionBackwardKernel,
        Memory { regions, halves, counter }: Memory<'_>,
        device: &Device,
    ) {
        let plan = &self.plan;
        let (of_keys, tile) = (kernel.problem.of_keys, kernel.tile);
        let units = kernel.problem.units(tile.rows());
        let shape = Shape {
            grid: [u32::try_from(units.min(i64::from(device.sm_count))).unwrap_or(u32::MAX), 1],
            block: [tile.threads(), 1, 1],
            shared_bytes: kernel.layout().bytes,
        };
        let (reads, stores) = kernel.problem.touched();
        let maps = kernel.maps.iter().zip(Plan::places(of_keys)).map(|(&map, place)| match halves {
            Some(offsets) => Parameter::IntermediateMap { map, offset: offsets[place] },
            None => Parameter::TensorMap(map),
        });
        let others = program_parameters(reads.into_iter(), &stores, |id| plan.is_scalar(id));
        let parameters = maps.chain(others).chain(regions.iter().copied()).chain(counter).collect();
        let name = if of_keys { "attention_backward_keys" } else { "attention_backward_queries" };
        builder.push(name, shape, parameters, Body::AttentionBackward(Box::new(kernel)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::ComputeCapability;
    use crate::engine::select;
    use crate::graph::{AttentionBackward, DataType, Graph, Port, Scalar, Tensor};
    use std::sync::Arc;

    /// The gradients of heads of a type, with one more input, and one more result if it has one.
    fn backward(io: DataType, further: (Port, Tensor), result: Option<(Port, Tensor)>) -> Graph {
        let mut graph = Graph::new().io_data_type(io).compute_data_type(DataType::Float);
        let heads = |port: Port| (port, Tensor::new(port.0).row_major([1, 2, 128, 64]));
        let statistics = Tensor::new("Stats").row_major([1, 2, 128, 1]).data_type(DataType::Float);
        let read = [Port::Q, Port::K, Port::V, Port::O, Port::DO].map(heads);
        let read = read.into_iter().chain([(Port::STATS, statistics), further]);
        let inputs: Vec<_> = read.map(|(port, tensor)| (port, graph.tensor(tensor))).collect();
        let results: Vec<_> = [Port::DQ, Port::DK, Port::DV].map(heads).into_iter().chain(result).collect();
        let ports: Vec<Port> = results.iter().map(|result| result.0).collect();
        let ids = graph.composite("backward", AttentionBackward::default(), &inputs, &ports);
        for (id, (_, tensor)) in ids.into_iter().zip(results) {
            *graph.set_output(id) = tensor;
        }
        graph
    }

    /// The engine that takes a graph, or why none does.
    fn engine(graph: &Graph) -> Result<&'static str, String> {
        let selected = select(&Arc::new(graph.finalize().expect("well formed")), ComputeCapability::SM_90);
        selected.map(|selection| selection.engine().name()).map_err(|refused| refused.to_string())
    }

    /// The same of heads of a type, whose scores are capped by a number of a type in memory.
    fn taken([io, of_cap]: [DataType; 2]) -> Result<&'static str, String> {
        let cap = Tensor::new("cap").row_major([1; 4]).data_type(of_cap);
        engine(&backward(io, (Port::SOFT_CAP, cap), None))
    }

    #[test]
    fn no_gradient_takes_the_place_of_what_launches_read() {
        let sink = || Tensor::new("sink").row_major([1, 2, 1, 1]).data_type(DataType::Float);
        let mut graph = backward(DataType::Half, (Port::SINK_TOKEN, sink()), None);
        assert_eq!(engine(&graph), Ok(NAME));
        let q = graph.last_operation().inputs[0].1;
        graph.last_operation().outputs[0].1 = q;
        let reason = engine(&graph).unwrap_err();
        assert!(reason.contains("tensor 'Q'") && reason.contains("in place"), "{reason}");
    }

    #[test]
    fn sinks_with_a_gradient_are_in_memory() {
        let result = || Some((Port::DSINK_TOKEN, Tensor::new("dSink").row_major([1; 4]).data_type(DataType::Float)));
        let one_head = |sink| {
            let mut graph = backward(DataType::Half, (Port::SINK_TOKEN, sink), result());
            // of one head, so that a number is a sink
            let operation = graph.last_operation();
            let ids: Vec<_> = operation.inputs.iter().chain(&operation.outputs).copied().collect();
            for (_, id) in ids {
                let tensor = graph.tensor_mut(id);
                tensor.dim[1] = 1;
            }
            engine(&graph)
        };
        assert_eq!(one_head(Tensor::new("sink").row_major([1; 4]).data_type(DataType::Float)), Ok(NAME));
        let number = Tensor {
            dim: vec![1; 4],
            stride: vec![1; 4],
            ..Tensor::scalar("sink", DataType::Float, Scalar::Float(0.5))
        };
        let reason = one_head(number).unwrap_err();
        assert!(reason.contains("tensor 'sink'") && reason.contains("in memory"), "{reason}");
    }

    #[test]
    fn soft_caps_are_numbers_of_16_bit_heads() {
        for of_cap in [DataType::Float, DataType::Half, DataType::BFloat16] {
            assert_eq!(taken([DataType::Half, of_cap]), Ok(NAME));
        }
        let reason = taken([DataType::Fp8E4M3, DataType::Float]).unwrap_err();
        assert!(reason.contains("'cap'") && reason.contains("no kernel for a soft cap of scores in FP8"), "{reason}");
        let reason = taken([DataType::Half, DataType::Int32]).unwrap_err();
        assert!(reason.contains("a soft cap is HALF, BFLOAT16 or FLOAT"), "{reason}");
    }
}
