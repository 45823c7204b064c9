//! Mainloop stages that store what they compute, of which the core reads what memory keeps (DBARCS, N-76).

use fusewright::graph::DataType::{BFloat16, Boolean, Float, Fp8E4M3, Half, Int8, Int32};
use fusewright::graph::{ConvolutionDirection as Direction, DataType, Graph, PointwiseMode, Tensor, TensorHandle};

use crate::cases::{self, Case, output, push};
use crate::convolution_cases::Layer;

/// Adds the cases of this file.
pub(crate) fn cases(cases: &mut Vec<Case>) {
    let mut add = |name: &str, graph| push(cases, format!("stored_stage_{name}"), graph);
    add("dbarcs", dual(Layer { channels: [16, 32], ..one_tap() }, true));
    add("dbarcs_of_many_tiles", dual(Layer { channels: [64, 48], input: vec![17, 16], ..one_tap() }, true));
    add("dbarcs_without_dual_scale", dual(Layer { channels: [32, 24], ..one_tap() }, false));
    add("fprop_3x3", beyond_padding(&Layer::small(), Direction::Forward, 0));
    add("dgrad_3x3", beyond_padding(&Layer::small(), Direction::BackwardData, 0));
    add("wgrad_3x3", beyond_padding(&Layer::small(), Direction::BackwardFilter, 1));
    let ragged = Layer { channels: [5, 7], stride: vec![2, 2], ..Layer::small() };
    add("fprop_strided_ragged", beyond_padding(&ragged, Direction::Forward, 0));
    let depthwise = Layer { channels: [32, 32], groups: 32, ..Layer::small() };
    add("fprop_depthwise", beyond_padding(&depthwise, Direction::Forward, 0));
    add("matmul_a", matmul(Half, [relu, bare]));
    add("matmul_b", matmul(Half, [bare, relu]));
    add("matmul_both", matmul(Half, [relu, relu]));
    add("matmul_float", matmul(Float, [relu, bare]));
    add("matmul_int8", matmul(Int8, [relu, relu]));
    add("matmul_inner_value", matmul(Half, [inner_value, bare]));
    add("matmul_two_values", matmul(BFloat16, [two_values, bare]));
    add("matmul_value_read_twice", matmul(Half, [read_twice, bare]));
    add("matmul_in_fewer_bits", matmul(Half, [in_fewer_bits, bare]));
    add("matmul_mask", matmul(Half, [mask, bare]));
    add("matmul_turned", matmul(Half, [turned, bare]));
}

fn one_tap() -> Layer {
    Layer { filter: vec![1, 1], pre: vec![0, 0], post: vec![0, 0], ..Layer::small() }
}

fn computed(g: &mut Graph, name: &str, mode: PointwiseMode, inputs: &[TensorHandle], to: DataType) -> TensorHandle {
    let value = g.pointwise(name, mode, inputs);
    g.tensor_mut(value).data_type = Some(to);
    value
}

/// `relu((X·scale + bias) + branch)`, stored, the branch scaled or as it is, then a convolution with statistics.
fn dual(layer: Layer, is_scaled: bool) -> Graph {
    let (mut g, y) = layer.core(Direction::Forward, |g, slot, x| {
        if slot == 1 {
            return x;
        }
        let dim = g.tensor_mut(x).dim.clone();
        let branch = g.tensor(Tensor::new("branch").channels_last(dim));
        let first = scaled(g, "", x);
        let second = if is_scaled { scaled(g, "branch_", branch) } else { branch };
        let sum = computed(g, "sum", PointwiseMode::Add, &[first, second], Half);
        let relu = g.pointwise("relu", PointwiseMode::ReluFwd, &[sum]);
        output(g, relu, Half);
        relu
    });
    output(&mut g, y, Half);
    let (sum, squares) = g.genstats("statistics", y);
    output(&mut g, sum, Float);
    output(&mut g, squares, Float);
    g
}

fn scaled(g: &mut Graph, prefix: &str, x: TensorHandle) -> TensorHandle {
    let channels = g.tensor_mut(x).dim[1];
    let [scale, bias] = ["scale", "bias"]
        .map(|name| g.tensor(Tensor::new(format!("{prefix}{name}")).channels_last([1, channels, 1, 1])));
    let product = computed(g, &format!("{prefix}mul"), PointwiseMode::Mul, &[x, scale], Half);
    computed(g, &format!("{prefix}add"), PointwiseMode::Add, &[product, bias], Half)
}

/// A convolution behind `exp` of an operand, stored: what lies beyond an image is zero all the same.
fn beyond_padding(layer: &Layer, direction: Direction, changed: usize) -> Graph {
    let (mut g, id) = layer.core(direction, |g, slot, operand| {
        if slot != changed {
            return operand;
        }
        let exponential = g.pointwise("exponential", PointwiseMode::Exp, &[operand]);
        output(g, exponential, Half);
        exponential
    });
    output(&mut g, id, Half);
    g
}

/// What stands before an operand.
type Stage = fn(&mut Graph, TensorHandle) -> TensorHandle;

/// `C = f(A)·g(B)` with A `[2,40,48]` and B `[2,48,24]`; INT8 operands compute in INT32.
fn matmul(operands: DataType, stages: [Stage; 2]) -> Graph {
    let mut g = cases::graph(operands).intermediate_data_type(operands);
    let a = g.tensor(Tensor::new("A").row_major([2, 40, 48]));
    let b = g.tensor(Tensor::new("B").row_major([2, 48, 24]));
    let [a, b] = [stages[0](&mut g, a), stages[1](&mut g, b)];
    let c = g.matmul("mm", a, b);
    let compute = if operands == Int8 { Int32 } else { Float };
    g.last_operation().compute_data_type = Some(compute);
    output(&mut g, c, compute);
    g
}

fn bare(_: &mut Graph, operand: TensorHandle) -> TensorHandle {
    operand
}

fn relu(g: &mut Graph, operand: TensorHandle) -> TensorHandle {
    let relu = g.pointwise("relu", PointwiseMode::ReluFwd, &[operand]);
    g.set_output(relu);
    relu
}

/// A product by rows is stored, its ReLU not.
fn inner_value(g: &mut Graph, operand: TensorHandle) -> TensorHandle {
    let product = by_rows(g, operand);
    g.set_output(product);
    g.pointwise("positive", PointwiseMode::ReluFwd, &[product])
}

/// Both are stored.
fn two_values(g: &mut Graph, operand: TensorHandle) -> TensorHandle {
    let product = by_rows(g, operand);
    g.set_output(product);
    relu(g, product)
}

/// The ReLU of a product is stored, and added to the product, which is not.
fn read_twice(g: &mut Graph, operand: TensorHandle) -> TensorHandle {
    let product = by_rows(g, operand);
    let relu = relu(g, product);
    g.pointwise("sum", PointwiseMode::Add, &[relu, product])
}

/// What is stored is rounded to 8 bits, also where the stage goes on.
fn in_fewer_bits(g: &mut Graph, operand: TensorHandle) -> TensorHandle {
    let product = by_rows(g, operand);
    output(g, product, Fp8E4M3);
    g.pointwise("positive", PointwiseMode::ReluFwd, &[product])
}

/// What is stored is a packed mask.
fn mask(g: &mut Graph, operand: TensorHandle) -> TensorHandle {
    let rows = row_factors(g);
    let mask = g.pointwise("mask", PointwiseMode::CmpGt, &[operand, rows]);
    output(g, mask, Boolean);
    g.pointwise("chosen", PointwiseMode::BinarySelect, &[operand, rows, mask])
}

/// What is stored lies along columns.
fn turned(g: &mut Graph, operand: TensorHandle) -> TensorHandle {
    let relu = relu(g, operand);
    let tensor = g.tensor_mut(relu);
    (tensor.dim, tensor.stride) = (vec![2, 40, 48], vec![1920, 1, 40]);
    relu
}

fn row_factors(g: &mut Graph) -> TensorHandle {
    g.tensor(Tensor::new("rows").row_major([2, 40, 1]))
}

fn by_rows(g: &mut Graph, operand: TensorHandle) -> TensorHandle {
    let rows = row_factors(g);
    g.pointwise("product", PointwiseMode::Mul, &[operand, rows])
}
