use super::*;
use crate::graph::{Convolution, ConvolutionDirection as Direction, ConvolutionMode, Scalar};

/// A convolution of any direction on X, W and Y of these dims; the one that is the result is computed.
fn graph(attributes: Convolution, dims: [&[i64]; 3], data_type: DataType, compute: DataType) -> Graph {
    let mut graph = float_graph().compute_data_type(compute);
    let [x, w, y] = dims;
    let (first, second, result) = match attributes.direction {
        Direction::Forward => (x, w, y),
        Direction::BackwardData => (y, w, x),
        Direction::BackwardFilter => (y, x, w),
    };
    let first = graph.tensor(Tensor::new("first").channels_last(first).data_type(data_type));
    let second = graph.tensor(Tensor::new("second").channels_last(second).data_type(data_type));
    let output = graph.convolution("conv", attributes, [first, second]);
    let output = graph.set_output(output);
    let layout = Tensor::new("").channels_last(result);
    (output.dim, output.stride) = (layout.dim, layout.stride);
    output.data_type = Some(if compute == DataType::Int32 { DataType::Int32 } else { DataType::Float });
    graph
}

/// Y's extents for these of X and W (CV-R5).
fn output_extents(c: &Convolution, x: &[i64], w: &[i64]) -> Vec<i64> {
    let axis = |i: usize| {
        let padded = x[i] + c.pre_padding[i] + c.post_padding[i];
        1 + (padded - ((w[i] - 1) * c.dilation[i] + 1)) / c.stride[i]
    };
    (0..x.len()).map(axis).collect()
}

const DIRECTIONS: [Direction; 3] = [Direction::Forward, Direction::BackwardData, Direction::BackwardFilter];

#[test]
fn one_dimension_by_hand() {
    let attributes = Convolution::new(Direction::Forward, 1).padding([1]);
    let base = graph(attributes.clone(), [&[1, 1, 4], &[1, 1, 3], &[1, 1, 4]], DataType::Float, DataType::Float);
    let finalized = base.finalize().unwrap();
    let inputs = given(&finalized, &[("first", &[1.0, 2.0, 3.0, 4.0]), ("second", &[1.0, 10.0, 100.0])]);
    assert_eq!(output(&finalized, &inputs), [210.0, 321.0, 432.0, 43.0]);
    let rotated = Convolution { mode: ConvolutionMode::Convolution, ..attributes };
    let rotated = graph(rotated, [&[1, 1, 4], &[1, 1, 3], &[1, 1, 4]], DataType::Float, DataType::Float);
    let finalized = rotated.finalize().unwrap();
    assert_eq!(output(&finalized, &inputs), [12.0, 123.0, 234.0, 340.0]);
}

#[test]
fn backward_data_by_hand() {
    // Stride 2: each gradient spreads its filter two pixels apart.
    let attributes = Convolution::new(Direction::BackwardData, 1).stride([2]);
    let graph = graph(attributes, [&[1, 1, 5], &[1, 1, 3], &[1, 1, 2]], DataType::Float, DataType::Float);
    let finalized = graph.finalize().unwrap();
    let inputs = given(&finalized, &[("first", &[1.0, 2.0]), ("second", &[1.0, 10.0, 100.0])]);
    assert_eq!(output(&finalized, &inputs), [1.0, 10.0, 102.0, 20.0, 200.0]);
}

#[test]
fn backward_filter_by_hand() {
    let attributes = Convolution::new(Direction::BackwardFilter, 1);
    let graph = graph(attributes, [&[1, 1, 3], &[1, 1, 2], &[1, 1, 2]], DataType::Float, DataType::Float);
    let finalized = graph.finalize().unwrap();
    let inputs = given(&finalized, &[("first", &[1.0, 10.0]), ("second", &[1.0, 2.0, 3.0])]);
    assert_eq!(output(&finalized, &inputs), [21.0, 32.0]);
}

#[test]
fn padding_has_no_terms_by_hand() {
    let dims: [&[i64]; 3] = [&[1, 1, 4], &[1, 1, 3], &[1, 1, 4]];
    let infinity = f64::INFINITY;
    let expected = [
        (Direction::Forward, [1.0, 2.0, 3.0, 4.0], vec![infinity, 1.0, -1.0], vec![-1.0, infinity, infinity, infinity]),
        (
            Direction::BackwardData,
            [1.0, 2.0, 3.0, 4.0],
            vec![infinity, 1.0, -1.0],
            vec![infinity, infinity, infinity, 1.0],
        ),
        (
            Direction::BackwardFilter,
            [-infinity, 1.0, 1.0, 1.0],
            vec![1.0, 1.0, 1.0, 2.0],
            vec![3.0, -infinity, -infinity],
        ),
    ];
    for (direction, first, second, expected) in expected {
        let graph = graph(Convolution::new(direction, 1).padding([1]), dims, DataType::Half, DataType::Float);
        let finalized = graph.finalize().unwrap();
        let inputs = given(&finalized, &[("first", &first), ("second", &second)]);
        assert_eq!(output(&finalized, &inputs), expected, "{direction:?}");
    }
}

#[test]
fn infinities_and_nan_beside_padding() {
    for direction in DIRECTIONS {
        let attributes = Convolution::new(direction, 2).padding([2, 1]).stride([1, 2]).dilation([2, 1]);
        let y = output_extents(&attributes, &[6, 7], &[3, 3]);
        let dims: [&[i64]; 3] = [&[2, 4, 6, 7], &[6, 2, 3, 3], &[2, 6, y[0], y[1]]];
        let graph = graph(attributes, dims, DataType::BFloat16, DataType::Float).finalize().unwrap();
        for (seed, special) in [(1, f64::INFINITY), (2, f64::NEG_INFINITY), (3, f64::NAN)] {
            let mut inputs = random_inputs(&graph, seed, Distribution::SmallIntegers).unwrap();
            for tensor in inputs.values_mut() {
                for position in (0..tensor.elements()).step_by(17) {
                    tensor.set(position, Scalar::Float(special)).expect("an element");
                }
            }
            let (expected, actual) = (oracle(&graph, &inputs), execute(&graph, &inputs).unwrap());
            let comparison = compare_exact(&graph, &expected, &actual).unwrap();
            assert!(comparison.is_match(), "{direction:?}, {special}\n{comparison}");
        }
    }
}

#[test]
fn prior_content_is_blended() {
    let attributes = Convolution { alpha: 2.0, beta: 0.5, ..Convolution::new(Direction::Forward, 1) };
    let graph = graph(attributes, [&[1, 1, 2], &[1, 1, 1], &[1, 1, 2]], DataType::Float, DataType::Float);
    let finalized = graph.finalize().unwrap();
    let mut inputs = given(&finalized, &[("first", &[1.0, 2.0]), ("second", &[3.0])]);
    assert!(execute(&finalized, &inputs).unwrap_err().to_string().contains("conv::Y"));
    inputs.extend(given(&finalized, &[("conv::Y", &[10.0, 20.0])]));
    assert_eq!(output(&finalized, &inputs), [11.0, 22.0]);
    assert_agreement(&graph, true);
}

#[test]
fn two_dimensions_with_every_attribute() {
    let shapes = [
        ([3, 3], [2, 1], [1, 2], [1, 0], [0, 2]),
        ([1, 1], [2, 2], [1, 1], [0, 0], [0, 0]),
        ([2, 4], [1, 3], [3, 1], [2, 3], [1, 1]),
    ];
    for mode in [ConvolutionMode::CrossCorrelation, ConvolutionMode::Convolution] {
        for (window, stride, dilation, pre_padding, post_padding) in shapes {
            for direction in DIRECTIONS {
                let attributes = Convolution {
                    mode,
                    stride: stride.into(),
                    dilation: dilation.into(),
                    pre_padding: pre_padding.into(),
                    post_padding: post_padding.into(),
                    ..Convolution::new(direction, 2)
                };
                let y = output_extents(&attributes, &[9, 8], &window);
                let dims = [vec![2, 6, 9, 8], vec![5, 6, window[0], window[1]], vec![2, 5, y[0], y[1]]];
                let dims = [&dims[0][..], &dims[1], &dims[2]];
                assert_agreement(&graph(attributes, dims, DataType::Half, DataType::Float), true);
            }
        }
    }
}

#[test]
fn groups_in_both_forms_are_the_same() {
    for direction in DIRECTIONS {
        let attributes = Convolution::new(direction, 2).padding([1, 1]);
        let packed: [&[i64]; 3] = [&[2, 12, 5, 5], &[8, 3, 3, 3], &[2, 8, 5, 5]];
        let explicit: [&[i64]; 3] = [&[2, 4, 3, 5, 5], &[4, 2, 3, 3, 3], &[2, 4, 2, 5, 5]];
        let results = [packed, explicit].map(|dims| {
            let graph = graph(attributes.clone(), dims, DataType::BFloat16, DataType::Float);
            assert_agreement(&graph, true);
            let graph = graph.finalize().unwrap();
            output(&graph, &random_inputs(&graph, 1, Distribution::Normal).unwrap())
        });
        assert_eq!(results[0], results[1]);
    }
}

#[test]
fn one_and_three_dimensions_and_every_compute_type() {
    use DataType as D;
    for direction in DIRECTIONS {
        for (data_type, compute) in
            [(D::Int8, D::Int32), (D::Half, D::Half), (D::Double, D::Double), (D::Fp8E5M2, D::Float)]
        {
            let line = Convolution::new(direction, 1).padding([2]).stride([2]).dilation([2]);
            let y = output_extents(&line, &[11], &[3]);
            assert_agreement(&graph(line, [&[3, 4, 11], &[2, 4, 3], &[3, 2, y[0]]], data_type, compute), true);
            let volume = Convolution::new(direction, 3).padding([1, 0, 1]).stride([1, 2, 1]);
            let y = output_extents(&volume, &[4, 5, 6], &[3, 2, 3]);
            let dims: [&[i64]; 3] = [&[2, 3, 4, 5, 6], &[4, 3, 3, 2, 3], &[2, 4, y[0], y[1], y[2]]];
            assert_agreement(&graph(volume, dims, data_type, compute), true);
        }
    }
}

#[test]
fn images_larger_than_a_panel_of_patches() {
    for direction in DIRECTIONS {
        let attributes = Convolution::new(direction, 2).padding([1, 1]);
        let dims: [&[i64]; 3] = [&[1, 8, 150, 130], &[2, 8, 3, 3], &[1, 2, 150, 130]];
        assert_agreement(&graph(attributes, dims, DataType::Half, DataType::Float), true);
    }
}
