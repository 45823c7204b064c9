//! How a block multiplies its tiles.

use super::{Number, Register};

/// Elements of a swizzled row, of a tile or a box, that runs along m or n: the most that cut `rows` into whole columns of
/// 64, 32 or 16 elements and at most 128 bytes.
pub fn row_along_outer(rows: u32, element_bytes: u32) -> u32 {
    const LINE: u32 = 128;
    let fits = |elements: &u32| rows.is_multiple_of(*elements) && elements * element_bytes <= LINE;
    [64, 32].into_iter().find(fits).unwrap_or(16)
}

/// Tile of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct GemmTile {
    /// Rows of C.
    pub m: u32,
    /// Columns of C.
    pub n: u32,
    /// Depth of one mainloop step, in elements.
    pub k: u32,
}

impl GemmTile {
    /// Number of tiles along m and n.
    pub fn counts(&self, [_, m, n, _]: [impl Into<Number>; 4]) -> [Number; 2] {
        [m.into().parts(i64::from(self.m)), n.into().parts(i64::from(self.n))]
    }
}

/// Blocks of a cluster along each index of a product. Those along m have tiles of the same columns of B, those along n of the same rows of A: each
/// asks for a part of these, and all receive it. Those along k multiply a part of k of one tile each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ClusterShape {
    /// Tiles below each other.
    pub m: u32,
    /// Tiles side by side.
    pub n: u32,
    /// Parts of k.
    pub k: u32,
}

impl ClusterShape {
    /// A block by itself.
    pub const ONE: Self = Self { m: 1, n: 1, k: 1 };

    /// Blocks of a cluster.
    pub fn blocks(self) -> u32 {
        self.m * self.n * self.k
    }

    /// Whether blocks receive what others ask for.
    pub fn multicasts(self) -> bool {
        self.m * self.n > 1
    }

    /// Blocks whose tiles need the same of A (slot 0) or of B (slot 1).
    pub fn sharers(self, slot: usize) -> u32 {
        if slot == 0 { self.n } else { self.m }
    }

    /// Tiles of all blocks of a cluster as one.
    pub fn tile(self, GemmTile { m, n, k }: GemmTile) -> GemmTile {
        GemmTile { m: m * self.m, n: n * self.n, k }
    }
}

/// Operand types of matrix instructions, each with its accumulators, if these are not [`Sums::Half`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MmaType {
    /// FP16, accumulated in FP32.
    F16,
    /// BF16, accumulated in FP32.
    Bf16,
    /// TF32 (FP32 rounded to 10 bits of mantissa), accumulated in FP32.
    Tf32,
    /// INT8, accumulated in INT32.
    S8,
    /// FP8 as it is stored, E4M3 or E5M2 each, accumulated in FP32.
    Fp8,
}

impl MmaType {
    /// Bytes of an element in shared memory.
    pub fn bytes(self) -> u32 {
        match self {
            Self::F16 | Self::Bf16 => 2,
            Self::Tf32 => 4,
            Self::S8 | Self::Fp8 => 1,
        }
    }

    /// Class of the accumulators.
    pub fn accumulator(self) -> Register {
        if self == Self::S8 { Register::Int } else { Register::Float }
    }
}

/// How a block multiplies its tiles: by a skeleton, with what the skeleton leaves open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Multiply {
    /// Multiply-adds.
    Fma(Fma),
    /// `mma.sync`.
    Mma(Mma),
    /// `wgmma`.
    Wgmma(Wgmma),
}

/// Multiply-adds; every thread computes `thread_m × thread_n` elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fma {
    /// Class of operands and accumulators.
    pub accumulator: Register,
    /// Rows of a thread.
    pub thread_m: u32,
    /// Columns of a thread.
    pub thread_n: u32,
}

/// `mma.sync`; every warp computes `warp_m × warp_n` elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mma {
    /// Operand type.
    pub operand: MmaType,
    /// Rows of a warp.
    pub warp_m: u32,
    /// Columns of a warp.
    pub warp_n: u32,
    /// Tiles of A and B in shared memory.
    pub stages: u32,
    /// Sets of fragments in registers: with two, one is loaded while the other is multiplied.
    pub fragments: u32,
    /// Whether the sums of each instruction are added up in FP32 outside the tensor core, which keeps 14 bits of a sum of FP8
    /// products.
    pub promotes: bool,
}

/// `wgmma`: one warpgroup brings tiles to shared memory, two multiply. Blocks stay and walk the tiles of C.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wgmma {
    /// Operand type.
    pub operand: MmaType,
    /// Whether the threads of the first warpgroup compute some operand, so that not one of them alone asks for boxes.
    pub fills: bool,
    /// How the two share tiles.
    pub schedule: Schedule,
    /// Tiles of A and B in shared memory.
    pub stages: u32,
    /// What sums are kept in.
    pub sums: Sums,
    /// Blocks that share a multiprocessor.
    pub blocks: u32,
    /// Steps along k whose tiles of B a block reads once and keeps in shared memory, as all its tiles of C multiply them; 0 where each
    /// stage has its tile of B.
    pub stationary_steps: u32,
}

/// Registers of a multiprocessor, of 32 bits: the same on all chips from sm_70 to sm_90 (CUDA C++ Programming Guide, technical specifications).
pub const REGISTERS: u32 = 65536;

impl Wgmma {
    /// Registers that a thread of three warpgroups has at launch, a multiple of eight; the warpgroups share these, and not the rest of the
    /// multiprocessor's: an H200 waits for ever for more.
    pub fn registers_at_launch(&self) -> u32 {
        REGISTERS / self.blocks / ((1 + CONSUMERS) * WARPGROUP) / 8 * 8
    }

    /// Registers of a thread that multiplies, where one that brings tiles keeps so many.
    pub fn consumer_registers(&self, producer: u32) -> u32 {
        ((1 + CONSUMERS) * self.registers_at_launch() - producer) / CONSUMERS
    }
}

/// What the sums of `wgmma` are kept in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Sums {
    /// The operand type's accumulators.
    Full,
    /// As `Full` over one tile's k; these are added up in FP32 outside the tensor core, which keeps 14 bits of a sum of FP8
    /// products.
    Promoted,
    /// FP16, two columns in a register.
    Half,
}

impl Sums {
    /// Sets of sums that a thread holds: what is promoted is held beside the sums that it is added to.
    pub fn sets(self) -> u32 {
        if self == Self::Promoted { 2 } else { 1 }
    }

    /// Sums in a register.
    pub fn per_register(self) -> u32 {
        if self == Self::Half { 2 } else { 1 }
    }
}

/// How the two multiplying warpgroups of a block share its tiles of C.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Schedule {
    /// Each takes half of the rows of every tile.
    Cooperative,
    /// They take tiles in turns: the epilogue of one runs beside the mainloop of the other.
    PingPong,
}

/// Threads of a warpgroup.
pub const WARPGROUP: u32 = 128;

/// Multiplying warpgroups of a `wgmma` kernel.
pub const CONSUMERS: u32 = 2;

/// Warps that multiply by `wgmma`, of all warpgroups of a block.
pub const CONSUMER_WARPS: u32 = CONSUMERS * WARPGROUP / 32;

/// Columns of a staged part whose rows are swizzled: whole lines of 16-bit results.
const SWIZZLED_COLUMNS: u32 = 64;

/// Rows of one `wgmma`.
pub const WGMMA_ROWS: u32 = 64;

impl Multiply {
    /// Whether tiles of B stay in shared memory.
    pub fn is_stationary(&self) -> bool {
        matches!(self, Self::Wgmma(Wgmma { stationary_steps: 1.., .. }))
    }

    /// Threads of a block.
    pub fn threads(&self, tile: GemmTile) -> u32 {
        match *self {
            Self::Fma(Fma { thread_m, thread_n, .. }) => (tile.m / thread_m) * (tile.n / thread_n),
            Self::Mma(Mma { warp_m, warp_n, .. }) => (tile.m / warp_m) * (tile.n / warp_n) * 32,
            Self::Wgmma(_) => (1 + CONSUMERS) * WARPGROUP,
        }
    }

    /// Threads that bring an operand's tile to shared memory together.
    pub fn loaders(&self, tile: GemmTile) -> u32 {
        match self {
            Self::Wgmma(_) => WARPGROUP,
            _ => self.threads(tile),
        }
    }

    /// Rows of a tile that one multiplying warpgroup computes; without warpgroups, all.
    pub fn consumer_rows(&self, tile: GemmTile) -> u32 {
        match self {
            Self::Wgmma(Wgmma { schedule: Schedule::Cooperative, .. }) => tile.m / CONSUMERS,
            _ => tile.m,
        }
    }

    /// The part of a tile of C, m × n, that the epilogue holds in shared memory at a time: the whole of it; with
    /// `wgmma` what one warp takes.
    pub fn staged(&self, tile: GemmTile, along_n: bool) -> [u32; 2] {
        let widths: &[u32] = if along_n { &[SWIZZLED_COLUMNS, 32, 16, 8] } else { &[32, 16, 8] };
        match self {
            Self::Wgmma(_) => [16, widths.iter().copied().find(|n| tile.n.is_multiple_of(*n)).unwrap_or(8)],
            _ => [tile.m, tile.n],
        }
    }

    /// Whether the staged part lies in swizzled rows (`fw_load_staged`) instead of padded ones.
    pub fn stages_swizzled(&self, tile: GemmTile, along_n: bool) -> bool {
        matches!(self, Self::Wgmma(_)) && self.staged(tile, along_n)[1] == SWIZZLED_COLUMNS
    }

    /// Elements from one line of the staged part to the next; lines run along n, else along m. Fragments are written
    /// without bank conflicts if lines along n start 8 banks apart, lines along m 4.
    pub fn staged_pitch(&self, tile: GemmTile, along_n: bool) -> u32 {
        let [m, n] = self.staged(tile, along_n);
        let line = if along_n { n } else { m };
        match self {
            Self::Fma(_) => line,
            Self::Wgmma(_) if self.stages_swizzled(tile, along_n) => line,
            Self::Wgmma(_) if !along_n => line + 4,
            _ => line + 8,
        }
    }

    /// Bytes of an operand's element in shared memory.
    pub fn element_bytes(&self) -> u32 {
        match self {
            Self::Fma(_) => 4,
            Self::Mma(Mma { operand, .. }) | Self::Wgmma(Wgmma { operand, .. }) => operand.bytes(),
        }
    }

    /// Class in which the epilogue takes the accumulators.
    pub fn accumulator(&self) -> Register {
        match self {
            Self::Fma(Fma { accumulator, .. }) => *accumulator,
            Self::Mma(Mma { operand, .. }) | Self::Wgmma(Wgmma { operand, .. }) => operand.accumulator(),
        }
    }

    /// Whether accumulators are FP16, two in a register.
    pub fn sums_in_half(&self) -> bool {
        matches!(self, Self::Wgmma(Wgmma { sums: Sums::Half, .. }))
    }

    /// Registers of a multiplying thread for the sums of its part of a tile.
    pub fn sum_registers(&self, tile: GemmTile) -> u32 {
        match *self {
            Self::Fma(Fma { thread_m, thread_n, .. }) => thread_m * thread_n,
            Self::Mma(Mma { warp_m, warp_n, .. }) => warp_m * warp_n / 32,
            Self::Wgmma(Wgmma { sums, .. }) => self.consumer_rows(tile) * tile.n / WARPGROUP / sums.per_register(),
        }
    }

    /// Registers of a lane for a fragment of the accumulators: 16 rows by 8 columns.
    pub fn fragment_registers(&self) -> u32 {
        if self.sums_in_half() { 2 } else { 4 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warpgroups_share_what_a_block_has_at_launch_in_multiples_of_eight() {
        let (operand, schedule, sums) = (MmaType::F16, Schedule::PingPong, Sums::Full);
        let of = |blocks| Wgmma { operand, fills: false, schedule, stages: 4, sums, blocks, stationary_steps: 0 };
        let expected = [(1, 40, 168, 232), (1, 24, 168, 240), (1, 88, 168, 208), (2, 32, 80, 104), (3, 24, 56, 72)];
        for (blocks, producer, at_launch, consumer) in expected {
            let wgmma = of(blocks);
            assert_eq!((wgmma.registers_at_launch(), wgmma.consumer_registers(producer)), (at_launch, consumer));
            assert!(producer + CONSUMERS * consumer <= (1 + CONSUMERS) * at_launch);
            assert!(consumer % 8 == 0 && blocks * (1 + CONSUMERS) * WARPGROUP * at_launch <= REGISTERS);
        }
    }
}
