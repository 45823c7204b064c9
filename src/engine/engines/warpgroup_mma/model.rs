//! What a candidate is expected to cost: a model to rank by. What it ranks first is held against measured tiles in
//! `docs/performance-notes.md`.

use super::shape::{Candidate, ROW_BYTES, Shape, Staging};
use crate::device::Device;
use crate::engine::lowering::{Straddling, combination_seconds};
use crate::engine::{Bound, Estimate, Term, Waves};
use crate::kernel::{Schedule, Sums};

/// Clocks a second, between those of a rested H200 (1.98e9) and of one at its power limit (1.45e9).
pub(super) const CLOCK: f64 = 1.6e9;

/// Clocks from a block's start to its first full stage (seen on an H200).
const FILL: f64 = 2400.0;

/// Bytes a clock that all multiprocessors together get from L2, by columns of a tile (seen on an H200).
pub(super) const L2_WIDE: f64 = 10000.0;
const L2_NARROW: f64 = 6000.0;

/// How often rows of boxes that straddle lines of L2 are read from there, by the index along which they run (4096³ in FP16 and its
/// neighbours with k = 4088 and n = 4104 on an H200: 195 µs where rows are lines, 225 where those of A are not, 318 where
/// those of A and B are not, 270 where B's run along n and are not).
const STRADDLING_ALONG_K: f64 = 2.4;
const STRADDLING_ALONG_OUTER: f64 = 3.0;

/// How many times what rows of an operand hold is read from L2.
pub(super) fn l2_reads(straddling: Option<Straddling>) -> f64 {
    match straddling {
        None => 1.0,
        Some(Straddling::AlongK) => STRADDLING_ALONG_K,
        Some(Straddling::AlongOuter) => STRADDLING_ALONG_OUTER,
    }
}

/// Part of the multiprocessors that reads as fast as all: an estimate.
const ENOUGH_BLOCKS: f64 = 0.75;

/// Clocks of a multiprocessor for an element that the first warpgroup computes on its way to shared memory (seen on an H200:
/// 0.23 for `mm_g1_rowscale_relu_f16`, 0.18 for `mm_mixed_bf16_i8_m4096`); one that is turned is taken for as dear. Since then elements of 16
/// bits are computed in pairs, in a third of the instructions; the clocks of that are not measured yet.
const COMPUTED_ELEMENT: f64 = 0.2;

/// The same for an element that the multiplying warps compute in their registers: where two warpgroups multiply at once, and
/// where one does; and by how much products take longer, beside and behind it (fitted to the tiles of
/// `mm_mixed_bf16_i8_m4096` on an H200).
const FRAGMENT_ELEMENT: f64 = 0.078;
const LONE_FRAGMENT_ELEMENT: f64 = 0.125;
const BESIDE_FRAGMENTS: f64 = 1.1;
const BEHIND_FRAGMENTS: f64 = 0.53;

/// What adding partial sums up in FP32 costs beside the products of the other warpgroup (an estimate), and where the other
/// does not multiply meanwhile (seen on an H200: `mm_fp8_mlp`).
const PROMOTION: f64 = 1.03;
const LONE_PROMOTION: f64 = 1.5;

/// Elements of C a clock in the epilogue of both warpgroups, and of one beside the other's products: through shared memory
/// (estimates), and by boxes (fitted to the batched product of the suite; where boxes are read, to those with a bias).
const COOPERATIVE_EPILOGUE: f64 = 6.0;
const PING_PONG_EPILOGUE: f64 = 3.0;
const COOPERATIVE_BOXES: f64 = 10.0;
const COOPERATIVE_BOXES_READ: f64 = 5.0;
const PING_PONG_BOXES: f64 = 4.0;

impl Candidate<'_> {
    /// Estimated time in clocks: the longest of tensor cores, shared memory, L2 and memory for the tiles of a
    /// multiprocessor, the pipeline's first fill, the epilogues that nothing hides, and sums that go through the workspace.
    pub(super) fn estimate(&self, splits: u32, staging: Staging, through_workspace: bool, device: &Device) -> Estimate {
        let Shape { m, n, schedule } = self.shape;
        let [batch, rows, columns, _] = self.extents.map(|extent| extent as f64);
        let (m, n, bytes) = (f64::from(m), f64::from(n), f64::from(self.operand.bytes()));
        let sms = f64::from(device.sm_count);
        let units = self.tiles() as f64 * f64::from(splits);
        let waves = Waves::of(units, sms);
        let depth = (self.steps() / f64::from(splits)).ceil() * f64::from(ROW_BYTES) / bytes;
        let promotion = match schedule {
            _ if self.sums != Sums::Promoted => 1.0,
            Schedule::Cooperative => PROMOTION,
            Schedule::PingPong => LONE_PROMOTION,
        };
        let rate = 8192.0 / bytes;
        let computed = f64::from(self.computed_rows) * depth * COMPUTED_ELEMENT;
        let mma = self.with_fragments(m * n * depth * 2.0 / rate * promotion, depth);
        let shared = depth * bytes * (m / 64.0) * (64.0 + n) / 128.0;
        let l2_rate = if n >= 128.0 { L2_WIDE } else { L2_NARROW };
        let [reads_a, reads_b] = self.l2_reads;
        let l2 = depth * bytes * (m * reads_a + n * reads_b) * sms.min(units) / l2_rate;
        let moved = self.operand_elements * bytes + batch * rows * columns * 2.0;
        let reached = (sms.min(units) / (ENOUGH_BLOCKS * sms)).min(1.0);
        let memory = moved / (device.bytes_per_second / CLOCK * reached);
        let tile = mma.max(shared).max(l2).max(computed);
        let epilogue = m * n / self.epilogue_rate(staging);
        let (exposed, last) = match schedule {
            Schedule::Cooperative => (epilogue, 0.0),
            // both warpgroups may be in their epilogues while nothing is multiplied
            Schedule::PingPong => (((epilogue - tile) / 2.0).max(0.0), epilogue),
        };
        let combination =
            if through_workspace { combination_seconds(self.extents, splits, device) * CLOCK } else { 0.0 };
        let term = |bound, time| Term { bound, time };
        // nothing hides the last epilogue
        let of_tiles = |bound, time| term(bound, waves.count * time + (waves.count - 1.0) * exposed);
        Estimate {
            at_once: vec![
                of_tiles(Bound::MatrixRate, mma),
                of_tiles(Bound::SharedMemory, shared),
                of_tiles(Bound::L2, l2),
                of_tiles(Bound::Operands, computed),
                term(Bound::Memory, memory),
            ],
            on_top: vec![
                term(Bound::Copies, self.copy_seconds(device) * CLOCK),
                term(Bound::Fill, FILL),
                term(Bound::Epilogue, exposed),
                term(Bound::Epilogue, last),
                term(Bound::Workspace, combination),
            ],
            waves: Some(waves),
        }
    }

    /// Clocks of a tile's products where the multiplying warps compute their fragments of A, which products hide in part.
    fn with_fragments(&self, products: f64, depth: f64) -> f64 {
        let element = match self.shape.schedule {
            _ if self.fragment_rows == 0 => return products,
            Schedule::Cooperative => FRAGMENT_ELEMENT,
            Schedule::PingPong => LONE_FRAGMENT_ELEMENT,
        };
        let computed = f64::from(self.fragment_rows) * depth * element;
        (products * BESIDE_FRAGMENTS).max(products * BEHIND_FRAGMENTS + computed)
    }

    /// Elements of C a clock of the warpgroups that are in their epilogue at once.
    fn epilogue_rate(&self, staging: Staging) -> f64 {
        match (self.shape.schedule, staging) {
            (Schedule::Cooperative, Staging::Boxes) if self.reads_boxes => COOPERATIVE_BOXES_READ,
            (Schedule::Cooperative, Staging::Boxes) => COOPERATIVE_BOXES,
            (Schedule::Cooperative, Staging::Accumulators) => COOPERATIVE_EPILOGUE,
            (Schedule::PingPong, Staging::Boxes) => PING_PONG_BOXES,
            (Schedule::PingPong, Staging::Accumulators) => PING_PONG_EPILOGUE,
        }
    }
}
