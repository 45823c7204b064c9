//! Gradients of queries from gradients of scores, which the pass that has them for the keys leaves in the workspace: they are multiplied once.
//! Of a workspace that holds a part of the heads the two launches have these in turns.

use super::super::attention::boxes::boxes;
use super::super::attention::plan::held_by_l2;
use super::plan::Plan;
use super::{Config, Memory, Offered, Pass};
use crate::device::Device;
use crate::engine::builder::{KernelBuilder, Shape};
use crate::engine::lowering::program_parameters;
use crate::kernel::{
    AttentionBackwardKernel, AttentionQueriesKernel, BackwardOutput, BackwardProblem, Body, MapElement, MmaType,
    Parameter, QueriesTile, ScoreGradients, Swizzle, TensorMap, WGMMA_ROWS,
};

/// Bytes of gradients of scores in the workspace at most: 4.5 GiB.
const MOST_BYTES: i64 = 9 << 29;

/// What a pair of launches takes beside its tiles, in times of a tile; and what less memory may cost. On an H200 8 to 128 heads a launch took the same
/// within 3 % (docs/performance-notes.md).
const LAUNCHES: f64 = 0.1;
const SPARING: f64 = 1.05;

/// Registers of a thread for where it leaves gradients of scores.
pub(super) const OF_LEFT: u32 = 8;

/// Launches that have a part of the heads each, at most.
const MOST_LAUNCHES: i64 = 64;

/// Registers of a thread that brings tiles, and of one that multiplies.
const REGISTERS: [u32; 2] = [40, 232];

/// Multiplying warpgroups, and parts of 64 queries of each, at most.
const MOST_CONSUMERS: u32 = 2;
const MOST_PARTS: u32 = 2;

/// Parts of 64 queries of a tile at most.
pub(super) const MOST_PARTS_OF_TILE: u32 = MOST_CONSUMERS * MOST_PARTS;

/// Accumulators of a thread at most.
const MOST_ACCUMULATORS: u32 = 128;

const MOST_STAGES: u32 = 4;

/// The launch that multiplies gradients of queries, and what is left for it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Queries {
    pub(super) tile: QueriesTile,
    pub(super) gradients: ScoreGradients,
    /// Launches that have a part of the heads each.
    pub(super) launches: i64,
    output: BackwardOutput,
}

impl Offered {
    /// The launch behind a pass over keys, where this has gradients of scores and the workspace holds those of a head.
    pub(super) fn queries(&self, pass: &Pass, device: &Device) -> Option<Queries> {
        let (plan, extents) = (&self.plan, self.plan.extents);
        let output = plan.of_queries.filter(|_| pass.has_sums())?;
        let tile = queries_tile(extents.queries, extents.head[0], device)?;
        let members = extents.groups()[0];
        let of = |heads: i64| {
            let steps = [pass.tile.rows(), pass.tile.others];
            ScoreGradients::of([heads, members], [extents.keys, extents.queries], steps, tile.consumer_rows())
        };
        let all = extents.batches * extents.key_heads[0];
        let tiles = (extents.keys + i64::from(pass.tile.rows()) - 1) / i64::from(pass.tile.rows());
        let of_head = if plan.slopes_steps() { (tiles + 1) / 2 } else { tiles };
        let heads = heads_of_launch([all, of_head], of(1).bytes(), device)?;
        let gradients = of(heads);
        Some(Queries { tile, gradients, launches: (all + gradients.heads - 1) / gradients.heads, output })
    }

    /// Adds the pass, which leaves gradients of scores, and the launch that multiplies by them, as often as there are parts of the heads.
    pub(super) fn push_stored(
        &self,
        builder: &mut KernelBuilder,
        (pass, queries): (Pass, Queries),
        memory: Memory<'_>,
        device: &Device,
    ) {
        let (gradients, all) = (queries.gradients, self.plan.extents.batches * self.plan.extents.key_heads[0]);
        let offset = builder.region((gradients.bytes() + 3) / 4);
        // of dynamic shapes one text does for all numbers of launches
        let is_dynamic = self.plan.graph.is_dynamic();
        let launched = Some(gradients.heads).filter(|&heads| heads < all || is_dynamic);
        let mut kernel = self.kernel(pass, memory, device);
        kernel.problem.gradients = Some(gradients);
        kernel.problem.of_launch = launched;
        kernel.problem.pairs = self.plan.pairs(&kernel.problem, kernel.tile.rows(), device);
        if let (Some(scaling), Some(of_graph)) = (&mut kernel.problem.scaling, &self.plan.scaling) {
            scaling.largest = of_graph.passes.largest;
        }
        let regions = memory.regions.iter().copied().chain([Parameter::Workspace { offset }]);
        let told = launched.map(|_| Parameter::FirstHead(0));
        let regions: Vec<Parameter> = regions.chain(told).collect();
        self.push(builder, kernel, Memory { regions: &regions, ..memory }, device);
        self.push_queries(builder, queries, (offset, memory.halves), device);
        for first in (gradients.heads..all).step_by(usize::try_from(gradients.heads).unwrap_or(usize::MAX)) {
            // heads of keys, and of queries
            builder.repeat([first, first * gradients.members]);
        }
    }

    fn push_queries(
        &self,
        builder: &mut KernelBuilder,
        queries: Queries,
        (offset, halves): (u64, Option<[u64; 4]>),
        device: &Device,
    ) {
        let (plan, Queries { tile, gradients, output, .. }) = (&self.plan, queries);
        let mut problem = plan.problem(false, vec![output], held_by_l2(device));
        let launched = gradients.heads * gradients.members;
        problem.of_launch = Some(launched).filter(|&heads| heads < problem.row_heads() || plan.graph.is_dynamic());
        problem.section = problem.section.min(launched);
        // what is kept of scores, the pass over keys keeps
        problem.scaling.iter_mut().for_each(|scaling| scaling.largest = None);
        let [_, k, ..] = plan.operands;
        let keys = match plan.operand {
            MmaType::Fp8 => plan.half_map(1, QueriesTile::STEP),
            _ => boxes(&plan.graph, k, [3, 2], QueriesTile::STEP),
        };
        let chunks = chunk_map(keys, gradients, tile);
        problem.pairs = plan.pairs(&problem, tile.rows(), device);
        let kernel = AttentionQueriesKernel { maps: [chunks, keys], problem, gradients, tile, registers: REGISTERS };
        let units = kernel.problem.units(tile.rows());
        let shape = Shape {
            grid: [u32::try_from(units.min(i64::from(device.sm_count))).unwrap_or(u32::MAX), 1],
            block: [tile.threads(), 1, 1],
            shared_bytes: kernel.layout().bytes,
        };
        let (reads, stores) = kernel.problem.touched();
        let of_keys = match halves {
            Some(offsets) => Parameter::IntermediateMap { map: keys, offset: offsets[1] },
            None => Parameter::TensorMap(keys),
        };
        let others = program_parameters(reads.into_iter(), &stores, |id| plan.is_scalar(id));
        let told = kernel.problem.of_launch.map(|_| Parameter::FirstHead(0));
        let maps = [Parameter::IntermediateMap { map: chunks, offset }, of_keys];
        let parameters = maps.into_iter().chain(others).chain(told).collect();
        builder.push("attention_queries", shape, parameters, Body::AttentionQueries(Box::new(kernel)));
    }
}

/// Heads of a launch, of as many units each: those that leave few multiprocessors idle at the ends of launches, in little memory.
fn heads_of_launch([all, units]: [i64; 2], head_bytes: i64, device: &Device) -> Option<i64> {
    let multiprocessors = i64::from(device.sm_count);
    let of = |launches: i64| (all + launches - 1) / launches;
    let time = |launches: i64| {
        let turns = (of(launches) * units + multiprocessors - 1) / multiprocessors;
        launches as f64 * (turns as f64 + LAUNCHES)
    };
    let fitting =
        (1..=all.min(MOST_LAUNCHES)).filter(|&launches| of(launches).saturating_mul(head_bytes) <= MOST_BYTES);
    let best = fitting.clone().map(time).min_by(f64::total_cmp)?;
    fitting.rev().find(|&launches| time(launches) <= best * SPARING).map(of)
}

/// The tile of queries that fewest warpgroups cover, or the largest.
fn queries_tile(queries: i64, head: i64, device: &Device) -> Option<QueriesTile> {
    let rows = i64::from(WGMMA_ROWS);
    let needed = u32::try_from((queries + rows - 1) / rows).unwrap_or(u32::MAX);
    let tile =
        |parts: u32, stages: u32| QueriesTile { consumers: needed.div_ceil(parts).min(MOST_CONSUMERS), parts, stages };
    let parts =
        (1..=MOST_PARTS.min(needed)).rev().find(|&parts| tile(parts, 1).accumulators(head) <= MOST_ACCUMULATORS)?;
    let fits = |tile: &QueriesTile| tile.layout(head).bytes <= device.shared_bytes_per_block;
    (2..=MOST_STAGES).rev().map(|stages| tile(parts, stages)).find(fits)
}

/// Boxes of all chunks of a step, as rows of 128 bytes.
fn chunk_map(keys: TensorMap, gradients: ScoreGradients, tile: QueriesTile) -> TensorMap {
    let row = ScoreGradients::ROW_BYTES;
    TensorMap {
        rank: 2,
        element: if keys.element == MapElement::Half { MapElement::Half } else { MapElement::BFloat16 },
        dims: [u64::from(row / 2), gradients.bytes() as u64 / u64::from(row), 0, 0, 0],
        strides: [u64::from(row), 0, 0, 0],
        box_dims: [row / 2, tile.rows(), 0, 0, 0],
        swizzle: Swizzle::None,
        pixels: None,
        lead: 0,
        next_line_later: false,
        tensor: keys.tensor,
    }
}

impl Plan {
    /// Whether blocks have tiles in pairs: where tiles differ and are not claimed, and there are more of them than multiprocessors.
    fn pairs(&self, problem: &BackwardProblem, rows: u32, device: &Device) -> bool {
        self.slopes_steps()
            && !problem.claims
            && problem.launched() * problem.row_tiles(rows) > i64::from(device.sm_count)
    }
}

impl Pass {
    /// Whether it has gradients of scores.
    pub(super) fn has_sums(&self) -> bool {
        self.of_keys && self.outputs.iter().any(|output| !output.is_of_values)
    }
}

/// Passes of a config: those over keys, then one over queries, or what is multiplied of gradients that one of them leaves.
#[derive(Debug)]
pub(super) struct Passes {
    pub(super) all: Vec<Pass>,
    pub(super) queries: Option<Queries>,
}

impl Offered {
    /// The passes of a config.
    pub(super) fn passes(&self, config: &Config, device: &Device) -> Option<Passes> {
        let rows = |of_keys| if of_keys { config.keys } else { config.queries };
        let of = |of_keys, outputs: &[BackwardOutput]| {
            self.pass(of_keys, outputs, [rows(of_keys), config.step], config.stores, device)
        };
        if !config.stores {
            return Some(Passes { all: self.plan.passes(of)?, queries: None });
        }
        let all = self.plan.key_passes(&of)?;
        let queries = self.queries(all.iter().find(|pass| pass.has_sums())?, device)?;
        (queries.tile.rows() == config.queries).then_some(Passes { all, queries: Some(queries) })
    }

    /// Adds the passes, the one that leaves gradients of scores last.
    pub(super) fn push_passes(&self, builder: &mut KernelBuilder, passes: Passes, memory: Memory<'_>, device: &Device) {
        let leaves = |pass: &Pass| passes.queries.is_some() && pass.has_sums();
        for pass in passes.all.iter().filter(|pass| !leaves(pass)) {
            self.push(builder, self.kernel(pass.clone(), memory, device), memory, device);
        }
        let left = passes.all.iter().find(|pass| leaves(pass));
        if let Some((pass, queries)) = left.cloned().zip(passes.queries) {
            self.push_stored(builder, (pass, queries), memory, device);
        }
    }

    /// The kernel of a pass.
    fn kernel(&self, pass: Pass, memory: Memory<'_>, device: &Device) -> AttentionBackwardKernel {
        let Pass { of_keys, tile, outputs } = pass;
        let claims = memory.counter.is_some();
        let problem = BackwardProblem { claims, ..self.plan.problem(of_keys, outputs, held_by_l2(device)) };
        let pairs = self.plan.pairs(&problem, tile.rows(), device);
        AttentionBackwardKernel {
            maps: self.plan.maps(of_keys, tile),
            problem: BackwardProblem { pairs, ..problem },
            tile,
            registers: super::registers(&self.plan, tile),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::ComputeCapability;

    #[test]
    fn launches_have_as_many_heads_as_keep_multiprocessors_busy_in_little_memory() {
        let device = Device { sm_count: 132, ..Device::typical(ComputeCapability::SM_90) };
        let of = |counts, bytes| heads_of_launch(counts, bytes, &device);
        // 8 heads of 32 tiles are 256 for 132 multiprocessors, two turns; 4 are one, and twice as many launches
        assert_eq!(of([128, 32], 32 << 20), Some(8));
        // as many as 4.5 GiB hold of the heads that would be best
        assert_eq!(of([128, 3], 1 << 30), Some(4));
        assert_eq!(of([1, 8], (9 << 29) + 1), None);
        assert_eq!(of([3, 8], i64::MAX), None);
    }

    #[test]
    fn a_tile_of_queries_has_few_warpgroups_for_few_queries_and_one_part_of_wide_heads() {
        let device = Device::typical(ComputeCapability::SM_90);
        let of = |queries, head| queries_tile(queries, head, &device).map(|tile| [tile.consumers, tile.parts]);
        assert_eq!(of(1, 128), Some([1, 1]));
        assert_eq!(of(65, 128), Some([1, 2]));
        assert_eq!(of(129, 128), Some([2, 2]));
        assert_eq!(of(4096, 256), Some([2, 1]));
    }
}
