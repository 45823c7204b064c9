//! Pooling forward and backward: against each other, and engine against oracle over random graphs.

use super::*;
use ResampleMode::{AvgpoolExcludePadding as Exclude, AvgpoolIncludePadding as Include, Maxpool};

/// What a backward pooling learns the maxima from.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Maxima {
    Unknown,
    Index(DataType),
    X,
}

/// An image with the pooling of it, of one type and layout.
#[derive(Clone, Debug)]
struct Case {
    attributes: Resample,
    dim: Vec<i64>,
    data_type: DataType,
    is_channels_last: bool,
}

impl Case {
    fn new(attributes: Resample, dim: &[i64]) -> Self {
        Self { attributes, dim: dim.to_vec(), data_type: DataType::Float, is_channels_last: true }
    }

    fn tensor(&self, name: &str, dim: &[i64]) -> Tensor {
        let tensor = Tensor::new(name).data_type(self.data_type);
        if self.is_channels_last { tensor.channels_last(dim) } else { tensor.row_major(dim) }
    }

    /// Extents of Y.
    fn pooled(&self) -> Vec<i64> {
        let r = &self.attributes;
        let axis = |axis: usize| {
            let padded = self.dim[axis + 2] + r.pre_padding[axis].numerator + r.post_padding[axis].numerator;
            1 + (padded - r.window[axis].numerator).div_euclid(r.stride[axis].numerator)
        };
        self.dim[..2].iter().copied().chain((0..r.window.len()).map(axis)).collect()
    }

    fn forward(&self, compute: DataType, index: Option<DataType>) -> Graph {
        let mut graph = float_graph();
        let x = graph.tensor(self.tensor("x", &self.dim));
        let mut outputs = vec![(Port::Y, graph.tensor(self.tensor("y", &self.pooled())))];
        outputs.extend(
            index.map(|index| (Port::INDEX, graph.tensor(self.tensor("index", &self.pooled()).data_type(index)))),
        );
        operation(&mut graph, Attributes::ResampleForward(self.attributes.clone()), &[(Port::X, x)], &outputs);
        graph.last_operation().compute_data_type = Some(compute);
        graph
    }

    fn backward(&self, compute: DataType, maxima: Maxima) -> Graph {
        let mut graph = float_graph();
        let mut inputs = vec![(Port::DY, graph.tensor(self.tensor("dy", &self.pooled())))];
        match maxima {
            Maxima::Unknown => {}
            Maxima::Index(data_type) => {
                inputs.push((Port::INDEX, graph.tensor(self.tensor("index", &self.pooled()).data_type(data_type))))
            }
            Maxima::X => {
                inputs.push((Port::X, graph.tensor(self.tensor("x", &self.dim))));
                inputs.push((Port::Y, graph.tensor(self.tensor("y", &self.pooled()))));
            }
        }
        let dx = (Port::DX, graph.tensor(self.tensor("dx", &self.dim)));
        operation(&mut graph, Attributes::ResampleBackward(self.attributes.clone()), &inputs, &[dx]);
        graph.last_operation().compute_data_type = Some(compute);
        graph
    }
}

/// The gradients of a backward pooling by hand.
fn gradients(case: &Case, maxima: Maxima, inputs: &[(&str, &[f64])]) -> Vec<f64> {
    let graph = case.backward(DataType::Float, maxima).finalize().unwrap();
    let inputs = given(&graph, inputs);
    assert_eq!(oracle(&graph, &inputs), execute(&graph, &inputs).unwrap());
    output(&graph, &inputs)
}

#[test]
fn average_gradients_by_hand() {
    let case = |mode| Case::new(pooling(mode, &[2, 1], &[1, 1], &[1, 0]), &[1, 1, 2, 1]);
    let dy: (&str, &[f64]) = ("dy", &[2.0, 4.0, 8.0]);
    assert_eq!(gradients(&case(Include), Maxima::Unknown, &[dy]), [3.0, 6.0]);
    assert_eq!(gradients(&case(Exclude), Maxima::Unknown, &[dy]), [4.0, 10.0]);
}

#[test]
fn maximum_gradients_by_hand() {
    let case = Case::new(pooling(Maxpool, &[2, 2], &[1, 1], &[0, 0]), &[1, 1, 2, 3]);
    let dy: (&str, &[f64]) = ("dy", &[1.0, 10.0]);
    let by_index = |index: &[f64]| gradients(&case, Maxima::Index(DataType::Int8), &[dy, ("index", index)]);
    assert_eq!(by_index(&[1.0, 0.0]), [0.0, 11.0, 0.0, 0.0, 0.0, 0.0]);
    assert_eq!(by_index(&[2.0, 3.0]), [0.0, 0.0, 0.0, 1.0, 0.0, 10.0]);
    // The first of equal maxima; Y is not read.
    let x = |x: &[f64]| gradients(&case, Maxima::X, &[dy, ("x", x), ("y", &[f64::NAN; 2])]);
    assert_eq!(x(&[5.0, 5.0, 1.0, 5.0, 5.0, 5.0]), [1.0, 10.0, 0.0, 0.0, 0.0, 0.0]);
    assert_eq!(x(&[5.0, f64::NAN, 9.0, f64::NAN, 5.0, 5.0]), [0.0, 11.0, 0.0, 0.0, 0.0, 0.0]);
}

#[test]
fn an_index_in_the_padding_loses_its_gradient() {
    let case = Case::new(pooling(Maxpool, &[2, 1], &[1, 1], &[1, 0]), &[1, 1, 1, 1]);
    let dy: (&str, &[f64]) = ("dy", &[1.0, 10.0]);
    assert_eq!(gradients(&case, Maxima::Index(DataType::Int64), &[dy, ("index", &[0.0, 0.0])]), [10.0]);
    assert_eq!(gradients(&case, Maxima::Index(DataType::Int64), &[dy, ("index", &[0.0, 1.0])]), [0.0]);
}

#[test]
fn an_index_outside_of_its_window_is_an_error() {
    let case = Case::new(pooling(Maxpool, &[2, 2], &[1, 1], &[0, 0]), &[1, 1, 2, 3]);
    let graph = case.backward(DataType::Float, Maxima::Index(DataType::Int32)).finalize().unwrap();
    for index in [-1.0, 4.0] {
        let error = execute(&graph, &given(&graph, &[("dy", &[1.0, 1.0]), ("index", &[0.0, index])])).unwrap_err();
        let expected = format!("index {index} at row-major position 1 is not in a window of 4 positions");
        assert!(error.to_string().contains(&expected) && error.to_string().contains("'index'"), "{error}");
    }
}

#[test]
fn backward_needs_to_know_the_maxima_and_averages_take_no_index() {
    let refusal = |case: Case, maxima| {
        let graph = case.backward(DataType::Float, maxima).finalize().unwrap();
        execute(&graph, &random_inputs(&graph, 0, Distribution::Normal).unwrap()).unwrap_err().to_string()
    };
    let case = |mode| Case::new(pooling(mode, &[2, 2], &[1, 1], &[0, 0]), &[1, 1, 2, 3]);
    assert!(refusal(case(Maxpool), Maxima::Unknown).contains("needs the index or X"));
    assert!(refusal(case(Include), Maxima::Index(DataType::Int8)).contains("no index in mode AVGPOOL_INCLUDE_PADDING"));
}

#[test]
fn gradients_that_meet_in_one_maximum_round_and_others_are_exact() {
    let case = Case::new(pooling(Maxpool, &[2, 2], &[1, 1], &[0, 0]), &[1, 1, 3, 3]);
    let graph = case.backward(DataType::Float, Maxima::X).finalize().unwrap();
    let x = [0.0, 0.0, 0.0, 0.0, 9.0, 0.0, 0.0, 0.0, 0.0];
    let inputs = given(&graph, &[("dy", &[0.1, 0.2, 0.3, 0.7]), ("x", &x), ("y", &[9.0; 4])]);
    let bounds = bounds(&graph, &inputs).unwrap();
    let is_exact: Vec<bool> = (0..9).map(|pixel| bounds.at(by_name(&graph, "dx"), pixel) == 0.0).collect();
    assert_eq!(is_exact, [true, true, true, true, false, true, true, true, true]);
}

/// A small linear congruential generator, so that cases are the same everywhere.
struct Random(u64);

impl Random {
    fn below(&mut self, count: i64) -> i64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as i64 % count
    }

    fn case(&mut self, mode: ResampleMode) -> Case {
        let axes = 2 + self.below(2) as usize;
        let mut row = |low: i64, high: i64| (0..axes).map(|_| low + self.below(high - low + 1)).collect::<Vec<i64>>();
        let (window, stride, padding, spatial) = (row(1, 4), row(1, 4), row(0, 2), row(1, 7));
        let mut attributes = pooling(mode, &window, &stride, &padding);
        for axis in 0..axes {
            let post = self.below(3) + (window[axis] - spatial[axis] - padding[axis]).max(0);
            attributes.post_padding[axis] = Fraction::whole(post);
        }
        let dim = [vec![1 + self.below(2), 1 + self.below(5)], spatial].concat();
        let types = [DataType::Float, DataType::Half, DataType::BFloat16, DataType::Int8, DataType::Fp8E5M2];
        let data_type = types[self.below(5) as usize];
        Case { attributes, dim, data_type, is_channels_last: self.below(2) == 0 }
    }
}

const MODES: [ResampleMode; 3] = [Maxpool, Include, Exclude];

#[test]
fn random_graphs_agree_with_the_oracle() {
    let mut random = Random(1);
    for number in 0..300 {
        let mode = MODES[number % 3];
        let case = random.case(mode);
        let index =
            [None, Some(DataType::Int32), Some(DataType::Int64), Some(DataType::Int8)][random.below(4) as usize];
        let compute = [DataType::Float, DataType::Float, DataType::Half, DataType::Double][random.below(4) as usize];
        let is_exact = mode == Maxpool;
        assert_agreement(&case.forward(compute, index.filter(|_| is_exact)), is_exact);
        let maxima = match (mode, index) {
            (Maxpool, Some(index)) => Maxima::Index(index),
            (Maxpool, None) => Maxima::X,
            _ => Maxima::Unknown,
        };
        assert_agreement(&case.backward(compute, maxima), is_exact);
    }
}

fn dense(tensors: &HostTensors, graph: &FinalizedGraph, name: &str) -> Vec<f64> {
    tensors[&by_name(graph, name)].to_dense().unwrap()
}

fn inner(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// `⟨fwd(x), dy⟩ = ⟨x, bwd(dy)⟩`, for averages since they are linear, for maxima since they are where the index is fixed.
#[test]
fn backward_is_the_transpose_of_forward() {
    let mut random = Random(2);
    for number in 0..120 {
        let mut case = random.case(MODES[number % 3]);
        case.data_type = DataType::Double;
        let is_max = case.attributes.mode == Maxpool;
        let forward = case.forward(DataType::Double, is_max.then_some(DataType::Int32)).finalize().unwrap();
        let maxima = if is_max { Maxima::Index(DataType::Int32) } else { Maxima::Unknown };
        let backward = case.backward(DataType::Double, maxima).finalize().unwrap();
        let given = random_inputs(&forward, 3, Distribution::Normal).unwrap();
        let results = execute(&forward, &given).unwrap();
        let mut gradient = random_inputs(&backward, 4, Distribution::Normal).unwrap();
        if is_max {
            gradient.insert(by_name(&backward, "index"), results[&by_name(&forward, "index")].clone());
        }
        let dx = execute(&backward, &gradient).unwrap();
        let (y, dy) = (dense(&results, &forward, "y"), dense(&gradient, &backward, "dy"));
        // A window without pixels has no gradient to send back.
        let y: Vec<f64> = y.into_iter().map(|y| if y.is_finite() { y } else { 0.0 }).collect();
        let [left, right] = [inner(&y, &dy), inner(&dense(&given, &forward, "x"), &dense(&dx, &backward, "dx"))];
        assert!((left - right).abs() <= 1e-10 * (1.0 + left.abs()), "{left} {right} {case:?}");
    }
}

#[test]
fn the_index_and_x_lead_to_the_same_gradients() {
    let mut random = Random(3);
    for _ in 0..60 {
        let case = random.case(Maxpool);
        let forward = case.forward(DataType::Float, Some(DataType::Int32)).finalize().unwrap();
        let given = random_inputs(&forward, 3, Distribution::SmallIntegers).unwrap();
        let results = execute(&forward, &given).unwrap();
        let [by_index, by_x] = [Maxima::Index(DataType::Int32), Maxima::X].map(|maxima| {
            let backward = case.backward(DataType::Float, maxima).finalize().unwrap();
            let dy = case.backward(DataType::Float, Maxima::Unknown).finalize().unwrap();
            let dy = random_inputs(&dy, 4, Distribution::Normal).unwrap().into_values().next().unwrap();
            let mut inputs = HostTensors::from([(by_name(&backward, "dy"), dy)]);
            for (id, tensor) in [("x", &given), ("y", &results), ("index", &results)]
                .map(|(name, tensors)| (name, tensors[&by_name(&forward, name)].clone()))
            {
                inputs
                    .extend(backward.inputs().find(|&input| backward.tensor(input).name == id).map(|id| (id, tensor)));
            }
            output(&backward, &inputs)
        });
        assert_eq!(by_index, by_x, "{case:?}");
    }
}

#[test]
fn layouts_change_no_value() {
    let mut random = Random(4);
    for mode in MODES {
        let case = random.case(mode);
        let [first, second] = [true, false].map(|is_channels_last| {
            let case = Case { is_channels_last, ..case.clone() };
            let graph = case.forward(DataType::Float, None).finalize().unwrap();
            output(&graph, &random_inputs(&graph, 5, Distribution::Normal).unwrap())
        });
        assert_eq!(first, second);
    }
}

#[test]
fn random_indices_point_at_pixels() {
    let mut random = Random(5);
    for _ in 0..60 {
        let case = Case { data_type: DataType::Float, ..random.case(Maxpool) };
        let graph = case.backward(DataType::Float, Maxima::Index(DataType::Int32)).finalize().unwrap();
        let mut inputs = random_inputs(&graph, 6, Distribution::Normal).unwrap();
        let dy = inputs.get_mut(&by_name(&graph, "dy")).unwrap();
        *dy = HostTensor::from_fn(DataType::Float, &dy.dim, &dy.stride, |_| 1.0).unwrap();
        // Every window that has a pixel hands its gradient on.
        let has_pixel = |axis: usize, at: i64| {
            let r = &case.attributes;
            let start = at * r.stride[axis].numerator - r.pre_padding[axis].numerator;
            start < case.dim[axis + 2] && start + r.window[axis].numerator > 0
        };
        let pooled = case.pooled();
        let along = |axis: usize| (0..pooled[axis + 2]).filter(|&at| has_pixel(axis, at)).count() as i64;
        let windows: i64 = (0..pooled.len() - 2).map(along).product();
        assert_eq!(output(&graph, &inputs).iter().sum::<f64>() as i64, windows * pooled[0] * pooled[1], "{case:?}");
    }
}

#[test]
fn uncertain_maxima_leave_the_index_open_only_where_they_are_close() {
    let mut graph = float_graph();
    let x = graph.tensor(Tensor::new("x").channels_last([1, 1, 1, 4]));
    let tanh = graph.pointwise("tanh", crate::graph::PointwiseMode::TanhFwd, &[x]);
    let y = graph.tensor(Tensor::new("y"));
    let index = graph.tensor(Tensor::new("index").data_type(DataType::Int32));
    let attributes = pooling(Maxpool, &[1, 2], &[1, 2], &[0, 0]);
    operation(
        &mut graph,
        Attributes::ResampleForward(attributes),
        &[(Port::X, tanh)],
        &[(Port::Y, y), (Port::INDEX, index)],
    );
    let graph = graph.finalize().unwrap();
    let bounds = bounds(&graph, &given(&graph, &[("x", &[0.5, 0.500_000_06, 0.5, 0.6])])).unwrap();
    let id = by_name(&graph, "index");
    assert_eq!([bounds.at(id, 0), bounds.at(id, 1)], [1.0, 0.0]);
}

#[test]
fn pooling_in_a_fusion_with_the_index_on_to_the_gradient() {
    let mut graph = float_graph().io_data_type(DataType::Half);
    let x = graph.tensor(Tensor::new("x").channels_last([2, 16, 9, 9]));
    let gelu = graph.pointwise("gelu", crate::graph::PointwiseMode::GeluFwd, &[x]);
    let attributes = pooling(Maxpool, &[3, 3], &[2, 2], &[1, 1]);
    let y = graph.tensor(Tensor::new("y"));
    let index = graph.tensor(Tensor { is_virtual: true, ..Tensor::new("index").data_type(DataType::Int8) });
    let forward = Attributes::ResampleForward(attributes.clone());
    operation(&mut graph, forward, &[(Port::X, gelu)], &[(Port::Y, y), (Port::INDEX, index)]);
    let dy = graph.tensor(Tensor::new("dy").channels_last([2, 16, 5, 5]));
    let dx = graph.tensor(Tensor::new("dx").channels_last([2, 16, 9, 9]));
    let backward = Attributes::ResampleBackward(attributes);
    operation(&mut graph, backward, &[(Port::DY, dy), (Port::INDEX, index)], &[(Port::DX, dx)]);
    assert_agreement(&graph, false);
}

#[test]
fn a_wrong_place_of_the_gradient_is_caught() {
    let case = Case::new(pooling(Maxpool, &[2, 2], &[2, 2], &[0, 0]), &[1, 2, 4, 4]);
    let graph = case.backward(DataType::Float, Maxima::X).finalize().unwrap();
    let inputs = random_inputs(&graph, 1, Distribution::Normal).unwrap();
    let bounds = bounds(&graph, &inputs).unwrap();
    let expected = execute(&graph, &inputs).unwrap();
    let mut actual = expected.clone();
    let dx = actual.values_mut().next().unwrap();
    let mut values: Vec<f64> = dx.to_dense().unwrap();
    let place = values.iter().position(|&value| value != 0.0).unwrap();
    values.swap(place, place + 1);
    *dx = HostTensor::from_dense(DataType::Float, &dx.dim, &dx.stride, &values).unwrap();
    let comparison = compare(&graph, &expected, &actual, Some(&bounds)).unwrap();
    assert_eq!(comparison.outputs[0].mismatches, 2, "{comparison}");
}
