//! Record of the matmul skeleton.

use serde::Serialize;

use super::expression::Speller;
use super::names;
use super::sections::Used;
use super::sweep::{accumulated_value, index_type, sum, term};
use crate::graph::{DataType, FinalizedGraph, TensorId};
use crate::kernel::{Accumulation, MatmulKernel, MatmulTile, Operand, PartialLayout, Register, Value, step};

/// What `kernel/matmul.cu` reads beside the function's name and parameters.
#[derive(Serialize)]
pub(super) struct MatmulText {
    threads: u32,
    index: &'static str,
    accumulator: &'static str,
    multiply_add: &'static str,
    extents: ExtentsText,
    tile: TileText,
    a: OperandText,
    b: OperandText,
    epilogue: EpilogueText,
    reduction: Option<PartialText>,
}

#[derive(Serialize)]
struct ExtentsText {
    m: i64,
    n: i64,
    k: i64,
}

/// Sizes of the tile, spelled out; `row_a` and `row_b` are padded rows in shared memory.
#[derive(Serialize)]
struct TileText {
    m: u32,
    n: u32,
    k: u32,
    row_a: u32,
    row_b: u32,
    thread_m: u32,
    thread_n: u32,
    threads_m: u32,
    threads_n: u32,
    count_m: i64,
    per_batch: i64,
}

/// One operand: how a tile's elements are shared among threads, how one is evaluated.
#[derive(Serialize)]
struct OperandText {
    outer: String,
    inner: String,
    lines: Vec<String>,
    value: String,
}

#[derive(Serialize)]
struct EpilogueText {
    m_in: String,
    n_in: String,
    before: Vec<String>,
    lines: Vec<String>,
    after: Vec<String>,
}

/// The block's own part of an epilogue reduction.
#[derive(Serialize)]
struct PartialText {
    lines: Vec<String>,
}

pub(super) fn matmul(graph: &FinalizedGraph, used: &mut Used, kernel: &MatmulKernel) -> MatmulText {
    used.add("FW_SHARED");
    let multiply_add = if kernel.accumulator == Register::Int { "fw_multiply_add" } else { "fmaf" };
    if kernel.accumulator == Register::Int {
        used.add("fw_multiply_add");
    }
    let [_, m, n, k] = kernel.extents;
    MatmulText {
        threads: kernel.tile.threads(),
        index: index_type(kernel.wide_index),
        accumulator: names::register_type(kernel.accumulator),
        multiply_add,
        extents: ExtentsText { m, n, k },
        tile: tile_text(kernel.tile, m, n),
        a: operand(graph, used, kernel, &kernel.a, ["b", "m", "k"], kernel.tile.block_m),
        b: operand(graph, used, kernel, &kernel.b, ["b", "k", "n"], kernel.tile.block_n),
        epilogue: epilogue(graph, used, kernel),
        reduction: kernel.reduction.as_ref().map(|(accumulation, layout)| partial(used, kernel, accumulation, layout)),
    }
}

fn tile_text(tile: MatmulTile, m: i64, n: i64) -> TileText {
    let count = |extent: i64, block: u32| (extent + i64::from(block) - 1) / i64::from(block);
    TileText {
        m: tile.block_m,
        n: tile.block_n,
        k: tile.block_k,
        row_a: tile.block_m + 1,
        row_b: tile.block_n + 1,
        thread_m: tile.thread_m,
        thread_n: tile.thread_n,
        threads_m: tile.block_m / tile.thread_m,
        threads_n: tile.block_n / tile.thread_n,
        count_m: count(m, tile.block_m),
        per_batch: count(m, tile.block_m) * count(n, tile.block_n),
    }
}

fn operand(
    graph: &FinalizedGraph,
    used: &mut Used,
    kernel: &MatmulKernel,
    operand: &Operand,
    axes: [&str; 3],
    block: u32,
) -> OperandText {
    let block_k = kernel.tile.block_k;
    let (outer, inner) = if operand.k_contiguous {
        (format!("i / {block_k}"), format!("i % {block_k}"))
    } else {
        (format!("i % {block}"), format!("i / {block}"))
    };
    let mut speller = Speller::new(graph, used, &operand.program, [operand.tensor].into_iter());
    let lines = element_lines(&mut speller, &operand.program, axes, kernel.accumulator);
    let register = Register::of(graph.tensor(operand.tensor).data_type);
    let value = speller.value(operand.tensor);
    let value = match (kernel.accumulator, register) {
        (Register::Float, Register::Int) => converted(used, "fw_f32", DataType::Float, &value),
        (Register::Int, Register::Float) => converted(used, "fw_i32", DataType::Int32, &value),
        _ => value,
    };
    OperandText { outer, inner, lines, value }
}

fn converted(used: &mut Used, section: &'static str, data_type: DataType, value: &str) -> String {
    used.add(section);
    names::to_storage(data_type, value)
}

/// The values of a program at one element whose coordinates are the variables `axes`.
fn element_lines(
    speller: &mut Speller<'_>,
    program: &crate::kernel::StageProgram,
    axes: [&str; 3],
    accumulator: Register,
) -> Vec<String> {
    let mut lines = Vec::new();
    for step in &program.steps {
        if step.value != Value::Load {
            lines.push(speller.define(step, accumulator, &|axis| axes.get(axis).copied().unwrap_or("0").to_owned()));
        } else if !speller.graph.tensor(step.tensor).is_pass_by_value {
            let offset = element_offset(speller.graph, step.tensor, axes);
            let element = speller.element(step.tensor, &offset);
            lines.push(speller.define_load(step.tensor, &element));
        }
    }
    lines
}

fn element_offset(graph: &FinalizedGraph, id: TensorId, axes: [&str; 3]) -> String {
    sum((0..3).filter_map(|axis| term(axes[axis], step(graph.tensor(id), axis))))
}

fn epilogue(graph: &FinalizedGraph, used: &mut Used, kernel: &MatmulKernel) -> EpilogueText {
    let (m, n) = (kernel.tile.block_m, kernel.tile.block_n);
    let (m_in, n_in) = if kernel.n_contiguous {
        (format!("i / {n}"), format!("i % {n}"))
    } else {
        (format!("i % {m}"), format!("i / {m}"))
    };
    let source = kernel.reduction.iter().map(|(accumulation, _)| accumulation.source);
    let mut speller = Speller::new(graph, used, &kernel.epilogue, source);
    let axes = ["b", "m", "n"];
    let mut text = EpilogueText {
        m_in,
        n_in,
        before: Vec::new(),
        lines: element_lines(&mut speller, &kernel.epilogue, axes, kernel.accumulator),
        after: Vec::new(),
    };
    for &id in &kernel.stores {
        push_store(&mut speller, kernel, id, &mut text);
    }
    if let Some((accumulation, layout)) = &kernel.reduction {
        let mut value = accumulated_value(&mut speller, accumulation);
        if let Some(condition) = counted_once(graph, kernel, accumulation.source) {
            value = format!("{condition} ? {value} : {}", names::combine_identity(accumulation.combine));
        }
        text.lines.push(match layout.reduced {
            [_, false, false] => format!("partial0[{}] = {value};", partial_index(kernel, layout)),
            _ => format!("tile_x[m_in * {n} + n_in] = {value};"),
        });
    }
    text
}

/// Condition that picks one of the points over which a value broadcasts; `None` where it does not.
fn counted_once(graph: &FinalizedGraph, kernel: &MatmulKernel, id: TensorId) -> Option<String> {
    let dim = &graph.tensor(id).dim;
    let axes = ["b", "m", "n"].into_iter().enumerate();
    let broadcast = axes.filter(|&(axis, _)| dim[axis] == 1 && kernel.extents[axis] > 1);
    let terms: Vec<String> = broadcast.map(|(_, coordinate)| format!("{coordinate} == 0")).collect();
    (!terms.is_empty()).then(|| terms.join(" && "))
}

/// A store of one element; packed booleans gather the bits of a warp, whose threads hold neighbouring elements.
fn push_store(speller: &mut Speller<'_>, kernel: &MatmulKernel, id: TensorId, text: &mut EpilogueText) {
    let name = speller.result(id);
    let pointer = names::pointer(speller.graph, id);
    let offset = element_offset(speller.graph, id, ["b", "m", "n"]);
    let stored = speller.stored(id, &name);
    let once = counted_once(speller.graph, kernel, id);
    if speller.graph.tensor(id).data_type != DataType::Boolean {
        let condition = once.map(|condition| format!("if ({condition}) ")).unwrap_or_default();
        text.lines.push(format!("{condition}{pointer}[{offset}] = {stored};"));
        return;
    }
    let [_, m, n, _] = kernel.extents;
    let once = once.map(|condition| format!(" && {condition}")).unwrap_or_default();
    text.before.push(format!("int w_{name} = 0;"));
    text.lines.push(format!("w_{name} = {stored};"));
    text.after.push(format!("const unsigned bits_{name} = __ballot_sync(0xffffffffu, w_{name});"));
    text.after.push(format!(
        "if (threadIdx.x % 8 == 0 && m < {m} && n < {n}{once}) \
         {pointer}[({offset}) >> 3] = (unsigned char)(bits_{name} >> (threadIdx.x & 31));"
    ));
}

/// `split * kept + k` for the block's tile and the element m, n.
fn partial_index(kernel: &MatmulKernel, layout: &PartialLayout) -> String {
    let [batch, m, n, _] = kernel.extents;
    let tile = tile_text(kernel.tile, m, n);
    let tiles_n = tile.per_batch / tile.count_m;
    let tile_m = format!("(m0 / {})", tile.m);
    let tile_n = format!("(n0 / {})", tile.n);
    let splits = [("b", batch), (tile_m.as_str(), tile.count_m), (tile_n.as_str(), tiles_n)];
    let kept = [("b", batch), ("m", m), ("n", n)];
    let choose = |axes: [(&str, i64); 3], wanted: bool| -> String {
        let mut step = 1;
        let mut terms = Vec::new();
        for (axis, (coordinate, extent)) in axes.into_iter().enumerate().rev() {
            if layout.reduced[axis] == wanted {
                terms.extend(term(coordinate, step));
                step *= extent;
            }
        }
        terms.reverse();
        sum(terms.into_iter())
    };
    format!("(unsigned long long)({}) * {} + ({})", choose(splits, true), layout.kept, choose(kept, false))
}

/// Reduces the block's tile to one value for each kept element of it.
fn partial(used: &mut Used, kernel: &MatmulKernel, accumulation: &Accumulation, layout: &PartialLayout) -> PartialText {
    let combine = names::combine_function(accumulation.combine);
    used.add(combine);
    let identity = names::combine_identity(accumulation.combine);
    let [_, m, n, _] = kernel.extents;
    let (block_m, block_n, threads) = (kernel.tile.block_m, kernel.tile.block_n, kernel.tile.threads());
    let index = partial_index(kernel, layout);
    let kept_loop = |kept: &str, block: u32, extent: i64, reduced: &str, reduced_block: u32, reduced_extent: i64| {
        vec![
            format!(
                "for (unsigned {kept}_in = threadIdx.x; {kept}_in < {block} && {kept}0 + {kept}_in < {extent}; {kept}_in += {threads}) {{"
            ),
            format!("  const {} {kept} = {kept}0 + {kept}_in;", index_type(kernel.wide_index)),
            format!("  float total = {identity};"),
            format!(
                "  for (unsigned {reduced}_in = 0; {reduced}_in < {reduced_block} && {reduced}0 + {reduced}_in < {reduced_extent}; ++{reduced}_in) {{"
            ),
            format!("    total = {combine}(total, tile_x[m_in * {block_n} + n_in]);"),
            "  }".to_owned(),
            format!("  partial0[{index}] = total;"),
            "}".to_owned(),
        ]
    };
    let lines = match layout.reduced {
        [_, false, false] => Vec::new(),
        [_, true, false] => kept_loop("n", block_n, n, "m", block_m, m),
        [_, false, true] => kept_loop("m", block_m, m, "n", block_n, n),
        [_, true, true] => vec![
            format!("float total = {identity};"),
            format!("for (unsigned i = threadIdx.x; i < {}; i += {threads}) {{", block_m * block_n),
            format!("  if (m0 + i / {block_n} < {m} && n0 + i % {block_n} < {n}) total = {combine}(total, tile_x[i]);"),
            "}".to_owned(),
            "__syncthreads();".to_owned(),
            "tile_x[threadIdx.x] = total;".to_owned(),
            format!("for (unsigned half = {}; half > 0; half /= 2) {{", threads / 2),
            "  __syncthreads();".to_owned(),
            format!(
                "  if (threadIdx.x < half) tile_x[threadIdx.x] = {combine}(tile_x[threadIdx.x], tile_x[threadIdx.x + half]);"
            ),
            "}".to_owned(),
            format!("if (threadIdx.x == 0) partial0[{index}] = tile_x[0];"),
        ],
    };
    PartialText { lines }
}
