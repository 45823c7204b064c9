//! Dynamic shared memory of a block of a matrix product: one layout, made when the kernel is, read by code generation.

use super::boxes::SWIZZLE_PERIOD;
use super::{Boxes, CONSUMER_WARPS, CONSUMERS, GemmTile, Mma, Multiply, TapRow, Wgmma};

/// Bytes of an mbarrier.
const BARRIER_BYTES: u32 = 8;

/// Room for the totals of a block's warps, in bytes.
const TOTALS_BYTES: u32 = 128;

/// Where the tiles of one step of the mainloop lie, in bytes from the start of their stage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StageLayout {
    /// The tiles of A and B.
    pub tiles: [u32; 2],
    /// Where boxes that become the tiles of A and B arrive: where the tile lies, or behind both.
    pub raw: [u32; 2],
    /// Bytes of a stage.
    pub bytes: u32,
}

/// Where everything lies that a block holds, in bytes from the start of its shared memory. A part that a kernel does not have
/// is empty: it begins where the part before it ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SharedLayout {
    /// One stage; stage `s` begins at `s * stage.bytes`.
    pub stage: StageLayout,
    /// What the epilogue holds: the tile of C, a tile for each value reduced, or the pieces or boxes of each warp. Only where blocks
    /// stay is it apart from the stages, as the next tile's mainloop runs beside it.
    pub epilogue: u32,
    /// Bytes of one tile, or of what one warp holds.
    pub epilogue_bytes: u32,
    /// Totals of the block's warps.
    pub totals: u32,
    /// Barriers of the mainloop: three for a stage, and one for each consumer.
    pub barriers: u32,
    /// Barriers of the epilogue's boxes, one for each set of each warp.
    pub box_barriers: u32,
    /// Tiles of B that stay, and bytes of one, which is a step's.
    pub stationary: u32,
    pub stationary_bytes: u32,
    /// Barriers of these, one for each.
    pub stationary_barriers: u32,
    /// Bytes of all.
    pub bytes: u32,
}

/// What a layout is made for.
#[derive(Clone, Copy, Debug)]
pub struct SharedRequest {
    /// How tiles are multiplied.
    pub multiply: Multiply,
    /// Tile of a block.
    pub tile: GemmTile,
    /// Taps that a step multiplies together, if it does; `wgmma` only.
    pub tap_row: Option<TapRow>,
    /// Bytes in which boxes of A and B wait for their transformation beside the tiles; 0 where it is done in place.
    pub raw_bytes: [u32; 2],
    /// Bytes of a warp's boxes, where the epilogue's tensors come and leave in boxes.
    pub box_bytes: Option<u32>,
    /// Whether lines of the tile of C run along n in the epilogue.
    pub along_n: bool,
    /// Values reduced, each of which has a tile of its own.
    pub reduced_values: usize,
}

impl StageLayout {
    /// Tiles of A, of B, then what waits for its transformation to A, and to B.
    fn new(request: &SharedRequest) -> Self {
        let [a, b] = request.tile_bytes();
        let b = if request.stationary_steps() > 0 { 0 } else { b };
        let [raw_a, raw_b] = request.raw_bytes;
        Self {
            tiles: [0, a],
            raw: [if raw_a > 0 { a + b } else { 0 }, if raw_b > 0 { a + b + raw_a } else { a }],
            bytes: a + b + raw_a + raw_b,
        }
    }
}

impl SharedRequest {
    /// Bytes of the tiles of A and of B of a step. The rows of a tile of FMA are padded by one word.
    fn tile_bytes(&self) -> [u32; 2] {
        let GemmTile { m, n, k } = self.tile;
        match self.multiply {
            Multiply::Fma(_) => [4 * k * (m + 1), 4 * k * (n + 1)],
            Multiply::Mma(Mma { operand, .. }) | Multiply::Wgmma(Wgmma { operand, .. }) => {
                let (beyond, taps) = self.tap_row.map_or((0, 1), |row| (row.rows_beyond(), row.taps));
                let a = (m + beyond) * k * operand.bytes();
                let a = if beyond > 0 { a.next_multiple_of(SWIZZLE_PERIOD) } else { a };
                [a, taps * n * k * operand.bytes()]
            }
        }
    }

    /// Steps whose tiles of B stay.
    fn stationary_steps(&self) -> u32 {
        match self.multiply {
            Multiply::Wgmma(Wgmma { stationary_steps, .. }) => stationary_steps,
            _ => 0,
        }
    }
}

impl SharedLayout {
    /// Lays out what a block of a product holds.
    pub fn new(request: &SharedRequest) -> Self {
        let stage = StageLayout::new(request);
        match request.multiply {
            Multiply::Fma(_) => Self::over_stages(request, stage, 1),
            Multiply::Mma(Mma { stages, .. }) => Self::over_stages(request, stage, stages),
            Multiply::Wgmma(Wgmma { stages, .. }) => Self::beside_stages(request, stage, stages),
        }
    }

    /// The epilogue takes the place of the stages.
    fn over_stages(request: &SharedRequest, stage: StageLayout, stages: u32) -> Self {
        let epilogue_bytes = request.staged_bytes();
        let totals = epilogue_bytes * request.reduced_values.max(1) as u32;
        let bytes = (stages * stage.bytes).max(totals + TOTALS_BYTES);
        let (barriers, box_barriers) = (bytes, bytes);
        Self { stage, epilogue_bytes, totals, barriers, box_barriers, bytes, ..Self::default() }
    }

    /// What stays of B lies behind the stages; the epilogue has a place of its own, then barriers.
    fn beside_stages(request: &SharedRequest, stage: StageLayout, stages: u32) -> Self {
        let stationary = stages * stage.bytes;
        let steps = request.stationary_steps();
        let stationary_bytes = if steps > 0 { request.tile_bytes()[1] } else { 0 };
        let epilogue = stationary + steps * stationary_bytes;
        let epilogue_bytes = request.box_bytes.unwrap_or_else(|| request.staged_bytes());
        let barriers = epilogue + CONSUMER_WARPS * epilogue_bytes;
        let box_barriers = barriers + BARRIER_BYTES * (3 * stages + CONSUMERS);
        let stationary_barriers = box_barriers + BARRIER_BYTES * CONSUMER_WARPS * Boxes::SETS;
        Self {
            stage,
            epilogue,
            epilogue_bytes,
            totals: barriers,
            barriers,
            box_barriers,
            stationary,
            stationary_bytes,
            stationary_barriers,
            bytes: stationary_barriers + BARRIER_BYTES * steps,
        }
    }
}

impl SharedRequest {
    /// Bytes of the part of a tile of C that the epilogue holds at a time.
    fn staged_bytes(&self) -> u32 {
        let [m, n] = self.multiply.staged(self.tile, self.along_n);
        let lines = if self.along_n { m } else { n };
        4 * lines * self.multiply.staged_pitch(self.tile, self.along_n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::{Fma, MmaType, Register, Schedule, Sums};

    fn request(multiply: Multiply, tile: GemmTile) -> SharedRequest {
        let raw_bytes = [0; 2];
        SharedRequest { multiply, tile, tap_row: None, raw_bytes, box_bytes: None, along_n: true, reduced_values: 0 }
    }

    /// `wgmma` on FP16 in tiles of 128 × 128 × 64.
    fn wgmma(stages: u32) -> SharedRequest {
        let (operand, schedule, sums) = (MmaType::F16, Schedule::PingPong, Sums::Full);
        let multiply =
            Multiply::Wgmma(Wgmma { operand, fills: false, schedule, stages, sums, blocks: 1, stationary_steps: 0 });
        request(multiply, GemmTile { m: 128, n: 128, k: 64 })
    }

    #[test]
    fn what_is_transformed_waits_behind_both_tiles_or_in_its_place() {
        let tile = 128 * 64 * 2;
        let raw = |raw_bytes| SharedLayout::new(&SharedRequest { raw_bytes, ..wgmma(3) }).stage;
        assert_eq!(raw([0, 0]), StageLayout { tiles: [0, tile], raw: [0, tile], bytes: 2 * tile });
        assert_eq!(raw([1024, 0]), StageLayout { tiles: [0, tile], raw: [2 * tile, tile], bytes: 2 * tile + 1024 });
        let both = StageLayout { tiles: [0, tile], raw: [2 * tile, 2 * tile + 1024], bytes: 2 * tile + 3072 };
        assert_eq!(raw([1024, 2048]), both);
    }

    #[test]
    fn taps_share_a_tile_of_a_and_have_tiles_of_b() {
        let tap_row = Some(TapRow { taps: 3, dilation: 1, is_reversed: false });
        let stage = SharedLayout::new(&SharedRequest { tap_row, ..wgmma(3) }).stage;
        let (a, b) = ((128 + 8) * 64 * 2, 3 * 128 * 64 * 2);
        assert_eq!(stage, StageLayout { tiles: [0, a], raw: [0, a], bytes: a + b });
    }

    #[test]
    fn blocks_that_stay_hold_stages_pieces_and_barriers_one_after_the_other() {
        let layout = SharedLayout::new(&wgmma(4));
        let stages = 4 * 2 * 128 * 64 * 2;
        assert_eq!((layout.epilogue, layout.epilogue_bytes), (stages, 16 * 64 * 4), "16 rows of 64 columns");
        assert_eq!(layout.barriers, stages + 8 * 16 * 64 * 4);
        assert_eq!(layout.box_barriers, layout.barriers + 8 * (3 * 4 + 2));
        assert_eq!(layout.bytes, layout.box_barriers + 8 * 8 * 2);
        let boxed = SharedLayout::new(&SharedRequest { box_bytes: Some(1 << 13), ..wgmma(4) });
        assert_eq!(boxed.barriers, stages + 8 * (1 << 13));
    }

    #[test]
    fn tiles_of_b_that_stay_lie_behind_stages_of_a() {
        let request = wgmma(4);
        let Multiply::Wgmma(of_stages) = request.multiply else { unreachable!("as the function says") };
        let multiply = Multiply::Wgmma(Wgmma { stationary_steps: 9, ..of_stages });
        let layout = SharedLayout::new(&SharedRequest { multiply, ..request });
        let tile = 128 * 64 * 2;
        assert_eq!(layout.stage, StageLayout { tiles: [0, tile], raw: [0, tile], bytes: tile });
        assert_eq!((layout.stationary, layout.stationary_bytes, layout.epilogue), (4 * tile, tile, (4 + 9) * tile));
        assert_eq!(layout.stationary_barriers, layout.box_barriers + 8 * 8 * 2);
        assert_eq!(layout.bytes, layout.stationary_barriers + 8 * 9);
        let streamed = SharedLayout::new(&request);
        assert_eq!((streamed.stationary_bytes, streamed.bytes), (0, streamed.stationary_barriers));
    }

    #[test]
    fn other_blocks_use_the_stages_again_for_their_epilogue() {
        let multiply = Multiply::Fma(Fma { accumulator: Register::Float, thread_m: 4, thread_n: 4 });
        let fma = request(multiply, GemmTile { m: 64, n: 64, k: 16 });
        let layout = SharedLayout::new(&SharedRequest { reduced_values: 2, ..fma });
        assert_eq!(layout.stage, StageLayout { tiles: [0, 4160], raw: [0, 4160], bytes: 8320 });
        assert_eq!((layout.epilogue, layout.epilogue_bytes, layout.totals), (0, 64 * 64 * 4, 2 * 64 * 64 * 4));
        assert_eq!(layout.bytes, layout.totals + 128, "the stages take less");
    }
}
