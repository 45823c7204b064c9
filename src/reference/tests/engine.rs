use super::*;
use crate::error::Error;
use crate::graph::{Attributes, Operation, Other, Pointwise, PointwiseMode as M, Port, ReductionMode, Scalar};

#[test]
fn a_fused_graph_with_rounded_intermediates() {
    let mut graph = float_graph().io_data_type(DataType::Half);
    let a = input(&mut graph, "A", &[2, 33, 40], DataType::Half);
    let b = input(&mut graph, "B", &[2, 40, 24], DataType::Half);
    let bias = input(&mut graph, "bias", &[1, 1, 24], DataType::Float);
    let residual = graph.tensor(Tensor::new("residual").dim([2, 33, 24]).stride([1, 2, 66]).data_type(DataType::Half));
    let scaled = graph.pointwise("square", M::AddSquare, &[a, a]);
    let c = graph.matmul("mm", scaled, b);
    graph.tensor_mut(c).data_type = Some(DataType::BFloat16);
    let biased = graph.pointwise("add", M::Add, &[c, bias]);
    let activated = graph.pointwise("gelu", M::GeluFwd, &[biased]);
    let y = graph.pointwise("residual", M::Add, &[activated, residual]);
    graph.set_output(y);
    let amax = graph.reduction("amax", ReductionMode::Amax, activated, [1, 1, 1]);
    graph.set_output(amax).data_type = Some(DataType::Float);
    assert_agreement(&graph, false);
}

#[test]
fn outputs_whose_elements_share_addresses_are_refused() {
    let mut graph = float_graph();
    let x = graph.tensor(Tensor::new("x").dim([4, 8]).stride([1, 1]));
    let y = graph.pointwise("relu", M::ReluFwd, &[x]);
    graph.set_output(y);
    graph.tensor_mut(y).dim = vec![4, 8];
    graph.tensor_mut(y).stride = vec![1, 1];
    let why = super::super::supports(&graph.finalize().unwrap()).unwrap_err().to_string();
    let expected = "elements share addresses; found: strides [1, 1] of dims [4, 8]; required: an address for each";
    assert!(why.contains("'relu::OUT_0'") && why.contains(expected), "{why}");
    // inputs may, and so may outputs along axes of one element
    graph.tensor_mut(y).stride = vec![8, 1];
    super::super::supports(&graph.finalize().unwrap()).unwrap();
}

#[test]
fn virtual_tensors_are_rounded_to_their_type() {
    let mut graph = float_graph();
    let x = input(&mut graph, "x", &[1, 1], DataType::Float);
    let one = graph.tensor(Tensor::scalar("one", DataType::Float, Scalar::Float(1.0)));
    let sum = graph.pointwise("add", M::Add, &[x, one]);
    graph.tensor_mut(sum).data_type = Some(DataType::Half);
    let y = graph.pointwise("sub", M::Sub, &[sum, one]);
    graph.set_output(y);
    let graph = graph.finalize().unwrap();
    assert_eq!(output(&graph, &given(&graph, &[("x", &[1e-4])])), [0.0]);
}

#[test]
fn long_chains_of_many_blocks() {
    let mut graph = float_graph().io_data_type(DataType::BFloat16);
    let x = graph.tensor(Tensor::new("x").channels_last([3, 40, 31, 37]));
    let s = graph.tensor(Tensor::new("s").channels_last([1, 40, 1, 1]));
    let mut y = x;
    for i in 0..70 {
        let mode = [M::Mul, M::Add, M::Max, M::Sub][i % 4];
        y = graph.pointwise(&format!("op{i}"), mode, &[y, s]);
        if i == 40 {
            graph.set_output(y);
        }
    }
    graph.set_output(y);
    assert_agreement(&graph, false);
}

#[test]
fn mixed_layouts_and_reused_results() {
    let mut graph = float_graph();
    let x = graph.tensor(Tensor::new("x").channels_last([2, 5, 6, 7]));
    let z = graph.tensor(Tensor::new("z").row_major([2, 5, 6, 7]));
    let a = graph.pointwise("a", M::Mul, &[x, x]);
    let b = graph.pointwise("b", M::Add, &[z, a]);
    let c = graph.pointwise("c", M::Mul, &[a, b]);
    let strides = graph.tensors()[z.index()].stride.clone();
    graph.set_output(b).stride = strides;
    graph.set_output(c);
    let sum = graph.reduction("sum", ReductionMode::Add, a, [1, 5, 1, 1]);
    graph.set_output(sum);
    assert_agreement(&graph, true);
}

#[test]
fn gaps_of_outputs_stay_poisoned() {
    let mut graph = float_graph();
    let x = graph.tensor(Tensor::new("x").dim([3, 4]).stride([6, 1]));
    let y = graph.pointwise("neg", M::Neg, &[x]);
    graph.set_output(y);
    let graph = graph.finalize().unwrap();
    let outputs = execute(&graph, &random_inputs(&graph, 0, Distribution::Normal).unwrap()).unwrap();
    for (id, tensor) in outputs {
        assert!(
            tensor.bytes.len() > 48 && tensor.gap_bytes_equal(&HostTensor::poisoned_like(graph.tensor(id)).unwrap())
        );
    }
}

#[test]
fn a_single_operation_may_work_in_place() {
    let mut graph = float_graph();
    let x = input(&mut graph, "x", &[1, 4], DataType::Float);
    let y = graph.pointwise("neg", M::Neg, &[x]);
    (graph.tensor_mut(x).uid, graph.set_output(y).uid) = (Some(5), Some(5));
    (graph.tensor_mut(y).dim, graph.tensor_mut(y).stride) = (vec![1, 4], vec![4, 1]);
    let Ok(graph) = graph.finalize() else { return };
    let id = graph.tensor_by_uid(5).unwrap();
    let inputs = random_inputs(&graph, 0, Distribution::SmallIntegers).unwrap();
    let before = inputs[&id].to_dense::<f64>().unwrap();
    assert_eq!(output(&graph, &inputs), before.iter().map(|x| -x).collect::<Vec<_>>());
}

#[test]
fn known_scalars_need_not_be_given_and_are_not_overruled() {
    let mut graph = float_graph();
    let x = input(&mut graph, "x", &[1, 1], DataType::Float);
    let two = graph.tensor(Tensor::scalar("two", DataType::Float, Scalar::Float(2.0)));
    let y = graph.pointwise("mul", M::Mul, &[x, two]);
    graph.set_output(y);
    let graph = graph.finalize().unwrap();
    assert_eq!(output(&graph, &given(&graph, &[("x", &[3.0])])), [6.0]);
    assert_eq!(output(&graph, &given(&graph, &[("x", &[3.0]), ("two", &[5.0])])), [6.0]);
}

#[test]
fn unfit_inputs_are_named() {
    let mut graph = float_graph();
    let x = input(&mut graph, "x\n", &[2, 3], DataType::Float);
    let y = graph.pointwise("neg", M::Neg, &[x]);
    graph.set_output(y);
    let graph = graph.finalize().unwrap();
    let id = by_name(&graph, "x\n");
    let message = |tensor: Option<HostTensor>| {
        let inputs: HostTensors = tensor.map(|tensor| (id, tensor)).into_iter().collect();
        let error = execute(&graph, &inputs).unwrap_err();
        assert!(matches!(error, Error::Input { .. }));
        assert!(error.to_string().contains(r"'x\n'"), "{error}");
        error.to_string()
    };
    let poisoned = |data_type, dim: &[i64], stride: &[i64]| HostTensor::poisoned(data_type, dim, stride).unwrap();
    assert!(message(None).contains("is not among"));
    assert!(message(Some(poisoned(DataType::Half, &[2, 3], &[3, 1]))).contains("type HALF, required FLOAT"));
    assert!(message(Some(poisoned(DataType::Float, &[3, 2], &[2, 1]))).contains("required [2, 3]"));
    assert!(message(Some(poisoned(DataType::Float, &[2, 3], &[1, 2]))).contains("required [3, 1]"));
    let mut short = poisoned(DataType::Float, &[2, 3], &[3, 1]);
    short.bytes.pop();
    assert!(message(Some(short)).contains("23 bytes"));
}

#[test]
fn unsupported_operations_are_named() {
    let mut graph = float_graph();
    let x = input(&mut graph, "x", &[2, 3], DataType::Float);
    let y = graph.tensor(Tensor::new("y").row_major([3, 2]));
    let attributes = [("permutation".to_owned(), serde_json::json!([1, 0]))].into();
    graph.operation(Operation {
        name: "turn".to_owned(),
        attributes: Attributes::Other(Other { tag: "TRANSPOSE", attributes }),
        compute_data_type: None,
        inputs: vec![(Port::X, x)],
        outputs: vec![(Port::Y, y)],
    });
    let graph = graph.finalize().unwrap();
    let error = execute(&graph, &random_inputs(&graph, 0, Distribution::Normal).unwrap()).unwrap_err();
    assert!(matches!(error, Error::NotSupported(_)));
    assert!(error.to_string().contains("'turn' (TRANSPOSE)"), "{error}");
}

#[test]
fn operations_take_values_in_their_compute_type() {
    let mut graph = float_graph();
    let x = input(&mut graph, "x", &[1, 2], DataType::Float);
    let y = graph.pointwise_with("cast", Pointwise::new(M::Identity), &[x]);
    graph.last_operation().compute_data_type = Some(DataType::Half);
    graph.set_output(y);
    let graph = graph.finalize().unwrap();
    assert_eq!(output(&graph, &given(&graph, &[("x", &[1.0001, 1e6])])), [1.0, f64::INFINITY]);
}

#[test]
fn the_number_of_threads_changes_nothing() {
    let mut graph = float_graph();
    let a = input(&mut graph, "A", &[3, 70, 90], DataType::Float);
    let b = input(&mut graph, "B", &[3, 90, 130], DataType::Float);
    let c = graph.matmul("mm", a, b);
    let sum = graph.reduction("sum", ReductionMode::Add, c, [1, 1, 1]);
    graph.set_output(sum);
    let graph = graph.finalize().unwrap();
    let result = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| execute(&graph, &random_inputs(&graph, 3, Distribution::Normal).unwrap()).unwrap())
    };
    assert_eq!(result(1), result(5));
}
