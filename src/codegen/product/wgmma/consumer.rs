//! The warpgroups that multiply: their turns, how they release stages, and what follows the last step of a tile.

use serde::Serialize;

use super::super::epilogue::{self, EpilogueParts, Mending, Places, staged};
use super::super::unit::{evaluates, is_in_c, quotient, zeros};
use super::Skeleton;
use crate::codegen::sections::Used;
use crate::codegen::template::{self, template};
use crate::error::Error;
use crate::kernel::{CONSUMERS, ClusterShape, Epilogue, Number, Schedule, Sums, WARPGROUP};

/// What `pipeline/consumer.cuh` reads.
#[derive(Serialize)]
struct ConsumerText {
    stages: u32,
    units: Number,
    unit: String,
    steps: String,
    stage_bytes: u32,
    declarations: String,
    ask: Option<String>,
    turns: Option<TurnsText>,
    /// Functions of an operand whose fragments the warps compute.
    functions: Option<String>,
    /// What clears the sums that products are added to outside the tensor core.
    clear: Option<String>,
    transforms: bool,
    /// The condition that a unit is the first, which waits for the tiles of B that stay.
    is_first: Option<&'static str>,
    /// The products of a stage; whether they are waited for at once, and what is added up then.
    products: String,
    additions: Option<String>,
    /// Whether the products of the stage before are waited for after those of a stage.
    waits: bool,
    /// What is done about sums that are NaN, where zeros lie outside operands.
    inside: Option<String>,
    release: ReleaseText,
    /// What defines, and what tells, that a block's tile lies in C, where one may not.
    is_in_c: Option<String>,
    evaluates: Option<&'static str>,
    /// How the parts of k of a cluster meet.
    meeting: Option<String>,
    epilogue: String,
    finish: Option<String>,
}

/// How a stage is released: lanes that arrive, at the barrier of which block.
#[derive(Serialize)]
struct ReleaseText {
    who: &'static str,
    arrive: &'static str,
    at: &'static str,
    /// What defines who, where they are several.
    told: Option<String>,
}

/// How consumers take turns.
#[derive(Serialize)]
struct TurnsText {
    /// Number of a tile's last step, after which the other consumer's products come.
    last_step: String,
    /// Function that gives the steps of a unit, where they differ.
    steps_of: Option<String>,
    /// Stages that the second consumer leaves to the first at the start, and that each leaves to the other after a tile.
    skipped: String,
    left: String,
}

/// What `pipeline/meeting.cuh` reads.
#[derive(Serialize)]
struct MeetingText {
    /// Blocks that send their sums.
    others: u32,
    /// Sums of a block, and bytes from a thread's first one of the first of these to its last of the last.
    part: u32,
    reach: u32,
    /// A thread's fragments to memory, and added from there.
    sent: String,
    added: String,
}

impl Skeleton<'_> {
    pub(super) fn consumer(&self, used: &mut Used) -> Result<String, Error> {
        let epilogue = self.epilogue(used)?;
        let fragments = self.in_fragments(0);
        let functions = match &fragments {
            Some(map) => Some(self.fragment_functions(used, map)?),
            None => None,
        };
        let promotes = self.wgmma.sums == Sums::Promoted;
        let first = self.first_sum();
        let accumulators = first + self.of_rows();
        let record = ConsumerText {
            stages: self.wgmma.stages,
            units: self.kernel.units(),
            unit: self.unit()?,
            steps: self.steps().count(),
            stage_bytes: self.kernel.shared.stage.bytes,
            declarations: epilogue.declarations,
            ask: epilogue.ask,
            turns: self.is_ping_pong().then(|| self.turns()),
            functions,
            clear: promotes.then(|| zeros(first..accumulators)),
            transforms: self.transforms() && !self.boxes_arrive_apart(),
            is_first: self.keeps_b().then_some(match self.wgmma.schedule {
                Schedule::Cooperative => "unit < gridDim.x",
                Schedule::PingPong => "unit < 2 * gridDim.x",
            }),
            products: match &fragments {
                Some(_) => self.products_of_fragments()?,
                None => self.products()?,
            },
            additions: promotes.then(|| (0..self.of_rows()).map(|number| addition(first + number, number)).collect()),
            waits: fragments.is_none(),
            inside: self.inside(used)?,
            release: self.release(),
            is_in_c: is_in_c(self.kernel),
            evaluates: evaluates(self.kernel).filter(|_| self.kernel.cluster.multicasts()),
            meeting: self.meeting(used)?,
            epilogue: epilogue.body,
            finish: epilogue.finish,
        };
        template::render(template!("pipeline/consumer.cuh"), &record)
    }

    /// How the consumers of a ping-pong schedule leave stages to each other.
    fn turns(&self) -> TurnsText {
        let (tiles, steps) = (self.kernel.tiles(), self.steps());
        let (each, all) = (steps.each_split(), self.kernel.steps());
        if steps.are_counted() {
            let [batch, ..] = self.kernel.space.numbers();
            let (of_matrix, b) = (steps.of_matrix(), quotient("unit", tiles.quotient(batch)));
            let of_unit = format!("const auto steps_of = [&](unsigned unit) {{ return steps_of_matrix({b}); }};");
            return self.turns_of(format!("{of_matrix}\n{of_unit}"));
        }
        if !steps.are_split() {
            let skipped = format!("consumer == 0 ? 0 : {all}");
            return TurnsText { last_step: steps.last(), steps_of: None, skipped, left: format!("stage += {all};") };
        }
        let of_unit = format!("min({each}u, {all}u - {} * {each}u)", quotient("unit", tiles));
        self.turns_of(format!("const auto steps_of = [&](unsigned unit) {{ return {of_unit}; }};"))
    }

    /// The same where units have different numbers of steps, which a function tells.
    fn turns_of(&self, steps_of: String) -> TurnsText {
        let units = self.kernel.units();
        TurnsText {
            last_step: self.steps().last(),
            steps_of: Some(steps_of),
            skipped: format!("consumer == 0 || blockIdx.x >= {units}u ? 0 : steps_of(blockIdx.x)"),
            left: format!("if (unit + gridDim.x < {units}u) stage += steps_of(unit + gridDim.x);"),
        }
    }

    fn release(&self) -> ReleaseText {
        let cluster = self.kernel.cluster;
        if !cluster.multicasts() {
            return ReleaseText { who: "lane == 0", arrive: "fw_mbarrier_arrive", at: "", told: None };
        }
        let of_row_or_column = match cluster {
            ClusterShape { m: 1, .. } | ClusterShape { n: 1, .. } => String::new(),
            ClusterShape { m, .. } => format!(" && (lane % {m} == rank_m || lane / {m} == rank_n)"),
        };
        let told = format!("const bool is_told = lane < {}{of_row_or_column};", cluster.blocks());
        ReleaseText { who: "is_told", arrive: "fw_mbarrier_arrive_at", at: ", lane", told: Some(told) }
    }

    fn inside(&self, used: &mut Used) -> Result<Option<String>, Error> {
        let first_row = format!("{} + lane / 4", self.warp_row(false));
        let mending = Mending::of(self.graph, self.kernel);
        mending.map(|mending| mending.fragments(used, self.first_sum(), &first_row)).transpose()
    }

    fn epilogue(&self, used: &mut Used) -> Result<EpilogueParts, Error> {
        match (&self.kernel.epilogue, self.kernel.boxes()) {
            (Epilogue::Fused(fused), Some(boxes)) => {
                let places = Places {
                    first_sum: self.first_sum(),
                    first_map: self.kernel.operand_maps().len(),
                    warp_row: self.warp_row(self.blocks() > 1),
                    first_warp_row: self.warp_row(false),
                };
                let (graph, kernel) = (self.graph, self.kernel);
                epilogue::Boxed { graph, kernel, epilogue: fused, boxes, places }.parts(used)
            }
            _ => staged(self.graph, used, self.kernel, self.first_sum(), self.warp_row(self.blocks() > 1)),
        }
    }

    /// How the sums of a cluster's blocks become those of the first.
    fn meeting(&self, used: &mut Used) -> Result<Option<String>, Error> {
        let cluster = self.kernel.cluster.k;
        if cluster == 1 {
            return Ok(None);
        }
        ["fw_of_block", "fw_keep"].into_iter().for_each(|section| used.add(section));
        let (threads, first) = (WARPGROUP * CONSUMERS, self.first_sum());
        let fragments = |name: &str| -> String {
            let one = |number: u32| {
                let at = first + 4 * number;
                format!("\n{name}({}, {at}, {}, {}, {})", number * threads * 16, at + 1, at + 2, at + 3)
            };
            (0..self.of_rows() / 4).map(one).collect()
        };
        let (part, others) = (self.of_rows() * threads, cluster - 1);
        let reach = 4 * part * others - 16 * (threads - 1);
        let record = MeetingText { others, part, reach, sent: fragments("FW_TO"), added: fragments("FW_PLUS") };
        template::render(template!("pipeline/meeting.cuh"), &record).map(Some)
    }

    /// First row of the warpgroup's part of a tile, where two share it.
    pub(super) fn consumer_row(&self) -> Option<String> {
        (!self.is_ping_pong()).then(|| format!("consumer * {}", self.consumer_m()))
    }

    /// First row of a warp in the tile: of its block of 64 rows number `rows`, or of its first block.
    fn warp_row(&self, of_block: bool) -> String {
        let consumer = self.consumer_row();
        let block = of_block.then(|| "rows * 64".to_owned());
        let parts = consumer.into_iter().chain(block).chain(["warp % 4 * 16".to_owned()]);
        parts.collect::<Vec<_>>().join(" + ")
    }
}

/// `FW_ADD(64, 0)`, eight a line.
fn addition(sum: u32, part: u32) -> String {
    let lead = if part.is_multiple_of(8) { "\n" } else { " " };
    format!("{lead}FW_ADD({sum}, {part})")
}
