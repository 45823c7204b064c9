//! Spells the epilogue of a matrix product whose warps each take a few rows and columns of the tile at a time.

use serde::Serialize;

use super::gemm_epilogue::{coordinate_lines, pitch, workspace_index};
use super::names;
use super::sections::Used;
use super::sweep::{SweepSpeller, SweepText, accumulated_in_float};
use super::warp_total::{Lanes, Total, TotalsText};
use crate::graph::FinalizedGraph;
use crate::kernel::{Epilogue, GemmKernel, PartialReduction, Sweep};

/// What `epilogue/warp.cuh` reads beside the sweep.
#[derive(Default, Serialize)]
pub(super) struct WarpEpilogueText {
    /// Place of an accumulator in the workspace, if they go there.
    workspace: Option<String>,
    /// Rows and columns that a warp takes at a time, and how often it takes columns.
    rows: u32,
    columns: u32,
    chunks: u32,
    /// Whether the piece's rows are swizzled, so that `lane_c` is an index whose bits are exchanged.
    swizzled: bool,
    /// Where the warps' pieces begin, and their bytes.
    staging_at: u32,
    piece_bytes: u32,
    /// Place of an accumulator in the piece.
    staged: String,
    /// Place of the lane's first element in the piece.
    lane_c: String,
    /// For each time: how accumulators go to the piece.
    cases: Vec<Vec<String>>,
    /// Vectors of a piece, of a line of it, and of a lane.
    vectors: u32,
    line_vectors: u32,
    passes: u32,
    /// Vectors of a lane that are evaluated side by side.
    unroll: u32,
    coordinates: Vec<String>,
    totals: TotalsText,
}

pub(super) fn epilogue(
    graph: &FinalizedGraph,
    used: &mut Used,
    kernel: &GemmKernel,
    first_sum: u32,
    staging_at: u32,
) -> (WarpEpilogueText, Option<SweepText>) {
    let [rows, columns] = kernel.multiply.staged(kernel.tile, kernel.along_n);
    let pitch = pitch(kernel);
    let swizzled = kernel.multiply.stages_swizzled(kernel.tile, kernel.along_n);
    let lane_c = if swizzled {
        used.add("fw_staged");
        format!("lane / 4 * {pitch} + fw_staged(lane / 4, lane % 4 * 2)")
    } else if kernel.along_n {
        format!("lane / 4 * {pitch} + lane % 4 * 2")
    } else {
        format!("lane % 4 * 2 * {pitch} + lane / 4")
    };
    let put = names::put_function(&kernel.multiply, kernel.along_n);
    used.add(put);
    let mut text = WarpEpilogueText {
        rows,
        columns,
        chunks: kernel.tile.n / columns,
        swizzled,
        staging_at,
        piece_bytes: kernel.shared.epilogue_bytes,
        lane_c,
        cases: cases(kernel, put, first_sum),
        ..WarpEpilogueText::default()
    };
    match &kernel.epilogue {
        Epilogue::Workspace { strides } => {
            text.workspace = Some(workspace_index(kernel, *strides, "split"));
            text.staged = if swizzled {
                "line * 64 + fw_staged(line, piece)".to_owned()
            } else {
                format!("line * {pitch} + piece")
            };
            (text, None)
        }
        Epilogue::Fused { sweep, digits, reductions, boxes: _ } => {
            let sweep = fused(graph, used, kernel, sweep, digits, reductions, &mut text);
            (text, Some(sweep))
        }
    }
}

/// A fragment of the accumulators is 16 rows by 8 columns: the rows of a warp.
fn cases(kernel: &GemmKernel, put: &str, first_sum: u32) -> Vec<Vec<String>> {
    let [_, columns] = kernel.multiply.staged(kernel.tile, kernel.along_n);
    let pitch = pitch(kernel);
    let blocks = kernel.multiply.consumer_rows(kernel.tile) / crate::kernel::WGMMA_ROWS;
    let swizzled = kernel.multiply.stages_swizzled(kernel.tile, kernel.along_n);
    let registers = kernel.multiply.fragment_registers();
    let fragment = |first: u32, number: u32| {
        let at = match (swizzled, kernel.along_n, number) {
            (true, ..) => format!("piece_c + (lane_c ^ {})", (8 * number) ^ (number / 4 * 4)),
            (false, _, 0) => "lane_c".to_owned(),
            (false, true, _) => format!("lane_c + {}", 8 * number),
            (false, false, _) => format!("lane_c + {}", 8 * number * pitch),
        };
        format!("{put}<{}, {pitch}>({at});", first + registers * number)
    };
    let chunk = |number: u32| {
        let first = first_sum + number * columns / 8 * registers;
        (0..columns / 8).map(|number| fragment(first, number)).collect()
    };
    (0..blocks * kernel.tile.n / columns).map(chunk).collect()
}

fn fused(
    graph: &FinalizedGraph,
    used: &mut Used,
    kernel: &GemmKernel,
    sweep: &Sweep,
    digits: &[&'static str],
    reductions: &[PartialReduction],
    record: &mut WarpEpilogueText,
) -> SweepText {
    let vector = sweep.vector as u32;
    let [rows, columns] = kernel.multiply.staged(kernel.tile, kernel.along_n);
    let line = if kernel.along_n { columns } else { rows };
    record.vectors = rows * columns / vector;
    record.line_vectors = line / vector;
    record.passes = record.vectors.div_ceil(32);
    record.unroll = kernel.tuning.vectors_at_once;
    let names = digits.iter().map(|&name| name.to_owned()).collect();
    let accumulations: Vec<_> = reductions.iter().map(|reduction| reduction.accumulation).collect();
    let mut speller = SweepSpeller::new(graph, used, sweep, &accumulations).with_names(names);
    let values: Vec<String> = reductions
        .iter()
        .map(|reduction| accumulated_in_float(&mut speller.speller, reduction.accumulation.source))
        .collect();
    let mut text = speller.text(&[], "");
    for (number, (reduction, value)) in reductions.iter().zip(values).enumerate() {
        let lanes = Lanes::Vectors {
            vector,
            vectors: record.vectors,
            passes: record.passes,
            line_vectors: record.line_vectors,
        };
        let total = Total { kernel, reduction, number, lanes };
        text.body.push(total.combined(used, value));
        total.walk(used, &mut record.totals);
    }
    let accumulator = names::register_type(kernel.multiply.accumulator());
    if !kernel.multiply.stages_swizzled(kernel.tile, kernel.along_n) {
        let at = format!("const {accumulator}* const tile_at = piece_c + line * {} + piece;", pitch(kernel));
        text.before.insert(0, at);
    }
    record.coordinates = coordinate_lines(kernel, &text, ["warp_m0", "chunk_n0"]);
    text
}
