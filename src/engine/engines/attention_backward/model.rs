//! What the tiles of the passes cost: matrix units, the arithmetic of scores, and how evenly tiles fall on multiprocessors. Constants are of an
//! H200.

use super::Pass;
use super::plan::Plan;
use super::queries::{Passes, Queries};
use crate::device::Device;
use crate::engine::estimate::Waves;
use crate::engine::{Bound, Estimate, Floor, Term};
use crate::kernel::{AttentionBiasKernel, QueriesTile, WGMMA_ROWS};

/// Multiply-adds of a multiprocessor in a clock, of 16-bit operands.
const PER_CLOCK: f64 = 2048.0;

/// Share of the matrix rate that a number of multiplying warpgroups reaches.
const REACHED: [f64; 4] = [0.0, 0.5, 0.7, 0.75];

/// Clocks of a step beside its products, and of a warpgroup's arithmetic for 64 scores, where others run beside it.
const CLOCKS_OF_STEP: f64 = 500.0;
const CLOCKS_OF_COLUMN: f64 = 6.0;

/// What a cap adds to that: tanh and its slope.
const CLOCKS_OF_CAP: f64 = 8.0;

/// Clocks of a tile beside its steps, and of a launch.
const CLOCKS_OF_TILE: f64 = 2500.0;
const CLOCKS_OF_LAUNCH: f64 = 4500.0;

/// Clocks in a second.
const CLOCK: f64 = 1.65e9;

/// Clocks of a warpgroup's arithmetic for 64 scores.
fn clocks_of_column(plan: &Plan) -> f64 {
    CLOCKS_OF_COLUMN + if plan.cap.is_some() { CLOCKS_OF_CAP } else { 0.0 }
}

/// Share of the memory's rate that gradients of scores come and go at.
const MEMORY_REACHED: f64 = 0.85;

/// Clocks in which a multiprocessor moves so many bytes to memory, or from it, while all others do.
fn clocks_of_bytes(bytes: u32, device: &Device) -> f64 {
    let rate = device.bytes_per_second * MEMORY_REACHED / f64::from(device.sm_count);
    f64::from(bytes) / rate * CLOCK
}

/// How much longer than multiplying it takes to read what a warpgroup multiplies for so many columns of scores: both operands lie in shared
/// memory, which gives 128 bytes in a clock. 64 rows and `others` columns are read for every 16 elements of a head, in which the matrix units take
/// `others / 2` clocks.
fn over_reads(others: u32) -> f64 {
    const BYTES_OF_CLOCK: f64 = 128.0;
    let bytes = f64::from(WGMMA_ROWS + others) * 32.0;
    (bytes / BYTES_OF_CLOCK / (f64::from(others) / 2.0)).max(1.0)
}

/// Clocks of a pass on all multiprocessors; of one that leaves gradients of scores, of all its launches.
fn clocks(plan: &Plan, pass: &Pass, queries: Option<&Queries>, device: &Device) -> f64 {
    let extents = plan.extents;
    let [head, value_head] = extents.head.map(|head| ((head + 15) / 16 * 16) as f64);
    let tile = pass.tile;
    let of_outputs: f64 =
        pass.outputs.iter().map(|output| if output.is_of_values { value_head } else { head }).sum::<f64>();
    let has_gradients = pass.outputs.iter().any(|output| !output.is_of_values);
    let of_scores = head + if has_gradients { value_head } else { 0.0 };
    let products = of_outputs + of_scores * over_reads(tile.others);
    let consumers = tile.consumers as usize;
    let multiplied = f64::from(tile.rows() * tile.others) * products / PER_CLOCK / REACHED[consumers];
    let arithmetic = f64::from(tile.consumers * tile.others) * clocks_of_column(plan);
    let left = queries.map_or(0.0, |_| clocks_of_bytes(tile.rows() * tile.others * 2, device));
    let step = multiplied.max(arithmetic).max(left) + CLOCKS_OF_STEP;
    let steps = plan.steps(pass.of_keys, [tile.rows(), tile.others]);
    let heads = extents.batches * if pass.of_keys { extents.key_heads[0] } else { extents.heads };
    let [heads, launches] = queries.map_or([heads, 1], |queries| [queries.gradients.heads, queries.launches]);
    launches as f64 * clocks_of_tiles(&steps, heads, step, plan, device)
}

/// Clocks of tiles of so many steps, of each of some heads.
fn clocks_of_tiles(steps: &[i64], heads: i64, step: f64, plan: &Plan, device: &Device) -> f64 {
    let clocks = |steps: i64| steps as f64 * step + CLOCKS_OF_TILE;
    let total: f64 = steps.iter().map(|&steps| clocks(steps)).sum::<f64>() * heads as f64;
    let longest = steps.iter().map(|&steps| clocks(steps)).fold(0.0, f64::max);
    let multiprocessors = f64::from(device.sm_count);
    let waves = Waves::of(steps.len() as f64 * heads as f64, multiprocessors);
    let pairs = heads as f64 * (steps.len() as f64 / 2.0).ceil();
    if plan.slopes_steps() && steps.len() as f64 * heads as f64 > multiprocessors {
        return Waves::of(pairs, multiprocessors).count * total / pairs;
    }
    match steps.iter().all(|&count| count == steps[0]) {
        true => waves.count * longest,
        // tiles of different lengths fill each other's gaps
        false => (total / multiprocessors).max(longest) + longest / 2.0,
    }
}

/// Clocks of the launches that multiply gradients of queries by those of scores.
fn queries_clocks(plan: &Plan, queries: &Queries, device: &Device) -> f64 {
    const CLOCKS_OF_PRODUCTS: f64 = 100.0;
    let (tile, gradients) = (queries.tile, queries.gradients);
    let head = f64::from(tile.accumulators(plan.extents.head[0]) / tile.parts * 2);
    let products = f64::from(tile.rows() * QueriesTile::STEP) * head;
    let multiplied = products / PER_CLOCK / REACHED[tile.consumers as usize];
    let step = multiplied.max(clocks_of_bytes(tile.rows() * QueriesTile::STEP * 2, device)) + CLOCKS_OF_PRODUCTS;
    let steps = plan.steps(false, [tile.rows(), QueriesTile::STEP]);
    queries.launches as f64 * clocks_of_tiles(&steps, gradients.heads * gradients.members, step, plan, device)
}

/// Bytes that a multiprocessor brings to its shared memory in a clock.
const BYTES_OF_CLOCK: f64 = 40.0;

/// Clocks of the gradient of a bias on all multiprocessors. Products and arithmetic of a warpgroup take turns.
pub(super) fn bias_clocks(plan: &Plan, kernel: &AttentionBiasKernel, device: &Device) -> f64 {
    let tile = kernel.pass.tile;
    let head: f64 = plan.extents.head.iter().map(|&head| ((head + 15) / 16 * 16) as f64).sum();
    let multiplied = f64::from(tile.rows() * tile.others) * head / PER_CLOCK / REACHED[tile.consumers as usize];
    let arithmetic = f64::from(tile.consumers * tile.others) * clocks_of_column(plan);
    let in_turns = multiplied.max(arithmetic) + multiplied.min(arithmetic) / f64::from(tile.consumers);
    let brought = f64::from(kernel.layout().stage_bytes) / BYTES_OF_CLOCK;
    let step = in_turns.max(brought) + CLOCKS_OF_STEP;
    let heads = plan.extents.batches * plan.extents.heads;
    let steps = plan.steps(false, [tile.rows(), tile.others]).iter().sum::<i64>() * heads;
    let units = kernel.counts()[0] as f64;
    let waves = Waves::of(units, f64::from(device.sm_count));
    waves.count * (steps as f64 / units * step + CLOCKS_OF_TILE)
}

/// The expected time of the passes, in seconds.
pub(super) fn estimate(
    plan: &Plan,
    passes: &Passes,
    of_bias: Option<&AttentionBiasKernel>,
    device: &Device,
) -> Estimate {
    let of_bias = of_bias.map(|kernel| bias_clocks(plan, kernel, device));
    let queries = passes.queries.as_ref();
    let of_queries = queries.map(|queries| queries_clocks(plan, queries, device));
    let of_pass = |pass: &Pass| clocks(plan, pass, queries.filter(|_| pass.has_sums()), device);
    let arithmetic = passes.all.iter().map(of_pass).chain(of_queries).chain(of_bias).sum::<f64>();
    let memory = Floor::memory_seconds(&plan.graph, device);
    let at_once =
        vec![Term { bound: Bound::Memory, time: memory }, Term { bound: Bound::MatrixRate, time: arithmetic / CLOCK }];
    let halves = plan.half_bytes();
    let repeated = queries.map_or(0, |queries| 2 * queries.launches - 1);
    let once = passes.all.len() + 1 + usize::from(of_bias.is_some()) + usize::from(halves > 0);
    let launches = once as f64 + repeated as f64;
    let mut on_top = vec![Term { bound: Bound::Fill, time: launches * CLOCKS_OF_LAUNCH / CLOCK }];
    if halves > 0 {
        on_top.push(Term { bound: Bound::Memory, time: halves as f64 / device.bytes_per_second });
    }
    Estimate { at_once, on_top, waves: None }
}

#[cfg(test)]
mod tests {
    use super::over_reads;

    #[test]
    fn few_columns_of_scores_wait_for_what_they_read() {
        assert_eq!([16, 32, 64, 128].map(over_reads), [2.5, 1.5, 1.0, 1.0]);
    }
}
