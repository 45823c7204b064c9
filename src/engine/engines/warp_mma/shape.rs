//! Tiles of the tensor-core skeleton: which there are, what each costs, which fit.

use super::{NAME, Tiles};
use crate::device::Device;
use crate::engine::config::{Field, ranked};
use crate::engine::lowering::{
    COMBINATION, GemmChoice, OperandPlan, combination_seconds, fp8_registers, splits_that_fill, unpacks_fp8,
};
use crate::engine::{Bound, EngineConfig, Estimate, Knob, RankedConfig, Term, Waves};
use crate::graph::DataType;
use crate::kernel::{GemmTile, Mma, MmaType, Multiply, Number};

/// Tiles of a block and of a warp, and parts of k.
#[derive(Debug)]
struct Config {
    tile: GemmTile,
    warp_m: u32,
    warp_n: u32,
    stages: u32,
    fragments: u32,
    splits: u32,
}

impl Default for Config {
    fn default() -> Self {
        Self { tile: GemmTile { m: 64, n: 64, k: 64 }, warp_m: 32, warp_n: 32, stages: 2, fragments: 1, splits: 1 }
    }
}

const FIELDS: &[Field<Config>] = &[
    Field { knob: Knob::TileM, get: |config| config.tile.m, set: |config, value| config.tile.m = value },
    Field { knob: Knob::TileN, get: |config| config.tile.n, set: |config, value| config.tile.n = value },
    Field { knob: Knob::TileK, get: |config| config.tile.k, set: |config, value| config.tile.k = value },
    Field { knob: Knob::WarpM, get: |config| config.warp_m, set: |config, value| config.warp_m = value },
    Field { knob: Knob::WarpN, get: |config| config.warp_n, set: |config, value| config.warp_n = value },
    Field { knob: Knob::Stages, get: |config| config.stages, set: |config, value| config.stages = value },
    Field { knob: Knob::Fragments, get: |config| config.fragments, set: |config, value| config.fragments = value },
    Field { knob: Knob::SplitK, get: |config| config.splits, set: |config, value| config.splits = value },
];

/// A tile of a block and of a warp; depth in bytes of k.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Shape {
    m: u32,
    n: u32,
    k_bytes: u32,
    warp_m: u32,
    warp_n: u32,
    stages: u32,
    fragments: u32,
    /// Share of the tensor cores' rate that the tile reaches where it fits.
    efficiency: f64,
}

const fn shape(
    [m, n, k_bytes]: [u32; 3],
    [warp_m, warp_n]: [u32; 2],
    [stages, fragments]: [u32; 2],
    efficiency: f64,
) -> Shape {
    Shape { m, n, k_bytes, warp_m, warp_n, stages, fragments, efficiency }
}

/// From large to small. The efficiencies are rates relative to the first (4096³ bf16 on an H200: 427 TFLOP/s); those of 128×64 and 64×128
/// are lower than there (0.72, 0.75), by the filter gradient of [`ENOUGH_WARPS`]: with two blocks 268 µs in tiles of 64×128.
const SHAPES: &[Shape] = &[
    shape([128, 256, 128], [64, 64], [3, 2], 1.0),
    shape([256, 128, 128], [64, 64], [3, 2], 0.98),
    shape([128, 128, 128], [64, 64], [3, 1], 0.98),
    shape([128, 128, 64], [64, 64], [4, 1], 0.93),
    shape([128, 128, 128], [64, 32], [3, 1], 0.86),
    shape([128, 64, 128], [64, 32], [4, 2], 0.68),
    shape([64, 128, 128], [32, 64], [4, 2], 0.68),
    shape([64, 64, 128], [32, 32], [4, 1], 0.62),
    shape([32, 128, 128], [32, 32], [4, 1], 0.5),
    shape([128, 32, 128], [32, 32], [4, 1], 0.5),
    shape([32, 64, 128], [16, 32], [4, 1], 0.44),
    shape([64, 32, 128], [16, 32], [4, 1], 0.44),
    shape([16, 128, 128], [16, 32], [4, 1], 0.36),
    shape([16, 64, 128], [16, 16], [5, 1], 0.3),
];

/// Registers of a thread up to which a tile was seen not to spill.
const REGISTERS: u32 = 240;

/// Registers for places of small pieces under taps (12 channels by 7×7 taps spilled 88 bytes at 240).
const PLACES: u32 = 16;

/// Steps along k that a split does at least.
const STEPS_PER_SPLIT: i64 = 8;

/// Time of an epilogue of 128×128 elements, in steps of 64 bytes of k: a guess that only breaks ties of the ranking.
const EPILOGUE_STEPS: f64 = 6.0;

/// By how much an epilogue takes longer of warps with 64×64 elements, which are few: the least with which tiles of such warps are not taken for
/// faster than others where k is short (3 channels of FLOAT to 640 by 3×3 on an H100: 165 µs, of warps with 64×32 elements 122).
const LARGE_WARP: f64 = 2.0;
const ELEMENTS_OF_A_LARGE_WARP: u32 = 64 * 64;

/// Warps of a multiprocessor of which more are no faster, and the power of their number with which fewer are slower than as many as fit: a
/// filter gradient of 7×7, stride 2, of 8 to 64 channels, 64×224×224 in FP16 on an H200 takes 310 µs in tiles of 64×64 with a block
/// of 4 warps on each multiprocessor, 217 with two; in tiles of 128×128 419 and 290; on an H100 243 with two blocks of 64×64 and 272 with three.
const ENOUGH_WARPS: f64 = 8.0;
const LATENCY_POWER: f64 = 0.5;

/// Clocks of a multiprocessor for an access of fewer than 16 bytes on the way to shared memory: by `cp.async`, of 8 bytes and of 4 (forward of
/// 36 channels of BF16, 24×112×112 to 48, stride 2, on an H100: 35 µs; of 33 channels of FLOAT, 256×64×64 to 4, 1×1: 372), and through
/// registers, along k (3 channels of BF16: 32 µs) and along m or n (filter gradient of FLOAT, 64×640×8×8 by 48, 5×5, stride 2: 260 µs; of BF16,
/// 33 channels to 36, 16×32×32: 78; of HALF in 4 groups of 33 channels, 4×80×80 to 384, stride 2: 155).
const SHORT_COPY: [f64; 2] = [0.5, 0.8];
const SHORT_ALONG_K: f64 = 0.8;
const SHORT_ALONG_OUTER: f64 = 2.4;

/// Clocks a second of the chips on which the constants were seen.
const CLOCK: f64 = 1.6e9;

/// Seconds of a launch, and from a block's start to its first full stage: as by `wgmma`.
const FILL_SECONDS: f64 = 3.5e-6;

/// Most parts of k. Not tuned.
const MOST_SPLITS: i64 = 128;

/// Operations a second of a multiprocessor by `mma.sync` on FP16: 427 TFLOP/s on the 132 of an H200. Chips whose matrix
/// rate is lower are taken to reach it.
const MMA_RATE: f64 = 427e12 / 132.0;

/// Seconds of a step of 128×128×64 bytes against which sums that go through the workspace are weighed: an orientation for the
/// ranking (seen on an H200).
const STEP_SECONDS: f64 = 0.15e-6;

/// Configs that fit the device, the cheapest first.
pub(super) fn candidates(tiles: &Tiles, device: &Device) -> Vec<RankedConfig> {
    let mut configs = Vec::new();
    for shape in SHAPES {
        let Some(shape) = fitting(shape, tiles, device) else { continue };
        let extents = tiles.plan.extents();
        for splits in splits(&shape, tiles.operand, extents, device) {
            let choice = shape.choice(tiles, splits);
            let through_workspace = tiles.plan.through_workspace(&choice, device);
            let sums = match through_workspace {
                Some(_) => COMBINATION * combination_seconds(extents, splits, device) / STEP_SECONDS,
                None => 0.0,
            };
            let estimate = estimate(&shape, tiles, (splits, sums), device);
            configs.push((estimate, config(&choice, &shape), through_workspace));
        }
    }
    ranked(configs, step_seconds(device) * 1e6)
}

/// The shape with as many stages as fit, at least two, if the accumulators and what is held beside them fit, too.
fn fitting(shape: &Shape, tiles: &Tiles, device: &Device) -> Option<Shape> {
    let operand = tiles.operand;
    let pass_over = |why: &str, needed, most| {
        tracing::debug!(tile_m = shape.m, tile_n = shape.n, why, needed, most, "tile passed over");
    };
    let multiply = shape.multiply(operand, tiles.promotes);
    let held = tiles.plan.operands.each_ref().map(|operand| operand.is_held_in_registers());
    let is_scattered = tiles.plan.operands.iter().any(|plan| plan.copies_small_pieces(operand.bytes()));
    let places = if is_scattered { PLACES } else { 0 };
    let registers = shape.registers(held) + fp8_registers(&multiply, device) + places;
    if registers > REGISTERS {
        pass_over("registers of a thread", registers, REGISTERS);
        return None;
    }
    let available = device.shared_bytes_per_block;
    let stage = (shape.m + shape.n) * shape.k_bytes;
    let stages = (available / stage).min(shape.stages);
    let needed = tiles.plan.most_shared_bytes(&shape.choice(tiles, 1)).max(2 * stage);
    if needed > available {
        pass_over("bytes of shared memory", needed, available);
        return None;
    }
    Some(Shape { stages, ..*shape })
}

impl Shape {
    /// Registers of a thread: accumulators, fragments, operands that go through registers (once as they were read, once
    /// as they are stored), and about 48 for addresses.
    fn registers(&self, in_registers: [bool; 2]) -> u32 {
        const ADDRESSES: u32 = 48;
        let threads = (self.m / self.warp_m) * (self.n / self.warp_n) * 32;
        let held = [self.m, self.n].into_iter().zip(in_registers).filter(|(_, held)| *held);
        let operands: u32 = held.map(|(rows, _)| rows * self.k_bytes / 4 / threads * 2).sum();
        let fragments = self.fragments * (self.warp_m + self.warp_n) / 4;
        self.warp_m * self.warp_n / 32 + fragments + operands + ADDRESSES
    }

    /// By how much steps take longer on a multiprocessor that has so many blocks than on one that has all that fit.
    fn latency(&self, blocks: f64, device: &Device) -> f64 {
        let stages = (self.m + self.n) * self.k_bytes * self.stages;
        let fitting = f64::from((device.shared_bytes_per_block / stages).max(1));
        let warps = f64::from((self.m / self.warp_m) * (self.n / self.warp_n));
        let busy = |blocks: f64| (blocks * warps).min(ENOUGH_WARPS);
        (busy(fitting) / busy(blocks.min(fitting))).powf(LATENCY_POWER)
    }

    /// Clocks of accesses of fewer than 16 bytes to the operands of a step.
    fn short_accesses(&self, tiles: &Tiles) -> f64 {
        let k = f64::from(self.tile(tiles.operand).k);
        let of_rows = |(plan, rows): (&OperandPlan, u32)| {
            let clocks = match plan.vector() * i64::from(tiles.operand.bytes()) {
                8.. if plan.is_copied() => SHORT_COPY[0],
                _ if plan.is_copied() => SHORT_COPY[1],
                _ if plan.lies_along_k() => SHORT_ALONG_K,
                _ => SHORT_ALONG_OUTER,
            };
            plan.short_accesses(tiles.operand) * f64::from(rows) * k * clocks
        };
        tiles.plan.operands.iter().zip([self.m, self.n]).map(of_rows).sum()
    }

    fn tile(&self, operand: MmaType) -> GemmTile {
        GemmTile { m: self.m, n: self.n, k: self.k_bytes / operand.bytes() }
    }

    fn multiply(&self, operand: MmaType, promotes: bool) -> Multiply {
        let Self { warp_m, warp_n, stages, fragments, .. } = *self;
        Multiply::Mma(Mma { operand, warp_m, warp_n, stages, fragments, promotes })
    }

    fn choice(&self, tiles: &Tiles, splits: u32) -> GemmChoice {
        let multiply = self.multiply(tiles.operand, tiles.promotes);
        GemmChoice::of_blocks(self.tile(tiles.operand), multiply, splits)
    }
}

fn config(choice: &GemmChoice, shape: &Shape) -> EngineConfig {
    let Shape { warp_m, warp_n, stages, fragments, .. } = *shape;
    let config = Config { tile: choice.tile, warp_m, warp_n, stages, fragments, splits: choice.splits };
    EngineConfig::of_fields(NAME, FIELDS, &config)
}

/// What a config chooses.
pub(super) fn choice(tiles: &Tiles, config: &EngineConfig) -> GemmChoice {
    let Config { tile, warp_m, warp_n, stages, fragments, splits } = config.fields(FIELDS);
    let (operand, promotes) = (tiles.operand, tiles.promotes);
    let multiply = Multiply::Mma(Mma { operand, warp_m, warp_n, stages, fragments, promotes });
    GemmChoice::of_blocks(tile, multiply, splits)
}

fn blocks(shape: &Shape, operand: MmaType, extents: [i64; 4]) -> i64 {
    let [tiles_m, tiles_n] = shape.tile(operand).counts(extents).map(Number::value);
    extents[0] * tiles_m * tiles_n
}

fn steps(shape: &Shape, operand: MmaType, extents: [i64; 4]) -> i64 {
    let k = i64::from(shape.tile(operand).k);
    (extents[3] + k - 1) / k
}

/// Numbers of parts of k that are tried.
fn splits(shape: &Shape, operand: MmaType, extents: [i64; 4], device: &Device) -> Vec<u32> {
    let longest = steps(shape, operand, extents) / STEPS_PER_SPLIT;
    splits_that_fill(device, blocks(shape, operand, extents), longest.min(MOST_SPLITS))
}

/// Time in steps of a full tensor core: waves of blocks, each its steps weighted by its area and efficiency, or what short accesses to its
/// operands take; all tensors through memory; then epilogues, and what `sums` of the splits take.
fn estimate(shape: &Shape, tiles: &Tiles, (splits, sums): (u32, f64), device: &Device) -> Estimate {
    let (operand, extents) = (tiles.operand, tiles.plan.extents());
    let blocks = blocks(shape, operand, extents) * i64::from(splits);
    let waves = Waves::of(blocks as f64, f64::from(device.sm_count));
    let steps = (steps(shape, operand, extents) as f64 / f64::from(splits)).ceil();
    let instructions = if operand == MmaType::Fp8 && unpacks_fp8(device) { 2.0 } else { 1.0 };
    let area = f64::from(shape.m * shape.n) / 16384.0;
    let step =
        area * f64::from(shape.k_bytes) / 64.0 * instructions / shape.efficiency * shape.latency(waves.count, device);
    let is_large = shape.warp_m * shape.warp_n >= ELEMENTS_OF_A_LARGE_WARP;
    let epilogue = EPILOGUE_STEPS * area * if is_large { LARGE_WARP } else { 1.0 };
    let step_seconds = step_seconds(device);
    let short = shape.short_accesses(tiles) / CLOCK / step_seconds;
    let term = |bound, time| Term { bound, time };
    Estimate {
        at_once: vec![
            term(Bound::MatrixRate, waves.count * steps * step),
            term(Bound::Operands, waves.count * steps * short),
            term(Bound::Memory, tiles.plan.least_bytes(operand) / device.bytes_per_second / step_seconds),
        ],
        on_top: vec![
            term(Bound::Fill, FILL_SECONDS / step_seconds),
            term(Bound::Epilogue, waves.count * epilogue),
            term(Bound::Workspace, sums),
        ],
        waves: Some(waves),
    }
}

/// Seconds of a step of a full tensor core, 128×128 elements by 64 bytes of k: the same for operands of every type, since
/// the rate goes with the bytes.
fn step_seconds(device: &Device) -> f64 {
    const HALF_OPERATIONS: f64 = 2.0 * 128.0 * 128.0 * 32.0;
    let peak = device.flops_per_second(DataType::Half) / f64::from(device.sm_count);
    HALF_OPERATIONS / peak.min(MMA_RATE)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::device::ComputeCapability;
    use crate::graph::{Graph, PointwiseMode, Tensor};

    /// `A · B`, or `exp(A) · B`.
    fn tiles([m, n, k]: [i64; 3], evaluated: bool, capability: ComputeCapability) -> Tiles {
        let mut graph = Graph::new().io_data_type(DataType::Half).compute_data_type(DataType::Float);
        let mut a = graph.tensor(Tensor::new("A").row_major([1, m, k]));
        let b = graph.tensor(Tensor::new("B").row_major([1, k, n]));
        if evaluated {
            a = graph.pointwise("exp", PointwiseMode::Exp, &[a]);
            graph.tensor_mut(a).data_type = Some(DataType::Half);
        }
        let c = graph.matmul("mm", a, b);
        graph.set_output(c);
        let fusion = crate::fusion::fuse(Arc::new(graph.finalize().expect("well formed"))).expect("a matmul");
        Tiles::new(&fusion, fusion.product().expect("a matmul"), capability).expect("the chip multiplies FP16")
    }

    fn configs(extents: [i64; 3], evaluated: bool, capability: (u32, u32)) -> Vec<EngineConfig> {
        let device = Device::typical(ComputeCapability::new(capability.0, capability.1));
        let ranking = candidates(&tiles(extents, evaluated, device.capability), &device);
        ranking.into_iter().map(|ranked| ranked.config).collect()
    }

    #[test]
    fn large_problems_take_the_largest_tile_and_few_rows_a_flat_one() {
        let first = |extents| configs(extents, false, (9, 0)).swap_remove(0);
        let area = |config: &EngineConfig| config.knob(Knob::TileM, 0) * config.knob(Knob::TileN, 0);
        assert_eq!(area(&first([8192, 8192, 8192])), 128 * 256);
        assert_eq!(first([16, 14336, 4096]).knob(Knob::TileM, 0), 16);
    }

    #[test]
    fn estimates_ascend_and_are_near_what_was_measured() {
        // 0.314 ms on an H200.
        let device = Device::typical(ComputeCapability::SM_90);
        let ranking = candidates(&tiles([4096; 3], false, device.capability), &device);
        assert!((280.0..380.0).contains(&ranking[0].estimated_us), "{:?}", ranking[0]);
        assert!(ranking.is_sorted_by(|a, b| a.estimated_us <= b.estimated_us));
    }

    #[test]
    fn few_tiles_split_a_long_sum() {
        let first = configs([128, 128, 100_000], false, (9, 0)).swap_remove(0);
        assert!(first.knob(Knob::SplitK, 1) > 16, "{first}");
    }

    #[test]
    fn what_is_held_in_registers_leaves_no_room_for_the_largest_tile() {
        let largest = |evaluated| {
            let all = configs([8192; 3], evaluated, (9, 0));
            all.iter().map(|config| config.knob(Knob::TileM, 0) * config.knob(Knob::TileN, 0)).max()
        };
        assert_eq!((largest(false), largest(true)), (Some(128 * 256), Some(128 * 128)));
    }

    #[test]
    fn every_config_fits_the_chip_and_is_read_back() {
        for capability in [(7, 5), (8, 0), (8, 6), (9, 0)] {
            let device = Device::typical(ComputeCapability::new(capability.0, capability.1));
            let all = configs([4096; 3], false, capability);
            assert!(!all.is_empty());
            for config in all {
                let tiles = tiles([4096; 3], false, device.capability);
                let choice = choice(&tiles, &config);
                let bytes = tiles.plan.most_shared_bytes(&choice);
                assert!(bytes <= device.shared_bytes_per_block, "{config} on {}", device.name);
                assert_eq!(choice.tile.m, config.knob(Knob::TileM, 0));
            }
        }
    }
}
