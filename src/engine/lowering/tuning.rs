//! What is chosen for the speed of a product alone: unrolling, registers, when loads start.

use crate::kernel::{
    Boxes, Epilogue, Fetch, GemmTile, Mma, Multiply, Operand, PartialReduction, Sweep, Tuning, Value, WGMMA_ROWS, Wgmma,
};

/// Columns of a tile up to which computing a fragment takes longer than its products. Not tuned.
const NARROW_COLUMNS: u32 = 64;

/// Accumulators of a thread from which few registers are left beside them; and up to which many are.
const MANY_ACCUMULATORS: u32 = 160;
const FEW_ACCUMULATORS: u32 = 64;

/// Registers of a lane for the totals of columns at most; and beside many other values: of operands, and of rows that are none of C. Not
/// tuned.
const TOTALS: u32 = 32;
const TOTALS_BESIDE_FRAGMENTS: u32 = 16;

/// A product whose loops are to be tuned.
pub(super) struct Tuned<'a> {
    pub(super) multiply: Multiply,
    pub(super) tile: GemmTile,
    /// Rows and columns of C.
    pub(super) extents: [i64; 2],
    /// Whether some rows of tiles are none of C.
    pub(super) tells_rows: bool,
    pub(super) operands: [&'a Operand; 2],
    pub(super) epilogue: &'a Epilogue,
    pub(super) along_n: bool,
}

impl Tuned<'_> {
    pub(super) fn tuning(&self) -> Tuning {
        Tuning {
            pieces_under_way: [0, 1].map(|slot| self.pieces_under_way(slot)),
            load_in_part: [0, self.halfway()],
            producer_registers: self.producer_registers(),
            boxes_apart: self.boxes_apart(),
            boxes_ahead: self.boxes_ahead(),
            copies_ahead: self.copies_ahead(),
            fragments_at_once: self.tile.n <= NARROW_COLUMNS,
            step_columns: self.step_columns(),
            keeps_totals: self.keeps_totals(),
            vectors_at_once: self.vectors_at_once(),
        }
    }

    /// Two; where a warpgroup loads, as many as divide its passes, at most four through registers and eight copies.
    fn pieces_under_way(&self, slot: usize) -> u32 {
        let Multiply::Wgmma(_) = self.multiply else { return 2 };
        let rows = [self.tile.m, self.tile.n][slot];
        let pieces = rows * self.tile.k / self.operands[slot].sweep.vector as u32;
        let passes = pieces.div_ceil(self.multiply.loaders(self.tile));
        let most = if self.operands[slot].fetch == Fetch::Async { 8 } else { 4 };
        [most, 4, 2].into_iter().find(|unroll| passes.is_multiple_of(*unroll)).unwrap_or(1)
    }

    /// The middle of a step; with two sets of fragments tiles are asked for all at once (4096³ on an H200: 427 against
    /// 424 TFLOP/s with two sets, 422 against 372 with one).
    fn halfway(&self) -> u32 {
        match self.multiply {
            Multiply::Mma(Mma { operand, fragments: 1, .. }) => self.tile.k * operand.bytes() / 64,
            _ => 0,
        }
    }

    /// Whether what is computed arrives at places of its own, which are free once it is turned: nothing is transformed in place.
    fn boxes_apart(&self) -> bool {
        let is_turned = |operand: &&Operand| matches!(operand.fetch, Fetch::Turned(_));
        let is_apart = |operand: &&Operand| matches!(operand.fetch, Fetch::Turned(_) | Fetch::Tma(_));
        let boxed = || self.operands.iter().filter(|operand| operand.map().is_some());
        boxed().any(is_turned) && boxed().all(is_apart)
    }

    /// As many steps as there are stages where boxes arrive apart; else two fewer, as a place is free once it has been multiplied, and who asks
    /// should not wait for that.
    fn boxes_ahead(&self) -> u32 {
        match self.multiply {
            Multiply::Wgmma(Wgmma { stages, .. }) if self.boxes_apart() => stages,
            Multiply::Wgmma(Wgmma { stages, .. }) => stages - 2,
            _ => 0,
        }
    }

    /// Two fewer than there are stages: one is multiplied while the next one is there.
    fn copies_ahead(&self) -> u32 {
        match self.multiply {
            Multiply::Wgmma(Wgmma { stages, .. }) => stages.saturating_sub(2).max(1),
            _ => 0,
        }
    }

    /// What a thread needs that asks for boxes alone, and one that computes.
    fn producer_registers(&self) -> u32 {
        let Multiply::Wgmma(Wgmma { fills, sums, blocks, .. }) = self.multiply else { return 0 };
        match (fills, sums.sets() * self.multiply.sum_registers(self.tile)) {
            (false, _) if blocks > 2 => 24,
            (false, _) if blocks > 1 => 32,
            (false, 0..MANY_ACCUMULATORS) => 40,
            (false, _) => 24,
            (true, _) => 88,
        }
    }

    fn fused(&self) -> Option<(&Sweep, &[PartialReduction], Option<&Boxes>)> {
        match self.epilogue {
            Epilogue::Fused(fused) => Some((&fused.sweep, &fused.reductions, fused.boxes.as_ref())),
            Epilogue::Workspace { .. } => None,
        }
    }

    /// Few values to compute leave registers, and time to compile, for many fragments side by side.
    fn step_columns(&self) -> u32 {
        let Some((sweep, reductions, Some(boxes))) = self.fused() else { return 0 };
        let columns = match computed_steps(sweep) {
            _ if self.multiply.sum_registers(self.tile) > MANY_ACCUMULATORS => 16,
            0..=3 if !self.keeps_wide_fragments() => 64,
            0..=5 => 32,
            _ => 16,
        };
        let is_full = !self.has_few_accumulators() && self.keeps_fragments() && self.tells_rows;
        let most = if is_full { TOTALS_BESIDE_FRAGMENTS } else { TOTALS };
        let has_room = |columns: &u32| totals_of_columns(reductions, *columns) <= most;
        let with_totals = [64, 32].into_iter().find(has_room).unwrap_or(16);
        boxes.columns.min(columns).min(with_totals)
    }

    /// Where all columns of C are treated at once, beside few accumulators.
    fn keeps_totals(&self) -> bool {
        let Some((_, reductions, Some(_))) = self.fused() else { return false };
        let is_one_step = self.extents[1] <= i64::from(self.tile.n) && self.step_columns() == self.tile.n;
        is_one_step && self.has_few_accumulators() && totals_of_columns(reductions, self.tile.n) <= TOTALS
    }

    fn has_few_accumulators(&self) -> bool {
        let Multiply::Wgmma(Wgmma { sums, .. }) = self.multiply else { return false };
        sums.sets() * self.multiply.sum_registers(self.tile) <= FEW_ACCUMULATORS
    }

    /// Whether a warpgroup computes an operand for more rows than an instruction has: fragments of two products are in registers at once.
    fn keeps_wide_fragments(&self) -> bool {
        self.keeps_fragments() && self.multiply.consumer_rows(self.tile) > WGMMA_ROWS
    }

    /// Whether the warps that multiply compute an operand.
    fn keeps_fragments(&self) -> bool {
        self.operands.iter().any(|operand| matches!(operand.fetch, Fetch::Fragments(_)))
    }

    /// Few steps leave registers, and time to compile, for vectors side by side: their loads overlap. Totals of a lane's rows
    /// are told apart by the compiler alone.
    fn vectors_at_once(&self) -> u32 {
        const FEW_STEPS: usize = 4;
        let (Multiply::Wgmma(_), Some((sweep, reductions, None))) = (self.multiply, self.fused()) else { return 1 };
        let [rows, columns] = self.multiply.staged(self.tile, self.along_n);
        let passes = (rows * columns / sweep.vector as u32).div_ceil(32);
        let keeps_rows = reductions.iter().any(|reduction| matches!(reduction.reduced, [_, false, true]));
        let has_registers = self.multiply.sum_registers(self.tile) < MANY_ACCUMULATORS;
        match (keeps_rows, computed_steps(sweep) <= FEW_STEPS, has_registers) {
            (true, ..) => passes,
            (_, true, true) => passes.min(2),
            _ => 1,
        }
    }
}

/// Registers of a lane for the totals of so many columns, as fragments of the accumulators hold them.
fn totals_of_columns(reductions: &[PartialReduction], columns: u32) -> u32 {
    const LANES_OF_A_ROW: u32 = 4;
    let kept = reductions.iter().filter(|reduction| matches!(reduction.reduced, [_, true, false]));
    kept.count() as u32 * columns / LANES_OF_A_ROW
}

/// Values of a program that are computed, not loaded.
fn computed_steps(sweep: &Sweep) -> usize {
    sweep.program.steps.iter().filter(|step| step.value != Value::Load).count()
}
