//! What is chosen for the speed of a product alone: unrolling, registers, when loads start.

use crate::kernel::{
    Boxes, Epilogue, Fetch, GemmTile, Mma, Multiply, Operand, PartialReduction, Sweep, Tuning, Value, WGMMA_ROWS, Wgmma,
};

/// Columns of a tile up to which computing a fragment takes longer than its products. Not tuned.
const NARROW_COLUMNS: u32 = 64;

/// Accumulators of a thread from which few registers are left beside them.
const MANY_ACCUMULATORS: u32 = 160;

/// A product whose loops are to be tuned.
pub(super) struct Tuned<'a> {
    pub(super) multiply: Multiply,
    pub(super) tile: GemmTile,
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
            boxes_ahead: match self.multiply {
                Multiply::Wgmma(Wgmma { stages, .. }) => stages - 2,
                _ => 0,
            },
            fragments_at_once: self.tile.n <= NARROW_COLUMNS,
            step_columns: self.step_columns(),
            vectors_at_once: self.vectors_at_once(),
        }
    }

    /// Two; where a warpgroup loads, as many as divide its passes, at most four.
    fn pieces_under_way(&self, slot: usize) -> u32 {
        let Multiply::Wgmma(_) = self.multiply else { return 2 };
        let rows = [self.tile.m, self.tile.n][slot];
        let pieces = rows * self.tile.k / self.operands[slot].sweep.vector as u32;
        let passes = pieces.div_ceil(self.multiply.loaders(self.tile));
        [4, 2].into_iter().find(|unroll| passes.is_multiple_of(*unroll)).unwrap_or(1)
    }

    /// The middle of a step; with two sets of fragments tiles are asked for all at once (4096³ on an H200: 427 against
    /// 424 TFLOP/s with two sets, 422 against 372 with one).
    fn halfway(&self) -> u32 {
        match self.multiply {
            Multiply::Mma(Mma { operand, fragments: 1, .. }) => self.tile.k * operand.bytes() / 64,
            _ => 0,
        }
    }

    /// What a thread needs that asks for boxes alone, and one that computes.
    fn producer_registers(&self) -> u32 {
        let Multiply::Wgmma(Wgmma { fills, sums, .. }) = self.multiply else { return 0 };
        match (fills, sums.sets() * self.multiply.sum_registers(self.tile)) {
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
        let Some((sweep, _, Some(boxes))) = self.fused() else { return 0 };
        let columns = match computed_steps(sweep) {
            _ if self.multiply.sum_registers(self.tile) > MANY_ACCUMULATORS => 16,
            0..=3 if !self.keeps_wide_fragments() => 64,
            0..=5 => 32,
            _ => 16,
        };
        boxes.columns.min(columns)
    }

    /// Whether a warpgroup computes an operand for more rows than an instruction has: fragments of two products are in registers at once.
    fn keeps_wide_fragments(&self) -> bool {
        let computes = self.operands.iter().any(|operand| matches!(operand.fetch, Fetch::Fragments(_)));
        computes && self.multiply.consumer_rows(self.tile) > WGMMA_ROWS
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

/// Values of a program that are computed, not loaded.
fn computed_steps(sweep: &Sweep) -> usize {
    sweep.program.steps.iter().filter(|step| step.value != Value::Load).count()
}
