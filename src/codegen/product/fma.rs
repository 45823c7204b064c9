//! Record of the skeleton of multiply-adds.

use serde::Serialize;

use super::epilogue::{Mending, accumulator_at, tile};
use super::operand::{Side, Tile, value};
use super::unit::{ProductText, Steps, TILE_ORIGIN, place};
use crate::codegen::index::{index_type, spell};
use crate::codegen::sections::Used;
use crate::error::Error;
use crate::graph::FinalizedGraph;
use crate::kernel::{Fma, GemmKernel, Index, Register};

/// What `product/fma.cu` reads beside the function's name and parameters.
#[derive(Serialize)]
pub(super) struct FmaText {
    #[serde(flatten)]
    product: ProductText,
    index: &'static str,
    /// Blocks of a multiprocessor, as a bound on registers.
    blocks: u32,
    place: String,
    /// A and B.
    operands: [OperandText; 2],
    /// Depth of a step; first element of k of a part, and the end of it.
    tile_k: u32,
    first: String,
    last: String,
    multiply_add: &'static str,
    /// Rows and columns of a thread, and threads along them.
    thread_m: u32,
    thread_n: u32,
    threads_m: u32,
    threads_n: u32,
    c_layout: &'static str,
    /// Place of element `row`, `column` in the accumulator tile.
    at: String,
    /// The call that mends sums, where zeros lie outside operands.
    inside: Option<String>,
    epilogue: String,
}

#[derive(Serialize)]
struct OperandText {
    /// `a` or `b`.
    name: &'static str,
    /// The function of its elements, declared.
    function: String,
    /// A padded row of the tile in shared memory, and elements of the tile.
    pitch: u32,
    elements: u32,
    /// Row and column of element `i`, and the call that gives it.
    row: String,
    column: String,
    call: String,
}

pub(super) fn text(graph: &FinalizedGraph, used: &mut Used, kernel: &GemmKernel, fma: &Fma) -> Result<FmaText, Error> {
    let multiply_add = match fma.accumulator {
        Register::Int => {
            used.add("fw_multiply_add");
            "fw_multiply_add"
        }
        _ => "fmaf",
    };
    let index = index_type(kernel.wide_index);
    let steps = Steps { kernel };
    let [.., k] = kernel.space.numbers();
    let each = steps.each_split() * i64::from(kernel.tile.k);
    let (first, last) = match kernel.splits {
        1 => ("0".to_owned(), k.to_string()),
        _ => (format!("({index})(blockIdx.y) * {each}"), format!("min(first + {each}, ({index})({k}))")),
    };
    let at = accumulator_at(kernel, Index::local("row"), Index::local("column"));
    Ok(FmaText {
        product: ProductText::new(kernel),
        index,
        blocks: kernel.blocks,
        place: place(kernel, "blockIdx.x")?,
        operands: [operand(used, Side { graph, kernel, slot: 0 })?, operand(used, Side { graph, kernel, slot: 1 })?],
        tile_k: kernel.tile.k,
        first,
        last,
        multiply_add,
        thread_m: fma.thread_m,
        thread_n: fma.thread_n,
        threads_m: kernel.tile.m / fma.thread_m,
        threads_n: kernel.tile.n / fma.thread_n,
        c_layout: c_layout(kernel),
        at: spell(&at),
        inside: Mending::of(graph, kernel)
            .map(|mending| mending.call("tile_c", ["thread_row", "thread_column"], TILE_ORIGIN)),
        epilogue: tile(graph, used, kernel)?,
    })
}

/// How the accumulator tile lies in shared memory, for readers.
pub(super) fn c_layout(kernel: &GemmKernel) -> &'static str {
    if kernel.along_n { "[m][n]" } else { "[n][m]" }
}

fn operand(used: &mut Used, side: Side<'_>) -> Result<OperandText, Error> {
    let tile = Tile::of(side);
    let [row, column] = tile.row_and_column();
    Ok(OperandText {
        name: side.name(),
        function: value(used, side)?.function,
        pitch: side.block() + 1,
        elements: side.block() * side.kernel.tile.k,
        row,
        column,
        call: tile.call(),
    })
}
