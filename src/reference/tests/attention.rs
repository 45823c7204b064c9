//! Options of an attention's node, whose scores are nothing but what the option makes of them.

use super::*;
use crate::graph::{Other, ScoreMask};

const HEAD: usize = 8;

/// O of a node without scores of its own: Q is 0, and the value of key `c` is `c` in head 0, `2 c` in head 1 and so on, in each element.
fn output(
    [batches, heads, queries, keys]: [i64; 4],
    (flag, mask): (Option<&str>, Option<&[f64]>),
) -> impl Fn(usize, usize) -> f64 {
    let mut graph = float_graph();
    let head = HEAD as i64;
    let q = input(&mut graph, "Q", &[batches, heads, queries, head], DataType::Float);
    let [k, v] = ["K", "V"].map(|name| input(&mut graph, name, &[batches, heads, keys, head], DataType::Float));
    let o = input(&mut graph, "O", &[batches, heads, queries, head], DataType::Float);
    let mut inputs = vec![(Port::Q, q), (Port::K, k), (Port::V, v)];
    if mask.is_some() {
        let dim = ScoreMask::of_blocks([batches, heads, queries, keys]);
        inputs.push((Port::BLOCK_MASK, input(&mut graph, "blocks", &dim, DataType::UInt8)));
    }
    let attributes = flag.into_iter().map(|flag| (flag.to_owned(), true.into())).collect();
    operation(&mut graph, Attributes::Other(Other { tag: "SDPA", attributes }), &inputs, &[(Port::O, o)]);
    let graph = graph.finalize().unwrap();
    assert!(graph.operations().count() > 1, "the node is taken apart");
    let mut inputs = random_inputs(&graph, 0, Distribution::Normal).unwrap();
    let mut put = |name: &str, value: &(dyn Fn(usize) -> f64 + Sync)| {
        let id = by_name(&graph, name);
        let tensor = graph.tensor(id);
        inputs.insert(id, HostTensor::from_fn(tensor.data_type, &tensor.dim, &tensor.stride, value).unwrap());
    };
    put("Q", &|_| 0.0);
    put("V", &|at| {
        let (key, head) = (at / HEAD % keys as usize, at / HEAD / keys as usize % heads as usize);
        (key * (head + 1)) as f64
    });
    mask.into_iter().for_each(|bytes| put("blocks", &|at| bytes[at]));
    let results = execute(&graph, &inputs).unwrap();
    let comparison =
        compare(&graph, &oracle(&graph, &inputs), &results, Some(&bounds(&graph, &inputs).unwrap())).unwrap();
    assert!(comparison.is_match(), "{comparison}");
    let found: Vec<f64> = results[&by_name(&graph, "O")].to_dense().unwrap();
    move |head, row| found[(head * queries as usize + row) * HEAD]
}

/// The softmax of scores, and what it makes of values.
fn mean(scores: impl Iterator<Item = (f64, f64)> + Clone) -> f64 {
    let total: f64 = scores.clone().map(|(score, _)| score.exp()).sum();
    scores.map(|(score, value)| score.exp() / total * value).sum()
}

#[test]
fn alibi_leans_scores_by_the_slope_of_their_head() {
    for (heads, slopes) in
        [(2, vec![-4.0, -8.0]), (4, vec![-2.0, -4.0, -6.0, -8.0]), (6, vec![-2.0, -4.0, -6.0, -8.0, -1.0, -3.0])]
    {
        let found = output([1, heads, 5, 7], (Some("alibi_mask"), None));
        for (head, exponent) in slopes.into_iter().enumerate() {
            for row in 0..5 {
                let slope = f64::exp2(exponent);
                let scores =
                    (0..7).map(|key| (slope * (f64::from(key) - row as f64), f64::from(key) * (head + 1) as f64));
                assert_near(&[found(head, row)], &[mean(scores)], 32.0);
            }
        }
    }
}

#[test]
fn of_tiles_of_scores_those_stay_whose_bit_is_set() {
    // two rows of tiles, and ten of columns: two bytes each; the first head keeps columns 0, 2 and 9 of the first row, and none of the second
    let bytes: [u8; 8] = [0b0000_0101, 0b1111_1110, 0, 0b1111_1100, 0b1000_0000, 0, 0xff, 0xff];
    let bytes = bytes.map(f64::from);
    let found = output([1, 2, 200, 1200], (None, Some(&bytes)));
    let of = |tiles: &[usize], head: usize| {
        let keys = tiles.iter().flat_map(|tile| tile * 128..(tile * 128 + 128).min(1200));
        mean(keys.map(|key| (0.0, (key * (head + 1)) as f64)))
    };
    assert_near(&[found(0, 0), found(0, 127)], &[of(&[0, 2, 9], 0); 2], 2048.0);
    assert_eq!([found(0, 128), found(0, 199)], [0.0; 2]);
    assert_near(&[found(1, 5)], &[of(&[7], 1)], 4096.0);
    assert_near(&[found(1, 130)], &[of(&[0, 1, 2, 3, 4, 5, 6, 7, 8, 9], 1)], 4096.0);
}
