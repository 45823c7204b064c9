//! Blocks of scores that a mask leaves out (attention.md AT-O11), by hand.

use super::*;
use crate::graph::Other;

/// An attention of as many queries and keys, of heads of two elements, with a mask of blocks and statistics.
fn attention([batches, heads, queries, keys]: [i64; 4], key_heads: i64) -> FinalizedGraph {
    const HEAD: i64 = 2;
    let mut graph = float_graph();
    let q = input(&mut graph, "Q", &[batches, heads, queries, HEAD], DataType::Float);
    let [k, v] = ["K", "V"].map(|name| input(&mut graph, name, &[batches, key_heads, keys, HEAD], DataType::Float));
    let tiles = |extent: i64| (extent + 127) / 128;
    let of_mask = [batches, heads, tiles(queries), (tiles(keys) + 7) / 8];
    let mask = input(&mut graph, "mask", &of_mask, DataType::UInt8);
    let o = input(&mut graph, "O", &[batches, heads, queries, HEAD], DataType::Float);
    let stats = input(&mut graph, "Stats", &[batches, heads, queries, 1], DataType::Float);
    let inputs = [(Port::Q, q), (Port::K, k), (Port::V, v), (Port::BLOCK_MASK, mask)];
    let node = Attributes::Other(Other { tag: "SDPA", attributes: [].into() });
    operation(&mut graph, node, &inputs, &[(Port::O, o), (Port::STATS, stats)]);
    let graph = graph.finalize().unwrap();
    assert!(graph.operations().count() > 1, "the node is taken apart");
    graph
}

/// What the engine computes, which the oracle agrees with.
fn results(graph: &FinalizedGraph, inputs: &HostTensors) -> [Vec<f64>; 2] {
    let found = execute(graph, inputs).unwrap();
    let comparison = compare(graph, &oracle(graph, inputs), &found, Some(&bounds(graph, inputs).unwrap())).unwrap();
    assert!(comparison.is_match(), "{comparison}");
    ["O", "Stats"].map(|name| found[&by_name(graph, name)].to_dense().unwrap())
}

/// Of 9 tiles of keys the first rows have the second and the last, whose only key is in the second byte, and the other rows none. Keys and values of
/// the others are NaN.
#[test]
fn rows_are_means_of_the_blocks_that_bits_keep() {
    let [queries, keys] = [130, 8 * 128 + 1];
    let graph = attention([1, 1, queries, keys], 1);
    let is_kept = |key: i64| matches!(key / 128, 1 | 8);
    let of_key = |key: i64, value: f64| if is_kept(key) { value } else { f64::NAN };
    let q = vec![0.0; 2 * queries as usize];
    // K lies in the graph as it is multiplied
    let k: Vec<f64> = (0..2 * keys).map(|at| of_key(at % keys, 3.0)).collect();
    let v: Vec<f64> = (0..2 * keys).map(|at| of_key(at / 2, (at / 2 / 128) as f64)).collect();
    // bits beyond the last tile of a row are nothing
    let mask = [f64::from(1 << 1), f64::from(0xff), 0.0, f64::from(0xfe)];
    let [o, stats] = results(&graph, &given(&graph, &[("Q", &q), ("K", &k), ("V", &v), ("mask", &mask)]));
    let mean = (128.0 * 1.0 + 8.0) / 129.0;
    for row in 0..queries as usize {
        let (expected, statistic) = if row < 128 { (mean, 129_f64.ln()) } else { (0.0, f64::NEG_INFINITY) };
        for found in &o[2 * row..2 * row + 2] {
            assert!((found - expected).abs() < 1e-5, "row {row}: {found}");
        }
        assert!(stats[row] == statistic || (stats[row] - statistic).abs() < 1e-5, "row {row}: {}", stats[row]);
    }
}

/// Random keys and values that no row has are NaN, and no result is.
#[test]
fn random_inputs_have_nothing_where_no_row_looks() {
    for key_heads in [1, 4] {
        let graph = attention([2, 4, 130, 300], key_heads);
        let inputs = random_inputs(&graph, 5, Distribution::Normal).unwrap();
        for name in ["K", "V"] {
            let values: Vec<f64> = inputs[&by_name(&graph, name)].to_dense().unwrap();
            let unread = values.iter().filter(|value| value.is_nan()).count();
            assert!(unread > 0 && unread < values.len(), "{name}: {unread} of {}", values.len());
        }
        let [o, stats] = results(&graph, &inputs);
        assert!(o.iter().all(|value| value.is_finite()));
        assert!(stats.contains(&f64::NEG_INFINITY));
        assert!(stats.iter().any(|value| value.is_finite()));
    }
}
