//! Tiles of the Hopper skeleton: which there are, which fit.

use super::NAME;
use crate::device::Device;
use crate::engine::lowering::{GemmChoice, Problem, epilogue_boxes, fetches, promotes, raw_bytes};
use crate::engine::{EngineConfig, Knob};
use crate::fusion::Fusion;
use crate::graph::DataType;
use crate::kernel::{Boxes, Fetch, GemmTile, MmaType, Multiply, Schedule, Sums};

/// Bytes of k of a tile: one swizzled row.
pub(super) const ROW_BYTES: u32 = 128;

/// A tile of C and who computes it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Shape {
    pub(super) m: u32,
    pub(super) n: u32,
    pub(super) schedule: Schedule,
}

const fn ping_pong(m: u32, n: u32) -> Shape {
    Shape { m, n, schedule: Schedule::PingPong }
}

const fn cooperative(m: u32, n: u32) -> Shape {
    Shape { m, n, schedule: Schedule::Cooperative }
}

/// From large to small. Sums in FP16 alone leave registers for the first two.
const SHAPES: &[Shape] = &[
    cooperative(256, 256),
    ping_pong(128, 256),
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

/// Registers of a thread for accumulators at most, of 240, and of 208 where the first warpgroup computes: the epilogue needs
/// what is left, and more of it where sums of FP16 are unpacked (96 of these beside ragged fragments of A were seen to spill).
const ACCUMULATORS: u32 = 192;
const ACCUMULATORS_WHERE_COMPUTED: u32 = 128;
const HALF_ACCUMULATORS_WHERE_COMPUTED: u32 = 64;

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
    crate::engine::config::ranked(configs, 1e6 / super::model::CLOCK)
}

/// How the engine multiplies; which tiles, and how many, is left open.
pub(super) fn multiply(fusion: &Fusion, operand: MmaType) -> Multiply {
    let sums = sums(fusion, operand);
    Multiply::Wgmma { operand, fills: false, schedule: Schedule::Cooperative, stages: 1, sums }
}

/// What sums are kept in: in FP16 where that is the compute type of FP16 operands.
fn sums(fusion: &Fusion, operand: MmaType) -> Sums {
    let computes_in_half = |core| fusion.graph().compute_type(core) == DataType::Half;
    match operand {
        MmaType::F16 if fusion.core().is_some_and(computes_in_half) => Sums::Half,
        _ if promotes(fusion, operand) => Sums::Promoted,
        _ => Sums::Full,
    }
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
pub(super) enum Staging {
    /// Accumulators, so that vectors of them meet vectors of the tensors.
    Accumulators,
    /// The tensors, in boxes.
    Boxes,
}

/// A shape for one problem.
pub(super) struct Candidate {
    pub(super) shape: Shape,
    pub(super) operand: MmaType,
    pub(super) extents: [i64; 4],
    pub(super) sums: Sums,
    transposed: bool,
    raw_bytes: u32,
    /// Bytes of a warp's boxes, where the epilogue's tensors may come and leave by TMA.
    boxed_bytes: Option<u32>,
    /// Whether some of these are read.
    pub(super) reads_boxes: bool,
    /// Rows of a tile of A and of Bᵀ that are computed or turned on their way.
    pub(super) computed_rows: u32,
    /// Rows of a tile of A that are computed in the registers of the multiplying warps.
    pub(super) fragment_rows: u32,
}

impl Candidate {
    fn new(fusion: &Fusion, problem: &Problem, shape: Shape, operand: MmaType) -> Self {
        let multiply = multiply(fusion, operand);
        let tile = shape.tile(operand);
        let boxes = epilogue_boxes(fusion, problem, tile);
        let fetched = fetches(fusion, problem, &multiply);
        let rows = |is_wanted: fn(&Fetch) -> bool| {
            let wanted = fetched.iter().zip([tile.m, tile.n]).filter(|(fetch, _)| is_wanted(fetch));
            wanted.map(|(_, rows)| rows).sum()
        };
        Self {
            shape,
            operand,
            extents: problem.space.extents(),
            sums: sums(fusion, operand),
            transposed: problem.transposed,
            raw_bytes: raw_bytes(fusion, problem, &multiply, tile),
            boxed_bytes: boxes.as_ref().map(Boxes::warp_bytes),
            reads_boxes: boxes.is_some_and(|boxes| !boxes.read.is_empty()),
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
        let Self { shape, operand, sums, transposed, raw_bytes, .. } = *self;
        let fills = self.fills();
        let multiply = Multiply::Wgmma { operand, fills, schedule: shape.schedule, stages, sums };
        let boxed_bytes = self.boxed_bytes.filter(|_| staging == Staging::Boxes).unwrap_or(0);
        GemmChoice { tile: shape.tile(operand), multiply, splits, transposed, raw_bytes, boxed_bytes }
    }

    /// Registers of a thread for accumulators at most.
    fn most_accumulators(&self) -> u32 {
        match self.sums {
            _ if !self.computes() => ACCUMULATORS,
            Sums::Half => HALF_ACCUMULATORS_WHERE_COMPUTED,
            Sums::Full | Sums::Promoted => ACCUMULATORS_WHERE_COMPUTED,
        }
    }

    /// As many stages as fit, at least three; none where the accumulators do not fit.
    fn fitting_stages(&self, staging: Staging, device: &Device) -> Option<u32> {
        let choice = self.choice(1, 1, staging);
        let copies = if self.sums == Sums::Promoted { 2 } else { 1 };
        if choice.multiply.sum_registers(choice.tile) * copies > self.most_accumulators() {
            return None;
        }
        let fits = |stages: &u32| {
            let choice = self.choice(*stages, 1, staging);
            choice.shared_bytes(true, 1).max(choice.shared_bytes(false, 1)) <= device.shared_bytes_per_block
        };
        (3..=MOST_STAGES).rev().find(fits)
    }

    pub(super) fn tiles(&self) -> i64 {
        let [tiles_m, tiles_n] = self.shape.tile(self.operand).counts(self.extents);
        self.extents[0] * tiles_m * tiles_n
    }

    pub(super) fn steps(&self) -> i64 {
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
