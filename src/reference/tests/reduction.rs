use super::*;
use crate::graph::ReductionMode as R;

fn reduction(mode: R, x: &[i64], y: &[i64], data_type: DataType, compute: DataType) -> Graph {
    let mut graph = float_graph().compute_data_type(compute);
    let x = graph.tensor(Tensor::new("X").channels_last(x).data_type(data_type));
    let y = graph.reduction("reduce", mode, x, y);
    let integer = compute == DataType::Int32;
    graph.set_output(y).data_type = Some(if integer { DataType::Int32 } else { DataType::Float });
    graph
}

fn reduced(mode: R, values: &[f64]) -> f64 {
    let dim = [values.len() as i64, 1];
    let graph = reduction(mode, &dim, &[1, 1], DataType::Float, DataType::Float).finalize().unwrap();
    output(&graph, &given(&graph, &[("X", values)]))[0]
}

#[test]
fn operators_by_hand() {
    let values = [3.0, -4.0, 0.0, 1.0];
    let expected = [
        (R::Add, 0.0),
        (R::Mul, 0.0),
        (R::Min, -4.0),
        (R::Max, 3.0),
        (R::Amax, 4.0),
        (R::Avg, 0.0),
        (R::Norm1, 8.0),
        (R::Norm2, 26f64.sqrt() as f32 as f64),
        (R::MulNoZeros, -12.0),
    ];
    for (mode, expected) in expected {
        assert_eq!(reduced(mode, &values), expected, "{mode}");
    }
    assert_eq!(reduced(R::Avg, &[1.0, 2.0]), 1.5);
}

#[test]
fn nan_wins_wherever_it_stands() {
    for mode in [R::Min, R::Max, R::Amax] {
        for position in 0..3 {
            let mut values = [1.0, -2.0, 3.0];
            values[position] = f64::NAN;
            assert!(reduced(mode, &values).is_nan(), "{mode} {position}");
        }
    }
    assert_eq!(reduced(R::Min, &[f64::INFINITY, f64::INFINITY]), f64::INFINITY);
}

#[test]
fn every_operator_over_every_set_of_axes() {
    for &mode in R::ALL {
        for y in [[1, 5, 1, 1], [4, 1, 6, 7], [1, 1, 1, 1], [4, 5, 1, 7], [4, 1, 1, 1], [1, 5, 6, 7]] {
            // The order of a long product decides whether it overflows on the way.
            let count = 840 / y.iter().product::<i64>();
            if matches!(mode, R::Mul | R::MulNoZeros) && count > 50 {
                continue;
            }
            assert_agreement(&reduction(mode, &[4, 5, 6, 7], &y, DataType::Half, DataType::Float), mode != R::Norm2);
        }
        let is_exact = !matches!(mode, R::Norm2);
        assert_agreement(&reduction(mode, &[4, 5, 6, 7], &[1, 5, 1, 1], DataType::Int8, DataType::Int32), is_exact);
        assert_agreement(&reduction(mode, &[3, 9], &[3, 1], DataType::Double, DataType::Double), false);
        assert_agreement(&reduction(mode, &[3, 9], &[3, 1], DataType::Half, DataType::Half), false);
    }
}

#[test]
fn long_sums_do_not_stagnate() {
    let mut graph = float_graph();
    let x = input(&mut graph, "X", &[20_000_000, 1], DataType::UInt8);
    let y = graph.reduction("sum", R::Add, x, [1, 1]);
    graph.set_output(y);
    let graph = graph.finalize().unwrap();
    let x = HostTensor::from_fn(DataType::UInt8, &[20_000_000, 1], &[1, 1], |_| 1.0).unwrap();
    assert_eq!(output(&graph, &HostTensors::from([(by_name(&graph, "X"), x)])), [2e7]);
}

#[test]
fn statistics_sum_and_square() {
    let mut graph = float_graph();
    let x = graph.tensor(Tensor::new("X").channels_last([2, 2, 1, 2]).data_type(DataType::Half));
    let (sum, squares) = graph.genstats("stats", x);
    graph.set_output(sum);
    graph.set_output(squares);
    assert_agreement(&graph, true);
    let graph = graph.finalize().unwrap();
    let inputs = given(&graph, &[("X", &[1.0, 2.0, 10.0, 20.0, 3.0, 4.0, 30.0, 40.0])]);
    let outputs = execute(&graph, &inputs).unwrap();
    assert_eq!(outputs[&by_name(&graph, "stats::SUM")].to_dense::<f64>().unwrap(), [10.0, 100.0]);
    assert_eq!(outputs[&by_name(&graph, "stats::SQ_SUM")].to_dense::<f64>().unwrap(), [30.0, 3000.0]);
}
