//! What a tile costs: matrix units, exponentials, and how evenly tiles fall on multiprocessors. Constants are of an H200.

use super::plan::Plan;
use crate::device::Device;
use crate::engine::estimate::Waves;
use crate::engine::{Bound, Estimate, Floor, Term};
use crate::graph::{PointwiseMode, TensorId};
use crate::kernel::{AttentionTile, MmaType, Scores, Step, Value, operand_lines, value_columns};

/// Multiply-adds of a multiprocessor in a clock, of 16-bit operands.
const PER_CLOCK: f64 = 2048.0;

/// Clocks of a step beside those of its keys, by the number of multiplying warpgroups: what the products of one wait for, the softmax of
/// others hides.
const CLOCKS_OF_STEP: [f64; 4] = [0.0, 700.0, 1200.0, 400.0];

/// Share of the matrix rate that a number of multiplying warpgroups reaches.
const REACHED: [f64; 4] = [0.0, 0.6, 0.98, 0.98];

/// Clocks of a warpgroup's softmax for a key of 64 rows, where others run beside it.
const CLOCKS_OF_KEY: f64 = 5.0;

/// What an instruction for every score costs a warpgroup beyond that, for a key of 64 rows: nothing hides it. Fitted to caps and to ALiBi
/// (`docs/performance-notes.md`).
const CLOCKS_OF_INSTRUCTION: f64 = 0.7;

/// Instructions of a cap, and of other functions that are more than one; words that are read, two scores of a lane at a time.
const OF_CAP: f64 = 10.0;
const OF_FUNCTION: f64 = 10.0;
const OF_READ: f64 = 1.5;

/// What drawing numbers for them costs beyond that, of a warpgroup: nothing hides it, either.
const CLOCKS_OF_DRAWING: f64 = 6.0;

/// Clocks between two boxes, however few their rows (not measured: a line of 64 rows takes about so long at the rate of memory).
const CLOCKS_OF_BOX: f64 = 64.0;

/// Bytes that a multiprocessor takes in a clock, while others take fewer (not measured: L2 gives one 64 at most).
const BYTES_PER_CLOCK: f64 = 50.0;

/// Clocks of the launch that puts parts together, of each part, and bytes of these that it reads in a clock. The second is fitted to decoding
/// for 1 to 8 requests, and has what steps cost less there than elsewhere, too; the others are not measured alone.
const CLOCKS_OF_COMBINATION: f64 = 3000.0;
const CLOCKS_OF_PART: f64 = 580.0;
const COMBINED_PER_CLOCK: f64 = 1500.0;

/// Share of the shorter of memory time and arithmetic time that the longer one does not hide: where memory bounds all tiles, steps that need fewer
/// clocks are ahead (decode with pages of 64 rows, `docs/performance-notes.md`: 318 µs by 128 keys, 373 by 64).
const NOT_HIDDEN: f64 = 0.1;

/// Clocks of a tile beside its steps, by the number of multiplying warpgroups, and of a launch.
const CLOCKS_OF_TILE: [f64; 4] = [0.0, 1800.0, 1800.0, 2500.0];
const CLOCKS_OF_LAUNCH: f64 = 4500.0;

/// Clocks of the launch that sets the counter of tiles, before those that claim from it: 2.4 µs, of 0.8 to 2.5 measured on an H200
/// (`docs/performance-notes.md`, "Blocks claim their tiles").
const CLOCKS_OF_COUNTER: f64 = 4000.0;

/// Share of the time that blocks gain if each claims a tile when it is done with one, of tiles with as many steps (which take unequal time all the
/// same) and of others: causal ones, and those of sequences whose lengths only an execution tells (`docs/performance-notes.md`).
const UNEVEN: [f64; 2] = [0.025, 0.04];

/// Clocks in a second.
const CLOCK: f64 = 1.65e9;

/// Clocks in which boxes of what is in pages are asked for, of a step.
fn boxes(plan: &Plan, tile: AttentionTile) -> f64 {
    let rows = plan.box_rows(tile.keys);
    let lines = plan.extents().head.map(|size| operand_lines(size, plan.problem.operand));
    let count = |side: usize| if plan.problem.pages[side].is_some() { tile.keys / rows[side] * lines[side] } else { 0 };
    f64::from(count(0) + count(1)) * CLOCKS_OF_BOX
}

/// Instructions of a lane for what is done with each of its scores, beyond scaling them.
fn instructions(plan: &Plan, packed: i64) -> f64 {
    let Scores::Program(scores) = &plan.problem.scores else { return 0.0 };
    let is_of_cap = |id: TensorId| scores.is_capped(id) || scores.is_inside_cap(id);
    let same = scores.program.same_for_heads(&plan.graph, packed > 1);
    let others = scores.program.steps.iter().filter(|step| !is_of_cap(step.tensor) && !same.contains(&step.tensor));
    let of_step = |step: &Step| match (&step.value, step.pointwise()) {
        (Value::Load, _) => OF_READ,
        (_, Some((attributes, ..))) => match attributes.mode {
            PointwiseMode::GenIndex | PointwiseMode::Identity => 0.0,
            mode if is_one_instruction(mode) => 1.0,
            _ => OF_FUNCTION,
        },
        _ => 0.0,
    };
    let of_cap = if scores.cap.is_some() { OF_CAP } else { 0.0 };
    of_cap + others.map(of_step).sum::<f64>()
}

fn is_one_instruction(mode: PointwiseMode) -> bool {
    use PointwiseMode as M;
    let is_simple = matches!(
        mode,
        M::Add | M::Sub | M::Mul | M::AddSquare | M::Max | M::Min | M::Abs | M::Neg | M::ReluFwd | M::BinarySelect
    );
    is_simple || mode.is_comparison() || mode.is_logical()
}

/// What tiles whose keys so many blocks share cost, in seconds, and whether blocks claim them.
pub(super) fn price(
    plan: &Plan,
    (tile, packed, parts): (AttentionTile, i64, i64),
    device: &Device,
) -> (Estimate, bool) {
    let extents = plan.extents();
    let heads = (extents.batches * extents.heads / packed) as f64;
    let [head, value_head] = extents.head;
    let multiplied = (head + 15) / 16 * 16 + i64::from(value_columns(value_head));
    let per_clock = if plan.problem.operand == MmaType::Fp8 { 2.0 * PER_CLOCK } else { PER_CLOCK };
    let products = f64::from(tile.queries() * tile.keys) * multiplied as f64 / per_clock;
    let of_dropout = if plan.problem.dropout.is_some() { CLOCKS_OF_DRAWING } else { 0.0 };
    let keys = f64::from(tile.consumers * tile.keys);
    let softmax = keys * CLOCKS_OF_KEY;
    let modifiers = keys * (of_dropout + CLOCKS_OF_INSTRUCTION * instructions(plan, packed));
    let consumers = tile.consumers as usize;
    let brought =
        f64::from(tile.keys) * ((head + value_head) * i64::from(plan.problem.operand.bytes())) as f64 / BYTES_PER_CLOCK;
    let hidden = (products / REACHED[consumers]).max(softmax).max(boxes(plan, tile)).max(brought);
    let step = hidden + modifiers + CLOCKS_OF_STEP[consumers];
    let of_part = |steps: i64| (steps + parts - 1) / parts;
    let steps: Vec<i64> = plan.steps([tile.queries(), tile.keys], packed).map(of_part).collect();
    let heads = heads * parts as f64;
    let clocks = |steps: i64| steps as f64 * step + CLOCKS_OF_TILE[consumers];
    let total: f64 = steps.iter().map(|&steps| clocks(steps)).sum::<f64>() * heads;
    let longest = steps.iter().map(|&steps| clocks(steps)).fold(0.0, f64::max);
    let multiprocessors = f64::from(device.sm_count);
    let waves = Waves::of(steps.len() as f64 * heads, multiprocessors);
    // tiles of different lengths fill each other's gaps
    let is_even = steps.iter().all(|&count| count == steps[0]);
    let arithmetic =
        if is_even { waves.count * longest } else { (total / multiprocessors).max(longest) + longest / 2.0 };
    let memory = Floor::memory_seconds(&plan.graph, device);
    let at_once =
        vec![Term { bound: Bound::Memory, time: memory }, Term { bound: Bound::MatrixRate, time: arithmetic / CLOCK }];
    let combination = match parts {
        1 => 0.0,
        _ => {
            let floats = (parts * extents.batches * extents.heads * extents.queries * value_head) as f64;
            CLOCKS_OF_COMBINATION + CLOCKS_OF_PART * parts as f64 + 2.0 * 4.0 * floats / COMBINED_PER_CLOCK
        }
    };
    let fill = CLOCKS_OF_LAUNCH + boxes(plan, tile) + combination;
    let on_top = vec![Term { bound: Bound::Fill, time: fill / CLOCK + NOT_HIDDEN * memory.min(arithmetic / CLOCK) }];
    let uneven = UNEVEN[usize::from(plan.problem.band.slopes() || plan.problem.band.lengths.is_some())];
    let has_turns = steps.len() as f64 * heads > multiprocessors;
    let claims = parts == 1 && has_turns && uneven * total / multiprocessors > CLOCKS_OF_COUNTER;
    (Estimate { at_once, on_top, waves: is_even.then_some(waves) }, claims)
}
