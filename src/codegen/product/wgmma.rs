//! Record of the skeleton of `wgmma`: a ring of stages between a warpgroup that brings tiles and two that multiply.

use std::ops::Range;

use serde::Serialize;

use super::epilogue::{self, EpilogueParts, Mending, Places, staged};
use super::loads::{BoxLoads, Boxed, LoadsText};
use super::operand::{Side, filled, fragments};
use super::unit::{Steps, evaluates, is_in_c, place, quotient, remainder, zeros};
use crate::codegen::names;
use crate::codegen::sections::Used;
use crate::codegen::template::{self, template};
use crate::error::Error;
use crate::graph::{DataType, FinalizedGraph};
use crate::kernel::{
    Boxes, CONSUMERS, ChannelTail, ClusterShape, Epilogue, Fetch, GemmKernel, MmaType, Number, Operand, Register,
    Schedule, Sums, TensorMap, WARPGROUP, WGMMA_ROWS, Wgmma, row_along_outer,
};

/// Device code that every kernel of the skeleton uses.
const SECTIONS: &[&str] = &["fw_shared_address", "fw_mbarrier", "fw_set_registers", "fw_wgmma"];

/// Bytes of a swizzled row.
const ROW_BYTES: u32 = 128;

/// Bytes of k of an instruction.
const PART_BYTES: u32 = 32;

/// The name of the bytes of a tile's steps.
const BYTES_OF_STEP: &str = "bytes_of_step";

/// What `product/wgmma.cu` reads beside the function's name and parameters.
#[derive(Serialize)]
pub(super) struct WgmmaText {
    threads: u32,
    /// Lists of registers, one for each block of rows.
    registers: Vec<String>,
    /// The macro that declares registers for sums, and their number.
    declare: String,
    accumulators: u32,
    ring: String,
    /// Registers of a loading and of a multiplying thread.
    producer_registers: u32,
    consumer_registers: u32,
    blocks: u32,
    /// The cluster, where a block is not by itself.
    cluster: Option<ClusterText>,
    producer: String,
    consumer: String,
}

/// Blocks of a cluster.
#[derive(Serialize)]
struct ClusterText {
    blocks: u32,
    /// Tiles below each other, where blocks receive what others ask for.
    tiles_m: Option<u32>,
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

/// What `pipeline/ring.cuh` reads.
#[derive(Serialize)]
struct RingText {
    stages: u32,
    /// Where the barriers begin.
    at: u32,
    /// Numbers of the tensor maps.
    maps: Vec<usize>,
    /// Arrivals that fill a stage, and that release it.
    filling: u32,
    releasing: u32,
    /// Whether boxes wait in a stage for their transformation.
    transforms: bool,
    /// Whether consumers take turns, and warps of each.
    ping_pong: bool,
    warps: u32,
    /// Barriers of the boxes that epilogues read.
    boxes: Option<BoxBarriersText>,
    stationary: Option<StationaryText>,
    zeros: Vec<ZerosText>,
}

/// A chunk of 16 bytes in each row of an operand's tiles that is multiplied, and that no box brings.
#[derive(Serialize)]
struct ZerosText {
    name: &'static str,
    /// Where the first tile lies, rows of a tile, tiles, and bytes from one to the next.
    at: u32,
    rows: u32,
    tiles: u32,
    stride: u32,
    row_bytes: u32,
    /// Bytes of a row before the chunk, and bits that move it.
    chunk: u32,
    chunk_bits: u32,
}

/// Where tiles of B that stay lie, and their barriers, one for each step.
#[derive(Serialize)]
struct StationaryText {
    at: u32,
    barriers: u32,
    steps: u32,
}

/// Bytes of a step of these, and of its boxes.
#[derive(Serialize)]
struct StationaryLoadsText {
    bytes: u32,
    boxed_bytes: String,
}

#[derive(Serialize)]
struct BoxBarriersText {
    at: u32,
    count: u32,
}

/// What `pipeline/producer.cuh` reads.
#[derive(Serialize)]
struct ProducerText {
    stages: u32,
    units: Number,
    unit: String,
    steps: String,
    /// Bytes of a stage, and of what comes in boxes.
    stage_bytes: u32,
    boxed_bytes: String,
    /// What tells how much of a tile its boxes bring, where they end at the edge of C.
    edge: Vec<String>,
    /// What tells the last step under a tap, where it differs.
    tail: Option<String>,
    /// What tells where boxes begin: of a tile, and of a step.
    tile_digits: Vec<String>,
    origin: Vec<String>,
    sides: Vec<LoadsText>,
    stationary: Option<StationaryLoadsText>,
    /// The end of a loop that the origin begins.
    end: Option<&'static str>,
}

/// What `pipeline/filling_producer.cuh` reads.
#[derive(Serialize)]
struct FillingText {
    stages: u32,
    units: Number,
    unit: String,
    steps: String,
    stage_bytes: u32,
    origin: String,
    /// How boxes are asked for, if any come, and those that are multiplied as they come, where others arrive apart from their tiles.
    ask: Option<AskText>,
    direct: Option<DirectText>,
    /// Functions that fill the operands' tiles, and their names.
    operands: Vec<String>,
    names: Vec<&'static str>,
    /// Steps under way, where pieces are copied, before the oldest is told to be there.
    copies_ahead: Option<u32>,
}

#[derive(Serialize)]
struct AskText {
    boxed_bytes: u32,
    /// Steps that boxes are asked for ahead of what is computed, and whether they arrive apart from the tiles, so that none is waited for.
    ahead: u32,
    apart: bool,
    /// What tells where boxes begin.
    origin: Vec<String>,
    sides: Vec<LoadsText>,
    /// The end of a loop that the origin begins.
    end: Option<&'static str>,
}

/// Boxes of a stage that nobody computes, and what tells where they begin.
#[derive(Serialize)]
struct DirectText {
    boxed_bytes: u32,
    origin: Vec<String>,
    sides: Vec<LoadsText>,
    end: Option<&'static str>,
}

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

/// What `pipeline/products.cuh` reads.
#[derive(Serialize)]
struct ProductsText {
    /// The operands' descriptors, of a consumer's rows.
    a: String,
    b: String,
    /// Whether the products are added to the sums: a condition.
    accumulate: &'static str,
    products: Vec<String>,
    /// Those of the last step under a tap, where it has fewer.
    tail: Option<TailProductsText>,
}

#[derive(Serialize)]
struct TailProductsText {
    condition: String,
    products: Vec<String>,
}

/// What `pipeline/products_of_fragments.cuh` reads.
#[derive(Serialize)]
struct FragmentProductsText {
    origin: String,
    b: String,
    /// Whether all fragments of a step are computed side by side, then multiplied: in narrow tiles, whose products take
    /// less time than one fragment.
    at_once: bool,
    /// Groups of products under way while a fragment is computed: all but that which has used its registers.
    pending: usize,
    fragments: Vec<FragmentText>,
}

/// A fragment of 64 rows by 32 bytes of k and its products.
#[derive(Serialize)]
struct FragmentText {
    name: String,
    block: u32,
    part: u32,
    /// Whether the sums start with it.
    accumulate: &'static str,
    product: String,
    /// Whether the products of the stage before have been done once its registers are free.
    is_last: bool,
}

pub(super) fn text(
    graph: &FinalizedGraph,
    used: &mut Used,
    kernel: &GemmKernel,
    wgmma: &Wgmma,
) -> Result<WgmmaText, Error> {
    for &section in SECTIONS {
        used.add(section);
    }
    used.add(if wgmma.sums == Sums::Half { "fw_half_accumulators" } else { "fw_accumulators" });
    let skeleton = Skeleton { graph, kernel, wgmma };
    let producer_registers = kernel.tuning.producer_registers;
    Ok(WgmmaText {
        threads: kernel.multiply.threads(kernel.tile),
        registers: (0..skeleton.blocks()).map(|block| skeleton.registers(block)).collect(),
        declare: skeleton.declare(),
        accumulators: skeleton.first_sum() + skeleton.of_rows(),
        ring: skeleton.ring(used)?,
        producer_registers,
        consumer_registers: wgmma.consumer_registers(producer_registers),
        blocks: kernel.blocks,
        cluster: skeleton.cluster(used),
        producer: if wgmma.fills { skeleton.filling_producer(used)? } else { skeleton.producer(used)? },
        consumer: skeleton.consumer(used)?,
    })
}

/// The parts of a kernel that multiplies by `wgmma`.
struct Skeleton<'a> {
    graph: &'a FinalizedGraph,
    kernel: &'a GemmKernel,
    wgmma: &'a Wgmma,
}

impl<'a> Skeleton<'a> {
    fn consumer_m(&self) -> u32 {
        self.kernel.multiply.consumer_rows(self.kernel.tile)
    }

    /// Blocks of 64 rows that a warpgroup computes.
    fn blocks(&self) -> u32 {
        self.consumer_m() / WGMMA_ROWS
    }

    /// Registers of a thread for the sums of its rows.
    fn of_rows(&self) -> u32 {
        self.kernel.multiply.sum_registers(self.kernel.tile)
    }

    /// Registers of a thread for the sums of one instruction.
    fn of_instruction(&self) -> u32 {
        self.of_rows() / self.blocks()
    }

    /// Number of the first register that the epilogue takes.
    fn first_sum(&self) -> u32 {
        (self.wgmma.sums.sets() - 1) * self.of_rows()
    }

    /// The macro that declares the accumulators.
    fn declare(&self) -> String {
        let sum = match self.wgmma.sums {
            Sums::Half => "half",
            Sums::Full | Sums::Promoted => names::register_type(self.kernel.multiply.accumulator()),
        };
        format!("FW_ACCUMULATORS_{sum}")
    }

    fn is_ping_pong(&self) -> bool {
        self.wgmma.schedule == Schedule::PingPong
    }

    fn side(&self, slot: usize) -> Side<'a> {
        Side { graph: self.graph, kernel: self.kernel, slot }
    }

    fn operand(&self, slot: usize) -> &'a Operand {
        self.side(slot).operand()
    }

    /// Bytes of a swizzled row of an operand's tile: of k, or of m or n.
    fn row_bytes(&self, slot: usize) -> u32 {
        let rows = self.side(slot).block();
        let bytes = self.wgmma.operand.bytes();
        match self.operand(slot).fetch {
            Fetch::Tma(map) => map.span() * bytes,
            _ if self.operand(slot).along_k => ROW_BYTES,
            _ => row_along_outer(rows, bytes) * bytes,
        }
    }

    fn is_boxed(&self, slot: usize) -> bool {
        self.operand(slot).map().is_some()
    }

    /// Whether boxes are multiplied as they come.
    fn is_direct(&self, slot: usize) -> bool {
        matches!(self.operand(slot).fetch, Fetch::Tma(_))
    }

    /// Whether the multiplying warps compute an operand's fragments.
    fn in_fragments(&self, slot: usize) -> Option<TensorMap> {
        match self.operand(slot).fetch {
            Fetch::Fragments(map) => Some(map),
            _ => None,
        }
    }

    /// Whether the first warpgroup copies pieces to a stage, which arrive while others are asked for. What comes in boxes is multiplied as it comes
    /// then.
    fn copies(&self) -> bool {
        (0..2).any(|slot| self.operand(slot).fetch == Fetch::Async)
    }

    /// Whether boxes come in a stage that the first warpgroup fills otherwise, too, and waits for.
    fn transforms(&self) -> bool {
        self.wgmma.fills && self.boxed_bytes() > 0 && !self.copies()
    }

    /// Whether all boxes arrive apart from the tiles that they become, in places that the producer alone waits for.
    fn boxes_arrive_apart(&self) -> bool {
        self.transforms() && self.kernel.tuning.boxes_apart
    }

    /// Operands whose tiles come in a stage.
    fn staged_slots(&self) -> Range<usize> {
        if self.keeps_b() { 0..1 } else { 0..2 }
    }

    /// Bytes of a stage that come in boxes.
    fn boxed_bytes(&self) -> u32 {
        self.staged_slots().map(|slot| self.side(slot).boxed_bytes()).sum()
    }

    /// What tells of a tile how many of its rows and columns are C's, and the bytes of its steps' boxes, where these end at the edge of C.
    fn edge_lines(&self) -> Vec<String> {
        let sides = self.staged_slots().map(|slot| self.side(slot));
        let inside: Vec<String> = sides.clone().filter_map(|side| side.inside_line()).collect();
        if inside.is_empty() {
            return inside;
        }
        let of_step =
            |side: Side<'_>| side.edge_bytes().unwrap_or_else(|| self.bytes_of_step(side.slot..side.slot + 1));
        let bytes = sides.map(of_step).collect::<Vec<_>>().join(" + ");
        inside.into_iter().chain([format!("const unsigned {BYTES_OF_STEP} = {bytes};")]).collect()
    }

    /// Bytes of the boxes of some operands' steps: fewer where all steps are the last under their tap, and a condition where some are.
    fn bytes_of_step(&self, slots: Range<usize>) -> String {
        let bytes = |elements: &dyn Fn(&Operand) -> u32| -> u32 {
            let of_side = |side: Side<'_>| side.boxed_bytes() / self.kernel.tile.k * elements(side.operand());
            slots.clone().map(|slot| of_side(self.side(slot))).sum()
        };
        // boxes end where operands do
        let told = |name: [&'static str; 2], bytes: u32| {
            Number::count(self.graph.is_dynamic(), name[usize::from(slots.start > 0)], bytes.into())
        };
        let whole = told(["bytes of a step", "bytes of a step of B"], bytes(&|_| self.kernel.tile.k));
        let of_tail = |tail: ChannelTail| {
            told(["bytes of a tail", "bytes of a tail of B"], bytes(&|operand| operand.boxed_of(tail)))
        };
        match self.kernel.tail {
            Some(tail) if tail.differs() => format!("is_tail ? {} : {whole}", of_tail(tail)),
            Some(tail) => of_tail(tail).to_string(),
            None => whole.to_string(),
        }
    }

    /// Where stages, and tiles of B that stay, hold what is multiplied and no box brings.
    fn zeros(&self) -> Vec<ZerosText> {
        let Some(tail) = self.kernel.tail else { return Vec::new() };
        let layout = &self.kernel.shared;
        let zeros = |slot: usize| {
            let operand = self.operand(slot);
            let map = operand.map().filter(|_| operand.boxed_of(tail) < tail.elements)?;
            let row_bytes = map.swizzle.row_bytes();
            let (stage, stages) = (&layout.stage, self.wgmma.stages);
            let (at, bytes, tiles, stride) = match slot {
                0 => (stage.tiles[0], stage.tiles[1], stages, stage.bytes),
                _ if self.keeps_b() => {
                    let bytes = layout.stationary_bytes;
                    (layout.stationary, bytes, self.wgmma.stationary_steps, bytes)
                }
                _ => (stage.tiles[1], stage.bytes - stage.tiles[1], stages, stage.bytes),
            };
            Some(ZerosText {
                name: ["A", "B"][slot],
                at,
                rows: bytes / row_bytes,
                tiles,
                stride,
                row_bytes,
                chunk: operand.boxed_of(tail) * map.element.bytes(),
                chunk_bits: map.swizzle.chunk_bits(),
            })
        };
        (0..2).filter_map(zeros).collect()
    }

    /// The last step under a tap, where it differs from the others.
    fn differing_tail(&self) -> Option<ChannelTail> {
        self.kernel.tail.filter(ChannelTail::differs)
    }

    /// Whether tiles of B stay in shared memory.
    fn keeps_b(&self) -> bool {
        self.side(1).is_stationary()
    }

    fn steps(&self) -> Steps<'a> {
        Steps { kernel: self.kernel }
    }

    /// The lines that say which tile of C, and which part of k, a unit of work is.
    fn unit(&self) -> Result<String, Error> {
        let tiles = self.kernel.tiles();
        if self.steps().are_counted() {
            let (place, of_matrix) = (place(self.kernel, "unit")?, self.steps().of_matrix());
            return Ok(format!("{place}\n{of_matrix}\nconst int steps = steps_of_matrix(b);"));
        }
        let Some(steps) = self.steps().line("split") else {
            return match self.kernel.cluster.multicasts() {
                true => place(self.kernel, &format!("unit / {}", self.kernel.cluster.blocks())),
                false => place(self.kernel, "unit"),
            };
        };
        let split = match tiles == Number::ONE {
            _ if self.kernel.cluster.k > 1 => {
                format!("const unsigned split = rank, number = unit / {};", self.kernel.cluster.k)
            }
            true => "const unsigned split = unit, number = 0;".to_owned(),
            false => {
                format!("const unsigned split = {}, number = {};", quotient("unit", tiles), remainder("unit", tiles))
            }
        };
        Ok(format!("// a tile of C, and a part of k\n{split}\n{steps}\n{}", place(self.kernel, "number")?))
    }

    fn ring(&self, used: &mut Used) -> Result<String, Error> {
        let maps: Vec<usize> = (0..self.kernel.maps().count()).collect();
        if !maps.is_empty() {
            used.add("fw_tma_load");
        }
        if self.kernel.maps().any(|map| map.pixels.is_some()) {
            used.add("fw_tma_load_im2col");
        }
        let zeros = self.zeros();
        if !zeros.is_empty() {
            used.add("fw_vector");
            used.add("fw_fence_async");
        }
        let warps = WARPGROUP / 32;
        let reads_boxes = self.kernel.boxes().is_some_and(|boxes| !boxes.read.is_empty());
        let record = RingText {
            stages: self.wgmma.stages,
            at: self.kernel.shared.barriers,
            maps,
            filling: if self.wgmma.fills { warps + u32::from(self.has_direct_boxes()) } else { 1 },
            releasing: warps * if self.is_ping_pong() { 1 } else { CONSUMERS } * self.mates(),
            transforms: self.transforms(),
            ping_pong: self.is_ping_pong(),
            warps,
            boxes: reads_boxes.then(|| BoxBarriersText {
                at: self.kernel.shared.box_barriers,
                count: CONSUMERS * warps * Boxes::SETS,
            }),
            stationary: self.keeps_b().then_some(StationaryText {
                at: self.kernel.shared.stationary,
                barriers: self.kernel.shared.stationary_barriers,
                steps: self.wgmma.stationary_steps,
            }),
            zeros,
        };
        template::render(template!("pipeline/ring.cuh"), &record)
    }

    fn producer(&self, used: &mut Used) -> Result<String, Error> {
        used.add("fw_elect");
        let steps = self.steps();
        let boxed = self.boxed("full", "stage", "step", |_| true);
        let BoxLoads { of_tile, of_step, sides, end } = boxed.loads();
        let edge = self.edge_lines();
        let record = ProducerText {
            stages: self.wgmma.stages,
            units: self.kernel.units(),
            unit: self.unit()?,
            steps: steps.count(),
            stage_bytes: self.kernel.shared.stage.bytes,
            boxed_bytes: match edge.is_empty() {
                true => self.bytes_of_step(self.staged_slots()),
                false => BYTES_OF_STEP.to_owned(),
            },
            edge,
            tail: self.differing_tail().map(|tail| steps.is_tail(tail, "step")),
            tile_digits: of_tile,
            origin: boxed.takes_k().then(|| steps.origin_line("step")).into_iter().chain(of_step).collect(),
            sides,
            stationary: self.keeps_b().then(|| StationaryLoadsText {
                bytes: self.kernel.shared.stationary_bytes,
                boxed_bytes: self.bytes_of_step(1..2),
            }),
            end,
        };
        template::render(template!("pipeline/producer.cuh"), &record)
    }

    fn filling_producer(&self, used: &mut Used) -> Result<String, Error> {
        used.add("fw_fence_async");
        if self.copies() {
            used.add("fw_cp_async");
        }
        let steps = self.steps();
        let ask = self.transforms().then(|| self.ask());
        if self.boxes_arrive_apart() {
            used.add("fw_named_barrier");
        }
        let computed = (0..2).filter(|&slot| !self.is_direct(slot) && self.in_fragments(slot).is_none());
        let computed: Vec<Side<'_>> = computed.map(|slot| self.side(slot)).collect();
        let mut operands = Vec::new();
        for &side in &computed {
            operands.push(filled(used, side)?);
        }
        let record = FillingText {
            stages: self.wgmma.stages,
            units: self.kernel.units(),
            unit: self.unit()?,
            steps: steps.count(),
            stage_bytes: self.kernel.shared.stage.bytes,
            origin: steps.origin_line("step"),
            ask,
            direct: self.direct(),
            operands,
            copies_ahead: self.copies().then_some(self.kernel.tuning.copies_ahead),
            names: computed.iter().map(Side::name).collect(),
        };
        template::render(template!("pipeline/filling_producer.cuh"), &record)
    }

    fn ask(&self) -> AskText {
        let apart = self.boxes_arrive_apart();
        let boxed = self.boxed("raw", "asked_stage", "asked_step", |slot| !apart || !self.is_direct(slot));
        let BoxLoads { of_tile, of_step, sides, end } = boxed.loads();
        let first = boxed.takes_k().then(|| self.steps().origin_line("asked_step"));
        AskText {
            boxed_bytes: boxed.sides.iter().map(Side::boxed_bytes).sum(),
            ahead: self.kernel.tuning.boxes_ahead,
            apart,
            origin: of_tile.into_iter().chain(first).chain(of_step).collect(),
            sides,
            end,
        }
    }

    /// The boxes that are multiplied as they come, beside others that arrive apart from their tiles or pieces that are copied.
    fn direct(&self) -> Option<DirectText> {
        if !self.has_direct_boxes() {
            return None;
        }
        let boxed = self.boxed("full", "stage", "step", |slot| self.is_direct(slot));
        let BoxLoads { of_tile, of_step, sides, end } = boxed.loads();
        let boxed_bytes = boxed.sides.iter().map(Side::boxed_bytes).sum();
        Some(DirectText { boxed_bytes, origin: of_tile.into_iter().chain(of_step).collect(), sides, end })
    }

    fn has_direct_boxes(&self) -> bool {
        (self.boxes_arrive_apart() || self.copies()) && (0..2).any(|slot| self.is_direct(slot))
    }

    /// The loads of some operands' boxes, whose bytes are counted by a barrier of a stage.
    fn boxed(
        &self,
        barrier: &'static str,
        stage: &'static str,
        step: &'static str,
        are_wanted: impl Fn(usize) -> bool,
    ) -> Boxed<'a> {
        let sides = (0..2).filter(|&slot| self.is_boxed(slot) && are_wanted(slot)).map(|slot| self.side(slot));
        Boxed { sides: sides.collect(), barrier, stage, step }
    }

    fn consumer(&self, used: &mut Used) -> Result<String, Error> {
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

    fn cluster(&self, used: &mut Used) -> Option<ClusterText> {
        let cluster = Some(self.kernel.cluster).filter(|cluster| cluster.blocks() > 1)?;
        used.add("fw_cluster");
        if cluster.multicasts() {
            used.add("fw_multicast");
        }
        Some(ClusterText { blocks: cluster.blocks(), tiles_m: cluster.multicasts().then_some(cluster.m) })
    }

    /// Blocks of a cluster whose stages hold some of what a block asks for: those of the same row or column of tiles.
    fn mates(&self) -> u32 {
        self.kernel.cluster.m + self.kernel.cluster.n - 1
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
    fn consumer_row(&self) -> Option<String> {
        (!self.is_ping_pong()).then(|| format!("consumer * {}", self.consumer_m()))
    }

    /// First row of a warp in the tile: of its block of 64 rows number `rows`, or of its first block.
    fn warp_row(&self, of_block: bool) -> String {
        let consumer = self.consumer_row();
        let block = of_block.then(|| "rows * 64".to_owned());
        let parts = consumer.into_iter().chain(block).chain(["warp % 4 * 16".to_owned()]);
        parts.collect::<Vec<_>>().join(" + ")
    }

    fn fragment_functions(&self, used: &mut Used, map: &TensorMap) -> Result<String, Error> {
        let functions = fragments(used, self.side(0), map, self.consumer_row())?;
        let names: Vec<String> = self.fragments().iter().map(|fragment| format!("{}[4]", fragment.name)).collect();
        Ok(format!("{functions}\nunsigned {};", names.join(", ")))
    }

    fn products_of_fragments(&self) -> Result<String, Error> {
        let fragments = self.fragments();
        let record = FragmentProductsText {
            origin: self.steps().origin_line("step"),
            b: self.descriptor(1),
            at_once: self.kernel.tuning.fragments_at_once,
            pending: fragments.len() - 1,
            fragments,
        };
        template::render(template!("pipeline/products_of_fragments.cuh"), &record)
    }

    /// The fragments of a step, in the order in which they are multiplied.
    fn fragments(&self) -> Vec<FragmentText> {
        let count = self.parts() * self.blocks();
        (0..count)
            .map(|number| self.fragment(number / self.blocks(), number % self.blocks(), number + 1 == count))
            .collect()
    }

    fn fragment(&self, part: u32, block: u32, is_last: bool) -> FragmentText {
        let b = &self.kernel.b;
        let tail = format!(", 1, 1, {}", u32::from(!b.along_k));
        let scale = if part == 0 { "p" } else { "1" };
        let plus_b = self.part_at(1, part);
        let shape = self.shape();
        FragmentText {
            name: format!("fragment_{part}_{block}"),
            block,
            part,
            accumulate: if part == 0 { "step" } else { "1" },
            product: format!("FW_PRODUCT_A(\"{shape}\", FW_ROWS_{block}, {plus_b}, \"{scale}\", \"{tail}\")"),
            is_last,
        }
    }

    fn products(&self) -> Result<String, Error> {
        let record = ProductsText {
            a: self.descriptor(0),
            b: self.descriptor(1),
            accumulate: if self.wgmma.sums == Sums::Promoted { "0" } else { "step" },
            products: self.instructions(match self.kernel.tail.filter(|tail| !tail.differs()) {
                Some(tail) => self.parts_of(tail),
                None => self.parts(),
            }),
            tail: self.differing_tail().map(|tail| TailProductsText {
                condition: self.steps().is_tail(tail, "step"),
                products: self.instructions(self.parts_of(tail)),
            }),
        };
        template::render(template!("pipeline/products.cuh"), &record)
    }

    /// An operand's descriptor, of a consumer's rows.
    fn descriptor(&self, slot: usize) -> String {
        let operand = self.operand(slot);
        let offset = self.kernel.shared.stage.tiles[slot];
        let shift = match self.wgmma.schedule {
            Schedule::Cooperative if slot == 0 => {
                format!(" + consumer * {}", self.consumer_m() * self.bytes_of_a_row())
            }
            _ => String::new(),
        };
        let row_bytes = self.row_bytes(slot);
        let leading = if operand.along_k { 16 } else { self.side(slot).taps() * self.kernel.tile.k * row_bytes };
        let place = match offset {
            _ if slot == 1 && self.keeps_b() => {
                format!("stationary + step * {}", self.kernel.shared.stationary_bytes)
            }
            0 => "tile".to_owned(),
            _ => format!("tile + {offset}"),
        };
        format!("fw_matrix_descriptor<{row_bytes}>({place}{shift}, {leading}, {})", 8 * row_bytes)
    }

    /// `acc0, acc1, …` of a block of 64 rows, sixteen a line of the source.
    fn registers(&self, block: u32) -> String {
        let first = block * self.of_instruction();
        let names: Vec<String> = (first..first + self.of_instruction()).map(|number| format!("acc{number}")).collect();
        let lines: Vec<String> = names.chunks(16).map(|line| line.join(", ")).collect();
        lines.join(", \" \\\n  \"")
    }

    /// `m64n256k16.f32.bf16.bf16`.
    fn shape(&self) -> String {
        format!("m{WGMMA_ROWS}n{}k{}.{}", self.kernel.tile.n, 32 / self.wgmma.operand.bytes(), self.types())
    }

    /// Bytes from a row of A to the next, a column of 64 of them at a time where lines run along m.
    fn bytes_of_a_row(&self) -> u32 {
        if self.operand(0).along_k { self.row_bytes(0) } else { ROW_BYTES }
    }

    /// Where 32 bytes of k of an operand begin, in units of descriptors: 16 bytes.
    fn part_at(&self, slot: usize, part: u32) -> u32 {
        let row_bytes = self.row_bytes(slot);
        if !self.operand(slot).along_k {
            return part * (PART_BYTES / self.wgmma.operand.bytes()) * row_bytes / 16;
        }
        let block_bytes = self.side(slot).block() * row_bytes;
        (part * PART_BYTES / row_bytes * block_bytes + part * PART_BYTES % row_bytes) / 16
    }

    /// Where the taps of a step of so many elements of k begin in the tiles of A and B, in units of descriptors.
    fn taps(&self, elements: u32) -> Vec<[u32; 2]> {
        let Some(row) = self.kernel.tap_row else { return vec![[0, 0]] };
        let row_bytes = self.row_bytes(1);
        let lines = if self.kernel.b.along_k { self.kernel.tile.n } else { elements };
        let at = |tap: u32| [row.first_row(tap) * self.bytes_of_a_row() / 16, tap * lines * row_bytes / 16];
        (0..row.taps).map(at).collect()
    }

    /// Instructions along k of a step under a tap.
    fn parts(&self) -> u32 {
        self.kernel.tile.k * self.wgmma.operand.bytes() / PART_BYTES
    }

    /// Instructions along k of the last step under a tap.
    fn parts_of(&self, tail: ChannelTail) -> u32 {
        tail.elements * self.parts() / self.kernel.tile.k
    }

    /// The instructions of so many parts of a step, under each of its taps: 32 bytes of k at a time, for each block of 64 rows.
    fn instructions(&self, parts: u32) -> Vec<String> {
        let [a, b] = [0, 1].map(|slot| self.operand(slot));
        let shape = self.shape();
        let tail = match self.wgmma.operand {
            MmaType::S8 => String::new(),
            MmaType::Fp8 | MmaType::Tf32 => ", 1, 1".to_owned(),
            _ => format!(", 1, 1, {}, {}", u32::from(!a.along_k), u32::from(!b.along_k)),
        };
        let mut lines = Vec::new();
        let elements = parts * PART_BYTES / self.wgmma.operand.bytes();
        for (tap, [tap_a, tap_b]) in self.taps(elements).into_iter().enumerate() {
            for part in 0..parts {
                for block in 0..self.blocks() {
                    let scale = if tap == 0 && part == 0 { "p" } else { "1" };
                    let plus_a = tap_a + self.part_at(0, part) + block * WGMMA_ROWS * self.bytes_of_a_row() / 16;
                    let plus_b = tap_b + self.part_at(1, part);
                    lines.push(format!(
                        "FW_PRODUCT(\"{shape}\", FW_ROWS_{block}, {plus_a}, {plus_b}, \"{scale}\", \"{tail}\")"
                    ));
                }
            }
        }
        lines
    }

    /// Types of accumulators, A and B.
    fn types(&self) -> String {
        let sum = match (self.wgmma.sums, self.kernel.multiply.accumulator()) {
            (Sums::Half, _) => "f16",
            (_, Register::Int) => "s32",
            _ => "f32",
        };
        let stored = |slot: usize| self.graph.tensor(self.operand(slot).tensor).data_type;
        let [a, b] = [0, 1].map(|slot| match (self.wgmma.operand, stored(slot)) {
            (MmaType::F16, _) => "f16",
            (MmaType::Bf16, _) => "bf16",
            (MmaType::Tf32, _) => "tf32",
            (MmaType::S8, _) => "s8",
            (MmaType::Fp8, DataType::Fp8E4M3) => "e4m3",
            (MmaType::Fp8, _) => "e5m2",
        });
        format!("{sum}.{a}.{b}")
    }
}

/// `FW_ADD(64, 0)`, eight a line.
fn addition(sum: u32, part: u32) -> String {
    let lead = if part.is_multiple_of(8) { "\n" } else { " " };
    format!("{lead}FW_ADD({sum}, {part})")
}
