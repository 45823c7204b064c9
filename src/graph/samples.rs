//! Graphs and rearrangements that the tests of this module share.

use super::{
    Attributes, Convolution, ConvolutionDirection, DataType, FinalizedGraph, Graph, Operation, Pointwise,
    PointwiseMode, Port, Tensor, TensorHandle,
};

/// HALF in memory, FLOAT inside and for computing.
pub(super) fn half_graph() -> Graph {
    Graph::new().io_data_type(DataType::Half).intermediate_data_type(DataType::Float).compute_data_type(DataType::Float)
}

/// Row-major input.
pub(super) fn input(graph: &mut Graph, name: &str, dim: &[i64]) -> TensorHandle {
    graph.tensor(Tensor::new(name).row_major(dim))
}

/// Channels-last input.
pub(super) fn image(graph: &mut Graph, name: &str, dim: &[i64]) -> TensorHandle {
    graph.tensor(Tensor::new(name).channels_last(dim))
}

/// A·B + bias, RELU.
pub(super) fn matmul_bias_relu() -> Graph {
    let mut graph = half_graph();
    let a = input(&mut graph, "A", &[1, 64, 32]);
    let b = input(&mut graph, "B", &[1, 32, 128]);
    let bias = input(&mut graph, "bias", &[1, 1, 128]);
    let c = graph.matmul("mm", a, b);
    let biased = graph.pointwise("add", PointwiseMode::Add, &[c, bias]);
    let y = graph.pointwise("relu", PointwiseMode::ReluFwd, &[biased]);
    graph.set_output(y);
    graph
}

/// One pointwise operation on X.
pub(super) fn pointwise(attributes: Pointwise) -> Graph {
    let mut graph = half_graph();
    let inputs: Vec<TensorHandle> =
        (0..attributes.mode.inputs()).map(|at| input(&mut graph, &format!("x{at}"), &[2, 3, 4])).collect();
    let y = graph.pointwise_with("op", attributes, &inputs);
    graph.set_output(y);
    graph
}

/// One convolution of a 2-D image with 3×3 filters, padded by 1.
pub(super) fn convolution(direction: ConvolutionDirection) -> Graph {
    let mut graph = half_graph();
    let attributes = Convolution::new(direction, 2).padding([1, 1]);
    let (x, w, y) = ([4, 64, 16, 16], [32, 64, 3, 3], [4, 32, 16, 16]);
    let (one, other, result) = match direction {
        ConvolutionDirection::Forward => (x, w, y),
        ConvolutionDirection::BackwardData => (y, w, x),
        ConvolutionDirection::BackwardFilter => (y, x, w),
    };
    let inputs = [image(&mut graph, "one", &one), image(&mut graph, "other", &other)];
    let result_id = graph.convolution("conv", attributes, inputs);
    graph.set_output(result_id).dim = result.to_vec();
    graph
}

/// An operation of any kind with its tensors at named ports.
pub(super) fn other(
    graph: &mut Graph,
    attributes: Attributes,
    inputs: &[(&'static str, TensorHandle)],
    outputs: &[&'static str],
) {
    let outputs = outputs.iter().map(|&port| (Port(port), graph.tensor(Tensor::new(port)))).collect();
    let inputs = inputs.iter().map(|&(port, id)| (Port(port), id)).collect();
    graph.operation(Operation { name: "op".to_owned(), attributes, compute_data_type: None, inputs, outputs });
}

/// Dims and strides of the tensor with this name.
pub(super) fn shape_of<'a>(graph: &'a FinalizedGraph, name: &str) -> (&'a [i64], &'a [i64]) {
    let tensor = graph.tensors().find(|tensor| tensor.name == name).expect("the graph has the tensor");
    (&tensor.dim, &tensor.stride)
}

/// The message of a graph that must not finalize.
pub(super) fn refusal(graph: &Graph) -> String {
    graph.finalize().expect_err("the graph is malformed").to_string()
}

/// The same graph with its operations and tensors in another order.
pub(super) fn shuffled(graph: &Graph, seed: u64) -> Graph {
    let tensor_order = permutation(graph.tensors.len(), seed);
    let mut tensor_place = vec![TensorHandle(0); tensor_order.len()];
    tensor_order.iter().zip(0..).for_each(|(&old, new)| tensor_place[old] = TensorHandle(new));
    let mut result = graph.clone();
    result.tensors = tensor_order.iter().map(|&old| graph.tensors[old].clone()).collect();
    let order = permutation(graph.operations.len(), seed.wrapping_add(1));
    result.operations = order.iter().map(|&old| graph.operations[old].clone()).collect();
    let slots = result.operations.iter_mut().flat_map(|op| op.inputs.iter_mut().chain(&mut op.outputs));
    slots.for_each(|slot| slot.1 = tensor_place[slot.1.index()]);
    let offsets = result.tensors.iter_mut().filter_map(|tensor| tensor.ragged_offset.as_mut());
    offsets.for_each(|id| *id = tensor_place[id.index()]);
    result
}

/// Fisher and Yates, with a linear congruential generator.
fn permutation(count: usize, seed: u64) -> Vec<usize> {
    let mut state = seed;
    let mut order: Vec<usize> = (0..count).collect();
    for at in (1..count).rev() {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        order.swap(at, (state >> 33) as usize % (at + 1));
    }
    order
}
