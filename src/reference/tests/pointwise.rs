use super::*;
use crate::graph::{NanPropagation, Pointwise, PointwiseMode as M, Scalar};

/// Zeros, denormals, halves, ends of ranges, infinities, NaN.
const SPECIAL: [f64; 29] = [
    0.0,
    -0.0,
    1e-45,
    -1e-40,
    1e-20,
    -1e-3,
    0.25,
    0.5,
    -0.5,
    1.0,
    -1.0,
    1.5,
    -2.5,
    3.0,
    -3.75,
    5.0,
    6.5,
    -8.5,
    12.0,
    -20.0,
    60.0,
    -90.0,
    100.0,
    1e4,
    -1e5,
    1e38,
    f64::INFINITY,
    f64::NEG_INFINITY,
    f64::NAN,
];

fn operation(attributes: Pointwise, data_type: DataType, compute: DataType, dim: &[i64]) -> Graph {
    let mut graph = float_graph().compute_data_type(compute);
    let inputs: Vec<TensorHandle> =
        (0..attributes.mode.inputs()).map(|i| input(&mut graph, &format!("x{i}"), dim, data_type)).collect();
    let y = graph.pointwise_with("pw", attributes, &inputs);
    let integer = !compute.is_floating();
    graph.set_output(y).data_type = Some(if integer { DataType::Int32 } else { DataType::Float });
    graph
}

/// One value of a mode in FLOAT.
fn value(attributes: Pointwise, operands: &[f64]) -> f64 {
    let graph = operation(attributes, DataType::Float, DataType::Float, &[1, 1]).finalize().unwrap();
    let names = ["x0", "x1", "x2"];
    let values: Vec<(&str, &[f64])> = names.iter().copied().zip(operands.chunks(1)).collect();
    output(&graph, &given(&graph, &values))[0]
}

fn plain(mode: M, operands: &[f64]) -> f64 {
    value(Pointwise::new(mode), operands)
}

fn with_axis(mode: M) -> Pointwise {
    Pointwise { axis: Some(1), ..Pointwise::new(mode) }
}

#[test]
fn every_mode_agrees_with_the_oracle_on_special_values() {
    let n = SPECIAL.len() as i64;
    for &mode in M::ALL {
        let variants = [
            with_axis(mode),
            Pointwise {
                relu_lower_clip: Some(-1.0),
                relu_upper_clip: Some(6.0),
                relu_lower_clip_slope: Some(0.1),
                swish_beta: Some(-1.5),
                elu_alpha: Some(2.0),
                softplus_beta: Some(0.5),
                nan_propagation: Some(NanPropagation::NotPropagate),
                ..with_axis(mode)
            },
        ];
        for attributes in variants {
            let graph = operation(attributes, DataType::Float, DataType::Float, &[n, n]).finalize().unwrap();
            let pick =
                |f: &dyn Fn(usize) -> usize| -> Vec<f64> { (0..SPECIAL.len().pow(2)).map(|i| SPECIAL[f(i)]).collect() };
            let [rows, columns, mixed]: [Vec<f64>; 3] = [
                pick(&|i| i / SPECIAL.len()),
                pick(&|i| i % SPECIAL.len()),
                pick(&|i| (i * 7 + i / 29) % SPECIAL.len()),
            ];
            let all = [("x0", &rows[..]), ("x1", &columns[..]), ("x2", &mixed[..])];
            let inputs = given(&graph, &all[..mode.inputs()]);
            let bounds = bounds(&graph, &inputs).unwrap();
            let actual = execute(&graph, &inputs).unwrap();
            let comparison = compare(&graph, &oracle(&graph, &inputs), &actual, Some(&bounds)).unwrap();
            assert!(comparison.is_match(), "{mode}\n{comparison}");
            let output = &comparison.outputs[0];
            assert!(output.incomparable * 10 < output.elements, "{mode}: {comparison}");
        }
    }
}

#[test]
fn every_mode_agrees_with_the_oracle_on_a_dense_grid() {
    for &mode in M::ALL {
        let graph = operation(with_axis(mode), DataType::Float, DataType::Float, &[160, 160]).finalize().unwrap();
        let grid = |f: &dyn Fn(usize) -> f64| (0..25_600).map(f).collect::<Vec<f64>>();
        let x = grid(&|i| (i as f64 - 12_800.0) / 1000.0);
        let b = grid(&|i| ((i * 37 % 25_600) as f64 - 12_800.0) / 3000.0 + 1e-3);
        let t = grid(&|i| (i % 3) as f64);
        let inputs = given(&graph, &[("x0", &x[..]), ("x1", &b[..]), ("x2", &t[..])][..mode.inputs()]);
        let bounds = bounds(&graph, &inputs).unwrap();
        let actual = execute(&graph, &inputs).unwrap();
        let comparison = compare(&graph, &oracle(&graph, &inputs), &actual, Some(&bounds)).unwrap();
        assert!(comparison.is_match(), "{mode}\n{comparison}");
    }
}

#[test]
fn every_mode_in_every_compute_type() {
    use DataType as D;
    for &mode in M::ALL {
        for compute in [D::Float, D::Int32, D::Double, D::Half, D::BFloat16, D::Boolean, D::Int64, D::Int8] {
            let data_type = if compute.is_floating() { compute } else { D::Int8 };
            assert_agreement(&operation(with_axis(mode), data_type, compute, &[5, 24]), false);
        }
    }
}

#[test]
fn comparisons_with_nan_are_false_but_for_inequality() {
    for mode in [M::CmpEq, M::CmpGt, M::CmpGe, M::CmpLt, M::CmpLe] {
        assert_eq!(plain(mode, &[f64::NAN, 1.0]), 0.0, "{mode}");
        assert_eq!(plain(mode, &[f64::NAN, f64::NAN]), 0.0, "{mode}");
    }
    assert_eq!(plain(M::CmpNeq, &[f64::NAN, f64::NAN]), 1.0);
    assert_eq!(plain(M::CmpEq, &[0.0, -0.0]), 1.0);
}

#[test]
fn nan_rules_of_clipping_modes() {
    let nan = f64::NAN;
    let not = |mode| Pointwise {
        nan_propagation: Some(NanPropagation::NotPropagate),
        relu_lower_clip: Some(-3.0),
        ..Pointwise::new(mode)
    };
    for mode in [M::Min, M::Max] {
        assert!(plain(mode, &[nan, 1.0]).is_nan() && plain(mode, &[1.0, nan]).is_nan(), "{mode}");
        assert_eq!((value(not(mode), &[nan, 1.0]), value(not(mode), &[1.0, nan])), (1.0, 1.0), "{mode}");
    }
    assert!(plain(M::ReluFwd, &[nan]).is_nan());
    assert_eq!(value(not(M::ReluFwd), &[nan]), -3.0);
}

#[test]
fn clips_and_slopes() {
    let leaky = |mode| Pointwise {
        relu_lower_clip: Some(-1.0),
        relu_upper_clip: Some(6.0),
        relu_lower_clip_slope: Some(0.5),
        ..Pointwise::new(mode)
    };
    let forward = [(-3.0, -2.0), (-1.0, -1.0), (0.0, 0.0), (6.0, 6.0), (7.0, 6.0)];
    for (x, y) in forward {
        assert_eq!(value(leaky(M::ReluFwd), &[x]), y, "{x}");
    }
    let backward = [(-3.0, 0.5), (-1.0, 0.5), (0.0, 1.0), (6.0, 0.0), (7.0, 0.0)];
    for (x, slope) in backward {
        assert_eq!(value(leaky(M::ReluBwd), &[8.0, x]), 8.0 * slope, "{x}");
    }
    assert_eq!(plain(M::ReluFwd, &[f64::NEG_INFINITY]), 0.0);
    assert_eq!(plain(M::ReluBwd, &[8.0, 0.0]), 0.0);
    assert_eq!(plain(M::EluBwd, &[8.0, 0.0]), 8.0);
}

#[test]
fn activations_reach_their_limits() {
    let (inf, neg) = (f64::INFINITY, f64::NEG_INFINITY);
    assert_eq!((plain(M::SigmoidFwd, &[inf]), plain(M::SigmoidFwd, &[neg])), (1.0, 0.0));
    assert_eq!((plain(M::SwishFwd, &[inf]), plain(M::SwishFwd, &[neg])), (inf, 0.0));
    assert_eq!((plain(M::SwishBwd, &[1.0, inf]), plain(M::SwishBwd, &[1.0, neg])), (1.0, 0.0));
    assert_eq!((plain(M::SoftplusFwd, &[1e4]), plain(M::SoftplusFwd, &[neg])), (1e4, 0.0));
    assert_eq!((plain(M::EluFwd, &[neg]), plain(M::EluFwd, &[inf])), (-1.0, inf));
    let tiny = f64::from(1e-8f32);
    assert_eq!(plain(M::EluFwd, &[-tiny]), -tiny);
}

#[test]
fn remainders_have_the_sign_of_the_dividend() {
    assert_eq!((plain(M::Mod, &[-7.0, 3.0]), plain(M::Mod, &[7.0, -3.0])), (-1.0, 1.0));
    let graph = operation(Pointwise::new(M::Mod), DataType::Int32, DataType::Int32, &[1, 3]).finalize().unwrap();
    let inputs = given(&graph, &[("x0", &[-7.0, f64::from(i32::MIN), 5.0]), ("x1", &[3.0, -1.0, 0.0])]);
    assert_eq!(output(&graph, &inputs)[..2], [-1.0, 0.0]);
    let graph = operation(Pointwise::new(M::Div), DataType::Int32, DataType::Int32, &[1, 3]).finalize().unwrap();
    assert_eq!(output(&graph, &inputs)[..2], [-2.0, f64::from(i32::MIN)]);
}

#[test]
fn integers_wrap_around() {
    let top = f64::from(i32::MAX);
    let graph = operation(Pointwise::new(M::Add), DataType::Int32, DataType::Int32, &[1, 1]).finalize().unwrap();
    assert_eq!(output(&graph, &given(&graph, &[("x0", &[top]), ("x1", &[1.0])])), [f64::from(i32::MIN)]);
    let graph = operation(Pointwise::new(M::AddSquare), DataType::Int32, DataType::Int32, &[1, 1]).finalize().unwrap();
    assert_eq!(output(&graph, &given(&graph, &[("x0", &[1.0]), ("x1", &[65536.0])])), [1.0]);
}

#[test]
fn scales_apply_to_x_and_b() {
    let scaled = |mode| Pointwise { alpha1: 2.0, alpha2: -1.0, ..Pointwise::new(mode) };
    assert_eq!(value(scaled(M::Add), &[3.0, 5.0]), 1.0);
    assert_eq!(value(scaled(M::Neg), &[3.0]), -6.0);
}

#[test]
fn by_0_an_operand_counts_as_0_whatever_it_is() {
    let without_b = |mode| Pointwise { alpha1: 0.5, alpha2: 0.0, ..Pointwise::new(mode) };
    for b in [7.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        assert_eq!(value(without_b(M::Add), &[3.0, b]), 1.5);
        assert_eq!(value(without_b(M::Mul), &[3.0, b]), 0.0);
        assert_eq!(value(without_b(M::CmpGt), &[3.0, b]), 1.0);
    }
}

#[test]
fn selection_and_logic_take_any_value_but_zero_as_true() {
    assert_eq!(plain(M::BinarySelect, &[3.0, 4.0, -0.5]), 3.0);
    assert_eq!(plain(M::BinarySelect, &[3.0, 4.0, -0.0]), 4.0);
    assert_eq!(plain(M::LogicalAnd, &[0.5, f64::NAN]), 1.0);
    assert_eq!(plain(M::LogicalOr, &[0.0, -0.0]), 0.0);
    assert_eq!(plain(M::LogicalNot, &[0.0]), 1.0);
}

#[test]
fn indices_count_along_the_axis_in_any_layout() {
    let mut graph = float_graph();
    let x = graph.tensor(Tensor::new("x").channels_last([1, 3, 1, 2]));
    let attributes = Pointwise { axis: Some(1), ..Pointwise::new(M::GenIndex) };
    let y = graph.pointwise_with("index", attributes, &[x]);
    graph.set_output(y).data_type = Some(DataType::Int64);
    let graph = graph.finalize().unwrap();
    assert_eq!(output(&graph, &given(&graph, &[("x", &[f64::NAN; 6])])), [0.0, 0.0, 1.0, 1.0, 2.0, 2.0]);
}

#[test]
fn indices_of_a_computed_value_are_not_the_value() {
    let mut graph = float_graph();
    let x = input(&mut graph, "x", &[1, 3], DataType::Float);
    let exp = graph.pointwise("exp", M::Exp, &[x]);
    let attributes = Pointwise { axis: Some(1), ..Pointwise::new(M::GenIndex) };
    let y = graph.pointwise_with("index", attributes, &[exp]);
    graph.set_output(y).data_type = Some(DataType::Int64);
    let graph = graph.finalize().unwrap();
    assert_eq!(output(&graph, &given(&graph, &[("x", &[0.0; 3])])), [0.0, 1.0, 2.0]);
}

#[test]
fn truth_is_stored_as_packed_bits() {
    let mut graph = float_graph();
    let x = input(&mut graph, "x", &[1, 10], DataType::Float);
    let zero = graph.tensor(Tensor::scalar("zero", DataType::Float, Scalar::Float(0.0)));
    let y = graph.pointwise("positive", M::CmpGt, &[x, zero]);
    graph.set_output(y).data_type = Some(DataType::Boolean);
    let graph = graph.finalize().unwrap();
    let x: Vec<f64> = (0..10).map(|i| f64::from(i % 3) - 1.0).collect();
    let outputs = execute(&graph, &given(&graph, &[("x", &x)])).unwrap();
    assert_eq!(outputs.values().next().unwrap().bytes, [0b0010_0100, 0b1111_1101]);
}
