//! Generated Hopper kernels under every relation of their stages to the steps of k, and of tiles to blocks: both schedules,
//! operands copied, computed and turned on their way, k whole and cut.

use fusewright::build::Build;
use fusewright::device::Device;
use fusewright::engine::{EngineConfig, Knob};
use fusewright::graph::{Convolution, ConvolutionDirection, DataType, Graph, PointwiseMode, ReductionMode, Tensor};
use libtest_mimic::{Failed, Trial};

use crate::cases;
use crate::pipeline;

/// Stages of the kernels.
const STAGES: i64 = 3;

/// Steps along k; where k is cut, of each part.
const STEPS: [i64; 5] = [1, STAGES - 1, STAGES, STAGES + 1, 2 * STAGES + 1];

/// Blocks of a launch, at most.
const BLOCKS: i64 = 2;

/// How A comes to shared memory, and what the epilogue reads.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// As it is, in BF16.
    Copied,
    /// With a mainloop stage, in BF16.
    Computed,
    /// From column-major INT8.
    Turned,
    /// As it is, in BF16; the epilogue adds a tensor of C's extents, which comes in boxes.
    Residual,
    /// As it is, in BF16; the epilogue reduces the rows of C, in vectors of columns or one by one.
    Totals,
    RaggedTotals,
    /// As it is, in BF16, for two columns of tiles; the epilogue stores in boxes and takes the least value of each column.
    Least,
    /// The pixels of an image, in FP16; the epilogue adds a bias, stores in boxes and adds up columns and their squares, those of one tile or
    /// of two side by side.
    Statistics,
    StatisticsOfTiles,
}

/// What is the same for all walks of a test.
#[derive(Clone, Copy)]
struct Kind {
    name: &'static str,
    /// As [`Knob::Schedule`], with the rows of a tile.
    schedule: u32,
    tile_m: i64,
    way: Way,
    /// Parts of k.
    splits: i64,
}

const fn kind(name: &'static str, schedule: u32, tile_m: i64, way: Way, splits: i64) -> Kind {
    Kind { name, schedule, tile_m, way, splits }
}

const KINDS: [Kind; 20] = [
    kind("cooperative", 0, 128, Way::Copied, 1),
    kind("cooperative_computed", 0, 128, Way::Computed, 1),
    kind("cooperative_turned", 0, 128, Way::Turned, 1),
    kind("cooperative_residual", 0, 128, Way::Residual, 1),
    kind("cooperative_totals", 0, 128, Way::Totals, 1),
    kind("cooperative_ragged_totals", 0, 128, Way::RaggedTotals, 1),
    kind("cooperative_statistics", 0, 128, Way::Statistics, 1),
    kind("cooperative_least", 0, 128, Way::Least, 1),
    kind("cooperative_statistics_of_tiles", 0, 128, Way::StatisticsOfTiles, 1),
    kind("cooperative_split", 0, 128, Way::Copied, 3),
    kind("ping_pong", 1, 64, Way::Copied, 1),
    kind("ping_pong_computed", 1, 64, Way::Computed, 1),
    kind("ping_pong_turned", 1, 64, Way::Turned, 1),
    kind("ping_pong_residual", 1, 64, Way::Residual, 1),
    kind("ping_pong_totals", 1, 128, Way::Totals, 1),
    kind("ping_pong_ragged_totals", 1, 128, Way::RaggedTotals, 1),
    kind("ping_pong_statistics", 1, 128, Way::Statistics, 1),
    kind("ping_pong_least", 1, 128, Way::Least, 1),
    kind("ping_pong_statistics_of_tiles", 1, 128, Way::StatisticsOfTiles, 1),
    kind("ping_pong_split", 1, 64, Way::Copied, 3),
];

impl Kind {
    /// `C = A·Bᵀ` with a single column of tiles, or two, the last of which are ragged, as is the last part of k.
    fn graph(self, tiles: i64, steps: i64) -> Graph {
        let (data_type, compute, step) = match self.way {
            Way::Turned => (DataType::Int8, DataType::Int32, 128),
            _ => (DataType::BFloat16, DataType::Float, 64),
        };
        let n = match self.way {
            Way::RaggedTotals => 51,
            Way::Least | Way::StatisticsOfTiles => 120,
            _ => 56,
        };
        let (m, k) = (tiles * self.tile_m - 48, self.total_steps(steps) * step - 16);
        if matches!(self.way, Way::Statistics | Way::StatisticsOfTiles) {
            return statistics([m, n, k]);
        }
        let mut graph = cases::graph(data_type).intermediate_data_type(data_type);
        let stride = if self.way == Way::Turned { [m * k, 1, m] } else { [m * k, k, 1] };
        let a = graph.tensor(Tensor::new("A").dim([1, m, k]).stride(stride));
        let b = graph.tensor(Tensor::new("B").dim([1, k, n]).stride([k * n, 1, k]));
        let a = if self.way == Way::Computed { graph.pointwise("g1", PointwiseMode::ReluFwd, &[a]) } else { a };
        let c = graph.matmul("mm", a, b);
        graph.last_operation().compute_data_type = Some(compute);
        match self.way {
            Way::Residual => {
                let residual = graph.tensor(Tensor::new("residual").row_major([1, m, n]));
                let sum = graph.pointwise("add", PointwiseMode::Add, &[c, residual]);
                cases::output(&mut graph, sum, data_type);
            }
            Way::Totals | Way::RaggedTotals => {
                cases::output(&mut graph, c, data_type);
                let mode = if self.way == Way::Totals { ReductionMode::Max } else { ReductionMode::Add };
                let total = graph.reduction("total", mode, c, [1, 1, n]);
                cases::output(&mut graph, total, DataType::Float);
            }
            // rows that are none of C have the least values
            Way::Least => {
                let magnitude = graph.pointwise("magnitude", PointwiseMode::Abs, &[c]);
                cases::output(&mut graph, magnitude, data_type);
                let least = graph.reduction("least", ReductionMode::Min, magnitude, [1, 1, n]);
                cases::output(&mut graph, least, DataType::Float);
            }
            _ => cases::output(&mut graph, c, data_type),
        }
        graph
    }

    /// Steps of all parts: the last has one less where that leaves some.
    fn total_steps(self, steps: i64) -> i64 {
        steps * self.splits - i64::from(self.splits > 1 && steps > 1)
    }

    fn config(self) -> EngineConfig {
        let mut knobs = vec![
            (Knob::TileM, self.tile_m as u32),
            (Knob::TileN, 64),
            (Knob::Stages, STAGES as u32),
            (Knob::Schedule, self.schedule),
            (Knob::SplitK, self.splits as u32),
        ];
        if matches!(self.way, Way::Residual | Way::Least | Way::Statistics | Way::StatisticsOfTiles) {
            knobs.push((Knob::TmaEpilogue, 1));
        }
        EngineConfig { engine: "warpgroup_mma", knobs }
    }

    /// So many tiles of C that a block has at most `per_block` of each part of k, and one block fewer.
    fn lower(self, device: &Device, per_block: i64, steps: i64) -> Result<Build, Failed> {
        let device = Device { sm_count: BLOCKS as u32, ..device.clone() };
        let graph = self.graph(per_block * BLOCKS - 1, steps);
        Ok(pipeline::lower_config(&graph, self.config(), &device)?)
    }
}

/// The convolution of `m` pixels of `k` channels to `n`, with a bias and statistics.
fn statistics([m, n, k]: [i64; 3]) -> Graph {
    let mut graph = cases::graph(DataType::Half);
    let x = graph.tensor(Tensor::new("X").channels_last([1, k, m, 1]));
    let w = graph.tensor(Tensor::new("W").channels_last([n, k, 1, 1]));
    let bias = graph.tensor(Tensor::new("bias").channels_last([1, n, 1, 1]));
    let core = graph.convolution("conv", Convolution::new(ConvolutionDirection::Forward, 2), [x, w]);
    let y = graph.pointwise("biased", PointwiseMode::Add, &[core, bias]);
    cases::output(&mut graph, y, DataType::Half);
    let (sum, squares) = graph.genstats("statistics", y);
    cases::output(&mut graph, sum, DataType::Float);
    cases::output(&mut graph, squares, DataType::Float);
    graph
}

/// A trial for each kind and number of steps; blocks have each of these numbers of tiles.
pub(crate) fn trials(
    tier: &str,
    per_block: &'static [i64],
    device: impl Fn() -> Result<Device, Failed> + Copy + Send + 'static,
    run: impl Fn(&Build) -> Result<(), Failed> + Copy + Send + 'static,
) -> Vec<Trial> {
    let trial = |(kind, steps): (Kind, i64)| {
        Trial::test(format!("{tier}::walk::{}::{steps}_steps", kind.name), move || {
            let device = device()?;
            per_block.iter().try_for_each(|&tiles| {
                let result = run(&kind.lower(&device, tiles, steps)?);
                result.map_err(|failed| format!("{tiles} tiles: {}", failed.message().unwrap_or_default()).into())
            })
        })
    };
    KINDS.into_iter().flat_map(|kind| STEPS.map(|steps| (kind, steps))).map(trial).collect()
}
