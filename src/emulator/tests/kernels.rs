//! Right kernels.

use std::thread;

use float8::{F8E4M3, F8E5M2};
use half::{bf16, f16};

use super::*;

/// Small integers, which every format and order of summation keeps exact.
fn small(i: usize) -> f32 {
    ((i * 37 + i / 11) % 17) as f32 - 8.0
}

fn vector_add(count: usize) -> Case {
    let values = vec![
        Value::Input(floats((0..count).map(small))),
        Value::Input(floats((0..count).map(|i| i as f32))),
        Value::Output(count * 4),
        int(count as i32),
        Value::Scalar(Argument::Float(0.5)),
        Value::Scalar(Argument::LongLong(-3)),
    ];
    Case::new(VECTOR_ADD, "vector_add", values).grid([count.div_ceil(256) as u32, 1]).block([256, 1, 1])
}

#[test]
fn vectors_of_any_length_are_added() {
    for count in [1, 255, 256, 257, 5000] {
        let Some(outputs) = vector_add(count).run() else { return };
        let expected: Vec<f32> = (0..count).map(|i| small(i) * 0.5 + i as f32 - 3.0).collect();
        assert_eq!(as_floats(&outputs[0]), expected, "{count}");
    }
}

fn block_sum(blocks: usize, threads: usize) -> Case {
    let values = vec![Value::Input(floats((0..blocks * threads).map(small))), Value::Output(blocks * 4)];
    Case::new(BLOCK_SUM, "block_sum", values).grid([blocks as u32, 1]).block([threads as u32, 1, 1]).shared(32)
}

#[test]
fn blocks_are_summed_even_if_their_last_warp_is_partial() {
    for threads in [1, 31, 32, 33, 80, 256] {
        let Some(outputs) = block_sum(7, threads).run() else { return };
        let expected: Vec<f32> = (0..7).map(|b| (b * threads..(b + 1) * threads).map(small).sum()).collect();
        assert_eq!(as_floats(&outputs[0]), expected, "{threads}");
    }
}

pub(super) fn transpose(rows: usize, columns: usize) -> (Case, Vec<Vec<u8>>) {
    let x: Vec<f32> = (0..rows * columns).map(|i| i as f32).collect();
    let expected = (0..columns).flat_map(|c| (0..rows).map(move |r| (r * columns + c) as f32));
    let expected = vec![floats(expected)];
    let values =
        vec![Value::Input(floats(x)), Value::Output(rows * columns * 4), int(rows as i32), int(columns as i32)];
    let case = Case::new(TRANSPOSE, "transpose", values)
        .grid([columns.div_ceil(32) as u32, rows.div_ceil(32) as u32])
        .block([32, 8, 1])
        .shared(32 * 33 * 4);
    (case, expected)
}

#[test]
fn matrices_are_transposed_through_shared_memory() {
    for (rows, columns) in [(32, 32), (33, 70), (1, 100)] {
        let (case, expected) = transpose(rows, columns);
        let Some(outputs) = case.run() else { return };
        assert_eq!(outputs, expected, "{rows} x {columns}");
    }
}

/// A product of small integers, and its exact result.
pub(super) fn gemm(m: usize, n: usize, k: usize, encode: fn(f32) -> [u8; 2]) -> (Case, Vec<Vec<u8>>) {
    let a = |row: usize, column: usize| small(row * k + column) / 4.0;
    let b = |row: usize, column: usize| small(row * n + column + 5) / 4.0;
    let a_bytes = (0..m * k).flat_map(|i| encode(a(i / k, i % k))).collect();
    let b_bytes = (0..k * n).flat_map(|i| encode(b(i / n, i % n))).collect();
    let element = |i: usize| (0..k).map(|kk| a(i / n, kk) * b(kk, i % n)).sum::<f32>();
    let expected = (0..m * n).flat_map(|i| encode(element(i))).collect();
    let values = vec![
        Value::Input(a_bytes),
        Value::Input(b_bytes),
        Value::Output(m * n * 2),
        int(m as i32),
        int(n as i32),
        int(k as i32),
    ];
    let case = Case::new(GEMM, "gemm", values)
        .grid([n.div_ceil(64) as u32, m.div_ceil(64) as u32])
        .block([128, 1, 1])
        .shared(3 * (64 * 80 + 32 * 144));
    (case, vec![expected])
}

pub(super) fn encode_f16(value: f32) -> [u8; 2] {
    f16::from_f32(value).to_le_bytes()
}

#[test]
fn half_matrices_are_multiplied_on_emulated_tensor_cores() {
    for (m, n, k) in [(64, 64, 32), (64, 64, 8), (128, 192, 160), (72, 8, 200)] {
        let (case, expected) = gemm(m, n, k, encode_f16);
        let Some(outputs) = case.run() else { return };
        assert_eq!(outputs, expected, "{m} x {n} x {k}");
    }
}

#[test]
fn bfloat16_matrices_are_multiplied_on_emulated_tensor_cores() {
    let (case, expected) = gemm(64, 72, 96, |value| bf16::from_f32(value).to_le_bytes());
    let Some(outputs) = case.planted("fw_mma_f16", "fw_mma_bf16").planted("pack_f16x2", "pack_bf16x2").run() else {
        return;
    };
    assert_eq!(outputs, expected);
}

/// From a number to its FP8 byte.
type Encode = fn(f32) -> u8;

/// A product of small integers in these FP8 encodings, E4M3 and E5M2 in `fp8.cu`, and its exact result.
pub(super) fn fp8_product(encode: [Encode; 2]) -> (Case, Vec<Vec<u8>>) {
    const K: usize = 64;
    let [a, b] = [0, 1000].map(|start| move |row: usize, k: usize| small(start + row * K + k));
    let element = |i: usize| (0..K).map(|k| a(i / 8, k) * b(i % 8, k)).sum::<f32>();
    let a_bytes = (0..16 * K).map(|i| encode[0](a(i / K, i % K))).collect();
    let b_bytes = (0..8 * K).map(|i| encode[1](b(i / K, i % K))).collect();
    let values = vec![Value::Input(a_bytes), Value::Input(b_bytes), Value::Output(16 * 8 * 4)];
    (Case::new(FP8, "product", values).block([32, 1, 1]), vec![floats((0..16 * 8).map(element))])
}

pub(super) fn encode_e4m3(value: f32) -> u8 {
    F8E4M3::from_f32(value).to_bits()
}

pub(super) fn encode_e5m2(value: f32) -> u8 {
    F8E5M2::from_f32(value).to_bits()
}

#[test]
fn fp8_matrices_of_every_pair_of_types_are_multiplied_on_emulated_tensor_cores() {
    let types: [(&str, Encode); 2] = [("e4m3", encode_e4m3), ("e5m2", encode_e5m2)];
    for (a, encode_a) in types {
        for (b, encode_b) in types {
            let (case, expected) = fp8_product([encode_a, encode_b]);
            for function in ["fw_mma<0>", "fw_mma_promoted<0>"] {
                let case = case.clone().planted("e4m3.e5m2", &format!("{a}.{b}")).planted("fw_mma<0>", function);
                let Some(outputs) = case.run() else { return };
                assert_eq!(outputs, expected, "{function} {a} {b}");
            }
        }
    }
}

/// Whether two floats are the same number, signs of zeros included, or both NaN.
fn is_same(a: f32, b: f32) -> bool {
    a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan())
}

#[test]
fn every_16_bit_value_is_widened_exactly() {
    let values = vec![Value::Output(4 << 16), Value::Output(4 << 16)];
    let case = Case::new(NUMBERS, "widen", values).grid([256, 1]).block([256, 1, 1]);
    let Some(outputs) = case.run() else { return };
    let (halves, bfloats) = (as_floats(&outputs[0]), as_floats(&outputs[1]));
    for bits in 0..=u16::MAX {
        assert!(is_same(halves[usize::from(bits)], f16::from_bits(bits).to_f32()), "half {bits:#x}");
        assert!(is_same(bfloats[usize::from(bits)], bf16::from_bits(bits).to_f32()), "bfloat16 {bits:#x}");
    }
}

#[test]
fn floats_are_narrowed_to_the_nearest_even() {
    // Every half, its neighbours in float, and the midpoints to the next half with theirs; as many for bfloat16.
    let around = |x: f32| [-1, 0, 1].map(|step| f32::from_bits(x.to_bits().wrapping_add_signed(step)));
    let halves = (0..0x7c00).map(|bits| f16::from_bits(bits).to_f32());
    let midpoints = (0..0x7c00).map(|bits| (f16::from_bits(bits).to_f32() + f16::from_bits(bits + 1).to_f32()) / 2.0);
    let bfloats = (0..0x7f80u32).map(|bits| f32::from_bits(bits << 16 | 0x8000));
    let special = [f32::NAN, f32::INFINITY, 65519.0, 65520.0, 65536.0, f32::MAX, 1e-45];
    let mut x: Vec<f32> = halves.chain(midpoints).chain(bfloats).flat_map(around).chain(special).collect();
    x.extend(x.clone().iter().map(|value| -value));
    x.resize(x.len().next_multiple_of(256), 0.0);

    let values = vec![Value::Input(floats(x.iter().copied())), Value::Output(x.len() * 4)];
    let case = Case::new(NUMBERS, "narrow", values).grid([x.len() as u32 / 256, 1]).block([256, 1, 1]);
    let Some(outputs) = case.run() else { return };
    for (&x, pair) in x.iter().zip(as_words(&outputs[0])) {
        let (half, bfloat) = (f16::from_bits(pair as u16), bf16::from_bits((pair >> 16) as u16));
        assert!(is_same(half.to_f32(), f16::from_f32(x).to_f32()), "{x:e} as half: {half:e}");
        assert!(is_same(bfloat.to_f32(), bf16::from_f32(x).to_f32()), "{x:e} as bfloat16: {bfloat:e}");
    }
}

#[test]
fn built_in_functions_give_what_cuda_gives() {
    let (blocks, threads) = (5 * 6, 64);
    let values = vec![Value::Output(blocks * threads * 4), Value::Output(16), Value::Output(4)];
    let mut case = Case::new(INTRINSICS, "intrinsics", values).grid([5, 6]).block([32, 2, 1]);
    let mut clear = case.source.launches[0].clone();
    clear.function = "clear".to_owned();
    clear.parameters.remove(0);
    (clear.grid, clear.block) = ([1; 2], [32, 1, 1]);
    case.source.launches.insert(0, clear);

    let Some(outputs) = case.run() else { return };
    let failed_lines: Vec<u32> = as_words(&outputs[0]).into_iter().filter(|&line| line != 0).collect();
    assert_eq!(failed_lines, [0; 0], "line of the first expectation that fails, by thread");
    let total = (blocks * threads) as u32;
    assert_eq!(as_words(&outputs[1]), [total, blocks as u32 - 1, 0, total]);
    assert_eq!(as_floats(&outputs[2]), [total as f32]);
}

#[test]
fn one_kernel_runs_in_many_threads_at_once() {
    let case = block_sum(50, 96);
    let Some(kernel) = case.compile() else { return };
    let expected = case.run_compiled(&kernel, Schedule::Lazy).unwrap();
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| assert_eq!(block_sum(50, 96).run_compiled(&kernel, Schedule::Eager).unwrap(), expected));
        }
    });
}

#[test]
fn launches_share_the_workspace() {
    let text = r#"
        extern "C" __global__ void produce(float* __restrict__ workspace) { workspace[threadIdx.x] = 2.0f * threadIdx.x; }
        extern "C" __global__ void consume(const float* __restrict__ workspace, float* __restrict__ y) {
          y[threadIdx.x] = workspace[threadIdx.x] + 1.0f;
        }"#;
    let values = vec![Value::Workspace(256), Value::Output(128)];
    let mut case = Case::new(text, "consume", values).block([32, 1, 1]).workspace(384);
    let mut produce = case.source.launches[0].clone();
    produce.function = "produce".to_owned();
    produce.parameters.truncate(1);
    case.source.launches.insert(0, produce);
    let Some(outputs) = case.run() else { return };
    assert_eq!(as_floats(&outputs[0]), (0..32).map(|i| 2.0 * i as f32 + 1.0).collect::<Vec<_>>());
}
