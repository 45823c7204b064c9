//! Cores on plain multiply-adds: tiles, their order, lowering.

use super::NAME;
use crate::device::Device;
use crate::engine::config::{Field, ranked};
use crate::engine::lowering::{GemmChoice, Instruction, ProductPlan, combination_seconds};
use crate::engine::{Bound, EngineConfig, Estimate, Knob, Offer, RankedConfig, Term, Waves};
use crate::fusion::{Fusion, Product};
use crate::kernel::{Fma, GemmTile, Kernel, Multiply, Number, Register};

/// A product in tiles.
#[derive(Debug)]
pub(super) struct Tiles {
    plan: ProductPlan,
    accumulator: Register,
}

/// A tile of a block, and parts of k.
#[derive(Debug)]
struct Config {
    tile_m: u32,
    tile_n: u32,
    splits: u32,
}

impl Default for Config {
    fn default() -> Self {
        Self { tile_m: MEDIUM.tile.m, tile_n: MEDIUM.tile.n, splits: 1 }
    }
}

const FIELDS: &[Field<Config>] = &[
    Field { knob: Knob::TileM, get: |config| config.tile_m, set: |config, value| config.tile_m = value },
    Field { knob: Knob::TileN, get: |config| config.tile_n, set: |config, value| config.tile_n = value },
    Field { knob: Knob::SplitK, get: |config| config.splits, set: |config, value| config.splits = value },
];

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

/// Multiply-adds a second of a multiprocessor: 2048³ with the largest tile on the 132 of an H200, at 23.1 TFLOP/s in two
/// waves.
const FMA_RATE: f64 = 90e9;

impl Shape {
    fn choice(self, register: Register, splits: u32) -> GemmChoice {
        let multiply = Multiply::Fma(Fma { accumulator: register, thread_m: self.thread, thread_n: self.thread });
        GemmChoice::of_blocks(self.tile, multiply, splits)
    }
}

impl Tiles {
    /// INT32 compute accumulates in `int`; every other compute type in `float` (A-40: wider than HALF is acceptable).
    pub(super) fn new(fusion: &Fusion, product: &Product) -> Self {
        let accumulator = Register::of(fusion.graph().compute_type(product.operation));
        Self { plan: ProductPlan::new(fusion, product, Instruction::Fma), accumulator }
    }

    /// A tile's config with its cost in multiply-adds of a multiprocessor, and why the epilogue goes through the workspace; `None`
    /// where it does not fit the device.
    fn priced(&self, shape: Shape, device: &Device) -> Option<(Estimate, EngineConfig, Option<String>)> {
        let extents = self.plan.extents();
        let splits = splits(&shape, extents, device);
        let choice = shape.choice(self.accumulator, splits);
        let (needed, most) = (self.plan.most_shared_bytes(&choice), device.shared_bytes_per_block);
        if needed > most {
            tracing::debug!(
                tile_m = shape.tile.m,
                tile_n = shape.tile.n,
                needed,
                most,
                "tile passed over: shared memory"
            );
            return None;
        }
        let config = Config { tile_m: shape.tile.m, tile_n: shape.tile.n, splits };
        let through_workspace = self.plan.through_workspace(&choice, device);
        let sums =
            if through_workspace.is_some() { combination_seconds(extents, splits, device) * FMA_RATE } else { 0.0 };
        let estimate = estimate(&shape, extents, sums, device);
        Some((estimate, EngineConfig::of_fields(NAME, FIELDS, &config), through_workspace))
    }
}

impl Offer for Tiles {
    fn remarks(&self) -> Vec<String> {
        vec!["no matrix instructions are used: far below the chip's rate".to_owned()]
    }

    /// Tiles that fit the device, the cheapest first.
    fn candidates(&self, device: &Device) -> Vec<RankedConfig> {
        let shapes = [LARGE, MEDIUM, SMALL].into_iter();
        ranked(shapes.filter_map(|shape| self.priced(shape, device)).collect(), 1e6 / FMA_RATE)
    }

    fn lower(&self, config: &EngineConfig, device: &Device) -> Kernel {
        let Config { tile_m, tile_n, splits } = config.fields(FIELDS);
        let shapes = [LARGE, MEDIUM, SMALL];
        let is_wanted = |shape: &Shape| (shape.tile.m, shape.tile.n) == (tile_m, tile_n);
        let shape = shapes.into_iter().find(is_wanted).unwrap_or(MEDIUM);
        self.plan.lower(&shape.choice(self.accumulator, splits), config, device)
    }
}

/// Time of a tile choice in multiply-adds of one multiprocessor: waves of blocks, each as long as its tile is large,
/// weighted by the rate of the tile relative to the largest (2048³ on an H200: 23.1, 18.2 and 11.6 TFLOP/s), and what `sums` through
/// the workspace take.
fn estimate(shape: &Shape, extents: [i64; 4], sums: f64, device: &Device) -> Estimate {
    let splits = i64::from(splits(shape, extents, device));
    let waves = Waves::of((blocks(shape, extents) * splits) as f64, f64::from(device.sm_count));
    let slowness = match shape.thread {
        8 => 1.0,
        4 => 1.27,
        _ => 2.0,
    };
    let depth = extents[3] as f64 / splits as f64;
    let products = waves.count * f64::from(shape.tile.m * shape.tile.n) * depth * slowness;
    Estimate {
        at_once: vec![Term { bound: Bound::MatrixRate, time: products }],
        on_top: vec![Term { bound: Bound::Workspace, time: sums }],
        waves: Some(waves),
    }
}

fn blocks(shape: &Shape, extents: [i64; 4]) -> i64 {
    let [tiles_m, tiles_n] = shape.tile.counts(extents).map(Number::value);
    extents[0] * tiles_m * tiles_n
}

/// Parts of k that fill the device where the tiles of C do not, each long enough to be worth its sums in the workspace.
fn splits(shape: &Shape, extents: [i64; 4], device: &Device) -> u32 {
    let wanted = i64::from(device.sm_count) * BLOCKS_PER_SM / blocks(shape, extents).max(1);
    let longest = extents[3] / (STEPS_PER_SPLIT * i64::from(shape.tile.k) * 8);
    wanted.min(longest).clamp(1, 256) as u32
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

    fn candidates(extents: [i64; 3], capability: ComputeCapability) -> Vec<RankedConfig> {
        let fusion = fusion(extents);
        let tiles = Tiles::new(&fusion, fusion.product().expect("a matmul"));
        tiles.candidates(&Device::typical(capability))
    }

    fn first(extents: [i64; 3], capability: ComputeCapability) -> EngineConfig {
        candidates(extents, capability).swap_remove(0).config
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
        let ranking = candidates([4096; 3], turing);
        assert!(ranking.iter().all(|ranked| ranked.config.knob(Knob::TileM, 0) < 128));
    }
}
