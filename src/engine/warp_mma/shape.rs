//! Tiles of the tensor-core skeleton: which there are, what each costs, which fit.

use super::NAME;
use crate::device::Device;
use crate::engine::config::ranked;
use crate::engine::lowering::{
    GemmChoice, Problem, combination_cost, fp8_registers, operands_in_registers, promotes, unpacks_fp8,
};
use crate::engine::{EngineConfig, Knob, RankedConfig};
use crate::fusion::Fusion;
use crate::graph::DataType;
use crate::kernel::{GemmTile, MmaType, Multiply};

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

/// From large to small. The efficiencies are rates relative to the first (4096³ bf16 on an H200: 427 TFLOP/s).
const SHAPES: &[Shape] = &[
    shape([128, 256, 128], [64, 64], [3, 2], 1.0),
    shape([256, 128, 128], [64, 64], [3, 2], 0.98),
    shape([128, 128, 128], [64, 64], [3, 1], 0.98),
    shape([128, 128, 64], [64, 64], [4, 1], 0.93),
    shape([128, 128, 128], [64, 32], [3, 1], 0.86),
    shape([128, 64, 128], [64, 32], [4, 2], 0.72),
    shape([64, 128, 128], [32, 64], [4, 2], 0.75),
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

/// Steps along k that a split does at least.
const STEPS_PER_SPLIT: i64 = 8;

/// Time of an epilogue of 128×128 elements, in steps of 64 bytes of k: a guess that only breaks ties of the ranking.
const EPILOGUE_STEPS: f64 = 6.0;

/// Operations a second of a multiprocessor by `mma.sync` on FP16: 427 TFLOP/s on the 132 of an H200. Chips whose matrix
/// rate is lower are taken to reach it.
const MMA_RATE: f64 = 427e12 / 132.0;

/// Configs that fit the device, the cheapest first.
pub(super) fn candidates(fusion: &Fusion, operand: MmaType, device: &Device) -> Vec<RankedConfig> {
    let extents = Problem::of(fusion).expect("the fusion has a core").space.extents();
    let in_registers = operands_in_registers(fusion, &multiply(operand));
    let promotes = promotes(fusion, operand);
    let registers =
        |shape: &Shape| shape.registers(in_registers) + fp8_registers(&shape.multiply(operand, promotes), device);
    let mut configs: Vec<(f64, EngineConfig)> = Vec::new();
    for shape in SHAPES.iter().filter(|shape| registers(shape) <= REGISTERS) {
        let Some(stages) = fitting_stages(shape, operand, device) else { continue };
        let shape = Shape { stages, ..*shape };
        for splits in splits(&shape, operand, extents, device) {
            configs.push((cost(&shape, operand, extents, splits, device), config(&shape, operand, splits)));
        }
    }
    ranked(configs, step_seconds(device) * 1e6)
}

/// How the engine multiplies, by the first tile: the ways of operands to shared memory do not depend on it.
pub(super) fn multiply(operand: MmaType) -> Multiply {
    SHAPES[0].multiply(operand, false)
}

/// As many stages as fit; at least two. The accumulator tile has to fit, too.
fn fitting_stages(shape: &Shape, operand: MmaType, device: &Device) -> Option<u32> {
    let available = device.shared_bytes_per_block;
    let stage = (shape.m + shape.n) * shape.k_bytes;
    let stages = (available / stage).min(shape.stages);
    let choice = shape.choice(operand, 1);
    (stages >= 2 && choice.shared_bytes(true, 1).max(choice.shared_bytes(false, 1)) <= available).then_some(stages)
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

    fn tile(&self, operand: MmaType) -> GemmTile {
        GemmTile { m: self.m, n: self.n, k: self.k_bytes / operand.bytes() }
    }

    fn multiply(&self, operand: MmaType, promotes: bool) -> Multiply {
        let Self { warp_m, warp_n, stages, fragments, .. } = *self;
        Multiply::Mma { operand, warp_m, warp_n, stages, fragments, promotes }
    }

    /// What is chosen, but for how sums are added up, which takes no shared memory.
    fn choice(&self, operand: MmaType, splits: u32) -> GemmChoice {
        let multiply = self.multiply(operand, false);
        GemmChoice { tile: self.tile(operand), multiply, splits, transposed: false, raw_bytes: 0, boxed_bytes: 0 }
    }
}

fn config(shape: &Shape, operand: MmaType, splits: u32) -> EngineConfig {
    let mut knobs = vec![
        (Knob::TileM, shape.m),
        (Knob::TileN, shape.n),
        (Knob::TileK, shape.tile(operand).k),
        (Knob::WarpM, shape.warp_m),
        (Knob::WarpN, shape.warp_n),
        (Knob::Stages, shape.stages),
        (Knob::Fragments, shape.fragments),
    ];
    if splits > 1 {
        knobs.push((Knob::SplitK, splits));
    }
    EngineConfig { engine: NAME, knobs }
}

/// What a config chooses; a knob that is missing has the value of the smallest tile.
pub(super) fn choice(config: &EngineConfig, operand: MmaType, promotes: bool) -> GemmChoice {
    let knob = |knob, default| config.knob(knob, default);
    let multiply = Multiply::Mma {
        operand,
        warp_m: knob(Knob::WarpM, 32),
        warp_n: knob(Knob::WarpN, 32),
        stages: knob(Knob::Stages, 2),
        fragments: knob(Knob::Fragments, 1),
        promotes,
    };
    let tile =
        GemmTile { m: knob(Knob::TileM, 64), n: knob(Knob::TileN, 64), k: knob(Knob::TileK, 128 / operand.bytes()) };
    GemmChoice { tile, multiply, splits: knob(Knob::SplitK, 1), transposed: false, raw_bytes: 0, boxed_bytes: 0 }
}

fn blocks(shape: &Shape, operand: MmaType, extents: [i64; 4]) -> i64 {
    let [tiles_m, tiles_n] = shape.tile(operand).counts(extents);
    extents[0] * tiles_m * tiles_n
}

fn steps(shape: &Shape, operand: MmaType, extents: [i64; 4]) -> i64 {
    let k = i64::from(shape.tile(operand).k);
    (extents[3] + k - 1) / k
}

/// No split; where the tiles of C leave multiprocessors idle, as many as fill them once or twice.
fn splits(shape: &Shape, operand: MmaType, extents: [i64; 4], device: &Device) -> Vec<u32> {
    let blocks = blocks(shape, operand, extents);
    let longest = steps(shape, operand, extents) / STEPS_PER_SPLIT;
    let mut all = vec![1];
    for waves in [1, 2] {
        let splits = (i64::from(device.sm_count) * waves / blocks.max(1)).min(longest).min(128) as u32;
        if splits > 1 && !all.contains(&splits) {
            all.push(splits);
        }
    }
    all
}

/// Time in steps of a full tensor core: waves of blocks, each its steps weighted by its area and efficiency; sums in
/// the workspace are written, and read again by the epilogue.
fn cost(shape: &Shape, operand: MmaType, extents: [i64; 4], splits: u32, device: &Device) -> f64 {
    let blocks = blocks(shape, operand, extents) * i64::from(splits);
    let waves = (blocks as f64 / f64::from(device.sm_count)).ceil();
    let steps = (steps(shape, operand, extents) as f64 / f64::from(splits)).ceil();
    let instructions = if operand == MmaType::Fp8 && unpacks_fp8(device) { 2.0 } else { 1.0 };
    let area = f64::from(shape.m * shape.n) / 16384.0;
    let step = area * f64::from(shape.k_bytes) / 64.0 * instructions / shape.efficiency;
    let epilogue = EPILOGUE_STEPS * area;
    let combination = if splits > 1 { combination_cost(extents, splits, device) } else { 0.0 };
    waves * (steps * step + epilogue) + combination
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
    fn fusion([m, n, k]: [i64; 3], evaluated: bool) -> Fusion {
        let mut graph = Graph::new().io_data_type(DataType::Half).compute_data_type(DataType::Float);
        let mut a = graph.tensor(Tensor::new("A").row_major([1, m, k]));
        let b = graph.tensor(Tensor::new("B").row_major([1, k, n]));
        if evaluated {
            a = graph.pointwise("exp", PointwiseMode::Exp, &[a]);
            graph.tensor_mut(a).data_type = Some(DataType::Half);
        }
        let c = graph.matmul("mm", a, b);
        graph.set_output(c);
        crate::fusion::fuse(Arc::new(graph.finalize().expect("well formed"))).expect("a matmul")
    }

    fn configs(extents: [i64; 3], evaluated: bool, capability: (u32, u32)) -> Vec<EngineConfig> {
        let device = Device::typical(ComputeCapability::new(capability.0, capability.1));
        let ranking = candidates(&fusion(extents, evaluated), MmaType::F16, &device);
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
        let ranking = candidates(&fusion([4096; 3], false), MmaType::F16, &device);
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
                let choice = choice(&config, MmaType::F16, false);
                let bytes = choice.shared_bytes(true, 1);
                assert!(bytes <= device.shared_bytes_per_block, "{config} on {}", device.name);
                assert_eq!(choice.tile.m, config.knob(Knob::TileM, 0));
            }
        }
    }
}
