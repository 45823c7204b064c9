//! The backward pass of attention: the engine beside the oracle's definition within its bounds, and both beside differences of a forward pass
//! that is written out here in double precision.

use super::*;
use crate::graph::{AttentionBackward, Bernoulli, Dropout, Scalar, ScoreMask};

const HEADS: usize = 2;
const QUERIES: usize = 5;
const KEYS: usize = 4;
const HEAD: usize = 3;
const VALUE_HEAD: usize = 2;
const SCALE: f64 = 0.75;

/// A backward pass of so many heads of K and V; lengths as `[queries, keys]` of its one sequence.
#[derive(Clone, Copy)]
struct Case {
    key_heads: usize,
    mask: ScoreMask,
    lengths: Option<[usize; 2]>,
    /// Whether each head has a sink.
    has_sinks: bool,
    /// The probability to keep, where some are dropped.
    keep: Option<f32>,
    /// Heads, queries and keys of a bias, or 1.
    bias: Option<[usize; 3]>,
    slopes: Slopes,
    /// Heads, queries and keys of a mask of dropout, or 1.
    masked: Option<[usize; 3]>,
    /// What scores are capped by.
    cap: Option<f64>,
}

/// By what scores lean.
#[derive(Clone, Copy, PartialEq)]
enum Slopes {
    Nothing,
    OfFrontend,
    Given,
}

impl Slopes {
    fn of(self, head: usize) -> f64 {
        match self {
            Self::Nothing => 0.0,
            Self::OfFrontend => [1.0 / 16.0, 1.0 / 256.0][head],
            Self::Given => [0.25, -0.75][head],
        }
    }
}

/// The factor of what a mask leaves.
const FACTOR: f64 = 1.25;

/// All of each head.
const WHOLE: Case = Case {
    key_heads: HEADS,
    mask: band(None, None, false),
    lengths: None,
    has_sinks: false,
    keep: None,
    bias: None,
    slopes: Slopes::Nothing,
    masked: None,
    cap: None,
};

impl Case {
    fn graph(self) -> FinalizedGraph {
        let mut graph = float_graph();
        let dims = [
            (Port::Q, [HEADS, QUERIES, HEAD]),
            (Port::K, [self.key_heads, KEYS, HEAD]),
            (Port::V, [self.key_heads, KEYS, VALUE_HEAD]),
            (Port::O, [HEADS, QUERIES, VALUE_HEAD]),
            (Port::DO, [HEADS, QUERIES, VALUE_HEAD]),
            (Port::STATS, [HEADS, QUERIES, 1]),
        ];
        let batched = |dim: [usize; 3]| [1, dim[0] as i64, dim[1] as i64, dim[2] as i64];
        let mut slots: Vec<(Port, TensorHandle)> = Vec::new();
        for (port, dim) in dims {
            slots.push((port, input(&mut graph, port.0, &batched(dim), DataType::Float)));
        }
        let scale = Tensor::scalar("scale", DataType::Float, Scalar::Float(SCALE));
        slots.push((Port::ATTN_SCALE, graph.tensor(scale)));
        if let Some(cap) = self.cap {
            slots.push((Port::SOFT_CAP, graph.tensor(Tensor::scalar("cap", DataType::Float, Scalar::Float(cap)))));
        }
        for &port in ScoreMask::LENGTHS.iter().filter(|_| self.lengths.is_some()) {
            slots.push((port, input(&mut graph, port.0, &[1, 1, 1, 1], DataType::Int32)));
        }
        let sinks = [1, HEADS as i64, 1, 1];
        let mut outputs: Vec<(Port, [i64; 4])> =
            vec![(Port::DQ, batched(dims[0].1)), (Port::DK, batched(dims[1].1)), (Port::DV, batched(dims[2].1))];
        if self.has_sinks {
            slots.push((Port::SINK_TOKEN, input(&mut graph, "sink", &sinks, DataType::Float)));
            outputs.push((Port::DSINK_TOKEN, sinks));
        }
        if let Some(dim) = self.bias {
            slots.push((Port::ATTENTION_BIAS, input(&mut graph, "bias", &batched(dim), DataType::Float)));
            outputs.push((Port::ATTENTION_DBIAS, batched(dim)));
        }
        if self.slopes == Slopes::Given {
            slots.push((Port::ALIBI_SLOPES, input(&mut graph, "slopes", &sinks, DataType::Float)));
        }
        if let Some(dim) = self.masked {
            slots.push((Port::DROPOUT_MASK, input(&mut graph, "mask", &batched(dim), DataType::Float)));
            for (port, value) in [(Port::DROPOUT_SCALE, FACTOR), (Port::DROPOUT_SCALE_INV, 1.0 / FACTOR)] {
                slots.push((port, graph.tensor(Tensor::scalar(port.0, DataType::Float, Scalar::Float(value)))));
            }
        }
        if let Some(keep) = self.keep {
            slots.extend(Dropout::STATE.map(|port| (port, input(&mut graph, port.0, &[1; 4], DataType::Int64))));
            let factor = Tensor::scalar("factor", DataType::Float, Scalar::Float(f64::from(1.0 / keep)));
            slots.push((Port::DROPOUT_SCALE, graph.tensor(factor)));
            outputs.push((Port::RNG_DUMP, batched([HEADS, QUERIES, KEYS])));
        }
        let ports: Vec<Port> = outputs.iter().map(|output| output.0).collect();
        let dropout = self.keep.map(|keep| Dropout { kept: Bernoulli { keep } });
        let backward = AttentionBackward { mask: self.mask, dropout, alibi: self.slopes == Slopes::OfFrontend };
        let gradients = graph.composite("b", backward, &slots, &ports);
        for (id, (_, dim)) in gradients.into_iter().zip(outputs) {
            *graph.set_output(id) = Tensor::new("").row_major(dim).data_type(DataType::Float);
        }
        graph.finalize().unwrap()
    }

    fn is_kept(self, row: usize, column: usize) -> bool {
        let [queries, keys] = self.lengths.unwrap_or([QUERIES, KEYS]);
        let shift = if self.mask.is_bottom_right { keys as i64 - queries as i64 } else { 0 };
        let (diagonal, column_index) = (row as i64 + shift, column as i64);
        row < queries
            && column < keys
            && self.mask.right_bound.is_none_or(|right| column_index <= diagonal + right)
            && self.mask.left_bound.is_none_or(|left| column_index > diagonal - left)
    }

    /// What is left of 1 of each score where a mask says what is kept.
    fn factors(self, mask: &[f64]) -> Vec<f64> {
        if let Some(dim) = self.masked {
            let scores = (0..HEADS * QUERIES * KEYS).map(|at| [at / KEYS / QUERIES, at / KEYS % QUERIES, at % KEYS]);
            return scores.map(|at| mask[place(dim, at)] * FACTOR).collect();
        }
        mask.iter().map(|kept| kept * f64::from(self.keep.map_or(1.0, |keep| 1.0 / keep))).collect()
    }

    /// What is added to a score.
    fn bias_of(self, bias: &[f64], at: [usize; 3]) -> f64 {
        let leaning = self.slopes.of(at[0]) * (at[2] as f64 - at[1] as f64);
        leaning + self.bias.map_or(0.0, |dim| bias[place(dim, at)])
    }

    /// O and the statistics, of Q, K and V, of a sink of each head, which is −∞ where there are none, of a bias, and of what dropout leaves.
    fn forward(self, [q, k, v]: [&[f64]; 3], [sinks, bias]: [&[f64]; 2], factors: &[f64]) -> [Vec<f64>; 2] {
        let mut o = vec![0.0; HEADS * QUERIES * VALUE_HEAD];
        let mut statistics = vec![f64::NEG_INFINITY; HEADS * QUERIES];
        for (head, row) in (0..HEADS).flat_map(|head| (0..QUERIES).map(move |row| (head, row))) {
            let key_head = head / (HEADS / self.key_heads);
            let query = &q[(head * QUERIES + row) * HEAD..][..HEAD];
            let columns: Vec<usize> = (0..KEYS).filter(|&column| self.is_kept(row, column)).collect();
            let exponential = |&column: &usize| {
                let key = &k[(key_head * KEYS + column) * HEAD..][..HEAD];
                let product = query.iter().zip(key).map(|(q, k)| q * k).sum::<f64>();
                let score = product * SCALE;
                let capped = self.cap.map_or(score, |cap| cap * (score / cap).tanh());
                (capped + self.bias_of(bias, [head, row, column])).exp()
            };
            let weights: Vec<f64> = columns.iter().map(exponential).collect();
            let sum: f64 = weights.iter().sum::<f64>() + sinks[head].exp();
            statistics[head * QUERIES + row] = sum.ln();
            for (column, weight) in columns.into_iter().zip(weights) {
                let weight = weight * factors[(head * QUERIES + row) * KEYS + column];
                for along in 0..VALUE_HEAD {
                    let value = v[(key_head * KEYS + column) * VALUE_HEAD + along];
                    o[(head * QUERIES + row) * VALUE_HEAD + along] += weight / sum * value;
                }
            }
        }
        [o, statistics]
    }

    /// Compares the gradients of random inputs with differences of the forward pass.
    fn assert_gradients(self, seed: u64) {
        let graph = self.graph();
        let operation = graph.operations().next().unwrap();
        let mut inputs = random_inputs(&graph, seed, Distribution::Normal).unwrap();
        let mut put = |port: Port, values: &[f64]| {
            let id = operation.input(port).unwrap();
            let tensor = graph.tensor(id);
            let host = HostTensor::from_dense(tensor.data_type, &tensor.dim, &tensor.stride, values);
            inputs.insert(id, host.unwrap());
        };
        if let Some(lengths) = self.lengths {
            ScoreMask::LENGTHS.iter().zip(lengths).for_each(|(&port, length)| put(port, &[length as f64]));
        }
        if self.slopes == Slopes::Given {
            put(Port::ALIBI_SLOPES, &[0, 1].map(|head| self.slopes.of(head)));
        }
        let at = |inputs: &HostTensors, port: Port| -> Vec<f64> {
            inputs[&operation.input(port).unwrap()].to_dense().unwrap()
        };
        let [q, k, v, gradient] = [Port::Q, Port::K, Port::V, Port::DO].map(|port| at(&inputs, port));
        let sinks = match operation.input(Port::SINK_TOKEN) {
            Some(_) => at(&inputs, Port::SINK_TOKEN),
            None => vec![f64::NEG_INFINITY; HEADS],
        };
        let bias = operation.input(Port::ATTENTION_BIAS).map_or(Vec::new(), |_| at(&inputs, Port::ATTENTION_BIAS));
        // what is drawn does not depend on the values
        let mask = match operation.output(Port::RNG_DUMP) {
            Some(mask) => execute(&graph, &inputs).unwrap()[&mask].to_dense().unwrap(),
            None if self.masked.is_some() => at(&inputs, Port::DROPOUT_MASK),
            None => vec![1.0; HEADS * QUERIES * KEYS],
        };
        let factors = self.factors(&mask);
        let [o, statistics] = self.forward([&q, &k, &v], [&sinks, &bias], &factors);
        for (port, values) in [(Port::O, o), (Port::STATS, statistics)] {
            let id = operation.input(port).unwrap();
            let tensor = graph.tensor(id);
            let host = HostTensor::from_dense(tensor.data_type, &tensor.dim, &tensor.stride, &values);
            inputs.insert(id, host.unwrap());
        }
        let results = execute(&graph, &inputs).unwrap();
        let bounds = bounds(&graph, &inputs).unwrap();
        let comparison = compare(&graph, &oracle(&graph, &inputs), &results, Some(&bounds)).unwrap();
        assert!(comparison.is_match(), "{comparison}");
        let loss = |values: [&[f64]; 3], others: [&[f64]; 2]| -> f64 {
            self.forward(values, others, &factors)[0].iter().zip(&gradient).map(|(o, dy)| o * dy).sum()
        };
        let found = |port: Port| -> Vec<f64> { results[&operation.output(port).unwrap()].to_dense().unwrap() };
        for (along, port) in [Port::DQ, Port::DK, Port::DV].into_iter().enumerate() {
            let numeric = differences([&q, &k, &v], along, |values| loss(values, [&sinks, &bias]));
            assert_near(&found(port), &numeric, 16.0);
        }
        if self.has_sinks {
            let numeric = differences([&sinks, &k, &v], 0, |[sinks, k, v]| loss([&q, k, v], [sinks, &bias]));
            assert_near(&found(Port::DSINK_TOKEN), &numeric, 16.0);
        }
        if self.bias.is_some() {
            let numeric = differences([&bias, &k, &v], 0, |[bias, k, v]| loss([&q, k, v], [&sinks, bias]));
            assert_near(&found(Port::ATTENTION_DBIAS), &numeric, 16.0);
        }
    }
}

/// Where an element is of extents that are those of the scores, or 1.
fn place(dim: [usize; 3], at: [usize; 3]) -> usize {
    dim.into_iter().zip(at).fold(0, |place, (extent, at)| place * extent + at % extent)
}

const fn band(left_bound: Option<i64>, right_bound: Option<i64>, is_bottom_right: bool) -> ScoreMask {
    ScoreMask { left_bound, right_bound, is_bottom_right }
}

#[test]
fn gradients_are_those_of_the_forward_pass() {
    let masks =
        [ScoreMask::default(), band(None, Some(0), false), band(None, Some(-2), false), band(Some(2), Some(1), false)];
    for (seed, mask) in masks.into_iter().enumerate() {
        Case { mask, ..WHOLE }.assert_gradients(seed as u64);
        Case { mask, key_heads: 1, ..WHOLE }.assert_gradients(seed as u64 + 100);
        Case { mask, has_sinks: true, ..WHOLE }.assert_gradients(seed as u64 + 300);
        Case { mask, has_sinks: true, keep: Some(0.75), ..WHOLE }.assert_gradients(seed as u64 + 500);
        Case { mask, key_heads: 1, keep: Some(0.5), ..WHOLE }.assert_gradients(seed as u64 + 600);
    }
    for (seed, lengths) in [[5, 4], [3, 2], [2, 4], [0, 3], [4, 0]].into_iter().enumerate() {
        for mask in [ScoreMask::default(), band(None, Some(0), true), band(Some(2), Some(0), true)] {
            Case { mask, lengths: Some(lengths), ..WHOLE }.assert_gradients(seed as u64 + 200);
            Case { mask, lengths: Some(lengths), has_sinks: true, ..WHOLE }.assert_gradients(seed as u64 + 400);
        }
    }
}

#[test]
fn the_gradient_of_a_bias_is_that_of_all_that_share_it() {
    let shapes = [[HEADS, QUERIES, KEYS], [1, QUERIES, KEYS], [HEADS, 1, KEYS], [1, QUERIES, 1], [1, 1, 1]];
    for (seed, bias) in shapes.into_iter().enumerate() {
        let case = Case { bias: Some(bias), ..WHOLE };
        case.assert_gradients(seed as u64);
        Case { mask: band(Some(2), Some(1), false), key_heads: 1, ..case }.assert_gradients(seed as u64 + 10);
        Case { lengths: Some([3, 2]), has_sinks: true, ..case }.assert_gradients(seed as u64 + 20);
        Case { keep: Some(0.75), ..case }.assert_gradients(seed as u64 + 30);
    }
}

#[test]
fn leaning_scores_have_the_gradients_of_the_forward_pass() {
    for (seed, slopes) in [Slopes::OfFrontend, Slopes::Given].into_iter().enumerate() {
        let case = Case { slopes, mask: band(None, Some(0), false), ..WHOLE };
        case.assert_gradients(seed as u64 + 700);
        Case { key_heads: 1, keep: Some(0.75), has_sinks: true, ..case }.assert_gradients(seed as u64 + 710);
        Case { bias: Some([1, QUERIES, KEYS]), lengths: Some([3, 2]), ..case }.assert_gradients(seed as u64 + 720);
    }
}

#[test]
fn probabilities_that_a_mask_leaves_have_the_gradients_of_the_forward_pass() {
    for (seed, masked) in [[HEADS, QUERIES, KEYS], [1, QUERIES, 1], [1, 1, KEYS]].into_iter().enumerate() {
        let case = Case { masked: Some(masked), ..WHOLE };
        case.assert_gradients(seed as u64 + 800);
        Case { key_heads: 1, has_sinks: true, mask: band(Some(2), Some(1), false), ..case }
            .assert_gradients(seed as u64 + 810);
        Case { bias: Some([1, QUERIES, KEYS]), slopes: Slopes::OfFrontend, ..case }.assert_gradients(seed as u64 + 820);
    }
}

#[test]
fn capped_scores_have_the_gradients_of_the_forward_pass() {
    // hardly, by half, all saturated; negative caps are the same
    for (seed, cap) in [50.0, 0.75, 0.05, -0.75].into_iter().enumerate() {
        let case = Case { cap: Some(cap), ..WHOLE };
        case.assert_gradients(seed as u64 + 900);
        Case { key_heads: 1, has_sinks: true, mask: band(Some(2), Some(1), false), ..case }
            .assert_gradients(seed as u64 + 910);
        Case { bias: Some([1, QUERIES, KEYS]), lengths: Some([3, 2]), ..case }.assert_gradients(seed as u64 + 920);
        Case { slopes: Slopes::Given, keep: Some(0.75), ..case }.assert_gradients(seed as u64 + 930);
        Case { masked: Some([1, QUERIES, 1]), mask: band(None, Some(0), false), ..case }
            .assert_gradients(seed as u64 + 940);
    }
}

#[test]
fn rows_without_a_finite_score_have_no_gradients() {
    let graph = Case { bias: Some([1, QUERIES, KEYS]), ..WHOLE }.graph();
    let operation = graph.operations().next().unwrap();
    let mut inputs = random_inputs(&graph, 5, Distribution::Normal).unwrap();
    let row = |port: Port, values: &mut [f64], of: usize| {
        let width = values.len() / of;
        let value = if port == Port::O { 0.0 } else { f64::NEG_INFINITY };
        values.chunks_mut(width).step_by(QUERIES).for_each(|row| row.fill(value));
    };
    for (port, rows) in [(Port::ATTENTION_BIAS, QUERIES), (Port::STATS, HEADS * QUERIES), (Port::O, HEADS * QUERIES)] {
        let id = operation.input(port).unwrap();
        let tensor = graph.tensor(id);
        let mut values: Vec<f64> = inputs[&id].to_dense().unwrap();
        row(port, &mut values, rows);
        inputs.insert(id, HostTensor::from_dense(tensor.data_type, &tensor.dim, &tensor.stride, &values).unwrap());
    }
    let results = execute(&graph, &inputs).unwrap();
    let bounds = bounds(&graph, &inputs).unwrap();
    let comparison = compare(&graph, &oracle(&graph, &inputs), &results, Some(&bounds)).unwrap();
    assert!(comparison.is_match(), "{comparison}");
    for port in [Port::DQ, Port::DK, Port::DV, Port::ATTENTION_DBIAS] {
        let values: Vec<f64> = results[&operation.output(port).unwrap()].to_dense().unwrap();
        assert!(values.iter().all(|value| value.is_finite()), "{port}: {values:?}");
    }
    let of_queries: Vec<f64> = results[&operation.output(Port::DQ).unwrap()].to_dense().unwrap();
    assert!(of_queries.chunks(HEAD).step_by(QUERIES).flatten().all(|&value| value == 0.0), "{of_queries:?}");
}

#[test]
fn random_statistics_are_those_of_the_forward_pass() {
    let case = Case { key_heads: 1, mask: band(None, Some(-1), false), bias: Some([1, 1, KEYS]), ..WHOLE };
    let masked = Some([HEADS, QUERIES, KEYS]);
    let capped = Case { cap: Some(0.75), ..case };
    for case in [case, Case { slopes: Slopes::OfFrontend, ..case }, Case { masked, ..case }, capped] {
        assert_statistics(case);
    }
}

fn assert_statistics(case: Case) {
    let graph = case.graph();
    let operation = graph.operations().next().unwrap();
    let inputs = random_inputs(&graph, 7, Distribution::Normal).unwrap();
    let at = |port: Port| -> Vec<f64> { inputs[&operation.input(port).unwrap()].to_dense().unwrap() };
    let [o, statistics] = case.forward(
        [&at(Port::Q), &at(Port::K), &at(Port::V)],
        [&[f64::NEG_INFINITY; HEADS], &at(Port::ATTENTION_BIAS)],
        &case.factors(
            &operation.input(Port::DROPOUT_MASK).map_or(vec![1.0; HEADS * QUERIES * KEYS], |_| at(Port::DROPOUT_MASK)),
        ),
    );
    assert_near(&at(Port::O), &o, 4.0);
    let finite = |values: Vec<f64>| -> Vec<f64> { values.into_iter().map(|value| value.max(-1e3)).collect() };
    assert_near(&finite(at(Port::STATS)), &finite(statistics), 4.0);
}

/// Heads of K and V that are one tensor: what the forward pass gives for them is found all the same.
#[test]
fn statistics_of_shared_keys_and_values_are_those_of_their_forward_pass() {
    let mut graph = float_graph();
    let heads = |graph: &mut Graph, name: &str, rows: i64| input(graph, name, &[1, 2, rows, 4], DataType::Float);
    let [q, o, gradient] = ["Q", "O", "dO"].map(|name| heads(&mut graph, name, 5));
    let keys = heads(&mut graph, "KV", 6);
    let statistics = input(&mut graph, "Stats", &[1, 2, 5, 1], DataType::Float);
    let inputs =
        [(Port::Q, q), (Port::K, keys), (Port::V, keys), (Port::O, o), (Port::DO, gradient), (Port::STATS, statistics)];
    let outputs = [(Port::DQ, 5), (Port::DK, 6), (Port::DV, 6)];
    let results = graph.composite("backward", AttentionBackward::default(), &inputs, &outputs.map(|(port, _)| port));
    for (id, (port, rows)) in results.into_iter().zip(outputs) {
        *graph.set_output(id) = Tensor::new(port.0).row_major([1, 2, rows, 4]);
    }
    let graph = graph.finalize().unwrap();
    let inputs = random_inputs(&graph, 3, Distribution::Normal).unwrap();
    let values = |name: &str| inputs[&by_name(&graph, name)].to_dense::<f64>().unwrap();
    let (q, keys, o, statistics) = (values("Q"), values("KV"), values("O"), values("Stats"));
    for row in 0..10 {
        let head = row / 5;
        let product = |key: usize| (0..4).map(|at| q[row * 4 + at] * keys[(head * 6 + key) * 4 + at]).sum::<f64>();
        let weights: Vec<f64> = (0..6).map(|key| product(key).exp()).collect();
        let sum: f64 = weights.iter().sum();
        assert!((statistics[row] - sum.ln()).abs() < 1e-5, "row {row}: {} and {}", statistics[row], sum.ln());
        for at in 0..4 {
            let expected = (0..6).map(|key| weights[key] / sum * keys[(head * 6 + key) * 4 + at]).sum::<f64>();
            assert!((o[row * 4 + at] - expected).abs() < 1e-5, "row {row}: {} and {expected}", o[row * 4 + at]);
        }
    }
}
