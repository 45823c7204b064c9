//! A core as a matrix product: matmuls as they stand, convolutions as implicit products.
//!
//! `C[b, m, n] = Σ_k A[b, m, k] · B[b, k, n]`. Each of the four indices is a number of one or more digits, outermost
//! first; a tensor's coordinates are affine functions of the digits. So a pixel of a forward convolution is
//! `m = (image · P + p) · Q + q`, and the row of X that its filter tap `r` reads is `h = p · stride + r · dilation − pad`.

use super::{Accumulation, Definition, Index, Quantity, Register, Role, SharedLayout, Sweep, TensorMap};
use crate::graph::TensorId;

/// One digit of an index in mixed radix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Digit {
    /// What it counts.
    pub quantity: Quantity,
    /// Number of values.
    pub extent: i64,
    /// Number of values that the index gives it: where there are more than `extent`, the others lie outside, and operands are
    /// zero there.
    pub radix: i64,
}

impl Digit {
    /// A digit all of whose values are inside.
    pub fn new(quantity: Quantity, extent: i64) -> Self {
        Self { quantity, extent, radix: extent }
    }

    /// The digit in blocks of so many values, the last of which may reach outside. If k ends with it and a step of the mainloop is
    /// one block, all elements of a step share the digits before it: the taps of a convolution's filter.
    pub fn in_blocks_of(self, values: i64) -> Self {
        Self { radix: (self.extent + values - 1) / values * values, ..self }
    }

    /// Whether some values that the index gives it lie outside.
    pub fn is_padded(&self) -> bool {
        self.radix > self.extent
    }
}

/// The digits of an index at a value of it, outermost first.
pub fn digits_at(index: &Index, digits: &[Digit]) -> Vec<Definition> {
    let mut below = 1;
    let mut definitions = Vec::new();
    for (position, digit) in digits.iter().enumerate().rev() {
        let quotient = index.clone() / below;
        let value = if position == 0 { quotient } else { quotient % digit.radix };
        definitions.push(Definition::new(digit.quantity, value));
        below *= digit.radix;
    }
    definitions.reverse();
    definitions
}

/// Indices of a matrix product, each as digits, outermost first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GemmSpace {
    /// Matrix: the batch of a matmul, the group of a convolution.
    pub b: Vec<Digit>,
    /// Row of C.
    pub m: Vec<Digit>,
    /// Column of C.
    pub n: Vec<Digit>,
    /// Summation index.
    pub k: Vec<Digit>,
}

impl GemmSpace {
    /// The digits of an index.
    pub fn digits(&self, role: Role) -> &[Digit] {
        match role {
            Role::Batch => &self.b,
            Role::Row => &self.m,
            Role::Column => &self.n,
            Role::Sum => &self.k,
        }
    }

    /// Number of values of each index b, m, n and k, those outside included.
    pub fn extents(&self) -> [i64; 4] {
        Role::ALL.map(|role| self.digits(role).iter().map(|digit| digit.radix).product())
    }

    /// Elements of C.
    pub fn elements(&self) -> i64 {
        let [b, m, n, _] = self.extents();
        b * m * n
    }
}

/// A coordinate as a function of digits: `(constant + Σ scale · digit) / divisor`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Coordinate {
    /// What it counts.
    pub quantity: Quantity,
    /// Digits with their scales.
    pub terms: Vec<(Quantity, i64)>,
    /// The constant.
    pub constant: i64,
    /// The divisor; a dividend that it does not divide lies between the elements, where the value is zero.
    pub divisor: i64,
    /// Extent outside of which lies zero padding; `None` where the coordinate is inside by construction.
    pub bound: Option<i64>,
}

impl Coordinate {
    /// A sum of digits with scales.
    pub fn affine(quantity: Quantity, terms: impl Into<Vec<(Quantity, i64)>>) -> Self {
        Self { quantity, terms: terms.into(), constant: 0, divisor: 1, bound: None }
    }

    /// A digit itself.
    pub fn digit(quantity: Quantity) -> Self {
        Self::affine(quantity, [(quantity, 1)])
    }

    /// Whether it is a digit itself.
    pub fn is_digit(&self) -> bool {
        *self == Self::digit(self.quantity)
    }
}

/// How the elements of an operand come to shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fetch {
    /// The tensor memory accelerator, a box at a time, by this map: `[k, m or n, batch]` or `[m or n, k, batch]`, without
    /// the batch where the operand has none.
    Tma(TensorMap),
    /// As `Tma`, but what comes is the tensor that the mainloop stage starts from: the stage is evaluated from shared
    /// memory to shared memory, `sweep.vector` elements at a time.
    Transformed(TensorMap),
    /// Rows of `Transformed` along k of which the multiplying warps evaluate the stage themselves, in pairs along k, to the
    /// fragments of A in their registers.
    Fragments(TensorMap),
    /// As `Tma`, but boxes run along m or n and the tile along k: elements of 8 or 32 bits are turned from shared memory to
    /// shared memory.
    Turned(TensorMap),
    /// `cp.async` of `sweep.vector` elements at a time: nothing is computed on the way.
    Async,
    /// Vectors through registers, where the mainloop stage is evaluated.
    Vector,
    /// Element by element through registers: any layout, any alignment.
    Element,
}

impl Fetch {
    /// Whether rows of boxes run along k, of a tile that does or does not; else along m or n.
    fn boxes_along_k(&self, along_k: bool) -> bool {
        along_k && !matches!(self, Self::Turned(_))
    }

    /// Bytes of a stage in which boxes wait for their transformation, beside the tile: none where it is done in place.
    pub fn raw_bytes(&self, along_k: bool, rows: u32, element_bytes: u32) -> u32 {
        let map = match self {
            Self::Transformed(map) if map.element.bytes() != element_bytes => map,
            Self::Turned(map) => map,
            _ => return 0,
        };
        let lines = if self.boxes_along_k(along_k) { rows } else { rows / map.box_dims[0] * map.box_dims[1] };
        (lines * map.box_dims[0] * map.element.bytes()).next_multiple_of(SWIZZLE_PERIOD)
    }
}

/// One operand with its mainloop fusion.
#[derive(Clone, Debug)]
pub struct Operand {
    /// The operand tensor.
    pub tensor: TensorId,
    /// The mainloop stage at points of the operand tensor; axis `i` of its space has the coordinate `coordinates[i]`.
    pub sweep: Sweep,
    /// Coordinates of the sweep's axes.
    pub coordinates: Vec<Coordinate>,
    /// How elements are fetched.
    pub fetch: Fetch,
    /// Whether neighbouring threads, and vectors, step along k; else along m or n. What is turned arrives along k.
    pub along_k: bool,
}

impl Operand {
    /// The tensor that comes in boxes.
    pub fn map(&self) -> Option<TensorMap> {
        match self.fetch {
            Fetch::Tma(map) | Fetch::Transformed(map) | Fetch::Fragments(map) | Fetch::Turned(map) => Some(map),
            _ => None,
        }
    }

    /// Tensors read through pointers.
    fn loads(&self) -> impl Iterator<Item = TensorId> {
        let boxed = self.map().map(|map| map.tensor);
        self.sweep.program.reads().filter(move |&id| Some(id) != boxed)
    }

    /// Whether rows of boxes run along k; else along m or n.
    pub fn boxes_along_k(&self) -> bool {
        self.fetch.boxes_along_k(self.along_k)
    }

    /// Bytes of a stage in which boxes wait for their transformation, beside the tile of so many rows.
    pub fn raw_bytes(&self, rows: u32, element_bytes: u32) -> u32 {
        self.fetch.raw_bytes(self.along_k, rows, element_bytes)
    }
}

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
    pub fn counts(&self, [_, m, n, _]: [i64; 4]) -> [i64; 2] {
        let count = |extent: i64, block: u32| (extent + i64::from(block) - 1) / i64::from(block);
        [count(m, self.m), count(n, self.n)]
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

/// Columns of a staged part whose rows are swizzled: whole lines of 16-bit results.
const SWIZZLED_COLUMNS: u32 = 64;

/// What boxes start at a multiple of, in bytes: eight lines of 128.
const SWIZZLE_PERIOD: u32 = 1024;

/// Rows of one `wgmma`.
pub const WGMMA_ROWS: u32 = 64;

impl Multiply {
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

/// An epilogue reduction and where its partial results go: `partial[split][kept]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartialReduction {
    /// The reduction.
    pub accumulation: Accumulation,
    /// Which of the indices b, m, n are reduced.
    pub reduced: [bool; 3],
    /// Number of partial results for each kept element.
    pub splits: i64,
    /// Number of kept elements.
    pub kept: i64,
}

/// Boxes of a warp's part of C by which the tensor memory accelerator brings and takes the epilogue's tensors. Each holds 16
/// rows, or the one row of a tensor that has but one; a warp evaluates its accumulators where they are, in registers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Boxes {
    /// Columns of a box: at most one swizzled row of each tensor.
    pub columns: u32,
    /// Tensors read. They come while the products, or the boxes before, are computed.
    pub read: Vec<TensorMap>,
    /// Tensors stored. They leave while the next boxes are computed.
    pub stored: Vec<TensorMap>,
}

/// Where a box lies in shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BoxPlace {
    /// Bytes from the start of its set.
    pub at: u32,
    /// Whether it is a single row. These have sets of their own, behind those of all warps.
    pub is_row: bool,
}

impl Boxes {
    /// Sets of boxes of a warp, used in turns.
    pub const SETS: u32 = 2;

    /// Rows of a box: those of a warp's fragments.
    pub const ROWS: u32 = 16;

    /// Whether a map's boxes are single rows.
    pub fn is_row(map: &TensorMap) -> bool {
        map.box_dims[1] == 1
    }

    /// Bytes of a warp's boxes.
    pub fn warp_bytes(&self) -> u32 {
        Self::SETS * (self.set_bytes() + self.row_set_bytes())
    }

    /// Bytes from one set of a warp to the next: a multiple of the period of every swizzle.
    pub fn set_bytes(&self) -> u32 {
        self.bytes_of(false).next_multiple_of(SWIZZLE_PERIOD)
    }

    /// The same of the sets of single rows.
    pub fn row_set_bytes(&self) -> u32 {
        self.bytes_of(true)
    }

    /// Bytes that come with one set.
    pub fn read_bytes(&self) -> u32 {
        self.read.iter().map(|map| map.box_dims[0] * map.box_dims[1] * map.element.bytes()).sum()
    }

    fn all(&self) -> impl Iterator<Item = &TensorMap> {
        self.read.iter().chain(&self.stored)
    }

    fn bytes_of(&self, rows: bool) -> u32 {
        self.all().filter(|map| Self::is_row(map) == rows).map(Self::box_bytes).sum()
    }

    /// Bytes of a box with what its alignment takes.
    fn box_bytes(map: &TensorMap) -> u32 {
        const ALIGNMENT: u32 = 128;
        (map.box_dims[0] * map.box_dims[1] * map.element.bytes()).next_multiple_of(ALIGNMENT)
    }

    /// Where boxes lie, those read before those stored. The widest come first, so that each begins at a multiple of eight
    /// of its rows, the period of its swizzle.
    pub fn places(&self) -> Vec<BoxPlace> {
        let boxes: Vec<(bool, u32)> = self.all().map(|map| (Self::is_row(map), Self::box_bytes(map))).collect();
        let place = |number: usize| {
            let (is_row, bytes) = boxes[number];
            let is_before = |other: &usize| {
                let (other_is_row, other_bytes) = boxes[*other];
                other_is_row == is_row && (bytes, *other) < (other_bytes, number)
            };
            BoxPlace { at: (0..boxes.len()).filter(is_before).map(|other| boxes[other].1).sum(), is_row }
        };
        (0..boxes.len()).map(place).collect()
    }
}

/// g2, evaluated where a tile of C is.
#[derive(Clone, Debug)]
pub struct FusedEpilogue {
    /// g2 at vectors of points of C; axis `i` of its space is the digit of `digits[i]`.
    pub sweep: Sweep,
    /// What the sweep's axes count.
    pub digits: Vec<Quantity>,
    /// Reductions.
    pub reductions: Vec<PartialReduction>,
    /// The boxes by which tensors come and leave; without them accumulators go through shared memory, and tensors
    /// are read and stored in vectors. `wgmma` only.
    pub boxes: Option<Boxes>,
}

/// What happens to a tile of C.
#[derive(Clone, Debug)]
pub enum Epilogue {
    /// g2 is evaluated where the tile is.
    Fused(Box<FusedEpilogue>),
    /// Accumulators go to the workspace as `partial0[split][b][m][n]`; later functions of the file take them from there.
    Workspace {
        /// Elements from one index b, m, n to the next.
        strides: [i64; 3],
    },
}

/// How loops of a product are unrolled and registers shared: what an engine chooses for speed alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tuning {
    /// Pieces of A and of B that a thread has under way at once, where threads bring them.
    pub pieces_under_way: [u32; 2],
    /// Part of a step, of 32 bytes of k, in which the next load of A and of B starts. `mma` only.
    pub load_in_part: [u32; 2],
    /// Registers of a thread that brings tiles. `wgmma` only.
    pub producer_registers: u32,
    /// Steps that boxes are asked for ahead of what is computed from them. `wgmma` only.
    pub boxes_ahead: u32,
    /// Whether all fragments of a step that warps compute are computed side by side, then multiplied. `wgmma` only.
    pub fragments_at_once: bool,
    /// Columns of boxes that are taken from the accumulators at a time. `wgmma` with boxes only.
    pub step_columns: u32,
    /// Vectors of a lane that are evaluated side by side in the epilogue. `wgmma` without boxes only.
    pub vectors_at_once: u32,
}

/// A tiled matrix product with mainloop and epilogue fusion.
#[derive(Clone, Debug)]
pub struct GemmKernel {
    /// The index space.
    pub space: GemmSpace,
    /// Tile of a block.
    pub tile: GemmTile,
    /// How tiles are multiplied.
    pub multiply: Multiply,
    /// Left operand.
    pub a: Operand,
    /// Right operand.
    pub b: Operand,
    /// What happens to C.
    pub epilogue: Epilogue,
    /// Whether vectors, and neighbouring threads, of the epilogue step along n; else along m.
    pub along_n: bool,
    /// Rows of tiles that blocks walk before they step to the next column: their operands stay in L2 together.
    pub raster: u32,
    /// Number of parts into which k is cut; more than one go to the workspace.
    pub splits: u32,
    /// Blocks that share a multiprocessor: the compiler's bound on registers.
    pub blocks: u32,
    /// Shared memory of a block.
    pub shared: SharedLayout,
    /// What changes the time, and nothing else.
    pub tuning: Tuning,
    /// Whether indices and offsets need 64 bits.
    pub wide_index: bool,
}

impl GemmKernel {
    /// Tiles of C, of all matrices.
    pub fn tiles(&self) -> i64 {
        let [batch, ..] = self.space.extents();
        let [tiles_m, tiles_n] = self.tile.counts(self.space.extents());
        batch * tiles_m * tiles_n
    }

    /// Tiles of all parts of k: what blocks share.
    pub fn units(&self) -> i64 {
        self.tiles().saturating_mul(self.splits.into())
    }

    /// Steps along k, of all parts.
    pub fn steps(&self) -> i64 {
        let [.., k] = self.space.extents();
        let each = i64::from(self.tile.k);
        (k + each - 1) / each
    }

    /// Everything evaluated: both operands, then the epilogue.
    pub fn sweeps(&self) -> impl Iterator<Item = &Sweep> {
        [&self.a.sweep, &self.b.sweep].into_iter().chain(self.epilogue_sweep())
    }

    fn epilogue_sweep(&self) -> Option<&Sweep> {
        match &self.epilogue {
            Epilogue::Fused(fused) => Some(&fused.sweep),
            Epilogue::Workspace { .. } => None,
        }
    }

    /// As [`Self::sweeps`].
    pub fn sweeps_mut(&mut self) -> impl Iterator<Item = &mut Sweep> {
        let epilogue = match &mut self.epilogue {
            Epilogue::Fused(fused) => Some(&mut fused.sweep),
            Epilogue::Workspace { .. } => None,
        };
        [&mut self.a.sweep, &mut self.b.sweep].into_iter().chain(epilogue)
    }

    /// The boxes of the epilogue.
    pub fn boxes(&self) -> Option<&Boxes> {
        match &self.epilogue {
            Epilogue::Fused(fused) => fused.boxes.as_ref(),
            Epilogue::Workspace { .. } => None,
        }
    }

    /// Tensors read through pointers, in the order of [`Self::sweeps`].
    pub fn loads(&self) -> impl Iterator<Item = TensorId> {
        let operands = [&self.a, &self.b].into_iter().flat_map(Operand::loads);
        let boxed = |id: &TensorId| self.boxes().is_some_and(|boxes| is_among(&boxes.read, *id));
        let epilogue = self.epilogue_sweep().into_iter().flat_map(|sweep| sweep.program.reads());
        operands.chain(epilogue.filter(move |id| !boxed(id)))
    }

    /// Tensor maps: of the operands that have one, then of the epilogue's boxes, those read before those stored.
    pub fn maps(&self) -> impl Iterator<Item = TensorMap> {
        let boxes = self.boxes().into_iter().flat_map(|boxes| boxes.read.iter().chain(&boxes.stored).copied());
        [&self.a, &self.b].into_iter().filter_map(Operand::map).chain(boxes)
    }

    /// Tensors stored through pointers at each point of C.
    pub fn stores(&self) -> Vec<TensorId> {
        let boxed = |id: &TensorId| self.boxes().is_some_and(|boxes| is_among(&boxes.stored, *id));
        self.sweeps().flat_map(|sweep| sweep.stores.iter().copied()).filter(|id| !boxed(id)).collect()
    }
}

/// Whether some map is that of a tensor.
fn is_among(maps: &[TensorMap], tensor: TensorId) -> bool {
    maps.iter().any(|map| map.tensor == tensor)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where k begins in a step of so many elements, as taps and channel.
    fn digits_of_step(channels: Digit, step_k: i64) -> Vec<Index> {
        let taps = [Quantity::Tap(1), Quantity::Tap(2)].map(|tap| Digit::new(tap, 3));
        let k = [&taps[..], &[channels]].concat();
        let first = Index::local("step") * step_k;
        digits_at(&first, &k).into_iter().map(|definition| definition.value).collect()
    }

    #[test]
    fn a_step_of_whole_blocks_of_channels_has_one_tap() {
        let step = || Index::local("step");
        let channels = Digit::new(Quantity::InputChannel, 128);
        assert_eq!(digits_of_step(channels, 64), [step() / 6, step() / 2 % 3, step() * 64 % 128]);
        let one_block = Digit::new(Quantity::InputChannel, 64);
        assert_eq!(digits_of_step(one_block, 64), [step() / 3, step() % 3, Index::ZERO]);
    }

    #[test]
    fn channels_that_are_no_whole_blocks_are_padded_to_them() {
        let channels = Digit::new(Quantity::InputChannel, 40).in_blocks_of(64);
        assert!(channels.is_padded() && !Digit::new(Quantity::InputChannel, 128).in_blocks_of(64).is_padded());
        assert_eq!(digits_of_step(channels, 64), [Index::local("step") / 3, Index::local("step") % 3, Index::ZERO]);
        let space = GemmSpace { k: vec![Digit::new(Quantity::Tap(2), 3), channels], ..GemmSpace::default() };
        assert_eq!(space.extents(), [1, 1, 1, 3 * 64]);
    }
}
