//! The ring of stages: its barriers, and zeros that stay in it.

use serde::Serialize;

use super::Skeleton;
use crate::codegen::sections::Used;
use crate::codegen::template::{self, template};
use crate::error::Error;
use crate::kernel::{Boxes, CONSUMERS, WARPGROUP};

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

#[derive(Serialize)]
struct BoxBarriersText {
    at: u32,
    count: u32,
}

impl Skeleton<'_> {
    pub(super) fn ring(&self, used: &mut Used) -> Result<String, Error> {
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
}
