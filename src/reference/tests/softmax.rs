use super::*;
use crate::graph::{Composite, PointwiseMode as M, Softmax};

const INFINITE: f64 = f64::INFINITY;

/// Softmax of a FLOAT matrix with all statistics stored, and with a sink of one value a row.
fn softmax(rows: i64, columns: i64, has_sink: bool) -> FinalizedGraph {
    let mut graph = float_graph();
    let x = input(&mut graph, "x", &[rows, columns], DataType::Float);
    let sink = has_sink.then(|| input(&mut graph, "sink", &[rows, 1], DataType::Float));
    let (y, statistics) = graph.softmax_with("s", x, sink, Softmax::STATISTICS);
    for id in [y].into_iter().chain(statistics) {
        graph.set_output(id);
    }
    graph.finalize().unwrap()
}

/// Y, Stats, Max and Sum_exp, by the engine, which agree with the oracle's within bounds.
fn results(graph: &FinalizedGraph, values: &[(&str, &[f64])]) -> [Vec<f64>; 4] {
    let inputs = given(graph, values);
    let results = execute(graph, &inputs).unwrap();
    let bounds = bounds(graph, &inputs).unwrap();
    let comparison = compare(graph, &oracle(graph, &inputs), &results, Some(&bounds)).unwrap();
    assert!(comparison.is_match(), "{comparison}");
    ["s::Y", "s::Stats", "s::Max", "s::Sum_exp"].map(|name| results[&by_name(graph, name)].to_dense().unwrap())
}

fn assert_near(found: &[f64], expected: &[f64]) {
    let is_near = |(a, b): (&f64, &f64)| a == b || (a - b).abs() <= 4.0 * f64::from(f32::EPSILON) * b.abs();
    assert!(found.len() == expected.len() && found.iter().zip(expected).all(is_near), "{found:?} for {expected:?}");
}

#[test]
fn a_row_by_hand() {
    let [y, stats, max, sum] = results(&softmax(1, 3, false), &[("x", &[2.0, 2.0 + 3f64.ln(), 2.0])]);
    assert_near(&y, &[0.2, 0.6, 0.2]);
    assert_near(&max, &[2.0 + 3f64.ln()]);
    assert_near(&sum, &[5.0 / 3.0]);
    assert_near(&stats, &[2.0 + 5f64.ln()]);
}

#[test]
fn equal_elements_share_whatever_their_size() {
    for columns in [1, 2, 7, 128, 129, 1000] {
        for value in [0.0, -3e38, 3e38, 1e4] {
            let n = columns as f64;
            let x = vec![value; columns as usize];
            let [y, stats, max, sum] = results(&softmax(1, columns, false), &[("x", &x)]);
            assert_near(&y, &vec![1.0 / n; columns as usize]);
            assert_near(&sum, &[n]);
            assert_eq!(max[0], f64::from(value as f32));
            assert_near(&stats, &[f64::from(value as f32) + n.ln()]);
        }
    }
}

#[test]
fn masked_elements_have_no_share_and_a_masked_row_is_zero() {
    let x = [-INFINITE, 1.0, -INFINITE, -INFINITE, -INFINITE, -INFINITE];
    let [y, stats, max, sum] = results(&softmax(2, 3, false), &[("x", &x)]);
    assert_eq!(y, [0.0, 1.0, 0.0, 0.0, 0.0, 0.0]);
    assert_eq!((stats, max, sum), (vec![1.0, -INFINITE], vec![1.0, -INFINITE], vec![1.0, 0.0]));
}

#[test]
fn a_sink_is_one_more_element_without_a_value() {
    let graph = softmax(3, 2, true);
    let x = [0.0, 0.0, -INFINITE, -INFINITE, -INFINITE, -INFINITE];
    let [y, stats, max, sum] = results(&graph, &[("x", &x), ("sink", &[2f64.ln(), 5.0, -INFINITE])]);
    assert_near(&y, &[0.25, 0.25, 0.0, 0.0, 0.0, 0.0]);
    assert_near(&max, &[2f64.ln(), 5.0, -INFINITE]);
    assert_near(&sum, &[2.0, 1.0, 0.0]);
    assert_near(&stats, &[4f64.ln(), 5.0, -INFINITE]);
}

#[test]
fn nan_and_infinity_spoil_their_row_alone() {
    for spoilt in [f64::NAN, INFINITE] {
        let [y, ..] = results(&softmax(2, 3, false), &[("x", &[0.0, spoilt, 0.0, 7.0, 7.0, -INFINITE])]);
        assert!(y[..3].iter().all(|value| value.is_nan()), "{y:?}");
        assert_eq!(y[3..], [0.5, 0.5, 0.0]);
    }
}

#[test]
fn rows_know_nothing_of_each_other() {
    let graph = softmax(3, 5, false);
    let inputs = random_inputs(&graph, 3, Distribution::Normal).unwrap();
    let x = inputs[&by_name(&graph, "x")].to_dense::<f64>().unwrap();
    let turned: Vec<f64> = [&x[10..], &x[..10]].concat();
    let [y, stats, max, sum] = results(&graph, &[("x", &x)]);
    let [other_y, other_stats, other_max, other_sum] = results(&graph, &[("x", &turned)]);
    assert_eq!([&y[10..], &y[..10]].concat(), other_y);
    for (rows, other) in [(stats, other_stats), (max, other_max), (sum, other_sum)] {
        assert_eq!([&rows[2..], &rows[..2]].concat(), other);
    }
}

#[test]
fn adding_a_number_to_a_row_changes_only_its_maximum() {
    let graph = softmax(1, 4, false);
    let [y, _, max, sum] = results(&graph, &[("x", &[1.0, -2.5, 0.75, 3.0])]);
    let [other_y, _, other_max, other_sum] = results(&graph, &[("x", &[65.0, 61.5, 64.75, 67.0])]);
    assert_eq!((y, sum, max[0] + 64.0), (other_y, other_sum, other_max[0]));
}

#[test]
fn it_works_between_other_operations_in_every_type() {
    for data_type in [DataType::Float, DataType::Half, DataType::BFloat16, DataType::Double] {
        let mut graph = float_graph().io_data_type(data_type);
        let x = input(&mut graph, "x", &[2, 3, 4, 37], data_type);
        let scale = input(&mut graph, "scale", &[1, 3, 1, 1], data_type);
        let sink = input(&mut graph, "sink", &[1, 3, 1, 1], DataType::Float);
        let scaled = graph.pointwise("scaled", M::Mul, &[x, scale]);
        let (y, statistics) = graph.softmax_with("s", scaled, Some(sink), &[Port::STATS]);
        let kept = graph.pointwise("kept", M::Mul, &[y, scale]);
        let entropy = graph.pointwise("entropy", M::Neg, &statistics);
        for id in [kept, entropy] {
            graph.set_output(id);
        }
        assert_agreement(&graph, false);
    }
}

#[test]
fn a_softmax_alone_may_work_in_place() {
    let mut graph = float_graph();
    let x = input(&mut graph, "x", &[2, 2], DataType::Float);
    operation(&mut graph, Attributes::Composite(Composite::Softmax(Softmax)), &[(Port::X, x)], &[(Port::Y, x)]);
    let graph = graph.finalize().unwrap();
    assert_eq!(output(&graph, &given(&graph, &[("x", &[1.0, 1.0, -INFINITE, 2.0])])), [0.5, 0.5, 0.0, 1.0]);
}

#[test]
fn a_wrong_sum_is_beyond_the_bounds() {
    let graph = softmax(4, 1000, false);
    let inputs = random_inputs(&graph, 9, Distribution::Normal).unwrap();
    let bounds = bounds(&graph, &inputs).unwrap();
    let y = by_name(&graph, "s::Y");
    let values = execute(&graph, &inputs).unwrap()[&y].to_dense::<f64>().unwrap();
    let lost = |place: usize| values[place] * values.iter().take(1000).copied().fold(0.0, f64::max);
    assert!((0..1000).all(|place| 2.0 * bounds.at(y, place) < lost(place)), "one lost element of the sum is seen");
}
