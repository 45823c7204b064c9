//! What the tiles of the passes cost: matrix units, the arithmetic of scores, and steps whose rows are waited for. Constants are an orientation:
//! none was measured.

use super::super::attention_backward::plan::Plan;
use super::super::warp_attention::model::{CLOCK, Work, resident};
use super::Pass;
use crate::device::Device;
use crate::engine::{Bound, Estimate, Floor, Term};
use crate::kernel::head_row_bytes;

/// Scores of which a multiprocessor does all arithmetic in a clock.
const SCORES_A_CLOCK: f64 = 8.0;

/// What a cap of a score costs beyond that, in clocks of a multiprocessor.
const CLOCKS_OF_CAP: f64 = 0.12;

/// Clocks of a launch.
const CLOCKS_OF_LAUNCH: f64 = 4500.0;

/// Blocks of a pass that share a multiprocessor.
pub(super) fn blocks(plan: &Plan, pass: &Pass, device: &Device) -> u32 {
    let (operand, tile) = (plan.operand, pass.tile);
    let held = tile.held_registers(&pass.outputs, operand) + plan.drawing_registers();
    resident(held, tile.threads(), tile.layout(plan.extents.head, operand).bytes, device)
}

/// Clocks of a pass on all multiprocessors.
fn clocks(plan: &Plan, pass: &Pass, device: &Device) -> f64 {
    let (extents, operand, tile) = (plan.extents, plan.operand, pass.tile);
    let [head, value_head] = extents.head.map(|head| f64::from(head_row_bytes(head, operand) / operand.bytes()));
    let products: f64 =
        pass.outputs.iter().map(|output| if output.is_of_values { value_head } else { head + value_head }).sum::<f64>()
            + head;
    let heads = extents.batches * if pass.of_keys { extents.key_heads[0] } else { extents.heads };
    // a step that is brought beside another one is waited for less
    let blocks = f64::from(blocks(plan, pass, device) * tile.stages);
    let scores = f64::from(tile.rows() * tile.others);
    let score = 1.0 / SCORES_A_CLOCK + if plan.cap.is_some() { CLOCKS_OF_CAP } else { 0.0 };
    let work = Work { operand, scores, products, score, blocks };
    work.clocks(&plan.steps(pass.of_keys, [tile.rows(), tile.others]), heads, device).0
}

/// The expected time of the passes, in seconds.
pub(super) fn estimate(plan: &Plan, passes: &[Pass], device: &Device) -> Estimate {
    let arithmetic: f64 = passes.iter().map(|pass| clocks(plan, pass, device)).sum();
    let memory = Floor::memory_seconds(&plan.graph, device);
    let at_once =
        vec![Term { bound: Bound::Memory, time: memory }, Term { bound: Bound::MatrixRate, time: arithmetic / CLOCK }];
    let launches = (passes.len() + 1) as f64;
    let on_top = vec![Term { bound: Bound::Fill, time: launches * CLOCKS_OF_LAUNCH / CLOCK }];
    Estimate { at_once, on_top, waves: None }
}
