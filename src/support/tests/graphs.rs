//! Legal graphs to edit.

use super::{columns, nhwc, rows};
use crate::graph::{
    Convolution, ConvolutionDirection, DataType, Fraction, Graph, PaddingMode, PointwiseMode, ReductionMode, Resample,
    ResampleMode, Tensor, TensorHandle,
};

pub(super) fn named(name: &str, tensor: Tensor) -> Tensor {
    Tensor { name: name.to_owned(), ..tensor }
}

/// HALF in device memory, FLOAT inside.
fn half() -> Graph {
    Graph::new().io_data_type(DataType::Half).intermediate_data_type(DataType::Float).compute_data_type(DataType::Float)
}

fn output(graph: &mut Graph, id: TensorHandle, tensor: Tensor) {
    *graph.tensor_mut(id) = tensor;
}

/// `Y = relu(A·B + bias)` with A `[2,32,16]`, B `[2,16,64]`, bias `[2,1,64]`.
pub(super) fn matmul() -> Graph {
    let mut graph = half();
    let a = graph.tensor(named("A", rows([2, 32, 16])));
    let b = graph.tensor(named("B", rows([2, 16, 64])));
    let bias = graph.tensor(named("bias", rows([2, 1, 64])));
    let c = graph.matmul("mm", a, b);
    let biased = graph.pointwise("add", PointwiseMode::Add, &[c, bias]);
    let y = graph.pointwise("relu", PointwiseMode::ReluFwd, &[biased]);
    output(&mut graph, y, named("Y", rows([2, 32, 64])));
    graph
}

/// `C = A·B` alone.
pub(super) fn lone_matmul() -> Graph {
    let mut graph = half();
    let a = graph.tensor(named("A", rows([2, 32, 16])));
    let b = graph.tensor(named("B", rows([2, 16, 64])));
    let c = graph.matmul("mm", a, b);
    output(&mut graph, c, named("C", rows([2, 32, 64])));
    graph
}

/// INT8 with INT32 accumulation: A row-major, B column-major, C INT32.
pub(super) fn int8_matmul() -> Graph {
    let mut graph = half().io_data_type(DataType::Int8);
    let a = graph.tensor(named("A", rows([2, 32, 16])));
    let b = graph.tensor(named("B", columns([2, 16, 64])));
    let c = graph.matmul("mm", a, b);
    graph.last_operation().compute_data_type = Some(DataType::Int32);
    output(&mut graph, c, named("C", rows([2, 32, 64])).data_type(DataType::Int32));
    graph
}

/// `R = Σ_m relu(A·B)`: a reduction to `[2,1,64]`.
pub(super) fn matmul_reduction() -> Graph {
    let mut graph = half();
    let a = graph.tensor(named("A", rows([2, 32, 16])));
    let b = graph.tensor(named("B", rows([2, 16, 64])));
    let c = graph.matmul("mm", a, b);
    let relu = graph.pointwise("relu", PointwiseMode::ReluFwd, &[c]);
    let r = graph.reduction("sum", ReductionMode::Add, relu, [2, 1, 64]);
    output(&mut graph, r, named("R", rows([2, 1, 64])).data_type(DataType::Float));
    graph
}

/// `C = (A·scale)·B` with scale `[2,32,1]`, HALF throughout g1.
pub(super) fn matmul_g1() -> Graph {
    let mut graph = half();
    let a = graph.tensor(named("A", rows([2, 32, 16])));
    let scale = graph.tensor(named("scale", rows([2, 32, 1])));
    let b = graph.tensor(named("B", rows([2, 16, 64])));
    let scaled = graph.pointwise("mul", PointwiseMode::Mul, &[a, scale]);
    graph.tensor_mut(scaled).data_type = Some(DataType::Half);
    let c = graph.matmul("mm", scaled, b);
    output(&mut graph, c, named("C", rows([2, 32, 64])));
    graph
}

/// As [`matmul_g1`] with the scale `[2,1,64]` on B.
pub(super) fn matmul_g1b() -> Graph {
    let mut graph = half();
    let a = graph.tensor(named("A", rows([2, 32, 16])));
    let b = graph.tensor(named("B", rows([2, 16, 64])));
    let scale = graph.tensor(named("scale", rows([2, 1, 64])));
    let scaled = graph.pointwise("mul", PointwiseMode::Mul, &[b, scale]);
    graph.tensor_mut(scaled).data_type = Some(DataType::Half);
    let c = graph.matmul("mm", a, scaled);
    output(&mut graph, c, named("C", rows([2, 32, 64])));
    graph
}

/// `A = concat(A0, A1)` along K, then `C = A·B`.
pub(super) fn matmul_concat() -> Graph {
    let mut graph = half();
    let a0 = graph.tensor(named("A0", rows([2, 32, 8])));
    let a1 = graph.tensor(named("A1", rows([2, 32, 8])));
    let b = graph.tensor(named("B", rows([2, 16, 64])));
    let a = graph.concatenate("join", 2, &[a0, a1]);
    graph.tensor_mut(a).data_type = Some(DataType::Half);
    let c = graph.matmul("mm", a, b);
    output(&mut graph, c, named("C", rows([2, 32, 64])));
    graph
}

fn convolution(direction: ConvolutionDirection) -> Convolution {
    Convolution::new(direction, 2).padding([1, 1])
}

/// Image `[2,16,8,8]`, filter `[32,16,3,3]`, response `[2,32,8,8]`, then bias and relu on the result.
fn convolution_graph(direction: ConvolutionDirection) -> Graph {
    use ConvolutionDirection as D;
    let mut graph = half();
    let mut tensor = |name: &str, dim: [i64; 4]| graph.tensor(named(name, nhwc(dim)));
    let (inputs, dim, bias) = match direction {
        D::Forward => ([tensor("X", IMAGE), tensor("W", FILTER)], RESPONSE, [1, 32, 1, 1]),
        D::BackwardData => ([tensor("DY", RESPONSE), tensor("W", FILTER)], IMAGE, [1, 16, 1, 1]),
        D::BackwardFilter => ([tensor("DY", RESPONSE), tensor("X", IMAGE)], FILTER, [32, 1, 1, 1]),
    };
    let bias = graph.tensor(named("bias", nhwc(bias)));
    let result = graph.convolution("conv", convolution(direction), inputs);
    graph.tensor_mut(result).dim = dim.to_vec();
    let biased = graph.pointwise("add", PointwiseMode::Add, &[result, bias]);
    let y = graph.pointwise("relu", PointwiseMode::ReluFwd, &[biased]);
    output(&mut graph, y, named("Y", nhwc(dim)));
    graph
}

pub(super) const IMAGE: [i64; 4] = [2, 16, 8, 8];
pub(super) const FILTER: [i64; 4] = [32, 16, 3, 3];
pub(super) const RESPONSE: [i64; 4] = [2, 32, 8, 8];

pub(super) fn forward() -> Graph {
    convolution_graph(ConvolutionDirection::Forward)
}

pub(super) fn backward_data() -> Graph {
    convolution_graph(ConvolutionDirection::BackwardData)
}

pub(super) fn backward_filter() -> Graph {
    convolution_graph(ConvolutionDirection::BackwardFilter)
}

/// A convolution without g2, of two groups if asked.
pub(super) fn lone(direction: ConvolutionDirection, groups: i64) -> Graph {
    use ConvolutionDirection as D;
    let filter = [32, 16 / groups, 3, 3];
    let mut graph = half();
    let mut tensor = |name: &str, dim: [i64; 4]| graph.tensor(named(name, nhwc(dim)));
    let (inputs, dim) = match direction {
        D::Forward => ([tensor("X", IMAGE), tensor("W", filter)], RESPONSE),
        D::BackwardData => ([tensor("DY", RESPONSE), tensor("W", filter)], IMAGE),
        D::BackwardFilter => ([tensor("DY", RESPONSE), tensor("X", IMAGE)], filter),
    };
    let result = graph.convolution("conv", convolution(direction), inputs);
    output(&mut graph, result, named("Y", nhwc(dim)));
    graph
}

pub(super) fn grouped_forward() -> Graph {
    lone(ConvolutionDirection::Forward, 2)
}

pub(super) fn grouped_backward_data() -> Graph {
    lone(ConvolutionDirection::BackwardData, 2)
}

pub(super) fn grouped_backward_filter() -> Graph {
    lone(ConvolutionDirection::BackwardFilter, 2)
}

/// The result reduced over everything but its `kept` axes.
fn reduced(direction: ConvolutionDirection, dim: [i64; 4]) -> Graph {
    let mut graph = lone(direction, 1);
    let y = graph.operations()[0].result().expect("a convolution has a result");
    let virtual_ = Tensor { is_virtual: true, data_type: Some(DataType::Float), ..graph.tensors()[y.index()].clone() };
    output(&mut graph, y, virtual_);
    let r = graph.reduction("sum", ReductionMode::Add, y, dim);
    output(&mut graph, r, named("R", nhwc(dim)).data_type(DataType::Float));
    graph
}

pub(super) fn forward_reduction() -> Graph {
    reduced(ConvolutionDirection::Forward, [1, 32, 1, 1])
}

pub(super) fn backward_data_reduction() -> Graph {
    reduced(ConvolutionDirection::BackwardData, [1, 16, 1, 1])
}

pub(super) fn backward_filter_reduction() -> Graph {
    reduced(ConvolutionDirection::BackwardFilter, [32, 1, 1, 1])
}

/// `relu(x·scale + shift)` on the fusable operand of a convolution; all HALF.
fn chained(direction: ConvolutionDirection) -> Graph {
    use ConvolutionDirection as D;
    let mut graph = half().intermediate_data_type(DataType::Half);
    let channels = if direction == D::BackwardData { 32 } else { 16 };
    let mut tensor = |name: &str, dim: [i64; 4]| graph.tensor(named(name, nhwc(dim)));
    let (fusable, other, dim) = match direction {
        D::Forward => (tensor("X", IMAGE), tensor("W", FILTER), RESPONSE),
        D::BackwardData => (tensor("DY", RESPONSE), tensor("W", FILTER), IMAGE),
        D::BackwardFilter => (tensor("X", IMAGE), tensor("DY", RESPONSE), FILTER),
    };
    let scale = tensor("scale", [1, channels, 1, 1]);
    let shift = tensor("shift", [1, channels, 1, 1]);
    let scaled = graph.pointwise("mul", PointwiseMode::Mul, &[fusable, scale]);
    let shifted = graph.pointwise("add", PointwiseMode::Add, &[scaled, shift]);
    let relu = graph.pointwise("relu", PointwiseMode::ReluFwd, &[shifted]);
    let inputs = if direction == D::BackwardFilter { [other, relu] } else { [relu, other] };
    let result = graph.convolution("conv", convolution(direction), inputs);
    output(&mut graph, result, named("Y", nhwc(dim)));
    graph
}

pub(super) fn forward_g1() -> Graph {
    chained(ConvolutionDirection::Forward)
}

pub(super) fn backward_data_g1() -> Graph {
    chained(ConvolutionDirection::BackwardData)
}

pub(super) fn backward_filter_g1() -> Graph {
    chained(ConvolutionDirection::BackwardFilter)
}

/// One operand converted by IDENTITY from FLOAT to HALF before a forward convolution.
pub(super) fn forward_mixed() -> Graph {
    let mut graph = half();
    let x = graph.tensor(named("X", nhwc(IMAGE)).data_type(DataType::Float));
    let w = graph.tensor(named("W", nhwc(FILTER)));
    let converted = graph.pointwise("cast", PointwiseMode::Identity, &[x]);
    graph.tensor_mut(converted).data_type = Some(DataType::Half);
    let y = graph.convolution("conv", convolution(ConvolutionDirection::Forward), [converted, w]);
    output(&mut graph, y, named("Y", nhwc(RESPONSE)));
    graph
}

/// `Y = relu(X + bias)` without a core; dims `[2,16,8,8]`, bias `[1,16,1,1]`.
pub(super) fn image() -> Graph {
    let mut graph = half();
    let x = graph.tensor(named("X", nhwc(IMAGE)));
    let bias = graph.tensor(named("bias", nhwc([1, 16, 1, 1])));
    let biased = graph.pointwise("add", PointwiseMode::Add, &[x, bias]);
    let y = graph.pointwise("relu", PointwiseMode::ReluFwd, &[biased]);
    output(&mut graph, y, named("Y", nhwc(IMAGE)));
    graph
}

/// `Y = relu(X + bias)` without a core; dims `[2,32,64]`, bias `[2,1,64]`.
pub(super) fn matrix() -> Graph {
    let mut graph = half();
    let x = graph.tensor(named("X", rows([2, 32, 64])));
    let bias = graph.tensor(named("bias", rows([2, 1, 64])));
    let biased = graph.pointwise("add", PointwiseMode::Add, &[x, bias]);
    let y = graph.pointwise("relu", PointwiseMode::ReluFwd, &[biased]);
    output(&mut graph, y, named("Y", rows([2, 32, 64])));
    graph
}

/// `R = Σ X` per channel.
pub(super) fn image_reduction() -> Graph {
    let mut graph = half();
    let x = graph.tensor(named("X", nhwc(IMAGE)));
    let r = graph.reduction("sum", ReductionMode::Add, x, [1, 16, 1, 1]);
    output(&mut graph, r, named("R", nhwc([1, 16, 1, 1])).data_type(DataType::Float));
    graph
}

/// `M = X > Z` as BOOLEAN, then `Y = ¬M` as BOOLEAN.
pub(super) fn logic() -> Graph {
    let mut graph = half().intermediate_data_type(DataType::Boolean);
    let x = graph.tensor(named("X", nhwc(IMAGE)));
    let z = graph.tensor(named("Z", nhwc(IMAGE)));
    let mask = graph.pointwise("gt", PointwiseMode::CmpGt, &[x, z]);
    let y = graph.pointwise("not", PointwiseMode::LogicalNot, &[mask]);
    graph.last_operation().compute_data_type = Some(DataType::Boolean);
    output(&mut graph, y, named("Y", nhwc(IMAGE)).data_type(DataType::Boolean));
    graph
}

/// `SUM, SQSUM` of a forward convolution's result.
pub(super) fn genstats() -> Graph {
    let mut graph = lone(ConvolutionDirection::Forward, 1);
    let y = graph.operations()[0].result().expect("a convolution has a result");
    let (sum, sq_sum) = graph.genstats("stats", y);
    output(&mut graph, sum, named("SUM", nhwc([1, 32, 1, 1])).data_type(DataType::Float));
    output(&mut graph, sq_sum, named("SQSUM", nhwc([1, 32, 1, 1])).data_type(DataType::Float));
    graph
}

/// Attributes of a 2×2 pooling with stride 2.
pub(super) fn pool(mode: ResampleMode) -> Resample {
    let is_max = mode == ResampleMode::Maxpool;
    Resample {
        mode,
        padding_mode: if is_max { PaddingMode::NegInfPad } else { PaddingMode::ZeroPad },
        window: vec![Fraction::whole(2); 2],
        stride: vec![Fraction::whole(2); 2],
        pre_padding: vec![Fraction::whole(0); 2],
        post_padding: vec![Fraction::whole(0); 2],
        generate_index: None,
        alpha: 1.0,
        beta: 0.0,
    }
}

fn pooling(mode: ResampleMode) -> Graph {
    let mut graph = half();
    let x = graph.tensor(named("X", nhwc(IMAGE)));
    let y = graph.resample("pool", pool(mode), x);
    output(&mut graph, y, named("Y", nhwc(POOLED)));
    graph
}

pub(super) const POOLED: [i64; 4] = [2, 16, 4, 4];

pub(super) fn average_pool() -> Graph {
    pooling(ResampleMode::AvgpoolExcludePadding)
}

pub(super) fn max_pool() -> Graph {
    pooling(ResampleMode::Maxpool)
}

/// 2×2 max pooling that writes its index as INT8.
pub(super) fn indexed_pool() -> Graph {
    use crate::graph::Port;
    let mut graph = max_pool();
    let index = graph.tensor(named("index", nhwc(POOLED)).data_type(DataType::Int8));
    graph.last_operation().outputs.push((Port::INDEX, index));
    graph
}

/// Bilinear upsampling by two, FLOAT.
pub(super) fn bilinear() -> Graph {
    const HALF: Fraction = Fraction { numerator: 1, denominator: 2 };
    let mut graph = half().io_data_type(DataType::Float);
    let x = graph.tensor(named("X", nhwc(IMAGE)));
    let attributes = Resample {
        padding_mode: PaddingMode::EdgeValPad,
        stride: vec![HALF; 2],
        pre_padding: vec![HALF; 2],
        post_padding: vec![Fraction::whole(1); 2],
        ..pool(ResampleMode::Bilinear)
    };
    let y = graph.resample("up", attributes, x);
    output(&mut graph, y, named("Y", nhwc([2, 16, 16, 16])));
    graph
}

/// Backward pooling; max pooling reads the forward pass's index.
fn pooling_backward(mode: ResampleMode) -> Graph {
    use crate::graph::{Attributes, Operation, Port};
    let mut graph = half();
    let dy = graph.tensor(named("DY", nhwc(POOLED)));
    let dx = graph.tensor(named("DX", nhwc(IMAGE)));
    let mut inputs = vec![(Port::DY, dy)];
    if mode == ResampleMode::Maxpool {
        let index = graph.tensor(named("index", nhwc(POOLED)).data_type(DataType::Int8));
        inputs.push((Port::INDEX, index));
    }
    graph.operation(Operation {
        name: "pool".to_owned(),
        attributes: Attributes::ResampleBackward(pool(mode)),
        compute_data_type: None,
        inputs,
        outputs: vec![(Port::DX, dx)],
    });
    graph
}

pub(super) fn max_pool_backward() -> Graph {
    pooling_backward(ResampleMode::Maxpool)
}

pub(super) fn average_pool_backward() -> Graph {
    pooling_backward(ResampleMode::AvgpoolIncludePadding)
}

/// A forward convolution whose result is added to a pooled image.
pub(super) fn forward_pool() -> Graph {
    let mut graph = lone(ConvolutionDirection::Forward, 1);
    let y = graph.operations()[0].result().expect("a convolution has a result");
    *graph.tensor_mut(y) = Tensor { is_virtual: true, ..Tensor::new("conv::Y") };
    let z = graph.tensor(named("Z", nhwc([2, 32, 16, 16])));
    let pooled = graph.resample("pool", pool(ResampleMode::Maxpool), z);
    graph.tensor_mut(pooled).dim = RESPONSE.to_vec();
    let sum = graph.pointwise("add", PointwiseMode::Add, &[y, pooled]);
    output(&mut graph, sum, named("Y", nhwc(RESPONSE)));
    graph
}
