//! Cores on plain multiply-adds: tiles, their order, lowering.

use super::NAME;
use crate::device::Device;
use crate::engine::config::ranked;
use crate::engine::lowering::{GemmChoice, Problem, lower_gemm};
use crate::engine::{EngineConfig, Knob, RankedConfig};
use crate::fusion::Fusion;
use crate::kernel::{GemmTile, Kernel, Multiply, Register};

/// A tile of a block and of a thread.
#[derive(Clone, Copy)]
struct Shape {
    tile: GemmTile,
    /// Rows and columns of a thread.
    thread: u32,
}

const LARGE: Shape = Shape { tile: GemmTile { m: 128, n: 128, k: 8 }, thread: 8 };
const MEDIUM: Shape = Shape { tile: GemmTile { m: 64, n: 64, k: 16 }, thread: 4 };
const SMALL: Shape = Shape { tile: GemmTile { m: 32, n: 32, k: 32 }, thread: 2 };

/// Blocks of a multiprocessor that hide each other's latency.
const BLOCKS_PER_SM: i64 = 2;

/// Steps along k that a split does at least.
const STEPS_PER_SPLIT: i64 = 16;

impl Shape {
    fn choice(self, register: Register, splits: u32) -> GemmChoice {
        let multiply = Multiply::Fma { accumulator: register, thread_m: self.thread, thread_n: self.thread };
        GemmChoice { tile: self.tile, multiply, splits, transposed: false, raw_bytes: 0, boxed_bytes: 0 }
    }
}

/// Multiply-adds a second of a multiprocessor: 2048³ with the largest tile on the 132 of an H200, at 23.1 TFLOP/s in two
/// waves.
const FMA_RATE: f64 = 90e9;

/// Tiles that fit the device, the cheapest first.
pub(super) fn candidates(fusion: &Fusion, device: &Device) -> Vec<RankedConfig> {
    let extents = extents(fusion);
    let fits = |shape: &Shape| shape.choice(Register::Float, 1).shared_bytes(true, 1) <= device.shared_bytes_per_block;
    let config = |shape: Shape| {
        let mut knobs = vec![(Knob::TileM, shape.tile.m), (Knob::TileN, shape.tile.n)];
        let splits = splits(&shape, extents, device);
        if splits > 1 {
            knobs.push((Knob::SplitK, splits));
        }
        (cost(&shape, extents, device), EngineConfig { engine: NAME, knobs })
    };
    let configs = [LARGE, MEDIUM, SMALL].into_iter().filter(fits).map(config).collect();
    ranked(configs, 1e6 / FMA_RATE)
}

/// Time of a tile choice in multiply-adds of one multiprocessor: waves of blocks, each as long as its tile is large,
/// weighted by the rate of the tile relative to the largest (2048³ on an H200: 23.1, 18.2 and 11.6 TFLOP/s).
fn cost(shape: &Shape, extents: [i64; 4], device: &Device) -> f64 {
    let splits = i64::from(splits(shape, extents, device));
    let waves = ((blocks(shape, extents) * splits) as f64 / f64::from(device.sm_count)).ceil();
    let slowness = match shape.thread {
        8 => 1.0,
        4 => 1.27,
        _ => 2.0,
    };
    let depth = extents[3] as f64 / splits as f64;
    waves * f64::from(shape.tile.m * shape.tile.n) * depth * slowness
}

fn blocks(shape: &Shape, extents: [i64; 4]) -> i64 {
    let [tiles_m, tiles_n] = shape.tile.counts(extents);
    extents[0] * tiles_m * tiles_n
}

/// Parts of k that fill the device where the tiles of C do not, each long enough to be worth its sums in the workspace.
fn splits(shape: &Shape, extents: [i64; 4], device: &Device) -> u32 {
    let wanted = i64::from(device.sm_count) * BLOCKS_PER_SM / blocks(shape, extents).max(1);
    let longest = extents[3] / (STEPS_PER_SPLIT * i64::from(shape.tile.k) * 8);
    wanted.min(longest).clamp(1, 256) as u32
}

/// Lowers a core with its stages.
pub(super) fn lower(fusion: &Fusion, config: &EngineConfig, device: &Device, kernel: &mut Kernel) {
    let wanted = (config.knob(Knob::TileM, MEDIUM.tile.m), config.knob(Knob::TileN, MEDIUM.tile.n));
    let shapes = [LARGE, MEDIUM, SMALL];
    let shape = shapes.into_iter().find(|shape| (shape.tile.m, shape.tile.n) == wanted).unwrap_or(MEDIUM);
    let choice = shape.choice(accumulator(fusion), config.knob(Knob::SplitK, 1));
    lower_gemm(fusion, &choice, config, device, kernel);
}

fn extents(fusion: &Fusion) -> [i64; 4] {
    Problem::of(fusion).expect("the fusion has a core").space.extents()
}

/// INT32 compute accumulates in `int`; every other compute type in `float` (A-40: wider than HALF is acceptable).
fn accumulator(fusion: &Fusion) -> Register {
    let core = fusion.core().expect("the fusion has a core");
    Register::of(fusion.graph().compute_type(core))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::device::ComputeCapability;
    use crate::graph::{DataType, Graph, Tensor};

    fn fusion([m, n, k]: [i64; 3]) -> Fusion {
        let mut graph = Graph::new().io_data_type(DataType::Half).compute_data_type(DataType::Float);
        let a = graph.tensor(Tensor::new("A").row_major([1, m, k]));
        let b = graph.tensor(Tensor::new("B").row_major([1, k, n]));
        let c = graph.matmul("mm", a, b);
        graph.set_output(c);
        crate::fusion::fuse(Arc::new(graph.finalize().expect("well formed"))).expect("a matmul")
    }

    fn first(extents: [i64; 3], capability: ComputeCapability) -> EngineConfig {
        candidates(&fusion(extents), &Device::typical(capability)).swap_remove(0).config
    }

    #[test]
    fn large_problems_take_large_tiles_and_few_rows_small_ones() {
        assert_eq!(first([8192, 8192, 64], ComputeCapability::SM_90).knob(Knob::TileM, 0), 128);
        assert_eq!(first([16, 2048, 64], ComputeCapability::SM_90).knob(Knob::TileM, 0), 32);
    }

    #[test]
    fn few_tiles_split_a_long_sum() {
        let splits = |extents| first(extents, ComputeCapability::SM_90).knob(Knob::SplitK, 1);
        assert_eq!(splits([4096, 4096, 4096]), 1);
        assert_eq!(splits([64, 64, 64]), 1);
        assert!(splits([64, 64, 100_000]) > 16);
    }

    #[test]
    fn a_tile_has_to_fit_shared_memory() {
        let turing = ComputeCapability::new(7, 5);
        let ranking = candidates(&fusion([4096; 3]), &Device::typical(turing));
        assert!(ranking.iter().all(|ranked| ranked.config.knob(Knob::TileM, 0) < 128));
    }
}
