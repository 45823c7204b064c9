//! Clusters of blocks that add up what each has, round after round.

use fusewright::graph::DataType;
use fusewright::host_tensor::HostTensor;
use fusewright::kernel::{Launch, Parameter};
use libtest_mimic::Failed;

use super::{Carrier, Case, KernelTest, launch};

const TEXT: &str = include_str!("../../../src/emulator/tests/cluster.cu");

/// Threads of a block.
const THREADS: usize = 64;

pub(super) fn cases() -> Vec<Case> {
    let shapes = [(1, 3, 2), (2, 70, 5), (4, 40, 3), (8, 30, 4)];
    let case = |(blocks, clusters, rounds)| {
        let name = format!("clusters::{clusters}_of_{blocks}_blocks::{rounds}_rounds");
        Case::new(name, move || test(blocks, clusters, rounds))
    };
    shapes.into_iter().map(case).collect()
}

fn test(blocks: usize, clusters: usize, rounds: usize) -> Result<KernelTest, Failed> {
    let count = rounds * clusters * blocks * THREADS;
    let carrier = Carrier::flat(DataType::Float, count, DataType::Float, count)?;
    let text = format!("constexpr unsigned BLOCKS = {blocks}, ROUNDS = {rounds};\n{TEXT}");
    let x = |i: usize| ((i * 37 + i / 11) % 17) as f64 - 8.0;
    let total = |i: usize| {
        let first = i / (blocks * THREADS) * blocks * THREADS;
        let part = |warp: usize| (0..32).map(|lane| x(first + warp * 32 + lane)).sum::<f64>();
        let add = |total: f64, warp: usize| (if warp % 4 < 3 { total } else { -total }) + part(warp);
        (0..2 * blocks).fold(0.0, add) + (i % 32) as f64
    };
    let parameters = [carrier.a, carrier.b, carrier.c].map(Parameter::Tensor).to_vec();
    let launch = launch("cluster", clusters * blocks, THREADS as u32, blocks * 16, parameters);
    let launches = vec![Launch { cluster: blocks as u32, ..launch }];
    let inputs = [carrier.host(carrier.a, x)?, carrier.host(carrier.b, |_| 0.0)?];
    let expected = HostTensor::from_fn(DataType::Float, &[count as i64], &[1], total)?.bytes;
    Ok(carrier.test(&["FW_SHARED", "fw_cluster"], &text, launches, inputs, expected))
}
