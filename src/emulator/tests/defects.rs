//! Planted defects, each of which must be found.

use super::hopper::ring;
use super::kernels::{encode_e4m3, encode_e5m2, encode_f16, fp8_product, gemm, transpose};
use super::*;

/// A kernel of one block over `y`, an output of 64 floats, and 256 bytes of shared memory `s`.
fn body(threads: u32, body: &str) -> Case {
    let text = format!(
        "extern \"C\" __global__ void k(const float* __restrict__ x, float* __restrict__ y) {{\n  FW_SHARED(shared);\n  \
         float* s = reinterpret_cast<float*>(shared);\n  const int t = threadIdx.x;\n  {body}\n}}"
    );
    let values = vec![Value::Input(floats((0..64).map(|i| i as f32))), Value::Output(256)];
    Case::new(&text, "k", values).block([threads, 1, 1]).shared(256)
}

#[test]
fn a_missing_barrier_between_store_and_load() {
    let (case, expected) = transpose(32, 32);
    case.planted("__syncthreads();", "").expect_not(&expected);
}

#[test]
fn a_missing_barrier_between_load_and_next_store() {
    let right = body(
        64,
        "float sum = 0.0f;\n  for (int i = 0; i < 2; ++i) { s[t] = x[t] + i; __syncthreads(); sum += s[63 - t]; \
         __syncthreads(); }\n  y[t] = sum;",
    );
    let Some(expected) = right.run() else { return };
    assert_eq!(as_floats(&expected[0]), (0..64).map(|i| 127.0 - 2.0 * i as f32).collect::<Vec<_>>());
    right.planted("__syncthreads(); }", "}").expect_not(&expected);
}

#[test]
fn defects_of_the_copy_pipeline() {
    let (case, expected) = gemm(64, 64, 256, encode_f16);
    for (from, to) in [
        ("__syncthreads();", ""),
        ("fw_cp_async_wait<STAGES - 2>();", "fw_cp_async_wait<STAGES - 1>();"),
        ("fw_cp_async_wait<STAGES - 2>();", ""),
        ("next % STAGES", "(next + 1) % STAGES"),
        ("column = (lane >> 4) * 8;", "column = (lane >> 3 & 1) * 8;"),
        ("fw_ldmatrix_x4_trans(", "fw_ldmatrix_x4("),
    ] {
        case.clone().planted(from, to).expect_not(&expected);
    }
}

#[test]
fn defects_of_fp8_products() {
    let (case, expected) = fp8_product([encode_e4m3, encode_e5m2]);
    for (from, to) in [
        ("e4m3.e5m2", "e5m2.e4m3"),
        ("e4m3.e5m2", "e4m3.e4m3"),
        ("top[128], top[4]", "top[4], top[128]"),
        ("column[4]}", "column[0]}"),
        ("k < 16", "k < 8"),
        ("fw_mma<0>(left", "if (word < 3) fw_mma<0>(left"),
    ] {
        case.clone().planted(from, to).expect_not(&expected);
    }
    case.planted("e4m3.e5m2", "e4m3.e3m4").expect_wrong(&["there is no mma.m16n8k32.e4m3.e3m4"]);
}

#[test]
fn threads_at_different_barriers() {
    let case = body(64, "if (t < 40) __syncthreads();\n  else __syncthreads();");
    case.expect_wrong(&[
        "block (0, 0, 0)",
        "thread 40: divergence",
        "kernel.cu:6",
        "thread 0 waits in __syncthreads (kernel.cu:5)",
    ]);
}

#[test]
fn threads_that_leave_out_a_barrier() {
    let case = body(64, "if (t != 37) __syncthreads();");
    case.expect_wrong(&["thread 37: exits, but thread 0 waits in __syncthreads (kernel.cu:5)"]);
}

#[test]
fn an_early_exit_before_a_barrier() {
    let case = body(64, "if (t == 0) return;\n  __syncthreads();\n  y[t] = 1.0f;");
    case.expect_wrong(&["thread 1: waits in __syncthreads (kernel.cu:6), but thread 0 has exited"]);
}

#[test]
fn an_early_exit_before_a_warp_collective_is_legal() {
    let case = body(64, "if (t % 2 == 1) return;\n  y[t] = __shfl_down_sync(0xffffffffu, x[t], 2);");
    let Some(outputs) = case.run() else { return };
    let y = as_floats(&outputs[0]);
    assert_eq!((y[0], y[28], y[30], y[62]), (2.0, 30.0, 30.0, 62.0));
    assert!(y[1].is_nan());
}

#[test]
fn a_shuffle_from_a_lane_that_has_exited_gives_poison() {
    let case = body(32, "if (t == 5) return;\n  y[t] = __shfl_sync(0xffffffffu, x[t], 5);");
    let Some(outputs) = case.run() else { return };
    assert!(as_floats(&outputs[0]).iter().all(|y| y.is_nan()));
}

#[test]
fn a_warp_that_diverges_between_shuffle_and_barrier() {
    let case = body(64, "if (t < 48) __shfl_sync(0xffffffffu, t, 0);\n  __syncthreads();");
    case.expect_wrong(&["divergence", "waits in __shfl_sync (kernel.cu:5)", "waits in __syncthreads (kernel.cu:6)"]);
}

#[test]
fn lanes_that_wait_for_each_other_in_a_circle() {
    let case = body(32, "if (t < 3) __syncwarp(t == 0 ? 3u : t == 1 ? 6u : 5u);");
    case.expect_wrong(&[
        "deadlock: thread 0 waits in __syncwarp (kernel.cu:5), thread 1 waits in __syncwarp (kernel.cu:5)",
    ]);
}

#[test]
fn a_lane_outside_its_own_mask() {
    body(32, "__syncwarp(0x0fffffffu);").expect_wrong(&["thread 31", "lane 31 is not in its own mask 0x0fffffff"]);
}

#[test]
fn writes_outside_shared_memory() {
    body(64, "s[t + 1] = 0.0f;").expect_wrong(&["0 bytes past its end (the launch has 256 bytes)"]);
    body(64, "s[t - 1] = 0.0f;").expect_wrong(&["block (0, 0, 0)", "shared memory was written"]);
    body(1, "shared[256] = 0;").expect_wrong(&["shared memory was written 0 bytes past its end"]);
}

#[test]
fn writes_outside_a_tensor() {
    body(64, "y[t + 1] = 0.0f;").expect_wrong(&["kernel 'k'", "outside tensor argument 1: 0 bytes past the end"]);
    body(64, "y[t - 2] = 0.0f;").expect_wrong(&["outside tensor argument 1: 1 bytes before the start"]);
    body(1, "const_cast<float*>(x)[3] = 0.0f;").expect_wrong(&["to its input argument 0"]);
}

#[test]
fn reads_outside_a_tensor_give_nan() {
    let Some(outputs) = body(32, "y[t] = t == 0 ? x[64] : t == 1 ? x[-1] : x[t];").run() else { return };
    let y = as_floats(&outputs[0]);
    assert_eq!(
        y.iter().map(|y| y.is_nan()).collect::<Vec<_>>(),
        (0..64).map(|i| !(2..32).contains(&i)).collect::<Vec<_>>()
    );
}

/// What [`EmulatedKernel::run`] makes of it is in `graphs`.
#[test]
fn unwritten_shared_memory_is_nan_under_one_order_and_a_number_under_the_other() {
    let case = body(32, "y[t] = t == 2 ? s[9] : x[t];");
    let Some(lazy) = case.run_with(Schedule::Lazy) else { return };
    let eager = case.run_with(Schedule::Eager).expect("the compiler is still there");
    let [lazy, eager] = [lazy, eager].map(|outputs| as_floats(&outputs.unwrap()[0]));
    assert!(lazy[2].is_nan());
    assert_eq!(eager[2].to_bits(), 0x4545_4545);
    for y in [lazy, eager] {
        let others: Vec<_> = (0..64).filter(|&i| i != 2).collect();
        assert!(others.iter().all(|&i| if i < 32 { y[i] == i as f32 } else { y[i].is_nan() }), "{y:?}");
    }
}

#[test]
fn writes_outside_the_workspace() {
    let text = "extern \"C\" __global__ void k(unsigned char* __restrict__ workspace) { workspace[256] = 0; }";
    let case = Case::new(text, "k", vec![Value::Workspace(256)]).workspace(513);
    assert!(case.run().is_none_or(|outputs| outputs.is_empty()));
    case.workspace(512).expect_wrong(&["outside the workspace: 0 bytes past the end"]);
}

#[test]
fn misaligned_vectors() {
    let case = body(1, "*reinterpret_cast<float4*>(y + 1) = make_float4(1.0f, 2.0f, 3.0f, 4.0f);");
    case.expect_wrong(&["thread 0", "kernel.cu:5", "misaligned"]);
}

#[test]
fn an_index_outside_a_local_array() {
    body(64, "float a[4] = {};\n  a[t & 7] = x[t];\n  y[t] = a[1];")
        .expect_wrong(&["kernel.cu:6: index 4 is outside its array"]);
}

#[test]
fn arithmetic_that_differs_between_gpu_and_cpu() {
    body(64, "y[t] = (float)(1 << t);").expect_wrong(&["thread 32", "shift by more than the width"]);
    body(64, "y[t] = (float)(100 % t);").expect_wrong(&["thread 0", "integer division by zero"]);
}

#[test]
fn a_stack_that_overflows() {
    let case =
        body(3, "volatile char local[132000];\n  for (int i = 0; i < 132000; ++i) local[i] = 1;\n  y[t] = local[t];");
    case.expect_wrong(&["its local variables overflow the stack"]);
}

#[test]
fn wrong_shared_addresses() {
    body(1, "fw_cp_async<16>(0, x, true);").expect_wrong(&["cp.async: shared address 0 is outside"]);
    body(1, "fw_cp_async<16>(fw_shared_address(s) + 256, x, true);").expect_wrong(&["outside the launch's 256 bytes"]);
    body(1, "fw_cp_async<16>(fw_shared_address(s) + 8, x, true);").expect_wrong(&["not a multiple of 16"]);
    body(1, "fw_cp_async<16>(fw_shared_address(s), x + 1, true);")
        .expect_wrong(&["global address is not a multiple of 16"]);
    body(1, "y[0] = (float)fw_shared_address(x);").expect_wrong(&["not to shared memory"]);
}

#[test]
fn matrix_instructions_of_an_incomplete_warp() {
    let case = body(48, "unsigned r[4];\n  fw_ldmatrix_x4(r, fw_shared_address(s));");
    case.expect_wrong(&["ldmatrix.x4 needs all 32 lanes, but lane 16"]);
    let case = body(
        32,
        "if (t == 3) return;\n  unsigned a[4] = {}, b[2] = {}; float d[4];\n  fw_mma_f16<0>(a, b);\n  fw_take<0>(d);\n  y[t] = d[0];",
    );
    case.expect_wrong(&["needs all 32 lanes, but lane 3"]);
}

#[test]
fn the_first_defective_block_is_named() {
    let case = body(32, "if (blockIdx.x >= 5) s[64] = 0.0f;").grid([64, 1]);
    case.expect_wrong(&["block (5, 0, 0)"]);
}

/// A ring of three stages, seven blocks of k and two tiles a block, with a defect that is reported in these words under
/// one of the schedules; without words, at least the result is wrong.
#[track_caller]
fn broken_ring(from: &str, to: &str, words: &[&str]) {
    let (case, expected) = ring(256, 128, 7 * 64, 3);
    let case = case.planted(from, to);
    if words.is_empty() { case.expect_not(&expected) } else { case.expect_reported(words) }
}

#[test]
fn mbarriers_that_wait_for_ever() {
    let expect = "fw_mbarrier_expect(full + 8 * stage, STAGE_BYTES)";
    broken_ring(
        expect,
        "fw_mbarrier_expect(full + 8 * stage, STAGE_BYTES + 16)",
        &[
            "block (0, 0, 0)",
            "deadlock: thread 0 waits in fw_mbarrier_wait",
            "thread 128 waits in fw_mbarrier_wait",
            "(as do 255 others) for parity 0 of the mbarrier at",
            "which lacks 0 of 1 arrivals and 16 bytes",
        ],
    );
    broken_ring(
        "fw_mbarrier_arrive(empty + 8 * previous)",
        "",
        &["parity 0", "which lacks 8 of 8 arrivals and 0 bytes"],
    );
    broken_ring(
        "fw_mbarrier_init(empty + 8 * stage, 8)",
        "fw_mbarrier_init(empty + 8 * stage, 256)",
        &["which lacks 248 of 256 arrivals"],
    );
    broken_ring(
        "producer_parity = 1",
        "producer_parity = 0",
        &["thread 0 waits in fw_mbarrier_wait", "8 of 8 arrivals"],
    );
}

#[test]
fn phases_that_end_too_early() {
    let expect = "fw_mbarrier_expect(full + 8 * stage, STAGE_BYTES)";
    broken_ring(expect, "fw_mbarrier_expect(full + 8 * stage, A_BYTES)", &["still writes an operand"]);
    broken_ring(expect, "fw_mbarrier_arrive(full + 8 * stage)", &["still writes an operand"]);
    broken_ring("fw_mbarrier_init(empty + 8 * stage, 8)", "fw_mbarrier_init(empty + 8 * stage, 4)", &["lacks 4 of 4"]);
    broken_ring("consumer_parity = 0", "consumer_parity = 1", &["still read by FW_PRODUCTS"]);
    broken_ring("stage = 0, consumer_parity ^= 1", "stage = 0", &["still writes an operand"]);
    broken_ring("stage = 0, producer_parity ^= 1", "stage = 0", &["one arrival more than the 1 of a phase"]);
}

#[test]
fn missing_waits_of_a_ring() {
    broken_ring("fw_mbarrier_wait(full + 8 * stage, consumer_parity);", "", &["still writes an operand"]);
    broken_ring(
        "fw_mbarrier_wait(empty + 8 * stage, producer_parity);",
        "",
        &["one arrival more than the 1 of a phase"],
    );
    broken_ring("fw_wgmma_wait<1>();", "", &["still read by FW_PRODUCTS"]);
    broken_ring("fw_wgmma_wait<0>();", "", &["accumulators 0 to 3 are used before the FW_PRODUCTS", "is waited for"]);
    broken_ring("fw_wgmma_wait<1>();\n        if (k > 0 && ", "if (", &["still read by FW_PRODUCTS"]);
    broken_ring("if (is_first) fw_tma_store_wait_read<0>();\n      if", "if", &[]);
    broken_ring(
        "if (is_first) fw_tma_store_wait_read<0>();  // before the block ends",
        "",
        &["exits, but has not waited until its TMA store has read"],
    );
    broken_ring("fw_fence_async();", "", &["fw_tma_store: no fw_fence_async by thread", "since it wrote to"]);
    broken_ring("fw_tma_store_commit();", "", &["exits, but has not committed its TMA store"]);
    let stored = "tile % TILES_N * 64, tile / TILES_N";
    let below = "int(tile % TILES_N * 64) - 8, tile / TILES_N";
    broken_ring(stored, below, &["fw_tma_store: coordinate 0 is -8"]);
    // What the device would take for the right coordinate, and for a negative one.
    let beyond = "tile % TILES_N * 64 + (1ull << 32), tile / TILES_N";
    broken_ring(stored, beyond, &["of a box is more than 32 bits hold", "the device would take 0"]);
    let beyond = "k * 64 + 0x80000000u";
    broken_ring(
        "&map_a, full + 8 * stage, k * 64",
        &format!("&map_a, full + 8 * stage, {beyond}"),
        &["the coordinate 2147483648 of a box"],
    );
    broken_ring("k < K_BLOCKS; ++k) {\n          const", "k <= K_BLOCKS; ++k) {\n          const", &[]);
}

#[test]
fn operands_in_the_wrong_place() {
    broken_ring("fw_matrix_descriptor<128>", "fw_matrix_descriptor<64>", &[]);
    broken_ring("16, 1024)", "16, 512)", &[]);
    broken_ring(" ^ row % 8", "", &[]);
    broken_ring("fw_stmatrix_x4(", "fw_stmatrix_x4_trans(", &[]);
    broken_ring("STEP(2, \"1\")", "STEP(3, \"1\")", &[]);
    broken_ring("k > 0, STEP", "1, STEP", &[]);
    broken_ring("k * 64, tile / TILES_N", "k * 64 + 4, tile / TILES_N", &["4 is not a multiple of 16 bytes"]);
    broken_ring("k * 64, tile / TILES_N", "0, k * 64, tile / TILES_N", &["3 coordinates for a tensor map of rank 2"]);
    broken_ring("shared + stage * STAGE_BYTES;", "shared + 512 + stage * STAGE_BYTES;", &["is not a multiple of 1024"]);
}

#[test]
fn registers_that_the_block_does_not_have() {
    broken_ring(
        "fw_increase_registers<232>();",
        "fw_increase_registers<240>();",
        &["want 66560 registers together, but the block is launched with 64512"],
    );
}

#[test]
fn warps_of_a_warpgroup_that_part() {
    broken_ring(
        "fw_increase_registers<232>();",
        "if (threadIdx.x % 128 < 96) fw_increase_registers<232>();",
        &["warps 4 and 7 of a warpgroup differ in their FW_PRODUCTS or register counts"],
    );
    broken_ring(
        "FW_PRODUCTS(a, b,",
        "FW_PRODUCTS(a + threadIdx.x % 32 / 31, b,",
        &["lanes 0 and 31 have different descriptors"],
    );
    broken_ring("FW_PRODUCTS(a, b,", "if (threadIdx.x % 128 != 5) FW_PRODUCTS(a, b,", &["divergence", "FW_PRODUCTS"]);
    broken_ring("fw_named_barrier<1, 128>", "fw_named_barrier<1, 160>", &["to which 128 of 160 threads have come"]);
}

#[test]
fn misused_mbarriers() {
    let init = "const unsigned b = fw_shared_address(s); fw_mbarrier_init(b, 2);";
    for (rest, words) in [
        ("fw_mbarrier_init(b, 2);", "there is an mbarrier at 0x400 already"),
        ("fw_mbarrier_init(b + 8, 0);", "a count of 0; it is 1 to 1048575"),
        ("fw_mbarrier_init(b + 4, 1);", "0x404 is not a multiple of 8"),
        ("fw_mbarrier_arrive(b + 8);", "there is no mbarrier at 0x408: never initialised, or overwritten"),
        ("s[0] = 1.0f; fw_mbarrier_arrive(b);", "there is no mbarrier at 0x400"),
        (
            "fw_mbarrier_expect(b, 1); fw_mbarrier_arrive(b); fw_mbarrier_arrive(b);",
            "one arrival more than the 2 of a phase",
        ),
        ("fw_mbarrier_expect(b, 1 << 20);", "cannot expect 2^20 bytes"),
        ("fw_mbarrier_wait(b, 2);", "2 is no parity"),
    ] {
        body(1, &format!("{init} {rest}")).expect_wrong(&[words]);
    }
    broken_ring("fw_mbarrier_init_fence();", "", &["fw_tma_load: no fw_mbarrier_init_fence since the mbarrier at"]);
}
