//! What a candidate is expected to cost: a model to rank by. What it ranks first is held against measured tiles in
//! `docs/performance-notes.md`.

use super::shape::{Candidate, Shape, Staging, Way};
use crate::device::Device;
use crate::engine::lowering::{BoxRows, COMBINATION, Meeting, Straddling, blocks_in_clusters, combination_seconds};
use crate::engine::{Bound, Estimate, Term, Waves};
use crate::kernel::{Schedule, Sums};

/// Clocks a second, between those of a rested H200 (1.98e9) and of one at its power limit (1.45e9).
pub(super) const CLOCK: f64 = 1.6e9;

// Where a constant names no case it is fitted: the times of 6,100 configs of 133 graphs on an H200 (2026-11-24: `bench --autotune=all` of the
// suite's convolutions and matmuls and of drawn convolutions), then of 4,200 of 64 with the tiles of 256 rows, so that what is ranked first is
// fast; docs/performance-notes.md has how.

/// Clocks of a launch, and from a block's start to its first full stage.
pub(super) const FILL: f64 = 5600.0;

/// What differs from chip to chip.
struct Chip {
    /// Bytes a second of the memory.
    memory: f64,
    /// Bytes a clock that all multiprocessors together get from L2 where tiles have [`WIDE_TILE`] columns or more, and where they have fewer.
    l2_wide: f64,
    l2_narrow: f64,
    /// Part of the clocks of rows that arrive in shared memory, of which tap rows take longer, whose products wait for little but shared
    /// memory (tiles of 128×64 on an H200: 139 µs for `conv3d_c64_16x56`, of which reads alone would be 114 and all accesses 159).
    written_beside_reads: f64,
}

/// The same part in matmuls (all configs of 64 products on an H200, 2026-11-30, before boxes ended where C does; the first by the model takes 1.017 of the fastest,
/// without this term 1.026, with 0.4 to 0.5 the same, with 0.6 1.035: 1664×4096×1024 in tiles of 128×64 of which B stays 34 µs, of which reads alone would be 25).
const WRITTEN_IN_MATMULS: f64 = 0.45;

/// An H200, and an H100 (fitted to some 7,000 configs of 103 graphs, 2026-11-25, with all other constants as they are of an H200).
const CHIPS: [Chip; 2] = [
    Chip { memory: 4.25e12, l2_wide: 11000.0, l2_narrow: 8400.0, written_beside_reads: 0.6 },
    Chip { memory: 2.95e12, l2_wide: 6760.0, l2_narrow: 6400.0, written_beside_reads: 0.26 },
];
const WIDE_TILE: f64 = 128.0;

/// The chip whose memory is most like a device's.
fn chip(device: &Device) -> &'static Chip {
    let distance = |chip: &&Chip| (chip.memory - device.bytes_per_second).abs();
    CHIPS.iter().min_by(|a, b| distance(a).total_cmp(&distance(b))).unwrap_or(&CHIPS[0])
}

/// Bytes a clock that all multiprocessors together get from L2, where tiles have so many columns.
pub(super) fn l2_rate(columns: f64, device: &Device) -> f64 {
    let chip = chip(device);
    if columns >= WIDE_TILE { chip.l2_wide } else { chip.l2_narrow }
}

/// Clocks of the tensor memory accelerator for a row of a box and for each byte of it; for each further piece of a row, alone and beside all other
/// multiprocessors (measured: [`BoxRows`]).
const BOX_ROW: f64 = 1.18;
const BOX_BYTE: f64 = 0.005;
const PIECE_OF_ROW: f64 = 1.0;
const PIECE_BESIDE_OTHERS: f64 = 0.9;

/// Clocks of a step at least, and of one that brings A alone; and of a step beside what bounds it, by whether both warpgroups wait for it, one does, or one
/// does and the other has no tile (9,100 configs of 58 products on an H200, 2026-11-29: blocks of one tile take 1.04 to 1.11 of the time in turns that they take
/// together, blocks of several 0.96 to 1.01).
const STEP: f64 = 295.0;
const STEP_BESIDE_STATIONARY: f64 = 206.0;
const COOPERATIVE_GAP: f64 = 45.0;
const PING_PONG_GAP: f64 = 7.0;
const LONE_PING_PONG_GAP: f64 = 34.0;

/// Rows or columns of C up to which what a matmul's steps wait for comes from memory, not from L2: somewhat more than were measured.
const ROWS_FROM_MEMORY: i64 = 256;

/// Clocks from a request for a step to its arrival from memory, while others of its pipeline are under way: 1.4 µs (1,900 configs of 20 products of 129 to 192
/// rows on an H200, 2026-11-29: 184×4096×14336 of BF16 in tiles of 64×96 takes 48.4 µs with 10 stages, 65.5 with 5).
const ARRIVAL: f64 = 2240.0;

/// By how much L2 takes longer where more than few rows are two columns of tiles of the transposed product (5,400 configs of 60 products on an H200, 2026-11-30:
/// such configs took 1.03 to 1.25 of the time of others of their product beside what was expected, those of one column 0.95 and 1.02; 154×8192×16384 of HALF takes
/// 102 µs in tiles of 128×80, 87 expected, in tiles of 64×192 90).
const TWO_COLUMNS_OF_TILES: f64 = 1.35;

/// Clocks of a step for each multiprocessor that reads the same rows of a line at the same time, as L2 gives a line to one after the other,
/// and the power with which rows that are parts of lines take longer (132 that read the same box of 32 rows of 64 bytes on an H100: 637
/// clocks, of 16 rows of 32 bytes 690; one alone fewer than 308).
const SAME_LINES: f64 = 2.4;
const PARTS_OF_LINES: f64 = 1.2;
const LINE_BYTES: f64 = 128.0;

/// Most columns of tiles that multiprocessors read at the same time, of a raster of so many rows: an estimate.
const COLUMNS_AT_ONCE: f64 = 16.0;

/// The power of the blocks of a multiprocessor with which least steps and exposed epilogues are shorter there.
const BLOCKS_SHARE: f64 = 0.5;

/// How often rows of boxes that straddle lines or sectors of L2 are read from there, by the index along which they run (4096³ in FP16 and
/// its neighbours with k = 4088 and n = 4104: 195 µs where rows are lines, 225 where those of A are not, 318 where those of A and B are
/// not, 270 where B's run along n and are not).
/// A matmul's A costs less, as its rows are not those that neighbouring multiprocessors read together (50 products on an H200, 2026-11-29).
const STRADDLING_ALONG_K: f64 = 2.1;
const STRADDLING_OF_A: f64 = 1.73;
const STRADDLING_ALONG_OUTER: f64 = 1.75;

/// Part of the lesser of both by which products and what arrives from L2 delay each other where warpgroups take turns and rows of A alone straddle lines (2,130
/// configs of 18 products with k of 328 to 3016 on an H200, 2026-12-01: 128×192 in turns takes 1.05 of what is expected without it, together 0.92; the first by
/// the model takes 1.046 of the fastest without it, with 0.03 and 0.04 1.033, with 0.05 and 0.06 1.028). Where rows of B straddle, too, first choices of 15 other products that 0.06 changed took
/// 1.018 of the time before on the mean.
const TURNS_BESIDE_STRADDLING: f64 = 0.05;

/// How many times what rows of an operand hold is read from L2, of a matmul's A or of another.
pub(super) fn l2_reads(straddling: Option<Straddling>, is_a_of_matmul: bool) -> f64 {
    match straddling {
        None => 1.0,
        Some(Straddling::AlongK) if is_a_of_matmul => STRADDLING_OF_A,
        Some(Straddling::AlongK) => STRADDLING_ALONG_K,
        Some(Straddling::AlongOuter) => STRADDLING_ALONG_OUTER,
    }
}

/// Part of what tiles read again of the operands that comes from memory, not from L2: fitted to the same times and two of
/// `conv_1x1_c64_256_56_add_relu` (tiles of 128×128 150 µs, of 64×64 171).
const READ_AGAIN: f64 = 0.12;

/// By how much memory takes longer where an epilogue reads what comes in boxes and a multiprocessor has one block, whose warpgroups ask for the boxes of
/// one tile each, or where it reads that through registers (eleven 1×1 convolutions bound by memory on an H200, 2026-11-26, `bench --autotune=all`: configs of one block with a residual took 1.29
/// cooperative and 1.25 ping-pong of what memory alone would, of several blocks 1.05, without a residual 1.04 to 1.10).
const READS_OF_ONE_TILE: f64 = 1.22;

/// Bytes a second that one multiprocessor gets from memory (filter gradient of 48×32768 by 32768×72 in 5 tiles of 128×16 on an H100: 68 µs).
const MEMORY_OF_A_MULTIPROCESSOR: f64 = 140e9;

/// Clocks of a multiprocessor for an element that the first warpgroup computes on its way to shared memory (`mm_mixed_bf16_i8_m4096` on an
/// H200 in tiles of 128×256, of which 128 rows are computed, 738 µs, of 256×128 1014).
const COMPUTED_ELEMENT: f64 = 0.2;

/// The same for a piece that it copies (on an H200, configs of which little else takes time: 16384×384×500 with a residual in tiles of 64×128 53 µs, which is
/// 0.8, and 3000×1792×500 38 µs, 0.5).
const COPIED_PIECE: f64 = 0.7;

/// The same for an element of 8 and of 32 bits that is turned, and for each step of which some are, for what no other step hides (35 products on an
/// H100, of which each was timed turned and copied: 128×1024×4096 of FP8 in tiles of 128×16 21 µs, 2048³ of FLOAT in tiles of 256×128 67, 1×1 filter
/// gradient of FLOAT, 32×112×48×48 by 240, in tiles of 128×128 60).
const TURNED_ELEMENT: [f64; 2] = [0.1, 0.2];
const TURNED_STEP: f64 = 600.0;

/// The same for an element that the multiplying warps compute in their registers, and for each tensor that is read for it alone: where two
/// warpgroups multiply at once, and where one does; and by how much products take longer, beside and behind it (fitted to the tiles of
/// `mm_mixed_bf16_i8_m4096`, `mm_g1_rowscale_relu_f16` and the convolution of `conv_g1_genstats_c256_14` without its statistics on an H200:
/// 714, 196 and 109 µs; with 0.078 for each, whatever it reads, 766, 209 and 93 were expected).
const FRAGMENT_ELEMENT: f64 = 0.067;
const FRAGMENT_LOAD: f64 = 0.02;
const LONE_FRAGMENT_ELEMENT: f64 = 0.125;
const LONE_FRAGMENT_LOAD: f64 = 0.01;
const BESIDE_FRAGMENTS: f64 = 1.1;
const BEHIND_FRAGMENTS: f64 = 0.53;

/// What adding partial sums up in FP32 costs beside the products of the other warpgroup (an estimate), and where the other
/// does not multiply meanwhile (H200: 8192×4096×1024 with scales takes 85.6 µs by 128×64 in turns, where 67 are expected with 1.5, and 70.8
/// by the fastest of 24 configs; in ten such shapes that one is cooperative).
const PROMOTION: f64 = 1.03;
const LONE_PROMOTION: f64 = 2.0;

/// Clocks of an epilogue whatever it has, and elements of C a clock in it: of both warpgroups, and of one beside the other's products;
/// through shared memory, and by boxes.
const COOPERATIVE_EPILOGUE_START: f64 = 620.0;
const PING_PONG_EPILOGUE_START: f64 = 100.0;
const COOPERATIVE_EPILOGUE: f64 = 4.1;
const PING_PONG_EPILOGUE: f64 = 1.8;
const COOPERATIVE_BOXES: f64 = 11.0;
const COOPERATIVE_BOXES_READ: f64 = 9.0;
const PING_PONG_BOXES: f64 = 4.5;
const PING_PONG_BOXES_READ: f64 = 3.2;

/// By how much an epilogue through shared memory takes longer that reads tensors which might come in boxes (`conv_3x3_c128_64_silu_add_bf16` on
/// an H100 in tap rows, tiles of 128×64: 78 µs by boxes, 100 through shared memory).
const STAGED_READS: f64 = 2.0;

/// By how much products of one warpgroup take longer beside the other's epilogue through shared memory (fitted with the L2 of an H100).
const BESIDE_STAGED_EPILOGUE: f64 = 1.03;

/// By how much an epilogue by boxes takes longer for each reduction that keeps the columns: by its instructions, not timed.
const TOTAL: f64 = 0.4;

/// By how much an epilogue by boxes takes longer where accumulators take so many registers that few are left for it, and both warpgroups are
/// in it (tiles of 256×192).
const CROWDED_BOXES: f64 = 1.6;
const CROWDED_ACCUMULATORS: u32 = 192;

/// Threads that share a cooperative tile.
const THREADS_OF_A_TILE: u32 = 256;

/// By how much an epilogue takes longer whose boxes have rows of less than a line of L2, and what it moves.
const NARROW_BOXES: f64 = 1.9;
const NARROW_MOVES: f64 = 2.5;

/// By how much sums of a transposed product that go through the workspace take longer (1,200 configs of 18 decoding steps on an H200, 2026-11-28: with 1.0
/// they took 1.22 of what was expected, others 0.97).
const TURNED_COMBINATION: f64 = 1.6;

/// Clocks until blocks of a cluster have met, for each of them that sends its sums to the first, and for each of these (13 products of FP8, BF16 and HALF
/// on an H200, 2026-11-29: 32×1152×5120 in tiles of 128×16 takes 10.0, 9.7 and 9.7 µs by clusters of 2, 3 and 4, 256×896×8192 in tiles of 128×32,
/// 128×48 and 128×64 12.5, 13.1 and 13.2 by 2, 3 and 4).
const MEETING: f64 = 1200.0;
const MEETING_PART: f64 = 800.0;
const MEETING_SUM: f64 = 0.25;

/// Clocks until blocks of a cluster that share operands have begun and ended together, and of each of their steps beside what bounds it, as each waits for
/// the last of them (3,900 such configs among 13,900 of 94 products on an H200, 2026-11-29).
const SHARING: f64 = 1300.0;
const SHARED_GAP: f64 = 92.0;

/// How tiles are walked.
struct Pace {
    /// Multiprocessors that have tiles.
    busy: f64,
    /// Blocks that share one.
    blocks: f64,
    /// Tiles of a block at most.
    tiles: f64,
    /// Part of the tiles for which B is read.
    streamed_b: f64,
    /// Blocks of a cluster that receive what one of them asks for, of A and of B.
    sharers: [f64; 2],
    /// Stages of the pipeline.
    stages: f64,
}

impl Candidate<'_> {
    /// Estimated time in clocks: the longest of tensor cores, shared memory, L2, boxes and memory for the tiles of a
    /// multiprocessor, the pipeline's first fill, the epilogues that nothing hides, and sums that go through the workspace.
    pub(super) fn estimate(&self, way: Way, stages: u32, through_workspace: bool, device: &Device) -> Estimate {
        let Way { splits, meeting, cluster, staging, blocks, stationary } = way;
        let sms = f64::from(blocks_in_clusters(cluster[0] * cluster[1], device));
        let blocks = f64::from(blocks);
        let units = self.tiles_of(cluster) as f64 * f64::from(splits);
        let sharers = [cluster[1], cluster[0]].map(f64::from);
        let columns = if stationary { self.columns() as f64 } else { 1.0 };
        let at_once = (sms * blocks / columns).floor() * columns;
        let waves = Waves::of(units, at_once);
        let waves = Waves { count: waves.count * blocks, ..waves };
        let steps = self.steps_of_part(splits);
        let beside = match (self.shape.schedule, staging) {
            (Schedule::PingPong, Staging::Accumulators) if splits == 1 => BESIDE_STAGED_EPILOGUE,
            _ => 1.0,
        };
        let of_steps = |term: Term| Term { time: term.time * steps * beside, ..term };
        let streamed_b = if stationary { blocks / waves.count } else { 1.0 };
        let (busy, tiles, stages) = (sms.min(units), waves.count / blocks, stages.into());
        let pace = Pace { busy, blocks, tiles, streamed_b, sharers, stages };
        let tile = self.terms_of_step(&pace, device).map(of_steps);
        let longest = tile.iter().map(|term| term.time).fold(0.0, f64::max);
        let epilogue = self.epilogue(staging);
        let (exposed, last) = match self.shape.schedule {
            Schedule::Cooperative => (epilogue, 0.0),
            // both warpgroups may be in their epilogues while nothing is multiplied
            Schedule::PingPong => (((epilogue - longest) / 2.0).max(0.0), epilogue),
        };
        let exposed = exposed / blocks.powf(BLOCKS_SHARE);
        let combination = if meeting == Meeting::Cluster {
            self.meeting(splits)
        } else if through_workspace {
            let turned = if self.is_transposed() { TURNED_COMBINATION } else { 1.0 };
            turned * COMBINATION * combination_seconds(self.extents, splits, device) * CLOCK
        } else {
            0.0
        };
        let term = |bound, time| Term { bound, time };
        // nothing hides the last epilogue
        let of_tiles = |of_tile: Term| term(of_tile.bound, waves.count * of_tile.time + (waves.count - 1.0) * exposed);
        let overlaps = staging == Staging::Boxes && blocks > 1.0;
        let waiting = if self.reads_boxes && !overlaps { READS_OF_ONE_TILE } else { 1.0 };
        let memory = term(Bound::Memory, waiting * self.memory(staging, splits, busy, device));
        Estimate {
            at_once: tile.map(of_tiles).into_iter().chain([memory]).collect(),
            on_top: vec![
                term(Bound::Copies, self.copy_seconds(device) * CLOCK),
                term(Bound::Fill, FILL + if cluster == [1, 1] { 0.0 } else { SHARING }),
                term(Bound::Epilogue, exposed),
                term(Bound::Epilogue, last),
                term(Bound::Workspace, combination),
            ],
            waves: Some(waves),
        }
    }

    /// Clocks until the first block of a cluster has added up the sums of the others.
    fn meeting(&self, parts: u32) -> f64 {
        let Shape { m, n, .. } = self.shape;
        MEETING + f64::from(parts - 1) * (MEETING_PART + f64::from(m * n) * MEETING_SUM)
    }

    /// Clocks of a step of a tile, by what may bound it.
    fn terms_of_step(&self, pace: &Pace, device: &Device) -> [Term; 5] {
        let &Pace { busy, blocks, tiles, streamed_b, sharers, stages } = pace;
        let Shape { m, n, schedule } = self.shape;
        let (taps, [rows, columns]) = (f64::from(self.taps), self.loaded());
        let (m, n, bytes) = (f64::from(m), f64::from(n), f64::from(self.operand.bytes()));
        let depth = self.depth_of_step();
        let part = self.multiplied_part();
        let promotion = match schedule {
            _ if self.sums != Sums::Promoted => 1.0,
            Schedule::Cooperative => PROMOTION,
            Schedule::PingPong => LONE_PROMOTION,
        };
        let gap = match schedule {
            Schedule::Cooperative => COOPERATIVE_GAP,
            Schedule::PingPong if tiles <= 1.0 => LONE_PING_PONG_GAP,
            Schedule::PingPong => PING_PONG_GAP,
        };
        let gap = if sharers == [1.0, 1.0] { gap } else { gap + SHARED_GAP };
        let rate = 8192.0 / bytes;
        let least_step = if streamed_b < 1.0 { STEP_BESIDE_STATIONARY } else { STEP } / blocks.powf(BLOCKS_SHARE);
        let [reads_a, reads_b] = [0, 1].map(|slot| self.l2_reads[slot] / sharers[slot]);
        let [rows_a, rows_b] = [self.box_rows[0].rows + self.rows_beyond, self.box_rows[1].rows * self.taps];
        let of_piece = PIECE_OF_ROW + PIECE_BESIDE_OTHERS * busy / f64::from(device.sm_count);
        let of_row = |BoxRows { bytes, pieces, .. }| {
            BOX_ROW + (pieces - 1.0).max(0.0) * of_piece + f64::from(bytes) * part * BOX_BYTE
        };
        let boxes = [0, 1].map(|slot| f64::from([rows_a, rows_b][slot]) * of_row(self.box_rows[slot]));
        let computed = f64::from(self.computed_rows) * COMPUTED_ELEMENT + self.copied_pieces * COPIED_PIECE;
        let filled = computed * depth + self.turned(depth);
        let products = self.with_fragments(m * n * taps * depth * 2.0 / rate * promotion, depth);
        let arriving = depth * bytes * (rows * reads_a + taps * columns * reads_b * streamed_b) * busy
            / l2_rate(n, device)
            * self.unmerged();
        let delay = self.delay_in_turns(products.min(arriving));
        [
            (Bound::MatrixRate, products + delay),
            (
                Bound::SharedMemory,
                depth * bytes * (taps * (m / 64.0) * (64.0 + n) + self.written_beside_reads(streamed_b, device))
                    / 128.0,
            ),
            (Bound::L2, arriving + delay),
            (
                Bound::Boxes,
                least_step
                    .max(self.arrival(stages) / blocks)
                    .max(boxes[0] * reads_a + boxes[1] * reads_b * streamed_b)
                    .max(self.same_lines(0, busy) * reads_a)
                    .max(self.same_lines(1, busy) * reads_b * streamed_b),
            ),
            (Bound::Operands, filled),
        ]
        .map(|(bound, time)| Term { bound, time: time + gap / blocks })
    }

    /// Clocks of a step by which products and reads of L2, of which the lesser takes so many, delay each other.
    fn delay_in_turns(&self, lesser: f64) -> f64 {
        let is_delayed = self.is_matmul() && self.straddles(0) && !self.straddles(1);
        if is_delayed && self.shape.schedule == Schedule::PingPong { TURNS_BESIDE_STRADDLING * lesser } else { 0.0 }
    }

    /// Whether what steps wait for comes from memory.
    fn waits_for_memory(&self) -> bool {
        let [_, rows, columns, _] = self.extents;
        self.is_matmul() && rows.min(columns) <= ROWS_FROM_MEMORY
    }

    /// Clocks from one arrival to the next at least, of a pipeline whose stages but one are under way.
    fn arrival(&self, stages: f64) -> f64 {
        if self.waits_for_memory() { ARRIVAL / (stages - 1.0) } else { 0.0 }
    }

    /// By how much L2 takes longer as it merges less of what multiprocessors read.
    fn unmerged(&self) -> f64 {
        let [_, columns] = self.counts();
        if self.wastes_less() && columns == 2 { TWO_COLUMNS_OF_TILES } else { 1.0 }
    }

    /// Clocks of a step for what is turned.
    fn turned(&self, depth: f64) -> f64 {
        let element = TURNED_ELEMENT[usize::from(self.operand.bytes() > 1)];
        match self.turned_rows {
            0 => 0.0,
            rows => f64::from(rows) * element * depth + TURNED_STEP,
        }
    }

    /// Clocks of a step for rows of an operand that several multiprocessors read at the same time; none where it does not come in boxes.
    fn same_lines(&self, slot: usize, busy: f64) -> f64 {
        let row_bytes = self.box_rows[slot].bytes;
        if row_bytes == 0 {
            return 0.0;
        }
        let [tiles_m, tiles_n] = self.counts().map(|count| count as f64);
        let [own, others] = if slot == 0 { [tiles_m, tiles_n] } else { [tiles_n, tiles_m] };
        let readers = (busy / own.min(COLUMNS_AT_ONCE)).min(others);
        let part = f64::from(row_bytes).min(LINE_BYTES) / LINE_BYTES;
        readers * SAME_LINES / part.powf(PARTS_OF_LINES)
    }

    /// Rows that arrive in shared memory while others are read there, as far as they delay these.
    fn written_beside_reads(&self, streamed_b: f64, device: &Device) -> f64 {
        let Shape { m, n, .. } = self.shape;
        match self.taps {
            1 if self.is_matmul() => WRITTEN_IN_MATMULS * (f64::from(m) + f64::from(n) * streamed_b),
            1 => 0.0,
            taps => {
                let rows = f64::from(m + self.rows_beyond) + f64::from(taps * n) * streamed_b;
                chip(device).written_beside_reads * rows
            }
        }
    }

    /// Rows and columns of a tile, as far as there are so many.
    fn loaded(&self) -> [f64; 2] {
        let Shape { m, n, .. } = self.shape;
        let (m, beyond) = (m + self.rows_beyond, i64::from(self.rows_beyond));
        [(m, self.extents[1] + beyond), (n, self.extents[2])].map(|(tile, all)| f64::from(tile).min(all as f64))
    }

    /// Clocks for what is moved through memory, where so many multiprocessors have tiles.
    fn memory(&self, staging: Staging, splits: u32, busy: f64, device: &Device) -> f64 {
        let [batch, rows, columns, _] = self.extents.map(|extent| extent as f64);
        let is_narrow = staging == Staging::Boxes && self.has_narrow_boxes;
        let moves = if is_narrow { NARROW_MOVES } else { 1.0 };
        let result = batch * rows * columns * self.bytes_of_point * moves;
        let depth = self.depth_of_step() * self.steps_of_part(splits) * f64::from(splits);
        let all_tiles = self.tiles() as f64 * self.loaded().iter().sum::<f64>() * depth;
        let read = self.operand_elements * (1.0 - READ_AGAIN) + all_tiles * READ_AGAIN;
        let moved = read * f64::from(self.operand.bytes()) + result;
        moved / device.bytes_per_second.min(busy * MEMORY_OF_A_MULTIPROCESSOR) * CLOCK
    }

    /// Clocks of an epilogue of a tile.
    fn epilogue(&self, staging: Staging) -> f64 {
        let Shape { m, n, schedule } = self.shape;
        let start = match schedule {
            Schedule::Cooperative => COOPERATIVE_EPILOGUE_START,
            Schedule::PingPong => PING_PONG_EPILOGUE_START,
        };
        let is_narrow = staging == Staging::Boxes && self.has_narrow_boxes;
        let narrow = if is_narrow { NARROW_BOXES } else { 1.0 };
        let totals = match staging {
            Staging::Boxes => 1.0 + self.totals as f64 * TOTAL,
            Staging::Accumulators => 1.0,
        };
        let accumulators = m * n / THREADS_OF_A_TILE;
        let is_crowded = (schedule, staging) == (Schedule::Cooperative, Staging::Boxes);
        let crowded = if is_crowded && accumulators >= CROWDED_ACCUMULATORS { CROWDED_BOXES } else { 1.0 };
        start + f64::from(m * n) / self.epilogue_rate(staging) * narrow * totals * crowded
    }

    /// Clocks of a tile's products where the multiplying warps compute their fragments of A, which products hide in part.
    fn with_fragments(&self, products: f64, depth: f64) -> f64 {
        let (element, load) = match self.shape.schedule {
            _ if self.fragment_rows == 0 => return products,
            Schedule::Cooperative => (FRAGMENT_ELEMENT, FRAGMENT_LOAD),
            Schedule::PingPong => (LONE_FRAGMENT_ELEMENT, LONE_FRAGMENT_LOAD),
        };
        let element = element + self.fragment_loads as f64 * load;
        let computed = f64::from(self.fragment_rows) * depth * element;
        (products * BESIDE_FRAGMENTS).max(products * BEHIND_FRAGMENTS + computed)
    }

    /// Elements of C a clock of the warpgroups that are in their epilogue at once.
    fn epilogue_rate(&self, staging: Staging) -> f64 {
        let staged_reads = if self.reads_boxes { STAGED_READS } else { 1.0 };
        match (self.shape.schedule, staging) {
            (Schedule::Cooperative, Staging::Boxes) if self.reads_boxes => COOPERATIVE_BOXES_READ,
            (Schedule::Cooperative, Staging::Boxes) => COOPERATIVE_BOXES,
            (Schedule::Cooperative, Staging::Accumulators) => COOPERATIVE_EPILOGUE / staged_reads,
            (Schedule::PingPong, Staging::Boxes) if self.reads_boxes => PING_PONG_BOXES_READ,
            (Schedule::PingPong, Staging::Boxes) => PING_PONG_BOXES,
            (Schedule::PingPong, Staging::Accumulators) => PING_PONG_EPILOGUE / staged_reads,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::ComputeCapability;

    #[test]
    fn l2_is_that_of_the_chip_whose_memory_is_most_alike() {
        let typical = Device::typical(ComputeCapability::SM_90);
        let rates = |bytes_per_second| {
            let device = Device { bytes_per_second, ..typical.clone() };
            [128.0, 64.0].map(|columns| l2_rate(columns, &device))
        };
        assert_eq!(rates(typical.bytes_per_second), [11000.0, 8400.0]);
        assert_eq!(rates(3.0e12), [6760.0, 6400.0]);
        assert_eq!(rates(2.0e12), [6760.0, 6400.0]);
    }
}
