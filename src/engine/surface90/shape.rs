//! Tiles of the Hopper skeleton: which there are, what each costs, which fit.

use super::NAME;
use crate::device::Device;
use crate::engine::lowering::{GemmChoice, Problem, epilogue_boxes, fetches, promotes, raw_bytes};
use crate::engine::{EngineConfig, Knob};
use crate::fusion::Fusion;
use crate::kernel::{Fetch, GemmTile, MmaType, Multiply, Schedule};

/// Bytes of k of a tile: one swizzled row.
const ROW_BYTES: u32 = 128;

/// A tile of C and who computes it.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Shape {
    m: u32,
    n: u32,
    schedule: Schedule,
}

const fn ping_pong(m: u32, n: u32) -> Shape {
    Shape { m, n, schedule: Schedule::PingPong }
}

const fn cooperative(m: u32, n: u32) -> Shape {
    Shape { m, n, schedule: Schedule::Cooperative }
}

/// From large to small.
const SHAPES: &[Shape] = &[
    cooperative(128, 256),
    cooperative(256, 128),
    cooperative(128, 224),
    ping_pong(128, 192),
    cooperative(128, 192),
    ping_pong(128, 160),
    cooperative(128, 160),
    ping_pong(128, 128),
    ping_pong(64, 256),
    cooperative(128, 128),
    ping_pong(64, 192),
    ping_pong(128, 64),
    ping_pong(64, 128),
    cooperative(128, 64),
    ping_pong(64, 64),
    cooperative(128, 32),
    cooperative(128, 16),
];

/// Most stages; what fits beside the narrowest tile. Not tuned.
const MOST_STAGES: u32 = 12;

/// Accumulators of a thread at most, of 240 registers, and of 208 where the first warpgroup computes: the epilogue needs
/// what is left.
const ACCUMULATORS: [u32; 2] = [192, 128];

/// Rows of C up to which the transposed product is worth a try, in narrow tiles; where an operand is computed on its way
/// it always is: which of the two is computed less often depends on the tile.
const FEW_ROWS: i64 = 64;

/// Steps along k that a split does at least, and most splits. Not tuned.
const STEPS_PER_SPLIT: i64 = 8;
const MOST_SPLITS: i64 = 64;

/// Configs that fit the device, the cheapest first.
pub(super) fn candidates(fusion: &Fusion, operand: MmaType, device: &Device) -> Vec<crate::engine::RankedConfig> {
    let mut configs: Vec<(f64, EngineConfig)> = Vec::new();
    for transposed in [false, true] {
        let problem = if transposed { Problem::transposed(fusion) } else { Problem::of(fusion) };
        let Some(problem) = problem else { continue };
        let extents = problem.space.extents();
        for shape in SHAPES.iter().filter(|shape| shape.suits(extents)) {
            let candidate = Candidate::new(fusion, &problem, *shape, operand);
            if transposed && extents[2] > FEW_ROWS && !candidate.computes() {
                continue;
            }
            for splits in candidate.splits(device) {
                for &staging in candidate.stagings(splits) {
                    let Some(stages) = candidate.fitting_stages(staging, device) else { continue };
                    let cycles = candidate.cycles(splits, staging, device);
                    configs.push((cycles, candidate.config(stages, splits, staging)));
                }
            }
        }
    }
    crate::engine::config::ranked(configs, 1e6 / CLOCK)
}

/// How the engine multiplies; which tiles, and how many, is left open.
pub(super) fn multiply(fusion: &Fusion, operand: MmaType) -> Multiply {
    let promotes = promotes(fusion, operand);
    Multiply::Wgmma { operand, fills: false, schedule: Schedule::Cooperative, stages: 1, promotes }
}

impl Shape {
    fn tile(&self, operand: MmaType) -> GemmTile {
        GemmTile { m: self.m, n: self.n, k: ROW_BYTES / operand.bytes() }
    }

    /// Tiles much larger than the problem only waste.
    fn suits(&self, [_, m, n, _]: [i64; 4]) -> bool {
        let narrow = n <= i64::from(self.n) / 2 && self.n > 16;
        let low = m <= i64::from(self.m) / 2 && self.m > 128;
        !narrow && !low
    }
}

/// What goes through shared memory in the epilogue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Staging {
    /// Accumulators, so that vectors of them meet vectors of the tensors.
    Accumulators,
    /// The tensors, in boxes.
    Boxes,
}

/// A shape for one problem.
struct Candidate {
    shape: Shape,
    operand: MmaType,
    extents: [i64; 4],
    promotes: bool,
    transposed: bool,
    raw_bytes: u32,
    /// Bytes of a warp's boxes, where the epilogue's tensors may come and leave by TMA.
    boxed_bytes: Option<u32>,
    /// Rows of a tile of A and of Bᵀ that are computed or turned on their way.
    computed_rows: u32,
    /// Rows of a tile of A that are computed in the registers of the multiplying warps.
    fragment_rows: u32,
}

impl Candidate {
    fn new(fusion: &Fusion, problem: &Problem, shape: Shape, operand: MmaType) -> Self {
        let multiply = multiply(fusion, operand);
        let tile = shape.tile(operand);
        let fetched = fetches(fusion, problem, &multiply);
        let rows = |is_wanted: fn(&Fetch) -> bool| {
            let wanted = fetched.iter().zip([tile.m, tile.n]).filter(|(fetch, _)| is_wanted(fetch));
            wanted.map(|(_, rows)| rows).sum()
        };
        Self {
            shape,
            operand,
            extents: problem.space.extents(),
            promotes: promotes(fusion, operand),
            transposed: problem.transposed,
            raw_bytes: raw_bytes(fusion, problem, &multiply, tile),
            boxed_bytes: epilogue_boxes(fusion, problem, tile).map(|boxes| boxes.warp_bytes()),
            computed_rows: rows(|fetch| !matches!(fetch, Fetch::Tma(_) | Fetch::Fragments(_))),
            fragment_rows: rows(|fetch| matches!(fetch, Fetch::Fragments(_))),
        }
    }

    /// Whether the first warpgroup computes some operand.
    fn fills(&self) -> bool {
        self.computed_rows > 0
    }

    /// Whether some operand is not multiplied as it is stored.
    fn computes(&self) -> bool {
        self.fills() || self.fragment_rows > 0
    }

    /// Ways of the epilogue, the faster first. Partial sums go to the workspace as they are.
    fn stagings(&self, splits: u32) -> &'static [Staging] {
        match self.boxed_bytes {
            Some(_) if splits == 1 => &[Staging::Boxes, Staging::Accumulators],
            _ => &[Staging::Accumulators],
        }
    }

    fn choice(&self, stages: u32, splits: u32, staging: Staging) -> GemmChoice {
        let Self { shape, operand, promotes, transposed, raw_bytes, .. } = *self;
        let fills = self.fills();
        let multiply = Multiply::Wgmma { operand, fills, schedule: shape.schedule, stages, promotes };
        let boxed_bytes = self.boxed_bytes.filter(|_| staging == Staging::Boxes).unwrap_or(0);
        GemmChoice { tile: shape.tile(operand), multiply, splits, transposed, raw_bytes, boxed_bytes }
    }

    /// As many stages as fit, at least three; none where the accumulators do not fit.
    fn fitting_stages(&self, staging: Staging, device: &Device) -> Option<u32> {
        let choice = self.choice(1, 1, staging);
        let accumulators = choice.multiply.consumer_rows(choice.tile) / 64 * self.shape.n / 2;
        let copies = if self.promotes { 2 } else { 1 };
        if accumulators * copies > ACCUMULATORS[usize::from(self.computes())] {
            return None;
        }
        let fits = |stages: &u32| {
            let choice = self.choice(*stages, 1, staging);
            choice.shared_bytes(true, 1).max(choice.shared_bytes(false, 1)) <= device.shared_bytes_per_block
        };
        (3..=MOST_STAGES).rev().find(fits)
    }

    fn tiles(&self) -> i64 {
        let [tiles_m, tiles_n] = self.shape.tile(self.operand).counts(self.extents);
        self.extents[0] * tiles_m * tiles_n
    }

    fn steps(&self) -> i64 {
        let k = i64::from(ROW_BYTES / self.operand.bytes());
        (self.extents[3] + k - 1) / k
    }

    /// No split; where the tiles of C leave multiprocessors idle, as many as fill them once or twice.
    fn splits(&self, device: &Device) -> Vec<u32> {
        let longest = self.steps() / STEPS_PER_SPLIT;
        let mut all = vec![1];
        for waves in [1, 2] {
            let splits = (i64::from(device.sm_count) * waves / self.tiles()).min(longest).min(MOST_SPLITS) as u32;
            if splits > 1 && !all.contains(&splits) {
                all.push(splits);
            }
        }
        all
    }

    /// Estimated time in clocks: the longest of tensor cores, shared memory, L2 and memory for the tiles of a
    /// multiprocessor, the pipeline's first fill, and the epilogues that nothing hides. A model to rank by: what it ranks
    /// first is held against measured tiles in docs/performance-notes.md.
    fn cycles(&self, splits: u32, staging: Staging, device: &Device) -> f64 {
        let Shape { m, n, schedule } = self.shape;
        let [batch, rows, columns, k] = self.extents.map(|extent| extent as f64);
        let (m, n, bytes) = (f64::from(m), f64::from(n), f64::from(self.operand.bytes()));
        let sms = f64::from(device.sm_count);
        let units = self.tiles() as f64 * f64::from(splits);
        let waves = (units / sms).ceil();
        let depth = (self.steps() as f64 / f64::from(splits)).ceil() * f64::from(ROW_BYTES) / bytes;
        let promotion = if self.promotes { PROMOTION } else { 1.0 };
        let rate = 8192.0 / bytes;
        let mma = m * n * depth * 2.0 / rate * promotion;
        let computed = f64::from(self.computed_rows) * depth * COMPUTED_ELEMENT;
        let mma = mma + f64::from(self.fragment_rows) * depth * FRAGMENT_ELEMENT;
        let shared = depth * bytes * (m / 64.0) * (64.0 + n) / 128.0;
        let l2_rate = if n >= 128.0 { L2_WIDE } else { L2_NARROW };
        let l2 = depth * bytes * (m + n) * sms.min(units) / l2_rate;
        let moved = batch * (rows * k + k * columns) * bytes + batch * rows * columns * 2.0;
        let memory = moved / (device.bytes_per_second / CLOCK);
        let tile = mma.max(shared).max(l2).max(computed);
        let faster = if staging == Staging::Boxes { BOXED_EPILOGUE } else { 1.0 };
        let epilogue = match schedule {
            Schedule::Cooperative => waves * m * n / (COOPERATIVE_EPILOGUE * faster),
            Schedule::PingPong => {
                let each = m * n / (PING_PONG_EPILOGUE * faster);
                (each - tile).max(0.0) * waves + each
            }
        };
        let combination = if splits > 1 {
            let partial_sums = 8.0 * f64::from(splits) * batch * rows * columns;
            (LAUNCH_SECONDS + partial_sums / device.bytes_per_second) * CLOCK
        } else {
            0.0
        };
        FILL + (waves * tile).max(memory) + epilogue + combination
    }

    fn config(&self, stages: u32, splits: u32, staging: Staging) -> EngineConfig {
        let Shape { m, n, schedule } = self.shape;
        let mut knobs = vec![
            (Knob::TileM, m),
            (Knob::TileN, n),
            (Knob::Stages, stages),
            (Knob::Schedule, u32::from(schedule == Schedule::PingPong)),
        ];
        if splits > 1 {
            knobs.push((Knob::SplitK, splits));
        }
        if self.transposed {
            knobs.push((Knob::SwapAb, 1));
        }
        if staging == Staging::Boxes {
            knobs.push((Knob::TmaEpilogue, 1));
        }
        EngineConfig { engine: NAME, knobs }
    }
}

/// Clocks a second, between those of a rested H200 (1.98e9) and of one at its power limit (1.45e9).
const CLOCK: f64 = 1.6e9;

/// Clocks from a block's start to its first full stage (seen on an H200).
const FILL: f64 = 2400.0;

/// Bytes a clock that all multiprocessors together get from L2, by columns of a tile (seen on an H200).
const L2_WIDE: f64 = 8000.0;
const L2_NARROW: f64 = 6000.0;

/// Clocks of a multiprocessor for an element that the first warpgroup computes on its way to shared memory (seen on an H200:
/// 0.23 for `mm_g1_rowscale_relu_f16`, 0.18 for `mm_mixed_bf16_i8_m4096`); one that is turned is taken for as dear.
const COMPUTED_ELEMENT: f64 = 0.2;

/// The same for an element that the multiplying warps compute in their registers, beside the products before: an estimate.
const FRAGMENT_ELEMENT: f64 = 0.02;

/// What adding partial sums up in FP32 costs beside the products: an estimate.
const PROMOTION: f64 = 1.03;

/// Elements of C a clock in the epilogue of both warpgroups, and of one beside the other's products: estimates.
const COOPERATIVE_EPILOGUE: f64 = 6.0;
const PING_PONG_EPILOGUE: f64 = 3.0;

/// How much faster an epilogue is whose tensors come and leave by TMA: an estimate.
const BOXED_EPILOGUE: f64 = 1.5;

/// A second launch: an estimate, as in `combination_cost`.
const LAUNCH_SECONDS: f64 = 3e-6;

/// What a config chooses; a knob that is missing has the value of the smallest tile.
pub(super) fn choice(config: &EngineConfig, fusion: &Fusion, operand: MmaType) -> GemmChoice {
    let knob = |knob, default| config.knob(knob, default);
    let schedule = if knob(Knob::Schedule, 0) == 1 { Schedule::PingPong } else { Schedule::Cooperative };
    let shape = Shape { m: knob(Knob::TileM, 128), n: knob(Knob::TileN, 16), schedule };
    let problem = if knob(Knob::SwapAb, 0) == 1 { Problem::transposed(fusion) } else { Problem::of(fusion) };
    let candidate = Candidate::new(fusion, &problem.expect("the fusion has a matmul"), shape, operand);
    let staging = if knob(Knob::TmaEpilogue, 0) == 1 { Staging::Boxes } else { Staging::Accumulators };
    candidate.choice(knob(Knob::Stages, 3), knob(Knob::SplitK, 1), staging)
}
