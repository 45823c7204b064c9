//! Records of the matrix product skeletons.

use serde::Serialize;

use super::gemm_epilogue::{self, EpilogueText};
use super::gemm_operand::{self, OperandText};
use super::names;
use super::sections::Used;
use super::sweep::{SweepText, index_type};
use crate::graph::FinalizedGraph;
use crate::kernel::{GemmKernel, MmaType, Multiply, Register};

/// What `kernel/gemm_fma.cu` and `kernel/gemm_mma.cu` read beside the function's name and parameters.
#[derive(Serialize)]
pub(super) struct GemmText {
    threads: u32,
    /// Blocks of a multiprocessor, as a bound on registers.
    blocks: u32,
    index: &'static str,
    accumulator: &'static str,
    extents: ExtentsText,
    tile: TileText,
    splits: u32,
    operands: [OperandText; 2],
    fma: Option<FmaText>,
    mma: Option<MmaText>,
    epilogue: EpilogueText,
    sweep: Option<SweepText>,
}

#[derive(Serialize)]
pub(super) struct ExtentsText {
    m: i64,
    n: i64,
    k: i64,
}

/// The tile of a block, spelled out.
#[derive(Serialize)]
pub(super) struct TileText {
    m: u32,
    n: u32,
    k: u32,
    batch: i64,
    count_m: i64,
    count_n: i64,
    /// Which tile it is.
    number: &'static str,
    per_batch: i64,
    raster: i64,
    steps: i64,
    steps_per_split: i64,
    /// Bytes of one tile of A and B in shared memory.
    stage_bytes: u32,
    c_layout: &'static str,
    /// Element `row`, `column` of the accumulator tile.
    c_index: String,
}

/// How a thread multiplies; `row_a` and `row_b` are padded rows in shared memory.
#[derive(Serialize)]
struct FmaText {
    multiply_add: &'static str,
    row_a: u32,
    row_b: u32,
    thread_m: u32,
    thread_n: u32,
    threads_m: u32,
    threads_n: u32,
}

/// How a warp multiplies.
#[derive(Serialize)]
struct MmaText {
    /// Function that multiplies two fragments.
    instruction: String,
    warp_m: u32,
    warp_n: u32,
    warps_m: u32,
    fragments_m: u32,
    fragments_n: u32,
    /// Elements of k of one instruction.
    step_k: u32,
    /// Instructions along k in one step of the mainloop.
    parts: u32,
    stages: u32,
    fragments: u32,
    /// Whether fragments are rounded to TF32.
    rounds: bool,
    /// Number of a thread's accumulators, and the products they belong to.
    accumulators: u32,
    zeros: String,
    products: Vec<ProductText>,
    /// How a fragment goes to the accumulator tile: function, elements between rows, place of the lane.
    put: &'static str,
    pitch: u32,
    lane_c: String,
}

/// One product of two fragments.
#[derive(Serialize)]
struct ProductText {
    /// Number of its first accumulator.
    accumulator: u32,
    /// Fragment of A, fragment of B.
    i: u32,
    j: u32,
    /// Its place in the accumulator tile, from that of the first.
    offset: u32,
}

pub(super) fn gemm(graph: &FinalizedGraph, used: &mut Used, kernel: &GemmKernel) -> GemmText {
    used.add("FW_SHARED");
    let operands = [0, 1].map(|slot| gemm_operand::operand(graph, used, kernel, slot));
    let (epilogue, sweep) = gemm_epilogue::epilogue(graph, used, kernel);
    GemmText {
        threads: kernel.multiply.threads(kernel.tile),
        blocks: kernel.blocks,
        index: index_type(kernel.wide_index),
        accumulator: names::register_type(kernel.multiply.accumulator()),
        extents: extents(kernel),
        tile: tile(kernel),
        splits: kernel.splits,
        operands,
        fma: fma(used, kernel),
        mma: mma(graph, used, kernel),
        epilogue,
        sweep,
    }
}

pub(super) fn extents(kernel: &GemmKernel) -> ExtentsText {
    let [_, m, n, k] = kernel.space.extents();
    ExtentsText { m, n, k }
}

pub(super) fn tile(kernel: &GemmKernel) -> TileText {
    let tile = kernel.tile;
    let [batch, ..] = kernel.space.extents();
    let [count_m, count_n] = tile.counts(kernel.space.extents());
    let steps = kernel.steps();
    let pitch = gemm_epilogue::pitch(kernel);
    let (c_layout, c_index) = if kernel.along_n {
        ("[m][n]", format!("row * {pitch} + column"))
    } else {
        ("[n][m]", format!("column * {pitch} + row"))
    };
    TileText {
        m: tile.m,
        n: tile.n,
        k: tile.k,
        batch,
        count_m,
        count_n,
        number: if matches!(kernel.multiply, Multiply::Wgmma { .. }) { "number" } else { "blockIdx.x" },
        per_batch: count_m * count_n,
        raster: if count_m > 1 && count_n > 1 { i64::from(kernel.raster).min(count_m) } else { 1 },
        steps,
        steps_per_split: (steps + i64::from(kernel.splits) - 1) / i64::from(kernel.splits),
        stage_bytes: kernel.shared.stage.bytes,
        c_layout,
        c_index,
    }
}

fn fma(used: &mut Used, kernel: &GemmKernel) -> Option<FmaText> {
    let Multiply::Fma { accumulator, thread_m, thread_n } = kernel.multiply else { return None };
    let multiply_add = if accumulator == Register::Int { "fw_multiply_add" } else { "fmaf" };
    if accumulator == Register::Int {
        used.add("fw_multiply_add");
    }
    Some(FmaText {
        multiply_add,
        row_a: kernel.tile.m + 1,
        row_b: kernel.tile.n + 1,
        thread_m,
        thread_n,
        threads_m: kernel.tile.m / thread_m,
        threads_n: kernel.tile.n / thread_n,
    })
}

fn mma(graph: &FinalizedGraph, used: &mut Used, kernel: &GemmKernel) -> Option<MmaText> {
    let Multiply::Mma { operand, warp_m, warp_n, stages, fragments, promotes } = kernel.multiply else { return None };
    let section = names::mma_section(operand, [&kernel.a, &kernel.b].map(|side| graph.tensor(side.tensor).data_type));
    for section in [section, "fw_ldmatrix_x4", "fw_swizzled", "fw_cp_async"] {
        used.add(section);
    }
    let rounds = operand == MmaType::Tf32;
    if rounds {
        used.add("fw_round_tf32");
    }
    let pitch = gemm_epilogue::pitch(kernel);
    let lane_c = if kernel.along_n {
        format!("(warp_m + lane / 4) * {pitch} + warp_n + lane % 4 * 2")
    } else {
        format!("(warp_n + lane % 4 * 2) * {pitch} + warp_m + lane / 4")
    };
    let put = names::put_function(&kernel.multiply, kernel.along_n);
    used.add(put);
    let step_k = 32 / operand.bytes();
    Some(MmaText {
        instruction: format!("{section}{}", if promotes { "_promoted" } else { "" }),
        warp_m,
        warp_n,
        warps_m: kernel.tile.m / warp_m,
        fragments_m: warp_m / 16,
        fragments_n: warp_n / 8,
        step_k,
        parts: kernel.tile.k / step_k,
        stages,
        fragments,
        rounds,
        accumulators: warp_m * warp_n / 32,
        zeros: zeros(0..warp_m * warp_n / 32),
        products: products(kernel, warp_m / 16, warp_n / 8),
        put,
        pitch,
        lane_c,
    })
}

/// `FW_ZERO(0) FW_ZERO(1) …`, sixteen a line.
pub(super) fn zeros(accumulators: std::ops::Range<u32>) -> String {
    let zero = |number: u32| match number % 16 {
        0 => format!("\n    FW_ZERO({number})"),
        _ => format!(" FW_ZERO({number})"),
    };
    accumulators.map(zero).collect()
}

fn products(kernel: &GemmKernel, rows: u32, columns: u32) -> Vec<ProductText> {
    let pitch = gemm_epilogue::pitch(kernel);
    let product = |i: u32, j: u32| ProductText {
        accumulator: (i * columns + j) * 4,
        i,
        j,
        offset: if kernel.along_n { i * 16 * pitch + j * 8 } else { j * 8 * pitch + i * 16 },
    };
    (0..rows).flat_map(|i| (0..columns).map(move |j| product(i, j))).collect()
}
