//! Record of the Hopper skeleton of matrix products.

use serde::Serialize;

use super::fragment_epilogue::{self, FragmentEpilogueText, Places};
use super::gemm::{ExtentsText, TileText, extents, tile, zeros};
use super::gemm_operand::{self, FilledText, OperandText};
use super::names;
use super::sections::Used;
use super::sweep::{SweepText, index_type};
use super::warp_epilogue::{self, WarpEpilogueText};
use crate::graph::{DataType, FinalizedGraph};
use crate::kernel::{
    CONSUMERS, Fetch, GemmKernel, MmaType, Multiply, Operand, Register, Schedule, Sums, WARPGROUP, WGMMA_ROWS,
    row_along_outer,
};

/// Registers of each of three warpgroups' threads at launch; they share these, and not the rest of the multiprocessor's: an
/// H200 waits for ever for more.
const REGISTERS_AT_LAUNCH: u32 = 168;

/// Device code that every kernel of the skeleton uses.
const SECTIONS: &[&str] =
    &["FW_SHARED", "fw_shared_address", "fw_elect", "fw_mbarrier", "fw_tma_load", "fw_set_registers", "fw_wgmma"];

/// Bytes of a swizzled row.
const ROW_BYTES: u32 = 128;

/// Instructions along k of one tile: 32 bytes each.
const PARTS: u32 = 4;

/// What `kernel/gemm_wgmma.cu` reads beside the function's name and parameters.
#[derive(Serialize)]
pub(super) struct WgmmaText {
    threads: u32,
    index: &'static str,
    accumulator: &'static str,
    extents: ExtentsText,
    tile: TileText,
    splits: u32,
    /// Tiles of C, and those of all parts of k.
    tiles: i64,
    units: i64,
    /// How A and B lie in a stage.
    sides: [SideText; 2],
    /// Operands that the first warpgroup computes.
    operands: Vec<FilledText>,
    /// A, if the multiplying warps compute its fragments.
    computed_a: Option<ComputedText>,
    wgmma: ProductText,
    /// One of the two.
    epilogue: Option<WarpEpilogueText>,
    fragments: Option<FragmentEpilogueText>,
    sweep: Option<SweepText>,
}

/// An operand in a stage.
#[derive(Serialize)]
struct SideText {
    title: String,
    /// One load of a box each; none if it goes through registers.
    loads: Vec<String>,
    /// Its descriptor, of a consumer's rows.
    descriptor: String,
}

/// An operand A of which the multiplying warps compute the fragments.
#[derive(Serialize)]
struct ComputedText {
    /// Its function.
    operand: OperandText,
    /// Type of what lies in shared memory, bytes of an element, and of a row.
    raw_type: &'static str,
    raw_bytes: u32,
    raw_row: u32,
    /// Whether all fragments of a step are computed side by side, then multiplied: in narrow tiles, whose products take
    /// less time than one fragment.
    at_once: bool,
    /// Groups of products under way while a fragment is computed: all but that which has used its registers.
    pending: u32,
    /// Names of the fragments.
    names: Vec<String>,
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

/// How warpgroups multiply.
#[derive(Serialize)]
struct ProductText {
    /// Whether the first warpgroup computes some operand; bytes of a stage that come in boxes; arrivals that fill a stage;
    /// steps that boxes are asked for ahead of what is computed.
    fills: bool,
    boxed_bytes: u32,
    filling: u32,
    ahead: u32,
    /// Numbers of the maps.
    maps: Vec<u32>,
    ping_pong: bool,
    promotes: bool,
    stages: u32,
    /// Registers of a loading and of a multiplying thread.
    producer_registers: u32,
    consumer_registers: u32,
    /// Rows of a tile that a consumer computes, and how many instructions of 64 rows they are.
    consumer_m: u32,
    blocks_m: u32,
    /// Registers named, and the macro that declares them.
    accumulators: u32,
    declare: String,
    zeros: String,
    additions: String,
    /// Lists of registers, one for each block of rows.
    registers: Vec<String>,
    products: Vec<String>,
    /// Warps that release a stage.
    releasing: u32,
    barriers_at: u32,
}

pub(super) fn gemm(graph: &FinalizedGraph, used: &mut Used, kernel: &GemmKernel) -> WgmmaText {
    for &section in SECTIONS {
        used.add(section);
    }
    let wgmma = Wgmma::of(kernel);
    if wgmma.sums == Sums::Half {
        used.add("fw_half_accumulators");
    }
    if wgmma.fills {
        used.add("fw_fence_async");
    }
    let (epilogue, fragments, sweep) = match kernel.boxes() {
        Some(boxes) => {
            let (text, sweep) = fragment_epilogue::epilogue(graph, used, kernel, boxes, &wgmma.places());
            (None, Some(text), Some(sweep))
        }
        None => {
            let (text, sweep) = warp_epilogue::epilogue(graph, used, kernel, wgmma.first_sum(), kernel.shared.epilogue);
            (Some(text), None, sweep)
        }
    };
    WgmmaText {
        threads: kernel.multiply.threads(kernel.tile),
        index: index_type(kernel.wide_index),
        accumulator: names::register_type(kernel.multiply.accumulator()),
        extents: extents(kernel),
        tile: tile(kernel),
        splits: kernel.splits,
        tiles: kernel.tiles(),
        units: kernel.units(),
        sides: [0, 1].map(|slot| wgmma.side_text(graph, slot)),
        operands: (0..2)
            .filter(|slot| !wgmma.is_copied(*slot) && !wgmma.is_in_fragments(*slot))
            .map(|slot| gemm_operand::filled(graph, used, kernel, slot))
            .collect(),
        computed_a: wgmma.computed_a(graph, used),
        wgmma: wgmma.text(graph),
        epilogue,
        fragments,
        sweep,
    }
}

/// The parts of a kernel that multiplies by `wgmma`.
struct Wgmma<'a> {
    kernel: &'a GemmKernel,
    operand: MmaType,
    fills: bool,
    schedule: Schedule,
    stages: u32,
    sums: Sums,
}

impl<'a> Wgmma<'a> {
    fn of(kernel: &'a GemmKernel) -> Self {
        let Multiply::Wgmma { operand, fills, schedule, stages, sums } = kernel.multiply else {
            unreachable!("the template is that of wgmma")
        };
        Self { kernel, operand, fills, schedule, stages, sums }
    }

    fn consumer_m(&self) -> u32 {
        self.kernel.multiply.consumer_rows(self.kernel.tile)
    }

    /// Registers of a thread for the sums of its rows.
    fn of_rows(&self) -> u32 {
        self.kernel.multiply.sum_registers(self.kernel.tile)
    }

    /// Those of one instruction.
    fn of_instruction(&self) -> u32 {
        self.of_rows() / (self.consumer_m() / WGMMA_ROWS)
    }

    /// Number of the first register that the epilogue takes.
    fn first_sum(&self) -> u32 {
        (self.sums.sets() - 1) * self.of_rows()
    }

    /// The macro that declares the accumulators.
    fn declare(&self) -> String {
        let sum = match self.sums {
            Sums::Half => "half",
            Sums::Full | Sums::Promoted => names::register_type(self.kernel.multiply.accumulator()),
        };
        format!("FW_ACCUMULATORS_{sum}")
    }

    fn places(&self) -> Places {
        Places {
            boxes_at: self.kernel.shared.epilogue,
            barriers_at: self.kernel.shared.box_barriers,
            first_sum: self.first_sum(),
            first_map: (0..2).filter(|slot| self.is_boxed(*slot)).count(),
        }
    }

    fn side(&self, slot: usize) -> &'a Operand {
        if slot == 0 { &self.kernel.a } else { &self.kernel.b }
    }

    /// Bytes of a swizzled row of an operand's tile: of k, or of m or n.
    fn row_bytes(&self, slot: usize) -> u32 {
        let rows = [self.kernel.tile.m, self.kernel.tile.n][slot];
        let bytes = self.operand.bytes();
        if self.side(slot).along_k { ROW_BYTES } else { row_along_outer(rows, bytes) * bytes }
    }

    fn is_boxed(&self, slot: usize) -> bool {
        self.side(slot).map().is_some()
    }

    /// Whether boxes are multiplied as they come.
    fn is_copied(&self, slot: usize) -> bool {
        matches!(self.side(slot).fetch, Fetch::Tma(_))
    }

    fn side_text(&self, graph: &FinalizedGraph, slot: usize) -> SideText {
        let side = self.side(slot);
        let offset = self.kernel.shared.stage.tiles[slot];
        let rows = if slot == 0 { self.consumer_m() } else { 0 };
        let shift = match self.schedule {
            Schedule::Cooperative if slot == 0 => format!(" + consumer * {}", rows * ROW_BYTES),
            _ => String::new(),
        };
        let row_bytes = self.row_bytes(slot);
        let leading = if side.along_k { 16 } else { self.kernel.tile.k * row_bytes };
        let place = if offset == 0 { String::new() } else { format!(" + {offset}") };
        SideText {
            title: format!("{} {}", ["A:", "B:"][slot], graph.canonical_name(side.tensor)),
            loads: self.loads(slot, offset),
            descriptor: format!("fw_matrix_descriptor<{row_bytes}>(tile{place}{shift}, {leading}, {})", 8 * row_bytes),
        }
    }

    /// A box of up to 256 rows of k or, one after the other, columns of 128 bytes of m or n.
    fn loads(&self, slot: usize, offset: u32) -> Vec<String> {
        let side = self.side(slot);
        let Some(map) = side.map() else { return Vec::new() };
        let offset = if self.is_copied(slot) { offset } else { self.kernel.shared.stage.raw[slot] };
        let (barrier, stage) = if self.fills { ("raw", "asked_stage") } else { ("full", "stage") };
        let number = if slot == 1 && self.is_boxed(0) { 1 } else { 0 };
        let (outer, rows) = [("m0", self.kernel.tile.m), ("n0", self.kernel.tile.n)][slot];
        let batch = if map.rank == 3 { ", b" } else { "" };
        let [inner, lines, ..] = map.box_dims;
        let load = |at: u32, coordinates: String| {
            let at = if at == 0 { String::new() } else { format!(" + {at}") };
            format!("fw_tma_load(tile{at}, &map{number}, {barrier} + 8 * {stage}, {coordinates}{batch});")
        };
        if side.boxes_along_k() {
            return vec![load(offset, format!("k0, {outer}"))];
        }
        let column = |number: u32| {
            let first = if number == 0 { outer.to_owned() } else { format!("{outer} + {}", number * inner) };
            load(offset + number * lines * inner * map.element.bytes(), format!("{first}, k0"))
        };
        (0..rows / inner).map(column).collect()
    }

    /// Bytes of all boxes of an operand's tile.
    fn boxed_bytes(&self, slot: usize) -> u32 {
        let rows = [self.kernel.tile.m, self.kernel.tile.n][slot];
        let element = self.side(slot).map().map_or(0, |map| map.element.bytes());
        rows * self.kernel.tile.k * element
    }

    fn text(&self, graph: &FinalizedGraph) -> ProductText {
        let ping_pong = self.schedule == Schedule::PingPong;
        let accumulators = self.first_sum() + self.of_rows();
        let producer_registers = self.kernel.tuning.producer_registers;
        let boxed: Vec<usize> = (0..2).filter(|slot| self.is_boxed(*slot)).collect();
        let blocks = self.consumer_m() / WGMMA_ROWS;
        let first = self.first_sum();
        ProductText {
            fills: self.fills,
            boxed_bytes: boxed.iter().map(|&slot| self.boxed_bytes(slot)).sum(),
            filling: if self.fills { WARPGROUP / 32 } else { 1 },
            ahead: self.kernel.tuning.boxes_ahead,
            maps: (0..self.kernel.maps().count() as u32).collect(),
            ping_pong,
            promotes: self.sums == Sums::Promoted,
            stages: self.stages,
            producer_registers,
            consumer_registers: ((1 + CONSUMERS) * REGISTERS_AT_LAUNCH - producer_registers) / CONSUMERS,
            consumer_m: self.consumer_m(),
            blocks_m: blocks,
            accumulators,
            declare: self.declare(),
            zeros: zeros(first..accumulators),
            additions: (0..self.of_rows()).map(|number| addition(first + number, number)).collect(),
            registers: (0..blocks).map(|block| self.registers(block)).collect(),
            products: self.products(graph),
            releasing: WARPGROUP / 32 * if ping_pong { 1 } else { CONSUMERS },
            barriers_at: self.kernel.shared.barriers,
        }
    }

    /// `acc0, acc1, …` of a block of 64 rows, sixteen a line of the source.
    fn registers(&self, block: u32) -> String {
        let first = block * self.of_instruction();
        let names: Vec<String> = (first..first + self.of_instruction()).map(|number| format!("acc{number}")).collect();
        let lines: Vec<String> = names.chunks(16).map(|line| line.join(", ")).collect();
        lines.join(", \" \\\n  \"")
    }

    fn is_in_fragments(&self, slot: usize) -> bool {
        matches!(self.side(slot).fetch, Fetch::Fragments(_))
    }

    fn computed_a(&self, graph: &FinalizedGraph, used: &mut Used) -> Option<ComputedText> {
        let Fetch::Fragments(map) = self.kernel.a.fetch else { return None };
        used.add("fw_boxed");
        used.add("fw_as_word");
        let blocks = self.consumer_m() / WGMMA_ROWS;
        let count = PARTS * blocks;
        let fragments: Vec<FragmentText> = (0..count)
            .map(|number| self.fragment(graph, number / blocks, number % blocks, number + 1 == count))
            .collect();
        let raw_bytes = map.element.bytes();
        let stored = graph.tensor(map.tensor).data_type;
        used.add(names::storage_section(stored));
        Some(ComputedText {
            operand: gemm_operand::operand(graph, used, self.kernel, 0),
            raw_type: names::storage_type(stored),
            raw_bytes,
            raw_row: raw_bytes * self.kernel.tile.k,
            at_once: self.kernel.tuning.fragments_at_once,
            pending: count - 1,
            names: fragments.iter().map(|fragment| format!("{}[4]", fragment.name)).collect(),
            fragments,
        })
    }

    fn fragment(&self, graph: &FinalizedGraph, part: u32, block: u32, is_last: bool) -> FragmentText {
        let b = &self.kernel.b;
        let tail = format!(", 1, 1, {}", u32::from(!b.along_k));
        let scale = if part == 0 { "p" } else { "1" };
        let plus_b = part * self.step(1);
        let shape = self.shape(graph);
        FragmentText {
            name: format!("fragment_{part}_{block}"),
            block,
            part,
            accumulate: if part == 0 { "step" } else { "1" },
            product: format!("FW_PRODUCT_A(\"{shape}\", FW_ROWS_{block}, {plus_b}, \"{scale}\", \"{tail}\")"),
            is_last,
        }
    }

    /// `m64n256k16.f32.bf16.bf16`.
    fn shape(&self, graph: &FinalizedGraph) -> String {
        format!("m{WGMMA_ROWS}n{}k{}.{}", self.kernel.tile.n, 32 / self.operand.bytes(), self.types(graph))
    }

    /// From 32 bytes of k of an operand to the next, in units of descriptors: 16 bytes.
    fn step(&self, slot: usize) -> u32 {
        if self.side(slot).along_k { 2 } else { 32 / self.operand.bytes() * self.row_bytes(slot) / 16 }
    }

    /// The instructions of one tile's k: 32 bytes of it at a time, for each block of 64 rows.
    fn products(&self, graph: &FinalizedGraph) -> Vec<String> {
        let [a, b] = [0, 1].map(|slot| self.side(slot));
        let shape = self.shape(graph);
        let tail = match self.operand {
            MmaType::S8 => String::new(),
            MmaType::Fp8 | MmaType::Tf32 => ", 1, 1".to_owned(),
            _ => format!(", 1, 1, {}, {}", u32::from(!a.along_k), u32::from(!b.along_k)),
        };
        let mut lines = Vec::new();
        for part in 0..PARTS {
            for block in 0..self.consumer_m() / WGMMA_ROWS {
                let scale = if part == 0 { "p" } else { "1" };
                let plus_a = part * self.step(0) + block * WGMMA_ROWS * ROW_BYTES / 16;
                let plus_b = part * self.step(1);
                lines.push(format!(
                    "FW_PRODUCT(\"{shape}\", FW_ROWS_{block}, {plus_a}, {plus_b}, \"{scale}\", \"{tail}\")"
                ));
            }
        }
        lines
    }

    /// Types of accumulators, A and B.
    fn types(&self, graph: &FinalizedGraph) -> String {
        let sum = match (self.sums, self.kernel.multiply.accumulator()) {
            (Sums::Half, _) => "f16",
            (_, Register::Int) => "s32",
            _ => "f32",
        };
        let [a, b] = [0, 1].map(|slot| match (self.operand, graph.tensor(self.side(slot).tensor).data_type) {
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
    let lead = if part.is_multiple_of(8) { "\n        " } else { " " };
    format!("{lead}FW_ADD({sum}, {part})")
}
