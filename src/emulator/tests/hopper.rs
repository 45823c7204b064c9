//! Kernels of sm_90a: TMA, mbarriers and wgmma.

use half::bf16;

use super::*;
use crate::codegen::device_code;
use crate::kernel::{MapElement, Swizzle, TensorMap};

const RING: &str = include_str!("ring.cu");

/// What the ring's text needs.
const SECTIONS: &[&str] = &[
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

/// A row-major BF16 matrix, in swizzled boxes of `box_rows` by 64.
pub(super) fn bf16_map(rows: usize, columns: usize, box_rows: u32) -> TensorMap {
    TensorMap {
        tensor: ids(1)[0],
        element: MapElement::BFloat16,
        rank: 2,
        dims: [columns as u64, rows as u64, 0, 0, 0],
        strides: [2 * columns as u64, 0, 0, 0],
        box_dims: [64, box_rows, 0, 0, 0],
        swizzle: Swizzle::Bytes128,
        pixels: None,
        lead: 0,
        next_line_later: true,
    }
}

/// A product on a grid of two blocks, and its exact result.
pub(super) fn ring(m: usize, n: usize, k: usize, stages: usize) -> (Case, Vec<Vec<u8>>) {
    let a = |row: usize, kk: usize| ((row * 5 + kk * 3) % 7) as f32 - 3.0;
    let b = |kk: usize, column: usize| ((kk * 2 + column * 11) % 5) as f32 - 2.0;
    let bytes = |value: f32| bf16::from_f32(value).to_le_bytes();
    let element = |i: usize| (0..k).map(|kk| a(i / n, kk) * b(kk, i % n)).sum::<f32>();
    let values = vec![
        Value::Map(3, bf16_map(m, k, 128)),
        Value::Map(4, bf16_map(n, k, 64)),
        Value::Map(5, bf16_map(m, n, 64)),
        Value::Input((0..m * k).flat_map(|i| bytes(a(i / k, i % k))).collect()),
        Value::Input((0..n * k).flat_map(|i| bytes(b(i % k, i / k))).collect()),
        Value::Output(m * n * 2),
    ];
    let (tiles_n, tiles_m, k_blocks) = (n.div_ceil(64), m.div_ceil(128), k.div_ceil(64));
    let text = format!(
        "{}\n\nconstexpr unsigned STAGES = {stages}, K_BLOCKS = {k_blocks}, TILES = {}, TILES_N = {tiles_n};\n{RING}",
        device_code(SECTIONS),
        tiles_m * tiles_n
    );
    let shared = stages * (128 + 64) * 128 + 2 * 64 * 128 + 16 * stages;
    let mut case = Case::new(&text, "ring", values).grid([2, 1]).block([384, 1, 1]).shared(shared as u32);
    case.source.launches[0].parameters.truncate(3);
    (case, vec![(0..m * n).flat_map(|i| bytes(element(i))).collect()])
}

#[test]
fn a_ring_of_stages_feeds_two_consumers() {
    for (m, n, k) in [(128, 64, 64), (200, 120, 328)] {
        let (case, expected) = ring(m, n, k, 3);
        let Some(outputs) = case.run() else { return };
        assert!(outputs == expected, "{m} x {n} x {k}");
    }
}

#[test]
fn products_that_the_assembler_refuses_do_not_compile() {
    let product = |shape, count: usize, tail| {
        let registers: Vec<String> = (0..count).map(|i| format!("acc{i}")).collect();
        format!("FW_PRODUCT(\"{shape}\", \"{}\", 0, 0, \"p\", \"{tail}\")", registers.join(", "))
    };
    let compiles = |product: &str| {
        let text = format!("extern \"C\" __global__ void k() {{ FW_PRODUCTS(0ull, 0ull, 0, {product}); }}");
        let case = Case::new(&text, "k", Vec::new());
        compiler().map(|compiler| EmulatedKernel::compile_with(&compiler, &case.source, &cache_dir()).is_ok())
    };
    for (shape, count, tail) in [
        ("m64n8k16.f32.f16.f16", 4, ", 1, 1, 1, 0"),
        ("m64n8k16.f16.f16.f16", 2, ", 1, 1, 0, 0"),
        ("m64n24k32.s32.u8.s8", 12, ""),
        ("m64n256k32.f32.e4m3.e5m2", 128, ", 1, 1"),
    ] {
        assert!(compiles(&product(shape, count, tail)).unwrap_or(true), "{shape}");
    }
    for (shape, count, tail) in [
        ("m64n12k16.f32.f16.f16", 6, ", 1, 1, 0, 0"),
        ("m64n40k32.s32.s8.s8", 20, ""),
        ("m64n8k8.f32.f16.f16", 4, ", 1, 1, 0, 0"),
        ("m64n8k16.f32.f16.bf16", 4, ", 1, 1, 0, 0"),
        ("m64n8k32.f32.s8.s8", 4, ""),
        ("m64n8k16.f32.f16.f16", 8, ", 1, 1, 0, 0"),
        ("m64n8k16.f16.f16.f16", 4, ", 1, 1, 0, 0"),
        ("m64n8k16.f16.bf16.bf16", 2, ", 1, 1, 0, 0"),
        ("m64n8k16.f32.f16.f16", 4, ", 1, 1"),
        ("m64n8k32.s32.s8.s8", 4, ", 1, 1"),
        ("m64n8k32.f32.e4m3.e4m3", 4, ", 1, 1, 1, 0"),
    ] {
        assert!(
            !compiles(&product(shape, count, tail)).unwrap_or(false),
            "{shape} with {count} registers and {tail:?}"
        );
    }
}
