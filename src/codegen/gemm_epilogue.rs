//! Spells the epilogue of a matrix product on a tile of C.

use serde::Serialize;

use super::gemm_operand::{digit_lines, mentions};
use super::names;
use super::sections::Used;
use super::sweep::{SweepSpeller, SweepText, accumulated_in_float, index_type, mapped, sum, term};
use crate::graph::{FinalizedGraph, TensorId};
use crate::kernel::{Epilogue, GemmKernel, GemmTile, PartialReduction, Sweep, reduced_values};

/// What `epilogue/tile.cuh` reads beside the sweep.
#[derive(Default, Serialize)]
pub(super) struct EpilogueText {
    /// Place of an accumulator in the workspace, if they go there.
    workspace: Option<String>,
    /// Place of element `m_in`, `n_in` of the tile.
    at: String,
    /// Tiles of the values that reductions start from.
    values: Vec<String>,
    /// Vectors of the tile, and of one row of it.
    vectors: i64,
    row_vectors: i64,
    coordinates: Vec<String>,
    reductions: Vec<ReductionText>,
}

/// The block's own part of a reduction.
#[derive(Serialize)]
struct ReductionText {
    lines: Vec<String>,
}

/// Elements from a line of the accumulator tile to the next.
pub(super) fn pitch(kernel: &GemmKernel) -> u32 {
    kernel.multiply.staged_pitch(kernel.tile, kernel.along_n)
}

/// Place of element `m_in`, `n_in` in the accumulator tile.
fn place(kernel: &GemmKernel) -> String {
    let pitch = pitch(kernel);
    if kernel.along_n { format!("m_in * {pitch} + n_in") } else { format!("n_in * {pitch} + m_in") }
}

pub(super) fn epilogue(
    graph: &FinalizedGraph,
    used: &mut Used,
    kernel: &GemmKernel,
) -> (EpilogueText, Option<SweepText>) {
    match &kernel.epilogue {
        Epilogue::Workspace { strides } => (workspace(kernel, *strides), None),
        Epilogue::Fused { sweep, digits, reductions, boxes: _ } => {
            let (text, sweep) = fused(graph, used, kernel, sweep, digits, reductions);
            (text, Some(sweep))
        }
    }
}

fn workspace(kernel: &GemmKernel, strides: [i64; 3]) -> EpilogueText {
    let workspace = Some(workspace_index(kernel, strides, "blockIdx.y"));
    EpilogueText { workspace, at: place(kernel), ..EpilogueText::default() }
}

/// Place of the accumulator b, m, n of a part of k.
pub(super) fn workspace_index(kernel: &GemmKernel, strides: [i64; 3], split: &str) -> String {
    let [batch, ..] = kernel.space.extents();
    let split = (kernel.splits > 1).then(|| format!("{split} * {}ull", kernel.space.elements()));
    let b = (batch > 1).then(|| term("b", strides[0])).flatten();
    sum([split, b, term("m", strides[1]), term("n", strides[2])].into_iter().flatten())
}

fn fused(
    graph: &FinalizedGraph,
    used: &mut Used,
    kernel: &GemmKernel,
    sweep: &Sweep,
    digits: &[&'static str],
    reductions: &[PartialReduction],
) -> (EpilogueText, SweepText) {
    let sources = reduced_values(reductions.iter().map(|reduction| &reduction.accumulation));
    let names = digits.iter().map(|&name| name.to_owned()).collect();
    let accumulations: Vec<_> = reductions.iter().map(|reduction| reduction.accumulation).collect();
    let mut speller = SweepSpeller::new(graph, used, sweep, &accumulations).with_names(names);
    let kept = keep_values(&mut speller, kernel, &sources);
    let mut text = speller.text(&[], "");
    text.body.extend(kept);
    text.before.insert(0, tile_at(kernel));
    let row = if kernel.along_n { kernel.tile.n } else { kernel.tile.m };
    let record = EpilogueText {
        workspace: None,
        at: place(kernel),
        values: value_tiles(kernel, reductions, &sources),
        vectors: i64::from(kernel.tile.m * kernel.tile.n) / sweep.vector,
        row_vectors: i64::from(row) / sweep.vector,
        coordinates: coordinate_lines(kernel, &text, ["m0", "n0"]),
        reductions: reductions.iter().map(|reduction| partial(used, kernel, reduction, &sources)).collect(),
    };
    (record, text)
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
    let pitch = pitch(kernel);
    let keep = |(number, &source): (usize, &TensorId)| {
        let value = accumulated_in_float(&mut speller.speller, source);
        format!("values{number}[line * {pitch} + piece + e] = {value};")
    };
    sources.iter().enumerate().map(keep).collect()
}

/// Digits of the vector's first point, as far as they are used. `origin` names row and column of the first point of what
/// is in shared memory.
pub(super) fn coordinate_lines(kernel: &GemmKernel, text: &SweepText, origin: [&str; 2]) -> Vec<String> {
    let mut uses = [&text.before[..], &text.body[..], &text.after[..]].concat();
    uses.extend(text.guard.clone());
    let space = &kernel.space;
    let indices = [("b", &space.b), ("m", &space.m), ("n", &space.n)];
    let digits: Vec<String> =
        indices.iter().flat_map(|(index, digits)| digit_lines(kernel, index, digits, &uses)).collect();
    uses.extend(digits.iter().cloned());
    let mut lines = index_lines(kernel, &uses, origin);
    lines.extend(digits);
    lines
}

/// Row and column of the vector's first point, as far as they are used, and whether the point exists.
fn index_lines(kernel: &GemmKernel, uses: &[String], origin: [&str; 2]) -> Vec<String> {
    let kind = index_type(kernel.wide_index);
    let inside = inside(kernel);
    let (m_in, n_in) = if kernel.along_n { ("line", "piece") } else { ("piece", "line") };
    let mut lines = Vec::new();
    for (index, first, at) in [("m", origin[0], m_in), ("n", origin[1], n_in)] {
        if mentions(uses, index) || inside.iter().any(|condition| mentions(std::slice::from_ref(condition), index)) {
            lines.push(format!("const {kind} {index} = {first} + {at};"));
        }
    }
    if !inside.is_empty() {
        lines.push(format!("if (!({})) continue;", inside.join(" && ")));
    }
    lines
}

/// Conditions under which a point is in C; none where tiles divide it.
fn inside(kernel: &GemmKernel) -> Vec<String> {
    let [_, m, n, _] = kernel.space.extents();
    let checks = [("m", m, kernel.tile.m), ("n", n, kernel.tile.n)];
    let needed = checks.into_iter().filter(|(_, extent, block)| extent % i64::from(*block) != 0);
    needed.map(|(index, extent, _)| format!("{index} < {extent}")).collect()
}

/// `split * kept + k` for the element m, n, where each part of `tile` gives one partial result; `parts` names its row
/// and column among them.
pub(super) fn partial_index(
    kernel: &GemmKernel,
    reduction: &PartialReduction,
    tile: GemmTile,
    parts: [&str; 2],
) -> String {
    let [batch, m, n, _] = kernel.space.extents();
    let [tiles_m, tiles_n] = tile.counts(kernel.space.extents());
    let splits = [("b", batch), (parts[0], tiles_m), (parts[1], tiles_n)];
    let kept = [("b", batch), ("m", m), ("n", n)];
    let choose = |axes: [(&str, i64); 3], wanted: bool| -> String {
        let mut step = 1;
        let mut terms = Vec::new();
        for (axis, (coordinate, extent)) in axes.into_iter().enumerate().rev() {
            if reduction.reduced[axis] == wanted && extent > 1 {
                terms.extend(term(coordinate, step));
                step *= extent;
            }
        }
        terms.reverse();
        sum(terms.into_iter())
    };
    format!("(unsigned long long)({}) * {} + ({})", choose(splits, true), reduction.kept, choose(kept, false))
}

/// Reduces the block's tile to one value for each kept element of it.
fn partial(used: &mut Used, kernel: &GemmKernel, reduction: &PartialReduction, sources: &[TensorId]) -> ReductionText {
    let combine = names::combine_function(reduction.accumulation.combine);
    used.add(combine);
    let number = sources.iter().position(|&source| source == reduction.accumulation.source).unwrap_or_default();
    let value = mapped(used, reduction.accumulation.map, format!("values{number}[{}]", place(kernel)));
    if reduction.reduced[1] && reduction.reduced[2] {
        used.add("fw_block_total");
    }
    let walk = Walk { kernel, reduction, combine, value, partial: partial_number(kernel, reduction) };
    let lines = match reduction.reduced {
        [_, false, false] => walk.every_element(),
        [_, true, false] => walk.keeping("n", "m"),
        [_, false, true] => walk.keeping("m", "n"),
        [_, true, true] => walk.to_one(),
    };
    ReductionText { lines: [vec!["{".to_owned()], indented(lines), vec!["}".to_owned()]].concat() }
}

fn indented(lines: Vec<String>) -> Vec<String> {
    lines.into_iter().map(|line| format!("  {line}")).collect()
}

fn partial_number(kernel: &GemmKernel, reduction: &PartialReduction) -> usize {
    let Epilogue::Fused { reductions, .. } = &kernel.epilogue else { return 0 };
    reductions.iter().position(|other| other == reduction).unwrap_or_default()
}

/// The ways a block walks its tile.
struct Walk<'a> {
    kernel: &'a GemmKernel,
    reduction: &'a PartialReduction,
    combine: &'static str,
    /// The value at `m_in`, `n_in`.
    value: String,
    /// Number of the region for partial results.
    partial: usize,
}

impl Walk<'_> {
    fn threads(&self) -> u32 {
        self.kernel.multiply.threads(self.kernel.tile)
    }

    fn identity(&self) -> String {
        names::combine_identity(self.reduction.accumulation.combine)
    }

    /// Tile and whole extent of an index.
    fn extents(&self, index: &str) -> (u32, i64) {
        let [_, m, n, _] = self.kernel.space.extents();
        if index == "m" { (self.kernel.tile.m, m) } else { (self.kernel.tile.n, n) }
    }

    fn store(&self, value: &str) -> String {
        let index = partial_index(self.kernel, self.reduction, self.kernel.tile, ["block_m", "block_n"]);
        format!("partial{}[{index}] = {value};", self.partial)
    }

    fn index_line(&self, index: &str) -> String {
        format!("const {} {index} = {index}0 + {index}_in;", index_type(self.kernel.wide_index))
    }

    fn tile_loop(&self) -> Vec<String> {
        let (m, n) = (self.kernel.tile.m, self.kernel.tile.n);
        vec![
            format!("for (unsigned i = threadIdx.x; i < {}; i += {}) {{", m * n, self.threads()),
            format!("  const unsigned m_in = i / {n}, n_in = i % {n};"),
        ]
    }

    fn every_element(&self) -> Vec<String> {
        let ((_, m), (_, n)) = (self.extents("m"), self.extents("n"));
        let mut lines = self.tile_loop();
        lines.push(format!("  {}", self.index_line("m")));
        lines.push(format!("  {}", self.index_line("n")));
        lines.push(format!("  if (m < {m} && n < {n}) {}", self.store(&self.value)));
        lines.push("}".to_owned());
        lines
    }

    /// A thread for each kept row or column.
    fn keeping(&self, kept: &str, reduced: &str) -> Vec<String> {
        let ((block, extent), (reduced_block, reduced_extent)) = (self.extents(kept), self.extents(reduced));
        let Self { combine, value, .. } = self;
        vec![
            format!(
                "for (unsigned {kept}_in = threadIdx.x; {kept}_in < {block} && {kept}0 + {kept}_in < {extent}; {kept}_in += {}) {{",
                self.threads()
            ),
            format!("  {}", self.index_line(kept)),
            format!("  float total = {};", self.identity()),
            format!(
                "  for (unsigned {reduced}_in = 0; {reduced}_in < {reduced_block} && {reduced}0 + {reduced}_in < {reduced_extent}; ++{reduced}_in) {{"
            ),
            format!("    total = {combine}(total, {value});"),
            "  }".to_owned(),
            format!("  {}", self.store("total")),
            "}".to_owned(),
        ]
    }

    /// One value, in a fixed order of the block's threads.
    fn to_one(&self) -> Vec<String> {
        let ((_, m), (_, n)) = (self.extents("m"), self.extents("n"));
        let Self { combine, value, .. } = self;
        let mut lines = vec![format!("float total = {};", self.identity())];
        lines.extend(self.tile_loop());
        lines.push(format!("  if (m0 + m_in < {m} && n0 + n_in < {n}) total = {combine}(total, {value});"));
        lines.push("}".to_owned());
        lines.push(format!(
            "total = fw_block_total(total, totals, [](float a, float b) {{ return {combine}(a, b); }});"
        ));
        lines.push(format!("if (threadIdx.x == 0) {}", self.store("total")));
        lines
    }
}
