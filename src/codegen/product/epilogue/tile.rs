//! Spells the epilogue of a matrix product on a tile of C in shared memory, which the threads of a block walk together.

use serde::Serialize;

use super::{Origin, Outside, Partial, Place, PointText, workspace_place};
use crate::codegen::index::{index_type, spell};
use crate::codegen::names;
use crate::codegen::sections::Used;
use crate::codegen::sweep::{SweepSpeller, accumulated_in_float, mapped};
use crate::codegen::template::{self, template};
use crate::error::Error;
use crate::graph::{FinalizedGraph, TensorId};
use crate::kernel::{Epilogue, FusedEpilogue, GemmKernel, Index, Number, PartialReduction, Quantity, reduced_values};

/// What `product/epilogue/tile_to_workspace.cuh` reads.
#[derive(Serialize)]
struct WorkspaceText {
    threads: u32,
    index: &'static str,
    m: u32,
    n: u32,
    extents: [Number; 2],
    /// Place of an accumulator in the workspace, with the digits that tell it, and in the tile.
    digits: Vec<String>,
    guard: Option<String>,
    workspace: String,
    at: String,
}

/// What `product/epilogue/tile.cuh` reads.
#[derive(Serialize)]
struct TileText {
    threads: u32,
    /// Tiles of the values that reductions start from.
    values: Vec<String>,
    /// Vectors of the tile, and line and first point of number `i`.
    vectors: i64,
    line: String,
    piece: String,
    point: PointText,
    evaluate: String,
    reductions: Vec<String>,
}

/// The block's own part of a reduction: what `product/epilogue/reduction.cuh` reads.
#[derive(Serialize)]
struct ReductionText {
    threads: u32,
    index: &'static str,
    combine: &'static str,
    identity: String,
    /// How threads walk the tile: one of the three.
    kept: Option<KeptText>,
    every: bool,
    /// Rows and columns of the tile, and of C.
    block: [u32; 2],
    extents: [Number; 2],
    /// The value at `m_in`, `n_in`, and where the part's result goes.
    value: String,
    partial: usize,
    at: String,
}

/// A thread for each kept row or column.
#[derive(Serialize)]
struct KeptText {
    kept: WalkText,
    reduced: WalkText,
}

/// An index within its tile.
#[derive(Serialize)]
struct WalkText {
    index: &'static str,
    block: u32,
    extent: Number,
}

/// Elements from a line of the accumulator tile to the next.
pub(in crate::codegen::product) fn pitch(kernel: &GemmKernel) -> u32 {
    kernel.multiply.staged_pitch(kernel.tile, kernel.along_n)
}

/// Place of a row and a column in the accumulator tile.
pub(in crate::codegen::product) fn accumulator_at(kernel: &GemmKernel, row: Index, column: Index) -> Index {
    let pitch = i64::from(pitch(kernel));
    if kernel.along_n { row * pitch + column } else { column * pitch + row }
}

fn place(kernel: &GemmKernel) -> String {
    spell(&accumulator_at(kernel, Index::local("m_in"), Index::local("n_in")))
}

/// The epilogue of a tile.
///
/// # Errors
/// [`Error::Generated`] if a template fails: a defect of ours.
pub(in crate::codegen::product) fn tile(
    graph: &FinalizedGraph,
    used: &mut Used,
    kernel: &GemmKernel,
) -> Result<String, Error> {
    match &kernel.epilogue {
        Epilogue::Workspace { place } => to_workspace(kernel, place),
        Epilogue::Fused(epilogue) => fused(graph, used, kernel, epilogue),
    }
}

fn to_workspace(kernel: &GemmKernel, accumulators: &[(Quantity, Number)]) -> Result<String, Error> {
    let [_, m, n, _] = kernel.space.numbers();
    let Place { digits, guard, index } = workspace_place(kernel, accumulators, "blockIdx.y");
    let record = WorkspaceText {
        threads: kernel.multiply.threads(kernel.tile),
        index: index_type(kernel.wide_index),
        m: kernel.tile.m,
        n: kernel.tile.n,
        extents: [m, n],
        digits,
        guard,
        workspace: index,
        at: place(kernel),
    };
    template::render(template!("product/epilogue/tile_to_workspace.cuh"), &record)
}

fn fused(
    graph: &FinalizedGraph,
    used: &mut Used,
    kernel: &GemmKernel,
    epilogue: &FusedEpilogue,
) -> Result<String, Error> {
    let FusedEpilogue { sweep, digits, reductions, .. } = epilogue;
    let sources = reduced_values(reductions.iter().map(|reduction| &reduction.accumulation));
    let accumulations: Vec<_> = reductions.iter().map(|reduction| reduction.accumulation).collect();
    let mut speller = SweepSpeller::new(graph, used, sweep, &accumulations).with_variables(digits.iter().copied());
    let kept = keep_values(&mut speller, kernel, &sources);
    let mut text = speller.text(&[], "");
    text.body.extend(kept);
    text.before.insert(0, tile_at(kernel));
    let row = if kernel.along_n { kernel.tile.n } else { kernel.tile.m };
    let row_vectors = i64::from(row) / sweep.vector;
    let i = || Index::local("i");
    let mut spelled = Vec::new();
    for (number, reduction) in reductions.iter().enumerate() {
        spelled.push(partial(used, kernel, (number, reduction), &sources)?);
    }
    let record = TileText {
        threads: kernel.multiply.threads(kernel.tile),
        values: value_tiles(kernel, reductions, &sources),
        vectors: i64::from(kernel.tile.m * kernel.tile.n) / sweep.vector,
        line: spell(&(i() / row_vectors)),
        piece: spell(&(i() % row_vectors * sweep.vector)),
        point: PointText::new(kernel, &text.uses, Origin::TILE, sweep.vector, Outside::PassedOver),
        evaluate: text.evaluate()?,
        reductions: spelled,
    };
    template::render(template!("product/epilogue/tile.cuh"), &record)
}

fn tile_at(kernel: &GemmKernel) -> String {
    let accumulator = names::register_type(kernel.multiply.accumulator());
    format!("const {accumulator}* const tile_at = tile_c + line * {} + piece;", pitch(kernel))
}

/// Tiles of reduced values; the first replaces the accumulators it came from.
fn value_tiles(kernel: &GemmKernel, reductions: &[PartialReduction], sources: &[TensorId]) -> Vec<String> {
    let floats = |bytes: u32| bytes / 4;
    let tile = floats(kernel.shared.epilogue_bytes);
    let mut lines = Vec::new();
    for number in 0..sources.len() as u32 {
        let offset = if number == 0 { String::new() } else { format!(" + {}", number * tile) };
        lines.push(format!("float* const values{number} = reinterpret_cast<float*>(shared_bytes){offset};"));
    }
    let reduces_to_one = |reduction: &PartialReduction| reduction.reduced[1] && reduction.reduced[2];
    if reductions.iter().any(reduces_to_one) {
        lines.push(format!("float* const totals = values0 + {};", floats(kernel.shared.totals)));
    }
    lines
}

/// Lines that keep the reduced values of a point.
fn keep_values(speller: &mut SweepSpeller<'_>, kernel: &GemmKernel, sources: &[TensorId]) -> Vec<String> {
    let pitch = i64::from(pitch(kernel));
    let at = Index::local("line") * pitch + Index::local("piece");
    let at = spell(&if speller.sweep.vector > 1 { at + Index::local(speller.point()) } else { at });
    let keep = |(number, &source): (usize, &TensorId)| {
        let value = accumulated_in_float(&mut speller.speller, source);
        format!("values{number}[{at}] = {value};")
    };
    sources.iter().enumerate().map(keep).collect()
}

/// Reduces the block's tile to one value for each kept element of it.
fn partial(
    used: &mut Used,
    kernel: &GemmKernel,
    (number, reduction): (usize, &PartialReduction),
    sources: &[TensorId],
) -> Result<String, Error> {
    let combine = names::combine_function(reduction.accumulation.combine);
    used.add(combine);
    let source = sources.iter().position(|&source| source == reduction.accumulation.source).unwrap_or_default();
    let value = mapped(used, reduction.accumulation.map, format!("values{source}[{}]", place(kernel)));
    if reduction.reduced[1] && reduction.reduced[2] {
        used.add("fw_block_total");
    }
    let [_, m, n, _] = kernel.space.numbers();
    let row = || WalkText { index: "m", block: kernel.tile.m, extent: m };
    let column = || WalkText { index: "n", block: kernel.tile.n, extent: n };
    let kept = match reduction.reduced {
        [_, true, false] => Some(KeptText { kept: column(), reduced: row() }),
        [_, false, true] => Some(KeptText { kept: row(), reduced: column() }),
        _ => None,
    };
    let at = Partial { point: ["m", "n"].map(Index::local), part: ["block_m", "block_n"].map(Index::local) };
    let record = ReductionText {
        threads: kernel.multiply.threads(kernel.tile),
        index: index_type(kernel.wide_index),
        combine,
        identity: names::combine_identity(reduction.accumulation.combine),
        kept,
        every: !reduction.reduced[1] && !reduction.reduced[2],
        block: [kernel.tile.m, kernel.tile.n],
        extents: [m, n],
        value,
        partial: number,
        at: at.spell(kernel, reduction, kernel.tile),
    };
    template::render(template!("product/epilogue/reduction.cuh"), &record)
}
