//! What `fusewright check` says to people of ten refused graphs (`tests/snapshots`).

use std::process::Command;

use fusewright::frontend;
use fusewright::graph::{
    Convolution, ConvolutionDirection, DataType, Graph, PointwiseMode, ReductionMode, Tensor, TensorHandle,
};

/// HALF in device memory, FLOAT inside.
fn half(name: &str) -> Graph {
    Graph::new()
        .name(name)
        .io_data_type(DataType::Half)
        .intermediate_data_type(DataType::Float)
        .compute_data_type(DataType::Float)
}

/// The output of `check` for a graph, run in a folder that holds nothing else.
fn check(graph: &Graph, arguments: &[&str]) -> String {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let finalized = graph.finalize().expect("the graph is well formed");
    std::fs::write(folder.path().join("graph.json"), frontend::write_v2(&finalized.to_graph()))
        .expect("the folder can be written");
    let mut command = Command::new(env!("CARGO_BIN_EXE_fusewright"));
    let ran = command.args(["check", "graph.json"]).args(arguments).current_dir(folder.path()).output();
    let ran = ran.expect("the program starts");
    assert_eq!(ran.status.code(), Some(1), "the graph is refused: {ran:?}");
    String::from_utf8(ran.stdout).expect("the program writes UTF-8")
}

fn image(graph: &mut Graph, name: &str, dim: [i64; 4]) -> TensorHandle {
    graph.tensor(Tensor::new(name).channels_last(dim))
}

fn matrix(graph: &mut Graph, name: &str, dim: [i64; 3]) -> TensorHandle {
    graph.tensor(Tensor::new(name).row_major(dim))
}

/// A 3×3 convolution of images to 128 channels.
fn convolution(graph: &mut Graph, x: TensorHandle, channels: i64) -> TensorHandle {
    let filter = image(graph, "filter", [128, channels, 3, 3]);
    graph.convolution("conv", Convolution::new(ConvolutionDirection::Forward, 2).padding([1, 1]), [x, filter])
}

fn stored(graph: &mut Graph, id: TensorHandle, tensor: Tensor) {
    *graph.tensor_mut(id) = tensor;
}

#[test]
fn a_bias_before_the_convolution_result() {
    let mut graph = half("bias first");
    let x = image(&mut graph, "image", [64, 32, 56, 56]);
    let y = convolution(&mut graph, x, 32);
    let bias = image(&mut graph, "bias", [1, 128, 1, 1]);
    let biased = graph.pointwise("add bias", PointwiseMode::Add, &[bias, y]);
    stored(&mut graph, biased, Tensor::new("result").channels_last([64, 128, 56, 56]));
    insta::assert_snapshot!(check(&graph, &["--surface", "90"]));
}

#[test]
fn images_in_nchw() {
    let mut graph = half("NCHW");
    let x = graph.tensor(Tensor::new("image").row_major([64, 32, 56, 56]));
    let y = convolution(&mut graph, x, 32);
    stored(&mut graph, y, Tensor::new("result").row_major([64, 128, 56, 56]));
    insta::assert_snapshot!(check(&graph, &["--surface", "90"]));
}

#[test]
fn three_channels_that_are_scaled() {
    let mut graph = half("RGB");
    let x = image(&mut graph, "RGB image", [64, 3, 224, 224]);
    let scale = image(&mut graph, "scale", [1, 3, 1, 1]);
    let scaled = graph.pointwise("normalize", PointwiseMode::Mul, &[x, scale]);
    graph.tensor_mut(scaled).data_type = Some(DataType::Half);
    let y = convolution(&mut graph, scaled, 3);
    stored(&mut graph, y, Tensor::new("result").channels_last([64, 128, 224, 224]));
    insta::assert_snapshot!(check(&graph, &["--surface", "90"]));
}

#[test]
fn a_boolean_mask_on_hopper() {
    let mut graph = half("mask");
    let [a, b] = [("A", [8, 512, 64]), ("B", [8, 64, 512])].map(|(name, dim)| matrix(&mut graph, name, dim));
    let scores = graph.matmul("scores", a, b);
    let mask = graph.tensor(Tensor::new("mask").row_major([8, 512, 512]).data_type(DataType::Boolean));
    let masked = graph.pointwise("mask scores", PointwiseMode::Mul, &[scores, mask]);
    stored(&mut graph, masked, Tensor::new("masked").row_major([8, 512, 512]));
    insta::assert_snapshot!(check(&graph, &["--surface", "90"]));
}

#[test]
fn two_matmuls() {
    let mut graph = half("two layers");
    let x = matrix(&mut graph, "x", [1, 128, 256]);
    let first = matrix(&mut graph, "first weights", [1, 256, 512]);
    let second = matrix(&mut graph, "second weights", [1, 512, 64]);
    let hidden = graph.matmul("layer 1", x, first);
    graph.tensor_mut(hidden).data_type = Some(DataType::Half);
    let y = graph.matmul("layer 2", hidden, second);
    stored(&mut graph, y, Tensor::new("y").row_major([1, 128, 64]));
    insta::assert_snapshot!(check(&graph, &[]));
}

#[test]
fn operands_of_two_types() {
    let mut graph = half("mixed types");
    let x = image(&mut graph, "image", [64, 32, 56, 56]);
    graph.tensor_mut(x).data_type = Some(DataType::Int8);
    let y = convolution(&mut graph, x, 32);
    stored(&mut graph, y, Tensor::new("result").channels_last([64, 128, 56, 56]));
    insta::assert_snapshot!(check(&graph, &[]));
}

#[test]
fn an_epilogue_of_a_grouped_convolution() {
    let mut graph = half("grouped");
    let dy = image(&mut graph, "dy", [64, 128, 56, 56]);
    let filter = image(&mut graph, "filter", [128, 16, 3, 3]);
    let attributes = Convolution::new(ConvolutionDirection::BackwardData, 2).padding([1, 1]);
    let dx = graph.convolution("conv", attributes, [dy, filter]);
    graph.tensor_mut(dx).dim = vec![64, 32, 56, 56];
    let relu = graph.pointwise("relu", PointwiseMode::ReluFwd, &[dx]);
    stored(&mut graph, relu, Tensor::new("dx").channels_last([64, 32, 56, 56]));
    insta::assert_snapshot!(check(&graph, &["--surface", "90"]));
}

#[test]
fn a_largest_magnitude_computed_in_half() {
    let mut graph = half("amax");
    let x = image(&mut graph, "image", [64, 32, 56, 56]);
    let y = convolution(&mut graph, x, 32);
    let amax = graph.reduction("amax", ReductionMode::Amax, y, [1, 1, 1, 1]);
    graph.last_operation().compute_data_type = Some(DataType::Half);
    stored(&mut graph, amax, Tensor::new("amax").channels_last([1, 1, 1, 1]).data_type(DataType::Half));
    insta::assert_snapshot!(check(&graph, &[]));
}

#[test]
fn a_softmax() {
    let mut graph = half("softmax");
    let [a, b] = [("Q", [8, 512, 64]), ("K", [8, 64, 512])].map(|(name, dim)| matrix(&mut graph, name, dim));
    let scores = graph.matmul("scores", a, b);
    let exp = graph.pointwise("exp", PointwiseMode::Exp, &[scores]);
    let sum = graph.reduction("sum", ReductionMode::Add, exp, [8, 512, 1]);
    let softmax = graph.pointwise("divide", PointwiseMode::Div, &[exp, sum]);
    stored(&mut graph, softmax, Tensor::new("softmax").row_major([8, 512, 512]));
    insta::assert_snapshot!(check(&graph, &[]));
}

#[test]
fn integers_computed_as_halves() {
    let mut graph = half("INT8").io_data_type(DataType::Int8);
    let [a, b] = [("A", [1, 128, 64]), ("B", [1, 64, 256])].map(|(name, dim)| matrix(&mut graph, name, dim));
    let c = graph.matmul("mm", a, b);
    graph.last_operation().compute_data_type = Some(DataType::Half);
    stored(&mut graph, c, Tensor::new("C").row_major([1, 128, 256]).data_type(DataType::Float));
    insta::assert_snapshot!(check(&graph, &["--arch", "sm_80", "--arch", "sm_90"]));
}
