//! Normalisations and their statistics (frontend-json.md section 8; carried, not executed).

use super::layout::Layout;
use super::node::Node;
use super::reduction::channel_vector;
use crate::error::Malformed;
use crate::graph::{Other, Port};

const X: Port = Port("X");
const SCALE: Port = Port("SCALE");
const BIAS: Port = Port("BIAS");
const MEAN: Port = Port("MEAN");
const INV_VARIANCE: Port = Port("INV_VARIANCE");

/// Results and, for layer norms, parameters. Operations that no rule covers need dims on every tensor.
pub(super) fn infer(node: &mut Node, other: &Other) -> Result<(), Malformed> {
    match other.tag {
        "BATCHNORM" | "BATCHNORM_INFERENCE" => infer_batch(node),
        "BN_FINALIZE" => infer_like_sum(node),
        "LAYER_NORM" | "ADA_LAYER_NORM" | "RMS_NORM" => infer_layer(node),
        "INSTANCE_NORM" => infer_instance(node),
        "DBN" | "DBN_WEIGHT" | "INSTANCE_NORM_BPROP" => infer_backward(node, channel_vector),
        "LAYER_NORM_BPROP" | "ADA_LAYER_NORM_BPROP" | "RMS_NORM_BPROP" => infer_backward(node, without_batch),
        _ => Ok(()),
    }
}

/// These dims with axis 0 set to 1.
fn without_batch(dim: &[i64]) -> Vec<i64> {
    dim.iter().enumerate().map(|(axis, &extent)| if axis == 0 { 1 } else { extent }).collect()
}

fn infer_batch(node: &mut Node) -> Result<(), Malformed> {
    let statistics = channel_vector(node.dim(X)?);
    complete_like_x(node)?;
    for name in ["MEAN", "INV_VARIANCE", "NEXT_RUNNING_MEAN", "NEXT_RUNNING_VAR"] {
        if node.operation.output(Port(name)).is_some() {
            node.complete(Port(name), statistics.clone(), &Layout::ChannelsLast);
        }
    }
    Ok(())
}

/// Y has X's dims and strides.
fn complete_like_x(node: &mut Node) -> Result<(), Malformed> {
    let (dim, stride) = (node.dim(X)?.to_vec(), node.stride(X)?.to_vec());
    node.complete(Port::Y, dim, &Layout::Given(stride));
    Ok(())
}

fn infer_like_sum(node: &mut Node) -> Result<(), Malformed> {
    let dim = node.dim(Port::SUM)?.to_vec();
    complete_outputs(node, &dim);
    Ok(())
}

/// All results have these dims, channels last.
fn complete_outputs(node: &mut Node, dim: &[i64]) {
    for &(port, _) in &node.operation.outputs {
        node.complete(port, dim.to_vec(), &Layout::ChannelsLast);
    }
}

/// Statistics have X's extents wherever the scale has 1, and 1 elsewhere.
fn infer_layer(node: &mut Node) -> Result<(), Malformed> {
    complete_like_x(node)?;
    let (dim, order) = (node.dim(X)?.to_vec(), Layout::OrderOf(node.stride(X)?.to_vec()));
    for port in [SCALE, BIAS] {
        node.complete(port, without_batch(&dim), &order);
    }
    node.common_rank("NORM-SHAPE", &[X, SCALE])?;
    let pairs = dim.iter().zip(node.dim(SCALE)?);
    let statistics: Vec<i64> = pairs.map(|(&extent, &scale)| if scale == 1 { extent } else { 1 }).collect();
    for port in [MEAN, INV_VARIANCE] {
        node.complete(port, statistics.clone(), &order);
    }
    Ok(())
}

fn infer_instance(node: &mut Node) -> Result<(), Malformed> {
    complete_like_x(node)?;
    let dim = node.dim(X)?;
    let statistics: Vec<i64> =
        dim.iter().enumerate().map(|(axis, &extent)| if axis < 2 { extent } else { 1 }).collect();
    for port in [MEAN, INV_VARIANCE] {
        node.complete(port, statistics.clone(), &Layout::ChannelsLast);
    }
    Ok(())
}

/// DX is shaped like X; every other result like the parameters.
fn infer_backward(node: &mut Node, parameter_dim: fn(&[i64]) -> Vec<i64>) -> Result<(), Malformed> {
    let dim = node.dim(X)?.to_vec();
    node.complete(Port::DX, dim.clone(), &Layout::ChannelsLast);
    complete_outputs(node, &parameter_dim(&dim));
    Ok(())
}
