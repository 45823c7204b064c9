//! What a tile costs: matrix units, the arithmetic of scores, and steps whose tiles are waited for, on blocks that share a multiprocessor.
//! Constants are an orientation: none was measured.

use super::super::attention::plan::Plan;
use crate::device::Device;
use crate::engine::estimate::Waves;
use crate::engine::{Bound, Estimate, Floor, Term};
use crate::graph::DataType;
use crate::kernel::{MmaType, WarpAttentionTile, head_row_bytes};

/// Clocks in a second.
pub(in crate::engine::engines) const CLOCK: f64 = 1.7e9;

/// Share of the matrix rate that `mma.sync` reaches: a warp of 16 rows reads as many bytes of shared memory as the instruction takes clocks.
const REACHED: f64 = 0.6;

/// Scores of which a multiprocessor does all arithmetic in a clock, exponentials included.
const SCORES_A_CLOCK: f64 = 10.0;

/// What each operation on a score, and drawing a number for it, costs beyond that, in clocks of a multiprocessor.
const CLOCKS_OF_OPERATION: f64 = 0.016;
const CLOCKS_OF_DRAWING: f64 = 0.1;

/// Clocks of a step and of a block in which a block waits for memory and for its warps.
const CLOCKS_OF_STEP: f64 = 900.0;
const CLOCKS_OF_BLOCK: f64 = 2500.0;
const CLOCKS_OF_LAUNCH: f64 = 4500.0;

/// Parts of a multiprocessor, blocks of it at most, its registers, and those of a thread beside what it holds.
const PARTS: u32 = 4;
const MOST_BLOCKS: u32 = 8;
const REGISTERS: u32 = 65536;
const BESIDE: u32 = 88;

/// What a block does in a step, with how many others on its multiprocessor.
pub(in crate::engine::engines) struct Work {
    pub(in crate::engine::engines) operand: MmaType,
    /// Scores of a step.
    pub(in crate::engine::engines) scores: f64,
    /// Multiply-adds for a score.
    pub(in crate::engine::engines) products: f64,
    /// Clocks of a multiprocessor for the arithmetic of a score.
    pub(in crate::engine::engines) score: f64,
    /// Blocks that wait for memory while others do not.
    pub(in crate::engine::engines) blocks: f64,
}

impl Work {
    /// Clocks of all blocks with so many steps each, of so many heads; and their waves where all have as many.
    pub(in crate::engine::engines) fn clocks(
        &self,
        steps: &[i64],
        heads: i64,
        device: &Device,
    ) -> (f64, Option<Waves>) {
        let stored = if self.operand == MmaType::Tf32 { DataType::Float } else { DataType::Half };
        let multiprocessors = f64::from(device.sm_count);
        let rate = device.flops_per_second(stored) / multiprocessors / CLOCK / 2.0 * REACHED;
        let step = self.scores * (self.products / rate + self.score) + CLOCKS_OF_STEP / self.blocks;
        let clocks = |steps: i64| steps as f64 * step + CLOCKS_OF_BLOCK / self.blocks;
        let longest = steps.iter().map(|&steps| clocks(steps)).fold(0.0, f64::max);
        let waves = Waves::of(steps.len() as f64 * heads as f64, multiprocessors);
        if steps.iter().all(|&count| count == steps[0]) {
            return (waves.count * longest, Some(waves));
        }
        // tiles of different lengths fill each other's gaps
        let total: f64 = steps.iter().map(|&steps| clocks(steps)).sum::<f64>() * heads as f64;
        ((total / multiprocessors).max(longest) + longest / 2.0, None)
    }
}

/// Blocks of so many threads that share a multiprocessor, each thread with what it holds in registers. Warps are dealt to its four parts, of
/// which each has a quarter of the registers.
pub(in crate::engine::engines) fn resident(held: u32, threads: u32, shared_bytes: u32, device: &Device) -> u32 {
    let of_warp = (held + BESIDE).min(255) * 32;
    let fits = |blocks: &u32| {
        let warps = (blocks * threads / 32).div_ceil(PARTS);
        warps * of_warp <= REGISTERS / PARTS && shared_bytes <= device.shared_bytes_of_blocks(*blocks)
    };
    (1..=MOST_BLOCKS).rev().find(fits).unwrap_or(1)
}

/// Blocks of a tile that share a multiprocessor.
pub(super) fn blocks(plan: &Plan, tile: WarpAttentionTile, device: &Device) -> u32 {
    let (head, operand) = (plan.extents().head, plan.problem.operand);
    let held = tile.held_registers(head, operand) + plan.further_registers(tile.keys);
    resident(held, tile.threads(), tile.layout(head, operand).bytes, device)
}

/// The expected time of a tile of so many packed heads, in seconds.
pub(super) fn estimate(
    plan: &Plan,
    (tile, packed): (WarpAttentionTile, i64),
    operations: usize,
    device: &Device,
) -> Estimate {
    let (extents, operand) = (plan.extents(), plan.problem.operand);
    let products: u32 = extents.head.map(|head| head_row_bytes(head, operand) / operand.bytes()).iter().sum();
    let of_dropout = if plan.problem.dropout.is_some() { CLOCKS_OF_DRAWING } else { 0.0 };
    let work = Work {
        operand,
        scores: f64::from(tile.queries() * tile.keys),
        products: f64::from(products),
        score: 1.0 / SCORES_A_CLOCK + of_dropout + CLOCKS_OF_OPERATION * operations as f64,
        blocks: f64::from(blocks(plan, tile, device)),
    };
    let steps: Vec<i64> = plan.steps([tile.queries(), tile.keys], packed).collect();
    let (arithmetic, waves) = work.clocks(&steps, extents.batches * extents.heads / packed, device);
    let memory = Floor::memory_seconds(&plan.graph, device);
    let at_once =
        vec![Term { bound: Bound::Memory, time: memory }, Term { bound: Bound::MatrixRate, time: arithmetic / CLOCK }];
    let on_top = vec![Term { bound: Bound::Fill, time: CLOCKS_OF_LAUNCH / CLOCK }];
    Estimate { at_once, on_top, waves }
}
