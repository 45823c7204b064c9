use super::*;
use crate::graph::{PointwiseMode as M, ReductionMode, Scalar};
use crate::reference::{BoundOptions, bounds_with};

/// `relu(A·B + bias)`, of this depth and output type.
fn gemm(k: i64, data_type: DataType, result: DataType) -> FinalizedGraph {
    let mut graph = float_graph();
    let a = input(&mut graph, "A", &[1, 40, k], data_type);
    let b = input(&mut graph, "B", &[1, k, 30], data_type);
    let bias = input(&mut graph, "bias", &[1, 1, 30], DataType::Float);
    let c = graph.matmul("mm", a, b);
    let biased = graph.pointwise("add", M::Add, &[c, bias]);
    let y = graph.pointwise("relu", M::ReluFwd, &[biased]);
    graph.set_output(y).data_type = Some(result);
    graph.finalize().unwrap()
}

/// The same graph's result with the sum over k taken in another order and with another rounding per step.
fn reordered(graph: &FinalizedGraph, inputs: &HostTensors, k: usize) -> Vec<f64> {
    let dense = |name| inputs[&by_name(graph, name)].to_dense::<f32>().unwrap();
    let (a, b, bias) = (dense("A"), dense("B"), dense("bias"));
    let element = |i: usize| {
        let (row, column) = (i / 30, i % 30);
        let term = |t: usize| a[row * k + t] * b[t * 30 + column];
        let quarters: [f32; 4] = std::array::from_fn(|q| (0..k / 4).rev().map(|t| term(4 * t + q)).sum());
        let sum = (quarters[0] + quarters[1]) + (quarters[2] + quarters[3]);
        f64::from((sum + bias[column]).max(0.0))
    };
    (0..40 * 30).map(element).collect()
}

fn mismatches(graph: &FinalizedGraph, inputs: &HostTensors, actual: Vec<f64>) -> usize {
    let id = graph.outputs().next().unwrap();
    let tensor = graph.tensor(id);
    let actual = HostTensor::from_dense(tensor.data_type, &tensor.dim, &tensor.stride, &actual).unwrap();
    let bounds = bounds(graph, inputs).unwrap();
    let expected = execute(graph, inputs).unwrap();
    compare(graph, &expected, &HostTensors::from([(id, actual)]), Some(&bounds)).unwrap().outputs[0].mismatches
}

#[test]
fn another_order_of_summation_passes_and_a_lost_term_does_not() {
    for (data_type, result) in
        [(DataType::Float, DataType::Float), (DataType::Half, DataType::Half), (DataType::BFloat16, DataType::BFloat16)]
    {
        let k = 256;
        let graph = gemm(k as i64, data_type, result);
        let inputs = random_inputs(&graph, 5, Distribution::Normal).unwrap();
        let honest = reordered(&graph, &inputs, k);
        assert_eq!(mismatches(&graph, &inputs, honest.clone()), 0, "{result}");
        let mut damaged = inputs.clone();
        let a = damaged.get_mut(&by_name(&graph, "A")).unwrap();
        a.set(17 * k + 100, Scalar::Float(0.0)).unwrap();
        let wrong = mismatches(&graph, &inputs, reordered(&graph, &damaged, k));
        assert!((5..=30).contains(&wrong), "{result}: {wrong} of one row's 30 elements");
    }
}

#[test]
fn sums_beyond_half_are_not_compared_where_they_are_kept_in_half() {
    let [beyond, within] = [256.0, 3.0].map(|first| {
        let mut graph = float_graph().compute_data_type(DataType::Half);
        let a = input(&mut graph, "A", &[1, 1, 2], DataType::Half);
        let b = input(&mut graph, "B", &[1, 2, 1], DataType::Half);
        let c = graph.matmul("mm", a, b);
        graph.set_output(c).data_type = Some(DataType::Float);
        let graph = graph.finalize().unwrap();
        let inputs = given(&graph, &[("A", &[first, 1.0]), ("B", &[256.0, 256.0])]);
        let id = graph.outputs().next().unwrap();
        (output(&graph, &inputs)[0], bounds(&graph, &inputs).unwrap().at(id, 0))
    });
    assert_eq!(beyond, (f64::INFINITY, f64::INFINITY), "a multiple of 256, as every product, but 65792");
    assert_eq!(within, (1024.0, 0.0));
}

#[test]
fn an_error_just_above_the_tolerance_is_caught() {
    let graph = gemm(64, DataType::Float, DataType::Float);
    let inputs = random_inputs(&graph, 5, Distribution::Normal).unwrap();
    let id = graph.outputs().next().unwrap();
    let bounds = bounds(&graph, &inputs).unwrap();
    let expected = output(&graph, &inputs);
    let place = expected.iter().position(|&y| y > 1.0).unwrap();
    for (factor, wrong) in [(1.9, 0), (2.1, 1)] {
        let mut actual = expected.clone();
        actual[place] += factor * bounds.at(id, place);
        assert_eq!(mismatches(&graph, &inputs, actual), wrong, "{factor}");
    }
}

#[test]
fn integer_inputs_must_give_exact_results() {
    let graph = gemm(128, DataType::Half, DataType::Float);
    let inputs = random_inputs(&graph, 5, Distribution::SmallIntegers).unwrap();
    let (id, bounds) = (graph.outputs().next().unwrap(), bounds(&graph, &inputs).unwrap());
    assert!((0..1200).all(|position| bounds.at(id, position) == 0.0));
    let mut actual = output(&graph, &inputs);
    actual[7] += 1e-3;
    assert_eq!(mismatches(&graph, &inputs, actual), 1);
}

#[test]
fn discontinuities_are_tolerated_only_where_they_are_near() {
    let mut graph = float_graph();
    let x = input(&mut graph, "x", &[1, 2], DataType::Float);
    let sum = graph.reduction("mean", ReductionMode::Avg, x, [1, 1]);
    let floor = graph.pointwise("floor", M::Floor, &[sum]);
    graph.set_output(floor);
    let graph = graph.finalize().unwrap();
    let id = graph.outputs().next().unwrap();
    let near = given(&graph, &[("x", &[2.999_999_8, 3.000_000_2])]);
    let far = given(&graph, &[("x", &[3.1, 3.2])]);
    assert_eq!(bounds(&graph, &near).unwrap().at(id, 0), 1.0);
    assert_eq!(bounds(&graph, &far).unwrap().at(id, 0), 0.0);
}

#[test]
fn not_finite_results_are_counted_as_incomparable() {
    let mut graph = float_graph();
    let a = input(&mut graph, "A", &[1, 2, 2], DataType::Float);
    let b = input(&mut graph, "B", &[1, 2, 1], DataType::Float);
    let c = graph.matmul("mm", a, b);
    graph.set_output(c);
    let graph = graph.finalize().unwrap();
    let inputs = given(&graph, &[("A", &[f64::INFINITY, 1.0, 1.0, 1.0]), ("B", &[1.0, 2.5])]);
    let bounds = bounds(&graph, &inputs).unwrap();
    let result = execute(&graph, &inputs).unwrap();
    let comparison = compare(&graph, &result, &result, Some(&bounds)).unwrap();
    assert_eq!((comparison.outputs[0].mismatches, comparison.outputs[0].incomparable), (0, 1), "{comparison}");
}

#[test]
fn tf32_operands_are_tolerated_on_request() {
    let graph = gemm(64, DataType::Float, DataType::Float);
    let inputs = random_inputs(&graph, 5, Distribution::Normal).unwrap();
    let mut cut = inputs.clone();
    for name in ["A", "B"] {
        let tensor = cut.get_mut(&by_name(&graph, name)).unwrap();
        tensor.bytes.chunks_mut(4).for_each(|bytes| {
            (bytes[0], bytes[1]) = (0, bytes[1] & 0xe0);
        });
    }
    let (expected, actual) = (execute(&graph, &inputs).unwrap(), execute(&graph, &cut).unwrap());
    let wrong = |tf32| {
        let bounds = bounds_with(&graph, &inputs, BoundOptions { tf32, ..BoundOptions::default() }).unwrap();
        compare(&graph, &expected, &actual, Some(&bounds)).unwrap().outputs[0].mismatches
    };
    assert_eq!(wrong(true), 0);
    assert!(wrong(false) > 100);
}

/// The same graph's result where tensor cores keep 14 bits of products and of the sums of 128 of them.
fn summed_on_fp8_tensor_cores(graph: &FinalizedGraph, inputs: &HostTensors, k: usize) -> Vec<f64> {
    let dense = |name| inputs[&by_name(graph, name)].to_dense::<f32>().unwrap();
    let (a, b, bias) = (dense("A"), dense("B"), dense("bias"));
    let kept = |sum: f32| f32::from_bits(sum.to_bits() & !0x3ff);
    let element = |i: usize| {
        let (row, column) = (i / 30, i % 30);
        let product = |t: usize| a[row * k + t] * b[t * 30 + column];
        let largest = |t: usize| (t..t + 32).map(|t| product(t).abs()).fold(0.0, f32::max);
        let cut = |x: f32, largest: f32| (x / largest * 8192.0).trunc() / 8192.0 * largest;
        let group = |t: usize| (t..t + 32).map(|i| cut(product(i), largest(t))).sum::<f32>();
        let part = |t: usize| (t..t + 128).step_by(32).fold(0.0, |sum, t| kept(sum + group(t)));
        let sum: f32 = (0..k).step_by(128).map(part).sum();
        f64::from((sum + bias[column]).max(0.0))
    };
    (0..40 * 30).map(element).collect()
}

#[test]
fn sums_of_fp8_tensor_cores_are_tolerated_on_request() {
    let graph = gemm(256, DataType::Fp8E4M3, DataType::Float);
    let inputs = random_inputs(&graph, 5, Distribution::Normal).unwrap();
    let id = graph.outputs().next().unwrap();
    let tensor = graph.tensor(id);
    let sums = summed_on_fp8_tensor_cores(&graph, &inputs, 256);
    let actual = HostTensor::from_dense(tensor.data_type, &tensor.dim, &tensor.stride, &sums).unwrap();
    let (expected, actual) = (execute(&graph, &inputs).unwrap(), HostTensors::from([(id, actual)]));
    let wrong = |fp8| {
        let bounds = bounds_with(&graph, &inputs, BoundOptions { fp8, ..BoundOptions::default() }).unwrap();
        compare(&graph, &expected, &actual, Some(&bounds)).unwrap().outputs[0].mismatches
    };
    assert_eq!(wrong(true), 0);
    assert!(wrong(false) > 100, "{}", wrong(false));
}

#[test]
fn comparisons_name_the_worst_element() {
    let graph = gemm(8, DataType::Float, DataType::Float);
    let inputs = random_inputs(&graph, 5, Distribution::SmallIntegers).unwrap();
    let expected = execute(&graph, &inputs).unwrap();
    let mut actual = expected.clone();
    let tensor = actual.values_mut().next().unwrap();
    let offset = tensor.offset(&[0, 3, 4]).unwrap();
    tensor.set(offset, Scalar::Float(f64::NAN)).unwrap();
    let comparison = compare_exact(&graph, &expected, &actual).unwrap();
    let worst = comparison.outputs[0].worst.as_ref().unwrap();
    assert_eq!((comparison.outputs[0].mismatches, &worst.index[..]), (1, &[0, 3, 4][..]));
    assert!(worst.actual.is_nan() && worst.error.is_infinite());
    assert!(comparison.to_string().contains("[0, 3, 4]"), "{comparison}");
    assert!(compare_exact(&graph, &expected, &HostTensors::new()).is_err());
}

#[test]
fn a_mismatch_is_worse_than_a_larger_difference_that_is_allowed() {
    let mut graph = float_graph();
    let x = input(&mut graph, "x", &[1, 2], DataType::Float);
    let y = graph.pointwise("exp", M::Exp, &[x]);
    graph.set_output(y);
    let graph = graph.finalize().unwrap();
    let [x, y] = [graph.inputs().next().unwrap(), graph.outputs().next().unwrap()];
    let tensor = |values: [f64; 2]| HostTensor::from_dense(DataType::Float, &[1, 2], &[2, 1], &values).unwrap();
    let inputs = HostTensors::from([(x, tensor([0.0, 8.0]))]);
    let bounds = bounds(&graph, &inputs).unwrap();
    let expected = execute(&graph, &inputs).unwrap();
    let [small, large] = expected[&y].to_dense::<f64>().unwrap()[..] else { panic!("two elements") };
    let actual = HostTensors::from([(y, tensor([small + 1e-5, large + 3e-4]))]);
    let output = &compare(&graph, &expected, &actual, Some(&bounds)).unwrap().outputs[0];
    assert_eq!((output.mismatches, &output.worst.as_ref().unwrap().index[..]), (1, &[0, 0][..]));
}

#[test]
fn an_average_is_off_by_its_part_of_the_sum() {
    let [sum, average] = [ReductionMode::Add, ReductionMode::Avg].map(|mode| {
        let mut graph = float_graph();
        let x = input(&mut graph, "x", &[8, 32], DataType::Float);
        let y = graph.reduction("total", mode, x, vec![8, 1]);
        graph.set_output(y);
        let graph = graph.finalize().unwrap();
        let bounds = bounds(&graph, &random_inputs(&graph, 3, Distribution::Normal).unwrap()).unwrap();
        bounds.at(graph.outputs().next().unwrap(), 5)
    });
    assert!(average >= sum / 32.0 && average < sum / 16.0, "{average} of {sum}");
}

#[test]
fn large_integers_are_compared_bit_by_bit() {
    let mut graph = float_graph();
    let x = input(&mut graph, "x", &[1, 1], DataType::Int64);
    let y = graph.pointwise("copy", M::Identity, &[x]);
    graph.last_operation().compute_data_type = Some(DataType::Int64);
    graph.set_output(y).data_type = Some(DataType::Int64);
    let graph = graph.finalize().unwrap();
    let id = graph.outputs().next().unwrap();
    let tensor = |value: i64| {
        HostTensors::from([(id, HostTensor::from_dense(DataType::Int64, &[1, 1], &[1, 1], &[value]).unwrap())])
    };
    assert!(!compare_exact(&graph, &tensor(i64::MAX), &tensor(i64::MAX - 1)).unwrap().is_match());
    assert!(compare_exact(&graph, &tensor(i64::MAX), &tensor(i64::MAX)).unwrap().is_match());
}
