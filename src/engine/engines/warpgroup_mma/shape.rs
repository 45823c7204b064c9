//! Tiles of the Hopper skeleton: which there are, which fit.

use super::{Arrangement, NAME, Tiles};
use crate::device::Device;
use crate::engine::config::{Field, ranked};
use crate::engine::lowering::{
    BoxRows, GemmChoice, Meeting, OperandPlan, ProductPlan, blocks_in_clusters, splits_that_fill,
};
use crate::engine::{EngineConfig, Estimate, Knob, RankedConfig};
use crate::kernel::{Boxes, GemmTile, Kernel, MmaType, Multiply, Number, Schedule, Sums, WGMMA_ROWS, Wgmma};

/// A tile with its schedule, and how k and the epilogue are treated.
#[derive(Debug)]
struct Config {
    shape: Shape,
    stages: u32,
    arrangement: Arrangement,
    way: Way,
    evaluates_first: bool,
}

/// How k, the epilogue and a multiprocessor are shared out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Way {
    /// Parts of k, and where their sums meet.
    pub(super) splits: u32,
    pub(super) meeting: Meeting,
    /// Tiles below each other, and side by side, whose blocks are a cluster that shares operands.
    pub(super) cluster: [u32; 2],
    pub(super) staging: Staging,
    /// Blocks that share a multiprocessor.
    pub(super) blocks: u32,
    /// Whether B stays in shared memory.
    pub(super) stationary: bool,
}

impl Way {
    /// A block on each multiprocessor, all of k.
    fn of(staging: Staging) -> Self {
        Self { splits: 1, meeting: Meeting::Workspace, cluster: [1, 1], staging, blocks: 1, stationary: false }
    }

    /// Parts of k whose sums meet there; 1 where they meet elsewhere.
    fn parts_that_meet(&self, meeting: Meeting) -> u32 {
        if self.meeting == meeting { self.splits } else { 1 }
    }

    /// Cuts k into parts whose sums meet there; a config that does not is left as it is.
    fn cuts(&mut self, parts: u32, meeting: Meeting) {
        if parts > 1 {
            *self = Self { splits: parts, meeting, ..*self };
        }
    }
}

impl Default for Config {
    /// That of the smallest tile.
    fn default() -> Self {
        let way = Way::of(Staging::Accumulators);
        let arrangement = Arrangement::AsItStands;
        Self { shape: cooperative(128, 16), stages: 3, arrangement, way, evaluates_first: false }
    }
}

impl Config {
    /// Sets an arrangement by its knob.
    fn arranges(&mut self, arrangement: Arrangement, value: u32) {
        if value == 1 {
            self.arrangement = arrangement;
        }
    }
}

const FIELDS: &[Field<Config>] = &[
    Field { knob: Knob::TileM, get: |config| config.shape.m, set: |config, value| config.shape.m = value },
    Field { knob: Knob::TileN, get: |config| config.shape.n, set: |config, value| config.shape.n = value },
    Field { knob: Knob::Stages, get: |config| config.stages, set: |config, value| config.stages = value },
    Field {
        knob: Knob::Schedule,
        get: |config| u32::from(config.shape.schedule == Schedule::PingPong),
        set: |config, value| {
            config.shape.schedule = if value == 1 { Schedule::PingPong } else { Schedule::Cooperative };
        },
    },
    Field {
        knob: Knob::SplitK,
        get: |config| config.way.parts_that_meet(Meeting::Workspace),
        set: |config, value| config.way.cuts(value, Meeting::Workspace),
    },
    Field {
        knob: Knob::ClusterK,
        get: |config| config.way.parts_that_meet(Meeting::Cluster),
        set: |config, value| config.way.cuts(value, Meeting::Cluster),
    },
    Field {
        knob: Knob::ClusterM,
        get: |config| config.way.cluster[0],
        set: |config, value| config.way.cluster[0] = value,
    },
    Field {
        knob: Knob::ClusterN,
        get: |config| config.way.cluster[1],
        set: |config, value| config.way.cluster[1] = value,
    },
    Field {
        knob: Knob::SwapAb,
        get: |config| u32::from(config.arrangement == Arrangement::Transposed),
        set: |config, value| config.arranges(Arrangement::Transposed, value),
    },
    Field {
        knob: Knob::TapRows,
        get: |config| u32::from(config.arrangement == Arrangement::TapRows),
        set: |config, value| config.arranges(Arrangement::TapRows, value),
    },
    Field {
        knob: Knob::TmaEpilogue,
        get: |config| u32::from(config.way.staging == Staging::Boxes),
        set: |config, value| config.way.staging = if value == 1 { Staging::Boxes } else { Staging::Accumulators },
    },
    Field {
        knob: Knob::StationaryB,
        get: |config| u32::from(config.way.stationary),
        set: |config, value| config.way.stationary = value == 1,
    },
    Field { knob: Knob::Occupancy, get: |config| config.way.blocks, set: |config, value| config.way.blocks = value },
    Field {
        knob: Knob::EvaluateFirst,
        get: |config| u32::from(config.evaluates_first),
        set: |config, value| config.evaluates_first = value == 1,
    },
];

/// Bytes of a line of L2.
const LINE_BYTES: u32 = 128;

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

/// Bytes moved for a point of C whose tensors do not come in boxes: those of a 16-bit result.
const BYTES_OF_POINT: f64 = 2.0;

/// From large to small. Sums in FP16 alone leave registers for the first two.
const SHAPES: &[Shape] = &[
    cooperative(256, 256),
    ping_pong(128, 256),
    cooperative(256, 192),
    cooperative(256, 160),
    cooperative(128, 256),
    cooperative(256, 128),
    cooperative(128, 224),
    ping_pong(128, 192),
    cooperative(128, 192),
    cooperative(256, 96),
    ping_pong(128, 160),
    cooperative(256, 80),
    cooperative(128, 160),
    cooperative(128, 144),
    cooperative(256, 64),
    ping_pong(128, 128),
    ping_pong(64, 256),
    cooperative(128, 128),
    ping_pong(128, 96),
    ping_pong(64, 192),
    cooperative(256, 48),
    ping_pong(64, 144),
    cooperative(128, 96),
    ping_pong(128, 80),
    cooperative(128, 80),
    cooperative(256, 32),
    ping_pong(128, 64),
    ping_pong(64, 128),
    cooperative(128, 64),
    ping_pong(64, 96),
    ping_pong(128, 48),
    cooperative(128, 48),
    ping_pong(64, 64),
    ping_pong(128, 32),
    cooperative(128, 32),
    ping_pong(64, 32),
    ping_pong(128, 16),
    cooperative(128, 16),
];

/// Those that matmuls have beside them (H200, 2026-11-30): convolutions were not measured in them, and shapes that are dynamic share few binaries.
const SHAPES_OF_MATMULS: &[Shape] =
    &[cooperative(128, 208), cooperative(128, 176), ping_pong(64, 224), cooperative(128, 112), ping_pong(64, 80)];

/// Least stages, that a step may be multiplied while the next arrives and the one before is released.
const LEAST_STAGES: u32 = 3;

/// Most stages; what fits beside the narrowest tile. Not tuned.
const MOST_STAGES: u32 = 12;

/// Most columns of a tile of which a warpgroup alone, or one with 128 rows, multiplies fragments that it computes. Wider
/// ones are slower than cooperative tiles, and some are compiled so that products wait for each other (C7513; EXP and GELU in BFLOAT16 before
/// 72 columns, in tiles of 64×96, 64×128, 128×80 and 128×128; NEG, GELU and EXP of HALF before 72 columns, in tiles of 256×80, 256×96 and,
/// NEG with FP16 sums, 256×128).
const FRAGMENT_COLUMNS: u32 = 64;

/// Registers of a thread for accumulators at most, of 240, and of 208 where the first warpgroup computes: the epilogue needs
/// what is left, and more of it where sums of FP16 are unpacked (96 of these beside ragged fragments of A were seen to spill).
const ACCUMULATORS: u32 = 192;
const ACCUMULATORS_WHERE_COMPUTED: u32 = 128;
const HALF_ACCUMULATORS_WHERE_COMPUTED: u32 = 64;

/// The same where two blocks share a multiprocessor, of 104, and where three do, of 72; and most steps along k of their tiles, which longer sums
/// have not been tried with.
const ACCUMULATORS_OF_TWO_BLOCKS: u32 = 32;
const ACCUMULATORS_OF_THREE_BLOCKS: u32 = 16;
const STEPS_OF_SEVERAL_BLOCKS: f64 = 12.0;

/// Most steps along k whose tiles of B may stay in shared memory; fewer fit beside the stages of most shapes.
const STATIONARY_STEPS: f64 = 128.0;

/// Tiles of a block that multiply the same B, of which there are more on the mean where B may stay (1024³ of BF16 on an H100, 256 tiles of 64×64 in
/// 16 columns: 12.1 µs where B stays and 10.3 by the first choice of others).
const TILES_OF_A_BLOCK: i64 = 2;

/// Rows of C up to which the transposed product is worth a try, in narrow tiles; where an operand is computed on its way
/// it always is: which of the two is computed less often depends on the tile.
const FEW_ROWS: i64 = 64;

/// Columns, and steps along k, that tiles of the transposed product of more rows have at least, where it is worth a try: of one matrix whose rows leave a part of
/// a warpgroup's over, which tiles of so many columns waste less of, in all of k (its parts take 1.1 to 1.4 times as long as expected), where two warpgroups
/// share 128 rows and the epilogue reads no tensor of C's size. Of 60 matmuls of 129 to 1064 such rows (H200, 2026-11-30, 5,400 configs) the fastest was
/// transposed in 27: 190×28672×11008 of FP8 in 128×192 122.8 µs, 141.3 as it stands; 153×28672×7168 in 128×160 129.6 and 151.2; 1047×5632×7168 in 128×176 128 and
/// 149. Of 22 others that the model had transposed 96×160×96×256 with a residual took 18.3 µs, 13.1 as it stands; 160×3584×8192 of FP8 in 128×48 25.1
/// and 22.0; 2048×1280×7168 in 128×160 54.8 and 63.6, but 4096×640×6144 52.5 and 49.4. The two bounds are not tuned: fewer columns were faster in some and slower in
/// others, and 24 steps are the fewest of which one was ahead (139×12288×1536 20.8 and 24.5).
const COLUMNS_OF_MORE_ROWS: u32 = 80;
const STEPS_OF_MORE_ROWS: f64 = 24.0;

/// The columns of such tiles where shapes are dynamic, so that they share few binaries: 1 to 8192 rows of four layers have 11, 25, 12 and 8, which had 11, 24, 12 and 8
/// without any; with all columns, two of them among the favourites, 10, 29, 14 and 13. As a favourite, and for 192 rows, too, the first layer has 8.
const COLUMNS_OF_DYNAMIC_ROWS: u32 = 192;

/// Columns of smaller tiles in which it has all of the rows of C that follow (H200, 2026-11-29: 144×8192×8192 of FP8 takes 30.3 µs in 64×144, 33.1 in 128×144,
/// 33.8 as it stands; 136×6144×2048 of HALF with a bias and GELU 17.2, 20.5 and 19.5).
const COLUMNS_OF_ONE_TILE: u32 = 144;
const ROWS_OF_ONE_TILE: std::ops::RangeInclusive<i64> = 129..=144;

/// Steps along k that a split does at least, and most splits. Not tuned.
const STEPS_PER_SPLIT: i64 = 8;
const MOST_SPLITS: i64 = 64;

/// The same of the parts of k of a cluster.
const STEPS_PER_PART: i64 = 4;
const MOST_PARTS_OF_A_CLUSTER: i64 = 4;

/// Tiles below each other and side by side of clusters whose blocks share operands: eight blocks gained nothing more.
const SHARED_TILES: &[[u32; 2]] = &[[1, 2], [2, 1], [1, 4], [4, 1], [2, 2]];

/// The fewest steps along k for which these are tried, and by how much clusters may reach beyond C. Not tuned.
const STEPS_OF_SHARED_TILES: f64 = 16.0;
const WASTED_IN_CLUSTERS: f64 = 1.15;

/// Lines of a swizzle's pattern.
const SWIZZLED_LINES: u32 = 8;

/// Most rows of a tile whose A is shared: of 256 rows it takes longer than expected (1000×1536×1096 of BF16 in tiles of 256×64 by four 15.2 µs, 13.3 by others).
const MOST_SHARED_ROWS: u32 = 128;

/// Bytes of a sum.
const SUM_BYTES: u32 = 4;

/// Most columns of a tile whose k is shared by a cluster. With other tiles, neighbouring multiprocessors would read different steps of k of what they
/// else read together, and L2 would answer each of them (H200: 1024×640×11008 of HALF in tiles of 128×80 by clusters of two 37 µs, by way of the
/// workspace 32; 197×3584×4096 in tiles of 128×128 27 and 24; 197×640×13824 of FP8 in tiles of 128×32 by clusters of three 22, 15 in other tiles).
const MOST_COLUMNS_OF_A_CLUSTER: u32 = 32;

/// How much of the time of the fastest config that computes operands on their way one that evaluates them first may take: first choices are 3 to
/// 4 % slower than the best, and a workspace of an operand's size has its price (4096³ with a factor for each row of A of FP16 on an H200: 191
/// µs expected and 206 measured by way of the workspace, 196 without).
const WORTH_A_WORKSPACE: f64 = 0.95;

/// Configs that fit the device, the cheapest first. Those that evaluate operands first and are expected to gain little by it are left out.
pub(super) fn candidates(tiles: &Tiles, device: &Device) -> Vec<RankedConfig> {
    let on_the_way = configs(tiles, device);
    let total = |config: &Priced| config.0.total();
    let best = on_the_way.iter().map(total).fold(f64::INFINITY, f64::min);
    let gains_little = |config: &Priced| (best * WORTH_A_WORKSPACE..best).contains(&total(config));
    let evaluated = tiles.evaluated_first.iter().flat_map(|tiles| configs(tiles, device));
    let evaluated = evaluated.filter(|config| !gains_little(config));
    ranked(on_the_way.into_iter().chain(evaluated).collect(), 1e6 / super::model::CLOCK)
}

/// A config with what it costs in clocks, and why its epilogue goes through the workspace.
type Priced = (Estimate, EngineConfig, Option<String>);

/// Configs of one way of the operands.
fn configs(tiles: &Tiles, device: &Device) -> Vec<Priced> {
    let mut configs = Vec::new();
    for arrangement in [Arrangement::AsItStands, Arrangement::Transposed, Arrangement::TapRows] {
        let Some(plan) = tiles.plan(arrangement) else { continue };
        for shape in shapes(plan) {
            let Some(candidate) = Candidate::tried(tiles, plan, arrangement, shape) else { continue };
            configs.extend(candidate.ways(device).into_iter().filter_map(|way| candidate.priced(way, device)));
        }
    }
    configs
}

/// The shapes that are tried.
fn shapes(plan: &ProductPlan) -> impl Iterator<Item = Shape> {
    let extents = plan.extents();
    let of_matmuls = if plan.is_matmul() && !plan.is_dynamic() { SHAPES_OF_MATMULS } else { &[] };
    SHAPES.iter().chain(of_matmuls).copied().filter(move |shape| shape.suits(extents))
}

/// Whether a config is one of the candidates: of its shape alone, where it does not depend on what others cost.
pub(super) fn offers(tiles: &Tiles, config: &EngineConfig, device: &Device) -> bool {
    let Config { shape, arrangement, way, evaluates_first, .. } = config.fields(FIELDS);
    if evaluates_first {
        return candidates(tiles, device).iter().any(|ranked| ranked.config == *config);
    }
    let Some(plan) = tiles.plan(arrangement) else { return false };
    let candidate = shapes(plan).find(|tried| *tried == shape);
    let candidate = candidate.and_then(|shape| Candidate::tried(tiles, plan, arrangement, shape));
    candidate.is_some_and(|candidate| {
        let is_tried = candidate.ways(device).contains(&way);
        is_tried && candidate.priced(way, device).is_some_and(|(_, priced, _)| priced == *config)
    })
}

/// The kernel of a config.
pub(super) fn lower(tiles: &Tiles, config: &EngineConfig, device: &Device) -> Kernel {
    let Config { shape, stages, arrangement, way, evaluates_first } = config.fields(FIELDS);
    let tiles = tiles.evaluated_first.as_deref().filter(|_| evaluates_first).unwrap_or(tiles);
    let plan = tiles.plan(arrangement).unwrap_or(&tiles.plan);
    let candidate = Candidate::new(tiles, plan, arrangement, shape);
    candidate.plan.lower(&candidate.choice(stages, way), config, device)
}

impl Shape {
    pub(super) fn tile(&self, k: u32) -> GemmTile {
        GemmTile { m: self.m, n: self.n, k }
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
pub(super) struct Candidate<'a> {
    plan: &'a ProductPlan,
    pub(super) shape: Shape,
    pub(super) operand: MmaType,
    /// Elements of k of a step.
    step_k: u32,
    pub(super) extents: [i64; 4],
    pub(super) sums: Sums,
    /// Elements of both operands in memory.
    pub(super) operand_elements: f64,
    arrangement: Arrangement,
    evaluates_first: bool,
    /// Taps that a step multiplies together, and rows of A beyond a tile's for them.
    pub(super) taps: u32,
    pub(super) rows_beyond: u32,
    /// Bytes of a warp's boxes, where the epilogue's tensors may come and leave by TMA.
    boxed_bytes: Option<u32>,
    /// Whether some of these are read.
    pub(super) reads_boxes: bool,
    /// Reductions of the epilogue that keep the columns of C.
    pub(super) totals: usize,
    /// Whether rows of all boxes are less than a line of L2.
    pub(super) has_narrow_boxes: bool,
    /// Bytes moved for a point of C.
    pub(super) bytes_of_point: f64,
    /// Rows of a tile of A and of Bᵀ that are computed on their way, and that are turned.
    pub(super) computed_rows: u32,
    pub(super) turned_rows: u32,
    /// Pieces that are copied on their way, for each element of k.
    pub(super) copied_pieces: f64,
    /// Rows of A's and of B's boxes of a step.
    pub(super) box_rows: [BoxRows; 2],
    /// How many times what the rows of A and of Bᵀ hold is read from L2: more than once where they straddle its lines.
    pub(super) l2_reads: [f64; 2],
    /// Rows of a tile of A that are computed in the registers of the multiplying warps, and tensors that these read for each element.
    pub(super) fragment_rows: u32,
    pub(super) fragment_loads: usize,
}

impl<'a> Candidate<'a> {
    /// One that is worth a try.
    fn tried(tiles: &Tiles, plan: &'a ProductPlan, arrangement: Arrangement, shape: Shape) -> Option<Self> {
        let candidate = Self::new(tiles, plan, arrangement, shape);
        let has_few_rows = candidate.extents[2] <= FEW_ROWS || candidate.wastes_less();
        let is_worth_it = arrangement != Arrangement::Transposed || has_few_rows || candidate.computes();
        (is_worth_it && !candidate.has_too_many_columns_for_fragments()).then_some(candidate)
    }

    fn new(tiles: &Tiles, plan: &'a ProductPlan, arrangement: Arrangement, shape: Shape) -> Self {
        let operand = tiles.operand;
        let step_k = plan.step_k(operand) as u32;
        let tile = shape.tile(step_k);
        let boxes = plan.boxes(tile);
        let operands = || plan.operands.iter().zip([tile.m, tile.n]);
        let in_fragments = || operands().filter(|(operand, _)| operand.is_in_fragments());
        let computed = operands().filter(|(operand, _)| !operand.is_boxed() && !operand.is_in_fragments());
        let (turned, others): (Vec<_>, Vec<_>) = computed.partition(|(operand, _)| operand.is_turned());
        let (copied, computed): (Vec<_>, Vec<_>) = others.into_iter().partition(|(operand, _)| operand.is_copied());
        let pieces = |(operand, rows): (&OperandPlan, u32)| f64::from(rows) / operand.vector() as f64;
        let rows = |operands: Vec<(&OperandPlan, u32)>| operands.into_iter().map(|(_, rows)| rows).sum();
        let maps = || boxes.iter().flat_map(|boxes| boxes.read.iter().chain(&boxes.stored));
        let widest_row = maps().map(|map| map.box_dims[0] * map.element.bytes()).max();
        Self {
            plan,
            shape,
            operand,
            step_k,
            extents: plan.extents(),
            sums: tiles.sums,
            operand_elements: plan.operand_elements(),
            arrangement,
            evaluates_first: plan.evaluates_first(),
            taps: plan.tap_row().map_or(1, |row| row.taps),
            rows_beyond: plan.tap_row().map_or(0, |row| row.rows_beyond()),
            boxed_bytes: boxes.as_ref().map(Boxes::warp_bytes),
            reads_boxes: boxes.as_ref().is_some_and(|boxes| !boxes.read.is_empty()),
            totals: plan.totals_of_columns(),
            has_narrow_boxes: widest_row.is_some_and(|bytes| bytes < LINE_BYTES),
            bytes_of_point: match widest_row {
                Some(_) => maps().map(|map| f64::from(map.element.bytes())).sum(),
                None => BYTES_OF_POINT,
            },
            computed_rows: rows(computed),
            turned_rows: rows(turned),
            copied_pieces: copied.into_iter().map(pieces).sum(),
            box_rows: plan.box_rows(tile, operand),
            l2_reads: [0, 1]
                .map(|slot| super::model::l2_reads(plan.operands[slot].straddles(), slot == 0 && plan.is_matmul())),
            fragment_rows: in_fragments().map(|(_, rows)| rows).sum(),
            fragment_loads: in_fragments().map(|(operand, _)| plan.side_loads_along_k(operand)).sum(),
        }
    }

    /// The config of a way with what it costs in clocks, and why the epilogue goes through the workspace; `None` where it does not fit the
    /// device.
    fn priced(&self, way: Way, device: &Device) -> Option<Priced> {
        let stages = match self.fitting_stages(way, device) {
            Ok(stages) => stages,
            Err(why) => {
                let Shape { m, n, schedule } = self.shape;
                tracing::debug!(tile_m = m, tile_n = n, ?schedule, ?way, why, "tile passed over");
                return None;
            }
        };
        if !self.sums_fit(stages, way) {
            return None;
        }
        let through_workspace = self.plan.through_workspace(&self.choice(stages, way), device);
        if way.meeting == Meeting::Cluster && through_workspace.is_some() {
            return None;
        }
        if way.staging == Staging::Boxes && through_workspace.is_some() {
            return None;
        }
        let Self { shape, arrangement, evaluates_first, .. } = *self;
        let config = Config { shape, stages, arrangement, way, evaluates_first };
        let estimate = self.estimate(way, stages, through_workspace.is_some(), device);
        Some((estimate, EngineConfig::of_fields(NAME, FIELDS, &config), through_workspace))
    }

    /// Seconds of copies before the product.
    pub(super) fn copy_seconds(&self, device: &Device) -> f64 {
        self.plan.copy_seconds(device)
    }

    /// Whether it is a matmul's, not a convolution's.
    pub(super) fn is_matmul(&self) -> bool {
        self.plan.is_matmul()
    }

    /// Whether the product is multiplied as its transpose.
    pub(super) fn is_transposed(&self) -> bool {
        self.arrangement == Arrangement::Transposed
    }

    /// Whether the product is transposed, and its tiles may waste less of more than few rows of C than tiles as it stands.
    pub(super) fn wastes_less(&self) -> bool {
        let Self { shape, extents: [batch, _, rows, _], .. } = *self;
        // of dynamic shapes also where all rows are one tile's: they have its binary
        let is_whole = rows % i64::from(WGMMA_ROWS) == 0 && !(self.plan.is_dynamic() && rows == i64::from(shape.n));
        let has_part = rows > FEW_ROWS && !is_whole;
        let is_one_tile = shape.n == COLUMNS_OF_ONE_TILE && ROWS_OF_ONE_TILE.contains(&rows);
        let is_shared = shape.schedule == Schedule::Cooperative && shape.m == 2 * WGMMA_ROWS;
        let is_long = batch == 1 && self.steps() >= STEPS_OF_MORE_ROWS;
        let suits = match self.plan.is_dynamic() {
            true => shape.n == COLUMNS_OF_DYNAMIC_ROWS,
            false => shape.n >= COLUMNS_OF_MORE_ROWS,
        };
        let is_wide = || is_shared && is_long && suits && self.plan.reads_no_points();
        self.is_transposed() && self.is_matmul() && has_part && (is_one_tile || is_wide())
    }

    /// Whether the first warpgroup computes or copies some operand.
    fn fills(&self) -> bool {
        self.computed_rows + self.turned_rows > 0 || self.copied_pieces > 0.0
    }

    /// Whether a warpgroup alone, or one of 128 rows, would multiply more columns by fragments that it computes than it should.
    fn has_too_many_columns_for_fragments(&self) -> bool {
        let is_alone = self.shape.schedule == Schedule::PingPong;
        self.fragment_rows > 0 && (is_alone || self.shape.m > 2 * WGMMA_ROWS) && self.shape.n > FRAGMENT_COLUMNS
    }

    /// Whether some operand is not multiplied as it is stored.
    fn computes(&self) -> bool {
        self.fills() || self.fragment_rows > 0
    }

    /// Ways that are tried.
    fn ways(&self, device: &Device) -> Vec<Way> {
        let mut ways = Vec::new();
        for splits in self.splits(device) {
            for &staging in self.stagings(splits) {
                let way = Way { splits, ..Way::of(staging) };
                ways.push(way);
                if self.has_columns_for_blocks(splits, device) {
                    ways.extend(self.blocks().iter().map(|&blocks| Way { blocks, stationary: true, ..way }));
                }
            }
        }
        for splits in self.clusters(device) {
            let meeting = Meeting::Cluster;
            ways.extend(self.stagings(1).iter().map(|&staging| Way { splits, meeting, ..Way::of(staging) }));
        }
        for cluster in self.shared_tiles() {
            ways.extend(self.stagings(1).iter().take(1).map(|&staging| Way { cluster, ..Way::of(staging) }));
        }
        ways
    }

    /// Numbers of tiles below each other and side by side that are tried as clusters whose blocks share operands that boxes bring as they are multiplied: of
    /// matmuls with a long k, where rows of B straddle lines of L2, and of A too where that is shared. The fastest took 0.77 to 1.05 of the time of the
    /// fastest others in 29 of 32 there (an H200, 2026-11-29), 1.0 to 1.19 where rows of A alone straddle (13), and the same config 1.01 to 1.19 where none do (33).
    fn shared_tiles(&self) -> Vec<[u32; 2]> {
        let is_plain = self.plan.is_matmul() && self.plan.reduces_nothing() && !self.computes();
        if !is_plain || self.plan.has_tail(self.operand) || self.steps() < STEPS_OF_SHARED_TILES {
            return Vec::new();
        }
        let tile = self.shape.tile(self.step_k);
        let are_worth_it =
            |&&[_, n]: &&[u32; 2]| self.straddles(1) && (n == 1 || self.straddles(0) && tile.m <= MOST_SHARED_ROWS);
        let are_filled =
            |&&cluster: &&[u32; 2]| self.tiles_of(cluster) as f64 <= WASTED_IN_CLUSTERS * self.tiles() as f64;
        // each asks for whole patterns of the swizzle
        let are_cut = |&&[m, n]: &&[u32; 2]| {
            let lines = [0, 1].map(|slot| self.plan.box_lines(slot, tile));
            lines[0].is_multiple_of(SWIZZLED_LINES * n) && lines[1].is_multiple_of(SWIZZLED_LINES * m)
        };
        SHARED_TILES.iter().filter(are_worth_it).filter(are_filled).filter(are_cut).copied().collect()
    }

    /// Whether rows of an operand straddle lines of L2.
    pub(super) fn straddles(&self, slot: usize) -> bool {
        self.l2_reads[slot] > 1.0
    }

    /// Tiles of clusters that cover C.
    pub(super) fn tiles_of(&self, cluster: [u32; 2]) -> i64 {
        let covering = |(count, blocks): (&i64, i64)| (count + blocks - 1) / blocks * blocks;
        self.extents[0] * self.counts().iter().zip(cluster.map(i64::from)).map(covering).product::<i64>()
    }

    /// Numbers of blocks of a cluster that share k that are tried: of narrow tiles of matmuls of few rows or columns, whose blocks read nothing that others do but
    /// these; where both warpgroups have a tile at once, whose sums are FP32, and all clusters run at once.
    fn clusters(&self, device: &Device) -> Vec<u32> {
        let [_, m, n, _] = self.extents;
        let is_narrow = self.shape.n <= MOST_COLUMNS_OF_A_CLUSTER && m.min(n) <= FEW_ROWS;
        let is_shared = self.shape.schedule == Schedule::Cooperative && self.sums != Sums::Half;
        let is_plain = self.plan.is_matmul() && self.plan.reduces_nothing() && !self.computes();
        if !is_narrow || !is_shared || !is_plain || self.operand == MmaType::S8 {
            return Vec::new();
        }
        let steps = self.steps() as i64;
        // no part is empty
        let is_full =
            |&parts: &i64| steps >= STEPS_PER_PART * parts && (parts - 1) * (steps + parts - 1) / parts < steps;
        let runs = |&parts: &i64| self.tiles() * parts <= blocks_in_clusters(parts as u32, device).into();
        (2..=MOST_PARTS_OF_A_CLUSTER).filter(is_full).filter(runs).map(|parts| parts as u32).collect()
    }

    /// Whether the sums of all blocks of a cluster but the first fit where its stages were.
    fn sums_fit(&self, stages: u32, way: Way) -> bool {
        let Shape { m, n, .. } = self.shape;
        let stage = (m + n) * self.step_k * self.operand.bytes();
        way.meeting == Meeting::Workspace || (way.splits - 1) * m * n * SUM_BYTES <= stages * stage
    }

    /// Whether blocks that keep to a column of tiles each, so that they multiply the same B, have several tiles there; both operands come in
    /// boxes then. Rows of a matmul's A that straddle lines of L2 are not for several columns (8192×2304×640 of HALF with rows 1296 bytes apart on an H200: 65 µs with
    /// B in 18 columns of 64×128 that stay, of which 36 were expected, 41 in tiles of 128×192).
    fn has_columns_for_blocks(&self, splits: u32, device: &Device) -> bool {
        let columns = self.columns();
        let in_columns =
            || self.plan.reduces_nothing() && !(self.plan.is_matmul() && self.steps() > 1.0 && self.straddles(0));
        let is_walked = columns == 1 || (in_columns() && columns * 2 <= i64::from(device.sm_count));
        let is_one = splits == 1 && !self.computes() && !self.plan.counts_steps() && self.steps() <= STATIONARY_STEPS;
        is_walked && is_one && self.tiles() > TILES_OF_A_BLOCK * i64::from(device.sm_count)
    }

    /// Columns of tiles, of all matrices.
    pub(super) fn columns(&self) -> i64 {
        self.extents[0] * self.counts()[1]
    }

    /// Ways of the epilogue, the faster first. Partial sums go to the workspace as they are.
    fn stagings(&self, splits: u32) -> &'static [Staging] {
        match self.boxed_bytes {
            Some(_) if splits == 1 => &[Staging::Boxes, Staging::Accumulators],
            _ => &[Staging::Accumulators],
        }
    }

    /// Numbers of blocks of a multiprocessor that keep B: more than one where tiles are small and k is short, so that nothing else hides what
    /// blocks wait for, and registers suffice for what a thread has.
    fn blocks(&self) -> &'static [u32] {
        let choice = self.choice(1, Way::of(Staging::Accumulators));
        let is_short = self.steps() <= STEPS_OF_SEVERAL_BLOCKS && self.totals == 0;
        match choice.multiply.sum_registers(choice.tile) * self.sums.sets() {
            ..=ACCUMULATORS_OF_THREE_BLOCKS if is_short => &[1, 2, 3],
            ..=ACCUMULATORS_OF_TWO_BLOCKS if is_short => &[1, 2],
            _ => &[1],
        }
    }

    fn choice(&self, stages: u32, way: Way) -> GemmChoice {
        let Way { splits, meeting, cluster: tiles_of_cluster, staging, blocks, stationary } = way;
        let Self { shape, operand, sums, .. } = *self;
        let (schedule, fills) = (shape.schedule, self.fills());
        let steps = (self.extents[3] + i64::from(self.step_k) - 1) / i64::from(self.step_k);
        let stationary_steps = if stationary { u32::try_from(steps).unwrap_or(u32::MAX) } else { 0 };
        let multiply = Multiply::Wgmma(Wgmma { operand, fills, schedule, stages, sums, blocks, stationary_steps });
        let boxes = self.boxed_bytes.filter(|_| staging == Staging::Boxes);
        GemmChoice { tile: shape.tile(self.step_k), multiply, splits, meeting, tiles_of_cluster, boxes }
    }

    /// Registers of a thread for accumulators at most.
    fn most_accumulators(&self) -> u32 {
        match self.sums {
            _ if !self.computes() => ACCUMULATORS,
            Sums::Half => HALF_ACCUMULATORS_WHERE_COMPUTED,
            Sums::Full | Sums::Promoted => ACCUMULATORS_WHERE_COMPUTED,
        }
    }

    /// As many stages as fit, at least three.
    ///
    /// # Errors
    /// What does not fit.
    fn fitting_stages(&self, way: Way, device: &Device) -> Result<u32, &'static str> {
        let way = Way { splits: 1, ..way };
        let choice = self.choice(1, way);
        if choice.multiply.sum_registers(choice.tile) * self.sums.sets() > self.most_accumulators() {
            return Err("the accumulators take too many registers");
        }
        let available = device.shared_bytes_of_blocks(way.blocks);
        let bytes = |stages| self.plan.most_shared_bytes(&self.choice(stages, way));
        let least = bytes(LEAST_STAGES);
        // each stage takes as much as any other
        let of_stage = bytes(LEAST_STAGES + 1) - least;
        let more = available.checked_sub(least).ok_or("three stages take too much shared memory")? / of_stage.max(1);
        Ok((LEAST_STAGES + more).min(MOST_STAGES))
    }

    pub(super) fn tiles(&self) -> i64 {
        self.extents[0] * self.counts().iter().product::<i64>()
    }

    /// Rows and columns of tiles, of a matrix.
    pub(super) fn counts(&self) -> [i64; 2] {
        self.shape.tile(self.step_k).counts(self.extents).map(Number::value)
    }

    /// Steps of a part of k.
    pub(super) fn steps_of_part(&self, splits: u32) -> f64 {
        (self.steps() / f64::from(splits)).ceil()
    }

    /// Part of the elements of k of a step that a mean step multiplies.
    pub(super) fn multiplied_part(&self) -> f64 {
        self.plan.multiplied_depth(self.operand)
    }

    /// Elements of k under a tap that a mean step multiplies.
    pub(super) fn depth_of_step(&self) -> f64 {
        f64::from(self.step_k) * self.multiplied_part()
    }

    /// Steps of a tile, of the mean of all matrices.
    pub(super) fn steps(&self) -> f64 {
        let k = i64::from(self.step_k);
        ((self.extents[3] + k - 1) / k) as f64 * self.plan.used_steps()
    }

    /// Numbers of parts of k that are tried.
    fn splits(&self, device: &Device) -> Vec<u32> {
        if self.plan.counts_steps() || self.wastes_less() {
            return vec![1];
        }
        let longest = self.steps() as i64 / STEPS_PER_SPLIT;
        splits_that_fill(device, self.tiles(), longest.min(MOST_SPLITS))
    }
}
