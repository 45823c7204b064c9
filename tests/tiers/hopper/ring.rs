//! A ring of stages between a producer and two consumers, under every relation of its length to the blocks of k.

use fusewright::graph::{DataType, Tensor, TensorId};
use fusewright::host_tensor::HostTensor;
use fusewright::kernel::{MapElement, Parameter, Swizzle, TensorMap};
use libtest_mimic::Failed;

use super::{Carrier, Case, KernelTest, launch, padded};

const TEXT: &str = include_str!("../../../src/emulator/tests/ring.cu");

const SECTIONS: [&str; 12] = [
    "FW_SHARED",
    "fw_bf16_bits",
    "fw_shared_address",
    "fw_elect",
    "fw_tma_load",
    "fw_tma_store",
    "fw_fence_async",
    "fw_named_barrier",
    "fw_set_registers",
    "fw_stmatrix",
    "fw_accumulators",
    "fw_wgmma",
];

/// Blocks of a launch.
const BLOCKS: usize = 2;

/// Stages of the ring.
const STAGES: usize = 4;

pub(super) fn cases() -> Vec<Case> {
    let lengths = [1, 2, STAGES - 1, STAGES, STAGES + 1, 2 * STAGES + 1];
    let case = |(k_blocks, tiles)| {
        Case::new(format!("ring::{k_blocks}_blocks_of_k::{tiles}_tiles"), move || test(k_blocks, tiles))
    };
    lengths.into_iter().flat_map(|k_blocks| (1..=3).map(move |tiles| (k_blocks, tiles))).map(case).collect()
}

/// A product of ragged extents, with `tiles` tiles a block.
fn test(k_blocks: usize, tiles: usize) -> Result<KernelTest, Failed> {
    let (m, n, k) = (tiles * 128 - 40, BLOCKS * 64 - 8, k_blocks * 64 - 8);
    let (rows, columns, along_k) = (m as i64, n as i64, k as i64);
    let a = Tensor::new("A").row_major([1, rows, along_k]).data_type(DataType::BFloat16);
    let b = Tensor::new("B").dim([1, along_k, columns]).stride([along_k * columns, 1, along_k]);
    let carrier = Carrier::new(a, b.data_type(DataType::BFloat16), DataType::BFloat16)?;
    let text = format!(
        "constexpr unsigned STAGES = {STAGES}, K_BLOCKS = {k_blocks}, TILES = {}, TILES_N = {BLOCKS};\n{TEXT}",
        tiles * BLOCKS
    );
    let maps = vec![map(carrier.a, m, k, 128), map(carrier.b, n, k, 64), map(carrier.c, m, n, 64)];
    let shared = STAGES * (128 + 64) * 128 + 2 * 64 * 128 + 16 * STAGES;
    let left = |row: usize, kk: usize| ((row * 5 + kk * 3) % 7) as f64 - 3.0;
    let right = |kk: usize, column: usize| ((kk * 2 + column * 11) % 5) as f64 - 2.0;
    let inputs = [
        carrier.host(carrier.a, |position| left(position / k, position % k))?,
        carrier.host(carrier.b, |position| right(position / n, position % n))?,
    ];
    let product = |i: usize| (0..k).map(|kk| left(i / n, kk) * right(kk, i % n)).sum();
    let expected = HostTensor::from_fn(DataType::BFloat16, &[rows, columns], &[columns, 1], product)?.bytes;
    Ok(carrier.test(&SECTIONS, &text, vec![launch("ring", BLOCKS, 384, shared, maps)], inputs, expected))
}

/// A row-major BF16 matrix, in swizzled boxes of `box_rows` by 64.
fn map(tensor: TensorId, rows: usize, columns: usize, box_rows: u32) -> Parameter {
    Parameter::TensorMap(TensorMap {
        tensor,
        element: MapElement::BFloat16,
        rank: 2,
        dims: padded(&[columns as u64, rows as u64]),
        strides: padded(&[2 * columns as u64]),
        box_dims: padded(&[64, box_rows]),
        swizzle: Swizzle::Bytes128,
        pixels: None,
        lead: 0,
        next_line_later: true,
    })
}
