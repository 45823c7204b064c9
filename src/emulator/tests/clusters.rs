//! Clusters: blocks that wait for each other, store to each other's shared memory, and receive what others ask for.

use super::*;
use crate::codegen::device_code;
use crate::kernel::{MapElement, Swizzle, TensorMap};

const CLUSTER: &str = include_str!("cluster.cu");

/// Clusters of so many blocks that add up so many rounds, and their exact results.
fn totals(blocks: usize, clusters: usize, rounds: usize) -> (Case, Vec<Vec<u8>>) {
    let x = |i: usize| ((i * 37 + i / 11) % 17) as f32 - 8.0;
    let count = rounds * clusters * blocks * 64;
    let text = format!(
        "{}\n\nconstexpr unsigned BLOCKS = {blocks}, ROUNDS = {rounds};\n{CLUSTER}",
        device_code(&["FW_SHARED", "fw_cluster"])
    );
    let values = vec![Value::Input(floats((0..count).map(x))), Value::Input(floats([0.0])), Value::Output(4 * count)];
    let case = Case::new(&text, "cluster", values).grid([(clusters * blocks) as u32, 1]).cluster(blocks as u32);
    let result = |i: usize| {
        let first = i / (blocks * 64) * blocks * 64;
        let part = |warp: usize| (0..32).map(|lane| x(first + warp * 32 + lane)).sum::<f32>();
        let add = |total: f32, warp: usize| (if warp % 4 < 3 { total } else { -total }) + part(warp);
        (0..2 * blocks).fold(0.0, add) + (i % 32) as f32
    };
    (case.block([64, 1, 1]).shared(blocks as u32 * 16), vec![floats((0..count).map(result))])
}

/// A kernel of one cluster of two blocks, of two warps each, over 64 floats of shared memory `s`.
fn body(body: &str) -> Case {
    let text = format!(
        "extern \"C\" __global__ void k(const float* __restrict__ x, float* __restrict__ y) {{\n  FW_SHARED(shared);\n  \
         float* s = reinterpret_cast<float*>(shared);\n  const int t = threadIdx.x, b = blockIdx.x;\n  {body}\n}}"
    );
    let values = vec![Value::Input(floats((0..128).map(|i| i as f32))), Value::Output(512)];
    Case::new(&text, "k", values).grid([2, 1]).cluster(2).block([64, 1, 1]).shared(256)
}

const MEET: &str = "fw_cluster_arrive(); fw_cluster_wait();";

#[test]
fn blocks_of_a_cluster_see_each_others_totals() {
    for (blocks, clusters, rounds) in [(1, 3, 2), (2, 5, 3), (4, 1, 1), (8, 2, 4)] {
        let (case, expected) = totals(blocks, clusters, rounds);
        let Some(outputs) = case.run() else { return };
        assert!(outputs == expected, "{clusters} clusters of {blocks}, {rounds} rounds");
    }
}

#[test]
fn what_a_block_stores_comes_to_the_other() {
    let case = body(&format!("{MEET} fw_store_to_block(s + t, 1 - b, x[b * 64 + t]); {MEET} y[b * 64 + t] = s[t];"));
    let Some(outputs) = case.run() else { return };
    assert_eq!(as_floats(&outputs[0]), (0..128).map(|i| ((i + 64) % 128) as f32).collect::<Vec<_>>());
}

#[test]
fn votes_of_blocks_are_their_own() {
    let case = body(&format!("const int all = __syncthreads_and(b == 0 || t != 63); {MEET} y[b * 64 + t] = all;"));
    let Some(outputs) = case.run() else { return };
    assert_eq!(as_floats(&outputs[0]), (0..128).map(|i| f32::from(i < 64)).collect::<Vec<_>>());
}

#[test]
fn defects_of_totals() {
    let (case, expected) = totals(4, 2, 5);
    let meet = "fw_cluster_arrive();\n    fw_cluster_wait();";
    for (from, to, words) in [
        (meet, "", &[][..]),
        ("round % 2", "0", &[]),
        ("rank * 2 + warp", "rank * 2", &[]),
        (
            "fw_cluster_arrive();\n  fw_cluster_wait();\n  for",
            "for",
            &["may not have begun: no barrier of the cluster"],
        ),
        ("fw_cluster_wait();\n    float", "float", &["has not waited since fw_cluster_arrive"]),
        ("lane < BLOCKS)", "lane <= BLOCKS)", &["there is no block 4 in a cluster of 4"]),
        ("parts + rank * 2", "parts + 64 + rank * 2", &["the pointer is not to shared memory"]),
    ] {
        let planted = case.clone().planted(from, to);
        if words.is_empty() { planted.expect_not(&expected) } else { planted.expect_reported(words) }
    }
    case.clone().grid([7, 1]).expect_wrong(&["grid [7, 1] in clusters of 4"]);
    case.cluster(1).expect_wrong(&["there is no block 1 in a cluster of 1"]);
}

#[test]
fn threads_that_leave_out_a_barrier_of_the_cluster() {
    for (kernel, words) in [
        (
            "if (t != 37 || b == 0) fw_cluster_arrive(); fw_cluster_wait();",
            "waits in fw_cluster_wait (kernel.cu:5), but has not come",
        ),
        (
            "fw_cluster_arrive(); if (t != 37) fw_cluster_wait();",
            "thread 37: exits, but has not waited since fw_cluster_arrive (kernel.cu:5)",
        ),
        (
            "if (b == 0) { fw_cluster_arrive(); fw_cluster_wait(); }",
            "exits, but thread 0 of block (0, 0, 0) has come to fw_cluster_arrive",
        ),
        (
            "if (b == 1) return;\n  fw_cluster_arrive(); fw_cluster_wait();",
            "comes to fw_cluster_arrive (kernel.cu:6), but thread 63 of block (1, 0, 0) has exited",
        ),
        ("fw_cluster_arrive(); fw_cluster_arrive(); fw_cluster_wait();", "has not waited since fw_cluster_arrive"),
        ("if (b == 0) fw_cluster_arrive();\n  else fw_cluster_arrive();\n  fw_cluster_wait();", "divergence"),
    ] {
        body(kernel).expect_reported(&[words]);
    }
}

#[test]
fn clusters_that_stall() {
    body(&format!("if (b == 1 && t < 32) __syncthreads();\n  {MEET}")).expect_wrong(&[
        "block (1, 0, 0)",
        "divergence",
        "waits in fw_cluster_wait (kernel.cu:6)",
        "waits in __syncthreads (kernel.cu:5)",
    ]);
    body("const unsigned m = fw_shared_address(s); if (t == 0) fw_mbarrier_init(m, 1); fw_cluster_arrive();\n  if (b == 1) fw_mbarrier_wait(m, 0);\n  fw_cluster_wait();")
        .expect_wrong(&["block (1, 0, 0)", "deadlock", "waits in fw_mbarrier_wait", "lacks 1 of 1 arrivals"]);
}

#[test]
fn stores_that_nothing_orders() {
    body(&format!("{MEET} if (b == 0) y[t] = s[t]; fw_store_to_block(s + t, 1 - b, x[t]);"))
        .expect_reported(&["fw_store_to_block (kernel.cu:5): block", "has ended"]);
    body(&format!("{MEET} fw_cluster_arrive();\n  fw_store_to_block(s + t, 1 - b, x[t]);\n  fw_cluster_wait();"))
        .expect_wrong(&[
            "fw_store_to_block (kernel.cu:6): no order between fw_cluster_arrive (kernel.cu:5) and its fw_cluster_wait",
        ]);
    body(&format!("{MEET} fw_store_to_block(s + 64 + t, 1 - b, x[t]); {MEET}")).expect_wrong(&["not to shared memory"]);
}

#[test]
fn the_first_defective_cluster_is_named() {
    let case = body(&format!("{MEET} if (b >= 5) s[64] = 0.0f;")).grid([64, 1]);
    case.expect_reported(&["block (5, 0, 0)"]);
}

/// Two blocks that ask for two rows of four each, which both receive.
fn multicast() -> Case {
    let map = TensorMap {
        tensor: ids(1)[0],
        element: MapElement::Float,
        rank: 2,
        dims: [32, 4, 0, 0, 0],
        strides: [128, 0, 0, 0],
        box_dims: [32, 2, 0, 0, 0],
        swizzle: Swizzle::None,
        pixels: None,
        lead: 0,
        next_line_later: true,
    };
    let text = format!(
        "extern \"C\" __global__ void k(const __grid_constant__ fw_tensor_map map, const float* __restrict__ x, float* __restrict__ y) {{\n  \
         FW_SHARED(shared);\n  const unsigned s = fw_shared_address(shared), m = s + 512, t = threadIdx.x, b = blockIdx.x;\n  \
         if (t == 0) {{ fw_mbarrier_init(m, 1); fw_mbarrier_init_fence(); }}\n  __syncthreads();\n  {MEET}  // all have their barriers\n  \
         if (t == 0) {{ fw_mbarrier_expect(m, 512); fw_tma_load_multicast(s + 256 * b, &map, m, 3u, 0, 2 * b); }}\n  \
         fw_mbarrier_wait(m, 0);\n  for (unsigned i = t; i < 128; i += 64) y[128 * b + i] = reinterpret_cast<const float*>(shared)[i];\n  \
         {MEET}\n}}"
    );
    let values = vec![Value::Map(1, map), Value::Input(floats((0..128).map(|i| i as f32))), Value::Output(1024)];
    Case::new(&text, "k", values).grid([2, 1]).cluster(2).block([64, 1, 1]).shared(520)
}

#[test]
fn what_one_block_asks_for_comes_to_all() {
    let Some(outputs) = multicast().run() else { return };
    assert_eq!(as_floats(&outputs[0]), (0..256).map(|i| (i % 128) as f32).collect::<Vec<_>>());
}

#[test]
fn defects_of_multicasts() {
    for (from, to, words) in [
        ("fw_cluster_arrive(); fw_cluster_wait();  // all", "// all", "may not have begun: no barrier of the cluster"),
        ("3u", "1u << b", "lacks 0 of 1 arrivals and 256 bytes"),
        ("3u", "6u", "there is no block 2 in a cluster of 2"),
        ("3u", "0u", "0 is no set of blocks"),
        ("fw_mbarrier_init_fence();", "", "no fw_mbarrier_init_fence since the mbarrier"),
        ("s + 256 * b", "s + 512", "is outside the launch's 520 bytes"),
    ] {
        multicast().planted(from, to).expect_wrong(&[words]);
    }
}

#[test]
fn arrivals_at_barriers_of_other_blocks() {
    let init = "const unsigned m = fw_shared_address(s); if (t == 0) { fw_mbarrier_init(m, 64); fw_mbarrier_init_fence(); }\n  __syncthreads();";
    let arrive = "fw_mbarrier_arrive_at(m, 1 - b);\n  fw_mbarrier_wait(m, 0); y[b * 64 + t] = x[b * 64 + t];";
    let case = body(&format!("{init} {MEET}\n  {arrive} {MEET}"));
    let Some(outputs) = case.run() else { return };
    assert_eq!(as_floats(&outputs[0]), (0..128).map(|i| i as f32).collect::<Vec<_>>());
    case.clone().planted("(m, 64)", "(m, 65)").expect_wrong(&["lacks 1 of 65 arrivals"]);
    case.clone().planted("1 - b);", "b + 1);").expect_wrong(&["there is no block 2 in a cluster of 2"]);
    body(&format!("{init} {MEET} if (b == 0) return;\n  fw_mbarrier_arrive_at(m, 0);"))
        .expect_reported(&["fw_mbarrier_arrive_at (kernel.cu:7): block 0 has ended"]);
}
