//! Attention by `mma.sync`, from sm_75 on: what chips before and behind Hopper run, and what Hopper's own engine does not take.
//!
//! Each warp of a block has 16 queries; tiles of keys and values come by `cp.async`, or an element at a time where layouts ask for it, so that heads
//! have any size up to 256, any strides and any alignment. FLOAT is multiplied as TF32 (`docs/spec/attention.md` AT-K40, AT-L13, AT-L15).

pub(super) mod model;
pub(super) mod rows;

use super::attention::plan::{LARGEST_HEAD, Plan, push_mask};
use crate::device::{ComputeCapability, Device};
use crate::engine::builder::{KernelBuilder, Shape};
use crate::engine::config::{Field, ranked};
use crate::engine::lowering::{may_round_to_tf32, program_parameters};
use crate::engine::{Engine, EngineConfig, Knob, Offer, RankedConfig};
use crate::error::Reason;
use crate::fusion::is_attention;
use crate::graph::{FinalizedGraph, TensorId};
use crate::kernel::{
    AttentionExtents, Body, Kernel, MOST_BLOCKS, MmaType, Parameter, WARP_ROWS, WarpAttentionKernel, WarpAttentionTile,
};
use crate::support::attention_records::{
    FAF_CC, FAF_O_STRIDE, FAF_O_TYPE, FAF_Q_D, FAF_QK_STRIDE, FAF_QKV_TYPE, FAF_SCALE_TYPE, FAF_STATS_LAYOUT, FAF_V_D,
    FAF_V_STRIDE,
};
use crate::support::{Rule, Supported};

/// See the module.
#[derive(Clone, Copy, Debug)]
pub(super) struct WarpAttention;

const NAME: &str = "warp_attention";

/// Heads of any size up to 256, of FLOAT too, at any strides, on any chip with the instruction.
static RELAXED: &[&Rule] = &[
    &FAF_CC,
    &FAF_QKV_TYPE,
    &FAF_O_TYPE,
    &FAF_Q_D,
    &FAF_V_D,
    &FAF_QK_STRIDE,
    &FAF_V_STRIDE,
    &FAF_O_STRIDE,
    &FAF_STATS_LAYOUT,
    &FAF_SCALE_TYPE,
];

impl Engine for WarpAttention {
    fn id(&self) -> i64 {
        6
    }

    fn name(&self) -> &'static str {
        NAME
    }

    fn summary(&self) -> &'static str {
        "attention on tensor cores by mma.sync, from sm_75 on (BF16 and FLOAT from sm_80 on): heads of any layout up to 256 elements, any \
         pointwise operations on scores"
    }

    fn relaxes(&self) -> &'static [&'static Rule] {
        RELAXED
    }

    fn concerns(&self, graph: &FinalizedGraph) -> bool {
        is_attention(graph)
    }

    fn take(&self, supported: &Supported) -> Result<Box<dyn Offer>, Reason> {
        let fusion = supported.fusion();
        let Some(attention) = fusion.attention() else {
            return Err(Reason::Graph("a graph that is no attention".to_owned()));
        };
        let plan = Plan::new(fusion, attention).map_err(Reason::Graph)?;
        is_multiplied(plan.problem.operand, supported.capability())?;
        fits_registers(plan.extents()).map_err(Reason::Graph)?;
        is_in_rows(&plan).map_err(Reason::Graph)?;
        rows::are_in_memory(&plan.graph, plan.sources.map(|source| source.0)).map_err(Reason::Graph)?;
        Ok(Box::new(Offered { plan, operations: attention.modifiers.len() }))
    }
}

/// Whether K and V are rows at strides.
///
/// # Errors
/// Which table tells where they are.
fn is_in_rows(plan: &Plan) -> Result<(), String> {
    match plan.problem.pages.into_iter().flatten().next() {
        Some(pages) => {
            let table = plan.graph.describe_tensor(pages.table);
            Err(format!(
                "tensor {table}: pages are read on sm_90 alone, of 16-bit heads that warpgroup_attention takes"
            ))
        }
        None => Ok(()),
    }
}

/// `mma.sync` on FP16 with `ldmatrix`.
const TURING: ComputeCapability = ComputeCapability::SM_75;

/// BF16 and TF32.
const AMPERE: ComputeCapability = ComputeCapability::SM_80;

/// Whether a chip has the instruction for operands of a type, and FLOAT may be rounded for it.
///
/// # Errors
/// That it has not, or that the environment asks for full FP32.
pub(super) fn is_multiplied(operand: MmaType, capability: ComputeCapability) -> Result<(), Reason> {
    if operand == MmaType::Fp8 {
        return Err(Reason::Graph("heads in FP8 are multiplied by wgmma alone, in warpgroup_attention".to_owned()));
    }
    let needed = if operand == MmaType::F16 { TURING } else { AMPERE };
    if capability < needed {
        return Err(Reason::Chip(format!(
            "{capability} has no matrix instruction for {operand:?} operands; it begins with {needed}"
        )));
    }
    if operand == MmaType::Tf32 { may_round_to_tf32().map_err(Reason::Environment) } else { Ok(()) }
}

/// Whether registers hold rows of heads.
///
/// # Errors
/// Which size is too large.
pub(super) fn fits_registers(extents: AttentionExtents) -> Result<(), String> {
    match extents.head.into_iter().find(|&size| size > LARGEST_HEAD) {
        Some(size) => Err(format!("heads of {size} elements; required at most {LARGEST_HEAD}")),
        None => Ok(()),
    }
}

/// Warps of a block.
const WARPS: &[u32] = &[8, 4];

/// Keys of a step.
const KEYS: &[u32] = &[128, 96, 64, 48, 32, 16];

/// Registers of scores, of what is multiplied of them, and of sums at most: what else a thread needs fits beside them. TF32 rounds fragments as it
/// reads them (176 spilled 20 bytes on sm_90, of heads of 256).
pub(super) fn most_held(operand: MmaType) -> u32 {
    if operand == MmaType::Tf32 { 160 } else { 184 }
}

/// Configs of an offer.
const MOST_CONFIGS: usize = 8;

/// The tile of a block.
#[derive(Debug)]
struct Config {
    queries: u32,
    keys: u32,
    pack_heads: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self { queries: 64, keys: 64, pack_heads: false }
    }
}

const FIELDS: &[Field<Config>] = &[
    Field { knob: Knob::TileM, get: |config| config.queries, set: |config, value| config.queries = value },
    Field { knob: Knob::TileN, get: |config| config.keys, set: |config, value| config.keys = value },
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
    tile: WarpAttentionTile,
    packed: i64,
}

impl Offered {
    /// Tiles that fit, of heads alone and of groups.
    fn choices(&self, device: &Device) -> Vec<Choice> {
        let (head, operand) = (self.plan.extents().head, self.plan.problem.operand);
        let fits = |tile: &WarpAttentionTile| {
            tile.held_registers(head, operand) + self.plan.further_registers(tile.keys) <= most_held(operand)
                && tile.layout(head, operand).bytes <= device.shared_bytes_per_block
                && self.plan.is_within_blocks([tile.queries(), tile.keys])
        };
        let group = self.plan.group();
        let packed: &[i64] = if group > 1 { &[1, group] } else { &[1] };
        let tiles = WARPS.iter().flat_map(|&warps| KEYS.iter().map(move |&keys| WarpAttentionTile { warps, keys }));
        let of_tile = |tile| packed.iter().map(move |&packed| Choice { tile, packed });
        let is_whole = |choice: &Choice| i64::from(choice.tile.queries()) % choice.packed == 0;
        tiles.filter(fits).flat_map(of_tile).filter(is_whole).collect()
    }

    fn parameters(&self, kernel: &WarpAttentionKernel) -> Vec<Parameter> {
        let (reads, stores) = kernel.touched();
        let is_scalar = |id: TensorId| self.plan.graph.tensor(id).is_pass_by_value;
        program_parameters(reads.into_iter(), &stores, is_scalar)
    }
}

impl Offer for Offered {
    fn remarks(&self) -> Vec<String> {
        rows::remarks(self.plan.problem.operand)
    }

    fn candidates(&self, device: &Device) -> Vec<RankedConfig> {
        let priced = self.choices(device).into_iter().map(|choice| {
            let config =
                Config { queries: choice.tile.queries(), keys: choice.tile.keys, pack_heads: choice.packed > 1 };
            let estimate = model::estimate(&self.plan, (choice.tile, choice.packed), self.operations, device);
            (estimate, EngineConfig::of_fields(NAME, FIELDS, &config), None)
        });
        let mut ranking = ranked(priced.collect(), 1e6);
        ranking.truncate(MOST_CONFIGS);
        ranking
    }

    fn lower(&self, config: &EngineConfig, device: &Device) -> Kernel {
        let Config { queries, keys, pack_heads } = config.fields(FIELDS);
        let (plan, packed) = (&self.plan, if pack_heads { self.plan.group() } else { 1 });
        let [q, k, v] = plan.sources.map(|source| source.0);
        let rows = |id, axes| rows::of(&plan.graph, id, axes);
        let tile = WarpAttentionTile { warps: queries / WARP_ROWS, keys };
        let kernel = WarpAttentionKernel {
            operands: [rows(q, [3, 2]), rows(k, [2, 3]), rows(v, [3, 2])],
            problem: plan.packed_problem(packed, rows::held_by_l2(device)),
            tile,
            blocks: model::blocks(plan, tile, device),
        };
        let units = kernel.row_tiles() * kernel.problem.extents.row_heads();
        let shape = Shape {
            grid: [u32::try_from(units.min(i64::from(MOST_BLOCKS[0]))).unwrap_or(u32::MAX), 1],
            block: [kernel.tile.threads(), 1, 1],
            shared_bytes: kernel.layout().bytes,
        };
        let mut builder = KernelBuilder::new(&plan.graph, config);
        builder.push("attention", shape, self.parameters(&kernel), Body::WarpAttention(Box::new(kernel)));
        plan.mask.iter().for_each(|mask| push_mask(&mut builder, &plan.graph, mask));
        builder.finish()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::engine::{Selection, select};
    use crate::graph::{DataType, Graph, Scalar, Tensor};

    /// `softmax(Q · Kᵀ) · V` of heads of so many elements, of queries and of values.
    fn attention(io: DataType, [head, value_head]: [i64; 2]) -> Arc<FinalizedGraph> {
        let mut graph = Graph::new().io_data_type(io).compute_data_type(DataType::Float);
        graph.intermediate_data_type = Some(DataType::Float);
        let q = graph.tensor(Tensor::new("Q").row_major([1, 4, 100, head]));
        let k = graph.tensor(Tensor::new("K").dim([1, 4, head, 90]).stride([360 * head, 90 * head, 1, head]));
        let v = graph.tensor(Tensor::new("V").row_major([1, 4, 90, value_head]));
        let scores = graph.matmul("scores", q, k);
        let (p, _) = graph.softmax_with("softmax", scores, None, &[]);
        graph.tensor_mut(p).data_type = Some(io);
        let o = graph.matmul("values", p, v);
        graph.set_output(o);
        Arc::new(graph.finalize().expect("well formed"))
    }

    fn selected(io: DataType, head: [i64; 2], chip: (u32, u32)) -> Result<Selection, String> {
        select(&attention(io, head), ComputeCapability::new(chip.0, chip.1)).map_err(|refused| refused.to_string())
    }

    #[test]
    fn hopper_has_an_engine_of_its_own_for_what_boxes_take() {
        let engine = |io, head, chip| selected(io, head, chip).map(|selection| selection.engine().name());
        assert_eq!(engine(DataType::Half, [64, 64], (9, 0)), Ok("warpgroup_attention"));
        for (io, head, chip) in [
            (DataType::Half, [20, 64], (9, 0)),
            (DataType::Float, [64, 64], (9, 0)),
            (DataType::Half, [64, 64], (7, 5)),
            (DataType::BFloat16, [256, 7], (8, 0)),
            (DataType::Float, [64, 64], (12, 0)),
        ] {
            assert_eq!(engine(io, head, chip), Ok(NAME), "{io} {head:?} on {chip:?}");
        }
    }

    #[test]
    fn chips_without_the_instruction_and_larger_heads_are_refused_by_reasons() {
        let reason = |io, head, chip| selected(io, head, chip).map(|selection| selection.engine().name()).unwrap_err();
        assert!(reason(DataType::Half, [64, 64], (7, 0)).contains("has no matrix instruction for F16 operands"));
        assert!(reason(DataType::BFloat16, [64, 64], (7, 5)).contains("it begins with sm_80"));
        assert!(reason(DataType::Half, [64, 264], (8, 0)).contains("required at most 256"));
    }

    /// Why nobody takes an attention with a sink, and with queries that are ragged where so many offsets are given.
    fn reason(sink: Tensor, offsets: Option<i64>) -> String {
        let mut graph = Graph::new().io_data_type(DataType::Half).compute_data_type(DataType::Float);
        graph.intermediate_data_type = Some(DataType::Float);
        let ragged_offset = offsets
            .map(|count| graph.tensor(Tensor::new("offsets").row_major([count, 1, 1, 1]).data_type(DataType::Int32)));
        let q = graph.tensor(Tensor { ragged_offset, ..Tensor::new("Q").row_major([2, 1, 64, 64]) });
        let k = graph.tensor(Tensor::new("K").dim([2, 1, 64, 64]).stride([4096, 4096, 1, 64]));
        let v = graph.tensor(Tensor::new("V").row_major([2, 1, 64, 64]));
        let scores = graph.matmul("scores", q, k);
        let sink = graph.tensor(sink);
        let (p, _) = graph.softmax_with("softmax", scores, Some(sink), &[]);
        graph.tensor_mut(p).data_type = Some(DataType::Half);
        let o = graph.matmul("values", p, v);
        graph.set_output(o);
        let graph = Arc::new(graph.finalize().expect("well formed"));
        select(&graph, ComputeCapability::SM_90).map(|taken| taken.engine().name()).unwrap_err().to_string()
    }

    #[test]
    fn what_kernels_read_by_pointers_is_in_memory_and_has_all_its_entries() {
        let number = Tensor::scalar("sink", DataType::Float, Scalar::Float(0.5));
        let found = reason(Tensor { dim: vec![1; 4], stride: vec![1; 4], ..number }, None);
        assert!(found.contains("tensor 'sink'") && found.contains("in memory"), "{found}");
        let sink = Tensor::new("sink").row_major([1; 4]).data_type(DataType::Float);
        let found = reason(sink, Some(2));
        assert!(found.contains("tensor 'Q'") && found.contains("along their first axis 3"), "{found}");
    }

    #[test]
    fn every_chip_has_tiles_that_fit_for_every_head() {
        for chip in [(7, 5), (8, 0), (8, 6), (8, 9), (10, 0), (12, 0)] {
            for io in [DataType::Half, DataType::Float] {
                for size in [8, 64, 128, 192, 256] {
                    let Ok(selection) = selected(io, [size, size], chip) else { continue };
                    let device = Device::typical(ComputeCapability::new(chip.0, chip.1));
                    let ranking = selection.candidates(&device);
                    assert!(!ranking.is_empty(), "{io} of {size} on {chip:?}");
                    for ranked in ranking {
                        let bytes = selection.lower(&ranked.config, &device).functions[0].launch.shared_bytes;
                        assert!(bytes <= device.shared_bytes_per_block, "{} on {chip:?}", ranked.config);
                    }
                }
            }
        }
    }
}
