//! Generated Hopper kernels under every relation of their stages to the steps of k, and of tiles to blocks: both schedules,
//! operands copied, computed and turned on their way, k whole and cut.

use fusewright::build::Build;
use fusewright::device::Device;
use fusewright::engine::{EngineConfig, Knob};
use fusewright::graph::{DataType, Graph, PointwiseMode, ReductionMode, Tensor};
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

const KINDS: [Kind; 14] = [
    kind("cooperative", 0, 128, Way::Copied, 1),
    kind("cooperative_computed", 0, 128, Way::Computed, 1),
    kind("cooperative_turned", 0, 128, Way::Turned, 1),
    kind("cooperative_residual", 0, 128, Way::Residual, 1),
    kind("cooperative_totals", 0, 128, Way::Totals, 1),
    kind("cooperative_ragged_totals", 0, 128, Way::RaggedTotals, 1),
    kind("cooperative_split", 0, 128, Way::Copied, 3),
    kind("ping_pong", 1, 64, Way::Copied, 1),
    kind("ping_pong_computed", 1, 64, Way::Computed, 1),
    kind("ping_pong_turned", 1, 64, Way::Turned, 1),
    kind("ping_pong_residual", 1, 64, Way::Residual, 1),
    kind("ping_pong_totals", 1, 128, Way::Totals, 1),
    kind("ping_pong_ragged_totals", 1, 128, Way::RaggedTotals, 1),
    kind("ping_pong_split", 1, 64, Way::Copied, 3),
];

impl Kind {
    /// `C = A·Bᵀ` with a single column of tiles, the last of which are ragged, as is the last part of k.
    fn graph(self, tiles: i64, steps: i64) -> Graph {
        let (data_type, compute, step) = match self.way {
            Way::Turned => (DataType::Int8, DataType::Int32, 128),
            _ => (DataType::BFloat16, DataType::Float, 64),
        };
        let n = if self.way == Way::RaggedTotals { 51 } else { 56 };
        let (m, k) = (tiles * self.tile_m - 48, self.total_steps(steps) * step - 16);
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
            Way::Copied | Way::Computed | Way::Turned => cases::output(&mut graph, c, data_type),
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
        if self.way == Way::Residual {
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
