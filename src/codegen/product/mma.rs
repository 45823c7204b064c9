//! Record of the skeleton of `mma.sync`.

use serde::Serialize;

use super::epilogue::{Mending, pitch, tile};
use super::fma::c_layout;
use super::operand::{PlacedOperand, Side, Tile, placed};
use super::unit::{ProductText, Steps, TILE_ORIGIN, place, zeros};
use crate::codegen::names;
use crate::codegen::sections::Used;
use crate::codegen::template::{self, template};
use crate::error::Error;
use crate::graph::FinalizedGraph;
use crate::kernel::{GemmKernel, Mma, MmaType};

/// What `product/mma.cu` reads beside the function's name and parameters.
#[derive(Serialize)]
pub(super) struct MmaText {
    #[serde(flatten)]
    product: ProductText,
    /// Blocks of a multiprocessor, as a bound on registers.
    blocks: u32,
    place: String,
    operands: [String; 2],
    /// Where B's tile lies in a stage, and bytes of a stage.
    tile_b: u32,
    stage_bytes: u32,
    fragments: [FragmentsText; 2],
    warp_m: u32,
    warp_n: u32,
    warps_m: u32,
    fragments_m: u32,
    fragments_n: u32,
    /// Elements of k of one instruction.
    step_k: u32,
    /// Fragments that are rounded to TF32.
    rounded: Vec<String>,
    /// Number of a thread's accumulators, and the products they belong to.
    accumulators: u32,
    zeros: String,
    products: String,
    mainloop: String,
    c_layout: &'static str,
    /// Place of the lane's first accumulator in the tile, and how its fragments go there.
    lane_c: String,
    puts: String,
    /// How the lane looks at its sums, and the call that mends them, where zeros lie outside operands.
    tell: Vec<String>,
    inside: Option<String>,
    epilogue: String,
}

/// How a lane finds an operand's fragments in its tile.
#[derive(Serialize)]
struct FragmentsText {
    /// `a` or `b`.
    name: &'static str,
    /// Place of the lane's row of the first fragment, from the tile's start, and the phase of the row's exchange of chunks.
    lane: String,
    phase: String,
    /// Place in part `part` of a step, and the statements that load the fragments from there.
    part: String,
    loads: Vec<String>,
}

impl FragmentsText {
    /// Fragments of A: 16 rows by 32 bytes of k.
    fn of_a(tile: &Tile, fragments: u32) -> Self {
        let row_bytes = tile.row_bytes();
        let row = if tile.k_major { "lane % 16" } else { "lane % 8 + lane / 16 * 8" };
        let (lane, part) = match tile.k_major {
            true => ("(warp_m + lane % 16)".to_owned(), "(part * 32 + lane / 16 * 16 ^ phase_a)".to_owned()),
            false => (format!("({row})"), format!("part * {}", 16 * row_bytes)),
        };
        let load = |i: u32| match (tile.k_major, i) {
            (true, 0) => "fw_ldmatrix_x4(left[0], at_a);".to_owned(),
            (true, _) => format!("fw_ldmatrix_x4(left[{i}], at_a + {});", i * 16 * row_bytes),
            (false, _) => {
                let column = match i {
                    0 => "warp_m".to_owned(),
                    _ => format!("warp_m + {}", i * 16),
                };
                format!("fw_ldmatrix_x4_trans(left[{i}], at_a + (({column} + lane / 8 % 2 * 8) * 2 ^ phase_a));")
            }
        };
        Self {
            name: "a",
            lane: format!("{lane} * {row_bytes}"),
            phase: format!("fw_phase<{row_bytes}>({row})"),
            part,
            loads: (0..fragments).map(load).collect(),
        }
    }

    /// Fragments of B: 8 columns by 32 bytes of k, loaded two at a time.
    fn of_b(tile: &Tile, fragments: u32) -> Self {
        let row_bytes = tile.row_bytes();
        let row = if tile.k_major { "lane % 8 + lane / 16 * 8" } else { "lane % 16" };
        let (lane, part) = match tile.k_major {
            true => (format!("(warp_n + {row})"), "(part * 32 + lane / 8 % 2 * 16 ^ phase_b)".to_owned()),
            false => (row.to_owned(), format!("part * {}", 16 * row_bytes)),
        };
        let load = |j: u32| match (tile.k_major, j) {
            (true, 0) => "fw_ldmatrix_x4(right[0], right[1], at_b);".to_owned(),
            (true, _) => format!("fw_ldmatrix_x4(right[{j}], right[{}], at_b + {});", j + 1, j * 8 * row_bytes),
            (false, _) => {
                let column = match j {
                    0 => "warp_n".to_owned(),
                    _ => format!("warp_n + {}", j * 8),
                };
                let place = format!("at_b + (({column} + lane / 16 * 8) * 2 ^ phase_b)");
                format!("fw_ldmatrix_x4_trans(right[{j}], right[{}], {place});", j + 1)
            }
        };
        Self {
            name: "b",
            lane: format!("{lane} * {row_bytes}"),
            phase: format!("fw_phase<{row_bytes}>({row})"),
            part,
            loads: (0..fragments).step_by(2).map(load).collect(),
        }
    }
}

/// What `product/{mma_one, mma_two}.cuh` read.
#[derive(Serialize)]
struct MainloopText {
    stages: u32,
    /// Instructions along k in one step.
    parts: u32,
    fragments_m: u32,
    fragments_n: u32,
    /// The line that says which steps a block does, and their number.
    steps_line: Option<String>,
    steps: String,
    /// The line that says where k begins in the step that is loaded.
    origin: String,
    operands: [PlacedOperand; 2],
}

pub(super) fn text(graph: &FinalizedGraph, used: &mut Used, kernel: &GemmKernel, mma: &Mma) -> Result<MmaText, Error> {
    let sides = [0, 1].map(|slot| Side { graph, kernel, slot });
    let instruction = instruction(graph, used, kernel, mma);
    let put = names::put_function(&kernel.multiply, kernel.along_n);
    used.add(put);
    let [a, b] = sides;
    let operands = [placed(used, a)?, placed(used, b)?];
    let functions = operands.each_ref().map(|operand| operand.functions.clone());
    let (fragments_m, fragments_n) = (mma.warp_m / 16, mma.warp_n / 8);
    let mut rounded = Vec::new();
    if mma.operand == MmaType::Tf32 {
        used.add("fw_round_tf32");
        rounded.extend((0..fragments_m).map(|i| format!("left[{i}]")));
        rounded.extend((0..fragments_n).map(|j| format!("right[{j}]")));
    }
    let accumulators = kernel.multiply.sum_registers(kernel.tile);
    let mending = Mending::of(graph, kernel);
    Ok(MmaText {
        product: ProductText::new(kernel),
        blocks: kernel.blocks,
        place: place(kernel, "blockIdx.x")?,
        operands: functions,
        tile_b: kernel.shared.stage.tiles[1],
        stage_bytes: kernel.shared.stage.bytes,
        fragments: [FragmentsText::of_a(&Tile::of(a), fragments_m), FragmentsText::of_b(&Tile::of(b), fragments_n)],
        warp_m: mma.warp_m,
        warp_n: mma.warp_n,
        warps_m: kernel.tile.m / mma.warp_m,
        fragments_m,
        fragments_n,
        step_k: 32 / mma.operand.bytes(),
        rounded,
        accumulators,
        zeros: zeros(0..accumulators),
        products: products(&instruction, fragments_m, fragments_n),
        mainloop: mainloop(kernel, mma, operands)?,
        c_layout: c_layout(kernel),
        lane_c: lane_c(kernel),
        puts: puts(kernel, put, fragments_m, fragments_n),
        tell: mending.map_or_else(Vec::new, |mending| mending.tell(used, 0, [fragments_m, fragments_n])),
        inside: mending
            .map(|mending| mending.call("tile_c", ["warp_m + lane / 4", "warp_n + lane % 4 * 2"], TILE_ORIGIN)),
        epilogue: tile(graph, used, kernel)?,
    })
}

fn instruction(graph: &FinalizedGraph, used: &mut Used, kernel: &GemmKernel, mma: &Mma) -> String {
    let stored = [&kernel.a, &kernel.b].map(|side| graph.tensor(side.tensor).data_type);
    let section = names::mma_section(mma.operand, stored);
    for section in [section, "fw_ldmatrix_x4", "fw_swizzled", "fw_cp_async"] {
        used.add(section);
    }
    format!("{section}{}", if mma.promotes { "_promoted" } else { "" })
}

fn mainloop(kernel: &GemmKernel, mma: &Mma, operands: [PlacedOperand; 2]) -> Result<String, Error> {
    let steps = Steps { kernel };
    let record = MainloopText {
        stages: mma.stages,
        parts: kernel.tile.k * mma.operand.bytes() / 32,
        fragments_m: mma.warp_m / 16,
        fragments_n: mma.warp_n / 8,
        steps_line: steps.line("blockIdx.y"),
        steps: steps.count(),
        origin: steps.origin_line(&format!("step + {}", mma.stages - 1)),
        operands,
    };
    match mma.fragments {
        2 => template::render(template!("product/mma_two.cuh"), &record),
        _ => template::render(template!("product/mma_one.cuh"), &record),
    }
}

/// Place of a lane's first accumulator in the tile.
fn lane_c(kernel: &GemmKernel) -> String {
    let pitch = pitch(kernel);
    match kernel.along_n {
        true => format!("(warp_m + lane / 4) * {pitch} + warp_n + lane % 4 * 2"),
        false => format!("(warp_n + lane % 4 * 2) * {pitch} + warp_m + lane / 4"),
    }
}

/// `fw_mma_f16<0>(left[0], right[0]);` for each pair of fragments, of A and of B.
fn products(instruction: &str, rows: u32, columns: u32) -> String {
    let product = |i: u32, j: u32| format!("{instruction}<{}>(left[{i}], right[{j}]);", (i * columns + j) * 4);
    of_fragments(rows, columns, product)
}

/// `fw_put_rows<4, 72>(lane_c + 8);` for each fragment of the accumulators.
fn puts(kernel: &GemmKernel, put: &str, rows: u32, columns: u32) -> String {
    let pitch = pitch(kernel);
    let store = |i: u32, j: u32| {
        let offset = if kernel.along_n { i * 16 * pitch + j * 8 } else { j * 8 * pitch + i * 16 };
        let place = if offset == 0 { "lane_c".to_owned() } else { format!("lane_c + {offset}") };
        format!("{put}<{}, {pitch}>({place});", (i * columns + j) * 4)
    };
    of_fragments(rows, columns, store)
}

/// A statement for each fragment of the accumulators, a line each.
fn of_fragments(rows: u32, columns: u32, statement: impl Fn(u32, u32) -> String) -> String {
    let statement = &statement;
    let all: Vec<String> = (0..rows).flat_map(|i| (0..columns).map(move |j| statement(i, j))).collect();
    all.join("\n")
}
