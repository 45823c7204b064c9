//! Spells the epilogue of a matrix product whose warps each take a few rows and columns of the tile at a time, through a piece of
//! shared memory of their own.

use serde::Serialize;

use super::total::{Lanes, Total, TotalsText};
use super::{EpilogueParts, Origin, Outside, Place, PointText, part, pitch, statements, workspace_place};
use crate::codegen::index::{index_type, spell};
use crate::codegen::names;
use crate::codegen::sections::Used;
use crate::codegen::sweep::{SweepSpeller, accumulated_in_float};
use crate::codegen::template::{self, template};
use crate::error::Error;
use crate::graph::FinalizedGraph;
use crate::kernel::{Epilogue, FusedEpilogue, GemmKernel, Index, Number, Quantity, WGMMA_ROWS};

/// What `product/epilogue/staged.cuh` reads: how a warp walks its part of a tile.
#[derive(Serialize)]
struct StagedText {
    index: &'static str,
    /// Blocks of 64 rows that a warp has rows of, and pieces of its columns.
    blocks: u32,
    chunks: u32,
    /// Rows and columns of a piece.
    rows: u32,
    columns: u32,
    warp_row: String,
    /// For each piece: how accumulators go to it; and which one is a warp's, where it has several.
    cases: Vec<String>,
    case: String,
    /// What happens to a piece.
    body: String,
    totals: TotalsText,
}

/// What `product/epilogue/staged_vectors.cuh` reads.
#[derive(Serialize)]
struct VectorsText {
    /// Vectors of a piece, and of a lane; line and first point of number `i`.
    vectors: u32,
    passes: u32,
    line: String,
    piece: String,
    /// Vectors of a lane that are evaluated side by side.
    unroll: u32,
    point: PointText,
    evaluate: String,
}

/// What `product/epilogue/staged_to_workspace.cuh` reads.
#[derive(Serialize)]
struct WorkspaceText {
    index: &'static str,
    rows: u32,
    columns: u32,
    extents: [Number; 2],
    /// Place of an accumulator in the workspace, with the digits that tell it, and in the piece.
    digits: Vec<String>,
    guard: Option<String>,
    workspace: String,
    staged: String,
}

/// The parts of the epilogue; `warp_row` spells the first row of a warp in the tile, of block `rows`.
///
/// # Errors
/// [`Error::Generated`] if a template fails: a defect of ours.
pub(in crate::codegen::product) fn staged(
    graph: &FinalizedGraph,
    used: &mut Used,
    kernel: &GemmKernel,
    first_sum: u32,
    warp_row: String,
) -> Result<EpilogueParts, Error> {
    let staging = Staging::of(kernel);
    let put = names::put_function(&kernel.multiply, kernel.along_n);
    used.add(put);
    if staging.swizzled {
        used.add("fw_staged");
    }
    let (body, totals) = match &kernel.epilogue {
        Epilogue::Workspace { place } => (staging.to_workspace(place)?, TotalsText::default()),
        Epilogue::Fused(epilogue) => staging.fused(graph, used, epilogue)?,
    };
    let declarations = totals.declared_after(staging.declarations());
    let record = StagedText {
        index: index_type(kernel.wide_index),
        blocks: kernel.multiply.consumer_rows(kernel.tile) / WGMMA_ROWS,
        chunks: kernel.tile.n / staging.columns,
        rows: staging.rows,
        columns: staging.columns,
        warp_row,
        cases: staging.cases(put, first_sum),
        case: part(kernel.multiply.consumer_rows(kernel.tile) / WGMMA_ROWS, kernel.tile.n / staging.columns),
        body,
        totals,
    };
    let body = template::render(template!("product/epilogue/staged.cuh"), &record)?;
    Ok(EpilogueParts { declarations, ask: None, body, finish: None })
}

/// A warp's piece of the tile in shared memory.
struct Staging<'a> {
    kernel: &'a GemmKernel,
    rows: u32,
    columns: u32,
    pitch: u32,
    /// Whether the piece's rows are swizzled, so that `lane_c` is an index whose bits are exchanged.
    swizzled: bool,
}

impl<'a> Staging<'a> {
    fn of(kernel: &'a GemmKernel) -> Self {
        let [rows, columns] = kernel.multiply.staged(kernel.tile, kernel.along_n);
        let swizzled = kernel.multiply.stages_swizzled(kernel.tile, kernel.along_n);
        Self { kernel, rows, columns, pitch: pitch(kernel), swizzled }
    }

    /// The piece, and the place of the lane's first element in it.
    fn declarations(&self) -> String {
        let Self { kernel, rows, columns, pitch, .. } = self;
        let accumulator = names::register_type(kernel.multiply.accumulator());
        let (at, bytes) = (kernel.shared.epilogue, kernel.shared.epilogue_bytes);
        let piece = format!(
            "{accumulator}* const piece_c = reinterpret_cast<{accumulator}*>(shared_bytes + {at} + (warp - 4) * {bytes});  // of {rows} rows, {columns} columns"
        );
        let lane = match (self.swizzled, kernel.along_n) {
            (true, _) => format!("const unsigned lane_c = lane / 4 * {pitch} + fw_staged(lane / 4, lane % 4 * 2);"),
            (_, true) => format!("{accumulator}* const lane_c = piece_c + lane / 4 * {pitch} + lane % 4 * 2;"),
            (_, false) => format!("{accumulator}* const lane_c = piece_c + lane % 4 * {} + lane / 4;", 2 * pitch),
        };
        format!("{piece}\n{lane}")
    }

    /// A fragment of the accumulators is 16 rows by 8 columns: the rows of a warp.
    fn cases(&self, put: &str, first_sum: u32) -> Vec<String> {
        let Self { kernel, columns, pitch, .. } = *self;
        let blocks = kernel.multiply.consumer_rows(kernel.tile) / WGMMA_ROWS;
        let registers = kernel.multiply.fragment_registers();
        let fragment = |first: u32, number: u32| {
            let at = match (self.swizzled, kernel.along_n, number) {
                (true, ..) => format!("piece_c + (lane_c ^ {})", (8 * number) ^ (number / 4 * 4)),
                (false, _, 0) => "lane_c".to_owned(),
                (false, true, _) => format!("lane_c + {}", 8 * number),
                (false, false, _) => format!("lane_c + {}", 8 * number * pitch),
            };
            format!("{put}<{}, {pitch}>({at});", first + registers * number)
        };
        let chunk = |number: u32| {
            let first = first_sum + number * columns / 8 * registers;
            statements((0..columns / 8).map(|number| fragment(first, number)))
        };
        (0..blocks * kernel.tile.n / columns).map(chunk).collect()
    }

    fn to_workspace(&self, accumulators: &[(Quantity, Number)]) -> Result<String, Error> {
        let [_, m, n, _] = self.kernel.space.numbers();
        let staged = match self.swizzled {
            true => "line * 64 + fw_staged(line, piece)".to_owned(),
            false => format!("line * {} + piece", self.pitch),
        };
        let Place { digits, guard, index: workspace } = workspace_place(self.kernel, accumulators, "split");
        let index = index_type(self.kernel.wide_index);
        let (rows, columns) = (self.rows, self.columns);
        let record = WorkspaceText { index, rows, columns, extents: [m, n], digits, guard, workspace, staged };
        template::render(template!("product/epilogue/staged_to_workspace.cuh"), &record)
    }

    /// What happens to a piece, and what around the loops over pieces.
    fn fused(
        &self,
        graph: &FinalizedGraph,
        used: &mut Used,
        epilogue: &FusedEpilogue,
    ) -> Result<(String, TotalsText), Error> {
        let FusedEpilogue { sweep, digits, reductions, .. } = epilogue;
        let kernel = self.kernel;
        let vector = sweep.vector as u32;
        let line = if kernel.along_n { self.columns } else { self.rows };
        let vectors = self.rows * self.columns / vector;
        let line_vectors = line / vector;
        let passes = vectors.div_ceil(32);
        let accumulations: Vec<_> = reductions.iter().map(|reduction| reduction.accumulation).collect();
        let mut speller = SweepSpeller::new(graph, used, sweep, &accumulations).with_variables(digits.iter().copied());
        let point = speller.point();
        let values: Vec<String> = reductions
            .iter()
            .map(|reduction| accumulated_in_float(&mut speller.speller, reduction.accumulation.source))
            .collect();
        let mut text = speller.text(&[], "");
        let mut totals = TotalsText::default();
        for (number, (reduction, value)) in reductions.iter().zip(values).enumerate() {
            let lanes = Lanes::Vectors { vector, vectors, passes, line_vectors };
            let total = Total { kernel, reduction, number, lanes };
            text.body.push(total.combined(used, value, point));
            text.uses.extend(total.uses());
            total.walk(used, &mut totals)?;
        }
        if !self.swizzled {
            let accumulator = names::register_type(kernel.multiply.accumulator());
            let at = format!("const {accumulator}* const tile_at = piece_c + line * {} + piece;", self.pitch);
            text.before.insert(0, at);
        }
        let i = || Index::local("i");
        let record = VectorsText {
            vectors,
            passes,
            line: spell(&(i() / i64::from(line_vectors))),
            piece: spell(&(i() % i64::from(line_vectors) * sweep.vector)),
            unroll: kernel.tuning.vectors_at_once,
            point: PointText::new(kernel, &text.uses, Origin::WARP, sweep.vector, Outside::PassedOver),
            evaluate: text.evaluate()?,
        };
        let body = template::render(template!("product/epilogue/staged_vectors.cuh"), &record)?;
        Ok((body, totals))
    }
}
