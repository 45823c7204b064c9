//! Record of the skeleton of `wgmma`: a ring of stages between a warpgroup that brings tiles and two that multiply.

mod consumer;
mod producer;
mod products;
mod ring;

use std::ops::Range;

use serde::Serialize;

use super::operand::Side;
use super::unit::{Steps, place, quotient, remainder};
use crate::codegen::names;
use crate::codegen::sections::Used;
use crate::error::Error;
use crate::graph::FinalizedGraph;
use crate::kernel::{
    Fetch, GemmKernel, Number, Operand, Schedule, Sums, TensorMap, WGMMA_ROWS, Wgmma, row_along_outer,
};

/// Device code that every kernel of the skeleton uses.
const SECTIONS: &[&str] = &["fw_shared_address", "fw_mbarrier", "fw_set_registers", "fw_wgmma"];

/// Bytes of a swizzled row.
const ROW_BYTES: u32 = 128;

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

    fn has_direct_boxes(&self) -> bool {
        (self.boxes_arrive_apart() || self.copies()) && (0..2).any(|slot| self.is_direct(slot))
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

    /// `acc0, acc1, …` of a block of 64 rows, sixteen a line of the source.
    fn registers(&self, block: u32) -> String {
        let first = block * self.of_instruction();
        let names: Vec<String> = (first..first + self.of_instruction()).map(|number| format!("acc{number}")).collect();
        let lines: Vec<String> = names.chunks(16).map(|line| line.join(", ")).collect();
        lines.join(", \" \\\n  \"")
    }
}
