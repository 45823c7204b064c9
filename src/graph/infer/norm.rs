//! Normalisations and their statistics (frontend-json.md section 8; carried, not executed).

use super::layout::Layout;
use super::node::Node;
use super::reduction::channel_vector;
use crate::graph::Malformed;
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

#[cfg(test)]
mod tests {
    use crate::graph::samples::{half_graph, image, input, other, refusal, shape_of};
    use crate::graph::{Attributes, Graph, Other, Tensor, TensorHandle};

    /// A norm of X, whose other inputs are named and shaped by `parameters`.
    fn norm(tag: &'static str, x: &[i64], parameters: &[(&'static str, &[i64])], outputs: &[&'static str]) -> Graph {
        let mut graph = half_graph();
        let x = image(&mut graph, "X", x);
        let mut inputs = vec![("X", x)];
        for &(port, dim) in parameters {
            let id: TensorHandle =
                if dim.is_empty() { graph.tensor(Tensor::new(port)) } else { input(&mut graph, port, dim) };
            inputs.push((port, id));
        }
        other(&mut graph, Attributes::Other(Other { tag, attributes: [].into() }), &inputs, outputs);
        graph
    }

    fn dims(graph: &Graph, names: &[&str]) -> Vec<Vec<i64>> {
        let finalized = graph.finalize().unwrap();
        names.iter().map(|name| shape_of(&finalized, name).0.to_vec()).collect()
    }

    const X: &[i64] = &[4, 6, 5, 7];
    const CHANNEL: &[i64] = &[1, 6, 1, 1];
    const ONE: &[i64] = &[1, 1, 1, 1];

    #[test]
    fn batch_norm() {
        let parameters = [("SCALE", CHANNEL), ("BIAS", CHANNEL), ("EPSILON", ONE)];
        let outputs = ["Y", "MEAN", "INV_VARIANCE", "NEXT_RUNNING_MEAN", "NEXT_RUNNING_VAR"];
        let graph = norm("BATCHNORM", X, &parameters, &outputs);
        assert_eq!(dims(&graph, &outputs), [X, CHANNEL, CHANNEL, CHANNEL, CHANNEL]);
        let inference = [("SCALE", CHANNEL), ("BIAS", CHANNEL), ("MEAN", CHANNEL), ("INV_VARIANCE", CHANNEL)];
        assert_eq!(dims(&norm("BATCHNORM_INFERENCE", X, &inference, &["Y"]), &["Y"]), [X]);
    }

    #[test]
    fn batch_norm_parts() {
        let outputs = ["EQ_SCALE", "EQ_BIAS", "MEAN", "INV_VARIANCE"];
        let finalize = norm("BN_FINALIZE", X, &[("SUM", CHANNEL), ("SQ_SUM", CHANNEL)], &outputs);
        assert_eq!(dims(&finalize, &outputs), [CHANNEL; 4]);
        let parameters = [("DY", X), ("SCALE", CHANNEL), ("MEAN", CHANNEL), ("INV_VARIANCE", CHANNEL)];
        let backward = norm("DBN", X, &parameters, &["DX", "DSCALE", "DBIAS"]);
        assert_eq!(dims(&backward, &["DX", "DSCALE", "DBIAS"]), [X, CHANNEL, CHANNEL]);
        let weight = norm("DBN_WEIGHT", X, &parameters, &["DSCALE", "EQ_BIAS", "EQ_SCALE_X"]);
        assert_eq!(dims(&weight, &["DSCALE", "EQ_BIAS", "EQ_SCALE_X"]), [CHANNEL; 3]);
    }

    #[test]
    fn layer_norms_infer_parameters_and_statistics() {
        let parameters: [(&str, &[i64]); 3] = [("SCALE", &[]), ("BIAS", &[]), ("EPSILON", ONE)];
        for tag in ["LAYER_NORM", "ADA_LAYER_NORM", "RMS_NORM"] {
            let graph = norm(tag, X, &parameters, &["Y", "MEAN", "INV_VARIANCE"]);
            let finalized = graph.finalize().unwrap();
            assert_eq!(shape_of(&finalized, "SCALE"), (&[1, 6, 5, 7][..], &[210, 1, 42, 6][..]));
            assert_eq!(dims(&graph, &["Y", "MEAN", "INV_VARIANCE"]), [X, &[4, 1, 1, 1], &[4, 1, 1, 1]]);
        }
        let last_axis = norm("LAYER_NORM", X, &[("SCALE", &[1, 1, 1, 7]), ("BIAS", &[1, 1, 1, 7])], &["Y", "MEAN"]);
        assert_eq!(dims(&last_axis, &["MEAN"]), [[4, 6, 5, 1]]);
        assert!(
            refusal(&norm("LAYER_NORM", X, &[("SCALE", &[7])], &["Y"]))
                .contains("rank 1 with dims [7], but X has rank 4")
        );
    }

    #[test]
    fn instance_norm() {
        let parameters = [("SCALE", CHANNEL), ("BIAS", CHANNEL), ("EPSILON", ONE)];
        let graph = norm("INSTANCE_NORM", X, &parameters, &["Y", "MEAN", "INV_VARIANCE"]);
        assert_eq!(dims(&graph, &["Y", "MEAN", "INV_VARIANCE"]), [X, &[4, 6, 1, 1], &[4, 6, 1, 1]]);
        let missing = norm("INSTANCE_NORM", X, &[("SCALE", &[])], &["Y"]);
        assert!(refusal(&missing).contains("'SCALE': dims must be given"));
    }

    #[test]
    fn gradients_of_norms() {
        let parameters = [("DY", X), ("SCALE", CHANNEL), ("MEAN", ONE), ("INV_VARIANCE", ONE)];
        let outputs = ["DX", "DSCALE", "DBIAS"];
        for tag in ["LAYER_NORM_BPROP", "ADA_LAYER_NORM_BPROP", "RMS_NORM_BPROP"] {
            assert_eq!(dims(&norm(tag, X, &parameters, &outputs), &outputs), [X, &[1, 6, 5, 7], &[1, 6, 5, 7]]);
        }
        assert_eq!(dims(&norm("INSTANCE_NORM_BPROP", X, &parameters, &outputs), &outputs), [X, CHANNEL, CHANNEL]);
    }

    #[test]
    fn what_no_rule_covers_must_be_given() {
        let graph = norm("MOE_GROUPED_MATMUL_BWD", X, &[], &["DWeight"]);
        assert!(refusal(&graph).contains("'DWeight': dims must be given; they cannot be inferred"));
    }
}
