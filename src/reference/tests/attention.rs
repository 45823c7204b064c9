//! Options of an attention's node, whose scores are nothing but what the option makes of them.

use super::*;
use crate::graph::Other;

const HEAD: usize = 8;

/// O of a node without scores of its own: Q is 0, and the value of key `c` is `c` in head 0, `2 c` in head 1 and so on, in each element.
fn output([batches, heads, queries, keys]: [i64; 4], flag: &str) -> impl Fn(usize, usize) -> f64 {
    let mut graph = float_graph();
    let head = HEAD as i64;
    let q = input(&mut graph, "Q", &[batches, heads, queries, head], DataType::Float);
    let [k, v] = ["K", "V"].map(|name| input(&mut graph, name, &[batches, heads, keys, head], DataType::Float));
    let o = input(&mut graph, "O", &[batches, heads, queries, head], DataType::Float);
    let inputs = [(Port::Q, q), (Port::K, k), (Port::V, v)];
    let attributes = [(flag.to_owned(), true.into())].into_iter().collect();
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
        let found = output([1, heads, 5, 7], "alibi_mask");
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
