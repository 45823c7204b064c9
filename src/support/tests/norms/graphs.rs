//! Legal graphs with norms.

use super::super::graphs::named;
use super::super::{nhwc, rows};
use crate::graph::{
    BnBackwardWeights, BnFinalize, Composite, Convolution, ConvolutionDirection, DataType, Graph, NormBackward,
    NormForward, NormMode, NormPhase, PointwiseMode, Port, Scalar, Tensor, TensorHandle,
};

pub(super) const X: [i64; 4] = [4, 16, 6, 6];

/// HALF in device memory, FLOAT inside.
fn half() -> Graph {
    Graph::new().io_data_type(DataType::Half).intermediate_data_type(DataType::Float).compute_data_type(DataType::Float)
}

fn scalar(g: &mut Graph, port: Port) -> (Port, TensorHandle) {
    (port, g.tensor(Tensor::scalar(port.0, DataType::Float, Scalar::Float(1e-3))))
}

/// FLOAT tensors named by their ports, channels last.
fn vectors(g: &mut Graph, ports: &[Port], dim: &[i64]) -> Vec<(Port, TensorHandle)> {
    let vector = |port: Port| named(port.0, nhwc(dim)).data_type(DataType::Float);
    ports.iter().map(|&port| (port, g.tensor(vector(port)))).collect()
}

/// Adds an operation `norm`; results are stored under the names of their ports, the first in the type of the graph.
fn norm(
    g: &mut Graph,
    composite: impl Into<Composite>,
    inputs: &[(Port, TensorHandle)],
    outputs: &[Port],
) -> Vec<TensorHandle> {
    let results = g.composite("norm", composite, inputs, outputs);
    for (place, (&id, port)) in results.iter().zip(outputs).enumerate() {
        let output = g.set_output(id);
        output.name = port.0.to_owned();
        output.data_type = (place > 0).then_some(DataType::Float);
    }
    results
}

/// Keeps a result from memory.
fn hide(g: &mut Graph, id: TensorHandle) {
    let tensor = g.tensor_mut(id);
    (tensor.is_virtual, tensor.data_type) = (true, Some(DataType::Float));
}

fn store(g: &mut Graph, id: TensorHandle, name: &str, dim: &[i64]) {
    *g.tensor_mut(id) = named(name, nhwc(dim));
}

fn channel(x: &[i64]) -> Vec<i64> {
    x.iter().enumerate().map(|(axis, &extent)| if axis == 1 { extent } else { 1 }).collect()
}

/// Extents that statistics have.
fn kept(mode: NormMode, x: &[i64]) -> Vec<i64> {
    let is_kept = |axis: usize| match mode {
        NormMode::Layer | NormMode::Rms => axis == 0,
        NormMode::AdaLayer => axis < 2,
        NormMode::Instance | NormMode::Group { .. } => axis < 2,
        NormMode::Batch => axis == 1,
    };
    x.iter().enumerate().map(|(axis, &extent)| if is_kept(axis) { extent } else { 1 }).collect()
}

fn parameter(mode: NormMode, x: &[i64]) -> Vec<i64> {
    match mode {
        NormMode::Instance | NormMode::Batch => channel(x),
        NormMode::AdaLayer => vec![x[0], 1, x[2]],
        _ => x.iter().enumerate().map(|(axis, &extent)| if axis == 0 { 1 } else { extent }).collect(),
    }
}

const FORWARD: &[Port] = &[Port::Y, Port::MEAN, Port::INV_VARIANCE];

/// A norm for training; gives Y.
fn forward_on(g: &mut Graph, mode: NormMode, x: TensorHandle, dim: &[i64]) -> TensorHandle {
    let mut inputs = vec![(Port::X, x)];
    inputs.extend(vectors(g, &[Port::SCALE, Port::BIAS], &parameter(mode, dim)));
    inputs.push(scalar(g, Port::EPSILON));
    norm(g, NormForward::new(mode, NormPhase::Training), &inputs, FORWARD)[0]
}

/// A norm for training alone.
pub(super) fn forward(mode: NormMode, dim: &[i64]) -> Graph {
    let mut g = half();
    let x = g.tensor(named("X", nhwc(dim)));
    forward_on(&mut g, mode, x, dim);
    g
}

pub(in crate::support::tests) fn layer() -> Graph {
    forward(NormMode::Layer, &X)
}

pub(super) fn instance() -> Graph {
    forward(NormMode::Instance, &X)
}

/// A layer norm of the channels of each pixel.
pub(super) fn per_pixel() -> Graph {
    let mut g = half();
    let x = g.tensor(named("X", nhwc(X)));
    let mut inputs = vec![(Port::X, x)];
    inputs.extend(vectors(&mut g, &[Port::SCALE, Port::BIAS], &channel(&X)));
    inputs.push(scalar(&mut g, Port::EPSILON));
    norm(&mut g, NormForward::new(NormMode::Layer, NormPhase::Training), &inputs, &[Port::Y]);
    g
}

/// `norm(a + b) · c`, a chain on either side of the norm.
pub(super) fn chained() -> Graph {
    let mut g = half();
    let [a, b, c] = ["a", "b", "c"].map(|name| g.tensor(named(name, nhwc(X))));
    let sum = g.pointwise("add", PointwiseMode::Add, &[a, b]);
    let y = forward_on(&mut g, NormMode::Layer, sum, &X);
    hide(&mut g, y);
    let product = g.pointwise("mul", PointwiseMode::Mul, &[y, c]);
    store(&mut g, product, "P", &X);
    g
}

/// The same with a factor that the graph computes from c: what comes after the norm is no chain.
pub(super) fn branched(g: &mut Graph) {
    *g = chained();
    let c = g.tensor(named("d", nhwc(X)));
    let activated = g.pointwise("sigmoid", PointwiseMode::SigmoidFwd, &[c]);
    let operation = g.operations.iter_mut().find(|operation| operation.name == "mul").expect("it is there");
    operation.inputs[1].1 = activated;
}

/// An activated layer norm with a mask of where it is within limits (N-69), of a scale that is stored less one (N-71).
pub(super) fn clamped() -> Graph {
    let mut g = half();
    let x = g.tensor(named("X", nhwc(X)));
    let [less, bias] = ["less", "bias"].map(|name| g.tensor(named(name, nhwc(parameter(NormMode::Layer, &X)))));
    let one = scalar(&mut g, Port("one")).1;
    let scale = g.pointwise("centred", PointwiseMode::Add, &[less, one]);
    let inputs = [(Port::X, x), (Port::SCALE, scale), (Port::BIAS, bias), scalar(&mut g, Port::EPSILON)];
    let y = norm(&mut g, NormForward::new(NormMode::Layer, NormPhase::Inference), &inputs, &[Port::Y])[0];
    hide(&mut g, y);
    let y = g.pointwise("relu", PointwiseMode::ReluFwd, &[y]);
    store(&mut g, y, "Y", &X);
    let limits = [("above", PointwiseMode::CmpGt), ("below", PointwiseMode::CmpLt)].map(|(name, mode)| {
        let limit = scalar(&mut g, Port(name)).1;
        let bits = g.pointwise(name, mode, &[y, limit]);
        g.tensor_mut(bits).data_type = Some(DataType::Boolean);
        bits
    });
    let mask = g.pointwise("within", PointwiseMode::LogicalAnd, &limits);
    store(&mut g, mask, "mask", &X);
    g.tensor_mut(mask).data_type = Some(DataType::Boolean);
    g
}

/// Two norms, one after the other.
pub(super) fn twice(g: &mut Graph) {
    *g = layer();
    let y = g.operations()[0].result().expect("Y");
    hide(g, y);
    let epsilon = (Port::EPSILON, g.tensor(Tensor::scalar("other", DataType::Float, Scalar::Float(1e-3))));
    let again = NormForward::new(NormMode::Layer, NormPhase::Training);
    let results = g.composite("again", again, &[(Port::X, y), epsilon], &[Port::Y, Port::INV_VARIANCE]);
    store(g, results[0], "again::Y", &X);
    store(g, results[1], "again::INV", &kept(NormMode::Layer, &X));
    g.tensor_mut(results[1]).data_type = Some(DataType::Float);
}

const GRADIENTS: &[Port] = &[Port::DX, Port::DSCALE, Port::DBIAS];

/// A norm's gradients of a gradient.
fn backward_of(g: &mut Graph, mode: NormMode, dy: TensorHandle, dim: &[i64]) {
    let x = g.tensor(named("X", nhwc(dim)));
    let mut inputs = vec![(Port::DY, dy), (Port::X, x)];
    inputs.extend(vectors(g, &[Port::SCALE], &parameter(mode, dim)));
    inputs.extend(vectors(g, &[Port::MEAN, Port::INV_VARIANCE], &kept(mode, dim)));
    let dx = norm(g, NormBackward { mode }, &inputs, GRADIENTS)[0];
    store(g, dx, "DX", dim);
}

pub(super) fn backward(mode: NormMode, dim: &[i64]) -> Graph {
    let mut g = half();
    let dy = g.tensor(named("DY", nhwc(dim)));
    backward_of(&mut g, mode, dy, dim);
    g
}

pub(super) fn layer_backward() -> Graph {
    backward(NormMode::Layer, &X)
}

pub(super) fn instance_backward() -> Graph {
    backward(NormMode::Instance, &X)
}

/// A layer norm's gradient with one scale a channel.
pub(super) fn per_pixel_backward() -> Graph {
    let mut g = half();
    let [dy, x] = ["DY", "X"].map(|name| g.tensor(named(name, nhwc(X))));
    let mut inputs = vec![(Port::DY, dy), (Port::X, x)];
    inputs.extend(vectors(&mut g, &[Port::SCALE], &channel(&X)));
    inputs.extend(vectors(&mut g, &[Port::MEAN, Port::INV_VARIANCE], &[X[0], 1, X[2], X[3]]));
    norm(&mut g, NormBackward { mode: NormMode::Layer }, &inputs, GRADIENTS);
    g
}

/// `Y = relu(norm(X) + Z)`; of batch norms with running statistics.
pub(super) fn activated(mode: NormMode, dim: &[i64], steps: [PointwiseMode; 2]) -> Graph {
    let mut g = half();
    let [x, z] = ["X", "Z"].map(|name| g.tensor(named(name, nhwc(dim))));
    let mut inputs = vec![(Port::X, x)];
    inputs.extend(vectors(&mut g, &[Port::SCALE, Port::BIAS], &parameter(mode, dim)));
    inputs.push(scalar(&mut g, Port::EPSILON));
    let mut outputs = FORWARD.to_vec();
    if mode == NormMode::Batch {
        inputs.extend(vectors(&mut g, &[Port::PREV_RUNNING_MEAN, Port::PREV_RUNNING_VAR], &channel(dim)));
        inputs.push(scalar(&mut g, Port::MOMENTUM));
        outputs.extend([Port::NEXT_RUNNING_MEAN, Port::NEXT_RUNNING_VAR]);
    }
    let mut value = norm(&mut g, NormForward::new(mode, NormPhase::Training), &inputs, &outputs)[0];
    hide(&mut g, value);
    g.tensor_mut(value).name = "norm::Y".to_owned();
    for (name, step) in ["first", "second"].into_iter().zip(steps) {
        let operands = if step.inputs() == 2 { vec![value, z] } else { vec![value] };
        value = g.pointwise(name, step, &operands);
    }
    store(&mut g, value, "Y", dim);
    g
}

const ADD_RELU: [PointwiseMode; 2] = [PointwiseMode::Add, PointwiseMode::ReluFwd];

pub(in crate::support::tests) fn add_relu() -> Graph {
    activated(NormMode::Batch, &X, ADD_RELU)
}

pub(in crate::support::tests) fn add_relu_of(mode: NormMode, dim: &[i64]) -> Graph {
    activated(mode, dim, ADD_RELU)
}

/// The ADD behind the ReLU.
pub(super) fn relu_add(g: &mut Graph) {
    *g = activated(NormMode::Batch, &X, [PointwiseMode::ReluFwd, PointwiseMode::Add]);
}

/// With packed bits of where Y is above zeros in memory.
pub(super) fn masked() -> Graph {
    let mut g = add_relu();
    let zeros = g.tensor(named("zeros", nhwc(X)));
    let y = g.operations().last().and_then(|relu| relu.result()).expect("Y");
    let mask = g.pointwise("mask", PointwiseMode::CmpGt, &[y, zeros]);
    store(&mut g, mask, "bits", &X);
    g.tensor_mut(mask).data_type = Some(DataType::Boolean);
    g
}

/// A batch norm for inference, activated.
pub(super) fn inference() -> Graph {
    let mut g = half();
    let x = g.tensor(named("X", nhwc(X)));
    let ports = [Port::MEAN, Port::INV_VARIANCE, Port::SCALE, Port::BIAS];
    let inputs = [vec![(Port::X, x)], vectors(&mut g, &ports, &channel(&X))].concat();
    let y = norm(&mut g, NormForward::new(NormMode::Batch, NormPhase::Inference), &inputs, &[Port::Y])[0];
    hide(&mut g, y);
    let y = g.pointwise("relu", PointwiseMode::ReluFwd, &[y]);
    store(&mut g, y, "Y", &X);
    g
}

/// `dz = dy·mask` into a norm's gradients.
pub(super) fn masked_backward(mode: NormMode, dim: &[i64]) -> Graph {
    let mut g = half();
    let dy = g.tensor(named("dY", nhwc(dim)));
    let mask = g.tensor(named("mask", nhwc(dim)).data_type(DataType::Boolean));
    let dz = g.pointwise("drelu", PointwiseMode::Mul, &[dy, mask]);
    g.tensor_mut(dz).data_type = Some(DataType::Half);
    backward_of(&mut g, mode, dz, dim);
    g
}

pub(super) fn drelu() -> Graph {
    masked_backward(NormMode::Batch, &X)
}

/// The forward norm again, for its ReLU's gradient, which goes on into the norm's (N-66).
pub(super) fn recomputed() -> Graph {
    let mut g = half();
    let [dy, x] = ["dY", "X"].map(|name| g.tensor(named(name, nhwc(X))));
    let ports = [Port::MEAN, Port::INV_VARIANCE, Port::SCALE, Port::BIAS];
    let parameters = vectors(&mut g, &ports, &channel(&X));
    let forward = [vec![(Port::X, x)], parameters.clone()].concat();
    let again = NormForward::new(NormMode::Batch, NormPhase::Inference);
    let y = g.composite("again", again, &forward, &[Port::Y])[0];
    let dz = g.pointwise("drelu", PointwiseMode::ReluBwd, &[dy, y]);
    g.tensor_mut(dz).data_type = Some(DataType::Half);
    let backward = [vec![(Port::DY, dz), (Port::X, x)], parameters[..3].to_vec()].concat();
    let dx = norm(&mut g, NormBackward { mode: NormMode::Batch }, &backward, GRADIENTS)[0];
    store(&mut g, dx, "DX", &X);
    g
}

const EQUIVALENT: &[Port] = &[Port::EQ_SCALE, Port::EQ_BIAS, Port::MEAN, Port::INV_VARIANCE];

/// Equivalent scale and bias of sums.
pub(super) fn finalize_of(dim: &[i64]) -> Graph {
    let mut g = half().io_data_type(DataType::Float);
    let mut inputs = vectors(&mut g, &[Port::SUM, Port::SQ_SUM, Port::SCALE, Port::BIAS], dim);
    inputs.push(scalar(&mut g, Port::EPSILON));
    let count = Tensor::scalar(Port::ACCUM_COUNT.0, DataType::Int64, Scalar::Integer(64));
    inputs.push((Port::ACCUM_COUNT, g.tensor(count)));
    norm(&mut g, BnFinalize::default(), &inputs, EQUIVALENT);
    g
}

pub(super) fn finalize() -> Graph {
    finalize_of(&[1, 16, 1, 1])
}

const WEIGHTS: &[Port] = &[Port::DSCALE, Port::DBIAS, Port::EQ_BIAS, Port::EQ_SCALE_DY, Port::EQ_SCALE_X];

/// `dy_bn = drelu(dgrad(dy, W), (X − mean)·inv·scale + bias)`, and what DBN_WEIGHT makes of it.
pub(super) fn weights() -> Graph {
    let mut g = half();
    let [dy, x] = [("dy", [4, 32, 6, 6]), ("X", X)].map(|(name, dim)| g.tensor(named(name, nhwc(dim))));
    let filter = g.tensor(named("W", nhwc([32, 16, 3, 3])));
    let dgrad = Convolution::new(ConvolutionDirection::BackwardData, 2).padding([1, 1]);
    let gradient = g.convolution("dgrad", dgrad, [dy, filter]);
    g.tensor_mut(gradient).dim = X.to_vec();
    let ports = [Port::MEAN, Port::INV_VARIANCE, Port::SCALE, Port::BIAS];
    let parameters = vectors(&mut g, &ports, &channel(&X));
    use PointwiseMode as M;
    let mut value = x;
    for ((name, mode), &(_, side)) in
        [("sub", M::Sub), ("invstd", M::Mul), ("scale", M::Mul), ("bias", M::Add)].into_iter().zip(&parameters)
    {
        value = g.pointwise(name, mode, &[value, side]);
    }
    let dy_bn = g.pointwise("drelu", M::ReluBwd, &[gradient, value]);
    store(&mut g, dy_bn, "dy_bn", &X);
    let inputs = [vec![(Port::DY, dy_bn), (Port::X, x)], parameters[..3].to_vec()].concat();
    let results = norm(&mut g, BnBackwardWeights, &inputs, WEIGHTS);
    g.tensor_mut(results[0]).data_type = Some(DataType::Float);
    g
}

/// The mean taken away by an ADD with a scaled second input.
pub(super) fn added_with(g: &mut Graph, alpha2: f32) {
    let operation = g.operations.iter_mut().find(|operation| operation.name == "sub").expect("it is there");
    let added = crate::graph::Pointwise { alpha2, ..crate::graph::Pointwise::new(PointwiseMode::Add) };
    operation.attributes = crate::graph::Attributes::Pointwise(added);
}

/// Every tensor of X's dims row by row.
pub(super) fn in_rows(g: &mut Graph, names: &[&str]) {
    let finalized = g.finalize().expect("well formed");
    for name in names {
        let tensor = finalized.tensors().find(|tensor| tensor.name == *name).expect("it is there");
        super::Edit::reshape(g, name, rows(tensor.dim.clone()));
    }
}
