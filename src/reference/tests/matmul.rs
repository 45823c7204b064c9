use super::*;

fn product(a: (&[i64], DataType), b: (&[i64], DataType), result: DataType, compute: DataType) -> Graph {
    let mut graph = float_graph().compute_data_type(compute);
    let a = input(&mut graph, "A", a.0, a.1);
    let b = input(&mut graph, "B", b.0, b.1);
    let c = graph.matmul("mm", a, b);
    graph.set_output(c).data_type = Some(result);
    graph
}

#[test]
fn two_by_two() {
    let f = DataType::Float;
    let graph = product((&[1, 2, 2], f), (&[1, 2, 2], f), f, f).finalize().unwrap();
    let inputs = given(&graph, &[("A", &[1.0, 2.0, 3.0, 4.0]), ("B", &[5.0, 6.0, 7.0, 8.0])]);
    assert_eq!(output(&graph, &inputs), [19.0, 22.0, 43.0, 50.0]);
}

#[test]
fn integers_wrap_and_saturate_on_the_way_out() {
    let (a, b) = ((&[1, 1, 2][..], DataType::Int32), (&[1, 2, 1][..], DataType::Int32));
    let big = f64::from(1 << 20);
    let wrapped = product(a, b, DataType::Int32, DataType::Int32).finalize().unwrap();
    let inputs = given(&wrapped, &[("A", &[big, 3.0]), ("B", &[big, 5.0])]);
    assert_eq!(output(&wrapped, &inputs), [15.0]);
    let saturated = product(a, b, DataType::Int8, DataType::Int32).finalize().unwrap();
    let inputs = given(&saturated, &[("A", &[20.0, 3.0]), ("B", &[20.0, 5.0])]);
    assert_eq!(output(&saturated, &inputs), [127.0]);
}

#[test]
fn half_accumulates_in_half() {
    let half = DataType::Half;
    let graph = product((&[1, 1, 2], half), (&[1, 2, 1], half), DataType::Float, half).finalize().unwrap();
    let inputs = given(&graph, &[("A", &[2048.0, 1.0]), ("B", &[1.0, 1.0])]);
    assert_eq!(output(&graph, &inputs), [2048.0]);
}

/// Ties of conversion to even, overflow, underflow.
#[test]
fn bfloat16_becomes_half_before_it_is_multiplied() {
    let (brain, half) = (DataType::BFloat16, DataType::Half);
    let graph = product((&[1, 5, 1], brain), (&[1, 1, 1], brain), DataType::Float, half).finalize().unwrap();
    let unit = 2f64.powi(-24);
    let inputs = given(&graph, &[("A", &[65280.0, 65536.0, 0.5 * unit, 1.5 * unit, -unit]), ("B", &[1.0])]);
    assert_eq!(output(&graph, &inputs), [65280.0, f64::INFINITY, 0.0, 2.0 * unit, -unit]);
    let bounds = bounds(&graph, &inputs).expect("bounds");
    let c = by_name(&graph, "mm::C");
    assert!([0, 2, 3, 4].into_iter().all(|position| bounds.at(c, position) == 0.0), "{bounds:?}");
}

/// Sums of INT8 products in FLOAT are exact up to 2²⁴ and rounded beyond.
#[test]
fn integers_in_float_are_exact_up_to_the_last_odd_number() {
    let float = DataType::Float;
    let sum = |k: i64, last: f64| {
        let graph = product((&[1, 1, k], DataType::Int8), (&[1, k, 1], DataType::Int8), float, float);
        let graph = graph.finalize().unwrap();
        let mut a = vec![-128.0; k as usize];
        a[k as usize - 1] = last;
        let mut b = a.clone();
        b[k as usize - 1] = 1.0;
        let inputs = given(&graph, &[("A", &a), ("B", &b)]);
        let bound = bounds(&graph, &inputs).expect("bounds").at(by_name(&graph, "mm::C"), 0);
        (output(&graph, &inputs)[0], bound)
    };
    assert_eq!(sum(1024, -1.0), (1023.0 * 16384.0 - 1.0, 0.0));
    let (rounded, bound) = sum(1026, 1.0);
    assert_eq!(rounded, 1025.0 * 16384.0);
    assert!((1.0..1e4).contains(&bound), "{bound}");
}

#[test]
fn float_operands_keep_all_their_bits() {
    let f = DataType::Float;
    let graph = product((&[1, 1, 1], f), (&[1, 1, 1], f), f, f).finalize().unwrap();
    let fine = f64::from(1.0 + f32::EPSILON);
    assert_eq!(output(&graph, &given(&graph, &[("A", &[fine]), ("B", &[1.0])])), [fine]);
}

#[test]
fn every_type_and_broadcast_agrees_with_the_oracle() {
    use DataType as D;
    let cases = [
        (D::Float, D::Float, D::Float, D::Float),
        (D::Half, D::Half, D::Half, D::Float),
        (D::Half, D::Half, D::Half, D::Half),
        (D::BFloat16, D::BFloat16, D::Float, D::Float),
        (D::Int8, D::Int8, D::Int32, D::Int32),
        (D::Int8, D::Int8, D::Int8, D::Int32),
        (D::Fp8E4M3, D::Fp8E5M2, D::BFloat16, D::Float),
        (D::Fp8E4M3, D::Fp8E4M3, D::Fp8E4M3, D::FastFloatForFp8),
        (D::Double, D::Double, D::Double, D::Double),
        (D::UInt8, D::Int8, D::Int64, D::Int32),
        (D::Int8, D::Int8, D::Float, D::Float),
        (D::Int8, D::Int8, D::Int32, D::Float),
        (D::BFloat16, D::BFloat16, D::Float, D::Half),
    ];
    for (a, b, c, compute) in cases {
        for (batch_a, batch_b) in [(3, 3), (1, 3), (3, 1)] {
            let graph = product((&[batch_a, 35, 77], a), (&[batch_b, 77, 41], b), c, compute);
            assert_agreement(&graph, true);
        }
    }
}

#[test]
fn two_batch_axes_and_any_strides() {
    let mut graph = float_graph();
    let a = graph.tensor(Tensor::new("A").dim([2, 3, 5, 7]).stride([1, 70, 14, 2]));
    let b = graph.tensor(Tensor::new("B").dim([2, 1, 7, 4]).stride([40, 40, 1, 9]));
    let c = graph.matmul("mm", a, b);
    let c = graph.set_output(c);
    (c.dim, c.stride) = (vec![2, 3, 5, 4], vec![90, 30, 1, 6]);
    assert_agreement(&graph, true);
}
